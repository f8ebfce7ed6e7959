// Renders the report of a run as one self-contained HTML page: style and plots are inline, there is no script and no external
// resource. It follows the reader's preference for a light or dark theme.

import { GOAL_COLUMNS, goalRows, judgeGoals, quietText } from './goals.mjs';
import { METHOD } from './method.mjs';
import { drawPlot, escapeHtml } from './plot.mjs';

const STYLE = `:root{color-scheme:light dark;--bg:#fbfbf9;--fg:#1c2430;--dim:#5d6775;--line:#dde0e4;--c0:#1767b5;--c1:#c4501b;
--c2:#2d8a4e;--c3:#8a4bb0;--c4:#a97b00;--c5:#00838f;--c6:#b5336f;--c7:#66707c}
@media(prefers-color-scheme:dark){:root{--bg:#14181e;--fg:#e3e6ea;--dim:#9aa4b1;--line:#2c333d;--c0:#6cb2f2;--c1:#f09a68;
--c2:#74c990;--c3:#c79be8;--c4:#e0b84f;--c5:#5fc8d3;--c6:#ee86b3;--c7:#a3adb9}}
body{margin:0 auto;max-width:1280px;padding:1.5rem 1rem 4rem;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;margin:0 0 .5rem}h2{font-size:1.2rem;margin:2.5rem 0 .2rem;border-top:1px solid var(--line);padding-top:1rem}
h3{font-size:.95rem;font-weight:600;margin:1.2rem 0 .3rem}p,li{margin:.2rem 0;color:var(--dim)}a{color:var(--c0)}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px}
th,td{padding:.25rem .9rem .25rem 0;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}td:nth-child(n+2){max-width:36rem;overflow:hidden;text-overflow:ellipsis}th{color:var(--dim);font-weight:500}nav a{margin-right:.8rem}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,360px),1fr));gap:.5rem 2rem}figure{margin:0;min-width:0}
figcaption{font-size:13px;font-weight:600;margin:1rem 0 .3rem}svg{width:100%;max-width:560px;height:auto;display:block}
.grid{stroke:var(--line);fill:none}.curve{fill:none;stroke-width:2}.spread{stroke:var(--fg);stroke-width:1.5;opacity:.55}
.label{fill:var(--dim);font-size:11px}.name,.value{fill:var(--fg);font-size:12px}.legend span{margin-right:.9rem;white-space:nowrap;
font-size:13px}.legend i{display:inline-block;width:12px;height:3px;margin-right:.35rem;vertical-align:middle}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:0;font-size:13px}dt{color:var(--dim)}dd{margin:0;
overflow-wrap:anywhere}`;

/** A whole page of `{ startedAt, seconds, surroundings, command, notes, parts: [{ name, sentence, settings, results }] }`. */
export function pageOf(run) {
  const colourOf = colours();
  const date = `${run.startedAt.slice(0, 16).replace('T', ' ')} UTC`;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Headrace benchmarks, ${escapeHtml(date)}</title><style>${STYLE}</style></head><body>
<h1>Headrace benchmarks</h1>
<p>${escapeHtml(date)}, ${escapeHtml(durationText(run.seconds))}. Figures are medians with their least and greatest; peers ran by turns in
the same rounds. Bars are medians, the thin line is the spread; bars beyond eight times the median bar are cut. Ratios count more than rates, which depend on what else a machine does.</p>
<nav>${run.parts.map(({ name }) => `<a href="#${escapeHtml(name)}">${escapeHtml(name)}</a>`).join('')}</nav>
${run.notes.length === 0 ? '' : `<h3>Notes</h3><ul>${run.notes.map((note) => `<li>${escapeHtml(note)}</li>`).join('')}</ul>`}
${goalsOf(run)}
<h3>Where and how</h3>
${definitions({ command: run.command, ...run.surroundings })}
${run.parts.map((part) => partOf(part, colourOf)).join('\n')}
<section id="method"><h2>Method</h2>${METHOD.map((text) => `<p>${escapeHtml(text)}</p>`).join('')}</section>
</body></html>
`;
}

/** The table of goals, where the run measured one of them. */
function goalsOf(run) {
  const goals = judgeGoals(run);
  if (goals.every(({ measured }) => measured === null)) return '';
  return `<h3>Goals</h3><div class="scroll">${tableOf(GOAL_COLUMNS, goalRows(goals))}</div><p>${escapeHtml(quietText(run))}</p>`;
}

function tableOf(columns, rows) {
  const row = (tag, cells) => `<tr>${cells.map((cell) => `<${tag}>${escapeHtml(cell)}</${tag}>`).join('')}</tr>`;
  return `<table>${row('th', columns)}${rows.map((cells) => row('td', cells)).join('')}</table>`;
}

function partOf({ name, sentence, settings, results }, colourOf) {
  return `<section id="${escapeHtml(name)}"><h2>${escapeHtml(name)}</h2><p>${escapeHtml(sentence)}</p>
${results.map((result) => resultOf(result, colourOf)).join('\n')}
<h3>Settings of this part</h3>${definitions(settings)}</section>`;
}

function resultOf({ title, columns, rows, remarks, plots }, colourOf) {
  const figures = plots.map(
    (plot) =>
      `<figure><figcaption>${escapeHtml(plot.title)} (${escapeHtml(plot.unit ?? plot.yLabel)})</figcaption>${drawPlot(plot, colourOf)}</figure>`,
  );
  return `<h3>${escapeHtml(title)}</h3>
<div class="scroll">${tableOf(columns, rows)}</div>
${remarks.map((remark) => `<p>${escapeHtml(remark)}</p>`).join('')}<div class="plots">${figures.join('')}</div>`;
}

function definitions(fields) {
  const textOf = (value) => (Array.isArray(value) ? value.join(', ') : String(value));
  const rows = Object.entries(fields).filter(([, value]) => value !== null && textOf(value) !== '');
  return `<dl>${rows.map(([name, value]) => `<dt>${escapeHtml(name)}</dt><dd>${escapeHtml(textOf(value))}</dd>`).join('')}</dl>`;
}

function durationText(seconds) {
  return seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} minutes`;
}

/** A peer has the same colour all over the page. */
function colours() {
  const numbers = new Map();
  return (name) => {
    if (!numbers.has(name)) numbers.set(name, numbers.size);
    return numbers.get(name);
  };
}
