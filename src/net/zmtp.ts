// ZeroMQ over TCP: ZMTP 3.0 (RFC 23) with the NULL mechanism, for the socket types that KV events need. Subscriptions are messages, as
// 3.0 has them; peers with 3.1 (RFC 37) fall back to that. Everything a peer sends is bounded: a peer that breaks the protocol or
// a bound is disconnected with an error.

import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

export type SocketType = 'DEALER' | 'PUB' | 'ROUTER' | 'SUB';

/** What one connection reports. After `onClosed`, nothing. */
export interface ZmtpHandlers {
  /** The handshake is complete. */
  readonly onReady: () => void;
  /** A whole message. A subscription of a SUB socket is one frame: 1 or 0, and the topic. */
  readonly onMessage: (frames: readonly Buffer[]) => void;
  /** The connection has ended. Null: the peer or `close` ended it properly. */
  readonly onClosed: (error: Error | null) => void;
}

/** Socket types of a peer that may be talked to (RFC 28 and 29). */
const PEERS: Readonly<Record<SocketType, readonly string[]>> = {
  DEALER: ['DEALER', 'REP', 'ROUTER'],
  PUB: ['SUB', 'XSUB'],
  ROUTER: ['DEALER', 'REQ', 'ROUTER'],
  SUB: ['PUB', 'XPUB'],
};

/** Bytes of a message, all frames together. A step of a large server stores 65,536 tokens: half a megabyte. */
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;
const MAX_FRAMES = 16;
/** READY with metadata that the peer makes up, SUBSCRIBE with a topic. */
const MAX_COMMAND_BYTES = 8192;
/** Context of a PING (RFC 37). */
const MAX_CONTEXT_BYTES = 16;
/** Bytes that wait for a slow peer. */
const MAX_UNSENT_BYTES = 64 * 1024 * 1024;
/** Connections of a listening socket. */
const MAX_CONNECTIONS = 64;
/** A connection without a complete handshake, or one that cannot be opened, is closed after this time. */
const HANDSHAKE_TIMEOUT_MS = 10_000;
/** Time of silence after which TCP checks whether the peer is still there. */
const KEEP_ALIVE_MS = 15_000;

const NO_BYTES: Buffer = Buffer.alloc(0);
const GREETING_BYTES = 64;
const VERSION_AT = 10;
const MECHANISM_AT = 12;
const MECHANISM_BYTES = 20;
/** Signature, version 3.0, mechanism NULL, not as server, filler. */
const GREETING = Buffer.alloc(GREETING_BYTES);
GREETING[0] = 0xff;
GREETING[VERSION_AT - 1] = 0x7f;
GREETING[VERSION_AT] = 3;
GREETING.write('NULL', MECHANISM_AT);

/** Flags of a frame. */
const MORE = 1;
const LONG = 2;
const COMMAND = 4;
const LONGEST_SHORT_FRAME = 255;

export class ZmtpConnection {
  readonly #socket: Socket;
  readonly #type: SocketType;
  readonly #handlers: ZmtpHandlers;
  #state: 'greeting' | 'handshake' | 'ready' | 'closed' = 'greeting';
  /** Bytes that have arrived and are not read yet stand at its beginning: how many, and how many there must be to go on. */
  #held: Buffer = NO_BYTES;
  #bytes = 0;
  #needed = GREETING_BYTES;
  /** Frames of a message of which more are to come, and their bytes. */
  #frames: Buffer[] = [];
  #messageBytes = 0;

  /** Takes over a socket, connected or connecting. */
  constructor(socket: Socket, type: SocketType, handlers: ZmtpHandlers) {
    this.#socket = socket;
    this.#type = type;
    this.#handlers = handlers;
    socket.setNoDelay(true);
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    socket.setTimeout(HANDSHAKE_TIMEOUT_MS);
    socket.on('timeout', () => this.#end(new Error(`no ZMTP handshake within ${HANDSHAKE_TIMEOUT_MS} ms`)));
    socket.on('error', (error) => this.#end(error));
    socket.on('close', () => this.#end(null));
    socket.on('data', (chunk: Buffer) => this.#read(chunk));
    socket.write(GREETING);
  }

  /** Sends a message; false when it was dropped, because the peer is not ready or too slow. */
  send(frames: readonly Uint8Array[]): boolean {
    if (this.#state !== 'ready' || this.unsentBytes > MAX_UNSENT_BYTES) return false;
    this.#socket.cork();
    for (const [at, frame] of frames.entries()) this.#write(at < frames.length - 1 ? MORE : 0, frame);
    this.#socket.uncork();
    return true;
  }

  /** Bytes that the peer has not taken yet. */
  get unsentBytes(): number {
    return this.#socket.writableLength;
  }

  /** Stops reading until `resume`. Messages of bytes that have arrived already are still reported. */
  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** Ends the connection at once; what is waiting to be sent is dropped. */
  close(): void {
    this.#end(null);
  }

  #end(error: Error | null): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#held = NO_BYTES;
    this.#frames = [];
    this.#socket.destroy();
    this.#handlers.onClosed(error);
  }

  #read(chunk: Buffer): void {
    if (this.#state === 'closed') return;
    let rest = chunk;
    if (this.#bytes > 0 || chunk.length < this.#needed) {
      this.#hold(chunk);
      if (this.#bytes < this.#needed) return;
      rest = this.#held.subarray(0, this.#bytes);
    }
    // Messages are parts of it.
    this.#held = NO_BYTES;
    this.#bytes = 0;
    try {
      for (let used = this.#take(rest); used > 0; used = this.#take(rest)) rest = rest.subarray(used);
    } catch (error) {
      this.#end(error as Error);
    }
    if (!this.#isClosed && rest.length > 0) this.#hold(rest);
  }

  /** Copies what has arrived: each piece by itself would take a hundred times as much where a peer sends single bytes. */
  #hold(bytes: Buffer): void {
    const length = this.#bytes + bytes.length;
    if (length > this.#held.length) {
      const larger = Buffer.allocUnsafe(Math.max(length, 2 * this.#held.length));
      this.#held.copy(larger, 0, 0, this.#bytes);
      this.#held = larger;
    }
    bytes.copy(this.#held, this.#bytes);
    this.#bytes = length;
  }

  /** Reads the greeting or one frame. Returns its bytes, or 0 when `#needed` bytes must have arrived first. */
  #take(bytes: Buffer): number {
    // A handler may have closed the connection.
    if (this.#isClosed) return 0;
    if (this.#state === 'greeting') return this.#takeGreeting(bytes);
    const flags = bytes[0];
    if (flags === undefined) return this.#need(1);
    if ((flags & ~(MORE | LONG | COMMAND)) !== 0 || (flags & (COMMAND | MORE)) === (COMMAND | MORE)) {
      throw new Error('broken ZMTP frame: unknown flags');
    }
    const head = (flags & LONG) === 0 ? 2 : 9;
    if (bytes.length < head) return this.#need(head);
    const size = head === 2 ? (bytes[1] as number) : readLength(bytes, 1);
    const isCommand = (flags & COMMAND) !== 0;
    const most = isCommand ? MAX_COMMAND_BYTES : MAX_MESSAGE_BYTES - this.#messageBytes;
    if (size > most)
      throw new Error(`a ZMTP message of more than ${isCommand ? MAX_COMMAND_BYTES : MAX_MESSAGE_BYTES} bytes`);
    if (bytes.length < head + size) return this.#need(head + size);
    const body = bytes.subarray(head, head + size);
    if (isCommand) this.#takeCommand(body);
    else this.#takeFrame(body, (flags & MORE) !== 0);
    this.#needed = 1;
    return head + size;
  }

  get #isClosed(): boolean {
    return this.#state === 'closed';
  }

  #need(bytes: number): 0 {
    this.#needed = bytes;
    return 0;
  }

  #takeGreeting(bytes: Buffer): number {
    if (bytes[0] !== 0xff) throw new Error('the peer does not speak ZMTP');
    if (bytes.length < GREETING_BYTES) return 0;
    if (((bytes[VERSION_AT - 1] as number) & 1) === 0 || (bytes[VERSION_AT] as number) < 3) {
      throw new Error('the peer speaks a ZMTP before 3.0');
    }
    const mechanism = bytes.toString('latin1', MECHANISM_AT, MECHANISM_AT + MECHANISM_BYTES).replace(/\0+$/, '');
    if (mechanism !== 'NULL')
      throw new Error(`the peer wants the ZMTP mechanism ${JSON.stringify(mechanism)}, not NULL`);
    this.#state = 'handshake';
    this.#write(COMMAND, ready(this.#type));
    return GREETING_BYTES;
  }

  #takeCommand(body: Buffer): void {
    const name = body.toString('latin1', 1, 1 + (body[0] ?? 0));
    const data = body.subarray(1 + name.length);
    if (this.#state === 'handshake') {
      if (name === 'ERROR') throw new Error(`the peer refuses: ${data.toString('latin1', 1, 1 + (data[0] ?? 0))}`);
      if (name !== 'READY') throw new Error('a ZMTP command before READY');
      const peer = property(data, 'socket-type') ?? '';
      if (!PEERS[this.#type].includes(peer))
        throw new Error(`a ${this.#type} socket cannot talk to ${JSON.stringify(peer)}`);
      this.#state = 'ready';
      this.#socket.setTimeout(0);
      this.#handlers.onReady();
    } else if (name === 'PING') {
      // Behind two bytes of time comes a context to repeat.
      const context = data.subarray(2);
      if (context.length > MAX_CONTEXT_BYTES)
        throw new Error(`a ZMTP PING with a context of more than ${MAX_CONTEXT_BYTES} bytes`);
      // What waits to be sent says as much as a PONG: that this side is there.
      if (this.unsentBytes === 0) this.#write(COMMAND, Buffer.concat([Buffer.from('\x04PONG', 'latin1'), context]));
    } else if (name === 'SUBSCRIBE' || name === 'CANCEL') {
      this.#handlers.onMessage([Buffer.concat([Buffer.of(name === 'SUBSCRIBE' ? 1 : 0), data])]);
    }
  }

  #takeFrame(body: Buffer, hasMore: boolean): void {
    if (this.#state !== 'ready') throw new Error('a ZMTP message before READY');
    this.#frames.push(body);
    this.#messageBytes += body.length;
    if (this.#frames.length > MAX_FRAMES) throw new Error(`a ZMTP message of more than ${MAX_FRAMES} frames`);
    if (hasMore) return;
    const frames = this.#frames;
    this.#frames = [];
    this.#messageBytes = 0;
    this.#handlers.onMessage(frames);
  }

  #write(flags: number, body: Uint8Array): void {
    const isLong = body.length > LONGEST_SHORT_FRAME;
    const head = Buffer.alloc(isLong ? 9 : 2);
    head[0] = isLong ? flags | LONG : flags;
    if (isLong) head.writeBigUInt64BE(BigInt(body.length), 1);
    else head[1] = body.length;
    this.#socket.write(head);
    this.#socket.write(body);
  }
}

/** Opens a connection to `tcp://HOST:PORT`. Why it cannot be opened is told to `onClosed`, in a later turn. */
export function connectZmtp(endpoint: string, type: SocketType, handlers: ZmtpHandlers): ZmtpConnection {
  return new ZmtpConnection(connect(endpointAddress(endpoint)), type, handlers);
}

/** A listening socket of type PUB or ROUTER. */
export class ZmtpListener {
  /** Connections whose handshake is complete. */
  readonly connections: Set<ZmtpConnection> = new Set();
  readonly #server: Server;
  readonly #all = new Set<ZmtpConnection>();

  private constructor(type: SocketType, onMessage: (from: ZmtpConnection, frames: readonly Buffer[]) => void) {
    this.#server = createServer((socket) => {
      const connection = new ZmtpConnection(socket, type, {
        onReady: () => this.connections.add(connection),
        onMessage: (frames) => onMessage(connection, frames),
        onClosed: () => {
          this.#all.delete(connection);
          this.connections.delete(connection);
        },
      });
      this.#all.add(connection);
    });
    this.#server.maxConnections = MAX_CONNECTIONS;
  }

  /** Binds `endpoint`. Rejects when it cannot be bound. */
  static async listen(
    endpoint: string,
    type: SocketType,
    onMessage: (from: ZmtpConnection, frames: readonly Buffer[]) => void,
  ): Promise<ZmtpListener> {
    const listener = new ZmtpListener(type, onMessage);
    listener.#server.listen(endpointAddress(endpoint));
    await once(listener.#server, 'listening');
    return listener;
  }

  /** `tcp://HOST:PORT` with the port that was taken. */
  get endpoint(): string {
    const { address, family, port } = this.#server.address() as AddressInfo;
    return `tcp://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
  }

  /** Ends every connection. Resolves when the address can be bound again. */
  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const connection of this.#all) connection.close();
    await closed;
  }
}

/** The address of `tcp://HOST:PORT`; `*` is every interface, or any port. */
export function endpointAddress(endpoint: string): { readonly host: string; readonly port: number } {
  const [, host, port] = /^tcp:\/\/(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+|\*):(\d{1,5}|\*)$/.exec(endpoint) ?? [];
  const number = port === '*' ? 0 : Number(port);
  if (host === undefined || number > 65_535)
    throw new RangeError(`${endpoint} is not an endpoint such as tcp://10.0.0.1:5557`);
  return { host: host === '*' ? '0.0.0.0' : host.replace(/^\[|\]$/g, ''), port: number };
}

/** READY with the type of the socket. */
function ready(type: SocketType): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(type.length);
  return Buffer.concat([Buffer.from('\x05READY\x0bSocket-Type', 'latin1'), length, Buffer.from(type, 'latin1')]);
}

/** A property of metadata, whose name is given in lower case. */
function property(data: Buffer, wanted: string): string | undefined {
  for (let at = 0; at < data.length;) {
    const nameEnd = at + 1 + (data[at] as number);
    if (nameEnd + 4 > data.length) throw new Error('broken ZMTP metadata');
    const valueEnd = nameEnd + 4 + data.readUInt32BE(nameEnd);
    if (valueEnd > data.length) throw new Error('broken ZMTP metadata');
    if (data.toString('latin1', at + 1, nameEnd).toLowerCase() === wanted) {
      return data.toString('latin1', nameEnd + 4, valueEnd);
    }
    at = valueEnd;
  }
  return undefined;
}

/** A length of 8 bytes; what is above 2^53 is inexact, and above every bound. */
function readLength(bytes: Buffer, at: number): number {
  return bytes.readUInt32BE(at) * 0x1_0000_0000 + bytes.readUInt32BE(at + 4);
}
