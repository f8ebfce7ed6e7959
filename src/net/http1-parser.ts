// HTTP/1.1 response parser (RFC 9110 §5, RFC 9112 §2 to §7). Strict: a message that two readers could frame differently is
// malformed. It never throws, bounds everything that it keeps, and gives the same result wherever the input is cut.

/** Limit of all heads of one response, informational ones included. */
const HEAD_BYTES = 64 * 1024;
/** First allocation for a head that arrives in pieces. */
const PENDING_BYTES = 4096;
const MAX_FIELDS = 256;
/** Limit of one chunk's size and extensions. */
const CHUNK_LINE_BYTES = 4096;
const TRAILER_BYTES = 16 * 1024;

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const COLON = 0x3a;
const SEMICOLON = 0x3b;

/** 1 at the codes of a field name (RFC 9110 §5.6.2). */
const TOKEN = Uint8Array.from({ length: 256 }, (_, code) => Number(/[!#$%&'*+\-.^_`|~\w]/.test(char(code))));
/** 1 at the codes of a field value: HTAB, SP, visible characters and obs-text (RFC 9110 §5.5). */
const TEXT = Uint8Array.from({ length: 256 }, (_, code) => Number(/[\t\x20-\x7e\x80-\xff]/.test(char(code))));
/** The value of a hexadecimal digit, -1 at every other byte. */
const HEX = Int8Array.from({ length: 256 }, (_, code) => (/[\da-f]/i.test(char(code)) ? parseInt(char(code), 16) : -1));

/** States of a chunked body; all but `chunk` take one byte at a time. */
type ChunkedState = 'size' | 'extension' | 'size end' | 'chunk' | 'chunk end' | 'chunk ended' | TrailerState;
type TrailerState = 'trailer' | 'trailer line' | 'trailer line end' | 'trailers end';

export type ResponseState = 'head' | 'length' | 'until close' | ChunkedState | 'done' | 'malformed';

/** First bytes of every response. */
const MAGIC = 'HTTP/';

const NO_FIELDS: readonly string[] = [];

/** Parses one response at a time: `begin`, then `parse` piece by piece until `state` is `done` or `malformed`. */
export class ResponseParser {
  state: ResponseState = 'head';
  status = 0;
  /** Fields of the head: name in lower case, value, alternating. Content-Length at most once, and only if it counts. */
  fields: readonly string[] = NO_FIELDS;
  /** The last `parse` completed the head of the response. */
  headCame = false;
  /** Bounds of the body bytes in the last piece. */
  bodyStart = 0;
  bodyEnd = 0;
  /** Whether the connection may carry another request after this response. */
  reusable = true;
  /** Value of the last Keep-Alive field; empty when there is none. */
  keepAlive = '';
  #toHead = false;
  /** A head that arrives in pieces, as far as it has arrived. */
  #pending: Buffer | null = null;
  #pendingBytes = 0;
  #headBytes = 0;
  /** Bytes left of the body or of the chunk. */
  #left = 0;
  #digits = 0;
  #lineBytes = 0;

  /** Expects a new response. `toHead`: the request was HEAD, so that the response has no body. */
  begin(toHead: boolean): void {
    this.state = 'head';
    this.fields = NO_FIELDS;
    this.reusable = true;
    this.keepAlive = '';
    this.#toHead = toHead;
    this.#pending = null;
    this.#headBytes = 0;
  }

  /** Parses the first `length` bytes. Moves the data of several chunks together, inside `bytes`. */
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
        this.bodyEnd = at + Math.min(this.#left, length - at);
        this.#left -= this.bodyEnd - at;
        at = this.bodyEnd;
        if (this.#left === 0) this.state = 'done';
        break;
      default:
        at = this.#readChunks(bytes, at, length);
    }
    // Bytes behind the response answer no request: the connection cannot be trusted with another one.
    if (at < length) this.reusable = false;
  }

  /** The server has closed the connection. This completes a response without a declared length, and no other. */
  end(): void {
    this.reusable = false;
    if (this.state === 'until close') this.state = 'done';
    else if (this.state === 'head' && this.#isForeign()) this.state = 'malformed';
  }

  /** Whether the bytes received are the beginning of no HTTP message: the server speaks another protocol. */
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
    // A head that is longer is refused: its end need not be found.
    this.#keep(bytes, start, Math.min(length, start + HEAD_BYTES));
    const end = headEnd(this.#pending as Buffer, Math.max(used - 3, 0), this.#pendingBytes);
    if (end < 0) return -1;
    this.#pendingBytes = used;
    return start + end - used;
  }

  /** Chooses by the head how the body ends (RFC 9112 §6.3). */
  #takeHead(text: string): void {
    const head = parseHead(text);
    // No request asks to switch protocols.
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
    if (this.#toHead || head.status === 204 || head.status === 304) {
      this.state = 'done';
    } else if (head.chunked) {
      this.state = 'size';
      this.#left = 0;
      this.#digits = 0;
      this.#lineBytes = 0;
    } else if (head.contentLength < 0) {
      this.state = 'until close';
      this.reusable = false;
    } else {
      this.#left = head.contentLength;
      this.state = head.contentLength === 0 ? 'done' : 'length';
    }
  }

  /** Reads a chunked body (RFC 9112 §7.1): chunk data at once, everything else byte by byte. */
  #readChunks(bytes: Buffer, start: number, length: number): number {
    let { state } = this;
    let at = start;
    while (at < length && state !== 'done' && state !== 'malformed') {
      if (state === 'chunk') {
        const taken = Math.min(this.#left, length - at);
        if (this.bodyEnd === this.bodyStart) this.bodyStart = this.bodyEnd = at;
        else if (at > this.bodyEnd) bytes.copyWithin(this.bodyEnd, at, at + taken);
        this.bodyEnd += taken;
        this.#left -= taken;
        at += taken;
        if (this.#left === 0) state = 'chunk end';
        continue;
      }
      const byte = bytes[at++] as number;
      switch (state) {
        case 'size':
          if ((HEX[byte] as number) >= 0) {
            this.#left = this.#left * 16 + (HEX[byte] as number);
            this.#digits++;
            if (this.#left > Number.MAX_SAFE_INTEGER || ++this.#lineBytes > CHUNK_LINE_BYTES) state = 'malformed';
          } else if (this.#digits === 0) state = 'malformed';
          else if (byte === CR) state = 'size end';
          else state = byte === SEMICOLON || byte === SPACE || byte === TAB ? 'extension' : 'malformed';
          break;
        case 'extension':
          if (byte === CR) state = 'size end';
          else if (TEXT[byte] !== 1 || ++this.#lineBytes > CHUNK_LINE_BYTES) state = 'malformed';
          break;
        case 'size end':
          this.#lineBytes = 0;
          state = byte !== LF ? 'malformed' : this.#left === 0 ? 'trailer' : 'chunk';
          break;
        case 'chunk end':
          state = byte === CR ? 'chunk ended' : 'malformed';
          break;
        case 'chunk ended':
          state = byte === LF ? 'size' : 'malformed';
          this.#digits = 0;
          break;
        default:
          // Trailers are read and dropped: the head has been delivered by then.
          state = ++this.#lineBytes > TRAILER_BYTES ? 'malformed' : afterTrailerByte(state, byte);
      }
    }
    this.state = state;
    return at;
  }
}

function afterTrailerByte(state: ResponseState, byte: number): ResponseState {
  switch (state) {
    case 'trailer':
      if (byte === CR) return 'trailers end';
      return TEXT[byte] === 1 && byte > SPACE ? 'trailer line' : 'malformed';
    case 'trailer line':
      if (byte === CR) return 'trailer line end';
      return TEXT[byte] === 1 ? 'trailer line' : 'malformed';
    case 'trailer line end':
      return byte === LF ? 'trailer' : 'malformed';
    default:
      return byte === LF ? 'done' : 'malformed';
  }
}

/** Where the blank line after a head ends; -1 when it is not there yet. */
function headEnd(bytes: Buffer, start: number, length: number): number {
  let at = start + 3;
  while (at < length) {
    const byte = bytes[at];
    // The blank line is CR LF CR LF: no other byte can lie in it, so the scan goes on four bytes behind one.
    if (byte === LF) {
      if (bytes[at - 1] === CR && bytes[at - 2] === LF && bytes[at - 3] === CR) return at + 1;
      at += 2;
    } else {
      at += byte === CR ? 1 : 4;
    }
  }
  return -1;
}

interface Head {
  readonly status: number;
  readonly fields: readonly string[];
  readonly chunked: boolean;
  /** -1 when there is none or it does not count. */
  readonly contentLength: number;
  /** Whether the head lets the connection outlive the response. */
  readonly persistent: boolean;
  readonly keepAlive: string;
}

/** The fields that frame the body and close the connection; of repeated ones the values are joined by commas. */
interface Framing {
  length: string | undefined;
  lengths: number;
  coding: string | undefined;
  connection: string;
  keepAlive: string;
}

/** Parses a head, its blank line included, given as latin1 text; null when it is malformed. */
function parseHead(text: string): Head | null {
  const minor = text.charCodeAt(7) - 0x30;
  if (!text.startsWith('HTTP/1.') || (minor !== 0 && minor !== 1) || text.charCodeAt(8) !== SPACE) return null;
  const status = text.slice(9, 12);
  if (!STATUS.test(status)) return null;
  let at = 12;
  while (TEXT[text.charCodeAt(at)] === 1) at++;
  // A space comes before the reason; some servers leave out both.
  if (text.charCodeAt(at) !== CR || text.charCodeAt(at + 1) !== LF) return null;
  if (at > 12 && text.charCodeAt(12) !== SPACE) return null;
  at += 2;

  const fields: string[] = [];
  const framing: Framing = { length: undefined, lengths: 0, coding: undefined, connection: '', keepAlive: '' };
  while (text.charCodeAt(at) !== CR) {
    const nameStart = at;
    while (TOKEN[text.charCodeAt(at)] === 1) at++;
    // This refuses a space before the colon and folded lines too (RFC 9112 §5.1 and §5.2).
    if (at === nameStart || text.charCodeAt(at) !== COLON || fields.length >= 2 * MAX_FIELDS) return null;
    const name = text.slice(nameStart, at).toLowerCase();
    let code = text.charCodeAt(++at);
    while (code === SPACE || code === TAB) code = text.charCodeAt(++at);
    const valueStart = at;
    let valueEnd = at;
    while (TEXT[code] === 1) {
      at++;
      if (code !== SPACE && code !== TAB) valueEnd = at;
      code = text.charCodeAt(at);
    }
    if (code !== CR || text.charCodeAt(at + 1) !== LF) return null;
    at += 2;
    const value = text.slice(valueStart, valueEnd);
    fields.push(name, value);
    if (name === 'content-length') {
      framing.lengths++;
      framing.length = framing.length === undefined ? value : `${framing.length},${value}`;
    } else if (name === 'transfer-encoding') {
      framing.coding = framing.coding === undefined ? value : `${framing.coding},${value}`;
    } else if (name === 'connection') {
      framing.connection = framing.connection === '' ? value : `${framing.connection},${value}`;
    } else if (name === 'keep-alive') framing.keepAlive = value;
  }
  if (text.charCodeAt(at + 1) !== LF || at + 2 !== text.length) return null;
  return framed(Number(status), minor, fields, framing);
}

const STATUS = /^[1-5]\d\d$/;
const DIGITS = /^\d+$/;

/** RFC 9112 §6: chunked wins over a length, and the connection of a server that sends both is not used again. */
function framed(status: number, minor: number, fields: string[], framing: Framing): Head | null {
  const { length, lengths, coding, connection, keepAlive } = framing;
  // HTTP/1.0 has no transfer codings, and `chunked` is the only one that was offered.
  if (coding !== undefined && (coding.toLowerCase() !== 'chunked' || minor === 0)) return null;
  const contentLength = length === undefined ? -1 : lengthOf(length);
  if (length !== undefined && contentLength < 0) return null;
  const chunked = coding !== undefined;
  const normal = length === undefined || (!chunked && lengths === 1 && !length.includes(','));
  return {
    status,
    fields: normal ? fields : withLength(fields, chunked ? -1 : contentLength),
    chunked,
    contentLength: chunked ? -1 : contentLength,
    persistent: persists(minor, connection) && !(chunked && length !== undefined),
    keepAlive,
  };
}

/** The value of one or several equal Content-Length fields; -1 when one is no number or they differ. */
function lengthOf(value: string): number {
  const values = value.includes(',') ? value.split(',').map((one) => one.trim()) : [value];
  const length = Number(values[0]);
  if (length > Number.MAX_SAFE_INTEGER) return -1;
  for (const one of values) if (!DIGITS.test(one) || Number(one) !== length) return -1;
  return length;
}

/** The fields with one Content-Length, or with none when `length` is -1. */
function withLength(fields: readonly string[], length: number): string[] {
  const out = length < 0 ? [] : ['content-length', String(length)];
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i] !== 'content-length') out.push(fields[i] as string, fields[i + 1] as string);
  }
  return out;
}

function persists(minor: number, connection: string): boolean {
  if (connection === '') return minor === 1;
  const options = connection.toLowerCase();
  if (options === 'keep-alive') return true;
  const names = options.split(',').map((name) => name.trim());
  return !names.includes('close') && (minor === 1 || names.includes('keep-alive'));
}

function char(code: number): string {
  return String.fromCharCode(code);
}
