// Command of the simulation of locality over several seeds: policies beside an oracle, and ours without each term, on a fleet in virtual time. Prints two tables;
// `--docs` writes them into docs/locality.md. The same on any machine and at any load: nothing in it takes the time.
//
//   node bench/locality/side-by-side.mjs [--trace NAME=FILE@BLOCKS[/BLOCKS]]… [--seeds 3] [--docs]

import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { createSeededRandom } from '../../dist/src/actor/index.js';
import { simulate } from './fleet.mjs';
import { conversationHash, leastLoad, loaded, longestMatch, mean, oracle, ours } from './simulation.mjs';
import { cacheBlocks, generate, readTrace, WORKLOADS } from './traces.mjs';

const SERVERS = 8;

/** Use of the fleet when the oracle routes. */
const USE = 0.6;

/** Requests of a trace come up to this much later, a different time for each seed, in milliseconds. */
const JITTER_MS = 4000;

const POLICIES = {
  ours: (blocks, seed) => ours({ cacheBlocks: blocks, seed }),
  'ours, with sessions': (blocks, seed) => ours({ cacheBlocks: blocks, session: true, seed }),
  'ours, 4 threads': (blocks, seed) => ours({ cacheBlocks: blocks, threads: 4, seed }),
  '2 of ours': (blocks, seed) => ours({ cacheBlocks: blocks, gateways: 2, seed }),
  'conversation hash': (_, seed) => conversationHash({ seed }),
  '2 of those': (_, seed) => conversationHash({ gateways: 2, seed }),
  'longest match': (blocks, seed) => longestMatch({ cacheBlocks: blocks, seed }),
  'least load': (_, seed) => leastLoad({ seed }),
};

/** Settings of ours that differ from the defaults. */
const WITHOUT = {
  'all terms': {},
  'backlog weighs more: `missWeight: 1`': { missWeight: 1 },
  'backlog weighs less: `missWeight: 4`': { missWeight: 4 },
  'no requests in flight: `requestBytes: 0`': { requestBytes: 0 },
  'nothing is common: `commonShare: 0`': { commonShare: 0 },
  'all are equally fast: `speedWeight: 0`': { speedWeight: 0 },
  'no prior: `prior: 0`': { prior: 0 },
  'no caches: `affinity: false`': { affinity: false },
};

const { values: flags } = parseArgs({
  options: { trace: { type: 'string', multiple: true }, seeds: { type: 'string' }, docs: { type: 'boolean' } },
});
const seeds = Array.from({ length: Number(flags.seeds ?? 3) }, (_, at) => at + 1);

/** Workloads with the blocks of a cache: those of the goals, and two sizes of each trace. */
function workloads() {
  const list = [];
  for (const text of flags.trace ?? []) {
    const [, name, file, sizes] = /^([\w-]+)=(.+)@([\d/]+)$/.exec(text) ?? [];
    if (name === undefined) throw new Error(`--trace ${text}: expected NAME=FILE@BLOCKS[/BLOCKS]`);
    const trace = readTrace(readFileSync(file, 'utf8'), name);
    for (const blocks of sizes.split('/').map(Number)) {
      list.push({ name: `${name} (trace)`, blocks, make: (seed) => jittered(trace, seed) });
    }
  }
  for (const [name, { blocks, shares = [0] }] of Object.entries(WORKLOADS)) {
    for (const share of shares) {
      const make = (seed) => generate(name, { seed });
      list.push({ name, blocks: blocks ?? cacheBlocks(make(1), share, SERVERS), make });
    }
  }
  return list;
}

function jittered(requests, seed) {
  const random = createSeededRandom(seed);
  return requests
    .map((request) => ({ ...request, atMs: request.atMs + random() * JITTER_MS }))
    .sort((a, b) => a.atMs - b.atMs);
}

const geometric = (values) => Math.exp(mean(values.map(Math.log)));
const seconds = (ms) => (ms < 995 ? `${Math.round(ms)}` : `${(ms / 1000).toFixed(1)} s`);

/** Means over the seeds, relative to the oracle with the same seed. */
function compared(results, baseline) {
  const relative = (field) => mean(results.map((result, at) => result[field] / baseline[at][field]));
  return {
    hits: relative('hitRate'),
    mean: relative('mean'),
    p90: relative('p90'),
    p99: relative('p99'),
    busy: mean(results.map(({ imbalance }) => imbalance)),
  };
}

const short = ({ hits, p99 }) => `${hits.toFixed(2)} · ${p99 < 9.95 ? p99.toFixed(2) : Math.round(p99)}`;

function table(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

const rows = [];
const sums = Object.fromEntries(Object.keys(WITHOUT).map((name) => [name, []]));
for (const workload of workloads()) {
  const { blocks, name } = workload;
  const fleet = { servers: SERVERS, cacheBlocks: blocks };
  const requests = loaded(workload.make, seeds, fleet, USE);
  const run = (policyOf) => requests.map((each, at) => simulate(each, fleet, policyOf(blocks, seeds[at])));
  const best = run((_, seed) => oracle({ seed }));
  const of = (field) => mean(best.map((result) => result[field]));
  const row = [`${name}, ${blocks}`, `${of('hitRate').toFixed(3)} · ${seconds(of('p99'))}`];
  for (const [policy, make] of Object.entries(POLICIES)) {
    const result = compared(run(make), best);
    row.push(policy === 'ours' ? `${short(result)} · ${result.busy.toFixed(2)}` : short(result));
  }
  rows.push(row);
  for (const [term, settings] of Object.entries(WITHOUT)) {
    sums[term].push(
      compared(
        run((size, seed) => ours({ cacheBlocks: size, settings, seed })),
        best,
      ),
    );
  }
  process.stderr.write(`${row.join('  ')}\n`);
}
const columns = [
  'workload, blocks of a cache',
  'oracle: hit rate · p99',
  'ours, busiest CRN / mean',
  ...Object.keys(POLICIES).slice(1),
];
const terms = Object.entries(sums).map(([term, results]) => [
  term,
  mean(results.map(({ hits }) => hits)).toFixed(3),
  ...['mean', 'p90', 'p99'].map((field) => geometric(results.map((result) => result[field])).toFixed(2)),
  Math.max(...results.map(({ busy }) => busy)).toFixed(2),
]);
const text = `Share of the oracle's hit rate · p99 of the time to first token relative to the oracle's. ${SERVERS} servers, caches in blocks of 512 tokens, ${Math.round(USE * 100)} % of the fleet used, means of ${seeds.length} seeds.

${table(columns, rows)}

Our picker with other settings, means over these workloads relative to the oracle:

${table(['', 'hit rate', 'mean time to first token', 'p90', 'p99', 'busiest CRN / mean, worst workload'], terms)}`;
console.log(text);
if (flags.docs === true) {
  const page = new URL('../../docs/locality.md', import.meta.url);
  const before = readFileSync(page, 'utf8');
  const marks = /(<!-- simulated: [^\n]* -->\n)[^]*?(<!-- \/simulated -->)/;
  if (!marks.test(before)) throw new Error('docs/locality.md has no marks for the simulation');
  writeFileSync(
    page,
    before.replace(marks, (_, from, to) => `${from}\n${text}\n\n${to}`),
  );
}
