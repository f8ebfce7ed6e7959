// The bytes of a prompt on their way into blocks: texts, JSON values and attachments are appended in one canonical form, then cut into
// blocks whose 64-bit hashes are chained. Equal text has equal bytes, however a client wrote it in JSON. Appending does not allocate.

import { crc32 } from 'node:zlib';
import { readString, skipSpace } from './json-scan.ts';

const QUOTE = 0x22;
const SLASH = 0x2f;
const BACKSLASH = 0x5c;
const LETTER_U = 0x75;

/** Blocks up to `SMALL_BYTES` of prompt have this many bytes: about 128 tokens, a few KV blocks of a server. */
const SMALL_BLOCK = 512;
/** Longer prompts differ late or not at all: larger blocks keep the index small. */
const LARGE_BLOCK = 2048;
const SMALL_BYTES = 64 * 1024;
const SMALL_COUNT = SMALL_BYTES / SMALL_BLOCK;
/** Bytes of prompt that are hashed; what follows is only counted. */
const MOST_BYTES = 1024 * 1024;
const MOST_COUNT = SMALL_COUNT + (MOST_BYTES - SMALL_BYTES) / LARGE_BLOCK;

/**
 * Prompt bytes of an attachment: an image of a megapixel is about 1,000 tokens in the vision models of today, and a token is about
 * four bytes of text.
 */
const ATTACHMENT_BYTES = 4096;

/** Room behind the last hashed byte, for a character that passes it. */
const bytes = new Uint8Array(MOST_BYTES + 16);
const words = new Int32Array(bytes.buffer);
/** A segment that moves within the stream. */
let moved = new Uint8Array(256);

/** Bytes appended since `begin`, those that were only counted included. */
let size = 0;
/** The first backslash of the body at or behind `searchedFrom`; its length when there is none. */
let backslash = -1;
let searchedFrom = 0;

/** Two words per whole block. */
export const hashes: Int32Array = new Int32Array(2 * MOST_COUNT);

/** Begins a new stream. All appended spans are of one body until the next call. */
export function begin(): void {
  size = 0;
  backslash = -1;
}

export function sizeOf(): number {
  return size;
}

/** Bytes of a prompt up to the end of its first `count` blocks. */
export function blockBytes(count: number): number {
  return count <= SMALL_COUNT ? count * SMALL_BLOCK : SMALL_BYTES + (count - SMALL_COUNT) * LARGE_BLOCK;
}

/** Whole blocks in `length` bytes of prompt. */
function blocksIn(length: number): number {
  if (length <= SMALL_BYTES) return Math.floor(length / SMALL_BLOCK);
  return SMALL_COUNT + Math.floor((Math.min(length, MOST_BYTES) - SMALL_BYTES) / LARGE_BLOCK);
}

export function putByte(byte: number): void {
  if (size < MOST_BYTES) bytes[size] = byte;
  size++;
}

/** Appends `[from, to)` of `body` as it is. */
function putBytes(body: Buffer, from: number, to: number): void {
  const length = to - from;
  const room = MOST_BYTES - size;
  if (length <= 24 && length <= room) {
    for (let at = 0; at < length; at++) bytes[size + at] = body[from + at] as number;
  } else if (room > 0) {
    body.copy(bytes, size, from, length < room ? to : from + room);
  }
  size += length;
}

/** Counts bytes that are not hashed, and ends the hashed part. */
export function putUnread(length: number): void {
  size = Math.max(size, MOST_BYTES) + length;
}

/**
 * Appends the text of the string that opens at `start`, as JSON.stringify would write it between the quotes.
 * @returns the offset behind the closing quote
 */
export function putString(body: Buffer, start: number): number {
  let from = start + 1;
  let pos = from;
  for (;;) {
    const quote = body.indexOf(QUOTE, pos);
    if (quote < 0) return body.length;
    if (backslash < pos || searchedFrom > pos) {
      searchedFrom = pos;
      backslash = body.indexOf(BACKSLASH, pos);
      if (backslash < 0) backslash = body.length;
    }
    if (backslash > quote) {
      putBytes(body, from, quote);
      return quote + 1;
    }
    const escape = body[backslash + 1];
    if (escape === LETTER_U) {
      putBytes(body, from, backslash);
      pos = from = putCodePoint(body, backslash);
    } else if (escape === SLASH) {
      putBytes(body, from, backslash);
      from = backslash + 1;
      pos = backslash + 2;
    } else {
      pos = backslash + 2;
    }
  }
}

function hexAt(body: Buffer, at: number): number {
  let value = 0;
  for (let pos = at; pos < at + 4; pos++) {
    const byte = body[pos] as number;
    value = (value << 4) | (byte <= 0x39 ? byte & 15 : (byte & 7) + 9);
  }
  return value;
}

const SHORT_ESCAPES: ReadonlyMap<number, number> = new Map([
  [0x08, 0x62],
  [0x09, 0x74],
  [0x0a, 0x6e],
  [0x0c, 0x66],
  [0x0d, 0x72],
  [QUOTE, QUOTE],
  [BACKSLASH, BACKSLASH],
]);
const HEX = Buffer.from('0123456789abcdef');

/** Appends the character of the `\u` escape at `at`, of two such escapes if they are a surrogate pair; returns what follows. */
function putCodePoint(body: Buffer, at: number): number {
  const unit = hexAt(body, at + 2);
  const short = SHORT_ESCAPES.get(unit);
  if (short !== undefined) {
    putByte(BACKSLASH);
    putByte(short);
  } else if (unit < 0x20 || (unit & 0xf800) === 0xd800) {
    if ((unit & 0xfc00) === 0xd800 && body[at + 6] === BACKSLASH && body[at + 7] === LETTER_U) {
      const low = hexAt(body, at + 8);
      if ((low & 0xfc00) === 0xdc00) {
        const point = 0x10000 + ((unit & 0x3ff) << 10) + (low & 0x3ff);
        putByte(0xf0 | (point >> 18));
        putByte(0x80 | ((point >> 12) & 63));
        putByte(0x80 | ((point >> 6) & 63));
        putByte(0x80 | (point & 63));
        return at + 12;
      }
    }
    putByte(BACKSLASH);
    putByte(LETTER_U);
    for (let shift = 12; shift >= 0; shift -= 4) putByte(HEX[(unit >> shift) & 15] as number);
  } else if (unit < 0x80) {
    putByte(unit);
  } else if (unit < 0x800) {
    putByte(0xc0 | (unit >> 6));
    putByte(0x80 | (unit & 63));
  } else {
    putByte(0xe0 | (unit >> 12));
    putByte(0x80 | ((unit >> 6) & 63));
    putByte(0x80 | (unit & 63));
  }
  return at + 6;
}

/** Appends the JSON value `[start, end)` without white space between its tokens, its members in the order in which they stand. */
export function putValue(body: Buffer, start: number, end: number): void {
  let pos = start;
  while (pos < end) {
    if (body[pos] === QUOTE) {
      putByte(QUOTE);
      pos = putString(body, pos);
      putByte(QUOTE);
    } else {
      putByte(body[pos] as number);
      pos++;
    }
    pos = skipSpace(body, pos, end);
  }
}

/** Appends a hash of the attachment in `[from, to)`, which is the inside of a string: base64 or an address. */
export function putAttachment(body: Buffer, from: number, to: number): void {
  // The native calls take no offsets: a view costs less than a copy.
  let content = body.subarray(from, to);
  if (content.includes(BACKSLASH)) content = Buffer.from(readString(body, from - 1, to + 1) ?? '');
  const sum = crc32(content);
  const length = content.length;
  const room = Math.min(MOST_BYTES - size, ATTACHMENT_BYTES);
  for (let at = 0; at < room; at++) bytes[size + at] = (at & 4 ? length : sum) >>> (8 * (at & 3));
  size += ATTACHMENT_BYTES;
}

/** Moves what was appended from `from` on to `to`, before what is there. */
export function moveTo(to: number, from: number): void {
  const length = size - from;
  if (size > MOST_BYTES || length === 0) return;
  if (length > moved.length) moved = new Uint8Array(2 * length);
  for (let at = 0; at < length; at++) moved[at] = bytes[from + at] as number;
  bytes.copyWithin(to + length, to, from);
  for (let at = 0; at < length; at++) bytes[to + at] = moved[at] as number;
}

/** Takes back what was appended from `to` on. */
export function takeBack(to: number): void {
  size = to;
}

let low = 0;
let high = 0;

/** Hashes all of the stream into the value that the chain begins with, and empties the stream. */
export function seedChain(seed: number): void {
  low = mixed(seed ^ 0x9e3779b9);
  high = mixed(low ^ 0x85ebca6b);
  const end = Math.min(size, MOST_BYTES);
  if (end > 0) {
    let last = end;
    while ((last & 15) !== 0) bytes[last++] = 0;
    hashBlock(0, last >> 2);
    low ^= end;
  }
  size = 0;
}

/** Hashes the whole blocks of the stream into `hashes`; returns how many there are. */
export function hashBlocks(): number {
  const count = blocksIn(size);
  let from = 0;
  for (let block = 0; block < count; block++) {
    const to = from + (block < SMALL_COUNT ? SMALL_BLOCK >> 2 : LARGE_BLOCK >> 2);
    hashBlock(from, to);
    hashes[2 * block] = low;
    hashes[2 * block + 1] = high;
    from = to;
  }
  return count;
}

/** Adds the words `[from, to)`, a multiple of four, to the chain. */
function hashBlock(from: number, to: number): void {
  let a = low ^ 0x9e3779b1;
  let b = high ^ 0x85ebca77;
  let c = low + 0x27d4eb2f;
  let d = high + 0x165667b1;
  for (let at = from; at < to; at += 4) {
    a = Math.imul(a ^ (words[at] as number), 0x85ebca6b);
    b = Math.imul(b ^ (words[at + 1] as number), 0xc2b2ae35);
    c = Math.imul(c ^ (words[at + 2] as number), 0x27d4eb2f);
    d = Math.imul(d ^ (words[at + 3] as number), 0x165667b1);
    a = (a << 13) | (a >>> 19);
    b = (b << 15) | (b >>> 17);
    c = (c << 11) | (c >>> 21);
    d = (d << 17) | (d >>> 15);
  }
  const one = mixed(a ^ Math.imul(c, 0x9e3779b1));
  const two = mixed(b ^ Math.imul(d, 0xc2b2ae3d) ^ one);
  low = mixed(one ^ Math.imul(two, 0x85ebca77) ^ d);
  high = mixed(two ^ Math.imul(low, 0x27d4eb2f) ^ c);
}

function mixed(value: number): number {
  let hash = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}
