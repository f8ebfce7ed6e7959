// HTTP/1.1 connections to one upstream server and their pool: our own client for http:, undici's for https:. A connection
// carries one request at a time, and every request ends in exactly one of `onResponseEnd` and `onResponseError`.

import { connect, type Socket } from 'node:net';
import { Client, type Dispatcher } from 'undici';
import { ResponseParser } from './http1-response-parser.ts';

/** A request to send. */
export interface DispatchOptions {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'DELETE';
  /** Path and query. */
  readonly path: string;
  /** Flat: name in lower case, value. Host, Content-Length and Connection are added by the client. */
  readonly headers: readonly string[];
  readonly body: Buffer;
}

/** Controls a request while it lasts. */
export interface DispatchController {
  /** Stops reading: nothing is delivered until `resume`. */
  pause(): void;
  resume(): void;
  /** Ends the request and closes its socket; the handler's `onResponseError` receives `reason`. */
  abort(reason: Error): void;
}

/** Callbacks of one request. */
export interface DispatchHandler {
  /** The socket is open and the request is about to be written; nothing has been sent before. */
  onRequestStart(controller: DispatchController): void;
  /** The head of the response. `headers` is flat: name in lower case, value; the handler may keep it. */
  onResponseStart(controller: DispatchController, status: number, headers: readonly string[]): void;
  /** A piece of the body, without framing; the handler may keep it. */
  onResponseData(controller: DispatchController, chunk: Buffer): void;
  onResponseEnd(controller: DispatchController): void;
  /** The only call when the request is not sent at all. An error that is no `DispatchError` is the socket's. */
  onResponseError(controller: DispatchController, error: Error): void;
}

/**
 * `unsendable`: the request may not be sent to any server. `malformed`: the response breaks RFC 9112.
 * `reset`: the connection closed before the head of the response was complete. `truncated`: after it, before the end.
 */
export type DispatchFault = 'unsendable' | 'malformed' | 'reset' | 'truncated';

export class DispatchError extends Error {
  override readonly name = 'DispatchError';
  readonly fault: DispatchFault;

  constructor(fault: DispatchFault, cause?: Error) {
    super(fault, { cause });
    this.fault = fault;
  }
}

/** Socket events of a client. */
export interface SocketEvents {
  /** A socket was opened. */
  onConnect(): void;
  /** The socket is closed, and the request that it carried has ended. */
  onDisconnect(): void;
}

/** A client with one connection. */
export interface DispatchClient {
  readonly destroyed: boolean;
  /** Sends a request; connects first when there is no socket. May call the handler before it returns. */
  dispatch(options: DispatchOptions, handler: DispatchHandler): void;
  /** Closes the socket at once; a request in progress fails. */
  destroy(): void;
}

/** A body below this is copied behind its head: one buffer, one write. */
const SMALL_BODY_BYTES = 64 * 1024;
/** The socket is closed this long before the server's announced timeout, so that no request crosses the close. */
const KEEP_ALIVE_MARGIN_MS = 1000;
const TCP_PROBE_MS = 60_000;

/** All sockets of a thread read into this buffer, one after the other; handlers get copies. */
const READ_BUFFER = Buffer.allocUnsafeSlow(256 * 1024);

const NO_BYTES = Buffer.alloc(0);
const TIMEOUT = /(?:^|[,\s])timeout\s*=\s*"?(\d+)/i;

/** Field names in lower case (RFC 9110 §5.6.2), characters that no value may have, and request targets. */
const NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/;
const NO_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
const TARGET = /^\/[\x21-\x7e\x80-\xff]*$/;

/** Fields that the client writes, and fields that would change the framing or the owner of the connection. */
const OWN_FIELDS: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
]);

/** The head of a request as latin1 text; null when a part of it could be read as a line end or as another field. */
function requestHead(host: string, { method, path, headers, body }: DispatchOptions): string | null {
  if (!TARGET.test(path)) return null;
  let head = `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\n`;
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string;
    const value = headers[i + 1] as string;
    if (!NAME.test(name) || OWN_FIELDS.has(name) || NO_VALUE.test(value)) return null;
    head += `${name}: ${value}\r\n`;
  }
  const { byteLength } = body;
  return method === 'POST' || byteLength > 0 ? `${head}content-length: ${byteLength}\r\n\r\n` : `${head}\r\n`;
}

/** A client for one http: origin. It has no timeout but that of an idle socket. */
export class Http1Client implements DispatchClient, DispatchController {
  destroyed = false;
  readonly #url: URL;
  readonly #keepAliveMs: number;
  readonly #events: SocketEvents;
  readonly #parser = new ResponseParser();
  #socket: Socket | null = null;
  #open = false;
  #handler: DispatchHandler | null = null;
  #method = '';
  #head = '';
  #body: Buffer = NO_BYTES;
  #paused = false;
  /** Body bytes that arrived after `pause` was called; delivered by `resume`. */
  #held: Buffer | null = null;
  /** The server has closed its side of the connection. */
  #ended = false;
  /** The Keep-Alive field that `#idleMs` was made from. */
  #hint = '';
  #idleMs: number;

  /** `keepAliveMs`: idle time after which the socket is closed; a Keep-Alive field of the server may shorten it. */
  constructor(origin: string, keepAliveMs: number, events: SocketEvents) {
    this.#url = new URL(origin);
    this.#keepAliveMs = keepAliveMs;
    this.#idleMs = keepAliveMs;
    this.#events = events;
  }

  dispatch(options: DispatchOptions, handler: DispatchHandler): void {
    const head = requestHead(this.#url.host, options);
    if (head === null || this.destroyed || this.#handler !== null) {
      handler.onResponseError(this, new DispatchError(head === null ? 'unsendable' : 'reset'));
      return;
    }
    this.#handler = handler;
    this.#method = options.method;
    this.#head = head;
    this.#body = options.body;
    if (this.#open) this.#send();
    else this.#connect();
  }

  destroy(): void {
    this.destroyed = true;
    this.abort(new DispatchError('reset'));
  }

  abort(reason: Error): void {
    const handler = this.#handler;
    this.#handler = null;
    this.#close();
    handler?.onResponseError(this, reason);
    this.#tellClosed();
  }

  pause(): void {
    if (this.#paused || this.#handler === null) return;
    this.#paused = true;
    this.#socket?.pause();
  }

  resume(): void {
    if (!this.#paused || this.#handler === null) return;
    this.#paused = false;
    this.#socket?.resume();
    const piece = this.#held;
    this.#held = null;
    if (piece !== null) this.#handler.onResponseData(this, piece);
    this.#settle();
  }

  #connect(): void {
    const { hostname, port } = this.#url;
    const socket = connect({
      host: hostname.startsWith('[') ? hostname.slice(1, -1) : hostname,
      port: port === '' ? 80 : Number(port),
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: TCP_PROBE_MS,
      onread: {
        buffer: READ_BUFFER,
        callback: (length) => {
          if (socket === this.#socket) this.#receive(length);
          return true;
        },
      },
    });
    this.#socket = socket;
    this.#ended = false;
    this.#hint = '';
    this.#idleMs = this.#keepAliveMs;
    // A socket that was closed may emit events still; the client has another one by then, or none.
    const ours = (run: () => void) => (): void => {
      if (socket === this.#socket) run();
    };
    socket.on(
      'connect',
      ours(() => this.#connected(socket)),
    );
    socket.on(
      'timeout',
      // While a request is in progress, its handler limits the time.
      ours(() => {
        if (this.#handler === null) this.#drop();
      }),
    );
    socket.on(
      'end',
      ours(() => this.#end()),
    );
    socket.on('error', (error) => {
      if (socket === this.#socket) this.#lost(error);
    });
    socket.on(
      'close',
      ours(() => this.#lost(new DispatchError('reset'))),
    );
  }

  #connected(socket: Socket): void {
    this.#open = true;
    socket.setTimeout(this.#idleMs);
    this.#events.onConnect();
    if (this.#handler !== null) this.#send();
  }

  #send(): void {
    const handler = this.#handler as DispatchHandler;
    const [head, body] = [this.#head, this.#body];
    this.#head = '';
    this.#body = NO_BYTES;
    this.#paused = false;
    this.#parser.begin(this.#method === 'HEAD');
    handler.onRequestStart(this);
    const socket = this.#socket;
    if (this.#handler !== handler || socket === null) return;
    if (body.byteLength < SMALL_BODY_BYTES) {
      const message = Buffer.allocUnsafe(head.length + body.byteLength);
      message.write(head, 'latin1');
      body.copy(message, head.length);
      socket.write(message);
      return;
    }
    socket.cork();
    socket.write(head, 'latin1');
    socket.write(body);
    socket.uncork();
  }

  /** Delivers the first `length` bytes of the read buffer. */
  #receive(length: number): void {
    const handler = this.#handler;
    if (handler === null) {
      // Unrequested bytes would be taken for the response to the next request.
      this.#drop();
      return;
    }
    const parser = this.#parser;
    try {
      parser.parse(READ_BUFFER, length);
      const { bodyStart, bodyEnd } = parser;
      let piece: Buffer | null = null;
      if (bodyEnd > bodyStart) {
        piece = Buffer.allocUnsafe(bodyEnd - bodyStart);
        READ_BUFFER.copy(piece, 0, bodyStart, bodyEnd);
      }
      if (parser.headCame) {
        handler.onResponseStart(this, parser.status, parser.fields);
        if (this.#handler !== handler) return;
      }
      if (piece !== null) {
        if (this.#paused) this.#held = this.#held === null ? piece : Buffer.concat([this.#held, piece]);
        else handler.onResponseData(this, piece);
      }
      if (this.#handler === handler && (parser.state === 'done' || parser.state === 'malformed')) this.#settle();
    } catch (error) {
      // An error thrown by a handler fails its own request. Without a request it must surface.
      if (this.#handler === null) throw error;
      this.abort(error as Error);
    }
  }

  /** Ends the request when its response has ended and the handler is not paused. */
  #settle(): void {
    if (this.#handler === null || this.#paused) return;
    const { state } = this.#parser;
    if (state === 'done') this.#complete(this.#handler);
    else if (state === 'malformed') this.abort(new DispatchError('malformed'));
    else if (this.#ended) this.abort(new DispatchError(state === 'head' ? 'reset' : 'truncated'));
  }

  #complete(handler: DispatchHandler): void {
    this.#handler = null;
    const socket = this.#socket as Socket;
    if (this.#parser.keepAlive !== this.#hint) this.#applyHint(socket);
    // A response may overtake its request: the unsent rest would precede the next request.
    const reusable = this.#parser.reusable && !this.#ended && socket.writableLength === 0 && this.#idleMs > 0;
    if (!reusable) this.#close();
    handler.onResponseEnd(this);
    if (!reusable) this.#tellClosed();
  }

  /** Shortens the idle time to the server's Keep-Alive timeout; to 0 or less when it is about to close. */
  #applyHint(socket: Socket): void {
    this.#hint = this.#parser.keepAlive;
    const seconds = TIMEOUT.exec(this.#hint)?.[1];
    const hintMs = seconds === undefined ? Infinity : Number(seconds) * 1000 - KEEP_ALIVE_MARGIN_MS;
    const idleMs = Math.min(this.#keepAliveMs, hintMs);
    if (idleMs > 0 && idleMs !== this.#idleMs) socket.setTimeout(idleMs);
    this.#idleMs = idleMs;
  }

  #end(): void {
    this.#ended = true;
    if (this.#handler === null) {
      this.#drop();
      return;
    }
    this.#parser.end();
    this.#settle();
  }

  #lost(error: Error): void {
    // A response that was read completely is delivered after the pause, although the socket is gone.
    const complete = this.#ended || this.#parser.state === 'done';
    if (this.#handler !== null && this.#paused && complete) this.#ended = true;
    else this.abort(error);
  }

  #drop(): void {
    this.#close();
    this.#tellClosed();
  }

  #close(): void {
    const socket = this.#socket;
    this.#socket = null;
    this.#open = false;
    this.#held = null;
    socket?.destroy();
  }

  #tellClosed(): void {
    if (this.#socket === null) this.#events.onDisconnect();
  }
}

/** Longest time that undici may spend connecting a socket, in milliseconds. */
const CONNECT_MS = 60_000;

/** undici's client behind our interface. */
class SecureClient implements DispatchClient {
  readonly #client: Client;

  constructor(origin: string, keepAliveMs: number, events: SocketEvents) {
    this.#client = new Client(origin, {
      pipelining: 1,
      keepAliveTimeout: keepAliveMs,
      keepAliveMaxTimeout: keepAliveMs,
      // Handlers have deadlines of their own (deadline.ts): exact, and one timer for all.
      headersTimeout: 0,
      bodyTimeout: 0,
      // `destroy` does not close a socket that is still connecting; this does.
      connectTimeout: CONNECT_MS,
      allowH2: false,
    });
    this.#client.on('connect', () => events.onConnect());
    this.#client.on('disconnect', () => events.onDisconnect());
  }

  get destroyed(): boolean {
    return this.#client.destroyed;
  }

  dispatch(options: DispatchOptions, handler: DispatchHandler): void {
    this.#client.dispatch({ ...options, headers: [...options.headers] }, new SecureHandler(handler));
  }

  destroy(): void {
    // The promise only says when undici has finished; the requests have failed before.
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

/** One connection of a pool; at most one request at a time. */
export class Connection implements SocketEvents {
  readonly client: DispatchClient;
  /** Responses since the socket was opened. A request on a used socket may meet a server that has just closed it. */
  served = 0;
  /** @internal */ idle = false;
  readonly #pool: ConnectionPool;

  /** @internal */
  constructor(pool: ConnectionPool, origin: string, keepAliveMs: number) {
    this.#pool = pool;
    const ClientClass = origin.startsWith('http:') ? Http1Client : SecureClient;
    this.client = new ClientClass(origin, keepAliveMs, this);
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

export interface PoolSettings {
  /** Most connections to one server, from one thread. */
  readonly maxConnections: number;
  /** Idle time after which a connection is closed, in milliseconds. A server's Keep-Alive field may shorten it. */
  readonly keepAliveMs: number;
}

/** Connections to one server. The idle ones form a stack, which keeps the number in use small. */
export class ConnectionPool {
  readonly #origin: string;
  readonly #settings: PoolSettings;
  readonly #idle: Connection[] = [];
  /** Given back in this turn of the event loop; bytes that a faulty server sent too much are read before it ends. */
  readonly #cooling: Connection[] = [];
  #open = 0;
  #closed = false;

  constructor(origin: string, settings: PoolSettings) {
    this.#origin = origin;
    this.#settings = settings;
  }

  /** The idle connection that was used last, else a new one; undefined when `maxConnections` are open. */
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

  /** Gives a connection back after a complete response. */
  give(connection: Connection): void {
    if (this.#closed) {
      this.discard(connection);
      return;
    }
    connection.served++;
    connection.idle = true;
    // Reused in the next turn at the earliest: stray bytes must not become the response to another request.
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
