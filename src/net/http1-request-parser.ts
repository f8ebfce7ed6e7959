// HTTP/1.1 request parser for servers (RFC 9110 §5 and §7.2, RFC 9112 §2 to §7). Strict: a message that two readers could frame
// differently is refused. It never throws, bounds everything that it keeps, and gives the same result wherever the input is cut.

import { ChunkedDecoder } from './http1-chunks.ts';
import {
  CR,
  FieldSection,
  hasForbidden,
  headEnd,
  KeptHead,
  LF,
  PartialHead,
  persists,
  SPACE,
  TOKEN,
} from './http1-fields.ts';

/** Empty lines that may come before a request (RFC 9112 §2.2). */
const MAX_EMPTY_LINES = 4;

const SLASH = 0x2f;
const DELETE = 0x7f;

/** Why a request is refused, with the status of the answer. The connection serves no further request. */
export interface RequestFailure {
  readonly status: 400 | 413 | 414 | 431 | 505;
  /** Short English phrase for the client. */
  readonly reason: string;
}

export interface RequestLimits {
  /** Largest head in bytes: request line, field lines and blank line. */
  readonly headerBytes: number;
  /** Most field lines of a head. */
  readonly maxFields: number;
}

/**
 * - `head`: the head is not complete. `body`: the body is not complete.
 * - `done`: the request is complete; `begin` makes the parser ready for the next one.
 * - `failed`: the request is refused: see `failure`. Final.
 */
export type RequestState = 'head' | 'body' | 'done' | 'failed';

function refusal(status: RequestFailure['status'], reason: string): RequestFailure {
  return Object.freeze({ status, reason });
}

const FAILURES = {
  byte: refusal(400, 'control character or bare line break in the head'),
  line: refusal(400, 'invalid request line'),
  target: refusal(400, 'invalid request target'),
  version: refusal(505, 'HTTP version not supported'),
  method: refusal(400, 'CONNECT is not supported'),
  'field line': refusal(400, 'invalid header line'),
  'too many fields': refusal(431, 'too many header lines'),
  'long line': refusal(414, 'request line too long'),
  'long head': refusal(431, 'header too large'),
  'no host': refusal(400, 'missing Host'),
  hosts: refusal(400, 'more than one Host'),
  host: refusal(400, 'invalid Host'),
  lengths: refusal(400, 'more than one Content-Length'),
  length: refusal(400, 'invalid Content-Length'),
  'long body': refusal(413, 'body too large'),
  coding: refusal(400, 'invalid Transfer-Encoding'),
  'length and coding': refusal(400, 'both Content-Length and Transfer-Encoding'),
  chunk: refusal(400, 'invalid chunked body'),
  trailers: refusal(400, 'invalid trailer'),
  'long trailers': refusal(431, 'trailers too large'),
} satisfies Record<string, RequestFailure>;

/** A host and a port as in a Host field (RFC 9110 §7.2): empty, a name, an IPv4 address, or an IP literal in brackets. */
const HOST = /^(?:[\w\-.~!$&'()*+,;=%]*|\[[\da-fv:.]+\])(?::\d*)?$/i;
/** Scheme, authority, and path with query of a target in absolute form (RFC 9112 §3.2.2). */
const ABSOLUTE = /^https?:\/\/([^/?]+)(.*)$/i;
/** Length of the version and the line end behind it. */
const VERSION_BYTES = 10;
const VERSION = /^HTTP\/(\d)\.(\d)\r\n$/;
const DIGITS = /^\d+$/;

const NO_HEADERS: readonly string[] = [];

const SECTION = new FieldSection();

/**
 * Parses the requests of one connection, one after another.
 *
 * @example
 * let at = 0;
 * while (at < length && parser.state !== 'failed') {
 *   if (parser.state === 'done') parser.begin(); // once the request before has been answered
 *   const before = parser.state;
 *   at = parser.parse(bytes, at, length);
 *   if (before === 'head' && parser.state !== 'head') { } // method, path, headers, … or a failure
 *   else if (parser.bodyEnd > parser.bodyStart) { } // a piece of the body
 * }
 */
export class RequestParser {
  state: RequestState = 'head';
  /** Set in state `failed`. */
  failure: RequestFailure | null = null;
  /** Bytes of the current request have been received; empty lines before it do not count. */
  started = false;
  /** As it was sent: methods are case-sensitive. */
  method = '';
  /** Path of the target, `*` for the server as a whole. One character per byte, as in all texts of the head. */
  path = '';
  /** Query without the question mark; empty when there is none. */
  query = '';
  /**
   * Names in lower case and values without outer blanks, alternating; a new array for every request. Exactly one `host`, which
   * is the authority of a target in absolute form; HTTP/1.0 may have none.
   */
  headers: readonly string[] = NO_HEADERS;
  /** Whether all of the head but the value of Content-Length is that of the request before. */
  repeats = false;
  /** Minor version of HTTP/1: 0, or 1 for 1.1 and later. */
  minor = 1;
  /** Whether the client lets the connection outlive the request. */
  keepAlive = true;
  /** Declared length of the body; 0 when there is none, -1 when it is chunked. Methods make no difference. */
  declaredBytes = 0;
  /** The client waits for `100 Continue` before it sends the body. */
  expectContinue = false;
  /** Bounds of the body bytes that the last `parse` found. */
  bodyStart = 0;
  bodyEnd = 0;

  readonly #headerBytes: number;
  readonly #maxFields: number;
  #partial: PartialHead | null = null;
  /** From the second request on: a connection that has sent one alone keeps nothing while it is idle. */
  #kept: KeptHead | null = null;
  #chunks: ChunkedDecoder | null = null;
  /** The target is in absolute form: Host is not as its line says. */
  #absolute = false;
  /** Bytes left of a body of declared length. */
  #left = 0;
  #emptyLines = 0;
  /** The CR of an empty line has come. */
  #inEmptyLine = false;

  constructor({ headerBytes, maxFields }: RequestLimits) {
    this.#headerBytes = headerBytes;
    this.#maxFields = maxFields;
  }

  /** Expects the next request. To be called in state `done`. */
  begin(): void {
    this.state = 'head';
    this.started = false;
    this.#emptyLines = 0;
    this.#kept ??= new KeptHead();
  }

  /** Whether the head is kept for the next one to be compared with. */
  get keepsHead(): boolean {
    return this.#kept !== null && this.#kept.length > 0;
  }

  /** Lets go of the path, the query and the headers, which have been read. Without it a connection holds them while it is idle. */
  releaseHead(): void {
    if (this.keepsHead) return;
    this.path = '';
    this.query = '';
    this.headers = NO_HEADERS;
  }

  /**
   * Parses `bytes` from `start` to `end` and returns where it stopped. In state `head` it stops behind the head at the latest, in
   * state `body` behind the body at the latest; in the other states it reads nothing. Keeps no reference to `bytes`, and moves the
   * data of several chunks together inside the bytes that it has read.
   */
  parse(bytes: Buffer, start: number, end: number): number {
    this.bodyStart = start;
    this.bodyEnd = start;
    if (this.state === 'head') return this.#readHead(bytes, start, end);
    if (this.state !== 'body') return start;
    if (this.declaredBytes < 0) return this.#readChunks(bytes, start, end);
    const taken = Math.min(this.#left, end - start);
    this.#left -= taken;
    this.bodyEnd = start + taken;
    if (this.#left === 0) this.state = 'done';
    return this.bodyEnd;
  }

  #readHead(bytes: Buffer, start: number, end: number): number {
    const at = this.started ? start : this.#skipEmptyLines(bytes, start, end);
    if (at >= end || this.state === 'failed') return at;
    if (!this.started) {
      this.started = true;
      const common = this.#kept?.common(bytes, at, end) ?? 0;
      if (common > 0 && common === this.#kept?.length) {
        this.repeats = true;
        this.#expectBody();
        return at + common;
      }
      // Of the kept head only the end is a blank line: there is none in what both have in common.
      const stop = headEnd(bytes, at + Math.max(common - 3, 0), Math.min(end, at + this.#headerBytes));
      if (stop >= 0) {
        this.#takeHead(bytes, at, stop, common);
        return stop;
      }
    }
    const partial = (this.#partial ??= new PartialHead());
    const used = partial.length;
    partial.add(bytes, at, Math.min(end, at + this.#headerBytes - used));
    const stop = headEnd(partial.bytes, Math.max(used - 3, 0), partial.length);
    if (stop >= 0) {
      this.#takeHead(partial.bytes, 0, stop, 0);
      this.#partial = null;
      return at + stop - used;
    }
    // A head that has not ended is refused as soon as nothing that may follow makes it valid.
    if (partial.addedForbidden()) this.#fail(FAILURES.byte);
    else if (at + partial.length - used < end) {
      const hasLine = partial.bytes.subarray(0, partial.length).includes(LF);
      this.#fail(hasLine ? FAILURES['long head'] : FAILURES['long line']);
    }
    return end;
  }

  #skipEmptyLines(bytes: Buffer, start: number, end: number): number {
    let at = start;
    while (at < end) {
      const byte = bytes[at];
      if (this.#inEmptyLine) {
        if (byte !== LF || ++this.#emptyLines > MAX_EMPTY_LINES) {
          this.#fail(FAILURES.line);
          return at;
        }
      } else if (byte !== CR) {
        return at;
      }
      this.#inEmptyLine = byte === CR;
      at++;
    }
    return at;
  }

  /** Parses a head that is complete, its blank line included, and begins with `common` bytes of the kept one. */
  #takeHead(bytes: Buffer, start: number, end: number, common: number): void {
    const failure = this.#parseHead(bytes, start, end, this.#kept?.firstNewLine(common) ?? 0);
    if (failure !== null) {
      // The same bytes are refused with the same reason when they come in pieces.
      this.#fail(hasForbidden(bytes, start, end) ? FAILURES.byte : failure);
      return;
    }
    this.repeats = this.#kept?.differsInLength(this.headers, common) ?? false;
    this.#kept?.keep(bytes, start, end, common, this.#absolute ? null : this.headers);
    this.#expectBody();
  }

  /** Parses a head from `parsed` bytes on; the lines before are those of the kept head. */
  #parseHead(bytes: Buffer, start: number, end: number, parsed: number): RequestFailure | null {
    let target = '';
    let at = start + parsed;
    const text = bytes.toString('latin1', at, end);
    let fields: string[] = [];
    if (parsed > 0) {
      fields = (this.#kept as KeptHead).fieldsBefore(parsed);
    } else {
      while (TOKEN[bytes[at] as number] === 1) at++;
      const targetStart = at + 1;
      if (at === start || bytes[at] !== SPACE) return FAILURES.line;
      let byte = bytes[++at] as number;
      while (byte > SPACE && byte !== DELETE) byte = bytes[++at] as number;
      if (byte !== SPACE || at === targetStart) return FAILURES.line;
      const version = text.slice(at + 1 - start, at + VERSION_BYTES + 1 - start);
      if (version !== 'HTTP/1.1\r\n') {
        const [, major, minor] = VERSION.exec(version) ?? [];
        if (major === undefined) return FAILURES.line;
        if (major !== '1') return FAILURES.version;
        this.minor = minor === '0' ? 0 : 1;
      } else this.minor = 1;
      this.method = text.slice(0, targetStart - 1 - start);
      // Not a slice of the text, which is slow to compare: the path of a kept head serves many requests.
      target = bytes.toString('latin1', targetStart, at);
      at += VERSION_BYTES + 1;
    }
    if (!SECTION.parse(bytes, at, end, text, start + parsed, this.#maxFields, fields)) {
      return FAILURES[SECTION.fault || 'field line'];
    }
    this.keepAlive = persists(this.minor, SECTION.connection);
    const failure = this.#checkHost();
    if (failure !== null) return failure;
    return (parsed > 0 ? null : this.#takeTarget(target)) ?? this.#takeFraming();
  }

  /** Splits the target (RFC 9112 §3.2). */
  #takeTarget(target: string): RequestFailure | null {
    if (this.method === 'CONNECT') return FAILURES.method;
    let rest = target;
    this.#absolute = false;
    if (target.charCodeAt(0) !== SLASH) {
      if (target === '*' && this.method === 'OPTIONS') {
        this.path = '*';
        this.query = '';
        return null;
      }
      const [, authority, after] = ABSOLUTE.exec(target) ?? [];
      if (authority === undefined || after === undefined || !HOST.test(authority)) return FAILURES.target;
      rest = after.startsWith('/') ? after : after === '' && this.method === 'OPTIONS' ? '*' : `/${after}`;
      this.#absolute = true;
      const { fields, hostAt } = SECTION;
      if (hostAt >= 0) fields[hostAt] = authority;
      else fields.push('host', authority);
    }
    // A target has no fragment.
    if (rest.includes('#')) return FAILURES.target;
    const mark = rest.indexOf('?');
    this.path = mark < 0 ? rest : rest.slice(0, mark);
    this.query = mark < 0 ? '' : rest.slice(mark + 1);
    return null;
  }

  /** RFC 9112 §3.2. */
  #checkHost(): RequestFailure | null {
    const { fields, hosts, hostAt } = SECTION;
    if (hosts === 0) return this.minor === 0 ? null : FAILURES['no host'];
    if (hosts > 1) return FAILURES.hosts;
    return HOST.test(fields[hostAt] as string) ? null : FAILURES.host;
  }

  /** Decides from the fields how the body is framed (RFC 9112 §6). */
  #takeFraming(): RequestFailure | null {
    const { fields, length, lengths, coding, expect } = SECTION;
    this.headers = fields;
    if (coding !== null) {
      if (length !== null) return FAILURES['length and coding'];
      // HTTP/1.0 has no transfer codings.
      if (this.minor === 0 || coding.toLowerCase() !== 'chunked') return FAILURES.coding;
      this.declaredBytes = -1;
    } else if (length === null) {
      this.declaredBytes = 0;
    } else {
      if (lengths > 1) return FAILURES.lengths;
      if (!DIGITS.test(length)) return FAILURES.length;
      this.declaredBytes = Number(length);
      if (this.declaredBytes > Number.MAX_SAFE_INTEGER) return FAILURES['long body'];
    }
    this.expectContinue =
      expect !== '' && this.declaredBytes !== 0 && this.minor > 0 && expect.toLowerCase() === '100-continue';
    return null;
  }

  #expectBody(): void {
    if (this.declaredBytes < 0) {
      this.#chunks ??= new ChunkedDecoder(false);
      this.#chunks.begin();
    }
    this.#left = this.declaredBytes;
    this.state = this.declaredBytes === 0 ? 'done' : 'body';
  }

  #readChunks(bytes: Buffer, start: number, end: number): number {
    const chunks = this.#chunks as ChunkedDecoder;
    const at = chunks.decode(bytes, start, end);
    this.bodyStart = chunks.dataStart;
    this.bodyEnd = chunks.dataEnd;
    if (chunks.fault !== '') this.#fail(FAILURES[chunks.fault]);
    else if (chunks.done) this.state = 'done';
    return at;
  }

  #fail(failure: RequestFailure): void {
    this.#partial = null;
    this.state = 'failed';
    this.failure = failure;
  }
}
