// Puts the engines' lists of hits together into the results of one search; called by the room when the engines are in.
// Pages are told apart by canonical-url.ts, ranks are fused by reciprocal rank. Pure: equal lists in equal order give
// equal results in equal order, and what a client sees (URL, rank, engine) is always an engine's own.

import { canonicalUrl, comparisonKey } from './canonical-url.ts';
import type { EngineHit, SearchType } from './engine.ts';
import type { SearchResult } from './query.ts';

/** What one engine delivered. */
export interface EngineList {
  /** Engine id, each in one list only. */
  readonly engine: string;
  /** How much the engine's ranks count; default 1. */
  readonly weight?: number;
  /** In order of rank, as delivered: a page may come twice. */
  readonly hits: readonly EngineHit[];
}

interface MergeOptions {
  readonly searchType: SearchType;
}

/** A page as one engine ranks it. */
interface Finding {
  readonly list: EngineList;
  /** Place of the engine in the request. */
  readonly order: number;
  /** 1-indexed place of the page's first hit in the list as delivered. */
  readonly rank: number;
  readonly hit: EngineHit;
}

/** A page and who found it. */
interface Page {
  /** In request order, one an engine. */
  readonly findings: Finding[];
  /** The finding of the best rank, of the first engine where ranks are equal. */
  best: Finding;
}

// The constant of Cormack, Clarke and Büttcher (SIGIR 2009): high enough that agreement outweighs one first place.
const RANK_OFFSET = 60;

/**
 * Merges lists that come in the engines' order in the request. The score of a page is the sum of weight / (60 + rank)
 * over the engines that found it. Results are ordered by score, then best rank, then the place in the request of the
 * engine of that rank: no two pages share all three.
 */
export function merge(lists: readonly EngineList[], { searchType }: MergeOptions): SearchResult[] {
  return group(lists, searchType === 'images' ? imageKey : pageKey)
    .map((page) => ({ page, score: score(page) }))
    .sort((a, b) => b.score - a.score || a.page.best.rank - b.page.best.rank || a.page.best.order - b.page.best.order)
    .map(({ page }) => result(page, searchType));
}

function pageKey({ url }: EngineHit): string {
  return comparisonKey(url);
}

/** Images are the same when the pictures are; not by scholarly identity, which all figures of a paper share. */
function imageKey({ url, imageUrl }: EngineHit): string {
  return canonicalUrl(imageUrl ?? url);
}

function group(lists: readonly EngineList[], keyOf: (hit: EngineHit) => string): Page[] {
  const pages = new Map<string, Page>();
  for (const [order, list] of lists.entries()) {
    for (const [index, hit] of list.hits.entries()) {
      const finding: Finding = { list, order, rank: index + 1, hit };
      const key = keyOf(hit);
      const page = pages.get(key);
      if (page === undefined) pages.set(key, { findings: [finding], best: finding });
      else if (page.findings.at(-1)?.order !== order) {
        page.findings.push(finding);
        if (finding.rank < page.best.rank) page.best = finding;
      }
    }
  }
  return [...pages.values()];
}

function score({ findings }: Page): number {
  const shares = findings.map(({ list, rank }) => (list.weight ?? 1) / (RANK_OFFSET + rank));
  // Summed by size, so that equal shares make equal sums, to the last bit, whichever engines they come from.
  return shares.sort((a, b) => b - a).reduce((sum, share) => sum + share, 0);
}

function result({ findings, best }: Page, searchType: SearchType): SearchResult {
  const hits = findings.map(({ hit }) => hit);
  const { hit } = best;
  return {
    title: hasTitle(hit) ? hit.title : (hits.find(hasTitle) ?? hit).title,
    url: shownUrl(hit, hits),
    snippet: hits.reduce((longest, { snippet }) => (snippet.length > longest.length ? snippet : longest), ''),
    engine: best.list.engine,
    rank: best.rank,
    found_in: findings.map(({ list }) => list.engine),
    search_type: searchType,
    ...(searchType === 'news' && newsFields([hit, ...hits])),
    ...(searchType === 'images' && imageFields([hit, ...hits])),
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
  if (hits.length === 1 || /^https:/i.test(url)) return url;
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
