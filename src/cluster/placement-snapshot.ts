// A copy of a block index for a gateway that starts or was cut off: the entries that members hold, the youngest ones when there are too many,
// in chunks. Neither side works on it for more than a few milliseconds at a time.
//
// Body of a chunk:
//   u8 number of the last bit of a line (log2 of the lines of the sender's index)
//   u8 flags            1: the last chunk
//   varint groups
//     u32 member, u32 capacity in bytes (0: unknown), varint entries
//       6 bytes (as in placement-batch.ts; of the low word only the bits that name a line), varint age in units

import type { BlockIndex } from '../routing/index.ts';
import { ByteReader, ByteWriter } from './placement-batch.ts';

/** Bytes of all chunks, about. */
const MOST_BYTES = 16 * 1024 * 1024;

/** A chunk is sent when it is so long, or when so many lines were read: either takes one to two milliseconds. */
const CHUNK_BYTES = 64 * 1024;
const CHUNK_LINES = 8192;

/** An entry in a chunk, about. */
const ENTRY_BYTES = 8;

/** Lines that are looked at to find the age up to which entries fit; ages are counted in so many parts of the capacity. */
const SAMPLED_LINES = 4096;
const AGES = 64;

const MAX_GROUPS = 65_536;
const MAX_ENTRIES = 262_144;
const MAX_AGE = 2 ** 21;
const LEAST_LINE_BITS = 10;
const MOST_LINE_BITS = 26;

/** An index that is more times as large does not take a snapshot: each entry would be written as often. */
const MOST_TIMES = 16;

const IS_LAST = 1;

interface Group {
  readonly id: number;
  readonly capacity: number;
  readonly bytes: ByteWriter;
  entries: number;
}

/** Makes the chunks of a snapshot, one at each call. */
export class SnapshotReader {
  readonly #index: BlockIndex;
  readonly #idOf: (cell: number) => number | undefined;
  readonly #youngest: number;
  readonly #groups = new Map<number, Group | null>();
  #line = 0;
  #bytes = 0;

  /** `idOf`: of the member of a cell, undefined for one that is not to be told. `mostBytes`: 16 MiB by default. */
  constructor(index: BlockIndex, idOf: (cell: number) => number | undefined, mostBytes: number = MOST_BYTES) {
    this.#index = index;
    this.#idOf = idOf;
    this.#youngest = youngestThatFit(index, mostBytes / ENTRY_BYTES);
  }

  /** The next chunk; null after the last one. */
  next(): Buffer | null {
    const { lines } = this.#index;
    if (this.#line === lines) return null;
    this.#bytes = 0;
    this.#groups.clear();
    const end = Math.min(this.#line + CHUNK_LINES, lines);
    while (this.#line < end && this.#bytes < CHUNK_BYTES) this.#index.visit(this.#line++, this.#add);
    const chunk = new ByteWriter(this.#bytes + 1024);
    chunk.u8(Math.log2(lines));
    chunk.u8(this.#line === lines ? IS_LAST : 0);
    const groups = [...this.#groups.values()].filter((group) => group !== null);
    chunk.varint(groups.length);
    for (const { bytes, capacity, entries, id } of groups) {
      chunk.u32(id);
      chunk.u32(capacity);
      chunk.varint(entries);
      chunk.append(bytes.bytes);
    }
    return chunk.bytes;
  }

  readonly #add = (cell: number, low: number, high: number, age: number): void => {
    if (age >= this.#youngest * (this.#index.capacity(cell) / 512)) return;
    let group = this.#groups.get(cell);
    if (group === undefined) {
      const id = this.#idOf(cell);
      const capacity = this.#index.isCapacityKnown(cell) ? this.#index.capacity(cell) : 0;
      group = id === undefined ? null : { id, capacity, bytes: new ByteWriter(1024), entries: 0 };
      this.#groups.set(cell, group);
    }
    if (group === null) return;
    group.entries++;
    group.bytes.block(low, high);
    group.bytes.varint(age);
    this.#bytes += ENTRY_BYTES;
  };
}

/** The age, as part of the capacity, up to which so many entries are; more than 1 when all fit. */
function youngestThatFit(index: BlockIndex, most: number): number {
  const ages = new Float64Array(AGES);
  const stride = Math.max(index.lines / SAMPLED_LINES, 1);
  const count = (cell: number, _low: number, _high: number, age: number): void => {
    ages[Math.min(Math.floor((age * 512 * AGES) / index.capacity(cell)), AGES - 1)]! += stride;
  };
  for (let line = 0; line < index.lines; line += stride) index.visit(line, count);
  let sum = 0;
  for (let age = 0; age < AGES; age++) {
    sum += ages[age] as number;
    if (sum > most) return age / AGES;
  }
  return 2;
}

/**
 * Takes a chunk over into an index. `cellOf`: of a member, undefined for one that is not known here. True when it was the last one. Throws when it
 * cannot be read; nothing was changed then.
 */
export function applySnapshot(chunk: Buffer, index: BlockIndex, cellOf: (id: number) => number | undefined): boolean {
  readChunk(chunk, null, cellOf);
  return readChunk(chunk, index, cellOf);
}

function readChunk(chunk: Buffer, index: BlockIndex | null, cellOf: (id: number) => number | undefined): boolean {
  const reader = new ByteReader(chunk);
  const bits = reader.u8();
  if (bits < LEAST_LINE_BITS || bits > MOST_LINE_BITS) throw new Error(`an index has no ${bits} bits of lines`);
  const lines = 2 ** bits;
  const flags = reader.u8();
  const block = new Int32Array(2);
  for (let groups = reader.varint(MAX_GROUPS); groups > 0; groups--) {
    const cell = cellOf(reader.u32());
    const capacity = reader.u32();
    if (index !== null && cell !== undefined && capacity !== 0 && !index.isCapacityKnown(cell)) {
      index.setCapacity(cell, capacity);
    }
    for (let entries = reader.varint(MAX_ENTRIES); entries > 0; entries--) {
      reader.blocks(block, 1);
      const age = reader.varint(MAX_AGE);
      if (index === null || cell === undefined || index.lines > lines * MOST_TIMES) continue;
      index.restore(cell, block[0] as number, block[1] as number, age, lines);
    }
  }
  if (reader.left !== 0) throw new Error('the chunk goes on behind its end');
  return (flags & IS_LAST) !== 0;
}
