// The processes of the scenarios: simulated engines and sites, and a gateway over them.

import { fileURLToPath } from 'node:url';
import { LOAD_CORE } from '../lib/cores.mjs';
import { startGateway } from '../lib/gateway.mjs';
import { startChild, stopChild } from '../lib/process.mjs';

const WEB = fileURLToPath(new URL('web.mjs', import.meta.url));

const ENGINES = ['engine_a', 'engine_b', 'engine_c'];

/**
 * Runs `use({ webPort, gateway: { port, pid } })` with both. `scale` is the factor of the latencies of the web; `cores` are those of the
 * gateway.
 */
export async function withSimulatedWeb({ cores, fetch = {}, nodeFlags, scale }, use) {
  const children = [];
  try {
    const web = await startChild({
      ...{ name: 'web', command: process.execPath, args: [WEB, String(scale)] },
      ...{ core: LOAD_CORE, ready: /^ready (\d+)$/ },
    });
    children.push(web.child);
    const webPort = Number(web.match[1]);
    const engines = ENGINES.map((id) => [id, { kind: 'searxng', url: `http://127.0.0.1:${webPort}/engine/${id}` }]);
    const gateway = await startGateway(
      {
        search: { engines: Object.fromEntries(engines), default: ENGINES, perAccount: 64 },
        fetch: { perAccount: 64, perHost: 64, cacheTtl: null, allow: ['127.0.0.0/8'], ports: [webPort], ...fetch },
      },
      { cores, nodeFlags },
    );
    children.push(gateway.child);
    return await use({ webPort, gateway: { port: gateway.port, pid: gateway.child.pid } });
  } finally {
    for (const child of children.toReversed()) await stopChild(child);
  }
}
