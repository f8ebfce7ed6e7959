// `POST /search`: several engines at once, one merged answer. Partial failure is an answer; when every engine asked has
// failed it is 503.

import type { Credential, Spending } from '../billing/index.ts';
import { HeadraceError } from '../errors.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { respondError, respondJson } from '../ingress/respond.ts';
import type { SearchAnswer, SearchQuery } from '../search/index.ts';
import { admit, requireKey } from './admit.ts';
import { checkLimits, NO_TOKENS, openBill } from './bill.ts';
import { requirePayment, requestDigest, unmetered, withdrawn } from './payment-hold.ts';
import { readBody, searchRequestOf, validate } from './schema.ts';
import type { ApiDeps } from './deps.ts';

/** Account of searches without a key, on an open gateway. */
const ANONYMOUS = '';

/** Serves a search. Throws 401 for a bad key; every later refusal is answered here. */
export function search(exchange: Exchange, deps: ApiDeps): void {
  const admission = admit(exchange, deps);
  exchange.readBody((error, body) => {
    try {
      if (error !== null) throw error;
      const request = readBody(schemaOf(deps), body, exchange.header('content-type'));
      if (admission.credential.kind === 'none' && sell(exchange, deps, queryOf(request), body)) return;
      requireKey(admission, deps);
      charge(exchange, deps, admission.credential, queryOf(request));
    } catch (thrown) {
      respondError(exchange, thrown);
    }
  });
}

/** The same for the library: validates, searches, answers with the same object. */
export function searchFor(deps: ApiDeps, input: unknown, signal: AbortSignal | undefined): Promise<SearchAnswer> {
  return new Promise((resolve, reject) => {
    const checked = validate(schemaOf(deps), input, []);
    if ('errors' in checked) throw new HeadraceError('HR_REQUEST_INVALID', { validation: checked.errors });
    signal?.throwIfAborted();
    const pending = deps.search.search(queryOf(checked.value), ANONYMOUS, (answer) => {
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

function schemaOf({ settings }: ApiDeps): ReturnType<typeof searchRequestOf> {
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

/** Engines cost when they succeed; what comes from the cache asked none. */
function charge(exchange: Exchange, deps: ApiDeps, credential: Credential, query: SearchQuery): void {
  const { billing } = deps;
  if (billing === null || credential.kind !== 'good') {
    run(exchange, deps, query, credential.kind === 'good' ? credential.account : ANONYMOUS, () => {});
    return;
  }
  checkLimits(billing, credential);
  const spendings: Spending[] = [];
  const priceOf = (engine: string): number => billing.enginePrices.get(engine) ?? 0;
  openBill(
    exchange,
    billing,
    credential,
    query.engines.reduce((sum, engine) => sum + priceOf(engine), 0),
    () => spendings,
    () =>
      run(exchange, deps, query, credential.account, (engine) => {
        spendings.push({ ...NO_TOKENS, model: `search:${engine}`, cost: priceOf(engine) });
      }),
    (error) => respondError(exchange, error),
  );
}

function run(
  exchange: Exchange,
  deps: ApiDeps,
  query: SearchQuery,
  account: string,
  onCall: (engine: string) => void,
): void {
  const pending = deps.search.search(query, account, (answer, cached) => {
    exchange.onAbort = null;
    if (!cached) answer.meta.engines_used.forEach(onCall);
    if (answer.meta.engines_used.length === 0) respondError(exchange, allFailed());
    else respondJson(exchange, 200, answer, cached ? ['x-headrace-cache', 'hit'] : []);
  });
  const abort = (): void => pending.abort();
  exchange.onAbort = abort;
}

/** Asks a search without a key for a payment. False where it needs none, or where none can be taken. */
function sell(exchange: Exchange, deps: ApiDeps, query: SearchQuery, body: Buffer): boolean {
  const { billing, paymentProcessor, settings } = deps;
  const price = query.engines.reduce((sum, engine) => sum + (billing?.enginePrices.get(engine) ?? 0), 0);
  if (paymentProcessor === null || price === 0 || !settings.keys.required) return false;
  const model = `search:${query.engines.join('+')}`;
  const charge = {
    price: BigInt(price),
    usage: unmetered(model),
    description: 'A search',
    digest: requestDigest(exchange, body),
  };
  requirePayment(exchange, { paymentProcessor, settings }, charge, (paymentHold) => {
    const pending = deps.search.search(query, ANONYMOUS, (answer, cached) => {
      const withdraw = (): void => paymentHold.withdraw();
      exchange.onAbort = withdraw;
      const failed = answer.meta.engines_used.length === 0;
      if (failed || cached) paymentHold.withdraw();
      if (failed) respondError(exchange, allFailed());
      else if (cached) respondJson(exchange, 200, answer, ['x-headrace-cache', 'hit']);
      else paymentHold.deliver((receipts) => respondJson(exchange, 200, answer, receipts));
    });
    withdrawn(exchange, paymentHold, pending);
  });
  return true;
}

function allFailed(): HeadraceError {
  return new HeadraceError('HR_SEARCH_ALL_FAILED', { headers: ['retry-after', '5'] });
}
