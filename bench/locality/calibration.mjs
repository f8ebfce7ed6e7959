// How fast the hosts of a locality run prefill, so that its requests keep the fleet as busy as is wanted. Found in virtual time, with the
// oracle's choice, so it is the same on every machine.

import { BLOCK_TOKENS, simulate } from './fleet.mjs';

/** Found use of the fleet may differ from the wanted one by this much. */
const TOLERANCE = 0.01;
const MOST_STEPS = 8;
/** As of the oracle over HTTP: see block-engine.mjs. */
const MISS_WEIGHT = 2;
export const REQUEST_BYTES = 4096;

/**
 * Microseconds a token of the trace at which the oracle keeps `hosts` servers busy for the share `use` of the time. `speed` is that of the
 * hosts (see `BlockEngine`), `prefillTokenUs` excepted, in tokens of the trace too; a block of those is `blockBytes` of text.
 */
export function calibrate(requests, { hosts, cacheBlocks, blockBytes, speed, use }) {
  const requestTokens = (REQUEST_BYTES * BLOCK_TOKENS) / blockBytes;
  const work = requests.map((request) => ({
    ...request,
    ids: request.blocks,
    whole: Math.floor(request.inputTokens / BLOCK_TOKENS),
  }));
  const tokens = requests.reduce((sum, { inputTokens }) => sum + inputTokens, 0);
  const useAt = (prefillTokenUs) =>
    simulate(
      work,
      {
        servers: hosts,
        cacheBlocks,
        speed: {
          prefillMs: prefillTokenUs / 1000,
          stepMs: speed.stepUs / 1000,
          decodeMs: speed.sequenceUs / 1000,
          chunkTokens: speed.maxBatchTokens,
        },
      },
      knowingOracle(requestTokens),
    ).utilisation;
  // As if half of the tokens were in a cache; then by bisection, since use grows with the time of a token.
  let least = 0;
  let most = Infinity;
  let prefillTokenUs = (2000 * use * hosts * requests.at(-1).atMs) / tokens;
  for (let step = 0; step < MOST_STEPS; step++) {
    const found = useAt(prefillTokenUs);
    if (Math.abs(found - use) < TOLERANCE) break;
    if (found > use) most = prefillTokenUs;
    else least = prefillTokenUs;
    const next = (prefillTokenUs * use) / found;
    prefillTokenUs = next > least && next < most ? next : (least + Math.min(most, 4 * least)) / 2;
  }
  return prefillTokenUs;
}

/**
 * The gateway's cost with the true caches and backlogs, for `simulate`. As over HTTP, blocks that are on their way to a server count as
 * there. `requestTokens`: what a request in flight counts as.
 */
export function knowingOracle(requestTokens) {
  return (servers) => oracleOver(servers, requestTokens);
}

function oracleOver(servers, requestTokens) {
  let turn = 0;
  const pending = servers.map(() => new Map());
  const note = (index, { ids, whole }, change) => {
    for (let at = 0; at < whole; at++) pending[index].set(ids[at], (pending[index].get(ids[at]) ?? 0) + change);
  };
  const matched = (index, { ids, whole }) => {
    let at = 0;
    while (at < whole && (servers[index].cache.has(ids[at]) || pending[index].get(ids[at]) > 0)) at++;
    return at;
  };
  return {
    choose(request) {
      let best = 0;
      let bestCost = Infinity;
      turn++;
      for (let at = 0; at < servers.length; at++) {
        // Equal costs by turns.
        const index = (at + turn) % servers.length;
        const missing = request.inputTokens - matched(index, request) * BLOCK_TOKENS;
        const { backlogTokens, requests } = servers[index];
        const cost = backlogTokens + MISS_WEIGHT * missing + requestTokens * requests;
        if (cost >= bestCost) continue;
        best = index;
        bestCost = cost;
      }
      note(best, request, 1);
      return best;
    },
    onFirst: ({ request, server }) => note(server, request, -1),
  };
}
