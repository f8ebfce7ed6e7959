// Field sections of HTTP/1.1 heads (RFC 9110 §5, RFC 9112 §5): the character tables, the collection of a head that arrives in
// pieces, and the parsing of field lines. Nothing here throws, and everything that is kept is bounded.

export const TAB = 0x09;
export const LF = 0x0a;
export const CR = 0x0d;
export const SPACE = 0x20;
const COLON = 0x3a;

/** 1 at the codes of a method or a field name (RFC 9110 §5.6.2). */
export const TOKEN: Uint8Array = tableOf(/[!#$%&'*+\-.^_`|~\w]/);
/** 1 at the codes of a field value: HTAB, SP, visible characters and obs-text (RFC 9110 §5.5). */
export const TEXT: Uint8Array = tableOf(/[\t\x20-\x7e\x80-\xff]/);

function tableOf(codes: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, code) => Number(codes.test(String.fromCharCode(code))));
}

/** A byte that no head may hold: a control character, or CR and LF that are not together (RFC 9112 §2.2). */
export const FORBIDDEN: RegExp = /[^\t\r\n\x20-\x7e\x80-\xff]|\r(?!\n)|(?<!\r)\n/;

/** First allocation for a head that arrives in pieces. */
const FIRST_BYTES = 4096;

/** Most names and longest name in the table of field names, so that peers cannot fill the memory with it. */
const MAX_NAMES = 1024;
const MAX_NAME_LENGTH = 64;

/** Lower-case field names by the spelling in which they were received. */
const NAMES = new Map<string, string>();

/** The bytes of a head that has not ended yet. */
export class PartialHead {
  bytes: Buffer = Buffer.alloc(0);
  length = 0;

  /** Adds bytes; never more than the caller's limit for heads. */
  add(bytes: Buffer, start: number, end: number): void {
    const needed = this.length + end - start;
    if (needed > this.bytes.byteLength) {
      const larger = Buffer.allocUnsafe(Math.max(FIRST_BYTES, needed * 2));
      this.bytes.copy(larger, 0, 0, this.length);
      this.bytes = larger;
    }
    bytes.copy(this.bytes, this.length, start, end);
    this.length = needed;
  }

  text(): string {
    return this.bytes.toString('latin1', 0, this.length);
  }

  clear(): void {
    this.bytes = Buffer.alloc(0);
    this.length = 0;
  }
}

/** Where the blank line after a head ends; -1 when it is not there yet. */
export function headEnd(bytes: Buffer, start: number, end: number): number {
  let at = start + 3;
  while (at < end) {
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

/** What made a field section invalid. */
export type FieldFault = '' | 'field line' | 'too many fields';

/** One parsed field section, and those of its fields that frame the message or concern the connection. */
export class FieldSection {
  /** Names in lower case and values, alternating; a new array for every section. */
  fields: string[] = [];
  fault: FieldFault = '';
  /** The Content-Length lines, joined by commas; null when there is none. */
  length: string | null = null;
  lengths = 0;
  /** The Transfer-Encoding lines, joined by commas; null when there is none. */
  coding: string | null = null;
  /** The Connection lines, joined by commas. */
  connection = '';
  /** The last Keep-Alive line. */
  keepAlive = '';
  /** The last Expect line. */
  expect = '';
  /** Number of Host lines, and where the value of the last one stands in `fields`. */
  hosts = 0;
  hostAt = -1;

  /** Parses the lines from `start` to the blank line at the end of `text`. False when they are invalid: see `fault`. */
  parse(text: string, start: number, maxFields: number): boolean {
    const fields: string[] = [];
    this.fields = fields;
    this.fault = '';
    this.length = null;
    this.lengths = 0;
    this.coding = null;
    this.connection = '';
    this.keepAlive = '';
    this.expect = '';
    this.hosts = 0;
    this.hostAt = -1;
    let at = start;
    while (text.charCodeAt(at) !== CR) {
      const nameStart = at;
      while (TOKEN[text.charCodeAt(at)] === 1) at++;
      // This refuses a space before the colon and folded lines too (RFC 9112 §5.1 and §5.2).
      if (at === nameStart || text.charCodeAt(at) !== COLON) return this.#fail('field line');
      if (fields.length >= 2 * maxFields) return this.#fail('too many fields');
      const name = fieldName(text.slice(nameStart, at));
      let code = text.charCodeAt(++at);
      while (code === SPACE || code === TAB) code = text.charCodeAt(++at);
      const valueStart = at;
      let valueEnd = at;
      while (TEXT[code] === 1) {
        at++;
        if (code !== SPACE && code !== TAB) valueEnd = at;
        code = text.charCodeAt(at);
      }
      if (code !== CR || text.charCodeAt(at + 1) !== LF) return this.#fail('field line');
      at += 2;
      const value = text.slice(valueStart, valueEnd);
      fields.push(name, value);
      this.#note(name, value);
    }
    return (text.charCodeAt(at + 1) === LF && at + 2 === text.length) || this.#fail('field line');
  }

  #note(name: string, value: string): void {
    switch (name) {
      case 'content-length':
        this.lengths++;
        this.length = this.length === null ? value : `${this.length},${value}`;
        break;
      case 'transfer-encoding':
        this.coding = this.coding === null ? value : `${this.coding},${value}`;
        break;
      case 'connection':
        this.connection = this.connection === '' ? value : `${this.connection},${value}`;
        break;
      case 'keep-alive':
        this.keepAlive = value;
        break;
      case 'expect':
        this.expect = value;
        break;
      case 'host':
        this.hosts++;
        this.hostAt = this.fields.length - 1;
        break;
      default:
    }
  }

  #fail(fault: FieldFault): false {
    this.fault = fault;
    return false;
  }
}

function fieldName(spelled: string): string {
  return NAMES.get(spelled) ?? keepName(spelled);
}

function keepName(spelled: string): string {
  const name = spelled.toLowerCase();
  // A slice would keep the whole head alive: the table gets copies.
  if (NAMES.size < MAX_NAMES && spelled.length <= MAX_NAME_LENGTH) NAMES.set(copyOf(spelled), copyOf(name));
  return name;
}

function copyOf(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}

/** Whether the connection outlives the message (RFC 9112 §9.3). `connection`: its Connection lines, joined by commas. */
export function persists(minor: number, connection: string): boolean {
  if (connection === '') return minor > 0;
  const options = connection.toLowerCase();
  if (options === 'keep-alive') return true;
  const names = options.split(',').map((name) => name.trim());
  return !names.includes('close') && (minor > 0 || names.includes('keep-alive'));
}
