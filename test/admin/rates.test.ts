// What two documents say about the time between them.

import t from 'tap';
import type { Overview } from '../../src/admin/overview.ts';
import { durationText, growth, numberText, ratesBetween, timeText } from '../../src/admin/rates.ts';
import { NO_FIGURES } from '../support/metric-values.ts';

function overview(dateMs: number, more: Partial<Overview>): Overview {
  return {
    dateMs,
    uptimeMs: dateMs,
    version: '0',
    stage: 'ready',
    orders: false,
    reloadable: false,
    publicUrl: 'http://127.0.0.1:8080',
    recent: NO_FIGURES,
    streams: 0,
    threads: [],
    crns: [],
    models: [],
    engines: [],
    fetch: { threads: 0, running: 0, queued: 0, replaced: 0, pages: 0 },
    tools: [],
    responses: { stored: 0, notStored: 0, waitingBytes: 0, background: 0 },
    cluster: null,
    ledger: null,
    discovery: [],
    errors: [],
    ...more,
  };
}

t.test('counts of a thread from before its restart do not count twice', async (t) => {
  t.equal(growth(5, 6), 1);
  t.equal(growth(5, 1), 1);
  t.equal(growth(undefined, 2), 2);
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
  const before = overview(0, { crns: [crn], threads: [thread] });
  // It was there before, and its attempts were counted then.
  const back = { ...crn, url: 'http://y', attempts: 2000 };
  const after = overview(2000, {
    crns: [{ ...crn, attempts: 10 }, back],
    threads: [{ ...thread, busyMs: 1000 }],
  });
  const { crns, busy } = ratesBetween(before, after);
  t.same(crns, { 'http://x': 3 });
  t.same(busy, [0.25]);
});

t.test('numbers are short', async (t) => {
  t.same([0, 3, 3.14159, 12.7, 12_345.6].map(numberText), ['0', '3', '3.1', '13', '12,346']);
  t.same([null, 0.25, 999, 1500].map(timeText), ['–', '0.3 ms', '999 ms', '1.5 s']);
  t.same([-5, 90_000, 600_000, 7_200_000, 259_200_000].map(durationText), ['0 s', '90 s', '10 min', '2 h', '3 days']);
});
