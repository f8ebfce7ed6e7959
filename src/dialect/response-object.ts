// Response objects of the responses dialect, and the events that carry them, as bytes: what is kept of them, and single members that
// are replaced. Nothing but these members changes; numbers and texts stay as they were written.

import { lineEndIn } from '../net/sse.ts';
import { edited } from './output-limit.ts';
import { CHECKED_DEPTH, readString, scanMembers, skipSpace } from './json-scan.ts';
import { type Found, found, type MemberTable, memberTable } from './member-table.ts';

const CR = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const OPEN_OBJECT = 0x7b;
const OPEN_ARRAY = 0x5b;

const RESPONSE = memberTable(['id', 'status', 'model', 'output']);
const EVENT = memberTable(['type', 'sequence_number', 'response']);

const DATA = Buffer.from('data:');
const EVENT_FIELD = Buffer.from('event: response.');
const BLANK_LINE = Buffer.from('\n\n');
const BLANK_LINE_CRLF = Buffer.from('\r\n\r\n');
const BLANK_LINE_CR = Buffer.from('\r\r');
const BLANK_LINES = [BLANK_LINE, BLANK_LINE_CRLF, BLANK_LINE_CR];

/** Types of events that end a response. Their first letters tell them from the frequent ones. */
const ENDS = ['response.completed', 'response.incomplete', 'response.failed'] as const;
const END_NAMES = ENDS.map((type) => Buffer.from(`"${type}"`));
const END_FIELD = /^event: ?response\.(?:completed|incomplete|failed)[\r\n]/;
const END_FIELD_BYTES = 32;

/** A response object, taken apart for the store. */
export interface ResponseParts {
  readonly id: string;
  readonly status: string;
  readonly model: string;
  /** JSON array of the output items. */
  readonly output: string;
  /** The object with `null` in the place of its output. */
  readonly rest: string;
}

/** Takes a response object apart; null when it is none. */
export function responsePartsOf(response: Buffer): ResponseParts | null {
  const members = foundIn(response, RESPONSE);
  if (members === null) return null;
  const { spans } = members;
  const id = textAt(response, spans, 0);
  const [start = -1, end = -1] = spans.slice(6);
  const isArray = start >= 0 && response[start] === OPEN_ARRAY;
  if (id === '') return null;
  const rest = isArray ? edited(response, [{ start, end, text: 'null' }]) : response;
  return {
    id,
    status: textAt(response, spans, 2),
    model: textAt(response, spans, 4),
    output: isArray ? response.toString('utf8', start, end) : '[]',
    rest: (start < 0 ? withMembers(rest, { output: 'null' }) : rest).toString(),
  };
}

/** The response object that was taken apart. */
export function joinedResponse(rest: string, output: string): Buffer {
  return withMembers(Buffer.from(rest), { output });
}

/** The object with these members, whose values are JSON: those that it has are replaced, others are added in front. */
export function withMembers(object: Buffer, values: Readonly<Record<string, string>>): Buffer {
  const names = Object.keys(values);
  const members = foundIn(object, memberTable(names));
  if (members === null) return object;
  const edits = [];
  const added: string[] = [];
  for (const [at, name] of names.entries()) {
    const text = values[name] as string;
    const [start = -1, end = -1] = members.spans.slice(2 * at);
    if (start < 0) added.push(`${JSON.stringify(name)}:${text}`);
    else edits.push({ start, end, text });
  }
  if (added.length > 0) {
    const at = object.indexOf(OPEN_OBJECT) + 1;
    const isEmpty = object[skipSpace(object, at, object.length)] === OPEN_OBJECT + 2;
    edits.push({ start: at, end: at, text: added.join(',') + (isEmpty ? '' : ',') });
  }
  return edited(object, edits);
}

/** An event of the responses dialect. */
export interface ResponseEvent {
  readonly type: string;
  /** Its data. */
  readonly json: Buffer;
  /** The response object that it carries; null when it carries none. */
  readonly response: Buffer | null;
}

/** Reads one event as it is sent; null when it has no data that is a JSON object. */
export function responseEventOf(event: Buffer): ResponseEvent | null {
  const json = dataOf(event);
  return json === null ? null : responseDataOf(json);
}

/** Reads the data of an event; null when it is no JSON object. */
export function responseDataOf(json: Buffer): ResponseEvent | null {
  const members = foundIn(json, EVENT);
  if (members === null) return null;
  const { spans } = members;
  const [start = -1, end = -1] = spans.slice(4);
  return {
    type: textAt(json, spans, 0),
    json,
    response: start >= 0 && json[start] === OPEN_OBJECT ? json.subarray(start, end) : null,
  };
}

/** Whether the type of an event ends its response. */
export function endsResponse(type: string): boolean {
  return (ENDS as readonly string[]).includes(type);
}

/** Type of the event that ends a response with this status, for one that came whole. */
export function endTypeOf(status: unknown): string {
  return ENDS.find((type) => type === `response.${String(status)}`) ?? 'response.completed';
}

/**
 * Where the event that ends a response begins in `piece`, which begins with an event; -1 when there is none. An event that is cut at the
 * end of the piece may be the one. A look at the first bytes of the last event decides for usual streams.
 */
export function endingEventIn(piece: Buffer): number {
  const { length } = piece;
  const blank = piece[length - 2] !== CR ? BLANK_LINE : piece[length - 1] === CR ? BLANK_LINE_CR : BLANK_LINE_CRLF;
  const isWhole = length >= blank.length && piece.compare(blank, 0, blank.length, length - blank.length) === 0;
  if (isWhole) {
    const last = behind(piece, blank, length - blank.length - 1);
    // `response.o…` (output_text.delta and the like), `response.r…`, `response.q…`: the events of a stream, and none that ends it.
    const letter = isNamed(piece, last) ? (piece[last + EVENT_FIELD.length] as number) : 0x63;
    if (letter !== 0x63 && letter !== 0x69 && letter !== 0x66) return -1;
  }
  const places = END_NAMES.map((name) => piece.indexOf(name));
  for (let at = firstOf(places); at >= 0; at = firstOf(places)) {
    const start = behind(piece, blank, at);
    const end = piece.indexOf(blank, at);
    // What is cut cannot be read yet.
    if (end < 0 || endsResponse(responseEventOf(piece.subarray(start, end + 1))?.type ?? '')) return start;
    // A text may be the name of such an event.
    for (const [index, name] of END_NAMES.entries()) {
      if ((places[index] as number) >= 0 && (places[index] as number) < end) places[index] = piece.indexOf(name, end);
    }
  }
  if (isWhole) return -1;
  // Some servers write the type behind the response.
  const last = Math.max(...BLANK_LINES.map((line) => behind(piece, line, length)));
  return END_FIELD.test(piece.toString('latin1', last, last + END_FIELD_BYTES)) ? last : -1;
}

/** Behind the last blank line of this kind that begins at `at` or before; 0 without one. */
function behind(piece: Buffer, blank: Buffer, at: number): number {
  const before = at < 0 ? -1 : piece.lastIndexOf(blank, at);
  return before < 0 ? 0 : before + blank.length;
}

/** The smallest of the places that are there; -1 without any. */
function firstOf(places: readonly number[]): number {
  return places.reduce((first, at) => (first < 0 || (at >= 0 && at < first) ? at : first), -1);
}

function isNamed(piece: Buffer, start: number): boolean {
  if (piece.length < start + EVENT_FIELD.length) return false;
  for (let at = 0; at < EVENT_FIELD.length; at++) if (piece[start + at] !== EVENT_FIELD[at]) return false;
  return true;
}

/** The data lines of an event, joined. */
function dataOf(event: Buffer): Buffer | null {
  const lines: Buffer[] = [];
  const usesCr = event.includes(CR);
  for (let at = 0; at < event.length;) {
    const end = lineEndIn(event, at, usesCr);
    const isData = event.compare(DATA, 0, DATA.length, at, Math.min(at + DATA.length, event.length)) === 0;
    if (isData) {
      const start = at + DATA.length + (event[at + DATA.length] === SPACE ? 1 : 0);
      lines.push(event.subarray(start, end));
    }
    at = end + 1;
  }
  if (lines.length === 0) return null;
  return lines.length === 1 ? (lines[0] as Buffer) : Buffer.from(lines.join('\n'));
}

/** Where the members of the object are; null when it is no object. */
export function foundIn(object: Buffer, table: MemberTable): Found | null {
  const start = skipSpace(object, 0, object.length);
  if (object[start] !== OPEN_OBJECT) return null;
  const members = found(table);
  return scanMembers(object, start, object.length, table, members, CHECKED_DEPTH) < 0 ? null : members;
}

/** A text by the index of its span; '' when it is absent or no text. */
export function textAt(object: Buffer, spans: readonly number[], at: number): string {
  const [start = -1, end = -1] = [spans[at], spans[at + 1]];
  return start >= 0 && object[start] === QUOTE ? (readString(object, start, end) ?? '') : '';
}
