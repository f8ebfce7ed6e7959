import t from 'tap';
import { searxng } from '../../../src/search/engines/searxng.ts';
import { KEY, answer, collect, contract, fixture, parse } from './contract.ts';

const engine = searxng({ url: 'http://searx.example:8888', apiKey: KEY });
const PAGE = 13;

contract('searxng', {
  engine,
  keyed: true,
  pages: [
    { fixture: 'searxng/web.json', type: 'web', hits: 3 },
    { fixture: 'searxng/news.json', type: 'news', hits: 2 },
    { fixture: 'searxng/images.json', type: 'images', hits: 3 },
    { fixture: 'searxng/academic.json', type: 'academic', hits: 1 },
    { fixture: 'searxng/empty.json', type: 'web', hits: 0 },
    { fixture: 'searxng/nulls.json', type: 'web', hits: 1 },
  ],
  failures: [
    { fixture: 'searxng/forbidden.html', status: 403, failure: 'denied' },
    { fixture: 'searxng/limiter.txt', status: 429, failure: 'rate limited' },
    { fixture: 'searxng/error.json', status: 400, failure: 'rejected' },
    { fixture: 'searxng/error.json', status: 200, failure: 'invalid' },
  ],
  garbage: ['{}'],
  serve: (request, supply) => {
    const page = Number(new URL(request.url).searchParams.get('pageno'));
    return { query: 'danube', results: supply.slice((page - 1) * PAGE, page * PAGE) };
  },
});

t.test('an instance is asked for JSON of a category', async (t) => {
  const set = searxng({ url: 'https://h.example/searx', engines: ['mojeek', 'qwant'], language: 'de-AT' });
  const request = set.request({ query: 'a b', type: 'academic', maxResults: 10 }, 3);
  t.equal(
    request.url,
    'https://h.example/searx/search?q=a+b&format=json&categories=science&pageno=3&engines=mojeek%2Cqwant&language=de-AT',
  );
  t.same(request.headers, { accept: 'application/json' });
  const categories = (['web', 'news', 'images'] as const).map((type) =>
    new URL(engine.request({ query: 'x', type, maxResults: 1 }, undefined).url).searchParams.get('categories'),
  );
  t.same(categories, ['general', 'news', 'images']);
});

t.test('no word of a query tells an instance what to do', async (t) => {
  const sent = (query: string): string | null =>
    new URL(engine.request({ query, type: 'web', maxResults: 10 }, undefined).url).searchParams.get('q');
  for (const [query, plain] of [
    ['!!g danube', 'g danube'],
    ['danube !wp\t!images', 'danube wp\timages'],
    ['danube\u001f!!!g', 'danube\u001fg'],
    ['danube !! !', 'danube  '],
    [':de danube :en_us', 'de danube en_us'],
    ['boats <100 <²', 'boats < 100 < ²'],
    ['a != b wow! x:y 3<4 a!b <b> :) <', 'a != b wow! x:y 3<4 a!b <b> :) <'],
  ] as const)
    t.equal(sent(query), plain);
});

t.test('an instance that repeats its page is not asked for ever', async (t) => {
  const { requests } = collect(engine, () => ({ results: [{ url: 'https://same.example/' }] }), 'web', 100);
  t.equal(requests.length, 10);
});

t.test('fields of an instance are read', async (t) => {
  t.strictSame(parse(engine, 'web', answer(fixture('searxng/web.json'))).hits, [
    {
      title: 'Danube - Encyclopedia',
      url: 'https://encyclopedia.example/Danube',
      snippet: 'The Danube is a river & a route.',
    },
    { title: 'Tours', url: 'https://boats.example/tours', snippet: '' },
    {
      title: 'A walk along the Danube',
      url: 'https://blog.example/danube',
      snippet: 'Day one.',
      publishedAt: '2026-05-04T00:00:00Z',
    },
  ]);
  t.same(
    parse(engine, 'news', answer(fixture('searxng/news.json'))).hits.map(({ publishedAt, source }) => [
      publishedAt,
      source,
    ]),
    [
      ['2026-11-21T08:00:00Z', 'The Daily Example'],
      ['2026-11-20T07:00:00Z', undefined],
    ],
  );
  t.equal(parse(engine, 'academic', answer(fixture('searxng/academic.json'))).hits[0]?.source, 'River Studies');
  t.strictSame(parse(engine, 'images', answer(fixture('searxng/images.json'))).hits, [
    {
      title: 'Dusk',
      url: 'https://photos.example/dusk',
      snippet: '',
      source: 'photos.example',
      thumbnailUrl: 'https://cdn.photos.example/t.jpg',
      imageUrl: 'https://cdn.photos.example/dusk.jpg',
      width: 1920,
      height: 1080,
    },
    {
      title: 'Old',
      url: 'https://old.example/page',
      snippet: '',
      thumbnailUrl: 'https://old.example/t.png',
      imageUrl: 'https://old.example/i.png',
      width: 640,
      height: 480,
    },
    { title: 'Bare', url: 'https://bare.example/', snippet: '' },
  ]);
});

t.test('an instance whose engines are all silent has failed; one of which some are says so', async (t) => {
  const silent = [
    ['google', 'Suspended: too many requests'],
    ['bing', 'timeout'],
  ];
  const said = (results: readonly object[]): Buffer =>
    Buffer.from(JSON.stringify({ query: 'danube', results, unresponsive_engines: silent }));
  t.throws(() => parse(engine, 'web', answer(said([]))), {
    name: 'EngineError',
    failure: 'unresponsive',
    message: 'no engine of the instance answered',
  });
  const partly = parse(engine, 'web', answer(said([{ title: 'A', url: 'https://a.example/', content: '' }])));
  t.equal(partly.hits.length, 1);
  t.equal(partly.note, 'some engines of the instance did not answer');
  t.notMatch(JSON.stringify(partly), 'too many requests');
  const none = Buffer.from(JSON.stringify({ query: 'danube', results: [], unresponsive_engines: [] }));
  t.same(parse(engine, 'web', answer(none)), { hits: [] }, 'nothing to be found');
});

t.test('papers of searxng have what its engines tell', async (t) => {
  const paper = {
    ...{ url: 'https://journal.example/1', title: 'Weirs', content: '', publishedDate: '2020-05-01T00:00:00' },
    ...{ doi: '10.1000/W', authors: ['Ada Lovelace', null], journal: 'Rivers', pdf_url: '//journal.example/1.pdf' },
  };
  t.strictSame(parse(engine, 'academic', answer({ results: [paper] })).hits, [
    {
      ...{ title: 'Weirs', url: 'https://journal.example/1', snippet: '', publishedAt: '2020-05-01T00:00:00Z' },
      ...{ source: 'Rivers', doi: '10.1000/w', authors: ['Ada Lovelace'], year: 2020, venue: 'Rivers' },
      openAccessUrl: 'https://journal.example/1.pdf',
    },
  ]);
  t.notOk('authors' in (parse(engine, 'web', answer({ results: [paper] })).hits[0] ?? {}), 'of papers only');
});
