// Rows of usage as series of a chart: the largest ones by day, and the others together.

import type { UsageView } from '../../views.ts';
import type { BarSeries } from '../components/stacked-bars.tsx';
import { numberOf, picoOf } from './ledger.ts';

/** What can be summed. */
export type Measure = 'USD' | 'input tokens' | 'output tokens' | 'requests';
export const MEASURES: readonly Measure[] = ['USD', 'input tokens', 'output tokens', 'requests'];

export type Dimension = 'model' | 'account' | 'key';

/** Series with a colour of their own. */
const MOST_SERIES = 6;

export function valueOf(row: UsageView, measure: Measure): number {
  switch (measure) {
    case 'USD':
      return numberOf(picoOf(row.amount_usd));
    case 'input tokens':
      return row.input_tokens;
    case 'output tokens':
      return row.output_tokens;
    case 'requests':
      return row.requests;
  }
}

export function nameOf(row: UsageView, by: Dimension): string {
  return row[by] || `no ${by}`;
}

/** The largest series first. */
export function stackedSeries(
  rows: readonly UsageView[],
  days: readonly string[],
  by: Dimension,
  measure: Measure,
): BarSeries[] {
  const places = new Map(days.map((day, index) => [day, index]));
  const found = new Map<string, { sum: number; values: number[] }>();
  for (const row of rows) {
    const place = places.get(row.day ?? '');
    if (place === undefined) continue;
    const name = nameOf(row, by);
    const series = found.get(name) ?? { sum: 0, values: days.map(() => 0) };
    found.set(name, series);
    const value = valueOf(row, measure);
    series.sum += value;
    series.values[place] = (series.values[place] ?? 0) + value;
  }
  const sorted = [...found].sort(([, one], [, other]) => other.sum - one.sum);
  const shown = sorted.slice(0, MOST_SERIES).map(([name, { values }], index): BarSeries => {
    return { name, values, color: (index + 1) as 1 | 2 | 3 | 4 | 5 | 6 };
  });
  const rest = sorted.slice(MOST_SERIES);
  if (rest.length === 0) return shown;
  const values = days.map((_, day) => rest.reduce((sum, [, series]) => sum + (series.values[day] ?? 0), 0));
  return [...shown, { name: rest.length === 1 ? '1 other' : `${rest.length} others`, values, color: 'quiet' }];
}
