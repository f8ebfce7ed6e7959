// `POST /search/fetch`: one page, or several, as clean text. A page is charged when it was read, also when it comes from the cache: what
// the client pays for is the text. Of several pages each has its own error, and a page that is asked for twice is read once.

import { exactUsdText, type Spending } from '../billing/index.ts';
import { type ErrorCode, type HeadraceError, invalidRequest } from '../errors.ts';
import type { PageAnswer, PageExplanation, PageRequest } from '../fetch/index.ts';
import type { Exchange, ExchangeProgress } from '../ingress/exchange.ts';
import { respondLargeJson } from '../ingress/large-json.ts';
import type { ApiDeps, Endpoint } from './deps.ts';
import { type ExplainedError, explainedError, type GivenBody } from './explained.ts';
import { callerOf } from './held-exchange.ts';
import { PageBatch, type PageOutcome } from './page-batch.ts';
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
  type WholeDone,
  TOOL_BODY_BYTES,
} from './pipeline.ts';
import { type FetchRequest, fetchRequest, readBody, readValue } from './schema.ts';

/** Account of pages that the embedding program fetches itself. */
const LIBRARY = '';

/** A batch may take this many times `fetch.timeout`: its pages wait for each other where the account may not fetch all at once. */
const BATCH_TIMEOUTS = 2;

/** Most characters of a batch: each of its pages has an equal part of them, and is read on from there. */
const BATCH_CHARS = 4_000_000;

/** Which pages are asked for. */
export interface PagesAsk {
  /** At least one; the URLs may repeat. */
  readonly pages: readonly PageRequest[];
  /** Whether each page has its own error in the answer. Without, there is one page, whose error is that of the request. */
  readonly isBatch: boolean;
}

/** One page of a batch, as it is answered. */
export type PageResult = PageAnswer | PageFailure;

/** Why a page of a batch could not be read. */
export interface PageFailure {
  /** As it was asked for. */
  readonly url: string;
  readonly error: { readonly code: ErrorCode; readonly detail: string };
}

/** One of the forms in which clients ask for pages. */
export interface PagesForm<Ask extends PagesAsk> {
  /** Validates the request. Throws 422. */
  read(exchange: Exchange, deps: ApiDeps, body: Buffer): Ask;
  /** Writes the pages, in the order of the request; `headers` are to go with it. Default: the JSON of the interface. */
  respond?(request: PaidRequest<Ask>, pages: readonly PageOutcome[], headers: readonly string[]): void;
}

/** Pages in a form of its own: holds the price of all, fetches them, and charges those that were read. */
export function pagesEndpoint<Ask extends PagesAsk>(form: PagesForm<Ask>): PaidEndpoint<Ask> {
  return {
    maxBodyBytes: TOOL_BODY_BYTES,
    read: (exchange, deps, body) => form.read(exchange, deps, body),
    price({ input }, { pagePrice }) {
      return unmeteredRange(pagePrice * countOf(input.pages));
    },
    quote({ input }, { pagePrice }) {
      const count = countOf(input.pages);
      if (pagePrice === 0) return null;
      const description = count === 1 ? 'A page' : `${count} pages`;
      return { price: BigInt(pagePrice * count), description, usage: unmeteredUsage('fetch') };
    },
    run(request, settlement) {
      const { deps, exchange, input } = request;
      const account = callerOf(exchange, deps.headerRules.peers);
      respondWhole<readonly PageOutcome[]>(
        request,
        settlement,
        (pages) => pageSpendings(deps, readOf(input.pages, pages)),
        (done) => startPages(deps, account, input, exchange.onProgress, done),
        (_exchange, pages, headers) => {
          if (form.respond === undefined) respondLargeJson(exchange, 200, documentOf(input, pages), headers);
          else form.respond(request, pages, headers);
        },
      );
    },
  };
}

/** Serves one page, or several. Throws 401 for a bad key; every later refusal is answered. */
export const fetchPage: Endpoint = paid(
  pagesEndpoint({
    read: (exchange, _deps, body) => pagesAskOf(readBody(fetchRequest, body, exchange.contentType), ['body']),
  }),
);

/** The same for the library: validates `input`, fetches, resolves with the same object. */
export async function fetchFor(
  deps: ApiDeps,
  input: unknown,
  signal: AbortSignal | undefined,
): Promise<PageAnswer | { readonly results: readonly PageResult[] }> {
  const ask = pagesAskOf(readValue(fetchRequest, input), []);
  return await callWhole(signal, (done) =>
    startPages(deps, LIBRARY, ask, null, (error, pages, cached) => {
      done(error, pages === null ? null : documentOf(ask, pages), cached);
    }),
  );
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
  const { isBatch, pages: requests } = pagesAskOf(readBody(fetchRequest, body, contentType), ['body']);
  const [request] = requests;
  if (isBatch || request === undefined)
    throw invalidRequest(['body', 'urls'], 'Value error, one page is explained at a time');
  const found = await pages.explain(account, request, settings.fetch.timeoutMs);
  const answer = 'answer' in found ? found.answer : null;
  const error = 'answer' in found ? null : explainedError(found.error);
  const costUsd = exactUsdText(answer === null ? 0 : (billing?.pagePrice ?? 0));
  return { answer, error, explanation: found.explanation, costUsd };
}

/**
 * Fetches pages in the places of `account`. `done` hears of the pages in their order, once, unless they are aborted. A batch whose pages
 * were all refused before they were asked for has the first of these refusals; every other batch is an answer.
 */
export function startPages(
  deps: ApiDeps,
  account: string,
  { isBatch, pages: requests }: PagesAsk,
  onProgress: ((progress: ExchangeProgress) => void) | null,
  done: WholeDone<readonly PageOutcome[]>,
): Pending {
  const { clock, settings } = deps;
  const urls = [...new Set(requests.map(({ url }) => url))];
  let ended = 0;
  const finish = (): void => {
    clock.clearTimeout(timer);
    batch.abort();
    const pages = requests.map(({ url }) => batch.outcomeOf(url) as PageOutcome);
    const refusal = refusalOf(pages, isBatch);
    if (refusal !== null) done(refusal, null, false);
    else
      done(
        null,
        pages,
        pages.every(({ cached }) => cached),
      );
  };
  const batch = new PageBatch(deps, account, (url) => {
    ended++;
    const error = batch.outcomeOf(url)?.error ?? null;
    onProgress?.({ done: ended, total: urls.length, message: `${url}: ${error === null ? 'read' : error.code}` });
    if (ended === urls.length) finish();
  });
  // The timeout of each page comes from the actor that fetches it; this one is for what waits for its turn in the batch.
  const timeoutMs = settings.fetch.timeoutMs * BATCH_TIMEOUTS;
  const expire = (): void => {
    batch.expire(`the batch had ${timeoutMs} ms`);
    finish();
  };
  const timer = clock.setTimeout(expire, timeoutMs);
  for (const request of requests) batch.add(request);
  return {
    abort() {
      clock.clearTimeout(timer);
      batch.abort();
    },
  };
}

/** What pages that were read are charged for. */
export function pageSpendings({ billing }: ApiDeps, count: number): Spending[] {
  return Array.from({ length: count }, () => unmeteredSpending('fetch', billing?.pagePrice ?? 0));
}

/** The page of a URL; its fragment names a place in it. */
export function pageUrl(url: string): string {
  const parsed = new URL(url);
  parsed.hash = '';
  return parsed.href;
}

/** Refusals of the gateway: nothing has been asked of any site. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set(['HR_FETCH_LIMIT', 'HR_FETCH_BUSY', 'HR_DRAINING']);

/** The error of the request, where it has one. */
function refusalOf(pages: readonly PageOutcome[], isBatch: boolean): HeadraceError | null {
  const first = pages[0]?.error ?? null;
  if (!isBatch) return first;
  return pages.every(({ error }) => error !== null && REFUSALS.has(error.code)) ? first : null;
}

/** Pages that were read, each once. */
function readOf(requests: readonly PageRequest[], pages: readonly PageOutcome[]): number {
  return countOf(requests.filter((_, index) => pages[index]?.error === null));
}

function countOf(requests: readonly PageRequest[]): number {
  return new Set(requests.map(({ url }) => url)).size;
}

/** The answer as the interface prescribes it. */
function documentOf(
  { isBatch, pages: requests }: PagesAsk,
  pages: readonly PageOutcome[],
): PageAnswer | { readonly results: readonly PageResult[] } {
  if (!isBatch) return pages[0]?.answer as PageAnswer;
  const results = requests.map(({ url }, index) => resultOf(url, pages[index] as PageOutcome));
  return { results };
}

function resultOf(url: string, { answer, error }: PageOutcome): PageResult {
  return error === null ? answer : { url, error: { code: error.code, detail: error.message } };
}

/** The pages of a document that another interface has made of its request. Throws 422. */
export function pagesAsk(document: unknown): PagesAsk {
  return pagesAskOf(readValue(fetchRequest, document), []);
}

function pagesAskOf(request: FetchRequest, loc: readonly string[]): PagesAsk {
  const { url, urls } = request;
  if (url !== undefined && urls !== undefined) {
    throw invalidRequest([...loc, 'urls'], 'Value error, url and urls exclude each other');
  }
  if (url === undefined && urls === undefined) throw invalidRequest([...loc, 'url'], 'Field required', 'missing');
  const wanted = wantedOf(request);
  if (urls === undefined) return { pages: [{ url: pageUrl(url as string), ...wanted }], isBatch: false };
  const maxChars = Math.min(wanted.maxChars ?? Infinity, Math.floor(BATCH_CHARS / urls.length));
  return { pages: urls.map((each) => ({ url: pageUrl(each), ...wanted, maxChars })), isBatch: true };
}

/** What is asked of each page. The fields that say what a page says of itself come with every field that the interface has added. */
function wantedOf(request: FetchRequest): Omit<PageRequest, 'url'> {
  const {
    format,
    images = false,
    include,
    links = false,
    max_age: maxAgeS,
    max_chars: maxChars,
    start,
    urls,
  } = request;
  const extras = [...include, ...(links ? ['links' as const] : []), ...(images ? ['images' as const] : [])];
  const added = [request.links, request.images, maxAgeS, maxChars, start, urls];
  return {
    ...{ format, include: [...new Set(extras)].toSorted(), details: added.some((field) => field !== undefined) },
    ...(maxChars !== undefined && { maxChars }),
    ...(start !== undefined && { start }),
    ...(maxAgeS !== undefined && { maxAgeMs: maxAgeS * 1000 }),
  };
}
