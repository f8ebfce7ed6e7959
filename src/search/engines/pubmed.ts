// Engine kind `pubmed`: biomedical literature from NCBI's E-utilities. A page takes two requests: `esearch` names articles,
// `esummary` describes them. The members of a response tell which of the two it answers.

import { decodeHTML } from 'entities';
import { asArray, asCount, asRecord, asText, jsonBody, listOf, nextOffset, refuse, span } from '../engine-response.ts';
import { isoDate } from '../dates.ts';
import {
  EngineError,
  type EnginePage,
  type EngineRequest,
  type EngineResponse,
  type HttpEngine,
  type ParseContext,
} from '../engine.ts';
import { hits } from '../hit.ts';

export interface PubmedSettings {
  /** Raises the limit from three requests a second to ten. */
  readonly apiKey?: string;
  /** Mail address of the operator, as NCBI asks for. */
  readonly contact?: string;
  /** Base URL. Default `https://eutils.ncbi.nlm.nih.gov/entrez/eutils`. */
  readonly url?: string;
}

/** The articles of a page, to be described. An `esearch` is asked for with an offset instead, or undefined. */
interface Named {
  readonly ids: readonly string[];
  /** Of the first of them. */
  readonly offset: number;
  readonly reachable: number;
}

const MAX_COUNT = 100;
/** Last article that `esearch` reaches. */
const REACHABLE = 9999;

export function pubmed(settings: PubmedSettings = {}): HttpEngine {
  const { apiKey, contact, url = 'https://eutils.ncbi.nlm.nih.gov/entrez/eutils' } = settings;
  const common = {
    db: 'pubmed',
    retmode: 'json',
    tool: 'headrace',
    ...(contact === undefined ? {} : { email: contact }),
    ...(apiKey === undefined ? {} : { api_key: apiKey }),
  };
  return {
    kind: 'pubmed',
    documentation: 'https://www.ncbi.nlm.nih.gov/books/NBK25500/',
    types: ['academic'],
    rates: [{ requests: apiKey === undefined ? 3 : 10, perMs: 1000 }],
    request(query, state): EngineRequest {
      const { offset, count } = span(query, state, MAX_COUNT);
      const [step, own] = isNamed(state)
        ? ['esummary', { id: state.ids.join(',') }]
        : ['esearch', { term: query.query, retstart: String(offset), retmax: String(count), sort: 'relevance' }];
      const parameters = new URLSearchParams({ ...common, ...own });
      return {
        method: 'GET',
        url: `${url}/${step}.fcgi?${parameters.toString()}`,
        headers: { accept: 'application/json' },
      };
    },
    parse(response, context): EnginePage {
      refuseKey(response);
      refuse(response);
      const { esearchresult: search, result: summary, error } = jsonBody(response);
      if (search !== undefined) return readSearch(asRecord(search), context);
      if (summary !== undefined) return readSummary(asRecord(summary), context);
      throw new EngineError(/rate limit/i.test(asText(error)) ? 'rate limited' : 'invalid');
    },
  };
}

function isNamed(state: unknown): state is Named {
  return typeof state === 'object' && state !== null;
}

/** A bad key comes as 400, like a bad query. */
function refuseKey({ status, body }: EngineResponse): void {
  if (status === 400 && /"error"\s*:\s*"API key/i.test(body.toString('latin1', 0, 1024)))
    throw new EngineError('denied');
}

function readSearch(search: Readonly<Record<string, unknown>>, context: ParseContext): EnginePage {
  const error = asText(search['ERROR']);
  if (error !== '') throw new EngineError(/backend|fail/i.test(error) ? 'invalid' : 'rejected');
  const ids = listOf(search, 'idlist')
    .map(asText)
    .filter((id) => /^\d+$/.test(id));
  if (ids.length === 0) return { hits: [] };
  const { offset } = span(context.query, context.state, MAX_COUNT);
  const reachable = Math.min(asCount(search['count']) ?? REACHABLE, REACHABLE);
  return { hits: [], next: { ids, offset, reachable } satisfies Named };
}

function readSummary(summary: Readonly<Record<string, unknown>>, context: ParseContext): EnginePage {
  const ids = listOf(summary, 'uids')
    .map(asText)
    .filter((id) => /^\d+$/.test(id));
  const articles = ids.map((id) => ({ ...asRecord(summary[id]), id })).filter((article) => !('error' in article));
  const found = hits(articles, (article) => ({
    // Markup in titles is escaped once more than the rest.
    title: decodeHTML(asText(article['title'])),
    url: `https://pubmed.ncbi.nlm.nih.gov/${asText(article['id'])}/`,
    snippet: citation(article),
    publishedAt: date(article['pubdate'], context.nowMs) ?? date(article['epubdate'], context.nowMs),
    source: asText(article['fulljournalname']) || article['source'],
  }));
  if (!isNamed(context.state)) return { hits: found };
  const { ids: named, offset, reachable } = context.state;
  const received = { results: named.length, hits: found, reachable };
  return { hits: found, next: nextOffset({ ...context, state: offset }, MAX_COUNT, received) };
}

/** Summaries have no abstract: authors and publication distinguish articles of one title. */
function citation(article: Readonly<Record<string, unknown>>): string {
  const names = asArray(article['authors'])
    .map((author) => asText(asRecord(author)['name']))
    .filter((name) => name !== '');
  const authors = names.length > 3 ? `${names.slice(0, 3).join(', ')} et al` : names.join(', ');
  const place = [asText(article['source']), asText(article['pubdate'])].filter((part) => part !== '').join(' ');
  return [authors, place].filter((part) => part !== '').join('. ');
}

/** `2019 Nov 1`, `2019 Nov-Dec`, `2019 Winter`: as much of it as is a date. */
function date(value: unknown, nowMs: number): string | undefined {
  const [, year, month, day] = /^(\d{4})(?: ([A-Z][a-z]{2})\b(?: (\d{1,2})\b)?)?/.exec(asText(value)) ?? [];
  const written = [day, month, year].filter((part) => part !== undefined).join(' ');
  return isoDate(written, nowMs) ?? isoDate(year, nowMs);
}
