// `POST /search/fetch`: a page as clean text. The work is done by the fetch room, in the control plane's thread and its
// cleaners; this thread only asks.

import type { Credential, Spending } from '../account/index.ts';
import { HeadraceError } from '../errors.ts';
import type { PageAnswer, PageRequest } from '../fetch/index.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { respondError, respondJson } from '../ingress/respond.ts';
import { admit, requireKey } from './admit.ts';
import { checkLimits, NO_TOKENS, openBill } from './bill.ts';
import { demandToll, requestDigest, unmetered, withdrawn } from './toll.ts';
import { type FetchRequest, fetchRequest, readBody, validate } from './schema.ts';
import type { ApiWorld } from './world.ts';

/** Serves a page. Throws 401 for a bad key; every later refusal is answered here. */
export function fetchPage(exchange: Exchange, world: ApiWorld): void {
  const admission = admit(exchange, world);
  exchange.readBody((error, body) => {
    try {
      if (error !== null) throw error;
      const request = pageOf(readBody(fetchRequest, body, exchange.header('content-type')));
      if (admission.credential.kind === 'none' && sell(exchange, world, request, body)) return;
      requireKey(admission, world);
      charge(exchange, world, admission.credential, request);
    } catch (thrown) {
      respondError(exchange, thrown);
    }
  });
}

/** A page costs when it was read, from the cache too: what the client pays for is the text. */
function charge(exchange: Exchange, world: ApiWorld, credential: Credential, request: PageRequest): void {
  const { billing } = world;
  if (billing === null || credential.kind !== 'good') {
    run(exchange, world, request, () => {});
    return;
  }
  checkLimits(billing, credential);
  const spendings: Spending[] = [];
  openBill(
    exchange,
    billing,
    credential,
    billing.pagePrice,
    () => spendings,
    () =>
      run(exchange, world, request, () => spendings.push({ ...NO_TOKENS, model: 'fetch', cost: billing.pagePrice })),
    (error) => respondError(exchange, error),
  );
}

function run(exchange: Exchange, world: ApiWorld, request: PageRequest, onRead: () => void): void {
  const pending = world.pages.fetch(request, world.settings.fetch.timeoutMs, (failure, answer, cached) => {
    exchange.onAbort = null;
    if (answer === null) {
      respondError(exchange, failure);
      return;
    }
    onRead();
    respondJson(exchange, 200, answer, cached ? ['x-headrace-cache', 'hit'] : []);
  });
  const abort = (): void => pending.abort();
  exchange.onAbort = abort;
}

/** Asks a request without a key for a payment. False where it needs none, or where none can be taken. */
function sell(exchange: Exchange, world: ApiWorld, request: PageRequest, body: Buffer): boolean {
  const { billing, cashier, settings } = world;
  if (cashier === null || (billing?.pagePrice ?? 0) === 0 || !settings.keys.required) return false;
  const price = BigInt(billing?.pagePrice ?? 0);
  const charge = { price, usage: unmetered('fetch'), description: 'A page', digest: requestDigest(exchange, body) };
  demandToll(exchange, { cashier, settings }, charge, (toll) => {
    const pending = world.pages.fetch(request, settings.fetch.timeoutMs, (failure, answer) => {
      const withdraw = (): void => toll.withdraw();
      exchange.onAbort = withdraw;
      if (answer === null) {
        toll.withdraw();
        respondError(exchange, failure);
      } else toll.deliver((receipts) => respondJson(exchange, 200, answer, receipts));
    });
    withdrawn(exchange, toll, pending);
  });
  return true;
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
