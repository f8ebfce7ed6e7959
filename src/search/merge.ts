// Merges the engines' lists of hits into the results of one search: duplicates by canonical URL, order by reciprocal rank
// fusion. Pure: equal lists in equal order give equal results in equal order. The URL, rank and engine of a result are
// always those of one hit.

import { canonicalUrl, comparisonKey } from './canonical-url.ts';
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

/** The first hit of an engine for a page. */
interface RankedHit {
  readonly list: EngineList;
  /** Place of the engine in the request, from 0. */
  readonly order: number;
  /** Place in the engine's list, from 1. */
  readonly rank: number;
  readonly hit: EngineHit;
}

/** A page with the hits of all engines that found it. */
interface Page {
  /** In the order of the request, one for each engine. */
  readonly ranked: RankedHit[];
  /** The hit of the best rank, of the first engine where ranks are equal. */
  best: RankedHit;
}

// The constant of Cormack, Clarke and Büttcher (SIGIR 2009): high enough that agreement outweighs one first place.
const RANK_OFFSET = 60;

/**
 * Merges lists that come in the engines' order in the request. The score of a page is the sum of weight / (60 + rank)
 * over the engines that found it. Results are ordered by score, then best rank, then the place in the request of the
 * engine of that rank: no two pages share all three.
 */
export function merge(lists: readonly EngineList[], { searchType }: MergeOptions): SearchResult[] {
  const scored: { page: Page; score: number }[] = [];
  for (const page of group(lists, searchType).values()) scored.push({ page, score: scoreOf(page) });
  scored.sort(
    (a, b) => b.score - a.score || a.page.best.rank - b.page.best.rank || a.page.best.order - b.page.best.order,
  );
  return scored.map(({ page }) => resultOf(page, searchType));
}

/** Images are equal when their pictures are, never by scholarly identity, which all figures of a paper share. */
function group(lists: readonly EngineList[], searchType: SearchType): Map<string, Page> {
  const pages = new Map<string, Page>();
  for (const [order, list] of lists.entries()) {
    for (const [index, hit] of list.hits.entries()) {
      const key = searchType === 'images' ? canonicalUrl(hit.imageUrl ?? hit.url) : comparisonKey(hit.url);
      const ranked: RankedHit = { list, order, rank: index + 1, hit };
      const page = pages.get(key);
      if (page === undefined) pages.set(key, { ranked: [ranked], best: ranked });
      else if (page.ranked.at(-1)?.order !== order) {
        page.ranked.push(ranked);
        if (ranked.rank < page.best.rank) page.best = ranked;
      }
    }
  }
  return pages;
}

function scoreOf({ ranked, best }: Page): number {
  if (ranked.length === 1) return (best.list.weight ?? 1) / (RANK_OFFSET + best.rank);
  const shares = ranked.map(({ list, rank }) => (list.weight ?? 1) / (RANK_OFFSET + rank));
  // Summed by size, so that equal shares make equal sums, to the last bit, whichever engines they come from.
  return shares.sort((a, b) => b - a).reduce((sum, share) => sum + share, 0);
}

function resultOf({ ranked, best }: Page, searchType: SearchType): SearchResult {
  const { hit } = best;
  const foundIn: string[] = [];
  let snippet = '';
  for (const { list, hit: other } of ranked) {
    foundIn.push(list.engine);
    if (other.snippet.length > snippet.length) snippet = other.snippet;
  }
  const isShared = ranked.length > 1;
  const hits = isShared ? [hit, ...ranked.map((each) => each.hit)] : [hit];
  return {
    title: isShared ? (hits.find(hasTitle) ?? hit).title : hit.title,
    url: isShared ? shownUrl(hit, hits) : hit.url,
    snippet,
    engine: best.list.engine,
    rank: best.rank,
    found_in: foundIn,
    search_type: searchType,
    ...(searchType === 'news' && newsFields(hits)),
    ...(searchType === 'images' && imageFields(hits)),
  };
}

/** Engines without a title give the URL, with or without scheme and closing slash. */
function hasTitle({ title, url }: EngineHit): boolean {
  return bare(title) !== bare(url);
}

function bare(text: string): string {
  return text
    .trim()
    .replace(/^https?:\/\//i, '')
    .replace(/\/$/, '');
}

function shownUrl({ url }: EngineHit, hits: readonly EngineHit[]): string {
  if (/^https:/i.test(url)) return url;
  // Hits of one work or one picture can be different pages: only the same page over https will do.
  const page = canonicalUrl(url);
  return hits.find((other) => /^https:/i.test(other.url) && canonicalUrl(other.url) === page)?.url ?? url;
}

type NewsFields = Pick<SearchResult, 'published_at' | 'source'>;
type ImageFields = Pick<SearchResult, 'thumbnail_url' | 'image_url' | 'width' | 'height'>;

/** Each field from the first hit that has it. */
function newsFields(hits: readonly EngineHit[]): NewsFields {
  return {
    ...field('published_at', hits, 'publishedAt'),
    ...field('source', hits, 'source'),
  };
}

function imageFields(hits: readonly EngineHit[]): ImageFields {
  return {
    ...field('thumbnail_url', hits, 'thumbnailUrl'),
    ...field('image_url', hits, 'imageUrl'),
    ...field('width', hits, 'width'),
    ...field('height', hits, 'height'),
  };
}

function field<Name extends string, Key extends keyof EngineHit>(
  name: Name,
  hits: readonly EngineHit[],
  key: Key,
): { [name in Name]?: NonNullable<EngineHit[Key]> } {
  const value = hits.find((hit) => hit[key] !== undefined)?.[key];
  return value === undefined ? {} : ({ [name]: value } as { [name in Name]: NonNullable<EngineHit[Key]> });
}
