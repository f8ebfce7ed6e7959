// robots.txt (RFC 9309): one request per origin, shared by the pages that wait for it, and a cache of parsed rules.

import { LRUCache } from 'lru-cache';
import robotsParser from 'robots-parser';
import type { Clock } from '../actor/index.ts';
import { type ErrorCode, HeadraceError } from '../errors.ts';

/** The response to a request for robots.txt. */
export interface RobotsResponse {
  readonly status: number;
  /** The first `ROBOTS_BYTES` of the body. */
  readonly bytes: Uint8Array;
}

/** Fetches a robots.txt, following redirects. Rejects when there is no response. */
export type FetchRobots = (url: string) => Promise<RobotsResponse>;

interface Rules {
  isAllowed(url: string, userAgent: string): boolean | undefined;
}

/** RFC 9309 section 2.5: at least 500 KiB must be parsed. */
export const ROBOTS_BYTES = 512_000;

/** RFC 9309 section 2.4 allows a day. */
const TTL_MS = 3_600_000;

/** After a failure the file is requested again soon. */
const FAILURE_TTL_MS = 60_000;

const MAX_ORIGINS = 1024;

/** Matching a wildcard rule costs its length times that of the path; longer and further ones are ignored. */
const MAX_WILDCARD_RULES = 200;
const MAX_RULE = 512;

const UNREACHABLE: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['HR_FETCH_FAILED', 'HR_FETCH_TIMEOUT']);

const ALL_ALLOWED: Rules = { isAllowed: () => true };
const NONE_ALLOWED: Rules = { isAllowed: () => false };

// The package's types declare a default export that it does not have.
const parse = robotsParser as unknown as (url: string, text: string) => Rules;

export class Robots {
  readonly #cache: LRUCache<string, Rules>;
  readonly #requests = new Map<string, Promise<Rules>>();

  constructor(clock: Clock) {
    // The cache takes a time of 0 for none.
    this.#cache = new LRUCache({ max: MAX_ORIGINS, ttlResolution: 0, perf: { now: () => clock.now() + 1 } });
  }

  /** Rejects with `HR_FETCH_ROBOTS` when `userAgent` may not fetch the page. Pages of one origin share a request. */
  async admit(url: URL, userAgent: string, fetchRobots: FetchRobots): Promise<void> {
    const rules = this.#cache.get(url.origin) ?? (await this.#request(url.origin, fetchRobots));
    if (rules.isAllowed(url.href, userAgent) === false)
      throw new HeadraceError('HR_FETCH_ROBOTS', { subject: url.host });
  }

  #request(origin: string, fetchRobots: FetchRobots): Promise<Rules> {
    const running =
      this.#requests.get(origin) ?? this.#load(origin, fetchRobots).finally(() => this.#requests.delete(origin));
    this.#requests.set(origin, running);
    return running;
  }

  async #load(origin: string, fetchRobots: FetchRobots): Promise<Rules> {
    const url = `${origin}/robots.txt`;
    // Section 2.3.1.4: no response or a server error disallows everything.
    const response = await fetchRobots(url).catch(nullIfUnreachable);
    const isFailure = response === null || response.status >= 500;
    const rules = isFailure ? NONE_ALLOWED : rulesOf(url, response);
    this.#cache.set(origin, rules, { ttl: isFailure ? FAILURE_TTL_MS : TTL_MS });
    return rules;
  }
}

/** Errors of the gateway itself say nothing about the server and are passed on. */
function nullIfUnreachable(error: unknown): null {
  if (error instanceof HeadraceError && UNREACHABLE.has(error.code)) return null;
  throw error;
}

/** Section 2.3.1.3: an unavailable file allows everything. */
function rulesOf(url: string, { bytes, status }: RobotsResponse): Rules {
  if (status < 200 || status >= 300) return ALL_ALLOWED;
  let wildcards = 0;
  const lines = new TextDecoder()
    .decode(bytes)
    .split(/\r\n|\r|\n/)
    .filter((line) => line.length <= MAX_RULE && (!line.includes('*', 12) || ++wildcards <= MAX_WILDCARD_RULES));
  return parse(url, lines.join('\n'));
}
