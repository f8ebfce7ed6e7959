import t from 'tap';
import { mojeek } from '../../../src/search/engines/mojeek.ts';
import { KEY, answer, collect, contract, fixture, parse } from './contract.ts';

const engine = mojeek({ apiKey: KEY });

contract('mojeek', {
  engine,
  keyed: true,
  pages: [
    { fixture: 'mojeek/web.json', type: 'web', hits: 3 },
    { fixture: 'mojeek/page-two.json', type: 'web', hits: 1 },
    { fixture: 'mojeek/empty.json', type: 'web', hits: 0 },
    { fixture: 'mojeek/nulls.json', type: 'web', hits: 1 },
  ],
  failures: [
    { fixture: 'mojeek/daily-limit.json', status: 200, failure: 'quota' },
    { fixture: 'mojeek/too-many.json', status: 200, failure: 'rate limited' },
    { fixture: 'mojeek/bad-key.json', status: 200, failure: 'denied' },
    { fixture: 'mojeek/no-query.json', status: 200, failure: 'rejected' },
    { fixture: 'mojeek/error.json', status: 200, failure: 'invalid' },
  ],
  garbage: ['{}', '{"response":{}}', '{"response":{"status":"OK"}}'],
  serve: (request, supply) => {
    const { searchParams } = new URL(request.url);
    const [start, count] = [Number(searchParams.get('s')), Number(searchParams.get('t'))];
    const results = supply.slice(start - 1, start - 1 + count);
    return { response: { status: 'OK', head: { start, return: results.length, results: supply.length }, results } };
  },
});

t.test('mojeek is asked for results from a number on', async (t) => {
  const set = mojeek({ apiKey: KEY, url: 'http://proxy.example', language: 'DE' });
  const request = set.request({ query: 'a b', type: 'web', maxResults: 20 }, 21);
  t.equal(request.url, `http://proxy.example/search?q=a+b&fmt=json&s=21&t=20&date=1&api_key=${KEY}&lb=DE`);
  t.match(
    engine.request({ query: 'x', type: 'web', maxResults: 1 }, undefined).url,
    /^https:\/\/api\.mojeek\.com\/.*s=1&/,
  );
});

t.test('pages shorter than asked for are paged on to the announced end', async (t) => {
  const serve = (request: { readonly url: string }): object => {
    const start = Number(new URL(request.url).searchParams.get('s'));
    const results = Array.from({ length: Math.min(10, 26 - start) }, (_, index) => ({
      url: `https://a.example/${start + index}`,
    }));
    return { response: { status: 'OK', head: { results: 25 }, results } };
  };
  const { hits, requests } = collect(engine, serve, 'web', 100);
  t.equal(hits.length, 25);
  t.equal(requests.length, 3);
});

t.test('fields of mojeek are read', async (t) => {
  t.strictSame(parse(engine, 'web', answer(fixture('mojeek/web.json'))).hits, [
    {
      title: 'Danube - Encyclopedia',
      url: 'https://encyclopedia.example/Danube',
      snippet: 'The Danube is a river in Europe & a route.',
      publishedAt: '2020-01-01T00:00:00Z',
    },
    { title: 'Boats', url: 'https://boats.example/', snippet: 'Tours.', publishedAt: '2025-01-12' },
    { title: 'Old', url: 'https://old.example/', snippet: '' },
  ]);
});
