// Scanner for JSON request bodies: one pass over the bytes finds chosen top-level members without building any value. It accepts
// what JSON.parse accepts, but for two things: raw control characters and unknown escapes behind the first 16 bytes of a string
// that is not read, and invalid UTF-8, pass; nesting deeper than `maxDepth` does not.

import type { ValidationEntry } from '../errors.ts';

// Positions are byte offsets. A function that meets broken JSON returns `~offset` of the offending byte, which is negative.

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_OBJECT = 0x7b;
const OPEN_ARRAY = 0x5b;
/** In ASCII both closing brackets are their opening bracket plus two. */
const TO_CLOSING = 2;

/** How much of a skipped string is checked byte by byte; a native search is faster from here on (measured). */
export const STRICT_BYTES = 16;

/** Most leading elements of an array member that are remembered; conversations seldom have more system messages. */
const MAX_ELEMENTS = 8;

/** Opening brackets of the containers that surround a skipped value; grows to the largest depth used. */
let containers = new Uint8Array(256);

const TRUE = Buffer.from('true');
const FALSE = Buffer.from('false');
const NULL = Buffer.from('null');

/** 1 at the bytes of a class. */
const IS_SPACE = tableOf(' \n\r\t');
const IS_ESCAPE = tableOf('"\\/bfnrtu');
const IS_HEX = tableOf('0123456789abcdefABCDEF');

function tableOf(chars: string): Uint8Array {
  const table = new Uint8Array(256);
  for (const char of chars) table[char.charCodeAt(0)] = 1;
  return table;
}

/** Members to look for; see {@link memberTable}. */
export interface MemberTable {
  /** The spans of an object that has none of the members. */
  readonly absent: readonly number[];
  /** The keys by their length in bytes. */
  readonly byLength: readonly (readonly Member[] | undefined)[];
  /** The keys as text, for keys that are written with escapes. */
  readonly byName: ReadonlyMap<string, Member>;
}

interface Member {
  readonly key: Uint8Array;
  /** Index of the span's start in `Found.spans`; its end is the next item. */
  readonly at: number;
  readonly elements: boolean;
}

/** Result of {@link scanMembers}. */
export interface Found {
  /** `[start, end)` of each member in table order, flattened; -1 when absent. Of duplicate keys the last wins. */
  readonly spans: number[];
  /** `[start, end)` of the first eight elements of the last array among the `elements` members, flattened. */
  readonly elements: number[];
  /** Earlier ones of duplicate keys: index in `spans`, start and end of each, flattened; null when there are none. */
  repeated: number[] | null;
}

/** Prepares a search for `names` (ASCII keys). For those also in `elements`, the first array elements are remembered. */
export function memberTable(names: readonly string[], elements: readonly string[] = []): MemberTable {
  const byLength: Member[][] = [];
  const byName = new Map<string, Member>();
  for (const [index, name] of names.entries()) {
    const member = { key: Buffer.from(name, 'latin1'), at: 2 * index, elements: elements.includes(name) };
    (byLength[name.length] ??= []).push(member);
    byName.set(name, member);
  }
  return { absent: names.flatMap(() => [-1, -1]), byLength: Array.from(byLength), byName };
}

/** An empty result for `table`. */
export function found(table: MemberTable): Found {
  return { spans: table.absent.slice(), elements: [], repeated: null };
}

/**
 * Reads the object whose `{` is at `start` and fills `into`.
 * @param maxDepth deepest nesting allowed, this object being depth 1
 * @returns the offset behind the closing brace, or `~offset`
 */
export function scanMembers(
  body: Buffer,
  start: number,
  end: number,
  table: MemberTable,
  into: Found,
  maxDepth: number,
): number {
  if (maxDepth < 1) return ~start;
  let pos = start + 1;
  while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
  if (pos < end && body[pos] === OPEN_OBJECT + TO_CLOSING) return pos + 1;
  for (;;) {
    const keyStart = pos;
    if (pos >= end || body[pos] !== QUOTE) return ~pos;
    // Keys are read: all of their bytes are checked.
    pos = skipString(body, pos, end, end);
    if (pos < 0) return pos;
    const member = memberOf(body, keyStart, pos, table);
    while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
    if (pos >= end || body[pos] !== COLON) return ~pos;
    pos++;
    while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
    const valueStart = pos;
    if (member?.elements) into.elements.length = 0;
    pos =
      member?.elements && pos < end && body[pos] === OPEN_ARRAY
        ? skipElements(body, pos, end, into.elements, maxDepth)
        : skipValue(body, pos, end, 1, maxDepth);
    if (pos < 0) return pos;
    if (member !== undefined) {
      const { at } = member;
      const before = into.spans[at] as number;
      if (before >= 0) (into.repeated ??= []).push(at, before, into.spans[at + 1] as number);
      into.spans[at] = valueStart;
      into.spans[at + 1] = pos;
    }
    while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
    const next = pos < end ? (body[pos] as number) : 0;
    if (next === OPEN_OBJECT + TO_CLOSING) return pos + 1;
    if (next !== COMMA) return ~pos;
    pos++;
    while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
  }
}

/**
 * Skips the value whose first byte is at `start`, its nested levels included.
 * @param outer number of containers around it
 * @returns the offset behind it, or `~offset`
 */
export function skipValue(body: Buffer, start: number, end: number, outer: number, maxDepth: number): number {
  if (maxDepth > containers.length) containers = new Uint8Array(maxDepth);
  let pos = start;
  let depth = outer;
  for (;;) {
    const first = pos < end ? (body[pos] as number) : 0;
    if (first === OPEN_OBJECT || first === OPEN_ARRAY) {
      if (depth >= maxDepth) return ~pos;
      containers[depth++] = first;
      pos++;
      while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
      if (pos >= end || body[pos] !== first + TO_CLOSING) {
        if (first === OPEN_OBJECT) pos = skipKey(body, pos, end);
        if (pos < 0) return pos;
        continue;
      }
      depth--;
      pos++;
    } else {
      pos = first === QUOTE ? skipString(body, pos, end, STRICT_BYTES) : skipScalar(body, pos, end, first);
      if (pos < 0) return pos;
    }

    while (depth > outer) {
      while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
      const next = pos < end ? (body[pos] as number) : 0;
      const container = containers[depth - 1] as number;
      if (next === COMMA) {
        pos++;
        while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
        if (container === OPEN_OBJECT) pos = skipKey(body, pos, end);
        if (pos < 0) return pos;
        break;
      }
      if (next !== container + TO_CLOSING) return ~pos;
      depth--;
      pos++;
    }
    if (depth === outer) return pos;
  }
}

/** The JSON value at `[start, end)`; undefined when there is none. */
export function parsedValue(bytes: Buffer, start: number, end: number): unknown {
  try {
    return JSON.parse(bytes.toString('utf8', start, end));
  } catch {
    return undefined;
  }
}

/** The offset of the first byte at or behind `start` that is no JSON white space. */
export function skipSpace(body: Buffer, start: number, end: number): number {
  let pos = start;
  while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
  return pos;
}

/**
 * Reads the string value `[start, end)`, quotes included, by all rules of JSON.
 * @returns the text, in which invalid UTF-8 becomes U+FFFD; undefined when JSON.parse would refuse it
 */
export function readString(body: Buffer, start: number, end: number): string | undefined {
  let ascii = true;
  for (let pos = start + 1; pos < end - 1; pos++) {
    const byte = body[pos] as number;
    if (byte === BACKSLASH) return parseString(body, start, end);
    if (byte < 0x20) return undefined;
    if (byte > 0x7e) ascii = false;
  }
  return body.toString(ascii ? 'latin1' : 'utf8', start + 1, end - 1);
}

function parseString(body: Buffer, start: number, end: number): string | undefined {
  try {
    return JSON.parse(body.toString('utf8', start, end)) as string;
  } catch {
    return undefined;
  }
}

/** The member whose key is the string `[keyStart, keyEnd)`, however that is written. */
export function memberOf(body: Buffer, keyStart: number, keyEnd: number, table: MemberTable): Member | undefined {
  const length = keyEnd - keyStart - 2;
  const candidates = length < table.byLength.length ? table.byLength[length] : undefined;
  if (candidates !== undefined) {
    for (const candidate of candidates) {
      const key = candidate.key;
      let at = 0;
      while (at < length && body[keyStart + 1 + at] === key[at]) at++;
      if (at === length) return candidate;
    }
  }
  for (let pos = keyStart + 1; pos < keyEnd - 1; pos++) {
    if (body[pos] === BACKSLASH) return table.byName.get(parseString(body, keyStart, keyEnd) ?? '');
  }
  return undefined;
}

function skipElements(body: Buffer, start: number, end: number, elements: number[], maxDepth: number): number {
  if (maxDepth < 2) return ~start;
  let pos = skipSpace(body, start + 1, end);
  if (pos < end && body[pos] === OPEN_ARRAY + TO_CLOSING) return pos + 1;
  for (;;) {
    const elementStart = pos;
    pos = skipValue(body, pos, end, 2, maxDepth);
    if (pos < 0) return pos;
    if (elements.length < 2 * MAX_ELEMENTS) elements.push(elementStart, pos);
    while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
    const next = pos < end ? (body[pos] as number) : 0;
    if (next === OPEN_ARRAY + TO_CLOSING) return pos + 1;
    if (next !== COMMA) return ~pos;
    pos++;
    while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
  }
}

/** Whether a nested key ended with `url` since the scan of a body began. */
let hasAddress = false;

/** The last bytes of a key that ends with `url`, also where its letters are escaped: escapes have six bytes. */
const ADDRESS_KEY = /(?:u|\\u0075)(?:r|\\u0072)(?:l|\\u006c)"$/i;

/** Skips a nested key, its colon and the white space around it. */
function skipKey(body: Buffer, start: number, end: number): number {
  if (start >= end || body[start] !== QUOTE) return ~start;
  let pos = skipString(body, start, end, STRICT_BYTES);
  if (pos < 0) return pos;
  const last = body[pos - 2] as number;
  const mayBeAddress = (last === 0x6c && (body[pos - 3] === 0x72 || body[pos - 3] === 0x32)) || (last | 0x20) === 0x63;
  if (mayBeAddress) hasAddress ||= ADDRESS_KEY.test(body.toString('latin1', Math.max(start, pos - 19), pos));
  while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
  if (pos >= end || body[pos] !== COLON) return ~pos;
  pos++;
  while (pos < end && IS_SPACE[body[pos] as number] === 1) pos++;
  return pos;
}

/**
 * Skips the string that opens at `start`: its first `strictBytes` byte by byte, the rest by a native search for the
 * closing quote, which lets raw control characters and unknown escapes pass.
 */
export function skipString(body: Buffer, start: number, end: number, strictBytes: number): number {
  let pos = start + 1;
  const limit = Math.min(pos + strictBytes, end);
  while (pos < limit) {
    const byte = body[pos] as number;
    if (byte === QUOTE) return pos + 1;
    if (byte < 0x20) return ~pos;
    if (byte !== BACKSLASH) pos++;
    else if ((pos = skipEscape(body, pos, end)) < 0) return pos;
  }
  for (;;) {
    const quote = pos < end ? body.indexOf(QUOTE, pos) : -1;
    if (quote < 0 || quote >= end) return ~start;
    let slash = quote;
    while (slash > pos && body[slash - 1] === BACKSLASH) slash--;
    pos = quote + 1;
    if (((quote - slash) & 1) !== 0) continue;
    if (noted >= 0 && noted < MAX_NOTED) {
      notes[noted++] = start;
      notes[noted++] = pos;
    }
    return pos;
  }
}

/** Numbers for 2,048 strings; those behind them are searched again. */
const MAX_NOTED = 4096;
/** A larger body is not kept for its notes. */
const MAX_NOTED_BYTES = 1024 * 1024;

/** Start and end of each long string in the body that is being scanned, in the order of the text; or of the one scanned last. */
const notes = new Int32Array(MAX_NOTED);
/** Numbers in `notes`; -1 outside of `scanBody`. */
let noted = -1;
let notedBody: Buffer | null = null;
let notedInBody = 0;

/**
 * Start and end of the long strings in `body`, in the order of the text, so that a second reader need not search for their ends. Empty
 * unless `body` is the one that was scanned last; not all of a body with many. Valid until the next scan.
 */
export function longStrings(body: Buffer): Int32Array {
  return body === notedBody ? notes.subarray(0, notedInBody) : NO_NOTES;
}

const NO_NOTES = new Int32Array(0);

function skipEscape(body: Buffer, start: number, end: number): number {
  if (start + 1 >= end || IS_ESCAPE[body[start + 1] as number] !== 1) return ~start;
  if (body[start + 1] !== 0x75) return start + 2;
  for (let pos = start + 2; pos < start + 6; pos++) {
    if (pos >= end || IS_HEX[body[pos] as number] !== 1) return ~start;
  }
  return start + 6;
}

/** Skips a literal name or a number (RFC 8259 §3 and §6) whose first byte is `first`. */
export function skipScalar(body: Buffer, start: number, end: number, first: number): number {
  const word = first === 0x74 ? TRUE : first === 0x66 ? FALSE : first === 0x6e ? NULL : undefined;
  if (word !== undefined) {
    if (start + word.length > end) return ~start;
    for (let at = 1; at < word.length; at++) if (body[start + at] !== word[at]) return ~start;
    return start + word.length;
  }
  let pos = first === 0x2d ? start + 1 : start;
  const afterWhole = pos < end && body[pos] === 0x30 ? pos + 1 : skipDigits(body, pos, end);
  if (afterWhole === pos) return ~start;
  pos = afterWhole;
  if (pos < end && body[pos] === 0x2e) {
    const afterFraction = skipDigits(body, pos + 1, end);
    if (afterFraction === pos + 1) return ~pos;
    pos = afterFraction;
  }
  if (pos < end && ((body[pos] as number) | 0x20) === 0x65) {
    const sign = pos + 1 < end ? body[pos + 1] : 0;
    const digits = sign === 0x2b || sign === 0x2d ? pos + 2 : pos + 1;
    const afterExponent = skipDigits(body, digits, end);
    if (afterExponent === digits) return ~pos;
    pos = afterExponent;
  }
  return pos;
}

function skipDigits(body: Buffer, start: number, end: number): number {
  let pos = start;
  while (pos < end) {
    const byte = body[pos] as number;
    if (byte < 0x30 || byte > 0x39) break;
    pos++;
  }
  return pos;
}

/** Members that {@link scanBody} finds: the index of each one's start in `ScannedBody.spans`; its end is the next item. */
export const SPAN = {
  model: 0,
  stream: 2,
  messages: 4,
  system: 6,
  prompt: 8,
  input: 10,
  instructions: 12,
  session_id: 14,
  prompt_cache_key: 16,
  max_tokens: 18,
  max_completion_tokens: 20,
  max_output_tokens: 22,
  n_predict: 24,
  stream_options: 26,
  n: 28,
  best_of: 30,
  n_cmpl: 32,
  previous_response_id: 34,
  tools: 36,
  functions: 38,
  documents: 40,
  texts: 42,
  text_2: 44,
  cache_salt: 46,
  lora: 48,
  lora_path: 50,
  chat_template: 52,
  chat_template_kwargs: 54,
  reasoning_effort: 56,
  system_prompt: 58,
  input_extra: 60,
  input_prefix: 62,
  input_suffix: 64,
  image_data: 66,
  reasoning: 68,
} as const;

const REQUEST: MemberTable = memberTable(Object.keys(SPAN), ['messages', 'input']);

/** A longer session name is taken for a mistake or an attack and ignored. */
const MAX_SESSION_CHARS = 512;

const DEFAULT_MAX_DEPTH = 256;

/** What the scan found in a well-formed request body. */
export interface ScannedBody {
  readonly ok: true;
  /** Text of `model`; '' when it is absent and was not required. */
  readonly model: string;
  /** True only when `stream` is the literal `true`; any other value is for the CRN to judge. */
  readonly stream: boolean;
  /** `session_id`, else `prompt_cache_key`: the first that is a string of 1 to 512 UTF-16 units. */
  readonly session: string | undefined;
  /** Raw values as `[start, end)` byte offsets, indexed by {@link SPAN}; -1 is absent, the last duplicate wins. */
  readonly spans: readonly number[];
  /** `[start, end)` of the first eight elements of `messages` or `input`, flattened; empty when neither is an array. */
  readonly turns: readonly number[];
  /** Earlier ones of duplicate members: index in `spans`, start and end of each, flattened; null when there are none. */
  readonly repeated: readonly number[] | null;
  /** Whether a nested key ends with `url`: an image, a video or a sound by its address. */
  readonly hasAddress: boolean;
}

/** A body that is refused with 422 and these entries. */
export interface RejectedBody {
  readonly ok: false;
  readonly errors: readonly ValidationEntry[];
}

export type Scan = ScannedBody | RejectedBody;

export interface ScanOptions {
  /** Deepest nesting of objects and arrays, the body itself being 1. Default 256. */
  readonly maxDepth?: number;
  /** False where `model` may be absent or null, as on the llama-style routes of a host. Default true. */
  readonly requireModel?: boolean;
}

/** Scans `body` once, to its end. Never throws; the cost is linear in the length of the body. */
export function scanBody(body: Buffer, options?: ScanOptions): Scan {
  const maxDepth = options?.maxDepth ?? DEFAULT_MAX_DEPTH;
  const length = body.length;
  if (length === 0) return MISSING_BODY;
  let start = 0;
  while (start < length && IS_SPACE[body[start] as number] === 1) start++;
  const isObject = body[start] === OPEN_OBJECT;
  const members = found(REQUEST);
  hasAddress = false;
  noted = 0;
  let end = isObject
    ? scanMembers(body, start, length, REQUEST, members, maxDepth)
    : skipValue(body, start, length, 0, maxDepth);
  notedInBody = noted;
  notedBody = length <= MAX_NOTED_BYTES ? body : null;
  noted = -1;
  if (end < 0) return invalidJson(body, ~end);
  while (end < length && IS_SPACE[body[end] as number] === 1) end++;
  if (end < length) return invalidJson(body, end);
  if (!isObject) return body[start] === 0x6e ? MISSING_BODY : NOT_AN_OBJECT;
  return readMembers(body, members, options?.requireModel ?? true);
}

/** A body and what was found in it. */
export interface NamedBody {
  readonly body: Buffer;
  readonly scan: ScannedBody;
}

/** The body with `model` as the value of its member `model`, and its scan; the same ones where that stands there in any case. */
export function named(body: Buffer, scan: ScannedBody, model: string): NamedBody {
  if (scan.model === model || scan.model.toLowerCase() === model.toLowerCase()) return { body, scan };
  const { repeated, spans } = scan;
  const value = Buffer.from(JSON.stringify(model));
  // Of two members of one name a server may read the first or the last, which is the one in `spans`.
  const places: number[] = [];
  for (let at = 0; repeated !== null && at < repeated.length; at += 3) {
    if (repeated[at] === SPAN.model) places.push(repeated[at + 1] as number, repeated[at + 2] as number);
  }
  places.push(spans[SPAN.model] as number, spans[SPAN.model + 1] as number);
  const parts: Buffer[] = [];
  let from = 0;
  for (let at = 0; at < places.length; at += 2) {
    parts.push(body.subarray(from, places[at]), value);
    from = places[at + 1] as number;
  }
  parts.push(body.subarray(from));
  /** By how much an offset moves behind each number of places. */
  const shifts = [0];
  for (let at = 0; at < places.length; at += 2) {
    const replaced = (places[at + 1] as number) - (places[at] as number);
    shifts.push((shifts.at(-1) as number) + value.byteLength - replaced);
  }
  const moved = (offset: number): number => offset + (shifts[placesBefore(places, offset)] as number);
  return {
    body: Buffer.concat(parts),
    scan: {
      ...scan,
      model,
      spans: spans.map(moved),
      turns: scan.turns.map(moved),
      repeated: repeated === null ? null : repeated.map((each, at) => (at % 3 === 0 ? each : moved(each))),
    },
  };
}

/** How many of the places, flattened and in order, end at `offset` or before it. */
function placesBefore(places: readonly number[], offset: number): number {
  let low = 0;
  let high = places.length / 2;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((places[2 * middle + 1] as number) <= offset) low = middle + 1;
    else high = middle;
  }
  return low;
}

function readMembers(body: Buffer, { spans, elements, repeated }: Found, requireModel: boolean): Scan {
  const modelStart = spans[SPAN.model] as number;
  const modelEnd = spans[SPAN.model + 1] as number;
  let model: string | undefined = '';
  if (modelStart >= 0 && body[modelStart] === QUOTE) {
    model = readString(body, modelStart, modelEnd);
    if (model === undefined) return invalidJson(body, modelStart);
  } else if (requireModel || (modelStart >= 0 && body[modelStart] !== 0x6e)) {
    return modelStart < 0 ? MISSING_MODEL : MODEL_NOT_TEXT;
  }
  let session: string | undefined;
  for (const at of SESSION_MEMBERS) {
    const start = spans[at] as number;
    if (start < 0 || body[start] !== QUOTE) continue;
    const text = readString(body, start, spans[at + 1] as number);
    if (text === undefined) return invalidJson(body, start);
    if (text !== '' && text.length <= MAX_SESSION_CHARS) session ??= text;
  }
  const streamStart = spans[SPAN.stream] as number;
  const stream = streamStart >= 0 && body[streamStart] === 0x74;
  return { ok: true, model, stream, session, spans, turns: elements, repeated, hasAddress };
}

/** In order of preference. */
const SESSION_MEMBERS = [SPAN.session_id, SPAN.prompt_cache_key] as const;

const MISSING_BODY = rejected(['body'], 'Field required', 'missing');
const NOT_AN_OBJECT = rejected(
  ['body'],
  'Input should be a valid dictionary or object to extract fields from',
  'model_attributes_type',
);
const MISSING_MODEL = rejected(['body', 'model'], 'Field required', 'missing');
const MODEL_NOT_TEXT = rejected(['body', 'model'], 'Input should be a valid string', 'string_type');

/** A body that is no JSON from the byte at `offset` on. */
export function invalidJson(body: Buffer, offset: number): RejectedBody {
  return rejected(['body', charsBefore(body, offset)], 'JSON decode error', 'json_invalid');
}

function rejected(loc: (string | number)[], msg: string, type: string): RejectedBody {
  return { ok: false, errors: [{ loc, msg, type }] };
}

/** Code points that start before `offset`: clients are told characters, not bytes. */
function charsBefore(body: Buffer, offset: number): number {
  let chars = 0;
  for (let pos = 0; pos < offset; pos++) {
    if (((body[pos] as number) & 0xc0) !== 0x80) chars++;
  }
  return chars;
}

/**
 * Prompts in the value at `[start, end)`, as llama-server reads it: an array in which an element is a number is one prompt, of tokens
 * and texts; any other array has one in each element. 1 for any other value, for an empty array and for none (-1).
 */
export function promptsIn(body: Buffer, start: number, end: number): number {
  if (start < 0 || body[start] !== OPEN_ARRAY) return 1;
  let pos = skipSpace(body, start + 1, end);
  for (let prompts = 1; ; prompts++) {
    const first = body[pos] as number;
    if (first !== QUOTE && first !== OPEN_ARRAY && first !== OPEN_OBJECT) return 1;
    pos = skipSpace(body, skipValue(body, pos, end, 0, DEFAULT_MAX_DEPTH), end);
    if (body[pos] !== COMMA) return prompts;
    pos = skipSpace(body, pos + 1, end);
  }
}
