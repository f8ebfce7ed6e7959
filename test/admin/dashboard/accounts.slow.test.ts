// The views of the dashboard that need an admin token, in a real browser: accounts, one account, payments, acts and webhooks, over
// a gateway with a SQLite ledger and an operator of each role.

import { join } from 'node:path';
import axe from 'axe-core';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { hashKey, type Ledger } from '../../../src/billing/index.ts';
import { createGateway } from '../../../src/gateway/gateway.ts';
import { focusedName, openPage, row, shows, startBrowser, tabTo } from '../../support/browser.ts';
import { bearer, endow, openTestLedger, PRICING, USD, usageOf } from '../../support/ledger-fixture.ts';
import { chat, MODEL, settingsFor, startHosts, until } from '../../support/system.ts';

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
  const store = `sqlite:${join(t.testdir(), 'ledger.db')}`;
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
  const page = await openPage(t, `${adminUrl}/dashboard`, options, expected);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByLabel('Admin token').fill(token);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
  await goTo(page, path);
  return page;
}

async function goTo(page: Page, path: string): Promise<void> {
  await page.evaluate(`location.hash = ${JSON.stringify(path)}`);
  const view = path.split('/').length > 2 ? 'account' : path.slice('#/'.length);
  await page.locator(`#view-${view}`).waitFor();
}

/** Fills the dialog, sends it and waits for its end. */
async function confirm(page: Page, button: string, fields: Readonly<Record<string, string>> = {}): Promise<void> {
  await page.getByRole('button', { name: button, exact: true }).click();
  for (const [label, value] of Object.entries(fields)) await page.getByRole('dialog').getByLabel(label).fill(value);
  await page.locator('#do-it').click();
}

t.test('views need a token, which stays in this tab and is sent as a header alone', async (t) => {
  const running = await start(t);
  const page = await openPage(t, `${running.adminUrl}/dashboard#/accounts`, {}, /status of 401/);
  const asked: { url: string; authorization: string | undefined }[] = [];
  page.on('request', (request) => {
    const { authorization } = request.headers();
    if (!request.url().endsWith('/overview')) asked.push({ url: request.url(), authorization });
  });
  await shows(page, '#view-note', /needs an admin token/);
  t.equal(await page.locator('#view-accounts').isVisible(), false);
  t.same(asked, [], 'nothing is asked without a token');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.keyboard.type('wrong');
  await page.keyboard.press('Enter');
  await shows(page, '#refused', /401: the admin token is required/);
  await page.keyboard.type(OWNER);
  await page.keyboard.press('Enter');
  await shows(page, '#status', /^Signed in as adminToken, owner$/);
  await row(page, 'accounts', 'acme').waitFor();
  await shows(page, '#who', /^adminToken, owner$/);
  const kept = 'JSON.stringify([Object.values(sessionStorage), Object.values(localStorage), document.cookie])';
  t.equal(await page.evaluate(kept), JSON.stringify([[OWNER], [], '']));
  t.ok(asked.length > 2);
  for (const { authorization, url } of asked) {
    t.notMatch(url, OWNER);
    t.match(authorization, /^Bearer (wrong|sesame)$/);
  }
  await page.reload();
  await row(page, 'accounts', 'acme').waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await shows(page, '#view-note', /needs an admin token/);
  t.equal(await page.evaluate(kept), JSON.stringify([[], [], '']));
  t.equal(await page.locator('#accounts tbody tr').count(), 0, 'nothing stays in the page');
});

t.test('accounts with spending, pages and names that are markup', async (t) => {
  const running = await start(t);
  const { ledger } = running;
  const amount = await spend(running, 2);
  await ledger.createAccount({ id: HOSTILE, label: HOSTILE });
  await ledger.setOrganisation('acme', HOSTILE);
  for (let i = 10; i < 40; i++) await ledger.createAccount({ id: `more-${i}` });
  const page = await openView(t, running, '#/accounts', OWNER, {}, /status of 404/);
  const usd = `0.${String(amount).padStart(12, '0').replace(/0+$/, '')}`;
  await until('spending', async () => ((await row(page, 'accounts', 'acme').textContent()) ?? '').includes(usd));
  t.equal(await row(page, 'accounts', 'acme').locator('td', { hasText: usd }).count(), 2, 'today and this month');
  t.match(await row(page, 'accounts', 'acme').locator('polyline').getAttribute('points'), /^0\.0,.* 100\.0,2\.0$/);
  t.equal(await page.locator('#accounts tbody tr').count(), 25);
  t.equal(await page.locator('#all-requests tbody tr').count(), 2, 'requests of all accounts');
  await page.locator('#accounts-more').focus();
  await page.keyboard.press('Enter');
  await row(page, 'accounts', 'more-39').waitFor();
  t.equal(await page.locator('#accounts tbody tr').count(), 32);
  t.equal(await page.locator('#accounts-more').isVisible(), false, 'no further page');
  await row(page, 'accounts', 'acme').getByRole('link', { name: HOSTILE }).click();
  await shows(page, '#account-title', /^<img.*, <img/);
  t.equal(await page.locator('img').count(), 0);
  t.equal(await page.evaluate('window.hit'), undefined);
  await page.getByRole('link', { name: 'Accounts' }).click();
  await page.getByLabel('Account id').fill('nobody');
  await page.keyboard.press('Enter');
  await shows(page, '#view-refused', /404: No account 'nobody'/);
  t.equal(await page.locator('#view-account').isVisible(), false);
});

t.test('the page of an account: limits, budgets, usage, history and requests', async (t) => {
  const running = await start(t);
  const { ledger } = running;
  const spent = await spend(running, 3);
  const budget = { account: 'acme', key: null, model: null, soft: null } as const;
  await ledger.budgets.set({ id: 'large', ...budget, period: 'month', limit: 4n * USD, soft: 3n * USD });
  await ledger.budgets.set({ id: 'small', ...budget, period: 'day', limit: spent / 2n });
  await ledger.budgets.set({ id: 'near', ...budget, period: 'week', limit: spent * 2n, soft: spent / 2n });
  for (let i = 0; i < 30; i++) await ledger.grant({ id: `gift-${i}`, account: 'acme', amount: USD });
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
  t.equal(await page.locator('#budgets rect.spent.bad').getAttribute('width'), '100');
  await shows(page, '#usage tbody', new RegExp(`^\\d{4}-\\d\\d-\\d\\d${MODEL}3`));
  t.equal(await page.locator('#requests tbody tr').count(), 3);
  t.equal(await page.locator('#movements tbody tr').count(), 25);
  await page.locator('#movements-more').click();
  await row(page, 'movements', 'grant:grant-acme').waitFor();
  t.ok((await page.locator('#movements tbody tr').count()) > 31);
  await shows(page, '#account-figures', /Balance, USD34\.9\d+In use0\.0/);
});

t.test('an owner moves credit, and makes, edits, rotates and disables keys', async (t) => {
  const running = await start(t);
  const { ledger } = running;
  await spend(running, 1);
  const page = await openView(t, running, '#/accounts/acme', OWNER, {}, /status of 422/);
  await confirm(page, 'Grant credit', { 'USD, such as': '2.50', Memo: 'for testing' });
  await shows(page, '#status', /^2\.50 USD for acme, balance 7\.\d+ USD$/);
  await confirm(page, 'Adjust', { 'USD, such as': '-1' });
  await shows(page, '#status', /^-1\.00 USD for acme/);
  await confirm(page, 'Change', { 'Credit limit': 'many' });
  await shows(page, '#refused', /^422: credit_limit must be USD/);
  await page.getByLabel('Credit limit').fill('3');
  await page.keyboard.press('Enter');
  await shows(page, '#account-figures', /Credit limit3\.00/);
  const [request] = await ledger.requests.list({});
  await confirm(page, `Refund ${request?.requestId}`);
  await shows(page, '#status', /^Refunded: 0\.\d+ USD for acme$/);
  await shows(page, '#movements tbody', /refund:.*refund.*for testing/);

  await confirm(page, 'Create key', { Label: 'new', 'Requests a minute': '7' });
  const [secret = ''] = /hr_[\w-]{43}/.exec((await page.locator('.secret').textContent()) ?? '') ?? [];
  const keys = await ledger.listKeys('acme');
  const made = keys.find(({ prefix }) => prefix === secret.slice(0, 9));
  t.match(made, { label: 'new', limits: { requestsPerMinute: 7 } });
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
  await shows(page, '#status', new RegExp(`^${made?.id} is disabled$`));
  await until('hidden', async () => (await page.getByRole('button', { name: `Disable ${made?.id}` }).count()) === 0);

  await confirm(page, 'Set budget', { 'USD in the period': '8', 'Alert at': '50%' });
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
    const texts = await page.locator('#view-account button:visible').allTextContents();
    await goTo(page, '#/payments');
    texts.push(...(await page.locator('#view-payments button:visible').allTextContents()));
    const isDisabled = await page.getByRole('button', { name: 'Reload configuration' }).isDisabled();
    t.equal(isDisabled, true, 'there is no file');
    await page.getByRole('link', { name: 'Overview' }).click();
    const drain = page.locator('#crns button').first();
    await drain.waitFor();
    await until('drain', async () => (await drain.isDisabled()) === (token === 'viewer'));
    return texts;
  };
  t.same(await seen('viewer'), ['Refresh', 'Refresh']);
  const ofOperator = ['Refresh', 'Create key', 'Set budget', 'Edit', 'Budget', 'Rotate', 'Disable', 'Refresh'];
  t.same(await seen('operator'), ofOperator);
  t.match((await seen(OWNER)).join(), /Grant credit,Adjust,Refund,Change,.*Settled…,Not settled…/);
});

t.test('payments without a known outcome come first and are decided by keyboard', async (t) => {
  const running = await start(t);
  const { ledger } = running;
  const [moved, lost] = [await openPayment(ledger, 1, -1000), await openPayment(ledger, 2, 600_000)];
  const page = await openView(t, running, '#/payments', OWNER, {}, /status of 422/);
  t.equal(await page.locator('#open-payments tbody tr').count(), 2);
  await tabTo(page, `Settled… ${moved}`);
  await page.keyboard.press('Enter');
  t.equal((await ledger.findPayment(moved))?.state, 'submitted', 'nothing without confirmation');
  await page.keyboard.type(TRANSACTION);
  await page.keyboard.press('Enter');
  await shows(page, '#status', / is settled$/);
  t.match(await ledger.findPayment(moved), { state: 'settled' });
  t.match(await row(page, 'payments', moved).textContent(), /0x7777.*credit/);
  await confirm(page, `Not settled… ${lost}`);
  await shows(page, '#refused', /422: not_settled is refused until/);
  await page.getByLabel('Also while the money can still move').check();
  await page.locator('#do-it').click();
  await shows(page, '#status', / is failed$/);
  await page.getByLabel('State').first().selectOption('failed');
  await until('listed', async () => /not_settled/.test((await row(page, 'payments', lost).textContent()) ?? ''));
  t.equal(await page.locator('#open-payments-empty').isVisible(), true);
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
  await ledger.webhooks.attempted(due, { state: 'failed', dueMs: due.dueMs, result: '500' });
  const page = await openView(t, running, '#/webhooks');
  await page.getByLabel('State').last().selectOption('failed');
  await until('filtered', async () =>
    /failed.*500/.test((await row(page, 'deliveries', due.message).textContent()) ?? ''),
  );
  await confirm(page, `Send again ${due.message}`);
  await shows(page, '#status', / is due to books$/);
  t.ok((await ledger.webhooks.list({ state: 'pending' })).some(({ message }) => message === due.message));
  await goTo(page, '#/acts');
  t.equal(await page.locator('#acts tbody tr').count(), 2);
  await page.getByLabel('actor').fill('the-operator');
  await page.keyboard.press('Enter');
  await shows(page, '#acts tbody', /^\d+20.*the-operator, operatorhttp 127\.0\.0\.1account\.createmadedone/);
  await page.getByText('Show', { exact: true }).click();
  t.match(await page.locator('#acts pre').textContent(), /"label": "<img/);
  t.equal(await page.locator('img').count(), 0);
});

t.test('views are opened by keyboard: the heading gets the focus, and the address names the view', async (t) => {
  const running = await start(t);
  const page = await openView(t, running, '#/acts');
  await tabTo(page, 'Accounts');
  await page.keyboard.press('Enter');
  await until('focus', async () => (await focusedName(page)) === 'Accounts');
  await tabTo(page, 'acme');
  await page.keyboard.press('Enter');
  // The link that was followed has this name too.
  await until('title', async () => (await page.title()) === 'acme – Headrace dashboard');
  await until('focus', async () => (await focusedName(page)) === 'acme');
  t.equal(new URL(page.url()).hash, '#/accounts/acme');
  t.equal(await page.locator('nav [aria-current]').textContent(), 'Accounts');
  await page.goBack();
  await row(page, 'accounts', 'acme').waitFor();
});

for (const colorScheme of ['light', 'dark'] as const) {
  t.test(`all views fit on a phone and pass axe, ${colorScheme}`, async (t) => {
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
    const page = await openView(t, running, '#/accounts', OWNER, { colorScheme, bypassCSP: true, ...PHONE });
    await page.evaluate(axe.source);
    const check = async (name: string): Promise<void> => {
      const { violations } = (await page.evaluate('axe.run()')) as { violations: { id: string; nodes: unknown[] }[] };
      t.same(
        violations.map(({ id, nodes }) => `${id}: ${JSON.stringify(nodes).slice(0, 400)}`),
        [],
        name,
      );
    };
    for (const path of ['#/accounts', '#/accounts/acme', '#/payments', '#/acts', '#/webhooks']) {
      await goTo(page, path);
      for (const width of [360, 800, 1200]) {
        await page.setViewportSize({ width, height: 740 });
        const wide = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
        t.equal(await page.evaluate(wide), 0, `no sideways scroll at ${width} in ${path}`);
        await check(`axe at ${width} in ${path}`);
      }
    }
    await goTo(page, '#/accounts/acme');
    await page.getByRole('button', { name: 'Edit key-of-acme' }).click();
    await check('axe in the dialog');
  });
}
