// Output of the benchmarks as text and JSON: progress line, tables, and result files under bench/results.

import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const RESULTS = fileURLToPath(new URL('../results/', import.meta.url));
const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** Overwrites one line of standard error; does nothing where that is no terminal. */
export function progress(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}

/** Rows as a Markdown table, the cells padded. */
export function tableText(columns, rows) {
  const cells = [columns, ...rows];
  const widths = columns.map((_, column) => Math.max(...cells.map((row) => row[column].length)));
  const line = (row) => `| ${row.map((cell, column) => cell.padEnd(widths[column])).join(' | ')} |`;
  const rule = `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`;
  return [line(columns), rule, ...rows.map(line)].join('\n');
}

/** Prints a table below its title. */
export function printTable(title, columns, rows) {
  progress('');
  process.stdout.write(`\n${title}\n\n${tableText(columns, rows)}\n`);
}

/** `median (min-max)` with `digits` decimals; `-` for null. */
export function show(spread, digits = 1) {
  if (spread === null) return '-';
  const { median, min, max } = spread;
  return `${median.toFixed(digits)} (${min.toFixed(digits)}-${max.toFixed(digits)})`;
}

/** `5 rounds of 1.5 s` */
export function roundsText({ rounds, seconds }) {
  return `${rounds} round${rounds === 1 ? '' : 's'}${seconds === undefined ? '' : ` of ${seconds} s`}`;
}

/** A share as per cent, without decimals. */
export function percent({ median }) {
  return `${Math.round(median * 100)} %`;
}

/** Where the CPU time of a process went, by thread. */
export function showThreads(threads) {
  return threads.map(({ main, share }) => `${main ? 'main ' : ''}${(share * 100).toFixed(1)} %`).join(', ');
}

/** Number of errors and the last of them. */
export function showErrors({ errors, lastError }) {
  return `${errors} ${lastError}`.trim();
}

/** Machine, versions and commit, for the report. */
export function surroundings() {
  return {
    cpu: cpus()[0].model,
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    loadavg: loadavg().map((load) => Number(load.toFixed(2))),
    node: process.version,
    nginx: versionOf('nginx -v'),
    haproxy: versionOf('haproxy -v'),
    commit: commit(),
  };
}

/** First version number in the output of a command; null if the command is missing. */
function versionOf(command) {
  const { stdout } = spawnSync('sh', ['-c', `${command} 2>&1`], { encoding: 'utf8' });
  return /\d+\.\d+[\w.+~-]*/.exec(stdout)?.[0] ?? null;
}

function commit() {
  try {
    const git = (...args) => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', stdio: 'pipe' }).trim();
    return `${git('rev-parse', '--short', 'HEAD')}${git('status', '--porcelain', '-uno') === '' ? '' : ' with changes'}`;
  } catch {
    return null;
  }
}

/** `2026-11-21T104500`, as files are named. */
export function fileDate(date) {
  return date.toISOString().slice(0, 19).replaceAll(':', '');
}

/** Writes `bench/results/DATE-NAME.json`; answers its path. */
export function writeResult(name, startedAt, result) {
  mkdirSync(RESULTS, { recursive: true });
  const file = join(RESULTS, `${fileDate(startedAt)}-${name}.json`);
  const machine = surroundings();
  writeFileSync(file, `${JSON.stringify({ name, startedAt, machine, ...result }, null, 1)}\n`);
  process.stdout.write(`\n${file}\n`);
}
