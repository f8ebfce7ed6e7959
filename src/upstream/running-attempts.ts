// The attempts of one thread that wait for a CRN. Once a second, and only while there are any, those on CRNs that answer no probe
// any more and have been silent since are ended: a CRN that loses its power closes no connection. A CRN that still sends on any
// connection of any thread has not lost its power: its probes are slow, because it is busy. Threads have a second to say so.

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
  /** Whether attempts are to be ended at this sweep. */
  #isDue = false;

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
    if (this.#isDue) this.#endLost();
    const generation = this.#board.unreachableGeneration;
    this.#isDue = generation !== this.#generation;
    this.#generation = generation;
    if (this.#isDue) this.#tellHeard();
  };

  #tellHeard(): void {
    for (const { bytes, heardMs, member } of this.#attempts.list()) {
      if (bytes > 0 && this.#board.unreachable(member.server)) this.#board.noteHeard(member.server, heardMs);
    }
  }

  #endLost(): void {
    for (const attempt of this.#attempts.list()) {
      const sinceMs = this.#board.unreachableSinceMs(attempt.member.server);
      if (sinceMs > 0) attempt.lost(sinceMs);
    }
  }
}
