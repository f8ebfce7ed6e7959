// A search whose best results come with their text. Pages share the deadline of the search, and the places of the account with its
// other pages. They are fetched from the moment that half of the engines have answered, or half of the time is over: pages that rank
// high by then are mostly among the best of the final list. Those that are not are aborted, and cost nothing.

import type { TimerHandle } from '../actor/index.ts';
import type { HeadraceError } from '../errors.ts';
import type { PageRequest } from '../fetch/index.ts';
import type { ExchangeProgress } from '../ingress/exchange.ts';
import type {
  SearchAnswer,
  SearchCaller,
  SearchProgress,
  SearchQuery,
  SearchResult,
  SearchWatcher,
} from '../search/index.ts';
import type { ApiDeps } from './deps.ts';
import { pageUrl } from './fetch.ts';
import { PageBatch } from './page-batch.ts';
import type { Pending } from './pipeline.ts';

/** Which results come with their text, and how that is written. */
export interface ContentAsk {
  /** The best ones of the merged list: so many. */
  readonly results: number;
  /** Most characters of each text. */
  readonly maxChars: number;
  readonly format: 'text' | 'markdown';
}

/** What a search took, in prices of each engine, and pages that were read. */
export interface SearchCosts {
  readonly units: ReadonlyMap<string, number>;
  readonly pages: number;
}

/** Hears the answer and what it costs, or why there is none. `cached`: all of it comes from caches. */
export type SearchDone = (
  error: HeadraceError | null,
  answer: SearchAnswer | null,
  cached: boolean,
  costs: SearchCosts,
) => void;

/** Starts a search; `caller` with its watcher. */
export type StartSearch = (caller: SearchCaller, done: SearchDone) => Pending;

/** `content_error` of results that have no text by their nature. */
const NO_TEXT = 'HR_FETCH_TYPE';

/** Of the time of the search, after which pages of any engine are fetched. */
const PATIENCE = 1 / 2;

/** Pages of `type: images` are pictures. */
export function pagesOf({ type }: SearchQuery, content: ContentAsk | null): number {
  return content === null || type === 'images' ? 0 : content.results;
}

/** The final answer of the engines. */
interface Found {
  readonly answer: SearchAnswer;
  readonly cached: boolean;
  readonly costs: SearchCosts;
}

export class ContentSearch implements Pending, SearchWatcher {
  readonly #deps: ApiDeps;
  readonly #query: SearchQuery;
  readonly #content: ContentAsk;
  readonly #done: SearchDone;
  readonly #onProgress: ((progress: ExchangeProgress) => void) | null;
  readonly #pages: PageBatch;
  readonly #acceptedMs: number;
  #deadlineMs: number;
  #timer: TimerHandle | null = null;
  #search: Pending | null = null;
  #engines: SearchProgress | null = null;
  /** Null before the engines have answered. */
  #found: Found | null = null;
  /** Pages of the final list, best first, each once. */
  #wanted: readonly string[] = [];

  constructor(
    deps: ApiDeps,
    query: SearchQuery,
    content: ContentAsk,
    account: string,
    onProgress: ((progress: ExchangeProgress) => void) | null,
    done: SearchDone,
  ) {
    this.#deps = deps;
    this.#query = query;
    this.#content = content;
    this.#done = done;
    this.#onProgress = onProgress;
    this.#acceptedMs = deps.clock.now();
    this.#deadlineMs = this.#acceptedMs + deps.settings.search.timeoutMs;
    this.#pages = new PageBatch(deps, account, (url) => this.#onPage(url));
  }

  start(caller: SearchCaller, start: StartSearch): void {
    this.#search = start({ ...caller, watcher: this }, (error, answer, cached, costs) => {
      this.#search = null;
      if (answer === null) this.#end(error, null, cached, costs);
      else this.#onFound(answer, cached, costs);
    });
  }

  onStarted(deadlineMs: number): void {
    const { clock, settings } = this.#deps;
    // A search that waited for a place, or that another request has begun, has a deadline of its own.
    this.#deadlineMs = Math.max(this.#deadlineMs, deadlineMs);
    const patienceMs = deadlineMs - settings.search.timeoutMs * (1 - PATIENCE) - clock.now();
    this.#setTimer(() => this.#fetchEarly(), patienceMs);
  }

  onEngine(progress: SearchProgress): void {
    const { answered, ended, engine, reason, total } = progress;
    this.#engines = progress;
    this.#tell(ended, `${engine}: ${reason ?? 'answered'}`);
    const isLate = this.#deps.clock.now() >= this.#deadlineMs - this.#deps.settings.search.timeoutMs * (1 - PATIENCE);
    // Engines that have failed are not counted. The final list follows the last engine at once.
    const working = total - (ended - answered);
    if (ended < total && (2 * answered >= working || isLate)) this.#fetchEarly();
  }

  abort(): void {
    this.#search?.abort();
    this.#search = null;
    this.#close();
  }

  /** Fetches the pages that are best by now. */
  #fetchEarly(): void {
    if (this.#found !== null || this.#engines === null) return;
    this.#fetch(this.#best(this.#engines.results()));
  }

  #onFound(answer: SearchAnswer, cached: boolean, costs: SearchCosts): void {
    this.#found = { answer, cached, costs };
    this.#wanted = this.#fetch(this.#best(answer.results));
    this.#setTimer(() => this.#expire(), this.#deadlineMs - this.#deps.clock.now());
    this.#endIfRead();
  }

  /** Fetches these pages and no others any more. Answers with their URLs, each once. */
  #fetch(pages: readonly PageRequest[]): readonly string[] {
    const urls = new Set(pages.map(({ url }) => url));
    this.#pages.keepOnly(urls);
    for (const page of pages) this.#pages.add(page);
    return [...urls];
  }

  #best(results: readonly SearchResult[]): PageRequest[] {
    return results.slice(0, pagesOf(this.#query, this.#content)).map((result) => this.#pageOf(result));
  }

  #pageOf({ url }: SearchResult): PageRequest {
    return pageAt(url, this.#content);
  }

  #onPage(url: string): void {
    const ended = this.#wanted.filter((each) => this.#pages.outcomeOf(each) !== null).length;
    if (this.#wanted.includes(url)) {
      const error = this.#pages.outcomeOf(url)?.error ?? null;
      this.#tell((this.#engines?.total ?? 0) + ended, `${url}: ${error === null ? 'read' : error.code}`);
    }
    this.#endIfRead();
  }

  #endIfRead(): void {
    if (this.#found !== null && this.#wanted.every((url) => this.#pages.outcomeOf(url) !== null)) this.#answer();
  }

  #expire(): void {
    this.#pages.expire(`the search had ${this.#deps.settings.search.timeoutMs} ms`);
    this.#answer();
  }

  #answer(): void {
    const { answer, cached, costs } = this.#found as Found;
    const read = this.#wanted.flatMap((url) => {
      const outcome = this.#pages.outcomeOf(url);
      return outcome !== null && outcome.error === null ? [outcome] : [];
    });
    const isCached = cached && read.length === this.#wanted.length && read.every((page) => page.cached);
    const results = answer.results.map((result, index) =>
      index < this.#content.results ? this.#withContent(result) : result,
    );
    const meta = { ...answer.meta, duration_ms: Math.round(this.#deps.clock.now() - this.#acceptedMs) };
    this.#end(null, { ...answer, results, meta }, isCached, { units: costs.units, pages: read.length });
  }

  #withContent(result: SearchResult): SearchResult {
    if (pagesOf(this.#query, this.#content) === 0) return { ...result, content_error: NO_TEXT };
    const outcome = this.#pages.outcomeOf(this.#pageOf(result).url);
    if (outcome === null) return result;
    if (outcome.error !== null) return { ...result, content_error: outcome.error.code };
    const { content, truncated, word_count } = outcome.answer;
    return { ...result, content, word_count, ...(truncated === true && { content_truncated: true }) };
  }

  #end(...answer: Parameters<SearchDone>): void {
    this.#close();
    this.#done(...answer);
  }

  #close(): void {
    this.#pages.abort();
    if (this.#timer !== null) this.#deps.clock.clearTimeout(this.#timer);
    this.#timer = null;
  }

  #setTimer(expire: () => void, delayMs: number): void {
    const { clock } = this.#deps;
    if (this.#timer !== null) clock.clearTimeout(this.#timer);
    this.#timer = clock.setTimeout(expire, Math.max(delayMs, 0));
  }

  #tell(done: number, message: string): void {
    const pages = this.#found === null ? pagesOf(this.#query, this.#content) : this.#wanted.length;
    this.#onProgress?.({ done, total: (this.#engines?.total ?? 0) + pages, message });
  }
}

function pageAt(url: string, { format, maxChars }: ContentAsk): PageRequest {
  return { url: pageUrl(url), format, include: [], maxChars };
}
