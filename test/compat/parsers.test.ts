// Requests of other products, as random as clients can send them: each becomes a document of ours or is refused as a mistake. And which
// status each error has.

import t from 'tap';
import {
  errorAnswer,
  productOf,
  readFirecrawlScrape,
  readFirecrawlSearch,
  readJina,
  readSearxng,
  readTavilyExtract,
  readTavilySearch,
} from '../../src/compat/index.ts';
import { countryOf, languageOf } from '../../src/compat/places.ts';
import { type ErrorCode, HeadraceError } from '../../src/errors.ts';
import { Random } from '../support/random.ts';

const NAMES = [
  ...['query', 'max_results', 'topic', 'time_range', 'days', 'start_date', 'country', 'include_domains', 'urls'],
  ...['include_raw_content', 'format', 'url', 'formats', 'maxAge', 'actions', 'limit', 'sources', 'tbs', 'location'],
  ...['scrapeOptions', 'lang', 'categories', '__proto__', 'constructor', 'q', 'pageno', 'safesearch', 'language'],
];
const VALUES: readonly unknown[] = [
  ...[
    'x',
    '',
    ' ',
    'news',
    'week',
    '5',
    '-1',
    '2026-02-30',
    'qdr:w',
    'cdr:1,cd_min:1/1/2026',
    'markdown',
    'en-US',
    '%zz',
  ],
  ...['http://127.0.0.1/', 'javascript:alert(1)', '\u0000', '\ud800', 'germany', 'a,b', 'json', 'true'],
  ...[0, 1, -1, 1.5, 1e300, true, false, null, [], {}, [1], ['x'], ['markdown'], [{ type: 'news' }], [null], [[]]],
  ...[{ formats: ['markdown'] }, { formats: [{}] }, { type: 'x' }],
  // Objects that no text can be made of.
  ...[[{ type: { toString: 1 } }], { toString: 1 }, [{ toString: 1, valueOf: 1 }]],
];

/** Runs a reader; a refusal is one of the mistakes of a request. */
function read<Value>(run: () => Value): Value | null {
  try {
    return run();
  } catch (error) {
    if (error instanceof HeadraceError && error.code === 'HR_REQUEST_INVALID') return null;
    throw error;
  }
}

t.test('options of the Reader in a body have the types of JSON', async (t) => {
  const body = { url: 'https://example.com/', noCache: true, withLinksSummary: true, withImagesSummary: false };
  const readBody = (more: object): unknown => {
    const request = { target: '', query: '', contentType: undefined, header: () => undefined };
    return readJina({ ...request, body: Buffer.from(JSON.stringify({ ...body, ...more })) }).fetches[0];
  };
  t.match(readBody({}), { url: body.url, max_age: 0, links: true, images: undefined });
  t.match(readBody({ noCache: false, cacheTolerance: 60 }), { max_age: 60 });
});

t.test('any body is a request or a mistake', async (t) => {
  const random = new Random(7);
  let good = 0;
  for (let round = 0; round < 3000; round++) {
    const body: Record<string, unknown> = {
      query: 'weirs',
      url: 'https://example.com/',
      urls: ['https://example.com/'],
    };
    for (let n = random.below(5); n > 0; n--) {
      Object.defineProperty(body, random.pick(NAMES), { value: random.pick(VALUES), enumerable: true, writable: true });
    }
    let text = JSON.stringify(body);
    if (random.chance(0.1)) text = text.slice(0, random.below(text.length));
    const bytes = Buffer.from(text);
    for (const run of [
      () => readTavilySearch(bytes, 1_800_000_000_000),
      () => readTavilyExtract(bytes),
      () => readFirecrawlScrape(bytes),
      () => readFirecrawlSearch(1, bytes),
      () => readFirecrawlSearch(2, bytes),
    ]) {
      if (read<object>(run) !== null) good++;
    }
  }
  t.ok(good > 3000, `${good} are requests`);
});

t.test('a name of a place is compared only where it is as short as a name', async (t) => {
  for (const text of [`${' '.repeat(500_000)}x`, '('.repeat(500_000)]) {
    t.equal(countryOf(text), undefined);
    t.equal(languageOf(text), undefined);
  }
  t.equal(countryOf('Congo (Kinshasa)'), 'CG');
});

t.test('a name that objects have is no country', async (t) => {
  for (const name of ['constructor', '__proto__']) t.equal(countryOf(name), undefined, name);
});

t.test('any query is a search or a mistake', async (t) => {
  const random = new Random(11);
  const engines = new Set(['engine_a']);
  for (let round = 0; round < 3000; round++) {
    const query = Array.from(
      { length: random.below(6) },
      () =>
        `${random.pick(NAMES)}=${random.chance(0.5) ? encodeURIComponent('é ü') : JSON.stringify(random.pick(VALUES))}`,
    );
    const found = read(() => readSearxng(['format=json', ...query].join(random.pick(['&', '&&', '&=&'])), '', engines));
    if (found === null) continue;
    t.type(found.search['query'], 'string');
    t.ok(found.search['engines'] === undefined, 'unknown engines are left out');
  }
});

t.test('any path of the Reader is a URL of http, of another scheme that is refused later, or a mistake', async () => {
  const random = new Random(13);
  const parts = [
    'http',
    'https',
    ':',
    '/',
    '//',
    '%2F',
    '%3A',
    '%',
    '%ff',
    '@',
    '127.0.0.1',
    'a.example',
    '\\',
    '..',
    '?',
    '#',
    ' ',
  ];
  for (let round = 0; round < 3000; round++) {
    const target = `/${Array.from({ length: random.below(8) }, () => random.pick(parts)).join('')}`;
    const request = { target, query: random.pick(['', 'a=b', '%']), body: Buffer.alloc(0), contentType: undefined };
    const page = read(() => readJina({ ...request, header: () => undefined }));
    const url = page?.fetches[0]?.['url'] as string | undefined;
    if (url !== undefined && !/^[a-z][a-z\d+.-]*:\/\//i.test(url)) throw new Error(`${target}: ${url}`);
  }
});

t.test('each error has the status by which the clients of a product know it', async (t) => {
  const statuses = (code: ErrorCode): number[] =>
    (['tavily', 'searxng', 'jina', 'firecrawl'] as const).map(
      (product) => errorAnswer(product, new HeadraceError(code)).status,
    );
  t.same(statuses('HR_AUTH_MISSING'), [401, 401, 401, 401]);
  t.same(statuses('HR_KEY_RATE'), [429, 429, 429, 429]);
  t.same(statuses('HR_KEY_SPENT'), [432, 402, 402, 402]);
  t.same(statuses('HR_CREDIT_SHORT'), [433, 402, 402, 402]);
  t.same(statuses('HR_REQUEST_INVALID'), [400, 400, 400, 400]);
  t.same(statuses('HR_FETCH_TIMEOUT'), [504, 504, 504, 408]);
  t.same(statuses('HR_FETCH_FAILED'), [502, 502, 502, 500]);
  t.same(statuses('HR_SEARCH_ALL_FAILED'), [503, 503, 503, 503]);
  t.match(errorAnswer('firecrawl', new HeadraceError('HR_FETCH_FAILED', { subject: 'name not found' })).body, {
    code: 'SCRAPE_DNS_RESOLUTION_ERROR',
  });
  t.equal(productOf('/jina/https://example.com/'), 'jina');
  t.equal(productOf('/tavily'), 'tavily');
  for (const path of ['/', '/v1/tavily', '/tavilyx/search', '/v2/scrape', '']) t.equal(productOf(path), undefined);
});
