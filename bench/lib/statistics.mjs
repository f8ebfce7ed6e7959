// Statistics of the benchmarks: medians with their spread, ratios within rounds, and the summary of a peer's runs for tables
// and plots.

/** Shares at which a distribution of latencies is kept. */
export const SHARES = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999];

/** Median, least and greatest of `values`; of none, zeros. */
export function spread(values) {
  if (values.length === 0) return { median: 0, min: 0, max: 0 };
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const median = sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  return { median, min: sorted[0], max: sorted.at(-1) };
}

/** The value at a share of a sorted list; NaN of none. */
export function quantile(sorted, share) {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

/** Percentiles of a latency field over the runs. */
export function spreadOf(list, field) {
  const of = (percentile) => spread(list.map((run) => run[field][percentile]));
  return { p50: of('p50'), p99: of('p99') };
}

/** Points `[ms, share]` of a latency field: at every share the median of the runs. */
export function distributionOf(list, field) {
  return SHARES.map((share, at) => [spread(list.map((run) => run[field].curve[at])).median, share]);
}

/**
 * Sums up the runs of every peer. `unitsOf(run)` is the number of requests, or streams, that its CPU time is divided
 * by. `ratio` is CPU per unit over that of `reference` in the same round.
 */
export function summarise(runs, unitsOf, reference = 'nginx') {
  const perUnit = (run) => run.cpuUs.peer / unitsOf(run);
  // Neither is a process that is not known, nor a peer that answered nothing in one of the windows.
  const areWatched = (list) => list.every((run) => run.cpuUs.peer > 0 && unitsOf(run) > 0);
  const base = runs[reference];
  return Object.entries(runs).map(([name, list]) => {
    const isWatched = areWatched(list);
    const ratio = (run, round) => perUnit(run) / perUnit(base[round]);
    return {
      name,
      cpuUs: isWatched ? spread(list.map(perUnit)) : null,
      userUs: isWatched ? spread(list.map((run) => (run.userUs?.peer ?? 0) / unitsOf(run))) : null,
      systemUs: isWatched ? spread(list.map((run) => (run.systemUs?.peer ?? 0) / unitsOf(run))) : null,
      ratio: base !== undefined && areWatched(base) && isWatched ? spread(list.map(ratio)) : null,
      perSecond: spread(list.map((run) => unitsOf(run) / run.seconds)),
      peerUse: spread(list.map((run) => run.cpuUs.peer / 1e6 / run.seconds)),
      foreignUse: spread(list.map((run) => foreignUse(run, name))),
      loadCoreUse: spread(list.map((run) => run.cores[1].busy)),
      latencyMs: spreadOf(list, 'latencyMs'),
      distribution: distributionOf(list, 'latencyMs'),
      rssMb: spread(list.map((run) => run.rssBytes / 2 ** 20)),
      errors: list.reduce((sum, run) => sum + run.errors, 0),
      lastError: list.findLast((run) => run.lastError)?.lastError ?? '',
      threads: threadShares(list),
    };
  });
}

/** Share of the peer's core that others used: other processes, interrupts, the hypervisor. */
export function foreignUse({ cores, cpuUs, seconds }, name) {
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

/** Ratio of `branch` to `base` of a micro benchmark, round by round; null when one of them has no figures. */
export function ratioOf({ samples }, base, branch) {
  const [before, after] = [samples[base], samples[branch]];
  if (before === undefined || after === undefined) return null;
  return spread(after.slice(0, before.length).map((ns, round) => ns / before[round]));
}

/** Nanoseconds as text with a unit; `-` for NaN. */
export function formatNs(ns) {
  if (Number.isNaN(ns)) return '-';
  const [value, unit] = ns < 10_000 ? [ns, 'ns'] : ns < 1e7 ? [ns / 1e3, 'us'] : [ns / 1e6, 'ms'];
  return `${value < 100 ? value.toFixed(1) : value.toFixed(0)} ${unit}`;
}

/** The part of a summary that results keep: no curves of distributions. */
export function figuresOf(summary) {
  return summary.map((peer) => Object.fromEntries(Object.entries(peer).filter(([, value]) => !isCurve(value))));
}

function isCurve(value) {
  return Array.isArray(value) && Array.isArray(value[0]);
}
