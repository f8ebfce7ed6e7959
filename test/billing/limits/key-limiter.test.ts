// Limits of one process: what is admitted, for how long it counts, and what is given back.

import t from 'tap';
import type { Budget } from '../../../src/billing/limits/budgets.ts';
import {
  type Exceeded,
  type KeyAllowance,
  KeyLimiter,
  type LimitedPayer,
  type LimitReservation,
  type NeedsSlice,
  type RequestBound,
} from '../../../src/billing/limits/key-limiter.ts';
import {
  createLimitMemory,
  type LimitCell,
  type LimitMemory,
  LimitTable,
} from '../../../src/billing/limits/limit-table.ts';

const START = Date.UTC(2026, 10, 30, 23, 58);
const CELL: LimitCell = { index: 1, generation: 1 };
const NOTHING: RequestBound = { least: 0, most: 0, leastTokens: 0, mostTokens: 0 };

const payerWith = (more: Partial<KeyAllowance>): LimitedPayer => ({
  account: 'acme',
  lineage: 'key-1',
  allowance: {
    cell: CELL,
    runningRequests: undefined,
    requestsPerMinute: undefined,
    tokensPerMinute: undefined,
    ...more,
  },
});

const budget = (more: Partial<Budget> = {}): Budget => ({
  id: 'b',
  account: 'acme',
  key: null,
  model: null,
  period: 'month',
  limit: 1000,
  soft: null,
  cell: CELL,
  ...more,
});

const tokens = (most: number, least: number = most): RequestBound => ({
  ...NOTHING,
  leastTokens: least,
  mostTokens: most,
});
const money = (most: number, least: number = most): RequestBound => ({ ...NOTHING, least, most });

function memory(threads = 2): LimitMemory {
  return createLimitMemory(threads, 4);
}

/** The reservation; fails the test when there is none. */
function reserved(admitted: LimitReservation | Exceeded | NeedsSlice): LimitReservation {
  if (admitted.kind !== 'reserved') throw new Error(`refused: ${admitted.kind}`);
  return admitted;
}

t.test('requests count over all threads in every minute, wherever it begins', async (t) => {
  const shared = memory();
  const threads = [new KeyLimiter(shared, 0), new KeyLimiter(shared, 1)] as const;
  const payer = payerWith({ requestsPerMinute: 3 });
  const admit = (thread: 0 | 1, nowMs: number) => threads[thread].admit(payer, 'm', NOTHING, nowMs);
  reserved(admit(0, START));
  reserved(admit(1, START + 30_000));
  reserved(admit(0, START + 59_999));
  // The minute of the clock is another one: the window slides.
  t.match(admit(1, START + 60_001), { kind: 'requests', limit: 3, remainingRequests: 0, retryMs: 1999 });
  reserved(admit(1, START + 62_000));
  t.match(admit(1, START + 62_000), { kind: 'requests', retryMs: 30_000 });
  t.match(admit(1, START + 91_999), { kind: 'requests', retryMs: 1 });
  reserved(admit(1, START + 92_000));
});

t.test('a refused request is not counted, by no limit', async (t) => {
  const limiter = new KeyLimiter(memory(), 0);
  const payer = payerWith({ requestsPerMinute: 5, tokensPerMinute: 100, runningRequests: 9 });
  reserved(limiter.admit(payer, 'm', tokens(80), START));
  for (let times = 0; times < 20; times++) t.match(limiter.admit(payer, 'm', tokens(30), START), { kind: 'tokens' });
  const last = reserved(limiter.admit(payer, 'm', tokens(20), START));
  t.match(last, { remainingRequests: 3, remainingTokens: 0 });
});

t.test('a request that a budget refuses is not counted by the limits of its key', async (t) => {
  const shared = memory();
  const limiter = new KeyLimiter(shared, 0);
  const payer = payerWith({ requestsPerMinute: 2, tokensPerMinute: 100, runningRequests: 1 });
  limiter.updateBudgets({ reset: true, put: [budget({ limit: 10 })], drop: [] });
  const bound = { ...tokens(60), ...{ least: 20, most: 20 } };
  for (let times = 0; times < 5; times++) t.match(limiter.admit(payer, 'm', bound, START), { kind: 'spent' });
  const cheap = { ...bound, ...{ least: 5, most: 5 } };
  const first = reserved(limiter.admit(payer, 'm', cheap, START));
  t.match(first, { remainingRequests: 1, remainingTokens: 40 });
  limiter.settle(first, payer, 'm', 60, 0, START);
  // Other gateways have the rest of the budget: the request waits, and is admitted anew.
  new LimitTable(shared, 1).closeBudget(CELL);
  const next = { ...tokens(40), ...{ least: 5, most: 5 } };
  t.match(limiter.admit(payer, 'm', next, START), { kind: 'slice' });
  t.match(reserved(limiter.admit(payer, 'm', next, START, 'whole')), { remainingRequests: 0, remainingTokens: 0 });
});

t.test('requests under way are limited, and their end makes place', async (t) => {
  const shared = memory();
  const limiter = new KeyLimiter(shared, 0);
  const other = new KeyLimiter(shared, 1);
  const payer = payerWith({ runningRequests: 2 });
  const first = reserved(limiter.admit(payer, 'm', NOTHING, START));
  reserved(other.admit(payer, 'm', NOTHING, START));
  t.match(limiter.admit(payer, 'm', NOTHING, START + 600_000), { kind: 'running', limit: 2 });
  limiter.settle(first, payer, 'm', 0, 0, START + 600_000);
  reserved(other.admit(payer, 'm', NOTHING, START + 600_000));
  t.match(limiter.admit(payer, 'm', NOTHING, START + 600_000), { kind: 'running', limit: 2 });
});

t.test(
  'a part of a request that is counted takes tokens, and neither a place nor a request of the minute',
  async (t) => {
    const limiter = new KeyLimiter(memory(), 0);
    const payer = payerWith({ runningRequests: 2, requestsPerMinute: 2, tokensPerMinute: 100 });
    const unbounded = { runningRequests: undefined, requestsPerMinute: undefined, isPart: true };
    const part = { ...payer, allowance: { ...payer.allowance, ...unbounded } } as typeof payer;
    const whole = reserved(limiter.admit(payer, 'm', NOTHING, START));
    const parts = [1, 2, 3].map(() => reserved(limiter.admit(part, 'm', tokens(30), START)));
    t.match(limiter.admit(part, 'm', tokens(30), START), { kind: 'tokens' });
    for (const each of parts) limiter.settle(each, part, 'm', 10, 0, START);
    reserved(limiter.admit(payer, 'm', tokens(70), START));
    limiter.settle(whole, payer, 'm', 0, 0, START);
    t.match(limiter.admit(payer, 'm', NOTHING, START), { kind: 'requests' });
  },
);

t.test('tokens are reserved at admission and settled with the truth', async (t) => {
  const limiter = new KeyLimiter(memory(), 0);
  const payer = payerWith({ tokensPerMinute: 100 });
  const first = reserved(limiter.admit(payer, 'm', tokens(70), START));
  t.equal(first.tokens, 70);
  t.match(limiter.admit(payer, 'm', tokens(40), START), { kind: 'tokens', limit: 100, remainingTokens: 30 });
  limiter.settle(first, payer, 'm', 15, 0, START + 1000);
  t.match(reserved(limiter.admit(payer, 'm', tokens(85), START + 1000)), { tokens: 85, remainingTokens: 0 });
});

t.test('a request whose bound exceeds the limit gets what is left, if that is half of the limit', async (t) => {
  const limiter = new KeyLimiter(memory(), 0);
  const payer = payerWith({ tokensPerMinute: 100 });
  const first = reserved(limiter.admit(payer, 'm', tokens(5000, 10), START));
  t.equal(first.tokens, 100);
  t.match(limiter.admit(payer, 'm', tokens(5000, 10), START), { kind: 'tokens' });
  limiter.settle(first, payer, 'm', 40, 0, START);
  const second = reserved(limiter.admit(payer, 'm', tokens(5000, 10), START));
  t.equal(second.tokens, 60);
  limiter.settle(second, payer, 'm', 60, 0, START);
  t.match(limiter.admit(payer, 'm', tokens(5000, 10), START + 10_000), { kind: 'tokens', retryMs: 52_000 });
  t.match(limiter.admit(payer, 'm', tokens(5000, 101), START), { kind: 'size', limit: 100 });
});

t.test('a settlement after the request has left the window changes nothing', async (t) => {
  const limiter = new KeyLimiter(memory(), 0);
  const payer = payerWith({ tokensPerMinute: 100 });
  const old = reserved(limiter.admit(payer, 'm', tokens(90), START));
  const late = START + 64_000;
  reserved(limiter.admit(payer, 'm', tokens(100), late));
  limiter.settle(old, payer, 'm', 90, 0, late);
  t.match(limiter.admit(payer, 'm', tokens(1), late), { kind: 'tokens' });
});

t.test('a clock that is set back by an hour begins the minute anew, for all threads', async (t) => {
  const shared = memory();
  const [limiter, other] = [new KeyLimiter(shared, 0), new KeyLimiter(shared, 1)];
  const payer = payerWith({ requestsPerMinute: 4, tokensPerMinute: 100 });
  const under = reserved(limiter.admit(payer, 'm', tokens(50), START));
  for (let count = 0; count < 3; count++) reserved(other.admit(payer, 'm', tokens(1), START));
  t.match(other.admit(payer, 'm', tokens(1), START), { kind: 'requests' });
  const earlier = START - 3_600_000;
  for (let count = 0; count < 2; count++) {
    for (const each of [other, limiter]) reserved(each.admit(payer, 'm', tokens(25), earlier));
  }
  limiter.settle(under, payer, 'm', 10, 0, earlier);
  t.match(
    limiter.stateOf(payer, earlier),
    [{ remaining: 0 }, { remaining: 0 }],
    'a request from before is in no bucket',
  );
  for (const each of [limiter, other]) {
    t.match(each.admit(payer, 'm', tokens(1), earlier), { kind: 'requests', retryMs: 62_000 });
  }
  for (const each of [limiter, other]) reserved(each.admit(payer, 'm', tokens(25), earlier + 62_000));
});

t.test('a clock that is set back by less than a minute never admits more than the limit', async (t) => {
  const shared = memory();
  const [limiter, other] = [new KeyLimiter(shared, 0), new KeyLimiter(shared, 1)];
  const payer = payerWith({ requestsPerMinute: 4 });
  const earlier = START - 58_000;
  for (const [each, nowMs] of [
    [limiter, START],
    [limiter, earlier],
    [other, earlier],
    [other, earlier],
  ] as const) {
    reserved(each.admit(payer, 'm', NOTHING, nowMs));
  }
  for (const each of [limiter, other]) t.match(each.admit(payer, 'm', NOTHING, earlier), { kind: 'requests' });
});

t.test('what is spent while the clock is a month ahead does not count when that month comes', async (t) => {
  const limiter = new KeyLimiter(memory(), 0);
  limiter.updateBudgets({ reset: true, put: [budget()], drop: [] });
  const payer: LimitedPayer = { account: 'acme', lineage: null, allowance: null };
  const spend = (amount: number, nowMs: number): void => {
    limiter.settle(reserved(limiter.admit(payer, 'm', money(amount), nowMs)), payer, 'm', 0, amount, nowMs);
  };
  const december = START + 120_000;
  spend(100, START);
  spend(100, december);
  spend(900, START + 1000);
  t.equal(reserved(limiter.admit(payer, 'm', money(1000), december)).amount, 1000);
});

t.test('a budget is reserved, settled with the truth, and begins anew with the period', async (t) => {
  const shared = memory();
  const limiter = new KeyLimiter(shared, 0);
  const other = new KeyLimiter(shared, 1);
  for (const each of [limiter, other]) each.updateBudgets({ reset: true, put: [budget()], drop: [] });
  const payer: LimitedPayer = { account: 'acme', lineage: null, allowance: null };
  const first = reserved(limiter.admit(payer, 'm', money(600), START));
  t.equal(first.amount, 600);
  t.match(other.admit(payer, 'm', money(600), START), { kind: 'held', endsMs: Date.UTC(2026, 11, 1) });
  limiter.settle(first, payer, 'm', 0, 300, START);
  const second = reserved(other.admit(payer, 'm', money(600), START));
  other.settle(second, payer, 'm', 0, 600, START);
  t.equal(reserved(other.admit(payer, 'm', money(600, 50), START)).amount, 100, 'what is left, as it covers the least');
  t.match(limiter.admit(payer, 'm', money(600, 101), START), { kind: 'spent' });
  t.match(limiter.admit(payer, 'm', money(600, 100), START), { kind: 'held' });
  // The request of the last month is under way still: what it holds counts.
  const december = START + 120_000;
  t.match(limiter.admit(payer, 'm', money(950), december), { kind: 'held' });
  t.equal(reserved(limiter.admit(payer, 'm', money(900), december)).amount, 900);
});

t.test('80 concurrent requests never exceed a budget, and those that cost nothing give all back', async (t) => {
  const limiter = new KeyLimiter(memory(), 0);
  limiter.updateBudgets({ reset: true, put: [budget({ limit: 10_000 })], drop: [] });
  const payer = payerWith({ tokensPerMinute: 1000 });
  const bound: RequestBound = { least: 100, most: 900, leastTokens: 10, mostTokens: 50 };
  const admitted = Array.from({ length: 80 }, () => limiter.admit(payer, 'm', bound, START));
  const good = admitted.filter((each) => each.kind === 'reserved');
  t.equal(good.length, 11);
  t.ok(admitted.every(({ kind }) => kind === 'reserved' || kind === 'held'));
  for (const each of good) limiter.settle(reserved(each), payer, 'm', 0, 0, START);
  t.equal(reserved(limiter.admit(payer, 'm', { ...bound, most: 10_000 }, START)).amount, 10_000);
});

t.test(
  'all budgets that apply are reserved, the least of them decides, and a refusal gives the others back',
  async (t) => {
    const limiter = new KeyLimiter(memory(), 0);
    const cell = (index: number): LimitCell => ({ index, generation: 1 });
    limiter.updateBudgets({
      reset: true,
      put: [
        budget({ id: 'account', cell: cell(0) }),
        budget({ id: 'model', account: null, model: 'm', limit: 700, period: 'day', cell: cell(1) }),
        budget({ id: 'key', key: 'key-1', model: 'm', limit: 500, period: 'week', cell: cell(2) }),
        budget({ id: 'other', account: 'other', limit: 1, cell: cell(3) }),
      ],
      drop: [],
    });
    const payer: LimitedPayer = { account: 'acme', lineage: 'key-1', allowance: null };
    t.equal(limiter.budgetsOf(payer, 'm').length, 3);
    t.equal(limiter.budgetsOf(payer, 'n').length, 1);
    t.equal(reserved(limiter.admit(payer, 'm', money(600, 400), START)).amount, 500);
    t.match(limiter.admit(payer, 'm', money(200, 10), START), { kind: 'held', budget: { id: 'key' } });
    const other: LimitedPayer = { account: 'third', lineage: 'key-3', allowance: null };
    t.match(limiter.admit(other, 'm', money(300, 10), START), { kind: 'held', budget: { id: 'model' } });
    t.equal(reserved(limiter.admit(other, 'm', money(200), START)).amount, 200);
    t.equal(reserved(limiter.admit(payer, 'n', money(500), START)).amount, 500, 'the rest of the account is free');
    limiter.updateBudgets({ reset: false, put: [], drop: ['account', 'model', 'key'] });
    t.equal(reserved(limiter.admit(payer, 'm', money(9e9), START)).amount, Infinity);
  },
);

t.test('a key or budget without a cell is refused, and so never without its limit', async (t) => {
  const limiter = new KeyLimiter(memory(), 0);
  t.same(limiter.admit(payerWith({ cell: null, requestsPerMinute: 5 }), 'm', NOTHING, START), { kind: 'capacity' });
  limiter.updateBudgets({ reset: true, put: [budget({ cell: null })], drop: [] });
  const payer = payerWith({ runningRequests: 1 });
  t.same(limiter.admit(payer, 'm', money(1), START), { kind: 'capacity' });
  reserved(limiter.admit(payer, 'm', NOTHING, START));
});

t.test('the next key in a cell begins with nothing, whatever the one before leaves behind', async (t) => {
  const shared = memory();
  const limiter = new KeyLimiter(shared, 0);
  const payer = payerWith({ runningRequests: 1, tokensPerMinute: 100, requestsPerMinute: 2 });
  limiter.updateBudgets({ reset: true, put: [budget()], drop: [] });
  const bound = { ...tokens(100), ...{ least: 900, most: 900 } };
  const old = reserved(limiter.admit(payer, 'm', bound, START));
  const next = payerWith({ ...payer.allowance, cell: { index: 1, generation: 2 } });
  limiter.updateBudgets({ reset: true, put: [budget({ cell: { index: 1, generation: 2 } })], drop: [] });
  const first = reserved(limiter.admit(next, 'm', bound, START));
  limiter.settle(old, payer, 'm', 100, 0, START);
  t.match(limiter.admit(next, 'm', bound, START), { kind: 'running' });
  limiter.settle(first, next, 'm', 0, 0, START);
  reserved(limiter.admit(next, 'm', bound, START));
});

t.test(
  'a request that has waited until its cell was given to another key takes nothing off what that one has',
  async (t) => {
    const limiter = new KeyLimiter(memory(), 0);
    const limits = { runningRequests: 1, requestsPerMinute: 1, tokensPerMinute: 100 };
    const before = payerWith(limits);
    const next = payerWith({ ...limits, cell: { index: 1, generation: 2 } });
    const first = reserved(limiter.admit(next, 'm', tokens(60), START));
    const late = reserved(limiter.admit(before, 'm', tokens(300, 10), START, 'whole'));
    t.equal(late.tokens, 100, 'it still gets no more than its own limit');
    t.match(limiter.admit(next, 'm', tokens(60), START), { kind: 'running' });
    limiter.settle(late, before, 'm', 80, 0, START);
    t.match(limiter.admit(next, 'm', tokens(60), START), { kind: 'running' });
    limiter.settle(first, next, 'm', 60, 0, START);
    t.match(limiter.admit(next, 'm', tokens(10), START), { kind: 'requests' });
  },
);
