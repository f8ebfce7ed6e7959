// Search and fetch in the interfaces of other products: requests as their clients send them, answers and errors as they read them, keys
// where they put them, and what is charged. The real clients are in `test/package/search-clients.slow.test.ts`.

import t from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway, type EngineHit, type Gateway, type InProcessEngine } from '../../src/index.ts';
import { type Pages, site } from '../support/site.ts';

const KEY = 'hr_compat';
const GOOD = { authorization: `Bearer ${KEY}` };

type Scope = Pick<typeof t, 'teardown'>;
type Answer = Awaited<ReturnType<Gateway['inject']>>;
type Json = Record<string, any>;

const ARTICLE = `<!doctype html><html lang="en"><head><title>On weirs</title><meta name="description" content="About weirs">
</head><body><nav><a href="/">Home</a></nav><article><h1>On weirs</h1><img src="/weir.png" alt="A weir" width="800" height="600">
${'<p>A weir holds the river back so that the <a href="/race">headrace</a> is full in a dry month.</p>'.repeat(8)}
</article><footer>All rights reserved</footer></body></html>`;

const PAGES: Pages = {
  '/article': (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(ARTICLE),
  '/image': (_, response) => response.writeHead(200, { 'content-type': 'image/png' }).end('PNG'),
};

interface Opened {
  readonly gateway: Gateway;
  readonly origin: string;
  /** Pages asked for, in order. */
  readonly asked: string[];
  /** What the engine was asked, in order. */
  readonly queries: Parameters<InProcessEngine['search']>[0][];
}

async function open(t: Scope, settings: SettingsInput = {}): Promise<Opened> {
  const { asked, origin, port } = await site(t, PAGES);
  const queries: Opened['queries'] = [];
  const hits = Array.from({ length: 30 }, (_, index): EngineHit => ({
    title: `Title ${index}`,
    url: `${origin}/article?n=${index}`,
    snippet: `text ${index}`,
    thumbnailUrl: `https://img.example/${index}.png`,
    imageUrl: `https://img.example/${index}-large.png`,
    width: 40,
    height: 30,
  }));
  const engine: InProcessEngine = {
    kind: 'mine',
    documentation: 'https://example.com/',
    types: ['web', 'news', 'images', 'academic'],
    search(query) {
      queries.push(query);
      return Promise.resolve(hits);
    },
  };
  const gateway = createGateway({
    keys: { static: [{ key: KEY, account: 'tests' }] },
    log: { level: 'silent' },
    search: { default: ['engine_a'], engines: { engine_a: engine }, pricing: { engine_a: '0.005' } },
    fetch: { allow: ['127.0.0.1'], ports: [port], price: '0.001' },
    ...settings,
  });
  t.teardown(() => gateway.close());
  return { gateway, origin, asked, queries };
}

const post = (gateway: Gateway, path: string, body: unknown, headers: Record<string, string> = GOOD): Promise<Answer> =>
  gateway.inject({ path, headers, body });

const get = (gateway: Gateway, path: string, headers: Record<string, string> = GOOD): Promise<Answer> =>
  gateway.inject({ method: 'GET', path, headers });

t.test('a search of Tavily has what its clients read, and as many results as they ask for in all', async (t) => {
  const { gateway, queries } = await open(t);
  // As @tavily/core 0.7.13 sends it.
  const answer = await post(gateway, '/tavily/search', {
    query: 'weirs',
    search_depth: 'advanced',
    topic: 'news',
    max_results: 12,
    include_answer: true,
    include_images: true,
    include_domains: ['https://www.Example.com/path', '*.example.org', '127.0.0.1'],
    exclude_domains: [],
    start_date: '2026-01-01',
    country: 'united kingdom',
    include_usage: true,
  });
  t.equal(answer.status, 200);
  const body = answer.json<Json>();
  t.match(body, { query: 'weirs', answer: null, follow_up_questions: null, usage: { credits: 1 } });
  t.equal(body['results'].length, 12);
  t.same(Object.keys(body['results'][0]).sort(), ['content', 'id', 'raw_content', 'score', 'title', 'url']);
  t.equal(new Set(body['results'].map(({ id }: { id: string }) => id)).size, 12, 'each result has an id of its own');
  t.match(body['results'][0], { title: 'Title 0', content: 'text 0', raw_content: null, score: 1 });
  const scores = body['results'].map(({ score }: { score: number }) => score);
  t.same(
    scores,
    [...scores].sort((a, b) => b - a),
    'scores fall with the place',
  );
  t.type(body['response_time'], 'number');
  t.equal(body['request_id'], answer.headers['x-request-id']);
  t.match(queries[0], { query: 'weirs', type: 'news' });
  t.match(queries[0]?.filters, {
    includeDomains: ['127.0.0.1', 'example.org', 'www.example.com'],
    timeRange: { from: '2026-01-01' },
    country: 'GB',
  });
});

t.test('days of Tavily limit news alone: its clients send them with every search', async (t) => {
  const { gateway, queries } = await open(t);
  // As CrewAI 1.15 and tavily-python 0.5 send it.
  for (const topic of ['general', 'news']) await post(gateway, '/tavily/search', { query: 'weirs', topic, days: 7 });
  t.equal(queries[0]?.filters, undefined);
  t.match(queries[1]?.filters, { timeRange: { from: /^\d{4}-\d\d-\d\d$/ } });
});

t.test('raw content of Tavily is the page of each result', async (t) => {
  const { gateway, asked } = await open(t);
  const ask = { query: 'weirs', max_results: 2, include_raw_content: 'text', topic: 'general' };
  const { results } = (await post(gateway, '/tavily/search', ask)).json<Json>();
  t.equal(results.length, 2);
  t.match(results[0].raw_content, /^A weir holds the river back/);
  t.equal(asked.length, 2);
});

t.test('an extract of Tavily names pages that failed beside those that were read', async (t) => {
  const { gateway, origin } = await open(t);
  const urls = [`${origin}/article`, `${origin}/image`, 'http://[::1]/'];
  const answer = await post(gateway, '/tavily/extract', { urls, include_images: true });
  const { failed_results: failed, results } = answer.json<Json>();
  t.match(results, [{ url: urls[0], title: 'On weirs', images: [`${origin}/weir.png`] }]);
  t.match(results[0].raw_content, `[headrace](${origin}/race)`);
  t.match(failed, [
    { url: urls[1], error: /not text/ },
    { url: urls[2], error: /may not be fetched/ },
  ]);
  const one = await post(gateway, '/tavily/extract', { urls: `${origin}/article`, format: 'text' });
  t.match(one.json(), { results: [{ url: `${origin}/article` }], failed_results: [] });
});

t.test('old clients of Tavily send the key in the body: it is checked as in a header', async (t) => {
  const { gateway, queries } = await open(t);
  const ask = (key: string, headers = {}): Promise<Answer> =>
    post(gateway, '/tavily/search', { query: 'weirs', api_key: key }, headers);
  t.equal((await ask(KEY)).status, 200);
  const bad = await ask('hr_wrong');
  t.equal(bad.status, 401);
  t.same(bad.json(), { detail: { error: 'Invalid API key' } });
  t.equal((await ask(KEY, { authorization: 'Bearer hr_wrong' })).status, 401, 'the header counts where there is one');
  t.equal((await ask('', {})).status, 401);
  t.equal((await post(gateway, '/search', { query: 'weirs', api_key: KEY }, {})).status, 401, 'nowhere else');
  t.equal(queries.length, 1, 'nothing runs without a good key');
});

t.test('errors have the shape and the status by which each client chooses its exception', async (t) => {
  const { gateway, origin } = await open(t);
  const errors: readonly (readonly [path: string, body: unknown, status: number, answer: object])[] = [
    ['/tavily/search', {}, 400, { detail: { error: 'query: Field required' } }],
    ['/tavily/search', { query: 'x', topic: 'sports' }, 400, { detail: { error: /^topic: Input should be general/ } }],
    ['/tavily/search', { query: 'x', max_results: 1000 }, 400, { detail: { error: /^max_results/ } }],
    ['/tavily/search', { query: 'x', country: 'atlantis' }, 400, { detail: { error: /no known country/ } }],
    ['/tavily/search', { query: 'x', start_date: '2026-13-01' }, 400, { detail: { error: /^start_date: / } }],
    [
      '/tavily/search',
      { query: 'x', end_date: 'now' },
      400,
      { detail: { error: /^end_date: Input should be a date/ } },
    ],
    [
      '/tavily/search',
      { query: 'x', start_date: '2026-02-01', end_date: '2026-01-01' },
      400,
      { detail: { error: /^start_date: / } },
    ],
    ['/tavily/search', '{', 400, { detail: { error: 'The body should be JSON' } }],
    ['/tavily/extract', { urls: ['no url'] }, 400, { detail: { error: /^urls\.0/ } }],
    ['/tavily/crawl', {}, 404, { detail: { error: /not served/ } }],
    ['/firecrawl/v2/scrape', {}, 400, { success: false, error: 'url: Field required', code: 'HR_REQUEST_INVALID' }],
    ['/firecrawl/v2/scrape', { url: 'http://[::1]/' }, 400, { success: false, code: 'HR_FETCH_BLOCKED' }],
    ['/firecrawl/v2/scrape', { url: `${origin}/none` }, 500, { success: false, error: /status 404/ }],
    ['/v2/scrape', { url: origin.replace('http:', 'https:') }, 500, { success: false, code: 'SCRAPE_SSL_ERROR' }],
    ['/firecrawl/v1/scrape', { url: origin, formats: ['screenshot'] }, 400, { error: /screenshot/ }],
    ['/firecrawl/v2/scrape', { url: origin, formats: [{ type: 'json' }] }, 400, { error: /json/ }],
    ['/firecrawl/v2/scrape', { url: origin, actions: [{ type: 'wait' }] }, 400, { error: /actions: not supported/ }],
    ['/firecrawl/v2/search', { query: 'x', tbs: 'qdr:z' }, 400, { error: /tbs/ }],
    ['/v2/search', { query: 'x', tbs: 'cdr:1,cd_min:2/1/2026,cd_max:1/1/2026' }, 400, { error: /^tbs: / }],
    [
      '/v2/search',
      { query: 'x', includeDomains: ['a b'] },
      400,
      { error: /^includeDomains\.0: Input should be a host/ },
    ],
    ['/firecrawl/v2/search', { query: 'x', sources: ['web', 'news'] }, 400, { error: /one at a time/ }],
    ['/firecrawl/v2/search', { query: 'x', sources: ['alexandria'] }, 400, { error: /alexandria/ }],
    ['/v2/search', { query: 'x', sources: ['images'], categories: ['research'] }, 400, { error: /^categories: .*web/ }],
    ['/firecrawl/v2/crawl', { url: origin }, 404, { success: false, error: /not served/ }],
    ['/v2/crawl', { url: origin }, 404, { success: false, error: /not served: of Firecrawl there are/ }],
    ['/v2/batch/scrape', { urls: [origin] }, 404, { success: false, code: 'HR_ROUTE_UNSERVED' }],
    ['/v1/crawl', { url: origin }, 404, { success: false, error: /not served: of Firecrawl there are/ }],
    ['/v1/batch/scrape', { urls: [origin] }, 404, { success: false, code: 'HR_ROUTE_UNSERVED' }],
    ['/v2/scrape', { url: 'x:y' }, 400, { success: false }],
  ];
  for (const [path, body, status, expected] of errors) {
    const answer = await post(gateway, path, body);
    t.equal(answer.status, status, `${path} ${JSON.stringify(body)}`);
    t.match(answer.json(), expected, path);
    t.ok(answer.headers['x-headrace-error'], 'our code is a header');
  }
  for (const path of ['/v2/team/credit-usage', '/v2/crawl/ID', '/v1/concurrency-check', '/firecrawl/v2/crawl/ID']) {
    t.match((await get(gateway, path)).json(), { success: false, code: 'HR_ROUTE_UNSERVED' }, path);
  }
  for (const [path, expected] of [
    ['/tavily/search', { detail: { error: 'Not authenticated' } }],
    ['/firecrawl/v2/search', { success: false, error: 'Not authenticated', code: 'HR_AUTH_MISSING' }],
    ['/jina/', { data: null, code: 401, name: 'AuthenticationFailedError' }],
    ['/v1/scrape', { success: false, error: 'Not authenticated' }],
  ] as const) {
    const answer = await post(gateway, path, { url: origin, query: 'x' }, {});
    t.equal(answer.status, 401);
    t.match(answer.json(), expected);
  }
});

t.test('SearXNG is asked by query or by form, with its own words', async (t) => {
  const { gateway, queries } = await open(t);
  // As Open WebUI 0.12.4 sends it.
  const query =
    'q=weirs+and+races&format=json&pageno=2&safesearch=1&language=en-US&time_range=week&categories=images,general&theme=simple&image_proxy=0&engines=google,engine_a';
  const answer = await get(gateway, `/searxng/search?${query}`);
  t.equal(answer.status, 200);
  const body = answer.json<Json>();
  t.match(body, { query: 'weirs and races', answers: [], infoboxes: [], suggestions: [], unresponsive_engines: [] });
  t.match(body['results'][0], {
    title: 'Title 10',
    content: 'text 10',
    engine: 'engine_a',
    engines: ['engine_a'],
    positions: [11],
    score: 1,
    category: 'images',
    img_src: 'https://img.example/10-large.png',
    resolution: '40 x 30',
  });
  t.same(body['unresponsive_engines'], [], 'an engine that cannot limit the language has answered');
  t.equal(body['number_of_results'], body['results'].length);
  t.match(queries[0], { type: 'images' });
  t.match(queries[0]?.filters, { safeSearch: 'moderate', language: 'en', country: 'US', timeRange: 'week' });

  const form = { ...GOOD, 'content-type': 'application/x-www-form-urlencoded' };
  t.equal((await post(gateway, '/searxng/search', 'q=weirs&format=json', form)).status, 200);
  t.equal((await get(gateway, '/searxng?q=weirs&format=json&language=all&time_range=')).status, 200, 'at its root');
  t.same(queries.at(-1)?.filters, undefined);
});

t.test('SearXNG refuses as it does', async (t) => {
  const { gateway } = await open(t);
  for (const [query, status, error] of [
    ['q=x', 403, /format=json/],
    ['q=x&format=csv', 403, /format=json/],
    ['format=json', 400, 'q: Field required'],
    ['q=x&format=json&time_range=hour', 400, /time_range/],
    ['q=x&format=json&pageno=11', 400, /pageno/],
    ['q=x&format=json&categories=music', 400, /categories/],
  ] as const) {
    const answer = await get(gateway, `/searxng/search?${query}`);
    t.equal(answer.status, status, query);
    t.match(answer.json(), { error });
  }
  const basic = (text: string): Record<string, string> => ({
    authorization: `Basic ${Buffer.from(text).toString('base64')}`,
  });
  const ask = '/searxng/search?q=x&format=json';
  t.equal((await get(gateway, ask, basic(`user:${KEY}`))).status, 200, 'the password of the URL is the key');
  t.equal((await get(gateway, ask, basic(`${KEY}:`))).status, 200, 'or the user');
  t.same((await get(gateway, ask, basic('user:wrong'))).json(), { error: 'Invalid API key' });
  t.same((await get(gateway, ask, {})).json(), { error: 'Not authenticated' });
  t.equal((await post(gateway, '/search', { query: 'x' }, basic(`user:${KEY}`))).status, 401, 'nowhere else');
});

t.test('a page of the Reader follows the path, with its query or percent-encoded', async (t) => {
  const { asked, gateway, origin } = await open(t);
  const answer = await get(gateway, `/jina/${origin}/article?a=1&b=%20x`);
  t.equal(answer.status, 200);
  t.match(answer.headers['content-type'], 'text/plain');
  t.match(
    answer.text(),
    `Title: On weirs\n\nURL Source: ${origin}/article?a=1&b=%20x\n\nMarkdown Content:\nA weir`.slice(0, 40),
  );
  t.match(answer.text(), `[headrace](${origin}/race)`);
  await get(gateway, `/jina/${encodeURIComponent(`${origin}/article?c=2`)}`);
  await get(gateway, `/jina/${origin.replace('//', '/')}/article?d=3`);
  await post(gateway, '/jina/', { url: `${origin}/article?e=4` });
  await post(gateway, '/jina', `url=${encodeURIComponent(`${origin}/article?f=5`)}`, {
    ...GOOD,
    'content-type': 'application/x-www-form-urlencoded',
  });
  t.same(
    asked,
    ['?a=1&b=%20x', '?c=2', '?d=3', '?e=4', '?f=5'].map((query) => `/article${query}`),
  );
});

t.test('formats, summaries and JSON of the Reader', async (t) => {
  const { gateway, origin } = await open(t);
  const ask = (headers: Record<string, string>): Promise<Answer> =>
    get(gateway, `/jina/${origin}/article`, { ...GOOD, ...headers });
  t.match((await ask({ 'x-return-format': 'html' })).text(), /^<p>A weir|<p>A weir/);
  t.match((await ask({ 'x-return-format': 'html' })).headers, {
    'content-type': /^text\/plain/,
    'x-content-type-options': 'nosniff',
  });
  t.match((await ask({ 'x-respond-with': 'text' })).text(), /^A weir holds the river back so that the headrace/);
  t.notMatch((await ask({ 'x-return-format': 'markdown' })).text(), 'URL Source');
  const json = await ask({
    accept: 'application/json',
    'x-with-links-summary': 'true',
    'x-with-images-summary': 'true',
  });
  t.match(json.json(), {
    code: 200,
    status: 20000,
    data: {
      title: 'On weirs',
      description: 'About weirs',
      url: `${origin}/article`,
      content: /A weir/,
      links: { headrace: `${origin}/race` },
      images: { 'Image 1: A weir': `${origin}/weir.png` },
      usage: { tokens: Number },
    },
  });
  t.match((await ask({ 'x-with-links-summary': '1' })).text(), `Links/Buttons:\n- [headrace](${origin}/race)`);
  // As axios sends it to everybody.
  for (const accept of [
    'application/json, text/plain, */*',
    'application/json, */*;q=0.5',
    'application/json, text/*',
  ]) {
    t.match((await ask({ accept })).text(), /^Title: On weirs\n/, accept);
  }
  t.match((await ask({ accept: 'text/json' })).json(), { code: 200 });
  const all = { accept: 'application/json', 'x-with-links-summary': 'all' };
  t.same((await ask(all)).json<Json>()['data'].links, [['headrace', `${origin}/race`]], 'pairs: texts may repeat');
  for (const [name, value] of [
    ['x-return-format', 'screenshot'],
    ['x-target-selector', 'main'],
    ['x-set-cookie', 'a=b'],
    ['x-proxy-url', 'http://127.0.0.1:1/'],
    ['x-max-tokens', '500'],
    ['x-json-schema', '{"type":"object"}'],
    ['x-instruction', 'Find the price'],
    ['x-cache-tolerance', 'ever'],
    ['accept', 'text/event-stream'],
  ] as const) {
    const answer = await ask({ [name]: value });
    t.equal(answer.status, 400, name);
    t.match(answer.json(), { data: null, code: 400, name: 'ParamValidationError', readableMessage: new RegExp(name) });
  }
  t.equal((await ask({ 'x-wait-for-selector': 'main', 'x-timeout': '10', 'x-no-cache': 'true' })).status, 200);
});

t.test('no trick with the path of the Reader gets around the guard', async (t) => {
  const { asked, gateway, origin } = await open(t, { fetch: { ports: [80, 443, 8080] } });
  const { port } = new URL(origin);
  for (const target of [
    'http://127.0.0.1:8080/',
    `http:/127.0.0.1:${port}/`,
    'http:////127.0.0.1/',
    'http%3A%2F%2F127.0.0.1%2F',
    'http%3a%2f%2f169.254.169.254%2flatest',
    'http://2130706433/',
    'http://[::ffff:7f00:1]/',
    'http://user:pass@127.0.0.1/',
    'http://127.0.0.1%2F@example.com/',
    'http:%5C%5C127.0.0.1%5C',
    '127.0.0.1',
    '/127.0.0.1',
    '../search',
    '%2e%2e/search',
    'localhost',
    'file:///etc/passwd',
    'gopher://127.0.0.1/',
    'javascript:alert(1)',
    'data:text/html,x',
    'ftp://example.com/',
    'http://',
    'https://',
    '%zz',
    'http%3A%2F%2F%ff',
    '?url=http://127.0.0.1/',
    '',
  ]) {
    const answer = await get(gateway, `/jina/${target}`);
    t.ok([400, 500, 502].includes(answer.status), `${target}: ${answer.status}`);
    t.match(answer.json(), { data: null, code: answer.status });
  }
  t.same(asked, [], 'nothing reached the site');
});

t.test('Firecrawl scrapes in several formats, below its name and at the root', async (t) => {
  const { asked, gateway, origin } = await open(t);
  const url = `${origin}/article`;
  // As firecrawl-py 4.55.0 sends it.
  const usual = { onlyMainContent: true, mobile: false, skipTlsVerification: true, blockAds: true, maxAge: 14_400_000 };
  const ask = { url, formats: ['markdown', { type: 'html' }, 'links', 'images'], origin: 'python-sdk', ...usual };
  for (const path of ['/firecrawl/v2/scrape', '/v2/scrape', '/firecrawl/v1/scrape', '/v1/scrape']) {
    const answer = await post(gateway, path, ask);
    t.equal(answer.status, 200, path);
    const { data } = answer.json<Json>();
    t.match(data, {
      markdown: `[headrace](${origin}/race)`,
      html: /<p>A weir/,
      links: [`${origin}/race`],
      images: [`${origin}/weir.png`],
      metadata: { title: 'On weirs', description: 'About weirs', sourceURL: url, url, statusCode: 200, language: 'en' },
    });
  }
  t.equal(asked.filter((path) => path === '/article').length, 1, 'both formats are of one download, which is kept');
  const html = (await post(gateway, '/v2/scrape', { url, formats: ['html'] })).json<Json>();
  t.same(Object.keys(html['data']).sort(), ['html', 'metadata']);
  t.match(html['data'].html, /<p>A weir/);
  const plain = (await post(gateway, '/v2/scrape', { url })).json<Json>();
  t.same(Object.keys(plain['data']).sort(), ['markdown', 'metadata'], 'markdown where no format is named');
  // As LibreChat asks by default.
  const raw = (await post(gateway, '/v2/scrape', { url, formats: ['markdown', 'rawHtml'] })).json<Json>();
  t.match(raw['data'], { markdown: /A weir/, warning: /^rawHtml is left out/ });
  t.notHas(raw['data'], { rawHtml: String });
  const bare = await post(gateway, '/v1/scrape', { url: url.replace('http://', ''), formats: ['links'] });
  t.match(bare.json(), { data: { metadata: { sourceURL: url } } }, 'a URL without a scheme is one of http');
  const links = (await post(gateway, '/v2/scrape', { url, formats: ['links'] })).json<Json>();
  t.same(Object.keys(links['data']).sort(), ['links', 'metadata']);
});

t.test('Firecrawl searches: a limit in all, results by source, pages as Markdown', async (t) => {
  const { gateway, queries } = await open(t);
  const answer = await post(gateway, '/firecrawl/v2/search', {
    query: 'weirs',
    limit: 3,
    sources: [{ type: 'news' }],
    tbs: 'cdr:1,cd_min:1/2/2026,cd_max:12/31/2026',
    location: 'Berlin,Germany',
    includeDomains: ['127.0.0.1'],
    scrapeOptions: { formats: ['markdown'] },
    timeout: 60_000,
    origin: 'js-sdk@4.42.0',
  });
  t.equal(answer.status, 200);
  const { data, ...rest } = answer.json<Json>();
  t.match(rest, { success: true, creditsUsed: 4, id: answer.headers['x-request-id'] });
  t.equal(data.news.length, 3);
  t.match(data.news[0], {
    title: 'Title 0',
    position: 1,
    snippet: 'text 0',
    markdown: /A weir/,
    metadata: { statusCode: 200 },
  });
  t.match(queries[0], { type: 'news' });
  t.match(queries[0]?.filters, { timeRange: { from: '2026-01-02', to: '2026-12-31' }, country: 'DE' });

  const images = (await post(gateway, '/v2/search', { query: 'weirs', limit: 1, sources: ['images'] })).json<Json>();
  t.match(images['data'].images, [{ imageUrl: 'https://img.example/0-large.png', imageWidth: 40, imageHeight: 30 }]);
  // As firecrawl-mcp 3.26.0 asks by default.
  const tools = { query: 'weirs', sources: ['web', 'alexandria'], domainTools: true, toolDetail: 'compact', limit: 1 };
  t.match((await post(gateway, '/firecrawl/v2/search', tools)).json(), { data: { web: [{ title: 'Title 0' }] } });
  // As firecrawl-py 2.16.5 sends it.
  const first = { query: 'weirs', limit: 2, lang: 'en', country: 'us', origin: 'python-sdk@2.16.5', timeout: 60_000 };
  for (const path of ['/firecrawl/v1/search', '/v1/search']) {
    const old = (await post(gateway, path, first)).json<Json>();
    t.match(old, { success: true, data: [{ title: 'Title 0', description: 'text 0' }, {}] });
  }
  t.match(queries.at(-1)?.filters, { language: 'en', country: 'US' });
});

t.test(
  'a product that is off is 404 in its shape, and gives Firecrawl’s root paths to the model servers',
  async (t) => {
    const { gateway, origin } = await open(t, { compat: ['jina'] });
    t.equal((await get(gateway, `/jina/${origin}/article`)).status, 200);
    const tavily = await post(gateway, '/tavily/search', { query: 'x' });
    t.equal(tavily.status, 404);
    t.same(tavily.json(), { detail: { error: 'Not Found' } });
    t.same((await get(gateway, '/searxng/search?q=x&format=json')).json(), { error: 'Not Found' });
    t.match((await post(gateway, '/firecrawl/v2/scrape', {})).json(), { success: false, error: 'Not Found' });
    for (const path of ['/v2/scrape', '/v1/search', '/v2/crawl']) {
      const model = await post(gateway, path, { model: 'atlas' });
      t.equal(model.status, 404);
      t.same(model.json(), { detail: "Model 'atlas' not found" });
    }
    await gateway.close();
  },
);

t.test('a HEAD is refused before it costs anything', async (t) => {
  const { asked, gateway, origin } = await open(t);
  const answer = await gateway.inject({ method: 'HEAD', path: `/jina/${origin}/article`, headers: GOOD });
  t.equal(answer.status, 405);
  t.same(asked, []);
});

t.test('searches and pages cost what they cost in our own interface', async (t) => {
  const { gateway, origin } = await open(t, {
    store: 'sqlite::memory:',
    listen: '127.0.0.1:0',
    admin: null,
    threads: 0,
  });
  await gateway.listen();
  const url = `${origin}/article`;
  for (const [path, body, cost] of [
    ['/search', { query: 'a', max_results: 3 }, '0.005'],
    ['/tavily/search', { query: 'b', max_results: 3 }, '0.005'],
    ['/tavily/search', { query: 'c', max_results: 3, include_raw_content: true }, '0.008'],
    ['/tavily/search', { query: 'd', max_results: 11 }, '0.01'],
    ['/tavily/extract', { urls: [url, `${origin}/none`, url] }, '0.001'],
    ['/firecrawl/v2/search', { query: 'e', limit: 2, scrapeOptions: { formats: ['markdown'] } }, '0.007'],
    ['/firecrawl/v2/scrape', { url, formats: ['markdown', 'html', 'links'] }, '0.001'],
    ['/jina/', { url }, '0.001'],
    ['/searxng/search?q=f&format=json', 'x=y', '0.005'],
  ] as const) {
    const form: Record<string, string> =
      typeof body === 'string' ? { 'content-type': 'application/x-www-form-urlencoded' } : {};
    const answer = await post(gateway, path, body, { ...GOOD, ...form });
    t.equal(answer.headers['x-headrace-cost'], cost, `${path} ${JSON.stringify(body)}`);
  }
});

t.test('a web page of another origin cannot send a body without asking', async (t) => {
  const { gateway, queries } = await open(t);
  const answer = await post(gateway, '/tavily/search', '{"query":"weirs"}', { ...GOOD, 'content-type': 'text/plain' });
  t.equal(answer.status, 400);
  t.same(answer.json(), { detail: { error: 'Content-Type should be application/json' } });
  t.equal(queries.length, 0);
});

t.test(
  'without keys, a web page of another origin gets neither a search nor a page, by a link or an image either',
  async (t) => {
    const { gateway, origin, asked, queries } = await open(t, {
      keys: { required: false, static: [{ key: KEY, account: 'tests' }] },
      cors: { origins: ['https://app.example'] },
    });
    const paths = ['/searxng/search?q=weirs&format=json', `/jina/${origin}/article`];
    const ask = async (path: string, headers: Record<string, string>): Promise<string | number> => {
      const answer = await get(gateway, path, headers);
      return answer.headers['x-headrace-error'] ?? answer.status;
    };
    for (const path of paths) {
      t.equal(await ask(path, { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }), 'HR_TOOL_ORIGIN', path);
      t.equal(await ask(path, { origin: 'http://evil.example' }), 'HR_TOOL_ORIGIN', path);
    }
    t.equal(queries.length + asked.length, 0);
    for (const path of paths) {
      t.equal(await ask(path, {}), 200, 'no browser');
      t.equal(await ask(path, { 'sec-fetch-site': 'none' }), 200, 'typed into the address bar');
      t.equal(
        await ask(path, { origin: 'https://app.example', 'sec-fetch-site': 'cross-site' }),
        200,
        'a named origin',
      );
      t.equal(await ask(path, { ...GOOD, 'sec-fetch-site': 'cross-site' }), 200, 'a key');
    }
  },
);
