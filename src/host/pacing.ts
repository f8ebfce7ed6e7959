// When tokens leave: the pace of a request, and the one timer that serves every stream of a host.
// Called by host.ts (one Pacer a host) and stream.ts. One timer for all streams keeps thousands of them cheap, and
// due times follow from due times, not from when the timer happened to fire, so a stream does not drift.
import type { Clock, TimerHandle } from '../actor/index.ts';

/** Pace of one answer, in milliseconds; `tokens`, when given, is its exact length. */
export interface Pace {
  readonly timeToFirstTokenMs: number;
  readonly interTokenMs: number;
  readonly tokens?: number;
}

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

/**
 * Reads `ttft=0,itl=5,tokens=64` (header `x-headrace-sim`; milliseconds, milliseconds, words), each part optional,
 * over the defaults. Throws an Error that names the part it does not understand.
 */
export function parsePace(spec: string | undefined, defaults: Pace): Pace {
  return { ...defaults, ...readPace(spec) };
}

/**
 * The tokens that the same header asks of an engine, whose pace is what its work takes; null: it asks for none. Throws an
 * Error that names the part that is for hosts with a fixed pace, or that it does not understand.
 */
export function parsePlannedTokens(spec: string | undefined): number | null {
  const { interTokenMs, timeToFirstTokenMs, tokens = null } = readPace(spec);
  const fixed = timeToFirstTokenMs !== undefined ? 'ttft' : interTokenMs !== undefined ? 'itl' : null;
  if (fixed === null) return tokens;
  throw new Error(`'${fixed}' is for hosts with a fixed pace (--ttft, --itl); this one is as fast as its engine`);
}

function readPace(spec: string | undefined): Partial<Pace> {
  const pace: { timeToFirstTokenMs?: number; interTokenMs?: number; tokens?: number } = {};
  for (const part of (spec ?? '').split(',')) {
    if (part.trim() === '') continue;
    const [name, value = ''] = part.trim().split('=', 2);
    const amount = Number(value);
    if (value === '' || !(amount >= 0 && amount < Infinity)) throw new Error(`cannot read the pace '${part.trim()}'`);
    if (name === 'ttft') pace.timeToFirstTokenMs = amount;
    else if (name === 'itl') pace.interTokenMs = amount;
    else if (name === 'tokens') pace.tokens = Math.floor(amount);
    else throw new Error(`unknown pace '${name}'; known: ttft, itl, tokens`);
  }
  return pace;
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
