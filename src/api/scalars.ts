// Schemas of single values, and how a value in a body is converted or refused: as leniently, and with the same messages, as
// pydantic's lax mode. Clients read these messages; they are part of the interface.

import { countryCodeOf, hostNameOf, languageCodeOf } from '../config/normal-forms.ts';
import { counted } from '../config/units.ts';

/** Members of every schema. */
export interface Annotations {
  readonly description?: string;
  readonly example?: unknown;
  /** For the field of an object: whether it must be present. Default: false. */
  readonly required?: boolean;
  /** For the field of an object: the value of an absent field; it is not checked itself. */
  readonly default?: unknown;
}

/** Lengths count code points. */
export interface StringSchema extends Annotations {
  readonly type: 'string';
  readonly minLength?: number;
  readonly maxLength?: number;
  /** A regular expression in JavaScript's syntax; not anchored. */
  readonly pattern?: string;
}

/** An absolute http or https URL of at most 2083 code points. The value is the text as sent, trimmed. */
export interface UrlSchema extends Annotations {
  readonly type: 'url';
}

/** Integers are taken from `5`, `5.0`, `"5"` and booleans; numbers also from `"1.5"`. Infinite numbers are refused. */
export interface NumberSchema extends Annotations {
  readonly type: 'integer' | 'number';
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
}

/** Taken from booleans, 0, 1 and the words true, t, yes, y, on, 1 and their opposites. */
export interface BooleanSchema extends Annotations {
  readonly type: 'boolean';
}

export interface EnumSchema extends Annotations {
  readonly type: 'enum';
  readonly values: readonly string[];
}

/**
 * A text of a known form. `date`: a day of the calendar as YYYY-MM-DD. `hostname`: a host name or address, which is normalised as in
 * URLs (lower case, ASCII). `language`: ISO 639-1. `country`: ISO 3166-1 alpha-2. Both in either case.
 */
export interface FormatSchema extends Annotations {
  readonly type: 'format';
  readonly format: 'date' | 'hostname' | 'language' | 'country';
}

export type ScalarSchema = StringSchema | UrlSchema | NumberSchema | BooleanSchema | EnumSchema | FormatSchema;

/** Called once with the mistake in a value. */
export type Refuse = (type: string, msg: string) => void;

type Mistake = Parameters<Refuse>;

/** Returns the converted value; the result is undefined after a call of `refuse`. */
export function checkScalar(schema: ScalarSchema, value: unknown, refuse: Refuse): unknown {
  switch (schema.type) {
    case 'string':
      return checkString(schema, value, refuse);
    case 'url':
      return checkUrl(value, refuse);
    case 'integer':
    case 'number':
      return checkNumber(schema, value, refuse);
    case 'boolean':
      return checkBoolean(value, refuse);
    case 'enum':
      if (schema.values.includes(value as string)) return value;
      return refuse('literal_error', `Input should be ${alternatives(schema.values)}`);
    case 'format':
      return checkFormat(schema, value, refuse);
  }
}

interface Format {
  /** The value in its normal form; undefined when it is none. */
  readonly read: (text: string) => string | undefined;
  readonly says: string;
}

const FORMATS: Readonly<Record<FormatSchema['format'], Format>> = {
  date: { read: readDate, says: 'a date as YYYY-MM-DD' },
  hostname: { read: hostNameOf, says: 'a host name, such as example.com' },
  language: { read: languageCodeOf, says: 'a language of ISO 639-1, such as en' },
  country: { read: countryCodeOf, says: 'a country of ISO 3166-1, such as DE' },
};

function checkFormat({ format }: FormatSchema, value: unknown, refuse: Refuse): unknown {
  if (typeof value !== 'string') return refuse(...notAString);
  const { read, says } = FORMATS[format];
  return read(value.trim()) ?? refuse('value_error', `Input should be ${says}`);
}

function readDate(text: string): string | undefined {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return undefined;
  const date = new Date(`${text}T00:00:00Z`);
  // A day that a month does not have would be one of the next month.
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text) ? text : undefined;
}

function checkString(schema: StringSchema, value: unknown, refuse: Refuse): unknown {
  const mistake = typeof value === 'string' ? stringMistake(schema, value) : notAString;
  return mistake === undefined ? value : refuse(...mistake);
}

const notAString: Mistake = ['string_type', 'Input should be a valid string'];
const loneSurrogate: Mistake = [
  'string_unicode',
  'Input should be a valid string, unable to parse raw data as a unicode string',
];

function stringMistake({ minLength = 0, maxLength = Infinity, pattern }: StringSchema, text: string): Mistake | void {
  if (!text.isWellFormed()) return loneSurrogate;
  const length = minLength > 0 || maxLength < Infinity ? codePoints(text) : 0;
  if (length < minLength) {
    return ['string_too_short', `String should have at least ${counted(minLength, 'character')}`];
  }
  if (length > maxLength) return ['string_too_long', `String should have at most ${counted(maxLength, 'character')}`];
  if (pattern !== undefined && !new RegExp(pattern, 'u').test(text)) {
    return ['string_pattern_mismatch', `String should match pattern '${pattern}'`];
  }
}

/** In code points; pydantic's limit. */
export const MAX_URL_LENGTH = 2083;

function checkUrl(value: unknown, refuse: Refuse): unknown {
  if (typeof value !== 'string') return refuse('url_type', 'URL input should be a string or URL');
  if (!value.isWellFormed()) return refuse(...loneSurrogate);
  if (codePoints(value) > MAX_URL_LENGTH) {
    return refuse('url_too_long', `URL should have at most ${MAX_URL_LENGTH} characters`);
  }
  try {
    // Not URL.canParse: on Node 22 its compiled form refuses every host with a letter of Latin-1, such as `é.com`.
    const { protocol } = new URL(value);
    if (protocol === 'http:' || protocol === 'https:') return value.trim();
    refuse('url_scheme', "URL scheme should be 'http' or 'https'");
  } catch {
    refuse('url_parsing', `Input should be a valid URL, ${urlMistake(value)}`);
  }
}

/** Why the URL parser refused a text; the parser does not report it. */
function urlMistake(text: string): string {
  if (text === '') return 'input is empty';
  const parts = /^\s*[a-z][a-z\d+.-]*:[/\\]*([^/\\?#]*)/i.exec(text);
  if (parts === null) return 'relative URL without a base';
  const authority = (parts[1] as string).trim().replace(/^.*@/, '');
  const [, host = '', port = ''] = /^(\[[^\]]*\]?|[^:]*)(?::(.*))?$/.exec(authority) ?? [];
  if (host === '') return 'empty host';
  if (!/^\d*$/.test(port) || Number(port) > 65_535) return 'invalid port number';
  if (host.startsWith('[')) return 'invalid IPv6 address';
  if (/(^|\.)(\d+|0x[\da-f]*)\.?$/i.test(host)) return 'invalid IPv4 address';
  return 'invalid international domain name';
}

const INTEGER_TEXT = /^[+-]?\d+(_\d+)*$|^[+-]?\d+\.0+$/;
const NUMBER_TEXT = /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i;
const INFINITE_TEXT = /^[+-]?(inf|infinity|nan)$/i;

function checkNumber(schema: NumberSchema, value: unknown, refuse: Refuse): unknown {
  const number = schema.type === 'integer' ? toInteger(value) : toNumber(value);
  const mistake = typeof number === 'number' ? boundMistake(schema, number) : number;
  return mistake === undefined ? number : refuse(...mistake);
}

function toInteger(value: unknown): number | Mistake {
  const says = 'Input should be a valid integer';
  if (typeof value === 'boolean') return Number(value);
  if (typeof value === 'string') {
    const text = value.trim();
    if (!INTEGER_TEXT.test(text)) return ['int_parsing', `${says}, unable to parse string as an integer`];
    return finite(Number(text.replaceAll('_', '')));
  }
  if (typeof value !== 'number') return ['int_type', says];
  if (Number.isFinite(value) && !Number.isInteger(value)) {
    return ['int_from_float', `${says}, got a number with a fractional part`];
  }
  return finite(value);
}

function toNumber(value: unknown): number | Mistake {
  const says = 'Input should be a valid number';
  if (typeof value === 'boolean') return Number(value);
  if (typeof value === 'number') return finite(value);
  if (typeof value !== 'string') return ['float_type', says];
  const text = value.trim();
  if (INFINITE_TEXT.test(text)) return finite(Infinity);
  const digits = text.replace(/(?<=\d)_(?=\d)/g, '');
  if (!NUMBER_TEXT.test(digits)) return ['float_parsing', `${says}, unable to parse string as a number`];
  return finite(Number(digits));
}

/** Refuses infinity and NaN, and turns negative zero into zero. */
function finite(number: number): number | Mistake {
  return Number.isFinite(number) ? number + 0 : ['finite_number', 'Input should be a finite number'];
}

function boundMistake(schema: NumberSchema, number: number): Mistake | void {
  const { minimum = -Infinity, maximum = Infinity, exclusiveMinimum = -Infinity, exclusiveMaximum = Infinity } = schema;
  if (number > maximum) return ['less_than_equal', `Input should be less than or equal to ${maximum}`];
  if (number >= exclusiveMaximum) return ['less_than', `Input should be less than ${exclusiveMaximum}`];
  if (number < minimum) return ['greater_than_equal', `Input should be greater than or equal to ${minimum}`];
  if (number <= exclusiveMinimum) return ['greater_than', `Input should be greater than ${exclusiveMinimum}`];
}

const BOOLEAN_WORDS: ReadonlyMap<unknown, boolean> = new Map<unknown, boolean>([
  ...[true, 1, '1', 'true', 't', 'yes', 'y', 'on'].map((word) => [word, true] as const),
  ...[false, 0, '0', 'false', 'f', 'no', 'n', 'off'].map((word) => [word, false] as const),
]);

function checkBoolean(value: unknown, refuse: Refuse): unknown {
  const known = BOOLEAN_WORDS.get(typeof value === 'string' ? value.toLowerCase() : value);
  if (known !== undefined) return known;
  const says = 'Input should be a valid boolean';
  if (typeof value !== 'string' && !Number.isInteger(value)) return refuse('bool_type', says);
  refuse('bool_parsing', `${says}, unable to interpret input`);
}

/** `'a', 'b' or 'c'`. */
function alternatives(values: readonly string[]): string {
  const quoted = values.map((value) => `'${value}'`);
  const last = quoted.pop() ?? '';
  return quoted.length === 0 ? last : `${quoted.join(', ')} or ${last}`;
}

function codePoints(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}
