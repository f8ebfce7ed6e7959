// Members of gzip (RFC 1952 §2.2). The decoder of Node.js takes bytes behind the last member for a broken one, where browsers ignore them.

import { crc32, inflateRawSync } from 'node:zlib';

/** Identification and the only compression method. */
const MAGIC = [0x1f, 0x8b, 0x08];
/** The head up to its optional fields. */
const FIXED_BYTES = 10;
const FLAGS_AT = 3;
const FLAG = { headCrc: 0x02, extra: 0x04, name: 0x08, comment: 0x10, reserved: 0xe0 } as const;

/** Bytes of the checksum and the length behind a member. */
export const GZIP_TRAILER_BYTES = 8;

/** Each takes a decoder. Servers send one member, or one for each block of 64 KiB. */
export const MAX_GZIP_MEMBERS = 1000;

/** A head has 10 bytes, and seldom the name of a file. */
export const MAX_GZIP_HEAD_BYTES = 4096;

/** Length of the head at the beginning of `bytes`; 0: no member begins there; -1: it goes on behind them. */
export function gzipHeadBytes(bytes: Uint8Array): number {
  for (const [at, byte] of MAGIC.entries()) {
    if (at === bytes.byteLength) return -1;
    if (bytes[at] !== byte) return 0;
  }
  if (bytes.byteLength < FIXED_BYTES) return -1;
  const flags = bytes[FLAGS_AT] as number;
  if ((flags & FLAG.reserved) !== 0) return 0;
  let end = FIXED_BYTES;
  if ((flags & FLAG.extra) !== 0) {
    if (bytes.byteLength < end + 2) return -1;
    end += 2 + (bytes[end] as number) + 256 * (bytes[end + 1] as number);
  }
  for (const flag of [FLAG.name, FLAG.comment]) {
    if ((flags & flag) === 0) continue;
    const zero = bytes.indexOf(0, end);
    if (zero < 0) return -1;
    end = zero + 1;
  }
  if ((flags & FLAG.headCrc) !== 0) end += 2;
  return end <= bytes.byteLength ? end : -1;
}

/** Has the code of zlib, by which errors of all codings are known. */
function broken(message = 'the gzip is cut or broken'): Error {
  return Object.assign(new Error(message), { code: 'Z_DATA_ERROR' });
}

/** The text of all members. Throws an error of zlib for a broken one, for too many, and when it is longer than `maxBytes`. */
export function gunzipMembers(bytes: Buffer, maxBytes: number): Buffer {
  const parts: Buffer[] = [];
  let length = 0;
  let rest = bytes;
  for (let head = gzipHeadBytes(rest); head > 0; head = gzipHeadBytes(rest)) {
    if (parts.length === MAX_GZIP_MEMBERS) throw broken('the gzip has too many members');
    const coded = rest.subarray(head);
    const { buffer, engine } = inflateRawSync(coded, {
      maxOutputLength: Math.max(maxBytes - length, 1),
      info: true,
    }) as unknown as { readonly buffer: Buffer; readonly engine: { readonly bytesWritten: number } };
    const end = engine.bytesWritten;
    if (coded.byteLength < end + GZIP_TRAILER_BYTES || coded.readUInt32LE(end) !== crc32(buffer)) throw broken();
    parts.push(buffer);
    length += buffer.byteLength;
    rest = coded.subarray(end + GZIP_TRAILER_BYTES);
  }
  if (parts.length === 0) throw broken();
  return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
}
