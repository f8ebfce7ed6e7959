// The dashboard in a real browser when answers come late, out of order or not at all, and when more happens than a page shows.

import { readFileSync } from 'node:fs';
import type { Page, Route } from 'playwright-core';
import t, { type Test } from 'tap';
import type { Overview } from '../../../src/admin/overview.ts';
import { createGateway } from '../../../src/gateway/gateway.ts';
import { openPage, startBrowser } from '../../support/browser.ts';
import { settingsFor, until } from '../../support/system.ts';

const TOKEN = 'sesame';

startBrowser(t);

const gateway = createGateway({
  ...settingsFor([], { admin: '127.0.0.1:0', adminToken: TOKEN, store: 'sqlite::memory:' }),
  models: { a: { servers: ['http://127.0.0.1:9'] } },
});
t.teardown(() => gateway.close());
const { adminUrl } = await gateway.listen();

type Answer = (route: Route, url: URL) => Promise<void> | void;

/** Opens a view in a tab whose holder is signed in. `answers`: of paths that the test answers itself. */
async function open(
  t: Test,
  path: string,
  answers: Readonly<Record<string, Answer>> = {},
  { expected = /^$/, token = TOKEN }: { readonly expected?: RegExp; readonly token?: string } = {},
): Promise<Page> {
  const page = await openPage(t, 'about:blank', {}, expected);
  await page.clock.install();
  await page.addInitScript(`sessionStorage.setItem('headrace-admin-token', ${JSON.stringify(token)})`);
  for (const [name, answer] of Object.entries(answers)) {
    await page.route(
      (url) => url.pathname === name,
      (route) => answer(route, new URL(route.request().url())),
    );
  }
  await page.goto(`${adminUrl}/#${path}`);
  return page;
}

const json = (route: Route, body: object): Promise<void> => route.fulfill({ json: body });

/** Times in which polls read once. */
async function pass(page: Page, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 500) await page.clock.runFor(500);
}

interface Row {
  readonly cursor: string;
}

function rowOf(number: number): Row {
  const nothing = { path: null, dialect: null, alias: null, tool: null, account: null, key: null, crn: null };
  const unknown = { inputTokens: null, cachedTokens: null, outputTokens: null, tokensPerSecond: null, costUsd: null };
  const row = { ...nothing, ...unknown, failures: [], affinity: null, code: null, attempts: 1, status: 200 };
  const times = { dateMs: 1_700_000_000_000 + number, durationMs: 1, firstByteMs: 1 };
  return { ...row, ...times, cursor: String(number), method: 'POST', endpoint: '/x', model: 'a' } as Row;
}

/** A request log whose rows are numbers; `count` is that of the newest. */
class Log {
  count: number;
  readonly asked: string[] = [];
  /** Rows with even numbers are of a thread that does not answer in time. */
  isThreadSilent = false;
  /** What all rows have. */
  more: object = {};
  /** Holds answers to what asks for older rows. */
  gate: Promise<void> | null = null;

  constructor(count: number) {
    this.count = count;
  }

  readonly answer: Answer = async (route, { searchParams }) => {
    const limit = Number(searchParams.get('limit'));
    const [after, before] = [searchParams.get('after'), searchParams.get('before')];
    this.asked.push(searchParams.toString());
    if (before !== null) await this.gate;
    const from = after === null ? Number(before ?? this.count + 1) - 1 : Number(after) + 1;
    const left = after === null ? from : this.count - from + 1;
    const numbers = Array.from({ length: Math.min(left, limit) }, (_, i) => (after === null ? from - i : from + i));
    const there = numbers.filter((number) => !this.isThreadSilent || number % 2 === 1);
    const data = there.map((number) => ({ ...rowOf(number), requestId: `r${number}`, ...this.more }));
    const next = left > limit ? (data.at(-1)?.cursor ?? null) : null;
    const common = { dateMs: 0, size: 100_000, completeSinceMs: null, missingThreads: Number(this.isThreadSilent) };
    await json(route, { ...common, data, next });
  };
}

const idsOf = (page: Page): Promise<string[]> => page.locator('#log-requests tbody th a').allTextContents();

async function caption(page: Page): Promise<string> {
  return (await page.locator('#log-requests caption').textContent()) ?? '';
}

t.test('older rows of the log come once, however often they are asked for', async (t) => {
  const log = new Log(1000);
  const held = Promise.withResolvers<void>();
  log.gate = held.promise;
  const page = await open(t, '/requests', { '/requests/log': log.answer });
  await page.getByRole('button', { name: 'More', exact: true }).dblclick();
  held.resolve();
  await page.getByRole('button', { name: 'Show 100 more' }).click();
  await until('older rows', async () => (await idsOf(page)).length === 200);
  await pass(page, 3000);
  t.match(await caption(page), /^200 finished requests/);
  t.equal(new Set(await idsOf(page)).size, 200);
});

t.test('the log keeps up with what ends, and is read anew where it cannot', async (t) => {
  const log = new Log(10);
  const page = await open(t, '/requests', { '/requests/log': log.answer });
  await until('the log', async () => (await idsOf(page)).length === 10);
  log.count += 1700;
  await pass(page, 2500);
  await until('the newest', async () => (await idsOf(page))[0] === 'r1710');
  t.match(await caption(page), /^1,710 finished requests/, 'none is missing');
  log.count += 50_000;
  const before = log.asked.length;
  await pass(page, 2500);
  await until('the newest', async () => (await idsOf(page))[0] === 'r51710');
  t.ok(log.asked.length - before < 12, `${log.asked.length - before} readings`);
  const rows = Number(/^[\d,]+/.exec(await caption(page))?.[0].replaceAll(',', ''));
  while (await page.getByRole('button', { name: /^Show \d+ more$/ }).isVisible())
    await page.getByRole('button', { name: /^Show \d+ more$/ }).click();
  t.same(
    await idsOf(page),
    Array.from({ length: rows }, (_, i) => `r${51_710 - i}`),
    'without a gap',
  );
});

t.test('rows of a thread that did not answer in time come when it does', async (t) => {
  const log = new Log(10);
  const page = await open(t, '/requests', { '/requests/log': log.answer });
  await until('the log', async () => (await idsOf(page)).length === 10);
  log.isThreadSilent = true;
  log.count += 5;
  await pass(page, 2500);
  await until('the newest', async () => (await idsOf(page))[0] === 'r15');
  t.same((await idsOf(page)).slice(0, 4), ['r15', 'r13', 'r11', 'r10']);
  log.isThreadSilent = false;
  await pass(page, 2500);
  await until('all rows', async () => (await idsOf(page)).length === 15);
});

t.test('a paused log is read again when that is asked for', async (t) => {
  const log = new Log(300);
  let fails = true;
  const page = await open(
    t,
    '/requests',
    {
      '/requests/log': (route, url) =>
        fails && url.searchParams.has('before')
          ? route.fulfill({ status: 503, json: { detail: 'later' } })
          : log.answer(route, url),
    },
    { expected: /status of 503/ },
  );
  await until('the log', async () => (await idsOf(page)).length === 100);
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByText('503: later').waitFor();
  fails = false;
  log.count++;
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('503: later').waitFor({ state: 'detached' });
  await until('the newest', async () => (await idsOf(page))[0] === 'r301');
  log.count++;
  await pass(page, 5000);
  t.equal((await idsOf(page))[0], 'r301', 'and once only');
});

t.test('rows of another day have their date, and a file of rows has no formulas', async (t) => {
  const log = new Log(1);
  // The second sign is a full-width one, which spreadsheets take too.
  log.more = { alias: '\n=1+1', account: '\uff1d1+1', costUsd: '-0.5', failures: [{ crn: 'a' }] };
  const page = await open(t, '/requests', { '/requests/log': log.answer });
  await page.locator('#log-requests time', { hasText: '2023-11-1' }).waitFor();
  const [saved] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Save CSV' }).click(),
  ]);
  const file = readFileSync(await saved.path(), 'utf8');
  t.match(file, `"'\n=1+1"`);
  t.match(file, `'\uff1d1+1`);
  t.match(file, ',-0.5,');
  t.match(file, `"[{""crn"":""a""}]"`);
});

t.test('a dialog stays open while its action is carried out, and shows the new key', async (t) => {
  const held = Promise.withResolvers<void>();
  const page = await open(t, '/keys', {
    '/keys': async (route) => {
      if (route.request().method() !== 'POST') return route.continue();
      await held.promise;
      return json(route, { id: 'key_1', key: 'hr_shown_once' });
    },
  });
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.getByRole('dialog').getByLabel('Account').fill('acme');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').locator('button[type=submit]:disabled').waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  held.resolve();
  await page.getByText('hr_shown_once').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
});

t.test('what is typed while an image is read stays, and an image that cannot be read is named', async (t) => {
  const page = await open(t, '/playground');
  await page.evaluate(`
    const read = FileReader.prototype.readAsDataURL;
    FileReader.prototype.readAsDataURL = function (file) { window.release = () => read.call(this, file); };
  `);
  const message = page.getByRole('textbox', { name: 'Message' });
  const image = { name: 'a.png', mimeType: 'image/png', buffer: Buffer.from('x') };
  await message.fill('before');
  await page.locator('input[type=file]').setInputFiles(image);
  await message.fill('before and after');
  await page.evaluate('window.release()');
  await page.getByRole('button', { name: 'Remove a.png' }).waitFor();
  t.equal(await message.inputValue(), 'before and after');
  await page.evaluate(`
    FileReader.prototype.readAsDataURL = function () { this.onerror(); };
  `);
  await page.locator('input[type=file]').setInputFiles({ ...image, name: 'b.png' });
  await page.getByText('b.png could not be read').waitFor();
  await page.getByRole('link', { name: 'Fetch', exact: true }).click();
  await page.getByLabel('Address of the page').waitFor();
  await page.goBack();
  t.equal(await message.inputValue(), 'before and after', 'also while another view is shown');
  await page.getByRole('button', { name: 'Remove a.png' }).waitFor();
});

const ACCOUNT = {
  ...{ label: '', balance_usd: '1.00', held_usd: '0.00', credit_limit_usd: '0.00', expiring_usd: '0.00' },
  ...{ low_balance_usd: null, organisation: null },
};

t.test('a further page that could not be read is no problem any more when the list was read again', async (t) => {
  const page = await open(
    t,
    '/accounts',
    {
      '/accounts': (route, { searchParams }) => {
        if (searchParams.has('cursor')) return route.fulfill({ status: 503, json: { detail: 'the store is away' } });
        return json(route, { data: [{ ...ACCOUNT, id: 'acme' }], next: 'acme' });
      },
    },
    { expected: /status of 503/ },
  );
  await page.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByText('503: the store is away').waitFor();
  await page.getByRole('button', { name: 'Refresh' }).click();
  await page.getByText('503: the store is away').waitFor({ state: 'detached' });
});

t.test('spending that could not be read is said', async (t) => {
  const page = await open(
    t,
    '/accounts',
    {
      '/accounts': (route) => json(route, { data: [{ ...ACCOUNT, id: 'acme' }], next: null }),
      '/usage': (route) => route.fulfill({ status: 503, json: { detail: 'the store is away' } }),
    },
    { expected: /status of 503/ },
  );
  await page.getByText('503: the store is away').first().waitFor();
});

t.test('spending of accounts is read once, and stays while that of further ones is read', async (t) => {
  const asked: (string | null)[] = [];
  const held = Promise.withResolvers<void>();
  const again = Promise.withResolvers<void>();
  const page = await open(t, '/accounts', {
    '/accounts': (route, { searchParams }) => {
      const ids = searchParams.has('cursor') ? ['c', 'd'] : ['a', 'b'];
      return json(route, { data: ids.map((id) => ({ ...ACCOUNT, id })), next: ids[0] === 'a' ? 'b' : null });
    },
    '/usage': async (route, { searchParams }) => {
      const account = searchParams.get('account');
      asked.push(account);
      if (account === 'd') await held.promise;
      if (asked.length > 4) await again.promise;
      return json(route, { data: [], next: null });
    },
  });
  const today = (account: string): Promise<string | null> =>
    page.locator('#accounts tbody tr', { hasText: account }).locator('[data-label=Today]').textContent();
  await until('spending', async () => (await today('a')) === '0.00');
  await page.getByRole('button', { name: 'More', exact: true }).click();
  await until('asked', () => asked.includes('d'));
  t.equal(await today('a'), '0.00');
  t.equal(await today('d'), '…');
  held.resolve();
  await until('spending', async () => (await today('d')) === '0.00');
  t.same(asked.map(String).toSorted(), ['a', 'b', 'c', 'd']);
  await page.getByRole('button', { name: 'Refresh' }).click();
  await until('the first page again', async () => (await page.locator('#accounts tbody tr').count()) === 2);
  await until('all are asked again', () => asked.length >= 8);
  t.equal(await today('a'), '0.00', 'what was read before stays');
  const answered = page.waitForResponse(/\/usage\?account=a/);
  again.resolve();
  await answered;
  t.same(
    asked.map(String).toSorted(),
    ['a', 'a', 'b', 'b', 'c', 'c', 'd', 'd'],
    'once, though the list came meanwhile',
  );
});

t.test('a balance below zero is drawn and written', async (t) => {
  const date = new Date(Date.now() - 3_600_000).toISOString();
  const movement = { id: 'm1', seq: '1', date, kind: 'charge', amount_usd: '-3.00', memo: '', usage: null };
  const page = await open(t, '/accounts/acme', {
    '/accounts/acme': (route) => json(route, { ...ACCOUNT, id: 'acme', balance_usd: '-2.50' }),
    '/accounts/acme/history': (route) => json(route, { data: [movement], next: null }),
    '/accounts/acme/grants': (route) => json(route, { data: [], next: null }),
  });
  const plot = page.getByRole('application', { name: /^Balance/ });
  await plot.waitFor();
  t.match(await plot.getAttribute('aria-label'), /now -\$2\.50, from -\$2\.50 to \$0\.5/);
  const axis = `(() => {
    const canvas = document.querySelector('[aria-label^="Balance"] canvas');
    const { data, width, height } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    // The end of the line is in the lower half: pixels of its colour that are not grey.
    let lowest = 0;
    for (let y = 0; y < height * 0.8; y++)
      for (let x = width >> 1; x < width; x++) {
        const at = (y * width + x) * 4;
        if (data[at + 3] > 200 && Math.abs(data[at] - data[at + 2]) > 60) lowest = y;
      }
    return lowest / height;
  })()`;
  t.ok(Number(await page.evaluate(axis)) > 0.4, 'the line goes down below the axis');
});

t.test('a field of a number can be emptied to write another one', async (t) => {
  const page = await open(t, '/playground/search');
  const count = page.getByLabel('Most results');
  await count.focus();
  await page.keyboard.press('End');
  for (const key of ['Backspace', 'Backspace', '2', '5']) await page.keyboard.press(key);
  t.equal(await count.inputValue(), '25');
  await page.waitForURL(/[?&]count=25/);
});

t.test('the fields of a filter are those of the address, also of one that is gone back to', async (t) => {
  const page = await open(t, '/acts');
  await page.getByLabel('actor').fill('vera');
  await Promise.all([page.waitForRequest(/\/acts\?actor=vera/), page.keyboard.press('Enter')]);
  await page.goBack();
  await page.waitForURL(/#\/acts$/);
  await until('the empty field', async () => (await page.getByLabel('actor').inputValue()) === '');
});

t.test('a conversation that fills the storage of the tab leaves room for the form', async (t) => {
  const page = await open(t, '/playground');
  await page.getByRole('combobox', { name: 'Model' }).waitFor();
  const image = { name: 'a.png', mimeType: 'image/png', buffer: Buffer.alloc(1_850_000) };
  await page.locator('input[type=file]').setInputFiles(image);
  await page.getByRole('button', { name: 'Remove a.png' }).waitFor();
  await page.route(
    (url) => url.pathname === '/playground/v1/chat/completions',
    (route) => json(route, { choices: [{ message: { content: 'Seen.' }, finish_reason: 'stop' }] }),
  );
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await page.getByText('Seen.').waitFor();
  await page.getByLabel('System prompt').fill('x'.repeat(400_000));
  t.equal(
    await page.evaluate("JSON.parse(sessionStorage.getItem('headrace-playground')).system.length"),
    400_000,
    'the form is kept too',
  );
});

t.test('a gateway that does not answer while a tab opens does not sign its holder out', async (t) => {
  let asked = 0;
  const page = await open(
    t,
    '/keys',
    {
      '/whoami': (route) =>
        ++asked < 3 ? route.fulfill({ status: 503, json: { detail: 'later' } }) : route.continue(),
    },
    { expected: /status of 503/ },
  );
  await until('asked', () => asked > 0);
  await until('signed in', async () => {
    await pass(page, 1000);
    return page.getByRole('button', { name: /^Sign out/ }).isVisible();
  });
});

t.test('a token of before is forgotten where the gateway has no admin tokens any more', async (t) => {
  let asked = 0;
  const page = await open(
    t,
    '/requests',
    {
      '/whoami': (route) => {
        asked++;
        return route.fulfill({ status: 403, json: { detail: 'adminToken is not set' } });
      },
      '/overview': async (route) => {
        const answer = (await (await route.fetch()).json()) as Overview;
        return json(route, { ...answer, orders: false });
      },
      '/requests/log': new Log(10).answer,
    },
    { expected: /status of 40[13]/ },
  );
  await until('the log, which is open without tokens', async () => (await idsOf(page)).length === 10);
  await pass(page, 5000);
  t.equal(asked, 1, 'the gateway is not asked again and again');
  t.equal(await page.evaluate("sessionStorage.getItem('headrace-admin-token')"), null);
});

t.test('a CRN that comes back begins its line anew', async (t) => {
  let isThere = true;
  let read = 0;
  const page = await open(t, '/crns', {
    '/overview': async (route) => {
      const answer = (await (await route.fetch()).json()) as Overview;
      read++;
      const crns = isThere ? answer.crns.map((crn) => ({ ...crn, attempts: read * 5 })) : [];
      return json(route, { ...answer, dateMs: answer.dateMs + read * 1000, uptimeMs: read * 1000, crns });
    },
  });
  const points = async (): Promise<number> => {
    const text = (await page.locator('#crns .spark polyline').getAttribute('points')) ?? '';
    return text === '' ? 0 : text.split(' ').length;
  };
  const reads = async (count: number): Promise<void> => {
    const to = read + count;
    await until('readings', async () => {
      await page.clock.runFor(1000);
      return read >= to;
    });
  };
  await page.locator('#crns tbody tr').waitFor();
  await until('a line', async () => {
    await reads(1);
    return (await points()) >= 12;
  });
  isThere = false;
  await reads(2);
  await page.getByText('No CRNs are configured.').waitFor();
  isThere = true;
  await reads(1);
  await page.locator('#crns tbody tr').waitFor();
  const left = await points();
  t.ok(left < 8, `${left} points`);
});

t.test('large figures stay within their tiles, and small ones are not zero', async (t) => {
  let spentTodayUsd = '1234567.123456';
  const page = await open(t, '/', {
    '/overview': async (route) => {
      const answer = (await (await route.fetch()).json()) as Overview;
      const recent = { ...answer.recent, usdPerHour: 123_456.7, requestsPerS: 54_321, inputTokensPerS: 987_654_321 };
      return json(route, { ...answer, recent, ledger: { ...answer.ledger, spentTodayUsd } });
    },
  });
  await page.getByText('$1,234,567.12').waitFor();
  for (const width of [320, 360, 768, 1280]) {
    await page.setViewportSize({ width, height: 700 });
    const wide = "[...document.querySelectorAll('.tile')].filter((tile) => tile.scrollWidth > tile.clientWidth)";
    t.same(await page.evaluate(`${wide}.map((tile) => tile.textContent)`), [], String(width));
  }
  spentTodayUsd = '0.0000676';
  await until('the small figure', async () => {
    await pass(page, 500);
    return page.getByText('$0.0000676').isVisible();
  });
});

t.test('a view that fails, as over the documents of another version, says so and leaves the others', async (t) => {
  let isOld = true;
  const page = await open(t, '/search', {
    '/overview': async (route) => {
      const { tools, ...answer } = (await (await route.fetch()).json()) as Overview;
      return json(route, isOld ? answer : { ...answer, tools });
    },
  });
  await page.getByText('This view failed: ').waitFor();
  t.equal(await page.getByRole('heading', { level: 1 }).textContent(), 'Search and fetch');
  await page.getByRole('link', { name: 'Threads' }).click();
  await page.locator('#threads tbody tr').first().waitFor();
  await page.goBack();
  await page.getByText('This view failed: ').waitFor();
  isOld = false;
  await until('the view', async () => {
    await pass(page, 1000);
    const retry = page.getByRole('button', { name: 'Try again' });
    if (await retry.isVisible()) await retry.click();
    return page.locator('#tools, :text("No search and no page")').first().isVisible();
  });
});
