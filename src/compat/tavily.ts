// Tavily's search and extract: their requests in terms of ours, and our answers in theirs.

import type { SearchAnswer } from '../search/index.ts';
import { dayBefore, type Fields, hostsOf, jsonFields, mistake, placeScore, present } from './fields.ts';
import { countryOf, languageOf } from './places.ts';
import type { ForeignPages, ForeignSearch, PageOutcome } from './foreign.ts';

const TOPICS: ReadonlyMap<string, string> = new Map([
  ['general', 'web'],
  ['news', 'news'],
  // Finance is a part of the web that no engine of ours has apart.
  ['finance', 'web'],
]);

const TIME_RANGES: ReadonlyMap<string, string> = new Map(
  ['day', 'week', 'month', 'year'].flatMap((word) => [[word, word] as const, [word.charAt(0), word] as const]),
);

const FORMATS: ReadonlyMap<string, 'markdown' | 'text'> = new Map([
  ['markdown', 'markdown'],
  ['text', 'text'],
]);

/** Most days that `days` may reach back. */
const MOST_DAYS = 36_500;
/** Results of a request that names no number. */
const USUAL_RESULTS = 5;
const MOST_RESULTS = 100;
/** Results that may come with their page; the others have none. */
const MOST_PAGES = 10;
/** Most characters of a page. */
const MOST_CHARS = 100_000;

const NAMES = { time_range: 'start_date', 'time_range.from': 'start_date', 'time_range.to': 'end_date' };

/** How a search is to be printed. */
export interface TavilySearch extends ForeignSearch {
  readonly withUsage: boolean;
}

/** The key that clients before 2025 have in the body. */
export function tavilyKey(body: Buffer): string | undefined {
  try {
    return jsonFields(body).text('api_key');
  } catch {
    // The endpoint names what is wrong with the body.
    return undefined;
  }
}

/** Reads `POST /tavily/search`. Throws 422. */
export function readTavilySearch(body: Buffer, nowMs: number): TavilySearch {
  const fields = jsonFields(body);
  const query = fields.required('query');
  const limit = fields.integer('max_results', 0, MOST_RESULTS) ?? USUAL_RESULTS;
  const country = fields.text('country');
  const language = fields.text('language');
  const prefers = fields.text('include_domains_mode') === 'prefer';
  const raw = rawFormat(fields);
  const type = fields.word('topic', TOPICS);
  const results = Math.min(Math.max(limit, 1), MOST_PAGES);
  return {
    search: present({
      query,
      max_results: Math.max(limit, 1),
      search_type: type,
      time_range: timeRange(fields, type === 'news', nowMs),
      include_domains: prefers ? undefined : hostsOf(fields.texts('include_domains')),
      exclude_domains: hostsOf(fields.texts('exclude_domains')),
      country: country === undefined ? undefined : known('country', country, countryOf(country)),
      language: language === undefined ? undefined : known('language', language, languageOf(language)),
      safe_search: fields.flag('safe_search') ? 'strict' : undefined,
      content: raw === undefined ? undefined : { results, max_chars: MOST_CHARS, format: raw },
    }),
    limit,
    names: NAMES,
    withUsage: fields.flag('include_usage'),
  };
}

/** `include_raw_content`: a switch, or the format. */
function rawFormat(fields: Fields): 'markdown' | 'text' | undefined {
  const asked = fields.get('include_raw_content');
  if (typeof asked === 'string' && FORMATS.has(asked.toLowerCase())) return FORMATS.get(asked.toLowerCase());
  return fields.flag('include_raw_content') ? 'markdown' : undefined;
}

function known(field: string, text: string, code: string | undefined): string {
  if (code === undefined) throw mistake(field, `'${text.slice(0, 60)}' is no known ${field}`);
  return code;
}

/**
 * Dates, then words, then days: where a request has several, the more exact one counts. Days are for news, and ignored elsewhere, as
 * Tavily does: several clients send 3 or 7 of them with every search.
 */
function timeRange(fields: Fields, isNews: boolean, nowMs: number): unknown {
  const from = fields.text('start_date');
  const to = fields.text('end_date');
  if (from !== undefined || to !== undefined) return present({ from, to });
  const word = fields.word('time_range', TIME_RANGES);
  if (word !== undefined) return word;
  const days = fields.integer('days', 1, MOST_DAYS);
  return days === undefined || !isNews ? undefined : { from: dayBefore(nowMs, days) };
}

/** The answer of `POST /tavily/search`. */
export function printTavilySearch(
  { limit, search, withUsage }: TavilySearch,
  { meta, results }: SearchAnswer,
  requestId: string,
): object {
  const shown = results.slice(0, limit);
  return {
    query: search['query'],
    follow_up_questions: null,
    // There is no model that would write one.
    answer: null,
    // Pictures are results of another search.
    images: [],
    results: shown.map((result, place) => ({
      id: `${requestId}-${place + 1}`,
      url: result.url,
      title: result.title,
      content: result.snippet,
      score: placeScore(place),
      raw_content: result.content ?? null,
      ...(result.published_at !== undefined && { published_date: result.published_at }),
    })),
    response_time: seconds(meta.duration_ms),
    request_id: requestId,
    ...(withUsage && { usage: { credits: 1 } }),
  };
}

/** How extracted pages are to be printed. */
export interface TavilyExtract extends ForeignPages {
  /** As they were asked for. */
  readonly urls: readonly string[];
  readonly withImages: boolean;
  readonly withUsage: boolean;
}

/** Reads `POST /tavily/extract`. Throws 422. */
export function readTavilyExtract(body: Buffer): TavilyExtract {
  const fields = jsonFields(body);
  const urls = fields.texts('urls');
  if (urls === undefined) throw mistake('urls', 'Field required', 'missing');
  const format = fields.word('format', FORMATS) ?? 'markdown';
  const withImages = fields.flag('include_images');
  return {
    fetches: [present({ urls, format, images: withImages || undefined })],
    urls,
    withImages,
    withUsage: fields.flag('include_usage'),
  };
}

/** The answer of `POST /tavily/extract`; `pages` in the order of the request. */
export function printTavilyExtract(
  { urls, withImages, withUsage }: TavilyExtract,
  pages: readonly PageOutcome[],
  elapsedMs: number,
  requestId: string,
): object {
  const results: object[] = [];
  const failed: object[] = [];
  for (const [index, url] of urls.entries()) {
    const page = pages[index];
    if (page === undefined) continue;
    const { answer, error } = page;
    if (answer === null) failed.push({ url, error: error?.message ?? 'The page could not be read' });
    else {
      const images = withImages ? (answer.images ?? []).map((image) => image.url) : [];
      results.push({ url, title: answer.title, raw_content: answer.content, images });
    }
  }
  return {
    results,
    failed_results: failed,
    response_time: seconds(elapsedMs),
    request_id: requestId,
    ...(withUsage && { usage: { credits: results.length } }),
  };
}

function seconds(ms: number): number {
  return Math.round(ms / 10) / 100;
}
