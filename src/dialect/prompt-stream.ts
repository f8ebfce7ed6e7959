// The bytes of a prompt on their way into blocks: texts, JSON values and attachments are appended in one canonical form, then cut into
// blocks whose 64-bit hashes are chained. Equal text has equal bytes, however a client wrote it in JSON, and equal bytes have equal
// hashes on every gateway. Appending does not allocate.

import { PROMPT_STREAM_WASM } from './prompt-stream-wasm.ts';
import { instantiate, IS_LITTLE_ENDIAN } from './wasm.ts';

// Text stands as JSON.stringify writes it: with `\n` and `\"` as two bytes, since most text comes so and need not be decoded, and
// with UTF-8 for what other writers escape. The loops over bytes are in WebAssembly: JavaScript has no 64-bit multiplication and no
// vectors, and calls of native searches cost more than what they skip where text is full of escapes. The hash is XXH64 with the hash
// of the block before as its seed. It is no cryptographic one: whoever makes two prompts with one hash gets a wrong guess of where
// their own prompts are cached, and never another's answer.

/** What prompt-stream.wat exports. */
interface Loops {
  readonly memory: { readonly buffer: ArrayBuffer };
  readonly findEnd: (at: number, end: number, continued: number) => number;
  readonly copyString: (from: number, to: number, end: number) => number;
  readonly compact: (from: number, end: number, markDepth: number) => number;
  readonly hash: (at: number, end: number, cell: number) => void;
  readonly hashBlocks: (at: number, length: number, count: number, to: number) => void;
}

const QUOTE = 0x22;

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

/** Most bytes that are copied at a time; the memory has as much room behind the stream. */
const CHUNK = 64 * 1024;
/** A native copy costs about as much as this many bytes one by one. */
const SHORT_BYTES = 12;
/** `copyString` stops so many bytes before the end. */
const TAIL = 16;
/** Bytes that a hash takes at a time. */
const LANES = 32;
const ROOT = 0x110000;
const HASHES = ROOT + 8;
const STOPPED = 0x112080;
const ATTACHMENT_HASH = 0x112088;
const COPY = 0x112100;

const { memory, findEnd, copyString, compact, hash, hashBlocks } = instantiate<Loops>(PROMPT_STREAM_WASM);
const bytes = new Uint8Array(memory.buffer);
const words = new DataView(memory.buffer);

/** Bytes appended since `begin`, those that were only counted included. */
let size = 0;
/** Bytes from the beginning that are hashed at most. */
let limit = MOST_BYTES;

/** Two words, low and high, per whole block. */
export const hashes: Int32Array = new Int32Array(memory.buffer, HASHES, 2 * MOST_COUNT);

/** Begins a new stream. */
export function begin(): void {
  size = 0;
  limit = MOST_BYTES;
}

export function sizeOf(): number {
  return size;
}

/** Takes back what was appended from `to` on. */
export function takeBack(to: number): void {
  size = to;
}

/** Bytes of a prompt up to the end of its first `count` blocks. */
export function blockBytes(count: number): number {
  return count <= SMALL_COUNT ? count * SMALL_BLOCK : SMALL_BYTES + (count - SMALL_COUNT) * LARGE_BLOCK;
}

export function putByte(byte: number): void {
  if (size < MOST_BYTES) bytes[size] = byte;
  size++;
}

/** Counts bytes that are not read; nothing that follows is hashed. */
export function putUnread(length: number): void {
  if (size < limit) limit = size;
  size += length;
}

/**
 * Appends the text of the string `[start, end)`, quotes included.
 * @param isPlain it has no escape with a shorter form
 */
export function putString(body: Buffer, start: number, end: number, isPlain: boolean): void {
  const from = start + 1;
  const length = end - 1 - from;
  if (size >= limit) {
    size += length;
  } else if (isPlain) {
    const copied = Math.min(length, MOST_BYTES - size);
    if (copied > SHORT_BYTES) body.copy(bytes, size, from, from + copied);
    else for (let at = 0; at < copied; at++) bytes[size + at] = body[from + at] as number;
    size += length;
  } else {
    putEscaped(body, from, end - 1);
  }
}

/** The same for the inside of a string, with a quote at `end`, that may have such escapes. */
function putEscaped(body: Buffer, start: number, end: number): void {
  let from = start;
  let to = size;
  for (let continued = 0; ; continued = 1) {
    // With the quote, which ends the search.
    const copied = Math.min(end + 1 - from, CHUNK);
    body.copy(bytes, to, from, from + copied);
    const found = findEnd(to, to + copied, continued);
    if (found < 0) return putRewritten(body, start, end);
    from += found - to;
    if (found < to + copied || found >= limit) {
      size = found + end - from;
      return;
    }
    to = found;
  }
}

/** The same for a string that has such escapes. */
function putRewritten(body: Buffer, start: number, end: number): void {
  let from = start;
  for (;;) {
    // It writes so many bytes at a time, the last ones beyond what it has copied, and the room behind the stream has no more.
    const copied = Math.min(end + 1 - from, CHUNK - TAIL);
    body.copy(bytes, COPY, from, from + copied);
    const isLast = from + copied > end;
    size = copyString(COPY, size, COPY + copied + (isLast ? TAIL : 0));
    from += words.getInt32(STOPPED, true) - COPY;
    // A broken escape, which a scan may let pass, can hide the quote, or lead to an earlier one.
    if (from >= end || size >= limit || body[from] === QUOTE) {
      size += Math.max(end - from, 0);
      return;
    }
  }
}

/** Appends the token at `id` as four bytes, low byte first. */
export function putToken(id: number): void {
  if (size < MOST_BYTES) words.setInt32(size, id, true);
  size += 4;
}

/**
 * Appends the JSON value `[start, end)` without white space between its tokens, its members in the order in which they stand.
 * @param markDepth members named `cache_control` of objects at this nesting are left out, the value being at 1; 0: none
 */
export function putValue(body: Buffer, start: number, end: number, markDepth: number): void {
  const length = end - start;
  const room = limit - size;
  if (room <= 0) {
    size += length;
    return;
  }
  const copied = Math.min(length, room);
  body.copy(bytes, size, start, start + copied);
  const to = compact(size, size + copied, markDepth);
  if (copied < length) return putUnread(length);
  size = to;
}

/** Appends a hash of the attachment in `[from, to)` of `content`, base64 or an address, at the cost of an image. */
export function putAttachment(content: Buffer, from: number, to: number): void {
  // What is not hashed costs no more than its bytes, so that no body counts for many times its length.
  if (size + ATTACHMENT_BYTES > limit) return putUnread(Math.min(to - from, ATTACHMENT_BYTES));
  bytes.fill(0, ATTACHMENT_HASH, ATTACHMENT_HASH + 8);
  for (let at = from; at < to; at += CHUNK) {
    const length = Math.min(to - at, CHUNK);
    content.copy(bytes, COPY, at, at + length);
    hash(COPY, padded(COPY, length), ATTACHMENT_HASH);
  }
  bytes.copyWithin(size, ATTACHMENT_HASH, ATTACHMENT_HASH + 8);
  bytes.fill(0, size + 8, size + ATTACHMENT_BYTES);
  size += ATTACHMENT_BYTES;
}

/** The end of `length` bytes at `at`, filled with zeros up to a multiple of what a hash takes. */
function padded(at: number, length: number): number {
  const end = at + ((length + LANES - 1) & -LANES);
  bytes.fill(0, at + length, end);
  return end;
}

/** Moves what was appended from `from` on to `to`, before what is there. */
export function moveTo(to: number, from: number): void {
  if (size > limit) return;
  // The shorter of the two segments waits in the room for copies.
  if (size - from <= from - to) {
    bytes.copyWithin(COPY, from, size);
    bytes.copyWithin(to + size - from, to, from);
    bytes.copyWithin(to, COPY, COPY + size - from);
  } else {
    bytes.copyWithin(COPY, to, from);
    bytes.copyWithin(to, from, size);
    bytes.copyWithin(to + size - from, COPY, COPY + from - to);
  }
}

/** Hashes all of the stream into the value that the chain begins with, and empties the stream. */
export function seedChain(seed: number): void {
  words.setInt32(ROOT, seed, true);
  words.setInt32(ROOT + 4, 0, true);
  if (size > 0) hash(0, padded(0, Math.min(size, limit)), ROOT);
  size = 0;
  limit = MOST_BYTES;
}

/** Hashes the whole blocks of the stream into `hashes`; returns how many there are. */
export function chainBlocks(): number {
  const length = Math.min(size, limit);
  const small = (Math.min(length, SMALL_BYTES) / SMALL_BLOCK) | 0;
  hashBlocks(0, SMALL_BLOCK, small, HASHES);
  const large = ((length - SMALL_BYTES) / LARGE_BLOCK) | 0;
  if (large > 0) hashBlocks(SMALL_BYTES, LARGE_BLOCK, large, HASHES + 8 * SMALL_COUNT);
  const count = small + Math.max(large, 0);
  if (!IS_LITTLE_ENDIAN) Buffer.from(memory.buffer, HASHES, 8 * count).swap32();
  return count;
}
