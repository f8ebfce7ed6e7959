// The report as one HTML page that needs nothing else: style and drawings are in it, no script, and no address is asked. It
// follows the reader's preference for light or dark.

import type { Distribution } from './histogram.ts';
import { type Curve, escaped, plot } from './plot.ts';
import type { LoadReport } from './report.ts';
import { grouped, MEASURES, shownArrivals, shownClock, shownMs, summary, truthRows } from './wording.ts';

const COLUMNS = ['count', 'mean', 'min', 'p50', 'p90', 'p95', 'p99', 'p999', 'max'] as const;

const STYLE = `:root{color-scheme:light dark;--bg:#fbfbf9;--fg:#1c2430;--dim:#667080;--line:#dde0e4;--c1:#1767b5;--c2:#c4501b;
--c3:#2d8a4e;--c4:#8a4bb0}
@media(prefers-color-scheme:dark){:root{--bg:#14181e;--fg:#e3e6ea;--dim:#98a2af;--line:#2c333d;--c1:#6cb2f2;--c2:#f09a68;
--c3:#74c990;--c4:#c79be8}}
body{margin:0 auto;max-width:1400px;padding:2rem 1.25rem;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.4rem;margin:0}h2{font-size:1.05rem;margin:2rem 0 .5rem}p{margin:.2rem 0;color:var(--dim)}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child,td:first-child,.words td{text-align:left}th{color:var(--dim);font-weight:500}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:1.25rem}
svg{width:100%;height:auto;border:1px solid var(--line);border-radius:6px}.grid{stroke:var(--line)}
.curve{fill:none;stroke-width:1.8}.label{fill:var(--dim);font-size:11px}.title{fill:var(--fg);font-size:12.5px}
.wrong{color:var(--c2)}`;

/** A whole page. */
export function htmlOf(report: LoadReport): string {
  const { run, truth, outcomes, failed } = report;
  const title = `${run.model} at ${run.url}`;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Load of ${escaped(title)}</title><style>${STYLE}</style></head><body>
<h1>${escaped(title)}</h1>
<p>${escaped(`${run.startedAt}; ${run.dialect}${run.stream ? ', streamed' : ''}; ${shownArrivals(run.arrivals)}`)}</p>
<p>${escaped(`${run.workload}; seed ${run.seed}; ${(report.measuredMs / 1000).toFixed(1)} s measured after ${run.warmUpMs / 1000} s`)}</p>
${failed.map((what) => `<p class="wrong">Not as wanted: ${escaped(what)}</p>`).join('')}
<h2>Outcome</h2>
<div class="words">${table([], summary(report))}</div>
<h2>Milliseconds</h2>
${figures(MEASURES.map(([name, text]) => [text, report.latency[name]] as const))}
<p>Response, head, first event and first text count from when a request should have left; service from when it did.</p>
${truth === undefined ? '' : `<h2>Beside the engine, in milliseconds</h2>${figures(truthRows(truth))}<p>${escaped(shownClock(truth))}</p>`}
${wrongOf(outcomes)}
<h2>Course and distributions</h2>
<div class="plots">${plots(report).join('')}</div>
</body></html>
`;
}

function wrongOf(outcomes: LoadReport['outcomes']): string {
  const rows = Object.entries(outcomes).map(([what, count]) => [what, grouped(count)]);
  return rows.length === 0 ? '' : `<h2>Failed with</h2>${table([], rows)}`;
}

function figures(rows: readonly (readonly [string, Distribution])[]): string {
  const head = ['', ...COLUMNS.map((column) => (column === 'p999' ? 'p99.9' : column))];
  const cells = rows
    .filter(([, { count }]) => count > 0)
    .map(([name, all]) => [
      name,
      ...COLUMNS.map((column) => (column === 'count' ? grouped(all.count) : shownMs(all[column]))),
    ]);
  return table(head, cells);
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const row = (tag: string, cells: readonly string[]): string =>
    `<tr>${cells.map((cell) => `<${tag}>${escaped(cell)}</${tag}>`).join('')}</tr>`;
  const heading = head.length === 0 ? '' : row('th', head);
  return `<div class="scroll"><table>${heading}${rows.map((cells) => row('td', cells)).join('')}</table></div>`;
}

function plots({ series, cumulative }: LoadReport): string[] {
  const seconds = series.widthMs / 1000;
  const course = (name: string, value: (stretch: (typeof series.stretches)[number]) => number): Curve => ({
    name,
    points: series.stretches.map((stretch) => [stretch.fromMs / 1000, value(stretch)] as const),
  });
  const mean = (sum: number, count: number): number => (count === 0 ? 0 : sum / count);
  const time = { xLabel: 'seconds from the start' };
  const share = { yLabel: 'share of all', xLabel: 'milliseconds', isLog: true, yMost: 1 };
  return [
    plot({ ...time, title: 'Answers', yLabel: 'a second' }, [
      course('ok', ({ ok }) => ok / seconds),
      course('failed', ({ errors }) => errors / seconds),
    ]),
    plot({ ...time, title: 'Output', yLabel: 'tokens a second' }, [
      course('tokens', ({ outputTokens }) => outputTokens / seconds),
    ]),
    plot({ ...time, title: 'Mean waiting', yLabel: 'ms' }, [
      course('response', ({ e2eMs, ok }) => mean(e2eMs, ok)),
      course('first text', ({ ttftMs, ok }) => mean(ttftMs, ok)),
    ]),
    plot({ ...share, title: 'Response and service' }, [
      { name: 'response', points: cumulative.e2e },
      { name: 'service', points: cumulative.service },
    ]),
    plot({ ...share, title: 'First text' }, [{ name: 'first text', points: cumulative.ttft }]),
    plot({ ...share, title: 'Between texts' }, [{ name: 'gap', points: cumulative.itl }]),
  ];
}
