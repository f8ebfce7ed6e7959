// The memory of the engine, as the scheduler sees it: room for the tokens of running sequences, and what is left behind by
// ended ones so that a later prompt with the same beginning need not be computed again. Two kinds implement it: slots.ts
// and blocks.ts. What must stay true: when nothing runs, `usedTokens` is 0, and `usedTokens + idleTokens` never exceeds
// `capacityTokens`.

/** What one running sequence holds. Made by `admit`, dead after `release`. */
export interface Lease {
  readonly slotId: number;
  /** Leading tokens that were already there; always fewer than the sequence has, since the last one must be evaluated. */
  readonly cachedTokens: number;
  /** Tokens it may hold before `grow` must be asked. */
  roomTokens: number;
  /** Computed tokens at which the cache wants `commit`. */
  commitAt: number;
}

export interface PrefixCache {
  readonly capacityTokens: number;
  /** Room held by running sequences, in tokens; shared room counts once. */
  readonly usedTokens: number;
  /** Room that holds only what may be reused, in tokens. */
  readonly idleTokens: number;
  /** Whether so many tokens could be held if nothing else ran. */
  fits(tokens: number): boolean;
  /**
   * Room for the first `length` of `tokens`. Null when there is no slot or no room now; nothing has changed then.
   * @param isCached whether their beginning may be reused, and this sequence be found by later ones
   * @param slotId wanted slot; -1: any
   */
  admit(tokens: Int32Array, length: number, isCached: boolean, slotId: number): Lease | null;
  /** Adds room to a lease. False when memory is exhausted; nothing has changed then. */
  grow(lease: Lease): boolean;
  /** The first `computed` of `tokens` are in memory now. */
  commit(lease: Lease, tokens: Int32Array, computed: number): void;
  /**
   * Tokens behind the first `kept` are dropped and others move up, so that they are no longer where their names say. Room
   * may be lost with them; `grow` until there is enough for the rest.
   */
  shift(lease: Lease, kept: number): void;
  /** Gives the room back; the first `computed` of `tokens`, which the cache may keep, stay behind if it was cached. */
  release(lease: Lease, tokens: Int32Array, computed: number): void;
  /** Forgets all that is not in use. */
  clear(): void;
}
