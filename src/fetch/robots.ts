// robots.txt (RFC 9309): a cache of parsed rules, and one request per origin and account, shared by the pages that wait for it. It ends
// when none of them waits any more.

import { LRUCache } from 'lru-cache';
import robotsParser from 'robots-parser';
import type { Clock } from '../actor/index.ts';
import { type ErrorCode, HeadraceError } from '../errors.ts';
import { type SharedCache, sharedKey } from '../net/shared-cache.ts';
import { NAME_NOT_FOUND } from './guard.ts';
import { abortable } from './guarded-connector.ts';

/** The response to a request for robots.txt. */
export interface RobotsResponse {
  readonly status: number;
  /** The first `ROBOTS_BYTES` of the body. */
  readonly bytes: Uint8Array;
}

/** Fetches a robots.txt, following redirects. Rejects when there is no response, and with the reason of `signal`. */
export type FetchRobots = (url: string, signal: AbortSignal) => Promise<RobotsResponse>;

interface Rules {
  isAllowed(url: string, userAgent: string): boolean | undefined;
}

/** Who asks, and until when. */
export interface RobotsAsker {
  readonly userAgent: string;
  /** Shares requests for files with nobody else: another account would wait for the turns of this one. */
  readonly account: string;
  readonly signal: AbortSignal;
}

/** A request for a file, and the pages that wait for it. */
interface RobotsRequest {
  readonly rules: Promise<Rules>;
  readonly left: AbortController;
  pages: number;
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

/** A rule is kept once for each name of its group; further ones are ignored. With one name, all of the largest file are kept. */
const MAX_KEPT_RULES = 50_000;

const UNREACHABLE: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['HR_FETCH_FAILED', 'HR_FETCH_TIMEOUT']);

const ALL_ALLOWED: Rules = { isAllowed: () => true };
const NONE_ALLOWED: Rules = { isAllowed: () => false };

// The package's types declare a default export that it does not have.
const parse = robotsParser as unknown as (url: string, text: string) => Rules;

export class Robots {
  readonly #cache: LRUCache<string, Rules>;
  readonly #requests = new Map<string, RobotsRequest>();

  readonly #shared: SharedCache | undefined;

  /** `shared`: files that other gateways have read. */
  constructor(clock: Clock, shared?: SharedCache) {
    this.#shared = shared;
    // The cache takes a time of 0 for none.
    this.#cache = new LRUCache({ max: MAX_ORIGINS, ttlResolution: 0, perf: { now: () => clock.now() + 1 } });
  }

  /** Rejects with `HR_FETCH_ROBOTS` when the page may not be fetched, and with the reason of the signal. */
  async admit(url: URL, asker: RobotsAsker, fetchRobots: FetchRobots): Promise<void> {
    const rules = this.#cache.get(url.origin) ?? (await this.#request(url.origin, asker, fetchRobots));
    if (rules.isAllowed(url.href, asker.userAgent) === false)
      throw new HeadraceError('HR_FETCH_ROBOTS', { subject: url.host });
  }

  async #request(origin: string, { account, signal }: RobotsAsker, fetchRobots: FetchRobots): Promise<Rules> {
    const key = `${account} ${origin}`;
    const request = this.#requests.get(key) ?? this.#begin(origin, fetchRobots);
    this.#requests.set(key, request);
    request.pages++;
    try {
      return await abortable(signal, request.rules);
    } finally {
      if (--request.pages === 0) {
        this.#requests.delete(key);
        request.left.abort(new Error('no page waits for robots.txt'));
      }
    }
  }

  #begin(origin: string, fetchRobots: FetchRobots): RobotsRequest {
    const left = new AbortController();
    const rules = this.#load(origin, (url) => fetchRobots(url, left.signal));
    // When all pages have left, nobody hears how it ends.
    rules.catch(() => undefined);
    return { rules, left, pages: 0 };
  }

  async #load(origin: string, fetchRobots: (url: string) => Promise<RobotsResponse>): Promise<Rules> {
    const url = `${origin}/robots.txt`;
    const key = this.#shared?.isOn === true ? sharedKey(['robots', url]) : null;
    const found = key === null ? null : await this.#find(key);
    if (found !== null) {
      const rules = rulesOf(url, found.response);
      this.#cache.set(origin, rules, { ttl: Math.min(found.remainingMs, TTL_MS) });
      return rules;
    }
    // Section 2.3.1.4: no response or a server error disallows everything.
    const response = await fetchRobots(url).catch(nullIfUnreachable);
    const isFailure = response === null || response.status >= 500;
    const rules = isFailure ? NONE_ALLOWED : rulesOf(url, response);
    this.#cache.set(origin, rules, { ttl: isFailure ? FAILURE_TTL_MS : TTL_MS });
    // A failure may be one of the way from this gateway to the server.
    if (!isFailure && key !== null) this.#shared?.set('robots', key, entryOf(response), TTL_MS, '');
    return rules;
  }

  /** The file as another gateway has read it. */
  #find(key: string): Promise<{ readonly response: RobotsResponse; readonly remainingMs: number } | null> {
    return new Promise((resolve) => {
      this.#shared?.get('robots', key, responseOf, (response, remainingMs) =>
        resolve(response === null ? null : { response, remainingMs }),
      );
    });
  }
}

/** A response as it is shared: its status in two bytes, then its body. */
function entryOf({ bytes, status }: RobotsResponse): Buffer {
  const isRules = status >= 200 && status < 300;
  return Buffer.concat([Buffer.of(status >> 8, status & 0xff), isRules ? bytes : new Uint8Array()]);
}

/** Null for what no gateway writes. */
function responseOf(entry: Buffer): RobotsResponse | null {
  const status = entry.length < 2 ? 0 : entry.readUInt16BE();
  const isResponse = status >= 100 && status < 500 && entry.length <= ROBOTS_BYTES + 2;
  return isResponse ? { status, bytes: entry.subarray(2) } : null;
}

/** Errors of the gateway itself say nothing about the server and are passed on, as is that there is no server. */
function nullIfUnreachable(error: unknown): null {
  const isUnreachable = error instanceof HeadraceError && UNREACHABLE.has(error.code);
  if (isUnreachable && error.subject !== NAME_NOT_FOUND) return null;
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
  return parse(url, withinRules(lines).join('\n'));
}

/** The lines up to `MAX_KEPT_RULES`. */
function withinRules(lines: readonly string[]): string[] {
  let names = 0;
  let isAfterName = false;
  let kept = 0;
  return lines.filter((line) => {
    const [text = ''] = line.split('#', 1);
    const colon = text.indexOf(':');
    const field = colon === -1 ? '' : text.slice(0, colon).trim().toLowerCase();
    if (field === '') return false;
    const isName = field === 'user-agent';
    if (isName) names = isAfterName ? names + 1 : 1;
    else kept += names;
    isAfterName = isName;
    return isName || kept <= MAX_KEPT_RULES;
  });
}
