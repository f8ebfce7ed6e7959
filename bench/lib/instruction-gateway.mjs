// The gateway under `../micro/instructions.mjs`: embedded, in one thread, with the settings of a variant of `gateway.mjs`.
// `node instruction-gateway.mjs JSON` prints `ready PORT` and serves until SIGTERM. JSON: { dist, ports, folder, variant }.
//
// Once it is ready its timers never fire: how many would fire during a count depends on the speed of the machine.

import { pathToFileURL } from 'node:url';
import { gatewaySettings } from './gateway.mjs';

const NEVER = '3600s';
const { dist, ports, folder, variant } = JSON.parse(process.argv[2]);

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
const gateway = createGateway({
  listen: '127.0.0.1:0',
  threads: 0,
  store: null,
  log: { level: 'warn' },
  ...gatewaySettings(variant, ports, folder),
  health: { interval: NEVER },
  // The longest: what is counted in the minute of a flush is not the median.
  credit: { leaseTtl: NEVER, flush: '1m' },
});
const { url } = await gateway.listen();
await gateway.ready();
frozen = true;
for (const timer of timers) clearTimeout(timer);
timers.clear();
process.stdout.write(`ready ${new URL(url).port}\n`);
process.on('SIGTERM', () => process.exit(0));
