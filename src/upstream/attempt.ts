// One attempt of a request on one CRN: a connection, four phases with a deadline each, and exactly one ending. It knows
// nothing of the client: its owner decides what an answer or a failure means. The CRN's place on the board is given back
// at the ending, whatever it is.

import type { Clock } from '../actor/index.ts';
import {
  type Connection,
  type ConnectionPool,
  type DispatchError,
  type DispatchFault,
  type DispatchHandler,
  type DispatchOptions,
} from '../net/client.ts';
import type { Deadline, DeadlineQueue, Expirable } from '../net/deadline.ts';
import type { Board, Choice, Failure, Member } from '../routing/index.ts';

export interface AttemptTimeouts {
  /** Until the socket is open. */
  readonly connectMs: number;
  /** From the request sent to the head of the answer. */
  readonly headersMs: number;
  /** From the request sent to the first byte of the body; null: as `headersMs`. */
  readonly firstByteMs: number | null;
  /** Between two pieces of the body. */
  readonly idleMs: number;
}

/** Takes the pieces of a body as they arrive. */
export interface BodyConsumer {
  onData(chunk: Buffer, nowMs: number): void;
}

/** Hears of an attempt. After `onEnd` or `onFailed` it hears nothing more. */
export interface AttemptOwner extends BodyConsumer {
  /** The head of the answer; `headers` is flat: name in lower case, value. */
  onHead(attempt: Attempt, status: number, headers: readonly string[]): void;
  onEnd(attempt: Attempt): void;
  onFailed(attempt: Attempt, failure: Failure): void;
}

type Phase = 'connect' | 'headers' | 'first byte' | 'body' | 'done';

/** An unwanted answer is read on within these bounds, to keep the connection; past them a new one is cheaper. */
const DISCARD_BYTES = 64 * 1024;
const DISCARD_MS = 1000;

/** What all attempts of a thread share. */
export interface AttemptDeps {
  readonly board: Board;
  readonly clock: Clock;
  readonly deadlines: DeadlineQueue;
  readonly timeouts: AttemptTimeouts;
  readonly pool: (member: Member) => ConnectionPool;
}

export class Attempt implements DispatchHandler, Expirable {
  readonly choice: Choice;
  readonly member: Member;
  /** When the request left for the CRN, and when the first byte of the body came, in milliseconds; 0 before. */
  sentMs = 0;
  firstByteMs = 0;
  /** Takes the body, at first the owner; null: it is discarded. */
  consumer: BodyConsumer | null;
  readonly #deps: AttemptDeps;
  readonly #owner: AttemptOwner;
  readonly #options: DispatchOptions;
  readonly #deadline: Deadline;
  #connection: Connection | null = null;
  #phase: Phase = 'connect';
  #lastDataMs = 0;
  #retriedStale = false;
  #paused = false;
  #left = false;
  #discardedBytes = 0;

  constructor(deps: AttemptDeps, owner: AttemptOwner, choice: Choice, options: DispatchOptions) {
    this.#deps = deps;
    this.#owner = owner;
    this.consumer = owner;
    this.choice = choice;
    this.member = choice.member;
    this.#options = options;
    this.#deadline = deps.deadlines.deadline(this);
  }

  /** Starts; may fail before it returns. `connectMs` bounds the connect phase. */
  start(connectMs: number): void {
    this.#dispatch(false, connectMs);
  }

  /** The client has gone or the answer is no longer wanted: frees everything at once, tells nobody. */
  cancel(): void {
    this.#finish();
  }

  /** The rest of the answer is not wanted: a short one is read to its end, only to keep the connection. */
  discardRest(): void {
    if (this.#phase === 'done') return;
    this.consumer = null;
    this.#deadline.set(DISCARD_MS);
    this.#leave();
  }

  /** Asks the CRN to wait; its silence does not count meanwhile. */
  pause(): void {
    if (this.#paused || this.#phase === 'done') return;
    this.#paused = true;
    this.#deadline.clear();
    this.#connection?.pause(this);
  }

  resume(): void {
    if (!this.#paused || this.#phase === 'done') return;
    this.#paused = false;
    this.#deadline.set(this.#deps.timeouts.idleMs);
    this.#connection?.resume(this);
  }

  /** @internal The phase took too long. */
  expire(): void {
    const { firstByteMs, headersMs, idleMs } = this.#deps.timeouts;
    const byteFirst = firstByteMs !== null && firstByteMs <= headersMs;
    if (this.consumer === null) {
      this.cancel();
    } else if (this.#phase === 'connect') {
      this.#fail('connect timeout');
    } else if (this.#phase === 'body') {
      // The deadline is not moved at every piece: here it is set again for the rest.
      const restMs = this.#lastDataMs + idleMs - this.#deps.clock.now();
      if (restMs > 0) this.#deadline.set(Math.ceil(restMs));
      else this.#fail('idle timeout');
    } else {
      this.#fail(byteFirst || this.#phase === 'first byte' ? 'first byte timeout' : 'headers timeout');
    }
  }

  /** @internal */
  onRequestSent({ sentMs }: Connection): void {
    this.#phase = 'headers';
    this.sentMs = sentMs;
    const { headersMs, firstByteMs } = this.#deps.timeouts;
    this.#deadline.set(firstByteMs === null ? headersMs : Math.min(headersMs, firstByteMs));
  }

  /** @internal */
  onResponseStart(status: number, headers: readonly string[]): void {
    if (this.#phase === 'done') return;
    this.#phase = 'first byte';
    // Some CRNs send the head at once and compute then: the wait for the first byte is the same wait.
    const { firstByteMs, headersMs } = this.#deps.timeouts;
    // The deadline set when the request left goes on, unless it was the shorter one. Whole milliseconds: few lists.
    if (firstByteMs !== null && firstByteMs > headersMs) {
      this.#deadline.set(Math.ceil(firstByteMs - (this.#deps.clock.now() - this.sentMs)));
    }
    this.#owner.onHead(this, status, headers);
  }

  /** @internal */
  onResponseData(chunk: Buffer): void {
    if (this.#phase === 'done') return;
    if (this.consumer === null) {
      this.#phase = 'body';
      this.#discardedBytes += chunk.byteLength;
      if (this.#discardedBytes > DISCARD_BYTES) this.cancel();
      return;
    }
    const nowMs = this.#deps.clock.now();
    this.#lastDataMs = nowMs;
    if (this.#phase !== 'body') {
      this.#phase = 'body';
      this.firstByteMs = nowMs;
      // A chunk may still come after the CRN was asked to wait; it must not start the clock again.
      if (!this.#paused) this.#deadline.set(this.#deps.timeouts.idleMs);
    }
    this.consumer.onData(chunk, nowMs);
  }

  /** @internal */
  onResponseEnd(): void {
    if (this.#phase === 'done') return;
    this.#finish();
    if (this.consumer !== null) this.#owner.onEnd(this);
  }

  /** @internal */
  onResponseError({ fault }: DispatchError): void {
    if (this.#phase === 'done') return;
    if (fault === 'stale' && !this.#retriedStale) this.#retryStale();
    else this.#fail(failureOf(fault, this.#phase));
  }

  /** A kept-alive socket died as the request met it: that says nothing about the CRN, so it is asked once more. */
  #retryStale(): void {
    this.#retriedStale = true;
    this.#connection = null;
    this.#phase = 'connect';
    this.#dispatch(true, this.#deps.timeouts.connectMs);
  }

  #dispatch(fresh: boolean, connectMs: number): void {
    this.#deadline.set(connectMs);
    const connection = this.#deps.pool(this.member).dispatch(this.#options, this, fresh);
    // A request that failed at once may have been sent again by then.
    if (connection !== null) this.#connection = connection;
  }

  #fail(failure: Failure): void {
    if (this.#phase === 'done') return;
    this.#finish();
    if (this.consumer !== null) this.#owner.onFailed(this, failure);
  }

  #leave(): void {
    if (this.#left) return;
    this.#left = true;
    this.#deps.board.leave(this.member.server);
  }

  #finish(): void {
    if (this.#phase === 'done') return;
    this.#phase = 'done';
    this.#deadline.clear();
    this.#leave();
    this.#connection?.abort(this);
    this.#connection = null;
  }
}

function failureOf(fault: DispatchFault, phase: Phase): Failure {
  if (fault === 'stale') return 'reset';
  return fault === 'internal' ? (phase === 'headers' ? 'reset' : 'truncated') : fault;
}
