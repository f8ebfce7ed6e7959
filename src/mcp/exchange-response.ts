// Hands the response of the SDK, which is one of the Fetch standard, to an exchange: as a whole, or as the stream of events that it is.

import { setImmediate } from 'node:timers/promises';
import type { EndCause, Exchange, ExchangeListener } from '../ingress/exchange.ts';
import { encoded } from '../ingress/large-json.ts';

/** What of the head of a request the protocol reads. */
export const PROTOCOL_HEADERS: RegExp = /^(?:accept|content-type|mcp-.+|last-event-id)$/;

const ANY_TYPE = /(?:^|,)\s*\*\/\*\s*(?:$|,|;(?!\s*q\s*=\s*0(?:\.0*)?\s*(?:$|,)))/;
const BOTH_TYPES = 'application/json, text/event-stream';

/** The request as the SDK takes it, with its body apart. */
export function requestOf({ headers, method }: Exchange, signal: AbortSignal): Request {
  const passed: [string, string][] = [];
  for (let i = 0; i < headers.length; i += 2) {
    const [name, value] = [headers[i] as string, headers[i + 1] as string];
    // Of all types (RFC 9110 §12.5.1), which the SDK does not take for the two that it asks for: `curl` and web pages.
    if (PROTOCOL_HEADERS.test(name))
      passed.push([name, name === 'accept' && ANY_TYPE.test(value) ? BOTH_TYPES : value]);
  }
  return new Request('http://gateway/mcp', { method, headers: passed, signal });
}

/** Passes a response on while it comes. The listener of the exchange while it does. */
export class ResponsePump implements ExchangeListener {
  readonly #exchange: Exchange;
  readonly #abort: AbortController;
  readonly #refuse: () => void;
  #writable: (() => void) | null = null;
  /** The whole response has come: there is nothing left to abort. */
  #isWhole = false;

  /** `refuse` answers a request that the gateway has to give up before its response has begun. */
  constructor(exchange: Exchange, abort: AbortController, refuse: () => void) {
    this.#exchange = exchange;
    this.#abort = abort;
    this.#refuse = refuse;
    exchange.listener = this;
  }

  /** Resolves when the response has been handed over, or the client has gone. Rejects when the SDK fails. */
  async pass(response: Response, more: readonly string[]): Promise<void> {
    const exchange = this.#exchange;
    // The connection is that of the server adapter.
    const headers = [...response.headers].filter(([name]) => name !== 'connection').flat();
    if (!headers.includes('text/event-stream') || response.body === null) {
      const body = response.body === null ? new Uint8Array(0) : new Uint8Array(await response.arrayBuffer());
      this.#isWhole = true;
      exchange.respond(response.status, [...headers, ...more], body);
      return;
    }
    exchange.start(response.status, [...headers, ...more], -1);
    const reader = response.body.getReader() as ReadableStreamDefaultReader<Uint8Array>;
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done || exchange.handedOver) break;
        exchange.bytesOut += value.byteLength;
        if (!exchange.write(value)) await this.#drained();
      }
    } finally {
      // Of a client that has gone; else it is over.
      await reader.cancel().catch(() => undefined);
    }
    this.#isWhole = true;
    exchange.end();
  }

  /** Ends a response with an event, which is encoded in pieces where it is large. Resolves as `pass` does. */
  async sendEvent(value: object): Promise<void> {
    const exchange = this.#exchange;
    const pieces = encoded(value, 'event: message\ndata: ', '\n\n');
    let piece = pieces.next();
    for (; piece.done !== true; piece = pieces.next()) {
      if (exchange.handedOver) return;
      exchange.bytesOut += piece.value.byteLength;
      if (exchange.write(piece.value)) await setImmediate();
      else await this.#drained();
    }
    this.#isWhole = true;
    exchange.bytesOut += piece.value.byteLength;
    exchange.end(piece.value);
  }

  /** The call was cancelled: no response is expected any more (revision 2025-11-25, "Cancellation"). */
  cancel(): void {
    this.#abort.abort();
    const exchange = this.#exchange;
    if (exchange.committed) exchange.end();
    else exchange.respond(202, [], new Uint8Array(0));
  }

  onWritable(): void {
    this.#writable?.();
    this.#writable = null;
  }

  /** What was called is cut too, and its error becomes the end of a stream that has begun. */
  onCut(): void {
    if (!this.#exchange.committed) this.#refuse();
    else if (this.#exchange.subRequests === null || this.#exchange.subRequests.size === 0) this.#exchange.end();
  }

  onEnded(_cause: EndCause): void {
    this.onWritable();
    if (!this.#isWhole) this.#abort.abort();
  }

  #drained(): Promise<void> {
    if (this.#exchange.handedOver) return Promise.resolve();
    return new Promise((resolve) => {
      this.#writable = resolve;
    });
  }
}
