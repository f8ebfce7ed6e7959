// Places of running searches, a number of them for each account over all threads; what finds none waits in turns between accounts. Each
// thread counts what it runs in a row of shared memory of its own, so that a thread that dies or begins anew takes its counts with it.

import { randomInt } from 'node:crypto';
import type { Clock, TimerHandle } from '../actor/index.ts';
import { type Place, type Turn, TurnQueue } from '../routing/index.ts';

/**
 * Counters of one thread. Accounts are spread over them by a hash with a secret seed: two that share one count each other's searches in
 * other threads, and nobody can choose an account that shares one with another.
 */
const CELL_BITS = 12;
const CELLS = 2 ** CELL_BITS;

/** The seed is in front of the rows. */
const SEED_BYTES = Int32Array.BYTES_PER_ELEMENT;

/** How often a thread with waiting searches looks whether others have given places back. */
const POLL_MS = 20;

/** Most searches that wait in one thread, of all accounts and of one. */
const WAITING = 1024;
const WAITING_OF_ACCOUNT = 64;

/** Makes the memory for a number of threads; can be posted to them. `seed`: default random. */
export function createPlaceMemory(threads: number, seed: number = randomInt(2 ** 32)): SharedArrayBuffer {
  const memory = new SharedArrayBuffer(SEED_BYTES + threads * CELLS * Int32Array.BYTES_PER_ELEMENT);
  new Int32Array(memory, 0, 1)[0] = seed;
  return memory;
}

export interface AccountPlacesOptions {
  readonly memory: SharedArrayBuffer;
  /** Row of this thread. */
  readonly thread: number;
  readonly clock: Clock;
}

export class AccountPlaces {
  readonly #rows: readonly Int32Array[];
  readonly #own: Int32Array;
  readonly #seed: number;
  readonly #clock: Clock;
  readonly #queue: TurnQueue;
  #perAccount = Infinity;
  #timer: TimerHandle | null = null;

  /** Without a limit until it is configured. */
  constructor({ clock, memory, thread }: AccountPlacesOptions) {
    const rowBytes = CELLS * Int32Array.BYTES_PER_ELEMENT;
    this.#seed = new Int32Array(memory, 0, 1)[0] as number;
    this.#rows = Array.from(
      { length: (memory.byteLength - SEED_BYTES) / rowBytes },
      (_, row) => new Int32Array(memory, SEED_BYTES + row * rowBytes, CELLS),
    );
    this.#own = this.#rows[thread] as Int32Array;
    this.#own.fill(0);
    this.#clock = clock;
    this.#queue = new TurnQueue(this.#limits(Infinity), clock);
  }

  get running(): number {
    return this.#queue.taken;
  }

  get waiting(): number {
    return this.#queue.waiting;
  }

  /** `waitMs`: longest wait. */
  configure(perAccount: number, waitMs: number): void {
    this.#perAccount = perAccount;
    this.#queue.configure(this.#limits(waitMs));
  }

  /** As `TurnQueue.request`. */
  request(account: string, onTurn: (turn: Turn) => void): Place {
    const cell = cellOf(account, this.#seed);
    const place = new CountedPlace(this.#own, cell);
    place.hold(
      this.#queue.request(account, (turn) => {
        if (turn === 'place') place.count();
        onTurn(turn);
      }),
    );
    this.#poll();
    return place;
  }

  /** Another thread may give places back, and says so to nobody. */
  #poll(): void {
    if (this.#timer !== null || this.#queue.waiting === 0 || this.#rows.length === 1) return;
    this.#timer = this.#clock.setTimeout(() => {
      this.#timer = null;
      this.#queue.serve();
      this.#poll();
    }, POLL_MS);
  }

  #limits(waitMs: number): ConstructorParameters<typeof TurnQueue>[0] {
    const placesOf = (account: string): number => this.#perAccount - this.#elsewhere(cellOf(account, this.#seed));
    return { places: Infinity, placesOf, waiting: WAITING, waitingOfKey: WAITING_OF_ACCOUNT, waitMs };
  }

  /** Searches that other threads run. */
  #elsewhere(cell: number): number {
    let count = 0;
    for (const row of this.#rows) if (row !== this.#own) count += Atomics.load(row, cell);
    return count;
  }
}

class CountedPlace implements Place {
  readonly #row: Int32Array;
  readonly #cell: number;
  #inner: Place | null = null;
  #counts = false;
  #left = false;

  constructor(row: Int32Array, cell: number) {
    this.#row = row;
    this.#cell = cell;
  }

  /** The place in the queue of the thread, which may have been left already. */
  hold(inner: Place): void {
    this.#inner = inner;
    if (this.#left) inner.leave();
  }

  count(): void {
    this.#counts = true;
    Atomics.add(this.#row, this.#cell, 1);
  }

  /** The count goes first: whoever is served by the place reads it. */
  leave(): void {
    if (this.#counts) Atomics.sub(this.#row, this.#cell, 1);
    this.#counts = false;
    this.#left = true;
    this.#inner?.leave();
  }
}

/** The high bits of FNV-1a: the low ones depend on the low bits of the seed alone. */
function cellOf(account: string, seed: number): number {
  let hash = seed;
  for (let i = 0; i < account.length; i++) hash = Math.imul(hash ^ account.charCodeAt(i), 0x01000193);
  return hash >>> (32 - CELL_BITS);
}
