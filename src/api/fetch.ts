// `POST /search/fetch`: a page as clean text. The work is done by the fetch room, in the control plane's thread and its
// cleaners; this thread only asks.

import { HeadraceError } from '../errors.ts';
import type { PageAnswer, PageRequest } from '../fetch/index.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { respondError, respondJson } from '../ingress/respond.ts';
import { admit, requireKey } from './admit.ts';
import { type FetchRequest, fetchRequest, readBody, validate } from './schema.ts';
import type { ApiWorld } from './world.ts';

/** Serves a page. Throws 401 for a bad key; every later refusal is answered here. */
export function fetchPage(exchange: Exchange, world: ApiWorld): void {
  const admission = admit(exchange, world);
  exchange.readBody((error, body) => {
    try {
      if (error !== null) throw error;
      const request = pageOf(readBody(fetchRequest, body, exchange.header('content-type')));
      requireKey(admission, world);
      const pending = world.pages.fetch(request, world.settings.fetch.timeoutMs, (failure, answer, cached) => {
        exchange.onAbort = null;
        if (answer === null) respondError(exchange, failure);
        else respondJson(exchange, 200, answer, cached ? ['x-headrace-cache', 'hit'] : []);
      });
      exchange.onAbort = () => pending.abort();
    } catch (thrown) {
      respondError(exchange, thrown);
    }
  });
}

/** The same for the library. */
export function fetchPageFor(world: ApiWorld, input: unknown, signal: AbortSignal | undefined): Promise<PageAnswer> {
  return new Promise((resolve, reject) => {
    const checked = validate(fetchRequest, input, []);
    if ('errors' in checked) throw new HeadraceError('HR_REQUEST_INVALID', { validation: checked.errors });
    signal?.throwIfAborted();
    const pending = world.pages.fetch(pageOf(checked.value), world.settings.fetch.timeoutMs, (failure, answer) => {
      signal?.removeEventListener('abort', leave);
      // The caller may change what it got; the answer may also be in the cache, or on its way to others.
      if (answer === null) reject(failure as HeadraceError);
      else resolve(structuredClone(answer));
    });
    const leave = (): void => {
      pending.abort();
      reject(signal?.reason as Error);
    };
    signal?.addEventListener('abort', leave, { once: true });
  });
}

function pageOf({ format, include, url }: FetchRequest): PageRequest {
  const parsed = new URL(url);
  parsed.hash = '';
  return { url: parsed.href, format, include: [...new Set(include)].toSorted() };
}
