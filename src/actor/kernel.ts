// The interface of the actor system towards its parts (cells, refs, links), and the events it emits. Types only, so that no
// part imports another in a circle.

import type { Clock } from './clock.ts';
import type { Directive } from './supervision.ts';
import type { Deadlines } from './deadlines.ts';

/**
 * Why a message found no receiver.
 * - `stopped`: the actor has stopped (or never existed under that name)
 * - `overflow`: a mailbox or the outgoing queue of a link was full
 * - `late`: a result or answer for an incarnation or ask that has ended
 * - `unsendable`: a link could not encode it
 */
export type DeadLetterReason = 'stopped' | 'overflow' | 'late' | 'unsendable';

/** Events of a system, for `SystemOptions.onEvent`. */
export type SystemEvent =
  /** A handler threw; `decision` is what the supervisor did, `delayMs` how long a restart waits. */
  | {
      readonly type: 'failure';
      readonly path: string;
      readonly error: unknown;
      readonly decision: Directive;
      readonly delayMs: number;
    }
  /** `PostStop` or `PreRestart` threw; the stop or restart went on. */
  | { readonly type: 'signal-failure'; readonly path: string; readonly error: unknown }
  | {
      readonly type: 'dead-letter';
      readonly path: string;
      readonly message: unknown;
      readonly reason: DeadLetterReason;
    }
  /** A link received what it cannot read and closed itself. */
  | { readonly type: 'link-failure'; readonly error: unknown };

/** An entry of the run queue. */
export interface Runnable {
  /** Handles at most `limit` messages; returns how much of the turn it used. */
  run(limit: number): number;
  /** Whether it wants another turn. */
  readonly ready: boolean;
  /** Held by the run queue: true from `schedule` until a turn leaves nothing to do. */
  scheduled: boolean;
}

/** The system as its own parts see it. */
export interface Kernel {
  readonly clock: Clock;
  readonly random: () => number;
  readonly deadlines: Deadlines;
  schedule(runnable: Runnable): void;
  deadLetter(path: string, message: unknown, reason: DeadLetterReason): void;
  emit(event: SystemEvent): void;
  /** Counts a new actor and returns its number; throws after `terminate()`. */
  cellStarted(): number;
  cellRestarted(): void;
  cellStopped(): void;
}
