// The tree of parsed markup: implied end tags, wrong nesting, skipped content, metadata.
import t from 'tap';
import { clean } from '../../src/extract/index.ts';
import { parse } from '../../src/extract/parse.ts';
import { DISPLAYED, SPACE_BEFORE } from '../../src/extract/tree.ts';
import { TAG, type TagName } from '../../src/extract/tags.ts';

const NAMES = new Map(Object.entries(TAG).map(([name, id]) => [id, name as TagName]));

/** The tree as nested names and texts. */
function outline(html: string): string {
  const { tree } = parse(html);
  const write = (node: number): string => {
    if (tree.tag[node] === TAG['#text']) return tree.textOf(node);
    const parts: string[] = [];
    for (let child = node + 1; child < (tree.end[node] as number); child = tree.end[child] as number)
      parts.push(write(child));
    return `${NAMES.get(tree.tag[node] as number) ?? 'other'}(${parts.join(' ')})`;
  };
  return write(0);
}

function depthOf(html: string): number {
  const { tree } = parse(html);
  const depths = new Int32Array(tree.count);
  for (let node = 1; node < tree.count; node++) depths[node] = (depths[tree.parent[node] as number] as number) + 1;
  return Math.max(...depths);
}

t.test('elements end where the HTML standard ends them', async (t) => {
  const cases = [
    ['<p>a<p>b', 'body(p(a) p(b))'],
    ['<p>a<div>b</div>c', 'body(p(a) div(b) c)'],
    ['<ul><li>a<li>b<ul><li>c</ul><li>d</ul>', 'body(ul(li(a) li(b ul(li(c))) li(d)))'],
    ['<dl><dt>a<dd>b<dt>c</dl>', 'body(dl(dt(a) dd(b) dt(c)))'],
    ['<table><tr><td>a<td>b<tr><td>c</table>d', 'body(table(tr(td(a) td(b)) tr(td(c))) d)'],
    ['<p>a<table><tr><td>b</p>c</table>', 'body(p(a) table(tr(td(b p() c))))'],
    ['a<br>b</br>c', 'body(a br() b br() c)'],
    ['a</p>b', 'body(a p() b)'],
    ['<div>a</section>b</div>c', 'body(div(a b) c)'],
    ['<a href=x>a<a href=y>b</a>', 'body(a(a) a(b))'],
    ['<b>a<div>b</b>c</div>d', 'body(span(a div(b c) d))'],
    ['<img>a', 'body(img() a)'],
    ['<my-part>a</my-part>', 'body(other(a))'],
  ] as const;
  for (const [html, expected] of cases) t.equal(outline(html), expected, html);
});

t.test('content that is not text of the page is skipped', async (t) => {
  t.equal(outline('<script>a</script><style>b</style><textarea>c</textarea>d'), 'body(style() textarea() d)');
  t.equal(outline('a<svg><title>x</title><text>b</text></svg>c<template><p>f</p></template>g'), 'body(a c g)');
  t.equal(outline('a<svg><path>b<section>c</section>'), 'body(a section(c))', 'a drawing that was left open ends');
  t.equal(outline('<![CDATA[a>b]]>c'), 'body(b]]>c)', 'in HTML this is a comment up to the bracket');
  t.equal(outline('<math><mi>x</mi><annotation>y</annotation></math>'), 'body(math(mi(x) annotation()))');
  t.equal(outline('<template shadowrootmode=open>a</template>'), 'body(template(a))');
  t.equal(outline('<!-- a --><!doctype html><?b?>c'), 'body(c)');
});

t.test('a script ends behind the scripts that it writes inside of comment marks', async (t) => {
  const written = `<script><!--\nw('<script src="x"></script>');y="b"\n//--></script>`;
  t.equal(outline(`${written}c${written}d`), 'body(c d)');
  t.match(parse(written).head.scripts, [{ text: /y="b"/ }]);
  t.equal(outline('<script><!-- w("<script>") --></script>c'), 'body(c)');
  t.equal(outline('<script>w("<!--");w("<scripts>")</script>c'), 'body(c)');
  t.equal(outline('<!-- <script><!-- <script> --></script>c<!--><script>'), 'body(c)');
  t.equal(
    outline('<script><!--> w("<script>")</script>c<script>"-->"</script>d'),
    'body(c d)',
    'marks that end at once',
  );
  // Without an end, all of the page would be the script.
  t.equal(outline('<script><!-- <script></script>c'), 'body(c)');
  t.equal(outline(`<script><!--${'<script></script>'.repeat(150_000)}--></script>c`), 'body(c)');
});

t.test('metadata and data scripts are kept apart from the tree', async (t) => {
  const { head } =
    parse(`<html lang="de"><head><title> A &amp; B </title><base href="/x/"><link rel=canonical href="/y">
    <meta property="og:title" content="C &lt;"><script type="application/ld+json">{"a":1}</script>
    <script id="__NEXT_DATA__" type="application/json">{"b":2}</script><script>c</script></head><title>D</title>`);
  t.match(head, { title: ' A & B ', language: 'de', base: '/x/', canonical: '/y', meta: [['og:title', 'C <']] });
  t.same(
    [head.linkedData, head.scripts],
    [
      ['{"a":1}'],
      [
        { type: 'application/json', id: '__NEXT_DATA__', target: '', text: '{"b":2}' },
        { type: '', id: '', target: '', text: 'c' },
      ],
    ],
  );
});

t.test('the first of two equal attributes counts, and its references are decoded', async (t) => {
  const { tree } = parse(
    `<a href="1&amp;2" HREF=3 title='a "b" >' data-x = y&lt;z hidden/ =odd>x</a><img src=/i.png/>`,
  );
  t.same(Object.fromEntries(tree.attributesOf(1)), {
    href: '1&2',
    title: 'a "b" >',
    'data-x': 'y<z',
    hidden: '',
    '=odd': '',
  });
  t.equal(tree.attribute(1, 'href'), '1&2');
  t.equal(tree.attribute(3, 'src'), '/i.png/', 'a solidus ends no unquoted value');
});

t.test('a formula in a script of MathJax is a node', async (t) => {
  const { tree } = parse('<p>a <script type="math/tex; mode=display">x<y</script> b<script>z</script>');
  const node = tree.tag.indexOf(TAG['#tex']);
  t.equal(tree.html.slice(tree.from[node], tree.to[node]), 'x<y');
  t.equal(tree.flags[node], SPACE_BEFORE | DISPLAYED);
  t.equal(tree.count, 5);
});

t.test('the depth of the tree is bounded as in browsers', async (t) => {
  t.equal(depthOf('<div>'.repeat(2000)), 512);
  t.equal(
    outline(`${'<div>'.repeat(600)}${'</div>'.repeat(600)}<p>a`).endsWith('p(a))'),
    true,
    'and ends as deep as it began',
  );
});

t.test('a page of more nodes than are read is cut, and says so', async (t) => {
  const page = clean('<p>x</p>'.repeat(300_000));
  t.equal(page.truncated, true);
  t.equal(page.content.length, 3 * 250_000 - 2);
  t.equal(clean('<p>x</p>'.repeat(60_000)).truncated, undefined);
});
