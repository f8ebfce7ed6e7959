// Limits and budgets over the whole path of a request: several threads and gateways, keys that are edited and rotated while they
// run, alerts, and the headers as the official SDKs read them.

import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t from 'tap';
import { hashKey } from '../../src/billing/index.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import {
  bearer,
  endow,
  openTestLedger,
  PRICING,
  SECRET,
  startLedgerFixture,
  USD,
  usageOf,
} from '../support/ledger-fixture.ts';
import { chat, KEY, MODEL, settingsFor, startHosts, until } from '../support/system.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const KEYED = { headers: bearer() };

async function known({ url }: { readonly url: string }, key: string = SECRET): Promise<void> {
  const check = (): Promise<Response> => fetch(`${url}/svc/auth/check`, { headers: bearer(key) });
  await until('the key is known', async () => (await check()).status === 200);
}

async function statusOf(fixture: { readonly url: string }, headers = KEYED.headers): Promise<number> {
  const response = await chat(fixture.url, { headers });
  await response.text();
  return response.status;
}

async function code(response: Response): Promise<string | null> {
  await response.text();
  return response.headers.get('x-headrace-error');
}

t.test('80 requests at once over 4 threads stay within the limits of the key and the budget', async (t) => {
  const fixture = await startLedgerFixture(t, { settings: { threads: 4 } });
  await endow(fixture.ledger, USD, { requestsPerMinute: 30, runningRequests: 9 });
  await known(fixture);
  // The first request waits for credit from the ledger, on a busy machine in vain: 503, while it keeps a place of the nine.
  await until('credit is leased', async () => (await statusOf(fixture)) === 200);
  const answers = await Promise.all(Array.from({ length: 80 }, () => chat(fixture.url, KEYED)));
  const codes = await Promise.all(answers.map(code));
  const served = codes.filter((each) => each === null).length;
  t.ok(served >= 1 && served <= 29, `${served} served, ${[...new Set(codes)].join()}`);
  t.ok(codes.every((each) => [null, 'HR_KEY_RUNNING', 'HR_KEY_RATE'].includes(each)));
  await until('exactly the limit is served', async () => {
    const more = await Promise.all(Array.from({ length: 4 }, () => chat(fixture.url, KEYED)));
    return (await Promise.all(more.map(code))).every((each) => each === 'HR_KEY_RATE');
  });
  await usageOf(fixture.ledger, 30);
});

t.test('a budget is never exceeded by requests at once, and its 402 says when it ends', async (t) => {
  const fixture = await startLedgerFixture(t, { settings: { threads: 2 } });
  await endow(fixture.ledger, USD);
  const limit = 3_000_000_000n;
  await fixture.ledger.budgets.set({
    id: 'b',
    account: 'acme',
    key: null,
    model: MODEL,
    period: 'week',
    limit,
    soft: null,
  });
  await known(fixture);
  await until('the budget is known', async () => {
    const responses = await Promise.all(Array.from({ length: 80 }, () => chat(fixture.url, { ...KEYED, tokens: 900 })));
    const codes = await Promise.all(responses.map(code));
    return codes.includes('HR_KEY_SPENT');
  });
  const refused = await chat(fixture.url, { ...KEYED, tokens: 900 });
  t.equal(refused.status, 402);
  const { detail } = (await refused.json()) as { detail: string };
  t.match(
    detail,
    /^Budget used up: this account may spend on model atlas-27b 0\.003 USD a week; the week ends at \S+T00:00:00\.000Z$/,
  );
  await fixture.gateway.close();
  const [row] = await fixture.ledger.usage({ account: 'acme', by: [] });
  t.ok((row?.amount ?? 0n) <= limit, `${row?.amount} of ${limit}`);
  t.ok((row?.amount ?? 0n) > limit / 2n);
});

t.test('a limit is edited in place and takes effect on a running gateway', async (t) => {
  const fixture = await startLedgerFixture(t, { settings: { threads: 2 } });
  await endow(fixture.ledger, USD, { requestsPerMinute: 2 });
  await known(fixture);
  t.same([await statusOf(fixture), await statusOf(fixture), await statusOf(fixture)], [200, 200, 429]);
  await fixture.ledger.editKey('key-of-acme', { limits: { requestsPerMinute: 4 } });
  await until('the limit is higher', async () => (await statusOf(fixture)) === 200);
  t.same([await statusOf(fixture), await statusOf(fixture)], [200, 429], 'what was counted still counts');
  await fixture.ledger.editKey('key-of-acme', { limits: { requestsPerMinute: null } });
  await until('there is no limit', async () => (await statusOf(fixture)) === 200);
});

t.test('a rotated key goes on with the counts and the budget of the old one', async (t) => {
  const fixture = await startLedgerFixture(t);
  const price = 200_000_000n;
  await endow(fixture.ledger, USD, { monthlySpend: String(price), requestsPerMinute: 1000 });
  await known(fixture);
  await until('the budget is used up', async () => (await statusOf(fixture)) === 402);
  const successor = { id: 'next', hash: hashKey('hr_next'), prefix: 'hr_next', expiresMs: null };
  await fixture.ledger.rotateKey('key-of-acme', successor, 60_000);
  await known(fixture, 'hr_next');
  t.equal(await statusOf(fixture, bearer('hr_next')), 402);
  await fixture.gateway.close();
  // Another process reads from the ledger what the chain has spent.
  const again = await startLedgerFixture(t, { store: fixture.store });
  await known(again, 'hr_next');
  t.equal(await statusOf(again, bearer('hr_next')), 402);
});

/** Alerts that a gateway has given. */
async function alertsOf(adminUrl: string, threshold: string): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  const series = new RegExp(`^headrace_budget_alerts_total\\{threshold="${threshold}"\\} (\\d+)`, 'm');
  return Number(series.exec(text)?.[1] ?? 0);
}

t.test('what another gateway spends counts within seconds, and an alert is given once by all', async (t) => {
  const store = `sqlite:${temporaryFolder(t)}/ledger.db`;
  const ledger = await openTestLedger(t, store);
  await endow(ledger, USD);
  const hosts = await startHosts(t);
  const settings = settingsFor(hosts, {
    models: { [MODEL]: { servers: hosts.map(({ url }) => url), pricing: PRICING } },
    store,
    admin: '127.0.0.1:0',
    credit: { flush: '5ms' },
  });
  const gateways = [createGateway(settings), createGateway(settings)] as const;
  t.teardown(() => Promise.all(gateways.map((gateway) => gateway.close())));
  const [first, second] = await Promise.all(gateways.map((gateway) => gateway.listen()));
  if (first === undefined || second === undefined) throw new Error('two gateways');
  const limit = 500_000_000n;
  const scope = { account: 'acme', key: null, model: null };
  await ledger.budgets.set({ id: 'b', ...scope, period: 'day', limit, soft: limit / 2n });
  await known(first);
  await known(second);
  t.equal(await statusOf(second), 200);
  await until('the budget is used up', async () => (await statusOf(first)) === 402);
  await until('the other gateway knows', async () => (await statusOf(second)) === 402);
  for (const threshold of ['soft', 'hard']) {
    const alerts = async (): Promise<number> =>
      (await alertsOf(first.adminUrl ?? '', threshold)) + (await alertsOf(second.adminUrl ?? '', threshold));
    await until(`the alert ${threshold} is given`, async () => (await alerts()) > 0);
    t.equal(await alerts(), 1);
  }
});

t.test('keys of the configuration have limits', async (t) => {
  const keys = { static: [{ key: KEY, account: 'tests', rpm: 2, running: 5, tpm: 100_000, monthly: '10' }] };
  const host = await startHosts(t);
  const settings = settingsFor(host, { keys, store: 'sqlite::memory:', threads: 2 });
  const gateway = createGateway(settings);
  t.teardown(() => gateway.close());
  const system = await gateway.listen();
  await gateway.ready();
  const mine = { authorization: `Bearer ${KEY}` };
  t.same([await statusOf(system, mine), await statusOf(system, mine), await statusOf(system, mine)], [200, 200, 429]);
  gateway.reload({ ...settings, keys: { static: [{ key: KEY, account: 'tests', rpm: 3 }] } });
  await until('the limit is higher', async () => (await statusOf(system, mine)) === 200);
});

t.test('the official SDKs read what is left, and when to come again', async (t) => {
  const fixture = await startLedgerFixture(t);
  await endow(fixture.ledger, USD, { requestsPerMinute: 3, tokensPerMinute: 100_000 });
  await known(fixture);
  const options = { apiKey: SECRET, maxRetries: 0 };
  const messages = [{ role: 'user' as const, content: 'Where does the water go?' }];
  const ask = { model: MODEL, messages, max_tokens: 6 };
  const openai = new OpenAI({ ...options, baseURL: `${fixture.url}/v1` });
  const { response } = await openai.chat.completions.create(ask).withResponse();
  t.match(Object.fromEntries(response.headers), {
    'x-ratelimit-limit-requests': '3',
    'x-ratelimit-remaining-requests': '2',
    'x-ratelimit-reset-requests': /^1m\d(\.\d+)?s$/,
    'x-ratelimit-limit-tokens': '100000',
    'x-ratelimit-remaining-tokens': /^99\d{3}$/,
    'x-ratelimit-reset-tokens': /^1m\d(\.\d+)?s$/,
  });
  const anthropic = new Anthropic({ ...options, baseURL: fixture.url });
  const { response: message } = await anthropic.messages.create(ask).withResponse();
  t.match(Object.fromEntries(message.headers), {
    'anthropic-ratelimit-requests-limit': '3',
    'anthropic-ratelimit-requests-remaining': '1',
    'anthropic-ratelimit-requests-reset': /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/,
    'anthropic-ratelimit-tokens-limit': '100000',
    'anthropic-ratelimit-tokens-remaining': /^99\d{3}$/,
    'anthropic-ratelimit-tokens-reset': /^\d{4}-/,
  });
  t.equal(message.headers.get('x-ratelimit-limit-requests'), null);
  await openai.chat.completions.create(ask);
  const error = await openai.chat.completions.create(ask).then(
    () => null,
    (thrown: unknown) => thrown,
  );
  t.ok(error instanceof OpenAI.RateLimitError);
  const { headers } = error as InstanceType<typeof OpenAI.RateLimitError>;
  const waitMs = Number(headers.get('retry-after-ms'));
  t.ok(waitMs > 0 && waitMs <= 62_000);
  t.equal(Number(headers.get('retry-after')), Math.ceil(waitMs / 1000));
  t.equal(headers.get('x-ratelimit-remaining-requests'), '0');
  const refused = await anthropic.messages.create(ask).then(
    () => null,
    (thrown: unknown) => thrown,
  );
  t.ok(refused instanceof Anthropic.RateLimitError);
});
