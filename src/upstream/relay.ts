// The client's side of an answer that passes as it comes: the head, pieces as fast as the client reads them, comments in silent
// streams, and an error event in the dialect of the request when the CRN breaks off. It outlives the attempt that it began with.

import type { Clock } from '../actor/index.ts';
import { type AnswerTranslator, type Dialect, errorEvent, type UsageWatch } from '../dialect/index.ts';
import { type ErrorCode, HeadraceError } from '../errors.ts';
import type { Deadline, DeadlineQueue, Expirable } from '../net/deadline.ts';

/** Hears what happens to an answer. An `ExchangeListener` has this shape. */
export interface DownstreamListener {
  /** The client can take more after a `write` returned false. */
  onWritable(): void;
  /** The gateway shuts down before the answer has been handed over. */
  onCut(): void;
  /** The client has the whole answer, or is gone, or the connection was broken: called exactly once. */
  onEnded(cause: 'delivered' | 'gone' | 'broken'): void;
  /** The client has to read before it gets more. */
  readonly isFull?: boolean;
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
}

export interface RelayDeps {
  readonly clock: Clock;
  readonly deadlines: DeadlineQueue;
  readonly relay: RelaySettings;
}

/** What a relay needs to know of its request. */
export interface RelayedRequest {
  readonly dialect: Dialect | undefined;
  /** Counts tokens of the answer while it passes; null when they are not needed. */
  readonly usage: UsageWatch | null;
  /** Takes the times between two pieces of a stream, in seconds. */
  readonly gaps: { observe(seconds: number): void };
}

export interface RelayOwner {
  /** An error was thrown that should not have been: the request cannot go on. */
  onDefect(cause: unknown): void;
  /** The client has to read before it gets more: `onWritable` of the downstream says when. */
  onFull(): void;
  /** A stream has been silent for so long that a comment is due. False: not now. */
  onSilence(): boolean;
  /** The first piece of a stream has been handed to the client. */
  onFirstPiece(nowMs: number): void;
}

/** A comment that fills the silence of a stream. */
export const KEEP_ALIVE: Buffer = Buffer.from(': keep-alive\n\n');

const NO_BYTES = Buffer.alloc(0);

export class Relay implements Expirable {
  /** Translates a stream, behind everything that reads it in the dialect of its CRN; null: it passes as it is. */
  translator: AnswerTranslator | null = null;
  readonly #clock: Clock;
  readonly #keepAliveMs: number | null;
  // Not the request: every object that a piece passes is a miss of the cache when many streams take turns.
  readonly #usage: UsageWatch | null;
  readonly #gaps: RelayedRequest['gaps'];
  readonly #dialect: Dialect | undefined;
  readonly #owner: RelayOwner;
  readonly #downstream: Downstream;
  readonly #streams: boolean;
  readonly #deadline: Deadline | null;
  /** When the last piece of a stream was handed to the client; 0 before the first. */
  #lastPieceMs = 0;
  /** When the last comment was; 0 before the first. */
  #lastCommentMs = 0;

  /** `streams`: the answer is an event stream, in which silence is filled from now on. */
  constructor(
    { clock, deadlines, relay }: RelayDeps,
    request: RelayedRequest,
    owner: RelayOwner,
    downstream: Downstream,
    streams: boolean,
  ) {
    this.#clock = clock;
    this.#keepAliveMs = relay.keepAliveMs;
    this.#usage = request.usage;
    this.#gaps = request.gaps;
    this.#dialect = request.dialect;
    this.#owner = owner;
    this.#downstream = downstream;
    this.#streams = streams;
    this.#deadline = streams && relay.keepAliveMs !== null ? deadlines.deadline(this) : null;
    if (relay.keepAliveMs !== null) this.#deadline?.set(relay.keepAliveMs);
  }

  /** Sends a piece: whole events of a stream, unless `midEvent`. */
  piece(piece: Buffer, midEvent: boolean, nowMs: number): void {
    const usage = this.#usage;
    if (!this.#streams) {
      usage?.data(piece);
      this.#write(piece);
      return;
    }
    let passed: Buffer | undefined = piece;
    if (usage !== null && (usage.isDue || midEvent || usage.judge?.countsDue === true)) {
      passed = usage.events(piece, midEvent);
      if (passed === undefined) return;
    }
    if (this.translator !== null) {
      passed = this.translator.events(passed);
      if (passed.byteLength === 0) return;
    }
    this.#note(passed, nowMs);
    this.#write(passed);
  }

  /** Whether the client has got an error by the translation, behind which nothing may pass. */
  get hasFailed(): boolean {
    return this.translator?.hasFailed === true;
  }

  /** Counts the last piece. Returns what of it the client gets. `isError`: the stream has ended as an error of the CRN. */
  last(piece: Buffer | null, isError: boolean, nowMs: number): Buffer | undefined {
    this.close();
    const usage = this.#usage;
    if (!this.#streams) {
      if (piece !== null) usage?.data(piece);
      return piece ?? undefined;
    }
    let passed = piece === null || usage === null ? (piece ?? undefined) : usage.events(piece);
    if (this.translator !== null) passed = translatedEnd(this.translator, passed, isError);
    if (passed !== undefined) this.#note(passed, nowMs);
    return passed;
  }

  /**
   * The CRN broke off. `midEvent`: inside an event, or in an answer that is no stream; the connection is broken then.
   * @param sequence number of the next event of a numbered stream, unless it is translated
   */
  broken(code: ErrorCode, midEvent: boolean, sequence: number): void {
    this.close();
    this.#downstream.errorCode = code;
    if (midEvent) {
      this.#downstream.destroy();
      return;
    }
    const { message, status } = new HeadraceError(code);
    const failure = { code, message, status, sequence: this.translator?.nextSequence ?? sequence };
    const translated = this.translator?.broken(failure) ?? NO_BYTES;
    this.#downstream.end(Buffer.from(translated.byteLength > 0 ? translated : errorEvent(this.#dialect, failure)));
  }

  /** Nothing more will come. */
  close(): void {
    this.#deadline?.clear();
  }

  /** @internal A comment may be due. The deadline is not moved at every write: here it is set again for the rest. */
  expire(): void {
    if (this.#keepAliveMs === null || this.#downstream.handedOver) return;
    const nowMs = this.#clock.now();
    const restMs = Math.max(this.#lastPieceMs, this.#lastCommentMs) + this.#keepAliveMs - nowMs;
    this.#deadline?.set(restMs > 0 ? Math.ceil(restMs) : this.#keepAliveMs);
    if (restMs > 0 || !this.#owner.onSilence()) return;
    this.#lastCommentMs = nowMs;
    this.#write(KEEP_ALIVE);
  }

  /** @internal */
  onDefect(cause: unknown): void {
    this.#owner.onDefect(cause);
  }

  #write(bytes: Uint8Array): void {
    if (!this.#downstream.write(bytes) && !this.#downstream.handedOver) this.#owner.onFull();
  }

  #note({ byteLength }: Buffer, nowMs: number): void {
    if (this.#downstream.handedOver) return;
    this.#downstream.bytesOut += byteLength;
    if (this.#lastPieceMs > 0) this.#gaps.observe((nowMs - this.#lastPieceMs) / 1000);
    else this.#owner.onFirstPiece(nowMs);
    this.#lastPieceMs = nowMs;
  }
}

/** The last events of a translated stream; undefined when there are none. */
function translatedEnd(translator: AnswerTranslator, last: Buffer | undefined, isError: boolean): Buffer | undefined {
  // The memory of the first part is used again for the second one.
  const events = last === undefined ? NO_BYTES : Buffer.from(translator.events(last));
  const passed = isError ? events : Buffer.concat([events, translator.end()]);
  return passed.byteLength === 0 ? undefined : passed;
}
