// Load benchmark: pages from a local site, fetched and cleaned with one cleaner thread and with two; and what a storm of
// fetches does to chats that pass through the same gateway. The gateway may use both cores; site, model server and
// clients run on core 1 beside it. Method and figures: bench/README.md.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { COMMON, readFlags } from '../lib/flags.mjs';
import { LOAD_CORE, PROXY_CORE } from '../lib/peers.mjs';
import { runChild, startChild, stopChild, temporaryFolder } from '../lib/process.mjs';
import { percent, printTable, progress, show, writeResult } from '../lib/report.mjs';
import { interleave, runClient, spread, spreadOf } from '../lib/rounds.mjs';
import { ANSWER, KEY, MODEL } from '../lib/traffic.mjs';

const GOAL_MORE_MS = 2;

const { peers: _, threads: __, profile: ___, ...common } = COMMON;
const flags = readFlags('fetch', 'Pages fetched and cleaned, alone and beside proxied chats.', {
  ...common,
  pages: { type: 'word', default: '', help: 'folder with source.html.gz files; without one, pages are made up' },
  cleaners: { type: 'numbers', default: [1, 2], help: 'cleaner threads, one peer each' },
  connections: { type: 'number', default: 16, help: 'pages asked for at once' },
  chatsPerS: { type: 'number', default: 200, help: 'chats per second beside the storm' },
  share: { type: 'number', default: 0.5, help: 'rate of the storm, as a share of what the gateway can fetch' },
});
const startedAt = new Date();
const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));

const full = { connections: flags.connections, warmupMs: 2000, durationMs: flags.seconds * 1000 };
const chats = {
  ...full,
  stream: false,
  connections: 32,
  bodyBytes: 1000,
  ratePerS: flags.chatsPerS,
  answerBytes: ANSWER.length,
};

function runFetch(peer, load) {
  const { port, sitePort, pages, pid } = peer;
  return runChild({
    name: `fetch client of ${peer.name}`,
    command: process.execPath,
    args: [path('../lib/fetch-client.mjs'), JSON.stringify({ ...load, port, sitePort, pages, watch: { peer: pid } })],
    core: LOAD_CORE,
  });
}

async function startGateway(cleaners, site, crns) {
  const file = join(temporaryFolder(), 'headrace.json');
  const config = {
    listen: '127.0.0.1:0',
    admin: '127.0.0.1:0',
    threads: 1,
    models: { [MODEL]: { servers: crns.map((port) => `http://127.0.0.1:${port}`) } },
    keys: { required: true, static: [{ key: KEY, account: 'bench' }] },
    fetch: { allow: ['127.0.0.1'], ports: [site.port], cacheTtl: null, cleaners, perHost: 256 },
    log: { level: 'warn' },
  };
  writeFileSync(file, JSON.stringify(config));
  const { child, match } = await startChild({
    name: 'headrace',
    command: process.execPath,
    args: [...flags.nodeFlags, path('../../bin/headrace.js'), 'serve', '--config', file],
    core: `${PROXY_CORE},${LOAD_CORE}`,
    ready: /^headrace listening on http:\/\/[^:]+:(\d+)/,
  });
  return { name: `${cleaners} cleaner${cleaners === 1 ? '' : 's'}`, port: Number(match[1]), pid: child.pid, child };
}

async function withPeers(use) {
  const children = [];
  const start = async (name, args, ready) => {
    const { child, match } = await startChild({ name, command: process.execPath, args, core: LOAD_CORE, ready });
    children.push(child);
    return { child, numbers: match.slice(1).map(Number) };
  };
  try {
    const folder = flags.pages === '' ? [] : [flags.pages];
    const site = await start('site', [path('../lib/fetch-site.mjs'), ...folder], /^ready (\d+) (\d+)$/);
    const crns = await start('upstream', [path('../lib/upstream.mjs'), '5'], /^ready (\d+) (\d+)$/);
    const [sitePort, pages] = site.numbers;
    const peers = [];
    for (const cleaners of flags.cleaners) {
      const peer = await startGateway(cleaners, { port: sitePort }, crns.numbers);
      children.push(peer.child);
      peers.push({ ...peer, sitePort, pages, upstreamPid: crns.child.pid });
    }
    return await use(peers);
  } finally {
    for (const child of children.reverse()) await stopChild(child);
  }
}

/** Chats alone, then the same beside a storm of fetches. */
async function runStorm(peer, ratePerS) {
  const alone = await runClient(peer, chats);
  const [beside, storm] = await Promise.all([runClient(peer, chats), runFetch(peer, { ...full, ratePerS })]);
  return { ...beside, alone, storm };
}

const { capacity, storms } = await withPeers(async (peers) => {
  const note = (part) => (text) => progress(`fetch, ${part}, ${text}`);
  const closed = await interleave(peers, flags.rounds, (peer) => runFetch(peer, full), note('closed loop'));
  const rates = Object.fromEntries(
    Object.entries(closed).map(([name, runs]) => [name, flags.share * spread(runs.map((run) => run.perSecond)).median]),
  );
  const beside = await interleave(peers, flags.rounds, (peer) => runStorm(peer, rates[peer.name]), note('storm'));
  return { capacity: closed, storms: beside };
});

const rounds = `${flags.rounds} rounds of ${flags.seconds} s: median (min-max)`;
const errorsOf = (runs) => {
  const count = runs.reduce((sum, { errors }) => sum + errors, 0);
  return `${count} ${runs.find(({ lastError }) => lastError)?.lastError ?? ''}`.trim();
};

printTable(
  `Pages of ${flags.pages === '' ? 'a made-up site' : flags.pages}, ${flags.connections} at once, ${rounds}`,
  ['gateway', 'pages/s', 'CPU ms/page', 'p50 ms', 'p99 ms', 'core 0', 'core 1', 'RSS MB', 'errors'],
  Object.entries(capacity).map(([name, runs]) => [
    name,
    show(spread(runs.map(({ perSecond }) => perSecond)), 0),
    show(spread(runs.map(({ cpuUs, requests }) => cpuUs.peer / 1000 / requests)), 2),
    show(spreadOf(runs, 'latencyMs').p50),
    show(spreadOf(runs, 'latencyMs').p99),
    percent(spread(runs.map(({ cores }) => cores[0].busy))),
    percent(spread(runs.map(({ cores }) => cores[1].busy))),
    spread(runs.map(({ rssBytes }) => rssBytes / 2 ** 20)).median.toFixed(0),
    errorsOf(runs),
  ]),
);

const more = (runs) => spread(runs.map((run) => run.latencyMs.p99 - run.alone.latencyMs.p99));
printTable(
  `${flags.chatsPerS} chats/s alone and beside a storm of fetches at ${percent({ median: flags.share })} of capacity, ${rounds}`,
  ['gateway', 'chat p99 ms alone', 'beside the storm', 'more', 'pages/s', 'core 0', 'core 1', 'errors'],
  Object.entries(storms).map(([name, runs]) => [
    name,
    show(
      spreadOf(
        runs.map(({ alone }) => alone),
        'latencyMs',
      ).p99,
      2,
    ),
    show(spreadOf(runs, 'latencyMs').p99, 2),
    show(more(runs), 2),
    show(spread(runs.map(({ storm }) => storm.perSecond)), 0),
    percent(spread(runs.map(({ cores }) => cores[0].busy))),
    percent(spread(runs.map(({ cores }) => cores[1].busy))),
    errorsOf(runs.flatMap((run) => [run, run.alone, run.storm])),
  ]),
);
for (const [name, runs] of Object.entries(storms)) {
  const { median } = more(runs);
  process.stdout.write(
    `\n${name}: p99 of chats grows by ${median.toFixed(2)} ms (goal ${GOAL_MORE_MS} ms: ${median < GOAL_MORE_MS ? 'met' : 'missed'})`,
  );
}
writeResult('fetch', startedAt, { flags, capacity, storms });
