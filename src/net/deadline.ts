// Deadlines without a timer each. Requests share a few durations, so every duration keeps a first-in first-out list
// whose head is due first; one timer of the clock serves them all. Setting and clearing cost a few list links.
// Callers: upstream attempts, body readers. Precision is one tick late at most, never early.

import type { Clock, TimerHandle } from '../actor/index.ts';

/** Something that can be told its time is up. */
export interface Expirable {
  /** Called once, after the deadline and after the entry has left the queue. */
  expire(): void;
}

interface List {
  readonly durationMs: number;
  head: Deadline | null;
  tail: Deadline | null;
}

/** One deadline; reusable: `set` moves it to the end of its new list. */
export class Deadline {
  /** @internal */ list: List | null = null;
  /** @internal */ previous: Deadline | null = null;
  /** @internal */ next: Deadline | null = null;
  /** @internal */ dueMs = 0;
  /** @internal */ readonly owner: Expirable;
  readonly #queue: DeadlineQueue;

  /** @internal */
  constructor(queue: DeadlineQueue, owner: Expirable) {
    this.#queue = queue;
    this.owner = owner;
  }

  /** Starts or restarts the deadline `durationMs` from now. */
  set(durationMs: number): void {
    this.#queue.append(this, durationMs);
  }

  /** Takes the deadline back. Harmless when it is not set. */
  clear(): void {
    this.#queue.remove(this);
  }
}

/** Default tick: late by at most this, while thousands of deadlines cost one timer. */
const TICK_MS = 10;

export class DeadlineQueue {
  readonly #clock: Clock;
  readonly #tickMs: number;
  readonly #lists = new Map<number, List>();
  #timer: TimerHandle | null = null;
  #timerDueMs = Infinity;

  constructor(clock: Clock, tickMs: number = TICK_MS) {
    this.#clock = clock;
    this.#tickMs = tickMs;
  }

  deadline(owner: Expirable): Deadline {
    return new Deadline(this, owner);
  }

  /** Ends the timer; deadlines that are set never expire. */
  close(): void {
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer);
    this.#timer = null;
    this.#lists.clear();
  }

  /** @internal */
  append(entry: Deadline, durationMs: number): void {
    this.remove(entry);
    let list = this.#lists.get(durationMs);
    if (list === undefined) {
      list = { durationMs, head: null, tail: null };
      this.#lists.set(durationMs, list);
    }
    entry.dueMs = this.#clock.now() + durationMs;
    entry.list = list;
    entry.previous = list.tail;
    if (list.tail === null) list.head = entry;
    else list.tail.next = entry;
    list.tail = entry;
    if (entry.dueMs < this.#timerDueMs) this.#arm(entry.dueMs);
  }

  /** @internal */
  remove(entry: Deadline): void {
    const { list } = entry;
    if (list === null) return;
    if (entry.previous === null) list.head = entry.next;
    else entry.previous.next = entry.next;
    if (entry.next === null) list.tail = entry.previous;
    else entry.next.previous = entry.previous;
    entry.list = null;
    entry.previous = null;
    entry.next = null;
  }

  #arm(dueMs: number): void {
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer);
    this.#timerDueMs = dueMs;
    this.#timer = this.#clock.setTimeout(() => this.#sweep(), Math.max(dueMs - this.#clock.now(), this.#tickMs));
  }

  #sweep(): void {
    this.#timer = null;
    this.#timerDueMs = Infinity;
    const now = this.#clock.now();
    let earliest = Infinity;
    for (const list of this.#lists.values()) {
      while (list.head !== null && list.head.dueMs <= now) {
        const { head } = list;
        this.remove(head);
        head.owner.expire();
      }
      if (list.head === null) this.#lists.delete(list.durationMs);
      else if (list.head.dueMs < earliest) earliest = list.head.dueMs;
    }
    if (earliest < this.#timerDueMs) this.#arm(earliest);
  }
}
