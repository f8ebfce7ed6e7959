// Engine kind `crossref`: works registered with Crossref. Abstracts are JATS XML; a date may be a year alone, or missing.

import { asArray, asCount, asText, jsonBody, listOf, nextOffset, refuse, span } from '../engine-response.ts';
import { isoDate } from '../dates.ts';
import { EngineError, type EnginePage, type EngineRequest, type HttpEngine } from '../engine.ts';
import { appliedDates, WORK_FILTERS } from '../filter-plan.ts';
import { encodePath, hits } from '../hit.ts';
import { membersOf } from '../../net/json-object.ts';

export interface CrossrefSettings {
  /** Mail address of the operator: puts requests into the polite pool with its higher limits. */
  readonly contact?: string;
  /** Base URL. Default `https://api.crossref.org`. */
  readonly url?: string;
}

const MAX_COUNT = 100;
/** The API refuses greater offsets. */
const REACHABLE = 10_000;
const FIELDS = 'DOI,URL,title,container-title,publisher,abstract,published,issued,author,is-referenced-by-count';

/** The service allows few requests at once; each response has the limits in its headers. */
export function crossref({ contact, url = 'https://api.crossref.org' }: CrossrefSettings = {}): HttpEngine {
  return {
    kind: 'crossref',
    documentation: 'https://www.crossref.org/documentation/retrieve-metadata/rest-api/',
    types: ['academic'],
    concurrency: contact === undefined ? 1 : 3,
    filters: WORK_FILTERS,
    request(query, state): EngineRequest {
      const { offset, count } = span(query, state, MAX_COUNT);
      const parameters = new URLSearchParams({
        query: query.query,
        rows: String(count),
        offset: String(offset),
        select: FIELDS,
      });
      const { from, to } = appliedDates(WORK_FILTERS, query);
      const published = [
        ...(from === undefined ? [] : [`from-pub-date:${from}`]),
        ...(to === undefined ? [] : [`until-pub-date:${to}`]),
      ];
      if (published.length > 0) parameters.set('filter', published.join(','));
      if (contact !== undefined) parameters.set('mailto', contact);
      return { method: 'GET', url: `${url}/works?${parameters.toString()}`, headers: { accept: 'application/json' } };
    },
    parse(response, context): EnginePage {
      refuse(response);
      const { status, message } = jsonBody(response);
      if (status === 'failed') throw new EngineError('rejected');
      const items = listOf(membersOf(message), 'items');
      const found = hits(items, (work) => ({
        title: asArray(work['title'])[0],
        url: asText(work['URL']) || doiUrl(asText(work['DOI'])),
        snippet: jatsText(asText(work['abstract'])),
        publishedAt: date(work['published'], context.nowMs) ?? date(work['issued'], context.nowMs),
        source: asText(asArray(work['container-title'])[0]) || work['publisher'],
        doi: work['DOI'] ?? undefined,
        authors: asArray(work['author']).map(nameOf),
        venue: asArray(work['container-title'])[0],
        citations: work['is-referenced-by-count'] ?? undefined,
      }));
      const reachable = Math.min(asCount(membersOf(message)['total-results']) ?? REACHABLE, REACHABLE);
      return {
        hits: found,
        next: nextOffset(context, MAX_COUNT, { results: items.length, hits: found, reachable }),
      };
    },
  };
}

/** Of a person, or of an organisation. */
function nameOf(author: unknown): string {
  const { family, given, name } = membersOf(author);
  return [asText(given), asText(family)].filter((part) => part !== '').join(' ') || asText(name);
}

function doiUrl(doi: string): string {
  return doi === '' ? '' : `https://doi.org/${encodePath(doi)}`;
}

/** `{ "date-parts": [[2026, 11, 21]] }`, as precise as it is; `[[null]]` is no date. */
function date(value: unknown, nowMs: number): string | undefined {
  return isoDate(membersOf(value)['date-parts'], nowMs);
}

/** JATS as HTML for `hit`: without the heading `Abstract`, and with inline elements that do not separate words. */
function jatsText(jats: string): string {
  return jats
    .replaceAll(/\s+/g, ' ')
    .replace(/<jats:title> ?(?:abstract|summary) ?[.:]? ?<\/jats:title>/gi, '')
    .replace(/<(\/?)jats:(?:bold|italic|monospace|sc|sub|sup|underline)(?=[\s/>])/gi, '<$1i');
}
