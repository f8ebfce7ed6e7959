// What each term of the choice is worth: the gateway's own picker with one of them left out at a time, beside other policies, in virtual
// time. The same workloads give the same figures on any machine.

import { calibrate, knowingOracle, REQUEST_BYTES } from './calibration.mjs';
import { BLOCK_TOKENS, simulate } from './fleet.mjs';
import { conversationHash, leastLoad, longestMatch, ours, prepared } from './simulation.mjs';

/** Bytes of a block of tokens in simulation.mjs. */
const BLOCK_BYTES = 2048;

/** Policies by name; each gets the blocks of a cache. The first is what the others are compared with. */
const VARIANTS = {
  oracle: () => knowingOracle((REQUEST_BYTES * BLOCK_TOKENS) / BLOCK_BYTES),
  'as it is': (cacheBlocks) => ours({ cacheBlocks }),
  '4 threads': (cacheBlocks) => ours({ cacheBlocks, threads: 4 }),
  '2 gateways': (cacheBlocks) => ours({ cacheBlocks, gateways: 2 }),
  '2 gateways, prior 0': (cacheBlocks) => ours({ cacheBlocks, gateways: 2, settings: { prior: 0 } }),
  'with sessions': (cacheBlocks) => ours({ cacheBlocks, session: true }),
  'missWeight 1': (cacheBlocks) => ours({ cacheBlocks, settings: { missWeight: 1 } }),
  'missWeight 4': (cacheBlocks) => ours({ cacheBlocks, settings: { missWeight: 4 } }),
  'requestBytes 0': (cacheBlocks) => ours({ cacheBlocks, settings: { requestBytes: 0 } }),
  'speedWeight 0': (cacheBlocks) => ours({ cacheBlocks, settings: { speedWeight: 0 } }),
  'commonShare 0': (cacheBlocks) => ours({ cacheBlocks, settings: { commonShare: 0 } }),
  'prior 0': (cacheBlocks) => ours({ cacheBlocks, settings: { prior: 0 } }),
  'affinity: false': (cacheBlocks) => ours({ cacheBlocks, settings: { affinity: false } }),
  'requests in flight': () => leastLoad(),
  'hash of the conversation, load bound 1.25': () => conversationHash(),
  'longest match': (cacheBlocks) => longestMatch({ cacheBlocks }),
};

/**
 * Results of all policies over `requests`, by name: `{ hitRate, p50, p90, p99, imbalance }`. `speed` is that of the servers in tokens of the
 * trace, and `use` the share of the time that the oracle keeps them busy, as for `calibrate`.
 */
export function simulateTerms(requests, { hosts, cacheBlocks, speed, use }) {
  const work = prepared(requests);
  const prefillTokenUs = calibrate(requests, { hosts, cacheBlocks, blockBytes: BLOCK_BYTES, speed, use });
  const settings = {
    ...{ servers: hosts, cacheBlocks },
    speed: {
      prefillMs: prefillTokenUs / 1000,
      stepMs: speed.stepUs / 1000,
      decodeMs: speed.sequenceUs / 1000,
      chunkTokens: speed.maxBatchTokens,
    },
  };
  const results = Object.entries(VARIANTS).map(([name, policy]) => [
    name,
    simulate(work, settings, policy(cacheBlocks)),
  ]);
  return Object.fromEntries(results);
}

/**
 * A table of the policies over scenarios `[{ title, results }]`: in each cell the hit rate and the p99 of the time to the first token, both as shares of
 * the oracle's.
 */
export function termsTable(scenarios) {
  const cell = ({ results }, name) => {
    const [base] = Object.values(results);
    const { hitRate, p99 } = results[name];
    return `${(hitRate / base.hitRate).toFixed(2)} · ${(p99 / base.p99).toFixed(2)}`;
  };
  const [first] = Object.keys(VARIANTS);
  return {
    title: 'Simulated: each term left out, and other policies',
    columns: ['policy', ...scenarios.map(({ title }) => title)],
    rows: Object.keys(VARIANTS).map((name) => [
      name,
      ...scenarios.map((scenario) =>
        name === first
          ? `${scenario.results[name].hitRate.toFixed(3)} · ${scenario.results[name].p99.toFixed(0)} ms`
          : cell(scenario, name),
      ),
    ]),
  };
}
