import { createServer } from 'node:http';
import t from 'tap';
import { decodePayment } from '../../../src/billing/payments/signed-payment.ts';
import { Facilitator } from '../../../src/billing/payments/facilitator.ts';
import { facilitatorBody } from '../../../src/billing/payments/offer.ts';
import { createManualClock, systemClock } from '../../../src/actor/clock.ts';
import { TestFacilitator } from '../../support/facilitator.ts';
import { headerV1, Payer } from '../../support/payer.ts';
import { RESOURCE, START_S, MERCHANT, wanted } from './payment-fixture.ts';

interface Opened {
  readonly served: TestFacilitator;
  readonly client: Facilitator;
  readonly body: string;
}

async function open(t: { teardown: (done: () => void) => void }): Promise<Opened> {
  const served = await new TestFacilitator({ nowS: () => START_S }).listen();
  const client = new Facilitator({ url: `${served.url}/`, settleTimeoutMs: 300, verifyTimeoutMs: 300 }, systemClock);
  t.teardown(() => {
    client.close();
    served.close();
  });
  const payer = new Payer(3n);
  served.fund(payer.address, 100n);
  const terms = { units: 60n, resource: RESOURCE, description: 'd', timeoutS: 300 };
  const header = headerV1(payer, wanted(60), { nonce: 1, nowS: START_S });
  return { served, client, body: facilitatorBody(decodePayment(header), MERCHANT, terms) };
}

t.test('a good payment is valid and settles', async (t) => {
  const { body, client, served } = await open(t);
  t.same(await client.verify(body), { kind: 'valid' });
  t.match(await client.settle(body), { kind: 'settled', transaction: /^0x/ });
  t.equal(served.transfers.length, 1);
});

t.test('verify is asked twice at most', async (t) => {
  const { body, client, served } = await open(t);
  served.faults.push({ path: '/verify', fault: 'error' });
  t.same(await client.verify(body), { kind: 'valid' });
  t.equal(served.requests.length, 2);
  for (const fault of ['garbled', 'error', 'silent', 'error'] as const) served.faults.push({ path: '/verify', fault });
  t.same(await client.verify(body), { kind: 'unavailable' });
  t.same(await client.verify(body), { kind: 'unavailable' });
  t.equal(served.requests.length, 6);
});

t.test('settle is never sent again once it was sent', async (t) => {
  for (const fault of ['lost', 'cut', 'silent', 'error', 'garbled'] as const) {
    const { body, client, served } = await open(t);
    served.faults.push({ path: '/settle', fault });
    t.same(await client.settle(body), { kind: 'unknown', transaction: null }, fault);
    t.same(served.requests, ['/settle'], fault);
  }
});

t.test('a kept connection that dies under settle does not make it two', async (t) => {
  const { body, client, served } = await open(t);
  await client.verify(body);
  await client.settle(body);
  served.faults.push({ path: '/settle', fault: 'cut' });
  t.same(await client.settle(body), { kind: 'unknown', transaction: null });
  t.same(served.requests, ['/verify', '/settle', '/settle']);
});

t.test('nothing was sent to a facilitator that cannot be reached', async (t) => {
  const { body, client, served } = await open(t);
  served.close();
  t.same(await client.settle(body), { kind: 'unsent' });
  t.same(await client.verify(body), { kind: 'unavailable' });
});

t.test('only reasons found before the chain was asked are certain', async (t) => {
  const { body, client, served } = await open(t);
  served.fund(new Payer(3n).address, -50n);
  t.same(await client.settle(body), { kind: 'refused', reason: 'insufficient_funds' });
  t.same(await client.verify(body), { kind: 'invalid', reason: 'insufficient_funds', nonce: 'unknown' });
  const says = async (errorReason: unknown, more: object = {}, status = 200): Promise<string> => {
    const text = JSON.stringify({ ...(errorReason !== null && { success: false, errorReason }), ...more });
    const server = createServer((_, response) => response.writeHead(status).end(text));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const answer = await new Facilitator({ url: `http://127.0.0.1:${port}` }, systemClock).settle(body);
    server.closeAllConnections();
    server.close();
    return answer.kind === 'refused' ? answer.reason : answer.kind;
  };
  t.equal(await says('invalid_exact_evm_payload_signature'), 'invalid_exact_evm_payload_signature');
  t.equal(await says('insufficient_funds', {}, 400), 'insufficient_funds', 'whatever the status');
  t.equal(await says('insufficient_funds', { transaction: '0x1' }), 'unknown', 'not beside a transaction');
  for (const status of [401, 403, 429]) t.equal(await says(null, {}, status), 'unsent', 'declined before it was read');
  for (const status of [200, 400, 404, 500, 503]) t.equal(await says(null, {}, status), 'unknown', `${status}`);
  for (const open of [
    'invalid_transaction_state',
    'unexpected_settle_error',
    'duplicate_settlement',
    'invalid_exact_evm_nonce_already_used',
    'invalid_exact_evm_transaction_failed',
    'invalid_exact_evm_transaction_simulation_failed',
    'invalid_exact_evm_transfer_event_mismatch',
    'settlement_pending',
    'fetch failed',
    'new words\r\nx: y',
    7,
    undefined,
  ]) {
    t.equal(await says(open), 'unknown', `${open}`);
  }
});

t.test('requests time out by the given clock', async (t) => {
  const { body, served } = await open(t);
  const clock = createManualClock();
  const client = new Facilitator({ url: served.url, settleTimeoutMs: 7000 }, clock);
  const held = Promise.withResolvers<void>();
  served.faults.push({ path: '/settle', fault: held.promise });
  const answer = client.settle(body);
  t.equal(clock.nextDueMs, 7000);
  clock.advance(7000);
  t.same(await answer, { kind: 'unknown', transaction: null });
  held.resolve();
});
