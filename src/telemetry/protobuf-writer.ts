// A writer of protobuf messages (https://protobuf.dev/programming-guides/encoding/): the wire types that metrics need. Fields are
// written in the order of the calls, also those that have their default value.

/** Wire types. */
const VARINT = 0;
const FIXED_64 = 1;
const LENGTH = 2;

const FIRST_BYTES = 64 * 1024;

/** Longest varint of an integer below 2^53. */
const VARINT_BYTES = 8;

export class ProtobufWriter {
  #buffer = Buffer.allocUnsafe(FIRST_BYTES);
  #length = 0;

  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  /** An unsigned integer or an enumeration. `value` is below 2^53. */
  varint(field: number, value: number): void {
    this.#tag(field, VARINT);
    this.#varint(value);
  }

  /** A `sint32` or `sint64`. */
  sint(field: number, value: number): void {
    this.#tag(field, VARINT);
    this.#varint(zigzag(value));
  }

  double(field: number, value: number): void {
    this.#tag(field, FIXED_64);
    this.#grow(8);
    this.#length = this.#buffer.writeDoubleLE(value, this.#length);
  }

  string(field: number, text: string): void {
    this.#tag(field, LENGTH);
    const bytes = Buffer.byteLength(text);
    this.#varint(bytes);
    this.#grow(bytes);
    this.#length += this.#buffer.write(text, this.#length);
  }

  /** A repeated `sint32` or `sint64`, packed; nothing without values. */
  packedSints(field: number, values: readonly number[]): void {
    if (values.length === 0) return;
    this.#tag(field, LENGTH);
    this.#delimit(() => {
      for (const value of values) this.#varint(zigzag(value));
    });
  }

  /** A message inside of this one. */
  message(field: number, write: (message: ProtobufWriter) => void): void {
    this.#tag(field, LENGTH);
    this.#delimit(() => write(this));
  }

  /** The length of a message that follows without a field: one of a stream. */
  length(bytes: number): void {
    this.#varint(bytes);
  }

  /** Writes what `write` writes behind its length, which is known afterwards: it moves up by the bytes that the length takes. */
  #delimit(write: () => void): void {
    const start = this.#length;
    this.#grow(1);
    this.#length++;
    write();
    const length = this.#length - start - 1;
    const extra = varintBytes(length) - 1;
    if (extra > 0) {
      this.#grow(extra);
      this.#buffer.copyWithin(start + 1 + extra, start + 1, this.#length);
    }
    this.#length = start;
    this.#varint(length);
    this.#length += length;
  }

  #tag(field: number, wireType: number): void {
    this.#varint(field * 8 + wireType);
  }

  #varint(value: number): void {
    this.#grow(VARINT_BYTES);
    let rest = value;
    while (rest >= 128) {
      this.#buffer[this.#length++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    this.#buffer[this.#length++] = rest;
  }

  #grow(bytes: number): void {
    if (this.#length + bytes <= this.#buffer.length) return;
    const buffer = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#length + bytes));
    this.#buffer.copy(buffer, 0, 0, this.#length);
    this.#buffer = buffer;
  }
}

/** Signed integers as unsigned ones: 0, -1, 1, -2 … become 0, 1, 2, 3 … */
function zigzag(value: number): number {
  return value < 0 ? -value * 2 - 1 : value * 2;
}

function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) bytes++;
  return bytes;
}
