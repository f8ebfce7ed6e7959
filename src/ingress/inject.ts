// Carrier without a socket: `gateway.inject()` and most tests. Same handlers, same contract, bytes in memory.

import type { Clock } from '../actor/index.ts';
import type { HeadraceError } from '../errors.ts';
import { Body, type BodyBudget, type BodyLimits } from './body.ts';
import { type BodyCallback, Exchange, type ExchangeHandler, type RequestHead } from './exchange.ts';
import { requestId } from './request-id.ts';
import { respondError } from './respond.ts';

/** A request to inject. */
export interface InjectRequest {
  /** Default GET, or POST when there is a body. */
  readonly method?: string;
  /** Path with query. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Text and bytes are sent as they are; anything else as JSON with its content type. */
  readonly body?: unknown;
  /** Aborting it is the client going away. */
  readonly signal?: AbortSignal;
}

/** The answer to an injected request. */
export interface InjectResponse {
  readonly status: number;
  /** Lower-case names; several values of one name are joined by a comma, those of set-cookie by a line feed. */
  readonly headers: Readonly<Record<string, string>>;
  /** The whole body as bytes. */
  readonly body: Buffer;
  /** The body as text. */
  text(): string;
  /** The body parsed as JSON; throws SyntaxError when it is none. */
  json<T = unknown>(): T;
}

export interface InjectOptions {
  readonly handler: ExchangeHandler;
  readonly clock: Clock;
  readonly limits: BodyLimits;
  readonly budget: BodyBudget;
}

class InjectExchange extends Exchange {
  readonly #body: Body;
  readonly #settle: (response: InjectResponse | Error) => void;
  readonly #pieces: Uint8Array[] = [];
  #headers: string[] = [];

  constructor(head: RequestHead, body: Body, nowMs: number, settle: (response: InjectResponse | Error) => void) {
    super(head, nowMs);
    this.#body = body;
    this.#settle = settle;
  }

  override readBody(done: BodyCallback): void {
    this.#body.wait(done);
  }

  protected override begin(status: number, headers: readonly string[], contentLength: number): void {
    this.#headers = [...headers];
    if (contentLength >= 0 && status !== 204) this.#headers.push('content-length', String(contentLength));
  }

  override write(chunk: Uint8Array): boolean {
    if (this.finished) return true;
    this.committed = true;
    // The piece belongs to the sender, who may use its memory again.
    if (chunk.byteLength > 0) this.#pieces.push(Buffer.from(chunk));
    return true;
  }

  override end(chunk?: Uint8Array): void {
    if (this.finished) return;
    this.write(chunk ?? new Uint8Array(0));
    const body = this.method === 'HEAD' ? Buffer.alloc(0) : Buffer.concat(this.#pieces);
    this.#settle(new Response(this.status, collectHeaders([...this.standing, ...this.#headers]), body));
    this.finish();
  }

  override destroy(): void {
    if (this.finished) return;
    this.#settle(new Error('the connection was broken off in the middle of the answer'));
    this.finish();
  }

  /** The caller's signal fired. */
  leave(reason: unknown): void {
    if (this.finished) return;
    this.#settle(reason instanceof Error ? reason : new Error('aborted', { cause: reason }));
    this.abort();
  }

  protected override close(): void {
    this.#body.release();
    super.close();
  }
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
    return JSON.parse(this.text()) as T;
  }
}

/** Runs a request through the handler. Rejects when the answer is broken off or the signal fires. */
export function inject(options: InjectOptions, request: InjectRequest): Promise<InjectResponse> {
  return new Promise((resolve, reject) => {
    const now = options.clock.now();
    const { bytes, contentType } = encode(request.body);
    const headers = Object.entries(request.headers ?? {}).flatMap(([name, value]) => [name.toLowerCase(), value]);
    if (contentType !== undefined && !headers.includes('content-type')) headers.push('content-type', contentType);
    const cut = request.path.indexOf('?');
    const head: RequestHead = {
      method: request.method ?? (request.body === undefined ? 'GET' : 'POST'),
      path: cut < 0 ? request.path : request.path.slice(0, cut),
      query: cut < 0 ? '' : request.path.slice(cut + 1),
      headers,
      requestId: requestId(headers),
    };
    const body = new Body(options.budget, options.limits, bytes.byteLength, now);
    const { signal } = request;
    const leave = (): void => exchange.leave(signal?.reason);
    const exchange = new InjectExchange(head, body, now, (response) => {
      signal?.removeEventListener('abort', leave);
      if (response instanceof Error) reject(response);
      else resolve(response);
    });
    signal?.addEventListener('abort', leave, { once: true });
    body.append(bytes, true, now);
    if (signal?.aborted === true) leave();
    else run(options.handler, exchange);
  });
}

function run(handler: ExchangeHandler, exchange: Exchange): void {
  try {
    handler(exchange);
  } catch (error) {
    respondError(exchange, error as HeadraceError);
  }
}

function encode(body: unknown): { bytes: Uint8Array; contentType: string | undefined } {
  if (body === undefined) return { bytes: new Uint8Array(0), contentType: undefined };
  if (body instanceof Uint8Array) return { bytes: body, contentType: undefined };
  if (typeof body === 'string') return { bytes: Buffer.from(body), contentType: undefined };
  return { bytes: Buffer.from(JSON.stringify(body)), contentType: 'application/json' };
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
