// Payments as a gateway has them: off, on, waiting for the ledger, and ended with nothing left half done.

import t from 'tap';
import { ask, createSystem, systemClock } from '../../../src/actor/index.ts';
import { resolveSettings } from '../../../src/config/load.ts';
import type { Settings } from '../../../src/config/settings.ts';
import { PaymentClient } from '../../../src/billing/payments/payment-client.ts';
import type { PaymentCommand } from '../../../src/billing/payments/payment-commands.ts';
import { startPayments } from '../../../src/billing/payments/payment-service.ts';
import type { Log } from '../../../src/telemetry/log.ts';
import { START_MS } from '../ledger/stores.ts';
import {
  balances,
  buying,
  call,
  CALL_UNITS,
  openPaymentFixture,
  PAY_TO,
  type PaymentFixture,
} from './payment-fixture.ts';

function paymentsOf(input: object): Settings['payments'] {
  const resolved = resolveSettings({ payments: input });
  if ('mistakes' in resolved) throw new Error(resolved.mistakes[0]?.message);
  return resolved.settings.payments;
}

function options(fixture: PaymentFixture, input: object) {
  const system = createSystem({ name: 'gateway' });
  const lines: string[] = [];
  const write = (_fields: object, text: string): void => void lines.push(text);
  const log = { error: write, warn: write, info: write } as unknown as Log;
  const rest = { clock: systemClock, dateMs: () => START_MS, log };
  return { system, ledger: fixture.ledger, settings: paymentsOf(input), lines, ...rest };
}

t.test('without a facilitator there are no payments', async (t) => {
  const fixture = await openPaymentFixture(t);
  const parts = options(fixture, {});
  t.equal(startPayments(parts), null);
  await parts.system.terminate();
});

t.test('a token without a name is refused', async (t) => {
  const fixture = await openPaymentFixture(t);
  const parts = options(fixture, { facilitator: fixture.facilitator.url, payTo: PAY_TO, asset: PAY_TO });
  t.throws(() => startPayments(parts), /needs a name/);
  await parts.system.terminate();
});

t.test('commands wait until the ledger is open, and closing waits for money under way', async (t) => {
  const fixture = await openPaymentFixture(t);
  const opening = Promise.withResolvers<PaymentFixture['ledger']>();
  const input = {
    facilitator: `${fixture.facilitator.url}/`,
    payTo: PAY_TO,
    network: 'eip155:84532',
    maxPurchase: '6',
  };
  const { lines, ...parts } = options(fixture, input);
  const service = startPayments({ ...parts, ledger: opening.promise });
  if (service === null) throw new Error('payments are on');
  const client = new PaymentClient(parts.system, service.ref, 'thread-0');
  const bought = client.purchase(buying(fixture.header(5_000_000)));
  opening.resolve(fixture.ledger);
  t.equal((await bought).kind, 'sold');
  t.match(await client.purchase(buying(undefined, { amount: 7 })), { code: 'HR_PAYMENT_AMOUNT' });
  const begun = await client.begin(call(fixture.header(CALL_UNITS)));
  if (begun.kind !== 'ticket') throw new Error(begun.kind);
  const gate = Promise.withResolvers<void>();
  fixture.facilitator.faults.push({ path: '/settle', fault: gate.promise });
  const settled = client.settle(begun.ticket);
  let closed = false;
  const end = service.close().then(() => (closed = true));
  while (!fixture.facilitator.requests.slice(2).includes('/settle'))
    await new Promise((resolve) => setImmediate(resolve));
  t.equal(closed, false);
  gate.resolve();
  t.equal((await settled).kind, 'paid');
  client.deliver(begun.ticket);
  await end;
  await ask<PaymentCommand, null>(service.ref, (replyTo) => ({ type: 'Drain', replyTo }), { timeoutMs: 60_000 });
  t.equal(await balances(fixture), 5_000_000n + CALL_UNITS);
  t.same(lines, []);
  await parts.system.terminate();
});

t.test('a ledger that does not open sells nothing', async (t) => {
  const fixture = await openPaymentFixture(t);
  const { lines, ...parts } = options(fixture, { facilitator: fixture.facilitator.url, payTo: PAY_TO });
  const service = startPayments({ ...parts, ledger: Promise.reject(new Error('away')) });
  if (service === null) throw new Error('payments are on');
  const client = new PaymentClient(parts.system, service.ref, 'thread-0');
  t.match(await client.begin(call(undefined)), { code: 'HR_PAYMENT_UNAVAILABLE' });
  await service.close();
  t.equal(lines.length, 1);
  await parts.system.terminate();
});
