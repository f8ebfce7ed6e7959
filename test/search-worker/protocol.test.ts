import { pack, unpack } from 'msgpackr';
import fc from 'fast-check';
import t from 'tap';
import type { EngineHit, EngineQuery, EngineReport } from '../../src/search/index.ts';
import { formatOf, readQuery, Refusal, refusalOf, writeHits } from '../../src/search-worker/protocol.ts';

function refused(run: () => unknown): readonly [number, string] {
  try {
    run();
  } catch (error) {
    if (error instanceof Refusal) return [error.status, error.message];
    throw error;
  }
  throw new Error('was not refused');
}

const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));

t.test('reads a query equally in both formats', (t) => {
  const asked = { engine: 'engine_a', query: 'Donau Höhe', max_results: 7, search_type: 'news', extra: 1 };
  const wanted = { query: 'Donau Höhe', maxResults: 7, type: 'news' };
  t.strictSame(readQuery(json(asked), 'json'), wanted);
  t.strictSame(readQuery(pack(asked), 'msgpack'), wanted);
  t.strictSame(readQuery(pack({ ...asked, max_results: 7n }), 'msgpack'), wanted, 'long whole numbers too');
  t.strictSame(readQuery(json({ query: 'x' }), 'json'), { query: 'x', maxResults: 10, type: 'web' });
  t.end();
});

t.test('reads the format from the content type, in any case and with parameters', (t) => {
  t.equal(formatOf(undefined), 'json');
  t.equal(formatOf('Application/JSON; charset=utf-8'), 'json');
  for (const name of ['msgpack', 'x-msgpack', 'vnd.msgpack']) t.equal(formatOf(`application/${name}`), 'msgpack');
  for (const name of ['text/plain', '', 'constructor']) t.equal(refused(() => formatOf(name))[0], 415, name);
  t.end();
});

t.test('names the member that is wrong and never its value', (t) => {
  const cases: readonly (readonly [unknown, RegExp])[] = [
    [{}, /^query /],
    [{ query: ' ' }, /^query /],
    [{ query: 7 }, /^query /],
    [{ query: 'x'.repeat(8193) }, /^query /],
    [{ query: 'x', max_results: 0 }, /^max_results /],
    [{ query: 'x', max_results: 101 }, /^max_results /],
    [{ query: 'x', max_results: 1.5 }, /^max_results /],
    [{ query: 'x', max_results: '5' }, /^max_results /],
    [{ query: 'x', search_type: 'secret' }, /^search_type must be one of web, news, images, academic$/],
    [[], /object/],
    [null, /object/],
    ['secret', /object/],
  ];
  for (const [body, detail] of cases) {
    for (const [bytes, format] of [
      [json(body), 'json'],
      [pack(body), 'msgpack'],
    ] as const) {
      const [status, message] = refused(() => readQuery(bytes, format));
      t.equal(status, 422);
      t.match(message, detail);
      t.notMatch(message, 'secret');
    }
  }
  t.end();
});

t.test('any bytes are a query or a 422', (t) => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), fc.constantFrom('json', 'msgpack'), (bytes, format) => {
      try {
        readQuery(Buffer.from(bytes), format);
        return true;
      } catch (error) {
        return error instanceof Refusal && error.status === 422;
      }
    }),
    { numRuns: 2000 },
  );
  t.equal(refused(() => readQuery(Buffer.alloc(60_000, 0x91), 'msgpack'))[0], 422, 'however deep');
  t.equal(refused(() => readQuery(pack({ query: 'weir', x: new Error('x') }), 'msgpack'))[0], 422, 'with objects');
  t.end();
});

const QUERY: EngineQuery = { query: 'weir', type: 'web', maxResults: 10 };

function report(hits: readonly EngineHit[], more: object = {}): Extract<EngineReport, { hits: unknown }> {
  return { engine: 'x', hits, calls: 1, ...more };
}

t.test('writes results with the names of the protocol, without absent fields', (t) => {
  const hits = [
    { title: 'T', url: 'http://a.example/', snippet: 'S' },
    {
      ...{ title: 'I', url: 'http://b.example/', snippet: '', publishedAt: '2026-11-20', source: 'Daily' },
      ...{ thumbnailUrl: 'http://b.example/t', imageUrl: 'http://b.example/i', width: 640, height: 480 },
    },
  ];
  const wanted = {
    results: [
      { title: 'T', url: 'http://a.example/', snippet: 'S' },
      {
        ...{ title: 'I', url: 'http://b.example/', snippet: '', published_at: '2026-11-20', source: 'Daily' },
        ...{ thumbnail_url: 'http://b.example/t', image_url: 'http://b.example/i', width: 640, height: 480 },
      },
    ],
  };
  const asJson = writeHits(report(hits), QUERY, undefined);
  t.equal(asJson.contentType, 'application/json');
  t.strictSame(JSON.parse(asJson.body as string), wanted);
  const packed = writeHits(report(hits), QUERY, 'application/msgpack');
  t.equal(packed.contentType, 'application/msgpack');
  t.strictSame(unpack(packed.body as Uint8Array), wanted);
  t.end();
});

t.test('writes the fields of a scholarly work', (t) => {
  const work = { doi: '10.1000/x', authors: ['A', 'B'], year: 2020, venue: 'V', citations: 0 };
  const hit = { title: 'T', url: 'http://a.example/', snippet: 'S', ...work, openAccessUrl: 'http://a.example/pdf' };
  const { body } = writeHits(report([hit]), QUERY, undefined);
  t.strictSame(JSON.parse(body as string), {
    results: [{ title: 'T', url: 'http://a.example/', snippet: 'S', ...work, open_access_url: 'http://a.example/pdf' }],
  });
  t.end();
});

t.test('says with filters and on later pages what the results do not observe', (t) => {
  const filtered = { ...QUERY, filters: { language: 'de', timeRange: 'day' } } as const;
  const answered = (query: EngineQuery, more: object = {}): unknown =>
    JSON.parse(writeHits(report([], more), query, undefined).body as string);
  t.strictSame(answered(filtered), { results: [], not_applied: [], page: 1 });
  t.strictSame(answered(filtered, { notApplied: ['language'] }), { results: [], not_applied: ['language'], page: 1 });
  t.strictSame(answered({ ...QUERY, page: 3 }), { results: [], not_applied: [], page: 3 });
  t.end();
});

t.test('reads filters and the page of a search', (t) => {
  const filters = {
    ...{ time_range: { from: '2026-01-01' }, include_domains: ['a.example'], exclude_domains: ['b.a.example'] },
    ...{ language: 'de', country: 'AT', safe_search: 'strict' },
  };
  const read = (members: object): unknown => readQuery(Buffer.from(JSON.stringify({ query: 'q', ...members })), 'json');
  t.strictSame(read({ ...filters, page: 2 }), {
    ...{ query: 'q', maxResults: 10, type: 'web', page: 2 },
    filters: {
      ...{ timeRange: { from: '2026-01-01' }, includeDomains: ['a.example'], excludeDomains: ['b.a.example'] },
      ...{ language: 'de', country: 'AT', safeSearch: 'strict' },
    },
  });
  t.strictSame(read({ page: 1, language: null }), { query: 'q', maxResults: 10, type: 'web' });
  const wrong: readonly object[] = [
    ...[{ page: 0 }, { page: 11 }, { page: '1' }, { time_range: 'decade' }, { time_range: {} }],
    ...[{ time_range: { from: '1 May' } }, { include_domains: [] }, { include_domains: 'a.example' }],
    ...[{ include_domains: Array.from({ length: 51 }, (_, at) => `h${at}.example`) }, { exclude_domains: ['a/b'] }],
    ...[{ language: 'deu' }, { country: 5 }, { safe_search: 'on' }],
  ];
  for (const members of wrong) {
    const [name = ''] = Object.keys(members);
    t.throws(() => read(members), { status: 422, message: new RegExp(`^${name} must be `) }, JSON.stringify(members));
  }
  t.end();
});

t.test('answers in msgpack where accept prefers it to JSON, or both equally', (t) => {
  const cases: readonly (readonly [string | undefined, string])[] = [
    [undefined, 'application/json'],
    ['*/*', 'application/json'],
    ['application/json', 'application/json'],
    ['application/msgpack, application/json', 'application/msgpack'],
    ['application/json, application/x-msgpack;q=1', 'application/msgpack'],
    ['application/msgpack; q=0.5, application/json', 'application/json'],
    ['application/msgpack;q=0', 'application/json'],
  ];
  for (const [accept, contentType] of cases)
    t.equal(writeHits(report([]), QUERY, accept).contentType, contentType, accept ?? 'none');
  t.end();
});

t.test('answers every reason of an engine with a status of its own kind', (t) => {
  const cases: readonly (readonly [string, number, string | undefined])[] = [
    ['rate limited', 429, '3'],
    ['quota exceeded', 402, '3'],
    ['suspended', 503, '3'],
    ['access denied', 403, undefined],
    ['timeout', 504, undefined],
    ['query rejected', 422, undefined],
    ["unsupported search_type 'news'", 422, undefined],
    ['challenge page', 502, undefined],
    ['invalid response', 502, undefined],
    ['connection failed', 502, undefined],
    ['engine returned HTTP 500', 502, undefined],
    ['engine failed', 502, undefined],
  ];
  for (const [reason, status, retryAfter] of cases) {
    const refusal = refusalOf(reason, 2001);
    t.strictSame([refusal.status, refusal.message, refusal.headers['retry-after']], [status, reason, retryAfter]);
  }
  t.equal(refusalOf('suspended', 0).headers['retry-after'], '1', 'never at once');
  t.end();
});
