import t from 'tap';
import { exa } from '../../../src/search/engines/exa.ts';
import { KEY, answer, contract, fixture, parse } from './contract.ts';

const engine = exa({ apiKey: KEY });

contract('exa', {
  engine,
  keyed: true,
  pages: [
    { fixture: 'exa/web.json', type: 'web', hits: 2 },
    { fixture: 'exa/news.json', type: 'news', hits: 1 },
    { fixture: 'exa/academic.json', type: 'academic', hits: 1 },
    { fixture: 'exa/empty.json', type: 'web', hits: 0 },
    { fixture: 'exa/nulls.json', type: 'web', hits: 1 },
  ],
  failures: [
    { fixture: 'exa/unauthorized.json', status: 401, failure: 'denied' },
    { fixture: 'exa/no-credits.json', status: 402, failure: 'quota' },
    { fixture: 'exa/rate-limited.json', status: 429, failure: 'rate limited' },
    { fixture: 'exa/bad-request.json', status: 400, failure: 'rejected' },
    { fixture: 'exa/rate-limited.json', status: 200, failure: 'invalid' },
  ],
  garbage: ['{}'],
  serve: (request, supply) => {
    const { numResults } = JSON.parse(String(request.body)) as { numResults: number };
    return { requestId: 'b', results: supply.slice(0, numResults) };
  },
});

t.test('exa is asked for a category', async (t) => {
  const set = exa({ apiKey: KEY, url: 'http://proxy.example', mode: 'fast' });
  t.same(set.request({ query: 'danube', type: 'academic', maxResults: 25 }, undefined), {
    method: 'POST',
    url: 'http://proxy.example/search',
    headers: { accept: 'application/json', 'content-type': 'application/json', 'x-api-key': KEY },
    body: '{"query":"danube","type":"fast","numResults":25,"category":"research paper","contents":{"highlights":{"maxCharacters":500}}}',
  });
  t.match(engine.request({ query: 'x', type: 'news', maxResults: 1 }, undefined).body, /"category":"news"/);
  t.notMatch(engine.request({ query: 'x', type: 'web', maxResults: 1 }, undefined).body, /category/);
});

t.test('fields of exa are read', async (t) => {
  t.strictSame(parse(engine, 'web', answer(fixture('exa/web.json'))).hits, [
    {
      title: 'Danube',
      url: 'https://encyclopedia.example/Danube',
      snippet: 'The Danube is a river. … It flows to the Black Sea.',
      publishedAt: '2026-05-01T00:00:00Z',
    },
    { title: 'Boats', url: 'https://boats.example/', snippet: 'Boats of the river' },
  ]);
  t.match(parse(engine, 'news', answer(fixture('exa/news.json'))).hits, [{ source: 'daily.example' }]);
  t.match(parse(engine, 'academic', answer(fixture('exa/academic.json'))).hits, [{ publishedAt: '2024-01-01' }]);
});

t.test('authors of papers are parted where they are several', async (t) => {
  const authorsOf = (author: unknown): unknown =>
    parse(engine, 'academic', answer({ results: [{ url: 'http://a.example/', author }] })).hits[0]?.authors;
  t.strictSame(authorsOf('Ada Lovelace, Mary Somerville'), ['Ada Lovelace', 'Mary Somerville']);
  t.strictSame(authorsOf('Lovelace, Ada; Somerville, Mary'), ['Lovelace, Ada', 'Somerville, Mary']);
  t.strictSame(authorsOf('Lovelace, Ada'), ['Lovelace, Ada']);
  const started = process.cpuUsage();
  authorsOf(`a${' '.repeat(1_000_000)}b, c`);
  t.ok(process.cpuUsage(started).user < 1_000_000, 'spaces cost nothing');
  t.equal(authorsOf(`${';'.repeat(20_000)}Ada Lovelace`), undefined, 'a long list is not read to its end');
  for (const none of ['', null, 5, undefined]) t.equal(authorsOf(none), undefined);
});
