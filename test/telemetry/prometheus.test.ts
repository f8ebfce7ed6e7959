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
import { promtool, startPrometheus } from '../support/prometheus.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
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
  const file = join(temporaryFolder(t), 'rules.yml');
  writeFileSync(file, JSON.stringify({ groups: [{ name: 'queries', rules }] }));
  const queries = promtool(['check', 'rules', file]);
  t.equal(queries.status, 0, queries.output);
});

const ALERTS = new URL('ops/prometheus/alerts.yml', root).pathname;

interface AlertCase {
  readonly name: string;
  readonly alert: string;
  /** Time between two values, and between two looks at the rules. */
  readonly interval?: string;
  /** Series by name, with their values as promtool writes them. */
  readonly series: Readonly<Record<string, string>>;
  /** Minutes from the start at which the alert is looked at, and the models, engines or sources for which it fires then. */
  readonly at: Readonly<Record<string, readonly Readonly<Record<string, string>>[]>>;
}

const GATEWAY = 'job="headrace",instance="a"';
const standing = (model: string, word: string): string =>
  `headrace_crn_standing{${GATEWAY},crn="http://${model}",model="${model}",standing="${word}"}`;
const IN_FLIGHT = `headrace_requests_in_flight{${GATEWAY}}`;
const costOf = (model: string): string => `headrace_cost_usd_total{${GATEWAY},model="${model}"}`;

const ALERT_CASES: readonly AlertCase[] = [
  {
    name: 'a model whose servers are all down, and none that has one in trial',
    alert: 'HeadraceModelDown',
    series: {
      [standing('m', 'up')]: '1x5 0x20',
      [standing('m', 'probing')]: '0x30',
      [standing('n', 'up')]: '1x5 0x20',
      [standing('n', 'probing')]: '0x5 1x20',
    },
    at: { '4m': [], '10m': [{ model: 'm' }] },
  },
  {
    name: 'a model whose servers have left, while the gateway runs',
    alert: 'HeadraceModelGone',
    series: { [standing('m', 'up')]: '1x20 stale', [standing('n', 'up')]: '1x80', [IN_FLIGHT]: '0x80' },
    at: { '18m': [], '25m': [{ model: 'm' }], '60m': [] },
  },
  {
    name: 'no model of a gateway that has ended',
    alert: 'HeadraceModelGone',
    series: { [standing('m', 'up')]: '1x20 stale', [IN_FLIGHT]: '0x20 stale' },
    at: { '25m': [] },
  },
  {
    name: 'a source that does not answer',
    alert: 'HeadraceDiscoveryFailing',
    series: { [`headrace_discovery_up{${GATEWAY},source="dns vllm",kind="dns"}`]: '1x5 0x30' },
    at: { '8m': [], '15m': [{ source: 'dns vllm' }] },
  },
  {
    name: 'streams that broke, as much as answers of 500 and above',
    alert: 'HeadraceErrorRatio',
    series: Object.fromEntries(
      (
        [
          ['m', '200', '', '0+100x40'],
          ['m', '200', 'HR_STREAM_BROKEN', '0+10x40'],
          ['n', '200', '', '0+100x40'],
          ['n', '503', 'HR_ROUTE_ALL_FAILED', '0+10x40'],
          ['o', '200', '', '0+100x40'],
          ['o', '429', 'HR_KEY_RATE', '0+100x40'],
        ] as const
      ).map(([model, status, code, values]) => [
        `headrace_requests_total{${GATEWAY},endpoint="/v1/chat/completions",model="${model}",status="${status}",code="${code}"}`,
        values,
      ]),
    ),
    at: { '20m': [{ model: 'm' }, { model: 'n' }] },
  },
  {
    name: 'a cost that has grown, and no steady one of a model that is new',
    alert: 'HeadraceCostSurge',
    interval: '15m',
    series: {
      [costOf('grown')]: '0+1x192 192+15x20',
      [costOf('steady')]: '0+15x212',
      [costOf('new')]: '_x176 0+15x36',
    },
    at: { '2805m': [], '3000m': [{ model: 'grown' }] },
  },
  {
    name: 'the first budget that is used up',
    alert: 'HeadraceBudgetUsedUp',
    series: { [`headrace_budget_alerts_total{${GATEWAY},threshold="hard"}`]: '0x5 1x10' },
    at: { '4m': [], '8m': [{}] },
  },
  {
    name: 'commits that fail',
    alert: 'HeadraceLedgerCommitFailing',
    series: {
      [`headrace_ledger_commit_seconds_count{${GATEWAY},outcome="failed"}`]: '0x5 0+1x10',
      [`headrace_ledger_commit_seconds_count{${GATEWAY},outcome="ok"}`]: '0+9x20',
    },
    at: { '4m': [], '9m': [{}] },
  },
  {
    name: 'pages that wait for cleaners which are all busy',
    alert: 'HeadraceFetchPoolSaturated',
    series: {
      [`headrace_fetch_cleaners{${GATEWAY},state="threads"}`]: '2x30',
      [`headrace_fetch_cleaners{${GATEWAY},state="running"}`]: '1x9 2x20',
      [`headrace_fetch_cleaners{${GATEWAY},state="queued"}`]: '3x30',
    },
    at: { '8m': [], '20m': [{}] },
  },
];

for (const { alert, at, interval = '1m', name, series } of ALERT_CASES) {
  t.test(`the alert ${alert} fires for ${name}`, async (t) => {
    const folder = temporaryFolder(t);
    // What promtool finds firing, whatever the texts say: each expectation is of one alert alone.
    const fires = (minutes: string): unknown[] => {
      const file = join(folder, 'test.yml');
      const test = {
        interval,
        input_series: Object.entries(series).map(([of, values]) => ({ series: of, values })),
        alert_rule_test: [{ eval_time: minutes, alertname: alert, exp_alerts: [{ exp_labels: { never: 'there' } }] }],
      };
      writeFileSync(file, JSON.stringify({ rule_files: [ALERTS], evaluation_interval: interval, tests: [test] }));
      const { output } = promtool(['test', 'rules', file]);
      const got = output.slice(output.indexOf('got:'));
      if (!output.includes('got:')) throw new Error(output);
      return [...got.matchAll(/Labels:\{([^}]*)\}/g)].map(([, labels = '']) =>
        Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, label, value]) => [label, value])),
      );
    };
    for (const [minutes, expected] of Object.entries(at)) {
      const firing = fires(minutes);
      t.equal(firing.length, expected.length, `${minutes}: ${JSON.stringify(firing)}`);
      t.match(firing, expected, minutes);
    }
  });
}

t.test('panels count a CRN and an engine once, however many gateways tell of it', async (t) => {
  const { panels } = JSON.parse(readFileSync(new URL('ops/grafana/headrace.json', root), 'utf8')) as {
    panels: readonly { title: string; targets?: readonly { expr: string }[] }[];
  };
  const of = (title: string): string =>
    (panels.find((panel) => panel.title === title)?.targets?.[0]?.expr ?? '').replaceAll(/\$(?:job|model)/g, '.*');
  const series = (name: string, labels: string, values: readonly string[]): { series: string; values: string }[] =>
    values.map((each, gateway) => ({
      series: `${name}{job="headrace",instance="${gateway}",${labels}}`,
      values: each,
    }));
  const crn = (name: string, standing: string, values: readonly string[]): { series: string; values: string }[] =>
    series('headrace_crn_standing', `crn="${name}",model="m",standing="${standing}"`, values);
  const test = {
    interval: '1m',
    input_series: [
      ...crn('a', 'up', ['1x5', '1x5']),
      ...crn('a', 'down', ['0x5', '0x5']),
      // The second gateway has not noticed it yet.
      ...crn('b', 'up', ['0x5', '1x5']),
      ...crn('b', 'down', ['1x5', '0x5']),
      ...series('headrace_search_engine_suspended', 'engine="e"', ['1x5', '1x5']),
    ],
    promql_expr_test: [
      {
        expr: of('CRNs by standing'),
        eval_time: '4m',
        exp_samples: [
          { labels: '{standing="up"}', value: 1.5 },
          { labels: '{standing="down"}', value: 0.5 },
        ],
      },
      {
        expr: of('Suspended engines and searches under way'),
        eval_time: '4m',
        exp_samples: [{ labels: '{engine="e"}', value: 1 }],
      },
    ],
  };
  const file = join(temporaryFolder(t), 'test.yml');
  writeFileSync(file, JSON.stringify({ rule_files: [ALERTS], evaluation_interval: '1m', tests: [test] }));
  const { output, status } = promtool(['test', 'rules', file]);
  t.equal(status, 0, output);
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
