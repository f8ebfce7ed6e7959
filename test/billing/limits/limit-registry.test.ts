// Cells, chains of keys, what the ledger says was spent, and alerts.

import t from 'tap';
import { createManualClock, type ManualClock } from '../../../src/actor/index.ts';
import { KeyLimiter, type LimitedPayer, type LimitReservation } from '../../../src/billing/limits/key-limiter.ts';
import { LimitRegistry, type RegisteredKey } from '../../../src/billing/limits/limit-registry.ts';
import { createLimitMemory, LimitTable } from '../../../src/billing/limits/limit-table.ts';
import { SliceManager } from '../../../src/billing/limits/slice-manager.ts';
import type { BudgetEvent } from '../../../src/billing/limits/budgets.ts';
import type {
  Charge,
  KeyLimits,
  SpendingQuery,
  SpendingRow,
  StoredBudget,
} from '../../../src/billing/ledger/ledger.ts';
import { advance } from '../../support/advance.ts';

const START = Date.UTC(2026, 10, 18, 12);
const DAY_MS = 86_400_000;

class Fixture {
  readonly events: BudgetEvent[] = [];
  readonly full: string[] = [];
  readonly queries: SpendingQuery[] = [];
  rows: (query: SpendingQuery) => SpendingRow[] = () => [];
  nowMs = START;
  readonly clock: ManualClock = createManualClock();
  readonly limiter: KeyLimiter;
  readonly slices: SliceManager;
  readonly registry: LimitRegistry;

  constructor(cells = 4) {
    const memory = createLimitMemory(2, cells);
    this.limiter = new KeyLimiter(memory, 1);
    this.slices = new SliceManager({
      table: new LimitTable(memory, 0),
      clock: this.clock,
      epochMs: () => this.nowMs,
      onState: () => undefined,
    });
    this.registry = new LimitRegistry({
      memory,
      slices: this.slices,
      epochMs: () => this.nowMs,
      tell: (change) => this.limiter.updateBudgets(change),
      onCrossed: (event) => this.events.push(event),
      onFull: (kind, id) => this.full.push(`${kind} ${id}`),
    });
  }

  readonly #spending = async (query: SpendingQuery): Promise<SpendingRow[]> => {
    this.queries.push(query);
    return this.rows(query);
  };

  read(all = false): Promise<void> {
    return this.registry.read(this.#spending, all);
  }

  readNew(): Promise<void> {
    return this.registry.readNew(this.#spending);
  }

  /** Spends, or answers with why not. */
  spend(payer: LimitedPayer, amount: number): string {
    const bound = { least: amount, most: amount, leastTokens: 0, mostTokens: 0 };
    const admitted = this.limiter.admit(payer, 'm', bound, this.nowMs);
    if (admitted.kind !== 'reserved') return admitted.kind;
    this.limiter.settle(admitted, payer, 'm', 0, amount, this.nowMs);
    return 'spent it';
  }

  posted(amount: number, key: string | null = null): void {
    const usage = { key, model: 'm', inputTokens: 0, cachedTokens: 0, outputTokens: 0, measured: true };
    this.registry.posted({ id: 'c', account: 'a', amount: BigInt(amount), dateMs: this.nowMs, usage } as Charge);
  }
}

const keyOf = (id: string, limits: KeyLimits, more: Partial<RegisteredKey> = {}): RegisteredKey => ({
  ...{ hash: `hash of ${id}`, id, lineage: id, account: 'a', createdMs: 1, limits },
  ...more,
});

const budgetOf = (more: Partial<StoredBudget> = {}): StoredBudget => ({
  ...{ id: 'b', account: 'a', key: null, model: null, period: 'day', limit: 1000n, soft: null },
  ...{ createdMs: 0, changedMs: 0 },
  ...more,
});

const ACCOUNT: LimitedPayer = { account: 'a', lineage: null, allowance: null };

t.test('cells of keys that have gone are used again; beyond the capacity a key is refused', async (t) => {
  const { full, registry } = new Fixture(3);
  for (let times = 0; times < 70_000; times++) {
    const key = keyOf(`k${times}`, { requestsPerMinute: 1, monthlySpend: '5' });
    if (registry.putKey(key)?.cell === null) t.fail(`no cell for key ${times}`);
    registry.dropKey(key.hash);
  }
  t.match(registry.taken, { keys: 0, budgets: 0 });
  const cells = [1, 2, 3, 4].map((number) => registry.putKey(keyOf(`n${number}`, { tokensPerMinute: 1 }))?.cell);
  t.equal(new Set(cells.slice(0, 3).map((cell) => cell?.index)).size, 3);
  t.equal(cells[3], null);
  t.same(full, ['key n4']);
  registry.dropKey('hash of n1');
  const again = registry.putKey(keyOf('n4', { tokensPerMinute: 1 }))?.cell;
  t.equal(again?.index, cells[0]?.index);
  t.ok((again?.generation ?? 0) > (cells[0]?.generation ?? 0), 'the counts before do not count');
  t.equal(registry.putKey(keyOf('free', {})), undefined);
});

t.test('a rotated key and its successor share counts and budget; the newest says how much', async (t) => {
  const fixture = new Fixture();
  const { registry } = fixture;
  const old = registry.putKey(keyOf('k1', { requestsPerMinute: 5, monthlySpend: '1000' }));
  const payer = { account: 'a', lineage: 'k1', allowance: null };
  t.equal(fixture.spend(payer, 600), 'spent it');
  const limits = { requestsPerMinute: 5, monthlySpend: '1000' };
  const next = registry.putKey(keyOf('k2', limits, { lineage: 'k1', createdMs: 2 }));
  t.same(next?.cell, old?.cell);
  registry.dropKey('hash of k1');
  t.equal(fixture.spend(payer, 600), 'spent', 'the budget does not begin anew');
  registry.putKey(keyOf('k2', { ...limits, monthlySpend: '1200' }, { lineage: 'k1', createdMs: 2 }));
  t.equal(fixture.spend(payer, 600), 'spent it', 'an edited limit keeps what was spent');
  registry.dropKey('hash of k2');
  t.match(registry.taken, { keys: 0, budgets: 0 });
});

t.test('spending of other gateways counts, and own spending counts once', async (t) => {
  const fixture = new Fixture();
  const { registry } = fixture;
  registry.putBudget(budgetOf());
  let ledger = 300;
  fixture.rows = () => [{ account: 'a', key: '', model: 'm', amount: BigInt(ledger) }];
  await fixture.read(true);
  t.equal(registry.spent('b'), 300);
  t.equal(fixture.spend(ACCOUNT, 200), 'spent it');
  await fixture.read();
  t.equal(registry.spent('b'), 500, 'not in the ledger yet');
  ledger += 200;
  fixture.posted(200);
  await fixture.read();
  t.equal(registry.spent('b'), 500, 'in the ledger');
  ledger += 400;
  await fixture.read();
  t.equal(registry.spent('b'), 900, 'another gateway');
  t.equal(fixture.spend(ACCOUNT, 101), 'spent');
  fixture.nowMs += DAY_MS;
  ledger = 0;
  t.equal(fixture.spend(ACCOUNT, 1000), 'spent it', 'the next day');
  await fixture.read();
  t.equal(registry.spent('b'), 1000);
});

t.test(
  'what a rotated key spends at last counts once, though it is posted minutes after the key has gone',
  async (t) => {
    const fixture = new Fixture();
    const { registry } = fixture;
    registry.putKey(keyOf('k1', { monthlySpend: '1000' }));
    registry.putKey(keyOf('k2', { monthlySpend: '1000' }, { lineage: 'k1', createdMs: 2 }));
    registry.putKey(keyOf('k3', { monthlySpend: '1000' }, { lineage: 'k1', createdMs: 3 }));
    const payer = { account: 'a', lineage: 'k1', allowance: null };
    const bound = { least: 400, most: 400, leastTokens: 0, mostTokens: 0 };
    const admitted = fixture.limiter.admit(payer, 'm', bound, START);
    for (const id of ['k1', 'k2']) registry.dropKey(`hash of ${id}`);
    for (let times = 0; times < 60; times++) {
      fixture.nowMs += 5000;
      await fixture.read();
    }
    fixture.limiter.settle(admitted as LimitReservation, payer, 'm', 0, 400, fixture.nowMs);
    fixture.posted(400, 'k2');
    fixture.rows = () => [{ account: 'a', key: 'k1', model: 'm', amount: 400n }];
    await fixture.read();
    t.equal(registry.spent('monthly:k1'), 400);
    t.equal(fixture.spend(payer, 600), 'spent it');
  },
);

t.test('after the clock was a day ahead, own spending counts once and a threshold is reported', async (t) => {
  const fixture = new Fixture();
  const { events, registry } = fixture;
  let ledger = 0n;
  fixture.rows = () => [{ account: 'a', key: '', model: 'm', amount: ledger }];
  registry.putBudget(budgetOf({ soft: 500n }));
  await fixture.read();
  fixture.nowMs += DAY_MS;
  t.equal(fixture.spend(ACCOUNT, 600), 'spent it');
  fixture.posted(600);
  registry.report();
  fixture.nowMs = START;
  await fixture.read();
  t.equal(fixture.spend(ACCOUNT, 600), 'spent it');
  fixture.posted(600);
  ledger = 600n;
  await fixture.read();
  registry.report();
  t.equal(registry.spent('b'), 600);
  t.match(events, [
    { threshold: 'soft', startsMs: Date.UTC(2026, 10, 19) },
    { threshold: 'soft', startsMs: Date.UTC(2026, 10, 18) },
  ]);
});

t.test('what was settled before a budget began, and posted after it, counts', async (t) => {
  const fixture = new Fixture();
  const { registry } = fixture;
  registry.putBudget(budgetOf());
  await fixture.read(true);
  fixture.posted(300);
  fixture.rows = () => [{ account: 'a', key: '', model: 'm', amount: 300n }];
  await fixture.read(true);
  t.equal(registry.spent('b'), 300);
});

t.test('closed days are read once a day, and the last two days each time', async (t) => {
  const fixture = new Fixture();
  fixture.registry.putBudget(budgetOf({ period: 'month' }));
  fixture.registry.putBudget(budgetOf({ id: 'week', period: 'week', model: 'm' }));
  fixture.registry.putBudget(budgetOf({ id: 'all', account: null, model: 'm' }));
  fixture.rows = ({ accounts, from, to }) =>
    accounts.length === 0
      ? []
      : [{ account: 'a', key: '', model: 'm', amount: to === null ? 5n : BigInt(from.slice(-2)) }];
  await fixture.read(true);
  const asked = (): string[] =>
    fixture.queries.splice(0).map(({ accounts, from, models, to }) => `${[...accounts, ...models]} ${from} ${to}`);
  t.same(asked().sort(), [
    'a 2026-11-01 2026-11-17',
    'a 2026-11-16 2026-11-17',
    'a 2026-11-17 null',
    'm 2026-11-18 null',
  ]);
  t.equal(fixture.registry.spent('b'), 6);
  t.equal(fixture.registry.spent('week'), 21);
  await fixture.read();
  t.same(asked().sort(), ['a 2026-11-17 null', 'm 2026-11-18 null']);
  fixture.nowMs += DAY_MS;
  await fixture.read();
  t.ok(asked().includes('a 2026-11-01 2026-11-18'));
});

t.test('a reading of 65,536 budgets takes those with traffic and a bounded number of others', async (t) => {
  const fixture = new Fixture(65_536);
  for (let number = 0; number < 65_536; number++) {
    fixture.registry.putBudget(budgetOf({ id: `b${number}`, account: `a${number}` }));
  }
  await fixture.read();
  fixture.queries.splice(0);
  await fixture.read();
  t.equal(
    fixture.queries.reduce((sum, { accounts }) => sum + accounts.length, 0),
    500,
  );
  fixture.spend({ ...ACCOUNT, account: 'a60000' }, 1);
  fixture.queries.splice(0);
  await fixture.read();
  t.ok(fixture.queries.some(({ accounts }) => accounts.includes('a60000')));
});

t.test('a budget that gateways together have used up is read soon, whatever is read in turn', async (t) => {
  const fixture = new Fixture(65_536);
  const { clock, registry, slices } = fixture;
  for (let number = 0; number < 2000; number++) {
    registry.putBudget(budgetOf({ id: `b${number}`, account: `a${number}` }));
  }
  await fixture.read();
  const grant = { quota: [0], others: [1000], spare: [0], retryMs: 0, resetMs: 0 };
  slices.share({ exchange: async (claims) => claims.map(() => grant), recall: () => undefined });
  await advance(clock, 100);
  const payer = { ...ACCOUNT, account: 'a1900' };
  const bound = { least: 1, most: 1, leastTokens: 0, mostTokens: 0 };
  t.same(fixture.limiter.admit(payer, 'm', bound, START), { kind: 'slice' });
  const need = fixture.limiter.needOf(payer, 'm', bound, START);
  slices.receive({ type: 'Wait', thread: 1, id: 1, need });
  await advance(clock, 50);
  const asked = async (): Promise<string[]> => {
    fixture.queries.splice(0);
    await fixture.read();
    return fixture.queries.flatMap(({ accounts }) => accounts);
  };
  t.ok((await asked()).includes('a1900'));
  t.notOk((await asked()).includes('a1900'));
});

t.test('thresholds are reported once per period, whoever crosses them', async (t) => {
  const fixture = new Fixture();
  const { events, registry } = fixture;
  registry.putBudget(budgetOf({ soft: 800n }));
  const crossed = (): string[] => {
    registry.report();
    return events
      .splice(0)
      .map(({ spent, startsMs, threshold }) => `${threshold} ${spent} ${new Date(startsMs).getUTCDate()}`);
  };
  fixture.spend(ACCOUNT, 799);
  t.same(crossed(), []);
  fixture.spend(ACCOUNT, 1);
  fixture.spend(ACCOUNT, 100);
  t.same(crossed(), ['soft 900 18']);
  t.same(crossed(), []);
  t.equal(fixture.spend(ACCOUNT, 101), 'spent');
  t.same(crossed(), ['hard 900 18'], 'what is left is of no use');
  fixture.nowMs += DAY_MS;
  fixture.rows = () => [{ account: 'a', key: '', model: 'm', amount: 1000n }];
  await fixture.read();
  t.same(crossed(), ['soft 1000 19', 'hard 1000 19'], 'another gateway');
  registry.putBudget(budgetOf({ limit: 1500n, soft: 900n }));
  await fixture.read();
  t.same(crossed(), ['soft 1000 19'], 'another limit');
});

for (const [what, id] of [
  ['a deleted budget', 'next'],
  ['a budget that was moved to another account', 'b'],
] as const) {
  t.test(`what was being read of ${what} does not count for the one that has its cell`, async (t) => {
    const fixture = new Fixture(1);
    const { events, registry } = fixture;
    registry.putBudget(budgetOf({ soft: 500n }));
    fixture.rows = () => {
      registry.dropBudget('b');
      registry.putBudget(budgetOf({ id, account: 'z', soft: 500n }));
      return [{ account: 'a', key: '', model: 'm', amount: 2000n }];
    };
    await fixture.readNew();
    registry.report();
    t.same(events, []);
    t.equal(fixture.spend({ ...ACCOUNT, account: 'z' }, 100), 'spent it');
    t.equal(registry.spent(id), 100);
    t.ok(registry.hasNew, 'its own spending is still to be read');
    fixture.rows = () => [{ account: 'z', key: '', model: 'm', amount: 600n }];
    await fixture.readNew();
    registry.report();
    t.match(events, [{ account: 'z', threshold: 'soft', spent: 700 }]);
  });
}

t.test('a thread that still counts for a deleted budget crosses no threshold of the one in its cell', async (t) => {
  const fixture = new Fixture(1);
  const { events, limiter, registry } = fixture;
  registry.putBudget(budgetOf({ soft: 500n }));
  t.equal(fixture.spend(ACCOUNT, 600), 'spent it');
  registry.report();
  t.match(events.splice(0), [{ budget: 'b', threshold: 'soft', spent: 600 }]);
  const before = registry.budgets();
  registry.dropBudget('b');
  registry.putBudget(budgetOf({ id: 'next', account: 'z', soft: 500n }));
  const after = registry.budgets();
  // The thread has not read of the change.
  limiter.updateBudgets(before);
  t.equal(fixture.spend(ACCOUNT, 10), 'spent it');
  limiter.updateBudgets(after);
  registry.report();
  t.same(events, []);
  t.equal(fixture.spend({ ...ACCOUNT, account: 'z' }, 500), 'spent it');
  registry.report();
  t.match(events, [{ budget: 'next', threshold: 'soft', spent: 500 }]);
});

t.test('a limit that is raised while spending is read is the one that counts', async (t) => {
  const fixture = new Fixture(1);
  const { events, registry } = fixture;
  registry.putBudget(budgetOf({ soft: 500n }));
  fixture.rows = () => {
    registry.putBudget(budgetOf({ limit: 5000n, soft: 4000n }));
    return [{ account: 'a', key: '', model: 'm', amount: 2000n }];
  };
  await fixture.readNew();
  registry.report();
  t.same(events, []);
  t.equal(registry.spent('b'), 2000);
  t.equal(fixture.spend(ACCOUNT, 2000), 'spent it');
  registry.report();
  t.match(events, [{ threshold: 'soft', spent: 4000 }]);
});

t.test('what a thread has reserved returns when it has ended', async (t) => {
  const fixture = new Fixture();
  fixture.registry.putBudget(budgetOf());
  const allowance = fixture.registry.putKey(keyOf('k', { runningRequests: 1 })) ?? null;
  const payer = { ...ACCOUNT, allowance };
  const bound = { least: 1000, most: 1000, leastTokens: 0, mostTokens: 0 };
  t.equal(fixture.limiter.admit(payer, 'm', bound, START).kind, 'reserved');
  t.equal(fixture.limiter.admit(payer, 'm', bound, START).kind, 'running');
  fixture.registry.clearThread(1);
  t.equal(fixture.limiter.admit(payer, 'm', bound, START).kind, 'reserved');
});

t.test('what was spent of a budget that is new is read once, and nothing of the others', async (t) => {
  const fixture = new Fixture();
  const { registry } = fixture;
  registry.putBudget(budgetOf({ id: 'first', account: 'a' }));
  await fixture.read(true);
  fixture.queries.length = 0;
  t.notOk(registry.hasNew);
  registry.putKey(keyOf('plain', { requestsPerMinute: 5 }));
  t.notOk(registry.hasNew, 'a key without a budget');
  registry.putKey(keyOf('k', { monthlySpend: '100' }, { account: 'b' }));
  t.ok(registry.hasNew);
  await fixture.readNew();
  t.notOk(registry.hasNew);
  t.same(new Set(fixture.queries.flatMap(({ accounts }) => accounts)), new Set(['b']));
  fixture.queries.length = 0;
  registry.putKey(keyOf('k', { monthlySpend: '200' }, { account: 'b' }));
  await fixture.readNew();
  t.same(fixture.queries, [], 'another limit of the same budget');
});

t.test('a budget that found no place gets the next one that is free, with what was spent of it', async (t) => {
  const fixture = new Fixture(1);
  const { full, registry } = fixture;
  registry.putBudget(budgetOf());
  registry.putBudget(budgetOf({ id: 'next', account: 'z' }));
  const payer = { ...ACCOUNT, account: 'z' };
  fixture.rows = () => [{ account: 'z', key: '', model: 'm', amount: 900n }];
  await fixture.read();
  t.equal(fixture.spend(payer, 1), 'capacity');
  registry.dropBudget('b');
  registry.placeWaiting();
  t.equal(fixture.spend(payer, 1), 'capacity', 'until it is known what was spent');
  await t.rejects(
    registry.read(() => Promise.reject(new Error('the store is away')), false),
    /away/,
  );
  t.equal(fixture.spend(payer, 1), 'capacity');
  await fixture.read();
  t.equal(fixture.spend(payer, 200), 'spent');
  t.equal(fixture.spend(payer, 100), 'spent it');
  t.same(full, ['budget next'], 'told once');
  t.match(registry.taken, { budgets: 1 });
});

t.test('keys that found no place get the next one that is free, all of a lineage', async (t) => {
  const { full, registry } = new Fixture(1);
  const limits = { requestsPerMinute: 1 };
  registry.putKey(keyOf('first', limits));
  registry.putKey(keyOf('old', limits));
  registry.putKey(keyOf('gone', limits));
  registry.dropKey('hash of gone');
  registry.putKey(keyOf('changed', limits));
  registry.putKey(keyOf('changed', {}));
  t.same(registry.placeWaiting(), []);
  registry.dropKey('hash of first');
  // It takes the place by itself; the key before it is told of that.
  const cell = registry.putKey(keyOf('new', limits, { lineage: 'old', createdMs: 2 }))?.cell;
  t.equal(cell?.index, 0);
  t.match(registry.placeWaiting(), [
    { hash: 'hash of old', allowance: { cell, requestsPerMinute: 1 } },
    { hash: 'hash of new', allowance: { cell, requestsPerMinute: 1 } },
  ]);
  t.same(registry.placeWaiting(), []);
  t.same(full, ['key old', 'key gone', 'key changed']);
});
