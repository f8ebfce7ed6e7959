// What two documents say about the time between them.

import t from 'tap';
import type { Overview } from '../../src/admin/overview.ts';
import { durationText, growth, numberText, quantileMs, ratesBetween, sumOf, timeText } from '../../src/admin/rates.ts';

const BOUNDS_S = [0.1, 0.2, 0.4];

function overview(
  dateMs: number,
  models: Partial<Overview['models'][number]>[],
  more: Partial<Overview> = {},
): Overview {
  const empty = {
    ...{ model: '', requests: 0, errors: 0, failovers: 0, waiting: 0, duration: [], firstByte: [] },
    ...{ tokens: { input: 0, cached: 0, output: 0 }, costUsd: 0, promptBytes: 0, predictedBytes: 0 },
  };
  return {
    dateMs,
    uptimeMs: dateMs,
    version: '0',
    stage: 'ready',
    orders: false,
    reloadable: false,
    boundsS: BOUNDS_S,
    streams: 0,
    threads: [],
    crns: [],
    models: models.map((model) => ({ ...empty, ...model })),
    engines: [],
    fetch: { threads: 0, running: 0, queued: 0, replaced: 0, pages: 0 },
    responses: { stored: 0, notStored: 0, waitingBytes: 0, background: 0 },
    ledger: null,
    errors: [],
    ...more,
  };
}

t.test('a quantile is interpolated within its bucket', async (t) => {
  t.equal(Math.round(quantileMs(BOUNDS_S, [0, 10, 10, 10], 0.5) ?? 0), 150);
  t.equal(Math.round(quantileMs(BOUNDS_S, [10, 10, 20, 20], 0.75) ?? 0), 300);
  t.equal(quantileMs(BOUNDS_S, [0, 0, 0, 4], 0.5), 400, 'beyond the last bound: at least that');
  t.equal(quantileMs(BOUNDS_S, [0, 0, 0, 0], 0.5), null);
  t.equal(quantileMs([], [], 0.5), null);
});

t.test('rates are those of the time between, in all and by model; a new model counts whole', async (t) => {
  const before = overview(1000, [{ model: 'a', requests: 100, errors: 3, duration: [100, 100, 100, 100] }]);
  const after = overview(3000, [
    { model: 'a', requests: 120, errors: 4, duration: [100, 120, 120, 120], firstByte: [8, 8, 8, 8] },
    { model: 'b', requests: 2, duration: [0, 0, 2, 2] },
  ]);
  const rates = ratesBetween(before, after);
  t.equal(rates.seconds, 2);
  t.match(rates.total, { requestsPerS: 11, errorsPerS: 0.5, firstByteP50Ms: 50 });
  t.match(rates.models[0], { model: 'a', requestsPerS: 10 });
  t.match(rates.models[1], { model: 'b', requestsPerS: 1, firstByteP50Ms: null });
  t.same(
    rates.models.map(({ p50Ms, p99Ms }) => [Math.round(p50Ms ?? 0), Math.round(p99Ms ?? 0)]),
    [
      [150, 199],
      [300, 398],
    ],
  );
});

t.test('counts of a thread from before its restart do not count twice', async (t) => {
  t.same(growth([5, 9], [6, 11]), [1, 2]);
  t.same(growth([5, 9], [1, 2]), [1, 2]);
  t.same(growth(undefined, [1, 2]), [1, 2]);
  t.same(sumOf([[1, 2], [], [3, 4, 5]]), [4, 6, 5]);
});

t.test('CRNs have attempts a second, threads the share of time in which they were busy', async (t) => {
  const crn = {
    url: 'http://x',
    inFlight: 0,
    attempts: 4,
    failures: 0,
    failovers: 0,
    ejectedUntilMs: null,
    kvEvents: null,
    lastProbe: null,
    lastFailure: null,
    predictedHit: null,
    reportedHit: null,
    backlogBytes: 0,
    lacks: [],
    models: [],
  };
  const thread = { thread: 1, inFlight: 0, delayMs: [0, 0, 0], busyMs: 500, heapBytes: 0 } as const;
  const before = overview(0, [], { crns: [crn], threads: [thread] });
  const newcomer = { ...crn, url: 'http://y', attempts: 2 };
  const after = overview(2000, [], {
    crns: [{ ...crn, attempts: 10 }, newcomer],
    threads: [{ ...thread, busyMs: 1000 }],
  });
  const { crns, busy } = ratesBetween(before, after);
  t.same(crns, { 'http://x': 3, 'http://y': 1 });
  t.same(busy, [0.25]);
});

t.test('numbers are short', async (t) => {
  t.same([0, 3, 3.14159, 12.7, 12_345.6].map(numberText), ['0', '3', '3.1', '13', '12,346']);
  t.same([null, 0.25, 999, 1500].map(timeText), ['–', '0.3 ms', '999 ms', '1.5 s']);
  t.same([-5, 90_000, 600_000, 7_200_000, 259_200_000].map(durationText), ['0 s', '90 s', '10 min', '2 h', '3 days']);
});
