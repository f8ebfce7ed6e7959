// What filters ask of an engine and leave out afterwards: domains against a plain model, dates at their borders, declarations.
import fc from 'fast-check';
import t from 'tap';
import type { EngineFilters, EngineHit, EngineQuery } from '../../src/search/engine.ts';
import {
  appliedFilters,
  applies,
  createDomainFilter,
  isWithin,
  planOf,
  reasonOf,
} from '../../src/search/filter-plan.ts';
import { hitOf } from '../support/search.ts';

const NOW = Date.parse('2026-11-21T10:00:00Z');
const QUERY: EngineQuery = { query: 'danube', type: 'web', maxResults: 10 };

t.test('a domain holds its own host and its subdomains, by whole labels', async (t) => {
  const isIncluded = createDomainFilter({ includeDomains: ['example.com', 'xn--bcher-kva.example', '10.0.0.1'] });
  const cases: readonly (readonly [string, boolean])[] = [
    ['https://example.com/', true],
    ['http://example.com:8443/a?b#c', true],
    ['https://EXAMPLE.com./', true],
    ['https://www.docs.example.com/', true],
    ['https://notexample.com/', false],
    ['https://example.com.evil.test/', false],
    ['https://example.com@evil.test/', false],
    ['https://evil.test/?u=https://example.com/', false],
    ['https://com/', false],
    ['https://bücher.example/', true],
    ['https://xn--bcher-kva.example/', true],
    ['http://10.0.0.1/', true],
    ['http://0x0a000001/', true],
    ['http://110.0.0.1/', false],
    ['nonsense', false],
  ];
  for (const [url, expected] of cases) t.equal(isIncluded?.(url), expected, url);
});

t.test('what is excluded is excluded in a subdomain of what is included, and behind a redirect', async (t) => {
  const isAllowed = createDomainFilter({
    includeDomains: ['a.example', 'google.com'],
    excludeDomains: ['b.a.example'],
  });
  t.equal(isAllowed?.('https://a.example/'), true);
  t.equal(isAllowed?.('https://b.a.example/'), false);
  t.equal(isAllowed?.('https://c.b.a.example/'), false);
  t.equal(isAllowed?.('https://bb.a.example/'), true);
  t.equal(isAllowed?.('https://www.google.com/url?q=https%3A%2F%2Fb.a.example%2F'), false);
  t.equal(createDomainFilter({ language: 'de' }), null, 'none without domains');
});

t.test('hosts of any length and any number of dots take no time', async (t) => {
  const isAllowed = createDomainFilter({ includeDomains: ['test'], excludeDomains: ['a.test'] });
  const started = process.cpuUsage();
  const hosts = Array.from({ length: 1000 }, (_, at) => `a${'.'.repeat(8000)}${at}x.test`);
  t.notOk(hosts.some((host) => isAllowed?.(`http://${host}/`)));
  t.ok(process.cpuUsage(started).user < 1_000_000, 'less than a second');
});

t.test('domains are what a comparison of labels from the end says, for any hosts', async () => {
  const label = fc.constantFrom('a', 'b', 'ab', 'example', 'com', 'xn--bcher-kva');
  const host = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => `${labels.join('.')}.test`);
  const decorate = (name: string): fc.Arbitrary<string> =>
    fc.constantFrom(`http://${name}/`, `https://${name}.:81/x`, `https://${name.toUpperCase()}/?q=a.test`);
  const labelsEnd = (name: string, domain: string): boolean => {
    const [labels, ends] = [name.split('.').toReversed(), domain.split('.').toReversed()];
    return ends.every((one, at) => labels[at] === one);
  };
  const property = fc.property(
    host.chain((name) => fc.tuple(fc.constant(name), decorate(name))),
    fc.array(host, { maxLength: 5 }),
    fc.array(host, { maxLength: 5 }),
    ([name, url], include, exclude) => {
      const filters = {
        ...(include.length > 0 && { includeDomains: include }),
        ...(exclude.length > 0 && { excludeDomains: exclude }),
      };
      const isIn = (domains: readonly string[]): boolean => domains.some((domain) => labelsEnd(name, domain));
      const expected = (include.length === 0 || isIn(include)) && !isIn(exclude);
      return (createDomainFilter(filters)?.(url) ?? true) === expected;
    },
  );
  fc.assert(property, { numRuns: 500 });
});

t.test('a date is in a range of days by its day in UTC, whatever its zone', async (t) => {
  const range = { from: '2026-11-20', to: '2026-11-21' };
  const cases: readonly (readonly [string | undefined, boolean | null])[] = [
    ['2026-11-20', true],
    ['2026-11-21', true],
    ['2026-11-19', false],
    ['2026-11-22', false],
    ['2026-11-20T00:00:00Z', true],
    ['2026-11-19T23:59:59Z', false],
    ['2026-11-20T01:30:00+02:00', false],
    ['2026-11-19T22:30:00-02:00', true],
    ['2026-11-21T23:59:59Z', true],
    ['2026-11-22T00:30:00+01:00', true],
    ['2026-11', null],
    ['2026', null],
    ['2025', false],
    ['2026-10', false],
    [undefined, null],
    ['last week', null],
    ['2026-11-20Tnonsense', null],
  ];
  for (const [date, expected] of cases) t.equal(isWithin(date, range, NOW), expected, date ?? 'none');
  t.equal(isWithin('2026-11', { from: '2026-11-01' }, NOW), true, 'all of the month');
  t.equal(isWithin('2020', { to: '2020-12-31' }, NOW), true, 'all of the year');
});

t.test('a word counts back from now, to the second where the date has a time', async (t) => {
  t.equal(isWithin('2026-11-20T10:00:00Z', 'day', NOW), true);
  t.equal(isWithin('2026-11-20T09:59:59Z', 'day', NOW), false);
  t.equal(isWithin('2026-11-20T12:00:00+02:00', 'day', NOW), true);
  t.equal(isWithin('2026-11-20', 'day', NOW), true, 'a part of the day is in the range');
  t.equal(isWithin('2026-11-19', 'day', NOW), false);
  t.equal(isWithin('2026-10-21', 'month', NOW), true, 'what is a month ago');
  t.equal(isWithin('2025-11-21', 'year', NOW), true, 'what is a year ago');
  t.equal(isWithin('2024-11-21', 'year', NOW), false);
  t.equal(isWithin('2027-01-01', 'week', NOW), true, 'journals are dated ahead');
});

const FILTERS: EngineFilters = {
  timeRange: { types: ['web'], values: ['day', 'week'] },
  includeDomains: { most: 1 },
  language: { needs: 'country', values: ['de-AT'] },
  country: { except: ['XK'] },
  safeSearch: { moot: true },
};

t.test('declarations say by type, value and number what an engine applies', async (t) => {
  const is = (name: keyof EngineFilters, filters: object, type: EngineQuery['type'] = 'web'): boolean =>
    applies(FILTERS, name, { ...QUERY, type, filters });
  t.equal(is('timeRange', { timeRange: 'day' }), true);
  t.equal(is('timeRange', { timeRange: 'day' }, 'news'), false);
  t.equal(is('timeRange', { timeRange: 'year' }), false);
  t.equal(is('timeRange', { timeRange: { from: '2026-01-01' } }), false);
  t.equal(is('includeDomains', { includeDomains: ['a.example'] }), true);
  t.equal(is('includeDomains', { includeDomains: ['a.example', 'b.example'] }), false);
  t.equal(is('excludeDomains', { excludeDomains: ['a.example'] }), false, 'not declared');
  t.equal(is('language', { language: 'de', country: 'AT' }), true);
  t.equal(is('language', { language: 'fr', country: 'AT' }), false);
  t.equal(is('language', { language: 'de' }), false);
  t.equal(is('country', { country: 'XK' }), false);
  t.equal(is('safeSearch', { safeSearch: 'strict' }), true);
  t.equal(applies(undefined, 'language', { ...QUERY, filters: { language: 'de' } }), false);
  t.strictSame(
    appliedFilters(FILTERS, { ...QUERY, filters: { timeRange: 'year', country: 'AT', safeSearch: 'off' } }),
    {
      country: 'AT',
    },
  );
  t.strictSame(appliedFilters(FILTERS, QUERY), {});
});

function plan(query: Partial<EngineQuery>, support: EngineFilters = {}): NonNullable<ReturnType<typeof planOf>> {
  const made = planOf({ ...QUERY, ...query }, support, () => NOW);
  if (made === null) throw new Error('no plan');
  return made;
}

t.test('a search without filters on its first page has no plan', async (t) => {
  t.equal(
    planOf(QUERY, FILTERS, () => NOW),
    null,
  );
  t.equal(
    planOf({ ...QUERY, page: 1 }, FILTERS, () => NOW),
    null,
  );
});

t.test('an engine that skips to a page is asked for it, others for all pages before', async (t) => {
  t.match(plan({ page: 3 }, { page: {} }), { query: { page: 3, maxResults: 10 }, before: 20, skipped: 0, wanted: 10 });
  const whole = plan({ page: 3 });
  t.match(whole, { query: { maxResults: 30 }, before: 20, skipped: 20, wanted: 30 });
  t.notOk('page' in whole.query);
  t.match(plan({ page: 10, maxResults: 100 }), { query: { maxResults: 100 }, skipped: 900, wanted: 1000 });
});

t.test('an engine whose hits are left out afterwards is asked for more, from its first page on', async (t) => {
  const filters = { includeDomains: ['a.example', 'b.example'] };
  t.match(plan({ filters }, FILTERS), { query: { maxResults: 50 }, wanted: 10 });
  t.match(plan({ filters, page: 2 }, { ...FILTERS, page: {} }), { query: { maxResults: 50 }, skipped: 10, wanted: 20 });
  t.match(plan({ filters: { includeDomains: ['a.example'] } }, FILTERS), { query: { maxResults: 10 } });
});

t.test('the days of a word are given to engines that take days', async (t) => {
  t.strictSame(plan({ filters: { timeRange: 'week' } }).query.dates, { from: '2026-11-14' });
  t.strictSame(plan({ filters: { timeRange: { to: '2026-01-31' } } }).query.dates, { to: '2026-01-31' });
});

t.test('names what is not applied only where it would change the answer', async (t) => {
  const hits: EngineHit[] = [hitOf('http://a.example/')];
  const not = (filters: object, support?: EngineFilters, found: readonly EngineHit[] = hits): string[] =>
    plan({ filters }, support).notApplied(found, []);
  t.strictSame(not({ language: 'de', country: 'AT', safeSearch: 'strict' }), ['language', 'country', 'safe_search']);
  t.strictSame(not({ language: 'de' }, {}, []), [], 'nothing was found');
  t.strictSame(not({ safeSearch: 'off' }), [], 'nothing is to be left out');
  t.strictSame(not({ safeSearch: 'strict' }, FILTERS), [], 'there is nothing to leave out');
  t.strictSame(not({ includeDomains: ['a.example'] }), [], 'is applied afterwards');
  t.strictSame(not({ timeRange: 'day' }), ['time_range'], 'no date');
  t.strictSame(not({ timeRange: 'day' }, {}, [{ ...hitOf('http://a.example/'), publishedAt: '2026-11-21' }]), []);
  t.strictSame(not({ timeRange: 'day' }, { timeRange: {} }), [], 'the engine applies it');
  t.strictSame(plan({ filters: { language: 'de' } }, { language: {} }).notApplied(hits, ['language']), ['language']);
  t.equal(reasonOf([]), undefined);
  t.equal(reasonOf(['language']), 'language filter not applied');
  t.equal(reasonOf(['language', 'country']), 'language, country filters not applied');
});
