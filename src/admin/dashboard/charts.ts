// The charts of the views by the names of the series in the history document.

import type { HistoryChart } from './components/history-charts.tsx';
import { bytesText, compactText, latencyText, rateText, shareText, usdText } from './format.ts';

const REQUESTS: HistoryChart = {
  title: 'Requests',
  note: 'per second',
  print: rateText,
  lines: [
    { series: 'requestsPerS', name: 'all', color: 1, filled: true },
    { series: 'errorsPerS', name: 'errors', color: 'bad' },
    { series: 'abortedPerS', name: 'aborted', color: 3, dashed: true },
  ],
};

const quantiles = (title: string, series: string, note?: string): HistoryChart => ({
  title,
  ...(note !== undefined && { note }),
  print: latencyText,
  lines: [
    { series: `${series}P50Ms`, name: 'p50', color: 1 },
    { series: `${series}P95Ms`, name: 'p95', color: 2 },
    { series: `${series}P99Ms`, name: 'p99', color: 4 },
  ],
});

const TOKENS: HistoryChart = {
  title: 'Tokens',
  note: 'per second',
  print: compactText,
  lines: [
    { series: 'inputTokensPerS', name: 'input', color: 2 },
    { series: 'cachedTokensPerS', name: 'of it cached', color: 6, dashed: true },
    { series: 'outputTokensPerS', name: 'output', color: 1 },
  ],
};

const CACHED: HistoryChart = {
  title: 'Cached share of prompts',
  print: shareText,
  top: 1,
  lines: [{ series: 'cachedShare', name: 'cached', color: 6, filled: true }],
};

const LOAD: HistoryChart = {
  title: 'Requests in progress',
  print: compactText,
  lines: [
    { series: 'inFlight', name: 'in flight', color: 1, filled: true },
    { series: 'waiting', name: 'waiting', color: 3 },
  ],
};

const COST: HistoryChart = {
  title: 'Cost',
  note: 'USD per hour',
  print: usdText,
  lines: [{ series: 'usdPerHour', name: 'cost', color: 5, filled: true }],
};

const GAPS: HistoryChart = {
  title: 'Gap between pieces of streams',
  print: latencyText,
  lines: [
    { series: 'gapP50Ms', name: 'p50', color: 1 },
    { series: 'gapP99Ms', name: 'p99', color: 4 },
  ],
};

/** Of the gateway, or of one model. */
export const TRAFFIC_CHARTS: readonly HistoryChart[] = [
  REQUESTS,
  quantiles('Latency', 'latency', 'request to end of answer'),
  quantiles('First byte', 'firstByte', 'of streams'),
  TOKENS,
  CACHED,
  LOAD,
  GAPS,
  COST,
];

/** Of one CRN. */
export const CRN_CHARTS: readonly HistoryChart[] = [
  {
    title: 'Attempts',
    note: 'per second',
    print: rateText,
    lines: [
      { series: 'attemptsPerS', name: 'all', color: 1, filled: true },
      { series: 'failuresPerS', name: 'failed', color: 'bad' },
    ],
  },
  {
    title: 'In flight',
    print: compactText,
    lines: [{ series: 'inFlight', name: 'in flight', color: 1, filled: true }],
  },
  {
    title: 'First byte',
    note: 'moving average',
    print: latencyText,
    lines: [{ series: 'firstByteMs', name: 'first byte', color: 2 }],
  },
  {
    title: 'Cache hits',
    note: 'share of prompts',
    print: shareText,
    top: 1,
    lines: [
      { series: 'predictedHit', name: 'predicted', color: 2, dashed: true },
      { series: 'reportedHit', name: 'reported', color: 6 },
    ],
  },
  {
    title: 'Backlog',
    note: 'prompts that wait for prefill',
    print: bytesText,
    isBytes: true,
    lines: [{ series: 'backlogBytes', name: 'backlog', color: 3, filled: true }],
  },
];
