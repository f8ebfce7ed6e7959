// Days in UTC, as `YYYY-MM-DD`: the unit of usage reports, budgets and audits.

export const DAY_MS = 86_400_000;

const DAY = /^\d{4}-\d\d-\d\d$/;

/** The day of a date in milliseconds since 1970. */
export function dayOf(epochMs: number): string {
  return new Date(epochMs).toISOString().slice(0, 10);
}

/** Milliseconds since 1970 at which a day begins; undefined for a text that is no day. */
export function startOfDay(day: string): number | undefined {
  const startMs = DAY.test(day) ? Date.parse(`${day}T00:00:00Z`) : Number.NaN;
  // Dates roll over: the 31st of June would be the 1st of July.
  return !Number.isNaN(startMs) && dayOf(startMs) === day ? startMs : undefined;
}
