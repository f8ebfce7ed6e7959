// A writer of JSON from texts of the program and from the values of a tape.

import type { JsonTape } from '../json-tape.ts';
import { freeMemory } from '../../net/large-memory.ts';
import { ByteWriter } from './byte-writer.ts';
import { untranslatable } from './untranslatable.ts';

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;
const SPACE = 0x20;

/** By how much a text may become longer before its memory grows. */
const MARGIN_BYTES = 512;

/** The key of a member as it is written. */
export type JsonKey = `"${string}":`;

/** The key of a member `name` (ASCII). */
export function jsonKey(name: string): JsonKey {
  // Joined it is in one piece, which takes less time to write.
  return ['"', name, '":'].join('') as JsonKey;
}

/** Empties a list that is used again. Setting its `length` is a call out of compiled code, and frees memory that is needed next. */
export function clearList(list: unknown[]): void {
  while (list.length > 0) list.pop();
}

/** The memory of a text that nobody needs any more: to write new memory takes longer than to make what is written (measured). */
let spare: Buffer | null = null;
/** A larger one is given back to the system. */
const MAX_SPARE_BYTES = 256 * 1024;
const MIN_BYTES = 32 * 1024;

/** Writes JSON from texts of the program and from values of a tape. Commas are set where a value follows another one. */
export class JsonWriter extends ByteWriter {
  /** Bytes before each text in its memory. */
  static readonly ROOM = 2048;

  readonly #tape: JsonTape;

  constructor(tape: JsonTape) {
    super(0);
    this.#tape = tape;
  }

  /** Begins another text, which will be about as long as that of the tape. */
  begin(): void {
    const size = JsonWriter.ROOM + this.#tape.body.length + MARGIN_BYTES;
    if (spare !== null && spare.length >= size) {
      this.bytes = spare;
      spare = null;
    } else {
      this.bytes = Buffer.allocUnsafeSlow(Math.max(size, MIN_BYTES));
    }
    this.count = JsonWriter.ROOM;
  }

  /** What was written since `begin`, in memory of its own. */
  take(): Buffer {
    const text = this.bytes.subarray(JsonWriter.ROOM, this.count);
    this.bytes = NO_BYTES;
    return text;
  }

  /** Takes the memory of a text that `take` has returned, for the next one. Nobody may need the text any more. */
  static give({ buffer }: Buffer): void {
    let unused: Buffer = Buffer.from(buffer as ArrayBuffer);
    if (unused.length <= MAX_SPARE_BYTES && unused.length > (spare?.length ?? 0)) {
      [spare, unused] = [unused, spare ?? NO_BYTES];
    }
    freeMemory(unused);
  }

  /** Takes back what was written behind the first `length` bytes. */
  takeBack(length: number): void {
    this.count = length;
  }

  /** Writes ASCII text of the program as the next member or item: behind a comma, unless it is the first one. */
  next(text: string): void {
    this.#separate();
    this.latin1(text);
  }

  /** Writes a member with a value of the tape as it is written there. */
  carry(key: JsonKey, node: number): void {
    this.next(key);
    this.value(node);
  }

  /** Writes a value of the tape as the next item. */
  item(node: number): void {
    this.#separate();
    this.value(node);
  }

  /** Writes the member with this key as it is written on the tape, key and value. */
  member(key: number): void {
    this.#separate();
    this.copy(this.#tape.body, this.#tape.start(key), this.#tape.end(this.#tape.valueOf(key)));
  }

  /** Writes a value of the tape as it is written there. */
  value(node: number): void {
    this.copy(this.#tape.body, this.#tape.start(node), this.#tape.end(node));
  }

  /** Writes the inside of a string of the tape, without its quotes. Refuses any other value: its inside would be read as JSON. */
  inside(node: number): void {
    if (!this.#tape.isString(node)) throw untranslatable(this.#tape, node, 'It is no text.');
    this.copy(this.#tape.body, this.#tape.start(node) + 1, this.#tape.end(node) - 1);
  }

  /** Writes a value of the tape, as the JSON text that it is, as the inside of a string. */
  quoted(node: number): void {
    const { body } = this.#tape;
    const start = this.#tape.start(node);
    const end = this.#tape.end(node);
    // An escape takes up to six bytes.
    this.reserve(6 * (end - start));
    const { bytes } = this;
    let at = this.count;
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
    this.count = at;
  }

  #separate(): void {
    const last = this.count === JsonWriter.ROOM ? COLON : this.bytes[this.count - 1];
    if (last !== OPEN_OBJECT && last !== OPEN_ARRAY && last !== COLON && last !== COMMA) this.latin1(',');
  }
}

const NO_BYTES = Buffer.alloc(0);

const HEX = '0123456789abcdef';
