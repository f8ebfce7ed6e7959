// Load benchmark of this gateway beside other gateways and proxies: the same JSON requests and the same streams through all of them, at 64
// and at 256 connections. What is not installed is installed first, and what cannot be installed is listed with the reason. A part
// of ../run.mjs.

import { COMMON } from '../lib/flags.mjs';
import { OTHERS, PEER_FLAGS, PEERS, VARIANTS } from '../lib/peers.mjs';
import { turnsOf } from '../lib/rounds.mjs';
import { installMissing } from '../peers/install.mjs';
import { measureRequests } from './proxy.mjs';
import { measureStreams } from './stream.mjs';

const ALL = ['nginx', 'haproxy', 'envoy', 'headrace', 'keys', 'open', 'floor', 'smg', 'vllm-router', 'olla', 'bifrost'];

export const part = {
  name: 'peers',
  sentence: 'Other gateways and proxies beside this one: JSON requests and streams, CPU time, latency, memory.',
  peers: PEERS,
  flags: {
    ...COMMON,
    ...PEER_FLAGS,
    peers: { type: 'words', default: [...ALL, 'caddy', 'fastify', 'portkey', 'litellm', 'direct'], help: 'peers' },
    connections: { type: 'numbers', default: [64, 256], quick: [64], help: 'connections, or streams at a time' },
    bodyBytes: { type: 'number', default: 1000, help: 'bytes of a request body' },
    gapMs: { type: 'number', default: 5, help: 'milliseconds between two events of a stream' },
    install: { type: 'word', default: 'yes', help: 'yes or no: install what is missing first' },
  },
  steps: ({ connections, peers, baseUrl, rounds }) =>
    2 * connections.length * (peers.length + baseUrl.length) * turnsOf(rounds),
  measure,
};

async function measure(flags, rig) {
  const others = Object.fromEntries(flags.peers.filter((name) => name in OTHERS).map((name) => [name, OTHERS[name]]));
  const failures = flags.install === 'no' ? {} : installMissing(others, (text) => rig.step(text));
  const rows = flags.peers.filter((name) => name !== 'direct').map((name) => factsOf(name, failures));
  rig.result({
    title: 'What runs',
    columns: ['peer', 'version', 'what it is', 'what it does here', 'from'],
    rows: rows.map(({ name, version, kind, does, from }) => [name, version, kind, does, from]),
    remarks: rows.filter(({ missing }) => missing).map(({ name, missing }) => `${name} is not installed: ${missing}.`),
    plots: [],
    figures: { scenario: 'peers', peers: rows },
    data: {},
  });
  // What is missing has been said.
  const settings = {
    ...flags,
    peers: flags.peers.filter((name) => !rows.some((row) => row.name === name && row.missing)),
  };
  await measureRequests(settings, rig);
  await measureStreams(settings, rig);
}

function factsOf(name, failures) {
  // `headrace*2` is a variant with two threads.
  const variant = VARIANTS[name.split('*')[0]];
  if (variant !== undefined) {
    const version = process.version.slice(1);
    return { name, version, kind: 'gateway, Node.js', does: variant, from: 'this repository', missing: '' };
  }
  const { from, kind, does, find, version } = OTHERS[name];
  const command = find();
  const missing = command === null ? (failures[name] ?? 'not found') : '';
  return { name, version: command === null ? 'not installed' : (version(command) ?? '?'), kind, does, from, missing };
}
