// Timers of one owner, which end together with it.

import type { Clock, TimerHandle } from '../actor/index.ts';

export class TimerSet {
  readonly #clock: Clock;
  readonly #timers = new Set<TimerHandle>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Milliseconds of the clock. */
  now(): number {
    return this.#clock.now();
  }

  /** Calls back once, `delayMs` from now, unless the timer is cancelled before. */
  after(delayMs: number, run: () => void): TimerHandle {
    const timer = this.#clock.setTimeout(() => {
      this.#timers.delete(timer);
      run();
    }, delayMs);
    this.#timers.add(timer);
    return timer;
  }

  /** False when the timer has run, or was cancelled before. */
  cancel(timer: TimerHandle): boolean {
    this.#clock.clearTimeout(timer);
    return this.#timers.delete(timer);
  }

  cancelAll(): void {
    for (const timer of this.#timers) this.#clock.clearTimeout(timer);
    this.#timers.clear();
  }
}
