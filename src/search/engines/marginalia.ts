// Engine kind `marginalia`: web pages of small, non-commercial sites. Refusals are plain text whose first word tells a
// used-up day (`quota`) from too many requests in a minute (`rate limited`).

import { asCount, jsonBody, listOf, refuse, retryAfter, startOf, wantsMore } from '../engine-response.ts';
import { EngineError, type EngineFilters, type EngineRequest, type HttpEngine } from '../engine.ts';
import { appliedFilters } from '../filter-plan.ts';
import { hits } from '../hit.ts';

export interface MarginaliaSettings {
  readonly apiKey: string;
  /** Base URL; default `https://api2.marginalia-search.com`. */
  readonly url?: string;
}

const SMALLEST_PAGE = 10;
const LAST_PAGE = 10;

const FILTERS: EngineFilters = { safeSearch: { prefers: true }, page: {} };

function pageSize(maxResults: number): number {
  return Math.max(SMALLEST_PAGE, maxResults);
}

export function marginalia(settings: MarginaliaSettings): HttpEngine {
  const { apiKey, url = 'https://api2.marginalia-search.com' } = settings;
  const headers = { accept: 'application/json', 'api-key': apiKey };
  return {
    kind: 'marginalia',
    documentation: 'https://about.marginalia-search.com/article/api/',
    types: ['web'],
    concurrency: 1,
    filters: FILTERS,
    request(query, state): EngineRequest {
      const size = pageSize(query.maxResults);
      const { safeSearch } = appliedFilters(FILTERS, query);
      const parameters = new URLSearchParams({
        query: query.query,
        count: String(size),
        page: String(asCount(state) ?? startOf(query, size).index + 1),
      });
      if (safeSearch !== undefined) parameters.set('nsfw', safeSearch === 'off' ? '0' : '1');
      return { method: 'GET', url: `${url}/search?${parameters.toString()}`, headers };
    },
    parse(response, context) {
      if (response.status === 429 && /^\s*daily/i.test(response.body.toString('utf8', 0, 100)))
        throw new EngineError('quota', { retryAfterMs: retryAfter(response) });
      refuse(response);
      const body = jsonBody(response);
      const list = listOf(body, 'results');
      const start = startOf(context.query, pageSize(context.query.maxResults));
      const found = hits(context.state === undefined ? list.slice(start.skip) : list, (result) => ({
        title: result['title'],
        url: result['url'],
        snippet: result['description'],
      }));
      const page = asCount(context.state) ?? start.index + 1;
      const last = Math.min(start.index + LAST_PAGE, asCount(body['pages']) ?? 1);
      const goesOn = list.length > 0 && page < last && wantsMore(context, found);
      return goesOn ? { hits: found, next: page + 1 } : { hits: found };
    },
  };
}
