// The worker's side of the search worker protocol: reads and authorizes requests, writes hits and failures. The gateway's
// side is `search/engines/worker.ts`, which must read every failure back as the same reason.

import { parseJson } from '../config/json-text.ts';
import { Packr, Unpackr } from 'msgpackr';
import {
  type DateRange,
  type EngineHit,
  type EngineQuery,
  type EngineReport,
  FILTER_NAMES,
  isBeyondReading,
  SAFE_SEARCH,
  SCOPE_HEADER,
  SEARCH_TYPES,
  type SearchFilters,
  type SearchType,
  TIME_RANGES,
} from '../search/index.ts';

/** An answer without results: `{"detail": …}`. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** For metrics: one of a fixed set of words. */
  readonly outcome: string;

  constructor(status: number, detail: string, outcome: string, headers: Readonly<Record<string, string>> = {}) {
    super(detail);
    this.status = status;
    this.outcome = outcome;
    this.headers = headers;
  }
}

/** An answer that is ready to be sent. */
export interface Encoded {
  readonly contentType: string;
  readonly body: string | Uint8Array;
}

type Format = 'json' | 'msgpack';

const MSGPACK = 'application/msgpack';

/** Media types of requests; msgpack has several. */
const FORMATS: ReadonlyMap<string, Format> = new Map<string, Format>([
  ['application/json', 'json'],
  [MSGPACK, 'msgpack'],
  ['application/x-msgpack', 'msgpack'],
  ['application/vnd.msgpack', 'msgpack'],
]);

/** Most characters of a query. */
const MAX_QUERY = 8192;
const MAX_RESULTS = 100;
const DEFAULT_RESULTS = 10;
const MAX_PAGE = 10;
const MAX_DOMAINS = 50;

// Maps are plain objects on both sides, and whole numbers plain numbers.
const unpackr = new Unpackr({ useRecords: false, int64AsType: 'number' });
const packr = new Packr({ useRecords: false });

/** The format of a body; JSON when it is not named. Throws a 415 for any other. */
export function formatOf(contentType: string | undefined): Format {
  const format = contentType === undefined ? 'json' : FORMATS.get(mediaType(contentType));
  if (format === undefined)
    throw new Refusal(415, `the body must be application/json or ${MSGPACK}`, 'invalid request');
  return format;
}

/**
 * Reads `{engine?, query, max_results?, search_type?, page?}` and the filters of a search, as the gateway normalises them; default 10 results of type `web`. A worker serves one engine,
 * whatever name a gateway gives it. Throws a 422 that names the member at fault.
 */
export function readQuery(body: Buffer, format: Format): EngineQuery {
  const members = readMembers(body, format);
  const { query, max_results: maxResults = DEFAULT_RESULTS, page = 1, search_type: type = 'web' } = members;
  if (typeof query !== 'string' || query.trim() === '' || query.length > MAX_QUERY)
    throw invalid(`query must be a text of 1 to ${MAX_QUERY} characters`);
  if (!Number.isInteger(maxResults) || (maxResults as number) < 1 || (maxResults as number) > MAX_RESULTS)
    throw invalid(`max_results must be a whole number from 1 to ${MAX_RESULTS}`);
  if (!SEARCH_TYPES.includes(type as SearchType))
    throw invalid(`search_type must be one of ${SEARCH_TYPES.join(', ')}`);
  if (!Number.isInteger(page) || (page as number) < 1 || (page as number) > MAX_PAGE)
    throw invalid(`page must be a whole number from 1 to ${MAX_PAGE}`);
  const filters = readFilters(members);
  return {
    ...{ query, maxResults: maxResults as number, type: type as SearchType },
    ...(filters !== null && { filters }),
    ...(page !== 1 && { page: page as number }),
  };
}

const CODE = /^[A-Za-z]{2}$/;
const HOSTNAME = /^[a-z\d_-]+(?:\.[a-z\d_-]+)*$/;
const DAY = /^\d{4}-\d\d-\d\d$/;

/** Whether a member of the filters has a value that it may have, and what it must be. */
const FILTERS: Readonly<Record<keyof SearchFilters, readonly [(value: unknown) => boolean, string]>> = {
  timeRange: [isTimeRange, `${TIME_RANGES.join(', ')} or an object with from and to as YYYY-MM-DD`],
  includeDomains: [areDomains, `a list of 1 to ${MAX_DOMAINS} host names`],
  excludeDomains: [areDomains, `a list of 1 to ${MAX_DOMAINS} host names`],
  language: [(value) => typeof value === 'string' && CODE.test(value), 'a language of ISO 639-1'],
  country: [(value) => typeof value === 'string' && CODE.test(value), 'a country of ISO 3166-1'],
  safeSearch: [(value) => SAFE_SEARCH.some((word) => word === value), `one of ${SAFE_SEARCH.join(', ')}`],
};

/** Null without any. */
function readFilters(members: Readonly<Record<string, unknown>>): SearchFilters | null {
  const filters: Record<string, unknown> = {};
  for (const [name, [isValid, says]] of Object.entries(FILTERS)) {
    const member = FILTER_NAMES[name as keyof SearchFilters];
    const value = members[member];
    if (value === undefined || value === null) continue;
    if (!isValid(value)) throw invalid(`${member} must be ${says}`);
    filters[name] = value;
  }
  return Object.keys(filters).length === 0 ? null : filters;
}

function isTimeRange(value: unknown): boolean {
  if (typeof value === 'string') return TIME_RANGES.some((word) => word === value);
  if (typeof value !== 'object' || value === null) return false;
  const { from, to } = value as DateRange;
  const areDays = [from, to].every((day) => day === undefined || (typeof day === 'string' && DAY.test(day)));
  return areDays && (from ?? to) !== undefined;
}

function areDomains(value: unknown): boolean {
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_DOMAINS) return false;
  return value.every((domain) => typeof domain === 'string' && HOSTNAME.test(domain));
}

function readMembers(body: Buffer, format: Format): Readonly<Record<string, unknown>> {
  let read: unknown;
  try {
    read = format === 'json' ? parseJson(body.toString('utf8')) : unpacked(body);
  } catch {
    throw invalid(`the body is not ${format === 'json' ? 'JSON' : 'msgpack'}`);
  }
  if (typeof read !== 'object' || read === null || Array.isArray(read)) throw invalid('the body must be an object');
  return read as Record<string, unknown>;
}

/** Throws for what is no msgpack, and for extensions. */
function unpacked(body: Buffer): unknown {
  if (isBeyondReading(body, Infinity)) throw new Error('beyond reading');
  return unpackr.unpack(body);
}

function invalid(detail: string): Refusal {
  return new Refusal(422, detail, 'invalid request');
}

/**
 * `{"results": […]}` in the engine's order. With filters or a page, `not_applied` has the filters that the results do not observe, and `page`
 * is the page of the results: gateways know by them that this worker has read both. MessagePack where `accept` prefers it to JSON, or both equally. */
export function writeHits(
  { hits, notApplied = [] }: Extract<EngineReport, { hits: unknown }>,
  { filters, page = 1 }: EngineQuery,
  accept: string | undefined,
): Encoded {
  const answer = {
    results: hits.map(writeHit),
    ...((filters !== undefined || page > 1) && { not_applied: notApplied, page }),
  };
  if (wantsMsgpack(accept ?? '')) return { contentType: MSGPACK, body: packr.pack(answer) };
  return { contentType: 'application/json', body: JSON.stringify(answer) };
}

function writeHit({ title, url, snippet, source, width, height, ...rest }: EngineHit): Record<string, unknown> {
  const more = {
    published_at: rest.publishedAt,
    source,
    thumbnail_url: rest.thumbnailUrl,
    image_url: rest.imageUrl,
    width,
    height,
    doi: rest.doi,
    authors: rest.authors,
    year: rest.year,
    venue: rest.venue,
    citations: rest.citations,
    open_access_url: rest.openAccessUrl,
  };
  const given = Object.entries(more).filter(([, value]) => value !== undefined);
  return { title, url, snippet, ...Object.fromEntries(given) };
}

/** RFC 9110 section 12.5.1, as far as two types need it: a wildcard asks for JSON. */
function wantsMsgpack(accept: string): boolean {
  const weights = { json: 0, msgpack: 0 };
  for (const range of accept.split(',')) {
    const format = FORMATS.get(mediaType(range));
    if (format !== undefined) weights[format] = Math.max(weights[format], weightOf(range));
  }
  return weights.msgpack > 0 && weights.msgpack >= weights.json;
}

function weightOf(range: string): number {
  const [, weight] = /;\s*q\s*=\s*([\d.]+)/i.exec(range) ?? [];
  return weight === undefined ? 1 : Number(weight) || 0;
}

function mediaType(field: string): string {
  return field.split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

/** Statuses of the reasons of engines; all others are 502. */
const STATUSES: Readonly<Record<string, number>> = {
  'access denied': 403,
  'query rejected': 422,
  'quota exceeded': 402,
  'rate limited': 429,
  suspended: 503,
  timeout: 504,
};

/** Statuses with a `Retry-After`. */
const NAMING_TIME = new Set([402, 429, 503]);

/** The answer to an engine's failure. `retryAfterMs`: when the next request may succeed. `isOfAccount`: other accounts may ask now. */
export function refusalOf(reason: string, retryAfterMs: number, isOfAccount = false): Refusal {
  const unsupported = reason.startsWith('unsupported search_type');
  const status = unsupported ? 422 : (STATUSES[reason] ?? 502);
  const headers = {
    ...(NAMING_TIME.has(status) ? { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1000))) } : {}),
    ...(isOfAccount ? { [SCOPE_HEADER]: 'account' } : {}),
  };
  return new Refusal(status, reason, reason, headers);
}
