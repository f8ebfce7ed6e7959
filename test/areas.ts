// Runs the fast tests: one process for all files of an area instead of one for each file, which saves most of their time.
// What starts programs or takes long stays out: the folders below and files named `*.slow.test.ts`, each a process of its
// own in `npm test`. With an argument it runs the fast tests of this area in this process, with
// `HEADRACE_TEST_FILES` those files.

import { globSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';

/** Folders whose tests run whole programs, or wait on real sockets. */
const WHOLE_PROGRAMS = ['contract', 'docs', 'system'];

/** How long all areas may take, in milliseconds: four minutes alone, ten on two slow cores, twenty-five on a machine that others use. */
const TIMEOUT_MS = 3_000_000;

/** Areas at once, beside the other test files that `npm test` runs. */
const AREAS_AT_ONCE = 2;

const root = import.meta.dirname;
const [area] = process.argv.slice(2);
// Not arguments, of which tap makes names of folders.
const files =
  process.env['HEADRACE_TEST_FILES']?.split(' ') ??
  (area === undefined ? undefined : fastTests(`${area}/**/*.test.js`));

if (files === undefined) {
  t.jobs = AREAS_AT_ONCE;
  t.setTimeout(TIMEOUT_MS);
  const areas = new Set(fastTests('*/**/*.test.js').map((file) => file.split('/')[0] as string));
  for (const name of [...areas].filter((each) => !WHOLE_PROGRAMS.includes(each))) {
    const argv = ['--enable-source-maps', import.meta.filename, name];
    void t.spawn(process.execPath, argv, { buffered: true, timeout: TIMEOUT_MS }, name);
  }
} else {
  for (const file of files) {
    t.comment(`test/${file.replace(/\.js$/, '.ts')}`);
    await import(join(root, file));
    // Some files set one for their tests alone.
    t.setTimeout(TIMEOUT_MS);
  }
}

/** Paths below this folder, in order. */
function fastTests(pattern: string): readonly string[] {
  return globSync(pattern, { cwd: root })
    .filter((file) => !file.endsWith('.slow.test.js'))
    .sort();
}
