// Reading from a socket of node:net below its stream. A socket with `onread` reads into one buffer, but each read still passes its
// stream: timers, states and getters. The stream keeps everything else: opening, errors, the end, pausing and closing.

import type { Socket } from 'node:net';
import { STREAM_BINDING } from './socket-writer.ts';

interface ReadHandle {
  /** Called by the handle behind every read, with the number of bytes, or an error number, in the state of the binding. */
  onread: (this: ReadHandle, buffer: ArrayBuffer | undefined) => unknown;
  reading: boolean;
  readStop?: () => number;
}

/**
 * Gives what a socket reads into the buffer of its option `onread` to `onRead` directly, which is to be the callback of that option. False
 * stops reading until `socket.resume()`. Where Node.js has no such handles, the stream calls it.
 */
export function readBelowStream(socket: Socket, onRead: (length: number) => boolean): void {
  const handle = (socket as unknown as { readonly _handle?: Partial<ReadHandle> | null })._handle;
  if (STREAM_BINDING === null || 'encrypted' in socket) return;
  if (typeof handle?.onread !== 'function' || typeof handle.readStop !== 'function') return;
  const { kReadBytesOrError, streamBaseState } = STREAM_BINDING;
  const ofStream = handle.onread;
  const onread = function onread(this: ReadHandle, buffer: ArrayBuffer | undefined): unknown {
    const length = streamBaseState[kReadBytesOrError] as number;
    if (length <= 0) return ofStream.call(this, buffer);
    if (onRead(length) || !this.reading) return undefined;
    this.reading = false;
    return void this.readStop?.();
  };
  handle.onread = onread;
}
