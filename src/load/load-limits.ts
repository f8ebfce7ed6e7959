// Limits of a request (`--slo`) and failure conditions of a run (`--fail-on`): parsing and evaluation.
import { parseDuration } from '../config/units.ts';
import type { HistogramSummary } from './histogram.ts';
import type { Sample } from './sample.ts';
import { LoadError } from './workload.ts';

/** What a limit may be set for, with the figure of a sample that it holds against; `itl` is the mean gap, `stall` the longest. */
const FIGURES: Readonly<Record<string, (sample: Sample) => number>> = {
  ttft: ({ ttftMs }) => ttftMs,
  itl: ({ gapsMs }) => (gapsMs.length === 0 ? 0 : gapsMs.reduce((sum, gapMs) => sum + gapMs, 0) / gapsMs.length),
  stall: ({ gapsMs }) => gapsMs.reduce((most, gapMs) => Math.max(most, gapMs), 0),
  tpot: ({ tpotMs }) => (Number.isNaN(tpotMs) ? 0 : tpotMs),
  e2e: ({ e2eMs }) => e2eMs,
};

/** Upper bounds of figures, in milliseconds. */
export type Limits = Readonly<Record<string, number>>;

/** Reads `ttft:500ms,itl:50ms,e2e:10s`. Throws `LoadError`. */
export function readLimits(text: string): Limits {
  const limits: Record<string, number> = {};
  for (const part of text.split(',')) {
    const [name = '', bound = ''] = part.trim().split(':');
    const boundMs = parseDuration(bound);
    if (!Object.hasOwn(FIGURES, name) || boundMs === undefined) {
      throw new LoadError(
        `"${part}" is no limit; one is NAME:DURATION, NAME one of ${Object.keys(FIGURES).join(', ')}`,
      );
    }
    limits[name] = boundMs;
  }
  return limits;
}

/** Whether a request went well and within all limits; an answer without text is not within a limit of its first text. */
export function meets(limits: Limits, sample: Sample): boolean {
  if (sample.outcome !== 'ok') return false;
  return Object.entries(limits).every(
    ([name, boundMs]) => (FIGURES[name] as (typeof FIGURES)[string])(sample) <= boundMs,
  );
}

/** What a condition may ask of a run. */
export interface RunFigures {
  readonly shares: Readonly<Record<'errors' | 'goodput', number>>;
  readonly numbers: Readonly<Record<'rps' | 'dropped' | 'late' | 'unfinished', number>>;
  readonly latency: Readonly<Record<string, HistogramSummary>>;
}

/** A condition under which a run has failed. */
export interface Condition {
  /** As it was written. */
  readonly text: string;
  readonly figure: (figures: RunFigures) => number | undefined;
  readonly isMore: boolean;
  readonly bound: number;
}

const PERCENTILES = ['mean', 'min', 'p50', 'p90', 'p95', 'p99', 'p999', 'max'] as const;
const CONDITION = /^\s*([a-z0-9]+)(?:\.([a-z0-9.]+))?\s*([<>])\s*([\d.]+)\s*([a-z%]*)\s*$/;

/** Reads `errors>1%,ttft.p99>500ms,goodput<95%,rps<10`. Throws `LoadError`. */
export function readConditions(text: string): Condition[] {
  return text.split(',').map((part) => {
    const [, name = '', at, sign, digits = '', unit = ''] = CONDITION.exec(part) ?? [];
    const read = figureOf(name, at?.replace('99.9', '999'));
    const bound = boundOf(name, digits, unit);
    if (read === undefined || bound === undefined) {
      throw new LoadError(
        `"${part}" is no condition; some are errors>1%, goodput<95%, rps<10, dropped>0, late>0, unfinished>0, ttft.p99>500ms`,
      );
    }
    return { text: part.trim(), figure: read, isMore: sign === '>', bound };
  });
}

const SHARES = ['errors', 'goodput'];
const NUMBERS = ['rps', 'dropped', 'late', 'unfinished'];
/** `added` and `delay` come from the engine's own account: added to the first text, token over the fastest. */
const LATENCIES = ['e2e', 'service', 'head', 'ttfe', 'ttft', 'itl', 'tpot', 'added', 'delay'];

function figureOf(name: string, at: string | undefined): Condition['figure'] | undefined {
  if (at === undefined && SHARES.includes(name)) return ({ shares }) => shares[name as 'errors'];
  if (at === undefined && NUMBERS.includes(name)) return ({ numbers }) => numbers[name as 'rps'];
  const percentile = PERCENTILES.find((known) => known === at);
  if (percentile === undefined || !LATENCIES.includes(name)) return undefined;
  return ({ latency }) => (latency[name]?.count === 0 ? undefined : latency[name]?.[percentile]);
}

function boundOf(name: string, digits: string, unit: string): number | undefined {
  const value = Number(digits);
  if (digits === '' || !Number.isFinite(value)) return undefined;
  if (SHARES.includes(name)) return shareOf(value, unit);
  if (NUMBERS.includes(name)) return unit === '' ? value : undefined;
  return parseDuration(`${digits}${unit}`);
}

/** No share is above one: `errors>5` would never be true. */
function shareOf(value: number, unit: string): number | undefined {
  const share = unit === '%' ? value / 100 : value;
  return (unit === '%' || unit === '') && share <= 1 ? share : undefined;
}

/** The conditions that came true, with the figure. A latency of which nothing was measured fails its condition. */
export function failures(conditions: readonly Condition[], figures: RunFigures): string[] {
  return conditions.flatMap(({ text, figure, isMore, bound }) => {
    const found = figure(figures);
    if (found === undefined) return `${text}: nothing was measured`;
    const came = isMore ? found > bound : found < bound;
    return came ? `${text}: it is ${Number(found.toFixed(4))}` : [];
  });
}
