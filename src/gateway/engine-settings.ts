// Checks of settings that need other modules: search engines, the keys for hosts and packages that may be missing. Their
// mistakes are reported together with all others, before anything starts.

import type { Resolution } from '../config/load.ts';
import { configureEngines, isPlugIn } from '../search/index.ts';
import { trustMistakes } from '../admin/index.ts';

/** The resolution with the mistakes of its engines and of `trust`, if there are any. */
export function withEnginesChecked(resolution: Resolution): Resolution {
  if ('mistakes' in resolution) return resolution;
  const { search, server, threads, trust } = resolution.settings;
  const mistakes = [...configureEngines(search.engines, () => 0).mistakes, ...trustMistakes(trust)];
  if (server === 'uws' && isMissing('uWebSockets.js')) {
    mistakes.push({
      path: 'server',
      message:
        'is uws, but the optional package uWebSockets.js is not installed: run "npm install uWebSockets.js@npm:uws-pack", ' +
        "or leave the setting out for the gateway's own server",
    });
  }
  for (const [id, entry] of Object.entries(search.engines)) {
    if (!isPlugIn(entry) || threads === 0) continue;
    mistakes.push({
      path: `search.engines.${id}`,
      message: 'is a plug-in and needs threads: 0; it cannot cross threads',
    });
  }
  return mistakes.length > 0 ? { mistakes } : resolution;
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
