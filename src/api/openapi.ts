// The OpenAPI 3.1 document of `GET /openapi.json`, generated from the route table, from the schemas that check bodies and from
// the error table.
import { ERRORS } from '../errors.ts';
import type { ErrorCode } from '../errors.ts';
import { type DialectDoc, exampleBody, type ExampleModel, modelIdSchema, type RequestExample } from './dialect-docs.ts';
import type { JsonSchema, ObjectSchema, Schema } from './schema.ts';
import { toJsonSchema } from './schema.ts';

/** One answer of a route. A status of 400 or more without a schema has the error body of the interface. */
export interface ResponseDoc {
  readonly description: string;
  /** Of the first type. */
  readonly schema?: Schema;
  /** Default: `application/json`. None: the answer has no body. */
  readonly contentTypes?: readonly string[];
}

/** What the document says about one route. */
export interface RouteDoc {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Starts with a slash; `{name}` is a path parameter. `/svc` and `/aggregator` stand for the configured prefixes. */
  readonly path: string;
  readonly summary: string;
  readonly description?: string;
  readonly tag: string;
  /** Whether a key is needed; the answer 401 follows from it. */
  readonly auth: 'none' | 'key';
  /** The body; the answers 400, 408, 413 and 422 follow from it. */
  readonly request?: Schema;
  /** Schemas of the dialect that the path speaks, in place of `request` and of the schema of the answer 200. */
  readonly dialect?: DialectDoc;
  /** Bodies that work as they stand, by name. */
  readonly examples?: Readonly<Record<string, RequestExample>>;
  readonly responses: Readonly<Record<number, ResponseDoc>>;
  /** Whether the 2xx answer may also be a stream of server-sent events. */
  readonly streams?: boolean;
  readonly cookie?: { readonly name: string; readonly description: string; readonly default: string };
  /** The body of errors, where it is not that of the interface: that of another product, whose statuses differ too. */
  readonly errorBody?: Schema;
  /** Parameters of the query; the answer 422 follows from them. */
  readonly query?: readonly ParameterDoc[];
}

/** One parameter of a query. */
export interface ParameterDoc {
  readonly name: string;
  readonly schema: Schema;
}

/** The parameters that `readQuery` reads by the schema. */
export function parametersOf({ fields }: ObjectSchema): readonly ParameterDoc[] {
  return Object.entries(fields as Record<string, Schema>).map(([name, schema]) => ({ name, schema }));
}

/** The two path segments an operator may rename, without slashes. */
export interface PathPrefixes {
  readonly servicePrefix: string;
  readonly listingPrefix: string;
}

/** The document, ready for `JSON.stringify`. */
export interface OpenApiDocument {
  readonly openapi: '3.1.0';
  readonly info: { readonly title: string; readonly version: '0.1.0'; readonly description: string };
  readonly servers: readonly { readonly url: string }[];
  readonly tags: readonly { readonly name: string }[];
  /** Path, then method in lower case, to the operation. */
  readonly paths: Record<string, Record<string, JsonSchema>>;
  readonly components: {
    readonly schemas: Record<string, JsonSchema>;
    readonly responses: Record<string, JsonSchema>;
    readonly headers: Record<string, JsonSchema>;
    readonly securitySchemes: Record<string, JsonSchema>;
  };
  /** Every stable error code with status, source and whether the request may be sent again. */
  readonly 'x-headrace-errors': typeof ERRORS;
}

const DESCRIPTION = `One gateway in front of hosted generative models and web search. Every error is JSON with a field
\`detail\`; the stable code of an error the gateway makes itself is in the header \`x-headrace-error\`.`.replaceAll(
  '\n',
  ' ',
);

const errorBody: ObjectSchema<{ detail: string }> = {
  type: 'object',
  name: 'Error',
  fields: { detail: { type: 'string', required: true, description: 'What went wrong, in one sentence.' } },
};

/** Statuses of every route with a body. */
const BODY_STATUSES = [400, 408, 413, 422];
const STATUSES_WITH_RETRY_AFTER = new Set([429, 503]);

/** Describes `routes` under the configured prefixes, with examples for `models`. Routes and tags keep their order. */
export function openapiDocument(
  routes: readonly RouteDoc[],
  prefixes: PathPrefixes,
  models: readonly ExampleModel[] = [],
): OpenApiDocument {
  const schemas: Record<string, JsonSchema> = { ...validationSchemas(), ModelId: modelIdSchema(models) };
  const paths: Record<string, Record<string, JsonSchema>> = {};
  const ids = new Set<string>();
  for (const route of routes) {
    const path = withPrefixes(route.path, prefixes);
    const operation = { operationId: operationId(route.method, path, ids), ...describe(route, path, schemas, models) };
    (paths[path] ??= {})[route.method.toLowerCase()] = operation;
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Headrace', version: '0.1.0', description: DESCRIPTION },
    servers: [{ url: '/' }],
    tags: [...new Set(routes.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      schemas,
      responses: errorResponses(schemas),
      headers: commonHeaders(),
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'The API key; wins over `x-api-key`.' },
        apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key', description: 'The API key.' },
      },
    },
    'x-headrace-errors': ERRORS,
  };
}

function withPrefixes(path: string, { servicePrefix, listingPrefix }: PathPrefixes): string {
  return path
    .replace(/^\/svc(?=\/|$)/, () => `/${servicePrefix}`)
    .replace(/^\/aggregator(?=\/|$)/, () => `/${listingPrefix}`);
}

/** For example `get_v1_models`. A number is appended when two paths differ only in characters that an identifier cannot have. */
function operationId(method: string, path: string, taken: Set<string>): string {
  const base = `${method.toLowerCase()}_${path.replace(/[^a-zA-Z\d]+/g, '_').replace(/^_|_$/g, '')}`;
  let id = base;
  for (let n = 2; taken.has(id); n++) id = `${base}_${n}`;
  taken.add(id);
  return id;
}

function describe(
  route: RouteDoc,
  path: string,
  schemas: Record<string, JsonSchema>,
  models: readonly ExampleModel[],
): JsonSchema {
  Object.assign(schemas, route.dialect?.components);
  const parameters = [...pathParameters(path), ...queryParameters(route), ...cookieParameters(route)];
  return {
    tags: [route.tag],
    summary: route.summary,
    ...(route.description === undefined ? {} : { description: route.description }),
    security: route.auth === 'key' ? [{ bearer: [] }, { apiKey: [] }] : [],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(route.request === undefined ? {} : { requestBody: requestBody(route, route.request, schemas, models) }),
    ...(route.dialect?.sdk === undefined ? {} : { 'x-headrace-sdk': route.dialect.sdk }),
    responses: operationResponses(route, schemas),
  };
}

function requestBody(
  { dialect, examples = {} }: RouteDoc,
  request: Schema,
  schemas: Record<string, JsonSchema>,
  models: readonly ExampleModel[],
): JsonSchema {
  const schema = dialect === undefined ? toJsonSchema(request, schemas) : refTo(dialect.request);
  const shown = Object.entries(examples).map(([name, example]) => [
    name,
    { summary: example.summary, value: exampleBody(example, models) },
  ]);
  const media = { schema, ...(shown.length > 0 && { examples: Object.fromEntries(shown) }) };
  return { required: true, content: { 'application/json': media } };
}

function refTo(component: string): JsonSchema {
  return { $ref: `#/components/schemas/${component}` };
}

function pathParameters(path: string): JsonSchema[] {
  return [...path.matchAll(/\{([^}]+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
}

function queryParameters({ query = [] }: RouteDoc): JsonSchema[] {
  return query.map(({ name, schema }) => {
    const { description, ...rest } = toJsonSchema(schema);
    return { name, in: 'query', required: schema.required === true, description, schema: rest };
  });
}

function cookieParameters({ cookie }: RouteDoc): JsonSchema[] {
  if (cookie === undefined) return [];
  const { name, description, default: preset } = cookie;
  return [{ name, in: 'cookie', required: false, description, schema: { type: 'string', default: preset } }];
}

function operationResponses(route: RouteDoc, schemas: Record<string, JsonSchema>): JsonSchema {
  if (route.errorBody !== undefined) return foreignResponses(route, route.errorBody, schemas);
  const implied = [
    ...(route.auth === 'key' ? [401] : []),
    ...(route.request === undefined ? [] : BODY_STATUSES),
    ...(route.query === undefined ? [] : [422]),
  ];
  const responses: JsonSchema = Object.fromEntries(
    implied.map((status) => [status, { $ref: `#/components/responses/Error${status}` }]),
  );
  for (const [key, doc] of Object.entries(route.responses)) {
    const status = Number(key);
    const failed = status >= 400 && doc.schema === undefined;
    responses[key] = failed
      ? errorResponse(status, doc.description, schemas)
      : {
          description: doc.description,
          headers: headersOf(status),
          ...content(doc, status < 300 ? route : {}, schemas),
        };
  }
  responses['default'] = errorResponse(0, 'Any other error.', schemas);
  return responses;
}

/** Answers of a route whose errors have a body of their own. */
function foreignResponses(route: RouteDoc, errorBody: Schema, schemas: Record<string, JsonSchema>): JsonSchema {
  const schema = jsonContent(toJsonSchema(errorBody, schemas));
  const documented = Object.entries(route.responses).map(([status, doc]) => [
    status,
    {
      description: doc.description,
      headers: headersOf(Number(status)),
      ...(Number(status) < 400 ? content(doc, route, schemas) : { content: schema }),
    },
  ]);
  const other = { description: 'Any other error.', headers: headersOf(0), content: schema };
  return { ...Object.fromEntries(documented), default: other };
}

function content(
  doc: ResponseDoc,
  { dialect, streams = false }: Pick<RouteDoc, 'dialect' | 'streams'>,
  schemas: Record<string, JsonSchema>,
): JsonSchema {
  const { contentTypes = ['application/json'], schema } = doc;
  const given = dialect !== undefined ? refTo(dialect.answer) : schema && toJsonSchema(schema, schemas);
  const media: JsonSchema = Object.fromEntries(
    contentTypes.map((type, index) => [type, index === 0 && given !== undefined ? { schema: given } : {}]),
  );
  if (streams && contentTypes.length > 0)
    media['text/event-stream'] = { schema: { type: 'string', description: dialect?.stream } };
  return Object.keys(media).length === 0 ? {} : { content: media };
}

/** One shared response for each status of the error table; its description lists the sentences of that status. */
function errorResponses(schemas: Record<string, JsonSchema>): Record<string, JsonSchema> {
  const statuses = new Set(Object.values(ERRORS).map(({ status }) => status));
  return Object.fromEntries(
    [...statuses].map((status) => {
      const sentences = codesOf(status).map((code) => ERRORS[code].detail.replace('{}', '…'));
      return [`Error${status}`, errorResponse(status, sentences.join('; '), schemas)];
    }),
  );
}

function errorResponse(status: number, description: string, schemas: Record<string, JsonSchema>): JsonSchema {
  const schema =
    status === 422 ? { $ref: '#/components/schemas/HTTPValidationError' } : toJsonSchema(errorBody, schemas);
  return { description, headers: headersOf(status), content: jsonContent(schema) };
}

function headersOf(status: number): JsonSchema {
  const codes = codesOf(status);
  const errorCode = codes.length === 0 ? {} : { 'x-headrace-error': errorHeader(codes) };
  return {
    'x-request-id': { $ref: '#/components/headers/RequestId' },
    ...(status === 0 ? { 'x-headrace-error': { $ref: '#/components/headers/ErrorCode' } } : errorCode),
    ...(STATUSES_WITH_RETRY_AFTER.has(status) ? { 'Retry-After': { $ref: '#/components/headers/RetryAfter' } } : {}),
  };
}

function commonHeaders(): Record<string, JsonSchema> {
  return {
    RequestId: { description: 'Names this request in the logs of the gateway.', schema: { type: 'string' } },
    ErrorCode: errorHeader(Object.keys(ERRORS)),
    RetryAfter: { description: 'Seconds to wait before the next try.', schema: { type: 'integer', minimum: 0 } },
  };
}

function errorHeader(codes: readonly string[]): JsonSchema {
  return {
    description: 'Stable code of an error that the gateway makes itself.',
    schema: { type: 'string', enum: codes },
  };
}

function codesOf(status: number): ErrorCode[] {
  return (Object.keys(ERRORS) as ErrorCode[]).filter((code) => ERRORS[code].status === status);
}

function jsonContent(schema: JsonSchema): JsonSchema {
  return { 'application/json': { schema } };
}

/** The 422 body under the names that generated clients know. A place in `loc` is a name or an index. */
function validationSchemas(): Record<string, JsonSchema> {
  return {
    HTTPValidationError: {
      title: 'HTTPValidationError',
      type: 'object',
      properties: { detail: { type: 'array', items: { $ref: '#/components/schemas/ValidationError' } } },
      required: ['detail'],
    },
    ValidationError: {
      title: 'ValidationError',
      type: 'object',
      properties: {
        loc: { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'integer' }] } },
        msg: { type: 'string' },
        type: { type: 'string' },
      },
      required: ['loc', 'msg', 'type'],
    },
  };
}
