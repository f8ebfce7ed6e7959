// Metrics of the KV events of CRNs. All are set anew at every reading, from counts that the subscriptions keep. Labels are CRNs.

import type { MetricsSnapshot } from './metrics.ts';
import { Families } from './series.ts';

/** What is known of one CRN by its KV events. */
export interface KvEventNumbers {
  readonly crn: string;
  readonly connected: boolean;
  readonly events: number;
  /** Batches. */
  readonly lost: number;
  /** Messages. */
  readonly rejected: number;
  readonly restarts: number;
  /** Time since the last batch; null before the first. */
  readonly ageMs: number | null;
  readonly residentTokens: number;
  /** 0 while unknown. */
  readonly capacityTokens: number;
  readonly removedTokens: number;
}

export class KvEventMetrics {
  readonly #families = new Families();
  readonly #connected = this.#families.gauge(
    'headrace_kv_events_connected',
    '1 while the gateway is connected to the KV events of a CRN, else 0',
    ['crn'],
  );
  readonly #events = this.#families.counter('headrace_kv_events_total', 'KV events of a CRN that were read', ['crn']);
  readonly #lost = this.#families.counter(
    'headrace_kv_events_lost_batches_total',
    'Batches of KV events that did not arrive and were not replayed, by their sequence numbers',
    ['crn'],
  );
  readonly #rejected = this.#families.counter(
    'headrace_kv_events_rejected_total',
    'Messages of a CRN that are no batch of KV events',
    ['crn'],
  );
  readonly #restarts = this.#families.counter(
    'headrace_kv_events_restarts_total',
    'Restarts of a CRN that the sequence numbers of its KV events showed',
    ['crn'],
  );
  readonly #age = this.#families.gauge(
    'headrace_kv_events_age_seconds',
    'Time since the last batch of KV events of a CRN',
    ['crn'],
  );
  readonly #resident = this.#families.gauge(
    'headrace_kv_resident_tokens',
    'Tokens in the KV cache of a CRN, as far as its events tell',
    ['crn'],
  );
  readonly #capacity = this.#families.gauge(
    'headrace_kv_capacity_tokens',
    'Tokens that the KV cache of a CRN holds when it is full, known once it has evicted blocks',
    ['crn'],
  );
  readonly #removed = this.#families.counter(
    'headrace_kv_removed_tokens_total',
    'Tokens that have left the KV cache of a CRN',
    ['crn'],
  );

  /** Replaces the figures by those of the present CRNs. */
  set(crns: readonly KvEventNumbers[]): void {
    this.#families.clear();
    for (const numbers of crns) {
      const { crn, ageMs, capacityTokens } = numbers;
      this.#connected.at(crn).value = numbers.connected ? 1 : 0;
      this.#events.at(crn).value = numbers.events;
      this.#lost.at(crn).value = numbers.lost;
      this.#rejected.at(crn).value = numbers.rejected;
      this.#restarts.at(crn).value = numbers.restarts;
      this.#resident.at(crn).value = numbers.residentTokens;
      this.#removed.at(crn).value = numbers.removedTokens;
      if (ageMs !== null) this.#age.at(crn).value = ageMs / 1000;
      if (capacityTokens > 0) this.#capacity.at(crn).value = capacityTokens;
    }
  }

  snapshot(): MetricsSnapshot {
    return this.#families.json();
  }
}
