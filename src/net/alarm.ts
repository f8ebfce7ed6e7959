// A timer that can be set to an earlier time: whoever needs to look after something says when at the latest.

import type { Clock, TimerHandle } from '../actor/index.ts';

export class Alarm {
  readonly #clock: Clock;
  readonly #ring: (dueMs: number) => void;
  #timer: TimerHandle | null = null;
  #dueMs = Infinity;

  /** `ring` is called with each time that was set, once it has come, unless an earlier one was. */
  constructor(clock: Clock, ring: (dueMs: number) => void) {
    this.#clock = clock;
    this.#ring = ring;
  }

  /** Rings at this time of the clock, or before. */
  setBy(dueMs: number): void {
    if (this.#dueMs <= dueMs) return;
    this.clear();
    this.#dueMs = dueMs;
    this.#timer = this.#clock.setTimeout(
      () => {
        this.#timer = null;
        this.#dueMs = Infinity;
        this.#ring(dueMs);
      },
      Math.max(dueMs - this.#clock.now(), 0),
    );
  }

  clear(): void {
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer);
    this.#timer = null;
    this.#dueMs = Infinity;
  }
}
