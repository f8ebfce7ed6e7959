// Firecrawl's scrape and search, versions 1 and 2: their requests in terms of ours, and our answers in theirs.

import type { PageAnswer } from '../fetch/index.ts';
import type { SearchAnswer, SearchResult } from '../search/index.ts';
import { type Fields, hostsOf, jsonFields, mistake, present, withScheme } from './fields.ts';
import type { ForeignPages, ForeignSearch, PageOutcome } from './foreign.ts';
import { countryOf, languageOf } from './places.ts';

export type FirecrawlVersion = 1 | 2;

/** Forms of a page that can be had. */
const FORMATS = ['markdown', 'html', 'links', 'images'] as const;
type Format = (typeof FORMATS)[number];

/** Asked for beside Markdown by LibreChat, which reads it where a page has no other text. */
const RAW = 'rawHtml';

/** Options that change what is answered or promise something, and that the gateway does not have. */
const UNSUPPORTED: Readonly<Record<string, string>> = {
  actions: 'the gateway does not act on pages',
  headers: 'pages are fetched with the headers of the gateway',
  includeTags: 'the gateway finds the main content itself',
  excludeTags: 'the gateway finds the main content itself',
  jsonOptions: 'the gateway extracts no data',
  extract: 'the gateway extracts no data',
  agent: 'the gateway runs no agent',
  changeTrackingOptions: 'the gateway does not compare pages',
  zeroDataRetention: 'pages may be kept in the cache; see fetch.cacheTtl',
  lockdown: 'the gateway fetches pages that are not in its cache',
  redactPII: 'the gateway does not change the text of pages',
  checkPromptInjection: 'the gateway does not judge the text of pages',
  threatProtection: 'the gateway does not judge pages',
  profile: 'the gateway keeps no browser profiles',
  enterprise: 'searches go to the engines that the gateway is set up with',
  filter: 'use operators in the query, or includeDomains',
};

/** A page that is asked for. */
export interface FirecrawlScrape extends ForeignPages {
  readonly url: string;
  /** Texts that are asked for. */
  readonly texts: readonly ('markdown' | 'html')[];
  readonly formats: ReadonlySet<Format | typeof RAW>;
}

/** Reads `POST /v1/scrape` and `/v2/scrape`. Throws 422. */
export function readFirecrawlScrape(body: Buffer): FirecrawlScrape {
  const fields = jsonFields(body);
  const url = withScheme('http', fields.required('url'));
  fields.refuse(UNSUPPORTED);
  const formats = new Set(namesOf(fields, 'formats', FORMATS, RAW) ?? (['markdown'] as const));
  const texts = (['markdown', 'html'] as const).filter((each) => formats.has(each));
  const maxAge = fields.integer('maxAge', 0, Number.MAX_SAFE_INTEGER);
  const page = present({
    url,
    format: texts[0] ?? 'markdown',
    max_age: maxAge === undefined ? undefined : Math.min(Math.floor(maxAge / 1000), 31_536_000),
    include: ['metadata'],
    links: formats.has('links') || undefined,
    images: formats.has('images') || undefined,
  });
  return { url, fetches: [page], alsoHtml: texts.length > 1, texts, formats };
}

/** The answer of a scrape. */
export function printFirecrawlScrape(
  { formats, texts, url }: FirecrawlScrape,
  [page]: readonly PageOutcome[],
  requestId: string,
): object {
  const answer = page?.answer as PageAnswer;
  const { content, html = '', images = [], links = [] } = answer;
  return {
    success: true,
    data: {
      ...Object.fromEntries(texts.map((format, index) => [format, index === 0 ? content : html])),
      ...(formats.has('links') && { links: [...new Set(links.map((link) => link.url))] }),
      ...(formats.has('images') && { images: [...new Set(images.map((image) => image.url))] }),
      ...(formats.has(RAW) && { warning: `${RAW} is left out: the gateway has clean HTML, as the format html` }),
      metadata: metadataOf(answer, url, requestId, page?.cached === true),
    },
  };
}

function metadataOf(page: PageAnswer, url: string, id: string, cached: boolean): object {
  const { metadata = {} } = page;
  return present({
    title: page.title,
    description: metadata.description,
    language: metadata.language,
    publishedTime: metadata.published,
    modifiedTime: metadata.modified,
    author: metadata.author,
    ogSiteName: metadata.site_name,
    ogImage: metadata.image,
    sourceURL: url,
    url: page.url,
    // Pages of another status are errors.
    statusCode: 200,
    scrapeId: id,
    cacheState: cached ? 'hit' : 'miss',
    creditsUsed: 1,
  });
}

/** A kind of results. */
type Source = (typeof SOURCES)[number];

/** A search that is asked for. */
export interface FirecrawlSearch extends ForeignSearch {
  readonly version: FirecrawlVersion;
  readonly source: Source;
}

const SOURCES = ['web', 'news', 'images'] as const;
/** Tools for the query, which the gateway has none of. Its MCP server asks for them beside the web. */
const TOOLS = 'alexandria';
/** Results of a request that names no number. */
const USUAL_RESULTS = { 1: 5, 2: 10 } as const;
const MOST_RESULTS = 100;
/** Results that may come with their page; the others have none. */
const MOST_PAGES = 10;
/** Most characters of a page. */
const MOST_CHARS = 100_000;

const NAMES = { include_domains: 'includeDomains', exclude_domains: 'excludeDomains', time_range: 'tbs' };

/** Reads `POST /v1/search` and `/v2/search`. Throws 422. */
export function readFirecrawlSearch(version: FirecrawlVersion, body: Buffer): FirecrawlSearch {
  const fields = jsonFields(body);
  const query = fields.required('query');
  fields.refuse(UNSUPPORTED);
  const limit = fields.integer('limit', 1, MOST_RESULTS) ?? USUAL_RESULTS[version];
  const sources = namesOf(fields, 'sources', SOURCES, TOOLS)?.filter((each) => each !== TOOLS);
  const source = one('sources', sources) ?? 'web';
  const category = one('categories', namesOf(fields, 'categories', ['github', 'research']));
  if (category === 'research' && source !== 'web') throw mistake('categories', 'research is searched for web alone');
  const hosts = hostsOf(fields.texts('includeDomains'));
  const format = contentFormat(fields.object('scrapeOptions'));
  return {
    search: present({
      query,
      max_results: limit,
      search_type: category === 'research' ? 'academic' : source,
      time_range: timeRange(fields.text('tbs')),
      include_domains: category === 'github' ? [...(hosts ?? []), 'github.com'] : hosts,
      exclude_domains: hostsOf(fields.texts('excludeDomains')),
      country: countryFrom(fields),
      language: languageFrom(fields.text('lang')),
      content: format && { results: Math.min(limit, MOST_PAGES), max_chars: MOST_CHARS, format },
    }),
    limit,
    names: NAMES,
    version,
    source,
  };
}

/** Words, or objects with a `type`. `beside`: one that is taken beside the known ones, though there is none here. */
function namesOf<Known extends string, Beside extends string = never>(
  fields: Fields,
  name: string,
  known: readonly Known[],
  beside?: Beside,
): (Known | Beside)[] | undefined {
  const list = fields.get(name);
  if (list === undefined) return undefined;
  if (!Array.isArray(list)) throw mistake(name, 'Input should be a list', 'list_type');
  const names = list.map((each: unknown) =>
    typeof each === 'object' && each !== null ? (each as { type?: unknown }).type : each,
  );
  const words: readonly unknown[] = names.some((each) => each !== beside) ? [...known, beside] : known;
  for (const each of names) {
    if (typeof each !== 'string' || !words.includes(each)) {
      const given = typeof each === 'string' ? each.slice(0, 40) : typeof each;
      throw mistake(name, `not supported: ${given}; there are ${known.join(', ')}`);
    }
  }
  return names.length === 0 ? undefined : [...new Set(names as (Known | Beside)[])];
}

function one<Name extends string>(field: string, names: readonly Name[] | undefined): Name | undefined {
  if (names !== undefined && names.length > 1)
    throw mistake(field, 'one at a time is searched here: send a search for each');
  return names?.[0];
}

function contentFormat(options: Fields | undefined): 'markdown' | undefined {
  if (options === undefined) return undefined;
  options.refuse(UNSUPPORTED);
  const formats = namesOf(options, 'formats', ['markdown']);
  return formats === undefined ? undefined : 'markdown';
}

const PERIODS: ReadonlyMap<string, string> = new Map([
  ['h', 'day'],
  ['d', 'day'],
  ['w', 'week'],
  ['m', 'month'],
  ['y', 'year'],
]);

/** `qdr:d`, `cdr:1,cd_min:1/31/2026,cd_max:…`, and `sbd:1`, which has no effect. */
function timeRange(tbs: string | undefined): unknown {
  if (tbs === undefined) return undefined;
  const range: { from?: string; to?: string } = {};
  let period: string | undefined;
  for (const part of tbs.split(',')) {
    const [name = '', value = ''] = part.trim().split(':', 2);
    if (name === 'qdr' && PERIODS.has(value)) period = PERIODS.get(value);
    else if (name === 'cd_min') range.from = dayOf(value);
    else if (name === 'cd_max') range.to = dayOf(value);
    else if (name !== 'cdr' && name !== 'sbd') throw badTbs(part);
  }
  return range.from !== undefined || range.to !== undefined ? range : period;
}

/** `1/31/2026`. */
function dayOf(text: string): string {
  const match = /^(\d{1,2})\/(\d{1,2})\/(\d{4})$/.exec(text);
  if (match === null) throw badTbs(text);
  const [, month = '', day = '', year = ''] = match;
  return `${year}-${month.padStart(2, '0')}-${day.padStart(2, '0')}`;
}

function badTbs(text: string): Error {
  return mistake(
    'tbs',
    `'${text.slice(0, 40)}' should be qdr:h, qdr:d, qdr:w, qdr:m, qdr:y, or cdr:1,cd_min:1/31/2026,cd_max:…`,
  );
}

/** `country`, else the last part of `location` where that is a country. */
function countryFrom(fields: Fields): string | undefined {
  const country = fields.text('country');
  if (country !== undefined) {
    const code = countryOf(country);
    if (code === undefined) throw mistake('country', `'${country.slice(0, 60)}' is no known country`);
    return code;
  }
  const name = fields.text('location')?.split(',').at(-1) ?? '';
  // Two letters there are a state of the United States as often as a country.
  return name.trim().length > 2 ? countryOf(name) : undefined;
}

function languageFrom(lang: string | undefined): string | undefined {
  if (lang === undefined) return undefined;
  const code = languageOf(lang.split(/[-_]/, 1)[0] ?? '');
  if (code === undefined) throw mistake('lang', `'${lang.slice(0, 60)}' is no known language`);
  return code;
}

/** The answer of a search. */
export function printFirecrawlSearch(
  { limit, source, version }: FirecrawlSearch,
  { results }: SearchAnswer,
  requestId: string,
): object {
  const shown = results.slice(0, limit);
  const pages = shown.filter(({ content }) => content !== undefined).length;
  const data = shown.map((result, place) => resultOf(result, place, version === 1 ? 'web' : source));
  return {
    success: true,
    data: version === 1 ? data : { [source]: data },
    creditsUsed: 1 + pages,
    id: requestId,
  };
}

function resultOf(result: SearchResult, place: number, source: Source): object {
  const { content, content_error: failure, published_at: date, snippet, title, url } = result;
  const head = { title, url, position: place + 1 };
  if (source === 'images') {
    return present({ ...head, imageUrl: result.image_url, imageWidth: result.width, imageHeight: result.height });
  }
  const text = source === 'news' ? present({ snippet, date }) : { description: snippet };
  const metadata = present({
    title,
    description: snippet,
    url,
    sourceURL: url,
    statusCode: content === undefined ? undefined : 200,
    error: failure,
  });
  const page = content === undefined ? (failure === undefined ? {} : { metadata }) : { markdown: content, metadata };
  return { ...head, ...text, ...page };
}
