// Search and fetch in the interfaces of other products (`compat/`): each request becomes the document of ours, is checked, priced and
// run as that is, and its answer is printed as their clients read it.

import {
  basicKey,
  type FirecrawlSearch,
  type FirecrawlVersion,
  type ForeignPages,
  type ForeignSearch,
  printFirecrawlScrape,
  printFirecrawlSearch,
  printJinaJson,
  printJinaText,
  printSearxng,
  printTavilyExtract,
  printTavilySearch,
  type Product,
  readFirecrawlScrape,
  readFirecrawlSearch,
  readJina,
  readSearxng,
  readTavilyExtract,
  readTavilySearch,
  renamedMistakes,
  tavilyKey,
} from '../compat/index.ts';
import { HeadraceError, invalidRequest } from '../errors.ts';
import type { PageAnswer } from '../fetch/index.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { respondLargeJson, respondLargeText } from '../ingress/large-json.ts';
import { respondJson } from '../ingress/respond.ts';
import type { SearchAnswer } from '../search/index.ts';
import type { ApiDeps, Endpoint } from './deps.ts';
import { type PagesAsk, pagesAsk, pagesEndpoint } from './fetch.ts';
import { isOfForeignPage } from './page-origin.ts';
import { authenticate, paid, type PaidEndpoint } from './pipeline.ts';
import { type SearchAsk, searchAskOf, searchEndpoint } from './search.ts';
import { unservedReason } from './unserved-paths.ts';

/** What differs between the products, beside their requests and answers: where else their clients send keys. */
type KeyPlaces = Pick<PaidEndpoint<unknown>, 'keyInBody' | 'keyInHead'>;

/** Serves an endpoint where its product is on. */
function served(product: Product, endpoint: Endpoint): Endpoint {
  return (exchange, deps) => {
    if (!deps.settings.compat.includes(product)) throw new HeadraceError('HR_ROUTE_NOT_FOUND');
    exchange.tool = product;
    // It would cost as much as a GET.
    if (exchange.method === 'HEAD') throw new HeadraceError('HR_ROUTE_METHOD', { headers: ['allow', 'GET, POST'] });
    // Where keys are needed, a page has none, unless it is meant to.
    if (!deps.settings.keys.required && isOfForeignPage(exchange, deps.settings)) {
      if (authenticate(exchange, deps).credential.kind !== 'good') throw new HeadraceError('HR_TOOL_ORIGIN');
    }
    endpoint(exchange, deps);
  };
}

/**
 * Refuses a body of another type than JSON: web pages of all origins may send forms and texts (Fetch, "CORS-safelisted").
 */
function checkType({ contentType }: Exchange): void {
  if (contentType === undefined || /^application\/json\s*(;|$)/i.test(contentType.trim())) return;
  throw invalidRequest(['body'], 'Content-Type should be application/json', 'model_attributes_type');
}

/** A search of another product. */
function searchIn<Foreign extends ForeignSearch>(
  product: Product,
  read: (exchange: Exchange, deps: ApiDeps, body: Buffer) => Foreign,
  print: (foreign: Foreign, answer: SearchAnswer, requestId: string) => object,
  keys: KeyPlaces = {},
): Endpoint {
  const endpoint = searchEndpoint<SearchAsk & { readonly foreign: Foreign }>({
    read(exchange, deps, body) {
      const foreign = read(exchange, deps, body);
      try {
        return { ...searchAskOf(deps, foreign.search), foreign };
      } catch (error) {
        throw renamedMistakes(error, foreign.names ?? {});
      }
    },
    respond({ exchange, input }, answer, headers) {
      respondJson(exchange, 200, print(input.foreign, answer, exchange.requestId), headers);
    },
  });
  return served(product, paid({ ...endpoint, ...keys }));
}

/** Pages in the terms of another product. */
type PagesIn<Foreign extends ForeignPages> = PagesAsk & { readonly foreign: Foreign };

function pagesOf<Foreign extends ForeignPages>(foreign: Foreign): PagesIn<Foreign> {
  const { isBatch, pages } = pagesAsk(foreign.fetches[0]);
  const { alsoHtml = false } = foreign;
  return { isBatch, pages: alsoHtml ? pages.map((page) => ({ ...page, alsoHtml })) : pages, foreign };
}

export const tavilySearch: Endpoint = searchIn(
  'tavily',
  (exchange, deps, body) => {
    checkType(exchange);
    return readTavilySearch(body, deps.epochMs());
  },
  printTavilySearch,
  { keyInBody: tavilyKey },
);

const extract = pagesEndpoint({
  read(exchange, _deps, body) {
    checkType(exchange);
    return pagesOf(readTavilyExtract(body));
  },
  respond({ deps, exchange, input }, pages, headers) {
    const elapsedMs = deps.clock.now() - exchange.receivedMs;
    respondLargeJson(exchange, 200, printTavilyExtract(input.foreign, pages, elapsedMs, exchange.requestId), headers);
  },
});

export const tavilyExtract: Endpoint = served('tavily', paid({ ...extract, keyInBody: tavilyKey }));

export const searxngSearch: Endpoint = searchIn(
  'searxng',
  (exchange, { settings: { search } }, body) => {
    const engines = new Set([...search.ids, ...Object.keys(search.engines)]);
    const isForm = /urlencoded/i.test(exchange.contentType ?? '');
    return readSearxng(exchange.query, isForm ? body.toString('utf8') : '', engines);
  },
  printSearxng,
  // Clients of SearXNG know of no keys, but of URLs with a user and a password.
  { keyInHead: ({ authorization }) => basicKey(authorization) },
);

/** Not read as anything but text: pages of others are no pages of this origin. */
const TEXT = ['content-type', 'text/plain; charset=utf-8', 'x-content-type-options', 'nosniff'];

const JINA = '/jina';

export const jinaRead: Endpoint = served(
  'jina',
  paid(
    pagesEndpoint({
      read(exchange, _deps, body) {
        const { contentType, path, query } = exchange;
        const header = (name: string): string | undefined => exchange.header(name);
        return pagesOf(readJina({ target: path.slice(JINA.length), query, body, contentType, header }));
      },
      respond({ exchange, input }, [page], headers) {
        const answer = page?.answer as PageAnswer;
        if (input.foreign.isJson) respondLargeJson(exchange, 200, printJinaJson(input.foreign, answer), headers);
        else respondLargeText(exchange, 200, [...TEXT, ...headers], printJinaText(input.foreign, answer));
      },
    }),
  ),
);

/** A page in one format, or in several: it is read and priced once. */
const scrape = paid(
  pagesEndpoint({
    read(exchange, _deps, body) {
      checkType(exchange);
      return pagesOf(readFirecrawlScrape(body));
    },
    respond({ exchange, input }, pages, headers) {
      respondLargeJson(exchange, 200, printFirecrawlScrape(input.foreign, pages, exchange.requestId), headers);
    },
  }),
);

export const firecrawlScrape: Endpoint = served('firecrawl', scrape);

export function firecrawlSearch(version: FirecrawlVersion): Endpoint {
  const read = (exchange: Exchange, _deps: ApiDeps, body: Buffer): FirecrawlSearch => {
    checkType(exchange);
    return readFirecrawlSearch(version, body);
  };
  return searchIn('firecrawl', read, printFirecrawlSearch);
}

/** Firecrawl's paths at the root: those of its Python client, which drops the path of a base URL. Without Firecrawl, `other` serves them. */
export function atRoot(endpoint: Endpoint, other: { readonly path: string; readonly serve: Endpoint }): Endpoint {
  return (exchange, deps) => {
    if (deps.settings.compat.includes('firecrawl')) {
      endpoint(exchange, deps);
      return;
    }
    exchange.endpoint = other.path;
    other.serve(exchange, deps);
  };
}

/** What else clients send there. */
const OTHER_AT_ROOT =
  /^\/(?:v1\/(?:deep-research|llmstxt)|v2\/(?:agent|browser|monitor|parse|scrape\/.+|search\/.+)|v[12]\/(?:batch\/scrape|concurrency-check|crawl|extract|map|team))(?:\/|$)/;

/** Throws for these paths of Firecrawl, which are as unknown as below `/firecrawl`. */
export function refuseOfFirecrawl(exchange: Exchange, { settings }: ApiDeps): void {
  if (!OTHER_AT_ROOT.test(exchange.path) || !settings.compat.includes('firecrawl')) return;
  exchange.tool = 'firecrawl';
  throw new HeadraceError('HR_ROUTE_UNSERVED', { subject: unservedReason('/firecrawl') ?? '' });
}
