// Filters of a search, as they are asked for. Names of the interface are in `api/schema.ts`.

export const TIME_RANGES = ['day', 'week', 'month', 'year'] as const;
export const SAFE_SEARCH = ['off', 'moderate', 'strict'] as const;

/** Days, both included, as `YYYY-MM-DD`. At least one of them is there, and `from` is not after `to`. */
export interface DateRange {
  readonly from?: string;
  readonly to?: string;
}

/** What a search asks of its results beside its text. A filter that is absent is not asked for; there is at least one. */
export interface SearchFilters {
  /** A word counts back from now. */
  readonly timeRange?: (typeof TIME_RANGES)[number] | DateRange;
  /** Host names in ASCII and lower case, subdomains included; each once, in alphabetical order. */
  readonly includeDomains?: readonly string[];
  readonly excludeDomains?: readonly string[];
  /** ISO 639-1, lower case. */
  readonly language?: string;
  /** ISO 3166-1 alpha-2, upper case. */
  readonly country?: string;
  readonly safeSearch?: (typeof SAFE_SEARCH)[number];
}

/** The names of the filters in the interface, and in the protocol of search workers. */
export const FILTER_NAMES: Readonly<Record<keyof SearchFilters, string>> = {
  timeRange: 'time_range',
  includeDomains: 'include_domains',
  excludeDomains: 'exclude_domains',
  language: 'language',
  country: 'country',
  safeSearch: 'safe_search',
};
