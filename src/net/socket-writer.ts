// Writes to a socket of node:net below its stream. What the kernel takes at once costs one call of the handle, without the queue, the
// ticks and the request object that `socket.write` makes for each message. The stream still opens, reads, ends and closes the socket;
// nothing else may write to it. TLS sockets, and all sockets where Node.js has no such handles, are written to as streams.

import type { Socket } from 'node:net';
import { getSystemErrorName } from 'node:util';
import { sendsMemory, sentMemory } from './large-memory.ts';

/** A write that the kernel does not take whole at once. The handle uses it in that case alone, and then for nothing else. */
interface WriteRequest {
  /** Called by the handle when the kernel has everything, or with an error number. */
  oncomplete?: (this: WriteRequest, status: number) => void;
  writer?: SocketWriter;
  /** Keeps the memory until the kernel has it. */
  bytes?: readonly Uint8Array[];
}

/** What node:net itself writes with. */
interface StreamBinding {
  readonly WriteWrap: new () => WriteRequest;
  /**
   * At `kLastWriteWasAsync`: whether the last write has not been taken whole. At `kReadBytesOrError`: what the last read has brought, or
   * an error number.
   */
  readonly streamBaseState: Int32Array;
  readonly kLastWriteWasAsync: number;
  readonly kReadBytesOrError: number;
}

interface Handle {
  writeBuffer(request: WriteRequest, bytes: Uint8Array): number;
  writev(request: WriteRequest, bytes: readonly Uint8Array[], allBuffers: true): number;
}

interface HandleOwner {
  readonly _handle?: Partial<Handle> | null;
}

function streamBinding(): StreamBinding | null {
  try {
    const { binding } = process as unknown as { binding: (name: 'stream_wrap') => Partial<StreamBinding> };
    const { WriteWrap, kLastWriteWasAsync = -1, kReadBytesOrError = -1, streamBaseState } = binding('stream_wrap');
    if (typeof WriteWrap !== 'function' || streamBaseState?.[kLastWriteWasAsync] === undefined) return null;
    if (streamBaseState[kReadBytesOrError] === undefined) return null;
    return { WriteWrap, kLastWriteWasAsync, kReadBytesOrError, streamBaseState };
  } catch {
    // With the permission model, for one.
    return null;
  }
}

/** Null where there is none, or with the permission model. */
export const STREAM_BINDING: StreamBinding | null = streamBinding();

/**
 * Bytes of a message that are given to the kernel in one turn of the event loop. It copies them all, and what is sent to the same machine
 * reaches its reader within the call: 10 MB take 3 to 5 ms.
 */
const BYTES_PER_TURN = 512 * 1024;

/** For all writes until one needs it. */
let spare: WriteRequest | null = null;

function completed(this: WriteRequest, status: number): void {
  const { bytes = [], writer } = this;
  delete this.writer;
  delete this.bytes;
  let length = 0;
  for (const part of bytes) {
    length += part.byteLength;
    sentMemory(part);
  }
  writer?.sent(length, status);
}

export class SocketWriter {
  readonly #socket: Socket;
  readonly #onDrain: (() => void) | null;
  readonly #isRaw: boolean;
  /** Bytes of the writes that the kernel has not taken whole. */
  #pending = 0;
  /** What is left of a message that is sent in parts, which is no part of `#pending`. */
  #rest: Uint8Array | null = null;
  #failed = false;
  /** Of a stream: its queue was not empty after a write. */
  #waits = false;

  /**
   * For a socket that is connected. `onDrain` is called when the kernel has taken the last byte of what it did not take at once. A write
   * that fails destroys the socket with its error.
   */
  constructor(socket: Socket, onDrain: (() => void) | null) {
    const { _handle: handle } = socket as unknown as HandleOwner;
    this.#socket = socket;
    this.#onDrain = onDrain;
    const isPlain = !('encrypted' in socket);
    this.#isRaw =
      STREAM_BINDING !== null && isPlain && handle?.writeBuffer !== undefined && handle.writev !== undefined;
  }

  /** Bytes whose memory the socket still needs: a write counts whole until its last byte has left. */
  get queuedBytes(): number {
    const queued = this.#isRaw ? this.#pending : this.#socket.writableLength;
    return this.#rest === null ? queued : queued + this.#rest.byteLength;
  }

  /** Whether more can be sent: no write has failed, and the socket is not destroyed. */
  get isOpen(): boolean {
    // The handle tells it, which a write needs anyway: the states of the stream are two objects more.
    if (this.#isRaw) return !this.#failed && (this.#socket as unknown as HandleOwner)._handle !== null;
    return !this.#socket.destroyed && this.#socket.errored === null;
  }

  /** Sends `bytes`, and `more` behind them, with one system call. Returns `queuedBytes`: at 0 the memory is free again. */
  write(bytes: Uint8Array, more: Uint8Array | null = null): number {
    if (!this.#isRaw) return this.#writeStream(bytes, more);
    const handle = (this.#socket as unknown as HandleOwner)._handle as Handle | null;
    if (handle === null || this.#failed) return this.#pending;
    const { WriteWrap, kLastWriteWasAsync, streamBaseState } = STREAM_BINDING as StreamBinding;
    const request = (spare ??= new WriteWrap());
    const status = more === null ? handle.writeBuffer(request, bytes) : handle.writev(request, [bytes, more], true);
    if (status !== 0) {
      spare = null;
      this.#fail(status);
    } else if (streamBaseState[kLastWriteWasAsync] !== 0) {
      spare = null;
      request.oncomplete = completed;
      request.writer = this;
      request.bytes = more === null ? [bytes] : [bytes, more];
      for (const part of request.bytes) sendsMemory(part);
      this.#pending += bytes.byteLength + (more?.byteLength ?? 0);
    }
    return this.#pending;
  }

  /**
   * As `write`, but of a large message other sockets have their turn behind each half of a megabyte. Until `queuedBytes` is 0, nothing
   * else may be written, and the socket not be ended.
   */
  writeInTurns(bytes: Uint8Array, more: Uint8Array | null = null): number {
    const large = more ?? bytes;
    if (large.byteLength <= BYTES_PER_TURN) return this.write(bytes, more);
    sendsMemory(large);
    this.#rest = large.subarray(BYTES_PER_TURN);
    const part = large.subarray(0, BYTES_PER_TURN);
    const queued = more === null ? this.write(part) : this.write(bytes, part);
    if (queued === 0) setImmediate(goOn, this);
    return this.queuedBytes;
  }

  /** @internal What was queued has left. */
  goOn(): void {
    const rest = this.#rest;
    if (rest !== null) {
      const isLast = rest.byteLength <= BYTES_PER_TURN;
      this.#rest = isLast || !this.isOpen ? null : rest.subarray(BYTES_PER_TURN);
      if (this.write(isLast ? rest : rest.subarray(0, BYTES_PER_TURN)) === 0) setImmediate(goOn, this);
      if (this.#rest === null) sentMemory(rest);
    } else if (this.isOpen) {
      this.#onDrain?.();
    }
  }

  /** @internal A write that was queued has ended. */
  sent(bytes: number, status: number): void {
    this.#pending -= bytes;
    if (status !== 0 && !this.#socket.destroyed) this.#fail(status);
    if (this.#pending === 0) this.goOn();
  }

  #fail(status: number): void {
    this.#failed = true;
    const code = getSystemErrorName(status);
    this.#socket.destroy(Object.assign(new Error(`write ${code}`), { code, errno: status, syscall: 'write' }));
  }

  #writeStream(bytes: Uint8Array, more: Uint8Array | null): number {
    const socket = this.#socket;
    if (!this.isOpen) return socket.writableLength;
    // A stream does not tell of each write when it needs the memory no more: it is left to V8.
    sendsMemory(bytes);
    if (more !== null) sendsMemory(more);
    socket.cork();
    if (more !== null) socket.write(bytes);
    socket.write(more ?? bytes, this.#streamed);
    socket.uncork();
    this.#waits ||= socket.writableLength > 0;
    return socket.writableLength;
  }

  readonly #streamed = (): void => {
    if (!this.#waits || this.#socket.writableLength > 0 || this.#socket.destroyed) return;
    this.#waits = false;
    this.goOn();
  };
}

function goOn(writer: SocketWriter): void {
  writer.goOn();
}
