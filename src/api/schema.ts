// Schemas of request and response bodies. `validate` checks a body against a schema and `toJsonSchema` writes the same schema
// into the OpenAPI document, so that the two cannot differ. Conversions and error messages are those of pydantic.
import { isUtf8 } from 'node:buffer';
import { counted } from '../config/units.ts';
import { HeadraceError, MAX_VALIDATION_ENTRIES } from '../errors.ts';
import { SAFE_SEARCH, type SearchFilters, TIME_RANGES } from '../search/index.ts';
import type { ValidationEntry } from '../errors.ts';
import { jsonMistakeOffset } from '../config/json-syntax.ts';
import { MAX_URL_LENGTH, checkScalar } from './scalars.ts';
import type { Annotations, EnumSchema, FormatSchema, ScalarSchema } from './scalars.ts';
import { isJsonObject, parsedJson } from '../net/json-object.ts';

export interface ArraySchema extends Annotations {
  readonly type: 'array';
  readonly items: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
}

/** An object with known fields. `T` is the shape of the value after conversion. */
export interface ObjectSchema<T = any> extends Annotations {
  readonly type: 'object';
  /** Name of the component in the OpenAPI document. Default: written in place. */
  readonly name?: string;
  readonly fields: { readonly [K in keyof T]-?: Schema };
  /** Whether fields beyond the known ones are kept. Default: false, they are ignored. */
  readonly additional?: boolean;
}

/** An object whose keys are free and whose values are alike. */
export interface MapSchema extends Annotations {
  readonly type: 'map';
  readonly name?: string;
  readonly values: Schema;
}

/** A word, or an object. */
export interface WordOrObjectSchema extends Annotations {
  readonly type: 'word or object';
  readonly word: EnumSchema;
  readonly object: ObjectSchema;
}

/** Any JSON value. */
export interface AnySchema extends Annotations {
  readonly type: 'any';
}

export type Schema = ScalarSchema | ArraySchema | ObjectSchema | MapSchema | WordOrObjectSchema | AnySchema;

/** The converted value, or its mistakes in field order, at most `MAX_VALIDATION_ENTRIES`. */
export type Checked<T> = { readonly value: T } | { readonly errors: ValidationEntry[] };

type Loc = readonly (string | number)[];

/** Checks `value`; `loc` is its place in the request, such as `['body']`. */
export function validate<T>(schema: ObjectSchema<T>, value: unknown, loc: Loc): Checked<T>;
export function validate(schema: Schema, value: unknown, loc: Loc): Checked<unknown>;
export function validate(schema: Schema, value: unknown, loc: Loc): Checked<unknown> {
  const errors: ValidationEntry[] = [];
  const converted = check(schema, value, loc, (at, type, msg) => {
    if (errors.length < MAX_VALIDATION_ENTRIES) errors.push({ loc: [...at], msg, type });
  });
  return errors.length === 0 ? { value: converted } : { errors };
}

/** Names members that no schema has, by their path: `validate` ignores them, where a misspelt one ought to be a mistake. */
export function unknownMembers(schema: Schema, value: unknown, path: Loc = []): string[] {
  if (schema.type === 'array' && Array.isArray(value)) {
    return value.flatMap((item, at) => unknownMembers(schema.items, item, [...path, at]));
  }
  if (schema.type !== 'object' || !isJsonObject(value)) return [];
  const fields = schema.fields as Readonly<Record<string, Schema>>;
  const isKnown = (key: string): boolean => Object.hasOwn(fields, key);
  const keys = Object.keys(value);
  return [
    ...keys.filter((key) => !isKnown(key)).map((key) => `${[...path, key].join('.')}: unknown member`),
    ...keys.filter(isKnown).flatMap((key) => unknownMembers(fields[key]!, value[key], [...path, key])),
  ];
}

/** Records one mistake; the value that failed is not used. */
type Report = (loc: Loc, type: string, msg: string) => void;

/** What pydantic says of a body that is no object; also of one with another content type than JSON. */
const NOT_AN_OBJECT = 'Input should be a valid dictionary or object to extract fields from';

function check(schema: Schema, value: unknown, loc: Loc, report: Report): unknown {
  switch (schema.type) {
    case 'any':
      return value;
    case 'array':
      return checkArray(schema, value, loc, report);
    case 'object':
      if (!isJsonObject(value)) return report(loc, 'model_attributes_type', NOT_AN_OBJECT);
      return checkFields(schema, value, loc, report);
    case 'word or object':
      return check(isJsonObject(value) ? schema.object : schema.word, value, loc, report);
    case 'map':
      if (!isJsonObject(value)) return report(loc, 'dict_type', 'Input should be a valid dictionary');
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => [key, check(schema.values, item, [...loc, key], report)]),
      );
    default:
      return checkScalar(schema, value, (type, msg) => report(loc, type, msg));
  }
}

function checkFields(schema: ObjectSchema, value: Record<string, unknown>, loc: Loc, report: Report): unknown {
  const known = Object.entries(schema.fields as Record<string, Schema>).flatMap(([name, field]) => {
    // hasOwn, so that a field named like a member of Object.prototype counts as absent. Programs write undefined for what is absent.
    if (Object.hasOwn(value, name) && value[name] !== undefined)
      return [[name, check(field, value[name], [...loc, name], report)]];
    if (field.required === true) report([...loc, name], 'missing', 'Field required');
    return field.default === undefined ? [] : [[name, structuredClone(field.default)]];
  });
  return schema.additional === true ? { ...value, ...Object.fromEntries(known) } : Object.fromEntries(known);
}

function checkArray(schema: ArraySchema, value: unknown, loc: Loc, report: Report): unknown {
  if (!Array.isArray(value)) return report(loc, 'list_type', 'Input should be a valid list');
  const { minItems = 0, maxItems = Infinity } = schema;
  const found = `after validation, not ${value.length}`;
  // Checked before the items: an oversized list must not produce an entry for each item.
  if (value.length > maxItems) {
    return report(loc, 'too_long', `List should have at most ${counted(maxItems, 'item')} ${found}`);
  }
  let sound = true;
  const items = value.map((item, index) =>
    check(schema.items, item, [...loc, index], (...mistake) => {
      sound = false;
      report(...mistake);
    }),
  );
  if (sound && value.length < minItems) {
    report(loc, 'too_short', `List should have at least ${counted(minItems, 'item')} ${found}`);
  }
  return items;
}

/**
 * The mistake of a body of this type, and what to do about it. It is not read as JSON: web pages of all origins may send forms and
 * texts (Fetch, "CORS-safelisted").
 */
export function wrongType(contentType: string): ValidationEntry {
  const curl = /urlencoded/i.test(contentType) ? ' (curl: --json, or -H "content-type: application/json")' : '';
  const hint = `Content-Type should be application/json, not ${contentType.slice(0, 100)}${curl}`;
  return { loc: ['body'], msg: NOT_AN_OBJECT, type: 'model_attributes_type', hint };
}

/**
 * The JSON object in a request body, not checked any further, or the one mistake that keeps it from being one.
 * A request without a content type counts as JSON.
 */
export function parseJsonBody(body: Buffer, contentType: string | undefined): Checked<Record<string, unknown>> {
  const mistake = (type: string, msg: string, ...at: number[]): Checked<never> => ({
    errors: [{ loc: ['body', ...at], msg, type }],
  });
  if (body.length === 0) return mistake('missing', 'Field required');
  if (contentType !== undefined && !/^application\/([^;\s]+\+)?json\s*(;|$)/i.test(contentType.trim())) {
    return { errors: [wrongType(contentType)] };
  }
  if (!isUtf8(body)) {
    return {
      errors: [{ loc: ['body'], msg: 'JSON decode error', type: 'json_invalid', hint: 'JSON should be UTF-8' }],
    };
  }
  // The decoder drops a byte order mark.
  const text = new TextDecoder().decode(body);
  const value = parsedJson(text);
  if (value === undefined) return mistake('json_invalid', 'JSON decode error', jsonMistakeOffset(text));
  if (value === null) return mistake('missing', 'Field required');
  return isJsonObject(value) ? { value } : mistake('model_attributes_type', NOT_AN_OBJECT);
}

/** The converted body of a request. Throws `HR_REQUEST_INVALID` with every mistake. */
export function readBody<T>(schema: ObjectSchema<T>, body: Buffer, contentType: string | undefined): T {
  const parsed = parseJsonBody(body, contentType);
  return valueOf('errors' in parsed ? parsed : validate(schema, parsed.value, ['body']));
}

/** The converted parameters of a query; a number may be given as digits. Throws `HR_REQUEST_INVALID` with every mistake. */
export function readQuery<T>(schema: ObjectSchema<T>, query: string): T {
  const value: Record<string, string> = {};
  for (const [name, text] of new URLSearchParams(query)) value[name] = text;
  return valueOf(validate(schema, value, ['query']));
}

/** The converted input of a library call. Throws `HR_REQUEST_INVALID` with every mistake. */
export function readValue<T>(schema: ObjectSchema<T>, value: unknown): T {
  return valueOf(validate(schema, value, []));
}

function valueOf<T>(checked: Checked<T>): T {
  if ('errors' in checked) throw new HeadraceError('HR_REQUEST_INVALID', { validation: checked.errors });
  return checked.value;
}

/** A schema object of JSON Schema 2020-12, as OpenAPI 3.1 uses it. */
export type JsonSchema = { [keyword: string]: unknown };

/**
 * Writes a description as JSON Schema. With `components`, a named object is stored there once and referred to;
 * without, it is written in place.
 */
export function toJsonSchema(schema: Schema, components?: Record<string, JsonSchema>): JsonSchema {
  const notes: JsonSchema = {};
  if (schema.description !== undefined) notes['description'] = schema.description;
  if (schema.default !== undefined) notes['default'] = schema.default;
  if (schema.example !== undefined) notes['examples'] = [schema.example];
  if (components === undefined || !('name' in schema) || schema.name === undefined) {
    return { ...keywords(schema, components), ...notes };
  }
  components[schema.name] ??= { title: schema.name, ...keywords(schema, components), ...notes };
  return { $ref: `#/components/schemas/${schema.name}` };
}

function keywords(schema: Schema, components?: Record<string, JsonSchema>): JsonSchema {
  // Without the annotations, the members of a scalar or a list have the names of JSON Schema.
  const { description: _d, example: _e, required: _r, default: _f, ...own } = schema;
  switch (own.type) {
    case 'any':
      return {};
    case 'url':
      return { type: 'string', format: 'uri', maxLength: MAX_URL_LENGTH };
    case 'enum':
      return { type: 'string', enum: own.values };
    case 'format':
      return { type: 'string', ...JSON_FORMATS[own.format] };
    case 'word or object':
      return { anyOf: [toJsonSchema(own.word, components), toJsonSchema(own.object, components)] };
    case 'array':
      return { ...own, items: toJsonSchema(own.items, components) };
    case 'map':
      return { type: 'object', additionalProperties: toJsonSchema(own.values, components) };
    case 'object':
      return objectKeywords(own, components);
    default:
      return own;
  }
}

const JSON_FORMATS: Readonly<Record<FormatSchema['format'], JsonSchema>> = {
  date: { format: 'date' },
  hostname: { format: 'hostname' },
  language: { pattern: '^[A-Za-z]{2}$' },
  country: { pattern: '^[A-Za-z]{2}$' },
};

function objectKeywords(schema: ObjectSchema, components?: Record<string, JsonSchema>): JsonSchema {
  const fields = Object.entries(schema.fields as Record<string, Schema>);
  const required = fields.filter(([, field]) => field.required === true).map(([name]) => name);
  return {
    type: 'object',
    properties: Object.fromEntries(fields.map(([name, field]) => [name, toJsonSchema(field, components)])),
    ...(required.length === 0 ? {} : { required }),
    ...(schema.additional === true ? { additionalProperties: true } : {}),
  };
}

/** Body of the credit purchase. The payment processor decides which addresses and amounts are accepted. */
export interface CreditPurchase {
  readonly address: string;
  /** USD. */
  readonly amount: number;
}

export const creditPurchase: ObjectSchema<CreditPurchase> = {
  type: 'object',
  name: 'CreditPurchase',
  fields: {
    address: {
      type: 'string',
      required: true,
      description: 'The account address that receives the credits.',
      example: '0x1111111111111111111111111111111111111111',
    },
    amount: { type: 'number', required: true, description: 'The price in USD.', example: 5 },
  },
};

/** Body of a search. */
export interface SearchRequest {
  readonly query: string;
  readonly engines: readonly string[];
  readonly max_results: number;
  readonly search_type: 'web' | 'news' | 'images' | 'academic';
  readonly time_range?: SearchFilters['timeRange'];
  readonly include_domains?: readonly string[];
  readonly exclude_domains?: readonly string[];
  readonly language?: string;
  readonly country?: string;
  readonly safe_search?: SearchFilters['safeSearch'];
  readonly page: number;
  readonly content?: SearchContent;
}

const DOMAINS = { type: 'array', items: { type: 'format', format: 'hostname' }, maxItems: 50 } as const;

/** Which results of a search come with their text. */
export interface SearchContent {
  readonly results: number;
  readonly max_chars: number;
  readonly format: 'text' | 'markdown';
}

/** Most characters of one text: with ten texts, an answer has at most a million. */
const MOST_CONTENT_CHARS = 100_000;

const searchContent: ObjectSchema<SearchContent> = {
  type: 'object',
  name: 'SearchContent',
  description:
    'Fetches the best results within the deadline of the search: each has `content`, or `content_error`. A page that was read is priced like a fetch.',
  fields: {
    results: { type: 'integer', minimum: 1, maximum: 10, default: 5, description: 'Results with text: the best ones.' },
    max_chars: {
      type: 'integer',
      minimum: 1,
      maximum: MOST_CONTENT_CHARS,
      default: 10_000,
      description: 'Most characters of each text; one that is cut has `content_truncated`.',
    },
    format: {
      type: 'enum',
      values: ['text', 'markdown'],
      default: 'text',
      description: 'How `content` is written.',
    },
  },
};

/** Each wrong one is an entry of the answer. */
const MOST_ENGINES = 100;

/** Describes a search over other engines than the default ones; `preset` is asked when the request names none. */
export function searchRequestOf(allowed: readonly string[], preset: readonly string[]): ObjectSchema<SearchRequest> {
  return {
    type: 'object',
    name: 'SearchRequest',
    fields: {
      query: {
        type: 'string',
        required: true,
        minLength: 1,
        // More than white space: engines would be asked, and paid, for nothing.
        pattern: '\\S',
        description: 'The search text.',
        example: 'How does a water mill work?',
      },
      engines: {
        type: 'array',
        items: { type: 'enum', values: allowed },
        minItems: 1,
        maxItems: MOST_ENGINES,
        default: preset,
        description: 'The engines to ask, in parallel.',
      },
      max_results: { type: 'integer', minimum: 1, maximum: 100, default: 10, description: 'Most results per engine.' },
      search_type: {
        type: 'enum',
        values: ['web', 'news', 'images', 'academic'],
        default: 'web',
        description: 'What to search for. An engine that cannot is named in `meta.engine_errors`.',
      },
      time_range: {
        type: 'word or object',
        word: { type: 'enum', values: TIME_RANGES },
        object: {
          type: 'object',
          fields: {
            from: { type: 'format', format: 'date', description: 'The first day.' },
            to: { type: 'format', format: 'date', description: 'The last day.' },
          },
        },
        description: 'When results were published: within the last day, week, month or year, or on days in a range.',
      },
      include_domains: { ...DOMAINS, description: 'Only results of these hosts and their subdomains.' },
      exclude_domains: { ...DOMAINS, description: 'No results of these hosts and their subdomains.' },
      language: {
        type: 'format',
        format: 'language',
        description: 'Language of the results, ISO 639-1.',
        example: 'en',
      },
      country: { type: 'format', format: 'country', description: 'Country to search for, ISO 3166-1.', example: 'DE' },
      safe_search: { type: 'enum', values: SAFE_SEARCH, description: 'How much adult content is left out.' },
      page: { type: 'integer', minimum: 1, maximum: 10, default: 1, description: 'Page of the results, from 1.' },
      content: searchContent,
    },
  };
}

export const searchRequest: ObjectSchema<SearchRequest> = searchRequestOf(
  ['engine_a', 'engine_b', 'engine_c', 'engine_d', 'engine_e'],
  ['engine_a', 'engine_b', 'engine_c'],
);

/** Body of a fetch. */
export interface FetchRequest {
  /** Exactly one of `url` and `urls` is there: `pagesAskOf` checks it. */
  readonly url?: string;
  readonly urls?: readonly string[];
  readonly format: 'text' | 'markdown' | 'html';
  readonly include: readonly ('links' | 'metadata')[];
  readonly max_chars?: number;
  readonly start?: number;
  /** Seconds. */
  readonly max_age?: number;
  readonly links?: boolean;
  readonly images?: boolean;
}

/** Far more than pages have. */
const MAX_CHARACTERS = 1_000_000_000;

export const fetchRequest: ObjectSchema<FetchRequest> = {
  type: 'object',
  name: 'FetchRequest',
  fields: {
    url: { type: 'url', description: 'The page to read. Either this or `urls`.', example: 'https://example.com/' },
    urls: {
      type: 'array',
      items: { type: 'url' },
      minItems: 1,
      maxItems: 20,
      description: 'Several pages: the answer is `{"results": […]}` in this order, each a page or its error.',
    },
    format: {
      type: 'enum',
      values: ['text', 'markdown', 'html'],
      default: 'text',
      description:
        'How `content` is written: plain text, Markdown, or HTML of a fixed list of elements that is safe to show.',
    },
    include: {
      type: 'array',
      items: { type: 'enum', values: ['links', 'metadata'] },
      maxItems: 8,
      default: [],
      description: 'Further fields of the answer: links of the content, and what the page says of itself.',
    },
    max_chars: {
      type: 'integer',
      minimum: 1,
      maximum: MAX_CHARACTERS,
      description:
        'Longest `content`, in UTF-16 code units. Where it is cut, the answer has `truncated` and `next_start`.',
    },
    start: {
      type: 'integer',
      minimum: 0,
      maximum: MAX_CHARACTERS,
      description: 'Where `content` begins: 0, or `next_start` of the answer before to read on.',
    },
    max_age: {
      type: 'integer',
      minimum: 0,
      maximum: 31_536_000,
      description: 'Oldest page in seconds; 0 asks its server again, with its validators where it gave some.',
    },
    links: { type: 'boolean', description: 'Whether the answer has the `links` of the content.' },
    images: { type: 'boolean', description: 'Whether the answer has the `images` of the content.' },
  },
};

/** The members that every proxied request has. All others belong to the dialect and reach the server unchanged. */
export interface ProxyRequest {
  readonly model: string;
}

export const proxyRequest: ObjectSchema<ProxyRequest> = {
  type: 'object',
  name: 'ProxyRequest',
  fields: { model: { type: 'string', required: true, description: 'The model id; upper and lower case are alike.' } },
  additional: true,
};
