// Page fetching for all threads: the actor that downloads, cleans and caches pages, which threads ask by page-client.ts. Equal requests
// of an account share one flight, which ends at the timeout of its first request or when its last one is aborted. Flights of an
// account run in places of its own, so that no account waits for the pages of another.

import {
  type Behavior,
  type Clock,
  type Ref,
  type System,
  systemClock,
  systemEpochMs,
  type TimerHandle,
} from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import { HeadraceError } from '../errors.ts';
import { AnswerCache, type AnswerSource, type Flight, type FlightWork, type Pending } from '../net/answer-cache.ts';
import { ENTRY_BYTES, type SharedCache, sharedKey } from '../net/shared-cache.ts';
import type { Log } from '../telemetry/log.ts';
import {
  type AccountPlaceLimits,
  AccountPlaces,
  createPlaceMemory,
  type Place,
  PlaceCounts,
  type Turn,
} from '../routing/index.ts';
import type { MetricsSnapshot } from '../telemetry/metrics.ts';
import { PageMetrics } from '../telemetry/page-metrics.ts';
import { lookupMetrics } from '../telemetry/shared-cache-metrics.ts';
import { type CleaningPool, createCleaningPool } from './cleaning-pool.ts';
import { createDownloader, type Downloader, type Validators } from './download.ts';
import { createGuard, type Guard } from './guard.ts';
import { isSparse, mayNeedBrowser } from './renderer/needs-browser.ts';
import { createRenderer, type Renderer } from './renderer/renderer.ts';
import { type Rendering, Renderings } from './renderer/rendering.ts';
import { PageTrace } from './page-trace.ts';
import type { PageFailure, PagesCommand } from './page-client.ts';
import { answerOf, extrasOf, type PageRequest, type ReadPage } from './page-answer.ts';
import { readSharedPage, type SharedPage, sharedPageText } from './shared-page.ts';

/** A page, and what is to be known to keep it. */
interface KeptPage {
  readonly page: ReadPage;
  /** When it was fetched or found unchanged, by the monotonic clock. */
  readonly readMs: number;
  /** Null: the server gives none. */
  readonly validators: Validators | null;
  /** The server said that what was kept has not changed. */
  readonly isUnchanged: boolean;
}

type PageResult = KeptPage | PageFailure;

/** Closed by the actor. */
export interface PageTools {
  readonly downloader: Downloader;
  readonly pool: CleaningPool;
  readonly renderer: Renderer;
}

export interface PagesDeps {
  readonly settings: Settings['fetch'];
  /** Called at the first request: without one, no thread and no connection pool is created. */
  readonly open: (settings: Settings['fetch']) => PageTools;
  /** `outcome` is `fetched`, `unchanged`, `cached`, `shared`, or an error code. */
  readonly onOutcome: (outcome: string, elapsedMs: number) => void;
  /** The places of pages, by account; configured by the actor. */
  readonly places: AccountPlaces;
  /** Pages of other gateways. Default: none. */
  readonly shared?: SharedCache;
  /** Errors that are defects of the gateway. */
  readonly onDefect: (error: unknown) => void;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
}

/** Requests that may wait for the actor: far more than there are clients. */
const MAILBOX = { capacity: 65_536, overflow: 'drop-new' } as const;

/** Counts up where what is read of a page changes, so that gateways of two versions do not share pages. */
const PAGE_FORMAT = 2;

/** A page with validators is kept for so many times as long as others: it is asked for anew, but mostly need not be downloaded. */
const STALE_LIFETIMES = 6;

/** Share of the queue that one account may fill. */
const QUEUE_SHARE = 1 / 4;

export function pages(deps: PagesDeps): Behavior<PagesCommand> {
  return (context) => {
    const state = new Pages(deps, context.clock);
    return {
      receive: (command) => state.receive(command),
      signal: (signal) => {
        if (signal.type !== 'Terminated') state.close();
      },
    };
  };
}

class Pages {
  readonly #deps: PagesDeps;
  readonly #clock: Clock;
  readonly #cache: AnswerCache<PageResult, PageFlight>;
  readonly #pending = new Map<string, Pending>();
  #settings: Settings['fetch'];
  #tools: PageTools | null = null;
  /** For addresses of pages that other gateways have shared. */
  #guard: Guard | null = null;

  constructor(deps: PagesDeps, clock: Clock) {
    this.#deps = deps;
    this.#clock = clock;
    this.#settings = deps.settings;
    this.#cache = new AnswerCache({ clock, sizeOf });
    this.#configureCache();
  }

  receive(command: PagesCommand): void {
    switch (command.type) {
      case 'Fetch':
        this.#fetch(command);
        break;
      case 'Abort':
        this.#pending.get(command.id)?.abort();
        this.#pending.delete(command.id);
        break;
      case 'Configure':
        this.#configure(command.settings);
        break;
    }
  }

  close(): void {
    for (const flight of this.#cache.works()) flight.stop(new HeadraceError('HR_DRAINING'));
    const tools = this.#tools;
    this.#tools = null;
    tools?.renderer.close();
    Promise.all([tools?.downloader.close(), tools?.pool.close()]).catch(this.#deps.onDefect);
  }

  #configure(settings: Settings['fetch']): void {
    const before = cacheKeyOf(this.#settings);
    this.#settings = settings;
    this.#guard = null;
    this.#tools?.downloader.configure(settings);
    this.#tools?.pool.configure(settings);
    this.#tools?.renderer.configure(settings);
    this.#deps.places.configure(placeLimits(settings));
    if (cacheKeyOf(settings) !== before) this.#configureCache();
  }

  #configureCache(): void {
    const { cacheBytes, cacheTtlMs } = this.#settings;
    this.#cache.configure(cacheTtlMs === null ? null : STALE_LIFETIMES * cacheTtlMs, cacheBytes);
  }

  #fetch(command: Extract<PagesCommand, { type: 'Fetch' }>): void {
    const { account, explain = false, id, replyTo, request } = command;
    const startedMs = this.#clock.now();
    const trace = explain ? new PageTrace(this.#clock) : undefined;
    const key = keyOf(request, account);
    const oldestMs = startedMs - Math.min(request.maxAgeMs ?? Infinity, this.#settings.cacheTtlMs ?? 0);
    const isFresh = (kept: PageResult): boolean => request.maxAgeMs !== 0 && 'page' in kept && kept.readMs >= oldestMs;
    const kept = this.#cache.peek(key);
    if (kept !== undefined && isFresh(kept)) trace?.kept();
    const reply = (result: PageResult, source: AnswerSource): void => {
      this.#pending.delete(id);
      if (source === 'cache' && 'page' in result && !isFresh(result)) {
        // The flight that it shared took a page of another gateway that only others may have.
        this.#fetch(command);
        return;
      }
      this.#deps.onOutcome(outcomeOf(result, source), this.#clock.now() - startedMs);
      const explanation = trace === undefined ? {} : { explanation: trace.explanation() };
      const answer = 'page' in result ? { answer: answerOf(result.page, request) } : result;
      replyTo.tell({ ...answer, cached: source === 'cache', ...explanation });
    };
    const start = (flight: Flight<PageResult, PageFlight>): PageFlight => {
      const pageFlight = new PageFlight(flight, this.#settings, this.#clock, this.#deps.onDefect);
      const own = trace === undefined && kept !== undefined && 'page' in kept ? kept : null;
      const sharing = flight.isKept && trace === undefined ? this.#sharingOf(account, request) : null;
      const read = (shared: KeptPage | null): void => {
        const before = own?.validators == null ? shared : own;
        const reading: Reading = { account, request, flight: pageFlight, before, sharing, trace };
        const onTurn = (turn: Turn): void => this.#begin(turn, reading);
        pageFlight.hold(() => this.#deps.places.request(account, onTurn));
      };
      if (sharing === null) read(null);
      else sharing.find(pageFlight, request.maxAgeMs, read);
      return pageFlight;
    };
    const pending = this.#cache.request(trace === undefined ? key : `explain ${id}`, reply, start, account, isFresh);
    this.#pending.set(id, pending);
  }

  /** How a page is shared with other gateways; null: not at all. */
  #sharingOf(account: string, request: PageRequest): Sharing | null {
    const { shared } = this.#deps;
    const { cacheTtlMs } = this.#settings;
    if (shared === undefined || !shared.isOn || cacheTtlMs === null) return null;
    this.#guard ??= createGuard({ ...this.#settings, clock: this.#clock });
    return new Sharing(shared, this.#clock, this.#guard, this.#settings, cacheTtlMs, account, request);
  }

  #begin(turn: Turn, reading: Reading): void {
    if (turn === 'place') void this.#read(reading);
    else reading.flight.fail(refusalOf(turn, this.#settings));
  }

  async #read(reading: Reading): Promise<void> {
    const { account, before, flight, request, trace } = reading;
    const { alsoHtml = false, format, url } = request;
    const include = extrasOf(request);
    try {
      const tools = (this.#tools ??= this.#deps.open(this.#settings));
      const { downloader, pool } = tools;
      const given = before?.validators ?? null;
      const found =
        given === null
          ? await downloader.download(url, account, flight.signal, trace)
          : await downloader.refresh(given, url, account, flight.signal);
      const now = { fetched_at: new Date(this.#deps.epochMs()).toISOString() };
      if ('unchanged' in found) {
        const page = { ...(before as KeptPage).page, ...now };
        const result = { page, readMs: this.#clock.now(), validators: given, isUnchanged: true };
        this.#end(reading, result, found.noStore);
        return;
      }
      const { noStore, validators = null, ...download } = found;
      trace?.downloaded({ ...download, noStore });
      const needsBrowser = mayNeedBrowser(this.#settings.renderer, download);
      const options = { format, include, ...(alsoHtml && { alsoHtml }), ...(trace !== undefined && { explain: true }) };
      const clean = await pool.read({ ...download, ...options }, account, flight.signal);
      const plain: Rendering = { page: clean, url: download.url, isRendered: false, isFinal: true };
      const isOfScripts = needsBrowser && (this.#settings.renderer.when === 'always' || isSparse(clean));
      // A PDF is cut by time too: the next time more of it may be read.
      const isCut = clean.truncated === true && download.mediaType === 'application/pdf';
      const kept = (rendering: Rendering): KeptPage => {
        const page = { ...readPageOf(rendering), ...now };
        // That the document is unchanged does not mean that what its scripts show is.
        const own = isOfScripts || isCut ? null : validators;
        return { page, readMs: this.#clock.now(), validators: own, isUnchanged: false };
      };
      if (isOfScripts && this.#settings.renderer.when === 'auto') flight.fallback = kept({ ...plain, isFinal: false });
      const best = needsBrowser
        ? await new Renderings(tools, this.#settings.renderer).read(plain, options, account, flight)
        : plain;
      if (best.isRendered) trace?.rendered();
      trace?.cleaned(best.page.explanation);
      // What an operator reads to have it explained leaves the cache as it is.
      if (trace !== undefined) flight.end(kept(best), false);
      else this.#end(reading, kept(best), noStore || !best.isFinal);
    } catch (error) {
      flight.fail(error);
    }
  }

  /** Answers with a page that was read. What may not be kept takes the place of what was kept before. */
  #end({ account, flight, request, sharing }: Reading, result: KeptPage, noStore: boolean): void {
    if (noStore) this.#cache.forget(keyOf(request, account));
    flight.end(result, !noStore);
    if (!noStore) sharing?.share(result);
  }
}

/** A page that is being read. */
interface Reading {
  readonly account: string;
  readonly request: PageRequest;
  readonly flight: PageFlight;
  /** What was kept, too old for the request; null: nothing. */
  readonly before: KeptPage | null;
  readonly sharing: Sharing | null;
  readonly trace: PageTrace | undefined;
}

/** One page under way, with one timeout for download and cleaning. */
class PageFlight implements FlightWork {
  readonly #flight: Flight<PageResult, PageFlight>;
  readonly #clock: Clock;
  readonly #onDefect: (error: unknown) => void;
  readonly #controller = new AbortController();
  readonly #timer: TimerHandle;
  readonly #lifetimeMs: number;
  /** When the flight must have ended. */
  readonly dueMs: number;
  /** What is answered when its time is over in the browser; null: an error. */
  fallback: KeptPage | null = null;
  #place: Place | null = null;
  #ended = false;

  constructor(
    flight: Flight<PageResult, PageFlight>,
    { cacheTtlMs, timeoutMs }: Settings['fetch'],
    clock: Clock,
    onDefect: (error: unknown) => void,
  ) {
    this.#lifetimeMs = cacheTtlMs ?? 0;
    this.#flight = flight;
    this.#clock = clock;
    this.#onDefect = onDefect;
    const expire = (): void => {
      if (this.fallback !== null) this.end(this.fallback, false);
      this.stop(new HeadraceError('HR_FETCH_TIMEOUT', { subject: `over ${timeoutMs} ms` }));
    };
    this.dueMs = clock.now() + timeoutMs;
    this.#timer = clock.setTimeout(expire, timeoutMs);
  }

  /** Fires when the flight ends before the page has been read. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Asks for a place. The place, or the wait for one, ends with the flight. */
  hold(request: () => Place): void {
    if (this.#ended) return;
    const place = request();
    this.#place = place;
    if (this.#ended) place.leave();
  }

  /** Answers all requests with a page that another gateway has read, and keeps it for as long as one of this gateway. */
  endCached(kept: KeptPage, leftMs: number): void {
    if (this.#ended) return;
    this.#release();
    const longerMs = kept.validators === null ? 0 : (STALE_LIFETIMES - 1) * this.#lifetimeMs;
    this.#flight.landCached(kept, leftMs + longerMs);
  }

  /** Answers all requests. No effect after the first end. */
  end(result: PageResult, keep: boolean): void {
    this.#release();
    const hasValidators = 'page' in result && result.validators !== null;
    this.#flight.land(result, keep, hasValidators ? undefined : this.#lifetimeMs);
  }

  fail(error: unknown): void {
    if (this.#ended) return;
    const known = error instanceof HeadraceError ? error : new HeadraceError('HR_INTERNAL', { cause: error });
    if (known !== error) this.#onDefect(error);
    this.end({ code: known.code, subject: known.subject, headers: known.headers }, false);
  }

  /** Fails the flight and aborts its work. */
  stop(error: HeadraceError): void {
    this.#controller.abort(error);
    this.fail(error);
  }

  abort(): void {
    this.#controller.abort(new Error('every client of the page has left'));
    this.#release();
  }

  #release(): void {
    this.#ended = true;
    this.#clock.clearTimeout(this.#timer);
    this.#place?.leave();
  }
}

/** How one page is shared with other gateways. Their settings must be equal in all that a page depends on. */
class Sharing {
  readonly #shared: SharedCache;
  readonly #clock: Clock;
  readonly #guard: Guard;
  readonly #account: string;
  readonly #url: string;
  readonly #key: string;
  readonly #lifetimeMs: number;

  constructor(
    shared: SharedCache,
    clock: Clock,
    guard: Guard,
    { allow, deny, maxBytes, ports, redirects, renderer, robots, userAgent }: Settings['fetch'],
    lifetimeMs: number,
    account: string,
    request: PageRequest,
  ) {
    this.#shared = shared;
    this.#clock = clock;
    this.#guard = guard;
    this.#account = account;
    this.#url = request.url;
    this.#lifetimeMs = lifetimeMs;
    const rules = [allow, deny, ports, robots ? userAgent : null, maxBytes, redirects, lifetimeMs];
    const allowed = renderer.url === null ? rules : [...rules, renderer.when];
    this.#key = sharedKey(['page', PAGE_FORMAT, allowed, keyOf(request, account)]);
  }

  /**
   * Ends the flight with a page that another gateway has read; where there is none that is young enough, `read` is called, with what there
   * is. `maxAgeMs`: undefined for any.
   */
  find(flight: PageFlight, maxAgeMs: number | undefined, read: (older: KeptPage | null) => void): void {
    const parse = (bytes: Buffer): SharedPage | null => {
      const shared = readSharedPage(bytes);
      // Throws where one of them may not be fetched.
      if (shared !== null) for (const url of [this.#url, shared.page.url]) this.#guard.admit(url);
      return shared;
    };
    this.#shared.get('page', this.#key, parse, (shared, remainingMs) => {
      if (shared === null) {
        read(null);
        return;
      }
      const leftMs = Math.min(remainingMs, this.#lifetimeMs);
      const ageMs = this.#lifetimeMs - leftMs;
      const kept = { ...shared, readMs: this.#clock.now() - ageMs, isUnchanged: false };
      if (maxAgeMs !== undefined && ageMs >= maxAgeMs) read(kept);
      else flight.endCached(kept, leftMs);
    });
  }

  /** A page that is too long is not even written as JSON, which would take this thread's time. */
  share({ page, validators }: SharedPage): void {
    if (bytesOf(page) > 2 * ENTRY_BYTES) return;
    this.#shared.set('page', this.#key, sharedPageText({ page, validators }), this.#lifetimeMs, this.#account);
  }
}

function readPageOf({ isFinal, isRendered, page, url }: Rendering): Omit<ReadPage, 'fetched_at'> {
  const { title, content, wordCount, explanation: _explanation, ...extras } = page;
  const reading = { ...(isRendered && { rendered: true }), ...(!isFinal && { incomplete: true }) };
  return { url, title, content, word_count: wordCount, ...extras, ...reading };
}

function outcomeOf(result: PageResult, source: AnswerSource): string {
  if ('code' in result) return result.code;
  if (source !== 'flight') return source === 'cache' ? 'cached' : 'shared';
  return result.isUnchanged ? 'unchanged' : 'fetched';
}

/** The limits of the places of pages. */
export function placeLimits({ perAccount, queue }: Settings['fetch']): AccountPlaceLimits {
  // The total is that of `HostLimits`: a page that waits for a slow host takes no connection.
  return { perAccount, waiting: queue, waitingOfAccount: Math.ceil(queue * QUEUE_SHARE), waitMs: Infinity };
}

function refusalOf(turn: Turn, { perAccount }: Settings['fetch']): HeadraceError {
  const headers = ['retry-after', '1'];
  if (turn === 'full') return new HeadraceError('HR_FETCH_BUSY', { headers });
  return new HeadraceError('HR_FETCH_LIMIT', { subject: String(perAccount), headers });
}

/**
 * Requests with equal keys share what was read. A query may hold what its account alone knows, such as a signature: no other account gets
 * a page of it, or learns that it was fetched.
 */
function keyOf(request: PageRequest, account: string): string {
  const { alsoHtml = false, format, url } = request;
  return JSON.stringify([
    url,
    alsoHtml ? `${format} html` : format,
    extrasOf(request),
    url.includes('?') ? account : null,
  ]);
}

/** What the kept pages depend on: a page that may not be fetched any more is not answered from the cache. */
function cacheKeyOf({ allow, cacheBytes, cacheTtlMs, deny, ports, renderer, robots }: Settings['fetch']): string {
  const rendering = renderer.url === null ? 'never' : renderer.when;
  return JSON.stringify([cacheTtlMs, cacheBytes, allow, deny, ports, robots, rendering]);
}

function sizeOf(result: PageResult, key: string): number {
  return 'page' in result ? bytesOf(result.page) + 2 * key.length : 1024;
}

/** Estimated bytes in memory: two for a character, and the objects. */
function bytesOf({
  authors = [],
  content,
  html = '',
  images = [],
  links = [],
  metadata = {},
  title,
  url,
}: ReadPage): number {
  const said = [...authors, ...Object.values(metadata)].reduce((sum, text) => sum + text.length, 0);
  const linked = links.reduce((sum, link) => sum + link.text.length + link.url.length + 32, 0);
  const shown = images.reduce((sum, image) => sum + image.alt.length + image.url.length + 32, 0);
  return 2 * (url.length + content.length + html.length + title.length + said + linked + shown) + 1024;
}

/** The pages actor with its downloader, cleaning pool and metrics. */
export class PageService {
  readonly ref: Ref<PagesCommand>;
  readonly #metrics = new PageMetrics();
  /** Of accounts, and of hosts: what runs, and what keeps the delay. */
  readonly memories = {
    pages: createPlaceMemory(1),
    hosts: createPlaceMemory(1),
    delays: createPlaceMemory(1),
  } as const;
  readonly #places: AccountPlaces;
  #tools: PageTools | null = null;
  readonly #shared: SharedCache | null;
  #settings: Settings['fetch'];

  /** `shared`: pages of other gateways; null: none. */
  constructor(system: System, settings: Settings['fetch'], log: Log, shared: SharedCache | null = null) {
    this.#settings = settings;
    this.#shared = shared;
    const metrics = this.#metrics;
    this.#places = new AccountPlaces({ memory: this.memories.pages, thread: 0, clock: systemClock });
    this.#places.configure(placeLimits(settings));
    const hosts = {
      running: new PlaceCounts(this.memories.hosts, 0),
      delays: new PlaceCounts(this.memories.delays, 0),
    };
    const sharing = shared === null ? {} : { shared };
    const behavior = pages({
      settings,
      ...sharing,
      open: (current) => {
        this.#tools = {
          downloader: createDownloader(current, { clock: systemClock, hosts, ...sharing }),
          pool: createCleaningPool(current),
          renderer: createRenderer(current, {
            clock: systemClock,
            onState: (state, reason) => {
              if (state === 'connected') log.info('the browser that renders pages is connected');
              else log.warn({ reason }, 'the browser that renders pages cannot be used');
            },
            onPage: metrics.rendered.bind(metrics),
          }),
        };
        return this.#tools;
      },
      places: this.#places,
      onOutcome: metrics.page.bind(metrics),
      onDefect: (error) => log.error({ err: error }, 'a page could not be read'),
      epochMs: systemEpochMs,
    });
    this.ref = system.spawn(behavior, { name: 'pages', mailbox: MAILBOX });
  }

  configure(settings: Settings['fetch']): void {
    if (JSON.stringify(settings) === JSON.stringify(this.#settings)) return;
    this.#settings = settings;
    this.ref.tell({ type: 'Configure', settings });
  }

  metrics(): MetricsSnapshot {
    const { downloader, pool, renderer } = this.#tools ?? {};
    const { refusals, running, waiting } = this.#places;
    const host = downloader?.waits() ?? { waiting: 0, refused: 0 };
    this.#metrics.waits({
      ...{ running, waiting, waitingForHost: host.waiting },
      ...{ refusedOfAccount: refusals.limit, refusedInAll: refusals.full, refusedForHost: host.refused },
    });
    if (pool !== undefined) this.#metrics.cleaners(pool.stats());
    if (renderer !== undefined) this.#metrics.renderer(renderer.stats());
    const shared = this.#shared?.isOn === true ? lookupMetrics(this.#shared.counts) : [];
    return [...this.#metrics.snapshot(), ...shared];
  }
}
