// Reads a request body without parsing it: model, stream, session and the places of the members other rooms look at.
// Called once per proxied request by api/, before anything is routed; the bytes themselves are forwarded untouched.
// What JSON.parse refuses is refused here too, with three exceptions that are left to the CRN to judge: raw control
// characters and unknown escapes behind the first 16 bytes of a string value that is not read, and invalid UTF-8 anywhere.
// One thing is refused that JSON.parse accepts: nesting deeper than `maxDepth`.
import type { ValidationEntry } from '../errors.ts';
import { found, memberTable, readString, scanMembers, skipSpace, skipValue } from './members.ts';
import type { Found, MemberTable } from './members.ts';

/** Where the start of each member stands in `Scan.spans`; its end is the next item. */
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
} as const;

/** The name of a member {@link scanBody} finds. */
export type MemberName = keyof typeof SPAN;

const REQUEST: MemberTable = memberTable(Object.keys(SPAN), ['messages', 'input']);

/** A session name longer than this is a mistake or an attack, not a name; it is ignored. */
const MAX_SESSION_CHARS = 512;

const DEFAULT_MAX_DEPTH = 256;

/** What the gateway knows of a well-formed request body. */
export interface ScannedBody {
  readonly ok: true;
  /** Text of `model`; '' when it is absent and was not required. */
  readonly model: string;
  /** True only when `stream` is the literal `true`; what else it may mean is for the CRN to say. */
  readonly stream: boolean;
  /** `session_id`, else `prompt_cache_key`: the first that is a string of 1 to 512 UTF-16 units. */
  readonly session: string | undefined;
  /** Raw values as `[start, end)` byte offsets, indexed by {@link SPAN}; -1 is absent, the last duplicate wins. */
  readonly spans: readonly number[];
  /** `[start, end)` of the first eight elements of `messages` or `input`, flattened; empty when neither is an array. */
  readonly turns: readonly number[];
}

/** A body that answers 422 (docs/interface.md, section 4). */
export interface RejectedBody {
  readonly ok: false;
  readonly errors: readonly ValidationEntry[];
}

export type Scan = ScannedBody | RejectedBody;

export interface ScanOptions {
  /** Deepest nesting of objects and arrays, the body itself being 1. Default 256. */
  readonly maxDepth?: number;
  /** False for llama-style routes of a host, where `model` may be absent or null. Default true. */
  readonly requireModel?: boolean;
}

/** Scans `body` once, to its end. Never throws; cost is linear in the length of the body. */
export function scanBody(body: Buffer, options?: ScanOptions): Scan {
  const maxDepth = options?.maxDepth ?? DEFAULT_MAX_DEPTH;
  const length = body.length;
  if (length === 0) return MISSING_BODY;
  const start = skipSpace(body, 0, length);
  const isObject = body[start] === 0x7b;
  const members = found(REQUEST);
  const end = isObject
    ? scanMembers(body, start, length, REQUEST, members, maxDepth)
    : skipValue(body, start, length, 0, maxDepth);
  if (end < 0) return invalidJson(body, ~end);
  const rest = skipSpace(body, end, length);
  if (rest < length) return invalidJson(body, rest);
  if (!isObject) return body[start] === 0x6e ? MISSING_BODY : NOT_AN_OBJECT;
  return understood(body, members, options?.requireModel ?? true);
}

/** The raw bytes of member `name` (a view of `body`), or undefined when it is absent. */
export function memberSlice(body: Buffer, scan: ScannedBody, name: MemberName): Buffer | undefined {
  const start = scan.spans[SPAN[name]] as number;
  return start < 0 ? undefined : body.subarray(start, scan.spans[SPAN[name] + 1]);
}

/** The value of member `name` when it is a JSON number, else undefined. */
export function memberNumber(body: Buffer, scan: ScannedBody, name: MemberName): number | undefined {
  const start = scan.spans[SPAN[name]] as number;
  if (start < 0) return undefined;
  const value = Number(body.toString('latin1', start, scan.spans[SPAN[name] + 1]));
  const first = body[start] as number;
  return first === 0x2d || (first >= 0x30 && first <= 0x39) ? value : undefined;
}

function understood(body: Buffer, members: Found, requireModel: boolean): Scan {
  const { spans, elements } = members;
  const modelStart = spans[SPAN.model] as number;
  const modelEnd = spans[SPAN.model + 1] as number;
  let model: string | undefined = '';
  if (modelStart >= 0 && body[modelStart] === 0x22) {
    model = readString(body, modelStart, modelEnd);
    if (model === undefined) return invalidJson(body, modelStart);
  } else if (requireModel || (modelStart >= 0 && body[modelStart] !== 0x6e)) {
    return modelStart < 0 ? MISSING_MODEL : MODEL_NOT_TEXT;
  }
  const named = sessionOf(body, spans, SPAN.session_id);
  if (named === undefined) return invalidJson(body, spans[SPAN.session_id] as number);
  const cached = sessionOf(body, spans, SPAN.prompt_cache_key);
  if (cached === undefined) return invalidJson(body, spans[SPAN.prompt_cache_key] as number);
  const streamStart = spans[SPAN.stream] as number;
  const stream = streamStart >= 0 && body[streamStart] === 0x74;
  return { ok: true, model, stream, session: named || cached || undefined, spans, turns: elements };
}

/** The session name in the member at `at`, '' when it holds none, undefined when the string is broken. */
function sessionOf(body: Buffer, spans: readonly number[], at: number): string | undefined {
  const start = spans[at] as number;
  if (start < 0 || body[start] !== 0x22) return '';
  const text = readString(body, start, spans[at + 1] as number);
  return text === undefined || text.length <= MAX_SESSION_CHARS ? text : '';
}

const MISSING_BODY = rejected(['body'], 'Field required', 'missing');
const NOT_AN_OBJECT = rejected(
  ['body'],
  'Input should be a valid dictionary or object to extract fields from',
  'model_attributes_type',
);
const MISSING_MODEL = rejected(['body', 'model'], 'Field required', 'missing');
const MODEL_NOT_TEXT = rejected(['body', 'model'], 'Input should be a valid string', 'string_type');

function invalidJson(body: Buffer, offset: number): RejectedBody {
  return rejected(['body', charsBefore(body, offset)], 'JSON decode error', 'json_invalid');
}

function rejected(loc: (string | number)[], msg: string, type: string): RejectedBody {
  return { ok: false, errors: [{ loc, msg, type }] };
}

/** Clients count characters, not bytes: the code points that start before `offset`. */
function charsBefore(body: Buffer, offset: number): number {
  let chars = 0;
  for (let pos = 0; pos < offset; pos++) {
    if (((body[pos] as number) & 0xc0) !== 0x80) chars++;
  }
  return chars;
}
