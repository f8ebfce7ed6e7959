// What the requests of other products become: the documents of `POST /search` and `POST /search/fetch`, which are checked as theirs are.

import type { HeadraceError } from '../errors.ts';
import type { PageAnswer } from '../fetch/index.ts';

/** A search. */
export interface ForeignSearch {
  /** Body of `POST /search`. */
  readonly search: Readonly<Record<string, unknown>>;
  /** Most results of the merged list that are answered. */
  readonly limit: number;
  /** What the request calls fields of ours, such as `time_range.from`. Default: the same. */
  readonly names?: Readonly<Record<string, string>>;
}

/** Pages. */
export interface ForeignPages {
  /** The body of `POST /search/fetch`. */
  readonly fetches: readonly [Readonly<Record<string, unknown>>];
  /** Whether the page is asked for as HTML too. Default: no. */
  readonly alsoHtml?: boolean;
}

/** How the fetch of a page ended. */
export interface PageOutcome {
  readonly answer: PageAnswer | null;
  readonly error: HeadraceError | null;
  readonly cached: boolean;
}
