// Metrics of the sources of servers.

import type { MetricsSnapshot } from './metrics.ts';
import { Families } from './series.ts';

/** What is counted of one source. */
export interface DiscoveryNumbers {
  readonly source: string;
  readonly kind: string;
  readonly state: 'waiting' | 'ok' | 'failing';
  /** Age of its last answer; null before the first. */
  readonly ageMs: number | null;
  readonly servers: number;
  readonly changes: number;
  readonly failures: number;
}

const LABELS = ['source', 'kind'];

export class DiscoveryMetrics {
  readonly #families = new Families();
  readonly #up = this.#families.gauge(
    'headrace_discovery_up',
    'Whether the last try of a source of servers was answered: 1 or 0',
    LABELS,
  );
  readonly #age = this.#families.gauge(
    'headrace_discovery_age_seconds',
    'Time since the last answer of a source of servers',
    LABELS,
  );
  readonly #servers = this.#families.gauge(
    'headrace_discovery_servers',
    'Servers by the last answer of a source',
    LABELS,
  );
  readonly #changes = this.#families.counter(
    'headrace_discovery_changes_total',
    'Answers of a source that differed from the one before',
    LABELS,
  );
  readonly #failures = this.#families.counter('headrace_discovery_failures_total', 'Failed tries of a source', LABELS);

  /** Replaces the figures by those of the present sources. */
  set(sources: readonly DiscoveryNumbers[]): void {
    this.#families.clear();
    for (const { ageMs, changes, failures, kind, servers, source, state } of sources) {
      this.#up.at(source, kind).value = state === 'ok' ? 1 : 0;
      if (ageMs !== null) this.#age.at(source, kind).value = ageMs / 1000;
      this.#servers.at(source, kind).value = servers;
      this.#changes.at(source, kind).value = changes;
      this.#failures.at(source, kind).value = failures;
    }
  }

  snapshot(): MetricsSnapshot {
    return this.#families.json();
  }
}
