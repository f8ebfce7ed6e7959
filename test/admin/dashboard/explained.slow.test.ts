// Explained searches and fetches of the playground in a real browser: what an operator sees, that it is the real answer, and that hostile
// engines and pages stay text.

import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { createGateway, type EngineHit, type InProcessEngine } from '../../../src/index.ts';
import { checkView, openPage, startBrowser } from '../../support/browser.ts';
import { site } from '../../support/site.ts';

const OWNER = 'sesame';
const HOSTILE = '<img src=x onerror=window.hit=1>';
const PROSE =
  'The weir above the mill holds the water back, so that the race has its height in dry months too. '.repeat(5);
const PAGE = `<!doctype html><title>Weirs ${HOSTILE.replaceAll('<', '&lt;')}</title><script>window.hit = 1</script>
<style>body { display: none }</style><nav><a href="javascript:window.hit=1">Home</a></nav>
<main><h1>Weirs</h1><p>${PROSE}</p><p>${PROSE} In floods it is opened.</p><pre>&lt;script>window.hit=1&lt;/script></pre></main>
<iframe srcdoc="<script>parent.hit=1</script>"></iframe>`;

startBrowser(t);

function engine(hits: readonly Partial<EngineHit>[]): InProcessEngine {
  const all = hits.map((hit) => ({ title: 'A page', url: 'https://x.org/', snippet: 'text', ...hit }));
  return { kind: 'mine', documentation: 'https://example.com/', types: ['web'], search: () => Promise.resolve(all) };
}

interface Running {
  readonly adminUrl: string;
  readonly pageUrl: string;
}

async function start(t: Test): Promise<Running> {
  const pages = await site(t, {
    '/old': (_request, response) => response.writeHead(302, { location: '/weirs' }).end(),
    '/weirs': (_request, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(PAGE),
  });
  const gateway = createGateway({
    ...{ admin: '127.0.0.1:0', adminToken: OWNER, listen: '127.0.0.1:0', log: { level: 'silent' } },
    keys: { required: false },
    search: {
      engines: {
        one: engine([{ title: HOSTILE, url: 'https://x.org/1', snippet: HOSTILE }, { url: 'https://y.org/2' }]),
        two: engine([{ url: 'http://www.x.org/1/?utm_source=a' }, { url: 'https://x.org/1#part' }]),
        three: { ...engine([]), search: () => Promise.reject(new Error('no')) },
      },
    },
    fetch: { allow: ['127.0.0.1'], ports: [pages.port], robots: false, timeout: '1m', cleanTimeout: '1m' },
  });
  t.teardown(() => gateway.close());
  const { adminUrl } = await gateway.listen();
  return { adminUrl: adminUrl ?? '', pageUrl: `${pages.origin}/old` };
}

async function open(t: Test, url: string, options: Parameters<typeof openPage>[2] = {}): Promise<Page> {
  const page = await openPage(t, url, options);
  await page.evaluate(`sessionStorage.setItem('headrace-admin-token', '${OWNER}')`);
  await page.reload();
  await page.getByRole('button', { name: 'Operator' }).waitFor();
  return page;
}

/** Sends the form of a search, once it names the engines. */
async function search(page: Page): Promise<void> {
  await page.getByRole('checkbox', { name: 'one' }).waitFor();
  await page.getByLabel('Search for').press('Enter');
}

const texts = (page: Page, selector: string): Promise<string[]> => page.locator(selector).allInnerTexts();

t.test('an operator sees what each engine gave and how the list came about', async (t) => {
  const { adminUrl } = await start(t);
  const page = await open(t, `${adminUrl}/#/playground/search?q=weirs&count=5&sites=x.org`);
  t.equal(await page.getByLabel('Search for').inputValue(), 'weirs', 'the address fills the form, and sends nothing');
  t.equal(await page.locator('.merged').count(), 0);
  await search(page);
  await page.locator('.merged').waitFor();
  const rows = await texts(page, '.merged > li');
  t.match(rows[0], /^1\s+<img src=x onerror=window.hit=1>\s+https:\/\/x\.org\/1/, 'titles of engines are text');
  t.match(rows[0], /2 engines/);
  await page.locator('.merged summary').first().press('Enter');
  await page.getByText('One page: x.org/1').waitFor();
  t.strictSame(await texts(page, '.why .tag'), ['scheme', 'www.', 'closing slash', 'tracking parameters']);
  t.match(await texts(page, '.engine-list'), [
    /one\s+2 hits, 1 request/,
    /two[^]*the same page again/,
    /▲ engine failed/,
  ]);
  await page.getByText('As a curl command').click();
  t.match(await texts(page, '.curl pre'), [/"query":"weirs"[^]*"include_domains":\["x.org"\]/]);
  await page.getByText('Filters').click();
  await page.getByLabel('Language').fill('de');
  await page.waitForURL(/language=de/);
  t.pass('the address is a link to the form');
  t.equal(await page.evaluate('window.hit'), undefined);
});

t.test('source and result of a hostile page stand side by side, as text', async (t) => {
  const { adminUrl, pageUrl } = await start(t);
  const page = await open(t, `${adminUrl}/#/playground/fetch?url=${encodeURIComponent(pageUrl)}&format=text`);
  await page.getByRole('button', { name: 'Fetch', exact: true }).click();
  await page.locator('.side-by-side').waitFor();
  t.match(await texts(page, '.hops > li'), [/^302[^]*redirect/, /^200\s+.*\/weirs/]);
  const kept = page.locator('.blocks li.kept');
  t.match(await kept.first().innerText(), /The weir above the mill/);
  t.match(await page.locator('.blocks li.dropped').first().innerText(), /Home[^]*in nav/);
  await kept.nth(1).getByRole('button').press('Enter');
  t.match(await page.locator('.result mark').innerText(), /^The weir above/, 'a block is shown in the result');
  await page.getByRole('button', { name: 'HTML', exact: true }).click();
  const source = await page.getByLabel('Source of the page').innerText();
  t.match(source, '<script>window.hit = 1</script>', 'the source is text');
  t.ok((await page.locator('.source mark').count()) >= 3);
  t.strictSame(await page.evaluate('[window.hit, document.querySelectorAll("iframe, main style, main img").length]'), [
    undefined,
    0,
  ]);
});

t.test('without the role operator it asks as a client does', async (t) => {
  const { adminUrl } = await start(t);
  const page = await openPage(t, `${adminUrl}/#/playground/search?q=weirs&contents=1`);
  await page.getByText('Operators who are signed in').waitFor();
  await search(page);
  await page.locator('.results').waitFor();
  t.equal(await page.locator('.merged').count(), 0);
  t.match(
    await texts(page, '.results > li'),
    [/No text: HR_FETCH_/, /A page/],
    'the page of the best result cannot be read',
  );
});

t.test('fits on a phone and passes axe, light and dark', async (t) => {
  const { adminUrl, pageUrl } = await start(t);
  const page = await open(t, `${adminUrl}/#/playground/search?q=weirs`, { bypassCSP: true });
  await page.getByText('Filters').click();
  await search(page);
  await page.locator('.merged').waitFor();
  await page.locator('.merged summary').first().click();
  await page.locator('.engine-list summary').first().click();
  await checkView(t, page, 'a search', [360, 1280]);
  await page.goto(`${adminUrl}/#/playground/fetch?url=${encodeURIComponent(pageUrl)}`);
  await page.getByRole('button', { name: 'Fetch', exact: true }).click();
  await page.locator('.side-by-side').waitFor();
  await page.locator('.blocks button').first().click();
  await checkView(t, page, 'a fetch', [360, 1280]);
});
