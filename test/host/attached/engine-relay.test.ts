import { createHash, randomBytes } from 'node:crypto';
import type { AttachedEngine } from '../../../src/host/attached/attached-engine.ts';
import type { RawAnswer, RawRequest } from '../../../src/host/model-engine.ts';
import { events, json } from '../../support/fake-engine.ts';
import { LLAMA_MODEL, startFakeLlamaServer } from '../../support/fake-llama-server.ts';
import { startFakeVllm, VLLM_MODEL } from '../../support/fake-vllm.ts';
import { attach } from './attach.ts';
import t from 'tap';

const CHAT = '/v1/chat/completions';

function pass(engine: AttachedEngine, text: string, over: Partial<RawRequest> = {}): Promise<RawAnswer> {
  return engine.relay({
    path: CHAT,
    model: engine.models[0]!,
    headers: { 'content-type': 'application/json' },
    body: Buffer.from(text),
    signal: new AbortController().signal,
    ...over,
  });
}

async function bytesOf({ body }: RawAnswer): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of body) pieces.push(piece);
  return Buffer.concat(pieces);
}

async function jsonOf(answer: RawAnswer): Promise<unknown> {
  return JSON.parse((await bytesOf(answer)).toString());
}

t.test('passes requests and answers through byte for byte', async (t) => {
  const { engine, fake } = await attach(t, startFakeVllm());
  const text = `{ "model" : "${VLLM_MODEL}",\n "seed": 12345678901234567890, "x":"\\u00e9" }`;
  const stream = ': ping\r\n\r\nevent: a\ndata: {"x": 1.0}\n\ndata: [DONE]\n\n';
  fake.answers.set(CHAT, events([stream]));
  const answer = await pass(engine, text);
  t.equal(answer.status, 200);
  t.equal(answer.headers['content-type'], 'text/event-stream');
  t.equal((await bytesOf(answer)).toString(), stream);
  t.equal(fake.last(CHAT).text, text);
  fake.answers.set(CHAT, json({ error: { message: 'no' } }, 418));
  const refused = await pass(engine, text);
  t.equal(refused.status, 418, 'refusals of the engine too');
  t.same(await jsonOf(refused), { error: { message: 'no' } });
});

t.test('puts the name of the engine in place of its own, and leaves every other byte', async (t) => {
  const { engine, fake } = await attach(t, startFakeVllm(), { models: ['small'] });
  fake.answers.set(CHAT, json({}));
  await bytesOf(await pass(engine, '{"a": 1.0, "model": "small" , "b":[ ]}'));
  t.equal(fake.last(CHAT).text, `{"a": 1.0, "model": "${VLLM_MODEL}" , "b":[ ]}`);
});

t.test('keeps credentials and the matters of one connection to itself', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer(), { apiKey: 'engine-key' });
  fake.answers.set(CHAT, (_, response) => {
    response.setHeader('connection', 'x-hop, keep-alive');
    response.setHeader('x-hop', '1');
    response.setHeader('x-kept', 'yes');
    response.setHeader('access-control-allow-origin', '*');
    response.setHeader('x-request-id', 'theirs');
    response.setHeader('content-length', '2');
    response.end('{}');
  });
  const headers = {
    host: 'public.example',
    authorization: 'Bearer client-key',
    'x-api-key': 'client-key',
    'x-payment': 'proof',
    cookie: 'preferred_instances=1',
    connection: 'x-own',
    'x-own': '1',
    te: 'trailers',
    'content-length': '99',
    'transfer-encoding': 'chunked',
    'x-request-id': 'r-1',
    'anthropic-version': '2023-06-01',
    'x-several': ['1', '2'],
    'x-headrace-truth': '1',
  };
  const answer = await pass(engine, `{"model":"${LLAMA_MODEL}"}`, { headers });
  t.same(answer.headers, { 'x-kept': 'yes', 'content-length': '2' });
  await bytesOf(answer);
  const seen = fake.last(CHAT).headers;
  t.equal(seen.authorization, 'Bearer engine-key');
  t.equal(seen.host, new URL(fake.url).host);
  t.equal(seen['x-request-id'], 'r-1');
  t.equal(seen['anthropic-version'], '2023-06-01');
  t.equal(seen['x-several'], '1, 2');
  t.equal(seen['accept-encoding'], 'identity');
  for (const name of ['x-api-key', 'x-payment', 'cookie', 'x-own', 'te', 'x-headrace-truth']) {
    t.equal(seen[name], undefined, name);
  }
  t.notMatch(JSON.stringify(seen), 'client-key');
});

t.test('refuses by name the dialects that the engine does not speak', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer());
  const message =
    'The engine behind this host (llama-server) does not serve /v1/messages; ' +
    'it serves /v1/completions, /v1/chat/completions, /v1/responses';
  const answer = await pass(engine, '{}', { path: '/v1/messages' });
  t.equal(answer.status, 404);
  t.same(await jsonOf(answer), { detail: message, type: 'error', error: { type: 'not_found_error', message } });
  t.equal(fake.requests.length, 0, 'what it serves of the dialects is known');
  const images = await pass(engine, '{}', { path: '/v1/images/generations' });
  t.equal(images.status, 404);
  t.match(await jsonOf(images), { detail: /does not serve \/v1\/images/, error: { type: 'not_found_error' } });
});

t.test('reads no more of a 404 than a word about the model takes', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer());
  const chunk = Buffer.alloc(16 * 1024, 'model ');
  fake.answers.set('/v1/images/generations', (_, response) => {
    response.writeHead(404);
    const more = (): void => {
      while (response.write(chunk));
    };
    response.on('drain', more);
    more();
  });
  const answer = await pass(engine, '{}', { path: '/v1/images/generations' });
  t.equal(answer.status, 404);
  t.match(await jsonOf(answer), { detail: /does not serve/ });
  await fake.abandoned;
});

t.test('answers 502 for what is not the fault of the client', async (t) => {
  const { engine, fake } = await attach(t, startFakeVllm());
  fake.answers.set(CHAT, json({ error: 'Unauthorized' }, 401));
  const refused = await pass(engine, '{}');
  t.equal(refused.status, 502);
  t.match(await jsonOf(refused), { detail: 'The engine behind this host refused the credentials of the host' });
  fake.answers.set(CHAT, (_, response) => response.destroy());
  const dead = await pass(engine, '{}');
  t.equal(dead.status, 502);
  t.match(await jsonOf(dead), { detail: 'The engine closed the connection without an answer' });
  t.equal(engine.health(), 'failed', 'until the next look');
});

t.test('fails the body when the engine breaks off within it', async (t) => {
  const { engine, fake } = await attach(t, startFakeVllm());
  fake.answers.set(CHAT, events(['data: 1\n\n'], 'cut'));
  const answer = await pass(engine, '{}');
  await t.rejects(bytesOf(answer), { message: 'the engine broke off in the middle of its answer' });
});

t.test('leaves the engine when the client leaves, before an answer and within it', async (t) => {
  for (const hasBegun of [false, true]) {
    const { engine, fake } = await attach(t, startFakeVllm());
    const asked = Promise.withResolvers<void>();
    fake.answers.set(CHAT, (request, response) => {
      asked.resolve();
      if (hasBegun) events(['data: 1\n\n'], 'stay')(request, response);
    });
    const gone = new AbortController();
    const passing = pass(engine, '{}', { signal: gone.signal });
    await asked.promise;
    if (hasBegun) await passing;
    gone.abort(new Error('gone'));
    if (hasBegun) await t.rejects(bytesOf(await passing), { message: 'gone' });
    else await t.rejects(passing, { message: 'gone' });
    await fake.abandoned;
    t.equal(engine.figures().running, 0);
  }
});

t.test('lets the engine wait while the client does not read', async (t) => {
  const { engine, fake } = await attach(t, startFakeVllm());
  const block = randomBytes(64 * 1024);
  const blocks = 512;
  const full = Promise.withResolvers<void>();
  let sent = 0;
  fake.answers.set(CHAT, (_, response) => {
    response.writeHead(200, { 'content-type': 'application/octet-stream' });
    const send = (): void => {
      while (sent < blocks) {
        sent++;
        if (response.write(block)) continue;
        full.resolve();
        response.once('drain', send);
        return;
      }
      response.end();
    };
    send();
  });
  const answer = await pass(engine, '{}');
  await full.promise;
  for (let turn = 0; turn < 200; turn++) await new Promise((resolve) => setImmediate(resolve));
  t.ok(sent < blocks, `${sent} of ${blocks} blocks were taken`);
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const piece of answer.body) {
    hash.update(piece);
    bytes += piece.byteLength;
  }
  t.equal(bytes, blocks * block.length);
  const expected = createHash('sha256');
  for (let n = 0; n < blocks; n++) expected.update(block);
  t.equal(hash.digest('hex'), expected.digest('hex'));
});
