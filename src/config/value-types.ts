// The types of setting values (duration, size, address and so on) as zod schemas, and the functions that make settings
// of them: a type with a default, a description and traits. The message of an issue completes a sentence that begins
// with the path of the setting. It never repeats the value, which may be a secret; only a short number without its unit is repeated.

import { isIP } from 'node:net';
import * as z from 'zod/mini';
import {
  durationProblem,
  httpUrl,
  MAX_DURATION_MS,
  parseAddress,
  parseBytes,
  parseDuration,
  printBytes,
  printDuration,
} from './units.ts';
import type { Address } from './units.ts';

/** How a value is written. `map` has names chosen by the user, `record` has fixed names. */
export type Kind =
  | 'string'
  | 'boolean'
  | 'integer'
  | 'number'
  | 'duration'
  | 'bytes'
  | 'decimal'
  | 'address'
  | 'block'
  | 'url'
  | 'enum'
  | 'list'
  | 'map'
  | 'open'
  | 'record';

/** The type of a value: `Input` is what a file holds, `Output` what the program uses. */
export interface ValueType<Output, Input = Output, Suffix extends string = ''> {
  readonly kind: Kind;
  readonly schema: z.ZodMiniType<Output, Input>;
  /** What the unit of the value appends to the name in `Settings`: `Ms` for durations. */
  readonly suffix: Suffix;
  /** True when `null` turns the setting off. */
  readonly nullable?: boolean;
  /** The words of an enum, or the words that a number may be replaced with. */
  readonly words?: readonly string[];
  /** Smallest and largest value of a number, in the base unit. */
  readonly range?: Range;
  /** The type of the entries of a list or map. */
  readonly items?: AnyType;
  /** The settings of a record. */
  readonly fields?: Fields;
  /** The type of a text that may stand in place of a record or a list. */
  readonly text?: AnyType;
  /** The records of which a value is one, by what their field `kind` says; `fields` is empty then. */
  readonly variants?: Readonly<Record<string, Section<Fields>>>;
}

/** `default`: has a default. `required`: must be written. `optional`: may be absent, in `Settings` too. */
export type Presence = 'default' | 'required' | 'optional';

export interface Traits {
  /** False when a change takes effect only at the next start. Default true. */
  readonly reload?: boolean;
  /** True when the value must never be printed. Default false. */
  readonly secret?: boolean;
}

/** A value type in its place: with presence, default, description and traits. */
export interface Setting<
  Output = unknown,
  Input = unknown,
  Suffix extends string = string,
  P extends Presence = Presence,
>
  extends ValueType<Output, Input, Suffix>, Traits {
  readonly presence: P;
  /** The default as a user writes it, with its unit; undefined when there is none. */
  readonly fallback: unknown;
  /** One sentence; the title of a section. */
  readonly sentence: string;
}

export type AnyType = ValueType<unknown, unknown, string>;
export type Fields = Readonly<Record<string, Setting>>;

/** The JSON Schema keywords of a schema where they are not those that zod derives. */
export const JSON_SCHEMA: z.core.$ZodRegistry<Readonly<Record<string, unknown>>> = z.registry();

/** Numbers and words may also come from the environment, as `${NAME}`. */
const VARIABLE = String.raw`\$\{`;

const NOT_A_MAPPING = 'must be a mapping of names to values';

// Value types

export interface Pattern {
  readonly pattern: RegExp;
  /** Completes "must be". */
  readonly hint: string;
}

export function string(form?: Pattern): ValueType<string> {
  const text = z.string({
    error: ({ input }) =>
      typeof input === 'number' || typeof input === 'boolean'
        ? 'must be a string; put it in quotes'
        : 'must be a string',
  });
  const filled = z.refine<string>((value) => value.trim() !== '', { error: 'must not be empty' });
  if (form === undefined) return { kind: 'string', schema: text.check(filled), suffix: '' };
  const { pattern, hint } = form;
  const schema = text.check(z.regex(pattern, { error: `must be ${hint}`, abort: true }), filled);
  JSON_SCHEMA.add(schema, { pattern: orVariable(pattern) });
  return { kind: 'string', schema, suffix: '' };
}

export function boolean(): ValueType<boolean> {
  const schema = preprocess<boolean>(
    (raw) => (raw === 'true' ? true : raw === 'false' ? false : raw),
    z.boolean({ error: 'must be true or false' }),
  );
  JSON_SCHEMA.add(schema, { type: ['boolean', 'string'], pattern: `^(true|false)$|${VARIABLE}` });
  return { kind: 'boolean', schema, suffix: '' };
}

/** Smallest and largest value, both inclusive, in milliseconds or bytes where the type has a unit. */
export interface Range {
  readonly min?: number;
  readonly max?: number;
}

/** A whole number from 0, or within `range`. */
export function integer(range?: Range): ValueType<number> {
  const schema = numeric(z.int({ error: 'must be a whole number' }), { min: 0, ...range });
  JSON_SCHEMA.add(schema, { type: ['integer', 'string'], pattern: String.raw`^-?\d+$|${VARIABLE}` });
  return { kind: 'integer', schema, suffix: '', range: { min: 0, ...range } };
}

/** A whole number, or a word in its place. */
export function integerOr<const Word extends string>(word: Word, range?: Range): ValueType<number | Word> {
  const schema = z.union([z.literal(word), integer(range).schema], { error: `must be ${word} or a whole number` });
  return { kind: 'integer', schema, suffix: '', words: [word], range: { min: 0, ...range } };
}

/** A number from 0, or within `range`. */
export function number(range?: Range): ValueType<number> {
  const schema = numeric(z.number({ error: 'must be a number' }), { min: 0, ...range });
  JSON_SCHEMA.add(schema, { type: ['number', 'string'], pattern: String.raw`^-?\d+(\.\d+)?$|${VARIABLE}` });
  return { kind: 'number', schema, suffix: '', range: { min: 0, ...range } };
}

/** A number of the base unit, or text with a unit, such as `100MiB`. */
export type Quantity = number | string;

/** Text with a unit, such as `5s`; only `0` needs none. */
export type Duration = string | 0;

/** Milliseconds, from 1 or within `range`, to the longest time that a timer holds. A number without a unit is refused. */
export function duration(range?: Range): ValueType<number, Duration, 'Ms'> {
  const bounds = { min: 1, max: MAX_DURATION_MS, ...range };
  const schema = quantity<Duration>(parseDuration, printDuration, durationProblem, bounds);
  const withUnit = String.raw`\d+(\.\d+)?\s*([mM]?[sS]|[mMhHdD])`;
  JSON_SCHEMA.add(
    schema,
    bounds.min > 0
      ? { type: 'string', pattern: String.raw`^\s*${withUnit}\s*$|${VARIABLE}` }
      : { type: ['integer', 'string'], maximum: 0, pattern: String.raw`^\s*(${withUnit}|0)\s*$|${VARIABLE}` },
  );
  return { kind: 'duration', schema, suffix: 'Ms', range: bounds };
}

/** Bytes, from 1 or within `range`. */
export function bytes(range?: Range): ValueType<number, Quantity> {
  const bounds = { min: 1, ...range };
  const problem = (): string => 'must be a size, such as 64KiB, 10MB or 1GiB';
  const schema = quantity<Quantity>(parseBytes, printBytes, problem, bounds);
  JSON_SCHEMA.add(schema, {
    type: ['integer', 'string'],
    minimum: bounds.min,
    maximum: range?.max ?? Number.MAX_SAFE_INTEGER,
    pattern: String.raw`^\s*\d+(\.\d+)?\s*([kKmMgG][iI]?)?[bB]?\s*$|${VARIABLE}`,
  });
  return { kind: 'bytes', schema, suffix: '', range: bounds };
}

/** Pico-USD are numbers up to 2^53 - 1: no larger amount can be charged at once. */
export const MOST_USD = 9000;

/** A decimal number up to `max`, kept as text, so that no digit of an amount of money is lost. */
export function decimal(max = 9_999_999): ValueType<string, string | number> {
  const form = /^\d+(?:\.\d+)?$/;
  const error = 'must be a plain decimal number in quotes, such as "0.25"';
  const schema = preprocess<string, string | number>(
    (raw) => (typeof raw === 'number' ? String(raw) : raw),
    z.string({ error }).check(
      z.regex(form, { error, abort: true }),
      z.refine<string>((text) => Number(text) <= max, { error: `must be at most ${max}` }),
    ),
  );
  JSON_SCHEMA.add(schema, { type: ['string', 'number'], pattern: orVariable(form) });
  return { kind: 'decimal', schema, suffix: '', range: { min: 0, max } };
}

/** `HOST:PORT`, or a port alone, which takes `defaultHost`. */
export function address(defaultHost: string): ValueType<Address, Quantity> {
  const schema = parsed<Address, Quantity>(
    (raw) => parseAddress(raw, defaultHost) ?? { problem: 'must be HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080' },
  );
  JSON_SCHEMA.add(schema, { type: ['string', 'integer'], pattern: String.raw`\d$|${VARIABLE}` });
  return { kind: 'address', schema, suffix: '' };
}

function isAddressBlock(text: string): boolean {
  const [address = '', bits = '0', ...more] = text.split('/');
  const version = address.includes('%') ? 0 : isIP(address);
  const isBlock = /^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128);
  return version !== 0 && isBlock && more.length === 0;
}

/** An IP address or a CIDR block. */
export function addressBlock(): ValueType<string> {
  const problem = 'must be an IP address or a CIDR block, such as "10.0.0.0/8" or "fd00::/8"';
  const schema = parsed<string, string>((raw) => (typeof raw === 'string' && isAddressBlock(raw) ? raw : { problem }));
  JSON_SCHEMA.add(schema, { type: 'string', pattern: String.raw`^[\da-fA-F:.]+(/\d{1,3})?$|${VARIABLE}` });
  return { kind: 'block', schema, suffix: '' };
}

/**
 * Without a port, a wildcard and empty labels; a dot at the end is allowed. A name whose last label is a number is an address of IPv4,
 * or invalid (URL Standard, "ends in a number checker"): `127.1` and `300.1.1.1` are no names.
 */
function isHostName(text: string): boolean {
  if (!/^(?:[^\s/:@,*?#\\[\].]+\.)*[^\s/:@,*?#\\[\].]+\.?$/.test(text)) return false;
  const hostname = URL.parse(`http://${text}/`)?.hostname ?? '';
  return hostname !== '' && isIP(hostname.replace(/\.$/, '')) === 0;
}

/** A host name, an IP address, of IPv6 with or without brackets, or a CIDR block. */
export function hostOrBlock(): ValueType<string> {
  const problem = 'must be a host name, an address or a CIDR block, such as "10.1.0.0/16"';
  const schema = parsed<string, string>((raw) => {
    if (typeof raw !== 'string') return { problem };
    const [, inBrackets] = /^\[(.*:.*)\]$/.exec(raw) ?? [];
    const isAddress =
      inBrackets === undefined ? isAddressBlock(raw) : !inBrackets.includes('/') && isAddressBlock(inBrackets);
    return isAddress || isHostName(raw) ? raw : { problem };
  });
  JSON_SCHEMA.add(schema, { type: 'string', pattern: String.raw`^[^\s/@*,]+(/\d{1,3})?$|${VARIABLE}` });
  return { kind: 'string', schema, suffix: '' };
}

/** A port, or the name of one as RFC 6335 §5.1 has them; always a text. */
export function portOrName(): ValueType<string, Quantity> {
  const form = /^(?:[1-9]\d{0,4}|(?=.*[a-z])[a-z0-9](?:[a-z0-9-]{0,13}[a-z0-9])?)$/;
  const schema = parsed<string, Quantity>((raw) => {
    const text = typeof raw === 'number' ? String(raw) : raw;
    const isGood = typeof text === 'string' && form.test(text) && !(Number(text) > 65_535);
    return isGood ? text : { problem: 'must be a port from 1 to 65535, or the name of one, such as "http"' };
  });
  JSON_SCHEMA.add(schema, {
    type: ['integer', 'string'],
    minimum: 1,
    maximum: 65_535,
    pattern: orVariable(form),
  });
  return { kind: 'string', schema, suffix: '' };
}

/** An HTTP URL. `base`: without a query and a trailing slash, so that a path can follow it. */
export function url({ base = false }: { readonly base?: boolean } = {}): ValueType<string> {
  const schema = parsed<string, string>((raw) => readUrl(raw, base));
  JSON_SCHEMA.add(schema, { type: 'string', pattern: String.raw`^[hH][tT][tT][pP][sS]?://|${VARIABLE}` });
  return { kind: 'url', schema, suffix: '' };
}

function readUrl(raw: unknown, base: boolean): string | Problem {
  const read = typeof raw === 'string' ? httpUrl(raw) : null;
  if (read === null) return { problem: 'must be a URL that begins with http:// or https://' };
  if (read.username !== '' || read.password !== '') return { problem: 'must not carry a user name or password' };
  if (read.hash !== '') return { problem: 'must not carry a fragment (#)' };
  if (base && read.href.includes('?')) return { problem: 'must be a base URL without a query (?)' };
  const isShortened = base || (read.pathname === '/' && read.search === '');
  return isShortened ? read.href.replace(/\/+$/, '') : read.href;
}

/** One of the words. */
export function choice<const Word extends string>(words: readonly Word[]): ValueType<Word> {
  const schema = z.enum(words, { error: oneOfWords(words) });
  const anyOf = [{ enum: words }, { type: 'string', pattern: VARIABLE }];
  JSON_SCHEMA.add(schema, { type: undefined, enum: undefined, anyOf });
  return { kind: 'enum', schema, suffix: '', words };
}

function oneOfWords(words: readonly string[]): string {
  return words.length === 1 ? `must be ${words[0]}` : `must be one of ${words.join(', ')}`;
}

export function list<Output, Input>(
  items: ValueType<Output, Input, string>,
): ValueType<readonly Output[], readonly Input[]> {
  return { kind: 'list', schema: z.array(items.schema, { error: 'must be a list' }), suffix: '', items };
}

/** A list of at least one entry, or a word in its place. */
export function listOr<const Word extends string, Output, Input>(
  word: Word,
  items: ValueType<Output, Input, string>,
): ValueType<readonly Output[] | Word, readonly Input[] | Word> {
  const entries = z.array(items.schema);
  const schema = reading<readonly Output[] | Word, readonly Input[] | Word>((raw, issues) => {
    // A flag and a variable hold lists without brackets.
    if (raw === word || (Array.isArray(raw) && raw.length === 1 && raw[0] === word)) return word;
    if (Array.isArray(raw) && raw.length > 0) return readAs(entries, raw, issues);
    return refused(issues, `must be ${word} or a list of one or more`, raw);
  });
  const list = { type: 'array', minItems: 1, items: jsonSchemaOf(items) };
  JSON_SCHEMA.add(schema, { anyOf: [{ const: word }, list, { type: 'string', pattern: VARIABLE }] });
  return { kind: 'list', schema, suffix: '', words: [word], items };
}

/** Entries under names of the user's choice. An entry that is null is an empty one. */
export function map<Output, Input>(
  items: ValueType<Output, Input, string>,
): ValueType<Readonly<Record<string, Output>>, Readonly<Record<string, Input>>> {
  const entry = preprocess<Output, Input>((raw) => raw ?? {}, items.schema);
  return { kind: 'map', schema: z.record(z.string(), entry, { error: NOT_A_MAPPING }), suffix: '', items };
}

/** Fields that the client writes itself are none (RFC 9110 §5.1, §5.6.2). */
const HEADER_NAME =
  /^(?!(?:connection|content-length|expect|host|keep-alive|transfer-encoding|upgrade)$)[!#$%&'*+\-.^_`|~\da-z]+$/i;

/** Headers of requests, by name, with values of this form. */
export function headers(form: Pattern): ValueType<Readonly<Record<string, string>>> {
  const { schema, ...type } = map(string(form));
  const named = z.refine<Readonly<Record<string, string>>>(
    (values) => Object.keys(values).every((name) => HEADER_NAME.test(name)),
    // The name may be a secret in the wrong place.
    { error: 'holds a name that no header may have here' },
  );
  return { ...type, schema: schema.check(named) };
}

/** A value that is passed on as it is, such as a plug-in. Symbols in it stand for text that could not be expanded. */
export function open(): ValueType<unknown> {
  const schema = z.unknown().check(({ value, issues }) => {
    for (const { path, input } of symbolsIn(value, [])) issues.push({ code: 'custom', message: '', path, input });
  });
  return { kind: 'open', schema, suffix: '' };
}

function symbolsIn(value: unknown, path: PropertyKey[]): { path: PropertyKey[]; input: symbol }[] {
  if (typeof value === 'symbol') return [{ path, input: value }];
  const entries = Array.isArray(value) ? [...value.entries()] : isPlain(value) ? Object.entries(value) : [];
  return entries.flatMap(([name, inner]) => symbolsIn(inner, [...path, name]));
}

/** The type with `null` added, which turns the setting off. */
export function nullable<Output, Input, Suffix extends string>(
  type: ValueType<Output, Input, Suffix>,
): ValueType<Output | null, Input | null, Suffix> {
  return { ...type, schema: z.nullable(type.schema), nullable: true };
}

// Settings

/** A setting with a default. */
export function setting<Output, Input, Suffix extends string>(
  type: ValueType<Output, Input, Suffix>,
  fallback: NoInfer<Input>,
  sentence: string,
  traits?: Traits,
): Setting<Output, Input, Suffix, 'default'> {
  const schema = z.prefault(type.schema, fallback as never);
  return settle({ ...type, ...traits, presence: 'default', fallback, sentence }, schema);
}

/** A setting that must be written. */
export function required<Output, Input, Suffix extends string>(
  type: ValueType<Output, Input, Suffix>,
  sentence: string,
  traits?: Traits,
): Setting<Output, Input, Suffix, 'required'> {
  return settle({ ...type, ...traits, presence: 'required', fallback: undefined, sentence }, type.schema);
}

/** A setting that may be absent. */
export function optional<Output, Input, Suffix extends string>(
  type: ValueType<Output, Input, Suffix>,
  sentence: string,
  traits?: Traits,
): Setting<Output, Input, Suffix, 'optional'> {
  return settle({ ...type, ...traits, presence: 'optional', fallback: undefined, sentence }, z.optional(type.schema));
}

export interface Section<F extends Fields> extends Setting<SectionOutput<F>, SectionInput<F>, '', 'default'> {
  readonly fields: F;
}

/** Settings under fixed names. All of them have their defaults when the section is absent or empty. */
export function section<const F extends Fields>(title: string, fields: F): Section<F> {
  const shape = Object.fromEntries(Object.entries(fields).map(([name, { schema }]) => [name, schema]));
  const renamed = z.pipe(
    z.strictObject(shape, { error: NOT_A_MAPPING }),
    z.transform((read) => rename(read, fields)),
  );
  const about = { kind: 'record', suffix: '', presence: 'default', fallback: undefined, sentence: title } as const;
  return settle({ ...about, fields }, z.prefault(renamed, {}));
}

/** A section, or a text in its place that is the value of its field `name`, where nothing else is to be said. */
export function orText<const F extends Fields, const Name extends keyof F & string>(
  name: Name,
  record: Section<F>,
): ValueType<SectionOutput<F>, SectionInput<F> | Input<F[Name]>> {
  const text = record.fields[name] as Setting;
  const ofText = z.pipe(
    text.schema,
    z.transform((value) => ({ [name]: value })),
  );
  const schema = reading<SectionOutput<F>, SectionInput<F> | Input<F[Name]>>((raw, issues) =>
    readAs(typeof raw === 'object' && raw !== null ? record.schema : ofText, raw, issues),
  );
  JSON_SCHEMA.add(schema, { anyOf: [text, record].map(jsonSchemaOf) });
  return { kind: 'record', schema, suffix: '', fields: record.fields, text };
}

/** A list, or a text in its place that stays a text. */
export function listOrText<Output, Input, Text>(
  items: ValueType<Output, Input, string>,
  text: ValueType<Text>,
): ValueType<readonly Output[] | Text, readonly Input[] | Text> {
  const entries = list(items);
  const schema = reading<readonly Output[] | Text, readonly Input[] | Text>((raw, issues) =>
    readAs((Array.isArray(raw) ? entries : text).schema, raw, issues),
  );
  JSON_SCHEMA.add(schema, { anyOf: [jsonSchemaOf(text), { type: 'array', items: jsonSchemaOf(items) }] });
  return { kind: 'list', schema, suffix: '', items, text };
}

/** One of several sections, told apart by their field `kind`, which each must have as a choice of one word: its name in `variants`. */
export function oneOf<const V extends Readonly<Record<string, Section<Fields>>>>(
  variants: V,
): ValueType<Output<V[keyof V]>, Input<V[keyof V]>> {
  const words = Object.keys(variants);
  const schema = reading<Output<V[keyof V]>, Input<V[keyof V]>>((raw, issues) => {
    if (!isPlain(raw)) return refused(issues, `must be a mapping with the name kind: ${words.join(', ')}`, raw);
    const { kind } = raw;
    const variant = typeof kind === 'string' && Object.hasOwn(variants, kind) ? variants[kind] : undefined;
    if (variant !== undefined) return readAs(variant.schema, raw, issues);
    const message = kind === undefined ? `is required: ${words.join(', ')}` : oneOfWords(words);
    return refused(issues, message, kind ?? raw, ['kind']);
  });
  JSON_SCHEMA.add(schema, { anyOf: Object.values(variants).map(jsonSchemaOf) });
  return { kind: 'record', schema, suffix: '', fields: {}, variants };
}

function jsonSchemaOf({ schema }: AnyType): object {
  const {
    $schema: _,
    default: _default,
    ...keywords
  } = z.toJSONSchema(schema, {
    io: 'input',
    target: 'draft-7',
    metadata: JSON_SCHEMA,
  });
  return keywords;
}

function rename(read: Readonly<Record<string, unknown>>, fields: Fields): Record<string, unknown> {
  const renamed: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(fields)) {
    if (read[name] !== undefined) renamed[resolvedName(name, field)] = read[name];
  }
  return renamed;
}

/** The name of a setting in `Settings`: camel case, and durations carry their unit. */
export function resolvedName(name: string, { suffix }: Setting): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()) + suffix;
}

type Camel<Name> = Name extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<Camel<Tail>>}` : Name;
type ResolvedName<Name, S extends Setting> =
  Camel<Name> extends infer Text extends string ? `${Text}${S['suffix']}` : never;
type Output<S extends Setting> = z.output<S['schema']>;
type Input<S extends Setting> = z.input<S['schema']>;
type Flat<T> = { [Name in keyof T]: T[Name] };

/** What a section resolves to. */
export type SectionOutput<F extends Fields> = Flat<
  {
    readonly [N in keyof F as F[N]['presence'] extends 'optional' ? never : ResolvedName<N, F[N]>]: Output<F[N]>;
  } & {
    readonly [N in keyof F as F[N]['presence'] extends 'optional' ? ResolvedName<N, F[N]> : never]?: Output<F[N]>;
  }
>;

/** What a file may hold for a section. A section, list or map whose entries are all commented out is null in YAML. */
export type SectionInput<F extends Fields> = Flat<
  {
    readonly [N in keyof F as F[N]['presence'] extends 'required' ? N : never]: Input<F[N]>;
  } & {
    readonly [N in keyof F as F[N]['presence'] extends 'required' ? never : N]?: Input<F[N]> | OrNull<Input<F[N]>>;
  }
>;

type OrNull<Value> = Value extends object ? null : never;

// Internals

interface Problem {
  readonly problem: string;
}

const EMPTIABLE: Partial<Record<Kind, string>> = { list: 'array', map: 'object', record: 'object' };

/** Binds the schema to the setting. Null is what YAML has where all entries of a section, list or map are commented out. */
function settle<S extends Setting>(about: Omit<Setting, 'schema'>, type: z.ZodMiniType): S {
  const empty = EMPTIABLE[about.kind];
  const schema = empty === undefined ? type : preprocess((raw) => raw ?? undefined, type);
  const isChoice = about.text !== undefined || about.words !== undefined;
  const keywords = empty === undefined || isChoice ? {} : { type: [empty, 'null'] };
  JSON_SCHEMA.add(schema, { ...JSON_SCHEMA.get(schema), description: about.sentence, ...keywords });
  return { ...about, schema } as unknown as S;
}

/** Converts what was written before the schema sees it. */
function preprocess<Output, Input = Output>(
  convert: (raw: unknown) => unknown,
  schema: z.core.$ZodType<Output>,
): z.ZodMiniType<Output, Input> {
  return z.pipe(z.transform(convert), schema) as never;
}

function numeric(type: z.ZodMiniNumber<number>, range: Range): z.ZodMiniType<number, number> {
  return preprocess<number>(
    (raw) => (typeof raw === 'string' && /^-?\d+(?:\.\d+)?$/.test(raw) ? Number(raw) : raw),
    bounded(type, range, String),
  );
}

function quantity<Input>(
  parse: (raw: unknown) => number | undefined,
  print: (value: number) => string,
  problemOf: (raw: unknown) => string,
  range: Range,
): z.ZodMiniType<number, Input> {
  const read = parsed<number, Input>((raw) => parse(raw) ?? { problem: problemOf(raw) });
  return z.pipe(read, bounded(z.int(), range, print)) as never;
}

function bounded(
  type: z.ZodMiniNumber<number>,
  { min, max }: Range,
  print: (value: number) => string,
): z.ZodMiniNumber<number> {
  return type.check(
    ...(min === undefined ? [] : [z.minimum(min, { error: `must be at least ${print(min)}` })]),
    ...(max === undefined ? [] : [z.maximum(max, { error: `must be at most ${print(max)}` })]),
  );
}

function parsed<Output, Input>(read: (raw: unknown) => Output | Problem): z.ZodMiniType<Output, Input> {
  return reading((raw, issues) => {
    const value = read(raw);
    if (typeof value !== 'object' || value === null || !('problem' in value)) return value;
    return refused(issues, value.problem, raw);
  });
}

type Issues = z.core.$ZodRawIssue[];

/** A schema whose values `read` makes, or else refuses. */
function reading<Output, Input>(read: (raw: unknown, issues: Issues) => unknown): z.ZodMiniType<Output, Input> {
  return z.pipe(
    z.unknown(),
    z.transform((raw, { issues }) => read(raw, issues)),
  ) as never;
}

function refused(issues: Issues, message: string, input: unknown, path: string[] = []): unknown {
  issues.push({ code: 'custom', message, path, input });
  return z.NEVER;
}

/** The value as another schema reads it, with the issues of that. */
function readAs(schema: z.ZodMiniType, raw: unknown, issues: Issues): unknown {
  const read = schema.safeParse(raw, { reportInput: true });
  if (read.success) return read.data;
  issues.push(...(read.error.issues as Issues));
  return z.NEVER;
}

/** A JSON Schema pattern of what `form` matches and of anything with a reference to the environment. */
function orVariable({ source }: RegExp): string {
  return `${source}|${VARIABLE}`;
}

/** A mapping of data: neither an instance of a class nor a holder of functions. */
export function isPlain(raw: unknown): raw is Record<string, unknown> {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) return false;
  const prototype: unknown = Object.getPrototypeOf(raw);
  const plain = prototype === Object.prototype || prototype === null;
  return plain && !Object.values(raw).some((value) => typeof value === 'function');
}
