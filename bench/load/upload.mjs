// Load benchmark: how much small requests suffer when 10 MB uploads pass beside them, through nginx and the gateway. Small
// requests come at a fixed rate, so that a stall of the peer is felt by every request that was due in it.

import { COMMON, readFlags } from '../lib/flags.mjs';
import { withPeers } from '../lib/peers.mjs';
import { temporaryFolder } from '../lib/process.mjs';
import { printProfiles } from '../lib/profile.mjs';
import { percent, printTable, progress, show, writeResult } from '../lib/report.mjs';
import { interleave, runClient, spread, spreadOf } from '../lib/rounds.mjs';
import { ANSWER } from '../lib/traffic.mjs';

const flags = readFlags('upload', 'Small requests alone and beside 10 MB uploads: latency, CPU time per upload.', {
  ...COMMON,
  connections: { type: 'number', default: 64, help: 'connections for the small requests' },
  ratePerS: { type: 'number', default: 1000, help: 'small requests per second' },
  uploadsPerS: { type: 'number', default: 4.5, help: 'uploads per second' },
  uploadBytes: { type: 'number', default: 10_000_000, help: 'bytes of an upload' },
});
const startedAt = new Date();
const profileDir = flags.profile ? temporaryFolder() : undefined;

const small = {
  stream: false,
  connections: flags.connections,
  bodyBytes: 1000,
  ratePerS: flags.ratePerS,
  warmupMs: 1500,
  durationMs: flags.seconds * 1000,
  answerBytes: ANSWER.length,
};
const large = { ...small, connections: 4, bodyBytes: flags.uploadBytes, ratePerS: flags.uploadsPerS };

/** Small requests alone, then beside uploads, against the same peer. */
async function runBoth(peer) {
  const alone = await runClient(peer, small);
  const [beside, uploads] = await Promise.all([runClient(peer, small), runClient(peer, large)]);
  return { alone, beside, uploads };
}

const { summary, runs } = await withPeers(
  { ...flags, names: flags.peers, stream: false, profileDir },
  async (peers) => {
    const list = await interleave(peers, flags.rounds, runBoth, (text) => progress(`upload, ${text}`));
    return { summary: Object.entries(list).map(([name, rounds]) => summarise(name, rounds)), runs: list };
  },
);

function summarise(name, rounds) {
  const of = (part) => rounds.map((round) => round[part]);
  // What the peer used beyond its share for the small requests, which is taken from the run without uploads.
  const perUpload = ({ alone, beside, uploads }) =>
    (beside.cpuUs.peer - (alone.cpuUs.peer / alone.requests) * beside.requests) / 1000 / uploads.requests;
  const all = [...of('alone'), ...of('beside'), ...of('uploads')];
  return {
    name,
    alone: spreadOf(of('alone'), 'latencyMs'),
    beside: spreadOf(of('beside'), 'latencyMs'),
    upload: spreadOf(of('uploads'), 'latencyMs'),
    smallPerSecond: spread(of('beside').map(({ perSecond }) => perSecond)),
    uploadsPerSecond: spread(of('uploads').map(({ perSecond }) => perSecond)),
    cpuMsPerUpload: spread(rounds.map(perUpload)),
    loadCoreUse: spread(of('beside').map(({ cores }) => cores[1].busy)),
    rssMb: spread(rounds.map(({ rssBytes }) => rssBytes / 2 ** 20)),
    errors: all.reduce((sum, { errors }) => sum + errors, 0),
    lastError: all.findLast(({ lastError }) => lastError)?.lastError ?? '',
  };
}

printTable(
  `${flags.ratePerS} small requests/s beside ${flags.uploadsPerS} uploads/s of ${flags.uploadBytes} bytes, ${flags.rounds} rounds of ${flags.seconds} s: median (min-max)`,
  [
    'peer',
    'small p99 ms alone',
    'beside uploads',
    'small/s',
    'uploads/s',
    'upload p50 ms',
    'CPU ms/upload',
    'core 1',
    'RSS MB',
    'errors',
  ],
  summary.map((peer) => [
    peer.name,
    show(peer.alone.p99),
    show(peer.beside.p99),
    peer.smallPerSecond.median.toFixed(0),
    peer.uploadsPerSecond.median.toFixed(1),
    show(peer.upload.p50),
    peer.name === 'direct' ? '-' : show(peer.cpuMsPerUpload),
    percent(peer.loadCoreUse),
    peer.rssMb.median.toFixed(0),
    `${peer.errors} ${peer.lastError}`.trim(),
  ]),
);
writeResult('upload', startedAt, { flags, summary, runs });
if (profileDir !== undefined) printProfiles(profileDir);
