// Connections to one upstream server, on undici's HTTP/1.1 client: the only file that makes undici clients. A last-in
// first-out list of idle connections keeps the working set small and finds one without a scan; every request has a
// connection to itself, because a model's answer may take minutes.

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

/** Control-plane requests (probes, discovery): few, small, each with a deadline of its own. */
export class ControlClient {
  readonly #agent = new Agent({ connections: 4, pipelining: 1, keepAliveTimeout: 30_000 });

  /** GETs a URL without following redirects; rejects when the whole answer is not there in `timeoutMs`. */
  async get(url: string, timeoutMs: number, maxBytes: number): Promise<{ status: number; body: Buffer }> {
    const signal = AbortSignal.timeout(timeoutMs);
    // undici heeds the signal only once it has a connection, and a connection it gives 10 s.
    const late = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    });
    return Promise.race([this.#get(url, signal, maxBytes), late]);
  }

  async #get(url: string, signal: AbortSignal, maxBytes: number): Promise<{ status: number; body: Buffer }> {
    const answer = await request(url, {
      dispatcher: this.#agent,
      signal,
      headers: { accept: 'application/json', 'user-agent': 'headrace' },
    });
    const pieces: Buffer[] = [];
    let bytes = 0;
    for await (const piece of answer.body as AsyncIterable<Buffer>) {
      bytes += piece.byteLength;
      if (bytes > maxBytes) throw new Error(`answer of ${url} exceeds ${maxBytes} bytes`);
      pieces.push(piece);
    }
    return { status: answer.statusCode, body: Buffer.concat(pieces) };
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}
