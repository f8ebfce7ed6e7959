// placeholder until the room's own merge is in place
import type { EngineHit, SearchType } from './engine.ts';
import type { SearchResult } from './query.ts';

export interface EngineList {
  readonly engine: string;
  readonly weight?: number;
  readonly hits: readonly EngineHit[];
}

export function merge(lists: readonly EngineList[], options: { readonly searchType: SearchType }): SearchResult[] {
  return lists.flatMap(({ engine, hits }) =>
    hits.map(({ title, url, snippet }, index) => ({
      title, url, snippet, engine, rank: index + 1, found_in: [engine], search_type: options.searchType,
    })),
  );
}
