// `POST /search`: several engines at once, one merged answer. Partial failure is an answer; when every engine asked has
// failed it is 503.

import { HeadraceError } from '../errors.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { respondError, respondJson } from '../ingress/respond.ts';
import type { SearchAnswer, SearchQuery } from '../search/index.ts';
import { admit, requireKey } from './admit.ts';
import { readBody, searchRequestOf, validate } from './schema.ts';
import type { ApiWorld } from './world.ts';

/** Account of searches without a key, on an open gateway. */
const ANONYMOUS = '';

/** Serves a search. Throws 401 for a bad key; every later refusal is answered here. */
export function search(exchange: Exchange, world: ApiWorld): void {
  const admission = admit(exchange, world);
  exchange.readBody((error, body) => {
    try {
      if (error !== null) throw error;
      const request = readBody(schemaOf(world), body, exchange.header('content-type'));
      requireKey(admission, world);
      const account = admission.credential.kind === 'good' ? admission.credential.account : ANONYMOUS;
      run(exchange, world, queryOf(request), account);
    } catch (thrown) {
      respondError(exchange, thrown);
    }
  });
}

/** The same for the library: validates, searches, answers with the same object. */
export function searchFor(world: ApiWorld, input: unknown, signal: AbortSignal | undefined): Promise<SearchAnswer> {
  return new Promise((resolve, reject) => {
    const checked = validate(schemaOf(world), input, []);
    if ('errors' in checked) throw new HeadraceError('HR_REQUEST_INVALID', { validation: checked.errors });
    signal?.throwIfAborted();
    const pending = world.search.search(queryOf(checked.value), ANONYMOUS, (answer) => {
      signal?.removeEventListener('abort', leave);
      // The caller may change what it got; the answer may also be in the cache, or on its way to others.
      if (answer.meta.engines_used.length > 0) resolve(structuredClone(answer));
      else reject(allFailed());
    });
    const leave = (): void => {
      pending.abort();
      reject(signal?.reason as Error);
    };
    signal?.addEventListener('abort', leave, { once: true });
  });
}

function schemaOf({ settings }: ApiWorld): ReturnType<typeof searchRequestOf> {
  const { ids, engines, default: preset } = settings.search;
  return searchRequestOf([...new Set([...ids, ...Object.keys(engines)])], preset);
}

function queryOf(request: {
  readonly query: string;
  readonly engines: readonly string[];
  readonly max_results: number;
  readonly search_type: SearchQuery['type'];
}): SearchQuery {
  const { query, engines, max_results: maxResults, search_type: type } = request;
  return { query, engines: [...new Set(engines)], maxResults, type };
}

function run(exchange: Exchange, world: ApiWorld, query: SearchQuery, account: string): void {
  const pending = world.search.search(query, account, (answer, cached) => {
    exchange.onAbort = null;
    if (answer.meta.engines_used.length === 0) respondError(exchange, allFailed());
    else respondJson(exchange, 200, answer, cached ? ['x-headrace-cache', 'hit'] : []);
  });
  exchange.onAbort = () => pending.abort();
}

function allFailed(): HeadraceError {
  return new HeadraceError('HR_SEARCH_ALL_FAILED', { headers: ['retry-after', '5'] });
}
