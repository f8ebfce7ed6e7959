// Clocks and random sources, which are passed as arguments everywhere: of the process, and manual or seeded ones for tests.
// This file has the only ambient sources of time and randomness. `now()` never goes backwards and is not a date.

import { performance } from 'node:perf_hooks';

/** A timer of `setTimeout`; opaque, for `clearTimeout` of the same clock only. */
export type TimerHandle = object;

export interface Clock {
  /** Monotonic milliseconds with a fraction; the zero point is arbitrary. */
  now(): number;
  /** Calls back once, `delayMs` or a little more from now; at most a fraction of a millisecond early. */
  setTimeout(callback: () => void, delayMs: number): TimerHandle;
  /** Cancels a timer. No effect when it has run or was cleared before. */
  clearTimeout(handle: TimerHandle): void;
}

/** `performance.now` counts from another zero in each thread; times in shared memory must not. */
const ORIGIN_MS = performance.timeOrigin;

/** The longest delay the platform takes; anything above would fire at once. Longer ones are waited for in parts. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/**
 * A timer whose callback runs behind the reads of its turn of the event loop. A thread that stood still, for want of CPU time or because its
 * process was stopped, finds all its timers due: what has come meanwhile is read first, so that nobody is taken for silent.
 */
class SystemTimer {
  readonly #callback: () => void;
  #timeout!: NodeJS.Timeout;
  #immediate: NodeJS.Immediate | undefined;
  #keepsAlive = true;

  constructor(callback: () => void, delayMs: number) {
    this.#callback = callback;
    this.#arm(Math.ceil(delayMs));
  }

  clear(): void {
    clearTimeout(this.#timeout);
    clearImmediate(this.#immediate);
  }

  unref(): void {
    this.#keepsAlive = false;
    this.#timeout.unref();
  }

  #arm(delayMs: number): void {
    const due = (): void => {
      if (delayMs > MAX_DELAY_MS) this.#arm(delayMs - MAX_DELAY_MS);
      else this.#immediate = setImmediate(this.#callback);
    };
    this.#timeout = setTimeout(due, Math.min(delayMs, MAX_DELAY_MS));
    if (!this.#keepsAlive) this.#timeout.unref();
  }
}

/**
 * The clock of the process. Its timers keep the process alive (they are not unref'd): a system with a periodic timer
 * lives until `terminate()`, and awaiting an answer with a deadline always ends.
 */
export const systemClock: Clock = {
  now: () => ORIGIN_MS + performance.now(),
  setTimeout: (callback, delayMs) => new SystemTimer(callback, delayMs),
  clearTimeout: (handle) => (handle as SystemTimer).clear(),
};

/** The same clock; timers that are set through it keep no process alive. */
export function unreferenced(clock: Clock): Clock {
  return {
    now: () => clock.now(),
    setTimeout: (callback, delayMs) => {
      const timer = clock.setTimeout(callback, delayMs);
      if (timer instanceof SystemTimer) timer.unref();
      return timer;
    },
    clearTimeout: (timer) => clock.clearTimeout(timer),
  };
}

/**
 * Milliseconds since 1970 by the wall clock of the machine. It follows corrections of the clock and the time that the machine
 * was suspended, and may go back: a date, never a measure of time.
 */
// oxlint-disable-next-line no-restricted-properties -- the one place the ban points to
export const systemEpochMs: () => number = Date.now;

/** The random source of the process, uniform in [0, 1); not for secrets. */
// oxlint-disable-next-line no-restricted-properties -- the one place the ban points to
export const systemRandom: () => number = Math.random;

/** A clock that moves only when it is advanced. For tests and simulations. */
export interface ManualClock extends Clock {
  /**
   * Advances the time and runs the timers that fall due, in order of due time, then of creation. Timers set by a
   * callback run too when they are due within the same step.
   */
  advance(ms: number): void;
  /** When the next timer is due, as a `now()` value; Infinity when none is set. */
  readonly nextDueMs: number;
}

interface ManualTimer {
  readonly dueMs: number;
  readonly callback: () => void;
}

export function createManualClock(startMs = 0): ManualClock {
  let nowMs = startMs;
  const timers: ManualTimer[] = [];
  return {
    now: () => nowMs,
    setTimeout(callback, delayMs) {
      const timer: ManualTimer = { dueMs: nowMs + Math.max(0, delayMs), callback };
      const index = timers.findIndex((other) => other.dueMs > timer.dueMs);
      timers.splice(index === -1 ? timers.length : index, 0, timer);
      return timer;
    },
    clearTimeout(handle) {
      const index = timers.indexOf(handle as ManualTimer);
      if (index !== -1) timers.splice(index, 1);
    },
    get nextDueMs() {
      return timers[0]?.dueMs ?? Infinity;
    },
    advance(ms) {
      const targetMs = nowMs + ms;
      for (let next = timers[0]; next !== undefined && next.dueMs <= targetMs; next = timers[0]) {
        timers.shift();
        // A callback may have advanced the clock further.
        nowMs = Math.max(nowMs, next.dueMs);
        next.callback();
      }
      nowMs = Math.max(nowMs, targetMs);
    },
  };
}

/** A random source, uniform in [0, 1), that gives the same numbers for the same seed (mulberry32). */
export function createSeededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
