// The dashboard in a real browser: views of a whole gateway with two simulated hosts, and of documents of any size.

import type { BrowserContextOptions, Locator, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import type { SettingsInput } from '../../../src/config/settings.ts';
import { type AdminRoutes, openAdmin } from '../../../src/admin/admin.ts';
import { respondJson } from '../../../src/admin/admin-exchange.ts';
import { DashboardFiles } from '../../../src/admin/dashboard-files.ts';
import { createGateway, type Gateway } from '../../../src/gateway/gateway.ts';
import type { Host } from '../../../src/host/index.ts';
import { axeFindings, checkView, focusedName, openPage, shows, startBrowser, tabTo } from '../../support/browser.ts';
import { chat, MODEL, readStream, settingsFor, startHosts, until } from '../../support/system.ts';
import { sampleHistory, sampleOverview, type SampleSize } from './sample-documents.ts';

const TOKEN = 'sesame';
const HOSTILE = '<img src=x onerror=window.hit=1>';
const PHONE = { viewport: { width: 360, height: 740 } };
const STATUS = '#status';

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

const RANGES_MS: Readonly<Record<string, number>> = {
  '15m': 900_000,
  '1h': 3_600_000,
  '6h': 21_600_000,
  '24h': 86_400_000,
};

interface Sample {
  readonly adminUrl: string;
  /** Moves the date of the next documents on. */
  readonly advance: (ms: number) => void;
  /** Addresses of the histories that were asked for. */
  readonly histories: string[];
}

/** An admin listener with documents of this size. */
async function startSample(t: Test, size: SampleSize): Promise<Sample> {
  let dateMs = Date.UTC(2026, 10, 20, 12, 0, 0);
  const histories: string[] = [];
  const documents: AdminRoutes = {
    answer: (_req, res, path, query) => {
      if (path === '/overview') respondJson(res, 200, sampleOverview(size, dateMs));
      else if (path === '/history') {
        histories.push(query.toString());
        respondJson(res, 200, sampleHistory(dateMs, RANGES_MS[query.get('range') ?? ''] ?? 0));
      } else return false;
      return true;
    },
  };
  const deps = { status: () => ({}), metrics: async () => [] };
  const admin = await openAdmin({ host: '127.0.0.1', port: 0 }, deps, documents, new DashboardFiles());
  t.teardown(() => admin.close());
  return {
    adminUrl: `http://127.0.0.1:${admin.address.port}`,
    advance: (ms) => {
      dateMs += ms;
    },
    histories,
  };
}

/** Opens a view and waits until it shows something. */
async function openView(t: Test, adminUrl: string, path: string, options: BrowserContextOptions = {}): Promise<Page> {
  const page = await openPage(t, `${adminUrl}/#${path}`, options);
  await shows(page, STATUS, /^Live$/);
  return page;
}

/** The rows of a table that hold this text. */
function row(page: Page, table: string, text: string): Locator {
  return page.locator(`#${table} tbody tr`).filter({ hasText: text });
}

t.test('loads its own files and documents, nothing else', async (t) => {
  const { adminUrl } = await startSample(t, { crns: 2, models: 1 });
  for (const path of ['/', '/dashboard']) {
    const page = await openPage(t, 'about:blank');
    const asked: string[] = [];
    page.on('request', (request) =>
      asked.push(
        request
          .url()
          .replace(adminUrl, '')
          .replace(/\?.*|(?<=chunk)-\w+/g, ''),
      ),
    );
    await page.goto(adminUrl + path);
    await shows(page, STATUS, /^Live$/);
    await page.locator('.plot canvas').first().waitFor();
    t.same(
      [...new Set(asked)].toSorted(),
      [path, '/app.css', '/app.js', '/chunk.js', '/history', '/icon.svg', '/overview'].toSorted(),
    );
  }
});

t.test('the overview shows figures of the last minute and charts from before it was opened', async (t) => {
  const { adminUrl, histories } = await startSample(t, { crns: 12, models: 3 });
  const page = await openView(t, adminUrl, '/');
  const tile = (name: string) => page.locator('.tile').filter({ hasText: name });
  t.match(await tile('Requests per second').textContent(), /per second\d+/);
  t.match(await tile('Latency, median').textContent(), /\d+ msp95 1\.\d+ s p99 \d\.\d+ s/);
  t.match(await tile('Prompt tokens from cache').textContent(), /\d+ %/);
  t.match(await tile('Cost per hour').textContent(), /\$\d+\.\d\dtoday \(UTC\) \$81\.44$/);
  t.match(await tile('In flight').textContent(), /42waiting 2 streams 31/);
  t.match(await page.locator('.crn-summary').textContent(), /12 CRNs● up 8▼ down 1■ drained 1▼ ejected 1◌ probing 1/);
  t.match(await page.locator('.crn-summary').textContent(), /gpu-7\.example\.net:8000 connection refused/);
  await page.locator('.plot canvas').first().waitFor();
  t.equal(await page.locator('.plot canvas').count(), 8);
  t.same(histories, ['range=15m']);
  // What screen readers read of a chart.
  t.match(
    await page.getByRole('application', { name: 'Latency' }).getAttribute('aria-label'),
    /^Latency: p50 now \d+ ms, from \d+ ms to \d+ ms; p95 now/,
  );
  await tile('Errors per second').getByRole('link').click();
  t.equal(await focusedName(page), 'Last errors');
  t.match(await row(page, 'errors', '0b7c4f1e-6f10').textContent(), /504HR_UPSTREAM_TIMEOUT/);
  // Sources of servers are below the CRNs.
  await page.goto(`${adminUrl}/#/crns`);
  t.match(await row(page, 'discovery', 'dns vllm').textContent(), /dns● ok2 addresses are left out81304 s ago/);
  t.match(await row(page, 'discovery', 'file servers.yaml').textContent(), /▼ failingservers\.yaml cannot be read/);
});

t.test('a model or CRN without one of the last errors is not said to have had none', async (t) => {
  const { adminUrl } = await startSample(t, { crns: 12, models: 3 });
  // This CRN counts failed attempts; the gateway remembers the last errors of all alone.
  const page = await openView(t, adminUrl, `/crns/${encodeURIComponent('http://gpu-7.example.net:8000')}`);
  for (const path of ['', '/models/heron-9b']) {
    if (path !== '') await page.goto(`${adminUrl}/#${path}`);
    await page.getByRole('heading', { name: 'Last errors' }).waitFor();
    await until('said', async () =>
      /None among the last errors of the gateway/.test(await page.locator('main').innerText()),
    );
  }
});

t.test('charts share the cursor and the range, by mouse and by keyboard', async (t) => {
  const { adminUrl, histories } = await startSample(t, { crns: 2, models: 1 });
  const page = await openView(t, adminUrl, '/');
  const plot = page.locator('.plot').first();
  await plot.locator('canvas').waitFor();
  const times = (): Promise<string[]> => page.locator('.chart-time').allTextContents();
  t.same(new Set(await times()), new Set(['']), 'no cursor');
  const { height = 0, width = 0 } = (await plot.boundingBox()) ?? {};
  await plot.hover({ position: { x: width * 0.6, y: height / 2 } });
  await until('a cursor in every chart', async () => (await times()).every((text) => /^\d\d:\d\d:\d\d$/.test(text)));
  t.equal(new Set(await times()).size, 1, 'the same time');
  await page.mouse.move(0, 0);

  await plot.focus();
  await page.keyboard.press('End');
  await until('the last point', async () => new Set(await times()).size === 1 && (await times())[0] !== '');
  const [last] = await times();
  await page.keyboard.press('ArrowLeft');
  await until('moved', async () => (await times()).every((text) => text !== '' && text < (last ?? '')));
  await until('read out', async () =>
    /^\d\d:\d\d:\d\d: all [\d.]+, errors [\d.]+, aborted/.test((await page.locator('[aria-live]').textContent()) ?? ''),
  );
  await page.keyboard.press('Escape');
  await until('no cursor', async () => (await times()).every((text) => text === ''));

  await page.getByRole('button', { name: '24 h' }).click();
  await until('the day', () => histories.includes('range=24h'));
  await page.waitForURL(/#\/\?range=24h$/);
  await page.reload();
  t.equal(
    await page.getByRole('button', { name: '24 h' }).getAttribute('aria-pressed'),
    'true',
    'the address keeps it',
  );

  // Dragging over a part of a chart shows that part in all of them.
  await plot.locator('canvas').waitFor();
  const box = await plot.boundingBox();
  const y = (box?.y ?? 0) + 40;
  await page.mouse.move((box?.x ?? 0) + 200, y);
  await page.mouse.down();
  await page.mouse.move((box?.x ?? 0) + 300, y, { steps: 4 });
  await page.mouse.up();
  await page.getByRole('button', { name: 'Whole range' }).click();
  t.equal(await page.getByRole('button', { name: 'Whole range' }).count(), 0);
});

t.test('shows what a gateway does, and updates in place: what has the focus keeps it', async (t) => {
  const { url, adminUrl, hosts } = await start(t);
  const page = await openView(t, adminUrl, '/crns');
  for (const host of hosts) t.match(await row(page, 'crns', host.url).textContent(), /● up/);
  t.equal(await page.getByRole('link', { name: 'API reference' }).getAttribute('href'), `${url}/docs`);
  const name = `Drain ${hosts[0]?.url}`;
  await page.getByRole('button', { name }).focus();
  await page.evaluate("document.querySelectorAll('#crns tbody tr').forEach((row) => { row.mark = 1; })");
  await readStream(await chat(url, { stream: true, tokens: 4 }));
  await (await chat(url)).text();
  await until('counted', async () => /of [1-9]/.test(await page.locator('#crns').innerText()));
  t.equal(await focusedName(page), name);
  t.equal(await page.evaluate("[...document.querySelectorAll('#crns tbody tr')].every((row) => row.mark === 1)"), true);
  await hosts[1]?.kill();
  await until('down, and why', async () =>
    /▼ down.*refused/s.test((await row(page, 'crns', hosts[1]?.url ?? '').textContent()) ?? ''),
  );
  await page.getByRole('link', { name: hosts[1]?.url ?? '' }).click();
  await shows(page, 'h1', new RegExp(hosts[1]?.url ?? ''));
  t.equal(await focusedName(page), hosts[1]?.url, 'the heading has the focus');
  await until('the probe', async () => /Last probe.*refused/s.test(await page.locator('.facts').innerText()));
  t.match(await page.title(), /^http.* · Headrace$/);
  await page.goto(`${adminUrl}/#/threads`);
  t.match(await row(page, 'threads', 'control').textContent(), /0 control.*%.*MiB/);
});

t.test('a mistake of a client is no error of the gateway', async (t) => {
  const { url, adminUrl } = await start(t);
  const page = await openView(t, adminUrl, '/');
  t.equal((await chat(url, { model: 'nobody' })).status, 404);
  await row(page, 'errors', 'HR_ROUTE_UNKNOWN_MODEL').waitFor();
  const tile = page.locator('.tile').filter({ hasText: 'Errors per second' });
  t.match(await tile.textContent(), /^Errors per second0none since the start$/);
});

t.test('what gets the focus is not behind the header', async (t) => {
  const { adminUrl } = await startSample(t, { crns: 40, models: 3 });
  for (const viewport of [{ width: 1280, height: 700 }, PHONE.viewport]) {
    const page = await openView(t, adminUrl, '/crns', { viewport });
    await page.getByRole('button', { name: 'Drain http://gpu-30.example.net:8000' }).focus();
    const isHidden = `(() => {
      const { bottom, top } = document.activeElement.getBoundingClientRect();
      return (top + bottom) / 2 < document.querySelector('header').getBoundingClientRect().bottom;
    })()`;
    const hidden: string[] = [];
    for (let stop = 0; stop < 60; stop++) {
      await page.keyboard.press('Shift+Tab');
      if (await page.evaluate(isHidden)) hidden.push(await focusedName(page));
    }
    t.same(hidden, []);
  }
});

t.test('a name that is markup stays text', async (t) => {
  const { url, adminUrl } = await start(t);
  const page = await openView(t, adminUrl, '/models');
  await (await chat(url, { model: HOSTILE })).text();
  const own = row(page, 'models', HOSTILE);
  await until('counted', async () => /1 of 1 CRN up.*10 errors/.test((await own.textContent()) ?? ''));
  await page.getByRole('link', { name: HOSTILE }).click();
  await until('its page', async () => (await page.locator('h1').textContent()) === HOSTILE);
  t.equal(await page.locator('main img').count(), 0);
  t.equal(await page.evaluate('window.hit'), undefined);
});

t.test('drains and returns a CRN by keyboard alone, with token and confirmation', async (t) => {
  const { adminUrl, hosts, gateway } = await start(t);
  const page = await openPage(t, `${adminUrl}/#/crns`, {}, /status of 401/);
  await shows(page, STATUS, /^Live$/);
  const url = hosts[1]?.url ?? '';
  const standing = (): string | undefined => gateway.crns().find((crn) => crn.url === url)?.standing;
  const stops = await tabTo(page, `Drain ${url}`);
  t.equal(stops[0], 'Skip to main content');
  t.ok(stops.includes('Pause') && stops.includes('Models'));
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Drain this CRN?' });
  t.match(await dialog.textContent(), url);
  await page.keyboard.press('Escape');
  await until('closed', async () => !(await dialog.isVisible()));
  t.equal(standing(), 'up', 'nothing without confirmation');
  t.equal(await focusedName(page), `Drain ${url}`, 'the focus is back');

  await page.keyboard.press('Enter');
  await page.keyboard.type('wrong');
  await page.keyboard.press('Enter');
  await shows(page, '.refused', /401: the admin token is wrong/);
  t.equal(standing(), 'up');
  await page.keyboard.type(TOKEN);
  await page.keyboard.press('Enter');
  await shows(page, '.toast', new RegExp(`^${url} is drained$`));
  t.equal(standing(), 'drained');
  await until('shown', async () => /■ drained/.test((await row(page, 'crns', url).textContent()) ?? ''));
  t.equal(await focusedName(page), `Return ${url}`, 'the same button returns it');

  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'Return this CRN?' }).waitFor();
  t.equal(await page.getByLabel('Admin token').count(), 0, 'the tab knows the token');
  await page.keyboard.press('Enter');
  await until('returned', () => standing() === 'up');
  const kept = 'JSON.stringify([Object.values(sessionStorage), Object.values(localStorage)])';
  t.equal(await page.evaluate(kept), JSON.stringify([[TOKEN], []]));
  await page.getByRole('button', { name: /^Sign out/ }).click();
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  t.equal(await page.evaluate(kept), JSON.stringify([[], []]));
});

t.test('ejects for the given time, and shows what is wrong with it', async (t) => {
  const { adminUrl, hosts, gateway } = await start(t);
  const page = await openPage(t, `${adminUrl}/#/crns`, {}, /status of 422/);
  const url = hosts[0]?.url ?? '';
  await page.getByRole('button', { name: `Eject ${url}` }).click();
  await page.getByLabel('Admin token').fill(TOKEN);
  await page.getByLabel('Duration').fill('a while');
  await page.getByRole('button', { name: 'Eject', exact: true }).click();
  await shows(page, '.refused', /422: for: a duration/);
  await page.getByLabel('Duration').fill('10m');
  await page.keyboard.press('Enter');
  await until('shown', async () => /ejected.*\d+ min left/.test((await row(page, 'crns', url).textContent()) ?? ''));
  t.equal(gateway.crns().find((crn) => crn.url === url)?.standing, 'down');
});

t.test('without a token in the settings actions are disabled, and the page says why', async (t) => {
  const { adminUrl } = await start(t, { adminToken: null });
  const page = await openView(t, adminUrl, '/crns');
  await shows(page, '.note', /Admin actions are disabled: adminToken is not set/);
  const buttons = page.locator('#crns tbody .actions button');
  t.equal(await buttons.count(), 4);
  for (const button of await buttons.all()) t.equal(await button.isDisabled(), true);
  t.equal(await page.getByRole('button', { name: 'Sign in' }).isDisabled(), true);
});

t.test('shows when the gateway is gone, and pauses on demand', async (t) => {
  const { adminUrl, gateway } = await start(t);
  const page = await openPage(t, adminUrl, {}, /ERR_CONNECTION/);
  await page.clock.install();
  await page.reload();
  await shows(page, STATUS, /^Live$/);
  await page.getByRole('button', { name: 'Pause' }).click();
  await shows(page, STATUS, /^Paused$/);
  const asked: string[] = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  await page.clock.fastForward(10_000);
  // A later request: whatever the page asked for before has shown.
  await page.evaluate("fetch('/health').then((answer) => answer.text())");
  t.same(asked, ['/health']);
  await page.getByRole('button', { name: 'Pause' }).click();
  await until('asked again', () => asked.includes('/overview'));
  await gateway.close();
  await until('gone', async () => {
    await page.clock.runFor(2000);
    return (await page.locator(STATUS).textContent())?.startsWith('No answer from the gateway since') === true;
  });
});

t.test('the theme follows the system until one is chosen', async (t) => {
  const { adminUrl } = await startSample(t, { crns: 1, models: 1 });
  const page = await openView(t, adminUrl, '/threads', { colorScheme: 'dark' });
  const ground = (): Promise<unknown> => page.evaluate('getComputedStyle(document.body).backgroundColor');
  const [dark, light] = ['rgb(11, 18, 17)', 'rgb(243, 246, 245)'];
  t.equal(await ground(), dark);
  await page.getByRole('button', { name: 'Theme: system' }).click();
  t.equal(await ground(), light);
  await page.reload();
  await page.getByRole('button', { name: 'Theme: light' }).click();
  t.equal(await ground(), dark);
  await page.getByRole('button', { name: 'Theme: dark' }).click();
  t.equal(await page.evaluate('localStorage.length'), 0);
});

/** Contrast of two colours as browsers print them, by WCAG 2.2. */
function contrast(one: string, other: string): number {
  const luminance = (color: string): number => {
    const [red = 0, green = 0, blue = 0] = [...color.matchAll(/[\d.]+/g)].map(([text]) => {
      const share = Number(text) / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const [low = 0, high = 0] = [luminance(one), luminance(other)].toSorted((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

t.test('fields are seen by their borders, light and dark', async (t) => {
  const { adminUrl } = await startSample(t, { crns: 2, models: 1 });
  const page = await openView(t, adminUrl, '/crns');
  const style = (of: string, property: string): Promise<string> =>
    page.evaluate(`getComputedStyle(document.querySelector('${of}')).${property}`);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    const grounds = [await style('.sheet', 'backgroundColor'), await style('body', 'backgroundColor')];
    for (const field of ['#main input', '#main select']) {
      const border = await style(field, 'borderTopColor');
      for (const ground of grounds)
        t.ok(contrast(border, ground) >= 3, `${field} ${border} on ${ground}, ${colorScheme}`);
    }
  }
});

t.test('1,000 CRNs: tables sort, filter and move by keyboard, and show a part of their rows', async (t) => {
  const { adminUrl, advance } = await startSample(t, { crns: 1000, models: 50 });
  const page = await openView(t, adminUrl, '/crns');
  const rows = page.locator('#crns tbody tr');
  const heads = async (): Promise<(string | null)[]> =>
    (await page.locator('#crns tbody th a').allTextContents()).slice(0, 3);
  await until('rows', async () => (await rows.count()) === 100);
  await page.getByRole('button', { name: 'Show 100 more' }).click();
  t.equal(await rows.count(), 200);
  await page.getByRole('button', { name: 'CRN', exact: true }).click();
  t.same(await heads(), [
    'http://gpu-1.example.net:8000',
    'http://gpu-2.example.net:8000',
    'http://gpu-3.example.net:8000',
  ]);
  await page.getByRole('button', { name: 'CRN', exact: true }).click();
  t.equal((await heads())[0], 'http://gpu-1000.example.net:8000');
  t.equal(await page.locator('#crns [aria-sort]').getAttribute('aria-sort'), 'descending');
  await page.getByRole('searchbox').fill('gpu-77');
  await until('rows of the name', async () => (await rows.count()) === 11);
  await page.getByRole('combobox', { name: 'Standing' }).selectOption('down');
  await until('one row', async () => (await rows.count()) === 1);
  await page.waitForURL(/#\/crns\?standing=down$/);
  await page.getByRole('combobox', { name: 'Standing' }).selectOption('');
  await page.locator('#crns tbody th a').first().focus();
  await page.keyboard.press('ArrowDown');
  t.equal(await focusedName(page), 'http://gpu-778.example.net:8000');
  advance(60_000);
  await until(
    'newer figures',
    async () => (await page.locator('#crns .spark polyline').first().getAttribute('points')) !== '',
  );
  t.equal(await focusedName(page), 'http://gpu-778.example.net:8000', 'the focus stays');
});

t.test('an update of 200 CRNs and 50 models lays the page out a few times, not once for each row', async (t) => {
  const { adminUrl, advance } = await startSample(t, { crns: 200, models: 50 });
  const page = await openPage(t, 'about:blank');
  await page.clock.install();
  await page.goto(`${adminUrl}/#/crns`);
  await until('rows', async () => (await page.locator('#crns tbody tr').count()) === 100);
  await page.evaluate("document.querySelectorAll('#crns tbody tr').forEach((row) => { row.mark = 1; })");
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Performance.enable');
  const layouts = async (): Promise<number> => {
    const { metrics } = await devtools.send('Performance.getMetrics');
    return metrics.find(({ name }) => name === 'LayoutCount')?.value ?? NaN;
  };
  const before = await layouts();
  const UPDATES = 5;
  for (let update = 0; update < UPDATES; update++) {
    advance(61_000);
    const answered = page.waitForResponse(/overview/);
    await page.clock.runFor(1000);
    await (await answered).finished();
    await page.clock.runFor(50);
  }
  t.ok((await layouts()) - before < UPDATES * 8, `${(await layouts()) - before} layouts for ${UPDATES} updates`);
  t.equal(await page.evaluate("[...document.querySelectorAll('#crns tbody tr')].every((row) => row.mark === 1)"), true);
});

const VIEWS = [
  '/',
  '/models',
  '/models/atlas-27b',
  '/crns',
  `/crns/${encodeURIComponent('http://gpu-2.example.net:8000')}`,
  '/search',
  '/threads',
  '/nowhere',
];

t.test('every view fits and passes axe, light and dark', async (t) => {
  const { adminUrl } = await startSample(t, { crns: 12, models: 3 });
  // What axe does to look at a page, the policy of this one forbids.
  const page = await openView(t, adminUrl, '/', { bypassCSP: true });
  for (const path of VIEWS) {
    await page.evaluate(`location.hash = '${path}'`);
    await until(path, async () => (await page.locator('main .state:text("Reading")').count()) === 0);
    await checkView(t, page, path, [360, 768, 1280, 1920]);
  }
});

t.test('on a phone the navigation is a menu, and dialogs fit', async (t) => {
  const { adminUrl } = await startSample(t, { crns: 3, models: 1 });
  const page = await openView(t, adminUrl, '/', { bypassCSP: true, ...PHONE });
  await page.getByRole('button', { name: 'Menu' }).click();
  t.same(await axeFindings(page), [], 'axe with the menu');
  await page.keyboard.press('Escape');
  t.equal(await focusedName(page), 'Menu');
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'CRNs', exact: true }).click();
  await until('closed', async () => !(await page.locator('#menu').isVisible()));
  t.equal(await focusedName(page), 'CRNs', 'the heading');
  await page.getByRole('button', { name: 'Eject http://gpu-1.example.net:8000' }).click();
  t.same(await axeFindings(page), [], 'axe in the dialog');
  const box = await page.getByRole('dialog').boundingBox();
  t.ok(box !== null && box.x >= 0 && box.x + box.width <= 360);
});
