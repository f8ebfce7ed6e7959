// Checks of settings that need other modules: search engines, the keys for hosts and packages that may be missing. Their
// mistakes are reported together with all others, before anything starts.

import type { Mistake, Resolution } from '../config/load.ts';
import type { Settings } from '../config/settings.ts';
import { checkModules, configureEngines, isPlugIn } from '../search/index.ts';
import { trustMistakes } from '../admin/index.ts';

/** The resolution with what is known of the modules of engines, or with the mistakes of its engines and of `trust`. */
export function withEnginesChecked(resolution: Resolution): Resolution {
  if ('mistakes' in resolution)
    return { mistakes: [...resolution.mistakes, ...checkEngines(resolution.engines ?? {}).mistakes] };
  const { search, server, trust } = resolution.settings;
  const engines = checkEngines(search.engines);
  const mistakes = [...engines.mistakes, ...trustMistakes(trust)];
  if (server === 'uws' && isMissing('uWebSockets.js')) {
    mistakes.push({
      path: 'server',
      message:
        'is uws, but the optional package uWebSockets.js is not installed: run "npm install uWebSockets.js@npm:uws-pack", ' +
        "or leave the setting out for the gateway's own server",
    });
  }
  mistakes.push(...plugInMistakes(resolution.settings));
  if (mistakes.length > 0) return { mistakes };
  const settings = Object.freeze({
    ...resolution.settings,
    search: Object.freeze({ ...search, engines: Object.freeze(engines.entries) }),
  });
  return { ...resolution, settings };
}

/** Engines of a program that would have to cross threads. */
export function plugInMistakes({ search, threads }: Pick<Settings, 'search' | 'threads'>): Mistake[] {
  if (threads === 0) return [];
  const plugIns = Object.entries(search.engines).filter(([, entry]) => isPlugIn(entry));
  return plugIns.map(([id]) => ({
    path: `search.engines.${id}`,
    message: 'is a plug-in and needs threads: 0; it cannot cross threads',
  }));
}

/** What is wrong with the entries, and those of modules with what is known of these. */
function checkEngines(given: Settings['search']['engines']): ReturnType<typeof checkModules> {
  const { entries, mistakes } = checkModules(given);
  return { entries, mistakes: [...mistakes, ...configureEngines(entries, () => 0).mistakes] };
}

/** Whether no package of this name is installed. One that cannot be loaded is not missing. */
function isMissing(name: string): boolean {
  try {
    import.meta.resolve(name);
    return false;
  } catch (error) {
    return (error as { readonly code?: unknown }).code === 'ERR_MODULE_NOT_FOUND';
  }
}
