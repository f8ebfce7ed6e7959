// Encodes and decodes the frames of a link between threads. Several entries, or one that is large or holds bytes, are packed as one
// msgpackr batch; one small entry is cheaper as a structured clone. Refs inside messages are translated by the link's `RefCodec`.

import { addExtension, Packr } from 'msgpackr';
import { ActorRef } from './ref.ts';

/** A name the peer exposed, or the number of a ref that crossed before. */
export type Address = string | number;

export const TELL = 0;
export const WATCH = 1;
export const UNWATCH = 2;
export const ENDED = 3;
export const UNANSWERED = 4;

/** Refs that were top-level fields of a plainly cloned message, by field. */
export type RefFields = Record<string, WireRef>;

/** One message of a link to its peer. Watches are numbered by the watching side, refs by the exporting side. */
export type Entry =
  | readonly [kind: typeof TELL, to: Address, message: unknown, refs?: RefFields]
  | readonly [kind: typeof WATCH, of: Address, watch: number]
  | readonly [kind: typeof UNWATCH, watch: number]
  | readonly [kind: typeof ENDED, watch: number]
  | readonly [kind: typeof UNANSWERED, ref: number, full: boolean];

/** A batch, a single entry, or the number of entries received since the last such number. */
export type Frame = Uint8Array<ArrayBuffer> | Entry | number;

/** A ref on the wire: `[yours, address, path]`; `yours` when it lives on the receiving side. */
export type WireRef = readonly [yours: boolean, address: Address, path: string];

/** How a link translates refs. */
export interface RefCodec {
  encodeRef(ref: ActorRef<never>): WireRef;
  decodeRef(wire: WireRef): ActorRef<never>;
}

/** Extension number for refs, of those that msgpackr leaves to applications. */
const REF_EXTENSION = 0x52;

let codec: RefCodec | null = null;

function currentCodec(): RefCodec {
  if (codec === null) throw new Error('refs travel over links only');
  return codec;
}

addExtension({
  Class: ActorRef,
  type: REF_EXTENSION,
  write: (ref: ActorRef<never>) => currentCodec().encodeRef(ref),
  read: (wire: WireRef) => currentCodec().decodeRef(wire),
});

const packr = new Packr({
  useRecords: true,
  moreTypes: true,
  copyBuffers: true,
  // msgpackr would write undefined for a function: a message that cannot be sent must not look delivered.
  writeFunction: () => {
    throw new TypeError('functions do not travel between threads');
  },
});

/** Throws when a message holds what cannot travel (functions, symbols). */
export function encodeFrame(entries: readonly Entry[], using: RefCodec): Uint8Array<ArrayBuffer> | Entry {
  const [first] = entries;
  const single = entries.length === 1 && first !== undefined ? plainEntry(first, using) : null;
  if (single !== null) return single;
  codec = using;
  try {
    const packed = packr.pack(entries);
    // The packer's buffer is a window on a shared pool, which would be cloned with it: copy the frame alone.
    const frame = new Uint8Array(packed);
    if (isLarge(frame) && packed.byteOffset === 0) forgetPool(packed);
    return frame;
  } finally {
    codec = null;
  }
}

/** A batch of this size is moved to the other thread, and freed when it is read; a smaller one is cheaper to copy. */
const LARGE_BYTES = 16 * 1024;

/** As msgpackr's own. */
const POOL_BYTES = 8192;

export function isLarge(frame: Uint8Array<ArrayBuffer> | Entry): frame is Uint8Array<ArrayBuffer> {
  return frame instanceof Uint8Array && frame.byteLength >= LARGE_BYTES;
}

/**
 * A pool that has grown for a frame is many times its size: it is given back. It has grown for this frame alone, which begins with it.
 */
function forgetPool({ buffer }: Buffer): void {
  packr.useBuffer(Buffer.allocUnsafeSlow(POOL_BYTES));
  if (buffer instanceof ArrayBuffer) buffer.transfer(0);
}

/** The entries of a batch or single frame, with their refs decoded. */
export function decodeFrame(frame: Uint8Array | Entry, using: RefCodec): Entry[] {
  if (!(frame instanceof Uint8Array)) return [revive(frame, using)];
  codec = using;
  try {
    return packr.unpack(frame) as Entry[];
  } finally {
    codec = null;
  }
}

/** Above these limits msgpackr is cheaper than a structured clone. */
const PLAIN_FIELDS = 16;
const PLAIN_CHARACTERS = 1024;
const PLAIN_DEPTH = 2;

/** The entry as it can be cloned, with top-level refs moved beside the message; null when it must be packed. */
function plainEntry(entry: Entry, using: RefCodec): Entry | null {
  if (entry[0] !== TELL) return entry;
  const [kind, to, message] = entry;
  if (!isRecord(message)) return isPlain(message, PLAIN_DEPTH) ? entry : null;
  let refs: RefFields | undefined;
  let fields = 0;
  for (const [field, value] of Object.entries(message)) {
    if (++fields > PLAIN_FIELDS) return null;
    if (value instanceof ActorRef) (refs ??= {})[field] = using.encodeRef(value);
    else if (!isPlain(value, PLAIN_DEPTH)) return null;
  }
  if (refs === undefined) return entry;
  const bare = { ...message };
  for (const field of Object.keys(refs)) bare[field] = null;
  return [kind, to, bare, refs];
}

function revive(entry: Entry, using: RefCodec): Entry {
  if (entry[0] !== TELL || entry[3] === undefined) return entry;
  const message = entry[2] as Record<string, unknown>;
  for (const [field, wire] of Object.entries(entry[3])) message[field] = using.decodeRef(wire);
  return entry;
}

function isPlain(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case 'string':
      return value.length <= PLAIN_CHARACTERS;
    case 'function':
    case 'symbol':
      return false;
    case 'object':
      break;
    default:
      return true;
  }
  if (value === null) return true;
  if (depth === 0 || !(Array.isArray(value) || isRecord(value))) return false;
  const values = Object.values(value);
  return values.length <= PLAIN_FIELDS && values.every((inner) => isPlain(inner, depth - 1));
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
