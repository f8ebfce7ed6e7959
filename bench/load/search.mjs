// Load benchmark: searches over five workers that answer ten results after 50 ms. First as many as the gateway can do, then
// at a fixed share of that; the figures that count are CPU time per search and the latency that the gateway adds to its
// slowest engine. Method and figures: bench/README.md.

import { COMMON, readFlags } from '../lib/flags.mjs';
import { temporaryFolder } from '../lib/process.mjs';
import { printProfiles } from '../lib/profile.mjs';
import { percent, printTable, progress, show, showThreads, writeResult } from '../lib/report.mjs';
import { interleave, spread, spreadOf, summarise } from '../lib/rounds.mjs';
import { runSearchClient, withSearchPeers } from '../lib/search-peers.mjs';

const GOAL = { cpuMs: 2, addedP99Ms: 5 };

const flags = readFlags('search', 'Searches over five workers: CPU time per search, rate, added latency.', {
  ...COMMON,
  peers: { type: 'words', default: ['headrace', 'direct'], help: 'peers to run, in order' },
  connections: { type: 'number', default: 128, help: 'connections of the client' },
  serviceMs: { type: 'number', default: 50, help: 'milliseconds a worker takes' },
  concurrency: { type: 'number', default: 64, help: 'searches that the gateway sends to one engine at once' },
  share: {
    type: 'number',
    default: 0.6,
    help: 'fixed rate of the second part, as a share of what the first peer did in the first',
  },
  ratePerS: { type: 'number', default: 0, help: 'fixed rate of the second part in searches per second; 0: by share' },
});
const startedAt = new Date();
const profileDir = flags.profile ? temporaryFolder() : undefined;

const full = { connections: flags.connections, warmupMs: 1500, durationMs: flags.seconds * 1000 };
const searchesOf = ({ requests }) => requests;

const rounds = `${flags.rounds} rounds of ${flags.seconds} s: median (min-max)`;
const cpuMs = ({ cpuUs: { median, min, max } }) => ({ median: median / 1000, min: min / 1000, max: max / 1000 });
const pair = ({ p50, p99 }) => `${p50.median.toFixed(2)} / ${p99.median.toFixed(2)}`;
const errors = (peer) => `${peer.errors} ${peer.lastError}`.trim();
const cores = (peer) => [
  peer.name === 'direct' ? '-' : percent(peer.peerUse),
  percent(peer.foreignUse),
  percent(peer.loadCoreUse),
  percent(peer.rigUse),
];

const { capacity, paced } = await withSearchPeers({ ...flags, names: flags.peers, profileDir }, async (peers) => {
  const measure = async (part, load) => {
    const note = (text) => progress(`search, ${part}, ${text}`);
    const runs = await interleave(peers, flags.rounds, (peer) => runSearchClient(peer, load), note);
    return { ...load, runs, summary: summarise(runs, searchesOf).map((peer) => withRig(peer, runs[peer.name])) };
  };
  const first = await measure('closed loop', full);
  printCapacity(first);
  const ratePerS = flags.ratePerS || Math.max(1, Math.floor(flags.share * first.summary[0].perSecond.median));
  const second = await measure('fixed rate', { ...full, ratePerS });
  printPaced(second);
  return { capacity: first, paced: second };
});

/** Adds what `summarise` does not know: added latency, and how much of core 1 workers and client have themselves. */
function withRig(peer, runs) {
  const fields = ['addedMs', 'slowestMs', 'sendLagMs'];
  const rigUse = spread(runs.map(({ cpuUs, seconds }) => (cpuUs.workers + cpuUs.client) / 1e6 / seconds));
  return { ...peer, rigUse, ...Object.fromEntries(fields.map((field) => [field, spreadOf(runs, field)])) };
}

function printCapacity({ summary }) {
  printTable(
    `Five engines, ${flags.serviceMs} ms each, ${flags.connections} connections, ${rounds}`,
    [
      'peer',
      'CPU ms/search',
      'searches/s',
      'p50 ms',
      'p99 ms',
      'core 0',
      'foreign',
      'core 1',
      'rig',
      'RSS MB',
      'errors',
    ],
    summary.map((peer) => [
      peer.name,
      show(cpuMs(peer), 2),
      show(peer.perSecond, 0),
      show(peer.latencyMs.p50),
      show(peer.latencyMs.p99),
      ...cores(peer),
      peer.rssMb.median.toFixed(0),
      errors(peer),
    ]),
  );
}

function printPaced({ summary, ratePerS }) {
  printTable(
    `The same at ${ratePerS} searches/s, ${rounds}`,
    [
      'peer',
      'CPU ms/search',
      'added p50 ms',
      'added p99 ms',
      'slowest engine p50 / p99 ms',
      'sent late p50 / p99 ms',
      'core 0',
      'foreign',
      'core 1',
      'rig',
      'errors',
    ],
    summary.map((peer) => [
      peer.name,
      show(cpuMs(peer), 2),
      show(peer.addedMs.p50, 2),
      show(peer.addedMs.p99, 2),
      pair(peer.slowestMs),
      pair(peer.sendLagMs),
      ...cores(peer),
      errors(peer),
    ]),
  );
  const gateway = summary.find(({ name }) => name === 'headrace');
  if (gateway === undefined) return;
  const against = (value, goal) => `${value.toFixed(2)} ms (goal ${goal} ms: ${value <= goal ? 'met' : 'missed'})`;
  process.stdout.write(`\nthreads of the gateway: ${showThreads(gateway.threads)}\n`);
  process.stdout.write(`CPU time per search: ${against(cpuMs(gateway).median, GOAL.cpuMs)}\n`);
  process.stdout.write(`added latency, p99: ${against(gateway.addedMs.p99.median, GOAL.addedP99Ms)}\n`);
}

writeResult('search', startedAt, { flags, goal: GOAL, capacity, paced });
if (profileDir !== undefined) printProfiles(profileDir);
