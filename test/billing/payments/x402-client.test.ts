// The official x402 client against the payment processor over HTTP: version 2, and version 1 when it sees nothing of version 2.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ExactEvmScheme } from '@x402/evm';
import { ExactEvmSchemeV1 } from '@x402/evm/v1';
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from '@x402/fetch';
import t from 'tap';
import { privateKeyToAccount } from 'viem/accounts';
import type { PurchaseAnswer, SettleAnswer } from '../../../src/billing/payments/payment-commands.ts';
import { systemClock } from '../../../src/actor/clock.ts';
import {
  balances,
  BUYER,
  call,
  CALL_UNITS,
  FUNDS,
  openPaymentFixture,
  type PaymentFixture,
  type TestProcessor,
} from './payment-fixture.ts';
import { START_MS } from '../ledger/stores.ts';

const account = privateKeyToAccount('0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80');

type Answer = PurchaseAnswer | SettleAnswer;

async function work(paymentProcessor: TestProcessor, request: IncomingMessage): Promise<Answer> {
  const header = request.headers['payment-signature'] ?? request.headers['x-payment'];
  const payment = Array.isArray(header) ? header[0] : header;
  const resource = `http://${request.headers.host}${request.url}`;
  if (request.url === '/svc/credits') {
    return await paymentProcessor.purchase({ address: BUYER, amount: 0.05, resource, payment });
  }
  const begun = await paymentProcessor.begin(call(payment, { resource }));
  if (begun.kind !== 'ticket') return begun;
  const paid = await paymentProcessor.settle(begun.ticket);
  await paymentProcessor.delivered(begun.ticket);
  return paid;
}

function send(response: ServerResponse, answer: Answer): void {
  if (answer.kind === 'refused') {
    response.writeHead(500).end(answer.code);
  } else if (answer.kind === 'offer') {
    const { document, headers } = answer.offer;
    response.writeHead(402, headers as string[]).end(JSON.stringify({ detail: 'Payment required', ...document }));
  } else {
    response.writeHead(200, answer.headers as string[]);
    response.end(JSON.stringify(answer.kind === 'sold' ? answer.body : { answer: 'words' }));
  }
}

async function open(t: Parameters<typeof openPaymentFixture>[0]): Promise<PaymentFixture & { base: string }> {
  const fixture = await openPaymentFixture(t);
  // The client signs for the present date.
  fixture.pass(Math.floor(systemClock.now()) - START_MS);
  fixture.facilitator.fund(account.address, FUNDS);
  fixture.facilitator.fund(fixture.payer.address, -FUNDS);
  const server = createServer((request, response) => {
    void work(fixture.paymentProcessor, request).then((answer) => send(response, answer));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => void server.close());
  return { ...fixture, payer: { address: account.address } as PaymentFixture['payer'], base: baseOf(server.address()) };
}

function baseOf(address: AddressInfo | string | null): string {
  return `http://127.0.0.1:${(address as AddressInfo).port}`;
}

/** A connection on which version 2 cannot be seen. */
const plain: typeof globalThis.fetch = async (input, init) => {
  // oxlint-disable-next-line no-restricted-globals -- what the client under test uses
  const response = await fetch(input, init);
  const headers = new Headers(response.headers);
  headers.delete('payment-required');
  return new Response(response.body, { status: response.status, headers });
};

const CLIENTS = {
  // oxlint-disable-next-line no-restricted-globals -- what the client under test uses
  'version 2': wrapFetchWithPaymentFromConfig(fetch, {
    schemes: [{ network: 'eip155:*', client: new ExactEvmScheme(account) }],
  }),
  'version 1': wrapFetchWithPaymentFromConfig(plain, {
    schemes: [{ network: 'base-sepolia' as never, client: new ExactEvmSchemeV1(account), x402Version: 1 }],
  }),
};

for (const [version, pay] of Object.entries(CLIENTS)) {
  t.test(`${version}: the official client buys credits and pays for a request`, async (t) => {
    const fixture = await open(t);
    const bought = await pay(`${fixture.base}/svc/credits`, { method: 'POST' });
    t.equal(bought.status, 200);
    t.match(await bought.json(), { status: 'success', credits_transferred: 50_000, recipient: BUYER });
    const called = await pay(`${fixture.base}/v1/chat/completions`, { method: 'POST' });
    t.equal(called.status, 200);
    for (const { headers } of [bought, called]) {
      for (const name of ['payment-response', 'x-payment-response']) {
        t.match(decodePaymentResponseHeader(headers.get(name) ?? ''), { success: true, transaction: /^0x/ });
      }
    }
    t.equal(await balances(fixture), 50_000n + CALL_UNITS);
    t.equal(fixture.facilitator.transfers.length, 2);
  });
}
