// The attempts of one thread that wait for a CRN. Once a second, and only while there are any, those on CRNs that answer no probe
// any more and have been silent since are ended: a CRN that loses its power closes no connection.

import type { Clock, TimerHandle } from '../actor/index.ts';
import { IntrusiveSet } from '../net/intrusive-set.ts';
import type { Board } from '../routing/index.ts';
import type { Attempt } from './attempt.ts';

const SWEEP_MS = 1000;

export class RunningAttempts {
  readonly #board: Board;
  readonly #clock: Clock;
  readonly #attempts = new IntrusiveSet<'slot', Attempt>('slot');
  #timer: TimerHandle | null = null;
  /** Of the last sweep: nothing has changed while it stays the same. */
  #generation = -1;

  constructor(board: Board, clock: Clock) {
    this.#board = board;
    this.#clock = clock;
  }

  get size(): number {
    return this.#attempts.size;
  }

  add(attempt: Attempt): void {
    this.#attempts.add(attempt);
    this.#timer ??= this.#clock.setTimeout(this.#sweep, SWEEP_MS);
  }

  delete(attempt: Attempt): void {
    this.#attempts.delete(attempt);
  }

  /** Ends the timer: no attempt is looked at any more. */
  close(): void {
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer);
    this.#timer = null;
  }

  readonly #sweep = (): void => {
    this.#timer = null;
    if (this.#attempts.size === 0) return;
    this.#timer = this.#clock.setTimeout(this.#sweep, SWEEP_MS);
    const generation = this.#board.unreachableGeneration;
    if (generation === this.#generation) return;
    this.#generation = generation;
    for (const attempt of this.#attempts.list()) {
      const sinceMs = this.#board.unreachableSinceMs(attempt.member.server);
      if (sinceMs > 0) attempt.lost(sinceMs);
    }
  };
}
