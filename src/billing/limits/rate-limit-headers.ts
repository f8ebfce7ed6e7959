// Headers that tell clients how much of a key's limits is left: `x-ratelimit-*` as OpenAI documents them, and on paths of the
// Messages API `anthropic-ratelimit-*` as Anthropic documents them. Lists are flat: name, value, name, value.

import { BUCKET_MS, WINDOW_BUCKETS } from './limit-table.ts';
import type { Exceeded, LimitReservation } from './key-limiter.ts';

/** Names of the headers, as one family of SDKs reads them. */
type Family = 'openai' | 'anthropic';

type Kind = 'requests' | 'tokens';

const NAMES: Readonly<
  Record<Family, Readonly<Record<Kind, readonly [limit: string, remaining: string, reset: string]>>>
> = {
  openai: {
    requests: ['x-ratelimit-limit-requests', 'x-ratelimit-remaining-requests', 'x-ratelimit-reset-requests'],
    tokens: ['x-ratelimit-limit-tokens', 'x-ratelimit-remaining-tokens', 'x-ratelimit-reset-tokens'],
  },
  anthropic: {
    requests: [
      'anthropic-ratelimit-requests-limit',
      'anthropic-ratelimit-requests-remaining',
      'anthropic-ratelimit-requests-reset',
    ],
    tokens: [
      'anthropic-ratelimit-tokens-limit',
      'anthropic-ratelimit-tokens-remaining',
      'anthropic-ratelimit-tokens-reset',
    ],
  },
};

/** Appends what is left after a request was admitted. Nothing for a key without limits per minute. */
export function addRateLimitHeaders(
  headers: string[],
  { allowance, bucket, remainingRequests, remainingTokens }: LimitReservation,
  family: Family,
  nowMs: number,
): void {
  if (allowance === null) return;
  const reset = resetText(family, (bucket + WINDOW_BUCKETS) * BUCKET_MS - nowMs, nowMs);
  add(headers, family, 'requests', allowance.requestsPerMinute, remainingRequests, reset);
  add(headers, family, 'tokens', allowance.tokensPerMinute, remainingTokens, reset);
}

/** The headers of a refusal by a key's own limits, `retry-after` among them. */
export function refusalHeaders(
  exceeded: Extract<Exceeded, { kind: 'running' | 'requests' | 'tokens' | 'size' }>,
  family: Family,
  nowMs: number,
): string[] {
  const { allowance, kind, remainingRequests, remainingTokens, resetMs, retryMs } = exceeded;
  if (kind === 'size') return ['x-should-retry', 'false'];
  const headers = retryHeaders(retryMs);
  const reset = resetText(family, resetMs, nowMs);
  add(headers, family, 'requests', allowance.requestsPerMinute, remainingRequests, reset);
  add(headers, family, 'tokens', allowance.tokensPerMinute, remainingTokens, reset);
  return headers;
}

/** When it is not known when to retry: long enough for requests under way to end. */
const UNKNOWN_RETRY_MS = 1000;

/** `retry-after` in whole seconds (RFC 9110 §10.2.3), and the same in milliseconds for SDKs that read it first. */
export function retryHeaders(retryMs: number): string[] {
  const waitMs = Math.ceil(retryMs) || UNKNOWN_RETRY_MS;
  return ['retry-after', String(Math.ceil(waitMs / 1000)), 'retry-after-ms', String(waitMs)];
}

function add(
  headers: string[],
  family: Family,
  kind: Kind,
  limit: number | undefined,
  remaining: number,
  reset: string,
): void {
  if (limit === undefined) return;
  const [limitName, remainingName, resetName] = NAMES[family][kind];
  headers.push(limitName, String(limit), remainingName, String(remaining), resetName, reset);
}

// Requests of one millisecond have the same text mostly: this is the last one.
let lastText = '';
let lastFamily: Family = 'openai';
let lastWaitMs = -1;
let lastNowMs = -1;

/** OpenAI sends durations such as `1m2.5s` or `120ms`, Anthropic dates (RFC 3339). */
function resetText(family: Family, waitMs: number, nowMs: number): string {
  const wholeMs = Math.max(Math.ceil(waitMs), 0);
  if (wholeMs === lastWaitMs && nowMs === lastNowMs && family === lastFamily) return lastText;
  lastText = family === 'openai' ? durationText(wholeMs) : dateText(nowMs + wholeMs);
  lastFamily = family;
  lastWaitMs = wholeMs;
  lastNowMs = nowMs;
  return lastText;
}

function durationText(wholeMs: number): string {
  if (wholeMs < 1000) return `${wholeMs}ms`;
  const minutes = Math.floor(wholeMs / 60_000);
  return `${minutes === 0 ? '' : `${minutes}m`}${(wholeMs % 60_000) / 1000}s`;
}

/** In whole seconds, rounded up: the limit is restored by then. */
function dateText(epochMs: number): string {
  return `${new Date(Math.ceil(epochMs / 1000) * 1000).toISOString().slice(0, 19)}Z`;
}
