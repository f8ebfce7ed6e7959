// A request as failover takes it: what is sent to any CRN of its model, and who hears what becomes of it. Made by the
// endpoints, one a request.

import type { Dialect, UsageWatch } from '../dialect/index.ts';
import type { HeadraceError } from '../errors.ts';
import type { Affinity, Candidates, Failure, Member, Verdict } from '../routing/index.ts';
import type { Approval } from './approval.ts';
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
  /** Asked before the first byte of a good answer leaves; absent: nobody is asked. */
  readonly approval?: Approval | undefined;
  /** Looks on while the answer passes; null when nobody counts. */
  readonly usage: UsageWatch | null;
  /** Headers to add to the answer of this CRN (the affinity cookie, timings). */
  extraHeaders(member: Member, progress: Progress): readonly string[];
  /** Answers with an error of the table; nothing has been sent. */
  fail(error: HeadraceError): void;
  /** Hears how the first CRN was chosen. */
  onPick(affinity: Affinity): void;
  /** Hears that a CRN is tried, and the how-manieth try it is; answers with headers of this try alone. */
  onTry(member: Member, attempt: number): readonly string[];
  /** Hears of every piece of a stream handed to the client: when, and its size. */
  onPiece(nowMs: number, bytes: number): void;
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
