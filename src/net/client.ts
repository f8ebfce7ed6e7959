// Connections to one upstream server, on undici's HTTP/1.1 client: the only file that makes undici clients. A last-in
// first-out list of idle connections keeps the working set small and finds one without a scan; every request has a
// connection to itself, because a model's answer may take minutes.

import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import { Client, type Dispatcher, Agent, request } from 'undici';

export type { Dispatcher } from 'undici';

export interface PoolSettings {
  /** Most connections to one server, from one thread. */
  readonly maxConnections: number;
  /** Idle time after which a connection is closed, in milliseconds. A server's Keep-Alive hint may shorten it. */
  readonly keepAliveMs: number;
}

/** Longest a socket may be connecting, wanted or not, in milliseconds. */
const CONNECT_MS = 60_000;

/** One connection; at most one request at a time. */
export class Connection {
  readonly client: Client;
  /** Answers received since the socket was opened: a request on a used socket may meet a server that just closed it. */
  served = 0;
  /** @internal */ idle = false;

  /** @internal */
  constructor(origin: string, keepAliveMs: number) {
    this.client = new Client(origin, {
      pipelining: 1,
      keepAliveTimeout: keepAliveMs,
      keepAliveMaxTimeout: keepAliveMs,
      // Deadlines are the attempt's own (net/deadline.ts): exact, and one timer for all.
      headersTimeout: 0,
      bodyTimeout: 0,
      // Destroying a client leaves a socket alone that is still connecting: this ends it, long after the attempt.
      connectTimeout: CONNECT_MS,
      allowH2: false,
    });
    this.client.on('connect', () => {
      this.served = 0;
    });
  }
}

/** Connections to one server. */
export class ConnectionPool {
  readonly #origin: string;
  readonly #settings: PoolSettings;
  readonly #idle: Connection[] = [];
  #open = 0;
  #closed = false;

  constructor(origin: string, settings: PoolSettings) {
    this.#origin = origin;
    this.#settings = settings;
  }

  /** An idle connection, the most recently used one, or a new one; undefined when there are too many. */
  take(fresh = false): Connection | undefined {
    const used = fresh ? undefined : this.#idle.pop();
    if (used !== undefined) {
      used.idle = false;
      return used;
    }
    if (this.#open >= this.#settings.maxConnections) return undefined;
    this.#open++;
    const connection = new Connection(this.#origin, this.#settings.keepAliveMs);
    connection.client.on('disconnect', () => {
      if (connection.idle) this.discard(connection);
    });
    return connection;
  }

  /** Gives a connection back after a complete answer. */
  give(connection: Connection): void {
    if (this.#closed) {
      this.discard(connection);
      return;
    }
    connection.served++;
    connection.idle = true;
    this.#idle.push(connection);
  }

  /** Closes a connection at once. */
  discard(connection: Connection): void {
    if (connection.idle) {
      const at = this.#idle.lastIndexOf(connection);
      if (at >= 0) this.#idle.splice(at, 1);
      connection.idle = false;
    }
    this.#open--;
    // Destroying settles in the background; there is nobody left to tell.
    connection.client.destroy().catch(() => undefined);
  }

  /** Closes idle connections now and the others as they are given back. */
  close(): void {
    this.#closed = true;
    for (const connection of [...this.#idle]) this.discard(connection);
  }

  get openConnections(): number {
    return this.#open;
  }
}

/** Options of one request, as undici's `dispatch` takes them. */
export type DispatchOptions = Dispatcher.DispatchOptions;

/** A request that is sent and answered whole. Header names are lower case. */
export interface WholeRequest {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

export interface WholeResponse {
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

/** Requests whose answers are read whole: probes, discovery, search engines. Redirects are not followed. */
export class WholeClient {
  readonly #agent: Agent;

  /** `connections`: most at once to one origin. */
  constructor(connections: number) {
    this.#agent = new Agent({ connections, pipelining: 1, keepAliveTimeout: 30_000 });
  }

  /** Rejects with the reason of `signal` when it fires first, with `TooLongError` past `maxBytes` of answer. */
  send(wanted: WholeRequest, signal: AbortSignal, maxBytes: number): Promise<WholeResponse> {
    // undici heeds the signal only once it has a connection, and a connection it gives 10 s.
    return new Promise((resolve, reject) => {
      const leave = (): void => reject(signal.reason as Error);
      signal.addEventListener('abort', leave, { once: true });
      if (signal.aborted) leave();
      this.#send(wanted, signal, maxBytes)
        .then(resolve, reject)
        .finally(() => signal.removeEventListener('abort', leave));
    });
  }

  /** GETs a URL; rejects when the whole answer is not there in `timeoutMs`. */
  get(url: string, timeoutMs: number, maxBytes: number): Promise<WholeResponse> {
    const headers = { accept: 'application/json', 'user-agent': 'headrace' };
    return this.send({ method: 'GET', url, headers }, AbortSignal.timeout(timeoutMs), maxBytes);
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #send({ url, ...wanted }: WholeRequest, signal: AbortSignal, maxBytes: number): Promise<WholeResponse> {
    const answer = await request(url, {
      dispatcher: this.#agent,
      signal,
      method: wanted.method,
      headers: { 'accept-encoding': 'identity', ...wanted.headers },
      body: wanted.body ?? null,
    });
    const pieces: Buffer[] = [];
    let bytes = 0;
    for await (const piece of answer.body as AsyncIterable<Buffer>) {
      bytes += piece.byteLength;
      if (bytes > maxBytes) throw new TooLongError(`more than ${maxBytes} bytes`);
      pieces.push(piece);
    }
    const headers = joined(answer.headers);
    return { status: answer.statusCode, headers, body: decoded(Buffer.concat(pieces), headers, maxBytes) };
  }
}

function joined(headers: NodeJS.Dict<string | string[]>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : (value ?? '')]),
  );
}

/** Some servers compress although they were asked not to. */
function decoded(body: Buffer, headers: Readonly<Record<string, string>>, maxBytes: number): Buffer {
  const limits = { maxOutputLength: maxBytes };
  switch (headers['content-encoding']?.trim().toLowerCase()) {
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
