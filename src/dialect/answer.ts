// Judges a CRN's answer: whether it has begun, why it is no answer, and whether it is complete. An answer has begun with its
// first useful event: text, tool call, reasoning, or a proper end. Pieces are read during the call only, never kept or copied.

import { parsedJson } from '../net/json-object.ts';
import { type Dialect, type EventReading, type Usage } from './dialect.ts';
import { promptsOf, type ScannedBody, SPAN } from './body-scan.ts';
import { EventMark, found as foundMark } from './event-marks.ts';
import { CHECKED_DEPTH, parsedValue, scanMembers, skipSpace, skipValue } from './json-scan.ts';
import { scannedNumbers } from './json-scan-module.ts';
import { found, type Found, memberTable } from './member-table.ts';
import { NATIVE_TEXTS } from './native.ts';
import { countAt } from './output-limit.ts';
import { TextCounter, textBytes } from './text-counter.ts';

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
const QUOTE = 0x22;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;

/**
 * Answers that a request asks for: its prompts times `n`. `best_of` adds none.
 * @param scan of the body
 */
export function choicesOf(body: Buffer, { spans }: ScannedBody): number {
  const prompts = promptsOf(body, spans);
  let choices = 1;
  for (const at of [SPAN.n, SPAN.n_cmpl]) {
    const start = spans[at] as number;
    if (start < 0) continue;
    choices = Math.max(choices, countAt(body, start, spans[at + 1] as number) ?? 1);
  }
  return prompts * choices;
}

/**
 * The judge of one attempt's answer: `begin` with its head, then `events` or `data` for each piece, then `end`. A failure is
 * final. After `begun`, `finished` and `complete` say how far a stream is.
 */
export class AnswerJudge {
  // What every event of a stream touches comes first: few cache lines.
  /** What the CRN was asked in; undefined without one. */
  readonly dialect: Dialect | undefined;
  /** Answers that were asked for. */
  readonly choices: number;
  /**
   * Whether token counts may stand in the last piece of a stream and in those that follow: its output has ended, or an event has
   * told counts. A field, since it is asked for every piece.
   */
  countsDue = false;
  #state: AnswerState = 'undecided';
  #useful = false;
  #complete = false;
  #bytes = 0;
  #dataEvents = 0;
  #nextSequence = 0;
  /** Of a stream in a dialect that has one, with one choice; null otherwise. */
  #endMark: EventMark | null = null;
  #withoutUsage: Buffer | null = null;
  /** Of a stream whose counts are read; null otherwise. */
  #text: TextCounter | null = null;
  /** The last bytes of an event that is longer than what is held; null outside such an event. */
  #longEvent: Buffer | null = null;
  readonly #counts: boolean;
  readonly #heldBytes: number;
  #streams = false;
  #judged = false;
  #countsRead = false;
  #finished = false;
  #reportedError = false;
  #passEnd = Infinity;
  #errorUnseen = false;
  #onlyDone = false;
  #usage: Usage | undefined;
  #answerText = 0;
  /** Indexes of the choices that have ended; null while there is one choice, or none has ended. */
  #ended: Set<number> | null = null;
  // Offsets in the piece of the next marks of an end and of an error; -1 none is left, -2 not searched. Nothing is searched twice.
  #mark = NOT_SEARCHED;
  #errorMark = NOT_SEARCHED;
  // Fields of the event that is read, as offsets in the piece.
  #nameStart = 0;
  #nameEnd = 0;
  #dataStart = -1;
  #dataEnd = 0;
  /** Data of more than one line. */
  #lines: string | null = null;
  /** The event has a field `error`, with which old engines report errors. */
  #errorField = false;

  /**
   * @param dialect of the request; without one any event, and any byte of a whole answer, is useful
   * @param choices see {@link choicesOf}
   * @param counts whether to read the token counts of a whole answer too, and to count the bytes of generated text. Default false
   * @param heldBytes a longer whole answer has begun before its end
   */
  constructor(dialect: Dialect | undefined, choices: number, counts = false, heldBytes: number = HELD_ANSWER_BYTES) {
    this.#heldBytes = heldBytes;
    this.dialect = dialect;
    this.choices = choices;
    this.#counts = counts;
  }

  /** An answer begins; what was before is forgotten. Answers of 300 and more are not judged: they have begun. */
  begin({ status, contentType, encoded, contentLength }: AnswerHead): AnswerState {
    this.#ended = null;
    this.#state = 'undecided';
    this.#streams = contentType.startsWith('text/event-stream') && !encoded;
    this.#judged = this.dialect !== undefined && !encoded;
    this.#countsRead = false;
    this.#useful = false;
    this.#finished = false;
    this.countsDue = false;
    this.#complete = false;
    this.#reportedError = false;
    this.#passEnd = Infinity;
    this.#errorUnseen = false;
    this.#bytes = 0;
    this.#dataEvents = 0;
    this.#onlyDone = false;
    this.#longEvent = null;
    this.#nextSequence = 0;
    this.#usage = undefined;
    const endMark = this.#streams && this.choices === 1 ? this.dialect?.endMark : null;
    this.#endMark = endMark === null || endMark === undefined ? null : markOf(endMark);
    this.#withoutUsage = null;
    this.#text = this.#counts && this.#streams ? new TextCounter(this.dialect?.deltaTexts ?? NATIVE_TEXTS) : null;
    this.#answerText = 0;
    if (status >= 300) {
      this.#judged = false;
      this.#state = 'begun';
    } else if (this.dialect !== undefined) {
      if (status === 204 || contentLength === 0) this.#state = 'empty answer';
      else if (!isAnswerType(contentType)) this.#state = 'not an answer';
    }
    if (contentLength > this.#heldBytes) this.#judged &&= this.#streams;
    return this.#state;
  }

  /** Whether the answer is a readable event stream, whose pieces go to `events`; otherwise they go to `data`. */
  get streams(): boolean {
    return this.#streams;
  }

  /** Whether `usage` was read, or found absent, in an answer that was held to its end, or in the last event of a stream. */
  get countsRead(): boolean {
    return this.#countsRead;
  }

  get state(): AnswerState {
    return this.#state;
  }

  /** Whether a useful event has passed, or bytes of a whole answer that has output. Without it nothing may be charged. */
  get useful(): boolean {
    return this.#useful;
  }

  /**
   * Whether the client has all output: every choice has ended, or the CRN has reported an error. Usage and `[DONE]` may follow,
   * but a connection that breaks now, or is silent, does no harm.
   */
  get finished(): boolean {
    return this.#finished;
  }

  /** Whether the last event has passed: the client's answer can be ended at once, whatever the connection does. */
  get complete(): boolean {
    return this.#complete;
  }

  /** Whether the stream reported an error: no event of the gateway may follow, and the CRN has failed. */
  get reportedError(): boolean {
    return this.#reportedError;
  }

  /** Whether the error was reported so that clients do not see it: it does not pass, and the gateway has to report one. */
  get errorUnseen(): boolean {
    return this.#errorUnseen;
  }

  /** Where the last piece ends for the client: behind the error that the CRN reports no regular end may pass. */
  get passEnd(): number {
    return this.#passEnd;
  }

  /** Bytes of the answer so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Bytes of generated text, where counts are read: of a stream so far, of a whole answer that was held if it has no counts. All
   * bytes of an answer that could not be read, or of a stream without a dialect in which no text was found.
   */
  get textBytes(): number {
    if (this.#text !== null && this.#text.bytes === 0 && this.dialect === undefined) return this.#bytes;
    return this.#text?.bytes ?? (this.#countsRead ? this.#answerText : this.#bytes);
  }

  /** The number of the next event of a numbered stream (responses dialect); 0 in others. */
  get nextSequence(): number {
    return this.#nextSequence;
  }

  /** Whether this piece of a stream is the last one that was judged and surely has no member `usage`; false where that is not known. */
  hasNoUsage(piece: Buffer): boolean {
    return piece === this.#withoutUsage;
  }

  /** Tokens that were read so. */
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
    const isFirst = this.#bytes === 0;
    this.#bytes += piece.byteLength;
    if (this.#passEnd !== Infinity) this.#passEnd = 0;
    else if (this.#useful && this.#longEvent === null && !midEvent && this.#passesQuietPiece(piece)) return this.#state;
    const start = isFirst && startsWithMark(piece) ? 3 : this.#longEvent === null ? 0 : this.#passLongEvent(piece);
    this.#readEvents(piece, start, midEvent);
    if (this.#state === 'undecided' && this.#bytes > HELD_STREAM_BYTES) this.#state = 'begun';
    return this.#state;
  }

  /** A piece of a whole answer. While it is undecided its owner holds the pieces and gives them to `end`. */
  data(piece: Buffer): AnswerState {
    this.#bytes += piece.byteLength;
    if (this.#state === 'undecided' && this.#bytes > 0 && (!this.#judged || this.#bytes > this.#heldBytes)) {
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
    if (this.dialect === undefined) {
      if (this.#streams && rest.byteLength > 0) this.events(rest);
      return null;
    }
    const failure = this.#streams ? this.#endOfStream(rest) : this.#endOfWhole(rest, byClose);
    if (this.#state === 'undecided') this.#state = failure ?? 'begun';
    return failure;
  }

  #endOfStream(rest: Buffer): AnswerFailure | null {
    // The blank line behind the last event may be missing.
    if (rest.byteLength > 0) this.events(Buffer.concat([rest, BLANK_LINE]));
    if (this.#state === 'begun') return this.#finished ? null : 'truncated';
    if (this.#state !== 'undecided') return this.#state;
    return this.#dataEvents === 0 ? 'empty answer' : 'not begun';
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
    const scan = SCAN;
    for (let at = 0; at < scan.spans.length; at++) scan.spans[at] = -1;
    scan.repeated = null;
    const end =
      first === OPEN_OBJECT
        ? scanMembers(body, start, body.length, MEMBERS, scan, CHECKED_DEPTH)
        : skipValue(body, start, body.length, 0, CHECKED_DEPTH);
    if (end < 0) {
      if (byClose || isCut(body, start)) return 'truncated';
    } else if (first === OPEN_OBJECT) {
      if (!isEmpty(body, scan.spans, 0) && !hasOutput(body, scan)) return 'error answer';
      if (this.#counts) this.#readUsage(body, scan);
    }
    // An array has an answer for each prompt, with counts of its own: they are estimated.
    this.#countsRead = this.#counts && end > 0;
    const { answerTexts } = this.dialect as Dialect;
    if (this.#counts && !(this.#usage !== undefined && this.#usage.completionTokens > 0)) {
      this.#answerText = textBytes(body, answerTexts);
    }
    this.#useful = end < 0 || first === OPEN_ARRAY || hasOutput(body, scan);
    this.#finished = true;
    return null;
  }

  #readUsage(body: Buffer, { spans }: Found): void {
    const dialect = this.dialect as Dialect;
    const start = spans[USAGE_AT] as number;
    if (dialect.name !== 'llama') {
      if (start < 0) return;
      const usage = scannedNumbers(body, start, COUNTS) ?? parsedValue(body, start, spans[USAGE_AT + 1] as number);
      this.#usage = dialect.usage({ usage });
      return;
    }
    const members: Record<string, unknown> = {};
    for (const name of dialect.usageMembers) {
      const at = 2 * MEMBER_NAMES.indexOf(name);
      const from = spans[at] as number;
      if (from >= 0) members[name] = parsedValue(body, from, spans[at + 1] as number);
    }
    this.#usage = dialect.usage(members);
  }

  /** Reads the lines of a piece from `start` on. Line ends are LF, CRLF or CR, in any mixture. */
  #readEvents(piece: Buffer, start: number, midEvent: boolean): void {
    this.#mark = NOT_SEARCHED;
    this.#errorMark = NOT_SEARCHED;
    this.#clearEvent();
    let lf = piece.indexOf(LF, start);
    let cr = piece.indexOf(CR, start);
    let pos = start;
    let eventStart = start;
    while (pos < piece.length) {
      if (lf >= 0 && lf < pos) lf = piece.indexOf(LF, pos);
      if (cr >= 0 && cr < pos) cr = piece.indexOf(CR, pos);
      let end = lf < 0 ? piece.length : lf;
      let next = end + 1;
      if (cr >= 0 && cr < end) {
        end = cr;
        next = lf === cr + 1 ? cr + 2 : cr + 1;
      }
      if (end === pos) {
        if (this.#passEnd === Infinity) this.#endEvent(piece, eventStart, next);
        else this.#endBehindError(piece, next);
        if (this.#complete && this.#reportedError) return;
        this.#clearEvent();
        eventStart = next;
      } else {
        this.#readLine(piece, pos, end);
      }
      pos = next;
    }
    if (midEvent && this.#dataStart >= 0) this.#readLongEvent(piece);
  }

  #readLine(piece: Buffer, start: number, end: number): void {
    const first = piece[start];
    if (first === 0x64 && startsWith(piece, start, end, DATA)) {
      const from = valueStart(piece, start + DATA.length, end);
      if (this.#dataStart >= 0) {
        this.#lines ??= piece.toString('latin1', this.#dataStart, this.#dataEnd);
        this.#lines += `\n${piece.toString('latin1', from, end)}`;
      }
      this.#dataStart = from;
      this.#dataEnd = end;
    } else if (first === 0x65 && startsWith(piece, start, end, EVENT)) {
      this.#nameStart = valueStart(piece, start + EVENT.length, end);
      this.#nameEnd = end;
    } else if (first === 0x65 && startsWith(piece, start, end, ERROR_FIELD)) {
      this.#errorField = true;
    }
  }

  #clearEvent(): void {
    this.#nameStart = 0;
    this.#nameEnd = 0;
    this.#dataStart = -1;
    this.#lines = null;
    this.#errorField = false;
  }

  /** Judges the event at `[start, next)` of `piece`, whose fields were read. */
  #endEvent(piece: Buffer, start: number, next: number): void {
    if (this.#dataStart < 0 && !this.#errorField) return;
    if (this.#text !== null && this.#dataStart >= 0) this.#text.add(piece, this.#dataStart, this.#dataEnd);
    const dialect = this.dialect;
    if (dialect !== undefined && this.#useful && this.#lines === null && this.#isQuiet(dialect, piece)) {
      this.#countQuiet();
      return;
    }
    this.#dataEvents++;
    if (dialect === undefined) {
      this.#takeUseful();
      return;
    }
    const data = this.#lines ?? piece.toString('latin1', this.#dataStart, this.#dataEnd);
    const reading = clearedReading();
    if (this.#dataStart < 0) {
      reading.error = true;
    } else if (data.trim() === '[DONE]') {
      reading.last = true;
      this.#onlyDone = this.#dataEvents === 1;
    } else {
      this.#onlyDone = false;
      const value = parsedJson(data);
      // What is not known must not be held for ever.
      if (typeof value !== 'object' || value === null || Array.isArray(value)) reading.useful = true;
      else this.#readData(dialect, this.#name(piece), value as Record<string, unknown>, reading);
    }
    this.#take(reading);
    if (!this.#reportedError) return;
    this.#errorUnseen = reading.foreign;
    this.#passEnd = reading.foreign ? start : next;
    if (this.#state === 'begun' && dialect.failedEvent === null) this.#complete = true;
  }

  /** An event behind an error is the one that belongs to it, or does not pass. */
  #endBehindError(piece: Buffer, next: number): void {
    if (this.#dataStart < 0 && !this.#errorField) return;
    if (this.#name(piece) === this.dialect?.failedEvent) this.#passEnd = next;
    this.#complete = this.#state === 'begun';
  }

  #readData(dialect: Dialect, name: string, data: Readonly<Record<string, unknown>>, into: EventReading): void {
    const { sequence_number: sequence } = data;
    if (typeof sequence === 'number') this.#nextSequence = sequence + 1;
    dialect.readEvent(name, data, into);
    if (into.usage === undefined || !this.#counts) return;
    this.#countsRead = true;
    this.#usage = dialect.usage({ usage: into.usage });
  }

  #countQuiet(): void {
    this.#dataEvents++;
    // Numbers are consecutive.
    if (this.#nextSequence > 0) this.#nextSequence++;
  }

  /** Counts the usual piece of a stream: one event, on one line, that is surely neither an end nor an error. False for any other. */
  #passesQuietPiece(piece: Buffer): boolean {
    const mark = this.#endMark;
    if (mark === null) return false;
    const end = piece.length - 2;
    if (!startsWithData(piece) || piece[end] !== LF || piece[end + 1] !== LF) return false;
    const start = piece[DATA_LENGTH] === SPACE ? DATA_LENGTH + 1 : DATA_LENGTH;
    if (!opensData(piece, start)) return false;
    if (!mark.search(piece, end)) return false;
    // If the last one is none, but the end of a longer name, or a text, all marks are read.
    const { at } = foundMark;
    const colon = at + mark.name.length;
    const isMember = at > start && piece[at - 1] === QUOTE && piece[at] === mark.name[0];
    if (!isMember || !startsWith(piece, at, colon, mark.name)) return false;
    // Nearly all have null there, without a space.
    if (piece[colon] !== COLON || piece[colon + 1] !== LETTER_N) {
      const value = memberValue(piece, colon, end);
      if (value >= end || !isEmptyValue(piece, value)) return false;
    }
    if (!foundMark.hasUsage) this.#withoutUsage = piece;
    this.#text?.add(piece, start, end);
    this.#countQuiet();
    return true;
  }

  /** Whether the event of a stream that has begun is surely neither an end nor an error. Cheap, for nearly all are. */
  #isQuiet(dialect: Dialect, piece: Buffer): boolean {
    const { endMark } = dialect;
    if (endMark === null) return this.#nameEnd > 0 && dialect.isQuietName(piece, this.#nameStart, this.#nameEnd);
    const start = this.#dataStart;
    const end = this.#dataEnd;
    if (start < 0 || this.#nameEnd > 0 || !opensData(piece, start)) return false;
    let at = this.#mark;
    if (at === NOT_SEARCHED || (at >= 0 && at < start)) at = piece.indexOf(endMark, start);
    if (at < 0 || at >= end) {
      this.#mark = at;
      if (this.#errorMark === NOT_SEARCHED || (this.#errorMark >= 0 && this.#errorMark < start)) {
        this.#errorMark = piece.indexOf(ERROR_MARK, start);
      }
      return this.#errorMark < 0 || this.#errorMark >= end;
    }
    while (at >= 0 && at < end) {
      const value = piece[at - 1] === QUOTE ? memberValue(piece, at + endMark.length, end) : end;
      if (value < end && !isEmptyValue(piece, value)) return false;
      at = piece.indexOf(endMark, at + endMark.length);
      this.#mark = at;
    }
    return true;
  }

  #name(piece: Buffer): string {
    return this.#nameEnd === 0 ? '' : piece.toString('latin1', this.#nameStart, this.#nameEnd);
  }

  /** The first part of an event that is too long to be held: it is output, and may be an end. */
  #readLongEvent(piece: Buffer): void {
    this.#longEvent = lastBytes(piece.subarray(this.#dataStart));
    this.#dataEvents++;
    if (this.#text !== null) this.#text.bytes += piece.byteLength - this.#dataStart;
    if (this.dialect === undefined) {
      this.#takeUseful();
      return;
    }
    const reading = clearedReading();
    const opening = piece.toString('latin1', this.#dataStart, this.#dataStart + CUT_BYTES);
    const type = this.#name(piece) || (LONG_EVENT_TYPE.exec(opening)?.[1] ?? '');
    this.dialect.readEvent(type, {}, reading);
    reading.useful = !reading.error;
    this.#readLongEnd(this.dialect, piece, this.#dataStart, reading);
    this.#take(reading);
  }

  /** Reads on in an event that is too long to be held. Returns where it ends in `piece`. */
  #passLongEvent(piece: Buffer): number {
    const before = this.#longEvent as Buffer;
    const blank = blankLine(piece, before[before.length - 1] as number);
    const end = blank < 0 ? piece.length : blank;
    const joined = Buffer.concat([before, piece.subarray(0, Math.min(end, CUT_BYTES))]);
    this.#longEvent = blank < 0 ? lastBytes(piece.length < CUT_BYTES ? joined : piece) : null;
    if (this.#text !== null) this.#text.bytes += end;
    if (this.dialect === undefined) return end;
    const reading = clearedReading();
    this.#readLongEnd(this.dialect, joined, 0, reading);
    this.#readLongEnd(this.dialect, piece.subarray(0, end), 0, reading);
    this.#take(reading);
    return end;
  }

  #readLongEnd({ endMark }: Dialect, bytes: Buffer, start: number, reading: EventReading): void {
    if (endMark === null) return;
    for (let at = bytes.indexOf(endMark, start); at >= 0; at = bytes.indexOf(endMark, at + endMark.length)) {
      const value = memberValue(bytes, at + endMark.length, bytes.length);
      if (bytes[at - 1] === QUOTE && value + 1 < bytes.length && isEndValue(bytes, value)) reading.ended.push(0);
    }
  }

  #take({ begins, counts, ended, error, last, useful }: EventReading): void {
    if (counts) this.countsDue = true;
    if (this.#state !== 'undecided' && this.#state !== 'begun') return;
    if (error) {
      this.#reportedError = true;
      if (this.#state === 'undecided') this.#state = 'error event';
      else this.#finish();
      return;
    }
    if (useful) this.#takeUseful();
    else if (begins && this.#state === 'undecided') this.#state = 'begun';
    for (const index of ended) {
      if (this.choices > 1) (this.#ended ??= new Set()).add(index);
      const all = this.#ended === null || this.#ended.size >= this.choices;
      const { endsWithChoices } = this.dialect as Dialect;
      // In a dialect without `[DONE]` a list of prompts is one choice or several, as the engine reads it.
      if (all || endsWithChoices) this.#finish();
      if (all && endsWithChoices) this.#complete = true;
    }
    if (!last) return;
    if (this.#state === 'undecided') {
      this.#state = this.#onlyDone ? 'only done' : 'not begun';
      return;
    }
    this.#finish();
    this.#complete = true;
  }

  #finish(): void {
    this.#finished = true;
    this.countsDue = true;
  }

  #takeUseful(): void {
    if (this.#useful) return;
    this.#useful = true;
    this.#state = 'begun';
  }
}

const NOT_SEARCHED = -2;

/** Marks by the names that dialects have. */
const MARKS = new Map<Buffer, EventMark>();

function markOf(name: Buffer): EventMark {
  const known = MARKS.get(name);
  if (known !== undefined) return known;
  const mark = new EventMark(name);
  MARKS.set(name, mark);
  return mark;
}

/** One for all judges: it is read before the next event. */
const READING: EventReading = {
  begins: false,
  useful: false,
  error: false,
  foreign: false,
  last: false,
  counts: false,
  usage: undefined,
  ended: [],
};

function clearedReading(): EventReading {
  READING.begins = false;
  READING.useful = false;
  READING.error = false;
  READING.foreign = false;
  READING.last = false;
  READING.counts = false;
  READING.usage = undefined;
  READING.ended.length = 0;
  return READING;
}

/** Bytes around a cut inside a long event that are read once more. */
const CUT_BYTES = 256;

const DATA = Buffer.from('data:');
const DATA_LENGTH = 5;
const LETTER_N = 0x6e;
const EVENT = Buffer.from('event:');
const ERROR_FIELD = Buffer.from('error:');
const ERROR_MARK = Buffer.from('error"');
const LONG_EVENT_TYPE = /^\s*\{\s*"type"\s*:\s*"([^"]*)"/;

/** JSON or an event stream. Some servers send JSON without a type. */
function isAnswerType(contentType: string): boolean {
  return contentType === 'application/json' || contentType === '' || ANSWER_TYPE.test(contentType);
}

const ANSWER_TYPE = /^(?:text\/event-stream|(?:application|text)\/(?:[^;\s]+\+)?json)\s*(?:;|$)/;

const BLANK_LINE = Buffer.from('\n\n');

const OUTPUT_NAMES = ['choices', 'content', 'output', 'data', 'embedding', 'results'];
const USAGE_NAMES = ['usage', 'timings', 'tokens_evaluated', 'tokens_predicted', 'tokens_cached'];
const MEMBER_NAMES = ['error', ...OUTPUT_NAMES, ...USAGE_NAMES];
const USAGE_AT = 2 * MEMBER_NAMES.indexOf('usage');
const MEMBERS = memberTable(MEMBER_NAMES);
/** One for all judges: it is read before the next answer. */
const SCAN = found(MEMBERS);
/** Members of usage objects that dialects read. */
const COUNTS = memberTable([
  ...['prompt_tokens', 'completion_tokens', 'prompt_tokens_details', 'cached_tokens'],
  ...[
    'input_tokens',
    'output_tokens',
    'input_tokens_details',
    'cache_read_input_tokens',
    'cache_creation_input_tokens',
  ],
]);
const EMPTY_VALUE = /^(?:null|""|\[\s*\]|\{\s*\}|false)$/;

function hasOutput(body: Buffer, { spans }: Found): boolean {
  for (let at = 1; at <= OUTPUT_NAMES.length; at++) if (!isEmpty(body, spans, 2 * at)) return true;
  return false;
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

/** Where the line end of the first blank line is in `piece`, which follows a byte `before`; -1 when it has none. */
function blankLine(piece: Buffer, before: number): number {
  let pos = before === CR && piece[0] === LF ? 1 : 0;
  if ((before === LF || before === CR) && isLineEnd(piece[pos])) return pos;
  let lf = piece.indexOf(LF, pos);
  let cr = piece.indexOf(CR, pos);
  while (lf >= 0 || cr >= 0) {
    const end = cr < 0 || (lf >= 0 && lf < cr) ? lf : cr;
    pos = end === cr && lf === cr + 1 ? end + 2 : end + 1;
    if (isLineEnd(piece[pos])) return pos;
    if (lf >= 0 && lf < pos) lf = piece.indexOf(LF, pos);
    if (cr >= 0 && cr < pos) cr = piece.indexOf(CR, pos);
  }
  return -1;
}

function isLineEnd(byte: number | undefined): boolean {
  return byte === LF || byte === CR;
}

/** A copy: the memory of a piece is not the judge's. */
function lastBytes(bytes: Buffer): Buffer {
  return Buffer.from(bytes.subarray(-CUT_BYTES));
}

function startsWithMark(bytes: Buffer): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}

function startsWith(piece: Buffer, start: number, end: number, field: Buffer): boolean {
  if (end - start < field.length) return false;
  for (let at = 1; at < field.length; at++) if (piece[start + at] !== field[at]) return false;
  return true;
}

/** The same for the field `data` at the start, without a loop: it is asked for every piece of a stream. */
function startsWithData(piece: Buffer): boolean {
  return piece[0] === 0x64 && piece[1] === 0x61 && piece[2] === 0x74 && piece[3] === 0x61 && piece[4] === COLON;
}

/** Whether data is an object. Anything else may be `[DONE]`, or begin with `error`. */
function opensData(piece: Buffer, start: number): boolean {
  return piece[start] === OPEN_OBJECT && piece[start + 1] === QUOTE && piece[start + 2] !== 0x65;
}

/** One space behind the colon belongs to the field. */
function valueStart(piece: Buffer, start: number, end: number): number {
  return start < end && piece[start] === SPACE ? start + 1 : start;
}

/** Where the value begins of a member whose name ends before `start`; `end` when it has none. */
function memberValue(bytes: Buffer, start: number, end: number): number {
  const colon = skipSpace(bytes, start, end);
  return bytes[colon] === COLON ? skipSpace(bytes, colon + 1, end) : end;
}

/** Whether the value at `at` is null, false or an empty text. */
function isEmptyValue(bytes: Buffer, at: number): boolean {
  const first = bytes[at];
  return first === 0x6e || first === 0x66 || (first === QUOTE && bytes[at + 1] === QUOTE);
}

/** Whether the value at `at` is true or a text that is not empty. */
function isEndValue(bytes: Buffer, at: number): boolean {
  return bytes[at] === QUOTE ? bytes[at + 1] !== QUOTE : bytes[at] === 0x74;
}
