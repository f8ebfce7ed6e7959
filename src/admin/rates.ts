// Rates between two overview documents, and the text of numbers and times. The dashboard's script contains the source text of
// these functions (dashboard-script.ts), so each may use only the others in this file.

import type { Overview } from './overview.ts';

/** The time between two documents. Numbers that nothing was measured for are null. */
export interface Rates {
  readonly seconds: number;
  readonly total: ModelRates;
  readonly models: readonly (ModelRates & { readonly model: string })[];
  /** Attempts a second by base URL. */
  readonly crns: Readonly<Record<string, number>>;
  /** Share of the time in which a thread was busy, 0 to 1, in the order of the document. */
  readonly busy: readonly number[];
}

export interface ModelRates {
  readonly requestsPerS: number;
  readonly errorsPerS: number;
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  /** Median and 99th percentile of the time to the first piece of a stream. */
  readonly firstByteP50Ms: number | null;
  readonly firstByteP99Ms: number | null;
  /** Tokens of the answers that ended in this time; `cached` are a part of `input`. */
  readonly inputTokensPerS: number;
  readonly cachedTokensPerS: number;
  readonly outputTokensPerS: number;
  /** Share of the input tokens that came from caches, as CRNs report it; null without input. */
  readonly cachedShare: number | null;
  /** Share of the bytes of prompts that was expected in caches when CRNs were chosen; null without prompts. */
  readonly predictedShare: number | null;
  /** What an hour like this time costs. */
  readonly usdPerHour: number;
}

/** How often per place; a count that went down belongs to a thread that was started anew and counts as it stands. */
export function growth(before: readonly number[] | undefined, after: readonly number[]): number[] {
  const grown = after.map((count, index) => count - (before?.[index] ?? 0));
  return grown.some((count) => count < 0) ? [...after] : grown;
}

/** Sums lists place by place. */
export function sumOf(lists: readonly (readonly number[])[]): number[] {
  const sums: number[] = [];
  for (const list of lists) for (const [index, count] of list.entries()) sums[index] = (sums[index] ?? 0) + count;
  return sums;
}

/** A quantile in milliseconds from cumulative counts, by straight lines within a bucket; null without any. */
export function quantileMs(boundsS: readonly number[], counts: readonly number[], quantile: number): number | null {
  const total = counts.at(-1) ?? 0;
  if (total <= 0) return null;
  const rank = quantile * total;
  const bucket = counts.findIndex((count) => count >= rank);
  const upper = boundsS[bucket];
  // Beyond the last bound nothing is known but that.
  if (upper === undefined) return (boundsS.at(-1) ?? 0) * 1000;
  const lower = boundsS[bucket - 1] ?? 0;
  const below = counts[bucket - 1] ?? 0;
  const inside = (counts[bucket] ?? 0) - below;
  return (lower + (upper - lower) * (inside > 0 ? (rank - below) / inside : 1)) * 1000;
}

/** What the answers of a model took, place by place: tokens, USD, bytes of prompts. */
export function usedBy(model: Overview['models'][number]): number[] {
  const { costUsd, predictedBytes, promptBytes, tokens } = model;
  return [tokens.input, tokens.cached, tokens.output, costUsd, promptBytes, predictedBytes];
}

/** The rates between two documents of one gateway. */
export function ratesBetween(before: Overview, after: Overview): Rates {
  const seconds = Math.max((after.dateMs - before.dateMs) / 1000, 0.001);
  const known = new Map(before.models.map((model) => [model.model, model]));
  const grown = after.models.map((model) => {
    const old = known.get(model.model);
    const [requests = 0, errors = 0] = growth(old && [old.requests, old.errors], [model.requests, model.errors]);
    const duration = growth(old?.duration, model.duration);
    const used = growth(old && usedBy(old), usedBy(model));
    return { model: model.model, requests, errors, duration, firstByte: growth(old?.firstByte, model.firstByte), used };
  });
  const rate = (parts: typeof grown): ModelRates => {
    const duration = sumOf(parts.map((part) => part.duration));
    const firstByte = sumOf(parts.map((part) => part.firstByte));
    const used = sumOf(parts.map((part) => part.used));
    const [input = 0, cached = 0, output = 0, usd = 0, promptBytes = 0, predictedBytes = 0] = used;
    return {
      requestsPerS: parts.reduce((sum, { requests }) => sum + requests, 0) / seconds,
      errorsPerS: parts.reduce((sum, { errors }) => sum + errors, 0) / seconds,
      p50Ms: quantileMs(after.boundsS, duration, 0.5),
      p99Ms: quantileMs(after.boundsS, duration, 0.99),
      firstByteP50Ms: quantileMs(after.boundsS, firstByte, 0.5),
      firstByteP99Ms: quantileMs(after.boundsS, firstByte, 0.99),
      inputTokensPerS: input / seconds,
      cachedTokensPerS: cached / seconds,
      outputTokensPerS: output / seconds,
      cachedShare: input > 0 ? cached / input : null,
      predictedShare: promptBytes > 0 ? predictedBytes / promptBytes : null,
      usdPerHour: (usd * 3600) / seconds,
    };
  };
  const attempts = new Map(before.crns.map((crn) => [crn.url, crn.attempts]));
  const busyMs = new Map(before.threads.map((thread) => [thread.thread, thread.busyMs]));
  return {
    seconds,
    total: rate(grown),
    models: grown.map((part) => ({ model: part.model, ...rate([part]) })),
    crns: Object.fromEntries(
      after.crns.map((crn) => {
        const [count = 0] = growth([attempts.get(crn.url) ?? 0], [crn.attempts]);
        return [crn.url, count / seconds];
      }),
    ),
    busy: after.threads.map((thread) => {
      const [grownMs = 0] = growth([busyMs.get(thread.thread) ?? 0], [thread.busyMs]);
      return Math.min(grownMs / seconds / 1000, 1);
    }),
  };
}

/** A count or a rate: one digit behind the point below ten. */
export function numberText(value: number): string {
  return value < 10 ? value.toFixed(value % 1 === 0 ? 0 : 1) : Math.round(value).toLocaleString('en');
}

/** A time measured; a dash when there is none. */
export function timeText(ms: number | null): string {
  if (ms === null) return '–';
  return ms < 1000 ? `${numberText(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** How long something has lasted or will last, in its largest fitting unit. */
export function durationText(ms: number): string {
  const seconds = Math.max(Math.round(ms / 1000), 0);
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`;
}
