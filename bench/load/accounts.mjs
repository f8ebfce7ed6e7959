// Load benchmark of accounting: the same requests through the gateway without keys, with keys, and with keys, prices and a
// ledger. Goal: at most 5 % more CPU time from the first to the last. A part of ../run.mjs.

import { COMMON } from '../lib/flags.mjs';
import { PEER_FLAGS, PEERS, withPeers } from '../lib/peers.mjs';
import { roundsText } from '../lib/report.mjs';
import { interleave, runClient, turnsOf } from '../lib/rounds.mjs';
import { summarise } from '../lib/statistics.mjs';
import { ANSWER } from '../lib/traffic.mjs';
import { requestResult } from './proxy.mjs';

const GOAL = 1.05;
const OPEN = 'open';

export const part = {
  name: 'accounts',
  sentence:
    'The gateway open, with keys, and with keys and metering: CPU time per request; the goal is at most 5 % more.',
  peers: PEERS,
  flags: {
    ...COMMON,
    ...PEER_FLAGS,
    peers: { type: 'words', default: [OPEN, 'keys', 'headrace'], help: 'peers' },
    connections: { type: 'number', default: 64, help: 'connections of the client' },
    bodyBytes: { type: 'number', default: 1000, help: 'bytes of a request body' },
  },
  steps: ({ peers, rounds }) => peers.length * turnsOf(rounds),
  measure,
};

async function measure(flags, rig) {
  const load = {
    stream: false,
    connections: flags.connections,
    bodyBytes: flags.bodyBytes,
    warmupMs: flags.warmUp * 1000,
    durationMs: flags.seconds * 1000,
    answerBytes: ANSWER.length,
  };
  const settings = { ...flags, stream: false, profileDir: rig.profileDir, note: rig.note };
  await withPeers({ ...settings, names: flags.peers }, async (peers) => {
    const runs = await interleave(peers, flags.rounds, (peer) => runClient(peer, load), rig.step);
    const summary = summarise(runs, ({ requests }) => requests, OPEN);
    const title = `JSON, ${flags.connections} connections, ${roundsText(flags)}`;
    const result = requestResult(title, summary, OPEN);
    rig.result({ ...result, remarks: [...result.remarks, ...judged(summary)], data: { goal: GOAL, runs } });
  });
}

function judged(summary) {
  const all = summary.find(({ name }) => name === 'headrace');
  if (!all?.ratio) return [];
  const more = (all.ratio.median - 1) * 100;
  return [`Keys and metering: ${more.toFixed(1)} % more CPU time (goal 5 %: ${more <= 5 ? 'met' : 'missed'}).`];
}
