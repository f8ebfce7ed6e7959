// Charges of the parts of a request, with a real ledger, leases and limits: whatever happens in whatever order, charged is what was
// delivered when something useful had left, and all else returns.

import { randomInt } from 'node:crypto';
import t from 'tap';
import { HeldCharges, StoredCharges } from '../../src/api/held-charges.ts';
import { type Meter, paid, type RequestSettlement, unmeteredRange } from '../../src/api/pipeline.ts';
import type { ApiDeps } from '../../src/api/deps.ts';
import { hashKey, KeyTable, type LeaseCache, type RequestBound, type Spending } from '../../src/billing/index.ts';
import { KeyLimiter, type LimitedPayer } from '../../src/billing/limits/key-limiter.ts';
import { createLimitMemory, type LimitCell } from '../../src/billing/limits/limit-table.ts';
import { resolveSettings } from '../../src/config/load.ts';
import type { Exchange } from '../../src/ingress/exchange.ts';
import { type Gateway, openGateway, openStore, type Store } from '../billing/lease-fixture.ts';
import { StubExchange } from '../ingress/stub-exchange.ts';
import { Random } from '../support/random.ts';

const CREDIT = 1_000_000_000;
const LEASE = 1_000_000;
const BUDGET = 100_000;
const TOKENS = 1_000_000;
const CELL: LimitCell = { index: 1, generation: 1 };
const ALLOWANCE = { cell: CELL, runningRequests: 1, requestsPerMinute: 10, tokensPerMinute: TOKENS };
const PAYER: LimitedPayer = { account: 'a', lineage: 'k', allowance: ALLOWANCE };
const ADMITTED_MS = 1_000_000;

interface Bench {
  readonly store: Store;
  readonly gateway: Gateway;
  readonly limiter: KeyLimiter;
  readonly deps: ApiDeps;
}

async function setUp(t: { teardown(run: () => unknown): void }): Promise<Bench> {
  const store = await openStore(t, BigInt(CREDIT));
  const gateway = await openGateway(store, { leasePico: LEASE });
  const leases = gateway.threads[0] as LeaseCache;
  const limiter = new KeyLimiter(createLimitMemory(1, 4), 0);
  const budget = { id: 'b', account: 'a', key: null, model: null, period: 'month', limit: BUDGET, soft: null } as const;
  limiter.updateBudgets({ reset: true, put: [{ ...budget, cell: CELL }], drop: [] });
  const resolved = resolveSettings({});
  if ('mistakes' in resolved) throw new Error('the settings are right');
  const record = { hash: hashKey('good'), account: 'a', id: 'k', prepaid: true, allowance: ALLOWANCE };
  const deps = {
    settings: resolved.settings,
    keys: new KeyTable([record]),
    billing: { leases, limits: limiter, epochMs: () => ADMITTED_MS },
    paymentProcessor: null,
  } as unknown as ApiDeps;
  // The lease is there for all that follows.
  const granted = new Promise((resolve) => leases.fund({ account: 'a', key: 'k', prepaid: true }, 1, 1, resolve));
  await store.settle();
  await granted;
  leases.cancel({ account: 'a', key: 'k', prepaid: true }, 1);
  return { store, gateway, limiter, deps };
}

/** An exchange that runs through the pipeline. */
function admitted(deps: ApiDeps, parent: Exchange | null, range: RequestBound): [StubExchange, RequestSettlement] {
  const exchange = new StubExchange('POST', ['authorization', 'Bearer good']);
  exchange.parent = parent;
  let settlement: RequestSettlement = null;
  paid({
    read: () => null,
    price: () => range,
    quote: () => null,
    run: (_, held) => void (settlement = held),
  })(exchange, deps);
  return [exchange, settlement];
}

interface Part {
  readonly exchange: StubExchange;
  readonly most: RequestBound;
  readonly settlement: RequestSettlement & object;
  /** What was delivered of it to the request that makes it. */
  spending: Spending | null;
  isDue: boolean;
}

const spendingOf = (cost: number): Spending => ({
  ...{ model: '', cost, cachedTokens: 0, measured: true },
  ...{ promptTokens: Math.floor(cost / 2), completionTokens: Math.ceil(cost / 2) },
});

const sum = (costs: readonly number[]): number => costs.reduce((total, cost) => total + cost, 0);
const costOf = ({ spending }: Part): number => spending?.cost ?? 0;

/** What is left of the limits. */
function leftOf(limiter: KeyLimiter): { tokens: unknown; running: unknown } {
  const states = limiter.stateOf(PAYER, ADMITTED_MS);
  const of = (kind: string): unknown => states.find((state) => state.kind === kind)?.remaining;
  return { tokens: of('tokens'), running: of('running') };
}

/** Whether the budget has room for one more request of this cost. */
function hasRoom(limiter: KeyLimiter, amount: number): boolean {
  const payer = { ...PAYER, allowance: null };
  const bound = { least: amount, most: amount, leastTokens: 0, mostTokens: 0 };
  const probe = limiter.admit(payer, '', bound, ADMITTED_MS);
  if (probe.kind === 'reserved') limiter.settle(probe, payer, '', 0, 0, ADMITTED_MS);
  return probe.kind === 'reserved';
}

class RandomRequest {
  readonly exchange: StubExchange;
  readonly charges: HeldCharges = new HeldCharges();
  readonly parts: Part[] = [];
  readonly #random: Random;
  readonly #deps: ApiDeps;

  constructor(deps: ApiDeps, random: Random) {
    this.#random = random;
    this.#deps = deps;
    [this.exchange] = admitted(deps, null, unmeteredRange(0));
    this.exchange.partCharges = this.charges;
  }

  step(): void {
    const random = this.#random;
    const part = this.parts.length === 0 ? undefined : random.pick(this.parts);
    const action = random.below(5);
    if (action === 0 || part === undefined) this.begin();
    else if (action === 1) this.deliver();
    else if (part.exchange.endCause === null && action === 2) this.pass(part);
    else if (part.exchange.endCause === null && action === 3) part.exchange.end();
    else part.exchange.leave();
  }

  begin(): void {
    const random = this.#random;
    const most = 1 + random.below(300);
    const range = { least: 1, most, leastTokens: 1, mostTokens: most + 1 };
    const [exchange, settlement] = admitted(this.#deps, this.exchange, range);
    if (settlement === null || settlement.kind !== 'account') throw new Error('it is admitted');
    const part: Part = { exchange, most: range, settlement, spending: null, isDue: false };
    const meter: Meter = { spending: () => part.spending };
    if (random.chance(0.5)) settlement.meter = meter;
    this.parts.push(part);
  }

  /** Something of the answer of a part has come. */
  pass(part: Part): void {
    const cost = this.#random.below(part.most.most + 1);
    const spending = spendingOf(cost);
    if (part.settlement.kind !== 'account') return;
    if (part.settlement.meter !== null) part.spending = spending;
    else if (part.spending === null) {
      part.spending = spending;
      part.settlement.add(spending);
    }
  }

  deliver(): void {
    this.charges.deliver();
    for (const part of this.parts) part.isDue = true;
  }

  end(): void {
    for (const { exchange } of this.parts) if (this.#random.chance(0.9)) exchange.leave();
    const { exchange } = this;
    this.#random.pick([() => exchange.end(), () => exchange.leave(), () => exchange.destroy()])();
    // What ends after the request that makes it is charged no more than that says.
    for (const { exchange } of this.parts) exchange.leave();
  }
}

t.test('charged is what was committed, and every hold returns, in any order of events', async (t) => {
  const seed = randomInt(2 ** 32);
  t.comment(`seed ${seed}`);
  const random = new Random(seed);
  const { deps, gateway, limiter, store } = await setUp(t);
  let spent = 0;
  let requests = 0;
  const wrong: unknown[] = [];
  const expect = (name: string, found: unknown, wanted: unknown): void => {
    if (JSON.stringify(found) !== JSON.stringify(wanted)) wrong.push({ name, found, wanted });
  };
  const check = (name: string, { parts }: RandomRequest, isRunning: boolean): void => {
    const isHeld = ({ exchange, isDue }: Part): boolean => exchange.endCause !== null && (isDue || isRunning);
    const ended = sum(parts.filter(isHeld).map(costOf));
    const open = parts.filter(({ exchange }) => exchange.endCause === null);
    const held = ended + sum(open.map(({ most }) => most.most));
    const tokens = ended + sum(open.map(({ most }) => most.mostTokens));
    expect(name, leftOf(limiter), { tokens: TOKENS - spent - tokens, running: isRunning ? 0 : 1 });
    const room = BUDGET - spent - held;
    expect(`budget, ${name}`, [hasRoom(limiter, room), hasRoom(limiter, room + 1)], [true, false]);
  };
  for (let run = 0; run < 8; run++) {
    const request = new RandomRequest(deps, random);
    for (let steps = random.below(25); steps > 0; steps--) {
      request.step();
      check('under way', request, true);
      const due = sum(request.parts.filter(({ isDue }) => isDue).map(costOf));
      expect('cost that is told', request.charges.dueCost, due);
    }
    request.end();
    check('over', request, false);
    const charged = request.parts.filter(({ isDue, spending }) => isDue && spending !== null);
    spent += sum(charged.map(costOf));
    requests += charged.length;
    for (const { exchange, isDue, settlement, spending } of request.parts) {
      const { cost, promptTokens } = exchange.settlement ?? {};
      expect(
        'what the log says',
        [cost, promptTokens, settlement.kind === 'account' && settlement.isWaiting],
        [isDue ? (spending?.cost ?? 0) : 0, isDue ? (spending?.promptTokens ?? 0) : 0, false],
      );
    }
  }
  t.same(wrong, []);
  t.same(await gateway.shutDown(), []);
  const [row] = await store.ledger.usage({ account: 'a', by: [] });
  t.same([row?.amount ?? 0n, row?.requests ?? 0n], [BigInt(spent), BigInt(requests)]);
});

t.test('what a thread held between the parts of a request returns when it dies', async (t) => {
  const { deps, gateway, store } = await setUp(t);
  const [exchange] = admitted(deps, null, unmeteredRange(0));
  const charges = new HeldCharges();
  exchange.partCharges = charges;
  for (const cost of [300, 200]) {
    const [part, settlement] = admitted(deps, exchange, unmeteredRange(cost));
    settlement?.add(spendingOf(cost));
    part.end();
    if (cost === 300) charges.deliver();
  }
  await store.advance(250);
  gateway.manager.tell({ type: 'ThreadGone', thread: 0 });
  await store.settle();
  const leases = gateway.startThread(0);
  const whole = await new Promise((resolve) => {
    leases.fund({ account: 'a', key: 'k', prepaid: true }, CREDIT - 300, CREDIT, resolve);
    void store.advance(1000);
  });
  t.match(whole, { kind: 'reserved', amount: CREDIT - 300 });
});

t.test('an answer that is read from the store is charged when the store has it, whatever ends first', async (t) => {
  for (const isTaken of [true, false]) {
    for (const isLate of [true, false]) {
      const { deps, gateway, limiter, store } = await setUp(t);
      const charges = new StoredCharges();
      const exchange = new StubExchange('POST', ['authorization', 'Bearer good']);
      exchange.heldBy = charges;
      let settlement: RequestSettlement = null;
      const range = { least: 1, most: 300, leastTokens: 1, mostTokens: 301 };
      paid({ read: () => null, price: () => range, quote: () => null, run: (_, held) => void (settlement = held) })(
        exchange,
        deps,
      );
      (settlement as RequestSettlement)?.add(spendingOf(200));
      charges.storing();
      if (!isLate) charges.stored(isTaken);
      exchange.end();
      t.equal(leftOf(limiter).running, 1, 'it runs no more');
      if (isLate) charges.stored(isTaken);
      t.equal(leftOf(limiter).running, 1);
      t.same(await gateway.shutDown(), []);
      const [row] = await store.ledger.usage({ account: 'a', by: [] });
      t.equal(row?.amount ?? 0n, isTaken ? 200n : 0n, `taken: ${isTaken}, late: ${isLate}`);
      t.match(await store.ledger.account('a'), { balance: BigInt(CREDIT) - (isTaken ? 200n : 0n) });
    }
  }
});

t.test('a part of a request is one, though the limits of its key have been told anew', async (t) => {
  const { deps, limiter } = await setUp(t);
  const [exchange] = admitted(deps, null, unmeteredRange(0));
  const record = { hash: hashKey('good'), account: 'a', id: 'k', prepaid: true, allowance: ALLOWANCE };
  // As from the control thread.
  deps.keys.configure([structuredClone(record)]);
  const [part, settlement] = admitted(deps, exchange, { least: 1, most: 1, leastTokens: 1, mostTokens: 1 });
  t.not(settlement, null, 'it needs no place beside that of its request');
  t.same(leftOf(limiter), { tokens: TOKENS - 1, running: 0 });
  part.leave();
  exchange.end();
  t.same(leftOf(limiter), { tokens: TOKENS, running: 1 });
});
