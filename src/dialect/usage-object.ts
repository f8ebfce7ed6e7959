// Reads usage objects, which end nearly every answer, without building what is not needed of them.

import { found, memberTable, scanMembers } from './json-scan.ts';

const OPEN_OBJECT = 0x7b;
const NULL = 0x6e;
/** Usage objects are flat but for one level of details. */
const MAX_DEPTH = 8;

const NAMES = [
  'prompt_tokens',
  'completion_tokens',
  'prompt_tokens_details',
  'input_tokens',
  'output_tokens',
  'input_tokens_details',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
] as const;
const MEMBERS = memberTable(NAMES);
const DETAILS = memberTable(['cached_tokens']);
/** What the last scan found. */
const members = found(MEMBERS);
const details = found(DETAILS);

/** The object at `[start, end)` with the members that hold counts, or the whole value where one is written in an unusual way. */
export function usageObject(bytes: Buffer, start: number, end: number): unknown {
  const { spans } = members;
  spans.fill(-1);
  if (bytes[start] !== OPEN_OBJECT || scanMembers(bytes, start, end, MEMBERS, members, MAX_DEPTH) !== end) {
    return parsedValue(bytes, start, end);
  }
  members.repeated = null;
  const usage: Record<(typeof NAMES)[number], unknown> = {
    prompt_tokens: undefined,
    completion_tokens: undefined,
    prompt_tokens_details: undefined,
    input_tokens: undefined,
    output_tokens: undefined,
    input_tokens_details: undefined,
    cache_read_input_tokens: undefined,
    cache_creation_input_tokens: undefined,
  };
  for (let at = 0; at < NAMES.length; at++) {
    const from = spans[2 * at] as number;
    if (from < 0 || bytes[from] === NULL) continue;
    const to = spans[2 * at + 1] as number;
    const value = bytes[from] === OPEN_OBJECT ? detailsAt(bytes, from, to) : digitsAt(bytes, from, to);
    if (value === undefined) return parsedValue(bytes, start, end);
    usage[NAMES[at] as (typeof NAMES)[number]] = value;
  }
  return usage;
}

function detailsAt(bytes: Buffer, start: number, end: number): object | undefined {
  const { spans } = details;
  spans[0] = -1;
  if (scanMembers(bytes, start, end, DETAILS, details, MAX_DEPTH) !== end) return undefined;
  details.repeated = null;
  const from = spans[0] as number;
  if (from < 0) return NO_DETAILS;
  const cached = digitsAt(bytes, from, spans[1] as number);
  return cached === undefined ? undefined : { cached_tokens: cached };
}

const NO_DETAILS = {};

/** The number at `[start, end)`; undefined unless it is written in digits alone. */
function digitsAt(bytes: Buffer, start: number, end: number): number | undefined {
  let value = 0;
  for (let pos = start; pos < end; pos++) {
    const digit = (bytes[pos] as number) - 0x30;
    if (digit < 0 || digit > 9) return undefined;
    value = value * 10 + digit;
  }
  return value;
}

/** The JSON value at `[start, end)`; undefined when there is none. */
export function parsedValue(bytes: Buffer, start: number, end: number): unknown {
  try {
    return JSON.parse(bytes.toString('utf8', start, end));
  } catch {
    return undefined;
  }
}
