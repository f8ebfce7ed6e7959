// Scanner for JSON: one pass over the bytes finds chosen members of an object without building any value, and can leave the span of
// each value on a tape. It accepts what JSON.parse accepts, but for two things: raw control characters and unknown escapes behind
// the first 16 bytes of a string that is not read, and invalid UTF-8, pass; nesting deeper than `maxDepth` does not.

import type { ValidationEntry } from '../errors.ts';
import { parsedJson } from '../net/json-object.ts';
import { readName } from './json-names.ts';
import { END, NAME, NEXT, NODE, readByModule, type Spans, takeMembers, UNREAD, UNUSED } from './json-scan-module.ts';
import { type Found, MAX_ELEMENTS, type MemberTable, setMember } from './member-table.ts';

// Positions are byte offsets. A function that meets broken JSON returns `~offset` of the offending byte, which is negative.

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_OBJECT = 0x7b;
const OPEN_ARRAY = 0x5b;
/** In ASCII both closing brackets are their opening bracket plus two. */
const TO_CLOSING = 2;
const SPACE = 0x20;

/** How much of a skipped string is checked byte by byte; a native search is faster from here on (measured). */
const STRICT_BYTES = 16;

/** Deepest nesting of a body, or of an answer that repeats one: `limits.jsonDepth` was checked with the body, and scanning needs a limit all the same. */
export const CHECKED_DEPTH = 65_536;

/** Opening brackets of the containers that surround a skipped value, and their nodes; grow to the largest depth used. */
let brackets = new Uint8Array(256);
let nodes = new Int32Array(256);

const TRUE = Buffer.from('true');
const FALSE = Buffer.from('false');
const NULL = Buffer.from('null');

/** 1 at the bytes of a class. */
const IS_SPACE = tableOf(' \n\r\t');
const IS_ESCAPE = tableOf('"\\/bfnrtu');
const IS_HEX = tableOf('0123456789abcdefABCDEF');

function tableOf(chars: string): Uint8Array {
  const table = new Uint8Array(256);
  for (const char of chars) table[char.charCodeAt(0)] = 1;
  return table;
}

/**
 * Reads the object whose `{` is at `start` and fills `into`.
 * @param maxDepth deepest nesting allowed, this object being depth 1
 * @param spans gets the span of each value, this object being the first
 * @returns the offset behind the closing brace, or `~offset`
 */
export function scanMembers(
  body: Buffer,
  start: number,
  end: number,
  table: MemberTable,
  into: Found,
  maxDepth: number,
  spans = UNUSED,
): number {
  if (maxDepth < 1) return ~start;
  const behind = readByModule(body, start, end, maxDepth, spans);
  if (behind > 0) {
    takeMembers(body, spans.moduleWords, table, into);
    return behind;
  }
  const object = beginNode(spans, start);
  let pos = skipSpace(body, start + 1, end);
  if (pos < end && body[pos] === OPEN_OBJECT + TO_CLOSING) return endNode(spans, object, pos + 1);
  for (;;) {
    const keyStart = pos;
    if (pos >= end || body[pos] !== QUOTE) return ~pos;
    // Keys are read: all of their bytes are checked.
    const key = beginNode(spans, pos);
    pos = skipString(body, pos, end, end);
    if (pos < 0) return pos;
    endNode(spans, key, pos);
    const place = table.places[readName(body, keyStart, pos)] as number;
    const hasElements = place >= 0 && table.elements[place] === true;
    pos = skipSpace(body, pos, end);
    if (pos >= end || body[pos] !== COLON) return ~pos;
    pos = skipSpace(body, pos + 1, end);
    const valueStart = pos;
    if (hasElements) into.elements.length = 0;
    pos =
      hasElements && pos < end && body[pos] === OPEN_ARRAY
        ? skipElements(body, pos, end, into.elements, maxDepth, spans)
        : skipValue(body, pos, end, 1, maxDepth, spans);
    if (pos < 0) return pos;
    if (place >= 0) setMember(into, place, valueStart, pos);
    pos = skipSpace(body, pos, end);
    const next = pos < end ? (body[pos] as number) : 0;
    if (next === OPEN_OBJECT + TO_CLOSING) return endNode(spans, object, pos + 1);
    if (next !== COMMA) return ~pos;
    pos = skipSpace(body, pos + 1, end);
  }
}

function beginNode(spans: Spans, start: number): number {
  if (spans.count + 2 * NODE > spans.words.length) spans.extend();
  const node = spans.count;
  spans.words[node] = start;
  spans.words[node + NAME] = UNREAD;
  spans.count = node + NODE;
  return node;
}

/** Returns `end`. */
function endNode(spans: Spans, node: number, end: number): number {
  spans.words[node + END] = end;
  spans.words[node + NEXT] = spans.count;
  return end;
}

// The tape of the value that is being skipped: as fields of an object they are slower (measured).
let words: Int32Array = UNUSED.words;
let count = 0;

/**
 * Skips the value whose first byte is at `start`, its nested levels included.
 * @param outer number of containers around it
 * @param spans gets the span of each value
 * @returns the offset behind it, or `~offset`
 */
export function skipValue(
  body: Buffer,
  start: number,
  end: number,
  outer: number,
  maxDepth: number,
  spans = UNUSED,
): number {
  if (spans === UNUSED && body[start] === QUOTE && start < end) return skipString(body, start, end, STRICT_BYTES);
  ({ count, words } = spans);
  let pos = start;
  let depth = outer;
  for (;;) {
    // Room for this value and for the key of the next one.
    if (count + 2 * NODE > words.length) {
      spans.count = count;
      spans.extend();
      ({ count, words } = spans);
    }
    const node = count;
    count += NODE;
    words[node] = pos;
    words[node + NAME] = UNREAD;
    const first = pos < end ? (body[pos] as number) : 0;
    if (first === OPEN_OBJECT || first === OPEN_ARRAY) {
      if (depth >= maxDepth) return ~pos;
      if (depth >= brackets.length) deepen(maxDepth);
      brackets[depth] = first;
      nodes[depth++] = node;
      pos++;
      while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
      if (pos >= end || body[pos] !== first + TO_CLOSING) {
        if (first === OPEN_OBJECT) pos = skipKey(body, pos, end, spans);
        if (pos < 0) return pos;
        continue;
      }
      depth--;
      pos++;
    } else {
      pos = first === QUOTE ? skipString(body, pos, end, STRICT_BYTES) : skipScalar(body, pos, end, first);
      if (pos < 0) return pos;
    }
    words[node + END] = pos;
    words[node + NEXT] = count;

    while (depth > outer) {
      while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
      const next = pos < end ? (body[pos] as number) : 0;
      const container = brackets[depth - 1] as number;
      if (next === COMMA) {
        pos++;
        while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
        if (container === OPEN_OBJECT) pos = skipKey(body, pos, end, spans);
        if (pos < 0) return pos;
        break;
      }
      if (next !== container + TO_CLOSING) return ~pos;
      pos++;
      const closed = nodes[--depth] as number;
      words[closed + END] = pos;
      words[closed + NEXT] = count;
    }
    if (depth === outer) {
      spans.count = count;
      return pos;
    }
  }
}

/** Skips a nested key, its colon and the white space around it. */
function skipKey(body: Buffer, start: number, end: number, spans: Spans): number {
  if (start >= end || body[start] !== QUOTE) return ~start;
  let pos = skipString(body, start, end, STRICT_BYTES);
  if (pos < 0) return pos;
  words[count] = start;
  words[count + END] = pos;
  words[count + NAME] = UNREAD;
  words[count + NEXT] = count + NODE;
  count += NODE;
  const last = body[pos - 2] as number;
  const mayBeAddress = (last === 0x6c && (body[pos - 3] === 0x72 || body[pos - 3] === 0x32)) || (last | 0x20) === 0x63;
  if (mayBeAddress) spans.hasAddress ||= isAddressKey(body, start, pos);
  while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
  if (pos >= end || body[pos] !== COLON) return ~pos;
  pos++;
  while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
  return pos;
}

/** The last bytes of a key that ends with `url`, also where its letters are escaped: escapes have six bytes. */
const ADDRESS_KEY = /(?:u|\\u0075)(?:r|\\u0072)(?:l|\\u006c)"$/i;

function isAddressKey(body: Buffer, start: number, end: number): boolean {
  return ADDRESS_KEY.test(body.toString('latin1', Math.max(start, end - 19), end));
}

function deepen(maxDepth: number): void {
  const length = Math.min(2 * brackets.length, maxDepth);
  const [deeperBrackets, deeperNodes] = [new Uint8Array(length), new Int32Array(length)];
  deeperBrackets.set(brackets);
  deeperNodes.set(nodes);
  [brackets, nodes] = [deeperBrackets, deeperNodes];
}

/** The JSON value at `[start, end)`; undefined when there is none. */
export function parsedValue(bytes: Buffer, start: number, end: number): unknown {
  return parsedJson(bytes.toString('utf8', start, end));
}

/** The offset of the first byte at or behind `start` that is no JSON white space. */
export function skipSpace(body: Buffer, start: number, end: number): number {
  let pos = start;
  while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
  return pos;
}

/**
 * Reads the string value `[start, end)`, quotes included, by all rules of JSON.
 * @returns the text, in which invalid UTF-8 becomes U+FFFD; undefined when JSON.parse would refuse it
 */
export function readString(body: Buffer, start: number, end: number): string | undefined {
  let ascii = true;
  for (let pos = start + 1; pos < end - 1; pos++) {
    const byte = body[pos] as number;
    if (byte === BACKSLASH) return parsedValue(body, start, end) as string | undefined;
    if (byte < 0x20) return undefined;
    if (byte > 0x7e) ascii = false;
  }
  return body.toString(ascii ? 'latin1' : 'utf8', start + 1, end - 1);
}

function skipElements(
  body: Buffer,
  start: number,
  end: number,
  elements: number[],
  maxDepth: number,
  spans: Spans,
): number {
  if (maxDepth < 2) return ~start;
  const array = beginNode(spans, start);
  let pos = skipSpace(body, start + 1, end);
  if (pos < end && body[pos] === OPEN_ARRAY + TO_CLOSING) return endNode(spans, array, pos + 1);
  for (;;) {
    const elementStart = pos;
    pos = skipValue(body, pos, end, 2, maxDepth, spans);
    if (pos < 0) return pos;
    if (elements.length < 2 * MAX_ELEMENTS) elements.push(elementStart, pos);
    pos = skipSpace(body, pos, end);
    const next = pos < end ? (body[pos] as number) : 0;
    if (next === OPEN_ARRAY + TO_CLOSING) return endNode(spans, array, pos + 1);
    if (next !== COMMA) return ~pos;
    pos = skipSpace(body, pos + 1, end);
  }
}

/**
 * Skips the string that opens at `start`: its first `strictBytes` byte by byte, the rest by a native search for the
 * closing quote, which lets raw control characters and unknown escapes pass.
 */
function skipString(body: Buffer, start: number, end: number, strictBytes: number): number {
  let pos = start + 1;
  const limit = Math.min(pos + strictBytes, end);
  while (pos < limit) {
    const byte = body[pos] as number;
    // Most bytes are small letters, which are all above it.
    if (byte > BACKSLASH) pos++;
    else if (byte === QUOTE) return pos + 1;
    else if (byte < SPACE) return ~pos;
    else if (byte !== BACKSLASH) pos++;
    else if ((pos = skipEscape(body, pos, end)) < 0) return pos;
  }
  const quote = closingQuote(body, pos, end);
  return quote < 0 ? ~start : quote + 1;
}

/** How far behind an escape a string is read byte by byte: strings that are JSON themselves have escaped quotes all over. */
const NEAR_BYTES = 64;

/** The offset of the quote that closes a string; -1: there is none. `start`: in the string, and no byte of an escape but its first one. */
function closingQuote(body: Buffer, start: number, end: number): number {
  let pos = start;
  while (pos < end) {
    const quote = body.indexOf(QUOTE, pos);
    if (quote < 0 || quote >= end) return -1;
    let slash = quote;
    while (slash > pos && body[slash - 1] === BACKSLASH) slash--;
    if (((quote - slash) & 1) === 0) return quote;
    pos = quote + 1;
    for (let near = pos + NEAR_BYTES; pos < near && pos < end;) {
      const byte = body[pos] as number;
      if (byte === QUOTE) return pos;
      if (byte === BACKSLASH) {
        pos += 2;
        near = pos + NEAR_BYTES;
      } else pos++;
    }
  }
  return -1;
}

function skipEscape(body: Buffer, start: number, end: number): number {
  if (start + 1 >= end || IS_ESCAPE[body[start + 1] as number] !== 1) return ~start;
  if (body[start + 1] !== 0x75) return start + 2;
  for (let pos = start + 2; pos < start + 6; pos++) {
    if (pos >= end || IS_HEX[body[pos] as number] !== 1) return ~start;
  }
  return start + 6;
}

/** Skips a literal name or a number (RFC 8259 §3 and §6) whose first byte is `first`. */
function skipScalar(body: Buffer, start: number, end: number, first: number): number {
  const word = first === 0x74 ? TRUE : first === 0x66 ? FALSE : first === 0x6e ? NULL : undefined;
  if (word !== undefined) {
    if (start + word.length > end) return ~start;
    for (let at = 1; at < word.length; at++) if (body[start + at] !== word[at]) return ~start;
    return start + word.length;
  }
  let pos = first === 0x2d ? start + 1 : start;
  const afterWhole = pos < end && body[pos] === 0x30 ? pos + 1 : skipDigits(body, pos, end);
  if (afterWhole === pos) return ~start;
  pos = afterWhole;
  if (pos < end && body[pos] === 0x2e) {
    const afterFraction = skipDigits(body, pos + 1, end);
    if (afterFraction === pos + 1) return ~pos;
    pos = afterFraction;
  }
  if (pos < end && ((body[pos] as number) | 0x20) === 0x65) {
    const sign = pos + 1 < end ? body[pos + 1] : 0;
    const digits = sign === 0x2b || sign === 0x2d ? pos + 2 : pos + 1;
    const afterExponent = skipDigits(body, digits, end);
    if (afterExponent === digits) return ~pos;
    pos = afterExponent;
  }
  return pos;
}

function skipDigits(body: Buffer, start: number, end: number): number {
  let pos = start;
  while (pos < end) {
    const byte = body[pos] as number;
    if (byte < 0x30 || byte > 0x39) break;
    pos++;
  }
  return pos;
}

/** A body that is refused with 422 and these entries. */
export interface RejectedBody {
  readonly ok: false;
  readonly errors: readonly ValidationEntry[];
}

/** A body that is no JSON from the byte at `offset` on. */
export function invalidJson(body: Buffer, offset: number): RejectedBody {
  return rejected(['body', charsBefore(body, offset)], 'JSON decode error', 'json_invalid');
}

/** The 422 entry for JSON that is nested deeper than `maxDepth` at this position. */
export function tooDeep(position: number, maxDepth: number): ValidationEntry {
  const hint = `JSON should be nested at most ${maxDepth} levels deep`;
  return { loc: ['body', position], msg: 'JSON decode error', type: 'json_invalid', hint };
}

export function rejected(loc: (string | number)[], msg: string, type: string): RejectedBody {
  return { ok: false, errors: [{ loc, msg, type }] };
}

/** Code points that start before `offset`: clients are told characters, not bytes. */
function charsBefore(body: Buffer, offset: number): number {
  let chars = 0;
  for (let pos = 0; pos < offset; pos++) {
    if (((body[pos] as number) & 0xc0) !== 0x80) chars++;
  }
  return chars;
}
