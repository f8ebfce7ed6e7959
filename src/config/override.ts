// Finds the settings among the variables of the environment and the flags of the command line, and turns their text
// into what a file would hold. `load.ts` hands the result to the reader.

import { parse } from 'yaml';
import type { Mistake, Override } from './reader.ts';
import { SETTINGS, type SettingRow } from './table.ts';
import { nearest } from './spelling.ts';

export type Texts = Readonly<Record<string, string | undefined>>;

/** What environment and flags say. */
export interface Overrides {
  /** By path of the setting; the flag stands behind the variable and so wins. */
  readonly byPath: ReadonlyMap<string, readonly Override[]>;
  readonly mistakes: readonly Mistake[];
}

const ENV_PREFIX = 'HEADRACE_';
/** What an orchestrator sets for a service that is itself called headrace. */
const SERVICE_LINK = /^HEADRACE_(?:SERVICE_HOST|(?:SERVICE_)?PORT(?:_\w+)?)$/;

/**
 * Collects the overrides. An empty variable counts as not set. An unknown flag is a mistake; an unknown variable is one
 * only when it looks like a misspelt setting, since a prefix belongs to nobody.
 */
export function collectOverrides(env: Texts, flags: Texts): Overrides {
  const byPath = new Map<string, Override[]>();
  const mistakes: Mistake[] = [];
  for (const row of SETTINGS) {
    const flag = flags[row.path];
    const variable = env[row.env] === '' ? undefined : env[row.env];
    const given: [string, string | undefined][] = [
      [row.env, variable],
      [row.flag, flag],
    ];
    for (const [label, text] of given) {
      if (text === undefined) continue;
      const raw = readText(text, row);
      if (raw === undefined) mistakes.push({ path: label, message: 'must be JSON' });
      else byPath.set(row.path, [...(byPath.get(row.path) ?? []), { label, raw }]);
    }
  }
  for (const name of Object.keys(flags)) refuseFlag(name, mistakes);
  for (const name of Object.keys(env)) refuseVariable(name, mistakes);
  return { byPath, mistakes };
}

/** Text of a list is JSON or comma-separated; of a map or a list of records it is JSON; undefined when it is not. */
function readText(text: string, { setting }: SettingRow): unknown {
  if (setting.nullable === true && text === 'null') return null;
  // The reader expands references in files; a variable or flag is taken as it stands.
  const literal = text.replaceAll('${', () => '$${');
  const isJson = setting.kind === 'map' || setting.items?.kind === 'record' || /^\s*\[/.test(text);
  if (setting.kind !== 'map' && setting.kind !== 'list') return literal;
  if (!isJson) return literal.split(',').map((item) => item.trim());
  try {
    return parse(literal) as unknown;
  } catch {
    return undefined;
  }
}

function refuseFlag(name: string, mistakes: Mistake[]): void {
  const paths = SETTINGS.map(({ path }) => path);
  if (paths.includes(name)) return;
  const near = nearest(name, paths) ?? paths.find((path) => path.endsWith(`.${name}`));
  mistakes.push({
    path: `--${name}`,
    message: near === undefined ? 'is unknown' : `is unknown; did you mean --${near}?`,
  });
}

function refuseVariable(name: string, mistakes: Mistake[]): void {
  if (!name.startsWith(ENV_PREFIX) || SERVICE_LINK.test(name)) return;
  const known = SETTINGS.map(({ env }) => env.slice(ENV_PREFIX.length));
  const bare = name.slice(ENV_PREFIX.length);
  if (known.includes(bare)) return;
  const near = nearest(bare, known);
  if (near !== undefined) mistakes.push({ path: name, message: `is unknown; did you mean ${ENV_PREFIX}${near}?` });
}
