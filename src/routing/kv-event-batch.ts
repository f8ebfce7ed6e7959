// Wire format of KV events: one msgpack payload is a batch of events, as vLLM and SGLang publish them, behind a sequence number. Both write batches and events
// as arrays (msgspec `array_like`, the tag first) or as maps with `type`, depending on their version. A payload that is
// anything else is refused as a whole.

import { Unpackr } from 'msgpackr';
import { mix } from './model-table.ts';

/** A change of a KV cache. Hashes are 32-bit digests of the server's block hashes. */
export type KvEvent =
  | {
      readonly type: 'stored';
      readonly hashes: readonly number[];
      /** Tokens of each block. */
      readonly blockTokens: number;
      readonly medium: KvMedium;
      /** KV cache group of a model with several kinds of layers; 0 where there is one. */
      readonly group: number;
      /** Whether the group keeps every token of a prefix: not of a sliding window or a state-space layer. */
      readonly keepsPrefix: boolean;
    }
  | { readonly type: 'removed'; readonly hashes: readonly number[]; readonly medium: KvMedium; readonly group: number }
  | { readonly type: 'cleared' };

/** Where a block is: in the memory of the accelerator, or in a slower tier of the same server. */
export type KvMedium = 'device' | 'other';

/** Fields of events in array form, behind the tag. Later versions append fields. */
const STORED_FIELDS = [
  'block_hashes',
  'parent_block_hash',
  'token_ids',
  'block_size',
  'lora_id',
  'medium',
  'lora_name',
  'extra_keys',
  'group_idx',
  'kv_cache_spec_kind',
] as const;
const REMOVED_FIELDS = ['block_hashes', 'medium', 'group_idx'] as const;

/** Larger blocks and group numbers than any server has are a sign of another format. */
const MAX_BLOCK_TOKENS = 65_536;
const MAX_GROUPS = 1024;

/** Sequence numbers are unsigned and big endian. */
export const SEQUENCE_BYTES = 8;
/** What has this number or a higher one cannot be counted further; the end of a replay has the highest. */
const MAX_SEQUENCE = Number.MAX_SAFE_INTEGER;

const unpackr = new Unpackr({ useRecords: false, int64AsType: 'bigint' });

/** Reads a sequence number. Throws when it is too large. */
export function readSequence(frame: Buffer): number {
  const sequence = frame.readBigUInt64BE();
  if (sequence >= MAX_SEQUENCE) throw new Error('not a message of KV events: its sequence number is too large');
  return Number(sequence);
}

export function writeSequence(sequence: number): Buffer {
  const frame = Buffer.alloc(SEQUENCE_BYTES);
  frame.writeBigUInt64BE(BigInt(sequence));
  return frame;
}

/** Reads a payload. Throws when it is not a batch of events. Types of events that are not known are left out. */
export function readKvEvents(payload: Uint8Array): KvEvent[] {
  const batch: unknown = unpackr.unpack(payload);
  const events: unknown = Array.isArray(batch) ? batch[1] : isMap(batch) ? batch['events'] : undefined;
  if (!Array.isArray(events)) throw malformed('it holds no list of events');
  return events.flatMap(readEvent);
}

function readEvent(event: unknown): KvEvent | [] {
  const tag: unknown = Array.isArray(event) ? event[0] : isMap(event) ? event['type'] : undefined;
  if (typeof tag !== 'string') throw malformed('an event has no type');
  if (tag === 'AllBlocksCleared') return { type: 'cleared' };
  if (tag === 'BlockStored') return readStored(Array.isArray(event) ? named(event, STORED_FIELDS) : event);
  if (tag === 'BlockRemoved') return readRemoved(Array.isArray(event) ? named(event, REMOVED_FIELDS) : event);
  return [];
}

function named(event: readonly unknown[], fields: readonly string[]): object {
  return Object.fromEntries(fields.map((name, at) => [name, event[at + 1]]));
}

function readStored(event: unknown): KvEvent {
  const { block_hashes, block_size, medium, group_idx, kv_cache_spec_kind: kind } = event as Record<string, unknown>;
  return {
    type: 'stored',
    hashes: readHashes(block_hashes),
    blockTokens: readWhole(block_size, MAX_BLOCK_TOKENS, 'block_size'),
    medium: readMedium(medium),
    group: readWhole(group_idx ?? 0, MAX_GROUPS, 'group_idx'),
    keepsPrefix: typeof kind !== 'string' || !/sliding|local|window|mamba|state/i.test(kind),
  };
}

function readRemoved(event: unknown): KvEvent {
  const { block_hashes, medium, group_idx } = event as Record<string, unknown>;
  return {
    type: 'removed',
    hashes: readHashes(block_hashes),
    medium: readMedium(medium),
    group: readWhole(group_idx ?? 0, MAX_GROUPS, 'group_idx'),
  };
}

function readHashes(value: unknown): number[] {
  if (!Array.isArray(value)) throw malformed('block_hashes is not a list');
  return value.map(digest);
}

/** Servers send 64-bit integers or, in newer versions, the bytes of a cryptographic hash. */
function digest(hash: unknown): number {
  if (typeof hash === 'bigint') return fold(Number(hash & 0xffff_ffffn), Number((hash >> 32n) & 0xffff_ffffn));
  if (typeof hash === 'number' && Number.isInteger(hash)) return fold(hash >>> 0, Math.floor(hash / 0x1_0000_0000));
  if (hash instanceof Uint8Array && hash.length >= 8) {
    const view = new DataView(hash.buffer, hash.byteOffset, hash.length);
    return fold(view.getUint32(hash.length - 4), view.getUint32(hash.length - 8));
  }
  throw malformed('a block hash is neither an integer nor bytes');
}

/** A signed 32-bit number, which V8 keeps without an object. */
function fold(low: number, high: number): number {
  return mix(low ^ Math.imul(high, 0x9e37_79b1)) | 0;
}

function readWhole(value: unknown, most: number, name: string): number {
  const whole = typeof value === 'bigint' ? Number(value) : value;
  if (typeof whole === 'number' && Number.isInteger(whole) && whole >= 0 && whole <= most) return whole;
  throw malformed(`${name} is not a whole number up to ${most}`);
}

function readMedium(value: unknown): KvMedium {
  if (value === undefined || value === null) return 'device';
  if (typeof value !== 'string') throw malformed('medium is not a string');
  return /^(?:GPU|HBM|NPU|XPU|TPU|HPU|DEVICE)$/i.test(value) ? 'device' : 'other';
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

function malformed(reason: string): Error {
  return new Error(`not a batch of KV events: ${reason}`);
}
