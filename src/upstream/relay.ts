// The answer of one CRN on its way to the client: whole server-sent events only, backpressure both ways, comments in silent
// streams, and an error event in the request's dialect when the CRN breaks off. Until the first byte leaves nothing is
// committed, and another CRN may still be tried.

import type { Clock } from '../actor/index.ts';
import { AnswerJudge, type Dialect, errorEvent, type UsageWatch } from '../dialect/index.ts';
import { type ErrorCode, HeadraceError } from '../errors.ts';
import type { Deadline, DeadlineQueue, Expirable } from '../net/deadline.ts';
import { EventSplitter } from '../net/sse.ts';
import type { Attempt, BodyConsumer } from './attempt.ts';
import type { ResponseHead } from './headers.ts';

/** Hears what happens to an answer. An `ExchangeListener` has this shape. */
export interface DownstreamListener {
  /** The client can take more after a `write` returned false. */
  onWritable(): void;
  /** The gateway shuts down before the answer has been handed over. */
  onCut(): void;
  /** The client has the whole answer, or is gone, or the connection was broken: called exactly once. */
  onEnded(cause: 'delivered' | 'gone' | 'broken'): void;
}

/** The client side of a request. An `Exchange` has this shape. */
export interface Downstream {
  listener: DownstreamListener | null;
  /** The last byte has been given, the answer was broken off, or the client has gone: later calls do nothing. */
  readonly handedOver: boolean;
  /** The head of the answer has left: too late for another status. */
  readonly committed: boolean;
  /** Code of the error table when the answer ends as an error of the gateway; empty otherwise. */
  errorCode: string;
  /** Bytes of a stream that have been handed to the client. */
  bytesOut: number;
  /** Sets the head; it leaves with the first byte. `contentLength` -1: unknown. */
  start(status: number, headers: readonly string[], contentLength: number): void;
  /** False asks to wait for the listener's `onWritable`. */
  write(chunk: Uint8Array): boolean;
  end(chunk?: Uint8Array): void;
  /** Breaks the connection so that the client sees an incomplete answer. */
  destroy(): void;
}

export interface RelaySettings {
  /** Silence after which a comment is sent on an event stream, in milliseconds; null: never. */
  readonly keepAliveMs: number | null;
  /** Longest time a client may refuse to read, in milliseconds. */
  readonly clientIdleMs: number;
  /** Most bytes of an unfinished event held back. */
  readonly heldEventBytes: number;
}

export interface RelayDeps {
  readonly clock: Clock;
  readonly deadlines: DeadlineQueue;
  readonly relay: RelaySettings;
}

/** What a relay needs to know of its request. */
export interface RelayedRequest {
  readonly dialect: Dialect | undefined;
  /** Answers that it asks for: prompts times `n`. */
  readonly choices: number;
  /** Counts tokens of the answer while it passes; null when they are not needed. */
  readonly usage: UsageWatch | null;
  /** Takes the times between two pieces of a stream, in seconds. */
  readonly gaps: { observe(seconds: number): void };
}

export interface RelayOwner {
  /** Asked once, when the answer is committed: headers to add to those of the CRN. */
  answerHeaders(): readonly string[];
  /** The first piece of a stream has been handed to the client. */
  onStream(nowMs: number): void;
  /** The client has not read for too long; it is treated as if it had left. */
  abandon(): void;
}

const KEEP_ALIVE = Buffer.from(': keep-alive\n\n');

export class Relay implements BodyConsumer, Expirable {
  readonly #clock: Clock;
  readonly #settings: RelaySettings;
  readonly #request: RelayedRequest;
  readonly #owner: RelayOwner;
  readonly #attempt: Attempt;
  readonly #head: ResponseHead;
  readonly #downstream: Downstream;
  readonly #splitter: EventSplitter | null;
  readonly #judge: AnswerJudge;
  readonly #usage: UsageWatch | null;
  readonly #deadline: Deadline;
  /** The client has to read before more can be sent. */
  #waiting = false;
  #started = false;
  /** When the last piece of a stream was handed to the client; 0 before the first. */
  #lastPieceMs = 0;
  /** The same of any write, comments included. */
  #lastWriteMs = 0;

  constructor(
    { clock, deadlines, relay }: RelayDeps,
    request: RelayedRequest,
    owner: RelayOwner,
    attempt: Attempt,
    head: ResponseHead,
    downstream: Downstream,
  ) {
    this.#clock = clock;
    this.#settings = relay;
    this.#request = request;
    this.#owner = owner;
    this.#attempt = attempt;
    this.#head = head;
    this.#downstream = downstream;
    this.#judge = new AnswerJudge(request.dialect, request.choices);
    // A whole answer leaves as it comes, so it is not judged.
    const events = head.contentType.startsWith('text/event-stream');
    this.#judge.begin(events ? head : { ...head, encoded: true });
    this.#splitter = this.#judge.streams ? new EventSplitter({ maxHeldBytes: relay.heldEventBytes }) : null;
    this.#usage = head.status < 300 ? request.usage : null;
    this.#usage?.begin(this.#judge);
    this.#deadline = deadlines.deadline(this);
    this.#armKeepAlive();
  }

  /** Whether bytes of this answer have left for the client. */
  get committed(): boolean {
    return this.#started;
  }

  /** Whether the client has to read before more can be sent. */
  get waiting(): boolean {
    return this.#waiting;
  }

  onData(chunk: Buffer, nowMs: number): void {
    if (this.#splitter === null) {
      this.#judge.data(chunk);
      this.#usage?.data(chunk);
      if (!this.#started && chunk.byteLength === this.#head.contentLength) this.#finish(chunk);
      else this.#write(chunk, nowMs);
      return;
    }
    const whole = this.#splitter.push(chunk);
    if (whole === undefined) return;
    const { midEvent } = this.#splitter;
    this.#judge.events(whole, midEvent);
    const passed = this.#usage === null ? whole : this.#usage.events(whole, midEvent);
    if (passed === undefined) return;
    this.#write(passed, nowMs);
    this.#downstream.bytesOut += passed.byteLength;
    if (this.#lastPieceMs > 0) this.#request.gaps.observe((nowMs - this.#lastPieceMs) / 1000);
    else if (this.#downstream.handedOver) return;
    else this.#owner.onStream(nowMs);
    this.#lastPieceMs = nowMs;
  }

  /** The CRN's answer is complete as HTTP. Answers with a code when it is not complete as a stream. */
  end(): ErrorCode | null {
    if (this.#splitter === null) {
      this.#finish();
      return null;
    }
    const rest = this.#splitter.take();
    const success = this.#head.status < 300;
    if (success && this.#judge.end(rest, false) !== null) {
      if (this.#started) this.broken('HR_STREAM_TRUNCATED');
      return 'HR_STREAM_TRUNCATED';
    }
    if (rest.byteLength === 0) {
      this.#finish();
    } else {
      this.#finish(this.#usage === null ? rest : this.#usage.events(rest));
    }
    return null;
  }

  /** The CRN broke off after the answer was committed. */
  broken(code: ErrorCode): void {
    this.#deadline.clear();
    this.#downstream.errorCode = code;
    const { midEvent } = this.#splitter ?? { midEvent: true };
    if (midEvent) {
      this.#downstream.destroy();
      return;
    }
    const { message, status } = new HeadraceError(code);
    const event = errorEvent(this.#request.dialect, { code, message, status, sequence: this.#judge.nextSequence });
    this.#downstream.write(Buffer.from(event));
    this.#downstream.end();
  }

  /** Nothing more will come. */
  close(): void {
    this.#deadline.clear();
  }

  /** @internal Silence of the CRN, or of a client that does not read. */
  expire(): void {
    if (this.#downstream.handedOver) return;
    if (this.#waiting) {
      this.#owner.abandon();
      this.#downstream.destroy();
      return;
    }
    const { keepAliveMs } = this.#settings;
    if (keepAliveMs === null) return;
    const nowMs = this.#clock.now();
    const restMs = this.#lastWriteMs + keepAliveMs - nowMs;
    if (restMs > 0) {
      this.#deadline.set(Math.ceil(restMs));
      return;
    }
    this.#deadline.set(keepAliveMs);
    if (this.#splitter?.midEvent === false) this.#write(KEEP_ALIVE, nowMs);
  }

  #write(bytes: Uint8Array, nowMs: number): void {
    if (!this.#started) this.#commit(-1);
    this.#lastWriteMs = nowMs;
    if (this.#downstream.write(bytes) || this.#waiting || this.#downstream.handedOver) return;
    this.#waiting = true;
    this.#deadline.set(this.#settings.clientIdleMs);
    this.#attempt.pause();
  }

  /** The client can take more. */
  onWritable(): void {
    if (!this.#waiting) return;
    this.#waiting = false;
    this.#deadline.clear();
    this.#armKeepAlive();
    this.#attempt.resume();
  }

  #finish(last?: Uint8Array): void {
    this.#deadline.clear();
    if (!this.#started) this.#commit(last?.byteLength ?? 0);
    this.#downstream.end(last);
  }

  #commit(wholeBytes: number): void {
    this.#started = true;
    const { status, headers, contentLength } = this.#head;
    const length = this.#splitter === null ? Math.max(contentLength, wholeBytes) : -1;
    this.#downstream.start(status, [...headers, ...this.#owner.answerHeaders()], length);
  }

  /** The deadline is not moved at every write: `expire` sets it again for the rest. */
  #armKeepAlive(): void {
    const { keepAliveMs } = this.#settings;
    if (keepAliveMs !== null && this.#splitter !== null) this.#deadline.set(keepAliveMs);
  }
}
