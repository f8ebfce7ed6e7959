// HTTP/1.1 server on node:net (RFC 9110, RFC 9112). Requests of one connection are served one after another, each is answered
// exactly once, and head and body of a response leave in one write. What a thrown error costs is one connection.
//
// A client may close its side of the connection behind the request and still wait for the response (RFC 9112 §9.6): the FIN is
// the same as that of a client that has gone. The difference shows when something is sent: a client that has gone answers with a
// reset, and the write after that fails. So what changes nothing is sent: while no head has been sent, interim responses `100
// Continue`, which every HTTP/1.1 client must be able to read (RFC 9110 §15.2); in a chunked body, leading zeros of the size of the
// next chunk (RFC 9112 §7.1: `chunk-size = 1*HEXDIG`). In a body of known length there is nothing to send: behind a FIN the client
// counts as gone when no piece follows for five to ten seconds. In HTTP/1.0 a FIN means gone at once.

import { STATUS_CODES } from 'node:http';
import { type AddressInfo, createServer, type Server as NetServer, type Socket } from 'node:net';
import { systemEpochMs } from '../actor/index.ts';
import { HeadraceError } from '../errors.ts';
import { afterReads } from '../net/client.ts';
import { type Deadline, DeadlineQueue, type Expirable } from '../net/deadline.ts';
import { type RequestFailure, RequestParser } from '../net/http1-request-parser.ts';
import { IntrusiveSet } from '../net/intrusive-set.ts';
import { writeLatin1 } from '../net/latin1.ts';
import { SocketWriter } from '../net/socket-writer.ts';
import { type BatchedWriter, writeBatch } from '../net/write-batch.ts';
import { readInto, WriteProgress } from './accepted-socket.ts';
import { Body, type BodyCallback } from './body.ts';
import { type EndCause, Exchange, type RequestHead } from './exchange.ts';
import { HeadFields } from './head-fields.ts';
import { RequestTurns, type WaitingRequest } from './request-turns.ts';
import { respondError } from './respond.ts';
import { type ClientSocket, ServerSocket, type SocketConnection, type SocketListener } from './web-socket.ts';
import type { Address, ConnectionCounts, Server, ServerLimits, ServerOptions } from './server.ts';

/** Longest time from the first byte of a request to the end of its head, in milliseconds. */
const HEAD_MS = 30_000;

/**
 * Bounds of what is read and dropped of a client that still sends when its last response has left. Closing at once would reset
 * the connection, and the client would lose the response (RFC 9112 §9.6). Many clients read nothing before they have sent all.
 */
const LINGER_IDLE_MS = 5000;
const LINGER_MS = 30_000;
const LINGER_BYTES = 256 * 1024 * 1024;

/** Bytes of later requests that are kept while one is served; the socket is not read while there are more. */
const UNREAD_BYTES = 64 * 1024;

/** Up to so many of them are not counted: the connection itself takes more. A read may bring 256 KiB. */
const UNCOUNTED_BYTES = 4096;

/** Bytes of a body after which other connections have their turn: the kernel may have many megabytes of one. */
const BODY_BYTES_PER_TURN = 512 * 1024;

/** Bytes in the queue of a socket at which `write` asks to wait. */
const QUEUE_BYTES = 64 * 1024;

/** A shared body from this size is not copied; a smaller one leaves in one piece with its head. */
const SHARED_BYTES = 64 * 1024;

/** Times between the probes of a client that has closed its side, in milliseconds; the last one repeats. */
const PROBE_MS = [50, 200, 750, 5000];

/** A client that has closed its side gets a next piece of a body of known length in this time or counts as gone, in milliseconds. */
const SILENCE_MS = 5000;

/** Most leading zeros of one chunk size. Clients limit its digits, some to 16, and our chunks need six. */
const MAX_ZEROS = 4;

/** Connections that are looked at for one that is unused. */
const MOST_LOOKED_AT = 64;

/** Connections that may wait to be accepted at one listening socket: the default of node:net. */
const BACKLOG = 511;

/**
 * Listening sockets on the port, among which the kernel spreads connections. A turn of the event loop accepts one of each (libuv since 1.46): with
 * a single socket new clients wait for as many turns as there are of them, and turns in which large bodies are read are long.
 */
const LISTENERS = 16;

/** All sockets of a thread read into this buffer, one after the other. */
const READ_BUFFER: Buffer = Buffer.allocUnsafeSlow(256 * 1024);

/** Longest text that is written character by character. */
const SHORT_TEXT = 12;

/** Field lines of one request; clients send about 20. */
const MAX_FIELDS = 256;

const NO_BYTES: Buffer = Buffer.alloc(0);
const CONTINUE = Buffer.from('HTTP/1.1 100 Continue\r\n\r\n', 'latin1');
const ZERO = Buffer.from('0', 'latin1');

/** Status lines by status. */
const STATUS_LINES = new Map<number, string>();

/** How the end of a response body is known; `none`: it has no body. */
type Framing = 'none' | 'length' | 'chunked' | 'close';

/** What the deadline of a connection stands for. */
type Timing = 'none' | 'idle' | 'last read' | 'head' | 'body' | 'write' | 'probe' | 'silence' | 'linger';

type ConnectionEvent = 'drain' | 'end' | 'close' | 'expire' | 'read' | 'resume' | 'turn';

/** What came of a probe. `later`: the next chunk allows one again. `never`: nothing can be sent that changes nothing. */
type ProbeResult = 'sent' | 'later' | 'never';

class Http1Exchange extends Exchange {
  readonly #connection: Connection;
  #framing: Framing = 'none';
  /** Leading zeros that have been sent of the size of the next chunk. */
  #zeros = 0;
  /** Bytes that are missing of a body of declared length. */
  #left = 0;
  /** The connection is closed behind this response. */
  closes = false;

  constructor(connection: Connection, head: RequestHead, body: Body | null, nowMs: number) {
    super(head, nowMs);
    this.#connection = connection;
    this.requestBody = body;
  }

  get body(): Body | null {
    return this.requestBody;
  }

  protected override get sendsTrailers(): boolean {
    return this.#connection.minor > 0 && this.method !== 'HEAD';
  }

  override readBody(done: BodyCallback, maxBytes?: number): void {
    super.readBody(done, maxBytes);
    if (this.requestBody !== null) this.#connection.bodyWanted();
  }

  override write(chunk: Uint8Array): boolean {
    if (this.handedOver) return true;
    const length = chunk.byteLength;
    const prefix = this.committed ? '' : this.#head(-1);
    switch (this.#framing) {
      case 'none':
        return this.#connection.send(prefix, NO_BYTES, '');
      case 'length':
        if (length > this.#left) {
          this.#miscounted();
          return true;
        }
        this.#left -= length;
        return this.#connection.send(prefix, chunk, '');
      case 'chunked':
        // A chunk without data would end the body. A chunk is complete with its line break, which must not come later.
        if (length === 0) return this.#connection.send(prefix, chunk, '');
        this.#zeros = 0;
        return this.#connection.send(`${prefix}${length.toString(16)}\r\n`, chunk, '\r\n');
      case 'close':
        return this.#connection.send(prefix, chunk, '');
    }
  }

  override end(chunk: Uint8Array = NO_BYTES): void {
    if (this.handedOver) return;
    const length = chunk.byteLength;
    const prefix = this.committed ? '' : this.#head(length);
    if (this.#framing === 'length' && length !== this.#left) {
      this.#miscounted();
      return;
    }
    this.handedOver = true;
    if (this.#framing === 'none') this.#connection.send(prefix, NO_BYTES, '');
    else if (this.bodyIsShared && length >= SHARED_BYTES) this.#connection.sendShared(prefix, chunk);
    else if (this.#framing !== 'chunked') this.#connection.send(prefix, chunk, '');
    else {
      const trailers = this.trailerSource === null ? '' : withHeaders('', this.trailerSource.trailers());
      if (length === 0) this.#connection.send(prefix, NO_BYTES, `0\r\n${trailers}\r\n`);
      else this.#connection.send(`${prefix}${length.toString(16)}\r\n`, chunk, `\r\n0\r\n${trailers}\r\n`);
    }
    this.#connection.flush(this);
  }

  override destroy(): void {
    if (this.handedOver) return;
    this.handedOver = true;
    // A body that ends with the connection would look complete.
    this.#connection.break(this.#framing === 'close');
    this.over('broken');
  }

  override openSocket(listener: SocketListener, maxMessageBytes: number): ClientSocket | null {
    if (this.committed || this.handedOver) return null;
    return this.#connection.openSocket(this, listener, maxMessageBytes);
  }

  /** Sends what changes nothing, so that a client that has gone answers with a reset. To be called before the last byte. */
  probe(): ProbeResult {
    if (!this.committed) {
      this.#connection.send('', CONTINUE, '');
      return 'sent';
    }
    if (this.#framing !== 'chunked') return 'never';
    if (this.#zeros === MAX_ZEROS) return 'later';
    this.#zeros++;
    this.#connection.send('', ZERO, '');
    return 'sent';
  }

  /** The exchange is over. The first call counts. */
  over(cause: EndCause): void {
    if (this.endCause !== null) return;
    try {
      this.ended(cause);
    } catch (error) {
      this.#connection.server.report(error);
    }
    this.#connection.exchangeOver(this, cause);
  }

  /** The endpoint gave another number of bytes than it had declared: what was sent is not what was meant. */
  #miscounted(): void {
    this.#connection.server.report(new Error(`a response to ${this.method} ${this.path} has not its declared length`));
    this.destroy();
  }

  /** The head as text, one character per byte. `wholeBytes`: size of the whole body, -1 when it is not known. */
  #head(wholeBytes: number): string {
    const { contentLength, method, status } = this;
    const { server } = this.#connection;
    const length = contentLength >= 0 ? contentLength : wholeBytes;
    this.committed = true;
    let text = STATUS_LINES.get(status) ?? statusLine(status);
    text = withHeaders(withHeaders(text, this.commonHeaders), this.responseHeaders);
    if (status !== 204 && status !== 304) {
      if (length >= 0) {
        text += `content-length: ${length}\r\n`;
        this.#framing = method === 'HEAD' ? 'none' : 'length';
        this.#left = length;
      } else if (method !== 'HEAD') {
        if (this.#connection.minor === 0) {
          this.#framing = 'close';
          this.closes = true;
        } else {
          this.#framing = 'chunked';
          text += 'transfer-encoding: chunked\r\n';
        }
      }
    }
    if (this.closes || this.#connection.mustClose()) {
      this.closes = true;
      text += 'connection: close\r\n';
    } else if (this.#connection.minor === 0) {
      text += 'connection: keep-alive\r\n';
    }
    return text + server.dateLine();
  }
}

function statusLine(status: number): string {
  const line = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n`;
  STATUS_LINES.set(status, line);
  return line;
}

function withHeaders(text: string, headers: readonly string[]): string {
  let longer = text;
  for (let i = 0; i < headers.length; i += 2) longer += `${headers[i]}: ${headers[i + 1]}\r\n`;
  return longer;
}

/** One connection: its socket, its parser, and the exchange that is served. */
class Connection implements BatchedWriter, Expirable, SocketConnection, WaitingRequest {
  /** @internal Index in the set of connections. */
  slot = -1;
  readonly server: Http1Server;
  readonly #socket: Socket;
  readonly #writer: SocketWriter;
  readonly #parser: RequestParser;
  readonly #deadline: Deadline;
  readonly #remoteAddress: string;
  #exchange: Http1Exchange | null = null;
  /** Of the last request, while its head is kept. */
  #fields: HeadFields | null = null;
  /** The connection has become a WebSocket. */
  #webSocket: ServerSocket | null = null;
  #timing: Timing = 'none';
  /** Bytes behind the request that is served, or of one that waits for its turn. */
  #unread: Buffer | null = null;
  /** Bytes taken from the budget for it. They are kept of anybody: the part of the budget for requests without a key has to do. */
  #unreadTaken = 0;
  /** A request waits for its turn. */
  #waits = false;
  /** The next request does not wait for its turn. */
  #beginsNow = false;
  /** When the bytes came that are consumed. */
  #readMs = 0;
  /** The socket is not read. */
  #paused = false;
  /** Bytes of the body since other connections had their turn. */
  #turnBytes = 0;
  /** Requests are being taken from bytes. */
  #consuming = false;
  /** The client has closed its side. */
  #halfClosed = false;
  /** `100 Continue` has been sent to the present request. */
  #continued = false;
  /** The last response has left: what comes is dropped. */
  #lingering = false;
  #lingerEndMs = 0;
  #droppedBytes = 0;
  #probes = 0;
  /** Bytes that leave at the end of the turn. */
  #batched: Buffer | null = null;
  /** The exchange waits until the queue of the socket is empty. */
  #blocked = false;
  /** The client is to be probed when what waits for it has left. */
  #awaitsFlush = false;
  /** Bytes given to the socket when a silence began. */
  #bytesBefore = 0;
  /** Made when the client has to read for the first time. */
  #progress: WriteProgress | null = null;

  constructor(server: Http1Server, accepted: Socket) {
    this.server = server;
    this.#parser = new RequestParser({ headerBytes: server.options.limits.headerBytes, maxFields: MAX_FIELDS });
    this.#remoteAddress = accepted.remoteAddress ?? '';
    this.#deadline = server.deadlines.deadline(this);
    const socket = readInto(READ_BUFFER, accepted, (length, bytes) => this.read(length, bytes));
    this.#socket = socket;
    this.#writer = new SocketWriter(socket, () => this.on('drain'));
    socket.on('end', () => this.on('end'));
    socket.on('close', () => this.on('close'));
    // `close` follows.
    socket.on('error', ignore);
    this.#awaitRequest();
  }

  /** Takes what the socket has read. False: it is not to be read on. */
  read(length: number, bytes: Buffer): boolean {
    if (!this.#waits) this.#readMs = this.server.options.clock.now();
    try {
      if (this.#webSocket !== null) this.#paused = !this.#webSocket.received(bytes.subarray(0, length));
      else this.#take(bytes, length);
    } catch (error) {
      this.fail(error);
    }
    if (this.#webSocket !== null) return !this.#paused;
    this.#paused = this.#isFull() || this.#givesTurn();
    return !this.#paused;
  }

  /** Minor version of the request that is served. */
  get minor(): number {
    return this.#parser.minor;
  }

  /** Whether the connection has to be closed behind the response that begins now. */
  mustClose(): boolean {
    const { expectContinue, keepAlive, state } = this.#parser;
    if (!keepAlive || this.server.draining) return true;
    if (state === 'done') return false;
    const body = this.#exchange?.body;
    if (state !== 'body' || body === null || body === undefined) return true;
    // A client that still waits for leave to send may send its body or not (RFC 9110 §10.1.1).
    return body.abandoned || body.stalled || (expectContinue && !body.begun);
  }

  /** Sends text (one byte per character), bytes and text in one write. False when the client has to read first. */
  send(prefix: string, body: Uint8Array, suffix: string): boolean {
    const length = prefix.length + body.byteLength + suffix.length;
    if (length === 0) return true;
    if (this.#writer.queuedBytes > 0 || !writeBatch.hasRoom(length)) {
      this.#writeBatched();
      const bytes = Buffer.allocUnsafe(length);
      writeParts(bytes, 0, prefix, body, suffix);
      return this.#write(bytes);
    }
    const { memory, used } = writeBatch;
    const end = writeParts(memory, used, prefix, body, suffix);
    if (!writeBatch.collects()) return this.#write(memory.subarray(used, end));
    writeBatch.used = end;
    const before = this.#batched;
    if (before !== null && before.buffer === memory.buffer && before.byteOffset + before.byteLength === used) {
      this.#batched = memory.subarray(before.byteOffset, end);
    } else {
      this.#writeBatched();
      this.#batched = memory.subarray(used, end);
      writeBatch.add(this);
    }
    return true;
  }

  /** Sends text and bytes whose memory never changes. */
  sendShared(prefix: string, body: Uint8Array): void {
    this.#writeBatched();
    this.#write(Buffer.from(prefix, 'latin1'), body);
  }

  /** @internal */
  sendBatched(): void {
    try {
      this.#writeBatched();
      const exchange = this.#exchange;
      if (exchange?.handedOver === true) this.flush(exchange);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Writes what waits for the end of the turn. */
  #writeBatched(): void {
    const batched = this.#batched;
    if (batched === null) return;
    this.#batched = null;
    this.#write(batched);
    // Nobody was asked to wait.
    this.#blocked = false;
  }

  /** False when the client has to read first. */
  #write(bytes: Buffer, more: Uint8Array | null = null): boolean {
    const writer = this.#writer;
    const wasEmpty = writer.queuedBytes === 0;
    // A socket that is closed takes nothing.
    const queued = writer.write(bytes, more);
    if (queued === 0 || !writer.isOpen) return true;
    if (bytes.buffer === writeBatch.memory.buffer) writeBatch.giveAway();
    if (wasEmpty || this.#timing !== 'write') this.#watchProgress();
    this.#blocked = queued >= QUEUE_BYTES;
    return !this.#blocked;
  }

  /** Ends an exchange, whose last byte has been given to the socket, when the kernel has it. */
  flush(exchange: Http1Exchange): void {
    // A request behind it needs not wait.
    if (this.#unread !== null || this.#consuming) this.#writeBatched();
    // A write that failed at once: `close` follows and ends the exchange.
    if (!this.#writer.isOpen || this.#batched !== null) return;
    if (this.#writer.queuedBytes === 0) exchange.over('delivered');
  }

  /** Closes the connection at once. `resets`: so that the client sees that something is missing. */
  break(resets: boolean): void {
    this.#shut(resets ? 'resetAndDestroy' : 'destroy');
  }

  /** Closes the socket behind what was sent. */
  #shut(how: 'destroy' | 'end' | 'resetAndDestroy'): void {
    this.#writeBatched();
    this.#socket[how]();
  }

  /**
   * Answers a handshake; from now on all bytes are frames. Null for HTTP/1.0, for a client that sends no more, and where frames have been dropped
   * for want of memory.
   */
  openSocket(exchange: Http1Exchange, listener: SocketListener, maxMessageBytes: number): ClientSocket | null {
    if (this.minor === 0 || this.#parser.state !== 'done' || this.#halfClosed || exchange.closes) return null;
    const { deadlines, options } = this.server;
    exchange.listener = listener;
    exchange.status = 101;
    exchange.committed = true;
    exchange.closes = true;
    const { budget } = options;
    this.#webSocket = new ServerSocket(this, exchange, exchange.commonHeaders, listener, maxMessageBytes, {
      budget,
      deadlines,
    });
    // In a later turn: who opens it does not have it before.
    if (this.server.draining) setImmediate(closeIdle, this);
    return this.#webSocket;
  }

  /** @internal */
  sendBytes(bytes: Uint8Array): boolean {
    if (!this.#writer.isOpen) return true;
    return this.send('', bytes, '');
  }

  /** @internal */
  readOn(): void {
    if (!this.#paused || this.#socket.destroyed) return;
    this.#paused = false;
    this.#socket.resume();
  }

  /** @internal */
  endSide(): void {
    this.#shut('end');
  }

  /** @internal */
  cut(): void {
    this.#shut('destroy');
  }

  /** @internal */
  socketOver(cause: EndCause): void {
    const exchange = this.#exchange;
    if (exchange === null) return;
    exchange.handedOver = true;
    exchange.over(cause);
  }

  /** @internal */
  report(error: unknown): void {
    this.server.report(error);
  }

  /** For the exchange: somebody waits for its body. */
  bodyWanted(): void {
    if (this.#consuming || this.#parser.state !== 'body') return;
    if (this.#unread === null) this.#awaitBody();
    else this.#resume();
  }

  /** For the exchange: it is over. */
  exchangeOver(exchange: Http1Exchange, cause: EndCause): void {
    if (this.#exchange !== exchange) return;
    this.#exchange = null;
    if (this.#webSocket !== null) return;
    if (cause !== 'delivered' || !this.#writer.isOpen) return;
    const { state } = this.#parser;
    const idle = state === 'done' && this.#unread === null;
    if (exchange.closes || state === 'failed' || (idle && this.server.draining)) {
      this.#linger();
    } else {
      if (state === 'body') this.#time('body', this.server.options.limits.bodyIdleMs);
      else this.#awaitRequest();
      if (!this.#consuming) this.#resume();
    }
  }

  /** @internal */
  expire(): void {
    this.on('expire');
  }

  /** @internal */
  beginRequest(): void {
    this.#waits = false;
    if (!this.#socket.destroyed) this.on('turn');
  }

  /** Everything that happens to a connection but a read. */
  on(event: ConnectionEvent): void {
    try {
      if (event === 'drain') this.#drained();
      else if (event === 'end') this.#clientEnded();
      else if (event === 'close') this.#closed();
      else if (event === 'expire') this.#expired();
      else if (event === 'read') this.#endIdle();
      else if (event === 'turn') this.#resume(false);
      else if (!this.#waits) this.#resume();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Closes the connection if it has served a request and no other has begun. A WebSocket closes when nothing runs on it. */
  closeIdle(): void {
    this.#webSocket?.drain();
    const idle = this.#exchange === null && this.#unread === null && this.#parser.state === 'done';
    if (idle && !this.#lingering) this.#linger();
  }

  /** Closes the connection for another one, at once, unless a request has begun. */
  giveWay(): boolean {
    if (this.#timing !== 'idle' || this.#exchange !== null || this.#waits) return false;
    this.server.forget(this);
    this.#shut('destroy');
    return true;
  }

  /** Ends the connection and its exchange at once. */
  abort(): void {
    this.#shut('destroy');
    this.#exchange?.over('broken');
  }

  /** Ends the connection for an error that should not have been thrown. */
  fail(error: unknown): void {
    this.server.report(error);
    this.abort();
  }

  #take(bytes: Buffer, length: number): void {
    if (this.#lingering) {
      this.#drop(length);
    } else if (this.#closesBehind) {
      this.#droppedBytes += length;
      if (this.#droppedBytes > LINGER_BYTES) this.#shut('destroy');
    } else if (this.#unread !== null) {
      this.#keep(Buffer.concat([this.#unread, bytes.subarray(0, length)]));
    } else {
      const at = this.#consume(bytes, length);
      if (at === length || this.#lingering) return;
      if (this.#webSocket === null) this.#keep(Buffer.from(bytes.subarray(at, length)));
      else this.#webSocket.received(bytes.subarray(at, length));
    }
  }

  /** Keeps bytes behind the request that is served, or of one that waits for its turn. `begins`: without memory that one begins at once. */
  #keep(bytes: Buffer, begins = true): void {
    this.#forgetUnread();
    const counted = bytes.byteLength > UNCOUNTED_BYTES ? bytes.byteLength : 0;
    if (counted === 0 || this.server.options.budget.take(counted, true)) {
      this.#unread = bytes;
      this.#unreadTaken = counted;
    } else if (this.#parser.state === 'done' && this.#exchange !== null) {
      this.#exchange.closes = true;
    } else if (this.#waits && !begins) {
      this.#linger();
    } else {
      // In memory that is counted for its own body.
      this.#beginsNow = this.#waits;
      this.#waits = false;
      this.#exchange?.body?.fail(new HeadraceError('HR_OVERLOADED', { subject: 'memory for request bodies' }));
      const at = this.#consume(bytes, bytes.byteLength);
      if (at === bytes.byteLength || this.#lingering) return;
      if (this.#webSocket === null) this.#keep(Buffer.from(bytes.subarray(at)), false);
      else this.#webSocket.received(bytes.subarray(at));
    }
  }

  #forgetUnread(): void {
    this.#unread = null;
    if (this.#unreadTaken > 0) this.server.options.budget.give(this.#unreadTaken, true);
    this.#unreadTaken = 0;
  }

  /** Goes on with the bytes that were kept, and reads again. `later`: they waited for the end of another request, and count from now. */
  #resume(later = true): void {
    const unread = this.#unread;
    if (unread !== null) {
      this.#unread = null;
      if (later) this.#readMs = this.server.options.clock.now();
      const at = this.#consume(unread, unread.byteLength);
      if (at < unread.byteLength && !this.#lingering) {
        if (this.#webSocket === null) this.#unread = unread.subarray(at);
        else this.#webSocket.received(unread.subarray(at));
      }
      if (this.#unread === null) this.#forgetUnread();
    }
    if (this.#paused && !this.#isFull()) {
      this.#paused = false;
      this.#socket.resume();
    }
    if (this.#halfClosed && !this.#lingering) this.#goOnAlone();
  }

  /** Whether no further request of this connection is served, so that what follows the present one need not be kept. */
  get #closesBehind(): boolean {
    const { keepAlive, state } = this.#parser;
    // A head that took too long is not complete, and is not read on.
    return this.#exchange !== null && state !== 'body' && (this.#exchange.closes || !keepAlive);
  }

  /** Whether the socket may not be read now, because too much is waiting for the end of the present exchange. */
  #isFull(): boolean {
    if (!this.#unreadIsFull) return false;
    // HTTP/1.0 has neither pipelining nor probes: the connection is read on, so that its end is seen.
    if (this.minor === 0 && this.#exchange !== null && this.#parser.state === 'done') this.#exchange.closes = true;
    if (this.#closesBehind) {
      this.#forgetUnread();
      return false;
    }
    if (this.#timing === 'none' || this.#timing === 'write') this.#probeWhenFlushed();
    return true;
  }

  /** Whether the connection is not read until others have been. */
  #givesTurn(): boolean {
    if (this.#turnBytes < BODY_BYTES_PER_TURN) return false;
    this.#turnBytes = 0;
    setImmediate(resume, this);
    return true;
  }

  /** Takes requests and parts of bodies from bytes; returns how many bytes it took. */
  #consume(bytes: Buffer, length: number): number {
    const parser = this.#parser;
    let at = 0;
    this.#consuming = true;
    try {
      while (at < length && !this.#lingering) {
        if (this.#isBetween) {
          if (this.#exchange !== null) return at;
          if (!this.#beginsNow && !this.server.turns.mayBegin(this, length - at)) {
            this.#waits = true;
            // Behind another request it counts from the end of that one.
            if (at > 0) this.#readMs = this.server.options.clock.now();
            return at;
          }
          this.#beginsNow = false;
          if (parser.state === 'done') parser.begin();
        }
        if (parser.state === 'head') {
          at = parser.parse(bytes, at, length);
          if ((parser.state as string) !== 'head') {
            this.#begin();
          } else if (parser.started && this.#timing !== 'head') {
            this.#time('head', HEAD_MS);
          }
        } else if (parser.state === 'body') {
          const body = this.#exchange?.body ?? null;
          // Nothing is kept of a body that nobody has asked for.
          if (body !== null && !body.wanted && !body.settled) return at;
          at = parser.parse(bytes, at, length);
          this.#bodyPiece(bytes, body);
        } else {
          return length;
        }
      }
      if (parser.state === 'body') this.#awaitBody();
      return at;
    } finally {
      this.#consuming = false;
    }
  }

  /** The head is complete, or refused. */
  #begin(): void {
    const { handler, limits, budget } = this.server.options;
    const { declaredBytes, failure, headers, keepsHead, method, path, query, repeats, state } = this.#parser;
    if (failure !== null) {
      this.#refuse(failureError(failure, limits));
      return;
    }
    this.#timing = 'none';
    this.#continued = false;
    const nowMs = this.#readMs;
    const body = state === 'body' ? new Body(budget, limits, declaredBytes, nowMs) : null;
    const fields = repeats && this.#fields !== null ? this.#fields : new HeadFields(headers);
    this.#fields = keepsHead ? fields : null;
    const head = { method, path, query, headers, remoteAddress: this.#remoteAddress, fields, declaredBytes };
    this.#parser.releaseHead();
    const exchange = new Http1Exchange(this, head, body, nowMs);
    this.#exchange = exchange;
    try {
      handler(exchange);
    } catch (error) {
      this.server.report(error);
      respondError(exchange, error, this.server.options.decorate);
    }
  }

  /** Answers a request that was refused before its head was read. */
  #refuse(error: HeadraceError): void {
    this.#timing = 'none';
    const { clock, onRefused } = this.server.options;
    const head = { method: '', path: '', query: '', headers: [], remoteAddress: this.#remoteAddress };
    const exchange = new Http1Exchange(this, head, null, clock.now());
    exchange.framingError = error;
    exchange.closes = true;
    this.#exchange = exchange;
    onRefused?.(exchange);
    respondError(exchange, error);
  }

  #bodyPiece(bytes: Buffer, body: Body | null): void {
    const { bodyStart, bodyEnd, failure, state } = this.#parser;
    const { limits } = this.server.options;
    if (failure !== null) {
      if (body !== null) body.fail(failureError(failure, limits));
      // A response that has left without `Connection: close` was complete all the same.
      else this.#linger();
      return;
    }
    if (state === 'done' && this.#timing === 'body') this.#timing = 'none';
    this.#turnBytes += bodyEnd - bodyStart;
    body?.append(bytes.subarray(bodyStart, bodyEnd), state === 'done', this.#readMs);
    if (body === null && state === 'done') this.#awaitRequest();
  }

  /** More of the body has to come. */
  #awaitBody(): void {
    const exchange = this.#exchange;
    if (exchange !== null) {
      const { body } = exchange;
      if (body === null || !body.wanted || body.settled) return;
      if (this.#parser.expectContinue && !this.#continued && !body.begun) {
        this.#continued = true;
        this.send('', CONTINUE, '');
      }
    }
    this.#time('body', this.server.options.limits.bodyIdleMs);
  }

  /** The client has closed its side. */
  #clientEnded(): void {
    this.#halfClosed = true;
    if (this.#webSocket !== null) this.#webSocket.ended();
    else if (this.#lingering) this.#finish();
    else this.#goOnAlone();
  }

  /** Goes on behind the last byte of a client, all or some of which may be kept still. */
  #goOnAlone(): void {
    const exchange = this.#exchange;
    if (exchange === null) {
      if (this.#unread === null) this.#finish();
    } else if ((this.#parser.state === 'body' && this.#unread === null) || this.#parser.minor === 0) {
      this.#shut('destroy');
      exchange.over('gone');
    } else {
      this.#probeWhenFlushed();
    }
  }

  /** Closes a connection on which nothing is served and whose client sends no more. */
  #finish(): void {
    this.#shut(this.#isBetween || this.#lingering ? 'end' : 'destroy');
  }

  /** Whether nothing of a further request has been parsed. */
  get #isBetween(): boolean {
    const { started, state } = this.#parser;
    return state === 'done' || (state === 'head' && !started);
  }

  /** Whether only a write can show that the client has gone: it has closed its side, or is not read. */
  get #isBlind(): boolean {
    const { state } = this.#parser;
    const serves = this.#exchange?.handedOver === false && !this.#lingering && this.#webSocket === null;
    return serves && this.minor > 0 && ((this.#halfClosed && state === 'done') || this.#unreadIsFull);
  }

  get #unreadIsFull(): boolean {
    return this.#unread !== null && this.#unread.byteLength > UNREAD_BYTES;
  }

  /** Probes the client from now on, or as soon as it has taken what waits for it. */
  #probeWhenFlushed(): void {
    if (!this.#isBlind || this.#socket.destroyed) return;
    if (this.#writer.queuedBytes > 0) {
      this.#awaitsFlush = true;
    } else if (this.#halfClosed) {
      this.#probes = 0;
      this.#probe();
    } else {
      this.#probes = PROBE_MS.length - 1;
      this.#time('probe', PROBE_MS[this.#probes] as number);
    }
  }

  #probe(): void {
    this.#timing = 'none';
    if (!this.#isBlind) return;
    const result = (this.#exchange as Http1Exchange).probe();
    if (this.#writer.queuedBytes > 0) return;
    if (result !== 'never') {
      this.#time('probe', PROBE_MS[Math.min(this.#probes++, PROBE_MS.length - 1)] as number);
    } else if (this.#halfClosed) {
      this.#bytesBefore = this.#socket.bytesWritten;
      this.#time('silence', SILENCE_MS);
    }
  }

  /** Nothing shows whether a client that has closed its side is there: without a further piece for it, it counts as gone. */
  #checkSilence(): void {
    this.#timing = 'none';
    if (!this.#isBlind) return;
    if (this.#socket.bytesWritten > this.#bytesBefore) {
      this.#probe();
    } else {
      this.#shut('destroy');
      this.#exchange?.over('gone');
    }
  }

  /** The queue of the socket is empty. */
  #drained(): void {
    if (this.#timing === 'write') this.#timing = 'none';
    const exchange = this.#exchange;
    const blocked = this.#blocked;
    this.#blocked = false;
    if (this.#webSocket !== null) this.#webSocket.drained();
    else if (exchange?.handedOver === true) exchange.over('delivered');
    else if (blocked) exchange?.listener?.onWritable();
    if (!this.#awaitsFlush || this.#writer.queuedBytes > 0) return;
    this.#awaitsFlush = false;
    this.#probeWhenFlushed();
  }

  #closed(): void {
    this.#deadline.clear();
    this.#timing = 'none';
    this.#forgetUnread();
    this.#batched = null;
    this.server.forget(this);
    this.#webSocket?.closed();
    this.#exchange?.over('gone');
  }

  /** Closes the connection behind its last response, and reads what the client still sends. */
  #linger(): void {
    const { clock } = this.server.options;
    this.#lingering = true;
    this.#forgetUnread();
    this.#lingerEndMs = clock.now() + LINGER_MS;
    this.#time('linger', LINGER_IDLE_MS);
    this.#shut('end');
    if (!this.#paused) return;
    this.#paused = false;
    this.#socket.resume();
  }

  #drop(length: number): void {
    this.#droppedBytes += length;
    if (this.#droppedBytes > LINGER_BYTES || this.server.options.clock.now() > this.#lingerEndMs) this.#shut('destroy');
    else this.#time('linger', LINGER_IDLE_MS);
  }

  #awaitRequest(): void {
    this.#time('idle', this.server.options.limits.keepAliveMs);
  }

  #time(timing: Timing, durationMs: number): void {
    this.#timing = timing;
    this.#deadline.set(durationMs);
  }

  #expired(): void {
    const exchange = this.#exchange;
    switch (this.#timing) {
      case 'none':
        break;
      case 'idle':
        // Timers come before sockets in a turn of the event loop: after a pause of the process a request may wait to be read.
        this.#timing = 'last read';
        setImmediate(endIdle, this);
        break;
      case 'last read':
        break;
      case 'head':
        this.#refuse(new HeadraceError('HR_REQUEST_TIMEOUT'));
        break;
      case 'body':
        if (exchange?.body == null) this.#linger();
        else exchange.body.stall();
        break;
      case 'write':
        this.#checkProgress();
        break;
      case 'probe':
        this.#probe();
        break;
      case 'silence':
        this.#checkSilence();
        break;
      case 'linger':
        this.#shut('destroy');
    }
  }

  /** The socket has been read once more after it was idle for too long. */
  #endIdle(): void {
    if (this.#timing !== 'last read') return;
    if (this.#waits) this.#awaitRequest();
    else this.#linger();
  }

  /** Bytes wait for the client from now on. */
  #watchProgress(): void {
    const { clock, limits } = this.server.options;
    this.#progress ??= new WriteProgress(this.#socket);
    this.#progress.begin(clock.now());
    this.#time('write', this.#progress.intervalMs(limits.clientIdleMs));
    this.#probeWhenFlushed();
  }

  /** Gives up a client that takes nothing for too long. */
  #checkProgress(): void {
    const { clock, limits } = this.server.options;
    const progress = this.#progress as WriteProgress;
    if (this.#writer.queuedBytes === 0) {
      this.#timing = 'none';
    } else if (progress.idleMs(clock.now()) < limits.clientIdleMs) {
      this.#deadline.set(progress.intervalMs(limits.clientIdleMs));
    } else {
      // A reset frees what the kernel holds for the client.
      this.#shut('resetAndDestroy');
      this.#exchange?.over('gone');
    }
  }
}

/** Writes text, bytes and text; returns the offset behind them. */
function writeParts(bytes: Buffer, start: number, prefix: string, body: Uint8Array, suffix: string): number {
  const bodyAt = prefix === '' ? start : writeText(bytes, prefix, start);
  bytes.set(body, bodyAt);
  const bodyEnd = bodyAt + body.byteLength;
  return suffix === '' ? bodyEnd : writeText(bytes, suffix, bodyEnd);
}

/** Writes one byte per character; returns the offset behind them. The frame of a chunk costs less in a loop than as a native call. */
function writeText(bytes: Buffer, text: string, start: number): number {
  const { length } = text;
  if (length > SHORT_TEXT) return writeLatin1(bytes, text, start);
  for (let i = 0; i < length; i++) bytes[start + i] = text.charCodeAt(i);
  return start + length;
}

function endIdle(connection: Connection): void {
  connection.on('read');
}

function resume(connection: Connection): void {
  connection.on('resume');
}

function closeIdle(connection: Connection): void {
  connection.closeIdle();
}

function ignore(): void {
  // Nothing to do.
}

function failureError({ reason, status }: RequestFailure, { headerBytes, maxBodyBytes }: ServerLimits): HeadraceError {
  switch (status) {
    case 400:
      return new HeadraceError('HR_REQUEST_MALFORMED', { subject: reason });
    case 413:
      return new HeadraceError('HR_REQUEST_TOO_LARGE', { subject: String(maxBodyBytes) });
    case 414:
      return new HeadraceError('HR_REQUEST_LINE_TOO_LONG');
    case 431:
      return new HeadraceError('HR_REQUEST_HEAD_TOO_LARGE', { subject: `${reason}, ${headerBytes} bytes are allowed` });
    case 505:
      return new HeadraceError('HR_REQUEST_VERSION');
  }
}

class Http1Server implements Server {
  readonly name = 'node';
  readonly options: ServerOptions;
  readonly deadlines: DeadlineQueue;
  readonly turns = new RequestTurns();
  draining = false;
  readonly #listeners: readonly NetServer[];
  readonly #connections = new IntrusiveSet<'slot', Connection>('slot');
  readonly #counts: ConnectionCounts;
  #accepted = 0;
  #lookedAt = 0;
  #dateLine = '';
  #dateS = -1;

  constructor(options: ServerOptions) {
    this.options = options;
    this.deadlines = new DeadlineQueue(options.clock);
    this.#counts = options.counts ?? { open: 0, refused: 0 };
    const listener = (): NetServer =>
      createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true }, (socket) => this.#accept(socket));
    this.#listeners = Array.from({ length: LISTENERS }, listener);
  }

  async listen({ host, port }: Address): Promise<Address> {
    const [first, ...others] = this.#listeners;
    try {
      const bound = await this.#bind(first as NetServer, { host, port });
      await Promise.all(others.map((listener) => this.#bind(listener, { host, port: bound })));
      return { host, port: bound };
    } catch (error) {
      this.#closePort();
      throw error;
    }
  }

  /** Resolves with the port. */
  #bind(listener: NetServer, address: Address): Promise<number> {
    return new Promise((resolve, reject) => {
      listener.once('error', reject);
      listener.listen({ ...address, reusePort: true }, () => {
        listener.off('error', reject);
        listener.on('error', (error) => this.report(error));
        resolve((listener.address() as AddressInfo).port);
      });
    });
  }

  #closePort(): void {
    for (const listener of this.#listeners) listener.close();
  }

  drain(): Promise<void> {
    this.draining = true;
    // Requests that have arrived are read first.
    setImmediate(() => {
      for (const connection of this.#connections.list()) connection.closeIdle();
    });
    return new Promise((resolve) => this.#acceptRest(BACKLOG, resolve));
  }

  close(): void {
    this.draining = true;
    this.#closePort();
    for (const connection of this.#connections.list()) connection.abort();
    this.deadlines.close();
  }

  forget(connection: Connection): void {
    if (connection.slot < 0) return;
    this.#connections.delete(connection);
    this.#counts.open--;
  }

  report(error: unknown): void {
    this.options.onError?.(error);
  }

  /** The last lines of every head: the date, made once a second, and the blank line. */
  dateLine(): string {
    const epochS = Math.floor(systemEpochMs() / 1000);
    if (epochS !== this.#dateS) {
      this.#dateS = epochS;
      this.#dateLine = `date: ${new Date(epochS * 1000).toUTCString()}\r\n\r\n`;
    }
    return this.#dateLine;
  }

  /** Closes the port once nobody waits there, who would be reset by it. */
  #acceptRest(most: number, done: () => void): void {
    const accepted = this.#accepted;
    afterReads(() => {
      if (this.#accepted > accepted && most > 0) {
        this.#acceptRest(most - 1, done);
        return;
      }
      this.#closePort();
      done();
    });
  }

  /** Closes an unused connection. Looks at some, by turns, so that it takes no time where all are in use. */
  #makeRoom(): boolean {
    for (let looked = 0; looked < MOST_LOOKED_AT; looked++) {
      this.#lookedAt = (this.#lookedAt + 1) % Math.max(this.#connections.size, 1);
      if (this.#connections.at(this.#lookedAt)?.giveWay() === true) return true;
    }
    return false;
  }

  #accept(socket: Socket): void {
    this.#accepted++;
    if (this.#connections.size >= this.options.limits.connections && !this.#makeRoom()) {
      this.#counts.refused++;
      socket.destroy();
      return;
    }
    try {
      this.#connections.add(new Connection(this, socket));
      this.#counts.open++;
    } catch (error) {
      this.report(error);
      socket.destroy();
    }
  }
}

/** Creates the gateway's own server. */
export function createHttp1Server(options: ServerOptions): Server {
  return new Http1Server(options);
}
