// Engine kind `mojeek`: web pages from Mojeek's own index. Errors come with status 200, as text in `response.status`.

import { asCount, asText, firstOf, jsonBody, listOf, refuse, wantsMore } from '../engine-response.ts';
import { isoDate } from '../dates.ts';
import { EngineError, type EngineFailure, type EngineFilters, type EngineRequest, type HttpEngine } from '../engine.ts';
import { appliedDates, appliedFilters } from '../filter-plan.ts';
import { hits } from '../hit.ts';
import { membersOf } from '../../net/json-object.ts';

export interface MojeekSettings {
  readonly apiKey: string;
  /** Base URL; default `https://api.mojeek.com`. */
  readonly url?: string;
  /** Language to prefer, as `EN`. */
  readonly language?: string;
}

const SMALLEST_PAGE = 10;
const MAX_PAGES = 10;

const FILTERS: EngineFilters = {
  timeRange: {},
  includeDomains: { most: 1 },
  language: { prefers: true },
  country: { prefers: true },
  safeSearch: {},
  page: {},
};

/** How much higher pages of the country are ranked, as the service recommends. */
const COUNTRY_BOOST = 10;

/** `20261121`, some days later. */
function compact(day: string, later = 0): string {
  return new Date(Date.parse(day) + later * 86_400_000).toISOString().slice(0, 10).replaceAll('-', '');
}

/** The first pattern that fits names the failure: a daily limit is a quota, any other limit is a rate. */
const FAILURES: readonly (readonly [RegExp, EngineFailure])[] = [
  [/daily|monthly|quota|credit/i, 'quota'],
  [/limit|too many/i, 'rate limited'],
  [/key|auth|denied|not allowed|permission/i, 'denied'],
  [/query|search term|parameter/i, 'rejected'],
];

function pageSize(maxResults: number): number {
  return Math.max(SMALLEST_PAGE, maxResults);
}

export function mojeek(settings: MojeekSettings): HttpEngine {
  const { apiKey, url = 'https://api.mojeek.com', language } = settings;
  const headers = { accept: 'application/json' };
  return {
    kind: 'mojeek',
    documentation: 'https://www.mojeek.com/support/api/search/',
    types: ['web'],
    filters: FILTERS,
    request(query, state): EngineRequest {
      const filters = appliedFilters(FILTERS, query);
      const parameters = new URLSearchParams({
        q: query.query,
        fmt: 'json',
        s: String(asCount(state) ?? firstOf(query) + 1),
        t: String(pageSize(query.maxResults)),
        date: '1',
        api_key: apiKey,
      });
      const { from, to } = appliedDates(FILTERS, query);
      if (from !== undefined) parameters.set('since', compact(from));
      // The service leaves that day out.
      if (to !== undefined) parameters.set('before', compact(to, 1));
      if (filters.includeDomains?.[0] !== undefined) parameters.set('site', filters.includeDomains[0]);
      const lang = filters.language?.toUpperCase() ?? language;
      if (lang) parameters.set('lb', lang);
      if (filters.country !== undefined) parameters.set('rb', filters.country);
      if (filters.country !== undefined) parameters.set('rbb', String(COUNTRY_BOOST));
      if (filters.safeSearch !== undefined) parameters.set('safe', filters.safeSearch === 'off' ? '0' : '1');
      return { method: 'GET', url: `${url}/search?${parameters.toString()}`, headers };
    },
    parse(response, context) {
      refuse(response);
      const body = membersOf(jsonBody(response)['response']);
      const status = asText(body['status']);
      if (status !== 'OK') throw new EngineError(FAILURES.find(([words]) => words.test(status))?.[1] ?? 'invalid');
      const list = listOf(body, 'results');
      const found = hits(list, (result) => ({
        title: result['title'],
        url: result['url'],
        snippet: result['desc'],
        publishedAt: isoDate(result['cdatetimestamp'], context.nowMs) ?? isoDate(result['date'], context.nowMs),
      }));
      const first = firstOf(context.query) + 1;
      const next = (asCount(context.state) ?? first) + list.length;
      const total = asCount(membersOf(body['head'])['results']) ?? 0;
      const last = Math.min(total, first - 1 + MAX_PAGES * pageSize(context.query.maxResults));
      const goesOn = list.length > 0 && next <= last && wantsMore(context, found);
      return goesOn ? { hits: found, next } : { hits: found };
    },
  };
}
