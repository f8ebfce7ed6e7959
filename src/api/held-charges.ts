// Charges of the requests that one request makes, until it is known what the client has got of its answer: what goes into an answer is
// charged with it, and what ends in an error is not.

import type { PartCharge, PartCharges } from '../ingress/exchange.ts';

export class HeldCharges implements PartCharges {
  readonly #due: PartCharge[] = [];
  /** Those of which nothing is known yet. */
  readonly #open = new Set<PartCharge>();
  #isOver = false;

  add(charge: PartCharge): void {
    if (this.#isOver) {
      charge.release();
      return;
    }
    this.#open.add(charge);
  }

  /** The client has got something that all parts so far have led to, those under way included. */
  deliver(): void {
    if (this.#open.size === 0) return;
    for (const charge of this.#open) {
      this.#due.push(charge);
      charge.commit();
    }
    this.#open.clear();
  }

  /** What the parts that were committed cost by what was delivered of them so far, in pico-USD. */
  get dueCost(): number {
    return this.#due.reduce((sum, { dueCost }) => sum + dueCost, 0);
  }

  end(): void {
    this.#isOver = true;
    for (const charge of this.#open) charge.release();
    this.#open.clear();
  }
}
