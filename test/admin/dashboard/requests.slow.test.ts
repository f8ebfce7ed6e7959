// The views of requests and of the configuration in a real browser, in front of a whole gateway with two simulated hosts.

import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { hashToken } from '../../../src/admin/index.ts';
import type { SettingsInput } from '../../../src/config/settings.ts';
import { createGateway } from '../../../src/gateway/gateway.ts';
import type { Host } from '../../../src/host/index.ts';
import { checkView, openPage, startBrowser, tabTo } from '../../support/browser.ts';
import { startServe } from '../../support/system-cli.ts';
import { chat, settingsFor, startHosts, until } from '../../support/system.ts';

const HOSTILE = '<img/src=x/onerror=window.hit=1>';
const PHONE = { viewport: { width: 360, height: 740 } };

startBrowser(t);

interface Running {
  readonly url: string;
  readonly adminUrl: string;
  readonly hosts: readonly Host[];
}

async function start(t: Test, settings: SettingsInput = {}, interTokenMs = 1): Promise<Running> {
  const hosts = await startHosts(t, [{ interTokenMs }, { interTokenMs }]);
  const base = settingsFor(hosts, { admin: '127.0.0.1:0', routing: { affinity: false }, adminToken: 'sesame' });
  const gateway = createGateway({ ...base, ...settings });
  t.teardown(() => gateway.close());
  const { url, adminUrl } = await gateway.listen();
  await gateway.ready();
  return { url, adminUrl: adminUrl ?? '', hosts };
}

async function ask(url: string, id: string, more: Parameters<typeof chat>[1] = {}): Promise<void> {
  await (await chat(url, { ...more, headers: { 'x-request-id': id } })).text();
}

async function signIn(page: Page, token = 'sesame'): Promise<void> {
  await page.getByRole('button', { name: 'Sign in' }).first().click();
  await page.getByLabel('Admin token').fill(token);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
}

/** Request ids of the log that is shown, newest first. */
async function shown(page: Page): Promise<string[]> {
  return page.locator('#log-requests tbody th a').allTextContents();
}

async function showsRows(page: Page, ids: readonly string[]): Promise<void> {
  let seen: readonly string[] = [];
  await until(`the rows ${ids.join(', ')}`, async () => {
    seen = await shown(page);
    return JSON.stringify(seen) === JSON.stringify(ids);
  }).catch((error: unknown) => {
    throw new Error(`${String(error)}; it shows ${seen.join(', ')}`);
  });
}

t.test('the log shows what ended, goes on, and filters are in the address', async (t) => {
  const { url, adminUrl } = await start(t);
  await ask(url, 'first');
  const page = await openPage(t, `${adminUrl}/#/requests`, {}, /status of 422/);
  await page.getByText('This view needs an admin token.').waitFor();
  await signIn(page);
  await showsRows(page, ['first']);
  await ask(url, 'second', { stream: true });
  await ask(url, 'hostile', { model: HOSTILE });
  await showsRows(page, ['hostile', 'second', 'first']);
  t.match(await page.locator('#log-requests tbody tr').first().textContent(), HOSTILE);
  await page.getByRole('search').getByLabel('Status').selectOption('4xx');
  await showsRows(page, ['hostile']);
  await page.waitForURL(/#\/requests\?status=4xx$/);
  await page.getByRole('button', { name: 'Clear' }).click();
  await showsRows(page, ['hostile', 'second', 'first']);
  await page.getByRole('search').getByLabel('Search').fill('SECOND');
  await page.keyboard.press('Enter');
  await showsRows(page, ['second']);
  await page.waitForURL(/#\/requests\?q=SECOND$/);
  await page.goto(`${adminUrl}/#/requests?status=error&code=HR_ROUTE_UNKNOWN_MODEL`);
  await showsRows(page, ['hostile']);
  t.equal(await page.getByRole('search').getByLabel('Code').inputValue(), 'HR_ROUTE_UNKNOWN_MODEL', 'a shared address');
  const [save] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Save CSV' }).click(),
  ]);
  const csv = readFileSync(await save.path(), 'utf8').split('\r\n');
  t.equal(csv.length, 3);
  t.match(csv[0], /^cursor,requestId,dateMs,method,endpoint,/);
  t.match(csv[1], `,hostile,`);
  const [lines] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Save JSONL' }).click(),
  ]);
  t.match(JSON.parse(readFileSync(await lines.path(), 'utf8')), { requestId: 'hostile', alias: HOSTILE });
  await page.goto(`${adminUrl}/#/requests?slowerThan=2`);
  await page.getByText('slowerThan must be a duration with its unit').waitFor();
  t.equal(await page.evaluate('window.hit'), undefined);
});

t.test('at 1400 px a row of the log is as high as its lines, and the table is as wide as its box', async (t) => {
  const { url, adminUrl } = await start(t);
  await (await chat(url)).text();
  const page = await openPage(t, `${adminUrl}/#/requests`, { viewport: { width: 1400, height: 900 } });
  await signIn(page);
  const row = page.locator('#log-requests tbody tr').first();
  await row.waitFor();
  const wrapped = `[...document.querySelectorAll('#log-requests tbody tr:first-child :is(a, time)')]
    .filter((node) => node.getClientRects().length > 1).map((node) => node.textContent)`;
  t.same(await page.evaluate(wrapped), []);
  const box = "document.querySelector('#log-requests').closest('.scroll-box')";
  t.equal(await page.evaluate(`${box}.scrollWidth - ${box}.clientWidth`), 0);
});

t.test('older rows come when they are asked for', async (t) => {
  const { url, adminUrl } = await start(t);
  for (let from = 0; from < 130; from += 10) {
    await Promise.all(Array.from({ length: 10 }, (_, i) => ask(url, `r${from + i}`)));
  }
  const page = await openPage(t, `${adminUrl}/#/requests`);
  await signIn(page);
  await until('a page', async () => (await shown(page)).length === 100);
  await page.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByRole('button', { name: /^Show \d+ more$/ }).click();
  await until('all rows', async () => new Set(await shown(page)).size === 130);
});

t.test('a request that is under way, and then its page with attempts and texts', async (t) => {
  const { url, adminUrl, hosts } = await start(t, { requestLog: { prompts: true } }, 500);
  await hosts[0]?.setFault([{ fault: { status: 500 } }]);
  let turn = 0;
  const failedOver = async (): Promise<boolean> => {
    await ask(url, `turn-${turn++}`, { text: 'Where does the water go?', tokens: 1 });
    const headers = { authorization: 'Bearer sesame' };
    const log = (await (await fetch(`${adminUrl}/requests/log?q=status+500`, { headers })).json()) as {
      data: unknown[];
    };
    return log.data.length > 0;
  };
  await until('a request that left the first CRN', failedOver);
  const page = await openPage(t, `${adminUrl}/#/requests?q=status+500`);
  await signIn(page);
  const abort = new AbortController();
  const slow = await chat(url, {
    stream: true,
    tokens: 100_000,
    headers: { 'x-request-id': 'running' },
    signal: abort.signal,
  });
  await slow.body?.getReader().read();
  const live = page.locator('#live-requests tbody tr').filter({ hasText: 'running' });
  await live.getByText('streaming').waitFor();
  abort.abort();
  await page.getByText('No request is under way.').waitFor();
  await page.locator('#log-requests tbody th a').first().click();
  await page.getByRole('heading', { name: 'Request', exact: true }).waitFor();
  const rows = page.locator('#attempts tbody tr');
  await rows.nth(1).waitFor();
  t.match(await rows.nth(0).textContent(), hosts[0]?.url ?? '');
  t.match(await rows.nth(1).textContent(), /answered/);
  await page.getByText('user: Where does the water go?').waitFor();
  const address = page.url();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.goto(address);
  await page.getByText('This view needs an admin token.').waitFor();
});

t.test('what is gone from the log is said to be', async (t) => {
  const { adminUrl } = await start(t, { adminToken: null });
  const page = await openPage(t, `${adminUrl}/#/requests/none`, {}, /status of 404/);
  await page.getByText('any more, or never had one').waitFor();
});

t.test('the configuration: search, what differs, secrets, and a reload with mistakes', async (t) => {
  const hosts = await startHosts(t);
  const origins = Array.from({ length: 40 }, (_, number) => `https://${number}.example`);
  const settings = { adminToken: 'sesame', timeouts: { idle: '90s' }, cors: { origins } };
  const { adminUrl, rewrite } = await startServe(t, hosts, settings);
  const page = await openPage(t, `${adminUrl}/#/configuration`, {}, /status of 422/);
  await signIn(page);
  const row = (path: string): ReturnType<Page['locator']> =>
    page.locator('#settings tbody tr').filter({ hasText: path });
  await row('timeouts.connect').waitFor();
  await page.setViewportSize({ width: 768, height: 700 });
  await until(
    'the table scrolls',
    async () => (await page.getByRole('region', { name: 'All settings' }).count()) === 1,
  );
  t.equal(await page.getByRole('region', { name: 'Settings', exact: true }).count(), 1, 'each region has its own name');
  await page.getByLabel('Only what differs from the defaults').check();
  await row('timeouts.connect').waitFor({ state: 'detached' });
  await page.locator('#settings summary').first().click();
  await page.locator('#settings pre').first().focus();
  t.equal(await page.evaluate('document.activeElement.tagName'), 'PRE', 'a long value scrolls by keyboard');
  t.match(await row('timeouts.idle').textContent(), /90s.*60s.*file/);
  t.match(await row('adminToken').first().textContent(), /\(set\)/);
  await page.waitForURL(/only=differing$/);
  await page.getByRole('searchbox', { name: /^Filter/ }).fill('silence of a server');
  await until('one row', async () => (await page.locator('#settings tbody tr').count()) === 1);
  t.notMatch(await page.content(), /hr_system|sesame/);
  rewrite({ limits: { bodyBytes: 'much' }, keys: { required: false } });
  await page.getByRole('button', { name: 'Reload the file' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Reload' }).click();
  await page.getByText(/limits\.bodyBytes: must be a size/).waitFor();
});

t.test('fits from phone to wide screen, passes axe, light and dark, and works by keyboard', async (t) => {
  const { url, adminUrl } = await start(t, { adminToken: null, adminTokens: [] });
  await ask(url, 'a'.repeat(120));
  await ask(url, 'short', { model: 'm'.repeat(120) });
  const page = await openPage(t, `${adminUrl}/#/requests`, { bypassCSP: true, ...PHONE });
  await showsRows(page, ['short', 'a'.repeat(120)]);
  await checkView(t, page, 'requests', [360, 1920]);
  await tabTo(page, 'short');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.locator('#attempts tbody tr').waitFor();
  await checkView(t, page, 'one request', [360, 1920]);
  // Not all settings: axe takes seconds for them.
  await page.goto(`${adminUrl}/#/configuration?only=differing`);
  await page.locator('#settings tbody tr').first().waitFor();
  await checkView(t, page, 'configuration', [360, 1920]);
});

t.test('the token of a viewer reads all of it but texts', async (t) => {
  const adminTokens = [{ name: 'vera', role: 'viewer' as const, sha256: hashToken('look').toString('hex') }];
  const { url, adminUrl } = await start(t, { adminTokens, requestLog: { prompts: true } });
  await ask(url, 'kept');
  const page = await openPage(t, `${adminUrl}/#/requests/kept`);
  await signIn(page, 'look');
  await page.getByText('They are kept, and only operators may read them.').waitFor();
});
