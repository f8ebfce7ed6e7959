// What the history samples of each thread: counts since its start, in typed arrays, so that a sample costs a thread a fraction of
// a millisecond with thousands of series.

import type { HistogramCounts } from './series.ts';

/** Counts of a model, in this order. Tokens: `cached` is a part of `input`. Bytes of prompts: `predicted` is a part of `prompt`. */
export const MODEL_COUNTS = [
  'requests',
  'errors',
  'aborted',
  'input',
  'cached',
  'output',
  'usd',
  'promptBytes',
  'predictedBytes',
] as const;

/** Histograms of a model: seconds to the end of a request, to the first piece of a stream, between two pieces. */
export const MODEL_HISTOGRAMS = ['latency', 'firstByte', 'gap'] as const;

/** Counts of a CRN, in this order: bytes of prompts by predicted hit or miss, tokens of prompts and those reported as cached. */
export const CRN_COUNTS = ['attempts', 'failures', 'hitBytes', 'missBytes', 'promptTokens', 'cachedTokens'] as const;

export interface ModelTotals {
  /** Configured id; empty for requests that name none. */
  readonly model: string;
  /** By `MODEL_COUNTS`. */
  readonly counts: Float64Array;
  /** By `MODEL_HISTOGRAMS`. */
  readonly histograms: readonly HistogramCounts[];
  /** Requests that have no complete answer yet. */
  readonly inFlight: number;
  /** Requests that wait for a CRN with a short backlog. */
  readonly waiting: number;
}

/** The counts of one thread. */
export interface ThreadTotals {
  readonly thread: number;
  /** Another number after each start of the thread, when counts begin at 0. */
  readonly generation: number;
  /** Counts the reports of the thread. */
  readonly sequence: number;
  readonly models: readonly ModelTotals[];
  /** Base URLs. */
  readonly crns: readonly string[];
  /** `CRN_COUNTS` of the first URL, of the second … */
  readonly crnCounts: Float64Array;
}
