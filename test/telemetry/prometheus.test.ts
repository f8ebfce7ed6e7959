// What Prometheus itself makes of `/metrics`: quantiles from native histograms and from the text, and that promtool has nothing
// to say against the metrics, the alert rules and the queries of the Grafana dashboard.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { createSeededRandom } from '../../src/actor/index.ts';
import { openAdmin } from '../../src/admin/admin.ts';
import { BUCKETS } from '../../src/telemetry/exponential-buckets.ts';
import { metricsText, prefersProtobuf } from '../../src/telemetry/exposition.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import type { FamilyJson, Labels } from '../../src/telemetry/series.ts';
import { declaredMetrics } from '../rules/declared-metrics.ts';
import { promtool, startPrometheus, testFolder } from '../support/prometheus.ts';
import { until } from '../support/system.ts';

const root = new URL('../../../', import.meta.url);

/** A family with one series. */
function withSeries(family: FamilyJson): FamilyJson {
  const labels: Labels = Object.fromEntries(family.labelNames.map((name) => [name, 'word']));
  if (family.type !== 'histogram') return { ...family, values: [{ labels, value: 1.5 }] };
  return { ...family, values: [{ labels, first: 0, counts: new Float64Array(BUCKETS).fill(1), sum: 2.5 }] };
}

t.test('promtool finds nothing wrong with any metric', async (t) => {
  const text = metricsText([declaredMetrics().map(withSeries)]);
  t.match(text, /^headrace_request_duration_seconds_bucket\{le="0\.5",endpoint="word",model="word"\} \d+$/m);
  t.same(promtool(['check', 'metrics'], text), { status: 0, output: '' });
});

t.test('promtool takes the alert rules, and all queries of the Grafana dashboard', async (t) => {
  const alerts = promtool(['check', 'rules', new URL('ops/prometheus/alerts.yml', root).pathname]);
  t.equal(alerts.status, 0, alerts.output);
  const dashboard = readFileSync(new URL('ops/grafana/headrace.json', root), 'utf8');
  const { panels } = JSON.parse(dashboard) as { panels: readonly { targets?: readonly { expr: string }[] }[] };
  const rules = panels
    .flatMap(({ targets = [] }) => targets)
    .map(({ expr }, at) => ({ record: `q${at}`, expr: expr.replaceAll('$__rate_interval', '5m') }));
  t.ok(rules.length > 40);
  const file = join(testFolder(t), 'rules.yml');
  writeFileSync(file, JSON.stringify({ groups: [{ name: 'queries', rules }] }));
  const queries = promtool(['check', 'rules', file]);
  t.equal(queries.status, 0, queries.output);
});

/** Times of a model with a cache: two modes, each lognormal. Split over two threads. */
function bimodal(): { readonly sorted: readonly number[]; readonly threads: readonly Metrics[] } {
  const random = createSeededRandom(3);
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const times = Array.from({ length: 20_000 }, () =>
    random() < 0.6 ? 0.15 * Math.exp(0.3 * normal()) : 1.8 * Math.exp(0.4 * normal()),
  );
  const threads = [new Metrics(), new Metrics()];
  for (const [at, time] of times.entries()) {
    const cells = threads[at % 2]?.of('/v1/chat/completions', 'a "quoted" model');
    cells?.duration.observe(time);
    cells?.count(200, '');
  }
  return { sorted: times.toSorted((a, b) => a - b), threads };
}

async function startAdmin(t: Test, threads: readonly Metrics[]): Promise<{ target: string; asked: Set<boolean> }> {
  /** Whether scrapes asked for protobuf. */
  const asked = new Set<boolean>();
  const deps = { status: () => ({}), metrics: async () => threads.map((metrics) => metrics.snapshot()) };
  const admin = await openAdmin({ host: '127.0.0.1', port: 0 }, deps, {
    answer: (req) => {
      asked.add(prefersProtobuf(req.headers.accept));
      return false;
    },
  });
  t.teardown(() => admin.close());
  return { target: `127.0.0.1:${admin.address.port}`, asked };
}

for (const [name, features, series] of [
  ['native histograms', ['native-histograms'], 'headrace_request_duration_seconds'],
  ['the text', [], 'headrace_request_duration_seconds_bucket'],
] as const) {
  t.test(`quantiles in Prometheus from ${name} are right within 5 %`, async (t) => {
    const { sorted, threads } = bimodal();
    const { target, asked } = await startAdmin(t, threads);
    const { query } = await startPrometheus(t, target, features);
    await until('a scrape', async () => (await query(series)).length > 0);
    for (const quantile of [0.5, 0.9, 0.95, 0.99]) {
      const [sample] = await query(`histogram_quantile(${quantile}, ${series})`);
      const exact = sorted[Math.ceil(quantile * sorted.length) - 1] as number;
      const value = Number(sample?.value[1]);
      t.ok(Math.abs(value / exact - 1) < 0.05, `${quantile}: ${value}, exactly ${exact}`);
      t.match(sample?.metric, { model: 'a "quoted" model', endpoint: '/v1/chat/completions' });
    }
    const count = name === 'the text' ? `${series.replace('_bucket', '_count')}` : `histogram_count(${series})`;
    t.match(await query(count), [{ value: [Number, '20000'] }]);
    t.match(await query('headrace_requests_total'), [{ metric: { status: '200' }, value: [Number, '20000'] }]);
    t.match(await query('up'), [{ value: [Number, '1'] }]);
    t.same([...asked], [name === 'native histograms']);
  });
}
