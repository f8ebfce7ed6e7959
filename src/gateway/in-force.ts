// Which settings are in force after a reload. Called by the gateway. What was fixed at the start (sockets, routes) stays
// as it was everywhere, in the documents the gateway serves too, until the next start.

import { valueOf } from '../config/diff.ts';
import { SETTINGS, type Settings } from '../config/settings.ts';

/** `wanted`, but with the values of `running` for every setting that takes effect only at the next start. */
export function settingsInForce(running: Settings, wanted: Settings): Settings {
  const settings = structuredClone(wanted);
  for (const row of SETTINGS) {
    if (row.setting.reload !== false) continue;
    const names = [...row.resolvedPath];
    const last = names.pop() ?? '';
    let section = settings as unknown as Record<string, unknown>;
    for (const name of names) section = section[name] as Record<string, unknown>;
    section[last] = valueOf(running, row);
  }
  return settings;
}
