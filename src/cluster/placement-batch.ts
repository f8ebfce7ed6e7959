// Bodies of messages about placements: what a gateway has sent where since its last one, and how much it has waiting. Pure: bytes in, calls out.
//
//   varint groups       members that got prompts
//     u32 member, varint advance (zigzag) of its clock by prompts of which nothing else is said, varint runs
//       varint count << 1 | withdrawn
//       entered only: varint advance (zigzag), varint number of the first anchor
//       6 bytes for each anchor: 28 bits of the low word of its hash, 20 bits of the high one: all that an index uses
//   varint loads        members and what this gateway has waiting there, in whole, not as a change
//     u32 member, varint bytes, varint streams, varint requests in flight at its CRN
//   varint responses
//     u32 hash of the id, u32 hash of the CRN's URL
//   u8 flags            1: members that are not among the loads have nothing waiting
//
// Varints are those of Protocol Buffers, up to 32 bits. A member is the hash of its model and base URL: see `memberId`.

import { hashText, MAX_ANCHORS } from '../routing/index.ts';

/** Bytes of a block. */
const BLOCK_BYTES = 6;

const TAG_MASK = 0xfffff;
const LOW_BITS = 28;
const LOW_MASK = 2 ** LOW_BITS - 1;

/** Most of each in a message, and largest values: more is a mistake. */
const MAX_GROUPS = 65_536;
const MAX_RESPONSES = 65_536;
const MAX_ADVANCE = 2 ** 24;
const MAX_BACKLOG = 2 ** 30;
const MAX_REQUESTS = 2 ** 20;

/** Flag of a message that says everything about the loads. */
const IS_WHOLE = 1;

/** The same at every gateway, whatever its cells. */
export function memberId(model: string, url: string): number {
  return hashText(`${model.toLowerCase()} ${url}`);
}

/** Takes what a sibling says; `member` is a `memberId`. Called in the order of the message. */
export interface BatchSink {
  /** Anchors `first` to `first + count - 1` of a prompt were sent to a member, after its clock advanced. Hashes are valid during the call. */
  entered(member: number, advance: number, first: number, hashes: Int32Array, count: number): void;
  withdrawn(member: number, hashes: Int32Array, count: number): void;
  load(member: number, bytes: number, streams: number, requests: number): void;
  response(tag: number, holder: number): void;
  /** At the end. `isWhole`: members without a `load` have nothing waiting. */
  end(isWhole: boolean): void;
}

/** Bytes that grow. */
export class ByteWriter {
  length = 0;
  #bytes: Buffer;

  constructor(capacity: number) {
    this.#bytes = Buffer.allocUnsafe(capacity);
  }

  /** A view, valid until the next write. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.length);
  }

  u8(value: number): void {
    this.#room(1);
    this.#bytes[this.length++] = value;
  }

  u32(value: number): void {
    this.#room(4);
    this.length = this.#bytes.writeUInt32LE(value >>> 0, this.length);
  }

  varint(value: number): void {
    this.#room(5);
    let left = value >>> 0;
    while (left >= 0x80) {
      this.#bytes[this.length++] = (left & 0x7f) | 0x80;
      left >>>= 7;
    }
    this.#bytes[this.length++] = left;
  }

  signed(value: number): void {
    this.varint((value << 1) ^ (value >> 31));
  }

  block(low: number, high: number): void {
    this.#room(BLOCK_BYTES);
    // 28 bits of the low word, then 20 of the high one.
    this.#bytes.writeUInt32LE(((low & LOW_MASK) | ((high & 0xf) << LOW_BITS)) >>> 0, this.length);
    this.length = this.#bytes.writeUInt16LE((high & TAG_MASK) >>> 4, this.length + 4);
  }

  append(bytes: Buffer): void {
    this.#room(bytes.length);
    bytes.copy(this.#bytes, this.length);
    this.length += bytes.length;
  }

  #room(more: number): void {
    if (this.length + more <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafe(Math.max(2 * this.#bytes.length, this.length + more));
    this.#bytes.copy(grown, 0, 0, this.length);
    this.#bytes = grown;
  }
}

/** Reads what `ByteWriter` has written. Throws at the end, and at values that are too large. */
export class ByteReader {
  #at = 0;
  readonly #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  u8(): number {
    this.#need(1);
    return this.#bytes[this.#at++] as number;
  }

  u32(): number {
    this.#need(4);
    const value = this.#bytes.readUInt32LE(this.#at);
    this.#at += 4;
    return value;
  }

  varint(most: number): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.u8();
      value += (byte & 0x7f) * 2 ** shift;
      if (byte >= 0x80) continue;
      if (value > most) throw new Error(`${value} is more than ${most}`);
      return value;
    }
    throw new Error('a number has more than 32 bits');
  }

  signed(most: number): number {
    const value = this.varint(2 * most);
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  /** Reads so many blocks into `to`, two words each. */
  blocks(to: Int32Array, count: number): void {
    this.#need(count * BLOCK_BYTES);
    for (let at = 0; at < count; at++) {
      const first = this.#bytes.readUInt32LE(this.#at);
      to[2 * at] = first & LOW_MASK;
      to[2 * at + 1] = (first >>> LOW_BITS) | (this.#bytes.readUInt16LE(this.#at + 4) << 4);
      this.#at += BLOCK_BYTES;
    }
  }

  skip(bytes: number): void {
    this.#need(bytes);
    this.#at += bytes;
  }

  #need(bytes: number): void {
    if (this.left < bytes) throw new Error('the message ends too early');
  }
}

/** What is to be said of one member. */
class Group {
  readonly bytes = new ByteWriter(256);
  runs = 0;
  /** Of prompts of which nothing else is said. */
  advance = 0;
  isQueued = false;
}

/** Advances without blocks wait until they are so many units, or something else is said: 32 KiB of prompts age no block visibly. */
const TOLD_ADVANCE = 64;

/** Collects what is to be said, by member. */
export class BatchEncoder {
  readonly #groups = new Map<number, Group>();
  readonly #queued: number[] = [];
  readonly #loads = new ByteWriter(1024);
  readonly #responses = new ByteWriter(1024);
  readonly #body = new ByteWriter(4096);
  #loadCount = 0;
  #responseCount = 0;
  #isWhole = false;
  #size = 0;

  /** Bytes of the body, about. */
  get size(): number {
    return this.#size + this.#loads.length + this.#responses.length;
  }

  get isEmpty(): boolean {
    return this.#queued.length === 0 && this.#loadCount === 0 && this.#responseCount === 0 && !this.#isWhole;
  }

  entered(member: number, advance: number, first: number, hashes: Int32Array, count: number): void {
    const group = this.#group(member);
    if (count === 0) {
      group.advance += advance;
      if (Math.abs(group.advance) >= TOLD_ADVANCE) this.#queue(member, group);
      return;
    }
    this.#queue(member, group);
    group.bytes.varint(count << 1);
    group.bytes.signed(advance);
    group.bytes.varint(first);
    this.#run(group, hashes, count);
  }

  withdrawn(member: number, hashes: Int32Array, count: number): void {
    const group = this.#group(member);
    this.#queue(member, group);
    group.bytes.varint((count << 1) | 1);
    this.#run(group, hashes, count);
  }

  load(member: number, bytes: number, streams: number, requests: number): void {
    this.#loadCount++;
    this.#loads.u32(member);
    this.#loads.varint(Math.min(Math.max(Math.round(bytes), 0), MAX_BACKLOG));
    this.#loads.varint(Math.min(Math.max(streams, 0), MAX_REQUESTS));
    this.#loads.varint(Math.min(Math.max(requests, 0), MAX_REQUESTS));
  }

  response(tag: number, holder: number): void {
    this.#responseCount++;
    this.#responses.u32(tag);
    this.#responses.u32(holder);
  }

  /** The loads that were given are all that there are. */
  whole(): void {
    this.#isWhole = true;
  }

  /** The body, valid until the next call of anything. Begins a new one. */
  take(): Buffer {
    const body = this.#body;
    body.length = 0;
    body.varint(this.#queued.length);
    for (const member of this.#queued) {
      const group = this.#groups.get(member) as Group;
      body.u32(member);
      // Beyond that, all that a server had is old.
      body.signed(Math.min(Math.max(group.advance, -MAX_ADVANCE), MAX_ADVANCE));
      body.varint(group.runs);
      body.append(group.bytes.bytes);
      group.bytes.length = 0;
      group.runs = 0;
      group.advance = 0;
      group.isQueued = false;
    }
    body.varint(this.#loadCount);
    body.append(this.#loads.bytes);
    body.varint(this.#responseCount);
    body.append(this.#responses.bytes);
    body.u8(this.#isWhole ? IS_WHOLE : 0);
    this.#queued.length = 0;
    this.#loads.length = 0;
    this.#responses.length = 0;
    this.#loadCount = 0;
    this.#responseCount = 0;
    this.#isWhole = false;
    this.#size = 0;
    return body.bytes;
  }

  /** Forgets the advances of members that are not among these. */
  keep(members: ReadonlySet<number>): void {
    for (const [member, { isQueued }] of this.#groups) {
      if (!isQueued && !members.has(member)) this.#groups.delete(member);
    }
  }

  #group(member: number): Group {
    let group = this.#groups.get(member);
    if (group === undefined) {
      group = new Group();
      this.#groups.set(member, group);
    }
    return group;
  }

  #queue(member: number, group: Group): void {
    if (group.isQueued) return;
    group.isQueued = true;
    this.#queued.push(member);
    this.#size += 10;
  }

  #run(group: Group, hashes: Int32Array, count: number): void {
    group.runs++;
    for (let at = 0; at < count; at++) group.bytes.block(hashes[2 * at] as number, hashes[2 * at + 1] as number);
    this.#size += count * BLOCK_BYTES + 8;
  }
}

/** Reads bodies. */
export class BatchDecoder {
  readonly #hashes = new Int32Array(2 * MAX_ANCHORS);

  /** Throws when the body is not of the expected form; nothing is told to `sink` then. */
  read(body: Buffer, sink: BatchSink): void {
    this.#pass(body, null);
    this.#pass(body, sink);
  }

  #pass(body: Buffer, sink: BatchSink | null): void {
    const reader = new ByteReader(body);
    const hashes = this.#hashes;
    for (let groups = reader.varint(MAX_GROUPS); groups > 0; groups--) {
      const member = reader.u32();
      const advance = reader.signed(MAX_ADVANCE);
      let runs = reader.varint(body.length);
      if (advance !== 0) sink?.entered(member, advance, 0, hashes, 0);
      for (; runs > 0; runs--) {
        const head = reader.varint(2 * MAX_ANCHORS + 1);
        const count = head >>> 1;
        const isWithdrawn = head % 2 === 1;
        const advanced = isWithdrawn ? 0 : reader.signed(MAX_ADVANCE);
        const first = isWithdrawn ? 0 : reader.varint(MAX_ANCHORS - count);
        if (sink === null) {
          reader.skip(count * BLOCK_BYTES);
          continue;
        }
        reader.blocks(hashes, count);
        if (isWithdrawn) sink.withdrawn(member, hashes, count);
        else sink.entered(member, advanced, first, hashes, count);
      }
    }
    for (let loads = reader.varint(MAX_GROUPS); loads > 0; loads--) {
      const member = reader.u32();
      const bytes = reader.varint(MAX_BACKLOG);
      const streams = reader.varint(MAX_REQUESTS);
      const requests = reader.varint(MAX_REQUESTS);
      sink?.load(member, bytes, streams, requests);
    }
    for (let responses = reader.varint(MAX_RESPONSES); responses > 0; responses--) {
      const tag = reader.u32();
      const holder = reader.u32();
      sink?.response(tag, holder);
    }
    const flags = reader.u8();
    if (reader.left !== 0) throw new Error('the message goes on behind its end');
    sink?.end((flags & IS_WHOLE) !== 0);
  }
}
