import { Series } from '../../src/load/time-series.ts';
import { sampleFor } from './samples.ts';

import t from 'tap';

t.test('counts a request in the second in which it ended', (t) => {
  const series = new Series();
  series.add(sampleFor({ intendedMs: 500, e2eMs: 100, ttftMs: 20, outputTokens: 3 }));
  series.add(sampleFor({ intendedMs: 500, e2eMs: 2600, ttftMs: 40, outputTokens: 4 }));
  series.add(sampleFor({ intendedMs: 3000, outcome: 'reset' }));
  t.match(series.stretches, [
    { fromMs: 0, ok: 1, errors: 0, outputTokens: 3, ttftMs: 20, e2eMs: 100 },
    { fromMs: 1000, ok: 0 },
    { fromMs: 2000, ok: 0 },
    { fromMs: 3000, ok: 1, errors: 1, outputTokens: 4 },
  ]);
  t.end();
});

t.test('an answer without text does not shorten the mean time to the first text', (t) => {
  const series = new Series();
  for (let second = 0; second < 40; second++) {
    const isSilent = second % 8 < 3;
    series.add(sampleFor({ intendedMs: second * 1000, ttftMs: 20 }));
    if (isSilent) series.add(sampleFor({ intendedMs: second * 1000, ttftMs: NaN }));
  }
  t.match(series.stretches[0], { ok: 2, texts: 1, ttftMs: 20 });
  t.equal(series.confidence(0, 40_000)?.ttftMeanMs, 0);
  t.end();
});

t.test('stays as small however long the run is, and loses nothing', (t) => {
  const series = new Series();
  for (let second = 0; second < 10_000; second++) series.add(sampleFor({ intendedMs: second * 1000 }));
  t.ok(series.stretches.length <= 600);
  t.equal(series.widthMs, 32_000);
  t.equal(
    series.stretches.reduce((sum, { ok }) => sum + ok, 0),
    10_000,
  );
  t.equal(series.stretches[1]?.fromMs, 32_000);
  t.end();
});

t.test('gives intervals for a run that is long enough: narrow for a steady one, wide for an unsteady one', (t) => {
  const filled = (perSecond: (second: number) => number): Series => {
    const series = new Series();
    for (let second = 0; second < 40; second++) {
      for (let at = 0; at < perSecond(second); at++)
        series.add(sampleFor({ intendedMs: second * 1000, e2eMs: 50, ttftMs: 10 }));
    }
    return series;
  };
  t.match(filled(() => 10).confidence(0, 40_000), { requestsPerSecond: 0, ttftMeanMs: 0, e2eMeanMs: 0 });
  // Ten batches of 10, 20, 10, 20 …: a deviation of 5.27 around the mean.
  const wide = filled((second) => (Math.floor(second / 4) % 2 === 0 ? 10 : 20)).confidence(0, 40_000)!;
  t.ok(Math.abs(wide.requestsPerSecond - (2.262 * 5.2705) / Math.sqrt(10)) < 0.01, `${wide.requestsPerSecond}`);
  t.equal(filled(() => 10).confidence(0, 15_000), undefined, 'too short');
  t.equal(filled((second) => (second < 4 ? 0 : 1)).confidence(0, 40_000), undefined, 'a batch without an answer');
  t.end();
});
