// Runs a benchmark again in the Node.js that the repository installs, if the current one is too old for the gateway.

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** The least version in `engines` of package.json. */
const NODE_MAJOR = 22;

/** Returns if this Node.js is new enough. Otherwise runs the same command in the one of `root` and exits with its status. */
export function useOwnNode(root) {
  if (Number.parseInt(process.versions.node, 10) >= NODE_MAJOR) return;
  const own = join(root, 'node_modules', '.bin', 'node');
  if (!existsSync(own)) throw new Error(`Node.js ${NODE_MAJOR} or newer is needed, this is ${process.version}`);
  process.exit(spawnSync(own, process.argv.slice(1), { stdio: 'inherit' }).status ?? 1);
}
