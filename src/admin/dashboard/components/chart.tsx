// A line chart over time. The charts of one page share the cursor and the range that was dragged over: `ChartGroup`. By keyboard
// the arrow keys move the cursor, and the values are read out. Colours come from the style sheet by the number of a line.

import { createContext, type ComponentChildren, type VNode } from 'preact';
import { useContext, useId, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { clockText, dateText, momentText, NONE } from '../format.ts';
import { useStore } from '../store.ts';
import { shownTheme } from '../theme.ts';
import { speak } from './announcement.tsx';

/** One line; nulls are gaps. */
export interface Line {
  readonly name: string;
  readonly values: readonly (number | null)[];
  /** Colour by number, 1 to 6, `bad` for errors, or `quiet`. */
  readonly color: 1 | 2 | 3 | 4 | 5 | 6 | 'bad' | 'quiet';
  readonly dashed?: boolean;
  /** Fills the area below it. */
  readonly filled?: boolean;
}

export interface ChartProps {
  readonly title: string;
  /** What is measured, where the title does not say it: shown smaller behind it. */
  readonly note?: string;
  /** Milliseconds since 1970, ascending, one for each value. */
  readonly datesMs: readonly number[];
  /** First and last date of the axis; default: of `datesMs`. */
  readonly fromMs?: number;
  readonly toMs?: number;
  readonly lines: readonly Line[];
  readonly print: (value: number | null | undefined) => string;
  /** Top of the axis; default: a little above the highest value. Its bottom is zero, or below the lowest value. */
  readonly top?: number;
  /** Values are bytes: the axis has powers of two. */
  readonly isBytes?: boolean;
  /** What stands in place of the chart when no line has a value. */
  readonly empty?: string;
}

interface Zoom {
  readonly fromMs: number;
  readonly toMs: number;
}

interface Group {
  readonly key: string;
  readonly zoom: Zoom | null;
  readonly setZoom: (zoom: Zoom | null) => void;
}

const GroupContext = createContext<Group | null>(null);

/** Charts with one cursor and one range. */
export function ChartGroup({
  children,
  label,
}: {
  readonly children: ComponentChildren;
  readonly label: string;
}): VNode {
  const key = useId();
  const [zoom, setZoom] = useState<Zoom | null>(null);
  const group = useMemo(() => ({ key, zoom, setZoom }), [key, zoom]);
  return (
    <GroupContext.Provider value={group}>
      {zoom !== null && (
        <p class="zoom">
          <span>
            {dateText(zoom.fromMs)} to {clockText(zoom.toMs)}
          </span>{' '}
          <button type="button" onClick={() => setZoom(null)}>
            Whole range
          </button>
        </p>
      )}
      <div class="charts" role="group" aria-label={label}>
        {children}
      </div>
    </GroupContext.Provider>
  );
}

const HEIGHT = 148;
const AXIS_FONT = '11px system-ui, sans-serif';
const DAY_S = 86_400;
const BINARY_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);

/** Labels of the time axis: time of day, with seconds where they differ, and the date at midnight. */
function timeLabels(_plot: uPlot, splits: number[], _axis: number, _space: number, step: number): string[] {
  return splits.map((seconds) => {
    const date = new Date(seconds * 1000);
    const isMidnight = date.getHours() === 0 && date.getMinutes() === 0 && date.getSeconds() === 0;
    if (step >= DAY_S || isMidnight) return date.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' });
    return date.toLocaleTimeString('en-GB', {
      hour: '2-digit',
      minute: '2-digit',
      ...(step < 60 && { second: '2-digit' }),
    });
  });
}

/** Points of a line that has no neighbour: a line alone would not show them. */
function lonePoints(plot: uPlot, series: number): number[] {
  const values = plot.data[series] ?? [];
  const lone: number[] = [];
  for (const [index, value] of values.entries()) {
    if (value == null) continue;
    if (values[index - 1] == null && values[index + 1] == null) lone.push(index);
  }
  return lone;
}

function colorsOf(node: HTMLElement): (name: string) => string {
  const probe = document.createElement('span');
  probe.hidden = true;
  node.append(probe);
  const cache = new Map<string, string>();
  const read = (name: string): string => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  return (name) => {
    const known = cache.get(name);
    if (known !== undefined) return known;
    const color = read(name);
    cache.set(name, color);
    return color;
  };
}

const colorName = (color: Line['color']): string => (typeof color === 'number' ? `line-${color}` : color);

/** Index of the last value that is not null; -1 without any. */
function lastIndex(values: readonly (number | null)[]): number {
  return values.findLastIndex((value) => value !== null && value !== undefined);
}

/** What a plot reads whenever it draws, and what it tells. */
interface PlotSource {
  readonly latest: { readonly current: ChartProps };
  readonly group: { readonly current: Group | null };
  /** With the index of a date; null when the cursor is gone. */
  readonly onCursor: (index: number | null) => void;
}

function plotOptions(
  color: (name: string) => string,
  { group, latest, onCursor }: PlotSource,
): Omit<uPlot.Options, 'width'> {
  return {
    height: HEIGHT,
    padding: [8, 18, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      points: { size: 7, width: 2, fill: color('sheet') },
      drag: { x: true, y: false, setScale: false },
      ...(group.current !== null && {
        sync: { key: group.current.key, scales: ['x', null] as [string, null] },
      }),
    },
    scales: {
      x: { time: true, range: () => rangeOf(latest.current, group.current?.zoom ?? null) },
      y: { range: (_plot, low, high) => rangeOfValues(latest.current, low, high) },
    },
    axes: [
      {
        stroke: color('quiet'),
        font: AXIS_FONT,
        size: 26,
        space: 64,
        values: timeLabels,
        grid: { stroke: color('grid'), width: 1 },
        ticks: { show: false },
      },
      {
        stroke: color('quiet'),
        font: AXIS_FONT,
        size: 54,
        gap: 6,
        space: 32,
        ...(latest.current.isBytes === true && { incrs: BINARY_STEPS }),
        values: (_plot, splits) => splits.map((value) => axisText(latest.current.print(value))),
        grid: { stroke: color('grid'), width: 1 },
        ticks: { show: false },
      },
    ],
    series: [
      {},
      ...latest.current.lines.map((line): uPlot.Series => {
        const stroke = color(colorName(line.color));
        return {
          label: line.name,
          stroke,
          width: 1.6,
          points: { show: true, size: 4, width: 0, fill: stroke, filter: lonePoints },
          ...(line.dashed === true && { dash: [5, 4] }),
          ...(line.filled === true && { fill: stroke.replace('rgb(', 'rgba(').replace(')', ', 0.12)') }),
        };
      }),
    ],
    hooks: {
      setCursor: [(own) => onCursor(own.cursor.idx ?? null)],
      setSelect: [
        (own) => {
          const { left, width } = own.select;
          if (width < 8) return;
          const [fromMs, toMs] = [left, left + width].map((x) => own.posToVal(x, 'x') * 1000);
          own.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          if (fromMs !== undefined && toMs !== undefined) group.current?.setZoom({ fromMs, toMs });
        },
      ],
    },
  };
}

function widthOf(node: HTMLElement): number {
  return Math.max(node.clientWidth, 100);
}

export function Chart(props: ChartProps): VNode {
  const { datesMs, empty = 'Nothing was measured in this range.', lines, note, print, title } = props;
  const group = useContext(GroupContext);
  const shown = useStore(shownTheme);
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const groupRef = useRef(group);
  groupRef.current = group;
  const [cursor, setCursor] = useState<number | null>(null);
  const id = useId();
  const isEmpty = lines.every(({ values }) => lastIndex(values) < 0);
  const shape = `${shown} ${lines.map(({ color, dashed, filled, name }) => `${name} ${color} ${dashed} ${filled}`).join('|')}`;

  // A new plot for other lines or colours; data alone is exchanged in place.
  useLayoutEffect(() => {
    const node = holder.current;
    if (node === null || isEmpty) return undefined;
    const options = plotOptions(colorsOf(node), { latest, group: groupRef, onCursor: setCursor });
    const made = new uPlot({ ...options, width: widthOf(node) }, dataOf(latest.current), node);
    plot.current = made;
    const observer = new ResizeObserver(() => {
      const width = widthOf(node);
      if (width !== made.width) made.setSize({ width, height: HEIGHT });
    });
    observer.observe(node);
    return () => {
      observer.disconnect();
      plot.current = null;
      made.destroy();
      node.replaceChildren();
    };
  }, [shape, isEmpty, group?.key]);

  const zoom = group?.zoom ?? null;
  useLayoutEffect(
    () => plot.current?.setData(dataOf(latest.current)),
    [datesMs, lines, zoom, props.fromMs, props.toMs],
  );

  const index = cursor !== null && cursor < datesMs.length ? cursor : null;
  const atMs = index === null ? null : datesMs[index];
  const valueAt = (line: Line): string => {
    const at = index ?? lastIndex(line.values);
    return at < 0 ? NONE : print(line.values[at]);
  };

  const moveCursor = (key: string): boolean => {
    const own = plot.current;
    if (own === null || datesMs.length === 0) return false;
    const step = Math.max(1, Math.round(datesMs.length / 60));
    const from = index ?? datesMs.length - 1;
    const last = datesMs.length - 1;
    const targets: Readonly<Record<string, number>> = {
      ArrowLeft: index === null ? last : Math.max(from - step, 0),
      ArrowRight: Math.min(from + step, last),
      Home: 0,
      End: last,
    };
    if (key === 'Escape') {
      for (const each of plotsOf(own, group)) each.setCursor({ left: -10, top: -10 });
      return true;
    }
    const target = targets[key];
    if (target === undefined) return false;
    for (const each of plotsOf(own, group)) {
      each.setCursor({ left: each.valToPos((datesMs[target] ?? 0) / 1000, 'x'), top: 0 });
    }
    const values = lines.map((line) => `${line.name} ${print(line.values[target])}`).join(', ');
    speak(`${clockText(datesMs[target] ?? 0)}: ${values}`);
    return true;
  };

  return (
    <figure class="chart" aria-labelledby={`${id}-title`}>
      <figcaption>
        <span class="chart-title" id={`${id}-title`}>
          {title}
          {note !== undefined && <small> {note}</small>}
        </span>
        <span class="chart-time">
          {atMs === null || atMs === undefined ? '' : momentText(atMs, datesMs.at(-1) ?? atMs)}
        </span>
      </figcaption>
      <ul class="legend">
        {lines.map((line) => (
          <li key={line.name}>
            <span
              class={`swatch ${colorName(line.color)}${line.dashed === true ? ' dashed' : ''}`}
              aria-hidden="true"
            />
            {line.name} <b>{valueAt(line)}</b>
          </li>
        ))}
      </ul>
      {isEmpty ? (
        <p class="state">{empty}</p>
      ) : (
        <div
          class="plot"
          ref={holder}
          tabIndex={0}
          role="application"
          aria-roledescription="chart"
          aria-label={`${title}: ${summaryOf(props)}. Arrow keys move the cursor.`}
          onKeyDown={(event) => {
            if (moveCursor(event.key)) event.preventDefault();
          }}
          onBlur={() => moveCursor('Escape')}
        />
      )}
    </figure>
  );
}

function plotsOf(own: uPlot, group: Group | null): readonly uPlot[] {
  return group === null ? [own] : uPlot.sync(group.key).plots;
}

/** Round figures need no digits behind the point: `$10.00`, `2.00 s`. */
function axisText(text: string): string {
  return text.replace(/\.0+(?!\d)/, '');
}

function dataOf({ datesMs, lines }: ChartProps): uPlot.AlignedData {
  return [datesMs.map((dateMs) => dateMs / 1000), ...lines.map(({ values }) => values as (number | null)[])];
}

function rangeOf({ datesMs, fromMs, toMs }: ChartProps, zoom: Zoom | null): [number, number] {
  if (zoom !== null) return [zoom.fromMs / 1000, zoom.toMs / 1000];
  const first = fromMs ?? datesMs[0] ?? 0;
  const last = toMs ?? datesMs.at(-1) ?? 0;
  return [first / 1000, Math.max(last, first + 1000) / 1000];
}

/** From zero to a little above the highest value, and from below the lowest one where that is less than zero. */
function rangeOfValues({ top }: ChartProps, low: number | null, high: number | null): [number, number] {
  const bottom = Math.min(low ?? 0, 0) * 1.08;
  const above = Math.max(high ?? 0, 0) * 1.08;
  return [bottom, top ?? (above === 0 && bottom === 0 ? 1 : above)];
}

/** What a chart shows, in words: the last, least and most value of each line. */
function summaryOf({ lines, print }: ChartProps): string {
  const texts = lines.map(({ name, values }) => {
    const known = values.filter((value) => value !== null);
    if (known.length === 0) return `${name} not measured`;
    const least = known.reduce((low, value) => Math.min(low, value));
    const most = known.reduce((high, value) => Math.max(high, value));
    return `${name} now ${print(known.at(-1))}, from ${print(least)} to ${print(most)}`;
  });
  return texts.join('; ');
}
