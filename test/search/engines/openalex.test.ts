import t from 'tap';
import { openalex } from '../../../src/search/engines/openalex.ts';
import { KEY, answer, contract, failure, fixture, parse } from './contract.ts';

const engine = openalex({ apiKey: KEY });

contract('openalex', {
  engine,
  keyed: true,
  pages: [
    { fixture: 'openalex/works.json', type: 'academic', hits: 3 },
    { fixture: 'openalex/empty.json', type: 'academic', hits: 0 },
    { fixture: 'openalex/nulls.json', type: 'academic', hits: 1 },
  ],
  failures: [
    { fixture: 'openalex/bad-key.json', status: 401, failure: 'denied' },
    { fixture: 'openalex/rate-limit.json', status: 429, failure: 'rate limited' },
    {
      fixture: 'openalex/rate-limit.json',
      status: 429,
      failure: 'quota',
      headers: { 'x-ratelimit-remaining': '5', 'x-ratelimit-credits-required': '10' },
    },
    {
      fixture: 'openalex/rate-limit.json',
      status: 429,
      failure: 'rate limited',
      headers: { 'x-ratelimit-remaining': '50', 'x-ratelimit-credits-required': '10' },
    },
    { fixture: 'openalex/rejected.json', status: 403, failure: 'denied' },
    { fixture: 'openalex/rejected.json', status: 400, failure: 'rejected' },
    { fixture: 'openalex/rejected.json', status: 200, failure: 'invalid' },
  ],
  garbage: ['{}', '{"results":null}', '{"results":{}}'],
  serve: (request, supply) => {
    const { searchParams } = new URL(request.url);
    const count = Number(searchParams.get('per-page'));
    const from = (Number(searchParams.get('page')) - 1) * count;
    const results = supply.slice(from, from + count).map(({ title, url }) => ({ display_name: title, id: url }));
    return { meta: { count: supply.length }, results };
  },
});

t.test('openalex is asked for pages of one size', async (t) => {
  const free = openalex({ url: 'http://proxy.example' });
  const { url } = free.request({ query: 'a b', type: 'academic', maxResults: 20 }, 40);
  t.match(url, /^http:\/\/proxy\.example\/works\?search=a\+b&page=3&per-page=20&select=id%2Cdoi%2C/);
  t.notMatch(url, /api_key/);
});

t.test('works of openalex have their abstract, DOI and journal', async (t) => {
  t.same(parse(engine, 'academic', answer(fixture('openalex/works.json'))).hits, [
    {
      title: 'The Danube & its fish',
      url: 'https://doi.org/10.1000/danube.1',
      snippet: 'The river flows. A river again.',
      publishedAt: '2021-05-17',
      source: 'Journal of Rivers',
      doi: '10.1000/danube.1',
      authors: ['Ada Lovelace', 'B. Author'],
      year: 2021,
      venue: 'Journal of Rivers',
      citations: 0,
      openAccessUrl: 'https://journal.example/danube.pdf',
    },
    { title: 'Without a DOI', url: 'https://repository.example/2', snippet: '', publishedAt: '1998-01-01', year: 1998 },
    { title: 'Nowhere else', url: 'https://openalex.org/W3', snippet: '' },
  ]);
});

t.test('positions of an abstract may be anything', async (t) => {
  const work = { id: 'https://a.example/', abstract_inverted_index: { b: [1e9], a: [-5, '3'], toString: [2] } };
  t.equal(parse(engine, 'academic', answer({ results: [work] })).hits[0]?.snippet, 'a toString b');
});

t.test('a long word that is placed thousands of times is not written as often', async (t) => {
  const work = {
    id: 'https://a.example/',
    abstract_inverted_index: { first: [0], ['w'.repeat(200_000)]: Array.from({ length: 5000 }, (_, at) => at + 1) },
  };
  t.match(parse(engine, 'academic', answer({ results: [work] })).hits[0]?.snippet, /^first w+$/);
});

t.test('a used-up day of openalex says when it ends', async (t) => {
  const headers = { 'x-ratelimit-remaining': '0', 'retry-after': '3600' };
  t.equal(failure(engine, 'academic', answer('{}', 429, headers))?.retryAfterMs, 3_600_000);
  const state = { 'x-ratelimit-credits-required': '10', 'x-ratelimit-reset': '43200' };
  const few = answer('{}', 429, { ...state, 'x-ratelimit-remaining': '5' });
  t.match(failure(engine, 'academic', few), { failure: 'quota', retryAfterMs: 43_200_000 });
  const many = answer('{}', 429, { ...state, 'x-ratelimit-remaining': '50' });
  t.match(failure(engine, 'academic', many), { failure: 'rate limited', retryAfterMs: undefined });
});
