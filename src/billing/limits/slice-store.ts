// What gateways that share limits ask the engine for, and what it answers. The model is described in `slice-manager.ts`.

import type { WindowPart } from './limit-table.ts';

/** How long a quota counts after its claim, by the clock of the engine. */
export const SLICE_LEASE_MS = 5000;

/** One resource of a claim. Numbers are counts, of budgets pico-USD. */
export interface ResourceClaim {
  /** -1: none. */
  readonly limit: number;
  /** Counted, or of a budget: spent beyond the ledger's sum and reserved. */
  readonly used: number;
  /** `used` and what is kept of the slice: it may be used while the claim is under way. */
  readonly keep: number;
  /** What waiting requests need beyond `keep`, and what shall be left after them. */
  readonly need: number;
  readonly want: number;
  /** What the first of the waiting requests needs at least. */
  readonly first: number;
}

export interface SliceClaim {
  /** Names the key or the period of a budget, in 32 hexadecimal digits. */
  readonly id: string;
  readonly kind: 'key' | 'budget';
  /** Grows with each claim of this process: an older one that arrives later does not count. */
  readonly sequence: number;
  /** Nothing is claimed: what was counted stays until it leaves the window. */
  readonly isQuiet: boolean;
  /** Of a key: running requests, requests, tokens. Of a budget: money. */
  readonly resources: readonly ResourceClaim[];
  readonly parts: readonly WindowPart[];
  /** Sum of the ledger for the period, as far as this process has read it. */
  readonly ledger: number;
}

/** Answer to a claim, a number for each resource. */
export interface SliceGrant {
  readonly quota: readonly number[];
  /** What siblings have, their slices included; and their slices alone. */
  readonly others: readonly number[];
  readonly spare: readonly number[];
  /** Until the first of the waiting requests has place, if no other comes; 0: not known. Until the window is empty. */
  readonly retryMs: number;
  readonly resetMs: number;
}

/** What siblings share. */
export interface SliceStore {
  /** Claims slices, in one call. Null: a later claim was there first. Rejects when there is no answer in time. */
  exchange(claims: readonly SliceClaim[], timeoutMs: number): Promise<readonly (SliceGrant | null)[]>;
  /** Asks siblings to give back the slices of these keys and budgets. */
  recall(ids: readonly string[]): void;
}
