// `POST /search`: several engines at once, one merged answer. Partial failure is an answer; when every engine fails it is
// 503. Each engine that answered is charged, once for each set of calls: of equal searches under way the first pays, and an answer from
// the cache costs only what came for it after its own search had been answered. What a wallet has paid for engines that did not answer
// becomes its credit.

import { exactUsdText, type Spending } from '../billing/index.ts';
import type { Settings } from '../config/settings.ts';
import { HeadraceError } from '../errors.ts';
import type { AnswerSource } from '../net/answer-cache.ts';
import {
  type AnsweredSearch,
  mostUnits,
  type SearchAnswer,
  type SearchCaller,
  type SearchExplanation,
  type SearchFilters,
  type SearchQuery,
  SearchTrace,
} from '../search/index.ts';
import type { ApiDeps, Billing, Endpoint } from './deps.ts';
import { type ExplainedError, explainedError, type GivenBody } from './explained.ts';
import { callerOf } from './held-exchange.ts';
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

/** Account of searches that nobody pays for: equal searches share their answers within an account. */
const ANONYMOUS = '';

/** Searches of the embedding program. */
const LIBRARY: SearchCaller = { account: ANONYMOUS, caller: '' };

/** Prices of what each engine did. */
type Units = ReadonlyMap<string, number>;

const NO_UNITS: Units = new Map();

const searchEndpoint: PaidEndpoint<SearchQuery> = {
  read(exchange, { settings }, body) {
    return queryOf(readBody(searchSchemaOf(settings.search), body, exchange.contentType));
  },
  price({ deps, input: { engines, maxResults, type } }, billing) {
    const prices = engines.reduce(
      (sum, engine) => (deps.search.serves(engine, type) ? sum + priceOf(engine, billing) : sum),
      0,
    );
    return unmeteredRange(prices * mostUnits(maxResults));
  },
  quote(request, billing) {
    const { most: price } = searchEndpoint.price(request, billing);
    const model = `search:${request.input.engines.join('+')}`;
    return price === 0 ? null : { price: BigInt(price), description: 'A search', usage: unmeteredUsage(model) };
  },
  run(request, settlement) {
    const { access, deps, exchange, input } = request;
    // A wallet shares with nobody: it pays for calls of its own, and others do not pay for it.
    const account =
      settlement?.kind === 'payment' ? null : access.credential.kind === 'good' ? access.credential.account : ANONYMOUS;
    const caller = callerOf(exchange, deps.headerRules.peers);
    let charged = NO_UNITS;
    const spendingsOf = (): Spending[] =>
      Array.from(charged, ([engine, units]) =>
        unmeteredSpending(`search:${engine}`, units * priceOf(engine, deps.billing)),
      );
    respondWhole<SearchAnswer>(request, settlement, spendingsOf, (done) =>
      start(deps, input, { account, caller }, (error, answer, cached, units) => {
        charged = units;
        done(error, answer, cached);
      }),
    );
  },
};

/** Serves a search. Throws 401 for a bad key; every later refusal is answered. */
export const search: Endpoint = paid(searchEndpoint);

/** The same for the library: validates `input`, searches, resolves with the same object. */
export async function searchFor(deps: ApiDeps, input: unknown, signal: AbortSignal | undefined): Promise<SearchAnswer> {
  const query = queryOf(readValue(searchSchemaOf(deps.settings.search), input));
  return await callWhole(signal, (done) => start(deps, query, LIBRARY, done));
}

/** Answer of `POST /explain?path=/search`. */
export interface ExplainedSearch {
  /** What a client would get; null where it would get the error. */
  readonly answer: SearchAnswer | null;
  readonly error: ExplainedError | null;
  readonly explanation: SearchExplanation;
  /** What a client would pay to each engine, exact, as text. */
  readonly costs: readonly { readonly engine: string; readonly prices: number; readonly costUsd: string }[];
  /** Whether the account would get a kept answer now. */
  readonly isKept: boolean;
}

/** Searches as a client would, for an operator: charged to nobody, shared with none. */
export async function explainSearch(
  deps: ApiDeps,
  { body, contentType }: GivenBody,
  account: string,
): Promise<ExplainedSearch> {
  const query = queryOf(readBody(searchSchemaOf(deps.settings.search), body, contentType));
  const isKept = deps.search.keeps(query, account);
  const trace = new SearchTrace();
  const { answer, error, units } = await new Promise<Explained>((resolve) => {
    start(deps, query, { account: null, caller: account, trace }, (error, answer, _cached, units) =>
      resolve({ error, answer, units }),
    );
  });
  const costs = Array.from(units, ([engine, prices]) => {
    return { engine, prices, costUsd: exactUsdText(prices * priceOf(engine, deps.billing)) };
  });
  return { answer, error: explainedError(error), explanation: trace.explanation(), costs, isKept };
}

interface Explained {
  readonly answer: SearchAnswer | null;
  readonly error: HeadraceError | null;
  readonly units: Units;
}

/** Hears the answer, and what it costs. */
type SearchDone = (...parts: [...Parameters<WholeDone<SearchAnswer>>, Units]) => void;

function start({ search, settings }: ApiDeps, query: SearchQuery, caller: SearchCaller, done: SearchDone): Pending {
  return search.search(query, caller, (found, source) => {
    const cached = source === 'cache';
    if (!('answer' in found)) done(refusalOf(found.refused, settings), null, false, NO_UNITS);
    else if (found.answer.meta.engines_used.length > 0) done(null, found.answer, cached, dueUnits(found, source));
    else done(new HeadraceError('HR_SEARCH_ALL_FAILED', { headers: ['retry-after', '5'] }), null, cached, NO_UNITS);
  });
}

/** What a search pays for: the calls that it was the first to wait for, and those that nobody waited for. */
function dueUnits({ late, units }: AnsweredSearch, source: AnswerSource): Units {
  if (source === 'flight') return units;
  return (source === 'cache' ? late?.take() : null) ?? NO_UNITS;
}

function refusalOf(refused: 'full' | 'limit', { search }: Settings): HeadraceError {
  const headers = ['retry-after', '1'];
  if (refused === 'full') return new HeadraceError('HR_SEARCH_BUSY', { headers });
  return new HeadraceError('HR_SEARCH_LIMIT', { subject: String(search.perAccount), headers });
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

function queryOf(request: SearchRequest): SearchQuery {
  const { query, engines, max_results: maxResults, page, search_type: type } = request;
  const filters = filtersOf(request);
  return {
    ...{ query, engines: [...new Set(engines)], maxResults, type },
    ...(filters !== undefined && { filters }),
    ...(page > 1 && { page }),
  };
}

/** Undefined without any, so that a request with empty filters is the same as one without. */
function filtersOf(request: SearchRequest): SearchFilters | undefined {
  const { country, language, safe_search: safeSearch, time_range: timeRange } = request;
  const { exclude_domains: excluded = [], include_domains: included = [] } = request;
  const isDated = typeof timeRange === 'string' || timeRange?.from !== undefined || timeRange?.to !== undefined;
  if (typeof timeRange === 'object' && (timeRange.from ?? '') > (timeRange.to ?? '9')) {
    const mistake = { loc: ['body', 'time_range'], msg: '`from` should not be after `to`', type: 'value_error' };
    throw new HeadraceError('HR_REQUEST_INVALID', { validation: [mistake] });
  }
  const filters: SearchFilters = {
    ...(isDated && { timeRange }),
    ...(included.length > 0 && { includeDomains: [...new Set(included)].toSorted() }),
    ...(excluded.length > 0 && { excludeDomains: [...new Set(excluded)].toSorted() }),
    ...(language !== undefined && { language }),
    ...(country !== undefined && { country }),
    ...(safeSearch !== undefined && { safeSearch }),
  };
  return Object.keys(filters).length === 0 ? undefined : filters;
}

function priceOf(engine: string, billing: Billing | null): number {
  return billing?.enginePrices.get(engine) ?? 0;
}
