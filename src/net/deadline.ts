// Deadlines that share one timer. Each duration has a list in the order of due times. Moving a deadline later by the
// same duration only notes the new time; the list is put right when the old time has come. Never early, at most a tick late.

import type { Clock, TimerHandle } from '../actor/index.ts';

export interface Expirable {
  /** Called once, after the deadline and after its entry has left the queue. */
  expire(): void;
  /** Takes what `expire` has thrown. Without it the error surfaces, when all other owners have been called. */
  onDefect?(error: unknown): void;
}

interface List {
  readonly durationMs: number;
  head: Deadline | null;
  tail: Deadline | null;
}

/** One deadline. Reusable: `set` starts it again. */
export class Deadline {
  /** @internal */ list: List | null = null;
  /** @internal */ previous: Deadline | null = null;
  /** @internal */ next: Deadline | null = null;
  /** @internal */ dueMs = 0;
  /** @internal The due time that its place in the list stands for: `dueMs` or an earlier one. */ queuedMs = 0;
  /** @internal */ readonly owner: Expirable;
  readonly #queue: DeadlineQueue;

  /** @internal */
  constructor(queue: DeadlineQueue, owner: Expirable) {
    this.#queue = queue;
    this.owner = owner;
  }

  /** Starts or restarts the deadline `durationMs` from `nowMs`, by default the present. */
  set(durationMs: number, nowMs: number = this.#queue.clock.now()): void {
    this.dueMs = nowMs + durationMs;
    if (this.list?.durationMs === durationMs) return;
    if (this.list !== null) this.#queue.remove(this);
    this.#queue.insert(this, durationMs);
  }

  /** Stops the deadline. No effect when it is not set. */
  clear(): void {
    if (this.list !== null) this.#queue.remove(this);
  }
}

/** Default tick in milliseconds: thousands of deadlines cost one timer that fires this rarely at most. */
const TICK_MS = 10;

export class DeadlineQueue {
  /** @internal */ readonly clock: Clock;
  readonly #tickMs: number;
  readonly #lists = new Map<number, List>();
  #timer: TimerHandle | null = null;
  #timerDueMs = Infinity;

  constructor(clock: Clock, tickMs: number = TICK_MS) {
    this.clock = clock;
    this.#tickMs = tickMs;
  }

  deadline(owner: Expirable): Deadline {
    return new Deadline(this, owner);
  }

  /** Ends the timer; deadlines that are set never expire. */
  close(): void {
    if (this.#timer !== null) this.clock.clearTimeout(this.#timer);
    this.#timer = null;
    this.#lists.clear();
  }

  /** @internal Puts an entry that is in no list where its due time belongs. */
  insert(entry: Deadline, durationMs: number): void {
    let list = this.#lists.get(durationMs);
    if (list === undefined) {
      list = { durationMs, head: null, tail: null };
      this.#lists.set(durationMs, list);
    }
    // A new deadline goes to the end. One that was moved passes those set since then, few where moves are frequent.
    let previous = list.tail;
    while (previous !== null && previous.queuedMs > entry.dueMs) previous = previous.previous;
    const next = previous === null ? list.head : previous.next;
    entry.list = list;
    entry.queuedMs = entry.dueMs;
    entry.previous = previous;
    entry.next = next;
    if (previous === null) list.head = entry;
    else previous.next = entry;
    if (next === null) list.tail = entry;
    else next.previous = entry;
    if (entry.dueMs < this.#timerDueMs) this.#arm(entry.dueMs);
  }

  /** @internal Takes an entry out of its list. */
  remove(entry: Deadline): void {
    const list = entry.list as List;
    if (entry.previous === null) list.head = entry.next;
    else entry.previous.next = entry.next;
    if (entry.next === null) list.tail = entry.previous;
    else entry.next.previous = entry.previous;
    entry.list = null;
    entry.previous = null;
    entry.next = null;
  }

  #arm(dueMs: number): void {
    if (this.#timer !== null) this.clock.clearTimeout(this.#timer);
    this.#timerDueMs = dueMs;
    this.#timer = this.clock.setTimeout(() => this.#sweep(), Math.max(dueMs - this.clock.now(), this.#tickMs));
  }

  #sweep(): void {
    this.#timer = null;
    this.#timerDueMs = Infinity;
    const now = this.clock.now();
    let earliest = Infinity;
    const thrown: unknown[] = [];
    for (const list of this.#lists.values()) {
      while (list.head !== null && list.head.queuedMs <= now) {
        const { head } = list;
        this.remove(head);
        if (head.dueMs > now) {
          this.insert(head, list.durationMs);
          continue;
        }
        try {
          expire(head.owner);
        } catch (error) {
          thrown.push(error);
        }
      }
      if (list.head === null) this.#lists.delete(list.durationMs);
      else if (list.head.queuedMs < earliest) earliest = list.head.queuedMs;
    }
    if (earliest < this.#timerDueMs) this.#arm(earliest);
    // An error of one owner surfaces, but takes no deadline from the others.
    if (thrown.length > 0) throw thrown[0];
  }
}

function expire(owner: Expirable): void {
  try {
    owner.expire();
  } catch (error) {
    if (owner.onDefect === undefined) throw error;
    owner.onDefect(error);
  }
}
