// Several pages for one request: each URL is fetched once, and no more pages are under way than one account may fetch at once, so that
// its single fetches get their turn between the pages of a batch. Owners set the deadline, and price what was read.

import { HeadraceError } from '../errors.ts';
import type { PageAnswer, PageRequest } from '../fetch/index.ts';
import type { ApiDeps } from './deps.ts';
import type { Pending } from './pipeline.ts';

/** How the fetch of one page ended. */
export type PageOutcome =
  | { readonly answer: PageAnswer; readonly error: null; readonly cached: boolean }
  | { readonly answer: null; readonly error: HeadraceError; readonly cached: false };

/** A page of the batch; its fetch is null before it has begun, and again when it has ended. */
interface Entry {
  readonly request: PageRequest;
  fetch: Pending | null;
  outcome: PageOutcome | null;
}

export class PageBatch implements Pending {
  readonly #deps: Pick<ApiDeps, 'pages' | 'settings'>;
  readonly #account: string;
  readonly #onEnded: (url: string) => void;
  /** By URL, in the order in which they were added. */
  readonly #entries = new Map<string, Entry>();
  #running = 0;
  #ended = false;

  /** Pages are fetched in the places of `account`. `onEnded` hears of each page that has an outcome, unless the batch has ended. */
  constructor(deps: Pick<ApiDeps, 'pages' | 'settings'>, account: string, onEnded: (url: string) => void) {
    this.#deps = deps;
    this.#account = account;
    this.#onEnded = onEnded;
  }

  /** Fetches a page, unless its URL has been added before. */
  add(request: PageRequest): void {
    if (this.#ended || this.#entries.has(request.url)) return;
    this.#entries.set(request.url, { request, fetch: null, outcome: null });
    this.#startNext();
  }

  /** Fetches only these pages any more: others under way are aborted. Outcomes stay. */
  keepOnly(urls: ReadonlySet<string>): void {
    for (const [url, entry] of this.#entries) {
      if (urls.has(url) || entry.outcome !== null) continue;
      this.#entries.delete(url);
      this.#stop(entry);
    }
    this.#startNext();
  }

  /** How the fetch of a page has ended; null: it has not. */
  outcomeOf(url: string): PageOutcome | null {
    return this.#entries.get(url)?.outcome ?? null;
  }

  /** The deadline has come: ends the batch. Pages without an outcome took too long. */
  expire(subject: string): void {
    this.abort();
    for (const entry of this.#entries.values()) {
      const error = new HeadraceError('HR_FETCH_TIMEOUT', { subject });
      entry.outcome ??= { answer: null, error, cached: false };
    }
  }

  abort(): void {
    this.#ended = true;
    for (const entry of this.#entries.values()) this.#stop(entry);
  }

  #startNext(): void {
    const { settings } = this.#deps;
    if (this.#ended) return;
    for (const [url, entry] of this.#entries) {
      if (this.#running >= settings.fetch.perAccount) return;
      if (entry.fetch === null && entry.outcome === null) this.#start(url, entry);
    }
  }

  #start(url: string, entry: Entry): void {
    const { pages, settings } = this.#deps;
    this.#running++;
    entry.fetch = pages.fetch(this.#account, entry.request, settings.fetch.timeoutMs, (error, answer, cached) => {
      this.#running--;
      entry.fetch = null;
      entry.outcome =
        answer === null
          ? { answer, error: error ?? new HeadraceError('HR_INTERNAL'), cached: false }
          : { answer, error: null, cached };
      this.#startNext();
      this.#onEnded(url);
    });
  }

  #stop(entry: Entry): void {
    if (entry.fetch === null) return;
    entry.fetch.abort();
    entry.fetch = null;
    this.#running--;
  }
}
