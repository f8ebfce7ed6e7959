// Benchmark of searches and pages as tools of agents: a search with the text of its best pages, beside the loop of a script. A part of
// ../run.mjs; each scenario has a file of its own.

import { COMMON } from '../lib/flags.mjs';
import * as content from './content.mjs';

const SCENARIOS = { content };

const { rounds, nodeFlags } = COMMON;

export const part = {
  name: 'tools',
  sentence: 'Searches and pages as agents use them: time until a search has the text of its best pages.',
  peers: [],
  /** The script cleans with packages of `bench/`. */
  needsPackages: true,
  flags: {
    rounds,
    nodeFlags,
    scenarios: { type: 'words', default: Object.keys(SCENARIOS), help: `of ${Object.keys(SCENARIOS).join(', ')}` },
    ...Object.assign({}, ...Object.values(SCENARIOS).map(({ flags }) => flags)),
  },
  steps: (settings) => chosen(settings).reduce((sum, { steps }) => sum + steps(settings), 0),
  async measure(settings, rig) {
    for (const { measure } of chosen(settings)) await measure(settings, rig);
  },
};

function chosen({ scenarios }) {
  return scenarios.map((name) => {
    if (!Object.hasOwn(SCENARIOS, name)) throw new Error(`there is no scenario "${name}" of tools`);
    return SCENARIOS[name];
  });
}
