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
const env = { ...process.env, TAP_GREP: NAMED };

t.jobs = 2;
for (const file of globSync('**/*.test.js', { cwd: ROOT }).sort()) {
  const path = join(ROOT, file);
  if (path === import.meta.filename || !CHOOSES.test(readFileSync(path, 'utf8'))) continue;
  void t.spawn(node, ['--enable-source-maps', path], { buffered: true, env, timeout: TIMEOUT_MS }, file);
}
