// The Node.js of the model servers and search workers of load benchmarks. They run on uWebSockets.js, which has no binary for
// versions behind 22; the programs that are measured run on the Node.js of the benchmark.

import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { installPackages } from '../peers/install.mjs';

const BENCH = fileURLToPath(new URL('..', import.meta.url));
const LAST_MAJOR = 22;

/** Path of a Node.js that uWebSockets.js has a binary for; installs bench/package.json when it is not there. Throws when npm fails. */
export function rigNode() {
  if (Number.parseInt(process.versions.node, 10) <= LAST_MAJOR) return process.execPath;
  const path = `${BENCH}node_modules/node-${LAST_MAJOR}-${process.arch}/bin/node`;
  if (!existsSync(path)) installPackages();
  return path;
}
