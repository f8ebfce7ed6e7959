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

  deliver(): void {
    if (this.#open.size === 0) return;
    for (const charge of this.#open) {
      this.#due.push(charge);
      charge.commit();
    }
    this.#open.clear();
  }

  get dueCost(): number {
    return this.#due.reduce((sum, { dueCost }) => sum + dueCost, 0);
  }

  get waitingCost(): number {
    let sum = 0;
    for (const { dueCost, isWaiting } of this.#open) if (isWaiting) sum += dueCost;
    return sum;
  }

  end(): void {
    this.#isOver = true;
    for (const charge of this.#open) charge.release();
    this.#open.clear();
  }
}

/** Charges of a request whose answer is read from the store: decided when the store has taken it, which may be behind the end of the request. */
export class StoredCharges extends HeldCharges {
  #isStoring = false;
  #hasEnded = false;

  /** The answer is on its way to the store. */
  storing(): void {
    this.#isStoring = true;
  }

  /** Whether the store has taken the answer. */
  stored(isTaken: boolean): void {
    this.#isStoring = false;
    if (isTaken) this.deliver();
    if (!isTaken || this.#hasEnded) super.end();
  }

  override end(): void {
    this.#hasEnded = true;
    if (!this.#isStoring) super.end();
  }
}
