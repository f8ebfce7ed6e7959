// Places of what runs for accounts, a number of them for each over all threads and gateways; what finds none waits in turns between
// accounts. Each thread counts what it runs in a row of shared memory of its own, so that a thread that dies or begins anew takes its
// counts with it.

import type { Clock, TimerHandle } from '../actor/index.ts';
import { PlaceCounts } from './place-counts.ts';
import { type Place, type Turn, type TurnLimits, TurnQueue } from './turn-queue.ts';

/** How often a thread in which something waits looks whether others have given places back. */
const POLL_MS = 20;

export interface AccountPlaceLimits {
  readonly perAccount: number;
  /** Most that wait in this thread, of all accounts and of one. */
  readonly waiting: number;
  readonly waitingOfAccount: number;
  /** Longest wait; Infinity: until the waiter leaves. */
  readonly waitMs: number;
}

const NO_LIMITS: AccountPlaceLimits = {
  perAccount: Infinity,
  waiting: Infinity,
  waitingOfAccount: Infinity,
  waitMs: Infinity,
};

export interface AccountPlacesOptions {
  readonly memory: SharedArrayBuffer;
  /** Row of this thread. */
  readonly thread: number;
  readonly clock: Clock;
}

export class AccountPlaces {
  readonly #counts: PlaceCounts;
  readonly #clock: Clock;
  readonly #queue: TurnQueue;
  #timer: TimerHandle | null = null;

  /** Without a limit until it is configured. */
  constructor({ clock, memory, thread }: AccountPlacesOptions) {
    this.#counts = new PlaceCounts(memory, thread);
    this.#clock = clock;
    this.#queue = new TurnQueue(this.#turns(NO_LIMITS), clock);
  }

  get running(): number {
    return this.#queue.taken;
  }

  get waiting(): number {
    return this.#queue.waiting;
  }

  /** Since the start: `full`, too many of all accounts waited; `limit`, too many of one did, or for too long. */
  get refusals(): TurnQueue['refusals'] {
    return this.#queue.refusals;
  }

  configure(limits: AccountPlaceLimits): void {
    this.#queue.configure(this.#turns(limits));
  }

  /** As `TurnQueue.request`. */
  request(account: string, onTurn: (turn: Turn) => void): Place {
    const place = new CountedPlace(this.#counts, this.#counts.cellOf(account));
    place.hold(
      this.#queue.request(account, (turn) => {
        if (turn === 'place') place.count();
        onTurn(turn);
      }),
    );
    this.#poll();
    return place;
  }

  /** Another thread or gateway may give places back, and says so to nobody. */
  #poll(): void {
    if (this.#timer !== null || this.#queue.waiting === 0 || !this.#counts.isShared) return;
    this.#timer = this.#clock.setTimeout(() => {
      this.#timer = null;
      this.#queue.serve();
      this.#poll();
    }, POLL_MS);
  }

  #turns({ perAccount, waitMs, waiting, waitingOfAccount }: AccountPlaceLimits): TurnLimits {
    const placesOf = (account: string): number => this.#counts.placesOf(this.#counts.cellOf(account), perAccount);
    return { places: Infinity, placesOf, waiting, waitingOfKey: waitingOfAccount, waitMs };
  }
}

class CountedPlace implements Place {
  readonly #counts: PlaceCounts;
  readonly #cell: number;
  #inner: Place | null = null;
  #isCounted = false;
  #left = false;

  constructor(counts: PlaceCounts, cell: number) {
    this.#counts = counts;
    this.#cell = cell;
  }

  /** The place in the queue of the thread, which may have been left already. */
  hold(inner: Place): void {
    this.#inner = inner;
    if (this.#left) inner.leave();
  }

  count(): void {
    this.#isCounted = true;
    this.#counts.add(this.#cell, 1);
  }

  /** The count goes first: whoever is served by the place reads it. */
  leave(): void {
    if (this.#isCounted) this.#counts.add(this.#cell, -1);
    this.#isCounted = false;
    this.#left = true;
    this.#inner?.leave();
  }
}
