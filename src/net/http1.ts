// An HTTP/1.1 client on one TCP connection, one request at a time, for servers without TLS: the pool of client.ts makes
// them, upstream/attempt.ts is their handler. It knows no deadline but that of an idle socket. Every request ends once:
// with `onResponseEnd` or with `onResponseError`, and then the client may be asked again.

import { connect, type Socket } from 'node:net';
import { type DispatchOptions, requestHead } from './http1-head.ts';
import { AnswerParser } from './http1-parser.ts';

export type { DispatchOptions } from './http1-head.ts';

/** What the handler of a request may ask for while it lasts. */
export interface DispatchController {
  /** Stops reading: nothing is delivered until `resume`. */
  pause(): void;
  resume(): void;
  /** Ends the request and its socket; the handler hears `reason`. */
  abort(reason: Error): void;
}

/** Hears of one request. */
export interface DispatchHandler {
  /** The socket is open and the request leaves; nothing has been sent before. */
  onRequestStart(controller: DispatchController): void;
  /** The head of the answer. `headers` is flat: name in lower case, value; the handler may keep it. */
  onResponseStart(controller: DispatchController, status: number, headers: readonly string[]): void;
  /** A piece of the body, without framing; the handler may keep it. */
  onResponseData(controller: DispatchController, chunk: Buffer): void;
  onResponseEnd(controller: DispatchController): void;
  /** The only call when the request is not sent at all. Errors without a code below are those of the socket. */
  onResponseError(controller: DispatchController, error: Error): void;
}

/**
 * `unsendable`: the request may not be sent to any server. `malformed`: the answer breaks RFC 9112.
 * `reset`: the server left before the head of the answer was complete. `truncated`: after it, before the end.
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

/** What the owner of a client wants to hear. */
export interface ClientNotices {
  /** A socket was opened. */
  onConnect(): void;
  /** The socket is gone, and the request that it carried has ended. */
  onDisconnect(): void;
}

/** A client with one connection, whatever its protocol. */
export interface DispatchClient {
  readonly destroyed: boolean;
  /** Sends a request; connects first when there is no socket. May call the handler before it returns. */
  dispatch(options: DispatchOptions, handler: DispatchHandler): void;
  /** Closes the socket at once; a request under way fails. */
  destroy(): void;
}

/** A body below this is copied behind its head: one buffer, one write. */
const SMALL_BODY_BYTES = 64 * 1024;
/** The socket closes this long before the server says it would, so that no request crosses the closing. */
const KEEP_ALIVE_MARGIN_MS = 1000;
const TCP_PROBE_MS = 60_000;

/** All sockets of a thread read into it, one after the other; what is handed on is a copy. */
const READ_BUFFER = Buffer.allocUnsafeSlow(256 * 1024);

const NOTHING = Buffer.alloc(0);
const TIMEOUT = /(?:^|[,\s])timeout\s*=\s*"?(\d+)/i;

export class Http1Client implements DispatchClient, DispatchController {
  destroyed = false;
  readonly #url: URL;
  readonly #keepAliveMs: number;
  readonly #notices: ClientNotices;
  readonly #parser = new AnswerParser();
  #socket: Socket | null = null;
  #open = false;
  #handler: DispatchHandler | null = null;
  #method = '';
  #head = '';
  #body: Buffer = NOTHING;
  #paused = false;
  /** A piece of the body that came before the pause and may not be delivered in it. */
  #held: Buffer | null = null;
  /** The server has ended the connection. */
  #ended = false;
  #hint = '';
  #idleMs: number;

  /** `keepAliveMs`: idle time after which the socket is closed; a Keep-Alive field of the server may shorten it. */
  constructor(origin: string, keepAliveMs: number, notices: ClientNotices) {
    this.#url = new URL(origin);
    this.#keepAliveMs = keepAliveMs;
    this.#idleMs = keepAliveMs;
    this.#notices = notices;
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
    this.#tellGone();
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
    // The stream of a socket that was closed may speak on; this client has another one by then, or none.
    const ours = (run: () => void) => (): void => {
      if (socket === this.#socket) run();
    };
    socket.on(
      'connect',
      ours(() => this.#connected(socket)),
    );
    socket.on(
      'timeout',
      ours(() => this.#idleTooLong()),
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
    this.#notices.onConnect();
    if (this.#handler !== null) this.#send();
  }

  #send(): void {
    const handler = this.#handler as DispatchHandler;
    const [head, body] = [this.#head, this.#body];
    this.#head = '';
    this.#body = NOTHING;
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

  #receive(length: number): void {
    const handler = this.#handler;
    if (handler === null) {
      // Nobody asked: what comes now would be taken for the answer to the next request.
      this.#drop();
      return;
    }
    try {
      this.#read(handler, length);
    } catch (error) {
      // A mistake in a handler costs its own request; without one it is nobody's and must be heard.
      if (this.#handler === null) throw error;
      this.abort(error as Error);
    }
  }

  /** So many bytes lie in the buffer that all sockets share. */
  #read(handler: DispatchHandler, length: number): void {
    const parser = this.#parser;
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
    this.#settle();
  }

  /** Ends the request when its answer has ended and may be told. */
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
    // An answer that overtook its request leaves the rest of the request in the way of the next one.
    const reusable = this.#parser.reusable && !this.#ended && socket.writableLength === 0 && this.#heedHint(socket);
    if (!reusable) this.#close();
    handler.onResponseEnd(this);
    if (!reusable) this.#tellGone();
  }

  /** Follows the server's Keep-Alive field; false when it will close at once. */
  #heedHint(socket: Socket): boolean {
    const { keepAlive } = this.#parser;
    if (keepAlive === this.#hint) return this.#idleMs > 0;
    this.#hint = keepAlive;
    const seconds = TIMEOUT.exec(keepAlive)?.[1];
    const hintMs = seconds === undefined ? Infinity : Number(seconds) * 1000 - KEEP_ALIVE_MARGIN_MS;
    const idleMs = Math.min(this.#keepAliveMs, hintMs);
    if (idleMs > 0 && idleMs !== this.#idleMs) socket.setTimeout(idleMs);
    this.#idleMs = idleMs;
    return idleMs > 0;
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

  /** Silence of a server that works on an answer is for others to judge. */
  #idleTooLong(): void {
    if (this.#handler === null) this.#drop();
  }

  #lost(error: Error): void {
    // What has been read whole is delivered after the pause, although the socket is gone.
    const whole = this.#ended || this.#parser.state === 'done';
    if (this.#handler !== null && this.#paused && whole) this.#ended = true;
    else this.abort(error);
  }

  #drop(): void {
    this.#close();
    this.#tellGone();
  }

  #close(): void {
    const socket = this.#socket;
    this.#socket = null;
    this.#open = false;
    this.#held = null;
    socket?.destroy();
  }

  #tellGone(): void {
    if (this.#socket === null) this.#notices.onDisconnect();
  }
}
