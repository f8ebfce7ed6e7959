// The measured part of docs/search.md: pure text. The part of the page between the two comments is written anew by
// `npm run bench -- tools --docs`; the rest is written by hand.

import { quietText } from '../lib/goals.mjs';
import { withoutRuns } from '../lib/performance-page.mjs';
import { tableText } from '../lib/report.mjs';

const BEGIN = '<!-- measured: written by npm run bench -- tools --docs -->';
const END = '<!-- /measured -->';

/** The tools part of a run as the repository keeps it; null when it has none. */
export function toolsOf(run) {
  const part = run.parts.find(({ name }) => name === 'tools');
  if (part === undefined) return null;
  return { ...run, parts: [{ ...part, results: part.results.map(withoutRuns) }] };
}

/** The page with its measured part renewed, by name. */
export function toolsFiles(run, page) {
  const begin = page.indexOf(BEGIN);
  const end = page.indexOf(END, begin);
  if (begin < 0 || end < 0) throw new Error(`docs/search.md has no "${BEGIN}" before "${END}"`);
  return { 'search.md': `${page.slice(0, begin)}${BEGIN}\n\n${measuredText(run)}\n\n${page.slice(end)}` };
}

function measuredText(run) {
  const { cpu, cores, memoryGb, kernel, node, commit } = run.surroundings;
  const [{ results }] = run.parts;
  return [
    `Run of ${run.startedAt.slice(0, 10)}, ${Math.round(run.seconds / 60)} minutes, \`${run.command}\`. ${cpu}, ${cores} cores, ${memoryGb} GB, Linux ${kernel}, Node.js ${node}, commit ${commit}. **${quietText(run)}**`,
    ...(run.notes.length === 0 ? [] : [run.notes.map((note) => `- ${note}`).join('\n')]),
    ...results.flatMap(({ columns, remarks, rows, title }) => [`### ${title}`, tableText(columns, rows), ...remarks]),
  ].join('\n\n');
}
