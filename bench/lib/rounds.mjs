// Interleaved rounds: every peer runs once per round, in rotating order, so that a change of the machine hits all of
// them alike; ratios are taken within a round. Also turns a list of runs into medians.

import { fileURLToPath } from 'node:url';
import { LOAD_CORE } from './peers.mjs';
import { rssBytes, runChild, threadCpuUs } from './process.mjs';

const CLIENT = fileURLToPath(new URL('client.mjs', import.meta.url));

/** One run of our own client against `peer`. */
export function runClient(peer, load) {
  return runChild({
    name: `client of ${peer.name}`,
    command: process.execPath,
    args: [CLIENT, JSON.stringify({ ...load, port: peer.port, watch: { peer: peer.pid, upstream: peer.upstreamPid } })],
    core: LOAD_CORE,
  });
}

/**
 * Runs `rounds` rounds of `run(peer)` after one that is thrown away; calls `progress(text)` before each run. Answers
 * the runs of each peer, in round order, each with the peer's memory after it and the CPU time of its threads.
 */
export async function interleave(peers, rounds, run, progress) {
  const runs = Object.fromEntries(peers.map(({ name }) => [name, []]));
  for (let round = 0; round <= rounds; round++) {
    for (let turn = 0; turn < peers.length; turn++) {
      const peer = peers[(turn + round) % peers.length];
      progress(`${round === 0 ? 'warm-up' : `round ${round}/${rounds}`} ${peer.name}`);
      const before = threadCpuUs(peer.pid);
      const result = await run(peer);
      if (round === 0) continue;
      runs[peer.name].push({ ...result, rssBytes: rssBytes(peer.pid), threadsUs: threadsSince(before, peer.pid) });
    }
  }
  return runs;
}

function threadsSince(before, pid) {
  const now = threadCpuUs(pid);
  return Object.fromEntries(Object.keys(now).map((id) => [id, now[id] - (before[id] ?? 0)]));
}

/** Median, least and greatest of `values`. */
export function spread(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const median = sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  return { median, min: sorted[0], max: sorted.at(-1) };
}

/**
 * Sums up the runs of every peer. `unitsOf(run)` is the number of requests, or streams, that its CPU time is divided
 * by. `ratio` is CPU per unit over that of `reference` in the same round.
 */
export function summarise(runs, unitsOf, reference = 'nginx') {
  const perUnit = (run) => run.cpuUs.peer / unitsOf(run);
  return Object.entries(runs).map(([name, list]) => {
    const base = runs[reference];
    return {
      name,
      cpuUs: spread(list.map(perUnit)),
      ratio: base === undefined ? null : spread(list.map((run, round) => perUnit(run) / perUnit(base[round]))),
      perSecond: spread(list.map((run) => unitsOf(run) / run.seconds)),
      peerUse: spread(list.map((run) => run.cpuUs.peer / 1e6 / run.seconds)),
      foreignUse: spread(list.map((run) => foreignUse(run, name))),
      loadCoreUse: spread(list.map((run) => run.cores[1].busy)),
      latencyMs: spreadOf(list, 'latencyMs'),
      rssMb: spread(list.map((run) => run.rssBytes / 2 ** 20)),
      errors: list.reduce((sum, run) => sum + run.errors, 0),
      lastError: list.findLast((run) => run.lastError)?.lastError ?? '',
      threads: threadShares(list),
    };
  });
}

/** Percentiles of a latency field over the runs. */
export function spreadOf(list, field) {
  const of = (percentile) => spread(list.map((run) => run[field][percentile]));
  return { p50: of('p50'), p99: of('p99') };
}

/** Share of the peer's core that neither the peer nor idleness had: other processes, interrupts, the hypervisor. */
function foreignUse({ cores, cpuUs, seconds }, name) {
  const own = name === 'direct' ? 0 : cpuUs.peer / 1e6 / seconds;
  return Math.max(0, cores[0].busy - own) + cores[0].stolen;
}

/** Shares of the busiest threads of the process itself, largest first; the main thread is marked. */
function threadShares(list) {
  const totals = new Map();
  for (const { threadsUs } of list) {
    for (const [id, us] of Object.entries(threadsUs)) totals.set(id, (totals.get(id) ?? 0) + us);
  }
  const main = Math.min(...[...totals.keys()].map(Number));
  const sum = [...totals.values()].reduce((a, b) => a + b, 0) || 1;
  return [...totals]
    .map(([id, us]) => ({ main: Number(id) === main, share: us / sum }))
    .filter(({ share }) => share >= 0.002)
    .sort((a, b) => b.share - a.share);
}
