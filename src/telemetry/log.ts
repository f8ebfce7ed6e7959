// The log: pino on standard error, one JSON object per line; standard output is for the ready line and for command output.
// It holds nothing that a client sent but request ids, and never a key. Lines about requests: request-log.ts.

import { destination, type DestinationStream, type Logger, pino } from 'pino';

export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'level'>;

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';

/** Where a log is written, one line per call. */
export type LogOutput = DestinationStream;

/** Makes a log. Writing to standard error, the default, is synchronous, so that the last line before an exit is not lost. */
export function createLog(level: LogLevel, output: LogOutput = destination({ fd: 2, sync: true })): Log {
  return pino({ level, base: { name: 'headrace' } }, output);
}
