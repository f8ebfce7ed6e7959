import t from 'tap';
import { serper } from '../../../src/search/engines/serper.ts';
import { KEY, answer, collect, contract, fixture, parse } from './contract.ts';

const engine = serper({ apiKey: KEY });

const LISTS = { web: 'organic', news: 'news', images: 'images', academic: 'organic' } as const;

interface Body {
  readonly num: number;
  readonly page: number;
}

contract('serper', {
  engine,
  keyed: true,
  pages: [
    { fixture: 'serper/web.json', type: 'web', hits: 3 },
    { fixture: 'serper/news.json', type: 'news', hits: 2 },
    { fixture: 'serper/images.json', type: 'images', hits: 2 },
    { fixture: 'serper/academic.json', type: 'academic', hits: 2 },
    { fixture: 'serper/empty.json', type: 'web', hits: 0 },
    { fixture: 'serper/nulls.json', type: 'web', hits: 1 },
  ],
  failures: [
    { fixture: 'serper/unauthorized.json', status: 403, failure: 'denied' },
    { fixture: 'serper/no-credits.json', status: 400, failure: 'quota' },
    { fixture: 'serper/bad-request.json', status: 400, failure: 'rejected' },
    { fixture: 'serper/rate-limited.json', status: 429, failure: 'rate limited' },
    { fixture: 'serper/rate-limited.json', status: 200, failure: 'invalid' },
  ],
  garbage: ['{}', '{"organic":null,"news":{},"images":1}'],
  serve: (request, supply, type) => {
    const { num, page } = JSON.parse(String(request.body)) as Body;
    const results = supply.slice((page - 1) * num, page * num).map(({ title, url }) => ({ title, link: url }));
    return { searchParameters: {}, [LISTS[type]]: results, credits: 1 };
  },
});

t.test('serper is asked at the endpoint of the type', async (t) => {
  const paths = (['web', 'news', 'images', 'academic'] as const).map(
    (type) => new URL(engine.request({ query: 'x', type, maxResults: 1 }, undefined).url).pathname,
  );
  t.same(paths, ['/search', '/news', '/images', '/scholar']);
  const set = serper({ apiKey: KEY, url: 'http://proxy.example', country: 'at', language: 'de' });
  t.same(set.request({ query: 'danube', type: 'web', maxResults: 30 }, 2), {
    method: 'POST',
    url: 'http://proxy.example/search',
    headers: { accept: 'application/json', 'content-type': 'application/json', 'x-api-key': KEY },
    body: '{"q":"danube","num":30,"page":2,"gl":"at","hl":"de"}',
  });
});

t.test('ten a page are paged on when more were asked for', async (t) => {
  const serve = (request: { readonly body?: string | Uint8Array }): object => {
    const { page } = JSON.parse(String(request.body)) as Body;
    const organic = Array.from({ length: 10 }, (_, index) => ({
      title: 'T',
      link: `https://a.example/${page}/${index}`,
    }));
    return { organic };
  };
  const { hits, requests } = collect(engine, serve, 'web', 35);
  t.equal(hits.length, 40);
  t.equal(requests.length, 4);
});

t.test('a page of fewer than ten is the last', async (t) => {
  const organic = Array.from({ length: 9 }, (_, index) => ({ title: 'T', link: `https://a.example/${index}` }));
  t.equal(parse(engine, 'web', answer({ organic })).next, undefined);
  t.equal(parse(engine, 'web', answer({ organic: [...organic, {}] }), 20).next, 2);
});

t.test('fields of serper are read', async (t) => {
  t.same(
    parse(engine, 'web', answer(fixture('serper/web.json'))).hits.map(({ publishedAt }) => publishedAt),
    [undefined, '2026-11-03', '2026-11-18'],
  );
  t.strictSame(parse(engine, 'news', answer(fixture('serper/news.json'))).hits, [
    {
      title: 'Low water',
      url: 'https://daily.example/low-water',
      snippet: 'Freight waits.',
      publishedAt: '2026-11-21T08:00:00Z',
      source: 'The Daily Example',
    },
    {
      title: 'Bridge opens',
      url: 'https://herald.example/bridge',
      snippet: 'Cars cross.',
      publishedAt: '2026-10-21',
      source: 'Herald',
    },
  ]);
  t.strictSame(parse(engine, 'images', answer(fixture('serper/images.json'))).hits[1], {
    title: 'Map',
    url: 'https://maps.example/danube',
    snippet: '',
    source: 'maps.example',
    thumbnailUrl: 'https://encrypted-tbn0.gstatic.com/images?q=tbn:2',
    imageUrl: 'https://maps.example/danube.png',
    width: 800,
    height: 600,
  });
  t.strictSame(parse(engine, 'academic', answer(fixture('serper/academic.json'))).hits, [
    {
      title: 'Sediment transport in the Danube',
      url: 'https://publisher.example/article/1',
      snippet: 'We measure the load of the river …',
      publishedAt: '2017',
      source: 'River Studies',
      authors: ['A Author', 'B Author'],
      year: 2017,
      venue: 'River Studies',
      citations: 119,
      openAccessUrl: 'https://publisher.example/article/1.pdf',
    },
    {
      title: 'A thesis on floods',
      url: 'https://university.example/thesis.pdf',
      snippet: 'Floods.',
      publishedAt: '2020',
      authors: ['C Author'],
      year: 2020,
      openAccessUrl: 'https://university.example/thesis.pdf',
    },
  ]);
});
