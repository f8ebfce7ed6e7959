// Items of conversations in the responses dialect: those of a request's input and of a response's output, as the JSON texts in which
// they were written, and the splice that puts earlier ones before the input of a request. No item is parsed and serialised again.

import { invalidRequest } from '../errors.ts';
import { bodyTape, type ScannedBody, SPAN } from './body-scan.ts';
import { edited } from './output-limit.ts';
import { CHECKED_DEPTH, skipSpace, skipValue } from './json-scan.ts';
import { type MemberTable, memberTable } from './member-table.ts';
import { nameIds } from './json-names.ts';
import { JsonTape } from './json-tape.ts';
import { foundIn, textAt, withMembers } from './response-object.ts';

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const COLON = 0x3a;
const NULL = 0x6e;

const REQUEST = memberTable(['input', 'previous_response_id', 'background', 'store', 'type', 'generate', 'stream_id']);
/** Where the spans of the members stand; those of `input` come first. */
const PREVIOUS = 2;
const BACKGROUND = 4;
const STORE = 6;
const TYPE = 8;
const GENERATE = 10;
const STREAM_ID = 12;

const ITEM = memberTable(['type', 'id']);

/** Input items of a request, oldest first. Input that is a text is one message of the user. Empty where there is no input. */
export function inputItemsOf(body: Buffer): string[] {
  const [start = -1, end = -1] = membersOf(body, REQUEST) ?? [];
  return itemsAt(body, start, end);
}

/** Input items of a request as one JSON array; as they are written where they stand in one. */
export function inputOf(body: Buffer): string {
  const [start = -1, end = -1] = membersOf(body, REQUEST) ?? [];
  return start >= 0 && body[start] === OPEN_ARRAY
    ? body.toString('utf8', start, end)
    : `[${itemsAt(body, start, end).join(',')}]`;
}

/** All elements of a JSON array in one text, as they are written there; none of an empty one. */
export function allItemsOf(array: string): readonly string[] {
  const items = array.slice(1, -1).trim();
  return items === '' ? [] : [items];
}

/** Elements of a JSON array, in their order. */
export function arrayItemsOf(array: Buffer): string[] {
  return array[0] === OPEN_ARRAY ? elementsAt(array, 0, array.length) : [];
}

/** Members of an item that other items may name it by; '' where it has none. */
export interface ItemName {
  readonly type: string;
  readonly id: string;
}

/** Type and id of an item. */
export function itemNameOf(item: string): ItemName {
  const bytes = Buffer.from(item);
  const spans = membersOf(bytes, ITEM) ?? [];
  return { type: textAt(bytes, spans, 0), id: textAt(bytes, spans, 2) };
}

/**
 * A request of the responses dialect with earlier items before its input, and without `previous_response_id`, which these items
 * replace. All other bytes stay.
 * @param body a JSON object
 * @param earlier JSON texts of items, oldest first
 */
export function withEarlierItems(body: Buffer, earlier: readonly string[]): Buffer {
  const without = withoutMembers(body, [PREVIOUS]);
  if (earlier.length === 0) return without;
  const [start = -1, end = -1] = membersOf(without, REQUEST) ?? [];
  const text = earlier.join(',');
  if (start >= 0 && without[start] === OPEN_ARRAY) {
    const first = skipSpace(without, start + 1, end);
    const separator = without[first] === CLOSE_ARRAY ? '' : ',';
    return edited(without, [{ start: start + 1, end: start + 1, text: text + separator }]);
  }
  const own = itemsAt(without, start, end);
  return withMembers(without, { input: `[${[text, ...own].join(',')}]` });
}

/** A request whose input is these items. */
export function withInput(body: Buffer, items: readonly string[]): Buffer {
  return withMembers(body, { input: `[${items.join(',')}]` });
}

/** A background request as the request that is sent: without `background`, as a stream. */
export function asForeground(body: Buffer): Buffer {
  return withMembers(withoutMembers(body, [BACKGROUND]), { stream: 'true' });
}

/** A message of a client on a socket of the responses dialect. */
export interface SocketMessage {
  /** '' when it is absent or no text. */
  readonly type: string;
  readonly previousResponseId: string;
  /** What the client calls the sequence of responses that this one belongs to; '' when it has no name. */
  readonly streamId: string;
  readonly background: boolean;
  /** False: the client does not want the response kept. */
  readonly store: boolean;
  /** False: the client only wants an id that it can go on from: it says so, or its input is empty. */
  readonly generates: boolean;
  /** What it asks for as the body of a request: without `type`, `generate` and `stream_id`, as a stream in the foreground. */
  readonly body: Buffer;
}

/** Reads a message of a socket; null when it is no JSON object. */
export function socketMessageOf(message: Buffer): SocketMessage | null {
  const spans = membersOf(message, REQUEST);
  if (spans === null) return null;
  return {
    type: textAt(message, spans, TYPE),
    previousResponseId: textAt(message, spans, PREVIOUS),
    streamId: textAt(message, spans, STREAM_ID),
    background: booleanAt(message, spans, BACKGROUND) === true,
    store: booleanAt(message, spans, STORE) !== false,
    generates: booleanAt(message, spans, GENERATE) !== false && hasInput(message, spans),
    body: asForeground(withoutMembers(message, [TYPE, GENERATE, STREAM_ID])),
  };
}

/** What a request says about the keeping of its response. */
export interface StateFields {
  /** Undefined: not said. */
  readonly store: boolean | undefined;
  readonly background: boolean;
  readonly stream: boolean;
  /** Its input names items that the gateway may have; see `item_reference` of the official API. */
  readonly hasReferences: boolean;
}

/** The type of an item that stands for one which the gateway may have. */
export const ITEM_REFERENCE = 'item_reference';
const NAME = nameIds('input', 'type', ITEM_REFERENCE);

/** What a scanned request says about the keeping of its response. Throws `HR_REQUEST_INVALID` for a value that is no boolean. */
export function stateFieldsOf(body: Buffer, { spans, stream }: ScannedBody): StateFields {
  return {
    store: checkedBoolean(body, spans, 'store'),
    background: checkedBoolean(body, spans, 'background') === true,
    stream,
    hasReferences: body[spans[SPAN.input] as number] === OPEN_ARRAY && mayHaveReferences(body),
  };
}

/** Read from the tape of the body where that is still there: a search through all of its bytes takes longer. */
function mayHaveReferences(body: Buffer): boolean {
  if (bodyTape.body !== body || !bodyTape.isWhole) return body.includes(ITEM_REFERENCE);
  const input = bodyTape.member(JsonTape.ROOT, NAME.input);
  const end = bodyTape.next(input);
  for (let item = bodyTape.first(input); item < end; item = bodyTape.next(item)) {
    if (bodyTape.name(bodyTape.member(item, NAME.type)) === NAME[ITEM_REFERENCE]) return true;
  }
  return false;
}

/** Spans of the members of the object in `body`; null when it is no object. */
function membersOf(body: Buffer, table: MemberTable): readonly number[] | null {
  return foundIn(body, table)?.spans ?? null;
}

function itemsAt(body: Buffer, start: number, end: number): string[] {
  if (start < 0 || body[start] === NULL) return [];
  if (body[start] === OPEN_ARRAY) return elementsAt(body, start, end);
  const text = body.toString('utf8', start, end);
  return body[start] === QUOTE ? [`{"type":"message","role":"user","content":${text}}`] : [text];
}

function elementsAt(body: Buffer, start: number, end: number): string[] {
  const items: string[] = [];
  let pos = skipSpace(body, start + 1, end);
  while (pos < end && body[pos] !== CLOSE_ARRAY) {
    const next = skipValue(body, pos, end, 1, CHECKED_DEPTH);
    if (next < 0) return items;
    items.push(body.toString('utf8', pos, next));
    pos = skipSpace(body, next, end);
    if (body[pos] === COMMA) pos = skipSpace(body, pos + 1, end);
  }
  return items;
}

/** False for no input, null, and an empty text or array. */
function hasInput(body: Buffer, [start = -1, end = -1]: readonly number[]): boolean {
  if (start < 0 || body[start] === NULL) return false;
  const first = skipSpace(body, start + 1, end);
  return body[start] === QUOTE ? end - start > 2 : body[first] !== CLOSE_ARRAY;
}

/** What is not to be stored must not be stored because it was said in another way. */
function checkedBoolean(body: Buffer, spans: readonly number[], name: 'store' | 'background'): boolean | undefined {
  const at = SPAN[name];
  const value = booleanAt(body, spans, at);
  if (value !== undefined || (spans[at] as number) < 0 || body[spans[at] as number] === NULL) return value;
  throw invalidRequest(['body', name], 'Input should be a valid boolean', 'bool_type');
}

function booleanAt(body: Buffer, spans: readonly number[], at: number): boolean | undefined {
  const first = body[spans[at] ?? -1];
  return first === 0x74 ? true : first === 0x66 ? false : undefined;
}

/** The object without these members, however often they stand there: read once, for clients may repeat a member a million times. */
function withoutMembers(body: Buffer, members: readonly number[]): Buffer {
  const all = foundIn(body, REQUEST);
  if (all === null) return body;
  const values: (readonly [start: number, end: number])[] = [];
  const repeated = all.repeated ?? [];
  for (let i = 0; i < repeated.length; i += 3) {
    if (members.includes(repeated[i] as number)) values.push([repeated[i + 1] as number, repeated[i + 2] as number]);
  }
  for (const at of members) {
    const start = all.spans[at] as number;
    if (start >= 0) values.push([start, all.spans[at + 1] as number]);
  }
  values.sort(([one], [other]) => one - other);
  const [, lastEnd = -1] = values.at(-1) ?? [];
  if (lastEnd < 0) return body;
  const cuts: { start: number; end: number; text: '' }[] = [];
  const cut = (valueStart: number, valueEnd: number): void => {
    const start = body.lastIndexOf(QUOTE, body.lastIndexOf(QUOTE, body.lastIndexOf(COLON, valueStart)) - 1);
    const comma = skipSpace(body, valueEnd, body.length);
    const end = body[comma] === COMMA ? skipSpace(body, comma + 1, body.length) : valueEnd;
    const before = cuts.at(-1);
    if (before?.end === start) before.end = end;
    else cuts.push({ start, end, text: '' });
  };
  for (const [start, end] of values) cut(start, end);
  const last = cuts.at(-1) as { start: number; end: number };
  if (last.end === lastEnd) {
    // No member follows: the comma before it goes with it.
    const before = body.lastIndexOf(COMMA, last.start);
    if (before >= 0 && skipSpace(body, before + 1, last.start) === last.start) last.start = before;
  }
  return edited(body, cuts);
}
