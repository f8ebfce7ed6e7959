// One request's way to an answer: takes candidates in order until one answers, under the model's retry budget, and hands
// the answer to a relay. Failing over ends with the first byte that leaves for the client. Every attempt's outcome is
// reported once: at the stream's end, not at its head, and without blame when the client left. A request that is paid for
// holds the first good answer back until its `Approval` has the money.

import type { UsageWatch } from '../dialect/index.ts';
import { type ErrorCode, HeadraceError } from '../errors.ts';
import type { DispatchOptions } from '../net/client.ts';
import { failsOver, type Failure, type Member, namesContextLength, type Verdict, verdictOf } from '../routing/index.ts';
import { type Approval, HeldAnswer } from './approval.ts';
import { Attempt, type AttemptOwner, type AttemptDeps } from './attempt.ts';
import type { Downstream } from './downstream.ts';
import { responseHead, type ResponseHead, withCredential } from './headers.ts';
import type { Job, Progress } from './job.ts';
import { Relay, type RelaySettings, type RelaySource } from './relay.ts';

export interface FailoverDeps extends AttemptDeps {
  readonly relay: RelaySettings;
}

/** Most bytes of a refusal that are kept to decide about it, or to pass it on in the end. */
const PEEK_BYTES = 64 * 1024;

/** What is wrong with a request that may not be sent to any CRN. */
const UNSENDABLE = 'its path or a header holds characters that cannot be sent on';

/** Seconds a client is asked to wait when every CRN failed. */
const RETRY_AFTER_S = '2';

/** A CRN's own refusal, passed on byte for byte when no other CRN does better. */
interface Refusal {
  readonly member: Member;
  readonly head: ResponseHead;
  readonly body: Buffer[];
  bytes: number;
}

export class Failover implements AttemptOwner, RelaySource {
  readonly progress: Progress = { attempts: 0, sentMs: 0, firstByteMs: 0 };
  readonly #deps: FailoverDeps;
  readonly #job: Job;
  readonly #downstream: Downstream;
  #attempt: Attempt | null = null;
  #relay: Relay | null = null;
  /** The answer that is being read to decide about it. */
  #peeking: Refusal | null = null;
  #refusal: Refusal | null = null;
  /** The good answer whose approval is awaited. */
  #held: HeldAnswer | null = null;
  /** What the approval adds to the answer, whichever CRN's it is in the end; null before. */
  #receipts: readonly string[] | null = null;
  /** The relay has asked for a pause. */
  #clientWaits = false;
  #onlyCredentials = true;
  #lastResortUntilMs = 0;
  /** Status of the answer that is relayed. */
  #status = 0;
  /** Where `#next` stands: a try may fail before it returns, and that must not nest. */
  #choosing: 'no' | 'yes' | 'again' = 'no';

  constructor(deps: FailoverDeps, job: Job, downstream: Downstream) {
    this.#deps = deps;
    this.#job = job;
    this.#downstream = downstream;
  }

  get usage(): UsageWatch | null {
    return this.#job.usage;
  }

  start(): void {
    const clientGone = (): void => this.#clientGone();
    const cut = (): void => this.#cut();
    this.#downstream.onAbort = clientGone;
    this.#downstream.onCut = cut;
    this.#job.budget.deposit();
    this.#next();
  }

  onHead(attempt: Attempt, status: number, headers: readonly string[]): void {
    const head = responseHead(status, headers);
    if (failsOver(status) && status !== 429) {
      this.#reject(attempt, `status ${status}`, verdictOf(status));
    } else if ((status === 401 || status === 403) && attempt.member.apiKey !== undefined) {
      this.#reject(attempt, 'credentials', 'neutral');
    } else if (status === 429 || (status === 400 && head.contentLength <= PEEK_BYTES)) {
      this.#peeking = { member: attempt.member, head, body: [], bytes: 0 };
    } else {
      this.#accept(head);
    }
  }

  onData(attempt: Attempt, chunk: Buffer): void {
    if (this.#peeking !== null) {
      this.#peek(attempt, this.#peeking, chunk);
      return;
    }
    if (this.progress.firstByteMs === 0) this.progress.firstByteMs = this.#deps.now();
    if (this.#held === null) this.#relay?.data(chunk);
    else if (this.#held.keep(chunk)) attempt.pause();
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
    if (code === null) this.#job.onAttempt(attempt.member, verdictOf(this.#status), null);
    else this.#job.onAttempt(attempt.member, 'failed', 'truncated');
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
    const untried = failure === 'no connection free' || failure === 'unsendable';
    this.#job.onAttempt(attempt.member, untried ? 'neutral' : 'failed', failure);
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
    // A try that never reached the CRN put no load on it.
    this.#again(untried || failure === 'connect' || failure === 'connect timeout');
  }

  pause(): void {
    this.#clientWaits = true;
    this.#attempt?.pause();
  }

  resume(): void {
    this.#clientWaits = false;
    this.#attempt?.resume();
  }

  /** The client does not read: as if it had left. */
  abandon(): void {
    this.#clientGone();
  }

  relayed(bytes: number): void {
    this.#job.onPiece(this.#deps.now(), bytes);
  }

  extraHeaders(): readonly string[] {
    // A refusal says nothing about how fast or how fit for this conversation the CRN is.
    if (this.#status >= 400) return this.#receipts ?? [];
    if (this.#job.approval !== undefined) this.#job.approval.delivered = true;
    const { member, sentMs } = this.#attempt as Attempt;
    this.progress.sentMs = sentMs;
    // An answer without a body, or a comment of ours, may leave before any byte of the CRN's.
    if (this.progress.firstByteMs === 0) this.progress.firstByteMs = this.#deps.now();
    const headers = this.#job.extraHeaders(member, this.progress);
    return this.#receipts === null ? headers : [...headers, ...this.#receipts];
  }

  #next(): void {
    if (this.#choosing !== 'no') {
      this.#choosing = 'again';
      return;
    }
    do {
      this.#choosing = 'yes';
      this.#try();
    } while ((this.#choosing as string) === 'again');
    this.#choosing = 'no';
  }

  #try(): void {
    const { candidates } = this.#job;
    const member = candidates.next();
    if (member === undefined) {
      this.#giveUp();
      return;
    }
    if (this.progress.attempts === 0) this.#job.onPick(candidates.affinity);
    let connectMs = this.#deps.timeouts.connectMs;
    if (candidates.lastResort) {
      // CRNs that are judged down share one connect timeout: the client hears within it.
      const now = this.#deps.now();
      if (this.#lastResortUntilMs === 0) this.#lastResortUntilMs = now + connectMs;
      connectMs = this.#lastResortUntilMs - now;
      if (connectMs <= 0) {
        this.#deps.board.leave(member.server);
        this.#giveUp();
        return;
      }
    }
    this.progress.attempts++;
    this.progress.firstByteMs = 0;
    const own = this.#job.onTry(member, this.progress.attempts);
    this.#attempt = new Attempt(this.#deps, this, member, this.#options(member, own));
    this.#attempt.start(connectMs);
  }

  /** `own`: headers of this try alone. */
  #options(member: Member, own: readonly string[]): DispatchOptions {
    const { path, body } = this.#job;
    const headers = own.length === 0 ? this.#job.headers : [...this.#job.headers, ...own];
    return {
      method: 'POST',
      path: pathOf(member.url) + path,
      headers: member.apiKey === undefined ? headers : withCredential(headers, member.apiKey),
      body,
    };
  }

  /** Tries the next CRN; `free` tries cost no budget. */
  #again(free = false): void {
    this.#relay?.close();
    this.#relay = null;
    this.#attempt = null;
    if (this.#downstream.finished) return;
    if (free || this.#job.budget.withdraw()) this.#next();
    else this.#giveUp();
  }

  #accept(head: ResponseHead): void {
    this.#status = head.status;
    const { approval } = this.#job;
    if (approval === undefined || head.status >= 300 || this.#receipts !== null) this.#open(head);
    else this.#ask(approval, head);
  }

  #open(head: ResponseHead): void {
    this.#clientWaits = false;
    const { deadlines, relay } = this.#deps;
    this.#relay = new Relay(this.#downstream, head, this.#job.dialect, relay, this, deadlines);
  }

  /** The CRN works on meanwhile, and waits once so much is held. */
  #ask(approval: Approval, head: ResponseHead): void {
    const held = new HeldAnswer(head);
    this.#held = held;
    approval.approve(head).then(
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
    this.#open(held.head);
    for (const chunk of held.pieces) this.#relay?.data(chunk);
    if (held.ended) this.onEnd(attempt);
    else if (!this.#clientWaits) attempt.resume();
  }

  #refused(held: HeldAnswer, thrown: unknown): void {
    if (this.#held !== held) return;
    this.#drop(this.#attempt as Attempt);
    this.#job.fail(thrown instanceof HeadraceError ? thrown : new HeadraceError('HR_INTERNAL', { cause: thrown }));
  }

  /** A good answer that may not be given: no fault of its CRN. */
  #drop(attempt: Attempt): void {
    attempt.cancel();
    this.#job.onAttempt(attempt.member, 'neutral', null);
    this.#close();
  }

  #reject(attempt: Attempt, failure: Failure, verdict: Verdict): void {
    this.#job.onAttempt(attempt.member, verdict, failure);
    if (failure !== 'credentials') this.#onlyCredentials = false;
    attempt.discardRest();
    this.#again();
  }

  #peek(attempt: Attempt, refusal: Refusal, chunk: Buffer): void {
    // A chunk may pin a larger buffer, and a refusal is kept for long.
    refusal.body.push(Buffer.from(chunk));
    refusal.bytes += chunk.byteLength;
    if (refusal.bytes <= PEEK_BYTES) return;
    this.#peeking = null;
    if (refusal.head.status === 429) {
      this.#reject(attempt, 'busy', 'neutral');
      return;
    }
    this.#accept(refusal.head);
    for (const piece of refusal.body) this.#relay?.data(piece);
  }

  /** A 429, or a 400 that was read to its end. */
  #decide(attempt: Attempt, refusal: Refusal): void {
    this.#peeking = null;
    const busy = refusal.head.status === 429;
    if (busy || namesContextLength(Buffer.concat(refusal.body))) {
      this.#job.onAttempt(attempt.member, 'neutral', busy ? 'busy' : 'context length');
      this.#onlyCredentials = false;
      this.#refusal = refusal;
      this.#again();
      return;
    }
    this.#job.onAttempt(attempt.member, 'neutral', null);
    this.#passOn(refusal);
  }

  #giveUp(): void {
    if (this.#downstream.finished) return;
    if (this.#refusal !== null) {
      this.#passOn(this.#refusal);
      return;
    }
    const job = this.#job;
    if (this.#onlyCredentials && this.progress.attempts > 0) {
      this.#fail(new HeadraceError('HR_UPSTREAM_CREDENTIALS', { subject: job.model }));
      return;
    }
    const headers = ['retry-after', RETRY_AFTER_S];
    if (!job.candidates.admitted) headers.push('x-should-retry', 'false');
    this.#fail(new HeadraceError('HR_ROUTE_ALL_FAILED', { subject: job.model, headers }));
  }

  #fail(error: HeadraceError): void {
    if (this.#receipts !== null) error.headers.push(...this.#receipts);
    this.#close();
    this.#job.fail(error);
  }

  #passOn(refusal: Refusal): void {
    const { status, headers } = refusal.head;
    const out = [...headers, ...(this.#receipts ?? [])];
    if (status === 429 && !headers.includes('retry-after')) out.push('retry-after', RETRY_AFTER_S);
    const body = Buffer.concat(refusal.body);
    this.#downstream.start(status, out, body.byteLength);
    this.#downstream.end(body);
    this.#close();
  }

  /** The gateway can wait no longer: an error event where a stream has begun, an error where nothing has. */
  #cut(): void {
    const relay = this.#relay;
    const committed = relay?.committed === true;
    if (committed) relay.broken('HR_DRAINING');
    this.#clientGone();
    if (!committed) this.#fail(new HeadraceError('HR_DRAINING'));
  }

  #clientGone(): void {
    const attempt = this.#attempt;
    this.#close();
    if (attempt === null) return;
    attempt.cancel();
    this.#job.onAttempt(attempt.member, 'neutral', 'client gone');
  }

  #close(): void {
    this.#relay?.close();
    this.#relay = null;
    this.#attempt = null;
    this.#held = null;
    this.#downstream.onAbort = null;
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
