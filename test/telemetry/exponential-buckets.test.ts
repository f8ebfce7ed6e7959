// Exponential buckets: every value is in the bucket of its bounds, and quantiles of realistic times are right, in the process, in
// native histograms and in the buckets of the text.

import t from 'tap';
import { createSeededRandom } from '../../src/actor/index.ts';
import {
  boundOf,
  BUCKETS,
  bucketOf,
  bucketsBetween,
  LOWEST,
  quantileOf,
} from '../../src/telemetry/exponential-buckets.ts';
import { metricsText } from '../../src/telemetry/exposition.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { Distribution } from '../../src/telemetry/series.ts';

t.test('a value is in the bucket whose bounds it lies between, the upper one inclusive', async (t) => {
  const random = createSeededRandom(1);
  const wrong: string[] = [];
  for (let round = 0; round < 20_000; round++) {
    const value = 2 ** (random() * 30 - 17);
    const bucket = bucketOf(value);
    // Bounds are kept to a millionth.
    const isAbove = bucket === 0 || value > boundOf(bucket - 1) * (1 - 1e-6);
    if (!isAbove || value > boundOf(bucket) * (1 + 1e-6)) wrong.push(`${value} in ${bucket}`);
  }
  t.same(wrong, []);
  for (const exponent of [-16, -3, -1, 0, 1, 5, 12]) {
    const value = 2 ** exponent;
    t.equal(boundOf(bucketOf(value)), value, 'a power of 2 is a bound, and in the bucket below it');
    t.equal(bucketOf(value * 1.001), bucketOf(value) + 1);
  }
  for (let bucket = 1; bucket < BUCKETS - 1; bucket++) {
    t.ok(Math.abs(boundOf(bucket) / boundOf(bucket - 1) - 2 ** (1 / 16)) < 1e-9);
  }
});

t.test('what is beyond the bounds is in the first and the last bucket', async (t) => {
  for (const value of [0, -0, -1, -Infinity, 1e-300, LOWEST / 2, LOWEST]) t.equal(bucketOf(value), 0, String(value));
  for (const value of [4097, 1e9, Infinity, NaN]) t.equal(bucketOf(value), BUCKETS - 1, String(value));
  t.equal(bucketOf(4096), BUCKETS - 2);
  t.equal(boundOf(BUCKETS - 1), Infinity);
  const counts = new Float64Array(BUCKETS);
  t.equal(quantileOf(counts, 0.5), null);
  counts[BUCKETS - 1] = 3;
  t.equal(quantileOf(counts, 0.5), 4096, 'nothing is known but that it is more');
  counts.fill(0)[0] = 3;
  t.ok((quantileOf(counts, 0.99) ?? 1) <= LOWEST);
});

t.test('bounds for the text are bounds of buckets', async (t) => {
  const buckets = bucketsBetween(-2, 1, 8);
  t.equal(buckets.length, 25);
  t.same(
    [0, 8, 16, 24].map((at) => boundOf(buckets[at] as number)),
    [0.25, 0.5, 1, 2],
  );
});

const random = createSeededRandom(7);
const normal = (): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
const lognormal = (median: number, sigma: number) => (): number => median * Math.exp(sigma * normal());

/** Times in seconds as gateways see them. */
const SMOOTH: Readonly<Record<string, () => number>> = {
  'lognormal, narrow': lognormal(0.35, 0.15),
  'lognormal, wide': lognormal(2.3, 0.9),
  exponential: () => -Math.log(1 - random()) * 0.8,
  uniform: () => 0.05 + random() * 1.7,
  'bimodal: cached and not': () => (random() < 0.7 ? lognormal(0.12, 0.25)() : lognormal(2.5, 0.3)()),
};
const QUANTILES = [0.5, 0.9, 0.95, 0.99] as const;
const OBSERVATIONS = 30_000;

/** The quantile of a list, as Prometheus ranks. */
function exactOf(sorted: readonly number[], quantile: number): number {
  return sorted[Math.ceil(quantile * sorted.length) - 1] as number;
}

/** `histogram_quantile` of Prometheus for classic histograms: straight lines within a bucket. */
function promqlQuantile(buckets: readonly (readonly [le: number, count: number])[], quantile: number): number {
  const rank = quantile * (buckets.at(-1)?.[1] ?? 0);
  const at = buckets.findIndex(([, count]) => count >= rank);
  const [upper, count] = buckets[at] as readonly [number, number];
  const [lower, below] = buckets[at - 1] ?? [0, 0];
  return lower + ((upper - lower) * (rank - below)) / (count - below);
}

interface Seen {
  readonly sorted: readonly number[];
  readonly inProcess: (quantile: number) => number;
  readonly text: (quantile: number) => number;
}

function observe(draw: () => number): Seen {
  const metrics = new Metrics();
  const { duration } = metrics.of('/v1/chat/completions', 'm');
  const alone = new Distribution();
  const sorted = Array.from({ length: OBSERVATIONS }, draw).toSorted((a, b) => a - b);
  for (const value of sorted) {
    duration.observe(value);
    alone.observe(value);
  }
  const all = new Float64Array(BUCKETS);
  alone.addTo(all);
  const lines = metricsText([metrics.snapshot()]).matchAll(
    /^headrace_request_duration_seconds_bucket\{le="([^"]+)"[^}]*\} (\d+)$/gm,
  );
  const buckets = Array.from(
    lines,
    ([, le, count]) => [Number(le?.replace('+Inf', 'Infinity')), Number(count)] as const,
  );
  return {
    sorted,
    inProcess: (quantile) => quantileOf(all, quantile) as number,
    text: (quantile) => promqlQuantile(buckets, quantile),
  };
}

function errorOf(value: number, exact: number): number {
  return Math.abs(value / exact - 1);
}

for (const [name, draw] of Object.entries(SMOOTH)) {
  t.test(`quantiles are right within 5 %, in the process within 3 %: ${name}`, async (t) => {
    const { inProcess, sorted, text } = observe(draw);
    for (const quantile of QUANTILES) {
      const exact = exactOf(sorted, quantile);
      t.ok(errorOf(inProcess(quantile), exact) < 0.03, `${quantile}: ${inProcess(quantile)}, exactly ${exact}`);
      t.ok(errorOf(text(quantile), exact) < 0.05, `${quantile} of the text: ${text(quantile)}, exactly ${exact}`);
    }
  });
}

t.test('of one time that never varies: within a bucket, 4.4 %, and of the text 9.1 %', async (t) => {
  for (let at = 0; at < 40; at++) {
    const constant = 0.02 * 1.19 ** at;
    const { inProcess, text } = observe(() => constant);
    for (const quantile of QUANTILES) {
      t.ok(errorOf(inProcess(quantile), constant) < 0.0443, `${quantile} of ${constant}: ${inProcess(quantile)}`);
      t.ok(errorOf(text(quantile), constant) < 0.0906, `${quantile} of ${constant} in the text: ${text(quantile)}`);
    }
    t.ok(errorOf(text(0.5), constant) < 0.0453, `the median of ${constant} in the text: ${text(0.5)}`);
  }
});
