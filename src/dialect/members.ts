// One pass over a JSON object that finds chosen top-level members as byte spans, without building any value.
// Called by scan.ts (request bodies), prefix.ts (single messages) and usage.ts (answers); the hot path of every request.
// Positions are byte offsets. A function that meets broken JSON returns `~offset` of the offending byte (always negative).
// The whole grammar is checked, nested levels included, except the inside of long strings: see skipString.

export const QUOTE = 0x22;
const BACKSLASH = 0x5c;
export const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_OBJECT = 0x7b;
export const OPEN_ARRAY = 0x5b;
/** In ASCII both closing brackets are their opening bracket plus two. */
const TO_CLOSING = 2;

/** How much of a skipped string is checked byte by byte; a native search is faster from here on (measured). */
const STRICT_BYTES = 16;

/** How many leading elements of an array member are remembered; a conversation seldom opens with more system messages. */
const MAX_ELEMENTS = 8;

/** Opening brackets of the containers being skipped; grows to the largest depth asked for. */
let containers = new Uint8Array(256);

const TRUE = Buffer.from('true');
const FALSE = Buffer.from('false');
const NULL = Buffer.from('null');

const IS_ESCAPE = new Uint8Array(256);
for (const letter of '"\\/bfnrtu') IS_ESCAPE[letter.charCodeAt(0)] = 1;
const IS_HEX = new Uint8Array(256);
for (const digit of '0123456789abcdefABCDEF') IS_HEX[digit.charCodeAt(0)] = 1;

/** The members to look for, prepared once by {@link memberTable}. */
export interface MemberTable {
  /** The spans of an object that has none of the members. */
  readonly absent: readonly number[];
  /** Key length in bytes -> the keys of that length. */
  readonly byLength: readonly (readonly Member[] | undefined)[];
  /** The same keys for the rare key that is written with escapes. */
  readonly byName: ReadonlyMap<string, Member>;
}

interface Member {
  readonly key: Uint8Array;
  /** Where the span starts in `Found.spans`; its end is the next item. */
  readonly at: number;
  readonly elements: boolean;
}

/** What {@link scanMembers} fills. Made by {@link found}, one for each scan. */
export interface Found {
  /** `[start, end)` of each member in table order, flattened; -1 when absent. Of duplicate keys the last wins. */
  readonly spans: number[];
  /** `[start, end)` of the first eight elements of the last array among the `elements` members, flattened. */
  readonly elements: number[];
}

/** Prepares the search for `names` (ASCII keys). For those also in `elements`, array elements are remembered. */
export function memberTable(names: readonly string[], elements: readonly string[] = []): MemberTable {
  const byLength: Member[][] = [];
  const byName = new Map<string, Member>();
  for (const [index, name] of names.entries()) {
    const member = { key: Buffer.from(name, 'latin1'), at: 2 * index, elements: elements.includes(name) };
    (byLength[name.length] ??= []).push(member);
    byName.set(name, member);
  }
  return { absent: names.flatMap(() => [-1, -1]), byLength: Array.from(byLength), byName };
}

/** An empty result for `table`. */
export function found(table: MemberTable): Found {
  return { spans: table.absent.slice(), elements: [] };
}

/**
 * Reads the object that starts at `start` (on its `{`) and fills `into`.
 * @param maxDepth deepest nesting allowed, this object being depth 1
 * @returns the offset behind the closing brace, or `~offset` of what is wrong
 */
export function scanMembers(
  body: Buffer,
  start: number,
  end: number,
  table: MemberTable,
  into: Found,
  maxDepth: number,
): number {
  if (maxDepth < 1) return ~start;
  let pos = skipSpace(body, start + 1, end);
  if (byteAt(body, pos, end) === OPEN_OBJECT + TO_CLOSING) return pos + 1;
  for (;;) {
    const keyStart = pos;
    if (byteAt(body, pos, end) !== QUOTE) return ~pos;
    const keyEnd = skipString(body, pos, end, end);
    if (keyEnd < 0) return keyEnd;
    const member = memberOf(body, keyStart, keyEnd, table);
    pos = skipColon(body, keyEnd, end);
    if (pos < 0) return pos;
    const valueStart = pos;
    if (member?.elements) into.elements.length = 0;
    pos =
      member?.elements && byteAt(body, pos, end) === OPEN_ARRAY
        ? skipElements(body, pos, end, into.elements, maxDepth)
        : skipValue(body, pos, end, 1, maxDepth);
    if (pos < 0) return pos;
    if (member !== undefined) {
      into.spans[member.at] = valueStart;
      into.spans[member.at + 1] = pos;
    }
    pos = skipSpace(body, pos, end);
    const next = byteAt(body, pos, end);
    if (next === OPEN_OBJECT + TO_CLOSING) return pos + 1;
    if (next !== COMMA) return ~pos;
    pos = skipSpace(body, pos + 1, end);
  }
}

/**
 * Skips the value whose first byte is at `start`.
 * @param outer how many containers surround it
 * @returns the offset behind it, or `~offset`
 */
export function skipValue(body: Buffer, start: number, end: number, outer: number, maxDepth: number): number {
  if (maxDepth > containers.length) containers = new Uint8Array(maxDepth);
  let pos = start;
  let depth = outer;
  for (;;) {
    const first = byteAt(body, pos, end);
    if (first === QUOTE) pos = skipString(body, pos, end, STRICT_BYTES);
    else if (first === OPEN_OBJECT || first === OPEN_ARRAY) {
      if (depth >= maxDepth) return ~pos;
      containers[depth++] = first;
      pos = skipSpace(body, pos + 1, end);
      if (byteAt(body, pos, end) !== first + TO_CLOSING) {
        if (first === OPEN_OBJECT) pos = skipKey(body, pos, end);
        if (pos < 0) return pos;
        continue;
      }
      depth--;
      pos++;
    } else pos = skipScalar(body, pos, end, first);
    if (pos < 0) return pos;

    while (depth > outer) {
      pos = skipSpace(body, pos, end);
      const next = byteAt(body, pos, end);
      const container = containers[depth - 1] as number;
      if (next === COMMA) {
        pos = skipSpace(body, pos + 1, end);
        if (container === OPEN_OBJECT) pos = skipKey(body, pos, end);
        if (pos < 0) return pos;
        break;
      }
      if (next !== container + TO_CLOSING) return ~pos;
      depth--;
      pos++;
    }
    if (depth === outer) return pos;
  }
}

/** The offset of the first byte at or behind `start` that is not JSON white space. */
export function skipSpace(body: Buffer, start: number, end: number): number {
  let pos = start;
  while (pos < end) {
    const byte = body[pos] as number;
    if (byte > 0x20 || (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09)) break;
    pos++;
  }
  return pos;
}

/**
 * Reads the string value `[start, end)` (quotes included) with every rule of JSON.
 * @returns the text, or undefined when JSON.parse would refuse it; invalid UTF-8 becomes U+FFFD
 */
export function readString(body: Buffer, start: number, end: number): string | undefined {
  let ascii = true;
  for (let pos = start + 1; pos < end - 1; pos++) {
    const byte = body[pos] as number;
    if (byte === BACKSLASH) return parseString(body, start, end);
    if (byte < 0x20) return undefined;
    if (byte > 0x7e) ascii = false;
  }
  return body.toString(ascii ? 'latin1' : 'utf8', start + 1, end - 1);
}

function parseString(body: Buffer, start: number, end: number): string | undefined {
  try {
    return JSON.parse(body.toString('utf8', start, end)) as string;
  } catch {
    return undefined;
  }
}

function byteAt(body: Buffer, pos: number, end: number): number {
  return pos < end ? (body[pos] as number) : 0;
}

function memberOf(body: Buffer, keyStart: number, keyEnd: number, table: MemberTable): Member | undefined {
  const length = keyEnd - keyStart - 2;
  const candidates = length < table.byLength.length ? table.byLength[length] : undefined;
  if (candidates !== undefined) {
    for (const candidate of candidates) {
      const key = candidate.key;
      let at = 0;
      while (at < length && body[keyStart + 1 + at] === key[at]) at++;
      if (at === length) return candidate;
    }
  }
  for (let pos = keyStart + 1; pos < keyEnd - 1; pos++) {
    if (body[pos] === BACKSLASH) return table.byName.get(parseString(body, keyStart, keyEnd) ?? '');
  }
  return undefined;
}

function skipElements(body: Buffer, start: number, end: number, elements: number[], maxDepth: number): number {
  if (maxDepth < 2) return ~start;
  let pos = skipSpace(body, start + 1, end);
  if (byteAt(body, pos, end) === OPEN_ARRAY + TO_CLOSING) return pos + 1;
  for (;;) {
    const elementStart = pos;
    pos = skipValue(body, pos, end, 2, maxDepth);
    if (pos < 0) return pos;
    if (elements.length < 2 * MAX_ELEMENTS) elements.push(elementStart, pos);
    pos = skipSpace(body, pos, end);
    const next = byteAt(body, pos, end);
    if (next === OPEN_ARRAY + TO_CLOSING) return pos + 1;
    if (next !== COMMA) return ~pos;
    pos = skipSpace(body, pos + 1, end);
  }
}

function skipKey(body: Buffer, start: number, end: number): number {
  if (byteAt(body, start, end) !== QUOTE) return ~start;
  const pos = skipString(body, start, end, STRICT_BYTES);
  return pos < 0 ? pos : skipColon(body, pos, end);
}

function skipColon(body: Buffer, start: number, end: number): number {
  const pos = skipSpace(body, start, end);
  return byteAt(body, pos, end) === COLON ? skipSpace(body, pos + 1, end) : ~pos;
}

/**
 * Skips the string that opens at `start`: strictly for its first `strictBytes`, then by native search for the closing
 * quote. Behind those bytes raw control characters and unknown escapes go unseen.
 */
function skipString(body: Buffer, start: number, end: number, strictBytes: number): number {
  let pos = start + 1;
  const limit = Math.min(pos + strictBytes, end);
  while (pos < limit) {
    const byte = body[pos] as number;
    if (byte === QUOTE) return pos + 1;
    if (byte < 0x20) return ~pos;
    if (byte !== BACKSLASH) pos++;
    else if ((pos = skipEscape(body, pos, end)) < 0) return pos;
  }
  for (;;) {
    const quote = pos < end ? body.indexOf(QUOTE, pos) : -1;
    if (quote < 0 || quote >= end) return ~start;
    let slash = quote;
    while (slash > pos && body[slash - 1] === BACKSLASH) slash--;
    pos = quote + 1;
    if (((quote - slash) & 1) === 0) return pos;
  }
}

function skipEscape(body: Buffer, start: number, end: number): number {
  const letter = byteAt(body, start + 1, end);
  if (IS_ESCAPE[letter] !== 1) return ~start;
  if (letter !== 0x75) return start + 2;
  for (let pos = start + 2; pos < start + 6; pos++) {
    if (IS_HEX[byteAt(body, pos, end)] !== 1) return ~start;
  }
  return start + 6;
}

function skipScalar(body: Buffer, start: number, end: number, first: number): number {
  if (first === 0x74) return skipWord(body, start, end, TRUE);
  if (first === 0x66) return skipWord(body, start, end, FALSE);
  if (first === 0x6e) return skipWord(body, start, end, NULL);
  return skipNumber(body, start, end);
}

function skipWord(body: Buffer, start: number, end: number, word: Uint8Array): number {
  if (start + word.length > end) return ~start;
  for (let at = 1; at < word.length; at++) {
    if (body[start + at] !== word[at]) return ~start;
  }
  return start + word.length;
}

function skipNumber(body: Buffer, start: number, end: number): number {
  let pos = start;
  if (byteAt(body, pos, end) === 0x2d) pos++;
  const whole = byteAt(body, pos, end);
  const afterWhole = whole === 0x30 ? pos + 1 : skipDigits(body, pos, end);
  if (afterWhole === pos) return ~start;
  pos = afterWhole;
  if (byteAt(body, pos, end) === 0x2e) {
    const afterFraction = skipDigits(body, pos + 1, end);
    if (afterFraction === pos + 1) return ~pos;
    pos = afterFraction;
  }
  if ((byteAt(body, pos, end) | 0x20) === 0x65) {
    const sign = byteAt(body, pos + 1, end);
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
