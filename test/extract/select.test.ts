// Blocks, features, the model and the selection: whole structures, pages of every kind, and agreement with the weights.
import { readFile } from 'node:fs/promises';
import t from 'tap';
import { Blocks } from '../../src/extract/blocks.ts';
import { type Feature, FEATURES, featuresOf, WIDTH } from '../../src/extract/features.ts';
import { clean } from '../../src/extract/index.ts';
import { score } from '../../src/extract/model.ts';
import { parse } from '../../src/extract/parse.ts';
import { select } from '../../src/extract/select.ts';
import { FEATURE_COUNT, SAMPLE } from '../../src/extract/weights.ts';

const PROSE =
  'The river rose by four metres in one night, and the people of the valley moved their cattle to the hills. ';
const ABOUT = {
  kind: 'article',
  title: 'The flood',
  description: '',
  body: '',
  url: 'https://news.example/flood',
  declaresList: false,
  declaresQuestions: false,
} as const;

function textsOf(html: string): string[] {
  const { tree } = parse(html);
  const blocks = new Blocks(tree);
  return Array.from({ length: blocks.count }, (_, block) => {
    let text = '';
    for (let node = blocks.first[block] as number; node < (blocks.end[block] as number); node++)
      if (blocks.of[node] === block) text += tree.textOf(node);
    return text.trim();
  });
}

/** Blocks of different forms. */
function formsOf(count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, block) => block);
}

t.test('a page is split at block elements and at two line ends', async (t) => {
  t.same(textsOf('<div>a <b>b</b><p>c<br>d<br><br>e</p>f</div>'), ['a b', 'cd', 'e', 'f']);
  t.same(textsOf('<table><tr><td>a<td>b<tr><td>c</table>'), ['ab', 'c']);
  t.same(textsOf('<table><tr><td><p>a</p><td><p>b</p></table>'), ['a', 'b']);
  t.same(textsOf('<pre>a\n<div>b</div>\nc</pre>d'), ['a\nb\nc', 'd']);
});

t.test('the model gives the predictions of its training', async (t) => {
  t.equal(FEATURE_COUNT, WIDTH);
  const numbers = Float32Array.from(SAMPLE.split(' ').map(Number));
  const rows = numbers.subarray(0, WIDTH * Math.floor(numbers.length / (WIDTH + 1)));
  const expected = numbers.subarray(rows.length);
  t.ok(expected.length >= 5);
  const scores = score({ rows, weight: new Float32Array(expected.length), forms: new Int32Array(expected.length) });
  for (const [at, value] of expected.entries()) t.ok(Math.abs((scores[at] as number) - value) < 0.03, `sample ${at}`);
});

t.test('features are finite on odd pages', async (t) => {
  for (const html of [
    'x',
    '<p>',
    `<div>${'<b>'.repeat(50)}x`,
    '<h1></h1><p>&nbsp;</p>',
    `<ul>${'<li>x'.repeat(300)}`,
  ]) {
    const { tree } = parse(html);
    const { rows } = featuresOf(tree, new Blocks(tree), ABOUT);
    t.ok(
      rows.every((value) => Number.isFinite(value)),
      html.slice(0, 20),
    );
  }
});

t.test('features tell elements that repeat, prices, and what an address says', async (t) => {
  const card = '<div class="card"><div><h3>A boot</h3><p>$12.00</p></div></div>';
  const { tree } = parse(
    `<main><div class="intro"><p>${PROSE}</p></div>${card.repeat(4)}</main><p class="legal">Terms</p>`,
  );
  const of = (url: string): ((block: number, name: Feature) => number) => {
    const { rows } = featuresOf(tree, new Blocks(tree), { ...ABOUT, url, declaresList: true });
    return (block, name) => rows[block * WIDTH + Object.keys(FEATURES).indexOf(name)] as number;
  };
  const known = of('https://www.shop.example/collections/winter-boots');
  t.same([known(0, 'unitAlike'), known(1, 'unitAlike'), known(1, 'unitLevel')], [0, 4, 2]);
  t.same([known(0, 'routeAlike'), known(1, 'routeAlike'), known(1, 'formAlike')].map(Math.fround), [
    1,
    Math.fround(Math.log2(5)),
    Math.fround(Math.log2(5)),
  ]);
  t.ok(known(0, 'routeShare') > known(1, 'routeShare'));
  t.same([known(1, 'items'), known(9, 'legal'), known(9, 'items')], [1, 1, 0]);
  t.equal(known(0, 'prices'), Math.fround(Math.log2(5)));
  t.same([known(0, 'pathDepth'), known(0, 'slugWords'), known(0, 'section'), known(0, 'declaresList')], [2, 2, 2, 1]);
  const unknown = of('');
  t.same([unknown(0, 'pathDepth'), unknown(0, 'section')], [-1, 0]);
});

t.test('tables, lists and code are kept or dropped as a whole', async (t) => {
  const { tree } = parse(`<table><tr><td>a one</td><td>b</td></tr><tr><td>c two</td><td>d</td></tr></table>`);
  const blocks = new Blocks(tree);
  const weights = Float32Array.from([5, 5]);
  const { dropped: whole } = select(tree, {
    blocks,
    weights,
    forms: formsOf(2),
    probabilities: Float32Array.from([0.9, 0.3]),
    isArticle: false,
  });
  t.notOk(whole.includes(1));
});

t.test('probabilities are averaged over blocks of the same form', async (t) => {
  const { tree } = parse('<p class="a">a</p><p class="a">b</p><p>c</p><div><p class="a">d</p></div>');
  const blocks = new Blocks(tree);
  const { forms } = featuresOf(tree, blocks, ABOUT);
  t.same([forms[0] === forms[1], forms[0] === forms[2], forms[0] === forms[3]], [true, false, false]);
  const weights = Float32Array.from([29, 9, 9, 9]);
  const probabilities = Float32Array.from([0.8, 0.4, 0.4, 0.4]);
  const { odds } = select(tree, { blocks, weights, forms, probabilities, isArticle: false });
  t.same(odds, Float32Array.from([0.75, 0.55, 0.4, 0.4]));
});

t.test('text that may be content as a whole or not at all is kept from even odds on', async (t) => {
  const { tree } = parse('<p>a</p><p>b</p><p>c</p>');
  const blocks = new Blocks(tree);
  const weights = Float32Array.from([10, 5, 5]);
  for (const [odd, isKept] of [
    [0.4, 0],
    [0.6, 1],
  ] as const) {
    const probabilities = Float32Array.from([0.9, odd, odd]);
    const { dropped } = select(tree, { blocks, weights, forms: formsOf(3), probabilities, isArticle: false });
    t.same(
      Array.from(weights, (_, block) => 1 - (dropped[blocks.first[block] as number] as number)),
      [1, isKept, isKept],
    );
  }
});

t.test('headings of kept text are kept, and in articles those without text are dropped', async (t) => {
  const { tree } = parse(`<h2>a</h2><p>${PROSE}</p><h2>b</h2><p>c</p>`);
  const blocks = new Blocks(tree);
  const weights = Float32Array.from([1, 90, 1, 1]);
  const probabilities = Float32Array.from([0.5, 0.95, 0.7, 0.1]);
  const { dropped } = select(tree, { blocks, weights, forms: formsOf(4), probabilities, isArticle: true });
  const kept = Array.from(
    { length: 4 },
    (_, block) => 1 - (dropped[tree.parent[blocks.first[block] as number] as number] as number),
  );
  t.same(kept, [1, 1, 0, 0]);
});

t.test('a paragraph that is kept twice is kept once', async (t) => {
  const row = `<tr><td>${PROSE}</td></tr>`;
  const { tree } = parse(
    `<p>${PROSE}</p><p>Save.</p><div>${PROSE.replaceAll(' ', '\n')}</div><p>Save.</p><table>${row}${row}</table>`,
  );
  const blocks = new Blocks(tree);
  const weights = Float32Array.from([90, 5, 90, 5, 90, 90].map((weight) => 2 * weight));
  const probabilities = new Float32Array(6).fill(0.9);
  const { dropped } = select(tree, { blocks, weights, forms: formsOf(6), probabilities, isArticle: false });
  const kept = Array.from(weights, (_, block) => 1 - (dropped[blocks.first[block] as number] as number));
  t.same(kept, [1, 1, 0, 1, 1, 1]);
});

t.test('the text of a consent dialog is left out, also of short pages', async (t) => {
  const html = `<p>a</p><div id="onetrust-consent-sdk"><div>b<p>${PROSE}</p></div></div>c<p>d</p>`;
  t.same(textsOf(html), ['a', 'c', 'd']);
  t.notMatch(clean(`<main><p>A boot.</p></main>${html}`).content, 'river');
});

t.test('pages of other kinds give their text', async (t) => {
  const pages = {
    'links only': [
      `<ul>${Array.from({ length: 30 }, (_, at) => `<li><a href="/${at}">Entry ${at}</a></li>`).join('')}</ul>`,
      'Entry 29',
    ],
    'search results': [
      `<form><input></form>${Array.from({ length: 10 }, (_, at) => `<div class="result"><h3><a href="/${at}">Result ${at}</a></h3><p>A snippet of page ${at}, with some words of it.</p></div>`).join('')}`,
      'snippet of page 9',
    ],
    'one word': ['<p>Yes</p>', 'Yes'],
    'text without elements': ['Just a text.', 'Just a text.'],
    'one button': ['<button>Go on</button>', 'Go on'],
    'Chinese without spaces': [
      `<div><p>${'河水一夜之间上涨了四米，山谷里的人们把牛群赶到了山上。'.repeat(5)}</p></div>`,
      '河水一夜之间',
    ],
    Thai: [`<div><p>${'แม่น้ำเพิ่มขึ้นสี่เมตรในคืนเดียว '.repeat(8)}</p></div>`, 'แม่น้ำ'],
    'a menu and nothing else': ['<nav><ul><li><a href=/a>About</a></li></ul></nav>', 'About'],
  } as const;
  for (const [name, [html, expected]] of Object.entries(pages)) t.match(clean(html).content, expected, name);
});

t.test('the documentation lists the features', async (t) => {
  const page = (await readFile('docs/content-model.md', 'utf8')).replaceAll(/ +/g, ' ');
  for (const [name, about] of Object.entries(FEATURES))
    t.match(page, `| \`${name}\` | ${about.replaceAll('|', '\\|')} |`, name);
});
