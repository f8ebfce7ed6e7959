// What is shown of ingress threads that do not answer or have ended: their counts, so that no sum ever falls.

import t from 'tap';
import { ThreadWatch } from '../../src/gateway/thread-watch.ts';
import { summed } from '../../src/telemetry/exposition.ts';
import type { MetricsSnapshot } from '../../src/telemetry/metrics.ts';
import { Counters, Histograms } from '../../src/telemetry/series.ts';
import { valuesOf } from '../support/metric-values.ts';

const BOUNDS = { from: -10, to: 9, perDoubling: 8 } as const;

/** A thread that has counted so much. */
function reading(requests: number): MetricsSnapshot {
  const counter = new Counters('requests_total', '', ['model']);
  const gauge = new Counters('in_flight', '', [], 'gauge');
  const histogram = new Histograms('seconds', '', ['model'], BOUNDS);
  counter.at('m').value = requests;
  gauge.at().value = 1;
  for (let each = 0; each < requests; each++) histogram.at('m').observe(0.5);
  return [counter.json(), gauge.json(), histogram.json()];
}

function figures(metrics: MetricsSnapshot): Record<'requests' | 'inFlight' | 'observed', number | undefined> {
  const sums = summed([metrics]);
  const valueOf = (name: string): number | undefined => valuesOf(sums, name)[0]?.value;
  return { requests: valueOf('requests_total'), inFlight: valueOf('in_flight'), observed: valueOf('seconds') };
}

t.test('a thread that does not answer keeps its counts and has no gauges', async (t) => {
  const watch = new ThreadWatch();
  t.same(figures(await watch.read(1, async () => null)), {
    requests: undefined,
    inFlight: undefined,
    observed: undefined,
  });
  t.same(figures(await watch.read(1, async () => reading(3))), { requests: 3, inFlight: 1, observed: 3 });
  t.same(figures(await watch.read(1, async () => null)), { requests: 3, inFlight: undefined, observed: 3 });
});

t.test('a thread that is known not to answer is not asked', async (t) => {
  const watch = new ThreadWatch();
  await watch.read(1, async () => reading(3));
  watch.note(1, 5000);
  t.equal(watch.isSilent(1), true);
  t.equal(figures(await watch.read(1, () => t.fail('asked') as never)).requests, 3);
  t.same(valuesOf(watch.metrics(2, 9000), 'headrace_thread_unresponsive_seconds'), [
    { labels: { thread: '1' }, value: 4 },
    { labels: { thread: '2' }, value: 0 },
  ]);
  watch.note(1, null);
  t.equal(figures(await watch.read(1, async () => reading(4))).requests, 4);
});

t.test('the counts of threads that have ended stay beside those of their successors', async (t) => {
  const watch = new ThreadWatch();
  for (const [round, before] of [0, 3, 6].entries()) {
    t.equal(figures(watch.metrics(1, 0)).requests, round === 0 ? undefined : before);
    await watch.read(1, async () => reading(3));
    watch.note(1, 0);
    watch.ended(1);
    t.equal(watch.isSilent(1), false);
    t.same(await watch.read(1, async () => null), []);
    t.same(figures(watch.metrics(1, 0)), { requests: before + 3, inFlight: undefined, observed: before + 3 });
  }
});
