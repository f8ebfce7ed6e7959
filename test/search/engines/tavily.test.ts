import t from 'tap';
import { tavily } from '../../../src/search/engines/tavily.ts';
import { KEY, answer, contract, fixture, parse } from './contract.ts';

const engine = tavily({ apiKey: KEY });

contract('tavily', {
  engine,
  keyed: true,
  pages: [
    { fixture: 'tavily/web.json', type: 'web', hits: 2 },
    { fixture: 'tavily/news.json', type: 'news', hits: 2 },
    { fixture: 'tavily/empty.json', type: 'web', hits: 0 },
    { fixture: 'tavily/nulls.json', type: 'web', hits: 1 },
  ],
  failures: [
    { fixture: 'tavily/unauthorized.json', status: 401, failure: 'denied' },
    { fixture: 'tavily/rate-limited.json', status: 429, failure: 'rate limited' },
    { fixture: 'tavily/plan-limit.json', status: 432, failure: 'quota' },
    { fixture: 'tavily/plan-limit.json', status: 433, failure: 'quota' },
    { fixture: 'tavily/bad-request.json', status: 400, failure: 'rejected' },
    { fixture: 'tavily/unauthorized.json', status: 200, failure: 'invalid' },
  ],
  garbage: ['{}'],
  reach: { web: 20, news: 20 },
  serve: (request, supply) => {
    const { max_results: count } = JSON.parse(String(request.body)) as { max_results: number };
    if (count > 20) throw new Error('more than the API takes');
    return { query: 'danube', images: [], results: supply.slice(0, count) };
  },
});

t.test('tavily is asked for a topic', async (t) => {
  const set = tavily({ apiKey: KEY, url: 'http://proxy.example', depth: 'advanced' });
  t.same(set.request({ query: 'danube', type: 'news', maxResults: 100 }, undefined), {
    method: 'POST',
    url: 'http://proxy.example/search',
    headers: { accept: 'application/json', 'content-type': 'application/json', authorization: `Bearer ${KEY}` },
    body: '{"query":"danube","topic":"news","search_depth":"advanced","max_results":20}',
  });
  t.match(engine.request({ query: 'x', type: 'web', maxResults: 3 }, undefined), {
    url: 'https://api.tavily.com/search',
    body: /"topic":"general","search_depth":"basic","max_results":3/,
  });
});

t.test('fields of tavily are read', async (t) => {
  t.strictSame(parse(engine, 'web', answer(fixture('tavily/web.json'))).hits, [
    {
      title: 'Danube - Encyclopedia',
      url: 'https://encyclopedia.example/Danube',
      snippet: 'The Danube is a river. # Course From the Black Forest ...',
    },
    { title: 'Boats', url: 'https://boats.example/', snippet: 'List<Boat> & more' },
  ]);
  t.strictSame(parse(engine, 'news', answer(fixture('tavily/news.json'))).hits[0], {
    title: 'Low water',
    url: 'https://www.daily.example/low-water',
    snippet: 'Freight waits.',
    publishedAt: '2026-11-20T18:30:00Z',
    source: 'daily.example',
  });
});
