// Large blocks of memory that are freed by hand. Left to V8, a few bodies of 10 MB are collected with the whole heap of their thread, and
// their memory goes back to the kernel, so that the next one pays for each of its pages again. A block that is freed at once is given out
// again as it is. What still refers to it finds it empty.

/** Blocks from this size are freed by hand. */
export const LARGE_BYTES: number = 512 * 1024;

/** Blocks that sockets still have to send, with the number of these writes. */
const unsent = new WeakMap<ArrayBufferLike, number>();

/** A socket needs this memory until `sentMemory`. */
export function sendsMemory({ buffer }: Uint8Array): void {
  if (buffer.byteLength >= LARGE_BYTES) unsent.set(buffer, (unsent.get(buffer) ?? 0) + 1);
}

export function sentMemory({ buffer }: Uint8Array): void {
  if (buffer.byteLength >= LARGE_BYTES) unsent.set(buffer, (unsent.get(buffer) ?? 0) - 1);
}

/** Frees the whole block that `bytes` are a part of, unless it is small or a socket needs it: then it is left to V8. */
export function freeMemory({ buffer }: Uint8Array): void {
  if (buffer.byteLength < LARGE_BYTES || !(buffer instanceof ArrayBuffer) || (unsent.get(buffer) ?? 0) > 0) return;
  buffer.transfer(0);
}
