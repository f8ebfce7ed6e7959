// Writes GGUF files (version 3) for tests: any metadata and tensors, and a complete language model of one layer with random weights,
// small enough that every test writes its own.

export type GgufValue =
  | { readonly type: 'uint32' | 'int32' | 'float32'; readonly value: number }
  | { readonly type: 'bool'; readonly value: boolean }
  | { readonly type: 'string'; readonly value: string }
  | { readonly type: 'strings'; readonly value: readonly string[] }
  | { readonly type: 'floats' | 'ints'; readonly value: readonly number[] };

export interface GgufTensor {
  readonly name: string;
  /** Fastest dimension first. */
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

export interface GgufFile {
  readonly version?: number;
  readonly metadata: Readonly<Record<string, GgufValue>>;
  readonly tensors?: readonly GgufTensor[];
}

const ALIGNMENT = 32;

const TYPE = { uint32: 4, int32: 5, float32: 6, bool: 7, string: 8, array: 9 } as const;

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};

const i32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
};

const f32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
};

const u64 = (value: number): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
};

const text = (value: string): Buffer => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);

function valueBytes(given: GgufValue): Buffer {
  switch (given.type) {
    case 'uint32':
      return Buffer.concat([u32(TYPE.uint32), u32(given.value)]);
    case 'int32':
      return Buffer.concat([u32(TYPE.int32), i32(given.value)]);
    case 'float32':
      return Buffer.concat([u32(TYPE.float32), f32(given.value)]);
    case 'bool':
      return Buffer.concat([u32(TYPE.bool), Buffer.of(given.value ? 1 : 0)]);
    case 'string':
      return Buffer.concat([u32(TYPE.string), text(given.value)]);
    case 'strings':
      return arrayBytes(TYPE.string, given.value.map(text));
    case 'floats':
      return arrayBytes(TYPE.float32, given.value.map(f32));
    case 'ints':
      return arrayBytes(TYPE.int32, given.value.map(i32));
  }
}

function arrayBytes(type: number, items: readonly Buffer[]): Buffer {
  return Buffer.concat([u32(TYPE.array), u32(type), u64(items.length), ...items]);
}

const padded = (length: number): number => Math.ceil(length / ALIGNMENT) * ALIGNMENT;

/** The bytes of a file. */
export function ggufBytes({ version = 3, metadata, tensors = [] }: GgufFile): Buffer {
  const entries = Object.entries(metadata);
  const parts = [Buffer.from('GGUF'), u32(version), u64(tensors.length), u64(entries.length)];
  for (const [key, value] of entries) parts.push(text(key), valueBytes(value));
  let offset = 0;
  for (const { name, shape, values } of tensors) {
    parts.push(text(name), u32(shape.length), ...shape.map(u64), u32(0), u64(offset));
    offset += padded(values.byteLength);
  }
  const head = Buffer.concat(parts);
  const data = tensors.map(({ values }) => {
    const bytes = Buffer.alloc(padded(values.byteLength));
    Buffer.from(values.buffer, values.byteOffset, values.byteLength).copy(bytes);
    return bytes;
  });
  return Buffer.concat([head, Buffer.alloc(padded(head.length) - head.length), ...data]);
}

/** Tokens of the tiny model; the words are there besides all bytes. */
const TINY_WORDS: readonly string[] = ['the', 'water', 'wheel', 'turns', 'and', 'river', 'runs', 'down', 'hill'];

const SPECIALS = ['<unk>', '<s>', '</s>', '<PRE>', '<SUF>', '<MID>'];

const WIDTH = 32;
const HIDDEN = 64;

function vocabulary(): { tokens: string[]; scores: number[]; types: number[] } {
  const tokens = [...SPECIALS];
  const types: number[] = SPECIALS.map((_, at) => (at === 0 ? 2 : 3));
  for (let byte = 0; byte < 256; byte++) {
    tokens.push(`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);
    types.push(6);
  }
  const pieces = [...' abcdefghijklmnopqrstuvwxyz.,', ...TINY_WORDS].map((piece) => piece.replace(' ', '\u2581'));
  for (const piece of [...pieces, ...TINY_WORDS.map((word) => `\u2581${word}`)]) {
    tokens.push(piece);
    types.push(1);
  }
  return { tokens, types, scores: tokens.map((token, at) => (types[at] === 1 ? token.length - 20 : 0)) };
}

/** Numbers around 0, the same for the same seed. */
function random(seed: number, count: number, scale: number): Float32Array {
  let state = seed >>> 0 || 1;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state / 2 ** 31 - 1) * scale;
  });
}

/** A language model of one layer with random weights, of the architecture `llama`. */
export function tinyModel(contextTokens = 256): GgufFile {
  const { tokens, scores, types } = vocabulary();
  const size = tokens.length;
  const number = (value: number): GgufValue => ({ type: 'uint32', value });
  let seed = 1;
  const tensor = (name: string, ...shape: number[]): GgufTensor => {
    const count = shape.reduce((product, side) => product * side, 1);
    const isNorm = name.includes('norm');
    return { name, shape, values: isNorm ? new Float32Array(count).fill(1) : random(seed++, count, 0.5) };
  };
  return {
    metadata: {
      'general.architecture': { type: 'string', value: 'llama' },
      'general.name': { type: 'string', value: 'tiny' },
      'general.alignment': number(ALIGNMENT),
      'llama.context_length': number(contextTokens),
      'llama.embedding_length': number(WIDTH),
      'llama.block_count': number(1),
      'llama.feed_forward_length': number(HIDDEN),
      'llama.attention.head_count': number(2),
      'llama.attention.head_count_kv': number(2),
      'llama.attention.layer_norm_rms_epsilon': { type: 'float32', value: 1e-5 },
      'llama.rope.dimension_count': number(WIDTH / 2),
      'llama.vocab_size': number(size),
      'tokenizer.ggml.model': { type: 'string', value: 'llama' },
      'tokenizer.ggml.tokens': { type: 'strings', value: tokens },
      'tokenizer.ggml.scores': { type: 'floats', value: scores },
      'tokenizer.ggml.token_type': { type: 'ints', value: types },
      'tokenizer.ggml.unknown_token_id': number(0),
      'tokenizer.ggml.bos_token_id': number(1),
      'tokenizer.ggml.eos_token_id': number(2),
      'tokenizer.ggml.fim_pre_token_id': number(3),
      'tokenizer.ggml.fim_suf_token_id': number(4),
      'tokenizer.ggml.fim_mid_token_id': number(5),
      'tokenizer.ggml.add_bos_token': { type: 'bool', value: true },
    },
    tensors: [
      tensor('token_embd.weight', WIDTH, size),
      tensor('output_norm.weight', WIDTH),
      tensor('output.weight', WIDTH, size),
      tensor('blk.0.attn_norm.weight', WIDTH),
      tensor('blk.0.attn_q.weight', WIDTH, WIDTH),
      tensor('blk.0.attn_k.weight', WIDTH, WIDTH),
      tensor('blk.0.attn_v.weight', WIDTH, WIDTH),
      tensor('blk.0.attn_output.weight', WIDTH, WIDTH),
      tensor('blk.0.ffn_norm.weight', WIDTH),
      tensor('blk.0.ffn_gate.weight', WIDTH, HIDDEN),
      tensor('blk.0.ffn_up.weight', WIDTH, HIDDEN),
      tensor('blk.0.ffn_down.weight', HIDDEN, WIDTH),
    ],
  };
}
