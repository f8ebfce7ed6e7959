// The metrics of a search worker: Prometheus text for `/metrics`, totals for `/health`.

import { metricsText } from '../telemetry/exposition.ts';
import { type Bounds, Families } from '../telemetry/series.ts';

/** From 1 ms, an index in memory, to 32 s, a service at the deadline. */
const DURATIONS: Bounds = { from: -10, to: 5, perDoubling: 8 };

export class WorkerMetrics {
  readonly #families = new Families();
  readonly #requests = this.#families.counter(
    'headrace_search_worker_requests_total',
    'Searches by outcome: ok, a reason as gateways read it, or why they did not get to the engine',
    ['outcome'],
  );
  readonly #duration = this.#families.histogram(
    'headrace_search_worker_request_duration_seconds',
    'Time of a search from its head to its end',
    [],
    DURATIONS,
  );
  readonly #inFlight = this.#families.gauge('headrace_search_worker_in_flight', 'Searches without an answer');
  readonly #upstream = this.#families.counter(
    'headrace_search_worker_upstream_calls_total',
    'Requests to the service behind the engine: answered (whatever the status), failed, cancelled',
    ['outcome'],
  );
  #ended = 0;
  #answered = 0;

  constructor() {
    // Prometheus sees the first event of a series as an increase only when the series was there before.
    for (const outcome of ['answered', 'failed', 'cancelled']) this.#upstream.at(outcome);
    this.#requests.at('ok');
    this.#inFlight.at();
  }

  get inFlight(): number {
    return this.#inFlight.at().value;
  }

  /** Searches answered with results, and all others that have ended. */
  get totals(): { readonly answered: number; readonly failed: number } {
    return { answered: this.#answered, failed: this.#ended - this.#answered };
  }

  begin(): void {
    this.#inFlight.at().value++;
  }

  /** The connection of a search has its answer, or is gone. */
  leave(): void {
    this.#inFlight.at().value--;
  }

  /** A search ended with this outcome. */
  end(outcome: string, elapsedMs: number): void {
    this.#requests.at(outcome).value++;
    this.#duration.at().observe(elapsedMs / 1000);
    this.#ended++;
    if (outcome === 'ok') this.#answered++;
  }

  upstream(outcome: 'answered' | 'failed' | 'cancelled'): void {
    this.#upstream.at(outcome).value++;
  }

  /** Prometheus text. */
  text(): string {
    return metricsText([this.#families.json()]);
  }
}
