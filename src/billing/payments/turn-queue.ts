// Places that are shared by turns: every key has a limit of its own beside the total, what finds no place waits, and a free place
// goes to the key whose last turn is longest ago. One key can fill its own line, never that of others.

import type { Clock, TimerHandle } from '../../actor/index.ts';

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
  readonly resolve: (turn: Turn) => void;
  readonly timer: TimerHandle;
}

export class TurnQueue {
  readonly #settings: TurnQueueSettings;
  readonly #clock: Clock;
  readonly #taken = new Map<string, number>();
  /** Keys with waiters, the one whose last turn is longest ago first. */
  readonly #lines = new Map<string, Set<Waiter>>();
  #takenPlaces = 0;
  #waiters = 0;

  constructor(settings: TurnQueueSettings, clock: Clock) {
    this.#settings = settings;
    this.#clock = clock;
  }

  get taken(): number {
    return this.#takenPlaces;
  }

  get waiting(): number {
    return this.#waiters;
  }

  /** Whether `enter` takes a place now. */
  isFree(key: string): boolean {
    return !this.#lines.has(key) && this.#hasPlace(key);
  }

  /** Takes a place, now or when it is the key's turn. `leave` gives it back, once. */
  enter(key: string): Promise<Turn> {
    const { waitMs, waiting, waitingOfKey } = this.#settings;
    const line = this.#lines.get(key);
    if (this.isFree(key)) {
      this.#take(key);
      return Promise.resolve('place');
    }
    if (this.#waiters >= waiting) return Promise.resolve('full');
    if ((line?.size ?? 0) >= waitingOfKey) return Promise.resolve('limit');
    return new Promise((resolve) => {
      const waiter: Waiter = {
        resolve,
        timer: this.#clock.setTimeout(() => {
          this.#remove(key, waiter);
          resolve('limit');
        }, waitMs),
      };
      this.#waiters++;
      if (line === undefined) this.#lines.set(key, new Set([waiter]));
      else line.add(waiter);
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
    for (const [key, line] of this.#lines) {
      if (this.#takenPlaces >= this.#settings.places) return;
      const [next] = line;
      if (next === undefined || !this.#hasPlace(key)) continue;
      this.#remove(key, next);
      // Behind the others: the loop comes to it again when they have had their turn.
      if (this.#lines.delete(key)) this.#lines.set(key, line);
      this.#take(key);
      next.resolve('place');
    }
  }

  #remove(key: string, waiter: Waiter): void {
    const line = this.#lines.get(key);
    this.#clock.clearTimeout(waiter.timer);
    if (line?.delete(waiter) !== true) return;
    this.#waiters--;
    if (line.size === 0) this.#lines.delete(key);
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
