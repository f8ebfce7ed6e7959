// `POST /search`: several engines at once, one merged answer. Partial failure is an answer; when every engine fails it is
// 503. Each engine that answered is charged, once for each set of calls: of equal searches under way the first pays, and an answer from
// the cache costs only what came for it after its own search had been answered. What a wallet has paid for engines that did not answer
// becomes its credit.

import { exactUsdText, type RequestBound, type Spending } from '../billing/index.ts';
import type { Settings } from '../config/settings.ts';
import { HeadraceError, invalidRequest } from '../errors.ts';
import type { AnswerSource } from '../net/answer-cache.ts';
import {
  type AnsweredSearch,
  isLasting,
  mostUnits,
  type SearchAnswer,
  type SearchCaller,
  type SearchExplanation,
  type SearchFilters,
  type SearchQuery,
  SearchTrace,
  type SearchWatcher,
} from '../search/index.ts';
import type { Exchange, ExchangeProgress } from '../ingress/exchange.ts';
import type { ApiDeps, Billing, Endpoint } from './deps.ts';
import { type ExplainedError, explainedError, type GivenBody } from './explained.ts';
import { pageSpendings } from './fetch.ts';
import { callerOf } from './held-exchange.ts';
import { unmeteredUsage } from './payment.ts';
import {
  callWhole,
  paid,
  type PaidEndpoint,
  type PaidRequest,
  type Pending,
  respondWhole,
  unmeteredRange,
  unmeteredSpending,
  TOOL_BODY_BYTES,
} from './pipeline.ts';
import { type ObjectSchema, readBody, readValue, type SearchRequest, searchRequestOf } from './schema.ts';
import {
  type ContentAsk,
  ContentSearch,
  pagesOf,
  type SearchCosts,
  type SearchDone,
  type StartSearch,
} from './search-content.ts';

/** Account of searches that nobody pays for: equal searches share their answers within an account. */
const ANONYMOUS = '';

/** Searches of the embedding program. */
const LIBRARY: SearchCaller = { account: ANONYMOUS, caller: '' };

/** What is searched, and which results come with their text. */
export interface SearchAsk {
  readonly query: SearchQuery;
  /** Null: none. */
  readonly content: ContentAsk | null;
}

/** One of the forms in which clients ask for a search. */
export interface SearchForm<Ask extends SearchAsk> {
  /** Validates the body. Throws 422. */
  read(exchange: Exchange, deps: ApiDeps, body: Buffer): Ask;
  /** Writes the answer; `headers` are to go with it. Default: the JSON of the interface. */
  respond?(request: PaidRequest<Ask>, answer: SearchAnswer, headers: readonly string[]): void;
}

const NO_COSTS: SearchCosts = { units: new Map(), pages: 0 };

/** A search in a form of its own: holds the most that it may cost, searches, and charges what was delivered. */
export function searchEndpoint<Ask extends SearchAsk>(form: SearchForm<Ask>): PaidEndpoint<Ask> {
  const price = ({ deps, input: { content, query } }: PaidRequest<Ask>, billing: Billing): RequestBound => {
    const { engines, maxResults, type } = query;
    const prices = engines.reduce(
      (sum, engine) => (deps.search.serves(engine, type) ? sum + priceOf(engine, billing) : sum),
      0,
    );
    return unmeteredRange(prices * mostUnits(maxResults) + pagesOf(query, content) * billing.pagePrice);
  };
  return {
    maxBodyBytes: TOOL_BODY_BYTES,
    read: (exchange, deps, body) => form.read(exchange, deps, body),
    price,
    quote(request, billing) {
      const { most } = price(request, billing);
      const { content, query } = request.input;
      const model = `search:${query.engines.join('+')}`;
      const description = content === null ? 'A search' : 'A search with the text of its best results';
      return most === 0 ? null : { price: BigInt(most), description, usage: unmeteredUsage(model) };
    },
    run(request, settlement) {
      const { access, deps, exchange, input } = request;
      // A wallet shares with nobody: it pays for calls of its own, and others do not pay for it.
      const account =
        settlement?.kind === 'payment'
          ? null
          : access.credential.kind === 'good'
            ? access.credential.account
            : ANONYMOUS;
      const caller = callerOf(exchange, deps.headerRules.peers);
      let taken = NO_COSTS;
      respondWhole<SearchAnswer>(
        request,
        settlement,
        () => searchSpendings(deps, taken),
        (done) =>
          startSearch(deps, input, { account, caller }, exchange.onProgress, (error, answer, cached, costs) => {
            taken = costs;
            done(error, answer, cached);
          }),
        form.respond && ((_exchange, answer, headers) => form.respond?.(request, answer, headers)),
      );
    },
  };
}

/** Serves a search. Throws 401 for a bad key; every later refusal is answered. */
export const search: Endpoint = paid(
  searchEndpoint({
    read: (exchange, { settings }, body) =>
      askOf(readBody(searchSchemaOf(settings.search), body, exchange.contentType)),
  }),
);

/** The same for the library: validates `input`, searches, resolves with the same object. */
export async function searchFor(deps: ApiDeps, input: unknown, signal: AbortSignal | undefined): Promise<SearchAnswer> {
  const ask = askOf(readValue(searchSchemaOf(deps.settings.search), input));
  return await callWhole(signal, (done) => startSearch(deps, ask, LIBRARY, null, done));
}

/** Answer of `POST /explain?path=/search`. */
export interface ExplainedSearch {
  /** What a client would get; null where it would get the error. */
  readonly answer: SearchAnswer | null;
  readonly error: ExplainedError | null;
  readonly explanation: SearchExplanation;
  /** What a client would pay for each engine, exact, as text. */
  readonly costs: readonly { readonly engine: string; readonly prices: number; readonly costUsd: string }[];
  /** Pages that were read for the text of results, and what a client would pay for them. */
  readonly pages: { readonly count: number; readonly costUsd: string };
  /** What has ended, in its order: engines, and pages that were read for the text of results. */
  readonly steps: readonly { readonly message: string; readonly elapsedMs: number }[];
  /** Whether the account would get a kept answer now. */
  readonly isKept: boolean;
}

/** Searches as a client would, for an operator: charged to nobody, shared with none. */
export async function explainSearch(
  deps: ApiDeps,
  { body, contentType }: GivenBody,
  account: string,
): Promise<ExplainedSearch> {
  const { billing, clock, search, settings } = deps;
  const ask = askOf(readBody(searchSchemaOf(settings.search), body, contentType));
  const isKept = search.keeps(ask.query, account);
  const trace = new SearchTrace();
  const startedMs = clock.now();
  const steps: { message: string; elapsedMs: number }[] = [];
  const { answer, costs, error } = await new Promise<Explained>((resolve) => {
    startSearch(
      deps,
      ask,
      { account: null, caller: account, trace },
      ({ message }) => void steps.push({ message, elapsedMs: clock.now() - startedMs }),
      (error, answer, _cached, costs) => resolve({ error, answer, costs }),
    );
  });
  return {
    answer,
    error: explainedError(error),
    explanation: trace.explanation(),
    costs: Array.from(costs.units, ([engine, prices]) => {
      return { engine, prices, costUsd: exactUsdText(prices * priceOf(engine, billing)) };
    }),
    pages: { count: costs.pages, costUsd: exactUsdText(costs.pages * (billing?.pagePrice ?? 0)) },
    steps,
    isKept,
  };
}

interface Explained {
  readonly answer: SearchAnswer | null;
  readonly error: HeadraceError | null;
  readonly costs: SearchCosts;
}

/** Searches, and fetches the pages that are asked for in the places of `caller`. `done` is called once, unless the search is aborted. */
export function startSearch(
  deps: ApiDeps,
  { content, query }: SearchAsk,
  caller: SearchCaller,
  onProgress: ((progress: ExchangeProgress) => void) | null,
  done: SearchDone,
): Pending {
  const start: StartSearch = (watched, found) => startEngines(deps, query, watched, found);
  if (content !== null) {
    const search = new ContentSearch(deps, query, content, caller.caller, onProgress, done);
    search.start(caller, start);
    return search;
  }
  if (onProgress === null) return start(caller, done);
  const watcher: SearchWatcher = {
    onStarted: () => undefined,
    onEngine({ ended, engine, reason, total }) {
      onProgress({ done: ended, total, message: `${engine}: ${reason ?? 'answered'}` });
    },
  };
  return start({ ...caller, watcher }, done);
}

/** What a search is charged for. */
function searchSpendings(deps: ApiDeps, { pages, units }: SearchCosts): Spending[] {
  const engines = Array.from(units, ([engine, count]) =>
    unmeteredSpending(`search:${engine}`, count * priceOf(engine, deps.billing)),
  );
  return [...engines, ...pageSpendings(deps, pages)];
}

function startEngines(
  { search, settings }: ApiDeps,
  query: SearchQuery,
  caller: SearchCaller,
  done: SearchDone,
): Pending {
  return search.search(query, caller, (found, source) => {
    const cached = source === 'cache';
    if (!('answer' in found)) {
      done(refusalOf(found.refused, settings), null, false, NO_COSTS);
    } else if (found.answer.meta.engines_used.length > 0) {
      done(null, found.answer, cached, { units: dueUnits(found, source), pages: 0 });
    } else {
      const { engine_errors: failures } = found.answer.meta;
      // For callers of the library: the response says no more than its contract.
      const cause = new Error(failures.map(({ engine, reason }) => `${engine}: ${reason}`).join('; '));
      const headers = ['retry-after', '5'];
      if (failures.every(({ reason }) => isLasting(reason))) headers.push('x-should-retry', 'false');
      const error = new HeadraceError('HR_SEARCH_ALL_FAILED', { headers, cause });
      done(error, null, cached, NO_COSTS);
    }
  });
}

/** What a search pays for: the calls that it was the first to wait for, and those that nobody waited for. */
function dueUnits({ late, units }: AnsweredSearch, source: AnswerSource): SearchCosts['units'] {
  if (source === 'flight') return units;
  return (source === 'cache' ? late?.take() : null) ?? NO_COSTS.units;
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

/** The search of a document that another interface has made of its request. Throws 422. */
export function searchAskOf({ settings }: ApiDeps, document: unknown): SearchAsk {
  return askOf(readValue(searchSchemaOf(settings.search), document));
}

function askOf(request: SearchRequest): SearchAsk {
  const { content } = request;
  return {
    query: queryOf(request),
    content:
      content === undefined ? null : { results: content.results, maxChars: content.max_chars, format: content.format },
  };
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
  if (typeof timeRange === 'object') {
    const { from, to } = timeRange;
    // A misspelled name would find results of any time.
    if (from === undefined && to === undefined)
      throw invalidRequest(['body', 'time_range'], 'time_range should have `from` or `to`');
    if ((from ?? '') > (to ?? '9')) throw invalidRequest(['body', 'time_range'], '`from` should not be after `to`');
  }
  const filters: SearchFilters = {
    ...(timeRange !== undefined && { timeRange }),
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
