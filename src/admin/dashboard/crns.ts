// What the standing of a CRN is in one word, and why.

import type { CrnOverview } from '../overview.ts';
import { agoText, durationText } from './format.ts';

export interface CrnStanding {
  /** `up`, `capable`, `probing`, `down`, `ejected`, `drained`: the worst of its models. */
  readonly word: string;
  /** Why it is not up; empty when it is. */
  readonly reason: string;
}

/** Worst first. */
const WORST = ['drained', 'down', 'probing', 'capable', 'up'];

const REASONS: Readonly<Record<string, string>> = {
  drained: 'by an operator',
  probing: 'ejection over, one trial request',
  capable: 'model not loaded',
};

export function standingOf(crn: CrnOverview, nowMs: number): CrnStanding {
  const words = [...new Set(crn.models.map(({ standing }) => standing))];
  const worst = WORST.find((word) => words.includes(word)) ?? words[0] ?? 'down';
  const left = (crn.ejectedUntilMs ?? 0) - nowMs;
  const mixed = words.length > 1 ? crn.models.map(({ model, standing }) => `${model} ${standing}`).join(', ') : '';
  if (left > 0 && worst !== 'drained') {
    const failure = crn.lastFailure === null ? '' : `, ${crn.lastFailure.reason}`;
    return { word: 'ejected', reason: `${durationText(left)} left${failure}` };
  }
  if (worst === 'up') return { word: 'up', reason: '' };
  const why = REASONS[worst] ?? probeText(crn, nowMs);
  return { word: worst, reason: [mixed, why].filter((part) => part !== '').join('; ') };
}

function probeText({ lastProbe }: CrnOverview, nowMs: number): string {
  if (lastProbe === null) return 'not probed yet';
  return lastProbe.ok ? '' : `${lastProbe.reason ?? 'no good answer'}, ${agoText(lastProbe.dateMs, nowMs)}`;
}

/** The names of the models that a CRN serves. */
export function modelsOf({ models }: CrnOverview): string {
  return models.map(({ model }) => model).join(', ');
}

const sum = (values: readonly (number | null)[]): number =>
  values.reduce<number>((total, value) => total + (value ?? 0), 0);

/** Bytes of prompt that its cache is expected to hold, of all models. */
export function capacityOf({ models }: CrnOverview): number {
  return sum(models.map(({ capacityBytes }) => capacityBytes));
}

/** Bytes of prompt that it prefills in a second, by the slowest of its models; null while unknown. */
export function prefillOf({ models }: CrnOverview): number | null {
  const known = models.flatMap(({ bytesPerS }) => (bytesPerS === null ? [] : [bytesPerS]));
  return known.length === 0 ? null : known.reduce((low, value) => Math.min(low, value));
}

/** Moving average of the time to first byte, of its slowest model; null before the first answer. */
export function firstByteOf({ models }: CrnOverview): number | null {
  const known = models.flatMap(({ firstByteMs }) => (firstByteMs > 0 ? [firstByteMs] : []));
  return known.length === 0 ? null : known.reduce((high, value) => Math.max(high, value));
}
