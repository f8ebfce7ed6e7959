// The affinity key of a conversation: what a KV cache could reuse, hashed from the raw bytes, without a tokenizer.
// Called by api/ once per request; routing/ maps the key to a CRN by rendezvous hashing. The same bytes give the same
// key on every gateway and in every process, so nothing is seeded and no state is shared.
import type { Dialect } from './dialect.ts';
import { found, memberTable, readString, scanMembers } from './members.ts';
import { SPAN } from './scan.ts';
import type { ScannedBody } from './scan.ts';

const ROLE = memberTable(['role']);
const ROLE_FIRST = /^\{\s*"role"\s*:\s*"(\w*)"/;
const ROLE_BYTES = 64;
/** Messages were checked for depth with the body; this is only a bound of this second look. */
const MESSAGE_MAX_DEPTH = 256;

/** Of a long slice, its length and this many bytes of either end stand for the whole: the cost stays bounded. */
const SAMPLE_BYTES = 512;
/** Raw bytes looked at to get a sample free of cache marks. */
const WINDOW_BYTES = 1024;
/**
 * Text in one string grows at its end from turn to turn, and so does its length. Only the beginning stays; short enough
 * that a transcript has usually outgrown it by its second turn, long enough to tell most conversations apart.
 */
const PROMPT_BYTES = 256;
/** `null`, `[]` and `""` are no conversation, and text that short is not worth finding again. */
const EMPTY_BYTES = 4;

const CACHE_MARK: Buffer = Buffer.from('"cache_control"');
/** Clients of the messages dialect move these marks to the newest message, so old messages lose theirs. */
const CACHE_MARKS = /,\s*"cache_control"\s*:\s*\{[^{}]*\}/g;

/**
 * A uint32 that stays the same while a conversation goes on: the leading system and developer text (`system`,
 * `instructions`, leading messages of those roles) and the first message of another role. Later messages do not count.
 * A `prompt`, or an `input` that is not an array, counts with the first 256 bytes of its raw value.
 * @returns 0 when there is nothing to go by
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
  if (end - start > EMPTY_BYTES) {
    const turns = scan.turns;
    const inside = turns.length > 0 && (turns[0] as number) > start && (turns[0] as number) < end;
    hash = inside ? hashOpening(hash, body, turns) : hashBytes(hash, body, start, Math.min(end, start + PROMPT_BYTES));
  }
  return hash;
}

function hashOpening(seed: number, body: Buffer, turns: readonly number[]): number {
  let hash = seed;
  for (let turn = 0; turn < turns.length; turn += 2) {
    const start = turns[turn] as number;
    const end = turns[turn + 1] as number;
    hash = hashSample(hash, body, start, end);
    if (!isSystem(body, start, end)) break;
  }
  return hash;
}

/** Clients write the role first; only a message that does not is read through. */
function isSystem(body: Buffer, start: number, end: number): boolean {
  const first = ROLE_FIRST.exec(body.toString('latin1', start, Math.min(end, start + ROLE_BYTES)));
  if (first !== null) return isSystemRole(first[1]);
  if (body[start] !== 0x7b) return false;
  const members = found(ROLE);
  scanMembers(body, start, end, ROLE, members, MESSAGE_MAX_DEPTH);
  const from = members.spans[0] as number;
  return from >= 0 && body[from] === 0x22 && isSystemRole(readString(body, from, members.spans[1] as number));
}

function isSystemRole(role: string | undefined): boolean {
  return role === 'system' || role === 'developer';
}

/** Mixes in the length of `[start, end)` and both its ends, as if cache marks there did not exist. */
function hashSample(seed: number, body: Buffer, start: number, end: number): number {
  const length = end - start;
  const short = length <= 2 * WINDOW_BYTES;
  const head = unmarked(body, start, short ? end : start + WINDOW_BYTES);
  const tail = short ? head : unmarked(body, end - WINDOW_BYTES, end);
  const removed = short ? length - head.length : 2 * WINDOW_BYTES - head.length - tail.length;
  const hash = hashBytes(seed ^ (length - removed), head, 0, Math.min(SAMPLE_BYTES, head.length));
  return hashBytes(hash, tail, Math.max(0, tail.length - SAMPLE_BYTES), tail.length);
}

function unmarked(body: Buffer, start: number, end: number): Buffer {
  const window = body.subarray(start, end);
  if (!window.includes(CACHE_MARK)) return window;
  return Buffer.from(window.toString('latin1').replace(CACHE_MARKS, ''), 'latin1');
}

/** MurmurHash3 x86_32 (A. Appleby, public domain) of `[start, end)`; never 0. */
function hashBytes(seed: number, bytes: Buffer, start: number, end: number): number {
  let hash = seed;
  let pos = start;
  for (; pos + 4 <= end; pos += 4) {
    hash ^= scrambled(wordAt(bytes, pos));
    hash = (Math.imul((hash << 13) | (hash >>> 19), 5) + 0xe6546b64) | 0;
  }
  let rest = 0;
  for (let at = end - 1; at >= pos; at--) rest = (rest << 8) | (bytes[at] as number);
  hash ^= scrambled(rest) ^ (end - start);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0 || 1;
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
  const mixed = Math.imul(word, 0xcc9e2d51);
  return Math.imul((mixed << 15) | (mixed >>> 17), 0x1b873593);
}
