// What canonical-url.ts promises for every text: it never throws, it is idempotent, it keeps pages that differ apart, and
// it sees through any combination of the spellings it folds.
import fc from 'fast-check';
import t from 'tap';
import { canonicalUrl, pageKey } from '../../src/search/canonical-url.ts';

const hostile = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.webUrl({ withFragments: true, withQueryParameters: true }),
  fc
    .tuple(
      fc.constantFrom('https://', 'http://', 'HTTP:', 'https:///', ' https://'),
      fc.array(
        fc.constantFrom(
          ...[
            'www.',
            'm.',
            'amp.',
            'example.com',
            'wikipedia.org',
            '.',
            'google.com',
            'bing.com',
            'arxiv.org',
            'doi.org',
          ],
          ...['1', 'a', ':443', ':80', ':81', 'u:p@', '[::1]', 'xn--', '.m.', 'cdn.ampproject.org', 'é', '..', '%2e'],
        ),
        { maxLength: 4 },
      ),
      fc.array(
        fc.constantFrom(
          ...[
            '/',
            '/amp',
            '/index.html',
            '/index.php',
            ';jsessionid=1',
            '/..',
            '..',
            '%2e',
            '%2E%2E',
            '%',
            '%4',
            '41',
            'a',
          ],
          ...[
            '/url',
            '/l',
            '/ck/a',
            '/amp/s/',
            '/c/s/',
            '/c/',
            '?',
            '?q=',
            'u=a1',
            '&',
            '=',
            '#',
            '#/',
            '#!',
            ':~:',
            '%3A~:',
            '+',
          ],
          ...[
            '/abs/',
            '2101.00001',
            'v2',
            '.pdf',
            '/doi/',
            '10.1000/',
            '/full',
            '/pubmed/',
            '123',
            'utm_a=1',
            'amp=1',
            "'",
            '"',
            '|',
          ],
          ...[
            'https://google.com/url?q=',
            'https%3A%2F%2Fgoogle.com%2Furl%3Fq%3D',
            '\\',
            '\t',
            '%ZZ',
            '%C3',
            '\ud800',
            '\u3002',
          ],
        ),
        { maxLength: 9 },
      ),
    )
    .map(([scheme, host, rest]) => scheme + host.join('') + rest.join('')),
);

t.test('never throws, and the canonical form is its own', async () => {
  fc.assert(
    fc.property(hostile, (url) => {
      const canonical = canonicalUrl(url);
      const key = pageKey(url);
      const web = /^https?:$/.test(URL.parse(url.trim())?.protocol ?? '');
      return (
        canonicalUrl(canonical) === canonical &&
        pageKey(canonical) === key &&
        (web ? URL.parse(canonical) !== null : canonical === url.trim() && key === canonical.replace(/^https:\/\//, ''))
      );
    }),
    { numRuns: 20_000 },
  );
});

const word = fc.string({
  unit: fc.constantFrom('a', 'b', 'c', 'X', 'Y', 'Z', '0', '1', '9', '-', '_', 'é'),
  minLength: 1,
  maxLength: 4,
});
const path = fc.array(word, { maxLength: 4 }).map((segments) => segments.map((segment) => `/${segment}`).join(''));
const name = fc.constantFrom('id', 'p', 'v', 'page', 'q', 'ref', 'source', 't', 'lang', 'a[]');
const parameters = fc.uniqueArray(fc.tuple(name, word), { selector: ([name]) => name, maxLength: 4 });
const page = fc.record({ path, parameters });
type Page = typeof page extends fc.Arbitrary<infer Value> ? Value : never;

function spell({ path, parameters }: Page): string {
  const query = parameters.map(([name, value]) => `${name}=${value}`).join('&');
  return `https://example.com${path}${query === '' ? '' : `?${query}`}`;
}

t.test('merges two pages only when path and parameters are equal', async () => {
  const identity = ({ path, parameters }: Page): string => JSON.stringify([path, parameters.map(String).sort()]);
  // Pairs that are equal, or differ in one thing, are drawn as often as any others.
  const pair = fc.oneof(
    fc.tuple(page, page),
    page.map((a): [Page, Page] => [a, { ...a, parameters: a.parameters.toReversed() }]),
    fc.tuple(page, word).map(([a, w]): [Page, Page] => [a, { ...a, path: `${a.path}/${w}` }]),
    fc.tuple(page, word).map(([a, w]): [Page, Page] => [a, { ...a, parameters: a.parameters.map(([n]) => [n, w]) }]),
    page.map((a): [Page, Page] => [a, { ...a, path: a.path.toUpperCase() }]),
  );
  fc.assert(
    fc.property(pair, ([a, b]) => (pageKey(spell(a)) === pageKey(spell(b))) === (identity(a) === identity(b))),
    { numRuns: 5_000 },
  );
});

t.test('gives one key for any combination of spellings', async () => {
  const add = (url: string, parameter: string): string => `${url}${url.includes('?') ? '&' : '?'}${parameter}`;
  const disguises: ((url: string) => string)[] = [
    (url) => url.replace('https:', 'http:'),
    (url) => url.replace('//example', '//www.example'),
    (url) => url.replace('//example', '//m.example'),
    (url) => add(url, 'utm_source=x'),
    (url) => add(url, 'amp=1'),
    (url) => url.replace(/\?|$/, '/$&'),
    (url) => url.replace(/[XYZ](?=\?|$)/, (letter) => `%${letter.charCodeAt(0).toString(16)}`),
  ];
  const wrappers: ((url: string) => string)[] = [
    (url) => `${url}#part`,
    (url) => `https://www.google.com/url?q=${encodeURIComponent(url)}`,
    (url) => `https://www.bing.com/ck/a?u=a1${Buffer.from(url).toString('base64url')}`,
    (url) => `https://duckduckgo.com/l/?rut=0&uddg=${encodeURIComponent(url)}`,
  ];
  const some = fc.tuple(
    fc.array(fc.constantFrom(...disguises), { maxLength: 6 }),
    fc.array(fc.constantFrom(...wrappers), { maxLength: 3 }),
  );
  fc.assert(
    fc.property(page, some, (page, [inner, outer]) => {
      const plain = spell(page);
      const disguised = [...inner, ...outer].reduce((url, disguise) => disguise(url), plain);
      return pageKey(disguised) === pageKey(plain);
    }),
    { numRuns: 3_000 },
  );
});

/** Addresses that need no URL parser, and their near neighbours that do. */
const nearlyPlain = fc
  .tuple(
    fc.constantFrom('https://', 'http://', 'HTTPS://', 'https:/', 'https:///'),
    fc.array(
      fc.constantFrom(
        'www.',
        'm.',
        'mobile.',
        'amp.',
        'example.',
        'a-b.',
        '-a.',
        'a-.',
        'xn--a.',
        '1.',
        'A.',
        '.',
        'a_b.',
      ),
      { maxLength: 3 },
    ),
    fc.constantFrom(
      'com',
      'org',
      '1',
      '0x1',
      'c0m',
      'co-m',
      'com.',
      'dev',
      'youtube.com',
      'x.com',
      'twitter.com',
      'google.de',
    ),
    fc.constantFrom('', '', ':443', ':8080', '@x'),
    fc.array(
      fc.constantFrom(
        ...[
          '/a',
          '/A',
          '/',
          '//',
          '/.',
          '/..',
          '/.a',
          '/a.b',
          '/index.html',
          '/index.php/',
          '/amp',
          '/amp/',
          '/ampere',
        ],
        ...[
          '/article',
          '/articles',
          '/10.1000/x',
          '/a;b',
          '/%41',
          "/it's",
          '/(a)',
          '/a:b@c',
          '/é',
          '/a b',
          '/~a',
          '/a^b',
          '/a|b',
        ],
      ),
      { maxLength: 4 },
    ),
    fc.array(
      fc.constantFrom(
        ...['?', '&', 'id=1', 'p=2', 'utm_source=x', 'UTM_A', 'gclid=1', 'amp', 'amp=1', 'amp=16', 'a=b=c', 'q=a+b'],
        ...["q=it's", 'q=%41', '=', 'fbclid', 'x/y', '?', 'id=10.1000/x', 'a&b', 'q="'],
      ),
      { maxLength: 5 },
    ),
  )
  .map(([scheme, labels, top, port, path, query]) =>
    [scheme, ...labels, top, port, ...path, query.length > 0 ? '?' : '', ...query].join(''),
  );

t.test('reads plain addresses as the URL parser does', async () => {
  // A fragment keeps an address from being plain, and is removed.
  fc.assert(
    fc.property(
      nearlyPlain,
      (url) =>
        URL.parse(url) === null ||
        (canonicalUrl(url) === canonicalUrl(`${url}#part`) && pageKey(url) === pageKey(`${url}#part`)),
    ),
    { numRuns: 30_000 },
  );
});

t.test('never merges different ids, nor paths of different case', async () => {
  const id = fc.stringMatching(/^[\w-]{11}$/);
  const forms: ((id: string) => string)[] = [
    (video) => `https://youtu.be/${video}`,
    (video) => `https://www.youtube.com/watch?v=${video}&t=10`,
    (video) => `https://m.youtube.com/shorts/${video}`,
    (video) => `https://old.reddit.com/r/a/comments/${video}/`,
    (video) => `https://www.reddit.com/r/a/comments/${video}`,
    (video) => `https://example.com/a/${video}`,
    (video) => `https://example.com/a?id=${video}`,
    (video) => `https://x.com/a/status/${video}`,
    (video) => `https://en.m.wikipedia.org/wiki/${video}`,
  ];
  fc.assert(
    fc.property(fc.constantFrom(...forms), fc.constantFrom(...forms), id, id, (one, other, a, b) => {
      if (a === b) return true;
      return (
        pageKey(one(a)) !== pageKey(other(b)) &&
        (a === a.toLowerCase() || pageKey(one(a)) !== pageKey(one(a.toLowerCase())))
      );
    }),
    { numRuns: 5_000 },
  );
});
