// The wait for an engine's rate limits under a manual clock: figures of a crowded engine, turns between accounts, and a model test
// of random searches, departures and threads.
import fc from 'fast-check';
import t from 'tap';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import type { RateLimit } from '../../src/search/engine.ts';
import { createEngineMemory, EngineBoard } from '../../src/search/engine-board.ts';
import { RateQueue } from '../../src/search/rate-queue.ts';
import { fakeEngine, setUpClient, startSearch } from '../support/search.ts';

const NEVER = new AbortController().signal;

interface Setup extends TestSystem {
  /** Queues of as many threads. */
  readonly queues: readonly RateQueue[];
}

function setUp(rates: readonly RateLimit[], threads = 1): Setup {
  const test = createTestSystem();
  const memory = createEngineMemory(1);
  const queueOf = (): RateQueue => new RateQueue({ board: new EngineBoard(memory), clock: test.clock, cell: 0, rates });
  return { ...test, queues: Array.from({ length: threads }, queueOf) };
}

t.test('an engine of one request a second and four searches a second answers as many as its rate allows', async (t) => {
  const MS = { request: 400, between: 250, timeout: 5000 };
  const b = setUpClient(
    (_request, signal) =>
      new Promise((resolve, reject) => {
        const timer = b.clock.setTimeout(() => resolve({ urls: ['http://x.org/1'] }), MS.request);
        signal.addEventListener('abort', () => {
          b.clock.clearTimeout(timer);
          reject(signal.reason as Error);
        });
      }),
    { workers: [fakeEngine('a')], rates: [{ requests: 1, perMs: 1000 }], concurrency: 32 },
  );
  const searches: ReturnType<typeof startSearch>[] = [];
  for (let i = 0; i < 60; i++) {
    const search = startSearch(b.client, b.clock.now() + MS.timeout, { query: `query ${i}` }, `account ${i % 3}`);
    searches.push(search);
    b.clock.setTimeout(() => search.call.cancel('timeout'), MS.timeout);
    await b.advance(MS.between);
  }
  await b.advance(10_000);
  const answered = searches.filter(({ reports }) => 'hits' in (reports[0] ?? {})).length;
  t.comment(`${answered} of 60 answered, ${b.transport.asked.length} calls, ${b.transport.left.length} cut off`);
  t.ok(answered >= 14, '15 s at one request a second');
  t.equal(b.transport.asked.length, answered);
  t.equal(b.transport.left.length, 0, 'no call was cut off');
  const reasons = searches.map(({ reports: [report = { reason: 'none' }] }) =>
    'reason' in report ? report.reason : 'ok',
  );
  t.strictSame([...new Set(reasons)], ['ok', 'rate limited']);
  t.equal(b.board.suspendedUntilMs(0), 0);
  const longest = b.outcomes.map((outcome) => Number(outcome.split(' ').at(-1))).toSorted((x, y) => y - x)[0] ?? 0;
  t.ok(longest <= 1000 + MS.request + 1, `the longest took ${longest} ms`);
  t.ok(b.outcomes.filter((outcome) => outcome.endsWith(' rate limited 0')).length >= 40, 'most are refused at once');
});

t.test('an account that floods takes turns with one that asks seldom', async (t) => {
  const { advance, queues } = setUp([{ requests: 1, perMs: 400 }]);
  const served = { many: 0, one: 0 };
  const refused = { many: 0, one: 0 };
  const ask = (account: 'many' | 'one'): void => {
    void queues[0]?.enter(account, 1000, NEVER).then((place) => (place ? served : refused)[account]++);
  };
  for (let i = 0; i < 400; i++) {
    for (let n = 0; n < 5; n++) ask('many');
    if (i % 20 === 0) ask('one');
    await advance(50);
  }
  await advance(2000);
  t.same([served.one, refused.one], [20, 0], 'every request of the other is served');
  t.ok(served.many >= 26, `${served.many} of about 29 places that are left`);
});

t.test('with a single place to wait for, two accounts share it', async (t) => {
  const { advance, queues } = setUp([{ requests: 1, perMs: 1000 }]);
  const served = new Map([
    ['a', 0],
    ['b', 0],
  ]);
  for (let i = 0; i < 400; i++) {
    for (const account of ['a', 'a', 'a', 'b'])
      void queues[0]?.enter(account, 1000, NEVER).then((place) => {
        if (place) served.set(account, (served.get(account) ?? 0) + 1);
      });
    await advance(100);
  }
  await advance(2000);
  const [a = 0, b = 0] = served.values();
  t.ok(Math.abs(a - b) <= 2, `${a} and ${b}`);
});

t.test('a wait that is left gives its place to the next, and leaves no timer', async (t) => {
  const { advance, clock, queues } = setUp([{ requests: 1, perMs: 400 }]);
  const queue = queues[0] as RateQueue;
  t.equal(await queue.enter('a', 1000, NEVER), true);
  const controller = new AbortController();
  const left = queue.enter('a', 1000, controller.signal);
  const next = queue.enter('b', 1000, NEVER);
  controller.abort(new Error('gone'));
  await t.rejects(left, { message: 'gone' });
  await advance(425);
  t.equal(await next, true);
  t.same([queue.waiting, clock.nextDueMs], [0, Infinity]);
  const aborted = AbortSignal.abort(new Error('gone before'));
  await t.rejects(queue.enter('c', 1000, aborted), { message: 'gone before' });
  t.equal(clock.nextDueMs, Infinity);
});

interface Asked {
  readonly atMs: number;
  readonly withinMs: number;
  /** Null while it waits. */
  outcome: 'place' | 'refused' | 'left' | null;
  endMs: number;
  readonly controller: AbortController;
}

const step = fc.oneof(
  fc.record({
    kind: fc.constant('ask' as const),
    account: fc.nat(3),
    thread: fc.nat(1),
    withinMs: fc.integer({ min: -10, max: 1000 }),
  }),
  fc.record({ kind: fc.constant('leave' as const), which: fc.nat(50) }),
  fc.record({ kind: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 300 }) }),
);

t.test('whatever the order: one outcome each, in time, within the limits, and nothing left behind', async () => {
  const limits = fc.array(
    fc.record({ requests: fc.integer({ min: 1, max: 6 }), perMs: fc.integer({ min: 50, max: 1500 }) }),
    { minLength: 1, maxLength: 2 },
  );
  await fc.assert(
    fc.asyncProperty(limits, fc.array(step, { maxLength: 60, size: 'max' }), async (rates, steps) => {
      const { advance, clock, queues, settle } = setUp(rates, 2);
      const asked: Asked[] = [];
      for (const one of steps) {
        if (one.kind === 'pass') await advance(one.ms);
        else if (one.kind === 'leave') asked[one.which]?.controller.abort(new Error('left'));
        else {
          const { account, thread, withinMs } = one;
          const controller = new AbortController();
          const search: Asked = { atMs: clock.now(), withinMs, outcome: null, endMs: 0, controller };
          asked.push(search);
          const end = (outcome: Asked['outcome']) => (): void => {
            if (search.outcome !== null) throw new Error('two outcomes');
            search.outcome = outcome;
            search.endMs = clock.now();
          };
          (queues[thread] as RateQueue)
            .enter(`account ${account}`, withinMs, controller.signal)
            .then((place) => end(place ? 'place' : 'refused')())
            .catch(end('left'));
        }
        await settle();
      }
      await advance(3000);
      const dates = asked.filter(({ outcome }) => outcome === 'place').map(({ endMs }) => endMs);
      for (const { atMs, endMs, outcome, withinMs } of asked) {
        if (outcome === null) throw new Error('it waits for ever');
        if (outcome === 'place' && endMs > atMs + Math.max(withinMs, 0) + 1) throw new Error('a place too late');
      }
      for (const { perMs, requests } of rates)
        for (const first of dates) {
          const many = dates.filter((date) => date >= first && date <= first + perMs).length;
          if (many > requests) throw new Error(`${many} requests in ${perMs} ms`);
        }
      if (clock.nextDueMs !== Infinity || queues.some(({ waiting }) => waiting > 0))
        throw new Error('something is left');
    }),
    { numRuns: 100 },
  );
});
