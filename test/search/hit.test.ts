import t from 'tap';
import { hit, hits } from '../../src/search/hit.ts';

t.test('a hit has only the fields that were given', async (t) => {
  t.strictSame(hit({ url: 'https://a.example/x', title: '<b>A</b> &amp; B', snippet: null, width: null, source: '' }), {
    title: 'A & B',
    url: 'https://a.example/x',
    snippet: '',
  });
  t.strictSame(
    hit({
      url: 'https://a.example/x',
      title: 'A',
      snippet: 'S',
      publishedAt: '2026-11-21',
      source: 'News',
      thumbnailUrl: 'https://a.example/t.jpg',
      imageUrl: 'https://a.example/i.jpg',
      width: '640',
      height: 480,
    }),
    {
      title: 'A',
      url: 'https://a.example/x',
      snippet: 'S',
      publishedAt: '2026-11-21',
      source: 'News',
      thumbnailUrl: 'https://a.example/t.jpg',
      imageUrl: 'https://a.example/i.jpg',
      width: 640,
      height: 480,
    },
  );
});

t.test('a missing title becomes the URL', async (t) => {
  for (const title of [undefined, null, '', ' \n', '<b></b>', 5]) {
    t.equal(hit({ url: 'http://a.example/', title })?.title, 'http://a.example/');
  }
});

t.test('a well-formed URL stays as it was given', async (t) => {
  for (const url of ['http://a.example', 'HTTPS://A.example/%7Ex?q=a+b#c', 'https://bücher.example/ü']) {
    t.equal(hit({ url })?.url, url);
  }
  t.equal(hit({ url: ' https://a.example/a b\n' })?.url, 'https://a.example/a%20b');
  t.equal(hit({ url: 'https:\\\\a.example\\x' })?.url, 'https://a.example/x');
});

t.test('makes no hit without a URL that a client could open', async (t) => {
  const addresses = [
    undefined,
    null,
    5,
    '',
    'a.example',
    '/x',
    '//a.example/x',
    'ftp://a.example',
    'javascript:alert(1)',
  ];
  for (const url of [
    ...addresses,
    'data:text/html,x',
    'http://',
    'https://a b/',
    `https://a.example/${'x'.repeat(9000)}`,
  ]) {
    t.equal(hit({ url }), undefined, String(url).slice(0, 30));
  }
});

t.test('leaves out unusable URLs and sizes of images', async (t) => {
  t.strictSame(
    hit({ url: 'http://a.example/', title: 'A', thumbnailUrl: '/proxy?u=x', imageUrl: 'data:x', width: 0, height: -5 }),
    { title: 'A', url: 'http://a.example/', snippet: '' },
  );
});

t.test('a list keeps its order and leaves out entries that make no hit', async (t) => {
  const read = (entry: Readonly<Record<string, unknown>>) => ({ url: entry['u'] });
  const list = [{ u: 'http://b.example/' }, null, 'x', [], {}, { u: 'http://a.example/' }];
  t.same(
    hits(list, read).map(({ url }) => url),
    ['http://b.example/', 'http://a.example/'],
  );
});

t.test('a list is read no further than the longest page of results', async (t) => {
  let read = 0;
  const list = Array.from({ length: 300_000 }, (_, at) => ({ url: `https://a.example/${at}` }));
  const found = hits(list, ({ url }) => {
    read++;
    return { url };
  });
  t.equal(found.length, 1000);
  t.equal(read, 1000);
});

t.test('fields of a scholarly work are normalised and bounded', async (t) => {
  const url = 'https://a.example/';
  const work = (fields: object): unknown => {
    const { snippet: _snippet, title: _title, url: _url, ...rest } = hit({ url, ...fields }) ?? {};
    return rest;
  };
  for (const doi of [
    '10.1000/AbC',
    'https://doi.org/10.1000/abc',
    ' http://dx.doi.org/10.1000/ABC ',
    'DOI: 10.1000/abc',
  ])
    t.strictSame(work({ doi }), { doi: '10.1000/abc' }, doi);
  for (const doi of ['10.1/x', '11.1000/x', '10.1000/a b', `10.1000/${'x'.repeat(300)}`, '', null, 5])
    t.strictSame(work({ doi }), {}, String(doi).slice(0, 20));
  t.strictSame(work({ authors: [' <b>Ada</b> &amp; Co ', '', null, 5, ['x'], 'B'] }), { authors: ['Ada & Co', 'B'] });
  t.equal(
    (work({ authors: Array.from({ length: 3000 }, (_, at) => `A${at}`) }) as { authors: string[] }).authors.length,
    50,
  );
  t.ok(((work({ authors: ['x'.repeat(1000)] }) as { authors: string[] }).authors[0] ?? '').length <= 201);
  t.strictSame(work({ authors: [] }), {});
  t.strictSame(work({ citations: 0 }), { citations: 0 }, 'none is a number, too');
  t.strictSame(work({ citations: 5e9 }), { citations: 1_000_000 });
  t.strictSame(work({ citations: -1 }), {});
  t.strictSame(work({ citations: 1, year: '2020', venue: ' <i>J</i> ', openAccessUrl: 'javascript:x' }), {
    ...{ citations: 1, year: 2020, venue: 'J' },
  });
  t.strictSame(work({ citations: 1, publishedAt: '2019-05' }), { citations: 1, year: 2019, publishedAt: '2019-05' });
  for (const year of [0, 12_345, '20', 2020.5, null]) t.strictSame(work({ citations: 1, year }), { citations: 1 });
});

t.test('a URL with characters that are invisible or turn the text is written with escapes', async (t) => {
  t.equal(hit({ url: 'https://a.example/\u202egpj.exe' })?.url, 'https://a.example/%E2%80%AEgpj.exe');
  t.equal(hit({ url: 'https://a.example/\u200bx' })?.url, 'https://a.example/%E2%80%8Bx');
  t.equal(hit({ url: 'https://a.example/tür' })?.url, 'https://a.example/tür');
});
