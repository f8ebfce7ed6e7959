// What the processes of `crash.slow.test.ts` set out to do, so that the test knows what has to come of it.

/** Customers that buy and spend at the same time, so that commits carry several of them. */
export const LANES = 4;

/** Purchases of each customer, and as many holds and charges. */
export const ROUNDS = 6;

/** The date for all of them. */
export const NOW_MS = 1_790_000_000_000;

/** What a purchase brings. */
export const PRICE = 1000n;

/** What the work of a round costs: once through a hold, once through a lease. */
export function chargeOf(lane: number, round: number): bigint {
  return BigInt(10 + lane * 7 + round * 3);
}
