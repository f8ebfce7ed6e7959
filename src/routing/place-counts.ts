// Counts of what runs for each key, such as an account or a host, in memory that all threads share: a row for each thread and one for all
// other gateways. From them follows how many places a key has in one thread when a limit holds over all threads and gateways.

import { randomInt } from 'node:crypto';
import { SharedSignal } from '../net/shared-signal.ts';
import { fnv1a } from './model-table.ts';

/**
 * Counters of a row. Keys are spread over them by a hash with a secret seed: two that share one count as one elsewhere, and nobody can
 * choose a key that shares one with another.
 */
const CELL_BITS = 12;
export const PLACE_CELLS: number = 2 ** CELL_BITS;

/** In front of the rows: the seed, the number of gateways, a count of changes made here, and who waits for them. */
const SEED = 0;
const GATEWAYS = 1;
const CHANGES = 2;
const CHANGED = 3;
const HEAD_BYTES = 4 * Int32Array.BYTES_PER_ELEMENT;
const ROW_BYTES: number = PLACE_CELLS * Int32Array.BYTES_PER_ELEMENT;

/** Makes the memory for a number of threads; can be posted to them. `seed`: default random. */
export function createPlaceMemory(threads: number, seed: number = randomInt(2 ** 32)): SharedArrayBuffer {
  const memory = new SharedArrayBuffer(HEAD_BYTES + (threads + 1) * ROW_BYTES);
  const head = new Int32Array(memory, 0, HEAD_BYTES / 4);
  head[SEED] = seed;
  head[GATEWAYS] = 1;
  return memory;
}

export class PlaceCounts {
  readonly #head: Int32Array;
  readonly #signal: SharedSignal;
  readonly #siblings: Int32Array;
  readonly #own: Int32Array;
  readonly #others: readonly Int32Array[];

  /** Counts in the row of `thread`, which begins anew. */
  constructor(memory: SharedArrayBuffer, thread: number) {
    const threads = (memory.byteLength - HEAD_BYTES) / ROW_BYTES - 1;
    const row = (index: number): Int32Array => new Int32Array(memory, HEAD_BYTES + index * ROW_BYTES, PLACE_CELLS);
    this.#head = new Int32Array(memory, 0, HEAD_BYTES / 4);
    this.#signal = new SharedSignal(this.#head, CHANGED);
    this.#siblings = row(0);
    this.#own = row(thread + 1);
    this.#others = Array.from({ length: threads }, (_, index) => index)
      .filter((index) => index !== thread)
      .map((index) => row(index + 1));
    this.#own.fill(0);
    this.#changed();
  }

  /** Whether other threads or gateways may give places back, and say so to nobody. */
  get isShared(): boolean {
    return this.#others.length > 0 || Atomics.load(this.#head, GATEWAYS) > 1;
  }

  /** The counter of a key at present. It must be kept for as long as it counts something. */
  cellOf(key: string): number {
    // The high bits of FNV-1a: the low ones depend on the low bits of the seed alone.
    return fnv1a(key, Atomics.load(this.#head, SEED)) >>> (32 - CELL_BITS);
  }

  add(cell: number, change: 1 | -1): void {
    Atomics.add(this.#own, cell, change);
    this.#changed();
  }

  /**
   * Places of a key in this thread when `limit` holds everywhere: what others leave. A gateway has an equal share of the limit at least,
   * whatever the others say, so that a key which is busy at one gateway has places at another one too.
   */
  placesOf(cell: number, limit: number): number {
    const share = Math.floor(limit / Math.max(1, Atomics.load(this.#head, GATEWAYS)));
    let places = Math.max(limit - this.siblings(cell), share);
    for (const row of this.#others) places -= Atomics.load(row, cell);
    return places;
  }

  /** What the other gateways count. */
  siblings(cell: number): number {
    return Atomics.load(this.#siblings, cell);
  }

  #changed(): void {
    Atomics.add(this.#head, CHANGES, 1);
    this.#signal.raise();
  }
}

/** The side of the gateway: reads what all its threads count, and writes what the other gateways do. */
export class PlaceTotals {
  /** Wakes who waits for a change of `changes`. */
  readonly changed: SharedSignal;
  readonly #head: Int32Array;
  readonly #siblings: Int32Array;
  readonly #rows: readonly Int32Array[];

  constructor(memory: SharedArrayBuffer) {
    const threads = (memory.byteLength - HEAD_BYTES) / ROW_BYTES - 1;
    const row = (index: number): Int32Array => new Int32Array(memory, HEAD_BYTES + index * ROW_BYTES, PLACE_CELLS);
    this.#head = new Int32Array(memory, 0, HEAD_BYTES / 4);
    this.changed = new SharedSignal(this.#head, CHANGED);
    this.#siblings = row(0);
    this.#rows = Array.from({ length: threads }, (_, index) => row(index + 1));
  }

  /** Changes whenever a count does. */
  get changes(): number {
    return Atomics.load(this.#head, CHANGES);
  }

  get seed(): number {
    return Atomics.load(this.#head, SEED) >>> 0;
  }

  /** What runs goes on to count where it did. */
  set seed(seed: number) {
    Atomics.store(this.#head, SEED, seed | 0);
  }

  /** Gateways, this one included. */
  set gateways(count: number) {
    Atomics.store(this.#head, GATEWAYS, count);
  }

  /** The counters that are not 0, in order, with their counts. */
  counts(): Map<number, number> {
    const counts = new Map<number, number>();
    for (let cell = 0; cell < PLACE_CELLS; cell++) {
      let count = 0;
      for (const row of this.#rows) count += row[cell] as number;
      if (count > 0) counts.set(cell, count);
    }
    return counts;
  }

  addSiblings(cell: number, change: number): void {
    Atomics.add(this.#siblings, cell, change);
  }
}
