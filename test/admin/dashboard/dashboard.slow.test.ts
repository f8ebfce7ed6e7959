// The dashboard in a real browser, in front of a whole gateway with two simulated hosts.

import { createHash } from 'node:crypto';
import axe from 'axe-core';
import t, { type Test } from 'tap';
import type { SettingsInput } from '../../../src/config/settings.ts';
import { dashboardPage, dashboardPolicy } from '../../../src/admin/dashboard/dashboard-page.ts';
import { createGateway, type Gateway } from '../../../src/gateway/gateway.ts';
import type { Host } from '../../../src/host/index.ts';
import { focusedName, openPage, row, shows, startBrowser, tabTo } from '../../support/browser.ts';
import { chat, MODEL, readStream, settingsFor, startHosts, until } from '../../support/system.ts';

const TOKEN = 'sesame';
const HOSTILE = '<img src=x onerror=window.hit=1>';
const PHONE = { viewport: { width: 360, height: 740 } };

startBrowser(t);

interface Running {
  readonly url: string;
  readonly adminUrl: string;
  readonly hosts: readonly Host[];
  readonly gateway: Gateway;
}

async function start(t: Test, settings: SettingsInput = {}): Promise<Running> {
  const hosts = await startHosts(t, [{ models: [MODEL, HOSTILE] }, {}]);
  const base = settingsFor(hosts, { admin: '127.0.0.1:0', adminToken: TOKEN });
  const models = { ...base.models, [HOSTILE]: { servers: [hosts[0]?.url ?? ''] } };
  const gateway = createGateway({ ...base, models, ...settings });
  t.teardown(() => gateway.close());
  const { url, adminUrl } = await gateway.listen();
  await gateway.ready();
  return { url, adminUrl: adminUrl ?? '', hosts, gateway };
}

t.test('the policy names the script and the style, and nothing is loaded from elsewhere', async (t) => {
  for (const tag of ['script', 'style']) {
    const [, text = ''] = new RegExp(`<${tag}>([^]*?)</${tag}>`).exec(dashboardPage) ?? [];
    const hash = createHash('sha256').update(text).digest('base64');
    t.ok(dashboardPolicy.includes(`${tag}-src 'sha256-${hash}'`), tag);
    t.notMatch(text, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|localStorage|url\(/);
  }
  t.notMatch(dashboardPolicy, /unsafe|\*|https?:/);
  t.notMatch(dashboardPage, /(src|href)="(https?:)?\/\//);
  const { adminUrl } = await start(t);
  for (const path of ['/dashboard']) {
    const answer = await fetch(adminUrl + path);
    t.same([answer.status, answer.headers.get('content-security-policy')], [200, dashboardPolicy], path);
    t.equal(await answer.text(), dashboardPage);
  }
  const page = await openPage(t, `${adminUrl}/dashboard`);
  const asked: string[] = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  await page.reload();
  await shows(page, '#status', /^Live$/);
  t.same([...new Set(asked)], ['/dashboard', '/overview']);
});

t.test('shows the overview and updates it', async (t) => {
  const { url, adminUrl, hosts } = await start(t);
  const page = await openPage(t, `${adminUrl}/dashboard`);
  await shows(page, '#about', /^\d+\.\d+\.\d+, ready, up \d+ s$/);
  for (const host of hosts) t.match(await row(page, 'crns', host.url).textContent(), /● up/);
  t.match(await row(page, 'models', MODEL).textContent(), /–/);
  await shows(page, '#rate', /^0$/);
  const keepAsking = async (): Promise<void> => {
    await readStream(await chat(url, { stream: true, tokens: 4 }));
    await chat(url, { model: 'gone', headers: { 'x-request-id': 'lost-1' } });
  };
  await until('a rate and times', async () => {
    await keepAsking();
    const texts = await page.locator('#rate, #p50, #first-byte').allTextContents();
    return texts.every((text) => /[1-9]/.test(text));
  });
  t.ok(((await page.locator('#plot-rate .first').getAttribute('points')) ?? '').split(' ').length > 1, 'a line');
  t.match(await page.locator('#plot-latency .value').textContent(), /\d m?s \/ .*\d m?s, most/);
  t.match(await row(page, 'errors', 'lost-1').first().textContent(), /404HR_ROUTE_UNKNOWN_MODEL/);
  t.match(await row(page, 'threads', '0').textContent(), /%.*MiB/);
  await hosts[1]?.kill();
  await until('down', async () => /▼ down/.test((await row(page, 'crns', hosts[1]?.url ?? '').textContent()) ?? ''));
});

t.test('changes texts in place: what has the focus keeps it', async (t) => {
  const { url, adminUrl, hosts } = await start(t);
  const page = await openPage(t, `${adminUrl}/dashboard`);
  await shows(page, '#status', /^Live$/);
  const name = `Drain ${hosts[0]?.url}`;
  await page.getByRole('button', { name }).focus();
  await page.evaluate(
    "document.querySelectorAll('#models tbody tr, #crns tbody tr').forEach((row) => { row.mark = 1; })",
  );
  await (await chat(url)).text();
  await until('counted', async () => ((await row(page, 'models', MODEL).textContent()) ?? '').endsWith('1000'));
  t.equal(await focusedName(page), name);
  const marks = "[...document.querySelectorAll('#models tbody tr, #crns tbody tr')].every((row) => row.mark === 1)";
  t.equal(await page.evaluate(marks), true, 'every row is the one it was');
});

t.test('a name that is markup stays text', async (t) => {
  const { url, adminUrl } = await start(t);
  const page = await openPage(t, `${adminUrl}/dashboard`);
  await (await chat(url, { model: HOSTILE })).text();
  await until('counted', async () => ((await row(page, 'models', HOSTILE).textContent()) ?? '').endsWith('1000'));
  t.equal(await page.locator('img').count(), 0);
  t.equal(await page.evaluate('window.hit'), undefined);
});

t.test('drains and returns a CRN by keyboard alone, with token and confirmation', async (t) => {
  const { adminUrl, hosts, gateway } = await start(t);
  const page = await openPage(t, `${adminUrl}/dashboard`, {}, /status of 401/);
  await shows(page, '#status', /^Live$/);
  const url = hosts[1]?.url ?? '';
  const standing = (): string | undefined => gateway.crns().find((crn) => crn.url === url)?.standing;
  const stops = await tabTo(page, `Drain ${url}`);
  t.equal(stops[0], 'Skip to main content');
  t.ok(stops.includes('Pause'));
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Drain this CRN?' });
  t.match(await dialog.textContent(), url);
  await page.keyboard.press('Escape');
  t.equal(await dialog.isVisible(), false);
  t.equal(standing(), 'up', 'nothing without confirmation');
  t.equal(await focusedName(page), `Drain ${url}`, 'the focus is back');

  await page.keyboard.press('Enter');
  await page.keyboard.type('wrong');
  await page.keyboard.press('Enter');
  await shows(page, '#refused', /401: the admin token is required/);
  t.equal(standing(), 'up');
  await page.keyboard.type(TOKEN);
  await page.keyboard.press('Enter');
  await shows(page, '#status', new RegExp(`^${url} is drained$`));
  t.equal(standing(), 'drained');
  await until('shown', async () => /■ drained/.test((await row(page, 'crns', url).textContent()) ?? ''));
  t.equal(await focusedName(page), `Drain ${url}`);

  await tabTo(page, `Return ${url}`);
  await page.keyboard.press('Enter');
  t.equal(await page.locator('#token').isVisible(), false, 'the tab knows the token');
  await page.keyboard.press('Enter');
  await until('returned', () => standing() === 'up');
  await shows(page, '#status', new RegExp(`^${url} is (returned|up)$`));
  const kept = 'JSON.stringify([Object.values(sessionStorage), Object.values(localStorage)])';
  t.equal(await page.evaluate(kept), JSON.stringify([[TOKEN], []]));
});

t.test('ejects for the given time, and shows what is wrong with it', async (t) => {
  const { adminUrl, hosts, gateway } = await start(t);
  const page = await openPage(t, `${adminUrl}/dashboard`, {}, /status of 422/);
  const url = hosts[0]?.url ?? '';
  await shows(page, '#status', /^Live$/);
  await page.getByRole('button', { name: `Eject ${url}` }).click();
  await page.getByLabel('Admin token').fill(TOKEN);
  await page.getByLabel('Duration').fill('a while');
  await page.getByRole('button', { name: 'Eject', exact: true }).last().click();
  await shows(page, '#refused', /422: for: a duration/);
  await page.getByLabel('Duration').fill('10m');
  await page.keyboard.press('Enter');
  await until('shown', async () => /ejected, \d+ min left/.test((await row(page, 'crns', url).textContent()) ?? ''));
  t.equal(gateway.crns().find((crn) => crn.url === url)?.standing, 'down');
});

t.test('without a token in the settings actions are disabled, and the page says why', async (t) => {
  const { adminUrl } = await start(t, { adminToken: null });
  const page = await openPage(t, `${adminUrl}/dashboard`);
  await shows(page, '#why', /Admin actions are disabled: adminToken is not set/);
  t.equal(await page.locator('#why').isVisible(), true);
  const buttons = page.locator('#crns button, #reload');
  t.equal(await buttons.count(), 7);
  for (const button of await buttons.all()) {
    t.equal(await button.isDisabled(), true);
    t.equal(await button.getAttribute('aria-describedby'), 'why');
  }
});

t.test('shows when the gateway is gone, and pauses on demand', async (t) => {
  const { adminUrl, gateway } = await start(t);
  const page = await openPage(t, `${adminUrl}/dashboard`, {}, /ERR_CONNECTION/);
  await page.clock.install();
  await page.reload();
  await shows(page, '#status', /^Live$/);
  await page.getByRole('button', { name: 'Pause' }).click();
  await shows(page, '#status', /^Paused$/);
  const asked: string[] = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  await page.clock.fastForward(10_000);
  // A later request: whatever the page asked for before has shown.
  await page.evaluate("fetch('/health').then((answer) => answer.text())");
  t.same(asked, ['/health']);
  await page.getByRole('button', { name: 'Pause' }).click();
  await until('asked again', () => asked.includes('/overview'));
  await gateway.close();
  await shows(page, '#status', /^No answer from the gateway since/);
});

for (const colorScheme of ['light', 'dark'] as const) {
  t.test(`fits on a phone and passes axe, ${colorScheme}`, async (t) => {
    const { url, adminUrl, hosts } = await start(t);
    await (await chat(url, { model: HOSTILE })).text();
    await chat(url, { model: 'gone' });
    // What axe does to look at a page, the policy of this one forbids.
    const page = await openPage(t, `${adminUrl}/dashboard`, { colorScheme, bypassCSP: true, ...PHONE });
    const violations = async (): Promise<string[]> => {
      const { violations: found } = (await page.evaluate('axe.run()')) as {
        violations: { id: string; nodes: unknown[] }[];
      };
      return found.map(({ id, nodes }) => `${id}: ${JSON.stringify(nodes).slice(0, 400)}`);
    };
    await shows(page, '#status', /^Live$/);
    await page.evaluate(axe.source);
    for (const width of [360, 1200]) {
      await page.setViewportSize({ width, height: 740 });
      const wide = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
      t.equal(await page.evaluate(wide), 0, `no sideways scroll at ${width}`);
      t.same(await violations(), [], `axe at ${width}`);
    }
    const ground = await page.evaluate('getComputedStyle(document.body).backgroundColor');
    t.equal(ground, colorScheme === 'dark' ? 'rgb(11, 19, 18)' : 'rgb(244, 247, 246)');
    await page.setViewportSize(PHONE.viewport);
    await page.getByRole('button', { name: `Eject ${hosts[0]?.url}` }).click();
    t.same(await violations(), [], 'axe in the dialog');
    const box = await page.getByRole('dialog').boundingBox();
    t.ok(box !== null && box.x >= 0 && box.x + box.width <= 360);
  });
}
