// Shared memory of CRN state, read by all threads without locks. CRN actors write standings; every thread writes its requests in
// flight and times to first byte. In-flight counts exist in total and per thread, so that those of a dead thread can be removed.
//
// A *server* cell is one CRN: its requests in flight, whatever the model. A *member* cell is one model on one CRN: its standing
// and its time to first byte, since a CRN may have one model loaded and not another.

/** Standing of a member, in the order of preference. A drained member gets no request, not even as a last resort. */
export const STANDING = { drained: -1, down: 0, probing: 1, capable: 2, up: 3 } as const;
export type Standing = (typeof STANDING)[keyof typeof STANDING];

/** Decay of the peak-EWMA of the time to first byte, in milliseconds (linkerd's default). */
const DECAY_MS = 10_000;

/** Time to first byte of a member without a measurement, in milliseconds: low, so that it is tried. */
const UNMEASURED_MS = 1;

/** The memory of a board; can be posted to another thread. */
export interface BoardMemory {
  readonly servers: number;
  readonly members: number;
  readonly threads: number;
  readonly words: SharedArrayBuffer;
  readonly times: SharedArrayBuffer;
}

/** Creates the memory of a board. Its sizes are fixed for the life of the process. */
export function createBoardMemory(servers: number, members: number, threads: number): BoardMemory {
  // Words: in flight per server, in flight per thread and server, standing and trial per member.
  const words = servers * (1 + threads) + members * 2;
  return {
    servers,
    members,
    threads,
    words: new SharedArrayBuffer(words * 4),
    // Times per member: peak-EWMA, when it was measured, when the member came up.
    times: new SharedArrayBuffer(members * 3 * 8),
  };
}

export class Board {
  readonly #memory: BoardMemory;
  readonly #words: Int32Array;
  readonly #times: Float64Array;
  /** Offsets of this thread's counts, the standings and the trials in `#words`. */
  readonly #ownAt: number;
  readonly #standingAt: number;
  readonly #trialAt: number;

  /** `thread`: this thread's row of in-flight counts, from 0. */
  constructor(memory: BoardMemory, thread: number) {
    this.#memory = memory;
    this.#words = new Int32Array(memory.words);
    this.#times = new Float64Array(memory.times);
    this.#ownAt = memory.servers * (1 + thread);
    this.#standingAt = memory.servers * (1 + memory.threads);
    this.#trialAt = this.#standingAt + memory.members;
  }

  standing(member: number): Standing {
    return this.#words[this.#standingAt + member] as Standing;
  }

  /** For the CRN's actor only. `probing` offers one trial; `up` starts the slow start. */
  setStanding(member: number, standing: Standing, nowMs: number): void {
    if (standing === this.standing(member)) return;
    if (standing === STANDING.up) this.#times[this.#memory.members * 2 + member] = nowMs;
    Atomics.store(this.#words, this.#trialAt + member, standing === STANDING.probing ? 1 : 0);
    Atomics.store(this.#words, this.#standingAt + member, standing);
  }

  /** Offers the trial of a probing member again. */
  offerTrial(member: number): void {
    if (this.standing(member) === STANDING.probing) Atomics.store(this.#words, this.#trialAt + member, 1);
  }

  /** Takes the trial of a probing member; true for one caller. */
  takeTrial(member: number): boolean {
    return Atomics.compareExchange(this.#words, this.#trialAt + member, 1, 0) === 1;
  }

  /** Clears a member's cell, before it is used for another member. */
  resetMember(member: number): void {
    this.setStanding(member, STANDING.down, 0);
    for (let row = 0; row < 3; row++) this.#times[this.#memory.members * row + member] = 0;
  }

  /** Requests in flight at a server, over all threads. */
  inFlight(server: number): number {
    return this.#words[server] as number;
  }

  /** Counts a request of this thread in. */
  enter(server: number): void {
    Atomics.add(this.#words, server, 1);
    this.#words[this.#ownAt + server]!++;
  }

  /** Counts a request of this thread out. */
  leave(server: number): void {
    Atomics.sub(this.#words, server, 1);
    this.#words[this.#ownAt + server]!--;
  }

  /** Removes the counts of a dead thread. Must not run while that thread lives. */
  clearThread(thread: number): void {
    const row = this.#memory.servers * (1 + thread);
    for (let server = 0; server < this.#memory.servers; server++) {
      const lost = Atomics.exchange(this.#words, row + server, 0);
      if (lost !== 0) Atomics.sub(this.#words, server, lost);
    }
  }

  /**
   * Adds a time to first byte. Peak-EWMA (Finagle, linkerd): a worse value counts at once, a better one gradually.
   * Threads may race; a lost update costs one sample.
   */
  noteFirstByte(member: number, elapsedMs: number, nowMs: number): void {
    const keep = this.#keep(member, nowMs);
    const before = (this.#times[member] as number) * keep;
    this.#times[member] = Math.max(elapsedMs, before + elapsedMs * (1 - keep));
    this.#times[this.#memory.members + member] = nowMs;
  }

  /** Peak-EWMA of the time to first byte in milliseconds, as of the last measurement. */
  firstByteMs(member: number): number {
    return (this.#times[member] as number) || UNMEASURED_MS;
  }

  /** The same as of now: a bad time decays while nothing is measured, or the member would never be tried again. */
  expectedMs(member: number, nowMs: number): number {
    return Math.max((this.#times[member] as number) * this.#keep(member, nowMs), UNMEASURED_MS);
  }

  /** The share of the last value that is left. */
  #keep(member: number, nowMs: number): number {
    const ageMs = nowMs - (this.#times[this.#memory.members + member] as number);
    return Math.exp(-Math.max(ageMs, 0) / DECAY_MS);
  }

  /** Slow start of a member that came up: rises from 0.1 to 1 in `slowStartMs`. */
  warmth(member: number, nowMs: number, slowStartMs: number): number {
    const upMs = nowMs - (this.#times[this.#memory.members * 2 + member] as number);
    return upMs >= slowStartMs ? 1 : Math.max(upMs / slowStartMs, 0.1);
  }
}
