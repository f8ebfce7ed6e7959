// Collects the body of one request within bounds: the cap of one body, the silence between two pieces, and the
// memory that all bodies of a thread may hold together. The carriers feed it; `Exchange.readBody` waits on it.

import { HeadraceError } from '../errors.ts';
import type { BodyCallback } from './exchange.ts';

const EMPTY: Buffer = Buffer.alloc(0);

/** First allocation for a body of unknown length. */
const FIRST_BYTES = 16 * 1024;

/** What is left of a refused body is read and dropped up to here, to keep the connection. */
const READ_ON_BYTES = 64 * 1024;

/** Memory for bodies, shared by the requests of one thread. */
export class BodyBudget {
  limitBytes: number;
  usedBytes = 0;

  constructor(limitBytes: number) {
    this.limitBytes = limitBytes;
  }
}

/** Bounds on request bodies. */
export interface BodyLimits {
  /** Largest body in bytes; above it the answer is 413. */
  readonly maxBodyBytes: number;
  /** Longest silence between two pieces of a body in milliseconds; above it the answer is 408. */
  readonly bodyIdleMs: number;
}

/** The body of one request while it arrives. */
export class Body {
  /** Complete or failed: there is nothing left to wait for. */
  settled = false;
  /** The last byte has arrived, wanted or not. */
  complete = false;
  /** Monotonic time of the last piece, for the slow-body limit. */
  lastPieceMs: number;
  /** The client has fallen silent in the middle. */
  stalled = false;

  readonly #budget: BodyBudget;
  readonly #maxBytes: number;
  readonly #expectedBytes: number;
  #bytes: Buffer = EMPTY;
  #length = 0;
  #error: HeadraceError | null = null;
  #done: BodyCallback | null = null;

  /** `expectedBytes` as `declaredLength` gives it. */
  constructor(budget: BodyBudget, limits: BodyLimits, expectedBytes: number, nowMs: number) {
    this.#budget = budget;
    this.#maxBytes = limits.maxBodyBytes;
    this.#expectedBytes = expectedBytes;
    this.lastPieceMs = nowMs;
    if (expectedBytes > limits.maxBodyBytes) this.fail(tooLarge(limits.maxBodyBytes));
  }

  /** Copies a piece: carriers may reuse its memory after the call. */
  append(piece: Uint8Array, isLast: boolean, nowMs: number): void {
    this.complete = isLast;
    if (this.settled) return;
    this.lastPieceMs = nowMs;
    const length = this.#length + piece.byteLength;
    if (length > this.#maxBytes) {
      this.fail(tooLarge(this.#maxBytes));
      return;
    }
    if (this.#budget.usedBytes + piece.byteLength > this.#budget.limitBytes) {
      this.fail(new HeadraceError('HR_OVERLOADED', { subject: 'memory for request bodies' }));
      return;
    }
    this.#budget.usedBytes += piece.byteLength;
    this.#reserve(length, isLast);
    this.#bytes.set(piece, this.#length);
    this.#length = length;
    if (isLast) this.#settle();
  }

  /**
   * So much is still to come that the connection serves no further request. It is read on all the same while the
   * client sends: closing on unread bytes resets it, and a reset takes the answer with it (RFC 9112 §9.6).
   */
  get abandoned(): boolean {
    const leftBytes = this.#expectedBytes < 0 ? Infinity : this.#expectedBytes - this.#length;
    return !this.complete && !this.stalled && leftBytes > READ_ON_BYTES;
  }

  /** Nothing has come for too long. */
  stall(): void {
    this.stalled = !this.settled;
    this.fail(new HeadraceError('HR_REQUEST_TIMEOUT'));
  }

  fail(error: HeadraceError): void {
    if (this.settled) return;
    this.#error = error;
    this.#settle();
  }

  /** Calls back as soon as the body is settled; at once if it is. */
  wait(done: BodyCallback): void {
    if (this.settled) done(this.#error, this.#error === null ? this.#bytes.subarray(0, this.#length) : EMPTY);
    else this.#done = done;
  }

  /** Gives the memory back; to be called once, when the exchange is over. */
  release(): void {
    this.#budget.usedBytes -= this.#length;
    this.settled = true;
    this.#bytes = EMPTY;
    this.#length = 0;
    this.#done = null;
  }

  #settle(): void {
    this.settled = true;
    const done = this.#done;
    this.#done = null;
    if (done !== null) this.wait(done);
  }

  #reserve(length: number, isLast: boolean): void {
    if (length <= this.#bytes.byteLength) return;
    // A declared length is allocated whole: the pages of a large buffer cost nothing until they are written.
    const wanted = isLast ? length : Math.max(this.#expectedBytes, this.#bytes.byteLength * 2, length, FIRST_BYTES);
    const bytes = Buffer.allocUnsafe(Math.min(wanted, Math.max(this.#maxBytes, length)));
    bytes.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = bytes;
  }
}

function tooLarge(maxBytes: number): HeadraceError {
  return new HeadraceError('HR_REQUEST_TOO_LARGE', { subject: String(maxBytes) });
}

/**
 * The declared length of a request body: 0 when there is none, -1 when it is chunked.
 * Throws 400 for values that are not a number and for several that differ (RFC 9112 §6.3).
 */
export function declaredLength(headers: readonly string[]): number {
  let length = -1;
  let chunked = false;
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i] === 'transfer-encoding') chunked = true;
    if (headers[i] !== 'content-length') continue;
    const value = headers[i + 1] ?? '';
    if (!/^\d{1,15}$/.test(value)) throw new HeadraceError('HR_REQUEST_MALFORMED', { subject: 'bad Content-Length' });
    if (length >= 0 && length !== Number(value)) {
      throw new HeadraceError('HR_REQUEST_MALFORMED', { subject: 'conflicting Content-Length' });
    }
    length = Number(value);
  }
  return length < 0 && !chunked ? 0 : length;
}
