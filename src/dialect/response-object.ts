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

/** Types of events that end a response. Their first letters tell them from the frequent ones. */
const ENDS = ['response.completed', 'response.incomplete', 'response.failed'] as const;
const END_NAMES = ENDS.map((type) => Buffer.from(`"${type}"`));

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
  const members = membersOf(response, RESPONSE);
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
  const members = membersOf(object, memberTable(names));
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
  const members = membersOf(json, EVENT);
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
 * Where the event that ends a response begins in `piece`, which begins with an event; -1 when there is none. A look at the first bytes
 * of the last event decides for usual streams.
 */
export function endingEventIn(piece: Buffer): number {
  const { length } = piece;
  const blank = piece[length - 2] !== CR ? BLANK_LINE : piece[length - 1] === CR ? BLANK_LINE_CR : BLANK_LINE_CRLF;
  const before = length > blank.length ? piece.lastIndexOf(blank, length - blank.length - 1) : -1;
  const last = before < 0 ? 0 : before + blank.length;
  if (isNamed(piece, last)) {
    // `response.o…` (output_text.delta and the like), `response.r…`, `response.q…`: the events of a stream, and none that ends it.
    const letter = piece[last + EVENT_FIELD.length] as number;
    if (letter !== 0x63 && letter !== 0x69 && letter !== 0x66) return -1;
  }
  for (const name of END_NAMES) {
    const at = piece.indexOf(name);
    if (at < 0) continue;
    const end = piece.lastIndexOf(blank, at);
    return end < 0 ? 0 : end + blank.length;
  }
  return -1;
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

function membersOf(object: Buffer, table: MemberTable): Found | null {
  const start = skipSpace(object, 0, object.length);
  if (object[start] !== OPEN_OBJECT) return null;
  const members = found(table);
  return scanMembers(object, start, object.length, table, members, CHECKED_DEPTH) < 0 ? null : members;
}

function textAt(object: Buffer, spans: readonly number[], at: number): string {
  const [start = -1, end = -1] = [spans[at], spans[at + 1]];
  return start >= 0 && object[start] === QUOTE ? (readString(object, start, end) ?? '') : '';
}
