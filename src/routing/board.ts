// Shared memory of CRN state, read by all threads without locks. A *server* cell is one CRN: its requests in flight, its trial and
// whether it can be reached. A *member* cell is one model on one CRN: standing, epoch, and how long its answers take to begin.
//
// | words                      | written by                                       | read by                       |
// |----------------------------|--------------------------------------------------|-------------------------------|
// | in flight, server × thread | that thread; the control plane after its death   | pickers, status               |
// | in flight, server, siblings| the control plane: see `setSiblings`             | pickers, status               |
// | trial, server              | offered by the CRN's actor, taken by any thread  | pickers, the CRN's actor      |
// | unreachable since, server  | the CRN's actor                                  | data planes                   |
// | heard of meanwhile, server | any thread                                       | data planes                   |
// | lacks, dialect × server    | any thread, cleared by the CRN's actor           | pickers, status               |
// | generation of these        | every CRN actor                                  | data planes                   |
// | standing, epoch, member    | the CRN's actor                                  | pickers, status               |
// | model unknown, member      | set by any thread, cleared by the CRN's actor    | pickers                       |
// | wait, failure share, member| any thread                                       | pickers, status               |
// | retries spent, model       | any thread; cleared by the CRN registry          | any thread                    |
// | prefill, member            | any thread: see `loads.ts`                       | pickers, status               |
// | blocks held, member        | any thread: see `block-index.ts`                 | pickers                       |
// | turns, model × thread      | any thread: see `admission-memory.ts`            | admission                     |
//
// A thread may die at any instruction. Requests in flight are the sum of the threads' words, each of one writer and changed by one
// store: it is right as soon as the words of the dead thread are cleared. The word of a trial names the thread that has taken it, so
// that it can be offered again. A wait and a failure share are a value and its time: a thread that dies between the two stores, or
// races with another one, costs one sample. What a server lacks is one word for each dialect, the time when it was learned, so that it is
// whole whatever thread dies. An epoch is raised before the standing that belongs to it, and read after the standing:
// a request never carries an older epoch than the standing that it was chosen by.

import { DIALECT_BITS } from '../config/dialect-bits.ts';
import { admissionBytes } from './admission-memory.ts';
import { type BlockIndexMemory, createBlockIndexMemory, MIN_INDEX_BYTES } from './block-index.ts';
import { feedbackBytes } from './cache-feedback.ts';
import { createLoadsMemory, Loads, type LoadsMemory } from './loads.ts';
import type { Member } from './model-table.ts';
import { createPlacementMemory } from './placement-ring.ts';
import { RESPONSE_HOLDERS_BYTES } from './response-holders.ts';

/** Standing of a member, in the order of preference. A drained member gets no request, not even as a last resort. */
export const STANDING = { drained: -1, down: 0, probing: 1, capable: 2, up: 3 } as const;
export type Standing = (typeof STANDING)[keyof typeof STANDING];

/** Ranks of members in the order of preference: a request goes to the highest that is left. `none`: it gets no request at all. */
export const RANK = { none: 0, down: 1, unknown: 2, capable: 3, up: 4 } as const;

/** Names of the standings. */
export const STANDING_WORDS: ReadonlyMap<number, string> = new Map(
  Object.entries(STANDING).map(([word, standing]) => [standing, word]),
);

/** Decay of measured waits and of failure shares, in milliseconds (linkerd's default for its peak-EWMA). */
const DECAY_MS = 10_000;

/** Least time to first byte in milliseconds, and the one of a member without a measurement. */
const UNMEASURED_MS = 1;

/** Weight of one answer in the failure share of a member (an EWMA over its answers). */
const SHARE_WEIGHT = 1 / 8;

/** A smaller failure share is none. */
const LEAST_SHARE = 0.001;

/** Time for which it is remembered that a server lacks a dialect, in milliseconds: it may be updated without a sign of a restart. */
const LACK_MS = 3_600_000;

/** Bits of `DIALECT_BITS`. */
const DIALECTS = Object.keys(DIALECT_BITS).length;

/** Values of a trial word; above these: the thread that has taken the trial, plus `TAKEN`. */
const NO_TRIAL = 0;
const OFFERED = 1;
const TAKEN = 2;

/** Rows of `times` per member: measured wait, when it was measured, failure share, when it changed, when it came up. */
const ROWS = { wait: 0, measured: 1, share: 2, changed: 3, up: 4 } as const;
const ROW_COUNT = 5;

/** The memory of a board; can be posted to another thread. */
export interface BoardMemory {
  readonly servers: number;
  readonly members: number;
  readonly threads: number;
  readonly words: SharedArrayBuffer;
  readonly times: SharedArrayBuffer;
  /** Retries spent per model: see `RetryBudget`. The last cell is for models without CRNs. */
  readonly retries: SharedArrayBuffer;
  /** CRNs of responses that may be continued: see `ResponseHolders`. */
  readonly responses: SharedArrayBuffer;
  /** Which member holds which blocks of prompts: see `BlockIndex`. */
  readonly blocks: BlockIndexMemory;
  /** What answers and CRNs say about KV caches: see `CacheFeedback`. */
  readonly feedback: SharedArrayBuffer;
  /** Turns of the threads among requests that wait: see `AdmissionTurns`. */
  readonly holds: SharedArrayBuffer;
  /** Prefill that waits at members: see `Loads`. */
  readonly loads: LoadsMemory;
  /** What threads have to tell other gateways: see `PlacementRing`. */
  readonly placements: SharedArrayBuffer;
}

/** Creates the memory of a board. Its sizes are fixed for the life of the process. `indexBytes`: of the block index. */
export function createBoardMemory(
  servers: number,
  members: number,
  threads: number,
  indexBytes: number = MIN_INDEX_BYTES,
): BoardMemory {
  return {
    servers,
    members,
    threads,
    // In flight per server, for each thread and all other gateways, trial per server; standing, epoch and unknown model per member; the generation.
    words: new SharedArrayBuffer((servers * (threads + 2) + members * 3 + 1) * 4),
    // Rows per member; per server since when it is unreachable, when its trial was taken, when it was heard of meanwhile, and what it lacks.
    times: new SharedArrayBuffer((members * ROW_COUNT + servers * (3 + DIALECTS)) * 8),
    retries: new SharedArrayBuffer((members + 1) * 4),
    responses: new SharedArrayBuffer(RESPONSE_HOLDERS_BYTES),
    loads: createLoadsMemory(members, threads),
    placements: createPlacementMemory(threads, members),
    blocks: createBlockIndexMemory(indexBytes, members),
    feedback: new SharedArrayBuffer(feedbackBytes(members)),
    holds: new SharedArrayBuffer(admissionBytes(members, threads)),
  };
}

export class Board {
  readonly loads: Loads;
  readonly #words: Int32Array;
  readonly #times: Float64Array;
  readonly #servers: number;
  readonly #members: number;
  /** Rows of a server: the threads, then all other gateways. */
  readonly #rows: number;
  readonly #thread: number;
  /** Offsets in `#words`. */
  readonly #trialAt: number;
  readonly #standingAt: number;
  readonly #epochAt: number;
  readonly #unknownAt: number;
  readonly #generationAt: number;
  /** Offsets in `#times`. */
  readonly #unreachableAt: number;
  readonly #takenAt: number;
  readonly #heardAt: number;
  readonly #lackAt: number;

  /** `thread`: this thread's in-flight counts, from 0. */
  constructor(memory: BoardMemory, thread: number) {
    const { servers, members, threads } = memory;
    this.loads = new Loads(memory.loads, thread);
    this.#words = new Int32Array(memory.words);
    this.#times = new Float64Array(memory.times);
    this.#servers = servers;
    this.#members = members;
    this.#rows = threads + 1;
    this.#thread = thread;
    this.#trialAt = servers * this.#rows;
    this.#standingAt = this.#trialAt + servers;
    this.#epochAt = this.#standingAt + members;
    this.#unknownAt = this.#epochAt + members;
    this.#generationAt = this.#unknownAt + members;
    this.#unreachableAt = members * ROW_COUNT;
    this.#takenAt = this.#unreachableAt + servers;
    this.#heardAt = this.#takenAt + servers;
    this.#lackAt = this.#heardAt + servers;
  }

  standing(member: number): Standing {
    return this.#words[this.#standingAt + member] as Standing;
  }

  /** See `RANK`. `standing`: the one by which it is chosen, read once. */
  rank(member: number, standing: Standing = this.standing(member)): number {
    if (standing === STANDING.up || standing === STANDING.capable) {
      if (this.modelUnknown(member)) return RANK.unknown;
      return standing === STANDING.up ? RANK.up : RANK.capable;
    }
    return standing === STANDING.drained ? RANK.none : RANK.down;
  }

  /** For the CRN's actor only. `up` starts the slow start. */
  setStanding(member: number, standing: Standing, nowMs: number): void {
    if (standing === this.standing(member)) return;
    if (standing === STANDING.up) this.#times[this.#members * ROWS.up + member] = nowMs;
    Atomics.store(this.#words, this.#standingAt + member, standing);
  }

  /** Counts the ejections, trials and returns of a member: outcomes of an earlier epoch say nothing about the present one. */
  epoch(member: number): number {
    return this.#words[this.#epochAt + member] as number;
  }

  /** For the CRN's actor only: begins a new epoch. Must come before the standing of that epoch is set. */
  raiseEpoch(member: number): void {
    Atomics.add(this.#words, this.#epochAt + member, 1);
  }

  /** For the CRN's actor only: offers one trial to whichever request comes first. */
  offerTrial(server: number): void {
    Atomics.store(this.#words, this.#trialAt + server, OFFERED);
  }

  /** For the CRN's actor only: ends the trial, taken or not. */
  endTrial(server: number): void {
    Atomics.store(this.#words, this.#trialAt + server, NO_TRIAL);
  }

  /** Whether a trial waits for a request. */
  isTrialOffered(server: number): boolean {
    return this.#words[this.#trialAt + server] === OFFERED;
  }

  /** Takes the trial of a CRN; true for one caller. */
  takeTrial(server: number, nowMs: number): boolean {
    const at = this.#trialAt + server;
    if (this.#words[at] !== OFFERED) return false;
    // Before the trial is taken, so that a trial that is seen as taken has its time. Threads that race for it write the same.
    this.#times[this.#takenAt + server] = nowMs;
    return Atomics.compareExchange(this.#words, at, OFFERED, TAKEN + this.#thread) === OFFERED;
  }

  /** Offers a trial again that this thread has taken, and of which nothing has come. */
  returnTrial(server: number): void {
    Atomics.compareExchange(this.#words, this.#trialAt + server, TAKEN + this.#thread, OFFERED);
  }

  /** When the trial of a CRN was taken, in milliseconds; null while it is offered, or when there is none. */
  trialTakenMs(server: number): number | null {
    if (Atomics.load(this.#words, this.#trialAt + server) < TAKEN) return null;
    return this.#times[this.#takenAt + server] as number;
  }

  /** Passes a CRN over for this model until its next good probe: it has said that it does not know the model. */
  noteModelUnknown(member: number): void {
    Atomics.store(this.#words, this.#unknownAt + member, 1);
  }

  /** For the CRN's actor only: a good probe. */
  clearModelUnknown(member: number): void {
    if (this.modelUnknown(member)) Atomics.store(this.#words, this.#unknownAt + member, 0);
  }

  modelUnknown(member: number): boolean {
    return this.#words[this.#unknownAt + member] !== 0;
  }

  /**
   * For the CRN's actor only: no probe since `sinceMs` has had any response. To be repeated at every further probe without one, with
   * a later `sinceMs`; `null` at the next response of any status.
   */
  setUnreachable(server: number, sinceMs: number | null): void {
    const at = this.#unreachableAt + server;
    const before = this.#times[at];
    if (before === (sinceMs ?? 0)) return;
    this.#times[at] = sinceMs ?? 0;
    if (sinceMs !== null) Atomics.add(this.#words, this.#generationAt, 1);
  }

  /** Changes whenever `unreachableSinceMs` of any server may say more than before: cheap to compare at every turn. */
  get unreachableGeneration(): number {
    return this.#words[this.#generationAt] as number;
  }

  /**
   * Since when nothing has been heard of a CRN, in milliseconds: no response to a probe, and no byte of an answer that a thread has
   * told; 0 while it can be reached.
   */
  unreachableSinceMs(server: number): number {
    const sinceMs = this.#times[this.#unreachableAt + server] as number;
    return sinceMs > (this.#times[this.#heardAt + server] as number) ? sinceMs : 0;
  }

  /** Whether nothing is heard of the CRN at present. */
  unreachable(server: number): boolean {
    return this.unreachableSinceMs(server) !== 0;
  }

  /** A CRN has sent a byte of an answer at this time: its probes may only be slow. */
  noteHeard(server: number, atMs: number): void {
    const at = this.#heardAt + server;
    if ((this.#times[at] as number) < atMs) this.#times[at] = atMs;
  }

  /**
   * Whether a member is to be asked in the dialect with this bit of `DIALECT_BITS`: it is declared to speak it, or nothing is declared and it
   * is not known to lack it.
   */
  speaks({ dialects, server }: Pick<Member, 'dialects' | 'server'>, bit: number, nowMs: number): boolean {
    return dialects === 0 ? this.lackedSinceMs(server, bit, nowMs) === 0 : (dialects & bit) !== 0;
  }

  /** When it was learned that a server lacks a dialect, in milliseconds; 0 when that is not known, or too long ago. */
  lackedSinceMs(server: number, bit: number, nowMs: number): number {
    const sinceMs = this.#times[this.#lackOf(server, bit)] as number;
    return sinceMs > 0 && nowMs - sinceMs < LACK_MS ? sinceMs : 0;
  }

  /** The bits of all dialects that a server is known to lack. */
  lacks(server: number, nowMs: number): number {
    let mask = 0;
    for (const bit of Object.values(DIALECT_BITS)) if (this.lackedSinceMs(server, bit, nowMs) > 0) mask |= bit;
    return mask;
  }

  /** A server has said that it does not know the path of a dialect. `sentMs`: when it was asked; its process may have changed since. */
  noteLack(server: number, bit: number, sentMs: number, nowMs: number): void {
    const at = this.#lackOf(server, bit);
    if (sentMs > -(this.#times[at] as number)) this.#times[at] = nowMs;
  }

  /** A server has answered a request of a dialect. */
  noteSpoken(server: number, bit: number): void {
    const at = this.#lackOf(server, bit);
    if ((this.#times[at] as number) > 0) this.#times[at] = 0;
  }

  /** For the CRN's actor only: another process answers. What requests that were sent before say is not believed. */
  clearLacks(server: number, nowMs: number): void {
    for (const bit of Object.values(DIALECT_BITS)) this.#times[this.#lackOf(server, bit)] = -nowMs;
  }

  /** Where the word of a dialect and a server is: the time when the lack was learned, or, negative, when it was cleared. */
  #lackOf(server: number, bit: number): number {
    return this.#lackAt + (31 - Math.clz32(bit)) * this.#servers + server;
  }

  /** Clears a member's cell, before it is used for another member. */
  resetMember(member: number): void {
    this.loads.resetMember(member);
    this.raiseEpoch(member);
    this.setStanding(member, STANDING.down, 0);
    this.clearModelUnknown(member);
    for (let row = 0; row < ROW_COUNT; row++) this.#times[this.#members * row + member] = 0;
  }

  /** Clears a server's cell, before it is used for another CRN. Requests in flight stay: they leave by themselves. */
  resetServer(server: number): void {
    this.endTrial(server);
    this.setUnreachable(server, null);
    this.#times[this.#heardAt + server] = 0;
    this.clearLacks(server, 0);
  }

  /** Requests in flight at a server: those of all threads, and of other gateways as far as is known. */
  inFlight(server: number): number {
    const from = server * this.#rows;
    let total = 0;
    for (let at = from; at < from + this.#rows; at++) total += this.#words[at] as number;
    return total;
  }

  /** Requests in flight at a server that this gateway has sent. */
  ownInFlight(server: number): number {
    return this.inFlight(server) - this.siblingsInFlight(server);
  }

  /** Requests in flight at a server that other gateways have sent. */
  siblingsInFlight(server: number): number {
    return this.#words[(server + 1) * this.#rows - 1] as number;
  }

  /** For the control plane: requests in flight at a server that other gateways have sent, all together. */
  setSiblings(server: number, requests: number): void {
    this.#words[(server + 1) * this.#rows - 1] = requests;
  }

  /** Counts a request of this thread in. */
  enter(server: number): void {
    this.#words[server * this.#rows + this.#thread]!++;
  }

  /** Counts a request of this thread out. */
  leave(server: number): void {
    this.#words[server * this.#rows + this.#thread]!--;
  }

  /** Removes the counts of a dead thread and offers its trials again. Must not run while that thread lives. */
  clearThread(thread: number): void {
    this.loads.clearThread(thread);
    for (let server = 0; server < this.#servers; server++) {
      Atomics.store(this.#words, server * this.#rows + thread, 0);
      Atomics.compareExchange(this.#words, this.#trialAt + server, TAKEN + thread, OFFERED);
    }
  }

  /** Adds a time to first byte. Peak-EWMA (Finagle, linkerd): a worse value counts at once, a better one gradually. */
  noteFirstByte(member: number, elapsedMs: number, nowMs: number): void {
    const measuredAt = this.#members * ROWS.measured + member;
    const keep = decay(nowMs - (this.#times[measuredAt] as number));
    const before = this.#measured(member) ? this.firstByteMs(member) * keep : 0;
    this.#times[member] = Math.max(elapsedMs, before + elapsedMs * (1 - keep), UNMEASURED_MS);
    this.#times[measuredAt] = nowMs;
  }

  /** Adds a failed or refused answer: raises the failure share, and with it the cost. */
  noteFailure(member: number, nowMs: number): void {
    const share = this.failureShare(member, nowMs);
    this.#setShare(member, share + (1 - share) * SHARE_WEIGHT, nowMs);
  }

  /** Adds a good answer, whatever it took. */
  noteSuccess(member: number, nowMs: number): void {
    if (this.#times[this.#members * ROWS.share + member] === 0) return;
    const share = this.failureShare(member, nowMs) * (1 - SHARE_WEIGHT);
    this.#setShare(member, share < LEAST_SHARE ? 0 : share, nowMs);
  }

  /** Share of failed and refused answers among the last ones of a member, 0 to 1. Decays while there are none. */
  failureShare(member: number, nowMs: number): number {
    const share = this.#times[this.#members * ROWS.share + member] as number;
    if (share === 0) return 0;
    return share * decay(nowMs - (this.#times[this.#members * ROWS.changed + member] as number));
  }

  #setShare(member: number, share: number, nowMs: number): void {
    this.#times[this.#members * ROWS.share + member] = share;
    this.#times[this.#members * ROWS.changed + member] = nowMs;
  }

  /** Peak-EWMA of the time to first byte in milliseconds, as of the last measurement; the least value without one. */
  firstByteMs(member: number): number {
    return this.#measured(member) ? (this.#times[member] as number) : UNMEASURED_MS;
  }

  #measured(member: number): boolean {
    return this.#times[this.#members * ROWS.measured + member] !== 0;
  }

  /** Slow start of a member that came up: rises from 0.1 to 1 in `slowStartMs`. */
  warmth(member: number, nowMs: number, slowStartMs: number): number {
    const upMs = nowMs - (this.#times[this.#members * ROWS.up + member] as number);
    return upMs >= slowStartMs ? 1 : Math.max(upMs / slowStartMs, 0.1);
  }
}

/** The share of a value that is left after `ageMs`. */
function decay(ageMs: number): number {
  return Math.exp(-Math.max(ageMs, 0) / DECAY_MS);
}
