// Metrics of stored responses, counted in the control plane.

import type { MetricsSnapshot } from './metrics.ts';
import { Families } from './series.ts';

export class ResponseMetrics {
  readonly #families = new Families();
  readonly #stored = this.#families.counter('headrace_responses_stored_total', 'Responses that were stored');
  readonly #bytes = this.#families.counter(
    'headrace_responses_stored_bytes_total',
    'Bytes of the responses that were stored',
  );
  readonly #notStored = this.#families.counter(
    'headrace_responses_not_stored_total',
    'Responses that were answered and not stored: overflow (too much waited for the store), refused (by the store), taken (the id is in use)',
    ['reason'],
  );
  readonly #removed = this.#families.counter(
    'headrace_responses_removed_total',
    'Responses that were removed: expired, evicted (too many bytes of the account) or deleted',
    ['reason'],
  );
  readonly #waiting = this.#families.gauge('headrace_responses_waiting_bytes', 'Bytes that wait to be stored');
  readonly #running = this.#families.gauge(
    'headrace_responses_background',
    'Responses of this gateway that run in the background',
  );
  readonly #ended = this.#families.counter(
    'headrace_responses_background_total',
    'Background responses that have ended, by status: completed, incomplete, failed or cancelled',
    ['status'],
  );

  stored(bytes: number): void {
    this.#stored.at().value++;
    this.#bytes.at().value += bytes;
  }

  notStored(reason: 'overflow' | 'refused' | 'taken'): void {
    this.#notStored.at(reason).value++;
  }

  removed(reason: 'expired' | 'evicted' | 'deleted', count: number): void {
    if (count > 0) this.#removed.at(reason).value += count;
  }

  waiting(bytes: number): void {
    this.#waiting.at().value = bytes;
  }

  running(count: number): void {
    this.#running.at().value = count;
  }

  ended(status: string): void {
    this.#ended.at(status).value++;
  }

  snapshot(): MetricsSnapshot {
    return this.#families.json();
  }
}
