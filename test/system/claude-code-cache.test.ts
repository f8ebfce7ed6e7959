// Claude Code's billing line changes with every request. With `rewrite.volatileSystem` the prompt of a turn is found in the KV cache of
// its CRN, also where the request is translated; without it nothing is.

import t from 'tap';
import {
  cachedShare,
  CLAUDE_CODE_CONTEXT,
  CLAUDE_CODE_SCRIPT,
  playClaudeCode,
  type TurnUsage,
} from '../support/claude-code-session.ts';
import { KEY, MODEL, startSystem } from '../support/system.ts';

const TURNS = 30;
const LEAST_SHARE = 0.95;

const host = {
  engine: { profile: '8b-h100', speed: 'virtual', contextTokens: CLAUDE_CODE_CONTEXT },
  script: CLAUDE_CODE_SCRIPT,
} as const;

for (const dialect of ['messages', 'chat'] as const) {
  const play = async (
    t: Parameters<typeof startSystem>[0],
    turns: number,
    volatileSystem: boolean,
  ): Promise<TurnUsage[]> => {
    const one = { ...host, dialects: [dialect] };
    const { url } = await startSystem(t, { hosts: [one, one], settings: { rewrite: { volatileSystem } } });
    const used = await playClaudeCode({ url, key: KEY, model: MODEL, name: 'a', turns });
    t.equal(used.length, turns);
    return used.slice(1);
  };

  t.test(`CRNs that speak ${dialect}: every turn but the first is cached to 95 %`, async (t) => {
    const shares = (await play(t, TURNS, true)).map((turn) => cachedShare([turn]));
    t.ok(Math.min(...shares) >= LEAST_SHARE, shares.map((share) => share.toFixed(3)).join(' '));
  });

  t.test(`CRNs that speak ${dialect}: without the setting nearly nothing is cached`, async (t) => {
    const share = cachedShare(await play(t, 5, false));
    t.ok(share < 0.05, String(share));
  });
}
