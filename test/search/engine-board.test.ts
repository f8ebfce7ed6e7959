// The engine board: suspensions of growing length, the single trial after one, and rate limits that hold for any order of
// requests, several limits and several threads.
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import t from 'tap';
import type { RateLimit } from '../../src/search/engine.ts';
import { createEngineMemory, EngineBoard, type CallFailure, type Permit } from '../../src/search/engine-board.ts';

const DAY_MS = 86_400_000;

function board(): EngineBoard {
  return new EngineBoard(createEngineMemory(3));
}

function acquire(b: EngineBoard, nowMs: number): Permit {
  const permit = b.acquire(0, nowMs);
  if (permit === undefined) throw new Error('no permit');
  return permit;
}

/** Fails as an ordinary search would, which entered before. */
function fail(b: EngineBoard, failure: CallFailure, nowMs: number, retryAfterMs?: number): number {
  return b.fail(0, acquire(b, nowMs), failure, nowMs, retryAfterMs);
}

t.test('gives permits without limit while the engine works', async (t) => {
  const b = board();
  t.same([b.acquire(0, 1), b.acquire(0, 1), b.acquire(2, 1)], [0n, 0n, 0n]);
  t.equal(b.suspendedUntilMs(0), 0);
});

for (const [failure, firstMs, mostMs] of [
  ['denied', 180_000, 3_600_000],
  ['challenge', 3_600_000, DAY_MS],
  ['quota', 3_600_000, 21_600_000],
  ['rate limited', 10_000, 600_000],
] as const) {
  t.test(`suspends at once after ${failure}, twice as long each time, up to a limit`, async (t) => {
    const b = board();
    let nowMs = 1000;
    for (let lengthMs = firstMs; lengthMs < 3 * mostMs; lengthMs *= 2) {
      t.equal(fail(b, failure, nowMs), Math.min(lengthMs, mostMs));
      nowMs += Math.min(lengthMs, mostMs);
      t.equal(b.acquire(0, nowMs - 1), undefined);
    }
  });
}

for (const failure of ['timeout', 'connection', 'http', 'invalid'] as const) {
  t.test(`suspends after the third ${failure} in a row`, async (t) => {
    const b = board();
    t.same([fail(b, failure, 1), fail(b, failure, 1)], [0, 0]);
    b.succeed(0, acquire(b, 1));
    t.same([fail(b, failure, 1), fail(b, failure, 1), fail(b, failure, 1)], [0, 0, 5000]);
    t.equal(fail(b, failure, 6000), 10_000);
  });
}

t.test('a rejected query is not the engine’s fault', async (t) => {
  const b = board();
  for (let i = 0; i < 10; i++) t.equal(fail(b, 'rejected', 1), 0);
  t.equal(b.acquire(0, 1), 0n);
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
  t.equal(b.acquire(0, 10_999), undefined);
  const trial = acquire(b, 11_000);
  t.not(trial, 0n);
  t.equal(b.acquire(0, 11_000), undefined);
  t.equal(b.acquire(0, 20_000), undefined);
  b.succeed(0, trial);
  t.same([b.acquire(0, 20_000), b.acquire(0, 20_000)], [0n, 0n]);
  t.equal(fail(b, 'rate limited', 20_000), 10_000, 'forgotten: the first suspension again');
});

t.test('a trial that proves nothing is granted again', async (t) => {
  const b = board();
  fail(b, 'rate limited', 1000);
  b.release(0, acquire(b, 11_000));
  const next = acquire(b, 11_001);
  t.equal(b.fail(0, next, 'rejected', 11_001), 0);
  t.ok(b.acquire(0, 11_002));
});

t.test('a trial that fails suspends again, however few failures there were', async (t) => {
  const b = board();
  fail(b, 'denied', 1000);
  t.equal(fail(b, 'timeout', 181_000), 10_000);
});

t.test('a trial without an outcome is granted again, and its late outcome has no effect', async (t) => {
  const b = board();
  fail(b, 'rate limited', 1000);
  const lost = acquire(b, 11_000);
  t.equal(b.acquire(0, 40_999), undefined);
  const second = acquire(b, 41_000);
  b.release(0, lost);
  b.succeed(0, lost);
  t.equal(b.acquire(0, 41_001), undefined, 'the second trial goes on');
  b.succeed(0, second);
  t.equal(b.acquire(0, 41_001), 0n);
});

t.test('searches that were under way neither end nor lengthen a suspension, nor free its trial', async (t) => {
  const b = board();
  const early = Array.from({ length: 20 }, () => acquire(b, 1000)) as [Permit, Permit, Permit, Permit];
  t.same(
    early.map((permit) => b.fail(0, permit, 'rate limited', 1000)),
    Array.from({ length: 20 }, () => 10_000),
  );
  t.equal(b.suspendedUntilMs(0), 11_000);
  b.succeed(0, early[0]);
  t.equal(b.suspendedUntilMs(0), 11_000);
  const trial = acquire(b, 11_000);
  b.release(0, early[1]);
  b.succeed(0, early[2]);
  t.equal(b.acquire(0, 11_000), undefined);
  t.equal(b.fail(0, trial, 'rate limited', 11_000), 20_000);
});

t.test('a milder failure never shortens a suspension; a worse one lengthens it', async (t) => {
  const b = board();
  const early = [acquire(b, 0), acquire(b, 0), acquire(b, 0)] as const;
  b.fail(0, early[0], 'denied', 1000);
  b.fail(0, early[1], 'rate limited', 1000);
  t.equal(b.suspendedUntilMs(0), 181_000);
  b.fail(0, early[2], 'challenge', 1000);
  t.equal(b.suspendedUntilMs(0), 3_601_000);
});

t.test('new settings end a suspension', async (t) => {
  const b = board();
  fail(b, 'denied', 1000);
  acquire(b, 181_000);
  b.reset(0);
  t.equal(b.acquire(0, 181_000), 0n);
  t.equal(fail(b, 'denied', 181_000), 180_000);
});

t.test('two boards on one memory share their state', async (t) => {
  const memory = createEngineMemory(2);
  const [one, two] = [new EngineBoard(memory), new EngineBoard(memory)];
  one.fail(1, acquire(one, 1), 'denied', 1000);
  t.equal(two.acquire(1, 1001), undefined);
  t.equal(two.acquire(0, 1001), 0n);
  t.ok(two.acquire(1, 181_000));
  t.equal(one.acquire(1, 181_000), undefined);
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

const limit: fc.Arbitrary<RateLimit> = fc.record({
  requests: fc.integer({ min: 1, max: 40 }),
  perMs: fc.integer({ min: 1, max: 20_000 }),
});

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
  boards[0]?.fail(0, 0n, 'denied', 0);
  t.equal(boards.filter((b) => b.acquire(0, 200_000) !== undefined).length, 1);
});
