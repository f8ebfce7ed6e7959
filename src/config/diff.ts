// What changed between two configurations, and whether it can take effect without a restart. The gateway asks on a
// reload. Answers paths only, never values.

import { isDeepStrictEqual } from 'node:util';
import { entryPath } from './reader.ts';
import { resolvedName } from './row.ts';
import type { Settings } from './settings.ts';
import { SETTINGS, type SettingRow } from './table.ts';

/** Paths of changed settings; a changed model is `models.ID`. */
export interface SettingsDiff {
  /** They take effect at once. */
  readonly reloadable: string[];
  /** They take effect at the next start. */
  readonly restart: string[];
}

/** Compares two resolved configurations, in the order of the table. */
export function diffSettings(before: Settings, after: Settings): SettingsDiff {
  const diff: SettingsDiff = { reloadable: [], restart: [] };
  for (const row of SETTINGS) {
    const [old, young] = [valueOf(before, row), valueOf(after, row)];
    if (isDeepStrictEqual(old, young)) continue;
    const target = row.setting.reload === false ? diff.restart : diff.reloadable;
    if (row.setting.kind === 'map') target.push(...changedEntries(row.path, old, young));
    else target.push(row.path);
  }
  return diff;
}

/** The resolved value of a row. */
export function valueOf(settings: Settings, { path, setting }: SettingRow): unknown {
  const names = path.split('.');
  const last = resolvedName(names.pop() ?? '', setting);
  let section: unknown = settings;
  for (const name of names) section = (section as Readonly<Record<string, unknown>>)[name];
  return (section as Readonly<Record<string, unknown>>)[last];
}

function changedEntries(path: string, before: unknown, after: unknown): string[] {
  const [old, young] = [before, after] as Readonly<Record<string, unknown>>[];
  const names = new Set([...Object.keys(old ?? {}), ...Object.keys(young ?? {})]);
  return [...names]
    .filter((name) => !isDeepStrictEqual(old?.[name], young?.[name]))
    .map((name) => entryPath(path, name));
}
