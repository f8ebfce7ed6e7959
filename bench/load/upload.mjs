// Load benchmark of uploads: how much small requests suffer while 10 MB uploads pass, through nginx and the gateway. Small
// requests come at a fixed rate, so a stall delays every request that is due in it. A part of ../run.mjs.

import { COMMON } from '../lib/flags.mjs';
import { PEER_FLAGS, PEERS, withPeers } from '../lib/peers.mjs';
import { percent, roundsText, show, showErrors } from '../lib/report.mjs';
import { interleave, runClient, turnsOf } from '../lib/rounds.mjs';
import { distributionOf, figuresOf, foreignUse, spread, spreadOf } from '../lib/statistics.mjs';
import { ANSWER } from '../lib/traffic.mjs';
import { bars, latencyPlot } from './proxy.mjs';

export const part = {
  name: 'upload',
  sentence: 'Small requests alone and beside 10 MB uploads: latency, CPU time per upload.',
  peers: PEERS,
  flags: {
    ...COMMON,
    ...PEER_FLAGS,
    peers: { type: 'words', default: ['nginx', 'headrace', 'direct'], help: 'peers' },
    connections: { type: 'number', default: 64, help: 'connections for the small requests' },
    ratePerS: { type: 'number', default: 1000, help: 'small requests per second' },
    uploadsPerS: { type: 'number', default: 4.5, help: 'uploads per second' },
    uploadBytes: { type: 'number', default: 10_000_000, help: 'bytes of an upload' },
  },
  steps: ({ peers, baseUrl, rounds }) => (peers.length + baseUrl.length) * turnsOf(rounds),
  measure,
};

async function measure(flags, rig) {
  const small = {
    stream: false,
    connections: flags.connections,
    bodyBytes: 1000,
    ratePerS: flags.ratePerS,
    warmupMs: flags.warmUp * 1000,
    durationMs: flags.seconds * 1000,
    answerBytes: ANSWER.length,
  };
  const large = { ...small, connections: 4, bodyBytes: flags.uploadBytes, ratePerS: flags.uploadsPerS };
  const runBoth = async (peer) => {
    const alone = await runClient(peer, small);
    const [beside, uploads] = await Promise.all([runClient(peer, small), runClient(peer, large)]);
    return { alone, beside, uploads };
  };
  const settings = { ...flags, stream: false, profileDir: rig.profileDir, note: rig.note };
  await withPeers({ ...settings, names: flags.peers }, async (peers) => {
    const runs = await interleave(peers, flags.rounds, runBoth, rig.step);
    const summary = Object.entries(runs).map(([name, rounds]) => summariseUploads(name, rounds, runs.nginx));
    rig.result({
      ...uploadResult(flags, summary),
      figures: { scenario: 'small requests beside uploads', peers: figuresOf(summary) },
      data: { runs },
    });
  });
}

export function summariseUploads(name, rounds, reference) {
  const of = (part) => rounds.map((round) => round[part]);
  // What the peer used beyond its share for the small requests, which is taken from the run without uploads.
  const perUpload = ({ alone, beside, uploads }) =>
    (beside.cpuUs.peer - (alone.cpuUs.peer / alone.requests) * beside.requests) / 1000 / uploads.requests;
  const all = [...of('alone'), ...of('beside'), ...of('uploads')];
  return {
    name,
    distribution: distributionOf(of('beside'), 'latencyMs'),
    alone: spreadOf(of('alone'), 'latencyMs'),
    beside: spreadOf(of('beside'), 'latencyMs'),
    upload: spreadOf(of('uploads'), 'latencyMs'),
    /** p99 of small requests beside uploads, over that of nginx in the same round; null where one of them answered none in a window. */
    ratio:
      reference !== undefined && [...rounds, ...reference].every(({ beside }) => beside.latencyMs.count > 0)
        ? spread(rounds.map(({ beside }, round) => beside.latencyMs.p99 / reference[round].beside.latencyMs.p99))
        : null,
    smallPerSecond: spread(of('beside').map(({ perSecond }) => perSecond)),
    uploadsPerSecond: spread(of('uploads').map(({ perSecond }) => perSecond)),
    cpuMsPerUpload: spread(rounds.map(perUpload)),
    foreignUse: spread(of('beside').map((run) => foreignUse(run, name))),
    loadCoreUse: spread(of('beside').map(({ cores }) => cores[1].busy)),
    rssMb: spread(rounds.map(({ rssBytes }) => rssBytes / 2 ** 20)),
    errors: all.reduce((sum, { errors }) => sum + errors, 0),
    lastError: all.findLast(({ lastError }) => lastError)?.lastError ?? '',
  };
}

function uploadResult(flags, summary) {
  const measured = summary.filter(({ name }) => name !== 'direct');
  return {
    title: `${flags.ratePerS} small requests/s beside ${flags.uploadsPerS} uploads/s of ${flags.uploadBytes} bytes, ${roundsText(flags)}: median (min-max)`,
    columns: [
      ...['peer', 'small p99 ms alone', 'beside uploads', 'x nginx', 'small/s', 'uploads/s', 'upload p50 ms'],
      ...['CPU ms/upload', 'foreign', 'core 1', 'RSS MB', 'errors'],
    ],
    rows: summary.map((peer) => [
      peer.name,
      show(peer.alone.p99),
      show(peer.beside.p99),
      show(peer.ratio, 2),
      peer.smallPerSecond.median.toFixed(0),
      peer.uploadsPerSecond.median.toFixed(1),
      show(peer.upload.p50),
      peer.name === 'direct' ? '-' : show(peer.cpuMsPerUpload),
      percent(peer.foreignUse),
      percent(peer.loadCoreUse),
      peer.rssMb.median.toFixed(0),
      showErrors(peer),
    ]),
    remarks: [],
    plots: [
      bars('CPU time per upload', 'ms', measured, ({ cpuMsPerUpload }) => cpuMsPerUpload),
      latencyPlot('Latency of a small request beside uploads', summary),
    ],
  };
}
