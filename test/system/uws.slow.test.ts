// What tests say of uWebSockets.js, on the lowest supported Node.js: it has no binary for later ones, on which everything else runs.

import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { LOWEST_NODE, nodeBinaries } from '../package/installed.ts';

const ROOT = join(import.meta.dirname, '..');

/** How test files choose servers (`../support/uws.ts`). */
const CHOOSES = /\b(SERVERS|SERVER_ADAPTERS|SOCKETS|HAS_UWS|WITH_UWS)\b/;
/** How tests of uWebSockets.js are named. */
const NAMED = '/uws|uWebSockets/';

const TIMEOUT_MS = 1_000_000;

const folder = mkdtempSync(join(tmpdir(), 'headrace-node-'));
t.teardown(() => rmSync(folder, { recursive: true }));
const node = (await nodeBinaries([LOWEST_NODE], folder)).get(LOWEST_NODE) as string;

const files = globSync('**/*.test.js', { cwd: ROOT })
  .filter((file) => join(ROOT, file) !== import.meta.filename && CHOOSES.test(readFileSync(join(ROOT, file), 'utf8')))
  .sort();

// Two processes and not one for each file, most of whose time would be their start.
t.jobs = 2;
for (const half of [0, 1]) {
  const named = files.filter((_, at) => at % 2 === half).join(' ');
  const env = { ...process.env, TAP_GREP: NAMED, HEADRACE_TEST_FILES: named };
  const argv = ['--enable-source-maps', join(ROOT, 'areas.js'), `uws-${half}`];
  void t.spawn(node, argv, { buffered: true, env, timeout: TIMEOUT_MS }, `half ${half}`);
}
