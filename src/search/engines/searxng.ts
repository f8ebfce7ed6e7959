// Engine kind `searxng`: a SearXNG instance. Its JSON format is off by default: an instance without `json` in
// `search.formats` answers 403, which is reported as `access denied`. The instance decides how many results a page has.

import { asArray, asCount, asText, jsonBody, listOf, refuse, wantsMore } from '../engine-response.ts';
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
import { type HitFields, hits } from '../hit.ts';

export interface SearxngSettings {
  /** Base URL of the instance, without a slash at its end. */
  readonly url: string;
  /** Sent as `authorization: Bearer`, for instances behind an authenticating proxy. */
  readonly apiKey?: string;
  /** Names of the instance's engines to ask; default those of the category. */
  readonly engines?: readonly string[];
  /** Language of the results, as `en` or `de-AT`; default the instance's. */
  readonly language?: string;
}

const CATEGORY: Readonly<Record<SearchType, string>> = {
  web: 'general',
  news: 'news',
  images: 'images',
  academic: 'science',
};

const LAST_PAGE = 10;

/** Results that a page of an instance has at least, where there are more. */
const SMALLEST_PAGE = 10;

const FILTERS: EngineFilters = {
  timeRange: { values: ['day', 'week', 'month', 'year'] },
  language: {},
  // A locale has a language.
  country: { needs: 'language' },
  safeSearch: {},
  page: {},
};

const SAFE = { off: '0', moderate: '1', strict: '2' } as const;

/** The first page of the instance for a page of ours. */
function firstPage({ maxResults, page = 1 }: EngineQuery): number {
  return 1 + (page - 1) * Math.ceil(maxResults / SMALLEST_PAGE);
}

// An instance takes words apart at white space and separators.
const BANG = /(?<![^\s\p{Cc}])!+(?=[\p{L}\p{N}_\s\p{Cc}]|$)/gu;
const LANGUAGE = /(?<![^\s\p{Cc}]):(?=\p{L})/gu;
const TIME_LIMIT = /(?<![^\s\p{Cc}])<(?=\p{N})/gu;

/** Bangs would send the request to another site or to other engines; `:de` and `<1` set language and time limit. */
function plainQuery(query: string): string {
  return query.replace(BANG, '').replace(LANGUAGE, '').replace(TIME_LIMIT, '< ');
}

/** `1920 x 1080`, `1920×1080`. */
const RESOLUTION = /^(\d{1,6})\s*[x×]\s*(\d{1,6})/i;

/** Engines of an instance may give URLs without a scheme. */
function withScheme(url: unknown): unknown {
  const text = asText(url);
  return text.startsWith('//') ? `https:${text}` : url;
}

function fields(result: Readonly<Record<string, unknown>>, type: SearchType, nowMs: number): HitFields {
  const text = {
    title: result['title'],
    url: withScheme(result['url']),
    snippet: result['content'],
    publishedAt: isoDate(result['publishedDate'], nowMs) ?? isoDate(result['pubdate'], nowMs),
    source: asText(result['source']) || result['journal'],
  };
  if (type === 'academic') return { ...text, ...work(result) };
  if (type !== 'images') return text;
  const [, width, height] = RESOLUTION.exec(asText(result['resolution'])) ?? [];
  return {
    ...text,
    thumbnailUrl: withScheme(asText(result['thumbnail_src']) || result['thumbnail']),
    imageUrl: withScheme(result['img_src']),
    width,
    height,
  };
}

/** What an instance tells of a paper. */
function work(result: Readonly<Record<string, unknown>>): Partial<HitFields> {
  return {
    doi: result['doi'] ?? undefined,
    authors: result['authors'] ?? undefined,
    venue: result['journal'],
    openAccessUrl: withScheme(asText(result['pdf_url'])),
  };
}

export function searxng(settings: SearxngSettings): HttpEngine {
  const { url, apiKey, engines = [], language } = settings;
  const headers = { accept: 'application/json', ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}) };
  return {
    kind: 'searxng',
    documentation: 'https://docs.searxng.org/dev/search_api.html',
    types: ['web', 'news', 'images', 'academic'],
    filters: FILTERS,
    request(query, state): EngineRequest {
      const filters = appliedFilters(FILTERS, query);
      const parameters = new URLSearchParams({
        q: plainQuery(query.query),
        format: 'json',
        categories: CATEGORY[query.type],
        pageno: String(asCount(state) ?? firstPage(query)),
      });
      if (engines.length > 0) parameters.set('engines', engines.join(','));
      const locale = [filters.language ?? language, filters.country].filter(Boolean).join('-');
      if (locale !== '') parameters.set('language', locale);
      if (typeof filters.timeRange === 'string') parameters.set('time_range', filters.timeRange);
      if (filters.safeSearch !== undefined) parameters.set('safesearch', SAFE[filters.safeSearch]);
      return { method: 'GET', url: `${url}/search?${parameters.toString()}`, headers };
    },
    parse(response, context) {
      refuse(response);
      const answer = jsonBody(response);
      const list = listOf(answer, 'results');
      const silent = asArray(answer['unresponsive_engines']).length > 0;
      // Nothing was searched: an empty list would say that there is nothing to find.
      if (silent && list.length === 0 && context.state === undefined) throw new EngineError('unresponsive');
      const found = hits(list, (result) => fields(result, context.query.type, context.nowMs));
      const first = firstPage(context.query);
      const page = asCount(context.state) ?? first;
      const goesOn = list.length > 0 && page < first + LAST_PAGE - 1 && wantsMore(context, found);
      return {
        hits: found,
        ...(goesOn ? { next: page + 1 } : {}),
        ...(silent ? { note: 'some engines of the instance did not answer' } : {}),
      };
    },
  };
}
