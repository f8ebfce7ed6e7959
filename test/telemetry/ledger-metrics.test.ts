// Metrics of the ledger, as Prometheus text.

import t from 'tap';
import { LedgerMetrics } from '../../src/telemetry/ledger-metrics.ts';
import { metricsText } from '../../src/telemetry/exposition.ts';

t.test('counts commits, waiting charges, leases, charges and the amount spent', async (t) => {
  const ledger = new LedgerMetrics();
  ledger.committed(true, 3);
  ledger.committed(false, 400);
  ledger.readWaiting(() => 5);
  ledger.refill('funded');
  ledger.charged('atlas-27b', 'measured', 0.25, 1);
  ledger.charged('atlas-27b', 'estimated', 0.5, 3);
  const text = metricsText([ledger.snapshot()]);
  for (const line of [
    'headrace_ledger_commit_seconds_bucket{le="0.00390625",outcome="ok"} 1',
    'headrace_ledger_commit_seconds_count{outcome="failed"} 1',
    'headrace_ledger_waiting 5',
    'headrace_ledger_lease_refills_total{outcome="funded"} 1',
    'headrace_ledger_charges_total{model="atlas-27b",basis="measured"} 1',
    'headrace_ledger_charges_total{model="atlas-27b",basis="estimated"} 3',
    'headrace_ledger_spent_usd_total{model="atlas-27b"} 0.75',
  ]) {
    t.ok(text.split('\n').includes(line), line);
  }
});

t.test('what alerts count shows as 0 before the first time, so that an alert sees it', async (t) => {
  const lines = metricsText([new LedgerMetrics().snapshot()]).split('\n');
  for (const series of [
    'headrace_ledger_commit_seconds_count{outcome="failed"}',
    'headrace_budget_alerts_total{threshold="soft"}',
    'headrace_budget_alerts_total{threshold="hard"}',
  ])
    t.ok(lines.includes(`${series} 0`), series);
});

t.test('the series of a model go five minutes after it has left, and those of searches stay', async (t) => {
  const ledger = new LedgerMetrics();
  const linesOf = (model: string): number =>
    metricsText([ledger.snapshot()])
      .split('\n')
      .filter((line) => line.includes(`model="${model}"`)).length;
  ledger.keep(new Set(['lora-1', 'base']), 0);
  for (const model of ['lora-1', 'base', 'search:engine_a']) ledger.charged(model, 'measured', 0.25, 1);
  ledger.keep(new Set(['base']), 1000);
  ledger.keep(new Set(['base']), 300_999);
  t.equal(linesOf('lora-1'), 2);
  ledger.keep(new Set(['base']), 301_000);
  t.same([linesOf('lora-1'), linesOf('base'), linesOf('search:engine_a')], [0, 2, 2]);
  ledger.charged('lora-1', 'measured', 0.25, 1);
  t.equal(linesOf('lora-1'), 2, 'a model that comes back counts anew');
});
