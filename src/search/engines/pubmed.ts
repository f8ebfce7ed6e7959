// Engine kind `pubmed`: biomedical literature from NCBI's E-utilities. A page takes two requests: `esearch` names articles,
// `esummary` describes them. The members of a response tell which of the two it answers.

import { decodeHTML } from 'entities';
import { asArray, asCount, asText, jsonBody, listOf, nextOffset, refuse, span } from '../engine-response.ts';
import { isoDate } from '../dates.ts';
import {
  EngineError,
  type EngineFilters,
  type EnginePage,
  type EngineQuery,
  type EngineRequest,
  type EngineResponse,
  type HttpEngine,
  type ParseContext,
} from '../engine.ts';
import { appliedFilters, WORK_FILTERS } from '../filter-plan.ts';
import { type HitFields, hits } from '../hit.ts';
import { membersOf } from '../../net/json-object.ts';

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

/** Codes of MARC for languages in which journals of the index appear. */
const LANGUAGES: Readonly<Record<string, string>> = {
  ...{ ar: 'ara', bg: 'bul', cs: 'cze', da: 'dan', de: 'ger', el: 'gre', en: 'eng', es: 'spa', fa: 'per', fi: 'fin' },
  ...{ fr: 'fre', he: 'heb', hr: 'hrv', hu: 'hun', it: 'ita', ja: 'jpn', ko: 'kor', nb: 'nor', nl: 'dut', no: 'nor' },
  ...{ pl: 'pol', pt: 'por', ro: 'rum', ru: 'rus', sk: 'slo', sl: 'slv', sr: 'srp', sv: 'swe', tr: 'tur', uk: 'ukr' },
  ...{ zh: 'chi' },
};

const FILTERS: EngineFilters = { ...WORK_FILTERS, language: { values: Object.keys(LANGUAGES) } };

/** Days that the service needs where a range is open. */
const FIRST_DAY = '1700-01-01';
const LAST_DAY = '3000-12-31';

/** The parameters that name articles. */
function searchOf(query: EngineQuery, offset: number, count: number): Readonly<Record<string, string>> {
  const { language, timeRange } = appliedFilters(FILTERS, query);
  const { from = FIRST_DAY, to = LAST_DAY } = query.dates ?? {};
  const term = language === undefined ? query.query : `(${query.query}) AND ${LANGUAGES[language]}[la]`;
  const slashed = (day: string): string => day.replaceAll('-', '/');
  const dates = { datetype: 'pdat', mindate: slashed(from), maxdate: slashed(to) };
  return {
    ...{ term, retstart: String(offset), retmax: String(count), sort: 'relevance' },
    ...(timeRange === undefined ? {} : dates),
  };
}

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
    filters: FILTERS,
    request(query, state): EngineRequest {
      const { offset, count } = span(query, state, MAX_COUNT);
      const [step, own] = isNamed(state)
        ? ['esummary', { id: state.ids.join(',') }]
        : ['esearch', searchOf(query, offset, count)];
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
      if (search !== undefined) return readSearch(membersOf(search), context);
      if (summary !== undefined) return readSummary(membersOf(summary), context);
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

/** Articles that a response names, each once, and no more than were asked for: each may be long. */
function idsIn(response: Readonly<Record<string, unknown>>, name: string): string[] {
  const ids = listOf(response, name).slice(0, MAX_COUNT).map(asText);
  return [...new Set(ids)].filter((id) => /^\d+$/.test(id));
}

function readSearch(search: Readonly<Record<string, unknown>>, context: ParseContext): EnginePage {
  const error = asText(search['ERROR']);
  if (error !== '') throw new EngineError(/backend|fail/i.test(error) ? 'invalid' : 'rejected');
  const ids = idsIn(search, 'idlist');
  if (ids.length === 0) return { hits: [] };
  const { offset } = span(context.query, context.state, MAX_COUNT);
  const reachable = Math.min(asCount(search['count']) ?? REACHABLE, REACHABLE);
  return { hits: [], next: { ids, offset, reachable } satisfies Named };
}

function readSummary(summary: Readonly<Record<string, unknown>>, context: ParseContext): EnginePage {
  const articles = idsIn(summary, 'uids')
    .map((id) => ({ ...membersOf(summary[id]), id }))
    .filter((article) => !('error' in article));
  const found = hits(articles, (article) => ({
    // Markup in titles is escaped once more than the rest.
    title: decodeHTML(asText(article['title'])),
    url: `https://pubmed.ncbi.nlm.nih.gov/${asText(article['id'])}/`,
    snippet: citation(article),
    publishedAt: date(article['pubdate'], context.nowMs) ?? date(article['epubdate'], context.nowMs),
    source: asText(article['fulljournalname']) || article['source'],
    ...work(article),
  }));
  if (!isNamed(context.state)) return { hits: found };
  const { ids: named, offset, reachable } = context.state;
  const received = { results: named.length, hits: found, reachable };
  return { hits: found, next: nextOffset({ ...context, state: offset }, MAX_COUNT, received) };
}

function work(article: Readonly<Record<string, unknown>>): Partial<HitFields> {
  const ids = asArray(article['articleids']).map(membersOf);
  const idOf = (type: string): string => asText(ids.find((each) => each['idtype'] === type)?.['value']);
  const free = idOf('pmc').toUpperCase();
  return {
    doi: idOf('doi') || undefined,
    authors: asArray(article['authors']).map((author) => membersOf(author)['name']),
    venue: asText(article['fulljournalname']) || article['source'],
    // PubMed Central has the texts that are free.
    ...(/^PMC\d+$/.test(free) && { openAccessUrl: `https://pmc.ncbi.nlm.nih.gov/articles/${free}/` }),
  };
}

/** Summaries have no abstract: authors and publication distinguish articles of one title. */
function citation(article: Readonly<Record<string, unknown>>): string {
  const names = asArray(article['authors'])
    .map((author) => asText(membersOf(author)['name']))
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
