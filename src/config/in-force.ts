// The configuration in force as a document: every setting with its value as a user writes it, its default, and where it comes from.
// Holds no secret: what is marked as one reads `(set)`, and URLs have neither credentials nor a query.

import { isDeepStrictEqual } from 'node:util';
import { typeOf } from './describe.ts';
import { valueOf } from './diff.ts';
import { resolveSettings, type SettingSource, type SettingSources } from './load.ts';
import { SETTINGS, type SettingRow, type Settings } from './settings.ts';
import { type Address, printAddress, printBytes, printDuration } from './units.ts';
import { type AnyType, isPlain, resolvedName } from './value-types.ts';

export interface SettingInForce {
  /** Path in the file: `timeouts.connect`. */
  readonly path: string;
  /** Title of its section. */
  readonly section: string;
  /** Durations and sizes with their units. */
  readonly value: unknown;
  readonly default: unknown;
  /** Whether the value is another one than the default. */
  readonly differs: boolean;
  /** `process`: lowered to what the system allows the process. */
  readonly source: SettingSource | 'process';
  readonly secret: boolean;
  /** Whether a change takes effect only at the next start. */
  readonly restart: boolean;
  /** The file has another value, which takes effect at the next start. */
  readonly pending: boolean;
  /** In the words of the settings table, such as `duration, null`. */
  readonly type: string;
  readonly sentence: string;
  /** Names in the environment and on the command line. */
  readonly env: string;
  readonly flag: string;
}

/** What stands in the place of a secret. */
const SET = '(set)';

/**
 * Every setting, in the order of the schema. `pending`: paths of changes that wait for a restart. `limits`: those that are applied, which may be lower
 * than the configured ones.
 */
export function settingsInForceDocument(
  settings: Settings,
  sources: SettingSources,
  pending: readonly string[],
  limits: Settings['limits'] = settings.limits,
): SettingInForce[] {
  const defaults = resolveSettings({});
  if ('mistakes' in defaults) throw new Error('the defaults are wrong');
  const applied = { ...settings, limits };
  return SETTINGS.map((row) => {
    const { env, flag, path, section, setting } = row;
    const value = valueOf(applied, row);
    const isLowered = !isDeepStrictEqual(value, valueOf(settings, row));
    const differs = !isDeepStrictEqual(value, valueOf(defaults.settings, row));
    // As the table of settings has it: 60s, not 1m.
    const fallback = setting.fallback ?? null;
    return {
      ...{ path, section, value: differs ? valueText(row, value) : fallback, default: fallback, differs },
      source: isLowered ? 'process' : (sources[path] ?? 'default'),
      secret: setting.secret === true,
      restart: setting.reload === false,
      pending: pending.some((each) => each === path || each.startsWith(`${path}.`)),
      ...{ type: typeOf(setting), sentence: setting.sentence, env, flag },
    };
  });
}

function valueText({ path, setting }: SettingRow, value: unknown): unknown {
  if (path === 'store') return storeText(value as string | null);
  return written(setting, value, setting.secret === true);
}

/** Where the ledger is, without user, password and parameters. */
function storeText(store: string | null): string | null {
  const url = store === null || store.startsWith('sqlite:') ? null : URL.parse(store);
  if (store === null || url === null) return store?.startsWith('sqlite:') === false ? SET : store;
  return `${url.protocol}//${url.host}${url.pathname}`;
}

/** A value as a user writes it. `secret`: so is all of it that the fields of records do not tell apart. */
function written(type: AnyType & { readonly secret?: boolean }, value: unknown, secret: boolean): unknown {
  if (value === null || value === undefined) return null;
  const { fields, items, kind, text, variants } = type;
  if (Array.isArray(value)) return value.map((item) => (items === undefined ? SET : written(items, item, secret)));
  if (kind === 'map' && items !== undefined && isPlain(value)) {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, written(items, item, secret)]));
  }
  if (kind === 'record' && fields !== undefined && isPlain(value)) {
    const own = variants?.[String(value['kind'])]?.fields ?? fields;
    const shown = Object.entries(own).flatMap(([name, field]) => {
      const inner = value[resolvedName(name, field)];
      return inner === undefined ? [] : [[name, written(field, inner, field.secret === true)] as const];
    });
    return Object.fromEntries(shown);
  }
  if (kind === 'list' && text !== undefined) return written(text, value, secret);
  if (kind === 'open') return openText(value);
  if (secret) return SET;
  if (kind === 'duration') return printDuration(value as number);
  if (kind === 'bytes') return printBytes(value as number);
  if (kind === 'address') return printAddress(value as Address);
  if (kind === 'url') return urlText(value as string);
  return typeof value === 'object' ? SET : value;
}

/** Of an entry whose members are not known here, the kind and the names. */
function openText(value: unknown): unknown {
  if (!isPlain(value)) return SET;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, name === 'kind' && typeof inner === 'string' ? inner : SET]),
  );
}

/** Tokens stand in queries, and some services put them in paths, which stay: such URLs are marked as secrets. */
function urlText(text: string): string {
  const url = URL.parse(text);
  if (url === null) return SET;
  const bare = `${url.protocol}//${url.host}${url.pathname}`.replace(/\/$/, '');
  return url.search === '' ? bare : `${bare}?…`;
}
