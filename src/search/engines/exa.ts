// Engine kind `exa`: web, and by category news and research papers, from Exa. One request gives up to 100 results. Snippets
// are the highlights of a result, or its text where it has none.

import { asArray, asText, jsonBody, listOf, refuse } from '../engine-response.ts';
import { isoDate } from '../dates.ts';
import type { EngineFilters, EngineQuery, HttpEngine, SearchType } from '../engine.ts';
import { appliedDates, appliedFilters } from '../filter-plan.ts';
import { hits, siteOf } from '../hit.ts';

export interface ExaSettings {
  readonly apiKey: string;
  /** Base URL; default `https://api.exa.ai`. */
  readonly url?: string;
  /** How Exa searches: `auto` (default), `fast`, `instant`, `deep`. */
  readonly mode?: string;
}

const CATEGORY: Readonly<Partial<Record<SearchType, string>>> = { news: 'news', academic: 'research paper' };

const PASSAGE_CHARACTERS = 500;

/** Far more than a hit takes. */
const MAX_AUTHORS_LENGTH = 20_000;

const FILTERS: EngineFilters = {
  timeRange: {},
  includeDomains: {},
  excludeDomains: {},
  country: { prefers: true },
  safeSearch: {},
};

/** The members for the filters of a query. The API takes one list of domains: the other one is applied to the hits. */
function filtersOf(query: EngineQuery): Readonly<Record<string, unknown>> {
  const { country, excludeDomains, includeDomains, safeSearch } = appliedFilters(FILTERS, query);
  const { from, to } = appliedDates(FILTERS, query);
  return {
    ...(from !== undefined && { startPublishedDate: `${from}T00:00:00.000Z` }),
    ...(to !== undefined && { endPublishedDate: `${to}T23:59:59.999Z` }),
    ...(includeDomains !== undefined ? { includeDomains } : excludeDomains !== undefined && { excludeDomains }),
    ...(country !== undefined && { userLocation: country }),
    ...(safeSearch !== undefined && { moderation: safeSearch !== 'off' }),
  };
}

/** Names in one text. A comma parts names only where each part has several words: `Lovelace, Ada` is one name. */
function authorsOf(author: unknown): readonly string[] | undefined {
  const text = asText(author).slice(0, MAX_AUTHORS_LENGTH);
  if (text === '') return undefined;
  if (text.includes(';')) return text.split(';');
  const names = text.split(',').map((name) => name.trim());
  return names.every((name) => /\S\s+\S/.test(name)) ? names : [text];
}

export function exa(settings: ExaSettings): HttpEngine {
  const { apiKey, url = 'https://api.exa.ai', mode = 'auto' } = settings;
  const headers = { accept: 'application/json', 'content-type': 'application/json', 'x-api-key': apiKey };
  return {
    kind: 'exa',
    documentation: 'https://docs.exa.ai/reference/search',
    types: ['web', 'news', 'academic'],
    filters: FILTERS,
    request(query) {
      const category = CATEGORY[query.type];
      const body = {
        query: query.query,
        type: mode,
        numResults: query.maxResults,
        ...(category === undefined ? {} : { category }),
        ...filtersOf(query),
        contents: { highlights: { maxCharacters: PASSAGE_CHARACTERS } },
      };
      return { method: 'POST', url: `${url}/search`, headers, body: JSON.stringify(body) };
    },
    parse(response, { query, nowMs }) {
      refuse(response);
      const found = hits(listOf(jsonBody(response), 'results'), (result) => ({
        title: result['title'],
        url: asText(result['url']) || result['id'],
        snippet: asArray(result['highlights']).map(asText).filter(Boolean).join(' … ') || result['text'],
        publishedAt: isoDate(result['publishedDate'], nowMs),
        source: query.type === 'news' ? siteOf(result['url']) : undefined,
        authors: query.type === 'academic' ? authorsOf(result['author']) : undefined,
      }));
      return { hits: found };
    },
  };
}
