// A client on a machine that has two local ports and no IPv6; started by `client.test.ts` in such a network namespace. It prints what each
// request comes to.

import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { systemClock } from '../../src/actor/clock.ts';
import { ConnectionPool } from '../../src/net/client.ts';
import { NameCache } from '../../src/net/name-cache.ts';
import { asked } from './asked.ts';

/** What is not answered yet: a request that waits keeps its port. */
const held: ServerResponse[] = [];
let arrived = Promise.withResolvers<void>();
const server = createServer((_, response) => {
  held.push(response);
  arrived.resolve();
});
// A port outside of those that the client has.
server.listen(50_000, '127.0.0.1');
await once(server, 'listening');
const { port } = server.address() as AddressInfo;
const names = new NameCache({ lookup: async () => ['127.0.0.1', '::1'] });
const pools = ['127.0.0.1', '[::1]', 'both.test'].map(
  (host) =>
    new ConnectionPool(`http://${host}:${port}`, { maxConnections: 5, keepAliveMs: 60_000, clock: systemClock, names }),
);

const [reachable, absent, both] = pools;
const waiting: Promise<string>[] = [];
for (let count = 0; count < 2; count++) {
  waiting.push(asked(reachable));
  await arrived.promise;
  arrived = Promise.withResolvers();
}
const failed = [await asked(reachable), await asked(absent), await asked(both)];
for (const response of held.splice(0)) response.end();
const answered = await Promise.all(waiting);
const last = asked(reachable);
await arrived.promise;
held[0]?.end();
process.stdout.write([...answered, ...failed, await last].join(', '));
for (const pool of pools) pool.close();
server.close();
