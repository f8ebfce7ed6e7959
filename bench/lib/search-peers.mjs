// Starts and stops the peers of the search benchmark: the gateway in front of five search workers, and one worker by itself as
// `direct`. The gateway runs on core 0, the workers and the load client on core 1.

import { fileURLToPath } from 'node:url';
import { LOAD_CORE } from './cores.mjs';
import { startGateway } from './gateway.mjs';
import { runChild, startChild, stopChild } from './process.mjs';
import { rigNode } from './rig-node.mjs';
import { ENGINES } from './search-traffic.mjs';

const HERE = new URL('.', import.meta.url);
const path = (relative) => fileURLToPath(new URL(relative, HERE));

/**
 * Starts the workers and the named peers, calls `use(peers)`, stops everything. `concurrency` is the limit of every
 * engine; `profileDir` runs the gateway under the CPU profiler.
 */
export async function withSearchPeers({ names, serviceMs, concurrency, ...settings }, use) {
  const children = [];
  try {
    const { child: workers, match } = await startChild({
      name: 'workers',
      command: rigNode(),
      args: [path('search-upstream.mjs'), String(serviceMs)],
      core: LOAD_CORE,
      ready: /^ready (\d+) (\d+) (\d+) (\d+) (\d+)$/,
    });
    children.push(workers);
    const ports = match.slice(1).map(Number);
    const start = {
      direct: async () => ({ port: ports[0], child: workers }),
      headrace: () => startGateway(searchSettings(ports, concurrency), settings),
    };
    const peers = [];
    for (const name of names) {
      if (!Object.hasOwn(start, name)) throw new Error(`there is no peer "${name}"`);
      const { port, child } = await start[name]();
      if (child !== workers) children.push(child);
      peers.push({ name, port, pid: child.pid, workersPid: workers.pid, logPort: ports[0] });
    }
    return await use(peers);
  } finally {
    for (const child of children.reverse()) await stopChild(child);
  }
}

function searchSettings(ports, concurrency) {
  const engine = (port) => ({ kind: 'worker', url: `http://127.0.0.1:${port}`, types: ['web'], concurrency });
  const engines = Object.fromEntries(ENGINES.map((id, index) => [id, engine(ports[index])]));
  // The load client has no key: all of its connections are one caller.
  return { search: { engines, perAccount: concurrency } };
}

/** One run of the load client against `peer`. */
export function runSearchClient(peer, load) {
  const { name, port, logPort, pid, workersPid } = peer;
  const watch = { peer: pid, workers: workersPid };
  return runChild({
    name: `client of ${name}`,
    command: process.execPath,
    args: [path('search-client.mjs'), JSON.stringify({ ...load, port, logPort, direct: name === 'direct', watch })],
    core: LOAD_CORE,
  });
}
