// The report of a load run as one object: the JSON output, and the source of the text and HTML reports. Milliseconds and
// counts; it contains no key, no prompt and no answer.
import type { AddedLatencyReport } from './added-latency.ts';
import type { Arrivals } from './arrivals.ts';
import type { HistogramSummary } from './histogram.ts';
import { type Condition, type RunFigures, type Limits, failures } from './load-limits.ts';
import type { LoadRun } from './load-run.ts';
import type { Measure, Recorder } from './recorder.ts';
import type { Confidence, Stretch } from './time-series.ts';

/** The parameters of a run, to read or repeat it. */
export interface RunDescription {
  readonly url: string;
  readonly model: string;
  readonly dialect: string;
  readonly stream: boolean;
  readonly arrivals: Arrivals;
  readonly workload: string;
  readonly seed: number;
  readonly warmUpMs: number;
  readonly limits: Limits;
  /** A date in ISO 8601. */
  readonly startedAt: string;
}

export interface LoadReport extends RunFigures {
  readonly version: 1;
  readonly run: RunDescription;
  /** From the end of the warm-up to the last answer. */
  readonly measuredMs: number;
  /** Counted after the warm-up, but for `sent` and `unfinished`. */
  readonly counts: {
    readonly sent: number;
    readonly requests: number;
    readonly ok: number;
    readonly errors: number;
    readonly good: number;
    readonly late: number;
    readonly dropped: number;
    readonly unfinished: number;
  };
  readonly rates: {
    /** Requests that went well, and those of them within all limits, by second. */
    readonly requestsPerSecond: number;
    readonly goodPerSecond: number;
    readonly outputTokensPerSecond: number;
    readonly bytesPerSecond: number;
  };
  /** Requests that went well. */
  readonly latency: Readonly<Record<Measure, HistogramSummary>>;
  readonly lateness: HistogramSummary;
  /** From sending to failure. */
  readonly failing: HistogramSummary;
  readonly tokens: {
    readonly prompt: number;
    readonly cached: number;
    readonly output: number;
    /** Share of the answers whose tokens the server counted; for the others events are counted. */
    readonly countedShare: number;
  };
  /** What went wrong. */
  readonly outcomes: Readonly<Record<string, number>>;
  /** Half widths of 95 % intervals; missing for a run that is too short for it. */
  readonly confidence?: Confidence;
  readonly truth?: AddedLatencyReport;
  readonly series: { readonly widthMs: number; readonly stretches: readonly Stretch[] };
  /** Points [value, share] of cumulative distributions, at most 200 each. */
  readonly cumulative: Readonly<Record<'e2e' | 'service' | 'ttft' | 'itl', readonly (readonly [number, number])[]>>;
  /** Conditions of failure that came true. */
  readonly failed: readonly string[];
}

/** Points of a cumulative distribution that are kept. */
const POINTS = 200;

/** Sums a run up. */
export function loadReport(
  run: RunDescription,
  { sent, late, dropped, unfinished, startMs, endMs }: LoadRun,
  recorder: Recorder,
  conditions: readonly Condition[],
): LoadReport {
  const measuredMs = Math.max(endMs - startMs - run.warmUpMs, 0);
  const perSecond = (count: number): number => (measuredMs === 0 ? 0 : (count * 1000) / measuredMs);
  const { ok, errors, good, requests, measures } = recorder;
  // What was dropped or cut had no answer within any limit.
  const wanted = requests + dropped + unfinished;
  const shares = { errors: requests === 0 ? 0 : errors / requests, goodput: wanted === 0 ? 0 : good / wanted };
  const numbers = { rps: perSecond(ok), dropped, late, unfinished };
  const latency = latencies(measures);
  const confidence = recorder.series.confidence(run.warmUpMs, endMs - startMs);
  const truth = recorder.truth.report();
  return {
    version: 1,
    run,
    measuredMs,
    counts: { sent, requests, ok, errors, good, late, dropped, unfinished },
    rates: {
      requestsPerSecond: perSecond(ok),
      goodPerSecond: perSecond(good),
      outputTokensPerSecond: perSecond(recorder.outputTokens),
      bytesPerSecond: perSecond(recorder.bytes),
    },
    ...{ shares, numbers, latency },
    lateness: recorder.lateness.distribution(),
    failing: recorder.failing.distribution(),
    tokens: {
      prompt: recorder.promptTokens,
      cached: recorder.cachedTokens,
      output: recorder.outputTokens,
      countedShare: ok === 0 ? 0 : recorder.counted / ok,
    },
    outcomes: Object.fromEntries(recorder.outcomes),
    ...(confidence !== undefined && { confidence }),
    ...(truth !== undefined && { truth }),
    series: { widthMs: recorder.series.widthMs, stretches: recorder.series.stretches },
    cumulative: cumulatives(measures),
    failed: failures(conditions, { shares, numbers, latency: { ...latency, ...besideEngine(truth) } }),
  };
}

/** What conditions may ask of the engine's own account. */
function besideEngine(truth: AddedLatencyReport | undefined): RunFigures['latency'] {
  return truth === undefined ? {} : { added: truth.addedTtft, delay: truth.tokenDelay };
}

function latencies(measures: Recorder['measures']): Record<Measure, HistogramSummary> {
  const all = Object.entries(measures).map(([name, histogram]) => [name, histogram.distribution()] as const);
  return Object.fromEntries(all) as Record<Measure, HistogramSummary>;
}

function cumulatives({ e2e, service, ttft, itl }: Recorder['measures']): LoadReport['cumulative'] {
  const thinned = (points: readonly (readonly [number, number])[]): (readonly [number, number])[] => {
    const step = Math.max(1, Math.ceil(points.length / POINTS));
    return points.filter((_, at) => at % step === 0 || at === points.length - 1);
  };
  return {
    e2e: thinned(e2e.cumulative()),
    service: thinned(service.cumulative()),
    ttft: thinned(ttft.cumulative()),
    itl: thinned(itl.cumulative()),
  };
}
