// The load report as text, and the formatting of figures that text, HTML and live view share.
import { counted, printDuration } from '../config/units.ts';
import type { Arrivals } from './arrivals.ts';
import type { HistogramSummary } from './histogram.ts';
import type { LoadReport } from './load-report.ts';

/** Milliseconds with as many digits as matter. */
export function shownMs(ms: number): string {
  const size = Math.abs(ms);
  if (size >= 1000) return grouped(Math.round(ms));
  return ms.toFixed(size >= 100 ? 1 : size >= 1 ? 2 : 3);
}

/** A whole number with its thousands apart. */
export function grouped(count: number): string {
  return String(count).replace(/\B(?=(?:\d{3})+$)/g, ',');
}

/** A rate by second. */
export function shownRate(perSecond: number): string {
  return perSecond >= 1000 ? grouped(Math.round(perSecond)) : perSecond.toFixed(perSecond >= 100 ? 1 : 2);
}

/** A share in percent. */
function shownShare(share: number): string {
  return `${(share * 100).toFixed(share > 0 && share < 0.1 ? 2 : 1)} %`;
}

/** How requests arrive. */
export function shownArrivals(arrivals: Arrivals): string {
  if (arrivals.kind === 'trace')
    return `open loop, times of the trace${arrivals.speed === 1 ? '' : ` ×${arrivals.speed}`}`;
  const ramp = arrivals.rampMs > 0 ? `, ramp of ${printDuration(arrivals.rampMs)}` : '';
  if (arrivals.kind === 'closed') return `closed loop, ${counted(arrivals.users, 'user')}${ramp}`;
  return `open loop, ${arrivals.perSecond} a second, ${arrivals.kind === 'constant' ? 'evenly' : 'Poisson'}${ramp}`;
}

/** What a line of figures is called, in the order of the lines. */
export const MEASURES: readonly (readonly [keyof LoadReport['latency'], string])[] = [
  ['e2e', 'response, from intended'],
  ['service', 'service, from sent'],
  ['head', 'head of the answer'],
  ['ttfe', 'first event'],
  ['ttft', 'first text'],
  ['itl', 'between texts'],
  ['tpot', 'per output token'],
];

/** The summary lines above the figures: name and text. */
export function summary({ counts, shares, rates, run, tokens, confidence }: LoadReport): [string, string][] {
  const { ok, errors, dropped, unfinished, late } = counts;
  const plusMinus = confidence === undefined ? '' : ` ± ${shownRate(confidence.requestsPerSecond)}`;
  const limits = Object.entries(run.limits).map(([name, boundMs]) => `${name} ${printDuration(boundMs)}`);
  const cached = tokens.prompt > 0 ? `, ${shownShare(tokens.cached / tokens.prompt)} of them cached` : '';
  const estimated = tokens.countedShare < 1 && ok > 0 ? ', where the server did not count: events' : '';
  const lost = [`${grouped(dropped)} dropped`, `${grouped(unfinished)} unfinished`, `${grouped(late)} sent late`];
  const goodput = `${shownShare(shares.goodput)} within ${limits.join(', ')}: ${shownRate(rates.goodPerSecond)} a second`;
  return [
    ['requests', `${grouped(ok)} ok, ${grouped(errors)} failed (${shownShare(shares.errors)}), ${lost.join(', ')}`],
    ['rate', `${shownRate(rates.requestsPerSecond)}${plusMinus} a second`],
    ...(limits.length > 0 ? [['goodput', goodput] as [string, string]] : []),
    [
      'tokens',
      `${grouped(tokens.prompt)} in${cached}; ${grouped(tokens.output)} out, ` +
        `${shownRate(rates.outputTokensPerSecond)} a second${estimated}`,
    ],
  ];
}

/** The lines about the engine's own account: name and distribution. */
export function addedLatencyRows(added: NonNullable<LoadReport['truth']>): [string, LoadReport['lateness']][] {
  return [
    ["engine's own queue", added.engineQueue],
    ["engine's own first token", added.engineTtft],
    ['added to first text', added.addedTtft],
    ['added to each gap', added.addedGap],
    ['token over the fastest', added.tokenDelay],
    ['way to the engine', added.requestWay],
    ['way back, first token', added.answerWay],
  ];
}

/** How far the two clocks behind the ways can be apart. */
export function shownClock({ clock, unmatched }: NonNullable<LoadReport['truth']>): string {
  const { leastMs, mostMs, sped } = clock;
  const isOne = leastMs <= 0 && mostMs >= 0;
  const speed = sped === 1 ? '' : `; the host runs ${sped} times as fast as real`;
  const lost =
    unmatched === 0 ? '' : `; fewer texts than tokens in ${grouped(unmatched)} answers: their gaps are left out`;
  const range = `between ${shownMs(leastMs)} and ${shownMs(mostMs)} ms ahead of ours`;
  return isOne
    ? `one clock is possible: the engine's is ${range}${speed}${lost}`
    : `two clocks: the engine's is ${range}, so only sums of both ways hold${speed}${lost}`;
}

/** In place of the lines of figures. */
export const NO_TIMES = 'No request succeeded: there are no times of answers.';

const COLUMNS = ['mean', 'p50', 'p90', 'p95', 'p99', 'p999', 'max'] as const;
const NAME_WIDTH = 26;

/** Ends with a line end. */
export function tableOf(report: LoadReport): string {
  const { run, outcomes, truth, failed, confidence } = report;
  const lines = [
    `${run.url}, ${run.model}, ${run.dialect}${run.stream ? ', streamed' : ''}`,
    `${shownArrivals(run.arrivals)}; ${run.workload}; ${(report.measuredMs / 1000).toFixed(1)} s measured`,
    '',
    ...summary(report).map(([name, text]) => `  ${name.padEnd(10)} ${text}`),
    '',
    ...times(report),
  ];
  if (confidence !== undefined) lines.push('', `  95 %: ${intervals(confidence)}`);
  if (truth !== undefined) {
    lines.push('', heading('beside the engine'), ...addedLatencyRows(truth).map(([name, all]) => line(name, all)));
    lines.push(`  ${shownClock(truth)}`);
  }
  const wrong = byFrequency(outcomes);
  if (wrong.length > 0)
    lines.push('', '  failed with', ...wrong.map(([what, count]) => `    ${grouped(count)} × ${what}`));
  if (failed.length > 0) lines.push('', '  not as wanted', ...failed.map((what) => `    ${what}`));
  return `${lines.join('\n')}\n`;
}

/** What went wrong, most frequent first: names that are numbers, as of a status alone, come first in an object. */
export function byFrequency(outcomes: LoadReport['outcomes']): [string, number][] {
  return Object.entries(outcomes).sort(([, a], [, b]) => b - a);
}

/** How long answers took, and how late requests were sent; without an answer a sentence says so. */
function times({ counts, latency, lateness, run }: LoadReport): string[] {
  const lines = MEASURES.filter(([name]) => latency[name].count > 0).map(([name, text]) => line(text, latency[name]));
  if (run.arrivals.kind !== 'closed' && lateness.count > 0) lines.push(line('sent later than intended', lateness));
  const table = lines.length > 0 ? [heading('milliseconds'), ...lines] : [];
  if (counts.ok > 0) return table;
  return [`  ${NO_TIMES}`, ...(table.length > 0 ? ['', ...table] : [])];
}

function intervals({ ttftMeanMs, e2eMeanMs }: NonNullable<LoadReport['confidence']>): string {
  const response = `mean response ± ${shownMs(e2eMeanMs)} ms`;
  return ttftMeanMs === undefined ? response : `${response}, mean first text ± ${shownMs(ttftMeanMs)} ms`;
}

function heading(name: string): string {
  const columns = COLUMNS.map((column) => (column === 'p999' ? 'p99.9' : column).padStart(10));
  return `  ${name.padEnd(NAME_WIDTH)}${columns.join('')}`;
}

function line(name: string, all: HistogramSummary): string {
  return `  ${name.padEnd(NAME_WIDTH)}${COLUMNS.map((column) => shownMs(all[column]).padStart(10)).join('')}`;
}
