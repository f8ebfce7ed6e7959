import t from 'tap';
import { Recovery, type Round } from '../../../src/billing/payments/recovery.ts';
import { Settlements } from '../../../src/billing/payments/settlement.ts';
import { createManualClock } from '../../../src/actor/clock.ts';
import { buying, CALL_UNITS, failing, openPaymentFixture, type PaymentFixture, MERCHANT } from './payment-fixture.ts';
import { START_MS } from '../ledger/stores.ts';

/** A recovery on a manual clock, and a promise of each next round. */
function open(fixture: PaymentFixture, settle: () => Promise<{ kind: 'unknown' }>): Opened {
  const clock = createManualClock();
  const facilitator = { settle, verify: () => Promise.reject(new Error('never asked')) };
  const parts = { ledger: fixture.ledger, facilitator, merchant: MERCHANT, dateMs: () => START_MS + clock.now() };
  const recovery = new Recovery(new Settlements(parts), { graceMs: 0, periodMs: 15_000 }, clock);
  const waiting: ((round: Round | Error) => void)[] = [];
  const next = (): Promise<Round | Error> => new Promise((resolve) => void waiting.push(resolve));
  return { clock, recovery, next, tell: (round) => waiting.shift()?.(round) };
}

interface Opened {
  readonly clock: ReturnType<typeof createManualClock>;
  readonly recovery: Recovery;
  readonly next: () => Promise<Round | Error>;
  readonly tell: (round: Round | Error) => void;
}

async function leaveOpen(fixture: PaymentFixture): Promise<void> {
  fixture.facilitator.faults.push({ path: '/settle', fault: 'lost' });
  await fixture.paymentProcessor.purchase(buying(fixture.header(CALL_UNITS), { amount: Number(CALL_UNITS) / 1e6 }));
}

t.test('rounds come at once and then regularly, until they are stopped', async (t) => {
  const fixture = await openPaymentFixture(t);
  const { clock, next, recovery, tell } = open(fixture, () => Promise.resolve({ kind: 'unknown' }));
  const rounds: (Round | Error)[] = [];
  recovery.start((round) => {
    rounds.push(round);
    tell(round);
  });
  for (const step of [0, 15_000, 15_000]) {
    const round = next();
    clock.advance(step);
    t.same(await round, { booked: 0, open: 0, expired: 0 });
    await Promise.resolve();
  }
  await recovery.stop();
  t.equal(clock.nextDueMs, Infinity);
  t.equal(rounds.length, 3);
});

t.test('a round that fails says so and the next one comes', async (t) => {
  const fixture = await openPaymentFixture(t);
  const { clock, next, recovery, tell } = open(fixture, () => Promise.resolve({ kind: 'unknown' }));
  const heal = failing(fixture.ledger, 'paymentsIn', new Error('away'));
  recovery.start(tell);
  const failed = next();
  clock.advance(0);
  t.match(await failed, { message: 'away' });
  heal();
  const round = next();
  clock.advance(15_000);
  t.match(await round, { open: 0 });
  await recovery.stop();
});

t.test('an open payment is asked about with growing pauses, and given up long after its end', async (t) => {
  const fixture = await openPaymentFixture(t);
  await leaveOpen(fixture);
  const askedMs: number[] = [];
  const { clock, recovery } = open(fixture, () => {
    askedMs.push(clock.now());
    return Promise.resolve({ kind: 'unknown' });
  });
  for (let round = 0; round < 1000; round++) {
    t.equal((await recovery.round()).open, 1);
    clock.advance(15_000);
  }
  t.same(askedMs, [0, 30_000, 90_000, 210_000, 450_000, 930_000, 1_890_000, 3_810_000]);
});

t.test('one round runs at a time', async (t) => {
  const fixture = await openPaymentFixture(t);
  await leaveOpen(fixture);
  let asked = 0;
  const { recovery } = open(fixture, () => {
    asked++;
    return Promise.resolve({ kind: 'unknown' });
  });
  await Promise.all([recovery.round(), recovery.round(), recovery.round()]);
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
  const { recovery } = open(fixture, async () => {
    asked++;
    most = Math.max(most, ++atOnce);
    await new Promise((resolve) => setImmediate(resolve));
    atOnce--;
    return { kind: 'unknown' };
  });
  await recovery.round();
  t.equal(asked, 64);
  t.equal(most, 8);
  await recovery.round();
  t.equal(asked, 70, 'the rest has its turn in the next round');
  t.same(new Set(limits), new Set([1000, 1064]));
});
