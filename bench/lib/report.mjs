// What a load benchmark leaves behind: a progress line while it runs, tables, and one JSON file under bench/results.

import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const RESULTS = fileURLToPath(new URL('../results/', import.meta.url));

/** Overwrites one line of standard error; does nothing where that is no terminal. */
export function progress(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}

/** Prints rows as a Markdown table, the cells padded. */
export function printTable(title, columns, rows) {
  progress('');
  const cells = [columns, ...rows];
  const widths = columns.map((_, column) => Math.max(...cells.map((row) => row[column].length)));
  const line = (row) => `| ${row.map((cell, column) => cell.padEnd(widths[column])).join(' | ')} |`;
  const rule = `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`;
  process.stdout.write(`\n${title}\n\n${[line(columns), rule, ...rows.map(line)].join('\n')}\n`);
}

/** `median (min-max)` with as many digits as the number deserves. */
export function show({ median, min, max }, digits = 1) {
  return `${median.toFixed(digits)} (${min.toFixed(digits)}-${max.toFixed(digits)})`;
}

/** A share as per cent, without decimals. */
export function percent({ median }) {
  return `${Math.round(median * 100)} %`;
}

/** Where the CPU time of a process went, by thread. */
export function showThreads(threads) {
  return threads.map(({ main, share }) => `${main ? 'main ' : ''}${(share * 100).toFixed(1)} %`).join(', ');
}

/** Writes `bench/results/DATE-NAME.json`; answers its path. */
export function writeResult(name, startedAt, result) {
  mkdirSync(RESULTS, { recursive: true });
  const date = startedAt.toISOString().slice(0, 19).replaceAll(':', '');
  const file = join(RESULTS, `${date}-${name}.json`);
  const machine = {
    cpu: cpus()[0].model,
    cores: cpus().length,
    loadavg: loadavg(),
    node: process.version,
    nginx: nginxVersion(),
  };
  writeFileSync(file, `${JSON.stringify({ name, startedAt, machine, ...result }, null, 1)}\n`);
  process.stdout.write(`\n${file}\n`);
}

function nginxVersion() {
  try {
    return execFileSync('sh', ['-c', 'nginx -v 2>&1'], { encoding: 'utf8' }).trim();
  } catch {
    return null;
  }
}
