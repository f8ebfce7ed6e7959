import t from 'tap';
import { marginalia } from '../../../src/search/engines/marginalia.ts';
import { KEY, answer, contract, failure, fixture, parse } from './contract.ts';

const engine = marginalia({ apiKey: KEY });

contract('marginalia', {
  engine,
  keyed: true,
  pages: [
    { fixture: 'marginalia/web.json', type: 'web', hits: 2 },
    { fixture: 'marginalia/empty.json', type: 'web', hits: 0 },
    { fixture: 'marginalia/nulls.json', type: 'web', hits: 1 },
  ],
  failures: [
    { fixture: 'marginalia/unknown-key.txt', status: 401, failure: 'denied' },
    { fixture: 'marginalia/bad-request.txt', status: 400, failure: 'rejected' },
    { fixture: 'marginalia/per-minute.txt', status: 429, failure: 'rate limited' },
    { fixture: 'marginalia/per-day.txt', status: 429, failure: 'quota' },
    { fixture: 'marginalia/per-day.txt', status: 200, failure: 'invalid' },
  ],
  garbage: ['{}'],
  serve: (request, supply) => {
    const { searchParams } = new URL(request.url);
    const [page, count] = [Number(searchParams.get('page')), Number(searchParams.get('count'))];
    const results = supply.slice((page - 1) * count, page * count);
    return { page, pages: Math.ceil(supply.length / count), results };
  },
});

t.test('marginalia is asked by page', async (t) => {
  const set = marginalia({ apiKey: KEY, url: 'http://proxy.example' });
  t.same(set.request({ query: 'a b', type: 'web', maxResults: 30 }, 2), {
    method: 'GET',
    url: 'http://proxy.example/search?query=a+b&count=30&page=2',
    headers: { accept: 'application/json', 'api-key': KEY },
  });
});

t.test('marginalia goes on while it has pages', async (t) => {
  const response = answer(fixture('marginalia/web.json'));
  t.equal(parse(engine, 'web', response, 10).next, 2);
  t.equal(parse(engine, 'web', response, 2).next, undefined);
  const query = { query: 'danube', type: 'web', maxResults: 100 } as const;
  t.equal(engine.parse(response, { query, state: 3, collected: 0, nowMs: 0 }).next, undefined);
});

t.test('fields of marginalia are read, and when to come back', async (t) => {
  t.strictSame(parse(engine, 'web', answer(fixture('marginalia/web.json'))).hits[0], {
    title: 'Walking the Danube',
    url: 'https://walks.example/danube/',
    snippet: 'Forty days on foot — with maps.',
  });
  const refused = answer(fixture('marginalia/per-day.txt'), 429, { 'retry-after': '3600' });
  t.match(failure(engine, 'web', refused), { failure: 'quota', retryAfterMs: 3_600_000 });
});
