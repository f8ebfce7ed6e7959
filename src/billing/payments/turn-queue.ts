// Places that are shared by turns: every key has a limit of its own beside the total, what finds no place waits, and a free place
// goes to the key that has had the fewest turns since it waits. One key can fill its own line, never that of others.

import type { Clock, TimerHandle } from '../../actor/index.ts';
import { FairQueue } from '../../routing/index.ts';

export interface TurnQueueSettings {
  /** Places of all keys together. */
  readonly places: number;
  /** Places of one key; read at every turn. */
  readonly placesOf: (key: string) => number;
  /** Most that wait, of all keys and of one key. */
  readonly waiting: number;
  readonly waitingOfKey: number;
  /** Longest wait. */
  readonly waitMs: number;
}

/** `full`: the line of all keys is full. `limit`: that of this key is, or its wait was too long. */
export type Turn = 'place' | 'full' | 'limit';

interface Waiter {
  readonly key: string;
  readonly resolve: (turn: Turn) => void;
  readonly timer: TimerHandle;
}

export class TurnQueue {
  readonly #settings: TurnQueueSettings;
  readonly #clock: Clock;
  readonly #taken = new Map<string, number>();
  readonly #line = new FairQueue<Waiter>();
  #takenPlaces = 0;

  constructor(settings: TurnQueueSettings, clock: Clock) {
    this.#settings = settings;
    this.#clock = clock;
  }

  get taken(): number {
    return this.#takenPlaces;
  }

  get waiting(): number {
    return this.#line.size;
  }

  /** Whether `enter` takes a place now. */
  isFree(key: string): boolean {
    return this.#line.of(key).count === 0 && this.#hasPlace(key);
  }

  /** Takes a place, now or when it is the key's turn. `leave` gives it back, once. */
  enter(key: string): Promise<Turn> {
    const { waitMs, waiting, waitingOfKey } = this.#settings;
    if (this.isFree(key)) {
      this.#take(key);
      return Promise.resolve('place');
    }
    if (this.#line.size >= waiting) return Promise.resolve('full');
    if (this.#line.of(key).count >= waitingOfKey) return Promise.resolve('limit');
    return new Promise((resolve) => {
      const timer = this.#clock.setTimeout(() => {
        this.#line.remove(entry);
        resolve('limit');
      }, waitMs);
      const entry = this.#line.add(key, { key, resolve, timer }, 1);
    });
  }

  leave(key: string): void {
    const taken = (this.#taken.get(key) ?? 0) - 1;
    if (taken > 0) this.#taken.set(key, taken);
    else this.#taken.delete(key);
    this.#takenPlaces--;
    this.#serve();
  }

  #serve(): void {
    for (;;) {
      const next = this.#line.peek(({ key }) => this.#hasPlace(key));
      if (next === null) return;
      const { key, resolve, timer } = this.#line.take(next);
      this.#clock.clearTimeout(timer);
      this.#take(key);
      resolve('place');
    }
  }

  #hasPlace(key: string): boolean {
    const { places, placesOf } = this.#settings;
    return this.#takenPlaces < places && (this.#taken.get(key) ?? 0) < placesOf(key);
  }

  #take(key: string): void {
    this.#taken.set(key, (this.#taken.get(key) ?? 0) + 1);
    this.#takenPlaces++;
  }
}
