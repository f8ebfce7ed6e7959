import { AddedLatency } from '../../src/load/added-latency.ts';
import type { LoadResponse } from '../../src/load/load-client.ts';
import { answerFor } from './samples.ts';

import t from 'tap';

const EPOCH_MS = 1_800_000_000_000;

/** An answer whose engine had it for 30 ms before the first token; ways of 2 and 3 ms, tokens 10 ms apart. */
function answer(delaysMs: readonly number[], clockMs = 0, speed = 1): LoadResponse {
  const arrivedMs = EPOCH_MS + 2;
  const us = (ms: number): number => Math.round((ms + clockMs) * 1000 * speed);
  const handed = delaysMs.map((_, at) => arrivedMs + 30 + 10 * at);
  return answerFor({
    sentMs: EPOCH_MS,
    textMs: handed.map((atMs, at) => atMs + 3 + delaysMs[at]!),
    serverTimings: JSON.stringify({ arrivedUs: us(arrivedMs), startedUs: us(arrivedMs + 4), handedUs: handed.map(us) }),
  });
}

function near(t: Tap, found: number | undefined, wanted: number, what: string): void {
  t.ok(
    found !== undefined && Math.abs(found - wanted) < 0.01 + Math.abs(wanted) * 0.008,
    `${what}: ${found}, not ${wanted}`,
  );
}
type Tap = { ok(value: unknown, message: string): unknown };

for (const [name, clockMs, speed] of [
  ['one clock', 0, 1],
  ['an engine whose clock is an hour ahead', 3_600_000 / 4, 1],
  ['an engine that runs ten times as fast', 0, 10],
] as const) {
  t.test(`reports the added latency, with ${name}`, (t) => {
    const tally = new AddedLatency();
    tally.add(answer([0, 0, 6, 0], clockMs, speed));
    const report = tally.report()!;
    t.match(report, { requests: 1, unmatched: 0, clock: { sped: speed } });
    near(t, report.engineQueue.max, 4, 'queue');
    near(t, report.engineTtft.max, 30, 'first token');
    near(t, report.addedTtft.max, 5, 'added to the first text');
    near(t, report.addedGap.max, 6, 'the longest added gap');
    near(t, report.addedGap.min, -6, 'and the one after it');
    near(t, report.tokenDelay.max, 6, 'the slowest token');
    near(t, report.requestWay.mean, 2 + clockMs, 'there');
    near(t, report.answerWay.mean, 3 - clockMs, 'back');
    near(t, report.clock.mostMs, 2 + clockMs, 'at most ahead');
    near(t, report.clock.leastMs, clockMs - 3, 'at least ahead');
    t.end();
  });
}

t.test('the token that ends an answer needs no event; other differences cannot be matched', (t) => {
  const tally = new AddedLatency();
  const four = answer([0, 0, 0, 0]);
  tally.add({ ...four, textMs: four.textMs.slice(0, 3) });
  t.match(tally.report(), { requests: 1, unmatched: 0, addedGap: { count: 2 } });
  tally.add({ ...four, textMs: four.textMs.slice(0, 2) });
  t.match(tally.report(), { requests: 2, unmatched: 1, addedGap: { count: 2 }, addedTtft: { count: 2 } });
  t.end();
});

t.test('answers without timings, or with one that is none, are left out', (t) => {
  const tally = new AddedLatency();
  for (const truth of [
    undefined,
    'x',
    '{}',
    'null',
    '3',
    '{"arrivedUs":1,"startedUs":2,"handedUs":"x"}',
    '{"arrivedUs":1,"startedUs":2,"handedUs":[]}',
  ]) {
    tally.add(answerFor({ serverTimings: truth }));
  }
  t.equal(tally.report(), undefined);
  t.end();
});
