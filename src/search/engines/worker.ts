// Search workers of one's own: `POST {url}/search` as the configuration contract describes it. The answer is JSON or
// msgpack, told apart by its first byte: a worker need not name its type right.

import { Unpackr } from 'msgpackr';
import { jsonBody, listOf, refuse } from '../answer.ts';
import { isoDate } from '../dates.ts';
import { EngineError, type EngineResponse, type HttpEngine, SEARCH_TYPES, type SearchType } from '../engine.ts';
import { hits } from '../hit.ts';

export interface WorkerSettings {
  /** Base URL, without a slash at its end. */
  readonly url?: string;
  /** Name of the engine the worker is asked for: the id of the engine in the configuration. Default `default`. */
  readonly engine?: string;
  /** Shared secret, sent as `authorization: Bearer`. */
  readonly secret?: string;
  /** Kinds of search the worker serves; default all. */
  readonly types?: readonly SearchType[];
}

// Maps become plain objects, and whole numbers plain numbers.
const unpackr = new Unpackr({ useRecords: false, int64AsType: 'number' });

/** Whether the byte begins a msgpack map (fixmap, map 16, map 32): no JSON text begins with one. */
function beginsMap(byte: number | undefined): boolean {
  return byte !== undefined && ((byte & 0xf0) === 0x80 || byte === 0xde || byte === 0xdf);
}

function read(response: EngineResponse): Readonly<Record<string, unknown>> {
  if (!beginsMap(response.body[0])) return jsonBody(response);
  try {
    return unpackr.unpack(response.body) as Record<string, unknown>;
  } catch {
    throw new EngineError('invalid');
  }
}

/** A worker. Throws when `url` is missing. */
export function worker(settings: WorkerSettings): HttpEngine {
  const { url, engine = 'default', secret, types = SEARCH_TYPES } = settings;
  if (!url) throw new Error('needs url');
  const headers = {
    accept: 'application/msgpack, application/json',
    'content-type': 'application/json',
    ...(secret ? { authorization: `Bearer ${secret}` } : {}),
  };
  return {
    kind: 'worker',
    documentation: 'README.md',
    types,
    concurrency: 16,
    request: ({ query, type, maxResults }) => ({
      method: 'POST',
      url: `${url}/search`,
      headers,
      body: JSON.stringify({ engine, query, max_results: maxResults, search_type: type }),
    }),
    parse(response, { nowMs }) {
      refuse(response);
      const found = hits(listOf(read(response), 'results'), (result) => ({
        title: result['title'],
        url: result['url'],
        snippet: result['snippet'],
        publishedAt: isoDate(result['published_at'], nowMs),
        source: result['source'],
        thumbnailUrl: result['thumbnail_url'],
        imageUrl: result['image_url'],
        width: result['width'],
        height: result['height'],
      }));
      return { hits: found };
    },
  };
}
