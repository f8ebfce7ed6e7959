// `urls` of `POST /search/fetch` and `gateway.fetchPages()`, and `content` of `POST /search`, over real sites: order, errors, prices,
// places of accounts, clients that leave.

import t from 'tap';
import { createManualClock } from '../../src/actor/clock.ts';
import type { ApiDeps } from '../../src/api/deps.ts';
import { startPages } from '../../src/api/fetch.ts';
import type { PageOutcome } from '../../src/api/page-batch.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import type { PageClient, PageRequest } from '../../src/fetch/index.ts';
import { createGateway, type Gateway, type InProcessEngine, type PageFailure } from '../../src/index.ts';
import { page, type Pages, type Scope, site } from '../support/site.ts';
import { until } from '../support/system.ts';

const ACCOUNTS = ['one', 'two'].map((account) => ({ key: `hr_${account}`, account }));

const article = (title: string): string =>
  `<title>${title}</title><main><h1>${title}</h1>${`<p><em>${title}</em> holds the river back in a dry month.</p>`.repeat(20)}</main>`;

const PAGES: Pages = {
  '/a': page(article('Weir')),
  '/b': page(article('Race')),
  '/image': page('PNG', { 'content-type': 'image/png' }),
  '/gone': page('gone', {}, 410),
};

/** A busy machine may need long for the first page of a cleaner. */
const PATIENT = { timeout: '1m', cleanTimeout: '1m' };

interface Opened {
  readonly gateway: Gateway;
  readonly origin: string;
  readonly asked: string[];
  readonly ask: (body: unknown, key?: string, path?: string) => ReturnType<Gateway['inject']>;
}

/** A gateway with a ledger, on which a page costs 0.001 USD, and engines that find pages of a site. */
async function open(
  t: Scope,
  more: { pages?: Pages; fetch?: SettingsInput['fetch']; search?: SettingsInput['search']; found?: string[] } = {},
): Promise<Opened> {
  const { asked, origin, port } = await site(t, { ...PAGES, ...more.pages });
  const engine: InProcessEngine = {
    kind: 'mine',
    documentation: 'https://example.com/',
    types: ['web'],
    search: () => Promise.resolve((more.found ?? []).map((path) => ({ title: path, url: origin + path, snippet: '' }))),
  };
  const gateway = createGateway({
    ...{ listen: '127.0.0.1:0', admin: null, threads: 0, store: 'sqlite::memory:' },
    keys: { static: ACCOUNTS },
    log: { level: 'silent' },
    fetch: { allow: ['127.0.0.1'], ports: [port], price: '0.001', cleaners: 1, ...PATIENT, ...more.fetch },
    search: {
      ...{ engines: { mine: engine }, default: ['mine'], pricing: { mine: '0.005' }, timeout: '30s' },
      ...more.search,
    },
  });
  t.teardown(() => gateway.close());
  await gateway.listen();
  const ask: Opened['ask'] = (body, key = 'hr_one', path = '/search/fetch') =>
    gateway.inject({ path, headers: { authorization: `Bearer ${key}` }, body });
  return { gateway, origin, asked, ask };
}

interface BatchAnswer {
  readonly results: readonly { url: string; title?: string; content?: string; error?: PageFailure['error'] }[];
}

t.test('pages are answered in the order of their URLs, each with its own error', async (t) => {
  const { ask, asked, origin } = await open(t);
  const urls = ['/b', '/image', '/a', '/gone', '/a#part'].map((path) => origin + path);
  const response = await ask({ urls: [...urls, 'http://169.254.169.254/'], format: 'markdown' });
  t.equal(response.status, 200);
  const { results } = response.json<BatchAnswer>();
  t.same(
    results.map(({ error, title, url }) => [url.replace(origin, ''), title ?? error?.code]),
    [
      ['/b', 'Race'],
      ['/image', 'HR_FETCH_TYPE'],
      ['/a', 'Weir'],
      ['/gone', 'HR_FETCH_FAILED'],
      ['/a', 'Weir'],
      ['http://169.254.169.254/', 'HR_FETCH_BLOCKED'],
    ],
  );
  t.match(results[3]?.error, { detail: 'The page could not be fetched: status 410' });
  t.match(results[0]?.content, /^\*Race\* holds/);
  t.equal(asked.filter((path) => path === '/a').length, 1, 'a URL that repeats is one page');
  t.equal(response.headers['x-headrace-cost'], '0.002', 'two pages were read');
  const again = await ask({ urls: [`${origin}/a`, `${origin}/b`], format: 'markdown' });
  t.match(again.headers, { 'x-headrace-cache': 'hit', 'x-headrace-cost': '0.002' }, 'kept pages cost the same');
});

t.test('the pages of a batch say of themselves what a single page does', async (t) => {
  const html = `<html lang="en"><head><link rel="canonical" href="https://example.com/told"><meta name="author" content="Ada Marsh"><meta property="article:published_time" content="2026-05-04T10:00:00Z"></head>${article('Told')}</html>`;
  const { ask, origin } = await open(t, { pages: { '/told': page(html) } });
  const single = (await ask({ url: `${origin}/told`, max_chars: 100_000 })).json<Record<string, unknown>>();
  const told = { language: 'en', canonical_url: 'https://example.com/told', authors: ['Ada Marsh'] };
  t.match(single, { ...told, published_at: /^2026-05-04/, fetched_at: String, version: String });
  const { results } = (await ask({ urls: [`${origin}/told`] })).json<BatchAnswer>();
  t.same(results, [single]);
});

t.test('the pages of a batch share its characters', async (t) => {
  const { ask, origin } = await open(t, {
    pages: { '/long': page('long line of text\n'.repeat(150_000), { 'content-type': 'text/plain' }) },
  });
  const lengthsOf = async (body: object): Promise<[length: number, next: number | undefined][]> => {
    const { results } = (await ask(body)).json<{ results: { content?: string; next_start?: number }[] }>();
    return results.map(({ content = '', next_start: next }) => [content.length, next]);
  };
  const whole = 150_000 * 18 - 1;
  t.same(await lengthsOf({ urls: [`${origin}/long`] }), [[whole, undefined]]);
  const [first] = await lengthsOf({ urls: [`${origin}/long`, `${origin}/gone`] });
  t.ok(first !== undefined && first[0] <= 2_000_000 && first[0] > 1_900_000, `${first?.[0]} of 4,000,000 for two`);
  t.equal(first?.[1], first?.[0], 'it is read on from there');
});

t.test('a batch of which no page can be read is an answer that costs nothing', async (t) => {
  const { ask, origin } = await open(t);
  const response = await ask({ urls: [`${origin}/gone`, `${origin}/image`] });
  t.equal(response.status, 200);
  t.match(response.json(), { results: [{ error: { code: 'HR_FETCH_FAILED' } }, { error: { code: 'HR_FETCH_TYPE' } }] });
  t.equal(response.headers['x-headrace-cost'], '0.00');
});

t.test('exactly one of url and urls is there', async (t) => {
  const { ask, gateway, origin } = await open(t);
  for (const [body, loc, type] of [
    [{}, ['body', 'url'], 'missing'],
    [{ url: origin, urls: [origin] }, ['body', 'urls'], 'value_error'],
    [{ urls: [] }, ['body', 'urls'], 'too_short'],
    [{ urls: Array.from({ length: 21 }, () => origin) }, ['body', 'urls'], 'too_long'],
    [{ urls: [origin, 'ftp://example.com/'] }, ['body', 'urls', 1], 'url_scheme'],
  ] as const) {
    const response = await ask(body);
    t.equal(response.status, 422);
    t.match(response.json(), { detail: [{ loc, type }] });
  }
  await t.rejects(gateway.fetchPages([]), { code: 'HR_REQUEST_INVALID' });
});

t.test('the library fetches several pages', async (t) => {
  const { gateway, origin } = await open(t);
  const pages = await gateway.fetchPages([`${origin}/a`, `${origin}/gone`], { format: 'markdown' });
  t.match(pages, [{ title: 'Weir' }, { url: `${origin}/gone`, error: { code: 'HR_FETCH_FAILED' } }]);
  const stop = new AbortController();
  const leaving = gateway.fetchPages([`${origin}/a`], { signal: stop.signal });
  setImmediate(() => stop.abort(new Error('left')));
  await t.rejects(leaving, /left/);
});

t.test('a batch delays neither another account nor the single pages of its own', async (t) => {
  const waiting: (() => void)[] = [];
  const { ask, asked, origin } = await open(t, {
    pages: { '/slow': (_, response) => void waiting.push(() => response.end(article('Slow'))) },
    fetch: { perAccount: 2, perHost: 8 },
  });
  const urls = Array.from({ length: 6 }, (_, at) => `${origin}/slow?${at}`);
  const batch = ask({ urls });
  await until('two pages are under way', () => waiting.length === 2);
  t.equal((await ask({ url: `${origin}/a` }, 'hr_two')).status, 200, 'another account has places of its own');
  const single = ask({ url: `${origin}/b` });
  waiting.shift()?.();
  t.equal((await single).status, 200);
  t.ok(asked.indexOf('/b') <= 4, 'after the first page of the batch, not after all of them');
  let ended = false;
  void batch.then(() => (ended = true));
  await until('the batch has ended', () => {
    waiting.shift()?.();
    return ended;
  });
  t.equal((await batch).json<BatchAnswer>().results.filter(({ title }) => title === 'Slow').length, 6);
});

t.test('a client that leaves a batch ends its downloads, and frees its places', async (t) => {
  let closed = 0;
  const { ask, asked, gateway, origin } = await open(t, {
    pages: { '/never': (request) => void request.socket.on('close', () => closed++) },
    fetch: { perAccount: 2 },
  });
  const stop = new AbortController();
  const leaving = gateway.fetchPages([`${origin}/never?1`, `${origin}/never?2`, `${origin}/never?3`], {
    signal: stop.signal,
  });
  const rejected = t.rejects(leaving, /left/);
  await until('two pages are under way', () => asked.length === 2);
  stop.abort(new Error('left'));
  await rejected;
  await until('both connections are closed', () => closed === 2);
  t.equal((await ask({ url: `${origin}/a` })).status, 200);
});

t.test('a batch whose pages are all refused before they were asked for is that refusal', async (t) => {
  const { ask, origin } = await open(t, {
    pages: { '/never': () => undefined },
    fetch: { perAccount: 1, queue: 4, timeout: '1s' },
  });
  const full = [1, 2].map((at) => ask({ url: `${origin}/never?${at}` }));
  const refused = await ask({ urls: [`${origin}/a`, `${origin}/b`] });
  t.match(refused, { status: 429, headers: { 'x-headrace-error': 'HR_FETCH_LIMIT', 'retry-after': '1' } });
  await Promise.all(full);
});

t.test('a batch ends after twice the time of a page', async (t) => {
  const clock = createManualClock();
  const fetched: string[] = [];
  const left: string[] = [];
  const pages: Pick<PageClient, 'fetch'> = {
    fetch: (_account, { url }, _timeoutMs, done) => {
      fetched.push(url);
      const end = (): void => done(null, { url, title: '', content: '', word_count: 0 }, false);
      const timer = clock.setTimeout(end, 900);
      return {
        abort: () => {
          left.push(url);
          clock.clearTimeout(timer);
        },
      };
    },
  };
  const settings = { fetch: { timeoutMs: 1000, perAccount: 1 } };
  const requests = ['1', '2', '3', '4'].map((path): PageRequest => {
    return { url: `http://x/${path}`, format: 'text', include: [] };
  });
  let answer: readonly PageOutcome[] | null = null;
  const deps = { clock, pages, settings } as unknown as ApiDeps;
  startPages(deps, 'acme', { pages: requests, isBatch: true }, null, (_error, outcomes) => (answer = outcomes));
  clock.advance(900);
  clock.advance(900);
  clock.advance(199);
  t.equal(answer, null);
  clock.advance(1);
  t.match(answer, [{ error: null }, { error: null }, { error: { code: 'HR_FETCH_TIMEOUT' } }, { answer: null }]);
  t.same([fetched.length, left], [3, ['http://x/3']]);
  t.equal(clock.nextDueMs, Infinity);
});

t.test('a search has the text of its best results, and costs its engines and the pages that were read', async (t) => {
  const { ask, asked, gateway, origin } = await open(t, { found: ['/a', '/gone', '/b', '/image'] });
  const body = { query: 'q', content: { results: 3, max_chars: 50, format: 'markdown' } };
  const response = await ask(body, 'hr_one', '/search');
  t.equal(response.status, 200);
  const { results } = response.json<{ results: Record<string, unknown>[] }>();
  t.match(results[0], { url: `${origin}/a`, content: /^\*Weir\*/, content_truncated: true });
  t.ok(String(results[0]?.['content']).length <= 50);
  t.equal(results[0]?.['word_count'], 180);
  t.match(results[1], { content_error: 'HR_FETCH_FAILED' });
  t.match(results[2], { content: /^\*Race/ });
  t.notOk('content' in (results[3] ?? {}) || 'content_error' in (results[3] ?? {}));
  t.same(asked.toSorted(), ['/a', '/b', '/gone']);
  t.equal(response.headers['x-headrace-cost'], '0.007');
  const again = await gateway.search({ query: 'q', content: { results: 1 } });
  t.match(again.results[0], { content: /^Weir/ });
  t.notOk('content' in (again.results[1] ?? {}));
});

t.test(
  'equal searches share engines and pages: the list is paid once, each page by everybody who gets it',
  async (t) => {
    const { ask, asked } = await open(t, { found: ['/a', '/b'], fetch: { cacheTtl: null } });
    const search = (content?: object): ReturnType<typeof ask> =>
      ask({ query: 'q', ...(content !== undefined && { content }) }, 'hr_one', '/search');
    const answers = await Promise.all([search({ results: 2 }), search({ results: 2 }), search()]);
    t.same(asked.toSorted(), ['/a', '/b']);
    t.same(
      answers.map(({ headers }) => headers['x-headrace-cost']),
      ['0.007', '0.002', '0.00'],
    );
  },
);

t.test('a wrong content is refused', async (t) => {
  const { ask } = await open(t);
  for (const content of [{ results: 0 }, { results: 11 }, { max_chars: 0 }, { max_chars: 100_001 }, { format: 'html' }])
    t.match(await ask({ query: 'q', content }, 'hr_one', '/search'), { status: 422 });
  t.match(await ask({ query: 'q', content: true }, 'hr_one', '/search'), { status: 422 });
});

t.test('a search whose account fetches as much as it may is answered at its deadline, without text', async (t) => {
  let release = (): void => undefined;
  const { ask, asked, origin } = await open(t, {
    found: ['/a'],
    pages: { '/slow': (_, response) => (release = () => void response.writeHead(200).end()) },
    fetch: { perAccount: 1, timeout: '30s' },
    search: { timeout: '800ms' },
  });
  const stuck = ask({ url: `${origin}/slow` });
  await until('the place is taken', () => asked.includes('/slow'));
  const response = await ask({ query: 'q', content: {} }, 'hr_one', '/search');
  t.match(response.json(), { results: [{ content_error: 'HR_FETCH_TIMEOUT' }] });
  t.equal(response.headers['x-headrace-cost'], '0.005');
  release();
  await stuck;
});
