// The part of the route table with the interfaces of other products. What of their requests has an effect is in docs/search-clients.md.

import {
  atRoot,
  firecrawlScrape,
  firecrawlSearch,
  jinaRead,
  searxngSearch,
  tavilyExtract,
  tavilySearch,
} from './compat.ts';
import type { Endpoint } from './deps.ts';
import type { ResponseDoc, RouteDoc } from './openapi.ts';
import type { ObjectSchema, Schema } from './schema.ts';

/** A route of the table. */
interface CompatRoute extends RouteDoc {
  readonly serve: Endpoint;
  readonly extra: true;
}

const TEXT = { type: 'string' } as const;
const TEXTS = { type: 'array', items: TEXT } as const;
const COUNT = { type: 'integer', minimum: 0 } as const;

/** Members that are not described here are taken too. */
function request(name: string, fields: Readonly<Record<string, Schema>>): ObjectSchema {
  return { type: 'object', name, fields, additional: true };
}

const tavilySearchRequest = request('TavilySearchRequest', {
  query: { ...TEXT, required: true, description: 'The search text.', example: 'How does a water mill work?' },
  max_results: { ...COUNT, maximum: 100, default: 5, description: 'Most results in all.' },
  topic: { type: 'enum', values: ['general', 'news', 'finance'], default: 'general' },
  time_range: { type: 'enum', values: ['day', 'week', 'month', 'year', 'd', 'w', 'm', 'y'] },
  start_date: { type: 'format', format: 'date' },
  end_date: { type: 'format', format: 'date' },
  include_domains: TEXTS,
  exclude_domains: TEXTS,
  country: { ...TEXT, description: 'Name or ISO 3166-1 code.' },
  include_raw_content: {
    type: 'any',
    description: '`true`, `markdown` or `text`: the pages of the first ten results.',
  },
});

const tavilyExtractRequest = request('TavilyExtractRequest', {
  urls: { ...TEXTS, required: true, description: 'Up to 20; one may be a text.', example: ['https://example.com/'] },
  format: { type: 'enum', values: ['markdown', 'text'], default: 'markdown' },
  include_images: { type: 'boolean', default: false },
});

const firecrawlScrapeRequest = request('FirecrawlScrapeRequest', {
  url: { ...TEXT, required: true, example: 'https://example.com/' },
  formats: { ...TEXTS, default: ['markdown'], description: '`markdown`, `html`, `links`, `images`.' },
  maxAge: { ...COUNT, description: 'Oldest page in milliseconds.' },
});

const firecrawlSearchRequest = request('FirecrawlSearchRequest', {
  query: { ...TEXT, required: true, description: 'The search text.', example: 'How does a water mill work?' },
  limit: { type: 'integer', minimum: 1, maximum: 100, default: 10, description: 'Most results in all.' },
  sources: { ...TEXTS, default: ['web'], description: 'One of `web`, `news`, `images`.' },
  tbs: { ...TEXT, description: 'Period, such as `qdr:w`.' },
  location: TEXT,
  country: TEXT,
  includeDomains: TEXTS,
  excludeDomains: TEXTS,
  scrapeOptions: { type: 'any', description: '`{"formats": ["markdown"]}`: the pages of the first ten results.' },
});

const tavilyError: ObjectSchema = {
  type: 'object',
  name: 'TavilyError',
  fields: { detail: { type: 'object', required: true, fields: { error: { ...TEXT, required: true } } } },
};

const searxngError: ObjectSchema = {
  type: 'object',
  name: 'SearxngError',
  fields: { error: { ...TEXT, required: true } },
};

const jinaError: ObjectSchema = {
  type: 'object',
  name: 'ReaderError',
  fields: {
    data: { type: 'any', required: true, description: 'Always `null`.' },
    code: { type: 'integer', required: true, description: 'The status of the answer.' },
    name: { ...TEXT, required: true },
    status: { type: 'integer', required: true },
    message: { ...TEXT, required: true },
    readableMessage: { ...TEXT, required: true },
  },
};

const firecrawlError: ObjectSchema = {
  type: 'object',
  name: 'FirecrawlError',
  fields: {
    success: { type: 'boolean', required: true, description: 'Always `false`.' },
    error: { ...TEXT, required: true },
    code: { ...TEXT, required: true },
    details: { type: 'any', description: 'The mistakes of a request.' },
  },
};

const ERRORS: Readonly<Record<number, ResponseDoc>> = {
  400: { description: 'A mistake in the request, or an address that may not be fetched' },
  401: { description: 'No key, or a bad one' },
  404: { description: 'The product is not among the setting `compat`' },
};

const SHARED = { tag: 'Search as other products', auth: 'key', extra: true } as const;
const TAVILY = { ...SHARED, method: 'POST', errorBody: tavilyError } as const;
const FIRECRAWL = { ...SHARED, method: 'POST', errorBody: firecrawlError } as const;

/** Statuses by which the clients of Tavily choose their exceptions. */
const TAVILY_ERRORS: Readonly<Record<number, ResponseDoc>> = {
  ...ERRORS,
  432: { description: 'The budget of the key is used up' },
  433: { description: 'Not enough credit' },
};

const searxngParameters = [
  { name: 'q', schema: { ...TEXT, required: true, description: 'The search text.' } },
  { name: 'format', schema: { type: 'enum', values: ['json'], required: true, description: 'Others answer 403.' } },
  {
    name: 'categories',
    schema: { type: 'enum', values: ['general', 'news', 'images', 'science'], description: 'The first of a list.' },
  },
  { name: 'engines', schema: { ...TEXT, description: 'Ids of engines, with commas; unknown ones are left out.' } },
  { name: 'language', schema: { ...TEXT, description: 'Such as `en` or `en-US`.' } },
  { name: 'pageno', schema: { type: 'integer', minimum: 1, maximum: 10, description: 'Page of the results.' } },
  { name: 'time_range', schema: { type: 'enum', values: ['day', 'week', 'month', 'year'], description: 'Period.' } },
  { name: 'safesearch', schema: { type: 'enum', values: ['0', '1', '2'], description: 'Off, moderate, strict.' } },
] as const;

function searxng(method: 'GET' | 'POST', summary: string): CompatRoute {
  return {
    ...SHARED,
    method,
    path: '/searxng/search',
    summary,
    query: method === 'GET' ? searxngParameters : [],
    errorBody: searxngError,
    responses: {
      200: { description: 'The results' },
      ...ERRORS,
      403: { description: 'Another format than JSON' },
      503: { description: 'Every engine asked has failed' },
    },
    serve: searxngSearch,
  };
}

function jina(method: 'GET' | 'POST', path: string, summary: string): CompatRoute {
  return {
    ...SHARED,
    method,
    path,
    summary,
    errorBody: jinaError,
    responses: {
      200: {
        description: 'The page as text, or as JSON for `accept: application/json`',
        contentTypes: ['text/plain', 'application/json'],
      },
      ...ERRORS,
      502: { description: 'The page could not be fetched or read' },
    },
    serve: jinaRead,
  };
}

function scrape(path: string, version: 1 | 2, serve: Endpoint): CompatRoute {
  return {
    ...FIRECRAWL,
    path,
    summary: `A page, as version ${version} of Firecrawl’s interface has it`,
    request: firecrawlScrapeRequest,
    responses: {
      200: { description: 'The page in the formats asked for' },
      ...ERRORS,
      408: { description: 'The page took too long' },
      500: { description: 'The page could not be fetched or read' },
    },
    serve,
  };
}

function search(path: string, version: 1 | 2, serve: Endpoint): CompatRoute {
  return {
    ...FIRECRAWL,
    path,
    summary: `A search, as version ${version} of Firecrawl’s interface has it`,
    request: firecrawlSearchRequest,
    responses: {
      200: { description: 'The results' },
      ...ERRORS,
      503: { description: 'Every engine asked has failed' },
    },
    serve,
  };
}

/** `catchAll` serves Firecrawl's paths at the root where Firecrawl is off. */
export function compatRoutes(catchAll: { readonly path: string; readonly serve: Endpoint }): readonly CompatRoute[] {
  return [
    {
      ...TAVILY,
      path: '/tavily/search',
      summary: 'A search, as Tavily’s interface has it',
      request: tavilySearchRequest,
      responses: {
        200: { description: 'The results' },
        ...TAVILY_ERRORS,
        503: { description: 'Every engine asked has failed' },
      },
      serve: tavilySearch,
    },
    {
      ...TAVILY,
      path: '/tavily/extract',
      summary: 'Pages, as Tavily’s interface has them',
      request: tavilyExtractRequest,
      responses: { 200: { description: 'The pages, and those that could not be read' }, ...TAVILY_ERRORS },
      serve: tavilyExtract,
    },
    searxng('GET', 'A search, as SearXNG’s interface has it'),
    searxng('POST', 'The same with the parameters in a form'),
    jina('GET', '/jina/{url}', 'A page, as Jina’s Reader has it: its URL follows the path'),
    jina('POST', '/jina/{url}', 'The same; without a URL in the path, `url` is in the body'),
    scrape('/firecrawl/v2/scrape', 2, firecrawlScrape),
    search('/firecrawl/v2/search', 2, firecrawlSearch(2)),
    scrape('/firecrawl/v1/scrape', 1, firecrawlScrape),
    search('/firecrawl/v1/search', 1, firecrawlSearch(1)),
    scrape('/v2/scrape', 2, atRoot(firecrawlScrape, catchAll)),
    search('/v2/search', 2, atRoot(firecrawlSearch(2), catchAll)),
    scrape('/v1/scrape', 1, atRoot(firecrawlScrape, catchAll)),
    search('/v1/search', 1, atRoot(firecrawlSearch(1), catchAll)),
  ];
}
