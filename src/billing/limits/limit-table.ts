// Counts behind the limits of API keys and behind budgets, in memory that all threads of a gateway share. A limit is exact over
// the threads: what is admitted never exceeds it, and between requests that compete for the last place one gets it.
//
// Layout. First one cell per limited key, in 32-bit words: a line with the lock and the slices of this process (VALID to
// OTHERS + 2), a line that says why siblings leave nothing (STATE to FULL_TOKENS), then a row for each thread:
//   GENERATION  which use of the cell the row belongs to; a row of another generation counts as empty
//   LAST        newest bucket in the ring; a bucket is 2 s, numbered since 1970
//   RUNNING     requests under way
//   REQUESTS    ring of 32: requests admitted in each bucket
//   TOKENS      ring of 32: tokens of these requests, real ones where they are known, else the reserved ones
//   SETTLED     ring of 32: the real ones alone
// Then one cell per budget, in 64-bit floats: a line with the lock (32-bit word 0), the newest periods in which a threshold was
// crossed, each with the generation in the upper bits (words 1 and 2), BASE and BASE_PERIOD (floats 2 and 3: what the ledger knows
// beyond this process, and when), the slice (CAP, CAP_PERIOD and CAP_LOW), then a row for each thread: GENERATION, PERIOD, USED
// (spent in the period and reserved, in pico-USD), SPENT (the former alone).
//
// Writers. A row has one writer, its thread, or the control thread after that thread has ended. Base and its period are written by
// the control thread, thresholds by everyone: one that a thread writes for a budget that is gone counts as not crossed. Loads and
// stores of a row are plain: an `Atomics` call costs more than the sum of a row. Aligned floats are not torn on the 64-bit machines
// that V8 runs on.
//
// Protocol. To reserve, a thread adds to its own row first, then makes one atomic read-modify-write on the lock word, then sums all
// rows, and takes its addition back when the sum exceeds the limit. Read-modify-writes of one word are ordered, so of two threads
// the later one sees what the earlier one has added: both cannot miss each other, whatever happens to the lock. The lock only
// prevents that both see each other and both give up. It is taken away from an owner that keeps it too long, who may be suspended
// or dead; that costs at worst one refusal too many, never an admission too many.
//
// Death. Reservations of a thread that has ended are TOKENS - SETTLED, USED - SPENT and RUNNING: `clearThread` takes them off,
// whatever the instruction at which it ended. SETTLED and SPENT are written before TOKENS and USED, so that nothing that was
// spent is lost. Requests that were admitted stay counted until they leave the window.
//
// Cells. A row goes from one use of its cell to later ones only. A request whose key has lost its cell since it was authenticated, as
// during a long upload, is admitted within its own limits and not counted: what the row has is another key's.
//
// Slices. While gateways share limits, the control thread writes how much of a limit this process may have counted at a time (a
// quota of running requests, requests and tokens; a cap of the money of all rows). VALID is 0 while the whole limit belongs to this
// process, else the last bucket in which the quotas hold; CAP_PERIOD likewise is 0 or the period of the cap. A thread reads them
// after its read-modify-write, and the control thread lowers them before its own and sums afterwards, so that what it gives back to
// siblings is not admitted by a thread at the same time. What exceeds a quota but not the limit gets the verdict `slice`.
//
// Window. A request counts for its own bucket and the 30 after it: for more than 60 s and at most 62 s. So no minute, wherever it
// begins, has more than the limit, and whatever a window of 62 s would admit is admitted.
//
// Clock. A wall clock that is set back by less than a window leaves a row in its newest bucket. One that is set back further begins
// the window anew: a row that is ahead by a window counts as empty until its thread uses it again.

/** Shared memory of a table, and its sizes. */
export interface LimitMemory {
  readonly buffer: SharedArrayBuffer;
  /** Rows in each cell: the control thread's own plane and the ingress threads. */
  readonly threads: number;
  /** Cells of keys and of budgets. */
  readonly keys: number;
  readonly budgets: number;
}

/** Cells for keys and for budgets, where memory allows it. */
const MAX_CELLS = 65_536;

/** Address space for the cells of keys; pages that are never used take no memory. */
const MAX_BYTES = 1 << 29;

export const BUCKET_MS = 2000;

/** Of the words of thresholds, for the number of a period: days reach beyond the year 2300. */
const PERIOD_BITS = 17;

/** Buckets that a request counts for: 60 s and the one under way. */
export const WINDOW_BUCKETS = 31;

/** The longest time for which requests are refused without being asked for. */
export const MAX_HOLD_MS = 100;

/** Buckets that siblings are told of as one. */
const PART_BUCKETS = 4;

const RING = 32;
const MASK = RING - 1;

/** Words of the lines with the lock and the slices: no thread's row shares them. */
const HEAD_WORDS = 32;

const VALID = 1;
/** Running requests, requests, tokens: three words each. */
const QUOTA = 2;
const OTHERS = 5;
const STATE = 16;
const LOW = 17;
const FULL_KIND = 20;
const FULL_UNTIL = 21;
const RETRY_AT = 22;
const RESET_AT = 23;
const FULL_TOKENS = 24;

/** No bucket is as old: quotas of it hold for nobody. */
const CLOSED = 1;

/** Bits of STATE: more was asked for; requests wait, and those that come after them do so too. */
const CLAIMED = 1;
const QUEUED = 2;

const GENERATION = 0;
const LAST = 1;
const RUNNING = 2;
const REQUESTS = 16;
const TOKENS = REQUESTS + RING;
const SETTLED = TOKENS + RING;
const ROW_WORDS = SETTLED + RING;

const SOFT = 1;
const HARD = 2;
const BASE = 2;
const BASE_PERIOD = 3;
const CAP = 4;
const CAP_PERIOD = 5;
const CAP_LOW = 6;
const HEAD_FLOATS = 8;
/** 32-bit words of the line of a budget: bits as in STATE, and until when siblings leave nothing. */
const BUDGET_STATE = 3;
const BUDGET_FULL_UNTIL = 14;

const PERIOD = 1;
const USED = 2;
const SPENT = 3;
const ROW_FLOATS = 8;

/** Keeps sums of a bucket inside of 32 bits: limits are at most this, and so is each reservation. */
export const MAX_TOKENS: number = 2 ** 30 - 1;

/** About 10 µs: many times what an owner needs the lock for, unless it is suspended. */
const SPINS = 500;

/** Why a key's request is not admitted. */
export type KeyVerdict = 'admitted' | 'running' | 'requests' | 'tokens' | 'size' | 'slice';

/**
 * Why a budget has no room. `held`: it would have room if the requests under way cost nothing. `slice`: this process needs more of
 * what the budget has left.
 */
export type BudgetVerdict = 'admitted' | 'spent' | 'held' | 'slice';

/**
 * How slices bind a request. `direct`: it is admitted within them, behind those that wait. `granted`: it has waited, is admitted
 * within them, and is refused where they do not reach. `whole`: the engine does not answer, and the whole limit is this process's.
 */
export type SliceUse = 'direct' | 'granted' | 'whole';

/** What a key may have counted at a time in this process. Lists: running requests, requests, tokens. */
export interface KeySlices {
  /** Last bucket in which they hold. */
  readonly validBucket: number;
  readonly quota: readonly number[];
  /** What siblings have counted. */
  readonly others: readonly number[];
  /** More is asked for as soon as less than this is left. */
  readonly low: readonly number[];
}

/** Requests of some buckets of a window. They leave it together. */
export interface WindowPart {
  /** Until the last of them leaves the window. */
  readonly leavesMs: number;
  readonly requests: number;
  readonly tokens: number;
}

/** Place of a key or budget in the table. The generation tells it from those that had the cell before. */
export interface LimitCell {
  readonly index: number;
  readonly generation: number;
}

/** Limits of one key; undefined: none. */
export interface KeyBounds {
  readonly runningRequests: number | undefined;
  readonly requestsPerMinute: number | undefined;
  readonly tokensPerMinute: number | undefined;
  /** A part of a request that is counted already: only its tokens count. Default: no. */
  readonly isPart?: boolean;
}

/** Memory for so many threads. */
export function createLimitMemory(threads: number, cells: number = MAX_CELLS): LimitMemory {
  const keyBytes = 4 * (HEAD_WORDS + threads * ROW_WORDS);
  const budgetBytes = 8 * (HEAD_FLOATS + threads * ROW_FLOATS);
  const keys = Math.min(cells, Math.floor(MAX_BYTES / keyBytes));
  const budgets = Math.min(cells, Math.floor(MAX_BYTES / budgetBytes));
  return { buffer: new SharedArrayBuffer(keys * keyBytes + budgets * budgetBytes), threads, keys, budgets };
}

export class LimitTable {
  /** Tokens that the last admitted request was granted. */
  tokens = 0;
  /** Bucket that the last admitted request counts in. */
  bucket = 0;
  /** After the last call for a key: what is left of its limits. */
  remainingRequests = 0;
  remainingTokens = 0;
  /** After `readKey`: requests under way. */
  running = 0;
  /** After a refusal by `requests` or `tokens`: how long until the same request is admitted, if no other is. */
  retryMs = 0;
  /** After a refusal by `requests` or `tokens`: how long until everything counted has left the window. */
  resetMs = 0;
  /** Pico-USD that the last admitted request was granted by a budget. */
  amount = 0;
  readonly #memory: LimitMemory;
  readonly #thread: number;
  readonly #owner: number;
  readonly #ints: Int32Array;
  readonly #floats: Float64Array;
  readonly #keyWords: number;
  readonly #budgetFloats: number;
  /** First float of the cells of budgets. */
  readonly #budgetStart: number;
  #running = 0;
  #requests = 0;
  #counted = 0;
  #refill = false;

  /** `thread`: the row that this object writes. */
  constructor(memory: LimitMemory, thread: number) {
    const { buffer, keys, threads } = memory;
    this.#memory = memory;
    this.#thread = thread;
    this.#owner = thread + 1;
    this.#ints = new Int32Array(buffer);
    this.#floats = new Float64Array(buffer);
    this.#keyWords = HEAD_WORDS + threads * ROW_WORDS;
    this.#budgetFloats = HEAD_FLOATS + threads * ROW_FLOATS;
    this.#budgetStart = (keys * this.#keyWords) / 2;
  }

  /**
   * Counts a request and reserves tokens for it: all of `most` where the limit allows it at all; where `most` exceeds the limit,
   * what is left, if that is at least `least` and half of the limit. The results are in the fields above.
   */
  admitKey(
    cell: LimitCell,
    bounds: KeyBounds,
    least: number,
    most: number,
    nowMs: number,
    use: SliceUse = 'direct',
  ): KeyVerdict {
    const { isPart = false, requestsPerMinute = MAX_TOKENS, runningRequests = MAX_TOKENS, tokensPerMinute } = bounds;
    const count = isPart ? 0 : 1;
    if (tokensPerMinute !== undefined && least > tokensPerMinute) return 'size';
    const ints = this.#ints;
    const start = cell.index * this.#keyWords;
    const own = start + HEAD_WORDS + this.#thread * ROW_WORDS;
    const wanted = tokensPerMinute === undefined ? 0 : Math.min(Math.ceil(most), tokensPerMinute);
    if ((ints[own + GENERATION] as number) > cell.generation) {
      this.bucket = Math.floor(nowMs / BUCKET_MS);
      this.tokens = tokensPerMinute === undefined ? Infinity : wanted;
      this.remainingRequests = requestsPerMinute - count;
      this.remainingTokens = (tokensPerMinute ?? 0) - wanted;
      return 'admitted';
    }
    this.#lock(start);
    const bucket = this.#advance(own, start, cell.generation, Math.floor(nowMs / BUCKET_MS));
    const slot = own + (bucket & MASK);
    ints[own + RUNNING] = (ints[own + RUNNING] as number) + count;
    ints[slot + REQUESTS] = (ints[slot + REQUESTS] as number) + count;
    ints[slot + TOKENS] = (ints[slot + TOKENS] as number) + wanted;
    Atomics.add(ints, start, 0);
    this.#sum(start, cell.generation, bucket);
    const isSliced = use !== 'whole' && ints[start + VALID] !== 0;
    let granted = wanted;
    let verdict: KeyVerdict = 'admitted';
    let floor = wanted;
    const over = tokensPerMinute === undefined ? 0 : this.#counted - tokensPerMinute;
    if (over > 0 && most > (tokensPerMinute as number)) {
      floor = Math.max(Math.ceil(least), Math.ceil((tokensPerMinute as number) / 2));
    }
    if (over > 0) granted = wanted - over;
    if (this.#running > runningRequests) verdict = 'running';
    else if (this.#requests > requestsPerMinute) verdict = 'requests';
    else if (granted < floor) verdict = 'tokens';
    else if (isSliced) {
      verdict = this.#checkSlices(start, bounds, least, most, wanted, bucket, nowMs, use);
      granted = Math.min(granted, this.tokens);
    }
    if (verdict !== 'admitted') {
      ints[own + RUNNING] = (ints[own + RUNNING] as number) - count;
      ints[slot + REQUESTS] = (ints[slot + REQUESTS] as number) - count;
      ints[slot + TOKENS] = (ints[slot + TOKENS] as number) - wanted;
      const requests = this.#requests - requestsPerMinute;
      this.#requests -= count;
      this.#counted -= wanted;
      if (isSliced) {
        this.#readWait(start, nowMs);
      } else {
        this.#measureWait(
          start,
          cell.generation,
          bucket,
          requests,
          this.#counted + floor - (tokensPerMinute ?? Infinity),
        );
        this.retryMs = Math.max(this.retryMs - nowMs, 0);
        this.resetMs = Math.max(this.resetMs - nowMs, 0);
      }
    } else if (granted < wanted) {
      ints[slot + TOKENS] = (ints[slot + TOKENS] as number) - (wanted - granted);
      this.#counted -= wanted - granted;
    }
    this.#unlock(start);
    this.bucket = bucket;
    this.tokens = tokensPerMinute === undefined ? Infinity : granted;
    this.remainingRequests = Math.max(requestsPerMinute - this.#requests, 0);
    this.remainingTokens = Math.max((tokensPerMinute ?? 0) - this.#counted, 0);
    if (isSliced) this.#countOthers(start);
    return verdict;
  }

  /** Whether the last admission has left so little of a slice that more has to be asked for. Answers once per claim. */
  takeRefill(): boolean {
    const refill = this.#refill;
    this.#refill = false;
    return refill;
  }

  /** Reads what is left of a key's limits without a lock: a moment's view. The results are in the fields above. */
  readKey(cell: LimitCell, { requestsPerMinute = MAX_TOKENS, tokensPerMinute = 0 }: KeyBounds, nowMs: number): void {
    const start = cell.index * this.#keyWords;
    this.#sum(start, cell.generation, Math.floor(nowMs / BUCKET_MS));
    this.remainingRequests = Math.max(requestsPerMinute - this.#requests, 0);
    this.remainingTokens = Math.max(tokensPerMinute - this.#counted, 0);
    this.running = this.#running;
    if (this.#ints[start + VALID] === 0) return;
    this.#countOthers(start);
    this.running += this.#ints[start + OTHERS] as number;
  }

  /** Takes tokens off what a request has reserved, before it ends. */
  lowerTokens(cell: LimitCell, bucket: number, tokens: number): void {
    const ints = this.#ints;
    const own = cell.index * this.#keyWords + HEAD_WORDS + this.#thread * ROW_WORDS;
    if (ints[own + GENERATION] !== cell.generation || !this.#has(own, bucket)) return;
    const slot = own + (bucket & MASK);
    ints[slot + TOKENS] = (ints[slot + TOKENS] as number) - tokens;
  }

  /** Takes an admitted request back that does not run: another limit refuses it. */
  withdrawKey(cell: LimitCell, bucket: number, reserved: number, isPart = false): void {
    const ints = this.#ints;
    const own = cell.index * this.#keyWords + HEAD_WORDS + this.#thread * ROW_WORDS;
    this.settleKey(cell, bucket, reserved, 0, isPart);
    if (isPart || ints[own + GENERATION] !== cell.generation || !this.#has(own, bucket)) return;
    const slot = own + (bucket & MASK);
    ints[slot + REQUESTS] = (ints[slot + REQUESTS] as number) - 1;
  }

  /** Ends a request: the tokens that it has used take the place of those that were reserved. */
  settleKey(cell: LimitCell, bucket: number, reserved: number, used: number, isPart = false): void {
    const ints = this.#ints;
    const own = cell.index * this.#keyWords + HEAD_WORDS + this.#thread * ROW_WORDS;
    if (ints[own + GENERATION] !== cell.generation) return;
    if (!isPart) ints[own + RUNNING] = (ints[own + RUNNING] as number) - 1;
    if (reserved === Infinity || !this.#has(own, bucket)) return;
    const slot = own + (bucket & MASK);
    const settled = ints[slot + SETTLED] as number;
    const added = Math.min(used, MAX_TOKENS - settled);
    ints[slot + SETTLED] = settled + added;
    ints[slot + TOKENS] = Math.min((ints[slot + TOKENS] as number) + added - reserved, MAX_TOKENS);
  }

  /**
   * Reserves money of a budget: all of `most`, or what is left when the limit leaves less in this period and that is at least
   * `least`. The amount is in `amount`. `nowMs` says whether siblings have left nothing lately.
   */
  admitBudget(
    cell: LimitCell,
    limit: number,
    least: number,
    most: number,
    period: number,
    nowMs = 0,
    use: SliceUse = 'direct',
  ): BudgetVerdict {
    const floats = this.#floats;
    const start = this.#budgetStart + cell.index * this.#budgetFloats;
    const own = start + HEAD_FLOATS + this.#thread * ROW_FLOATS;
    this.#lock(start * 2);
    this.#beginPeriod(own, start, cell.generation, period);
    floats[own + USED] = (floats[own + USED] as number) + most;
    Atomics.add(this.#ints, start * 2, 0);
    const used = this.#sumBudget(start, cell.generation, period, USED);
    const capPeriod = floats[start + CAP_PERIOD] as number;
    let verdict: BudgetVerdict = 'admitted';
    let granted = most;
    if (used > limit) {
      const spent = this.#sumBudget(start, cell.generation, period, SPENT);
      granted = Math.floor(most - (used - limit));
      if (spent + least > limit) verdict = 'spent';
      else if (granted < least || spent + most <= limit) verdict = 'held';
    }
    if (capPeriod !== 0 && use !== 'whole' && verdict === 'admitted') {
      const isOpen = capPeriod === period && (use === 'granted' || !this.#isQueued(start * 2 + BUDGET_STATE));
      const room = isOpen ? (floats[start + CAP] as number) - (used - this.#base(start, period)) : -most;
      if (room < 0) {
        granted = Math.min(granted, Math.floor(most + room));
        verdict = this.#judgeCap(start, cell.generation, limit, least, most, granted, period, nowMs, use);
      } else if (room < (floats[start + CAP_LOW] as number)) {
        this.#claim(start * 2 + BUDGET_STATE);
      }
    }
    if (verdict !== 'admitted') granted = 0;
    if (granted < most) floats[own + USED] = (floats[own + USED] as number) - (most - granted);
    this.#unlock(start * 2);
    this.amount = granted;
    return verdict;
  }

  /** Ends a reservation, or the part `reserved` of it. */
  releaseBudget(cell: LimitCell, reserved: number): void {
    const own = this.#ownBudget(cell);
    if (this.#floats[own + GENERATION] !== cell.generation) return;
    this.#floats[own + USED] = (this.#floats[own + USED] as number) - reserved;
  }

  /** Counts money that was spent. Answers with what is spent in the period, or -1 where nobody has to know. */
  spendBudget(cell: LimitCell, amount: number, period: number, wantsSum: boolean): number {
    const floats = this.#floats;
    const start = this.#budgetStart + cell.index * this.#budgetFloats;
    const own = this.#ownBudget(cell);
    this.#beginPeriod(own, start, cell.generation, period);
    floats[own + SPENT] = (floats[own + SPENT] as number) + amount;
    floats[own + USED] = (floats[own + USED] as number) + amount;
    return wantsSum ? this.#sumBudget(start, cell.generation, period, SPENT) : -1;
  }

  /** Pico-USD that are spent in the period, here and as far as the ledger knows. */
  spent(cell: LimitCell, period: number): number {
    const start = this.#budgetStart + cell.index * this.#budgetFloats;
    return this.#sumBudget(start, cell.generation, period, SPENT);
  }

  /** Pico-USD that this process has spent in the period. */
  spentHere(cell: LimitCell, period: number): number {
    const start = this.#budgetStart + cell.index * this.#budgetFloats;
    const base = this.#floats[start + BASE_PERIOD] === period ? (this.#floats[start + BASE] as number) : 0;
    return this.spent(cell, period) - base;
  }

  /** Sets what was spent beyond this process. For the control thread. */
  setBase(cell: LimitCell, period: number, amount: number): void {
    const start = this.#budgetStart + cell.index * this.#budgetFloats;
    if (this.#floats[start + BASE_PERIOD] !== period) {
      // Of no period for a moment, never of the wrong one.
      this.#floats[start + BASE_PERIOD] = -1;
      Atomics.add(this.#ints, start * 2, 0);
    }
    this.#floats[start + BASE] = amount;
    Atomics.add(this.#ints, start * 2, 0);
    this.#floats[start + BASE_PERIOD] = period;
  }

  /** Whether the threshold has not been crossed in the period as far as is known. */
  isBelow(cell: LimitCell, threshold: 'soft' | 'hard', period: number): boolean {
    return this.crossedIn(cell, threshold) !== period;
  }

  /** Notes that the threshold was crossed in the period. */
  cross(cell: LimitCell, threshold: 'soft' | 'hard', period: number): void {
    const start = this.#budgetStart + cell.index * this.#budgetFloats;
    const word = (cell.generation << PERIOD_BITS) | period;
    Atomics.store(this.#ints, start * 2 + (threshold === 'soft' ? SOFT : HARD), word);
  }

  /** Newest period in which the threshold was crossed; 0: none. */
  crossedIn(cell: LimitCell, threshold: 'soft' | 'hard'): number {
    const start = this.#budgetStart + cell.index * this.#budgetFloats;
    const word = this.#ints[start * 2 + (threshold === 'soft' ? SOFT : HARD)] as number;
    const period = word & ((1 << PERIOD_BITS) - 1);
    return word === ((cell.generation << PERIOD_BITS) | period) ? period : 0;
  }

  /**
   * Takes off what a thread has reserved that has ended, in the first `keys` and `budgets` cells. For the control thread, before
   * another thread takes the row.
   */
  clearThread(thread: number, keys: number = this.#memory.keys, budgets: number = this.#memory.budgets): void {
    const ints = this.#ints;
    const floats = this.#floats;
    for (let cell = 0; cell < keys; cell++) {
      const start = cell * this.#keyWords;
      const row = start + HEAD_WORDS + thread * ROW_WORDS;
      if (ints[row + GENERATION] !== 0) {
        ints[row + RUNNING] = 0;
        for (let slot = row; slot < row + RING; slot++) ints[slot + TOKENS] = ints[slot + SETTLED] as number;
      }
    }
    for (let cell = 0; cell < budgets; cell++) {
      const row = this.#budgetStart + cell * this.#budgetFloats + HEAD_FLOATS + thread * ROW_FLOATS;
      if (floats[row + GENERATION] !== 0) floats[row + USED] = floats[row + SPENT] as number;
    }
  }

  /** Tokens from which on a request gets less than it may take rather than to wait: part of a minute's limit. */
  static floor(tokensPerMinute: number, least: number, most: number): number {
    if (most <= tokensPerMinute) return Math.ceil(most);
    return Math.max(Math.ceil(least), Math.ceil(tokensPerMinute / 2));
  }

  // Slices. For the control thread.

  /** What is counted in this process: running requests, requests, tokens. */
  countKey(cell: LimitCell, nowMs: number): [running: number, requests: number, tokens: number] {
    this.#sum(cell.index * this.#keyWords, cell.generation, Math.floor(nowMs / BUCKET_MS));
    return [this.#running, this.#requests, this.#counted];
  }

  /** Requests in buckets from `bucket` on. */
  countSince(cell: LimitCell, bucket: number): number {
    const ints = this.#ints;
    const start = cell.index * this.#keyWords;
    const end = start + this.#keyWords;
    let requests = 0;
    for (let row = start + HEAD_WORDS; row < end; row += ROW_WORDS) {
      if (ints[row + GENERATION] !== cell.generation) continue;
      const last = ints[row + LAST] as number;
      for (let each = Math.max(bucket, last - MASK); each <= last; each++) {
        requests += ints[row + (each & MASK) + REQUESTS] as number;
      }
    }
    return requests;
  }

  /** The window in at most eight parts, oldest first. */
  windowOf(cell: LimitCell, nowMs: number): WindowPart[] {
    const ints = this.#ints;
    const start = cell.index * this.#keyWords;
    const end = start + this.#keyWords;
    const now = Math.floor(nowMs / BUCKET_MS);
    const parts: WindowPart[] = [];
    // From a bucket that is a multiple of the width, so that parts stay the same while time passes.
    const first = now - WINDOW_BUCKETS + 1;
    for (let from = first - (first % PART_BUCKETS); from <= now; from += PART_BUCKETS) {
      let requests = 0;
      let tokens = 0;
      let newest = 0;
      for (let bucket = Math.max(from, first); bucket < from + PART_BUCKETS; bucket++) {
        for (let row = start + HEAD_WORDS; row < end; row += ROW_WORDS) {
          const last = ints[row + LAST] as number;
          if (ints[row + GENERATION] !== cell.generation || bucket > last || bucket < last - MASK) continue;
          const slot = row + (bucket & MASK);
          if (ints[slot + REQUESTS] === 0 && ints[slot + TOKENS] === 0) continue;
          requests += ints[slot + REQUESTS] as number;
          tokens += ints[slot + TOKENS] as number;
          newest = bucket;
        }
      }
      if (requests > 0 || tokens > 0) {
        parts.push({ leavesMs: (newest + WINDOW_BUCKETS) * BUCKET_MS - nowMs, requests, tokens });
      }
    }
    return parts;
  }

  /** Gives the whole limit to this process. */
  freeKey(cell: LimitCell): void {
    this.#setHead(cell, STATE, 0);
    this.#setHead(cell, FULL_UNTIL, 0);
    this.#setHead(cell, VALID, 0);
  }

  /** No request is admitted without being asked for. */
  closeKey(cell: LimitCell): void {
    this.#setHead(cell, VALID, CLOSED);
    // What siblings have counted is not known from now on.
    for (let at = 0; at < 3; at++) this.#setHead(cell, OTHERS + at, 0);
    this.#setHead(cell, STATE, this.#head(cell, STATE) & QUEUED);
  }

  /** Lowers quotas; what is summed afterwards is all that was admitted under higher ones. */
  lowerKey(cell: LimitCell, quota: readonly number[]): void {
    for (let at = 0; at < 3; at++) this.#setHead(cell, QUOTA + at, quota[at] as number);
    Atomics.add(this.#ints, cell.index * this.#keyWords, 0);
  }

  openKey(cell: LimitCell, { low, others, quota, validBucket }: KeySlices): void {
    for (let at = 0; at < 3; at++) {
      this.#setHead(cell, QUOTA + at, quota[at] as number);
      this.#setHead(cell, OTHERS + at, others[at] as number);
      this.#setHead(cell, LOW + at, low[at] as number);
    }
    this.#setHead(cell, VALID, validBucket);
    Atomics.and(this.#ints, cell.index * this.#keyWords + STATE, QUEUED);
  }

  /** Whether requests of the key wait. */
  queueKey(cell: LimitCell, isQueued: boolean): void {
    const word = cell.index * this.#keyWords + STATE;
    if (isQueued) Atomics.or(this.#ints, word, QUEUED);
    else Atomics.and(this.#ints, word, ~QUEUED);
  }

  /**
   * All gateways together have reached a limit: requests are refused for `holdMs` without being asked for, of the limit of tokens
   * those that need as many.
   */
  refuseKey(
    cell: LimitCell,
    resource: number,
    tokens: number,
    times: { readonly nowMs: number; readonly holdMs: number; readonly retryMs: number; readonly resetMs: number },
  ): void {
    const { holdMs, nowMs, resetMs, retryMs } = times;
    this.#setHead(cell, FULL_TOKENS, tokens);
    this.#setHead(cell, RETRY_AT, (nowMs + retryMs) | 0);
    this.#setHead(cell, RESET_AT, (nowMs + resetMs) | 0);
    this.#setHead(cell, FULL_KIND, resource);
    // 0 stands for none.
    this.#setHead(cell, FULL_UNTIL, (nowMs + holdMs) | 0 || 1);
  }

  /** What all rows have spent and reserved in the period, in pico-USD. */
  usedHere(cell: LimitCell, period: number): number {
    const start = this.#budgetStart + cell.index * this.#budgetFloats;
    return this.#sumBudget(start, cell.generation, period, USED) - this.#base(start, period);
  }

  freeBudget(cell: LimitCell): void {
    const start = this.#budgetStart + cell.index * this.#budgetFloats;
    this.#floats[start + CAP_PERIOD] = 0;
    this.#ints[start * 2 + BUDGET_FULL_UNTIL] = 0;
    Atomics.store(this.#ints, start * 2 + BUDGET_STATE, 0);
  }

  closeBudget(cell: LimitCell): void {
    const start = this.#budgetStart + cell.index * this.#budgetFloats;
    this.#floats[start + CAP_PERIOD] = -1;
    Atomics.add(this.#ints, start * 2, 0);
    Atomics.and(this.#ints, start * 2 + BUDGET_STATE, QUEUED);
  }

  /** Sets the most that all rows may have spent and reserved in the period. What is summed afterwards is all under a higher one. */
  capBudget(cell: LimitCell, period: number, cap: number): void {
    const start = this.#budgetStart + cell.index * this.#budgetFloats;
    this.#floats[start + CAP] = cap;
    Atomics.add(this.#ints, start * 2, 0);
    this.#floats[start + CAP_PERIOD] = period;
    Atomics.add(this.#ints, start * 2, 0);
  }

  /** After an answer to a claim: from what rest on the next one is due. */
  claimBudgetBelow(cell: LimitCell, low: number): void {
    const start = this.#budgetStart + cell.index * this.#budgetFloats;
    this.#floats[start + CAP_LOW] = low;
    Atomics.and(this.#ints, start * 2 + BUDGET_STATE, QUEUED);
  }

  queueBudget(cell: LimitCell, isQueued: boolean): void {
    const word = (this.#budgetStart + cell.index * this.#budgetFloats) * 2 + BUDGET_STATE;
    if (isQueued) Atomics.or(this.#ints, word, QUEUED);
    else Atomics.and(this.#ints, word, ~QUEUED);
  }

  refuseBudget(cell: LimitCell, untilMs: number): void {
    const start = this.#budgetStart + cell.index * this.#budgetFloats;
    this.#ints[start * 2 + BUDGET_FULL_UNTIL] = untilMs | 0 || 1;
  }

  /** Whether what a request adds is within the slices; else takes it that the caller takes it back. Tokens granted are in `tokens`. */
  #checkSlices(
    start: number,
    { requestsPerMinute, runningRequests, tokensPerMinute }: KeyBounds,
    least: number,
    most: number,
    wanted: number,
    bucket: number,
    nowMs: number,
    use: SliceUse,
  ): KeyVerdict {
    const ints = this.#ints;
    const isOpen = bucket <= (ints[start + VALID] as number) && (use === 'granted' || !this.#isQueued(start + STATE));
    const running = this.#left(start, 0, runningRequests, this.#running);
    const requests = this.#left(start, 1, requestsPerMinute, this.#requests);
    const tokens = this.#left(start, 2, tokensPerMinute, this.#counted);
    this.tokens = wanted + Math.min(tokens, 0);
    const floor =
      tokensPerMinute === undefined ? 0 : use === 'granted' ? LimitTable.floor(tokensPerMinute, least, most) : wanted;
    if (isOpen && running >= 0 && requests >= 0 && this.tokens >= floor) {
      const isLow =
        running < (ints[start + LOW] as number) ||
        requests < (ints[start + LOW + 1] as number) ||
        tokens < (ints[start + LOW + 2] as number);
      if (isLow) this.#claim(start + STATE);
      return 'admitted';
    }
    if (use === 'granted') {
      if (running < 0) return 'running';
      if (requests < 0) return 'requests';
      if (tokensPerMinute !== undefined && this.tokens < floor) return 'tokens';
      // The quotas have lapsed since the request was told to go on.
      return requestsPerMinute !== undefined ? 'requests' : tokensPerMinute !== undefined ? 'tokens' : 'running';
    }
    if (!isHeld(ints[start + FULL_UNTIL] as number, nowMs)) return 'slice';
    const kind = ints[start + FULL_KIND] as number;
    if (kind === 2) return wanted >= (ints[start + FULL_TOKENS] as number) ? 'tokens' : 'slice';
    return kind === 0 ? 'running' : 'requests';
  }

  /**
   * What is left of a quota. Keys of one lineage may have different limits: what siblings have counted is held against the one at hand.
   */
  #left(start: number, resource: number, limit: number | undefined, counted: number): number {
    if (limit === undefined) return MAX_TOKENS;
    const quota = this.#ints[start + QUOTA + resource] as number;
    return Math.min(quota, limit - (this.#ints[start + OTHERS + resource] as number)) - counted;
  }

  /** Adds what siblings have counted to the results, as far as it is known. */
  #countOthers(start: number): void {
    const ints = this.#ints;
    this.remainingRequests = Math.max(this.remainingRequests - (ints[start + OTHERS + 1] as number), 0);
    this.remainingTokens = Math.max(this.remainingTokens - (ints[start + OTHERS + 2] as number), 0);
  }

  /** When a request is admitted that all gateways together have no place for. */
  #readWait(start: number, nowMs: number): void {
    const now = nowMs | 0;
    this.retryMs = Math.max(((this.#ints[start + RETRY_AT] as number) - now) | 0, 0);
    this.resetMs = Math.max(((this.#ints[start + RESET_AT] as number) - now) | 0, 0);
  }

  #judgeCap(
    start: number,
    generation: number,
    limit: number,
    least: number,
    most: number,
    granted: number,
    period: number,
    nowMs: number,
    use: SliceUse,
  ): BudgetVerdict {
    if (use === 'direct' && !isHeld(this.#ints[start * 2 + BUDGET_FULL_UNTIL] as number, nowMs)) return 'slice';
    const spent = this.#sumBudget(start, generation, period, SPENT);
    if (spent + least > limit) return 'spent';
    // Less than `most` only where the budget does not have more, as without slices.
    return use === 'granted' && granted >= least && spent + most > limit ? 'admitted' : 'held';
  }

  #isQueued(word: number): boolean {
    return ((this.#ints[word] as number) & QUEUED) !== 0;
  }

  #claim(word: number): void {
    if (((this.#ints[word] as number) & CLAIMED) !== 0) return;
    if ((Atomics.or(this.#ints, word, CLAIMED) & CLAIMED) === 0) this.#refill = true;
  }

  #head(cell: LimitCell, word: number): number {
    return this.#ints[cell.index * this.#keyWords + word] as number;
  }

  #setHead(cell: LimitCell, word: number, value: number): void {
    Atomics.store(this.#ints, cell.index * this.#keyWords + word, value);
  }

  #base(start: number, period: number): number {
    const floats = this.#floats;
    return (floats[start + BASE_PERIOD] as number) >= period ? (floats[start + BASE] as number) : 0;
  }

  #ownBudget(cell: LimitCell): number {
    return this.#budgetStart + cell.index * this.#budgetFloats + HEAD_FLOATS + this.#thread * ROW_FLOATS;
  }

  /** Whether the ring of a row has the bucket: it left with time, or with a clock that was set back. */
  #has(row: number, bucket: number): boolean {
    const age = (this.#ints[row + LAST] as number) - bucket;
    return age >= 0 && age < RING;
  }

  /** Readies the own row for a bucket. Answers with the bucket to count in: a clock that goes back a little stays in the newest. */
  #advance(own: number, lock: number, generation: number, bucket: number): number {
    const ints = this.#ints;
    if (ints[own + GENERATION] !== generation) {
      ints[own + GENERATION] = 0;
      Atomics.add(ints, lock, 0);
      ints.fill(0, own + LAST, own + ROW_WORDS);
      ints[own + LAST] = bucket;
      Atomics.add(ints, lock, 0);
      ints[own + GENERATION] = generation;
      return bucket;
    }
    const last = ints[own + LAST] as number;
    const isAhead = last - bucket >= WINDOW_BUCKETS;
    if (last >= bucket && !isAhead) return last;
    for (let each = isAhead ? bucket - MASK : Math.max(last + 1, bucket - MASK); each <= bucket; each++) {
      const slot = own + (each & MASK);
      ints[slot + REQUESTS] = 0;
      ints[slot + TOKENS] = 0;
      ints[slot + SETTLED] = 0;
    }
    Atomics.add(ints, lock, 0);
    ints[own + LAST] = bucket;
    return bucket;
  }

  #sum(start: number, generation: number, bucket: number): void {
    const ints = this.#ints;
    let running = 0;
    let requests = 0;
    let tokens = 0;
    const end = start + this.#keyWords;
    for (let row = start + HEAD_WORDS; row < end; row += ROW_WORDS) {
      if (ints[row + GENERATION] !== generation) continue;
      running += ints[row + RUNNING] as number;
      const last = ints[row + LAST] as number;
      if (last - bucket >= WINDOW_BUCKETS) continue;
      for (let each = Math.max(bucket - WINDOW_BUCKETS + 1, last - MASK); each <= last; each++) {
        const slot = row + (each & MASK);
        requests += ints[slot + REQUESTS] as number;
        tokens += ints[slot + TOKENS] as number;
      }
    }
    this.#running = running;
    this.#requests = requests;
    this.#counted = tokens;
  }

  /** Finds when so many requests and tokens have left the window, and when all have: dates in `retryMs` and `resetMs`. */
  #measureWait(start: number, generation: number, now: number, requests: number, tokens: number): void {
    const ints = this.#ints;
    const end = start + this.#keyWords;
    let missingRequests = requests;
    let missingTokens = tokens;
    let free = 0;
    let newest = 0;
    for (let bucket = now - WINDOW_BUCKETS + 1; bucket <= now; bucket++) {
      const waits = missingRequests > 0 || missingTokens > 0;
      for (let row = start + HEAD_WORDS; row < end; row += ROW_WORDS) {
        const last = ints[row + LAST] as number;
        if (ints[row + GENERATION] !== generation || bucket > last || bucket < last - MASK) continue;
        const slot = row + (bucket & MASK);
        if (ints[slot + REQUESTS] !== 0 || ints[slot + TOKENS] !== 0) newest = bucket + WINDOW_BUCKETS;
        missingRequests -= ints[slot + REQUESTS] as number;
        missingTokens -= ints[slot + TOKENS] as number;
      }
      if (waits) free = bucket + WINDOW_BUCKETS;
    }
    this.retryMs = free * BUCKET_MS;
    this.resetMs = newest * BUCKET_MS;
  }

  /**
   * Readies the own row for a period: what is reserved stays, what was spent in another one goes. That is a later one after the clock was
   * set back, whose spending must not count again when it comes.
   */
  #beginPeriod(own: number, start: number, generation: number, period: number): void {
    const floats = this.#floats;
    if (floats[own + GENERATION] !== generation) {
      floats[own + GENERATION] = 0;
      Atomics.add(this.#ints, start * 2, 0);
      floats[own + USED] = 0;
      floats[own + SPENT] = 0;
      floats[own + PERIOD] = period;
      Atomics.add(this.#ints, start * 2, 0);
      floats[own + GENERATION] = generation;
    } else if (floats[own + PERIOD] !== period) {
      const spent = floats[own + SPENT] as number;
      // Between these steps too much counts as reserved, never too little.
      floats[own + SPENT] = 0;
      Atomics.add(this.#ints, start * 2, 0);
      floats[own + USED] = (floats[own + USED] as number) - spent;
      Atomics.add(this.#ints, start * 2, 0);
      floats[own + PERIOD] = period;
    }
  }

  /** Of a thread that has done nothing in this period, only what is reserved counts. */
  #sumBudget(start: number, generation: number, period: number, column: typeof USED | typeof SPENT): number {
    const floats = this.#floats;
    let sum = this.#base(start, period);
    const end = start + this.#budgetFloats;
    for (let row = start + HEAD_FLOATS; row < end; row += ROW_FLOATS) {
      if (floats[row + GENERATION] !== generation) continue;
      if ((floats[row + PERIOD] as number) >= period) sum += floats[row + column] as number;
      else if (column === USED) sum += (floats[row + USED] as number) - (floats[row + SPENT] as number);
    }
    return sum;
  }

  #lock(word: number): void {
    const ints = this.#ints;
    if (Atomics.compareExchange(ints, word, 0, this.#owner) === 0) return;
    for (let spins = 0; spins < SPINS; spins++) {
      if (Atomics.load(ints, word) === 0 && Atomics.compareExchange(ints, word, 0, this.#owner) === 0) return;
    }
    Atomics.exchange(ints, word, this.#owner);
  }

  /** Leaves the lock alone that another has taken away meanwhile. */
  #unlock(word: number): void {
    Atomics.compareExchange(this.#ints, word, this.#owner, 0);
  }
}

/** Whether siblings have left nothing lately. An end that is further away is from before the clock was set back. */
function isHeld(untilMs: number, nowMs: number): boolean {
  const leftMs = (untilMs - (nowMs | 0)) | 0;
  return untilMs !== 0 && leftMs > 0 && leftMs <= MAX_HOLD_MS;
}
