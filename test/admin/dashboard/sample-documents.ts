// Documents of a gateway with any number of models and CRNs, for tests of what the dashboard makes of them. The figures follow
// from the sizes and the date: no randomness.

import type { HistoryDocument, RecentFigures } from '../../../src/admin/history.ts';
import type { CrnOverview, ModelOverview, Overview } from '../../../src/admin/overview.ts';

export interface SampleSize {
  readonly crns: number;
  readonly models: number;
}

const wave = (at: number, period: number, low: number, high: number): number =>
  low + ((high - low) * (1 + Math.sin((at / period) * 2 * Math.PI))) / 2;

/** Of one model, at a moment. */
function recentAt(dateMs: number, part: number): RecentFigures {
  const seconds = dateMs / 1000;
  const requestsPerS = wave(seconds, 300, 20, 44) * part;
  return {
    seconds: 60,
    requestsPerS,
    errorsPerS: 0,
    abortedPerS: 0,
    latencyMs: {
      p50: wave(seconds, 210, 380, 460),
      p95: wave(seconds, 170, 1100, 1500),
      p99: wave(seconds, 130, 2100, 3200),
    },
    firstByteMs: {
      p50: wave(seconds, 190, 70, 95),
      p95: wave(seconds, 150, 210, 330),
      p99: wave(seconds, 110, 420, 700),
    },
    gapMs: { p50: 12, p95: 26, p99: wave(seconds, 90, 38, 55) },
    inputTokensPerS: requestsPerS * 1240,
    cachedTokensPerS: requestsPerS * wave(seconds, 400, 700, 900),
    outputTokensPerS: requestsPerS * 96,
    usdPerHour: requestsPerS * 0.42,
    cachedShare: wave(seconds, 400, 0.56, 0.73),
    predictedShare: wave(seconds, 400, 0.6, 0.78),
  };
}

const urlOf = (index: number): string => `http://gpu-${index + 1}.example.net:8000`;
const modelOf = (index: number): string => ['atlas-27b', 'finch-3b', 'heron-9b'][index] ?? `model-${index + 1}`;

const STANDINGS = ['up', 'up', 'up', 'up', 'up', 'up', 'down', 'up', 'drained', 'up', 'probing', 'up'];

function crnAt(index: number, dateMs: number, models: number): CrnOverview {
  const standing = STANDINGS[index % STANDINGS.length] ?? 'up';
  const isUp = standing === 'up';
  const load = wave(dateMs / 1000 + index * 37, 240, 0.5, 1);
  return {
    url: urlOf(index),
    inFlight: isUp ? Math.round(load * 9) : 0,
    attempts: Math.round((dateMs / 1000 - 1.79e9) * 3) + index * 91,
    failures: index % 5 === 1 ? 12 + index : 0,
    failovers: index % 5 === 1 ? 9 : 0,
    ejectedUntilMs: index % STANDINGS.length === 9 ? dateMs + 42_000 : null,
    kvEvents: null,
    predictedHit: isUp ? 0.62 + (index % 7) / 40 : null,
    reportedHit: isUp ? 0.58 + (index % 9) / 40 : null,
    backlogBytes: isUp ? Math.round(load * 48_000) : 0,
    lacks: [],
    lastProbe: isUp
      ? { dateMs: dateMs - 1400, ok: true, reason: null, latencyMs: 3 }
      : { dateMs: dateMs - 900, ok: false, reason: 'connection refused', latencyMs: 1 },
    lastFailure:
      index % 5 === 1
        ? {
            dateMs: dateMs - 184_000,
            reason: 'timeout after 2 s',
            model: modelOf(index % models),
            requestId: 'req-7f3a',
          }
        : null,
    models: [
      {
        model: modelOf(index % models),
        standing,
        firstByteMs: isUp ? 60 + (index % 11) * 7 : 0,
        capacityBytes: 192 * 1024 ** 2,
        bytesPerS: isUp ? 900_000 + (index % 6) * 60_000 : null,
        dialects: ['chat', 'responses'],
      },
    ],
  };
}

function modelAt(index: number, dateMs: number, models: number): ModelOverview {
  const total = Math.round((dateMs / 1000 - 1.79e9) * 10);
  return {
    model: modelOf(index),
    requests: total + index,
    errors: index === 1 ? 14 : 0,
    failovers: index === 1 ? 9 : 0,
    waiting: index === 0 ? 2 : 0,
    recent: recentAt(dateMs + index * 61_000, 1 / models),
    tokens: { input: total * 1240, cached: total * 800, output: total * 96 },
    costUsd: total * 0.0011,
    promptBytes: total * 5000,
    predictedBytes: total * 3300,
  };
}

/** Answer of `GET /overview`. */
export function sampleOverview({ crns, models }: SampleSize, dateMs: number): Overview {
  const recent = recentAt(dateMs, 1);
  return {
    dateMs,
    uptimeMs: 5_400_000 + (dateMs % 1_000_000),
    version: '0.1.0',
    stage: 'ready',
    discovery: [
      {
        ...{ source: 'dns vllm.default.svc', kind: 'dns', state: 'ok', problem: null, ageMs: 4200, models: 1 },
        ...{ servers: 8, changes: 3, failures: 0, notes: ['2 addresses are left out'] },
      },
      {
        ...{
          source: 'file servers.yaml',
          kind: 'file',
          state: 'failing',
          problem: 'servers.yaml cannot be read',
          ageMs: null,
        },
        ...{ models: 0, servers: 0, changes: 0, failures: 5, notes: [] },
      },
    ],
    orders: true,
    reloadable: true,
    publicUrl: 'http://127.0.0.1:8080',
    streams: 31,
    threads: [0, 1, 2].map((thread) => ({
      thread,
      inFlight: thread === 0 ? 0 : 21,
      delayMs: [0.2, 1.4 + thread, 4.8 + thread] as const,
      busyMs: (dateMs % 1e9) * (0.1 + thread * 0.2),
      heapBytes: (38 + thread * 11) * 1024 ** 2,
    })),
    cluster: {
      connected: true,
      gateways: ['7f3a', '91c2', 'e05d'].map((instance, index) => ({
        instance: instance.repeat(4),
        self: index === 0,
        name: `headrace-${index}`,
        version: '0.1.0',
        address: `10.0.0.${index + 11}:8080`,
        stage: index === 2 ? 'draining' : 'ready',
        uptimeMs: 5_400_000 - index * 1_000_000,
        inFlight: 42 - index * 11,
        requestsPerS: 12.4 - index * 3,
        ageMs: index * 180,
      })),
    },
    crns: Array.from({ length: crns }, (_, index) => crnAt(index, dateMs, models)),
    models: Array.from({ length: models }, (_, index) => modelAt(index, dateMs, models)),
    engines: [
      { engine: 'engine_a', standing: 'ready', suspendedUntilMs: 0, reason: '', answered: 812, failed: 0 },
      { engine: 'engine_b', standing: 'ready', suspendedUntilMs: 0, reason: 'timeout', answered: 790, failed: 22 },
      {
        engine: 'engine_c',
        standing: 'suspended',
        suspendedUntilMs: dateMs + 71_000,
        reason: 'rate limited',
        answered: 410,
        failed: 37,
      },
    ],
    fetch: { threads: 2, running: 1, queued: 0, replaced: 0, pages: 1904 },
    tools: [
      { endpoint: '/search', tool: 'mcp', answered: 1310, failed: 4, aborted: 2 },
      { endpoint: '/search/fetch', tool: 'mcp', answered: 922, failed: 31, aborted: 0 },
      { endpoint: '/search', tool: 'direct', answered: 540, failed: 0, aborted: 0 },
      { endpoint: '/tavily/search', tool: 'tavily', answered: 162, failed: 1, aborted: 0 },
    ],
    ledger: { spentTodayUsd: '81.44218', waiting: 0 },
    responses: { stored: 0, notStored: 0, waitingBytes: 0, background: 0 },
    errors: Array.from({ length: 3 }, (_, index) => ({
      requestId: `0b7c4f1e-6f1${index}`,
      dateMs: dateMs - 184_000 * (index + 1),
      endpoint: '/v1/chat/completions',
      model: modelOf(1),
      code: index === 0 ? 'HR_UPSTREAM_TIMEOUT' : 'HR_ROUTE_NO_CRN',
      status: index === 0 ? 504 : 503,
      crn: index === 0 ? urlOf(1) : '',
    })),
    recent,
  };
}

/** Answer of `GET /history` of the gateway or a model. */
export function sampleHistory(toMs: number, lengthMs: number): HistoryDocument {
  const stepMs = lengthMs > 3_600_000 ? 60_000 : 5000;
  const dateMs = Array.from(
    { length: Math.floor(lengthMs / stepMs) },
    (_, index) => toMs - lengthMs + (index + 1) * stepMs,
  );
  const series = (valueOf: (seconds: number) => number | null): (number | null)[] =>
    dateMs.map((date) => valueOf(date / 1000));
  const recent = (pick: (figures: ReturnType<typeof recentAt>) => number | null): (number | null)[] =>
    dateMs.map((date) => pick(recentAt(date + 7000 * Math.sin(date / 9000), 1)));
  const fault = (seconds: number): number => (seconds % 700 < 40 ? 0.8 : 0);
  return {
    range: lengthMs > 3_600_000 ? '24h' : '15m',
    stepMs,
    fromMs: toMs - lengthMs,
    dateMs,
    series: {
      requestsPerS: recent((of) => of.requestsPerS),
      errorsPerS: series(fault),
      abortedPerS: series((seconds) => wave(seconds, 77, 0, 0.6)),
      latencyP50Ms: recent((of) => of.latencyMs.p50),
      latencyP95Ms: recent((of) => of.latencyMs.p95),
      latencyP99Ms: recent((of) => of.latencyMs.p99),
      firstByteP50Ms: recent((of) => of.firstByteMs.p50),
      firstByteP95Ms: recent((of) => of.firstByteMs.p95),
      firstByteP99Ms: recent((of) => of.firstByteMs.p99),
      gapP50Ms: recent((of) => of.gapMs.p50),
      gapP99Ms: recent((of) => of.gapMs.p99),
      inputTokensPerS: recent((of) => of.inputTokensPerS),
      cachedTokensPerS: recent((of) => of.cachedTokensPerS),
      outputTokensPerS: recent((of) => of.outputTokensPerS),
      cachedShare: series((seconds) => wave(seconds, 400, 0.56, 0.73)),
      usdPerHour: recent((of) => of.usdPerHour),
      inFlight: series((seconds) => Math.round(wave(seconds, 300, 22, 48))),
      waiting: series((seconds) => Math.round(wave(seconds, 90, 0, 3))),
      attemptsPerS: series((seconds) => wave(seconds, 240, 2, 4)),
      failuresPerS: series(fault),
      firstByteMs: series((seconds) => wave(seconds, 200, 60, 95)),
      predictedHit: series((seconds) => wave(seconds, 400, 0.58, 0.76)),
      reportedHit: series((seconds) => wave(seconds, 400, 0.55, 0.72)),
      backlogBytes: series((seconds) => wave(seconds, 60, 0, 64_000)),
    },
  };
}
