// A client in a process without a free file descriptor, and with one again; started by `client.test.ts` with the URLs of two servers, in a
// process that may have few. It prints what each request comes to.

import { closeSync, openSync } from 'node:fs';
import { systemClock } from '../../src/actor/clock.ts';
import { ConnectionPool, type DispatchHandler } from '../../src/net/client.ts';

const pools = process.argv.slice(2).map((url) => {
  return new ConnectionPool(url, { maxConnections: 3, keepAliveMs: 60_000, clock: systemClock });
});

function ask(pool: ConnectionPool | undefined): Promise<string> {
  return new Promise((resolve) => {
    let outcome = '';
    const handler: DispatchHandler = {
      onRequestSent: () => undefined,
      onResponseStart: (status) => void (outcome = String(status)),
      onResponseData: () => undefined,
      onResponseEnd: () => resolve(outcome),
      onResponseError: ({ cause, fault }) => resolve(`${fault}: ${(cause as NodeJS.ErrnoException).code}`),
    };
    pool?.dispatch({ method: 'GET', path: '/', headers: [], body: Buffer.alloc(0) }, handler);
  });
}

const [first, second] = pools;
const outcomes = [await ask(first)];
const taken: number[] = [];
try {
  for (;;) taken.push(openSync('/dev/null', 'r'));
} catch {
  // There is none left.
}
outcomes.push(await ask(first), await ask(second));
for (const descriptor of taken) closeSync(descriptor);
outcomes.push(await ask(second));
process.stdout.write(outcomes.join(', '));
for (const pool of pools) pool.close();
