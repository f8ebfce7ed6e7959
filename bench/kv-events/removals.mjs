// What it would be worth to know every removed block of every cache, beside what cached tokens teach, in virtual time. Our picker runs
// with the block index as it is and with one that answers from the true caches: the most that KV events could bring if each
// stored chain were mapped to its prompt. Capacities are known to the index as KV events or CRNs tell them, or wrong by a factor.
//
//   node bench/kv-events/removals.mjs [--seeds 3]

import { parseArgs } from 'node:util';
import { BlockIndex } from '../../dist/src/routing/index.js';
import { simulate } from '../locality/fleet.mjs';
import { loaded, mean, ours } from '../locality/simulation.mjs';
import { cacheBlocks, generate, WORKLOADS } from '../locality/traces.mjs';

const SERVERS = 8;
const USE = 0.6;
/** Up to here a block of a cache is four of a prompt. */
const SHORT_BLOCKS = 32;

const { values: flags } = parseArgs({ options: { seeds: { type: 'string', default: '3' } } });
const seeds = Array.from({ length: Number(flags.seeds) }, (_, at) => at + 1);

let current;

/** Finds what is in the caches at this moment. */
class TrueIndex extends BlockIndex {
  #servers;

  constructor({ blocks }, servers) {
    super(blocks);
    this.#servers = servers;
  }

  matched(member, _hashes, count) {
    const held = this.#servers[member].cache.matched(current.ids, current.whole);
    return Math.min(count, Math.min(held, SHORT_BLOCKS) * 4 + Math.max(held - SHORT_BLOCKS, 0));
  }
}

/** The policy, with the request that is being placed at hand. */
const placed = (make) => (servers) => {
  const policy = make(servers);
  const { choose } = policy;
  policy.choose = function (request, nowMs) {
    current = request;
    return choose.call(this, request, nowMs);
  };
  return policy;
};

const POLICIES = {
  'index, capacity as events tell': (blocks, seed) => ours({ cacheBlocks: blocks, seed }),
  'true caches': (blocks, seed) =>
    placed(ours({ cacheBlocks: blocks, seed, makeIndex: (memory, servers) => new TrueIndex(memory, servers) })),
  'index, capacity × 4 at first': (blocks, seed) => ours({ cacheBlocks: blocks, capacityFactor: 4, seed }),
  'index, capacity ÷ 4 at first': (blocks, seed) => ours({ cacheBlocks: blocks, capacityFactor: 1 / 4, seed }),
};

console.log(`workload, blocks of a cache | ${Object.keys(POLICIES).join(' | ')} (hit rate · p99 ms)`);
for (const [name, { blocks: fixed, shares = [0] }] of Object.entries(WORKLOADS)) {
  for (const share of shares) {
    const make = (seed) => generate(name, { seed });
    const blocks = fixed ?? cacheBlocks(make(1), share, SERVERS);
    const fleet = { servers: SERVERS, cacheBlocks: blocks };
    const requests = loaded(make, seeds, fleet, USE);
    const cells = Object.values(POLICIES).map((policy) => {
      const results = requests.map((each, at) => simulate(each, fleet, policy(blocks, seeds[at])));
      return `${mean(results.map(({ hitRate }) => hitRate)).toFixed(4)} · ${mean(results.map(({ p99 }) => p99)).toFixed(0)}`;
    });
    console.log(`${name}, ${blocks} | ${cells.join(' | ')}`);
  }
}
