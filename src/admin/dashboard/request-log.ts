// The request log in components: the rows that match the filters of the address, newest first. New rows are added while the view is
// open, older ones when they are asked for; no row is missed or shown twice.

import { useEffect, useRef, useState } from 'preact/hooks';
import type { LoggedRequest } from '../../telemetry/request-log.ts';
import { paused, problemText, read } from './api.ts';
import { useStore } from './store.ts';

const EVERY_MS = 2000;
const PAGE = 100;
/** Most rows that one answer has. */
const MOST = 500;
/** Rows that the view keeps; the oldest go first. */
const KEPT = 2000;
/** Answers in which as many rows have come as the view keeps. */
const MOST_ANSWERS = KEPT / MOST;

/** Filters of the log, as its address and `GET /requests/log` name them. */
const FILTERS = ['q', 'model', 'account', 'crn', 'status', 'code', 'endpoint', 'tool', 'slowerThan'] as const;

/** Answer of `GET /requests/log`. */
export interface LogDocument {
  readonly dateMs: number;
  readonly size: number;
  readonly completeSinceMs: number | null;
  readonly missingThreads: number;
  readonly data: readonly LoggedRequest[];
  readonly next: string | null;
}

export interface RequestLogState {
  /** Undefined before the first answer. */
  readonly rows: readonly LoggedRequest[] | undefined;
  readonly last: LogDocument | null;
  readonly error: string | null;
  /** Reads older rows; null when there are none. */
  readonly more: (() => void) | null;
  readonly refresh: () => void;
}

/** Parameters of the log in a query. */
export function filtersOf(query: URLSearchParams): URLSearchParams {
  const filters = new URLSearchParams();
  for (const name of FILTERS) {
    const value = query.get(name) ?? '';
    if (value !== '') filters.set(name, value);
  }
  return filters;
}

interface Content {
  readonly filters: string;
  readonly rows: readonly LoggedRequest[] | undefined;
  readonly last: LogDocument | null;
  readonly older: boolean;
  readonly error: string | null;
}

function empty(filters: string): Content {
  return { filters, rows: undefined, last: null, older: false, error: null };
}

/** `filters`: a query string. */
export function useRequestLog(filters: string): RequestLogState {
  const isPaused = useStore(paused);
  const [content, setContent] = useState(() => empty(filters));
  const [turn, setTurn] = useState(0);
  const readTurn = useRef(turn);
  const latest = useRef(content);
  const shown = content.filters === filters ? content : empty(filters);
  latest.current = shown;
  const update = (change: Partial<Content>): void => {
    latest.current = { ...latest.current, ...change };
    setContent(latest.current);
  };

  useEffect(() => {
    const ended = new AbortController();
    let timer: number | undefined;
    const step = async (): Promise<void> => {
      clearTimeout(timer);
      try {
        if (!document.hidden) update({ ...(await readNew(filters, latest, ended.signal)), error: null });
      } catch (error) {
        if (ended.signal.aborted) return;
        update({ error: problemText(error) });
      }
      if (!ended.signal.aborted && !isPaused) timer = window.setTimeout(() => void step(), EVERY_MS);
    };
    // Paused: what is there stays; other filters are read once, and so is what is asked for.
    if (!isPaused || latest.current.rows === undefined || turn !== readTurn.current) void step();
    readTurn.current = turn;
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, [filters, isPaused, turn]);

  const more = async (): Promise<void> => {
    const oldest = latest.current.rows?.at(-1);
    if (oldest === undefined) return;
    try {
      const { data, next } = await read<LogDocument>(logPath(filters, { limit: String(PAGE), before: oldest.cursor }));
      const { rows = [] } = latest.current;
      // Other filters, or rows that have come by another click.
      if (rows.at(-1) !== oldest) return;
      update({ rows: [...rows, ...data], older: next !== null && rows.length < KEPT, error: null });
    } catch (error) {
      if (latest.current.filters === filters) update({ error: problemText(error) });
    }
  };
  return {
    rows: shown.rows,
    last: shown.last,
    error: shown.error,
    more: shown.older ? () => void more() : null,
    refresh: () => setTurn(turn + 1),
  };
}

/**
 * The rows that have ended since the newest one; the newest alone where there are none, where more have ended than the view keeps, or where
 * a thread answers again whose rows may be older.
 */
async function readNew(
  filters: string,
  latest: { readonly current: Content },
  signal: AbortSignal,
): Promise<Pick<Content, 'rows' | 'last' | 'older'>> {
  const ask = (more: Readonly<Record<string, string>>): Promise<LogDocument> => read(logPath(filters, more), signal);
  const fresh: LoggedRequest[] = [];
  let newest = latest.current.rows?.[0];
  const wasMissing = latest.current.last?.missingThreads ?? 0;
  for (let answers = 0; newest !== undefined && answers < MOST_ANSWERS; answers++) {
    const last = await ask({ limit: String(MOST), after: newest.cursor });
    fresh.unshift(...last.data.toReversed());
    if (last.missingThreads < wasMissing) break;
    if (last.next === null) {
      // What `more` has added meanwhile stays.
      const { older, rows: before = [] } = latest.current;
      const all = [...fresh, ...before];
      return { rows: all.slice(0, KEPT), last, older: older && all.length < KEPT };
    }
    newest = fresh[0];
  }
  const last = await ask({ limit: String(newest === undefined ? PAGE : MOST) });
  return { rows: last.data, last, older: last.next !== null };
}

function logPath(filters: string, more: Readonly<Record<string, string>>): string {
  const query = new URLSearchParams(filters);
  for (const [name, value] of Object.entries(more)) query.set(name, value);
  return `/requests/log?${query.toString()}`;
}
