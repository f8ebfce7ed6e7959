// Reads HTTP/1.1 answers (RFC 9112), strictly: what two readers could take in two ways is malformed. Called by http1.ts
// with every piece that a socket brings, cut anywhere. It never throws, and everything it keeps is bounded.

import { readHead } from './http1-head.ts';

/** Most bytes of all heads before a body, informational ones included. */
const HEAD_BYTES = 64 * 1024;
/** Room for a head that comes in pieces, to begin with. */
const PENDING_BYTES = 4096;
/** Most bytes of one chunk's size and extensions. */
const CHUNK_LINE_BYTES = 4096;
const TRAILER_BYTES = 16 * 1024;

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const SEMICOLON = 0x3b;
const DELETE = 0x7f;

/** Where a chunked body stands. */
type Chunked = 'size' | 'extension' | 'size end' | 'chunk' | 'chunk end' | 'chunk ended' | Trailer;
type Trailer = 'trailer' | 'trailer line' | 'trailer line end' | 'trailers end';

/** How far an answer has come. */
export type AnswerState = 'head' | 'length' | 'until close' | Chunked | 'done' | 'malformed';

/** How every answer begins. */
const MAGIC = 'HTTP/';

const NONE: readonly string[] = [];

/** One answer at a time: `begin`, then `parse` piece by piece until `state` is 'done' or 'malformed'. */
export class AnswerParser {
  state: AnswerState = 'head';
  status = 0;
  /** Fields of the head: name in lower case, value, alternating; Content-Length once at most, if it counts. */
  fields: readonly string[] = NONE;
  /** The last `parse` completed the head of the answer. */
  headCame = false;
  /** Where in the last piece the bytes of the body lie. */
  bodyStart = 0;
  bodyEnd = 0;
  /** Whether the connection may carry another request after this answer. */
  reusable = true;
  /** Value of the Keep-Alive field. */
  keepAlive = '';
  #toHead = false;
  /** What has come of a head that came in pieces. */
  #pending: Buffer | null = null;
  #pendingBytes = 0;
  #headBytes = 0;
  /** Bytes left of the body or of the chunk. */
  #left = 0;
  #digits = 0;
  #lineBytes = 0;

  /** Awaits a new answer; one to a HEAD request has no body. */
  begin(toHead: boolean): void {
    this.state = 'head';
    this.fields = NONE;
    this.reusable = true;
    this.keepAlive = '';
    this.#toHead = toHead;
    this.#pending = null;
    this.#headBytes = 0;
  }

  /** Reads the first `length` bytes. Moves the bytes of chunks together, inside `bytes`. */
  parse(bytes: Buffer, length: number): void {
    this.headCame = false;
    this.bodyStart = 0;
    this.bodyEnd = 0;
    let at = 0;
    if (this.state === 'head') {
      at = this.#readHeads(bytes, length);
      this.bodyStart = at;
      this.bodyEnd = at;
    }
    switch (this.state) {
      case 'head':
      case 'malformed':
        return;
      case 'done':
        break;
      case 'until close':
        this.bodyEnd = length;
        return;
      case 'length':
        at = this.#readLength(at, length);
        break;
      default:
        at = this.#readChunks(bytes, at, length);
    }
    // Bytes that nobody asked for: whatever they are, they answer no request of ours.
    if (at < length) this.reusable = false;
  }

  /** The server has ended the connection: that completes an answer of unknown length, and no other. */
  end(): void {
    this.reusable = false;
    if (this.state === 'until close') this.state = 'done';
    else if (this.state === 'head' && this.#isForeign()) this.state = 'malformed';
  }

  /** What has come is the beginning of no HTTP message: another protocol answers here. */
  #isForeign(): boolean {
    const begin = this.#pending?.toString('latin1', 0, Math.min(this.#pendingBytes, MAGIC.length)) ?? '';
    return !MAGIC.startsWith(begin);
  }

  #readHeads(bytes: Buffer, length: number): number {
    let at = 0;
    while (this.state === 'head' && at < length) {
      const pending = this.#pending;
      const end = pending === null ? headEnd(bytes, at, length) : this.#pendingEnd(bytes, at, length);
      this.#headBytes += (end < 0 ? length : end) - at;
      if (this.#headBytes > HEAD_BYTES) {
        this.state = 'malformed';
      } else if (end < 0) {
        if (pending === null) this.#keep(bytes, at, length);
        return length;
      } else if (pending === null) {
        this.#takeHead(bytes.toString('latin1', at, end));
      } else {
        this.#takeHead((this.#pending as Buffer).toString('latin1', 0, this.#pendingBytes + end - at));
        this.#pending = null;
      }
      at = end;
    }
    return at;
  }

  /** Adds bytes to the pending head. */
  #keep(bytes: Buffer, start: number, end: number): void {
    const used = this.#pending === null ? 0 : this.#pendingBytes;
    const needed = used + end - start;
    if (this.#pending === null || needed > this.#pending.byteLength) {
      const larger = Buffer.allocUnsafe(Math.max(PENDING_BYTES, needed * 2));
      this.#pending?.copy(larger, 0, 0, used);
      this.#pending = larger;
    }
    bytes.copy(this.#pending, used, start, end);
    this.#pendingBytes = needed;
  }

  /** Where in `bytes` the pending head ends; -1 when it goes on. */
  #pendingEnd(bytes: Buffer, start: number, length: number): number {
    const used = this.#pendingBytes;
    // Past the bound the end is of no interest.
    this.#keep(bytes, start, Math.min(length, start + HEAD_BYTES));
    const end = headEnd(this.#pending as Buffer, Math.max(used - 3, 0), this.#pendingBytes);
    if (end < 0) return -1;
    this.#pendingBytes = used;
    return start + end - used;
  }

  /** Decides by the head how the body ends (RFC 9112 §6.3). */
  #takeHead(text: string): void {
    const head = readHead(text);
    // Nothing was asked that would switch protocols.
    if (head === null || head.status === 101) {
      this.state = 'malformed';
      return;
    }
    if (head.status < 200) return;
    this.status = head.status;
    this.fields = head.fields;
    this.reusable = head.persistent;
    this.keepAlive = head.keepAlive;
    this.headCame = true;
    const { contentLength } = head;
    if (this.#toHead || head.status === 204 || head.status === 304) this.state = 'done';
    else if (head.chunked) this.#expectSize();
    else if (contentLength < 0) {
      this.state = 'until close';
      this.reusable = false;
    } else {
      this.#left = contentLength;
      this.state = contentLength === 0 ? 'done' : 'length';
    }
  }

  #readLength(at: number, length: number): number {
    const taken = Math.min(this.#left, length - at);
    this.bodyEnd = at + taken;
    this.#left -= taken;
    if (this.#left === 0) this.state = 'done';
    return at + taken;
  }

  #expectSize(): void {
    this.state = 'size';
    this.#left = 0;
    this.#digits = 0;
    this.#lineBytes = 0;
  }

  #readChunks(bytes: Buffer, start: number, length: number): number {
    let at = start;
    while (at < length && this.state !== 'done' && this.state !== 'malformed') {
      if (this.state === 'chunk') {
        const taken = Math.min(this.#left, length - at);
        if (this.bodyEnd === this.bodyStart) this.bodyStart = this.bodyEnd = at;
        else if (at > this.bodyEnd) bytes.copyWithin(this.bodyEnd, at, at + taken);
        this.bodyEnd += taken;
        this.#left -= taken;
        at += taken;
        if (this.#left === 0) this.state = 'chunk end';
      } else {
        this.#readFrame(bytes[at++] as number);
      }
    }
    return at;
  }

  /** One byte around the chunks. */
  #readFrame(byte: number): void {
    switch (this.state) {
      case 'size':
        this.#readSize(byte);
        return;
      case 'extension':
        if (byte === CR) this.state = 'size end';
        else if (!isText(byte) || ++this.#lineBytes > CHUNK_LINE_BYTES) this.state = 'malformed';
        return;
      case 'size end':
        this.#lineBytes = 0;
        this.state = byte !== LF ? 'malformed' : this.#left === 0 ? 'trailer' : 'chunk';
        return;
      case 'chunk end':
        this.state = byte === CR ? 'chunk ended' : 'malformed';
        return;
      case 'chunk ended':
        if (byte === LF) this.#expectSize();
        else this.state = 'malformed';
        return;
      default:
        this.#readTrailer(byte);
    }
  }

  #readSize(byte: number): void {
    const digit = hexDigit(byte);
    if (digit >= 0) {
      this.#left = this.#left * 16 + digit;
      this.#digits++;
      if (this.#left > Number.MAX_SAFE_INTEGER || ++this.#lineBytes > CHUNK_LINE_BYTES) this.state = 'malformed';
    } else if (this.#digits === 0) {
      this.state = 'malformed';
    } else if (byte === CR) {
      this.state = 'size end';
    } else {
      this.state = byte === SEMICOLON || byte === SPACE || byte === TAB ? 'extension' : 'malformed';
    }
  }

  /** Trailers are bounded and left out: an answer's head is long gone when they come. */
  #readTrailer(byte: number): void {
    if (++this.#lineBytes > TRAILER_BYTES) {
      this.state = 'malformed';
      return;
    }
    switch (this.state) {
      case 'trailer':
        this.state = byte === CR ? 'trailers end' : isText(byte) && byte > SPACE ? 'trailer line' : 'malformed';
        return;
      case 'trailer line':
        if (byte === CR) this.state = 'trailer line end';
        else if (!isText(byte)) this.state = 'malformed';
        return;
      case 'trailer line end':
        this.state = byte === LF ? 'trailer' : 'malformed';
        return;
      default:
        this.state = byte === LF ? 'done' : 'malformed';
    }
  }
}

/** Where the blank line after a head ends; -1 when it is not there yet. */
function headEnd(bytes: Buffer, start: number, length: number): number {
  let at = start + 3;
  while (at < length) {
    const byte = bytes[at];
    // The blank line is CR LF CR LF: any other byte cannot lie in it, and is stepped over with the three before.
    if (byte === LF) {
      if (bytes[at - 1] === CR && bytes[at - 2] === LF && bytes[at - 3] === CR) return at + 1;
      at += 2;
    } else {
      at += byte === CR ? 1 : 4;
    }
  }
  return -1;
}

function isText(byte: number): boolean {
  return (byte >= SPACE && byte !== DELETE) || byte === TAB;
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  // Letters differ in one bit from lower to upper case.
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}
