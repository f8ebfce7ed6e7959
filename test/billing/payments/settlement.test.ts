// Recovery of payments that stay open: when the facilitator is asked about them, and when rounds come.

import t from 'tap';
import { createManualClock } from '../../../src/actor/clock.ts';
import { createTestSystem } from '../../../src/actor/testkit.ts';
import { paymentProcessor } from '../../../src/billing/payments/payment-processor.ts';
import { type RecoveryRound, type SettlementDeps, Settlements } from '../../../src/billing/payments/settlement.ts';
import { buying, CALL_UNITS, failing, openPaymentFixture, type PaymentFixture, MERCHANT } from './payment-fixture.ts';
import { START_MS } from '../ledger/stores.ts';

type Settle = SettlementDeps['facilitator']['settle'];

function depsOf(fixture: PaymentFixture, settle: Settle, now: () => number) {
  const verify = () => Promise.resolve({ kind: 'unavailable' } as const);
  const facilitator = { settle, verify };
  return { ledger: fixture.ledger, facilitator, chain: null, merchant: MERCHANT, dateMs: () => START_MS + now() };
}

function open(fixture: PaymentFixture, settle: Settle) {
  const clock = createManualClock();
  return {
    clock,
    settlements: new Settlements({
      ...depsOf(fixture, settle, () => clock.now()),
      clock,
      random: () => 0,
      settings: { graceMs: 0 },
    }),
  };
}

/** A processor whose rounds are told one by one. */
function startRounds(t: { teardown(run: () => unknown): unknown }, fixture: PaymentFixture) {
  const { clock, settle, system } = createTestSystem();
  const told: (RecoveryRound | Error)[] = [];
  let wake: () => void = () => undefined;
  const tell = (round: RecoveryRound | Error): void => {
    told.push(round);
    wake();
  };
  const processor = paymentProcessor({
    ...depsOf(
      fixture,
      () => Promise.resolve({ kind: 'unknown', transaction: null }),
      () => clock.now(),
    ),
    onDefect: (error) => tell(error as Error),
    onRound: tell,
  });
  const ref = system.spawn(processor);
  t.teardown(() => system.terminate());
  ref.tell({ type: 'Recover', replyTo: null });
  return {
    clock,
    told,
    /** The round with this number, counted from 1; the next one is scheduled. */
    round: async (count: number) => {
      while (told.length < count) await new Promise<void>((resolve) => (wake = resolve));
      await settle();
      return told[count - 1];
    },
    drained: () =>
      new Promise<null>((resolve) => ref.tell({ type: 'Drain', replyTo: system.spawn<null>(() => resolve) })),
  };
}

async function leaveOpen(fixture: PaymentFixture): Promise<void> {
  fixture.facilitator.faults.push({ path: '/settle', fault: 'lost' });
  await fixture.paymentProcessor.purchase(buying(fixture.header(CALL_UNITS), { amount: Number(CALL_UNITS) / 1e6 }));
}

t.test('rounds come at once and then regularly, until the processor is drained', async (t) => {
  const { clock, drained, round, told } = startRounds(t, await openPaymentFixture(t));
  for (const count of [1, 2, 3]) {
    t.same(await round(count), { posted: 0, closed: 0, open: 0, expired: 0, openSinceMs: null });
    t.equal(told.length, count);
    clock.advance(15_000);
  }
  await round(4);
  await drained();
  clock.advance(15_000);
  await drained();
  t.equal(told.length, 4);
});

t.test('a round that fails is told and the next one comes', async (t) => {
  const fixture = await openPaymentFixture(t);
  const heal = failing(fixture.ledger, 'paymentsIn', new Error('away'));
  const { clock, round } = startRounds(t, fixture);
  t.match(await round(1), { message: 'away' });
  heal();
  clock.advance(15_000);
  t.match(await round(2), { open: 0 });
});

t.test('an open payment is asked about with growing pauses, and seldom after its end', async (t) => {
  const fixture = await openPaymentFixture(t);
  await leaveOpen(fixture);
  const askedMs: number[] = [];
  const { clock, settlements } = open(fixture, () => {
    askedMs.push(clock.now());
    return Promise.resolve({ kind: 'unknown', transaction: null });
  });
  for (let round = 0; round < 1000; round++) {
    t.equal((await settlements.recover()).open, 1);
    clock.advance(15_000);
  }
  t.same(askedMs.slice(0, 8), [0, 15_000, 30_000, 45_000, 60_000, 90_000, 135_000, 195_000], 'at least 15 s: rounds');
  const last = askedMs.slice(-2) as [number, number];
  t.equal(last[1] - last[0], 3_600_000, 'an hour after the end of its validity it is asked about every hour');
});

t.test('one round runs at a time', async (t) => {
  const fixture = await openPaymentFixture(t);
  await leaveOpen(fixture);
  let asked = 0;
  const { settlements } = open(fixture, () => {
    asked++;
    return Promise.resolve({ kind: 'unknown', transaction: null });
  });
  await Promise.all([settlements.recover(), settlements.recover(), settlements.recover()]);
  t.equal(asked, 1);
});

t.test('payments that stay open never hide those behind them, and a round ends soon', async (t) => {
  const fixture = await openPaymentFixture(t);
  const paymentsIn = fixture.ledger.paymentsIn.bind(fixture.ledger);
  const limits: (number | undefined)[] = [];
  Object.assign(fixture.ledger, {
    paymentsIn: (state: 'submitted', limit?: number) => {
      if (state === 'submitted') limits.push(limit);
      return paymentsIn(state, limit);
    },
  });
  for (let count = 0; count < 70; count++) await leaveOpen(fixture);
  let [asked, atOnce, most] = [0, 0, 0];
  const { settlements } = open(fixture, async () => {
    asked++;
    most = Math.max(most, ++atOnce);
    await new Promise((resolve) => setImmediate(resolve));
    atOnce--;
    return { kind: 'unknown', transaction: null };
  });
  await settlements.recover();
  t.equal(asked, 64);
  t.equal(most, 8);
  await settlements.recover();
  t.equal(asked, 70, 'the rest has its turn in the next round');
  t.same(new Set(limits), new Set([1000, 1064]));
});
