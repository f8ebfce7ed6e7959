import t from 'tap';
import { semanticScholar } from '../../../src/search/engines/semantic-scholar.ts';
import { KEY, answer, contract, fixture, parse } from './contract.ts';

const engine = semanticScholar({ apiKey: KEY });

contract('semantic-scholar', {
  engine,
  keyed: true,
  pages: [
    { fixture: 'semantic-scholar/papers.json', type: 'academic', hits: 4 },
    { fixture: 'semantic-scholar/empty.json', type: 'academic', hits: 0 },
    { fixture: 'semantic-scholar/nulls.json', type: 'academic', hits: 1 },
  ],
  failures: [
    { fixture: 'semantic-scholar/rate-limit.json', status: 429, failure: 'rate limited' },
    { fixture: 'semantic-scholar/rate-limit.json', status: 200, failure: 'rate limited' },
    { fixture: 'semantic-scholar/forbidden.json', status: 403, failure: 'denied' },
    { fixture: 'semantic-scholar/forbidden.json', status: 200, failure: 'invalid' },
    { fixture: 'semantic-scholar/rejected.json', status: 400, failure: 'rejected' },
  ],
  garbage: ['{}', '{"total":5}', '{"data":{}}'],
  serve: (request, supply) => {
    const { searchParams } = new URL(request.url);
    const offset = Number(searchParams.get('offset'));
    if (supply.length === 0) return { total: 0, offset };
    const data = supply
      .slice(offset, offset + Number(searchParams.get('limit')))
      .map(({ title, url }) => ({ paperId: '', title, url }));
    return { total: supply.length, offset, data };
  },
});

t.test('the key of semantic scholar is a header, and may be missing', async (t) => {
  const query = { query: 'a b', type: 'academic', maxResults: 20 } as const;
  t.equal(engine.request(query, undefined).headers['x-api-key'], KEY);
  t.notMatch(engine.request(query, undefined).url, KEY);
  const { url, headers } = semanticScholar({ url: 'http://proxy.example' }).request(query, 20);
  t.match(url, /^http:\/\/proxy\.example\/graph\/v1\/paper\/search\?query=a\+b&offset=20&limit=20&fields=title%2C/);
  t.notOk('x-api-key' in headers);
});

t.test('papers are found under the identifier other engines know', async (t) => {
  t.same(parse(engine, 'academic', answer(fixture('semantic-scholar/papers.json'))).hits, [
    {
      title: 'Graphs of the Danube',
      url: 'https://doi.org/10.18653/v1/N18-3011',
      snippet: 'We describe a graph.',
      publishedAt: '2018-05-06',
      source: 'Rivers 2018',
      doi: '10.18653/v1/n18-3011',
      authors: ['A. Author', 'C. Author'],
      year: 2018,
      venue: 'Rivers 2018',
      citations: 341,
      openAccessUrl: 'https://aclanthology.example/N18-3011.pdf',
    },
    {
      title: 'A preprint',
      url: 'https://arxiv.org/abs/2601.00042',
      snippet: '',
      publishedAt: '2026',
      source: 'arXiv.org',
      year: 2026,
      venue: 'arXiv.org',
    },
    { title: 'No identifiers', url: 'https://www.semanticscholar.org/paper/bb22', snippet: '' },
    { title: 'Only the least', url: 'https://www.semanticscholar.org/paper/cc33', snippet: '' },
  ]);
});
