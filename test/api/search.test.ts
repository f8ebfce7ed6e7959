// `POST /search` and `gateway.search()`: validation, order of checks, partial and total failure, the fields of results.

import t from 'tap';
import {
  ConfigError,
  createGateway,
  type EngineHit,
  type Gateway,
  type InProcessEngine,
  type SearchAnswer,
} from '../../src/index.ts';
import type { SettingsInput } from '../../src/config/settings.ts';

const KEY = 'hr_search';
const GOOD = { authorization: `Bearer ${KEY}` };

type Scope = Pick<typeof t, 'teardown'>;

/** An engine of one's own: what a plug-in looks like. */
function engine(search: InProcessEngine['search'], types: InProcessEngine['types'] = ['web']): InProcessEngine {
  return { kind: 'mine', documentation: 'https://example.com/', types, search };
}

function hit(path: string, fields: Partial<EngineHit> = {}): EngineHit {
  return { title: `Title ${path}`, url: `https://example.com/${path}`, snippet: 'text', ...fields };
}

const finds = (...paths: string[]): InProcessEngine => engine(() => Promise.resolve(paths.map((path) => hit(path))));
const fails: InProcessEngine = engine(() => Promise.reject(new Error('a secret of the upstream')));

function open(t: Scope, engines: Record<string, unknown>, search: SettingsInput['search'] = {}): Gateway {
  const gateway = createGateway({
    keys: { static: [{ key: KEY, account: 'tests' }] },
    log: { level: 'silent' },
    search: { ...search, engines },
  });
  t.teardown(() => gateway.close());
  return gateway;
}

const ask = (gateway: Gateway, body: unknown, headers: Record<string, string> = GOOD): ReturnType<Gateway['inject']> =>
  gateway.inject({ path: '/search', headers, body });

t.test('answers are merged and say which engines were used', async (t) => {
  const gateway = open(t, { engine_a: finds('one', 'two'), engine_b: finds('two', 'three') });
  const response = await ask(gateway, { query: 'water', engines: ['engine_a', 'engine_b'] });
  t.equal(response.status, 200);
  const answer = response.json<{ results: Record<string, unknown>[]; meta: Record<string, unknown> }>();
  t.same(answer.results[0], {
    title: 'Title two',
    url: 'https://example.com/two',
    snippet: 'text',
    engine: 'engine_b',
    rank: 1,
    found_in: ['engine_a', 'engine_b'],
    search_type: 'web',
  });
  t.equal(answer.results.length, 3);
  const { duration_ms: duration, ...meta } = answer.meta;
  t.ok(Number.isInteger(duration));
  t.same(meta, { engines_used: ['engine_a', 'engine_b'], engines_failed: [], engine_errors: [] });
});

t.test('a reload replaces an engine of the embedder by another of the same kind', async (t) => {
  const gateway = open(t, { engine_a: finds('one') });
  const urlOf = async (query: string): Promise<unknown> =>
    (await ask(gateway, { query, engines: ['engine_a'] })).json<{ results: { url: string }[] }>().results[0]?.url;
  t.equal(await urlOf('before'), 'https://example.com/one');
  const keys = { static: [{ key: KEY, account: 'tests' }] };
  const input = { keys, log: { level: 'silent' }, search: { engines: { engine_a: finds('two') } } } as const;
  t.strictSame(gateway.reload(input), { applied: ['search.engines.engine_a'], needRestart: [] });
  t.equal(await urlOf('before'), 'https://example.com/two', 'no answer of the former engine is kept');
  t.strictSame(gateway.reload(input), { applied: [], needRestart: [] });
});

t.test('a reload brings no engine of the embedder to a gateway that runs with threads', async (t) => {
  const settings = { models: {}, log: { level: 'silent' } } as const;
  const gateway = createGateway({ ...settings, threads: 1 });
  t.teardown(() => gateway.close());
  const engines = { engine_a: finds('one') };
  // Fewer threads take a restart.
  t.throws(() => gateway.reload({ ...settings, threads: 0, search: { engines } }), {
    name: 'ConfigError',
    mistakes: [{ path: 'search.engines.engine_a', message: /needs threads: 0/ }],
  });
  t.same(gateway.reload({ ...settings, threads: 1 }), { applied: [], needRestart: [] });
});

t.test('a partial failure is an answer, with reasons that are ours', async (t) => {
  const gateway = open(t, { engine_a: finds('one'), engine_b: fails });
  const response = await ask(gateway, { query: 'water', search_type: 'web' });
  t.equal(response.status, 200);
  t.match(response.json(), {
    meta: {
      engines_used: ['engine_a'],
      engines_failed: ['engine_b', 'engine_c'],
      engine_errors: [
        { engine: 'engine_b', reason: 'engine failed' },
        { engine: 'engine_c', reason: 'not configured' },
      ],
    },
  });
  t.notMatch(response.text(), 'secret');
});

t.test('an engine that cannot do the type asked for is not called', async (t) => {
  const gateway = open(t, { engine_a: fails, engine_b: engine(() => Promise.resolve([hit('n')]), ['web', 'news']) });
  const response = await ask(gateway, { query: 'water', engines: ['engine_a', 'engine_b'], search_type: 'news' });
  t.match(response.json(), {
    meta: { engine_errors: [{ engine: 'engine_a', reason: "unsupported search_type 'news'" }] },
  });
});

t.test('when every engine fails it is 503 with a detail and nothing else', async (t) => {
  const response = await ask(open(t, { engine_a: fails }), { query: 'water' });
  t.equal(response.status, 503);
  t.same(response.json(), { detail: 'All search engines failed' });
  t.match(response.headers, { 'x-headrace-error': 'HR_SEARCH_ALL_FAILED', 'retry-after': /^\d+$/ });
});

t.test('a repeat of a search that no engine can do is not asked for', async (t) => {
  const gateway = open(t, { engine_a: fails });
  const repeats = async (engines: string[], type: string): Promise<unknown> =>
    (await ask(gateway, { query: 'water', engines, search_type: type })).headers['x-should-retry'];
  t.equal(await repeats(['engine_a', 'engine_b'], 'web'), 'true');
  t.equal(await repeats(['engine_b'], 'web'), 'false', 'not configured');
  t.equal(await repeats(['engine_a', 'engine_b'], 'images'), 'false', 'and of no such type');
});

t.test('an engine that found nothing was used', async (t) => {
  const response = await ask(open(t, { engine_a: finds() }), { query: 'water', engines: ['engine_a'] });
  t.match(response.json(), { results: [], meta: { engines_used: ['engine_a'] } });
});

t.test('all mistakes in a request come at once', async (t) => {
  const gateway = open(t, { engine_a: finds('one') });
  const cases: [unknown, [string, string][]][] = [
    [{}, [['query', 'missing']]],
    [{ query: ' \n\u3000' }, [['query', 'string_pattern_mismatch']]],
    [
      { query: 1, engines: [], max_results: 0, search_type: 'x' },
      [
        ['query', 'string_type'],
        ['engines', 'too_short'],
        ['max_results', 'greater_than_equal'],
        ['search_type', 'literal_error'],
      ],
    ],
    [
      { query: 'a', engines: ['engine_z'], max_results: 101 },
      [
        ['engines.0', 'literal_error'],
        ['max_results', 'less_than_equal'],
      ],
    ],
    [{ query: 'a', max_results: 1.5 }, [['max_results', 'int_from_float']]],
  ];
  for (const [body, wanted] of cases) {
    const response = await ask(gateway, body);
    t.equal(response.status, 422);
    const { detail } = response.json<{ detail: { loc: (string | number)[]; type: string }[] }>();
    t.same(
      detail.map(({ loc, type }) => [loc.slice(1).join('.'), type]),
      wanted,
      JSON.stringify(body),
    );
  }
});

t.test('a bad key is refused first, a missing one after the request proved valid', async (t) => {
  const gateway = open(t, { engine_a: finds('one') });
  t.equal((await ask(gateway, {}, { authorization: 'Bearer no' })).status, 401);
  t.equal((await ask(gateway, {}, {})).status, 422);
  t.match((await ask(gateway, { query: 'a' }, {})).headers, { 'x-headrace-error': 'HR_AUTH_MISSING' });
});

t.test('a body is as large as arguments are, and its texts cost no more than reading them', async (t) => {
  const gateway = open(t, { engine_a: finds('one') });
  const tooLong = await ask(gateway, { query: 'x'.repeat(1024 * 1024) });
  t.match([tooLong.status, tooLong.json()], [413, { detail: /1048576 bytes/ }]);
  // A check that takes the square of the length would hold the thread for an hour.
  const response = await ask(gateway, { query: 'water', max_results: `${'0'.repeat(1_000_000)}x` });
  t.equal(response.status, 422);
});

t.test('an engine named twice is asked once, and configured ids may be named', async (t) => {
  let calls = 0;
  const counting = engine(() => {
    calls++;
    return Promise.resolve([hit('one')]);
  });
  const response = await ask(open(t, { mine: counting }), { query: 'a', engines: ['mine', 'mine'] });
  t.match(response.json(), { meta: { engines_used: ['mine'] } });
  t.equal(calls, 1);
});

t.test('a kept answer says so and keeps its meta', async (t) => {
  const gateway = open(t, { engine_a: finds('one') }, { cacheTtl: '1m' });
  const body = { query: 'water', engines: ['engine_a'] };
  const first = await ask(gateway, body);
  const second = await ask(gateway, body);
  t.equal(first.headers['x-headrace-cache'], undefined);
  t.equal(second.headers['x-headrace-cache'], 'hit');
  t.same(second.json(), first.json());
});

t.test('the library answers with the same object, and leaves when its signal fires', async (t) => {
  const left = Promise.withResolvers<void>();
  const waits = engine((_, signal) => {
    signal.addEventListener('abort', () => left.resolve());
    return new Promise(() => {});
  });
  const gateway = open(t, { engine_a: finds('one'), engine_b: waits });
  const answer = await gateway.search({ query: 'water', engines: ['engine_a'] });
  t.match(answer, { results: [{ url: 'https://example.com/one' }], meta: { engines_used: ['engine_a'] } });
  await t.rejects(gateway.search({ query: '' }), { code: 'HR_REQUEST_INVALID' });
  await t.rejects(gateway.search({ query: 'a', engines: ['engine_c'] }), { code: 'HR_SEARCH_ALL_FAILED' });
  const controller = new AbortController();
  const pending = gateway.search({ query: 'water', engines: ['engine_b'] }, { signal: controller.signal });
  setImmediate(() => controller.abort(new Error('gone')));
  await t.rejects(pending, { message: 'gone' });
  await left.promise;
});

t.test('mistakes in engines are reported with their path', async (t) => {
  const wrong = { x: { kind: 'brave' }, y: { kind: 'nope' }, z: { kind: 'worker', url: 'http://h:1', hedge: 'soon' } };
  const create = (settings: SettingsInput) => (): Gateway => createGateway({ log: { level: 'silent' }, ...settings });
  try {
    create({ search: { engines: wrong } })();
    t.fail('wrong engines were taken');
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    t.same(
      error.mistakes.map(({ path }) => path),
      ['search.engines.x', 'search.engines.y', 'search.engines.z'],
    );
  }
  t.throws(create({ threads: 1, search: { engines: { x: finds() } } }), { message: /threads: 0/ });
});

t.test('an address that nobody could open is an invalid response of an engine of the embedder', async (t) => {
  const gateway = open(t, {
    ...Object.fromEntries(
      ['http://', 'https://[bad', 'https://exa mple.com/x'].map((url, at) => [
        `bad_${at}`,
        engine(() => Promise.resolve([hit('one', { url })])),
      ]),
    ),
    good: finds('two'),
  });
  const body = { query: 'water', engines: ['bad_0', 'bad_1', 'bad_2', 'good'] };
  const reason = 'invalid response';
  // Text of pages and SearXNG's form take addresses to pieces.
  const { results, meta } = (await ask(gateway, { ...body, content: {} })).json<SearchAnswer>();
  t.match(results, [{ url: 'https://example.com/two' }]);
  t.same(
    meta.engine_errors,
    body.engines.slice(0, 3).map((engine) => ({ engine, reason })),
  );
  const path = `/searxng/search?format=json&q=water&engines=${body.engines.join()}`;
  const foreign = await gateway.inject({ method: 'GET', path, headers: GOOD });
  t.match(foreign.json(), { results: [{ parsed_url: ['https', 'example.com', '/two', '', '', ''] }] });
});

t.test('filters reach the engines in their normal form, and their results', async (t) => {
  const asked: unknown[] = [];
  const own = engine((query) => {
    asked.push({ filters: query.filters, page: query.page, maxResults: query.maxResults });
    return Promise.resolve([hit('one'), { ...hit('two'), url: 'https://shop.example.com/two' }]);
  });
  const gateway = open(t, { engine_a: { ...own, filters: { includeDomains: {}, excludeDomains: {}, page: {} } } });
  const body = {
    ...{ query: 'water', engines: ['engine_a'], page: 2, max_results: 5, language: 'DE', country: 'at' },
    ...{ include_domains: ['EXAMPLE.com.', 'bücher.example', 'example.com'], exclude_domains: ['shop.example.com'] },
  };
  const { meta, results } = (await ask(gateway, body)).json<Awaited<ReturnType<Gateway['search']>>>();
  t.same(asked, [
    {
      filters: {
        ...{ includeDomains: ['example.com', 'xn--bcher-kva.example'], excludeDomains: ['shop.example.com'] },
        ...{ language: 'de', country: 'AT' },
      },
      ...{ page: 2, maxResults: 5 },
    },
  ]);
  t.same(
    results.map(({ rank, url }) => `${rank} ${url}`),
    ['6 https://example.com/one'],
  );
  t.same(meta.engine_errors, [{ engine: 'engine_a', reason: 'language, country filters not applied' }]);
  t.same(meta.engines_failed, []);
});

t.test('a filter that cannot be meant is refused by name', async (t) => {
  const gateway = open(t, { engine_a: finds('one') });
  const wrong: readonly (readonly [object, string])[] = [
    [{ time_range: 'decade' }, 'time_range'],
    [{ time_range: {} }, 'time_range'],
    [{ time_range: { form: '2026-01-01' } }, 'time_range'],
    [{ time_range: { from: '2026-02-30' } }, 'time_range'],
    [{ time_range: { from: '2026-03-02', to: '2026-03-01' } }, 'time_range'],
    [{ include_domains: ['https://example.com/'] }, 'include_domains'],
    [{ exclude_domains: ['example.com:80'] }, 'exclude_domains'],
    [{ exclude_domains: Array.from({ length: 51 }, (_, at) => `h${at}.example`) }, 'exclude_domains'],
    [{ language: 'deu' }, 'language'],
    [{ country: 'EU' }, 'country'],
    [{ safe_search: 'on' }, 'safe_search'],
    [{ page: 11 }, 'page'],
  ];
  for (const [fields, name] of wrong) {
    const response = await ask(gateway, { query: 'water', ...fields });
    t.equal(response.status, 422, JSON.stringify(fields));
    const { detail } = response.json<{ detail: { loc: string[] }[] }>();
    t.equal(detail[0]?.loc[1], name);
  }
});
