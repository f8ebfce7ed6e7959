// A request that a request makes: a search or a page for a tool call, with the credentials of the client and through the whole pipeline,
// so that keys, limits, prices, metering and fairness are those of the endpoint. It ends with the request that makes it.

import { type DetachedExchange, type ResponseSink, startDetached } from '../ingress/detached-exchange.ts';
import type { Exchange, ExchangeProgress } from '../ingress/exchange.ts';
import { chosenHeaders } from '../net/flat-headers.ts';
import { writeTraceParent } from '../telemetry/trace-context.ts';
import { parsedJson } from '../net/json-object.ts';
import type { ApiDeps } from './deps.ts';
import type { Pending } from './pipeline.ts';

export interface SubRequest {
  /** Of an endpoint of the gateway whose answer is one JSON document. */
  readonly path: string;
  /** The JSON document to send. */
  readonly body: unknown;
  /** As `Exchange.tool`. */
  readonly tool: string;
  /** As `Exchange.onProgress`. */
  readonly onProgress?: (progress: ExchangeProgress) => void;
}

/**
 * Hears the answer once: its status, its headers as a flat list, and the JSON document; undefined where it is none. The document may be
 * shared with a cache: it must not be changed.
 */
export type SubRequestDone = (status: number, headers: readonly string[], json: unknown) => void;

/** Request ids have at most 128 characters. */
const MAX_ID_LENGTH = 120;

/** Makes a POST. `done` may be called before this returns; it is not called after `abort`, nor once the parent has ended. */
export function subRequest(deps: ApiDeps, parent: Exchange, request: SubRequest, done: SubRequestDone): Pending {
  const body = Buffer.from(JSON.stringify(request.body));
  const { remoteAddress } = parent;
  const head = { method: 'POST', path: request.path, query: '', headers: headersOf(parent, body), remoteAddress };
  const answer = new Answer(parent, done);
  if (parent.endCause === null) {
    startDetached(deps.detached, head, body, answer, (exchange) => {
      exchange.parent = parent;
      exchange.tool = request.tool;
      exchange.onProgress = request.onProgress ?? null;
      answer.begin(exchange);
    });
  }
  return answer;
}

/** What tells who asks. A payment is bound to the request that it was made for, and cookies are about servers of models. */
function headersOf(parent: Exchange, body: Buffer): string[] {
  const { apiKey, authorization, headers, requestId, span } = parent;
  parent.subRequestCount++;
  const id = `${requestId.slice(0, MAX_ID_LENGTH)}/${parent.subRequestCount}`;
  const out = ['content-type', 'application/json', 'content-length', String(body.byteLength), 'x-request-id', id];
  if (authorization !== undefined) out.push('authorization', authorization);
  if (apiKey !== undefined) out.push('x-api-key', apiKey);
  out.push(...chosenHeaders(headers, (name) => name === 'x-forwarded-for'));
  if (span !== null) out.push('traceparent', writeTraceParent(span));
  return out;
}

/** Collects the answer. */
class Answer implements ResponseSink, Pending {
  readonly #parent: Exchange;
  #done: SubRequestDone | null;
  #exchange: DetachedExchange | null = null;
  readonly #pieces: Uint8Array[] = [];
  #value: unknown = undefined;

  constructor(parent: Exchange, done: SubRequestDone) {
    this.#parent = parent;
    this.#done = done;
  }

  begin(exchange: DetachedExchange): void {
    this.#exchange = exchange;
    (this.#parent.subRequests ??= new Set()).add(this);
  }

  piece(chunk: Uint8Array): boolean {
    this.#pieces.push(Buffer.from(chunk));
    return true;
  }

  value(value: unknown): void {
    this.#value = value;
  }

  end(): void {
    const { answerHeaders, status } = this.#exchange as DetachedExchange;
    this.#finish(status, answerHeaders, this.#value ?? parsedJson(Buffer.concat(this.#pieces).toString()));
  }

  broken(): void {
    const { answerHeaders } = this.#exchange as DetachedExchange;
    this.#finish(500, answerHeaders, undefined);
  }

  abort(): void {
    this.leave();
  }

  leave(): void {
    this.#done = null;
    this.#parent.subRequests?.delete(this);
    this.#exchange?.leave();
  }

  #finish(status: number, headers: readonly string[], json: unknown): void {
    const done = this.#done;
    this.#done = null;
    this.#parent.subRequests?.delete(this);
    done?.(status, headers, json);
  }
}
