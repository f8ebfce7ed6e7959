// HTTP/1.1 connections to one server, http: or https:, and their pool. A connection carries one request at a time and belongs to
// its pool from the first byte to the last: it returns there by itself when a response is complete, and leaves it when it closes.

import { connect, isIP, type NetConnectOpts, Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import type { NetworkInterfaceInfo } from 'node:os';
import { type Clock, systemClock, type TimerHandle } from '../actor/index.ts';
import { fullReads } from './full-reads.ts';
import { ResponseParser } from './http1-response-parser.ts';
import { writeLatin1 } from './latin1.ts';
import { ownAddresses } from './own-addresses.ts';
import { readBelowStream } from './socket-reader.ts';
import { SocketWriter } from './socket-writer.ts';
import { type BatchedWriter, writeBatch } from './write-batch.ts';
import { type NameCache, type NameWaiter, type ServerName, systemNames } from './name-cache.ts';

/** A request to send. */
export interface DispatchOptions {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PATCH' | 'DELETE';
  /** Path and query. */
  readonly path: string;
  /** Flat: name in lower case, value. Host, Content-Length and Connection are added by the client. */
  readonly headers: readonly string[];
  /** Further header lines as they are written, each with its line end. They are not checked. */
  readonly lines?: string;
  /** Must not change until the response has ended. */
  readonly body: Buffer;
  /** Bytes before `body` in its memory that nobody needs: a head that fits there is written there, and nothing is copied. Default: none. */
  readonly room?: number;
}

/**
 * Callbacks of one request. `onResponseEnd` or `onResponseError` is called exactly once, and nothing after it, unless the request
 * is aborted: then nothing is called any more. The connection is no longer the handler's when the last callback runs.
 */
export interface DispatchHandler {
  /** The connection is open and the request has been given to it, with no byte of the answer read yet. */
  onRequestSent(connection: Connection): void;
  /** The final head of the response. `headers` is flat: name in lower case, value; the handler may keep it. */
  onResponseStart(status: number, headers: readonly string[]): void;
  /**
   * A piece of the body, without framing; it came at `nowMs` by the clock of the pool. Its memory is used again: the handler copies what
   * it keeps. The last piece of a response of declared length is valid until `onResponseEnd` returns, which follows at once; any other
   * one until this call returns.
   */
  onResponseData(chunk: Buffer, nowMs: number): void;
  onResponseEnd(): void;
  /** The connection is closed, or there was none. */
  onResponseError(error: DispatchError): void;
}

/**
 * Before the request is sent:
 * - `unsendable`: it may not be sent to any server; no connection was taken.
 * - `no connection free`: as many requests are in progress as the pool may have connections, or this process can open no other one for want of
 *   file descriptors, memory or local ports; `cause` is the error of the system then. It says nothing about the server.
 * - `connect`: no connection could be opened: name, address, port or certificate.
 *
 * After it was sent:
 * - `stale`: a kept connection closed before any byte of the answer, less than 500 ms after the request was sent, or just before that: most
 *   likely the server closed the idle connection at that moment.
 * - `reset`: the connection closed before the head of the response was complete, in any other case.
 * - `malformed`: the response breaks RFC 9112.
 * - `truncated`: the connection closed after the head of the response, before its end.
 * - `internal`: a callback of the handler threw; `cause` is what it threw. It says nothing about the server.
 */
export type DispatchFault =
  | 'unsendable'
  | 'no connection free'
  | 'connect'
  | 'stale'
  | 'reset'
  | 'malformed'
  | 'truncated'
  | 'internal';

export class DispatchError extends Error {
  override readonly name = 'DispatchError';
  readonly fault: DispatchFault;

  constructor(fault: DispatchFault, cause?: unknown) {
    super(cause instanceof Error ? `${fault}: ${cause.message}` : fault, { cause });
    this.fault = fault;
  }
}

/** What the system says of a process or a machine that has no file descriptor or no memory left (connect(2), socket(2)). */
const SHORTAGES: ReadonlySet<unknown> = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM']);

/** What it means that a connection could not be opened. */
function unconnectedFault(error: unknown): DispatchFault {
  const { address, code } = (error ?? {}) as { readonly address?: unknown; readonly code?: unknown };
  const isShort = SHORTAGES.has(code) || (code === 'EADDRNOTAVAIL' && hasSourceFor(String(address)));
  return isShort ? 'no connection free' : 'connect';
}

/**
 * Whether this machine has an address from which it can reach another one. EADDRNOTAVAIL means that no local port is left for the server
 * (connect(2)), or that there is no such address: as for ::1 in a container without IPv6.
 */
function hasSourceFor(address: string): boolean {
  const isLoopback = address === '::1' || address.startsWith('127.');
  const family = `IPv${isIP(address)}`;
  const nowMs = systemClock.now();
  if (nowMs - ownReadMs > OWN_ADDRESSES_MS) {
    ownKnown = ownAddresses();
    ownReadMs = nowMs;
  }
  return ownKnown.some((own) => own.family === family && own.internal === isLoopback);
}

/** How long the addresses of this machine are believed: without ports every connection fails. */
const OWN_ADDRESSES_MS = 1000;
let ownKnown: readonly NetworkInterfaceInfo[] = [];
let ownReadMs = -Infinity;

/** A body below this is copied behind its head: one buffer, one write. Copies of larger ones would be memory outside V8's heap for each. */
const SMALL_BODY_BYTES = 16 * 1024;
/** Takes such a body and any usual head. */
const SCRATCH_BYTES = 32 * 1024;
/** The socket is closed this long before the server's announced timeout, so that no request crosses the close. */
const KEEP_ALIVE_MARGIN_MS = 1000;
const TCP_PROBE_MS = 60_000;
/** Wait for an address before the next one is tried; an address that was silent for so long is tried last by later attempts. */
const SILENT_MS = 500;
/** Time for which an address that could not be connected to is tried last. */
const UNREACHABLE_MS = 10_000;
/** Age at which a connection is replaced when the name has several addresses, so that all of them get traffic. */
const SHARED_MAX_AGE_MS = 60_000;
/** A kept connection that closes so soon after a request was sent had most likely been closed before the request arrived. */
const STALE_MS = 500;

/** All sockets of a thread read into this buffer, one after the other; handlers get views of it. */
const READ_BUFFER = Buffer.allocUnsafeSlow(256 * 1024);

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

/** Whether a field can be one of the headers of a request: not when a part of it could be read as a line end, or the client writes it. */
export function isSendable(name: string, value: string): boolean {
  return NAME.test(name) && !OWN_FIELDS.has(name) && !NO_VALUE.test(value);
}

/** The given fields as header lines; null when a part of them could be read as a line end or as another field. */
function headerLines(headers: readonly string[]): string | null {
  let lines = '';
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string;
    const value = headers[i + 1] as string;
    if (!isSendable(name, value)) return null;
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

/** Small messages are put together here: what has been written to the kernel at once leaves it free for the next one. */
let scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);

function messageOf({ body, room = 0 }: DispatchOptions, head: string): Message {
  return { head, body, room };
}

/** Writes a message, with one system call where it is not large and the kernel takes it. */
function writeMessage(writer: SocketWriter, { body, head, room }: Message, isSecure: boolean): void {
  const bytes = head.length + body.byteLength;
  if (head.length <= room) {
    const message = Buffer.from(body.buffer, body.byteOffset - head.length, bytes);
    writeLatin1(message, head, 0);
    writer.writeInTurns(message);
  } else if (body.byteLength >= SMALL_BODY_BYTES) {
    writer.writeInTurns(Buffer.from(head, 'latin1'), body);
  } else if (isSecure || bytes > SCRATCH_BYTES) {
    const message = Buffer.allocUnsafe(bytes);
    writeLatin1(message, head, 0);
    body.copy(message, head.length);
    writer.write(message);
  } else {
    writeLatin1(scratch, head, 0);
    scratch.set(body, head.length);
    if (writer.write(scratch.subarray(0, bytes)) > 0) scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
  }
}

/**
 * `destroy` of a socket that is read out when a write fails: a server may answer and close before it has read the request, and what
 * it sent has arrived by then.
 */
function destroyReadOut(this: Socket, error?: NodeJS.ErrnoException): Socket {
  const isClosedByPeer = error?.code === 'EPIPE' || error?.code === 'ECONNRESET';
  if (!isClosedByPeer || error.syscall !== 'write') return Socket.prototype.destroy.call(this, error);
  afterReads(() => Socket.prototype.destroy.call(this, error));
  return this;
}

/** Runs `then` when the event loop has read from all sockets once more. */
export function afterReads(then: () => void): void {
  const read = (): void => void setImmediate(then);
  // The present turn may be past its reads; the next one is not.
  setImmediate(read);
}

/** A request as it is written. */
interface Message {
  /** Latin1 text. */
  readonly head: string;
  readonly body: Buffer;
  /** See `DispatchOptions`. */
  readonly room: number;
}

/** One connection. `pause`, `resume` and `abort` have no effect unless the request of that handler is in progress on it. */
export class Connection implements BatchedWriter, NameWaiter {
  /** Responses before the present one. */
  served = 0;
  /** When the present request was sent, by the clock of the pool, in milliseconds. */
  sentMs = 0;
  /** @internal The address that it is connected to, and since when, in milliseconds. */
  address = '';
  /** @internal */ openedMs = 0;
  /** @internal When the last response ended, in milliseconds. */
  idleSinceMs = 0;
  /** @internal Idle time after which it is closed. */
  idleMs: number;
  readonly #pool: ConnectionPool;
  readonly #parser = new ResponseParser();
  #socket: Socket | null = null;
  /** Made when the connection is open. */
  #writer: SocketWriter | null = null;
  #handler: DispatchHandler | null;
  /** The request, while the connection is being opened, and while it waits for the end of the turn. */
  #unsent: Message | null = null;
  #toHead = false;
  /** A byte has come since the request was sent. */
  #heard = false;
  #paused = false;
  /** Reading has stopped, until its turn comes. */
  #stopped = false;
  /** Body bytes that arrived after `pause` was called; delivered by `resume`. */
  #held: Buffer | null = null;
  /** The server has closed its side of the connection. */
  #ended = false;
  /** Turns of the event loop after which everything that the server sent with the last piece has been read. */
  #unreadTurns: 0 | 1 | 2 = 0;
  /** The Keep-Alive field that `idleMs` was made from. */
  #hint = '';

  /** @internal */
  constructor(pool: ConnectionPool, handler: DispatchHandler) {
    this.#pool = pool;
    this.#handler = handler;
    this.idleMs = pool.settings.keepAliveMs;
  }

  /** Stops reading: nothing is delivered until `resume`. */
  pause(handler: DispatchHandler): void {
    if (this.#handler !== handler || this.#paused || this.#unsent !== null) return;
    this.#paused = true;
    this.#socket?.pause();
  }

  resume(handler: DispatchHandler): void {
    if (this.#handler !== handler || !this.#paused) return;
    this.#paused = false;
    // The present turn may be past its reads; the next one is not.
    this.#unreadTurns = 2;
    this.#stopped = false;
    this.#socket?.resume();
    const piece = this.#held;
    this.#held = null;
    const nowMs = this.#pool.settings.clock.now();
    if (piece !== null) handler.onResponseData(piece, nowMs);
    this.#settle(nowMs);
  }

  /** Ends the request and closes the connection, which may still be opening. The handler is not called any more. */
  abort(handler: DispatchHandler): void {
    if (this.#handler !== handler) return;
    this.#handler = null;
    this.close();
  }

  /** @internal Opens the connection and sends the request. */
  open(options: DispatchOptions, head: string, nowMs: number): void {
    this.#toHead = options.method === 'HEAD';
    this.#unsent = messageOf(options, head);
    this.#pool.name.resolve(this, nowMs);
  }

  /** @internal */
  onResolved(error: Error | null): void {
    if (error === null) this.#connect(this.#pool.addressesInTurn());
    else this.#fail(unconnectedFault(error), error);
  }

  /**
   * Connects to the first address; to the others, one after the other, when that refuses or is silent. `shortage`: the error of an address before, to
   * which this process could open no connection.
   */
  #connect([address = '', ...others]: readonly string[], shortage: unknown = null): void {
    const pool = this.#pool;
    const { clock } = pool.settings;
    const startedMs = clock.now();
    const readOn = (): void => {
      if (socket !== this.#socket) return;
      this.#stopped = false;
      if (!this.#paused) socket.resume();
    };
    // Bytes since the connection has read on last.
    let readBytes = 0;
    const onRead = (length: number): boolean => {
      if (socket === this.#socket) this.#receive(length);
      if (socket !== this.#socket) return true;
      readBytes += length;
      const isIdle = this.#handler === null;
      // TLS gives what it has decrypted when reading has stopped. What is behind a response is read before the next request.
      if (isIdle && this.#stopped) setImmediate(readOn);
      if (readBytes < READ_BUFFER.byteLength || (isIdle && length < READ_BUFFER.byteLength)) return true;
      // libuv would read up to 32 times in one turn: a fast server would keep others waiting.
      readBytes = 0;
      if (isIdle) setImmediate(readOn);
      else if (!this.#stopped) fullReads.add(readOn);
      this.#stopped = true;
      return false;
    };
    const socket = pool.connect(address, onRead);
    this.address = address;
    this.#socket = socket;
    let isOpen = false;
    // The last address has all the time that the handler gives.
    const silent = (): void => void socket.destroy(new Error(`no answer from ${address} to a connection attempt`));
    const timer = others.length === 0 ? null : clock.setTimeout(silent, SILENT_MS);
    const heard = (): void => {
      if (timer !== null) clock.clearTimeout(timer);
    };
    socket.once('connect', heard);
    socket.on(pool.isSecure ? 'secureConnect' : 'connect', () => {
      if (socket !== this.#socket) return;
      isOpen = true;
      this.openedMs = clock.now();
      pool.reachable(address);
      const message = this.#unsent as Message;
      this.#unsent = null;
      this.#writer = new SocketWriter(socket, null);
      readBelowStream(socket, onRead);
      this.#write(message, this.openedMs);
    });
    // A socket that was closed may emit events still.
    const ended = (): void => {
      if (isOpen && socket === this.#socket) this.#end();
    };
    const closed = (error?: unknown): void => {
      const isOurs = socket === this.#socket;
      heard();
      const isShort = !isOpen && unconnectedFault(error) === 'no connection free';
      if (!isOpen && !isShort && (isOurs || clock.now() - startedMs > SILENT_MS)) pool.unreachable(address);
      if (!isOurs) return;
      const short = isShort ? error : shortage;
      if (!isOpen && others.length > 0) this.#connect(others, short);
      else if (!isOpen && short !== null) this.#fail('no connection free', short);
      else this.#lost(error instanceof Error ? error : undefined);
    };
    socket.on('end', ended).on('error', closed).on('close', closed);
  }

  /** @internal Whether the request of this handler is in progress. */
  carries(handler: DispatchHandler): boolean {
    return this.#handler === handler;
  }

  /** @internal Sends a request on the open connection. */
  send(options: DispatchOptions, handler: DispatchHandler, head: string, nowMs: number): void {
    this.#handler = handler;
    this.#toHead = options.method === 'HEAD';
    const message = messageOf(options, head);
    if (writeBatch.collects()) {
      this.#unsent = message;
      writeBatch.add(this);
    } else {
      this.#write(message, nowMs);
    }
  }

  /** @internal Sends a request that has waited for the end of the turn, unless the connection was closed meanwhile. */
  sendBatched(): void {
    const message = this.#unsent;
    const handler = this.#handler;
    if (message === null || handler === null) return;
    this.#unsent = null;
    try {
      this.#write(message, this.#pool.settings.clock.now());
    } catch (error) {
      if (this.#handler !== handler) throw error;
      this.#fail('internal', error);
    }
  }

  /** @internal Closes the socket at once, without a callback. */
  close(): void {
    const socket = this.#socket;
    this.#socket = null;
    this.#held = null;
    if (this.#unsent !== null) this.#pool.name.leave(this);
    this.#unsent = null;
    socket?.destroy();
    this.#pool.remove(this);
  }

  #write(message: Message, nowMs: number): void {
    this.#paused = false;
    this.#heard = false;
    this.#parser.begin(this.#toHead);
    writeMessage(this.#writer as SocketWriter, message, this.#pool.isSecure);
    this.sentMs = nowMs;
    this.#handler?.onRequestSent(this);
  }

  /** Delivers the first `length` bytes of the read buffer. */
  #receive(length: number): void {
    const handler = this.#handler;
    // Unrequested bytes would be taken for the response to the next request.
    if (handler === null) {
      this.close();
      return;
    }
    if (this.#unsent !== null) {
      this.#fail(this.#closedFault());
      return;
    }
    this.#heard = true;
    // A full buffer is filled again in the next turn, and TLS gives its records one by one.
    this.#unreadTurns = this.#stopped || length === READ_BUFFER.byteLength ? 2 : this.#pool.isSecure ? 1 : 0;
    const parser = this.#parser;
    const nowMs = this.#pool.settings.clock.now();
    try {
      parser.parse(READ_BUFFER, length);
      if (parser.headCame) {
        handler.onResponseStart(parser.status, parser.fields);
        if (this.#handler !== handler) return;
      }
      const { bodyStart, bodyEnd } = parser;
      if (bodyEnd > bodyStart) {
        const piece = READ_BUFFER.subarray(bodyStart, bodyEnd);
        if (this.#paused) this.#held = Buffer.concat(this.#held === null ? [piece] : [this.#held, piece]);
        else handler.onResponseData(piece, nowMs);
      }
      if (this.#handler === handler && (parser.state === 'done' || parser.state === 'malformed')) this.#settle(nowMs);
    } catch (error) {
      // An error thrown by a handler fails its own request. Without a request it must surface.
      if (this.#handler !== handler) throw error;
      this.#fail('internal', error);
    }
  }

  /** Ends the request when its response has ended and the handler is not paused. */
  #settle(nowMs: number = this.#pool.settings.clock.now()): void {
    if (this.#handler === null || this.#paused) return;
    const { state } = this.#parser;
    if (state === 'done') this.#complete(this.#handler, nowMs);
    else if (state === 'malformed') this.#fail('malformed');
    else if (this.#ended) this.#fail(this.#closedFault());
  }

  #complete(handler: DispatchHandler, nowMs: number): void {
    this.#handler = null;
    this.served++;
    if (this.#parser.keepAlive !== this.#hint) this.#applyHint();
    // TLS tells of a write one turn later: the pool looks again when it takes the connection back.
    const isSent = this.#unreadTurns > 0 || this.isSent;
    const isReusable = this.#parser.reusable && !this.#ended && isSent && this.idleMs > 0;
    if (isReusable) this.#pool.keep(this, this.#unreadTurns, nowMs);
    else this.close();
    try {
      handler.onResponseEnd();
    } catch (error) {
      handler.onResponseError(new DispatchError('internal', error));
    }
  }

  /** @internal False while a part of the request is unsent: a response may overtake it, and the rest would precede the next request. */
  get isSent(): boolean {
    return this.#socket !== null && this.#unsent === null && this.#writer?.queuedBytes === 0 && this.#writer.isOpen;
  }

  #fail(fault: DispatchFault, cause?: unknown): void {
    const handler = this.#handler;
    this.#handler = null;
    this.close();
    handler?.onResponseError(new DispatchError(fault, cause));
  }

  /** Shortens the idle time to the server's Keep-Alive timeout; to 0 or less when it is about to close. */
  #applyHint(): void {
    this.#hint = this.#parser.keepAlive;
    const seconds = TIMEOUT.exec(this.#hint)?.[1];
    const hintMs = seconds === undefined ? Infinity : Number(seconds) * 1000 - KEEP_ALIVE_MARGIN_MS;
    this.idleMs = Math.min(this.#pool.settings.keepAliveMs, hintMs);
  }

  #end(): void {
    this.#ended = true;
    if (this.#handler === null) {
      this.close();
      return;
    }
    if (this.#unsent !== null) {
      this.#fail(this.#closedFault());
      return;
    }
    this.#parser.end();
    this.#settle();
  }

  #lost(cause?: Error): void {
    // Without a length the end of an answer that refuses the rest of its request cannot be told from a reset.
    if (this.#parser.state === 'until close' && this.#parser.status >= 400 && !this.isSent) {
      this.#end();
      return;
    }
    // A response that was read completely is delivered after the pause, although the socket is gone.
    const complete = this.#ended || this.#parser.state === 'done';
    if (this.#handler !== null && this.#paused && complete) this.#ended = true;
    else this.#fail(this.#closedFault(), cause);
  }

  /** What the close of the connection means for the request in progress. */
  #closedFault(): DispatchFault {
    if (this.#unsent !== null) return this.#writer === null ? 'connect' : 'stale';
    if (this.#parser.state !== 'head') return 'truncated';
    const isStale = this.served > 0 && !this.#heard && this.#pool.settings.clock.now() - this.sentMs < STALE_MS;
    return isStale ? 'stale' : 'reset';
  }
}

export interface PoolSettings {
  /** Most connections to one server, from one thread. */
  readonly maxConnections: number;
  /** Idle time after which a connection is closed, in milliseconds. A server's Keep-Alive field may shorten it. */
  readonly keepAliveMs: number;
  /** Default: the clock of the process. */
  readonly clock?: Clock;
  /** Default: the cache of the thread. */
  readonly names?: NameCache;
  /** Certificate authorities to trust in place of those of Node.js, PEM. */
  readonly ca?: string;
  /** Name in the Host field and in TLS (SNI, certificate). Default: that of the origin. */
  readonly hostname?: string;
}

/** Connections to one server. The idle ones form a stack, which keeps the number in use small. */
export class ConnectionPool {
  /** @internal */ readonly url: URL;
  /** @internal */ readonly isSecure: boolean;
  /** @internal */ readonly settings: PoolSettings & { readonly clock: Clock };
  /** @internal */ readonly name: ServerName;
  readonly #port: number;
  /** What stands behind the path in the head of every request. */
  readonly #standing: string;
  /** The path that was checked last. */
  #lastPath = '/';
  /** Made for https: alone. */
  readonly #tls: ConnectionOptions;
  /** The last TLS session of a server whose certificate was good. */
  #session: Buffer | undefined;
  #turn = 0;
  /** Until when an address is tried last, in milliseconds. */
  readonly #unreachable = new Map<string, number>();
  readonly #idle: Connection[] = [];
  /** Idle connections that may hold unread bytes: not reused before those have been read. */
  readonly #unsettled = new Set<Connection>();
  readonly #open = new Set<Connection>();
  #sweep: TimerHandle | null = null;
  #sweepAtMs = Infinity;
  #closed = false;

  /** `origin`: scheme, host and port of a URL. */
  constructor(origin: string, settings: PoolSettings) {
    this.url = new URL(origin);
    this.isSecure = this.url.protocol === 'https:';
    this.settings = { clock: systemClock, ...settings };
    const { hostname, port } = this.url;
    const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
    this.name = (settings.names ?? systemNames).name(host);
    const named = settings.hostname ?? host;
    const field = settings.hostname === undefined ? this.url.host : `${named}${port === '' ? '' : `:${port}`}`;
    this.#standing = ` HTTP/1.1\r\nhost: ${field}\r\nconnection: keep-alive\r\n`;
    this.#port = port === '' ? (this.isSecure ? 443 : 80) : Number(port);
    this.#tls = {
      ALPNProtocols: ['http/1.1'],
      // SNI takes names only; the certificate is checked for names and addresses.
      ...(isIP(named) === 0 && { servername: named }),
      ...(settings.ca !== undefined && { ca: settings.ca }),
    };
  }

  /**
   * Sends a request on the idle connection that was used last, else on a new one; on a new one in any case when `fresh`. Returns
   * the connection, or null when the request has ended already. May call `onRequestSent` or `onResponseError` before it returns; on an idle
   * connection the request is sent in this turn of the event loop.
   */
  dispatch(options: DispatchOptions, handler: DispatchHandler, fresh = false): Connection | null {
    const head = this.#head(options);
    if (head === null || !this.#makeRoom(fresh)) {
      handler.onResponseError(new DispatchError(head === null ? 'unsendable' : 'no connection free'));
      return null;
    }
    const nowMs = this.settings.clock.now();
    this.name.refresh(nowMs);
    let connection = fresh ? undefined : this.#idle.pop();
    while (connection !== undefined && this.#isOutdated(connection, nowMs)) {
      connection.close();
      connection = this.#idle.pop();
    }
    if (connection === undefined) {
      connection = new Connection(this, handler);
      this.#open.add(connection);
      connection.open(options, head, nowMs);
    } else {
      connection.send(options, handler, head, nowMs);
    }
    return connection.carries(handler) ? connection : null;
  }

  /** Whether a request would find a connection now. */
  get available(): boolean {
    return this.#idle.length > 0 || this.#open.size < this.settings.maxConnections;
  }

  /** Closes idle connections now and the others when their requests end. */
  close(): void {
    this.#closed = true;
    for (const connection of [...this.#idle, ...this.#unsettled]) connection.close();
    this.#stopSweep();
  }

  get openConnections(): number {
    return this.#open.size;
  }

  /**
   * @internal Takes a connection back after a complete response. Bytes that a faulty server sent behind the response must not become
   * the response to another request: it is reused after `unreadTurns` turns of the event loop, when such bytes have been read.
   */
  keep(connection: Connection, unreadTurns: 0 | 1 | 2, nowMs: number): void {
    if (this.#closed || this.#isOutdated(connection, nowMs)) {
      connection.close();
      return;
    }
    connection.idleSinceMs = nowMs;
    if (unreadTurns === 0) this.#idle.push(connection);
    else this.#settle(connection, unreadTurns);
    if (nowMs + connection.idleMs < this.#sweepAtMs) this.#sweepAt(nowMs + connection.idleMs, connection.idleMs);
  }

  /** @internal Forgets a connection that is closed. */
  remove(connection: Connection): void {
    if (!this.#open.delete(connection)) return;
    const at = this.#idle.lastIndexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
    this.#unsettled.delete(connection);
    if (this.#idle.length + this.#unsettled.size === 0) this.#stopSweep();
  }

  /** @internal Begins to connect; `onRead` is called when so many bytes are in the read buffer. */
  connect(address: string, onRead: (length: number) => boolean): Socket {
    const settings = {
      host: address,
      port: this.#port,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: TCP_PROBE_MS,
      onread: { buffer: READ_BUFFER, callback: onRead },
    };
    const socket = this.isSecure ? this.#connectSecurely(settings) : connect(settings);
    socket.destroy = destroyReadOut;
    return socket;
  }

  /** @internal The addresses of the server, beginning with the next one in turn; those that failed lately come last. */
  addressesInTurn(): readonly string[] {
    const { addresses } = this.name;
    if (addresses.length < 2) return addresses;
    const first = this.#turn++ % addresses.length;
    const inTurn = [...addresses.slice(first), ...addresses.slice(0, first)];
    const nowMs = this.settings.clock.now();
    for (const [address, untilMs] of this.#unreachable) if (untilMs <= nowMs) this.#unreachable.delete(address);
    return inTurn.sort((a, b) => Number(this.#unreachable.has(a)) - Number(this.#unreachable.has(b)));
  }

  /** @internal An address could be connected to. */
  reachable(address: string): void {
    this.#unreachable.delete(address);
  }

  /** @internal An address could not be connected to. */
  unreachable(address: string): void {
    this.#unreachable.set(address, this.settings.clock.now() + UNREACHABLE_MS);
  }

  #connectSecurely(settings: NetConnectOpts): Socket {
    const socket = connectTls({
      ...settings,
      ...this.#tls,
      ...(this.#session !== undefined && { session: this.#session }),
    });
    let isTrusted = false;
    let session: Buffer | undefined;
    const trusted = (): void => {
      isTrusted = true;
      if (session !== undefined) this.#session = session;
      socket.setNoDelay(true).setKeepAlive(true, TCP_PROBE_MS);
    };
    // A resumed session is not checked for the name again: only one whose certificate was good may be resumed.
    const keep = (ticket: Buffer): void => {
      session = ticket;
      if (isTrusted) this.#session = ticket;
    };
    const forget = (): void => {
      if (!isTrusted) this.#session = undefined;
    };
    return socket.on('secureConnect', trusted).on('session', keep).on('error', forget);
  }

  /** Whether a connection leads to an address that the name no longer has, or has been open for its share of the time. */
  #isOutdated({ address, openedMs }: Connection, nowMs: number): boolean {
    const { addresses } = this.name;
    if (addresses.length === 1) return addresses[0] !== address;
    return nowMs - openedMs >= SHARED_MAX_AGE_MS || !addresses.includes(address);
  }

  /** Whether there is a connection for a request. The idle connection that was used first makes room for a fresh one. */
  #makeRoom(fresh: boolean): boolean {
    if (this.#open.size < this.settings.maxConnections) return true;
    const [oldest] = this.#idle;
    if (fresh) oldest?.close();
    return oldest !== undefined;
  }

  /** The head of a request as latin1 text; null when the request may not be sent. */
  #head({ method, path, headers, lines = '', body }: DispatchOptions): string | null {
    // Most requests to a server have the same path.
    if (path !== this.#lastPath && !TARGET.test(path)) return null;
    this.#lastPath = path;
    const checked = headers.length === 0 ? '' : headerLines(headers);
    if (checked === null) return null;
    const { byteLength } = body;
    const length = method === 'POST' || byteLength > 0 ? `content-length: ${byteLength}\r\n\r\n` : '\r\n';
    return `${method} ${path}${this.#standing}${lines}${checked}${length}`;
  }

  #settle(connection: Connection, turns: 1 | 2): void {
    this.#unsettled.add(connection);
    const settled = (): void => {
      if (!this.#unsettled.delete(connection)) return;
      if (connection.isSent) this.#idle.push(connection);
      else connection.close();
    };
    if (turns === 1) setImmediate(settled);
    else afterReads(settled);
  }

  #sweepAt(atMs: number, delayMs: number): void {
    this.#stopSweep();
    this.#sweepAtMs = atMs;
    this.#sweep = this.settings.clock.setTimeout(this.#closeIdle, delayMs);
  }

  #stopSweep(): void {
    if (this.#sweep !== null) this.settings.clock.clearTimeout(this.#sweep);
    this.#sweep = null;
    this.#sweepAtMs = Infinity;
  }

  readonly #closeIdle = (): void => {
    this.#stopSweep();
    const nowMs = this.settings.clock.now();
    let nextMs = Infinity;
    for (const connection of [...this.#idle, ...this.#unsettled]) {
      const restMs = connection.idleSinceMs + connection.idleMs - nowMs;
      if (restMs <= 0) connection.close();
      else nextMs = Math.min(nextMs, restMs);
    }
    if (nextMs < Infinity) this.#sweepAt(nowMs + nextMs, nextMs);
  };
}
