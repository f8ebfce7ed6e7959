// Bounds the load that failover adds to a model whose CRNs fail (Finagle's retry budget): every request deposits a share
// of a retry, every retry withdraws one, and a reserve covers the moment in which a CRN dies with requests in flight.
// Failing to connect is free of charge: such a try put no load on any CRN.

export class RetryBudget {
  readonly #ratio: number;
  readonly #most: number;
  readonly #onRefused: () => void;
  #balance: number;

  /** `ratio`: retries earned by a request. `burst`: retries in the reserve, full at start. */
  constructor(ratio: number, burst: number, onRefused: () => void = () => undefined) {
    this.#ratio = ratio;
    this.#most = burst;
    this.#onRefused = onRefused;
    this.#balance = burst;
  }

  deposit(): void {
    this.#balance = Math.min(this.#balance + this.#ratio, this.#most);
  }

  /** Takes one retry; false when the budget is spent. */
  withdraw(): boolean {
    if (this.#balance < 1) {
      this.#onRefused();
      return false;
    }
    this.#balance -= 1;
    return true;
  }

  get balance(): number {
    return this.#balance;
  }
}
