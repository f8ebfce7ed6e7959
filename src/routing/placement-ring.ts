// What a thread has sent where, for other gateways: one ring for each thread in memory that all threads share. The thread writes, the control
// thread reads. A record is whole or not there at all; what does not fit is counted and dropped, which costs other gateways
// sharpness and never a request.
//
// | words                 | written by                              |
// |-----------------------|-----------------------------------------|
// | on                    | the control thread                      |
// | noted                 | see `net/shared-signal.ts`              |
// | unheard               | the control thread                      |
// | written, thread       | that thread, after the record           |
// | read, thread          | the control thread, after the record    |
// | dropped, thread       | that thread                             |
// | choices, thread       | that thread                             |
// | advanced, thread      | that thread; the control thread takes   |
// | advances, thread      | both: by member, see `advance`          |
// | records, thread       | that thread                             |
//
// A record is a head of four words, and two words for each block:
//
//   kind << 28 | blocks, member, advance of its clock, number of the first anchor      entered
//   kind << 28 | blocks, member, 0, 0                                                  withdrawn
//   kind << 28, hash of the response, hash of the CRN, 0                               response
//
// Blocks are anchors of a prompt (see block-index.ts). Those that do not follow each other are several records; the advance is in the first one.
// Prompts of which no anchor is told have no record: their advances are sums, so that reading them costs nothing for each.

import { SharedSignal } from '../net/shared-signal.ts';

/** Words of a ring, for 256 KiB: some 1000 prompts with 30 new anchors in the 20 ms between two readings. A power of two. */
const RING_WORDS = 1 << 16;
const RING_MASK = RING_WORDS - 1;

const HEAD_WORDS = 4;
const KIND_SHIFT = 28;
const COUNT_MASK = (1 << KIND_SHIFT) - 1;
const ENTERED = 1;
const WITHDRAWN = 2;
const RESPONSE = 3;

/** Words before the first thread, and of a thread before its records. */
const ON = 0;
const IS_ON = 1;
const WAS_ON = 2;
const NOTED = 1;
const UNHEARD = 2;
const MEMBERS = 3;
/** Parts in which `unheard` is kept. */
const UNHEARD_PARTS = 1024;
const COMMON_WORDS = 16;
const WRITTEN = 0;
const READ = 1;
const DROPPED = 2;
const CHOICES = 3;
const ADVANCED = 4;
const THREAD_WORDS = 16;

const words = (thread: number, members: number): number =>
  COMMON_WORDS + thread * (THREAD_WORDS + members + RING_WORDS);

/** Memory of the rings of so many threads, for so many members. Pages that are never written take no memory of the machine. */
export function createPlacementMemory(threads: number, members: number): SharedArrayBuffer {
  const memory = new SharedArrayBuffer(words(threads, members) * 4);
  new Int32Array(memory)[MEMBERS] = members;
  return memory;
}

/** Takes what was noted, in the order of each thread. Blocks are given as two words (low, high) each, valid during the call. */
export interface PlacementSink {
  /**
   * A member was sent anchors `first` to `first + count - 1` of a prompt, which advanced its clock by `advance`. Without anchors: the sum of any number of
   * prompts (negative where they were taken back).
   */
  entered(member: number, advance: number, first: number, hashes: Int32Array, count: number): void;
  /** A member has not got blocks that were entered. */
  withdrawn(member: number, hashes: Int32Array, count: number): void;
  /** A CRN has a response: hashes of its id and of the CRN's URL. */
  response(tag: number, holder: number): void;
}

const FORGETFUL: PlacementSink = { entered: () => undefined, withdrawn: () => undefined, response: () => undefined };

/** The ring of one thread. */
export class PlacementRing {
  readonly #words: Int32Array;
  readonly #members: number;
  readonly #at: number;
  readonly #advancesAt: number;
  readonly #from: number;
  /** One for all threads: wakes the control thread when something was noted. */
  readonly noted: SharedSignal;
  /** Blocks of the record that is being read. */
  #hashes = new Int32Array(2048);

  constructor(memory: SharedArrayBuffer, thread: number) {
    this.#words = new Int32Array(memory);
    this.#members = this.#words[MEMBERS] as number;
    this.#at = words(thread, this.#members);
    this.#advancesAt = this.#at + THREAD_WORDS;
    this.#from = this.#advancesAt + this.#members;
    this.noted = new SharedSignal(this.#words, NOTED);
  }

  /** Whether anything is to be noted: there are other gateways to tell. */
  get on(): boolean {
    return this.#words[ON] === IS_ON;
  }

  /** For the control thread: holds for all threads. */
  set on(isOn: boolean) {
    if (isOn || this.wasOn) Atomics.store(this.#words, ON, isOn ? IS_ON : WAS_ON);
  }

  /** Whether there are or were other gateways: what they have told may be known still. */
  get wasOn(): boolean {
    return this.#words[ON] !== 0;
  }

  /** Requests that other gateways have sent a CRN, and that are not known here yet: mean over the CRNs. */
  get unheard(): number {
    return (this.#words[UNHEARD] as number) / UNHEARD_PARTS;
  }

  /** For the control thread. */
  set unheard(requests: number) {
    this.#words[UNHEARD] = Math.min(Math.round(requests * UNHEARD_PARTS), 2 ** 30);
  }

  /** Records that did not fit. */
  get dropped(): number {
    return (this.#words[this.#at + DROPPED] as number) >>> 0;
  }

  /** Prompts that members got, from the start on, modulo 2^32. */
  get choices(): number {
    return (this.#words[this.#at + CHOICES] as number) >>> 0;
  }

  /**
   * For the thread: a member got a prompt. `anchors`: blocks of it, of which the first `count` are told. `slots`, by block: negative for those that are
   * not to be told. `advance`: units by which its clock advanced.
   */
  entered(
    member: number,
    advance: number,
    hashes: Int32Array,
    anchors: Int32Array,
    count: number,
    slots: Int32Array,
  ): void {
    let left = advance;
    this.#words[this.#at + CHOICES]!++;
    for (let first = 0; first < count; first++) {
      const end = endOfRun(anchors, first, count, slots);
      if (end === first) continue;
      if (this.#write(ENTERED, member, left, first, hashes, anchors, end - first, first)) left = 0;
      first = end;
    }
    // Also where there was no room: clocks go back by sums as well, which are never dropped.
    if (left !== 0) this.#advance(member, left);
  }

  /** For the thread: the clock of a member goes back. */
  rewound(member: number, advance: number): void {
    this.#advance(member, -advance);
  }

  #advance(member: number, units: number): void {
    Atomics.add(this.#words, this.#advancesAt + member, units);
    // Behind the last member that has one.
    if (Atomics.load(this.#words, this.#at + ADVANCED) <= member) {
      Atomics.store(this.#words, this.#at + ADVANCED, member + 1);
    }
    this.noted.raise();
  }

  /** For the thread: anchors `from` to `count - 1` of a prompt were withdrawn. `slots`: as in `entered`. */
  withdrawn(
    member: number,
    hashes: Int32Array,
    anchors: Int32Array,
    from: number,
    count: number,
    slots: Int32Array,
  ): void {
    for (let first = from; first < count; first++) {
      const end = endOfRun(anchors, first, count, slots);
      if (end === first) continue;
      this.#write(WITHDRAWN, member, 0, 0, hashes, anchors, end - first, first);
      first = end;
    }
  }

  /** For the thread. */
  response(tag: number, holder: number): void {
    this.#write(RESPONSE, tag, holder, 0, this.#hashes, this.#hashes, 0, 0);
  }

  /** False where it did not fit. */
  #write(
    kind: number,
    a: number,
    b: number,
    c: number,
    hashes: Int32Array,
    anchors: Int32Array,
    count: number,
    first: number,
  ): boolean {
    const ring = this.#words;
    const base = this.#from;
    const written = ring[this.#at + WRITTEN] as number;
    const used = (written - Atomics.load(ring, this.#at + READ)) >>> 0;
    if (used + HEAD_WORDS + 2 * count > RING_WORDS) {
      ring[this.#at + DROPPED]!++;
      return false;
    }
    ring[base + (written & RING_MASK)] = (kind << KIND_SHIFT) | count;
    ring[base + ((written + 1) & RING_MASK)] = a;
    ring[base + ((written + 2) & RING_MASK)] = b;
    ring[base + ((written + 3) & RING_MASK)] = c;
    let to = written + HEAD_WORDS;
    for (let anchor = first; anchor < first + count; anchor++) {
      const at = anchors[anchor] as number;
      ring[base + (to++ & RING_MASK)] = hashes[2 * at] as number;
      ring[base + (to++ & RING_MASK)] = hashes[2 * at + 1] as number;
    }
    Atomics.store(ring, this.#at + WRITTEN, to | 0);
    this.noted.raise();
    return true;
  }

  /** For the control thread: whether nothing waits to be read. */
  get isEmpty(): boolean {
    const ring = this.#words;
    return Atomics.load(ring, this.#at + WRITTEN) === ring[this.#at + READ] && ring[this.#at + ADVANCED] === 0;
  }

  /** For the control thread: takes records until there is none, or `enough` says so, and sums of advances. Returns how many. */
  read(sink: PlacementSink, enough: () => boolean): number {
    const ring = this.#words;
    const base = this.#from;
    const end = Atomics.load(ring, this.#at + WRITTEN);
    let at = ring[this.#at + READ] as number;
    let records = 0;
    while (at !== end && !enough()) {
      const head = ring[base + (at & RING_MASK)] as number;
      const count = head & COUNT_MASK;
      const a = ring[base + ((at + 1) & RING_MASK)] as number;
      const b = ring[base + ((at + 2) & RING_MASK)] as number;
      const c = ring[base + ((at + 3) & RING_MASK)] as number;
      at += HEAD_WORDS;
      if (2 * count > this.#hashes.length) this.#hashes = new Int32Array(4 * count);
      for (let word = 0; word < 2 * count; word++)
        this.#hashes[word] = ring[base + ((at + word) & RING_MASK)] as number;
      at = (at + 2 * count) | 0;
      records++;
      const kind = head >>> KIND_SHIFT;
      if (kind === ENTERED) sink.entered(a, b, c, this.#hashes, count);
      else if (kind === WITHDRAWN) sink.withdrawn(a, this.#hashes, count);
      else sink.response(a, b);
      Atomics.store(ring, this.#at + READ, at);
    }
    return records + this.#readAdvances(sink);
  }

  #readAdvances(sink: PlacementSink): number {
    const ring = this.#words;
    const end = Atomics.exchange(ring, this.#at + ADVANCED, 0);
    let advanced = 0;
    for (let member = 0; member < end; member++) {
      if (ring[this.#advancesAt + member] === 0) continue;
      sink.entered(member, Atomics.exchange(ring, this.#advancesAt + member, 0), 0, this.#hashes, 0);
      advanced++;
    }
    return advanced;
  }

  /** For the control thread: forgets what was noted. */
  skip(): void {
    this.#readAdvances(FORGETFUL);
    Atomics.store(this.#words, this.#at + READ, Atomics.load(this.#words, this.#at + WRITTEN));
  }
}

/** Behind the last anchor from `first` on that is to be told like those before it. */
function endOfRun(anchors: Int32Array, first: number, count: number, slots: Int32Array): number {
  let end = first;
  while (end < count && (slots[anchors[end] as number] as number) >= 0) end++;
  return end;
}
