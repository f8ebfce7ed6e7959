// `POST /explain` for searches and fetches: what it answers is what a client gets, with how it came about, and only for operators.
import t, { type Test } from 'tap';
import type { RequestExplanation } from '../../src/api/explain.ts';
import type { ExplainedFetch } from '../../src/api/fetch.ts';
import type { ExplainedSearch } from '../../src/api/search.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway, type EngineHit, type InProcessEngine } from '../../src/index.ts';
import { site } from '../support/site.ts';

const OWNER = 'sesame';
const VIEWER = {
  name: 'v',
  role: 'viewer',
  sha256: 'd35ca5051b82ffc326a3b0b6574a9a3161dee16b9478a199ee39cd803ce5b799',
} as const;

interface Scene {
  readonly explain: (path: string, body: unknown, token?: string) => Promise<Response>;
  readonly ask: (path: string, body: unknown) => Promise<Response>;
}

async function start(t: Test, settings: SettingsInput): Promise<Scene> {
  const gateway = createGateway({
    ...{ admin: '127.0.0.1:0', adminToken: OWNER, adminTokens: [VIEWER], listen: '127.0.0.1:0' },
    ...{ log: { level: 'silent' }, keys: { required: false } },
    ...settings,
  });
  t.teardown(() => gateway.close());
  const { adminUrl, url } = await gateway.listen();
  const post = (address: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(address, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
  return {
    explain: (path, body, token = OWNER) =>
      post(`${adminUrl ?? ''}/explain?path=${path}`, body, { authorization: `Bearer ${token}` }),
    ask: (path, body) => post(url + path, body),
  };
}

function engine(...urls: readonly string[]): InProcessEngine {
  const hits = urls.map((url): EngineHit => ({ title: `Title of ${url}`, url, snippet: 'text' }));
  return { kind: 'mine', documentation: 'https://example.com/', types: ['web'], search: () => Promise.resolve(hits) };
}

t.test('a search is explained by making it: the answer is that of a client', async (t) => {
  const { ask, explain } = await start(t, {
    search: {
      engines: {
        one: engine('https://x.org/1', 'https://x.org/2'),
        two: engine('http://www.x.org/2/', 'https://y.org/'),
      },
      pricing: { one: '0.01' },
    },
  });
  const body = { query: 'weirs', engines: ['one', 'two', 'engine_c'] };
  const client = (await (await ask('/search', body)).json()) as ExplainedSearch['answer'];
  const response = await explain('/search', body);
  t.equal(response.status, 200);
  t.equal(response.headers.get('cache-control'), 'no-store');
  const { answer, costs, error, explanation, isKept } = (await response.json()) as ExplainedSearch;
  t.strictSame(answer?.results, client?.results);
  t.strictSame(answer?.meta.engine_errors, client?.meta.engine_errors);
  t.strictSame([error, isKept], [null, false]);
  t.match(costs, [
    { engine: 'one', prices: 1 },
    { engine: 'two', prices: 1 },
  ]);
  t.match(explanation, {
    engines: [
      {
        engine: 'one',
        reason: null,
        hits: [
          { fate: 'first', place: 2 },
          { fate: 'first', place: 1 },
        ],
      },
      {
        engine: 'two',
        hits: [
          { fate: 'joined', place: 1 },
          { fate: 'first', place: 3 },
        ],
      },
      { engine: 'engine_c', reason: 'not configured', hits: [] },
    ],
    pages: [
      {
        key: 'x.org/2',
        terms: [
          { engine: 'one', rank: 2, rules: [] },
          { engine: 'two', rank: 1, rules: ['scheme', 'www.', 'closing slash'] },
        ],
      },
    ],
    rankOffset: 10,
  });
});

t.test('a hit that a filter takes out is told with the reason', async (t) => {
  const { explain } = await start(t, {
    search: { engines: { one: engine('https://x.org/1', 'https://y.org/2') } },
  });
  const body = { query: 'weirs', engines: ['one'], include_domains: ['x.org'] };
  const { answer, explanation } = (await (await explain('/search', body)).json()) as ExplainedSearch;
  t.equal(answer?.results.length, 1);
  t.match(explanation.engines[0]?.hits, [
    { rank: 1, fate: 'first', place: 1 },
    { rank: 0, fate: 'dropped', place: null, hit: { url: 'https://y.org/2' }, reason: /\w/ },
  ]);
});

t.test('a search without any answer has its error, and what was tried', async (t) => {
  const { explain } = await start(t, { search: { engines: {} } });
  const { answer, error, explanation } = (await (
    await explain('/search', { query: 'weirs', engines: ['engine_c'] })
  ).json()) as ExplainedSearch;
  t.equal(answer, null);
  t.equal(error?.code, 'HR_SEARCH_ALL_FAILED');
  t.match(explanation.engines, [{ engine: 'engine_c', reason: 'not configured' }]);
  t.equal((await explain('/search', { engines: [] })).status, 422, 'a mistake is told as to a client');
});

const PROSE =
  'The weir above the mill holds the water back, so that the race has its height in dry months too. '.repeat(5);
const PAGE = `<title>Weirs</title><nav><a href="/">Home</a></nav><main><h1>Weirs</h1><p>${PROSE}</p></main>`;

for (const threads of [0, 1]) {
  t.test(`a fetch is explained with its requests and its blocks, with ${threads} threads`, async (t) => {
    const pages = await site(t, {
      '/old': (_request, response) => response.writeHead(302, { location: '/weirs' }).end(),
      '/weirs': (_request, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(PAGE),
    });
    const { ask, explain } = await start(t, {
      threads,
      fetch: { allow: ['127.0.0.1'], ports: [pages.port], robots: false },
    });
    const body = { url: `${pages.origin}/old`, format: 'markdown' };
    const client = await (await ask('/search/fetch', body)).json();
    const { answer, error, explanation } = (await (await explain('/search/fetch', body)).json()) as ExplainedFetch;
    t.strictSame(answer, client);
    t.equal(error, null);
    t.match(explanation, {
      hops: [
        { url: `${pages.origin}/old`, status: 302, leadsTo: `${pages.origin}/weirs` },
        { url: `${pages.origin}/weirs`, status: 200, contentType: 'text/html', leadsTo: null },
      ],
      robots: false,
      isRendered: false,
      download: { bytes: PAGE.length, mediaType: 'text/html', charset: null },
      clean: { chosen: 'page', source: PAGE },
    });
    const kept = explanation?.clean?.blocks.filter((block) => block.kept).map(({ text }) => text.slice(0, 8));
    t.strictSame(kept, ['The weir']);
    t.equal(pages.asked.length, 4, 'the page is read anew');
  });
}

t.test('a search with the text of its results is explained with what ended when', async (t) => {
  const pages = await site(t, {
    '/weirs': (_request, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(PAGE),
  });
  const { ask, explain } = await start(t, {
    search: { engines: { one: engine(`${pages.origin}/weirs`, `${pages.origin}/gone`) } },
    fetch: { allow: ['127.0.0.1'], ports: [pages.port], robots: false },
  });
  const body = { query: 'weirs', engines: ['one'], content: { results: 2 } };
  const client = (await (await ask('/search', body)).json()) as ExplainedSearch['answer'];
  const { answer, pages: read, steps } = (await (await explain('/search', body)).json()) as ExplainedSearch;
  t.strictSame(answer?.results, client?.results);
  t.match(answer?.results, [{ content: /^The weir/ }, { content_error: 'HR_FETCH_FAILED' }]);
  t.equal(read.count, 1);
  t.match(
    steps.map(({ message }) => message),
    ['one: answered', String, String],
  );
});

t.test('an address that the guard refuses is refused here too, with the requests before it', async (t) => {
  const pages = await site(t, {
    '/out': (_request, response) => response.writeHead(302, { location: 'http://169.254.169.254/' }).end(),
  });
  const { explain } = await start(t, {
    fetch: { allow: ['127.0.0.1'], ports: [pages.port], robots: false },
  });
  const { answer, error, explanation } = (await (
    await explain('/search/fetch', { url: `${pages.origin}/out` })
  ).json()) as ExplainedFetch;
  t.equal(answer, null);
  t.equal(error?.code, 'HR_FETCH_BLOCKED');
  t.match(explanation, { hops: [{ status: 302 }], download: null, clean: null });
});

t.test('only operators and above may make searches and fetches', async (t) => {
  const { explain } = await start(t, {
    search: { engines: { one: engine('https://x.org/') } },
  });
  // A query is no part of what a path names.
  for (const path of ['/search', '/search/fetch', '/search%3F', '/search/fetch%3Fa']) {
    t.equal((await explain(path, { query: 'weirs' }, 'wrong')).status, 401);
    t.equal((await explain(path, { query: 'weirs' }, 'viewer')).status, 403);
  }
});

t.test('a request with a web search that the gateway runs is explained by its first round', async (t) => {
  const { explain } = await start(t, {
    models: { 'atlas-27b': { servers: ['http://127.0.0.1:9'], dialects: ['chat'] } },
    health: { interval: '1h' },
    webSearchTool: true,
  });
  const ask = { model: 'atlas-27b', input: 'How high is the mill?', tools: [{ type: 'web_search' }] };
  const explained = (await (await explain('/v1/responses', ask)).json()) as RequestExplanation;
  t.match(explained, { dialect: 'responses', untranslatable: null });
  t.ok(explained.promptBytes > 0);
  t.match(explained.crns, [{ form: 'own' }]);
  const refused = await explain('/v1/responses', { ...ask, max_tool_calls: 0 });
  t.equal(refused.status, 422);
});
