// Outcomes of attempts: which statuses fail over, what they say about the health of a CRN, and the reporter that sends them from
// a request thread to the CRN actors. Successes are batched; failures are sent at once.

import type { Clock, TimerHandle } from '../actor/index.ts';
import { type Board, STANDING } from './board.ts';

/**
 * Verdict on a CRN after one request.
 * `ok`: served well. `failed`: the CRN's fault. `neutral`: says nothing about it (client gone, client's mistake, CRN busy).
 */
export type Verdict = 'ok' | 'failed' | 'neutral';

/** What went wrong with one attempt, as logs, metrics and the list of last errors show it. */
export type Failure =
  | 'connect'
  | 'connect timeout'
  | 'headers timeout'
  | 'first byte timeout'
  | 'idle timeout'
  | 'reset'
  | 'truncated'
  | 'malformed'
  | 'credentials'
  | 'busy'
  | 'context length'
  | 'no connection free'
  | 'unsendable'
  | `status ${number}`
  | 'client gone';

/** Outcome of one or several requests to a member. */
export interface Outcome {
  /** Index of the member on the board. */
  readonly member: number;
  readonly verdict: Verdict;
  readonly failure: Failure | null;
  /** Requests with this outcome; more than 1 only for successes. */
  readonly count: number;
}

/** Whether another CRN may serve a request better that had this status: every 5xx, and 429. */
export function failsOver(status: number): boolean {
  return status >= 500 || status === 429;
}

/** The verdict on a status. 429 means a busy CRN, not a broken one. */
export function verdictOf(status: number): Verdict {
  if (status >= 500) return 'failed';
  return status >= 400 ? 'neutral' : 'ok';
}

/** Phrases of llama.cpp, vLLM, OpenAI and TGI for a prompt that is too long. */
const CONTEXT_PHRASES = [
  'exceed_context_size_error',
  'context_length_exceeded',
  'maximum context length',
  'context size',
  'context window',
  'max_model_len',
];

/** Whether the body of a 400 says that the prompt exceeds this CRN's context length; another CRN's may be larger. */
export function namesContextLength(body: Buffer): boolean {
  const text = body.toString('latin1').toLowerCase();
  return CONTEXT_PHRASES.some((phrase) => text.includes(phrase));
}

/** Longest time that successes wait in a batch, in milliseconds; far below the window of error rates. */
const FLUSH_MS = 250;

/** Reports the outcomes of one thread. */
export class Reporter {
  readonly #board: Board;
  readonly #clock: Clock;
  readonly #send: (outcome: Outcome) => void;
  readonly #successes = new Map<number, number>();
  #timer: TimerHandle | null = null;

  constructor(board: Board, clock: Clock, send: (outcome: Outcome) => void) {
    this.#board = board;
    this.#clock = clock;
    this.#send = send;
  }

  /** Reports one outcome. A member on trial is reported at once, whatever the verdict. */
  report(member: number, verdict: Verdict, failure: Failure | null): void {
    const urgent = this.#board.standing(member) === STANDING.probing;
    if (verdict === 'ok' && !urgent) {
      this.#successes.set(member, (this.#successes.get(member) ?? 0) + 1);
      this.#timer ??= this.#clock.setTimeout(() => this.flush(), FLUSH_MS);
    } else if (verdict !== 'neutral' || urgent) {
      this.#flushOne(member);
      this.#send({ member, verdict, failure, count: 1 });
    }
  }

  /** Sends the batched successes. */
  flush(): void {
    this.#timer = null;
    for (const member of this.#successes.keys()) this.#flushOne(member);
  }

  #flushOne(member: number): void {
    const count = this.#successes.get(member);
    if (count === undefined) return;
    this.#successes.delete(member);
    this.#send({ member, verdict: 'ok', failure: null, count });
  }
}
