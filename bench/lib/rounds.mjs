// Runs peers in interleaved rounds: every peer runs once per round, in rotating order, so that a change of the machine affects
// all of them alike. Ratios are taken within a round.

import { fileURLToPath } from 'node:url';
import { LOAD_CORE } from './cores.mjs';
import { rssBytes, runChild, threadCpuUs } from './process.mjs';

const CLIENT = fileURLToPath(new URL('client.mjs', import.meta.url));

/** Runs the chat load client once against `peer`. */
export function runClient(peer, load) {
  const { port, path, headers, answerBytes, answerEvents, slow = 1 } = peer;
  const watch = { peer: peer.pid, upstream: peer.upstreamPid };
  // An upload is answered as everything else is; a peer that was not asked before has neither.
  const answer = { ...(answerBytes && { answerBytes }), ...(answerEvents && { answerEvents }) };
  // A slow peer has a longer window: in a short one it would not answer every connection once.
  const times = { warmupMs: load.warmupMs * slow, durationMs: load.durationMs * slow };
  return runChild({
    name: `client of ${peer.name}`,
    command: process.execPath,
    args: [CLIENT, JSON.stringify({ ...load, ...answer, ...times, port, path, headers, watch })],
    core: LOAD_CORE,
  });
}

/** Runs of each peer for `rounds` rounds: a warm-up round is added, except for a single round. */
export function turnsOf(rounds) {
  return rounds === 1 ? 1 : rounds + 1;
}

/**
 * Runs `rounds` rounds of `run(peer, isWarmUp)` after a warm-up round (none if `isWarm`, or for a single round); calls `step(text)`
 * before each run. Resolves with the runs of each peer, in round order, each with the peer's memory after it and the CPU
 * time of its threads.
 */
export async function interleave(peers, rounds, run, step, isWarm = false) {
  const runs = Object.fromEntries(peers.map(({ name }) => [name, []]));
  for (let round = isWarm || turnsOf(rounds) === rounds ? 1 : 0; round <= rounds; round++) {
    for (let turn = 0; turn < peers.length; turn++) {
      const peer = peers[(turn + round) % peers.length];
      step(`${round === 0 ? 'warm-up' : `round ${round}/${rounds}`} ${peer.name}`);
      const before = threadCpuUs(peer.pid);
      const result = await run(peer, round === 0);
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
