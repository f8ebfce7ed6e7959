// The Grafana dashboard and the Prometheus alert rules in `ops/` parse, and use only metrics and labels that the gateway declares.
// Every metric has a panel.

import { readFileSync } from 'node:fs';
import t from 'tap';
import { parse } from 'yaml';
import { STANDING } from '../../src/routing/index.ts';
import { declaredMetrics } from './declared-metrics.ts';

const root = new URL('../../../', import.meta.url);

/** Labels that Prometheus adds to every series it scrapes. */
const SCRAPED = ['job', 'instance'];

/** Names of series with the labels they carry. */
const SERIES: ReadonlyMap<string, readonly string[]> = new Map(
  declaredMetrics().flatMap(({ name, type, labelNames }): (readonly [string, readonly string[]])[] => {
    const labels = [...labelNames, ...SCRAPED];
    if (type !== 'histogram') return [[name, labels]];
    return [
      // A native histogram is one series; only ranges of it are used (see RANGES).
      [name, labels],
      [`${name}_bucket`, [...labels, 'le']],
      [`${name}_sum`, labels],
      [`${name}_count`, labels],
    ];
  }),
);

/** All values of the labels that have few. */
const LABEL_VALUES: Readonly<Record<string, readonly string[]>> = {
  standing: Object.keys(STANDING),
  percentile: ['50', '99', '100'],
  state: ['threads', 'running', 'queued'],
};

const OPERATORS = new Set(['and', 'or', 'unless', 'bool', 'offset', 'group_left', 'group_right', 'inf', 'nan']);

/** Names of native histograms, which mean something as a range alone. */
const RANGES: ReadonlySet<string> = new Set(
  declaredMetrics().flatMap(({ name, type }) => (type === 'histogram' ? [name] : [])),
);

/** Unknown metrics, labels and label values in an expression. Parses the subset of PromQL that `ops/` uses. */
function mistakesIn(expression: string): string[] {
  const mistakes: string[] = [];
  const used = new Set<string>();
  const check = (metric: string, matchers: string): void => {
    const labels = SERIES.get(metric);
    if (labels === undefined) {
      mistakes.push(`no metric ${metric}`);
      return;
    }
    for (const label of labels) used.add(label);
    for (const [, label = '', operator = '', value = ''] of matchers.matchAll(/(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"/g)) {
      if (!labels.includes(label)) mistakes.push(`${metric} has no label ${label}`);
      const words = operator.includes('~') ? value.split('|') : [value];
      for (const word of words) {
        if (LABEL_VALUES[label]?.includes(word) === false) mistakes.push(`${label} is never ${word}`);
      }
    }
  };
  const checkInstant = (metric: string, matchers: string): void => {
    if (RANGES.has(metric)) mistakes.push(`no metric ${metric}`);
    else check(metric, matchers);
  };
  // First metrics with matchers, then groupings, then the rest: metrics without matchers, functions, operators.
  const plain = expression
    .replace(/([a-zA-Z_]\w*)(?:\{([^}]*)\})?\[[^\]]*\]/g, (_, metric: string, matchers = '') => {
      check(metric, matchers);
      return ' 0 ';
    })
    .replace(/([a-zA-Z_]\w*)\s*(?:\{([^}]*)\})/g, (_, metric: string, matchers: string) => {
      checkInstant(metric, matchers);
      return ' 0 ';
    });
  const groupings: string[] = [];
  const rest = plain
    .replace(/\[[^\]]*\]/g, ' ')
    .replace(/\b(?:by|without|on|ignoring)\s*\(([^)]*)\)/g, (_, labels: string) => {
      groupings.push(...labels.split(',').map((label) => label.trim()));
      return ' ';
    });
  for (const [, word = '', call] of rest.matchAll(/\b([a-zA-Z_]\w*)\b\s*(\()?/g)) {
    if (call === undefined && !OPERATORS.has(word) && !AGGREGATIONS.has(word)) checkInstant(word, '');
  }
  for (const label of groupings)
    if (!used.has(label)) mistakes.push(`no metric of the expression has the label ${label}`);
  return mistakes;
}

/** Aggregations may stand before their grouping, without a parenthesis. */
const AGGREGATIONS = new Set(['sum', 'max', 'min', 'avg', 'count']);

t.test('the check finds unknown metrics, labels and label values', async (t) => {
  for (const [expression, mistake] of [
    ['headrace_request_total', 'no metric headrace_request_total'],
    ['rate(headrace_requests_total{modell="a"}[5m]) > 1', 'headrace_requests_total has no label modell'],
    ['sum by (crn) (rate(headrace_requests_total[5m]))', 'no metric of the expression has the label crn'],
    ['headrace_request_duration_seconds > 1', 'no metric headrace_request_duration_seconds'],
    ['headrace_crn_standing{standing="dwon"} == 1', 'standing is never dwon'],
  ] as const) {
    t.same(mistakesIn(expression), [mistake]);
  }
});

interface Rules {
  readonly groups: readonly {
    readonly rules: readonly {
      readonly alert: string;
      readonly expr: string;
      readonly labels: { readonly severity: string };
      readonly annotations: { readonly summary: string; readonly description: string };
    }[];
  }[];
}

t.test('every alert uses metrics that exist', async (t) => {
  const { groups } = parse(readFileSync(new URL('ops/prometheus/alerts.yml', root), 'utf8')) as Rules;
  const rules = groups.flatMap((group) => group.rules);
  t.ok(rules.length >= 10);
  for (const { alert, expr, labels, annotations } of rules) {
    t.same(mistakesIn(expr), [], alert);
    t.same(oneForm(expr), [], `${alert}: works with and without native histograms`);
    t.match(labels.severity, /^(?:info|warning|critical)$/);
    t.ok(annotations.summary.length > 0 && annotations.description.length > 0, alert);
    for (const [, name = ''] of expr.matchAll(/\b(headrace_\w+|process_\w+)/g)) t.ok(SERIES.has(name), name);
    for (const [, label = ''] of annotations.summary.matchAll(/\$labels\.(\w+)/g)) {
      const metric = /headrace_\w+/.exec(expr)?.[0] ?? '';
      t.ok(SERIES.get(metric)?.includes(label), `${alert}: ${label}`);
    }
  }
});

/** Histograms of an expression that it reads in one of their two forms alone: as text, or as native histograms. */
function oneForm(expression: string): string[] {
  const read = [...expression.matchAll(/(\w+)(?:\{[^}]*\})?\[/g)].map(([, name = '']) => name);
  const texts = read.filter((name) => RANGES.has(name.replace(/_(?:bucket|count|sum)$/, '')) && !RANGES.has(name));
  const native = read.filter((name) => RANGES.has(name));
  const inText = new Set(texts.map((name) => name.replace(/_(?:bucket|count|sum)$/, '')));
  return [...inText].filter((name) => !native.includes(name)).concat(native.filter((name) => !inText.has(name)));
}

interface Dashboard {
  readonly panels: readonly {
    readonly title: string;
    readonly type: string;
    readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
  }[];
}

t.test('every panel uses metrics that exist, and every metric has a panel', async (t) => {
  const { panels } = JSON.parse(readFileSync(new URL('ops/grafana/headrace.json', root), 'utf8')) as Dashboard;
  const shown = panels.flatMap(({ title, targets = [] }) => targets.map((target) => ({ title, ...target })));
  for (const { title, expr, legendFormat } of shown) {
    t.same(mistakesIn(expr), [], title);
    t.same(oneForm(expr), [], `${title}: works with and without native histograms`);
    const grouped = /by \(([^)]*)\)/.exec(expr)?.[1]?.split(/,\s*/);
    for (const [, label = ''] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
      if (grouped !== undefined) t.ok(grouped.includes(label), `${title}: ${label}`);
    }
  }
  const all = shown.map(({ expr }) => expr).join('\n');
  t.same(
    declaredMetrics()
      .map(({ name }) => name)
      .filter((name) => !new RegExp(`\\b${name}(?:_bucket|_count|_sum)?\\b`).test(all)),
    [],
  );
});
