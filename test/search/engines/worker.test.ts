import { addExtension, pack } from 'msgpackr';
import t from 'tap';
import { worker } from '../../../src/search/engines/worker.ts';
import type { EnginePage, EngineQuery, EngineRequest } from '../../../src/search/engine.ts';
import { KEY, NOW, answer, contract, failure, fixture, parse, type Supply } from './contract.ts';

const engine = worker({ url: 'http://worker.example:9101', secret: KEY, engine: 'engine_a' });

const CONTEXT = { state: undefined, collected: 0, nowMs: NOW } as const;

const asked = (request: EngineRequest): Record<string, unknown> =>
  JSON.parse(String(request.body)) as Record<string, unknown>;

contract('a worker', {
  engine,
  keyed: true,
  pages: [
    { fixture: 'worker/web.json', type: 'web', hits: 3 },
    { fixture: 'worker/news.json', type: 'news', hits: 2 },
    { fixture: 'worker/images.json', type: 'images', hits: 2 },
    { fixture: 'worker/academic.json', type: 'academic', hits: 1 },
    { fixture: 'worker/empty.json', type: 'web', hits: 0 },
    { fixture: 'worker/nulls.json', type: 'web', hits: 1 },
  ],
  failures: [
    { fixture: 'worker/error.json', status: 200, failure: 'invalid' },
    { fixture: 'worker/error.json', status: 500, failure: 'http' },
    { fixture: 'worker/garbage.txt', status: 200, failure: 'invalid' },
  ],
  garbage: ['{}', '{"results":null}', '{"results":{}}'],
  serve: (request, supply: readonly Supply[]) => ({
    results: supply.slice(0, asked(request)['max_results'] as number),
  }),
});

t.test('a worker is asked as the protocol says', async (t) => {
  t.same(engine.request({ query: 'danube', type: 'news', maxResults: 7 }, undefined), {
    method: 'POST',
    url: 'http://worker.example:9101/search',
    headers: {
      accept: 'application/msgpack, application/json',
      'content-type': 'application/json',
      authorization: `Bearer ${KEY}`,
    },
    body: '{"engine":"engine_a","query":"danube","max_results":7,"search_type":"news"}',
  });
  const open = worker({ url: 'http://worker.example' }).request({ query: 'x', type: 'web', maxResults: 1 }, undefined);
  t.equal(open.headers['authorization'], undefined);
  t.same(worker({ url: 'http://worker.example', types: ['academic'] }).types, ['academic']);
});

t.test('a worker tells accounts apart by ids that say nothing of them', async (t) => {
  const idOf = (account: string, of = engine): unknown =>
    of.request({ query: 'x', type: 'web', maxResults: 1 }, undefined, account).headers['x-headrace-account-hash'];
  const id = idOf('acme');
  t.match(id, /^[\w-]{43}$/);
  t.equal(idOf('acme'), id);
  t.not(idOf('other'), id);
  const url = 'http://worker.example:9101';
  t.equal(idOf('acme', worker({ url, secret: KEY })), id, 'equal in all threads and gateways');
  t.not(idOf('acme', worker({ url, secret: 'another' })), id);
});

t.test('a worker may answer in msgpack, whatever it calls it', async (t) => {
  for (const [name, type] of [
    ['web', 'web'],
    ['news', 'news'],
    ['images', 'images'],
  ] as const) {
    const json = fixture(`worker/${name}.json`);
    const packed = answer(pack(JSON.parse(json.toString())), 200, { 'content-type': 'text/plain' });
    t.same(parse(engine, type, packed), parse(engine, type, answer(json)));
  }
  const large = {
    results: Array.from({ length: 70 }, (_, index) => ({ title: 'T', url: `http://a.example/${index}` })),
  };
  t.equal(parse(engine, 'web', answer(pack(large))).hits.length, 70);
  const dated = { results: [{ title: 'T', url: 'http://a.example/', published_at: new Date(NOW) }] };
  t.equal(parse(engine, 'news', answer(pack(dated))).hits[0]?.publishedAt, '2026-11-21T10:00:00Z');
  const long = { results: [{ title: 'T', url: 'http://a.example/', width: 640n }] };
  t.equal(parse(engine, 'images', answer(pack(long))).hits[0]?.width, 640);
});

t.test('msgpack that is none, or more than one value, is an invalid response', async (t) => {
  const good = pack({ results: [] });
  const bad = [
    good.subarray(0, -1),
    Buffer.concat([good, good]),
    Buffer.from([0xdf, 0xff, 0xff, 0xff, 0xff]),
    Buffer.from([0x81, 0xa7, ...Buffer.from('results'), 0xdd, 0xff, 0xff, 0xff, 0xff]),
    Buffer.alloc(200_000, 0x81),
    pack({ results: 'none' }),
    pack({}),
  ];
  for (const bytes of bad) t.equal(failure(engine, 'web', answer(bytes))?.failure, 'invalid');
});

t.test('msgpack of far more lists and maps than a page of results has is not read', async (t) => {
  const hit = { title: 'T', url: 'http://a.example/', snippet: '\u0480'.repeat(150_000) };
  const values = [-1, 200, 70_000, 2 ** 40, 0.5, true, null, 'x'.repeat(300), Buffer.alloc(300), new Date(NOW)];
  // The answer, its list of results, the result and two more lists.
  const found = (lists: number): Buffer =>
    pack({
      results: [{ ...hit, values, more: Array.from({ length: lists - 5 }, (_, at) => (at % 2 === 0 ? [] : {})) }],
    });
  t.equal(parse(engine, 'web', answer(found(500_000))).hits.length, 1);
  t.equal(failure(engine, 'web', answer(found(500_001)))?.failure, 'invalid');
  t.equal(failure(engine, 'web', answer(found(500_000).subarray(0, 460_000)))?.failure, 'invalid');
});

t.test('types of the process are not made from the bytes of a worker', async (t) => {
  class Secret {}
  addExtension({
    Class: Secret,
    type: 0x53,
    write: () => 1,
    read: () => {
      throw new Error('read');
    },
  });
  t.equal(failure(engine, 'web', answer(pack({ results: [new Secret()] })))?.failure, 'invalid');
});

t.test('errors, expressions and other objects in msgpack are not made, however they are written', async (t) => {
  const key = [0x82, 0xa7, ...Buffer.from('results'), 0x90, 0xa1, 0x78];
  const error = [0x92, 0xa5, ...Buffer.from('Error'), 0xa1, 0x78];
  const extensions = [
    [0xd4, 0x65, 0, ...error],
    [0xd4, 0x78, 0, 0x92, 0xa1, 0x78, 0xa0],
    [0xd5, 0x42, 1, 1],
    [0xd6, 0x69, 0, 0, 0, 1, 0x90],
    [0xd7, 0x42, 1, 1, 1, 1, 1, 1, 1, 1],
    [0xd8, 0x42, ...Buffer.alloc(16, 1)],
    [0xc7, 2, 0x74, 1, 1],
    [0xc8, 0, 2, 0x74, 1, 1],
    [0xc9, 0, 0, 0, 2, 0x74, 1, 1],
  ];
  for (const extension of extensions) {
    const bytes = Buffer.from([...key, ...extension]);
    t.equal(failure(engine, 'web', answer(bytes))?.failure, 'invalid', bytes.toString('hex'));
  }
  t.equal(parse(engine, 'web', answer(Buffer.from([...key, 0xd6, 0xff, 0, 0, 0, 1]))).hits.length, 0, 'but times are');
});

t.test('hits of a worker carry all fields the protocol names', async (t) => {
  t.strictSame(parse(engine, 'news', answer(fixture('worker/news.json'))).hits[0], {
    title: 'Flood warning',
    url: 'https://news.example/flood',
    snippet: 'Water rises.',
    publishedAt: '2026-11-20T17:30:00Z',
    source: 'The Daily Example',
  });
  t.strictSame(parse(engine, 'images', answer(fixture('worker/images.json'))).hits, [
    {
      title: 'Bridge',
      url: 'https://photos.example/bridge',
      snippet: '',
      thumbnailUrl: 'https://photos.example/t/bridge.jpg',
      imageUrl: 'https://photos.example/bridge.jpg',
      width: 1600,
      height: 900,
    },
    { title: 'Ship', url: 'https://photos.example/ship', snippet: '', imageUrl: 'https://photos.example/ship.png' },
  ]);
});

t.test('what a worker says of its own engine is told in the words of the protocol, and nothing else it says', (t) => {
  const error = (status: number, body: Buffer, headers = {}): ReturnType<typeof failure> =>
    failure(engine, 'news', answer(body, status, headers));
  const detail = (text: unknown): Buffer => Buffer.from(JSON.stringify({ detail: text }));
  const cases: readonly (readonly [number, unknown, string, string])[] = [
    [504, 'timeout', 'http', 'timeout'],
    [502, 'connection failed', 'http', 'connection failed'],
    [502, 'invalid response', 'invalid', 'invalid response'],
    [502, 'challenge page', 'challenge', 'challenge page'],
    [503, 'suspended', 'http', 'suspended'],
    [422, "unsupported search_type 'news'", 'rejected', "unsupported search_type 'news'"],
    [422, "unsupported search_type 'secret'", 'rejected', 'query rejected'],
    [502, 'constructor', 'http', 'engine returned HTTP 502'],
    [502, ['timeout'], 'http', 'engine returned HTTP 502'],
    [502, 'secret', 'http', 'engine returned HTTP 502'],
    [403, 'secret', 'denied', 'access denied'],
  ];
  for (const [status, said, kind, reason] of cases) {
    const found = error(status, detail(said));
    t.strictSame([found?.failure, found?.reason, found?.retryAfterMs], [kind, reason, undefined]);
  }
  t.equal(error(504, pack({ detail: 'timeout' }))?.reason, 'timeout', 'in msgpack, too');
  t.equal(error(504, Buffer.from('timeout'))?.reason, 'engine returned HTTP 504');
  t.equal(error(504, Buffer.concat([detail('timeout'), Buffer.alloc(1024, 32)]))?.reason, 'engine returned HTTP 504');
  t.equal(error(503, detail('suspended'), { 'retry-after': '7' })?.retryAfterMs, 7000);
  t.end();
});

const FILTERED: EngineQuery = {
  ...{ query: 'danube', type: 'web', maxResults: 2 },
  filters: { timeRange: { from: '2026-01-01' }, includeDomains: ['a.example'], language: 'de', safeSearch: 'strict' },
};

const resultsOf = (...paths: readonly string[]): object => ({
  results: paths.map((path) => ({ title: path, url: `http://a.example/${path}` })),
});

t.test('a worker is asked with the filters and the page of a search', async (t) => {
  t.strictSame(asked(engine.request({ ...FILTERED, page: 3 }, undefined)), {
    ...{ engine: 'engine_a', query: 'danube', max_results: 2, search_type: 'web', page: 3 },
    ...{ time_range: { from: '2026-01-01' }, include_domains: ['a.example'], language: 'de', safe_search: 'strict' },
  });
});

t.test('a worker that does not say what it applied is not believed to have applied anything', async (t) => {
  const notApplied = (more: object): unknown =>
    engine.parse(answer({ ...resultsOf('1'), ...more }), { ...CONTEXT, query: FILTERED }).notApplied;
  t.strictSame(notApplied({}), ['timeRange', 'includeDomains', 'language', 'safeSearch'], 'an older worker');
  t.strictSame(notApplied({ not_applied: 'none' }), ['timeRange', 'includeDomains', 'language', 'safeSearch']);
  t.strictSame(notApplied({ not_applied: [], page: 1 }), []);
  t.strictSame(notApplied({ not_applied: ['language', 'country', 'x'], page: 1 }), ['language']);
});

t.test('a worker that knows no pages is asked for all of them', async (t) => {
  const query: EngineQuery = { query: 'danube', type: 'web', maxResults: 2, page: 2 };
  const paths = (page: EnginePage): string[] => page.hits.map(({ title }) => title);
  const first = engine.parse(answer(resultsOf('1', '2')), { ...CONTEXT, query });
  t.same(paths(first), [], 'its first page is not the second');
  t.equal(asked(engine.request(query, first.next))['max_results'], 4);
  const second = engine.parse(answer(resultsOf('1', '2', '3')), { ...CONTEXT, query, state: first.next });
  t.same([paths(second), second.next], [['3'], undefined]);
  t.equal(engine.parse(answer(resultsOf('1')), { ...CONTEXT, query }).next, undefined, 'there is no more');
  t.same(paths(engine.parse(answer({ ...resultsOf('3'), page: 2, not_applied: [] }), { ...CONTEXT, query })), ['3']);
});

t.test('what a worker tells of a scholarly work is read', async (t) => {
  const work = {
    doi: '10.1000/X',
    authors: ['A'],
    year: 2020,
    venue: 'V',
    citations: 3,
    open_access_url: 'http://a.example/p',
  };
  const body = { results: [{ title: 'T', url: 'http://a.example/', snippet: '', ...work }] };
  for (const bytes of [Buffer.from(JSON.stringify(body)), pack(body)])
    t.strictSame(parse(engine, 'academic', answer(bytes)).hits, [
      {
        ...{ title: 'T', url: 'http://a.example/', snippet: '', doi: '10.1000/x', authors: ['A'], year: 2020 },
        ...{ venue: 'V', citations: 3, openAccessUrl: 'http://a.example/p' },
      },
    ]);
});
