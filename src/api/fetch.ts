// `POST /search/fetch`: a page as clean text. The work is done by the fetch room, in the control plane's thread and its
// cleaners; this thread only asks.

import type { Credential, Spending } from '../billing/index.ts';
import { HeadraceError } from '../errors.ts';
import type { PageAnswer, PageRequest } from '../fetch/index.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { respondError, respondJson } from '../ingress/respond.ts';
import { admit, requireKey } from './admit.ts';
import { checkLimits, NO_TOKENS, openBill } from './bill.ts';
import { requirePayment, requestDigest, unmetered, withdrawn } from './payment-hold.ts';
import { type FetchRequest, fetchRequest, readBody, validate } from './schema.ts';
import type { ApiDeps } from './deps.ts';

/** Serves a page. Throws 401 for a bad key; every later refusal is answered here. */
export function fetchPage(exchange: Exchange, deps: ApiDeps): void {
  const admission = admit(exchange, deps);
  exchange.readBody((error, body) => {
    try {
      if (error !== null) throw error;
      const request = pageOf(readBody(fetchRequest, body, exchange.header('content-type')));
      if (admission.credential.kind === 'none' && sell(exchange, deps, request, body)) return;
      requireKey(admission, deps);
      charge(exchange, deps, admission.credential, request);
    } catch (thrown) {
      respondError(exchange, thrown);
    }
  });
}

/** A page costs when it was read, from the cache too: what the client pays for is the text. */
function charge(exchange: Exchange, deps: ApiDeps, credential: Credential, request: PageRequest): void {
  const { billing } = deps;
  if (billing === null || credential.kind !== 'good') {
    run(exchange, deps, request, () => {});
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
    () => run(exchange, deps, request, () => spendings.push({ ...NO_TOKENS, model: 'fetch', cost: billing.pagePrice })),
    (error) => respondError(exchange, error),
  );
}

function run(exchange: Exchange, deps: ApiDeps, request: PageRequest, onRead: () => void): void {
  const pending = deps.pages.fetch(request, deps.settings.fetch.timeoutMs, (failure, answer, cached) => {
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
function sell(exchange: Exchange, deps: ApiDeps, request: PageRequest, body: Buffer): boolean {
  const { billing, paymentProcessor, settings } = deps;
  if (paymentProcessor === null || (billing?.pagePrice ?? 0) === 0 || !settings.keys.required) return false;
  const price = BigInt(billing?.pagePrice ?? 0);
  const charge = { price, usage: unmetered('fetch'), description: 'A page', digest: requestDigest(exchange, body) };
  requirePayment(exchange, { paymentProcessor, settings }, charge, (paymentHold) => {
    const pending = deps.pages.fetch(request, settings.fetch.timeoutMs, (failure, answer) => {
      const withdraw = (): void => paymentHold.withdraw();
      exchange.onAbort = withdraw;
      if (answer === null) {
        paymentHold.withdraw();
        respondError(exchange, failure);
      } else paymentHold.deliver((receipts) => respondJson(exchange, 200, answer, receipts));
    });
    withdrawn(exchange, paymentHold, pending);
  });
  return true;
}

/** The same for the library. */
export function fetchPageFor(deps: ApiDeps, input: unknown, signal: AbortSignal | undefined): Promise<PageAnswer> {
  return new Promise((resolve, reject) => {
    const checked = validate(fetchRequest, input, []);
    if ('errors' in checked) throw new HeadraceError('HR_REQUEST_INVALID', { validation: checked.errors });
    signal?.throwIfAborted();
    const pending = deps.pages.fetch(pageOf(checked.value), deps.settings.fetch.timeoutMs, (failure, answer) => {
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
