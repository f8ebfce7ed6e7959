// Bodies of nothing but brackets, which hold a parser up: where they are too deep, and that no endpoint parses them.

import fc from 'fast-check';
import t from 'tap';
import { createGateway } from '../../src/index.ts';
import { hasMoreValues, tooDeepAt } from '../../src/config/json-syntax.ts';

t.test('finds the first bracket that is nested too deep, in code points', async (t) => {
  for (const [text, at] of [
    ['[[]]', -1],
    ['[[[]]]', 2],
    [' {"a": [[', 8],
    ['{"[[[": "[[["}', -1],
    ['["\\"[[[", "\\\\", [[', 17],
    ['["\u{1f600}é", [[', 8],
    ['[], [[[', -1],
    ['["[[[', -1],
    // A byte order mark is no part of the text.
    ['\ufeff[[[]]]', 2],
    ['\ufeff{"a": [[', 7],
    ['q=[[[', -1],
    ['', -1],
  ] as const)
    t.equal(tooDeepAt(Buffer.from(text), 2), at, text);
});

t.test('a string ends at the same quote however long it is and wherever its escapes stand', async (t) => {
  const piece = fc.constantFrom('\\\\', '\\"', '[', '{', 'é', 'x'.repeat(61), 'y'.repeat(200), '\\n', ',', ':');
  const string = fc.array(piece, { maxLength: 12 }).map((pieces) => `"${pieces.join('')}"`);
  await fc.assert(
    fc.property(fc.array(string, { maxLength: 6 }), fc.boolean(), (strings, isCut) => {
      const list = `[${strings.join(',')}, [`;
      const text = isCut ? list.slice(0, -3) : list;
      // Brackets, commas and colons outside of strings: strings hold no others than these pieces.
      const outside = text.replace(/"(?:[^"\\]|\\.)*"?/g, '');
      const body = Buffer.from(text);
      const values = outside.replace(/[^[{,:]/g, '').length;
      t.same([hasMoreValues(body, values), hasMoreValues(body, values - 1)], [false, true]);
      t.equal(tooDeepAt(body, 1), isCut ? -1 : [...list].length - 1);
    }),
  );
});

t.test('no endpoint parses a body of brackets', async (t) => {
  const gateway = createGateway({ keys: { required: false }, limits: { jsonDepth: 8 } });
  t.teardown(() => gateway.close());
  const post = async (
    path: string,
    body: string,
  ): Promise<{ status: number; text: string; hint: string | undefined }> => {
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    const answer = await gateway.inject({ path, method: 'POST', headers, body });
    return { status: answer.status, text: answer.text(), hint: answer.headers['x-headrace-hint'] };
  };
  const hint = 'JSON should be nested at most 8 levels deep';
  const brackets = '['.repeat(60_000);
  for (const path of ['/search', '/search/fetch', '/svc/credits']) {
    const entry = { loc: ['body', 8], msg: 'JSON decode error', type: 'json_invalid' };
    t.same(await post(path, brackets), { status: 422, text: JSON.stringify({ detail: [entry] }), hint }, path);
    t.same(
      await post(path, `{"query":"weir","url":5,"x":${'['.repeat(7)}${']'.repeat(7)}}`).then((a) =>
        /json/.test(a.text),
      ),
      false,
    );
  }
  for (const path of ['/tavily/search', '/firecrawl/v2/scrape', '/mcp'])
    t.match(await post(path, brackets), { status: 400 });
});

t.test('a byte order mark in front of brackets does not bring them to a parser', async (t) => {
  const gateway = createGateway({ keys: { required: false }, compat: ['tavily', 'jina', 'firecrawl'] });
  t.teardown(() => gateway.close());
  // JSON.parse of V8 14.6 corrupts its memory when it refuses this; the process ends when memory is collected.
  const body = `\ufeff${'[1,'.repeat(9000)}{x`;
  const headers = { 'content-type': 'application/json' };
  for (let round = 0; round < 20; round++) {
    for (const path of [
      '/search',
      '/search/fetch',
      '/svc/credits',
      '/tavily/search',
      '/jina',
      '/firecrawl/v2/scrape',
    ]) {
      const { status } = await gateway.inject({ path, method: 'POST', headers, body });
      t.ok(status === 422 || status === 400, path);
    }
  }
  t.equal(Array.from({ length: 1_000_000 }, (_, index) => [index]).length, 1_000_000);
});

t.test('counts what a parser would make values of', async (t) => {
  for (const text of ['[1,2,3]', '{"a":1}', '[[[]]]', '{"a":"[,:{","b":1}', '["\\"[,"]'])
    t.same(
      [hasMoreValues(Buffer.from(text), 3), hasMoreValues(Buffer.from(text), 0)],
      [text.includes('"b"'), true],
      text,
    );
  t.notOk(hasMoreValues(Buffer.from('a=1,2'), 1), 'no JSON');
  t.notOk(hasMoreValues(Buffer.from('["[[[[['), 1));
});

t.test('no tool parses a body of more values than a tool needs', async (t) => {
  const gateway = createGateway({ keys: { required: false } });
  t.teardown(() => gateway.close());
  const post = async (path: string, body: string): Promise<{ status: number; text: string }> => {
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    const answer = await gateway.inject({ path, method: 'POST', headers, body });
    return { status: answer.status, text: answer.text() };
  };
  const many = `{"query":"weir","x":[${'{},'.repeat(20_000)}{}]}`;
  for (const path of ['/search', '/search/fetch', '/svc/credits']) {
    const entry = { loc: ['body'], msg: 'JSON should have at most 20000 values and keys', type: 'too_many_values' };
    t.same(await post(path, many), { status: 422, text: JSON.stringify({ detail: [entry] }) }, path);
  }
  for (const path of ['/tavily/search', '/firecrawl/v2/scrape', '/mcp'])
    t.match(await post(path, many), { status: 400 });
  const engines = await post('/search', JSON.stringify({ query: 'weir', engines: Array(200).fill('none') }));
  const msg = 'List should have at most 100 items after validation, not 200';
  t.same(JSON.parse(engines.text), { detail: [{ loc: ['body', 'engines'], msg, type: 'too_long' }] });
});

t.test('no endpoint of models reads a body of more values than are allowed', async (t) => {
  const gateway = createGateway({ keys: { required: false }, limits: { jsonValues: 9 } });
  t.teardown(() => gateway.close());
  const paths = [
    '/v1/chat/completions',
    '/v1/messages',
    '/v1/messages/count_tokens',
    '/v1/responses',
    '/v1/embeddings',
  ];
  for (const path of paths) {
    for (const body of ['{"model":"a","x":[1,2,3,4,5,6]}', '{"model":"a","x":{"a":[{"b":[]}],"c":1}}']) {
      const answer = await gateway.inject({ path, method: 'POST', body });
      const entry = { loc: ['body'], msg: 'JSON should have at most 9 values and keys', type: 'too_many_values' };
      t.same([answer.status, answer.json()], [422, { detail: [entry] }], path);
    }
    const { status } = await gateway.inject({ path, method: 'POST', body: '{"model":"a","x":[1,2,3]}' });
    t.not(status, 422, path);
  }
});

t.test('a purchase of credits is refused before its body is read, where that is large', async (t) => {
  const gateway = createGateway({});
  t.teardown(() => gateway.close());
  const { status } = await gateway.inject({ path: '/svc/credits', method: 'POST', body: ' '.repeat(2 ** 16 + 1) });
  t.equal(status, 413);
});
