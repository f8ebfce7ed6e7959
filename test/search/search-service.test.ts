// The search service under a manual clock: shared searches, the cache, what a reload changes, and every combination of used
// and failed engines.
import t from 'tap';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import type { SearchAnswer, SearchQuery } from '../../src/search/query.ts';
import { createEngineMemory } from '../../src/search/engine-board.ts';
import type { Pending } from '../../src/net/answer-cache.ts';
import { createPlaceMemory } from '../../src/routing/place-counts.ts';
import {
  type SearchOutcome,
  SearchService,
  type SearchServiceSettings,
  type SearchWatcher,
} from '../../src/search/search-service.ts';
import {
  type Answer,
  answerOf,
  callerOf,
  fakeEngine,
  fakeTransport,
  type FakeTransport,
  hang,
  hostOf,
  queryOf,
  specOf,
} from '../support/search.ts';

interface Heard {
  readonly found: SearchOutcome[];
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
  const deps = { random: () => 0, epochMs: () => clock.now(), onOutcome: () => undefined, onThrown: () => undefined };
  const placeMemory = createPlaceMemory(1);
  const service = new SearchService({ ...deps, clock, memory, placeMemory, thread: 0, transport });
  const base = {
    timeoutMs: 10_000,
    softTimeoutMs: 10_000,
    perAccount: 8,
    engines: ['a', 'b', 'c', 'd', 'e'].map((id, cell) => specOf(id, { cell })),
    cacheTtlMs: null,
    cacheBytes: 1_000_000,
  };
  service.configure({ ...base, ...settings });
  return {
    ...{ ...test, service, transport },
    configure: (changes) => service.configure({ ...base, ...settings, ...changes }),
    search(fields = {}, account = 'me') {
      const heard = { found: [] as SearchOutcome[], answers: [] as SearchAnswer[], cached: [] as boolean[] };
      const pending = service.search(queryOf(['a', 'b'], fields), callerOf(account), (given, source) => {
        heard.found.push(given);
        if ('answer' in given) heard.answers.push(given.answer);
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
  const listen = (found: SearchOutcome): void => void done.push(answerOf(found));
  for (let i = 0; i < 5; i++) b.service.search(queryOf(['a', 'b']), callerOf('me'), listen);
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
  b.service.search(queryOf(['a']), callerOf('me'), () => {
    heard.push('first');
    second?.abort();
  });
  second = b.service.search(queryOf(['a']), callerOf('me'), () => heard.push('second'));
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

t.test('an answer without an engine that could not answer now either is kept', async (t) => {
  const b = setUp(found, CACHED);
  const engines = ['a', 'unknown'];
  const { answers } = b.search({ engines });
  await b.settle();
  t.match(answers, [{ meta: { engines_failed: ['unknown'] } }]);
  const kept = b.search({ engines });
  await b.settle();
  t.same(kept.cached, [true]);
  t.same(kept.answers, answers);
  b.search({ engines: ['unknown'] });
  await b.settle();
  const { cached } = b.search({ engines: ['unknown'] });
  await b.settle();
  t.same(cached, [false], 'without any answer there is nothing to keep');
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
  const b = setUp((request, signal) => (denied ? { failure: 'quota' } : found(request, signal)));
  b.search();
  await b.settle();
  denied = false;
  b.configure({ engines: [specOf('a', { cell: 0 }), specOf('b', { cell: 1, fingerprint: 'new key' })] });
  const { answers } = b.search();
  await b.settle();
  t.same(answers[0]?.meta.engines_used, ['b']);
  t.same(answers[0]?.meta.engine_errors, [{ engine: 'a', reason: 'suspended' }]);
});

t.test('new rate limits of an engine hold from the reload on; other settings leave what was counted', async (t) => {
  const hourly = { rates: [{ requests: 2, perMs: 3_600_000 }] };
  const b = setUp(found, { engines: [specOf('a', hourly)] });
  const reasons = async (): Promise<unknown> => {
    const { answers } = b.search({ engines: ['a'] });
    await b.settle();
    return answers[0]?.meta.engine_errors.map(({ reason }) => reason);
  };
  t.same(await reasons(), []);
  t.same(await reasons(), ['rate limited']);
  b.configure({ engines: [specOf('a', { ...hourly, weight: 2, fingerprint: 'weight' })] });
  t.same(await reasons(), ['rate limited']);
  b.configure({ engines: [specOf('a', { rates: [{ requests: 100, perMs: 1000 }], fingerprint: 'rates' })] });
  t.same(await reasons(), []);
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

const SOFT = { softTimeoutMs: 4000 };

/** Engine `a` answers after this long, the others at once. */
const slowA =
  (b: () => Setup, ms: number): Answer =>
  (request, signal) =>
    hostOf(request) === 'a'
      ? Promise.race([
          new Promise<{ urls: string[] }>(
            (resolve) => void b().clock.setTimeout(() => resolve({ urls: ['http://x.org/a'] }), ms),
          ),
          hang(signal),
        ])
      : found(request, signal);

t.test('answers at the soft deadline, names the slow engine and charges nothing for it', async (t) => {
  const b: Setup = setUp(
    slowA(() => b, 6000),
    SOFT,
  );
  const { answers, found: outcomes } = b.search();
  await b.advance(3999);
  t.same(answers, []);
  await b.advance(1);
  t.strictSame(answers[0]?.meta, {
    duration_ms: 4000,
    engines_used: ['b'],
    engines_failed: ['a'],
    engine_errors: [{ engine: 'a', reason: 'slow' }],
  });
  t.match(outcomes[0], { units: new Map([['b', 1]]) });
  t.same([b.service.load.running, b.transport.load.now], [1, 1], 'the slow engine keeps the place of the account');
  await b.advance(2000);
  t.same([b.service.load.running, b.transport.load.now, b.clock.nextDueMs], [0, 0, Infinity]);
  t.equal(answers.length, 1);
});

t.test('what arrives late completes the cached answer', async (t) => {
  const b: Setup = setUp(
    slowA(() => b, 6000),
    { ...SOFT, ...CACHED },
  );
  b.search();
  await b.advance(4000);
  const early = b.search({ engines: ['b'] });
  await b.settle();
  t.same(early.cached, [false]);
  await b.advance(2000);
  const { answers, cached } = b.search();
  await b.settle();
  t.same(cached, [true]);
  t.match(answers[0]?.meta, { engines_used: ['a', 'b'], engine_errors: [], duration_ms: 6000 });
});

t.test('an engine with many pages answers at the soft deadline, or with its first page after it', async (t) => {
  for (const [pageMs, answeredMs, hits] of [
    [1500, 4000, 2],
    [5000, 5000, 1],
  ] as const) {
    let page = 0;
    const b: Setup = setUp(
      (_request, signal) =>
        Promise.race([
          new Promise<{ urls: string[]; next: number }>((resolve) => {
            const urls = [`http://x.org/${++page}`];
            b.clock.setTimeout(() => resolve({ urls, next: 1 }), pageMs);
          }),
          hang(signal),
        ]),
      SOFT,
    );
    const { answers } = b.search({ engines: ['a'], maxResults: 100 });
    await b.advance(answeredMs - 1);
    t.same(answers, []);
    await b.advance(1);
    t.match(answers[0], { results: { length: hits }, meta: { engines_used: ['a'], engines_failed: [] } });
    b.service.close();
  }
});

t.test('without a cache, an engine that was not asked before the answer is not asked after it', async (t) => {
  for (const [kept, asked] of [
    [{}, 1],
    [CACHED, 2],
  ] as const) {
    const b: Setup = setUp(
      slowA(() => b, 6000),
      { ...SOFT, ...kept, engines: [specOf('a', { concurrency: 1 }), specOf('b', { cell: 1 })] },
    );
    b.search({ query: 'one' });
    const { answers } = b.search({ query: 'two' });
    await b.advance(4000);
    t.match(answers[0]?.meta, { engines_used: ['b'], engine_errors: [{ engine: 'a', reason: 'slow' }] });
    await b.advance(2000);
    t.equal(b.transport.asked.filter((url) => url.includes('//a')).length, asked);
    await b.advance(4000);
    t.same([b.service.load.running, b.transport.load.now], [0, 0]);
  }
});

t.test('what came late is charged once, to the first that gets it', async (t) => {
  const b: Setup = setUp(
    slowA(() => b, 6000),
    { ...SOFT, ...CACHED },
  );
  const first = b.search();
  await b.advance(6000);
  t.match(first.found[0], { units: new Map([['b', 1]]), late: null });
  const { pending } = b.search();
  pending.abort();
  await b.settle();
  const { found: outcomes } = b.search();
  await b.settle();
  const late = outcomes[0] !== undefined && 'late' in outcomes[0] ? outcomes[0].late : null;
  t.same(late?.take(), new Map([['a', 1]]), 'not by one that left without it');
  t.equal(late?.take(), null);
});

t.test('a slow engine that never answers is not kept, and its account is cut off at the deadline', async (t) => {
  const b = setUp((request, signal) => (hostOf(request) === 'a' ? hang(signal) : found(request, signal)), {
    ...SOFT,
    ...CACHED,
  });
  b.search();
  await b.advance(10_000);
  t.same([b.transport.load.now, b.service.load.running, b.clock.nextDueMs], [0, 0, Infinity]);
  const { cached } = b.search();
  await b.advance(4000);
  t.same(cached, [false]);
});

t.test('closing ends the slow engines of answered searches', async (t) => {
  const b = setUp((request, signal) => (hostOf(request) === 'a' ? hang(signal) : found(request, signal)), SOFT);
  b.search();
  await b.advance(4000);
  b.service.close();
  await b.settle();
  t.same([b.transport.load.now, b.transport.listeners(), b.clock.nextDueMs], [0, 0, Infinity]);
});

t.test('searches of one account that hang do not delay those of another', async (t) => {
  const b = setUp((request, signal) => (request.url.includes('hang') ? hang(signal) : found(request, signal)), {
    perAccount: 2,
  });
  const many = Array.from({ length: 40 }, (_, i) => b.search({ query: `hang ${i}` }, 'many'));
  const one = b.search({ query: 'rivers' }, 'one');
  await b.settle();
  t.equal(one.answers.length, 1);
  t.same([b.transport.load.now, b.service.load], [4, { running: 2, waiting: 38 }]);
  many[5]?.pending.abort();
  await b.settle();
  t.equal(b.service.load.waiting, 37);
  await b.advance(10_000);
  t.match(many[2]?.found, [{ refused: 'limit' }], 'its time of waiting is over');
  t.match(many[0]?.answers, [{ meta: { engines_used: [] } }]);
});

t.test('a search waits for its place with a deadline of its own after it', async (t) => {
  const b: Setup = setUp(
    slowA(() => b, 6000),
    { perAccount: 1 },
  );
  const first = b.search({ query: 'first' });
  const second = b.search({ query: 'second' });
  await b.advance(6000);
  t.equal(first.answers.length, 1);
  await b.advance(6000);
  t.match(second.answers, [{ meta: { engines_used: ['a', 'b'], duration_ms: 12_000 } }]);
});

t.test(
  'a search that shares with none has calls of its own, and neither takes from the cache nor fills it',
  async (t) => {
    const b = setUp(found, CACHED);
    const sources: string[] = [];
    const ask = (account: string | null): void =>
      void b.service.search(queryOf(['a']), { account, caller: 'net' }, (_found, source) => sources.push(source));
    ask(null);
    ask(null);
    await b.settle();
    ask('me');
    await b.settle();
    ask(null);
    ask('me');
    await b.settle();
    t.same(sources.toSorted(), ['cache', 'flight', 'flight', 'flight', 'flight']);
    t.equal(b.transport.asked.length, 4);
  },
);

t.test('of those who share a search, exactly one has its calls, also when the first has left', async (t) => {
  const b = setUp(async (request, signal) => found(request, signal));
  const sources: string[] = [];
  const ask = (): Pending => b.service.search(queryOf(['a']), callerOf('me'), (_found, source) => sources.push(source));
  const [first] = [ask(), ask(), ask()];
  first?.abort();
  await b.settle();
  t.same(sources, ['flight', 'shared']);
  t.equal(b.transport.asked.length, 1);
});

t.test('counts a price for each request or each ten hits, and never more than was asked for', async (t) => {
  const page = (n: number): string[] => Array.from({ length: n }, (_, i) => `http://x.org/${n}-${i}`);
  const unitsOf = async (answer: Answer, maxResults: number): Promise<number | undefined> => {
    const b = setUp(answer);
    const { found: outcomes } = b.search({ engines: ['a'], maxResults });
    await b.settle();
    return outcomes[0] !== undefined && 'units' in outcomes[0] ? outcomes[0].units.get('a') : undefined;
  };
  t.equal(await unitsOf(() => ({ urls: [] }), 100), 1, 'an engine that found nothing has answered');
  t.equal(await unitsOf(() => ({ urls: page(10) }), 10), 1);
  t.equal(await unitsOf(() => ({ urls: page(100) }), 100), 10, 'a hundred at once');
  t.equal(await unitsOf(() => ({ urls: page(100) }), 25), 3, 'more than was asked for');
  t.equal(await unitsOf(() => ({ urls: page(1), next: 1 }), 100), 10, 'twelve requests of one hit each');
  t.equal(await unitsOf(() => ({ urls: page(4), next: 1 }), 10), 1, 'two requests of one price');
});

t.test('an engine that lacks a part is used and named', async (t) => {
  const b = setUp(found);
  const noting = {
    ...fakeEngine('a'),
    parse: () => ({ hits: [], note: 'some engines of the instance did not answer' }),
  };
  b.configure({ engines: [specOf('a', { workers: [noting], fingerprint: 'noting' })] });
  const { answers } = b.search({ engines: ['a'] });
  await b.settle();
  t.match(answers[0]?.meta, {
    engines_used: ['a'],
    engines_failed: [],
    engine_errors: [{ engine: 'a', reason: 'some engines of the instance did not answer' }],
  });
});

t.test('watchers hear how a search goes that they share, until it is answered', async (t) => {
  const b = setUp(async (request, signal) => {
    if (hostOf(request) === 'c') return hang(signal);
    return hostOf(request) === 'b' ? { failure: 'rate limited' } : found(request, signal);
  });
  const heard: string[] = [];
  const watcherOf = (name: string): SearchWatcher => ({
    onStarted: (deadlineMs) => void heard.push(`${name} until ${deadlineMs}`),
    onEngine: (progress) => {
      const { answered, ended, engine, reason, total } = progress;
      const results = progress.results().length;
      heard.push(`${name} ${engine} ${reason ?? 'answered'} ${answered}/${ended}/${total}, ${results} results`);
    },
  });
  const query = queryOf(['a', 'b', 'c']);
  const ask = (name: string): Pending =>
    b.service.search(query, { ...callerOf('me'), watcher: watcherOf(name) }, () => void heard.push(`${name} done`));
  ask('first');
  b.clock.advance(1);
  ask('second');
  await b.settle();
  t.same(heard.splice(0), [
    'first until 10000',
    'second until 10000',
    'first a answered 1/1/3, 2 results',
    'second a answered 1/1/3, 2 results',
    'first b rate limited 1/2/3, 2 results',
    'second b rate limited 1/2/3, 2 results',
  ]);
  await b.advance(10_000);
  t.same(heard, ['first c timeout 1/3/3, 2 results', 'second c timeout 1/3/3, 2 results', 'first done', 'second done']);
});
