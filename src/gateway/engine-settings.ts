// Checks of settings that need other modules: search engines and the keys for hosts. Their mistakes are reported together
// with all others, before anything starts.

import type { Resolution } from '../config/load.ts';
import { configureEngines, isPlugIn } from '../search/index.ts';
import { trustMistakes } from '../admin/index.ts';

/** The resolution with the mistakes of its engines and of `trust`, if there are any. */
export function withEnginesChecked(resolution: Resolution): Resolution {
  if ('mistakes' in resolution) return resolution;
  const { search, threads, trust } = resolution.settings;
  const mistakes = [...configureEngines(search.engines, () => 0).mistakes, ...trustMistakes(trust)];
  for (const [id, entry] of Object.entries(search.engines)) {
    if (!isPlugIn(entry) || threads === 0) continue;
    mistakes.push({
      path: `search.engines.${id}`,
      message: 'is a plug-in and needs threads: 0; it cannot cross threads',
    });
  }
  return mistakes.length > 0 ? { mistakes } : resolution;
}
