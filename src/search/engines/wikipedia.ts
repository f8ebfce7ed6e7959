// Engine kind `wikipedia`: articles of a Wikipedia or another MediaWiki, and images of Wikimedia Commons, from the action
// API. Its errors come with status 200.

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
import { appliedFilters } from '../filter-plan.ts';
import { encodePath, hits } from '../hit.ts';
import { membersOf } from '../../net/json-object.ts';

export interface WikipediaSettings {
  /** Language code of the Wikipedia. Default `en`. */
  readonly language?: string;
  /** How the operators of the wiki reach you: a mail address or a URL. Sent in `user-agent`; without it they may block. */
  readonly contact?: string;
  /** Base URL of the wiki with the articles. Default `https://LANGUAGE.wikipedia.org`. */
  readonly url?: string;
  /** Base URL of the wiki with the images. Default `https://commons.wikimedia.org`. */
  readonly imagesUrl?: string;
}

/** Languages of ISO 639-1 without a Wikipedia. */
const NO_WIKI = 'aa ae ho hz ii kj kr lu mh nd ng oj'.split(' ');
/** Wikipedias whose name is not the code of their language. */
const OTHER_NAMES: Readonly<Record<string, string>> = { nb: 'no' };

/** Images have no language; neither belongs to a country. A wiki of its own address has one language. */
function filtersOf(hasAddress: boolean): EngineFilters {
  const language = hasAddress ? {} : { language: { types: ['web'], except: NO_WIKI } as const };
  return { ...language, country: { moot: true }, page: {} };
}

const MAX_ARTICLES = 100;
/** Sizes and URLs of more files than this come in parts. */
const MAX_IMAGES = 50;
const THUMBNAIL_WIDTH = 320;
const COMMON = { action: 'query', format: 'json', formatversion: '2' };

/** One request at a time, as the API's etiquette asks. */
export function wikipedia(settings: WikipediaSettings = {}): HttpEngine {
  const { language = 'en', contact, imagesUrl = 'https://commons.wikimedia.org' } = settings;
  const filters = filtersOf(settings.url !== undefined);
  const urlFor = (query: EngineQuery): string => {
    const asked = appliedFilters(filters, query).language;
    const name = asked === undefined ? language : (OTHER_NAMES[asked] ?? asked);
    return settings.url ?? `https://${name}.wikipedia.org`;
  };
  const agent = contact === undefined ? 'headrace' : `headrace (${contact})`;
  return {
    kind: 'wikipedia',
    documentation: 'https://www.mediawiki.org/wiki/API:Search',
    types: ['web', 'images'],
    concurrency: 1,
    filters,
    request(query, state): EngineRequest {
      const parameters = query.type === 'images' ? imageParameters(query, state) : articleParameters(query, state);
      return {
        method: 'GET',
        url: `${query.type === 'images' ? imagesUrl : urlFor(query)}/w/api.php?${parameters.toString()}`,
        headers: { accept: 'application/json', 'user-agent': agent },
      };
    },
    parse(response, context): EnginePage {
      refuse(response);
      const body = jsonBody(response);
      if (body['error'] !== undefined) throw failure(asText(membersOf(body['error'])['code']), response);
      const { query } = context;
      return query.type === 'images' ? readImages(body, context) : readArticles(body, context, urlFor(query));
    },
  };
}

function articleParameters(query: EngineQuery, state: unknown): URLSearchParams {
  const { offset, count } = span(query, state, MAX_ARTICLES);
  return new URLSearchParams({
    ...COMMON,
    list: 'search',
    srsearch: query.query,
    srlimit: String(count),
    sroffset: String(offset),
    srprop: 'snippet',
  });
}

function imageParameters(query: EngineQuery, state: unknown): URLSearchParams {
  const { offset, count } = span(query, state, MAX_IMAGES);
  return new URLSearchParams({
    ...COMMON,
    generator: 'search',
    gsrnamespace: '6',
    gsrsearch: `filetype:bitmap|drawing ${query.query}`,
    gsrlimit: String(count),
    gsroffset: String(offset),
    prop: 'imageinfo',
    iiprop: 'url|size|extmetadata',
    iiextmetadatafilter: 'ImageDescription',
    iiurlwidth: String(THUMBNAIL_WIDTH),
  });
}

function readArticles(body: Readonly<Record<string, unknown>>, context: ParseContext, url: string): EnginePage {
  const search = listOf(membersOf(body['query']), 'search');
  const found = hits(search, (article) => {
    const title = asText(article['title']);
    return { title, url: title === '' ? '' : `${url}/wiki/${pagePath(title)}`, snippet: article['snippet'] };
  });
  const reachable = asCount(membersOf(body['continue'])['sroffset']) === undefined ? 0 : undefined;
  return {
    hits: found,
    next: nextOffset(context, MAX_ARTICLES, { results: search.length, hits: found, reachable }),
  };
}

function readImages(body: Readonly<Record<string, unknown>>, context: ParseContext): EnginePage {
  if (body['query'] === undefined && body['batchcomplete'] === undefined) throw new EngineError('invalid');
  const pages = asArray(membersOf(body['query'])['pages']).map(membersOf);
  const ranked = pages.toSorted((a, b) => (asCount(a['index']) ?? Infinity) - (asCount(b['index']) ?? Infinity));
  const found = hits(ranked, (page) => {
    const file = membersOf(asArray(page['imageinfo'])[0]);
    return {
      title: asText(page['title'])
        .replace(/^[^:]*:/, '')
        .replace(/\.[a-z0-9]{2,5}$/i, ''),
      url: file['descriptionurl'],
      snippet: membersOf(membersOf(file['extmetadata'])['ImageDescription'])['value'],
      imageUrl: file['url'],
      thumbnailUrl: file['thumburl'],
      width: file['width'],
      height: file['height'],
    };
  });
  const reachable = asCount(membersOf(body['continue'])['gsroffset']) === undefined ? 0 : undefined;
  return {
    hits: found,
    next: nextOffset(context, MAX_IMAGES, { results: pages.length, hits: found, reachable }),
  };
}

/** As the wiki itself writes its URLs: other engines find articles under those. */
function pagePath(title: string): string {
  const path = encodePath(title.replaceAll(' ', '_'));
  return path.replace(/%(?:3A|2C|3B|40|24)/g, decodeURIComponent).replaceAll("'", '%27');
}

/** The error codes of MediaWiki that are not about the query. */
function failure(code: string, response: EngineResponse): EngineError {
  if (/^(?:ratelimited|maxlag|cirrussearch-too-busy-error|concurrency-limit)/.test(code))
    return new EngineError('rate limited', { retryAfterMs: retryAfter(response) });
  if (/^(?:readapidenied|permissiondenied|blocked|autoblocked)/.test(code)) return new EngineError('denied');
  if (code === '' || /^internal_api_error|backend|readonly/.test(code)) return new EngineError('invalid');
  return new EngineError('rejected');
}
