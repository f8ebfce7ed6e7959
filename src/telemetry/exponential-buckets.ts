// Exponential buckets as in native histograms of Prometheus, schema 4: bounds are powers of 2^(1/16), so that two neighbours
// differ by 4.4 %. A quantile is wrong by at most that, whatever the distribution.

/** Buckets for each doubling. */
const PER_DOUBLING = 16;

/** Schema of native histograms: the base is 2^(2^-schema). */
export const SCHEMA = 4;

/** Everything up to 2^-16 (15 microseconds, in seconds) is one bucket: no clock of the gateway is finer. */
const LOWEST_EXPONENT = -16;
/** Above 2^12 (68 minutes) no request lives. */
const HIGHEST_EXPONENT = 12;

/** Values up to it are in the bucket 0. */
export const LOWEST: number = 2 ** LOWEST_EXPONENT;

/** Buckets of a histogram: 0 for values up to `LOWEST`, the last one for all beyond the highest bound. */
export const BUCKETS: number = (HIGHEST_EXPONENT - LOWEST_EXPONENT) * PER_DOUBLING + 2;

/** Index of the bucket 1 in a native histogram, where the bucket that ends at 1 has the index 0. */
export const NATIVE_OFFSET: number = LOWEST_EXPONENT * PER_DOUBLING + 1;

/** The bits of a double: the exponent and 20 bits of the mantissa are in the high word. */
const DOUBLE = new Float64Array(1);
const WORDS = new Int32Array(DOUBLE.buffer);
const HIGH_WORD = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1 ? 1 : 0;
const MANTISSA_BITS = 20;
const MANTISSA = 2 ** MANTISSA_BITS - 1;
const EXPONENT_BIAS = 1023;

/** The mantissa is looked up in parts so small that at most one bound is in each. */
const PART_BITS = 5;
const PART_SHIFT = MANTISSA_BITS - PART_BITS;
/** Bounds below each part, and the mantissa of the bound in it; no mantissa is above `MANTISSA`. */
const [BELOW, BOUND] = partsOf();

function partsOf(): [below: Uint8Array, bound: Int32Array] {
  const below = new Uint8Array(1 << PART_BITS);
  const bound = new Int32Array(1 << PART_BITS).fill(MANTISSA);
  const bounds = Array.from({ length: PER_DOUBLING }, (_, at) => Math.round((2 ** (at / PER_DOUBLING) - 1) * 2 ** 20));
  for (let part = 0; part < below.length; part++) {
    below[part] = bounds.filter((mantissa) => mantissa < part << PART_SHIFT).length;
    const inside = bounds.find((mantissa) => mantissa >> PART_SHIFT === part);
    if (inside !== undefined) bound[part] = inside;
  }
  return [below, bound];
}

/** Added to the exponent as it is stored, so that `LOWEST` is the upper bound of the bucket 0. */
const STORED_LOWEST = EXPONENT_BIAS + LOWEST_EXPONENT;

/**
 * The bucket of a value. Upper bounds are inclusive, exact to a millionth. What is not above 0 is in the bucket 0, what is
 * not a number in the last one.
 */
export function bucketOf(value: number): number {
  DOUBLE[0] = value;
  const high = WORDS[HIGH_WORD] as number;
  const mantissa = high & MANTISSA;
  const part = mantissa >> PART_SHIFT;
  const bucket =
    ((high >> MANTISSA_BITS) - STORED_LOWEST) * PER_DOUBLING +
    (BELOW[part] as number) +
    (mantissa > (BOUND[part] as number) ? 1 : 0);
  if (bucket < 0) return 0;
  return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

/** The upper bound of a bucket. */
export function boundOf(bucket: number): number {
  return bucket >= BUCKETS - 1 ? Infinity : 2 ** (LOWEST_EXPONENT + bucket / PER_DOUBLING);
}

/** The buckets whose bounds are `perDoubling` steps for each doubling from 2^`from` to 2^`to`: a part of all bounds. */
export function bucketsBetween(from: number, to: number, perDoubling: 1 | 2 | 4 | 8 | 16): number[] {
  const first = (from - LOWEST_EXPONENT) * PER_DOUBLING;
  return Array.from({ length: (to - from) * perDoubling + 1 }, (_, at) => first + (at * PER_DOUBLING) / perDoubling);
}

/**
 * A quantile of counts by bucket, in the unit of the observations; null without any. Within a bucket values are taken to be
 * spread evenly on a logarithmic scale.
 */
export function quantileOf(counts: ArrayLike<number>, quantile: number): number | null {
  let total = 0;
  for (let bucket = 0; bucket < counts.length; bucket++) total += counts[bucket] as number;
  if (total <= 0) return null;
  const rank = quantile * total;
  let below = 0;
  for (let bucket = 0; bucket < counts.length; bucket++) {
    const inside = counts[bucket] as number;
    if (inside > 0 && below + inside >= rank) return within(bucket, Math.max(rank - below, 0) / inside);
    below += inside;
  }
  return boundOf(BUCKETS - 2);
}

function within(bucket: number, share: number): number {
  if (bucket === 0) return LOWEST * share;
  const lower = boundOf(bucket - 1);
  return bucket === BUCKETS - 1 ? lower : lower * (boundOf(bucket) / lower) ** share;
}
