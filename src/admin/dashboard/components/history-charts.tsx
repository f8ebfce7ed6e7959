// Charts of the history that the gateway keeps, over the range that the user has chosen. The range is in the address, and holds
// for all views.

import type { VNode } from 'preact';
import { useEffect, useMemo } from 'preact/hooks';
import { usePolled } from '../api.ts';
import type { HistoryDocument } from '../../history.ts';
import { route, setQuery } from '../router.ts';
import { Store, useStore } from '../store.ts';
import { Chart, ChartGroup, type Line } from './chart.tsx';
import { Loading, Problem } from './states.tsx';

/** Ranges with their names, and how often they are read. */
const RANGES = {
  '15m': { name: '15 min', title: 'the last 15 minutes', everyMs: 5000, lengthMs: 900_000 },
  '1h': { name: '1 h', title: 'the last hour', everyMs: 5000, lengthMs: 3_600_000 },
  '6h': { name: '6 h', title: 'the last 6 hours', everyMs: 30_000, lengthMs: 21_600_000 },
  '24h': { name: '24 h', title: 'the last 24 hours', everyMs: 30_000, lengthMs: 86_400_000 },
} as const;

type Range = keyof typeof RANGES;
const NAMES = Object.keys(RANGES) as Range[];

function rangeOf(text: string | null): Range | undefined {
  return NAMES.find((name) => name === text);
}

const chosen: Store<Range> = new Store(rangeOf(route.value.query.get('range')) ?? '15m');

/** Chooses the range of all charts. */
export function RangePicker(): VNode {
  const range = useStore(chosen);
  const { query } = useStore(route);
  const inAddress = rangeOf(query.get('range'));
  useEffect(() => {
    if (inAddress !== undefined) chosen.set(inAddress);
  }, [inAddress]);
  return (
    <span class="choices" role="group" aria-label="Time range">
      {NAMES.map((name) => (
        <button
          key={name}
          type="button"
          aria-pressed={name === range}
          onClick={() => {
            chosen.set(name);
            setQuery('range', name);
          }}
        >
          {RANGES[name].name}
        </button>
      ))}
    </span>
  );
}

/** A line by the name of its series. */
export interface SeriesLine extends Omit<Line, 'values'> {
  readonly series: string;
}

export interface HistoryChart {
  readonly title: string;
  readonly note?: string;
  readonly lines: readonly SeriesLine[];
  readonly print: (value: number | null | undefined) => string;
  readonly top?: number;
  readonly isBytes?: boolean;
}

export interface HistoryChartsProps {
  readonly charts: readonly HistoryChart[];
  /** Names a model or a CRN: `&model=ID`. Default: the whole gateway. */
  readonly of?: string;
}

const NO_VALUES: readonly null[] = [];

export function HistoryCharts({ charts, of = '' }: HistoryChartsProps): VNode {
  const range = useStore(chosen);
  const { everyMs, lengthMs, title } = RANGES[range];
  const { data, error, refresh } = usePolled<HistoryDocument>(`/history?range=${range}${of}`, everyMs);
  const drawn = useMemo(() => {
    const last = data?.dateMs.at(-1) ?? 0;
    return charts.map(({ lines, ...chart }) => ({
      ...chart,
      datesMs: data?.dateMs ?? [],
      toMs: last,
      fromMs: last - lengthMs,
      lines: lines.map(({ series, ...line }) => ({ ...line, values: data?.series[series] ?? NO_VALUES })),
    }));
  }, [charts, data, lengthMs]);
  return (
    <>
      {error !== null && <Problem text={`The history could not be read: ${error}`} retry={refresh} />}
      {data === undefined && error === null && <Loading what="the history" />}
      {data !== undefined && (
        <ChartGroup label={`Charts of ${title}`}>
          {drawn.map((chart) => (
            <Chart key={chart.title} {...chart} />
          ))}
        </ChartGroup>
      )}
    </>
  );
}
