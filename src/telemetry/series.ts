// Counters and histograms for hot paths: a cell is looked up once through maps of interned label values, and counting is an
// addition. A family as JSON can be posted to another thread (see exposition.ts for what is made of it).

import { bucketOf, BUCKETS } from './exponential-buckets.ts';

/** Words for the labels of a series. */
export type Labels = Readonly<Record<string, string>>;

interface FamilyHead {
  readonly name: string;
  readonly help: string;
  /** Names of the labels, in order. */
  readonly labelNames: readonly string[];
}

/** A family of counters or gauges, as it is posted between threads. */
export interface ValueFamily extends FamilyHead {
  readonly type: 'counter' | 'gauge';
  /** How the values of several threads become one. */
  readonly aggregator: 'sum' | 'first';
  readonly values: readonly { readonly labels: Labels; readonly value: number }[];
}

/** A family of histograms, as it is posted between threads. */
export interface HistogramFamily extends FamilyHead {
  readonly type: 'histogram';
  /** Buckets whose upper bounds the text format has. */
  readonly bounds: Bounds;
  readonly values: readonly (HistogramCounts & { readonly labels: Labels })[];
}

export type FamilyJson = ValueFamily | HistogramFamily;

/** Counts by bucket (see exponential-buckets.ts): those from the bucket `first` on, others are 0. */
export interface HistogramCounts {
  readonly first: number;
  readonly counts: Float64Array;
  readonly sum: number;
}

/** Upper bounds in the text format: `perDoubling` for each doubling from 2^`from` to 2^`to` seconds. */
export interface Bounds {
  readonly from: number;
  readonly to: number;
  readonly perDoubling: 1 | 2 | 4 | 8 | 16;
}

/** The value of a counter or gauge. */
export interface Cell {
  value: number;
}

class Node<Leaf> {
  readonly below = new Map<string, Node<Leaf>>();
  leaf: Leaf | undefined;

  add(label: string): Node<Leaf> {
    const node = new Node<Leaf>();
    this.below.set(label, node);
    return node;
  }
}

/** Cells by their labels: one map for each label, so that no key is built. */
abstract class Family<Leaf> {
  readonly #labels: readonly string[];
  #root = new Node<Leaf>();

  constructor(labels: readonly string[]) {
    this.#labels = labels;
  }

  /** The cell of these label values, in the order of the labels; at most four. Made when it is first asked for. */
  at(a?: string, b?: string, c?: string, d?: string): Leaf {
    let node = this.#root;
    if (a !== undefined) node = node.below.get(a) ?? node.add(a);
    if (b !== undefined) node = node.below.get(b) ?? node.add(b);
    if (c !== undefined) node = node.below.get(c) ?? node.add(c);
    if (d !== undefined) node = node.below.get(d) ?? node.add(d);
    node.leaf ??= this.make();
    return node.leaf;
  }

  /** Forgets every cell: for gauges that are set anew at each reading. */
  clear(): void {
    this.#root = new Node();
  }

  /** Values of the first label. */
  get firstWords(): Iterable<string> {
    return this.#root.below.keys();
  }

  /** Forgets the cells with this value of a label; none where the family has no such label. */
  drop(label: string, word: string): void {
    let nodes = [this.#root];
    for (const each of this.#labels) {
      if (each === label) {
        for (const { below } of nodes) below.delete(word);
        return;
      }
      nodes = nodes.flatMap(({ below }) => [...below.values()]);
    }
  }

  protected abstract make(): Leaf;

  /** Visits every cell with the words of its labels, in the order in which they were made. `words` is reused. */
  each(visit: (words: readonly string[], leaf: Leaf) => void): void {
    walk(this.#root, [], visit);
  }

  /** What is made of every cell and its labels. */
  protected map<T>(make: (labels: Labels, leaf: Leaf) => T): T[] {
    const made: T[] = [];
    this.each((words, leaf) => {
      const labels: Record<string, string> = {};
      for (const [at, name] of this.#labels.entries()) labels[name] = words[at] ?? '';
      made.push(make(labels, leaf));
    });
    return made;
  }
}

function walk<Leaf>(node: Node<Leaf>, words: string[], visit: (words: readonly string[], leaf: Leaf) => void): void {
  if (node.leaf !== undefined) visit(words, node.leaf);
  for (const [word, below] of node.below) {
    words.push(word);
    walk(below, words, visit);
    words.pop();
  }
}

/** A family of counters or gauges. */
export class Counters extends Family<Cell> {
  readonly #head: Omit<ValueFamily, 'values'>;

  /** At most four labels. */
  constructor(
    name: string,
    help: string,
    labels: readonly string[],
    type: ValueFamily['type'] = 'counter',
    aggregator: ValueFamily['aggregator'] = 'sum',
  ) {
    super(labels);
    this.#head = { name, help, type, aggregator, labelNames: labels };
  }

  protected override make(): Cell {
    return { value: 0 };
  }

  json(): ValueFamily {
    return { ...this.#head, values: this.map((labels, { value }) => ({ labels, value })) };
  }
}

/** The place of the sum behind the buckets. */
const SUM = BUCKETS;

/** The observations of one label set. */
export class Distribution {
  readonly #counts = new Float64Array(BUCKETS + 1);

  observe(value: number): void {
    const counts = this.#counts;
    const bucket = bucketOf(value);
    counts[bucket] = (counts[bucket] as number) + 1;
    counts[SUM] = (counts[SUM] as number) + value;
  }

  /** The buckets from the first to the last that has a count; none when nothing was observed. */
  counts(): HistogramCounts {
    return { ...trimCounts(this.#counts), sum: this.#counts[SUM] as number };
  }

  /** Adds the counts by bucket to `sums`; returns the sum of the observations. */
  addTo(sums: Float64Array): number {
    const counts = this.#counts;
    for (let bucket = 0; bucket < BUCKETS; bucket++)
      sums[bucket] = (sums[bucket] as number) + (counts[bucket] as number);
    return counts[SUM] as number;
  }
}

/** Adds counts to those of all buckets, or takes them off with the factor -1. */
export function addCounts(
  sums: Float64Array,
  { first, counts }: Pick<HistogramCounts, 'first' | 'counts'>,
  factor: 1 | -1 = 1,
): void {
  for (let at = 0; at < counts.length; at++) {
    sums[first + at] = (sums[first + at] as number) + factor * (counts[at] as number);
  }
}

/** A copy of the counts of all buckets without the empty ones at both ends. */
export function trimCounts(all: Float64Array): Pick<HistogramCounts, 'first' | 'counts'> {
  const { end, first } = spanOf(all);
  return { first, counts: all.slice(first, end) };
}

/** From the first to behind the last bucket that is not empty. */
export function spanOf(all: Float64Array): { readonly first: number; readonly end: number } {
  let first = 0;
  while (first < BUCKETS && all[first] === 0) first++;
  let end = BUCKETS;
  while (end > first && all[end - 1] === 0) end--;
  return { first, end };
}

/** A family of histograms. */
export class Histograms extends Family<Distribution> {
  readonly #head: Omit<HistogramFamily, 'values'>;
  readonly #showsEmpty: boolean;

  /**
   * `bounds`: what the text format shows; the range that values have in the unit of the name. At most four labels.
   * `showsEmpty`: whether a series shows from the first `at` on, or from its first observation on.
   */
  constructor(
    name: string,
    help: string,
    labels: readonly string[],
    bounds: Bounds,
    { showsEmpty }: { readonly showsEmpty: boolean } = { showsEmpty: true },
  ) {
    super(labels);
    this.#head = { name, help, type: 'histogram', bounds, labelNames: labels };
    this.#showsEmpty = showsEmpty;
  }

  protected override make(): Distribution {
    return new Distribution();
  }

  json(): HistogramFamily {
    const values = this.map((labels, cell) => ({ labels, ...cell.counts() }));
    return { ...this.#head, values: this.#showsEmpty ? values : values.filter(({ counts }) => counts.length > 0) };
  }
}

/** The families of a class of metrics, in the order in which they are made. */
export class Families {
  readonly #all: (Counters | Histograms)[] = [];

  /** As `Counters`. */
  counter(name: string, help: string, labels: readonly string[] = []): Counters {
    return this.#add(new Counters(name, help, labels));
  }

  /** As `Counters`. */
  gauge(
    name: string,
    help: string,
    labels: readonly string[] = [],
    aggregator: ValueFamily['aggregator'] = 'sum',
  ): Counters {
    return this.#add(new Counters(name, help, labels, 'gauge', aggregator));
  }

  /** As `Histograms`. */
  histogram(...args: ConstructorParameters<typeof Histograms>): Histograms {
    return this.#add(new Histograms(...args));
  }

  /** Forgets every cell. */
  clear(): void {
    for (const family of this.#all) family.clear();
  }

  /** As in each of them. */
  drop(label: string, word: string): void {
    for (const family of this.#all) family.drop(label, word);
  }

  json(except: readonly (Counters | Histograms)[] = []): readonly FamilyJson[] {
    return this.#all.filter((family) => !except.includes(family)).map((family) => family.json());
  }

  /** One family, counted from 0; undefined behind the last one. */
  one(at: number): FamilyJson | undefined {
    return this.#all[at]?.json();
  }

  #add<Family extends Counters | Histograms>(family: Family): Family {
    this.#all.push(family);
    return family;
  }
}
