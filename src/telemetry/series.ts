// Counters and histograms for a hot path: a cell is looked up through maps of words that are already interned, and
// counting is an addition. prom-client formats and merges them (telemetry/metrics.ts); counting with it would cost a
// hash of every label set.

/** One family in the JSON shape of prom-client's `getMetricsAsJSON`. */
export interface FamilyJson {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly aggregator: 'sum';
  /** Names of the labels, in order; not part of prom-client's shape. */
  readonly labelNames: readonly string[];
  readonly values: readonly {
    readonly metricName?: string;
    readonly labels: Readonly<Record<string, string | number>>;
    readonly value: number;
  }[];
}

/** A number that is counted up, or set in the case of a gauge. */
export interface Cell {
  value: number;
}

class Node<Leaf> {
  readonly below = new Map<string, Node<Leaf>>();
  leaf: Leaf | undefined;
}

/** Cells by their labels: one map a label, so that no key is built. */
class Labelled<Leaf> {
  #root = new Node<Leaf>();
  readonly #names: readonly string[];
  readonly #make: () => Leaf;

  constructor(names: readonly string[], make: () => Leaf) {
    this.#names = names;
    this.#make = make;
  }

  at(a?: string, b?: string, c?: string, d?: string): Leaf {
    let node = this.#root;
    if (a !== undefined) node = step(node, a);
    if (b !== undefined) node = step(node, b);
    if (c !== undefined) node = step(node, c);
    if (d !== undefined) node = step(node, d);
    node.leaf ??= this.#make();
    return node.leaf;
  }

  clear(): void {
    this.#root = new Node();
  }

  /** Every leaf with its labels, in the order in which they were made. */
  *entries(): Generator<readonly [Record<string, string>, Leaf]> {
    yield* walk(this.#root, this.#names, 0, {});
  }
}

function step<Leaf>(node: Node<Leaf>, word: string): Node<Leaf> {
  let next = node.below.get(word);
  if (next === undefined) {
    next = new Node();
    node.below.set(word, next);
  }
  return next;
}

function* walk<Leaf>(
  node: Node<Leaf>,
  names: readonly string[],
  depth: number,
  labels: Record<string, string>,
): Generator<readonly [Record<string, string>, Leaf]> {
  if (node.leaf !== undefined) yield [labels, node.leaf];
  const name = names[depth];
  if (name === undefined) return;
  for (const [word, below] of node.below) yield* walk(below, names, depth + 1, { ...labels, [name]: word });
}

/** A family of counters or gauges. */
export class Counters {
  readonly #cells: Labelled<Cell>;
  readonly #head: Pick<FamilyJson, 'name' | 'help' | 'type' | 'labelNames'>;

  /** At most four labels. */
  constructor(name: string, help: string, labels: readonly string[], type: 'counter' | 'gauge' = 'counter') {
    this.#head = { name, help, type, labelNames: labels };
    this.#cells = new Labelled(labels, () => ({ value: 0 }));
  }

  /** The cell of these label values, in the order of the labels. */
  at(a?: string, b?: string, c?: string, d?: string): Cell {
    return this.#cells.at(a, b, c, d);
  }

  /** Forgets every cell: for gauges that are set anew at each reading, so that what is gone shows no more. */
  clear(): void {
    this.#cells.clear();
  }

  json(): FamilyJson {
    const values = [...this.#cells.entries()].map(([labels, { value }]) => ({ labels, value }));
    return { ...this.#head, aggregator: 'sum', values };
  }
}

/** The observations of one label set. */
export class Distribution {
  readonly #bounds: readonly number[];
  readonly #counts: Float64Array;
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] as number)) bucket++;
    this.#counts[bucket] = (this.#counts[bucket] as number) + 1;
    this.#sum += value;
  }

  /** Cumulative buckets, sum and count, as Prometheus wants them. */
  values(name: string, labels: Readonly<Record<string, string>>): FamilyJson['values'] {
    let count = 0;
    const buckets = [...this.#bounds, '+Inf'].map((le, index) => {
      count += this.#counts[index] as number;
      return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: count };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: count },
    ];
  }
}

/** A family of histograms. */
export class Histograms {
  readonly #cells: Labelled<Distribution>;
  readonly #name: string;
  readonly #help: string;
  readonly #labels: readonly string[];

  /** `bounds`: upper bounds of the buckets, ascending, in the unit of the name. At most four labels. */
  constructor(name: string, help: string, labels: readonly string[], bounds: readonly number[]) {
    this.#name = name;
    this.#help = help;
    this.#labels = labels;
    this.#cells = new Labelled(labels, () => new Distribution(bounds));
  }

  at(a?: string, b?: string, c?: string, d?: string): Distribution {
    return this.#cells.at(a, b, c, d);
  }

  json(): FamilyJson {
    const values = [...this.#cells.entries()].flatMap(([labels, cell]) => cell.values(this.#name, labels));
    const head = { name: this.#name, help: this.#help, labelNames: this.#labels };
    return { ...head, type: 'histogram', aggregator: 'sum', values };
  }
}
