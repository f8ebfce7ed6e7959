// Bounds of the tokens of a request: the estimate of its prompt, the most that it can be, and the answers that it asks for.

import t from 'tap';
import { dialectOf } from '../../src/dialect/dialects.ts';
import { scanBody } from '../../src/dialect/body-scan.ts';
import { type TokenBounds, tokenBounds } from '../../src/dialect/token-bounds.ts';

function boundsOf(text: string, context?: number, path = '/v1/chat/completions'): TokenBounds {
  const body = Buffer.from(text);
  const scan = scanBody(body);
  if (!scan.ok) throw new Error(JSON.stringify(scan.errors));
  return tokenBounds(dialectOf(path), body, scan, context);
}

t.test('estimates the prompt from all members that become prompt', (t) => {
  const rows: [members: string, tokens: number][] = [
    ['"a":1', 0],
    ['"prompt":"123456"', 2],
    ['"prompt":[1,2,3]', 2],
    ['"messages":[],"system":"ab"', 2],
    ['"input":"123456","instructions":"123456"', 4],
    ['"tools":[{"name":"abcdef"}]', 5],
    ['"functions":[{"name":"abcdef"}]', 5],
    ['"prompt":["abcd","ef"]', 4],
  ];
  for (const [members, tokens] of rows) t.equal(boundsOf(`{"model":"m",${members}}`).promptTokens, tokens, members);
  t.end();
});

t.test('no token is shorter than a byte, and templates add a few', (t) => {
  const body = '{"model":"m","messages":[{"role":"user","content":"hi"}]}';
  t.equal(boundsOf(body).mostPromptTokens, body.length + 256);
  t.equal(boundsOf('{"model":"m","prompt":["a","b"]}', undefined, '/v1/completions').mostPromptTokens, 32 + 2 * 256);
  t.equal(boundsOf(body, 100).mostPromptTokens, 100);
  t.equal(boundsOf('{"model":"m","prompt":["a","b"]}', 100, '/v1/completions').mostPromptTokens, 200);
  t.equal(boundsOf(`{"model":"m","prompt":"${'x'.repeat(4000)}"}`, 100).promptTokens, 100);
  t.end();
});

t.test('a prompt that is not all in the body may fill the context', (t) => {
  for (const [path, members] of [
    ['/v1/chat/completions', '"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://x"}}]}]'],
    ['/v1/chat/completions', String.raw`"messages":[{"content":[{"image_\u0075\u0072\u006C":"https://x"}]}]`],
    ['/v1/chat/completions', String.raw`"messages":[{"content":[{"image_\u0075rl":{"u\u0072l":"https://x"}}]}]`],
    ['/v1/messages', '"messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://x"}}]}]'],
    ['/v1/responses', '"input":"hi","previous_response_id":"r"'],
    ['/completions', '"prompt":"hi"'],
  ] as const) {
    const text = `{"model":"m",${members}}`;
    t.equal(boundsOf(text, 8000, path).mostPromptTokens, 8000, path);
    t.equal(boundsOf(text, undefined, path).mostPromptTokens, text.length + 256 + 16_384, path);
  }
  t.end();
});

t.test('a path without a dialect has a context for each input, and reads a query beside each document', (t) => {
  const inputs = JSON.stringify({ model: 'm', input: Array.from({ length: 50 }, () => 'x'.repeat(2000)) });
  t.match(boundsOf(inputs, 1000, '/v1/embeddings'), {
    promptTokens: Math.ceil(inputs.length / 4),
    mostPromptTokens: inputs.length + 256,
    answers: 1,
  });
  for (const [query, name] of [
    ['query', 'documents'],
    ['query', 'texts'],
    ['text_1', 'text_2'],
  ] as const) {
    const ranking = { model: 'm', [query]: 'q'.repeat(900), [name]: ['d', { text: 'd' }, 'd'] };
    const { mostPromptTokens } = boundsOf(JSON.stringify(ranking), 1000, '/v1/rerank');
    t.ok(mostPromptTokens > 3 * 900, `${name}: ${mostPromptTokens}`);
    t.ok(mostPromptTokens < 3 * (1000 + 256), `${name}: ${mostPromptTokens}`);
  }
  const image = '{"model":"m","image":{"url":"https://x"}}';
  t.equal(boundsOf(image, 8000, '/v1/other').mostPromptTokens, image.length + 256 + 8000, 'an attachment');
  t.equal(boundsOf(image, undefined, '/v1/other').mostPromptTokens, image.length + 256 + 16_384);
  t.end();
});

t.test('no count in a request is beyond numbers', (t) => {
  const bounds = boundsOf(
    '{"model":"m","max_tokens":1e999,"n":1e999,"prompt":["a","b"]}',
    undefined,
    '/v1/completions',
  );
  t.match(bounds, { answers: 2 * Number.MAX_SAFE_INTEGER, limit: Number.MAX_SAFE_INTEGER });
  t.end();
});

t.test('counts the answers over all prompts, whatever spelling the server accepts', (t) => {
  const rows: [members: string, answers: number][] = [
    ['"n":3', 3],
    ['"n":"3"', 3],
    ['"n":3.0', 3],
    ['"n":0', 1],
    ['"n":null', 1],
    ['"n":-4', 1],
    ['"n":2,"best_of":5', 5],
    ['"n_cmpl":4', 4],
    ['"n":8,"n":1', 8],
    ['"n":1,"n":8,"a":9,"a":10', 8],
    ['"prompt":["a","b"],"n":3', 6],
    ['"prompt":[[1,2],[3]]', 2],
  ];
  for (const [members, answers] of rows) t.equal(boundsOf(`{"model":"m",${members}}`).answers, answers, members);
  t.end();
});

t.test('the rest of the context is free for the answer', (t) => {
  const prompt = 'x'.repeat(398);
  t.match(boundsOf(`{"model":"m","prompt":"${prompt}"}`, 1000), { free: 900, surelyFree: 1000 - 200 - 256 });
  t.match(boundsOf(`{"model":"m","prompt":"${prompt}"}`, 100), { free: 100, surelyFree: 100 - 200 - 256 });
  t.match(boundsOf('{"model":"m"}'), { free: Infinity, surelyFree: Infinity, context: Infinity });
  t.end();
});
