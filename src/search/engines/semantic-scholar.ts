// Engine kind `semantic-scholar`: papers from the Semantic Scholar graph API, by relevance.

import { asArray, asCount, asText, jsonBody, listOf, nextOffset, refuse, span } from '../engine-response.ts';
import { isoDate } from '../dates.ts';
import { EngineError, type EnginePage, type EngineRequest, type HttpEngine } from '../engine.ts';
import { appliedDates, WORK_FILTERS } from '../filter-plan.ts';
import { encodePath, hits } from '../hit.ts';
import { membersOf } from '../../net/json-object.ts';

export interface SemanticScholarSettings {
  /** Requests without a key share one small quota with all other such clients, and are mostly answered 429. */
  readonly apiKey?: string;
  /** Base URL. Default `https://api.semanticscholar.org`. */
  readonly url?: string;
}

const MAX_COUNT = 100;
/** Last result of a search by relevance. */
const REACHABLE = 1000;
const FIELDS = 'title,url,abstract,year,publicationDate,venue,journal,externalIds,authors,citationCount,openAccessPdf';

/** A new key allows one request a second. */
export function semanticScholar(settings: SemanticScholarSettings = {}): HttpEngine {
  const { apiKey, url = 'https://api.semanticscholar.org' } = settings;
  return {
    kind: 'semantic-scholar',
    documentation: 'https://api.semanticscholar.org/api-docs/graph',
    types: ['academic'],
    concurrency: 1,
    rates: [{ requests: 1, perMs: 1000 }],
    filters: WORK_FILTERS,
    request(query, state): EngineRequest {
      const { offset, count } = span(query, state, MAX_COUNT);
      const parameters = new URLSearchParams({
        query: query.query,
        offset: String(offset),
        limit: String(count),
        fields: FIELDS,
      });
      const { from = '', to = '' } = appliedDates(WORK_FILTERS, query);
      if (from !== '' || to !== '') parameters.set('publicationDateOrYear', `${from}:${to}`);
      const key = apiKey === undefined ? {} : { 'x-api-key': apiKey };
      return {
        method: 'GET',
        url: `${url}/graph/v1/paper/search?${parameters.toString()}`,
        headers: { accept: 'application/json', ...key },
      };
    },
    parse(response, context): EnginePage {
      refuse(response);
      const body = jsonBody(response);
      const { total, code } = body;
      if (code === '429') throw new EngineError('rate limited');
      // Without any result the list is left out.
      if (body['data'] === undefined && total === 0) return { hits: [] };
      const data = listOf(body, 'data');
      const found = hits(data, (paper) => ({
        title: paper['title'],
        url: address(paper),
        snippet: paper['abstract'],
        publishedAt: isoDate(paper['publicationDate'] ?? paper['year'], context.nowMs),
        source: asText(paper['venue']) || membersOf(paper['journal'])['name'],
        doi: membersOf(paper['externalIds'])['DOI'] ?? undefined,
        authors: asArray(paper['authors']).map((author) => membersOf(author)['name']),
        year: paper['year'],
        venue: asText(paper['venue']) || membersOf(paper['journal'])['name'],
        citations: paper['citationCount'] ?? undefined,
        openAccessUrl: membersOf(paper['openAccessPdf'])['url'],
      }));
      const reachable = Math.min(asCount(total) ?? REACHABLE, REACHABLE);
      return {
        hits: found,
        next: nextOffset(context, MAX_COUNT, { results: data.length, hits: found, reachable }),
      };
    },
  };
}

/** The paper itself where it has an identifier that other engines know too, else its page at the service. */
function address(paper: Readonly<Record<string, unknown>>): string {
  const ids = membersOf(paper['externalIds']);
  if (asText(ids['DOI']) !== '') return `https://doi.org/${encodePath(asText(ids['DOI']))}`;
  if (asText(ids['ArXiv']) !== '') return `https://arxiv.org/abs/${encodePath(asText(ids['ArXiv']))}`;
  const id = asText(paper['paperId']);
  return asText(paper['url']) || (id === '' ? '' : `https://www.semanticscholar.org/paper/${encodePath(id)}`);
}
