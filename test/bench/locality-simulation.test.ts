// Our picker beside an oracle on small workloads in virtual time: hits, time to first token, and how evenly it spreads requests.
import t from 'tap';
import { benchModule } from './modules.ts';

interface Result {
  readonly hitRate: number;
  readonly p99: number;
  readonly imbalance: number;
}

interface Request {
  readonly atMs: number;
}

type Policy = (servers: readonly object[]) => object;

interface Fleet {
  readonly simulate: (
    requests: readonly object[],
    fleet: { servers: number; cacheBlocks: number },
    policy: Policy,
  ) => Result;
}

interface Policies {
  readonly prepared: (requests: readonly Request[]) => object[];
  readonly oracle: (options: { seed: number }) => Policy;
  readonly ours: (options: { cacheBlocks: number; seed: number; threads?: number; gateways?: number }) => Policy;
  readonly conversationHash: (options: { gateways: number; seed: number }) => Policy;
}

interface Traces {
  readonly generate: (name: string, options: { seed: number; requests: number }) => Request[];
}

const { simulate } = await benchModule<Fleet>('locality/fleet.mjs');
const { conversationHash, oracle, ours, prepared } = await benchModule<Policies>('locality/simulation.mjs');
const { generate } = await benchModule<Traces>('locality/traces.mjs');

const SEEDS = [11, 12, 13];

/** Means over seeds that no default was chosen with, the times of requests stretched so that the fleet is used to about 60 %. */
function measure(
  name: string,
  requests: number,
  stretch: number,
  cacheBlocks: number,
): (policyOf: (seed: number) => Policy) => Result {
  const fleet = { servers: 8, cacheBlocks };
  const workloads = SEEDS.map((seed) =>
    prepared(generate(name, { seed, requests }).map((each) => ({ ...each, atMs: each.atMs * stretch }))),
  );
  return (policyOf) => {
    const results = workloads.map((each, at) => simulate(each, fleet, policyOf(SEEDS[at] as number)));
    const mean = (of: (result: Result) => number): number =>
      results.reduce((sum, result) => sum + of(result), 0) / SEEDS.length;
    return {
      hitRate: mean(({ hitRate }) => hitRate),
      p99: mean(({ p99 }) => p99),
      imbalance: mean(({ imbalance }) => imbalance),
    };
  };
}

for (const [name, requests, stretch, cacheBlocks, leastHits] of [
  ['agents', 800, 0.35, 462, 0.97],
  ['documents', 1200, 1.6, 700, 0.97],
  ['tenants', 1200, 1.4, 325, 0.95],
  ['hot', 1200, 1.7, 320, 0.97],
] as const) {
  t.test(
    `${name}: nearly the hits and the time to first token of an oracle, with one thread and with four`,
    async (t) => {
      const run = measure(name, requests, stretch, cacheBlocks);
      const best = run((seed) => oracle({ seed }));
      const one = run((seed) => ours({ cacheBlocks, seed }));
      const four = run((seed) => ours({ cacheBlocks, seed, threads: 4 }));
      t.ok(one.hitRate >= leastHits * best.hitRate, `hits ${one.hitRate} of ${best.hitRate}`);
      t.ok(one.p99 <= 1.15 * best.p99, `p99 ${one.p99} ms, ${best.p99} ms`);
      t.ok(Math.abs(four.hitRate / one.hitRate - 1) <= 0.02, `four threads: ${four.hitRate}`);
      if (name === 'hot') t.ok(one.imbalance <= 1.3, `busiest server ${one.imbalance} times the mean`);
    },
  );
}

t.test('two gateways that do not know of each other find more than with hashes of conversations', async (t) => {
  for (const [name, stretch, cacheBlocks] of [
    ['documents', 1.6, 700],
    ['tenants', 1.4, 325],
    ['agents', 0.35, 462],
  ] as const) {
    const run = measure(name, 1200, stretch, cacheBlocks);
    const hashed = run((seed) => conversationHash({ gateways: 2, seed }));
    const chosen = run((seed) => ours({ cacheBlocks, gateways: 2, seed }));
    t.ok(chosen.hitRate >= hashed.hitRate, `${name}: ${chosen.hitRate}, ${hashed.hitRate}`);
  }
});

t.test('conversations with one system prompt spread over the fleet', async (t) => {
  const run = measure('crowd', 2000, 3, 1000);
  const { imbalance } = run((seed) => ours({ cacheBlocks: 1000, seed }));
  t.ok(imbalance <= 1.1, `busiest server ${imbalance} times the mean`);
});
