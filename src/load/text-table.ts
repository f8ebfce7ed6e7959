// The report as text for a terminal: sentences, then lines of figures.

import type { Distribution } from './histogram.ts';
import type { LoadReport } from './report.ts';
import { grouped, MEASURES, shownArrivals, shownClock, shownMs, summary, truthRows } from './wording.ts';

const COLUMNS = ['mean', 'p50', 'p90', 'p95', 'p99', 'p999', 'max'] as const;
const NAME_WIDTH = 26;

/** Ends with a line end. */
export function tableOf(report: LoadReport): string {
  const { run, latency, lateness, outcomes, truth, failed, confidence } = report;
  const lines = [
    `${run.url}, ${run.model}, ${run.dialect}${run.stream ? ', streamed' : ''}`,
    `${shownArrivals(run.arrivals)}; ${run.workload}; ${(report.measuredMs / 1000).toFixed(1)} s measured`,
    '',
    ...summary(report).map(([name, text]) => `  ${name.padEnd(10)} ${text}`),
    '',
    heading('milliseconds'),
    ...MEASURES.filter(([name]) => latency[name].count > 0).map(([name, text]) => line(text, latency[name])),
    ...(run.arrivals.kind === 'closed' ? [] : [line('sent later than intended', lateness)]),
  ];
  if (confidence !== undefined) lines.push('', `  95 %: ${intervals(confidence)}`);
  if (truth !== undefined) {
    lines.push('', heading('beside the engine'), ...truthRows(truth).map(([name, all]) => line(name, all)));
    lines.push(`  ${shownClock(truth)}`);
  }
  const wrong = Object.entries(outcomes);
  if (wrong.length > 0)
    lines.push('', '  failed with', ...wrong.map(([what, count]) => `    ${grouped(count)} × ${what}`));
  if (failed.length > 0) lines.push('', '  not as wanted', ...failed.map((what) => `    ${what}`));
  return `${lines.join('\n')}\n`;
}

function intervals({ ttftMeanMs, e2eMeanMs }: NonNullable<LoadReport['confidence']>): string {
  const response = `mean response ± ${shownMs(e2eMeanMs)} ms`;
  return ttftMeanMs === undefined ? response : `${response}, mean first text ± ${shownMs(ttftMeanMs)} ms`;
}

function heading(name: string): string {
  const columns = COLUMNS.map((column) => (column === 'p999' ? 'p99.9' : column).padStart(10));
  return `  ${name.padEnd(NAME_WIDTH)}${columns.join('')}`;
}

function line(name: string, all: Distribution): string {
  return `  ${name.padEnd(NAME_WIDTH)}${COLUMNS.map((column) => shownMs(all[column]).padStart(10)).join('')}`;
}
