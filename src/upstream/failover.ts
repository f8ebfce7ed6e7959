// One request's way to an answer: asks candidates in order until an answer has begun, within the model's retry budget, and passes it
// on. Failover ends with the first byte that leaves for the client. Every attempt has one outcome; a request that pays for itself
// waits with the answer that has begun until it is paid.

import { errorEvent, type UsageWatch } from '../dialect/index.ts';
import { HeadraceError } from '../errors.ts';
import type { Candidates, Failure, Member, RetryBudget } from '../routing/index.ts';
import { Attempt, type AttemptDeps, type AttemptOwner, type Refusal } from './attempt.ts';
import { Continuation, type ContinuationKind } from './continuation.ts';
import type { HedgeOutcome, Hedging } from './hedging.ts';
import type { Deadline, Expirable } from '../net/deadline.ts';
import type { ResponseHead } from './headers.ts';
import { type RequestForm, translatedHeaders } from './request-form.ts';
import {
  type Downstream,
  type DownstreamListener,
  Relay,
  type RelayDeps,
  type RelayedRequest,
  type RelayOwner,
} from './relay.ts';

export interface FailoverDeps extends AttemptDeps, RelayDeps {
  /** Null: no request is hedged. */
  readonly hedging: Hedging | null;
  /** How a text stream that breaks off is continued on another CRN. */
  readonly continuation: ContinuationKind;
}

/** A request ready to be sent to any CRN of its model: itself the client's own form. */
export interface UpstreamRequest extends RelayedRequest, RequestForm {
  readonly model: string;
  /** Of the client; empty: none. */
  readonly account: string;
  readonly translator: null;
  /** A stream is asked for. */
  readonly stream: boolean;
  readonly usage: UsageWatch | null;
  readonly candidates: Candidates;
  readonly budget: Pick<RetryBudget, 'deposit' | 'withdraw'>;
  /** Approval that is required before the first byte of a good answer leaves; null: none. */
  readonly approval: Approval | null;
  readonly listener: UpstreamListener;
  /** The gateway has checked the client's key or payment: a CRN that refuses it does not tell of the client. */
  readonly keyChecked: boolean;
  /** The form in another dialect, made at its first use; null when there is none, or when `untranslatable` says why not. */
  translated(): RequestForm | null;
  /** Why the request cannot be carried to another dialect, once that has been tried. */
  readonly untranslatable: HeadraceError | null;
}

/** Hears what happens to a request. Lists of headers are flat. */
export interface UpstreamListener {
  /** A CRN is about to be asked. Returns the headers that are sent with this attempt alone. */
  onAttempt(attempt: Attempt): readonly string[];
  /** An attempt has its outcome: once for each `onAttempt`. */
  onOutcome(attempt: Attempt): void;
  /** The head of a good answer leaves. Adds headers to those of the CRN. */
  onAnswer(attempt: Attempt, headers: string[]): void;
  /** The first piece of a stream is handed to the client. */
  onFirstPiece(nowMs: number): void;
  /** The request is to be answered with this error; nothing has been sent. */
  onFailed(error: HeadraceError): void;
}

/** Consent that must be given between the first useful event of an answer and its first byte to the client. */
export interface Approval {
  /**
   * Called at most once, when an answer below 300 has begun. Resolves with headers for the answer, as a flat list: they also go out
   * with whatever is answered when that CRN breaks off and another one, or none, takes over. Resolves with null when the client has
   * been answered; the CRN's answer is then dropped. A rejection is answered instead of it. Must settle: nothing else bounds the wait.
   */
  approve(): Promise<readonly string[] | null>;
  /** Useful output has been handed over, after the approval was given. Called at the latest at the end of the exchange; may be repeated. */
  delivered(): void;
}

/** What is wrong with a request that may not be sent to any CRN. */
const UNSENDABLE = 'its path or a header holds characters that cannot be sent on';

/** Failures that put no load on a CRN: the next attempt takes nothing from the retry budget. */
const FREE: ReadonlySet<Failure> = new Set(['connect', 'connect timeout', 'no connection free', 'dialect unknown']);

/** Neutral failures that one client brings about with what it sends, and what they may spend of the retry budget: the rest is for CRNs that fail. */
const MISTAKES: ReadonlySet<Failure | null> = new Set(['context length', 'credentials', 'redirect']);
const MISTAKES_SHARE = 0.5;

/** Seconds a client is asked to wait when every CRN failed or is busy. */
const RETRY_AFTER_S = '2';

const NO_HEADERS: readonly string[] = [];

export class Failover implements AttemptOwner, DownstreamListener, Expirable, RelayOwner {
  readonly #deps: FailoverDeps;
  readonly #request: UpstreamRequest;
  readonly #downstream: Downstream;
  /** The attempt under way, or the one whose answer passes. */
  #attempt: Attempt | null = null;
  /** The second attempt of a hedged request, until one of the two has begun or failed. */
  #hedge: Attempt | null = null;
  /** The second attempt until it has an outcome, also where the first one has failed meanwhile. */
  #undecided: Attempt | null = null;
  #hedgeDue: Deadline | null = null;
  #attempts = 0;
  /** Null for an answer that leaves in one piece. */
  #relay: Relay | null = null;
  /** The head has been set; no other CRN can take over. */
  #committed = false;
  /** The text that has passed; null where it cannot be continued. */
  #continuation: Continuation | null = null;
  /** The last attempt that broke off after the commitment. */
  #broken: Attempt | null = null;
  #refusal: Refusal | null = null;
  /** The approval has been asked for and has not settled. */
  #approving = false;
  /** What the approval adds to the answer, whichever CRN's it is in the end; null before. */
  #receipts: readonly string[] | null = null;
  #onlyCredentials = true;
  /** What the first CRN said that lacks the dialect of the request; null when none has. */
  #lack: Refusal | null = null;
  /** No attempt has failed for another reason. */
  #onlyLacks = true;
  /** A whole answer that is translated, in the dialect of the client. In memory of the translator, unless it waits for approval. */
  #translated: Buffer | null = null;
  #lastResortUntilMs = 0;
  /** The client has to read before it gets more. */
  #full = false;
  /** Nothing more is wanted from any CRN. */
  #over = false;
  /** An attempt may fail before it returns, and that must not nest. */
  #choosing = false;
  #chooseAgain = false;

  constructor(deps: FailoverDeps, request: UpstreamRequest, downstream: Downstream) {
    this.#deps = deps;
    this.#request = request;
    this.#downstream = downstream;
  }

  start(): void {
    this.#downstream.listener = this;
    this.#request.budget.deposit();
    this.#next();
    const { hedging } = this.#deps;
    if (hedging === null || !this.#request.stream || this.#over) return;
    const delayMs = hedging.delayMs(this.#request.model, this.#request.body.byteLength);
    if (delayMs === null) return;
    this.#hedgeDue = this.#deps.deadlines.deadline(this);
    this.#hedgeDue.set(Math.ceil(delayMs));
  }

  /** @internal The first useful event is late: the next CRN is asked too, if one is up. */
  expire(): void {
    const { candidates } = this.#request;
    if (this.#over || this.#committed || this.#approving || this.#attempt?.verdict !== null) return;
    if (this.#deps.hedging?.withdraw() !== true) return;
    const form = this.#nextForm(true);
    if (form === null) {
      this.#deps.hedging.giveBack();
      return;
    }
    const hedge = new Attempt(this.#deps, this, this.#request, form, candidates, ++this.#attempts, true);
    this.#hedge = hedge;
    this.#undecided = hedge;
    hedge.start(this.#deps.timeouts.connectMs, false);
  }

  get isFull(): boolean {
    return this.#full;
  }

  onWritable(): void {
    this.#full = false;
    this.#attempt?.resume();
  }

  /** The gateway can wait no longer: an error event where an answer passes, an error where nothing has left. */
  onCut(): void {
    if (this.#over) return;
    const { judge = null, midEvent = true } = this.#attempt ?? {};
    const relay = this.#committed ? this.#relay : null;
    this.#stop('client gone');
    if (relay !== null) relay.broken('HR_DRAINING', midEvent, judge?.nextSequence ?? 0);
    else this.#fail(new HeadraceError('HR_DRAINING'));
  }

  onEnded(cause: 'delivered' | 'gone' | 'broken'): void {
    this.#noteDelivery();
    this.#stop(cause === 'gone' ? 'client gone' : null);
  }

  onStreamHead(): void {
    if (this.#deps.relay.keepAliveMs === null || this.#relay !== null) return;
    this.#relay = new Relay(this.#deps, this.#request, this, this.#downstream, true);
  }

  onBegun(attempt: Attempt): void {
    if (this.#broken !== null) {
      this.#resume(attempt, this.#broken);
      return;
    }
    if (this.#hedge !== null && statusOf(attempt) >= 300) {
      this.#waitForOther(attempt);
      return;
    }
    this.#choosesBetween(attempt);
    const { approval } = this.#request;
    const isFree = statusOf(attempt) >= 300 || (attempt.whole && !attempt.judge.useful);
    if (this.#committed || approval === null || this.#receipts !== null || isFree) {
      this.#deliver(attempt);
      return;
    }
    // An answer that turns out to be none must not be paid.
    if (isAtOnce(attempt) && !this.#translate(attempt)) return;
    if (this.#translated !== null) this.#translated = Buffer.from(this.#translated);
    this.#approving = true;
    approval
      .approve()
      .then(
        (receipts) => this.#approved(receipts),
        (thrown: unknown) => this.#refused(thrown),
      )
      .catch((cause: unknown) => this.onDefect(cause));
  }

  onPiece(attempt: Attempt, piece: Buffer, nowMs: number): void {
    const passed = this.#continuation === null ? piece : this.#follow(this.#continuation, piece, attempt.midEvent);
    if (passed.byteLength > 0) this.#relay?.piece(passed, attempt.midEvent, nowMs);
    // An answer that is whole, and one with an error that its CRN reports, end by themselves.
    if (this.#relay?.hasFailed === true && !attempt.whole && !attempt.judge.reportedError) {
      this.#stop(null);
      this.#downstream.errorCode = 'HR_STREAM_BROKEN';
      this.#downstream.end();
    }
  }

  onEnd(attempt: Attempt, last: Buffer | null): void {
    const relay = this.#relay;
    const continuation = this.#broken === null ? null : this.#continuation;
    if (last !== null && continuation !== null) last = continuation.rewrite(last);
    let passed = this.#translated ?? last ?? undefined;
    if (relay !== null) passed = relay.last(last, attempt.judge.reportedError, this.#deps.clock.now());
    this.#over = true;
    attempt.succeed();
    if (attempt.judge.errorUnseen) passed = this.#withError(passed);
    this.#downstream.end(passed);
  }

  onFailed(attempt: Attempt): void {
    if (this.#over) return;
    const { failure, refusal } = attempt;
    if (attempt === this.#undecided) this.#hedgeEnded('failed');
    if (this.#committed) {
      if (attempt.passed) this.#broken = attempt;
      this.#continue(this.#broken ?? attempt, attempt);
      return;
    }
    // A client that may come back later is told so, whatever others said.
    if (failure === 'dialect unknown') this.#lack ??= refusal;
    else if (
      refusal !== null &&
      failure !== 'credentials' &&
      (this.#refusal?.head.status !== 429 || refusal.head.status === 429)
    )
      this.#refusal = refusal;
    if (failure !== 'dialect unknown') this.#onlyLacks = false;
    if (failure !== 'credentials') this.#onlyCredentials = false;
    if (this.#hedge !== null && failure !== 'unsendable') {
      this.#endHedge(attempt);
    } else if (failure === 'unsendable') {
      this.#fail(new HeadraceError('HR_REQUEST_MALFORMED', { subject: UNSENDABLE }));
    } else if (!this.#approving) {
      this.#again(attempt);
    }
  }

  onDefect(cause: unknown): void {
    const committed = this.#committed;
    this.#stop(null);
    if (!committed) {
      this.#request.listener.onFailed(new HeadraceError('HR_INTERNAL', { cause }));
      return;
    }
    this.#downstream.errorCode = 'HR_INTERNAL';
    this.#downstream.destroy();
  }

  onFull(): void {
    this.#full = true;
    this.#attempt?.pause();
  }

  onSilence(): boolean {
    const attempt = this.#attempt;
    if (attempt === null || this.#over) return false;
    if (this.#committed) return !this.#full && !attempt.midEvent;
    if (attempt.head === null || !attempt.judge.streams || this.#approving) return false;
    if (this.#request.approval !== null && this.#receipts === null) return false;
    this.#choosesBetween(attempt);
    this.#deliver(attempt);
    return !this.#over;
  }

  onFirstPiece(nowMs: number): void {
    this.#request.listener.onFirstPiece(nowMs);
  }

  /** The last events, and an error event in place of one that the client would not see. */
  #withError(passed: Buffer | undefined): Buffer {
    const { code, message, status } = new HeadraceError('HR_STREAM_BROKEN');
    this.#downstream.errorCode = code;
    const event = Buffer.from(errorEvent(this.#request.dialect, { code, message, status }));
    return passed === undefined ? event : Buffer.concat([passed, event]);
  }

  /** The answer of `attempt` is the one that is given. */
  #choosesBetween(attempt: Attempt): void {
    const { body, model, stream } = this.#request;
    const { clock, hedging } = this.#deps;
    this.#hedgeDue?.clear();
    const isRefusal = attempt.head !== null && statusOf(attempt) >= 300;
    if (attempt === this.#undecided) this.#hedgeEnded(isRefusal ? 'failed' : 'won');
    if (hedging === null || !stream || isRefusal) return;
    const waitedMs = (attempt.begunMs || clock.now()) - attempt.sentMs;
    hedging.note(model, body.byteLength, waitedMs);
    const hedge = this.#hedge;
    if (hedge === null) return;
    const first = this.#attempt as Attempt;
    this.#attempt = attempt;
    this.#hedge = null;
    if (attempt !== hedge) this.#hedgeEnded('lost');
    // What was not waited for is as late as that at least.
    if (attempt === hedge && first.sentMs > 0) hedging.note(model, body.byteLength, clock.now() - first.sentMs);
    (attempt === hedge ? first : hedge).cancel('hedged');
  }

  /** Useful output has been handed over, by the CRN that answers or by the one that broke off. */
  get #hasDelivered(): boolean {
    return this.#committed && (this.#attempt?.judge.useful === true || this.#broken?.judge.useful === true);
  }

  /** One of two attempts was refused: the other one may be answered. Without that the refusal passes on. */
  #waitForOther(refused: Attempt): void {
    const { form, head, held, whole } = refused;
    if (whole) this.#refusal ??= { head: head as ResponseHead, body: Buffer.concat(held), form };
    refused.cancel(null);
    this.#endHedge(refused);
  }

  /** One of two attempts has failed: the other one goes on. */
  #endHedge(failed: Attempt): void {
    if (failed !== this.#hedge) this.#attempt = this.#hedge;
    else if (failed === this.#undecided) this.#hedgeEnded('failed');
    this.#hedge = null;
  }

  /** Once for each hedge. */
  #hedgeEnded(outcome: HedgeOutcome): void {
    this.#undecided = null;
    this.#deps.hedging?.ended(outcome);
  }

  /** Another CRN goes on with the text where that is possible; otherwise the client is told that it broke off. `failed`: the last attempt. */
  #continue(broken: Attempt, failed: Attempt): void {
    const { candidates } = this.#request;
    const isStale = failed.failure === 'stale';
    if (isStale && this.#askAfresh(failed)) return;
    const isOver = isStale || broken.midEvent || broken.failure === 'untranslatable';
    const body = isOver ? null : (this.#continuation?.body() ?? null);
    const member = body === null ? undefined : this.#nextSpeaking(broken.form);
    if (body !== null && member !== undefined && !candidates.lastResort && this.#mayRetry(failed)) {
      this.#ask({ ...broken.form, body }, false, this.#deps.timeouts.connectMs);
      return;
    }
    if (member !== undefined) candidates.giveBack();
    this.#over = true;
    this.#relay?.broken(broken.brokenCode, broken.midEvent, broken.judge.nextSequence);
  }

  /** The next CRN that can be asked in the dialect of a form. */
  #nextSpeaking({ dialect }: RequestForm): Member | undefined {
    const { candidates } = this.#request;
    const { board, clock } = this.#deps;
    let member = candidates.next();
    while (member !== undefined && dialect !== undefined && !board.speaks(member, dialect.bit, clock.now())) {
      candidates.giveBack();
      member = candidates.next();
    }
    return member;
  }

  /** The answer that continues has begun. */
  #resume(attempt: Attempt, broken: Attempt): void {
    if (!attempt.judge.streams || statusOf(attempt) >= 300) {
      // It is no stream, and the client has a part of one.
      attempt.cancel(null);
      this.#continue(broken, attempt);
      return;
    }
    this.#request.usage?.resume(attempt.judge);
    attempt.take();
    if (this.#full) attempt.pause();
  }

  /** Notes what passes, and makes the events of a CRN that continues those of the answer that began. */
  #follow(continuation: Continuation, piece: Buffer, midEvent: boolean): Buffer {
    if (midEvent) {
      this.#continuation = null;
      return piece;
    }
    const passed = this.#broken === null ? piece : continuation.rewrite(piece);
    continuation.pass(passed);
    return passed;
  }

  #next(): void {
    this.#chooseAgain = true;
    if (this.#choosing) return;
    this.#choosing = true;
    while (this.#chooseAgain) {
      this.#chooseAgain = false;
      this.#choose();
    }
    this.#choosing = false;
  }

  #choose(): void {
    const { candidates } = this.#request;
    const failed = this.#attempt;
    if (failed?.failure === 'stale') {
      if (!this.#askAfresh(failed)) this.#giveUp();
      return;
    }
    const { connectMs } = this.#deps.timeouts;
    const other = failed?.failure === 'dialect unknown' ? this.#otherForm(failed) : null;
    if (failed !== null && other !== null) {
      candidates.again(failed);
      this.#ask(other, false, connectMs);
      return;
    }
    const form = this.#nextForm(false);
    if (form === null) {
      this.#giveUp();
      return;
    }
    const restMs = candidates.lastResort ? this.#lastResortMs() : connectMs;
    if (restMs <= 0 || !this.#mayRetry(failed)) {
      candidates.giveBack();
      this.#giveUp();
      return;
    }
    this.#ask(form, false, restMs);
  }

  /** Whether the budget allows an attempt behind this one. One that never reached a CRN put no load on it: the next one is free. */
  #mayRetry(failed: Attempt | null): boolean {
    if (failed === null || (failed.failure !== null && FREE.has(failed.failure))) return true;
    const isMistake = failed.verdict === 'neutral' && MISTAKES.has(failed.failure);
    return this.#request.budget.withdraw(isMistake ? MISTAKES_SHARE : 1);
  }

  /** A kept connection closed as the request met it: that says nothing about the CRN, which is asked once more. False: no retry is left. */
  #askAfresh(stale: Attempt): boolean {
    if (!this.#mayRetry(stale)) return false;
    this.#request.candidates.again(stale);
    this.#ask(stale.form, true, this.#deps.timeouts.connectMs);
    return true;
  }

  /** Asks the CRN that was chosen last. */
  #ask(form: RequestForm, fresh: boolean, connectMs: number): void {
    const attempt = new Attempt(
      this.#deps,
      this,
      this.#request,
      form,
      this.#request.candidates,
      ++this.#attempts,
      false,
    );
    this.#attempt = attempt;
    attempt.start(connectMs, fresh);
  }

  /** The form for the next CRN; null when none is left. `isHedge`: only for one that is not down. */
  #nextForm(isHedge: boolean): RequestForm | null {
    const request = this.#request;
    const { candidates } = request;
    while ((isHedge ? candidates.nextFit() : candidates.next()) !== undefined) {
      const form = candidates.form === 'translated' ? request.translated() : request;
      if (form !== null) return form;
      candidates.withdraw();
    }
    return null;
  }

  /** The other form of the request for a CRN that has just said that it lacks the dialect of the first one; null without. */
  #otherForm({ form, member }: Attempt): RequestForm | null {
    if (form.translator !== null) return null;
    const other = this.#request.translated();
    const { board, clock } = this.#deps;
    return other?.dialect !== undefined && board.speaks(member, other.dialect.bit, clock.now()) ? other : null;
  }

  /** CRNs that are judged down share one connect timeout: the client hears within it. */
  #lastResortMs(): number {
    const nowMs = this.#deps.clock.now();
    const { connectMs } = this.#deps.timeouts;
    if (this.#lastResortUntilMs === 0) this.#lastResortUntilMs = nowMs + connectMs;
    return this.#lastResortUntilMs - nowMs;
  }

  /** Asks the next CRN. */
  #again({ failure }: Attempt): void {
    if (this.#over) return;
    this.#relay?.close();
    this.#relay = null;
    if (failure === 'untranslatable') this.#fail(new HeadraceError('HR_ANSWER_UNTRANSLATABLE'));
    else this.#next();
  }

  /** The answer, or what there is of it, goes to the client. */
  #deliver(attempt: Attempt): void {
    const head = attempt.head as ResponseHead;
    const { streams } = attempt.judge;
    const atOnce = isAtOnce(attempt);
    if (atOnce && this.#translated === null && !this.#translate(attempt)) return;
    this.#committed = true;
    if (head.status < 300) this.#count(attempt, atOnce);
    const headers = this.#answerHeaders(attempt, head);
    const wholeBytes = this.#translated?.byteLength ?? attempt.bytes;
    this.#downstream.start(head.status, headers, atOnce ? wholeBytes : streams ? -1 : head.contentLength);
    if (!streams) {
      // It was made for the head of another answer.
      this.#relay?.close();
      this.#relay = null;
    }
    const { form } = attempt;
    const { choices, dialect, translator } = form;
    if (!atOnce) {
      this.#relay ??= new Relay(this.#deps, this.#request, this, this.#downstream, streams);
      this.#relay.translator = translator?.request.answer() ?? null;
    }
    const { continuation } = this.#deps;
    if (streams && continuation !== 'off' && choices === 1) {
      // The memory of a translated body is given back.
      const body = translator === null ? form.body : Buffer.from(form.body);
      this.#continuation = Continuation.of(continuation, dialect?.name, body);
    }
    attempt.take();
    this.#noteDelivery();
    if (!this.#full) attempt.resume();
  }

  /** Translates a whole answer, where it is translated. False: the CRN has failed, since that is none. */
  #translate(attempt: Attempt): boolean {
    const { form, held } = attempt;
    const { translator } = form;
    const head = attempt.head as ResponseHead;
    if (translator === null) return true;
    const body = held.length === 1 ? (held[0] as Buffer) : Buffer.concat(held);
    try {
      this.#translated =
        head.status < 300 ? translator.request.answer().whole(body) : translatedError(form, head, body);
    } catch (thrown) {
      // JSON that is nested too deep for the stack.
      if (!(thrown instanceof HeadraceError || thrown instanceof RangeError)) throw thrown;
      attempt.reject();
      return false;
    }
    return true;
  }

  #noteDelivery(): void {
    const { approval } = this.#request;
    if (approval !== null && this.#receipts !== null && this.#hasDelivered) approval.delivered();
  }

  /** Counts an answer that is whole before its head is made, which tells what it costs; others are counted as they pass. */
  #count({ held, judge }: Attempt, atOnce: boolean): void {
    const { usage } = this.#request;
    usage?.begin(judge);
    if (atOnce) for (const piece of held) usage?.data(piece);
  }

  #answerHeaders(attempt: Attempt, head: ResponseHead): readonly string[] {
    const receipts = this.#receipts ?? NO_HEADERS;
    const { status } = head;
    const headers = headersFor(attempt.form, head);
    // A refusal says nothing about how fast or how fit for this conversation the CRN is.
    if (status >= 300) return receipts.length === 0 ? headers : [...headers, ...receipts];
    this.#request.listener.onAnswer(attempt, headers);
    headers.push(...receipts);
    return headers;
  }

  #approved(receipts: readonly string[] | null): void {
    const attempt = this.#attempt;
    this.#approving = false;
    if (this.#over || attempt === null) return;
    if (receipts === null) {
      // The client has been answered.
      this.#stop(null);
      return;
    }
    this.#receipts = receipts;
    if (attempt.verdict === null) this.#deliver(attempt);
    else this.#again(attempt);
  }

  #refused(thrown: unknown): void {
    this.#approving = false;
    if (this.#over) return;
    this.#stop(null);
    const error = thrown instanceof HeadraceError ? thrown : new HeadraceError('HR_INTERNAL', { cause: thrown });
    this.#request.listener.onFailed(error);
  }

  #giveUp(): void {
    if (this.#refusal !== null) {
      this.#passOn(this.#refusal);
      return;
    }
    const { candidates, model } = this.#request;
    if (this.#onlyCredentials && this.#attempts > 0) {
      this.#fail(new HeadraceError('HR_UPSTREAM_CREDENTIALS', { subject: model }));
      return;
    }
    if (this.#onlyLacks) {
      const { untranslatable } = this.#request;
      if (untranslatable !== null) {
        this.#fail(untranslatable);
        return;
      }
      if (this.#lack !== null) {
        this.#passOn(this.#lack);
        return;
      }
      if (candidates.isUnspoken) {
        this.#fail(new HeadraceError('HR_ROUTE_UNKNOWN_DIALECT', { subject: model }));
        return;
      }
    }
    const headers = ['retry-after', RETRY_AFTER_S];
    if (!candidates.admitted) headers.push('x-should-retry', 'false');
    this.#fail(new HeadraceError('HR_ROUTE_ALL_FAILED', { subject: model, headers }));
  }

  /** The refusal of the last CRN that answered: byte for byte, unless it is translated. */
  #passOn({ head, body, form }: Refusal): void {
    const { status } = head;
    const headers = headersFor(form, head);
    const busy = status === 429;
    const at = headers.indexOf('retry-after');
    if (body === null) {
      const retryAfter = at < 0 ? RETRY_AFTER_S : (headers[at + 1] as string);
      const { model } = this.#request;
      this.#fail(new HeadraceError('HR_UPSTREAM_BUSY', { subject: model, headers: ['retry-after', retryAfter] }));
      return;
    }
    if (busy && at < 0) headers.push('retry-after', RETRY_AFTER_S);
    headers.push(...(this.#receipts ?? NO_HEADERS));
    this.#over = true;
    const passed = translatedError(form, head, body);
    this.#downstream.start(status, headers, passed.byteLength);
    this.#downstream.end(passed);
  }

  #fail(error: HeadraceError): void {
    if (this.#receipts !== null) error.headers.push(...this.#receipts);
    this.#stop(null);
    this.#request.listener.onFailed(error);
  }

  /** Nothing more is wanted from any CRN. */
  #stop(failure: 'client gone' | null): void {
    this.#over = true;
    this.#relay?.close();
    this.#hedgeDue?.clear();
    this.#attempt?.cancel(failure);
    this.#hedge?.cancel(failure);
  }
}

/** Whether an answer leaves in one piece. */
function isAtOnce({ judge, whole }: Attempt): boolean {
  return whole && !judge.streams;
}

function statusOf({ head }: Attempt): number {
  return (head as ResponseHead).status;
}

const JSON_TYPE = 'application/json';

/** The headers of an answer to this form. */
function headersFor({ translator }: RequestForm, { contentType, headers, status }: ResponseHead): string[] {
  if (translator === null) return headers;
  const isStream = status < 300 && contentType.startsWith(STREAM_TYPE);
  return translatedHeaders(headers, translator.name, isStream ? STREAM_TYPE : JSON_TYPE);
}

const STREAM_TYPE = 'text/event-stream';

/** A refusal in the dialect of the client. One without a body that can be read is translated by its status alone. */
function translatedError({ translator }: RequestForm, { encoded, status }: ResponseHead, body: Buffer): Buffer {
  if (translator === null) return body;
  const isRead = body.byteLength > 0 && !encoded;
  return translator.request
    .answer()
    .error(status, isRead ? body : Buffer.from(JSON.stringify({ error: { message: unreadError(status) } })));
}

/** What is said of a refusal whose body says nothing. */
export function unreadError(status: number): string {
  return `The server answered with status ${status}`;
}
