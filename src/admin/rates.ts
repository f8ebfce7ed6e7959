// Rates between two overview documents, and the text of numbers and times, for the terminal and for the dashboard.

import type { Overview } from './overview.ts';

/** The time between two documents. */
export interface Rates {
  /** Attempts a second by base URL, of CRNs that are in both: one that comes back goes on counting where it was. */
  readonly crns: Readonly<Record<string, number>>;
  /** Share of the time in which a thread was busy, 0 to 1, in the order of the document. */
  readonly busy: readonly number[];
}

/** How much a count grew. One that went down belongs to a thread that was started anew and counts as it stands. */
export function growth(before: number | undefined, after: number): number {
  return before === undefined || before > after ? after : after - before;
}

/** The rates between two documents of one gateway. */
export function ratesBetween(before: Overview, after: Overview): Rates {
  const seconds = Math.max((after.dateMs - before.dateMs) / 1000, 0.001);
  const attempts = new Map(before.crns.map((crn) => [crn.url, crn.attempts]));
  const busyMs = new Map(before.threads.map((thread) => [thread.thread, thread.busyMs]));
  return {
    crns: Object.fromEntries(
      after.crns
        .filter(({ url }) => attempts.has(url))
        .map((crn) => [crn.url, growth(attempts.get(crn.url), crn.attempts) / seconds]),
    ),
    busy: after.threads.map(({ busyMs: now, thread }) => Math.min(growth(busyMs.get(thread), now) / seconds / 1000, 1)),
  };
}

/** A count or a rate: one digit behind the point below ten. */
export function numberText(value: number): string {
  return value < 10 ? value.toFixed(value % 1 === 0 ? 0 : 1) : Math.round(value).toLocaleString('en');
}

/** A time measured; a dash when there is none. */
export function timeText(ms: number | null): string {
  if (ms === null) return '–';
  return ms < 1000 ? `${numberText(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** How long something has lasted or will last, in its largest fitting unit. */
export function durationText(ms: number): string {
  const seconds = Math.max(Math.round(ms / 1000), 0);
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`;
}
