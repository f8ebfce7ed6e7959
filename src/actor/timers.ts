// Timers of one incarnation of an actor. No tick is delivered after a stop, a restart or the cancelling of its timer, not
// even one that already waits. Ticks are delivered past a full mailbox, behind the messages that came before; at most one
// for each key waits.

import type { Clock, TimerHandle } from './clock.ts';

/** Timers of an actor, each under a key of its choice; setting a key again replaces its timer. */
export interface Timers<M> {
  /** Tells the actor `message` once, `delayMs` from now. */
  once(key: string, delayMs: number, message: M): void;
  /** Tells the actor `message` every `periodMs`. Ticks that could not be handled in time are skipped, not queued up. */
  every(key: string, periodMs: number, message: M): void;
  /** Whether a timer of this key is set. */
  has(key: string): boolean;
  cancel(key: string): void;
  cancelAll(): void;
}

/** One running timer; `message` is what its tick tells. */
export class Timer {
  readonly key: string;
  readonly message: unknown;
  readonly periodMs: number;
  dueMs: number;
  /** A tick waits for delivery. */
  queued = false;
  cancelled = false;
  handle: TimerHandle | null = null;

  constructor(key: string, message: unknown, dueMs: number, periodMs: number) {
    this.key = key;
    this.message = message;
    this.dueMs = dueMs;
    this.periodMs = periodMs;
  }
}

/** Shorter periods would starve the event loop. */
const MIN_PERIOD_MS = 1;

/** The timers of one incarnation. */
export class ActorTimers<M> implements Timers<M> {
  readonly #clock: Clock;
  readonly #due: (timer: Timer) => void;
  readonly #timers = new Map<string, Timer>();
  #ended = false;

  /** `due` queues a tick; the actor calls `take` when it is delivered. */
  constructor(clock: Clock, due: (timer: Timer) => void) {
    this.#clock = clock;
    this.#due = due;
  }

  once(key: string, delayMs: number, message: M): void {
    this.#set(key, message, Math.max(0, delayMs), 0);
  }

  every(key: string, periodMs: number, message: M): void {
    const period = Math.max(MIN_PERIOD_MS, periodMs);
    this.#set(key, message, period, period);
  }

  has(key: string): boolean {
    return this.#timers.has(key);
  }

  cancel(key: string): void {
    const timer = this.#timers.get(key);
    if (timer === undefined) return;
    timer.cancelled = true;
    if (timer.handle !== null) this.#clock.clearTimeout(timer.handle);
    this.#timers.delete(key);
  }

  cancelAll(): void {
    for (const key of this.#timers.keys()) this.cancel(key);
  }

  /** Cancels everything and accepts nothing more. */
  end(): void {
    this.cancelAll();
    this.#ended = true;
  }

  /** Whether a tick is still to be delivered. Ends a timer that ticks once. */
  take(timer: Timer): boolean {
    timer.queued = false;
    if (timer.cancelled) return false;
    if (timer.periodMs === 0) this.#timers.delete(timer.key);
    return true;
  }

  #set(key: string, message: M, delayMs: number, periodMs: number): void {
    this.cancel(key);
    if (this.#ended) return;
    const timer = new Timer(key, message, this.#clock.now() + delayMs, periodMs);
    this.#timers.set(key, timer);
    this.#arm(timer, delayMs);
  }

  #arm(timer: Timer, delayMs: number): void {
    timer.handle = this.#clock.setTimeout(() => this.#fire(timer), delayMs);
  }

  #fire(timer: Timer): void {
    timer.handle = null;
    if (timer.periodMs > 0) {
      const nowMs = this.#clock.now();
      // Due times stay on their grid: a late tick does not shift the next ones.
      const missed = Math.max(0, Math.floor((nowMs - timer.dueMs) / timer.periodMs));
      timer.dueMs += (missed + 1) * timer.periodMs;
      this.#arm(timer, timer.dueMs - nowMs);
    }
    if (timer.queued) return;
    timer.queued = true;
    this.#due(timer);
  }
}
