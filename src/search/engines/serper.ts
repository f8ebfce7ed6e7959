// Engine kind `serper`: Google results for web, news and images, Google Scholar for academic searches. The service may give
// ten results a page whatever number is requested, so only a page of fewer counts as the last.

import { asCount, asText, jsonBody, listOf, refuse, startOf, wantsMore } from '../engine-response.ts';
import { isoDate } from '../dates.ts';
import {
  EngineError,
  type EngineFilters,
  type EngineQuery,
  type EngineRequest,
  type HttpEngine,
  type SearchType,
} from '../engine.ts';
import { appliedFilters } from '../filter-plan.ts';
import type { DateRange, SearchFilters } from '../filters.ts';
import { type HitFields, hits } from '../hit.ts';
import { withSites } from './site-operators.ts';

export interface SerperSettings {
  readonly apiKey: string;
  /** Base URL; default `https://google.serper.dev`. */
  readonly url?: string;
  /** Country of the search, two letters. */
  readonly country?: string;
  /** Language of the search, as `en`. */
  readonly language?: string;
}

type Entry = Readonly<Record<string, unknown>>;

interface Endpoint {
  readonly path: string;
  /** Member of the answer that holds the results. */
  readonly list: string;
  readonly fields: (entry: Entry, nowMs: number) => HitFields;
}

/** Longer than any that the service gives: what is read from it is searched for spaces. */
const MOST_INFO = 1000;

function infoOf(publicationInfo: unknown): string {
  return asText(publicationInfo).slice(0, MOST_INFO);
}

/** `A Author, B Author - Journal of Things, 2017 - publisher.example`: the name between the authors and the year. */
function journal(publicationInfo: unknown): string {
  const parts = infoOf(publicationInfo).split(' - ');
  return (parts.length > 2 ? (parts[1] ?? '') : '').replace(/,? *\d{4}$/, '');
}

/** Authors are cut, and end with an ellipsis then. */
function work(entry: Entry): Partial<HitFields> {
  const [names = '', ...rest] = infoOf(entry['publicationInfo']).split(' - ');
  const authors = rest.length === 0 ? [] : names.split(', ').filter((name) => !/^…?$/.test(name.trim()));
  return {
    authors: authors.map((name) => name.replace(/…$/, '')),
    year: entry['year'],
    venue: journal(entry['publicationInfo']),
    citations: entry['citedBy'] ?? undefined,
    openAccessUrl: entry['pdfUrl'],
  };
}

const ENDPOINTS: Readonly<Record<SearchType, Endpoint>> = {
  web: {
    path: 'search',
    list: 'organic',
    fields: (entry, nowMs) => ({
      title: entry['title'],
      url: entry['link'],
      snippet: entry['snippet'],
      publishedAt: isoDate(entry['date'], nowMs),
    }),
  },
  news: {
    path: 'news',
    list: 'news',
    fields: (entry, nowMs) => ({ ...ENDPOINTS.web.fields(entry, nowMs), source: entry['source'] }),
  },
  images: {
    path: 'images',
    list: 'images',
    fields: (entry) => ({
      title: entry['title'],
      url: entry['link'],
      source: asText(entry['source']) || entry['domain'],
      thumbnailUrl: entry['thumbnailUrl'],
      imageUrl: entry['imageUrl'],
      width: entry['imageWidth'],
      height: entry['imageHeight'],
    }),
  },
  academic: {
    path: 'scholar',
    list: 'organic',
    fields: (entry, nowMs) => ({
      title: entry['title'],
      url: asText(entry['link']) || entry['pdfUrl'],
      snippet: entry['snippet'],
      publishedAt: isoDate(entry['year'], nowMs),
      source: journal(entry['publicationInfo']),
      ...work(entry),
    }),
  },
};

const SMALLEST_PAGE = 10;
const LAST_PAGE = 10;

const NOT_ACADEMIC: readonly SearchType[] = ['web', 'news', 'images'];

const FILTERS: EngineFilters = {
  timeRange: { types: NOT_ACADEMIC },
  // A query has at most 32 words.
  includeDomains: { types: NOT_ACADEMIC, most: 8 },
  excludeDomains: { types: NOT_ACADEMIC, most: 8 },
  language: { prefers: true },
  country: { prefers: true },
  page: {},
};

const RECENT = { day: 'd', week: 'w', month: 'm', year: 'y' } as const;

/** Days are written `11/21/2026`. */
function period(timeRange: NonNullable<SearchFilters['timeRange']>, { from = '', to = '' }: DateRange = {}): string {
  if (typeof timeRange === 'string') return `qdr:${RECENT[timeRange]}`;
  const american = (day: string): string => day.replace(/^(\d+)-(\d+)-(\d+)$/, '$2/$3/$1');
  return `cdr:1,cd_min:${american(from)},cd_max:${american(to)}`;
}

/** Behind the first page of ours, pages have ten results: the service may give no more whatever is requested. */
function pageSize({ maxResults, page = 1 }: EngineQuery): number {
  return page > 1 ? SMALLEST_PAGE : Math.max(SMALLEST_PAGE, maxResults);
}

export function serper(settings: SerperSettings): HttpEngine {
  const { apiKey, url = 'https://google.serper.dev', country, language } = settings;
  const headers = { accept: 'application/json', 'content-type': 'application/json', 'x-api-key': apiKey };
  return {
    kind: 'serper',
    documentation: 'https://serper.dev',
    types: ['web', 'news', 'images', 'academic'],
    filters: FILTERS,
    request(query, state): EngineRequest {
      const filters = appliedFilters(FILTERS, query);
      const gl = filters.country?.toLowerCase() ?? country;
      const hl = filters.language ?? language;
      const body = {
        q: withSites(query.query, filters),
        num: pageSize(query),
        page: asCount(state) ?? startOf(query, SMALLEST_PAGE).index + 1,
        ...(gl ? { gl } : {}),
        ...(hl ? { hl } : {}),
        ...(filters.timeRange === undefined ? {} : { tbs: period(filters.timeRange, query.dates) }),
      };
      return { method: 'POST', url: `${url}/${ENDPOINTS[query.type].path}`, headers, body: JSON.stringify(body) };
    },
    parse(response, context) {
      // A 400 with these words means that no credits are left, not that the query is bad.
      if (response.status === 400 && /credit/i.test(response.body.toString('utf8', 0, 1000))) {
        throw new EngineError('quota');
      }
      refuse(response);
      const { list: name, fields } = ENDPOINTS[context.query.type];
      const list = listOf(jsonBody(response), name);
      const start = startOf(context.query, SMALLEST_PAGE);
      const isFirst = context.state === undefined;
      const found = hits(isFirst ? list.slice(start.skip) : list, (entry) => fields(entry, context.nowMs));
      const page = asCount(context.state) ?? start.index + 1;
      const goesOn = list.length >= SMALLEST_PAGE && page < start.index + LAST_PAGE && wantsMore(context, found);
      return goesOn ? { hits: found, next: page + 1 } : { hits: found };
    },
  };
}
