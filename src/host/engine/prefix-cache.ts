// The interface of KV memory: space for running sequences, and prefixes kept from ended ones. When nothing runs `usedTokens`
// is 0; `usedTokens + idleTokens` never exceeds `capacityTokens`.
/** Memory held by one running sequence: returned by `admit`, invalid after `release`. */
export interface CacheAllocation {
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
  /** Whether this many tokens could be held if nothing else ran. */
  fits(tokens: number): boolean;
  /**
   * Room for the first `length` of `tokens`. Null when there is no slot or no room now; nothing has changed then.
   * @param isCached whether their beginning may be reused, and this sequence be found by later ones
   * @param slotId wanted slot; -1: any
   */
  admit(tokens: Int32Array, length: number, isCached: boolean, slotId: number): CacheAllocation | null;
  /** Adds room to a lease. False when memory is exhausted; nothing has changed then. */
  grow(allocation: CacheAllocation): boolean;
  /** The first `computed` of `tokens` are in memory now. */
  commit(allocation: CacheAllocation, tokens: Int32Array, computed: number): void;
  /**
   * Tokens behind the first `kept` are dropped and others move up, so that they are no longer where their names say. Room
   * may be lost with them; `grow` until there is enough for the rest.
   */
  shift(allocation: CacheAllocation, kept: number): void;
  /** Gives the room back; the first `computed` of `tokens`, which the cache may keep, stay behind if it was cached. */
  release(allocation: CacheAllocation, tokens: Int32Array, computed: number): void;
  /** Forgets all that is not in use. */
  clear(): void;
}
