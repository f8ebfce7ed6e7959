// Properties of the formats over generated pages: a Markdown parser gives back the structure of the HTML, an HTML parser the
// tree that was written, and hostile markup leads to nothing outside the list of elements and attributes.
import { escapeText } from 'entities';
import fc from 'fast-check';
import { micromark } from 'micromark';
import { gfm, gfmHtml } from 'micromark-extension-gfm';
import { type DefaultTreeAdapterTypes, parseFragment, serialize } from 'parse5';
import t from 'tap';
import { contentOf } from '../../src/extract/content-builder.ts';
import { htmlOf } from '../../src/extract/html-writer.ts';
import { UrlResolver } from '../../src/extract/links.ts';
import { markdownOf } from '../../src/extract/markdown-writer.ts';
import { parse } from '../../src/extract/parse.ts';
import type { Block } from '../../src/extract/content.ts';

const urls = new UrlResolver('https://a.example/b/', '');

function blocksOf(html: string): readonly Block[] {
  const { tree } = parse(html);
  return contentOf(tree, new Uint8Array(tree.count), urls);
}

/** Words, and what looks like markup of Markdown or HTML. */
const text = fc
  .array(
    fc.oneof(
      { weight: 3, arbitrary: fc.constantFrom('a', 'b c', 'é', '漢字', 'x1', 'end.', '“q”') },
      fc.constantFrom(
        '*',
        '**',
        '_',
        '__',
        '`',
        '``',
        '~',
        '~~',
        '[',
        ']',
        '](x)',
        '![',
        '!',
        '#',
        '##',
        '-',
        '+',
        '1.',
        '2)',
        '>',
        '|',
        '---',
        '===',
        '\\',
        '&lt;b&gt;',
        '&amp;amp;',
        '$',
        ':',
        'snake_case',
        '[^1]',
        '[x]',
        '&lt;!--',
        '|-|',
      ),
      fc.constantFrom(' ', ' ', ' '),
    ),
    { minLength: 1, maxLength: 6 },
  )
  .map((parts) => parts.join(''));

const { inline } = fc.letrec<{ inline: string }>((tie) => ({
  inline: fc.oneof(
    { maxDepth: 3, depthIdentifier: 'inline' },
    { weight: 4, arbitrary: text },
    fc
      .tuple(fc.constantFrom('b', 'em', 'del', 'sup', 'sub', 'ins', 'mark'), tie('inline'))
      .map(([name, inner]) => `<${name}>${inner}</${name}>`),
    text.map((inner) => `<code>${inner}</code>`),
    tie('inline').map((inner) => `<a href="/x?a=1&amp;b=2">${inner}</a>`),
    fc.constant('<br>'),
    fc.constant('<img src="/i.png" alt="an [image]">'),
    fc.tuple(tie('inline'), tie('inline')).map(([left, right]) => left + right),
  ),
}));

const { block } = fc.letrec<{ block: string }>((tie) => ({
  block: fc.oneof(
    { maxDepth: 3, depthIdentifier: 'block' },
    { weight: 4, arbitrary: inline.map((inner) => `<p>${inner}</p>`) },
    fc.tuple(fc.integer({ min: 1, max: 6 }), inline).map(([level, inner]) => `<h${level}>${inner}</h${level}>`),
    fc
      .tuple(fc.constantFrom('<ul>', '<ol>', '<ol start="7">'), fc.array(tie('block'), { minLength: 1, maxLength: 3 }))
      .map(([open, items]) => `${open}${items.map((item) => `<li>${item}</li>`).join('')}</${open.slice(1, 3)}>`),
    fc.array(tie('block'), { minLength: 1, maxLength: 2 }).map((inner) => `<blockquote>${inner.join('')}</blockquote>`),
    fc.tuple(text, text).map(([first, second]) => `<pre class="language-js">${first}\n\n  ${second}</pre>`),
    fc.constant('<hr>'),
    fc
      .array(fc.array(inline, { minLength: 2, maxLength: 3 }), { minLength: 2, maxLength: 3 })
      .map(
        (rows) =>
          `<table>${rows.map((row) => `<tr>${row.map((cell) => `<td>k${cell}</td>`).join('')}</tr>`).join('')}</table>`,
      ),
    fc.tuple(tie('block'), tie('block')).map(([first, second]) => first + second),
  ),
}));

/** The structure as HTML, without what Markdown cannot say: columns without a cell, empty cells, headers of tables. */
function structure(blocks: readonly Block[]): string {
  return (
    htmlOf(blocks)
      .replaceAll(/<(\/?)t[dh][^>]*>/g, '<$1td>')
      // Cells of Markdown hold lines, not paragraphs.
      .replaceAll(/<td><p>(.*?)<\/p><\/td>/gs, (_, lines: string) => `<td>${lines.replaceAll('</p><p>', '<br>')}</td>`)
      .replaceAll('<td></td>', '')
  );
}

t.test('Markdown parses back to the structure of the HTML', async () => {
  fc.assert(
    fc.property(fc.array(block, { minLength: 1, maxLength: 4 }), (parts) => {
      const blocks = blocksOf(parts.join(''));
      const markdown = markdownOf(blocks);
      const options = { extensions: [gfm()], htmlExtensions: [gfmHtml()], allowDangerousHtml: true };
      const parsed = micromark(markdown, options);
      const expected = structure(blocks);
      const found = structure(blocksOf(parsed));
      if (found !== expected) throw new Error(`${parts.join('')}\n\n${markdown}\n\n${parsed}\n\n${expected}\n${found}`);
    }),
    { numRuns: 500 },
  );
});

/** Elements of clean HTML and their attributes. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(
    'blockquote br caption cite dd del details dl dt em figcaption figure h1 h2 h3 h4 h5 h6 hr ins kbd mark p pre q rt ruby samp strong sub summary table tbody tr ul'
      .split(' ')
      .map((name) => [name, []]),
  ),
  a: ['href'],
  blockquote: ['cite'],
  code: ['class'],
  img: ['alt', 'src'],
  li: ['id', 'value'],
  ol: ['reversed', 'start', 'type'],
  sup: ['id'],
  td: ['colspan', 'rowspan'],
  th: ['colspan', 'rowspan'],
};

function problemOf(node: DefaultTreeAdapterTypes.ChildNode): string | null {
  if (node.nodeName === '#text') return null;
  if (!('tagName' in node)) return node.nodeName;
  const attributes = ALLOWED[node.tagName];
  if (attributes === undefined) return node.tagName;
  for (const { name, value } of node.attrs) {
    if (!attributes.includes(name)) return `${node.tagName} ${name}`;
    const isSafe =
      name === 'class'
        ? /^language-[\w+#.-]+$/.test(value)
        : name === 'id'
          ? /^fn(?:ref)?-[\w-]+$/.test(value)
          : !['href', 'src', 'cite'].includes(name) || /^https?:\/\/|^#fn-[\w-]+$/.test(value);
    if (!isSafe) return `${name}=${value}`;
  }
  return node.childNodes.map(problemOf).find((problem) => problem !== null) ?? null;
}

const hostile = fc
  .array(
    fc.oneof(
      block,
      fc.constantFrom(
        '<script>alert(1)</script>',
        '<style>*{}</style>',
        '<svg onload=alert(1)><a xlink:href="javascript:x">',
        '<math><mtext><script>x</script></mtext>',
        '<img src=x onerror=alert(1) alt="&quot; onerror=&quot;x">',
        '<a href="javascript:alert(1)">',
        '<a href=" java\nscript:x">',
        '<a href="data:text/html,x">',
        '<a href="https://b.example/&quot;onclick=x">',
        '<iframe srcdoc="<script>">',
        '<form action=x><input><button formaction="javascript:x">b',
        '<pre class="language-x&quot; onclick=y">c</pre>',
        '<pre class="language-\'"><b>',
        '<textarea><b>x</textarea>',
        '<plaintext>',
        '<noscript><p title="</noscript><img src=x onerror=y>">',
        '<!--',
        '-->',
        '<![CDATA[',
        ']]>',
        '<table><td colspan="9e9"><td rowspan=-1>',
        '<table><form><tr>',
        '<li value="x">',
        '<ol start="1 onclick=y" type="&quot;>">',
        '</p></li></td>',
        '<sup><a href="#&quot;x">1</a></sup><p id="&quot;x">n',
        '<template><b>',
        '<xmp><script>x</script></xmp>',
        '<ruby><rt>',
        '<details><summary><summary>',
        '<dl><dd><dt>',
        '<figure><figcaption><figure>',
        '&#0;&#x1b;&#xD800;',
        '<base href="javascript:x">',
        '<p style="background:url(javascript:x)" id=x name=y>',
      ),
      fc.string(),
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(''));

t.test('HTML has nothing outside the list, and a parser gives back the same tree', async () => {
  fc.assert(
    fc.property(hostile, (html) => {
      const written = htmlOf(blocksOf(html));
      const fragment = parseFragment(written);
      const problem = fragment.childNodes.map(problemOf).find((each) => each !== null);
      if (problem !== undefined) throw new Error(`${problem} in ${written}`);
      const serialized = serialize(fragment).replaceAll('&nbsp;', '\u00a0').replaceAll('reversed=""', 'reversed');
      if (serialized !== written) throw new Error(`${html}\n\n${written}\n\n${serialized}`);
    }),
    { numRuns: 1000 },
  );
});

const formula = fc
  .array(
    fc.constantFrom(
      ...[
        'x',
        '^',
        '_',
        '$',
        '$$',
        '`',
        '``',
        '\\',
        '\\\\',
        '<img src=x onerror=y>',
        '<a href="javascript:x">',
        '</code>',
      ],
      ...['<!--', '<?x', '](javascript:x)', '[a](xx:y)', '![a][b]', '<xx:y>', '\n\n', ' '],
    ),
    { minLength: 1, maxLength: 6 },
  )
  .map((parts) => escapeText(parts.join('')));

t.test('formulas give neither elements nor links where a Markdown parser does not know them', async () => {
  fc.assert(
    fc.property(formula, formula, (first, second) => {
      const html = `<p>a <math alttext="${first.replaceAll('"', '&quot;')}"></math> b <code>&lt;img src=x onerror=y&gt;</code></p><script type="math/tex; mode=display">${second}</script>`;
      const markdown = markdownOf(blocksOf(html));
      const parsed = micromark(markdown, {
        extensions: [gfm()],
        htmlExtensions: [gfmHtml()],
        allowDangerousHtml: true,
      });
      const fragment = parseFragment(parsed);
      const found = elementsIn(fragment.childNodes).filter((name) => !/^(?:p|code|em|strong|br|hr|h[12])$/.test(name));
      if (found.length > 0) throw new Error(`${found.join(' ')}\n\n${html}\n\n${markdown}\n\n${parsed}`);
    }),
    { numRuns: 1000 },
  );
});

function elementsIn(nodes: readonly DefaultTreeAdapterTypes.ChildNode[]): string[] {
  return nodes.flatMap((node) =>
    'tagName' in node
      ? [node.tagName, ...elementsIn(node.childNodes)]
      : node.nodeName === '#comment'
        ? ['#comment']
        : [],
  );
}
