// Runs the fast tests: a few processes in place of one for each file, which saves most of their time. Files that take long, named
// `*.slow.test.ts`, are processes of their own in `npm test`. With an argument it runs the fast tests of this area in this process, or,
// whatever the argument, the files that `HEADRACE_TEST_FILES` names. `HEADRACE_TEST_UNIT=1` leaves out whole programs.

import { globSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';

/** Folders whose tests run whole programs, or wait on real sockets: how many processes share the files of each. */
const WHOLE_PROGRAMS: ReadonlyMap<string, number> = new Map([
  ['system', 4],
  ['contract', 1],
  ['docs', 1],
]);

/** How long all areas may take, in milliseconds: eight minutes alone, twenty on two slow cores, more on a machine that others use. */
const TIMEOUT_MS = 3_000_000;

/** Processes at once, beside the slow files that `npm test` runs. More than the two cores of the suite, since many tests wait. */
const AT_ONCE = 3;

const root = import.meta.dirname;
const [area] = process.argv.slice(2);
const files = process.env['HEADRACE_TEST_FILES']?.split(' ') ?? (area === undefined ? undefined : fastTests(area));

if (files === undefined) {
  t.jobs = AT_ONCE;
  t.setTimeout(TIMEOUT_MS);
  // Those that wait most come first.
  if (process.env['HEADRACE_TEST_UNIT'] !== '1')
    for (const [name, parts] of WHOLE_PROGRAMS) for (let part = 1; part <= parts; part++) spawn(name, part, parts);
  const areas = new Set(fastTests('*').map((file) => file.split('/')[0] as string));
  for (const name of areas) if (!WHOLE_PROGRAMS.has(name)) spawn(name, 1, 1);
} else {
  for (const file of files) {
    t.comment(`test/${file.replace(/\.js$/, '.ts')}`);
    await import(join(root, file));
    // Some files set one for their tests alone.
    t.setTimeout(TIMEOUT_MS);
  }
}

/** Runs a part of the files of an area. Its name is an argument too: tap makes names of folders of them, which must differ. */
function spawn(name: string, part: number, parts: number): void {
  const own = fastTests(name).filter((_, at) => at % parts === part - 1);
  const label = parts === 1 ? name : `${name}-${part}`;
  const env = { ...process.env, HEADRACE_TEST_FILES: own.join(' ') };
  const argv = ['--enable-source-maps', import.meta.filename, label];
  void t.spawn(process.execPath, argv, { buffered: true, env, timeout: TIMEOUT_MS }, label);
}

/** Paths of the fast tests of an area below this folder, in order. */
function fastTests(name: string): readonly string[] {
  return globSync(`${name}/**/*.test.js`, { cwd: root })
    .filter((file) => !file.endsWith('.slow.test.js'))
    .sort();
}
