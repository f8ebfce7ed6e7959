// A chart of stacked bars, one for each day, with a legend that shows the values of the day under the pointer. By keyboard the arrow keys move
// between the days, and the values are read out. The same figures as a table are one click away.

import type { VNode } from 'preact';
import { useId, useState } from 'preact/hooks';
import { speak } from './announcement.tsx';

export interface BarSeries {
  readonly name: string;
  /** One for each day. */
  readonly values: readonly number[];
  /** Colour by number, 1 to 6, or `quiet`. */
  readonly color: 1 | 2 | 3 | 4 | 5 | 6 | 'quiet';
}

export interface StackedBarsProps {
  readonly title: string;
  readonly note?: string;
  /** `YYYY-MM-DD`, ascending. */
  readonly days: readonly string[];
  /** The first one is at the bottom. */
  readonly series: readonly BarSeries[];
  readonly print: (value: number) => string;
  readonly empty?: string;
}

const WIDTH = 600;
const HEIGHT = 150;
/** Share of the width of a day that its bar takes. */
const BAR = 0.8;

const colorOf = (color: BarSeries['color']): string => (typeof color === 'number' ? `line-${color}` : color);

/** The round number at or above the highest bar: 1, 2 or 5 with zeros. */
function roundTop(high: number): number {
  if (high <= 0) return 1;
  const step = 10 ** Math.floor(Math.log10(high));
  return ([1, 2, 5, 10].find((factor) => factor * step >= high) ?? 10) * step;
}

export function StackedBars(props: StackedBarsProps): VNode {
  const { days, empty = 'Nothing in this range.', note, print, series, title } = props;
  const [at, setAt] = useState<number | null>(null);
  const id = useId();
  const sums = days.map((_, day) => series.reduce((sum, { values }) => sum + (values[day] ?? 0), 0));
  const total = sums.reduce((sum, each) => sum + each, 0);
  const top = roundTop(Math.max(0, ...sums));
  const shown = at !== null && at < days.length ? at : null;
  const valueOf = ({ values }: BarSeries): number => {
    return shown === null ? values.reduce((sum, value) => sum + value, 0) : (values[shown] ?? 0);
  };
  const move = (key: string): boolean => {
    const last = days.length - 1;
    const from = shown ?? last + 1;
    const targets: Readonly<Record<string, number | null>> = {
      ArrowLeft: Math.max(from - 1, 0),
      ArrowRight: Math.min(from + 1, last),
      Home: 0,
      End: last,
      Escape: null,
    };
    const target = targets[key];
    if (target === undefined) return false;
    setAt(target);
    if (target !== null) {
      const parts = series.filter(({ values }) => (values[target] ?? 0) > 0);
      const words = parts.map(({ name, values }) => `${name} ${print(values[target] ?? 0)}`).join(', ');
      speak(`${days[target] ?? ''}: ${print(sums[target] ?? 0)}${words === '' ? '' : `, ${words}`}`);
    }
    return true;
  };
  return (
    <figure class="chart stacked" aria-labelledby={`${id}-title`}>
      <figcaption>
        <span class="chart-title" id={`${id}-title`}>
          {title}
          {note !== undefined && <small> {note}</small>}
        </span>
        <span class="chart-time">
          {shown === null ? `${days[0] ?? ''} to ${days.at(-1) ?? ''}` : days[shown]}{' '}
          <b>{print(shown === null ? total : (sums[shown] ?? 0))}</b>
        </span>
      </figcaption>
      <ul class="legend">
        {series.map((each) => (
          <li key={each.name}>
            <span class={`swatch block ${colorOf(each.color)}`} aria-hidden="true" />
            {each.name} <b>{print(valueOf(each))}</b>
          </li>
        ))}
      </ul>
      {total === 0 ? (
        <p class="state">{empty}</p>
      ) : (
        <>
          <div
            class="bars"
            tabIndex={0}
            role="application"
            aria-roledescription="chart"
            aria-label={`${title}: ${print(total)} in ${days.length} days, at most ${print(Math.max(...sums))} a day. Arrow keys move between days.`}
            onKeyDown={(event) => {
              if (move(event.key)) event.preventDefault();
            }}
            onBlur={() => setAt(null)}
            onPointerMove={(event) => {
              const { left, width } = event.currentTarget.getBoundingClientRect();
              setAt(Math.min(Math.max(Math.floor(((event.clientX - left) / width) * days.length), 0), days.length - 1));
            }}
            onPointerLeave={() => setAt(null)}
          >
            <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
              {[0.5, 1].map((share) => (
                <line key={share} class="grid" x1="0" x2={WIDTH} y1={HEIGHT * (1 - share)} y2={HEIGHT * (1 - share)} />
              ))}
              {days.map((day, index) => (
                <DayBar
                  key={day}
                  index={index}
                  count={days.length}
                  top={top}
                  series={series}
                  isShown={index === shown}
                />
              ))}
            </svg>
            <span class="top">{print(top)}</span>
            <span class="middle">{print(top / 2)}</span>
          </div>
          <div class="bar-days" aria-hidden="true">
            <span>{days[0]}</span>
            <span>{days[Math.floor((days.length - 1) / 2)]}</span>
            <span>{days.at(-1)}</span>
          </div>
          <DayTable title={title} days={days} series={series} sums={sums} print={print} />
        </>
      )}
    </figure>
  );
}

interface DayBarProps {
  readonly index: number;
  readonly count: number;
  readonly top: number;
  readonly series: readonly BarSeries[];
  readonly isShown: boolean;
}

function DayBar({ count, index, isShown, series, top }: DayBarProps): VNode {
  const width = WIDTH / count;
  let below = 0;
  return (
    <g class={isShown ? 'day shown' : 'day'}>
      {isShown && <rect class="column" x={index * width} width={width} y="0" height={HEIGHT} />}
      {series.map(({ color, name, values }) => {
        const height = ((values[index] ?? 0) / top) * HEIGHT;
        below += height;
        if (height === 0) return null;
        const x = index * width + (width * (1 - BAR)) / 2;
        return <rect key={name} class={colorOf(color)} x={x} width={width * BAR} y={HEIGHT - below} height={height} />;
      })}
    </g>
  );
}

type DayTableProps = Pick<StackedBarsProps, 'days' | 'print' | 'series' | 'title'> & {
  /** One for each day. */
  readonly sums: readonly number[];
};

/** The figures of the bars, behind a line that opens them. */
function DayTable({ days, print, series, sums, title }: DayTableProps): VNode {
  return (
    <details>
      <summary>As a table</summary>
      <div class="scroll-box" tabIndex={0} role="region" aria-label={`${title} as a table`}>
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Day</th>
              {series.map(({ name }) => (
                <th scope="col" class="numeric" key={name}>
                  {name}
                </th>
              ))}
              <th scope="col" class="numeric">
                Sum
              </th>
            </tr>
          </thead>
          <tbody>
            {days.map((day, index) => (
              <tr key={day}>
                <th scope="row">{day}</th>
                {series.map(({ name, values }) => (
                  <td class="numeric" key={name} data-label={name}>
                    {print(values[index] ?? 0)}
                  </td>
                ))}
                <td class="numeric" data-label="Sum">
                  {print(sums[index] ?? 0)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
