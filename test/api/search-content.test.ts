// When the pages of a search are fetched, which ones, until when, and what it costs: on a manual clock, with engines and sites in the
// hands of the test.

import t from 'tap';
import { createManualClock, type ManualClock } from '../../src/actor/clock.ts';
import type { ApiDeps } from '../../src/api/deps.ts';
import { type SearchAsk, startSearch } from '../../src/api/search.ts';
import type { SearchCosts } from '../../src/api/search-content.ts';
import { type ErrorCode, HeadraceError } from '../../src/errors.ts';
import type { PageAnswer, PageClient, PageRequest } from '../../src/fetch/index.ts';
import type { ExchangeProgress } from '../../src/ingress/exchange.ts';
import type { AnswerSource } from '../../src/net/answer-cache.ts';
import type { SearchAnswer, SearchCaller, SearchResult, SearchService } from '../../src/search/index.ts';
import type { SearchOutcome } from '../../src/search/search-service.ts';

const TIMEOUT_MS = 10_000;

function resultOf(path: string): SearchResult {
  const url = `https://example.com/${path}`;
  return { title: path, url, snippet: '', engine: 'a', rank: 1, found_in: ['a'], search_type: 'web' };
}

interface Fetched {
  readonly request: PageRequest;
  readonly account: string;
  /** Ends the fetch. */
  readonly end: (content: string, cached?: boolean) => void;
  left: boolean;
}

/** One search in the hands of the test. */
class OneSearch {
  readonly clock: ManualClock = createManualClock(1000);
  /** Fetches that were asked for, by path. */
  readonly fetches = new Map<string, Fetched>();
  readonly progress: ExchangeProgress[] = [];
  caller: SearchCaller | null = null;
  searchLeft = false;
  ended: { error: HeadraceError | null; answer: SearchAnswer | null; cached: boolean; costs: SearchCosts } | null =
    null;
  readonly abort: () => void;
  #found: ((outcome: SearchOutcome, source: AnswerSource) => void) | null = null;

  constructor(content: Partial<SearchAsk['content'] & object> = {}, type: 'web' | 'images' = 'web', perAccount = 8) {
    const service: Pick<SearchService, 'search'> = {
      search: (_query, caller, done) => {
        this.caller = caller;
        this.#found = done;
        return { abort: () => void (this.searchLeft = true) };
      },
    };
    const pages: Pick<PageClient, 'fetch'> = {
      fetch: (account, request, _timeoutMs, done) => {
        const end: Fetched['end'] = (content, cached = false) => {
          if (content.startsWith('HR_')) done(new HeadraceError(content as ErrorCode), null, false);
          else done(null, { url: request.url, title: '', content, word_count: 3 } as PageAnswer, cached);
        };
        const fetched = { request, account, end, left: false };
        this.fetches.set(new URL(request.url).pathname.slice(1), fetched);
        return { abort: () => void (fetched.left = true) };
      },
    };
    const settings = { search: { timeoutMs: TIMEOUT_MS, perAccount: 8 }, fetch: { timeoutMs: 15_000, perAccount } };
    const deps = { clock: this.clock, search: service, pages, settings } as unknown as ApiDeps;
    const query = { query: 'q', engines: ['a', 'b', 'c'], maxResults: 10, type };
    const asked = { results: 3, maxChars: 1000, format: 'text' as const, ...content };
    const onProgress = (progress: ExchangeProgress): void => void this.progress.push(progress);
    const pending = startSearch(
      deps,
      { query, content: asked },
      { account: 'acme', caller: 'acme' },
      onProgress,
      (error, answer, cached, costs) => {
        this.ended = { error, answer, cached, costs };
      },
    );
    this.abort = () => pending.abort();
  }

  /** The search has its place. */
  begin(): void {
    this.caller?.watcher?.onStarted(this.clock.now() + TIMEOUT_MS);
  }

  /** An engine has ended: the merged list is now this one. */
  engine(ended: number, answered: number, paths: readonly string[]): void {
    this.caller?.watcher?.onEngine({
      ...{ engine: 'abc'[ended - 1] ?? '', reason: null, ended, answered, total: 3 },
      results: () => paths.map(resultOf),
    });
  }

  /** The search is answered. */
  found(paths: readonly string[], source: AnswerSource = 'flight'): void {
    const meta = { duration_ms: 1, engines_used: ['a'], engines_failed: [], engine_errors: [] };
    const units = new Map([['a', 1]]);
    this.answer({ answer: { results: paths.map(resultOf), meta }, units, late: null }, source);
  }

  answer(outcome: SearchOutcome, source: AnswerSource): void {
    this.#found?.(outcome, source);
  }

  /** Content, or the reason why there is none, by path. */
  get contents(): (string | undefined)[] {
    return (this.ended?.answer?.results ?? []).map(({ content, content_error }) => content ?? content_error);
  }

  /** Paths that are being fetched. */
  get running(): string[] {
    return [...this.fetches].filter(([, { left }]) => !left).map(([path]) => path);
  }
}

t.test('the best results come with their text, the others as they are', async (t) => {
  const search = new OneSearch();
  search.begin();
  search.found(['one', 'two', 'three', 'four']);
  t.same(search.running, ['one', 'two', 'three']);
  t.equal(search.fetches.get('one')?.account, 'acme', 'in the places of the account');
  search.clock.advance(500);
  for (const [path, { end }] of search.fetches) end(`text of ${path}`);
  t.same(search.contents, ['text of one', 'text of two', 'text of three', undefined]);
  t.match(search.ended, { costs: { pages: 3 }, cached: false, answer: { meta: { duration_ms: 500 } } });
  t.match(search.ended?.answer?.results[0], { word_count: 3 });
});

t.test('pages are fetched as soon as half of the engines have answered', async (t) => {
  const search = new OneSearch();
  search.begin();
  search.engine(1, 1, ['one', 'two']);
  t.same(search.running, [], 'one of three is not half');
  search.engine(2, 2, ['one', 'two', 'three', 'four']);
  t.same(search.running, ['one', 'two', 'three']);
  search.fetches.get('one')?.end('early');
  t.equal(search.ended, null, 'the list is not final');
  search.found(['one', 'five', 'three']);
  t.same(search.running, ['one', 'three', 'five'], 'what is not among the best is left, and the rest begun');
  search.fetches.get('three')?.end('3');
  search.fetches.get('five')?.end('5');
  t.same(search.contents, ['early', '5', '3']);
  t.equal(search.ended?.costs.pages, 3, 'the page that was left costs nothing');
});

t.test('engines that have failed are not counted', async (t) => {
  const search = new OneSearch();
  search.begin();
  search.engine(1, 0, []);
  t.same(search.running, [], 'none has answered');
  search.engine(2, 1, ['one']);
  t.same(search.running, ['one'], 'one of the two that work');
});

t.test('a page that was read early and is not among the best costs nothing', async (t) => {
  const search = new OneSearch({ results: 1 });
  search.begin();
  search.engine(2, 2, ['one']);
  search.fetches.get('one')?.end('1');
  search.found(['two', 'one']);
  search.fetches.get('two')?.end('2');
  t.same(search.contents, ['2', undefined]);
  t.equal(search.ended?.costs.pages, 1);
});

t.test('when half of the time is over, the pages of any engine are fetched', async (t) => {
  const search = new OneSearch();
  search.begin();
  search.engine(1, 1, ['one']);
  search.clock.advance(TIMEOUT_MS / 2 - 1);
  t.same(search.running, []);
  search.clock.advance(1);
  t.same(search.running, ['one']);
  const late = new OneSearch();
  late.begin();
  late.clock.advance(TIMEOUT_MS / 2);
  t.same(late.running, [], 'there is none');
  late.engine(1, 1, ['one']);
  t.same(late.running, ['one'], 'at once with the first');
});

t.test('at the deadline of the search a late page is an error, and the answer comes', async (t) => {
  const search = new OneSearch();
  search.begin();
  search.clock.advance(4000);
  search.found(['one', 'two', 'three']);
  search.fetches.get('two')?.end('2');
  search.clock.advance(5999);
  t.equal(search.ended, null);
  search.clock.advance(1);
  t.same(search.contents, ['HR_FETCH_TIMEOUT', '2', 'HR_FETCH_TIMEOUT']);
  t.same([search.fetches.get('one')?.left, search.fetches.get('three')?.left], [true, true], 'both are left');
  t.match(search.ended, { costs: { pages: 1 }, answer: { meta: { duration_ms: TIMEOUT_MS } } });
  t.equal(search.clock.nextDueMs, Infinity, 'no timer is left');
});

t.test('a search that waited for its place has its whole time for engines and pages', async (t) => {
  const search = new OneSearch({ results: 1 });
  search.clock.advance(3000);
  search.begin();
  search.clock.advance(TIMEOUT_MS - 1);
  search.found(['one']);
  t.equal(search.ended, null);
  search.clock.advance(1);
  t.same(search.contents, ['HR_FETCH_TIMEOUT']);
});

t.test('engines that take until the deadline leave what was read early', async (t) => {
  const search = new OneSearch({ results: 2 });
  search.begin();
  search.engine(2, 2, ['one', 'two']);
  search.fetches.get('one')?.end('1');
  search.clock.advance(TIMEOUT_MS);
  search.found(['one', 'two']);
  search.clock.advance(0);
  t.same(search.contents, ['1', 'HR_FETCH_TIMEOUT']);
});

t.test('of pages that fail each has its code, and the others are read', async (t) => {
  const search = new OneSearch();
  search.begin();
  search.found(['one', 'two', 'three']);
  search.fetches.get('one')?.end('HR_FETCH_CHALLENGE');
  search.fetches.get('two')?.end('HR_FETCH_LIMIT');
  search.fetches.get('three')?.end('3');
  t.same(search.contents, ['HR_FETCH_CHALLENGE', 'HR_FETCH_LIMIT', '3']);
  t.equal(search.ended?.costs.pages, 1);
});

t.test('results at one address are one page, which is charged once', async (t) => {
  const search = new OneSearch();
  search.begin();
  search.found(['one#a', 'one#b', 'two']);
  t.same(search.running, ['one', 'two']);
  search.fetches.get('one')?.end('1');
  search.fetches.get('two')?.end('2');
  t.same(search.contents, ['1', '1', '2']);
  t.equal(search.ended?.costs.pages, 2);
});

t.test('pictures have no text: nothing is fetched', async (t) => {
  const search = new OneSearch({}, 'images');
  search.begin();
  search.engine(2, 2, ['one']);
  search.found(['one', 'two', 'three', 'four']);
  t.equal(search.fetches.size, 0);
  t.same(search.contents, ['HR_FETCH_TYPE', 'HR_FETCH_TYPE', 'HR_FETCH_TYPE', undefined]);
  t.equal(search.ended?.costs.pages, 0);
});

t.test('a search without results, or without an answer, fetches nothing', async (t) => {
  const empty = new OneSearch();
  empty.begin();
  empty.found([]);
  t.match(empty.ended, { answer: { results: [] }, costs: { pages: 0 } });
  const search = new OneSearch();
  search.begin();
  search.engine(2, 2, ['one']);
  const meta = { duration_ms: 1, engines_used: [], engines_failed: ['a'], engine_errors: [] };
  search.answer({ answer: { results: [], meta }, units: new Map(), late: null }, 'flight');
  t.match(search.ended, { error: { code: 'HR_SEARCH_ALL_FAILED' }, answer: null });
  t.equal(search.fetches.get('one')?.left, true, 'pages under way are left');
});

t.test('the answer is a cache hit when the list and every page are', async (t) => {
  for (const [source, cached, hit] of [
    ['cache', true, true],
    ['cache', false, false],
    ['flight', true, false],
  ] as const) {
    const search = new OneSearch({ results: 1 });
    search.found(['one'], source);
    search.fetches.get('one')?.end('1', cached);
    t.equal(search.ended?.cached, hit);
    t.equal(search.ended?.costs.pages, 1, 'a kept page costs what a page costs');
  }
});

t.test('a client that leaves aborts engines and pages', async (t) => {
  const search = new OneSearch();
  search.begin();
  search.engine(2, 2, ['one', 'two']);
  search.abort();
  t.ok(search.searchLeft);
  t.same(search.running, []);
  t.equal(search.clock.nextDueMs, Infinity, 'no timer is left');
  search.engine(3, 3, ['three']);
  t.equal(search.fetches.size, 2, 'nothing is begun after it');
  t.equal(search.ended, null);
});

t.test('no more pages are under way than the account may fetch at once', async (t) => {
  const search = new OneSearch({}, 'web', 2);
  search.begin();
  search.found(['one', 'two', 'three']);
  t.same(search.running, ['one', 'two']);
  search.fetches.get('two')?.end('2');
  t.ok(search.fetches.has('three'));
});

t.test('engines and pages are reported as they end', async (t) => {
  const search = new OneSearch({ results: 2 });
  search.begin();
  search.engine(1, 1, ['one']);
  search.engine(2, 2, ['one', 'two']);
  search.engine(3, 3, ['one', 'two']);
  search.found(['one', 'two']);
  search.fetches.get('one')?.end('1');
  search.fetches.get('two')?.end('HR_FETCH_FAILED');
  t.same(search.progress, [
    { done: 1, total: 5, message: 'a: answered' },
    { done: 2, total: 5, message: 'b: answered' },
    { done: 3, total: 5, message: 'c: answered' },
    { done: 4, total: 5, message: 'https://example.com/one: read' },
    { done: 5, total: 5, message: 'https://example.com/two: HR_FETCH_FAILED' },
  ]);
});
