// Random configuration files: some of the settings, in their sections.

import * as fc from 'fast-check';
import { SETTINGS } from '../../src/config/settings.ts';
import type { AnyType, Kind, Setting } from '../../src/config/value-types.ts';

const NAME = fc.string({ minLength: 1, unit: 'grapheme' }).filter((text) => text.trim() !== '' && !text.includes('${'));
/** One of these is a good value of any text without a default. */
const GOOD_TEXTS = ['*', 'tcp://a:1', 'a', '10.0.0.1', 'redis://a:1', 'ws://a:1'];

const TOKEN = fc.stringMatching(/^[!-#%-~]{1,20}$/);
/** Whole numbers within the range of a type: near its ends mostly, where files are right and wrong by little elsewhere. */
function within({ range = {} }: AnyType): fc.Arbitrary<number> {
  const least = Math.ceil(range.min ?? 0);
  const most = Math.floor(Math.min(range.max ?? Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER));
  return fc.oneof(fc.integer({ min: least, max: Math.min(most, least + 50) }), fc.constant(most));
}

const ENGINE = fc.constantFrom({}, { kind: 'brave', apiKey: 'k' }, { kind: 'worker', nested: { list: [1, 'two'] } });

/** Values of the type of a setting as a user may write them, most of them right. */
function written(type: AnyType, setting: Setting): fc.Arbitrary<unknown> {
  const { kind, items, fields = {}, text, variants, words = [], nullable } = type;
  const item = (): fc.Arbitrary<unknown> => written(items as AnyType, { ...setting, fallback: undefined });
  const kinds: Record<Kind, () => fc.Arbitrary<unknown>> = {
    // A star satisfies every pattern of strings without a default.
    string: () =>
      setting.secret === true && setting.fallback === undefined
        ? TOKEN
        : fc.constant(setting.fallback ?? GOOD_TEXTS.find((text) => type.schema.safeParse(text).success) ?? '*'),
    boolean: () => fc.boolean(),
    integer: () => fc.oneof(within(type), ...words.map((word) => fc.constant(word))),
    number: () => fc.constantFrom(setting.fallback, 1),
    duration: () => within(type).map((value) => `${value}ms`),
    bytes: () =>
      fc.oneof(
        within(type),
        within(type).map((value) => `${value}B`),
      ),
    decimal: () =>
      fc.oneof(
        within(type).map(String),
        fc.nat().map((part) => `0.${part}`),
      ),
    address: () => fc.integer({ min: 1, max: 65_535 }).map((port) => `127.0.0.1:${port}`),
    block: () => fc.constantFrom('127.0.0.1', '10.0.0.0/8', '::1', 'fd00::/8'),
    url: () => fc.nat(65_535).map((port) => `http://gpu${port}:${port}/`),
    enum: () => fc.constantFrom(...words),
    list: () => {
      const entries = fc.uniqueArray(item(), {
        minLength: words.length > 0 ? 1 : 0,
        maxLength: 3,
        selector: (entry) => JSON.stringify(entry),
      });
      return text === undefined ? entries : fc.oneof(written(text, setting), entries);
    },
    map: () =>
      fc.dictionary(fc.oneof(NAME, fc.constantFrom('x-key', 'b')), item(), { maxKeys: 4, noNullPrototype: true }),
    open: () => ENGINE,
    record: () => {
      // Complete ones: what each kind needs depends on its other fields.
      if (variants !== undefined) return fc.oneof(...Object.values(variants).map(complete));
      const requiredKeys = Object.keys(fields).filter((name) => fields[name]?.presence === 'required');
      const values = Object.entries(fields).map(([name, field]) => [name, written(field, field)] as const);
      const record = fc.record(Object.fromEntries(values), { requiredKeys, noNullPrototype: true });
      return text === undefined ? record : fc.oneof(written(text, setting), record);
    },
  };
  return nullable === true ? fc.option(kinds[kind]()) : kinds[kind]();
}

function complete({ fields = {} }: Setting): fc.Arbitrary<unknown> {
  // A relative path begins at the folder of the file.
  const values = Object.entries(fields).map(
    ([name, field]) => [name, name === 'path' ? fc.constant('/servers.yaml') : written(field, field)] as const,
  );
  return fc.record(Object.fromEntries(values), { noNullPrototype: true });
}

function isSection(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.isExtensible(value);
}

/** A file with one value at the path of each setting. */
export function fileOf(values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const file: Record<string, unknown> = {};
  for (const [path, value] of Object.entries(values)) {
    const names = path.split('.');
    const last = names.pop() ?? '';
    let section = file;
    for (const name of names) {
      if (!isSection(section[name])) section[name] = {};
      section = section[name] as Record<string, unknown>;
    }
    section[last] = value;
  }
  return file;
}

// Random payments, receivers of webhooks and admin tokens are never complete.
const ROWS = SETTINGS.filter(({ path }) => !/^(?:payments\.|webhooks\.endpoints$|adminTokens$)/.test(path));

/** Random values of each setting, by its path. */
export const SETTING_VALUES: ReadonlyMap<string, fc.Arbitrary<unknown>> = new Map(
  ROWS.map(({ path, setting }) => [path, written(setting, setting)]),
);

/** Files with values of the right types. */
export const TYPED_FILES: fc.Arbitrary<Record<string, unknown>> = fc
  .record(Object.fromEntries(SETTING_VALUES), { requiredKeys: [] })
  .map(fileOf);

/** Values that no file can hold, but a program can pass. */
const ODDITIES = fc.constantFrom<unknown>(undefined, Symbol('odd'), Number.NaN, 10n, () => 1, new Map([['a', 1]]));

/** Files with anything at the paths of settings, and under other names. */
export const ARBITRARY_FILES: fc.Arbitrary<unknown> = fc.oneof(
  fc.anything({ withNullPrototype: true }),
  fc
    .dictionary(
      fc.oneof(
        fc.constantFrom(...SETTINGS.map(({ path }) => path)),
        fc.string().map((name) => name.replaceAll('.', '')),
      ),
      fc.oneof(fc.anything({ withNullPrototype: true }), ODDITIES),
      { maxKeys: 12 },
    )
    .map(fileOf),
);
