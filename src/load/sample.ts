// The measurements of one request, in milliseconds, and their CSV form (RFC 4180).
import type { LoadResponse } from './load-client.ts';

export interface Sample {
  /** Counted from 0 in the order in which conversations began. */
  readonly conversation: number;
  readonly turn: number;
  /** When it should have left, from the start of the run. */
  readonly intendedMs: number;
  /** How much later it left. */
  readonly lateMs: number;
  readonly status: number;
  /** `ok`, or what went wrong. */
  readonly outcome: string;
  /** From its intended send time to its end: the time a user waits. */
  readonly e2eMs: number;
  /** From when it left to its end: what the system took. */
  readonly serviceMs: number;
  /** The next three count from when it should have left; NaN when there was none. */
  readonly headMs: number;
  readonly ttfeMs: number;
  readonly ttftMs: number;
  /** Between one event with output and the next. */
  readonly gapsMs: readonly number[];
  /** Time after the first token, by token; NaN with less than two tokens. */
  readonly tpotMs: number;
  readonly promptTokens: number | undefined;
  readonly cachedTokens: number | undefined;
  /** As the server counted; else the events with output. */
  readonly outputTokens: number;
  readonly bytes: number;
}

/** Which request it was. */
export interface RequestPosition {
  readonly conversation: number;
  readonly turn: number;
  /** On the clock of the answer. */
  readonly intendedMs: number;
  readonly startMs: number;
}

/** Turns an answer into numbers. */
export function sampleOf(answer: LoadResponse, { conversation, turn, intendedMs, startMs }: RequestPosition): Sample {
  const { textMs, sentMs, endedMs } = answer;
  const first = textMs[0] ?? NaN;
  const outputTokens = answer.outputTokens ?? textMs.length;
  return {
    conversation,
    turn,
    intendedMs: intendedMs - startMs,
    lateMs: Math.max(sentMs - intendedMs, 0),
    status: answer.status,
    outcome: answer.outcome,
    e2eMs: endedMs - intendedMs,
    serviceMs: endedMs - sentMs,
    headMs: answer.headMs - intendedMs,
    ttfeMs: answer.firstEventMs - intendedMs,
    ttftMs: first - intendedMs,
    gapsMs: textMs.slice(1).map((atMs, at) => atMs - (textMs[at] as number)),
    tpotMs: outputTokens > 1 && textMs.length > 1 ? ((textMs.at(-1) as number) - first) / (outputTokens - 1) : NaN,
    promptTokens: answer.promptTokens,
    cachedTokens: answer.cachedTokens,
    outputTokens,
    bytes: answer.bytes,
  };
}

type Column = readonly [name: string, value: (sample: Sample) => string | number | undefined];

const COLUMNS: readonly Column[] = [
  ['conversation', ({ conversation }) => conversation],
  ['turn', ({ turn }) => turn],
  ['intended_ms', ({ intendedMs }) => intendedMs],
  ['late_ms', ({ lateMs }) => lateMs],
  ['status', ({ status }) => status],
  ['outcome', ({ outcome }) => outcome],
  ['response_ms', ({ e2eMs }) => e2eMs],
  ['service_ms', ({ serviceMs }) => serviceMs],
  ['head_ms', ({ headMs }) => headMs],
  ['first_event_ms', ({ ttfeMs }) => ttfeMs],
  ['first_text_ms', ({ ttftMs }) => ttftMs],
  ['per_token_ms', ({ tpotMs }) => tpotMs],
  ['longest_gap_ms', ({ gapsMs }) => (gapsMs.length === 0 ? NaN : gapsMs.reduce((a, b) => Math.max(a, b)))],
  ['texts', ({ gapsMs, ttftMs }) => (Number.isNaN(ttftMs) ? 0 : gapsMs.length + 1)],
  ['prompt_tokens', ({ promptTokens }) => promptTokens],
  ['cached_tokens', ({ cachedTokens }) => cachedTokens],
  ['output_tokens', ({ outputTokens }) => outputTokens],
  ['bytes', ({ bytes }) => bytes],
];

/** The first line, with its line end. */
export const CSV_HEAD: string = `${COLUMNS.map(([name]) => name).join(',')}\r\n`;

/** The line of one request, with its line end; what did not happen is empty. */
export function csvLine(sample: Sample): string {
  return `${COLUMNS.map(([, value]) => cell(value(sample))).join(',')}\r\n`;
}

function cell(value: string | number | undefined): string {
  if (value === undefined || Number.isNaN(value)) return '';
  if (typeof value === 'number') return Number.isInteger(value) ? String(value) : value.toFixed(3);
  return /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}
