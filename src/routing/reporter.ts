// Carries outcomes from an ingress thread to the CRN actors. Failures, and whatever a CRN on trial does, are told at
// once; plain successes are counted and told together, so that a busy thread sends a few messages a second, not
// thousands.

import type { Clock, TimerHandle } from '../actor/index.ts';
import { type Board, STANDING } from './board.ts';
import type { Failure, Outcome, Verdict } from './classify.ts';

/** How long successes may wait to be told, in milliseconds; far below the window of error rates. */
const FLUSH_MS = 250;

export class Reporter {
  readonly #board: Board;
  readonly #clock: Clock;
  readonly #tell: (outcome: Outcome) => void;
  readonly #successes = new Map<number, number>();
  #timer: TimerHandle | null = null;

  constructor(board: Board, clock: Clock, tell: (outcome: Outcome) => void) {
    this.#board = board;
    this.#clock = clock;
    this.#tell = tell;
  }

  report(member: number, verdict: Verdict, failure: Failure | null): void {
    const urgent = this.#board.standing(member) === STANDING.probing;
    if (verdict === 'ok' && !urgent) {
      this.#successes.set(member, (this.#successes.get(member) ?? 0) + 1);
      this.#timer ??= this.#clock.setTimeout(() => this.flush(), FLUSH_MS);
    } else if (verdict !== 'neutral' || urgent) {
      this.#flushOne(member);
      this.#tell({ member, verdict, failure, count: 1 });
    }
  }

  /** Tells what has been counted. */
  flush(): void {
    this.#timer = null;
    for (const member of this.#successes.keys()) this.#flushOne(member);
  }

  #flushOne(member: number): void {
    const count = this.#successes.get(member);
    if (count === undefined) return;
    this.#successes.delete(member);
    this.#tell({ member, verdict: 'ok', failure: null, count });
  }
}
