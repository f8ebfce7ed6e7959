// Text in scripts: JavaScript literals, devalue arrays, streamed React components, rich text documents, and the choice between
// them and the page.
import fc from 'fast-check';
import t from 'tap';
import { clean } from '../../src/extract/clean.ts';
import { parse } from '../../src/extract/parse.ts';
import { unflatten } from '../../src/extract/state/devalue.ts';
import { parseFlight, renderFlight } from '../../src/extract/state/flight.ts';
import { jsonOf, parseCall, parseLiteral } from '../../src/extract/state/literal.ts';
import { flightOf, stateOf } from '../../src/extract/state/page-state.ts';
import { RichTextReader } from '../../src/extract/state/rich-text.ts';
import { receivedCalls } from '../support/received-calls.ts';

const PROSE =
  'The race leads the water from the weir to the wheel, which turns the stones of the mill as long as the river carries enough of it.';
const OTHER =
  'In dry summers the miller sits on the bank, looks at the stones that no longer lie under water, and waits for rain from the hills.';
const URL_1 = 'https://mill.test/a';

t.test('literals of scripts are read as the language reads them', async (t) => {
  const cases: readonly (readonly [string, unknown])[] = [
    ['{a:1,"b":[2,,3,],\'c\':{},}', { a: 1, b: [2, 3], c: {} }],
    ['"a\\n\\u0041\\x42\\u{1f600}\\\n\\q"', 'a\nAB😀q'],
    ['`raw\nline $5`', 'raw\nline $5'],
    ['[!0,!1,void 0,null,-0x10,.5,1e3,12n,+7]', [true, false, undefined, null, -16, 0.5, 1000, 12, 7]],
    ['/* a */ {// b\n x /*c*/ : undefined}', { x: undefined }],
    ['new Date("2026-01-02")', '2026-01-02'],
    ['JSON.parse("{\\"a\\":[1]}")', { a: [1] }],
    ['Object.freeze({a:(1)})', { a: 1 }],
    ['{__proto__:{a:1},b:2}', { b: 2 }],
    ["{a:b.c.d,['k']:1}", { a: undefined, k: 1 }],
  ];
  for (const [text, value] of cases) t.strictSame(parseLiteral(text).value, value, text);
  for (const text of ['', '{', '[1', '"a', '{a}}'.slice(0, 2), 'alert(1)', 'function(){}', '`${a}`', '{a:1 b:2}'])
    t.equal(parseLiteral(text).value, undefined, text);
  t.equal(({} as Record<string, unknown>)['a'], undefined, 'no prototype was changed');
});

t.test('the call that Nuxt 2 writes is read without running it', async (t) => {
  const call = '(function(a,b,c){c.x=a;c["y"]={z:b};return {layout:"d",data:[{t:a,n:b,o:c}],s:"}"}}("one",2,{}))';
  t.strictSame(parseCall(call).value, {
    layout: 'd',
    data: [{ t: 'one', n: 2, o: { x: 'one', y: { z: 2 } } }],
    s: '}',
  });
  t.strictSame(parseCall('(function(a){return [a]})(7)').value, [7]);
  for (const text of [
    '(function(a){fetch(a);return {}}(1))',
    '(function(){while(1);return 1}())',
    'x()',
    '(function(a){',
  ])
    t.equal(parseCall(text).value, undefined, text);
});

t.test('any JSON has the value that JSON.parse gives, also with the errors of pages', async () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 6 }), (json) => {
      const value: unknown = JSON.parse(json);
      const broken = json.replaceAll(/(?<=[}\]])(?=[}\]])/g, ',').replace(/^/, '/* x */ ');
      return fc.stringify(parseLiteral(json).value) === fc.stringify(plain(value)) && jsonOf(broken) !== undefined;
    }),
    { numRuns: 1000 },
  );
});

/** Without members named `__proto__`, which are left out. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => name !== '__proto__')
      .map(([name, inner]) => [name, plain(inner)]),
  );
}

t.test('devalue arrays are resolved, and cycles end', async (t) => {
  const nuxt = [
    ['Reactive', 1],
    { data: 2, self: 0 },
    ['ShallowReactive', 3],
    { title: 4, list: 5, at: 7 },
    'Mill',
    [4, 6],
    3,
    ['Date', '2026-01-02T00:00:00Z'],
  ];
  t.strictSame(unflatten(nuxt), { data: { title: 'Mill', list: ['Mill', 3], at: '2026-01-02T00:00:00Z' }, self: null });
  t.strictSame(unflatten([{ _1: 2 }, 'name', 'mill']), { name: 'mill' }, 'as React Router writes objects');
  t.strictSame(unflatten([['Set', 1, 2], 'a', 'b']), ['a', 'b']);
  t.strictSame(unflatten([['Map', 1, 2], 'a', 'b']), { a: 'b' });
  t.strictSame(unflatten([['null', 'a', 1], 'b']), { a: 'b' });
  for (const value of [null, 1, [], {}, 'x']) t.equal(unflatten(value), null);
  const wide = [
    [1, 1, 1, 1, 1, 1, 1, 1],
    ...Array.from({ length: 60 }, (_, index) => Array.from({ length: 8 }, () => index + 2)),
  ];
  t.ok(unflatten(wide), 'exponential documents end');
});

t.test('any array is a devalue array or none', async () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.jsonValue(), fc.array(fc.nat(8)), fc.dictionary(fc.string(), fc.nat(8)))),
      (values) => {
        JSON.stringify(unflatten(values));
        return true;
      },
    ),
    { numRuns: 1000 },
  );
});

t.test('flight rows are told apart by their tags, and text rows by their length in bytes', async (t) => {
  const text = 'Grün\n1:"x"\n水';
  const length = Buffer.byteLength(text).toString(16);
  const rows = parseFlight(
    `0:{"a":"$1"}\n1:T${length},${text}2:I["chunk",[],"x"]\n3:["$","p",null,{}]\n:HL["style"]\n4:"cut`,
  );
  t.strictSame(
    [...rows],
    [
      ['0', { a: '$1' }],
      ['1', text],
      ['3', ['$', 'p', null, {}]],
    ],
  );
});

t.test('streamed components become HTML in the order of the tree', async (t) => {
  const html = (rows: string, prose = false): string => renderFlight(parseFlight(rows), prose);
  t.equal(
    html(
      '1:["$","em",null,{"children":"b"}]\n0:{"P":null,"f":[[["",{"children":["__PAGE__",{}]}],["$","p",null,{"className":"x","children":["a ","$L1","$$c"]}]]]}\n',
    ),
    '<p class="x">a <em>b</em>$c</p>',
    'text outside of elements is data',
  );
  t.equal(html('0:["$","$L2",null,{"href":"/a?b&c","children":"go"}]\n'), '<a href="/a?b&amp;c">go</a>');
  t.equal(html('0:["$","div",null,{"dangerouslySetInnerHTML":{"__html":"$5"}}]\n5:T8,<b>x</b>'), '<div><b>x</b></div>');
  t.equal(
    html('0:["$","ul",null,{"children":[["$","li","1",{"children":1}],"$0:props:children:0"]}]\n'),
    '<ul><li>1</li><li>1</li></ul>',
  );
  t.equal(html('0:["$","p",null,{"children":"$0"}]\n'), '<p></p>', 'a cycle ends');
  t.equal(
    html(
      '1:"$Sreact.fragment"\n0:["$","$1","c",{"children":[["$","script",null,{"children":"x"}],["$","p",null,{"style":{"display":"none"},"children":"<"}]]}]\n',
    ),
    '<p hidden>&lt;</p>',
  );
  const component = `0:["$","$L2",null,{"title":"label","text":${JSON.stringify(PROSE)},"children":["$","p",null,{"children":"x"}]}]\n`;
  t.equal(html(component), '<div><p>x</p></div>');
  t.equal(html(component, true), `<div><p>${PROSE}</p><p>x</p></div>`);
});

t.test('any stream is rendered within its bounds', async () => {
  const value = fc.letrec((tie) => ({
    node: fc.oneof(
      { maxDepth: 5 },
      fc.constantFrom('$0', '$1', '$L1', '$@2', '$1:props:children', '$undefined', '$$', 'text', null, 3),
      fc.array(tie('node'), { maxLength: 4 }),
      fc.tuple(fc.constant('$'), fc.constantFrom('p', '$L1', 'script', '$S'), fc.constant(null), tie('props')),
      tie('props'),
    ),
    props: fc.dictionary(fc.constantFrom('children', 'href', 'src', 'dangerouslySetInnerHTML', 'x'), tie('node')),
  })).node;
  const noise = fc.constantFrom('', '\n', ':', '1:T', '1:Tff,', '0:I[', 'ff', ',');
  fc.assert(
    fc.property(fc.array(fc.tuple(value, noise), { maxLength: 6 }), fc.boolean(), (rows, prose) => {
      const stream = rows.map(([row, text], index) => `${index}:${JSON.stringify(row)}\n${text}`).join('');
      return renderFlight(parseFlight(stream), prose).length < 1_000_000;
    }),
    { numRuns: 500 },
  );
  let doubling = '';
  for (let row = 0; row < 60; row++) {
    const next = (row + 1).toString(16);
    doubling += `${row.toString(16)}:["$","p",null,{"children":["$${next}","$${next}:props:children"]}]\n`;
  }
  t.ok(renderFlight(parseFlight(doubling), false).length < 6_000_000, 'references that multiply are bounded');
});

t.test('the text of a client-rendered page is read from its state', async (t) => {
  const body = (script: string): string => `<title>Mill</title><body><div id="root"></div>${script}</body>`;
  const state = JSON.stringify({
    page: { title: 'Races', text: PROSE, more: { description: OTHER } },
    i18n: { a: `${PROSE} no` },
  });
  const devalue = JSON.stringify([{ data: 1 }, { title: 2, text: 3 }, 'Races', `${PROSE} ${OTHER}`]);
  const flight = `0:["$","main",null,{"children":[["$","h2",null,{"children":"Races"}],["$","p",null,{"children":"${PROSE} ${OTHER}"}]]}]\n`;
  const router = JSON.stringify(
    `${JSON.stringify([{ _1: 2 }, 'loaderData', { _3: 4, _5: 6 }, 'title', 'Races', 'text', `${PROSE} ${OTHER}`])}\n`,
  );
  const pages: Readonly<Record<string, string>> = {
    next: `<script id="__NEXT_DATA__" type="application/json">${state}</script>`,
    flight: `<script>(self.__next_f=self.__next_f||[]).push([0])</script><script>self.__next_f.push([1,${JSON.stringify(flight.slice(0, 60))}])</script><script>self.__next_f.push([1,${JSON.stringify(flight.slice(60))}])</script>`,
    'nuxt 2': `<script>window.__NUXT__=(function(a){return {state:${state},a:a}}("x"));</script>`,
    'nuxt 3': `<script type="application/json" id="__NUXT_DATA__">${devalue}</script>`,
    apollo: `<script>window.__APOLLO_STATE__ = ${state}</script>`,
    redux: `<script>window.__PRELOADED_STATE__ = JSON.parse(${JSON.stringify(state)});</script>`,
    initial: `<script>window["__INITIAL_STATE__"]=${state};(function(){})()</script>`,
    router: `<script>window.__reactRouterContext.streamController.enqueue(${router});</script>`,
  };
  for (const [name, script] of Object.entries(pages)) {
    const { content } = clean(body(script), { url: URL_1, format: 'markdown' });
    t.match(content, PROSE, name);
    t.match(content, OTHER, name);
    // Of a tree of components the cleaner selects content, as of a page.
    if (name !== 'flight') t.match(content, /^#+ Races/, name);
    t.notMatch(content, /no$/, name);
  }
  const shown = `<main><article><p>${'What the page shows is what counts, whatever else its scripts hold. '.repeat(8)}</p></article></main>`;
  t.notMatch(clean(body(pages['next'] + shown), { url: URL_1 }).content, PROSE, 'a page that shows its text');
  t.equal(stateOf([]), '');
  t.equal(flightOf(parse(body('<script>self.__next_f.push([1,oops])</script>')).head.scripts, true), '');
});

t.test('rich text documents of content systems become HTML', async (t) => {
  const documents = new RichTextReader();
  const contentful = {
    nodeType: 'document',
    content: [
      { nodeType: 'heading-2', content: [{ nodeType: 'text', value: 'A' }] },
      {
        nodeType: 'paragraph',
        content: [
          { nodeType: 'text', value: 'b ' },
          { nodeType: 'hyperlink', data: { uri: '/c' }, content: [{ nodeType: 'text', value: 'c' }] },
        ],
      },
    ],
  };
  t.equal(documents.read(contentful), '<h2>A</h2><p>b <a href="/c">c</a></p>');
  const tiptap = {
    type: 'doc',
    content: [
      { type: 'heading', attrs: { level: 3 }, content: [{ type: 'text', text: 'A' }] },
      {
        type: 'bulletList',
        content: [{ type: 'listItem', content: [{ type: 'paragraph', content: [{ type: 'text', text: '<b>' }] }] }],
      },
    ],
  };
  t.equal(documents.read(tiptap), '<h3>A</h3><ul><li><p>&lt;b&gt;</p></li></ul>');
  const portable = [
    { _type: 'block', style: 'h2', children: [{ _type: 'span', text: 'A' }] },
    { _type: 'block', style: 'normal', children: [{ _type: 'span', text: 'b' }] },
  ];
  t.equal(documents.read(portable), '<h2>A</h2><p>b</p>');
  t.equal(documents.read([{ type: 'p', children: [{ text: 'slate' }] }]), '<p>slate</p>');
  for (const value of [{}, [], { type: 'doc' }, { type: 'doc', content: [{}] }, [{ type: 'product', children: [] }]])
    t.equal(documents.read(value), null);
});

// Reading them for each reference would take minutes.
t.test('values that are referred to many times are read once', async (t) => {
  const document = `{type:"doc",content:[{text:"${PROSE}"},${'{content:[]},'.repeat(10_000)}]}`;
  const script = `window.__NUXT__=(function(a){a.self=a;return [${'a,'.repeat(20_000)}a]}(${document}))`;
  t.equal(stateOf([scriptOf(script)]), PROSE);
  const { value: shared, reads } = counted(
    Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`a${index}`, 2])),
  );
  t.ok(unflatten([Array.from({ length: 100 }, () => 1), shared, 'x']));
  t.equal(reads(), 50, 'values of devalue');
  const children = counted(Array.from({ length: 1000 }, () => ({ content: [] })));
  const documents = new RichTextReader();
  for (let index = 0; index < 1000; index++) documents.read({ type: 'doc', content: children.value });
  documents.read(Array.from({ length: 1000 }, () => ({ type: 'p', children: children.value })));
  t.ok(children.reads() <= 400_000, `nodes of documents: ${children.reads()}`);
});

t.test('a long text that is referred to many times is read once', async (t) => {
  const long = `${PROSE} `.repeat(100);
  const split = receivedCalls(t, String.prototype, 'split');
  const states = [
    { ...scriptOf(JSON.stringify([Array.from({ length: 500 }, () => 1), long])), id: '__NUXT_DATA__' },
    scriptOf(`__NUXT__=(function(a){return [${'a,{x:a},'.repeat(500)}]}("${long}"))`),
  ];
  for (const state of states) {
    t.match(stateOf([state]), PROSE);
    const characters = split().reduce<number>((sum, text) => sum + String(text).length, 0);
    t.ok(characters < 3 * long.length, `${characters} characters were read`);
  }
});

t.test('what documents have in common makes no text beyond bounds', async (t) => {
  const long = 'x y '.repeat(50_000);
  for (const node of [{ text: long }, { href: long, content: [{ text: 'x' }] }]) {
    const documents = new RichTextReader();
    const content = Array.from({ length: 5000 }, () => node);
    const length = documents.read({ type: 'doc', content })?.length ?? 0;
    t.ok(length > 0 && length < 3_000_000, `${length} characters`);
    t.equal(documents.read({ type: 'doc', content }), null, 'a page has one bound');
  }
  t.equal(
    new RichTextReader().read([{ type: `p${'-'.repeat(100)}`, children: [{ text: 'a' }] }]),
    null,
    'no long types',
  );
});

t.test('a name may not multiply what was written once', async (t) => {
  const text = JSON.stringify(JSON.stringify([PROSE]));
  t.strictSame(parseCall(`(function(a){return JSON.parse(a)}(${text}))`).value, [PROSE]);
  t.equal(parseCall(`(function(a){return [JSON.parse(a),JSON.parse(a)]}(${text}))`).value, undefined);
  const holes = parseCall('(function(a,b){a[0]=b;a[2]="x";return {a:a}}(Array(3),{}))').value;
  t.equal(JSON.stringify(holes), '{"a":[{},null,"x"]}', 'arrays');
});

t.test('an assignment inside of a value is not read again', async (t) => {
  const inner = JSON.stringify({ text: OTHER });
  const values = [`/* __NUXT__=${inner} */{a:"${PROSE}"}`, `[/* __NUXT__=${inner} */alert()]`];
  t.equal(stateOf([scriptOf(`__NUXT__=${values[0]}`)]), `<p>${PROSE}</p>`);
  t.equal(stateOf([scriptOf(`__NUXT__=${values[1]}`)]), '');
  const chunks = [`["${PROSE}`, `"]\n`].map((chunk) => `.streamController.enqueue(${JSON.stringify(chunk)})`);
  const inside = 'x.streamController.enqueue(" of no stream")';
  const [first = '', second = ''] = chunks;
  t.equal(stateOf([scriptOf(`${first.replace('(', `(/*${inside}*/`)}${second}`)]), `<p>${PROSE}</p>`);
  t.equal(stateOf([scriptOf(`window.__INITIAL_STATE__=window.__NUXT__=${inner}`)]), `<p>${OTHER}</p>`);
});

t.test('references into streamed components are rendered once, and followed to their end', async (t) => {
  const html = (rows: string): string => renderFlight(parseFlight(rows), false);
  const levels = 30;
  const nested = `${'["$","b",null,{"children":'.repeat(levels)}"x"${'}]'.repeat(levels)}`;
  const path = (depth: number, props: string): string => `$1${`:${props}:children`.repeat(depth)}`;
  const page = (...references: string[]): string =>
    `1:${nested}\n0:["$","p",null,{"children":${JSON.stringify(references)}}]\n`;
  t.equal(html(page(path(levels - 1, 'props'), '$1')).split('<b>').length - 1, levels + 1);
  t.equal(
    html(page(path(2, 'props'), path(2, '3'), `${path(1, 'props')}:3:children`)).split('<b>').length - 1,
    2 * levels - 2,
    'one value by several names',
  );
});

function scriptOf(text: string): { id: string; type: string; target: string; text: string } {
  return { id: '', type: '', target: '', text };
}

/** `value`, and how many of its elements or members were read. */
function counted<T extends object>(value: T): { readonly value: T; readonly reads: () => number } {
  let reads = 0;
  const get = (target: T, name: string | symbol): unknown => {
    if (Object.hasOwn(target, name) && name !== 'length') reads++;
    return Reflect.get(target, name);
  };
  return { value: new Proxy(value, { get }), reads: () => reads };
}

t.test('what is no literal after all costs nothing but itself', async (t) => {
  t.equal(parseLiteral('{[{toString:1,valueOf:1}]:1}').value, undefined);
  t.equal(parseLiteral(`/*${'a*'.repeat(2_400_000)}/ /**/ //x\n/* */1`).value, 1, 'a comment of any length');
  t.strictSame(
    parseLiteral(`[1,/*${'x'.repeat(100)}`),
    { value: undefined, end: 105 },
    'one without an end is read once',
  );
  t.equal(parseCall('(function(a){a[a]=1;return a}([1]))').value, undefined);
  const page = `<script type="application/ld+json">{[{toString:1,valueOf:1}]:1}</script><article><p>${PROSE}</p><p>${OTHER}</p></article>`;
  t.match(clean(page, { url: URL_1 }).content, PROSE);
});
