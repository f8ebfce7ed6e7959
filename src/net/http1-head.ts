// Heads of HTTP/1.1 messages: those of requests written, those of answers read (RFC 9110 §5, RFC 9112 §2-6). Both are
// checked by the same two tables, so that nothing crosses the gateway which another reader could take for a line end.

/** What the client is asked to send. */
export interface DispatchOptions {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'DELETE';
  /** Path and query. */
  readonly path: string;
  /** Flat: name in lower case, value. Host, Content-Length and Connection are the client's own. */
  readonly headers: readonly string[];
  readonly body: Buffer;
}

/** The head of an answer. */
export interface AnswerHead {
  readonly status: number;
  /** Flat: name in lower case, value; repeated fields stay repeated. */
  readonly fields: readonly string[];
  readonly chunked: boolean;
  /** -1 when it is not told or does not count. */
  readonly contentLength: number;
  /** The connection outlives the answer, as far as the head says. */
  readonly persistent: boolean;
  /** Value of the last Keep-Alive field; empty when there is none. */
  readonly keepAlive: string;
}

const MAX_FIELDS = 256;
const CR = 0x0d;
const COLON = 0x3a;

const TOKEN = tableOf(/[!#$%&'*+\-.^_`|~0-9A-Za-z]/);
const SENT_NAME = tableOf(/[!#$%&'*+\-.^_`|~0-9a-z]/);
/** HTAB, SP, visible characters and obs-text. */
const VALUE = tableOf(/[\t\x20-\x7e\x80-\xff]/);
const PATH = tableOf(/[\x21-\x7e\x80-\xff]/);

/** What the client writes itself, and what would change how a message is cut or whose connection it is. */
const OWN_FIELDS: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
]);

/** The head of a request as latin1 text, or null when it may not be sent. */
export function requestHead(host: string, options: DispatchOptions): string | null {
  const { method, path, headers, body } = options;
  if (!path.startsWith('/') || !consistsOf(PATH, path)) return null;
  let head = `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\n`;
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string;
    const value = headers[i + 1] as string;
    if (name === '' || !consistsOf(SENT_NAME, name) || OWN_FIELDS.has(name) || !consistsOf(VALUE, value)) return null;
    head += `${name}: ${value}\r\n`;
  }
  const { byteLength } = body;
  return method === 'POST' || byteLength > 0 ? `${head}content-length: ${byteLength}\r\n\r\n` : `${head}\r\n`;
}

/** What the fields say about the body and the connection, gathered as they are read. */
interface Framing {
  /** Content-Length as the first field says it; undefined when there is none. */
  length: string | undefined;
  lengths: number;
  coding: string | undefined;
  connection: string;
  keepAlive: string;
}

/** Reads a head up to and with its blank line, given as latin1 text; null when it is malformed. */
export function readHead(text: string): AnswerHead | null {
  const minor = text.charCodeAt(7) - 0x30;
  if (!text.startsWith('HTTP/1.') || (minor !== 0 && minor !== 1) || text.charCodeAt(8) !== 0x20) return null;
  const status = statusOf(text);
  const lineEnd = skipValue(text, 12);
  // A reason is set off by a space; without a reason some servers leave that out too.
  if (status < 0 || !isLineEnd(text, lineEnd) || (lineEnd > 12 && text.charCodeAt(12) !== 0x20)) return null;
  const fields: string[] = [];
  const framing: Framing = { length: undefined, lengths: 0, coding: undefined, connection: '', keepAlive: '' };
  if (!readFields(text, lineEnd + 2, fields, framing)) return null;
  return framed(status, minor, fields, framing);
}

function statusOf(text: string): number {
  let status = 0;
  for (let at = 9; at < 12; at++) {
    const digit = text.charCodeAt(at) - 0x30;
    if (!(digit >= 0 && digit <= 9)) return -1;
    status = status * 10 + digit;
  }
  return status >= 100 && status < 600 ? status : -1;
}

/** Reads field lines up to the blank one; false when one of them is malformed. */
function readFields(text: string, start: number, fields: string[], framing: Framing): boolean {
  let at = start;
  while (text.charCodeAt(at) !== CR) {
    const nameStart = at;
    while (TOKEN[text.charCodeAt(at)] === 1) at++;
    // A space before the colon, or a folded line, begins here too: RFC 9112 §5.1 and §5.2 have them refused.
    if (at === nameStart || text.charCodeAt(at) !== COLON) return false;
    const name = text.slice(nameStart, at).toLowerCase();
    const end = skipValue(text, at + 1);
    if (!isLineEnd(text, end) || fields.length >= 2 * MAX_FIELDS) return false;
    const value = trimmed(text, at + 1, end);
    fields.push(name, value);
    note(framing, name, value);
    at = end + 2;
  }
  return isLineEnd(text, at) && at + 2 === text.length;
}

function note(framing: Framing, name: string, value: string): void {
  switch (name) {
    case 'content-length':
      framing.lengths++;
      framing.length = framing.length === undefined ? value : `${framing.length},${value}`;
      return;
    case 'transfer-encoding':
      framing.coding = framing.coding === undefined ? value : `${framing.coding},${value}`;
      return;
    case 'connection':
      framing.connection = framing.connection === '' ? value : `${framing.connection},${value}`;
      return;
    case 'keep-alive':
      framing.keepAlive = value;
  }
}

/** RFC 9112 §6: chunked wins over a length, and a server that sends both is not trusted with another request. */
function framed(status: number, minor: number, fields: string[], framing: Framing): AnswerHead | null {
  const { length, lengths, coding, connection, keepAlive } = framing;
  // HTTP/1.0 knows no codings: the head is not to be trusted.
  if (coding !== undefined && (coding.toLowerCase() !== 'chunked' || minor === 0)) return null;
  const contentLength = length === undefined ? -1 : lengthOf(length);
  if (length !== undefined && contentLength < 0) return null;
  const chunked = coding !== undefined;
  // Readers of the list take the first Content-Length for the number it is.
  const odd = length !== undefined && (chunked || lengths > 1 || length.includes(','));
  return {
    status,
    fields: odd ? withLength(fields, chunked ? -1 : contentLength) : fields,
    chunked,
    contentLength: chunked ? -1 : contentLength,
    persistent: persists(minor, connection) && !(chunked && length !== undefined),
    keepAlive,
  };
}

const DIGITS = /^\d+$/;

/** The value of one or several equal Content-Length fields; -1 when they are none or differ. */
function lengthOf(value: string): number {
  if (!value.includes(',')) return digits(value);
  const [first, ...others] = value.split(',').map((one) => digits(one.trim()));
  return first !== undefined && others.every((other) => other === first) ? first : -1;
}

function digits(text: string): number {
  const value = DIGITS.test(text) ? Number(text) : -1;
  return value <= Number.MAX_SAFE_INTEGER ? value : -1;
}

/** The fields with one Content-Length, or none when `length` is -1. */
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

/** Where the characters of a field value end. */
function skipValue(text: string, start: number): number {
  let at = start;
  while (VALUE[text.charCodeAt(at)] === 1) at++;
  return at;
}

function isLineEnd(text: string, at: number): boolean {
  return text.charCodeAt(at) === CR && text.charCodeAt(at + 1) === 0x0a;
}

/** A slice without the spaces and tabs around it. */
function trimmed(text: string, start: number, end: number): string {
  let from = start;
  let to = end;
  while (from < to && isBlank(text.charCodeAt(from))) from++;
  while (to > from && isBlank(text.charCodeAt(to - 1))) to--;
  return text.slice(from, to);
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

function consistsOf(table: Uint8Array, text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    if (table[text.charCodeAt(at)] !== 1) return false;
  }
  return true;
}

/** 1 at the code of every latin1 character that matches. */
function tableOf(pattern: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, code) => (pattern.test(String.fromCharCode(code)) ? 1 : 0));
}
