// Numbers of the ledger, counted by whoever commits to it. Amounts are in USD as floating-point numbers: good for a
// graph, never for an account.

import type { MetricsSnapshot } from './metrics.ts';
import { Counters, Histograms } from './series.ts';

/** Upper bounds in seconds, from a local file to a database in trouble. */
const COMMIT_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** Where the tokens of a charge come from: the CRN's own count, or the gateway's estimate. */
export type ChargeBasis = 'measured' | 'estimated';

export class LedgerMetrics {
  readonly #commits = new Histograms(
    'headrace_ledger_commit_seconds',
    'Time of a commit of the ledger, by outcome: ok or failed',
    ['outcome'],
    COMMIT_BUCKETS,
  );
  readonly #waiting = new Counters('headrace_ledger_waiting', 'Charges that wait for their commit', [], 'gauge');
  readonly #refills = new Counters(
    'headrace_ledger_lease_refills_total',
    'Leases of credit asked for by the threads, by outcome: funded, short or away',
    ['outcome'],
  );
  readonly #charges = new Counters(
    'headrace_ledger_charges_total',
    'Requests charged, by model and by where the tokens come from: measured or estimated',
    ['model', 'basis'],
  );
  readonly #spent = new Counters('headrace_ledger_spent_usd_total', 'Credit spent in USD, by model', ['model']);

  constructor() {
    // A series that begins at 0 shows its first increase.
    for (const outcome of ['ok', 'failed']) this.#commits.at(outcome);
  }

  /** A commit has ended, well or not. */
  committed(ok: boolean, elapsedMs: number): void {
    this.#commits.at(ok ? 'ok' : 'failed').observe(elapsedMs / 1000);
  }

  /** Charges that wait now. */
  waiting(count: number): void {
    this.#waiting.at().value = count;
  }

  refill(outcome: 'funded' | 'short' | 'away'): void {
    this.#refills.at(outcome).value++;
  }

  /** A charge for so many requests was booked. `model`: its configured id. */
  charged(model: string, basis: ChargeBasis, usd: number, requests: number): void {
    this.#charges.at(model, basis).value += requests;
    this.#spent.at(model).value += usd;
  }

  snapshot(): MetricsSnapshot {
    return [this.#commits.json(), this.#waiting.json(), this.#refills.json(), this.#charges.json(), this.#spent.json()];
  }
}
