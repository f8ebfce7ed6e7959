// The log: pino on standard error, one JSON object per line; standard output is for the ready line and for command output.
// It holds nothing that a client sent but request ids, and never a key. Lines about requests: access-log.ts.

import { type DestinationStream, type Logger, pino } from 'pino';
import { writeNow } from './standard-error.ts';

export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'level'>;

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';

/** Where a log is written, one line per call. */
export type LogOutput = DestinationStream;

const STANDARD_ERROR: LogOutput = { write: (line) => void writeNow(line) };

/** What was thrown and where, without its message: that may have words of a query or of a page. */
export function placeOf(error: unknown): string {
  if (!(error instanceof Error)) return `a value of the type ${typeof error}`;
  const { message, name, stack = '' } = error;
  const frames = stack.slice(stack.indexOf(message) + message.length).split('\n');
  return [name, ...frames.map((frame) => frame.trim()).filter((frame) => frame.startsWith('at '))]
    .slice(0, 4)
    .join(' ');
}

/** Makes a log, by default on standard error. */
export function createLog(level: LogLevel, output: LogOutput = STANDARD_ERROR): Log {
  return pino({ level, base: { name: 'headrace' } }, output);
}
