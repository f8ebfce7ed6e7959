// Requests whose answers are read whole and that may be sent twice: probes, discovery, search engines. Redirects are not
// followed. Connections are those of client.ts; a request that finds all of them taken waits for one.

import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import {
  type Connection,
  ConnectionPool,
  type DispatchController,
  DispatchError,
  type DispatchHandler,
  type DispatchOptions,
} from './client.ts';
import { IntrusiveSet } from './intrusive-set.ts';

/** A request that is sent and answered whole. Header names are lower case. */
export interface BufferedRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

export interface BufferedResponse {
  readonly status: number;
  /** Repeated fields are joined by a comma. */
  readonly headers: Readonly<Record<string, string>>;
  /** Decompressed. */
  readonly body: Buffer;
}

/** The answer is longer than the caller takes. */
export class TooLongError extends Error {
  override readonly name = 'TooLongError';
}

const KEEP_ALIVE_MS = 30_000;

/** Origins whose connections are kept; the oldest gives way. */
const MAX_ORIGINS = 1024;

const NOTHING = Buffer.alloc(0);

export class BufferedClient {
  readonly #connections: number;
  readonly #origins = new Map<string, Origin>();
  #closed = false;

  /** `connections`: most at once to one origin. */
  constructor(connections: number) {
    this.#connections = connections;
  }

  /**
   * Rejects with the reason of `signal` when it fires first, with `TooLongError` past `maxBytes` of answer, with
   * `DispatchError` or the error of the socket when there is no whole answer.
   */
  send(wanted: BufferedRequest, signal: AbortSignal, maxBytes: number): Promise<BufferedResponse> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      if (this.#closed) throw new DispatchError('reset');
      const { origin, pathname, search } = new URL(wanted.url);
      const headers = ['accept-encoding', 'identity'];
      for (const [name, value] of Object.entries(wanted.headers)) {
        if (name === 'accept-encoding') headers[1] = value;
        else headers.push(name, value);
      }
      const options = { method: wanted.method, path: pathname + search, headers, body: bytesOf(wanted.body) };
      new Call({ origin: this.#origin(origin), options, signal, maxBytes, resolve, reject }).begin();
    });
  }

  /** GETs a URL; rejects when the whole answer is not there in `timeoutMs`. */
  get(url: string, timeoutMs: number, maxBytes: number): Promise<BufferedResponse> {
    const headers = { accept: 'application/json', 'user-agent': 'headrace' };
    return this.send({ method: 'GET', url, headers }, AbortSignal.timeout(timeoutMs), maxBytes);
  }

  /** Closes all connections; requests under way fail. */
  close(): void {
    this.#closed = true;
    for (const { calls, pool } of this.#origins.values()) {
      pool.close();
      for (const call of calls.list()) call.fail(new DispatchError('reset'));
    }
    this.#origins.clear();
  }

  #origin(name: string): Origin {
    let origin = this.#origins.get(name);
    if (origin === undefined) {
      origin = new Origin(new ConnectionPool(name, { maxConnections: this.#connections, keepAliveMs: KEEP_ALIVE_MS }));
      this.#origins.set(name, origin);
      const [oldest] = this.#origins.keys();
      if (this.#origins.size > MAX_ORIGINS && oldest !== undefined) {
        this.#origins.get(oldest)?.pool.close();
        this.#origins.delete(oldest);
      }
    }
    return origin;
  }
}

class Origin {
  readonly pool: ConnectionPool;
  readonly calls = new IntrusiveSet<'slot', Call>('slot');
  /** Calls without a connection, first come first served. */
  readonly waiting = new Set<Call>();
  #waking = false;

  constructor(pool: ConnectionPool) {
    this.pool = pool;
  }

  /** A connection has become free, or will at the end of this turn: one given back rests for so long. */
  wake(): void {
    if (this.#waking) return;
    this.#waking = true;
    setImmediate(this.#next);
  }

  readonly #next = (): void => {
    this.#waking = false;
    for (const call of this.waiting) {
      const connection = this.pool.take();
      if (connection === undefined) return;
      this.waiting.delete(call);
      call.start(connection);
    }
  };
}

interface CallOptions {
  readonly origin: Origin;
  readonly options: DispatchOptions;
  readonly signal: AbortSignal;
  readonly maxBytes: number;
  readonly resolve: (response: BufferedResponse) => void;
  readonly reject: (error: Error) => void;
}

/** One request on its way. */
class Call implements DispatchHandler {
  /** Its place among the calls of its origin. */
  slot = -1;
  readonly #call: CallOptions;
  readonly #pieces: Buffer[] = [];
  #bytes = 0;
  #status = 0;
  #headers: Record<string, string> = {};
  #connection: Connection | undefined;
  /** The connection had carried requests before this one. */
  #reused = false;
  #retried = false;
  #done = false;

  constructor(call: CallOptions) {
    this.#call = call;
    call.origin.calls.add(this);
    call.signal.addEventListener('abort', this.#leave);
  }

  begin(fresh = false): void {
    const { pool, waiting } = this.#call.origin;
    const connection = waiting.size > 0 && !fresh ? undefined : pool.take(fresh);
    if (connection === undefined) waiting.add(this);
    else this.start(connection);
  }

  start(connection: Connection): void {
    this.#connection = connection;
    connection.client.dispatch(this.#call.options, this);
  }

  onRequestStart(controller: DispatchController): void {
    if (this.#done) controller.abort(new Error('no longer wanted'));
    // Only now: the client may have replaced a socket that died while it was idle.
    this.#reused = (this.#connection?.served ?? 0) > 0;
  }

  onResponseStart(_controller: DispatchController, status: number, headers: readonly string[]): void {
    this.#status = status;
    this.#headers = joined(headers);
  }

  onResponseData(_controller: DispatchController, chunk: Buffer): void {
    if (this.#done) return;
    const { maxBytes } = this.#call;
    this.#bytes += chunk.byteLength;
    if (this.#bytes > maxBytes) this.fail(new TooLongError(`more than ${maxBytes} bytes`));
    else this.#pieces.push(chunk);
  }

  onResponseEnd(): void {
    if (this.#done) return;
    const { maxBytes, resolve } = this.#call;
    const body = this.#pieces.length === 1 ? (this.#pieces[0] as Buffer) : Buffer.concat(this.#pieces);
    try {
      const decodedBody = decoded(body, this.#headers['content-encoding'], maxBytes);
      this.#end(true);
      resolve({ status: this.#status, headers: this.#headers, body: decodedBody });
    } catch (error) {
      this.fail(error as Error);
    }
  }

  onResponseError(_controller: DispatchController, error: Error): void {
    if (this.#done) return;
    const isReset = !(error instanceof DispatchError) || error.fault === 'reset';
    if (!isReset || !this.#reused || this.#retried || this.#status !== 0) {
      this.fail(error);
      return;
    }
    // The server closed the connection just as the request met it: that says nothing about the server.
    this.#retried = true;
    if (this.#connection !== undefined) this.#call.origin.pool.discard(this.#connection);
    this.#connection = undefined;
    this.begin(true);
  }

  readonly #leave = (): void => this.fail(this.#call.signal.reason as Error);

  fail(error: Error): void {
    if (this.#done) return;
    this.#end(false);
    this.#call.reject(error);
  }

  #end(reusable: boolean): void {
    const { origin, signal } = this.#call;
    this.#done = true;
    signal.removeEventListener('abort', this.#leave);
    origin.calls.delete(this);
    if (origin.waiting.size > 0) origin.waiting.delete(this);
    const connection = this.#connection;
    this.#connection = undefined;
    if (connection === undefined) return;
    if (reusable) origin.pool.give(connection);
    else origin.pool.discard(connection);
    origin.wake();
  }
}

function bytesOf(body: string | Uint8Array | undefined): Buffer {
  if (body === undefined) return NOTHING;
  return typeof body === 'string' ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
}

function joined(flat: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (let i = 0; i < flat.length; i += 2) {
    const [name, value] = [flat[i] as string, flat[i + 1] as string];
    headers[name] = Object.hasOwn(headers, name) ? `${headers[name]}, ${value}` : value;
  }
  return headers;
}

/** Some servers compress although they were asked not to. */
function decoded(body: Buffer, encoding: string | undefined, maxBytes: number): Buffer {
  const limits = { maxOutputLength: maxBytes };
  switch (encoding?.trim().toLowerCase()) {
    case 'gzip':
    case 'x-gzip':
      return gunzipSync(body, limits);
    case 'deflate':
      return inflateSync(body, limits);
    case 'br':
      return brotliDecompressSync(body, limits);
    default:
      return body;
  }
}
