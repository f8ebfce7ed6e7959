// Payments whose settlement had no clear answer: what becomes of them with and without a node of the chain, while the client waits and
// after a process has gone. Money that moved is posted; money that has not moved is never taken for a request that is over.

import t from 'tap';
import type { TestProcessor } from './payment-fixture.ts';
import type { Fault } from '../../support/facilitator.ts';
import {
  balances,
  buying,
  call,
  CALL_UNITS,
  type FixtureOptions,
  openPaymentFixture,
  type PaymentFixture,
  PICO_PER_UNIT,
  serve,
  word,
} from './payment-fixture.ts';

type Word = Extract<Fault, string>;

/** Faults of `/settle`, by whether the money has moved. */
const MOVED: readonly Word[] = ['cut', 'silent', 'error', 'garbled', 'failed'];
const NOT_MOVED: readonly Word[] = ['lost', 'rejected', 'pending'];

const PRICE = CALL_UNITS * PICO_PER_UNIT;

/** Longer than a settlement takes anywhere, by clocks that are a minute apart. */
const GRACE_MS = 151_000;

const HOUR_MS = 3_600_000;

async function creditOf({ ledger, payer }: PaymentFixture): Promise<bigint> {
  return (await ledger.account(payer.address))?.balance ?? 0n;
}

function settles({ facilitator }: PaymentFixture): number {
  return facilitator.requests.filter((path) => path === '/settle').length;
}

/** A request whose settlement meets a fault; its client is told to come back. */
async function leaveOpen(
  t: Parameters<typeof openPaymentFixture>[0],
  fault: Word,
  options: FixtureOptions,
): Promise<{ readonly fixture: PaymentFixture; readonly header: string; readonly other: TestProcessor }> {
  const fixture = await openPaymentFixture(t, { settleTimeoutMs: 200, ...options });
  const header = fixture.header(CALL_UNITS, { validS: 900 });
  const begun = await fixture.paymentProcessor.begin(call(header));
  if (begun.kind !== 'ticket') throw new Error(word(begun));
  fixture.facilitator.faults.push({ path: '/settle', fault });
  await fixture.paymentProcessor.settle(begun.ticket);
  return { fixture, header, other: await fixture.other() };
}

/** Rounds of a process, a quarter of a minute apart. */
async function rounds(fixture: PaymentFixture, processor: TestProcessor, seconds: number): Promise<void> {
  for (let passedS = 0; passedS < seconds; passedS += 15) {
    fixture.pass(15_000);
    await processor.recover();
  }
}

/** Lets the time of a processor pass until it has answered. */
async function waited<T>(processor: TestProcessor, answer: Promise<T>): Promise<T> {
  let isPending = true;
  const ended = answer.finally(() => (isPending = false));
  while (isPending) {
    processor.clock.advance(50);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return await ended;
}

for (const repeats of ['answered', 'refused'] as const) {
  t.test(`money that moved is found on the chain, where repeats are ${repeats}`, async (t) => {
    for (const fault of MOVED) {
      // The client is still there: the chain is asked at once.
      const fixture = await openPaymentFixture(t, { settleTimeoutMs: 200, rpc: true, repeats });
      fixture.facilitator.faults.push({ path: '/settle', fault });
      t.equal(await serve(fixture.paymentProcessor, call(fixture.header(CALL_UNITS))), 'served', fault);
      t.equal(settles(fixture), 1);
      t.equal(await creditOf(fixture), 0n);
      t.equal(await balances(fixture), CALL_UNITS);
    }
  });

  t.test(`money that moved for a process that has gone becomes credit, where repeats are ${repeats}`, async (t) => {
    for (const fault of MOVED) {
      const { fixture, header, other } = await leaveOpen(t, fault, { repeats });
      // Only `/verify` and the facilitator's memory are left.
      const isTold = repeats === 'answered';
      fixture.pass(GRACE_MS);
      t.match(await other.recover(), isTold ? { posted: 1, open: 0 } : { posted: 0, open: 1 }, fault);
      t.equal(await creditOf(fixture), isTold ? PRICE : 0n);
      t.equal(word(await other.begin(call(header))), isTold ? 'ticket' : 'HR_PAYMENT_PENDING');
      if (isTold) t.equal(await balances(fixture), CALL_UNITS);
    }
  });
}

t.test('a payment is asked about at once when the wall clock is set back', async (t) => {
  const { fixture, header } = await leaveOpen(t, 'cut', { repeats: 'answered' });
  const { paymentProcessor } = fixture;
  fixture.setClock(-3 * HOUR_MS);
  t.match(await paymentProcessor.recover(), { posted: 1, open: 0 });
  t.equal(word(await paymentProcessor.begin(call(header))), 'ticket');
  t.equal(await creditOf(fixture), 0n, 'held for the repeat');
  t.equal(await balances(fixture), CALL_UNITS);
});

t.test('a payment of a process that died with its clock hours ahead is asked about at once', async (t) => {
  const { fixture, other } = await leaveOpen(t, 'cut', { repeats: 'answered' });
  t.match(await other.recover(), { posted: 0, open: 1 });
  fixture.setClock(-3 * HOUR_MS);
  t.match(await other.recover(), { posted: 1, open: 0 });
  t.equal(await creditOf(fixture), PRICE);
  t.equal(await balances(fixture), CALL_UNITS);
});

t.test('money is found on the chain when the wall clock was hours ahead as it was sent', async (t) => {
  for (const fault of MOVED) {
    const fixture = await openPaymentFixture(t, { settleTimeoutMs: 200, rpc: true, repeats: 'refused' });
    const { chain, facilitator, paymentProcessor } = fixture;
    const begun = await paymentProcessor.begin(call(fixture.header(CALL_UNITS)));
    if (begun.kind !== 'ticket') throw new Error(word(begun));
    fixture.setClock(2 * HOUR_MS);
    facilitator.faults.push({ path: '/settle', fault });
    chain.faults.push({ method: 'eth_call', fault: 'error' });
    t.equal(word(await paymentProcessor.settle(begun.ticket)), 'HR_PAYMENT_PENDING', fault);
    fixture.pass(30_000);
    t.match(await paymentProcessor.recover(), { posted: 1, open: 0 });
    t.equal(await creditOf(fixture), PRICE);
    t.equal(await balances(fixture), CALL_UNITS);
  }
});

t.test('a transaction that fails, and one that is mined late, are told apart while the client waits', async (t) => {
  for (const [fault, answer] of [
    ['rejected', 'served'],
    ['pending', 'served'],
    ['lost', 'served'],
  ] as const) {
    for (const rpc of [true, false]) {
      const fixture = await openPaymentFixture(t, { rpc, settings: { repeats: 4 } });
      fixture.facilitator.faults.push({ path: '/settle', fault }, { path: '/settle', fault: 'rejected' });
      const { paymentProcessor } = fixture;
      t.equal(await waited(paymentProcessor, serve(paymentProcessor, call(fixture.header(CALL_UNITS)))), answer, fault);
      t.equal(settles(fixture), 3);
      fixture.facilitator.mine();
      t.equal(await balances(fixture), CALL_UNITS);
    }
  }
});

t.test('repeats come at once and with growing pauses, and end', async (t) => {
  const fixture = await openPaymentFixture(t, { settings: { repeats: 4 } });
  const { paymentProcessor } = fixture;
  for (let times = 0; times < 9; times++) fixture.facilitator.faults.push({ path: '/settle', fault: 'rejected' });
  const startMs = paymentProcessor.clock.now();
  const answer = await waited(paymentProcessor, paymentProcessor.purchase(buying(fixture.header(5_000_000))));
  t.match(answer, { code: 'HR_PAYMENT_PENDING', retryAfterS: 1 });
  t.equal(settles(fixture), 5);
  const elapsedMs = paymentProcessor.clock.now() - startMs;
  t.ok(elapsedMs >= 0.8 * (250 + 500 + 1000 + 2000) && elapsedMs < 5000, `${elapsedMs} ms`);
  fixture.facilitator.faults.length = 0;
  fixture.pass(1000);
  // The next round comes by itself when the payment is due.
  await waited(
    paymentProcessor,
    until(async () => (await fixture.ledger.paymentsIn('settled')).length === 1),
  );
  t.equal(await balances(fixture), 5_000_000n);
});

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setImmediate(resolve));
}

t.test('a mined transaction is found by its name, without a second order', async (t) => {
  const { fixture, header, other } = await leaveOpen(t, 'pending', { rpc: true, repeats: 'refused' });
  t.match(JSON.parse((await fixture.ledger.paymentsIn('submitted'))[0]?.request ?? ''), { transaction: /^0x/ });
  fixture.pass(GRACE_MS);
  t.match(await other.recover(), { posted: 0, closed: 0, open: 1 });
  fixture.facilitator.mine();
  t.equal(word(await other.begin(call(header))), 'HR_PAYMENT_PENDING');
  await rounds(fixture, other, 15);
  t.equal(await creditOf(fixture), PRICE);
  t.equal(settles(fixture), 1);
  t.equal(await balances(fixture), CALL_UNITS);
});

for (const rpc of [true, false]) {
  t.test(`a crash between submission and settlement takes no money, ${rpc ? 'with' : 'without'} a node`, async (t) => {
    for (const fault of NOT_MOVED) {
      const { fixture, header, other } = await leaveOpen(t, fault, { rpc });
      fixture.pass(GRACE_MS);
      await rounds(fixture, other, 720);
      t.equal((await fixture.ledger.paymentsIn('submitted')).length, 1, fault);
      t.equal(settles(fixture), 1, 'no second order as long as it could move money');
      t.equal(word(await other.begin(call(header))), 'HR_PAYMENT_PENDING');
      await rounds(fixture, other, 180);
      t.match(await fixture.ledger.paymentsIn('failed'), [{ answer: 'not_settled' }], fault);
      t.equal(word(await other.begin(call(header))), 'not_settled');
      t.same(fixture.facilitator.transfers, []);
      t.equal(await creditOf(fixture), 0n);
    }
  });
}

t.test('a purchase goes on after a crash: its money is credit all the same', async (t) => {
  for (const rpc of [true, false]) {
    const fixture = await openPaymentFixture(t, { rpc });
    fixture.facilitator.faults.push({ path: '/settle', fault: 'lost' });
    await fixture.paymentProcessor.purchase(buying(fixture.header(5_000_000)));
    const other = await fixture.other();
    fixture.pass(GRACE_MS);
    t.match(await other.recover(), { posted: 1, open: 0 });
    t.equal(await balances(fixture), 5_000_000n);
  }
});

t.test('a nonce that was cancelled, or spent elsewhere, is no money', async (t) => {
  for (const kind of ['cancelled', 'authorized'] as const) {
    const { fixture, header, other } = await leaveOpen(t, 'lost', { rpc: true });
    const [payment] = await fixture.ledger.paymentsIn('submitted');
    const operation = { kind, from: fixture.payer.address, to: `0x${'ee'.repeat(20)}`, value: CALL_UNITS };
    fixture.chain.mine(`0x${'99'.repeat(32)}`, [{ ...operation, nonce: payment?.nonce ?? '' }]);
    fixture.pass(GRACE_MS);
    t.match(await other.recover(), { posted: 0, closed: 1, open: 0 }, kind);
    t.equal(word(await other.begin(call(header))), 'invalid_exact_evm_nonce_already_used');
    t.equal(await creditOf(fixture), 0n);
    t.equal(settles(fixture), 1);
  }
});

t.test('a payer that cancels while its request runs gets nothing, and is barred for a while', async (t) => {
  const fixture = await openPaymentFixture(t, { rpc: true });
  const { chain, paymentProcessor, payer } = fixture;
  const begun = await paymentProcessor.begin(call(fixture.header(CALL_UNITS)));
  if (begun.kind !== 'ticket') throw new Error(word(begun));
  const nonce = begun.ticket.split('|').at(-1) ?? '';
  const operation = { kind: 'cancelled', from: payer.address, to: payer.address, value: 0n, nonce } as const;
  chain.mine(`0x${'88'.repeat(32)}`, [operation]);
  fixture.pass(4000);
  t.equal(word(await paymentProcessor.settle(begun.ticket)), 'invalid_exact_evm_nonce_already_used');
  t.match(await paymentProcessor.begin(call(fixture.header(CALL_UNITS))), { code: 'HR_PAYMENT_LIMIT', retryAfterS: 1 });
  paymentProcessor.clock.advance(1000);
  t.equal(await serve(paymentProcessor, call(fixture.header(CALL_UNITS))), 'served');
});

t.test('one funded wallet with many nonces gets one unpaid answer, not many', async (t) => {
  const fixture = await openPaymentFixture(t);
  const { facilitator, paymentProcessor, payer } = fixture;
  facilitator.fund(payer.address, CALL_UNITS - facilitator.balance(payer.address));
  const answers = Array.from({ length: 10 }, async () => {
    const begun = await paymentProcessor.begin(call(fixture.header(CALL_UNITS)));
    if (begun.kind !== 'ticket') return `no work: ${word(begun)}`;
    const paid = await paymentProcessor.settle(begun.ticket);
    if (paid.kind === 'paid') paymentProcessor.deliver(begun.ticket);
    return `work: ${word(paid)}`;
  });
  const words = await waited(paymentProcessor, Promise.all(answers));
  t.same(
    words.filter((one) => one.startsWith('work')),
    ['work: paid'],
  );
  t.same(new Set(words), new Set(['work: paid', 'no work: insufficient_funds']));
  t.equal(facilitator.transfers.length, 1);
});

t.test('a node that is away closes nothing', async (t) => {
  const { fixture, other } = await leaveOpen(t, 'lost', { rpc: true });
  fixture.chain.close();
  fixture.pass(GRACE_MS);
  await rounds(fixture, other, 3000);
  t.equal((await fixture.ledger.paymentsIn('submitted')).length, 1);
  t.same(fixture.facilitator.transfers, []);
});

t.test('a process that dies with money for an answer that was not delivered leaves credit', async (t) => {
  const fixture = await openPaymentFixture(t, { repeats: 'refused' });
  const header = fixture.header(CALL_UNITS);
  const begun = await fixture.paymentProcessor.begin(call(header));
  if (begun.kind !== 'ticket') throw new Error(word(begun));
  t.equal((await fixture.paymentProcessor.settle(begun.ticket)).kind, 'paid');
  const other = await fixture.other();
  t.match(await other.recover(), { posted: 0, open: 0 }, 'it has moved, and may be delivered yet');
  fixture.pass(GRACE_MS);
  t.match(await other.recover(), { posted: 1, open: 0 });
  t.equal(await creditOf(fixture), PRICE);
  t.equal(await serve(other, call(header)), 'served', 'once, from the credit');
  t.equal(await serve(other, call(header)), 'duplicate_settlement');
  // The first process was only slow: its delivery comes too late to be charged.
  await fixture.paymentProcessor.delivered(begun.ticket);
  t.equal(await creditOf(fixture), 0n);
  t.equal(await balances(fixture), CALL_UNITS);
});

for (const store of ['sqlite', 'postgres'] as const) {
  t.test(
    `${store}: work delivered by a process that stood still is charged to the credit made of its payment`,
    async (t) => {
      const fixture = await openPaymentFixture(t, { store });
      const begun = await fixture.paymentProcessor.begin(call(fixture.header(CALL_UNITS)));
      if (begun.kind !== 'ticket') throw new Error(word(begun));
      t.equal((await fixture.paymentProcessor.settle(begun.ticket)).kind, 'paid');
      fixture.pass(GRACE_MS);
      const other = await fixture.other();
      t.match(await other.recover(), { posted: 1 });
      t.equal(await creditOf(fixture), PRICE);
      await fixture.paymentProcessor.delivered(begun.ticket);
      t.equal(await creditOf(fixture), 0n, 'not work and credit for one payment');
      t.match(await fixture.ledger.usage({ by: [] }), [{ requests: 1n, amount: PRICE }]);
      await other.recover();
      t.equal(await creditOf(fixture), 0n);
      t.equal(await balances(fixture), CALL_UNITS);
    },
  );
}

t.test('a process that still serves a paid request keeps it from others whose clocks are a minute ahead', async (t) => {
  const fixture = await openPaymentFixture(t);
  const begun = await fixture.paymentProcessor.begin(call(fixture.header(CALL_UNITS)));
  if (begun.kind !== 'ticket') throw new Error(word(begun));
  t.equal((await fixture.paymentProcessor.settle(begun.ticket)).kind, 'paid');
  const other = await fixture.other();
  // It says so every 30 s.
  fixture.pass(30_000 + 60_000);
  t.match(await other.recover(), { posted: 0, open: 0 });
  await fixture.paymentProcessor.delivered(begun.ticket);
  t.equal(await creditOf(fixture), 0n, 'what was delivered is charged');
  t.equal(await balances(fixture), CALL_UNITS);
});

t.test('money of a payment that was closed while it moved becomes credit', async (t) => {
  const fixture = await openPaymentFixture(t);
  const processor = await fixture.other({}, (ledger) => {
    let submits = 0;
    return {
      ...ledger,
      submitPayment: async (id, request) => {
        // As an operator does who has not seen the transaction yet.
        if (++submits === 2) await fixture.ledger.failPayment(id, 'not_settled');
        await ledger.submitPayment(id, request);
      },
    };
  });
  const begun = await processor.begin(call(fixture.header(CALL_UNITS)));
  if (begun.kind !== 'ticket') throw new Error(word(begun));
  t.equal(word(await processor.settle(begun.ticket)), 'HR_PAYMENT_PENDING');
  await processor.recover();
  t.equal(await creditOf(fixture), PRICE);
  t.equal(await balances(fixture), CALL_UNITS);
});

t.test('a payment that is submitted at the end of its validity is not closed as one that never was', async (t) => {
  const fixture = await openPaymentFixture(t);
  const { ledger, paymentProcessor } = fixture;
  const begun = await paymentProcessor.begin(call(fixture.header(CALL_UNITS, { validS: 60 })));
  if (begun.kind !== 'ticket') throw new Error(word(begun));
  const other = await fixture.other({}, (own) => ({
    ...own,
    paymentsIn: async (state, limit) => {
      const payments = await own.paymentsIn(state, limit);
      if (state === 'reserved') await ledger.submitPayment(begun.ticket, '{}');
      return payments;
    },
  }));
  fixture.pass(60_000);
  t.match(await other.recover(), { expired: 0 });
  t.match(await ledger.findPayment(begun.ticket), { state: 'submitted' });
});

t.test('payments of other settings are not looked for on this chain', async (t) => {
  const fixture = await openPaymentFixture(t, { rpc: true });
  const { ledger } = fixture;
  const key = {
    network: 'eip155:1',
    asset: `0x${'aa'.repeat(20)}`,
    payer: fixture.payer.address,
    nonce: `0x${'01'.repeat(32)}`,
  };
  const reserved = await ledger.reservePayment({ ...key, purpose: 'call:x', amount: 1n, validUntilMs: 0 });
  if (reserved.kind !== 'reserved') throw new Error(reserved.kind);
  await ledger.submitPayment(reserved.id, JSON.stringify({ account: 'a', signature: '0x', body: '{}' }));
  fixture.pass(GRACE_MS);
  fixture.facilitator.faults.push({ path: '/settle', fault: 'rejected' });
  t.match(await fixture.paymentProcessor.recover(), { posted: 0, closed: 0, open: 1 });
  t.same(fixture.chain.requests, []);
});
