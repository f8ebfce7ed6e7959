// A queue that serves its flows in equal shares of work, whatever each of them has waiting: start-time fair queuing (Goyal, Vin and
// Cheng, 1996). An item's start tag is the virtual time at its arrival, or the end of its flow's item before it where that is later;
// the lowest tag is next. A flow that had nothing waiting is therefore next, behind at most the item that is being served. Virtual
// times are numbers, so that several queues, one for each thread, can share one and compare their tags.

/** The virtual time of one queue or of several, and up to where each flow was served. In units of work. */
export interface VirtualTime {
  /** Start tag of the item that was taken last. */
  now: number;
  /** End of the item of a flow that was taken last; 0 when it is not known. */
  finish(flow: string): number;
  setFinish(flow: string, tag: number): void;
}

/**
 * The virtual time of one queue, with the ends of flows until they are past. A flow whose items come one by one, each as the one before
 * it is served, then gets its share and no more.
 */
export class RememberedTime implements VirtualTime {
  now = 0;
  readonly #finish = new Map<string, number>();
  /** Size at which what is past is dropped. */
  #full = LEAST_REMEMBERED;

  /** There was room for all: what flows were served before takes no turn from them. */
  forget(): void {
    if (this.#finish.size > 0) this.#finish.clear();
  }

  finish(flow: string): number {
    return this.#finish.get(flow) ?? 0;
  }

  setFinish(flow: string, tag: number): void {
    // Behind all others, so that the first one was served the longest ago.
    this.#finish.delete(flow);
    this.#finish.set(flow, tag);
    if (this.#finish.size < this.#full) return;
    for (const [one, end] of this.#finish) if (end <= this.now) this.#finish.delete(one);
    // Time stands still while each item is the first one of its flow.
    for (const one of this.#finish.keys()) {
      if (this.#finish.size <= MOST_REMEMBERED / 2) break;
      this.#finish.delete(one);
    }
    this.#full = Math.max(LEAST_REMEMBERED, 2 * this.#finish.size);
  }
}

const LEAST_REMEMBERED = 64;
/** Flows whose ends are remembered at most; one that is forgotten counts as one that was never served. */
const MOST_REMEMBERED = 4096;

/** An item that waits, as the queue keeps it. */
export class FairEntry<T> {
  readonly item: T;
  /** Work in the unit of the virtual time; more than 0. */
  readonly cost: number;
  /** Memory that it takes while it waits. */
  readonly bytes: number;
  /** @internal Virtual time at its arrival. */
  readonly arrival: number;
  /** @internal Null once it has left the queue. */
  flow: Flow<T> | null;
  /** @internal */
  previous: FairEntry<T> | null = null;
  /** @internal */
  next: FairEntry<T> | null = null;

  /** @internal */
  constructor(item: T, cost: number, bytes: number, arrival: number, flow: Flow<T>) {
    this.item = item;
    this.cost = cost;
    this.bytes = bytes;
    this.arrival = arrival;
    this.flow = flow;
  }
}

/** What waits of one flow, in order of arrival. */
class Flow<T> {
  readonly id: string;
  first: FairEntry<T> | null = null;
  last: FairEntry<T> | null = null;
  count = 0;
  cost = 0;
  bytes = 0;
  /** End of the item that was taken last from this queue. */
  finish = 0;

  constructor(id: string) {
    this.id = id;
  }
}

const NOTHING = { count: 0, bytes: 0 } as const;

export class FairQueue<T> {
  readonly #time: VirtualTime;
  /** Flows that have items waiting. */
  readonly #flows = new Map<string, Flow<T>>();
  #size = 0;
  #cost = 0;
  #bytes = 0;

  /** `time`: by default one of its own. */
  constructor(time: VirtualTime = { now: 0, finish: () => 0, setFinish: () => undefined }) {
    this.#time = time;
  }

  get size(): number {
    return this.#size;
  }

  /** Work of all items. */
  get cost(): number {
    return this.#cost;
  }

  /** Memory of all items. */
  get bytes(): number {
    return this.#bytes;
  }

  /** What a flow has waiting. */
  of(flow: string): { readonly count: number; readonly bytes: number } {
    return this.#flows.get(flow) ?? NOTHING;
  }

  /** Adds an item behind the others of its flow. */
  add(flow: string, item: T, cost: number, bytes = 0): FairEntry<T> {
    let own = this.#flows.get(flow);
    if (own === undefined) {
      own = new Flow(flow);
      this.#flows.set(flow, own);
    }
    const entry = new FairEntry(item, cost, bytes, this.#time.now, own);
    entry.previous = own.last;
    if (own.last === null) own.first = entry;
    else own.last.next = entry;
    own.last = entry;
    own.count++;
    own.cost += cost;
    own.bytes += bytes;
    this.#size++;
    this.#cost += cost;
    this.#bytes += bytes;
    return entry;
  }

  /** Removes an item that is not to be served: its flow is not charged for it. False when it has left the queue before. */
  remove(entry: FairEntry<T>): boolean {
    const { bytes, cost, flow, next, previous } = entry;
    if (flow === null) return false;
    if (previous === null) flow.first = next;
    else previous.next = next;
    if (next === null) flow.last = previous;
    else next.previous = previous;
    entry.flow = null;
    entry.previous = null;
    entry.next = null;
    flow.count--;
    flow.cost -= cost;
    flow.bytes -= bytes;
    this.#size--;
    this.#cost -= cost;
    this.#bytes -= bytes;
    if (flow.count === 0) this.#flows.delete(flow.id);
    return true;
  }

  /**
   * The next item of those that fit, by default of all, of each flow the first one; null of none. The flow that came first wins a tie.
   * `areAlike`: the items of a flow fit all or none, so that one of them is asked.
   */
  peek(fits: (item: T) => boolean = () => true, areAlike = false): FairEntry<T> | null {
    let best: FairEntry<T> | null = null;
    let bestTag = Infinity;
    for (const { first } of this.#flows.values()) {
      let entry = first;
      while (entry !== null && !fits(entry.item)) entry = areAlike ? null : entry.next;
      const tag = entry === null ? Infinity : this.tagOf(entry);
      if (tag >= bestTag) continue;
      best = entry;
      bestTag = tag;
    }
    return best;
  }

  /** Start tag of an item, if it is the next one of its flow. It grows when another queue serves the flow. */
  tagOf({ arrival, flow }: FairEntry<T>): number {
    const { finish, id } = flow as Flow<T>;
    return Math.max(arrival, finish, this.#time.finish(id));
  }

  /** Serves an item: removes it and charges its flow. */
  take(entry: FairEntry<T>): T {
    const time = this.#time;
    const flow = entry.flow as Flow<T>;
    const tag = this.tagOf(entry);
    flow.finish = tag + entry.cost;
    time.setFinish(flow.id, flow.finish);
    time.now = Math.max(time.now, tag);
    this.remove(entry);
    return entry.item;
  }

  /**
   * Work that is served before a new item of a flow, if every flow gets its share: what waits of the flow, and up to as much of each
   * other one.
   */
  workAhead(flow: string): number {
    const own = this.#flows.get(flow)?.cost ?? 0;
    let work = 0;
    for (const { cost } of this.#flows.values()) work += Math.min(cost, own);
    return work;
  }

  /** All items, flow by flow. A copy: safe to walk while items leave. */
  list(): readonly T[] {
    const items: T[] = [];
    for (const { first } of this.#flows.values()) {
      for (let entry = first; entry !== null; entry = entry.next) items.push(entry.item);
    }
    return items;
  }
}
