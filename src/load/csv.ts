// Requests as lines of comma-separated values (RFC 4180), written while the run goes on: nothing is kept for them.

import type { Sample } from './sample.ts';

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
