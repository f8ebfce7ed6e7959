// HTTP/1.1 response parser for clients (RFC 9110 §5, RFC 9112 §2 to §7). Strict: a message that two readers could frame differently
// is malformed. It never throws, bounds everything that it keeps, and gives the same result wherever the input is cut.

import { ChunkedDecoder } from './http1-chunks.ts';
import { CR, FieldSection, headEnd, KeptHead, LF, PartialHead, persists, TEXT } from './http1-fields.ts';

/** Limit of all heads of one response, informational ones included. */
const HEAD_BYTES = 64 * 1024;
const MAX_FIELDS = 256;

export type ResponseState = 'head' | 'length' | 'until close' | 'chunked' | 'done' | 'malformed';

/** The beginnings of a status line, each matched by as many bytes as have come. */
const STATUS_LINE = ['H', 'T', 'T', 'P', '/', '1', '.', '01', ' ', '12345', '0123456789', '0123456789', ' \r'];

const NO_FIELDS: readonly string[] = [];

const SECTION = new FieldSection();

interface Head {
  readonly status: number;
  readonly minor: number;
  readonly fields: readonly string[];
  readonly chunked: boolean;
  /** -1 when there is none. */
  readonly contentLength: number;
  /** Whether the head lets the connection outlive the response. */
  readonly persists: boolean;
  readonly keepAlive: string;
}

const NO_HEAD: Head = {
  status: 0,
  minor: 1,
  fields: NO_FIELDS,
  chunked: false,
  contentLength: -1,
  persists: false,
  keepAlive: '',
};

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
  readonly #partial = new PartialHead();
  readonly #kept = new KeptHead();
  /** The last head that was not informational. */
  #head: Head = NO_HEAD;
  #chunks: ChunkedDecoder | null = null;
  #toHead = false;
  #headBytes = 0;
  /** An informational response has said that the connection ends. */
  #closing = false;
  /** Bytes left of a body of declared length. */
  #left = 0;

  /** Expects a new response. `toHead`: the request was HEAD, so that the response has no body. */
  begin(toHead: boolean): void {
    this.state = 'head';
    this.fields = NO_FIELDS;
    this.reusable = true;
    this.keepAlive = '';
    this.#toHead = toHead;
    this.#partial.clear();
    this.#headBytes = 0;
    this.#closing = false;
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
  }

  #readHeads(bytes: Buffer, length: number): number {
    const partial = this.#partial;
    let at = 0;
    while (this.state === 'head' && at < length) {
      const limit = Math.min(length, at + HEAD_BYTES - this.#headBytes);
      const used = partial.length;
      if (used === 0) {
        const common = this.#kept.common(bytes, at, limit);
        if (common > 0 && common === this.#kept.length) {
          this.#headBytes += common;
          at += common;
          this.#deliver();
          continue;
        }
        // Of the kept head only the end is a blank line: there is none in what both have in common.
        const end = headEnd(bytes, at + Math.max(common - 3, 0), limit);
        if (end >= 0) {
          this.#headBytes += end - at;
          this.#takeHead(bytes, at, end, common);
          at = end;
          continue;
        }
      }
      partial.add(bytes, at, limit);
      const end = headEnd(partial.bytes, Math.max(used - 3, 0), partial.length);
      if (end < 0) {
        this.#headBytes += limit - at;
        if (limit < length || !beginsWell(partial, used)) this.#fail();
        return length;
      }
      this.#headBytes += end - used;
      this.#takeHead(partial.bytes, 0, end, 0);
      partial.clear();
      at += end - used;
    }
    return at;
  }

  /** Parses a head that is complete, its blank line included, and begins with `common` bytes of the kept one. */
  #takeHead(bytes: Buffer, start: number, end: number, common: number): void {
    const status = this.#parseHead(bytes, start, end, common);
    // No request asks to switch protocols.
    if (status < 0 || status === 101) this.#fail();
    else if (status >= 200) this.#deliver();
  }

  /** Parses a head, and keeps it if it is not informational. Returns its status, -1 when it is malformed. */
  #parseHead(bytes: Buffer, start: number, end: number, common: number): number {
    const parsed = this.#kept.firstNewLine(common);
    const text = bytes.toString('latin1', start + parsed, end);
    let { status, minor } = this.#head;
    let known: string[] = [];
    let at = start + parsed;
    if (parsed > 0) {
      known = this.#kept.fieldsBefore(parsed);
    } else {
      status = parseStatus(text);
      minor = text.charCodeAt(7) - 0x30;
      at += text.indexOf('\n') + 1;
    }
    if (status < 0 || !SECTION.parse(bytes, at, end, text, start + parsed, MAX_FIELDS, known)) return -1;
    const { fields, length, lengths, coding, connection, keepAlive } = SECTION;
    // HTTP/1.0 has no transfer codings, and `chunked` is the only one that was offered.
    const chunked = coding !== null;
    if (chunked && (coding.toLowerCase() !== 'chunked' || minor === 0)) return -1;
    const contentLength = length === null ? -1 : lengthOf(length);
    if (length !== null && contentLength < 0) return -1;
    if (status < 200) {
      // It has no body (RFC 9110 §15.2), but other readers take one that is announced.
      if (chunked || contentLength > 0) return -1;
      if (!persists(minor, connection)) this.#closing = true;
      return status;
    }
    const normal = length === null || (!chunked && lengths === 1 && !length.includes(','));
    this.#kept.keep(bytes, start, end, common, fields);
    this.#head = {
      status,
      minor,
      fields: normal ? fields : withLength(fields, chunked ? -1 : contentLength),
      chunked,
      contentLength,
      // RFC 9112 §6.3: chunked wins over a length, and the connection of a server that sends both is not used again.
      persists: persists(minor, connection) && !(chunked && length !== null),
      keepAlive,
    };
    return status;
  }

  /** Delivers the parsed head, and chooses how the body ends (RFC 9112 §6.3). */
  #deliver(): void {
    const { status, fields, chunked, contentLength, persists, keepAlive } = this.#head;
    this.status = status;
    this.fields = fields;
    this.reusable = persists && !this.#closing;
    this.keepAlive = keepAlive;
    this.headCame = true;
    if (this.#toHead || status === 204 || status === 304) {
      this.state = 'done';
    } else if (chunked) {
      this.state = 'chunked';
      this.#chunks ??= new ChunkedDecoder(true);
      this.#chunks.begin();
    } else if (contentLength < 0) {
      this.state = 'until close';
      this.reusable = false;
    } else {
      this.#left = contentLength;
      this.state = contentLength === 0 ? 'done' : 'length';
    }
  }

  #readChunks(bytes: Buffer, start: number, length: number): number {
    const chunks = this.#chunks as ChunkedDecoder;
    const at = chunks.decode(bytes, start, length);
    this.bodyStart = chunks.dataStart;
    this.bodyEnd = chunks.dataEnd;
    if (chunks.fault !== '') this.#fail();
    else if (chunks.done) this.state = 'done';
    return at;
  }

  #fail(): void {
    this.state = 'malformed';
    this.reusable = false;
  }
}

/** Whether an incomplete head may still become a valid one. Its first `used` bytes were asked about before. */
function beginsWell(partial: PartialHead, used: number): boolean {
  for (let at = used; at < partial.length && at < STATUS_LINE.length; at++) {
    if (!(STATUS_LINE[at] as string).includes(String.fromCharCode(partial.bytes[at] as number))) return false;
  }
  return !partial.addedForbidden();
}

/** The status of a head; -1 when its first line is invalid. */
function parseStatus(text: string): number {
  if (!text.startsWith('HTTP/1.')) return -1;
  for (let at = 7; at < STATUS_LINE.length; at++) {
    if (!(STATUS_LINE[at] as string).includes(text.charAt(at))) return -1;
  }
  let at = 12;
  while (TEXT[text.charCodeAt(at)] === 1) at++;
  // A space comes before the reason; some servers leave out both.
  return text.charCodeAt(at) === CR && text.charCodeAt(at + 1) === LF ? Number(text.slice(9, 12)) : -1;
}

const DIGITS = /^\d+$/;

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
