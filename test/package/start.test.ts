// `npm start`, in a copy of the repository's shape whose build is a script of the test.

import { execFileSync } from 'node:child_process';
import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';

const SCRIPT = join(import.meta.dirname, '../../../scripts/start.mjs');

/** The build of the copy: counts its runs, and a source is saved in the middle of the first one, which ends when file times have moved on. */
const NPM = `#!/bin/sh
echo built >> builds
[ -e src/saved.ts ] && exit
echo new > src/saved.ts
until [ tick -nt src/saved.ts ]; do echo > tick; done
`;

t.test('what is saved during a build is built by the next start', (t) => {
  const files = { 'package-lock.json': '', 'tsconfig.json': '', 'tsconfig.package.json': '' };
  const root = t.testdir({
    ...files,
    src: {},
    workers: {},
    scripts: {},
    bin: { 'headrace.js': '' },
    path: { npm: NPM },
  });
  copyFileSync(SCRIPT, `${root}/scripts/start.mjs`);
  execFileSync('chmod', ['+x', `${root}/path/npm`]);
  const start = (): string =>
    execFileSync(process.execPath, [`${root}/scripts/start.mjs`], {
      encoding: 'utf8',
      env: { PATH: `${root}/path:${process.env['PATH'] ?? ''}` },
    });
  t.match(start(), 'the first build takes some seconds');
  t.match(start(), 'Building what has changed');
  t.match(start(), 'The build is up to date');
  t.equal(readFileSync(`${root}/builds`, 'utf8'), 'built\nbuilt\n');
  t.end();
});
