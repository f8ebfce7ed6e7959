// A writer of JSON from texts of the program and from the values of a tape.

import type { JsonTape } from '../json-tape.ts';

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;
const SPACE = 0x20;

/** By how much a text may become longer before its memory grows. */
const MARGIN_BYTES = 512;

const NO_BYTES: Buffer = Buffer.alloc(0);

/** Empties a list that is used again. Setting its `length` is a call out of compiled code, and frees memory that is needed next. */
export function clearList(list: unknown[]): void {
  while (list.length > 0) list.pop();
}

/** A native copy costs about as much as this many bytes one by one. */
const SHORT_BYTES = 32;

/** The memory of a text that nobody needs any more: to write new memory takes longer than to make what is written (measured). */
let spare: Buffer | null = null;
/** A larger text is given back to the system. */
const MAX_SPARE_BYTES = 256 * 1024;
const MIN_BYTES = 32 * 1024;

/** Writes JSON from texts of the program and from values of a tape. Commas are set where a value follows another one. */
export class JsonWriter {
  readonly #tape: JsonTape;
  #bytes: Buffer = NO_BYTES;
  #length = 0;

  constructor(tape: JsonTape) {
    this.#tape = tape;
  }

  /** Begins another text, which will be about as long as that of the tape. */
  begin(): void {
    const size = this.#tape.body.length + MARGIN_BYTES;
    if (spare !== null && spare.length >= size) {
      this.#bytes = spare;
      spare = null;
    } else {
      this.#bytes = Buffer.allocUnsafeSlow(Math.max(size, MIN_BYTES));
    }
    this.#length = 0;
  }

  /** What was written since `begin`, in memory of its own. */
  take(): Buffer {
    const bytes = this.#bytes;
    this.#bytes = NO_BYTES;
    return bytes.subarray(0, this.#length);
  }

  /** Takes the memory of a text that `take` has returned, for the next one. Nobody may need the text any more. */
  static give({ buffer }: Buffer): void {
    if (buffer.byteLength <= MAX_SPARE_BYTES) spare = Buffer.from(buffer as ArrayBuffer);
  }

  /** Bytes written; for `takeBack`. */
  get length(): number {
    return this.#length;
  }

  /** Takes back what was written behind the first `length` bytes. */
  takeBack(length: number): void {
    this.#length = length;
  }

  /** Writes ASCII text of the program as it is. */
  raw(text: string): void {
    const { length } = text;
    if (this.#length + length > this.#bytes.length) this.#grow(length);
    const bytes = this.#bytes;
    const at = this.#length;
    for (let index = 0; index < length; index++) bytes[at + index] = text.charCodeAt(index);
    this.#length = at + length;
  }

  /** Begins a member: a comma where one is needed, and `name` (ASCII) as its key. */
  key(name: string): void {
    this.separate();
    this.raw('"');
    this.raw(name);
    this.raw('":');
  }

  /** Writes the comma before the next member or item, unless it is the first one. */
  separate(): void {
    const last = this.#length === 0 ? COLON : this.#bytes[this.#length - 1];
    if (last !== OPEN_OBJECT && last !== OPEN_ARRAY && last !== COLON && last !== COMMA) this.raw(',');
  }

  /** Writes `"name":` and a value of the program; a text is ASCII and needs no escapes. */
  set(name: string, value: string | number | boolean): void {
    this.key(name);
    if (typeof value === 'string') this.raw('"');
    this.raw(String(value));
    if (typeof value === 'string') this.raw('"');
  }

  /** Writes `"name":` and a value of the tape as it is written there. */
  carry(name: string, node: number): void {
    this.key(name);
    this.value(node);
  }

  /** Writes the member with this key as it is written on the tape, key and value. */
  member(key: number): void {
    this.separate();
    this.#copy(this.#tape.body, this.#tape.start(key), this.#tape.end(this.#tape.valueOf(key)));
  }

  /** Writes a value of the tape as it is written there. */
  value(node: number): void {
    this.#copy(this.#tape.body, this.#tape.start(node), this.#tape.end(node));
  }

  /** Writes the inside of a string of the tape, without its quotes. */
  inside(node: number): void {
    this.#copy(this.#tape.body, this.#tape.start(node) + 1, this.#tape.end(node) - 1);
  }

  /** Writes a value of the tape, as the JSON text that it is, as the inside of a string. */
  quoted(node: number): void {
    const { body } = this.#tape;
    const start = this.#tape.start(node);
    const end = this.#tape.end(node);
    // An escape takes up to six bytes.
    const most = 6 * (end - start);
    if (this.#length + most > this.#bytes.length) this.#grow(most);
    const bytes = this.#bytes;
    let at = this.#length;
    for (let pos = start; pos < end; pos++) {
      const byte = body[pos] as number;
      if (byte === QUOTE || byte === BACKSLASH) bytes[at++] = BACKSLASH;
      if (byte >= SPACE) {
        bytes[at++] = byte;
      } else {
        bytes[at++] = BACKSLASH;
        bytes[at++] = 0x75;
        bytes[at++] = bytes[at++] = 0x30;
        bytes[at++] = HEX.charCodeAt(byte >> 4);
        bytes[at++] = HEX.charCodeAt(byte & 15);
      }
    }
    this.#length = at;
  }

  #copy(source: Buffer, start: number, end: number): void {
    const length = end - start;
    if (this.#length + length > this.#bytes.length) this.#grow(length);
    const bytes = this.#bytes;
    const at = this.#length;
    if (length <= SHORT_BYTES)
      for (let index = 0; index < length; index++) bytes[at + index] = source[start + index] as number;
    else source.copy(bytes, at, start, end);
    this.#length = at + length;
  }

  #grow(room: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(2 * this.#bytes.length, this.#length + room));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}

const HEX = '0123456789abcdef';
