// `npm start`: builds what the package holds if a source is newer than the last build, says so at once, and runs the demo with the
// arguments given.

import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** There when a build has succeeded; written before it, so that what was saved meanwhile is newer. */
const STAMP = `${ROOT}dist/start.stamp`;
const NEXT_STAMP = `${ROOT}dist/next.stamp`;
const SOURCES = ['src', 'workers', 'scripts', 'package-lock.json', 'tsconfig.json', 'tsconfig.package.json'];

/** Time of the latest change to a file or folder, in milliseconds; folders change when a file in them is deleted. */
function changedMs(path) {
  const stats = statSync(path);
  if (!stats.isDirectory()) return stats.mtimeMs;
  return readdirSync(path).reduce((latest, name) => Math.max(latest, changedMs(`${path}/${name}`)), stats.mtimeMs);
}

function builtMs() {
  return statSync(STAMP, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

if (SOURCES.some((name) => changedMs(ROOT + name) >= builtMs())) {
  const isFirst = builtMs() === 0;
  console.log(isFirst ? 'Building headrace; the first build takes some seconds.' : 'Building what has changed.');
  mkdirSync(`${ROOT}dist`, { recursive: true });
  writeFileSync(NEXT_STAMP, '');
  const { status } = spawnSync('npm', ['run', '--silent', 'build:package'], { cwd: ROOT, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
  renameSync(NEXT_STAMP, STAMP);
  console.log('Starting the demo.');
} else {
  console.log('The build is up to date. Starting the demo.');
}

process.argv.splice(1, 1, `${ROOT}bin/headrace.js`, 'demo');
await import('../bin/headrace.js');
