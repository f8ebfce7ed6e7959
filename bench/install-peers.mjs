// Installs the other gateways and proxies of the benchmark and lists them with their versions: `node bench/install-peers.mjs
// [PEER ...]`. `run.mjs peers` does the same first. Where they go: peers/install.mjs.

import { OTHERS } from './lib/peers.mjs';
import { installMissing } from './peers/install.mjs';

const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(OTHERS);
const unknown = names.find((name) => !(name in OTHERS));
if (unknown !== undefined) {
  process.stderr.write(`there is no peer "${unknown}"; there are ${Object.keys(OTHERS).join(', ')}\n`);
  process.exit(2);
}
const peers = Object.fromEntries(names.map((name) => [name, OTHERS[name]]));
const failures = installMissing(peers, (text) => process.stderr.write(`${text}\n`));
for (const [name, { find, version }] of Object.entries(peers)) {
  const state = name in failures ? `not installed: ${failures[name]}` : (version(find()) ?? 'version unknown');
  process.stdout.write(`${name}: ${state}\n`);
}
