// Clocks for the simulated engine: one that runs at a multiple of real time, and a virtual one that jumps from timer to
// timer, so that simulated time costs only the work done in it.
import { type Clock, type ManualClock, createManualClock } from '../../actor/index.ts';

/** A clock that runs `factor` times as fast as the one it is made from, from the same zero point. */
export function createSpedClock(clock: Clock, factor: number): Clock {
  if (!(factor > 0 && factor < Infinity)) throw new RangeError('the factor of a sped-up clock must be above 0');
  return {
    now: () => clock.now() * factor,
    setTimeout: (callback, delayMs) => clock.setTimeout(callback, delayMs / factor),
    clearTimeout: (handle) => clock.clearTimeout(handle),
  };
}

export interface VirtualClock extends Clock {
  /** Jumps to the next timer and runs it; false when none is set. */
  step(): boolean;
  /** Steps until no timer is set; the number of steps. Throws a RangeError after `maxSteps`, by default a million. */
  run(maxSteps?: number): number;
}

/**
 * A clock whose time passes only in `step` and `run`.
 * @param turn makes it move by itself: called with a function to run later, such as `setImmediate`, whenever a timer is
 *   set and nothing is going to run yet. One timer runs in each turn, so that other work of the process comes between.
 */
export function createVirtualClock(turn?: (run: () => void) => void): VirtualClock {
  const clock: ManualClock = createManualClock();
  let isTurning = false;
  const move = (): void => {
    isTurning = false;
    step();
    keepMoving();
  };
  const keepMoving = (): void => {
    if (turn === undefined || isTurning || clock.nextDueMs === Infinity) return;
    isTurning = true;
    turn(move);
  };
  const step = (): boolean => {
    const dueMs = clock.nextDueMs;
    if (dueMs === Infinity) return false;
    // The sum inside `advance` may round to just below the due time; the smallest step up then reaches it.
    let aheadMs = dueMs - clock.now();
    while (clock.now() + aheadMs < dueMs) aheadMs += Number.EPSILON * Math.max(1, Math.abs(dueMs));
    clock.advance(aheadMs);
    return true;
  };
  return {
    now: () => clock.now(),
    setTimeout(callback, delayMs) {
      const handle = clock.setTimeout(callback, delayMs);
      keepMoving();
      return handle;
    },
    clearTimeout: (handle) => clock.clearTimeout(handle),
    step,
    run(maxSteps = 1_000_000) {
      let steps = 0;
      while (step()) {
        if (++steps > maxSteps) throw new RangeError(`the clock still has timers after ${maxSteps} steps`);
      }
      return steps;
    },
  };
}
