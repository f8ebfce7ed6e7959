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

/** Pauses by trouble; each failure in a row doubles the pause. Absent: the engine is well, the query was not. */
const PAUSES: Readonly<Partial<Record<Trouble, Pause>>> = {
  denied: { after: 1, firstMs: 180_000, mostMs: 3_600_000 },
  challenge: { after: 1, firstMs: 3_600_000, mostMs: 86_400_000 },
  quota: { after: 1, firstMs: 3_600_000, mostMs: 21_600_000 },
  'rate limited': { after: 1, firstMs: 10_000, mostMs: 600_000 },
  timeout: { after: 3, firstMs: 5000, mostMs: 120_000 },
  connection: { after: 3, firstMs: 5000, mostMs: 120_000 },
  http: { after: 3, firstMs: 5000, mostMs: 120_000 },
};

/** Rate windows per engine. */
const WINDOWS = 4;

/** Cells of one engine: suspended until, trial date, failures in a row, then its rate windows. Times in microseconds. */
const UNTIL = 0;
const TRIAL = 1;
const FAILURES = 2;
const RATES = 3;
const CELLS = RATES + WINDOWS;

/** A trial that nobody reports on is given again after this long. */
const TRIAL_MS = 30_000;

/** Makes the memory for a number of engines; can be posted to other threads. */
export function createEngineMemory(engines: number): SharedArrayBuffer {
  return new SharedArrayBuffer(engines * CELLS * 8);
}

/** Whether an engine may be asked: `trial` for the one request that tries a suspended engine again. */
export type Permission = 'open' | 'trial' | 'suspended';

export class EngineBoard {
  readonly #cells: BigInt64Array;

  constructor(memory: SharedArrayBuffer) {
    this.#cells = new BigInt64Array(memory);
  }

  /** Asks for permission to send a request now. */
  enter(engine: number, nowMs: number): Permission {
    const until = Atomics.load(this.#cells, engine * CELLS + UNTIL);
    if (until === 0n) return 'open';
    const now = micros(nowMs);
    if (now < until) return 'suspended';
    const at = engine * CELLS + TRIAL;
    const taken = Atomics.load(this.#cells, at);
    if (taken !== 0n && now - taken < micros(TRIAL_MS)) return 'suspended';
    return Atomics.compareExchange(this.#cells, at, taken, now) === taken ? 'trial' : 'suspended';
  }

  /** The engine answered well: everything is forgiven. */
  succeed(engine: number): void {
    Atomics.store(this.#cells, engine * CELLS + UNTIL, 0n);
    Atomics.store(this.#cells, engine * CELLS + TRIAL, 0n);
    Atomics.store(this.#cells, engine * CELLS + FAILURES, 0n);
  }

  /** The engine failed. `retryAfterMs` is the engine's own word and at least obeyed. Returns the pause, 0 for none. */
  fail(engine: number, trouble: Trouble, nowMs: number, retryAfterMs: number | undefined): number {
    const pause = PAUSES[trouble];
    if (pause === undefined) {
      this.release(engine);
      return 0;
    }
    const failures = Number(Atomics.add(this.#cells, engine * CELLS + FAILURES, 1n)) + 1;
    if (failures < pause.after && retryAfterMs === undefined) {
      this.release(engine);
      return 0;
    }
    const grown = pause.firstMs * 2 ** Math.min(Math.max(failures - pause.after, 0), 30);
    const lengthMs = Math.max(Math.min(grown, pause.mostMs), retryAfterMs ?? 0);
    Atomics.store(this.#cells, engine * CELLS + UNTIL, micros(nowMs + lengthMs));
    Atomics.store(this.#cells, engine * CELLS + TRIAL, 0n);
    return lengthMs;
  }

  /** The request proved nothing: a trial it held is free again. */
  release(engine: number): void {
    Atomics.store(this.#cells, engine * CELLS + TRIAL, 0n);
  }

  /** Until when the engine is suspended, in milliseconds; 0 when it is not. */
  suspendedUntilMs(engine: number): number {
    return Number(Atomics.load(this.#cells, engine * CELLS + UNTIL)) / 1000;
  }

  /**
   * Reserves the next place that all limits allow, if it comes within `withinMs`. Returns how long to wait, or -1.
   * Each limit is a generic cell rate algorithm (ITU-T I.371) tuned so that no window of its length ever holds more
   * than its requests: half may come at once, the rest are spread.
   */
  reserve(engine: number, limits: readonly RateLimit[], nowMs: number, withinMs: number): number {
    let waitMs = 0;
    for (const [index, limit] of limits.slice(0, WINDOWS).entries()) {
      const wait = this.#reserveOne(engine * CELLS + RATES + index, limit, nowMs, withinMs);
      if (wait < 0) return -1;
      waitMs = Math.max(waitMs, wait);
    }
    return waitMs;
  }

  #reserveOne(cell: number, { requests, perMs }: RateLimit, nowMs: number, withinMs: number): number {
    const burst = requests === 1 ? 1 : Math.ceil(requests / 2);
    const interval = micros(requests === 1 ? perMs : perMs / (requests - burst));
    const tolerance = interval * BigInt(burst - 1);
    const now = micros(nowMs);
    for (;;) {
      const due = Atomics.load(this.#cells, cell);
      const base = due > now ? due : now;
      const wait = base - tolerance - now;
      if (wait > micros(withinMs)) return -1;
      if (Atomics.compareExchange(this.#cells, cell, due, base + interval) === due)
        return Math.max(Number(wait), 0) / 1000;
    }
  }
}

function micros(ms: number): bigint {
  return BigInt(Math.round(ms * 1000));
}
