// Standing of every search engine in memory that all threads share: end of its suspension and for whom it is, what failed in a row,
// its single trial, and its rate limits. Failures that a query can cause suspend an engine for the account of the queries only, until
// a second account has failed too. A thread that dies leaves at most a trial, which lapses.

import type { EngineFailure, RateLimit } from './engine.ts';

/** Engines that the shared memory has places for. */
export const MAX_ENGINES = 64;

/** Why an engine did not answer: decides how long it is suspended. */
export type CallFailure = EngineFailure | 'timeout' | 'connection';

interface SuspensionRule {
  /** Different queries that fail in a row before the first suspension. 1: the fault is never the query's, and all are suspended. */
  readonly after: number;
  readonly firstMs: number;
  readonly maxMs: number;
}

/** Faults that often pass by themselves. */
const BROKEN: SuspensionRule = { after: 3, firstMs: 5000, maxMs: 120_000 };

/** Each suspension in a row is twice as long. Absent: the query is at fault, not the engine. */
const RULES: Readonly<Partial<Record<CallFailure, SuspensionRule>>> = {
  // Firewalls refuse or challenge single queries too.
  denied: { after: 2, firstMs: 180_000, maxMs: 3_600_000 },
  challenge: { after: 2, firstMs: 3_600_000, maxMs: 86_400_000 },
  quota: { after: 1, firstMs: 3_600_000, maxMs: 21_600_000 },
  'rate limited': { after: 1, firstMs: 10_000, maxMs: 600_000 },
  timeout: BROKEN,
  connection: BROKEN,
  http: BROKEN,
  invalid: BROKEN,
  unresponsive: BROKEN,
};

/** Longest `Retry-After` that is obeyed: one trial a day costs nothing, a misread date could suspend for years. */
const MAX_RETRY_AFTER_MS = 86_400_000;

/** Rate windows per engine. */
const WINDOWS = 4;

/** Cells of one engine, then its rate windows. Times in microseconds. */
const UNTIL = 0;
const TRIAL = 1;
/** Of the failures in a row: a bit for each query, by its hash, and the hash of the first account. */
const QUERIES = 2;
const ACCOUNT = 3;
/** 1 when accounts beside the first one have failed. */
const SEVERAL = 4;
const SUSPENSIONS = 5;
/** Hash of the only account that is suspended; 0: all are. */
const SCOPE = 6;
const RATES = 7;
const CELLS = RATES + WINDOWS;
const STANDING = [QUERIES, ACCOUNT, SEVERAL, SUSPENSIONS, UNTIL, SCOPE] as const;

/** A trial without an outcome is granted again after this long: its thread has died. */
const TRIAL_MS = 30_000;

/** Requests arrive late by up to about this: windows are longer by as much, or an engine could count one too many. */
const JITTER_MS = 25;

/** Makes the memory for a number of engines; can be posted to other threads. */
export function createEngineMemory(engines: number): SharedArrayBuffer {
  return new SharedArrayBuffer(engines * CELLS * 8);
}

/**
 * The places of engines on the board. An engine keeps its place for as long as the process lives, so that its standing
 * survives reloads that remove it and bring it back.
 */
export class EngineCells {
  readonly memory: SharedArrayBuffer = createEngineMemory(MAX_ENGINES);
  readonly #cells = new Map<string, number>();

  /** Places by engine id, of these engines and of all asked for before. */
  of(ids: readonly string[]): Record<string, number> {
    for (const id of ids) if (!this.#cells.has(id)) this.#cells.set(id, this.#cells.size % MAX_ENGINES);
    return Object.fromEntries(this.#cells);
  }
}

/** Permission to ask an engine, ended by one of `succeed`, `fail` and `release`. 0, or the time at which a trial began. */
export type Permit = bigint;

/** Whose search it is. */
export interface Asker {
  /** Account, or what stands for one. */
  readonly account: string;
  readonly query: string;
}

export class EngineBoard {
  readonly #cells: BigInt64Array;

  constructor(memory: SharedArrayBuffer) {
    this.#cells = new BigInt64Array(memory);
  }

  /** Undefined while the engine is suspended for the account, or after that while another search tries it. */
  acquire(engine: number, nowMs: number, account: string): Permit | undefined {
    if (!this.isSuspended(engine, account)) return 0n;
    const now = micros(nowMs);
    if (now < this.#load(engine, UNTIL)) return undefined;
    const taken = this.#load(engine, TRIAL);
    if (taken !== 0n && now - taken < micros(TRIAL_MS)) return undefined;
    return this.#swap(engine, TRIAL, taken, now) ? now : undefined;
  }

  /** Whether the account may ask by a trial at most. */
  isSuspended(engine: number, account: string): boolean {
    if (this.#load(engine, UNTIL) === 0n) return false;
    const scope = this.#load(engine, SCOPE);
    return scope === 0n || scope === hashOf(account);
  }

  /** Whether no account may ask but by a trial. */
  isSuspendedForAll(engine: number): boolean {
    return this.#load(engine, UNTIL) !== 0n && this.#load(engine, SCOPE) === 0n;
  }

  /**
   * The engine answered: its failures are forgotten. Only a trial ends a suspension of the account, not an answer asked for before it.
   * A suspension of another account ends: the engine works.
   */
  succeed(engine: number, permit: Permit, account: string): void {
    const isLate = permit === 0n ? this.isSuspended(engine, account) : this.#load(engine, TRIAL) !== permit;
    if (isLate) return;
    for (const cell of STANDING) Atomics.store(this.#cells, engine * CELLS + cell, 0n);
    if (permit !== 0n) this.release(engine, permit);
  }

  /**
   * The engine failed. Returns the length of the suspension in milliseconds, 0 for none: at least `retryAfterMs`, which
   * the engine asked for, up to a day. Searches that were under way when the engine was suspended do not count as further
   * failures: a burst fails once. Nor does a query count that has failed in this row before.
   */
  fail(
    engine: number,
    permit: Permit,
    failure: CallFailure,
    nowMs: number,
    asker: Asker,
    retryAfterMs?: number,
  ): number {
    const rule = RULES[failure];
    const askedMs = retryAfterMs !== undefined && retryAfterMs > 0 ? Math.min(retryAfterMs, MAX_RETRY_AFTER_MS) : 0;
    const lengthMs = rule === undefined ? 0 : Math.max(this.#suspensionMs(engine, permit, rule, asker), askedMs);
    if (lengthMs > 0) {
      const isForAll = rule?.after === 1 || askedMs > 0 || this.#load(engine, SEVERAL) !== 0n;
      this.#narrow(engine, permit, isForAll ? 0n : hashOf(asker.account));
      this.#raise(engine, micros(nowMs + lengthMs));
    }
    this.release(engine, permit);
    return lengthMs;
  }

  /** The request proved nothing about the engine: a trial is free again. */
  release(engine: number, permit: Permit): void {
    if (permit !== 0n) this.#swap(engine, TRIAL, permit, 0n);
  }

  /** Forgets failures and suspension, for an engine with new settings. */
  reset(engine: number): void {
    for (const cell of [...STANDING, TRIAL]) Atomics.store(this.#cells, engine * CELLS + cell, 0n);
  }

  /** End of the suspension in milliseconds, of all accounts or of one; 0 without one. In the past: a trial is due or under way. */
  suspendedUntilMs(engine: number): number {
    return Number(this.#load(engine, UNTIL)) / 1000;
  }

  /**
   * Reserves the next time at which all limits allow a request, if it comes within `withinMs`. Returns the milliseconds
   * to wait, or -1. Each limit is a generic cell rate algorithm (ITU-T I.371) whose windows never hold more than its
   * requests: half may come at once, the rest are spread.
   */
  reserve(engine: number, limits: readonly RateLimit[], nowMs: number, withinMs: number): number {
    const rates = limits.slice(0, WINDOWS).map((limit, index) => rateOf(limit, engine * CELLS + RATES + index));
    const now = micros(nowMs);
    const last = now + micros(withinMs);
    // All limits are read before any is charged: a request that one refuses must not count in the others.
    let at = now;
    for (const rate of rates) at = later(at, Atomics.load(this.#cells, rate.cell) - rate.tolerance);
    if (at > last) return -1;
    const taken = rates.map((rate) => (at = this.#take(rate, at)));
    // Another thread may have come in between: the limits charged first must count the request at its final time.
    for (const [index, { cell }] of rates.entries()) Atomics.add(this.#cells, cell, at - (taken[index] as bigint));
    return at > last ? -1 : Number(at - now) / 1000;
  }

  /** Milliseconds until all limits allow a request. */
  dueInMs(engine: number, limits: readonly RateLimit[], nowMs: number): number {
    const now = micros(nowMs);
    let at = now;
    for (const [index, limit] of limits.slice(0, WINDOWS).entries()) {
      const { cell, tolerance } = rateOf(limit, engine * CELLS + RATES + index);
      at = later(at, Atomics.load(this.#cells, cell) - tolerance);
    }
    return Number(at - now) / 1000;
  }

  /** Requests that all limits allow from now until `withinMs` later, if each is sent as soon as it may be. */
  placesWithin(engine: number, limits: readonly RateLimit[], nowMs: number, withinMs: number): number {
    const now = micros(nowMs);
    const last = now + micros(withinMs);
    let places = Infinity;
    for (const [index, limit] of limits.slice(0, WINDOWS).entries()) {
      const { cell, interval, tolerance } = rateOf(limit, engine * CELLS + RATES + index);
      const room = last + tolerance - later(Atomics.load(this.#cells, cell), now);
      places = Math.min(places, room < 0n ? 0 : Number(room / interval) + 1);
    }
    return places;
  }

  /** Counts a request at `from` or at the first time after it that the limit allows; returns that time. */
  #take({ cell, interval, tolerance }: Rate, from: bigint): bigint {
    for (;;) {
      const due = Atomics.load(this.#cells, cell);
      const at = later(from, due - tolerance);
      if (Atomics.compareExchange(this.#cells, cell, due, later(due, at) + interval) === due) return at;
    }
  }

  /** Counts a failure; returns the length of the suspension it brings. */
  #suspensionMs(engine: number, permit: Permit, { after, firstMs, maxMs }: SuspensionRule, asker: Asker): number {
    const isTrial = permit !== 0n;
    if (!isTrial && this.isSuspended(engine, asker.account)) return after === 1 ? firstMs : 0;
    const failures = this.#note(engine, asker);
    if (!isTrial && failures < after) return 0;
    const suspensions = Number(Atomics.add(this.#cells, engine * CELLS + SUSPENSIONS, 1n));
    return Math.min(firstMs * 2 ** Math.min(suspensions, 30), maxMs);
  }

  /** Adds a search to the failures in a row; returns how many different queries they were. */
  #note(engine: number, { account, query }: Asker): number {
    const own = hashOf(account);
    const first = Atomics.compareExchange(this.#cells, engine * CELLS + ACCOUNT, 0n, own);
    if (first !== 0n && first !== own) Atomics.store(this.#cells, engine * CELLS + SEVERAL, 1n);
    const bit = 1n << (hashOf(query) % 61n);
    return bitsIn(Atomics.or(this.#cells, engine * CELLS + QUERIES, bit) | bit);
  }

  /** Says for whom the coming suspension is. One of all accounts is narrowed by nothing but its own trial. */
  #narrow(engine: number, permit: Permit, scope: bigint): void {
    if (scope !== 0n && permit === 0n && this.#load(engine, UNTIL) !== 0n) return;
    Atomics.store(this.#cells, engine * CELLS + SCOPE, scope);
  }

  /** Never shortens a suspension. */
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

/** A limit in the terms of its cell: microseconds. */
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

/** A hash of 62 bits, never 0: that two accounts share one is as good as impossible. */
function hashOf(text: string): bigint {
  let [high, low] = [0x811c9dc5, 0x1b873593];
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    high = Math.imul(high ^ code, 0x01000193);
    low = Math.imul(low ^ (code + i), 0x85ebca6b);
  }
  const hash = (BigInt(mixed(high) >>> 1) << 31n) | BigInt(mixed(low) >>> 1);
  return hash === 0n ? 1n : hash;
}

/** The finalizer of MurmurHash3: short texts differ in few bits before. */
function mixed(hash: number): number {
  const once = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  const twice = Math.imul(once ^ (once >>> 13), 0xc2b2ae35);
  return twice ^ (twice >>> 16);
}

function bitsIn(mask: bigint): number {
  let bits = 0;
  for (let rest = mask; rest !== 0n; rest &= rest - 1n) bits++;
  return bits;
}

function later(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

function micros(ms: number): bigint {
  return BigInt(Math.round(ms * 1000));
}
