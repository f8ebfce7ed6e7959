// Time as an argument. The system clock and the manual clock of tests share one interface; every part of the
// gateway that waits or measures takes a `Clock`. This file and `systemRandom` are the only ambient sources of
// monotonic time and randomness. `now()` never goes backwards and says nothing about the date.

/** What `setTimeout` of a clock hands out; opaque, only good for `clearTimeout` of the same clock. */
export type TimerHandle = object;

export interface Clock {
  /** Monotonic milliseconds with a fraction; the zero point is arbitrary. */
  now(): number;
  /** Calls back once, `delayMs` or a little more from now, never earlier by more than a millisecond's fraction. */
  setTimeout(callback: () => void, delayMs: number): TimerHandle;
  /** Takes a timer back. Harmless when it has run or was cleared before. */
  clearTimeout(handle: TimerHandle): void;
}

/** Threads count from different zero points; dates on shared boards must not. */
const ORIGIN_MS = performance.timeOrigin;

/** The longest delay the platform takes; anything above would fire at once. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/**
 * The clock of the process. Its timers keep the process alive (they are not unref'd): a system with a periodic timer
 * lives until `terminate()`, and awaiting an answer with a deadline always ends.
 */
export const systemClock: Clock = {
  now: () => ORIGIN_MS + performance.now(),
  setTimeout: (callback, delayMs) => setTimeout(callback, Math.min(Math.ceil(delayMs), MAX_DELAY_MS)),
  clearTimeout: (handle) => clearTimeout(handle as NodeJS.Timeout),
};

/** The random source of the process, uniform in [0, 1); not for secrets. */
// oxlint-disable-next-line no-restricted-properties -- the one place the ban points to
export const systemRandom: () => number = Math.random;

/** A clock that stands still until it is told to move. For tests and simulations. */
export interface ManualClock extends Clock {
  /**
   * Moves time forward and runs every timer that falls due on the way, in order of due time, then of creation.
   * Timers set by a running callback take part when they are due within the same step.
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
        nowMs = next.dueMs;
        next.callback();
      }
      nowMs = targetMs;
    },
  };
}

/** A repeatable random source, uniform in [0, 1); the same seed gives the same numbers (mulberry32). */
export function createSeededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
