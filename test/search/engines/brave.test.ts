import t from 'tap';
import { brave } from '../../../src/search/engines/brave.ts';
import type { EngineReport } from '../../../src/search/engine-client.ts';
import { FOUND, setUpClient } from '../../support/search.ts';
import { KEY, answer, contract, failure, fixture, parse } from './contract.ts';

const engine = brave({ apiKey: KEY });

contract('brave', {
  engine,
  keyed: true,
  pages: [
    { fixture: 'brave/web.json', type: 'web', hits: 3 },
    { fixture: 'brave/web-page-two.json', type: 'web', hits: 1 },
    { fixture: 'brave/news.json', type: 'news', hits: 2 },
    { fixture: 'brave/images.json', type: 'images', hits: 2 },
    { fixture: 'brave/empty.json', type: 'web', hits: 0 },
    { fixture: 'brave/nulls.json', type: 'web', hits: 1 },
  ],
  failures: [
    { fixture: 'brave/rate-limited.json', status: 429, failure: 'rate limited' },
    { fixture: 'brave/rate-limited.json', status: 200, failure: 'rate limited' },
    { fixture: 'brave/quota.json', status: 429, failure: 'quota' },
    { fixture: 'brave/bad-token.json', status: 422, failure: 'denied' },
    { fixture: 'brave/bad-token.json', status: 200, failure: 'denied' },
    { fixture: 'brave/bad-request.json', status: 422, failure: 'rejected' },
  ],
  garbage: ['{}', '{"type":"ErrorResponse"}'],
  serve: (request, supply, type) => {
    const { searchParams } = new URL(request.url);
    const [count, offset] = [Number(searchParams.get('count')), Number(searchParams.get('offset') ?? 0)];
    const results = supply.slice(offset * count, (offset + 1) * count).map((entry) => ({ ...entry, properties: {} }));
    const query = {
      original: 'danube',
      ...(type === 'web' ? { more_results_available: supply.length > (offset + 1) * count } : {}),
    };
    return type === 'web' ? { type: 'search', query, web: { results } } : { type, query, results };
  },
});

const URLS = { web: '/res/v1/web/search', news: '/res/v1/news/search', images: '/res/v1/images/search' } as const;

t.test('brave is asked by page, with no more than it takes', async (t) => {
  for (const [type, path] of Object.entries(URLS)) {
    const request = engine.request({ query: 'danube', type: type as 'web', maxResults: 5 }, undefined);
    t.equal(new URL(request.url).pathname, path);
    t.equal(request.headers['x-subscription-token'], KEY);
    t.equal(new URL(request.url).searchParams.get('count'), '5');
  }
  const count = (type: 'web' | 'news' | 'images') =>
    new URL(engine.request({ query: 'x', type, maxResults: 100 }, undefined).url).searchParams.get('count');
  t.same([count('web'), count('news'), count('images')], ['20', '50', '100']);
  const second = new URL(engine.request({ query: 'x', type: 'web', maxResults: 100 }, 1).url).searchParams;
  t.equal(second.get('offset'), '1');
});

t.test('brave gets settings and a query it can take', async (t) => {
  const set = brave({
    apiKey: KEY,
    url: 'http://proxy.example/brave',
    country: 'AT',
    language: 'de',
    safeSearch: 'off',
  });
  const { origin, pathname, searchParams } = new URL(
    set.request({ query: 'x', type: 'web', maxResults: 1 }, undefined).url,
  );
  t.equal(`${origin}${pathname}`, 'http://proxy.example/brave/web/search');
  t.same(
    ['country', 'search_lang', 'safesearch'].map((name) => searchParams.get(name)),
    ['AT', 'de', 'off'],
  );
  const q = (query: string): string =>
    new URL(engine.request({ query, type: 'web', maxResults: 1 }, undefined).url).searchParams.get('q') ?? '';
  t.equal(q('word '.repeat(80)).split(' ').length, 50);
  t.equal(q('ab'.repeat(400)).length, 400);
});

t.test('fields of brave are read as its pages describe them', async (t) => {
  t.strictSame(parse(engine, 'web', answer(fixture('brave/web.json'))), {
    hits: [
      {
        title: 'Danube - Encyclopedia',
        url: 'https://encyclopedia.example/Danube',
        snippet: "The Danube is Europe's second-longest river, after the Volga & before the Ural.",
        publishedAt: '2026-11-02T08:15:00Z',
      },
      {
        title: 'Danube <Commission>',
        url: 'https://commission.example/en/?a=1&b=2',
        snippet: 'Rules of navigation.',
        publishedAt: '2026-10-31',
      },
      { title: 'Cruises', url: 'http://cruises.example/', snippet: '' },
    ],
    next: 1,
  });
  t.strictSame(parse(engine, 'news', answer(fixture('brave/news.json'))).hits, [
    {
      title: 'Low water stops ships',
      url: 'https://daily.example/low-water',
      snippet: 'Freight waits.',
      publishedAt: '2026-11-21T08:00:00Z',
      source: 'daily.example',
    },
    {
      title: 'Bridge opens',
      url: 'https://herald.example/bridge',
      snippet: '',
      publishedAt: '2026-11-21T08:00:00Z',
      source: 'www.herald.example',
    },
  ]);
  t.strictSame(parse(engine, 'images', answer(fixture('brave/images.json'))).hits[0], {
    title: 'Danube at dusk',
    url: 'https://photos.example/dusk',
    snippet: '',
    source: 'photos.example',
    thumbnailUrl: 'https://imgs.search.brave.com/i1',
    imageUrl: 'https://photos.example/dusk.jpg',
    width: 3000,
    height: 2000,
  });
});

t.test('images come in one answer, however many of them are usable', async (t) => {
  const results = Array.from({ length: 10 }, (_, index) => ({
    url: index === 0 ? null : `https://a.example/${index}`,
  }));
  const page = parse(engine, 'images', answer({ type: 'images', results }));
  t.equal(page.hits.length, 9);
  t.equal(page.next, undefined);
});

t.test('a full second and a used-up month are told apart by the headers', async (t) => {
  const body = fixture('brave/rate-limited.json');
  const refused = (remaining: string) =>
    failure(
      engine,
      'web',
      answer(body, 429, { 'x-ratelimit-remaining': remaining, 'x-ratelimit-reset': '1, 1419704' }),
    );
  t.match(refused('0, 900'), { failure: 'rate limited', retryAfterMs: 1000 });
  t.match(refused('1, 0'), { failure: 'quota', retryAfterMs: 1_419_704_000 });
});

t.test('brave is not asked for what is behind its last page', async (t) => {
  const query = { query: 'x', type: 'web', maxResults: 50 } as const;
  t.equal(engine.reaches?.({ ...query, page: 4 }), true);
  t.equal(engine.reaches?.({ ...query, page: 6 }), false);
  const b = setUpClient(() => FOUND, { workers: [brave({ apiKey: KEY })] });
  b.board.fail(0, 0n, 'quota', 0, { account: 'other', query: 'y' });
  await b.advance(b.board.suspendedUntilMs(0));
  const reports: EngineReport[] = [];
  const listener = { onPage: () => undefined, onReport: (report: EngineReport) => void reports.push(report) };
  b.client.search({ ...query, page: 6 }, b.clock.now() + 5000, listener, 'me');
  await b.settle();
  t.same(reports, [{ engine: 'a', hits: [], calls: 0, before: 250 }]);
  t.equal(b.transport.asked.length, 0);
  t.ok(b.board.isSuspendedForAll(0), 'it has not shown that it works');
  t.not(b.board.acquire(0, b.clock.now(), 'me'), undefined, 'another search may try it');
});
