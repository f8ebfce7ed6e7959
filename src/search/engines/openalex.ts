// Engine kind `openalex`: scholarly works from OpenAlex. Abstracts come as an inverted index, from which the text is rebuilt.

import {
  asArray,
  asCount,
  asText,
  jsonBody,
  listOf,
  nextOffset,
  refuse,
  retryAfter,
  span,
} from '../engine-response.ts';
import { isoDate } from '../dates.ts';
import {
  EngineError,
  type EngineFilters,
  type EnginePage,
  type EngineRequest,
  type EngineResponse,
  type HttpEngine,
} from '../engine.ts';
import { appliedDates, appliedFilters, WORK_FILTERS } from '../filter-plan.ts';
import { hits } from '../hit.ts';
import { membersOf } from '../../net/json-object.ts';

export interface OpenalexSettings {
  /** Without a key about ten searches a day are free. */
  readonly apiKey?: string;
  /** Base URL. Default `https://api.openalex.org`. */
  readonly url?: string;
}

const MAX_COUNT = 100;
/** Last result that pages reach; only cursors go further. */
const REACHABLE = 10_000;
const FIELDS =
  'id,doi,display_name,publication_date,publication_year,primary_location,abstract_inverted_index,authorships,cited_by_count,open_access';

const FILTERS: EngineFilters = { ...WORK_FILTERS, language: {} };
/** Words of an abstract; the longest real ones have a few thousand. */
const MAX_WORDS = 5000;
/** Of all of them: a single word may be placed thousands of times. */
const MAX_CHARACTERS = 100_000;

export function openalex({ apiKey, url = 'https://api.openalex.org' }: OpenalexSettings = {}): HttpEngine {
  return {
    kind: 'openalex',
    documentation: 'https://docs.openalex.org/api-entities/works/search-works',
    types: ['academic'],
    filters: FILTERS,
    request(query, state): EngineRequest {
      const { offset, count } = span(query, state, MAX_COUNT);
      const parameters = new URLSearchParams({
        search: query.query,
        page: String(1 + Math.floor(offset / count)),
        'per-page': String(count),
        select: FIELDS,
      });
      const { language } = appliedFilters(FILTERS, query);
      const { from, to } = appliedDates(FILTERS, query);
      const filters = [
        ...(from === undefined ? [] : [`from_publication_date:${from}`]),
        ...(to === undefined ? [] : [`to_publication_date:${to}`]),
        ...(language === undefined ? [] : [`language:${language}`]),
      ];
      if (filters.length > 0) parameters.set('filter', filters.join(','));
      if (apiKey !== undefined) parameters.set('api_key', apiKey);
      return { method: 'GET', url: `${url}/works?${parameters.toString()}`, headers: { accept: 'application/json' } };
    },
    parse(response, context): EnginePage {
      refuseSpent(response);
      refuse(response);
      const body = jsonBody(response);
      const results = listOf(body, 'results');
      const found = hits(results, (work) => {
        const location = membersOf(work['primary_location']);
        return {
          title: work['display_name'],
          url: asText(work['doi']) || asText(location['landing_page_url']) || work['id'],
          snippet: abstract(work['abstract_inverted_index']),
          publishedAt: isoDate(work['publication_date'], context.nowMs),
          source: membersOf(location['source'])['display_name'],
          doi: work['doi'] ?? undefined,
          authors: asArray(work['authorships']).map((each) => membersOf(membersOf(each)['author'])['display_name']),
          year: work['publication_year'],
          venue: membersOf(location['source'])['display_name'],
          citations: work['cited_by_count'] ?? undefined,
          openAccessUrl: membersOf(work['open_access'])['oa_url'],
        };
      });
      const reachable = Math.min(asCount(membersOf(body['meta'])['count']) ?? REACHABLE, REACHABLE);
      return {
        hits: found,
        next: nextOffset(context, MAX_COUNT, { results: results.length, hits: found, reachable }),
      };
    },
  };
}

/** A 429 with fewer credits left than a search costs means the day's quota, not the rate. */
function refuseSpent(response: EngineResponse): void {
  const remaining = asCount(response.headers['x-ratelimit-remaining']);
  const required = asCount(response.headers['x-ratelimit-credits-required']) ?? 1;
  if (response.status !== 429 || remaining === undefined || remaining >= required) return;
  // What is left is of no use: the day is used up.
  const headers = { ...response.headers, 'x-ratelimit-remaining': '0' };
  throw new EngineError('quota', { retryAfterMs: retryAfter({ ...response, headers }) });
}

/** The text of `{ word: [positions] }`. */
function abstract(value: unknown): string {
  const index = membersOf(value);
  const placed: [position: number, word: string][] = [];
  let characters = 0;
  for (const word of Object.keys(index)) {
    for (const position of asArray(index[word])) {
      if (placed.length === MAX_WORDS || characters > MAX_CHARACTERS) break;
      if (typeof position !== 'number') continue;
      placed.push([position, word]);
      characters += word.length;
    }
  }
  placed.sort(([a], [b]) => a - b);
  return placed.map(([, word]) => word).join(' ');
}
