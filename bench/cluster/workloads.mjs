// Workloads for fleets of any size: requests of `../locality/traces.mjs` for each eight CRNs, side by side, at times at which an oracle keeps
// the fleet busy for a given share.

import { simulate } from '../locality/fleet.mjs';
import { oracle, prepared } from '../locality/simulation.mjs';
import { cacheBlocks, generate, WORKLOADS } from '../locality/traces.mjs';

/** CRNs of one part of a fleet. */
const PART_CRNS = 8;

/** Rounds of the search for the speed, and how near is near enough. */
const ROUNDS = 8;
const NEAR = 0.01;

/** First blocks of a workload that all its parts have in common: what is popular with some is popular with all. */
const COMMON_BLOCKS = { hot: 8 };

/**
 * Requests for `crns` CRNs, `perPart` for each eight of them, with the size of a cache: `{ requests, cacheBlocks }`. Parts have users, prompts and documents of
 * their own. `use`: share of the fleet that an oracle uses. `burstMs`: the requests of so many milliseconds come at once.
 */
export function fleetWorkload(name, { crns, perPart, seed = 1, use = 0.6, burstMs = 0 }) {
  const parts = Math.max(1, Math.round(crns / PART_CRNS));
  const { blocks, shares = [0] } = WORKLOADS[name];
  const first = generate(name, { seed, requests: perPart });
  const size = blocks ?? cacheBlocks(first, shares[0], PART_CRNS);
  const factor = stretchOf(first, { servers: PART_CRNS, cacheBlocks: size }, use);
  const all = [];
  let nextId = 0;
  for (let part = 0; part < parts; part++) {
    const requests = part === 0 ? first : generate(name, { seed: seed + part * 101, requests: perPart });
    const offset = nextId;
    const common = part === 0 ? 0 : (COMMON_BLOCKS[name] ?? 0);
    for (const request of requests) {
      let atMs = request.atMs * factor;
      if (burstMs > 0) atMs = Math.floor(atMs / burstMs) * burstMs;
      const ids = request.blocks.map((id) => (id < common ? id : id + offset));
      for (const id of ids) if (id >= nextId) nextId = id + 1;
      all.push({ ...request, atMs, blocks: ids, conversation: `${part}-${request.conversation}` });
    }
  }
  all.sort((a, b) => a.atMs - b.atMs);
  return { requests: prepared(all), cacheBlocks: size, crns: parts * PART_CRNS };
}

/** How many times slower than made requests must come, so that the oracle uses the share `use` of the fleet. */
function stretchOf(requests, fleet, use) {
  let factor = 1;
  for (let round = 0; round < ROUNDS; round++) {
    const stretched = prepared(requests.map((each) => ({ ...each, atMs: each.atMs * factor })));
    const { utilisation } = simulate(stretched, fleet, oracle());
    if (Math.abs(utilisation - use) < NEAR) break;
    factor *= utilisation / use;
  }
  return factor;
}
