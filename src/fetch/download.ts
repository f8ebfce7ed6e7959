// Downloads pages from untrusted servers. Every hop of a redirect chain passes the guard and waits for a slot of its host;
// status, type, bot challenge and size are checked before and while the body is read. Changed settings apply to downloads
// that start later.

import { isUtf8 } from 'node:buffer';
import { type Clock, systemEpochMs } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import { HeadraceError } from '../errors.ts';
import { abortable, joinedSignal, type JoinedSignal } from '../net/abortable.ts';
import type { Lookup } from '../net/name-cache.ts';
import type { SharedCache } from '../net/shared-cache.ts';
import { ACCEPTED_CODINGS, BodyReader } from './body-reader.ts';
import { CHALLENGE_BYTES, isChallengeHead, isChallengePage } from './challenge.ts';
import { Cookies } from './cookies.ts';
import { createGuard, type Guard } from './guard.ts';
import { GuardedClient, type GuardedResponse } from './guarded-client.ts';
import { type HostCounts, HostLimits, type Release } from './host-limits.ts';
import { declaredType, mediaTypeOf, refuseByHeader } from './media-type.ts';
import type { PageTrace } from './page-trace.ts';
import { refreshOf, type RefreshTarget } from './refresh.ts';
import { type FetchRobots, Robots, ROBOTS_BYTES, type RobotsResponse } from './robots.ts';

/** A page as downloaded, decompressed and within the limits. */
export interface Download {
  /** Where it was found after redirects, without fragment. */
  readonly url: string;
  /** Lower case, without parameters; sniffed from the bytes where the server does not say. */
  readonly mediaType: string;
  /** From the header, lower case; null when it says none. */
  readonly charset: string | null;
  /** Owns the whole of its buffer, which may be transferred to another thread. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The server forbids caching (`Cache-Control: no-store` or `private`, `Vary: *`), of the page or of what led to it. */
  readonly noStore: boolean;
  /** By which the server can be asked whether it has changed; absent where it gives none. */
  readonly validators?: Validators;
}

/** Validators of a response (RFC 9110 §8.8), as they were sent, and the URL that they are of. */
export interface Validators {
  readonly url: string;
  readonly etag?: string;
  readonly lastModified?: string;
}

/** A page that has not changed since it was downloaded with validators: status 304. */
export interface Unchanged {
  readonly unchanged: true;
  /** As in `Download`, by the new response. */
  readonly noStore: boolean;
}

/** Leave to load a page with a browser. */
export interface Visit {
  /** Checks the hosts that the page sends requests to. */
  readonly guard: Guard;
  /** Checks a URL that the page is loaded from, by the guard and by robots.txt. Rejects as `download` does. */
  readonly admit: (url: string) => Promise<URL>;
  /** Gives the slot of the host back; further calls do nothing. */
  release(): void;
}

export interface Downloader {
  /**
   * Fetches a page, in turns of `account`. Rejects with `HR_FETCH_BLOCKED`, `HR_FETCH_ROBOTS`, `HR_FETCH_TOO_LARGE` (subject: the limit),
   * `HR_FETCH_TYPE`, `HR_FETCH_FAILED`, `HR_FETCH_CHALLENGE`, `HR_FETCH_TIMEOUT` (subject `connect` or `first byte`) or
   * `HR_FETCH_BUSY`, and with the reason of `signal` when that fires. The signal carries the total timeout of the page. `trace` hears of each request.
   */
  download(url: string, account: string, signal: AbortSignal, trace?: PageTrace): Promise<Download>;
  /** As `download`, unless the page that was downloaded with these validators has not changed. */
  refresh(validators: Validators, url: string, account: string, signal: AbortSignal): Promise<Download | Unchanged>;
  /** Admits a page that a browser loads, and holds a slot of its host until it is released. Rejects as `download` does. */
  visit(url: string, account: string, signal: AbortSignal): Promise<Visit>;
  /** Applies to downloads that start later. */
  configure(settings: Settings['fetch']): void;
  /** Requests that wait for a slot of their host, and those that were refused since the start because too many waited. */
  waits(): { readonly waiting: number; readonly refused: number };
  /** Ends running downloads with `HR_DRAINING` and closes all connections. */
  close(): Promise<void>;
}

export interface DownloaderDeps {
  readonly clock: Clock;
  /** Default: the resolver of the system. */
  readonly lookup?: Lookup;
  /** Counts of hosts that other gateways read. Default: there are none. */
  readonly hosts?: HostCounts;
  /** robots.txt of other gateways. Default: none. */
  readonly shared?: SharedCache;
  /** Certificate authorities to trust in place of the system's, PEM. For tests. */
  readonly ca?: string;
}

/** HTML first, then what else can be read. */
const ACCEPT =
  'text/html,application/xhtml+xml,text/markdown;q=0.9,text/plain;q=0.8,application/pdf;q=0.8,application/xml;q=0.7,application/json;q=0.7,*/*;q=0.1';

/** RFC 9309 section 2.3.1.2: at least five. */
const ROBOTS_REDIRECTS = 5;

/** Statuses of bot challenges. Bodies of other errors are not read. */
const CHALLENGE_STATUSES: ReadonlySet<number> = new Set([401, 403, 405, 429, 503]);

/** Of pages that are not there: to ask again does not help. */
const GONE: ReadonlySet<number> = new Set([404, 410]);

const REDIRECT_STATUSES: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

const NO_STORE = /(?:^|[\s,])(?:no-store|private)(?:$|[\s,=])/i;

const ANY = /(?:^|[\s,])\*(?:$|[\s,])/;

/** Beside the body, on the wire: heads, and the framing of usual chunks. */
const MORE_WIRE_BYTES = 1_048_576;

/** Longer validators are not kept. */
const MAX_VALIDATOR = 512;

const PRINTABLE = /^[\x20-\x7e]+$/;

const NO_CONDITION: Readonly<Record<string, string>> = {};

/** RFC 9110 §13.1: with an entity tag, a server does not look at the date. */
function conditionOf({ etag, lastModified }: Validators): Readonly<Record<string, string>> {
  return {
    ...(etag !== undefined && { 'if-none-match': etag }),
    ...(lastModified !== undefined && { 'if-modified-since': lastModified }),
  };
}

function validatorsOf(url: string, headers: GuardedResponse['headers']): Validators | undefined {
  const { etag = '', 'last-modified': lastModified = '' } = headers;
  const hasTag = /^(?:W\/)?"[\x21\x23-\x7e]*"$/.test(etag) && etag.length <= MAX_VALIDATOR;
  const hasDate =
    lastModified.length <= MAX_VALIDATOR && PRINTABLE.test(lastModified) && !Number.isNaN(Date.parse(lastModified));
  if (!hasTag && !hasDate) return undefined;
  return { url, ...(hasTag && { etag }), ...(hasDate && { lastModified }) };
}

/** Also where each request may get another answer, whatever it says (`Vary: *`, RFC 9111 §4.1). Other fields do not vary: all requests are alike. */
function forbidsCaching({ headers }: Pick<GuardedResponse, 'headers'>): boolean {
  return NO_STORE.test(headers['cache-control'] ?? '') || ANY.test(headers['vary'] ?? '');
}

/** Settings with the guard and the connection pool that belong to them. */
interface Generation {
  readonly settings: Settings['fetch'];
  readonly guard: Guard;
  readonly client: GuardedClient;
  transfers: number;
}

/** The download of a page or a robots.txt, redirects included. */
interface Transfer extends JoinedSignal {
  readonly generation: Generation;
  readonly chain: RedirectChain;
  /** Whose turns its requests take. */
  readonly account: string;
  readonly trace: PageTrace | undefined;
}

export function createDownloader(settings: Settings['fetch'], deps: DownloaderDeps): Downloader {
  return new PageDownloader(settings, deps);
}

class PageDownloader implements Downloader {
  readonly #deps: DownloaderDeps;
  readonly #limits: HostLimits;
  readonly #robots: Robots;
  readonly #bodies: BodyReader;
  readonly #closing = new AbortController();
  /** The current one, and those whose transfers have not ended. */
  readonly #generations = new Set<Generation>();
  #current: Generation;

  constructor(settings: Settings['fetch'], deps: DownloaderDeps) {
    this.#deps = deps;
    this.#limits = new HostLimits(settings, deps.clock, deps.hosts);
    this.#robots = new Robots(deps.clock, deps.shared);
    this.#bodies = new BodyReader(deps.clock);
    this.#current = this.#open(settings);
  }

  configure(settings: Settings['fetch']): void {
    const old = this.#current;
    this.#limits.configure(settings);
    this.#current = this.#open(settings);
    this.#retire(old);
  }

  async download(url: string, account: string, signal: AbortSignal, trace?: PageTrace): Promise<Download> {
    const transfer = this.#begin(url, account, signal, this.#current.settings.redirects, trace);
    return (await this.#settle(transfer, this.#page(transfer, null))) as Download;
  }

  async refresh(
    validators: Validators,
    url: string,
    account: string,
    signal: AbortSignal,
  ): Promise<Download | Unchanged> {
    const transfer = this.#begin(url, account, signal, this.#current.settings.redirects);
    return await this.#settle(transfer, this.#page(transfer, validators));
  }

  async visit(url: string, account: string, signal: AbortSignal): Promise<Visit> {
    const generation = this.#current;
    const { guard } = generation;
    const { robots, userAgent } = generation.settings;
    const { release: forget, signal: ended } = joinedSignal(this.#closing.signal, signal);
    const fetchRobots: FetchRobots = (file, left) => this.#fetchRobots(file, account, left);
    const admit = async (text: string): Promise<URL> => {
      const admitted = guard.admit(text);
      if (robots) await this.#robots.admit(admitted, { userAgent, account, signal: ended }, fetchRobots);
      return admitted;
    };
    generation.transfers++;
    const leave = (): void => {
      forget();
      generation.transfers--;
      this.#retire(generation);
    };
    let release: Release;
    try {
      const { hostname } = await admit(url);
      release = await this.#limits.acquire(account, hostname, ended);
    } catch (error) {
      leave();
      throw error;
    }
    let held = true;
    return {
      guard,
      admit,
      release: () => {
        if (held) leave();
        held = false;
        release();
      },
    };
  }

  waits(): { readonly waiting: number; readonly refused: number } {
    const { refused, waiting } = this.#limits;
    return { waiting, refused };
  }

  async close(): Promise<void> {
    this.#closing.abort(new HeadraceError('HR_DRAINING'));
    this.#limits.close();
    await Promise.all(Array.from(this.#generations, ({ client }) => client.close()));
    this.#generations.clear();
  }

  #open(settings: Settings['fetch']): Generation {
    const { allow, connectTimeoutMs, deny, firstByteTimeoutMs, maxBytes, perHost, ports } = settings;
    const { ca, clock, lookup } = this.#deps;
    const guard = createGuard({ allow, deny, ports, clock, ...(lookup === undefined ? {} : { lookup }) });
    const timeouts = { timeoutMs: connectTimeoutMs, firstByteTimeoutMs };
    const trust = ca === undefined ? {} : { ca };
    const limits = { maxWireBytes: 2 * maxBytes + MORE_WIRE_BYTES, connections: perHost };
    const client = new GuardedClient({ guard, clock, ...timeouts, ...limits, ...trust });
    const generation = { settings, guard, client, transfers: 0 };
    this.#generations.add(generation);
    return generation;
  }

  /** Closes the connections of a generation that is neither current nor in use. */
  #retire(generation: Generation): void {
    if (generation === this.#current || generation.transfers > 0 || !this.#generations.delete(generation)) return;
    // Closes in the background: no transfer depends on it, so there is no one to report an error to.
    generation.client.close().catch(() => undefined);
  }

  #begin(url: string, account: string, signal: AbortSignal, maxRedirects: number, trace?: PageTrace): Transfer {
    const generation = this.#current;
    for (const ended of [this.#closing.signal, signal]) ended.throwIfAborted();
    const chain = new RedirectChain(url, generation.guard, maxRedirects);
    const transfer = { generation, chain, account, trace, ...joinedSignal(this.#closing.signal, signal) };
    generation.transfers++;
    return transfer;
  }

  /** Ends a transfer with its work or its signal, whichever is first. */
  async #settle<T>({ generation, release, signal }: Transfer, work: Promise<T>): Promise<T> {
    try {
      return await abortable(signal, work);
    } finally {
      release();
      generation.transfers--;
      this.#retire(generation);
    }
  }

  /** Without validators, the page is always a download. */
  async #page(transfer: Transfer, validators: Validators | null): Promise<Download | Unchanged> {
    const { account, chain, generation, signal, trace } = transfer;
    const { robots, userAgent } = generation.settings;
    const asker = { userAgent, account, signal };
    const fetchRobots: FetchRobots = (url, left) => this.#fetchRobots(url, account, left);
    for (;;) {
      if (robots) {
        await this.#robots.admit(chain.url, asker, fetchRobots);
        trace?.robots();
      }
      const condition = validators?.url === chain.url.href ? conditionOf(validators) : NO_CONDITION;
      const read = async (response: GuardedResponse): Promise<Download | Unchanged | null> => {
        const isUnchanged = response.status === 304 && condition !== NO_CONDITION;
        return isUnchanged ? { unchanged: true, noStore: chain.noStore } : await this.#readPage(response, transfer);
      };
      const download = await this.#hop(transfer, ACCEPT, condition, read);
      trace?.read(download === null ? chain.url.href : null);
      if (download !== null) return download;
    }
  }

  /** One request, in a slot of its host; null after a redirect. */
  async #hop<T>(
    { account, chain, generation, signal, trace }: Transfer,
    accept: string,
    condition: Readonly<Record<string, string>>,
    read: (response: GuardedResponse) => Promise<T | null>,
  ): Promise<T | null> {
    const cookie = chain.cookie;
    const headers = {
      ...(cookie === '' ? {} : { cookie }),
      'user-agent': generation.settings.userAgent,
      accept,
      'accept-encoding': ACCEPTED_CODINGS,
      'accept-language': 'en,*;q=0.5',
      ...condition,
    };
    trace?.asked(chain.url.href);
    const release = await this.#limits.acquire(account, chain.url.hostname, signal);
    trace?.sent();
    try {
      const response = await generation.client.get(chain.url, headers, signal);
      trace?.answered(response.status, response.headers['content-type']);
      try {
        chain.takeCookies(response.cookies);
        chain.noStore ||= forbidsCaching(response);
        return chain.follow(response.status, response.headers['location']) ? null : await read(response);
      } finally {
        response.close();
      }
    } finally {
      release();
    }
  }

  /** Null when the page leads elsewhere. */
  async #readPage(
    response: GuardedResponse,
    { account, chain, generation, signal }: Transfer,
  ): Promise<Download | null> {
    const { headers, status } = response;
    if (isChallengeHead(status, headers)) throw new HeadraceError('HR_FETCH_CHALLENGE');
    if (status < 200 || status > 203) {
      if (CHALLENGE_STATUSES.has(status))
        refuseChallenge(await this.#bodies.readStart(response, CHALLENGE_BYTES, signal));
      const headers = GONE.has(status) ? ['x-should-retry', 'false'] : [];
      throw new HeadraceError('HR_FETCH_FAILED', { subject: `status ${status}`, headers });
    }
    const declared = declaredType(headers['content-type']);
    refuseByHeader(declared);
    const bytes = await this.#bodies.read(response, generation.settings.maxBytes, account, signal);
    const mediaType = mediaTypeOf(declared, bytes);
    if (mediaType.includes('html')) {
      refuseChallenge(bytes);
      const target = refreshOf(headers['refresh'], bytes);
      if (target !== null && chain.refresh(target)) return null;
    }
    const validators = validatorsOf(chain.url.href, headers);
    return {
      ...{ url: chain.url.href, mediaType, charset: declared.charset, bytes, noStore: chain.noStore },
      ...(validators !== undefined && { validators }),
    };
  }

  /** Has a timeout of its own, since all pages that wait for the file share the request. */
  async #fetchRobots(url: string, account: string, left: AbortSignal): Promise<RobotsResponse> {
    const { clock } = this.#deps;
    const timeout = new AbortController();
    const expire = (): void => timeout.abort(new HeadraceError('HR_FETCH_TIMEOUT', { subject: 'robots.txt' }));
    const timer = clock.setTimeout(expire, this.#current.settings.timeoutMs);
    try {
      const transfer = this.#begin(url, account, AbortSignal.any([timeout.signal, left]), ROBOTS_REDIRECTS);
      return await this.#settle(transfer, this.#robotsFile(transfer));
    } finally {
      clock.clearTimeout(timer);
    }
  }

  async #robotsFile(transfer: Transfer): Promise<RobotsResponse> {
    const read = async (response: GuardedResponse): Promise<RobotsResponse> => ({
      status: response.status,
      bytes: await this.#bodies.readStart(response, ROBOTS_BYTES, transfer.signal),
    });
    for (;;) {
      const answer = await this.#hop(transfer, 'text/plain', NO_CONDITION, read);
      if (answer !== null) return answer;
    }
  }
}

/**
 * The URLs of one transfer and the cookies that its servers set; each URL passes the guard before it is requested. No request carries a
 * secret of a client, so a redirect from https to http is followed, as in browsers.
 */
class RedirectChain {
  readonly #guard: Guard;
  readonly #maxRedirects: number;
  /** Requests: URL and cookies. */
  readonly #seen: Set<string>;
  readonly #cookies = new Cookies();
  /** The current hop. */
  url: URL;
  /** An answer so far forbids caching: what it leads to may be another page the next time, or for another client. */
  noStore = false;

  /** Throws `HR_FETCH_BLOCKED` as the guard does. */
  constructor(url: string, guard: Guard, maxRedirects: number) {
    this.#guard = guard;
    this.#maxRedirects = maxRedirects;
    this.url = guard.admit(url);
    this.#seen = new Set([requestKey(this.url, '')]);
  }

  /** The `Cookie` field of the current hop; '' for none. */
  get cookie(): string {
    return this.#cookies.header(this.url);
  }

  takeCookies(fields: readonly string[]): void {
    if (fields.length > 0) this.#cookies.take(fields, this.url, systemEpochMs());
  }

  /**
   * Goes on to the next hop; false when the response is no redirect. Throws `HR_FETCH_FAILED` (`bad redirect`,
   * `redirect loop`, `too many redirects`) or `HR_FETCH_BLOCKED`.
   */
  follow(status: number, field: string | undefined): boolean {
    if (field === undefined || !REDIRECT_STATUSES.has(status)) return false;
    const location = locationText(field);
    if (URL.parse(location, this.url.href) === null) throw redirectError('bad redirect');
    this.#go(this.#guard.admit(location, this.url));
    return true;
  }

  /** Goes where a page leads; false when that is the page itself, which is content then. Throws as `follow` does. */
  refresh({ base, url }: RefreshTarget): boolean {
    const from = base === '' ? this.url : (URL.parse(locationText(base), this.url.href) ?? this.url);
    const location = locationText(url);
    if (URL.parse(location, from.href) === null) return false;
    const next = this.#guard.admit(location, from);
    if (next.href === this.url.href && this.#seen.has(this.#keyOf(next))) return false;
    this.#go(next);
    return true;
  }

  #go(next: URL): void {
    const key = this.#keyOf(next);
    // The same URL with the same cookies gives the same redirect again.
    if (this.#seen.has(key)) throw redirectError('redirect loop');
    if (this.#seen.size > this.#maxRedirects) throw redirectError('too many redirects');
    this.#seen.add(key);
    this.url = next;
  }

  #keyOf(url: URL): string {
    return requestKey(url, this.#cookies.header(url));
  }
}

function requestKey(url: URL, cookie: string): string {
  return `${url.href} ${cookie}`;
}

/**
 * Header fields are decoded as Latin-1, as is the markup of a refresh. Bytes of a location that are not escaped are UTF-8 where valid, as in
 * browsers. Characters beyond Latin-1 come from character references.
 */
function locationText(field: string): string {
  if (/[^\0-\xff]/.test(field)) return field;
  const bytes = Buffer.from(field, 'latin1');
  return isUtf8(bytes) ? bytes.toString() : field;
}

function redirectError(subject: string): HeadraceError {
  return new HeadraceError('HR_FETCH_FAILED', { subject });
}

function refuseChallenge(bytes: Uint8Array): void {
  if (isChallengePage(bytes)) throw new HeadraceError('HR_FETCH_CHALLENGE');
}
