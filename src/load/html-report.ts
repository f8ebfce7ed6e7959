// The load report as one HTML page without scripts and external resources, with line plots as SVG. Follows the reader's
// preference for light or dark.
import type { HistogramSummary } from './histogram.ts';
import type { LoadReport } from './load-report.ts';
import {
  byFrequency,
  grouped,
  MEASURES,
  NO_TIMES,
  shownArrivals,
  shownClock,
  shownMs,
  summary,
  addedLatencyRows,
} from './text-report.ts';

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
<title>Load of ${escapeMarkup(title)}</title><style>${STYLE}</style></head><body>
<h1>${escapeMarkup(title)}</h1>
<p>${escapeMarkup(`${run.startedAt}; ${run.dialect}${run.stream ? ', streamed' : ''}; ${shownArrivals(run.arrivals)}`)}</p>
<p>${escapeMarkup(`${run.workload}; seed ${run.seed}; ${(report.measuredMs / 1000).toFixed(1)} s measured after ${run.warmUpMs / 1000} s`)}</p>
${failed.map((what) => `<p class="wrong">Not as wanted: ${escapeMarkup(what)}</p>`).join('')}
<h2>Outcome</h2>
<div class="words">${table([], summary(report))}</div>
<h2>Milliseconds</h2>
${timesOf(report)}
${truth === undefined ? '' : `<h2>Beside the engine, in milliseconds</h2>${figures(addedLatencyRows(truth))}<p>${escapeMarkup(shownClock(truth))}</p>`}
${wrongOf(outcomes)}
<h2>Course and distributions</h2>
<div class="plots">${plots(report).join('')}</div>
</body></html>
`;
}

function timesOf({ counts, latency }: LoadReport): string {
  if (counts.ok === 0) return `<p>${NO_TIMES}</p>`;
  return `${figures(MEASURES.map(([name, text]) => [text, latency[name]] as const))}
<p>Response, head, first event and first text count from when a request should have left; service from when it did.</p>`;
}

function wrongOf(outcomes: LoadReport['outcomes']): string {
  const rows = byFrequency(outcomes).map(([what, count]) => [what, grouped(count)]);
  return rows.length === 0 ? '' : `<h2>Failed with</h2>${table([], rows)}`;
}

function figures(rows: readonly (readonly [string, HistogramSummary])[]): string {
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
    `<tr>${cells.map((cell) => `<${tag}>${escapeMarkup(cell)}</${tag}>`).join('')}</tr>`;
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
      course('first text', ({ ttftMs, texts }) => mean(ttftMs, texts)),
    ]),
    plot({ ...share, title: 'Response and service' }, [
      { name: 'response', points: cumulative.e2e },
      { name: 'service', points: cumulative.service },
    ]),
    plot({ ...share, title: 'First text' }, [{ name: 'first text', points: cumulative.ttft }]),
    plot({ ...share, title: 'Between texts' }, [{ name: 'gap', points: cumulative.itl }]),
  ];
}

/** One curve. */
export interface Curve {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface PlotSettings {
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  /** X by powers of ten; points at or below zero are drawn at the left edge. Default false. */
  readonly isLog?: boolean;
  /** The top of the y axis; default: the largest value. */
  readonly yMost?: number;
}

const WIDTH = 640;
const HEIGHT = 280;
const LEFT = 56;
const RIGHT = 16;
const TOP = 34;
const BOTTOM = 44;
/** Values this many powers of ten below the largest one are drawn at the left edge. */
const MOST_DECADES = 4;
const DECADE_STEPS = [1, 2, 5] as const;
/** Colours of the page: `--c1` to `--c4`. */
const COLOURS = 4;

/** A figure with axes and a legend; a sentence instead when there is nothing to draw. */
function plot(settings: PlotSettings, curves: readonly Curve[]): string {
  const drawn = curves.filter(({ points }) => points.length > 1);
  if (drawn.length === 0) return '';
  const xs = drawn.flatMap(({ points }) => points.map(([x]) => x));
  const scale = settings.isLog === true ? logScale(xs) : evenScale(0, Math.max(...xs), WIDTH - LEFT - RIGHT);
  const yMost = settings.yMost ?? Math.max(...drawn.flatMap(({ points }) => points.map(([, y]) => y)));
  const yScale = evenScale(0, yMost, HEIGHT - TOP - BOTTOM);
  const x = (value: number): number => LEFT + scale.at(value);
  const y = (value: number): number => HEIGHT - BOTTOM - yScale.at(value);
  const parts = [
    ...scale.ticks.map((tick) => gridX(x(tick), shown(tick))),
    ...yScale.ticks.map((tick) => gridY(y(tick), shown(tick))),
    ...drawn.map(({ points }, at) => {
      const path = points.map(([px, py]) => `${x(px).toFixed(1)},${y(py).toFixed(1)}`).join(' ');
      return `<polyline class="curve" style="stroke:${colour(at)}" points="${path}"/>`;
    }),
    ...drawn.map(({ name }, at) => legend(name, at, drawn.length - at)),
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, 'middle', settings.xLabel),
    text(LEFT, 14, 'start', `${settings.title} (${settings.yLabel})`, 'title'),
  ];
  const label = escapeMarkup(settings.title);
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${label}">${parts.join('')}</svg>`;
}

interface Scale {
  readonly at: (value: number) => number;
  readonly ticks: readonly number[];
}

/** Five or so round steps. */
function evenScale(least: number, most: number, length: number): Scale {
  const range = most > least ? most - least : 1;
  const magnitude = 10 ** Math.floor(Math.log10(range / 4));
  const step = ([1, 2, 5, 10].find((one) => one * magnitude * 6 >= range) ?? 10) * magnitude;
  const count = Math.floor(range / step + 1e-9);
  return {
    at: (value) => (Math.min(Math.max(value, least), least + range) - least) * (length / range),
    ticks: Array.from({ length: count + 1 }, (_, at) => least + at * step),
  };
}

function logScale(values: readonly number[]): Scale {
  const positive = values.filter((value) => value > 0);
  if (positive.length === 0) positive.push(1);
  const largest = Math.log10(Math.max(...positive));
  const least = Math.max(Math.log10(Math.min(...positive)), largest - MOST_DECADES);
  const most = Math.max(largest, least + 0.1);
  const ticks: number[] = [];
  const steps = most - least > 3 ? DECADE_STEPS.slice(0, 1) : DECADE_STEPS;
  for (let power = Math.floor(least); power <= most; power++) {
    ticks.push(...steps.map((step) => step * 10 ** power).filter((tick) => fits(Math.log10(tick), least, most)));
  }
  const length = WIDTH - LEFT - RIGHT;
  const at = (value: number): number => ((Math.log10(value) - least) * length) / (most - least);
  return { at: (value) => (value > 0 ? Math.max(at(value), 0) : 0), ticks };
}

function fits(value: number, least: number, most: number): boolean {
  return value >= least - 1e-9 && value <= most + 1e-9;
}

function shown(value: number): string {
  return Number(value.toPrecision(6)).toLocaleString('en-US', { maximumFractionDigits: 6 });
}

function colour(at: number): string {
  return `var(--c${(at % COLOURS) + 1})`;
}

function gridX(x: number, label: string): string {
  return `<line class="grid" x1="${x}" x2="${x}" y1="${TOP}" y2="${HEIGHT - BOTTOM}"/>${text(x, HEIGHT - BOTTOM + 15, 'middle', label)}`;
}

function gridY(y: number, label: string): string {
  return `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y}" y2="${y}"/>${text(LEFT - 6, y + 4, 'end', label)}`;
}

/** `fromRight`: its place, counted from the right edge. */
function legend(name: string, at: number, fromRight: number): string {
  const x = WIDTH - RIGHT - 110 * fromRight;
  const mark = `<rect x="${x}" y="${TOP - 14}" width="14" height="3" style="fill:${colour(at)}"/>`;
  return mark + text(x + 20, TOP - 9, 'start', name);
}

function text(x: number, y: number, anchor: string, content: string, kind = 'label'): string {
  return `<text class="${kind}" x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}">${escapeMarkup(content)}</text>`;
}

/** Text for HTML and SVG. */
function escapeMarkup(content: string): string {
  return content.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
