// Runs steps at their due times with one timer for thousands of them. Due times are computed from due times, not from when
// the timer fired, so a stream does not drift.
import type { Clock, TimerHandle } from '../../actor/index.ts';

/** Something to run at a point in time of the pacer's clock. `cancelled` steps are dropped unrun. */
export interface Step {
  dueMs: number;
  cancelled: boolean;
  run(): void;
}

/** Runs steps at their due times with a single timer: a binary heap ordered by `dueMs`. */
export class Pacer {
  readonly #clock: Clock;
  readonly #heap: Step[] = [];
  #timer: TimerHandle | undefined;
  #timerDueMs = 0;
  #running = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The clock's time in milliseconds. */
  now(): number {
    return this.#clock.now();
  }

  /** Runs the step once its `dueMs` is reached; never within this call. */
  schedule(step: Step): void {
    push(this.#heap, step);
    if (!this.#running) this.#arm();
  }

  /** Calls back after `ms`; the returned step can be cancelled. */
  after(ms: number, run: () => void): Step {
    const step: Step = { dueMs: this.now() + ms, cancelled: false, run };
    this.schedule(step);
    return step;
  }

  /** Drops every step. */
  clear(): void {
    this.#heap.length = 0;
    this.#disarm();
  }

  #disarm(): void {
    if (this.#timer !== undefined) this.#clock.clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #arm(): void {
    while (this.#heap[0]?.cancelled) pop(this.#heap);
    const first = this.#heap[0];
    if (first === undefined) return this.#disarm();
    if (this.#timer !== undefined && this.#timerDueMs <= first.dueMs) return;
    this.#disarm();
    this.#timerDueMs = first.dueMs;
    this.#timer = this.#clock.setTimeout(() => this.#fire(), Math.max(0, Math.ceil(first.dueMs - this.now())));
  }

  #fire(): void {
    this.#timer = undefined;
    const now = this.now();
    const due: Step[] = [];
    while (this.#heap[0] !== undefined && this.#heap[0].dueMs <= now) due.push(pop(this.#heap)!);
    // Steps that schedule themselves again wait for the next firing, even when already due: sockets get their turn.
    // While they do, the timer is left alone and set once at the end.
    this.#running = true;
    for (const step of due) if (!step.cancelled) step.run();
    this.#running = false;
    this.#arm();
  }
}

function push(heap: Step[], step: Step): void {
  let at = heap.push(step) - 1;
  while (at > 0) {
    const parent = (at - 1) >> 1;
    if (heap[parent]!.dueMs <= step.dueMs) break;
    heap[at] = heap[parent]!;
    at = parent;
  }
  heap[at] = step;
}

function pop(heap: Step[]): Step | undefined {
  const first = heap[0];
  const last = heap.pop();
  if (last === undefined || last === first) return first;
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && heap[child + 1]!.dueMs < heap[child]!.dueMs) child++;
    if (heap[child]!.dueMs >= last.dueMs) break;
    heap[at] = heap[child]!;
    at = child;
  }
  heap[at] = last;
  return first;
}
