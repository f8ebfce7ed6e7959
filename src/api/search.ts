// `POST /search`: several engines at once, one merged answer. Partial failure is an answer; when every engine asked has
// failed it is 503.

import type { Credential, Spending } from '../account/index.ts';
import { HeadraceError } from '../errors.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { respondError, respondJson } from '../ingress/respond.ts';
import type { SearchAnswer, SearchQuery } from '../search/index.ts';
import { admit, requireKey } from './admit.ts';
import { checkLimits, NO_TOKENS, openBill } from './bill.ts';
import { demandToll, requestDigest, unmetered, withdrawn } from './toll.ts';
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
      if (admission.credential.kind === 'none' && sell(exchange, world, queryOf(request), body)) return;
      requireKey(admission, world);
      charge(exchange, world, admission.credential, queryOf(request));
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

/** Engines cost when they succeed; what comes from the cache asked none. */
function charge(exchange: Exchange, world: ApiWorld, credential: Credential, query: SearchQuery): void {
  const { billing } = world;
  if (billing === null || credential.kind !== 'good') {
    run(exchange, world, query, credential.kind === 'good' ? credential.account : ANONYMOUS, () => {});
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
      run(exchange, world, query, credential.account, (engine) => {
        spendings.push({ ...NO_TOKENS, model: `search:${engine}`, cost: priceOf(engine) });
      }),
    (error) => respondError(exchange, error),
  );
}

function run(
  exchange: Exchange,
  world: ApiWorld,
  query: SearchQuery,
  account: string,
  onCall: (engine: string) => void,
): void {
  const pending = world.search.search(query, account, (answer, cached) => {
    exchange.onAbort = null;
    if (!cached) answer.meta.engines_used.forEach(onCall);
    if (answer.meta.engines_used.length === 0) respondError(exchange, allFailed());
    else respondJson(exchange, 200, answer, cached ? ['x-headrace-cache', 'hit'] : []);
  });
  const abort = (): void => pending.abort();
  exchange.onAbort = abort;
}

/** Asks a search without a key for a payment. False where it needs none, or where none can be taken. */
function sell(exchange: Exchange, world: ApiWorld, query: SearchQuery, body: Buffer): boolean {
  const { billing, cashier, settings } = world;
  const price = query.engines.reduce((sum, engine) => sum + (billing?.enginePrices.get(engine) ?? 0), 0);
  if (cashier === null || price === 0 || !settings.keys.required) return false;
  const model = `search:${query.engines.join('+')}`;
  const charge = {
    price: BigInt(price),
    usage: unmetered(model),
    description: 'A search',
    digest: requestDigest(exchange, body),
  };
  demandToll(exchange, { cashier, settings }, charge, (toll) => {
    const pending = world.search.search(query, ANONYMOUS, (answer, cached) => {
      const withdraw = (): void => toll.withdraw();
      exchange.onAbort = withdraw;
      const failed = answer.meta.engines_used.length === 0;
      if (failed || cached) toll.withdraw();
      if (failed) respondError(exchange, allFailed());
      else if (cached) respondJson(exchange, 200, answer, ['x-headrace-cache', 'hit']);
      else toll.deliver((receipts) => respondJson(exchange, 200, answer, receipts));
    });
    withdrawn(exchange, toll, pending);
  });
  return true;
}

function allFailed(): HeadraceError {
  return new HeadraceError('HR_SEARCH_ALL_FAILED', { headers: ['retry-after', '5'] });
}
