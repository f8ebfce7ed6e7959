// The output limit of a request: what it says, and writing a lower one into its body. Bodies are spliced and never serialised again,
// so that everything but the limit stays as the client wrote it. After the splice every member that a server may take for the limit
// is a whole number up to it.

import type { Dialect, DialectName } from './dialect.ts';
import { type ScannedBody, SPAN } from './body-scan.ts';

/** Text that replaces `[start, end)` of a body. */
export interface BodyEdit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** A member that a server may take for the limit. */
interface Limit {
  readonly name: string;
  /** Index of its span. To look this up by the name takes a tenth of a microsecond. */
  readonly at: number;
}

const MAX_COMPLETION_TOKENS: Limit = { name: 'max_completion_tokens', at: SPAN.max_completion_tokens };
const MAX_TOKENS: Limit = { name: 'max_tokens', at: SPAN.max_tokens };
const MAX_OUTPUT_TOKENS: Limit = { name: 'max_output_tokens', at: SPAN.max_output_tokens };
const N_PREDICT: Limit = { name: 'n_predict', at: SPAN.n_predict };

/** Some server takes each of them for the limit, whatever the dialect: llama-server prefers `n_predict` in all of its own. */
const LIMITS: readonly Limit[] = [MAX_COMPLETION_TOKENS, MAX_TOKENS, MAX_OUTPUT_TOKENS, N_PREDICT];

/** Members that all servers of a dialect obey. The first one is spliced in where the request has none of them. */
const OWN_LIMITS: Readonly<Record<DialectName, readonly Limit[]>> = {
  'chat-completions': [MAX_TOKENS, MAX_COMPLETION_TOKENS],
  completions: [MAX_TOKENS],
  responses: [MAX_OUTPUT_TOKENS],
  messages: [MAX_TOKENS],
  llama: [N_PREDICT],
};

const QUOTE = 0x22;
const OPEN_OBJECT = 0x7b;

/**
 * Most tokens of one answer, as the request says it: the larger one where it says it twice. Undefined when it sets no limit that its
 * servers surely obey: none at all, null, a negative number, no number, or any on a path without a dialect.
 */
export function outputLimitOf(dialect: Dialect | undefined, body: Buffer, { spans }: ScannedBody): number | undefined {
  let limit: number | undefined;
  if (dialect === undefined) return undefined;
  for (const { at } of OWN_LIMITS[dialect.name]) {
    const start = spans[at] as number;
    if (start < 0) continue;
    const value = countAt(body, start, spans[at + 1] as number);
    if (value !== undefined && (limit === undefined || value > limit)) limit = value;
  }
  return limit;
}

/** Tokens of an answer to a completions request that says nothing of a limit (OpenAI API reference, `max_tokens`). */
const COMPLETIONS_DEFAULT = 16;

/** Tokens of an answer that the dialect fixes for a request without any member for a limit; undefined where servers decide. */
export function dialectLimit(dialect: Dialect | undefined, { spans }: ScannedBody): number | undefined {
  const isSilent = dialect?.name === 'completions' && LIMITS.every(({ at }) => (spans[at] as number) < 0);
  return isSilent ? COMPLETIONS_DEFAULT : undefined;
}

/**
 * What has to be changed so that no answer is longer than `limit` tokens; nothing when the request says so already. Without a dialect
 * members that are there are lowered, and none is added.
 */
export function limitEdits(
  dialect: Dialect | undefined,
  body: Buffer,
  scan: ScannedBody,
  limit: number,
): readonly BodyEdit[] {
  const own = dialect === undefined ? LIMITS : OWN_LIMITS[dialect.name];
  const { repeated, spans } = scan;
  const edits: BodyEdit[] = [];
  let isSet = dialect === undefined;
  for (const member of LIMITS) {
    const start = spans[member.at] as number;
    if (start < 0) continue;
    isSet ||= own.includes(member);
    addLowered(body, start, spans[member.at + 1] as number, limit, edits);
  }
  // Of two members of one name a server may read the first or the last.
  for (let at = 0; repeated !== null && at < repeated.length; at += 3) {
    if (!LIMITS.some((member) => member.at === repeated[at])) continue;
    addLowered(body, repeated[at + 1] as number, repeated[at + 2] as number, limit, edits);
  }
  if (isSet) return edits;
  const at = body.indexOf(OPEN_OBJECT) + 1;
  return [{ start: at, end: at, text: `"${(own[0] as Limit).name}":${limit},` }, ...edits];
}

/** The body with these changes, which must not overlap; the same one when there are none. */
export function edited(body: Buffer, edits: readonly BodyEdit[]): Buffer {
  if (edits.length === 0) return body;
  const parts: Buffer[] = [];
  let from = 0;
  for (const { end, start, text } of edits.toSorted((one, other) => one.start - other.start)) {
    parts.push(body.subarray(from, start), Buffer.from(text));
    from = end;
  }
  parts.push(body.subarray(from));
  return Buffer.concat(parts);
}

/** Adds the change that the value at `[start, end)` needs, if any. */
function addLowered(body: Buffer, start: number, end: number, limit: number, edits: BodyEdit[]): void {
  const edit = loweredLimit(body, start, end, limit);
  if (edit !== null) edits.push(edit);
}

/** The change that a limit at `[start, end)` needs to be no more than `limit`; null: none. */
export function loweredLimit(body: Buffer, start: number, end: number, limit: number): BodyEdit | null {
  const value = countAt(body, start, end);
  if (value !== undefined && value <= limit && isDigits(body, start, end)) return null;
  // Servers disagree about texts, fractions and null; of a plain number there is one reading.
  return { start, end, text: String(Math.min(value ?? limit, limit)) };
}

/**
 * The whole number of 0 or more at `[start, end)`, at most 2^53 - 1, so that products with it stay numbers. Servers that accept a text
 * or a fraction read it like this.
 */
export function countAt(body: Buffer, start: number, end: number): number | undefined {
  let count = 0;
  for (let pos = start; pos < end; pos++) {
    const digit = (body[pos] as number) - 0x30;
    if (digit < 0 || digit > 9) return oddCount(body.toString('latin1', start, end));
    count = count * 10 + digit;
  }
  return Math.min(count, Number.MAX_SAFE_INTEGER);
}

function oddCount(text: string): number | undefined {
  const first = text.charCodeAt(0);
  if (first !== QUOTE && first !== 0x2d && (first < 0x30 || first > 0x39)) return undefined;
  const number = first === QUOTE ? text.slice(1, -1).trim() : text;
  const value = number === '' ? NaN : Math.floor(Number(number));
  return value >= 0 ? Math.min(value, Number.MAX_SAFE_INTEGER) : undefined;
}

function isDigits(body: Buffer, start: number, end: number): boolean {
  for (let pos = start; pos < end; pos++) {
    const byte = body[pos] as number;
    if (byte < 0x30 || byte > 0x39) return false;
  }
  return true;
}
