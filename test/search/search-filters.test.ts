// Filters and pages of whole searches: engines in this process that answer whatever they like, and what of it is left.
import fc from 'fast-check';
import t from 'tap';
import { createTestSystem } from '../../src/actor/testkit.ts';
import { createPlaceMemory } from '../../src/routing/place-counts.ts';
import type { Engine, EngineFilters, EngineHit, EngineQuery, HttpEngine } from '../../src/search/engine.ts';
import { createEngineMemory } from '../../src/search/engine-board.ts';
import type { SearchAnswer, SearchQuery } from '../../src/search/query.ts';
import { SearchService } from '../../src/search/search-service.ts';
import { SearchTrace } from '../../src/search/search-trace.ts';
import {
  type Answer,
  answerOf,
  callerOf,
  fakeEngine,
  fakeTransport,
  hitOf,
  queryOf,
  specOf,
} from '../support/search.ts';

const NOW = Date.parse('2026-11-21T10:00:00Z');

interface Setup {
  readonly search: (fields: Partial<SearchQuery>, trace?: SearchTrace) => Promise<SearchAnswer>;
  /** URLs that were requested. */
  readonly asked: readonly string[];
}

/** A service with these engines, by their ids. */
function setUp(
  engines: Readonly<Record<string, Engine>>,
  answer: Answer = () => ({}),
  cacheTtlMs: number | null = null,
): Setup {
  const { clock, settle } = createTestSystem();
  const transport = fakeTransport(answer);
  const service = new SearchService({
    ...{ clock, memory: createEngineMemory(8), placeMemory: createPlaceMemory(1), thread: 0, transport },
    ...{ random: () => 0, epochMs: () => NOW, onOutcome: () => undefined, onThrown: () => undefined },
  });
  const ids = Object.keys(engines);
  service.configure({
    ...{ timeoutMs: 10_000, softTimeoutMs: 10_000, perAccount: 8, cacheTtlMs, cacheBytes: 1_000_000 },
    engines: ids.map((id, cell) => specOf(id, { cell, workers: [engines[id] as Engine] })),
  });
  return {
    asked: transport.asked,
    async search(fields, trace) {
      const answers: SearchAnswer[] = [];
      const caller = trace === undefined ? callerOf('me') : { account: null, caller: 'me', trace };
      service.search(queryOf(ids, fields), caller, (found) => void answers.push(answerOf(found)));
      await settle();
      return answers[0] as SearchAnswer;
    },
  };
}

/** An engine in this process with these hits, which records its queries. */
function inProcess(hits: readonly EngineHit[], filters?: EngineFilters): Engine & { readonly queries: EngineQuery[] } {
  const queries: EngineQuery[] = [];
  return {
    ...{ kind: 'mine', documentation: 'README.md', types: ['web', 'news', 'academic'], queries },
    ...(filters !== undefined && { filters }),
    search(query) {
      queries.push(query);
      return Promise.resolve(hits.slice(0, query.maxResults));
    },
  };
}

/** An engine of pages of ten results, numbered from 0, that knows nothing of filters. */
function paged(about: Partial<HttpEngine> = {}): HttpEngine {
  return fakeEngine('paged', {
    request: (_query, state) => ({ method: 'GET', url: `http://paged/?from=${Number(state ?? 0)}`, headers: {} }),
    ...about,
  });
}

const tens: Answer = ({ url }) => {
  const from = Number(new URL(url).searchParams.get('from'));
  return { urls: Array.from({ length: 10 }, (_, at) => urlOf(from + at)), next: from + 10 };
};

/** Every fifteenth is of another host. */
function urlOf(number: number): string {
  return number % 15 === 14 ? `https://wanted.example/${number}` : `https://other.example/${number}`;
}

t.test('no result is outside of the domains, whatever engines answer and declare', async () => {
  const domain = fc.constantFrom('a.example', 'b.a.example', 'example', 'x.test', 'xn--bcher-kva.test');
  const host = fc.constantFrom(
    ...[
      'a.example',
      'b.a.example',
      'ba.example',
      'a.example.',
      'c.b.a.example',
      'x.test:8080',
      'A.EXAMPLE',
      'bücher.test',
    ],
  );
  const url = fc
    .tuple(fc.constantFrom('http', 'https'), host, fc.nat(5))
    .map(([scheme, at, path]) => `${scheme}://${at}/${path}`);
  const lists = fc.array(fc.tuple(fc.array(url, { maxLength: 20 }), fc.boolean()), { minLength: 1, maxLength: 3 });
  const property = fc.asyncProperty(
    lists,
    fc.uniqueArray(domain, { maxLength: 3 }),
    fc.uniqueArray(domain, { maxLength: 2 }),
    fc.integer({ min: 1, max: 3 }),
    async (given, include, exclude, page) => {
      const all = { includeDomains: {}, excludeDomains: {} };
      const engines = given.map(([urls, declares], at) => [
        `e${at}`,
        inProcess(urls.map(hitOf), declares ? all : undefined),
      ]);
      const filters = {
        ...(include.length > 0 && { includeDomains: include.toSorted() }),
        ...(exclude.length > 0 && { excludeDomains: exclude.toSorted() }),
      };
      const { results } = await setUp(Object.fromEntries(engines) as Record<string, Engine>).search({
        filters,
        page,
        maxResults: 5,
      });
      const isIn = (of: string, domains: readonly string[]): boolean => {
        const name = new URL(of).hostname.replace(/\.$/, '');
        return domains.some((one) => name === one || name.endsWith(`.${one}`));
      };
      return results.every((each) => (include.length === 0 || isIn(each.url, include)) && !isIn(each.url, exclude));
    },
  );
  await fc.assert(property, { numRuns: 150 });
});

t.test('asks an engine that knows no domains for more, within its bound', async (t) => {
  const b = setUp({ a: paged() }, tens);
  const filters = { includeDomains: ['wanted.example'] };
  const { meta, results } = await b.search({ filters });
  t.same(
    results.map(({ rank, url }) => `${rank} ${url}`),
    ['1 https://wanted.example/14'],
  );
  t.strictSame(meta.engine_errors, [], 'domains are applied');
  t.equal(b.asked.length, 2, 'two requests for ten results');
  const more = await b.search({ filters, maxResults: 60 });
  t.equal(more.results.length, 8);
  t.equal(b.asked.length, 2 + 12, 'never more than twelve');
});

t.test('gives the pages of an engine that cannot skip as slices of its list, with ranks that go on', async (t) => {
  const b = setUp({ a: paged() }, tens);
  const pages = await Promise.all([1, 2, 3].map((page) => b.search({ page, query: `page ${page}` })));
  t.same(
    pages.map(({ results }) => results.map(({ rank }) => rank)),
    [0, 1, 2].map((before) => Array.from({ length: 10 }, (_, at) => 10 * before + at + 1)),
  );
  t.equal(new Set(pages.flatMap(({ results }) => results.map(({ url }) => url))).size, 30, 'no result comes twice');
});

t.test('leaves the page to an engine that declares it', async (t) => {
  const engine = inProcess([hitOf('https://a.example/11')], { page: {} });
  const { results } = await setUp({ a: engine }).search({ page: 2 });
  t.match(engine.queries, [{ page: 2, maxResults: 10 }]);
  t.equal(results[0]?.rank, 11);
});

t.test("an embedder's engine without declarations gets filters and days, and is not believed", async (t) => {
  const dated = (url: string, publishedAt?: string): EngineHit => ({
    ...hitOf(url),
    ...(publishedAt && { publishedAt }),
  });
  const engine = inProcess([
    dated('https://a.example/new', '2026-11-21T08:00:00Z'),
    dated('https://a.example/old', '2020-01-01'),
    dated('https://a.example/undated'),
    dated('https://b.example/new', '2026-11-21T08:00:00Z'),
  ]);
  const trace = new SearchTrace();
  const filters = { timeRange: 'week', excludeDomains: ['b.example'], language: 'de', safeSearch: 'off' } as const;
  const { meta, results } = await setUp({ a: engine }).search({ filters }, trace);
  t.match(engine.queries, [{ filters, dates: { from: '2026-11-14' }, maxResults: 50 }]);
  t.same(
    results.map(({ url }) => url),
    ['https://a.example/new', 'https://a.example/undated'],
  );
  t.strictSame(meta.engine_errors, [{ engine: 'a', reason: 'language, time_range filters not applied' }]);
  t.strictSame(meta.engines_used, ['a']);
  const [explained] = trace.explanation().engines;
  t.same(
    explained?.hits.map(({ fate, hit, rank, reason }) => [rank, fate, reason, hit.url]),
    [
      [1, 'first', null, 'https://a.example/new'],
      [2, 'first', null, 'https://a.example/undated'],
      [0, 'dropped', 'time_range', 'https://a.example/old'],
      [0, 'dropped', 'domain', 'https://b.example/new'],
    ],
  );
});

t.test('a kept answer is for the same filters and the same page only', async (t) => {
  const engine = inProcess([hitOf('https://a.example/')]);
  const b = setUp({ a: engine }, undefined, 60_000);
  const asked: readonly Partial<SearchQuery>[] = [
    {},
    { page: 2 },
    { filters: { timeRange: 'day' } },
    { filters: { timeRange: { from: '2026-01-01' } } },
    { filters: { timeRange: { to: '2026-01-01' } } },
    { filters: { includeDomains: ['a.example'] } },
    { filters: { excludeDomains: ['a.example'] } },
    { filters: { language: 'de' } },
    { filters: { country: 'DE' } },
    { filters: { safeSearch: 'off' } },
    { filters: { safeSearch: 'strict' } },
  ];
  for (const fields of asked) await b.search(fields);
  t.equal(engine.queries.length, asked.length);
  for (const fields of asked) await b.search(fields);
  t.equal(engine.queries.length, asked.length, 'each is kept');
});

t.test('refuses scholarly fields of another type', async (t) => {
  const bad = [{ authors: 'A' }, { doi: 5 }, { year: '2020' }, { citations: 1.5 }, { authors: [5] }, { venue: {} }];
  for (const fields of bad) {
    const engine = inProcess([{ ...hitOf('https://a.example/'), ...(fields as object) }]);
    const { meta } = await setUp({ a: engine }).search({ type: 'academic' });
    t.strictSame(meta.engine_errors, [{ engine: 'a', reason: 'invalid response' }], JSON.stringify(fields));
  }
});
