// Searches, pages and robots.txt of several gateways behind one shared cache, in memory under a manual clock: who gets whose answers,
// what they cost, and what settings keep apart.
import { zstdCompressSync } from 'node:zlib';
import t from 'tap';
import type { Ref } from '../../src/actor/index.ts';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import { sharedCache } from '../../src/cluster/shared-cache.ts';
import { resolveSettings } from '../../src/config/load.ts';
import type { HeadraceError } from '../../src/errors.ts';
import type { Download } from '../../src/fetch/download.ts';
import type { PageAnswer, PageRequest } from '../../src/fetch/page-answer.ts';
import { PageClient } from '../../src/fetch/page-client.ts';
import { pages, placeLimits } from '../../src/fetch/pages.ts';
import { readSharedPage, sharedPageText } from '../../src/fetch/shared-page.ts';
import { Robots } from '../../src/fetch/robots.ts';
import { ENTRY_BYTES, type SharedCacheCommand, SharedCache } from '../../src/net/shared-cache.ts';
import { AccountPlaces, createPlaceMemory } from '../../src/routing/index.ts';
import { createEngineMemory } from '../../src/search/engine-board.ts';
import { readAnswer } from '../../src/search/shared-answer.ts';
import { type AnsweredSearch, SearchService, type SearchServiceSettings } from '../../src/search/search-service.ts';
import { type FakeCacheEngine, fakeCacheEngine } from '../support/cache-engine.ts';
import {
  answerOf,
  callerOf,
  fakeTransport,
  type FakeTransport,
  hang,
  hostOf,
  queryOf,
  specOf,
} from '../support/search.ts';
import { noRenderer } from '../support/site.ts';

interface Cluster extends TestSystem {
  readonly engine: FakeCacheEngine;
  /** The part of one more gateway. */
  readonly shared: () => SharedCache;
  /** Waits until writes have reached the engine. */
  readonly written: (entries: number) => Promise<void>;
  /** Waits until so many writes were made, of whatever entries. */
  readonly writtenTimes: (writes: number) => Promise<void>;
}

function cluster(): Cluster {
  const test = createTestSystem();
  const engine = fakeCacheEngine(test.clock);
  const shared = (): SharedCache => {
    const deps = { engine, mostBytes: () => 1_000_000, onWrite: () => undefined };
    const actor: Ref<SharedCacheCommand> = test.system.spawn(sharedCache(deps));
    const cache = new SharedCache(actor, test.clock);
    cache.configure(true);
    return cache;
  };
  const written = async (entries: number): Promise<void> => {
    while (engine.entries.size < entries) await new Promise((resolve) => void setImmediate(resolve));
    await test.settle();
  };
  const writtenTimes = async (writes: number): Promise<void> => {
    const made = (): number => engine.asked.filter((command) => command.startsWith('SET')).length;
    while (made() < writes) await new Promise((resolve) => void setImmediate(resolve));
    await test.settle();
  };
  return { ...test, engine, shared, written, writtenTimes };
}

interface Heard {
  readonly found: AnsweredSearch;
  readonly source: string;
}

interface SearchGateway {
  readonly transport: FakeTransport;
  readonly search: (account?: string, query?: string) => Promise<Heard>;
}

function searchGateway(c: Cluster, settings: Partial<SearchServiceSettings> = {}, slow = false): SearchGateway {
  const { clock } = c;
  const transport = fakeTransport((request, signal) =>
    slow && hostOf(request) === 'b' && request.url.includes('slow')
      ? new Promise((resolve) => void clock.setTimeout(() => resolve({ urls: ['http://x.org/late'] }), 2000))
      : request.url.includes('never')
        ? hang(signal)
        : { urls: [`http://x.org/${hostOf(request)}`] },
  );
  const service = new SearchService({
    ...{
      clock,
      random: () => 0,
      epochMs: () => clock.now(),
      onOutcome: () => undefined,
      onThrown: () => undefined,
      transport,
    },
    ...{ memory: createEngineMemory(8), placeMemory: createPlaceMemory(1), thread: 0, shared: c.shared() },
  });
  service.configure({
    ...{ timeoutMs: 10_000, softTimeoutMs: 1000, perAccount: 8, cacheTtlMs: 60_000, cacheBytes: 1_000_000 },
    engines: ['a', 'b'].map((id, cell) => specOf(id, { cell })),
    ...settings,
  });
  return {
    transport,
    search: (account = 'me', query = 'rivers') =>
      new Promise((resolve) => {
        service.search(queryOf(['a', 'b'], { query }), callerOf(account), (found, source) => {
          answerOf(found);
          resolve({ found: found as AnsweredSearch, source });
        });
      }),
  };
}

/** A parser that does not look for it corrupts its memory when such text is broken. */
const DEEP = `${'['.repeat(2000)}${']'.repeat(2000)}`;

t.test('a search is answered by what another gateway found for the account, and costs nothing', async (t) => {
  const c = cluster();
  const [one, two] = [searchGateway(c), searchGateway(c)];
  const first = await one.search();
  await c.written(1);
  c.clock.advance(50_000);
  const second = await two.search();
  t.strictSame(second.found.answer, first.found.answer);
  t.equal(second.source, 'cache');
  t.same([second.found.units.size, second.found.late], [0, null]);
  t.same(two.transport.asked, []);
  t.equal((await two.search()).source, 'cache');
  t.equal(c.engine.asked.filter((command) => command.startsWith('GETRANGE')).length, 2, 'a copy is kept');
  c.clock.advance(10_001);
  t.equal((await two.search()).source, 'flight', 'no longer than the answer of the other gateway');
});

t.test('a search of another account, with other settings or without a cache finds nothing', async (t) => {
  const c = cluster();
  await searchGateway(c).search('me');
  await c.written(1);
  t.equal((await searchGateway(c).search('you')).source, 'flight');
  const key = [specOf('a', { fingerprint: 'another key' }), specOf('b', { cell: 1 })];
  t.equal((await searchGateway(c, { engines: key }).search('me')).source, 'flight');
  t.equal((await searchGateway(c, { cacheTtlMs: 30_000 }).search('me')).source, 'flight');
  const { length } = c.engine.asked;
  t.equal((await searchGateway(c, { cacheTtlMs: null }).search('me')).source, 'flight');
  t.equal(c.engine.asked.length, length);
});

t.test('a complete answer is shared once what came late has been paid', async (t) => {
  const c = cluster();
  const one = searchGateway(c, {}, true);
  const searched = one.search('me', 'slow');
  await c.advance(1000);
  t.same([...(await searched).found.units.keys()], ['a'], 'what had come by the soft deadline');
  await c.advance(1000);
  t.equal(c.engine.entries.size, 0);
  const { found } = await one.search('me', 'slow');
  t.same(found.late?.take(), new Map([['b', 1]]));
  await c.written(1);
  const { found: other, source } = await searchGateway(c, {}, true).search('me', 'slow');
  t.same([source, other.late, other.units.size], ['cache', null, 0]);
  t.strictSame(other.answer, found.answer);
});

t.test('a search waits for a slow engine of the cache no longer than 20 ms, and leaves with its client', async (t) => {
  const c = cluster();
  const gateway = searchGateway(c);
  c.engine.isSlow = true;
  const searched = gateway.search();
  await c.advance(19);
  t.same(gateway.transport.asked, []);
  await c.advance(1);
  t.equal((await searched).source, 'flight');
});

t.test('answers of strangers are refused', async (t) => {
  const query = queryOf(['a', 'b']);
  const result = {
    ...{ title: 'T', url: 'https://x.org/', snippet: 'S', engine: 'a', rank: 1, found_in: ['a'], search_type: 'web' },
    ...{ thumbnail_url: 'https://x.org/t.png', width: 3 },
  };
  const meta = {
    ...{ duration_ms: 5, engines_used: ['a', 'b'], engines_failed: [] },
    engine_errors: [{ engine: 'b', reason: 'part of it' }],
  };
  const read = (answer: unknown): unknown => readAnswer(Buffer.from(JSON.stringify(answer)), query);
  t.strictSame(read({ results: [result], meta }), { results: [result], meta });
  const wrong: readonly unknown[] = [
    ...[null, 1, [], {}, { results: [] }, { meta }, { results: {}, meta }, { results: [null], meta }],
    ...[
      { url: 'javascript:alert(1)' },
      { url: 1 },
      { engine: 'c' },
      { engine: 'b' },
      { found_in: [] },
      { rank: 0 },
    ].map((part) => ({ results: [{ ...result, ...part }], meta })),
    ...[{ found_in: ['a', 'a'] }, { title: {} }, { search_type: 'news' }, { image_url: 'data:x' }, { width: -1 }].map(
      (part) => ({ results: [{ ...result, ...part }], meta }),
    ),
    ...[{ engines_used: [] }, { engines_used: ['c'] }, { engines_failed: ['b'] }, { duration_ms: -1 }].map((part) => ({
      results: [result],
      meta: { ...meta, ...part },
    })),
    ...[{ engine_errors: [{ engine: 'c', reason: 'x' }] }, { engine_errors: 'x' }].map((part) => ({
      results: [result],
      meta: { ...meta, ...part },
    })),
    { results: Array(21).fill(result), meta },
    ...[
      { engines_used: ['a'], engines_failed: ['b'], engine_errors: [{ engine: 'b', reason: 'timeout' }] },
      { engines_failed: ['b'], engine_errors: [{ engine: 'b', reason: 'not configured' }] },
      { engines_used: ['a'], engines_failed: ['c'], engine_errors: [{ engine: 'c', reason: 'not configured' }] },
    ].map((part) => ({ results: [result], meta: { ...meta, ...part } })),
  ];
  const engine_errors = [{ engine: 'b', reason: "unsupported search_type 'web'" }];
  const without = { results: [result], meta: { ...meta, engines_used: ['a'], engines_failed: ['b'], engine_errors } };
  t.strictSame(read(without), without, 'an engine that could not answer now either');
  for (const answer of wrong) t.equal(read(answer), null, JSON.stringify(answer).slice(0, 100));
  t.throws(() => readAnswer(Buffer.from('{'), query));
  t.throws(() => readAnswer(Buffer.from(DEEP), query), { message: /nested deeper/ });
});

t.test('answers of strangers are read with their scholarly fields, and within the domains of the search', async (t) => {
  const query = queryOf(['a'], { type: 'academic', filters: { includeDomains: ['x.org'] } });
  const work = { doi: '10.1000/x', venue: 'V', open_access_url: 'https://free.org/', year: 2020, citations: 0 };
  const result = {
    ...{ title: 'T', url: 'https://sub.x.org/', snippet: '', engine: 'a', rank: 1, found_in: ['a'] },
    ...{ search_type: 'academic', ...work, authors: ['A', 'B'] },
  };
  const meta = { duration_ms: 5, engines_used: ['a'], engines_failed: [], engine_errors: [] };
  const read = (part: object): unknown =>
    readAnswer(Buffer.from(JSON.stringify({ results: [{ ...result, ...part }], meta })), query);
  t.match(read({}), { results: [result], meta });
  for (const part of [{ url: 'https://notx.org/' }, { authors: 'A' }, { authors: [1] }, { doi: 5 }, { citations: -1 }])
    t.equal(read(part), null, JSON.stringify(part));
  t.equal(read({ open_access_url: 'javascript:x' }), null);
});

interface Page {
  readonly error: HeadraceError | null;
  readonly answer: PageAnswer | null;
  readonly cached: boolean;
}

interface PageGateway {
  readonly downloads: string[];
  /** What was asked for anew: address and validators. */
  readonly refreshes: string[];
  readonly fetch: (url: string, account?: string, extra?: Partial<PageRequest>) => Promise<Page>;
}

/** What the server of all pages has. */
interface PageSite {
  noStore?: boolean;
  content?: string;
  /** Null: it gives none. */
  etag?: string | null;
}

function pageGateway(c: Cluster, settings: Record<string, unknown> = {}, site: PageSite = {}): PageGateway {
  const resolution = resolveSettings({ fetch: settings });
  if ('mistakes' in resolution) throw new Error(JSON.stringify(resolution.mistakes));
  const { fetch } = resolution.settings;
  const downloads: string[] = [];
  const refreshes: string[] = [];
  const downloaded = (url: string): Download => ({
    ...{ url, mediaType: 'text/html', charset: null, bytes: new Uint8Array(1), noStore: site.noStore ?? false },
    ...(site.etag == null ? {} : { validators: { url, etag: site.etag } }),
  });
  const places = new AccountPlaces({ memory: createPlaceMemory(1), thread: 0, clock: c.clock });
  places.configure(placeLimits(fetch));
  const close = (): Promise<void> => Promise.resolve();
  const ref = c.system.spawn(
    pages({
      settings: fetch,
      places,
      shared: c.shared(),
      open: () => ({
        downloader: {
          download: async (url) => {
            downloads.push(url);
            return downloaded(url);
          },
          refresh: async ({ etag, url }) => {
            refreshes.push(`${url} ${etag}`);
            return etag === site.etag ? { unchanged: true, noStore: false } : downloaded(url);
          },
          ...{ configure: () => {}, waits: () => ({ waiting: 0, refused: 0 }), close },
          visit: () => Promise.reject(new Error('no browser')),
        },
        renderer: noRenderer(),
        pool: {
          read: async () => ({
            title: 'T',
            content: site.content ?? 'clean',
            version: 'v',
            wordCount: 1,
            links: [],
            metadata: { language: 'en' },
          }),
          ...{
            configure: () => {},
            stats: () => ({ threads: 1, running: 0, queued: 0, replaced: 0, refused: 0 }),
            close,
          },
        },
      }),
      onOutcome: () => undefined,
      onDefect: () => undefined,
      epochMs: () => 1_800_000_000_000 + c.clock.now(),
    }),
  );
  const client = new PageClient(ref, 'here');
  return {
    downloads,
    refreshes,
    fetch: (url, account = 'a', extra = {}) =>
      new Promise((resolve) => {
        const request: PageRequest = { url, format: 'text', include: [], ...extra };
        client.fetch(account, request, 15_000, (error, answer, cached) => resolve({ error, answer, cached }));
      }),
  };
}

const URL_1 = 'https://example.com/1';

t.test('a page is answered by what another gateway has read, without a request to its server', async (t) => {
  const c = cluster();
  const [one, two] = [pageGateway(c), pageGateway(c)];
  const first = await one.fetch(URL_1);
  await c.written(1);
  c.clock.advance(299_000);
  const second = await two.fetch(URL_1, 'b');
  t.strictSame(second, { ...first, cached: true });
  t.same(two.downloads, []);
  c.clock.advance(1001);
  t.equal((await two.fetch(URL_1)).cached, false, 'no longer than the page of the other gateway');
  t.equal((await two.fetch(URL_1, 'a', { format: 'html' })).cached, false, 'another format');
});

t.test('a page is asked for again with the validators that its server gave another gateway', async (t) => {
  const c = cluster();
  const site = { content: 'old', etag: '"1"' };
  const [one, two, three] = [pageGateway(c, {}, site), pageGateway(c, {}, site), pageGateway(c, {}, site)];
  const first = await one.fetch(URL_1, 'a', { details: true });
  await c.written(1);
  c.clock.advance(200_000);
  const again = await two.fetch(URL_1, 'b', { maxAgeMs: 60_000, details: true });
  t.same([two.downloads, two.refreshes], [[], [`${URL_1} "1"`]]);
  t.equal(again.cached, false);
  t.strictSame(again.answer, { ...first.answer, fetched_at: new Date(1_800_000_200_000).toISOString() });
  await c.writtenTimes(2);
  c.clock.advance(200_000);
  t.strictSame(await three.fetch(URL_1, 'c', { details: true }), { ...again, cached: true }, 'shared with its new age');

  Object.assign(site, { content: 'new', etag: '"2"' });
  c.clock.advance(100_001);
  t.match(
    await three.fetch(URL_1),
    { answer: { content: 'new' }, cached: false },
    'validators stay with what was shared',
  );
  t.same([three.downloads, three.refreshes], [[], [`${URL_1} "1"`]]);
  await c.writtenTimes(3);
  t.match(await one.fetch(URL_1, 'a', { maxAgeMs: 1000 }), { answer: { content: 'new' }, cached: true });
  t.equal((await one.fetch(URL_1, 'a', { maxAgeMs: 0 })).answer?.content, 'new');
  t.same([one.downloads.length, one.refreshes], [1, [`${URL_1} "2"`]], 'with the newer validators');
});

t.test('a page that this gateway may not fetch is not answered by what another one has read', async (t) => {
  const c = cluster();
  await pageGateway(c).fetch(URL_1);
  await c.written(1);
  for (const settings of [{ deny: ['example.com'] }, { ports: [80] }, { robots: true }, { maxBytes: 1000 }]) {
    const gateway = pageGateway(c, settings);
    await gateway.fetch(URL_1);
    t.same(gateway.downloads, [URL_1], JSON.stringify(settings));
  }
});

t.test('a page of a stranger at an address that may not be fetched is no hit', async (t) => {
  const c = cluster();
  const settings = { deny: ['example.com'] };
  await pageGateway(c, settings).fetch(URL_1);
  await c.written(1);
  const again = pageGateway(c, settings);
  t.equal((await again.fetch(URL_1)).cached, false, 'the address that was asked for');
  const other = 'https://example.org/';
  await pageGateway(c, settings).fetch(other);
  await c.written(2);
  const [name = '', entry] = [...c.engine.entries].at(-1) ?? [];
  const key = name.slice(-43);
  const said = { fetched_at: '2026-01-01T00:00:00.000Z', version: 'v' };
  const page = { url: 'http://127.0.0.1/admin', title: 'T', content: 'x', word_count: 1, ...said };
  const value = Buffer.concat([Buffer.of(1), zstdCompressSync(key + JSON.stringify(page))]);
  c.engine.entries.set(name, { value, endMs: entry?.endMs ?? 0 });
  t.equal((await again.fetch(other)).cached, false, 'the address where it was found');
});

t.test('a page that its server forbids to keep is not shared', async (t) => {
  const c = cluster();
  const gateway = pageGateway(c, {}, { noStore: true });
  await gateway.fetch(URL_1);
  await gateway.fetch('https://example.com/2');
  await c.settle();
  t.notOk(c.engine.asked.some((command) => command.startsWith('SET')));
});

t.test('a page that is too long is not shared', async (t) => {
  const c = cluster();
  const gateway = pageGateway(c, {}, { content: 'x'.repeat(ENTRY_BYTES) });
  t.equal((await gateway.fetch(URL_1)).answer?.content.length, ENTRY_BYTES);
  await pageGateway(c).fetch('https://example.com/2');
  await c.written(1);
  t.equal(c.engine.asked.filter((command) => command.startsWith('SET')).length, 1);
});

t.test('pages of strangers are refused', async (t) => {
  const page = {
    ...{ url: 'https://x.org/', title: 'T', content: 'C', word_count: 1, truncated: true },
    ...{
      authors: ['A'],
      images: [{ url: 'https://x.org/i', alt: '' }],
      fetched_at: '2026-01-01T00:00:00.000Z',
      version: 'v',
    },
    ...{ links: [{ text: 'L', url: 'https://x.org/l' }], metadata: { language: 'en' } },
  };
  const read = (answer: unknown): unknown => readSharedPage(Buffer.from(JSON.stringify(answer)));
  t.strictSame(read(page), { page, validators: null });
  t.strictSame(read({ ...page, more: 1, metadata: { more: 1 } }), {
    page: { ...page, metadata: {} },
    validators: null,
  });
  const shared = { page, validators: { url: page.url, etag: '"1"', lastModified: 'Thu, 01 Jan 2026 00:00:00 GMT' } };
  t.strictSame(readSharedPage(Buffer.from(sharedPageText(shared))), shared);
  for (const part of [
    { url: 1 },
    { title: null },
    { content: {} },
    { word_count: -1 },
    { truncated: 1 },
    { links: {} },
    { images: {} },
    { images: [{ url: 'https://x.org/i' }] },
    { authors: 'A' },
    { authors: [1] },
    { version: 1 },
    { etag: 1 },
    { etag: '"1"\r\ncookie: a' },
    { last_modified: '' },
    { fetched_at: undefined },
    { fetched_at: 'now' },
  ])
    t.equal(read({ ...page, ...part }), null, JSON.stringify(part));
  for (const part of [{ links: [null] }, { links: [{ text: 1, url: 'x' }] }, { metadata: { language: 1 } }])
    t.equal(read({ ...page, ...part }), null, JSON.stringify(part));
  t.throws(() => readSharedPage(Buffer.from('{')));
  t.throws(() => readSharedPage(Buffer.from(DEEP)), { message: /nested deeper/ });
});

t.test('robots.txt is shared, unless it could not be read', async (t) => {
  const c = cluster();
  const asked: string[] = [];
  let status = 503;
  const admit = async (robots: Robots, url: string): Promise<boolean> => {
    const asker = { userAgent: 'Headrace', account: 'a', signal: new AbortController().signal };
    const fetchRobots = async (file: string): Promise<{ status: number; bytes: Uint8Array }> => {
      asked.push(file);
      return { status, bytes: Buffer.from('User-agent: *\nDisallow: /private') };
    };
    return robots.admit(new URL(url), asker, fetchRobots).then(
      () => true,
      () => false,
    );
  };
  const robots = (): Robots => new Robots(c.clock, c.shared());
  t.equal(await admit(robots(), 'https://example.com/'), false);
  status = 200;
  t.equal(await admit(robots(), 'https://example.com/'), true, 'a failure is not shared');
  await c.written(1);
  t.equal(asked.length, 2);
  const other = robots();
  c.clock.advance(3_000_000);
  t.equal(await admit(other, 'https://example.com/private/1'), false);
  t.equal(await admit(other, 'https://example.com/'), true);
  t.equal(asked.length, 2);
  c.clock.advance(600_001);
  await admit(other, 'https://example.com/');
  t.equal(asked.length, 3, 'no longer than the file of the other gateway');
  status = 404;
  t.equal(await admit(robots(), 'https://example.org/private/1'), true);
  await c.written(2);
  t.equal(await admit(robots(), 'https://example.org/private/2'), true);
  t.equal(asked.length, 4);
});
