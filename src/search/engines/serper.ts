// Engine kind `serper`: Google results for web, news and images, Google Scholar for academic searches. The service may give
// ten results a page whatever number is requested, so only a page of fewer counts as the last.

import { asCount, asText, jsonBody, listOf, refuse, wantsMore } from '../engine-response.ts';
import { isoDate } from '../dates.ts';
import { EngineError, type EngineRequest, type HttpEngine, type SearchType } from '../engine.ts';
import { type HitFields, hits } from '../hit.ts';

export interface SerperSettings {
  readonly apiKey?: string;
  /** Base URL; default `https://google.serper.dev`. */
  readonly url?: string;
  /** Country of the search, two letters. */
  readonly country?: string;
  /** Language of the search, as `en`. */
  readonly language?: string;
}

type Entry = Readonly<Record<string, unknown>>;

interface Endpoint {
  readonly path: string;
  /** Member of the answer that holds the results. */
  readonly list: string;
  readonly fields: (entry: Entry, nowMs: number) => HitFields;
}

/** `A Author, B Author - Journal of Things, 2017 - publisher.example`: the name between the authors and the year. */
function journal(publicationInfo: unknown): string {
  const parts = asText(publicationInfo).split(' - ');
  return (parts.length > 2 ? (parts[1] ?? '') : '').replace(/,? *\d{4}$/, '');
}

const ENDPOINTS: Readonly<Record<SearchType, Endpoint>> = {
  web: {
    path: 'search',
    list: 'organic',
    fields: (entry, nowMs) => ({
      title: entry['title'],
      url: entry['link'],
      snippet: entry['snippet'],
      publishedAt: isoDate(entry['date'], nowMs),
    }),
  },
  news: {
    path: 'news',
    list: 'news',
    fields: (entry, nowMs) => ({ ...ENDPOINTS.web.fields(entry, nowMs), source: entry['source'] }),
  },
  images: {
    path: 'images',
    list: 'images',
    fields: (entry) => ({
      title: entry['title'],
      url: entry['link'],
      source: asText(entry['source']) || entry['domain'],
      thumbnailUrl: entry['thumbnailUrl'],
      imageUrl: entry['imageUrl'],
      width: entry['imageWidth'],
      height: entry['imageHeight'],
    }),
  },
  academic: {
    path: 'scholar',
    list: 'organic',
    fields: (entry, nowMs) => ({
      title: entry['title'],
      url: asText(entry['link']) || entry['pdfUrl'],
      snippet: entry['snippet'],
      publishedAt: isoDate(entry['year'], nowMs),
      source: journal(entry['publicationInfo']),
    }),
  },
};

const SMALLEST_PAGE = 10;
const LAST_PAGE = 10;

/** Serper. Throws when `apiKey` is missing. */
export function serper(settings: SerperSettings): HttpEngine {
  const { apiKey, url = 'https://google.serper.dev', country, language } = settings;
  if (!apiKey) throw new Error('needs apiKey');
  const headers = { accept: 'application/json', 'content-type': 'application/json', 'x-api-key': apiKey };
  return {
    kind: 'serper',
    documentation: 'https://serper.dev',
    types: ['web', 'news', 'images', 'academic'],
    request({ query, type, maxResults }, state): EngineRequest {
      const body = {
        q: query,
        num: Math.max(SMALLEST_PAGE, maxResults),
        page: asCount(state) ?? 1,
        ...(country ? { gl: country } : {}),
        ...(language ? { hl: language } : {}),
      };
      return { method: 'POST', url: `${url}/${ENDPOINTS[type].path}`, headers, body: JSON.stringify(body) };
    },
    parse(response, context) {
      // A 400 with these words means that no credits are left, not that the query is bad.
      if (response.status === 400 && /credit/i.test(response.body.toString('utf8', 0, 1000))) {
        throw new EngineError('quota');
      }
      refuse(response);
      const { list: name, fields } = ENDPOINTS[context.query.type];
      const list = listOf(jsonBody(response), name);
      const found = hits(list, (entry) => fields(entry, context.nowMs));
      const page = asCount(context.state) ?? 1;
      const goesOn = list.length >= SMALLEST_PAGE && page < LAST_PAGE && wantsMore(context, found);
      return goesOn ? { hits: found, next: page + 1 } : { hits: found };
    },
  };
}
