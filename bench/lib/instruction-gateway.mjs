// The gateway under `../micro/instructions.mjs`: embedded, in one thread, everything on (keys, affinity, metrics, prices, a SQLite
// ledger). `node instruction-gateway.mjs JSON` prints `ready PORT` and serves until SIGTERM. JSON: { dist, ports, store }.
//
// Once it is ready its timers never fire: how many would fire during a count depends on the speed of the machine.

import { pathToFileURL } from 'node:url';
import { KEY, MODEL } from './traffic.mjs';

const NEVER = '3600s';
const { dist, ports, store } = JSON.parse(process.argv[2]);

/** Timers that were started before the gateway was ready. */
const timers = new Set();
let frozen = false;
for (const name of ['setTimeout', 'setInterval']) {
  const start = globalThis[name];
  globalThis[name] = (...words) => {
    const timer = start(...words);
    if (frozen) clearTimeout(timer);
    else timers.add(timer);
    return timer;
  };
}

const { createGateway } = await import(pathToFileURL(`${dist}/src/index.js`).href);
const servers = ports.map((port) => `http://127.0.0.1:${port}`);
const gateway = createGateway({
  listen: '127.0.0.1:0',
  threads: 0,
  store: `sqlite:${store}`,
  log: { level: 'warn' },
  keys: { required: true, static: [{ key: KEY, account: 'bench' }] },
  models: { [MODEL]: { servers, pricing: { prompt: '0.25', completion: '1.50' } } },
  health: { interval: NEVER },
  credit: { leaseTtl: NEVER, flush: NEVER },
});
const { url } = await gateway.listen();
await gateway.ready();
frozen = true;
for (const timer of timers) clearTimeout(timer);
timers.clear();
process.stdout.write(`ready ${new URL(url).port}\n`);
process.on('SIGTERM', () => process.exit(0));
