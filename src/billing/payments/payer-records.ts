// What the settlements of this process say about payers: how much unpaid work each may have under way. A payer begins with one
// request and gains one with every payment; a payment that is refused when it is due takes that back, and bars the payer for a while.

import { LRUCache } from 'lru-cache';
import type { Clock } from '../../actor/index.ts';

interface PayerRecord {
  /** Payments since the last refusal, up to the limit. */
  readonly paid: number;
  /** Refusals since the last payment. */
  readonly refusals: number;
  /** Until when the payer is barred, by the clock. */
  readonly barredUntilMs: number;
}

const MAX_PAYERS = 10_000;

/** After the first refusal; doubles with each further one. */
const FIRST_BAR_MS = 1000;
const LONGEST_BAR_MS = 600_000;

export class PayerRecords {
  readonly #most: number;
  readonly #clock: Clock;
  readonly #records = new LRUCache<string, PayerRecord>({ max: MAX_PAYERS });

  /** `most`: the most that a payer may have under way unpaid. */
  constructor(most: number, clock: Clock) {
    this.#most = most;
    this.#clock = clock;
  }

  unpaidLimit(payer: string): number {
    if (this.barredMs(payer) > 0) return 0;
    return Math.min(this.#most, 1 + (this.#records.get(payer)?.paid ?? 0));
  }

  /** Whether the last payment of a payer has settled. */
  hasPaid(payer: string): boolean {
    return (this.#records.get(payer)?.paid ?? 0) > 0;
  }

  /** For how long a payer is barred from unpaid work, in milliseconds; 0: not at all. */
  barredMs(payer: string): number {
    return Math.max(0, (this.#records.get(payer)?.barredUntilMs ?? 0) - this.#clock.now());
  }

  paid(payer: string): void {
    const paid = Math.min(this.#most, (this.#records.get(payer)?.paid ?? 0) + 1);
    this.#records.set(payer, { paid, refusals: 0, barredUntilMs: 0 });
  }

  refused(payer: string): void {
    const refusals = (this.#records.get(payer)?.refusals ?? 0) + 1;
    const barMs = Math.min(LONGEST_BAR_MS, FIRST_BAR_MS * 2 ** (refusals - 1));
    this.#records.set(payer, { paid: 0, refusals, barredUntilMs: this.#clock.now() + barMs });
  }
}
