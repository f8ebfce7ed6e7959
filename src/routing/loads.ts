// Prefill of members (a model on a CRN): what waits there, and how fast it is done. Memory that all threads share.
//
// | words                           | written by                                      |
// |---------------------------------|-------------------------------------------------|
// | bytes charged, member × thread  | that thread; the control plane after its death  |
// | streams charged, member × thread| that thread; the control plane after its death  |
// | whole bytes, member × thread    | that thread; the control plane after its death  |
// | the same three, member, siblings| the control plane: see `setSiblings`            |
// | head since, member              | any thread                                      |
// | whole until, member             | any thread                                      |
// | work, time, when, member        | any thread                                      |
//
// A stream is charged when its CRN is chosen and discharged once: at its first useful event, or when its attempt ends before. The sum
// over the threads is right as soon as the words of a dead thread are cleared. An answer that is no stream does not say when its prefill
// ends: its bytes are discharged when it has come or its attempt ends, and count until then for as long as their prefill should take.
// The other words are estimates: threads that race for them, and one that dies between two stores, cost one sample.

/** Weight of a sample in what is known of a member's speed: half of it is left after 22 more. */
const KEEP = 1 - 1 / 32;

/** What was measured longer ago than this, in milliseconds, says nothing about the speed of a member any more. */
const RECENT_MS = 30_000;

/**
 * Samples from which on a measured speed counts in full: single ones differ by a factor of several, as prompts and what runs beside them do.
 * A gateway that is one of many has few of each member.
 */
const ENOUGH_SAMPLES = 24;

/** Least time to a first event, in milliseconds: a speed without limit would make every cost 0. */
const LEAST_MS = 0.001;

/** Largest share of the prompt at the head of a backlog that may have been prefilled without its first event. */
const MOST_DONE = 0.9;

/** Largest backlog of a thread at a member, in bytes. */
const MAX_BYTES = 2 ** 30;

/** Words of a member and thread. */
const BYTES = 0;
const STREAMS = 1;
const WHOLE_BYTES = 2;
const WORDS = 3;
const ROWS = { headSince: 0, wholeUntil: 1, work: 2, time: 3, measured: 4, samples: 5 } as const;
const ROW_COUNT = 6;

/** The memory of loads; can be posted to another thread. */
export interface LoadsMemory {
  readonly members: number;
  readonly threads: number;
  readonly charges: SharedArrayBuffer;
  readonly times: SharedArrayBuffer;
}

export function createLoadsMemory(members: number, threads: number): LoadsMemory {
  return {
    members,
    threads,
    charges: new SharedArrayBuffer(members * (threads + 1) * WORDS * 4),
    times: new SharedArrayBuffer(members * ROW_COUNT * 8),
  };
}

export class Loads {
  readonly #charges: Int32Array;
  readonly #times: Float64Array;
  readonly #members: number;
  /** Rows of a member: the threads, then all other gateways. */
  readonly #rows: number;
  readonly #thread: number;

  constructor(memory: LoadsMemory, thread: number) {
    this.#charges = new Int32Array(memory.charges);
    this.#times = new Float64Array(memory.times);
    this.#members = memory.members;
    this.#rows = memory.threads + 1;
    this.#thread = thread;
  }

  /** Bytes of prompt that a member has not prefilled yet, as far as is known: those that other gateways have sent included. */
  backlog(member: number, nowMs: number): number {
    const bytes = this.#sum(member, BYTES);
    const msPerByte = this.msPerByte(member);
    if (msPerByte === 0) return bytes;
    // Prefill is first come, first served: the first prompt is under way since the one before it had its first event.
    const streams = this.#sum(member, STREAMS);
    const doneMs = bytes > 0 ? nowMs - this.#at(ROWS.headSince, member) : 0;
    const left = bytes - Math.min(doneMs / msPerByte, streams > 0 ? (MOST_DONE * bytes) / streams : 0);
    const wholeMs = Math.max(this.#at(ROWS.wholeUntil, member) - nowMs, 0);
    return left + (wholeMs === 0 ? 0 : Math.min(wholeMs / msPerByte, this.#sum(member, WHOLE_BYTES)));
  }

  /** Milliseconds in which a member will have prefilled its backlog; 0 while its speed is unknown. */
  waitMs(member: number, nowMs: number): number {
    return this.backlog(member, nowMs) * this.msPerByte(member);
  }

  /** Milliseconds that a member needs for a byte of prompt, waiting not counted; 0 while nothing is known. */
  msPerByte(member: number): number {
    const work = this.#at(ROWS.work, member);
    return work === 0 ? 0 : this.#at(ROWS.time, member) / work;
  }

  /** From 1 for a member whose speed was measured often enough, and now, to 0 for one without a recent measurement. */
  recency(member: number, nowMs: number): number {
    if (this.#at(ROWS.work, member) === 0) return 0;
    const evidence = Math.min(this.#at(ROWS.samples, member) / ENOUGH_SAMPLES, 1);
    return evidence * Math.min(Math.max(1 - (nowMs - this.#at(ROWS.measured, member)) / RECENT_MS, 0), 1);
  }

  /** Charges a stream with the bytes that its member has to prefill. `discharge` must follow exactly once. */
  charge(member: number, bytes: number, nowMs: number): void {
    const at = this.#own(member);
    if (this.#sum(member, STREAMS) === 0) this.#times[this.#members * ROWS.headSince + member] = nowMs;
    this.#charges[at] = Math.min((this.#charges[at] as number) + bytes, MAX_BYTES);
    this.#charges[at + STREAMS]!++;
  }

  /** Takes off what `charge` has added with the same bytes. */
  discharge(member: number, bytes: number): void {
    const at = this.#own(member);
    const streams = (this.#charges[at + STREAMS] as number) - 1;
    this.#charges[at + STREAMS] = streams;
    // Without streams nothing waits, whatever was cut off at the largest backlog.
    this.#charges[at] = streams === 0 ? 0 : Math.max((this.#charges[at] as number) - bytes, 0);
  }

  /** Charges an answer that is no stream. `dischargeWhole` must follow exactly once. Counts nothing while the member's speed is unknown. */
  chargeWhole(member: number, bytes: number, nowMs: number): void {
    const at = this.#own(member) + WHOLE_BYTES;
    const until = this.#members * ROWS.wholeUntil + member;
    const msPerByte = this.msPerByte(member);
    // No longer than the answers take that have not come: others were faster than expected, or were given up.
    const leftMs = Math.min(
      Math.max((this.#times[until] as number) - nowMs, 0),
      this.#sum(member, WHOLE_BYTES) * msPerByte,
    );
    this.#times[until] = nowMs + leftMs + bytes * msPerByte;
    this.#charges[at] = Math.min((this.#charges[at] as number) + bytes, MAX_BYTES);
  }

  /** Takes off what `chargeWhole` has added with the same bytes. */
  dischargeWhole(member: number, bytes: number): void {
    const at = this.#own(member) + WHOLE_BYTES;
    this.#charges[at] = Math.max((this.#charges[at] as number) - bytes, 0);
  }

  /**
   * A stream has had its first useful event `elapsedMs` after it was sent. `work`: bytes that the member had to prefill until then, those of the
   * backlog before it included. To be called before the discharge.
   */
  noteFirst(member: number, work: number, elapsedMs: number, nowMs: number): void {
    const times = this.#times;
    const members = this.#members;
    times[members * ROWS.work + member] = this.#at(ROWS.work, member) * KEEP + work;
    times[members * ROWS.time + member] = this.#at(ROWS.time, member) * KEEP + Math.max(elapsedMs, LEAST_MS);
    times[members * ROWS.samples + member] = this.#at(ROWS.samples, member) * KEEP + 1;
    times[members * ROWS.measured + member] = nowMs;
    times[members * ROWS.headSince + member] = nowMs;
  }

  /** Clears a member's cell, before it is used for another member. Charges stay: they are discharged by themselves. */
  resetMember(member: number): void {
    for (let row = 0; row < ROW_COUNT; row++) this.#times[this.#members * row + member] = 0;
  }

  /** Removes the charges of a dead thread. Must not run while that thread lives. */
  clearThread(thread: number): void {
    for (let member = 0; member < this.#members; member++) {
      const at = (member * this.#rows + thread) * WORDS;
      for (let word = at; word < at + WORDS; word++) Atomics.store(this.#charges, word, 0);
    }
  }

  /** Bytes that this gateway has sent a member and that it has not prefilled yet; answers that are no streams as in `backlog`. */
  ownBytes(member: number, nowMs: number): number {
    const msPerByte = this.msPerByte(member);
    const wholeMs = Math.max(this.#at(ROWS.wholeUntil, member) - nowMs, 0);
    const whole = wholeMs === 0 ? 0 : Math.min(wholeMs / msPerByte, this.#sum(member, WHOLE_BYTES));
    return this.#sum(member, BYTES) - this.siblingsBytes(member) + whole;
  }

  /** Streams that this gateway has sent a member and that have had no event yet. */
  ownStreams(member: number): number {
    return this.#sum(member, STREAMS) - (this.#charges[this.#siblings(member) + STREAMS] as number);
  }

  /** Bytes that wait at a member and that other gateways have sent. */
  siblingsBytes(member: number): number {
    return this.#charges[this.#siblings(member)] as number;
  }

  /**
   * For the control plane: what other gateways have waiting at a member, all together. `hasBegun`: one of them has had a first event, so that
   * the next prompt is under way.
   */
  setSiblings(member: number, bytes: number, streams: number, hasBegun: boolean, nowMs: number): void {
    const at = this.#siblings(member);
    const isFirst = this.#sum(member, STREAMS) === 0 && streams > 0;
    if (hasBegun || isFirst) this.#times[this.#members * ROWS.headSince + member] = nowMs;
    this.#charges[at] = Math.min(bytes, MAX_BYTES);
    this.#charges[at + STREAMS] = streams;
  }

  #own(member: number): number {
    return (member * this.#rows + this.#thread) * WORDS;
  }

  #siblings(member: number): number {
    return (member * this.#rows + this.#rows - 1) * WORDS;
  }

  /** Sum of a word of a member over all rows. */
  #sum(member: number, word: number): number {
    const from = member * this.#rows * WORDS + word;
    let sum = 0;
    for (let at = from; at < from + this.#rows * WORDS; at += WORDS) sum += this.#charges[at] as number;
    return sum;
  }

  #at(row: number, member: number): number {
    return this.#times[this.#members * row + member] as number;
  }
}
