// Differences between two configurations, as paths without values, and what of a new configuration takes effect without a
// restart.

import { isDeepStrictEqual } from 'node:util';
import { entryPath } from './mistake.ts';
import { SETTINGS, type SettingRow, type Settings } from './settings.ts';

/** Paths of changed settings; a changed model is `models.ID`. */
export interface SettingsDiff {
  /** They take effect at once. */
  readonly reloadable: string[];
  /** They take effect at the next start. */
  readonly restart: string[];
}

/** Compares two resolved configurations, in the order of the schema. */
export function diffSettings(before: Settings, after: Settings): SettingsDiff {
  const diff: SettingsDiff = { reloadable: [], restart: [] };
  for (const row of SETTINGS) {
    const [old, current] = [valueOf(before, row), valueOf(after, row)];
    if (isDeepStrictEqual(old, current)) continue;
    const target = row.setting.reload === false ? diff.restart : diff.reloadable;
    if (row.setting.kind === 'map') target.push(...changedEntries(row.path, old, current));
    else target.push(row.path);
  }
  return diff;
}

/** The value of a setting. */
export function valueOf(settings: Settings, { resolvedPath }: SettingRow): unknown {
  return resolvedPath.reduce<unknown>(
    (section, name) => (section as Readonly<Record<string, unknown>>)[name],
    settings,
  );
}

function changedEntries(path: string, before: unknown, after: unknown): string[] {
  const [old, current] = [before, after] as Readonly<Record<string, unknown>>[];
  const names = new Set([...Object.keys(old ?? {}), ...Object.keys(current ?? {})]);
  return [...names]
    .filter((name) => !isDeepStrictEqual(old?.[name], current?.[name]))
    .map((name) => entryPath(path, name));
}

/** `wanted`, but with the values of `running` for every setting that takes effect only at the next start. */
export function settingsInForce(running: Settings, wanted: Settings): Settings {
  let settings: unknown = wanted;
  for (const row of SETTINGS)
    if (row.setting.reload === false) settings = withValue(settings, row.resolvedPath, valueOf(running, row));
  return settings as Settings;
}

/**
 * The section with the value at the path. A copy of the sections on the path only: engines of the embedder are no data that can be copied.
 */
export function withValue(section: unknown, [name, ...rest]: readonly string[], value: unknown): unknown {
  if (name === undefined) return value;
  const members = (section ?? {}) as Readonly<Record<string, unknown>>;
  return { ...members, [name]: withValue(members[name], rest, value) };
}
