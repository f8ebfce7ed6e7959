// An exchange without a connection, for requests that the process makes itself. What is written of its response goes to a sink.

import type { Clock } from '../actor/index.ts';
import { Body, type BodyBudget, type BodyLimits } from './body.ts';
import { checkHead, Exchange, type ExchangeHandler, type RequestHead } from './exchange.ts';
import { respondError } from './respond.ts';

/** Takes a response. After `end` or `broken` nothing is called. */
export interface ResponseSink {
  /**
   * A piece of the body; the exchange has status and headers by then. Its memory may be used again when the call returns. False asks to
   * wait until `resume` of the exchange.
   */
  piece(chunk: Uint8Array): boolean;
  /**
   * The value of a JSON response, in place of its text; `end` follows. It may be shared with others, as by a cache: it must not be changed.
   * Without this the text comes in pieces.
   */
  value?(value: unknown): void;
  /** The response is complete; its last piece has been given. */
  end(): void;
  /** The response was broken off and is incomplete. */
  broken(): void;
}

export interface DetachedOptions {
  readonly handler: ExchangeHandler;
  readonly clock: Clock;
  readonly limits: BodyLimits;
  readonly budget: BodyBudget;
}

const NO_BYTES: Uint8Array = new Uint8Array(0);

export class DetachedExchange extends Exchange {
  readonly #sink: ResponseSink;

  constructor(head: RequestHead, body: Body, nowMs: number, sink: ResponseSink) {
    super(head, nowMs);
    this.requestBody = body;
    this.#sink = sink;
  }

  /** Headers of the response, a flat list. */
  get answerHeaders(): readonly string[] {
    return [...this.commonHeaders, ...this.responseHeaders];
  }

  /** Size of the body that the response declares; -1 when it is not known. */
  get declaredLength(): number {
    return this.contentLength;
  }

  override write(chunk: Uint8Array): boolean {
    if (this.handedOver) return true;
    this.committed = true;
    return chunk.byteLength === 0 || this.#sink.piece(chunk);
  }

  override end(chunk: Uint8Array = NO_BYTES): void {
    if (this.handedOver) return;
    this.write(chunk);
    this.handedOver = true;
    try {
      // What was held beyond its cost is there for what the sink does next.
      this.settle();
    } finally {
      this.#sink.end();
      this.ended('delivered');
    }
  }

  override handValue(status: number, headers: readonly string[], value: unknown): boolean {
    if (this.#sink.value === undefined) return false;
    if (this.handedOver) return true;
    this.start(status, headers, -1);
    this.committed = true;
    this.#sink.value(value);
    this.end();
    return true;
  }

  override destroy(): void {
    if (this.handedOver) return;
    this.handedOver = true;
    this.#sink.broken();
    this.ended('broken');
  }

  /** The sink can take more after its `piece` has returned false. */
  resume(): void {
    if (!this.handedOver) this.listener?.onWritable();
  }

  /** Whoever made the request does not want the response any more. Nothing is called on the sink. */
  leave(): void {
    if (!this.handedOver) this.ended('gone');
  }
}

/** Makes a request and hands it to the handler. The response may come before this returns; `begun` has the exchange before that. */
export function startDetached(
  { budget, clock, handler, limits }: DetachedOptions,
  head: RequestHead,
  bytes: Uint8Array,
  sink: ResponseSink,
  begun: (exchange: DetachedExchange) => void,
): void {
  const nowMs = clock.now();
  const body = new Body(budget, limits, bytes.byteLength, nowMs);
  const exchange = new DetachedExchange(head, body, nowMs, sink);
  begun(exchange);
  if (exchange.endCause !== null) return;
  try {
    const fault = checkHead(head);
    if (fault !== null) throw fault;
    handler(exchange);
  } catch (error) {
    respondError(exchange, error);
  }
  body.append(bytes, true, nowMs);
}
