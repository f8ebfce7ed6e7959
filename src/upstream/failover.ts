// One request's way to an answer: tries candidates in order until one answers, within the model's retry budget, and hands
// the answer to a relay. Failover ends with the first byte that leaves for the client. Every attempt has one outcome, told
// at the end of its answer, not at its head. A request that pays for itself holds the first good answer until it is paid.

import type { Dialect, UsageWatch } from '../dialect/index.ts';
import { type ErrorCode, HeadraceError } from '../errors.ts';
import {
  type Candidates,
  type Choice,
  classifyBody,
  classifyStatus,
  type Failure,
  failureOf,
  type Member,
  type RetryBudget,
  type Verdict,
  verdictOf,
} from '../routing/index.ts';
import { Attempt, type AttemptDeps, type AttemptOwner } from './attempt.ts';
import { linesFor, type RequestLines, responseHead, type ResponseHead } from './headers.ts';
import {
  type Downstream,
  type DownstreamListener,
  Relay,
  type RelayDeps,
  type RelayedRequest,
  type RelayOwner,
} from './relay.ts';

export type FailoverDeps = AttemptDeps & RelayDeps;

/** A request ready to be sent to any CRN of its model. */
export interface UpstreamRequest extends RelayedRequest {
  readonly model: string;
  /** Path and query below the CRN's base URL. */
  readonly path: string;
  readonly lines: RequestLines;
  readonly body: Buffer;
  readonly dialect: Dialect | undefined;
  readonly usage: UsageWatch | null;
  readonly candidates: Candidates;
  readonly budget: RetryBudget;
  /** Approval that is required before the first byte of a good answer leaves; null: none. */
  readonly approval: Approval | null;
  readonly listener: UpstreamListener;
}

/** What happens to a request. Lists of headers are flat and start empty; the listener may add to them. */
export type UpstreamEvent =
  /** A CRN is about to be asked; attempts count from 1. The headers are sent with this attempt alone. */
  | { readonly type: 'attempt'; readonly member: Member; readonly attempt: number; readonly headers: string[] }
  /** An attempt has ended: once for each `attempt`. */
  | {
      readonly type: 'outcome';
      readonly choice: Choice;
      readonly verdict: Verdict;
      readonly failure: Failure | null;
    }
  /** The head of a good answer leaves, with these headers beside the CRN's own. */
  | {
      readonly type: 'answer';
      readonly choice: Choice;
      readonly attempts: number;
      /** When the request left for the CRN, and when its first byte came, in milliseconds. */
      readonly sentMs: number;
      readonly firstByteMs: number;
      readonly headers: string[];
    }
  /** The first piece of a stream has been handed to the client. */
  | { readonly type: 'stream'; readonly nowMs: number }
  /** The request is to be answered with this error; nothing has been sent. */
  | { readonly type: 'failed'; readonly error: HeadraceError };

export interface UpstreamListener {
  onEvent(event: UpstreamEvent): void;
}

/** Consent that must be given between the first good answer of a CRN and its first byte to the client. */
export interface Approval {
  /**
   * Called at most once, when a CRN has begun an answer below 300. Resolves with headers for the answer, as a flat list:
   * they also go out with whatever is answered when that CRN breaks off and another one, or none, takes over. Resolves
   * with null when the client has been answered; the CRN's answer is then dropped. A rejection is answered instead of it.
   * Must settle: nothing else bounds the wait.
   */
  approve(): Promise<readonly string[] | null>;
  /** Set when the head of a good answer leaves; until then nothing has been delivered. */
  delivered: boolean;
}

/** Most bytes of a refusal that are kept to decide about it, or to pass it on in the end. */
const PEEK_BYTES = 64 * 1024;

/** Bytes after which the CRN of a held answer is asked to wait; what its connection has read by then comes on top. */
const HELD_BYTES = 64 * 1024;

/** What is wrong with a request that may not be sent to any CRN. */
const UNSENDABLE = 'its path or a header holds characters that cannot be sent on';

/** Seconds a client is asked to wait when every CRN failed. */
const RETRY_AFTER_S = '2';

const NO_HEADERS: readonly string[] = [];

/** A CRN's own refusal, passed on byte for byte when no other CRN does better. */
interface Refusal {
  readonly head: ResponseHead;
  readonly body: Buffer[];
  bytes: number;
}

/** What has come of an answer whose approval is awaited. */
interface HeldAnswer {
  readonly head: ResponseHead;
  readonly pieces: Buffer[];
  bytes: number;
  ended: boolean;
  failure: Failure | null;
}

export class Failover implements AttemptOwner, DownstreamListener, RelayOwner {
  readonly #deps: FailoverDeps;
  readonly #request: UpstreamRequest;
  readonly #downstream: Downstream;
  #attempt: Attempt | null = null;
  #attempts = 0;
  #relay: Relay | null = null;
  /** The answer that is being read to decide about it. */
  #peeking: Refusal | null = null;
  #refusal: Refusal | null = null;
  #held: HeldAnswer | null = null;
  /** What the approval adds to the answer, whichever CRN's it is in the end; null before. */
  #receipts: readonly string[] | null = null;
  #onlyCredentials = true;
  #lastResortUntilMs = 0;
  /** Status of the answer that is relayed. */
  #status = 0;
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
  }

  onWritable(): void {
    this.#relay?.onWritable();
  }

  /** The gateway can wait no longer: an error event where a stream has begun, an error where nothing has. */
  onCut(): void {
    const relay = this.#relay;
    const committed = relay?.committed === true;
    if (committed) relay.broken('HR_DRAINING');
    this.abandon();
    if (!committed) this.#fail(new HeadraceError('HR_DRAINING'));
  }

  onEnded(cause: 'delivered' | 'gone' | 'broken'): void {
    if (cause === 'gone') this.abandon();
  }

  onHead(attempt: Attempt, status: number, headers: readonly string[]): void {
    const head = responseHead(status, headers);
    const handling = classifyStatus(status, attempt.member.apiKey !== undefined);
    if (handling === 'next-failed') {
      this.#reject(attempt, failureOf(status), 'failed');
    } else if (status === 429 || (handling === 'read' && head.contentLength <= PEEK_BYTES)) {
      this.#peeking = { head, body: [], bytes: 0 };
    } else if (handling === 'next-neutral') {
      this.#reject(attempt, failureOf(status), 'neutral');
    } else {
      this.#accept(attempt, head);
    }
  }

  /** Pieces of an answer that is not relayed yet. */
  onData(chunk: Buffer, nowMs: number): void {
    const attempt = this.#attempt as Attempt;
    // A chunk may pin a larger buffer, and these pieces are kept for long.
    const piece = Buffer.from(chunk);
    if (this.#held !== null) {
      this.#held.pieces.push(piece);
      this.#held.bytes += piece.byteLength;
      if (this.#held.bytes >= HELD_BYTES) attempt.pause();
    } else if (this.#peeking !== null) {
      this.#peek(attempt, this.#peeking, piece, nowMs);
    }
  }

  onEnd(attempt: Attempt): void {
    if (this.#peeking !== null) {
      this.#decide(attempt, this.#peeking);
      return;
    }
    if (this.#held !== null) {
      this.#held.ended = true;
      return;
    }
    const code = this.#relay?.end() ?? null;
    if (code === null) this.#outcome(attempt, verdictOf(this.#status), null);
    else this.#outcome(attempt, 'failed', 'truncated');
    if (code === null || this.#downstream.committed) {
      this.#close();
      return;
    }
    this.#onlyCredentials = false;
    this.#again();
  }

  onFailed(attempt: Attempt, failure: Failure): void {
    if (this.#held !== null) {
      this.#held.failure = failure;
      return;
    }
    const unsent = failure === 'no connection free' || failure === 'unsendable';
    this.#outcome(attempt, unsent ? 'neutral' : 'failed', failure);
    this.#peeking = null;
    if (this.#relay?.committed === true) {
      this.#relay.broken(brokenCode(failure));
      this.#close();
      return;
    }
    this.#onlyCredentials = false;
    if (failure === 'unsendable') {
      this.#fail(new HeadraceError('HR_REQUEST_MALFORMED', { subject: UNSENDABLE }));
      return;
    }
    // An attempt that never reached the CRN put no load on it.
    this.#again(unsent || failure === 'connect' || failure === 'connect timeout');
  }

  answerHeaders(): readonly string[] {
    const receipts = this.#receipts ?? NO_HEADERS;
    // A refusal says nothing about how fast or how fit for this conversation the CRN is.
    if (this.#status >= 400) return receipts;
    const { approval, listener } = this.#request;
    // A redirect is passed on without approval: nothing was taken for it.
    if (approval !== null && this.#receipts !== null) approval.delivered = true;
    const { choice, sentMs, firstByteMs } = this.#attempt as Attempt;
    const headers: string[] = [];
    listener.onEvent({
      type: 'answer',
      choice,
      attempts: this.#attempts,
      sentMs,
      // An answer without a body, or a comment of ours, may leave before any byte of the CRN's.
      firstByteMs: firstByteMs || this.#deps.clock.now(),
      headers,
    });
    headers.push(...receipts);
    return headers;
  }

  onStream(nowMs: number): void {
    this.#request.listener.onEvent({ type: 'stream', nowMs });
  }

  abandon(): void {
    const attempt = this.#attempt;
    this.#close();
    if (attempt === null) return;
    attempt.cancel();
    this.#outcome(attempt, 'neutral', 'client gone');
  }

  #next(): void {
    this.#chooseAgain = true;
    if (this.#choosing) return;
    this.#choosing = true;
    while (this.#chooseAgain) {
      this.#chooseAgain = false;
      this.#try();
    }
    this.#choosing = false;
  }

  #try(): void {
    const { candidates, listener } = this.#request;
    const member = candidates.next();
    if (member === undefined) {
      this.#giveUp();
      return;
    }
    let { connectMs } = this.#deps.timeouts;
    if (candidates.lastResort) {
      // CRNs that are judged down share one connect timeout: the client hears within it.
      const nowMs = this.#deps.clock.now();
      if (this.#lastResortUntilMs === 0) this.#lastResortUntilMs = nowMs + connectMs;
      connectMs = this.#lastResortUntilMs - nowMs;
      if (connectMs <= 0) {
        this.#deps.board.leave(member.server);
        this.#giveUp();
        return;
      }
    }
    const own: string[] = [];
    listener.onEvent({ type: 'attempt', member, attempt: ++this.#attempts, headers: own });
    const { body, lines, path } = this.#request;
    const choice = { member, epoch: candidates.epoch, trial: candidates.trial };
    this.#attempt = new Attempt(this.#deps, this, choice, {
      method: 'POST',
      path: pathOf(member.url) + path,
      lines: linesFor(lines, member.apiKey),
      headers: own,
      body,
    });
    this.#attempt.start(connectMs);
  }

  /** Tries the next CRN; a `free` attempt costs no budget. */
  #again(free = false): void {
    this.#relay?.close();
    this.#relay = null;
    this.#attempt = null;
    if (this.#downstream.handedOver) return;
    if (free || this.#request.budget.withdraw()) this.#next();
    else this.#giveUp();
  }

  #outcome({ choice }: Attempt, verdict: Verdict, failure: Failure | null): void {
    this.#request.listener.onEvent({ type: 'outcome', choice, verdict, failure });
  }

  #accept(attempt: Attempt, head: ResponseHead): void {
    this.#status = head.status;
    const { approval } = this.#request;
    if (approval === null || head.status >= 300 || this.#receipts !== null) this.#open(attempt, head);
    else this.#hold(approval, head);
  }

  #open(attempt: Attempt, head: ResponseHead): Relay {
    const relay = new Relay(this.#deps, this.#request, this, attempt, head, this.#downstream);
    this.#relay = relay;
    attempt.consumer = relay;
    return relay;
  }

  /** The CRN works on meanwhile, and waits once so much is held. */
  #hold(approval: Approval, head: ResponseHead): void {
    const held: HeldAnswer = { head, pieces: [], bytes: 0, ended: false, failure: null };
    this.#held = held;
    approval.approve().then(
      (receipts) => this.#approved(held, receipts),
      (thrown: unknown) => this.#refused(held, thrown),
    );
  }

  #approved(held: HeldAnswer, receipts: readonly string[] | null): void {
    if (this.#held !== held) return;
    this.#held = null;
    const attempt = this.#attempt as Attempt;
    if (receipts === null) {
      this.#drop(attempt);
      return;
    }
    this.#receipts = receipts;
    if (held.failure !== null) {
      this.onFailed(attempt, held.failure);
      return;
    }
    const relay = this.#open(attempt, held.head);
    const nowMs = this.#deps.clock.now();
    for (const piece of held.pieces) relay.onData(piece, nowMs);
    if (held.ended) this.onEnd(attempt);
    else if (!relay.waiting) attempt.resume();
  }

  #refused(held: HeldAnswer, thrown: unknown): void {
    if (this.#held !== held) return;
    this.#drop(this.#attempt as Attempt);
    const error = thrown instanceof HeadraceError ? thrown : new HeadraceError('HR_INTERNAL', { cause: thrown });
    this.#request.listener.onEvent({ type: 'failed', error });
  }

  /** A good answer that may not be given: no fault of its CRN. */
  #drop(attempt: Attempt): void {
    attempt.cancel();
    this.#outcome(attempt, 'neutral', null);
    this.#close();
  }

  #reject(attempt: Attempt, failure: Failure, verdict: Verdict): void {
    this.#outcome(attempt, verdict, failure);
    if (failure !== 'credentials') this.#onlyCredentials = false;
    attempt.discardRest();
    this.#again();
  }

  #peek(attempt: Attempt, refusal: Refusal, piece: Buffer, nowMs: number): void {
    refusal.body.push(piece);
    refusal.bytes += piece.byteLength;
    if (refusal.bytes <= PEEK_BYTES) return;
    this.#peeking = null;
    if (refusal.head.status === 429) {
      this.#reject(attempt, 'busy', 'neutral');
      return;
    }
    this.#status = refusal.head.status;
    const relay = this.#open(attempt, refusal.head);
    for (const kept of refusal.body) relay.onData(kept, nowMs);
  }

  /** A 429, or a 400 or 404 that was read to its end. */
  #decide(attempt: Attempt, refusal: Refusal): void {
    this.#peeking = null;
    const { status } = refusal.head;
    const body = Buffer.concat(refusal.body);
    if (status === 429 || classifyBody(status, body) === 'next-neutral') {
      this.#outcome(attempt, 'neutral', failureOf(status, body));
      this.#onlyCredentials = false;
      this.#refusal = refusal;
      this.#again();
      return;
    }
    this.#outcome(attempt, 'neutral', null);
    this.#passOn(refusal);
  }

  #giveUp(): void {
    if (this.#downstream.handedOver) return;
    if (this.#refusal !== null) {
      this.#passOn(this.#refusal);
      return;
    }
    const { candidates, model } = this.#request;
    if (this.#onlyCredentials && this.#attempts > 0) {
      this.#fail(new HeadraceError('HR_UPSTREAM_CREDENTIALS', { subject: model }));
      return;
    }
    const headers = ['retry-after', RETRY_AFTER_S];
    if (!candidates.admitted) headers.push('x-should-retry', 'false');
    this.#fail(new HeadraceError('HR_ROUTE_ALL_FAILED', { subject: model, headers }));
  }

  #fail(error: HeadraceError): void {
    if (this.#receipts !== null) error.headers.push(...this.#receipts);
    this.#close();
    this.#request.listener.onEvent({ type: 'failed', error });
  }

  #passOn(refusal: Refusal): void {
    const { status, headers } = refusal.head;
    const out = [...headers, ...(this.#receipts ?? NO_HEADERS)];
    if (status === 429 && !headers.includes('retry-after')) out.push('retry-after', RETRY_AFTER_S);
    const body = Buffer.concat(refusal.body);
    this.#downstream.start(status, out, body.byteLength);
    this.#downstream.end(body);
    this.#close();
  }

  #close(): void {
    this.#relay?.close();
    this.#relay = null;
    this.#attempt = null;
    this.#held = null;
  }
}

function brokenCode(failure: Failure): ErrorCode {
  const stalled = failure === 'idle timeout' || failure === 'first byte timeout';
  return stalled ? 'HR_STREAM_STALLED' : 'HR_STREAM_BROKEN';
}

/** Base URLs may carry a path of their own. */
function pathOf(url: string): string {
  const at = url.indexOf('/', url.indexOf('//') + 2);
  return at < 0 ? '' : url.slice(at);
}
