// The merged results of merge.ts: what is one page, whose rank and URL is shown, the order; then properties against a
// plain model of the same rules.
import fc from 'fast-check';
import t from 'tap';
import type { EngineHit } from '../../src/search/engine.ts';
import { type EngineList, merge } from '../../src/search/merge.ts';
import type { SearchResult } from '../../src/search/query.ts';

const WEB = { searchType: 'web' } as const;
const NEWS = { searchType: 'news' } as const;
const IMAGES = { searchType: 'images' } as const;

function hit(url: string, fields: Partial<EngineHit> = {}): EngineHit {
  return { title: `Title of ${url}`, url, snippet: '', ...fields };
}

function list(engine: string, ...hits: readonly (EngineHit | string)[]): EngineList {
  return { engine, hits: hits.map((each) => (typeof each === 'string' ? hit(each) : each)) };
}

/** `engine:rank` of each result and who found it. */
function summary(lists: readonly EngineList[]): string[] {
  return merge(lists, WEB).map(({ url, engine, rank, found_in }) => `${url} ${engine}:${rank} ${found_in.join()}`);
}

t.test('gives nothing for no lists and for empty lists', async (t) => {
  t.strictSame(merge([], WEB), []);
  t.strictSame(merge([list('a'), list('b')], WEB), []);
});

t.test('keeps the order of a single engine', async (t) => {
  t.strictSame(summary([list('a', 'https://x.org/1', 'https://x.org/2', 'https://x.org/3')]), [
    'https://x.org/1 a:1 a',
    'https://x.org/2 a:2 a',
    'https://x.org/3 a:3 a',
  ]);
});

t.test('has exactly the fields of the public interface', async (t) => {
  const all = {
    ...{ publishedAt: '2026-01-02', source: 'Paper', thumbnailUrl: 'https://x.org/t', imageUrl: 'https://x.org/i' },
    ...{ width: 640, height: 480 },
  };
  const lists = [list('a', hit('https://x.org/', { ...all, title: 'X', snippet: 'text' }))];
  const common = { title: 'X', url: 'https://x.org/', snippet: 'text', engine: 'a', rank: 1, found_in: ['a'] };
  t.strictSame(merge(lists, WEB), [{ ...common, search_type: 'web' }]);
  t.strictSame(merge(lists, { searchType: 'academic' }), [{ ...common, search_type: 'academic' }]);
  t.strictSame(merge(lists, NEWS), [{ ...common, search_type: 'news', published_at: '2026-01-02', source: 'Paper' }]);
  t.strictSame(merge(lists, IMAGES), [
    {
      ...{ ...common, search_type: 'images', thumbnail_url: 'https://x.org/t', image_url: 'https://x.org/i' },
      ...{ width: 640, height: 480 },
    },
  ]);
});

t.test('leaves fields out that no engine gave', async (t) => {
  const [news] = merge([list('a', 'https://x.org/')], NEWS);
  t.strictSame(Object.keys(news ?? {}), ['title', 'url', 'snippet', 'engine', 'rank', 'found_in', 'search_type']);
});

t.test('ranks agreement above a single first place', async (t) => {
  t.strictSame(
    summary([
      list('a', 'https://x.org/only-a', 'https://x.org/both'),
      list('b', 'https://x.org/only-b', 'https://www.x.org/both/'),
    ]),
    ['https://x.org/both a:2 a,b', 'https://x.org/only-a a:1 a', 'https://x.org/only-b b:1 b'],
  );
});

t.test('ranks a page among the first ten of two engines above the first of one', async (t) => {
  const deep = (engine: string): EngineList =>
    list(engine, ...Array.from({ length: 9 }, (_, at) => `https://${engine}.org/${at}`), 'https://x.org/both');
  t.equal(summary([deep('a'), deep('b')])[0], 'https://x.org/both a:10 a,b');
  const deeper = (engine: string): EngineList =>
    list(engine, ...Array.from({ length: 29 }, (_, at) => `https://${engine}.org/${at}`), 'https://x.org/both');
  t.equal(summary([deeper('a'), deeper('b')])[0], 'https://a.org/0 a:1 a', 'but not one on page three');
});

t.test('shows engine and rank of the best rank, found_in in request order', async (t) => {
  t.strictSame(
    summary([
      list('c', 'https://x.org/0', 'https://x.org/1', 'http://x.org/page'),
      list('a', 'https://x.org/2', 'https://x.org/page?utm_source=a'),
      list('b', 'https://x.org/3', 'https://x.org/page#b'),
    ])[0],
    'https://x.org/page?utm_source=a a:2 c,a,b',
  );
});

t.test('breaks ties by best rank, then by the order of the request', async (t) => {
  const b = list('b', 'https://x.org/b1', 'https://x.org/b2');
  const a = list('a', 'https://x.org/a1', 'https://x.org/a2');
  const urls = (lists: readonly EngineList[]): string[] => merge(lists, WEB).map(({ url }) => url.slice(-2));
  t.strictSame(urls([b, a]), ['b1', 'a1', 'b2', 'a2']);
  t.strictSame(urls([a, b]), ['a1', 'b1', 'a2', 'b2']);
  // 1/12 + 1/24 = 1/16 + 1/16: ranks 2 and 14 against 6 and 6.
  const filler = (engine: string, ranked: Record<number, string>): EngineList =>
    list(engine, ...Array.from({ length: 14 }, (_, at) => ranked[at + 1] ?? `https://${engine}.org/${at}`));
  const even = filler('a', { 6: 'https://x.org/even', 14: 'https://x.org/odd' });
  t.strictSame(urls([even, filler('b', { 2: 'https://x.org/odd', 6: 'https://x.org/even' })]).slice(0, 2), [
    'dd',
    'en',
  ]);
});

t.test('gives equal sums to equal ranks whichever engines they come from', async (t) => {
  // In floating point (1/11 + 1/12) + 1/17 and 1/11 + (1/17 + 1/12) need not be equal; the tie must go to the engine.
  for (let third = 3; third <= 40; third++) {
    const at = (engine: string, ranks: readonly [string, number][]): EngineList =>
      list(
        engine,
        ...Array.from({ length: 41 }, (_, index) => ranks.find(([, rank]) => rank === index + 1)?.[0] ?? index).map(
          (name) => `https://${typeof name === 'string' ? 'x' : engine}.org/${name}`,
        ),
      );
    const lists = [
      at('a', [
        ['p', third],
        ['q', 1],
      ]),
      at('b', [
        ['p', 2],
        ['q', third],
      ]),
      at('c', [
        ['p', 1],
        ['q', 2],
      ]),
    ];
    const [first, second] = merge(lists, WEB);
    t.match(first, { url: 'https://x.org/q', engine: 'a', rank: 1 }, `third rank ${third}`);
    t.match(second, { url: 'https://x.org/p', engine: 'c', rank: 1 });
  }
});

t.test('counts the duplicates of one engine once, at their first place', async (t) => {
  t.strictSame(
    summary([
      list('a', 'https://x.org/1', 'https://x.org/2', 'http://x.org/1/', 'https://x.org/3', 'https://x.org/1?gclid=1'),
      list('b', 'https://y.org/1'),
    ]),
    ['https://x.org/1 a:1 a', 'https://y.org/1 b:1 b', 'https://x.org/2 a:2 a', 'https://x.org/3 a:4 a'],
  );
});

t.test('applies the weights of engines', async (t) => {
  const light = list('a', 'https://a.org/');
  const heavy = { ...list('b', 'https://b.org/1', 'https://b.org/2'), weight: 1.2 };
  t.strictSame(summary([light, heavy]), ['https://b.org/1 b:1 b', 'https://b.org/2 b:2 b', 'https://a.org/ a:1 a']);
  t.strictSame(summary([light, { ...heavy, weight: 0 }])[0], 'https://a.org/ a:1 a');
});

t.test('takes the longest snippet and the title of the engine shown', async (t) => {
  const [result] = merge(
    [
      list(
        'a',
        'https://x.org/other',
        hit('https://x.org/', { title: 'A title that is longer', snippet: 'longest one' }),
      ),
      list('b', hit('https://x.org/', { title: 'B', snippet: 'short' })),
      list('c', 'https://x.org/c', 'https://x.org/d', hit('https://x.org/', { title: 'C', snippet: 'LONGEST ONE' })),
    ],
    WEB,
  );
  t.match(result, { engine: 'b', title: 'B', snippet: 'longest one' });
});

t.test('takes another title when the engine shown has only the URL', async (t) => {
  const titles = (first: string, ...others: readonly string[]): string | undefined =>
    merge(
      [first, ...others].map((title, at) => list(`e${at}`, hit('https://x.org/a/', { title }))),
      WEB,
    )[0]?.title;
  t.equal(titles('https://x.org/a/', 'Real'), 'Real');
  t.equal(titles('x.org/a', 'http://x.org/a', 'Real', 'Later'), 'Real');
  t.equal(titles('x.org', 'Real'), 'x.org');
  t.equal(titles('https://x.org/a/', 'x.org/a'), 'https://x.org/a/');
});

t.test('shows the https URL where an engine has one for the same page', async (t) => {
  const shown = (...urls: readonly string[]): string | undefined =>
    merge(
      urls.map((url, at) => list(`e${at}`, url)),
      WEB,
    )[0]?.url;
  t.equal(shown('http://x.org/a', 'http://www.x.org/a', 'https://x.org/a/', 'https://www.x.org/a'), 'https://x.org/a/');
  t.equal(shown('https://m.x.org/a', 'https://x.org/a'), 'https://m.x.org/a');
  t.equal(shown('http://x.org/a', 'http://www.x.org/a'), 'http://x.org/a');
  t.equal(
    shown('http://arxiv.org/abs/2101.00001', 'https://arxiv.org/pdf/2101.00001'),
    'http://arxiv.org/abs/2101.00001',
  );
});

t.test('merges the pages of one work', async (t) => {
  const urls = [
    'https://doi.org/10.1007/S1',
    'https://link.springer.com/article/10.1007/s1',
    'http://dx.doi.org/10.1007/s1',
  ];
  const results = merge(
    urls.map((url, at) => list(`e${at}`, url)),
    { searchType: 'academic' },
  );
  t.equal(results.length, 1);
  t.match(results[0], { url: 'https://doi.org/10.1007/S1', found_in: ['e0', 'e1', 'e2'] });
});

t.test('fills missing fields in request order, the engine shown first', async (t) => {
  const a = list('a', 'https://x.org/0', hit('https://x.org/', { publishedAt: '2026-01-01', source: 'A' }));
  const b = list('b', hit('https://x.org/', { source: 'B' }));
  const c = list('c', hit('https://x.org/', { publishedAt: '2026-01-03', source: 'C' }));
  t.match(merge([a, b, c], NEWS)[0], { engine: 'b', source: 'B', published_at: '2026-01-01' });
  t.match(merge([b, c, a], NEWS)[0], { engine: 'b', source: 'B', published_at: '2026-01-03' });
});

t.test('compares images by the picture, by the page where none is named', async (t) => {
  const image = (url: string, imageUrl?: string, fields: Partial<EngineHit> = {}): EngineHit =>
    hit(url, { ...(imageUrl === undefined ? {} : { imageUrl }), ...fields });
  const results = merge(
    [
      list(
        'a',
        image('https://x.org/p', 'https://x.org/1.jpg', { width: 9 }),
        image('https://x.org/p', 'https://x.org/2.jpg'),
      ),
      list('b', image('https://y.org/p', 'http://www.x.org/1.jpg', { width: 8, height: 7 }), image('https://y.org/p')),
      list('c', image('http://y.org/p/'), image('https://z.org/p', 'https://x.org/1.jpg?w=100')),
    ],
    IMAGES,
  );
  t.strictSame(
    results.map(({ url, image_url, found_in }) => [url, image_url, found_in.join()]),
    [
      ['https://x.org/p', 'https://x.org/1.jpg', 'a,b'],
      ['https://y.org/p', undefined, 'b,c'],
      ['https://x.org/p', 'https://x.org/2.jpg', 'a'],
      ['https://z.org/p', 'https://x.org/1.jpg?w=100', 'c'],
    ],
  );
  t.match(results[0], { width: 9, height: 7 });
});

t.test('keeps the figures of one paper apart', async (t) => {
  const figure = (name: string): EngineHit =>
    hit('https://doi.org/10.1007/s1', { imageUrl: `https://media.example/article/10.1007/s1/${name}` });
  t.equal(merge([list('a', figure('full'), figure('abstract'), figure('1.png'))], IMAGES).length, 3);
});

const PAGES = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
const SPELLINGS = ['https://x.org/', 'http://x.org/', 'https://www.x.org/', 'http://m.x.org/'];
const anyHit = fc
  .record({
    page: fc.constantFrom(...PAGES),
    spelling: fc.constantFrom(...SPELLINGS),
    snippet: fc.string({ maxLength: 9 }),
  })
  .map(({ page, spelling, snippet }) => hit(spelling + page, { snippet }));
const anyLists = fc
  .array(fc.array(anyHit, { maxLength: 12 }), { maxLength: 5 })
  .map((lists): EngineList[] => lists.map((hits, at) => ({ engine: `e${at}`, hits })));

/** First place of a page in a list, 1-indexed; 0: not there. */
function rankOf(page: string, { hits }: EngineList): number {
  return hits.findIndex(({ url }) => url.endsWith(`/${page}`)) + 1;
}

t.test('follows the rules for rank, found_in and order with any lists', async (t) => {
  fc.assert(
    fc.property(anyLists, (lists) => {
      const expected = PAGES.map((page) => {
        const ranks = lists.map((each) => rankOf(page, each));
        const found = ranks.filter((rank) => rank > 0);
        const rank = Math.min(...found);
        const score = found.sort((a, b) => a - b).reduce((sum, each) => sum + 1 / (10 + each), 0);
        return {
          page,
          rank,
          score,
          order: ranks.indexOf(rank),
          found_in: lists.filter((_, at) => (ranks[at] ?? 0) > 0),
        };
      })
        .filter(({ found_in }) => found_in.length > 0)
        .sort((a, b) => b.score - a.score || a.rank - b.rank || a.order - b.order)
        .map(({ page, rank, order, found_in }) => [page, `e${order}`, rank, ...found_in.map(({ engine }) => engine)]);
      t.strictSame(
        merge(lists, WEB).map(({ url, engine, rank, found_in }) => [url.slice(-1), engine, rank, ...found_in]),
        expected,
      );
    }),
    { numRuns: 500 },
  );
});

t.test('shows a URL an engine gave for the page, and the longest snippet', async () => {
  fc.assert(
    fc.property(anyLists, (lists) =>
      merge(lists, WEB).every(({ url, snippet, engine, rank }) => {
        const firsts = lists.flatMap((each) => each.hits[rankOf(url.slice(-1), each) - 1] ?? []);
        const own = lists.find((each) => each.engine === engine)?.hits[rank - 1];
        const secure = firsts.some((each) => each.url.startsWith('https:'));
        return (
          (url === own?.url || (url.startsWith('https:') && own?.url.startsWith('http:'))) &&
          firsts.some((each) => each.url === url) &&
          url.startsWith(secure ? 'https:' : 'http:') &&
          snippet.length === Math.max(...firsts.map((each) => each.snippet.length))
        );
      }),
    ),
  );
});

t.test('finds the same pages at the same ranks in any order of the request', async (t) => {
  const shuffled = anyLists.chain((lists) =>
    fc.tuple(fc.constant(lists), fc.shuffledSubarray(lists, { minLength: lists.length })),
  );
  const facts = (lists: readonly EngineList[]): Record<string, unknown> =>
    Object.fromEntries(
      merge(lists, WEB).map(({ url, rank, found_in }) => [url.slice(-1), [rank, found_in.toSorted()]]),
    );
  fc.assert(
    fc.property(shuffled, ([lists, other]) => {
      t.same(facts(other), facts(lists));
      const places = new Map(other.map(({ engine }, at) => [engine, at]));
      for (const { found_in } of merge(other, WEB)) {
        const order = found_in.map((engine) => places.get(engine) ?? -1);
        t.strictSame(
          order,
          order.toSorted((a, b) => a - b),
        );
      }
    }),
    { numRuns: 200 },
  );
});

t.test('does not change what it is given', async () => {
  fc.assert(
    fc.property(anyLists, (lists) => {
      const before = JSON.stringify(lists);
      merge(lists, WEB);
      return JSON.stringify(lists) === before;
    }),
  );
});

t.test('survives hostile hits', async () => {
  const hostile = fc.record({
    title: fc.string({ unit: 'binary' }),
    url: fc.string({ unit: 'binary' }),
    snippet: fc.string(),
  });
  fc.assert(
    fc.property(fc.array(fc.array(hostile, { maxLength: 5 }), { maxLength: 3 }), (lists) => {
      const results = merge(
        lists.map((hits, at) => ({ engine: `e${at}`, hits })),
        WEB,
      );
      return results.every(({ title, url, snippet }) =>
        [title, url, snippet].every((each) => typeof each === 'string'),
      );
    }),
  );
});

t.test('reads each hit a fixed number of times', async (t) => {
  const readsOf = (count: number): number => {
    let reads = 0;
    const counted = (hit: EngineHit): EngineHit =>
      new Proxy(hit, {
        get(target, name, receiver) {
          reads++;
          return Reflect.get(target, name, receiver) as unknown;
        },
      });
    const lists = Array.from({ length: 5 }, (_, engine) => ({
      engine: `e${engine}`,
      hits: Array.from({ length: count }, (_, at) =>
        counted(hit(`https://x.org/${(at * (engine + 1)) % (count + 1)}?utm_source=${engine}`)),
      ),
    }));
    t.equal(merge(lists, WEB).length, count + 1);
    return reads;
  };
  // The pages that all engines find, and those that few do, are the same share of every such list.
  t.ok(readsOf(1000) <= 11 * readsOf(100), 'ten times the hits, about ten times the reads');
});

const ACADEMIC = { searchType: 'academic' } as const;

t.test('works are one by their DOI, whatever their addresses are', async (t) => {
  const lists = [
    list('a', hit('https://pubmed.ncbi.nlm.nih.gov/1/', { doi: '10.1000/x' }), 'https://pubmed.ncbi.nlm.nih.gov/2/'),
    list('b', hit('https://publisher.example/p', { doi: '10.1000/x' }), hit('https://pubmed.ncbi.nlm.nih.gov/2/')),
    list('c', 'https://doi.org/10.1000/X', hit('https://other.example/', { doi: '10.1000/y' })),
    list('d', 'https://publisher.example/p'),
  ];
  t.same(
    merge(lists, ACADEMIC).map(({ found_in, url }) => `${url} ${found_in.join()}`),
    [
      'https://pubmed.ncbi.nlm.nih.gov/1/ a,b,c,d',
      'https://pubmed.ncbi.nlm.nih.gov/2/ a,b',
      'https://other.example/ c',
    ],
  );
  t.equal(merge(lists, WEB).length, 5, 'DOIs say nothing of other searches');
});

t.test('fields of a work are those of the best hit, else of the first; citations are the most', async (t) => {
  const doi = 'https://doi.org/10.1000/x';
  const merged = merge(
    [
      list('a', 'https://first.example/', hit(doi, { year: 2019, citations: 5, venue: 'Second' })),
      list('b', hit(doi, { doi: '10.1000/x', authors: ['A'], venue: 'Best', citations: 0 })),
      list('c', hit(doi, { year: 2020, citations: 7, openAccessUrl: 'https://free.example/x.pdf' })),
    ],
    ACADEMIC,
  );
  const [work] = merged;
  const { authors, citations, doi: shown, engine, open_access_url: open, venue, year } = work as SearchResult;
  t.strictSame(
    [engine, authors, venue, year, citations, open],
    ['b', ['A'], 'Best', 2019, 7, 'https://free.example/x.pdf'],
  );
  t.equal(shown, '10.1000/x');
  t.notOk('citations' in (merge([list('a', doi)], ACADEMIC)[0] ?? {}), 'nothing where nobody tells');
  t.notOk('doi' in (merge([list('a', hit(doi, { doi: '10.1000/x' }))], WEB)[0] ?? {}), 'works only');
});

t.test('ranks of a later page go on where the engine was, and its order is that of the page', async (t) => {
  const lists = [{ ...list('a', 'https://x.org/1'), before: 10 }, list('b', 'https://x.org/2', 'https://x.org/1')];
  t.same(
    merge(lists, WEB).map(({ rank, url }) => `${rank} ${url}`),
    ['11 https://x.org/1', '1 https://x.org/2'],
  );
});
