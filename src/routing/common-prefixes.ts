// Estimates which beginnings of prompts many requests of a model have in common, such as a system prompt: a count-min sketch of one row over
// chained block hashes. It counts too much at times and never too little, in memory of fixed size; old requests count less and less.

import { mix } from './model-table.ts';

/** Counters; a power of two. A window of requests fills less than a quarter of a share that matters. */
const COUNTERS = 16 * 1024;

/** Requests after which all counts are halved. */
const WINDOW = 1024;

/** Blocks of a prompt that are counted: 64 KiB. Longer documents are worth more in one place, however common. */
const MOST_BLOCKS = 128;

/** Requests that are taken for seen at least, so that the first ones of a model have nothing in common. */
const LEAST_REQUESTS = 128;

/**
 * A count is that of a prompt only if it is so many times the mean: long prompts of one model leave up to 16 in each counter, which is
 * more than a share of the requests of a model that has few.
 */
const NOISE = 2;

export class CommonPrefixes {
  readonly #counts = new Uint16Array(COUNTERS);
  #requests = 0;
  /** Sum of the counts. */
  #noted = 0;

  /** Counts a request of a model, given by the hash of its name. `hashes`: two words for each of `count` blocks. */
  note(model: number, hashes: Int32Array, count: number): void {
    if (++this.#requests === WINDOW) {
      this.#requests = 0;
      this.#noted /= 2;
      for (let at = 0; at < COUNTERS; at++) this.#counts[at]! >>>= 1;
    }
    this.#counts[slotOf(model)]!++;
    const most = Math.min(count, MOST_BLOCKS);
    this.#noted += 1 + most;
    for (let block = 0; block < most; block++) this.#counts[slotOf(hashes[2 * block] as number)]!++;
  }

  /** Leading blocks that at least `share` of the model's last requests have in common with this prompt. */
  leading(model: number, hashes: Int32Array, count: number, share: number): number {
    const seen = Math.max(this.#counts[slotOf(model)] as number, LEAST_REQUESTS);
    const least = Math.max(seen * share, (NOISE * this.#noted) / COUNTERS);
    // What fewer requests have in common is longer: binary search.
    let low = 0;
    let high = Math.min(count, MOST_BLOCKS);
    while (low < high) {
      const at = (low + high) >>> 1;
      if ((this.#counts[slotOf(hashes[2 * at] as number)] as number) >= least) low = at + 1;
      else high = at;
    }
    return low;
  }
}

function slotOf(hash: number): number {
  return mix(hash) & (COUNTERS - 1);
}
