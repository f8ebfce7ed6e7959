// Lease managers and threads over one ledger in memory, on a manual clock. The ledger in memory works within microtasks, so a
// system that has settled has nothing under way. It imports no index: processes that are started again and again load it.

import { type Ref } from '../../src/actor/index.ts';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import { LeaseCache, type Payer, type Reserved, type Spending } from '../../src/billing/lease-cache.ts';
import { leaseManager, type LeaseManagerCommand } from '../../src/billing/lease-manager.ts';
import { openLedger } from '../../src/billing/ledger/open-ledger.ts';
import type { Ledger } from '../../src/billing/ledger/ledger.ts';
import type { ReportedCharge } from '../../src/billing/unposted-charges.ts';
import { createLeaseMemory } from '../../src/billing/lease-table.ts';
import { LedgerMetrics } from '../../src/telemetry/ledger-metrics.ts';
import { valuesOf } from '../support/metric-values.ts';

interface Test {
  teardown(run: () => unknown): void;
}

export const SETTINGS = { leasePico: 1000, leaseTtlMs: 60_000 };
export const PAYER: Payer = { account: 'a', key: 'k', prepaid: true };
const START_MS = 1_000_000;

export interface Store extends TestSystem {
  readonly ledger: Ledger;
  /** The wall clock: steps apart from the manual clock. */
  readonly wall: { stepMs: number };
}

/** A ledger with account `a`, which has so much credit. */
export async function openStore(t: Test, credit: bigint): Promise<Store> {
  const test = createTestSystem();
  const { clock } = test;
  const dateMs = (): number => START_MS + clock.now();
  const ledger = await openLedger(':memory:', { clock, dateMs, lingerMs: 0 });
  await ledger.createAccount({ id: 'a' });
  if (credit > 0n) await ledger.grant({ id: 'g', account: 'a', amount: credit });
  t.teardown(async () => {
    await test.system.terminate();
    await ledger.close();
  });
  return { ...test, ledger, wall: { stepMs: 0 } };
}

export interface Gateway {
  readonly manager: Ref<LeaseManagerCommand>;
  readonly threads: readonly LeaseCache[];
  readonly memory: SharedArrayBuffer;
  readonly metrics: LedgerMetrics;
  readonly problems: string[];
  /** Problems that are over. */
  readonly over: readonly string[];
  readonly opened: () => number;
  /** Posts what waits; answers with what is lost. */
  readonly shutDown: () => Promise<readonly ReportedCharge[]>;
  /** A thread in the place of one that has died. */
  readonly startThread: (thread: number) => LeaseCache;
}

export interface GatewayOptions {
  readonly threads?: number;
  readonly instance?: string;
  readonly accounts?: number;
  readonly leasePico?: number;
  /** Replaces methods of the ledger. */
  readonly change?: (ledger: Ledger) => Partial<Ledger>;
  readonly opening?: (ledger: Ledger) => Promise<Ledger>;
}

/** A lease manager with its threads, over the ledger of the store. */
export async function openGateway(store: Store, options: GatewayOptions = {}): Promise<Gateway> {
  const { clock, ledger, settle, system, wall } = store;
  const { accounts = 8, instance = 'i', leasePico = SETTINGS.leasePico, threads: count = 1 } = options;
  const changed = { ...ledger, ...options.change?.(ledger) };
  const memory = createLeaseMemory(count, accounts);
  const epochMs = (): number => START_MS + clock.now() + wall.stepMs;
  const metrics = new LedgerMetrics();
  const problems: string[] = [];
  const over: string[] = [];
  let opened = 0;
  const manager: Ref<LeaseManagerCommand> = system.spawn(
    leaseManager({
      openLedger: () => (options.opening === undefined ? Promise.resolve(changed) : options.opening(changed)),
      settings: { ...SETTINGS, leasePico },
      memory,
      instance,
      epochMs,
      metrics,
      onOpen(opening) {
        opened++;
        void opening.watch((change) => manager.tell({ type: 'Changed', change }));
      },
      onPosted: () => undefined,
      onProblem: (error, what) => problems.push(`${what}: ${String(error)}`),
      onOver: (what) => over.push(what),
    }),
  );
  const startThread = (thread: number): LeaseCache =>
    new LeaseCache({ system, leaseManager: manager, memory, thread, clock, epochMs, flushMs: 250, leasePico });
  const threads = Array.from({ length: count }, (_, thread) => startThread(thread));
  await settle();
  const shutDown = async (): Promise<readonly ReportedCharge[]> => {
    const flushed = Promise.withResolvers<void>();
    const replyTo = system.spawn<'flushed'>(() => () => flushed.resolve());
    manager.tell({ type: 'Flush', withinMs: 10_000, replyTo });
    await store.advance(10_000);
    await flushed.promise;
    const lost = Promise.withResolvers<readonly ReportedCharge[]>();
    manager.tell({ type: 'GiveUp', replyTo: system.spawn<readonly ReportedCharge[]>(() => lost.resolve) });
    return await lost.promise;
  };
  return { manager, threads, memory, metrics, over, problems, opened: () => opened, shutDown, startThread };
}

/** A reservation as the pipeline makes it: at once, or by waiting. */
export function hold(leases: LeaseCache, least: number, most = least, payer = PAYER): Promise<Reserved> {
  const amount = leases.reserve(payer, most);
  if (amount > 0) return Promise.resolve({ kind: 'reserved', amount });
  return new Promise((resolve) => leases.fund(payer, least, most, resolve));
}

export const spend = (cost: number): Spending => ({
  model: 'm',
  cost,
  promptTokens: 3,
  cachedTokens: 1,
  completionTokens: 2,
  measured: true,
});

/** A method that works and whose first answer is lost. */
export function losesFirstAnswer<Args extends unknown[], T>(
  work: (...args: Args) => Promise<T>,
): (...args: Args) => Promise<T> {
  let isFirst = true;
  return async (...args) => {
    const wasFirst = isFirst;
    isFirst = false;
    const answer = await work(...args);
    if (wasFirst) throw away();
    return answer;
  };
}

export const away = (): Error => new Error('the store is away');

/** The value of a metric without labels or with these. */
export function valueOf(metrics: LedgerMetrics, name: string, labels: object = {}): number | undefined {
  return valuesOf(metrics.snapshot(), name).find((each) => JSON.stringify(each.labels) === JSON.stringify(labels))
    ?.value;
}
