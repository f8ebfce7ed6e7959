// Engine kind `tavily`: web and news from Tavily. One request gives all results, at most 20. Its image lists have neither
// page nor size and are not used. Statuses 432 and 433 mean the limits of the plan and of pay-as-you-go.

import { jsonBody, listOf, refuse } from '../engine-response.ts';
import { isoDate } from '../dates.ts';
import { EngineError, type EngineFilters, type EngineQuery, type HttpEngine } from '../engine.ts';
import { appliedFilters } from '../filter-plan.ts';
import { hits, siteOf } from '../hit.ts';

export interface TavilySettings {
  readonly apiKey: string;
  /** Base URL; default `https://api.tavily.com`. */
  readonly url?: string;
  /** `basic` (default, one credit) or `advanced` (two). */
  readonly depth?: string;
}

const MAX_RESULTS = 20;

/** Countries by the names that the API has for them, where these are the English ones. */
const COUNTRIES =
  'AE AR AT AU BE BG BR CA CH CL CN CO DE DK EE EG ES FI FR GB GR HR HU ID IE IL IN IS IT JP KE KR LK LT LU LV MA MX MY NG NL NO NZ PE PH PK PL PT RO RS RU SA SE SG SI SK TH TN TW UA US UY VN ZA'.split(
    ' ',
  );
const NAMES = new Intl.DisplayNames(['en'], { type: 'region' });

const FILTERS: EngineFilters = {
  timeRange: {},
  includeDomains: {},
  excludeDomains: {},
  country: { types: ['web'], values: COUNTRIES, prefers: true },
};

/** The members for the filters of a query. */
function filtersOf(query: EngineQuery): Readonly<Record<string, unknown>> {
  const { country, excludeDomains, includeDomains, timeRange } = appliedFilters(FILTERS, query);
  const { from, to } = query.dates ?? {};
  const dates = { ...(from !== undefined && { start_date: from }), ...(to !== undefined && { end_date: to }) };
  return {
    ...(typeof timeRange === 'string' ? { time_range: timeRange } : timeRange === undefined ? {} : dates),
    ...(includeDomains !== undefined && { include_domains: includeDomains }),
    ...(excludeDomains !== undefined && { exclude_domains: excludeDomains }),
    ...(country !== undefined && { country: NAMES.of(country)?.toLowerCase() }),
  };
}

export function tavily(settings: TavilySettings): HttpEngine {
  const { apiKey, url = 'https://api.tavily.com', depth = 'basic' } = settings;
  const headers = {
    accept: 'application/json',
    'content-type': 'application/json',
    authorization: `Bearer ${apiKey}`,
  };
  return {
    kind: 'tavily',
    documentation: 'https://docs.tavily.com',
    types: ['web', 'news'],
    filters: FILTERS,
    request: (query) => ({
      method: 'POST',
      url: `${url}/search`,
      headers,
      body: JSON.stringify({
        query: query.query,
        topic: query.type === 'news' ? 'news' : 'general',
        search_depth: depth,
        max_results: Math.min(MAX_RESULTS, query.maxResults),
        ...filtersOf(query),
      }),
    }),
    parse(response, { query, nowMs }) {
      if (response.status === 432 || response.status === 433) throw new EngineError('quota');
      refuse(response);
      const found = hits(listOf(jsonBody(response), 'results'), (result) => ({
        title: result['title'],
        url: result['url'],
        snippet: result['content'],
        publishedAt: isoDate(result['published_date'], nowMs),
        source: query.type === 'news' ? siteOf(result['url']) : undefined,
      }));
      return { hits: found };
    },
  };
}
