// One request's way to an answer: takes candidates in order until one answers, under the model's retry budget, and hands
// the answer to a relay. Failing over ends with the first byte that leaves for the client. Every attempt's outcome is
// reported once: at the stream's end, not at its head, and without blame when the client left.

import type { Dialect } from '../dialect/index.ts';
import { type ErrorCode, HeadraceError } from '../errors.ts';
import type { DispatchOptions } from '../net/client.ts';
import {
  type Affinity,
  type Candidates,
  failsOver,
  type Failure,
  type Member,
  namesContextLength,
  type Verdict,
  verdictOf,
} from '../routing/index.ts';
import { Attempt, type AttemptOwner, type AttemptWorld } from './attempt.ts';
import type { Downstream } from './downstream.ts';
import { responseHead, type ResponseHead, withCredential } from './headers.ts';
import { type DialectRules, Relay, type RelaySettings, type RelaySource } from './relay.ts';
import type { RetryBudget } from './retry-budget.ts';

/** A request ready to be sent to any CRN of its model. */
export interface Job {
  readonly model: string;
  /** Path and query below the CRN's base URL. */
  readonly path: string;
  readonly headers: string[];
  readonly body: Buffer;
  readonly dialect: Dialect | undefined;
  readonly candidates: Candidates;
  readonly budget: RetryBudget;
  /** Headers to add to the answer of this CRN (the affinity cookie, timings). */
  extraHeaders(member: Member, progress: Progress): readonly string[];
  /** Answers with an error of the table; nothing has been sent. */
  fail(error: HeadraceError): void;
  /** Hears how the first CRN was chosen. */
  onPick(affinity: Affinity): void;
  /** Hears of every attempt's end. */
  onAttempt(member: Member, verdict: Verdict, failure: Failure | null): void;
}

/** How far a request has come; for timings and counters. */
export interface Progress {
  attempts: number;
  /** When the attempt that answered was sent, and when its first byte came, in milliseconds; 0 before. */
  sentMs: number;
  firstByteMs: number;
}

export interface FailoverWorld extends AttemptWorld {
  readonly relay: RelaySettings;
  readonly rules: DialectRules;
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
  readonly #world: FailoverWorld;
  readonly #job: Job;
  readonly #downstream: Downstream;
  #attempt: Attempt | null = null;
  #relay: Relay | null = null;
  /** The answer that is being read to decide about it. */
  #peeking: Refusal | null = null;
  #refusal: Refusal | null = null;
  #onlyCredentials = true;
  #lastResortUntilMs = 0;
  /** Status of the answer that is relayed. */
  #status = 0;
  /** Where `#next` stands: a try may fail before it returns, and that must not nest. */
  #choosing: 'no' | 'yes' | 'again' = 'no';

  constructor(world: FailoverWorld, job: Job, downstream: Downstream) {
    this.#world = world;
    this.#job = job;
    this.#downstream = downstream;
  }

  start(): void {
    this.#downstream.onAbort = () => this.#clientGone();
    this.#downstream.onCut = () => this.#cut();
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
    if (this.progress.firstByteMs === 0) this.progress.firstByteMs = this.#world.now();
    this.#relay?.data(chunk);
  }

  onEnd(attempt: Attempt): void {
    if (this.#peeking !== null) {
      this.#decide(attempt, this.#peeking);
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
      this.#close();
      this.#job.fail(new HeadraceError('HR_REQUEST_MALFORMED', { subject: UNSENDABLE }));
      return;
    }
    // A try that never reached the CRN put no load on it.
    this.#again(untried || failure === 'connect' || failure === 'connect timeout');
  }

  pause(): void {
    this.#attempt?.pause();
  }

  resume(): void {
    this.#attempt?.resume();
  }

  /** The client does not read: as if it had left. */
  abandon(): void {
    this.#clientGone();
  }

  extraHeaders(): readonly string[] {
    // A refusal says nothing about how fast or how fit for this conversation the CRN is.
    if (this.#status >= 400) return [];
    const { member, sentMs } = this.#attempt as Attempt;
    this.progress.sentMs = sentMs;
    // An answer without a body, or a comment of ours, may leave before any byte of the CRN's.
    if (this.progress.firstByteMs === 0) this.progress.firstByteMs = this.#world.now();
    return this.#job.extraHeaders(member, this.progress);
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
    let connectMs = this.#world.timeouts.connectMs;
    if (candidates.lastResort) {
      // CRNs that are judged down share one connect timeout: the client hears within it.
      const now = this.#world.now();
      if (this.#lastResortUntilMs === 0) this.#lastResortUntilMs = now + connectMs;
      connectMs = this.#lastResortUntilMs - now;
      if (connectMs <= 0) {
        this.#world.board.leave(member.server);
        this.#giveUp();
        return;
      }
    }
    this.progress.attempts++;
    this.progress.firstByteMs = 0;
    this.#attempt = new Attempt(this.#world, this, member, this.#options(member));
    this.#attempt.start(connectMs);
  }

  #options(member: Member): DispatchOptions {
    const { path, headers, body } = this.#job;
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
    this.#relay = new Relay(
      this.#downstream,
      head,
      this.#job.dialect,
      this.#world.rules,
      this.#world.relay,
      this,
      this.#world.deadlines,
    );
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
    this.#downstream.onAbort = null;
    const job = this.#job;
    if (this.#onlyCredentials && this.progress.attempts > 0) {
      job.fail(new HeadraceError('HR_UPSTREAM_CREDENTIALS', { subject: job.model }));
      return;
    }
    const headers = ['retry-after', RETRY_AFTER_S];
    if (!job.candidates.admitted) headers.push('x-should-retry', 'false');
    job.fail(new HeadraceError('HR_ROUTE_ALL_FAILED', { subject: job.model, headers }));
  }

  #passOn(refusal: Refusal): void {
    const { status, headers } = refusal.head;
    const out = [...headers];
    if (status === 429 && !headers.includes('retry-after')) out.push('retry-after', RETRY_AFTER_S);
    const body = Buffer.concat(refusal.body);
    this.#downstream.start(status, out, body.byteLength);
    this.#downstream.end(body);
    this.#close();
  }

  /** The gateway can wait no longer: an error event where a stream has begun, an error where nothing has. */
  #cut(): void {
    const relay = this.#relay;
    if (relay?.committed === true) relay.broken('HR_DRAINING');
    else this.#job.fail(new HeadraceError('HR_DRAINING'));
    this.#clientGone();
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
