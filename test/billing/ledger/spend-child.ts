// A process that spends one account as fast as it can until nothing is left, then prints what it spent; started by
// `spend.test.ts`. Arguments: store URL, name of the process.

import { once } from 'node:events';
import { systemClock } from '../../../src/actor/clock.ts';
import { openLedger } from '../../../src/billing/ledger/open-ledger.ts';
import { charge } from './stores.ts';

const [url = '', name = ''] = process.argv.slice(2);
// A pause between commits leaves the other process its turn: SQLite's lock is not fair.
const ledger = await openLedger(url, { clock: systemClock, dateMs: () => 1_790_000_000_000, lingerMs: 5 });
const usage = { key: name, model: 'm', inputTokens: 1, cachedTokens: 0, outputTokens: 1, measured: true };
const request = { account: 'a', holder: name, ttlMs: 1e12 };
let spent = 0n;

async function spendHolds(lane: number): Promise<void> {
  for (let at = 0; ; at++) {
    const id = `${name}-${lane}-${at}`;
    const amount = BigInt(50 + ((lane * 31 + at * 17) % 50));
    if ((await ledger.hold({ ...request, id, amount })).kind === 'short') return;
    await ledger.settle(id, amount - 3n, usage);
    spent += amount - 3n;
  }
}

async function spendLeases(lane: number): Promise<void> {
  for (let at = 0; ; at++) {
    const id = `${name}-lease-${lane}-${at}`;
    const lease = await ledger.lease({ ...request, id, amount: 120n });
    if (lease.kind === 'short') return;
    const cost = lease.amount / 2n;
    await Promise.all(['x', 'y'].map((each) => charge(ledger, id, id + each, cost, usage)));
    await ledger.release(id);
    spent += cost * 2n;
    if (lease.amount < 2n) return;
  }
}

process.send?.('ready');
await once(process, 'message');
await Promise.all([...[0, 1, 2, 3].map(spendHolds), ...[0, 1].map(spendLeases)]);
process.send?.(`${spent}`);
await ledger.close();
process.disconnect();
