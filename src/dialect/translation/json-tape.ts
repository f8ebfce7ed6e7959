// A JSON body as a tape: the span of each value in the order of the text, in typed memory that is used again, and a writer that
// makes another JSON text of such spans. Strings are never decoded and numbers never reformatted on the way. Accepts what
// `scanBody` accepts.

import { HeadraceError } from '../../errors.ts';
import { invalidJson, longStrings, readString, skipScalar, skipSpace, skipString, STRICT_BYTES } from '../json-scan.ts';

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;
/** In ASCII both closing brackets are their opening bracket plus two. */
const TO_CLOSING = 2;
const SPACE = 0x20;

/** The depth was checked with the body; reading needs a limit all the same. */
const MAX_DEPTH = 65_536;

/** Words per node: start and end of its span, and the node behind its subtree. */
const NODE = 3;
/** A tape that grew beyond this is given back after use: 64 Ki nodes. */
const KEPT_WORDS = NODE * 65_536;
/** Most nodes of a tape, which take 48 MiB. A body of more is no conversation: texts and images are one node each. */
const MAX_NODES = 4 * 1024 * 1024;
const FIRST_WORDS = NODE * 1024;
/** By how much a text may become longer before its memory grows. */
const MARGIN_BYTES = 512;

/**
 * The values of one JSON text. A node is a number: values in the order of the text, with each key of an object as a node before
 * its value. The text itself is `ROOT`.
 */
export class JsonTape {
  static readonly ROOT = 0;
  /** No such node. */
  static readonly NONE = -1;

  /** The text that was read last. */
  body: Buffer = NO_BYTES;
  #words = new Int32Array(FIRST_WORDS);
  /** Nodes of the containers around the value that is being read. */
  #open = new Int32Array(64);

  /**
   * Reads `body`. Throws `HR_REQUEST_INVALID` with the offset of the first character that is wrong, and `HR_REQUEST_UNTRANSLATABLE` when
   * it has more than four million values and keys.
   */
  read(body: Buffer): void {
    this.body = body;
    const offset = this.#read(body);
    if (offset >= 0) throw new HeadraceError('HR_REQUEST_INVALID', { validation: invalidJson(body, offset).errors });
  }

  /** Forgets the text, and gives back what an unusually large one took. */
  release(): void {
    this.body = NO_BYTES;
    if (this.#words.length > KEPT_WORDS) this.#words = new Int32Array(FIRST_WORDS);
  }

  /** Returns the offset of the first wrong byte; -1 without one. */
  #read(body: Buffer): number {
    const end = body.length;
    let words = this.#words;
    let open = this.#open;
    let count = 0;
    let depth = 0;
    let pos = skipSpace(body, 0, end);
    const known = longStrings(body);
    let nextKnown = 0;
    for (;;) {
      // Room for this value and for the key of the next one.
      if (count + 2 * NODE > words.length) {
        if (words.length >= NODE * MAX_NODES) throw tooManyValues();
        words = this.#words = grown(words);
      }
      const first = pos < end ? (body[pos] as number) : 0;
      const node = count;
      count += NODE;
      words[node] = pos;
      /** Of the container in which another value follows; 0 when none does. */
      let bracket = 0;
      if (first === QUOTE) {
        if (pos === known[nextKnown]) {
          pos = known[nextKnown + 1] as number;
          nextKnown += 2;
        } else {
          pos = stringEnd(body, pos, end);
          if (pos < 0) return ~pos;
        }
        words[node + 1] = pos;
        words[node + 2] = count;
      } else if (first === OPEN_OBJECT || first === OPEN_ARRAY) {
        if (depth === MAX_DEPTH) return pos;
        if (depth === open.length) open = this.#open = grown(open);
        open[depth++] = node;
        pos = nextToken(body, pos + 1, end);
        if (pos >= end || body[pos] !== first + TO_CLOSING) bracket = first;
      } else {
        pos = skipScalar(body, pos, end, first);
        if (pos < 0) return ~pos;
        words[node + 1] = pos;
        words[node + 2] = count;
      }
      while (bracket === 0 && depth > 0) {
        pos = nextToken(body, pos, end);
        const byte = pos < end ? (body[pos] as number) : 0;
        const container = open[depth - 1] as number;
        const opening = body[words[container] as number] as number;
        if (byte === COMMA) {
          pos = nextToken(body, pos + 1, end);
          bracket = opening;
        } else {
          if (byte !== opening + TO_CLOSING) return pos;
          depth--;
          words[container + 1] = ++pos;
          words[container + 2] = count;
        }
      }
      if (bracket === 0) {
        pos = skipSpace(body, pos, end);
        return pos < end ? pos : -1;
      }
      if (bracket === OPEN_OBJECT) {
        if (pos >= end || body[pos] !== QUOTE) return pos;
        words[count] = pos;
        if (pos === known[nextKnown]) {
          pos = known[nextKnown + 1] as number;
          nextKnown += 2;
        } else {
          pos = stringEnd(body, pos, end);
          if (pos < 0) return ~pos;
        }
        words[count + 1] = pos;
        count += NODE;
        words[count - 1] = count;
        pos = nextToken(body, pos, end);
        if (pos >= end || body[pos] !== COLON) return pos;
        pos = nextToken(body, pos + 1, end);
      }
    }
  }

  start(node: number): number {
    return this.#words[node] as number;
  }

  end(node: number): number {
    return this.#words[node + 1] as number;
  }

  /** The node behind a value and all that is in it. */
  next(node: number): number {
    return this.#words[node + 2] as number;
  }

  /** The first item of a list, or the first key of an object; equals `next(node)` when there is none. */
  first(node: number): number {
    return node + NODE;
  }

  /** The value of the member with this key. */
  valueOf(key: number): number {
    return key + NODE;
  }

  // Questions about `NONE` are answered with false.

  isObject(node: number): boolean {
    return this.body[this.start(node)] === OPEN_OBJECT;
  }

  isArray(node: number): boolean {
    return this.body[this.start(node)] === OPEN_ARRAY;
  }

  isString(node: number): boolean {
    return this.body[this.start(node)] === QUOTE;
  }

  isNull(node: number): boolean {
    return this.body[this.start(node)] === 0x6e;
  }

  isTrue(node: number): boolean {
    return this.body[this.start(node)] === 0x74;
  }

  isFalse(node: number): boolean {
    return this.body[this.start(node)] === 0x66;
  }

  /** Whether it is null, false, or a text, a list or an object with nothing in it. */
  isEmpty(node: number): boolean {
    const start = this.start(node);
    switch (this.body[start]) {
      case 0x6e:
      case 0x66:
        return true;
      case QUOTE:
        return this.end(node) === start + 2;
      case OPEN_ARRAY:
      case OPEN_OBJECT:
        return this.next(node) === node + NODE;
      default:
        return false;
    }
  }

  /** The value of the last member `name` (ASCII) of an object; `NONE` without one, and when `object` is none. */
  member(object: number, name: string): number {
    if (object < 0 || !this.isObject(object)) return JsonTape.NONE;
    let value = JsonTape.NONE;
    const end = this.next(object);
    for (let key = object + NODE; key < end; key = this.next(key + NODE)) {
      if (this.equals(key, name)) value = key + NODE;
    }
    return value;
  }

  /** Whether the value is the string `text` (ASCII), however it is written. */
  equals(node: number, text: string): boolean {
    const { body } = this;
    const start = this.start(node);
    if (body[start] !== QUOTE) return false;
    const length = this.end(node) - start - 2;
    if (length === text.length) {
      let at = 0;
      while (at < length && body[start + 1 + at] === text.charCodeAt(at)) at++;
      return at === length;
    }
    return length > text.length && this.isEscaped(node) && this.string(node) === text;
  }

  /** Whether a string is written with escapes. */
  isEscaped(node: number): boolean {
    const { body } = this;
    const end = this.end(node) - 1;
    for (let pos = this.start(node) + 1; pos < end; pos++) if (body[pos] === BACKSLASH) return true;
    return false;
  }

  /** The text of a string; undefined for other values, and for strings that JSON.parse would refuse. */
  string(node: number): string | undefined {
    return node >= 0 && this.isString(node) ? readString(this.body, this.start(node), this.end(node)) : undefined;
  }

  /** NaN for what is no number. */
  number(node: number): number {
    if (node < 0) return Number.NaN;
    const first = this.body[this.start(node)] as number;
    const isNumber = first === 0x2d || (first >= 0x30 && first <= 0x39);
    return isNumber ? Number(this.body.toString('latin1', this.start(node), this.end(node))) : Number.NaN;
  }

  /**
   * Where a value is: keys and indexes from the text itself to the value; nothing for `NONE`. Its cost is linear in what stands before it.
   */
  path(node: number): (string | number)[] {
    const path: (string | number)[] = [];
    if (node < 0) return path;
    let at = JsonTape.ROOT;
    while (at !== node) {
      const isObject = this.isObject(at);
      let child = at + NODE;
      let index = 0;
      if (isObject) {
        while (child + NODE !== node && this.next(child + NODE) <= node) child = this.next(child + NODE);
        path.push(this.string(child) ?? '');
        child += NODE;
      } else {
        while (this.next(child) <= node) {
          child = this.next(child);
          index++;
        }
        path.push(index);
      }
      at = child;
    }
    return path;
  }
}

const NO_BYTES: Buffer = Buffer.alloc(0);

/** Empties a list that is used again. Setting its `length` is a call out of compiled code, and frees memory that is needed next. */
export function clearList(list: unknown[]): void {
  while (list.length > 0) list.pop();
}

function tooManyValues(): HeadraceError {
  const msg = `It has more than ${MAX_NODES} values and keys.`;
  return new HeadraceError('HR_REQUEST_UNTRANSLATABLE', {
    subject: msg,
    validation: [{ loc: ['body'], msg, type: 'untranslatable' }],
  });
}

function grown(words: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(2 * words.length);
  larger.set(words);
  return larger;
}

/** As `skipSpace`, for where there is mostly none. */
function nextToken(body: Buffer, at: number, end: number): number {
  return at < end && (body[at] as number) > SPACE ? at : skipSpace(body, at, end);
}

/** As `skipString`, for what is mostly short and without escapes. */
function stringEnd(body: Buffer, start: number, end: number): number {
  const limit = Math.min(start + 1 + SHORT_STRING, end);
  for (let pos = start + 1; pos < limit; pos++) {
    const byte = body[pos] as number;
    if (byte === QUOTE) return pos + 1;
    if (byte < SPACE || byte === BACKSLASH) break;
  }
  return skipString(body, start, end, STRICT_BYTES);
}

/** Most strings of requests that are not text are shorter. */
const SHORT_STRING = 24;

/** A native copy costs about as much as this many bytes one by one. */
const SHORT_BYTES = 32;

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
    this.#bytes = Buffer.allocUnsafeSlow(this.#tape.body.length + MARGIN_BYTES);
    this.#length = 0;
  }

  /** What was written since `begin`, in memory of its own. */
  take(): Buffer {
    const bytes = this.#bytes;
    this.#bytes = NO_BYTES;
    if (bytes.length - this.#length <= MARGIN_BYTES + this.#length / 8) return bytes.subarray(0, this.#length);
    const taken = Buffer.allocUnsafeSlow(this.#length);
    bytes.copy(taken, 0, 0, this.#length);
    return taken;
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
    this.#copy(this.#tape.start(key), this.#tape.end(this.#tape.valueOf(key)));
  }

  /** Writes a value of the tape as it is written there. */
  value(node: number): void {
    this.#copy(this.#tape.start(node), this.#tape.end(node));
  }

  /** Writes the inside of a string of the tape, without its quotes. */
  inside(node: number): void {
    this.#copy(this.#tape.start(node) + 1, this.#tape.end(node) - 1);
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

  #copy(start: number, end: number): void {
    const { body } = this.#tape;
    const length = end - start;
    if (this.#length + length > this.#bytes.length) this.#grow(length);
    const bytes = this.#bytes;
    const at = this.#length;
    if (length <= SHORT_BYTES)
      for (let index = 0; index < length; index++) bytes[at + index] = body[start + index] as number;
    else body.copy(bytes, at, start, end);
    this.#length = at + length;
  }

  #grow(room: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(2 * this.#bytes.length, this.#length + room));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}

const HEX = '0123456789abcdef';
