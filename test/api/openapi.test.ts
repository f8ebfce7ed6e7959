// The OpenAPI document: its structure by the rules of OpenAPI 3.1, and that it follows the routes and the error table.
import t from 'tap';
import { ERRORS } from '../../src/errors.ts';
import { openapiDocument } from '../../src/api/openapi.ts';
import type { RouteDoc } from '../../src/api/openapi.ts';
import { ROUTES } from '../../src/api/routes.ts';
import { creditPurchase, proxyRequest, searchRequest } from '../../src/api/schema.ts';

const ok = { 200: { description: 'The answer.', schema: { type: 'any' } } } as const;
const open = { tag: 'Models', auth: 'none', responses: ok } as const;
const routes: RouteDoc[] = [
  { ...open, method: 'GET', path: '/svc/models', summary: 'Servers of every model' },
  { ...open, method: 'GET', path: '/aggregator/models', summary: 'Aggregator list' },
  { ...open, method: 'GET', path: '/v1/models/{id}', summary: 'One model', description: 'By its id.' },
  { ...open, method: 'GET', path: '/v1/models-id', summary: 'A path that reads alike' },
  { ...open, method: 'GET', path: '/svcx/other', summary: 'A path that begins alike' },
  {
    ...open,
    method: 'GET',
    path: '/metrics',
    summary: 'Text',
    responses: { 200: { description: 'Text.', contentTypes: ['text/plain'] } },
  },
  { ...open, method: 'POST', path: '/svc/credits', summary: 'Buy', tag: 'Credits', request: creditPurchase },
  {
    method: 'POST',
    path: '/search',
    summary: 'Search',
    tag: 'Search',
    auth: 'key',
    request: searchRequest,
    responses: { ...ok, 503: { description: 'Every engine failed.' } },
  },
  {
    method: 'POST',
    path: '/{full_path}',
    summary: 'Forward',
    tag: 'Inference',
    auth: 'key',
    request: proxyRequest,
    streams: true,
    responses: ok,
    cookie: { name: 'preferred_instances', description: 'Keeps a client on its server.', default: '{}' },
  },
];
const api = openapiDocument(routes, { servicePrefix: 'svc', listingPrefix: 'aggregator' });
// As a client sees it, and as plain data for the walks below.
const sent = JSON.parse(JSON.stringify(api)) as typeof api;

interface Operation {
  operationId: string;
  tags: string[];
  security: object[];
  parameters?: { name: string; in: string; required: boolean; schema: object }[];
  requestBody?: { required: boolean; content: Record<string, { schema: object }> };
  responses: Record<string, { $ref?: string; description?: string; content?: object; headers?: object }>;
}

const operations = Object.entries(sent.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    path,
    method,
    operation: operation as unknown as Operation,
  })),
);

function operationAt(path: string, method: string): Operation {
  return sent.paths[path]?.[method] as unknown as Operation;
}

function walk(node: unknown, visit: (node: Record<string, unknown>) => void): void {
  if (typeof node !== 'object' || node === null) return;
  visit(node as Record<string, unknown>);
  for (const inner of Object.values(node)) walk(inner, visit);
}

t.test('the document says its versions', (t) => {
  t.equal(sent.openapi, '3.1.0');
  t.equal(sent.info.version, '0.1.0');
  t.equal(operations.length, routes.length);
  t.end();
});

t.test('every reference leads somewhere', (t) => {
  let references = 0;
  walk(sent, (node) => {
    if (typeof node['$ref'] !== 'string') return;
    references++;
    const target = node['$ref']
      .replace('#/', '')
      .split('/')
      .reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], sent);
    t.type(target, 'object', node['$ref']);
  });
  t.ok(references > 20);
  t.end();
});

t.test('operation ids are unique identifiers', (t) => {
  const ids = operations.map(({ operation }) => operation.operationId);
  t.equal(new Set(ids).size, ids.length);
  for (const id of ids) t.match(id, /^(get|post)_[a-zA-Z\d_]+$/);
  t.end();
});

t.test('path parameters are declared, required and in the path', (t) => {
  for (const { path, operation } of operations) {
    const inPath = [...path.matchAll(/\{(.+?)\}/g)].map(([, name]) => name);
    const declared = (operation.parameters ?? []).filter((parameter) => parameter.in === 'path');
    t.strictSame(
      declared.map(({ name }) => name),
      inPath,
      path,
    );
    t.ok(declared.every(({ required }) => required));
  }
  t.end();
});

t.test('every operation has a declared tag and answers with descriptions', (t) => {
  const tags = sent.tags.map(({ name }) => name);
  t.strictSame(tags, ['Models', 'Credits', 'Search', 'Inference']);
  for (const { operation } of operations) {
    t.ok(operation.tags.every((tag) => tags.includes(tag)));
    for (const [status, response] of Object.entries(operation.responses)) {
      t.match(status, /^([1-5]\d\d|default)$/);
      t.ok(response.$ref !== undefined || typeof response.description === 'string');
    }
  }
  t.end();
});

t.test('a key and a body bring the answers that follow from them', (t) => {
  const search = operationAt('/search', 'post');
  t.strictSame(search.security, [{ bearer: [] }, { apiKey: [] }]);
  t.strictSame(Object.keys(search.responses), ['200', '400', '401', '408', '413', '422', '503', 'default']);
  t.match(search.requestBody, {
    required: true,
    content: { 'application/json': { schema: { $ref: '#/components/schemas/SearchRequest' } } },
  });
  t.match(search.responses['503'], {
    description: 'Every engine failed.',
    headers: { 'Retry-After': {} },
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
  });
  const list = operationAt('/svc/models', 'get');
  t.strictSame(list.security, []);
  t.strictSame(Object.keys(list.responses), ['200', 'default']);
  t.match(sent.components.responses['Error422'], {
    content: { 'application/json': { schema: { $ref: '#/components/schemas/HTTPValidationError' } } },
  });
  t.end();
});

t.test('a streaming route answers with events beside JSON and names its cookie', (t) => {
  const proxy = operationAt('/{full_path}', 'post');
  t.strictSame(Object.keys(proxy.responses['200']?.content ?? {}), ['application/json', 'text/event-stream']);
  t.match(proxy.parameters?.[1], { name: 'preferred_instances', in: 'cookie', schema: { default: '{}' } });
  t.strictSame(operationAt('/metrics', 'get').responses['200']?.content, { 'text/plain': {} });
  t.end();
});

t.test('answers have the types that they are sent with', (t) => {
  const real = openapiDocument(ROUTES, { servicePrefix: 'svc', listingPrefix: 'aggregator' });
  const typesOf = (path: string, method: string, status: string): string[] => {
    const operation = real.paths[path]?.[method] as unknown as Operation | undefined;
    return Object.keys(operation?.responses[status]?.content ?? {});
  };
  const json = ['application/json'];
  for (const path of ['/svc/models', '/v1/models', '/openapi.json', '/svc/auth/check'])
    t.same(typesOf(path, 'get', '200'), json, path);
  for (const path of ['/search', '/search/fetch', '/tavily/search', '/v1/search'])
    t.same(typesOf(path, 'post', '200'), json, path);
  const streams = [...json, 'text/event-stream'];
  t.same(typesOf('/v1/responses/{id}', 'get', '200'), streams);
  t.same(typesOf('/{full_path}', 'post', '200'), streams);
  t.same(typesOf('/', 'get', '200'), [...json, 'text/html']);
  t.same(typesOf('/jina/{url}', 'get', '200'), ['text/plain', ...json]);
  t.same(typesOf('/mcp', 'post', '202'), [], 'a notification has no answer');
  t.same(typesOf('/v1/responses', 'get', '101'), [], 'nor has a socket');
  t.end();
});

t.test('every error of the table is in the document', (t) => {
  t.strictSame(sent['x-headrace-errors'], JSON.parse(JSON.stringify(ERRORS)));
  for (const [code, { status }] of Object.entries(ERRORS)) {
    const response = sent.components.responses[`Error${status}`] as {
      headers: Record<string, { schema: { enum: string[] } }>;
    };
    t.ok(response.headers['x-headrace-error']?.schema.enum.includes(code), code);
  }
  t.end();
});

t.test('configured prefixes replace the neutral ones and nothing else', (t) => {
  const renamed = openapiDocument(routes, { servicePrefix: 'acme', listingPrefix: 'market' });
  const paths = Object.keys(renamed.paths);
  t.ok(paths.includes('/acme/models') && paths.includes('/acme/credits') && paths.includes('/market/models'));
  t.ok(paths.includes('/svcx/other'));
  t.notOk(paths.includes('/svc/models'));
  t.end();
});
