// Load benchmark of JSON requests: a 1 KB chat request with a 600 byte response through every peer, then through the gateway
// with one ingress thread and with more. The main figure is CPU time per request as a multiple of nginx's in the same round.
// A part of ../run.mjs.

import { COMMON } from '../lib/flags.mjs';
import { COMPARED, PEER_FLAGS, PEERS, withPeers } from '../lib/peers.mjs';
import { percent, roundsText, show, showErrors, showThreads } from '../lib/report.mjs';
import { interleave, runClient, turnsOf } from '../lib/rounds.mjs';
import { figuresOf, summarise } from '../lib/statistics.mjs';
import { ANSWER } from '../lib/traffic.mjs';

const { threads: _, ...common } = COMMON;

export const part = {
  name: 'proxy',
  sentence: 'JSON requests of 1 KB through the gateway and its peers: CPU time per request, rate, latency.',
  peers: PEERS,
  flags: {
    ...common,
    ...PEER_FLAGS,
    peers: { type: 'words', default: COMPARED, help: 'peers' },
    connections: { type: 'numbers', default: [64], help: 'connections of the client, one table each' },
    threads: {
      type: 'numbers',
      default: [1, 2],
      help: 'ingress threads; with more than one number, a table of its own',
    },
    bodyBytes: { type: 'number', default: 1000, help: 'bytes of a request body' },
  },
  steps: ({ connections, peers, baseUrl, threads, rounds }) =>
    (connections.length * (peers.length + baseUrl.length) + (threads.length > 1 ? threads.length : 0)) *
    turnsOf(rounds),
  measure,
};

const loadOf = ({ connections, bodyBytes, warmUp, seconds }) => ({
  stream: false,
  connections,
  bodyBytes,
  warmupMs: warmUp * 1000,
  durationMs: seconds * 1000,
  answerBytes: ANSWER.length,
});

/** JSON requests through `flags.peers`: a table for each number of connections. */
export async function measureRequests(flags, rig) {
  const settings = { ...flags, stream: false, profileDir: rig.profileDir, note: rig.note };
  await withPeers({ ...settings, names: flags.peers }, async (peers) => {
    for (const connections of flags.connections) {
      const load = loadOf({ ...flags, connections });
      const step = (text) => rig.step(`${connections} connections, ${text}`);
      const runs = await interleave(peers, flags.rounds, (peer) => runClient(peer, load), step);
      const summary = summarise(runs, ({ requests }) => requests);
      rig.result({
        ...requestResult(`JSON, ${connections} connections, ${roundsText(flags)}`, summary),
        figures: { scenario: 'json', connections, peers: figuresOf(summary) },
        data: { connections, runs },
      });
    }
  });
}

async function measure(flags, rig) {
  const settings = { ...flags, threads: flags.threads[0], stream: false, profileDir: rig.profileDir, note: rig.note };
  await measureRequests(settings, rig);
  if (flags.threads.length > 1) await measureThreads(flags, settings, rig);
}

async function measureThreads(flags, settings, rig) {
  const [connections] = flags.connections;
  const load = loadOf({ ...flags, connections });
  const names = flags.threads.map((count) => `headrace*${count}`);
  await withPeers({ ...settings, baseUrl: [], names }, async (peers) => {
    const step = (text) => rig.step(`threads, ${text}`);
    const runs = await interleave(peers, flags.rounds, (peer) => runClient(peer, load), step);
    const summary = summarise(runs, ({ requests }) => requests, names[0]);
    const named = summary.map((peer, at) => ({ ...peer, name: threadsText(flags.threads[at]) }));
    const result = requestResult(`Threads, ${connections} connections`, summary, names[0]);
    rig.result({
      ...result,
      remarks: [
        'Threads beyond the first run on cores 2 and up, where the machine has them, and share core 0 otherwise.',
      ],
      plots: [
        bars('CPU time per request, by threads', 'us', named, ({ cpuUs }) => cpuUs),
        bars('Requests per second, by threads', 'requests/s', named, ({ perSecond }) => perSecond),
        latencyPlot('Latency of a request, by threads', named),
      ],
      data: { connections, threads: flags.threads, runs },
    });
  });
}

const threadsText = (count) => `${count} thread${count === 1 ? '' : 's'}`;

/** Table and plots of peers that answered requests. */
export function requestResult(title, summary, reference = 'nginx') {
  const gateway = summary.find(({ name }) => name === 'headrace');
  return {
    title: `${title}: median (min-max)`,
    columns: [
      ...['peer', 'CPU us/request', `x ${reference}`, 'user', 'system', 'requests/s', 'p50 ms', 'p99 ms'],
      ...['core 0', 'foreign', 'core 1', 'RSS MB', 'errors'],
    ],
    rows: summary.map((peer) => [
      peer.name,
      show(peer.cpuUs),
      show(peer.ratio, 2),
      peer.userUs?.median.toFixed(1) ?? '-',
      peer.systemUs?.median.toFixed(1) ?? '-',
      show(peer.perSecond, 0),
      show(peer.latencyMs.p50, 2),
      show(peer.latencyMs.p99, 2),
      peer.name === 'direct' ? '-' : percent(peer.peerUse),
      percent(peer.foreignUse),
      percent(peer.loadCoreUse),
      peer.rssMb.median.toFixed(0),
      showErrors(peer),
    ]),
    remarks: gateway === undefined ? [] : [`Threads of the gateway: ${showThreads(gateway.threads)}.`],
    plots: [
      bars('CPU time per request', 'us', watched(summary), ({ cpuUs }) => cpuUs),
      bars('Requests per second', 'requests/s', summary, ({ perSecond }) => perSecond),
      latencyPlot('Latency of a request', summary),
    ],
  };
}

/** Peers whose own CPU time is known; that of `direct` is the upstream's. */
export function watched(summary) {
  return summary.filter(({ name, cpuUs }) => cpuUs !== null && name !== 'direct');
}

export function bars(title, unit, summary, value) {
  return { kind: 'bars', title, unit, bars: summary.map((peer) => ({ name: peer.name, ...value(peer) })) };
}

export function latencyPlot(title, summary, field = 'distribution') {
  const curves = summary.map((peer) => ({ name: peer.name, points: peer[field] }));
  return { kind: 'curves', title, xLabel: 'milliseconds', yLabel: 'share of all', isLog: true, curves };
}
