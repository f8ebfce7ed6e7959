// Parses and checks admin requests: the fields of a command line, a query or a JSON body have the same names and rules, so that
// the command line and the admin listener accept and refuse the same. Throws HR_REQUEST_INVALID with all mistakes at once;
// messages never repeat a value.

import { parseDuration } from '../config/units.ts';
import { HeadraceError, type ValidationEntry, invalidRequest } from '../errors.ts';
import { type LogPlace, type LogQuery, readPlace } from '../telemetry/request-log.ts';
import {
  type AdminActQuery,
  BUDGET_PERIODS,
  type BudgetPeriod,
  DAY_MS,
  type HistoryQuery,
  type KeyEdit,
  type KeyLimits,
  type NewBudget,
  type PageQuery,
  type PaymentQuery,
  type PaymentState,
  type Pico,
  type RequestRecordQuery,
  startOfDay,
  type UsageDimension,
  type UsageQuery,
  type WebhookDeliveryQuery,
  parseUsd,
  printUsd,
} from '../billing/index.ts';
import { isPosition, MAX_AMOUNT } from '../billing/main-thread.ts';
import { parseJson } from '../config/json-text.ts';

/** Fields as they came: texts, or the values of a JSON body. */
export type Fields = Readonly<Record<string, unknown>>;

/** The fields of a query. Throws HR_REQUEST_INVALID for one that is given twice. */
export function queryFields(query: URLSearchParams): Fields {
  const fields = new Map<string, string>();
  for (const [name, value] of query) {
    if (fields.has(name)) throw invalidRequest(['query', name], 'is given twice');
    fields.set(name, value);
  }
  return Object.fromEntries(fields);
}

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
  /** Null: the credit does not expire. */
  readonly expiresMs: number | null;
}

/** Above or below zero. */
export type AdjustmentRequest = Omit<GrantRequest, 'expiresMs'>;

export interface RefundRequest {
  readonly id: string | undefined;
  readonly memo: string;
  /** Undefined: all of the charge or request. */
  readonly amount: Pico | undefined;
  /** At most one of these: the movement of a charge, or the record of a request. */
  readonly charge: string | undefined;
  readonly request: string | undefined;
}

/** Undefined: stays as it is. Null: none. */
export interface AccountChange {
  readonly creditLimit: Pico | undefined;
  readonly organisation: string | null | undefined;
  readonly lowBalance: Pico | null | undefined;
}

/** Default validity of a rotated key: a day to distribute the new one. */
const GRACE_MS = DAY_MS;
const MAX_GRACE_MS = 366 * DAY_MS;

/** No key is meant to live longer; keeps dates far inside of what a date can be. */
const MAX_LIFE_MS = 100 * 366 * DAY_MS;

/** The counts of a minute lie in 32 bits, with what is reserved. */
const MAX_PER_MINUTE = 1_000_000_000;
const MAX_RUNNING = 1_000_000;

const MAX_TEXT = 200;
/** Rows of one page of a list. */
export const MOST_ROWS = 1000;

/** Names that end up in URLs, tables and logs. */
const NAME = /^[^\s\p{C}]{1,128}$/u;
/** Text for people on one line. */
const LINE = /^[^\p{C}\p{Zl}\p{Zp}]*$/u;
const DAY = /^\d{4}-\d\d-\d\d$/;
const DAY_LENGTH = '2030-01-31'.length;
const DATE = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d))?$/;

/** By which usage may be summed. */
export const USAGE_DIMENSIONS: readonly UsageDimension[] = ['account', 'key', 'model', 'day'];

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

  /** As `read` says; null removes what there is, and so does the text `word`. Undefined when absent or wrong. */
  removable<T>(name: string, word: string, read: (name: string) => T | undefined): T | null | undefined {
    const value = Object.hasOwn(this.#fields, name) ? this.#fields[name] : undefined;
    return value === null || value === word ? null : read(name);
  }

  required<T>(name: string, must: string, read: (text: string) => T | undefined): T | undefined {
    if (this.#value(name) === undefined) return this.refuse(name, `is required: ${must}`, 'missing');
    return this.text(name, must, read);
  }

  /** Whether one of the fields was given, right or wrong. */
  hasAny(...names: readonly string[]): boolean {
    return names.some((name) => this.#value(name) !== undefined);
  }

  line(name: string): string {
    const isLine = (text: string): boolean => text.length <= MAX_TEXT && text.isWellFormed() && LINE.test(text);
    const must = `one line of at most ${MAX_TEXT} characters`;
    return this.text(name, must, (text) => (isLine(text) ? text : undefined)) ?? '';
  }

  /** True, as a value of JSON or as a text. */
  flag(name: string): boolean {
    const value = this.#value(name);
    if (value === undefined || value === false || value === 'false') return false;
    return value === true || value === 'true' || this.refuse(name, 'must be true or false') === true;
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
/** Of webhooks in the configuration, which are chosen freely. */
const ENDPOINT_WORDS = 'the name of an endpoint';

function nameOf(text: string): string | undefined {
  return text.isWellFormed() && NAME.test(text) ? text : undefined;
}

const ACCOUNT_WORDS = `${NAME_WORDS}, other than . and ..`;

/** Clients resolve `.` and `..` away in paths (RFC 3986, section 5.2.4): such an account could not be named there. */
function newAccountOf(text: string): string | undefined {
  return text === '.' || text === '..' ? undefined : nameOf(text);
}

const MOST_USD = printUsd(MAX_AMOUNT);

const AMOUNT_WORDS = `USD above 0, at most ${MOST_USD}, as a decimal with at most 12 digits behind the point, such as 25.00`;

function amountOf(text: string): Pico | undefined {
  const amount = parseUsd(text);
  return amount !== undefined && amount > 0n && amount <= MAX_AMOUNT ? amount : undefined;
}

const SIGNED_WORDS = `USD above or below 0 by at most ${MOST_USD}, as a decimal with at most 12 digits behind the point, such as -5.00`;

function signedAmountOf(text: string): Pico | undefined {
  const amount = parseUsd(text);
  const size = amount === undefined || amount >= 0n ? amount : -amount;
  return size !== undefined && size > 0n && size <= MAX_AMOUNT ? amount : undefined;
}

const LIMIT_WORDS = `USD from 0 to ${MOST_USD} as a decimal, such as 100.00`;

function limitOf(text: string): Pico | undefined {
  const amount = parseUsd(text);
  return amount !== undefined && amount >= 0n && amount <= MAX_AMOUNT ? amount : undefined;
}

const EXPIRY_WORDS = 'a time from now, such as 30d, or a date in the future, such as 2030-01-31';

/** A duration needs its unit here: `30` may be meant as days. */
function durationOf(text: string): number | undefined {
  return /[a-z]$/i.test(text) ? parseDuration(text) : undefined;
}

function expiryOf(text: string, nowMs: number): number | undefined {
  const dateMs = dateOf(text);
  const lifeMs = dateMs === undefined ? durationOf(text) : dateMs - nowMs;
  return lifeMs !== undefined && lifeMs > 0 && lifeMs <= MAX_LIFE_MS ? nowMs + lifeMs : undefined;
}

/** How a text that is one of these words is described and read. */
function oneOf<Word extends string>(words: readonly Word[]): [must: string, read: (text: string) => Word | undefined] {
  return [`one of ${words.join(', ')}`, (text) => words.find((word) => word === text)];
}

function dayFrom(text: string): string | undefined {
  return startOfDay(text) === undefined ? undefined : text;
}

/** The members that are not undefined. */
function given<Members extends object>(
  members: Members,
): { [Name in keyof Members]?: Exclude<Members[Name], undefined> } {
  const there = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(there) as { [Name in keyof Members]?: Exclude<Members[Name], undefined> };
}

/** Fields: id, label. */
export function readAccountRequest(fields: Fields): AccountRequest {
  const reader = new FieldReader(fields, 'body', ['id', 'label']);
  const id = reader.required('id', ACCOUNT_WORDS, newAccountOf) ?? '';
  return reader.end({ id, label: reader.line('label') });
}

const KEY_FIELDS = ['label', 'expires', 'running', 'rpm', 'tpm', 'monthly'];

/** Fields: account, label, expires, running, rpm, tpm, monthly. */
export function readKeyRequest(fields: Fields, nowMs: number): KeyRequest {
  const reader = new FieldReader(fields, 'body', ['account', ...KEY_FIELDS]);
  const account = reader.required('account', ACCOUNT_WORDS, newAccountOf) ?? '';
  const label = reader.line('label');
  const expiresMs = reader.text('expires', EXPIRY_WORDS, (text) => expiryOf(text, nowMs)) ?? null;
  const limits = given({
    runningRequests: reader.integer('running', 1, MAX_RUNNING),
    requestsPerMinute: reader.integer('rpm', 1, MAX_PER_MINUTE),
    tokensPerMinute: reader.integer('tpm', 1, MAX_PER_MINUTE),
    monthlySpend: reader.text('monthly', AMOUNT_WORDS, amountOf)?.toString(),
  });
  return reader.end({ account, label, expiresMs, limits });
}

/** Fields: label, expires, running, rpm, tpm, monthly. Null or `none` removes a limit, null or `never` an expiry. */
export function readKeyEdit(fields: Fields, nowMs: number): KeyEdit {
  const reader = new FieldReader(fields, 'body', KEY_FIELDS);
  if (Object.keys(fields).length === 0)
    reader.refuse('label', `is required, or one of ${KEY_FIELDS.slice(1).join(', ')}`);
  const label = Object.hasOwn(fields, 'label') ? reader.line('label') : undefined;
  const expiresMs = reader.removable('expires', 'never', (name) =>
    reader.text(name, EXPIRY_WORDS, (text) => expiryOf(text, nowMs)),
  );
  const count = (most: number) => (name: string) => reader.integer(name, 1, most);
  const limits = {
    runningRequests: reader.removable('running', 'none', count(MAX_RUNNING)),
    requestsPerMinute: reader.removable('rpm', 'none', count(MAX_PER_MINUTE)),
    tokensPerMinute: reader.removable('tpm', 'none', count(MAX_PER_MINUTE)),
    monthlySpend: reader.removable('monthly', 'none', (name) => reader.text(name, AMOUNT_WORDS, amountOf)?.toString()),
  };
  return reader.end({ ...given({ label, expiresMs }), limits: given(limits) });
}

const ALERT_WORDS = 'USD as a decimal, or a part of the limit such as 80%';

/** A part of an amount, in whole per cent. */
function partOf(text: string, amount: Pico): Pico | undefined {
  const [, percent] = /^(\d{1,3})%$/.exec(text) ?? [];
  if (percent === undefined) return amountOf(text);
  return (amount * BigInt(percent)) / 100n;
}

/** Fields: account, key, model, period, limit, alert. */
export function readBudgetRequest(fields: Fields): Omit<NewBudget, 'id'> {
  const reader = new FieldReader(fields, 'body', ['account', 'key', 'model', 'period', 'limit', 'alert']);
  const [account = null, key = null, model = null] = ['account', 'key', 'model'].map((name) =>
    reader.text(name, NAME_WORDS, nameOf),
  );
  if (!reader.hasAny('account', 'key', 'model')) reader.refuse('account', 'or key or model is required', 'missing');
  const period = reader.required('period', ...oneOf(BUDGET_PERIODS));
  const limit = reader.required('limit', AMOUNT_WORDS, amountOf) ?? 0n;
  const soft = reader.text('alert', ALERT_WORDS, (text) => partOf(text, limit)) ?? null;
  if (soft !== null && (soft > limit || soft === 0n)) reader.refuse('alert', 'must be above 0 and at most the limit');
  return reader.end({ account, key, model, period: period ?? ('month' satisfies BudgetPeriod), limit, soft });
}

/** Fields: grace, expires. */
export function readRotationRequest(fields: Fields, nowMs: number): RotationRequest {
  const reader = new FieldReader(fields, 'body', ['grace', 'expires']);
  const graceMs =
    reader.text('grace', 'a time of at most 366 days with its unit, such as 24h or 0s', (text) => {
      const durationMs = durationOf(text);
      return durationMs !== undefined && durationMs <= MAX_GRACE_MS ? durationMs : undefined;
    }) ?? GRACE_MS;
  return reader.end({ graceMs, expiresMs: reader.text('expires', EXPIRY_WORDS, (text) => expiryOf(text, nowMs)) });
}

/** Fields: amount, id, memo, expires. */
export function readGrantRequest(fields: Fields, nowMs: number): GrantRequest {
  const reader = new FieldReader(fields, 'body', ['amount', 'id', 'memo', 'expires']);
  const amount = reader.required('amount', AMOUNT_WORDS, amountOf) ?? 0n;
  const expiresMs = reader.text('expires', EXPIRY_WORDS, (text) => expiryOf(text, nowMs)) ?? null;
  return reader.end({ amount, id: reader.text('id', NAME_WORDS, nameOf), memo: reader.line('memo'), expiresMs });
}

/** Fields: amount, id, memo. */
export function readAdjustmentRequest(fields: Fields): AdjustmentRequest {
  const reader = new FieldReader(fields, 'body', ['amount', 'id', 'memo']);
  const amount = reader.required('amount', SIGNED_WORDS, signedAmountOf) ?? 0n;
  return reader.end({ amount, id: reader.text('id', NAME_WORDS, nameOf), memo: reader.line('memo') });
}

/** Fields: amount, charge, request, id, memo. */
export function readRefundRequest(fields: Fields): RefundRequest {
  const reader = new FieldReader(fields, 'body', ['amount', 'charge', 'request', 'id', 'memo']);
  const amount = reader.text('amount', AMOUNT_WORDS, amountOf);
  const charge = reader.text('charge', NAME_WORDS, nameOf);
  const request = reader.text('request', NAME_WORDS, nameOf);
  if (charge !== undefined && request !== undefined) reader.refuse('request', 'must not stand beside charge');
  if (request !== undefined && fields['id'] !== undefined)
    reader.refuse('id', 'must not stand beside request, whose id is that of the refund');
  if (!reader.hasAny('amount', 'charge', 'request')) {
    reader.refuse('amount', 'is required, or charge, or request', 'missing');
  }
  return reader.end({ amount, charge, request, id: reader.text('id', NAME_WORDS, nameOf), memo: reader.line('memo') });
}

/** Fields: credit_limit, organisation, low_balance. Null or `none` takes one away; no credit limit is one of 0. */
export function readAccountChange(fields: Fields): AccountChange {
  const reader = new FieldReader(fields, 'body', ['credit_limit', 'organisation', 'low_balance']);
  const limit = (name: string) => reader.text(name, `${LIMIT_WORDS}, or none`, limitOf);
  const creditLimit = reader.removable('credit_limit', 'none', limit);
  const organisation = reader.removable('organisation', 'none', (name) =>
    reader.text(name, 'the id of an account, or none', nameOf),
  );
  const lowBalance = reader.removable('low_balance', 'none', limit);
  if (Object.keys(fields).length === 0) reader.refuse('credit_limit', 'is required, or another field', 'missing');
  return reader.end({ creditLimit: creditLimit === null ? 0n : creditLimit, organisation, lowBalance });
}

/** Fields: limit, cursor, and `before`, which is the same. */
export function readHistoryQuery(account: string, fields: Fields): HistoryQuery {
  const reader = new FieldReader(fields, 'query', ['limit', 'cursor', 'before']);
  const limit = reader.integer('limit', 1, MOST_ROWS);
  const [before, cursor] = ['before', 'cursor'].map((name) =>
    reader.text(name, 'the `seq` of a movement', (text) => (isPosition(text) ? text : undefined)),
  );
  return reader.end({ account, ...given({ limit, before: before ?? cursor }) });
}

const CURSOR_WORDS = 'the value of next from the page before';

/** Any text that both stores can hold: a cursor, or a name of the configuration. */
function storableText(text: string): string | undefined {
  return text.length > 0 && text.length <= 2048 && text.isWellFormed() && !text.includes('\0') ? text : undefined;
}

/** The place of a cursor that is an id of this kind, such as `key_`: another text would begin the page at some place. */
function idAfter(prefix: string): (cursor: string) => string | undefined {
  return (cursor) => (cursor.startsWith(prefix) ? storableText(cursor) : undefined);
}

/** Reads `limit` and `cursor`, which all lists have; `place` reads the place that a cursor stands for. */
function readPage<Place>(
  reader: FieldReader,
  place: (cursor: string) => Place | undefined,
): { readonly limit: number; readonly after?: Place } {
  const limit = reader.integer('limit', 1, MOST_ROWS) ?? MOST_ROWS;
  const after = reader.text('cursor', CURSOR_WORDS, place);
  return after === undefined ? { limit } : { limit, after };
}

/** Fields: organisation, limit, cursor. */
export function readAccountQuery(fields: Fields): PageQuery & { readonly organisation?: string } {
  const reader = new FieldReader(fields, 'query', ['organisation', 'limit', 'cursor']);
  const organisation = reader.text('organisation', NAME_WORDS, nameOf);
  return reader.end({ ...readPage(reader, storableText), ...given({ organisation }) });
}

/** A date, or the beginning of a day in UTC. */
function dateOf(text: string): number | undefined {
  // `Date.parse` takes the 31st of every month.
  if (!DATE.test(text) || startOfDay(text.slice(0, DAY_LENGTH)) === undefined) return undefined;
  const dateMs = Date.parse(text);
  return Number.isNaN(dateMs) ? undefined : dateMs;
}

/** `to` is not included when it is a time, and is when it is a day. */
function readDates(reader: FieldReader): { readonly fromMs?: number; readonly toMs?: number } {
  const words = 'a day, such as 2030-01-31, or a time, such as 2030-01-31T12:00:00Z';
  const fromMs = reader.text('from', words, dateOf);
  const toMs = reader.text('to', words, (text) => {
    const dateMs = dateOf(text);
    return dateMs !== undefined && DAY.test(text) ? dateMs + DAY_MS : dateMs;
  });
  if (fromMs !== undefined && toMs !== undefined && fromMs > toMs) reader.refuse('to', 'must not be before from');
  return given({ fromMs, toMs });
}

/** The given ones of these fields, as names. */
function readNames<Name extends string>(reader: FieldReader, ...names: readonly Name[]): { [key in Name]?: string } {
  const values = Object.fromEntries(names.map((name) => [name, reader.text(name, NAME_WORDS, nameOf)]));
  return given(values) as { [key in Name]?: string };
}

/** Fields: account, key, model, from, to, limit, cursor. */
export function readRequestQuery(fields: Fields): RequestRecordQuery {
  const reader = new FieldReader(fields, 'query', ['account', 'key', 'model', 'from', 'to', 'limit', 'cursor']);
  const { after, limit } = readPage(reader, idAfter('req_'));
  const filters = { ...readNames(reader, 'account', 'key', 'model'), ...readDates(reader) };
  return reader.end({ ...filters, ...given({ limit, before: after }) });
}

const LOG_FIELDS = [
  'limit',
  'before',
  'after',
  'model',
  'account',
  'crn',
  'status',
  'code',
  'endpoint',
  'tool',
  'q',
  'slowerThan',
];
const LOG_ROWS = 100;
const MOST_LOG_ROWS = 500;
const MAX_FILTER = 300;
const STATUS_WORDS = 'a status such as 404, a class such as 5xx, or error: what failed, broke off or was aborted';

/** Fields: limit, before, after, model, account, crn, status, code, endpoint, q, slowerThan. */
export function readLogQuery(fields: Fields): LogQuery {
  const reader = new FieldReader(fields, 'query', LOG_FIELDS);
  const text = (name: string): string => {
    const must = `1 to ${MAX_FILTER} characters`;
    return reader.text(name, must, (value) => (value !== '' && value.length <= MAX_FILTER ? value : undefined)) ?? '';
  };
  const place = (name: string): LogPlace | null =>
    reader.text(name, 'the cursor of a row', (value) => readPlace(value) ?? undefined) ?? null;
  const [before, after] = [place('before'), place('after')];
  if (before !== null && after !== null) reader.refuse('after', 'must not stand beside before');
  const status = reader.text('status', STATUS_WORDS, statusesOf);
  const slowerThanMs = reader.text('slowerThan', 'a duration with its unit, such as 2s or 500ms', durationOf);
  return reader.end({
    limit: reader.integer('limit', 1, MOST_LOG_ROWS) ?? LOG_ROWS,
    ...{ before, after, upToUs: Infinity },
    ...{ model: text('model'), account: text('account'), crn: text('crn'), endpoint: text('endpoint') },
    ...{ tool: text('tool'), code: text('code'), text: text('q'), slowerThanMs: slowerThanMs ?? 0 },
    ...(status ?? ANY_STATUS),
  });
}

type Statuses = Pick<LogQuery, 'minStatus' | 'maxStatus' | 'failed'>;

const ANY_STATUS: Statuses = { minStatus: 0, maxStatus: 999, failed: false };

function statusesOf(text: string): Statuses | undefined {
  if (text === 'error') return { ...ANY_STATUS, failed: true };
  const [, digit, rest] = /^([1-5])(xx|\d\d)$/i.exec(text) ?? [];
  if (digit === undefined || rest === undefined) return undefined;
  if (rest.toLowerCase() !== 'xx') return { minStatus: Number(text), maxStatus: Number(text), failed: false };
  return { minStatus: Number(digit) * 100, maxStatus: Number(digit) * 100 + 99, failed: false };
}

/** Fields: actor, action, subject, from, to, limit, cursor. */
export function readActQuery(fields: Fields): AdminActQuery {
  const reader = new FieldReader(fields, 'query', ['actor', 'action', 'subject', 'from', 'to', 'limit', 'cursor']);
  const { after: before, limit } = readPage(reader, (text) => (/^\d{1,18}$/.test(text) ? BigInt(text) : undefined));
  const filters = { ...readNames(reader, 'actor', 'action', 'subject'), ...readDates(reader) };
  return reader.end({ ...filters, ...given({ limit, before }) });
}

const DELIVERY_STATES = ['pending', 'delivered', 'failed'] as const;

/** Fields: endpoint, state, limit, cursor. */
export function readDeliveryQuery(fields: Fields): WebhookDeliveryQuery {
  const reader = new FieldReader(fields, 'query', ['endpoint', 'state', 'limit', 'cursor']);
  const { after, limit } = readPage(reader, storableText);
  const state = reader.text('state', ...oneOf(DELIVERY_STATES));
  const endpoint = reader.text('endpoint', ENDPOINT_WORDS, storableText);
  return reader.end(given({ endpoint, state, limit, before: after }));
}

const PAYMENT_STATES: readonly PaymentState[] = ['reserved', 'submitted', 'settled', 'failed'];
const ADDRESS = /^0x[0-9a-f]{40}$/i;

/** The cursor behind a payment. */
export function paymentCursor(changedAt: string, id: string): string {
  return `${Date.parse(changedAt)} ${id}`;
}

/** Fields: state, payer, limit, cursor. Without a state: those whose outcome is not known. */
export function readPaymentQuery(fields: Fields): PaymentQuery {
  const reader = new FieldReader(fields, 'query', ['state', 'payer', 'limit', 'cursor']);
  const state = reader.text('state', ...oneOf(PAYMENT_STATES));
  const payer = reader.text('payer', 'an address, 0x and 40 hexadecimal digits', (text) =>
    ADDRESS.test(text) ? text.toLowerCase() : undefined,
  );
  const { after: before, limit } = readPage(reader, (text) => {
    const [, changedMs, id] = /^(\d{1,15}) (\S{1,300})$/.exec(text) ?? [];
    return id === undefined ? undefined : { changedMs: Number(changedMs), id };
  });
  return reader.end({ state: state ?? 'submitted', limit, ...given({ payer, before }) });
}

export interface PaymentDecision {
  /** The transaction that has moved the money; null: none has. */
  readonly transaction: string | null;
  /** Also while the money can still move. */
  readonly force: boolean;
}

/** Fields: transaction, or not_settled and force. */
export function readPaymentDecision(fields: Fields): PaymentDecision {
  const reader = new FieldReader(fields, 'body', ['transaction', 'not_settled', 'force']);
  const transaction = reader.text('transaction', 'the hash of a transaction, 0x and 64 hexadecimal digits', (text) =>
    /^0x[0-9a-f]{64}$/i.test(text) ? text.toLowerCase() : undefined,
  );
  const [notSettled, force] = (['not_settled', 'force'] as const).map((name) => reader.flag(name));
  const isNamed = reader.hasAny('transaction');
  if (isNamed && notSettled === true) reader.refuse('not_settled', 'excludes transaction: one of them is true');
  else if (!isNamed && notSettled !== true) {
    reader.refuse('transaction', 'is required, or else not_settled', 'missing');
  }
  return reader.end({ transaction: transaction ?? null, force: force === true });
}

/** Fields: endpoint. */
export function readRedelivery(fields: Fields): string {
  const reader = new FieldReader(fields, 'body', ['endpoint']);
  return reader.end(reader.required('endpoint', ENDPOINT_WORDS, storableText) ?? '');
}

/** `account`: whose rows are meant; all of them when absent. `prefix`: of their ids. Fields: account, limit, cursor. */
export function readOwnedQuery(
  fields: Fields,
  prefix: 'key_' | 'budget_',
): { readonly account: string | undefined; readonly page: PageQuery } {
  const reader = new FieldReader(fields, 'query', ['account', 'limit', 'cursor']);
  const account = reader.text('account', NAME_WORDS, nameOf);
  return reader.end({ account, page: readPage(reader, idAfter(prefix)) });
}

/** Fields: full. */
export function readAuditQuery(fields: Fields): { readonly full: boolean } {
  const reader = new FieldReader(fields, 'query', ['full']);
  const full = reader.text('full', 'true or false', (text) => (/^(true|false)$/.test(text) ? text : undefined));
  return reader.end({ full: full === 'true' });
}

/** Fields: by, from, to, account, key, model, limit, cursor. */
export function readUsageQuery(fields: Fields): UsageQuery {
  const reader = new FieldReader(fields, 'query', ['by', 'from', 'to', 'account', 'key', 'model', 'limit', 'cursor']);
  const by = reader.text(
    'by',
    `each at most once of ${USAGE_DIMENSIONS.join(', ')}, separated by commas`,
    dimensionsOf,
  );
  const [fromDay, toDay] = ['from', 'to'].map((name) => reader.text(name, 'a day, such as 2030-01-31', dayFrom));
  if (fromDay !== undefined && toDay !== undefined && fromDay > toDay) reader.refuse('to', 'must not be before from');
  const filters = readNames(reader, 'account', 'key', 'model');
  const page = readPage(reader, (text) => usageCursorOf(text, by ?? USAGE_DIMENSIONS));
  return reader.end({ by: by ?? USAGE_DIMENSIONS, ...page, ...given({ fromDay, toDay }), ...filters });
}

/** Cursor behind a row of usage: its dimensions, as base64url of JSON. */
export function usageCursor(dimensions: readonly string[]): string {
  return Buffer.from(JSON.stringify(dimensions)).toString('base64url');
}

function usageCursorOf(text: string, by: readonly UsageDimension[]): string[] | undefined {
  try {
    const value: unknown = parseJson(Buffer.from(text, 'base64url').toString());
    const isRow = Array.isArray(value) && value.every((each) => typeof each === 'string' && !each.includes('\0'));
    return isRow && value.length > 0 && value.length === by.length ? (value as string[]) : undefined;
  } catch {
    return undefined;
  }
}

/** An empty text asks for one row of totals. */
function dimensionsOf(text: string): UsageDimension[] | undefined {
  const names = text === '' ? [] : text.split(',');
  const known = names.every((name): name is UsageDimension => (USAGE_DIMENSIONS as readonly string[]).includes(name));
  return known && new Set(names).size === names.length ? (names as UsageDimension[]) : undefined;
}
