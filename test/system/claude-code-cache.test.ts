// Claude Code's billing line changes with every request, and nothing of its prompt is found in the KV cache of a CRN.

import t from 'tap';
import {
  cachedShare,
  CLAUDE_CODE_CONTEXT,
  CLAUDE_CODE_SCRIPT,
  playClaudeCode,
} from '../support/claude-code-session.ts';
import { KEY, MODEL, startSystem } from '../support/system.ts';

const TURNS = 30;

const host = {
  engine: { profile: '8b-h100', speed: 'virtual', contextTokens: CLAUDE_CODE_CONTEXT },
  script: CLAUDE_CODE_SCRIPT,
} as const;

for (const dialect of ['messages', 'chat'] as const) {
  t.test(`CRNs that speak ${dialect}: nearly nothing is cached`, async (t) => {
    const one = { ...host, dialects: [dialect] };
    const { url } = await startSystem(t, { hosts: [one, one] });
    const turns = await playClaudeCode({ url, key: KEY, model: MODEL, name: 'a', turns: TURNS });
    t.equal(turns.length, TURNS);
    t.ok(cachedShare(turns.slice(1)) < 0.05);
  });
}
