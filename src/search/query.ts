// A search and its answer. Field names are those of the public interface.

import type { SearchType } from './engine.ts';
import type { SearchFilters } from './filters.ts';

/** A checked request. */
export interface SearchQuery {
  readonly query: string;
  /** Engine ids, each once, in the order of the request. */
  readonly engines: readonly string[];
  readonly maxResults: number;
  readonly type: SearchType;
  /** Undefined without any. */
  readonly filters?: SearchFilters;
  /** From 1, which is the default. */
  readonly page?: number;
}

/** One merged result. */
export interface SearchResult {
  readonly title: string;
  readonly url: string;
  readonly snippet: string;
  /** The engine whose ranking `rank` is. */
  readonly engine: string;
  /** 1-indexed position in that engine's results. */
  readonly rank: number;
  /** Engines that returned this page, in the order of the request. */
  readonly found_in: readonly string[];
  readonly search_type: SearchType;
  readonly published_at?: string;
  readonly source?: string;
  readonly thumbnail_url?: string;
  readonly image_url?: string;
  readonly width?: number;
  readonly height?: number;
  /** Of a scholarly work: `10.1000/xyz`, lower case. */
  readonly doi?: string;
  /** At most 50. */
  readonly authors?: readonly string[];
  readonly year?: number;
  /** Journal, conference or repository. */
  readonly venue?: string;
  /** Works that cite it: the most that an engine knows. */
  readonly citations?: number;
  /** Where it can be read free of charge. */
  readonly open_access_url?: string;
  /** The text of the page, where it was asked for and could be read. */
  readonly content?: string;
  /** Words of the whole page. */
  readonly word_count?: number;
  /** The page has more text than `content`. */
  readonly content_truncated?: boolean;
  /** Why there is no content that was asked for: a code of the error table. */
  readonly content_error?: string;
}

export interface SearchMeta {
  /** Wall-clock time of the whole search in milliseconds. */
  readonly duration_ms: number;
  readonly engines_used: readonly string[];
  readonly engines_failed: readonly string[];
  readonly engine_errors: readonly { readonly engine: string; readonly reason: string }[];
}

export interface SearchAnswer {
  readonly results: readonly SearchResult[];
  readonly meta: SearchMeta;
}
