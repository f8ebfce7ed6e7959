// Bytes that come in pieces, kept in one piece: a million pieces of a byte take no more memory than one of a megabyte. Page
// bodies are collected in it.

/** Least memory once there are bytes. */
const MIN_CAPACITY = 4096;

export class GrowingBytes {
  #bytes: Uint8Array<ArrayBuffer> = new Uint8Array(0);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Copies a piece to the end. */
  append(piece: Uint8Array): void {
    const needed = this.#length + piece.byteLength;
    if (needed > this.#bytes.byteLength) this.#grow(Math.max(needed, 2 * this.#bytes.byteLength, MIN_CAPACITY));
    this.#bytes.set(piece, this.#length);
    this.#length = needed;
  }

  /** All bytes so far, in a buffer of exactly their size; nothing stays here. */
  take(): Uint8Array<ArrayBuffer> {
    const exact = this.#length === this.#bytes.byteLength ? this.#bytes : this.#bytes.slice(0, this.#length);
    this.#bytes = new Uint8Array(0);
    this.#length = 0;
    return exact;
  }

  #grow(capacity: number): void {
    const grown = new Uint8Array(capacity);
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
  }
}
