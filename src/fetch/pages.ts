// The one place that all threads ask for pages: an actor in the control plane with the download, the cleaning pool and the
// cache. Equal requests share one flight; a client that leaves takes only itself away, the last one takes the flight
// along. A flight ends by the deadline of the one who began it, whatever download and cleaners do.

import { LRUCache } from 'lru-cache';
import type { Behavior, Clock, Context, Ref } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import { type ErrorCode, HeadraceError } from '../errors.ts';
import type { Downloader } from './download.ts';
import type { Download, PageAnswer, PageRequest } from './page.ts';
import type { CleaningPool } from './cleaning-pool.ts';

/** How a request for a page ended; plain data, since it crosses threads. */
export type PageReply =
  | { readonly answer: PageAnswer; readonly cached: boolean }
  | { readonly code: ErrorCode; readonly subject: string; readonly headers: string[] };

export type PagesCommand =
  | {
      readonly type: 'Fetch';
      /** Names the request, for `Leave`. */
      readonly asker: string;
      readonly request: PageRequest;
      readonly replyTo: Ref<PageReply>;
    }
  /** The client has left. */
  | { readonly type: 'Leave'; readonly asker: string; readonly request: PageRequest }
  | { readonly type: 'Configure'; readonly settings: Settings['fetch'] }
  | { readonly type: 'Expired'; readonly key: string }
  | { readonly type: 'Landed'; readonly flight: Flight; readonly page: Page }
  | { readonly type: 'Failed'; readonly flight: Flight; readonly error: unknown };

export interface PagesOptions {
  readonly settings: Settings['fetch'];
  /** Makes what does the work; called at the first request, since many a gateway never sees one. */
  readonly open: (settings: Settings['fetch']) => Tools;
  /** Hears how requests ended: `fetched`, `cached`, `shared`, or the code of an error. */
  readonly onOutcome: (outcome: string, elapsedMs: number) => void;
  /** Hears of failures that are the gateway's own. */
  readonly onDefect: (error: unknown) => void;
}

/** What does the work. Closed by the actor. */
export interface Tools {
  readonly downloader: Downloader;
  readonly pool: CleaningPool;
}

interface Page {
  readonly answer: PageAnswer;
  readonly noStore: boolean;
}

interface Flight {
  readonly key: string;
  readonly startedMs: number;
  readonly controller: AbortController;
  readonly waiting: Map<string, Ref<PageReply>>;
}

type Cache = LRUCache<string, PageAnswer>;

/** Makes the behaviour of the actor. */
export function pages(options: PagesOptions): Behavior<PagesCommand> {
  return (context) => {
    const state = new AdminRoutes(options, context);
    return {
      receive: (command) => state.receive(command),
      signal: (signal) => {
        if (signal.type !== 'Terminated') state.close();
      },
    };
  };
}

class AdminRoutes {
  readonly #options: PagesOptions;
  readonly #context: Context<PagesCommand>;
  readonly #flights = new Map<string, Flight>();
  #settings: Settings['fetch'];
  #tools: Tools | null = null;
  #cache: Cache | null;

  constructor(options: PagesOptions, context: Context<PagesCommand>) {
    this.#options = options;
    this.#context = context;
    this.#settings = options.settings;
    this.#cache = createCache(options.settings, context.clock);
  }

  receive(command: PagesCommand): void {
    switch (command.type) {
      case 'Fetch':
        this.#fetch(command.asker, command.request, command.replyTo);
        break;
      case 'Leave':
        this.#leave(keyOf(command.request), command.asker);
        break;
      case 'Configure':
        this.#configure(command.settings);
        break;
      case 'Expired':
        this.#expire(command.key);
        break;
      case 'Landed':
        this.#land(command.flight, command.page);
        break;
      case 'Failed':
        this.#fail(command.flight, command.error);
        break;
    }
  }

  close(): void {
    for (const flight of this.#flights.values()) this.#fail(flight, new HeadraceError('HR_DRAINING'));
    const tools = this.#tools;
    this.#tools = null;
    Promise.all([tools?.downloader.close(), tools?.pool.close()]).catch(this.#options.onDefect);
  }

  #configure(settings: Settings['fetch']): void {
    const { cacheBytes, cacheTtlMs } = this.#settings;
    this.#settings = settings;
    this.#tools?.downloader.configure(settings);
    this.#tools?.pool.configure(settings);
    if (settings.cacheBytes !== cacheBytes || settings.cacheTtlMs !== cacheTtlMs)
      this.#cache = createCache(settings, this.#context.clock);
  }

  #fetch(asker: string, request: PageRequest, replyTo: Ref<PageReply>): void {
    const key = keyOf(request);
    const cached = this.#cache?.get(key);
    if (cached !== undefined) {
      this.#options.onOutcome('cached', 0);
      replyTo.tell({ answer: cached, cached: true });
      return;
    }
    const flight = this.#flights.get(key) ?? this.#launch(key, request);
    flight.waiting.set(asker, replyTo);
  }

  #launch(key: string, request: PageRequest): Flight {
    const { clock, timers } = this.#context;
    const flight: Flight = {
      key,
      startedMs: clock.now(),
      controller: new AbortController(),
      waiting: new Map(),
    };
    this.#flights.set(key, flight);
    timers.once(key, this.#settings.timeoutMs, { type: 'Expired', key });
    this.#context.pipe(
      this.#read(request, flight.controller.signal),
      (page) => ({ type: 'Landed', flight, page }),
      (error) => ({ type: 'Failed', flight, error }),
    );
    return flight;
  }

  async #read({ url, format, include }: PageRequest, signal: AbortSignal): Promise<Page> {
    const { downloader, pool } = (this.#tools ??= this.#options.open(this.#settings));
    const download: Download = await downloader.download(url, signal);
    const { bytes, mediaType, charset, noStore } = download;
    const job = { bytes, mediaType, charset, url: download.url, format, include };
    const { title, content, wordCount, ...extras } = await pool.read(job, signal);
    return { answer: { url: download.url, title, content, word_count: wordCount, ...extras }, noStore };
  }

  #land(flight: Flight, { answer, noStore }: Page): void {
    if (!this.#end(flight)) return;
    if (!noStore) this.#cache?.set(flight.key, answer);
    const elapsedMs = this.#context.clock.now() - flight.startedMs;
    let outcome = 'fetched';
    for (const replyTo of flight.waiting.values()) {
      this.#options.onOutcome(outcome, elapsedMs);
      outcome = 'shared';
      replyTo.tell({ answer, cached: false });
    }
  }

  #fail(flight: Flight, error: unknown): void {
    if (!this.#end(flight)) return;
    const known = error instanceof HeadraceError ? error : new HeadraceError('HR_INTERNAL', { cause: error });
    if (known !== error) this.#options.onDefect(error);
    const { code, headers, subject } = known;
    const elapsedMs = this.#context.clock.now() - flight.startedMs;
    for (const replyTo of flight.waiting.values()) {
      this.#options.onOutcome(code, elapsedMs);
      replyTo.tell({ code, subject, headers });
    }
  }

  #expire(key: string): void {
    const flight = this.#flights.get(key);
    if (flight === undefined) return;
    const error = new HeadraceError('HR_FETCH_TIMEOUT', { subject: `over ${this.#settings.timeoutMs} ms` });
    this.#fail(flight, error);
    flight.controller.abort(error);
  }

  #leave(key: string, asker: string): void {
    const flight = this.#flights.get(key);
    if (flight === undefined || !flight.waiting.delete(asker) || flight.waiting.size > 0) return;
    this.#end(flight);
    flight.controller.abort(new Error('every client has left'));
  }

  /** Takes a flight off the table; false when that has happened before. */
  #end(flight: Flight): boolean {
    if (this.#flights.get(flight.key) !== flight) return false;
    this.#flights.delete(flight.key);
    this.#context.timers.cancel(flight.key);
    return true;
  }
}

function keyOf({ url, format, include }: PageRequest): string {
  return JSON.stringify([url, format, include]);
}

function createCache({ cacheTtlMs, cacheBytes }: Settings['fetch'], clock: Clock): Cache | null {
  if (cacheTtlMs === null || cacheBytes <= 0) return null;
  return new LRUCache({
    maxSize: cacheBytes,
    maxEntrySize: Math.ceil(cacheBytes / 8),
    ttl: cacheTtlMs,
    ttlResolution: 0,
    // 0 is no date to the cache.
    perf: { now: () => clock.now() + 1 },
    sizeCalculation,
  });
}

/** Bytes an answer takes in memory, roughly: two for a character, and the objects. */
function sizeCalculation({ content, links = [], title }: PageAnswer, key: string): number {
  const linked = links.reduce((sum, link) => sum + link.text.length + link.url.length + 32, 0);
  return 2 * (content.length + title.length + key.length + linked) + 1024;
}
