// Engine kind `tavily`: web and news from Tavily. One request gives all results, at most 20. Its image lists have neither
// page nor size and are not used. Statuses 432 and 433 mean the limits of the plan and of pay-as-you-go.

import { jsonBody, listOf, refuse } from '../engine-response.ts';
import { isoDate } from '../dates.ts';
import { EngineError, type HttpEngine } from '../engine.ts';
import { hits, siteOf } from '../hit.ts';

export interface TavilySettings {
  readonly apiKey?: string;
  /** Base URL; default `https://api.tavily.com`. */
  readonly url?: string;
  /** `basic` (default, one credit) or `advanced` (two). */
  readonly depth?: string;
}

const MAX_RESULTS = 20;

/** Tavily. Throws when `apiKey` is missing. */
export function tavily(settings: TavilySettings): HttpEngine {
  const { apiKey, url = 'https://api.tavily.com', depth = 'basic' } = settings;
  if (!apiKey) throw new Error('needs apiKey');
  const headers = {
    accept: 'application/json',
    'content-type': 'application/json',
    authorization: `Bearer ${apiKey}`,
  };
  return {
    kind: 'tavily',
    documentation: 'https://docs.tavily.com',
    types: ['web', 'news'],
    request: ({ query, type, maxResults }) => ({
      method: 'POST',
      url: `${url}/search`,
      headers,
      body: JSON.stringify({
        query,
        topic: type === 'news' ? 'news' : 'general',
        search_depth: depth,
        max_results: Math.min(MAX_RESULTS, maxResults),
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
