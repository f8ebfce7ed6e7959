// Parses and checks admin requests: the fields of a command line, a query or a JSON body have the same names and rules, so that
// the command line and the admin listener accept and refuse the same. Throws HR_REQUEST_INVALID with all mistakes at once;
// messages never repeat a value.

import { parseDuration } from '../config/units.ts';
import { HeadraceError, type ValidationEntry } from '../errors.ts';
import {
  type HistoryQuery,
  type KeyLimits,
  MAX_AMOUNT,
  type Pico,
  type UsageDimension,
  type UsageQuery,
  parseUsd,
} from '../billing/index.ts';

/** Fields as they came: texts, or the values of a JSON body. */
export type Fields = Readonly<Record<string, unknown>>;

/** Where fields came from: the first step of `loc` in error entries. */
export type Source = 'body' | 'query' | 'path';

export interface AccountRequest {
  readonly id: string;
  readonly label: string;
}

export interface KeyRequest {
  readonly account: string;
  readonly label: string;
  readonly expiresMs: number | null;
  readonly limits: KeyLimits;
}

export interface RotationRequest {
  /** Undefined: as the old key. */
  readonly expiresMs: number | undefined;
  readonly graceMs: number;
}

export interface GrantRequest {
  /** Undefined: a new one. */
  readonly id: string | undefined;
  readonly amount: Pico;
  readonly memo: string;
}

const DAY_MS = 86_400_000;

/** Default validity of a rotated key: a day to distribute the new one. */
const GRACE_MS = DAY_MS;
const MAX_GRACE_MS = 366 * DAY_MS;

/** No key is meant to live longer; keeps dates far inside of what a date can be. */
const MAX_LIFE_MS = 100 * 366 * DAY_MS;

/** The counts lie in 32 bits. */
const MAX_PER_MINUTE = 2 ** 31 - 1;

const MAX_TEXT = 200;
const MOST_MOVEMENTS = 1000;

/** Names that end up in URLs, tables and logs. */
const NAME = /^[^\s\p{C}]{1,128}$/u;
/** Text for people on one line. */
const LINE = /^[^\p{C}\p{Zl}\p{Zp}]*$/u;
const DAY = /^\d{4}-\d\d-\d\d$/;
const DATE = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d))?$/;

const DIMENSIONS: readonly UsageDimension[] = ['account', 'key', 'model', 'day'];

/** Reads fields one by one and gathers what is wrong. */
class FieldReader {
  readonly #fields: Fields;
  readonly #source: Source;
  readonly #mistakes: ValidationEntry[] = [];

  constructor(fields: Fields, source: Source, known: readonly string[]) {
    this.#fields = fields;
    this.#source = source;
    for (const name of Object.keys(fields)) {
      if (!known.includes(name)) this.refuse(name, 'is not a field here', 'extra_forbidden');
    }
  }

  refuse(name: string, msg: string, type = 'value_error'): undefined {
    this.#mistakes.push({ loc: [this.#source, name], msg, type });
    return undefined;
  }

  /** A text parsed by `read`; `must` describes the valid form. Undefined when absent or wrong. */
  text<T>(name: string, must: string, read: (text: string) => T | undefined): T | undefined {
    const value = this.#value(name);
    if (value === undefined) return undefined;
    if (typeof value !== 'string') return this.refuse(name, `must be a string: ${must}`, 'string_type');
    return read(value) ?? this.refuse(name, `must be ${must}`);
  }

  required<T>(name: string, must: string, read: (text: string) => T | undefined): T | undefined {
    if (this.#value(name) === undefined) return this.refuse(name, `is required: ${must}`, 'missing');
    return this.text(name, must, read);
  }

  line(name: string): string {
    const isLine = (text: string): boolean => text.length <= MAX_TEXT && text.isWellFormed() && LINE.test(text);
    const must = `one line of at most ${MAX_TEXT} characters`;
    return this.text(name, must, (text) => (isLine(text) ? text : undefined)) ?? '';
  }

  /** From a number or its digits. */
  integer(name: string, least: number, most: number): number | undefined {
    const value = this.#value(name);
    if (value === undefined) return undefined;
    const number = typeof value === 'string' && /^\d{1,10}$/.test(value) ? Number(value) : value;
    const isRight = typeof number === 'number' && Number.isInteger(number) && number >= least && number <= most;
    return isRight ? number : this.refuse(name, `must be a whole number from ${least} to ${most}`);
  }

  end<T>(request: T): T {
    if (this.#mistakes.length === 0) return request;
    throw new HeadraceError('HR_REQUEST_INVALID', { validation: this.#mistakes });
  }

  /** JSON has null for what is not there. */
  #value(name: string): unknown {
    return Object.hasOwn(this.#fields, name) ? (this.#fields[name] ?? undefined) : undefined;
  }
}

const NAME_WORDS = '1 to 128 characters without blanks';

function nameOf(text: string): string | undefined {
  return text.isWellFormed() && NAME.test(text) ? text : undefined;
}

const AMOUNT_WORDS = 'USD above 0 as a decimal with at most 12 digits behind the point, such as 25.00';

function amountOf(text: string): Pico | undefined {
  const amount = parseUsd(text);
  return amount !== undefined && amount > 0n && amount <= MAX_AMOUNT ? amount : undefined;
}

const EXPIRY_WORDS = 'a time from now, such as 30d, or a date in the future, such as 2030-01-31';

/** A duration needs its unit here: `30` may be meant as days. */
function expiryOf(text: string, nowMs: number): number | undefined {
  const lifeMs = DATE.test(text) ? Date.parse(text) - nowMs : /[a-z]$/i.test(text) ? parseDuration(text) : undefined;
  return lifeMs !== undefined && lifeMs > 0 && lifeMs <= MAX_LIFE_MS ? nowMs + lifeMs : undefined;
}

/** Dates roll over: the 31st of June parses as the 1st of July and prints as another day. */
function dayOf(text: string): string | undefined {
  if (!DAY.test(text)) return undefined;
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text) ? text : undefined;
}

/** Fields: id, label. */
export function readAccountRequest(fields: Fields): AccountRequest {
  const reader = new FieldReader(fields, 'body', ['id', 'label']);
  const id = reader.required('id', NAME_WORDS, nameOf) ?? '';
  return reader.end({ id, label: reader.line('label') });
}

/** Fields: account, label, expires, rpm, tpm, monthly. */
export function readKeyRequest(fields: Fields, nowMs: number): KeyRequest {
  const reader = new FieldReader(fields, 'body', ['account', 'label', 'expires', 'rpm', 'tpm', 'monthly']);
  const account = reader.required('account', NAME_WORDS, nameOf) ?? '';
  const label = reader.line('label');
  const expiresMs = reader.text('expires', EXPIRY_WORDS, (text) => expiryOf(text, nowMs)) ?? null;
  const requestsPerMinute = reader.integer('rpm', 1, MAX_PER_MINUTE);
  const tokensPerMinute = reader.integer('tpm', 1, MAX_PER_MINUTE);
  const monthlySpend = reader.text('monthly', AMOUNT_WORDS, amountOf)?.toString();
  const limits = {
    ...(requestsPerMinute !== undefined && { requestsPerMinute }),
    ...(tokensPerMinute !== undefined && { tokensPerMinute }),
    ...(monthlySpend !== undefined && { monthlySpend }),
  };
  return reader.end({ account, label, expiresMs, limits });
}

/** Fields: grace, expires. */
export function readRotationRequest(fields: Fields, nowMs: number): RotationRequest {
  const reader = new FieldReader(fields, 'body', ['grace', 'expires']);
  const graceMs =
    reader.text('grace', 'a time of at most 366 days with its unit, such as 24h or 0s', (text) => {
      const durationMs = /[a-z]$/i.test(text) ? parseDuration(text) : undefined;
      return durationMs !== undefined && durationMs <= MAX_GRACE_MS ? durationMs : undefined;
    }) ?? GRACE_MS;
  return reader.end({ graceMs, expiresMs: reader.text('expires', EXPIRY_WORDS, (text) => expiryOf(text, nowMs)) });
}

/** Fields: amount, id, memo. */
export function readGrantRequest(fields: Fields): GrantRequest {
  const reader = new FieldReader(fields, 'body', ['amount', 'id', 'memo']);
  const amount = reader.required('amount', AMOUNT_WORDS, amountOf) ?? 0n;
  return reader.end({ amount, id: reader.text('id', NAME_WORDS, nameOf), memo: reader.line('memo') });
}

/** Fields: limit, before. */
export function readHistoryQuery(account: string, fields: Fields): HistoryQuery {
  const reader = new FieldReader(fields, 'query', ['limit', 'before']);
  const limit = reader.integer('limit', 1, MOST_MOVEMENTS);
  const before = reader.text('before', 'the number of a movement', (text) =>
    /^\d{1,18}$/.test(text) ? BigInt(text) : undefined,
  );
  return reader.end({ account, ...(limit !== undefined && { limit }), ...(before !== undefined && { before }) });
}

/** The account whose keys are meant; all of them when absent. Fields: account. */
export function readKeyQuery(fields: Fields): string | undefined {
  const reader = new FieldReader(fields, 'query', ['account']);
  return reader.end(reader.text('account', NAME_WORDS, nameOf));
}

/** Fields: by, from, to, account, key, model. */
export function readUsageQuery(fields: Fields): UsageQuery {
  const reader = new FieldReader(fields, 'query', ['by', 'from', 'to', 'account', 'key', 'model']);
  const by = reader.text('by', `each at most once of ${DIMENSIONS.join(', ')}, separated by commas`, dimensionsOf);
  const [fromDay, toDay] = ['from', 'to'].map((name) => reader.text(name, 'a day, such as 2030-01-31', dayOf));
  if (fromDay !== undefined && toDay !== undefined && fromDay > toDay) reader.refuse('to', 'must not be before from');
  const filters = ['account', 'key', 'model'].flatMap((name) => {
    const value = reader.text(name, NAME_WORDS, nameOf);
    return value === undefined ? [] : [[name, value] as const];
  });
  return reader.end({
    by: by ?? DIMENSIONS,
    ...(fromDay !== undefined && { fromDay }),
    ...(toDay !== undefined && { toDay }),
    ...Object.fromEntries(filters),
  });
}

/** An empty text asks for one row of totals. */
function dimensionsOf(text: string): UsageDimension[] | undefined {
  const names = text === '' ? [] : text.split(',');
  const known = names.every((name): name is UsageDimension => (DIMENSIONS as readonly string[]).includes(name));
  return known && new Set(names).size === names.length ? (names as UsageDimension[]) : undefined;
}
