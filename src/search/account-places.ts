// Places of running searches, a number of them for each account over all threads; what finds none waits in turns between accounts. Each
// thread counts what it runs in a row of shared memory of its own, so that a thread that dies or begins anew takes its counts with it.

import type { Clock, TimerHandle } from '../actor/index.ts';
import { type Place, type Turn, TurnQueue } from '../routing/index.ts';

/** Counters of one thread. Accounts are spread over them by a hash: two that share one count each other's searches in other threads. */
const CELLS = 4096;

/** How often a thread with waiting searches looks whether others have given places back. */
const POLL_MS = 20;

/** Most searches that wait in one thread, of all accounts and of one. */
const WAITING = 1024;
const WAITING_OF_ACCOUNT = 64;

/** Makes the memory for a number of threads; can be posted to them. */
export function createPlaceMemory(threads: number): SharedArrayBuffer {
  return new SharedArrayBuffer(threads * CELLS * Int32Array.BYTES_PER_ELEMENT);
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
  readonly #clock: Clock;
  readonly #queue: TurnQueue;
  #perAccount = Infinity;
  #timer: TimerHandle | null = null;

  /** Without a limit until it is configured. */
  constructor({ clock, memory, thread }: AccountPlacesOptions) {
    const rowBytes = CELLS * Int32Array.BYTES_PER_ELEMENT;
    this.#rows = Array.from(
      { length: memory.byteLength / rowBytes },
      (_, row) => new Int32Array(memory, row * rowBytes, CELLS),
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
    const cell = cellOf(account);
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
    const placesOf = (account: string): number => this.#perAccount - this.#elsewhere(cellOf(account));
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

/** FNV-1a. */
function cellOf(account: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < account.length; i++) hash = Math.imul(hash ^ account.charCodeAt(i), 0x01000193);
  return (hash >>> 0) % CELLS;
}
