// Shapes of the documents that the views read, where the server has no type for them.

import type { CrnOverview, ModelOverview, Overview } from '../overview.ts';

export interface Quantiles {
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
}

/** Figures over the last minute; null where nothing was measured. */
export interface RecentFigures {
  readonly seconds: number;
  readonly requestsPerS: number | null;
  readonly errorsPerS: number | null;
  readonly latencyMs: Quantiles;
  readonly firstByteMs: Quantiles;
  readonly gapMs: Quantiles;
  readonly inputTokensPerS: number | null;
  readonly cachedTokensPerS: number | null;
  readonly outputTokensPerS: number | null;
  readonly usdPerHour: number | null;
}

export interface CrnDocument extends CrnOverview {
  readonly lastProbe?: {
    readonly dateMs: number;
    readonly ok: boolean;
    readonly reason: string;
    readonly latencyMs: number;
  } | null;
  readonly lastFailure?: {
    readonly dateMs: number;
    readonly reason: string;
    readonly model: string;
    readonly requestId: string;
  } | null;
}

export interface ModelDocument extends ModelOverview {
  readonly recent?: RecentFigures;
  readonly tokens?: { readonly input: number; readonly cached: number; readonly output: number };
  readonly costUsd?: number | string;
}

export interface OverviewDocument extends Overview {
  readonly recent?: RecentFigures;
  readonly crns: readonly CrnDocument[];
  readonly models: readonly ModelDocument[];
}

/** Answer of `GET /history`. */
export interface HistoryDocument {
  readonly stepMs: number;
  readonly fromMs: number;
  readonly dateMs: readonly number[];
  readonly series: Readonly<Record<string, readonly (number | null)[]>>;
}
