// A client in a process without a free file descriptor, and with one again; started by `client.test.ts` with the URLs of two servers, in a
// process that may have few. It prints what each request comes to.

import { closeSync, openSync } from 'node:fs';
import { systemClock } from '../../src/actor/clock.ts';
import { ConnectionPool } from '../../src/net/client.ts';
import { asked } from './asked.ts';

const pools = process.argv.slice(2).map((url) => {
  return new ConnectionPool(url, { maxConnections: 3, keepAliveMs: 60_000, clock: systemClock });
});

const [first, second] = pools;
const outcomes = [await asked(first)];
const taken: number[] = [];
try {
  for (;;) taken.push(openSync('/dev/null', 'r'));
} catch {
  // There is none left.
}
outcomes.push(await asked(first), await asked(second));
for (const descriptor of taken) closeSync(descriptor);
outcomes.push(await asked(second));
process.stdout.write(outcomes.join(', '));
for (const pool of pools) pool.close();
