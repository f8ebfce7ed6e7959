// Index of prompt blocks in memory that all threads share: which member of a model (a CRN) holds which blocks in its KV cache, as far
// as is known from what was sent to it. Blocks are named by chained hashes, so that a block stands for the whole prompt up to its end.
//
// | words                     | written by                                          | read by     |
// |---------------------------|-----------------------------------------------------|-------------|
// | clock, member             | any thread, `Atomics.add` and `sub` only            | any thread  |
// | capacity, member          | any thread; the last value counts                   | any thread  |
// | key, slot                 | any thread, `Atomics.compareExchange` only          | any thread  |
// | stamp ^ mask(key), slot   | the thread that took the slot; who renews the entry | any thread  |
//
// Slots are in lines of eight, one cache line each: eight keys, then eight stamps. A key is the member (12 bits) and 20 bits of the
// block's hash, never 0. The line is chosen by other bits of the hash and by the member: members share lines by four, and the lines of
// one block for all members are within 4 KiB.
//
// Time is counted in units of 512 bytes of prompt. When a member gets a prompt, its clock advances by one for each unit that it does not
// hold, and by age / capacity for each unit that it holds: in an LRU cache, a hit ages only what is younger than itself. It advances by
// one at least, so that each prompt has a time of its own. The blocks get as stamp the clock less the units before the block: the
// first block of a prompt is its youngest, as in a cache that frees the last block of a request first. A block is held while its age,
// `clock - stamp` modulo 2^32, is less than the capacity of its member. Withdrawing a block sets an old stamp, forgetting a member
// advances its clock by more than any capacity.
//
// Other gateways are told of some blocks only, the anchors: the first ones, and then each that is a part (1 / `ANCHOR_PART`) further than the one
// before. Whoever holds a block holds those before it, so that a gateway knows of a prompt that another one has sent up to the last
// anchor, in a tenth of the bytes. Prompts are looked up by their anchors first, then between two of them.
//
// Invariants:
// 1. Slots of a line are taken from the first to the last and never become empty again. An entry takes an empty slot as long as there
//    is one, else that of the entry that is oldest, relative to the capacity of its member: last blocks go before first ones. So an
//    entry that was written to its end is only lost to another one in a full line.
// 2. The clock is advanced before a stamp is written. It goes back only by what a prompt has advanced it that was refused: stamps of what
//    was entered meanwhile are ahead by as much, and so they are for a thread that reads the clock too early. What is ahead by up to 512
//    of the longest prompts counts as just entered. A time that went back is that of a second entry; `withdraw` takes one for the other.
// 3. Nothing is locked. Between the two stores of a new entry, and after a thread has died there, its stamp is that of another key and
//    decodes to a random number, which counts as held with a probability of (capacity + 2^20) / 2^32. The next thread that enters the
//    block completes it; the next one that needs the slot takes it. Two threads that take one slot of a full line at the same time
//    leave either entry or such a one. A thread that is overtaken by the clearing of a member may set stamps from before it.
// 4. An entry whose age wraps around would be held again after 2^32 units, or 2^11 clearings of its member. A line that is used
//    gets new entries long before: entries are spread evenly, so that a line of 2^20 gets 2^12 of them in 2^32 units.
// 5. A block that was never entered is found with a probability of 2^-20 for each entry of the member in the line.

import type { PlacementRing } from './placement-ring.ts';

/** A unit of clocks, stamps and capacities: the shorter blocks, in bytes. */
const UNIT_BITS = 9;
const UNIT_BYTES = 1 << UNIT_BITS;

/** Blocks of one unit at the beginning of a prompt; the others have `LONG_UNITS`. */
const SHORT_BLOCKS = 128;
const LONG_UNITS = 4;

/** Slots of a line, and words of a line. */
const SLOTS = 8;
const LINE_WORDS = 2 * SLOTS;
const LINE_BYTES = LINE_WORDS * 4;

/** Words before the first line: buffers begin 16 bytes behind a multiple of 64 (malloc), and lines must not cross cache lines. */
const PADDING_WORDS = 12;

/** Bits of the hash in a key. */
const TAG_BITS = 20;
const TAG_MASK = (1 << TAG_BITS) - 1;

/** Members that fit into a key. */
const MAX_MEMBERS = 2 ** (32 - TAG_BITS);

/**
 * Lines on which the entries of one block for all members are: 4 KiB, one page. To ask 64 members for 200 blocks takes a quarter of the
 * time that it takes when each member has its line somewhere.
 */
const NEAR_LINES = 64;

/** Members of neighbouring cells whose entries of one block are on one line, as bits of the cell. */
const SHARED_BITS = 2;

/** Lines at most, for 4 GiB. */
const MAX_LINES = 2 ** 26;

/** Least memory of an index, in bytes. */
export const MIN_INDEX_BYTES: number = 64 * 1024;

/** Largest capacity of a member in bytes of prompt: about 250 million tokens. */
const MAX_CAPACITY_BYTES = 2 ** 30;
const MAX_CAPACITY_UNITS = MAX_CAPACITY_BYTES / UNIT_BYTES;

/** Capacity of a member of which nothing is known, in bytes of prompt: about 4 million tokens. Too much is mostly harmless. */
const ASSUMED_CAPACITY_BYTES = 2 ** 24;

/** A stamp may be ahead of a clock that went back, or that was read too early: by less than 512 of the longest prompts. */
const AHEAD_UNITS = 2 ** 20;

/** Words of a member. */
const MEMBER_WORDS = 2;
const CLOCK = 0;
/** In bytes; 0 is unknown. */
const CAPACITY = 1;

/** Lines that are looked at to estimate what is in use. */
const SAMPLED_LINES = 1024;

/**
 * With other gateways, an entry renews only blocks whose age is more than this part of the capacity (as a shift): what was told lately needs
 * not be told again. Chosen by `bench/locality/index-clock.mjs`.
 */
const FRESH_SHIFT = 3;

/** Anchors of a prompt: its first blocks, and then each that is at least so many times further than the one before. */
const FIRST_ANCHORS = 8;
const ANCHOR_PART = 8;

/** Blocks of a prompt that may be anchors; the longest prompts have a fortieth. */
const ANCHORED_BLOCKS = 1 << 14;

/** Anchors by their number, and the number of anchors before a block. */
const ANCHORS: Int32Array = anchors();
const ANCHORS_BEFORE: Uint16Array = anchorsBefore();

/** Anchors of the longest prompt. */
export const MAX_ANCHORS: number = ANCHORS.length;

/** Instead of the slot of a block that an entry does not renew. */
const FRESH = -1;

/** The memory of an index; can be posted to another thread. */
export interface BlockIndexMemory {
  readonly members: number;
  readonly lines: SharedArrayBuffer;
  readonly clocks: SharedArrayBuffer;
}

/** Memory of an index in bytes. A type, so that it can be read by state. */
export type BlockIndexUse = {
  /** Blocks that their member holds. */
  readonly held: number;
  /** Blocks that their member does not hold any more. */
  readonly stale: number;
  readonly free: number;
};

/** Creates the memory of an index for so many members. `bytes` is rounded down to a power of two. */
export function createBlockIndexMemory(bytes: number, members: number): BlockIndexMemory {
  if (members > MAX_MEMBERS) throw new RangeError(`a block index has at most ${MAX_MEMBERS} members, not ${members}`);
  const lines = 2 ** Math.floor(Math.log2(Math.max(bytes, MIN_INDEX_BYTES) / LINE_BYTES));
  return {
    members,
    lines: new SharedArrayBuffer(PADDING_WORDS * 4 + Math.min(lines, MAX_LINES) * LINE_BYTES),
    clocks: new SharedArrayBuffer(members * MEMBER_WORDS * 4),
  };
}

/** Blocks are given by their chained hashes, two words (low, high) each, evenly distributed. */
export class BlockIndex {
  readonly #words: Int32Array;
  readonly #clocks: Int32Array;
  readonly #lineMask: number;
  readonly #ring: PlacementRing | null;
  /** Slots of the blocks that are being entered: only used within one call. */
  #slots = new Int32Array(1024);
  #aged = 0;
  /** Where the next sample of lines begins. */
  #sampled = 0;

  /** `ring`: entries are noted there for other gateways while it is on. */
  constructor({ lines, clocks }: BlockIndexMemory, ring: PlacementRing | null = null) {
    this.#ring = ring;
    this.#words = new Int32Array(lines);
    this.#clocks = new Int32Array(clocks);
    this.#lineMask = (this.#words.length - PADDING_WORDS) / LINE_WORDS - 1;
  }

  /** Leading blocks of `hashes`, of which there are `count`, that a member holds, as far as is known. */
  matched(member: number, hashes: Int32Array, count: number): number {
    const limit = this.#capacityUnits(member) + AHEAD_UNITS;
    const near = nearLine(member);
    const mask = this.#lineMask;
    // Whoever holds a block holds those before it: binary search, among the anchors at first.
    // Without other gateways every block is known, and fewer are asked for.
    const total = this.#ring?.wasOn === true ? anchorsOf(count) : 0;
    let known = 0;
    let unknown = total;
    // Most prompts are unknown to most members from their first block on.
    let anchor = 0;
    while (known < unknown) {
      const at = ANCHORS[anchor] as number;
      const key = keyOf(member, hashes[2 * at + 1] as number);
      if (this.#isHeld(lineOf(hashes[2 * at] as number, mask, near), key, limit)) known = anchor + 1;
      else unknown = anchor;
      anchor = (known + unknown) >>> 1;
    }
    if (known === 0 && total > 0) return 0;
    let low = known === 0 ? 0 : (ANCHORS[known - 1] as number) + 1;
    let high = known < total ? (ANCHORS[known] as number) : count;
    let at = known === 0 ? 0 : high - 1;
    while (low < high) {
      const key = keyOf(member, hashes[2 * at + 1] as number);
      if (this.#isHeld(lineOf(hashes[2 * at] as number, mask, near), key, limit)) low = at + 1;
      else high = at;
      at = (low + high) >>> 1;
    }
    return low;
  }

  /** A member gets this prompt: its blocks are the youngest from now on. Returns the time of the entry, for `withdraw`. */
  enter(member: number, hashes: Int32Array, count: number): number {
    if (count >= this.#slots.length) this.#slots = new Int32Array(count + 1);
    const words = this.#words;
    const slots = this.#slots;
    const mask = this.#lineMask;
    const near = nearLine(member);
    // Reads the lines before anything depends on them, so that the processor waits for many of them at once.
    let touched = 0;
    for (let at = 0; at < count; at++) {
      const line = lineOf(hashes[2 * at] as number, mask, near);
      slots[at] = line;
      touched |= words[line] as number;
    }
    // Used, or it would not be read.
    slots[count] = touched;
    const capacity = this.#capacityUnits(member);
    const ring = this.#ring;
    const fresh = ring !== null && ring.on ? capacity >>> FRESH_SHIFT : -1;
    let ages = 0;
    // A block is as young as any behind it, also when it is not there because another gateway has told of that one only.
    let youngest = capacity;
    for (let at = count - 1; at >= 0; at--) {
      const key = keyOf(member, hashes[2 * at + 1] as number);
      const line = slots[at] as number;
      const slot = line + firstOf(matches(words, line, key));
      if (words[slot] === key) youngest = Math.min(this.#age(slot, key), youngest);
      if (youngest <= fresh) {
        slots[at] = FRESH;
        continue;
      }
      slots[at] = slot;
      ages += at < SHORT_BLOCKS ? youngest : youngest * LONG_UNITS;
    }
    // At least one, so that each entry has its own time; the rest behind the last block takes room, too.
    const passed = Math.max(Math.round(ages / capacity), 1);
    this.#aged = passed;
    const clock = Atomics.add(this.#clocks, member * MEMBER_WORDS + CLOCK, passed) + passed;
    for (let at = 0; at < count; at++) {
      const key = keyOf(member, hashes[2 * at + 1] as number);
      const slot = slots[at] as number;
      if (slot === FRESH) continue;
      const stamp = (clock - unitsBefore(at)) ^ maskOf(key);
      if (words[slot] === key) words[slot + SLOTS] = stamp;
      else this.#add(lineOf(hashes[2 * at] as number, mask, near), key, stamp);
    }
    if (fresh >= 0) (ring as PlacementRing).entered(member, passed, hashes, ANCHORS, anchorsOf(count), slots);
    return clock | 0;
  }

  /** Another gateway has sent a member anchors `first` to `first + count - 1` of a prompt, which advanced its clock by so many units. */
  learn(member: number, advance: number, first: number, hashes: Int32Array, count: number): void {
    const near = nearLine(member);
    const clock = Atomics.add(this.#clocks, member * MEMBER_WORDS + CLOCK, advance) + advance;
    for (let at = 0; at < count; at++) {
      const key = keyOf(member, hashes[2 * at + 1] as number);
      const line = lineOf(hashes[2 * at] as number, this.#lineMask, near);
      this.#add(line, key, (clock - unitsBefore(ANCHORS[first + at] as number)) ^ maskOf(key));
    }
  }

  /** Another gateway has withdrawn blocks: forgets them. What a third one has entered meanwhile goes, too: one hit is missed. */
  unlearn(member: number, hashes: Int32Array, count: number): void {
    const words = this.#words;
    const near = nearLine(member);
    for (let at = 0; at < count; at++) {
      const key = keyOf(member, hashes[2 * at + 1] as number);
      const line = lineOf(hashes[2 * at] as number, this.#lineMask, near);
      const old = (this.#clocks[member * MEMBER_WORDS + CLOCK] as number) - MAX_CAPACITY_UNITS;
      for (let slot = line; slot < line + SLOTS; slot++)
        if (words[slot] === key) words[slot + SLOTS] = old ^ maskOf(key);
    }
  }

  /** The member may not have got the blocks from `from` to `count` of an entry: forgets those that were not entered again since. */
  withdraw(member: number, hashes: Int32Array, from: number, count: number, enteredAt: number): void {
    const words = this.#words;
    const near = nearLine(member);
    const slots = this.#slots;
    for (let at = from; at < count; at++) {
      const key = keyOf(member, hashes[2 * at + 1] as number);
      const line = lineOf(hashes[2 * at] as number, this.#lineMask, near);
      const mask = maskOf(key);
      const old = ((this.#clocks[member * MEMBER_WORDS + CLOCK] as number) - MAX_CAPACITY_UNITS) ^ mask;
      const stamp = (enteredAt - unitsBefore(at)) ^ mask;
      slots[at] = FRESH;
      // Threads that entered the block at the same time may have taken a slot each.
      for (let slot = line; slot < line + SLOTS; slot++) {
        if (words[slot] !== key) continue;
        if (Atomics.compareExchange(words, slot + SLOTS, stamp, old) === stamp) slots[at] = slot;
      }
    }
    const ring = this.#ring;
    if (ring !== null && ring.on) ring.withdrawn(member, hashes, ANCHORS, anchorsOf(from), anchorsOf(count), slots);
  }

  /** Whether other gateways tell what they send where, at present. */
  get isShared(): boolean {
    return this.#ring?.on === true;
  }

  /** Requests that other gateways have sent a CRN, and that are not known here yet: mean over the CRNs. */
  get unheard(): number {
    return this.#ring?.on === true ? this.#ring.unheard : 0;
  }

  /** Lines of the index: a power of two. */
  get lines(): number {
    return this.#lineMask + 1;
  }

  /** Calls back with the entries of a line that their members hold: bits of the block's hash, and the age in units. */
  visit(line: number, visitor: (member: number, low: number, high: number, age: number) => void): void {
    const words = this.#words;
    const at = PADDING_WORDS + line * LINE_WORDS;
    for (let slot = at; slot < at + SLOTS && words[slot] !== 0; slot++) {
      const key = words[slot] as number;
      const member = key >>> TAG_BITS;
      const age = this.#age(slot, key);
      if (age < this.#capacityUnits(member)) visitor(member, line ^ nearLine(member), key & TAG_MASK, age);
    }
  }

  /**
   * Adds an entry of another index, in which it had this age, unless a younger one is there or all that are in its line are younger. `lines`: those
   * of the other index. Where this one has more lines, the entry is written to each that it may belong to.
   */
  restore(member: number, low: number, high: number, age: number, lines: number): void {
    const key = keyOf(member, high);
    const near = nearLine(member);
    const clock = this.#clocks[member * MEMBER_WORDS + CLOCK] as number;
    const stamp = (clock - age) ^ maskOf(key);
    const known = low & (lines - 1) & this.#lineMask;
    for (let bits = known; bits <= this.#lineMask; bits += lines) {
      const line = lineOf(bits, this.#lineMask, near);
      if (this.#mayRestore(line, key, age)) this.#add(line, key, stamp);
    }
  }

  #mayRestore(line: number, key: number, age: number): boolean {
    const found = matches(this.#words, line, key);
    if (found !== 0) return this.#age(line + firstOf(found), key) > age;
    if (matches(this.#words, line, 0) !== 0) return true;
    const oldest = this.#oldest(line);
    const other = this.#words[oldest] as number;
    return this.#age(oldest, other) / this.capacity(other >>> TAG_BITS) > age / this.capacity(key >>> TAG_BITS);
  }

  /** Units by which the last `enter` has advanced the clock of its member. */
  get aged(): number {
    return this.#aged;
  }

  /** A member has computed nothing of a prompt that had advanced its clock by so many units: what it holds is no older by it. */
  rewind(member: number, aged: number): void {
    Atomics.sub(this.#clocks, member * MEMBER_WORDS + CLOCK, aged);
    if (this.#ring !== null && this.#ring.on) this.#ring.rewound(member, aged);
  }

  /** A member holds nothing any more: it was restarted, or said so. */
  clear(member: number): void {
    Atomics.add(this.#clocks, member * MEMBER_WORDS + CLOCK, MAX_CAPACITY_UNITS);
  }

  /** Clears a member's cell, before it is used for another member. */
  reset(member: number): void {
    this.clear(member);
    Atomics.store(this.#clocks, member * MEMBER_WORDS + CAPACITY, 0);
  }

  /** Capacity of a member's cache in bytes of prompt. */
  capacity(member: number): number {
    const bytes = this.#clocks[member * MEMBER_WORDS + CAPACITY] as number;
    return bytes === 0 ? ASSUMED_CAPACITY_BYTES : bytes;
  }

  /** Whether the capacity of a member is that of `setCapacity`. */
  isCapacityKnown(member: number): boolean {
    return this.#clocks[member * MEMBER_WORDS + CAPACITY] !== 0;
  }

  /** Limited to a range from one unit to 1 GiB. */
  setCapacity(member: number, bytes: number): void {
    const whole = Math.round(Math.min(Math.max(bytes, UNIT_BYTES), MAX_CAPACITY_BYTES));
    Atomics.store(this.#clocks, member * MEMBER_WORDS + CAPACITY, whole);
  }

  /** An estimate from a sample of lines, another one at each call. */
  use(): BlockIndexUse {
    const lines = this.#lineMask + 1;
    const sampled = Math.min(SAMPLED_LINES, lines);
    const stride = lines / sampled;
    let held = 0;
    let stale = 0;
    for (let n = 0; n < sampled; n++) {
      const line = PADDING_WORDS + (n * stride + (this.#sampled % stride)) * LINE_WORDS;
      for (let slot = line; slot < line + SLOTS && this.#words[slot] !== 0; slot++) {
        const key = this.#words[slot] as number;
        if (this.#age(slot, key) < this.#capacityUnits(key >>> TAG_BITS)) held++;
        else stale++;
      }
    }
    this.#sampled++;
    const bytesOfOne = (lines / sampled) * (LINE_BYTES / SLOTS);
    const free = sampled * SLOTS - held - stale;
    return { held: held * bytesOfOne, stale: stale * bytesOfOne, free: free * bytesOfOne };
  }

  #capacityUnits(member: number): number {
    return this.capacity(member) >>> UNIT_BITS;
  }

  #isHeld(line: number, key: number, limit: number): boolean {
    for (let found = matches(this.#words, line, key); found !== 0; found &= found - 1) {
      if (this.#aheadAge(line + firstOf(found), key) < limit) return true;
    }
    return false;
  }

  /** Age in units of the entry in a slot that had this key, plus `AHEAD_UNITS`; modulo 2^32. */
  #aheadAge(slot: number, key: number): number {
    const stamp = (this.#words[slot + SLOTS] as number) ^ maskOf(key);
    const clock = this.#clocks[(key >>> TAG_BITS) * MEMBER_WORDS + CLOCK] as number;
    return (clock - stamp + AHEAD_UNITS) >>> 0;
  }

  #age(slot: number, key: number): number {
    return Math.max(this.#aheadAge(slot, key) - AHEAD_UNITS, 0);
  }

  /** Adds an entry, or renews the one that another thread has added meanwhile. */
  #add(line: number, key: number, stamp: number): void {
    const words = this.#words;
    for (;;) {
      const usable = matches(words, line, key) | matches(words, line, 0);
      const slot = usable === 0 ? this.#oldest(line) : line + firstOf(usable);
      const found = words[slot] as number;
      // Another thread has taken the slot meanwhile, perhaps for the same block: the line is looked at again.
      if (usable !== 0 && found !== 0 && found !== key) continue;
      if (found === key || Atomics.compareExchange(words, slot, found, key) === found) {
        words[slot + SLOTS] = stamp;
        return;
      }
    }
  }

  /** The slot of a full line whose entry has the greatest age relative to the capacity of its member. */
  #oldest(line: number): number {
    const words = this.#words;
    let oldest = line;
    let most = -Infinity;
    for (let slot = line; slot < line + SLOTS; slot++) {
      const key = words[slot] as number;
      const relative = (this.#aheadAge(slot, key) - AHEAD_UNITS) / this.capacity(key >>> TAG_BITS);
      if (relative <= most) continue;
      most = relative;
      oldest = slot;
    }
    return oldest;
  }
}

/** The slots of a line that have the key, one bit each. Without branches, which could not be predicted. */
function matches(words: Int32Array, line: number, key: number): number {
  return (
    Number(words[line] === key) |
    (Number(words[line + 1] === key) << 1) |
    (Number(words[line + 2] === key) << 2) |
    (Number(words[line + 3] === key) << 3) |
    (Number(words[line + 4] === key) << 4) |
    (Number(words[line + 5] === key) << 5) |
    (Number(words[line + 6] === key) << 6) |
    (Number(words[line + 7] === key) << 7)
  );
}

/** The lowest bit that is set; 0 of none. */
function firstOf(bits: number): number {
  return (31 - Math.clz32(bits & -bits)) & 7;
}

function lineOf(low: number, mask: number, near: number): number {
  return PADDING_WORDS + ((low & mask) ^ near) * LINE_WORDS;
}

/** Bytes of a prompt up to the end of its first `count` blocks. */
export function blockBytes(count: number): number {
  return unitsBefore(count) * UNIT_BYTES;
}

/** Anchors among the first `count` blocks of a prompt. */
function anchorsOf(count: number): number {
  return count <= ANCHORED_BLOCKS ? (ANCHORS_BEFORE[count] as number) : ANCHORS.length;
}

function anchors(): Int32Array {
  const found: number[] = [];
  let least = 0;
  for (let at = 0; at < ANCHORED_BLOCKS; at++) {
    const units = unitsBefore(at + 1);
    if (at >= FIRST_ANCHORS && units < least) continue;
    found.push(at);
    least = units * (1 + 1 / ANCHOR_PART);
  }
  return Int32Array.from(found);
}

function anchorsBefore(): Uint16Array {
  const before = new Uint16Array(ANCHORED_BLOCKS + 1);
  for (const at of ANCHORS) before[at + 1] = 1;
  for (let at = 0; at < ANCHORED_BLOCKS; at++) before[at + 1]! += before[at] as number;
  return before;
}

/** Units of a prompt before its block `at`, from 0. */
function unitsBefore(at: number): number {
  return at <= SHORT_BLOCKS ? at : SHORT_BLOCKS + (at - SHORT_BLOCKS) * LONG_UNITS;
}

function keyOf(member: number, high: number): number {
  const tag = high & TAG_MASK;
  return (member << TAG_BITS) | (tag === 0 ? 1 : tag);
}

/** Differs between any two keys. */
function maskOf(key: number): number {
  return Math.imul(key ^ (key >>> 15), 0x2c1b3c6d);
}

/** What distinguishes the lines of one block for several members. Cells of one model may have any stride. */
function nearLine(member: number): number {
  const group = member >>> SHARED_BITS;
  return (group ^ (group >>> 6)) & (NEAR_LINES - 1);
}
