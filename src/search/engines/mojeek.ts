// Engine kind `mojeek`: web pages from Mojeek's own index. Errors come with status 200, as text in `response.status`.

import { asCount, asRecord, asText, jsonBody, listOf, refuse, wantsMore } from '../engine-response.ts';
import { isoDate } from '../dates.ts';
import { EngineError, type EngineFailure, type EngineRequest, type HttpEngine } from '../engine.ts';
import { hits } from '../hit.ts';

export interface MojeekSettings {
  readonly apiKey?: string;
  /** Base URL; default `https://api.mojeek.com`. */
  readonly url?: string;
  /** Language to prefer, as `EN`. */
  readonly language?: string;
}

const SMALLEST_PAGE = 10;
const MAX_PAGES = 10;

/** The first pattern that fits names the failure: a daily limit is a quota, any other limit is a rate. */
const FAILURES: readonly (readonly [RegExp, EngineFailure])[] = [
  [/daily|monthly|quota|credit/i, 'quota'],
  [/limit|too many/i, 'rate limited'],
  [/key|auth|denied|not allowed|permission/i, 'denied'],
  [/query|search term|parameter/i, 'rejected'],
];

function pageSize(maxResults: number): number {
  return Math.max(SMALLEST_PAGE, maxResults);
}

/** Mojeek. Throws when `apiKey` is missing. */
export function mojeek(settings: MojeekSettings): HttpEngine {
  const { apiKey, url = 'https://api.mojeek.com', language } = settings;
  if (!apiKey) throw new Error('needs apiKey');
  const headers = { accept: 'application/json' };
  return {
    kind: 'mojeek',
    documentation: 'https://www.mojeek.com/support/api/search/',
    types: ['web'],
    request({ query, maxResults }, state): EngineRequest {
      const parameters = new URLSearchParams({
        q: query,
        fmt: 'json',
        s: String(asCount(state) ?? 1),
        t: String(pageSize(maxResults)),
        date: '1',
        api_key: apiKey,
      });
      if (language) parameters.set('lb', language);
      return { method: 'GET', url: `${url}/search?${parameters.toString()}`, headers };
    },
    parse(response, context) {
      refuse(response);
      const body = asRecord(jsonBody(response)['response']);
      const status = asText(body['status']);
      if (status !== 'OK') throw new EngineError(FAILURES.find(([words]) => words.test(status))?.[1] ?? 'invalid');
      const list = listOf(body, 'results');
      const found = hits(list, (result) => ({
        title: result['title'],
        url: result['url'],
        snippet: result['desc'],
        publishedAt: isoDate(result['cdatetimestamp'], context.nowMs) ?? isoDate(result['date'], context.nowMs),
      }));
      const next = (asCount(context.state) ?? 1) + list.length;
      const total = asCount(asRecord(body['head'])['results']) ?? 0;
      const last = Math.min(total, MAX_PAGES * pageSize(context.query.maxResults));
      const goesOn = list.length > 0 && next <= last && wantsMore(context, found);
      return goesOn ? { hits: found, next } : { hits: found };
    },
  };
}
