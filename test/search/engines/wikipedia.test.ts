import t from 'tap';
import { wikipedia } from '../../../src/search/engines/wikipedia.ts';
import { answer, collect, contract, failure, fixture, parse } from './contract.ts';

const engine = wikipedia();

contract('wikipedia', {
  engine,
  keyed: false,
  // Only files that are images are wanted of the other files; the words of articles go as they are, see below.
  rewritesQuery: true,
  pages: [
    { fixture: 'wikipedia/web.json', type: 'web', hits: 3 },
    { fixture: 'wikipedia/page-two.json', type: 'web', hits: 1 },
    { fixture: 'wikipedia/empty.json', type: 'web', hits: 0 },
    { fixture: 'wikipedia/nulls.json', type: 'web', hits: 1 },
    { fixture: 'wikipedia/images.json', type: 'images', hits: 2 },
    { fixture: 'wikipedia/no-images.json', type: 'images', hits: 0 },
    { fixture: 'wikipedia/image-nulls.json', type: 'images', hits: 1 },
  ],
  failures: [
    { fixture: 'wikipedia/error-ratelimited.json', status: 200, failure: 'rate limited' },
    { fixture: 'wikipedia/error-maxlag.json', status: 200, failure: 'rate limited' },
    { fixture: 'wikipedia/error-readapidenied.json', status: 200, failure: 'denied' },
    { fixture: 'wikipedia/error-badvalue.json', status: 200, failure: 'rejected' },
    { fixture: 'wikipedia/error-internal_api_error_DBQueryError.json', status: 200, failure: 'invalid' },
  ],
  garbage: ['{}', '{"error":null}', '{"error":{}}'],
  serve: (request, supply, type) => {
    const { searchParams } = new URL(request.url);
    const prefix = type === 'images' ? 'gsr' : 'sr';
    const offset = Number(searchParams.get(`${prefix}offset`));
    const end = offset + Number(searchParams.get(`${prefix}limit`));
    const page = supply.slice(offset, end);
    const goesOn = end < supply.length ? { continue: { [`${prefix}offset`]: end, continue: '-||' } } : {};
    if (type === 'web') return { batchcomplete: true, ...goesOn, query: { search: page } };
    const pages = page
      .map(({ title, url }, index) => ({ title, index: offset + index, imageinfo: [{ descriptionurl: url }] }))
      .toReversed();
    return { batchcomplete: true, ...goesOn, ...(pages.length > 0 ? { query: { pages } } : {}) };
  },
});

t.test('articles come from the wiki of the language, images from another', async (t) => {
  const german = wikipedia({ language: 'de', contact: 'ops@gateway.example' });
  const web = german.request({ query: 'a "b" & c', type: 'web', maxResults: 20 }, 20);
  t.equal(
    web.url,
    'https://de.wikipedia.org/w/api.php?action=query&format=json&formatversion=2&list=search&srsearch=a+%22b%22+%26+c&srlimit=20&sroffset=20&srprop=snippet',
  );
  t.equal(web.headers['user-agent'], 'headrace (ops@gateway.example)');
  const images = german.request({ query: 'danube', type: 'images', maxResults: 100 }, 50);
  const { host, searchParams } = new URL(images.url);
  t.equal(host, 'commons.wikimedia.org');
  t.equal(searchParams.get('gsrsearch'), 'filetype:bitmap|drawing danube');
  t.equal(searchParams.get('gsrlimit'), '50');
  t.equal(searchParams.get('gsroffset'), '50');
  const own = wikipedia({ url: 'http://wiki.example', imagesUrl: 'http://files.example' });
  t.match(own.request({ query: 'x', type: 'web', maxResults: 1 }, undefined).url, /^http:\/\/wiki\.example\/w\/api/);
  t.match(own.request({ query: 'x', type: 'images', maxResults: 1 }, undefined).url, /^http:\/\/files\.example\/w\//);
});

t.test('articles have the URL the wiki itself writes', async (t) => {
  t.same(parse(engine, 'web', answer(fixture('wikipedia/web.json'))).hits, [
    {
      title: 'Danube',
      url: 'https://en.wikipedia.org/wiki/Danube',
      snippet: 'The Danube is a river & a border',
    },
    {
      title: 'What Is a River? C# & C++',
      url: 'https://en.wikipedia.org/wiki/What_Is_a_River%3F_C%23_%26_C%2B%2B',
      snippet: 'Rivers <b>',
    },
    {
      title: "Müller's (AC/DC): 100%",
      url: 'https://en.wikipedia.org/wiki/M%C3%BCller%27s_(AC/DC):_100%25',
      snippet: '',
    },
  ]);
});

t.test('images are in the order of their rank, with sizes', async (t) => {
  t.same(parse(engine, 'images', answer(fixture('wikipedia/images.json'))).hits, [
    {
      title: 'Danube at dawn 1.2',
      url: 'https://commons.wikimedia.org/wiki/File:Danube_at_dawn_1.2.jpg',
      snippet: 'The river at dawn',
      imageUrl: 'https://upload.wikimedia.org/a/dawn.jpg',
      thumbnailUrl: 'https://upload.wikimedia.org/thumb/a/dawn.jpg',
      width: 4000,
      height: 3000,
    },
    {
      title: 'Danube map',
      url: 'https://commons.wikimedia.org/wiki/File:Danube_map.svg',
      snippet: '',
      imageUrl: 'https://upload.wikimedia.org/b/danube.svg',
      thumbnailUrl: 'https://upload.wikimedia.org/thumb/b/danube.png',
      width: 800,
      height: 600,
    },
  ]);
});

t.test('a wiki that is behind says when to come back', async (t) => {
  const error = failure(engine, 'web', answer(fixture('wikipedia/error-maxlag.json'), 200, { 'retry-after': '5' }));
  t.equal(error?.retryAfterMs, 5000);
});

t.test('nothing more is asked for when the wiki has no more', async (t) => {
  const search = [{ title: 'Danube' }];
  t.equal(collect(engine, () => ({ batchcomplete: true, query: { search } }), 'web', 1).requests.length, 1);
  const full = Array.from({ length: 100 }, (_, index) => ({ title: index < 99 ? 'Danube' : null }));
  const page = parse(engine, 'web', answer({ batchcomplete: true, query: { search: full } }), 100);
  t.equal(page.next, undefined);
});
