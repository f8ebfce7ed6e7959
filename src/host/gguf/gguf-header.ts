// Reads the header of a GGUF file (versions 2 and 3, little-endian): enough to describe the model and to refuse a wrong file
// before anything is loaded. Layout: magic, version, counts, metadata, tensor descriptions, data.
import { type FileHandle, open } from 'node:fs/promises';

/** What a model file says of itself. */
export interface GgufHeader {
  readonly version: number;
  /** Such as `llama`. */
  readonly architecture: string;
  /** Null when the file has none. */
  readonly name: string | null;
  /** Tokens the model was trained for; null when the file does not say. */
  readonly contextTokens: number | null;
  /** Such as `llama` or `gpt2`; null for a file without a tokenizer. */
  readonly tokenizer: string | null;
  readonly vocabularySize: number;
  readonly tensors: number;
  readonly hasChatTemplate: boolean;
  readonly canInfill: boolean;
}

const FIRST_BYTES = 1024 * 1024;

/** Vocabularies make headers long, but not longer. */
const MOST_BYTES = 512 * 1024 * 1024;

const SCALARS: Readonly<Record<number, number>> = {
  0: 1,
  1: 1,
  2: 2,
  3: 2,
  4: 4,
  5: 4,
  6: 4,
  7: 1,
  10: 8,
  11: 8,
  12: 8,
};
const TEXT = 8;
const LIST = 9;

/** The bytes read so far end within the header. */
class TooShort extends Error {}

/** Reads the head of a file. Rejects with a sentence that names the file. */
export async function readGgufHeader(path: string): Promise<GgufHeader> {
  let file: FileHandle;
  try {
    file = await open(path);
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    throw new Error(isMissing ? `there is no file ${path}` : `${path} cannot be read: ${(error as Error).message}`, {
      cause: error,
    });
  }
  try {
    const { size } = await file.stat();
    for (let length = FIRST_BYTES; ; length *= 2) {
      const bytes = Buffer.alloc(Math.min(length, size));
      await file.read(bytes, 0, bytes.length, 0);
      try {
        return parseGgufHeader(bytes, size);
      } catch (error) {
        if (!(error instanceof TooShort)) throw error;
        if (bytes.length === size || length >= MOST_BYTES)
          throw new Error('it ends within its header', { cause: error });
      }
    }
  } catch (error) {
    throw new Error(`${path} cannot be loaded as a model: ${(error as Error).message}`, { cause: error });
  } finally {
    await file.close();
  }
}

function parseGgufHeader(bytes: Buffer, fileBytes: number): GgufHeader {
  const cursor = new Cursor(bytes);
  if (bytes.toString('latin1', 0, 4) !== 'GGUF') throw new Error('it does not begin with GGUF');
  cursor.skip(4);
  const version = cursor.uint32();
  if (version < 2 || version > 3) {
    throw new Error(version > 0xffff ? 'it is big-endian, which is not supported' : `its GGUF version is ${version}`);
  }
  const tensors = cursor.uint64();
  const count = cursor.uint64();
  const values = new Map<string, string | number>();
  for (let at = 0; at < count; at++) values.set(cursor.text(), cursor.value());
  const lastTensorAt = tensorsEnd(cursor, tensors);
  const alignment = numberOf(values, 'general.alignment') ?? 32;
  const dataStart = Math.ceil(cursor.at / alignment) * alignment;
  if (tensors > 0 && dataStart + lastTensorAt >= fileBytes) throw new Error('it ends before its tensors do');
  return headerOf(version, tensors, values);
}

/** Offset of the last tensor within the data. */
function tensorsEnd(cursor: Cursor, count: number): number {
  let last = 0;
  for (let at = 0; at < count; at++) {
    cursor.skip(cursor.uint64());
    cursor.skip(8 * cursor.uint32());
    cursor.skip(4);
    last = Math.max(last, cursor.uint64());
  }
  return last;
}

function headerOf(version: number, tensors: number, values: ReadonlyMap<string, string | number>): GgufHeader {
  const architecture = textOf(values, 'general.architecture');
  if (architecture === null) throw new Error('it does not name its architecture');
  if (tensors === 0) throw new Error('it has no tensors');
  return {
    version,
    architecture,
    name: textOf(values, 'general.name'),
    contextTokens: numberOf(values, `${architecture}.context_length`),
    tokenizer: textOf(values, 'tokenizer.ggml.model'),
    vocabularySize: numberOf(values, 'tokenizer.ggml.tokens') ?? 0,
    tensors,
    hasChatTemplate: values.has('tokenizer.chat_template'),
    canInfill: ['pre', 'suf', 'mid'].every(
      (part) =>
        values.has(`tokenizer.ggml.fim_${part}_token_id`) || values.has(`tokenizer.ggml.${FORMER[part]}_token_id`),
    ),
  };
}

/** Names of the infill tokens in older files. */
const FORMER: Readonly<Record<string, string>> = { pre: 'prefix', suf: 'suffix', mid: 'middle' };

function textOf(values: ReadonlyMap<string, string | number>, key: string): string | null {
  const value = values.get(key);
  return typeof value === 'string' ? value : null;
}

function numberOf(values: ReadonlyMap<string, string | number>, key: string): number | null {
  const value = values.get(key);
  return typeof value === 'number' ? value : null;
}

class Cursor {
  at = 0;
  readonly #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  skip(count: number): void {
    this.at += count;
    if (this.at > this.#bytes.length) throw new TooShort();
  }

  uint32(): number {
    this.skip(4);
    return this.#bytes.readUInt32LE(this.at - 4);
  }

  uint64(): number {
    this.skip(8);
    const value = Number(this.#bytes.readBigUInt64LE(this.at - 8));
    if (!Number.isSafeInteger(value)) throw new Error('a number in its header is out of range');
    return value;
  }

  text(): string {
    const length = this.uint64();
    this.skip(length);
    return this.#bytes.toString('utf8', this.at - length, this.at);
  }

  /** A text or a whole number; of a list its length; of anything else 0. */
  value(): string | number {
    const type = this.uint32();
    if (type === TEXT) return this.text();
    if (type === LIST) return this.#list();
    const size = SCALARS[type];
    if (size === undefined) throw new Error(`its header has a value of unknown type ${type}`);
    this.skip(size);
    if (type === 4) return this.#bytes.readUInt32LE(this.at - 4);
    if (type === 5) return this.#bytes.readInt32LE(this.at - 4);
    return type === 10 ? Number(this.#bytes.readBigUInt64LE(this.at - 8)) : 0;
  }

  #list(): number {
    const type = this.uint32();
    const count = this.uint64();
    const size = SCALARS[type];
    if (size !== undefined) this.skip(size * count);
    else if (type === TEXT) for (let at = 0; at < count; at++) this.skip(this.uint64());
    else throw new Error(`its header has a list of unknown type ${type}`);
    return count;
  }
}
