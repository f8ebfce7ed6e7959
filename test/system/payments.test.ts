// Requests without a key, paid by x402 at a complete gateway: the official client, real signatures, and a facilitator with its own
// token, on real sockets. Failed requests cost nothing, and a repeated payment is not charged twice.

import { ExactEvmScheme } from '@x402/evm';
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from '@x402/fetch';
import t, { type Test } from 'tap';
import { privateKeyToAccount } from 'viem/accounts';
import type { SettingsInput } from '../../src/config/settings.ts';
import { TestFacilitator } from '../support/facilitator.ts';
import { bearer, type LedgerFixture, startLedgerFixture, usageOf } from '../support/ledger-fixture.ts';
import { page, site } from '../support/site.ts';
import { MODEL, until } from '../support/system.ts';

const wallet = privateKeyToAccount('0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80');
const PAY_TO = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C';
const FUNDS = 1_000_000n;
const PAYER = wallet.address.toLowerCase();

interface PaymentFixture extends LedgerFixture {
  readonly facilitator: TestFacilitator;
  /** What the wallet has spent, in millionths of a USD. */
  readonly spent: () => bigint;
}

/** `fetch` of a client with a wallet, which sends by `send`. */
const paidBy = (send: typeof fetch): typeof fetch =>
  wrapFetchWithPaymentFromConfig(send, { schemes: [{ network: 'eip155:*', client: new ExactEvmScheme(wallet) }] });
const pay = paidBy(fetch);

const ENGINE = { kind: 'mine', documentation: 'https://x.org/', types: ['web'] };

async function openPaymentFixture(t: Test, threads = 1, more: SettingsInput = {}): Promise<PaymentFixture> {
  const nowS = (): number => Math.floor((performance.timeOrigin + performance.now()) / 1000);
  const facilitator = await new TestFacilitator({ nowS }).listen();
  t.teardown(() => facilitator.close());
  facilitator.fund(wallet.address, FUNDS);
  const found = [{ title: 'a', url: 'https://x.org/a', snippet: 's' }];
  const engine = { ...ENGINE, search: () => Promise.resolve(found) };
  const down = { ...engine, search: () => Promise.reject(new Error('down')) };
  const fixture = await startLedgerFixture(t, {
    settings: {
      threads: threads,
      payments: { facilitator: facilitator.url, payTo: PAY_TO, network: 'base-sepolia' },
      // Engines of one's own live in this thread.
      ...(threads === 0 && {
        search: { engines: { engine_a: engine, engine_b: down }, pricing: { engine_a: '0.005', engine_b: '0.004' } },
      }),
      ...more,
    },
  });
  return { ...fixture, facilitator, spent: () => FUNDS - facilitator.balance(wallet.address) };
}

const chatting = (more: object = {}, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify({ model: MODEL, max_tokens: 8, messages: [{ role: 'user', content: 'where to' }], ...more }),
});

t.test(
  'a request without key and payment gets an offer, version 1 in the body and version 2 in a header',
  async (t) => {
    const fixture = await openPaymentFixture(t);
    const offered = await fetch(`${fixture.url}/v1/chat/completions`, chatting());
    t.equal(offered.status, 402);
    t.equal(offered.headers.get('x-headrace-error'), 'HR_PAYMENT_REQUIRED');
    const body = (await offered.json()) as { detail: string; x402Version: number; accepts: { payTo: string }[] };
    t.match(body, { detail: /^Payment required/, x402Version: 1, accepts: [{ scheme: 'exact', payTo: PAY_TO }] });
    const header = JSON.parse(
      Buffer.from(offered.headers.get('payment-required') ?? '', 'base64').toString(),
    ) as object;
    t.match(header, { x402Version: 2, accepts: [{ scheme: 'exact', network: 'eip155:84532', amount: '100' }] });
    t.equal(
      (await fetch(`${fixture.url}/v1/chat/completions`, chatting({ model: 'none' }))).status,
      404,
      'first the model',
    );
    t.equal((await fetch(`${fixture.url}/v1/chat/completions`, chatting({}, bearer('hr_bad')))).status, 401);
    t.equal(fixture.host.requests.filter(({ path }) => path.includes('chat')).length, 0);
  },
);

for (const threads of [0, 2]) {
  t.test(`${threads} threads: the official client pays for answers and streams, and buys credits`, async (t) => {
    const fixture = await openPaymentFixture(t, threads);
    const answered = await pay(`${fixture.url}/v1/chat/completions`, chatting());
    t.equal(answered.status, 200);
    for (const name of ['payment-response', 'x-payment-response']) {
      t.match(decodePaymentResponseHeader(answered.headers.get(name) ?? ''), { success: true, transaction: /^0x/ });
    }
    t.match(await answered.json(), { usage: { completion_tokens: 8 } });
    t.equal(fixture.spent(), 100n, 'the least price of a request');
    const { headers } = fixture.host.requests.find(({ path }) => path.includes('chat')) ?? {
      headers: {} as Record<string, unknown>,
    };
    t.notOk(headers['payment-signature'] ?? headers['x-payment'], 'the CRN does not see the payment');
    const streamed = await pay(`${fixture.url}/v1/chat/completions`, chatting({ stream: true, max_tokens: 2000 }));
    t.match(await streamed.text(), /data: \[DONE\]\n\n$/);
    t.ok(fixture.spent() > 3000n, 'max_tokens is what is paid for');
    await usageOf(fixture.ledger, 2, PAYER);
    const bought = await pay(`${fixture.url}/svc/credits`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ address: wallet.address, amount: 0.01 }),
    });
    t.match(await bought.json(), { status: 'success', credits_transferred: 10_000, recipient: wallet.address });
    t.match(await fixture.ledger.account(PAYER), { balance: 10_000_000_000n });
    t.match(await fixture.ledger.audit(), { sound: true });
  });
}

t.test('a wallet gets no more output than it paid for, and pays for its tools', async (t) => {
  const fixture = await openPaymentFixture(t);
  const unlimited = { max_tokens: undefined, ignore_eos: true };
  const answered = await pay(`${fixture.url}/v1/chat/completions`, chatting(unlimited));
  t.equal(answered.headers.get('x-headrace-output-limit'), '1024');
  const { usage } = (await answered.json()) as { usage: { completion_tokens: number } };
  t.equal(usage.completion_tokens, 1024);
  // 1024 tokens of output at 1.5 millionths of a USD, and ten of the prompt at a quarter of one.
  const price = fixture.spent();
  t.equal(price, 1539n);
  const tools = [{ type: 'function', function: { name: 'f', description: 'x'.repeat(4000) } }];
  await pay(`${fixture.url}/v1/chat/completions`, chatting({ ...unlimited, tools })).then((each) => each.text());
  t.ok(fixture.spent() - price > price + 250n, 'a thousand tokens more');
});

t.test(
  'total failure and refusals of the CRN cost nothing; nor does a client that leaves before the answer',
  async (t) => {
    const fixture = await openPaymentFixture(t);
    for (const fault of ['status=500', 'status=400', 'reset']) {
      const failed = await pay(`${fixture.url}/v1/chat/completions`, chatting({}, { 'x-headrace-fault': fault }));
      t.not(failed.status, 200);
      await failed.text();
    }
    const leaving = new AbortController();
    // Given to each request: that of a request which is copied reaches its copy only until the collector takes it.
    const leave = paidBy((input, init) => fetch(input, { ...init, signal: leaving.signal }));
    const hanging = chatting({}, { 'x-headrace-fault': 'hang' });
    const left = leave(`${fixture.url}/v1/chat/completions`, hanging).catch(() => 'left');
    await until(
      'the CRN has it',
      () => fixture.host.requests.filter(({ headers }) => headers['x-headrace-fault'] === 'hang').length > 0,
    );
    leaving.abort();
    t.equal(await left, 'left');
    t.equal(fixture.facilitator.transfers.length, 0);
    t.equal(fixture.spent(), 0n);
  },
);

t.test('a payment serves one request: repeating it neither pays nor runs again', async (t) => {
  const fixture = await openPaymentFixture(t);
  let header = '';
  const recording: typeof fetch = async (input, init) => {
    const sent = new Headers(input instanceof Request ? input.headers : init?.headers);
    header = sent.get('payment-signature') ?? header;
    return await fetch(input, init);
  };
  const client = paidBy(recording);
  t.equal((await client(`${fixture.url}/v1/chat/completions`, chatting())).status, 200);
  t.ok(header);
  const worked = fixture.host.requests.length;
  const again = await fetch(`${fixture.url}/v1/chat/completions`, chatting({}, { 'payment-signature': header }));
  t.equal(again.status, 402);
  const other = await fetch(
    `${fixture.url}/v1/chat/completions`,
    chatting({ max_tokens: 1 }, { 'payment-signature': header }),
  );
  t.equal(other.status, 402);
  t.equal(fixture.host.requests.filter(({ path }) => path.includes('chat')).length, 1);
  t.ok(fixture.host.requests.length >= worked);
  t.equal(fixture.facilitator.transfers.length, 1);
});

t.test('a wallet pays the most that pages may cost, and what was not read becomes its credit', async (t) => {
  const text = `<title>Weir</title><main>${'<p>A weir holds the river back in a dry month.</p>'.repeat(10)}</main>`;
  const { asked, origin, port } = await site(t, { '/a': page(text), '/b': page(text), '/gone': page('gone', {}, 410) });
  const found = ['/a', '/gone'].map((path) => ({ title: path, url: origin + path, snippet: '' }));
  const fixture = await openPaymentFixture(t, 0, {
    fetch: { price: '0.001', allow: ['127.0.0.1'], ports: [port], cleaners: 1 },
    search: {
      engines: { engine_a: { ...ENGINE, search: () => Promise.resolve(found) } },
      pricing: { engine_a: '0.005' },
    },
  });
  const post = (body: object): RequestInit => {
    return { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  };
  const credit = async (): Promise<bigint> => (await fixture.ledger.account(PAYER))?.balance ?? 0n;
  const priceOf = async (path: string, body: object): Promise<unknown> => {
    const offer = await fetch(fixture.url + path, post(body));
    t.equal(offer.status, 402);
    return ((await offer.json()) as { accepts: { maxAmountRequired: string }[] }).accepts[0]?.maxAmountRequired;
  };
  const urls = ['/a', '/gone', '/b', '/a'].map((path) => origin + path);
  t.equal(await priceOf('/search/fetch', { urls }), '3000', 'for each page once');
  t.equal(await priceOf('/search', { query: 'q', engines: ['engine_a'], content: { results: 4 } }), '9000');
  t.same(asked, [], 'nothing is fetched before it is paid');

  const pages = await pay(`${fixture.url}/search/fetch`, post({ urls }));
  t.equal(pages.status, 200);
  t.equal(pages.headers.get('x-headrace-cost'), '0.002');
  t.equal(fixture.spent(), 3000n);
  await until('the rest is credit', async () => (await credit()) === 1_000_000_000n);
  const searched = await pay(
    `${fixture.url}/search`,
    post({ query: 'q', engines: ['engine_a'], content: { results: 4 } }),
  );
  t.match(await searched.json(), { results: [{ content: /weir/ }, { content_error: 'HR_FETCH_FAILED' }] });
  t.equal(searched.headers.get('x-headrace-cost'), '0.006');
  t.equal(fixture.spent(), 12_000n);
  await until('the rest is credit', async () => (await credit()) === 4_000_000_000n);
  const none = await pay(`${fixture.url}/search/fetch`, post({ urls: [`${origin}/gone`, `${origin}/none`] }));
  t.equal(none.status, 200, 'pages that cannot be read are an answer');
  t.equal(fixture.spent(), 12_000n, 'which costs nothing');
  t.match(await fixture.ledger.audit(), { sound: true });
});

t.test('a wallet pays in the interfaces of other products, also for a GET', async (t) => {
  const text = `<title>Weir</title><main>${'<p>A weir holds the river back in a dry month.</p>'.repeat(10)}</main>`;
  const { origin, port } = await site(t, { '/a': page(text) });
  const found = [{ title: 'a', url: `${origin}/a`, snippet: 's' }];
  const fixture = await openPaymentFixture(t, 0, {
    fetch: { price: '0.001', allow: ['127.0.0.1'], ports: [port], cleaners: 1 },
    search: {
      default: ['engine_a'],
      engines: { engine_a: { ...ENGINE, search: () => Promise.resolve(found) } },
      pricing: { engine_a: '0.005' },
    },
  });
  const asks: readonly (readonly [path: string, body: object | null, spent: bigint])[] = [
    ['/tavily/search', { query: 'q' }, 5000n],
    ['/searxng/search?q=q&format=json', null, 10_000n],
    [`/jina/${origin}/a?b=c`, null, 11_000n],
    ['/firecrawl/v2/scrape', { url: `${origin}/a`, formats: ['markdown', 'html'] }, 12_000n],
  ];
  for (const [path, body, spent] of asks) {
    const headers = { 'content-type': 'application/json' };
    const init = body === null ? {} : { method: 'POST', headers, body: JSON.stringify(body) };
    const offer = await fetch(fixture.url + path, init);
    t.equal(offer.status, 402, path);
    t.match(await offer.json(), { x402Version: 1, error: String, accepts: [{}] });
    const answer = await pay(fixture.url + path, init);
    t.equal(answer.status, 200, path);
    t.ok(answer.headers.get('payment-response'));
    t.equal(fixture.spent(), spent, path);
  }
});

t.test('a search is settled if an engine succeeded', async (t) => {
  const fixture = await openPaymentFixture(t, 0);
  const ask = (engines: string[]): Promise<Response> =>
    pay(`${fixture.url}/search`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query: 'q', engines }),
    });
  const found = await ask(['engine_a', 'engine_b']);
  t.equal(found.status, 200);
  t.ok(found.headers.get('payment-response'));
  t.equal(found.headers.get('x-headrace-cost'), '0.005');
  t.equal(fixture.spent(), 9000n, 'what the asked engines cost at most: a payment cannot be corrected');
  const account = wallet.address.toLowerCase();
  await until('the charge', async () => ((await fixture.ledger.account(account))?.balance ?? 0n) > 0n);
  t.equal((await fixture.ledger.account(account))?.balance, 4_000_000_000n, 'the rest is credit of the wallet');
  t.match(await fixture.ledger.usage({ by: ['account'] }), [{ account, amount: 5_000_000_000n }]);
  t.match(await fixture.ledger.audit(), { sound: true });
  t.equal((await ask(['engine_b'])).status, 503);
  t.equal(fixture.spent(), 9000n);
  const price = async (body: object): Promise<unknown> => {
    const offer = await fetch(`${fixture.url}/search`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query: 'q', ...body }),
    });
    const { accepts } = (await offer.json()) as { accepts?: { maxAmountRequired: string }[] };
    return accepts?.[0]?.maxAmountRequired;
  };
  t.equal(await price({ engines: ['engine_a'], max_results: 11 }), '10000', 'for each started ten results');
  t.equal(await price({ engines: ['engine_a', 'engine_c'] }), '5000', 'nothing for an engine that is not configured');
});
