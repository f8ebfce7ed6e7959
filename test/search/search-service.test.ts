// The search service under a manual clock: shared searches, the cache, what a reload changes, and every combination of used
// and failed engines.
import t from 'tap';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import type { SearchAnswer, SearchQuery } from '../../src/search/query.ts';
import { createEngineMemory } from '../../src/search/engine-board.ts';
import type { Pending } from '../../src/net/answer-cache.ts';
import { SearchService, type SearchServiceSettings } from '../../src/search/search-service.ts';
import { type Answer, fakeTransport, type FakeTransport, hang, hostOf, queryOf, specOf } from '../support/search.ts';

interface Heard {
  readonly answers: SearchAnswer[];
  readonly cached: boolean[];
  readonly pending: Pending;
}

interface Setup extends TestSystem {
  readonly service: SearchService;
  readonly transport: FakeTransport;
  readonly configure: (settings: Partial<SearchServiceSettings>) => void;
  readonly search: (fields?: Partial<SearchQuery>, account?: string) => Heard;
}

function setUp(answer: Answer, settings: Partial<SearchServiceSettings> = {}): Setup {
  const test = createTestSystem();
  const transport = fakeTransport(answer);
  const { clock } = test;
  const memory = createEngineMemory(8);
  const deps = { random: () => 0, epochMs: () => clock.now(), onOutcome: () => undefined };
  const service = new SearchService({ ...deps, clock, memory, transport });
  const base = {
    timeoutMs: 10_000,
    engines: ['a', 'b', 'c', 'd', 'e'].map((id, cell) => specOf(id, { cell })),
    cacheTtlMs: null,
    cacheBytes: 1_000_000,
  };
  service.configure({ ...base, ...settings });
  return {
    ...{ ...test, service, transport },
    configure: (changes) => service.configure({ ...base, ...settings, ...changes }),
    search(fields = {}, account = 'me') {
      const heard = { answers: [] as SearchAnswer[], cached: [] as boolean[] };
      const pending = service.search(queryOf(['a', 'b'], fields), account, (given, source) => {
        heard.answers.push(given);
        heard.cached.push(source === 'cache');
      });
      return { ...heard, pending };
    },
  };
}

const found: Answer = (request) => ({ urls: [`http://x.org/${hostOf(request)}`, 'http://x.org/both'] });
const CACHED = { cacheTtlMs: 60_000 };

t.test('merges the hits of its engines and names those that were used', async (t) => {
  const b = setUp(found);
  const { answers, cached } = b.search();
  t.same(answers, [], 'never before the call returns');
  await b.settle();
  t.strictSame(answers[0]?.meta, { duration_ms: 0, engines_used: ['a', 'b'], engines_failed: [], engine_errors: [] });
  t.strictSame(answers[0]?.results[0]?.found_in, ['a', 'b']);
  t.equal(answers[0]?.results.length, 3);
  t.same(cached, [false]);
});

t.test('counts the deadline from the acceptance and answers at it', async (t) => {
  const b = setUp((request, signal) => (hostOf(request) === 'a' ? hang(signal) : found(request, signal)));
  const { answers } = b.search();
  b.clock.advance(4000);
  await b.advance(5999);
  t.same(answers, []);
  await b.advance(1);
  t.strictSame(answers[0]?.meta, {
    duration_ms: 10_000,
    engines_used: ['b'],
    engines_failed: ['a'],
    engine_errors: [{ engine: 'a', reason: 'timeout' }],
  });
  t.same([b.transport.load.now, b.transport.listeners(), b.clock.nextDueMs], [0, 0, Infinity]);
});

t.test('equal searches of one account share one set of calls, and each is answered', async (t) => {
  const b = setUp(found);
  const done: SearchAnswer[] = [];
  const listen = (answer: SearchAnswer): void => void done.push(answer);
  for (let i = 0; i < 5; i++) b.service.search(queryOf(['a', 'b']), 'me', listen);
  const others = [
    b.search({}, 'you'),
    b.search({ query: 'lakes' }),
    b.search({ maxResults: 5 }),
    b.search({ type: 'news' }),
    b.search({ engines: ['b', 'a'] }),
  ];
  await b.settle();
  t.equal(done.length, 5);
  t.ok(others.every(({ answers }) => answers.length === 1));
  t.equal(b.transport.asked.length, 12);
});

t.test('different searches never have one key', async (t) => {
  const b = setUp(found, CACHED);
  b.search({ query: 'x' }, 'me","web');
  b.search({ query: 'web",10,["a"],"x' }, 'me');
  await b.settle();
  t.equal(b.transport.asked.length, 4);
});

t.test('a client that leaves ends its own search only, the last one every call', async (t) => {
  const b = setUp((_request, signal) => hang(signal));
  const [one, two] = [b.search(), b.search()];
  await b.settle();
  one.pending.abort();
  one.pending.abort();
  await b.settle();
  t.equal(b.transport.load.now, 2);
  two.pending.abort();
  await b.settle();
  t.same([b.transport.load.now, b.transport.left.length, b.transport.listeners()], [0, 2, 0]);
  await b.advance(20_000);
  t.same([one.answers, two.answers], [[], []]);
});

t.test('a search that begins as the last equal one is aborted has calls of its own', async (t) => {
  const gates: ((said: { failure: 'invalid' } | { urls: string[] }) => void)[] = [];
  const b = setUp(() => new Promise((resolve) => gates.push(resolve)));
  const first = b.search({ engines: ['a'] });
  await b.settle();
  gates[0]?.({ failure: 'invalid' });
  first.pending.abort();
  const second = b.search({ engines: ['a'] });
  await b.settle();
  gates[1]?.({ urls: ['http://x.org/'] });
  await b.settle();
  t.same(first.answers, []);
  t.equal(second.answers.length, 1);
  t.same(second.answers[0]?.meta.engines_used, ['a']);
});

t.test('a client that leaves from within another’s answer is not answered', async (t) => {
  const b = setUp(found);
  const heard: string[] = [];
  let second: Pending | undefined;
  b.service.search(queryOf(['a']), 'me', () => {
    heard.push('first');
    second?.abort();
  });
  second = b.service.search(queryOf(['a']), 'me', () => heard.push('second'));
  await b.settle();
  t.same(heard, ['first']);
});

t.test('keeps answers for their time, with their meta', async (t) => {
  const b = setUp(async (request, signal) => found(request, signal), CACHED);
  const { answers } = b.search();
  await b.settle();
  await b.advance(59_999);
  const again = b.search();
  t.same(again.answers, []);
  await b.settle();
  t.strictSame([again.answers, again.cached], [answers, [true]]);
  t.equal(b.transport.asked.length, 2);
  const other = b.search({}, 'you');
  await b.settle();
  t.same(other.cached, [false], 'not for another account');
  await b.advance(2);
  const late = b.search();
  await b.settle();
  t.same(late.cached, [false]);
});

t.test('a client that leaves before its cached answer hears nothing', async (t) => {
  const b = setUp(found, CACHED);
  b.search();
  await b.settle();
  const { pending, answers } = b.search();
  pending.abort();
  await b.settle();
  t.same(answers, []);
});

t.test('an answer without one of its engines is not kept', async (t) => {
  const b = setUp(
    (request, signal) => (hostOf(request) === 'a' ? { failure: 'http' } : found(request, signal)),
    CACHED,
  );
  b.search();
  await b.settle();
  const { cached } = b.search();
  await b.settle();
  t.same(cached, [false]);
});

t.test('the cache is bounded in bytes', async (t) => {
  const long = 'x'.repeat(1000);
  const b = setUp((request) => ({ urls: [`http://x.org/${new URL(request.url).search}${long}`] }), {
    ...CACHED,
    cacheBytes: 50_000,
  });
  for (let i = 0; i < 50; i++) b.search({ query: `q${i}`, engines: ['a'] });
  await b.settle();
  const hits: boolean[] = [];
  for (let i = 0; i < 50; i++) {
    const asked = b.transport.asked.length;
    const { pending } = b.search({ query: `q${i}`, engines: ['a'] });
    await b.settle();
    hits.push(b.transport.asked.length === asked);
    pending.abort();
  }
  t.ok(hits.filter(Boolean).length < 12);
  const newest = setUp(found, { ...CACHED, cacheBytes: 50_000 });
  newest.search();
  await newest.settle();
  t.equal(newest.transport.asked.length, 2);
  const none = setUp(found, { ...CACHED, cacheBytes: 0 });
  none.search();
  await none.settle();
  none.search();
  await none.settle();
  t.equal(none.transport.asked.length, 4);
});

t.test('a reload replaces only what has changed, and searches under way end as they began', async (t) => {
  const gates: Record<string, () => void> = {};
  const b = setUp((request, signal) => {
    if (request.url.includes('slow')) return new Promise((r) => (gates[hostOf(request)] = () => r({ urls: [] })));
    return found(request, signal);
  });
  const limits = { concurrency: 1, fingerprint: 'one at a time' };
  const [a, changed] = [specOf('a', { ...limits, cell: 0 }), specOf('b', { ...limits, cell: 1 })];
  b.configure({ engines: [a, changed] });
  const slow = b.search({ query: 'slow' });
  await b.settle();
  b.configure({ engines: [{ ...a }, { ...changed, fingerprint: 'new' }] });
  const next = b.search({ engines: ['a', 'b', 'c'] });
  await b.settle();
  t.same(next.answers, []);
  t.same(
    b.transport.asked.map((url) => new URL(url).hostname),
    ['a', 'b', 'b'],
    'a still runs its only search',
  );
  gates['a']?.();
  gates['b']?.();
  await b.settle();
  t.same(slow.answers[0]?.meta.engines_used, ['a', 'b']);
  t.same(next.answers[0]?.meta.engines_used, ['a', 'b']);
  t.same(next.answers[0]?.meta.engine_errors, [{ engine: 'c', reason: 'not configured' }]);
});

t.test('new settings of an engine end its suspension; those of another do not', async (t) => {
  let denied = true;
  const b = setUp((request, signal) => (denied ? { failure: 'denied' } : found(request, signal)));
  b.search();
  await b.settle();
  denied = false;
  b.configure({ engines: [specOf('a', { cell: 0 }), specOf('b', { cell: 1, fingerprint: 'new key' })] });
  const { answers } = b.search();
  await b.settle();
  t.same(answers[0]?.meta.engines_used, ['b']);
  t.same(answers[0]?.meta.engine_errors, [{ engine: 'a', reason: 'suspended' }]);
});

t.test('a reload that changes no engine keeps the cache; one that does empties it', async (t) => {
  const b = setUp(found, CACHED);
  b.search();
  await b.settle();
  b.configure({ timeoutMs: 5000 });
  const kept = b.search();
  await b.settle();
  t.same(kept.cached, [true]);
  b.configure({ engines: [specOf('a', { fingerprint: 'new' }), specOf('b', { cell: 1 })] });
  const dropped = b.search();
  await b.settle();
  t.same(dropped.cached, [false]);
});

t.test('answers of replaced engines do not enter the new cache', async (t) => {
  let open: (() => void) | undefined;
  const b = setUp(() => new Promise((resolve) => (open = () => resolve({ urls: [] }))), CACHED);
  b.search({ engines: ['a'] });
  await b.settle();
  b.configure({ engines: [specOf('a', { fingerprint: 'new' })] });
  open?.();
  await b.settle();
  const { cached } = b.search({ engines: ['a'] });
  await b.settle();
  open?.();
  await b.settle();
  t.same(cached, [false]);
});

t.test('reports every combination of five engines that work or fail', async (t) => {
  const ids = ['a', 'b', 'c', 'd', 'e'];
  for (let bits = 0; bits < 32; bits++) {
    const failed = ids.filter((_, i) => (bits >> i) % 2 === 1);
    const b = setUp((request, signal) =>
      failed.includes(hostOf(request)) ? { failure: 'http', status: 500 } : found(request, signal),
    );
    const { answers } = b.search({ engines: ids });
    await b.settle();
    const used = ids.filter((id) => !failed.includes(id));
    t.strictSame(answers[0]?.meta, {
      duration_ms: 0,
      engines_used: used,
      engines_failed: failed,
      engine_errors: failed.map((engine) => ({ engine, reason: 'engine returned HTTP 500' })),
    });
    t.equal(answers[0]?.results.length, used.length === 0 ? 0 : used.length + 1);
  }
});

t.test('closing answers the searches under way with what there is, and leaves no request', async (t) => {
  const b = setUp((request, signal) => (hostOf(request) === 'a' ? hang(signal) : found(request, signal)));
  const { answers } = b.search();
  await b.settle();
  b.service.close();
  await b.settle();
  t.same(answers[0]?.meta.engines_used, ['b']);
  t.same(answers[0]?.meta.engine_errors, [{ engine: 'a', reason: 'timeout' }]);
  t.same([b.transport.load.now, b.transport.listeners(), b.clock.nextDueMs], [0, 0, Infinity]);
});
