// Reads the body of an answer: decodes it, counts it, and keeps memory bounded however many are read at once. Every body is
// held as it comes up to a size; what is there whole by then is decoded among a few, what is larger goes on among a few
// others. So a slow body takes little memory and holds up no small one, and a bomb has its window and its page in memory
// only while it is one of the few.

import { pipeline, type Duplex } from 'node:stream';
import * as zlib from 'node:zlib';
import pLimit, { type LimitFunction } from 'p-limit';
import { HeadraceError } from '../errors.ts';
import { GrowingBytes } from './growing-bytes.ts';

/** Held of every body. Nearly all pages are smaller on the wire. */
const HELD_BYTES = 524_288;

/** Whole bodies decoded at once: they wait for nothing but the processor. */
const MAX_DECODED = 8;

/** Large bodies read at once; each is a page and the windows of two codings in memory. */
const MAX_LARGE = 16;

/** A page encoded more often than this is a bomb, or broken. */
const MAX_CODINGS = 2;

/** RFC 9659: what a zstd decoder of the web must bear, 8 MiB. The default would be 128 MiB. */
const ZSTD_WINDOW_LOG = 23;

/** Pieces of a decoder: fewer turns than with the default of 16 KiB. */
const CHUNK_BYTES = 65_536;

type Coding = 'gzip' | 'deflate' | 'br' | 'zstd';

/** Node has it since 22.15. */
const HAS_ZSTD = typeof zlib.createZstdDecompress === 'function';

/** For `Accept-Encoding`. */
export const ACCEPTED_CODINGS: string = `gzip, deflate, br${HAS_ZSTD ? ', zstd' : ''}`;

const CODINGS: ReadonlyMap<string, Coding | null> = new Map<string, Coding | null>([
  ['gzip', 'gzip'],
  ['x-gzip', 'gzip'],
  ['deflate', 'deflate'],
  ['br', 'br'],
  ...(HAS_ZSTD ? ([['zstd', 'zstd']] as const) : []),
  ['identity', null],
  ['', null],
]);

type Pieces = AsyncIterator<Uint8Array, undefined>;

export interface Body {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Pieces;
}

export class BodyReader {
  readonly #decoding: LimitFunction = pLimit(MAX_DECODED);
  readonly #large: LimitFunction = pLimit(MAX_LARGE);

  /**
   * The decoded body in a buffer of its own. Rejects with `HR_FETCH_TOO_LARGE` as soon as it is larger than `maxBytes`,
   * with `HR_FETCH_FAILED` (`unknown encoding`, `broken encoding`, or the body's own error), with the reason of `signal`,
   * which is to end the body too.
   */
  async read({ headers, body }: Body, maxBytes: number, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const codings = codingsOf(headers['content-encoding']);
    if (Number(headers['content-length'] ?? 0) > maxBytes) throw tooLarge(maxBytes);
    const held = new GrowingBytes();
    const ended = await fill(held, body, Math.min(HELD_BYTES, maxBytes));
    if (held.length > maxBytes) throw tooLarge(maxBytes);
    if (ended && (codings.length === 0 || held.length === 0)) return held.take();
    const turns = ended ? this.#decoding : this.#large;
    return await turns(async () => {
      signal.throwIfAborted();
      const page = codings.length === 0 ? held : new GrowingBytes();
      const pieces = codings.length === 0 ? body : chain(prefixed(held.take(), body), codings);
      if (await fillAndLeave(page, pieces, maxBytes)) return page.take();
      throw tooLarge(maxBytes);
    });
  }

  /** The first bytes of a body, at most about `bytes` on the wire and decoded; a body that is broken ends where it breaks. */
  async readStart({ headers, body }: Body, bytes: number, signal: AbortSignal): Promise<Uint8Array> {
    const held = new GrowingBytes();
    const start = new GrowingBytes();
    try {
      const codings = codingsOf(headers['content-encoding']);
      await fillAndLeave(held, body, bytes);
      if (codings.length === 0 || held.length === 0) return held.take();
      await this.#decoding(async () => {
        signal.throwIfAborted();
        await fillAndLeave(start, chain(only(held.take()), codings), bytes);
      });
    } catch (error) {
      if (!(error instanceof HeadraceError) || error.code !== 'HR_FETCH_FAILED') throw error;
    }
    return start.take();
  }
}

function tooLarge(maxBytes: number): HeadraceError {
  return new HeadraceError('HR_FETCH_TOO_LARGE', { subject: String(maxBytes) });
}

function failed(subject: string, cause?: unknown): HeadraceError {
  return new HeadraceError('HR_FETCH_FAILED', { subject, cause });
}

/** In the order of undoing. */
function codingsOf(header = ''): readonly Coding[] {
  const codings = header.split(',').flatMap((name) => {
    const coding = CODINGS.get(name.trim().toLowerCase());
    if (coding === undefined) throw failed('unknown encoding');
    return coding ?? [];
  });
  if (codings.length > MAX_CODINGS) throw failed('unknown encoding');
  return codings.toReversed();
}

/** Appends pieces until there are `bytes`; true when the pieces have ended. */
async function fill(into: GrowingBytes, pieces: Pieces, bytes: number): Promise<boolean> {
  while (into.length <= bytes) {
    const { done, value } = await pieces.next();
    if (done === true) return true;
    into.append(value);
  }
  return false;
}

async function fillAndLeave(into: GrowingBytes, pieces: Pieces, bytes: number): Promise<boolean> {
  try {
    return await fill(into, pieces, bytes);
  } finally {
    await pieces.return?.();
  }
}

async function* only(bytes: Uint8Array): AsyncGenerator<Uint8Array, undefined> {
  yield bytes;
}

async function* prefixed(first: Uint8Array, rest: Pieces): AsyncGenerator<Uint8Array, undefined> {
  yield first;
  yield* { [Symbol.asyncIterator]: () => rest };
}

function chain(pieces: Pieces, codings: readonly Coding[]): Pieces {
  return codings.reduce<Pieces>((source, coding) => decoded(source, coding), pieces);
}

async function* decoded(source: Pieces, coding: Coding): AsyncGenerator<Uint8Array, undefined> {
  const first = await source.next();
  if (first.done === true) return;
  const decoder = decoderOf(coding, first.value[0] ?? 0);
  // Its errors come out of the decoder.
  pipeline(prefixed(first.value, source), decoder, () => undefined);
  try {
    yield* decoder as AsyncIterable<Uint8Array>;
  } catch (cause) {
    throw cause instanceof HeadraceError ? cause : failed('broken encoding', cause);
  } finally {
    decoder.destroy();
  }
}

function decoderOf(coding: Coding, firstByte: number): Duplex {
  const options = { chunkSize: CHUNK_BYTES };
  switch (coding) {
    case 'gzip':
      return zlib.createGunzip(options);
    case 'deflate':
      // RFC 9110 means zlib's wrapping (RFC 1950); some servers leave it out.
      return (firstByte & 0x0f) === 8 ? zlib.createInflate(options) : zlib.createInflateRaw(options);
    case 'br':
      return zlib.createBrotliDecompress(options);
    case 'zstd':
      return zlib.createZstdDecompress({
        ...options,
        params: { [zlib.constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG },
      });
  }
}
