// A JSON body as a tape: the span of each value in the order of the text, in typed memory that is used again. Strings are never decoded
// and numbers never reformatted on the way. Accepts what `scanBody` accepts.

import { HeadraceError } from '../errors.ts';
import { readName } from './json-names.ts';
import { CHECKED_DEPTH, invalidJson, readString, skipSpace, skipValue } from './json-scan.ts';
import { END, NAME, NEXT, NODE, numberIn, readByModule, Spans, UNREAD } from './json-scan-module.ts';

const QUOTE = 0x22;
const OPEN_ARRAY = 0x5b;
const OPEN_OBJECT = 0x7b;

const FIRST_NODES = 1024;
/** Most nodes that a scan leaves, and that are kept for the next text. */
const KEPT_NODES = 65_536;
/**
 * Most values that a text may have which is read value by value: to be translated, or parsed. A conversation of a million tokens has a tenth of
 * them, for texts and images are one value each.
 */
export const MAX_READ_VALUES: number = 256 * 1024;
/** A longer text is not kept after use. */
const MAX_KEPT_BYTES = 4 * 1024 * 1024;

/** No such node. */
const NONE = -1;

const NO_BYTES: Buffer = Buffer.alloc(0);

/**
 * The values of one JSON text. A node is a number: values in the order of the text, with each key of an object as a node before
 * its value. The text itself is `ROOT`.
 */
export class JsonTape extends Spans {
  static readonly ROOT = 0;
  /** No such node. */
  static readonly NONE = NONE;

  /** The text that was read last. */
  body: Buffer = NO_BYTES;
  #mostNodes = KEPT_NODES;
  #mostValues = Infinity;
  /** Values that are not on the tape any more. */
  #passedValues = 0;

  /** `isOfBody`: it has memory of its own; any other holds its values until the next text is scanned. */
  constructor(isOfBody = false) {
    super(NODE * FIRST_NODES, isOfBody);
  }

  /** Begins with the text that a scan reads next, which throws `TooManyValues` soon behind the first `mostValues` ones. */
  begin(body: Buffer, mostValues = Infinity): void {
    this.body = body;
    this.count = 0;
    this.isWhole = true;
    this.hasAddress = false;
    this.isPlain = false;
    this.#mostNodes = KEPT_NODES;
    this.#mostValues = mostValues;
    this.#passedValues = 0;
  }

  /** Values and keys of the text that was scanned last. */
  get values(): number {
    return this.#passedValues + this.count / NODE;
  }

  override extend(): void {
    if (this.words.length >= NODE * this.#mostNodes) {
      this.#passedValues += this.count / NODE;
      if (this.#passedValues > this.#mostValues) throw new TooManyValues();
      super.extend();
      return;
    }
    const larger = new Int32Array(2 * this.words.length);
    larger.set(this.words);
    this.words = larger;
  }

  /**
   * Reads `body`, unless that was scanned just before. Throws `HR_REQUEST_INVALID` with the offset of the first character that is wrong,
   * and `HR_REQUEST_UNTRANSLATABLE` when it has more than `MAX_READ_VALUES` values and keys.
   */
  read(body: Buffer): void {
    if (body === this.body && this.isWhole) return;
    this.begin(body, 0);
    this.#mostNodes = MAX_READ_VALUES;
    const start = skipSpace(body, 0, body.length);
    let end: number;
    try {
      const behind = readByModule(body, start, body.length, CHECKED_DEPTH, this);
      end = behind > 0 ? behind : skipValue(body, start, body.length, 0, CHECKED_DEPTH, this);
    } catch (thrown) {
      this.drop();
      throw thrown instanceof TooManyValues ? tooManyValues() : thrown;
    }
    const rest = end < 0 ? ~end : skipSpace(body, end, body.length);
    if (end >= 0 && rest === body.length) return;
    this.drop();
    throw new HeadraceError('HR_REQUEST_INVALID', { validation: invalidJson(body, rest).errors });
  }

  /** Reads `body`, unless it has anything unusual, or is no JSON: false then. A text that `scanMembers` has just read is not read again. */
  readUsual(body: Buffer): boolean {
    this.begin(body);
    const behind = readByModule(body, skipSpace(body, 0, body.length), body.length, CHECKED_DEPTH, this);
    if (behind > 0 && skipSpace(body, behind, body.length) === body.length) return true;
    this.drop();
    return false;
  }

  /** `body` is the text that was read, with another scalar, which has no escapes, where one ended at `from`: all behind it is `by` bytes later. */
  shift(body: Buffer, from: number, by: number): void {
    const { count, words } = this;
    for (let node = 0; node < count; node += NODE) {
      if ((words[node] as number) >= from) words[node] = (words[node] as number) + by;
      if (words[node + END] === from) words[node + NAME] = UNREAD;
      if ((words[node + END] as number) >= from) words[node + END] = (words[node + END] as number) + by;
    }
    this.body = body;
  }

  /** `body` is the text that was read without these ranges, which are in order; in each are parts of one string, or whole values. */
  cut(body: Buffer, ranges: readonly Range[]): void {
    const { count, words } = this;
    /** First node of each range, and the one behind its last. */
    const gone: number[] = [];
    let node = 0;
    for (const { end, start } of ranges) {
      while (node < count && (words[node] as number) < start) node += NODE;
      gone.push(node);
      while (node < count && (words[node] as number) < end) node += NODE;
      gone.push(node);
    }
    let to = 0;
    for (node = 0; node < count; node += NODE) {
      let next = words[node + NEXT] as number;
      let isGone = false;
      for (let at = 0; at < gone.length; at += 2) {
        const first = gone[at] as number;
        const behind = gone[at + 1] as number;
        isGone ||= node >= first && node < behind;
        if ((words[node + NEXT] as number) >= behind) next -= behind - first;
      }
      if (isGone) continue;
      const start = words[node] as number;
      const end = words[node + END] as number;
      const name = words[node + NAME] as number;
      words[to] = offsetWithout(ranges, start);
      words[to + END] = offsetWithout(ranges, end);
      words[to + NEXT] = next;
      words[to + NAME] = (words[to + END] as number) - (words[to] as number) === end - start ? name : UNREAD;
      to += NODE;
    }
    this.count = to;
    this.body = body;
  }

  /** Forgets a text that turned out to be broken. */
  drop(): void {
    this.body = NO_BYTES;
    this.isWhole = false;
    if (this.words.length > NODE * KEPT_NODES) this.words = new Int32Array(NODE * FIRST_NODES);
  }

  /** After use: gives back what an unusually large text took. */
  release(): void {
    if (this.body.length > MAX_KEPT_BYTES || this.words.length > NODE * KEPT_NODES) this.drop();
  }

  start(node: number): number {
    return this.words[node] as number;
  }

  end(node: number): number {
    return this.words[node + END] as number;
  }

  /** The node behind a value and all that is in it. */
  next(node: number): number {
    return this.words[node + NEXT] as number;
  }

  /** The first item of a list, or the first key of an object; equals `next(node)` when there is none. */
  first(node: number): number {
    return node + NODE;
  }

  /** The value of the member with this key. */
  override valueOf(key: number): number {
    return key + NODE;
  }

  /** The key of the member with this value. */
  keyOf(value: number): number {
    return value - NODE;
  }

  /** The first byte of a value, which tells its type; 0 of `NONE`, so that questions about it are answered with false. */
  #first(node: number): number {
    return node < 0 ? 0 : (this.body[this.start(node)] as number);
  }

  isObject(node: number): boolean {
    return this.#first(node) === OPEN_OBJECT;
  }

  isArray(node: number): boolean {
    return this.#first(node) === OPEN_ARRAY;
  }

  isString(node: number): boolean {
    return this.#first(node) === QUOTE;
  }

  isNull(node: number): boolean {
    return this.#first(node) === 0x6e;
  }

  isTrue(node: number): boolean {
    return this.#first(node) === 0x74;
  }

  isFalse(node: number): boolean {
    return this.#first(node) === 0x66;
  }

  /** Whether it is null, false, or a text, a list or an object with nothing in it. */
  isEmpty(node: number): boolean {
    switch (this.#first(node)) {
      case 0x6e:
      case 0x66:
        return true;
      case QUOTE:
        return this.end(node) === this.start(node) + 2;
      case OPEN_ARRAY:
      case OPEN_OBJECT:
        return this.next(node) === node + NODE;
      default:
        return false;
    }
  }

  /** The id of the name that a string is (`json-names.ts`), however it is written; 0 for any other value, and for `NONE`. */
  name(node: number): number {
    if (node < 0) return 0;
    const id = this.words[node + NAME] as number;
    return id >= 0 ? id : this.#readName(node);
  }

  #readName(node: number): number {
    const id = this.isString(node) ? readName(this.body, this.start(node), this.end(node)) : 0;
    this.words[node + NAME] = id;
    return id;
  }

  /** The value of the last member of an object whose key has this id; `NONE` without one, and when `object` is none. */
  member(object: number, name: number): number {
    let value: number = NONE;
    if (!this.isObject(object)) return value;
    const { words } = this;
    const end = words[object + NEXT] as number;
    for (let key = object + NODE; key < end; key = words[key + NODE + NEXT] as number) {
      const id = words[key + NAME] as number;
      if (id === name || (id < 0 && this.#readName(key) === name)) value = key + NODE;
    }
    return value;
  }

  /** The text of a string; undefined for other values, and for strings that JSON.parse would refuse. */
  string(node: number): string | undefined {
    return this.isString(node) ? readString(this.body, this.start(node), this.end(node)) : undefined;
  }

  /** NaN for what is no number. */
  number(node: number): number {
    const first = this.#first(node);
    const isNumber = first === 0x2d || (first >= 0x30 && first <= 0x39);
    return isNumber ? numberIn(this.body, this.start(node), this.end(node)) : Number.NaN;
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

/** Bytes `[start, end)` of a text. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

/** Where an offset, which is in none of these ranges, is when they have been taken out. */
export function offsetWithout(ranges: readonly Range[], offset: number): number {
  let moved = offset;
  for (const { end, start } of ranges) if (end <= offset) moved -= end - start;
  return moved;
}

/** A text has more values than it may have. */
export class TooManyValues extends Error {
  override readonly name = 'TooManyValues';
}

function tooManyValues(): HeadraceError {
  const msg = `It has more than ${MAX_READ_VALUES} values and keys.`;
  return new HeadraceError('HR_REQUEST_UNTRANSLATABLE', {
    subject: msg,
    validation: [{ loc: ['body'], msg, type: 'untranslatable' }],
  });
}
