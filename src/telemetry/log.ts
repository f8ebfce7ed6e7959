// The log: pino on standard error, one JSON object a line. Standard output is for the ready line and what people asked
// to see. Nothing that a client sent is logged here but request ids; keys never. Lines about requests: request-log.ts.

import { destination, type DestinationStream, type Logger, pino } from 'pino';

export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'level'>;

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';

/** Where a log is written, a line a call. */
export type LogOutput = DestinationStream;

/** Makes a log. Writing to standard error, the default, is synchronous: the last line before an exit is the one that matters. */
export function createLog(level: LogLevel, output: LogOutput = destination({ fd: 2, sync: true })): Log {
  return pino({ level, base: { name: 'headrace' } }, output);
}
