// docs/performance.md from the result of a run: pure text, and the plots beside it as SVG files of their own.

import { GOAL_COLUMNS, goalRows, judgeGoals, quietText } from './goals.mjs';
import { METHOD } from './method.mjs';
import { drawFile } from './plot.mjs';
import { tableText } from './report.mjs';

/** The part of a run that the repository keeps: tables, figures and bars, but no single runs and no curves. */
export function condensed(run) {
  const parts = run.parts.map(({ name, sentence, settings, results }) => ({
    name,
    sentence,
    settings,
    results: results.map(({ plots, ...shown }) => ({
      ...withoutRuns(shown),
      plots: plots.filter(({ kind }) => kind === 'bars'),
    })),
  }));
  return { ...run, parts };
}

/** A result without its single runs. */
export function withoutRuns(result) {
  return Object.fromEntries(Object.entries(result).filter(([field]) => field !== 'data'));
}

/** Tables of which the page has a plot: the title of the plot, and its file. */
function plotsOf(run) {
  const drawn = run.parts.flatMap(({ results }) =>
    results.filter(({ figures }) => ['json', 'stream'].includes(figures?.scenario)),
  );
  return drawn.map(({ title, figures, plots }) => ({
    title,
    file: `performance-${figures.scenario}-${figures.connections}.svg`,
    plot: { ...plots[0], title: `${plots[0].title}, ${figures.connections} at a time` },
  }));
}

/** Files of the page by name: `performance.md` and its pictures. */
export function performanceFiles(run) {
  const plots = plotsOf(run);
  return {
    ...Object.fromEntries(plots.map(({ file, plot }) => [file, drawFile(plot)])),
    'performance.md': pageText(run, plots),
  };
}

function pageText(run, plots) {
  const { cpu, cores, memoryGb, kernel, node, commit } = run.surroundings;
  const sections = run.parts.flatMap(({ name, sentence, results }) => [
    `## ${titleOf(name)}`,
    sentence,
    ...results.flatMap((result) => resultText(result, plots)),
  ]);
  return `${[
    '# Performance',
    'This page has measured figures of Headrace beside other gateways and proxies. It is generated from `bench/performance.json`, the result of one run; change nothing here by hand. How to run it, and what each column means, is in [Benchmarks](../bench/README.md).',
    `Run of ${run.startedAt.slice(0, 10)}, ${Math.round(run.seconds / 60)} minutes, \`${run.command}\`. ${cpu}, ${cores} cores, ${memoryGb} GB, Linux ${kernel}, Node.js ${node}, commit ${commit}. **${quietText(run)}**`,
    ...(run.notes.length === 0 ? [] : [run.notes.map((note) => `- ${escapeText(note)}`).join('\n')]),
    '## Goals',
    tableText(GOAL_COLUMNS, goalRows(judgeGoals(run))),
    ...sections,
    '## Method',
    ...METHOD,
  ].join('\n\n')}\n`;
}

const titleOf = (part) => part[0].toUpperCase() + part.slice(1);
const escapeText = (text) => text.replace(/[<>|*`]/g, (character) => `\\${character}`);

function resultText({ title, columns, rows, remarks }, plots) {
  const plot = plots.find((it) => it.title === title);
  return [
    `### ${title}`,
    ...(plot === undefined ? [] : [`![${plot.plot.title}, in ${plot.plot.unit}](${plot.file})`]),
    tableText(
      columns,
      rows.map((row) => row.map((cell) => cell.replaceAll('|', '\\|'))),
    ),
    ...remarks.map(escapeText),
  ];
}
