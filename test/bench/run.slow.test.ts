// That parts of `npm run bench` run to their ends: all of them where tests are long, else those that use the built files by name.

import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { LONG } from '../support/long.ts';

const run = promisify(execFile);

const BENCH = join(import.meta.dirname, '..', '..', '..', 'bench', 'run.mjs');

/** Those that run when none is named, and two that are only named. */
const COMMANDS = LONG ? [[], ['locality', 'upload'], ['cluster', '--simulate']] : [['micro', 'path']];

for (const words of COMMANDS) {
  t.test(`npm run bench ${words.join(' ')} measures every part`, { timeout: 900_000 }, async (t) => {
    const out = mkdtempSync(join(tmpdir(), 'headrace-bench-'));
    t.teardown(() => rmSync(out, { recursive: true }));
    await run(process.execPath, [BENCH, ...words, '--quick', '--out', out], { maxBuffer: 2 ** 26 });
    const [file] = readdirSync(out).filter((name) => name.endsWith('.json'));
    const { parts } = JSON.parse(readFileSync(join(out, file as string), 'utf8')) as {
      parts: { name: string; results: { rows: string[][] }[] }[];
    };
    t.ok(parts.length >= Math.max(1, words.filter((word) => !word.startsWith('-')).length));
    for (const { name, results } of parts)
      t.ok(results.length > 0 && results.every(({ rows }) => rows.length > 0), name);
  });
}
