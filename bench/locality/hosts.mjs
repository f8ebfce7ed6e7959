// The fleet of a locality run as one process: simulated hosts, and a control port for the bench. `node hosts.mjs JSON` with
// { model, hosts, cacheBlocks, blockBytes, speed } prints `ready CONTROL_PORT PORT ...` and serves until SIGTERM.
// The control port answers GET /counters with the counters of every host, and POST /choose with a chat body by the index of the host
// that an oracle would choose, which knows what every cache holds.

import { createServer } from 'node:http';
import { createHost } from '../../dist/src/host/index.js';
import { turnsOf } from '../../dist/src/host/formats/conversation.js';
import { BlockEngine, createOracle } from './block-engine.mjs';

/** A larger body is no request of a locality run. */
const MAX_BODY_BYTES = 16 << 20;

const settings = JSON.parse(process.argv[2]);
const engines = Array.from({ length: settings.hosts }, () => new BlockEngine(settings));
const hosts = engines.map((engine, at) =>
  createHost({ models: [settings.model], engine, name: `host-${at + 1}`, journalEntries: 0 }),
);
const choose = createOracle(engines);

const control = createServer((request, response) => {
  if (request.url === '/counters') {
    response.end(JSON.stringify(engines.map((engine) => engine.counters())));
    return;
  }
  const chunks = [];
  let bytes = 0;
  request.on('data', (chunk) => {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) request.destroy();
    else chunks.push(chunk);
  });
  request.on('end', () => {
    const { messages } = JSON.parse(Buffer.concat(chunks));
    response.end(String(choose({ turns: turnsOf(messages, 'messages') })));
  });
});

const urls = await Promise.all(hosts.map((host) => host.listen()));
await new Promise((resolve) => control.listen(0, '127.0.0.1', resolve));
process.stdout.write(`ready ${control.address().port} ${urls.map((url) => new URL(url).port).join(' ')}\n`);

process.on('SIGTERM', () => process.exit(0));
