// The Markdown of each kind of element, and escaping.
import t from 'tap';
import type { Block } from '../../src/extract/content.ts';
import { clean } from '../../src/extract/index.ts';
import { markdownOf as written } from '../../src/extract/markdown-writer.ts';

/** Markdown of an article; prose around it keeps it from being judged by itself. */
function markdownOf(html: string): string {
  const prose = 'Prose that is long enough to be content, whatever stands around it, and then some more of it.';
  const { content } = clean(`<article><p>${prose}</p>${html}<p>${prose}</p></article>`, {
    url: 'https://a.example/b/',
    format: 'markdown',
  });
  return content.slice(prose.length, -prose.length).trim();
}

t.test('each kind of block is written in its Markdown form', async (t) => {
  const cases = [
    ['<h2>A <b>b</b><br>c</h2>', '## A b c'],
    ['<p>a <strong> b </strong>c <em>d</em></p>', 'a **b** c *d*'],
    ['<p>a<br>b<br><br>c</p>', 'a\\\nb\n\nc'],
    ['<ul><li>a<li>b<ul><li>c</ul><li>d</ul>', '- a\n- b\n  - c\n- d'],
    ['<ol start="9"><li>a<li><p>b</p><p>c</p></ol>', '9. a\n\n10. b\n\n    c'],
    ['<blockquote><p>a</p><p>b</p></blockquote>', '> a\n>\n> b'],
    ['<pre><code class="hl language-TS">a\n\n  b```</code></pre>', '````ts\na\n\n  b```\n````'],
    ['<p><code>a`b</code> <code>c</code></p>', '``a`b`` `c`'],
    ['<p>See <a href="../x (1)">it</a></p>', 'See [it](https://a.example/x%20%281%29)'],
    ['<p>See <a href="javascript:x()">it</a></p>', 'See it'],
    ['<p><img src="/i.png" alt="An [image]"><img src="/j.png"></p>', '![An \\[image\\]](https://a.example/i.png)'],
    ['<table><tr><th>a<th>b|c<tr><td>1<td><b>2</b></table>', '| a | b\\|c |\n| --- | --- |\n| 1 | **2** |'],
    ['<table><tr><td><p>a</p></td></tr></table>', 'a'],
    ['<p>a</p><hr><p>b</p>', 'a\n\n---\n\nb'],
    ['<p><b>a<p>b</b>', '**a**\n\nb'],
    ['<p><code>a</code><kbd>*</kbd><cite><code>b</code></cite></p>', '`a`<code>\\*</code>`b`'],
    ['<p><a href="/x"><code>]: a</code></a></p>', '[<code>\\]: a</code>](https://a.example/x)'],
  ] as const;
  for (const [html, expected] of cases) t.equal(markdownOf(html), expected, html);
});

t.test('a URL in text has no backslashes, which would be part of its link', async (t) => {
  const cases = [
    ['at http://a.example/~b/_c_?x=*, and', 'at <http://a.example/~b/_c_?x=>\\*, and'],
    ['(https://a.example/~b). https://a.example/b_c', '(<https://a.example/~b>). https://a.example/b_c'],
    ['https://a.example/_b_(c)', '<https://a.example/_b_(c)>'],
    ['~ https://a.example/b* ~', '\\~ <https://a.example/b>\\* \\~'],
    ['[https://a.example/b] &lt;https://a.example/b&lt;i>', '\\[<https://a.example/b>\\] <<https://a.example/b>\\<i>'],
    ['www.a.example/_b_, www.a.example', 'www\\.a.example/\\_b\\_, www.a.example'],
    ['https://a.example/b，[c]', '<https://a.example/b>，\\[c\\]'],
    ['https://a.example/~b?c&amp;lt;d', 'https\\://a.example/\\~b?c\\&lt;d'],
    ['<a href="/c">https://a.example/~b</a>', '[https://a.example/\\~b](https://a.example/c)'],
  ] as const;
  for (const [text, expected] of cases) t.equal(markdownOf(`<p>${text}</p>`), expected, text);
});

t.test('text with Markdown characters is escaped', async (t) => {
  const cases = [
    ['1. a', '1\\. a'],
    ['# a', '\\# a'],
    ['- a', '\\- a'],
    ['> a', '\\> a'],
    ['*a* [b] `c` \\', '\\*a\\* \\[b\\] \\`c\\` \\\\'],
    ['snake_case _a_ 2 < 3 a&b', 'snake_case \\_a\\_ 2 < 3 a&b'],
    ['&lt;b> &amp;amp;', '\\<b> \\&amp;'],
  ] as const;
  for (const [text, expected] of cases) t.equal(markdownOf(`<p>${text}</p>`), expected, text);
  const reference = { kind: 'reference', label: '1' } as const;
  const line = [reference, { kind: 'text', text: ': a' }, { kind: 'break' }, reference] as const;
  t.equal(written([{ kind: 'paragraph', children: line }]), '[^1]\\: a\\\n[^1]', 'what would define a footnote');
});

t.test('a definition may have any number of paragraphs', async (t) => {
  const term: Block = { kind: 'term', children: [{ kind: 'text', text: 'a' }] };
  const children = Array.from({ length: 150_000 }, (_, at): Block => {
    return { kind: 'paragraph', children: at === 0 ? [{ kind: 'text', text: 'b' }] : [] };
  });
  t.equal(written([{ kind: 'definitions', children: [term, { kind: 'description', children }] }]), '- **a**\n\n  b');
});
