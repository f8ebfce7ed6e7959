// The request log: a line a finished request, at level info, beside the log of what the gateway itself does. Every thread
// has its own. Lines hold names, numbers and configured words: no key, no header, no query, nothing of a body.

import { destination, pino } from 'pino';
import type { Log, LogLevel } from './log.ts';

/** What a line is made from: an exchange that is over. Times in milliseconds, empty strings and zeros are left out. */
export interface FinishedRequest {
  readonly requestId: string;
  readonly endpoint: string;
  readonly method: string;
  readonly path: string;
  readonly model: string;
  readonly errorCode: string;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly receivedMs: number;
  /** Of a stream; 0 without one. */
  readonly firstPieceMs: number;
  readonly crn: string;
  readonly attempts: number;
  readonly aborted: boolean;
  readonly account: string;
  readonly span: { readonly traceId: string } | null;
}

export interface RequestLogOptions {
  readonly level: LogLevel;
  readonly requests: 'errors' | 'all';
  /** Share of requests without an error, 0 to 1. */
  readonly sample: number;
  readonly random: () => number;
  /** Default: standard error. */
  readonly write?: ((line: string) => void) | undefined;
}

/** A path is the client's own word; more of it than any endpoint needs is cut. */
const PATH_LENGTH = 200;

/** Pipes take lines of several threads whole up to this size (POSIX, PIPE_BUF). */
const WRITE_BYTES = 4096;

/** Lines that wait for a reader of standard error; past this they are dropped. */
const WAITING_BYTES = 4 * 1024 * 1024;

interface Sink {
  write(line: string): void;
  flush(): void;
}

export class RequestLog {
  readonly #options: RequestLogOptions;
  readonly #log: Log;
  readonly #sink: Sink;

  constructor(options: RequestLogOptions) {
    const { level, write } = options;
    this.#options = options;
    this.#sink = write === undefined ? standardError() : { write, flush: () => undefined };
    this.#log = pino({ level, base: { name: 'headrace' } }, this.#sink);
  }

  /** Writes the line of a request, if it is one of those that are logged. `status` is 499 where the client left first. */
  finished(request: FinishedRequest, status: number, elapsedMs: number): void {
    const { requests, sample, random } = this.#options;
    const failed = status >= 400 || request.errorCode !== '' || request.aborted;
    if (!failed && (requests === 'errors' || (sample < 1 && random() >= sample))) return;
    this.#log.info(lineOf(request, status, elapsedMs), 'request');
  }

  flush(): void {
    this.#sink.flush();
  }

  close(): void {
    this.#sink.flush();
  }
}

/** Written behind the request's back, unlike the gateway's own log: an answer waits for no reader of a log. */
function standardError(): Sink {
  const stream = destination({ fd: 2, sync: false, maxWrite: WRITE_BYTES, maxLength: WAITING_BYTES });
  return {
    write: (line) => stream.write(line),
    flush: () => stream.flushSync(),
  };
}

function lineOf(request: FinishedRequest, status: number, elapsedMs: number): object {
  const { receivedMs, firstPieceMs, span } = request;
  return {
    requestId: request.requestId,
    endpoint: request.endpoint,
    method: request.method,
    path: request.path.slice(0, PATH_LENGTH),
    model: request.model || undefined,
    status,
    code: request.errorCode || undefined,
    account: request.account || undefined,
    crn: request.crn || undefined,
    attempts: request.attempts || undefined,
    streamed: firstPieceMs > 0,
    aborted: request.aborted,
    durationMs: tenths(elapsedMs),
    firstByteMs: firstPieceMs > 0 ? tenths(firstPieceMs - receivedMs) : undefined,
    bytesIn: request.bytesIn || undefined,
    bytesOut: request.bytesOut || undefined,
    traceId: span?.traceId,
  };
}

function tenths(ms: number): number {
  return Math.round(ms * 10) / 10;
}
