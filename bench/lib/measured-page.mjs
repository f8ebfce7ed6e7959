// Pages of docs/ with a measured part: pure text. The part of the page between two comments is written anew by `npm run bench -- PART
// --docs`; the rest is written by hand or by `npm run docs`.

import { quietText } from './goals.mjs';
import { withoutRuns } from './performance-page.mjs';
import { tableText } from './report.mjs';

const END = '<!-- /measured -->';

/** How the figures of a part of the benchmarks get into `file` of docs/. */
export function measuredPage(name, file) {
  const BEGIN = `<!-- measured: written by npm run bench -- ${name} --docs -->`;
  return {
    /** The part of a run as the repository keeps it; null when the run has none. */
    keep: (run) => {
      const part = run.parts.find((each) => each.name === name);
      if (part === undefined) return null;
      return { ...run, parts: [{ ...part, results: part.results.map(withoutRuns) }] };
    },
    /** The page with its measured part renewed, by name. */
    write: (run, page) => {
      const begin = page.indexOf(BEGIN);
      // The page may have other measured parts.
      const end = page.indexOf(END, begin);
      if (begin < 0 || end < 0) throw new Error(`docs/${file} has no "${BEGIN}" before "${END}"`);
      return { [file]: `${page.slice(0, begin)}${BEGIN}\n\n${measuredText(run)}\n\n${page.slice(end)}` };
    },
  };
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
