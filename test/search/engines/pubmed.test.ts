import t from 'tap';
import { pubmed } from '../../../src/search/engines/pubmed.ts';
import { KEY, NOW, answer, collect, contract, failure, fixture, parse } from './contract.ts';

const engine = pubmed({ apiKey: KEY });

contract('pubmed', {
  engine,
  keyed: true,
  pages: [
    { fixture: 'pubmed/search.json', type: 'academic', hits: 0 },
    { fixture: 'pubmed/summary.json', type: 'academic', hits: 2 },
    { fixture: 'pubmed/empty.json', type: 'academic', hits: 0 },
    { fixture: 'pubmed/nulls.json', type: 'academic', hits: 3 },
  ],
  failures: [
    { fixture: 'pubmed/rate-limit.json', status: 429, failure: 'rate limited' },
    { fixture: 'pubmed/rate-limit.json', status: 200, failure: 'rate limited' },
    { fixture: 'pubmed/bad-key.json', status: 400, failure: 'denied' },
    { fixture: 'pubmed/rejected.json', status: 200, failure: 'rejected' },
    { fixture: 'pubmed/rejected.json', status: 400, failure: 'rejected' },
    { fixture: 'pubmed/backend.json', status: 200, failure: 'invalid' },
  ],
  garbage: ['{}', '{"esearchresult":null}', '{"esearchresult":{}}', '{"result":{}}'],
  serve: (request, supply) => {
    const { pathname, searchParams } = new URL(request.url);
    const ids = supply.map(({ url }) => /\d+$/.exec(url)?.[0] ?? url);
    if (pathname.endsWith('/esearch.fcgi')) {
      const start = Number(searchParams.get('retstart'));
      const idlist = ids.slice(start, start + Number(searchParams.get('retmax')));
      return { esearchresult: { count: String(supply.length), idlist } };
    }
    const uids = (searchParams.get('id') ?? '').split(',');
    return { result: { uids, ...Object.fromEntries(uids.map((id) => [id, { title: `Result ${id}` }])) } };
  },
});

t.test('pubmed is asked for names, then for what they stand for', async (t) => {
  const query = { query: 'a b', type: 'academic', maxResults: 2 } as const;
  const polite = pubmed({ contact: 'ops@gateway.example', url: 'http://proxy.example' });
  t.equal(
    polite.request(query, undefined).url,
    'http://proxy.example/esearch.fcgi?db=pubmed&retmode=json&tool=headrace&email=ops%40gateway.example&term=a+b&retstart=0&retmax=2&sort=relevance',
  );
  const first = { query, state: undefined, collected: 0, nowMs: NOW };
  const { hits, next } = polite.parse(answer(fixture('pubmed/search.json')), first);
  t.same(hits, []);
  const { url } = polite.request(query, next);
  t.match(url, /^http:\/\/proxy\.example\/esummary\.fcgi\?/);
  t.equal(new URL(url).searchParams.get('id'), '31258358,27933103');
  const page = polite.parse(answer(fixture('pubmed/summary.json')), { ...first, state: next });
  t.equal(page.hits.length, 2);
  t.equal(page.next, undefined);
});

t.test('articles that cannot be described are made up for by the next page', async (t) => {
  const serve = ({ url }: { readonly url: string }): object => {
    const { pathname, searchParams } = new URL(url);
    const start = Number(searchParams.get('retstart'));
    if (pathname.endsWith('/esearch.fcgi')) {
      return { esearchresult: { count: '6', idlist: [String(start + 1), String(start + 2)] } };
    }
    const [gone = '', kept = ''] = (searchParams.get('id') ?? '').split(',');
    return { result: { uids: [gone, kept], [gone]: { error: 'cannot get document summary' }, [kept]: {} } };
  };
  const { hits, requests } = collect(engine, serve, 'academic', 2);
  t.same(
    hits.map(({ url }) => url),
    ['https://pubmed.ncbi.nlm.nih.gov/2/', 'https://pubmed.ncbi.nlm.nih.gov/4/'],
  );
  t.equal(requests.length, 4);
});

t.test('articles of pubmed are cited and dated as precisely as they are', async (t) => {
  t.same(parse(engine, 'academic', answer(fixture('pubmed/summary.json'))).hits, [
    {
      title: 'Water and Salmo in p < 0.05.',
      url: 'https://pubmed.ncbi.nlm.nih.gov/31258358/',
      snippet: 'Smith AB, Jones C, Lee D et al. Danube Care 2019 Nov 1',
      publishedAt: '2019-11-01',
      source: 'Danube care : a journal & more',
      doi: '10.1000/care.1',
      authors: ['Smith AB', 'Jones C', 'Lee D', 'Kim E'],
      year: 2019,
      venue: 'Danube care : a journal & more',
      openAccessUrl: 'https://pmc.ncbi.nlm.nih.gov/articles/PMC6611111/',
    },
    {
      title: 'Old waters.',
      url: 'https://pubmed.ncbi.nlm.nih.gov/27933103/',
      snippet: 'Smith AB. J Rivers 2016',
      publishedAt: '2016',
      source: 'Journal of rivers',
      authors: ['Smith AB'],
      year: 2016,
      venue: 'Journal of rivers',
    },
  ]);
  t.same(
    parse(engine, 'academic', answer(fixture('pubmed/nulls.json'))).hits.map(({ publishedAt }) => publishedAt),
    [undefined, '2019', '2019-11'],
  );
});

t.test('the pace of pubmed depends on the key', async (t) => {
  t.same(engine.rates, [{ requests: 10, perMs: 1000 }]);
  t.same(pubmed().rates, [{ requests: 3, perMs: 1000 }]);
  t.equal(failure(engine, 'academic', answer('{"error":"Invalid db name"}', 400))?.failure, 'rejected');
});

t.test('of very many names those are asked for that fit on a page, and none twice', async (t) => {
  const query = { query: 'a', type: 'academic', maxResults: 100 } as const;
  const context = { query, state: undefined, collected: 0, nowMs: NOW };
  const idlist = Array.from({ length: 5000 }, (_, at) => String(at));
  const { next } = engine.parse(answer({ esearchresult: { count: '5000', idlist } }), context);
  t.equal(new URL(engine.request(query, next).url).searchParams.get('id'), idlist.slice(0, 100).join());
  const uids = Array.from({ length: 5000 }, () => '7');
  const page = engine.parse(answer({ result: { uids, 7: { title: 'T' } } }), { ...context, state: next });
  t.equal(page.hits.length, 1);
});
