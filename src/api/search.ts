// `POST /search`: several engines at once, one merged answer. Partial failure is an answer; when every engine fails it is
// 503. Each engine that answered is charged; an answer from the cache is free.

import type { Spending } from '../billing/index.ts';
import type { Settings } from '../config/settings.ts';
import { HeadraceError } from '../errors.ts';
import type { SearchAnswer, SearchQuery } from '../search/index.ts';
import type { ApiDeps, Billing, Endpoint } from './deps.ts';
import { unmeteredUsage } from './payment.ts';
import {
  callWhole,
  paid,
  type PaidEndpoint,
  type Pending,
  respondWhole,
  unmeteredRange,
  unmeteredSpending,
  type WholeDone,
} from './pipeline.ts';
import { type ObjectSchema, readBody, readValue, type SearchRequest, searchRequestOf } from './schema.ts';

/** Account of searches without a key: equal searches share their answers within an account. */
const ANONYMOUS = '';

const searchEndpoint: PaidEndpoint<SearchQuery> = {
  read(exchange, { settings }, body) {
    return queryOf(readBody(searchSchemaOf(settings.search), body, exchange.contentType));
  },
  price({ input: { engines } }, billing) {
    return unmeteredRange(engines.reduce((sum, engine) => sum + priceOf(engine, billing), 0));
  },
  quote(request, billing) {
    const { most: price } = searchEndpoint.price(request, billing);
    const model = `search:${request.input.engines.join('+')}`;
    return price === 0 ? null : { price: BigInt(price), description: 'A search', usage: unmeteredUsage(model) };
  },
  run(request, settlement) {
    const { access, deps, input } = request;
    const account = access.credential.kind === 'good' ? access.credential.account : ANONYMOUS;
    const spendingsOf = ({ meta }: SearchAnswer, cached: boolean): Spending[] => {
      const engines = cached ? [] : meta.engines_used;
      return engines.map((engine) => unmeteredSpending(`search:${engine}`, priceOf(engine, deps.billing)));
    };
    respondWhole<SearchAnswer>(request, settlement, spendingsOf, (done) => start(deps, input, account, done));
  },
};

/** Serves a search. Throws 401 for a bad key; every later refusal is answered. */
export const search: Endpoint = paid(searchEndpoint);

/** The same for the library: validates `input`, searches, resolves with the same object. */
export async function searchFor(deps: ApiDeps, input: unknown, signal: AbortSignal | undefined): Promise<SearchAnswer> {
  const query = queryOf(readValue(searchSchemaOf(deps.settings.search), input));
  return await callWhole(signal, (done) => start(deps, query, ANONYMOUS, done));
}

function start({ search }: ApiDeps, query: SearchQuery, account: string, done: WholeDone<SearchAnswer>): Pending {
  return search.search(query, account, (answer, source) => {
    const cached = source === 'cache';
    if (answer.meta.engines_used.length > 0) done(null, answer, cached);
    else done(new HeadraceError('HR_SEARCH_ALL_FAILED', { headers: ['retry-after', '5'] }), null, cached);
  });
}

/** Made once for the settings of a snapshot. */
const schemas = new WeakMap<Settings['search'], ObjectSchema<SearchRequest>>();

/** The schema of a search over the engines of a gateway. */
export function searchSchemaOf(settings: Settings['search']): ObjectSchema<SearchRequest> {
  let schema = schemas.get(settings);
  if (schema === undefined) {
    const { ids, engines, default: preset } = settings;
    schema = searchRequestOf([...new Set([...ids, ...Object.keys(engines)])], preset);
    schemas.set(settings, schema);
  }
  return schema;
}

function queryOf({ query, engines, max_results: maxResults, search_type: type }: SearchRequest): SearchQuery {
  return { query, engines: [...new Set(engines)], maxResults, type };
}

function priceOf(engine: string, billing: Billing | null): number {
  return billing?.enginePrices.get(engine) ?? 0;
}
