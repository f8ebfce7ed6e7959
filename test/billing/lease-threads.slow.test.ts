// Real threads that draw from shared leases and are killed wherever they are: nothing is lost, nothing is created, and what is left
// can be drawn at once.

import { once } from 'node:events';
import { MessageChannel, Worker } from 'node:worker_threads';
import t from 'tap';
import { createSeededRandom, createSystem, link, systemClock, systemEpochMs } from '../../src/actor/index.ts';
import { LeaseCache } from '../../src/billing/index.ts';
import { openLedger } from '../../src/billing/main-thread.ts';
import { leaseManager } from '../../src/billing/lease-manager.ts';
import { createLeaseMemory } from '../../src/billing/lease-table.ts';
import { LedgerMetrics } from '../../src/telemetry/ledger-metrics.ts';
import { valuesOf } from '../support/metric-values.ts';
import { until } from '../support/system.ts';
import { hold } from './lease-fixture.ts';
import type { LeaseThreadData } from './lease-thread-child.ts';

const THREADS = 3;
const KILLS = 30;
const LEASE = 100_000;
const GRANT = 2n ** 40n;
const ACCOUNTS = ['a', 'b'];

const wait = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

t.test('threads that are killed leave no credit behind and spend none twice', async (t) => {
  const system = createSystem({ name: 'control' });
  const ledger = await openLedger(':memory:', { clock: systemClock, dateMs: systemEpochMs });
  t.teardown(async () => {
    await system.terminate();
    await ledger.close();
  });
  for (const id of ACCOUNTS) {
    await ledger.createAccount({ id });
    await ledger.grant({ id, account: id, amount: GRANT });
  }
  // One more for the local thread.
  const memory = createLeaseMemory(THREADS + 1);
  const delivered = new SharedArrayBuffer(ACCOUNTS.length * 8);
  const problems: unknown[] = [];
  const metrics = new LedgerMetrics();
  const manager = system.spawn(
    leaseManager({
      openLedger: () => Promise.resolve(ledger),
      settings: { leasePico: LEASE, leaseTtlMs: 60_000 },
      memory,
      instance: 'i',
      epochMs: systemEpochMs,
      metrics,
      onOpen: () => undefined,
      onPosted: () => undefined,
      onProblem: (error) => problems.push(error),
    }),
    { mailbox: { capacity: Infinity, overflow: 'fail' } },
  );
  const random = createSeededRandom(7);
  let seed = 0;
  const start = (thread: number): { worker: Worker; served: Promise<unknown>; ended: Promise<void> } => {
    const { port1, port2 } = new MessageChannel();
    const toThread = link(system, port1);
    toThread.expose('leaseManager', manager);
    const workerData: LeaseThreadData = {
      ...{ memory, delivered, accounts: ACCOUNTS, thread, seed: ++seed, leasePico: LEASE, port: port2 },
    };
    const worker = new Worker(new URL('lease-thread-child.js', import.meta.url), { workerData, transferList: [port2] });
    const served = once(worker, 'message');
    const ended = once(worker, 'exit')
      .then(() => toThread.closed)
      .then(() => manager.tell({ type: 'ThreadGone', thread }));
    return { worker, served, ended };
  };
  const threads = Array.from({ length: THREADS }, (_, at) => start(at + 1));
  for (let kills = 0; kills < KILLS; kills++) {
    const at = Math.floor(random() * THREADS);
    const { ended, served, worker } = threads[at] as (typeof threads)[number];
    // One in four is killed wherever it is in its start.
    if (random() < 0.75) await served;
    await wait(random() * 60);
    await worker.terminate();
    await ended;
    threads[at] = start(at + 1);
  }
  await Promise.all(threads.map(({ served }) => served));
  for (const { worker } of threads) worker.postMessage('stop');
  await Promise.all(threads.map(({ ended }) => ended));
  t.same(problems, []);

  const own = { system, leaseManager: manager, memory, thread: 0, clock: systemClock, epochMs: systemEpochMs };
  const local = new LeaseCache({ ...own, flushMs: 5, leasePico: LEASE });
  for (const account of ACCOUNTS) {
    // Answered behind all that the threads have told.
    const payer = { account, key: null, prepaid: true };
    t.match(await hold(local, 1, 1, payer), { kind: 'reserved' });
    local.cancel(payer, 1);
  }
  await until(
    'their charges are posted',
    () => valuesOf(metrics.snapshot(), 'headrace_ledger_waiting')[0]?.value === 0,
  );
  const sums = new BigInt64Array(delivered);
  for (const [at, id] of ACCOUNTS.entries()) {
    const account = await ledger.account(id);
    const spent = (await ledger.usage({ account: id, by: [] }))[0]?.amount ?? 0n;
    t.equal((account?.balance ?? 0n) + (account?.held ?? 0n), GRANT - spent, 'what was not charged is there');
    t.ok(spent > 0n && spent <= (sums[at] as bigint), `${spent} charged, ${sums[at]} delivered`);
    const rest = Number(GRANT - spent);
    const payer = { account: id, key: null, prepaid: true };
    t.same(await hold(local, rest, rest, payer), { kind: 'reserved', amount: rest }, 'and can be drawn at once');
    local.cancel(payer, rest);
  }
  local.close();
  const flushed = Promise.withResolvers<void>();
  manager.tell({ type: 'Flush', withinMs: 10_000, replyTo: system.spawn<'flushed'>(() => () => flushed.resolve()) });
  await flushed.promise;
  for (const id of ACCOUNTS) t.match(await ledger.account(id), { held: 0n });
  t.match(await ledger.audit(), { sound: true });
});
