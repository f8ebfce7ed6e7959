// Goals of a locality run, its plots, and the measured part of docs/locality.md: pure text. The part of the page between the two
// comments is written anew by `npm run bench -- locality --docs`; the rest is written by hand.

import { quietText } from './goals.mjs';
import { withoutRuns } from './performance-page.mjs';
import { drawGroupsFile } from './plot.mjs';
import { show, tableText } from './report.mjs';

const BEGIN = '<!-- measured: written by npm run bench -- locality --docs -->';
const END = '<!-- /measured -->';

const ORACLE = 'oracle';
const GATEWAY = 'headrace';
const THREADS = 'headrace*4';

/** Workloads with goals of their own; all others have those of a trace. */
const OWN_GOALS = new Set(['tenants', 'hot', 'crowd']);

const GOALS = [
  {
    text: 'hit rate, of the oracle',
    fits: (workload) => !OWN_GOALS.has(workload),
    least: 0.97,
    of: (peer) => peer(GATEWAY)?.ofOracle,
  },
  {
    text: 'first token p99, of the oracle',
    fits: (workload) => !OWN_GOALS.has(workload),
    most: 1.15,
    of: (peer) => peer(GATEWAY)?.p99OfOracle,
  },
  {
    text: 'hit rate, of the oracle',
    fits: (workload) => workload === 'tenants',
    least: 0.95,
    of: (peer) => peer(GATEWAY)?.ofOracle,
  },
  {
    text: 'busiest host, of the mean',
    fits: (workload) => workload === 'hot' || workload === 'crowd',
    most: 1.3,
    of: (peer) => peer(GATEWAY)?.busy,
  },
  {
    text: 'hit rate of 4 threads, of 1 thread',
    fits: () => true,
    least: 0.98,
    most: 1.02,
    of: (peer) => ratioOf(peer(THREADS)?.hitRate, peer(GATEWAY)?.hitRate),
  },
];

/** Added CPU time of a request of 1 KB, in microseconds, at most. */
const MOST_ADDED_US = 3;
/** Microseconds that a choice may take with the reading of the prompt, by case of the micro benchmarks. */
const MOST_CHOICE_US = { 'choice of 8, 1 KB': 3, 'choice of 8, 100 KB': 40 };

/** The median over another median, with the spread of the first. */
function ratioOf(one, other) {
  if (one === undefined || other === undefined) return undefined;
  const over = (value) => value / other.median;
  return { median: over(one.median), min: over(one.min), max: over(one.max) };
}

/**
 * A table of the goals of the scenarios that ran (`figures` of the part), and of what affinity costs: `{ added, calls: [{ name, ns }] }`,
 * or null.
 */
export function localityGoals(scenarios, costs) {
  const rows = scenarios.flatMap(({ title, workload, peers }) => {
    const peer = (name) => peers.find((one) => one.name === name);
    return GOALS.filter(({ fits }) => fits(workload)).flatMap((goal) => {
      const found = goal.of(peer);
      return found === undefined || found === null ? [] : [goalRow(`${title}: ${goal.text}`, goal, found, '')];
    });
  });
  if (costs !== null) {
    rows.push(goalRow('CPU time that affinity adds to a request of 1 KB', { most: MOST_ADDED_US }, costs.added, ' us'));
    for (const { name, ns } of costs.calls) {
      if (!Object.hasOwn(MOST_CHOICE_US, name)) continue;
      const us = { median: ns.median / 1000, min: ns.min / 1000, max: ns.max / 1000 };
      rows.push(goalRow(name, { most: MOST_CHOICE_US[name] }, us, ' us'));
    }
  }
  return { title: 'Goals of locality', columns: ['goal', 'limit', 'measured: median (min-max)', ''], rows };
}

function goalRow(text, { least = -Infinity, most = Infinity }, found, unit) {
  const limits = [
    ...(least > -Infinity ? [`at least ${least.toFixed(2)}${unit}`] : []),
    ...(most < Infinity ? [`at most ${most.toFixed(2)}${unit}`] : []),
  ];
  if (Number.isNaN(found.median)) return [text, limits.join(', '), 'not measured', '-'];
  const isMet = found.median >= least && found.median <= most;
  return [text, limits.join(', '), show(found, 3), isMet ? 'met' : 'missed'];
}

/** Plots over all scenarios: hit rate as a share of the oracle's, and time to first token. */
export function localityPlots(scenarios) {
  const plot = (title, unit, of) => ({
    kind: 'groups',
    title,
    unit,
    groups: scenarios
      .map(({ title: name, peers }) => ({
        name,
        bars: peers.flatMap((peer) => {
          const value = of(peer);
          return value === null ? [] : [{ name: peer.name, ...value }];
        }),
      }))
      .filter(({ bars }) => bars.length > 0),
  });
  return [
    plot('Hit rate', 'share of the oracle', ({ name, ofOracle }) => (name === ORACLE ? null : ofOracle)),
    plot('Time to first token, p90', 'ms', ({ p90 }) => p90),
  ];
}

const isOwn = (name) => /^(\dx)?(headrace|sessions)(\*\d+)?$/.test(name);

/** The locality part of a run as the repository keeps it. */
export function localityOf(run) {
  const part = run.parts.find(({ name }) => name === 'locality');
  if (part === undefined) return null;
  return { ...run, parts: [{ ...part, results: part.results.map(withoutRuns) }] };
}

/** Files of docs/ by name: the page with its measured part renewed, and the pictures in it. */
export function localityFiles(run, page) {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`docs/locality.md has no "${BEGIN}" before "${END}"`);
  const plots = run.parts[0].results.flatMap(({ plots: own }) => own).filter(({ kind }) => kind === 'groups');
  const files = ['locality-hits.svg', 'locality-first-token.svg'];
  const pictures = plots.map((plot, at) => ({ plot, file: files[at] }));
  return {
    ...Object.fromEntries(pictures.map(({ plot, file }) => [file, drawGroupsFile(plot, isOwn)])),
    'locality.md': `${page.slice(0, begin)}${BEGIN}\n\n${measuredText(run, pictures)}\n\n${page.slice(end)}`,
  };
}

function measuredText(run, pictures) {
  const { cpu, cores, memoryGb, kernel, node, commit } = run.surroundings;
  const [{ results }] = run.parts;
  const goals = results.find(({ title }) => title === 'Goals of locality');
  return [
    `Run of ${run.startedAt.slice(0, 10)}, ${Math.round(run.seconds / 60)} minutes, \`${run.command}\`. ${cpu}, ${cores} cores, ${memoryGb} GB, Linux ${kernel}, Node.js ${node}, commit ${commit}. **${quietText(run)}**`,
    ...(run.notes.length === 0 ? [] : [run.notes.map((note) => `- ${escapeText(note)}`).join('\n')]),
    ...(goals === undefined ? [] : [`### Goals`, tableOf(goals)]),
    ...pictures.map(({ plot, file }) => `![${plot.title} by policy and workload, ${plot.unit}](${file})`),
    ...results.filter((result) => result !== goals).flatMap(resultText),
  ].join('\n\n');
}

const escapeText = (text) => text.replace(/[<>|*`]/g, (character) => `\\${character}`);

function tableOf({ columns, rows }) {
  return tableText(
    columns,
    rows.map((row) => row.map(escapeText)),
  );
}

function resultText(result) {
  return [`### ${result.title}`, tableOf(result), ...result.remarks.map(escapeText)];
}
