// All metrics that the gateway declares, for docs/metrics.md and the check of dashboards and alerts.

import { ClusterMetrics } from '../../src/telemetry/cluster-metrics.ts';
import { CrnMetrics } from '../../src/telemetry/crn-metrics.ts';
import { DiscoveryMetrics } from '../../src/telemetry/discovery-metrics.ts';
import { KvEventMetrics } from '../../src/telemetry/kv-event-metrics.ts';
import { LedgerMetrics } from '../../src/telemetry/ledger-metrics.ts';
import { Metrics, type MetricsSnapshot } from '../../src/telemetry/metrics.ts';
import { PageMetrics } from '../../src/telemetry/page-metrics.ts';
import { ResponseMetrics } from '../../src/telemetry/response-metrics.ts';
import { PaymentMetrics } from '../../src/telemetry/payment-metrics.ts';
import { AnswerMetrics, ProcessMetrics, ThreadMetrics } from '../../src/telemetry/runtime-metrics.ts';
import { lookupMetrics, SharedCacheMetrics } from '../../src/telemetry/shared-cache-metrics.ts';
import { SpanMetrics } from '../../src/telemetry/span-exporter.ts';

/** An actor system without actors. */
const NO_ACTORS = {
  stats: () => ({ actors: 0, deadLetters: 0, restarts: 0, deepestMailbox: 0, runnable: 0 }),
  mailboxes: () => new Map<string, number>(),
};

export function declaredMetrics(): MetricsSnapshot {
  return [
    ...new Metrics().snapshot(),
    ...new CrnMetrics().snapshot(),
    ...new DiscoveryMetrics().snapshot(),
    ...new KvEventMetrics().snapshot(),
    ...new ClusterMetrics().snapshot(),
    ...lookupMetrics({}),
    ...new SharedCacheMetrics().snapshot(),
    ...new PageMetrics().snapshot(),
    ...new LedgerMetrics().snapshot(),
    ...new PaymentMetrics().snapshot(),
    ...new ResponseMetrics().snapshot(),
    ...new ThreadMetrics(0, NO_ACTORS).declared(),
    ...new AnswerMetrics().snapshot([]),
    ...new ProcessMetrics().declared(),
    ...new SpanMetrics().snapshot(),
  ];
}
