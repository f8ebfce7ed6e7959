// Passes time on a manual clock for code that also waits for promises.

import { setImmediate } from 'node:timers/promises';
import type { ManualClock } from '../../src/actor/clock.ts';

/** Stops at every timer that is due by then; after each, and at the end, what has become possible is done. */
export async function advance(clock: ManualClock, ms: number): Promise<void> {
  const endMs = clock.now() + ms;
  for (;;) {
    await setImmediate();
    if (clock.nextDueMs > endMs) break;
    clock.advance(Math.max(0, clock.nextDueMs - clock.now()));
  }
  clock.advance(Math.max(0, endMs - clock.now()));
  await setImmediate();
}
