// Prefix cache of slots, as in llama.cpp's server: a slot keeps the tokens of its last sequence, and a new sequence reuses
// the longest common prefix. Cells are shared by the slots; idle slots are evicted least recently used first.
import type { CacheAllocation, PrefixCache } from './prefix-cache.ts';

/** Cells are handed out in such portions, so that growing is rare. */
const PORTION_TOKENS = 32;

const NO_TOKENS = new Int32Array(0);

/** Part of the prompt a slot must share with it to be chosen for that. */
const SIMILARITY = 0.1;

export interface SlotSettings {
  readonly slots: number;
  /** Most tokens of one slot. */
  readonly contextTokens: number;
  /** Cells of all slots together; `slots * contextTokens` never runs out. */
  readonly capacityTokens: number;
  /** Which idle slot a cached prompt gets: the one that shares most with it (at least a tenth), or the least recently used. */
  readonly choice: 'similarity' | 'least-recent';
}

class Slot implements CacheAllocation {
  readonly slotId: number;
  cachedTokens = 0;
  roomTokens = 0;
  commitAt = Infinity;
  isBusy = false;
  isCached = false;
  lastUse = 0;
  /** What an idle slot holds; meaningless while busy. */
  held: Int32Array = NO_TOKENS;

  constructor(slotId: number) {
    this.slotId = slotId;
  }
}

export class SlotCache implements PrefixCache {
  readonly capacityTokens: number;
  usedTokens = 0;
  idleTokens = 0;
  readonly #settings: SlotSettings;
  readonly #slots: Slot[];
  #uses = 0;

  constructor(settings: SlotSettings) {
    this.capacityTokens = settings.capacityTokens;
    this.#settings = settings;
    this.#slots = Array.from({ length: settings.slots }, (_, slotId) => new Slot(slotId));
  }

  fits(tokens: number): boolean {
    return this.#portioned(tokens) <= this.capacityTokens;
  }

  admit(tokens: Int32Array, length: number, isCached: boolean, slotId: number): CacheAllocation | null {
    const roomTokens = this.#portioned(length);
    if (this.usedTokens + roomTokens > this.capacityTokens) return null;
    const slot = this.#choose(tokens, length, isCached, slotId);
    if (slot === undefined) return null;
    slot.cachedTokens = isCached ? Math.min(commonPrefix(slot.held, tokens, length), length - 1) : 0;
    this.#forget(slot);
    this.#purge(roomTokens);
    this.usedTokens += roomTokens;
    slot.roomTokens = roomTokens;
    slot.isBusy = true;
    slot.isCached = isCached;
    slot.lastUse = ++this.#uses;
    return slot;
  }

  grow(allocation: CacheAllocation): boolean {
    const added = this.#portioned(allocation.roomTokens + 1) - allocation.roomTokens;
    if (added <= 0 || this.usedTokens + added > this.capacityTokens) return false;
    this.#purge(added);
    this.usedTokens += added;
    allocation.roomTokens += added;
    return true;
  }

  commit(): void {}

  shift(): void {}

  release(allocation: CacheAllocation, tokens: Int32Array, computed: number): void {
    const slot = allocation as Slot;
    this.usedTokens -= slot.roomTokens;
    slot.roomTokens = 0;
    slot.isBusy = false;
    slot.lastUse = ++this.#uses;
    if (!slot.isCached) return;
    slot.held = tokens.subarray(0, computed);
    this.idleTokens += computed;
  }

  clear(): void {
    for (const slot of this.#slots) this.#forget(slot);
  }

  #portioned(tokens: number): number {
    return Math.min(Math.ceil(tokens / PORTION_TOKENS) * PORTION_TOKENS, this.#settings.contextTokens);
  }

  #choose(tokens: Int32Array, length: number, isCached: boolean, slotId: number): Slot | undefined {
    const wanted = this.#slots[slotId];
    if (wanted !== undefined && !wanted.isBusy) return wanted;
    let oldest: Slot | undefined;
    let closest: Slot | undefined;
    let most = length * SIMILARITY;
    const compares = isCached && this.#settings.choice === 'similarity';
    for (const slot of this.#slots) {
      if (slot.isBusy) continue;
      if (oldest === undefined || slot.lastUse < oldest.lastUse) oldest = slot;
      const common = compares ? commonPrefix(slot.held, tokens, length) : 0;
      if (common <= most) continue;
      most = common;
      closest = slot;
    }
    return closest ?? oldest;
  }

  #forget(slot: Slot): void {
    this.idleTokens -= slot.held.length;
    slot.held = NO_TOKENS;
  }

  /** Frees this many cells by evicting idle slots. */
  #purge(tokens: number): void {
    while (this.usedTokens + this.idleTokens + tokens > this.capacityTokens) {
      let oldest: Slot | undefined;
      for (const slot of this.#slots) {
        if (slot.held.length > 0 && (oldest === undefined || slot.lastUse < oldest.lastUse)) oldest = slot;
      }
      if (oldest === undefined) return;
      this.#forget(oldest);
    }
  }
}

/** Number of leading tokens that both have. */
function commonPrefix(held: Int32Array, tokens: Int32Array, length: number): number {
  const most = Math.min(held.length, length);
  let common = 0;
  while (common < most && held[common] === tokens[common]) common++;
  return common;
}
