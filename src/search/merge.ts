// Merges the engines' lists of hits into the results of one search: duplicates by canonical URL, order by reciprocal rank
// fusion. Pure: equal lists in equal order give equal results in equal order. The URL, rank and engine of a result are
// always those of one hit. Written without intermediate arrays: most of what a search allocates would come from here.

import { canonicalUrl, isSamePage, pageKey } from './canonical-url.ts';
import type { EngineHit, SearchType } from './engine.ts';
import { encodePath } from './hit.ts';
import type { SearchResult } from './query.ts';
import type { SearchTrace } from './search-trace.ts';

/** The hits of one engine. */
export interface EngineList {
  /** Engine id, each in one list only. */
  readonly engine: string;
  /** Factor of its ranks; default 1. */
  readonly weight?: number;
  /** In order of rank; a page may come twice. */
  readonly hits: readonly EngineHit[];
  /** Hits of the engine before these, on pages of results before this one; default 0. */
  readonly before?: number;
}

interface MergeOptions {
  readonly searchType: SearchType;
  /** Hears how the pages were ranked. */
  readonly trace?: SearchTrace | undefined;
}

/** The first hit of an engine for a page. Those of one page are linked in the order of the request. */
interface RankedHit {
  readonly list: EngineList;
  /** Place of the engine in the request, from 0. */
  readonly order: number;
  /** Place in the engine's list, from 1. */
  readonly rank: number;
  readonly hit: EngineHit;
  next: RankedHit | null;
}

/** A page with the hits of all engines that found it. */
interface Page {
  readonly first: RankedHit;
  last: RankedHit;
  /** The hit of the best rank, of the first engine where ranks are equal. */
  best: RankedHit;
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
export function merge(lists: readonly EngineList[], { searchType, trace }: MergeOptions): SearchResult[] {
  const pages = group(lists, searchType);
  for (const page of pages) page.score = scoreOf(page);
  sort(pages);
  trace?.merged(pages, RANK_OFFSET, searchType);
  const results: SearchResult[] = [];
  for (const page of pages) results.push(resultOf(page, searchType));
  return results;
}

/** Images are equal when their pictures are, never by scholarly identity, which all figures of a paper share. */
function group(lists: readonly EngineList[], searchType: SearchType): Page[] {
  const byKey = new Map<string, Page>();
  const pages: Page[] = [];
  for (let order = 0; order < lists.length; order++) {
    const list = lists[order] as EngineList;
    for (let index = 0; index < list.hits.length; index++) {
      const hit = list.hits[index] as EngineHit;
      const key = searchType === 'images' ? canonicalUrl(hit.imageUrl ?? hit.url) : pageKey(hit.url);
      const workKey = searchType === 'academic' && hit.doi !== undefined ? keyOfDoi(hit.doi) : key;
      const page = byKey.get(key) ?? (workKey === key ? undefined : byKey.get(workKey));
      if (page !== undefined) {
        if (!byKey.has(key)) byKey.set(key, page);
        if (workKey !== key && !byKey.has(workKey)) byKey.set(workKey, page);
        if (page.last.order === order) continue;
      }
      const ranked: RankedHit = { list, order, rank: index + 1, hit, next: null };
      if (page === undefined) {
        const found = { first: ranked, last: ranked, best: ranked, engines: 1, score: 0 };
        byKey.set(key, found);
        if (workKey !== key) byKey.set(workKey, found);
        pages.push(found);
      } else {
        page.last.next = ranked;
        page.last = ranked;
        page.engines++;
        if (ranked.rank < page.best.rank) page.best = ranked;
      }
    }
  }
  return pages;
}

/** Equal to the key of a URL that names the same work. */
function keyOfDoi(doi: string): string {
  return pageKey(`https://doi.org/${encodePath(doi)}`);
}

/** Summed by size, so that equal shares make equal sums, to the last bit, whichever engines they come from. */
function scoreOf({ first }: Page): number {
  if (first.next === null) return shareOf(first);
  let sum = 0;
  for (let below = Infinity; ;) {
    let largest = -1;
    let count = 0;
    for (let each: RankedHit | null = first; each !== null; each = each.next) {
      const share = shareOf(each);
      if (share >= below || share < largest) continue;
      count = share === largest ? count + 1 : 1;
      largest = share;
    }
    if (count === 0) return sum;
    for (; count > 0; count--) sum += largest;
    below = largest;
  }
}

function shareOf({ list, rank }: RankedHit): number {
  return (list.weight ?? 1) / (RANK_OFFSET + rank);
}

function isBefore(a: Page, b: Page): boolean {
  if (a.score !== b.score) return a.score > b.score;
  return a.best.rank === b.best.rank ? a.best.order < b.best.order : a.best.rank < b.best.rank;
}

/** Shell's method with the gaps of Ciura (2001): `Array.prototype.sort` allocates a kilobyte for each page. */
const GAPS = [701, 301, 132, 57, 23, 10, 4, 1];

function sort(pages: Page[]): void {
  for (const gap of GAPS) {
    for (let from = gap; from < pages.length; from++) {
      const page = pages[from] as Page;
      let to = from;
      for (; to >= gap && isBefore(page, pages[to - gap] as Page); to -= gap) pages[to] = pages[to - gap] as Page;
      pages[to] = page;
    }
  }
}

// Outside of the functions: each use of a literal makes an object.
const SEVERAL_WORDS = /\S\s+\S/;
const SECURE = /^https:/i;

type Writable<T> = { -readonly [Name in keyof T]: T[Name] };

function resultOf(page: Page, searchType: SearchType): SearchResult {
  const { best, first } = page;
  const { hit } = best;
  // An array of the exact length: a pushed one has 16 places to spare.
  const foundIn = new Array<string>(page.engines);
  let at = 0;
  let snippet = '';
  for (let each: RankedHit | null = first; each !== null; each = each.next) {
    foundIn[at++] = each.list.engine;
    if (each.hit.snippet.length > snippet.length) ({ snippet } = each.hit);
  }
  const result: Writable<SearchResult> = {
    title: first.next === null ? hit.title : titleOf(page),
    url: first.next === null ? hit.url : shownUrl(page),
    snippet,
    engine: best.list.engine,
    rank: best.rank + (best.list.before ?? 0),
    found_in: foundIn,
    search_type: searchType,
  };
  if (searchType === 'news') {
    set(result, 'published_at', fieldOf(page, 'publishedAt'));
    set(result, 'source', fieldOf(page, 'source'));
  } else if (searchType === 'images') {
    set(result, 'thumbnail_url', fieldOf(page, 'thumbnailUrl'));
    set(result, 'image_url', fieldOf(page, 'imageUrl'));
    set(result, 'width', fieldOf(page, 'width'));
    set(result, 'height', fieldOf(page, 'height'));
  } else if (searchType === 'academic') {
    set(result, 'doi', fieldOf(page, 'doi'));
    set(result, 'authors', fieldOf(page, 'authors'));
    set(result, 'year', fieldOf(page, 'year'));
    set(result, 'venue', fieldOf(page, 'venue'));
    set(result, 'citations', mostCitations(page));
    set(result, 'open_access_url', fieldOf(page, 'openAccessUrl'));
  }
  return result;
}

/** The title of the best hit, else of the first hit in the request that has one. */
function titleOf({ best, first }: Page): string {
  if (hasTitle(best.hit)) return best.hit.title;
  for (let each: RankedHit | null = first; each !== null; each = each.next) {
    if (hasTitle(each.hit)) return each.hit.title;
  }
  return best.hit.title;
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

function shownUrl({ best, first }: Page): string {
  const { url } = best.hit;
  if (SECURE.test(url)) return url;
  // Hits of one work or one picture can be different pages: only the same page over https will do.
  for (let each: RankedHit | null = first; each !== null; each = each.next) {
    if (SECURE.test(each.hit.url) && isSamePage(each.hit.url, url)) return each.hit.url;
  }
  return url;
}

/** The field of the best hit, else of the first hit in the request that has it. */
function fieldOf<Name extends keyof EngineHit>({ best, first }: Page, name: Name): EngineHit[Name] | undefined {
  let value = best.hit[name];
  for (let each: RankedHit | null = first; value === undefined && each !== null; each = each.next) {
    value = each.hit[name];
  }
  return value;
}

/** The most that an engine knows: every index misses works that cite, none invents them. */
function mostCitations({ first }: Page): number | undefined {
  let most: number | undefined;
  for (let each: RankedHit | null = first; each !== null; each = each.next) {
    const { citations } = each.hit;
    if (citations !== undefined && (most === undefined || citations > most)) most = citations;
  }
  return most;
}

function set<Name extends keyof SearchResult>(
  result: Writable<SearchResult>,
  name: Name,
  value: SearchResult[Name] | undefined,
): void {
  if (value !== undefined) result[name] = value;
}
