// Prefix cache of shared KV blocks, as in vLLM. A full block is identified by the hash of all tokens up to its end; sequences
// with the same prefix share blocks. A block is either held (count above 0) or in the free list, never both; free blocks are
// evicted least recently used first.
import type { CacheAllocation, PrefixCache } from './prefix-cache.ts';

export interface BlockSettings {
  readonly blocks: number;
  readonly blockTokens: number;
  /** Most sequences that hold blocks at a time. */
  readonly sequences: number;
}

/** Is told of every change of the blocks that later prompts can find. A name stands for all tokens up to the end of a block. */
export interface BlockObserver {
  /** A block can be found: the tokens from `start` to `end`, behind the block `parent`. */
  stored(name: number, parent: number, tokens: Int32Array, start: number, end: number): void;
  /** A block was evicted. */
  removed(name: number): void;
  /** Nothing can be found any more. */
  cleared(): void;
}

/** Key of a block without a name. Names are whole numbers below 2^53. */
const UNNAMED = -1;

const LEAST_TABLE_BLOCKS = 16;

class BlockTable implements CacheAllocation {
  readonly slotId: number;
  cachedTokens = 0;
  roomTokens = 0;
  commitAt = Infinity;
  blocks: Int32Array;
  count = 0;
  /** Leading blocks that have been offered under their names, and the name of the last of them. */
  named = 0;
  name = 0;

  constructor(slotId: number, blocks: number) {
    this.slotId = slotId;
    this.blocks = new Int32Array(Math.max(LEAST_TABLE_BLOCKS, blocks));
  }

  push(block: number): void {
    if (this.count === this.blocks.length) {
      const wider = new Int32Array(this.count * 2);
      wider.set(this.blocks);
      this.blocks = wider;
    }
    this.blocks[this.count++] = block;
  }
}

export class BlockCache implements PrefixCache {
  readonly capacityTokens: number;
  readonly #blockTokens: number;
  readonly #holders: Int32Array;
  readonly #names: Float64Array;
  readonly #byName = new Map<number, number>();
  readonly #free: FreeList;
  readonly #slots: number[];
  readonly #observer: BlockObserver | undefined;

  constructor(settings: BlockSettings, observer?: BlockObserver) {
    this.#observer = observer;
    this.capacityTokens = settings.blocks * settings.blockTokens;
    this.#blockTokens = settings.blockTokens;
    this.#holders = new Int32Array(settings.blocks);
    this.#names = new Float64Array(settings.blocks).fill(UNNAMED);
    this.#free = new FreeList(settings.blocks);
    this.#slots = Array.from({ length: settings.sequences }, (_, at) => settings.sequences - 1 - at);
  }

  get usedTokens(): number {
    return this.capacityTokens - this.#free.size * this.#blockTokens;
  }

  get idleTokens(): number {
    return this.#free.named * this.#blockTokens;
  }

  fits(tokens: number): boolean {
    return tokens <= this.capacityTokens;
  }

  /** Leading tokens of a prompt that are in memory, as `admit` would find them now. Nothing changes. */
  cachedTokens(tokens: Int32Array, length: number): number {
    let name = 0;
    let end = this.#blockTokens;
    for (; end < length; end += this.#blockTokens) {
      name = nameOf(name, tokens, end - this.#blockTokens, end);
      if (!this.#byName.has(name)) break;
    }
    return end - this.#blockTokens;
  }

  admit(tokens: Int32Array, length: number, isCached: boolean, _slotId: number): CacheAllocation | null {
    const needed = Math.ceil(length / this.#blockTokens);
    const slot = this.#slots.at(-1);
    if (slot === undefined) return null;
    const table = new BlockTable(slot, needed);
    const idle = isCached ? this.#find(table, tokens, length) : 0;
    if (needed - table.count > this.#free.size - idle) return null;
    this.#slots.pop();
    for (let at = 0; at < table.count; at++) this.#hold(table.blocks[at]!);
    while (table.count < needed) table.push(this.#take());
    table.cachedTokens = table.named * this.#blockTokens;
    table.roomTokens = needed * this.#blockTokens;
    if (isCached) table.commitAt = (table.named + 1) * this.#blockTokens;
    return table;
  }

  grow(allocation: CacheAllocation): boolean {
    if (this.#free.size === 0) return false;
    (allocation as BlockTable).push(this.#take());
    allocation.roomTokens += this.#blockTokens;
    return true;
  }

  commit(allocation: CacheAllocation, tokens: Int32Array, computed: number): void {
    const table = allocation as BlockTable;
    for (; table.commitAt <= computed; table.named++, table.commitAt += this.#blockTokens) {
      const parent = table.name;
      const start = table.named * this.#blockTokens;
      table.name = nameOf(parent, tokens, start, table.commitAt);
      // Of two sequences that computed the same, the first keeps the name; the other's block stays its own.
      if (this.#byName.has(table.name)) continue;
      const block = table.blocks[table.named]!;
      this.#byName.set(table.name, block);
      this.#names[block] = table.name;
      this.#observer?.stored(table.name, parent, tokens, start, table.commitAt);
    }
  }

  shift(allocation: CacheAllocation, kept: number): void {
    const table = allocation as BlockTable;
    this.#drop(table, Math.floor(kept / this.#blockTokens));
    // What follows was computed at other positions and must not be found by the hash of its tokens.
    table.commitAt = Infinity;
    table.roomTokens = table.count * this.#blockTokens;
  }

  release(allocation: CacheAllocation, tokens: Int32Array, computed: number): void {
    const table = allocation as BlockTable;
    this.commit(table, tokens, computed);
    this.#drop(table, 0);
    this.#slots.push(table.slotId);
  }

  clear(): void {
    for (const [name, block] of this.#byName) {
      if (this.#holders[block] !== 0) continue;
      this.#byName.delete(name);
      this.#names[block] = UNNAMED;
    }
    this.#free.forget();
    this.#observer?.cleared();
  }

  /** Adds the cached blocks of the prefix to the table without holding them; returns how many of them are free. */
  #find(table: BlockTable, tokens: Int32Array, length: number): number {
    let idle = 0;
    for (let end = this.#blockTokens; end < length; end += this.#blockTokens) {
      const name = nameOf(table.name, tokens, end - this.#blockTokens, end);
      const block = this.#byName.get(name);
      if (block === undefined) break;
      table.push(block);
      table.named++;
      table.name = name;
      if (this.#holders[block] === 0) idle++;
    }
    return idle;
  }

  #hold(block: number): void {
    if (this.#holders[block]!++ === 0) this.#free.remove(block, true);
  }

  /** The block that was of no use for longest, nameless from now on. */
  #take(): number {
    const block = this.#free.first;
    const name = this.#names[block]!;
    this.#free.remove(block, name !== UNNAMED);
    if (name !== UNNAMED) {
      this.#byName.delete(name);
      this.#observer?.removed(name);
    }
    this.#names[block] = UNNAMED;
    this.#holders[block] = 1;
    return block;
  }

  /** Lets go of the blocks behind the first `count`, the last one first, so that it is also the first to be taken. */
  #drop(table: BlockTable, count: number): void {
    while (table.count > count) {
      const block = table.blocks[--table.count]!;
      if (--this.#holders[block]! > 0) continue;
      this.#free.add(block, this.#names[block] !== UNNAMED);
    }
  }
}

/** Free blocks in the order of eviction: blocks without hash first, then by last use. */
class FreeList {
  size: number;
  named = 0;
  readonly #end: number;
  readonly #before: Int32Array;
  readonly #after: Int32Array;

  constructor(blocks: number) {
    this.size = blocks;
    this.#end = blocks;
    this.#before = new Int32Array(blocks + 1);
    this.#after = new Int32Array(blocks + 1);
    for (let at = 0; at <= blocks; at++) {
      this.#before[at] = at === 0 ? blocks : at - 1;
      this.#after[at] = at === blocks ? 0 : at + 1;
    }
  }

  get first(): number {
    return this.#after[this.#end]!;
  }

  add(block: number, isNamed: boolean): void {
    const before = isNamed ? this.#before[this.#end]! : this.#end;
    const after = this.#after[before]!;
    this.#after[before] = block;
    this.#before[block] = before;
    this.#after[block] = after;
    this.#before[after] = block;
    this.size++;
    if (isNamed) this.named++;
  }

  remove(block: number, isNamed: boolean): void {
    const before = this.#before[block]!;
    const after = this.#after[block]!;
    this.#after[before] = after;
    this.#before[after] = before;
    this.size--;
    if (isNamed) this.named--;
  }

  /** All of them are nameless from now on. */
  forget(): void {
    this.named = 0;
  }
}

/** Name of a block: two 32-bit multiplicative hashes over the name before it and its tokens, 53 bits of them kept. */
function nameOf(before: number, tokens: Int32Array, start: number, end: number): number {
  let low = (before | 0) ^ 0x2545f491;
  let high = (before / 0x1_0000_0000) | 0;
  for (let at = start; at < end; at++) {
    const token = tokens[at]! + 1;
    low = Math.imul(low ^ token, 0x9e3779b1);
    low ^= low >>> 15;
    high = Math.imul(high + token, 0x85ebca6b);
    high ^= high >>> 13;
  }
  return ((high ^ low) & 0x1f_ffff) * 0x1_0000_0000 + (low >>> 0);
}
