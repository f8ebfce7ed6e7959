// The log: pino on standard error, one JSON object per line; standard output is for the ready line and for command output.
// It holds nothing that a client sent but request ids, and never a key. Lines about requests: access-log.ts.

import { type DestinationStream, type Logger, pino } from 'pino';
import { writeNow } from './standard-error.ts';

export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'level'>;

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';

/** Where a log is written, one line per call. */
export type LogOutput = DestinationStream;

const STANDARD_ERROR: LogOutput = { write: (line) => writeNow(line) };

/** Makes a log, by default on standard error. */
export function createLog(level: LogLevel, output: LogOutput = STANDARD_ERROR): Log {
  return pino({ level, base: { name: 'headrace' } }, output);
}
