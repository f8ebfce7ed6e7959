// WebSockets of clients (RFC 6455). The package `ws` reads and writes the frames; it runs over any duplex stream, here over a connection
// of the gateway's own server. A client that answers no ping is given up; what it sends of a message counts as memory of request bodies.

import type { IncomingMessage } from 'node:http';
import { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Deadline, DeadlineQueue, Expirable } from '../net/deadline.ts';
import { headersByName } from '../net/flat-headers.ts';
import { listed } from '../net/http1-fields.ts';
import type { BodyBudget } from './body.ts';
import type { EndCause, ExchangeListener, RequestHead } from './exchange.ts';

/** Hears what happens to a WebSocket. Its end is that of the exchange that it began with. */
export interface SocketListener extends ExchangeListener {
  /** A whole message has come. Its memory is the listener's. */
  onMessage(message: Buffer, isText: boolean): void;
  /** The gateway shuts down: the socket is to be closed as soon as nothing runs on it. */
  onDrain(): void;
}

/** A WebSocket as an endpoint uses it. */
export interface ClientSocket {
  /** Sends a text message, whose memory must not change any more. False asks to wait for the listener's `onWritable`. */
  send(message: Uint8Array): boolean;
  /** Begins the closing handshake (RFC 6455 §7). `reason`: at most 123 bytes. */
  close(code: number, reason: string): void;
}

/** What a WebSocket needs of the connection that it runs over. */
export interface SocketConnection {
  /** Sends bytes, whose memory may be used again. False asks to wait for `drained` of the stream. */
  sendBytes(bytes: Uint8Array): boolean;
  /** Reads on after `received` has returned false. */
  readOn(): void;
  /** Closes the gateway's side behind what was sent. */
  endSide(): void;
  /** Closes both sides at once. */
  cut(): void;
  /** The WebSocket is over. */
  socketOver(cause: EndCause): void;
  /** An error was thrown that should not have been. */
  report(error: unknown): void;
}

/** Time without any byte of the client after which it is asked for one, and after which it counts as gone, in milliseconds. */
const PING_MS = 30_000;

/** Time in which a client on whose socket nothing runs answers that it is closed for a shutdown, or counts as gone, in milliseconds. */
const CLOSE_MS = 5000;

/** Most memory that what a client has sent of a message may take without being counted as that of request bodies. */
const FREE_BYTES = 16 * 1024;

/** What a piece of a message takes in memory beside its bytes (measured): a client may send each byte by itself. */
const PIECE_BYTES = 128;

/**
 * Bytes that wait for a client beyond which it is not read: a client may send messages that are refused, and never read the answers.
 */
const MOST_UNSENT_BYTES = 1024 * 1024;

/** Bytes of a control frame of a client beside its payload (RFC 6455 §5.2): head and mask. */
const CONTROL_BYTES = 6;

const KEY = /^[A-Za-z\d+/]{22}==$/;

/** RFC 9110 §5.6.2. */
const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/;

/** What is wrong with a handshake (RFC 6455 §4.2.1); null when nothing is. `version`: another version is asked for. */
export function handshakeFault({ headers, method }: RequestHead): 'none' | 'version' | 'malformed' | null {
  const {
    connection = '',
    upgrade = '',
    'sec-websocket-key': key = '',
    'sec-websocket-protocol': protocols,
    'sec-websocket-version': version,
  } = headersByName(headers);
  if (method !== 'GET' || !listed(upgrade.toLowerCase()).includes('websocket')) return 'none';
  const isWhole = upgrade.toLowerCase() === 'websocket' && listed(connection.toLowerCase()).includes('upgrade');
  if (!isWhole || !KEY.test(key)) return 'malformed';
  if (protocols !== undefined && !areDistinctTokens(listed(protocols))) return 'malformed';
  return version === '13' ? null : 'version';
}

function areDistinctTokens(entries: readonly string[]): boolean {
  return new Set(entries).size === entries.length && entries.every((entry) => TOKEN.test(entry));
}

/** The bytes of a connection, as a stream. */
class ConnectionStream extends Duplex {
  readonly #connection: SocketConnection;
  #blocked: (() => void) | null = null;
  /** The client is read on when it has taken what waits for it. */
  #isHeld = false;

  constructor(connection: SocketConnection) {
    super({ allowHalfOpen: true });
    this.#connection = connection;
  }

  override _read(): void {
    if (!this.#holds()) this.#connection.readOn();
  }

  /** Takes bytes of the client. False: it is not to be read on. */
  received(bytes: Buffer): boolean {
    const isFree = this.push(bytes);
    return !this.#holds() && isFree;
  }

  #holds(): boolean {
    this.#isHeld = this.writableLength > MOST_UNSENT_BYTES;
    return this.#isHeld;
  }

  override _write(chunk: Uint8Array, _encoding: string, done: () => void): void {
    if (this.#connection.sendBytes(chunk)) done();
    else this.#blocked = done;
  }

  override _writev(chunks: { chunk: Buffer }[], done: () => void): void {
    this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), '', done);
  }

  override _final(done: () => void): void {
    this.#connection.endSide();
    done();
  }

  override _destroy(_error: Error | null, done: (error: Error | null) => void): void {
    this.#connection.cut();
    done(null);
  }

  /** The client has taken what waited for it. */
  drained(): void {
    const done = this.#blocked;
    this.#blocked = null;
    done?.();
    if (this.#isHeld && !this.#holds()) this.#connection.readOn();
  }
}

/** A connection that has become a WebSocket. */
export class ServerSocket implements ClientSocket, Expirable {
  readonly #stream: ConnectionStream;
  readonly #connection: SocketConnection;
  readonly #listener: SocketListener;
  readonly #budget: BodyBudget;
  readonly #deadline: Deadline;
  #socket: WebSocket | null = null;
  /** Bytes and pieces since the last whole message, and the memory that was taken of the budget for them. */
  #pendingBytes = 0;
  #pieces = 0;
  #reservedBytes = 0;
  /** The client has sent something since the last ping. */
  #heard = true;
  /** A piece of a message was dropped: nothing behind it is read. */
  #lacksMemory = false;
  #over = false;

  /**
   * Answers the handshake. The head must be without fault.
   * @param headers of the answer, beside those of the protocol; a flat list
   */
  constructor(
    connection: SocketConnection,
    { headers: fields, method, path }: RequestHead,
    headers: readonly string[],
    listener: SocketListener,
    maxMessageBytes: number,
    { budget, deadlines }: { readonly budget: BodyBudget; readonly deadlines: DeadlineQueue },
  ) {
    this.#connection = connection;
    this.#listener = listener;
    this.#budget = budget;
    this.#deadline = deadlines.deadline(this);
    this.#stream = new ConnectionStream(connection);
    const server = new WebSocketServer({
      ...{ noServer: true, clientTracking: false, perMessageDeflate: false, maxPayload: maxMessageBytes },
    });
    server.on('headers', (lines) => {
      for (let i = 0; i < headers.length; i += 2) lines.push(`${headers[i]}: ${headers[i + 1]}`);
    });
    const request = { method, url: path, headers: headersByName(fields) } as unknown as IncomingMessage;
    server.handleUpgrade(request, this.#stream, Buffer.alloc(0), (socket) => this.#begin(socket));
    this.#deadline.set(PING_MS);
  }

  send(message: Uint8Array): boolean {
    this.#socket?.send(message, { binary: false });
    return !this.#stream.writableNeedDrain;
  }

  close(code: number, reason: string): void {
    this.#socket?.close(code, reason);
  }

  /** Takes bytes that the client has sent; they are copied. False: it is not to be read on. */
  received(bytes: Uint8Array): boolean {
    let isFree = true;
    // Piece by piece: what follows the end of a message is counted behind it.
    for (let at = 0; at < bytes.byteLength; at += FREE_BYTES) isFree = this.#piece(bytes.subarray(at, at + FREE_BYTES));
    return isFree;
  }

  #piece(bytes: Uint8Array): boolean {
    if (this.#over || this.#lacksMemory) return true;
    this.#heard = true;
    this.#pendingBytes += bytes.byteLength;
    const heldBytes = this.#pendingBytes + ++this.#pieces * PIECE_BYTES;
    if (heldBytes > FREE_BYTES && heldBytes > this.#reservedBytes && !this.#reserve(heldBytes)) {
      // Later bytes would be read as the beginning of a frame.
      this.#lacksMemory = true;
      this.close(1013, 'no memory left for messages');
      return true;
    }
    return this.#stream.received(Buffer.from(bytes));
  }

  /** The client has closed its side. */
  ended(): void {
    this.#stream.push(null);
  }

  /** The client has taken what waited for it. */
  drained(): void {
    this.#stream.drained();
  }

  /** The gateway shuts down. */
  drain(): void {
    this.#run(() => this.#listener.onDrain());
    const socket = this.#socket;
    if (socket === null || socket.readyState !== socket.CLOSING || this.#stream.writableLength > 0) return;
    this.#heard = false;
    this.#deadline.set(CLOSE_MS);
  }

  /** The connection is closed. */
  closed(): void {
    this.#stream.destroy();
    this.#finish('gone');
  }

  /** @internal The client has been silent, or is to be asked whether it is there. */
  expire(): void {
    if (!this.#heard) {
      this.#socket?.terminate();
      return;
    }
    this.#heard = false;
    this.#socket?.ping();
    this.#deadline.set(PING_MS);
  }

  /** @internal */
  onDefect(cause: unknown): void {
    this.#connection.report(cause);
    this.#socket?.terminate();
  }

  #begin(socket: WebSocket): void {
    this.#socket = socket;
    socket.on('message', (message, isBinary) => {
      this.#free(this.#stream.readableLength);
      this.#run(() => this.#listener.onMessage(message as Buffer, !isBinary));
    });
    const onControl = (payload: Buffer): void => this.#control(payload.byteLength);
    socket.on('ping', onControl);
    socket.on('pong', onControl);
    // `close` follows, with the code of the error.
    socket.on('error', ignore);
    socket.on('close', (code) => this.#finish(code === 1006 ? 'gone' : 'delivered'));
    this.#stream.on('drain', () => {
      if (!this.#over) this.#run(() => this.#listener.onWritable());
    });
  }

  /** What is thrown costs this socket, and nothing else. */
  #run(step: () => void): void {
    try {
      step();
    } catch (error) {
      this.onDefect(error);
    }
  }

  #reserve(leastBytes: number): boolean {
    const bytes = Math.max(2 * this.#reservedBytes, leastBytes);
    if (!this.#budget.take(bytes, false)) return false;
    if (this.#reservedBytes > 0) this.#budget.give(this.#reservedBytes, false);
    this.#reservedBytes = bytes;
    return true;
  }

  /** A control frame is read, and no part of a message. */
  #control(payloadBytes: number): void {
    this.#pendingBytes -= CONTROL_BYTES + payloadBytes;
    if (this.#pendingBytes <= 0) this.#free();
  }

  /** `pendingBytes`: those that follow already. */
  #free(pendingBytes = 0): void {
    this.#pendingBytes = pendingBytes;
    this.#pieces = 0;
    if (pendingBytes > FREE_BYTES || this.#reservedBytes === 0) return;
    this.#budget.give(this.#reservedBytes, false);
    this.#reservedBytes = 0;
  }

  #finish(cause: EndCause): void {
    if (this.#over) return;
    this.#over = true;
    this.#deadline.clear();
    this.#free();
    this.#connection.socketOver(cause);
  }
}

function ignore(): void {
  // Nothing to do.
}
