// A growing array of bytes: the scratch memory into which events are written, and the text of an answer that its closing events
// repeat.

const SHORT_COPY = 24;
const SHORT_TEXT = 12;
const ZERO = 0x30;

export class ByteWriter {
  #bytes: Buffer;
  #length = 0;

  /** @param capacity bytes before it grows for the first time */
  constructor(capacity: number) {
    this.#bytes = Buffer.allocUnsafe(capacity);
  }

  get length(): number {
    return this.#length;
  }

  /** Forgets what was written. More memory than `largestIdle` is given back. */
  clear(largestIdle: number): void {
    this.#length = 0;
    if (this.#bytes.length > largestIdle) this.#bytes = Buffer.allocUnsafe(largestIdle);
  }

  /** What was written: a view that is valid until the next call. */
  view(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  toString(): string {
    return this.#bytes.toString('utf8', 0, this.#length);
  }

  /** Text without characters above U+00FF. */
  latin1(text: string): void {
    const { length } = text;
    this.#reserve(length);
    if (length > SHORT_TEXT) {
      this.#length += this.#bytes.write(text, this.#length, 'latin1');
      return;
    }
    const bytes = this.#bytes;
    const at = this.#length;
    for (let index = 0; index < length; index++) bytes[at + index] = text.charCodeAt(index);
    this.#length = at + length;
  }

  utf8(text: string): void {
    this.#reserve(3 * text.length);
    this.#length += this.#bytes.write(text, this.#length, 'utf8');
  }

  /** `source` from `start` to `end`. */
  copy(source: Buffer, start: number, end: number): void {
    this.#reserve(end - start);
    if (end - start > SHORT_COPY) {
      source.copy(this.#bytes, this.#length, start, end);
      this.#length += end - start;
      return;
    }
    const bytes = this.#bytes;
    let to = this.#length;
    for (let from = start; from < end; from++) bytes[to++] = source[from] as number;
    this.#length = to;
  }

  /** All that another one holds. */
  append(other: ByteWriter): void {
    this.copy(other.#bytes, 0, other.#length);
  }

  /** A whole number from 0 on, in decimal digits. */
  digits(value: number): void {
    this.#reserve(16);
    let digits = 1;
    for (let limit = 10; value >= limit; limit *= 10) digits++;
    const bytes = this.#bytes;
    let rest = value;
    for (let at = this.#length + digits - 1; at >= this.#length; at--) {
      const tenth = Math.floor(rest / 10);
      bytes[at] = ZERO + rest - 10 * tenth;
      rest = tenth;
    }
    this.#length += digits;
  }

  #reserve(size: number): void {
    if (this.#length + size <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#length + size, 2 * this.#bytes.length));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}
