// Affinity key of a conversation: a hash of the text that a KV cache can reuse, without a tokenizer. The same text has the same
// key on every gateway and in every process, so the hash has no seed and no state.

import type { Dialect } from './dialect.ts';
import {
  found,
  type Found,
  memberTable,
  readString,
  scanMembers,
  type ScannedBody,
  skipSpace,
  skipValue,
  SPAN,
} from './json-scan.ts';

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;

/** Members of a message, and of a part of its content. */
const MESSAGE = memberTable(['role', 'content']);
const PART = memberTable(['text']);
/** The depth was checked with the body; scanning a part of it needs a limit all the same. */
const MAX_DEPTH = 256;
/** Levels of a value in which texts and cache marks are found: the parts of a message, and the parts of a result in those. */
const NESTED = 6;
/** Most values that are looked at, so that a message of a million parts costs no more than one of many. */
const MOST_VALUES = 256;
let valuesLeft = 0;
/** What the last scan of a message and of a part found. */
const message: Found = found(MESSAGE);
const part: Found = found(PART);

/** Clients of the messages dialect move this member to the newest message, so that older messages lose theirs. */
const CACHE_MARK = Buffer.from('"cache_control"');
const SYSTEM = Buffer.from('"system"');
const DEVELOPER = Buffer.from('"developer"');

/** Of a longer text, its length, both ends and words spread over it are hashed: the cost stays bounded. */
const WHOLE_BYTES = 192;
const END_BYTES = 64;
const SPREAD_WORDS = 16;

/**
 * A prompt grows at its end from turn to turn, so its length and its end are not hashed, but its first bytes: as many as the
 * largest power of two up to its length. The key changes when the length passes one, which costs one prefill of a prompt that
 * is still short; prompts that are twice as long as a preamble that they share have keys of their own.
 */
const PROMPT_LEAST_BYTES = 256;
const PROMPT_MOST_BYTES = 16 * 1024;
/** Of so many bytes, these words are hashed. */
const PROMPT_WORDS = 128;

/** `null`, `[]` and `""` are no conversation, and the cache saves nothing for text that short. */
const EMPTY_BYTES = 4;

/**
 * A uint32 that stays the same while a conversation goes on. It depends on the leading system and developer text (`system`,
 * `instructions`, leading messages of those roles) and on the first message of another role, not on later ones: on the text of
 * their content, whether it is a string or a list of parts, and not on white space between members or on `cache_control`.
 * Of a `prompt`, and of an `input` that is no array, it depends on the first bytes.
 * @returns 0 without a conversation or a dialect
 */
export function prefixHash(body: Buffer, { spans, turns }: ScannedBody, dialect: Dialect | undefined): number {
  if (dialect === undefined) return 0;
  valuesLeft = MOST_VALUES;
  let hash = 0;
  for (let at: number = SPAN.system; at >= 0; at = at === SPAN.system ? SPAN.instructions : -1) {
    const start = spans[at] as number;
    if (start >= 0) hash = hashValue(hash, body, start, spans[at + 1] as number, NESTED);
  }
  const at = SPAN[dialect.conversation];
  const start = spans[at] as number;
  const end = spans[at + 1] as number;
  if (end - start <= EMPTY_BYTES) return hash;
  const inside = turns.length > 0 && (turns[0] as number) > start && (turns[0] as number) < end;
  if (!inside) return hashPrompt(hash, body, start, end);
  for (let turn = 0; turn < turns.length; turn += 2) {
    const from = turns[turn] as number;
    const to = turns[turn + 1] as number;
    if (body[from] !== OPEN_OBJECT) return hashText(hash, body, from, to);
    const { spans: members } = message;
    members[0] = members[2] = members[3] = -1;
    message.repeated = null;
    scanMembers(body, from, to, MESSAGE, message, MAX_DEPTH);
    const roleStart = members[0] as number;
    const roleEnd = members[1] as number;
    const contentStart = members[2] as number;
    const contentEnd = members[3] as number;
    if (roleStart >= 0) hash = hashText(hash, body, roleStart, roleEnd);
    // A message without content is one of another kind, such as the call of a tool.
    const hasContent = contentEnd - contentStart > EMPTY_BYTES;
    hash = hashValue(hash, body, hasContent ? contentStart : from, hasContent ? contentEnd : to, NESTED);
    if (!isLeading(body, roleStart, roleEnd)) break;
  }
  return hash;
}

/** Whether the role at `[start, end)` is that of system text. */
function isLeading(body: Buffer, start: number, end: number): boolean {
  if (start < 0) return false;
  if (isAt(body, start, end, SYSTEM) || isAt(body, start, end, DEVELOPER)) return true;
  let at = start;
  while (at < end && body[at] !== BACKSLASH) at++;
  if (at === end) return false;
  const role = readString(body, start, end);
  return role === 'system' || role === 'developer';
}

/** Whether `[start, end)` holds exactly these bytes. */
function isAt(body: Buffer, start: number, end: number, bytes: Buffer): boolean {
  if (end - start !== bytes.length) return false;
  let at = 0;
  while (at < bytes.length && body[start + at] === bytes[at]) at++;
  return at === bytes.length;
}

/**
 * Adds the value at `[start, end)`: of a list its items, of an object with a text that text, of any other object its members but
 * for cache marks. Values nested deeper than `depth` are added as they are written.
 */
function hashValue(seed: number, body: Buffer, start: number, end: number, depth: number): number {
  if (valuesLeft-- <= 0) return seed;
  const first = body[start];
  if (depth === 0 || (first !== OPEN_ARRAY && first !== OPEN_OBJECT)) return hashText(seed, body, start, end);
  if (first === OPEN_OBJECT) return hashObject(seed, body, start, end, depth - 1);
  let hash = seed;
  let pos = skipSpace(body, start + 1, end);
  while (pos < end - 1 && valuesLeft > 0) {
    const itemEnd = skipValue(body, pos, end, 0, MAX_DEPTH);
    if (itemEnd < 0) return hash;
    hash = hashValue(hash, body, pos, itemEnd, depth - 1);
    pos = skipSpace(body, itemEnd, end);
    if (body[pos] === COMMA) pos = skipSpace(body, pos + 1, end);
  }
  return hash;
}

function hashObject(seed: number, body: Buffer, start: number, end: number, depth: number): number {
  const { spans } = part;
  spans[0] = -1;
  part.repeated = null;
  scanMembers(body, start, end, PART, part, MAX_DEPTH);
  const textStart = spans[0] as number;
  if (body[textStart] === QUOTE) return hashText(seed, body, textStart, spans[1] as number);
  let hash = seed;
  let pos = skipSpace(body, start + 1, end);
  while (body[pos] === QUOTE && valuesLeft > 0) {
    const keyStart = pos;
    const keyEnd = skipValue(body, pos, end, 0, MAX_DEPTH);
    const valueStart = skipSpace(body, skipSpace(body, keyEnd, end) + 1, end);
    const valueEnd = skipValue(body, valueStart, end, 0, MAX_DEPTH);
    if (keyEnd < 0 || valueEnd < 0) return hash;
    if (!isAt(body, keyStart, keyEnd, CACHE_MARK)) {
      hash = hashValue(hashText(hash, body, keyStart, keyEnd), body, valueStart, valueEnd, depth);
    }
    pos = skipSpace(body, valueEnd, end);
    if (body[pos] === COMMA) pos = skipSpace(body, pos + 1, end);
  }
  return hash;
}

/** Adds a text at `[start, end)`. */
function hashText(seed: number, body: Buffer, start: number, end: number): number {
  const length = end - start;
  if (length <= WHOLE_BYTES) return hashBytes(seed ^ length, body, start, end);
  const head = hashBytes(seed ^ length, body, start, start + END_BYTES);
  const spread = hashSpread(head, body, start + END_BYTES, end - END_BYTES, SPREAD_WORDS);
  return hashBytes(spread, body, end - END_BYTES, end);
}

/** Adds the beginning of a prompt, or of the first one of a list. */
function hashPrompt(seed: number, body: Buffer, start: number, end: number): number {
  const first = body[start] === OPEN_ARRAY ? skipSpace(body, start + 1, end) : start;
  const isText = body[first] === QUOTE;
  const from = isText ? first + 1 : first;
  // Without the quote or bracket at its end, which is not there when it has grown.
  const length = (isText && first > start ? skipValue(body, first, end, 0, MAX_DEPTH) : end) - 1 - from;
  if (length < PROMPT_LEAST_BYTES) return hashBytes(seed, body, from, from + Math.max(length, 0));
  const hashed = Math.min(2 ** (31 - Math.clz32(length)), PROMPT_MOST_BYTES);
  return hashSpread(seed, body, from, from + hashed, PROMPT_WORDS);
}

/** Adds `count` words of four bytes, at equal distances between `start` and `end`. */
function hashSpread(seed: number, bytes: Buffer, start: number, end: number, count: number): number {
  const step = Math.max(4, Math.floor((end - start) / count));
  let hash = seed;
  for (let pos = start; pos + 4 <= end; pos += step) hash = mixWord(hash, wordAt(bytes, pos));
  return finish(hash);
}

/** MurmurHash3 x86_32 (A. Appleby, public domain) of `[start, end)`; never 0. */
function hashBytes(seed: number, bytes: Buffer, start: number, end: number): number {
  let hash = seed;
  let pos = start;
  for (; pos + 4 <= end; pos += 4) hash = mixWord(hash, wordAt(bytes, pos));
  let rest = 0;
  for (let at = end - 1; at >= pos; at--) rest = (rest << 8) | (bytes[at] as number);
  return finish(hash ^ scrambled(rest) ^ (end - start));
}

function wordAt(bytes: Buffer, pos: number): number {
  return (
    (bytes[pos] as number) |
    ((bytes[pos + 1] as number) << 8) |
    ((bytes[pos + 2] as number) << 16) |
    ((bytes[pos + 3] as number) << 24)
  );
}

function scrambled(word: number): number {
  const product = Math.imul(word, 0xcc9e2d51);
  return Math.imul((product << 15) | (product >>> 17), 0x1b873593);
}

function mixWord(hash: number, word: number): number {
  const mixed = hash ^ scrambled(word);
  return (Math.imul((mixed << 13) | (mixed >>> 19), 5) + 0xe6546b64) | 0;
}

function finish(value: number): number {
  let hash = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0 || 1;
}
