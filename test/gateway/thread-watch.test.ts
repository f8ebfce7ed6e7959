// What is shown of ingress threads that do not answer or have ended: their counts, so that no sum ever falls.

import t from 'tap';
import type { PlaneReport } from '../../src/admin/index.ts';
import { ThreadWatch } from '../../src/gateway/thread-watch.ts';
import { summed } from '../../src/telemetry/exposition.ts';
import type { MetricsSnapshot } from '../../src/telemetry/metrics.ts';
import { mergedRecent } from '../../src/telemetry/recent.ts';
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

type Answer = MetricsSnapshot | null | Promise<MetricsSnapshot | null>;

/** A reading of one thread at the time 9000. */
async function read(watch: ThreadWatch, ask: () => Answer): Promise<MetricsSnapshot> {
  return (
    await watch.read(
      1,
      async () => ask(),
      () => 9000,
    )
  ).flat();
}

t.test('a thread that does not answer keeps its counts and has no gauges', async (t) => {
  const watch = new ThreadWatch();
  t.same(figures(await read(watch, () => null)), { requests: undefined, inFlight: undefined, observed: undefined });
  t.same(figures(await read(watch, () => reading(3))), { requests: 3, inFlight: 1, observed: 3 });
  t.same(figures(await read(watch, () => null)), { requests: 3, inFlight: undefined, observed: 3 });
});

t.test('a thread that is known not to answer is not asked', async (t) => {
  const watch = new ThreadWatch();
  await read(watch, () => reading(3));
  watch.note(1, 5000);
  t.equal(watch.isSilent(1), true);
  const silent = await read(watch, () => t.fail('asked') as never);
  t.equal(figures(silent).requests, 3);
  t.same(valuesOf(silent, 'headrace_thread_unresponsive_seconds'), [{ labels: { thread: '1' }, value: 4 }]);
  watch.note(1, null);
  const answering = await read(watch, () => reading(4));
  t.equal(figures(answering).requests, 4);
  t.same(valuesOf(answering, 'headrace_thread_unresponsive_seconds'), [{ labels: { thread: '1' }, value: 0 }]);
});

t.test('the counts of threads that have ended stay beside those of their successors', async (t) => {
  const watch = new ThreadWatch();
  for (const before of [0, 3, 6]) {
    t.equal(figures(await read(watch, () => reading(3))).requests, before + 3);
    watch.note(1, 0);
    watch.ended(1);
    t.equal(watch.isSilent(1), false);
    const ended = await read(watch, () => null);
    t.same(figures(ended), { requests: before + 3, inFlight: undefined, observed: before + 3 });
  }
});

t.test('what ended threads have counted of a CRN goes five minutes after it has left', async (t) => {
  const watch = new ThreadWatch();
  const attempts = new Counters('attempts_total', '', ['crn', 'verdict']);
  attempts.at('http://a', 'ok').value = 3;
  attempts.at('http://b', 'ok').value = 4;
  await read(watch, () => [...reading(3), attempts.json()]);
  watch.ended(1);
  const counted = async (): Promise<unknown[]> => {
    const values = valuesOf(await read(watch, () => null), 'attempts_total');
    return values.map(({ labels, value }) => [labels['crn'], value]);
  };
  const both = [
    ['http://a', 3],
    ['http://b', 4],
  ];
  watch.keep({ crns: new Set(['http://a']), models: new Set(['m']) }, 1000);
  watch.keep({ crns: new Set(['http://a']), models: new Set(['m']) }, 300_999);
  t.same(await counted(), both);
  watch.keep({ crns: new Set(['http://a', 'http://b']), models: new Set(['m']) }, 301_000);
  watch.keep({ crns: new Set(['http://a']), models: new Set(['m']) }, 400_000);
  t.same(await counted(), both, 'it was back');
  watch.keep({ crns: new Set(['http://a']), models: new Set(['m']) }, 700_000);
  t.same(await counted(), [['http://a', 3]]);
  t.equal(figures(await read(watch, () => null)).requests, 3);
});

t.test('what ended threads have counted of a model goes five minutes after it has left', async (t) => {
  const watch = new ThreadWatch();
  const retries = new Counters('retries_total', '', ['model']);
  retries.at('').value = 2;
  await read(watch, () => [...reading(3), retries.json()]);
  watch.ended(1);
  const present = { crns: new Set<string>(), models: new Set(['other']) };
  watch.keep(present, 0);
  t.match(figures(await read(watch, () => null)), { requests: 3, observed: 3 });
  watch.keep(present, 300_000);
  t.match(figures(await read(watch, () => null)), { requests: undefined, observed: undefined });
  t.match(valuesOf(await read(watch, () => null), 'retries_total'), [{ value: 2 }], 'of no model');
});

t.test('a thread that ends while threads are read counts once, whether it had answered or not', async (t) => {
  for (const hasAnswered of [true, false]) {
    const watch = new ThreadWatch();
    await read(watch, () => reading(3));
    const other = Promise.withResolvers<MetricsSnapshot>();
    const both = watch.read(
      2,
      (thread) => (thread === 2 ? other.promise : Promise.resolve(hasAnswered ? reading(4) : null)),
      () => 0,
    );
    await new Promise(setImmediate);
    watch.ended(1);
    other.resolve(reading(10));
    const counted = hasAnswered ? 14 : 13;
    t.equal(figures((await both).flat()).requests, counted);
    t.equal(
      figures(
        (
          await watch.read(
            2,
            async () => null,
            () => 0,
          )
        ).flat(),
      ).requests,
      counted,
    );
  }
});

t.test('the late answer of a thread that has ended is not taken for one of its successor', async (t) => {
  const watch = new ThreadWatch();
  await read(watch, () => reading(3));
  const late = Promise.withResolvers<MetricsSnapshot>();
  const asked = read(watch, () => late.promise);
  watch.ended(1);
  late.resolve(reading(4));
  t.equal(figures(await asked).requests, 3);
  t.equal(figures(await read(watch, () => null)).requests, 3);
});

t.test('reports of threads that do not answer or have ended keep their counts and their failures', async (t) => {
  const watch = new ThreadWatch();
  const error = { requestId: 'r', endpoint: '/v1/models', model: '', code: '', status: 500, crn: 'http://a' };
  const failure = { reason: 'reset', model: 'm', requestId: 'r' };
  const report = (dateMs: number): PlaneReport => ({
    thread: 1,
    metrics: reading(3),
    recent: {
      errors: [{ ...error, dateMs }],
      troubles: [{ engine: 'e', reason: `reason ${dateMs}`, dateMs }],
      failovers: [['http://a', 2]],
      crnFailures: [['http://a', { ...failure, dateMs }]],
    },
  });
  const read = async (answer: PlaneReport | null): Promise<unknown> => {
    const { answers, kept } = await watch.reports(1, async () => answer);
    const all = [...answers, ...kept];
    return { ...figures(all.flatMap(({ metrics }) => metrics)), ...mergedRecent(all.map(({ recent }) => recent)) };
  };
  const { recent } = report(7);
  t.same(await read(report(7)), { requests: 3, inFlight: 1, observed: 3, ...recent });
  t.same(await read(null), { requests: 3, inFlight: undefined, observed: 3, ...recent });
  watch.ended(1);
  t.same(await read(null), { requests: 3, inFlight: undefined, observed: 3, ...recent });
  // An older failure is not the last one.
  t.same(await read(report(5)), {
    ...{ requests: 6, inFlight: 1, observed: 6, ...recent },
    errors: [...report(5).recent.errors, ...recent.errors],
    failovers: [['http://a', 4]],
  });
});
