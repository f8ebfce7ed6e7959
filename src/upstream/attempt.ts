// One attempt of a request on one CRN: its connection, its deadlines, what is held of its answer until the answer has begun, and
// exactly one outcome. The CRN's place on the board returns when its answer is whole or the attempt has its outcome, exactly once.

import type { Clock } from '../actor/index.ts';
import { type AnswerFailure, AnswerJudge, type AnswerState } from '../dialect/index.ts';
import type { ErrorCode } from '../errors.ts';
import type { Connection, DispatchError, DispatchFault, DispatchHandler, DispatchOptions } from '../net/client.ts';
import type { Deadline, DeadlineQueue, Expirable } from '../net/deadline.ts';
import { EventSplitter, isWholeButItsEnd } from '../net/sse.ts';
import {
  attemptReason,
  type Board,
  bodyTurns,
  type Candidate,
  classifyBody,
  classifyStatus,
  type Failure,
  failureOf,
  type Handling,
  mayBePath,
  type Member,
  pathUnknown,
  TURN_BYTES,
  type Verdict,
  verdictOf,
} from '../routing/index.ts';
import { linesFor, responseHead, type ResponseHead } from './headers.ts';
import type { RunningAttempts } from './running-attempts.ts';
import { MAX_TRANSLATED_BYTES, type RequestForm } from './request-form.ts';
import type { UpstreamRequest } from './failover.ts';

export interface AttemptTimeouts {
  /** Until the connection is open. */
  readonly connectMs: number;
  /** From the request sent to the head of the answer. */
  readonly headersMs: number;
  /** From the request sent to the first useful event of a stream, or to the first byte of a whole answer; null: as `headersMs`. */
  readonly firstByteMs: number | null;
  /** Between two pieces of the body. */
  readonly idleMs: number;
}

/** A connection as an attempt uses it: see `Connection`. */
export type AttemptConnection = Pick<Connection, 'abort' | 'isSent' | 'pause' | 'resume' | 'sentMs'>;

/** A pool as an attempt uses it: see `ConnectionPool`. */
export interface AttemptPool {
  dispatch(options: DispatchOptions, handler: DispatchHandler, fresh?: boolean): AttemptConnection | null;
}

/** What all attempts of a thread share. */
export interface AttemptDeps {
  readonly board: Board;
  readonly clock: Clock;
  readonly deadlines: DeadlineQueue;
  readonly timeouts: AttemptTimeouts;
  /** Most bytes of an unfinished event that are held. */
  readonly heldEventBytes: number;
  readonly pool: (member: Member) => AttemptPool;
  readonly running: RunningAttempts;
}

/** Hears of an attempt. An attempt that is cancelled says nothing more. */
export interface AttemptOwner {
  /** The head of a good event stream is here; its first useful event may be far. */
  onStreamHead(attempt: Attempt): void;
  /** The answer has begun, or is whole. The owner calls `take` once it may go to the client. */
  onBegun(attempt: Attempt): void;
  /** A piece of the answer, after `take`: whole events of a stream, unless `midEvent`. To be copied if it is kept. */
  onPiece(attempt: Attempt, piece: Buffer, nowMs: number): void;
  /** The answer is whole, with this last piece, to be copied if it is kept; the owner calls `succeed`. After `take`. */
  onEnd(attempt: Attempt, last: Buffer | null): void;
  /** The attempt has failed, or another CRN may do better. Its outcome has been told. */
  onFailed(attempt: Attempt): void;
  /** An error was thrown that should not have been, by the attempt or by its owner: the request cannot go on. */
  onDefect(cause: unknown): void;
}

/** A CRN's own refusal, which passes on when no other CRN does better. */
export interface Refusal {
  readonly head: ResponseHead;
  /** Null when it was too long or too late to be kept. */
  readonly body: Buffer | null;
  /** To which it is the answer. */
  readonly form: RequestForm;
}

/**
 * `connect`: no connection yet. `head`: the request is sent. `refusal`: the body decides what the status means. `judged`: the answer
 * has not begun. `held`: it has, and waits for `take`. `passing`: it goes to the client. `rest`: nothing of it is wanted, and a short
 * rest is read to keep the connection. `closed`: there is no connection any more.
 */
type Phase = 'connect' | 'head' | 'refusal' | 'judged' | 'held' | 'passing' | 'rest' | 'closed';

/** Most bytes of a refusal that are read to decide about it. */
const REFUSAL_BYTES = 64 * 1024;
/** Longest time that the body of a refusal may take, in milliseconds. */
const REFUSAL_MS = 1000;

/** Bytes after which the CRN of an answer that may not pass yet is asked to wait; what its connection has read by then comes on top. */
const HELD_BYTES = 64 * 1024;

/** The rest of an unwanted answer is read within these bounds, to keep the connection; past them a new one is cheaper. */
const DISCARD_BYTES = 64 * 1024;
const DISCARD_MS = 1000;

/** Faults that say nothing about the health of a CRN. */
const BLAMELESS: ReadonlySet<DispatchFault> = new Set(['unsendable', 'no connection free', 'stale', 'internal']);

const LF = 0x0a;
const BLANK_LINE = Buffer.from('\n\n');
const NO_BYTES = Buffer.alloc(0);

export class Attempt implements Candidate, DispatchOptions, DispatchHandler, Expirable {
  // What every piece of a stream touches comes first: few cache lines.
  /** In milliseconds, 0 before: when the CRN was last heard, when the answer began. */
  heardMs = 0;
  begunMs = 0;
  /** Bytes of the body of the answer so far. */
  bytes = 0;
  /** Bytes of it may have reached the client. */
  passed = false;
  #phase: Phase = 'connect';
  #splitter: EventSplitter | null = null;
  /** The last byte of a stream ended a line. */
  #lineEnded = false;
  readonly judge: AnswerJudge;
  readonly #owner: AttemptOwner;

  /** @internal Index in the set of running attempts. */
  slot = -1;
  readonly member: Member;
  readonly epoch: number;
  /** Whether this is the trial of an ejected CRN. A request that is sent again on a fresh connection takes the trial along. */
  trial: boolean;
  readonly matched: number;
  readonly enteredAt: number;
  readonly aged: number;
  readonly charged: number;
  readonly work: number;
  /** Counts the attempts of a request, from 1. */
  readonly number: number;
  /** Another attempt of the request was under way when this one was made. */
  readonly isHedge: boolean;
  /** What is sent. */
  readonly form: RequestForm;

  readonly method = 'POST';
  readonly path: string;
  readonly lines: string;
  readonly headers: readonly string[];

  /** When the CRN was chosen, by what was known of it, in milliseconds. */
  readonly #chosenMs: number;
  /** When the request left, in milliseconds; 0 before. */
  sentMs = 0;
  /** Of the answer; null before it came. */
  head: ResponseHead | null = null;
  /** The answer is whole and good. */
  whole = false;
  /** Of a refusal that another CRN may better. */
  refusal: Refusal | null = null;
  /** The outcome; the verdict is null before. */
  verdict: Verdict | null = null;
  failure: Failure | null = null;
  /** What a client is told whose answer breaks off here. */
  brokenCode: ErrorCode = 'HR_STREAM_BROKEN';

  readonly #deps: AttemptDeps;
  readonly #request: UpstreamRequest;
  /** Why the connection failed. */
  #cause: unknown = null;
  readonly #deadline: Deadline;
  #connection: AttemptConnection | null = null;
  /** Copies, but for the last one while `#borrows`. */
  readonly #held: Buffer[] = [];
  /** The last held piece is in memory that the connection uses again when it has called. */
  #borrows = false;
  /** Bytes read since the phase `rest` began. */
  #restBytes = 0;
  #paused = false;
  #left = false;
  /** The prefill is charged no more. */
  #prefilled = false;

  /**
   * `choice` has been counted on the board and charged with its prefill: the attempt gives both back. `number` counts from 1. `isHedge`: another attempt of the
   * request is under way.
   */
  constructor(
    deps: AttemptDeps,
    owner: AttemptOwner,
    request: UpstreamRequest,
    form: RequestForm,
    choice: Candidate,
    number: number,
    isHedge: boolean,
  ) {
    const { member } = choice;
    this.#deps = deps;
    this.#owner = owner;
    this.#request = request;
    this.#chosenMs = deps.clock.now();
    this.member = member;
    this.epoch = choice.epoch;
    this.trial = choice.trial;
    this.matched = choice.matched;
    this.enteredAt = choice.enteredAt;
    this.aged = choice.aged;
    this.charged = choice.charged;
    this.work = choice.work;
    this.number = number;
    this.isHedge = isHedge;
    this.form = form;
    this.path = pathOf(member.url) + form.path;
    this.lines = linesFor(form.lines, member.apiKey);
    const { choices, dialect, translator } = form;
    if (translator !== null) translator.unsent++;
    const heldBytes = translator === null ? undefined : MAX_TRANSLATED_BYTES;
    this.judge = new AnswerJudge(dialect, choices, request.usage !== null, heldBytes);
    this.#deadline = deps.deadlines.deadline(this);
    this.headers = request.listener.onAttempt(this);
  }

  get body(): Buffer {
    return this.form.body;
  }

  get room(): number {
    return this.form.room ?? 0;
  }

  /** Sends the request; may fail before it returns. `fresh`: on a connection that has served nothing. */
  start(connectMs: number, fresh: boolean): void {
    this.#deps.running.add(this);
    this.#connection = this.#deps.pool(this.member).dispatch(this, this, fresh);
    if (this.#phase === 'connect') this.#deadline.set(connectMs);
  }

  /** Passes on what is held, and the rest as it comes. */
  take(): void {
    const held = this.#held;
    const last = this.whole ? (held.pop() ?? null) : null;
    this.passed = true;
    if (!this.whole) this.#phase = 'passing';
    if (held.length > 0) {
      const nowMs = this.#deps.clock.now();
      for (const piece of held) this.#owner.onPiece(this, piece, nowMs);
      held.length = 0;
    }
    if (this.whole) this.#owner.onEnd(this, last);
  }

  /** The whole answer has been counted and is about to be handed over. */
  succeed(): void {
    const { status } = this.head as ResponseHead;
    if (this.judge.reportedError) this.#settle('failed', 'error event');
    else this.#settle(verdictOf(status), null);
    const { dialect } = this.form;
    if (status < 300 && dialect !== undefined) this.#deps.board.noteSpoken(this.member.server, dialect.bit);
  }

  /** The whole answer turns out to be none in the dialect that was asked for. */
  reject(): void {
    this.#fail('failed', 'not an answer');
  }

  /** Ends the attempt without blame; its owner hears nothing more. A whole answer was served well all the same. */
  cancel(failure: 'client gone' | 'hedged' | null): void {
    if (this.verdict !== null) return;
    if (this.whole) {
      this.succeed();
      return;
    }
    this.#close();
    this.#settle('neutral', failure);
  }

  /** Asks the CRN to wait; its silence does not count meanwhile. No effect before the request is sent. */
  pause(): void {
    if (this.#paused || this.#phase === 'connect' || this.#phase === 'rest' || this.#phase === 'closed') return;
    this.#paused = true;
    this.#deadline.clear();
    this.#connection?.pause(this);
  }

  resume(): void {
    if (!this.#paused || this.#phase === 'rest' || this.#phase === 'closed') return;
    this.#paused = false;
    this.heardMs = this.#deps.clock.now();
    this.#deadline.set(this.#deps.timeouts.idleMs);
    this.#connection?.resume(this);
  }

  /** The CRN has been silent since `sinceMs`, and answers no probe any more. */
  lost(sinceMs: number): void {
    // A CRN that was asked to wait cannot be heard, and one without a connection has a shorter deadline.
    if (this.#paused || this.#phase === 'connect' || this.verdict !== null || this.heardMs >= sinceMs) return;
    const phase = this.#phase;
    this.#close();
    if (this.#hasAll) this.#finish(phase);
    else this.#fail('failed', 'unreachable');
  }

  /** All output of a stream has come, in whole events: what is missing is usage or `[DONE]`. */
  get #hasAll(): boolean {
    return this.#splitter?.midEvent === false && this.judge.finished;
  }

  /** Why it failed or was refused, in plain words; null where that says nothing about the CRN. */
  get reason(): string | null {
    const { failure, head, path } = this;
    return attemptReason({
      failure,
      path,
      status: head?.status ?? 0,
      cause: this.#cause,
      timeouts: this.#deps.timeouts,
    });
  }

  /** The first pieces of the answer, until `take`. */
  get held(): readonly Buffer[] {
    return this.#held;
  }

  /** Whether what has passed ends inside an event, so that no other event may follow it. Of a translated stream only whole events pass. */
  get midEvent(): boolean {
    return this.passed && this.form.translator === null && (this.#splitter?.midEvent ?? true);
  }

  /** @internal */
  expire(): void {
    switch (this.#phase) {
      case 'connect':
        this.#close();
        this.#fail('failed', 'connect timeout');
        break;
      case 'refusal':
        this.#undecided();
        break;
      case 'rest':
        this.#close();
        break;
      default:
        this.#late();
    }
  }

  /** @internal */
  onRequestSent(connection: AttemptConnection): void {
    this.#connection = connection;
    this.#phase = 'head';
    const { translator } = this.form;
    const isFirst = this.sentMs === 0;
    if (translator !== null && isFirst && connection.isSent && --translator.unsent === 0) translator.request.giveBack();
    this.sentMs = connection.sentMs;
    this.heardMs = this.sentMs;
    const { headersMs, firstByteMs } = this.#deps.timeouts;
    this.#deadline.set(firstByteMs === null ? headersMs : Math.min(headersMs, firstByteMs), this.sentMs);
  }

  /** @internal */
  onResponseStart(status: number, fields: readonly string[]): void {
    const head = responseHead(status, fields);
    this.head = head;
    switch (this.#handlingOf(status)) {
      case 'next-failed':
        this.#discard();
        this.#fail(this.#isOfPath(status) ? 'neutral' : 'failed', failureOf(status));
        return;
      case 'next-neutral':
      case 'read':
        this.#phase = 'refusal';
        this.#deadline.set(REFUSAL_MS);
        return;
      case 'pass':
        this.#judgeHead(head);
    }
  }

  /** @internal */
  onResponseData(piece: Buffer, nowMs: number): void {
    if (this.#phase === 'rest') {
      this.#restBytes += piece.byteLength;
      if (this.#restBytes > DISCARD_BYTES) this.#close();
      return;
    }
    this.bytes += piece.byteLength;
    this.heardMs = nowMs;
    if (this.#phase === 'refusal') {
      this.#held.push(Buffer.from(piece));
      if (this.bytes > REFUSAL_BYTES) this.#undecided();
    } else if (this.#splitter !== null) {
      const whole = this.#splitter.push(piece);
      if (this.#splitter.midEvent && this.form.translator !== null) {
        this.#failUntranslated();
        return;
      }
      this.#lineEnded = piece[piece.byteLength - 1] === LF;
      if (whole !== undefined) this.#events(whole, this.judge.events(whole, this.#splitter.midEvent));
      else if (this.begunMs === 0) this.#waitOn('undecided');
    } else {
      this.#data(piece);
    }
  }

  /** @internal */
  onResponseEnd(): void {
    const phase = this.#phase;
    this.#connection = null;
    this.#deadline.clear();
    this.#phase = 'closed';
    if (phase === 'rest') return;
    this.#leave();
    if (phase === 'refusal') this.#decide();
    else if (this.#splitter !== null) this.#endOfStream(phase, this.#splitter);
    else if (this.form.translator !== null && this.bytes >= TURN_BYTES) this.#waitForTurn(phase);
    else this.#endOfWhole(phase, this.head as ResponseHead);
  }

  /** @internal */
  onResponseError({ cause, fault }: DispatchError): void {
    const phase = this.#phase;
    this.#connection = null;
    this.#cause = cause;
    this.#deadline.clear();
    this.#phase = 'closed';
    if (fault === 'internal') this.onDefect(cause);
    else if (phase === 'rest') return;
    else if (this.#hasAll) this.#finish(phase);
    else this.#fail(BLAMELESS.has(fault) ? 'neutral' : 'failed', fault);
  }

  /** @internal What was thrown costs this request, and nothing else. */
  onDefect(cause: unknown): void {
    this.#close();
    this.#settle('neutral', 'internal');
    this.#owner.onDefect(cause);
  }

  #judgeHead(head: ResponseHead): void {
    this.#phase = 'judged';
    const state = this.judge.begin(head);
    if (state !== 'undecided' && state !== 'begun') {
      this.#discard();
      this.#fail('failed', state);
      return;
    }
    const { firstByteMs, headersMs } = this.#deps.timeouts;
    // The deadline set when the request left goes on, unless it was the shorter one. Whole milliseconds: few lists.
    if (firstByteMs !== null && firstByteMs > headersMs) this.#deadline.set(Math.ceil(this.#restMs(firstByteMs)));
    if (!this.judge.streams || head.status >= 300) return;
    this.#splitter = new EventSplitter({ maxHeldBytes: this.#deps.heldEventBytes });
    this.#owner.onStreamHead(this);
  }

  /** Whole events of a stream, which the judge has read. */
  #events(whole: Buffer, state: AnswerState): void {
    const phase = this.#phase;
    const { complete, passEnd } = this.judge;
    const isCut = passEnd < whole.byteLength;
    const piece = isCut ? whole.subarray(0, passEnd) : whole;
    const isOver = complete || (phase === 'passing' && state === 'error event');
    if (isOver && (isCut || this.#splitter?.midEvent === false)) {
      // Nothing follows, whatever the connection does.
      if (piece.byteLength > 0) this.#borrow(piece);
      this.#discard();
      this.#finish(phase);
    } else if (state === 'only done' || state === 'not begun') {
      // Behind a comment of the gateway it would look like a good end.
      this.brokenCode = 'HR_STREAM_TRUNCATED';
      this.#discard();
      this.#fail('failed', state);
    } else if (phase === 'passing') {
      if (piece.byteLength === 0) return;
      if (this.begunMs === 0) this.#waitOn(state);
      this.#owner.onPiece(this, piece, this.heardMs);
    } else if (phase === 'held') {
      this.#hold(piece);
    } else if (state === 'begun') {
      this.#borrow(piece);
      this.#begin();
    } else if (state === 'undecided') {
      this.#held.push(Buffer.from(piece));
      this.#waitOn(state);
    } else {
      this.#discard();
      this.#fail('failed', state);
    }
  }

  /** A piece of a whole answer. */
  #data(piece: Buffer): void {
    const state = this.judge.data(piece);
    // The last byte is told with the end, which follows at once.
    const isLast = this.bytes === this.head?.contentLength;
    if (this.#phase === 'passing' && !isLast) {
      this.#owner.onPiece(this, piece, this.heardMs);
      return;
    }
    if (this.#phase === 'held' && !isLast) {
      this.#hold(piece);
      return;
    }
    if (state === 'begun' && this.form.translator !== null) {
      this.#failUntranslated();
      return;
    }
    this.#borrow(piece);
    if (isLast) return;
    if (state === 'begun') {
      this.#begin();
    } else {
      this.#own();
      this.#deadline.set(this.#deps.timeouts.idleMs);
    }
  }

  /** The answer has begun: from now on only its silence is limited. */
  #begin(): void {
    this.#phase = 'held';
    this.#noteBegun(this.heardMs);
    this.#deadline.set(this.#deps.timeouts.idleMs);
    this.#owner.onBegun(this);
    this.#own();
    this.#limitHeld();
  }

  #hold(piece: Buffer): void {
    this.#held.push(Buffer.from(piece));
    this.#limitHeld();
  }

  /** Holds a piece that most likely leaves before the connection uses its memory again. `#own` copies it if it does not. */
  #borrow(piece: Buffer): void {
    this.#held.push(piece);
    this.#borrows = true;
  }

  #own(): void {
    if (!this.#borrows) return;
    this.#borrows = false;
    const last = this.#held.pop();
    if (last !== undefined) this.#held.push(Buffer.from(last));
  }

  /** An answer that has begun and may not pass yet: the CRN works on, and waits once so much is held. */
  #limitHeld(): void {
    if (this.#phase === 'held' && this.bytes >= HELD_BYTES) this.pause();
  }

  #endOfStream(phase: Phase, splitter: EventSplitter): void {
    const isCut = splitter.midEvent && !this.#lineEnded;
    const rest = splitter.take();
    const { dialect, translator } = this.form;
    // Behind a good end, too, a client gets whole events only: some parse each line as it comes.
    const isPassed = dialect === undefined ? rest.byteLength > 0 : isWholeButItsEnd(rest);
    if (isPassed) this.#held.push(translator === null ? rest : Buffer.concat([rest, BLANK_LINE]));
    const failure = this.judge.end(rest, false);
    // The type of a last event that was too long to be held came with its first part.
    this.#endOfAnswer(phase, isCut && dialect !== undefined ? 'truncated' : failure);
  }

  /** A large answer has come that will be translated. */
  #waitForTurn(phase: Phase): void {
    this.#own();
    bodyTurns.add(this.#request.account, this.bytes, () => {
      if (this.verdict !== null) return;
      try {
        this.#endOfWhole(phase, this.head as ResponseHead);
      } catch (cause) {
        this.onDefect(cause);
      }
    });
  }

  #endOfWhole(phase: Phase, { byClose, status }: ResponseHead): void {
    const held = this.#held;
    if (status >= 300 || this.judge.state !== 'undecided') {
      // The counts of a long answer are believed once its end has come.
      if (status < 300) this.judge.end(NO_BYTES, byClose);
      this.#finish(phase);
      return;
    }
    if (held.length > 1) held.splice(0, held.length, Buffer.concat(held));
    this.#endOfAnswer(phase, this.judge.end(held[0] ?? NO_BYTES, byClose));
  }

  /** The body has ended as HTTP. */
  #endOfAnswer(phase: Phase, failure: AnswerFailure | null): void {
    const isTold = this.judge.reportedError && (phase === 'passing' || phase === 'held');
    if (failure === null || isTold) {
      this.#finish(phase);
    } else {
      this.brokenCode = 'HR_STREAM_TRUNCATED';
      this.#fail('failed', failure);
    }
  }

  /** The answer is whole; its last piece is held. One that is no stream leaves in one piece unless it passes already. */
  #finish(phase: Phase): void {
    const held = this.#held;
    this.whole = true;
    this.#leave();
    if (this.#splitter === null && held.length > 1) held.splice(0, held.length, Buffer.concat(held));
    if (phase === 'passing') {
      this.#owner.onEnd(this, held.pop() ?? null);
    } else if (phase !== 'held') {
      this.#noteBegun(this.#splitter === null && this.bytes > 0 ? this.heardMs : this.#deps.clock.now());
      this.#owner.onBegun(this);
    }
    this.#own();
  }

  /** What is done with an answer by its status. An error is translated whole, and an unknown path is told by the body. */
  #handlingOf(status: number): Handling {
    const handling = classifyStatus(status, this.member.apiKey !== undefined, this.#request.keyChecked);
    const isRead = status >= 300 && (this.form.translator !== null || this.#mayLack(status));
    return handling === 'pass' && isRead ? 'read' : handling;
  }

  /** A redirect of a path that its client has chosen, such as one with a slash at the end, says nothing about the CRN. */
  #isOfPath(status: number): boolean {
    return this.form.dialect === undefined && status < 400;
  }

  /** Whether the CRN may be saying that it lacks the dialect, which was not known when it was chosen: connecting takes its time. */
  #mayLack(status: number): boolean {
    const { dialect, unknownPath } = this.form;
    if (!mayBePath(status) || unknownPath === 'passed' || dialect === undefined || this.member.dialects !== 0)
      return false;
    const { board, clock } = this.#deps;
    const sinceMs = board.lackedSinceMs(this.member.server, dialect.bit, clock.now());
    return sinceMs === 0 || sinceMs >= this.#chosenMs;
  }

  /** A refusal has come whole. */
  #decide(): void {
    const { form } = this;
    const head = this.head as ResponseHead;
    const body = Buffer.concat(this.#held);
    const { status } = head;
    const isLack = this.#mayLack(status) && pathUnknown(status, body);
    if (!isLack && this.#handlingOf(status) === 'read' && classifyBody(status, body) === 'pass') {
      this.#held.splice(0, this.#held.length, body);
      this.#finish('refusal');
      return;
    }
    this.refusal = { head, body, form };
    if (isLack) this.#noteLack();
    this.#fail('neutral', isLack ? 'dialect unknown' : failureOf(status, body));
  }

  #noteLack(): void {
    const { dialect, unknownPath } = this.form;
    const { board, clock } = this.#deps;
    if (dialect === undefined || unknownPath !== 'taught') return;
    board.noteLack(this.member.server, dialect.bit, this.sentMs, clock.now());
  }

  /** A refusal is too long, or takes too long. */
  #undecided(): void {
    const { form } = this;
    const head = this.head as ResponseHead;
    const isRead = this.#handlingOf(head.status) === 'read';
    if (isRead && form.translator === null) {
      this.judge.begin(head);
      this.#begin();
      return;
    }
    if (isRead) {
      // It is translated by its status alone.
      this.#held.length = 0;
      this.#discard();
      this.#finish('refusal');
      return;
    }
    this.refusal = { head, body: null, form };
    this.#discard();
    this.#fail('neutral', failureOf(head.status));
  }

  /** A piece of a stream that had not begun before. While it has not, the time for its first useful event goes on. */
  #waitOn(state: AnswerState): void {
    const { firstByteMs, headersMs, idleMs } = this.#deps.timeouts;
    if (state === 'begun') this.#noteBegun(this.heardMs);
    const restMs = state === 'begun' ? idleMs : this.#restMs(firstByteMs ?? headersMs);
    this.#deadline.set(Math.ceil(Math.min(idleMs, restMs)));
  }

  /** What is left of a time that began when the request left. */
  #restMs(limitMs: number): number {
    return Math.max(limitMs - (this.#deps.clock.now() - this.sentMs), 0);
  }

  /** A deadline of an answer has passed. It is not moved at every piece: here it is set again for the rest. */
  #late(): void {
    const { firstByteMs, headersMs, idleMs } = this.#deps.timeouts;
    const byteFirst = firstByteMs !== null && firstByteMs <= headersMs;
    const waitsForEvent = this.#splitter !== null && this.begunMs === 0;
    let failure: Failure;
    if (this.#phase === 'head') {
      failure = byteFirst ? 'first byte timeout' : 'headers timeout';
    } else if (this.bytes === 0 || (waitsForEvent && this.#restMs(firstByteMs ?? headersMs) === 0)) {
      failure = 'first byte timeout';
    } else {
      const restMs = this.heardMs + idleMs - this.#deps.clock.now();
      if (restMs > 0) {
        this.#deadline.set(Math.ceil(restMs));
        return;
      }
      failure = 'idle timeout';
    }
    const phase = this.#phase;
    this.#close();
    this.brokenCode = 'HR_STREAM_STALLED';
    if (this.#hasAll) this.#finish(phase);
    else this.#fail('failed', failure);
  }

  /** The rest of the answer is not wanted: a short one is read to its end, only to keep the connection. */
  #discard(): void {
    this.#phase = 'rest';
    this.#deadline.set(DISCARD_MS);
    if (!this.#paused) return;
    this.#paused = false;
    this.#connection?.resume(this);
  }

  /** The answer is too long to be translated, or encoded. */
  #failUntranslated(): void {
    this.#close();
    this.brokenCode = 'HR_ANSWER_UNTRANSLATABLE';
    this.#fail('neutral', 'untranslatable');
  }

  #close(): void {
    this.#phase = 'closed';
    this.#deadline.clear();
    this.#connection?.abort(this);
    this.#connection = null;
  }

  #fail(verdict: Verdict, failure: Failure): void {
    this.#settle(verdict, failure);
    this.#owner.onFailed(this);
  }

  /** Tells the outcome, once. */
  #settle(verdict: Verdict, failure: Failure | null): void {
    if (this.verdict !== null) return;
    this.verdict = verdict;
    this.failure = failure;
    this.#leave();
    if (!this.#prefilled) {
      this.#prefilled = true;
      const isRefused = this.sentMs === 0 || (this.head !== null && this.head.status >= 300);
      this.#request.candidates.abandoned(this, isRefused);
    }
    this.#request.listener.onOutcome(this);
  }

  /** The CRN has prefilled the prompt, unless it refuses it. */
  #noteBegun(atMs: number): void {
    this.begunMs = atMs;
    if (this.#prefilled || (this.head as ResponseHead).status >= 300) return;
    this.#prefilled = true;
    this.#request.candidates.prefilled(this, this.judge.streams ? atMs - this.sentMs : null);
  }

  /** Gives the place on the board back. */
  #leave(): void {
    if (this.#left) return;
    this.#left = true;
    this.#deps.running.delete(this);
    this.#deps.board.leave(this.member.server);
  }
}

/** Base URLs may carry a path of their own. */
function pathOf(url: string): string {
  const at = url.indexOf('/', url.indexOf('//') + 2);
  return at < 0 ? '' : url.slice(at);
}
