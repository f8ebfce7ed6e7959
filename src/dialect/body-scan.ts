// The scan of a request body: its top-level members and, on a tape, the span of every value, for translations.

import {
  invalidJson,
  tooDeep,
  readString,
  rejected,
  type RejectedBody,
  scanMembers,
  skipSpace,
  skipValue,
} from './json-scan.ts';
import { tooDeepAt } from '../config/json-syntax.ts';
import { found, type Found, type MemberTable, memberTable } from './member-table.ts';
import { JsonTape, offsetWithout, type Range, TooManyValues } from './json-tape.ts';

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_OBJECT = 0x7b;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;

/** The values of the body that was scanned last. */
export const bodyTape: JsonTape = new JsonTape(true);

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
  store: 70,
  background: 72,
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
  /** Values and keys, the body itself included; of a renamed or shortened body, those of the one that came. */
  readonly values: number;
}

export type Scan = ScannedBody | RejectedBody;

export interface ScanOptions {
  /** Deepest nesting of objects and arrays, the body itself being 1. Default 256. */
  readonly maxDepth?: number;
  /** Most values and keys. Default: any number. */
  readonly maxValues?: number;
  /** False where `model` may be absent or null, as on the llama-style routes of a host. Default true. */
  readonly requireModel?: boolean;
}

/**
 * Scans `body` once, to its end, and leaves its values in `bodyTape`. Never throws; the cost is linear in the length of the body.
 */
export function scanBody(body: Buffer, options?: ScanOptions): Scan {
  const maxDepth = options?.maxDepth ?? DEFAULT_MAX_DEPTH;
  const maxValues = options?.maxValues ?? Infinity;
  const length = body.length;
  if (length === 0) return MISSING_BODY;
  const start = skipSpace(body, 0, length);
  const isObject = body[start] === OPEN_OBJECT;
  const members = found(REQUEST);
  bodyTape.begin(body, maxValues);
  let end: number;
  try {
    end = isObject
      ? scanMembers(body, start, length, REQUEST, members, maxDepth, bodyTape)
      : skipValue(body, start, length, 0, maxDepth, bodyTape);
  } catch (thrown) {
    bodyTape.drop();
    if (thrown instanceof TooManyValues) return tooManyValues(maxValues);
    throw thrown;
  }
  if (end >= 0) end = skipSpace(body, end, length);
  if (end < length) {
    bodyTape.drop();
    const at = end < 0 ? ~end : end;
    const broken = invalidJson(body, at);
    const isBracket = body[at] === OPEN_OBJECT || body[at] === OPEN_ARRAY;
    const deepAt = isBracket ? tooDeepAt(body, maxDepth) : -1;
    return deepAt >= 0 && broken.errors[0]?.loc[1] === deepAt
      ? { ok: false, errors: [tooDeep(deepAt, maxDepth)] }
      : broken;
  }
  const { values } = bodyTape;
  bodyTape.release();
  if (values > maxValues) return tooManyValues(maxValues);
  if (!isObject) return body[start] === 0x6e ? MISSING_BODY : NOT_AN_OBJECT;
  return readMembers(body, members, values, options?.requireModel ?? true);
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
  const renamed = Buffer.concat(parts);
  // What reads the values of the renamed body needs no scan of its own.
  if (places.length === 2 && bodyTape.body === body && bodyTape.isWhole && !value.includes(BACKSLASH)) {
    bodyTape.shift(renamed, places[1] as number, shifts[1] as number);
  }
  return {
    body: renamed,
    scan: { ...movedScan(scan, moved), model },
  };
}

/** The scan of a body whose values stand elsewhere. */
function movedScan(scan: ScannedBody, moved: (offset: number) => number): ScannedBody {
  const { repeated, spans, turns } = scan;
  return {
    ...scan,
    spans: spans.map(moved),
    turns: turns.map(moved),
    repeated: repeated === null ? null : repeated.map((each, at) => (at % 3 === 0 ? each : moved(each))),
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

/**
 * The body without these ranges, as `JsonTape.cut` has them, and its scan. It is in the memory of `body`, which is not to be used any more: a
 * copy would be a block that the collector has to find.
 */
export function without(body: Buffer, scan: ScannedBody, ranges: readonly Range[]): NamedBody {
  let to = 0;
  let from = 0;
  for (const { end, start } of [...ranges, { start: body.length, end: body.length }]) {
    if (to < from) body.copyWithin(to, from, start);
    to += start - from;
    from = end;
  }
  const shorter = body.subarray(0, to);
  if (bodyTape.body === body && bodyTape.isWhole) bodyTape.cut(shorter, ranges);
  return { body: shorter, scan: movedScan(scan, (offset) => offsetWithout(ranges, offset)) };
}

/** Type of the entry about a body with more than `maxValues`. */
export const TOO_MANY_VALUES = 'too_many_values';

/** What is wrong with a body that has more values and keys than `maxValues`. */
export function tooManyValues(maxValues: number): RejectedBody {
  return rejected(['body'], `JSON should have at most ${maxValues} values and keys`, TOO_MANY_VALUES);
}

function readMembers(body: Buffer, { spans, elements, repeated }: Found, values: number, requireModel: boolean): Scan {
  const modelStart = spans[SPAN.model] as number;
  const modelEnd = spans[SPAN.model + 1] as number;
  let model: string | undefined = '';
  if (modelStart >= 0 && body[modelStart] === QUOTE) {
    model = modelName(body, modelStart, modelEnd);
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
  return {
    ok: true,
    model,
    stream,
    session,
    spans,
    turns: elements,
    repeated,
    hasAddress: bodyTape.hasAddress,
    values,
  };
}

/** Names of models that were asked for last, by length and two of their bytes. Clients can invent names, so that there are no more places. */
const MODELS: (string | undefined)[] = Array.from({ length: 64 });
const MAX_KEPT_NAME = 128;

/** As `readString`. A name that was seen before is the same text again: tables find it without reading it. */
function modelName(body: Buffer, start: number, end: number): string | undefined {
  const length = end - start - 2;
  const place = (31 * length + 7 * (body[start + 1] as number) + (body[end - 2] as number)) & (MODELS.length - 1);
  const kept = MODELS[place];
  if (kept !== undefined && isText(body, start + 1, length, kept)) return kept;
  const name = readString(body, start, end);
  // As V8 keeps property names.
  if (name?.length === length && length <= MAX_KEPT_NAME) [MODELS[place]] = Object.keys({ [name]: null });
  return name;
}

/** Whether these bytes are a text of ASCII. */
function isText(body: Buffer, start: number, length: number, text: string): boolean {
  if (text.length !== length) return false;
  for (let at = 0; at < length; at++) if (body[start + at] !== text.charCodeAt(at)) return false;
  return true;
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

/** Prompts of requests whose prompt is a list, by their spans: they are asked for several times. */
const COUNTED = new WeakMap<readonly number[], number>();

/** Prompts in the member `prompt` of a scanned body; see `promptsIn`. */
export function promptsOf(body: Buffer, spans: readonly number[]): number {
  const start = spans[SPAN.prompt] as number;
  if (start < 0 || body[start] !== OPEN_ARRAY) return 1;
  const known = COUNTED.get(spans);
  if (known !== undefined) return known;
  const prompts = promptsIn(body, start, spans[SPAN.prompt + 1] as number);
  COUNTED.set(spans, prompts);
  return prompts;
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
