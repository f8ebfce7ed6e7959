// Judges a CRN's answer: whether it has begun, why it is no answer, and whether it is complete. An answer has begun with its
// first useful event: text, tool call, reasoning, or a proper end. Pieces are read during the call only, never kept or copied.

import type { Dialect, EventReading, Usage } from './dialect.ts';
import {
  found,
  type Found,
  memberTable,
  promptsIn,
  scanMembers,
  type ScannedBody,
  skipSpace,
  skipValue,
  SPAN,
} from './json-scan.ts';

/** Why a 2xx answer is a failure of the attempt. */
export type AnswerFailure =
  /** 204, no bytes, or a stream without any event. */
  | 'empty answer'
  /** Neither JSON nor an event stream. */
  | 'not an answer'
  /** JSON with `error` and without output. */
  | 'error answer'
  /** The stream reported an error before it had begun. */
  | 'error event'
  /** The stream consists of `[DONE]`. */
  | 'only done'
  /** The stream ended with events, none of them useful. */
  | 'not begun'
  /** The answer ended before it was complete. */
  | 'truncated';

export type AnswerState = 'undecided' | 'begun' | AnswerFailure;

/** What the judge reads of the head of an answer. */
export interface AnswerHead {
  readonly status: number;
  /** In lower case; '' when absent. */
  readonly contentType: string;
  /** Whether a content coding other than `identity` is applied. */
  readonly encoded: boolean;
  /** -1: unknown. */
  readonly contentLength: number;
}

/** A stream of which so much has come without a useful event passes undecided. */
const HELD_STREAM_BYTES = 64 * 1024;

/** A longer whole answer passes as it comes. */
const HELD_ANSWER_BYTES = 256 * 1024;

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const OPEN_OBJECT = 0x7b;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * Answers that a request asks for: its prompts times `n`. `best_of` adds none.
 * @param scan of the body
 */
export function choicesOf(body: Buffer, { spans }: ScannedBody): number {
  const prompt = spans[SPAN.prompt] as number;
  const prompts = prompt < 0 ? 1 : promptsIn(body, prompt, spans[SPAN.prompt + 1] as number);
  let choices = 1;
  for (const at of [SPAN.n, SPAN.n_cmpl]) {
    const start = spans[at] as number;
    if (start < 0) continue;
    const count = Number(body.toString('latin1', start, spans[at + 1]));
    if (Number.isSafeInteger(count)) choices = Math.max(choices, count);
  }
  return prompts * choices;
}

/**
 * The judge of one attempt's answer: `begin` with its head, then `events` or `data` for each piece, then `end`. A failure is
 * final. After `begun`, `finished` and `complete` say how far a stream is.
 */
export class AnswerJudge {
  readonly #dialect: Dialect | undefined;
  readonly #choices: number;
  /** Indexes of the choices that have ended; null while there is one choice, or none has ended. */
  #ended: Set<number> | null = null;
  readonly #reading: EventReading = { begins: false, useful: false, error: false, last: false, ended: [] };
  #state: AnswerState = 'undecided';
  #streams = false;
  #judged = false;
  #isWhole = false;
  #useful = false;
  #finished = false;
  #complete = false;
  #failedLater = false;
  #done = false;
  #bytes = 0;
  #events = 0;
  #opening = 0;
  #inEvent = false;
  #nextSequence = 0;
  #usage: Usage | undefined;

  /** `choices`: see {@link choicesOf}. Without a dialect any event, and any byte of a whole answer, is useful. */
  constructor(dialect: Dialect | undefined, choices: number) {
    this.#dialect = dialect;
    this.#choices = choices;
  }

  /** An answer begins; what was before is forgotten. Answers of 300 and more are not judged: they have begun. */
  begin({ status, contentType, encoded, contentLength }: AnswerHead): AnswerState {
    this.#ended = null;
    this.#state = 'undecided';
    this.#streams = contentType.startsWith('text/event-stream') && !encoded;
    this.#judged = this.#dialect !== undefined && !encoded;
    this.#isWhole = false;
    this.#useful = false;
    this.#finished = false;
    this.#complete = false;
    this.#failedLater = false;
    this.#done = false;
    this.#bytes = 0;
    this.#events = 0;
    this.#opening = 0;
    this.#inEvent = false;
    this.#nextSequence = 0;
    this.#usage = undefined;
    if (status >= 300) {
      this.#judged = false;
      this.#state = 'begun';
    } else if (this.#dialect !== undefined) {
      if (status === 204 || contentLength === 0) this.#state = 'empty answer';
      else if (contentType !== '' && !ANSWER_TYPE.test(contentType)) this.#state = 'not an answer';
    }
    if (contentLength > HELD_ANSWER_BYTES) this.#judged &&= this.#streams;
    return this.#state;
  }

  /** Whether the answer is a readable event stream, whose pieces go to `events`; otherwise they go to `data`. */
  get streams(): boolean {
    return this.#streams;
  }

  /** Whether the answer was held to its end and judged as a whole. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  get state(): AnswerState {
    return this.#state;
  }

  /** Whether a useful event has passed, or bytes of a whole answer that is one. Without it nothing may be charged. */
  get useful(): boolean {
    return this.#useful;
  }

  /** Whether the client has all output: every choice has ended, or the CRN has reported an error. Usage and `[DONE]` may follow. */
  get finished(): boolean {
    return this.#finished;
  }

  /** Whether the last event has passed: the client's answer can be ended at once, whatever the connection does. */
  get complete(): boolean {
    return this.#complete;
  }

  /** Whether a stream that had begun reported an error: no event of the gateway may follow, and the CRN has failed. */
  get reportedError(): boolean {
    return this.#failedLater;
  }

  /** Data events before the first useful one. */
  get openingEvents(): number {
    return this.#opening;
  }

  /** The number of the next event of a numbered stream (responses dialect); 0 in others. */
  get nextSequence(): number {
    return this.#nextSequence;
  }

  /** Tokens in a whole answer that was judged at its end. */
  get usage(): Usage | undefined {
    return this.#usage;
  }

  /**
   * A piece of a stream.
   * @param piece whole events, as EventSplitter gives them
   * @param midEvent whether the piece ends inside an event that is too long to be held
   */
  events(piece: Buffer, midEvent = false): AnswerState {
    if (this.#state !== 'undecided' && this.#state !== 'begun') return this.#state;
    this.#bytes += piece.byteLength;
    this.#walk(piece, midEvent);
    if (this.#dialect?.name === 'responses') this.#number(piece);
    if (this.#state === 'undecided' && this.#bytes > HELD_STREAM_BYTES) this.#state = 'begun';
    return this.#state;
  }

  /** A piece of a whole answer. While it is undecided its owner holds the pieces and gives them to `end`. */
  data(piece: Buffer): AnswerState {
    this.#bytes += piece.byteLength;
    if (this.#state === 'undecided' && this.#bytes > 0 && (!this.#judged || this.#bytes > HELD_ANSWER_BYTES)) {
      this.#state = 'begun';
      this.#useful = true;
    }
    return this.#state;
  }

  /**
   * The answer has ended as HTTP.
   * @param rest of a stream: the bytes of an event that has not ended. Of a whole answer: all of it if it was undecided
   * @param byClose whether its end is the end of the connection, so that it may be cut
   * @returns why it is no answer or not all of it; null when it is good
   */
  end(rest: Buffer, byClose: boolean): AnswerFailure | null {
    if (this.#state !== 'undecided' && this.#state !== 'begun') return this.#state;
    if (this.#dialect === undefined) {
      if (this.#streams && rest.byteLength > 0) this.events(rest);
      return null;
    }
    const failure = this.#streams ? this.#endOfStream(rest) : this.#endOfWhole(rest, byClose);
    if (this.#state === 'undecided') this.#state = failure ?? 'begun';
    return failure;
  }

  #endOfStream(rest: Buffer): AnswerFailure | null {
    // The blank line behind the last event may be missing.
    if (rest.byteLength > 0) this.#walk(Buffer.concat([rest, BLANK_LINE]), false);
    if (this.#state === 'begun') return this.#finished ? null : 'truncated';
    if (this.#state !== 'undecided') return this.#state;
    if (this.#events === 0) return 'empty answer';
    return this.#done && this.#events === 1 ? 'only done' : 'not begun';
  }

  #endOfWhole(body: Buffer, byClose: boolean): AnswerFailure | null {
    if (this.#state === 'begun') {
      this.#finished = true;
      return null;
    }
    if (this.#bytes === 0) return 'empty answer';
    const start = skipSpace(body, startsWithMark(body) ? 3 : 0, body.length);
    const first = body[start];
    if (first !== OPEN_OBJECT && first !== OPEN_ARRAY) return 'not an answer';
    const scan = found(MEMBERS);
    const end =
      first === OPEN_OBJECT
        ? scanMembers(body, start, body.length, MEMBERS, scan, MAX_DEPTH)
        : skipValue(body, start, body.length, 0, MAX_DEPTH);
    if (end < 0) {
      if (byClose || isCut(body, start)) return 'truncated';
    } else if (first === OPEN_OBJECT) {
      if (reportsError(body, scan)) return 'error answer';
      this.#usage = this.#usageOf(body, scan);
    }
    this.#isWhole = true;
    this.#useful = true;
    this.#finished = true;
    return null;
  }

  #usageOf(body: Buffer, { spans }: Found): Usage | undefined {
    const dialect = this.#dialect as Dialect;
    const members: Record<string, unknown> = {};
    for (const name of dialect.usageMembers) {
      const at = 2 * MEMBER_NAMES.indexOf(name);
      const from = spans[at] as number;
      if (from >= 0) members[name] = parsed(body.toString('latin1', from, spans[at + 1]));
    }
    return dialect.usage(members);
  }

  /** Reads the events of a piece, line by line. */
  #walk(piece: Buffer, midEvent: boolean): void {
    let pos = this.#events === 0 && this.#bytes === piece.byteLength && startsWithMark(piece) ? 3 : 0;
    let name = '';
    let data: string | undefined;
    let hasError = false;
    if (this.#inEvent) {
      // The rest of an event that was longer than what is held: nothing but a last event is.
      this.#inEvent = midEvent;
      return;
    }
    while (pos < piece.length) {
      const end = lineEnd(piece, pos);
      if (end === pos) {
        this.#dispatch(name, data, hasError);
        name = '';
        data = undefined;
        hasError = false;
      } else {
        const colon = fieldEnd(piece, pos, end);
        const start = colon + (piece[colon + 1] === SPACE ? 2 : 1);
        const field = piece.toString('latin1', pos, colon);
        const value = start < end ? piece.toString('latin1', start, end) : '';
        if (field === 'data') data = data === undefined ? value : `${data}\n${value}`;
        else if (field === 'event') name = value;
        else if (field === 'error') hasError = true;
      }
      pos = end + (piece[end] === CR && piece[end + 1] === LF ? 2 : 1);
    }
    if (!midEvent) return;
    this.#inEvent = true;
    this.#dispatch(name, data, hasError, true);
  }

  #dispatch(name: string, data: string | undefined, hasError: boolean, cut = false): void {
    if (data === undefined && !hasError) return;
    this.#events++;
    const reading = this.#reading;
    reading.begins = cut;
    reading.useful = cut;
    reading.error = false;
    reading.last = cut && this.#dialect?.hasLongEnd === true;
    reading.ended.length = 0;
    if (this.#dialect === undefined) {
      reading.useful = true;
    } else if (data === undefined) {
      reading.error = true;
    } else if (data.trim() === '[DONE]') {
      this.#done = true;
      reading.last = true;
    } else {
      const value = parsed(data);
      // What is not known must not be held for ever.
      if (typeof value !== 'object' || value === null || Array.isArray(value)) reading.useful = true;
      else this.#dialect.readEvent(name, value as Record<string, unknown>, reading);
    }
    this.#take(reading);
  }

  /** Reads the number of the last event. */
  #number(piece: Buffer): void {
    const at = piece.lastIndexOf(SEQUENCE_NUMBER);
    if (at < 0) return;
    let pos = skipSpace(piece, at + SEQUENCE_NUMBER.length, piece.length);
    if (piece[pos] !== COLON) return;
    pos = skipSpace(piece, pos + 1, piece.length);
    const last = Number.parseInt(piece.toString('latin1', pos, pos + MAX_DIGITS), 10);
    if (last >= 0) this.#nextSequence = last + 1;
  }

  #take({ begins, ended, error, last, useful }: EventReading): void {
    if (this.#state !== 'undecided' && this.#state !== 'begun') return;
    if (error) {
      if (this.#state === 'undecided') this.#state = 'error event';
      else {
        this.#failedLater = true;
        this.#finished = true;
      }
      return;
    }
    if (useful || begins) {
      if (this.#state === 'undecided') this.#state = 'begun';
      if (useful && !this.#useful) {
        this.#useful = true;
        this.#opening = this.#events - 1;
      }
    }
    for (const index of ended) {
      if (this.#choices > 1) (this.#ended ??= new Set()).add(index);
      const all = this.#ended === null || this.#ended.size >= this.#choices;
      const { endsWithChoices } = this.#dialect as Dialect;
      // In a dialect without `[DONE]` a list of prompts is one choice or several, as the engine reads it.
      if (all || endsWithChoices) this.#finished = true;
      if (all && endsWithChoices) this.#complete = true;
    }
    if (!last) return;
    this.#finished = true;
    this.#complete = true;
  }
}

const ANSWER_TYPE = /^(?:text\/event-stream|(?:application|text)\/(?:[^;\s]+\+)?json)\s*(?:;|$)/;

const SEQUENCE_NUMBER = Buffer.from('"sequence_number"');
const MAX_DIGITS = 12;

const BLANK_LINE = Buffer.from('\n\n');

const OUTPUT_NAMES = ['choices', 'content', 'output', 'data', 'embedding', 'results'];
const USAGE_NAMES = ['usage', 'timings', 'tokens_evaluated', 'tokens_predicted', 'tokens_cached'];
const MEMBER_NAMES = ['error', ...OUTPUT_NAMES, ...USAGE_NAMES];
const MEMBERS = memberTable(MEMBER_NAMES);
const MAX_DEPTH = 256;
const EMPTY_VALUE = /^(?:null|""|\[\s*\]|\{\s*\}|false)$/;

function reportsError(body: Buffer, { spans }: Found): boolean {
  if (isEmpty(body, spans, 0)) return false;
  for (let at = 1; at <= OUTPUT_NAMES.length; at++) if (!isEmpty(body, spans, 2 * at)) return false;
  return true;
}

function isEmpty(body: Buffer, spans: readonly number[], at: number): boolean {
  const start = spans[at] as number;
  const end = spans[at + 1] as number;
  return start < 0 || (end - start < 64 && EMPTY_VALUE.test(body.toString('latin1', start, end)));
}

/** Whether the value at `start` ends inside a string, an array or an object. */
function isCut(body: Buffer, start: number): boolean {
  let depth = 0;
  for (let pos = start; pos < body.length; pos++) {
    const byte = body[pos] as number;
    if (byte === QUOTE) {
      for (pos++; pos < body.length && body[pos] !== QUOTE; pos++) if (body[pos] === BACKSLASH) pos++;
      if (pos >= body.length) return true;
    } else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) depth++;
    else if ((byte === OPEN_OBJECT + 2 || byte === OPEN_ARRAY + 2) && --depth === 0) return false;
  }
  return depth > 0;
}

function startsWithMark(bytes: Buffer): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}

function lineEnd(piece: Buffer, from: number): number {
  let pos = from;
  while (pos < piece.length && piece[pos] !== LF && piece[pos] !== CR) pos++;
  return pos;
}

function fieldEnd(piece: Buffer, from: number, end: number): number {
  let pos = from;
  while (pos < end && piece[pos] !== COLON) pos++;
  return pos;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
