// The formats that Prometheus scrapes: text (version 0.0.4), and protobuf with native histograms beside the buckets of the text.
// Metrics of several threads are merged first; histograms are added bucket by bucket, which is exact.

import { boundOf, BUCKETS, bucketsBetween, LOWEST, NATIVE_OFFSET, SCHEMA } from './exponential-buckets.ts';
import type { MetricsSnapshot } from './metrics.ts';
import { ProtobufWriter } from './protobuf-writer.ts';
import { addCounts, type Bounds, type FamilyJson, type HistogramCounts, type Labels, trimCounts } from './series.ts';

/** Content type of the text. */
export const TEXT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** Content type of the protobuf: messages `MetricFamily`, each behind its length. */
export const PROTOBUF_TYPE =
  'application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited';

/** A family with the series of all threads. */
interface Family {
  readonly head: FamilyJson;
  /** Of counters and gauges, by the words of the labels. */
  readonly values: Map<string, { readonly labels: Labels; value: number }>;
  /** Of histograms, by the words of the labels. */
  readonly histograms: Map<string, Histogram>;
}

interface Histogram {
  readonly labels: Labels;
  /** By bucket. */
  readonly counts: Float64Array;
  sum: number;
}

/** Nothing is to be written yet: others may have their turn. */
const PAUSE = '';

/** Histograms that are added between two pauses: a millisecond and less. */
const MERGED_AT_ONCE = 256;

/** What is written of each family of several threads, in the order in which they come. Families are merged one by one. */
function* written<Piece>(
  snapshots: readonly MetricsSnapshot[],
  write: (family: Family) => Iterable<Piece>,
): Generator<Piece | typeof PAUSE> {
  const heads = Map.groupBy(snapshots.flat(), ({ name }) => name);
  for (const ofName of heads.values()) yield* write(yield* merged(ofName));
}

/** One family of all threads. */
function* merged(heads: readonly FamilyJson[]): Generator<typeof PAUSE, Family> {
  const family: Family = { head: heads[0] as FamilyJson, values: new Map(), histograms: new Map() };
  let added = 0;
  for (const head of heads) {
    if (head.type === 'histogram') {
      for (const histogram of head.values) {
        addHistogram(family, histogram);
        if (++added % MERGED_AT_ONCE === 0) yield PAUSE;
      }
    } else {
      for (const { labels, value } of head.values) addValue(family, labels, value, head.aggregator === 'sum');
      yield PAUSE;
    }
  }
  return family;
}

/** One snapshot of several threads. */
export function summed(snapshots: readonly MetricsSnapshot[]): MetricsSnapshot {
  return [
    ...written(snapshots, ({ head, histograms, values }): [FamilyJson] => {
      if (head.type !== 'histogram') return [{ ...head, values: [...values.values()] }];
      const sums = Array.from(histograms.values(), ({ counts, labels, sum }) => ({
        ...trimCounts(counts),
        labels,
        sum,
      }));
      return [{ ...head, values: sums }];
    }),
  ].filter((piece) => piece !== PAUSE);
}

function keyOf(labels: Labels): string {
  return Object.values(labels).join('\u0000');
}

function addValue({ values }: Family, labels: Labels, value: number, sums: boolean): void {
  const key = keyOf(labels);
  const known = values.get(key);
  if (known === undefined) values.set(key, { labels, value });
  else if (sums) known.value += value;
}

function addHistogram({ histograms }: Family, { labels, sum, ...counts }: HistogramCounts & { labels: Labels }): void {
  const key = keyOf(labels);
  let known = histograms.get(key);
  if (known === undefined) {
    known = { labels, counts: new Float64Array(BUCKETS), sum: 0 };
    histograms.set(key, known);
  }
  addCounts(known.counts, counts);
  known.sum += sum;
}

// === Text ===

/** Merges the metrics of threads into one Prometheus text. */
export function metricsText(snapshots: readonly MetricsSnapshot[]): string {
  return [...textPieces(snapshots)].join('');
}

/** The same text in pieces of up to a few dozen kilobytes. Each takes less than a millisecond to make, and may be empty. */
export function textPieces(snapshots: readonly MetricsSnapshot[]): Iterable<string> {
  return written(snapshots, familyText);
}

function* familyText({ head, histograms, values }: Family): Generator<string> {
  const { name, type } = head;
  yield `# HELP ${name} ${head.help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}\n# TYPE ${name} ${type}\n`;
  for (const { labels, value } of values.values()) yield `${name}${bracesOf(labelText(labels))} ${text(value)}\n`;
  if (head.type !== 'histogram') return;
  const classic = classicOf(head.bounds);
  for (const histogram of histograms.values()) yield histogramText(name, classic, histogram);
}

/** A bucket and its upper bound as text. */
type Classic = readonly (readonly [bucket: number, bound: string])[];

const CLASSICS = new Map<string, Classic>();

/** Buckets of the text. Bounds have six digits, which tells all neighbours apart; those at powers of 2 up to 1 Ki are exact. */
function classicOf({ from, perDoubling, to }: Bounds): Classic {
  const key = `${from} ${to} ${perDoubling}`;
  let classic = CLASSICS.get(key);
  if (classic === undefined) {
    const buckets = bucketsBetween(from, to, perDoubling);
    classic = buckets.map((bucket) => [bucket, String(Number(boundOf(bucket).toPrecision(6)))] as const);
    CLASSICS.set(key, classic);
  }
  return classic;
}

function histogramText(name: string, classic: Classic, { counts, labels, sum }: Histogram): string {
  const own = labelText(labels);
  const rest = own === '' ? '' : `,${own}`;
  let lines = '';
  let below = 0;
  let next = 0;
  for (const [bucket, bound] of classic) {
    for (; next <= bucket; next++) below += counts[next] as number;
    lines += `${name}_bucket{le="${bound}"${rest}} ${below}\n`;
  }
  for (; next < counts.length; next++) below += counts[next] as number;
  const braces = bracesOf(own);
  return `${lines}${name}_bucket{le="+Inf"${rest}} ${below}\n${name}_sum${braces} ${text(sum)}\n${name}_count${braces} ${below}\n`;
}

function bracesOf(labels: string): string {
  return labels === '' ? '' : `{${labels}}`;
}

function labelText(labels: Labels): string {
  return Object.entries(labels)
    .map(([name, word]) => `${name}="${escaped(word)}"`)
    .join(',');
}

function escaped(word: string): string {
  return word.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}

function text(value: number): string {
  if (value === Infinity) return '+Inf';
  return value === -Infinity ? '-Inf' : String(value);
}

// === Protobuf ===

/** Whether a scraper prefers protobuf to text, by its `Accept` header (RFC 9110, section 12.5.1). */
export function prefersProtobuf(accept: string | undefined): boolean {
  let [protobuf, plain] = [0, 0];
  for (const range of (accept ?? '').split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    const weight = Number(parameters.find((part) => part.startsWith('q='))?.slice(2) ?? 1);
    if (type === 'text/plain') plain = Math.max(plain, weight);
    else if (type === 'application/vnd.google.protobuf' && PROTOBUF_PARAMETERS.every((one) => parameters.includes(one)))
      protobuf = Math.max(protobuf, weight);
  }
  return protobuf > 0 && protobuf >= plain;
}

const PROTOBUF_PARAMETERS = ['proto=io.prometheus.client.metricfamily', 'encoding=delimited'];

// Field numbers are those of io.prometheus.client (client_model, metrics.proto).

const TYPE = { counter: 0, gauge: 1, histogram: 4 } as const;
/** Field of a `Metric` by type. */
const METRIC_FIELD = { gauge: 2, counter: 3, histogram: 7 } as const;

/** Merges the metrics of threads into length-delimited messages `MetricFamily`, in pieces as `textPieces` does. */
export function protobufPieces(snapshots: readonly MetricsSnapshot[]): Iterable<Uint8Array | ''> {
  return written(snapshots, familyMessage);
}

function* familyMessage({ head, histograms, values }: Family): Generator<Uint8Array | ''> {
  if (values.size === 0 && histograms.size === 0) return;
  const { help, name, type } = head;
  const family = new ProtobufWriter();
  family.string(1, name);
  family.string(2, help);
  family.varint(3, TYPE[type]);
  for (const { labels, value } of values.values()) {
    family.message(4, (metric) => {
      writeLabels(metric, labels);
      metric.message(METRIC_FIELD[type], (message) => message.double(1, value));
    });
    yield PAUSE;
  }
  if (head.type === 'histogram') {
    const classic = classicOf(head.bounds);
    for (const histogram of histograms.values()) {
      family.message(4, (metric) => {
        writeLabels(metric, histogram.labels);
        metric.message(METRIC_FIELD.histogram, (message) => writeHistogram(message, histogram, classic));
      });
      yield PAUSE;
    }
  }
  const bytes = family.bytes();
  const length = new ProtobufWriter();
  length.length(bytes.byteLength);
  yield length.bytes();
  yield bytes;
}

function writeLabels(metric: ProtobufWriter, labels: Labels): void {
  for (const [name, word] of Object.entries(labels)) {
    metric.message(1, (pair) => {
      pair.string(1, name);
      pair.string(2, word);
    });
  }
}

/** Classic and native buckets. A server that takes native histograms ignores the classic ones unless it is told otherwise. */
function writeHistogram(message: ProtobufWriter, { counts, sum }: Histogram, classic: Classic): void {
  let total = 0;
  for (const count of counts) total += count;
  message.varint(1, total);
  message.double(2, sum);
  let below = 0;
  let next = 0;
  for (const [bucket, bound] of classic) {
    for (; next <= bucket; next++) below += counts[next] as number;
    const cumulative = below;
    message.message(3, (classicBucket) => {
      classicBucket.varint(1, cumulative);
      classicBucket.double(2, Number(bound));
    });
  }
  message.sint(5, SCHEMA);
  message.double(6, LOWEST);
  message.varint(7, counts[0] as number);
  const { deltas, spans } = nativeOf(counts);
  for (const [offset, length] of spans) {
    message.message(12, (span) => {
      span.sint(1, offset);
      span.varint(2, length);
    });
  }
  message.packedSints(13, deltas);
}

/** Empty buckets that are written as such rather than end a span, which takes about as many bytes. */
const MAX_GAP = 2;

/**
 * The positive buckets of a native histogram: spans of neighbours, each by its distance from the end of the one before (the first
 * from the index 0) and its length, and counts as differences from one bucket to the next.
 */
function nativeOf(counts: ArrayLike<number>): {
  readonly spans: readonly (readonly [offset: number, length: number])[];
  readonly deltas: readonly number[];
} {
  const spans: [offset: number, length: number][] = [];
  const deltas: number[] = [];
  let before = 0;
  let end = 0;
  for (let bucket = 1; bucket < counts.length; bucket++) {
    const count = counts[bucket] as number;
    if (count === 0) continue;
    const index = bucket - 1 + NATIVE_OFFSET;
    const last = spans.at(-1);
    if (last === undefined || index - end > MAX_GAP) {
      spans.push([last === undefined ? index : index - end, 1]);
    } else {
      for (let empty = end; empty < index; empty++) {
        deltas.push(-before);
        before = 0;
      }
      last[1] += index - end + 1;
    }
    deltas.push(count - before);
    before = count;
    end = index + 1;
  }
  return { spans, deltas };
}
