// One request and its answer, whatever carries them (uWebSockets.js, node:http or `inject`). Endpoints see only this.
// The head of the answer is kept until the first byte of the body, so that both leave in one corked write.
// After `onAbort` or the end of the answer every call is a no-op: late upstream events need no guard of their own.

import type { HeadraceError } from '../errors.ts';
import type { Span } from '../telemetry/span.ts';

export type BodyCallback = (error: HeadraceError | null, body: Buffer) => void;

/** What every request brings. Header names are lower case; the list is flat: name, value, name, value. */
export interface RequestHead {
  readonly method: string;
  /** Path as sent, without the query. */
  readonly path: string;
  /** Query without the question mark; empty when there is none. */
  readonly query: string;
  readonly headers: readonly string[];
  readonly requestId: string;
}

export abstract class Exchange implements RequestHead {
  /** @internal Its place among the requests in flight. */
  slot = -1;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly headers: readonly string[];
  readonly requestId: string;
  /** Milliseconds of the thread's monotonic clock at which the head was complete. */
  readonly receivedMs: number;
  /** Headers that every answer of this exchange carries (request ids, CORS); a flat list. */
  readonly standing: string[] = [];

  /** The client is gone; nothing can be answered any more. */
  aborted = false;
  /** The head of the answer has been handed to the socket: too late for another status. */
  committed = false;
  /** The answer is complete or broken off. */
  finished = false;
  /** Called once when the client leaves before the answer is complete. */
  onAbort: (() => void) | null = null;
  /** Called when the client can take more after a `write` returned false. */
  onWritable: (() => void) | null = null;
  /** Called when the gateway ends before the answer does: say so and end it. */
  onCut: (() => void) | null = null;
  /** Called once when the exchange is over, however it ended: the place for counting. */
  onClose: ((exchange: Exchange) => void) | null = null;

  /** The money held for the request, if any; closed when the exchange is over, before `onClose`. */
  settlement: { close(): void } | null = null;

  /** Status of the answer, 0 until there is one. */
  status = 0;
  /** Code of the error table when the answer is, or ends as, an error of the gateway's own. */
  errorCode = '';
  /** Name for counters, set by the endpoint: its route and, once known, the configured model. */
  endpoint = 'other';
  model = '';
  /** Whose key or wallet it was; empty when nobody's. */
  account = '';
  /** The CRN that was tried last, and how many tries there were. */
  crn = '';
  attempts = 0;
  /** When the first piece of a stream was handed to the client, in milliseconds; 0 without a stream. */
  firstPieceMs = 0;
  /** Sizes of the bodies as far as they are known: the request's, and what has been handed out of the answer's. */
  bytesIn = 0;
  bytesOut = 0;
  /** The span of this request when it is traced. */
  span: Span | null = null;

  constructor(head: RequestHead, receivedMs: number) {
    this.method = head.method;
    this.path = head.path;
    this.query = head.query;
    this.headers = head.headers;
    this.requestId = head.requestId;
    this.receivedMs = receivedMs;
    this.standing.push('x-request-id', head.requestId, 'request-id', head.requestId);
  }

  /** First value of a header by its lower-case name. */
  header(name: string): string | undefined {
    const headers = this.headers;
    for (let i = 0; i < headers.length; i += 2) {
      if (headers[i] === name) return headers[i + 1];
    }
    return undefined;
  }

  /**
   * Waits for the whole body. `done` is called once: with the bytes, or with 400, 408, 413 or 503 of the error table.
   * Never called after the client has gone. May be asked once.
   */
  abstract readBody(done: BodyCallback): void;

  /** Sets the head of the answer. `contentLength` is -1 when unknown: the body is then chunked. */
  start(status: number, headers: readonly string[], contentLength: number): void {
    if (this.committed || this.finished) return;
    this.status = status;
    if (contentLength > 0) this.bytesOut = contentLength;
    this.begin(status, headers, contentLength);
  }

  /** Sends a piece of the body; false asks the caller to wait for `onWritable`. */
  abstract write(chunk: Uint8Array): boolean;

  /** Sends the last piece, if any, and completes the answer. */
  abstract end(chunk?: Uint8Array): void;

  /** Breaks the connection so that the client sees an incomplete answer. */
  abstract destroy(): void;

  /** Answers in one go. HEAD requests get the head alone. */
  respond(status: number, headers: readonly string[], body: Uint8Array): void {
    this.start(status, headers, body.byteLength);
    this.end(body);
  }

  /** Keeps the head for the first write of the carrier. */
  protected abstract begin(status: number, headers: readonly string[], contentLength: number): void;

  /** To be called by the carrier when the client has gone before the end. */
  protected abort(): void {
    if (this.finished) return;
    this.aborted = true;
    this.finished = true;
    const { onAbort } = this;
    this.onAbort = null;
    this.onWritable = null;
    this.onCut = null;
    onAbort?.();
    this.close();
  }

  /** To be called by the carrier when the answer is complete or broken off. */
  protected finish(): void {
    if (this.finished) return;
    this.finished = true;
    this.onAbort = null;
    this.onWritable = null;
    this.onCut = null;
    this.close();
  }

  /** Runs once at the end, after `finish` or `abort`; carriers add their own cleaning up. */
  protected close(): void {
    const { onClose } = this;
    this.onClose = null;
    this.settlement?.close();
    onClose?.(this);
  }
}

/** Receives every exchange once its head is complete, before its body is read. Must not throw. */
export type ExchangeHandler = (exchange: Exchange) => void;
