// Work on many rows in one transaction after the other.

import { setImmediate } from 'node:timers/promises';

/**
 * Calls `round` until it has done fewer rows than `most`; answers with their sum. SQLite works in this thread, and promises alone give no
 * message and no timer its turn: they have it between two rounds.
 */
export async function inRounds(most: number, round: () => Promise<number>): Promise<number> {
  for (let sum = 0; ;) {
    const rows = await round();
    sum += rows;
    if (rows < most) return sum;
    await setImmediate();
  }
}
