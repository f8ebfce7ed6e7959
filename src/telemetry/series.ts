// Counters and histograms for hot paths: a cell is looked up once through maps of interned label values, and counting is an
// addition. prom-client formats and merges the families; counting with it would hash every label set.

/** One family in the JSON shape of prom-client's `getMetricsAsJSON`. */
export interface FamilyJson {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  /** How the values of several threads become one. */
  readonly aggregator: 'sum' | 'first';
  /** Names of the labels, in order; not part of prom-client's shape. */
  readonly labelNames: readonly string[];
  readonly values: readonly {
    readonly metricName?: string;
    readonly labels: Readonly<Record<string, string | number>>;
    readonly value: number;
  }[];
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

  protected abstract make(): Leaf;

  /** Every cell with its labels, in the order in which they were made. */
  protected cells(): Iterable<readonly [Record<string, string>, Leaf]> {
    return walk(this.#root, this.#labels, 0, {});
  }
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
  for (const [label, below] of node.below) yield* walk(below, names, depth + 1, { ...labels, [name]: label });
}

/** A family of counters or gauges. */
export class Counters extends Family<Cell> {
  readonly #head: Omit<FamilyJson, 'values'>;

  /** At most four labels. */
  constructor(
    name: string,
    help: string,
    labels: readonly string[],
    type: 'counter' | 'gauge' = 'counter',
    aggregator: FamilyJson['aggregator'] = 'sum',
  ) {
    super(labels);
    this.#head = { name, help, type, aggregator, labelNames: labels };
  }

  protected override make(): Cell {
    return { value: 0 };
  }

  json(): FamilyJson {
    const values = [...this.cells()].map(([labels, { value }]) => ({ labels, value }));
    return { ...this.#head, values };
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

  get isEmpty(): boolean {
    return this.#counts.every((count) => count === 0);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] as number)) bucket++;
    this.#counts[bucket] = (this.#counts[bucket] as number) + 1;
    this.#sum += value;
  }

  /** Cumulative buckets, sum and count, in the shape of Prometheus. */
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
export class Histograms extends Family<Distribution> {
  readonly #head: Pick<FamilyJson, 'name' | 'help' | 'labelNames'>;
  readonly #bounds: readonly number[];
  readonly #showsEmpty: boolean;

  /**
   * `bounds`: upper bounds of the buckets, ascending, in the unit of the name. At most four labels. `showsEmpty`: whether a
   * series shows from the first `at` on, or from its first observation on.
   */
  constructor(
    name: string,
    help: string,
    labels: readonly string[],
    bounds: readonly number[],
    { showsEmpty }: { readonly showsEmpty: boolean } = { showsEmpty: true },
  ) {
    super(labels);
    this.#head = { name, help, labelNames: labels };
    this.#bounds = bounds;
    this.#showsEmpty = showsEmpty;
  }

  protected override make(): Distribution {
    return new Distribution(this.#bounds);
  }

  json(): FamilyJson {
    const values = [...this.cells()].flatMap(([labels, cell]) =>
      cell.isEmpty && !this.#showsEmpty ? [] : cell.values(this.#head.name, labels),
    );
    return { ...this.#head, type: 'histogram', aggregator: 'sum', values };
  }
}
