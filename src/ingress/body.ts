// Request bodies and the memory that they may take. The memory is counted in shared memory for the whole process. It is counted
// before it is allocated, and grows with the bytes that have arrived: a declared length alone takes none.

import { HeadraceError } from '../errors.ts';
import { freeMemory, LARGE_BYTES } from '../net/large-memory.ts';
import { bodyTurns, TURN_BYTES } from '../routing/index.ts';
import { type Coding, Decoding, UNIT_BYTES } from './content-coding.ts';

export type BodyCallback = (error: HeadraceError | null, body: Buffer) => void;

/** Limits of request bodies. */
export interface BodyLimits {
  /** Largest body in bytes; a larger one is refused with 413. */
  readonly maxBodyBytes: number;
  /** Longest time between two pieces of a body in milliseconds; after it the request is refused with 408. */
  readonly bodyIdleMs: number;
}

const NO_BYTES: Buffer = Buffer.alloc(0);

/** First allocation for a body that does not come in one piece. It doubles whenever it is full. */
const FIRST_BYTES = 16 * 1024;

/** Allocations from this size are large. */
const AHEAD_BYTES = 512 * 1024;

/**
 * A large allocation is so many times what is counted, so that it is seldom copied: memory that nothing was written to takes no room. For V8
 * it counts all the same, so that bodies of unknown length get less.
 */
const AHEAD = 32;
const AHEAD_OF_UNKNOWN = 4;

/** Most bytes of a refused body that are read to keep the connection. */
const READ_ON_BYTES = 64 * 1024;

/**
 * Bodies of requests without a key, where keys are required, take at most this part of the memory: seven eighths are left to
 * customers, whatever strangers send. 1/8 of the default 1 GiB holds 25 images of 5 MB.
 */
const KEYLESS_SHARE = 1 / 8;

/**
 * Such a body must arrive at this average rate, or it is refused with 408: half a megabit per second is below any broadband
 * uplink. The first ten seconds do not count, so that a slow phone can send a usual request of up to 100 KB.
 */
const KEYLESS_BYTES_PER_MS = 64;
const KEYLESS_GRACE_MS = 10_000;

/** Memory for the counters of so many threads; can be posted to another thread. */
export function createBodyMemory(threads: number): SharedArrayBuffer {
  return new SharedArrayBuffer((1 + threads) * 2 * Int32Array.BYTES_PER_ELEMENT);
}

/** The memory that the request bodies of the process may take, and what they have taken. */
export class BodyBudget {
  limitBytes: number;
  /** For the process and then for each thread: all units, and those of requests without a key. */
  readonly #units: Int32Array;
  readonly #ownAt: number;

  /** `thread`: the row of this thread, from 0. By default the memory is counted for this thread alone. */
  constructor(limitBytes: number, memory: SharedArrayBuffer = createBodyMemory(1), thread = 0) {
    this.limitBytes = limitBytes;
    this.#units = new Int32Array(memory);
    this.#ownAt = 2 * (1 + thread);
  }

  /** Memory taken by all threads, in bytes. */
  get usedBytes(): number {
    return Atomics.load(this.#units, 0) * UNIT_BYTES;
  }

  /** Takes memory. False, and nothing is taken, when there is not so much left. */
  take(bytes: number, keyless: boolean): boolean {
    const units = Math.ceil(bytes / UNIT_BYTES);
    const all = Atomics.add(this.#units, 0, units) + units;
    const fits = all * UNIT_BYTES <= Math.max(this.limitBytes, UNIT_BYTES);
    if (!fits || (keyless && !this.#takeKeyless(units))) {
      Atomics.sub(this.#units, 0, units);
      return false;
    }
    this.#units[this.#ownAt]! += units;
    return true;
  }

  /** Takes memory for what can be done without, until half of all is taken. */
  takeSpare(bytes: number): boolean {
    return this.usedBytes + bytes <= this.limitBytes / 2 && this.take(bytes, false);
  }

  /** Gives back what `take` has taken, with the same arguments. */
  give(bytes: number, keyless: boolean): void {
    const units = Math.ceil(bytes / UNIT_BYTES);
    Atomics.sub(this.#units, 0, units);
    this.#units[this.#ownAt]! -= units;
    if (!keyless) return;
    Atomics.sub(this.#units, 1, units);
    this.#units[this.#ownAt + 1]! -= units;
  }

  /** Gives back what a dead thread has taken. Must not run while that thread lives. */
  clearThread(thread: number): void {
    const row = 2 * (1 + thread);
    for (const column of [0, 1]) {
      const lost = Atomics.exchange(this.#units, row + column, 0);
      if (lost !== 0) Atomics.sub(this.#units, column, lost);
    }
  }

  #takeKeyless(units: number): boolean {
    const all = Atomics.add(this.#units, 1, units) + units;
    if (all * UNIT_BYTES <= Math.max(this.limitBytes * KEYLESS_SHARE, UNIT_BYTES)) {
      this.#units[this.#ownAt + 1]! += units;
      return true;
    }
    Atomics.sub(this.#units, 1, units);
    return false;
  }
}

/** The body of one request while it arrives. */
export class Body {
  /** Complete or failed: there is nothing left to wait for. */
  settled = false;
  /** The last byte has arrived. */
  complete = false;
  /** Somebody waits for the body, or has waited. */
  wanted = false;
  /** Monotonic time of the last piece. */
  lastPieceMs: number;
  /** The client sent nothing, or too little, for too long. */
  stalled = false;

  readonly #budget: BodyBudget;
  #maxBytes: number;
  readonly #expectedBytes: number;
  readonly #startMs: number;
  #keyless = false;
  /** Whose turn it is handed over in. */
  #account = '';
  #isReleased = false;
  /** Also of a body that was refused. */
  receivedBytes = 0;
  #bytes: Buffer = NO_BYTES;
  /** Bytes taken from the budget for `#bytes`. */
  #reserved = 0;
  /** Bytes taken for other bodies that the gateway has made of this one, in whole units. */
  #added = 0;
  /** Those of them that are freed with this one; null: none. */
  #made: Buffer[] | null = null;
  #length = 0;
  #error: HeadraceError | null = null;
  #done: BodyCallback | null = null;
  #decoding: Decoding | null = null;

  /** `expectedBytes`: as `Exchange.declaredBytes`. */
  constructor(budget: BodyBudget, limits: BodyLimits, expectedBytes: number, nowMs: number) {
    this.#budget = budget;
    this.#maxBytes = limits.maxBodyBytes;
    this.#expectedBytes = expectedBytes;
    this.#startMs = nowMs;
    this.lastPieceMs = nowMs;
    if (expectedBytes > limits.maxBodyBytes) this.fail(tooLarge(limits.maxBodyBytes));
  }

  /** Adds a copy of `piece`. */
  append(piece: Uint8Array, isLast: boolean, nowMs: number): void {
    this.complete = isLast;
    this.receivedBytes += piece.byteLength;
    if (this.settled) return;
    this.lastPieceMs = nowMs;
    const length = this.#length + piece.byteLength;
    if (length > this.#maxBytes) {
      this.fail(tooLarge(this.#maxBytes));
    } else if (!isLast && this.#keyless && this.#tooSlow(nowMs)) {
      this.stall();
    } else if (length <= this.#reserved || this.#reserve(length, isLast)) {
      this.#bytes.set(piece, this.#length);
      this.#length = length;
      if (!isLast) return;
      if (length < TURN_BYTES) this.#settle();
      else {
        bodyTurns.add(this.#account, length, () => {
          // Not one that was released meanwhile.
          if (!this.settled) this.#settle();
        });
      }
    } else {
      this.fail(new HeadraceError('HR_OVERLOADED', { subject: 'memory for request bodies' }));
    }
  }

  /** Whether the client has sent a part of the body. */
  get begun(): boolean {
    return this.receivedBytes > 0;
  }

  /**
   * Whether so much is still to come that the connection serves no further request. It is read on while the client sends:
   * closing a socket with unread bytes resets it, and the client loses the response (RFC 9112 §9.6).
   */
  get abandoned(): boolean {
    const leftBytes = this.#expectedBytes < 0 ? Infinity : this.#expectedBytes - this.receivedBytes;
    return !this.complete && !this.stalled && leftBytes > READ_ON_BYTES;
  }

  /** Lowers the largest size, before and after decoding; a body that is larger fails with 413. To be called before `wait`. */
  limit(maxBytes: number): void {
    this.#maxBytes = Math.min(this.#maxBytes, maxBytes);
    if (this.#error !== null || Math.max(this.#expectedBytes, this.#length) <= this.#maxBytes) return;
    this.settled = false;
    this.fail(tooLarge(this.#maxBytes));
  }

  /** Fails the body with 408. */
  stall(): void {
    this.stalled = !this.settled;
    this.fail(new HeadraceError('HR_REQUEST_TIMEOUT'));
  }

  fail(error: HeadraceError): void {
    if (this.settled) return;
    this.#error = error;
    // Nobody has got it.
    this.#discard();
    this.#free();
    this.#settle();
  }

  /**
   * Calls `done` once the body is settled, at once if it is; a large one in a turn of the account. `keyless`: the request has no key where one
   * is required, and may use only the part of the memory that is meant for such requests.
   */
  wait(done: BodyCallback, account = '', keyless = false): void {
    this.#done = done;
    this.#account = account;
    this.#keyless = keyless && this.#reserved === 0;
    this.wanted = true;
    if (this.settled) this.#settle();
  }

  /**
   * Undoes the content codings of a body that has come whole, and takes what comes out for the body. `done` is called later with it, or with
   * 400, 413 or 503; not after the release.
   */
  decode(bytes: Buffer, codings: readonly Coding[], done: BodyCallback): void {
    const limits = {
      maxBytes: this.#maxBytes,
      take: (count: number) => this.#budget.take(count, this.#keyless),
      give: (count: number) => this.#budget.give(count, this.#keyless),
    };
    this.#decoding = new Decoding(bytes, codings, limits, (error, decoded) => {
      this.#decoding = null;
      if (this.#reserved > 0) this.#budget.give(this.#reserved, this.#keyless);
      this.#bytes = decoded;
      this.#length = decoded.byteLength;
      this.#reserved = decoded.byteLength;
      const handOver = (): void => {
        if (!this.#isReleased) done(error, decoded);
      };
      if (this.#length < TURN_BYTES) handOver();
      else bodyTurns.add(this.#account, this.#length, handOver);
    });
  }

  /** Takes memory for another body that the gateway makes of this one. False when there is not so much left. */
  reserveAdded(bytes: number): boolean {
    if (!this.#budget.take(bytes, this.#keyless)) return false;
    this.#added += Math.ceil(bytes / UNIT_BYTES) * UNIT_BYTES;
    return true;
  }

  /** Frees a body that the gateway has made of this one together with it. */
  adopt(made: Buffer): void {
    (this.#made ??= []).push(made);
  }

  /**
   * Returns the memory to the budget; to be called once, when the exchange is over. `isRead`: somebody may still read the body, so that its
   * memory is left to V8.
   */
  release(isRead = true): void {
    const isGiven = this.settled;
    this.settled = true;
    this.#isReleased = true;
    this.#done = null;
    if ((!isRead || !isGiven) && this.#decoding === null) this.#discard();
    this.#decoding?.abort();
    this.#decoding = null;
    this.#free();
  }

  #settle(): void {
    this.settled = true;
    const done = this.#done;
    this.#done = null;
    if (done === null) return;
    const bytes = this.#bytes;
    const body = bytes.byteLength === this.#length ? bytes : bytes.subarray(0, this.#length);
    done(this.#error, this.#error === null ? body : NO_BYTES);
  }

  /** Makes room for `length` bytes. False when the budget has not so much left. */
  #reserve(length: number, isLast: boolean): boolean {
    const largest = this.#expectedBytes < 0 ? this.#maxBytes : this.#expectedBytes;
    const grown = Math.min(Math.max(this.#reserved * 2, FIRST_BYTES), Math.max(largest, length));
    const size = isLast ? length : Math.max(grown, length);
    // Both the old and the new memory are counted while one is copied into the other.
    if (!this.#budget.take(size, this.#keyless)) return false;
    if (length > this.#bytes.byteLength) {
      const times = isLast || size < AHEAD_BYTES ? 1 : this.#expectedBytes < 0 ? AHEAD_OF_UNKNOWN : AHEAD;
      this.#move(Math.max(Math.min(size * times, largest), size));
    }
    if (this.#reserved > 0) this.#budget.give(this.#reserved, this.#keyless);
    this.#reserved = size;
    return true;
  }

  #move(size: number): void {
    const bytes = size < LARGE_BYTES ? Buffer.allocUnsafe(size) : Buffer.allocUnsafeSlow(size);
    if (this.#length > 0) bytes.set(this.#bytes.subarray(0, this.#length));
    this.#discard();
    this.#bytes = bytes;
  }

  /** Frees the memory that nobody reads. */
  #discard(): void {
    freeMemory(this.#bytes);
    if (this.#made !== null) for (const made of this.#made) freeMemory(made);
    this.#made = null;
  }

  #free(): void {
    if (this.#reserved > 0) this.#budget.give(this.#reserved, this.#keyless);
    if (this.#added > 0) this.#budget.give(this.#added, this.#keyless);
    this.#bytes = NO_BYTES;
    this.#reserved = 0;
    this.#added = 0;
    this.#length = 0;
  }

  /** Whether the whole body has arrived more slowly than a client without a key may send. */
  #tooSlow(nowMs: number): boolean {
    return this.receivedBytes < (nowMs - this.#startMs - KEYLESS_GRACE_MS) * KEYLESS_BYTES_PER_MS;
  }
}

function tooLarge(maxBytes: number): HeadraceError {
  return new HeadraceError('HR_REQUEST_TOO_LARGE', { subject: String(maxBytes) });
}
