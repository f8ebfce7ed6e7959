// What all threads know of every engine, in shared memory: until when it is suspended, how often in a row it failed,
// whether its single trial is taken, and when its rate limits let the next request go. Engine actors write and read it;
// nobody waits.

import type { EngineFailure, RateLimit } from './engine.ts';

/** Why an engine did not answer, as it matters for its suspension. */
export type Trouble = EngineFailure | 'timeout' | 'connection';

interface Pause {
  /** Failures in a row before the first pause. */
  readonly after: number;
  readonly firstMs: number;
  readonly mostMs: number;
}

const BROKEN: Pause = { after: 3, firstMs: 5000, mostMs: 120_000 };

/** Pauses by trouble; each pause in a row is twice as long. Absent: the engine is well, the query was not. */
const PAUSES: Readonly<Partial<Record<Trouble, Pause>>> = {
  denied: { after: 1, firstMs: 180_000, mostMs: 3_600_000 },
  challenge: { after: 1, firstMs: 3_600_000, mostMs: 86_400_000 },
  quota: { after: 1, firstMs: 3_600_000, mostMs: 21_600_000 },
  'rate limited': { after: 1, firstMs: 10_000, mostMs: 600_000 },
  timeout: BROKEN,
  connection: BROKEN,
  http: BROKEN,
  invalid: BROKEN,
};

/** An engine's own word is believed up to this: a trial a day costs nothing, a misread date may cost years. */
const MOST_ASKED_MS = 86_400_000;

/** Rate windows per engine. */
const WINDOWS = 4;

/** Cells of one engine, then its rate windows. Times in microseconds. */
const UNTIL = 0;
const TRIAL = 1;
const FAILURES = 2;
const PAUSED = 3;
const RATES = 4;
const CELLS = RATES + WINDOWS;

/** A trial that nobody reports on is given again after this long. */
const TRIAL_MS = 30_000;

/** Requests are late by about this, each by another bit: windows are kept by as much longer. */
const JITTER_MS = 25;

/** Makes the memory for a number of engines; can be posted to other threads. */
export function createEngineMemory(engines: number): SharedArrayBuffer {
  return new SharedArrayBuffer(engines * CELLS * 8);
}

/** Leave to ask an engine, handed back by one of `succeed`, `fail` and `release`: the date of a trial, 0 for none. */
export type Pass = bigint;

export class EngineBoard {
  readonly #cells: BigInt64Array;

  constructor(memory: SharedArrayBuffer) {
    this.#cells = new BigInt64Array(memory);
  }

  /** Asks for leave; undefined while the engine is suspended, or another search tries it. */
  enter(engine: number, nowMs: number): Pass | undefined {
    const until = this.#load(engine, UNTIL);
    if (until === 0n) return 0n;
    const now = micros(nowMs);
    if (now < until) return undefined;
    const taken = this.#load(engine, TRIAL);
    if (taken !== 0n && now - taken < micros(TRIAL_MS)) return undefined;
    return this.#swap(engine, TRIAL, taken, now) ? now : undefined;
  }

  /** The engine answered well: a trial forgives everything. An answer asked for before a suspension does not end it. */
  succeed(engine: number, pass: Pass): void {
    if (pass === 0n ? this.#load(engine, UNTIL) !== 0n : this.#load(engine, TRIAL) !== pass) return;
    for (const cell of [FAILURES, PAUSED, UNTIL]) Atomics.store(this.#cells, engine * CELLS + cell, 0n);
    this.release(engine, pass);
  }

  /**
   * The engine failed. `retryAfterMs` is the engine's own word and at least obeyed, up to a day. Returns the pause, 0
   * for none. Searches that were under way when the engine was suspended may make the pause longer, but not twice as
   * long: a burst fails once.
   */
  fail(engine: number, pass: Pass, trouble: Trouble, nowMs: number, retryAfterMs?: number): number {
    const pause = PAUSES[trouble];
    const askedMs = retryAfterMs !== undefined && retryAfterMs > 0 ? Math.min(retryAfterMs, MOST_ASKED_MS) : 0;
    const lengthMs = pause === undefined ? 0 : Math.max(this.#pauseMs(engine, pass, pause), askedMs);
    if (lengthMs > 0) this.#raise(engine, micros(nowMs + lengthMs));
    this.release(engine, pass);
    return lengthMs;
  }

  /** The request proved nothing: a trial it held is free again. */
  release(engine: number, pass: Pass): void {
    if (pass !== 0n) this.#swap(engine, TRIAL, pass, 0n);
  }

  /** Forgets failures and suspension: the engine at this place has new settings. */
  reset(engine: number): void {
    for (const cell of [FAILURES, PAUSED, UNTIL, TRIAL]) Atomics.store(this.#cells, engine * CELLS + cell, 0n);
  }

  /** Until when the engine is suspended, in milliseconds; 0 when it is not. In the past: a trial is due or under way. */
  suspendedUntilMs(engine: number): number {
    return Number(this.#load(engine, UNTIL)) / 1000;
  }

  /**
   * Reserves the next place that all limits allow, if it comes within `withinMs`. Returns how long to wait, or -1.
   * Each limit is a generic cell rate algorithm (ITU-T I.371) tuned so that no window of its length ever holds more
   * than its requests: half may come at once, the rest are spread.
   */
  reserve(engine: number, limits: readonly RateLimit[], nowMs: number, withinMs: number): number {
    const rates = limits.slice(0, WINDOWS).map((limit, index) => rateOf(limit, engine * CELLS + RATES + index));
    const now = micros(nowMs);
    const last = now + micros(withinMs);
    // All are asked before any is taken: a place that one limit refuses must not be used up in the others.
    let at = now;
    for (const rate of rates) at = later(at, Atomics.load(this.#cells, rate.cell) - rate.tolerance);
    if (at > last) return -1;
    const taken = rates.map((rate) => (at = this.#take(rate, at)));
    // Where another thread came in between, the limits taken first must count the request at the date it goes.
    for (const [index, { cell }] of rates.entries()) Atomics.add(this.#cells, cell, at - (taken[index] as bigint));
    return at > last ? -1 : Number(at - now) / 1000;
  }

  /** Counts a request at `from` or at the first date after it that the limit allows; returns the date. */
  #take({ cell, interval, tolerance }: Rate, from: bigint): bigint {
    for (;;) {
      const due = Atomics.load(this.#cells, cell);
      const at = later(from, due - tolerance);
      if (Atomics.compareExchange(this.#cells, cell, due, later(due, at) + interval) === due) return at;
    }
  }

  /** Counts a failure; returns the pause it brings. */
  #pauseMs(engine: number, pass: Pass, { after, firstMs, mostMs }: Pause): number {
    const isTrial = pass !== 0n;
    if (!isTrial && this.#load(engine, UNTIL) !== 0n) return after === 1 ? firstMs : 0;
    const failures = Number(Atomics.add(this.#cells, engine * CELLS + FAILURES, 1n)) + 1;
    if (!isTrial && failures < after) return 0;
    const paused = Number(Atomics.add(this.#cells, engine * CELLS + PAUSED, 1n));
    return Math.min(firstMs * 2 ** Math.min(paused, 30), mostMs);
  }

  /** A shorter pause never cuts a longer one. */
  #raise(engine: number, until: bigint): void {
    for (;;) {
      const before = this.#load(engine, UNTIL);
      if (before >= until || this.#swap(engine, UNTIL, before, until)) return;
    }
  }

  #load(engine: number, cell: number): bigint {
    return Atomics.load(this.#cells, engine * CELLS + cell);
  }

  #swap(engine: number, cell: number, from: bigint, to: bigint): boolean {
    return Atomics.compareExchange(this.#cells, engine * CELLS + cell, from, to) === from;
  }
}

/** A limit as its cell is run. */
interface Rate {
  readonly cell: number;
  readonly interval: bigint;
  readonly tolerance: bigint;
}

function rateOf({ requests, perMs }: RateLimit, cell: number): Rate {
  const most = Math.max(1, Math.floor(requests));
  const burst = Math.ceil(most / 2);
  const windowMs = perMs + Math.min(JITTER_MS, perMs / 4);
  const interval = BigInt(Math.ceil((windowMs * 1000) / (most - burst + 1)));
  return { cell, interval, tolerance: interval * BigInt(burst - 1) };
}

function later(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

function micros(ms: number): bigint {
  return BigInt(Math.round(ms * 1000));
}
