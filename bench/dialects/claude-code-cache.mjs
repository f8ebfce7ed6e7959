// Share of prompt tokens of Claude Code's sessions that are in a KV cache, with and without `rewrite.volatileSystem`, passed to CRNs that
// speak messages and translated for CRNs that speak chat alone. Counts tokens of simulated hosts; measures no time.
//   node bench/dialects/claude-code-cache.mjs [--turns 30] [--sessions 6] [--crns 3] [--docs]

import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { readCommand } from '../lib/flags.mjs';
import { useOwnNode } from '../lib/own-node.mjs';
import { drawFile } from '../lib/plot.mjs';
import { printTable, tableText } from '../lib/report.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PAGE = `${ROOT}docs/agents.md`;
const PLOT = `${ROOT}docs/claude-code-cache.svg`;
const BEGIN = '<!-- measured: written by node bench/dialects/claude-code-cache.mjs --docs -->';
const END = '<!-- /measured -->';
const MODEL = 'atlas-27b';
const KEY = 'hr_cache';
/** What a session has to reach from its second turn on, with the setting. */
const LEAST_SHARE = 0.95;

const FLAGS = {
  turns: { type: 'number', default: 30, help: 'turns of each session' },
  sessions: { type: 'number', default: 6, help: 'sessions at the same time' },
  crns: { type: 'number', default: 3, help: 'CRNs of the model' },
  docs: { type: 'boolean', default: false, help: 'write the table and the plot of docs/agents.md' },
};

const { values: flags } = readCommand(
  'node bench/dialects/claude-code-cache.mjs [flags]',
  "Share of prompt tokens of Claude Code's sessions that are cached, with and without rewrite.volatileSystem.",
  FLAGS,
);
useOwnNode(ROOT);
const { createGateway } = await import('../../dist/src/gateway/gateway.js');
const { createHost } = await import('../../dist/src/host/index.js');
const { cachedShare, CLAUDE_CODE_CONTEXT, CLAUDE_CODE_SCRIPT, playClaudeCode } =
  await import('../../dist/test/support/claude-code-session.js');

const COLUMNS = ['CRNs speak', '`rewrite.volatileSystem`', 'cached from turn 2 on', 'least of a session', 'CRNs used'];
const rows = [];
const bars = [];
let isReached = true;
for (const dialect of ['messages', 'chat']) {
  for (const volatileSystem of [false, true]) {
    const { sessions, used } = await measure(dialect, volatileSystem);
    const later = sessions.map((turns) => turns.slice(1));
    const share = cachedShare(later.flat());
    const least = Math.min(...later.map(cachedShare));
    if (volatileSystem && least < LEAST_SHARE) isReached = false;
    rows.push([dialect, String(volatileSystem), percent(share), percent(least), `${used} of ${flags.crns}`]);
    const name = `${dialect}${volatileSystem ? ', on' : ', off'}`;
    bars.push({ name, median: 100 * share, min: 100 * share, max: 100 * share });
  }
}
printTable(`Prompt tokens of Claude Code's requests in a KV cache, ${sizes()}`, COLUMNS, rows);
if (flags.docs) writeDocs();
process.exit(isReached ? 0 : 1);

function sizes() {
  return `${flags.sessions} sessions of ${flags.turns} turns, ${flags.crns} CRNs`;
}

function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

async function measure(dialect, volatileSystem) {
  const hosts = Array.from({ length: flags.crns }, (_, at) =>
    createHost({
      models: [MODEL],
      name: `host-${at + 1}`,
      dialects: [dialect],
      engine: { profile: '8b-h100', speed: 'virtual', contextTokens: CLAUDE_CODE_CONTEXT },
      script: CLAUDE_CODE_SCRIPT,
    }),
  );
  const servers = await Promise.all(hosts.map((host) => host.listen()));
  const gateway = createGateway({
    listen: '127.0.0.1:0',
    models: { [MODEL]: { servers } },
    keys: { static: [{ key: KEY, account: 'bench' }] },
    rewrite: { volatileSystem },
    log: { level: 'silent' },
  });
  const { url } = await gateway.listen();
  await gateway.ready();
  const names = Array.from({ length: flags.sessions }, (_, at) => `session-${at + 1}`);
  const sessions = await Promise.all(
    names.map((name) => playClaudeCode({ url, key: KEY, model: MODEL, name, turns: flags.turns })),
  );
  const used = hosts.filter((host) =>
    host.requests.some(({ path, status }) => path.startsWith('/v1/') && status === 200),
  );
  await gateway.close();
  await Promise.all(hosts.map((host) => host.kill()));
  return { sessions, used: used.length };
}

function writeDocs() {
  const text = readFileSync(PAGE, 'utf8');
  const begin = text.indexOf(BEGIN);
  const end = text.indexOf(END);
  if (begin < 0 || end < begin) throw new Error(`${PAGE} has no part between ${BEGIN} and ${END}`);
  const plot = '![Cached share of prompt tokens](claude-code-cache.svg)';
  const part = `${BEGIN}\n\n${tableText(COLUMNS, rows)}\n\n${plot}\n\nSimulated hosts, ${sizes()}.\n\n`;
  writeFileSync(PAGE, text.slice(0, begin) + part + text.slice(end));
  writeFileSync(
    PLOT,
    drawFile(
      { title: 'Cached prompt tokens', unit: '%', bars },
      bars.flatMap(({ name }) => (name.endsWith('on') ? [name] : [])),
    ),
  );
}
