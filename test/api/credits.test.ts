// Credits and payments as endpoints show them: statuses, bodies and headers.

import t from 'tap';
import { credits, type CreditsDeps } from '../../src/api/credits.ts';
import { resourceOf, respondUnpaid } from '../../src/api/payment.ts';
import { systemClock } from '../../src/actor/clock.ts';
import { BodyBudget } from '../../src/ingress/body.ts';
import type { Exchange } from '../../src/ingress/exchange.ts';
import { inject, type InjectRequest, type InjectResponse } from '../../src/ingress/inject.ts';
import { BUYER, failing, openPaymentFixture, type PaymentFixture } from '../billing/payments/payment-fixture.ts';
import { StubExchange } from '../ingress/stub-exchange.ts';

function worldOf(fixture: PaymentFixture | null): CreditsDeps {
  const settings = { publicScheme: 'https', limits: { jsonDepth: 256 } } as CreditsDeps['settings'];
  return { settings, paymentProcessor: fixture?.paymentProcessor ?? null };
}

function ask(deps: CreditsDeps, body: unknown, headers: InjectRequest['headers'] = {}): Promise<InjectResponse> {
  const options = {
    handler: (exchange: Exchange) => credits(exchange, deps),
    clock: systemClock,
    limits: { maxBodyBytes: 1e6, bodyIdleMs: 1e4 },
    budget: new BodyBudget(1e6),
  };
  return inject(options, { path: '/svc/credits', body, headers: { host: 'gate.test', ...headers } });
}

const ORDER = { address: BUYER, amount: 5 };

t.test('an unpaid purchase is 402 with both versions of the offer', async (t) => {
  const fixture = await openPaymentFixture(t);
  const answer = await ask(worldOf(fixture), ORDER);
  t.equal(answer.status, 402);
  t.match(answer.json(), {
    detail: 'Payment required: X-PAYMENT header is required',
    x402Version: 1,
    error: 'X-PAYMENT header is required',
    accepts: [{ maxAmountRequired: '5000000', resource: 'https://gate.test/svc/credits' }],
  });
  t.equal(answer.headers['x-headrace-error'], 'HR_PAYMENT_REQUIRED');
  const offer = JSON.parse(Buffer.from(answer.headers['payment-required'] ?? '', 'base64').toString()) as object;
  t.match(offer, { x402Version: 2, accepts: [{ amount: '5000000' }] });
});

t.test('either header pays, and the answer has exactly the members of the interface', async (t) => {
  const fixture = await openPaymentFixture(t);
  for (const name of ['X-PAYMENT', 'PAYMENT-SIGNATURE']) {
    const answer = await ask(worldOf(fixture), ORDER, { [name]: fixture.header(5_000_000) });
    t.equal(answer.status, 200);
    t.same(answer.json(), {
      status: 'success',
      credits_transferred: 5_000_000,
      recipient: BUYER,
      item_hash: fixture.facilitator.transfers.at(-1)?.transaction,
    });
    t.ok(answer.headers['x-payment-response'] && answer.headers['payment-response']);
  }
  t.equal(fixture.facilitator.transfers.length, 2);
});

t.test('mistakes have their status', async (t) => {
  const fixture = await openPaymentFixture(t);
  const deps = worldOf(fixture);
  t.equal((await ask(deps, { address: BUYER })).status, 422);
  t.equal((await ask(deps, { ...ORDER, amount: 'much' })).status, 422);
  t.equal((await ask(deps, { ...ORDER, amount: 0 })).status, 400);
  t.equal((await ask(deps, { ...ORDER, amount: 1001 })).status, 400);
  t.equal((await ask(deps, { ...ORDER, address: 'nobody' })).status, 400);
  t.equal((await ask(deps, ORDER, { 'x-payment': '!' })).status, 400);
  t.match((await ask(deps, ORDER, { 'x-payment': '!' })).json(), { detail: /^Malformed payment: / });
  const wrong = await ask(deps, ORDER, { 'x-payment': fixture.header(1) });
  t.equal(wrong.status, 402);
  t.match(wrong.json(), { error: 'invalid_exact_evm_payload_authorization_value', accepts: [{}] });
  fixture.facilitator.faults.push({ path: '/settle', fault: 'cut' });
  const lost = await ask(deps, ORDER, { 'x-payment': fixture.header(5_000_000) });
  t.equal(lost.status, 503);
  t.ok(lost.headers['retry-after']);
  t.equal((await ask(worldOf(null), ORDER)).status, 503);
  failing(fixture.ledger, 'findPayment', new Error('secret'));
  const broken = await ask(deps, ORDER, { 'x-payment': fixture.header(5_000_000) });
  t.equal(broken.status, 503, 'money may have moved');
  t.equal(broken.headers['x-headrace-error'], 'HR_PAYMENT_PENDING');
  t.notMatch(broken.text(), /secret/);
});

t.test('a refusal of the payment processor is an error of the table', async (t) => {
  const exchange = new StubExchange('POST');
  respondUnpaid(
    exchange,
    { errorBodies: 'contract' },
    { kind: 'refused', code: 'HR_PAYMENT_MALFORMED', subject: 'not JSON' },
  );
  t.equal(exchange.status, 400);
  t.equal(exchange.body, '{"detail":"Malformed payment: not JSON"}');
  t.equal(resourceOf(new StubExchange('POST', ['host', 'a:1']), 'http'), 'http://a:1/');
});
