// The scan of JSON by the WebAssembly module of json-scan.wat, which reads texts without surprises, and what is taken from the tape that it
// leaves. Any other text is read by json-scan.ts.

import { scanner } from './json-names.ts';
import { type Found, MAX_ELEMENTS, type MemberTable, setMember } from './member-table.ts';
import { IS_LITTLE_ENDIAN } from './wasm.ts';

const OPEN_OBJECT = 0x7b;
const OPEN_ARRAY = 0x5b;

const NO_ELEMENTS: readonly number[] = Array.from({ length: 2 * MAX_ELEMENTS }, () => 0);

/** Words per node of a tape. The first one is the start of its span. */
export const NODE = 4;
/** The word with the end of its span. */
export const END = 1;
/** The one with the node behind its subtree. */
export const NEXT = 2;
/** The one with the id of the name that it is (`json-names.ts`), if it is a string; else 0, or `UNREAD`. */
export const NAME = 3;
/** Nobody has looked: JavaScript reads names where they are asked for. */
export const UNREAD = -1;

const { copy, memory, quote, scan } = scanner;
const text = new Uint8Array(memory.buffer);
const flags = new Uint8Array(memory.buffer, 0x402000, 2);

const TEXT = 0x40;
/** A copy into the module costs more than it saves for shorter objects, and has no room for longer ones. */
const LEAST_BYTES = 64;
const MOST_BYTES = 4 * 1024 * 1024;
const MOST_LEVELS = 512;
/** Numbers of so many digits are below 2^53. */
const SAFE_DIGITS = 15;
/** Bytes for one open container. */
const LEVEL = 8;
const NODE_BYTES = 4 * NODE;

/** Nodes of a tape in the memory of the module, which has two. */
const MODULE_NODES = 65_536;
const BODY_TAPE = 0x403000;
const OTHER_TAPE = 0x503000;
const WRITTEN_AT = 0x610000;

/**
 * The spans of the values of one text, in the order of the text, with each key of an object as a node before its value. One that is full
 * begins again at its first word, and is not whole from then on.
 */
export class Spans {
  /** @internal */
  words: Int32Array<ArrayBuffer>;
  /** @internal Words in the memory of the module, for texts that it can read. */
  readonly moduleWords: Int32Array<ArrayBuffer>;
  /** @internal Words that are written. */
  count = 0;
  /** Whether it has all values of the text. */
  isWhole = true;
  /** Whether a nested key ends with `url`. */
  hasAddress = false;
  /** Whether no key has escapes, and no string an escape with a shorter form: `\u` or `\/`. False where that is not known. */
  isPlain = false;

  /** @param isBody whether it holds the tape of the body that was scanned last; any other holds none after a scan. */
  constructor(words: number, isBody: boolean) {
    this.words = new Int32Array(words);
    this.moduleWords = new Int32Array(memory.buffer, isBody ? BODY_TAPE : OTHER_TAPE, NODE * MODULE_NODES);
  }

  /** Makes room for a value and a key behind the words that are written. */
  extend(): void {
    this.isWhole = false;
    this.count = 0;
  }
}

/** The text that the module holds, or a part of it: from offset `heldFrom` to `heldEnd`. */
let held: Buffer | null = null;
let heldFrom = 0;
let heldEnd = 0;

/** Memory of the module for a text that is written from parts of the one that it holds. */
export const WRITTEN: Buffer = Buffer.from(memory.buffer, WRITTEN_AT, 1024 * 1024);

/** Has the module hold the text, from `start` to `end`, of at most 4 MiB, until it scans another one. */
export function hold(body: Buffer, start: number, end: number): void {
  if (held === body && heldFrom <= start && heldEnd >= end) return;
  body.copy(text, TEXT, start, end);
  held = body;
  heldFrom = start;
  heldEnd = end;
}

/** Whether the module still holds the text. */
export function holds(body: Buffer): boolean {
  return held === body;
}

/** Copies a part of the text that it holds to `to` in `WRITTEN`: a fifth of the time that Buffer takes (measured). */
export function copyHeld(to: number, start: number, end: number): void {
  copy(WRITTEN_AT + to, start - heldFrom + TEXT, end - start);
}

/**
 * Writes a part of the text that it holds, which is JSON, to `to` in `WRITTEN` as the inside of a string.
 * @returns the offset behind it; up to 15 bytes behind that are written to
 */
export function quoteHeld(to: number, start: number, end: number): number {
  return quote(WRITTEN_AT + to, start - heldFrom + TEXT, end - start) - WRITTEN_AT;
}

/** For who does not want them; its keys are not looked at for addresses. */
export const UNUSED: Spans = new Spans(NODE * 1024, false);
UNUSED.hasAddress = true;
/** The text whose values the module has left in `UNUSED`. */
let lastRead: Buffer | null = null;

/**
 * Reads the value whose first byte is at `start`, if it is neither too long nor too short and has nothing unusual: a fifth of the
 * instructions that JavaScript takes (measured).
 * @param spans its `moduleWords` get the span of each value; other objects than `UNUSED` take them over
 * @returns the offset behind the value; 0 when it is to be read by JavaScript
 */
export function readByModule(body: Buffer, start: number, end: number, maxDepth: number, spans: Spans): number {
  const { moduleWords } = spans;
  if (!isOnTape(body, start, end, spans) && !scanByModule(body, start, end, maxDepth, moduleWords)) return 0;
  if (spans === UNUSED) {
    lastRead = body;
  } else {
    if (spans.words !== moduleWords) spans.words = moduleWords;
    spans.count = moduleWords[NEXT] as number;
    spans.hasAddress = flags[0] === 1;
    spans.isPlain = flags[1] === 0;
  }
  return moduleWords[END] as number;
}

/** Whether the module has just read the value without a tape, on the words that `spans` takes. */
function isOnTape(body: Buffer, start: number, end: number, spans: Spans): boolean {
  const { moduleWords } = spans;
  const hasWords = spans !== UNUSED && moduleWords.byteOffset === UNUSED.moduleWords.byteOffset;
  return hasWords && body === lastRead && moduleWords[0] === start && (moduleWords[END] as number) <= end;
}

function scanByModule(body: Buffer, start: number, end: number, maxDepth: number, words: Int32Array): boolean {
  lastRead = held = null;
  const length = end - start;
  if (length < LEAST_BYTES || length > MOST_BYTES || !IS_LITTLE_ENDIAN) return false;
  hold(body, start, end);
  text[TEXT + length] = 0;
  const tape = words.byteOffset;
  const room = tape + NODE_BYTES * (MODULE_NODES - 2);
  return scan(start - TEXT, tape, room, LEVEL * Math.min(maxDepth, MOST_LEVELS)) !== 0;
}

/** Takes the members of the object that the module has left on `tape`. */
export function takeMembers(body: Buffer, tape: Int32Array, table: MemberTable, into: Found): void {
  const { elements, places } = table;
  const count = tape[NEXT] as number;
  for (let key = NODE; key < count; key = tape[key + NODE + NEXT] as number) {
    const place = places[tape[key + NAME] as number] as number;
    if (place < 0) continue;
    const value = key + NODE;
    if (elements[place] === true) into.elements = firstElements(tape, value, body);
    setMember(into, place, tape[value] as number, tape[value + END] as number);
  }
}

/**
 * Numbers in an object that is a member of the text which `scanMembers` has read last without a tape, by their names; those of objects in it
 * are objects. Other values are NaN. A sixth of the instructions that JSON.parse takes (measured).
 * @param start where the object begins
 * @param table names of the numbers and of such objects
 * @returns undefined when the object is to be parsed
 */
export function scannedNumbers(body: Buffer, start: number, table: MemberTable): Record<string, unknown> | undefined {
  if (body !== lastRead || body[start] !== OPEN_OBJECT) return undefined;
  const tape = UNUSED.moduleWords;
  const count = tape[NEXT] as number;
  for (let key = NODE; key < count; key = tape[key + NODE + NEXT] as number) {
    if (tape[key + NODE] === start) return numbersAt(tape, key + NODE, table, 2);
  }
  return undefined;
}

function numbersAt(tape: Int32Array, object: number, table: MemberTable, levels: number): Record<string, unknown> {
  const numbers: Record<string, unknown> = {};
  const base = (tape[0] as number) - TEXT;
  const end = tape[object + NEXT] as number;
  for (let key = object + NODE; key < end; key = tape[key + NODE + NEXT] as number) {
    const place = table.places[tape[key + NAME] as number] as number;
    if (place < 0) continue;
    const value = key + NODE;
    const at = (tape[value] as number) - base;
    numbers[table.names[place] as string] =
      text[at] === OPEN_OBJECT && levels > 1
        ? numbersAt(tape, value, table, levels - 1)
        : numberIn(text, at, (tape[value + END] as number) - base);
  }
  return numbers;
}

/** The number that `[start, end)` is; NaN for another value. */
export function numberIn(bytes: Uint8Array, start: number, end: number): number {
  let number = 0;
  for (let at = start; at < end; at++) {
    const digit = (bytes[at] as number) - 0x30;
    if (digit < 0 || digit > 9 || at - start === SAFE_DIGITS) return otherNumber(bytes, start, end);
    number = number * 10 + digit;
  }
  return number;
}

function otherNumber({ buffer, byteOffset }: Uint8Array, start: number, end: number): number {
  const written = Buffer.from(buffer, byteOffset + start, end - start).toString('latin1');
  return /^[\d-]/.test(written) ? Number(written) : Number.NaN;
}

/** The spans of the first elements of a value on a tape; none when it is no array. */
function firstElements(tape: Int32Array, value: number, body: Buffer): number[] {
  const last = body[tape[value] as number] === OPEN_ARRAY ? (tape[value + NEXT] as number) : 0;
  let count = 0;
  for (let at = value + NODE; at < last && count < MAX_ELEMENTS; at = tape[at + NEXT] as number) count++;
  // An array that grows is allocated twice.
  const elements = NO_ELEMENTS.slice(0, 2 * count);
  for (let i = 0, at = value + NODE; i < 2 * count; i += 2, at = tape[at + NEXT] as number) {
    elements[i] = tape[at] as number;
    elements[i + 1] = tape[at + END] as number;
  }
  return elements;
}
