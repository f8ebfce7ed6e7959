import t from 'tap';
import { crossref } from '../../../src/search/engines/crossref.ts';
import { answer, contract, fixture, parse } from './contract.ts';

const engine = crossref();

contract('crossref', {
  engine,
  keyed: false,
  pages: [
    { fixture: 'crossref/works.json', type: 'academic', hits: 4 },
    { fixture: 'crossref/empty.json', type: 'academic', hits: 0 },
    { fixture: 'crossref/nulls.json', type: 'academic', hits: 1 },
  ],
  failures: [
    { fixture: 'crossref/failed.json', status: 400, failure: 'rejected' },
    { fixture: 'crossref/failed.json', status: 200, failure: 'rejected' },
    { fixture: 'crossref/empty.json', status: 429, failure: 'rate limited' },
  ],
  garbage: ['{}', '{"status":"ok","message":null}', '{"status":"ok","message":{"items":{}}}'],
  serve: (request, supply) => {
    const { searchParams } = new URL(request.url);
    const offset = Number(searchParams.get('offset'));
    const items = supply
      .slice(offset, offset + Number(searchParams.get('rows')))
      .map(({ title, url }) => ({ title: [title], URL: url }));
    return { status: 'ok', message: { 'total-results': supply.length, items } };
  },
});

t.test('crossref is told whom to write to', async (t) => {
  const polite = crossref({ contact: 'ops@gateway.example', url: 'http://proxy.example' });
  const { url } = polite.request({ query: 'a b', type: 'academic', maxResults: 20 }, 20);
  t.match(url, /^http:\/\/proxy\.example\/works\?query=a\+b&rows=20&offset=20&select=DOI%2CURL/);
  t.match(url, /&mailto=ops%40gateway\.example$/);
  t.equal(polite.concurrency, 3);
  t.equal(engine.concurrency, 1);
});

t.test('JATS becomes text and dates are as precise as they are', async (t) => {
  t.same(parse(engine, 'academic', answer(fixture('crossref/works.json'))).hits, [
    {
      title: 'Danube & H2O',
      url: 'https://doi.org/10.1000/danube.1',
      snippet: 'Levels of CO2 in Salmo. Second part.',
      publishedAt: '2021-05-17',
      source: 'Journal of Rivers',
      doi: '10.1000/danube.1',
      authors: ['Ada Lovelace', 'River Board'],
      year: 2021,
      venue: 'Journal of Rivers',
      citations: 12,
    },
    {
      title: 'Only a year',
      url: 'https://doi.org/10.1000/year(2020)/%3Ca%3E',
      snippet: '',
      publishedAt: '2020',
      source: 'River Press',
      doi: '10.1000/year(2020)/<a>',
      year: 2020,
    },
    {
      title: 'http://dx.doi.org/10.1000/undated',
      url: 'http://dx.doi.org/10.1000/undated',
      snippet: '',
      doi: '10.1000/undated',
    },
    {
      title: 'A month',
      url: 'https://doi.org/10.1000/month',
      snippet: '',
      publishedAt: '2019-03',
      doi: '10.1000/month',
      year: 2019,
    },
  ]);
});

t.test('the heading of an abstract is left out, however much space is in it', async (t) => {
  const space = ' '.repeat(200_000);
  const item = (abstract: string): object => ({ title: ['T'], URL: 'https://a.example/', abstract });
  const items = [
    item(`<jats:title>Abstract${space}x`),
    item('<jats:title>\n Abstract:\n</jats:title><jats:p>Cells.</jats:p>'),
  ];
  const { hits } = parse(engine, 'academic', answer({ status: 'ok', message: { items } }));
  t.equal(hits[1]?.snippet, 'Cells.');
});
