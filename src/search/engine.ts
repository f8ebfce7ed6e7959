// The interface of search engines: metadata, and two pure functions that turn a query into a request and a response into
// hits. An engine does no I/O and keeps no limits. Each kind has a file in `engines/`; embedders add engines of their own by
// `createGateway({ search: { engines: { x: myEngine } } })`.

import type { DateRange, SearchFilters } from './filters.ts';

/** The values of `search_type`. */
export const SEARCH_TYPES = ['web', 'news', 'images', 'academic'] as const;
export type SearchType = (typeof SEARCH_TYPES)[number];

/** A query to one engine. */
export interface EngineQuery {
  readonly query: string;
  readonly type: SearchType;
  /** Hits wanted in all, 1 to 100. */
  readonly maxResults: number;
  /** Undefined without any. */
  readonly filters?: SearchFilters;
  /** The days of `filters.timeRange`, of which a word counts back from today in UTC. Undefined without a time range. */
  readonly dates?: DateRange;
  /** From 1, which is the default. Only for engines that declare `page`: others get a greater `maxResults`. */
  readonly page?: number;
}

/** What an engine applies itself of one filter. */
export interface FilterSupport {
  /** Search types that it holds for; default all. */
  readonly types?: readonly SearchType[];
  /** Values that it knows; default all. Of `timeRange`: its words, and `days` for ranges of days. */
  readonly values?: readonly string[];
  /** Values that it does not know. */
  readonly except?: readonly string[];
  /** Most domains; default all. */
  readonly most?: number;
  /** Only beside this other filter: each of `values` then is both, as in `de-AT`. */
  readonly needs?: 'country' | 'language';
  /** Ranks what fits higher, and leaves nothing out. */
  readonly prefers?: boolean;
  /** There is nothing in the engine that the filter could leave out. */
  readonly moot?: boolean;
}

/** The filters of a search, and `page`: whether the engine skips the results of the pages before. */
export type FilterName = keyof SearchFilters | 'page';

/**
 * What an engine applies itself. The gateway applies domains afterwards in any case, and the time range to hits with a date. What else
 * is asked for and not declared is named in `meta.engine_errors`.
 */
export type EngineFilters = { readonly [Name in FilterName]?: FilterSupport };

/** One hit, in the engine's order of rank. Text is plain: no HTML, no entities. */
export interface EngineHit {
  /** Never empty: the URL where the engine gives no title. */
  readonly title: string;
  /** Absolute http or https URL as the engine gave it, without the engine's own redirects. */
  readonly url: string;
  /** May be empty. */
  readonly snippet: string;
  /** ISO 8601 date or date-time. */
  readonly publishedAt?: string;
  /** Name of the publication. */
  readonly source?: string;
  readonly thumbnailUrl?: string;
  readonly imageUrl?: string;
  /** Pixels of the image. */
  readonly width?: number;
  readonly height?: number;
  /** Of a scholarly work: `10.1000/xyz`, lower case. */
  readonly doi?: string;
  /** Names as they are written on the work, at most 50. */
  readonly authors?: readonly string[];
  readonly year?: number;
  /** Journal, conference or repository. */
  readonly venue?: string;
  /** Works that cite it. */
  readonly citations?: number;
  /** Where it can be read free of charge. */
  readonly openAccessUrl?: string;
}

/** An HTTP request, sent as it is. */
export interface EngineRequest {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

/** A complete response of any status; the body is decompressed. */
export interface EngineResponse {
  readonly status: number;
  /** Lower-case names; repeated fields joined by a comma. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** What parsing a response needs besides it. */
export interface ParseContext {
  readonly query: EngineQuery;
  /** The state of the request: undefined for the first. */
  readonly state: unknown;
  /** Number of hits that the requests before this one gave. */
  readonly collected: number;
  /** Unix time in milliseconds, for relative dates. */
  readonly nowMs: number;
  /** Filters leave out hits afterwards: more may be wanted although there are `maxResults`. Default false. */
  readonly wantsMore?: boolean;
}

/** The hits of a response. */
export interface EnginePage {
  readonly hits: readonly EngineHit[];
  /** State of the next request, which is sent if more hits are wanted. */
  readonly next?: unknown;
  /** What was missing although the engine answered: short and stable, for `meta.engine_errors`. */
  readonly note?: string;
  /** Filters that the engine has declared, but that these hits do not observe. */
  readonly notApplied?: readonly FilterName[];
}

/** A limit on requests, for one key. An engine may have several. */
export interface RateLimit {
  readonly requests: number;
  readonly perMs: number;
}

/** What an engine says about itself. */
export interface EngineAbout {
  /** Name of the kind, as in the configuration: `brave`. */
  readonly kind: string;
  /** Page that describes the API. */
  readonly documentation: string;
  readonly types: readonly SearchType[];
  /** Most requests at once; default 4. */
  readonly concurrency?: number;
  /** Limits the service publishes; a setting may replace them. */
  readonly rates?: readonly RateLimit[];
  /** Filters that it applies itself; default none. */
  readonly filters?: EngineFilters;
  /** Resolves when the engine can be asked, which searches wait for; undefined: it can be asked now. */
  readonly ready?: Promise<void> | undefined;
}

/** An engine behind HTTP. Both functions are pure. */
export interface HttpEngine extends EngineAbout {
  /** False: the page that is asked for is behind the last one that the service has, and nothing is sent. Default true. */
  reaches?(query: EngineQuery): boolean;
  /**
   * The request for `state`: undefined first, then what `parse` returned as `next`. `account`: whose search it is, which an engine
   * must not send as it is.
   */
  request(query: EngineQuery, state: unknown, account?: string): EngineRequest;
  /** Reads a response. Throws `EngineError`; anything else it throws counts as `invalid response`. */
  parse(response: EngineResponse, context: ParseContext): EnginePage;
}

/** An engine in this process. */
export interface InProcessEngine extends EngineAbout {
  /** Resolves with at most `maxResults` hits; `signal` fires when the search is cancelled. */
  search(query: EngineQuery, signal: AbortSignal): Promise<readonly EngineHit[]>;
}

export type Engine = HttpEngine | InProcessEngine;

/** Why an engine failed: decides how long it is suspended and the reason that clients read. */
export type EngineFailure =
  | 'denied'
  | 'challenge'
  | 'rate limited'
  | 'quota'
  | 'rejected'
  | 'http'
  | 'invalid'
  /** A metasearch engine had no answer of the engines that it asks. */
  | 'unresponsive';

const REASONS: Readonly<Record<Exclude<EngineFailure, 'http'>, string>> = {
  denied: 'access denied',
  challenge: 'challenge page',
  'rate limited': 'rate limited',
  quota: 'quota exceeded',
  rejected: 'query rejected',
  invalid: 'invalid response',
  unresponsive: 'no engine of the instance answered',
};

interface EngineErrorOptions {
  /** Named in the reason of `http` failures. */
  readonly status?: number;
  readonly retryAfterMs?: number | undefined;
  readonly ofAccount?: boolean;
  /** The error behind it, whose kind and place are logged. */
  readonly cause?: unknown;
}

/** A failure that an engine recognised. Never carries text of the service. */
export class EngineError extends Error {
  override readonly name = 'EngineError';
  readonly failure: EngineFailure;
  /** When the engine may be asked again, in milliseconds from now, where it says so. */
  readonly retryAfterMs: number | undefined;
  /** Only the account of the search was refused: it says nothing about the engine. Default false. */
  readonly ofAccount: boolean;

  constructor(failure: EngineFailure, options: EngineErrorOptions = {}) {
    super(failure === 'http' ? `engine returned HTTP ${options.status ?? 0}` : REASONS[failure], options);
    this.failure = failure;
    this.retryAfterMs = options.retryAfterMs;
    this.ofAccount = options.ofAccount ?? false;
  }

  /** Short and stable, for `meta.engine_errors`. */
  get reason(): string {
    return this.message;
  }
}

/** A failure whose reason is in other words than those of its kind. They must be as short and stable. */
export class ReasonedError extends EngineError {
  constructor(failure: EngineFailure, reason: string, options?: EngineErrorOptions) {
    super(failure, options);
    this.message = reason;
  }
}

/** Whether the same search would have this reason again, until settings change. */
export function isLasting(reason: string): boolean {
  return LASTING.test(reason);
}

const LASTING = /^(?:not configured$|unsupported search_type )/;
