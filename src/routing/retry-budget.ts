// Retry budget of a model (Finagle), in memory that all threads share: it bounds the load that failover adds to CRNs that fail. What
// is spent is kept rather than what is left, so that memory of zeros is a full budget whatever its size.

import type { BoardMemory } from './board.ts';

/** Retries are counted in this many parts. */
const SCALE = 10_000;

/** The largest burst that fits into a word. */
const MAX_BURST = Math.floor(2 ** 31 / SCALE) - 1;

export interface RetryBudgetSettings {
  /** Retries that a request earns. */
  readonly ratio: number;
  /** Retries in the reserve, full at start. */
  readonly burst: number;
}

/**
 * Every request deposits a share of a retry, every retry withdraws one, and a reserve covers the moment in which a CRN dies with
 * requests in flight. All budgets of one cell are the same budget.
 */
export class RetryBudget {
  readonly #words: Int32Array;
  readonly #cell: number;
  readonly #earned: number;
  readonly #most: number;
  readonly #onRefused: () => void;

  /** `cell`: see `Model.budget`. */
  constructor(
    memory: Pick<BoardMemory, 'retries'>,
    cell: number,
    { ratio, burst }: RetryBudgetSettings,
    onRefused: () => void = () => undefined,
  ) {
    this.#words = new Int32Array(memory.retries);
    this.#cell = cell;
    this.#earned = Math.round(ratio * SCALE);
    this.#most = Math.min(burst, MAX_BURST) * SCALE;
    this.#onRefused = onRefused;
  }

  deposit(): void {
    let spent = this.#words[this.#cell] as number;
    while (spent > 0 && this.#earned > 0) {
      const seen = Atomics.compareExchange(this.#words, this.#cell, spent, Math.max(spent - this.#earned, 0));
      if (seen === spent) return;
      spent = seen;
    }
  }

  /** Takes one retry; false when `share` of the budget is spent. */
  withdraw(share = 1): boolean {
    const most = this.#most * share;
    let spent = Atomics.load(this.#words, this.#cell);
    while (spent + SCALE <= most) {
      const seen = Atomics.compareExchange(this.#words, this.#cell, spent, spent + SCALE);
      if (seen === spent) return true;
      spent = seen;
    }
    this.#onRefused();
    return false;
  }

  /** Retries left. */
  get balance(): number {
    return Math.max(this.#most - (this.#words[this.#cell] as number), 0) / SCALE;
  }
}
