// A writer of JSON from texts of the program and from the values of a tape.

import { copyHeld, hold, holds, quoteHeld, WRITTEN } from '../json-scan-module.ts';
import { JsonTape } from '../json-tape.ts';
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

/** ASCII text of the program that is written many times in a request: a third of the time that a string takes (measured). */
export interface Literal {
  readonly length: number;
  /** Eight characters each, with zeros behind the last ones. No text of ASCII is NaN. */
  readonly words: Float64Array;
}

/** Bytes of a number. */
const WORD = 8;

/** @param text ASCII */
export function literal(text: string): Literal {
  const { length } = text;
  const bytes = Buffer.alloc(Math.ceil(length / WORD) * WORD);
  bytes.write(text, 'ascii');
  const words = Float64Array.from({ length: bytes.length / WORD }, (_, at) => bytes.readDoubleLE(WORD * at));
  return { length, words };
}

/** Most bytes of an escape. */
const ESCAPE_BYTES = 6;

/** The key of a member as it is written. */
export type JsonKey = `"${string}":`;

/** Empties a list that is used again. Setting its `length` is a call out of compiled code, and frees memory that is needed next. */
export function clearList(list: unknown[]): void {
  while (list.length > 0) list.pop();
}

/**
 * Memory of texts that nobody needs any more: to write new memory takes longer than to make what is written (measured). All requests that
 * come in one turn of the event loop are translated before the first of them is sent.
 */
const spares: Memory[] = [];
let spareBytes = 0;
const MAX_SPARE_BYTES = 1024 * 1024;
/** A larger one is given back to the system. */
const MAX_SPARE = 256 * 1024;
const MIN_BYTES = 32 * 1024;

/** A block of memory, seen in two ways. */
interface Memory {
  readonly bytes: Buffer;
  readonly view: DataView;
}

function memoryOf(bytes: Buffer): Memory {
  return { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.length) };
}

function memoryFor(size: number): Memory {
  const spare = spares.pop();
  if (spare !== undefined) {
    spareBytes -= spare.bytes.length;
    if (spare.bytes.length >= size) return spare;
    freeMemory(spare.bytes);
  }
  return memoryOf(Buffer.allocUnsafeSlow(Math.max(size, MIN_BYTES)));
}

const NO_BYTES: Buffer = Buffer.alloc(0);
const NO_MEMORY = memoryOf(NO_BYTES);
/** Texts are written there, beside the values that are copied, unless they are large. */
const MODULE_MEMORY = memoryOf(WRITTEN);

/** A text in memory of its own. */
export interface WrittenText {
  readonly text: Buffer;
  readonly memory: Memory;
}

/** Writes JSON from texts of the program and from values of a tape. Commas are set where a value follows another one. */
export class JsonWriter extends ByteWriter {
  /** Bytes before each text in its memory. */
  static readonly ROOM = 2048;

  readonly #tape: JsonTape;
  #memory: Memory = NO_MEMORY;

  constructor(tape: JsonTape) {
    super(0);
    this.#tape = tape;
  }

  /** Begins another text, which will be about as long as that of the tape. */
  begin(): void {
    const { body } = this.#tape;
    const size = JsonWriter.ROOM + body.length + MARGIN_BYTES;
    const isLarge = size > WRITTEN.length;
    if (!isLarge) hold(body, this.#tape.start(JsonTape.ROOT), this.#tape.end(JsonTape.ROOT));
    this.#memory = isLarge ? memoryFor(size) : MODULE_MEMORY;
    this.bytes = this.#memory.bytes;
    // No comma belongs before the first value.
    this.bytes[JsonWriter.ROOM - 1] = COLON;
    this.count = JsonWriter.ROOM;
  }

  /** What was written since `begin`, in memory of its own. */
  take(): WrittenText {
    let memory = this.#grownMemory();
    if (memory === MODULE_MEMORY) {
      memory = memoryFor(this.count);
      WRITTEN.copy(memory.bytes, JsonWriter.ROOM, JsonWriter.ROOM, this.count);
    }
    this.#memory = NO_MEMORY;
    this.bytes = NO_BYTES;
    return { text: memory.bytes.subarray(JsonWriter.ROOM, this.count), memory };
  }

  /** Takes the memory of a text for the next one. Nobody may need the text any more. */
  static give({ memory }: WrittenText): void {
    const { length } = memory.bytes;
    if (length > MAX_SPARE || spareBytes + length > MAX_SPARE_BYTES) {
      freeMemory(memory.bytes);
      return;
    }
    spareBytes += length;
    spares.push(memory);
  }

  /** Takes back what was written behind the first `length` bytes. */
  takeBack(length: number): void {
    this.count = length;
  }

  /** Writes ASCII text of the program as the next member or item: behind a comma, unless it is the first one. */
  next(text: Literal | string): void {
    this.#separate();
    if (typeof text === 'string') this.latin1(text);
    else this.literal(text);
  }

  literal({ length, words }: Literal): void {
    this.reserve(length + WORD);
    const { count } = this;
    const { view } = this.#grownMemory();
    for (let at = 0; at < words.length; at++) view.setFloat64(count + WORD * at, words[at] as number, true);
    this.count = count + length;
  }

  #grownMemory(): Memory {
    if (this.#memory.bytes !== this.bytes) this.#memory = memoryOf(this.bytes);
    return this.#memory;
  }

  /** Writes a member with a value of the tape as it is written there. */
  carry(key: Literal | JsonKey, node: number): void {
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
    this.#copy(this.#tape.start(key), this.#tape.end(this.#tape.valueOf(key)));
  }

  /** Writes a value of the tape as it is written there. */
  value(node: number): void {
    this.#copy(this.#tape.start(node), this.#tape.end(node));
  }

  /** Writes the inside of a string of the tape, without its quotes. Refuses any other value: its inside would be read as JSON. */
  inside(node: number): void {
    if (!this.#tape.isString(node)) throw untranslatable(this.#tape, node, 'It is no text.');
    this.#copy(this.#tape.start(node) + 1, this.#tape.end(node) - 1);
  }

  /** Writes a value of the tape, as the JSON text that it is, as the inside of a string. */
  quoted(node: number): void {
    const { body } = this.#tape;
    const start = this.#tape.start(node);
    const end = this.#tape.end(node);
    this.reserve(ESCAPE_BYTES * (end - start) + MARGIN_BYTES);
    if (this.bytes === WRITTEN && holds(body)) {
      this.count = quoteHeld(this.count, start, end);
      return;
    }
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

  /** Copies a part of the text of the tape. */
  #copy(start: number, end: number): void {
    const { body } = this.#tape;
    const length = end - start;
    this.reserve(length);
    if (this.bytes !== WRITTEN || !holds(body)) {
      this.copy(body, start, end);
      return;
    }
    copyHeld(this.count, start, end);
    this.count += length;
  }

  #separate(): void {
    this.reserve(1);
    if (!isOpen(this.bytes[this.count - 1])) this.bytes[this.count++] = COMMA;
  }
}

/** Whether no comma belongs behind this byte. */
function isOpen(last: number | undefined): boolean {
  return last === OPEN_OBJECT || last === OPEN_ARRAY || last === COLON || last === COMMA;
}

const HEX = '0123456789abcdef';
