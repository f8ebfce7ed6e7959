// Engine kind `brave`: web, news and images from the Brave Search API. Offsets count pages; images come in one page. Status
// 429 stands for a used-up month (`quota`) as well as for too many requests in a second (`rate limited`).

import {
  asArray,
  asCount,
  asText,
  jsonBody,
  listOf,
  refuse,
  retryAfter,
  startOf,
  wantsMore,
} from '../engine-response.ts';
import { isoDate } from '../dates.ts';
import {
  EngineError,
  type EngineFilters,
  type EnginePage,
  type EngineQuery,
  type EngineRequest,
  type EngineResponse,
  type HttpEngine,
  type ParseContext,
} from '../engine.ts';
import { appliedFilters } from '../filter-plan.ts';
import type { DateRange, SearchFilters } from '../filters.ts';
import { type HitFields, hits } from '../hit.ts';
import { membersOf } from '../../net/json-object.ts';
import { withSites } from './site-operators.ts';

export interface BraveSettings {
  readonly apiKey: string;
  /** Base URL; default `https://api.search.brave.com/res/v1`. */
  readonly url?: string;
  /** Two letters; default the service's choice. */
  readonly country?: string;
  /** Language of the results, as `en`. */
  readonly language?: string;
  /** `off`, `moderate` (web and news) or `strict`. */
  readonly safeSearch?: string;
}

type Kind = 'web' | 'news' | 'images';
type Entry = Readonly<Record<string, unknown>>;

/** Most results of one request. */
const PAGE_SIZE: Readonly<Record<Kind, number>> = { web: 20, news: 50, images: 200 };

const LAST_OFFSET = 9;

/** What the API takes of a query; it refuses a longer one whole. */
const MAX_QUERY_LENGTH = 400;
const MAX_QUERY_WORDS = 50;

/** Countries of the API; it refuses all others. */
const COUNTRIES =
  'AR AT AU BE BR CA CH CL CN DE DK ES FI FR GB HK ID IN IT JP KR MX MY NL NO NZ PH PL PT RU SA SE TR TW US ZA'.split(
    ' ',
  );

/** Languages whose code in the API is that of ISO 639-1, and those of another code. */
const LANGUAGES =
  'ar bg bn ca cs da de en es et eu fi fr gl gu he hi hr hu is it kn ko lt lv ml mr ms nb nl pa pl ro ru sk sl sr sv ta te th tr uk vi'.split(
    ' ',
  );
const OTHER_LANGUAGES: Readonly<Record<string, string>> = { ja: 'jp', no: 'nb', pt: 'pt-br', zh: 'zh-hans' };

const FRESHNESS = { day: 'pd', week: 'pw', month: 'pm', year: 'py' } as const;

const DATED: EngineFilters['timeRange'] = { types: ['web', 'news'] };

const FILTERS: EngineFilters = {
  timeRange: DATED,
  // Each takes words and characters from the query.
  includeDomains: { types: ['web'], most: 5 },
  excludeDomains: { types: ['web'], most: 5 },
  language: { values: [...LANGUAGES, ...Object.keys(OTHER_LANGUAGES)].toSorted() },
  country: { values: COUNTRIES },
  safeSearch: {},
  page: DATED,
};

/** Days that the API takes where a range is open. */
const FIRST_DAY = '1970-01-01';
const LAST_DAY = '2100-12-31';

function freshness(timeRange: NonNullable<SearchFilters['timeRange']>, dates: DateRange = {}): string {
  if (typeof timeRange === 'string') return FRESHNESS[timeRange];
  return `${dates.from ?? FIRST_DAY}to${dates.to ?? LAST_DAY}`;
}

/** The query with its domains where the API takes both, else without: they are applied to the hits, too. */
function asked(query: string, filters: SearchFilters): string {
  const whole = withSites(query, filters);
  return whole === fitted(whole) ? whole : fitted(query);
}

function fitted(query: string): string {
  const fits = query.length <= MAX_QUERY_LENGTH && query.split(/\s+/).length <= MAX_QUERY_WORDS;
  return fits ? query : query.trim().split(/\s+/).slice(0, MAX_QUERY_WORDS).join(' ').slice(0, MAX_QUERY_LENGTH);
}

function pageSize(kind: Kind, maxResults: number): number {
  return Math.min(PAGE_SIZE[kind], maxResults);
}

/** Throws the error that an error envelope stands for; it may come with status 200. */
function refuseEnvelope(response: EngineResponse): void {
  let body: Entry = {};
  try {
    body = jsonBody(response);
  } catch {
    return;
  }
  if (body['type'] !== 'ErrorResponse') return;
  const error = membersOf(body['error']);
  const code = asText(error['code']);
  const status = asCount(error['status']) ?? response.status;
  if (/TOKEN|SUBSCRIPTION|AUTH/.test(code)) throw new EngineError('denied');
  if (status === 429 && usedUp(response, membersOf(error['meta'])))
    throw new EngineError('quota', { retryAfterMs: retryAfter(response) });
  refuse({ ...response, status });
  throw new EngineError('invalid');
}

/** Whether the month is used up, not the second: by the last window of the headers, or the counts of the envelope. */
function usedUp({ headers }: EngineResponse, meta: Entry): boolean {
  const windows = (headers['x-ratelimit-remaining'] ?? '').split(',');
  if (windows.length > 1 && Number(windows.at(-1)) === 0) return true;
  const [limit, current] = [asCount(meta['quota_limit']), asCount(meta['quota_current'])];
  return limit !== undefined && current !== undefined && limit > 0 && current >= limit;
}

function fields(kind: Kind, entry: Entry, nowMs: number): HitFields {
  const { title, url, description } = entry as { title?: unknown; url?: unknown; description?: unknown };
  if (kind !== 'images') {
    const publishedAt = isoDate(entry['page_age'], nowMs) ?? isoDate(entry['age'], nowMs);
    const source = membersOf(entry['meta_url'])['hostname'];
    return { title, url, snippet: description, publishedAt, ...(kind === 'news' ? { source } : {}) };
  }
  const properties = membersOf(entry['properties']);
  return {
    title,
    url,
    source: entry['source'],
    thumbnailUrl: membersOf(entry['thumbnail'])['src'],
    imageUrl: properties['url'],
    width: properties['width'],
    height: properties['height'],
  };
}

function parse(response: EngineResponse, context: ParseContext): EnginePage {
  refuseEnvelope(response);
  refuse(response);
  const kind = context.query.type as Kind;
  const body = jsonBody(response);
  // A web search without results has no `web`, but has the type `search`.
  const list = kind !== 'web' ? listOf(body, 'results') : asArray(membersOf(body['web'])['results']);
  if (kind === 'web' && body['type'] !== 'search' && list.length === 0) throw new EngineError('invalid');
  const start = startOf(context.query, pageSize(kind, context.query.maxResults));
  const isFirst = context.state === undefined;
  const found = hits(isFirst ? list.slice(start.skip) : list, (entry) => fields(kind, entry, context.nowMs));
  const offset = asCount(context.state) ?? start.index;
  const announced = membersOf(body['query'])['more_results_available'];
  const full = typeof announced === 'boolean' ? announced : list.length >= pageSize(kind, context.query.maxResults);
  const goesOn = full && list.length > 0 && kind !== 'images' && offset < LAST_OFFSET;
  return goesOn && wantsMore(context, found) ? { hits: found, next: offset + 1 } : { hits: found };
}

function languageOf({ country, language = '' }: SearchFilters): string {
  if (language === 'pt' && country === 'PT') return 'pt-pt';
  if (language === 'zh' && (country === 'TW' || country === 'HK')) return 'zh-hant';
  return OTHER_LANGUAGES[language] ?? language;
}

export function brave(settings: BraveSettings): HttpEngine {
  const { apiKey, url = 'https://api.search.brave.com/res/v1', country, language, safeSearch } = settings;
  const headers = { accept: 'application/json', 'x-subscription-token': apiKey };
  return {
    kind: 'brave',
    documentation: 'https://api-dashboard.search.brave.com/app/documentation',
    types: ['web', 'news', 'images'],
    // The limit of the free plan; paid plans have higher ones.
    rates: [{ requests: 1, perMs: 1000 }],
    filters: FILTERS,
    reaches: (query) => startOf(query, pageSize(query.type as Kind, query.maxResults)).index <= LAST_OFFSET,
    request(query: EngineQuery, state): EngineRequest {
      const kind = query.type as Kind;
      const size = pageSize(kind, query.maxResults);
      const filters = appliedFilters(FILTERS, query);
      const parameters = new URLSearchParams({ q: asked(query.query, filters), count: String(size) });
      const offset = asCount(state) ?? startOf(query, size).index;
      if (kind !== 'images') parameters.set('offset', String(offset));
      if (kind === 'web') parameters.set('result_filter', 'web');
      if (filters.timeRange !== undefined) parameters.set('freshness', freshness(filters.timeRange, query.dates));
      // What is asked for and unknown to the API takes the place of a setting all the same.
      const region = query.filters?.country === undefined ? country : filters.country;
      if (region) parameters.set('country', region);
      const lang = query.filters?.language === undefined ? language : languageOf(filters);
      if (lang) parameters.set('search_lang', lang);
      const safe = filters.safeSearch ?? safeSearch;
      // Images have no step between.
      if (safe) parameters.set('safesearch', kind === 'images' && safe === 'moderate' ? 'strict' : safe);
      return { method: 'GET', url: `${url}/${kind}/search?${parameters.toString()}`, headers };
    },
    parse,
  };
}
