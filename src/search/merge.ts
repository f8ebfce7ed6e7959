// Merges the engines' lists of hits into the results of one search: duplicates by canonical URL, order by reciprocal rank
// fusion. Pure: equal lists in equal order give equal results in equal order. The URL, rank and engine of a result are
// always those of one hit. Written without intermediate arrays: most of what a search allocates would come from here.

import { canonicalUrl, isSamePage, pageKey } from './canonical-url.ts';
import type { EngineHit, SearchType } from './engine.ts';
import type { SearchResult } from './query.ts';

/** The hits of one engine. */
export interface EngineList {
  /** Engine id, each in one list only. */
  readonly engine: string;
  /** Factor of its ranks; default 1. */
  readonly weight?: number;
  /** In order of rank; a page may come twice. */
  readonly hits: readonly EngineHit[];
}

interface MergeOptions {
  readonly searchType: SearchType;
}

/**
 * The first hits of the engines for their pages, as numbers: a hit is at `order * stride + index`, where `order` is the place of its
 * engine in the request and `index` its place in the engine's list. Objects for them would take most of the memory of a merge.
 */
class Ranking {
  readonly lists: readonly EngineList[];
  /** The length of the longest list, at least 1. */
  readonly #stride: number;
  /** The hit of the same page in the list of a later engine; -1: none. */
  readonly #next: number[];

  constructor(lists: readonly EngineList[]) {
    let stride = 1;
    for (const { hits } of lists) stride = Math.max(stride, hits.length);
    this.lists = lists;
    this.#stride = stride;
    this.#next = new Array<number>(lists.length * stride).fill(-1);
  }

  at(order: number, index: number): number {
    return order * this.#stride + index;
  }

  /** Place of the engine in the request, from 0. */
  orderOf(at: number): number {
    return Math.floor(at / this.#stride);
  }

  /** Place in the engine's list, from 1. */
  rankOf(at: number): number {
    return (at % this.#stride) + 1;
  }

  listOf(at: number): EngineList {
    return this.lists[this.orderOf(at)] as EngineList;
  }

  hitOf(at: number): EngineHit {
    return this.listOf(at).hits[at % this.#stride] as EngineHit;
  }

  shareOf(at: number): number {
    return (this.listOf(at).weight ?? 1) / (RANK_OFFSET + this.rankOf(at));
  }

  nextOf(at: number): number {
    return this.#next[at] as number;
  }

  link(at: number, next: number): void {
    this.#next[at] = next;
  }
}

/** A page with the hits of all engines that found it, by their numbers in the ranking, linked in the order of the request. */
interface Page {
  readonly first: number;
  last: number;
  /** The hit of the best rank, of the first engine where ranks are equal. */
  best: number;
  /** Number of engines that found it. */
  engines: number;
  score: number;
}

/**
 * A page that two engines have among their first ten stays above one that a single engine has first, as from 8 on. Cormack, Clarke
 * and Büttcher (SIGIR 2009) took 60 for runs of a thousand results: over lists of 50, agreement on page five then outweighs a
 * first place. `bench/search` measures both.
 */
const RANK_OFFSET = 10;

/**
 * Merges lists that come in the engines' order in the request. The score of a page is the sum of weight / (10 + rank)
 * over the engines that found it. Results are ordered by score, then best rank, then the place in the request of the
 * engine of that rank: no two pages share all three.
 */
export function merge(lists: readonly EngineList[], { searchType }: MergeOptions): SearchResult[] {
  const ranking = new Ranking(lists);
  const pages = group(ranking, searchType);
  for (const page of pages) page.score = scoreOf(ranking, page);
  sort(ranking, pages);
  const results = new Array<SearchResult>(pages.length);
  for (let at = 0; at < pages.length; at++) results[at] = resultOf(ranking, pages[at] as Page, searchType);
  return results;
}

/** Images are equal when their pictures are, never by scholarly identity, which all figures of a paper share. */
function group(ranking: Ranking, searchType: SearchType): Page[] {
  const { lists } = ranking;
  const byKey = new Map<string, Page>();
  const pages: Page[] = [];
  for (let order = 0; order < lists.length; order++) {
    const { hits } = lists[order] as EngineList;
    for (let index = 0; index < hits.length; index++) {
      const hit = hits[index] as EngineHit;
      const key = searchType === 'images' ? canonicalUrl(hit.imageUrl ?? hit.url) : pageKey(hit.url);
      const at = ranking.at(order, index);
      const page = byKey.get(key);
      if (page === undefined) {
        const found = { first: at, last: at, best: at, engines: 1, score: 0 };
        byKey.set(key, found);
        pages.push(found);
      } else if (ranking.orderOf(page.last) !== order) {
        ranking.link(page.last, at);
        page.last = at;
        page.engines++;
        if (index + 1 < ranking.rankOf(page.best)) page.best = at;
      }
    }
  }
  return pages;
}

/** Summed by size, so that equal shares make equal sums, to the last bit, whichever engines they come from. */
function scoreOf(ranking: Ranking, { engines, first }: Page): number {
  if (engines === 1) return ranking.shareOf(first);
  let sum = 0;
  for (let below = Infinity; ;) {
    let largest = -1;
    let count = 0;
    for (let at = first; at >= 0; at = ranking.nextOf(at)) {
      const share = ranking.shareOf(at);
      if (share >= below || share < largest) continue;
      count = share === largest ? count + 1 : 1;
      largest = share;
    }
    if (count === 0) return sum;
    for (; count > 0; count--) sum += largest;
    below = largest;
  }
}

function isBefore(ranking: Ranking, a: Page, b: Page): boolean {
  if (a.score !== b.score) return a.score > b.score;
  const [rankA, rankB] = [ranking.rankOf(a.best), ranking.rankOf(b.best)];
  return rankA === rankB ? ranking.orderOf(a.best) < ranking.orderOf(b.best) : rankA < rankB;
}

/** Shell's method with the gaps of Ciura (2001): `Array.prototype.sort` allocates a kilobyte for each page. */
const GAPS = [701, 301, 132, 57, 23, 10, 4, 1];

function sort(ranking: Ranking, pages: Page[]): void {
  for (const gap of GAPS) {
    for (let from = gap; from < pages.length; from++) {
      const page = pages[from] as Page;
      let to = from;
      for (; to >= gap && isBefore(ranking, page, pages[to - gap] as Page); to -= gap) {
        pages[to] = pages[to - gap] as Page;
      }
      pages[to] = page;
    }
  }
}

// Outside of the functions: each use of a literal makes an object.
const SEVERAL_WORDS = /\S\s+\S/;
const SECURE = /^https:/i;

type Writable<T> = { -readonly [Name in keyof T]: T[Name] };

function resultOf(ranking: Ranking, page: Page, searchType: SearchType): SearchResult {
  const { best, first } = page;
  const hit = ranking.hitOf(best);
  // An array of the exact length: a pushed one has 16 places to spare.
  const foundIn = new Array<string>(page.engines);
  let engines = 0;
  let snippet = '';
  for (let at = first; at >= 0; at = ranking.nextOf(at)) {
    foundIn[engines++] = ranking.listOf(at).engine;
    const each = ranking.hitOf(at);
    if (each.snippet.length > snippet.length) ({ snippet } = each);
  }
  const result: Writable<SearchResult> = {
    title: page.engines === 1 ? hit.title : titleOf(ranking, page),
    url: page.engines === 1 ? hit.url : shownUrl(ranking, page),
    snippet,
    engine: ranking.listOf(best).engine,
    rank: ranking.rankOf(best),
    found_in: foundIn,
    search_type: searchType,
  };
  if (searchType === 'news') {
    set(result, 'published_at', fieldOf(ranking, page, 'publishedAt'));
    set(result, 'source', fieldOf(ranking, page, 'source'));
  } else if (searchType === 'images') {
    set(result, 'thumbnail_url', fieldOf(ranking, page, 'thumbnailUrl'));
    set(result, 'image_url', fieldOf(ranking, page, 'imageUrl'));
    set(result, 'width', fieldOf(ranking, page, 'width'));
    set(result, 'height', fieldOf(ranking, page, 'height'));
  }
  return result;
}

/** The title of the best hit, else of the first hit in the request that has one. */
function titleOf(ranking: Ranking, { best, first }: Page): string {
  const hit = ranking.hitOf(best);
  if (hasTitle(hit)) return hit.title;
  for (let at = first; at >= 0; at = ranking.nextOf(at)) {
    const each = ranking.hitOf(at);
    if (hasTitle(each)) return each.title;
  }
  return hit.title;
}

/** Engines without a title give the URL, with or without scheme and closing slash. */
function hasTitle({ title, url }: EngineHit): boolean {
  // No URL has a space: most titles need no comparison.
  return SEVERAL_WORDS.test(title) || bare(title) !== bare(url);
}

function bare(text: string): string {
  return text
    .trim()
    .replace(/^https?:\/\//i, '')
    .replace(/\/$/, '');
}

function shownUrl(ranking: Ranking, { best, first }: Page): string {
  const { url } = ranking.hitOf(best);
  if (SECURE.test(url)) return url;
  // Hits of one work or one picture can be different pages: only the same page over https will do.
  for (let at = first; at >= 0; at = ranking.nextOf(at)) {
    const each = ranking.hitOf(at);
    if (SECURE.test(each.url) && isSamePage(each.url, url)) return each.url;
  }
  return url;
}

/** The field of the best hit, else of the first hit in the request that has it. */
function fieldOf<Name extends keyof EngineHit>(
  ranking: Ranking,
  { best, first }: Page,
  name: Name,
): EngineHit[Name] | undefined {
  let value = ranking.hitOf(best)[name];
  for (let at = first; value === undefined && at >= 0; at = ranking.nextOf(at)) {
    value = ranking.hitOf(at)[name];
  }
  return value;
}

function set<Name extends keyof SearchResult>(
  result: Writable<SearchResult>,
  name: Name,
  value: SearchResult[Name] | undefined,
): void {
  if (value !== undefined) result[name] = value;
}
