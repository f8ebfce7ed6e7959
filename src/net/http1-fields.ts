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
/** The lower-case code of a character of a token, 0 at every other byte. */
const LOWER = TOKEN.map((valid, code) => valid * String.fromCharCode(code).toLowerCase().charCodeAt(0));

function tableOf(codes: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, code) => Number(codes.test(String.fromCharCode(code))));
}

/** A byte that no head may hold: a control character, or CR and LF that are not together (RFC 9112 §2.2). */
const FORBIDDEN = /[^\t\r\n\x20-\x7e\x80-\xff]|\r(?!\n)|(?<!\r)\n/;

/** First allocation for a head that arrives in pieces. */
const FIRST_BYTES = 4096;

const NO_BYTES: Buffer = Buffer.alloc(0);

/** The bytes of a head that has not ended yet. */
export class PartialHead {
  bytes: Buffer = NO_BYTES;
  length = 0;
  /** Where the bytes begin that `addedForbidden` has not seen. */
  #checked = 0;

  /** Adds bytes. The caller has the limit. */
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

  /** Whether a byte that no head may hold has been added since the last call. A CR at the end is left for the next call. */
  addedForbidden(): boolean {
    const from = this.#checked;
    this.#checked = this.bytes[this.length - 1] === CR ? this.length - 1 : this.length;
    return hasForbidden(this.bytes, from, this.#checked);
  }

  clear(): void {
    this.bytes = NO_BYTES;
    this.length = 0;
    this.#checked = 0;
  }
}

/** Longest head that is kept, so that a connection takes little memory. */
const KEPT_BYTES = 1024;
/** Heads in a row that have little in common with the one before, after which a connection keeps none. */
const MAX_MISSES = 4;

/**
 * The last head of a connection. Peers often send the same one again, or one in which a line differs: what both begin with need not
 * be parsed again.
 */
export class KeptHead {
  /** Length of the kept head; 0 when there is none. */
  length = 0;
  /** Its field section, one name and one value for each line; null when the fields are not as the lines say. */
  fields: readonly string[] | null = null;
  #bytes: Buffer = NO_BYTES;
  #view: DataView = NO_VIEW;
  #misses = 0;

  /** How many bytes from `start` on are those that the kept head begins with. */
  common(bytes: Buffer, start: number, end: number): number {
    const length = Math.min(this.length, end - start);
    if (length === 0) return 0;
    const kept = this.#bytes;
    const given = viewOf(bytes);
    const known = this.#view;
    let at = 0;
    // Eight bytes at a time, as numbers. Equal numbers are equal bytes: no valid head has NULs, so that zero has no other sign.
    // NaN, which equals nothing, is left to the second loop.
    while (at + 8 <= length && given.getFloat64(start + at, true) === known.getFloat64(at, true)) at += 8;
    while (at < length && bytes[start + at] === kept[at]) at++;
    this.#misses = at * 2 < this.length ? this.#misses + 1 : 0;
    return at;
  }

  /**
   * Where the first line begins that is not wholly within the first `common` bytes, if these are more than half of the head;
   * otherwise 0: the lines need to be parsed.
   */
  firstNewLine(common: number): number {
    if (this.fields === null || common * 2 < this.length) return 0;
    let at = common;
    while (at > 0 && this.#bytes[at - 1] !== LF) at--;
    return at;
  }

  /**
   * Whether a head with these fields, of which `common` bytes are kept, differs from the kept one in the value of Content-Length alone, which
   * stands in the last line of both.
   */
  differsInLength(fields: readonly string[], common: number): boolean {
    const kept = this.fields;
    const last = fields.length - 2;
    if (kept === null || kept.length !== fields.length || fields[last] !== 'content-length') return false;
    const line = this.firstNewLine(common);
    // No line ends between the first new one and the blank line but the last.
    return line > 0 && kept[last] === 'content-length' && this.#bytes.indexOf(LF, line) === this.length - 3;
  }

  /** The fields of the lines before `at`, where a line begins, in a new array. */
  fieldsBefore(at: number): string[] {
    const fields = this.fields ?? [];
    let count = fields.length;
    // The blank line is no field.
    for (let i = at; i < this.length - 2; i++) if (this.#bytes[i] === LF) count -= 2;
    return fields.slice(0, count);
  }

  /** Keeps a head of which `common` bytes are kept, if that may be of use. */
  keep(bytes: Buffer, start: number, end: number, common: number, fields: readonly string[] | null): void {
    this.length = 0;
    this.fields = null;
    if (end - start > KEPT_BYTES || this.#misses > MAX_MISSES) {
      this.#bytes = NO_BYTES;
      return;
    }
    if (this.#bytes.byteLength === 0) {
      this.#bytes = Buffer.allocUnsafe(KEPT_BYTES);
      this.#view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset, KEPT_BYTES);
    }
    bytes.copy(this.#bytes, common, start + common, end);
    this.length = end - start;
    this.fields = fields;
  }
}

const NO_VIEW: DataView = new DataView(new ArrayBuffer(0));

/** The buffers that were compared last, the latest one first: all sockets of a server, or of clients, read into one. */
let latest: Uint8Array = NO_BYTES;
let latestView: DataView = NO_VIEW;
let earlier: Uint8Array = NO_BYTES;
let earlierView: DataView = NO_VIEW;

function viewOf(bytes: Uint8Array): DataView {
  if (bytes === latest) return latestView;
  const view = bytes === earlier ? earlierView : new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  [earlier, earlierView] = [latest, latestView];
  [latest, latestView] = [bytes, view];
  return view;
}

/** Whether a byte between `start` and `end` is one that no head may hold. */
export function hasForbidden(bytes: Buffer, start: number, end: number): boolean {
  return FORBIDDEN.test(bytes.toString('latin1', start, end));
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

/** Fields that frame a message or concern its connection. */
const NOTED: ReadonlySet<string> = new Set([
  'content-length',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'expect',
  'host',
]);

/** A field name that was received. */
class FieldName {
  /** In lower case, and as V8 keeps property names: comparing it with a literal is comparing two pointers. */
  readonly name: string;
  readonly codes: Uint8Array;
  /** The field frames the message or concerns the connection. */
  readonly noted: boolean;

  constructor(name: string) {
    [this.name = ''] = Object.keys({ [name]: null });
    this.codes = Buffer.from(name, 'latin1');
    this.noted = NOTED.has(name);
  }

  /** Whether the bytes from `at` are this name in any case; there are enough of them. */
  matches(bytes: Buffer, at: number): boolean {
    const { codes } = this;
    for (let i = 0; i < codes.length; i++) if (LOWER[bytes[at + i] as number] !== codes[i]) return false;
    return true;
  }
}

/** Kept field names are in sets by a hash of their lower-case codes; a set has few. Peers cannot fill the memory with names. */
const NAME_SETS = 256;
const NAMES_PER_SET = 4;
const MAX_NAME_LENGTH = 64;
const NAMES: (FieldName | null)[] = new Array<FieldName | null>(NAME_SETS * NAMES_PER_SET).fill(null);
/** Which name of a full set the next one replaces. */
let nextReplaced = 0;

function nameAt(bytes: Buffer, start: number, end: number, hash: number): FieldName {
  const first = ((hash ^ (hash >>> 8)) & (NAME_SETS - 1)) * NAMES_PER_SET;
  for (let slot = first; slot < first + NAMES_PER_SET; slot++) {
    const kept = NAMES[slot] as FieldName | null;
    if (kept === null) break;
    if (kept.codes.length === end - start && kept.matches(bytes, start)) return kept;
  }
  const name = new FieldName(bytes.toString('latin1', start, end).toLowerCase());
  if (end - start <= MAX_NAME_LENGTH) keepName(name, first);
  return name;
}

function keepName(name: FieldName, first: number): void {
  const free = NAMES.indexOf(null, first);
  if (free >= 0 && free < first + NAMES_PER_SET) {
    NAMES[free] = name;
  } else {
    NAMES[first + nextReplaced] = name;
    nextReplaced = (nextReplaced + 1) % NAMES_PER_SET;
  }
}

/** What made a field section invalid. */
export type FieldFault = '' | 'field line' | 'too many fields';

/**
 * One parsed field section, and those of its fields that frame the message or concern the connection. It is read before the next one
 * is parsed, so that one object serves all connections.
 */
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

  /**
   * Parses the lines from `start` to the blank line that ends at `end`. `text` is what lies between `textStart` and `end`, one
   * character per byte. `fields` are those of the lines before `start`, which are parsed already; the others are added. False when
   * the lines are invalid: see `fault`.
   */
  parse(
    bytes: Buffer,
    start: number,
    end: number,
    text: string,
    textStart: number,
    maxFields: number,
    fields: string[],
  ): boolean {
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
    for (let i = 0; i < fields.length; i += 2) this.#note(fields[i] as string, fields[i + 1] as string, i + 1);
    let at = start;
    while (bytes[at] !== CR) {
      const nameStart = at;
      let hash = 0;
      let code = LOWER[bytes[at] as number] as number;
      while (code !== 0) {
        hash = (Math.imul(hash, 31) + code) | 0;
        code = LOWER[bytes[++at] as number] as number;
      }
      // This refuses a space before the colon and folded lines too (RFC 9112 §5.1 and §5.2).
      if (at === nameStart || bytes[at] !== COLON) return this.#fail('field line');
      if (fields.length >= 2 * maxFields) return this.#fail('too many fields');
      const { name, noted } = nameAt(bytes, nameStart, at, hash);
      let byte = bytes[++at] as number;
      while (byte === SPACE || byte === TAB) byte = bytes[++at] as number;
      const valueStart = at;
      while (TEXT[byte] === 1) byte = bytes[++at] as number;
      if (byte !== CR || bytes[at + 1] !== LF) return this.#fail('field line');
      let valueEnd = at;
      while (valueEnd > valueStart && (bytes[valueEnd - 1] === SPACE || bytes[valueEnd - 1] === TAB)) valueEnd--;
      at += 2;
      const value = text.slice(valueStart - textStart, valueEnd - textStart);
      fields.push(name, value);
      if (noted) this.#note(name, value, fields.length - 1);
    }
    return at + 2 === end || this.#fail('field line');
  }

  #note(name: string, value: string, at: number): void {
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
        this.hostAt = at;
        break;
      default:
    }
  }

  #fail(fault: FieldFault): false {
    this.fault = fault;
    return false;
  }
}

/** The entries of a field that is a list (RFC 9110 §5.6.1), without white space around them. */
export function listed(field: string): string[] {
  return field.split(',').map((entry) => entry.trim());
}

/** Whether the connection outlives the message (RFC 9112 §9.3). `connection`: its Connection lines, joined by commas. */
export function persists(minor: number, connection: string): boolean {
  if (connection === '') return minor > 0;
  const options = connection.toLowerCase();
  if (options === 'keep-alive') return true;
  const names = listed(options);
  return !names.includes('close') && (minor > 0 || names.includes('keep-alive'));
}
