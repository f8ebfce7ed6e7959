// What the process of `crash-child.ts` does, known to the test as well: lanes that each buy credits and pay for requests.

import { Payer } from '../../support/payer.ts';

export const LANES = 3;
export const ROUNDS = 3;

/** Units of a purchase and of a request. */
export const PURCHASE_UNITS = 2_000_000;
export const CALL_UNITS = 20_000;

/** 2026-03-31T23:59:00Z; time stands still over all lives. */
export const NOW_MS: number = Date.UTC(2026, 2, 31, 23, 59);

export function payerOf(lane: number): Payer {
  return new Payer(BigInt(lane + 1));
}

/** Payments that a request may need: each death may leave one reserved. */
export const ATTEMPTS = 8;

export function nonceOf(round: number, kind: 'buy' | 'call', attempt: number): number {
  return (round * 2 + (kind === 'buy' ? 0 : 1)) * ATTEMPTS + attempt + 1;
}
