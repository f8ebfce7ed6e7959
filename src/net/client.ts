// Connections to one upstream server: the project's own client for http: (http1.ts), undici's for https:. This is the only
// file that makes undici clients. A last-in first-out list of idle connections keeps the working set small and finds one
// without a scan; every request has a connection to itself, because a model's answer may take minutes.

import { Client, type Dispatcher } from 'undici';
import {
  type ClientNotices,
  type DispatchClient,
  type DispatchController,
  DispatchError,
  type DispatchFault,
  type DispatchHandler,
  type DispatchOptions,
  Http1Client,
} from './http1.ts';

export { DispatchError } from './http1.ts';
export type { DispatchClient, DispatchController, DispatchHandler, DispatchOptions } from './http1.ts';

export interface PoolSettings {
  /** Most connections to one server, from one thread. */
  readonly maxConnections: number;
  /** Idle time after which a connection is closed, in milliseconds. A server's Keep-Alive hint may shorten it. */
  readonly keepAliveMs: number;
}

/** Longest a socket of undici may be connecting, wanted or not, in milliseconds. */
const CONNECT_MS = 60_000;

/** undici's client with the face of ours. */
class SecureClient implements DispatchClient {
  readonly #client: Client;

  constructor(origin: string, keepAliveMs: number, notices: ClientNotices) {
    this.#client = new Client(origin, {
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
    this.#client.on('connect', () => notices.onConnect());
    this.#client.on('disconnect', () => notices.onDisconnect());
  }

  get destroyed(): boolean {
    return this.#client.destroyed;
  }

  dispatch(options: DispatchOptions, handler: DispatchHandler): void {
    this.#client.dispatch({ ...options, headers: [...options.headers] }, new SecureHandler(handler));
  }

  destroy(): void {
    // Destroying settles in the background; there is nobody left to tell.
    this.#client.destroy().catch(() => undefined);
  }
}

class SecureHandler implements Dispatcher.DispatchHandler {
  readonly #handler: DispatchHandler;

  constructor(handler: DispatchHandler) {
    this.#handler = handler;
  }

  onRequestStart(controller: DispatchController): void {
    this.#handler.onRequestStart(controller);
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status < 200) return;
    this.#handler.onResponseStart(controller, status, flatHeaders(controller.rawHeaders, headers));
  }

  onResponseData(controller: DispatchController, chunk: Buffer): void {
    this.#handler.onResponseData(controller, chunk);
  }

  onResponseEnd(controller: DispatchController): void {
    this.#handler.onResponseEnd(controller);
  }

  onResponseError(controller: DispatchController, error: Error): void {
    const fault = faultOf(error);
    this.#handler.onResponseError(controller, fault === undefined ? error : new DispatchError(fault, error));
  }
}

function flatHeaders(raw: unknown, headers: Record<string, string | string[] | undefined>): string[] {
  if (Array.isArray(raw) && Buffer.isBuffer(raw[0])) {
    return (raw as Buffer[]).map((word, at) => {
      const text = word.toString('latin1');
      return at % 2 === 0 ? text.toLowerCase() : text;
    });
  }
  return Object.entries(headers).flatMap(([name, value]) =>
    [value ?? []].flat().flatMap((one) => [name.toLowerCase(), one]),
  );
}

function faultOf(error: Error): DispatchFault | undefined {
  if (error.name === 'HTTPParserError') return 'malformed';
  switch ((error as NodeJS.ErrnoException).code) {
    case 'UND_ERR_HEADERS_OVERFLOW':
      return 'malformed';
    case 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH':
      return 'truncated';
    case 'UND_ERR_INVALID_ARG':
    case 'UND_ERR_NOT_SUPPORTED':
      return 'unsendable';
    default:
      return undefined;
  }
}

/** One connection; at most one request at a time. */
export class Connection implements ClientNotices {
  readonly client: DispatchClient;
  /** Answers received since the socket was opened: a request on a used socket may meet a server that just closed it. */
  served = 0;
  /** @internal */ idle = false;
  readonly #pool: ConnectionPool;

  /** @internal */
  constructor(pool: ConnectionPool, origin: string, keepAliveMs: number) {
    this.#pool = pool;
    const Kind = origin.startsWith('http:') ? Http1Client : SecureClient;
    this.client = new Kind(origin, keepAliveMs, this);
  }

  /** @internal */
  onConnect(): void {
    this.served = 0;
  }

  /** @internal */
  onDisconnect(): void {
    if (this.idle) this.#pool.discard(this);
  }
}

/** Connections to one server. */
export class ConnectionPool {
  readonly #origin: string;
  readonly #settings: PoolSettings;
  readonly #idle: Connection[] = [];
  /** Given back in this turn of the event loop. What a faulty server sent behind its answer is read before the next. */
  readonly #cooling: Connection[] = [];
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
    return new Connection(this, this.#origin, this.#settings.keepAliveMs);
  }

  /** Gives a connection back after a complete answer. */
  give(connection: Connection): void {
    if (this.#closed) {
      this.discard(connection);
      return;
    }
    connection.served++;
    connection.idle = true;
    // One turn between two requests: stray bytes must not be taken for the answer to somebody else's request.
    if (this.#cooling.push(connection) === 1) setImmediate(this.#cool);
  }

  /** Closes a connection at once. */
  discard(connection: Connection): void {
    if (connection.idle) {
      for (const list of [this.#idle, this.#cooling]) {
        const at = list.lastIndexOf(connection);
        if (at >= 0) list.splice(at, 1);
      }
      connection.idle = false;
    }
    this.#open--;
    connection.client.destroy();
  }

  /** Closes idle connections now and the others as they are given back. */
  close(): void {
    this.#closed = true;
    for (const connection of [...this.#idle, ...this.#cooling]) this.discard(connection);
  }

  get openConnections(): number {
    return this.#open;
  }

  readonly #cool = (): void => {
    this.#idle.push(...this.#cooling);
    this.#cooling.length = 0;
  };
}
