// Pages that are expensive to parse, and random input: time is linear in the size, and every result is well-formed text.
import fc from 'fast-check';
import t from 'tap';
import { decode } from '../../src/extract/charset.ts';
import { resolveSettings } from '../../src/config/load.ts';
import { clean } from '../../src/extract/index.ts';
import { TAG } from '../../src/extract/tags.ts';
import { readSiteJson } from '../../src/extract/sites/sites.ts';
import { createCleaningPool } from '../../src/fetch/cleaning-pool.ts';
import { LONG } from '../support/long.ts';

const PROSE = 'Words of a sentence that goes on for a while, and then ends. ';
const MEBI = 1_048_576;

/** Bytes of a large page whose time is compared with that of a sixteenth of it. */
const LARGE = LONG ? 4 * MEBI : MEBI / 2;

const FORMATS = ['text', 'markdown', 'html'] as const;

/** Formats in which a page is read: all, or by turns one. */
const formatsOf = (index: number): readonly (typeof FORMATS)[number][] =>
  LONG ? FORMATS : [FORMATS[index % FORMATS.length] ?? 'text'];

/** Repeats to at least `length` characters. */
const fill = (piece: string, length: number): string => piece.repeat(Math.ceil(length / piece.length));

/** A piece of markup for each number. */
const numbered = (count: number, piece: (at: number) => string): string =>
  Array.from({ length: count }, (_, at) => piece(at)).join('');

/** Pages that are expensive for parsers, by length. */
const SHAPES: Readonly<Record<string, (length: number) => string>> = {
  'nested blocks': (length) => fill('<div>', length),
  'nested blocks that are closed': (length) => fill('<div>', length / 2) + fill('</div>', length / 2),
  'nested marks': (length) => fill('<b>x', length),
  'inline misnesting': (length) => fill('<a href=x><b><p>x', length),
  'paragraphs left open': (length) => fill('<p>x', length),
  'items left open': (length) => fill('<ul><li>x', length),
  'rows left open': (length) => fill('<table><tr>x', length),
  'nested tables': (length) => fill('<table><tr><td>x<td>y', length),
  'a table of many rows': (length) => `<table>${fill(`<tr><td>x<td>${PROSE}`, length)}</table>`,
  'end tags of nothing': (length) => fill('<div>', 4000) + fill('</x>', length),
  'end tags out of scope': (length) => `<p><table><td>${fill('<b>', 1500)}${fill('</p>', length)}`,
  'opening brackets': (length) => fill('<', length),
  ampersands: (length) => fill('&', length),
  references: (length) => fill('&eacute;', length),
  'one long attribute': (length) => `<div class="${fill('nav-Bar ', length)}">x</div>`,
  'many attributes': (length) => `<a ${fill('a=b ', length)}>x</a>`,
  'an attribute left open': (length) => `<a href="${fill('x ', length)}`,
  'a style that hides nothing': (length) => `<p style="${fill('display ', length)}">x</p>`,
  'many classes': (length) => Array.from({ length: length / 24 }, (_, at) => `<p class="n${at}-nav">x`).join(''),
  'many elements': (length) => Array.from({ length: length / 8 }, (_, at) => `<x${at}>`).join(''),
  'a comment left open': (length) => `<!--${fill('<!-- ', length)}`,
  'a script left open': (length) => `<script>${fill('x<', length)}`,
  drawings: (length) => fill('<svg><p>', length),
  templates: (length) => fill('<template>', length),
  'headings of other things': (length) => fill(`<h2>Related</h2><p>${PROSE}`, length),
  'nested headings': (length) => fill('<div><h2>Related</h2>', length),
  'headings behind empty elements': (length) => fill('<i></i>', length / 2) + fill('<h2>Related</h2>', length / 2),
  'deep fields': (length) => '<div>'.repeat(505) + fill('<input>', length),
  'deep menus': (length) => '<div>'.repeat(505) + fill(`<nav>${PROSE}</nav>`, length),
  'lines of code': (length) => `<pre>${fill('x\n', length)}`,
  quotes: (length) => fill(`<blockquote>${PROSE}`, length),
  'linked data': (length) => `<script type="application/ld+json">${fill('[', length)}</script>`,
  'linked data with brackets': (length) =>
    `<script type="application/ld+json">{"@type":"Article","articleBody":"${fill('<a', length)}"}</script>`,
  'nested state': (length) => `<script>window.__INITIAL_STATE__=${fill('[', length)}</script>`,
  'assignments of comments': (length) => `<script>${fill('__INITIAL_STATE__=/*', length)}</script>`,
  'wide state': (length) => `<script>window.__APOLLO_STATE__={a:[${fill('{},', length)}]}</script>`,
  'a call with many arguments': (length) => `<script>__NUXT__=(function(a){return {}}(${fill('1,', length)}))</script>`,
  'pushes of comments': (length) => `<script>${fill('self.__next_f.push(/*', length)}</script>`,
  'rows without a name': (length) => `<script>self.__next_f.push([1,"${fill(String.raw`\n`, length)}:"])</script>`,
  'rows without an end': (length) => `<script>self.__next_f.push([1,"${fill('0:T1,x', length)}"])</script>`,
  'rows of rows': (length) => `<script>self.__next_f.push([1,"${fill(String.raw`0:T\n`, length)}"])</script>`,
  'an array of references': (length) =>
    `<script id="__NUXT_DATA__" type="application/json">[[${fill('1,', length)}1],[${fill('2,', length / 9)}2],"x"]</script>`,
  'linked data with references': (length) =>
    `<script type="application/ld+json">[${fill('{"@type":"Event","@id":"a","name":"x","x":{"@id":"a"}},', length)}{}]</script>`,
  'references to an array without indexes': (length) =>
    `<script id="__NUXT_DATA__" type="application/json">[[${fill('1,', length / 3)}1],[${fill('null,', length / 2)}0]]</script>`,
  'references to a document': (length) =>
    `<script>__NUXT__=(function(a){return [${fill('a,', length / 4)}]}({type:"doc",content:[{text:"x"},${fill('{content:[]},', length / 2)}]}))</script>`,
  'linked data with references to a long text': (length) =>
    `<script type="application/ld+json">[{"@type":"Comment","@id":"a","text":"${fill(PROSE, length / 2)}"}${fill(`,{"@type":"DiscussionForumPosting","comment":[${fill('{"@id":"a"},', 2000)}{}]}`, length / 2)}]</script>`,
  'linked data with nested lists': (length) =>
    `<script type="application/ld+json">[{"@type":"Event","@id":"a","x":${fill('[', length / 2)}${fill(']', length / 2)}}]</script>`,
  'an article body beside many paragraphs': (length) =>
    `<script type="application/ld+json">{"@type":"Article","headline":"x","articleBody":"${fill('a', length / 2)}"}</script>${fill('<p>aaaaaaaaaaab</p>', length / 2)}`,
  'code in an element with many classes': (length) =>
    `<div class="${fill('abc ', length / 2)}">${fill('<pre>x</pre>', length / 2)}</div>`,
  'images beside a source of many images': (length) =>
    `<p>x<picture><source srcset="${fill('/a.png 1x, ', length / 2)}">${fill('<img alt=a>', length / 2)}</picture>`,
  'a long address in a srcset': (length) => `<p>x<img srcset="${fill('a', length)} x">`,
  'linked data with a name of open tags': (length) =>
    `<script type="application/ld+json">{"@type":"Product","name":"${fill('<a', length)}"}</script>`,
  'notes in notes': (length) =>
    numbered(400, (at) => `<sup><a href=#n${at}>${at}</a></sup>`) +
    numbered(400, (at) => `<div id=n${at}>`) +
    fill('<a>', length),
  'spaces in nested blocks': (length) => `${'<div>'.repeat(500)}x${fill(' ', length)}y`,
  'spaces in a cell of code': (length) =>
    `<table><tr><th>x<th>y<tr><td><pre>x${fill(' ', length)}y</pre><p>x<td>y</table>`,
  'a title of bars': (length) => `<title>x${fill('|', length)}x</title><h2>x${fill(')', length)}x</h2>`,
  titles: (length) => `<title>${fill('a | ', length)}</title>`,
  zeros: (length) => fill('\0', length),
  'white space': (length) => fill(' \n\t', length),
};

const cpuMs = (run: () => void): number => {
  const start = process.cpuUsage();
  run();
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
};

t.test('time grows no faster than the page', async (t) => {
  for (const [index, [name, shape]] of Object.entries(SHAPES).entries()) {
    const [small, large] = [shape(LARGE / 16), shape(LARGE)];
    for (const format of formatsOf(index)) {
      const options = { url: 'https://a.example/', format, include: ['links', 'metadata'] } as const;
      const once = Math.min(...[1, 2].map(() => cpuMs(() => clean(small, options))));
      const more = cpuMs(() => clean(large, options));
      // 16 times the page: quadratic time would be 256 times as much.
      t.ok(
        more < 64 * Math.max(once, 3) && more < (LONG ? 10_000 : 2000),
        `${name} as ${format}: ${once.toFixed(0)} and ${more.toFixed(0)} ms`,
      );
    }
  }
});

t.test('elements inside of each other and names that a page chooses take no more time', async (t) => {
  const nested = (name: string): string => `<${name}>`.repeat(500) + fill('<i></i>', MEBI / 4);
  const lines = (name: string): string =>
    `<pre>${`${`<b class=${name}>1`.repeat(490)}${fill('1<i></i>', 30_000)}x${'</b>'.repeat(490)}`.repeat(5)}</pre>`;
  const shapes: Readonly<Record<string, readonly [hostile: string, other: string]>> = {
    'headings without text': [nested('h1'), nested('h4')],
    'line numbers': [lines('ln'), lines('x')],
    'elements of one place in a hash table': [siblings(256), siblings(Infinity)],
  };
  for (const [name, [hostile, other]] of Object.entries(shapes)) {
    // The first one also pays for compilation.
    const least = (page: string): number => Math.min(...[1, 2, 3].map(() => cpuMs(() => clean(page))));
    const [took, usual] = [least(hostile), least(other)];
    t.ok(took < 3 * usual, `${name}: ${took.toFixed(0)} and ${usual.toFixed(0)} ms`);
  }
});

/** Elements beside others whose names and classes have a hash below `limit` in features.ts. */
function siblings(limit: number): string {
  const classes = 2000;
  const tags = ['b', 'i', 'u', 's', 'em', 'q', 'tt', 'big', 'sub', 'sup', 'ins', 'del', 'kbd', 'var', 'dfn', 'font'] as const; // oxfmt-ignore
  const parts = [numbered(classes, (at) => `<i class=c${at}></i>`)];
  for (let node = classes + 1; node < 16_000;) {
    const outer = node++;
    parts.push('<div>');
    for (let at = 0, end = node + 500; at < classes * tags.length && node < end; at++) {
      const tag = tags[at % tags.length] as (typeof tags)[number];
      const shape = 1 + Math.trunc(at / tags.length);
      const hash = Math.imul(31 * outer + TAG[tag], 0x9e3779b1) + Math.imul(shape, 0x85ebca6b);
      if (((hash >>> 7) & 0x7fff) >= limit) continue;
      parts.push(`<${tag} class=c${shape - 1}></${tag}>`);
      node++;
    }
    parts.push('</div>');
  }
  return parts.join('');
}

t.test('a page that claims to be a forum takes no more time', async (t) => {
  const head = '<meta name=generator content="Discourse 3"><h1>x</h1>';
  const shapes: Readonly<Record<string, string>> = {
    'posts in posts': fill('<div class=crawler-post>', MEBI / 5),
    'names in nested blocks': `<div class=crawler-post>${'<div>'.repeat(500)}${fill('<b itemprop=name>', MEBI / 5)}`,
    'paragraphs in nested blocks': `<div class=crawler-post><div class=post>${'<div>'.repeat(500)}${fill('<p>', MEBI / 5)}`,
  };
  for (const [name, html] of Object.entries(shapes)) {
    const took = cpuMs(() => clean(head + html, { url: 'https://a.example/t/x/1' }));
    t.ok(took < 2000, `${name}: ${took.toFixed(0)} ms`);
  }
});

t.test('a page of a known site takes no more time', async (t) => {
  const question = '<h1>x</h1><div id=question><div class=js-post-body>x</div></div><div id=answers>';
  const post = '<div id=siteTable><div class=link><a class=title>x</a></div></div><div class=commentarea>';
  const story = '<span class=titleline><a>x</a></span>';
  const length = MEBI / 4;
  const shapes: Readonly<Record<string, readonly [address: string, html: string]>> = {
    'issues in issues': [
      'https://github.com/a/b/issues/1',
      `<h1 class=js-issue-title>x</h1>${fill('<div class="react-issue-comment js-comment-body">', length)}`,
    ],
    'rows in rows': [
      'https://news.ycombinator.com/item?id=1',
      story + '<div class=comtr>'.repeat(400) + fill('<p>x', length),
    ],
    'texts in texts': ['https://news.ycombinator.com/item?id=1', story + fill('<div class="comtr commtext">x', length)],
    'comments around one text': [
      'https://old.reddit.com/r/a/comments/1',
      `${post}${'<div class=comment>'.repeat(400)}<div class=entry><div class=usertext-body>${fill('<p>x', length)}`,
    ],
    'comments in comments': [
      'https://www.reddit.com/r/a/comments/1',
      `<shreddit-post post-title=x></shreddit-post>${fill('<shreddit-comment slot=comment>', length)}`,
    ],
    'answers in answers': [
      'https://stackoverflow.com/questions/1',
      question + fill('<div class="answer js-post-body comment">', length),
    ],
  };
  for (const [name, [url, html]] of Object.entries(shapes)) {
    const took = cpuMs(() => clean(html, { url }));
    t.ok(took < 2000, `${name}: ${took.toFixed(0)} ms`);
  }
});

t.test('a topic of many posts takes no longer than a page', async (t) => {
  const posts = Array.from({ length: 16_000 }, (_, at) => ({ username: `u${at}`, cooked: `<p>post ${at}</p>` }));
  const topic = JSON.stringify({ title: 'x', post_stream: { posts } });
  const read = (): unknown => readSiteJson(topic, 'https://a.example/t/x/1.json');
  // The first time pays for compiling the code.
  read();
  const took = cpuMs(read);
  t.ok(took < 1300, `${took.toFixed(0)} ms`);
});

t.test('any bytes give well-formed text', async () => {
  const bytes = fc.uint8Array({ maxLength: 2000 });
  fc.assert(
    fc.property(bytes, fc.constantFrom('text', 'markdown'), (input, format) => isValid(decode(input, null), format)),
  );
});

t.test('any text with pieces of markup gives well-formed text', async () => {
  const piece = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 8 }),
    fc.constantFrom(
      ...'<div>|</div>|<p>|</p>|<a href="x">|</a>|<li>|<ul>|</ul>|<table>|<tr>|<td>|</table>|<b>|</b>|<pre>|</pre>|<code>|<h2>|</h2>'.split(
        '|',
      ),
    ),
    fc.constantFrom(
      ...'<svg>|</svg>|<template>|<script>|</script>|<title>|</title>|<br>|<!--|-->|&amp;|&#x|<|>|"|=|<img alt=x src=y>|<blockquote>|<dl>|<dd>'.split(
        '|',
      ),
    ),
    fc.constantFrom(
      ...'<script type="application/ld+json">|{"@type":"Article","articleBody":"|"}|<meta property=og:title content="|<noscript>|\ud800|\udc00'.split(
        '|',
      ),
    ),
    fc.constantFrom(PROSE, '漢字。', 'Related', ' ', '\n'),
  );
  const page = fc.array(piece, { maxLength: 120 }).map((pieces) => pieces.join(''));
  fc.assert(
    fc.property(page, fc.constantFrom('text', 'markdown'), (html, format) => isValid(html, format)),
    { numRuns: 500 },
  );
});

function isValid(html: string, format: 'text' | 'markdown'): boolean {
  const { title, content, wordCount, links, metadata } = clean(html, {
    url: 'https://a.example/',
    format,
    include: ['links', 'metadata'],
  });
  const texts = [
    title,
    content,
    ...(links ?? []).flatMap(({ text, url }) => [text, url]),
    ...Object.values(metadata ?? {}),
  ];
  return (
    texts.every((text) => text.isWellFormed()) &&
    wordCount >= 0 &&
    !/\n{3}/.test(content.replaceAll(/^`{3,}[^]*?^`{3,}$/gm, 'code'))
  );
}

t.test('the largest pages are read within the memory of a cleaner', async (t) => {
  const resolution = resolveSettings({});
  if ('mistakes' in resolution) throw new Error(JSON.stringify(resolution.mistakes));
  const pool = createCleaningPool({ ...resolution.settings.fetch, cleaners: 1, cleanTimeoutMs: 60_000 });
  t.teardown(() => pool.close());
  const pieces = [
    '<p>x</p>',
    '<li>x',
    '<a href=/x>x</a> ',
    '<table><tr><td>x<td>y</table>',
    '<sup><a href=#x>1</a></sup>',
    '<b>x</b> ',
  ];
  for (const [index, piece] of pieces.entries()) {
    for (const format of formatsOf(index)) {
      const bytes = new TextEncoder().encode(fill(piece, 9.9 * MEBI));
      const job = { bytes, mediaType: 'text/html', charset: null, url: 'https://a.example/', format };
      const { content, truncated } = await pool.read(job, 'a', new AbortController().signal);
      t.ok(content.length > 100_000 && truncated, `${piece} as ${format}`);
    }
  }
});
