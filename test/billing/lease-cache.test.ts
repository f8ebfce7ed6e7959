// LeaseCache and the lease manager over a real ledger in memory: several threads, one account.

import t from 'tap';
import type { Ledger, LeaseCache, Reserved } from '../../src/billing/index.ts';
import type { HoldRequest } from '../../src/billing/ledger/ledger.ts';
import { LeaseTable } from '../../src/billing/lease-table.ts';
import {
  away,
  hold,
  losesFirstAnswer,
  openGateway,
  openStore,
  PAYER,
  SETTINGS,
  spend,
  valueOf,
} from './lease-fixture.ts';

const USAGE = { key: null, model: 'm', inputTokens: 1, cachedTokens: 0, outputTokens: 1, measured: true };
const REPORT = { account: 'a', prepaid: false, amount: 1, covered: 0, usage: USAGE };

/** Idle leases are closed by the third sweep. */
const IDLE_MS = 16_000;

t.test('credit is leased once, drawn without asking, and charged in sums', async (t) => {
  const store = await openStore(t, 100_000n);
  const { ledger } = store;
  const { problems, threads } = await openGateway(store);
  const [leases] = threads as [LeaseCache];
  t.equal(leases.reserve(PAYER, 10), 0, 'nothing is at hand yet');
  t.same(await hold(leases, 10), { kind: 'reserved', amount: 10 });
  leases.settle(PAYER, 10, spend(7));
  for (let request = 0; request < 20; request++) {
    t.equal(leases.reserve(PAYER, 10), 10);
    leases.settle(PAYER, 10, spend(7));
  }
  t.equal(leases.reserve(PAYER, 10), 10);
  leases.cancel(PAYER, 10);
  await store.advance(250);
  const [row] = await ledger.usage({ by: ['account', 'key', 'model'] });
  t.match(row, { account: 'a', key: 'k', model: 'm', requests: 21n, amount: 147n, inputTokens: 63n, estimated: 0n });
  t.equal((await ledger.history({ account: 'a' })).filter(({ kind }) => kind === 'charge').length, 1, 'one movement');
  await store.advance(IDLE_MS);
  t.match(await ledger.account('a'), { balance: 99_853n, held: 0n }, 'what is not used goes back');
  t.match(await ledger.audit(), { sound: true });
  t.same(problems, []);
});

t.test('requests that cost thousands of USD each are charged to the last digit', async (t) => {
  const store = await openStore(t, 1n << 60n);
  const { problems, threads } = await openGateway(store);
  const [leases] = threads as [LeaseCache];
  const most = Number.MAX_SAFE_INTEGER;
  for (const cost of [most, most - 1, 3]) {
    await hold(leases, cost);
    leases.settle(PAYER, cost, spend(cost));
  }
  await store.advance(250);
  t.match(await store.ledger.usage({ by: [] }), [{ requests: 3n, amount: 2n * BigInt(most) + 2n }]);
  t.same(problems, []);
});

t.test('leases are not renewed behind the end of the lease manager, when the ledger may be closed', async (t) => {
  const store = await openStore(t, 100_000n);
  const { problems, shutDown, threads } = await openGateway(store);
  await hold(threads[0] as LeaseCache, 10);
  t.same(await shutDown(), []);
  await store.ledger.close();
  await store.advance(60_000);
  t.same(problems, []);
});

t.test('another interval of reports holds at once', async (t) => {
  const store = await openStore(t, 100_000n);
  const { threads } = await openGateway(store);
  const [leases] = threads as [LeaseCache];
  const spent = async (): Promise<bigint | undefined> => (await store.ledger.usage({ by: [] }))[0]?.amount;
  const settings = { flushMs: 3_600_000, leasePico: 1 };
  leases.configure(settings);
  await hold(leases, 10);
  leases.settle(PAYER, 10, spend(7));
  await store.advance(10_000);
  t.equal((await spent()) ?? 0n, 0n);
  leases.configure({ ...settings, flushMs: 20 });
  await store.advance(20);
  t.equal(await spent(), 7n, 'a report that waits as well');
});

t.test('threads draw from one lease', async (t) => {
  const store = await openStore(t, 100_000n);
  const { threads } = await openGateway(store, { threads: 3 });
  const [one, two, three] = threads as [LeaseCache, LeaseCache, LeaseCache];
  await hold(one, 10);
  await hold(two, 10);
  await hold(three, 10);
  const held = (await store.ledger.account('a'))?.held;
  t.equal(two.reserve(PAYER, 100), 100);
  t.equal(three.reserve(PAYER, 100), 100);
  await store.settle();
  t.equal((await store.ledger.account('a'))?.held, held, 'the ledger is not asked again');
});

t.test('an account without credit is short, and so is one that is unknown', async (t) => {
  const store = await openStore(t, 5n);
  const { threads } = await openGateway(store);
  const [leases] = threads as [LeaseCache];
  t.same(await hold(leases, 10), { kind: 'short', balance: 5 });
  t.same(await hold(leases, 10, 10, { ...PAYER, account: 'nobody' }), { kind: 'short', balance: 0 });
  t.same(await hold(leases, 5), { kind: 'reserved', amount: 5 }, 'what is there can be spent');
});

t.test('each of many concurrent requests gets its own amount', async (t) => {
  const store = await openStore(t, 100_000n);
  const { threads } = await openGateway(store);
  const [leases] = threads as [LeaseCache];
  const all = await Promise.all(Array.from({ length: 40 }, () => hold(leases, 2000, 2400)));
  t.same(
    all,
    Array.from({ length: 40 }, () => ({ kind: 'reserved', amount: 2400 })),
  );
});

t.test('waiting requests are judged by their own amounts, in order of arrival', async (t) => {
  const store = await openStore(t, 100n);
  const { threads } = await openGateway(store);
  const [leases] = threads as [LeaseCache];
  const order: string[] = [];
  const note = (name: string) => (reserved: Reserved) => {
    order.push(`${name}: ${reserved.kind}`);
  };
  const first = hold(leases, 60);
  leases.fund(PAYER, 70, 70, note('no room now'));
  leases.fund(PAYER, 1000, 1000, note('never'));
  leases.fund(PAYER, 30, 30, note('behind'));
  t.same(await first, { kind: 'reserved', amount: 60 });
  await store.settle();
  t.same(order, ['never: short'], 'nobody overtakes the one that waits');
  t.equal(leases.reserve(PAYER, 1), 0, 'not even without asking');
  leases.cancel(PAYER, 60);
  await store.settle();
  t.same(order, ['never: short', 'no room now: reserved', 'behind: reserved']);
});

t.test('a request whose credit is held for others waits a second, then takes what there is, or is busy', async (t) => {
  const store = await openStore(t, 100n);
  const { threads } = await openGateway(store, { threads: 2 });
  const [one, two] = threads as [LeaseCache, LeaseCache];
  t.same(await hold(one, 70), { kind: 'reserved', amount: 70 });
  const results: Reserved[] = [];
  two.fund(PAYER, 20, 90, (reserved) => results.push(reserved));
  two.fund(PAYER, 40, 90, (reserved) => results.push(reserved));
  await store.advance(950);
  t.same(results, []);
  await store.advance(150);
  t.same(results, [{ kind: 'reserved', amount: 30 }, { kind: 'busy' }]);
  one.cancel(PAYER, 70);
  two.cancel(PAYER, 30);
  t.same(await hold(two, 100), { kind: 'reserved', amount: 100 });
});

t.test('a request waits five seconds for a ledger that is slow, and no longer', async (t) => {
  const store = await openStore(t, 100_000n);
  const { clock } = store;
  const after = (delayMs: number): Promise<void> => new Promise((resolve) => clock.setTimeout(resolve, delayMs));
  let delayMs = 4500;
  const { threads } = await openGateway(store, {
    change: (ledger) => ({
      async lease(request: HoldRequest) {
        await after(delayMs);
        return await ledger.lease(request);
      },
    }),
  });
  const [leases] = threads as [LeaseCache];
  const slow = hold(leases, 10);
  await store.advance(delayMs);
  t.same(await slow, { kind: 'reserved', amount: 10 });
  delayMs = 60_000;
  await store.ledger.createAccount({ id: 'b' });
  await store.ledger.grant({ id: 'grant-b', account: 'b', amount: 100_000n });
  const results: Reserved[] = [];
  leases.fund({ ...PAYER, account: 'b' }, 10, 10, (reserved) => results.push(reserved));
  await store.advance(4900);
  t.same(results, []);
  await store.advance(200);
  t.same(results, [{ kind: 'away' }]);
});

t.test('an account that has less than the most gets what is free at once', async (t) => {
  const store = await openStore(t, 100n);
  const { threads } = await openGateway(store);
  const [leases] = threads as [LeaseCache];
  t.same(await hold(leases, 10, 500), { kind: 'reserved', amount: 100 });
});

t.test('credit that another gateway has leased and does not use comes back for a request', async (t) => {
  const store = await openStore(t, 10_000n);
  const one = await openGateway(store, { instance: 'one' });
  const two = await openGateway(store, { instance: 'two' });
  const [first] = one.threads as [LeaseCache];
  const [second] = two.threads as [LeaseCache];
  t.same(await hold(first, 9500), { kind: 'reserved', amount: 9500 });
  first.settle(PAYER, 9500, spend(100));
  const waits = hold(second, 9800);
  await store.advance(50);
  t.same(await waits, { kind: 'reserved', amount: 9800 });
  second.settle(PAYER, 9800, spend(9800));
  await store.advance(250);
  t.same(await hold(first, 90), { kind: 'reserved', amount: 90 });
  t.match(await hold(first, 101), { kind: 'short' });
  t.same([...one.problems, ...two.problems], []);
});

t.test('an account that leaves its organisation spends its own credit from then on', async (t) => {
  const store = await openStore(t, 100_000n);
  const { ledger } = store;
  await ledger.createAccount({ id: 'm' });
  await ledger.grant({ id: 'own', account: 'm', amount: 5000n });
  await ledger.configureAccount('m', { organisation: 'a' });
  const { shutDown, threads } = await openGateway(store);
  const [leases] = threads as [LeaseCache];
  const payer = { ...PAYER, account: 'm' };
  const spendOne = async (): Promise<void> => {
    t.match(await hold(leases, 100, 100, payer), { kind: 'reserved', amount: 100 });
    leases.settle(payer, 100, spend(100));
    await store.advance(250);
  };
  await spendOne();
  const underWay = await hold(leases, 300, 300, payer);
  t.match(underWay, { kind: 'reserved' });
  await ledger.configureAccount('m', { organisation: null });
  await store.advance(1000);
  for (let times = 0; times < 30; times++) await spendOne();
  leases.settle(payer, 300, spend(300));
  leases.close();
  t.same(await shutDown(), []);
  t.match(await ledger.account('a'), { balance: 99_900n, held: 0n });
  t.match(await ledger.account('m'), { balance: 1700n, held: 0n });
  t.match(await ledger.audit(), { sound: true });
});

t.test('an account that joins an organisation spends its credit from then on', async (t) => {
  const store = await openStore(t, 100_000n);
  const { ledger } = store;
  await ledger.createAccount({ id: 'm' });
  await ledger.grant({ id: 'own', account: 'm', amount: 50n });
  const { shutDown, threads } = await openGateway(store);
  const [leases] = threads as [LeaseCache];
  const payer = { ...PAYER, account: 'm' };
  t.match(await hold(leases, 50, 50, payer), { kind: 'reserved', amount: 50 });
  t.match(await hold(leases, 60, 60, payer), { kind: 'short' });
  await ledger.configureAccount('m', { organisation: 'a' });
  await store.advance(1000);
  t.match(await hold(leases, 1000, 1000, payer), { kind: 'reserved', amount: 1000 });
  leases.settle(payer, 1000, spend(1000));
  leases.settle(payer, 50, spend(50));
  leases.close();
  t.same(await shutDown(), []);
  t.match(await ledger.account('a'), { balance: 98_950n, held: 0n });
  t.match(await ledger.account('m'), { balance: 50n, held: 0n });
});

t.test('credit that comes back for a request of another account of the organisation', async (t) => {
  const store = await openStore(t, 10_000n);
  const { ledger } = store;
  for (const id of ['member', 'colleague']) {
    await ledger.createAccount({ id });
    await ledger.configureAccount(id, { organisation: 'a' });
  }
  const { threads } = await openGateway(store);
  const [leases] = threads as [LeaseCache];
  const member = { ...PAYER, account: 'member' };
  t.same(await hold(leases, 9000, 9000, member), { kind: 'reserved', amount: 9000 });
  leases.settle(member, 9000, spend(1000));
  const colleague = { ...PAYER, account: 'colleague' };
  t.same(await hold(leases, 8500, 8500, colleague), { kind: 'reserved', amount: 8500 });
  leases.settle(colleague, 8500, spend(500));
  await store.advance(IDLE_MS);
  t.match(await ledger.account('a'), { balance: 8500n, held: 0n });
  const rows = await ledger.usage({ by: ['account'] });
  t.same(
    rows.map(({ account, amount }) => [account, amount]),
    [
      ['colleague', 500n],
      ['member', 1000n],
    ],
  );
});

t.test('accounts of an organisation whose credit is held for others look at it now and then', async (t) => {
  const store = await openStore(t, 1000n);
  const { ledger } = store;
  for (const id of ['member', 'colleague']) {
    await ledger.createAccount({ id });
    await ledger.configureAccount(id, { organisation: 'a' });
  }
  let reads = 0;
  const { threads } = await openGateway(store, {
    change: () => ({
      async account(id: string) {
        // Without an end the clock would stand still.
        if (++reads > 1000) throw away();
        return await ledger.account(id);
      },
    }),
  });
  const [leases] = threads as [LeaseCache];
  const member = { ...PAYER, account: 'member' };
  const colleague = { ...PAYER, account: 'colleague' };
  t.same(await hold(leases, 600, 600, member), { kind: 'reserved', amount: 600 });
  t.same(await hold(leases, 400, 400, colleague), { kind: 'reserved', amount: 400 });
  reads = 0;
  const waiting = [hold(leases, 500, 500, member), hold(leases, 500, 500, colleague)];
  await store.advance(500);
  t.ok(reads < 50, `${reads} accounts were read`);
  leases.cancel(member, 600);
  leases.cancel(colleague, 400);
  t.same(await Promise.all(waiting), [
    { kind: 'reserved', amount: 500 },
    { kind: 'reserved', amount: 500 },
  ]);
});

t.test('a small account is leased for each request and goes back soon', async (t) => {
  const store = await openStore(t, 3000n);
  const { threads } = await openGateway(store);
  const [leases] = threads as [LeaseCache];
  await hold(leases, 100);
  t.match(await store.ledger.account('a'), { held: 100n });
  leases.settle(PAYER, 100, spend(30));
  await store.advance(1000);
  t.match(await store.ledger.account('a'), { balance: 2970n, held: 0n });
});

t.test('a grant that comes too late is released', async (t) => {
  const store = await openStore(t, 1000n);
  const gate = Promise.withResolvers<void>();
  const { threads } = await openGateway(store, {
    change: (ledger) => ({
      async account(id) {
        await gate.promise;
        return await ledger.account(id);
      },
    }),
  });
  const [leases] = threads as [LeaseCache];
  const refused = hold(leases, 600);
  await store.advance(6000);
  t.same(await refused, { kind: 'away' });
  gate.resolve();
  await store.settle();
  t.same(await hold(leases, 1000), { kind: 'reserved', amount: 1000 });
});

t.test('a thread lets so many requests wait for credit, and no account takes all the room', async (t) => {
  const store = await openStore(t, 100n);
  const others = Array.from({ length: 64 }, (_, at) => ({ ...PAYER, account: `other-${at}` }));
  for (const { account } of others) {
    await store.ledger.createAccount({ id: account });
    await store.ledger.grant({ id: `grant-${account}`, account, amount: 5000n });
  }
  const { threads } = await openGateway(store, { accounts: 80 });
  const [leases] = threads as [LeaseCache];
  t.same(await hold(leases, 100), { kind: 'reserved', amount: 100 });
  const results: Reserved[] = [];
  for (let request = 0; request < 3000; request++) leases.fund(PAYER, 100, 100, (reserved) => results.push(reserved));
  t.equal(results.length, 3000 - 2048, 'half of the room');
  const served: Reserved[] = [];
  for (const payer of others) {
    for (let request = 0; request < 33; request++) leases.fund(payer, 100, 100, (reserved) => served.push(reserved));
  }
  t.equal(served.length, 64, 'one too many of each');
  const late: Reserved[] = [];
  leases.fund({ ...PAYER, account: 'late' }, 100, 100, (reserved) => late.push(reserved));
  t.same(late, [{ kind: 'busy' }], 'all of the room is taken');
  await store.advance(1200);
  t.equal(results.length, 3000);
  t.ok(results.every(({ kind }) => kind === 'busy'));
  t.equal(served.filter(({ kind }) => kind === 'reserved').length, 2048);
  const again = await hold(leases, 100, 100, others[0]);
  t.same(again, { kind: 'reserved', amount: 100 }, 'there is room again');
});

t.test('an account that pays later needs no credit and may fall below zero', async (t) => {
  const store = await openStore(t, 0n);
  const { threads } = await openGateway(store);
  const [leases] = threads as [LeaseCache];
  const later = { ...PAYER, prepaid: false };
  t.equal(leases.reserve(later, 1e9), 1e9);
  leases.settle(later, 1e9, { ...spend(70), measured: false });
  await store.advance(250);
  t.match(await store.ledger.account('a'), { balance: -70n });
  t.match(await store.ledger.usage({ by: [] }), [{ requests: 1n, estimated: 1n }]);
});

t.test('nothing is spent when leases are not renewed', async (t) => {
  const store = await openStore(t, 100_000n);
  let isAway = false;
  const { over, problems, threads } = await openGateway(store, {
    change: (ledger) => ({
      async renew(holder, untilMs) {
        if (isAway) throw away();
        return await ledger.renew(holder, untilMs);
      },
      async account(id) {
        if (isAway) throw away();
        return await ledger.account(id);
      },
    }),
  });
  const [leases] = threads as [LeaseCache];
  await hold(leases, 1);
  t.notOk(leases.failing);
  isAway = true;
  for (let elapsedMs = 4000; elapsedMs < SETTINGS.leaseTtlMs; elapsedMs += 4000) {
    await store.advance(4000);
    t.equal(leases.reserve(PAYER, 1), 1, 'as long as the lease lasts');
  }
  await store.advance(4000);
  t.equal(leases.reserve(PAYER, 1), 0);
  t.equal(leases.reserve({ ...PAYER, prepaid: false }, 1), 0);
  t.same(await hold(leases, 1), { kind: 'away' });
  t.match(problems.at(-1), /the store is away/);
  t.ok(leases.failing, 'as health says');
  const before = problems.length;
  for (let request = 0; request < 50; request++) t.same(await hold(leases, 1), { kind: 'away' });
  t.equal(problems.length, before, 'what happens with each request is reported once a minute');
  await store.advance(60_000);
  t.same(await hold(leases, 1), { kind: 'away' });
  const later = problems.slice(before).map((problem) => problem.replace(/\d+/, 'N'));
  t.same(later.toSorted(), [
    'credit could not be leased or given back, and N times before: Error: the store is away',
    'leases could not be renewed, and N times before: Error: the store is away',
  ]);
  isAway = false;
  await store.advance(1000);
  t.same(await hold(leases, 1), { kind: 'reserved', amount: 1 }, 'renewed within a second');
  t.same(over, []);
  await store.advance(SETTINGS.leaseTtlMs);
  t.ok(over.some((problem) => /^it works again: leases could not be renewed, \d+ times$/.test(problem)));
  t.notOk(leases.failing);
});

t.test(
  'a request waits five seconds for leases that are not renewed by a ledger that answers, and is forgotten',
  async (t) => {
    const store = await openStore(t, 100_000n);
    let isLocked = false;
    const { memory, threads } = await openGateway(store, {
      change: (ledger) => ({
        async renew(holder, ttlMs) {
          if (isLocked) throw away();
          return await ledger.renew(holder, ttlMs);
        },
      }),
    });
    const [leases] = threads as [LeaseCache];
    t.same(await hold(leases, 10), { kind: 'reserved', amount: 10 });
    isLocked = true;
    await store.advance(SETTINGS.leaseTtlMs);
    const results: Reserved[] = [];
    leases.fund(PAYER, 10, 10, (reserved) => results.push(reserved));
    await store.advance(4900);
    t.same(results, []);
    await store.advance(200);
    t.same(results, [{ kind: 'away' }]);
    await store.advance(10_000);
    isLocked = false;
    await store.advance(1000);
    t.equal(new LeaseTable(memory, 0).used(0)[0], 10n, 'nothing is drawn for it any more');
    t.same(await hold(leases, 10), { kind: 'reserved', amount: 10 });
  },
);

t.test('a machine that was suspended renews its leases before it spends', async (t) => {
  const store = await openStore(t, 100_000n);
  const { threads } = await openGateway(store);
  const [leases] = threads as [LeaseCache];
  await hold(leases, 1);
  store.wall.stepMs += SETTINGS.leaseTtlMs;
  t.equal(leases.reserve(PAYER, 1), 0, 'the steady clock stood still, the wall clock went on');
  t.same(await hold(leases, 1), { kind: 'reserved', amount: 1 });
  store.wall.stepMs -= 3_600_000;
  await store.advance(SETTINGS.leaseTtlMs);
  t.same(await hold(leases, 1), { kind: 'reserved', amount: 1 }, 'a clock that is set back changes nothing');
});

t.test('leases are renewed again when the clock is set ahead while a renewal is under way', async (t) => {
  const store = await openStore(t, 100_000n);
  let free: (() => void) | undefined;
  let isHeld = false;
  const change = (ledger: Ledger): Partial<Ledger> => ({
    async expire() {
      if (isHeld) await new Promise<void>((resolve) => (free = resolve));
      return await ledger.expire();
    },
  });
  const { threads } = await openGateway(store, { change });
  const [leases] = threads as [LeaseCache];
  await hold(leases, 1);
  isHeld = true;
  store.wall.stepMs += 3_600_000;
  t.same(await hold(leases, 1), { kind: 'reserved', amount: 1 }, 'the renewal has not ended yet');
  store.wall.stepMs += 3_600_000;
  const waiting = hold(leases, 1);
  await store.settle();
  isHeld = false;
  free?.();
  await store.advance(200);
  t.same(await waiting, { kind: 'reserved', amount: 1 });
});

t.test('credit of a lease that expired meanwhile is not spent', async (t) => {
  const store = await openStore(t, 100_000n);
  const { threads } = await openGateway(store);
  const [leases] = threads as [LeaseCache];
  await hold(leases, 600);
  const before = await store.ledger.account('a');
  t.match(before, { held: 1600n });
  const [lease] = (await store.ledger.renew('i', SETTINGS.leaseTtlMs)).map(({ id }) => id);
  t.equal(await store.ledger.release(lease as string), true, 'as another gateway would, once it has expired');
  await store.ledger.adjust({ id: 'spent elsewhere', account: 'a', amount: -99_900n });
  await store.advance(SETTINGS.leaseTtlMs / 3);
  t.match(
    await store.ledger.account('a'),
    { balance: 0n, held: 100n },
    'what is in use is leased again, as far as it goes',
  );
  t.equal(leases.reserve(PAYER, 1), 0);
  leases.settle(PAYER, 600, spend(80));
  t.same(await hold(leases, 20), { kind: 'reserved', amount: 20 });
  t.equal(leases.reserve(PAYER, 1), 0, 'and no more');
});

t.test('threads that spend concurrently never spend more than the balance', async (t) => {
  const store = await openStore(t, 10_000n);
  const { threads } = await openGateway(store, { threads: 4 });
  let spent = 0;
  const client = async (leases: LeaseCache): Promise<void> => {
    for (let request = 0; request < 100; request++) {
      const reserved = await hold(leases, 60);
      if (reserved.kind === 'short') return;
      if (reserved.kind !== 'reserved') continue;
      await new Promise((resolve) => setImmediate(resolve));
      leases.settle(PAYER, 60, spend(50));
      spent += 50;
    }
  };
  let isOver = false;
  const clients = Promise.all(threads.flatMap((leases) => [client(leases), client(leases), client(leases)]));
  void clients.then(() => (isOver = true));
  while (!isOver) await store.advance(50);
  for (const leases of threads) leases.close();
  await store.advance(IDLE_MS);
  t.match(await store.ledger.account('a'), { balance: BigInt(10_000 - spent), held: 0n });
  t.ok(spent <= 10_000 && spent > 9900, `${spent} of 10000 could be spent`);
  t.match(await store.ledger.audit(), { sound: true });
});

t.test('a request for an impossible amount is short and loses no lease', async (t) => {
  const store = await openStore(t, 100_000n);
  const { problems, threads } = await openGateway(store);
  const [leases] = threads as [LeaseCache];
  t.same(await hold(leases, 10), { kind: 'reserved', amount: 10 });
  leases.cancel(PAYER, 10);
  t.match(await hold(leases, 1e30), { kind: 'short', balance: 100_000 });
  t.match(await hold(leases, Infinity, Infinity), { kind: 'short' });
  t.same(problems, []);
  await store.advance(IDLE_MS);
  t.match(await store.ledger.account('a'), { balance: 100_000n, held: 0n });
});

t.test('what a dead thread held returns at once, and what it had not reported is not charged', async (t) => {
  const store = await openStore(t, 1000n);
  const { manager, threads } = await openGateway(store, { threads: 2 });
  const [dead, other] = threads as [LeaseCache, LeaseCache];
  await hold(dead, 600);
  await hold(dead, 400);
  dead.settle(PAYER, 400, spend(300));
  const waits = hold(other, 1000);
  manager.tell({ type: 'ThreadGone', thread: 0 });
  t.same(await waits, { kind: 'reserved', amount: 1000 });
});

t.test('what a thread lost that died between two steps returns', async (t) => {
  const store = await openStore(t, 1000n);
  const { manager, memory, startThread, threads } = await openGateway(store, { threads: 2 });
  const [dead, other] = threads as [LeaseCache, LeaseCache];
  await hold(dead, 600);
  // As if it had drawn 300 and died before it noted so; the cell is the first.
  const table = new LeaseTable(memory, 0);
  await hold(other, 400);
  other.cancel(PAYER, 400);
  table.add(0, -300n);
  manager.tell({ type: 'ThreadGone', thread: 0 });
  startThread(0);
  await store.settle();
  t.same(await hold(other, 1000), { kind: 'reserved', amount: 1000 });
});

t.test('more accounts than cells are served, one after another', async (t) => {
  const store = await openStore(t, 0n);
  const { ledger } = store;
  const names = Array.from({ length: 12 }, (_, at) => `account-${at}`);
  for (const id of names) {
    await ledger.createAccount({ id });
    await ledger.grant({ id, account: id, amount: 1000n });
  }
  const { threads } = await openGateway(store, { threads: 2, accounts: 4 });
  const [one, two] = threads as [LeaseCache, LeaseCache];
  for (const account of names) {
    const payer = { ...PAYER, account };
    for (const leases of [one, two]) {
      let reserved = await hold(leases, 10, 10, payer);
      if (reserved.kind === 'busy') {
        await store.settle();
        reserved = await hold(leases, 10, 10, payer);
      }
      t.same(reserved, { kind: 'reserved', amount: 10 });
      leases.settle(payer, 10, spend(1));
    }
    await store.advance(250);
  }
  await store.advance(IDLE_MS);
  for (const account of names) t.match(await ledger.account(account), { balance: 998n, held: 0n });
});

t.test('requests that find all cells in use do not each look at all leases', async (t) => {
  const store = await openStore(t, 0n);
  const names = Array.from({ length: 5 }, (_, at) => `account-${at}`);
  for (const id of names) {
    await store.ledger.createAccount({ id });
    await store.ledger.grant({ id, account: id, amount: 1000n });
  }
  const { threads } = await openGateway(store, { accounts: 4 });
  const [leases] = threads as [LeaseCache];
  for (const account of names.slice(0, 4)) await hold(leases, 10, 10, { ...PAYER, account });
  await store.settle();
  const used = Reflect.get(LeaseTable.prototype, 'used') as LeaseTable['used'];
  t.teardown(() => Reflect.set(LeaseTable.prototype, 'used', used));
  let looks = 0;
  LeaseTable.prototype.used = function (cell) {
    looks++;
    return Reflect.apply(used, this, [cell]);
  };
  const [late] = names.slice(4);
  const payer = { ...PAYER, account: late as string };
  const waiting = Array.from({ length: 100 }, () => hold(leases, 10, 10, payer));
  for (const each of waiting) t.same(await each, { kind: 'busy' });
  t.equal(looks, 4, 'one look at each lease');
  leases.cancel({ ...PAYER, account: 'account-2' }, 10);
  await store.advance(250);
  t.same(await hold(leases, 10, 10, payer), { kind: 'busy' });
  await store.settle();
  t.same(await hold(leases, 10, 10, payer), { kind: 'reserved', amount: 10 }, 'in the cell of one that came free');
});

t.test('a lease whose answer was lost goes back with the next renewal', async (t) => {
  const store = await openStore(t, 100n);
  const { threads } = await openGateway(store, {
    change: (ledger) => ({ lease: losesFirstAnswer((request: HoldRequest) => ledger.lease(request)) }),
  });
  const [leases] = threads as [LeaseCache];
  t.same(await hold(leases, 10), { kind: 'away' });
  t.match(await store.ledger.account('a'), { held: 10n }, 'it was written all the same');
  await store.advance(1000);
  t.match(await store.ledger.account('a'), { balance: 100n, held: 0n });
});

t.test('an extension whose answer was lost is known after the next renewal', async (t) => {
  const store = await openStore(t, 100n);
  const { threads } = await openGateway(store, {
    change: (ledger) => ({
      extend: losesFirstAnswer((lease: string, operation: number, amount: bigint) =>
        ledger.extend(lease, operation, amount),
      ),
    }),
  });
  const [leases] = threads as [LeaseCache];
  t.same(await hold(leases, 10), { kind: 'reserved', amount: 10 });
  t.same(await hold(leases, 90), { kind: 'away' });
  await store.advance(1100);
  t.same(await hold(leases, 90), { kind: 'reserved', amount: 90 });
});

t.test('credit whose return was not answered is not lost', async (t) => {
  const store = await openStore(t, 100n);
  const { threads } = await openGateway(store, {
    change: (ledger) => ({
      giveBack: losesFirstAnswer((lease: string, operation: number, amount: bigint) =>
        ledger.giveBack(lease, operation, amount),
      ),
    }),
  });
  const [leases] = threads as [LeaseCache];
  await hold(leases, 10);
  leases.cancel(PAYER, 10);
  await store.advance(2000);
  t.same(await hold(leases, 100), { kind: 'reserved', amount: 100 });
});

t.test('a lease that could not be given back is not lost', async (t) => {
  const store = await openStore(t, 100_000n);
  let fails = true;
  const { problems, threads } = await openGateway(store, {
    change: (ledger) => ({
      async release(id) {
        if (!fails) return await ledger.release(id);
        fails = false;
        throw away();
      },
    }),
  });
  const [leases] = threads as [LeaseCache];
  await hold(leases, 10);
  leases.settle(PAYER, 10, spend(1));
  await store.advance(IDLE_MS);
  t.match(problems, [/credit could not be given back; it returns when its lease ends/]);
  await store.advance(SETTINGS.leaseTtlMs);
  t.match(await store.ledger.account('a'), { balance: 99_999n, held: 0n });
});

t.test('a charge on its way into the ledger is not sent again', async (t) => {
  const store = await openStore(t, 100n);
  const sent: string[][] = [];
  const gate = Promise.withResolvers<void>();
  const { manager, metrics } = await openGateway(store, {
    change: (ledger) => ({
      async charge(charges) {
        sent.push(charges.map(({ id }) => id));
        const outcomes = await ledger.charge(charges);
        if (sent.length === 1) throw away();
        await gate.promise;
        return outcomes;
      },
    }),
  });
  manager.tell({ type: 'Charges', thread: 0, charges: [REPORT] });
  await store.settle();
  manager.tell({ type: 'Charges', thread: 0, charges: [REPORT] });
  await store.advance(2000);
  const [[first], [second]] = sent as [[string], [string]];
  t.same(sent, [[first], [second], [first]], 'what failed is sent again, what is under way is not');
  t.not(first, second);
  t.equal(valueOf(metrics, 'headrace_ledger_waiting'), 2);
  gate.resolve();
  await store.settle();
  t.equal(valueOf(metrics, 'headrace_ledger_waiting'), 0);
  t.equal(valueOf(metrics, 'headrace_ledger_charges_total', { model: 'm', basis: 'measured' }), 2, 'each counts once');
  t.match(await store.ledger.account('a'), { balance: 98n });
});

t.test('a charge that the ledger refuses is dropped, and those of its batch are posted', async (t) => {
  const store = await openStore(t, 100n);
  const { manager, metrics, problems } = await openGateway(store);
  manager.tell({ type: 'Charges', thread: 0, charges: [REPORT, { ...REPORT, amount: -1 }, REPORT] });
  await store.settle();
  t.equal(problems.length, 1);
  t.match(problems[0], /a charge of -0.000000000001 USD to account 'a' is lost: the ledger refuses it/);
  t.equal(valueOf(metrics, 'headrace_ledger_waiting'), 0);
  await store.advance(2000);
  t.equal(problems.length, 1, 'it is not tried again');
  t.match(await store.ledger.account('a'), { balance: 98n });
});

t.test('charges that wait for the ledger are one problem a minute, however many they are', async (t) => {
  const store = await openStore(t, 100n);
  let isFull = true;
  const { manager, problems } = await openGateway(store, {
    change: (ledger) => ({
      charge: async (charges) =>
        isFull ? charges.map(() => ({ status: 'rejected', reason: away() })) : await ledger.charge(charges),
    }),
  });
  manager.tell({ type: 'Charges', thread: 0, charges: [REPORT, { ...REPORT, amount: -1 }, REPORT, REPORT] });
  await store.settle();
  t.same(problems, ['4 charges could not be posted and will be tried again: Error: the store is away']);
  await store.advance(59_000);
  t.equal(problems.length, 1);
  await store.advance(2000);
  t.equal(problems.length, 2);
  isFull = false;
  await store.advance(1000);
  t.match(problems.slice(2), [/a charge of -0.000000000001 USD to account 'a' is lost/]);
  t.match(await store.ledger.account('a'), { balance: 97n });
});

t.test('until the ledger opens credit is away and charges wait', async (t) => {
  const store = await openStore(t, 100n);
  let opens = 0;
  const { manager, metrics, over, problems, threads } = await openGateway(store, {
    opening: async (ledger: Ledger) => {
      if (++opens < 3) throw away();
      return ledger;
    },
  });
  const [leases] = threads as [LeaseCache];
  t.same(await hold(leases, 10), { kind: 'away' });
  manager.tell({ type: 'Charges', thread: 0, charges: [REPORT] });
  manager.tell({ type: 'Configure', settings: { ...SETTINGS, leaseTtlMs: 30_000 } });
  await store.advance(2000);
  t.equal(valueOf(metrics, 'headrace_ledger_waiting'), 1);
  await store.advance(2000);
  t.equal(opens, 3);
  t.equal(problems.filter((problem) => problem.startsWith('the store could not be opened')).length, 1);
  t.same(over, ['it works again: the store could not be opened; it is tried again, 2 times']);
  t.equal(valueOf(metrics, 'headrace_ledger_waiting'), 0);
  t.match(await store.ledger.account('a'), { balance: 99n });
  t.same(await hold(leases, 10), { kind: 'reserved', amount: 10 });
});

t.test('leases with a shorter life than those before are renewed within it', async (t) => {
  const store = await openStore(t, 100_000n);
  const lives: number[] = [];
  const { manager, threads } = await openGateway(store, {
    change: (ledger) => ({
      renew(holder, ttlMs) {
        lives.push(ttlMs);
        return ledger.renew(holder, ttlMs);
      },
    }),
  });
  const configure = (leaseTtlMs: number): void =>
    manager.tell({ type: 'Configure', settings: { ...SETTINGS, leaseTtlMs } });
  configure(86_400_000);
  await store.advance(60_000);
  configure(3000);
  await hold(threads[0] as LeaseCache, 10);
  const before = lives.length;
  await store.advance(3000);
  t.ok(lives.slice(before).includes(3000), `renewed for ${lives.join(', ')} ms`);
});

t.test('leases are renewed again after a renewal that took longer than the time to the next one', async (t) => {
  const store = await openStore(t, 100_000n);
  const slow = Promise.withResolvers<void>();
  let renewals = 0;
  const { threads } = await openGateway(store, {
    change: (ledger) => ({
      async renew(holder, ttlMs) {
        if (++renewals === 2) await slow.promise;
        return await ledger.renew(holder, ttlMs);
      },
    }),
  });
  const [leases] = threads as [LeaseCache];
  await store.advance(45_000);
  t.equal(renewals, 2);
  slow.resolve();
  await store.advance(SETTINGS.leaseTtlMs);
  t.ok(renewals > 3, `${renewals} renewals`);
  t.equal(leases.reserve({ account: 'a', key: 'k', prepaid: false }, 10), 10, 'who pays later is served');
});

t.test('a lease manager that restarts goes on: one ledger, one watch, no charge id twice', async (t) => {
  const store = await openStore(t, 100_000n);
  const ids: string[] = [];
  const { manager, opened, threads } = await openGateway(store, {
    change: (ledger) => ({
      charge(charges) {
        ids.push(...charges.map(({ id }) => id));
        return ledger.charge(charges);
      },
    }),
  });
  const [leases] = threads as [LeaseCache];
  await hold(leases, 10);
  leases.settle(PAYER, 10, spend(3));
  await store.advance(250);
  manager.tell({ type: 'Charges', thread: 0, charges: null } as never);
  await store.settle();
  t.equal(store.system.stats().restarts, 1);
  t.equal(leases.reserve(PAYER, 10), 10, 'the lease is the same');
  leases.settle(PAYER, 10, spend(3));
  await store.advance(250);
  t.equal(new Set(ids).size, 2);
  t.equal(opened(), 1);
  await store.advance(SETTINGS.leaseTtlMs * 2);
  t.match(await store.ledger.account('a'), { balance: 99_994n, held: 0n });
});

t.test('a shutdown waits for charges that are tried again, and gives all credit back', async (t) => {
  const store = await openStore(t, 100_000n);
  let fails = 3;
  const { shutDown, threads } = await openGateway(store, {
    change: (ledger) => ({
      async charge(charges) {
        if (fails-- > 0) throw away();
        return await ledger.charge(charges);
      },
    }),
  });
  const [leases] = threads as [LeaseCache];
  await hold(leases, 10);
  leases.settle(PAYER, 10, spend(3));
  leases.close();
  t.same(await shutDown(), []);
  t.match(await store.ledger.account('a'), { balance: 99_997n, held: 0n });
});

t.test('a shutdown gives credit back that is being leased when it begins', async (t) => {
  const store = await openStore(t, 100_000n);
  const { manager, threads } = await openGateway(store, {
    change: (ledger) => ({
      async lease(request) {
        await new Promise<void>((resolve) => void store.clock.setTimeout(resolve, 500));
        return await ledger.lease(request);
      },
    }),
  });
  const refused = hold((threads as [LeaseCache])[0], 50_000);
  await store.settle();
  let flushed = 0;
  const replyTo = store.system.spawn<'flushed'>(() => () => void flushed++);
  manager.tell({ type: 'Flush', withinMs: 10_000, replyTo });
  await store.advance(499);
  t.same(await refused, { kind: 'away' });
  t.equal(flushed, 0);
  await store.advance(1);
  t.equal(flushed, 1);
  t.match(await store.ledger.account('a'), { balance: 100_000n, held: 0n });
});

t.test('a shutdown gives credit back whose lease the gateway has not heard of', async (t) => {
  const store = await openStore(t, 100_000n);
  const { manager, threads } = await openGateway(store, {
    change: (ledger) => ({ lease: losesFirstAnswer((request) => ledger.lease(request)) }),
  });
  t.same(await hold((threads as [LeaseCache])[0], 10), { kind: 'away' });
  t.ok(((await store.ledger.account('a'))?.held ?? 0n) > 0n);
  let flushed = 0;
  const replyTo = store.system.spawn<'flushed'>(() => () => void flushed++);
  manager.tell({ type: 'Flush', withinMs: 10_000, replyTo });
  await store.settle();
  t.equal(flushed, 1);
  t.match(await store.ledger.account('a'), { balance: 100_000n, held: 0n });
});

t.test('a shutdown tries again to give credit back, and what it cannot give back lapses at once', async (t) => {
  for (const failures of [3, Infinity]) {
    const store = await openStore(t, 100_000n);
    let left = failures;
    const { shutDown, threads } = await openGateway(store, {
      change: (ledger) => ({
        release: (id) => (left-- > 0 ? Promise.reject(away()) : ledger.release(id)),
      }),
    });
    const [leases] = threads as [LeaseCache];
    await hold(leases, 10);
    leases.settle(PAYER, 10, spend(3));
    leases.close();
    t.same(await shutDown(), []);
    if (failures === Infinity) t.equal(await store.ledger.expire(), 1);
    t.match(await store.ledger.account('a'), { balance: 99_997n, held: 0n });
  }
});

t.test('a shutdown that has nothing to give back does not ask the store', async (t) => {
  const store = await openStore(t, 100_000n);
  const { manager, threads } = await openGateway(store, {
    change: (ledger) => ({
      renew: (holder, ttlMs) => (ttlMs === 0 ? Promise.reject(away()) : ledger.renew(holder, ttlMs)),
    }),
  });
  const [leases] = threads as [LeaseCache];
  t.match(await hold(leases, 1, 1, { ...PAYER, account: 'nobody' }), { kind: 'short' });
  await hold(leases, 10);
  leases.cancel(PAYER, 10);
  await store.advance(30_000);
  t.match(await store.ledger.account('a'), { held: 0n });
  let flushed = 0;
  const replyTo = store.system.spawn<'flushed'>(() => () => void flushed++);
  manager.tell({ type: 'Flush', withinMs: 10_000, replyTo });
  await store.settle();
  t.equal(flushed, 1);
});

t.test('a shutdown waits for a store that does not lease as long as it may', async (t) => {
  const store = await openStore(t, 100_000n);
  const { manager, threads } = await openGateway(store, {
    change: () => ({ lease: () => Promise.withResolvers<never>().promise }),
  });
  const refused = hold((threads as [LeaseCache])[0], 10);
  await store.settle();
  let flushed = 0;
  const replyTo = store.system.spawn<'flushed'>(() => () => void flushed++);
  manager.tell({ type: 'Flush', withinMs: 5000, replyTo });
  await store.advance(4999);
  t.equal(flushed, 0);
  await store.advance(1);
  t.equal(flushed, 1);
  t.same(await refused, { kind: 'away' });
});

t.test('a shutdown while the store is away ends, and says what is lost', async (t) => {
  const store = await openStore(t, 100_000n);
  const { manager, problems, shutDown, threads } = await openGateway(store, {
    change: () => ({ charge: () => Promise.reject(away()) }),
  });
  const [leases] = threads as [LeaseCache];
  await hold(leases, 10);
  leases.settle(PAYER, 10, spend(3));
  leases.close();
  const lost = await shutDown();
  t.match(lost, [{ account: 'a', amount: 3, usage: { key: 'k', model: 'm' } }]);
  t.equal(lost.length, 1);
  manager.tell({ type: 'Charges', thread: 0, charges: [REPORT] });
  await store.settle();
  t.match(problems.at(-1), /a charge is lost: the ledger is closed: Error: 0.000000000001 USD of account 'a'/);
});
