// Engine kind `searxng`: a SearXNG instance. Its JSON format is off by default: an instance without `json` in
// `search.formats` answers 403, which is reported as `access denied`. The instance decides how many results a page has.

import { asArray, asCount, asText, jsonBody, listOf, refuse, wantsMore } from '../engine-response.ts';
import { isoDate } from '../dates.ts';
import { EngineError, type EngineRequest, type HttpEngine, type SearchType } from '../engine.ts';
import { type HitFields, hits } from '../hit.ts';

export interface SearxngSettings {
  /** Base URL of the instance, without a slash at its end. */
  readonly url?: string;
  /** Sent as `authorization: Bearer`, for instances behind an authenticating proxy. */
  readonly apiKey?: string;
  /** Names of the instance's engines to ask; default those of the category. */
  readonly engines?: readonly string[];
  /** Language of the results, as `en` or `de-AT`; default the instance's. */
  readonly language?: string;
}

const CATEGORY: Readonly<Record<SearchType, string>> = {
  web: 'general',
  news: 'news',
  images: 'images',
  academic: 'science',
};

const LAST_PAGE = 10;

/** `1920 x 1080`, `1920×1080`. */
const RESOLUTION = /^(\d{1,6})\s*[x×]\s*(\d{1,6})/i;

/** Engines of an instance may give URLs without a scheme. */
function withScheme(url: unknown): unknown {
  const text = asText(url);
  return text.startsWith('//') ? `https:${text}` : url;
}

function fields(result: Readonly<Record<string, unknown>>, type: SearchType, nowMs: number): HitFields {
  const text = {
    title: result['title'],
    url: withScheme(result['url']),
    snippet: result['content'],
    publishedAt: isoDate(result['publishedDate'], nowMs) ?? isoDate(result['pubdate'], nowMs),
    source: asText(result['source']) || result['journal'],
  };
  if (type !== 'images') return text;
  const [, width, height] = RESOLUTION.exec(asText(result['resolution'])) ?? [];
  return {
    ...text,
    thumbnailUrl: withScheme(asText(result['thumbnail_src']) || result['thumbnail']),
    imageUrl: withScheme(result['img_src']),
    width,
    height,
  };
}

/** A SearXNG instance. Throws when `url` is missing. */
export function searxng(settings: SearxngSettings): HttpEngine {
  const { url, apiKey, engines = [], language } = settings;
  if (!url) throw new Error('needs url');
  const headers = { accept: 'application/json', ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}) };
  return {
    kind: 'searxng',
    documentation: 'https://docs.searxng.org/dev/search_api.html',
    types: ['web', 'news', 'images', 'academic'],
    request({ query, type }, state): EngineRequest {
      const parameters = new URLSearchParams({
        q: query,
        format: 'json',
        categories: CATEGORY[type],
        pageno: String(asCount(state) ?? 1),
      });
      if (engines.length > 0) parameters.set('engines', engines.join(','));
      if (language) parameters.set('language', language);
      return { method: 'GET', url: `${url}/search?${parameters.toString()}`, headers };
    },
    parse(response, context) {
      refuse(response);
      const answer = jsonBody(response);
      const list = listOf(answer, 'results');
      const silent = asArray(answer['unresponsive_engines']).length > 0;
      // Nothing was searched: an empty list would say that there is nothing to find.
      if (silent && list.length === 0 && context.state === undefined) throw new EngineError('unresponsive');
      const found = hits(list, (result) => fields(result, context.query.type, context.nowMs));
      const page = asCount(context.state) ?? 1;
      const goesOn = list.length > 0 && page < LAST_PAGE && wantsMore(context, found);
      return {
        hits: found,
        ...(goesOn ? { next: page + 1 } : {}),
        ...(silent ? { note: 'some engines of the instance did not answer' } : {}),
      };
    },
  };
}
