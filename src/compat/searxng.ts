// SearXNG's search: its parameters in terms of ours, and our answers as its JSON.

import type { SearchAnswer, SearchResult } from '../search/index.ts';
import type { ForeignSearch } from './foreign.ts';
import { type Fields, formFields, mistake, placeScore, present } from './fields.ts';
import { localeOf } from './places.ts';

const TYPES: ReadonlyMap<string, string> = new Map([
  ['general', 'web'],
  ['news', 'news'],
  ['images', 'images'],
  ['science', 'academic'],
]);
const CATEGORIES: ReadonlyMap<string, string> = new Map([...TYPES].map(([category, type]) => [type, category]));

const TIME_RANGES: ReadonlyMap<string, string> = new Map(['day', 'week', 'month', 'year'].map((word) => [word, word]));
const SAFE_SEARCH: ReadonlyMap<string, string> = new Map([
  ['0', 'off'],
  ['1', 'moderate'],
  ['2', 'strict'],
]);

/** Reads `/searxng/search`; `form` is the body of a POST. `engines`: those that may be named. Throws 422. */
export function readSearxng(query: string, form: string, engines: ReadonlySet<string>): ForeignSearch {
  const fields = formFields(query, form);
  const format = fields.text('format') ?? 'html';
  if (format !== 'json') throw mistake('format', `only format=json is served here, not ${format.slice(0, 20)}`);
  const { country, language } = localeOf(fields.text('language') ?? '');
  return {
    search: present({
      query: fields.required('q'),
      engines: enginesOf(fields, engines),
      search_type: typeOf(fields),
      time_range: fields.word('time_range', TIME_RANGES),
      safe_search: fields.word('safesearch', SAFE_SEARCH),
      page: fields.integer('pageno', 1, 10),
      language,
      country,
    }),
    limit: Infinity,
  };
}

/** Engines that are known here. Without one, the usual ones are asked, as SearXNG does. */
function enginesOf(fields: Fields, engines: ReadonlySet<string>): string[] | undefined {
  const named = [...new Set(listOf(fields, 'engines'))].filter((engine) => engines.has(engine));
  return named.length === 0 ? undefined : named;
}

/** The first category that there is here. */
function typeOf(fields: Fields): string | undefined {
  const categories = listOf(fields, 'categories');
  const type = categories.map((category) => TYPES.get(category)).find((each) => each !== undefined);
  if (type === undefined && categories.length > 0) {
    throw mistake('categories', `Input should be ${[...TYPES.keys()].join(', ')}`, 'literal_error');
  }
  return type;
}

function listOf(fields: Fields, name: string): string[] {
  const parts = fields.text(name)?.split(',') ?? [];
  return parts.map((part) => part.trim()).filter((part) => part !== '');
}

/** The answer as JSON of SearXNG. */
export function printSearxng({ search }: ForeignSearch, { meta, results }: SearchAnswer): object {
  return {
    query: search['query'],
    number_of_results: results.length,
    results: results.map(resultOf),
    answers: [],
    corrections: [],
    infoboxes: [],
    suggestions: [],
    // An engine that could not apply a filter has answered all the same.
    unresponsive_engines: meta.engine_errors
      .filter(({ engine }) => meta.engines_failed.includes(engine))
      .map(({ engine, reason }) => [engine, reason]),
  };
}

function resultOf(result: SearchResult, place: number): object {
  const { hash, hostname, pathname, port, protocol, search } = new URL(result.url);
  const isImage = result.search_type === 'images';
  return present({
    url: result.url,
    title: result.title,
    content: result.snippet,
    publishedDate: result.published_at ?? null,
    thumbnail: result.thumbnail_url ?? '',
    engine: result.engine,
    template: isImage ? 'images.html' : 'default.html',
    parsed_url: [
      protocol.slice(0, -1),
      port === '' ? hostname : `${hostname}:${port}`,
      pathname,
      '',
      search.slice(1),
      hash.slice(1),
    ],
    img_src: isImage ? (result.image_url ?? '') : '',
    ...(isImage && { thumbnail_src: result.thumbnail_url ?? '', resolution: resolutionOf(result) }),
    source: result.source,
    priority: '',
    engines: result.found_in,
    positions: [result.rank],
    score: placeScore(place),
    category: CATEGORIES.get(result.search_type),
  });
}

function resolutionOf({ height, width }: SearchResult): string | undefined {
  return width === undefined || height === undefined ? undefined : `${width} x ${height}`;
}

/** The key that a client sends as the password of `Authorization: Basic`, or as its user name without one. */
export function basicKey(authorization: string | undefined): string | undefined {
  const encoded = /^basic +([A-Za-z0-9+/_-]+={0,2}) *$/i.exec(authorization ?? '')?.[1];
  if (encoded === undefined) return undefined;
  const text = Buffer.from(encoded, 'base64').toString('utf8');
  const colon = text.indexOf(':');
  const [user, password] = colon < 0 ? [text, ''] : [text.slice(0, colon), text.slice(colon + 1)];
  return password === '' ? user : password;
}
