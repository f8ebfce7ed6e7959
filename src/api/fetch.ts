// `POST /search/fetch`: a page as clean text. A page is charged when it was read, also when it comes from the cache: what
// the client pays for is the text.

import { exactUsdText } from '../billing/index.ts';
import type { PageAnswer, PageExplanation, PageRequest } from '../fetch/index.ts';
import type { ApiDeps, Endpoint } from './deps.ts';
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
import { type FetchRequest, fetchRequest, readBody, readValue } from './schema.ts';

/** Account of pages that the embedding program fetches itself. */
const LIBRARY = '';

const fetchEndpoint: PaidEndpoint<PageRequest> = {
  read(exchange, _deps, body) {
    return pageOf(readBody(fetchRequest, body, exchange.contentType));
  },
  price(_request, { pagePrice }) {
    return unmeteredRange(pagePrice);
  },
  quote(_request, { pagePrice }) {
    if (pagePrice === 0) return null;
    return { price: BigInt(pagePrice), description: 'A page', usage: unmeteredUsage('fetch') };
  },
  run(request, settlement) {
    const { deps, exchange, input } = request;
    const account = callerOf(exchange, deps.headerRules.peers);
    const spendings = [unmeteredSpending('fetch', deps.billing?.pagePrice ?? 0)];
    respondWhole<PageAnswer>(
      request,
      settlement,
      () => spendings,
      (done) => start(deps, account, input, done),
    );
  },
};

/** Serves a page. Throws 401 for a bad key; every later refusal is answered. */
export const fetchPage: Endpoint = paid(fetchEndpoint);

/** The same for the library: validates `input`, fetches, resolves with the same object. */
export async function fetchPageFor(
  deps: ApiDeps,
  input: unknown,
  signal: AbortSignal | undefined,
): Promise<PageAnswer> {
  const request = pageOf(readValue(fetchRequest, input));
  return await callWhole(signal, (done) => start(deps, LIBRARY, request, done));
}

/** Answer of `POST /explain?path=/search/fetch`. */
export interface ExplainedFetch {
  /** What a client would get; null where it would get the error. */
  readonly answer: PageAnswer | null;
  readonly error: ExplainedError | null;
  /** Null where the page was not tried. */
  readonly explanation: PageExplanation | null;
  /** What a client would pay, exact, as text. */
  readonly costUsd: string;
}

/** Fetches as a client would, for an operator: charged to nobody, shared with none, read anew. */
export async function explainFetch(
  { billing, pages, settings }: ApiDeps,
  { body, contentType }: GivenBody,
  account: string,
): Promise<ExplainedFetch> {
  const request = pageOf(readBody(fetchRequest, body, contentType));
  const found = await pages.explain(account, request, settings.fetch.timeoutMs);
  const answer = 'answer' in found ? found.answer : null;
  const error = 'answer' in found ? null : explainedError(found.error);
  const costUsd = exactUsdText(answer === null ? 0 : (billing?.pagePrice ?? 0));
  return { answer, error, explanation: found.explanation, costUsd };
}

function start(
  { pages, settings }: ApiDeps,
  account: string,
  request: PageRequest,
  done: WholeDone<PageAnswer>,
): Pending {
  return pages.fetch(account, request, settings.fetch.timeoutMs, done);
}

function pageOf({ format, include, url }: FetchRequest): PageRequest {
  const parsed = new URL(url);
  parsed.hash = '';
  return { url: parsed.href, format, include: [...new Set(include)].toSorted() };
}
