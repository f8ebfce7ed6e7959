import { createSeededRandom } from '../../src/actor/testkit.ts';
import { timetable, userStartMs } from '../../src/load/arrivals.ts';

import t from 'tap';

function times(count: number, dueOf: (recordedMs: number | undefined) => number): number[] {
  return Array.from({ length: count }, () => dueOf(undefined));
}

t.test('constant arrivals are evenly apart', (t) => {
  const dueOf = timetable({ kind: 'constant', perSecond: 50, rampMs: 0 }, () => 0.5);
  t.strictSame(times(4, dueOf), [0, 20, 40, 60]);
  t.end();
});

t.test('Poisson arrivals have the rate, and gaps whose deviation is their mean', (t) => {
  const due = times(20_001, timetable({ kind: 'poisson', perSecond: 100, rampMs: 0 }, createSeededRandom(7)));
  const gaps = due.slice(1).map((atMs, at) => atMs - due[at]!);
  const mean = gaps.reduce((sum, gap) => sum + gap) / gaps.length;
  const deviation = Math.sqrt(gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length);
  t.ok(Math.abs(mean - 10) < 0.2, `mean gap ${mean}`);
  t.ok(Math.abs(deviation / mean - 1) < 0.03, `deviation ${deviation}`);
  // Counts by second: variance and mean of a Poisson distribution are equal.
  const counts = new Array<number>(190).fill(0);
  for (const atMs of due) if (atMs < 190_000) counts[Math.floor(atMs / 1000)]!++;
  const average = counts.reduce((sum, count) => sum + count) / counts.length;
  const variance = counts.reduce((sum, count) => sum + (count - average) ** 2, 0) / counts.length;
  t.ok(variance / average > 0.7 && variance / average < 1.4, `variance ${variance} mean ${average}`);
  t.end();
});

t.test('the same seed gives the same arrivals, another one others', (t) => {
  const drawn = (seed: number): number[] =>
    times(10, timetable({ kind: 'poisson', perSecond: 5, rampMs: 0 }, createSeededRandom(seed)));
  t.strictSame(drawn(1), drawn(1));
  t.notSame(drawn(1), drawn(2));
  t.end();
});

t.test('a ramp raises the rate evenly and brings half of what would have come', (t) => {
  const due = times(
    200,
    timetable({ kind: 'constant', perSecond: 20, rampMs: 10_000 }, () => 0.5),
  );
  t.equal(due.filter((atMs) => atMs < 10_000).length, 100);
  t.equal(due.filter((atMs) => atMs < 5000).length, 25);
  t.ok(Math.abs(due[150]! - due[149]! - 50) < 1e-6);
  t.end();
});

t.test('a trace keeps its times, faster when wanted', (t) => {
  const dueOf = timetable({ kind: 'trace', speed: 4 }, () => 0);
  t.strictSame([0, 100, 1000].map(dueOf), [0, 25, 250]);
  t.end();
});

t.test('users of a closed loop begin one after the other in the ramp', (t) => {
  const starts = [0, 1, 2, 3].map((user) => userStartMs({ kind: 'closed', users: 4, rampMs: 1000 }, user));
  t.strictSame(starts, [0, 250, 500, 750]);
  t.end();
});
