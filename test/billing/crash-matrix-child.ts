// A gateway of one thread that serves requests until it dies at a given point; started by `crash-matrix.slow.test.ts`. It prints
// what it has delivered before it settles it. Arguments: store URL, point, how often that point passes before.

import { writeSync } from 'node:fs';
import { createSystem, systemClock, systemEpochMs } from '../../src/actor/index.ts';
import { LeaseCache } from '../../src/billing/lease-cache.ts';
import { openLedger } from '../../src/billing/ledger/open-ledger.ts';
import type { Ledger } from '../../src/billing/ledger/ledger.ts';
import { leaseManager } from '../../src/billing/lease-manager.ts';
import { createLeaseMemory } from '../../src/billing/lease-table.ts';
import { LedgerMetrics } from '../../src/telemetry/ledger-metrics.ts';
import { CALLS, LEASE, REQUESTS, TTL_MS } from './crash-points.ts';
import { hold, PAYER, spend } from './lease-fixture.ts';

const [url = '', dyingPoint = '', passes = '0'] = process.argv.slice(2);
const left = { passes: Number(passes) };

function pass(point: string): void {
  if (point === dyingPoint && left.passes-- === 0) process.kill(process.pid, 'SIGKILL');
}

function watched(ledger: Ledger): Ledger {
  const calls = CALLS.map((name) => {
    const call = ledger[name] as (...args: unknown[]) => Promise<unknown>;
    return [
      name,
      async (...args: unknown[]): Promise<unknown> => {
        pass(`before ${name}`);
        const answer = await call(...args);
        pass(`after ${name}`);
        return answer;
      },
    ] as const;
  });
  return { ...ledger, ...(Object.fromEntries(calls) as Partial<Ledger>) };
}

const system = createSystem({ name: 'gateway' });
const ledger = await openLedger(url, {
  ...{ clock: systemClock, dateMs: systemEpochMs, lingerMs: 0 },
  onStep: (step) => pass(`commit ${step}`),
});
const memory = createLeaseMemory(1);
const manager = system.spawn(
  leaseManager({
    openLedger: () => Promise.resolve(watched(ledger)),
    settings: { leasePico: LEASE, leaseTtlMs: TTL_MS },
    memory,
    instance: `${process.pid}`,
    epochMs: systemEpochMs,
    metrics: new LedgerMetrics(),
    onOpen: () => undefined,
    onPosted: () => undefined,
    onProblem: (error) => writeSync(2, `${String(error)}\n`),
  }),
);
const own = { system, leaseManager: manager, memory, thread: 0, clock: systemClock, epochMs: systemEpochMs };
const leases = new LeaseCache({ ...own, flushMs: 2, leasePico: LEASE });
for (let request = 0; request < REQUESTS; request++) {
  const reserved = await hold(leases, 1, 3000 + ((request * 7919) % 5000));
  if (reserved.kind !== 'reserved') continue;
  pass('credit drawn');
  // Another gateway asks for credit now and then, so that some goes back.
  if (request % 5 === 4) manager.tell({ type: 'Changed', change: { kind: 'wanted', account: 'a', by: 'other' } });
  const cost = Math.ceil(reserved.amount / 3);
  writeSync(1, `delivered ${cost}\n`);
  pass('answer delivered');
  leases.settle(PAYER, reserved.amount, spend(cost));
  pass('request settled');
  await new Promise((resolve) => setTimeout(resolve, 1));
}
leases.close();
pass('charges reported');
const flushed = Promise.withResolvers<void>();
manager.tell({ type: 'Flush', withinMs: 10_000, replyTo: system.spawn<'flushed'>(() => () => flushed.resolve()) });
await flushed.promise;
pass('all given back');
await system.terminate();
await ledger.close();
writeSync(1, 'finished\n');
