// Affinity key of a conversation: a hash of the raw bytes that a KV cache can reuse, without a tokenizer. The same bytes have
// the same key on every gateway and in every process, so the hash has no seed and no state.

import type { Dialect } from './dialect.ts';
import { found, memberTable, readString, scanMembers, type ScannedBody, SPAN } from './json-scan.ts';

const ROLE = memberTable(['role']);
const ROLE_FIRST = /^\{\s*"role"\s*:\s*"(\w*)"/;
const ROLE_BYTES = 64;
/** The depth was checked with the body; scanning a single message needs a limit all the same. */
const MESSAGE_MAX_DEPTH = 256;

/** Of a long slice, its length and this many bytes of both ends are hashed: the cost stays bounded. */
const SAMPLE_BYTES = 512;
/** Raw bytes read to get a sample without cache marks. */
const WINDOW_BYTES = 1024;
/**
 * A prompt grows at its end from turn to turn, so that its length and its end change. Only its beginning is hashed: short
 * enough that most transcripts are longer by their second turn, long enough to tell most conversations apart.
 */
const PROMPT_BYTES = 256;
/** `null`, `[]` and `""` are no conversation, and the cache saves nothing for text that short. */
const EMPTY_BYTES = 4;

const CACHE_MARK: Buffer = Buffer.from('"cache_control"');
/** Clients of the messages dialect move these marks to the newest message, so older messages lose theirs. */
const CACHE_MARKS = /,\s*"cache_control"\s*:\s*\{[^{}]*\}/g;

/**
 * A uint32 that stays the same while a conversation goes on. It depends on the leading system and developer text (`system`,
 * `instructions`, leading messages of those roles) and on the first message of another role, not on later ones. Of a
 * `prompt`, and of an `input` that is no array, it depends on the first 256 bytes of the raw value.
 * @returns 0 without a conversation or a dialect
 */
export function prefixHash(body: Buffer, scan: ScannedBody, dialect: Dialect | undefined): number {
  if (dialect === undefined) return 0;
  let hash = 0;
  for (const at of [SPAN.system, SPAN.instructions]) {
    const start = scan.spans[at] as number;
    if (start >= 0) hash = hashSample(hash, body, start, scan.spans[at + 1] as number);
  }
  const start = scan.spans[SPAN[dialect.conversation]] as number;
  const end = scan.spans[SPAN[dialect.conversation] + 1] as number;
  if (end - start <= EMPTY_BYTES) return hash;
  const { turns } = scan;
  const inside = turns.length > 0 && (turns[0] as number) > start && (turns[0] as number) < end;
  if (!inside) return hashBytes(hash, body, start, Math.min(end, start + PROMPT_BYTES));
  for (let turn = 0; turn < turns.length; turn += 2) {
    const from = turns[turn] as number;
    const to = turns[turn + 1] as number;
    hash = hashSample(hash, body, from, to);
    const role = roleOf(body, from, to);
    if (role !== 'system' && role !== 'developer') break;
  }
  return hash;
}

/** The role of the message at `[start, end)`. Most clients write it first; only other messages are scanned. */
function roleOf(body: Buffer, start: number, end: number): string | undefined {
  const first = ROLE_FIRST.exec(body.toString('latin1', start, Math.min(end, start + ROLE_BYTES)));
  if (first !== null) return first[1];
  if (body[start] !== 0x7b) return undefined;
  const members = found(ROLE);
  scanMembers(body, start, end, ROLE, members, MESSAGE_MAX_DEPTH);
  const from = members.spans[0] as number;
  return from >= 0 && body[from] === 0x22 ? readString(body, from, members.spans[1] as number) : undefined;
}

/** Adds the length of `[start, end)` and both its ends to the hash, as if it had no cache marks. */
function hashSample(seed: number, body: Buffer, start: number, end: number): number {
  const length = end - start;
  const short = length <= 2 * WINDOW_BYTES;
  const head = withoutMarks(body.subarray(start, short ? end : start + WINDOW_BYTES));
  const tail = short ? head : withoutMarks(body.subarray(end - WINDOW_BYTES, end));
  const removed = short ? length - head.length : 2 * WINDOW_BYTES - head.length - tail.length;
  const hash = hashBytes(seed ^ (length - removed), head, 0, Math.min(SAMPLE_BYTES, head.length));
  return hashBytes(hash, tail, Math.max(0, tail.length - SAMPLE_BYTES), tail.length);
}

function withoutMarks(window: Buffer): Buffer {
  if (!window.includes(CACHE_MARK)) return window;
  return Buffer.from(window.toString('latin1').replace(CACHE_MARKS, ''), 'latin1');
}

/** MurmurHash3 x86_32 (A. Appleby, public domain) of `[start, end)`; never 0. */
function hashBytes(seed: number, bytes: Buffer, start: number, end: number): number {
  let hash = seed;
  let pos = start;
  let word: number;
  for (; pos + 4 <= end; pos += 4) {
    word =
      (bytes[pos] as number) |
      ((bytes[pos + 1] as number) << 8) |
      ((bytes[pos + 2] as number) << 16) |
      ((bytes[pos + 3] as number) << 24);
    word = Math.imul(word, 0xcc9e2d51);
    hash ^= Math.imul((word << 15) | (word >>> 17), 0x1b873593);
    hash = (Math.imul((hash << 13) | (hash >>> 19), 5) + 0xe6546b64) | 0;
  }
  word = 0;
  for (let at = end - 1; at >= pos; at--) word = (word << 8) | (bytes[at] as number);
  word = Math.imul(word, 0xcc9e2d51);
  hash ^= Math.imul((word << 15) | (word >>> 17), 0x1b873593) ^ (end - start);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0 || 1;
}
