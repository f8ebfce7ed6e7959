// What the views of accounts read from the ledger: lists page by page, exact sums of money, spending by day. A view reads when it is opened,
// by its button, and after an action that has changed something.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { UsageView } from '../../views.ts';
import { problemText, read } from '../api.ts';
import { nowMs } from '../format.ts';
import { Store, useStore } from '../store.ts';

/** Rows of a page of a long list. */
const PAGE_ROWS = 50;
/** Most rows of a page of the admin interface. */
const MOST_ROWS = 1000;

const DAY_MS = 86_400_000;

/** Counts changes of the ledger by this page, and wishes to read again. */
const version: Store<number> = new Store(0);

/** Makes the views that are shown read again. */
export function readAgain(): void {
  version.set(version.value + 1);
}

export type Query = Readonly<Record<string, string | undefined>>;

export function pathOf(path: string, query: Query = {}): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => (entry[1] ?? '') !== '');
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given).toString()}`;
}

export function accountPath(id: string): string {
  return `/accounts/${encodeURIComponent(id)}`;
}

interface Page<Row> {
  readonly data: readonly Row[];
  readonly next: string | null;
}

/** All rows of a list. */
export async function readAll<Row>(path: string, query: Query, signal: AbortSignal): Promise<Row[]> {
  const rows: Row[] = [];
  for (let cursor: string | null | undefined; cursor !== null;) {
    const asked = { ...query, limit: String(MOST_ROWS), ...(cursor !== undefined && { cursor }) };
    const page: Page<Row> = await read(pathOf(path, asked), signal);
    rows.push(...page.data);
    cursor = page.next;
  }
  return rows;
}

/** What was read, or why it could not be. Both are null before the first answer. */
export interface Reading<T> {
  readonly data: T | null;
  readonly problem: string | null;
}

/** Reads once, whenever `key` changes, and after `readAgain`. What was read before stays until the new answer. */
export function useReading<T>(key: string, ask: (signal: AbortSignal) => Promise<T>): Reading<T> {
  const count = useStore(version);
  const [state, setState] = useState<Reading<T> & { readonly key: string }>({ key, data: null, problem: null });
  useEffect(() => {
    const abort = new AbortController();
    ask(abort.signal).then(
      (data) => abort.signal.aborted || setState({ key, data, problem: null }),
      (error: unknown) => abort.signal.aborted || setState({ key, data: null, problem: problemText(error) }),
    );
    return () => abort.abort();
  }, [key, count]);
  return state.key === key ? state : { data: null, problem: null };
}

/** Reads something of each of these ids: once, also when further ids come meanwhile, until `readAgain`. */
export function useEach<T>(
  ids: readonly string[],
  ask: (id: string, signal: AbortSignal) => Promise<T>,
): { readonly data: ReadonlyMap<string, T>; readonly problem: string | null } {
  const count = useStore(version);
  const [known] = useState(() => new Map<string, T>());
  const { abort, reads } = useMemo(
    () => ({ abort: new AbortController(), reads: new Map<string, Promise<unknown>>() }),
    [count],
  );
  useEffect(() => () => abort.abort(), [abort]);
  const { data, problem } = useReading(JSON.stringify(ids), async () => {
    const all = ids.map((id) => {
      const answer = reads.get(id) ?? ask(id, abort.signal).then((value) => known.set(id, value));
      reads.set(id, answer);
      return answer;
    });
    await Promise.all(all);
    return new Map(known);
  });
  return { data: data ?? known, problem };
}

export interface PagedList<Row> extends Reading<readonly Row[]> {
  /** Reads the next page; undefined when there is none. */
  readonly onMore: (() => void) | undefined;
}

/** A long list: its first page, and the next ones on demand. */
export function usePages<Row>(path: string, query: Query = {}): PagedList<Row> {
  const key = pathOf(path, query);
  const first = useReading(key, (signal) =>
    read<Page<Row>>(pathOf(path, { ...query, limit: String(PAGE_ROWS) }), signal),
  );
  const [more, setMore] = useState<{
    readonly of: Page<Row>;
    readonly rows: readonly Row[];
    readonly next: string | null;
  }>();
  const [failed, setFailed] = useState<{ readonly of: Page<Row>; readonly problem: string }>();
  const latest = useRef(first.data);
  latest.current = first.data;
  if (first.data === null) return { data: null, problem: first.problem, onMore: undefined };
  const begun = first.data;
  const continued = more?.of === begun ? more : { of: begun, rows: begun.data, next: begun.next };
  const { next, rows } = continued;
  const onMore = (): void => {
    read<Page<Row>>(pathOf(path, { ...query, limit: String(PAGE_ROWS), cursor: next ?? '' })).then(
      (page) => {
        // The list may have been read again meanwhile.
        if (latest.current === begun) setMore({ of: begun, rows: [...rows, ...page.data], next: page.next });
        setFailed(undefined);
      },
      (error: unknown) => setFailed({ of: begun, problem: problemText(error) }),
    );
  };
  const problem = failed?.of === begun ? failed.problem : null;
  return { data: rows, problem, onMore: next === null ? undefined : onMore };
}

/** Pico-USD of a decimal, and back: sums are exact. */
export function picoOf(usd: string): bigint {
  const [whole = '0', part = ''] = usd.split('.');
  return BigInt(whole + part.padEnd(12, '0'));
}

export function usdOf(pico: bigint): string {
  const digits = String(pico < 0n ? -pico : pico).padStart(13, '0');
  return `${pico < 0n ? '-' : ''}${digits.slice(0, -12)}.${digits.slice(-12).replace(/0{1,10}$/, '')}`;
}

/** For axes and bars, where the last digits do not matter. */
export function numberOf(pico: bigint): number {
  return Number(pico) / 1e12;
}

/** `YYYY-MM-DD` in UTC. */
function dayOf(dateMs: number): string {
  return new Date(dateMs).toISOString().slice(0, 10);
}

/** The last days with today, the oldest first. */
export function lastDays(count: number): string[] {
  const todayMs = nowMs();
  return Array.from({ length: count }, (_, index) => dayOf(todayMs - (count - 1 - index) * DAY_MS));
}

/** First day of the calendar month in UTC, by which limits are counted. */
export function monthStart(): string {
  return `${dayOf(nowMs()).slice(0, 7)}-01`;
}

/** A date of a document in UTC, to the second; a dash for none. */
export function whenText(date: string | null): string {
  return date === null ? '–' : date.replace('T', ' ').slice(0, 19);
}

export function orDash(text: string | null): string {
  return text === null || text === '' ? '–' : text;
}

export interface Spending {
  /** USD of each of the last days. */
  readonly days: readonly number[];
  readonly today: string;
  /** Of this calendar month. */
  readonly month: string;
}

/** Days of spending that are summed. A calendar month fits. */
export const SPENDING_DAYS = 31;

export function spendingOf(rows: readonly UsageView[]): Spending {
  const sums = new Map<string, bigint>();
  for (const { amount_usd: usd, day = '' } of rows) sums.set(day, (sums.get(day) ?? 0n) + picoOf(usd));
  const days = lastDays(SPENDING_DAYS);
  const month = (days.at(-1) ?? '').slice(0, 7);
  const inMonth = [...sums].filter(([day]) => day.startsWith(month));
  return {
    days: days.map((day) => numberOf(sums.get(day) ?? 0n)),
    today: usdOf(sums.get(days.at(-1) ?? '') ?? 0n),
    month: usdOf(inMonth.reduce((sum, [, each]) => sum + each, 0n)),
  };
}
