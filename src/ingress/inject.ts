// Server adapter without a socket: requests and responses in memory, through the same handlers as all others.

import { isAnyArrayBuffer } from 'node:util/types';
import { type DetachedExchange, type DetachedOptions, type ResponseSink, startDetached } from './detached-exchange.ts';
import type { RequestHead } from './exchange.ts';
import { parseJson } from '../config/json-text.ts';

/** A request to inject. */
export interface InjectRequest {
  /** In any case, as in node:http; default GET, or POST when there is a body. */
  readonly method?: string;
  /** Path with query. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>> | Iterable<readonly [string, string]>;
  /** Text and bytes are sent as they are, any other value as JSON with its content type. */
  readonly body?: unknown;
  /** IP address of the client; '' by default. Read with `trustedProxies`. */
  readonly remoteAddress?: string;
  /** Aborting it closes the client's connection, and rejects with its reason. */
  readonly signal?: AbortSignal;
}

/** The response to an injected request. */
export interface InjectResponse {
  readonly status: number;
  /** Names are lower case. Several values of one name are joined by a comma, those of set-cookie by a line feed. */
  readonly headers: Readonly<Record<string, string>>;
  /** The whole body as bytes. */
  readonly body: Buffer;
  /** The body as text. */
  text(): string;
  /** The body parsed as JSON; throws SyntaxError when it is not JSON. */
  json<T = unknown>(): T;
}

class Response implements InjectResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;

  constructor(status: number, headers: Readonly<Record<string, string>>, body: Buffer) {
    this.status = status;
    this.headers = headers;
    this.body = body;
  }

  text(): string {
    return this.body.toString();
  }

  json<T = unknown>(): T {
    return parseJson(this.text()) as T;
  }
}

/** Collects a response. */
class Collector implements ResponseSink {
  exchange!: DetachedExchange;
  readonly #resolve: (response: InjectResponse) => void;
  readonly #reject: (reason: unknown) => void;
  readonly #pieces: Uint8Array[] = [];

  constructor(resolve: (response: InjectResponse) => void, reject: (reason: unknown) => void) {
    this.#resolve = resolve;
    this.#reject = reject;
  }

  piece(chunk: Uint8Array): boolean {
    this.#pieces.push(Buffer.from(chunk));
    return true;
  }

  end(): void {
    const { answerHeaders, declaredLength, method, status } = this.exchange;
    const body = method === 'HEAD' ? Buffer.alloc(0) : Buffer.concat(this.#pieces);
    const headers = collectHeaders(answerHeaders);
    if (declaredLength >= 0 && status !== 204) headers['content-length'] = String(declaredLength);
    this.#resolve(new Response(status, headers, body));
  }

  broken(): void {
    this.#reject(new Error('the connection was closed before the response was complete'));
  }

  /** The caller's signal fired. */
  leave(reason: unknown): void {
    if (this.exchange.handedOver) return;
    this.#reject(reason);
    this.exchange.leave();
  }
}

/** The signal of a call that a program makes; throws what is wrong with its options. */
export function signalOf(call: string, options: { readonly signal?: AbortSignal }): AbortSignal | undefined {
  if (typeof options !== 'object' || options === null) throw new TypeError(`${call}: the options must be an object`);
  const signal = options.signal ?? undefined;
  if (signal === undefined || typeof signal.throwIfAborted === 'function') return signal;
  throw new TypeError(`${call}: signal must be an AbortSignal`);
}

/** Runs a request through the handler. Rejects when the response is broken off or the signal is aborted. */
export function inject(options: DetachedOptions, request: InjectRequest): Promise<InjectResponse> {
  return new Promise((resolve, reject) => {
    if (typeof request !== 'object' || request === null) throw new TypeError('inject: the request must be an object');
    if (typeof request.path !== 'string') throw new TypeError('inject: path must be a string');
    const { method = request.body === undefined ? 'GET' : 'POST' } = request;
    if (typeof method !== 'string') throw new TypeError('inject: method must be a string');
    const signal = signalOf('inject', request);
    const { bytes, contentType } = encode(request.body);
    const headers = flatten(request.headers ?? {});
    const isTyped = headers.some((word, at) => at % 2 === 0 && word === 'content-type');
    if (contentType !== undefined && !isTyped) headers.push('content-type', contentType);
    const cut = request.path.indexOf('?');
    const head: RequestHead = {
      method: method.toUpperCase(),
      path: cut < 0 ? request.path : request.path.slice(0, cut),
      query: cut < 0 ? '' : request.path.slice(cut + 1),
      headers,
      remoteAddress: request.remoteAddress ?? '',
    };
    const leave = (): void => collector.leave(signal?.reason);
    const collector = new Collector(
      (response) => {
        signal?.removeEventListener('abort', leave);
        resolve(response);
      },
      (reason) => {
        signal?.removeEventListener('abort', leave);
        reject(reason);
      },
    );
    startDetached(options, head, bytes, collector, (exchange) => {
      collector.exchange = exchange;
      signal?.addEventListener('abort', leave, { once: true });
      if (signal?.aborted === true) leave();
    });
  });
}

function encode(body: unknown): { bytes: Uint8Array; contentType: string | undefined } {
  if (body === undefined) return { bytes: new Uint8Array(0), contentType: undefined };
  const bytes = bytesOf(body);
  if (bytes !== null) return { bytes, contentType: undefined };
  if (typeof body === 'string') return { bytes: Buffer.from(body), contentType: undefined };
  return { bytes: Buffer.from(jsonOf(body)), contentType: 'application/json' };
}

/** Whatever realm it is from: test runners have their own `Uint8Array`. */
function bytesOf(body: unknown): Uint8Array | null {
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength);
  return isAnyArrayBuffer(body) ? new Uint8Array(body) : null;
}

function jsonOf(body: unknown): string {
  let json: string | undefined;
  let cause: unknown;
  try {
    json = JSON.stringify(body) as string | undefined;
  } catch (error) {
    cause = error;
  }
  if (json === undefined) throw new TypeError('inject: body must be text, bytes or a value of JSON', { cause });
  return json;
}

function flatten(headers: NonNullable<InjectRequest['headers']>): string[] {
  const lines = Symbol.iterator in headers ? [...headers] : Object.entries(headers);
  return lines.flatMap(([name, value]) => {
    if (typeof value !== 'string') throw new TypeError(`inject: the header ${name} must be a string`);
    return [name.toLowerCase(), value];
  });
}

function collectHeaders(flat: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (let i = 0; i < flat.length; i += 2) {
    const name = flat[i] as string;
    const value = flat[i + 1] as string;
    const known = headers[name];
    headers[name] = known === undefined ? value : known + (name === 'set-cookie' ? '\n' : ', ') + value;
  }
  return headers;
}
