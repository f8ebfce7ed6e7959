// What each kind of engine sends for the filters and the page of a search: parameters as its service documents them.
import t from 'tap';
import type { EngineQuery, EngineRequest, FilterName, HttpEngine } from '../../../src/search/engine.ts';
import { applies, planOf } from '../../../src/search/filter-plan.ts';
import type { SearchFilters } from '../../../src/search/filters.ts';
import { arxiv } from '../../../src/search/engines/arxiv.ts';
import { brave } from '../../../src/search/engines/brave.ts';
import { crossref } from '../../../src/search/engines/crossref.ts';
import { duckduckgo } from '../../../src/search/engines/duckduckgo.ts';
import { exa } from '../../../src/search/engines/exa.ts';
import { createEngine, ENGINE_KINDS } from '../../../src/search/engines/kinds.ts';
import { marginalia } from '../../../src/search/engines/marginalia.ts';
import { mojeek } from '../../../src/search/engines/mojeek.ts';
import { openalex } from '../../../src/search/engines/openalex.ts';
import { pubmed } from '../../../src/search/engines/pubmed.ts';
import { searxng } from '../../../src/search/engines/searxng.ts';
import { semanticScholar } from '../../../src/search/engines/semantic-scholar.ts';
import { serper } from '../../../src/search/engines/serper.ts';
import { tavily } from '../../../src/search/engines/tavily.ts';
import { wikipedia } from '../../../src/search/engines/wikipedia.ts';
import { answer, KEY, NOW } from './contract.ts';

const WEEK = { timeRange: 'week' } as const;
const DAYS = { timeRange: { from: '2026-03-01', to: '2026-03-31' } } as const;
const SINCE = { timeRange: { from: '2026-03-01' } } as const;
const UNTIL = { timeRange: { to: '2026-03-31' } } as const;
const SITES = { includeDomains: ['a.example', 'b.example'], excludeDomains: ['c.a.example'] } as const;
const PLACE = { language: 'de', country: 'AT' } as const;

/** What is sent for filters beside what is sent without: the parameters or members that differ. */
function sent(engine: HttpEngine, filters: SearchFilters, fields: Partial<EngineQuery> = {}): Record<string, unknown> {
  const query: EngineQuery = { query: 'danube', type: engine.types[0] ?? 'web', maxResults: 10, ...fields };
  const plan = planOf({ ...query, filters }, engine.filters, () => NOW);
  if (plan === null) throw new Error('no plan');
  // Filters that are applied afterwards change the number of results, too.
  const asked = { ...plan.query, maxResults: query.maxResults };
  const plain = carried(engine.request(query, undefined));
  return Object.fromEntries(
    Object.entries(carried(engine.request(asked, undefined))).filter(
      ([name, value]) => JSON.stringify(plain[name]) !== JSON.stringify(value),
    ),
  );
}

function carried({ body, headers, url }: EngineRequest): Record<string, unknown> {
  const text = typeof body === 'string' ? body : '';
  const isForm = headers['content-type']?.includes('urlencoded') === true;
  const members = text === '' || isForm ? {} : (JSON.parse(text) as object);
  return {
    host: new URL(url).host,
    ...Object.fromEntries(new URL(url).searchParams),
    ...(isForm ? Object.fromEntries(new URLSearchParams(text)) : members),
  };
}

/** What is sent for page 3 of ten results, and of thirty. */
function pagesOf(engine: HttpEngine, type = engine.types[0] ?? 'web'): readonly Record<string, unknown>[] {
  return [10, 30].map((maxResults) => {
    const query: EngineQuery = { query: 'danube', type, maxResults };
    const plain = carried(engine.request(query, undefined));
    const page = carried(engine.request({ ...query, page: 3 }, undefined));
    return Object.fromEntries(
      Object.entries(page).filter(([name, value]) => JSON.stringify(plain[name]) !== JSON.stringify(value)),
    );
  });
}

t.test('brave', async (t) => {
  const engine = brave({ apiKey: KEY, country: 'us', language: 'en', safeSearch: 'off' });
  t.strictSame(sent(engine, WEEK), { freshness: 'pw' });
  t.strictSame(sent(engine, DAYS), { freshness: '2026-03-01to2026-03-31' });
  t.match(sent(engine, SINCE), { freshness: /^2026-03-01to\d{4}-12-31$/ });
  t.match(sent(engine, UNTIL), { freshness: /^1970-01-01to2026-03-31$/ });
  t.strictSame(sent(engine, WEEK, { type: 'images' }), {}, 'images have no dates');
  t.strictSame(sent(engine, SITES), { q: 'danube (site:a.example OR site:b.example) -site:c.a.example' });
  t.strictSame(sent(engine, { includeDomains: ['a', 'b', 'c', 'd', 'e', 'f'] }), {}, 'too many for the query');
  t.strictSame(sent(engine, SITES, { query: 'w '.repeat(49) }), {}, 'the words of the query come first');
  t.strictSame(sent(engine, { ...PLACE, safeSearch: 'strict' }), {
    search_lang: 'de',
    country: 'AT',
    safesearch: 'strict',
  });
  t.strictSame(sent(engine, { language: 'ja' }), { search_lang: 'jp' });
  t.strictSame(sent(engine, { language: 'pt', country: 'PT' }), { search_lang: 'pt-pt', country: 'PT' });
  t.strictSame(sent(engine, { language: 'zh', country: 'TW' }), { search_lang: 'zh-hant', country: 'TW' });
  t.strictSame(sent(engine, { language: 'sw', country: 'KE' }), {}, 'the API would refuse them');
  const url = engine.request({ query: 'x', type: 'web', maxResults: 5, filters: { language: 'sw' } }, undefined).url;
  t.notMatch(url, /search_lang/, 'nor the language of the setting');
  t.strictSame(sent(engine, { safeSearch: 'moderate' }, { type: 'images' }), { safesearch: 'strict' });
  t.strictSame(pagesOf(engine), [{ offset: '2' }, { offset: '3' }]);
});

t.test('searxng', async (t) => {
  const engine = searxng({ url: 'http://searxng.example', language: 'en' });
  t.strictSame(sent(engine, WEEK), { time_range: 'week' });
  t.strictSame(sent(engine, DAYS), {}, 'words only');
  t.strictSame(sent(engine, SITES), {});
  t.strictSame(sent(engine, PLACE), { language: 'de-AT' });
  t.strictSame(sent(engine, { language: 'de' }), { language: 'de' });
  t.strictSame(sent(engine, { country: 'AT' }), {}, 'a locale has a language');
  for (const [word, level] of [
    ['off', '0'],
    ['moderate', '1'],
    ['strict', '2'],
  ] as const)
    t.strictSame(sent(engine, { safeSearch: word }), { safesearch: level });
  t.strictSame(pagesOf(engine), [{ pageno: '3' }, { pageno: '7' }]);
});

t.test('serper', async (t) => {
  const engine = serper({ apiKey: KEY });
  t.strictSame(sent(engine, WEEK), { tbs: 'qdr:w' });
  t.strictSame(sent(engine, DAYS), { tbs: 'cdr:1,cd_min:03/01/2026,cd_max:03/31/2026' });
  t.strictSame(sent(engine, SINCE), { tbs: 'cdr:1,cd_min:03/01/2026,cd_max:' });
  t.strictSame(sent(engine, WEEK, { type: 'academic' }), {});
  t.strictSame(sent(engine, SITES), { q: 'danube (site:a.example OR site:b.example) -site:c.a.example' });
  t.strictSame(sent(engine, PLACE), { gl: 'at', hl: 'de' });
  t.strictSame(sent(engine, { safeSearch: 'strict' }), {});
  t.strictSame(pagesOf(engine), [{ page: 3 }, { page: 7, num: 10 }]);
});

t.test('tavily', async (t) => {
  const engine = tavily({ apiKey: KEY });
  t.strictSame(sent(engine, WEEK), { time_range: 'week' });
  t.strictSame(sent(engine, DAYS), { start_date: '2026-03-01', end_date: '2026-03-31' });
  t.strictSame(sent(engine, UNTIL), { end_date: '2026-03-31' });
  t.match(sent(engine, SITES), { include_domains: ['a.example', 'b.example'], exclude_domains: ['c.a.example'] });
  t.strictSame(sent(engine, { country: 'GB' }), { country: 'united kingdom' });
  t.strictSame(sent(engine, { country: 'GB' }, { type: 'news' }), {});
  t.strictSame(sent(engine, { country: 'CZ', language: 'cs', safeSearch: 'strict' }), {});
  t.strictSame(pagesOf(engine), [{}, {}]);
});

t.test('exa', async (t) => {
  const engine = exa({ apiKey: KEY });
  t.strictSame(sent(engine, WEEK), { startPublishedDate: '2026-11-14T00:00:00.000Z' });
  t.match(sent(engine, DAYS), { endPublishedDate: '2026-03-31T23:59:59.999Z' });
  t.strictSame(sent(engine, { excludeDomains: ['c.example'] }), { excludeDomains: ['c.example'] });
  t.strictSame(sent(engine, SITES), { includeDomains: ['a.example', 'b.example'] }, 'one list');
  t.strictSame(sent(engine, { ...PLACE, safeSearch: 'moderate' }), { userLocation: 'AT', moderation: true });
  t.strictSame(sent(engine, { safeSearch: 'off' }), { moderation: false });
});

t.test('mojeek', async (t) => {
  const engine = mojeek({ apiKey: KEY });
  t.strictSame(sent(engine, WEEK), { since: '20261114' });
  t.strictSame(sent(engine, DAYS), { since: '20260301', before: '20260401' }, 'the last day is included');
  t.strictSame(sent(engine, { includeDomains: ['a.example'] }), { site: 'a.example' });
  t.strictSame(sent(engine, SITES), {}, 'one site');
  t.strictSame(sent(engine, PLACE), { lb: 'DE', rb: 'AT', rbb: '10' });
  t.strictSame(sent(engine, { safeSearch: 'strict' }), { safe: '1' });
  t.strictSame(pagesOf(engine), [{ s: '21' }, { s: '61' }]);
});

t.test('marginalia', async (t) => {
  const engine = marginalia({ apiKey: KEY });
  t.strictSame(sent(engine, { ...WEEK, ...SITES, ...PLACE }), {});
  t.strictSame(sent(engine, { safeSearch: 'off' }), { nsfw: '0' });
  t.strictSame(sent(engine, { safeSearch: 'strict' }), { nsfw: '1' });
  t.strictSame(pagesOf(engine), [{ page: '3' }, { page: '3' }]);
});

t.test('duckduckgo', async (t) => {
  const engine = duckduckgo();
  t.strictSame(sent(engine, WEEK), { df: 'w' });
  t.strictSame(sent(engine, DAYS), { df: '2026-03-01..2026-03-31' });
  t.strictSame(sent(engine, { includeDomains: ['a.example'] }), { q: 'danube site:a.example' });
  t.strictSame(sent(engine, { excludeDomains: ['a.example', 'b.example'] }), {
    q: 'danube -site:a.example -site:b.example',
  });
  t.strictSame(sent(engine, { country: 'CH' }), { kl: 'ch-de' });
  t.strictSame(sent(engine, { country: 'CH', language: 'it' }), { kl: 'ch-it' });
  t.strictSame(sent(engine, { country: 'JP', language: 'ja' }), { kl: 'jp-jp' });
  t.strictSame(sent(engine, { language: 'de' }), {}, 'a region has a country');
  t.strictSame(sent(engine, { country: 'KE' }), {});
  t.strictSame(
    sent(duckduckgo({ region: 'us-en' }), { country: 'KE' }),
    { kl: 'wt-wt' },
    'not the country of the setting',
  );
  for (const [word, level] of [
    ['off', '-2'],
    ['moderate', '-1'],
    ['strict', '1'],
  ] as const)
    t.strictSame(sent(engine, { safeSearch: word }), { kp: level });
});

t.test('wikipedia', async (t) => {
  const engine = wikipedia({ language: 'en' });
  t.strictSame(sent(engine, { language: 'de' }), { host: 'de.wikipedia.org' });
  t.strictSame(sent(engine, { language: 'nb' }), { host: 'no.wikipedia.org' });
  t.strictSame(sent(engine, { language: 'kr' }), {}, 'there is no such wiki');
  t.strictSame(sent(engine, { language: 'de' }, { type: 'images' }), {});
  t.strictSame(sent(wikipedia({ url: 'http://wiki.example' }), { language: 'de' }), {}, 'a wiki of its own');
  t.strictSame(pagesOf(engine), [{ sroffset: '20' }, { sroffset: '60' }]);
  const query: EngineQuery = { query: 'x', type: 'web', maxResults: 10, filters: { language: 'de' } };
  const page = answer({ batchcomplete: true, query: { search: [{ title: 'Donau', snippet: '' }] } });
  const { hits } = engine.parse(page, { query, state: undefined, collected: 0, nowMs: NOW });
  t.equal(hits[0]?.url, 'https://de.wikipedia.org/wiki/Donau', 'articles are those of the wiki that was asked');
});

t.test('crossref, openalex, semantic-scholar, pubmed and arxiv', async (t) => {
  t.strictSame(sent(crossref(), DAYS), { filter: 'from-pub-date:2026-03-01,until-pub-date:2026-03-31' });
  t.strictSame(sent(crossref(), { ...PLACE, ...UNTIL }), { filter: 'until-pub-date:2026-03-31' });
  t.strictSame(sent(openalex(), { ...DAYS, language: 'de' }), {
    filter: 'from_publication_date:2026-03-01,to_publication_date:2026-03-31,language:de',
  });
  t.strictSame(sent(semanticScholar(), DAYS), { publicationDateOrYear: '2026-03-01:2026-03-31' });
  t.strictSame(sent(semanticScholar(), WEEK), { publicationDateOrYear: '2026-11-14:' });
  t.strictSame(sent(pubmed(), DAYS), { datetype: 'pdat', mindate: '2026/03/01', maxdate: '2026/03/31' });
  t.strictSame(sent(pubmed(), SINCE), { datetype: 'pdat', mindate: '2026/03/01', maxdate: '3000/12/31' });
  t.strictSame(sent(pubmed(), { language: 'de' }, { query: 'a OR b' }), { term: '(a OR b) AND ger[la]' });
  t.strictSame(sent(arxiv(), DAYS), {
    search_query: '(all:danube) AND submittedDate:[202603010000 TO 202603312359]',
  });
  t.strictSame(pagesOf(crossref()), [{ offset: '20' }, { offset: '60' }]);
  t.strictSame(pagesOf(openalex()), [{ page: '3' }, { page: '3' }]);
  t.strictSame(pagesOf(semanticScholar()), [{ offset: '20' }, { offset: '60' }]);
  t.strictSame(pagesOf(pubmed()), [{ retstart: '20' }, { retstart: '60' }]);
  t.strictSame(pagesOf(arxiv()), [{ start: '20' }, { start: '60' }]);
});

const GIVEN = { apiKey: KEY, url: 'http://engine.example', path: '.' };
const ALL = { ...WEEK, ...SITES, ...PLACE, safeSearch: 'strict' } as const;

for (const [kind, { settings }] of Object.entries(ENGINE_KINDS).filter(([name]) => name !== 'module')) {
  const required = Object.entries(GIVEN).filter(([name]) => settings[name]?.presence === 'required');
  const engine = createEngine(kind, Object.fromEntries(required));
  if ('search' in engine) continue;
  t.test(`${kind} sends nothing for what it has not declared, and something for what it has`, async (t) => {
    for (const type of engine.types) {
      for (const [name, value] of Object.entries(ALL)) {
        const filters = { [name]: value } as SearchFilters;
        const query: EngineQuery = { query: 'danube', type, maxResults: 10, filters };
        const support = engine.filters?.[name as FilterName];
        const isSent = applies(engine.filters, name as FilterName, query) && support?.moot !== true;
        t.equal(Object.keys(sent(engine, filters, { type })).length > 0, isSent, `${type} ${name}`);
      }
      const isPaged = applies(engine.filters, 'page', { query: 'danube', type, maxResults: 10, page: 3 });
      t.equal(Object.keys(pagesOf(engine, type)[0] ?? {}).length > 0, isPaged, `${type} page`);
    }
  });
}
