// `GET /` on a gateway, and its page in a real browser.
import axe from 'axe-core';
import t from 'tap';
import { indexPage } from '../../src/api/index-page.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import { openPage, shows, startBrowser } from '../support/browser.ts';
import { KEY, MODEL, startSystem } from '../support/system.ts';

startBrowser(t);

const HOSTILE = '"><img src=x onerror=window.hit=1>';

t.test('clients that do not ask for HTML get JSON with relative addresses that answer', async (t) => {
  const { url } = await startSystem(t);
  for (const accept of ['*/*', 'application/json', 'text/plain']) {
    const answer = await fetch(url, { headers: { accept } });
    t.equal(answer.status, 200);
    t.match(answer.headers.get('content-type'), 'application/json');
    t.match(answer.headers.get('vary'), /accept/i);
    t.match(answer.headers.get('link'), '<docs>; rel="service-doc", <openapi.json>; rel="service-desc"');
    const { name, version, ...addresses } = (await answer.json()) as Record<string, string>;
    t.equal(name, 'Headrace');
    t.match(version, /^\d+\.\d+\.\d+/);
    t.same(Object.keys(addresses), ['documentation', 'openapi', 'models', 'health']);
    for (const address of Object.values(addresses)) {
      const { status } = await fetch(new URL(address, `${url}/`));
      t.equal(status, 200, address);
    }
  }
  const head = await fetch(url, { method: 'HEAD' });
  t.equal(head.status, 200);
  t.equal(await head.text(), '');
  const post = await fetch(url, { method: 'POST', headers: { authorization: `Bearer ${KEY}` }, body: '{}' });
  t.equal(post.status, 405);
});

t.test('browsers get a page with base URLs and a command for a model of the gateway', async (t) => {
  const { url } = await startSystem(t);
  const page = await openPage(t, url);
  await shows(page, 'main', new RegExp(`OpenAI SDKs and compatible clients: ${url}/v1\\s`));
  await shows(page, 'pre', new RegExp(`^curl ${url}/v1/chat/completions .*\\$HEADRACE_API_KEY.*"model":"${MODEL}"`));
  await shows(page, 'tbody', new RegExp(MODEL));
  for (const link of await page.locator('a').all()) {
    const { status } = await fetch(new URL((await link.getAttribute('href')) ?? '', url));
    t.equal(status, 200, String(await link.getAttribute('href')));
  }
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await page.evaluate(axe.source);
    const { violations } = await page.evaluate<{ violations: { id: string }[] }>('axe.run()');
    t.same(
      violations.map(({ id }) => id),
      [],
      colorScheme,
    );
  }
});

t.test('an open gateway asks for no key on the page', async (t) => {
  const gateway = createGateway({ models: {}, keys: { required: false }, log: { level: 'silent' } });
  t.teardown(() => gateway.close());
  const { body, headers } = await gateway.inject({ path: '/', headers: { accept: 'text/html' } });
  t.match(headers['content-type'], 'text/html');
  const page = body.toString();
  t.match(page, 'asks for no API key');
  t.notMatch(page, 'HEADRACE_API_KEY');
  t.match(page, 'No model is configured');
});

t.test('names of models are text, and a long list ends with a link', (t) => {
  const models = Array.from({ length: 60 }, (_, number) => ({ id: `${HOSTILE}${number}`, servers: [] }));
  const page = indexPage(models, true);
  t.notMatch(page, '<img');
  t.match(page, '&quot;&gt;&lt;img src=x onerror=window.hit=1&gt;0');
  t.equal(page.split('<tr>').length - 1, 51, 'a head and 50 models');
  t.match(page, '<a href="v1/models">10 more</a>');
  t.end();
});
