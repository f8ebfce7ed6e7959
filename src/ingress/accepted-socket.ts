// Accepted sockets of node:net that read into one shared buffer. `net.Server` has no option for this; `net.Socket` has `onread`.
// So the handle of an accepted socket is moved to a second socket. Where a Node.js version has no such handle, the accepted
// socket itself is used, with a buffer per read.

import { Socket, type SocketConstructorOpts } from 'node:net';
import { readBelowStream } from '../net/socket-reader.ts';

/**
 * Takes the first `length` bytes of `bytes`, which the next read of any socket overwrites. False stops reading until
 * `socket.resume()`.
 */
export type ReadCallback = (length: number, bytes: Buffer) => boolean;

interface Handle {
  /** Bytes that it has been given, and those of them that the kernel has not taken. */
  readonly bytesWritten?: number;
  readonly writeQueueSize?: number;
}

interface HandleOwner {
  _handle?: Handle | null;
}

interface AdoptOptions extends SocketConstructorOpts {
  readonly handle: Handle;
}

/** The socket to use in place of `accepted`, which must come from a server with `pauseOnConnect` and `allowHalfOpen`. */
export function readInto(buffer: Buffer, accepted: Socket, onRead: ReadCallback): Socket {
  const owner = accepted as unknown as HandleOwner;
  const handle = owner._handle;
  if (handle === undefined || handle === null) {
    accepted.on('data', (piece: Buffer) => {
      if (!onRead(piece.byteLength, piece)) accepted.pause();
    });
    accepted.resume();
    return accepted;
  }
  owner._handle = null;
  const onread = { buffer, callback: onRead as (length: number, bytes: Uint8Array) => boolean };
  const options: AdoptOptions = { handle, allowHalfOpen: true, onread };
  const socket = new Socket(options);
  readBelowStream(socket, (length) => onRead(length, buffer));
  return socket;
}

/** A slow reader is looked at this often in the time that it has. */
const CHECKS = 4;

/** Sees whether the peer of a socket takes what is waiting for it, also a part of one large write. */
export class WriteProgress {
  readonly #socket: Socket;
  #lastMs = 0;
  #takenBytes = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Bytes wait for the peer from now on, or the queue has been empty in between. */
  begin(nowMs: number): void {
    this.#lastMs = nowMs;
    this.#takenBytes = this.#taken;
  }

  /** Time since the peer was last seen to have taken something. To be asked every `intervalMs`. */
  idleMs(nowMs: number): number {
    if (this.#taken > this.#takenBytes) this.begin(nowMs);
    return nowMs - this.#lastMs;
  }

  /** How often to ask, for a limit in milliseconds. */
  intervalMs(limitMs: number): number {
    return Math.ceil(limitMs / CHECKS);
  }

  /** Bytes that the kernel has taken. */
  get #taken(): number {
    const { bytesWritten, writableLength } = this.#socket;
    const { bytesWritten: givenBytes, writeQueueSize } = (this.#socket as unknown as HandleOwner)._handle ?? {};
    if (givenBytes === undefined || writeQueueSize === undefined) return bytesWritten - writableLength;
    return givenBytes - writeQueueSize;
  }
}
