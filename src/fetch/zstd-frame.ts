// Where a frame of zstd ends (RFC 8878 §3.1). The decoder of Node.js does not tell, and differs: that of Node.js 22 ends quietly where its
// input is cut off and drops the frames behind the first one, and later ones fail without input.

/** Bytes of magic number and frame header descriptor, and of a block header. */
const HEADER_START = 5;
const BLOCK_HEADER = 3;

/** Bytes of the magic number that each frame begins with. */
export const MAGIC_BYTES = 4;

/** First magic number of the 16 of skippable frames (RFC 8878 §3.1.2). */
const SKIPPABLE = 0x184d2a50;

/** Whether a frame has no text: its magic number is one of those that decoders skip. To be asked with all of `MAGIC_BYTES`. */
export function isSkippable([a = 0, b = 0, c = 0, d = 0]: Uint8Array): boolean {
  return isSkippableMagic(a + b * 0x100 + c * 0x10000 + d * 0x1000000);
}

function isSkippableMagic(magic: number): boolean {
  return magic >= SKIPPABLE && magic < SKIPPABLE + 16;
}

/** Follows the bytes of one frame, which come in pieces. What they say is for the decoder to check. */
export class ZstdFrame {
  /** Its last byte was taken. */
  isWhole = false;
  #isSkippable = false;
  #hasHeader = false;
  #isLastBlock = false;
  #checksumBytes = 0;
  #firstOfLength = 0;
  /** The little-endian number that is being read, and its bytes so far. */
  #value = 0;
  #read = 0;
  /** Bytes before the next number. */
  #passing = 0;

  /** Takes bytes as far as they belong to the frame; returns how many do. */
  take(piece: Uint8Array): number {
    let at = 0;
    while (at < piece.byteLength && !this.isWhole) {
      if (this.#passing > 0) {
        const passed = Math.min(this.#passing, piece.byteLength - at);
        this.#passing -= passed;
        at += passed;
      } else {
        this.#value += (piece[at] as number) * 256 ** this.#read;
        this.#read++;
        at++;
        if (this.#read === (this.#hasHeader ? BLOCK_HEADER : HEADER_START)) this.#use();
      }
      this.isWhole = this.#isLastBlock && this.#passing === 0;
    }
    return at;
  }

  #use(): void {
    const value = this.#value;
    this.#value = 0;
    this.#read = 0;
    if (this.#isSkippable) {
      this.#passing = this.#firstOfLength + value * 256;
      this.#isLastBlock = true;
      return;
    }
    if (this.#hasHeader) {
      this.#isLastBlock = (value & 1) !== 0;
      // A block of one repeated byte has that byte alone.
      this.#passing = ((value >> 1) & 3) === 1 ? 1 : value >> 3;
      if (this.#isLastBlock) this.#passing += this.#checksumBytes;
      return;
    }
    this.#hasHeader = true;
    const descriptor = Math.floor(value / 2 ** 32);
    if (isSkippableMagic(value % 2 ** 32)) {
      // Its length is the four bytes behind the magic number: this one, and three as long as a block header.
      this.#isSkippable = true;
      this.#firstOfLength = descriptor;
      return;
    }
    const isSingleSegment = (descriptor & 0x20) !== 0;
    const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] as number;
    const sizeBytes = [isSingleSegment ? 1 : 0, 2, 4, 8][descriptor >> 6] as number;
    this.#passing = (isSingleSegment ? 0 : 1) + dictionaryBytes + sizeBytes;
    this.#checksumBytes = (descriptor & 4) !== 0 ? 4 : 0;
  }
}
