// Reads single values: what the user wrote, by the kind of the setting, into what the program uses. `reader.ts` calls
// it for every scalar. A problem says what the value must be and never repeats it, since it may hold a secret.

import { MAX_DURATION_MS, parseAddress, parseBytes, parseDuration, printBytes, printDuration } from './units.ts';
import type { Setting, SettingKind } from './row.ts';

/** What is wrong with a value, as the end of a sentence that begins with its path. */
export class Problem {
  readonly message: string;

  constructor(message: string) {
    this.message = message;
  }
}

export type ScalarKind = Exclude<SettingKind, 'list' | 'map' | 'open' | 'record'>;

const READERS: Readonly<Record<ScalarKind, (raw: unknown, setting: Setting) => unknown>> = {
  string: readString,
  boolean: readBoolean,
  integer: (raw, setting) => readNumber(raw, setting, Number.isSafeInteger, 'a whole number'),
  number: (raw, setting) => readNumber(raw, setting, Number.isFinite, 'a number'),
  duration: (raw, setting) =>
    bound(
      parseDuration(raw),
      { max: MAX_DURATION_MS, ...setting },
      'a duration, such as 250ms, 5s or 2m',
      printDuration,
    ),
  bytes: (raw, setting) => bound(parseBytes(raw), setting, 'a size, such as 64KiB, 10MB or 1GiB', printBytes),
  decimal: readDecimal,
  address: (raw, setting) =>
    parseAddress(raw, hostOf(setting)) ?? new Problem('must be HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080'),
  url: readUrl,
  enum: readWord,
};

/** Reads a scalar that is not null. Answers the value or a `Problem`. */
export function readScalar(raw: unknown, kind: ScalarKind, setting: Setting): unknown {
  return READERS[kind](raw, setting);
}

function readString(raw: unknown, { pattern, hint }: Setting): unknown {
  if (typeof raw === 'number' || typeof raw === 'boolean') return new Problem('must be a string; put it in quotes');
  if (typeof raw !== 'string') return new Problem('must be a string');
  if (pattern !== undefined && !pattern.test(raw)) return new Problem(`must be ${hint ?? 'well formed'}`);
  return raw.trim() === '' ? new Problem('must not be empty') : raw;
}

function readBoolean(raw: unknown): unknown {
  if (raw === true || raw === 'true') return true;
  if (raw === false || raw === 'false') return false;
  return new Problem('must be true or false');
}

function readNumber(raw: unknown, setting: Setting, accepts: (value: number) => boolean, noun: string): unknown {
  if (typeof raw === 'string' && setting.words?.includes(raw) === true) return raw;
  const expected = [...(setting.words ?? []), noun].join(' or ');
  const numeric = typeof raw === 'number' || (typeof raw === 'string' && /^-?\d+(?:\.\d+)?$/.test(raw));
  const value = numeric ? Number(raw) : Number.NaN;
  return bound(accepts(value) ? value : undefined, setting, expected, String);
}

function bound(
  value: number | undefined,
  { min, max }: Pick<Setting, 'min' | 'max'>,
  expected: string,
  print: (value: number) => string,
): unknown {
  if (value === undefined) return new Problem(`must be ${expected}`);
  if (min !== undefined && value < min) return new Problem(`must be at least ${print(min)}`);
  if (max !== undefined && value > max) return new Problem(`must be at most ${print(max)}`);
  return value;
}

function readDecimal(raw: unknown): unknown {
  const text = typeof raw === 'number' ? String(raw) : raw;
  if (typeof text === 'string' && /^\d+(?:\.\d+)?$/.test(text)) return text;
  return new Problem('must be a plain decimal number in quotes, such as "0.25"');
}

function hostOf(setting: Setting): string {
  return parseAddress(setting.fallback, '')?.host ?? '';
}

/** Base URLs lose their trailing slash, so that paths can be put behind them. */
function readUrl(raw: unknown, { pattern, hint }: Setting): unknown {
  const parsed = typeof raw === 'string' ? URL.parse(raw) : null;
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    return new Problem('must be a URL that begins with http:// or https://');
  }
  if (parsed.username !== '' || parsed.password !== '') return new Problem('must not carry a user name or password');
  if (parsed.hash !== '') return new Problem('must not carry a fragment (#)');
  if (pattern !== undefined && !pattern.test(parsed.href)) return new Problem(`must be ${hint ?? 'well formed'}`);
  return parsed.search === '' ? parsed.href.replace(/\/+$/, '') : parsed.href;
}

function readWord(raw: unknown, { words = [] }: Setting): unknown {
  return typeof raw === 'string' && words.includes(raw) ? raw : new Problem(`must be one of ${words.join(', ')}`);
}
