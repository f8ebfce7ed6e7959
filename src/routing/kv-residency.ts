// What the KV events of one server say about its cache: the blocks in it, their tokens, and the capacity once blocks are evicted. The
// digests of blocks are kept, since a subscriber that joins late hears of the removal of blocks that it never heard stored.
// Memory is bounded: above a number of blocks, a sample of them stands for all.

import type { KvEvent } from './kv-event-batch.ts';

/** Blocks that are kept, about 3 MB. A sample of half as many has an error of 0.6 %. */
const MAX_BLOCKS = 65_536;

const DEVICE = 1;
const OTHER = 2;
/** Tiers stand in the two lowest bits of a value, tokens above them. */
const TIER_BITS = 2;
const TIERS = DEVICE | OTHER;

/** Weight of one removed block in the share of unknown ones and in the capacity. */
const WEIGHT = 1 / 64;

/** With a larger share of unknown blocks among the removed ones, the resident tokens are too few to tell the capacity. */
const MAX_UNKNOWN_SHARE = 0.05;

export class KvResidency {
  readonly #blocks = new Map<number, number>();
  /** Groups that do not keep every token of a prefix: they say nothing about how much of a prompt is there. */
  readonly #partialGroups = new Set<number>();
  readonly #maxBlocks: number;
  #tokens = 0;
  /** One block in `2 ** shift` is in the sample. */
  #shift = 0;
  #unknownShare = 1;
  #capacity = 0;
  #removedTokens = 0;

  constructor(maxBlocks: number = MAX_BLOCKS) {
    this.#maxBlocks = maxBlocks;
  }

  /** Tokens that are known to be in the cache, in whichever tier. Fewer than there are after joining late or losing a batch. */
  get residentTokens(): number {
    return this.#tokens * 2 ** this.#shift;
  }

  /** Tokens that the cache holds when it is full; 0 until blocks have been evicted whose storing is known. */
  get capacityTokens(): number {
    return Math.round(this.#capacity);
  }

  /** Tokens that have been removed, ever. */
  get removedTokens(): number {
    return this.#removedTokens;
  }

  /** The cache is known to be empty. */
  clear(): void {
    this.forget();
    this.#unknownShare = 0;
  }

  /** What is in the cache is unknown from now on; its capacity stays. */
  forget(): void {
    this.#blocks.clear();
    this.#tokens = 0;
    this.#shift = 0;
    this.#unknownShare = 1;
  }

  apply(event: KvEvent): void {
    if (event.type === 'cleared') {
      this.clear();
      return;
    }
    if (event.type === 'stored' && !event.keepsPrefix) this.#partialGroups.add(event.group);
    if (this.#partialGroups.has(event.group)) return;
    const tier = event.medium === 'device' ? DEVICE : OTHER;
    if (event.type === 'stored') for (const hash of event.hashes) this.#store(hash, event.blockTokens, tier);
    else for (const hash of event.hashes) this.#remove(hash, tier);
  }

  #store(hash: number, tokens: number, tier: number): void {
    if (!this.#isSampled(hash)) return;
    const known = this.#blocks.get(hash);
    if (known === undefined) {
      this.#blocks.set(hash, (tokens << TIER_BITS) | tier);
      this.#tokens += tokens;
      if (this.#blocks.size > this.#maxBlocks) this.#thin();
    } else {
      this.#blocks.set(hash, known | tier);
    }
  }

  #remove(hash: number, tier: number): void {
    if (!this.#isSampled(hash)) return;
    const known = this.#blocks.get(hash);
    const left = (known ?? 0) & TIERS & ~tier;
    this.#unknownShare += ((known === undefined ? 1 : 0) - this.#unknownShare) * WEIGHT;
    if (known === undefined) return;
    if (left !== 0) {
      this.#blocks.set(hash, (known & ~TIERS) | left);
      return;
    }
    this.#learnCapacity();
    const tokens = known >> TIER_BITS;
    this.#blocks.delete(hash);
    this.#tokens -= tokens;
    this.#removedTokens += tokens * 2 ** this.#shift;
  }

  /** A block is evicted when the cache is full. What running requests hold is not resident, so the figure varies with the load. */
  #learnCapacity(): void {
    if (this.#unknownShare > MAX_UNKNOWN_SHARE) return;
    const resident = this.residentTokens;
    this.#capacity = resident > this.#capacity ? resident : this.#capacity + (resident - this.#capacity) * WEIGHT;
  }

  #isSampled(hash: number): boolean {
    return (hash & ((1 << this.#shift) - 1)) === 0;
  }

  /** Halves the sample. */
  #thin(): void {
    this.#shift++;
    for (const [hash, value] of this.#blocks) {
      if (this.#isSampled(hash)) continue;
      this.#blocks.delete(hash);
      this.#tokens -= value >> TIER_BITS;
    }
  }
}
