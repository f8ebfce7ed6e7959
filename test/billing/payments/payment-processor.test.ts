import t from 'tap';
import type { Payment } from '../../../src/billing/ledger/ledger.ts';
import { decidePayment, submissionOf } from '../../../src/billing/payments/settlement.ts';
import type { PurchaseAnswer, PurchaseRequest } from '../../../src/billing/payments/payment-commands.ts';
import { headerV1, encodeHeader, SEPOLIA_USDC, signedPayload } from '../../support/payer.ts';
import {
  ACCOUNT,
  balances,
  BUYER,
  buying,
  call,
  CALL_UNITS,
  failing,
  FUNDS,
  openPaymentFixture,
  PAY_TO,
  PICO_PER_UNIT,
  RESOURCE,
  serve,
  type PaymentFixture,
  START_S,
  wanted,
  word,
} from './payment-fixture.ts';

async function creditOf({ ledger }: PaymentFixture, account = ACCOUNT): Promise<bigint> {
  return (await ledger.account(account))?.balance ?? 0n;
}

t.test('a purchase without a payment is offered, in both versions', async (t) => {
  const { paymentProcessor } = await openPaymentFixture(t);
  const answer = await paymentProcessor.purchase(buying(undefined));
  if (answer.kind !== 'offer') throw new Error(answer.kind);
  const { document, headers, reason } = answer.offer;
  t.equal(reason, 'payment_required');
  t.match(document, {
    x402Version: 1,
    error: 'X-PAYMENT header is required',
    accepts: [
      {
        scheme: 'exact',
        network: 'base-sepolia',
        maxAmountRequired: '5000000',
        resource: RESOURCE,
        description: `5000000 credits for ${ACCOUNT}`,
        mimeType: 'application/json',
        payTo: PAY_TO,
        asset: SEPOLIA_USDC.address,
        maxTimeoutSeconds: 300,
        extra: { name: 'USDC', version: '2' },
      },
    ],
  });
  t.equal(headers[0], 'payment-required');
  t.match(JSON.parse(Buffer.from(headers[1] ?? '', 'base64').toString()), {
    x402Version: 2,
    resource: { url: RESOURCE },
    accepts: [{ scheme: 'exact', network: 'eip155:84532', amount: '5000000', payTo: PAY_TO }],
  });
});

t.test('a paid purchase is credit, and its repeats get the same answer', async (t) => {
  const fixture = await openPaymentFixture(t);
  const header = fixture.header(5_000_000);
  const answer = await fixture.paymentProcessor.purchase(buying(header));
  if (answer.kind !== 'sold') throw new Error(word(answer));
  t.same(answer.body, {
    status: 'success',
    credits_transferred: 5_000_000,
    recipient: BUYER,
    item_hash: fixture.facilitator.transfers[0]?.transaction,
  });
  t.same(
    answer.headers.filter((_, at) => at % 2 === 0),
    ['x-payment-response', 'payment-response'],
  );
  const receipts = answer.headers.filter((_, at) => at % 2 === 1);
  t.match(JSON.parse(Buffer.from(receipts[0] ?? '', 'base64').toString()), {
    success: true,
    network: 'base-sepolia',
    payer: fixture.payer.address,
  });
  t.match(JSON.parse(Buffer.from(receipts[1] ?? '', 'base64').toString()), { network: 'eip155:84532' });
  fixture.pass(400_000);
  t.same(await fixture.paymentProcessor.purchase(buying(header)), answer, 'also when its signature is too old');
  t.same(await (await fixture.other()).purchase(buying(header, { address: ACCOUNT })), answer, 'also elsewhere');
  t.equal(await creditOf(fixture), 5_000_000n * PICO_PER_UNIT);
  t.equal(fixture.facilitator.requests.filter((path) => path === '/settle').length, 1);
  t.equal(word(await fixture.paymentProcessor.purchase(buying(header, { address: PAY_TO }))), 'duplicate_settlement');
  t.ok((await balances(fixture)) > 0n);
});

t.test('a payment of version 2 buys as well, and one above the price buys more', async (t) => {
  const fixture = await openPaymentFixture(t);
  const payload = signedPayload(fixture.payer, wanted(5_000_000), { nonce: 77, nowS: START_S });
  const accepted = {
    scheme: 'exact',
    network: 'eip155:84532',
    amount: '5000000',
    asset: SEPOLIA_USDC.address,
    payTo: PAY_TO,
    maxTimeoutSeconds: 300,
    extra: { name: 'USDC', version: '2' },
  };
  const v2 = encodeHeader({ x402Version: 2, accepted, payload });
  t.match(await fixture.paymentProcessor.purchase(buying(v2)), { kind: 'sold' });
  const more = await fixture.paymentProcessor.purchase(buying(fixture.header(5_000_001)));
  t.match(more, { kind: 'sold', body: { credits_transferred: 5_000_001 } });
  t.equal(await balances(fixture), 10_000_001n);
});

t.test('a payment above the largest purchase buys nothing, whatever amount is asked for', async (t) => {
  const fixture = await openPaymentFixture(t);
  const { paymentProcessor } = fixture;
  t.equal(word(await paymentProcessor.purchase(buying(fixture.header(1_000_000_001)))), 'HR_PAYMENT_AMOUNT');
  t.equal(await balances(fixture), 0n);
  const most = fixture.header(1_000_000_000);
  for (let time = 0; time < 2; time++) t.equal(word(await paymentProcessor.purchase(buying(most))), 'sold');
  const less = await fixture.other({ maxPurchase: 10n * 1_000_000n * PICO_PER_UNIT });
  t.equal(word(await less.purchase(buying(most))), 'sold', 'a repeat gets the answer of before');
  t.equal(await balances(fixture), 1_000_000_000n);
  const little = await fixture.other({ maxPurchase: 500_000n * PICO_PER_UNIT });
  const subject = 'an amount is above 0 and at most 0.50 USD';
  t.match(await little.purchase(buying(undefined)), { code: 'HR_PAYMENT_AMOUNT', subject });
});

t.test('invalid amounts and addresses are refused', async (t) => {
  const { paymentProcessor, ledger } = await openPaymentFixture(t, { store: 'postgres' });
  const tried = async (more: Partial<PurchaseRequest>): Promise<string> =>
    word(await paymentProcessor.purchase(buying(undefined, more)));
  for (const amount of [0, -1, NaN, Infinity, 1000.000001, 1e-7, 1e300]) {
    t.equal(await tried({ amount }), 'HR_PAYMENT_AMOUNT', `${amount}`);
  }
  for (const amount of [1000, 0.000001, 0.1 + 0.2]) t.equal(await tried({ amount }), 'payment_required', `${amount}`);
  for (const address of ['', 'nobody', '0x12', BUYER.replace('5a', '5A'), 'x'.repeat(300), 'a\0']) {
    t.equal(await tried({ address }), 'HR_PAYMENT_ADDRESS', address.slice(0, 50));
  }
  await ledger.createAccount({ id: 'demo' });
  for (const address of ['demo', BUYER, ACCOUNT]) t.equal(await tried({ address }), 'payment_required', address);
});

t.test('a signature that is valid for ever pays like another', async (t) => {
  const fixture = await openPaymentFixture(t);
  for (const validBefore of [1n << 40n, (1n << 256n) - 1n]) {
    const header = fixture.header(5_000_000, { authorization: { validBefore: `${validBefore}` } });
    t.equal(word(await fixture.paymentProcessor.purchase(buying(header))), 'sold');
  }
  t.equal(await balances(fixture), 10_000_000n);
});

t.test('an invalid payment is refused with a reason and costs nothing', async (t) => {
  const fixture = await openPaymentFixture(t);
  const tried = async (header: string): Promise<string> =>
    word(await fixture.paymentProcessor.purchase(buying(header)));
  t.equal(await tried('nonsense!'), 'HR_PAYMENT_MALFORMED');
  t.equal(await tried(fixture.header(4_999_999)), 'invalid_exact_evm_payload_authorization_value');
  t.equal(
    await tried(fixture.header(5_000_000, { validS: 3 })),
    'invalid_exact_evm_payload_authorization_valid_before',
  );
  t.equal(
    await tried(fixture.header(5_000_000, { authorization: { to: BUYER } })),
    'invalid_exact_evm_payload_recipient_mismatch',
  );
  fixture.facilitator.fund(fixture.payer.address, -FUNDS);
  const header = fixture.header(5_000_000);
  t.equal(await tried(header), 'insufficient_funds');
  fixture.facilitator.fund(fixture.payer.address, FUNDS);
  t.equal(await tried(header), 'sold', 'the same payment is good once there is money');
  t.equal(await balances(fixture), 5_000_000n);
});

t.test('one payment presented concurrently buys once', async (t) => {
  const fixture = await openPaymentFixture(t);
  const other = await fixture.other();
  const header = fixture.header(5_000_000);
  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, at) => (at % 2 ? other : fixture.paymentProcessor).purchase(buying(header))),
  );
  const words = new Set(answers.map(word));
  t.ok(words.has('sold'));
  words.delete('sold');
  words.delete('HR_PAYMENT_PENDING');
  t.equal(words.size, 0, 'nobody is invited to pay again');
  t.equal(await balances(fixture), 5_000_000n);
  t.equal(await creditOf(fixture), 5_000_000n * PICO_PER_UNIT);
});

t.test('when the outcome is lost, the same payment finds it', async (t) => {
  for (const fault of ['cut', 'silent', 'error', 'garbled', 'lost'] as const) {
    const fixture = await openPaymentFixture(t, { settleTimeoutMs: 200 });
    const header = fixture.header(5_000_000);
    fixture.facilitator.faults.push({ path: '/settle', fault });
    t.equal(word(await fixture.paymentProcessor.purchase(buying(header))), 'HR_PAYMENT_PENDING', fault);
    t.equal(word(await fixture.paymentProcessor.purchase(buying(header))), 'HR_PAYMENT_PENDING', 'asked a moment ago');
    fixture.pass(1000);
    t.equal(word(await fixture.paymentProcessor.purchase(buying(header))), 'sold', fault);
    t.equal(await balances(fixture), 5_000_000n);
    t.equal(fixture.facilitator.requests.filter((path) => path === '/settle').length, 2);
  }
});

t.test('a recovery round posts what was lost, also in another process', async (t) => {
  const fixture = await openPaymentFixture(t);
  fixture.facilitator.faults.push({ path: '/settle', fault: 'cut' }, { path: '/settle', fault: 'cut' });
  await Promise.all([1, 2].map(() => fixture.paymentProcessor.purchase(buying(fixture.header(5_000_000)))));
  const other = await fixture.other();
  t.match(await other.recover(), { posted: 0, open: 2, openSinceMs: START_S * 1000 }, 'not while it may be under way');
  fixture.pass(151_000);
  const rounds = await Promise.all([other.recover(), fixture.paymentProcessor.recover()]);
  t.equal(
    rounds.some(({ posted }) => posted > 0),
    true,
  );
  t.equal(await creditOf(fixture), 10_000_000n * PICO_PER_UNIT);
  t.equal(await balances(fixture), 10_000_000n);
});

t.test('a refusal after a lost answer settles nothing: the payment stays open', async (t) => {
  const fixture = await openPaymentFixture(t, { repeats: 'refused' });
  const header = fixture.header(5_000_000);
  fixture.facilitator.faults.push({ path: '/settle', fault: 'cut' });
  await fixture.paymentProcessor.purchase(buying(header));
  fixture.pass(1000);
  t.match(await fixture.paymentProcessor.recover(), { posted: 0, open: 1, expired: 0 });
  const asked = fixture.facilitator.requests.length;
  t.match(await fixture.paymentProcessor.recover(), { posted: 0, open: 1, expired: 0 });
  t.equal(fixture.facilitator.requests.length, asked, 'not asked without pause');
  const pending = await fixture.paymentProcessor.purchase(buying(header));
  t.match(pending, { code: 'HR_PAYMENT_PENDING', retryAfterS: 2 });
  const [payment] = (await fixture.ledger.paymentsIn('submitted')) as [Payment];
  const { transaction = '' } = fixture.facilitator.transfers[0] ?? {};
  t.equal(await decidePayment(fixture.ledger, payment, { transaction }), true, 'its operator looked at the chain');
  t.equal(await decidePayment(fixture.ledger, payment, { transaction: null }), false, 'once');
  t.match(await fixture.paymentProcessor.purchase(buying(header)), { kind: 'sold', body: { item_hash: transaction } });
  t.equal(await balances(fixture), 5_000_000n);
});

t.test('an open payment that never moved is given up by its operator', async (t) => {
  const fixture = await openPaymentFixture(t, { repeats: 'refused' });
  const header = fixture.header(5_000_000);
  fixture.facilitator.faults.push({ path: '/settle', fault: 'lost' });
  await fixture.paymentProcessor.purchase(buying(header));
  const [payment] = (await fixture.ledger.paymentsIn('submitted')) as [Payment];
  t.equal(await decidePayment(fixture.ledger, payment, { transaction: null }), true);
  t.equal(word(await fixture.paymentProcessor.purchase(buying(header))), 'not_settled');
  t.equal(await balances(fixture), 0n);
});

t.test('a purchase that broke off before anything was submitted goes on with its repeat', async (t) => {
  const fixture = await openPaymentFixture(t);
  const heal = failing(fixture.ledger, 'submitPayment', new Error('the process died here'));
  const header = fixture.header(5_000_000);
  t.equal(word(await fixture.paymentProcessor.purchase(buying(header))), 'HR_PAYMENT_PENDING');
  t.match(fixture.paymentProcessor.defects, [{ message: 'the process died here' }]);
  heal();
  t.equal(
    word(await fixture.paymentProcessor.purchase(buying(header))),
    'HR_PAYMENT_PENDING',
    'it may be under way elsewhere',
  );
  fixture.pass(151_000);
  const other = await fixture.other();
  const words = (await Promise.all([fixture.paymentProcessor, other].map((one) => one.purchase(buying(header))))).map(
    word,
  );
  t.ok(words.includes('sold'));
  t.match(
    words.filter((one) => one !== 'sold' && one !== 'HR_PAYMENT_PENDING'),
    [],
  );
  t.equal(word(await other.purchase(buying(header))), 'sold');
  t.equal(await balances(fixture), 5_000_000n);
});

t.test('a facilitator that is away costs nothing', async (t) => {
  const fixture = await openPaymentFixture(t);
  fixture.facilitator.faults.push({ path: '/verify', fault: 'error' }, { path: '/verify', fault: 'garbled' });
  const header = fixture.header(5_000_000);
  t.equal(word(await fixture.paymentProcessor.purchase(buying(header))), 'HR_PAYMENT_UNAVAILABLE');
  t.equal(word(await fixture.paymentProcessor.purchase(buying(header))), 'sold');
  const ticket = await fixture.paymentProcessor.begin(call(fixture.header(CALL_UNITS)));
  fixture.facilitator.close();
  t.equal(word(await fixture.paymentProcessor.settle((ticket as { ticket: string }).ticket)), 'HR_PAYMENT_UNAVAILABLE');
  t.equal(await balances(fixture), 5_000_000n);
  t.same(await fixture.ledger.paymentsIn('submitted'), []);
});

t.test('money that could not be posted is posted with the next round', async (t) => {
  const fixture = await openPaymentFixture(t);
  const heal = failing(fixture.ledger, 'settlePayment', new Error('the database is away'));
  const header = fixture.header(5_000_000);
  t.equal(word(await fixture.paymentProcessor.purchase(buying(header))), 'HR_PAYMENT_PENDING');
  t.match(await fixture.paymentProcessor.recover(), { posted: 0, open: 1 });
  heal();
  t.match(await fixture.paymentProcessor.recover(), { posted: 1, open: 0 });
  t.equal(word(await fixture.paymentProcessor.purchase(buying(header))), 'sold');
  t.equal(fixture.facilitator.requests.filter((path) => path === '/settle').length, 1);
  t.equal(await balances(fixture), 5_000_000n);
});

t.test('a request is paid when it settles and only then', async (t) => {
  const fixture = await openPaymentFixture(t);
  t.match(await fixture.paymentProcessor.begin(call(undefined)), {
    offer: { document: { accepts: [{ maxAmountRequired: '20000' }] } },
  });
  const header = fixture.header(CALL_UNITS);
  const begun = await fixture.paymentProcessor.begin(call(header));
  if (begun.kind !== 'ticket') throw new Error(word(begun));
  t.equal(fixture.facilitator.transfers.length, 0);
  t.equal(word(await fixture.paymentProcessor.begin(call(header))), 'duplicate_settlement', 'while it runs');
  const [paid, again] = await Promise.all([
    fixture.paymentProcessor.settle(begun.ticket),
    fixture.paymentProcessor.settle(begun.ticket),
  ]);
  t.match(paid, { kind: 'paid', headers: ['x-payment-response'] });
  t.match(again, { kind: 'refused', code: 'HR_PAYMENT_PENDING' }, 'a ticket settles once');
  t.equal(word(await fixture.paymentProcessor.begin(call(header))), 'HR_PAYMENT_PENDING', 'while it is delivered');
  await fixture.paymentProcessor.delivered(begun.ticket);
  const [payment] = await fixture.ledger.paymentsIn('settled');
  t.match(submissionOf(payment as Payment), { sentMs: START_S * 1000, moved: true });
  const repeat = await fixture.paymentProcessor.begin(call(header));
  t.equal(word(repeat), 'duplicate_settlement');
  t.match(repeat, { offer: { headers: ['payment-required', /./, 'x-payment-response', /./] } }, 'with its receipt');
  t.equal(await balances(fixture), CALL_UNITS);
  const [row] = await fixture.ledger.usage({ by: ['model'] });
  t.match(row, { model: 'm', requests: 1n, estimated: 1n, amount: CALL_UNITS * PICO_PER_UNIT });
  t.equal(await creditOf(fixture, fixture.payer.address), 0n);
});

t.test('a request costs its price: what its payment brings above it becomes credit', async (t) => {
  const fixture = await openPaymentFixture(t);
  const { ledger, payer, paymentProcessor } = fixture;
  const price = CALL_UNITS * PICO_PER_UNIT;
  t.equal(await serve(paymentProcessor, call(fixture.header(5n * CALL_UNITS))), 'served');
  t.equal(await creditOf(fixture, payer.address), 4n * price);
  const header = fixture.header(3n * CALL_UNITS);
  const begun = await paymentProcessor.begin(call(header));
  if (begun.kind !== 'ticket') throw new Error(word(begun));
  await paymentProcessor.settle(begun.ticket);
  await paymentProcessor.cancelled(begun.ticket);
  t.equal(await creditOf(fixture, payer.address), 7n * price, 'nothing was delivered');
  t.equal(await serve(paymentProcessor, call(header)), 'served', 'from that credit');
  t.equal(await creditOf(fixture, payer.address), 6n * price);
  const [row] = await ledger.usage({ by: ['model'] });
  t.match(row, { requests: 2n, amount: 2n * price });
  t.equal(await balances(fixture), 8n * CALL_UNITS);
});

t.test('a request that failed costs nothing, and its payment is used up', async (t) => {
  const fixture = await openPaymentFixture(t);
  const header = fixture.header(CALL_UNITS);
  const begun = await fixture.paymentProcessor.begin(call(header));
  if (begun.kind !== 'ticket') throw new Error(word(begun));
  await fixture.paymentProcessor.cancelled(begun.ticket);
  await fixture.paymentProcessor.cancelled(begun.ticket);
  t.equal(word(await fixture.paymentProcessor.settle(begun.ticket)), 'HR_PAYMENT_PENDING');
  t.equal(word(await fixture.paymentProcessor.begin(call(header))), 'duplicate_settlement');
  t.equal(await balances(fixture), 0n);
});

t.test('funds that went away before settlement are refused then', async (t) => {
  const fixture = await openPaymentFixture(t);
  const begun = await fixture.paymentProcessor.begin(call(fixture.header(CALL_UNITS)));
  fixture.facilitator.fund(fixture.payer.address, -FUNDS);
  t.equal(word(await fixture.paymentProcessor.settle((begun as { ticket: string }).ticket)), 'insufficient_funds');
  fixture.facilitator.fund(fixture.payer.address, FUNDS);
  t.equal(await balances(fixture), 0n);
});

t.test('a payment that settled late serves its request once', async (t) => {
  const fixture = await openPaymentFixture(t);
  const header = fixture.header(CALL_UNITS);
  const begun = await fixture.paymentProcessor.begin(call(header));
  if (begun.kind !== 'ticket') throw new Error(word(begun));
  fixture.facilitator.faults.push({ path: '/settle', fault: 'cut' });
  t.equal(word(await fixture.paymentProcessor.settle(begun.ticket)), 'HR_PAYMENT_PENDING');
  t.equal(word(await fixture.paymentProcessor.begin(call(header))), 'HR_PAYMENT_PENDING');
  fixture.pass(151_000);
  await fixture.paymentProcessor.recover();
  t.equal(await creditOf(fixture, fixture.payer.address), CALL_UNITS * PICO_PER_UNIT);
  t.equal(word(await fixture.paymentProcessor.begin(call(header, { digest: 'other' }))), 'duplicate_settlement');
  const again = await Promise.all([1, 2, 3].map(() => fixture.paymentProcessor.begin(call(header))));
  t.same(again.map(word).sort(), ['duplicate_settlement', 'duplicate_settlement', 'ticket']);
  const [served] = again.flatMap((each) => (each.kind === 'ticket' ? [each.ticket] : []));
  t.match(await fixture.paymentProcessor.settle(served ?? ''), { kind: 'paid', headers: ['x-payment-response'] });
  await fixture.paymentProcessor.delivered(served ?? '');
  t.equal(word(await fixture.paymentProcessor.begin(call(header))), 'duplicate_settlement');
  t.equal(await creditOf(fixture, fixture.payer.address), 0n);
  t.equal(await balances(fixture), CALL_UNITS);
});

t.test('an abandoned reservation expires with its signature', async (t) => {
  const fixture = await openPaymentFixture(t);
  const begun = await fixture.paymentProcessor.begin(call(fixture.header(CALL_UNITS, { validS: 100 })));
  fixture.pass(99_000);
  t.match(await fixture.paymentProcessor.recover(), { expired: 0 });
  fixture.pass(2000);
  t.match(await fixture.paymentProcessor.recover(), { expired: 1 });
  const late = await fixture.paymentProcessor.settle((begun as { ticket: string }).ticket);
  t.equal(word(late), 'invalid_exact_evm_payload_authorization_valid_before');
  t.equal(await balances(fixture), 0n);
});

t.test('a request presented concurrently is served once', async (t) => {
  const fixture = await openPaymentFixture(t);
  const other = await fixture.other();
  const header = fixture.header(CALL_UNITS);
  const served = await Promise.all(
    Array.from({ length: 30 }, async (_, at) => {
      const paymentProcessor = at % 2 ? other : fixture.paymentProcessor;
      return await serve(paymentProcessor, call(header));
    }),
  );
  t.equal(served.filter((kind) => kind === 'served').length, 1);
  t.equal(await balances(fixture), CALL_UNITS);
});

t.test('the facilitator checks contract wallets, and a copied payment is refused', async (t) => {
  const fixture = await openPaymentFixture(t);
  const { authorization, signature } = signedPayload(fixture.payer, wanted(CALL_UNITS), { nonce: 5, nowS: START_S });
  const v1 = { x402Version: 1, scheme: 'exact', network: 'base-sepolia' };
  const forged = encodeHeader({ ...v1, payload: { authorization, signature: `${signature}00` } });
  t.equal(word(await fixture.paymentProcessor.begin(call(forged))), 'invalid_exact_evm_payload_signature');
  const header = headerV1(fixture.payer, wanted(5_000_000), { nonce: 6, nowS: START_S });
  const sold: PurchaseAnswer = await fixture.paymentProcessor.purchase(buying(header));
  t.equal(word(sold), 'sold');
  const order = signedPayload(fixture.payer, wanted(5_000_000), { nonce: 6, nowS: START_S });
  const copied = encodeHeader({ ...v1, payload: { ...order, signature: `${order.signature}00` } });
  t.equal(word(await fixture.paymentProcessor.purchase(buying(copied))), 'duplicate_settlement');
});

t.test('what was paid and not delivered becomes credit and serves the same request once', async (t) => {
  const fixture = await openPaymentFixture(t);
  const { paymentProcessor, ledger, payer } = fixture;
  const header = fixture.header(CALL_UNITS);
  const paid = async (): Promise<string> => {
    const begun = await paymentProcessor.begin(call(header));
    if (begun.kind !== 'ticket') return word(begun);
    t.equal((await paymentProcessor.settle(begun.ticket)).kind, 'paid');
    return begun.ticket;
  };
  const balance = async (): Promise<bigint | undefined> => (await ledger.account(payer.address))?.balance;
  const first = await paid();
  await paymentProcessor.cancelled(first);
  await paymentProcessor.cancelled(first);
  const price = CALL_UNITS * PICO_PER_UNIT;
  t.equal(await balance(), price, 'given back once');
  t.equal(word(await paymentProcessor.begin(call(header, { digest: 'another' }))), 'duplicate_settlement');
  for (let vain = 0; vain < 3; vain++) {
    const ticket = await paid();
    t.equal(await balance(), 0n, 'held while it is tried');
    t.equal(await paid(), 'duplicate_settlement');
    await paymentProcessor.cancelled(ticket);
    t.equal(await balance(), price, 'a try that came to nothing costs nothing');
  }
  await paymentProcessor.delivered(await paid());
  t.equal(await balance(), 0n);
  t.equal(await paid(), 'duplicate_settlement', 'what was delivered is not served twice');
  t.equal(fixture.facilitator.transfers.length, 1);
  t.equal(await balances(fixture), CALL_UNITS);
});

t.test('a request is tried a hundred times from the credit of its payment, which stays credit then', async (t) => {
  const fixture = await openPaymentFixture(t);
  const { ledger, payer, paymentProcessor } = fixture;
  const header = fixture.header(CALL_UNITS);
  let finds = 0;
  const findHold = ledger.findHold.bind(ledger);
  Object.assign(ledger, { findHold: (id: string) => (finds++, findHold(id)) });
  const tried = async (): Promise<string> => {
    const begun = await paymentProcessor.begin(call(header));
    if (begun.kind !== 'ticket') return word(begun);
    await paymentProcessor.settle(begun.ticket);
    await paymentProcessor.cancelled(begun.ticket);
    return 'given up';
  };
  for (let time = 0; time < 101; time++) t.equal(await tried(), 'given up');
  finds = 0;
  t.equal(await tried(), 'duplicate_settlement');
  t.ok(finds <= 100);
  t.equal(await creditOf(fixture, payer.address), CALL_UNITS * PICO_PER_UNIT);
});

t.test('credit of a payment that was spent otherwise does not serve its request', async (t) => {
  const fixture = await openPaymentFixture(t);
  const { paymentProcessor, ledger, payer } = fixture;
  const header = fixture.header(CALL_UNITS);
  const begun = await paymentProcessor.begin(call(header));
  if (begun.kind !== 'ticket') throw new Error(word(begun));
  await paymentProcessor.settle(begun.ticket);
  await paymentProcessor.cancelled(begun.ticket);
  const hold = { id: 'another', account: payer.address, amount: 1n, holder: 'test', ttlMs: 60_000 };
  await ledger.hold(hold);
  t.equal(word(await paymentProcessor.begin(call(header))), 'duplicate_settlement');
});

t.test('only a paid request that came to nothing becomes credit', async (t) => {
  const fixture = await openPaymentFixture(t);
  const { paymentProcessor, ledger, payer } = fixture;
  await paymentProcessor.cancelled('nothing');
  const reserved = await paymentProcessor.begin(call(fixture.header(CALL_UNITS)));
  if (reserved.kind === 'ticket') await paymentProcessor.cancelled(reserved.ticket);
  await paymentProcessor.purchase(buying(fixture.header(5_000_000)));
  const [bought] = await ledger.paymentsIn('settled');
  await paymentProcessor.cancelled(bought?.id ?? '');
  t.equal(await ledger.account(payer.address), undefined);
});
