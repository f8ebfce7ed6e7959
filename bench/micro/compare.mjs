// Compares the hot functions of two versions: `node bench/micro/compare.mjs BASE BRANCH [--cases scan,pick] [--rounds 7]`.
// A version is a git ref, which is built in a temporary folder, or a folder with a built gateway (`.` is this one). Both run
// the cases of this tree in alternation; a row is the median of the rounds, and ratios are taken within rounds.

import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseFlags, flagLines } from '../lib/flags.mjs';
import { useOwnNode } from '../lib/own-node.mjs';
import { runCommand, temporaryFolder } from '../lib/process.mjs';
import { Progress } from '../lib/progress.mjs';
import { printTable, show } from '../lib/report.mjs';
import { ratioOf, formatNs, spread } from '../lib/statistics.mjs';
import { CASES, measureSuite } from './suite.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FLAGS = {
  cases: { type: 'words', default: CASES, help: 'what to compare' },
  rounds: { type: 'number', default: 7, least: 1, help: 'rounds; both versions run once in each' },
  batchMs: { type: 'number', default: 5, help: 'milliseconds of one batch; a figure is the median of 9 batches' },
};
const HELP = `node bench/micro/compare.mjs BASE BRANCH [flags]

Compares the hot functions of two versions: git refs, or folders with a built gateway (. is this one as it is built).

${flagLines(FLAGS)}
`;

/** Smaller differences are not reported, however steady. */
const LEAST_DIFFERENCE = 0.03;

/** Returns the `dist` folder of a version; builds it if it is a git ref. */
function built(version) {
  const folder = resolve(version);
  for (const dist of [join(folder, 'dist'), folder]) if (existsSync(join(dist, 'src', 'index.js'))) return dist;
  const tree = temporaryFolder();
  const archive = join(tree, 'tree.tar');
  process.stderr.write(`building ${version}\n`);
  // No worktree: git would remember it after a run that is interrupted.
  runCommand('git', ['archive', '--output', archive, version], { cwd: ROOT });
  runCommand('tar', ['-xf', archive, '-C', tree]);
  const lock = (root) => readFileSync(join(root, 'package-lock.json'), 'utf8');
  // With the same lock file the installed packages serve both trees.
  if (lock(tree) === lock(ROOT)) symlinkSync(join(ROOT, 'node_modules'), join(tree, 'node_modules'));
  else runCommand('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: tree });
  const dist = join(tree, 'dist');
  try {
    runCommand('npm', ['run', 'build'], { cwd: tree });
  } catch (error) {
    // The compiler writes its output in spite of type errors.
    if (!existsSync(join(dist, 'src', 'index.js'))) throw error;
    const first = error.message.split('\n').find((line) => line.includes('error'));
    process.stderr.write(`${version} is built in spite of errors: ${first}\n`);
  }
  return dist;
}

function print(rows, [base, branch], rounds) {
  const figure = (samples) => (samples === undefined ? '-' : formatNs(spread(samples).median));
  const judged = (ratio) => {
    if (ratio === null) return '';
    if (Math.abs(ratio.median - 1) < LEAST_DIFFERENCE) return '';
    if (ratio.min > 1) return 'slower';
    return ratio.max < 1 ? 'faster' : '';
  };
  printTable(
    `${base} against ${branch}, ${rounds} rounds: medians, ratio within rounds (min-max)`,
    ['part', 'call', 'base', 'branch', 'branch / base', ''],
    rows.map((row) => {
      const ratio = ratioOf(row, 'base', 'branch');
      const cells = [figure(row.samples.base), figure(row.samples.branch), show(ratio, 2), judged(ratio)];
      return [row.file, row.name, ...cells];
    }),
  );
  process.stdout.write('\nA row is called faster or slower if it was so in every round and by 3 % or more.\n');
}

async function main() {
  const { values, positionals, help } = parseFlags({ compare: FLAGS }, process.argv.slice(2));
  if (help) return process.stdout.write(HELP);
  if (positionals.length !== 2) throw new Error(`expected two versions, got ${positionals.length}\n\n${HELP}`);
  useOwnNode(ROOT);
  const { cases, rounds, batchMs } = values.compare;
  const builds = { base: built(positionals[0]), branch: built(positionals[1]) };
  const bar = new Progress(rounds * cases.length * 2);
  const step = (text) => bar.step('compare', text);
  const warn = (text) => process.stderr.write(`${text}\n`);
  const rows = await measureSuite(builds, cases, { rounds, batchMs, batches: 9, step, warn });
  bar.clear();
  print(rows, positionals, rounds);
  return undefined;
}

try {
  await main();
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
}
