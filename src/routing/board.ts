// The shared board: what ingress threads must know of every CRN, in memory that all threads read without waiting.
// CRN actors write standings; ingress threads count their requests in flight and note times to first byte.
//
// Two kinds of cell. A *server* cell is one CRN: its requests in flight, whatever the model. A *member* cell is one
// model on one CRN: its standing and its time to first byte, since a CRN may have one model loaded and not another.
// In-flight counts are kept once in total and once per thread, so that those of a thread that died can be taken back.

/** Standing of a member; the order is the order of preference. A drained one gets no request, not even as a last resort. */
export const STANDING = { drained: -1, down: 0, probing: 1, capable: 2, up: 3 } as const;
export type Standing = (typeof STANDING)[keyof typeof STANDING];

/** Decay of the peak-EWMA of time to first byte, in milliseconds (linkerd's default). */
const DECAY_MS = 10_000;

/** What a member with no measurement yet is taken for, in milliseconds: low, so that it is tried. */
const UNMEASURED_MS = 1;

/** The memory behind a board; can be posted to another thread. */
export interface BoardMemory {
  readonly servers: number;
  readonly members: number;
  readonly threads: number;
  readonly words: SharedArrayBuffer;
  readonly times: SharedArrayBuffer;
}

/** Makes the memory for a board. Sizes are fixed for the life of the process. */
export function createBoardMemory(servers: number, members: number, threads: number): BoardMemory {
  // Words: in flight per server, in flight per thread and server, standing and trial per member.
  const words = servers * (1 + threads) + members * 2;
  return {
    servers,
    members,
    threads,
    words: new SharedArrayBuffer(words * 4),
    // Times: peak-EWMA, its date, date of coming up.
    times: new SharedArrayBuffer(members * 3 * 8),
  };
}

export class Board {
  readonly #memory: BoardMemory;
  readonly #thread: number;
  readonly #words: Int32Array;
  readonly #times: Float64Array;
  readonly #standingAt: number;
  readonly #trialAt: number;

  /** `thread` is this thread's row of in-flight counts, from 0. */
  constructor(memory: BoardMemory, thread: number) {
    this.#memory = memory;
    this.#thread = thread;
    this.#words = new Int32Array(memory.words);
    this.#times = new Float64Array(memory.times);
    this.#standingAt = memory.servers * (1 + memory.threads);
    this.#trialAt = this.#standingAt + memory.members;
  }

  standing(member: number): Standing {
    return this.#words[this.#standingAt + member] as Standing;
  }

  /** Only the CRN's actor writes. Going to `probing` puts one trial on the board; coming up notes the date. */
  setStanding(member: number, standing: Standing, nowMs: number): void {
    if (standing === this.standing(member)) return;
    if (standing === STANDING.up) this.#times[this.#memory.members * 2 + member] = nowMs;
    Atomics.store(this.#words, this.#trialAt + member, standing === STANDING.probing ? 1 : 0);
    Atomics.store(this.#words, this.#standingAt + member, standing);
  }

  /** Puts the trial of a probing member back on the board. */
  offerTrial(member: number): void {
    if (this.standing(member) === STANDING.probing) Atomics.store(this.#words, this.#trialAt + member, 1);
  }

  /** Takes the trial of a probing member; true for one caller only. */
  takeTrial(member: number): boolean {
    return Atomics.compareExchange(this.#words, this.#trialAt + member, 1, 0) === 1;
  }

  /** Forgets what was known of a member, before its cell serves another. */
  resetMember(member: number): void {
    this.setStanding(member, STANDING.down, 0);
    for (let row = 0; row < 3; row++) this.#times[this.#memory.members * row + member] = 0;
  }

  /** Requests in flight at a server, over all threads. */
  inFlight(server: number): number {
    return this.#words[server] as number;
  }

  enter(server: number): void {
    Atomics.add(this.#words, server, 1);
    this.#words[this.#row(this.#thread) + server]!++;
  }

  leave(server: number): void {
    Atomics.sub(this.#words, server, 1);
    this.#words[this.#row(this.#thread) + server]!--;
  }

  /** Takes back the counts of a thread that has died. Must not run while that thread lives. */
  clearThread(thread: number): void {
    const row = this.#row(thread);
    for (let server = 0; server < this.#memory.servers; server++) {
      const lost = Atomics.exchange(this.#words, row + server, 0);
      if (lost !== 0) Atomics.sub(this.#words, server, lost);
    }
  }

  /**
   * Notes a time to first byte. Peak-EWMA (Finagle, linkerd): a worse value counts at once, a better one by and by.
   * Threads may race; a lost update costs one sample.
   */
  noteFirstByte(member: number, elapsedMs: number, nowMs: number): void {
    const keep = this.#keep(member, nowMs);
    const before = (this.#times[member] as number) * keep;
    this.#times[member] = Math.max(elapsedMs, before + elapsedMs * (1 - keep));
    this.#times[this.#memory.members + member] = nowMs;
  }

  /** Peak-EWMA of the time to first byte in milliseconds, as of the last request. */
  firstByteMs(member: number): number {
    return (this.#times[member] as number) || UNMEASURED_MS;
  }

  /**
   * The same as of now: a bad time is forgotten while nothing is measured, or the member would never be tried again.
   */
  expectedMs(member: number, nowMs: number): number {
    return Math.max((this.#times[member] as number) * this.#keep(member, nowMs), UNMEASURED_MS);
  }

  /** Share of the last value that still counts. */
  #keep(member: number, nowMs: number): number {
    const ageMs = nowMs - (this.#times[this.#memory.members + member] as number);
    return Math.exp(-Math.max(ageMs, 0) / DECAY_MS);
  }

  /** How far a member that came up has warmed up: 0.1 at once, 1 after `slowStartMs`. */
  warmth(member: number, nowMs: number, slowStartMs: number): number {
    const upMs = nowMs - (this.#times[this.#memory.members * 2 + member] as number);
    return upMs >= slowStartMs ? 1 : Math.max(upMs / slowStartMs, 0.1);
  }

  #row(thread: number): number {
    return this.#memory.servers * (1 + thread);
  }
}
