// Engine kind `exa`: web, and by category news and research papers, from Exa. One request gives up to 100 results. Snippets
// are the highlights of a result, or its text where it has none.

import { asArray, asText, jsonBody, listOf, refuse } from '../engine-response.ts';
import { isoDate } from '../dates.ts';
import type { HttpEngine, SearchType } from '../engine.ts';
import { hits, siteOf } from '../hit.ts';

export interface ExaSettings {
  readonly apiKey?: string;
  /** Base URL; default `https://api.exa.ai`. */
  readonly url?: string;
  /** How Exa searches: `auto` (default), `fast`, `instant`, `deep`. */
  readonly mode?: string;
}

const CATEGORY: Readonly<Partial<Record<SearchType, string>>> = { news: 'news', academic: 'research paper' };

const PASSAGE_CHARACTERS = 500;

/** Exa. Throws when `apiKey` is missing. */
export function exa(settings: ExaSettings): HttpEngine {
  const { apiKey, url = 'https://api.exa.ai', mode = 'auto' } = settings;
  if (!apiKey) throw new Error('needs apiKey');
  const headers = { accept: 'application/json', 'content-type': 'application/json', 'x-api-key': apiKey };
  return {
    kind: 'exa',
    documentation: 'https://docs.exa.ai/reference/search',
    types: ['web', 'news', 'academic'],
    request({ query, type, maxResults }) {
      const category = CATEGORY[type];
      const body = {
        query,
        type: mode,
        numResults: maxResults,
        ...(category === undefined ? {} : { category }),
        contents: { highlights: { maxCharacters: PASSAGE_CHARACTERS } },
      };
      return { method: 'POST', url: `${url}/search`, headers, body: JSON.stringify(body) };
    },
    parse(response, { query, nowMs }) {
      refuse(response);
      const found = hits(listOf(jsonBody(response), 'results'), (result) => ({
        title: result['title'],
        url: asText(result['url']) || result['id'],
        snippet: asArray(result['highlights']).map(asText).filter(Boolean).join(' … ') || result['text'],
        publishedAt: isoDate(result['publishedDate'], nowMs),
        source: query.type === 'news' ? siteOf(result['url']) : undefined,
      }));
      return { hits: found };
    },
  };
}
