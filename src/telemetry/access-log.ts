// The access log: one line per finished request, at level info. Each thread has its own. Lines hold names, numbers and
// configured words; never a key, a header, a query or a part of a body but the name of a model that is not known.

import { pino } from 'pino';
import type { Log, LogLevel } from './log.ts';
import { LateLines } from './standard-error.ts';

/** An exchange that is over. Times in milliseconds; empty strings and zeros are left out of its line. */
export interface FinishedRequest {
  readonly requestId: string;
  readonly endpoint: string;
  readonly method: string;
  readonly path: string;
  readonly model: string;
  /** The name by which the client asked for the model, where that is not its id. */
  readonly alias: string;
  readonly errorCode: string;
  /** By which tool or compatible interface a search or a page was asked for; '' by its endpoint, and for all others. */
  readonly tool: string;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly receivedMs: number;
  /** Of a stream; 0 without one. */
  readonly firstPieceMs: number;
  readonly crn: string;
  readonly attempts: number;
  /** Of what the CRN was asked; '' where it was asked as the client wrote it. */
  readonly translation: string;
  /** Time that it waited for a CRN with a short backlog; 0 when it did not. */
  readonly heldMs: number;
  /** Share of the prompt that the CRN was expected to have in its cache; -1: not known. */
  readonly predictedHit: number;
  /** Null where nothing was delivered, or nothing is counted in tokens. */
  readonly tokens: RequestTokens | null;
  readonly aborted: boolean;
  readonly account: string;
  readonly span: { readonly traceId: string } | null;
  /** In pico-USD: what was charged or paid, else what the prices of the model come to. */
  readonly cost: number;
  /** Null where nobody pays. */
  readonly settlement: object | null;
}

/** Tokens of a request, as far as its answer was delivered. */
export interface RequestTokens {
  /** Of the whole prompt, its cached part included. */
  readonly promptTokens: number;
  /** 0 where `saysCached` is false. */
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** Whether the server says how many came from its cache. */
  readonly saysCached: boolean;
  /** False when they are an estimate. */
  readonly measured: boolean;
}

export interface AccessLogOptions {
  readonly level: LogLevel;
  readonly requests: 'errors' | 'all';
  /** Share of requests without an error, 0 to 1. */
  readonly sample: number;
  readonly random: () => number;
  /** Default: standard error. */
  readonly write?: ((line: string) => void) | undefined;
}

/** Paths are chosen by clients; longer ones than any endpoint has are cut. */
const PATH_LENGTH = 200;

/** Longer names of models are cut. */
const NAME_LENGTH = 100;

interface Sink {
  write(line: string): void;
  flush(): void;
}

export class AccessLog {
  readonly #options: AccessLogOptions;
  readonly #log: Log;
  readonly #sink: Sink;

  constructor(options: AccessLogOptions) {
    const { level, write } = options;
    this.#options = options;
    this.#sink = write === undefined ? new LateLines() : { write, flush: () => undefined };
    this.#log = pino({ level, base: { name: 'headrace' } }, this.#sink);
  }

  /** Writes the line of a request, if it is to be logged. `status` is 499 where the client left first. */
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

function lineOf(request: FinishedRequest, status: number, elapsedMs: number): object {
  const { cost, receivedMs, firstPieceMs, settlement, span, tokens } = request;
  return {
    requestId: request.requestId,
    endpoint: request.endpoint,
    method: request.method,
    path: shown(request.path, PATH_LENGTH),
    model: request.model || undefined,
    unknownModel: request.model === '' && request.alias !== '' ? shown(request.alias, NAME_LENGTH) : undefined,
    status,
    code: request.errorCode || undefined,
    tool: request.tool || undefined,
    account: request.account || undefined,
    crn: request.crn || undefined,
    attempts: request.attempts || undefined,
    translation: request.translation || undefined,
    heldMs: request.heldMs > 0 ? tenths(request.heldMs) : undefined,
    predictedHit: request.predictedHit < 0 ? undefined : Math.round(request.predictedHit * 100) / 100,
    inputTokens: tokens?.promptTokens,
    cachedTokens: tokens?.saysCached === true ? tokens.cachedTokens : undefined,
    outputTokens: tokens?.completionTokens,
    estimated: tokens?.measured === false || undefined,
    tokensPerSecond:
      tokens === null
        ? undefined
        : speedOf(tokens.completionTokens, firstPieceMs > 0 ? firstPieceMs - receivedMs : 0, elapsedMs),
    streamed: firstPieceMs > 0,
    aborted: request.aborted,
    durationMs: tenths(elapsedMs),
    firstByteMs: firstPieceMs > 0 ? tenths(firstPieceMs - receivedMs) : undefined,
    bytesIn: request.bytesIn || undefined,
    bytesOut: request.bytesOut || undefined,
    costUsd: settlement === null && cost === 0 ? undefined : usdDecimal(cost),
    traceId: span?.traceId,
  };
}

/**
 * Output tokens a second: of a stream from its first piece on, which has the first of them; of a whole answer over the time of its
 * request. `firstPieceMs`: from the arrival; 0: no stream. Undefined where there is nothing to divide.
 */
export function speedOf(tokens: number, firstPieceMs: number, elapsedMs: number): number | undefined {
  const made = firstPieceMs > 0 ? tokens - 1 : tokens;
  const ms = elapsedMs - firstPieceMs;
  return made > 0 && ms > 0 ? tenths((made * 1000) / ms) : undefined;
}

/** What a client has chosen: cut, without characters that a terminal would obey or not show. */
function shown(text: string, length: number): string {
  return text.slice(0, length).replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, '?');
}

/** Exact USD of pico-USD, as text: JSON numbers are read as doubles. */
export function usdDecimal(pico: number): string {
  const digits = String(Math.ceil(pico)).padStart(13, '0');
  const fraction = digits.slice(-12).replace(/0+$/, '');
  return `${digits.slice(0, -12)}.${fraction.padEnd(2, '0')}`;
}

function tenths(ms: number): number {
  return Math.round(ms * 10) / 10;
}
