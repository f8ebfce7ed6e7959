// HTTP client that buffers whole responses, for requests that may be sent twice. It follows no redirects. A request that finds
// all connections of its origin in use waits for one.

import { brotliDecompressSync, inflateSync } from 'node:zlib';
import {
  afterReads,
  type Connection,
  ConnectionPool,
  DispatchError,
  type DispatchHandler,
  type DispatchOptions,
  type PoolSettings,
} from './client.ts';
import { gunzipMembers } from './gzip.ts';
import { IntrusiveSet } from './intrusive-set.ts';
import { headersByName } from './flat-headers.ts';

/** Header names are lower case. */
export interface BufferedRequest {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** Name in the Host field and in TLS. Default: that of `nameHosts`, else that of the URL. */
  readonly hostname?: string;
}

export interface BufferedResponse {
  readonly status: number;
  /** Repeated fields are joined by a comma. */
  readonly headers: Readonly<Record<string, string>>;
  /** Decompressed. */
  readonly body: Buffer;
}

/** The response is longer than the caller allows. */
export class TooLongError extends Error {
  override readonly name = 'TooLongError';
}

const KEEP_ALIVE_MS = 30_000;

/** Most origins whose connections are kept; past it the oldest origin's are closed. */
const MAX_ORIGINS = 1024;

const NO_BYTES = Buffer.alloc(0);

export class BufferedClient {
  readonly #settings: PoolSettings;
  /** By origin and hostname. */
  readonly #origins = new Map<string, Origin>();
  #hostnames: ReadonlyMap<string, string> = new Map();
  #closed = false;

  /** `connections`: most connections to one origin. */
  constructor(connections: number, settings: Omit<Partial<PoolSettings>, 'maxConnections'> = {}) {
    this.#settings = { maxConnections: connections, keepAliveMs: KEEP_ALIVE_MS, ...settings };
  }

  /**
   * Rejects with the reason of `signal` when it is aborted, with `TooLongError` when the response exceeds `maxBytes`, and
   * with `DispatchError` or the socket's error when the response is not complete.
   */
  send(request: BufferedRequest, signal: AbortSignal, maxBytes: number): Promise<BufferedResponse> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      if (this.#closed) throw new DispatchError('reset');
      const { origin, pathname, search } = new URL(request.url);
      const headers = ['accept-encoding', 'identity'];
      for (const [name, value] of Object.entries(request.headers)) {
        if (name === 'accept-encoding') headers[1] = value;
        else headers.push(name, value);
      }
      const options = { method: request.method, path: pathname + search, headers, body: bytesOf(request.body) };
      new Call({ origin: this.#origin(origin, request.hostname), options, signal, maxBytes, resolve, reject }).begin();
    });
  }

  /** GETs a URL; rejects when the response is not complete after `timeoutMs`. */
  get(url: string, timeoutMs: number, maxBytes: number): Promise<BufferedResponse> {
    const headers = { accept: 'application/json', 'user-agent': 'headrace' };
    return this.send({ method: 'GET', url, headers }, AbortSignal.timeout(timeoutMs), maxBytes);
  }

  /** Names in the Host field and in TLS, by origin, where they are not those of the origins. Takes effect on requests from now on. */
  nameHosts(hostnames: ReadonlyMap<string, string>): void {
    this.#hostnames = hostnames;
  }

  /** Closes all connections; requests in progress fail. */
  close(): void {
    this.#closed = true;
    for (const { calls, pool } of this.#origins.values()) {
      pool.close();
      for (const call of calls.list()) call.fail(new DispatchError('reset'));
    }
    this.#origins.clear();
  }

  #origin(name: string, hostname = this.#hostnames.get(name)): Origin {
    const key = hostname === undefined ? name : `${name} ${hostname}`;
    let origin = this.#origins.get(key);
    if (origin === undefined) {
      origin = new Origin(new ConnectionPool(name, { ...this.#settings, ...(hostname !== undefined && { hostname }) }));
      this.#origins.set(key, origin);
      const [oldest] = this.#origins.keys();
      if (this.#origins.size > MAX_ORIGINS && oldest !== undefined) {
        this.#origins.get(oldest)?.pool.close();
        this.#origins.delete(oldest);
      }
    }
    return origin;
  }
}

/** The connections and calls of one origin. */
class Origin {
  readonly pool: ConnectionPool;
  readonly calls = new IntrusiveSet<'slot', Call>('slot');
  /** Calls that wait for a connection, in their order of arrival. */
  readonly waiting = new Set<Call>();
  #waking = false;

  constructor(pool: ConnectionPool) {
    this.pool = pool;
  }

  /** Starts waiting calls when a connection whose response ended in this turn is free. */
  wake(): void {
    if (this.#waking) return;
    this.#waking = true;
    afterReads(this.#next);
  }

  readonly #next = (): void => {
    this.#waking = false;
    for (const call of this.waiting) {
      if (!this.pool.available) return;
      this.waiting.delete(call);
      call.start(false);
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

/** One request. */
class Call implements DispatchHandler {
  /** @internal Index in the set of its origin's calls. */
  slot = -1;
  readonly #call: CallOptions;
  readonly #pieces: Buffer[] = [];
  #bytes = 0;
  #status = 0;
  #headers: Record<string, string> = {};
  #connection: Connection | null = null;
  #retried = false;
  #done = false;

  constructor(call: CallOptions) {
    this.#call = call;
    call.origin.calls.add(this);
    call.signal.addEventListener('abort', this.#leave);
  }

  begin(): void {
    const { pool, waiting } = this.#call.origin;
    if (waiting.size > 0 || !pool.available) waiting.add(this);
    else this.start(false);
  }

  start(fresh: boolean): void {
    const { options, origin } = this.#call;
    const connection = origin.pool.dispatch(options, this, fresh);
    // A request that failed at once may have been sent again by then.
    if (connection !== null) this.#connection = connection;
  }

  onRequestSent(): void {
    // Nothing to note: the caller's signal limits the time.
  }

  onResponseStart(status: number, headers: readonly string[]): void {
    this.#status = status;
    this.#headers = headersByName(headers);
  }

  onResponseData(chunk: Buffer): void {
    if (this.#done) return;
    const { maxBytes } = this.#call;
    this.#bytes += chunk.byteLength;
    if (this.#bytes > maxBytes) this.fail(new TooLongError(`the response is longer than ${maxBytes} bytes`));
    else this.#pieces.push(Buffer.from(chunk));
  }

  onResponseEnd(): void {
    if (this.#done) return;
    const { maxBytes, resolve } = this.#call;
    const body = this.#pieces.length === 1 ? (this.#pieces[0] as Buffer) : Buffer.concat(this.#pieces);
    try {
      const decodedBody = decoded(body, this.#headers['content-encoding'], maxBytes);
      this.#end();
      resolve({ status: this.#status, headers: this.#headers, body: decodedBody });
    } catch (error) {
      this.fail(error as Error);
    }
  }

  onResponseError(error: DispatchError): void {
    if (this.#done) return;
    this.#connection = null;
    if (error.fault !== 'stale' || this.#retried) {
      this.fail(error);
      return;
    }
    // The server closed an idle connection as the request was sent: this says nothing about the server.
    this.#retried = true;
    this.start(true);
  }

  /** A thread that stood still may find its time over and the response unread: that is read first. */
  readonly #leave = (): void => void setImmediate(() => this.fail(this.#call.signal.reason as Error));

  fail(error: Error): void {
    if (this.#done) return;
    this.#end();
    this.#call.reject(error);
  }

  #end(): void {
    const { origin, signal } = this.#call;
    this.#done = true;
    signal.removeEventListener('abort', this.#leave);
    origin.calls.delete(this);
    if (origin.waiting.size > 0) origin.waiting.delete(this);
    this.#connection?.abort(this);
    this.#connection = null;
    if (origin.waiting.size > 0) origin.wake();
  }
}

function bytesOf(body: string | Uint8Array | undefined): Buffer {
  if (body === undefined) return NO_BYTES;
  return typeof body === 'string' ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
}

/** Some servers compress in spite of `accept-encoding: identity`. */
function decoded(body: Buffer, encoding: string | undefined, maxBytes: number): Buffer {
  const limits = { maxOutputLength: maxBytes };
  switch (encoding?.trim().toLowerCase()) {
    case 'gzip':
    case 'x-gzip':
      return gunzipMembers(body, maxBytes);
    case 'deflate':
      return inflateSync(body, limits);
    case 'br':
      return brotliDecompressSync(body, limits);
    default:
      return body;
  }
}
