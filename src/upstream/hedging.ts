// Hedged requests (Dean and Barroso, "The Tail at Scale"): when the first useful event of a stream is later than that of 95 % of the
// streams of its model with prompts of its size, a second CRN is asked too. A budget bounds the load that this adds.

import { LRUCache } from 'lru-cache';

/** Models that are remembered: found ones come and go, and each takes up to 16 KB. */
const MOST_MODELS = 1024;

/** Samples of one model and size: the last ones count. */
const SAMPLES = 64;
/** Below this many nothing is known. */
const MIN_SAMPLES = 20;
const QUANTILE = 0.95;
/** Samples after which the quantile is taken again. */
const REFRESH = 8;

/** Most hedges in reserve: a pause of many streams at once must not double the load. */
const MOST_HEDGES = 10;

class Times {
  readonly #times = new Float64Array(SAMPLES);
  #count = 0;
  #quantileMs: number | null = null;

  get quantileMs(): number | null {
    return this.#quantileMs;
  }

  add(elapsedMs: number): void {
    this.#times[this.#count % SAMPLES] = elapsedMs;
    this.#count++;
    if (this.#count < MIN_SAMPLES || (this.#count - MIN_SAMPLES) % REFRESH !== 0) return;
    const sorted = this.#times.slice(0, Math.min(this.#count, SAMPLES)).sort();
    this.#quantileMs = sorted[Math.ceil(sorted.length * QUANTILE) - 1] as number;
  }
}

/** What one thread has learnt of its models, and its budget. */
export class Hedging {
  readonly #share: number;
  readonly #onHedge: (outcome: HedgeOutcome) => void;
  /** By model, then by the binary logarithm of the bytes of the request. */
  readonly #models = new LRUCache<string, Times[]>({ max: MOST_MODELS });
  #hedges = 0;

  /** `share`: hedges that a request earns. */
  constructor(share: number, onHedge: (outcome: HedgeOutcome) => void) {
    this.#share = share;
    this.#onHedge = onHedge;
  }

  /** How long the first useful event of a request is waited for before a second CRN is asked; null: for ever. Earns its share. */
  delayMs(model: string, bytes: number): number | null {
    this.#hedges = Math.min(this.#hedges + this.#share, MOST_HEDGES);
    return this.#models.get(model)?.[sizeOf(bytes)]?.quantileMs ?? null;
  }

  /** Adds the time to a first useful event, or the time after which it was no longer waited for. */
  note(model: string, bytes: number, elapsedMs: number): void {
    let sizes = this.#models.get(model);
    if (sizes === undefined) {
      sizes = [];
      this.#models.set(model, sizes);
    }
    (sizes[sizeOf(bytes)] ??= new Times()).add(elapsedMs);
  }

  /** Takes one hedge from the budget; false when it is spent. */
  withdraw(): boolean {
    if (this.#hedges < 1) {
      this.#onHedge('refused');
      return false;
    }
    this.#hedges--;
    return true;
  }

  /** Returns a hedge that was not needed. */
  giveBack(): void {
    this.#hedges++;
  }

  /** Tells how a hedge ended. */
  ended(outcome: HedgeOutcome): void {
    this.#onHedge(outcome);
  }
}

/** `won`: the second CRN began first. `lost`: the first one did. `failed`: the second one failed. `refused`: the budget was spent. */
export type HedgeOutcome = 'won' | 'lost' | 'failed' | 'refused';

function sizeOf(bytes: number): number {
  return 31 - Math.clz32(bytes | 1);
}
