// What the history samples of each thread: counts since its start, in parts of so many models that making and posting one takes
// a thread a few milliseconds.

import { allParts, type Part } from './parts.ts';
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

/** Models of one part. Each has three histograms, of up to 450 buckets for each of its endpoints. */
export const MODELS_PER_PART = 64;

/** The counts of one thread, or those of the models of one part. */
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

/** A part of the totals. CRNs are in the first one. */
export interface TotalsPart extends ThreadTotals, Part {}

/** What a thread has to do. */
export interface ThreadLoad {
  /** Requests answered since its start. */
  readonly requests: number;
  /** Requests that have no complete answer yet. */
  readonly inFlight: number;
}

/** The entries of a part, counted from 0. */
export function partOf<T>(
  all: readonly T[],
  part: number,
): { readonly entries: readonly T[]; readonly isLast: boolean } {
  const end = (part + 1) * MODELS_PER_PART;
  return { entries: all.slice(end - MODELS_PER_PART, end), isLast: end >= all.length };
}

/** Reads one part after the other; null when one does not come, or the thread was started anew meanwhile. */
export async function allTotals(read: (part: number) => Promise<TotalsPart | null>): Promise<ThreadTotals | null> {
  const parts = await allParts(read);
  const [first] = parts ?? [];
  if (parts === null || first === undefined || parts.some(({ generation }) => generation !== first.generation))
    return null;
  return { ...first, models: parts.flatMap(({ models }) => models) };
}
