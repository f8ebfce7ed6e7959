// Reads usage objects, which end nearly every answer, in one pass and without building what is not needed of them.

import { skipSpace, skipValue } from './json-scan.ts';

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const NULL = 0x6e;
/** Usage objects are flat but for one level of details. */
const MAX_DEPTH = 8;

const NAMES = [
  'prompt_tokens',
  'completion_tokens',
  'input_tokens',
  'output_tokens',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
  'cached_tokens',
  'prompt_tokens_details',
  'input_tokens_details',
] as const;
const CACHED = NAMES.indexOf('cached_tokens');
/** From here on values are objects. */
const PROMPT_DETAILS = NAMES.indexOf('prompt_tokens_details');
const INPUT_DETAILS = NAMES.indexOf('input_tokens_details');

/** The names of each length: their bytes, and their places in `NAMES`. */
const BY_LENGTH: readonly (readonly { readonly bytes: Buffer; readonly at: number }[])[] = Array.from(
  { length: 1 + Math.max(...NAMES.map(({ length }) => length)) },
  (_, length) =>
    NAMES.map((name, at) => ({ bytes: Buffer.from(name), at })).filter(({ bytes }) => bytes.length === length),
);

// What the last call has read: nothing is allocated for it. Counts by their places in `NAMES`, -1 where there is none.
const counts: number[] = NAMES.map(() => -1);
const nested: number[] = NAMES.map(() => -1);
const promptDetails: { cached_tokens: number | undefined } = { cached_tokens: undefined };
const inputDetails: { cached_tokens: number | undefined } = { cached_tokens: undefined };
const usage: Record<Exclude<(typeof NAMES)[number], 'cached_tokens'>, unknown> = {
  prompt_tokens: undefined,
  completion_tokens: undefined,
  input_tokens: undefined,
  output_tokens: undefined,
  cache_read_input_tokens: undefined,
  cache_creation_input_tokens: undefined,
  prompt_tokens_details: undefined,
  input_tokens_details: undefined,
};

/**
 * The object at `[start, end)`, which must be well-formed JSON: with the members that hold counts, or the whole value where one is
 * written in an unusual way. Valid until the next call.
 */
export function usageObject(bytes: Buffer, start: number, end: number): unknown {
  if (bytes[start] !== OPEN_OBJECT || readObject(bytes, start, end, counts, nested) < 0) {
    return parsedValue(bytes, start, end);
  }
  usage.prompt_tokens = countOf(counts[0]);
  usage.completion_tokens = countOf(counts[1]);
  usage.input_tokens = countOf(counts[2]);
  usage.output_tokens = countOf(counts[3]);
  usage.cache_read_input_tokens = countOf(counts[4]);
  usage.cache_creation_input_tokens = countOf(counts[5]);
  promptDetails.cached_tokens = countOf(counts[PROMPT_DETAILS]);
  inputDetails.cached_tokens = countOf(counts[INPUT_DETAILS]);
  usage.prompt_tokens_details = promptDetails;
  usage.input_tokens_details = inputDetails;
  return usage;
}

function countOf(value: number | undefined): number | undefined {
  return value === -1 ? undefined : value;
}

/**
 * Reads the counts of the object at `start`; of the objects in it the one that details have. Returns the offset behind it; -1 when a
 * count is not written in digits alone, or a name with escapes.
 */
function readObject(bytes: Buffer, start: number, end: number, into: number[], inner: number[] | null): number {
  into.fill(-1);
  let pos = skipSpace(bytes, start + 1, end);
  while (bytes[pos] === QUOTE) {
    const from = pos + 1;
    pos = from;
    while (bytes[pos] !== QUOTE) if (bytes[pos++] === BACKSLASH) return -1;
    const at = placeOf(bytes, from, pos);
    // The colon is between them.
    pos = skipSpace(bytes, skipSpace(bytes, pos + 1, end) + 1, end);
    const first = bytes[pos] as number;
    if (at < 0 || first === NULL) {
      pos = skipValue(bytes, pos, end, 0, MAX_DEPTH);
      if (pos < 0) return -1;
      if (at >= 0) into[at] = -1;
    } else if (at >= PROMPT_DETAILS) {
      if (first !== OPEN_OBJECT || inner === null) return -1;
      pos = readObject(bytes, pos, end, inner, null);
      if (pos < 0) return -1;
      into[at] = inner[CACHED] as number;
    } else {
      let digit = first - 0x30;
      if (digit < 0 || digit > 9) return -1;
      let value = 0;
      while (digit >= 0 && digit <= 9) {
        value = value * 10 + digit;
        digit = (bytes[++pos] as number) - 0x30;
      }
      into[at] = value;
    }
    pos = skipSpace(bytes, pos, end);
    const next = bytes[pos];
    if (next === CLOSE_OBJECT) return pos + 1;
    // Behind digits: a fraction or an exponent.
    if (next !== COMMA) return -1;
    pos = skipSpace(bytes, pos + 1, end);
  }
  return pos + 1;
}

/** Place in `NAMES`; -1 for any other name. */
function placeOf(bytes: Buffer, start: number, end: number): number {
  const names = end - start < BY_LENGTH.length ? BY_LENGTH[end - start] : undefined;
  if (names === undefined) return -1;
  for (const name of names) {
    const { length } = name.bytes;
    let at = 0;
    while (at < length && bytes[start + at] === name.bytes[at]) at++;
    if (at === length) return name.at;
  }
  return -1;
}

/** The JSON value at `[start, end)`; undefined when there is none. */
export function parsedValue(bytes: Buffer, start: number, end: number): unknown {
  try {
    return JSON.parse(bytes.toString('utf8', start, end));
  } catch {
    return undefined;
  }
}
