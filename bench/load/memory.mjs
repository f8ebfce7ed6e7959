// Load benchmark of memory: resident memory of every peer as started, with idle connections, and with live streams. Each peer
// is started anew for each figure, so that no figure depends on the one before. A part of ../run.mjs.

import { fileURLToPath } from 'node:url';
import { LOAD_CORE } from '../lib/cores.mjs';
import { COMMON } from '../lib/flags.mjs';
import { PEERS, withPeers } from '../lib/peers.mjs';
import { openFiles, runChild } from '../lib/process.mjs';
import { roundsText, show, showErrors } from '../lib/report.mjs';
import { spread } from '../lib/statistics.mjs';
import { bars } from './proxy.mjs';

const CLIENT = fileURLToPath(new URL('../lib/memory-client.mjs', import.meta.url));
/** Events are so far apart that all streams are open at once, with some in motion at any time. */
const GAP_MS = 250;
/** Files of a process beside its connections; a stream through a proxy has two. */
const OTHER_FILES = 200;

const { threads, nodeFlags } = COMMON;

export const part = {
  name: 'memory',
  sentence: 'Resident memory with idle kept connections and with live streams.',
  peers: PEERS,
  flags: {
    threads,
    nodeFlags,
    rounds: { type: 'number', default: 3, quick: 1, least: 1, help: 'rounds; every peer is started anew in each' },
    peers: { type: 'words', default: ['nginx', 'haproxy', 'headrace'], quick: ['nginx', 'headrace'], help: 'peers' },
    idle: { type: 'number', default: 10_000, quick: 1_000, help: 'idle connections, each after one request' },
    streams: { type: 'number', default: 2_000, quick: 200, help: 'live streams' },
  },
  steps: ({ peers, rounds }) => 2 * peers.length * rounds,
  measure,
};

async function measure(flags, rig) {
  const wanted = Math.max(flags.idle, 2 * flags.streams) + OTHER_FILES;
  const files = openFiles(wanted);
  if (files < wanted)
    rig.note(`memory: only ${files} open files are allowed (ulimit -n ${wanted} allows all connections).`);
  const idle = Math.min(flags.idle, files - OTHER_FILES);
  const streams = Math.min(flags.streams, Math.floor((files - OTHER_FILES) / 2));
  const loads = [
    { name: 'idle', stream: false, connections: idle },
    { name: 'streams', stream: true, connections: streams },
  ];
  const runs = {};
  for (let round = 1; round <= flags.rounds; round++) {
    for (const name of flags.peers) {
      for (const kind of loads) {
        rig.step(`${kind.connections} ${kind.stream ? 'streams' : 'idle connections'}, round ${round} ${name}`);
        const run = await measureOne(name, kind, flags, rig);
        if (run !== undefined) (runs[name] ??= { idle: [], streams: [] })[kind.name].push(run);
      }
    }
  }
  rig.result({ ...memoryResult(flags, { idle, streams }, runs), data: { idle, streams, runs } });
}

async function measureOne(name, { stream, connections }, flags, rig) {
  const note = rig.note;
  return withPeers({ ...flags, names: [name], stream, gapMs: GAP_MS, note }, async ([peer]) => {
    if (peer === undefined) return undefined;
    const { port, path, headers, pid } = peer;
    const load = { port, path, headers, pid, stream, connections, bodyBytes: 1000 };
    const args = [CLIENT, JSON.stringify(load)];
    return runChild({ name: `memory client of ${name}`, command: process.execPath, args, core: LOAD_CORE });
  });
}

function memoryResult({ rounds }, { idle, streams }, runs) {
  const mb = (bytes) => bytes / 2 ** 20;
  const all = Object.entries(runs).map(([name, of]) => {
    const list = [...of.idle, ...of.streams];
    return {
      name,
      startedMb: spread(list.map(({ beforeBytes }) => mb(beforeBytes))),
      idleMb: spread(of.idle.map(({ rssBytes }) => mb(rssBytes))),
      streamsMb: spread(of.streams.map(({ rssBytes }) => mb(rssBytes))),
      idleKb: spread(of.idle.map((run) => (run.rssBytes - run.beforeBytes) / 1024 / run.open)),
      streamKb: spread(of.streams.map((run) => (run.rssBytes - run.beforeBytes) / 1024 / run.open)),
      errors: list.reduce((sum, { failed }) => sum + failed, 0),
      lastError: list.findLast(({ lastError }) => lastError)?.lastError ?? '',
    };
  });
  return {
    title: `Resident memory, ${roundsText({ rounds })}: median (min-max)`,
    columns: [
      ...['peer', 'started MB', `${idle} idle MB`, 'kB a connection', `${streams} streams MB`, 'kB a stream', 'failed'],
    ],
    rows: all.map((peer) => [
      peer.name,
      show(peer.startedMb),
      show(peer.idleMb),
      show(peer.idleKb),
      show(peer.streamsMb),
      show(peer.streamKb),
      showErrors(peer),
    ]),
    remarks: [
      'Memory of the kernel for sockets is not in it. A heap that is collected later looks larger than it must be.',
    ],
    plots: [
      bars('As started', 'MB', all, ({ startedMb }) => startedMb),
      bars(`${idle} idle connections`, 'MB', all, ({ idleMb }) => idleMb),
      bars(`${streams} live streams`, 'MB', all, ({ streamsMb }) => streamsMb),
    ],
  };
}
