// What calls of tools cost: limits of keys, credit, and clients that pay by request, who cannot do so by this protocol.

import t from 'tap';
import type { InProcessEngine } from '../../src/index.ts';
import { TestFacilitator } from '../support/facilitator.ts';
import { bearer, endow, type LedgerFixture, startLedgerFixture, USD } from '../support/ledger-fixture.ts';
import { until } from '../support/system.ts';

const engine: InProcessEngine = {
  kind: 'mine',
  documentation: 'https://example.com/',
  types: ['web'],
  search: () => Promise.resolve([{ title: 'A', url: 'https://example.com/', snippet: '' }]),
};

const SEARCH = { engines: { engine_a: engine }, pricing: { engine_a: '0.005' } };

interface Result {
  readonly isError?: boolean;
  readonly content: readonly { readonly text: string }[];
  readonly _meta: Readonly<Record<string, unknown>>;
}

async function call({ gateway }: LedgerFixture, headers: Record<string, string>): Promise<Result> {
  const response = await gateway.inject({
    path: '/mcp',
    headers: { accept: 'application/json, text/event-stream', ...headers },
    body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'search', arguments: { query: 'a' } } },
  });
  const text = response.text();
  const [, json = text] = /^data: (.+)$/m.exec(text) ?? [];
  return (JSON.parse(json) as { result: Result }).result;
}

t.test('a call is charged like a search, and takes one running place in all', async (t) => {
  const fixture = await startLedgerFixture(t, { settings: { threads: 0, search: SEARCH } });
  await endow(fixture.ledger, (USD * 7n) / 1000n, { runningRequests: 1 });
  const check = () => fixture.gateway.inject({ path: '/svc/auth/check', headers: bearer() });
  await until('the key is known', async () => (await check()).status === 200);
  const paid = await call(fixture, bearer());
  t.notOk(paid.isError, paid.content[0]?.text ?? '');
  t.equal(paid._meta['headrace/cost_usd'], '0.005');
  const short = await call(fixture, bearer());
  t.match(short, {
    isError: true,
    content: [{ text: /^Error HR_CREDIT_SHORT: .+ Tell the user that the account of this key needs credit/ }],
    _meta: { 'headrace/status': 402 },
  });
});

t.test('a limit says when to try again', async (t) => {
  const fixture = await startLedgerFixture(t, { settings: { threads: 0, search: SEARCH } });
  await endow(fixture.ledger, USD, { requestsPerMinute: 1 });
  const check = () => fixture.gateway.inject({ path: '/svc/auth/check', headers: bearer() });
  await until('the key is known', async () => (await check()).status === 200);
  t.notOk((await call(fixture, bearer())).isError);
  t.match(await call(fixture, bearer()), {
    isError: true,
    content: [{ text: /^Error HR_KEY_RATE: .+ Wait \d+ s, then try again\.$/ }],
    _meta: { 'headrace/retry_after_s': Number },
  });
});

t.test('a client without a key may look, and is told where a payment is taken', async (t) => {
  const nowS = (): number => Math.floor((performance.timeOrigin + performance.now()) / 1000);
  const facilitator = await new TestFacilitator({ nowS }).listen();
  t.teardown(() => facilitator.close());
  const payments = { facilitator: facilitator.url, payTo: `0x${'12'.repeat(20)}`, network: 'base-sepolia' as const };
  const fixture = await startLedgerFixture(t, { settings: { threads: 0, search: SEARCH, payments } });
  t.match(await call(fixture, {}), {
    isError: true,
    content: [{ text: /^Error HR_PAYMENT_REQUIRED: .+ over HTTP only: POST \/search with the payment/ }],
  });
});
