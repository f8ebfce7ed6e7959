// `POST /search/fetch` and `gateway.fetchPage()`: validation, order of checks, the fields of an answer, errors, the cache.

import t from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway, type Gateway } from '../../src/index.ts';
import { site, type Pages } from '../support/site.ts';

const KEY = 'hr_fetch';
const GOOD = { authorization: `Bearer ${KEY}` };

type Scope = Pick<typeof t, 'teardown'>;

const ARTICLE = `<!doctype html><html lang="en"><head><title>On weirs | The Millrace</title>
<meta property="og:site_name" content="The Millrace"></head><body><nav><a href="/">Home</a></nav><article>
<h1>On weirs</h1>${'<p>A weir holds the river back so that the <a href="/race">headrace</a> is full in a dry month.</p>'.repeat(8)}
</article><footer>All rights reserved</footer></body></html>`;

const PAGES: Pages = {
  '/article': (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(ARTICLE),
  '/moved': (_, response) => response.writeHead(302, { location: '/article' }).end(),
  '/image': (_, response) => response.writeHead(200, { 'content-type': 'image/png' }).end('PNG'),
  '/big': (_, response) => response.writeHead(200, { 'content-type': 'text/plain' }).end('x'.repeat(200_000)),
  '/hang': () => undefined,
  '/gone': (_, response) => response.writeHead(410).end(),
  '/broken': (_, response) => response.writeHead(500).end(),
};

async function open(
  t: Scope,
  fetch: SettingsInput['fetch'] = {},
): Promise<{ gateway: Gateway; origin: string; asked: string[] }> {
  const { asked, origin, port } = await site(t, PAGES);
  const gateway = createGateway({
    keys: { static: [{ key: KEY, account: 'tests' }] },
    log: { level: 'silent' },
    fetch: { allow: ['127.0.0.1'], ports: [port], ...fetch },
  });
  t.teardown(() => gateway.close());
  return { gateway, origin, asked };
}

const ask = (gateway: Gateway, body: unknown, headers: Record<string, string> = GOOD): ReturnType<Gateway['inject']> =>
  gateway.inject({ path: '/search/fetch', headers, body });

t.test('a page is answered with exactly the four fields of the interface', async (t) => {
  const { gateway, origin } = await open(t);
  const response = await ask(gateway, { url: `${origin}/moved#part` });
  t.equal(response.status, 200);
  const answer = response.json<Record<string, unknown>>();
  t.same(Object.keys(answer).sort(), ['content', 'title', 'url', 'word_count']);
  t.equal(answer['url'], `${origin}/article`, 'the final address');
  t.equal(answer['title'], 'On weirs');
  t.match(answer['content'], /A weir holds the river back/);
  t.notMatch(answer['content'], /All rights reserved|Home/);
  t.equal(answer['word_count'], String(answer['content']).split(/\s+/).length);
});

t.test('format and include are beyond the interface, and only on request', async (t) => {
  const { gateway, origin } = await open(t);
  const response = await ask(gateway, { url: `${origin}/article`, format: 'markdown', include: ['metadata', 'links'] });
  const answer = response.json<{ content: string; links: unknown[]; metadata: Record<string, unknown> }>();
  t.match(answer.content, `[headrace](${origin}/race)`);
  t.match(answer.links[0], { text: 'headrace', url: `${origin}/race` });
  t.match(answer.metadata, { site_name: 'The Millrace', language: 'en' });
});

t.test('every mistake of a request is named at once', async (t) => {
  const { gateway } = await open(t);
  const response = await ask(gateway, { url: 'ftp://example.com/', format: 'pdf', include: ['images'] });
  t.equal(response.status, 422);
  t.same(
    response.json<{ detail: { loc: unknown[] }[] }>().detail.map(({ loc }) => loc),
    [
      ['body', 'url'],
      ['body', 'format'],
      ['body', 'include', 0],
    ],
  );
  for (const url of ['', 'example.com', 'http://', 'javascript:alert(1)', 7, null])
    t.equal((await ask(gateway, { url })).status, 422, String(url));
  t.equal((await ask(gateway, {})).status, 422);
});

t.test('a bad key comes before a bad body, a bad body before no key', async (t) => {
  const { gateway, origin } = await open(t);
  t.equal((await ask(gateway, {}, { authorization: 'Bearer wrong' })).status, 401);
  t.equal((await ask(gateway, {}, {})).status, 422);
  t.equal((await ask(gateway, { url: `${origin}/article` }, {})).status, 401);
});

t.test('each failure has its status, code and sentence', async (t) => {
  const { gateway, origin } = await open(t, { maxBytes: '100KB' });
  const { gateway: hasty, origin: slow } = await open(t, { timeout: '300ms' });
  for (const [url, status, code] of [
    [`${origin}/missing`, 502, 'HR_FETCH_FAILED'],
    [`${origin}/image`, 415, 'HR_FETCH_TYPE'],
    [`${origin}/big`, 413, 'HR_FETCH_TOO_LARGE'],
    [`${slow}/hang`, 504, 'HR_FETCH_TIMEOUT'],
    ['http://169.254.169.254/latest/meta-data', 400, 'HR_FETCH_BLOCKED'],
    ['http://user:secret@example.com/', 400, 'HR_FETCH_BLOCKED'],
  ] as const) {
    const response = await ask(url.startsWith(slow) ? hasty : gateway, { url });
    t.same([response.status, response.headers['x-headrace-error']], [status, code], url);
    t.same(Object.keys(response.json<object>()), ['detail']);
  }
});

t.test('a repeat for a page that is not there is not asked for', async (t) => {
  const { gateway, origin } = await open(t);
  const repeats = async (path: string): Promise<unknown> =>
    (await ask(gateway, { url: `${origin}${path}` })).headers['x-should-retry'];
  t.equal(await repeats('/missing'), 'false');
  t.equal(await repeats('/gone'), 'false');
  t.equal(await repeats('/broken'), 'true');
});

t.test('a kept page says so and costs no request', async (t) => {
  const { asked, gateway, origin } = await open(t);
  const [first, second] = [
    await ask(gateway, { url: `${origin}/article` }),
    await ask(gateway, { url: `${origin}/article#elsewhere` }),
  ];
  t.notOk(first.headers['x-headrace-cache']);
  t.equal(second.headers['x-headrace-cache'], 'hit');
  t.equal(second.body.toString(), first.body.toString());
  t.equal(asked.length, 1);
});

t.test('the library answers with the same object, which is the caller’s own', async (t) => {
  const { gateway, origin } = await open(t);
  const answer = await gateway.fetchPage(`${origin}/article`, { format: 'markdown' });
  t.equal(answer.title, 'On weirs');
  (answer as { title: string }).title = 'changed';
  t.equal((await gateway.fetchPage(`${origin}/article`, { format: 'markdown' })).title, 'On weirs');
  await t.rejects(gateway.fetchPage('no url'), { code: 'HR_REQUEST_INVALID' });
  await t.rejects(gateway.fetchPage(`${origin}/missing`), { code: 'HR_FETCH_FAILED', message: /status 404/ });
});

t.test('the library heeds its signal, and the last caller who leaves ends the download', async (t) => {
  const { gateway, origin } = await open(t);
  await t.rejects(gateway.fetchPage(`${origin}/hang`, { signal: AbortSignal.abort(new Error('early')) }), /early/);
  const stop = new AbortController();
  const leaving = gateway.fetchPage(`${origin}/hang`, { signal: stop.signal });
  setImmediate(() => stop.abort(new Error('left')));
  await t.rejects(leaving, /left/);
});

t.test('settings of fetch take effect without a restart', async (t) => {
  const { gateway, origin } = await open(t);
  const { port } = new URL(origin);
  const reloaded = gateway.reload({
    keys: { static: [{ key: KEY, account: 'tests' }] },
    log: { level: 'silent' },
    fetch: { allow: [], ports: [Number(port)] },
  });
  t.same(reloaded.applied, ['fetch.allow']);
  t.equal((await ask(gateway, { url: `${origin}/article` })).headers['x-headrace-error'], 'HR_FETCH_BLOCKED');
});
