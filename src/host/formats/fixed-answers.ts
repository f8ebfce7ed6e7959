// Answers that need no generation: embeddings (unit vectors that depend on the text alone, as numbers or base64 of
// little-endian float32), rankings (by shared words), images and speech (the smallest valid files).
import { createSeededRandom } from '../../actor/index.ts';
import { countTokens, seedOf } from '../engine/model/word-chain.ts';
import { type Json, textOf } from './format.ts';

/** Length of a vector when the request names no `dimensions`. */
const DIMENSIONS = 64;
const MAX_DIMENSIONS = 4096;
/** Numbers of all vectors of an answer: some 40 MB of JSON. */
const MAX_NUMBERS = 2_097_152;

/** The answer of the embeddings API. Throws an Error that says what is wrong with the request. */
export function embed(body: Json, model: string): Json {
  const dimensions = body['dimensions'] ?? DIMENSIONS;
  if (!(Number.isInteger(dimensions) && Number(dimensions) >= 1 && Number(dimensions) <= MAX_DIMENSIONS)) {
    throw new Error(`dimensions must be a whole number from 1 to ${MAX_DIMENSIONS}`);
  }
  const inputs = inputsOf(body['input'], Number(dimensions));
  const tokens = inputs.reduce((sum, input) => sum + countTokens(input), 0);
  return {
    object: 'list',
    data: inputs.map((input, index) => {
      const vector = vectorOf(seedOf(0, model, input), Number(dimensions));
      const embedding = body['encoding_format'] === 'base64' ? base64Of(vector) : Array.from(vector);
      return { object: 'embedding', index, embedding };
    }),
    model,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
}

function inputsOf(input: unknown, dimensions: number): string[] {
  if (typeof input === 'string') return [input];
  if (!Array.isArray(input) || input.length === 0) throw new Error('input must be a text or an array');
  // An array of numbers is one text as tokens; any other array holds one input in each place.
  if (typeof input[0] === 'number') return [textOf(input)];
  const most = Math.floor(MAX_NUMBERS / dimensions);
  if (input.length > most) throw new Error(`input must be at most ${most} texts of ${dimensions} dimensions`);
  return input.map(textOf);
}

function vectorOf(seed: number, dimensions: number): Float32Array {
  const random = createSeededRandom(seed);
  const vector = Float32Array.from({ length: dimensions }, () => random() * 2 - 1);
  const norm = Math.hypot(...vector);
  return vector.map((value) => value / norm);
}

function base64Of(vector: Float32Array): string {
  const bytes = Buffer.alloc(vector.length * 4);
  vector.forEach((value, at) => bytes.writeFloatLE(value, at * 4));
  return bytes.toString('base64');
}

/** One grey pixel, as PNG. */
const PIXEL_PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==';

const SAMPLES_PER_SECOND = 8000;
const WAV_HEAD_BYTES = 44;

/** The answer of the image API: `n` (1 to 10) images as base64. Throws an Error for any other `n`. */
export function drawImages(body: Json, created: number): Json {
  const count = body['n'] ?? 1;
  if (!(Number.isInteger(count) && Number(count) >= 1 && Number(count) <= 10)) {
    throw new Error('n must be a whole number from 1 to 10');
  }
  return { created, data: Array.from({ length: Number(count) }, () => ({ b64_json: PIXEL_PNG })) };
}

/** A WAV file, 8 kHz mono 8 bit: ten milliseconds of a 400 Hz saw for each character of the input, at most a second. */
export function speak(body: Json): Buffer {
  const { input } = body;
  if (typeof input !== 'string') throw new Error('input must be a text');
  const samples = Math.min(SAMPLES_PER_SECOND, input.length * (SAMPLES_PER_SECOND / 100));
  const wav = Buffer.alloc(WAV_HEAD_BYTES + samples);
  wav.write('RIFF', 0, 'latin1');
  wav.writeUInt32LE(wav.length - 8, 4);
  wav.write('WAVEfmt ', 8, 'latin1');
  wav.writeUInt32LE(16, 16);
  wav.writeUInt16LE(1, 20);
  wav.writeUInt16LE(1, 22);
  wav.writeUInt32LE(SAMPLES_PER_SECOND, 24);
  wav.writeUInt32LE(SAMPLES_PER_SECOND, 28);
  wav.writeUInt16LE(1, 32);
  wav.writeUInt16LE(8, 34);
  wav.write('data', 36, 'latin1');
  wav.writeUInt32LE(samples, 40);
  for (let at = 0; at < samples; at++) wav[WAV_HEAD_BYTES + at] = 128 + (at % 20) * 4;
  return wav;
}

/** The answer of llama-server's own embedding API: one entry for each text, of one vector. Throws as `embed` does. */
export function embedContent(body: Json, model: string): Json[] {
  return inputsOf(body['content'] ?? body['input'], DIMENSIONS).map((input, index) => ({
    index,
    embedding: [Array.from(vectorOf(seedOf(0, model, input), DIMENSIONS))],
  }));
}

const WORD = /[\p{L}\p{N}]+/gu;

/** Documents by the words that they share with the query: the cosine of their sets of words. */
export function rerank(query: string, documents: readonly string[], top: number | undefined, model: string): Json {
  const wordsOf = (text: string): Set<string> => new Set(text.toLowerCase().match(WORD));
  const wanted = wordsOf(query);
  const results = documents.map((document, index) => {
    const words = wordsOf(document);
    const shared = [...words].filter((word) => wanted.has(word)).length;
    return { index, relevance_score: shared === 0 ? 0 : shared / Math.sqrt(wanted.size * words.size) };
  });
  const tokens = documents.reduce((sum, document) => sum + countTokens(query) + countTokens(document), 0);
  return {
    model,
    object: 'list',
    usage: { prompt_tokens: tokens, total_tokens: tokens },
    results: results.toSorted((a, b) => b.relevance_score - a.relevance_score).slice(0, top),
  };
}
