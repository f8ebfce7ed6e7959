// Reads and decodes response bodies under a size limit, with bounded memory however many are read at once. Every body is
// first collected up to a fixed size. Bodies that have ended by then share one decoding limit, larger ones a second limit,
// so that a slow or hostile body does not hold up small pages.

import { pipeline, type Duplex } from 'node:stream';
import * as zlib from 'node:zlib';
import pLimit, { type LimitFunction } from 'p-limit';
import type { Clock } from '../actor/index.ts';
import { type ErrorCode, HeadraceError } from '../errors.ts';
import { abortable } from '../net/abortable.ts';
import { GZIP_TRAILER_BYTES, gzipHeadBytes, MAX_GZIP_HEAD_BYTES, MAX_GZIP_MEMBERS } from '../net/gzip.ts';
import { TurnQueue } from '../routing/index.ts';
import { GrowingBytes, type GuardedResponse } from './guarded-client.ts';
import { isSkippable, MAGIC_BYTES, ZstdFrame } from './zstd-frame.ts';

/** Collected of every body before a limit applies. Nearly all pages are smaller on the wire. */
const COLLECTED_BYTES = 524_288;

/** Complete bodies that are decoded at once: they wait for the processor only. */
const MAX_DECODED = 8;

/** Large bodies that are read at once, in all and of one account; each takes the memory of a page and two decoder windows. */
const MAX_LARGE = 16;
const MAX_LARGE_OF_ACCOUNT = 8;

/** Servers apply one coding, rarely two. More is an attack or a defect. */
const MAX_CODINGS = 2;

/** RFC 9659: a zstd decoder for the web must support windows of 8 MiB. The default would be 128 MiB. */
const ZSTD_WINDOW_LOG = 23;

/** Each takes a decoder. Servers send one frame, or one for each piece that they flush. */
const MAX_ZSTD_FRAMES = 1000;

/** Output pieces of a decoder: fewer event loop turns than with the default of 16 KiB. */
const CHUNK_BYTES = 65_536;

/** What the decoders of the start of a body take at most, between two codings. */
const MAX_START_BYTES = 1_048_576;

type Coding = 'gzip' | 'deflate' | 'br' | 'zstd';

/** Node has it since 22.15. */
const HAS_ZSTD = typeof zlib.createZstdDecompress === 'function';

/** For `Accept-Encoding`. */
export const ACCEPTED_CODINGS: string = `gzip, deflate, br${HAS_ZSTD ? ', zstd' : ''}`;

const CODINGS: ReadonlyMap<string, Coding> = new Map<string, Coding>([
  ['gzip', 'gzip'],
  ['x-gzip', 'gzip'],
  ['deflate', 'deflate'],
  ['br', 'br'],
  ...(HAS_ZSTD ? ([['zstd', 'zstd']] as const) : []),
]);

/** Registered codings that are not undone here. Any other name is a mistake of the server, such as `utf-8`, and stands for no coding, as in browsers. */
const NOT_UNDONE = /^(?:aes128gcm|(?:x-)?compress|dc[bz]|exi|pack200-gzip|zstd)$/;

/** A start that is broken or cannot be decoded within the limits ends there. */
const ENDS_START: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['HR_FETCH_FAILED', 'HR_FETCH_TOO_LARGE']);

type Pieces = AsyncIterable<Uint8Array>;

export class BodyReader {
  readonly #decoding: LimitFunction = pLimit(MAX_DECODED);
  readonly #large: TurnQueue;

  constructor(clock: Clock) {
    const waiting = { waiting: Infinity, waitingOfKey: Infinity, waitMs: Infinity };
    this.#large = new TurnQueue({ places: MAX_LARGE, placesOf: () => MAX_LARGE_OF_ACCOUNT, ...waiting }, clock);
  }

  /**
   * The decoded body in a buffer of its own, in turns of `account` when it is large. Rejects with `HR_FETCH_TOO_LARGE` as soon as it is larger than `maxBytes`, with
   * `HR_FETCH_FAILED` (`unknown encoding`, `broken encoding`, or the error of the body), or with the reason of `signal`,
   * which must also end the response.
   */
  async read(
    response: GuardedResponse,
    maxBytes: number,
    account: string,
    signal: AbortSignal,
  ): Promise<Uint8Array<ArrayBuffer>> {
    const codings = codingsOf(response.headers['content-encoding']);
    if (Number(response.headers['content-length'] ?? 0) > maxBytes) throw tooLarge(maxBytes);
    const ended = await response.collect(Math.min(COLLECTED_BYTES, maxBytes));
    if (response.length > maxBytes) throw tooLarge(maxBytes);
    if (ended && (codings.length === 0 || response.length === 0)) return response.take();
    const decode = async (): Promise<Uint8Array<ArrayBuffer>> => {
      signal.throwIfAborted();
      if (codings.length === 0) {
        if (await response.collect(maxBytes)) return response.take();
      } else {
        const page = new GrowingBytes();
        if (await fill(page, decoded(response, codings, maxBytes), maxBytes)) return page.take();
      }
      throw tooLarge(maxBytes);
    };
    return await (ended ? this.#decoding(decode) : this.#inTurn(account, signal, decode));
  }

  async #inTurn<T>(account: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const turn = Promise.withResolvers<unknown>();
    const place = this.#large.request(account, turn.resolve);
    try {
      await abortable(signal, turn.promise);
      return await work();
    } finally {
      place.leave();
    }
  }

  /** About the first `bytes` of a body, both on the wire and decoded. A broken body ends where it breaks. */
  async readStart(response: GuardedResponse, bytes: number, signal: AbortSignal): Promise<Uint8Array> {
    const start = new GrowingBytes();
    try {
      const codings = codingsOf(response.headers['content-encoding']);
      await response.collect(bytes);
      const encoded = response.take();
      if (codings.length === 0 || encoded.length === 0) return encoded;
      await this.#decoding(async () => {
        signal.throwIfAborted();
        await fill(start, decoded(only(encoded), codings, MAX_START_BYTES), bytes);
      });
    } catch (error) {
      if (!(error instanceof HeadraceError) || !ENDS_START.has(error.code)) throw error;
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

/** The known codings of `Content-Encoding` in the order in which they are undone. */
function codingsOf(header = ''): readonly Coding[] {
  if (header === '') return [];
  const codings = header.split(',').flatMap((name) => {
    const lower = name.trim().toLowerCase();
    const coding = CODINGS.get(lower);
    if (coding === undefined && NOT_UNDONE.test(lower)) throw failed('unknown encoding');
    return coding ?? [];
  });
  if (codings.length > MAX_CODINGS) throw failed('unknown encoding');
  return codings.toReversed();
}

/** Appends pieces until they have ended (true) or are longer than `maxBytes` (false). */
async function fill(into: GrowingBytes, pieces: Pieces, maxBytes: number): Promise<boolean> {
  for await (const piece of pieces) {
    into.append(piece);
    if (into.length > maxBytes) return false;
  }
  return true;
}

async function* only(bytes: Uint8Array): AsyncGenerator<Uint8Array, undefined> {
  yield bytes;
}

/** Undoes the codings. Nothing longer than `maxBytes` goes into a decoder: it could go on without ever giving a byte. */
function decoded(pieces: Pieces, codings: readonly Coding[], maxBytes: number): Pieces {
  return codings.reduce((source, coding) => decodedOnce(limited(source, maxBytes), coding), pieces);
}

async function* limited(pieces: Pieces, maxBytes: number): AsyncGenerator<Uint8Array, undefined> {
  let length = 0;
  for await (const piece of pieces) {
    length += piece.byteLength;
    if (length > maxBytes) throw tooLarge(maxBytes);
    yield piece;
  }
}

async function* decodedOnce(source: Pieces, coding: Coding): AsyncGenerator<Uint8Array, undefined> {
  const pieces = source[Symbol.asyncIterator]();
  const first = await pieces.next();
  if (first.done === true) return;
  const rest = new Rest(first.value, pieces);
  try {
    if (coding === 'zstd') yield* decodedFrames(rest);
    else if (coding === 'gzip') yield* decodedMembers(rest);
    else yield* through(decoderOf(coding, first.value[0] ?? 0), rest.all());
  } finally {
    // Not waited for: a piece may be under way, and comes or fails with the response.
    pieces.return?.().catch(() => undefined);
  }
}

/** What is left of an encoded body. */
class Rest {
  /** Of the piece that came last. */
  piece: Uint8Array;
  readonly #pieces: AsyncIterator<Uint8Array>;

  constructor(piece: Uint8Array, pieces: AsyncIterator<Uint8Array>) {
    this.piece = piece;
    this.#pieces = pieces;
  }

  /** Takes the next piece in place of this one. False, and nothing changes: there is none. */
  async more(): Promise<boolean> {
    const next = await this.#pieces.next();
    if (next.done !== true) this.piece = next.value;
    return next.done !== true;
  }

  /** The same with the next piece behind this one. */
  async join(): Promise<boolean> {
    const before = this.piece;
    const isMore = await this.more();
    if (isMore) this.piece = Buffer.concat([before, this.piece]);
    return isMore;
  }

  async *all(): AsyncGenerator<Uint8Array, undefined> {
    do yield this.piece;
    while (await this.more());
  }
}

async function* through(decoder: Duplex, source: Pieces): AsyncGenerator<Uint8Array, undefined> {
  // The decoder emits the errors of both.
  pipeline(source, decoder, () => undefined);
  try {
    yield* decoder as AsyncIterable<Uint8Array>;
  } catch (cause) {
    throw cause instanceof HeadraceError ? cause : failed('broken encoding', cause);
  } finally {
    decoder.destroy();
  }
}

/** Undoes zstd, frame by frame (RFC 8878 §3.1). */
async function* decodedFrames(rest: Rest): AsyncGenerator<Uint8Array, undefined> {
  async function* bytesOf(frame: ZstdFrame): AsyncGenerator<Uint8Array, undefined> {
    do {
      const length = frame.take(rest.piece);
      yield rest.piece.subarray(0, length);
      rest.piece = rest.piece.subarray(length);
    } while (!frame.isWhole && (await rest.more()));
  }
  for (let frames = 0; rest.piece.byteLength > 0 || (await rest.more()); frames++) {
    if (frames === MAX_ZSTD_FRAMES) throw failed('broken encoding');
    while (rest.piece.byteLength < MAGIC_BYTES && (await rest.join()));
    const frame = new ZstdFrame();
    const bytes = bytesOf(frame);
    if (isSkippable(rest.piece)) while ((await bytes.next()).done !== true);
    else yield* through(decoderOf('zstd', 0), bytes);
    // After its text, which may be the start of a page.
    if (!frame.isWhole) throw failed('broken encoding');
  }
}

/** One piece at a time, so that what the decoder leaves is of the last one. */
const MEMBER_OPTIONS = { chunkSize: CHUNK_BYTES, writableHighWaterMark: 1 };

/** Undoes gzip, member by member. Bytes behind the last member are ignored, as by browsers. */
async function* decodedMembers(rest: Rest): AsyncGenerator<Uint8Array, undefined> {
  for (let members = 0; ; members++) {
    let head = gzipHeadBytes(rest.piece);
    while (head < 0 && rest.piece.byteLength < MAX_GZIP_HEAD_BYTES && (await rest.join()))
      head = gzipHeadBytes(rest.piece);
    if (head <= 0 && members > 0) return;
    if (head <= 0 || members === MAX_GZIP_MEMBERS) throw failed('broken encoding');
    rest.piece = rest.piece.subarray(head);
    const decoder = zlib.createInflateRaw(MEMBER_OPTIONS);
    let given = 0;
    async function* bytes(): AsyncGenerator<Uint8Array, undefined> {
      do {
        given += rest.piece.byteLength;
        yield rest.piece;
      } while (decoder.bytesWritten === given && (await rest.more()));
    }
    let checksum = 0;
    for await (const piece of through(decoder, bytes())) {
      checksum = zlib.crc32(piece, checksum);
      yield piece;
    }
    rest.piece = rest.piece.subarray(rest.piece.byteLength - (given - decoder.bytesWritten));
    while (rest.piece.byteLength < GZIP_TRAILER_BYTES && (await rest.join()));
    const { buffer, byteLength, byteOffset } = rest.piece;
    const isWhole = byteLength >= GZIP_TRAILER_BYTES;
    if (!isWhole || new DataView(buffer, byteOffset).getUint32(0, true) !== checksum) throw failed('broken encoding');
    rest.piece = rest.piece.subarray(GZIP_TRAILER_BYTES);
  }
}

function decoderOf(coding: Exclude<Coding, 'gzip'>, firstByte: number): Duplex {
  const options = { chunkSize: CHUNK_BYTES };
  switch (coding) {
    case 'deflate':
      // RFC 9110 means the zlib format (RFC 1950); some servers send raw deflate.
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
