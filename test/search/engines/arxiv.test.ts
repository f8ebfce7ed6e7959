import t from 'tap';
import { arxiv } from '../../../src/search/engines/arxiv.ts';
import { answer, collect, contract, failure, fixture, parse, type Supply } from './contract.ts';

const engine = arxiv();

function feed(supply: readonly Supply[], start: number, count: number): string {
  const entries = supply
    .slice(start, start + count)
    .map(({ title, url }) => `<entry><id>${url}</id><title>${title}</title></entry>`);
  const total = `<opensearch:totalResults>${supply.length}</opensearch:totalResults>`;
  return `<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom">${total}${entries.join('')}</feed>`;
}

contract('arxiv', {
  engine,
  keyed: false,
  rewritesQuery: true,
  pages: [
    { fixture: 'arxiv/web.xml', type: 'academic', hits: 2 },
    { fixture: 'arxiv/empty.xml', type: 'academic', hits: 0 },
    { fixture: 'arxiv/nulls.xml', type: 'academic', hits: 1 },
  ],
  failures: [
    { fixture: 'arxiv/error.xml', status: 200, failure: 'rejected' },
    { fixture: 'arxiv/error.xml', status: 400, failure: 'rejected' },
    { fixture: 'arxiv/rate-limit.txt', status: 200, failure: 'rate limited' },
    { fixture: 'arxiv/rate-limit.txt', status: 429, failure: 'rate limited' },
  ],
  garbage: ['<?xml version="1.0"?><rss><channel/></rss>', '{}', `<feed>${'<a>'.repeat(100_000)}`],
  serve: (request, supply) => {
    const { searchParams } = new URL(request.url);
    return feed(supply, Number(searchParams.get('start')), Number(searchParams.get('max_results')));
  },
});

t.test('arxiv is asked by relevance, without the operators of its query language', async (t) => {
  const ask = (query: string): string | null =>
    new URL(engine.request({ query, type: 'academic', maxResults: 7 }, 14).url).searchParams.get('search_query');
  t.equal(ask('danube river'), 'all:danube river');
  t.equal(ask('ti:"self-attention" AND (au:Müller) ANDNOT -x'), 'all:ti self-attention and au müller andnot x');
  const { url } = arxiv({ url: 'http://proxy.example' }).request({ query: 'x', type: 'academic', maxResults: 7 }, 14);
  t.equal(
    url,
    'http://proxy.example/api/query?search_query=all%3Ax&start=14&max_results=7&sortBy=relevance&sortOrder=descending',
  );
});

t.test('line breaks, entities and CDATA of arxiv become plain text', async (t) => {
  t.same(parse(engine, 'academic', answer(fixture('arxiv/web.xml'))).hits, [
    {
      title: 'Flow of the Danube for $x < y$: a survey of models',
      url: 'http://arxiv.org/abs/2601.00042v2',
      snippet: 'We study the river & its banks.',
      publishedAt: '2026-01-03T18:30:00Z',
      source: 'arXiv',
      authors: ['A. Author'],
      year: 2026,
      venue: 'arXiv',
      openAccessUrl: 'http://arxiv.org/pdf/2601.00042v2',
    },
    {
      title: 'Old identifiers',
      url: 'http://arxiv.org/abs/hep-th/9901001v1',
      snippet: 'Plain text.',
      publishedAt: '1999-01-01T04:00:00Z',
      source: 'arXiv',
      authors: ['B. Author'],
      year: 1999,
      venue: 'arXiv',
      openAccessUrl: 'http://arxiv.org/pdf/hep-th/9901001v1',
    },
  ]);
});

t.test('the name of an author and the title of the feed are no fields of an entry', async (t) => {
  const nested =
    '<feed><title>Feed</title><entry><author><id>x</id></author><id>http://a.example/1</id></entry></feed>';
  t.same(parse(engine, 'academic', answer(nested)).hits, [
    { title: 'http://a.example/1', url: 'http://a.example/1', snippet: '', source: 'arXiv', venue: 'arXiv' },
  ]);
});

t.test('authors of arxiv are names, with the DOI and the place of the printed paper', async (t) => {
  const author = (name: string): string => `<author><name>${name}</name><affiliation>There</affiliation></author>`;
  const paper = `<id>http://arxiv.org/abs/1</id>${author('Ada\n &amp; Co')}${author('B &lt;C&gt; D')}<arxiv:doi>10.1000/X</arxiv:doi>`;
  const [hit] = parse(
    engine,
    'academic',
    answer(`<feed><entry>${paper}<arxiv:journal_ref>Rivers 1</arxiv:journal_ref></entry></feed>`),
  ).hits;
  t.strictSame([hit?.authors?.length, hit?.doi, hit?.venue], [2, '10.1000/x', 'Rivers 1']);
  t.equal(hit?.authors?.[0], 'Ada & Co');
});

t.test('a million nested elements cost nothing', async (t) => {
  const started = process.cpuUsage();
  t.equal(failure(engine, 'academic', answer(`<feed>${'<a>'.repeat(1_000_000)}`))?.failure, 'invalid');
  t.ok(process.cpuUsage(started).user < 1_000_000, 'less than a second');
});

t.test('an element with a hundred attributes is read, one with more is not', async (t) => {
  const feedOf = (attributes: number): string =>
    `<feed ${Array.from({ length: attributes }, (_, at) => `a${at}="b"`).join(' ')}></feed>`;
  t.equal(parse(engine, 'academic', answer(feedOf(100))).hits.length, 0);
  t.equal(failure(engine, 'academic', answer(feedOf(101)))?.failure, 'invalid');
});

t.test('paging stops where arxiv says the results end', async (t) => {
  const supply = Array.from({ length: 10 }, (_, index) => ({ title: 'x', url: `http://a.example/${index}` }));
  const serve = ({ url }: { readonly url: string }): string =>
    feed(supply, Number(new URL(url).searchParams.get('start')), 10);
  t.equal(collect(engine, serve, 'academic', 10).requests.length, 1);
});
