// The table of public endpoints, from which requests are routed and `/openapi.json` and the API reference in docs/ are
// generated; and the router of a data plane.

import { HeadraceError } from '../errors.ts';
import type { Cors } from '../ingress/cors.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { AFFINITY_COOKIE } from '../routing/index.ts';
import {
  ACCOUNT,
  account,
  ACCOUNT_PARAMETERS,
  ACCOUNT_REQUEST,
  ACCOUNT_REQUESTS,
  accountRequest,
  accountRequests,
  REQUESTS_PARAMETERS,
} from './account.ts';
import { compatRoutes } from './compat-routes.ts';
import { refuseOfFirecrawl } from './compat.ts';
import { countTokens } from './count-tokens.ts';
import { credits } from './credits.ts';
import { DIALECT_DOCS, OTHER_EXAMPLES } from './dialect-docs.ts';
import { docsPage, docsPolicy } from './docs-page.ts';
import { fetchPage } from './fetch.ts';
import { authCheck, health } from './health.ts';
import { index, INDEX } from './index-page.ts';
import { forward } from './inference.ts';
import { aggregator, discovery, model, models, respondRendered } from './lists.ts';
import { openapiDocument, type RouteDoc } from './openapi.ts';
import { mcp } from './mcp.ts';
import { pathFault } from '../upstream/index.ts';
import { aliasedPath } from './path-aliases.ts';
import { hasSdkMark, refuse } from './refuse.ts';
import { creditPurchase, fetchRequest, proxyRequest, type Schema, searchRequest } from './schema.ts';
import {
  cancelResponse,
  deleteResponse,
  INPUT_ITEM_PARAMETERS,
  inputItems,
  response,
  RESPONSE_PARAMETERS,
} from './responses.ts';
import { responseSocket } from './response-socket.ts';
import { search, searchSchemaOf } from './search.ts';
import { controlReason, unservedReason } from './unserved-paths.ts';
import type { ApiDeps, Endpoint } from './deps.ts';

/** A public endpoint. `/svc` and `/aggregator` in its path stand for the configured prefixes. */
export interface Route extends RouteDoc {
  readonly serve: Endpoint;
  /** Served for people and tools, beside the endpoints that clients need. */
  readonly extra?: boolean;
}

const HEALTH: Schema = {
  type: 'object',
  fields: {
    status: { type: 'string', required: true, description: '`ok`, `starting` or `draining`' },
    keys_loaded: { type: 'boolean' },
    healthy_models: { type: 'integer' },
    prices_loaded: { type: 'boolean' },
    degraded_models: {
      type: 'array',
      description: 'Models with servers that may not be asked, where there are any',
      items: {
        type: 'object',
        fields: {
          model: { type: 'string' },
          servers: { type: 'integer' },
          up: { type: 'integer', description: 'Servers that may be asked' },
          reasons: { type: 'array', items: { type: 'string' }, description: 'Why the others may not be' },
        },
      },
    },
    ledger: {
      type: 'object',
      description: 'Only while work on the store fails; what is free, and what leases cover, is served meanwhile',
      fields: { failing: { type: 'boolean', description: 'True' } },
    },
    cluster: {
      type: 'object',
      description:
        'The link to sibling gateways, where the setting `cluster.url` is set; without it the gateway goes on alone',
      fields: {
        connected: { type: 'boolean', description: 'Whether Redis or Valkey answers' },
        gateways: { type: 'integer', description: 'Gateways that are alive, this one included' },
      },
    },
  },
};

const MCP_MESSAGE: Schema = {
  type: 'object',
  additional: true,
  fields: {
    jsonrpc: { type: 'enum', values: ['2.0'], required: true },
    method: { type: 'string', required: true, example: 'tools/list' },
    id: { type: 'any', description: 'Of a request: a text or a number.', example: 1 },
    params: { type: 'any' },
  },
};

/** Of the protocol, or of the gateway. */
const MCP_REFUSAL: Schema = {
  type: 'object',
  additional: true,
  fields: {
    jsonrpc: { type: 'string', description: 'Of the protocol: always `2.0`.' },
    error: {
      type: 'object',
      description: 'Of the protocol.',
      additional: true,
      fields: { code: { type: 'integer', required: true }, message: { type: 'string', required: true } },
    },
    detail: { type: 'string', description: 'Of the gateway: what went wrong, in one sentence.' },
  },
};

const PURCHASED: Schema = {
  type: 'object',
  fields: {
    status: { type: 'string', required: true, description: 'Always `success`' },
    credits_transferred: { type: 'integer', required: true, description: 'Millionths of a USD' },
    recipient: { type: 'string', required: true },
    item_hash: { type: 'string', required: true },
  },
};

const COOKIE = {
  name: AFFINITY_COOKIE,
  description: 'JSON object text from model id to the base URL of the server that served it; send back what you get.',
  default: '{}',
};

/** What the document says about the dialect of a path. */
function documented(path: string): Pick<RouteDoc, 'dialect' | 'examples'> {
  const dialect = DIALECT_DOCS[path];
  const examples = dialect?.examples ?? OTHER_EXAMPLES[path];
  return { ...(dialect !== undefined && { dialect }), ...(examples !== undefined && { examples }) };
}

function proxied(path: string, summary: string, streams: boolean): Route {
  return {
    method: 'POST',
    path,
    summary,
    tag: 'Inference',
    auth: 'key',
    request: proxyRequest,
    ...documented(path),
    responses: {
      200: { description: 'The answer of a server that runs the model' },
      404: { description: 'No such model' },
      502: { description: 'The servers refuse the credentials of the gateway' },
      503: { description: 'All servers of the model failed' },
    },
    streams,
    cookie: COOKIE,
    serve: forward,
  };
}

function counted(path: string, dialect: 'messages' | 'responses' | 'chat'): Route {
  return {
    method: 'POST',
    path,
    summary: `Tokens of a prompt of the ${dialect} dialect; free of charge`,
    tag: 'Inference',
    auth: 'key',
    request: proxyRequest,
    ...documented(path),
    responses: {
      200: { description: '`input_tokens`; an estimate where `x-headrace-estimate` is `true`' },
      404: { description: 'No such model' },
    },
    serve: countTokens(dialect),
    extra: true,
  };
}

const CATCH_ALL = '/{full_path}';

const STORED = { tag: 'Inference', auth: 'key', extra: true } as const;
const NOT_STORED = {
  404: { description: 'No such response of this account' },
  503: { description: 'The store does not answer' },
} as const;

/** Stored responses, one by one. */
const STORED_RESPONSES: readonly Route[] = [
  {
    ...STORED,
    method: 'GET',
    path: '/v1/responses/{id}',
    summary: 'A stored response, OpenAI-compatible',
    query: RESPONSE_PARAMETERS,
    streams: true,
    responses: { 200: { description: 'The response object' }, ...NOT_STORED },
    serve: response,
  },
  {
    ...STORED,
    method: 'DELETE',
    path: '/v1/responses/{id}',
    summary: 'Removes a stored response',
    responses: { 200: { description: 'It is gone' }, ...NOT_STORED },
    serve: deleteResponse,
  },
  {
    ...STORED,
    method: 'POST',
    path: '/v1/responses/{id}/cancel',
    summary: 'Cancels a response that runs in the background',
    responses: {
      200: { description: 'The response object' },
      400: { description: 'It does not run in the background' },
      ...NOT_STORED,
    },
    serve: cancelResponse,
  },
  {
    ...STORED,
    method: 'GET',
    path: '/v1/responses/{id}/input_items',
    summary: 'Input items of a stored response, OpenAI-compatible',
    query: INPUT_ITEM_PARAMETERS,
    responses: { 200: { description: 'A page of them' }, ...NOT_STORED },
    serve: inputItems,
  },
];

/** All public endpoints, in the order in which the documents show them. */
export const ROUTES: readonly Route[] = [
  proxied('/v1/chat/completions', 'Chat completion, OpenAI-compatible', true),
  proxied('/v1/completions', 'Text completion, OpenAI-compatible', true),
  proxied('/v1/responses', 'Responses, OpenAI-compatible', true),
  {
    method: 'GET',
    path: '/v1/responses',
    summary: 'Responses over a WebSocket: messages `response.create`, events as JSON text messages',
    tag: 'Inference',
    auth: 'key',
    responses: {
      101: { description: 'The socket is open', contentTypes: [] },
      405: { description: 'The request does not ask for a WebSocket' },
      426: { description: 'Another version of the protocol, or a server without WebSockets' },
    },
    serve: responseSocket,
    extra: true,
  },
  ...STORED_RESPONSES,
  proxied('/v1/messages', 'Messages', true),
  counted('/v1/messages/count_tokens', 'messages'),
  counted('/v1/responses/input_tokens', 'responses'),
  counted('/v1/chat/completions/input_tokens', 'chat'),
  proxied('/completions', 'Llama-style completion', true),
  {
    ...proxied(CATCH_ALL, 'Any other endpoint of the model servers whose JSON or multipart body names a model', true),
    serve(exchange, deps) {
      refuseOfFirecrawl(exchange, deps);
      forward(exchange, deps);
    },
  },
  {
    method: 'GET',
    path: '/svc/models',
    summary: 'Discovery map: every model and the servers behind it',
    tag: 'Models',
    auth: 'none',
    responses: { 200: { description: 'Model id to servers' } },
    serve: discovery,
  },
  {
    method: 'GET',
    path: '/v1/models',
    summary: 'List of models, OpenAI format',
    tag: 'Models',
    auth: 'none',
    responses: { 200: { description: 'The list, with context length, hub id and prices where known' } },
    serve: models,
  },
  {
    method: 'GET',
    path: '/v1/models/{model}',
    summary: 'One entry of the list',
    tag: 'Models',
    auth: 'none',
    responses: {
      200: { description: 'The entry' },
      404: { description: 'No such model' },
      503: { description: 'The gateway is starting, and the model may still be found' },
    },
    serve: model,
    extra: true,
  },
  {
    method: 'GET',
    path: '/aggregator/models',
    summary: 'List of priced chat models for model aggregators, schema 2.4',
    tag: 'Models',
    auth: 'none',
    responses: { 200: { description: 'The list' }, 503: { description: 'Prices are not loaded yet' } },
    serve: aggregator,
  },
  {
    method: 'POST',
    path: '/search',
    summary: 'Search: several engines at once, one merged answer',
    tag: 'Search',
    auth: 'key',
    request: searchRequest,
    responses: {
      200: { description: 'Results, with text where it is asked for; engines that failed are named in `meta`' },
      503: { description: 'Every engine asked has failed' },
    },
    serve: search,
  },
  {
    method: 'POST',
    path: '/search/fetch',
    summary: 'Fetch: a page, or several, as clean text or Markdown',
    tag: 'Search',
    auth: 'key',
    request: fetchRequest,
    ...documented('/search/fetch'),
    responses: {
      200: { description: 'Final URL, title, content and word count; of `urls` a list, each with its own error' },
      400: { description: 'The address may not be fetched' },
      403: { description: 'robots.txt disallows the page, where the gateway asks for it' },
      415: { description: 'The page is not text' },
      502: { description: 'The page could not be fetched or read' },
      503: { description: 'Too many pages are waiting' },
      504: { description: 'The page took too long' },
    },
    serve: fetchPage,
  },
  {
    method: 'POST',
    path: '/mcp',
    summary: 'Search and fetch as tools of agents: Model Context Protocol, Streamable HTTP, without sessions',
    description: 'A message of JSON-RPC 2.0, as the protocol describes it. `GET` and `DELETE` answer 405.',
    tag: 'Search',
    auth: 'key',
    request: MCP_MESSAGE,
    responses: {
      200: { description: 'The response, or a stream with progress before it' },
      202: { description: 'A notification was taken', contentTypes: [] },
      400: { description: 'No message of the protocol, or of no revision that is known', schema: MCP_REFUSAL },
      403: { description: 'A web page of another origin without a key' },
      406: { description: '`accept` must name `application/json` and `text/event-stream`', schema: MCP_REFUSAL },
      415: { description: 'The body must be `application/json`', schema: MCP_REFUSAL },
    },
    streams: true,
    serve: mcp,
    extra: true,
  },
  ...compatRoutes({ path: CATCH_ALL, serve: forward }),
  {
    method: 'GET',
    path: '/health',
    summary: 'Whether the gateway is ready',
    tag: 'Service',
    auth: 'none',
    responses: {
      200: { description: 'Ready', schema: HEALTH },
      503: { description: 'Starting or draining', schema: HEALTH },
    },
    serve: health,
  },
  {
    method: 'GET',
    path: '/svc/auth/check',
    summary: 'Whether the key is good; costs nothing',
    tag: 'Service',
    auth: 'key',
    responses: { 200: { description: 'The key is good' } },
    serve: authCheck,
  },
  {
    method: 'GET',
    path: '/svc/account',
    summary: 'Balance, limits and usage of the account of the key',
    tag: 'Account',
    auth: 'key',
    query: ACCOUNT_PARAMETERS,
    responses: {
      200: { description: 'The account', schema: ACCOUNT },
      429: { description: 'The account is read too often' },
      503: { description: 'The ledger does not answer' },
    },
    serve: account,
    extra: true,
  },
  {
    method: 'GET',
    path: '/svc/account/requests',
    summary: 'Requests of the key with their tokens and cost, the newest first',
    tag: 'Account',
    auth: 'key',
    query: REQUESTS_PARAMETERS,
    responses: {
      200: { description: 'A page of them', schema: ACCOUNT_REQUESTS },
      429: { description: 'The account is read too often' },
      503: { description: 'The ledger does not answer' },
    },
    serve: accountRequests,
    extra: true,
  },
  {
    method: 'GET',
    path: '/svc/account/requests/{id}',
    summary: 'One request of the key, by its id or by the request id of its answer',
    tag: 'Account',
    auth: 'key',
    responses: {
      200: { description: 'The request', schema: ACCOUNT_REQUEST },
      404: { description: 'No such request of this key is recorded' },
      429: { description: 'The account is read too often' },
      503: { description: 'The ledger does not answer' },
    },
    serve: accountRequest,
    extra: true,
  },
  {
    method: 'POST',
    path: '/svc/credits',
    summary: 'Credits for an account, paid by x402',
    tag: 'Service',
    auth: 'none',
    request: creditPurchase,
    responses: {
      200: { description: 'The credits are there; `item_hash` is the transaction', schema: PURCHASED },
      400: { description: 'An amount or address that is not for sale, or a malformed payment' },
      402: { description: 'The offer: x402 version 1 in the body, version 2 in `PAYMENT-REQUIRED`' },
      503: { description: 'Payments are off or cannot be checked, or the outcome of this one is not known yet' },
    },
    serve: credits,
  },
  {
    method: 'GET',
    path: '/',
    summary: 'Where to find what: a page for browsers, JSON for other clients',
    tag: 'Service',
    auth: 'none',
    responses: {
      200: {
        description: 'Addresses relative to this one',
        schema: INDEX,
        contentTypes: ['application/json', 'text/html'],
      },
    },
    serve: index,
    extra: true,
  },
  {
    method: 'GET',
    path: '/openapi.json',
    summary: 'This description, OpenAPI 3.1',
    tag: 'Service',
    auth: 'none',
    responses: { 200: { description: 'The document' } },
    serve: openapi,
    extra: true,
  },
  {
    method: 'GET',
    path: '/docs',
    summary: 'This description as a page, with forms to try it',
    tag: 'Service',
    auth: 'none',
    responses: { 200: { description: 'The page', contentTypes: ['text/html'] } },
    serve: docs,
    extra: true,
  },
];

/** The document names the models and the search engines of this gateway. */
function openapi(exchange: Exchange, deps: ApiDeps): void {
  respondRendered(exchange, deps, 'openapi', () => {
    const { search, ...prefixes } = deps.settings;
    const routes = ROUTES.map((each) =>
      each.path === '/search' ? { ...each, request: searchSchemaOf(search) } : each,
    );
    const models = deps.catalog.map(({ id, capabilities = [] }) => ({ id, capabilities }));
    return openapiDocument(routes, prefixes, models);
  });
}

function docs(exchange: Exchange): void {
  const headers = ['content-type', 'text/html; charset=utf-8', 'content-security-policy', docsPolicy];
  // Relative, so that the page works below a mount point.
  exchange.respond(200, headers, Buffer.from(docsPage('openapi.json')));
}

/** A method of the table. */
type Method = Route['method'];

/** A route whose path has parameters. */
interface Pattern {
  readonly path: RegExp;
  readonly route: Route;
}

/** In the order of `Allow`. */
const METHODS: readonly Method[] = ['GET', 'POST', 'DELETE'];

/** Ids of models and URLs have slashes; every other parameter is one segment. */
function patternOf(path: string): RegExp {
  const text = path.split(/(\{[^}]+\})/).map((part) => {
    if (!part.startsWith('{')) return part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    if (part === '{url}') return '.*';
    return part === '{model}' ? '.+' : '[^/]+';
  });
  return new RegExp(`^${text.join('')}$`);
}

/** Finds the endpoint of an exchange and answers what it throws. One per data plane and prefix setting. */
export class Router {
  /** Routes without parameters, by method and path. */
  readonly #exact: Readonly<Record<Method, Map<string, Route>>> = {
    GET: new Map(),
    POST: new Map(),
    DELETE: new Map(),
  };
  readonly #patterns: Readonly<Record<Method, Pattern[]>> = { GET: [], POST: [], DELETE: [] };
  /** Takes every other POST. */
  readonly #catchAll: Route;

  constructor(prefixes: { readonly servicePrefix: string; readonly listingPrefix: string }) {
    for (const route of ROUTES) {
      if (route.path === CATCH_ALL) continue;
      const path = route.path
        .replace(/^\/svc(?=\/)/, `/${prefixes.servicePrefix}`)
        .replace(/^\/aggregator(?=\/)/, `/${prefixes.listingPrefix}`);
      if (path.includes('{')) this.#patterns[route.method].push({ path: patternOf(path), route });
      else this.#exact[route.method].set(path, route);
    }
    this.#catchAll = ROUTES.find(({ path }) => path === CATCH_ALL) as Route;
  }

  /** Serves one exchange; never throws. */
  serve(exchange: Exchange, deps: ApiDeps, cors: Cors): void {
    try {
      cors.admit(exchange);
      this.#route(exchange, deps, cors)?.serve(exchange, deps);
    } catch (thrown) {
      refuse(exchange, deps, thrown);
    }
  }

  #route(exchange: Exchange, deps: ApiDeps, cors: Cors): Route | undefined {
    const { method } = exchange;
    if (method === 'POST') return this.#named(exchange, this.#post(exchange));
    if (method === 'GET' || method === 'HEAD') return this.#named(exchange, this.#other('GET', exchange, deps));
    if (method === 'DELETE') return this.#named(exchange, this.#other('DELETE', exchange, deps));
    this.#unalias(exchange);
    const { path } = exchange;
    if (method === 'OPTIONS') {
      exchange.respond(204, [...cors.preflight(exchange), 'allow', this.#allow(path)], new Uint8Array(0));
      return undefined;
    }
    if (!METHODS.some((each) => this.#find(each, path) !== undefined)) refuseUnserved(unservedReason(path));
    throw this.#refusal(path);
  }

  /** Gives the exchange the path that its path stands for. False where it stands for itself. */
  #unalias(exchange: Exchange): boolean {
    const alias = aliasedPath(exchange.path, () => hasSdkMark(exchange));
    if (alias === undefined) return false;
    exchange.path = alias.path;
    exchange.deployment = alias.model;
    return true;
  }

  #post(exchange: Exchange): Route {
    const { path } = exchange;
    // `*` and the like: CRNs could take it for something else than a path.
    if (!path.startsWith('/')) throw new HeadraceError('HR_ROUTE_NOT_FOUND');
    const route = this.#find('POST', path);
    if (route !== undefined) return route;
    if (this.#unalias(exchange)) return this.#post(exchange);
    if (this.#exact.GET.has(path)) throw this.#refusal(path);
    const fault = pathFault(path);
    if (fault !== null) throw new HeadraceError('HR_REQUEST_MALFORMED', { subject: fault });
    refuseUnserved(unservedReason(path) ?? controlReason(path));
    return this.#catchAll;
  }

  #other(method: 'GET' | 'DELETE', exchange: Exchange, deps: ApiDeps): Route {
    const { path } = exchange;
    const route = this.#find(method, path);
    if (route !== undefined) return route;
    if (this.#unalias(exchange)) return this.#other(method, exchange, deps);
    if (METHODS.some((other) => this.#find(other, path) !== undefined)) throw this.#refusal(path);
    refuseUnserved(unservedReason(path));
    refuseOfFirecrawl(exchange, deps);
    if (method === 'DELETE') throw this.#refusal(path);
    throw new HeadraceError('HR_ROUTE_NOT_FOUND');
  }

  #find(method: Method, path: string): Route | undefined {
    return this.#exact[method].get(path) ?? this.#patterns[method].find((pattern) => pattern.path.test(path))?.route;
  }

  #named(exchange: Exchange, route: Route): Route {
    exchange.endpoint = route.path;
    // The same text as a constant: a part of the head's text is compared by its characters at every later look-up.
    if (exchange.path === route.path) exchange.path = route.path;
    return route;
  }

  /** 405 with the methods of the path. */
  #refusal(path: string): HeadraceError {
    return new HeadraceError('HR_ROUTE_METHOD', { headers: ['allow', this.#allow(path)] });
  }

  #allow(path: string): string {
    const methods = METHODS.filter((method) => this.#find(method, path) !== undefined).map((method) =>
      method === 'GET' ? 'GET, HEAD' : method,
    );
    return [...(methods.length === 0 ? ['POST'] : methods), 'OPTIONS'].join(', ');
  }
}

/** Throws where a path has a reason not to be passed on. */
function refuseUnserved(reason: string | undefined): void {
  if (reason !== undefined) throw new HeadraceError('HR_ROUTE_UNSERVED', { subject: reason });
}
