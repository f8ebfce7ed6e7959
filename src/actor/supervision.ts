// Supervision: decides what happens when a handler throws, how often an actor may restart, and how long it waits before.
// A crashed actor loses its current message only: what waits in its mailbox is handled by the next incarnation.

/**
 * - `restart`: children stop, timers end, a new incarnation is made by the behavior; the mailbox is kept
 * - `resume`: the same incarnation goes on with the next message
 * - `stop`: the actor stops
 * - `escalate`: the actor stops and its parent fails in turn; a top-level actor fails the system
 */
export type Directive = 'restart' | 'resume' | 'stop' | 'escalate';

/** Waiting time between crash and restart: `minMs * factor ** (n - 1)` for the n-th restart in the period. */
export interface Backoff {
  readonly minMs: number;
  readonly maxMs: number;
  /** Default 2. */
  readonly factor?: number;
  /** Share of the delay that is random, 0 to 1: the delay is cut by up to this share. Default 0.2. */
  readonly jitter?: number;
}

/** How a parent supervises one child; given when the child is spawned. */
export interface Supervision {
  /** The decision, or a function of the error. Default `restart`. A function that throws means `escalate`. */
  readonly onFailure?: Directive | ((error: unknown) => Directive);
  /** Restart intensity: more restarts than this within the period escalate. Default 10. */
  readonly maxRestarts?: number;
  /** The period of the intensity in milliseconds. Default 60 000. */
  readonly withinMs?: number;
  /** Default: no waiting. Its sum over `maxRestarts` should fit into the period, or the intensity is never exceeded. */
  readonly backoff?: Backoff;
}

/** What the supervisor decided about one failure. `delayMs` is 0 unless a restart waits. */
export interface Decision {
  readonly directive: Directive;
  readonly delayMs: number;
}

const DEFAULT_MAX_RESTARTS = 10;
const DEFAULT_PERIOD_MS = 60_000;

/** Decides for one supervised actor and remembers its restarts within the period. */
export class Supervisor {
  readonly #policy: Supervision;
  readonly #restartsMs: number[] = [];

  constructor(policy: Supervision) {
    this.#policy = policy;
  }

  /** Decides about a failure at `nowMs`. */
  decide(error: unknown, nowMs: number, random: () => number): Decision {
    const directive = this.#directive(error);
    if (directive !== 'restart') return { directive, delayMs: 0 };
    const restarts = this.#restartsMs;
    const { maxRestarts = DEFAULT_MAX_RESTARTS, withinMs = DEFAULT_PERIOD_MS, backoff } = this.#policy;
    while (restarts[0] !== undefined && restarts[0] <= nowMs - withinMs) restarts.shift();
    if (restarts.length >= maxRestarts) return { directive: 'escalate', delayMs: 0 };
    restarts.push(nowMs);
    return { directive, delayMs: backoff === undefined ? 0 : backoffMs(backoff, restarts.length, random) };
  }

  #directive(error: unknown): Directive {
    const { onFailure = 'restart' } = this.#policy;
    if (typeof onFailure === 'string') return onFailure;
    try {
      return onFailure(error);
    } catch {
      return 'escalate';
    }
  }
}

/** The delay in milliseconds before an attempt of anything that backs off; `attempt` counts from 1. */
export function backoffMs(backoff: Backoff, attempt: number, random: () => number): number {
  const { minMs, maxMs, factor = 2, jitter = 0.2 } = backoff;
  return Math.min(maxMs, minMs * factor ** (attempt - 1)) * (1 - jitter * random());
}
