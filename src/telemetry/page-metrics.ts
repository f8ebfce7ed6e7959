// Metrics of the actor that fetches pages: pages by outcome, waits, the cleaning pool and the browser.

import { COARSE, type MetricsSnapshot } from './metrics.ts';
import { Families } from './series.ts';

/** Present state of the cleaning pool. */
export interface CleanerNumbers {
  /** Running threads, starting ones included. */
  readonly threads: number;
  /** Pages in a thread, those whose client has left included. */
  readonly running: number;
  readonly queued: number;
  /** Threads that ended since the start because a page exceeded a limit or crashed them. */
  readonly replaced: number;
  /** Pages refused since the start because too many waited. */
  readonly refused: number;
}

/** Present state of the browser. */
export interface RendererNumbers {
  /** Pages in the browser, those whose tabs are being closed included. */
  readonly running: number;
  readonly queued: number;
  readonly isConnected: boolean;
  /** Connections since the start. */
  readonly connects: number;
  /** Requests of pages since the start, and those that were refused: by the guard, or past the limits of a page. */
  readonly requests: number;
  readonly refused: number;
}

/** Pages that wait for their turn, and those refused since the start, by what they would have waited for. */
export interface PageWaits {
  readonly running: number;
  /** For a place of their account. */
  readonly waiting: number;
  /** For a slot of their host. */
  readonly waitingForHost: number;
  readonly refusedOfAccount: number;
  readonly refusedInAll: number;
  readonly refusedForHost: number;
}

export class PageMetrics {
  readonly #families = new Families();
  readonly #pages = this.#families.histogram(
    'headrace_fetch_page_duration_seconds',
    'Time of a page from request to clean text, by outcome: fetched, cached, shared, or a code of the error table',
    ['outcome'],
    COARSE,
  );
  readonly #cleaners = this.#families.gauge(
    'headrace_fetch_cleaners',
    'The cleaning pool: threads, pages being cleaned, pages waiting',
    ['state'],
  );
  readonly #replaced = this.#families.counter(
    'headrace_fetch_cleaners_replaced_total',
    'Cleaner threads replaced: past a limit of time or memory, crashed, or after their number of pages',
  );

  readonly #waits = this.#families.gauge(
    'headrace_fetch_pages',
    'Pages under way: running, waiting for a place of their account, waiting for their host',
    ['state'],
  );
  readonly #refused = this.#families.counter(
    'headrace_fetch_refused_total',
    'Pages refused because too many waited: of their account, of all, for a host, for a cleaner',
    ['reason'],
  );

  readonly #rendered = this.#families.histogram(
    'headrace_fetch_rendered_duration_seconds',
    'Time of a page in the browser, waiting included, by outcome: shown, left, or a code of the error table',
    ['outcome'],
    COARSE,
  );
  readonly #renderer = this.#families.gauge(
    'headrace_fetch_renderer',
    'The browser: pages in it, pages waiting, and whether it is connected',
    ['state'],
  );
  readonly #connects = this.#families.counter(
    'headrace_fetch_renderer_connects_total',
    'Connections to the browser that were opened',
  );
  readonly #requests = this.#families.counter(
    'headrace_fetch_renderer_requests_total',
    'Requests of pages in the browser, by result: sent, or refused by the guard or a limit',
    ['result'],
  );

  rendered(outcome: string, elapsedMs: number): void {
    this.#rendered.at(outcome).observe(elapsedMs / 1000);
  }

  renderer({ connects, isConnected, queued, refused, requests, running }: RendererNumbers): void {
    this.#renderer.at('running').value = running;
    this.#renderer.at('queued').value = queued;
    this.#renderer.at('connected').value = isConnected ? 1 : 0;
    this.#connects.at().value = connects;
    this.#requests.at('sent').value = requests - refused;
    this.#requests.at('refused').value = refused;
  }

  page(outcome: string, elapsedMs: number): void {
    this.#pages.at(outcome).observe(elapsedMs / 1000);
  }

  waits(waits: PageWaits): void {
    this.#waits.at('running').value = waits.running;
    this.#waits.at('waiting').value = waits.waiting;
    this.#waits.at('waiting_for_host').value = waits.waitingForHost;
    this.#refused.at('account').value = waits.refusedOfAccount;
    this.#refused.at('total').value = waits.refusedInAll;
    this.#refused.at('host').value = waits.refusedForHost;
  }

  cleaners({ threads, running, queued, refused, replaced }: CleanerNumbers): void {
    this.#refused.at('cleaner').value = refused;
    this.#cleaners.at('threads').value = threads;
    this.#cleaners.at('running').value = running;
    this.#cleaners.at('queued').value = queued;
    this.#replaced.at().value = replaced;
  }

  snapshot(): MetricsSnapshot {
    return this.#families.json();
  }
}
