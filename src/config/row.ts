// What one row of the settings table says, and the constructors that keep the table to one line a row.
// `table.ts` builds the table with them; reader, help and README table all work from the rows alone.

/**
 * How a value is written. `map` has names chosen by the user, `record` has the names of `fields`. `open` is a mapping
 * that another room reads on its own terms; here only references to the environment are replaced in it.
 */
export type SettingKind =
  | 'string'
  | 'boolean'
  | 'integer'
  | 'number'
  | 'duration'
  | 'bytes'
  | 'decimal'
  | 'address'
  | 'url'
  | 'enum'
  | 'list'
  | 'map'
  | 'open'
  | 'record';

/** What holds for a setting beside its kind. */
export interface SettingTraits {
  /** False when a change takes effect only at the next start. Default true. */
  readonly reload?: boolean;
  /** True when `null` turns the setting off. Default false. */
  readonly nullable?: boolean;
  /** True when the value must never be printed. Default false. */
  readonly secret?: boolean;
  /** For fields of a list or map entry: `true` must be written, `false` may be left out. Unset: has a default. */
  readonly required?: boolean;
  /** Smallest and largest value, in the unit that plain numbers have (milliseconds, bytes). Both inclusive. */
  readonly min?: number;
  readonly max?: number;
  /** The choices of an enum, or the words a number may be replaced with. */
  readonly words?: readonly string[];
  /** What a string must match, and the words that say so after "must be". */
  readonly pattern?: RegExp;
  readonly hint?: string;
}

export interface Setting extends SettingTraits {
  readonly kind: SettingKind;
  /** The default as a user writes it, with its unit; undefined when there is none. */
  readonly fallback: unknown;
  /** One plain English sentence. */
  readonly sentence: string;
  /** The setting of each entry of a list or map. */
  readonly items?: Setting;
  /** The settings inside a record. */
  readonly fields?: Readonly<Record<string, Setting>>;
}

/** A constructor of rows: default, sentence, traits. */
export type RowMaker = (fallback: unknown, sentence: string, traits?: SettingTraits) => Setting;

function maker(kind: SettingKind, usual: SettingTraits = {}): RowMaker {
  return (fallback, sentence, traits) => ({ kind, fallback, sentence, ...usual, ...traits });
}

export const string: RowMaker = maker('string');
export const boolean: RowMaker = maker('boolean');
export const integer: RowMaker = maker('integer', { min: 0 });
export const number: RowMaker = maker('number', { min: 0 });
export const duration: RowMaker = maker('duration', { min: 1 });
export const bytes: RowMaker = maker('bytes', { min: 1 });
export const decimal: RowMaker = maker('decimal');
export const address: RowMaker = maker('address');
export const url: RowMaker = maker('url');

/** One word out of `words`. */
export function choice(words: readonly string[], fallback: string, sentence: string, traits?: SettingTraits): Setting {
  return { kind: 'enum', fallback, sentence, words, ...traits };
}

/** Any number of `items`. */
export function list(items: Setting, fallback: unknown, sentence: string, traits?: SettingTraits): Setting {
  return { kind: 'list', fallback, sentence, items, ...traits };
}

/** Entries under names of the user's choice. */
export function map(items: Setting, sentence: string, traits?: SettingTraits): Setting {
  return { kind: 'map', fallback: {}, sentence, items, ...traits };
}

/** A mapping of which only the room it belongs to knows the names. */
export function open(sentence: string, traits?: SettingTraits): Setting {
  return { kind: 'open', fallback: {}, sentence, ...traits };
}

/** Settings under fixed names; the sentence is the heading of the section in the help text. */
export function record(fields: Record<string, Setting>, sentence: string, traits?: SettingTraits): Setting {
  return { kind: 'record', fallback: undefined, sentence, fields, ...traits };
}

/** The name of a setting in the resolved `Settings`: camel case, and durations carry their unit. */
export function resolvedName(name: string, setting: Setting): string {
  const camel = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return setting.kind === 'duration' ? `${camel}Ms` : camel;
}
