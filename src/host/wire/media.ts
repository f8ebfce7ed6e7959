// POST /v1/images/generations and POST /v1/audio/speech: the smallest valid answers, so that proxied JSON that is
// large in real life and proxied bytes that are not text both have something to stand on.
import type { Json } from './wire.ts';

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
