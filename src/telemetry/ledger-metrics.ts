// Metrics of the ledger. Amounts are in USD as floating-point numbers: good for a graph, never for an account.

import { LeftNames } from './left-names.ts';
import type { MetricsSnapshot } from './metrics.ts';
import { type Bounds, type Cell, Families } from './series.ts';

/** From 0.5 ms, a local file, to 8 s, a database in trouble. Neighbours differ by 19 %. */
const COMMITS: Bounds = { from: -11, to: 3, perDoubling: 4 };

/** Where the tokens of a charge come from: the CRN's own count, or the gateway's estimate. */
export type ChargeBasis = 'measured' | 'estimated';

export class LedgerMetrics {
  readonly #families = new Families();
  readonly #commits = this.#families.histogram(
    'headrace_ledger_commit_seconds',
    'Time of a commit of the ledger, by outcome: ok or failed',
    ['outcome'],
    COMMITS,
  );
  readonly #waiting = this.#families.gauge('headrace_ledger_waiting', 'Charges that wait for their commit');
  #readWaiting: () => number = () => 0;
  readonly #refills = this.#families.counter(
    'headrace_ledger_lease_refills_total',
    'Credit leased from the ledger, and requests that got none, by outcome: funded, short, busy or away',
    ['outcome'],
  );
  readonly #charges = this.#families.counter(
    'headrace_ledger_charges_total',
    'Requests charged, by model and by where the tokens come from: measured or estimated',
    ['model', 'basis'],
  );
  readonly #spent = this.#families.counter('headrace_ledger_spent_usd_total', 'Credit spent in USD, by model', [
    'model',
  ]);

  readonly #budgets = this.#families.counter(
    'headrace_budget_alerts_total',
    'Budgets whose spending has crossed a threshold, once per period: soft or hard',
    ['threshold'],
  );

  readonly #records = this.#families.counter(
    'headrace_request_records_dropped_total',
    'Finished requests that were not recorded in the store because too many waited for it',
  );

  // A series that begins at 0 shows its first increase.
  readonly #ok = this.#commits.at('ok');
  readonly #failed = this.#commits.at('failed');
  readonly #crossed = { soft: this.#budgets.at('soft'), hard: this.#budgets.at('hard') };
  /** Resolved once per model; a basis that never occurs has no series. */
  readonly #models = new Map<string, { readonly spent: Cell; measured?: Cell; estimated?: Cell }>();
  /** Models that have servers, or had them a while ago. Searches and pages are charged as models too. */
  readonly #served = new Set<string>();
  readonly #left = new LeftNames();

  /** Drops the series of models that have had servers, and have not been among the present ones for a while. */
  keep(models: ReadonlySet<string>, nowMs: number): void {
    for (const model of models) this.#served.add(model);
    for (const model of this.#left.due(this.#served, models, nowMs)) {
      this.#families.drop('model', model);
      this.#models.delete(model);
      this.#served.delete(model);
    }
  }

  committed(ok: boolean, elapsedMs: number): void {
    (ok ? this.#ok : this.#failed).observe(elapsedMs / 1000);
  }

  /** `read` returns the charges that wait; it is called at each snapshot. */
  readWaiting(read: () => number): void {
    this.#readWaiting = read;
  }

  refill(outcome: 'funded' | 'short' | 'busy' | 'away'): void {
    this.#refills.at(outcome).value++;
  }

  /** Spending has crossed a threshold of a budget. */
  budgetCrossed(threshold: 'soft' | 'hard'): void {
    this.#crossed[threshold].value++;
  }

  /** A finished request is not recorded. */
  recordsDropped(): void {
    this.#records.at().value++;
  }

  /** A charge for so many requests was posted. `model`: its configured id. */
  charged(model: string, basis: ChargeBasis, usd: number, requests: number): void {
    let cells = this.#models.get(model);
    if (cells === undefined) this.#models.set(model, (cells = { spent: this.#spent.at(model) }));
    cells[basis] ??= this.#charges.at(model, basis);
    cells[basis].value += requests;
    cells.spent.value += usd;
  }

  snapshot(): MetricsSnapshot {
    this.#waiting.at().value = this.#readWaiting();
    return this.#families.json();
  }
}
