// A worker on real sockets, in front of a service on real sockets.
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect } from 'node:net';
import { pack, unpack } from 'msgpackr';
import t from 'tap';
import { createManualClock } from '../../src/actor/index.ts';
import { createSearchWorker } from '../../src/search-worker/index.ts';
import { until } from '../support/system.ts';
import {
  ANSWER,
  type StartedWorker,
  finds,
  type Handle,
  hangs,
  refusal,
  startWorker,
} from '../support/search-worker.ts';

const REQUESTS = 'headrace_search_worker_requests_total';
const UPSTREAM = 'headrace_search_worker_upstream_calls_total';

const idle = (b: StartedWorker): Promise<void> =>
  until('nothing in flight', async () => (await b.sample('headrace_search_worker_in_flight')) === 0);

t.test('answers a search in JSON and in msgpack, asked in either', async (t) => {
  const b = await startWorker(t, finds);
  const asked = { engine: 'whatever', query: 'fish ladder', max_results: 5, search_type: 'web' };
  for (const contentType of ['application/json', 'application/msgpack']) {
    for (const accept of ['application/json', 'application/msgpack']) {
      const body = contentType === 'application/json' ? JSON.stringify(asked) : new Uint8Array(pack(asked));
      const response = await b.ask({ headers: { accept, 'content-type': contentType }, body });
      t.equal(response.status, 200);
      t.equal(response.headers.get('content-type'), accept);
      const bytes = Buffer.from(await response.arrayBuffer());
      t.strictSame(accept === 'application/json' ? JSON.parse(bytes.toString()) : unpack(bytes), ANSWER);
    }
  }
  t.match(b.service.asked[0], /q=fish\+ladder/);
  t.match(b.service.asked[1], /pageno=2/, 'pages are the worker’s affair');
});

t.test('gives at most max_results results', async (t) => {
  const b = await startWorker(t, finds);
  const response = await b.ask({ json: { query: 'fish', max_results: 1 } });
  t.equal(((await response.json()) as { results: unknown[] }).results.length, 1);
});

const FAILURES: Readonly<Record<string, readonly [Handle, readonly [number, string, string | null]]>> = {
  'is rate limited': [(_, response) => response.writeHead(429).end('secret'), [429, 'rate limited', '10']],
  'is rate limited and says how long': [
    (_, response) => response.writeHead(429, { 'retry-after': '120' }).end(),
    [429, 'rate limited', '120'],
  ],
  'denies access': [(_, response) => response.writeHead(403).end('secret'), [403, 'access denied', null]],
  'is used up': [(_, response) => response.writeHead(402).end('secret'), [402, 'quota exceeded', '3600']],
  'rejects the query': [(_, response) => response.writeHead(400).end('secret'), [422, 'query rejected', null]],
  'wants a human': [
    (_, response) => response.writeHead(200, { 'content-type': 'text/html', 'cf-mitigated': 'challenge' }).end('x'),
    [502, 'challenge page', null],
  ],
  fails: [(_, response) => response.writeHead(500).end('secret'), [502, 'engine returned HTTP 500', null]],
  'answers nonsense': [(_, response) => response.end('<p>secret'), [502, 'invalid response', null]],
  'hangs up': [(request) => request.socket.resetAndDestroy(), [502, 'connection failed', null]],
};

for (const [what, [handle, wanted]] of Object.entries(FAILURES)) {
  t.test(`reports when the service ${what}`, async (t) => {
    const b = await startWorker(t, handle);
    t.strictSame(await refusal(await b.ask()), wanted);
    await until('the count', async () => (await b.sample(`${REQUESTS}{outcome="${wanted[1]}"}`)) === 1);
  });
}

t.test('answers 504 at its deadline and ends the request to the service', async (t) => {
  const clock = createManualClock();
  const b = await startWorker(t, hangs, { clock, timeoutMs: 4000 });
  const answer = b.ask();
  const upstream = await b.service.next();
  const left = once(upstream, 'close');
  clock.advance(3999);
  t.equal(await b.sample('headrace_search_worker_in_flight'), 1);
  clock.advance(1);
  t.strictSame(await refusal(await answer), [504, 'timeout', null]);
  await left;
  await until('the count', async () => (await b.sample(`${UPSTREAM}{outcome="cancelled"}`)) === 1);
});

t.test('does not ask a suspended engine, and answers with Retry-After', async (t) => {
  const clock = createManualClock();
  const b = await startWorker(t, (_, response) => response.writeHead(429, { 'retry-after': '60' }).end(), { clock });
  await b.ask();
  clock.advance(18_500);
  t.strictSame(await refusal(await b.ask()), [503, 'suspended', '42']);
  t.equal(b.service.asked.length, 1);
  t.match(await b.health(), { status: 200, body: { status: 'ok', suspended_ms: 41_500, failed: 2 } });
});

t.test('keeps the rate limits of the engine, and answers 429 with the time of the next request', async (t) => {
  const rates = [{ requests: 1, per: '60s' }];
  const service = await startWorker(t, finds);
  const b = await startWorker(t, finds, {
    clock: createManualClock(),
    engine: { url: service.service.url, rates },
    timeoutMs: 5000,
  });
  await b.ask({ json: { query: 'fish', max_results: 1 } });
  t.strictSame(await refusal(await b.ask()), [429, 'rate limited', '61']);
  t.equal(service.service.asked.length, 1);
});

t.test('a client that leaves cancels its engine call', async (t) => {
  const b = await startWorker(t, hangs);
  const leaving = new AbortController();
  const answer = b.ask({ signal: leaving.signal });
  const left = once(await b.service.next(), 'close');
  leaving.abort();
  await t.rejects(answer);
  await left;
  await idle(b);
  t.equal(await b.sample(`${REQUESTS}{outcome="cancelled"}`), 1);
  t.equal(await b.sample(`${UPSTREAM}{outcome="cancelled"}`), 1);
  t.match(await b.health(), { status: 200, body: { suspended_ms: 0 } }, 'the engine is not to blame');
});

t.test('asks for the secret, before anything else of a search', async (t) => {
  const b = await startWorker(t, finds, { secret: 's3cret' });
  for (const authorization of ['', 'Bearer s3cre', 'Bearer s3cret2', 'Basic s3cret']) {
    const response = await b.ask({ headers: authorization === '' ? {} : { authorization }, body: '{' });
    t.equal(response.headers.get('www-authenticate'), 'Bearer');
    t.strictSame(await refusal(response), [401, 'unauthorized', null]);
  }
  t.equal((await b.ask({ headers: { authorization: 'Bearer s3cret' } })).status, 200);
  t.equal((await b.health()).status, 200, 'probes need none');
  t.equal(await b.sample(`${REQUESTS}{outcome="unauthorized"}`), 4);
  t.equal(b.service.asked.length, 2);
});

t.test('refuses requests that are no search', async (t) => {
  const b = await startWorker(t, finds);
  const ask = async (init: Parameters<StartedWorker['ask']>[0]): Promise<unknown> =>
    (await refusal(await b.ask(init)))[0];
  t.equal(await ask({ body: '{"query": "x"' }), 422);
  t.equal(await ask({ body: new Uint8Array([0xc1]), headers: { 'content-type': 'application/msgpack' } }), 422);
  t.equal(await ask({ json: { max_results: 5 } }), 422);
  t.equal(await ask({ headers: { 'content-type': 'text/plain' } }), 415);
  t.equal(await ask({ json: { query: 'x', pad: 'x'.repeat(70_000) } }), 413);
  const got = await fetch(`${b.url}/search`);
  t.strictSame([got.status, got.headers.get('allow')], [405, 'POST']);
  t.equal((await fetch(`${b.url}/health`, { method: 'POST' })).status, 405);
  t.equal((await fetch(`${b.url}/`)).status, 404);
  t.equal(b.service.asked.length, 0);
});

t.test('does not read a body of unknown length past the limit', async (t) => {
  const b = await startWorker(t, finds);
  const sending = request(`${b.url}/search`, { method: 'POST' });
  sending.on('error', () => undefined);
  const answered = once(sending, 'response') as Promise<[{ statusCode: number }]>;
  sending.write(Buffer.alloc(40_000, 32));
  sending.write(Buffer.alloc(40_000, 32));
  t.equal((await answered)[0].statusCode, 413);
  sending.destroy();
});

t.test('a client that leaves while it sends its body leaves nothing behind', async (t) => {
  const b = await startWorker(t, finds);
  const socket = connect(Number(new URL(b.url).port), '127.0.0.1');
  socket.write('POST /search HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{');
  await until('in flight', async () => (await b.sample('headrace_search_worker_in_flight')) === 1);
  socket.destroy();
  await idle(b);
  t.equal(b.service.asked.length, 0);
});

t.test('a client that does not read its answers leaves nothing behind', async (t) => {
  const clock = createManualClock();
  const url = `https://a.example/${'a'.repeat(8000)}`;
  const results = Array.from({ length: 100 }, (_, at) => ({ title: 'Weir', url: `${url}${at}`, content: '' }));
  const b = await startWorker(t, (_, response) => response.end(JSON.stringify({ results })), { clock });
  const socket = connect(Number(new URL(b.url).port), '127.0.0.1').pause();
  const body = '{"query":"x","max_results":100}';
  // Beyond what the system takes.
  socket.write(`POST /search HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`.repeat(50));
  let before = -1;
  let looks = 0;
  await until('no answer goes on', async () => {
    const { answered, in_flight: running } = (await b.health()).body as Record<string, number>;
    looks = answered === before && (running as number) > 0 ? looks + 1 : 0;
    before = answered as number;
    return looks === 20;
  });
  clock.advance(30_000);
  await idle(b);
  socket.destroy();
});

t.test('refuses a type its engine does not have', async (t) => {
  const b = await startWorker(t, finds, { kind: 'brave', engine: { apiKey: 'key', url: 'http://127.0.0.1:9' } });
  const answer = await b.ask({ json: { query: 'x', search_type: 'academic' } });
  t.strictSame(await refusal(answer), [422, "unsupported search_type 'academic'", null]);
});

t.test('admits no more searches than it can answer', async (t) => {
  const b = await startWorker(t, hangs, { maxInFlight: 1 });
  const first = b.ask();
  const upstream = await b.service.next();
  t.strictSame(await refusal(await b.ask()), [503, 'too many searches', '1']);
  upstream.end('{"results":[]}');
  t.equal((await first).status, 200);
  await idle(b);
  const next = b.ask();
  (await b.service.next()).end('{"results":[]}');
  t.equal((await next).status, 200);
});

t.test('counts and times searches', async (t) => {
  const b = await startWorker(t, finds);
  await b.ask();
  await idle(b);
  t.equal(await b.sample(`${REQUESTS}{outcome="ok"}`), 1);
  t.equal(await b.sample(`${UPSTREAM}{outcome="answered"}`), 2);
  t.equal(await b.sample('headrace_search_worker_request_duration_seconds_count'), 1);
  t.equal(await b.sample('headrace_search_worker_request_duration_seconds_bucket{le="+Inf"}'), 1);
  t.match((await fetch(`${b.url}/metrics`)).headers.get('content-type'), /^text\/plain; version=0\.0\.4/);
  t.strictSame(await b.health(), {
    status: 200,
    body: {
      ...{ status: 'ok', engine: 'searxng', search_types: ['web', 'news', 'images', 'academic'] },
      ...{ suspended_ms: 0, in_flight: 0, answered: 1, failed: 0 },
    },
  });
});

t.test('keeps a connection longer than gateways do', async (t) => {
  const b = await startWorker(t, finds);
  t.equal((await fetch(`${b.url}/health`)).headers.get('keep-alive'), 'timeout=65');
});

t.test('searches a folder, and is not healthy before it has read it', async (t) => {
  const folder = `${t.testdir({})}/docs`;
  const notices: string[] = [];
  const worker = createSearchWorker({
    ...{ kind: 'local', engine: { path: folder, baseUrl: 'https://docs.example/' } },
    onNotice: (sentence) => notices.push(sentence),
  });
  t.teardown(() => worker.abort());
  const url = await worker.listen();
  const health = async (): Promise<number> => (await fetch(`${url}/health`)).status;
  t.equal(await health(), 503);
  await until('the notices', () => notices.length > 1);
  t.ok(notices.includes(`${folder}: the folder cannot be read`), notices.join('; '));
  mkdirSync(folder);
  writeFileSync(`${folder}/weir.md`, '# The weir\n\nFish climb the ladder beside the weir.\n');
  await until('healthy', async () => (await health()) === 200);
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(`${url}/search`, { method: 'POST', headers, body: '{"query": "fish ladder"}' });
  t.match(await response.json(), { results: [{ title: 'The weir', url: 'https://docs.example/weir.md' }] });
});

t.test('closes when the searches in flight are answered, and takes no more', async (t) => {
  const b = await startWorker(t, hangs);
  const answer = b.ask();
  const upstream = await b.service.next();
  const closing = b.worker.close();
  t.equal(b.worker.close(), closing);
  await t.rejects(fetch(`${b.url}/health`, { headers: { connection: 'close' } }), 'the port is closed');
  upstream.end('{"results":[]}');
  const response = await answer;
  t.equal(response.status, 200);
  t.equal(response.headers.get('connection'), 'close');
  await closing;
});

t.test('refuses a search that comes on a kept connection while it closes', async (t) => {
  const b = await startWorker(t, hangs);
  const socket = connect(Number(new URL(b.url).port), '127.0.0.1');
  let said = '';
  socket.on('data', (piece: Buffer) => (said += piece.toString()));
  const body = '{"query":"x"}';
  const post = `POST /search HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n`;
  const first = b.ask();
  const upstream = await b.service.next();
  // Its head has begun, and has been read by the end of two other requests: the connection is not idle.
  socket.write(post.slice(0, 10));
  for (const _ of [1, 2]) await b.health();
  const closing = b.worker.close();
  socket.write(post.slice(10) + body);
  await until('an answer', () => said.includes('\r\n\r\n'));
  t.match(said, /^HTTP\/1\.1 503 [^]*connection: close[^]*\{"detail":"draining"\}$/i);
  upstream.end('{"results":[]}');
  await first;
  await closing;
});

t.test('does not wait longer than a search may take', async (t) => {
  const clock = createManualClock();
  const b = await startWorker(t, finds, { clock, timeoutMs: 2000 });
  const socket = connect(Number(new URL(b.url).port), '127.0.0.1');
  t.teardown(() => socket.destroy());
  socket.write('POST /search HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{');
  await until('in flight', async () => (await b.sample('headrace_search_worker_in_flight')) === 1);
  const closing = b.worker.close();
  clock.advance(3000);
  await closing;
});

t.test('names the mistake in its settings', async (t) => {
  const cases: readonly (readonly [Parameters<typeof createSearchWorker>[0], RegExp])[] = [
    [{ kind: 'nothing' }, /^engine nothing: is of an unknown kind/],
    [{ kind: 'brave' }, /^engine brave: brave needs apiKey$/],
    [{ kind: 'brave', engine: { apiKey: 'a b' } }, /^engine brave: apiKey (?!.*a b)/],
    [{ kind: 'duckduckgo', listen: 'nowhere' }, /^listen must be HOST:PORT$/],
  ];
  for (const [settings, message] of cases) t.throws(() => createSearchWorker(settings), { message });
});

t.test('a port that is taken is a rejection', async (t) => {
  const b = await startWorker(t, finds);
  const second = createSearchWorker({ kind: 'duckduckgo', listen: new URL(b.url).host });
  t.teardown(() => second.abort());
  await t.rejects(second.listen(), { code: 'EADDRINUSE' });
});
