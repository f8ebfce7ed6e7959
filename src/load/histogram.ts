// A histogram of durations with 128 buckets per doubling: percentiles are within 0.8 % of the recorded values. Its size is
// bounded by the range (about 4,000 buckets from a microsecond to an hour), not by the number of values.
/** Buckets of one doubling; the middle of a bucket is at most 1/256 away from what lies in it. */
const PARTS = 128;
/** Below this nothing is told apart, in milliseconds. */
const UNIT_MS = 0.001;
/** 99.9 % of a thousand is one of them more by the arithmetic of doubles. */
const ROUNDING = 1e-6;

/** What a histogram says, in the unit of what it was given. Zeros when nothing was recorded. */
export interface HistogramSummary {
  readonly count: number;
  readonly mean: number;
  readonly min: number;
  readonly p50: number;
  readonly p90: number;
  readonly p95: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
}

/** Count, mean, least and most are exact; the percentiles are those of the buckets. */
export class Histogram {
  /** Counts by bucket; buckets of negative values have negative numbers. */
  readonly #counts = new Map<number, number>();
  #count = 0;
  #sum = 0;
  #min = Infinity;
  #max = -Infinity;

  get count(): number {
    return this.#count;
  }

  /** Adds a value, which may be negative (a difference of two measurements); what is no number is left out. */
  record(valueMs: number): void {
    if (!Number.isFinite(valueMs)) return;
    const bucket = bucketOf(valueMs);
    this.#counts.set(bucket, (this.#counts.get(bucket) ?? 0) + 1);
    this.#count++;
    this.#sum += valueMs;
    if (valueMs < this.#min) this.#min = valueMs;
    if (valueMs > this.#max) this.#max = valueMs;
  }

  /** Adds all that another one has. */
  merge(other: Histogram): void {
    for (const [bucket, count] of other.#counts) this.#counts.set(bucket, (this.#counts.get(bucket) ?? 0) + count);
    this.#count += other.#count;
    this.#sum += other.#sum;
    this.#min = Math.min(this.#min, other.#min);
    this.#max = Math.max(this.#max, other.#max);
  }

  /** The smallest recorded value that `percent` of all do not exceed; 0 when nothing was recorded. */
  percentile(percent: number): number {
    const rank = Math.max(1, Math.ceil((percent * this.#count) / 100 - ROUNDING));
    let seen = 0;
    for (const [bucket, count] of this.#sorted()) {
      seen += count;
      if (seen >= rank) return this.#within(middleOf(bucket));
    }
    return 0;
  }

  /** Points of the cumulative distribution: a value, and the share of all that do not exceed it. */
  cumulative(): (readonly [valueMs: number, share: number])[] {
    let seen = 0;
    return this.#sorted().map(([bucket, count]) => {
      seen += count;
      return [this.#within(middleOf(bucket)), seen / this.#count] as const;
    });
  }

  distribution(): HistogramSummary {
    const count = this.#count;
    const at = (percent: number): number => this.percentile(percent);
    return {
      count,
      mean: count === 0 ? 0 : this.#sum / count,
      min: count === 0 ? 0 : this.#min,
      ...{ p50: at(50), p90: at(90), p95: at(95), p99: at(99), p999: at(99.9) },
      max: count === 0 ? 0 : this.#max,
    };
  }

  #sorted(): [number, number][] {
    return [...this.#counts].sort(([a], [b]) => a - b);
  }

  /** The middle of the first and of the last bucket may lie outside of what was recorded. */
  #within(valueMs: number): number {
    return Math.min(Math.max(valueMs, this.#min), this.#max);
  }
}

/** 0 for what is less than a unit; else the number of the bucket, with the sign of the value. */
function bucketOf(valueMs: number): number {
  const units = Math.abs(valueMs) / UNIT_MS;
  if (units < 1) return 0;
  const doublings = Math.floor(Math.log2(units));
  const part = Math.floor((units / 2 ** doublings - 1) * PARTS);
  const bucket = doublings * PARTS + Math.min(Math.max(part, 0), PARTS - 1) + 1;
  return valueMs < 0 ? -bucket : bucket;
}

function middleOf(bucket: number): number {
  if (bucket === 0) return 0;
  const at = Math.abs(bucket) - 1;
  const middle = 2 ** Math.floor(at / PARTS) * (1 + ((at % PARTS) + 0.5) / PARTS) * UNIT_MS;
  return bucket < 0 ? -middle : middle;
}
