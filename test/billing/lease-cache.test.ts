// LeaseCache and the lease manager over a real ledger in memory: several threads, one account, a manual clock. The ledger in
// memory works within microtasks, so a system that has settled has nothing under way.

import t from 'tap';
import {
  type Ledger,
  LeaseCache,
  type LeaseManagerCommand,
  openLedger,
  type Reserved,
  type Spending,
} from '../../src/billing/index.ts';
import type { HoldRequest } from '../../src/billing/ledger/store.ts';
import { type Funding, leaseManager } from '../../src/billing/lease-manager.ts';
import { LedgerMetrics } from '../../src/telemetry/ledger-metrics.ts';
import { createManualClock, createSystem, type Ref } from '../../src/actor/index.ts';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';

const SETTINGS = { leasePico: 1000, leaseTtlMs: 60_000 };
const PAYER = { account: 'a', key: 'k', prepaid: true };
const USAGE = { key: null, model: 'm', inputTokens: 1, cachedTokens: 0, outputTokens: 1, measured: true };

/** Longest wait of the lease manager for credit that it has recalled. */
const RECALL_MS = 50;

const away = (): Error => new Error('the store is away');

interface Threads extends TestSystem {
  readonly ledger: Ledger;
  readonly threads: readonly LeaseCache[];
  readonly problems: string[];
}

/** Account `a` with so much credit, and threads that spend it. Recalls are waited for in full. */
async function openThreads(t: { teardown(run: () => unknown): void }, credit: bigint, count = 2): Promise<Threads> {
  const test = createTestSystem();
  const { clock, settle, system } = test;
  const ledger = await openLedger(':memory:', { clock, dateMs: () => 1_000_000, lingerMs: 0 });
  if (credit > 0n) {
    await ledger.createAccount({ id: 'a' });
    await ledger.grant({ id: 'g', account: 'a', amount: credit });
  }
  const problems: string[] = [];
  const threads: LeaseCache[] = [];
  const manager: Ref<LeaseManagerCommand> = system.spawn(
    leaseManager({
      openLedger: () => Promise.resolve(ledger),
      settings: SETTINGS,
      instance: 'i',
      epochMs: () => 1_000_000,
      metrics: new LedgerMetrics(),
      onOpen: () => undefined,
      onRenewed: (untilMs) => threads.forEach((leases) => leases.trust(untilMs)),
      onPosted: () => undefined,
      onRecall(account) {
        threads.forEach((leases) => leases.recall(account));
        void settle().then(() => clock.advance(RECALL_MS));
      },
      onProblem: (error, what) => problems.push(`${what}: ${String(error)}`),
    }),
  );
  for (let at = 0; at < count; at++) {
    const options = { leaseManager: manager, thread: `thread-${at}`, clock, epochMs: () => 1_000_000, flushMs: 250 };
    threads.push(new LeaseCache({ ...options, leasePico: SETTINGS.leasePico }));
  }
  for (const leases of threads) leases.trust(1_060_000);
  t.teardown(async () => {
    await system.terminate();
    await ledger.close();
  });
  return { ...test, ledger, threads, problems };
}

interface Manager extends TestSystem {
  readonly ledger: Ledger;
  readonly metrics: LedgerMetrics;
  readonly problems: string[];
  readonly tell: (command: LeaseManagerCommand) => void;
  readonly fund: (need: number) => Promise<Funding>;
}

/** A lease manager alone, and account `a` with 100 pico-USD. `change` may replace methods of its ledger. */
async function openManager(
  t: { teardown(run: () => unknown): void },
  change: (ledger: Ledger) => Partial<Ledger>,
  opening: (ledger: Ledger) => Promise<Ledger> = (ledger) => Promise.resolve(ledger),
): Promise<Manager> {
  const test = createTestSystem();
  const { clock, system } = test;
  const ledger = await openLedger(':memory:', { clock, dateMs: () => 1_000_000, lingerMs: 0 });
  await ledger.createAccount({ id: 'a' });
  await ledger.grant({ id: 'g', account: 'a', amount: 100n });
  const metrics = new LedgerMetrics();
  const problems: string[] = [];
  const manager: Ref<LeaseManagerCommand> = system.spawn(
    leaseManager({
      openLedger: () => opening({ ...ledger, ...change(ledger) }),
      settings: SETTINGS,
      instance: 'i',
      epochMs: () => 1_000_000,
      metrics,
      onOpen: () => undefined,
      onRenewed: () => undefined,
      onPosted: () => undefined,
      onRecall: () => undefined,
      onProblem: (_error, what) => problems.push(what),
    }),
  );
  await test.settle();
  t.teardown(async () => {
    await system.terminate();
    await ledger.close();
  });
  return {
    ...test,
    ledger,
    metrics,
    problems,
    tell: (command) => manager.tell(command),
    fund: (need) =>
      new Promise((resolve) => {
        const replyTo = system.spawn<Funding>(() => resolve);
        manager.tell({ type: 'Fund', thread: 't', account: 'a', need, lean: true, replyTo });
      }),
  };
}

/** A method that works and whose first answer is lost. */
function losesFirstAnswer<Args extends unknown[], T>(
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

/** The value of a metric without labels or with these. */
function valueOf(metrics: LedgerMetrics, name: string, labels: object = {}): number | undefined {
  const family = metrics.snapshot().find((each) => each.name === name);
  return family?.values.find((each) => JSON.stringify(each.labels) === JSON.stringify(labels))?.value;
}

const fund = (leases: LeaseCache, amount: number, payer = PAYER): Promise<Reserved> =>
  new Promise((resolve) => leases.fund(payer, amount, amount, resolve));

const spend = (cost: number): Spending => ({
  model: 'm',
  cost,
  promptTokens: 3,
  cachedTokens: 1,
  completionTokens: 2,
  measured: true,
});

t.test('credit is leased once, spent without asking, and charged in sums', async (t) => {
  const { ledger, threads, advance, settle, problems } = await openThreads(t, 100_000n);
  const [leases] = threads as [LeaseCache];
  t.equal(leases.reserve(PAYER, 10, 10), 0, 'nothing is at hand yet');
  t.same(await fund(leases, 10), { kind: 'reserved', amount: 10 });
  leases.settle(PAYER, 10, spend(7));
  for (let request = 0; request < 20; request++) {
    t.equal(leases.reserve(PAYER, 10, 10), 10);
    leases.settle(PAYER, 10, spend(7));
  }
  t.equal(leases.reserve(PAYER, 10, 10), 10);
  leases.cancel(PAYER, 10);
  await advance(250);
  const [row] = await ledger.usage({ by: ['account', 'key', 'model'] });
  t.match(row, { account: 'a', key: 'k', model: 'm', requests: 21n, amount: 147n, inputTokens: 63n, estimated: 0n });
  t.equal((await ledger.history({ account: 'a' })).filter(({ kind }) => kind === 'charge').length, 1, 'one movement');
  leases.close();
  await settle();
  t.match(await ledger.account('a'), { balance: 99_853n, held: 0n });
  t.match(await ledger.audit(), { sound: true });
  t.same(problems, []);
});

t.test('an account without credit is short, and so is one that is unknown', async (t) => {
  const { threads } = await openThreads(t, 5n);
  const [leases] = threads as [LeaseCache];
  t.same(await fund(leases, 10), { kind: 'short', balance: 5 });
  t.same(await fund(leases, 10, { ...PAYER, account: 'nobody' }), { kind: 'short', balance: 0 });
  t.same(await fund(leases, 5), { kind: 'reserved', amount: 5 }, 'what is there can be spent');
});

t.test('a reservation takes all of the most that is asked for, or what there is from the least on', async (t) => {
  const { threads } = await openThreads(t, 500n, 1);
  const [leases] = threads as [LeaseCache];
  const ask = (least: number, most: number): Promise<Reserved> =>
    new Promise((resolve) => leases.fund(PAYER, least, most, resolve));
  t.same(await ask(10, 200), { kind: 'reserved', amount: 200 });
  t.same(await ask(10, 1000), { kind: 'reserved', amount: 300 });
  t.match(await ask(1, 1000), { kind: 'short' });
  leases.cancel(PAYER, 200);
  t.equal(leases.reserve(PAYER, 10, 150), 150);
});

t.test('credit that one thread does not need is recalled for another', async (t) => {
  const { ledger, threads } = await openThreads(t, 1000n);
  const [one, two] = threads as [LeaseCache, LeaseCache];
  t.same(await fund(one, 900), { kind: 'reserved', amount: 900 });
  one.settle(PAYER, 900, spend(100));
  t.same(await fund(two, 880), { kind: 'reserved', amount: 880 }, 'the first gives back what it does not use');
  two.settle(PAYER, 880, spend(880));
  t.match(await fund(one, 100), { kind: 'short' });
  t.ok(((await ledger.account('a'))?.balance ?? -1n) >= 0n);
});

t.test('an account that pays later needs no credit and may fall below zero', async (t) => {
  const { ledger, threads, advance } = await openThreads(t, 0n);
  const [leases] = threads as [LeaseCache];
  const later = { ...PAYER, prepaid: false };
  t.equal(leases.reserve(later, 1, 1e9), 1e9);
  leases.settle(later, 1e9, { ...spend(70), measured: false });
  await advance(250);
  t.match(await ledger.account('a'), { balance: -70n });
  t.match(await ledger.usage({ by: [] }), [{ requests: 1n, estimated: 1n }]);
});

t.test('nothing is spent when leases are not renewed', async (t) => {
  const { threads } = await openThreads(t, 1000n);
  const [leases] = threads as [LeaseCache];
  await fund(leases, 1);
  const late = new LeaseCache({
    ...{ leaseManager: { tell: () => {} } as never, thread: 'x', clock: createManualClock() },
    ...{ epochMs: () => 1_060_000, flushMs: 250, leasePico: 1000 },
  });
  late.trust(1_060_000);
  t.equal(late.reserve(PAYER, 1, 1), 0);
  t.equal(late.reserve({ ...PAYER, prepaid: false }, 1, 1), 0);
});

t.test('threads that spend concurrently never spend more than the balance', async (t) => {
  const { ledger, threads, settle } = await openThreads(t, 10_000n, 4);
  let spent = 0;
  const client = async (leases: LeaseCache): Promise<void> => {
    for (let request = 0; request < 100; request++) {
      if (leases.reserve(PAYER, 60, 60) === 0 && (await fund(leases, 60)).kind !== 'reserved') continue;
      await new Promise((resolve) => setImmediate(resolve));
      leases.settle(PAYER, 60, spend(50));
      spent += 50;
    }
  };
  await Promise.all(threads.flatMap((leases) => [client(leases), client(leases), client(leases)]));
  for (const leases of threads) leases.close();
  await settle();
  const account = await ledger.account('a');
  t.equal(account?.balance, BigInt(10_000 - spent));
  t.ok(spent <= 10_000);
  t.ok(spent > 9000, `${spent} of 10000 could be spent`);
  t.match(await ledger.audit(), { sound: true });
});

t.test('a request for an impossible amount is short and loses no lease', async (t) => {
  const { ledger, threads, advance, problems } = await openThreads(t, 100_000n, 1);
  const [leases] = threads as [LeaseCache];
  t.same(await fund(leases, 10), { kind: 'reserved', amount: 10 });
  leases.cancel(PAYER, 10);
  t.match(await fund(leases, 1e30), { kind: 'short' });
  t.match(await fund(leases, 1e30), { kind: 'short' });
  t.same(problems, []);
  await advance(20_000);
  t.match(await ledger.account('a'), { balance: 100_000n, held: 0n });
});

t.test('what is left of a lease that expired is given back, not spent', async (t) => {
  const clock = createManualClock();
  const commands: LeaseManagerCommand[] = [];
  let nowMs = 0;
  const system = createSystem({ name: 'test' });
  t.teardown(() => system.terminate());
  const manager = system.spawn<LeaseManagerCommand>(() => (command) => {
    commands.push(command);
    if (command.type === 'Fund') command.replyTo.tell({ kind: 'funded', added: 1000, fresh: true, balance: 0 });
  });
  const options = {
    leaseManager: manager,
    thread: 'thread-0',
    clock,
    epochMs: () => nowMs,
    flushMs: 250,
    leasePico: 0,
  };
  const leases = new LeaseCache(options);
  leases.trust(60_000);
  t.same(await fund(leases, 10), { kind: 'reserved', amount: 10 });
  nowMs = 30_000;
  leases.trust(90_000);
  t.equal(leases.reserve(PAYER, 10, 10), 10, 'renewed in time');
  nowMs = 100_000;
  leases.trust(160_000);
  t.equal(leases.reserve(PAYER, 10, 10), 0, 'another gateway may have given the lease back meanwhile');
  await new Promise((resolve) => setImmediate(resolve));
  t.same(commands.at(-1), { type: 'GiveBack', thread: 'thread-0', account: 'a', amount: 980 });
});

t.test('a lease whose answer was lost goes back with the next renewal', async (t) => {
  const change = (ledger: Ledger): Partial<Ledger> => ({
    lease: losesFirstAnswer((request: HoldRequest) => ledger.lease(request)),
  });
  const { advance, fund, ledger } = await openManager(t, change);
  t.match(await fund(10), { kind: 'away' });
  t.match(await ledger.account('a'), { held: 10n }, 'it was written all the same');
  await advance(SETTINGS.leaseTtlMs);
  t.match(await ledger.account('a'), { balance: 100n, held: 0n });
});

t.test('a lease that could not be extended is not lost', async (t) => {
  const change = (ledger: Ledger): Partial<Ledger> => ({
    extend: losesFirstAnswer((lease: string, id: number, amount: bigint) => ledger.extend(lease, id, amount)),
  });
  const { advance, fund, ledger, tell } = await openManager(t, change);
  t.match(await fund(10), { kind: 'funded' });
  t.match(await fund(10), { kind: 'away' });
  tell({ type: 'GiveBack', thread: 't', account: 'a', amount: 'all' });
  await advance(SETTINGS.leaseTtlMs);
  t.match(await ledger.account('a'), { balance: 100n, held: 0n });
});

t.test('a lease that could not be given back is not lost', async (t) => {
  let fails = true;
  const change = (real: Ledger): Partial<Ledger> => ({
    async release(hold) {
      if (!fails) return await real.release(hold);
      fails = false;
      throw away();
    },
  });
  const { advance, fund, ledger, problems, settle, tell } = await openManager(t, change);
  t.match(await fund(10), { kind: 'funded' });
  tell({ type: 'GiveBack', thread: 't', account: 'a', amount: 'all' });
  await settle();
  t.match(await ledger.account('a'), { held: 10n });
  t.same(problems, ['credit could not be given back; it returns when its lease ends']);
  await advance(SETTINGS.leaseTtlMs);
  t.match(await ledger.account('a'), { balance: 100n, held: 0n });
});

t.test('a charge on its way into the ledger is not sent again', async (t) => {
  const sent: string[][] = [];
  const gate = Promise.withResolvers<void>();
  const change = (real: Ledger): Partial<Ledger> => ({
    async charge(charges) {
      sent.push(charges.map(({ id }) => id));
      const outcomes = await real.charge(charges);
      if (sent.length === 1) throw away();
      await gate.promise;
      return outcomes;
    },
  });
  const { advance, ledger, metrics, settle, tell } = await openManager(t, change);
  const report = { account: 'a', prepaid: false, amount: 1, usage: USAGE };
  tell({ type: 'Charges', thread: 't', charges: [report] });
  await settle();
  tell({ type: 'Charges', thread: 't', charges: [report] });
  await advance(2000);
  t.same(sent, [['i/1'], ['i/2'], ['i/1']], 'what failed is sent again, what is under way is not');
  t.equal(valueOf(metrics, 'headrace_ledger_waiting'), 2);
  gate.resolve();
  await settle();
  t.equal(valueOf(metrics, 'headrace_ledger_waiting'), 0);
  t.equal(valueOf(metrics, 'headrace_ledger_charges_total', { model: 'm', basis: 'measured' }), 2, 'each counts once');
  t.match(await ledger.account('a'), { balance: 98n });
});

t.test('a charge that the ledger refuses is dropped, and those of its batch are posted', async (t) => {
  const { advance, ledger, metrics, problems, settle, tell } = await openManager(t, () => ({}));
  const report = { account: 'a', prepaid: false, amount: 1, usage: USAGE };
  tell({ type: 'Charges', thread: 't', charges: [report, { ...report, amount: -1 }, report] });
  await settle();
  t.same(problems, ['a charge could not be posted']);
  t.equal(valueOf(metrics, 'headrace_ledger_waiting'), 0);
  await advance(2000);
  t.equal(problems.length, 1, 'it is not tried again');
  t.match(await ledger.account('a'), { balance: 98n });
});

t.test('until the ledger opens credit is away and charges wait', async (t) => {
  let opens = 0;
  const opening = async (ledger: Ledger): Promise<Ledger> => {
    if (++opens < 3) throw away();
    return ledger;
  };
  const { advance, fund, ledger, metrics, problems, tell } = await openManager(t, () => ({}), opening);
  t.same(await fund(10), { kind: 'away' });
  tell({ type: 'Charges', thread: 't', charges: [{ account: 'a', prepaid: false, amount: 1, usage: USAGE }] });
  tell({ type: 'Configure', settings: { ...SETTINGS, leaseTtlMs: 30_000 } });
  await advance(2000);
  t.equal(valueOf(metrics, 'headrace_ledger_waiting'), 1);
  await advance(2000);
  t.equal(opens, 3);
  t.same(
    problems,
    Array.from({ length: 2 }, () => 'the store does not open; it is tried again'),
  );
  t.equal(valueOf(metrics, 'headrace_ledger_waiting'), 0);
  t.match(await ledger.account('a'), { balance: 99n });
  t.match(await fund(10), { kind: 'funded' });
});
