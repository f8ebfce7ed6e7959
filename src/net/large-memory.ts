// Blocks of memory that are freed by hand. V8 has the memory of buffers outside its heap and does not see what it is worth to collect
// them: requests of 20 KB let it mark the whole heap six times a second, which took more than half of the CPU time of a request. The memory
// of a few bodies of 10 MB goes back to the kernel, so that the next one pays for each of its pages again. A block that is freed at
// once is given out again as it is. What still refers to it finds it empty.

/** Blocks from this size are freed by hand. */
export const LARGE_BYTES: number = 16 * 1024;

/** Blocks that sockets still have to send, with the number of these writes. */
const unsent = new WeakMap<ArrayBufferLike, number>();

/** A socket needs this memory until `sentMemory`. */
export function sendsMemory({ buffer }: Uint8Array): void {
  if (buffer.byteLength >= LARGE_BYTES) unsent.set(buffer, (unsent.get(buffer) ?? 0) + 1);
}

export function sentMemory({ buffer }: Uint8Array): void {
  if (buffer.byteLength >= LARGE_BYTES) unsent.set(buffer, (unsent.get(buffer) ?? 0) - 1);
}

/** Frees a block, unless it is small, a part of one that others may use, or needed by a socket: then it is left to V8. */
export function freeMemory(bytes: Uint8Array): void {
  const { byteLength } = bytes;
  // To ask a small one for its buffer is a call out of compiled code.
  if (byteLength < LARGE_BYTES) return;
  const { buffer } = bytes;
  if (byteLength < buffer.byteLength || !(buffer instanceof ArrayBuffer)) return;
  if ((unsent.get(buffer) ?? 0) > 0) return;
  buffer.transfer(0);
}
