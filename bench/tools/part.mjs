// Benchmark of searches and pages as tools of agents: a search with the text of its best pages beside the loop of a script, calls over the
// Model Context Protocol, pages that need a browser. A part of
// ../run.mjs; each scenario has a file of its own.

import { COMMON } from '../lib/flags.mjs';
import * as content from './content.mjs';
import * as mcp from './mcp.mjs';
import * as renderer from './renderer.mjs';

const SCENARIOS = { content, mcp, renderer };

const { rounds, seconds, warmUp, nodeFlags } = COMMON;

export const part = {
  name: 'tools',
  sentence:
    'Searches and pages as agents use them: time until a search has the text of its best pages, what a call over the Model Context Protocol adds, and pages that need a browser.',
  peers: [],
  /** The script cleans with packages of `bench/`. */
  needsPackages: true,
  flags: {
    ...{ rounds, seconds, warmUp, nodeFlags },
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
