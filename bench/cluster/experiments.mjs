// Experiments of the simulated cluster: which gateways, CRNs, lags, losses and faults are run over which workload, and what is kept of each
// run. Without CPU times the figures are the same on any machine.

import { simulate } from '../locality/fleet.mjs';
import { mean, oracle } from '../locality/simulation.mjs';
import { cluster } from './gateways.mjs';
import { fleetWorkload } from './workloads.mjs';

/** Lags of news in milliseconds, and losses as shares. */
export const LAGS_MS = [0, 20, 50, 200, 2000];
export const LOSSES = [0, 0.01, 0.1];

/** A cut of the engine, in milliseconds. */
const CUT_MS = 10_000;

/** Requests of so many milliseconds come at once, so that every gateway sees the same idle CRNs. */
const BURST_MS = 500;

/** Part of the run after which something happens, and for how long hits are counted from then on, as a part of the run. */
const EVENT_AT = 0.5;
const EVENT_FOR = 0.1;

/** CRNs of the experiments that do not vary them. */
const CRNS = 8;

/** Memory of an index: for each CRN, up to a power of two. The default of a gateway serves 128 CRNs of this size. */
const INDEX_BYTES_OF_CRN = 64 * 1024;
const LEAST_INDEX_BYTES = 8 * 1024 * 1024;

const indexBytes = (crns) => Math.max(LEAST_INDEX_BYTES, 2 ** Math.ceil(Math.log2(crns * INDEX_BYTES_OF_CRN)));

/**
 * The experiments: `{ name, title, workload, crns, burstMs, perPart, rows: [{ label, options }] }`. `options` are those of `cluster`, given the
 * time of the last request; null stands for the oracle. The first row with gateways is the one to compare with.
 */
export function experiments({ workloads, gateways, scale, requests, scaleRequests }) {
  const most = Math.max(...gateways);
  const one = { label: 'one gateway', options: () => ({ gateways: 1 }) };
  const all = [];
  for (const workload of workloads) {
    const on = (name, title, rows, more = {}) =>
      all.push({
        name,
        title: `${workload}: ${title}`,
        workload,
        crns: CRNS,
        perPart: requests,
        burstMs: 0,
        rows,
        ...more,
      });
    on('policies', 'policies', [
      one,
      ...gateways.map((count) => ({ label: `${count} shared`, options: () => ({ gateways: count }) })),
      ...gateways.map((count) => ({ label: `${count} unshared`, options: () => ({ gateways: count, shared: false }) })),
      { label: 'oracle', options: null },
    ]);
    on('lag', `lag of news, ${most} gateways`, [
      one,
      ...LAGS_MS.map((lagMs) => ({ label: `${lagMs} ms`, lagMs, options: () => ({ gateways: most, lagMs }) })),
      { label: 'unshared', options: () => ({ gateways: most, shared: false }) },
    ]);
    on('loss', `lost messages, ${most} gateways`, [
      one,
      ...LOSSES.map((loss) => ({ label: `${loss * 100} %`, options: () => ({ gateways: most, loss }) })),
      {
        label: `cut of ${CUT_MS / 1000} s`,
        options: (endMs) => ({ gateways: most, cut: { fromMs: endMs * EVENT_AT, toMs: endMs * EVENT_AT + CUT_MS } }),
      },
      {
        label: 'cut from the middle on',
        options: (endMs) => ({ gateways: most, cut: { fromMs: endMs * EVENT_AT, toMs: Infinity } }),
      },
      { label: 'unshared', options: () => ({ gateways: most, shared: false }) },
    ]);
    const from = (endMs) => ({ atMs: endMs * EVENT_AT, forMs: endMs * EVENT_FOR });
    on('starts', `an empty gateway, and one that dies, of ${most}`, [
      one,
      { label: 'neither', options: () => ({ gateways: most }) },
      {
        label: 'starts with a snapshot',
        options: (endMs) => ({ gateways: most, start: { ...from(endMs), snapshot: true } }),
      },
      { label: 'starts without', options: (endMs) => ({ gateways: most, start: { ...from(endMs), snapshot: false } }) },
      { label: 'one dies', options: (endMs) => ({ gateways: most, death: { atMs: endMs * EVENT_AT } }) },
    ]);
    on(
      'bursts',
      `bursts of ${BURST_MS} ms at once, ${most} gateways`,
      [
        one,
        ...LAGS_MS.slice(0, 4).map((lagMs) => ({ label: `${lagMs} ms`, options: () => ({ gateways: most, lagMs }) })),
        { label: 'unshared', options: () => ({ gateways: most, shared: false }) },
      ],
      { burstMs: BURST_MS },
    );
  }
  for (const [count, crns] of scale) {
    for (const workload of workloads.slice(0, 1)) {
      all.push({
        ...{ name: 'scale', title: `${workload}: ${count} gateways, ${crns} CRNs`, workload, crns, gateways: count },
        ...{ perPart: scaleRequests, burstMs: 0 },
        rows: [
          one,
          { label: `${count} shared`, options: () => ({ gateways: count, timed: true }) },
          { label: `${count} unshared`, options: () => ({ gateways: count, shared: false, timed: true }) },
        ],
      });
    }
  }
  return all;
}

/** Runs one experiment with each seed; `step(text)` is called before each run. Returns it with `rows: [{ label, figures }]`, means over the seeds. */
export function runExperiment({ rows, ...experiment }, { seeds, use }, step) {
  const { burstMs, crns, perPart, workload } = experiment;
  const results = rows.map(() => []);
  for (const seed of seeds) {
    const { cacheBlocks, crns: servers, requests } = fleetWorkload(workload, { crns, perPart, seed, use, burstMs });
    const endMs = requests.at(-1).atMs;
    rows.forEach(({ label, options }, at) => {
      step(`${experiment.title}, ${label}, seed ${seed}`);
      const own = { cacheBlocks, indexBytes: indexBytes(servers), seed };
      const policy = options === null ? oracle({ seed }) : cluster({ ...own, ...options(endMs) });
      results[at].push(simulate(requests, { servers, cacheBlocks }, policy));
    });
  }
  return { ...experiment, rows: rows.map(({ label, lagMs }, at) => ({ label, lagMs, figures: meansOf(results[at]) })) };
}

export const runsOf = (experiment, seeds) => experiment.rows.length * seeds.length;

/** Means of all numbers of results, in all depths; what is not in all of them is left out. */
function meansOf(results) {
  const figures = {};
  for (const [name, value] of Object.entries(results[0])) {
    const all = results.map((result) => result[name]);
    if (name === 'picks' || all.includes(undefined)) continue;
    figures[name] = typeof value === 'number' ? mean(all) : meansOf(all);
  }
  return figures;
}
