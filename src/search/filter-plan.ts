// What becomes of the filters and the page of a search at one engine: what the engine is asked, which of its hits are left out
// afterwards, and what could not be applied at all. Pure; a search without filters needs none of it.

import { canonicalUrl } from './canonical-url.ts';
import type { EngineFilters, EngineHit, EngineQuery, FilterName, FilterSupport } from './engine.ts';
import { type DateRange, FILTER_NAMES, type SearchFilters } from './filters.ts';

const DAY_MS = 86_400_000;

/** As long as the longest of each: what engines call a month old may be 31 days. */
const DAYS = { day: 1, week: 7, month: 31, year: 366 } as const;

/** Most hits that an engine is asked for. */
const MOST_HITS = 100;

/** Hits asked for in place of one where the gateway leaves out what an engine cannot. */
const SPARE = 5;

/** Filters that cannot be applied to hits. */
const ONLY_BY_ENGINES = ['language', 'country', 'safeSearch'] as const;

/** Whether the engine applies a filter of the query itself, or need not. */
export function applies(support: EngineFilters | undefined, name: FilterName, query: EngineQuery): boolean {
  const { filters = {}, page, type } = query;
  const one = support?.[name];
  if (one === undefined || (one.types !== undefined && !one.types.includes(type))) return false;
  const value = name === 'page' ? page : filters[name];
  return value === undefined || one.moot === true || knows(one, value, filters);
}

function knows(
  { except, most, needs, values }: FilterSupport,
  asked: string | number | DateRange | readonly string[],
  filters: SearchFilters,
): boolean {
  if (isList(asked)) return asked.length <= (most ?? Infinity);
  const other = needs === undefined ? undefined : filters[needs];
  if (needs !== undefined && other === undefined) return false;
  const word = typeof asked === 'object' ? 'days' : String(asked);
  const value = other === undefined ? word : `${word}-${other}`;
  return (values === undefined || values.includes(value)) && !except?.includes(value);
}

function isList(asked: unknown): asked is readonly string[] {
  return Array.isArray(asked);
}

/** The filters that an engine of these declarations applies itself: those that its request must carry. */
export function appliedFilters(support: EngineFilters, query: EngineQuery): SearchFilters {
  const { filters } = query;
  if (filters === undefined) return {};
  const applied: Record<string, unknown> = {};
  for (const name of Object.keys(filters) as (keyof SearchFilters)[]) {
    if (support[name]?.moot !== true && applies(support, name, query)) applied[name] = filters[name];
  }
  return applied;
}

/** The days of the time range, where an engine of these declarations applies it itself; both undefined without. */
export function appliedDates(support: EngineFilters, query: EngineQuery): DateRange {
  return query.filters?.timeRange !== undefined && applies(support, 'timeRange', query) ? (query.dates ?? {}) : {};
}

/** What engines of scholarly works apply. Works belong to no country, and nothing is left out of them. */
export const WORK_FILTERS: EngineFilters = {
  timeRange: {},
  country: { moot: true },
  safeSearch: { moot: true },
  page: {},
};

/** The days of a time range: of a word, those that it reaches back from now. Days are those of UTC. */
function datesOf(timeRange: NonNullable<SearchFilters['timeRange']>, nowMs: number): DateRange {
  return typeof timeRange === 'string' ? { from: dayOf(nowMs - DAYS[timeRange] * DAY_MS) } : timeRange;
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/**
 * Whether a date is in a time range. Null where it cannot be told: without a date, and where a year or a month is only in part in the
 * range. A date with a time counts exactly for a word, and by its day in UTC for a range of days.
 */
export function isWithin(
  date: string | undefined,
  timeRange: NonNullable<SearchFilters['timeRange']>,
  nowMs: number,
): boolean | null {
  if (date === undefined) return null;
  const { from = '0000', to = '9999' } = datesOf(timeRange, nowMs);
  if (date.length > 10) {
    const ms = Date.parse(date);
    if (Number.isNaN(ms)) return null;
    if (typeof timeRange === 'string') return ms >= nowMs - DAYS[timeRange] * DAY_MS;
    const day = dayOf(ms);
    return day >= from && day <= to;
  }
  if (!/^\d{4}(?:-\d\d){0,2}$/.test(date)) return null;
  const first = date + '-01-01'.slice(date.length - 4);
  const last = date + '-12-31'.slice(date.length - 4);
  if (last < from || first > to) return false;
  return first >= from && last <= to ? true : null;
}

/** Whether a URL is within the domains of a search; null where it names none. Domains count by whole labels. */
export function createDomainFilter(filters: SearchFilters | undefined): ((url: string) => boolean) | null {
  const { excludeDomains, includeDomains } = filters ?? {};
  if (includeDomains === undefined && excludeDomains === undefined) return null;
  const included = includeDomains === undefined ? null : new Set(includeDomains);
  const excluded = new Set(excludeDomains);
  return (url) => {
    const host = hostOf(url);
    if (host === undefined || isIn(excluded, host) || (included !== null && !isIn(included, host))) return false;
    // An address of a cache or a redirect leads to another host.
    if (excluded.size === 0) return true;
    const target = hostOf(canonicalUrl(url));
    return target !== undefined && !isIn(excluded, target);
  };
}

/** RFC 1035, section 2.3.4, with a closing dot. A longer name is none, and would be slow to compare. */
const MOST_HOST_LENGTH = 254;

function hostOf(url: string): string | undefined {
  const host = URL.parse(url)?.hostname;
  if (host === undefined || host.length > MOST_HOST_LENGTH) return undefined;
  return host.endsWith('.') ? host.replace(/\.+$/, '') : host;
}

/** Whether the host or a domain that it is in is among the domains. */
function isIn(domains: ReadonlySet<string>, host: string): boolean {
  if (domains.size === 0) return false;
  for (let at = 0; ; at++) {
    if (domains.has(host.slice(at))) return true;
    at = host.indexOf('.', at);
    if (at < 0) return false;
  }
}

/** The filters and the page of one search at one engine. */
export class FilterPlan {
  /** What the engine is asked. */
  readonly query: EngineQuery;
  /** Hits that belong to the pages before. */
  readonly before: number;
  /** Hits of those before that the engine gives, too. */
  readonly skipped: number;
  /** Hits that are enough, with those that are skipped. */
  readonly wanted: number;
  readonly #filters: SearchFilters;
  readonly #nowMs: number;
  readonly #isAllowed: ((url: string) => boolean) | null;
  readonly #isTimed: boolean;
  readonly #missing: readonly (keyof SearchFilters)[];

  constructor(query: EngineQuery, support: EngineFilters | undefined, nowMs: number) {
    const { filters = {}, maxResults, page = 1, ...rest } = query;
    const isApplied = (name: FilterName): boolean => applies(support, name, query);
    const leavesOut = (['includeDomains', 'excludeDomains', 'timeRange'] as const).some(
      (name) => filters[name] !== undefined && !isApplied(name),
    );
    // The pages of an engine count what it gives, not what is left of that.
    const skips = page > 1 && isApplied('page') && !leavesOut;
    const { timeRange } = filters;
    this.before = (page - 1) * maxResults;
    this.skipped = skips ? 0 : this.before;
    this.wanted = this.skipped + maxResults;
    const most = leavesOut ? Math.max(this.wanted, SPARE * maxResults) : this.wanted;
    this.query = {
      ...rest,
      maxResults: Math.min(MOST_HITS, most),
      ...(query.filters !== undefined && { filters }),
      ...(timeRange !== undefined && { dates: datesOf(timeRange, nowMs) }),
      ...(skips && { page }),
    };
    this.#filters = filters;
    this.#nowMs = nowMs;
    this.#isAllowed = createDomainFilter(filters);
    this.#isTimed = timeRange !== undefined && isApplied('timeRange');
    this.#missing = ONLY_BY_ENGINES.filter(
      (name) => filters[name] !== undefined && filters[name] !== 'off' && !isApplied(name),
    );
  }

  /** Whether hits may be left out. */
  get leavesOut(): boolean {
    return this.#isAllowed !== null || this.#filters.timeRange !== undefined;
  }

  /** Requests of a search beyond those of its first page. */
  get moreRequestsPerTen(): number {
    return Math.ceil(this.skipped / 10);
  }

  /** The hits that the filters let through. Adds the others, with the reason, to `dropped`. */
  keep(hits: readonly EngineHit[], dropped: Map<EngineHit, string>): readonly EngineHit[] {
    if (!this.leavesOut) return hits;
    return hits.filter((hit) => {
      const reason = this.#reasonAgainst(hit);
      if (reason !== null) dropped.set(hit, reason);
      return reason === null;
    });
  }

  /** What these hits do not observe, in words of the interface. `unobserved`: as the engine says. */
  notApplied(hits: readonly EngineHit[], unobserved: readonly FilterName[]): string[] {
    if (hits.length === 0) return [];
    const { safeSearch, timeRange } = this.#filters;
    const names = new Set<keyof SearchFilters>(this.#missing);
    for (const name of ONLY_BY_ENGINES) {
      const isAsked = this.#filters[name] !== undefined && !(name === 'safeSearch' && safeSearch === 'off');
      if (isAsked && unobserved.includes(name)) names.add(name);
    }
    const isTimed = this.#isTimed && !unobserved.includes('timeRange');
    if (timeRange !== undefined && !isTimed && hits.some((hit) => this.#isWithin(hit) === null)) names.add('timeRange');
    return Array.from(names, (name) => FILTER_NAMES[name]);
  }

  #reasonAgainst(hit: EngineHit): string | null {
    if (this.#isAllowed !== null && !this.#isAllowed(hit.url)) return 'domain';
    return this.#isWithin(hit) === false ? 'time_range' : null;
  }

  #isWithin({ publishedAt, year }: EngineHit): boolean | null {
    const { timeRange } = this.#filters;
    if (timeRange === undefined) return true;
    return isWithin(publishedAt ?? (year === undefined ? undefined : String(year)), timeRange, this.#nowMs);
  }
}

/** The plan of a query; null where it has neither filters nor a page behind the first. */
export function planOf(
  query: EngineQuery,
  support: EngineFilters | undefined,
  epochMs: () => number,
): FilterPlan | null {
  const isPlain = query.filters === undefined && (query.page ?? 1) === 1;
  return isPlain ? null : new FilterPlan(query, support, epochMs());
}

/** The reason for `meta.engine_errors`; undefined without any. */
export function reasonOf(notApplied: readonly string[]): string | undefined {
  if (notApplied.length === 0) return undefined;
  return `${notApplied.join(', ')} filter${notApplied.length === 1 ? '' : 's'} not applied`;
}
