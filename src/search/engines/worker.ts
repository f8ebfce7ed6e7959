// Engine kind `worker`: search workers, asked by `POST {url}/search`. The first byte of a response decides whether it is JSON
// or msgpack, since a worker may declare the wrong type. A failure that `headrace search-worker` names is reported in the
// same words; any other is `worker returned HTTP n`.

import { createHmac } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { Unpackr } from 'msgpackr';
import { jsonBody, listOf, MAX_MARKS, namedWait, refuse } from '../engine-response.ts';
import { isoDate } from '../dates.ts';
import {
  EngineError,
  type EngineFailure,
  type EngineFilters,
  type EngineQuery,
  type EngineResponse,
  type FilterName,
  type HttpEngine,
  ReasonedError,
  SEARCH_TYPES,
  type SearchType,
} from '../engine.ts';
import { FILTER_NAMES, type SearchFilters } from '../filters.ts';
import { type HitFields, hits } from '../hit.ts';
import { JsonMembers } from '../json-members.ts';
import { isBeyondReading } from '../msgpack-containers.ts';

export interface WorkerSettings {
  /** Base URL, without a slash at its end. */
  readonly url: string;
  /** Name of the engine the worker is asked for: the id of the engine in the configuration. Default `default`. */
  readonly engine?: string;
  /** Shared secret, sent as `authorization: Bearer`. */
  readonly secret?: string;
  /** Kinds of search the worker serves; default all. */
  readonly types?: readonly SearchType[];
}

/** Request header: an opaque id of the account, by which a worker keeps accounts apart. */
export const ACCOUNT_HEADER = 'x-headrace-account-hash';

/** Response header of a failure: with the value `account`, only the account of the request is refused. */
export const SCOPE_HEADER = 'x-headrace-scope';

/** No `{"detail": …}` of the protocol is longer. */
const MAX_DETAIL_BYTES = 1024;

// Maps become plain objects, and whole numbers plain numbers.
const unpackr = new Unpackr({ useRecords: false, int64AsType: 'number' });

/** Whether the byte begins a msgpack map (fixmap, map 16, map 32): no JSON text begins with one. */
function beginsMap(byte: number | undefined): boolean {
  return byte !== undefined && ((byte & 0xf0) === 0x80 || byte === 0xde || byte === 0xdf);
}

const MEMBERS = new JsonMembers(
  [
    'results title url snippet published_at source thumbnail_url image_url width height detail',
    'doi authors year venue citations open_access_url not_applied page',
  ].flatMap((names) => names.split(' ')),
  ['title', 'snippet'],
);

/** What the engine of a worker applies is known by its answer. */
const FILTERS: EngineFilters = {
  ...{ timeRange: {}, includeDomains: {}, excludeDomains: {}, language: {}, country: {}, safeSearch: {}, page: {} },
};

/** The filters and the page of a query in the protocol. */
function filterMembers({ filters = {}, page }: EngineQuery): Readonly<Record<string, unknown>> {
  const members: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(filters)) members[FILTER_NAMES[name as keyof SearchFilters]] = value;
  return page === undefined ? members : { ...members, page };
}

/** The filters that an answer does not observe: all of them, from a worker that does not know any. */
function notAppliedOf(answer: Readonly<Record<string, unknown>>, { filters = {} }: EngineQuery): FilterName[] {
  const names = Object.keys(filters) as (keyof SearchFilters)[];
  const { not_applied: notApplied } = answer;
  return Array.isArray(notApplied) ? names.filter((name) => notApplied.includes(FILTER_NAMES[name])) : names;
}

/** State of the second request to a worker that knows no pages: it is asked for those before, too. */
const WHOLE = 'whole';
const MOST_HITS = 100;

function read(response: EngineResponse): Readonly<Record<string, unknown>> {
  const { body } = response;
  if (!beginsMap(body[0])) return jsonBody(response, MEMBERS);
  if (isBeyondReading(body, MAX_MARKS)) throw new EngineError('invalid');
  try {
    return unpackr.unpack(body) as Record<string, unknown>;
  } catch {
    throw new EngineError('invalid');
  }
}

/** Failures of the worker's engine that share a status, by their `detail`. */
const DETAILS: Readonly<Record<string, EngineFailure>> = {
  'challenge page': 'challenge',
  'invalid response': 'invalid',
  'connection failed': 'http',
  suspended: 'http',
  timeout: 'http',
};

/** Throws the failure whose `detail` is a reason of the protocol; any other text is ignored. */
function relay(response: EngineResponse, type: SearchType): void {
  if (response.status < 400 || response.body.length > MAX_DETAIL_BYTES) return;
  const detail = detailOf(response);
  if (detail === `unsupported search_type '${type}'`) throw new ReasonedError('rejected', detail);
  const failure = Object.hasOwn(DETAILS, detail) ? DETAILS[detail] : undefined;
  const ofAccount = response.headers[SCOPE_HEADER] === 'account';
  const options = { retryAfterMs: namedWait(response), ofAccount };
  if (failure !== undefined) throw new ReasonedError(failure, detail, options);
  if (ofAccount && response.status === 429) throw new EngineError('rate limited', options);
}

function detailOf(response: EngineResponse): string {
  try {
    const { detail } = read(response);
    return typeof detail === 'string' ? detail : '';
  } catch {
    return '';
  }
}

/** Keyed by the secret, so that who sees requests cannot find out an account by guessing; equal in all threads and gateways. */
function opaque(account: string, secret: string): string {
  return createHmac('sha256', secret).update(account).digest('base64url');
}

/** Accounts whose headers are kept: the HMACs of a search over five workers took 6 % of its CPU time. */
const KEPT_HEADERS = 1024;

/** One for all results: a hit is made of it before the next result is read. */
const fields: { -readonly [Name in keyof HitFields]: HitFields[Name] } = { url: undefined };

function fieldsOf(result: Readonly<Record<string, unknown>>, nowMs: number): HitFields {
  fields.title = result['title'];
  fields.url = result['url'];
  fields.snippet = result['snippet'];
  fields.publishedAt = isoDate(result['published_at'], nowMs);
  fields.source = result['source'];
  fields.thumbnailUrl = result['thumbnail_url'];
  fields.imageUrl = result['image_url'];
  fields.width = result['width'];
  fields.height = result['height'];
  fields.doi = result['doi'];
  fields.authors = result['authors'];
  fields.year = result['year'];
  fields.venue = result['venue'];
  fields.citations = result['citations'];
  fields.openAccessUrl = result['open_access_url'];
  return fields;
}

export function worker(settings: WorkerSettings): HttpEngine {
  const { url, engine = 'default', secret, types = SEARCH_TYPES } = settings;
  const headers = {
    accept: 'application/msgpack, application/json',
    'content-type': 'application/json',
    ...(secret ? { authorization: `Bearer ${secret}` } : {}),
  };
  const address = `${url}/search`;
  const headersOf = new LRUCache({
    max: KEPT_HEADERS,
    memoMethod: (account: string) => ({ ...headers, [ACCOUNT_HEADER]: opaque(account, secret ?? '') }),
  });
  return {
    kind: 'worker',
    documentation: 'docs/search-engines.md',
    types,
    concurrency: 16,
    filters: FILTERS,
    request: (asked, state, account) => {
      const { filters, maxResults, page = 1, query, type } = asked;
      const most = state === WHOLE ? Math.min(MOST_HITS, page * maxResults) : maxResults;
      const body = { engine, query, max_results: most, search_type: type };
      const more = filters === undefined && page === 1 ? null : filterMembers(asked);
      return {
        method: 'POST',
        url: address,
        headers: account === undefined ? headers : headersOf.memo(account),
        body: JSON.stringify(more === null ? body : { ...body, ...more }),
      };
    },
    parse(response, { nowMs, query, state }) {
      relay(response, query.type);
      refuse(response);
      const { filters, maxResults, page = 1 } = query;
      const answer = read(response);
      const found = hits(listOf(answer, 'results'), (result) => fieldsOf(result, nowMs));
      if (filters === undefined && page === 1) return { hits: found };
      const notApplied = notAppliedOf(answer, query);
      if (page === 1 || answer['page'] === page) return { hits: found, notApplied };
      if (state !== WHOLE)
        return found.length < maxResults ? { hits: [], notApplied } : { hits: [], notApplied, next: WHOLE };
      return { hits: found.slice((page - 1) * maxResults), notApplied };
    },
  };
}
