// Texts of figures: counts, rates, times, bytes, shares, money and dates. A dash stands for what was not measured.

import { durationText, numberText } from '../rates.ts';

export { durationText } from '../rates.ts';

/** What stands where nothing was measured. */
export const NONE = '–';

type Figure = number | null | undefined;

function orNone(print: (value: number) => string): (value: Figure) => string {
  return (value) => (value === null || value === undefined || Number.isNaN(value) ? NONE : print(value));
}

/** A count with separators. */
export const countText = orNone((value) => Math.round(value).toLocaleString('en'));

/** A rate: two significant digits below ten. */
export const rateText = orNone((value) =>
  value > 0 && value < 1 ? value.toPrecision(2).replace(/\.?0+$/, '') : numberText(value),
);

/** A time in milliseconds or seconds. */
export const latencyText = orNone((ms) => {
  if (ms < 1000) return `${numberText(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s` : durationText(ms);
});

/** A share from 0 to 1 as per cent. */
export const shareText = orNone((share) => {
  const percent = share * 100;
  return `${percent > 0 && percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
});

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export const bytesText = orNone((bytes) => {
  const step = bytes < 1 ? 0 : Math.min(Math.floor(Math.log2(bytes) / 10), UNITS.length - 1);
  const value = bytes / 1024 ** step;
  return `${value < 10 && step > 0 ? value.toFixed(1) : Math.round(value)} ${UNITS[step]}`;
});

/** A number of at most four characters and a letter, for axes and narrow cells. */
export const compactText = orNone((value) => {
  const size = Math.abs(value);
  if (size >= 1e9) return `${trim(value / 1e9)}G`;
  if (size >= 1e6) return `${trim(value / 1e6)}M`;
  if (size >= 1e4) return `${trim(value / 1e3)}k`;
  return size >= 100 ? Math.round(value).toLocaleString('en') : trim(value);
});

function trim(value: number): string {
  return String(Number(value.toPrecision(3)));
}

/** US dollars: cents, and more digits where the amount is small. */
export const usdText = orNone((usd) => {
  if (usd === 0) return '$0';
  const size = Math.abs(usd);
  const digits = size >= 1 ? { minimumFractionDigits: 2, maximumFractionDigits: 2 } : { maximumSignificantDigits: 3 };
  return `${usd < 0 ? '-' : ''}$${size.toLocaleString('en', digits)}`;
});

/** Time of day in the time zone of the browser. */
export function clockText(dateMs: number): string {
  return new Date(dateMs).toLocaleTimeString('en-GB');
}

/** Date and time in the time zone of the browser. */
export function dateText(dateMs: number): string {
  return new Date(dateMs).toLocaleString('sv-SE');
}

/** Milliseconds since 1970. */
export function nowMs(): number {
  return performance.timeOrigin + performance.now();
}

/** A time of day, with the date when it is another than that of `ofMs`; default: than today. */
export function momentText(dateMs: number, ofMs: number = nowMs()): string {
  const isSameDay = new Date(dateMs).toDateString() === new Date(ofMs).toDateString();
  return isSameDay ? clockText(dateMs) : dateText(dateMs);
}

/** How long ago a date was. */
export function agoText(dateMs: number, nowMs: number): string {
  return nowMs - dateMs < 2000 ? 'just now' : `${durationText(nowMs - dateMs)} ago`;
}

export function plural(count: number, word: string): string {
  return `${countText(count)} ${word}${count === 1 ? '' : 's'}`;
}
