// One try of one request on one CRN: a connection, four phases, a deadline for each, and exactly one ending. It knows
// nothing of the client; its owner (failover.ts) decides what an answer or a failure means. The CRN's place on the
// board is given back at the ending, whatever it is.

import type { IncomingHttpHeaders } from 'node:http';
import type { Connection, ConnectionPool, Dispatcher, DispatchOptions } from '../net/client.ts';
import type { Deadline, DeadlineQueue, Expirable } from '../net/deadline.ts';
import type { Board, Failure, Member } from '../routing/index.ts';

export interface AttemptTimeouts {
  /** Until the socket is open. */
  readonly connectMs: number;
  /** From the request sent to the head of the answer. */
  readonly headersMs: number;
  /** From the request sent to the first byte of the body; null: no such limit. */
  readonly firstByteMs: number | null;
  /** Between two pieces of the body. */
  readonly idleMs: number;
}

/** Hears of an attempt. After `onEnd` or `onFailed` it hears nothing more. */
export interface AttemptOwner {
  /** The head of the answer; names and values as raw bytes, alternating. */
  onHead(attempt: Attempt, status: number, headers: readonly Buffer[]): void;
  onData(attempt: Attempt, chunk: Buffer): void;
  onEnd(attempt: Attempt): void;
  onFailed(attempt: Attempt, failure: Failure): void;
}

type Phase = 'connect' | 'headers' | 'first byte' | 'body' | 'done';

/** What all attempts of a thread share. */
export interface AttemptWorld {
  readonly board: Board;
  readonly deadlines: DeadlineQueue;
  readonly timeouts: AttemptTimeouts;
  readonly now: () => number;
  readonly pool: (member: Member) => ConnectionPool;
}

export class Attempt implements Dispatcher.DispatchHandler, Expirable {
  readonly member: Member;
  /** When the request left for the CRN, in milliseconds; 0 before. */
  sentMs = 0;
  readonly #world: AttemptWorld;
  #owner: AttemptOwner;
  readonly #options: DispatchOptions;
  readonly #deadline: Deadline;
  #pool: ConnectionPool | null = null;
  #connection: Connection | null = null;
  #controller: Dispatcher.DispatchController | null = null;
  #phase: Phase = 'connect';
  #reused = false;
  #retriedStale = false;
  #paused = false;
  #left = false;

  constructor(world: AttemptWorld, owner: AttemptOwner, member: Member, options: DispatchOptions) {
    this.#world = world;
    this.#owner = owner;
    this.member = member;
    this.#options = options;
    this.#deadline = world.deadlines.deadline(this);
  }

  /** Starts; may fail before it returns. `connectMs` bounds the connect phase. */
  start(connectMs: number): void {
    this.#pool = this.#world.pool(this.member);
    this.#dispatch(false, connectMs);
  }

  /** The client has gone or the answer is no longer wanted: frees everything at once, tells nobody. */
  cancel(): void {
    this.#finish(false);
  }

  /** The rest of the answer is of no interest: it is read to its end only to keep the connection. */
  discardRest(): void {
    if (this.#phase === 'done') return;
    this.#owner = NOBODY;
    this.#leave();
  }

  /** Asks the CRN to wait; its silence does not count meanwhile. */
  pause(): void {
    if (this.#paused || this.#phase === 'done') return;
    this.#paused = true;
    this.#deadline.clear();
    this.#controller?.pause();
  }

  resume(): void {
    if (!this.#paused || this.#phase === 'done') return;
    this.#paused = false;
    this.#deadline.set(this.#world.timeouts.idleMs);
    this.#controller?.resume();
  }

  /** @internal The phase took too long. */
  expire(): void {
    const { firstByteMs, headersMs } = this.#world.timeouts;
    const bounded = firstByteMs !== null && this.#world.now() - this.sentMs >= firstByteMs;
    if (this.#phase === 'connect') this.#fail('connect timeout');
    else if (this.#phase === 'body') this.#fail('idle timeout');
    else if (bounded && firstByteMs <= headersMs) this.#fail('first byte timeout');
    else this.#fail(this.#phase === 'headers' ? 'headers timeout' : 'idle timeout');
  }

  /** @internal */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#phase === 'done') {
      controller.abort(new Error('no longer wanted'));
      return;
    }
    this.#controller = controller;
    this.#phase = 'headers';
    this.sentMs = this.#world.now();
    const { headersMs, firstByteMs } = this.#world.timeouts;
    this.#deadline.set(firstByteMs === null ? headersMs : Math.min(headersMs, firstByteMs));
  }

  /** @internal */
  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    if (this.#phase === 'done' || status < 200) return;
    this.#phase = 'first byte';
    const { firstByteMs, idleMs } = this.#world.timeouts;
    const leftMs = firstByteMs === null ? idleMs : Math.max(firstByteMs - (this.#world.now() - this.sentMs), 0);
    this.#deadline.set(leftMs);
    this.#owner.onHead(this, status, rawHeaders(controller, headers));
  }

  /** @internal */
  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#phase === 'done') return;
    this.#phase = 'body';
    this.#deadline.set(this.#world.timeouts.idleMs);
    this.#owner.onData(this, chunk);
  }

  /** @internal */
  onResponseEnd(): void {
    if (this.#phase === 'done') return;
    this.#finish(true);
    this.#owner.onEnd(this);
  }

  /** @internal */
  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#phase === 'done') return;
    if (this.#reused && !this.#retriedStale && this.#phase === 'headers') {
      this.#retryStale();
      return;
    }
    this.#fail(failureOf(error, this.#phase));
  }

  /** A kept-alive socket died as the request met it: that says nothing about the CRN, so it is asked once more. */
  #retryStale(): void {
    this.#retriedStale = true;
    if (this.#connection !== null) this.#pool?.discard(this.#connection);
    this.#connection = null;
    this.#controller = null;
    this.#phase = 'connect';
    this.#dispatch(true, this.#world.timeouts.connectMs);
  }

  #dispatch(fresh: boolean, connectMs: number): void {
    const connection = this.#pool?.take(fresh);
    if (connection === undefined) {
      this.#fail('no connection free');
      return;
    }
    this.#connection = connection;
    this.#reused = connection.served > 0;
    this.#deadline.set(connectMs);
    connection.client.dispatch(this.#options, this);
  }

  #fail(failure: Failure): void {
    if (this.#phase === 'done') return;
    this.#finish(false);
    this.#owner.onFailed(this, failure);
  }

  #leave(): void {
    if (this.#left) return;
    this.#left = true;
    this.#world.board.leave(this.member.server);
  }

  #finish(reusable: boolean): void {
    if (this.#phase === 'done') return;
    this.#phase = 'done';
    this.#deadline.clear();
    this.#leave();
    if (this.#connection === null) return;
    if (reusable) this.#pool?.give(this.#connection);
    else this.#pool?.discard(this.#connection);
    this.#connection = null;
  }
}

/** Hears what no one wants to hear. */
const NOBODY: AttemptOwner = { onHead() {}, onData() {}, onEnd() {}, onFailed() {} };

function rawHeaders(controller: Dispatcher.DispatchController, headers: IncomingHttpHeaders): readonly Buffer[] {
  const raw = controller.rawHeaders;
  if (Array.isArray(raw) && Buffer.isBuffer(raw[0])) return raw as Buffer[];
  return Object.entries(headers).flatMap(([name, value]) =>
    [value ?? []].flat().flatMap((one) => [Buffer.from(name), Buffer.from(one)]),
  );
}

function failureOf(error: Error, phase: Phase): Failure {
  if (phase === 'connect') return 'connect';
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH') return 'truncated';
  if (code?.startsWith('HPE_') === true) return 'malformed';
  return phase === 'headers' ? 'reset' : 'truncated';
}
