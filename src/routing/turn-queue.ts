// Places that are shared by turns: every key has a limit of its own beside the total, what finds no place waits, and a free place
// goes to the key that has had the fewest turns since it waits. One key can fill its own line, never that of others. A place is given
// back exactly once, however its holder leaves.

import type { Clock, TimerHandle } from '../actor/index.ts';
import { type FairEntry, FairQueue, RememberedTime } from './fair-queue.ts';

export interface TurnLimits {
  /** Places of all keys together. */
  readonly places: number;
  /** Places of one key; read at every turn. */
  readonly placesOf: (key: string) => number;
  /** Most that wait, of all keys and of one key. */
  readonly waiting: number;
  readonly waitingOfKey: number;
  /** Longest wait; Infinity: until the waiter leaves. */
  readonly waitMs: number;
}

/** `full`: the line of all keys is full. `limit`: that of this key is, or its wait was too long. */
export type Turn = 'place' | 'full' | 'limit';

/** A place, or the wait for one. */
export interface Place {
  /** Gives the place back, or ends the wait. Nothing is called any more. Safe at any time, also twice. */
  leave(): void;
}

class Turner implements Place {
  readonly #queue: TurnQueue;
  readonly key: string;
  /** Null once it has been called, or has left. */
  onTurn: ((turn: Turn) => void) | null;
  entry: FairEntry<Turner> | null = null;
  timer: TimerHandle | null = null;
  holds = false;

  constructor(queue: TurnQueue, key: string, onTurn: (turn: Turn) => void) {
    this.#queue = queue;
    this.key = key;
    this.onTurn = onTurn;
  }

  answer(turn: Turn): void {
    const { onTurn } = this;
    this.onTurn = null;
    onTurn?.(turn);
  }

  leave(): void {
    this.onTurn = null;
    if (this.entry !== null) {
      this.#queue.withdraw(this);
    } else if (this.holds) {
      this.holds = false;
      this.#queue.leave(this.key);
    }
  }
}

export class TurnQueue {
  readonly #clock: Clock;
  readonly #taken = new Map<string, number>();
  readonly #line = new FairQueue<Turner>(new RememberedTime());
  readonly #fits = (turner: Turner): boolean => this.#hasPlace(turner.key);
  #limits: TurnLimits;
  readonly #refusals = { full: 0, limit: 0 };
  #takenPlaces = 0;

  constructor(limits: TurnLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  get taken(): number {
    return this.#takenPlaces;
  }

  get waiting(): number {
    return this.#line.size;
  }

  /** Requests that were told so since the start. */
  get refusals(): Readonly<Record<Exclude<Turn, 'place'>, number>> {
    return this.#refusals;
  }

  /** Places that a key has. */
  takenOf(key: string): number {
    return this.#taken.get(key) ?? 0;
  }

  /** Who waits goes on waiting, whatever the new limits. */
  configure(limits: TurnLimits): void {
    this.#limits = limits;
    this.serve();
  }

  /** Whether a request of `key` takes a place now. */
  isFree(key: string): boolean {
    return this.#line.of(key).count === 0 && this.#hasPlace(key);
  }

  /**
   * Takes a place, now or when it is the key's turn. `onTurn` is called once, possibly before this call returns, and never after
   * `leave`; after `full` and `limit` there is nothing to leave.
   */
  request(key: string, onTurn: (turn: Turn) => void): Place {
    const { waitMs, waiting, waitingOfKey } = this.#limits;
    const turner = new Turner(this, key, onTurn);
    if (this.isFree(key)) {
      this.#take(turner);
    } else if (this.#line.of(key).count >= waitingOfKey) {
      this.#refuse(turner, 'limit');
    } else if (this.#line.size >= waiting) {
      this.#refuse(turner, 'full');
    } else {
      turner.entry = this.#line.add(key, turner, 1);
      if (waitMs < Infinity) turner.timer = this.#clock.setTimeout(() => this.#expire(turner), waitMs);
    }
    return turner;
  }

  /** The same as a promise. A place is given back by `leave` of the queue, once. */
  enter(key: string): Promise<Turn> {
    return new Promise((resolve) => {
      this.request(key, resolve);
    });
  }

  /** Gives back a place of `key`. */
  leave(key: string): void {
    const taken = this.takenOf(key) - 1;
    if (taken > 0) this.#taken.set(key, taken);
    else this.#taken.delete(key);
    this.#takenPlaces--;
    this.serve();
  }

  /** Gives out what is free: needed after `placesOf` has grown without a place given back. */
  serve(): void {
    for (;;) {
      const next = this.#line.peek(this.#fits, true);
      if (next === null) return;
      const turner = this.#line.take(next);
      this.#stopWaiting(turner);
      this.#take(turner);
    }
  }

  /** @internal Ends a wait. */
  withdraw(turner: Turner): void {
    if (turner.entry !== null) this.#line.remove(turner.entry);
    this.#stopWaiting(turner);
  }

  #expire(turner: Turner): void {
    this.withdraw(turner);
    this.#refuse(turner, 'limit');
  }

  #refuse(turner: Turner, turn: 'full' | 'limit'): void {
    this.#refusals[turn]++;
    turner.answer(turn);
  }

  #stopWaiting(turner: Turner): void {
    turner.entry = null;
    if (turner.timer !== null) this.#clock.clearTimeout(turner.timer);
    turner.timer = null;
  }

  #hasPlace(key: string): boolean {
    const { places, placesOf } = this.#limits;
    return this.#takenPlaces < places && this.takenOf(key) < placesOf(key);
  }

  /** The count is right before the holder hears of it, who may leave at once. */
  #take(turner: Turner): void {
    this.#taken.set(turner.key, this.takenOf(turner.key) + 1);
    this.#takenPlaces++;
    turner.holds = true;
    turner.answer('place');
  }
}
