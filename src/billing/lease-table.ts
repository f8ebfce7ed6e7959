// Credit of prepaid accounts in memory that all threads of a gateway share: one cell for each account, from which threads
// draw, and to which they return, without a message.
//
// Layout. Two 32-bit words: cells, threads. Two 64-bit words: the times until which leases may be used. A 32-bit word: 1 while work on
// the ledger fails, and one that is unused. Then for each cell
// 64-bit amounts in pico-USD: FREE, and for each thread USED. Then for each cell five 32-bit words:
//   GENERATION  names the present use of the cell; counted up before it is used for another account
//   WAITING     requests that wait in the lease manager: threads draw nothing then, so that nobody overtakes them
//   FREED       1: the thread that returns credit tells the lease manager and sets 2
//   REFILL      1: the lease manager was asked for more credit
//   TOUCHED     1: a thread has used the cell since the lease manager last looked
//
// FREE is what anybody may draw. USED[t] is what thread t holds for requests, and what they cost until it is reported.
// Writers: draw and return, by any thread, for its own USED; everything else by the lease manager. `left`, kept by the lease
// manager, is what the ledger's lease still has, less the charges that were reported and are not posted.
//
// Invariants:
// 1. FREE + sum of USED is never more than `left`. Every function takes from one amount before it adds to the other, so a
//    thread that dies between two steps leaves less, never more. When no function is under way and no thread has died inside
//    of one, both are equal.
// 2. In a closed cell FREE is lower by CLOSED, so that nothing can be drawn; amounts still return to it, and none is lost.
// 3. Once a cell is closed and every live thread has passed a point outside of these functions, nothing is drawn any more
//    and `left - FREE - sum of USED` is exactly what dead threads have lost; the lease manager adds it to FREE again. With
//    all USED at 0, no thread holds anything of the cell, and it can be used for another account.
// 4. FREE is negative when the ledger took back credit that is in use: what returns makes that up before it can be drawn.

const HEADER_BYTES = 32;
const FIELDS = 5;
const GENERATION = 0;
const WAITING = 1;
const FREED = 2;
const REFILL = 3;
const TOUCHED = 4;

const WATCHED = 1;
const TOLD = 2;

/** More than any amount in a cell, so that a closed one is told from one with a negative FREE. */
const CLOSED = 1n << 61n;
const OPEN_ABOVE = -(1n << 60n);

/** The most that the lease manager may put into a cell. */
export const MAX_LEFT: bigint = (1n << 60n) - 1n;

/** Accounts that can have credit leased at the same time. A cell whose account is idle is used for another one. */
const MAX_ACCOUNTS = 32_768;

/** Memory for so many accounts and threads; can be posted to another thread. */
export function createLeaseMemory(threads: number, accounts: number = MAX_ACCOUNTS): SharedArrayBuffer {
  const memory = new SharedArrayBuffer(HEADER_BYTES + accounts * ((1 + threads) * 8 + FIELDS * 4));
  new Int32Array(memory, 0, 2).set([accounts, threads]);
  return memory;
}

export class LeaseTable {
  readonly cells: number;
  readonly threads: number;
  readonly #untilMs: BigInt64Array;
  readonly #failing: Int32Array;
  readonly #amounts: BigInt64Array;
  readonly #words: Int32Array;
  /** Amounts of a cell: FREE, then USED of each thread. */
  readonly #columns: number;
  readonly #own: number;
  /** Copies of the times in the memory. They only grow there, so that a copy is at worst too early. */
  #trustSteadyMs = 0;
  #trustWallMs = 0;

  /** `thread`: whose amounts `draw` and `restore` change. */
  constructor(memory: SharedArrayBuffer, thread: number) {
    const [cells = 0, threads = 0] = new Int32Array(memory, 0, 2);
    this.cells = cells;
    this.threads = threads;
    this.#columns = 1 + threads;
    this.#own = 1 + thread;
    this.#untilMs = new BigInt64Array(memory, 8, 2);
    this.#failing = new Int32Array(memory, 24, 1);
    this.#amounts = new BigInt64Array(memory, HEADER_BYTES, cells * this.#columns);
    this.#words = new Int32Array(memory, HEADER_BYTES + cells * this.#columns * 8, cells * FIELDS);
  }

  // What threads call

  /**
   * Whether leases may be used. Both clocks must say so: the steady one stands still while the machine is suspended, the wall
   * clock may be set back.
   */
  trusted(steadyMs: number, wallMs: number): boolean {
    if (steadyMs < this.#trustSteadyMs && wallMs < this.#trustWallMs) return true;
    this.#trustSteadyMs = Number(Atomics.load(this.#untilMs, 0));
    this.#trustWallMs = Number(Atomics.load(this.#untilMs, 1));
    return steadyMs < this.#trustSteadyMs && wallMs < this.#trustWallMs;
  }

  /** Whether leases, renewals or charges have failed and have not worked again since. */
  get failing(): boolean {
    return Atomics.load(this.#failing, 0) === 1;
  }

  generation(cell: number): number {
    return Atomics.load(this.#words, cell * FIELDS + GENERATION);
  }

  /** Draws for this thread. Returns what is left in FREE; -1 when the amount is not covered or others wait for credit. */
  draw(cell: number, amount: number): number {
    const at = cell * FIELDS;
    // Not atomic: a mark that is seen late does no harm.
    this.#words[at + TOUCHED] = 1;
    if (Atomics.load(this.#words, at + WAITING) > 0) return -1;
    const rest = this.#take(cell, BigInt(amount));
    if (rest < 0n) return -1;
    Atomics.add(this.#amounts, cell * this.#columns + this.#own, BigInt(amount));
    return Number(rest);
  }

  /** Returns to FREE what this thread has drawn and not spent. True: the lease manager must be told. */
  restore(cell: number, amount: number): boolean {
    const at = cell * this.#columns;
    Atomics.sub(this.#amounts, at + this.#own, BigInt(amount));
    Atomics.add(this.#amounts, at, BigInt(amount));
    const freed = cell * FIELDS + FREED;
    if (Atomics.load(this.#words, freed) !== WATCHED) return false;
    return Atomics.compareExchange(this.#words, freed, WATCHED, TOLD) === WATCHED;
  }

  /** True for the one thread that must ask the lease manager for more credit. */
  claimRefill(cell: number): boolean {
    const at = cell * FIELDS + REFILL;
    return Atomics.load(this.#words, at) === 0 && Atomics.compareExchange(this.#words, at, 0, 1) === 0;
  }

  // What the lease manager calls

  /** Leases may be used until then. */
  trust(steadyMs: number, wallMs: number): void {
    Atomics.store(this.#untilMs, 0, BigInt(Math.floor(steadyMs)));
    Atomics.store(this.#untilMs, 1, BigInt(Math.floor(wallMs)));
  }

  setFailing(failing: boolean): void {
    Atomics.store(this.#failing, 0, failing ? 1 : 0);
  }

  /** FREE, of a closed cell too. */
  free(cell: number): bigint {
    const free = Atomics.load(this.#amounts, cell * this.#columns);
    return free < OPEN_ABOVE ? free + CLOSED : free;
  }

  /** USED of each thread. Exact only when no thread is inside of a function. */
  used(cell: number): bigint[] {
    const at = cell * this.#columns + 1;
    return Array.from({ length: this.threads }, (_, thread) => Atomics.load(this.#amounts, at + thread));
  }

  /** Adds credit that the ledger has leased; a negative amount makes up for credit that it took back. */
  add(cell: number, amount: bigint): void {
    Atomics.add(this.#amounts, cell * this.#columns, amount);
  }

  /** Takes all of FREE, to be given back to the ledger. */
  takeFree(cell: number): bigint {
    for (;;) {
      const free = this.free(cell);
      if (free <= 0n || this.#take(cell, free, true) >= 0n) return free > 0n ? free : 0n;
    }
  }

  /** Draws for a thread. False when the amount is not covered. */
  grant(cell: number, thread: number, amount: bigint): boolean {
    if (this.#take(cell, amount) < 0n) return false;
    Atomics.add(this.#amounts, cell * this.#columns + 1 + thread, amount);
    return true;
  }

  /** Takes out of USED what a thread has spent and reported. */
  retire(cell: number, thread: number, amount: bigint): void {
    Atomics.sub(this.#amounts, cell * this.#columns + 1 + thread, amount);
  }

  /** Returns to FREE what a dead thread had drawn. Must not run while that thread lives. */
  recover(cell: number, thread: number): void {
    const at = cell * this.#columns;
    const used = Atomics.exchange(this.#amounts, at + 1 + thread, 0n);
    if (used !== 0n) Atomics.add(this.#amounts, at, used);
  }

  /** Nothing can be drawn any more. */
  close(cell: number): void {
    Atomics.sub(this.#amounts, cell * this.#columns, CLOSED);
  }

  reopen(cell: number): void {
    Atomics.add(this.#amounts, cell * this.#columns, CLOSED);
  }

  /** Empties a cell of which no thread holds anything, for the next account. */
  clear(cell: number): void {
    const at = cell * FIELDS;
    for (const word of [WAITING, FREED, REFILL, TOUCHED]) Atomics.store(this.#words, at + word, 0);
    Atomics.add(this.#words, at + GENERATION, 1);
    for (let column = 0; column < this.#columns; column++) {
      Atomics.store(this.#amounts, cell * this.#columns + column, 0n);
    }
  }

  /** Publishes how many requests wait in the lease manager. */
  setWaiting(cell: number, count: number): void {
    Atomics.store(this.#words, cell * FIELDS + WAITING, count);
  }

  /** From now on the next return of credit is told. To be called before FREE is looked at. */
  watch(cell: number): void {
    Atomics.store(this.#words, cell * FIELDS + FREED, WATCHED);
  }

  unwatch(cell: number): void {
    Atomics.store(this.#words, cell * FIELDS + FREED, 0);
  }

  /** `wanted` false: threads do not ask for more credit. */
  setRefill(cell: number, wanted: boolean): void {
    Atomics.store(this.#words, cell * FIELDS + REFILL, wanted ? 0 : 1);
  }

  /** Whether a thread has used the cell since the last call. */
  takeTouched(cell: number): boolean {
    return Atomics.exchange(this.#words, cell * FIELDS + TOUCHED, 0) === 1;
  }

  /** Takes an amount out of FREE. Returns what is left of it; below 0 when it is not covered. */
  #take(cell: number, amount: bigint, closedToo = false): bigint {
    const at = cell * this.#columns;
    let free = Atomics.load(this.#amounts, at);
    for (;;) {
      const open = closedToo && free < OPEN_ABOVE ? free + CLOSED : free;
      if (open < amount) return -1n;
      const before = Atomics.compareExchange(this.#amounts, at, free, free - amount);
      if (before === free) return open - amount;
      free = before;
    }
  }
}
