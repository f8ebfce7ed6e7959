// A growing array of bytes: the scratch memory into which events are written, the text of an answer that its closing events repeat, and
// what requests are translated into.

import { writeLatin1 } from '../../net/latin1.ts';

/** Native calls cost about as much as so many bytes one by one (measured). */
const SHORT_COPY = 24;
const SHORT_TEXT = 24;
const ZERO = 0x30;

export class ByteWriter {
  protected bytes: Buffer;
  protected count = 0;

  /** @param capacity bytes before it grows for the first time */
  constructor(capacity: number) {
    this.bytes = Buffer.allocUnsafe(capacity);
  }

  /** Bytes that are written. */
  get length(): number {
    return this.count;
  }

  /** Forgets what was written. More memory than `largestIdle` is given back. */
  clear(largestIdle: number): void {
    this.count = 0;
    if (this.bytes.length > largestIdle) this.bytes = Buffer.allocUnsafe(largestIdle);
  }

  /** What was written: a view that is valid until the next call. */
  view(): Buffer {
    return this.bytes.subarray(0, this.count);
  }

  toString(): string {
    return this.bytes.toString('utf8', 0, this.count);
  }

  /** Text without characters above U+00FF. */
  latin1(text: string): void {
    const { length } = text;
    this.reserve(length);
    const { bytes, count } = this;
    if (length > SHORT_TEXT) writeLatin1(bytes, text, count);
    else for (let at = 0; at < length; at++) bytes[count + at] = text.charCodeAt(at);
    this.count = count + length;
  }

  utf8(text: string): void {
    this.reserve(3 * text.length);
    this.count += this.bytes.write(text, this.count, 'utf8');
  }

  /** `source` from `start` to `end`. */
  copy(source: Buffer, start: number, end: number): void {
    const length = end - start;
    this.reserve(length);
    const { bytes, count } = this;
    if (length > SHORT_COPY) source.copy(bytes, count, start, end);
    else for (let at = 0; at < length; at++) bytes[count + at] = source[start + at] as number;
    this.count = count + length;
  }

  /** All that another one holds. */
  append(other: ByteWriter): void {
    this.copy(other.bytes, 0, other.count);
  }

  /** A whole number from 0 on, in decimal digits. */
  digits(value: number): void {
    this.reserve(16);
    let digits = 1;
    for (let limit = 10; value >= limit; limit *= 10) digits++;
    const { bytes } = this;
    let rest = value;
    for (let at = this.count + digits - 1; at >= this.count; at--) {
      const tenth = Math.floor(rest / 10);
      bytes[at] = ZERO + rest - 10 * tenth;
      rest = tenth;
    }
    this.count += digits;
  }

  /** Makes room for so many bytes more. */
  protected reserve(size: number): void {
    if (this.count + size > this.bytes.length) this.#grow(size);
  }

  #grow(size: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(this.count + size, 2 * this.bytes.length));
    this.bytes.copy(larger, 0, 0, this.count);
    this.bytes = larger;
  }
}
