// Parses the dates of services, in a dozen notations, to ISO 8601. Nothing depends on the time zone of the machine: a time
// without a zone is UTC, and relative dates count from `nowMs`.

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

/** Zone names of RFC 822 section 5, and what European papers write, in hours from UTC. */
const ZONE_HOURS: Readonly<Record<string, number>> = {
  '': 0,
  z: 0,
  ut: 0,
  utc: 0,
  gmt: 0,
  est: -5,
  edt: -4,
  cst: -6,
  cdt: -5,
  mst: -7,
  mdt: -6,
  pst: -8,
  pdt: -7,
  bst: 1,
  cet: 1,
  cest: 2,
};

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** Units of relative dates below a month. */
const UNIT_MS: Readonly<Record<string, number>> = {
  second: 1000,
  sec: 1000,
  s: 1000,
  minute: MINUTE_MS,
  min: MINUTE_MS,
  m: MINUTE_MS,
  hour: 3_600_000,
  hr: 3_600_000,
  h: 3_600_000,
  day: DAY_MS,
  d: DAY_MS,
  week: 7 * DAY_MS,
  wk: 7 * DAY_MS,
  w: 7 * DAY_MS,
};

/** Units of relative dates in months. */
const UNIT_MONTHS: Readonly<Record<string, number>> = { month: 1, mo: 1, year: 12, yr: 12, y: 12 };

const WEEKDAY = '(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? +)?';
const MONTH = '([a-z]{3})[a-z]*\\.?';
const TIME =
  '(\\d{1,2}):(\\d{2})(?::(\\d{2})(?:[.,]\\d+)?)? *([ap]m)? *([a-z]{0,4}|(?:[a-z]{3})?[+-]\\d{2}(?::?\\d{2})?)';
const AT = `(?:(?:,? +(?:at +)?|t)${TIME})?$`;

const YEAR_FIRST = new RegExp(`^(\\d{4})[-/](\\d{1,2})(?:[-/](\\d{1,2})${AT})?$`, 'i');
const DAY_FIRST = new RegExp(`^${WEEKDAY}(\\d{1,2})(?:st|nd|rd|th)?[ -]+${MONTH},?[ -]+(\\d{4}|\\d{2})${AT}`, 'i');
const MONTH_FIRST = new RegExp(`^${WEEKDAY}${MONTH} +(\\d{1,2})(?:st|nd|rd|th)?,? +(\\d{4})${AT}`, 'i');
const MONTH_ONLY = new RegExp(`^${MONTH},? +(\\d{4})$`, 'i');
const RELATIVE = /^(?:about |over |almost )?(\d{1,5}|an?|one|last) *([a-z]+?)s?(?: ago)?$/;

/** Smallest numbers read as Unix time in seconds and in milliseconds: both are March 1973. */
const EARLIEST_S = 100_000_000;
const EARLIEST_MS = EARLIEST_S * 1000;

/** Longer texts are no dates. */
const MAX_LENGTH = 64;

/**
 * An ISO 8601 date or date-time of what a service calls a date; undefined when it is none.
 * Takes ISO, RFC 822, `Nov 21, 2026`, `2 hours ago`, `yesterday`, Unix time in seconds or milliseconds, `YYYYMMDD`,
 * a year, arrays `[y, m, d]` (also nested once) and `Date`. As precise as the source: `2026`, `2026-11`, `2026-11-21` or
 * `2026-11-21T10:00:00Z`.
 */
export function isoDate(value: unknown, nowMs: number): string | undefined {
  if (Array.isArray(value)) {
    return Array.isArray(value[0]) ? calendar(value[0]) : calendar(value);
  }
  if (value instanceof Date) return instant(value.getTime());
  if (typeof value === 'number') return numeric(value);
  if (typeof value !== 'string' || value.length > MAX_LENGTH) return undefined;
  const text = value.trim().replace(/\s+/g, ' ');
  if (/^\d+(?:\.\d+)?$/.test(text)) return numeric(Number(text));
  return written(text) ?? relative(text.toLowerCase(), nowMs);
}

function pad(number: number): string {
  return String(number).padStart(2, '0');
}

function instant(ms: number): string | undefined {
  const date = new Date(ms);
  const year = date.getUTCFullYear();
  return year >= 1000 && year <= 9999 ? `${date.toISOString().slice(0, 19)}Z` : undefined;
}

function day(ms: number): string | undefined {
  return instant(ms)?.slice(0, 10);
}

/** NaN for anything but a number or a string: `Number` throws for objects and symbols that have no primitive value. */
function partOf(part: unknown): number {
  return typeof part === 'number' || typeof part === 'string' ? Number(part) : NaN;
}

/** A date of the calendar from its parts, as precise as there are parts. */
function calendar(parts: readonly unknown[]): string | undefined {
  const [year, month, date] = parts.map(partOf);
  if (year === undefined || !Number.isInteger(year) || year < 1000 || year > 9999) return undefined;
  if (month === undefined || Number.isNaN(month)) return String(year);
  if (!Number.isInteger(month) || month < 1 || month > 12) return undefined;
  if (date === undefined || Number.isNaN(date)) return `${year}-${pad(month)}`;
  const exists = Number.isInteger(date) && new Date(Date.UTC(year, month - 1, date)).getUTCDate() === date;
  return exists ? `${year}-${pad(month)}-${pad(date)}` : undefined;
}

/** A year, `YYYYMMDD`, Unix seconds or milliseconds: their ranges do not overlap. */
function numeric(number: number): string | undefined {
  if (number <= 9999) return calendar([number]);
  const whole = Math.floor(number);
  if (whole >= 10_000_000 && whole <= 99_999_999) {
    const compact = calendar([Math.floor(whole / 10_000), Math.floor(whole / 100) % 100, whole % 100]);
    if (compact !== undefined) return compact;
  }
  if (number < EARLIEST_S) return undefined;
  return instant(number < EARLIEST_MS ? number * 1000 : number);
}

/** Minutes from UTC of a zone as written; undefined for names that are none. */
function zoneMinutes(zone: string): number | undefined {
  const [, sign, hours, minutes = '0'] = /([+-])(\d{2}):?(\d{2})?$/.exec(zone) ?? [];
  if (sign !== undefined) return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes));
  const named = ZONE_HOURS[zone.toLowerCase()];
  return named === undefined ? undefined : named * 60;
}

/** A date with the time of day in the groups of `TIME`, where there is one. */
function moment(date: string | undefined, time: readonly (string | undefined)[]): string | undefined {
  const [hour, minute, second = '0', half, zone = ''] = time;
  if (date === undefined || hour === undefined) return date;
  const hours = half === undefined ? Number(hour) : (Number(hour) % 12) + (half.toLowerCase() === 'pm' ? 12 : 0);
  if (hours > 23 || Number(minute) > 59 || Number(second) > 60) return undefined;
  const offset = zoneMinutes(zone);
  if (offset === undefined) return date;
  const [year = 0, month = 0, dayOfMonth = 0] = date.split('-').map(Number);
  return instant(Date.UTC(year, month - 1, dayOfMonth, hours, Number(minute) - offset, Number(second)));
}

function monthNumber(name: string | undefined): number {
  return MONTHS.indexOf((name ?? '').toLowerCase()) + 1;
}

function written(text: string): string | undefined {
  const iso = YEAR_FIRST.exec(text);
  if (iso !== null) return moment(calendar(iso.slice(1, 4)), iso.slice(4));
  const dayFirst = DAY_FIRST.exec(text);
  if (dayFirst !== null) {
    const [, date, month, year = ''] = dayFirst;
    // RFC 2822 section 4.3: two digits below 50 belong to this century.
    const full = year.length === 4 ? Number(year) : Number(year) + (Number(year) < 50 ? 2000 : 1900);
    return moment(calendar([full, monthNumber(month), date]), dayFirst.slice(4));
  }
  const monthFirst = MONTH_FIRST.exec(text);
  if (monthFirst !== null) {
    return moment(calendar([monthFirst[3], monthNumber(monthFirst[1]), monthFirst[2]]), monthFirst.slice(4));
  }
  const monthOnly = MONTH_ONLY.exec(text);
  return monthOnly === null ? undefined : calendar([monthOnly[2], monthNumber(monthOnly[1])]);
}

function relative(text: string, nowMs: number): string | undefined {
  if (text === 'now' || text === 'just now') return instant(nowMs);
  if (text === 'today') return day(nowMs);
  if (text === 'yesterday') return day(nowMs - DAY_MS);
  const [, count = '', unit = ''] = RELATIVE.exec(text) ?? [];
  const number = /\d/.test(count) ? Number(count) : 1;
  const unitMs = UNIT_MS[unit];
  if (unitMs !== undefined) {
    const ms = nowMs - number * unitMs;
    return unitMs < DAY_MS ? instant(ms) : day(ms);
  }
  const months = UNIT_MONTHS[unit];
  return months === undefined ? undefined : monthsAgo(number * months, nowMs);
}

/** The same day of an earlier month, or its last day where the month is shorter. */
function monthsAgo(months: number, nowMs: number): string | undefined {
  const now = new Date(nowMs);
  const first = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - months, 1);
  const start = new Date(first);
  const length = new Date(Date.UTC(start.getUTCFullYear(), start.getUTCMonth() + 1, 0)).getUTCDate();
  return day(first + (Math.min(now.getUTCDate(), length) - 1) * DAY_MS);
}
