// The documentation page in a real browser, over a gateway as shipped: every form has a request that works.
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Locator, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { checkView, openPage, shows, startBrowser } from '../support/browser.ts';
import { KEY, MODEL, startSystem } from '../support/system.ts';

startBrowser(t);

const run = promisify(execFile);

/** Answers of the forms that need something that a test does not have: a stored response, a page of the web, payments. */
const OTHER_ANSWERS: Readonly<Record<string, RegExp>> = {
  get_v1_responses_id: /^404/,
  delete_v1_responses_id: /^404/,
  post_v1_responses_id_cancel: /^404/,
  get_v1_responses_id_input_items: /^404/,
  get_svc_account: /^404/,
  get_svc_account_requests: /^404/,
  get_svc_account_requests_id: /^404/,
  post_svc_credits: /^503/,
  post_search: /^503/,
  post_tavily_search: /^503/,
  post_firecrawl_v2_search: /^503/,
  post_firecrawl_v1_search: /^503/,
  post_v1_search: /^503/,
  post_v2_search: /^503/,
  // As of the product: other formats than JSON are off.
  get_searxng_search: /^403/,
  post_searxng_search: /^403/,
};

/** Forms of pages, which would leave this machine. */
const FETCHES = /^post_search_fetch$|tavily_extract|jina|scrape/;

async function openDocs(t: Test, options: Parameters<typeof openPage>[2] = {}): Promise<Page> {
  const { url } = await startSystem(t);
  const page = await openPage(t, `${url}/docs`, options, /Failed to load resource/);
  await page.locator('#key').fill(KEY);
  await page.locator('.endpoint').first().waitFor();
  return page;
}

/** Sends the form of an endpoint and resolves with what it says. */
async function send(box: Locator): Promise<string> {
  for (const input of await box.locator('form input[required]').all()) {
    if ((await input.inputValue()) === '') await input.fill('resp_none');
  }
  await box.getByRole('button', { name: 'Send' }).click();
  const outcome = box.locator('.outcome').filter({ hasText: / ms/ });
  await outcome.waitFor();
  return (await outcome.textContent()) ?? '';
}

t.test('every form sends a request that works as it stands', async (t) => {
  const page = await openDocs(t);
  const ids = await page.locator('.endpoint').evaluateAll((nodes) => nodes.map(({ id }) => id));
  t.ok(ids.length > 20);
  for (const id of ids.filter((each) => each !== 'get_v1_responses')) {
    const box = page.locator(`[id="${id}"]`);
    await box.locator('> summary').click();
    await box.locator('form').waitFor();
    if (FETCHES.test(id)) continue;
    const options = await box.locator('select option').evaluateAll((nodes) => nodes.map((node) => node.textContent));
    for (const option of options.length > 0 ? options : [null]) {
      if (option !== null) await box.locator('select').selectOption({ label: option });
      t.match(await send(box), OTHER_ANSWERS[id] ?? /^200 OK/, `${id} ${option ?? ''}`);
    }
  }
  const socket = page.locator('#get_v1_responses');
  await socket.locator('> summary').click();
  await socket.getByRole('heading', { name: 'Answers' }).waitFor();
  t.equal(await socket.locator('form').count(), 0, 'a WebSocket has no form');
});

t.test('the code follows the request: curl, Python, JavaScript', async (t) => {
  const page = await openDocs(t);
  const box = page.locator('#post_v1_chat_completions');
  await box.locator('> summary').click();
  await shows(page, '#post_v1_chat_completions pre[aria-label="Code"]', /^curl .*HEADRACE_API_KEY/);
  await box.getByRole('button', { name: 'Python' }).click();
  const code = box.locator('pre[aria-label="Code"]');
  t.match(await code.textContent(), `    model="${MODEL}",\n`);
  t.match(await code.textContent(), 'client.chat.completions.create(');
  await box.locator('select').selectOption('structured');
  t.match(await code.textContent(), '"strict": True');
  await box.getByRole('button', { name: 'JavaScript' }).click();
  t.match(await code.textContent(), 'await client.chat.completions.create({');
  await box.locator('textarea').fill('{"model": "other", "stream": true}');
  t.match(await code.textContent(), 'for await (const event of answer)');
  await box.locator('textarea').fill('{"model":');
  t.match(await code.textContent(), /^curl /, 'a body that is no JSON is sent as it is');
});

t.test('the JavaScript of each dialect runs as it stands', async (t) => {
  const page = await openDocs(t);
  const folder = t.testdir({});
  const counts = ['v1_messages_count_tokens', 'v1_responses_input_tokens'];
  for (const path of ['v1_chat_completions', 'v1_completions', 'v1_responses', 'v1_messages', ...counts]) {
    const box = page.locator(`#post_${path}`);
    await box.locator('> summary').click();
    await box.getByRole('button', { name: 'JavaScript' }).click();
    const file = join(folder, `${path}.mjs`);
    await writeFile(file, (await box.locator('pre[aria-label="Code"]').textContent()) ?? '');
    const { stdout } = await run(process.execPath, [file], { env: { HEADRACE_API_KEY: KEY } });
    t.match(stdout, /usage|input_tokens/, path);
  }
});

t.test('parameters of a query are fields of the form', async (t) => {
  const page = await openDocs(t);
  const box = page.locator('#get_v1_responses_id_input_items');
  await box.locator('> summary').click();
  await box.getByLabel('limit', { exact: true }).fill('5');
  await box.getByLabel('id', { exact: true }).fill('resp_1');
  t.match(await box.locator('pre[aria-label="Code"]').textContent(), '/v1/responses/resp_1/input_items?limit=5');
});

t.test('the page has no barriers that axe finds, in both colour schemes and on a phone', async (t) => {
  const page = await openDocs(t);
  await page.locator('#post_v1_messages > summary').click();
  await checkView(t, page, 'the page', [360, 1280]);
});
