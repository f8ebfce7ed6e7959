// Runs the fast tests: one process for all files of an area instead of one for each file, which saves most of their time.
// What starts programs or takes long stays out: the folders below and files named `*.slow.test.ts`, each a process of its
// own in `npm test`.

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

if (area === undefined) {
  t.jobs = AREAS_AT_ONCE;
  t.setTimeout(TIMEOUT_MS);
  const files = globSync('*/**/*.test.js', { cwd: root });
  const areas = new Set(files.filter(isFast).map((file) => file.split('/')[0] as string));
  for (const name of [...areas].filter((each) => !WHOLE_PROGRAMS.includes(each)).sort()) {
    const argv = ['--enable-source-maps', import.meta.filename, name];
    void t.spawn(process.execPath, argv, { buffered: true, timeout: TIMEOUT_MS }, name);
  }
} else {
  for (const file of globSync('**/*.test.js', { cwd: join(root, area) })
    .filter(isFast)
    .sort()) {
    t.comment(`test/${area}/${file.replace(/\.js$/, '.ts')}`);
    await import(join(root, area, file));
  }
}

function isFast(file: string): boolean {
  return !file.endsWith('.slow.test.js');
}
