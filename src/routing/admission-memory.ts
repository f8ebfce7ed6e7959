// Shared memory by which the admission queues of all threads take turns, in 64-bit floats: a virtual time for each model, a row for each
// model and thread, and the finish tags of accounts, which hold for the period in which they were written.
//
// | words                         | written by  | read by                                          |
// |-------------------------------|-------------|--------------------------------------------------|
// | virtual time, model           | any thread  | any thread                                       |
// | period, model                 | any thread  | any thread                                       |
// | least tag, model × thread     | that thread | the other threads, before they admit a request   |
// | requests, bytes, work         | that thread | the other threads, for bounds and expected waits |
// | when written, model × thread  | that thread | the other threads: an old row counts as empty    |
// | account and finish tag, slot  | any thread  | any thread                                       |
//
// Loads and stores are plain. A virtual time that two threads write at once may fall behind by one request. A slot with the account of
// one writer and the tag of another counts as empty when the tag is out of range, else it costs that account one turn. A thread that
// dies at any instruction leaves nothing to clean up: its rows grow old.

import type { VirtualTime } from './fair-queue.ts';
import { hashText, mix } from './model-table.ts';

export interface AdmissionMemory {
  /** Sizes of the board. */
  readonly members: number;
  readonly threads: number;
  readonly holds: SharedArrayBuffer;
}

/** What waits of one model in one thread. */
export interface Waiting {
  readonly requests: number;
  /** Memory of their bodies. */
  readonly bytes: number;
  /** Bytes of prompt that CRNs would have to prefill. */
  readonly work: number;
}

/** Work of one request at most: no context takes a longer prompt. */
export const MAX_WORK: number = 2 ** 26;

/** A thread that has not written its row for this time is dead or blocked: nobody waits for its turn. */
const FRESH_MS = 50;

const ROW = { tag: 0, requests: 1, bytes: 2, work: 3, writtenMs: 4 } as const;
const ROW_FLOATS = 5;

/** Virtual time and period of a model. */
const MODEL_FLOATS = 2;

/** Accounts whose finish tags are remembered; a power of two. One that is forgotten counts as one that was never served. */
const ACCOUNT_SLOTS = 4096;

/** Bytes of the shared memory. */
export function admissionBytes(members: number, threads: number): number {
  return (cellsOf(members) * (MODEL_FLOATS + threads * ROW_FLOATS) + ACCOUNT_SLOTS * 2) * 8;
}

/** The cells of retry budgets: one for each model, the last one for models without CRNs. */
function cellsOf(members: number): number {
  return members + 1;
}

/** The memory as one thread sees it. `cell`: see `Model.budget`. */
export class AdmissionTurns {
  readonly #floats: Float64Array;
  readonly #threads: number;
  readonly #thread: number;
  readonly #periodsAt: number;
  readonly #rowsAt: number;
  readonly #accountsAt: number;

  constructor({ holds, members, threads }: AdmissionMemory, thread: number) {
    this.#floats = new Float64Array(holds);
    this.#threads = threads;
    this.#thread = thread;
    this.#periodsAt = cellsOf(members);
    this.#rowsAt = cellsOf(members) * MODEL_FLOATS;
    this.#accountsAt = cellsOf(members) * (MODEL_FLOATS + threads * ROW_FLOATS);
  }

  /** Virtual time of a model. */
  timeOf(cell: number): VirtualTime {
    return new SharedTime(this.#floats, cell, this.#periodsAt + cell, this.#accountsAt);
  }

  /** Begins another period: what accounts were served of a model before is forgotten. */
  beginPeriod(cell: number): void {
    this.#floats[this.#periodsAt + cell]!++;
  }

  /** Writes this thread's row. `tag`: the least of requests that any CRN can serve; Infinity without one. */
  publish(cell: number, { requests, bytes, work }: Waiting, tag: number, nowMs: number): void {
    const at = this.#rowOf(cell, this.#thread);
    this.#floats[at + ROW.tag] = tag;
    this.#floats[at + ROW.requests] = requests;
    this.#floats[at + ROW.bytes] = bytes;
    this.#floats[at + ROW.work] = work;
    this.#floats[at + ROW.writtenMs] = nowMs;
  }

  /** Least tag of the other threads; Infinity when nothing waits there. */
  leastElsewhere(cell: number, nowMs: number): number {
    let least = Infinity;
    for (let thread = 0; thread < this.#threads; thread++) {
      const at = this.#rowOf(cell, thread);
      if (this.#isOthers(at, thread, nowMs)) least = Math.min(least, this.#floats[at + ROW.tag] as number);
    }
    return least;
  }

  /** What waits in the other threads. */
  waitingElsewhere(cell: number, nowMs: number): Waiting {
    let requests = 0;
    let bytes = 0;
    let work = 0;
    for (let thread = 0; thread < this.#threads; thread++) {
      const at = this.#rowOf(cell, thread);
      if (!this.#isOthers(at, thread, nowMs)) continue;
      requests += this.#floats[at + ROW.requests] as number;
      bytes += this.#floats[at + ROW.bytes] as number;
      work += this.#floats[at + ROW.work] as number;
    }
    return { requests, bytes, work };
  }

  #isOthers(at: number, thread: number, nowMs: number): boolean {
    if (thread === this.#thread || this.#floats[at + ROW.requests] === 0) return false;
    return nowMs - (this.#floats[at + ROW.writtenMs] as number) <= FRESH_MS;
  }

  #rowOf(cell: number, thread: number): number {
    return this.#rowsAt + (cell * this.#threads + thread) * ROW_FLOATS;
  }
}

class SharedTime implements VirtualTime {
  readonly #floats: Float64Array;
  readonly #cell: number;
  readonly #periodAt: number;
  readonly #accountsAt: number;

  constructor(floats: Float64Array, cell: number, periodAt: number, accountsAt: number) {
    this.#floats = floats;
    this.#cell = cell;
    this.#periodAt = periodAt;
    this.#accountsAt = accountsAt;
  }

  get now(): number {
    return this.#floats[this.#cell] as number;
  }

  set now(tag: number) {
    this.#floats[this.#cell] = tag;
  }

  finish(account: string): number {
    const name = this.#nameOf(account);
    const at = this.#slotOf(name);
    if (this.#floats[at] !== name) return 0;
    const tag = this.#floats[at + 1] as number;
    return tag > this.now + MAX_WORK ? 0 : tag;
  }

  setFinish(account: string, tag: number): void {
    const name = this.#nameOf(account);
    const at = this.#slotOf(name);
    this.#floats[at] = name;
    this.#floats[at + 1] = tag;
  }

  /** Of an account at this model in this period; never 0, which is an empty slot. */
  #nameOf(account: string): number {
    return mix(hashText(account) ^ mix(this.#cell ^ mix(this.#floats[this.#periodAt] as number))) + 1;
  }

  #slotOf(name: number): number {
    return this.#accountsAt + (name & (ACCOUNT_SLOTS - 1)) * 2;
  }
}
