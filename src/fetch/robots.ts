// robots.txt (RFC 9309): a cache of parsed rules, and one request per origin and account, shared by the pages that wait for it. It ends
// when none of them waits any more.

import { LRUCache } from 'lru-cache';
import type { Clock } from '../actor/index.ts';
import { type ErrorCode, HeadraceError } from '../errors.ts';
import { abortable } from '../net/abortable.ts';
import { type SharedCache, sharedKey } from '../net/shared-cache.ts';
import { NAME_NOT_FOUND } from './guard.ts';
import { productOf, RobotsRules } from './robots-rules.ts';

/** The response to a request for robots.txt. */
export interface RobotsResponse {
  readonly status: number;
  /** The first `ROBOTS_BYTES` of the body. */
  readonly bytes: Uint8Array;
}

/** Fetches a robots.txt, following redirects. Rejects when there is no response, and with the reason of `signal`. */
export type FetchRobots = (url: string, signal: AbortSignal) => Promise<RobotsResponse>;

/** Who asks, and until when. */
export interface RobotsAsker {
  readonly userAgent: string;
  /** Shares requests for files with nobody else: another account would wait for the turns of this one. */
  readonly account: string;
  readonly signal: AbortSignal;
}

/** A file, and the agent whose rules are read from it. */
interface RobotsFile {
  readonly agent: string;
  readonly url: string;
}

/** A request for a file, and the pages that wait for it. */
interface RobotsRequest {
  readonly rules: Promise<RobotsRules>;
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

/** Memory of all rules; those of a large file take 5 MB. */
const MAX_BYTES = 33_554_432;

const UNREACHABLE: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['HR_FETCH_FAILED', 'HR_FETCH_TIMEOUT']);

const NONE_ALLOWED = new RobotsRules('user-agent: *\ndisallow: /', '*');

export class Robots {
  /** By `keyOf`. */
  readonly #cache: LRUCache<string, RobotsRules>;
  readonly #requests = new Map<string, RobotsRequest>();

  readonly #shared: SharedCache | undefined;

  /** `shared`: files that other gateways have read. */
  constructor(clock: Clock, shared?: SharedCache) {
    this.#shared = shared;
    // The cache takes a time of 0 for none.
    const limits = { max: MAX_ORIGINS, maxSize: MAX_BYTES, sizeCalculation: ({ bytes }: RobotsRules) => bytes };
    this.#cache = new LRUCache({ ...limits, ttlResolution: 0, perf: { now: () => clock.now() + 1 } });
  }

  /** Rejects with `HR_FETCH_ROBOTS` when the page may not be fetched, and with the reason of the signal. */
  async admit(url: URL, asker: RobotsAsker, fetchRobots: FetchRobots): Promise<void> {
    // Section 2.2.2: always allowed.
    if (url.pathname === '/robots.txt') return;
    const file = { agent: productOf(asker.userAgent), url: `${url.origin}/robots.txt` };
    const rules = this.#cache.get(keyOf(file)) ?? (await this.#request(file, asker, fetchRobots));
    if (!rules.allows(url)) throw new HeadraceError('HR_FETCH_ROBOTS', { subject: url.host });
  }

  async #request(file: RobotsFile, { account, signal }: RobotsAsker, fetchRobots: FetchRobots): Promise<RobotsRules> {
    const key = `${account} ${keyOf(file)}`;
    const request = this.#requests.get(key) ?? this.#begin(file, fetchRobots);
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

  #begin(file: RobotsFile, fetchRobots: FetchRobots): RobotsRequest {
    const left = new AbortController();
    const rules = this.#load(file, (url) => fetchRobots(url, left.signal));
    // When all pages have left, nobody hears how it ends.
    rules.catch(() => undefined);
    return { rules, left, pages: 0 };
  }

  async #load(file: RobotsFile, fetchRobots: (url: string) => Promise<RobotsResponse>): Promise<RobotsRules> {
    const { agent, url } = file;
    const key = this.#shared?.isOn === true ? sharedKey(['robots', url]) : null;
    const found = key === null ? null : await this.#find(key);
    if (found !== null) {
      const rules = rulesOf(found.response, agent);
      this.#cache.set(keyOf(file), rules, { ttl: Math.min(found.remainingMs, TTL_MS) });
      return rules;
    }
    // Section 2.3.1.4: no response or a server error disallows everything.
    const response = await fetchRobots(url).catch(nullIfUnreachable);
    const isFailure = response === null || response.status >= 500;
    const rules = isFailure ? NONE_ALLOWED : rulesOf(response, agent);
    this.#cache.set(keyOf(file), rules, { ttl: isFailure ? FAILURE_TTL_MS : TTL_MS });
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

function keyOf({ agent, url }: RobotsFile): string {
  return `${agent} ${url}`;
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
function rulesOf({ bytes, status }: RobotsResponse, agent: string): RobotsRules {
  const isRules = status >= 200 && status < 300;
  return new RobotsRules(isRules ? new TextDecoder().decode(bytes) : '', agent);
}
