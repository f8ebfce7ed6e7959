// Content codings of request bodies (RFC 9110 §8.4, RFC 7694): a body that has come whole is decoded in the thread pool of the process,
// piece by piece. What it grows to is bounded in size and in ratio, and counted before it is kept.

import type { Transform } from 'node:stream';
// Not by name: a Node.js without zstd would fail to link before its version is refused.
import * as zlib from 'node:zlib';
import { HeadraceError } from '../errors.ts';

/** A coding that can be undone. */
export type Coding = 'gzip' | 'deflate' | 'br' | 'zstd';

/** For `Accept-Encoding` of a 415 (RFC 7694 §3). */
const ACCEPTED = 'gzip, deflate, br, zstd';

/** By name as it is sent; `x-gzip` is RFC 9110 §8.4.1.3. */
const CODINGS: ReadonlyMap<string, Coding> = new Map<string, Coding>([
  ['gzip', 'gzip'],
  ['x-gzip', 'gzip'],
  ['deflate', 'deflate'],
  ['br', 'br'],
  ['zstd', 'zstd'],
]);

/** No client has a reason for more than one; two allow for a proxy that adds one. */
const MAX_CODINGS = 2;

/** A decoded body up to this size may have any ratio to the sent one: filler text of tests shrinks by a thousand. */
const FREE_BYTES = 1024 * 1024;

/** Beyond that it is at most so many times as long. JSON of real conversations shrinks by 3 to 10. */
const MAX_RATIO = 200;

/** Bodies of one thread that are decoded at the same time: a decoder takes up to 16 MiB (brotli) beside what it gives. */
const MAX_DECODING = 8;

/** Size of the pieces in which a body is decoded: a millisecond of one thread of the pool. */
const PIECE_BYTES = 64 * 1024;

/** The largest window that a sender of `zstd` may ask for: 8 MiB (RFC 9659). */
const ZSTD_WINDOW_LOG = 23;

/** The codings in the order in which they were applied; `identity` is none. 415 for others. */
export function codingsOf(contentEncoding: string): readonly Coding[] | HeadraceError {
  const codings: Coding[] = [];
  for (const part of contentEncoding.toLowerCase().split(',')) {
    const name = part.trim();
    if (name === '' || name === 'identity') continue;
    const coding = CODINGS.get(name);
    if (coding === undefined) return unsupported(`${name.slice(0, 40)} is none of ${ACCEPTED}`);
    codings.push(coding);
  }
  return codings.length > MAX_CODINGS ? unsupported(`more than ${MAX_CODINGS} codings`) : codings;
}

function unsupported(subject: string): HeadraceError {
  return new HeadraceError('HR_REQUEST_ENCODING', { subject, headers: ['accept-encoding', ACCEPTED] });
}

/** The unit of the counters of memory: with it 32 bits reach for 2 TiB. */
export const UNIT_BYTES = 1024;

/** The memory that a decoded body may take. */
export interface DecodingLimits {
  readonly maxBytes: number;
  /** Takes memory in multiples of `UNIT_BYTES`. False, and nothing is taken, when there is not so much left. */
  take(bytes: number): boolean;
  give(bytes: number): void;
}

/** Hears the decoded body, whose length has been taken by then, or why there is none, with nothing taken. Not called after an abort. */
export type DecodedCallback = (error: HeadraceError | null, body: Buffer) => void;

const NO_BYTES: Buffer = Buffer.alloc(0);

let running = 0;
let isStarting = false;
const waiting: Decoding[] = [];

/** The decoding of one body. */
export class Decoding {
  readonly #codings: Coding[];
  readonly #limits: DecodingLimits;
  readonly #done: DecodedCallback;
  readonly #sentBytes: number;
  #input: Buffer;
  /** Bytes taken for what `#input` and `#pieces` hold, beside the body as it was sent. */
  #taken = 0;
  #pieces: Buffer[] = [];
  #length = 0;
  #decoder: Transform | null = null;
  #over = false;
  #runs = false;

  /** Begins at once, or when fewer bodies are decoded. `body` must stay as it is until then. */
  constructor(body: Buffer, codings: readonly Coding[], limits: DecodingLimits, done: DecodedCallback) {
    this.#codings = [...codings];
    this.#limits = limits;
    this.#done = done;
    this.#sentBytes = body.byteLength;
    this.#input = body;
    waiting.push(this);
    Decoding.#startWaiting();
  }

  /** A loop, since a body may end within its start: thousands that do, each started by the end of the one before, would overflow the stack. */
  static #startWaiting(): void {
    if (isStarting) return;
    isStarting = true;
    try {
      while (running < MAX_DECODING) {
        const next = waiting.shift();
        if (next === undefined) break;
        next.#run();
      }
    } finally {
      isStarting = false;
    }
  }

  /** Nothing is called any more, and nothing stays taken. */
  abort(): void {
    if (this.#over) return;
    this.#end();
    this.#free();
  }

  #run(): void {
    running++;
    this.#runs = true;
    this.#next();
  }

  /** Undoes the coding that was applied last. */
  #next(): void {
    const coding = this.#codings.pop();
    if (coding === undefined) {
      const body = this.#input;
      this.#end();
      this.#done(null, body);
      return;
    }
    const input = this.#input;
    // Its decoder ends quietly where its input ends too early.
    if (coding === 'zstd' && !isZstdFrame(input)) {
      this.#fail(malformed(coding));
      return;
    }
    const decoder = decoderFor(coding, input);
    this.#decoder = decoder;
    decoder.on('data', (piece: Buffer) => this.#add(piece));
    decoder.on('error', () => this.#fail(malformed(coding)));
    decoder.on('end', () => {
      if (this.#over || this.#decoder !== decoder) return;
      // Anything behind the end is another body to somebody else.
      if (decoder.bytesWritten !== input.byteLength) this.#fail(malformed(coding));
      else this.#joined();
    });
    decoder.end(input);
  }

  #add(piece: Buffer): void {
    if (this.#over) return;
    const length = this.#length + piece.byteLength;
    const { maxBytes } = this.#limits;
    if (length > maxBytes) {
      this.#fail(new HeadraceError('HR_REQUEST_TOO_LARGE', { subject: `${maxBytes}` }));
    } else if (length > FREE_BYTES && length > this.#sentBytes * MAX_RATIO) {
      // The sentence ends with "bytes".
      const subject = `${MAX_RATIO} times its encoded size, of ${this.#sentBytes}`;
      this.#fail(new HeadraceError('HR_REQUEST_TOO_LARGE', { subject }));
    } else if (this.#take(piece.byteLength)) {
      this.#length = length;
      this.#pieces.push(piece);
    } else {
      this.#fail(new HeadraceError('HR_OVERLOADED', { subject: 'memory for request bodies' }));
    }
  }

  /** One coding is undone. */
  #joined(): void {
    const length = this.#length;
    const before = this.#taken;
    // Both the pieces and the whole are there while one is copied into the other.
    if (!this.#take(length)) {
      this.#fail(new HeadraceError('HR_OVERLOADED', { subject: 'memory for request bodies' }));
      return;
    }
    this.#input = Buffer.concat(this.#pieces, length);
    this.#limits.give(before);
    this.#taken -= before;
    this.#pieces = [];
    this.#length = 0;
    this.#decoder = null;
    this.#next();
  }

  /** In whole units of the budget, so that sums are given back as they were taken. */
  #take(bytes: number): boolean {
    const whole = Math.ceil(bytes / UNIT_BYTES) * UNIT_BYTES;
    if (!this.#limits.take(whole)) return false;
    this.#taken += whole;
    return true;
  }

  #fail(error: HeadraceError): void {
    if (this.#over) return;
    this.#end();
    this.#free();
    this.#done(error, NO_BYTES);
  }

  /** Lets another body be decoded. */
  #end(): void {
    this.#over = true;
    this.#decoder?.destroy();
    this.#decoder = null;
    if (!this.#runs) {
      waiting.splice(waiting.indexOf(this), 1);
      return;
    }
    running--;
    Decoding.#startWaiting();
  }

  #free(): void {
    this.#limits.give(this.#taken);
    this.#taken = 0;
    this.#pieces = [];
    this.#input = NO_BYTES;
  }
}

function malformed(coding: Coding): HeadraceError {
  return new HeadraceError('HR_REQUEST_MALFORMED', { subject: `the body is not valid ${coding}` });
}

type Decoder = Transform & { readonly bytesWritten: number };

function decoderFor(coding: Coding, input: Buffer): Decoder {
  const chunkSize = PIECE_BYTES;
  switch (coding) {
    case 'gzip':
      return zlib.createGunzip({ chunkSize });
    case 'br':
      return zlib.createBrotliDecompress({ chunkSize });
    case 'zstd':
      return zlib.createZstdDecompress({
        chunkSize,
        params: { [zlib.constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG },
      });
    case 'deflate':
      // Some clients leave out the zlib format around it (RFC 9110 §8.4.1.2, note).
      return isZlib(input) ? zlib.createInflate({ chunkSize }) : zlib.createInflateRaw({ chunkSize });
  }
}

/** The header of RFC 1950 §2.2. */
function isZlib(input: Buffer): boolean {
  const [first = 0, second = 0] = input;
  return (first & 0x0f) === 8 && ((first << 8) | second) % 31 === 0;
}

/** Whether the input is one whole frame and nothing else (RFC 8878 §3.1.1): its header, blocks up to the last one, and its checksum. */
function isZstdFrame(input: Buffer): boolean {
  if (input.byteLength < 6 || input.readUInt32LE(0) !== 0xfd2fb528) return false;
  const descriptor = input[4] as number;
  const isSingle = (descriptor & 0x20) !== 0;
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] as number;
  const sizeBytes = [isSingle ? 1 : 0, 2, 4, 8][descriptor >> 6] as number;
  let at = 5 + (isSingle ? 0 : 1) + dictionaryBytes + sizeBytes;
  for (let isLast = false; !isLast;) {
    if (at + 3 > input.byteLength) return false;
    const header = input.readUIntLE(at, 3);
    isLast = (header & 1) !== 0;
    // A block of one repeated byte has that byte alone.
    at += 3 + (((header >> 1) & 3) === 1 ? 1 : header >> 3);
  }
  return at + ((descriptor & 4) !== 0 ? 4 : 0) === input.byteLength;
}
