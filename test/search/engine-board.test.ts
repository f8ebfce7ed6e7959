// The engine board: suspensions of growing length, the single trial after one, and rate limits that hold for any order of
// requests, several limits and several threads.
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import t from 'tap';
import type { RateLimit } from '../../src/search/engine.ts';
import {
  type Asker,
  createEngineMemory,
  EngineBoard,
  EngineCells,
  MAX_ENGINES,
  type CallFailure,
  type Permit,
} from '../../src/search/engine-board.ts';

const DAY_MS = 86_400_000;

function board(): EngineBoard {
  return new EngineBoard(createEngineMemory(3));
}

function acquire(b: EngineBoard, nowMs: number): Permit {
  const permit = b.acquire(0, nowMs, 'me');
  if (permit === undefined) throw new Error('no permit');
  return permit;
}

let askers = 0;

/** An account that has not asked before, with a query of its own. */
function another(): Asker {
  askers++;
  return { account: `account ${askers}`, query: `query ${askers}` };
}

/** Fails as an ordinary search would, which entered before. */
function fail(b: EngineBoard, failure: CallFailure, nowMs: number, retryAfterMs?: number): number {
  return b.fail(0, acquire(b, nowMs), failure, nowMs, another(), retryAfterMs);
}

const limit: fc.Arbitrary<RateLimit> = fc.record({
  requests: fc.integer({ min: 1, max: 40 }),
  perMs: fc.integer({ min: 1, max: 20_000 }),
});

t.test('an engine keeps its place, and shares it with no other that is there', async (t) => {
  const cells = new EngineCells();
  const b = new EngineBoard(cells.memory);
  const rates = [{ requests: 1, perMs: 1000 }];
  const first = Array.from({ length: MAX_ENGINES }, (_, index) => `e${index}`);
  t.equal(cells.of(first)['e63'], 63);
  b.fail(1, 0n, 'quota', 0, another());
  b.reserve(1, rates, 0, 0);
  t.same(cells.of(['e0', 'e2']), cells.of(first));
  const later = cells.of(['e0', 'new', 'e2', 'newer']);
  t.same([later['e0'], later['e2'], later['new'], later['newer']], [0, 2, 1, 3], 'places of engines that have left');
  t.equal(b.suspendedUntilMs(1), 0, 'a former engine leaves nothing behind');
  t.equal(b.reserve(1, rates, 0, 0), 0);
  t.equal(new Set(Object.values(cells.of(first.slice(1)))).size, MAX_ENGINES);
});

t.test('gives permits without limit while the engine works', async (t) => {
  const b = board();
  t.same([b.acquire(0, 1, 'me'), b.acquire(0, 1, 'me'), b.acquire(2, 1, 'me')], [0n, 0n, 0n]);
  t.equal(b.suspendedUntilMs(0), 0);
});

for (const [failure, firstMs, mostMs] of [
  ['quota', 3_600_000, 21_600_000],
  ['rate limited', 10_000, 600_000],
] as const) {
  t.test(`suspends at once after ${failure}, twice as long each time, up to a limit`, async (t) => {
    const b = board();
    let nowMs = 1000;
    for (let lengthMs = firstMs; lengthMs < 3 * mostMs; lengthMs *= 2) {
      t.equal(fail(b, failure, nowMs), Math.min(lengthMs, mostMs));
      nowMs += Math.min(lengthMs, mostMs);
      t.equal(b.acquire(0, nowMs - 1, 'me'), undefined);
    }
  });
}

for (const [failure, firstMs, mostMs] of [
  ['denied', 180_000, 3_600_000],
  ['challenge', 3_600_000, DAY_MS],
] as const) {
  t.test(`suspends after the second query that is ${failure}, twice as long each time, up to a limit`, async (t) => {
    const b = board();
    t.equal(fail(b, failure, 1000), 0);
    let nowMs = 1000;
    for (let lengthMs = firstMs; lengthMs < 3 * mostMs; lengthMs *= 2) {
      t.equal(fail(b, failure, nowMs), Math.min(lengthMs, mostMs));
      nowMs += Math.min(lengthMs, mostMs);
      t.equal(b.acquire(0, nowMs - 1, 'me'), undefined);
    }
  });
}

for (const failure of ['timeout', 'connection', 'http', 'invalid', 'unresponsive'] as const) {
  t.test(`suspends after the third ${failure} in a row`, async (t) => {
    const b = board();
    t.same([fail(b, failure, 1), fail(b, failure, 1)], [0, 0]);
    b.succeed(0, acquire(b, 1), 'me', 0);
    t.same([fail(b, failure, 1), fail(b, failure, 1), fail(b, failure, 1)], [0, 0, 5000]);
    t.equal(fail(b, failure, 6000), 10_000);
  });
}

t.test('a rejected query is not the engine’s fault', async (t) => {
  const b = board();
  for (let i = 0; i < 10; i++) t.equal(fail(b, 'rejected', 1), 0);
  t.equal(b.acquire(0, 1, 'me'), 0n);
});

t.test('obeys Retry-After up to a day, and ignores values that are none', async (t) => {
  t.equal(fail(board(), 'http', 1, 2000), 2000, 'a first failure alone does not suspend');
  t.equal(fail(board(), 'rate limited', 1, 45_000), 45_000);
  t.equal(fail(board(), 'rate limited', 1, 1), 10_000);
  t.equal(fail(board(), 'rate limited', 1, 1e300), DAY_MS);
  t.equal(fail(board(), 'rate limited', 1, NaN), 10_000);
  t.equal(fail(board(), 'rate limited', 1, -5), 10_000);
});

t.test('allows one trial at a time after a suspension', async (t) => {
  const b = board();
  fail(b, 'rate limited', 1000);
  t.equal(b.acquire(0, 10_999, 'me'), undefined);
  const trial = acquire(b, 11_000);
  t.not(trial, 0n);
  t.equal(b.acquire(0, 11_000, 'me'), undefined);
  t.equal(b.acquire(0, 20_000, 'me'), undefined);
  b.succeed(0, trial, 'me', 0);
  t.same([b.acquire(0, 20_000, 'me'), b.acquire(0, 20_000, 'me')], [0n, 0n]);
  t.equal(fail(b, 'rate limited', 20_000), 10_000, 'forgotten: the first suspension again');
});

t.test('a trial that proves nothing is granted again', async (t) => {
  const b = board();
  fail(b, 'rate limited', 1000);
  b.release(0, acquire(b, 11_000));
  const next = acquire(b, 11_001);
  t.equal(b.fail(0, next, 'rejected', 11_001, another()), 0);
  t.ok(b.acquire(0, 11_002, 'me'));
});

t.test('a trial that fails suspends again, however few failures there were', async (t) => {
  const b = board();
  fail(b, 'rate limited', 1000);
  t.equal(fail(b, 'timeout', 11_000), 10_000);
});

t.test('a trial without an outcome is granted again, and its late outcome has no effect', async (t) => {
  const b = board();
  fail(b, 'rate limited', 1000);
  const lost = acquire(b, 11_000);
  t.equal(b.acquire(0, 40_999, 'me'), undefined);
  const second = acquire(b, 41_000);
  b.release(0, lost);
  b.succeed(0, lost, 'me', 0);
  t.equal(b.acquire(0, 41_001, 'me'), undefined, 'the second trial goes on');
  b.succeed(0, second, 'me', 0);
  t.equal(b.acquire(0, 41_001, 'me'), 0n);
});

t.test('searches that were under way neither end nor lengthen a suspension, nor free its trial', async (t) => {
  const b = board();
  const early = Array.from({ length: 20 }, () => acquire(b, 1000)) as [Permit, Permit, Permit, Permit];
  t.same(
    early.map((permit) => b.fail(0, permit, 'rate limited', 1000, another())),
    Array.from({ length: 20 }, () => 10_000),
  );
  t.equal(b.suspendedUntilMs(0), 11_000);
  b.succeed(0, early[0], 'me', 0);
  t.equal(b.suspendedUntilMs(0), 11_000);
  const trial = acquire(b, 11_000);
  b.release(0, early[1]);
  b.succeed(0, early[2], 'me', 0);
  t.equal(b.acquire(0, 11_000, 'me'), undefined);
  t.equal(b.fail(0, trial, 'rate limited', 11_000, another()), 20_000);
});

t.test('a milder failure never shortens a suspension; a worse one lengthens it', async (t) => {
  const b = board();
  const early = [acquire(b, 0), acquire(b, 0), acquire(b, 0)] as const;
  b.fail(0, early[0], 'http', 1000, another(), 180_000);
  b.fail(0, early[1], 'rate limited', 1000, another());
  t.equal(b.suspendedUntilMs(0), 181_000);
  b.fail(0, early[2], 'quota', 1000, another());
  t.equal(b.suspendedUntilMs(0), 3_601_000);
});

t.test('new settings end a suspension', async (t) => {
  const b = board();
  fail(b, 'rate limited', 1000);
  acquire(b, 181_000);
  b.reset(0);
  t.equal(b.acquire(0, 181_000, 'me'), 0n);
  t.equal(fail(b, 'rate limited', 181_000), 10_000);
});

t.test('two boards on one memory share their state', async (t) => {
  const memory = createEngineMemory(2);
  const [one, two] = [new EngineBoard(memory), new EngineBoard(memory)];
  one.fail(1, acquire(one, 1), 'rate limited', 1000, another());
  t.equal(two.acquire(1, 1001, 'me'), undefined);
  t.equal(two.acquire(0, 1001, 'me'), 0n);
  t.ok(two.acquire(1, 181_000, 'me'));
  t.equal(one.acquire(1, 181_000, 'me'), undefined);
});

t.test('one query that fails again and again suspends nothing', async (t) => {
  const b = board();
  for (let i = 0; i < 50; i++) t.equal(b.fail(0, 0n, 'timeout', i, { account: 'one', query: 'slow' }), 0);
  for (let i = 0; i < 50; i++) t.equal(b.fail(0, 0n, 'challenge', i, { account: 'one', query: 'slow' }), 0);
  t.equal(b.acquire(0, 100, 'one'), 0n);
});

t.test('queries of one account suspend the engine for it alone', async (t) => {
  const b = board();
  const failed = (account: string, query: string, nowMs: number): number =>
    b.fail(0, b.acquire(0, nowMs, account) ?? 0n, 'timeout', nowMs, { account, query });
  t.same([failed('one', 'a', 1), failed('one', 'b', 1), failed('one', 'c', 1)], [0, 0, 5000]);
  t.equal(b.acquire(0, 5000, 'one'), undefined);
  t.same([b.acquire(0, 5000, 'two'), b.acquire(0, 6000, 'two')], [0n, 0n], 'without a trial');
  const trial = b.acquire(0, 5001, 'one') ?? 0n;
  t.not(trial, 0n);
  t.equal(b.fail(0, trial, 'timeout', 6000, { account: 'one', query: 'd' }), 10_000);
  t.same([b.acquire(0, 6001, 'one'), b.acquire(0, 6001, 'two')], [undefined, 0n]);
});

t.test('the failure of a second account suspends the engine for all', async (t) => {
  const b = board();
  for (const query of ['a', 'b', 'c']) b.fail(0, 0n, 'http', 1, { account: 'one', query });
  t.equal(b.fail(0, 0n, 'http', 1000, { account: 'two', query: 'd' }), 10_000);
  t.same(
    [b.acquire(0, 1001, 'one'), b.acquire(0, 1001, 'two'), b.acquire(0, 1001, 'three')],
    [undefined, undefined, undefined],
  );
  const mixed = board();
  t.same(
    [...'aabbc'].map((query, i) => mixed.fail(0, 0n, 'http', 1, { account: `account ${i % 2}`, query })),
    [0, 0, 0, 0, 5000],
  );
  t.equal(mixed.acquire(0, 2, 'three'), undefined);
});

t.test('an answer to another account ends the suspension of one; its own late answers do not', async (t) => {
  const b = board();
  for (const query of ['a', 'b', 'c']) b.fail(0, 0n, 'timeout', 1, { account: 'one', query });
  b.succeed(0, 0n, 'one', 0);
  t.equal(b.acquire(0, 2, 'one'), undefined);
  b.succeed(0, 0n, 'two', 0);
  t.equal(b.acquire(0, 2, 'one'), 0n);
  t.equal(b.fail(0, 0n, 'timeout', 3, { account: 'one', query: 'd' }), 0, 'the row is forgotten');
});

t.test('what the engine itself asks for holds for all accounts', async (t) => {
  for (const [failure, retryAfterMs] of [['quota'], ['rate limited'], ['http', 30_000]] as const) {
    const b = board();
    b.fail(0, 0n, failure, 1, { account: 'one', query: 'a' }, retryAfterMs);
    t.equal(b.acquire(0, 2, 'two'), undefined, failure);
  }
});

t.test('a suspension of all is not narrowed to one account by searches that were under way', async (t) => {
  const b = board();
  b.fail(0, 0n, 'quota', 1, { account: 'one', query: 'a' });
  for (const query of ['b', 'c', 'd']) b.fail(0, 0n, 'denied', 2, { account: 'two', query });
  t.equal(b.acquire(0, 3, 'three'), undefined);
});

t.test('says how many requests its limits allow, and when the next', async () => {
  fc.assert(
    fc.property(
      fc.array(limit, { minLength: 1, maxLength: 3 }),
      fc.nat(20),
      fc.nat(5000),
      (limits, before, withinMs) => {
        const b = board();
        for (let i = 0; i < before; i++) b.reserve(0, limits, 0, 1e9);
        const places = b.placesWithin(0, limits, 0, withinMs);
        const dueMs = b.dueInMs(0, limits, 0);
        if (places > 0 !== dueMs <= withinMs) throw new Error('the first place is elsewhere');
        if (places > 200) return;
        for (let i = 0; i < places; i++)
          if (b.reserve(0, limits, 0, withinMs) < 0) throw new Error('a place is missing');
        if (b.reserve(0, limits, 0, withinMs) >= 0 && limits.length === 1) throw new Error('a place more');
      },
    ),
    { numRuns: 300 },
  );
});

t.test('allows half of a limit at once and spreads the rest', async (t) => {
  const b = board();
  const waits = Array.from({ length: 5 }, () => b.reserve(0, [{ requests: 4, perMs: 1000 }], 0, 10_000));
  t.same(waits.slice(0, 2), [0, 0]);
  t.ok(waits.slice(2).every((wait, i) => Math.abs(wait - (i + 1) * (1025 / 3)) < 1));
});

t.test('a request beyond the deadline is refused, and not counted', async (t) => {
  const b = board();
  const limits = [
    { requests: 100, perMs: 1000 },
    { requests: 1, perMs: 60_000 },
  ];
  t.equal(b.reserve(0, limits, 0, 10_000), 0);
  for (let i = 0; i < 1000; i++) t.equal(b.reserve(0, limits, 0, 10_000), -1);
  t.equal(b.reserve(0, limits, 60_025, 0), 0);
  t.equal(b.reserve(1, limits, 0, 10_000), 0, 'another engine has its own');
});

t.test('limits of every size are kept', async (t) => {
  const b = board();
  t.equal(b.reserve(0, [{ requests: 0, perMs: 1000 }], 0, 0), 0);
  t.equal(b.reserve(0, [{ requests: 0, perMs: 1000 }], 500, 0), -1);
  for (let i = 0; i < 100; i++) t.equal(b.reserve(1, [{ requests: 1e9, perMs: 1 }], 0, 0), 0);
  t.equal(b.reserve(2, [], 0, 0), 0);
});

/** Most dates in any window of this length, both ends counted. */
function mostIn(datesMs: readonly number[], perMs: number): number {
  const dates = [...datesMs].sort((a, b) => a - b);
  let most = 0;
  for (let first = 0, last = 0; last < dates.length; last++) {
    while ((dates[last] as number) - (dates[first] as number) > perMs) first++;
    most = Math.max(most, last - first + 1);
  }
  return most;
}

t.test('no window of any limit ever holds more than its requests', async () => {
  fc.assert(
    fc.property(
      fc.array(limit, { minLength: 1, maxLength: 4 }),
      fc.array(fc.tuple(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 3000 })), fc.nat(10_000)), {
        minLength: 1,
        maxLength: 120,
        size: 'max',
      }),
      (limits, steps) => {
        const memory = createEngineMemory(1);
        const boards = [new EngineBoard(memory), new EngineBoard(memory)] as const;
        const dates: number[] = [];
        let nowMs = 0;
        for (const [index, [stepMs, withinMs]] of steps.entries()) {
          nowMs += stepMs;
          const wait = boards[(index % 2) as 0 | 1].reserve(0, limits, nowMs, withinMs);
          if (wait > withinMs) throw new Error('a place after the deadline');
          if (wait >= 0) dates.push(nowMs + wait);
        }
        for (const { requests, perMs } of limits) if (mostIn(dates, perMs) > requests) throw new Error('overfull');
      },
    ),
    { numRuns: 500 },
  );
});

t.test('requests at the limit pass at nearly the limit', async (t) => {
  for (const requests of [1, 2, 3, 10, 100]) {
    const b = board();
    let sent = 0;
    for (let nowMs = 0; nowMs < 100_000; nowMs += 5)
      if (b.reserve(0, [{ requests, perMs: 1000 }], nowMs, 0) === 0) sent++;
    t.ok(sent >= 0.5 * requests * 100, `${sent} of ${requests * 100}`);
    t.ok(sent <= requests * 100);
  }
});

t.test('threads that reserve at the same moment do not overfill a window', async (t) => {
  const limits = [
    { requests: 50, perMs: 1000 },
    { requests: 70, perMs: 3000 },
    { requests: 9, perMs: 100 },
  ];
  const memory = createEngineMemory(1);
  const start = new Int32Array(new SharedArrayBuffer(4));
  const source = `
    import { parentPort, workerData } from 'node:worker_threads';
    const { EngineBoard } = await import(workerData.module);
    const board = new EngineBoard(workerData.memory);
    parentPort.postMessage('ready');
    Atomics.wait(workerData.start, 0, 0);
    const dates = [];
    for (let i = 0; i < 20000; i++) {
      const nowMs = Math.floor(i / 4);
      const wait = board.reserve(0, workerData.limits, nowMs, 500);
      if (wait >= 0) dates.push(nowMs + wait);
    }
    parentPort.postMessage(dates);`;
  const module = new URL('../../src/search/engine-board.js', import.meta.url).href;
  const url = new URL(`data:text/javascript,${encodeURIComponent(source)}`);
  const workers = [0, 1].map(() => new Worker(url, { workerData: { module, memory, start, limits } }));
  const next = (worker: Worker): Promise<unknown> =>
    new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
  await Promise.all(workers.map(next));
  const results = workers.map(next);
  Atomics.store(start, 0, 1);
  Atomics.notify(start, 0);
  const dates = (await Promise.all(results)).flat() as number[];
  t.ok(dates.length > 20);
  for (const { requests, perMs } of limits) t.ok(mostIn(dates, perMs) <= requests, `${requests} per ${perMs} ms`);
});

t.test('of two threads one gets the trial', async (t) => {
  const memory = createEngineMemory(1);
  const boards = [new EngineBoard(memory), new EngineBoard(memory)];
  boards[0]?.fail(0, 0n, 'quota', 0, another());
  t.equal(boards.filter((b) => b.acquire(0, 3_700_000, 'me') !== undefined).length, 1);
});
