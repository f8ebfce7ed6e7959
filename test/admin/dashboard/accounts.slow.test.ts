// The views of the console that need an admin token, in a real browser: accounts, one account, keys, spend, payments, acts and webhooks,
// over a gateway with a SQLite ledger and an operator of each role.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { hashKey, type Ledger } from '../../../src/billing/index.ts';
import { createGateway } from '../../../src/gateway/gateway.ts';
import { checkView, focusedName, openPage, row, shows, startBrowser, tabTo } from '../../support/browser.ts';
import { bearer, endow, openTestLedger, PRICING, USD, usageOf } from '../../support/ledger-fixture.ts';
import { chat, MODEL, settingsFor, startHosts, until } from '../../support/system.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const OWNER = 'sesame';
const HOSTILE = '<img/src=x/onerror=window.hit=1>';
const PHONE = { viewport: { width: 360, height: 740 } };
const PAYER = `0x${'ab'.repeat(20)}`;
const TRANSACTION = `0x${'77'.repeat(32)}`;

startBrowser(t);

interface Running {
  readonly url: string;
  readonly adminUrl: string;
  readonly ledger: Ledger;
}

/** A gateway with the account acme, which has 5 USD and a key. */
async function start(t: Test): Promise<Running> {
  const store = `sqlite:${join(temporaryFolder(t), 'ledger.db')}`;
  const ledger = await openTestLedger(t, store);
  await endow(ledger, 5n * USD, { requestsPerMinute: 600, monthlySpend: String(2n * USD) });
  const hosts = await startHosts(t);
  const gateway = createGateway({
    ...settingsFor(hosts, { admin: '127.0.0.1:0', adminToken: OWNER, store }),
    models: { [MODEL]: { servers: hosts.map(({ url }) => url), pricing: PRICING } },
    adminTokens: (['viewer', 'operator'] as const).map((role) => ({
      name: `the-${role}`,
      role,
      sha256: hashKey(role),
    })),
    credit: { flush: '5ms' },
    costLog: { requests: 'all' },
  });
  t.teardown(() => gateway.close());
  const { url, adminUrl } = await gateway.listen();
  await gateway.ready();
  const check = (): Promise<Response> => fetch(`${url}/svc/auth/check`, { headers: bearer() });
  await until('the key is known', async () => (await check()).status === 200);
  return { url, adminUrl: adminUrl ?? '', ledger };
}

/** Sends requests of acme and waits until they are charged and recorded. */
async function spend({ ledger, url }: Running, requests: number): Promise<bigint> {
  for (let i = 0; i < requests; i++) await (await chat(url, { headers: bearer() })).text();
  const { amount } = await usageOf(ledger, requests);
  await until('recorded', async () => (await ledger.requests.list({})).length === requests);
  return amount;
}

/** A payment without a known outcome; resolves with its id. */
async function openPayment(ledger: Ledger, number: number, validMs: number): Promise<string> {
  const nowMs = Math.floor(performance.timeOrigin + performance.now());
  const nonce = `0x${number.toString(16).padStart(64, '0')}`;
  const what = { network: 'eip155:8453', asset: `0x${'cd'.repeat(20)}`, payer: PAYER, nonce, purpose: 'call:d' };
  const answer = await ledger.reservePayment({ ...what, amount: USD / 50n, validUntilMs: nowMs + validMs });
  if (answer.kind !== 'reserved') throw new Error(answer.kind);
  const submission = { account: PAYER, signature: '0x', body: '{}', sentMs: nowMs };
  await ledger.submitPayment(answer.id, JSON.stringify(submission));
  return answer.id;
}

/** Opens a view in a tab that has signed in. */
async function openView(
  t: Test,
  { adminUrl }: Running,
  path: string,
  token: string = OWNER,
  options: Parameters<typeof openPage>[2] = {},
  expected?: RegExp,
): Promise<Page> {
  const page = await openPage(t, adminUrl, options, expected);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByLabel('Admin token').fill(token);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: /^Sign out/ }).waitFor();
  await goTo(page, path);
  return page;
}

async function goTo(page: Page, path: string): Promise<void> {
  await page.evaluate(`location.hash = ${JSON.stringify(path)}`);
  const [, name = '', part = ''] = path.split('?', 1)[0]?.split('/') ?? [];
  const word = name === 'crns' ? 'CRNs' : name.charAt(0).toUpperCase() + name.slice(1);
  const title = part === '' ? word : decodeURIComponent(part);
  await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor();
  await until('read', async () => (await page.locator('.state', { hasText: 'Reading' }).count()) === 0);
}

const submit = (page: Page): Promise<void> => page.getByRole('dialog').locator('button[type=submit]').click();

/** Fills the dialog, sends it and waits for its end. */
async function confirm(page: Page, button: string, fields: Readonly<Record<string, string>> = {}): Promise<void> {
  await page.getByRole('button', { name: button, exact: true }).click();
  for (const [label, value] of Object.entries(fields)) await page.getByRole('dialog').getByLabel(label).fill(value);
  await submit(page);
}

t.test('views need a token, which stays in this tab and is sent as a header alone', async (t) => {
  const running = await start(t);
  const page = await openPage(t, `${running.adminUrl}/#/accounts`, {}, /status of 401/);
  const asked: { url: string; authorization: string | undefined }[] = [];
  page.on('request', (request) => {
    const { authorization } = request.headers();
    if (/accounts|keys|usage|budgets|requests|whoami/.test(request.url()))
      asked.push({ url: request.url(), authorization });
  });
  await shows(page, 'main', /needs an admin token/);
  t.equal(await page.locator('#accounts').count(), 0);
  t.same(asked, [], 'nothing is asked without a token');
  await page.locator('main').getByRole('button', { name: 'Sign in' }).click();
  await page.keyboard.type('wrong');
  await page.keyboard.press('Enter');
  await shows(page, '.refused', /401: the admin token is wrong/);
  await page.getByLabel('Admin token').fill('hra_Gb…');
  await page.keyboard.press('Enter');
  await shows(page, '.refused', /^401: tokens and keys have no such characters/);
  await page.getByLabel('Admin token').fill(OWNER);
  await page.keyboard.press('Enter');
  await shows(page, '.toast', /^Signed in as adminToken, owner$/);
  await row(page, 'accounts', 'acme').waitFor();
  t.equal(await page.getByRole('button', { name: /^Sign out/ }).getAttribute('title'), 'adminToken, owner');
  const kept = 'JSON.stringify([Object.values(sessionStorage), Object.values(localStorage), document.cookie])';
  t.equal(await page.evaluate(kept), JSON.stringify([[OWNER], [], '']));
  t.ok(asked.length > 2);
  for (const { authorization, url } of asked) {
    t.notMatch(url, OWNER);
    t.match(authorization, /^Bearer (wrong|sesame)$/);
  }
  await page.reload();
  await row(page, 'accounts', 'acme').waitFor();
  await page.getByRole('button', { name: /^Sign out/ }).click();
  await shows(page, 'main', /needs an admin token/);
  t.equal(await page.evaluate(kept), JSON.stringify([[], [], '']));
  t.equal(await page.locator('#accounts tbody tr').count(), 0, 'nothing stays in the page');
});

t.test('accounts with spending, pages and names that are markup', async (t) => {
  const running = await start(t);
  const { ledger } = running;
  const amount = await spend(running, 2);
  await ledger.createAccount({ id: HOSTILE, label: HOSTILE });
  await ledger.configureAccount('acme', { organisation: HOSTILE });
  for (let i = 10; i < 65; i++) await ledger.createAccount({ id: `more-${i}` });
  const page = await openView(t, running, '#/accounts', OWNER, {}, /status of 404/);
  const usd = `0.${String(amount).padStart(12, '0').replace(/0+$/, '')}`;
  await until('spending', async () => ((await row(page, 'accounts', 'acme').textContent()) ?? '').includes(usd));
  t.equal(await row(page, 'accounts', 'acme').locator('td', { hasText: usd }).count(), 2, 'today and this month');
  t.match(await row(page, 'accounts', 'acme').locator('polyline').getAttribute('points'), /^0\.0,15\.0.* 64\.0,1\.0$/);
  t.equal(await page.locator('#accounts tbody tr').count(), 50);
  t.equal(await page.locator('#all-requests tbody tr').count(), 2, 'requests of all accounts');
  const more = page.getByRole('button', { name: 'More', exact: true });
  await more.focus();
  await page.keyboard.press('Enter');
  await row(page, 'accounts', 'more-64').waitFor();
  t.equal(await page.locator('#accounts tbody tr').count(), 57);
  t.equal(await more.count(), 0, 'no further page');
  await page.getByLabel('Filter: Accounts').fill('acme');
  await until('filtered', async () => (await page.locator('#accounts tbody tr').count()) === 1);
  await row(page, 'accounts', 'acme').getByRole('link', { name: HOSTILE }).click();
  await shows(page, 'h1', /^<img/);
  await shows(page, '.lead', /^<img/);
  t.equal(await page.locator('main img').count(), 0);
  t.equal(await page.evaluate('window.hit'), undefined);
  await page.getByRole('link', { name: 'Accounts', exact: true }).first().click();
  await page.getByLabel('Account id').fill('nobody');
  await page.keyboard.press('Enter');
  await shows(page, '.problem', /404: No account 'nobody'/);
  t.equal(await page.locator('#view-account').count(), 0);
});

t.test('the page of an account: charts, limits, budgets, usage, history and requests', async (t) => {
  const running = await start(t);
  const { ledger } = running;
  const spent = await spend(running, 3);
  const budget = { account: 'acme', key: null, model: null, soft: null } as const;
  await ledger.budgets.set({ id: 'large', ...budget, period: 'month', limit: 4n * USD, soft: 3n * USD });
  await ledger.budgets.set({ id: 'small', ...budget, period: 'day', limit: spent / 2n });
  await ledger.budgets.set({ id: 'near', ...budget, period: 'week', limit: spent * 2n, soft: spent / 2n });
  for (let i = 0; i < 55; i++) await ledger.grant({ id: `gift-${i}`, account: 'acme', amount: USD });
  const page = await openView(t, running, '#/accounts/acme');
  await shows(page, '#keys tbody', /key-of-acme.*600 requests\/min1\.99\d+ left: 0\.00\d+ of 2\.00/);
  const texts = await page.locator('#budgets tbody tr').allTextContents();
  t.match(
    texts.find((text) => text.startsWith('acmemonth')),
    /3\.99\d+ left: 0\.00\d+ of 4\.00, alert at 3\.00/,
  );
  t.match(
    texts.find((text) => text.startsWith('acmeday')),
    /0\.00 left: .*, used up/,
  );
  t.match(
    texts.find((text) => text.startsWith('acmeweek')),
    /, alert reached/,
  );
  t.equal(await page.locator('#budgets .share.bad .part').getAttribute('width'), '100');
  await shows(page, '#usage tbody', new RegExp(`^\\d{4}-\\d\\d-\\d\\d${MODEL}3`));
  t.equal(await page.locator('#requests tbody tr').count(), 3);
  t.equal(await page.locator('#movements tbody tr').count(), 50);
  await page.getByRole('button', { name: 'More', exact: true }).click();
  await row(page, 'movements', 'grant:grant-acme').waitFor();
  t.ok((await page.locator('#movements tbody tr').count()) > 56);
  await shows(page, '#account-figures', /Balance, USD59\.9\d+In use0\.0/);
  const charts = page.getByRole('application');
  const usd = Number(spent) / 1e12;
  t.match(await charts.first().getAttribute('aria-label'), /^USD by day and model: \$0\.00\d* in 31 days/);
  t.match(await charts.last().getAttribute('aria-label'), /^Balance: balance now \$60\.00, from \$0 to \$60\.00/);
  await charts.first().focus();
  await page.keyboard.press('End');
  await shows(page, '.stacked .legend', new RegExp(`^${MODEL} \\$${String(Number(usd.toPrecision(3)))}`));
});

t.test('searches and pages by account and engine, in ranges', async (t) => {
  const running = await start(t);
  const { ledger } = running;
  const nowMs = Math.floor(performance.timeOrigin + performance.now());
  await ledger.createAccount({ id: HOSTILE });
  const usage = { key: null, inputTokens: 0, cachedTokens: 0, outputTokens: 0, measured: true };
  const charges = [
    ['acme', 'search:brave', 7, 0],
    ['acme', 'fetch', 3, 0],
    ['acme', 'atlas-27b', 9, 0],
    [HOSTILE, 'search:searxng', 2, 3],
    [HOSTILE, 'search:brave', 1, 20],
  ] as const;
  await ledger.charge(
    charges.map(([account, model, requests, ago], index) => ({
      ...{ id: `tool-${index}`, account, amount: USD / 100n, dateMs: nowMs - ago * 86_400_000 },
      usage: { ...usage, model, requests },
    })),
  );
  const page = await openView(t, running, '#/tools');
  const rows = async (table: string): Promise<string[]> => await page.locator(`#${table} tbody tr`).allTextContents();
  await until('a week', async () => (await rows('tool-accounts')).length === 2);
  t.same(await rows('tool-accounts'), ['acme73brave0.02', `${HOSTILE}20searxng0.01`]);
  t.same(await rows('tool-engines'), ['brave758 %0.01', 'pages325 %0.01', 'searxng217 %0.01']);
  await shows(page, '.tiles', /Engine answers9of 2 engines.*Pages3.*\$0\.03/);
  await page.getByRole('button', { name: '30 days' }).click();
  await until('a month', async () => (await rows('tool-engines')).includes('brave862 %0.02'));
  await page.getByRole('button', { name: 'Today' }).click();
  await until('today', async () => (await rows('tool-accounts')).length === 1);
  await page.waitForURL(/#\/tools\?days=1$/);
  t.match(await page.getByRole('application').getAttribute('aria-label'), /^Engine answers and pages by day/);
  t.equal(await page.locator('main img').count(), 0);
});

t.test('spend by model, account and key, in ranges, as a table and as CSV', async (t) => {
  const running = await start(t);
  const { ledger } = running;
  const spent = await spend(running, 3);
  const nowMs = Math.floor(performance.timeOrigin + performance.now());
  const day = (ago: number): string => new Date(nowMs - ago * 86_400_000).toISOString().slice(0, 10);
  const usage = { key: null, inputTokens: 1000, cachedTokens: 400, outputTokens: 50, measured: true };
  for (const [index, ago] of [1, 20, 60].entries()) {
    await ledger.createAccount({ id: HOSTILE });
    await ledger.charge([
      {
        ...{ id: `old-${index}`, account: HOSTILE, amount: USD * BigInt(index + 1), dateMs: nowMs - ago * 86_400_000 },
        usage: { ...usage, model: `model-${index}` },
      },
    ]);
  }
  const page = await openView(t, running, '#/spend');
  const rows = async (): Promise<string[]> => await page.locator('#spend tbody tr').allTextContents();
  await until('a month', async () => (await rows()).length === 3);
  t.match((await rows()).join('|'), /^model-111,000400502\.0067 %\|model-011,000400501\.0033 %\|atlas-27b3/);
  await shows(page, '.tiles', /Spend\$3\.00/);
  await page.getByRole('button', { name: '90 days' }).click();
  await until('a quarter', async () => (await rows()).length === 4);
  await page.waitForURL(/#\/spend\?days=90$/);
  await page.getByRole('button', { name: 'account', exact: true }).click();
  await until('accounts', async () => /^<img.*acme/.test((await rows()).join()));
  t.equal(await page.locator('main img').count(), 0);
  await page.getByRole('button', { name: 'output tokens' }).click();
  await shows(page, '.stacked .chart-title', /^Output tokens by day and account/);
  const chart = page.getByRole('application');
  await chart.focus();
  await page.keyboard.press('End');
  await page.keyboard.press('ArrowLeft');
  await shows(page, '.stacked .chart-time', new RegExp(`^${day(1)} 50$`));
  await page.getByText('As a table').click();
  t.match(await page.locator('.stacked table').textContent(), new RegExp(`${day(60)}50050`));
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download CSV' }).click(),
  ]);
  t.equal(download.suggestedFilename(), 'usage-account-90-days.csv');
  const lines = readFileSync(await download.path(), 'utf8')
    .trim()
    .split(/\r?\n/);
  t.equal(lines.length, 5);
  t.match(lines[0], /day.*account.*amount_usd/);
  const account = page.getByRole('searchbox', { name: 'Account', exact: true });
  await account.fill('acme');
  // The page may have lost the focus to the download.
  await account.press('Enter');
  await until('one account', async () => (await rows()).length === 1);
  t.match((await rows()).join(), `0.${String(spent).padStart(12, '0').replace(/0+$/, '')}`);
});

t.test('keys of all accounts: searched, by state, unused ones, with what is left of the month', async (t) => {
  const running = await start(t);
  const { ledger } = running;
  await spend(running, 1);
  await endow(ledger, USD, {}, 'other');
  const nowMs = Math.floor(performance.timeOrigin + performance.now());
  await ledger.createKey({
    id: 'ended',
    hash: hashKey('ended'),
    prefix: 'hr_end',
    account: 'other',
    expiresMs: nowMs - 1000,
  });
  await ledger.createKey({
    id: 'soon',
    hash: hashKey('soon'),
    prefix: 'hr_soo',
    account: 'other',
    expiresMs: nowMs + 1e8,
  });
  await ledger.createKey({ id: 'off', hash: hashKey('off'), prefix: 'hr_off', account: 'other', label: HOSTILE });
  await ledger.disableKey('off');
  const page = await openView(t, running, '#/keys');
  const keys = async (): Promise<string[]> => await page.locator('#all-keys tbody th').allTextContents();
  await until('keys', async () => (await keys()).length === 5);
  const today = new Date(nowMs).toISOString().slice(0, 10);
  t.match(
    await row(page, 'all-keys', 'key-of-acme').textContent(),
    new RegExp(`1\\.99\\d+ left: 0\\.00\\d+ of 2\\.00.*${today}`),
  );
  t.match(await row(page, 'all-keys', 'key-of-other').textContent(), /none0\.00, no limitnot in 30 days/);
  for (const [show, expected] of [
    ['Expired', ['ended']],
    ['Disabled', ['off']],
    ['Ends within 14 days', ['soon']],
    ['Without any limit', ['key-of-other', 'soon']],
    ['Not used for 30 days', []],
    ['Active', ['key-of-acme', 'key-of-other', 'soon']],
  ] as const) {
    await page.getByRole('combobox', { name: 'Show' }).selectOption({ label: show });
    await until(show, async () => JSON.stringify(await keys()) === JSON.stringify(expected));
  }
  await page.getByRole('combobox', { name: 'Show' }).selectOption({ label: 'All' });
  await page.getByRole('searchbox').fill('<IMG');
  await until('searched', async () => (await keys()).join() === 'off');
  t.equal(await page.locator('main img').count(), 0);
  await page.getByRole('searchbox').fill('');
  await confirm(page, 'Create key', { Account: 'fresh', Label: 'new' });
  await page.locator('.secret').waitFor();
  await page.keyboard.press('Escape');
  await until('listed', async () => (await keys()).length === 6);
  t.equal((await ledger.listKeys('fresh'))[0]?.label, 'new');
  const html = await page.content();
  t.notMatch(html, /hr_[\w-]{43}/);
});

t.test('an owner moves credit, and makes, edits, rotates and disables keys', async (t) => {
  const running = await start(t);
  const { ledger } = running;
  await spend(running, 1);
  const page = await openView(t, running, '#/accounts/acme', OWNER, {}, /status of 422/);
  await confirm(page, 'Grant credit', { 'Amount in USD': '2.50', Memo: 'for testing' });
  await shows(page, '.toast', /^2\.50 USD for acme, balance 7\.\d+ USD$/);
  await confirm(page, 'Adjust', { 'Amount in USD': '-1' });
  await shows(page, '.toast', /^-1\.00 USD for acme/);
  await confirm(page, 'Change', { 'Credit limit': 'many' });
  await shows(page, '.refused', /^422: credit_limit must be USD/);
  await page.getByLabel('Credit limit').fill('3');
  await page.keyboard.press('Enter');
  await shows(page, '#account-figures', /Credit limit3\.00/);
  const [request] = await ledger.requests.list({});
  await confirm(page, `Refund ${request?.requestId}`);
  await shows(page, '.toast', /^Refunded: 0\.\d+ USD for acme$/);
  await shows(page, '#movements tbody', /refund:.*refund.*for testing/);

  await confirm(page, 'Create key', { Label: 'new', 'Requests a minute': '7' });
  await page.locator('.secret').waitFor();
  const [secret = ''] = /hr_[\w-]{43}/.exec((await page.locator('.secret').textContent()) ?? '') ?? [];
  const keys = await ledger.listKeys('acme');
  const made = keys.find(({ prefix }) => prefix === secret.slice(0, 9));
  t.match(made, { label: 'new', limits: { requestsPerMinute: 7 } });
  t.equal(await focusedName(page), 'Close');
  await page.keyboard.press('Escape');
  // A dialog tells that it is closed in a task of its own.
  await until('the key to be gone with the dialog', async () => !(await page.content()).includes(secret));
  await confirm(page, `Edit ${made?.id}`, { 'Requests a minute': '', 'Tokens a minute': '9' });
  await until('edited', async () =>
    /9 tokens\/min/.test((await row(page, 'keys', made?.id ?? '').textContent()) ?? ''),
  );
  t.match((await ledger.listKeys('acme')).find(({ id }) => id === made?.id)?.limits, { tokensPerMinute: 9 });
  await confirm(page, `Rotate ${made?.id}`, { 'Grace period': '1h' });
  await page.locator('.secret').waitFor();
  await page.getByRole('button', { name: 'Close', exact: true }).click();
  await confirm(page, `Disable ${made?.id}`);
  await shows(page, '.toast', new RegExp(`^${made?.id} is disabled$`));
  await until('hidden', async () => (await page.getByRole('button', { name: `Disable ${made?.id}` }).count()) === 0);

  await confirm(page, 'Set budget', { 'USD in the period': '8', Alert: '50%' });
  await shows(page, '#budgets tbody', /^acmemonth.*of 8\.00, alert at 4\.00/);
  await confirm(page, 'Change acme', { 'USD in the period': '9' });
  await shows(page, '#budgets tbody', /^acmemonth.*of 9\.00, alert at 4\.00/);
  await confirm(page, 'Remove acme');
  await until('removed', async () => (await page.locator('#budgets tbody tr').count()) === 0);
  await goTo(page, '#/accounts');
  await confirm(page, 'Create account', { Id: 'fresh' });
  await row(page, 'accounts', 'fresh').waitFor();
});

t.test('a role sees the actions that it may take, and no others', async (t) => {
  const running = await start(t);
  await spend(running, 1);
  await openPayment(running.ledger, 1, -1000);
  const seen = async (token: string): Promise<string[]> => {
    const page = await openView(t, running, '#/accounts/acme', token);
    await page.locator('#movements').waitFor();
    const actions = page.locator('.page-actions button:visible, main .actions button:visible');
    const texts = [...new Set(await actions.allTextContents())];
    await goTo(page, '#/payments');
    await page.locator('#open-payments').waitFor();
    texts.push(...(await actions.allTextContents()));
    t.equal(await page.getByRole('button', { name: 'Reload configuration' }).count(), 0, 'there is no file');
    await goTo(page, '#/crns');
    const drain = page.getByRole('button', { name: /^Drain/ }).first();
    await drain.waitFor();
    await until('drain', async () => (await drain.isDisabled()) === (token === 'viewer'));
    return texts;
  };
  t.same(await seen('viewer'), ['Refresh', 'Refresh']);
  const ofOperator = ['Create key', 'Set budget', 'Refresh', 'Edit', 'Budget', 'Rotate', 'Disable', 'Refresh'];
  t.same(await seen('operator'), ofOperator);
  t.match((await seen(OWNER)).join(), /Grant credit,Adjust,Refund,Change,.*Settled…,Not settled…/);
});

t.test('payments without a known outcome come first and are decided by keyboard', async (t) => {
  const running = await start(t);
  const { ledger } = running;
  const [moved, lost] = [await openPayment(ledger, 1, -1000), await openPayment(ledger, 2, 600_000)];
  const page = await openView(t, running, '#/payments', OWNER, {}, /status of 422/);
  await row(page, 'open-payments', moved).waitFor();
  t.equal(await page.locator('#open-payments tbody tr').count(), 2);
  await tabTo(page, `Settled… ${moved}`);
  await page.keyboard.press('Enter');
  t.equal((await ledger.findPayment(moved))?.state, 'submitted', 'nothing without confirmation');
  await page.getByLabel('Hash of the transaction').and(page.locator(':focus')).waitFor();
  await page.keyboard.type(TRANSACTION);
  await page.keyboard.press('Enter');
  await shows(page, '.toast', / is settled$/);
  t.match(await ledger.findPayment(moved), { state: 'settled' });
  await row(page, 'payments', moved).waitFor();
  t.match(await row(page, 'payments', moved).textContent(), /0x7777.*credit/);
  await confirm(page, `Not settled… ${lost}`);
  await shows(page, '.refused', /422: not_settled is refused until/);
  await page.getByLabel('Also while the money can still move').check();
  await submit(page);
  await shows(page, '.toast', / is failed$/);
  await page.getByRole('combobox', { name: 'State' }).selectOption('failed');
  await row(page, 'payments', lost).waitFor();
  t.match(await row(page, 'payments', lost).textContent(), /not_settled/);
  t.equal(await page.locator('#open-payments').count(), 0);
  await page.getByText('None.', { exact: true }).waitFor();
});

t.test('acts are filtered, and deliveries of webhooks are sent again', async (t) => {
  const running = await start(t);
  const { adminUrl, ledger } = running;
  const headers = { authorization: 'Bearer operator' };
  const body = JSON.stringify({ id: 'made', label: HOSTILE });
  await fetch(`${adminUrl}/accounts`, { method: 'POST', headers, body });
  await ledger.webhooks.emit({ type: 'key.created', account: 'acme', data: {} });
  await ledger.webhooks.fanOut(() => ['books']);
  const [due] = await ledger.webhooks.due(['books'], 1);
  if (due === undefined) throw new Error('no delivery');
  await ledger.webhooks.attempted(due, { state: 'failed', pauseMs: 0, result: '500' });
  const page = await openView(t, running, '#/webhooks');
  await page.getByRole('combobox', { name: 'State' }).selectOption('failed');
  await row(page, 'deliveries', due.message).waitFor();
  t.match(await row(page, 'deliveries', due.message).textContent(), /failed.*500/);
  await confirm(page, `Send again ${due.message}`);
  await shows(page, '.toast', / is due to books$/);
  t.ok((await ledger.webhooks.list({ state: 'pending' })).some(({ message }) => message === due.message));
  await goTo(page, '#/acts');
  await until('acts', async () => (await page.locator('#acts tbody tr').count()) === 2);
  await page.getByLabel('actor').fill('the-operator');
  await page.keyboard.press('Enter');
  await until('filtered', async () => (await page.locator('#acts tbody tr').count()) === 1);
  await shows(page, '#acts tbody', /^\d+20.*the-operator, operatorhttp 127\.0\.0\.1account\.createmadedone/);
  await page.getByText('Show', { exact: true }).click();
  t.match(await page.locator('#acts pre').textContent(), /"label": "<img/);
  t.equal(await page.locator('main img').count(), 0);
});

t.test('views are opened by keyboard: the heading gets the focus, and the address names the view', async (t) => {
  const running = await start(t);
  const page = await openView(t, running, '#/acts');
  await tabTo(page, 'Accounts');
  await page.keyboard.press('Enter');
  await until(
    'focus',
    async () => (await page.title()) === 'Accounts · Headrace' && (await focusedName(page)) === 'Accounts',
  );
  await row(page, 'accounts', 'acme').waitFor();
  await tabTo(page, 'acme');
  await page.keyboard.press('Enter');
  // The link that was followed has this name too.
  await until('title', async () => (await page.title()) === 'acme · Headrace');
  await until('focus', async () => (await focusedName(page)) === 'acme');
  await page.waitForURL(/#\/accounts\/acme$/);
  t.equal(await page.locator('.side nav [aria-current]').textContent(), 'Accounts');
  await page.goBack();
  await row(page, 'accounts', 'acme').waitFor();
});

t.test('all views fit on a phone and pass axe, light and dark', async (t) => {
  const running = await start(t);
  const { ledger } = running;
  await spend(running, 2);
  await ledger.createAccount({ id: HOSTILE, label: 'a'.repeat(150) });
  await ledger.budgets.set({
    id: 'b',
    account: 'acme',
    key: null,
    model: null,
    period: 'day',
    limit: USD,
    soft: USD / 2n,
  });
  await openPayment(ledger, 1, -1000);
  await ledger.webhooks.emit({ type: 'key.created', account: 'acme', data: {} });
  await ledger.webhooks.fanOut(() => ['books']);
  const page = await openView(t, running, '#/accounts', OWNER, { bypassCSP: true, ...PHONE });
  for (const path of [
    '#/accounts',
    '#/accounts/acme',
    '#/keys',
    '#/spend',
    '#/tools',
    '#/payments',
    '#/acts',
    '#/webhooks',
  ]) {
    await goTo(page, path);
    await checkView(t, page, path, [360, 800, 1200]);
  }
  await goTo(page, '#/accounts/acme');
  await page.getByRole('button', { name: 'Edit key-of-acme' }).click();
  await checkView(t, page, 'the dialog', [1200]);
});

t.test('long names fit in narrow windows, and what scrolls is reached by keyboard', async (t) => {
  const running = await start(t);
  await spend(running, 1);
  await running.ledger.createAccount({ id: 'long', label: 'a'.repeat(150) });
  const options = { bypassCSP: true, viewport: { width: 320, height: 640 } };
  const page = await openView(t, running, '#/accounts/long', OWNER, options);
  await page.getByText('a'.repeat(150)).waitFor();
  await checkView(t, page, 'a long label', [320, 360]);
  // As of a model with such a name.
  await page.route('**/usage?*', async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, body: (await answer.text()).replaceAll(MODEL, 'm'.repeat(120)) });
  });
  for (const path of ['#/accounts/acme', '#/spend']) {
    await goTo(page, path);
    await page.locator('.legend', { hasText: 'm'.repeat(120) }).waitFor();
    await checkView(t, page, path, [320, 360]);
  }
  const accounts = `${running.adminUrl}/accounts`;
  const headers = { authorization: `Bearer ${OWNER}`, 'content-type': 'application/json' };
  await fetch(accounts, { method: 'POST', headers, body: JSON.stringify({ id: 'b', label: 'b '.repeat(100) }) });
  await goTo(page, '#/acts');
  await page.locator('#acts summary').first().click();
  await checkView(t, page, 'details of an act', [320, 360]);
});
