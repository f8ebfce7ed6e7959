// Decoder of the chunked transfer coding (RFC 9112 §7.1). Strict and bounded; the result is the same wherever the input is cut.

import { CR, LF, SPACE, TAB, TEXT, TOKEN } from './http1-fields.ts';

const COLON = 0x3a;
const SEMICOLON = 0x3b;

/** Longest chunk size, leading zeros included. */
const MAX_SIZE_DIGITS = 15;
/** Limit of the extensions of one chunk. */
const EXTENSION_BYTES = 4096;
const TRAILER_BYTES = 16 * 1024;
/** Sizes of so many digits are read at once: up to 16 MiB. */
const WHOLE_DIGITS = 6;

/** The value of a hexadecimal digit, -1 at every other byte. */
const HEX = Int8Array.from({ length: 256 }, (_, code) => {
  const digit = String.fromCharCode(code);
  return /[\da-f]/i.test(digit) ? parseInt(digit, 16) : -1;
});

/** States of a chunked body; all but `data` take one byte at a time. */
type ChunkState = 'size' | 'padding' | 'extension' | 'size end' | 'data' | 'data end' | 'data ended' | TrailerState;
type TrailerState = 'trailer' | 'trailer name' | 'trailer value' | 'trailer line end' | 'trailers end';

/** Decodes one body at a time: `begin`, then `decode` piece by piece until `done` or `fault` is set. */
export class ChunkedDecoder {
  /** The last chunk and the trailers have been read. */
  done = false;
  /** What makes the body invalid; empty while nothing does. */
  fault: '' | 'chunk' | 'trailers' | 'long trailers' = '';
  /** Bounds of the data in the last piece. */
  dataStart = 0;
  dataEnd = 0;
  #state: ChunkState = 'size';
  /** Bytes left of the chunk. */
  #left = 0;
  #digits = 0;
  #lineBytes = 0;
  readonly #allowsPadding: boolean;

  /** `allowsPadding`: blanks may follow a size that has no extension, as some servers send them. */
  constructor(allowsPadding: boolean) {
    this.#allowsPadding = allowsPadding;
  }

  begin(): void {
    this.done = false;
    this.fault = '';
    this.#state = 'size';
    this.#left = 0;
    this.#digits = 0;
    this.#lineBytes = 0;
  }

  /**
   * Decodes `bytes` from `start` to `end` and returns where it stopped: `end`, or behind the body. Moves the data of several
   * chunks together inside the bytes that it has consumed.
   */
  decode(bytes: Buffer, start: number, end: number): number {
    let state = this.#state;
    let at = start;
    this.dataStart = start;
    this.dataEnd = start;
    while (at < end) {
      if (state === 'data') {
        const taken = Math.min(this.#left, end - at);
        if (this.dataEnd === this.dataStart) this.dataStart = this.dataEnd = at;
        else if (at > this.dataEnd) bytes.copyWithin(this.dataEnd, at, at + taken);
        this.dataEnd += taken;
        this.#left -= taken;
        at += taken;
        if (this.#left === 0) state = 'data end';
        continue;
      }
      if (state === 'size' && this.#digits === 0) {
        const next = this.#takeWhole(bytes, at, end);
        if (next > at) {
          at = next;
          continue;
        }
      }
      const byte = bytes[at++] as number;
      switch (state) {
        case 'size':
          if ((HEX[byte] as number) >= 0) {
            this.#left = this.#left * 16 + (HEX[byte] as number);
            if (++this.#digits > MAX_SIZE_DIGITS || this.#left > Number.MAX_SAFE_INTEGER)
              return this.#fail('chunk', at);
          } else if (this.#digits === 0) return this.#fail('chunk', at);
          else if (byte === CR) state = 'size end';
          else if (byte === SEMICOLON) state = 'extension';
          else if (byte === SPACE || byte === TAB) state = 'padding';
          else return this.#fail('chunk', at);
          break;
        case 'padding':
          if (byte === CR && this.#allowsPadding) state = 'size end';
          else if (byte === SEMICOLON) state = 'extension';
          else if ((byte !== SPACE && byte !== TAB) || ++this.#lineBytes > EXTENSION_BYTES)
            return this.#fail('chunk', at);
          break;
        case 'extension':
          if (byte === CR) state = 'size end';
          else if (TEXT[byte] !== 1 || ++this.#lineBytes > EXTENSION_BYTES) return this.#fail('chunk', at);
          break;
        case 'size end':
          if (byte !== LF) return this.#fail('chunk', at);
          this.#lineBytes = 0;
          state = this.#left === 0 ? 'trailer' : 'data';
          break;
        case 'data end':
          if (byte !== CR) return this.#fail('chunk', at);
          state = 'data ended';
          break;
        case 'data ended':
          if (byte !== LF) return this.#fail('chunk', at);
          this.#digits = 0;
          state = 'size';
          break;
        default: {
          // Trailers are read and dropped: the head has been delivered by then.
          if (++this.#lineBytes > TRAILER_BYTES) return this.#fail('long trailers', at);
          const next = afterTrailerByte(state, byte);
          if (next === null) return this.#fail('trailers', at);
          if (next === 'done') {
            this.done = true;
            return at;
          }
          state = next;
        }
      }
    }
    this.#state = state;
    return at;
  }

  /** Takes a chunk that is there to its last byte, without an extension, and returns what follows; else returns `start`. */
  #takeWhole(bytes: Buffer, start: number, end: number): number {
    let at = start;
    let size = 0;
    const limit = Math.min(start + WHOLE_DIGITS, end);
    for (; at < limit; at++) {
      const digit = HEX[bytes[at] as number] as number;
      if (digit < 0) break;
      size = size * 16 + digit;
    }
    const data = at + 2;
    const behind = data + size + 2;
    if (size === 0 || behind > end || bytes[at] !== CR || bytes[at + 1] !== LF) return start;
    if (bytes[behind - 2] !== CR || bytes[behind - 1] !== LF) return start;
    if (this.dataEnd === this.dataStart) this.dataStart = this.dataEnd = data;
    else bytes.copyWithin(this.dataEnd, data, data + size);
    this.dataEnd += size;
    return behind;
  }

  #fail(fault: 'chunk' | 'trailers' | 'long trailers', at: number): number {
    this.fault = fault;
    return at;
  }
}

/** The state behind a byte of the trailers; null when the byte is invalid. */
function afterTrailerByte(state: TrailerState, byte: number): TrailerState | 'done' | null {
  switch (state) {
    case 'trailer':
      if (byte === CR) return 'trailers end';
      return TOKEN[byte] === 1 ? 'trailer name' : null;
    case 'trailer name':
      if (byte === COLON) return 'trailer value';
      return TOKEN[byte] === 1 ? 'trailer name' : null;
    case 'trailer value':
      if (byte === CR) return 'trailer line end';
      return TEXT[byte] === 1 ? 'trailer value' : null;
    case 'trailer line end':
      return byte === LF ? 'trailer' : null;
    default:
      return byte === LF ? 'done' : null;
  }
}
