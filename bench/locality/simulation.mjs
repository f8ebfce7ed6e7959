// Policies of choice for the fleet in virtual time: `../../dist` must be built. Ours is the gateway's own picker, block index and feedback; the
// others are small re-implementations. Every policy is deterministic for its seed.

import { createSeededRandom } from '../../dist/src/actor/index.js';
import * as config from '../../dist/src/config/load.js';
import * as routing from '../../dist/src/routing/index.js';
import { createPlanes, pickerDefaults } from '../lib/picker-planes.mjs';
import { BLOCK_TOKENS, simulate } from './fleet.mjs';

/** Bytes of text of a block of tokens, at 4 a token. */
const BLOCK_BYTES = 2048;

/** Blocks of the gateway are shorter than those of the caches up to here, then as long: see `block-index.ts`. */
const SHORT_BYTES = 512;
const SHORT_UNTIL = 65_536 / BLOCK_BYTES;

/** The settings of a gateway that sets none, without a slow start. */
export const DEFAULTS = { ...pickerDefaults(config), slowStartMs: 0 };

/** Adds what a policy sees to requests of `traces.mjs`: whole blocks for the caches, and the chained hashes that a gateway makes of them. */
export function prepared(requests) {
  return requests.map(({ atMs, blocks, conversation, inputTokens, outputTokens }) => {
    const hashes = [];
    blocks.forEach((id, at) => {
      const bytes = (Math.min(inputTokens - at * BLOCK_TOKENS, BLOCK_TOKENS) * BLOCK_BYTES) / BLOCK_TOKENS;
      const size = at < SHORT_UNTIL ? SHORT_BYTES : BLOCK_BYTES;
      for (let part = 0; part < Math.floor(bytes / size); part++)
        hashes.push(spreadBits(id * 8 + part, 1), spreadBits(id * 8 + part, 2));
    });
    return {
      ...{ atMs, conversation, inputTokens, outputTokens, ids: blocks },
      whole: Math.floor(inputTokens / BLOCK_TOKENS),
      key: routing.hashText(conversation) || 1,
      prompt: {
        hashes: Int32Array.from(hashes),
        count: hashes.length / 2,
        bytes: Math.round((inputTokens * BLOCK_BYTES) / BLOCK_TOKENS),
      },
    };
  });
}

/** Two independent hashes of a number (finaliser of MurmurHash3). */
function spreadBits(value, seed) {
  let hash = Math.imul(value + 1, 0x9e3779b1) ^ Math.imul(seed, 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}

/** The same cost as ours, with what nobody can know: the true caches and backlogs. */
export function oracle({ missWeight = 2, requestTokens = 1024, commonShare = 0.2, seed = 1 } = {}) {
  return (servers) => {
    const random = createSeededRandom(seed);
    const common = new routing.CommonPrefixes();
    return {
      choose({ ids, inputTokens, prompt, whole }) {
        const { count, hashes } = prompt;
        common.note(1, hashes, count);
        const shared = (routing.blockBytes(common.leading(1, hashes, count, commonShare)) / BLOCK_BYTES) * BLOCK_TOKENS;
        const costs = servers.map((server) => {
          const held = Math.max(server.cache.matched(ids, whole) * BLOCK_TOKENS, shared);
          const miss = Math.max(1, inputTokens - held);
          return server.backlogTokens + missWeight * miss + requestTokens * server.requests + random();
        });
        return leastOf(costs);
      },
    };
  };
}

/** The fewest requests in flight. */
export function leastLoad({ seed = 1 } = {}) {
  return (servers) => {
    const random = createSeededRandom(seed);
    return { choose: () => leastOf(servers.map(({ requests }) => requests + random() / 2)) };
  };
}

/** Rendezvous hashing of conversations with bounded load, as before the block index. */
export function conversationHash({ bound = 1.25, gateways = 1, seed = 1 } = {}) {
  return (servers) => {
    const random = createSeededRandom(seed);
    const loads = Array.from({ length: gateways }, () => servers.map(() => 0));
    return {
      choose({ key }) {
        const load = loads[Math.floor(random() * gateways)];
        this.state = load;
        const most = Math.max(4, Math.ceil(((sum(load) + 1) / load.length) * bound));
        const order = servers
          .map((_, at) => at)
          .sort((a, b) => (spreadBits(key, b) >>> 0) - (spreadBits(key, a) >>> 0));
        const fit = order.find((at) => load[at] < most) ?? leastOf(load);
        load[fit]++;
        return fit;
      },
      onEnd: ({ server, state }) => void state[server]--,
    };
  };
}

/** Like the `cache_aware` policy of SMG: the longest match above a threshold, unless loads differ too much. */
export function longestMatch({ cacheBlocks, threshold = 0.3, absolute = 64, relative = 1.5, seed = 1 }) {
  return (servers) => {
    const random = createSeededRandom(seed);
    const known = servers.map(() => new Set());
    const load = servers.map(() => 0);
    return {
      choose({ ids, whole }) {
        const high = Math.max(...load);
        const low = Math.min(...load);
        let server;
        if (high - low > absolute && high > relative * low) {
          server = leastOf(load);
        } else {
          const matched = known.map((blocks) => {
            let at = 0;
            while (at < whole && blocks.has(ids[at])) at++;
            return at;
          });
          const most = Math.max(...matched);
          const isHit = whole > 0 && most / whole > threshold;
          server = leastOf(load.map((count, at) => (isHit && matched[at] < most ? Infinity : count + random() / 2)));
        }
        const blocks = known[server];
        for (let at = whole - 1; at >= 0; at--) {
          blocks.delete(ids[at]);
          blocks.add(ids[at]);
        }
        for (const id of blocks) {
          if (blocks.size <= cacheBlocks) break;
          blocks.delete(id);
        }
        load[server]++;
        return server;
      },
      onEnd: ({ server }) => void load[server]--,
    };
  };
}

/**
 * The gateway's own picker. `gateways` know nothing of each other; `threads` of each share their memory. `settings`: those that differ from
 * the defaults. `capacityFactor`: what is known of the size of the caches, relative to the truth. `session`: requests name their conversation.
 * `makeIndex`: the block index of a thread, given the memory and the servers.
 */
export function ours({
  cacheBlocks,
  gateways = 1,
  threads = 1,
  capacityFactor = 1,
  session = false,
  settings = {},
  makeIndex,
  seed = 1,
}) {
  return (servers) => {
    const random = createSeededRandom(seed);
    const clock = { nowMs: 0, now: () => clock.nowMs };
    const fleet = { count: servers.length, threads, clock, random };
    const made = Array.from({ length: gateways }, () =>
      createPlanes(routing, { ...fleet, makeIndex: makeIndex && ((memory) => makeIndex(memory, servers)) }),
    );
    const [{ model }] = made;
    const planes = made.flatMap((gateway) => gateway.planes);
    for (const { index } of planes) {
      servers.forEach((_, at) => index.setCapacity(at, cacheBlocks * BLOCK_BYTES * capacityFactor));
    }
    const picker = { ...DEFAULTS, ...settings };
    const picks = {};
    return {
      picks,
      choose({ key, prompt }, nowMs) {
        clock.nowMs = nowMs;
        const plane = planes[Math.floor(random() * planes.length)];
        const hint = {
          url: undefined,
          session: session ? key : 0,
          holder: 0,
          dialectBit: 0,
          translatedBit: 0,
          isUntranslatable: false,
          stream: true,
          bytes: prompt.bytes,
          blocks: () => prompt,
        };
        const candidates = new routing.Candidates(model, plane, picker, hint);
        const { server } = candidates.next();
        this.state = { candidates, plane };
        picks[candidates.affinity] = (picks[candidates.affinity] ?? 0) + 1;
        return server;
      },
      onFirst({ cachedTokens, request, server, state }, nowMs) {
        const { candidates, plane } = state;
        const { inputTokens, prompt } = request;
        clock.nowMs = nowMs;
        candidates.prefilled(candidates, nowMs - request.atMs);
        plane.feedback.answered(model.budget, server, {
          ...{ cachedTokens, promptBytes: prompt.bytes, promptTokens: inputTokens },
          predictedBytes: prompt.bytes - candidates.charged,
        });
      },
      onEnd: ({ server, state }) => state.plane.board.leave(server),
    };
  };
}

/**
 * Requests of `make(seed)` for each seed, in so much time that the oracle uses the share `use` of the fleet with the first one. `fleet`: see
 * `simulate`.
 */
export function loaded(make, seeds, fleet, use) {
  const stretched = (requests, factor) => prepared(requests.map((each) => ({ ...each, atMs: each.atMs * factor })));
  const raw = seeds.map(make);
  let factor = 1;
  for (let round = 0; round < 8; round++) {
    const { utilisation } = simulate(stretched(raw[0], factor), fleet, oracle());
    if (Math.abs(utilisation - use) < 0.01) break;
    factor *= utilisation / use;
  }
  return raw.map((requests) => stretched(requests, factor));
}

export function mean(values) {
  return sum(values) / values.length;
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

function leastOf(values) {
  return values.indexOf(Math.min(...values));
}
