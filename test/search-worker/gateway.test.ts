// A gateway in front of search workers on real sockets: clients read the failures of a worker's engine.
import { once } from 'node:events';
import t, { type Test } from 'tap';
import { createGateway, type Gateway } from '../../src/gateway/gateway.ts';
import type { InProcessEngine, SearchAnswer } from '../../src/search/index.ts';
import { finds, type Handle, hangs, startWorker, startService } from '../support/search-worker.ts';

/** Finds nothing, so that a search never fails as a whole. */
const NOTHING: InProcessEngine = {
  ...{ kind: 'nothing', documentation: 'README.md', types: ['web', 'news', 'images', 'academic'] },
  search: async () => [],
};

function gatewayOf(t: Test, engine: Record<string, unknown>): Gateway {
  const gateway = createGateway({
    search: { engines: { engine_a: { kind: 'worker', ...engine }, engine_b: NOTHING } },
    log: { level: 'silent' },
  });
  t.teardown(() => gateway.close());
  return gateway;
}

type Input = Parameters<Gateway['search']>[0];

const search = (gateway: Gateway, more: Partial<Input> = {}): Promise<SearchAnswer> =>
  gateway.search({ query: 'fish', engines: ['engine_a', 'engine_b'], ...more });

const reason = (answer: SearchAnswer): string | undefined => answer.meta.engine_errors[0]?.reason;

t.test('passes on the results of a worker', async (t) => {
  const b = await startWorker(t, finds, { secret: 's3cret' });
  const answer = await search(gatewayOf(t, { urls: [b.url], secret: 's3cret' }), { search_type: 'news' });
  t.strictSame(answer.meta.engines_used, ['engine_a', 'engine_b']);
  t.match(answer.results, [
    { title: 'Fish ladder', url: 'https://a.example/1', snippet: 'Water falls.', published_at: '2026-11-20', rank: 1 },
    { title: 'Weir', url: 'https://b.example/2', snippet: '', source: 'The Daily', engine: 'engine_a', rank: 2 },
  ]);
});

t.test('a gateway with another secret, or none, is denied', async (t) => {
  const b = await startWorker(t, finds, { secret: 's3cret' });
  for (const secret of [{}, { secret: 'wrong' }]) {
    t.equal(reason(await search(gatewayOf(t, { urls: [b.url], ...secret }))), 'access denied');
  }
  t.equal(b.service.asked.length, 0);
});

const html = { 'content-type': 'text/html', 'cf-mitigated': 'challenge' };

const FAILURES: Readonly<Record<string, Handle>> = {
  'rate limited': (_, response) => response.writeHead(429, { 'retry-after': '60' }).end(),
  'access denied': (_, response) => response.writeHead(401).end(),
  'quota exceeded': (_, response) => response.writeHead(402).end(),
  'query rejected': (_, response) => response.writeHead(422).end(),
  'challenge page': (_, response) => response.writeHead(200, html).end('x'),
  'invalid response': (_, response) => response.end('nonsense'),
  'connection failed': (request) => request.socket.resetAndDestroy(),
  'worker returned HTTP 502': (_, response) => response.writeHead(500).end(),
};

for (const [wanted, handle] of Object.entries(FAILURES)) {
  t.test(`clients read of a worker's engine: ${wanted}`, async (t) => {
    const b = await startWorker(t, handle);
    t.equal(reason(await search(gatewayOf(t, { urls: [b.url] }))), wanted);
  });
}

t.test("clients read of a worker's engine: timeout", async (t) => {
  const b = await startWorker(t, hangs, { timeoutMs: 50 });
  t.equal(reason(await search(gatewayOf(t, { urls: [b.url] }))), 'timeout');
});

t.test("clients read of a worker's engine: suspended", async (t) => {
  const b = await startWorker(t, (_, response) => response.writeHead(429, { 'retry-after': '60' }).end());
  await b.ask();
  const gateway = gatewayOf(t, { urls: [b.url] });
  t.equal(reason(await search(gateway)), 'suspended');
  t.equal(await b.sample('headrace_search_worker_requests_total{outcome="suspended"}'), 1);
  t.equal(reason(await search(gateway)), 'suspended');
  t.equal(await b.sample('headrace_search_worker_requests_total{outcome="suspended"}'), 1, 'the gateway knows by now');
});

t.test("failures of one account's queries suspend a worker's engine for that account only", async (t) => {
  const b = await startWorker(t, (request, response) => {
    if (request.url?.includes('bad')) response.writeHead(500).end();
    else finds(request, response);
  });
  const ask = async (account: string | undefined, query: string) =>
    b.ask({
      headers: account === undefined ? {} : { 'x-headrace-account-hash': account },
      json: { query },
    });
  for (const query of ['bad 1', 'bad 2', 'bad 3']) t.equal((await ask('a', query)).status, 502);
  const refused = await ask('a', 'fish');
  t.equal(refused.status, 503);
  t.equal(refused.headers.get('x-headrace-scope'), 'account');
  t.equal((await ask('b', 'fish')).status, 200);
});

t.test('a gateway keeps asking a worker that refused one account only', async (t) => {
  let asked = 0;
  const ids = new Set<unknown>();
  const service = await startService(t, (request, response) => {
    asked++;
    ids.add(request.headers['x-headrace-account-hash']);
    const headers = { 'content-type': 'application/json', 'retry-after': '60', 'x-headrace-scope': 'account' };
    response.writeHead(asked === 1 ? 429 : 503, headers);
    response.end(JSON.stringify({ detail: asked === 1 ? 'slow down' : 'suspended' }));
  });
  const gateway = gatewayOf(t, { urls: [service.url] });
  t.equal(reason(await search(gateway, { query: 'one' })), 'rate limited');
  t.equal(reason(await search(gateway, { query: 'two' })), 'suspended');
  t.equal(reason(await search(gateway, { query: 'three' })), 'suspended');
  t.equal(asked, 3, 'the engine is not suspended in the gateway');
  t.match([...ids], [/^[\w-]{43}$/]);
});

t.test("clients read of a worker's engine: a type it does not have", async (t) => {
  const b = await startWorker(t, finds, { kind: 'brave', engine: { apiKey: 'key', url: 'http://127.0.0.1:9' } });
  const gateway = gatewayOf(t, { urls: [b.url], types: ['web', 'academic'] });
  t.equal(reason(await search(gateway, { search_type: 'academic' })), "unsupported search_type 'academic'");
});

t.test('a failure with a status of its own reads as that status', async (t) => {
  for (const [status, body] of [
    [500, 'boom'],
    [503, '{"detail":"the secret is s3cret"}'],
    [504, 'gateway time-out'],
  ] as const) {
    const service = await startService(t, (_, response) => response.writeHead(status).end(body));
    t.equal(reason(await search(gatewayOf(t, { urls: [service.url] }))), `worker returned HTTP ${status}`);
  }
});

t.test('a search whose client leaves ends the request to the service behind the worker', async (t) => {
  const b = await startWorker(t, hangs);
  const leaving = new AbortController();
  const gateway = gatewayOf(t, { urls: [b.url] });
  const answer = gateway.search({ query: 'fish', engines: ['engine_a'] }, { signal: leaving.signal });
  const left = once(await b.service.next(), 'close');
  leaving.abort(new Error('left'));
  await t.rejects(answer, { message: 'left' });
  await left;
});

t.test('another worker of the engine takes over from one that closes', async (t) => {
  const [one, two] = [await startWorker(t, finds), await startWorker(t, finds)];
  const gateway = gatewayOf(t, { urls: [one.url, two.url] });
  await search(gateway);
  await one.worker.close();
  for (let i = 0; i < 4; i++) {
    const answer = await search(gateway, { query: `fish ${i}` });
    t.same(answer.meta.engine_errors, []);
    t.equal(answer.results.length, 2);
  }
});

const FILTERS: Partial<Input> = { exclude_domains: ['a.example'], country: 'AT', time_range: 'day' };

t.test('passes filters on to the engine of a worker, which says what it does not apply', async (t) => {
  const b = await startWorker(t, finds);
  const answer = await search(gatewayOf(t, { urls: [b.url] }), FILTERS);
  t.match(b.service.asked[0], /time_range=day/);
  t.same(
    answer.results.map(({ url }) => url),
    ['https://b.example/2'],
  );
  t.equal(reason(answer), 'country filter not applied', 'the instance was asked for the time');
});

t.test('an older worker, which ignores filters, does not answer unfiltered without a word', async (t) => {
  const results = [
    { title: 'Old', url: 'https://b.example/1', snippet: '', published_at: '2001-01-01' },
    { title: 'Excluded', url: 'https://a.example/2', snippet: '' },
    { title: 'Undated', url: 'https://b.example/3', snippet: '' },
  ];
  const old = await startService(t, (_, response) => response.end(JSON.stringify({ results })));
  const answer = await search(gatewayOf(t, { urls: [old.url] }), FILTERS);
  t.same(
    answer.results.map(({ url }) => url),
    ['https://b.example/3'],
  );
  t.equal(reason(answer), 'country, time_range filters not applied');
  const second = await search(gatewayOf(t, { urls: [old.url] }), { page: 2, max_results: 2 });
  t.same(
    second.results.map(({ rank, url }) => `${rank} ${url}`),
    ['3 https://b.example/3'],
  );
});
