// Load benchmark of page fetching: pages from a local site, fetched and cleaned by one cleaner thread and by two, and the
// effect of these fetches on the latency of chats through the same gateway. The gateway may use both cores; site, model server
// and clients run on core 1 beside it. A part of ../run.mjs.

import { fileURLToPath } from 'node:url';
import { LOAD_CORE, PROXY_CORE } from '../lib/cores.mjs';
import { COMMON } from '../lib/flags.mjs';
import { startGateway } from '../lib/gateway.mjs';
import { runChild, startChild, stopChild } from '../lib/process.mjs';
import { percent, roundsText, show, showErrors } from '../lib/report.mjs';
import { rigNode } from '../lib/rig-node.mjs';
import { interleave, runClient, turnsOf } from '../lib/rounds.mjs';
import { distributionOf, spread, spreadOf, summarise } from '../lib/statistics.mjs';
import { ANSWER, MODEL } from '../lib/traffic.mjs';
import { bars, latencyPlot, watched } from './proxy.mjs';
import { cpuMs } from './search.mjs';

const GOAL_MORE_MS = 2;

/** Runs of chats are so many times as long as those of pages: their p99 needs more than the slowest two. */
const CHATS_LONGER = 3;

const { threads: _, profile: __, ...common } = COMMON;

export const part = {
  name: 'fetch',
  sentence: 'Pages fetched and cleaned, alone and beside proxied chats.',
  peers: [],
  flags: {
    ...common,
    pages: { type: 'word', default: '', help: 'folder with source.html.gz files; without one, pages are made up' },
    cleaners: { type: 'numbers', default: [1, 2], quick: [1], help: 'cleaner threads, one gateway each' },
    connections: { type: 'number', default: 16, help: 'pages asked for at once' },
    chatsPerS: { type: 'number', default: 200, help: 'chats per second beside the fetches' },
    share: { type: 'number', default: 0.5, help: 'rate of the fetches, as a share of what the gateway can fetch' },
  },
  steps: ({ cleaners, rounds }) => 2 * cleaners.length * turnsOf(rounds),
  measure,
};

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));

function runFetch(peer, load) {
  const { port, sitePort, pages, pid } = peer;
  return runChild({
    name: `fetch client of ${peer.name}`,
    command: process.execPath,
    args: [path('../lib/fetch-client.mjs'), JSON.stringify({ ...load, port, sitePort, pages, watch: { peer: pid } })],
    core: LOAD_CORE,
  });
}

async function withGateways(flags, use) {
  const children = [];
  const start = async (name, args, ready, command = process.execPath) => {
    const { child, match } = await startChild({ name, command, args, core: LOAD_CORE, ready });
    children.push(child);
    return { child, numbers: match.slice(1).map(Number) };
  };
  try {
    const folder = flags.pages === '' ? [] : [flags.pages];
    const site = await start('site', [path('../lib/fetch-site.mjs'), ...folder], /^ready (\d+) (\d+)$/);
    const crns = await start('upstream', [path('../lib/upstream.mjs'), '5'], /^ready (\d+) (\d+)$/, rigNode());
    const [sitePort, pages] = site.numbers;
    const peers = [];
    for (const cleaners of flags.cleaners) {
      const settings = {
        models: { [MODEL]: { servers: crns.numbers.map((port) => `http://127.0.0.1:${port}`) } },
        fetch: { allow: ['127.0.0.1'], ports: [sitePort], cacheTtl: null, cleaners, perHost: 256 },
      };
      const cores = `${PROXY_CORE},${LOAD_CORE}`;
      const { port, child } = await startGateway(settings, { cores, nodeFlags: flags.nodeFlags });
      children.push(child);
      const name = `${cleaners} cleaner${cleaners === 1 ? '' : 's'}`;
      const upstream = { name: 'direct', port: crns.numbers[0], pid: crns.child.pid };
      peers.push({ name, port, pid: child.pid, sitePort, pages, upstreamPid: crns.child.pid, upstream });
    }
    return await use(peers);
  } finally {
    for (const child of children.reverse()) await stopChild(child);
  }
}

async function measure(flags, rig) {
  const full = { connections: flags.connections, warmupMs: flags.warmUp * 1000, durationMs: flags.seconds * 1000 };
  const small = { stream: false, connections: 32, bodyBytes: 1000, answerBytes: ANSWER.length };
  const long = { ...full, durationMs: CHATS_LONGER * full.durationMs };
  const chats = { ...long, ...small, ratePerS: flags.chatsPerS };
  /** Chats with `target`, alone and beside fetches through `peer`. */
  const twice = async (target, peer, ratePerS) => {
    const alone = await runClient(target, chats);
    const [beside, fetched] = await Promise.all([runClient(target, chats), runFetch(peer, { ...long, ratePerS })]);
    return { ...beside, alone, fetches: fetched };
  };
  const runBeside = async (peer, ratePerS) => {
    const direct = await twice(peer.upstream, peer, ratePerS);
    return { ...(await twice(peer, peer, ratePerS)), direct };
  };
  await withGateways(flags, async (peers) => {
    const step = (what) => (text) => rig.step(`${what}, ${text}`);
    const capacity = await interleave(peers, flags.rounds, (peer) => runFetch(peer, full), step('closed loop'));
    rig.result({ ...capacityResult(flags, capacity), data: { runs: capacity } });
    const rate = ({ name }) => Math.max(1, flags.share * spread(capacity[name].map((run) => run.perSecond)).median);
    const runs = await interleave(peers, flags.rounds, (peer) => runBeside(peer, rate(peer)), step('beside chats'));
    rig.result({ ...besideResult(flags, runs), figures: besideFigures(runs), data: { runs } });
  });
}

const growthOf = ({ alone, latencyMs }) => latencyMs.p99 - alone.latencyMs.p99;

/** What the fetches do to chats through the gateway, beyond what they do to chats without it: site, model server and clients share a core. */
const moreOf = (run) => growthOf(run) - growthOf(run.direct);

function besideFigures(runs) {
  const peers = Object.entries(runs).map(([name, list]) => ({
    name,
    alone: spreadOf(
      list.map((run) => run.alone),
      'latencyMs',
    ).p99,
    beside: spreadOf(list, 'latencyMs').p99,
    growth: spread(list.map(growthOf)),
    direct: spread(list.map(({ direct }) => growthOf(direct))),
    more: spread(list.map(moreOf)),
    pagesPerSecond: spread(list.map(({ fetches }) => fetches.perSecond)),
    errors: list.flatMap(partsOf).reduce((sum, { errors }) => sum + errors, 0),
  }));
  return { scenario: 'chats beside pages', peers };
}

const partsOf = (run) => [run, run.direct].flatMap((one) => [one, one.alone, one.fetches]);

function errorsOf(runs) {
  const errors = runs.reduce((sum, run) => sum + run.errors, 0);
  return showErrors({ errors, lastError: runs.find(({ lastError }) => lastError)?.lastError ?? '' });
}

const busy = (runs, core) => percent(spread(runs.map(({ cores }) => cores[core].busy)));

function capacityResult(flags, capacity) {
  const all = summarise(capacity, ({ requests }) => requests);
  return {
    title: `Pages of ${flags.pages === '' ? 'a made-up site' : 'a folder'}, ${flags.connections} at once, ${roundsText(flags)}: median (min-max)`,
    columns: ['gateway', 'pages/s', 'CPU ms/page', 'p50 ms', 'p99 ms', 'core 0', 'core 1', 'RSS MB', 'errors'],
    rows: all.map((peer) => [
      peer.name,
      show(peer.perSecond, 0),
      show(cpuMs(peer), 2),
      show(peer.latencyMs.p50),
      show(peer.latencyMs.p99),
      busy(capacity[peer.name], 0),
      busy(capacity[peer.name], 1),
      peer.rssMb.median.toFixed(0),
      showErrors(peer),
    ]),
    remarks: [],
    plots: [
      bars('CPU time per page', 'ms', watched(all), cpuMs),
      bars('Pages per second', 'pages/s', all, ({ perSecond }) => perSecond),
      latencyPlot('Latency of a page', all),
    ],
  };
}

function besideResult({ chatsPerS, share }, besideRuns) {
  const all = Object.entries(besideRuns).map(([name, runs]) => ({
    name,
    runs,
    alone: runs.map((run) => run.alone),
    more: spread(runs.map(moreOf)),
  }));
  const judged = ({ name, more: { median } }) =>
    `${name}: p99 of chats grows by ${median.toFixed(2)} ms more than without the gateway (goal ${GOAL_MORE_MS} ms: ${median < GOAL_MORE_MS ? 'met' : 'missed'}).`;
  return {
    title: `${chatsPerS} chats/s alone and beside fetches at ${percent({ median: share })} of capacity`,
    columns: [
      ...['gateway', 'chat p99 ms alone', 'beside fetches', 'growth', 'growth direct', 'more'],
      ...['pages/s', 'core 0', 'core 1', 'errors'],
    ],
    rows: all.map(({ name, runs, alone, more }) => [
      name,
      show(spreadOf(alone, 'latencyMs').p99, 2),
      show(spreadOf(runs, 'latencyMs').p99, 2),
      show(spread(runs.map(growthOf)), 2),
      show(spread(runs.map(({ direct }) => growthOf(direct))), 2),
      show(more, 2),
      show(spread(runs.map(({ fetches }) => fetches.perSecond)), 0),
      busy(runs, 0),
      busy(runs, 1),
      errorsOf(runs.flatMap(partsOf)),
    ]),
    remarks: all.map(judged),
    plots: [
      latencyPlot(
        'Latency of a chat',
        all.flatMap(({ name, runs, alone }) => [
          { name: `${name}, alone`, distribution: distributionOf(alone, 'latencyMs') },
          { name: `${name}, beside`, distribution: distributionOf(runs, 'latencyMs') },
        ]),
      ),
    ],
  };
}
