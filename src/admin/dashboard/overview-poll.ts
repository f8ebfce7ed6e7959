// The overview document in components: read once a second for the whole page, with the rates since the document before and
// the last attempts a second of every CRN, for the lines beside figures.

import type { Overview } from '../overview.ts';
import { type Rates, ratesBetween } from '../rates.ts';
import { type Polled, usePolled } from './api.ts';

const EVERY_MS = 1000;

/** Values of a small line. */
export const PLACES = 60;

export interface OverviewState extends Omit<Polled<Overview>, 'data' | 'previous'> {
  readonly overview: Overview | undefined;
  /** Null until there are two documents. */
  readonly rates: Rates | null;
}

/** By document, so that components which read the same one compute once. */
const ratesOf = new WeakMap<Overview, Rates>();
const attempts = new Map<string, number[]>();

/** The last attempts a second of a CRN, oldest first. */
export function attemptsOf(url: string): readonly number[] {
  return attempts.get(url) ?? [];
}

function compute(before: Overview, after: Overview): Rates {
  const known = ratesOf.get(after);
  if (known !== undefined) return known;
  const rates = ratesBetween(before, after);
  ratesOf.set(after, rates);
  for (const url of attempts.keys()) if (rates.crns[url] === undefined) attempts.delete(url);
  for (const { url } of after.crns) {
    const values = attempts.get(url) ?? [];
    values.push(rates.crns[url] ?? 0);
    if (values.length > PLACES) values.shift();
    attempts.set(url, values);
  }
  return rates;
}

export function useOverview(): OverviewState {
  const { data, error, previous, refresh } = usePolled<Overview>('/overview', EVERY_MS);
  const isNewer = data !== undefined && previous !== undefined && data.dateMs > previous.dateMs;
  const rates = isNewer && data.uptimeMs > previous.uptimeMs ? compute(previous, data) : null;
  return { overview: data, rates: rates ?? (data === undefined ? null : (ratesOf.get(data) ?? null)), error, refresh };
}
