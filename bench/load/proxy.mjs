// Load benchmark: a 1 KB chat request with a 600 byte answer through nginx, the gateway and nothing at all. The figure that
// counts is CPU time per request over nginx's in the same round. Method and figures: bench/README.md.

import { COMMON, readFlags } from '../lib/flags.mjs';
import { withPeers } from '../lib/peers.mjs';
import { temporaryFolder } from '../lib/process.mjs';
import { printProfiles } from '../lib/profile.mjs';
import { percent, printTable, progress, show, showThreads, writeResult } from '../lib/report.mjs';
import { interleave, runClient, summarise } from '../lib/rounds.mjs';
import { ANSWER } from '../lib/traffic.mjs';

const flags = readFlags('proxy', 'JSON requests through nginx and the gateway: CPU time per request, rate, latency.', {
  ...COMMON,
  connections: { type: 'numbers', default: [64, 256], help: 'connections of the client, one table for each' },
  bodyBytes: { type: 'number', default: 1000, help: 'bytes of a request body' },
});
const startedAt = new Date();
const profileDir = flags.profile ? temporaryFolder() : undefined;

const points = await withPeers({ ...flags, names: flags.peers, stream: false, profileDir }, async (peers) => {
  const all = [];
  for (const connections of flags.connections) {
    const load = {
      stream: false,
      connections,
      bodyBytes: flags.bodyBytes,
      warmupMs: 1500,
      durationMs: flags.seconds * 1000,
      answerBytes: ANSWER.length,
    };
    const note = (text) => progress(`proxy, ${connections} connections, ${text}`);
    const runs = await interleave(peers, flags.rounds, (peer) => runClient(peer, load), note);
    const summary = summarise(runs, ({ requests }) => requests);
    all.push({ connections, summary, runs });
    print(connections, summary);
  }
  return all;
});

function print(connections, summary) {
  printTable(
    `JSON, ${connections} connections, ${flags.rounds} rounds of ${flags.seconds} s: median (min-max)`,
    [
      'peer',
      'CPU us/request',
      'x nginx',
      'requests/s',
      'p50 ms',
      'p99 ms',
      'core 0',
      'foreign',
      'core 1',
      'RSS MB',
      'errors',
    ],
    summary.map((peer) => [
      peer.name,
      show(peer.cpuUs),
      peer.ratio === null ? '-' : show(peer.ratio, 2),
      show(peer.perSecond, 0),
      show(peer.latencyMs.p50, 2),
      show(peer.latencyMs.p99, 2),
      peer.name === 'direct' ? '-' : percent(peer.peerUse),
      percent(peer.foreignUse),
      percent(peer.loadCoreUse),
      peer.rssMb.median.toFixed(0),
      `${peer.errors} ${peer.lastError}`.trim(),
    ]),
  );
  const gateway = summary.find(({ name }) => name === 'headrace');
  if (gateway) process.stdout.write(`\nthreads of the gateway: ${showThreads(gateway.threads)}\n`);
}

writeResult('proxy', startedAt, { flags, points });
if (profileDir !== undefined) printProfiles(profileDir);
