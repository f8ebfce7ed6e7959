// Load benchmark of searches over five engines with workers that take 50 ms: first a closed loop finds the capacity of the
// gateway, then searches come at a fixed share of it. The main figures are CPU time per search and the latency added to the
// slowest engine. A part of ../run.mjs.

import { COMMON } from '../lib/flags.mjs';
import { percent, roundsText, show, showErrors, showThreads } from '../lib/report.mjs';
import { interleave, turnsOf } from '../lib/rounds.mjs';
import { runSearchClient, withSearchPeers } from '../lib/search-peers.mjs';
import { distributionOf, figuresOf, spread, spreadOf, summarise } from '../lib/statistics.mjs';
import { bars, latencyPlot, watched } from './proxy.mjs';

const GOAL = { cpuMs: 0.7, addedP99Ms: 5 };

export const part = {
  name: 'search',
  sentence: 'Searches over five workers of 50 ms: CPU time per search, rate, added latency.',
  peers: ['headrace', 'direct'],
  flags: {
    ...COMMON,
    peers: { type: 'words', default: ['headrace', 'direct'], help: 'peers' },
    connections: { type: 'number', default: 128, help: 'connections of the client' },
    serviceMs: { type: 'number', default: 50, help: 'milliseconds a worker takes' },
    concurrency: { type: 'number', default: 64, help: 'searches that the gateway sends to one engine at once' },
    share: { type: 'number', default: 0.6, help: 'fixed rate, as a share of what the first peer did before' },
    ratePerS: { type: 'number', default: 0, help: 'fixed rate in searches per second; 0: by share' },
  },
  steps: ({ peers, rounds }) => 2 * peers.length * turnsOf(rounds),
  measure,
};

/** Null where the counter of CPU time did not move, or nothing was answered in a window. */
export const cpuMs = ({ cpuUs }) =>
  cpuUs === null ? null : { median: cpuUs.median / 1000, min: cpuUs.min / 1000, max: cpuUs.max / 1000 };
const pair = ({ p50, p99 }) => `${p50.median.toFixed(2)} / ${p99.median.toFixed(2)}`;
const cores = (peer) => [
  peer.name === 'direct' ? '-' : percent(peer.peerUse),
  percent(peer.foreignUse),
  percent(peer.loadCoreUse),
  percent(peer.rigUse),
];

async function measure(flags, rig) {
  const full = { connections: flags.connections, warmupMs: flags.warmUp * 1000, durationMs: flags.seconds * 1000 };
  await withSearchPeers({ ...flags, names: flags.peers, profileDir: rig.profileDir }, async (peers) => {
    const run = async (what, load) => {
      const step = (text) => rig.step(`${what}, ${text}`);
      const runs = await interleave(peers, flags.rounds, (peer) => runSearchClient(peer, load), step);
      const summary = summarise(runs, ({ requests }) => requests).map((peer) => withRig(peer, runs[peer.name]));
      return { summary, data: { ...load, goal: GOAL, runs } };
    };
    const first = await run('closed loop', full);
    rig.result({
      ...capacityResult(flags, first.summary),
      figures: { scenario: 'search, full load', peers: figuresOf(first.summary) },
      data: first.data,
    });
    const ratePerS = flags.ratePerS || Math.max(1, Math.floor(flags.share * first.summary[0].perSecond.median));
    const second = await run('fixed rate', { ...full, ratePerS });
    rig.result({
      ...pacedResult(ratePerS, second.summary),
      figures: { scenario: 'search', ratePerS, peers: figuresOf(second.summary) },
      data: second.data,
    });
  });
}

/** Adds what `summarise` does not know: added latency, and how much of core 1 workers and client have themselves. */
function withRig(peer, runs) {
  const fields = ['addedMs', 'slowestMs', 'sendLagMs'];
  const rigUse = spread(runs.map(({ cpuUs, seconds }) => (cpuUs.workers + cpuUs.client) / 1e6 / seconds));
  const added = distributionOf(runs, 'addedMs');
  return { ...peer, rigUse, added, ...Object.fromEntries(fields.map((field) => [field, spreadOf(runs, field)])) };
}

function capacityResult(flags, summary) {
  return {
    title: `Five engines, ${flags.serviceMs} ms each, ${flags.connections} connections, ${roundsText(flags)}: median (min-max)`,
    columns: [
      ...['peer', 'CPU ms/search', 'searches/s', 'p50 ms', 'p99 ms'],
      ...['core 0', 'foreign', 'core 1', 'rig', 'RSS MB', 'errors'],
    ],
    rows: summary.map((peer) => [
      peer.name,
      show(cpuMs(peer), 2),
      show(peer.perSecond, 0),
      show(peer.latencyMs.p50),
      show(peer.latencyMs.p99),
      ...cores(peer),
      peer.rssMb.median.toFixed(0),
      showErrors(peer),
    ]),
    remarks: [],
    plots: [
      bars('CPU time per search', 'ms', watched(summary), cpuMs),
      bars('Searches per second', 'searches/s', summary, ({ perSecond }) => perSecond),
    ],
  };
}

function pacedResult(ratePerS, summary) {
  return {
    title: `The same at ${ratePerS} searches/s`,
    columns: [
      ...['peer', 'CPU ms/search', 'added p50 ms', 'added p99 ms', 'slowest engine p50 / p99 ms'],
      ...['sent late p50 / p99 ms', 'core 0', 'foreign', 'core 1', 'rig', 'errors'],
    ],
    rows: summary.map((peer) => [
      peer.name,
      show(cpuMs(peer), 2),
      show(peer.addedMs.p50, 2),
      show(peer.addedMs.p99, 2),
      pair(peer.slowestMs),
      pair(peer.sendLagMs),
      ...cores(peer),
      showErrors(peer),
    ]),
    remarks: judged(summary.find(({ name }) => name === 'headrace')),
    plots: [latencyPlot('Added to the slowest engine', summary, 'added')],
  };
}

function judged(gateway) {
  if (gateway === undefined) return [];
  const against = (figure, goal) =>
    figure === null
      ? 'not measured'
      : `${figure.median.toFixed(2)} ms (goal ${goal} ms: ${figure.median <= goal ? 'met' : 'missed'})`;
  return [
    `Threads of the gateway: ${showThreads(gateway.threads)}.`,
    `CPU time per search: ${against(cpuMs(gateway), GOAL.cpuMs)}.`,
    `Added latency, p99: ${against(gateway.addedMs.p99, GOAL.addedP99Ms)}.`,
  ];
}
