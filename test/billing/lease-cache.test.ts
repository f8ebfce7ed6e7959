// LeaseCache and the bank over a real ledger in memory: several threads, one account, a clock that stands still.

import t from 'tap';
import {
  leaseManager,
  type LeaseManagerCommand,
  openLedger,
  type Ledger,
  LeaseCache,
  type Reserved,
  type Spending,
} from '../../src/billing/index.ts';
import type { Funding } from '../../src/billing/lease-manager.ts';
import { createManualClock, createSystem, type ManualClock, type Ref, systemClock } from '../../src/actor/index.ts';

const SETTINGS = { leasePico: 1000, leaseTtlMs: 60_000 };
const PAYER = { account: 'a', key: 'k', prepaid: true };

interface Overview {
  readonly ledger: Ledger;
  readonly clock: ManualClock;
  readonly threads: readonly LeaseCache[];
  readonly problems: string[];
  /** Everything told so far has been booked. */
  readonly settled: () => Promise<void>;
}

async function openOverview(t: { teardown(run: () => unknown): void }, credit: bigint, count = 2): Promise<Overview> {
  const clock = createManualClock();
  const ledger = await openLedger(':memory:', { clock: systemClock, dateMs: () => 1_000_000, lingerMs: 0 });
  if (credit > 0n) {
    await ledger.createAccount({ id: 'a' });
    await ledger.grant({ id: 'g', account: 'a', amount: credit });
  }
  const system = createSystem({ name: 'test' });
  const problems: string[] = [];
  const threads: LeaseCache[] = [];
  const lender: Ref<LeaseManagerCommand> = system.spawn(
    leaseManager({
      ledger,
      settings: SETTINGS,
      instance: 'i',
      epochMs: () => 1_000_000,
      onRenewed: (untilMs) => threads.forEach((leases) => leases.trust(untilMs)),
      onRecall: (account) => threads.forEach((leases) => leases.recall(account)),
      onProblem: (error, what) => problems.push(`${what}: ${String(error)}`),
    }),
  );
  for (let at = 0; at < count; at++) {
    const options = { leaseManager: lender, thread: `thread-${at}`, clock, epochMs: () => 1_000_000, flushMs: 250 };
    threads.push(new LeaseCache({ ...options, leasePico: SETTINGS.leasePico }));
  }
  for (const leases of threads) leases.trust(1_060_000);
  t.teardown(async () => {
    await system.terminate();
    await ledger.close();
  });
  const settled = async (): Promise<void> => {
    await new Promise((resolve) => setImmediate(resolve));
    await new Promise<void>((resolve) => {
      const waiter = system.spawn<'flushed'>(() => () => resolve());
      lender.tell({ type: 'Flush', replyTo: waiter });
    });
  };
  return { ledger, clock, threads, problems, settled };
}

interface Shaky {
  readonly ledger: Ledger;
  readonly clock: ManualClock;
  readonly charged: number[];
  readonly posts: { hold: () => () => void };
  readonly tell: (command: LeaseManagerCommand) => void;
  readonly told: (command: Omit<Extract<LeaseManagerCommand, { type: 'Fund' }>, 'replyTo'>) => Promise<Funding>;
  readonly settled: () => Promise<void>;
}

/** A bank whose ledger does what it is asked, but fails to say so the first time it is asked for `broken`. */
async function openShaky(
  t: { teardown(run: () => unknown): void },
  broken: 'debit' | 'extend' | 'lease' | 'release',
): Promise<Shaky> {
  const clock = createManualClock();
  const ledger = await openLedger(':memory:', { clock: systemClock, dateMs: () => 1_000_000, lingerMs: 0 });
  await ledger.createAccount({ id: 'a' });
  await ledger.grant({ id: 'g', account: 'a', amount: 100n });
  let isFirst = true;
  let gate: Promise<void> | null = null;
  const work = ledger[broken] as (...args: unknown[]) => Promise<unknown>;
  const shaky = {
    ...ledger,
    async [broken](...args: unknown[]) {
      const wasFirst = isFirst;
      isFirst = false;
      if (wasFirst && broken === 'release') throw new Error('the store is away');
      const answer = await work(...args);
      if (wasFirst) throw new Error('the store is away');
      await gate;
      return answer;
    },
  } as Ledger;
  const system = createSystem({ name: 'test', clock });
  const charged: number[] = [];
  const lender: Ref<LeaseManagerCommand> = system.spawn(
    leaseManager({
      ledger: shaky,
      settings: SETTINGS,
      instance: 'i',
      epochMs: () => 1_000_000,
      onRenewed: () => {},
      onRecall: () => {},
      onProblem: () => {},
      onCharged: ({ amount }) => charged.push(amount),
    }),
  );
  t.teardown(async () => {
    await system.terminate();
    await ledger.close();
  });
  return {
    ledger,
    clock,
    charged,
    posts: {
      hold() {
        const { promise, resolve } = Promise.withResolvers<void>();
        gate = promise;
        return resolve;
      },
    },
    tell: (command) => lender.tell(command),
    told: (command) =>
      new Promise((resolve) => {
        const waiter = system.spawn<Funding>(() => resolve);
        lender.tell({ ...command, replyTo: waiter });
      }),
    // Several commits, one behind another.
    settled: () => new Promise((resolve) => setTimeout(resolve, 50)),
  };
}

const fund = (leases: LeaseCache, amount: number, payer = PAYER): Promise<Reserved> =>
  new Promise((resolve) => leases.fund(payer, amount, resolve));

const spend = (cost: number): Spending => ({
  model: 'm',
  cost,
  promptTokens: 3,
  cachedTokens: 1,
  completionTokens: 2,
  measured: true,
});

t.test('credit is borrowed once, spent without asking, and booked in sums', async (t) => {
  const { ledger, threads, clock, settled, problems } = await openOverview(t, 100_000n);
  const [leases] = threads as [LeaseCache];
  t.equal(leases.reserve(PAYER, 10), false, 'nothing is at hand yet');
  t.same(await fund(leases, 10), { kind: 'reserved' });
  leases.settle(PAYER, 10, spend(7));
  for (let request = 0; request < 20; request++) {
    t.equal(leases.reserve(PAYER, 10), true);
    leases.settle(PAYER, 10, spend(7));
  }
  t.equal(leases.reserve(PAYER, 10), true);
  leases.cancel(PAYER, 10);
  clock.advance(250);
  await settled();
  const [row] = await ledger.usage({ by: ['account', 'key', 'model'] });
  t.match(row, { account: 'a', key: 'k', model: 'm', requests: 21n, amount: 147n, inputTokens: 63n, estimated: 0n });
  t.equal((await ledger.history({ account: 'a' })).filter(({ kind }) => kind === 'settle').length, 1, 'one movement');
  leases.close();
  await settled();
  t.match(await ledger.account('a'), { balance: 99_853n, held: 0n });
  t.match(await ledger.audit(), { sound: true });
  t.same(problems, []);
});

t.test('an account without credit is short, and so is one that is unknown', async (t) => {
  const { threads } = await openOverview(t, 5n);
  const [leases] = threads as [LeaseCache];
  t.same(await fund(leases, 10), { kind: 'short', balance: 5 });
  t.same(await fund(leases, 10, { ...PAYER, account: 'nobody' }), { kind: 'short', balance: 0 });
  t.same(await fund(leases, 5), { kind: 'reserved' }, 'what is there can be spent');
});

t.test('credit that one thread can spare reaches the other', async (t) => {
  const { ledger, threads } = await openOverview(t, 1000n);
  const [one, two] = threads as [LeaseCache, LeaseCache];
  t.same(await fund(one, 900), { kind: 'reserved' });
  one.settle(PAYER, 900, spend(100));
  t.same(await fund(two, 880), { kind: 'reserved' }, 'the first gives back what it does not use');
  two.settle(PAYER, 880, spend(880));
  t.match(await fund(one, 100), { kind: 'short' });
  t.ok(((await ledger.account('a'))?.balance ?? -1n) >= 0n);
});

t.test('an account that pays later needs no credit and may fall below zero', async (t) => {
  const { ledger, threads, clock, settled } = await openOverview(t, 0n);
  const [leases] = threads as [LeaseCache];
  const later = { ...PAYER, prepaid: false };
  t.equal(leases.reserve(later, 1e9), true);
  leases.settle(later, 1e9, { ...spend(70), measured: false });
  clock.advance(250);
  await settled();
  t.match(await ledger.account('a'), { balance: -70n });
  t.match(await ledger.usage({ by: [] }), [{ requests: 1n, estimated: 1n }]);
});

t.test('without word of the bank nothing more is spent', async (t) => {
  const { threads } = await openOverview(t, 1000n);
  const [leases] = threads as [LeaseCache];
  await fund(leases, 1);
  const late = new LeaseCache({
    ...{ leaseManager: { tell: () => {} } as never, thread: 'x', clock: createManualClock() },
    ...{ epochMs: () => 1_060_000, flushMs: 250, leasePico: 1000 },
  });
  late.trust(1_060_000);
  t.equal(late.reserve(PAYER, 1), false);
  t.equal(late.reserve({ ...PAYER, prepaid: false }, 1), false);
});

t.test('threads that spend at the same time never spend more than there is', async (t) => {
  const { ledger, threads, settled } = await openOverview(t, 10_000n, 4);
  let spent = 0;
  const client = async (leases: LeaseCache): Promise<void> => {
    for (let request = 0; request < 100; request++) {
      if (!leases.reserve(PAYER, 60) && (await fund(leases, 60)).kind !== 'reserved') continue;
      await new Promise((resolve) => setImmediate(resolve));
      leases.settle(PAYER, 60, spend(50));
      spent += 50;
    }
  };
  await Promise.all(threads.flatMap((leases) => [client(leases), client(leases), client(leases)]));
  for (const leases of threads) leases.close();
  await settled();
  await settled();
  const account = await ledger.account('a');
  t.equal(account?.balance, BigInt(10_000 - spent));
  t.ok(spent <= 10_000);
  t.ok(spent > 9000, `${spent} of 10000 could be spent`);
  t.match(await ledger.audit(), { sound: true });
});

t.test('a request for more than there can be is short, and takes no lease out of sight', async (t) => {
  const { ledger, threads, clock, settled, problems } = await openOverview(t, 100_000n, 1);
  const [leases] = threads as [LeaseCache];
  t.same(await fund(leases, 10), { kind: 'reserved' });
  leases.cancel(PAYER, 10);
  t.match(await fund(leases, 1e30), { kind: 'short' });
  t.match(await fund(leases, 1e30), { kind: 'short' });
  t.same(problems, []);
  await clock.advance(20_000);
  await settled();
  t.match(await ledger.account('a'), { balance: 100_000n, held: 0n });
});

t.test('what a lease held before the ledger was away is not spent behind it', async (t) => {
  const clock = createManualClock();
  const told: LeaseManagerCommand[] = [];
  let nowMs = 0;
  const system = createSystem({ name: 'test' });
  t.teardown(() => system.terminate());
  const lender = system.spawn<LeaseManagerCommand>(() => (command) => {
    told.push(command);
    if (command.type === 'Fund') command.replyTo.tell({ kind: 'funded', added: 1000, fresh: true, balance: 0 });
  });
  const options = { leaseManager: lender, thread: 'thread-0', clock, epochMs: () => nowMs, flushMs: 250, leasePico: 0 };
  const leases = new LeaseCache(options);
  leases.trust(60_000);
  t.same(await fund(leases, 10), { kind: 'reserved' });
  nowMs = 30_000;
  leases.trust(90_000);
  t.equal(leases.reserve(PAYER, 10), true, 'renewed in time');
  nowMs = 100_000;
  leases.trust(160_000);
  t.equal(leases.reserve(PAYER, 10), false, 'another gateway may have given the lease back meanwhile');
  await new Promise((resolve) => setImmediate(resolve));
  t.same(told.at(-1), { type: 'GiveBack', thread: 'thread-0', account: 'a', amount: 980 });
});

t.test('a lease of which nobody knows goes back with the next renewal', async (t) => {
  const { ledger, clock, settled, told } = await openShaky(t, 'lease');
  t.match(await told({ type: 'Fund', thread: 't', account: 'a', need: 10, lean: true }), { kind: 'away' });
  t.match(await ledger.account('a'), { held: 10n }, 'it was written down all the same');
  await clock.advance(SETTINGS.leaseTtlMs);
  await settled();
  t.match(await ledger.account('a'), { balance: 100n, held: 0n });
});

t.test('a lease that could not be enlarged, or not be given back, is not lost', async (t) => {
  for (const broken of ['extend', 'release'] as const) {
    const { ledger, clock, settled, told, tell } = await openShaky(t, broken);
    t.match(await told({ type: 'Fund', thread: 't', account: 'a', need: 10, lean: true }), { kind: 'funded' });
    if (broken === 'extend') {
      t.match(await told({ type: 'Fund', thread: 't', account: 'a', need: 10, lean: true }), { kind: 'away' });
    }
    tell({ type: 'GiveBack', thread: 't', account: 'a', amount: 'all' });
    await settled();
    await clock.advance(SETTINGS.leaseTtlMs);
    await settled();
    t.match(await ledger.account('a'), { balance: 100n, held: 0n }, broken);
  }
});

t.test('a charge on its way into the ledger is not sent along again', async (t) => {
  const { clock, charged, tell, posts } = await openShaky(t, 'debit');
  const usage = { key: null, model: 'm', inputTokens: 1, cachedTokens: 0, outputTokens: 1, measured: true };
  const charge = { thread: 't', account: 'a', prepaid: false, amount: 1, usage };
  tell({ type: 'Charges', charges: [charge] });
  await new Promise((resolve) => setTimeout(resolve, 30));
  const done = posts.hold();
  tell({ type: 'Charges', charges: [charge] });
  await clock.advance(1000);
  await clock.advance(1000);
  done();
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.same(charged, [1, 1], 'each is heard of once');
});
