// Tables, code, formulas, footnotes, lists, images and quotes in the three formats.
import t from 'tap';
import { contentOf as blocksOf } from '../../src/extract/content-builder.ts';
import { htmlOf } from '../../src/extract/html-writer.ts';
import { clean, type PageFormat } from '../../src/extract/index.ts';
import { UrlResolver } from '../../src/extract/links.ts';
import { markdownOf } from '../../src/extract/markdown-writer.ts';
import { parse } from '../../src/extract/parse.ts';
import { textOf } from '../../src/extract/text-writer.ts';

const WRITERS = { text: textOf, markdown: markdownOf, html: htmlOf };

/** HTML that is content as a whole, in a format. */
function contentOf(html: string, format: PageFormat): string {
  const { tree } = parse(html);
  return WRITERS[format](blocksOf(tree, new Uint8Array(tree.count), new UrlResolver('https://a.example/b/', '')));
}

interface Case {
  readonly html: string;
  readonly text?: string;
  readonly markdown?: string;
  readonly clean?: string;
}

function check(t: { equal(found: string, wanted: string, name: string): boolean }, cases: readonly Case[]): void {
  for (const { html, text, markdown, clean: written } of cases) {
    if (text !== undefined) t.equal(contentOf(html, 'text'), text, `text of ${html}`);
    if (markdown !== undefined) t.equal(contentOf(html, 'markdown'), markdown, `Markdown of ${html}`);
    if (written !== undefined) t.equal(contentOf(html, 'html'), written, `HTML of ${html}`);
  }
}

t.test('tables are laid out as a grid', async (t) => {
  check(t, [
    {
      html: '<table><tr><th>a</th></tr><tr><td>1</td><td>2</td><td>3</td></tr><tr><td>4</td><td>5</td></tr></table>',
      text: 'a\n1\t2\t3\n4\t5',
      markdown: '| a |  |  |\n| --- | --- | --- |\n| 1 | 2 | 3 |\n| 4 | 5 |  |',
    },
    {
      html: '<table><tr><th colspan="2">a</th><th>b</th></tr><tr><td rowspan=2>1</td><td>2</td><td>3</td></tr><tr><td>4</td><td>5</td></tr></table>',
      text: 'a\t\tb\n1\t2\t3\n\t4\t5',
      markdown: '| a |  | b |\n| --- | --- | --- |\n| 1 | 2 | 3 |\n|  | 4 | 5 |',
      clean:
        '<table><tbody><tr><th colspan="2">a</th><th>b</th></tr><tr><td rowspan="2">1</td><td>2</td><td>3</td></tr><tr><td>4</td><td>5</td></tr></tbody></table>',
    },
    {
      html: '<table><caption>Rivers and dams</caption><tr><td>a<br>b<td><ul><li>c<li>d</ul><tr><td><p>e</p><p>f</p><td><pre>g|h\ni</pre></table>',
      text: 'Rivers and dams\n\na; b\t- c; - d\ne; f\tg|h; i',
      markdown: 'Rivers and dams\n\n| a<br>b | • c<br>• d |\n| --- | --- |\n| e<br>f | `g\\|h`<br>`i` |',
      clean:
        '<table><caption>Rivers and dams</caption><tbody><tr><td>a<br>b</td><td><ul><li>c</li><li>d</li></ul></td></tr><tr><td><p>e</p><p>f</p></td><td><pre><code>g|h\ni</code></pre></td></tr></tbody></table>',
    },
    {
      html: '<table><tr><td><p>a</p><p>b</p></td></tr></table>',
      text: 'a\n\nb',
      markdown: 'a\n\nb',
      clean: '<p>a</p>\n<p>b</p>',
    },
    {
      html: '<table><tr><td><h2>a</h2></td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>',
      markdown: '## a\n\nb\n\nc\n\nd',
    },
  ]);
});

t.test('code has its language and no line numbers', async (t) => {
  const languages = [
    '<div class="highlight highlight-source-ts"><pre>x</pre></div>',
    '<div class="language-ts highlighter-rouge"><div class="highlight"><pre class="highlight"><code>x</code></pre></div></div>',
    '<pre class="language-ts"><code class="language-ts">x</code></pre>',
    '<pre class="shiki" data-language="ts"><code><span class="line">x</span></code></pre>',
    '<pre><code class="hljs ts">x</code></pre>',
    '<div class="highlight-ts notranslate"><div class="highlight"><pre><span></span>x</pre></div></div>',
    '<pre class="brush: ts; toolbar: false">x</pre>',
    '<div class="sourceCode"><pre class="sourceCode ts"><code>x</code></pre></div>',
    '<pre lang="ts">x</pre>',
    '<pre class="src src-ts">x</pre>',
    '<figure class="highlight ts"><table><tr><td class="gutter"><pre><span class="line">1</span><br></pre></td><td class="code"><pre><span class="line">x</span><br></pre></td></tr></table></figure>',
  ];
  for (const html of languages) t.equal(contentOf(html, 'markdown'), '```ts\nx\n```', html);
  t.equal(contentOf('<div class="lang-en"><pre class="language-none">x</pre></div>', 'markdown'), '```\nx\n```');
  const gutters = [
    '<table class="highlighttable"><tr><td class="linenos"><div class="linenodiv"><pre>1\n2\n3</pre></div></td><td class="code"><div class="highlight"><pre>a\n\n  b\n</pre></div></td></tr></table>',
    '<pre><code><table class="rouge-table"><tr><td class="rouge-gutter gl"><pre class="lineno">1\n2\n3\n</pre></td><td class="rouge-code"><pre>a\n\n  b\n</pre></td></tr></table></code></pre>',
    '<pre><span class="linenos">1</span>a\n<span class="linenos">2</span>\n<span class="linenos">3</span>  b</pre>',
    '<table><tr><td class="blob-num" data-line-number="1"></td><td class="blob-code">a</td></tr><tr><td class="blob-num" data-line-number="2"></td><td class="blob-code"><br></td></tr><tr><td class="blob-num" data-line-number="3"></td><td class="blob-code">  b</td></tr></table>',
    '<pre class="rust"><code><a href=#1 id=1 data-nosnippet>1</a><span class="kw">a</span>\n<a href=#2 id=2 data-nosnippet>2</a>\n<a href=#3 id=3 data-nosnippet>3</a>  b</code></pre>',
    '<pre><span class="linenr">1: </span>a\n<span class="linenr">2: </span>\n<span class="linenr">3: </span>&nbsp; b</pre>',
    '<div class="fragment"><div class="line"><a id="l1" name="l1"></a><span class="lineno">    1</span>a</div>\n<div class="line"><a id="l2"></a><span class="lineno">    2</span> </div>\n<div class="line"><a id="l3"></a><span class="lineno">    3</span>  <b>b</b></div>\n</div><!-- fragment -->',
    '<div class="fragment"><div class="line">a</div>\n<div class="line"> </div>\n<div class="line">&#160; b</div>\n<div class="ttc" id="b"><div class="ttdef">c</div></div></div>',
  ];
  for (const html of gutters) {
    t.equal(contentOf(html, 'text'), 'a\n\n  b', html);
    t.equal(contentOf(html, 'html'), '<pre><code>a\n\n  b</code></pre>', html);
  }
  t.equal(contentOf('<div class="fragment"><p>a</p><p>b</p></div>', 'text'), 'a\n\nb');
  t.match(contentOf('<pre><span class="number">1</span> + <b class="ln">x2</b></pre>', 'text'), '1 + x2');
});

t.test('formulas keep their TeX', async (t) => {
  const inline = [
    '<math><semantics><mrow><mi>x</mi></mrow><annotation encoding="application/x-tex">x^{2}</annotation></semantics></math>',
    '<math alttext="{\\displaystyle x^{2}}"><mi>x</mi></math>',
    '<span class="katex"><span class="katex-mathml"><math><semantics><mi>x</mi><annotation encoding="application/x-tex">x^{2}</annotation></semantics></math></span><span class="katex-html" aria-hidden="true">x2</span></span>',
    '<span class="MathJax_Preview"></span><span class="MathJax">x2</span><script type="math/tex">x^{2}</script>',
    '<span><span style="display: none"><math alttext="x^{2}"></math></span><img src="/x.svg" class="mwe-math-fallback-image-inline" alt="{\\displaystyle x^{2}}"></span>',
    '\\(x^{2}\\)',
  ];
  for (const html of inline) {
    t.equal(contentOf(`<p>So ${html} it is.</p>`, 'markdown'), 'So $x^{2}$ it is.', html);
    t.equal(contentOf(`<p>So ${html} it is.</p>`, 'text'), 'So x^2 it is.', html);
    t.equal(
      contentOf(`<p>So ${html} it is.</p>`, 'html'),
      '<p>So <code class="language-math">x^{2}</code> it is.</p>',
      html,
    );
  }
  check(t, [
    {
      html: '<p>$$\\frac{a}{b}$$</p>',
      markdown: '$$\n\\frac{a}{b}\n$$',
      clean: '<pre><code class="language-math">\\frac{a}{b}</code></pre>',
    },
    {
      html: '<math display="block"><msup><mi>x</mi><mn>2</mn></msup><mo>=</mo><mfrac><mi>a</mi><mi>b</mi></mfrac></math>',
      text: 'x^2 = \\frac{a}{b}',
    },
    { html: '<p>If \\(a < b\\), then $$c <= d < e &lt; f$$ <3</p>', markdown: 'If $a < b$, then $c <= d < e < f$ <3' },
    { html: '<p>Costs $5, \\(x\\), $6</p>', markdown: 'Costs \\$5, $x$, \\$6' },
    { html: '<p>Costs $5 and $6</p>', markdown: 'Costs $5 and $6' },
    {
      html: '<p>m<sup>2</sup> H<sub>2</sub>O e<sup>iπ</sup> k<sub>B</sub> 1<sup>st</sup></p>',
      text: 'm² H₂O e^(iπ) k_B 1st',
      markdown: 'm<sup>2</sup> H<sub>2</sub>O e<sup>iπ</sup> k<sub>B</sub> 1<sup>st</sup>',
    },
  ]);
});

t.test('a line end within East Asian text is no space', async (t) => {
  t.equal(
    contentOf('<p>水車は\n  回る。\r\n次に、\n水 車。Mill\n水車\nMill 물\n레</p>', 'text'),
    '水車は回る。次に、水 車。Mill 水車 Mill 물 레',
  );
});

t.test('characters that a page draws are text', async (t) => {
  const html = '<p>A <img class="emoji" alt="🙂" src="/1f642.png"><img alt="B" src="/b.png"></p>';
  t.equal(contentOf(html, 'text'), 'A 🙂');
  t.equal(contentOf(html, 'markdown'), 'A 🙂![B](https://a.example/b.png)');
});

t.test('short text within a line that is not displayed is left out', async (t) => {
  const long = 'What a reader gets behind "more" is content. '.repeat(3).trim();
  const html = `<p>Born <span style="display:none">(1955-02-24)</span>February 24, 1955<b hidden>x</b>. <a hidden href="/l">L</a> <i aria-hidden="true">A</i>
    <img style="display:none" src="/i.png" alt="I"><span style="visibility: hidden">${long}</span></p>`;
  t.equal(contentOf(html, 'text'), `Born February 24, 1955. L A ${long}`);
  t.match(contentOf(html, 'markdown'), '![I]');
});

t.test('formulas of MathML are TeX that means the same', async (t) => {
  const cases = [
    ['<mfrac linethickness="0"><mi>n</mi><mi>k</mi></mfrac>', '{n \\atop k}'],
    ['<mfenced open="{" close="]"><mi>a</mi><mi>b</mi><mi>c</mi></mfenced>', '\\{a,b,c]'],
    ['<mfenced separators="; |"><mi>a</mi><mi>b</mi><mi>c</mi></mfenced>', '(a;b|c)'],
    ['<mover><mi>v</mi><mo>→</mo></mover><mover><mi>x</mi><mo>^</mo></mover>', '\\vec{v}\\hat{x}'],
    ['<mover><mo>→</mo><mi>f</mi></mover><munder><mi>x</mi><mo>_</mo></munder>', '\\overset{f}{ → }\\underline{x}'],
    ['<munderover><mo>∑</mo><mi>i</mi><mi>n</mi></munderover>', '∑_i^n'],
    ['<munder><mo>lim</mo><mi>x</mi></munder><mi>sin</mi><mo>\u2061</mo><mi>x</mi>', '\\lim _x\\sin x'],
    ['<msup><msup><mi>x</mi><mn>2</mn></msup><mn>3</mn></msup>', '{x^2}^3'],
    ['<msup><mrow/><mn>2</mn></msup><mspace width="1em"/><mi>x</mi>', '^2x'],
    ['<msub><mphantom><mi>x</mi></mphantom><mi>i</mi></msub>', '_i'],
    ['<mmultiscripts><mi>C</mi><none/><mn>2</mn><mprescripts/><mn>6</mn><mn>14</mn></mmultiscripts>', '{}_6^{14}C^2'],
    ['<mn>5</mn><mo>%</mo><mo>{</mo><mi>a_b</mi><mo>}</mo><mo>\\</mo>', '5\\%\\{a\\_b\\}\\backslash'],
  ] as const;
  for (const [mathMl, tex] of cases)
    t.equal(contentOf(`<p><math>${mathMl}</math></p>`, 'markdown'), `$${tex}$`, mathMl);
});

t.test('references of footnotes are paired with their notes', async (t) => {
  const html = `<p>A claim<sup id="r1"><a href="#n1">[1]</a></sup> and another<a class="footnote-ref" role="doc-noteref" href="#n2">2</a>.</p>
    <ol><li id="n1"><p>First note. <a href="#r1">↩</a></p></li><li id="n2"><p>Second.</p><p>More. <a class="footnote-back" href="#r2">back</a></p></li></ol>`;
  check(t, [
    {
      html,
      text: 'A claim[1] and another[2].\n\n[1] First note.\n\n[2] Second.\n\nMore.',
      markdown: 'A claim[^1] and another[^2].\n\n[^1]: First note.\n\n[^2]: Second.\n\n    More.',
      clean:
        '<p>A claim<sup id="fnref-1"><a href="#fn-1">1</a></sup> and another<sup id="fnref-2"><a href="#fn-2">2</a></sup>.</p>\n<ol><li id="fn-1"><p>First note.</p></li><li id="fn-2"><p>Second.</p><p>More.</p></li></ol>',
    },
    {
      html: '<p>A claim<sup><a href="#gone">1</a></sup>.</p>',
      text: 'A claim¹.',
      markdown: 'A claim<sup>[1](https://a.example/b/#gone)</sup>.',
    },
  ]);
});

t.test('footnotes are paired as publishing systems mark them', async (t) => {
  const pages = {
    substack: `<p>A<a class="footnote-anchor" id="footnote-anchor-1" href="#footnote-1">1</a></p>
      <div class="footnote"><a id="footnote-1" href="#footnote-anchor-1" class="footnote-number">1</a><div><p>N</p></div></div>`,
    sphinx: `<p>A<a class="footnote-reference brackets" href="#id2" id="id1" role="doc-noteref"><span class="fn-bracket">[</span>1<span class="fn-bracket">]</span></a></p>
      <aside class="footnote brackets" id="id2"><span class="label"><span class="fn-bracket">[</span><a role="doc-backlink" href="#id1">1</a><span class="fn-bracket">]</span></span><p>N</p></aside>`,
    docBook: `<p>A<a href="#ftn.a" class="footnote" id="a"><sup>[1]</sup></a></p><div id="ftn.a"><p><a href="#a"><sup>[1] </sup></a>N</p></div>`,
    word: '<p>A<a name="_ftnref1" href="#_ftn1">[1]</a></p><div><p><a name="_ftn1" href="#_ftnref1">[1]</a> N</p></div>',
  };
  for (const [name, html] of Object.entries(pages)) t.equal(contentOf(html, 'markdown'), 'A[^1]\n\n[^1]: N', name);
  const elsewhere = '<p id="p">A<sup><a href="#n">1</a></sup></p><ul><li id="n">See <a href="#p">there</a></li></ul>';
  t.equal(contentOf(elsewhere, 'text'), 'A[1]\n\n[1] See there');
});

t.test('footnotes of Wikipedia are paired, with links back that are raised, and keep their labels', async (t) => {
  const reference = (id: string, note: string, label: string): string =>
    `<sup id="${id}" class="reference"><a href="#${note}"><span class="cite-bracket">[</span>${label}<span class="cite-bracket">]</span></a></sup>`;
  const back = (id: string, sign: string): string => ` <a href="#${id}"><sup><i><b>${sign}</b></i></sup></a>`;
  const html = `<p>One${reference('r1', 'n1', 'n 1')}, two${reference('r2', 'n2', '1')}.</p>
    <p>Three${reference('r3', 'n2', '1')}, four${reference('r4', 'n3', '*')}, five${reference('r5', 'n4', '1')}, six${reference('r6', 'n5', '2')}.</p>
    <ol><li id="n1"><span class="mw-cite-backlink"><b><a href="#r1">^</a></b></span> <span>A</span></li></ol>
    <ol><li id="n2"><span class="mw-cite-backlink">^${back('r2', 'a')}${back('r3', 'b')}</span> <span>B</span></li><li id="n3">C</li></ol>
    <ol><li id="n4">D</li><li id="n5"><span rel="mw:referencedBy"><a href="./x#r6"><span>1 </span></a></span> <span>E</span></li></ol>`;
  t.equal(
    contentOf(html, 'markdown'),
    'One[^n-1], two[^1].\n\nThree[^1], four[^3], five[^4], six[^2].\n\n[^n-1]: A\n\n[^1]: B\n\n[^3]: C\n\n[^4]: D\n\n[^2]: E',
  );
});

t.test('lists are numbered as displayed', async (t) => {
  check(t, [
    {
      html: '<ol start=3><li>a<ol type=a><li>b<li>c</ol><li>d</ol>',
      text: '3. a\n   a. b\n   b. c\n4. d',
      markdown: '3. a\n   1. b\n   2. c\n4. d',
      clean: '<ol start="3"><li>a<ol type="a"><li>b</li><li>c</li></ol></li><li>d</li></ol>',
    },
    {
      html: '<ol reversed><li>a<li>b</ol>',
      text: '2. a\n1. b',
      markdown: '2. a\n1) b',
      clean: '<ol reversed><li>a</li><li>b</li></ol>',
    },
    {
      html: '<ol><li>a<li value=7>b<li>c</ol>',
      text: '1. a\n7. b\n8. c',
      markdown: '1. a\n7) b\n8) c',
      clean: '<ol><li>a</li><li value="7">b</li><li>c</li></ol>',
    },
    {
      html: '<ul class="contains-task-list"><li class="task-list-item"><input type=checkbox disabled checked> a<li class="task-list-item"><input type=checkbox disabled> b</ul>',
      text: '- [x] a\n- [ ] b',
      markdown: '- [x] a\n- [ ] b',
      clean: '<ul><li>☑ a</li><li>☐ b</li></ul>',
    },
    { html: '<ul><li>a</li><ul><li>b</li></ul></ul><ul><li>c</ul>', markdown: '- a\n  - b\n\n* c' },
    {
      html: '<dl><dt>a<dt>b<dd>c<dt>d<dd><p>e</p><p>f</p></dl>',
      text: 'a\nb\nc\nd\ne\n\nf',
      markdown: '- **a**, **b**: c\n\n- **d**\n\n  e\n\n  f',
      clean: '<dl><dt>a</dt><dt>b</dt><dd><p>c</p></dd><dt>d</dt><dd><p>e</p><p>f</p></dd></dl>',
    },
  ]);
});

t.test('images are found whatever way they are loaded', async (t) => {
  const images = [
    '<img src="data:image/gif;base64,R0" data-src="/i.png" alt="i">',
    '<img src="/blank.gif" data-original="/i.png" alt="i">',
    '<img srcset="/s.png 320w, /i.png 640w" alt="i">',
    '<img srcset="/s.png,\n/i.png 1.5x,/t.png" alt="i">',
    '<img srcset=", /i.png" alt="i">',
    '<picture><source srcset="/i.png 2x, /s.png"><img alt="i"></picture>',
    '<img src="data:image/gif;base64,R0" alt="i"><noscript><img src="/i.png" alt="i"></noscript>',
  ];
  for (const html of images) t.equal(contentOf(`<p>${html}</p>`, 'markdown'), '![i](https://a.example/i.png)', html);
  check(t, [
    {
      html: '<figure><img src="/i.png"><figcaption>A <b>dam</b></figcaption></figure>',
      text: 'A dam',
      markdown: '![](https://a.example/i.png)\n\nA **dam**',
      clean:
        '<figure><p><img src="https://a.example/i.png" alt=""></p><figcaption><p>A <strong>dam</strong></p></figcaption></figure>',
    },
    { html: '<p>a<img src="/pixel.png">b</p>', markdown: 'ab' },
  ]);
});

t.test('text without its images has no gaps where they were', async (t) => {
  const image = '<img src="/i.png" alt="i">';
  const cases = [
    [`<p>a ${image} b</p>`, 'a b'],
    [`<p>a <b>${image}</b></p><p>b</p>`, 'a\n\nb'],
    [`<p>a</p><p>${image}<br>b<br>${image}<br>c<br>${image}</p><p>d</p>`, 'a\n\nb\nc\n\nd'],
    [`<p>a <sup>${image}</sup> <q>${image}</q></p>`, 'a'],
    [`<ol><li>${image}</li><li>${image}<br>b</li></ol>`, '2. b'],
    [
      `<table><tr><th>a</th><th>b</th></tr><tr><td>${image}</td><td></td></tr><tr><td>1</td><td>2</td></tr></table>`,
      'a\tb\n1\t2',
    ],
  ] as const;
  for (const [html, text] of cases) t.equal(contentOf(html, 'text'), text, html);
});

t.test('the lines of a cell are on one line of text', async (t) => {
  const html = '<table><tr><th>a</th><th>b</th></tr><tr><td><pre>1\n\n 2  3</pre><p>4</p></td><td>5</td></tr></table>';
  t.equal(contentOf(html, 'text'), 'a\tb\n1; 2  3; 4\t5');
});

t.test('marks of all kinds are written', async (t) => {
  check(t, [
    {
      html: '<p><ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp></ruby>字</p>',
      text: '漢(かん)字',
      markdown: '漢(かん)字',
      clean: '<p><ruby>漢<rt>かん</rt></ruby>字</p>',
    },
    {
      html: '<p><del>a</del> <ins>b</ins> <kbd>Ctrl</kbd> <q>c</q> <mark>d</mark></p>',
      text: 'a b Ctrl “c” d',
      markdown: '~~a~~ <ins>b</ins> `Ctrl` “c” <mark>d</mark>',
      clean: '<p><del>a</del> <ins>b</ins> <kbd>Ctrl</kbd> <q>c</q> <mark>d</mark></p>',
    },
    {
      html: '<details><summary>More</summary><p>a</p></details>',
      text: 'More\n\na',
      markdown: '**More**\n\na',
      clean: '<details><summary>More</summary><p>a</p></details>',
    },
    {
      html: '<blockquote cite="/c"><p>a</p><p>— <cite>b</cite></p></blockquote>',
      text: 'a\n\n— b',
      markdown: '> a\n>\n> — b',
      clean: '<blockquote cite="https://a.example/c"><p>a</p><p>— <cite>b</cite></p></blockquote>',
    },
    { html: '<p>a<b>b.</b>c <i>d<b>e</b></i></p>', markdown: 'a<strong>b.</strong>c *d<strong>e</strong>*' },
    {
      html: '<p><a href="#x">here</a> <a href="//c.example/?a=1&amp;copy;=2">there</a></p>',
      markdown: '[here](https://a.example/b/#x) [there](https://c.example/?a=1\\&copy;=2)',
    },
    { html: '<p>a</p><hr><hr><p>b</p>', markdown: 'a\n\n---\n\nb', clean: '<p>a</p>\n<hr>\n<p>b</p>' },
    {
      html: '<a href="/x"><h3>A</h3><p>b</p></a>',
      markdown: '### [A](https://a.example/x)\n\n[b](https://a.example/x)',
    },
  ]);
});

t.test('a page is read as clean HTML', async (t) => {
  const prose =
    'The river rose by four metres in one night, and the people of the valley moved their cattle to the hills. ';
  const html = `<nav><a href="/">Home</a></nav><article><p>${prose.repeat(3)}</p>
    <p onclick="x()" style="color: red">${prose.repeat(2)}<a href="/next">On</a> &lt;script&gt;<script>x()</script></p></article>`;
  const { content, wordCount } = clean(html, { url: 'https://a.example/b/', format: 'html' });
  const lead = prose.repeat(3).trim();
  const rest = `${prose.repeat(2)}<a href="https://a.example/next">On</a> &lt;script&gt;`;
  t.equal(content, `<p>${lead}</p>\n<p>${rest}</p>`);
  t.equal(wordCount, clean(html).wordCount, 'words are those of the text');
});

t.test('cells without room in the grid are added to the last cell of their row', async (t) => {
  const cells = Array.from({ length: 60 }, (_, at) => `w${at}`);
  const html = `<table><tr><td colspan="1000000000" rowspan="1000000000">a<td>b</tr><tr><td>c<td>d</tr><tr>${cells.map((cell) => `<td>${cell}`).join('')}</table>`;
  for (const format of ['text', 'markdown', 'html'] as const) {
    const words = contentOf(html, format).match(/\b(?:[a-d]|w\d+)\b(?![^<]*>)/g);
    t.strictSame(words, ['a', 'b', 'c', 'd', ...cells], format);
  }
});

t.test('numbers of items that are out of range are left out', async (t) => {
  check(t, [
    {
      html: '<ol start="99999999999999999999"><li>a<li value="1e400">b<li value="9007199254740993">c</ol>',
      text: '1. a\n1. b\n2. c',
      markdown: '1. a\n1) b\n2) c',
      clean: '<ol><li>a</li><li value="1">b</li><li>c</li></ol>',
    },
    { html: '<ol start="99999999"><li>a<li>b</ol>', markdown: '99999999. a\n100000000. b' },
  ]);
});

t.test('lines of code in elements of their own are divided once', async (t) => {
  const line = (text: string): string => `<span class="line">${text}</span>`;
  const cases = [
    [line('<i>a</i>') + line('') + line('  b'), 'a\n\n  b'],
    [`${line('a')}\n${line('')}\n${line('b')}`, 'a\n\nb'],
    [`${line('<span class="cl">a\n</span>')}${line('<span class="cl">\n</span>')}${line('b\n')}`, 'a\n\nb'],
    ['<span class="token-line x">a</span><span class="token-line">b</span>', 'a\nb'],
    ['<span class="underline">a</span><span class="underline">b</span>', 'ab'],
  ] as const;
  for (const [html, text] of cases) t.equal(contentOf(`<pre><code>${html}</code></pre>`, 'text'), text, html);
});

t.test('code with line breaks outside of pre is a block of lines, as it is displayed', (t) => {
  const html =
    '<p>Run:<br><code>def f(x):<br>&nbsp;&nbsp;&nbsp; return  x<br>\n  print(f(1),\n 2)<br></code></p><h2>About <code>a<br>b</code></h2><p><code><br>c</code> d</p>';
  t.equal(
    contentOf(html, 'markdown'),
    'Run:\n\n```\ndef f(x):\n    return x\nprint(f(1), 2)\n```\n\n## About `a b`\n\n`c` d',
  );
  t.end();
});

t.test('words of code in elements of their own stay apart', async (t) => {
  const code = (html: string): string => `<p>Run <code>${html}</code> now.</p>`;
  check(t, [
    { html: code('<span class="pre">pip</span> <span class="pre">install</span>'), markdown: 'Run `pip install` now.' },
    { html: code('<b>git</b>\n  <i>push</i>'), text: 'Run git push now.', markdown: 'Run `git push` now.' },
    { html: code('a<b> </b>b <i>c</i><b>\nd</b>'), clean: '<p>Run <code>a b c d</code> now.</p>' },
    { html: code('<b>f</b>(<i>x</i>,<!-- y --> <i>y</i>)<button>Copy</button>'), text: 'Run f(x, y) now.' },
    {
      html: '<table><tr><td class="blob-num">1</td>\n <td><b>if</b> <i>x</i>:<tr><td class="blob-num">2</td>\n <td>    <b>return</b> y</table>',
      text: 'if x:\n    return y',
    },
    {
      html: '<p>The<code> a</code> or<code>\n<b>b</b> </code>or<samp>&#32;d</samp> <kbd>c&#32;</kbd>.</p>',
      text: 'The a or b or d c .',
    },
    { html: '<p><code>a </code><code>b</code><code>c</code></p>', markdown: '`a` `bc`' },
    {
      html: '<table><tr><td class="lines-num"><span data-line-number="1"></span></td><td class="lines-code chroma"><code class="code-inner"><span class="k">if</span> x:</code></td></tr><tr><td class="lines-num"><span data-line-number="2"></span></td><td class="lines-code chroma"><code class="code-inner">    <b>return</b> y</code></td></tr></table>',
      markdown: '```\nif x:\n    return y\n```',
    },
    { html: '<pre><b>a</b> <i>b</i>\n  <i>c</i><button> </button>d</pre>', text: 'a b\n  cd' },
  ]);
});

t.test('the copy of an image without scripts is left out, and nothing else', async (t) => {
  check(t, [
    {
      html: '<p><img data-src="/a.png" alt="A"><noscript><img src="/a.png" alt="A"></noscript> b</p>',
      markdown: '![A](https://a.example/a.png) b',
    },
    {
      html: '<p><img src="/logo.png" alt=""></p><noscript><p>A page without scripts.</p></noscript><img src="/c.png" alt=""><noscript>And <b>more</b>.</noscript>',
      text: 'A page without scripts.\n\nAnd more.',
    },
  ]);
});

t.test('elements without a hyphen in their name do not separate words', async (t) => {
  check(t, [
    {
      html: '<p>7<nobr>-day</nobr> <acronym>PDF</acronym>s<o:p></o:p>, <bdi>x</bdi>: <x-y-z>1</x-y-z>2<X-Y/>3</p>',
      text: '7-day PDFs, x: 1 2 3',
    },
    { html: '<p>a<button>b</button>c<foo title="e-f">d</foo>g</p>', text: 'a b cdg' },
  ]);
});

t.test('links of headings to themselves are left out', async (t) => {
  check(t, [
    { html: '<h2>A b<a class="x" href="#a-b">#</a></h2>', text: 'A b', markdown: '## A b', clean: '<h2>A b</h2>' },
    { html: '<h2><a href="#a"><span>¶</span></a> A</h2>', markdown: '## A' },
    { html: '<h2><a href="#a">A</a> <a href="/b">#</a></h2>', text: 'A #' },
    { html: '<p>a <a href="#b">#</a></p>', text: 'a #' },
  ]);
});

t.test('an exclamation mark is escaped only where it would make an image', async (t) => {
  check(t, [
    { html: '<p>Go! <b>Now!</b> <a href="/x">on!</a></p>', markdown: 'Go! **Now!** [on!](https://a.example/x)' },
    { html: '<p>Go!<a href="/x">on</a></p>', markdown: 'Go\\![on](https://a.example/x)' },
  ]);
});
