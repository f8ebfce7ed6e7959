// Standing of every search engine in memory that all threads share: end of its suspension and for whom it is, what failed in a row,
// its single trial, and its rate limits. Failures that a query can cause suspend an engine for the account of the queries only, until
// a second account has failed too. A thread that dies leaves at most a trial, which lapses. The standing can be read, and that of other
// gateways taken over, as if all had one board: an answer that any of them had ends what failed before it.

import { SharedSignal } from '../net/shared-signal.ts';
import { mix } from '../routing/index.ts';
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
/** When the first failure of the row came. */
const ROW_SINCE = 7;
/** 1: the engine itself asked for the suspension, which no earlier answer ends. */
const OWN_WORDS = 8;
/** When the last answer came; kept only while other gateways are there. */
const SUCCEEDED = 9;
/** Counts changes of the standing made here. */
const CHANGES = 10;
/** Counts requests that the rate limits let through here. */
const TAKEN = 11;
const RATES = 12;
const CELLS = RATES + WINDOWS;
const STANDING = [QUERIES, ACCOUNT, SEVERAL, SUSPENSIONS, UNTIL, SCOPE, ROW_SINCE, OWN_WORDS] as const;

/** Behind the engines: gateways that use them, 1 while they do not hear of each other, and who waits for changes. */
const GATEWAYS = 0;
const APART = 1;
const CHANGED = 2;
const TAIL_BYTES = 12;

/** A trial without an outcome is granted again after this long: its thread has died. */
const TRIAL_MS = 30_000;

/** Requests arrive late by up to about this: windows are longer by as much, or an engine could count one too many. */
const JITTER_MS = 25;

/** Makes the memory for a number of engines; can be posted to other threads. */
export function createEngineMemory(engines: number): SharedArrayBuffer {
  return new SharedArrayBuffer(engines * CELLS * 8 + TAIL_BYTES);
}

/**
 * The places of engines on the board. An engine keeps its place when a reload removes it, so that its standing survives until one brings
 * it back, as long as there are places for others.
 */
export class EngineCells {
  readonly memory: SharedArrayBuffer = createEngineMemory(MAX_ENGINES);
  readonly #cells = new Map<string, number>();

  /** Places by engine id, of the engines that there are, and of former ones that have kept theirs. */
  of(ids: readonly string[]): Record<string, number> {
    for (const id of ids.slice(0, MAX_ENGINES))
      if (!this.#cells.has(id))
        this.#cells.set(id, this.#cells.size < MAX_ENGINES ? this.#cells.size : this.#freed(ids));
    return Object.fromEntries(this.#cells);
  }

  /** The place of the engine that was first of those that are no longer there, as good as new. */
  #freed(ids: readonly string[]): number {
    const [former, cell] = [...this.#cells].find(([id]) => !ids.includes(id)) as [string, number];
    this.#cells.delete(former);
    const board = new EngineBoard(this.memory);
    board.reset(cell);
    board.resetRates(cell);
    return cell;
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

/** What is known of an engine, as it can be told to another gateway: durations up to now instead of times. */
export interface EngineStanding {
  /** What is left of the suspension; 0: none. */
  readonly remainingMs: number;
  readonly ownWords: boolean;
  /** Hash of the only account that is suspended; 0: all are. */
  readonly scope: bigint;
  readonly suspensions: number;
  /** Failures in a row: a bit for each query, the hash of the first account, and whether there were several. 0: none. */
  readonly queries: bigint;
  readonly account: bigint;
  readonly several: boolean;
  /** Time since the first failure of the row. */
  readonly rowAgeMs: number;
  /** Time since the last answer; Infinity: none is known. */
  readonly answerAgeMs: number;
}

/** An answer to a trial ends a suspension that lasts for this much longer here: the word of it took so long. */
const END_TOLERANCE_MS = 200;

/** The longest that requests of other gateways may take a rate limit from now, in its windows. */
const MOST_WINDOWS = 2;

export class EngineBoard {
  readonly #cells: BigInt64Array;
  readonly #tail: Int32Array;
  /** Wakes who waits for a change of `counts`. */
  readonly changed: SharedSignal;

  constructor(memory: SharedArrayBuffer) {
    this.#cells = new BigInt64Array(memory, 0, (memory.byteLength - TAIL_BYTES) / 8);
    this.#tail = new Int32Array(memory, memory.byteLength - TAIL_BYTES, TAIL_BYTES / 4);
    this.changed = new SharedSignal(this.#tail, CHANGED);
  }

  /**
   * Says how many gateways use the engines, this one included. They share the burst of rate limits; while they do not hear of each other,
   * `apart`, the whole limit.
   */
  shareWith(gateways: number, apart: boolean): void {
    Atomics.store(this.#tail, GATEWAYS, gateways);
    Atomics.store(this.#tail, APART, apart ? 1 : 0);
  }

  /** Whether other gateways use the engines. */
  get isShared(): boolean {
    return Atomics.load(this.#tail, GATEWAYS) > 1;
  }

  /** Counts changes of the standing, and requests that the rate limits let through, that were made here while there were others. */
  counts(engine: number): { readonly changes: bigint; readonly taken: bigint } {
    return { changes: this.#load(engine, CHANGES), taken: this.#load(engine, TAKEN) };
  }

  /** Whether a trial is under way here. */
  isTried(engine: number): boolean {
    return this.#load(engine, TRIAL) !== 0n;
  }

  standing(engine: number, nowMs: number): EngineStanding {
    const ageOf = (cell: number): number => nowMs - Number(this.#load(engine, cell)) / 1000;
    return {
      remainingMs: Math.max(0, -ageOf(UNTIL)),
      ownWords: this.#load(engine, OWN_WORDS) !== 0n,
      scope: this.#load(engine, SCOPE),
      suspensions: Number(this.#load(engine, SUSPENSIONS)),
      queries: this.#load(engine, QUERIES),
      account: this.#load(engine, ACCOUNT),
      several: this.#load(engine, SEVERAL) !== 0n,
      rowAgeMs: this.#load(engine, ROW_SINCE) === 0n ? 0 : Math.max(0, ageOf(ROW_SINCE)),
      answerAgeMs: this.#load(engine, SUCCEEDED) === 0n ? Infinity : Math.max(0, ageOf(SUCCEEDED)),
    };
  }

  /**
   * Takes over what another gateway says of an engine. False when an answer that was had here is newer than the first of those failures:
   * with one board it would have ended the row, so that nothing of it counts.
   */
  takeOver(engine: number, other: EngineStanding, nowMs: number): boolean {
    if (other.answerAgeMs < Infinity) this.#answered(engine, micros(nowMs - other.answerAgeMs), nowMs);
    const hasRow = other.queries !== 0n;
    const rowSince = later(1n, micros(nowMs - other.rowAgeMs));
    const isOver = hasRow && this.#load(engine, SUCCEEDED) >= rowSince;
    if (hasRow && !isOver) this.#joinRow(engine, other, rowSince);
    if (other.remainingMs > 0 && (other.ownWords || !isOver)) this.#joinSuspension(engine, other, nowMs);
    return !isOver;
  }

  /** Counts requests of other gateways in the rate limits of an engine. */
  count(engine: number, limits: readonly RateLimit[], requests: number, nowMs: number): void {
    const now = micros(nowMs);
    for (const [index, limit] of limits.slice(0, WINDOWS).entries()) {
      const { cell, interval } = this.#rateOf(limit, engine, index);
      const most = now + micros(limit.perMs * MOST_WINDOWS);
      const due = Atomics.load(this.#cells, cell);
      const then = later(due, now) + interval * BigInt(requests);
      // What this thread or another one counts in between is added to it.
      Atomics.add(this.#cells, cell, later(0n, (then > most ? later(due, most) : then) - due));
    }
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
  succeed(engine: number, permit: Permit, account: string, nowMs: number): void {
    const isLate = permit === 0n ? this.isSuspended(engine, account) : this.#load(engine, TRIAL) !== permit;
    if (isLate) return;
    if (this.isShared) {
      Atomics.store(this.#cells, engine * CELLS + SUCCEEDED, micros(nowMs));
      if (this.#load(engine, QUERIES) !== 0n || this.#load(engine, UNTIL) !== 0n) this.#changed(engine);
    }
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
    const lengthMs = rule === undefined ? 0 : Math.max(this.#suspensionMs(engine, permit, rule, asker, nowMs), askedMs);
    if (lengthMs > 0) {
      const ownWords = rule?.after === 1 || askedMs > 0;
      const isForAll = ownWords || this.#load(engine, SEVERAL) !== 0n;
      Atomics.store(this.#cells, engine * CELLS + OWN_WORDS, ownWords ? 1n : 0n);
      this.#narrow(engine, permit, isForAll ? 0n : hashOf(asker.account));
      this.#raise(engine, micros(nowMs + lengthMs));
    }
    this.release(engine, permit);
    if (rule !== undefined && this.isShared) this.#changed(engine);
    return lengthMs;
  }

  /** The request proved nothing about the engine: a trial is free again. */
  release(engine: number, permit: Permit): void {
    if (permit !== 0n) this.#swap(engine, TRIAL, permit, 0n);
  }

  /** Forgets failures and suspension, for an engine with new settings. */
  reset(engine: number): void {
    for (const cell of [...STANDING, TRIAL, SUCCEEDED]) Atomics.store(this.#cells, engine * CELLS + cell, 0n);
  }

  /** Forgets the requests that rate limits have counted, for another engine or other limits. */
  resetRates(engine: number): void {
    this.#cells.fill(0n, engine * CELLS + RATES, (engine + 1) * CELLS);
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
    const rates = limits.slice(0, WINDOWS).map((limit, index) => this.#rateOf(limit, engine, index));
    const now = micros(nowMs);
    const last = now + micros(withinMs);
    // All limits are read before any is charged: a request that one refuses must not count in the others.
    let at = now;
    for (const rate of rates) at = later(at, Atomics.load(this.#cells, rate.cell) - rate.tolerance);
    if (at > last) return -1;
    const taken = rates.map((rate) => (at = this.#take(rate, at)));
    // Another thread may have come in between: the limits charged first must count the request at its final time.
    for (const [index, { cell }] of rates.entries()) Atomics.add(this.#cells, cell, at - (taken[index] as bigint));
    if (this.isShared) {
      Atomics.add(this.#cells, engine * CELLS + TAKEN, 1n);
      this.changed.raise();
    }
    return at > last ? -1 : Number(at - now) / 1000;
  }

  /** Milliseconds until all limits allow a request. */
  dueInMs(engine: number, limits: readonly RateLimit[], nowMs: number): number {
    const now = micros(nowMs);
    let at = now;
    for (const [index, limit] of limits.slice(0, WINDOWS).entries()) {
      const { cell, tolerance } = this.#rateOf(limit, engine, index);
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
      const { cell, interval, tolerance } = this.#rateOf(limit, engine, index);
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
  #suspensionMs(
    engine: number,
    permit: Permit,
    { after, firstMs, maxMs }: SuspensionRule,
    asker: Asker,
    nowMs: number,
  ): number {
    const isTrial = permit !== 0n;
    if (!isTrial && this.isSuspended(engine, asker.account)) return after === 1 ? firstMs : 0;
    const failures = this.#note(engine, asker, nowMs);
    if (!isTrial && failures < after) return 0;
    const suspensions = Number(Atomics.add(this.#cells, engine * CELLS + SUSPENSIONS, 1n));
    return Math.min(firstMs * 2 ** Math.min(suspensions, 30), maxMs);
  }

  /** Adds a search to the failures in a row; returns how many different queries they were. */
  #note(engine: number, { account, query }: Asker, nowMs: number): number {
    this.#swap(engine, ROW_SINCE, 0n, later(1n, micros(nowMs)));
    this.#noteAccount(engine, hashOf(account));
    const bit = 1n << (hashOf(query) % 61n);
    return bitsIn(Atomics.or(this.#cells, engine * CELLS + QUERIES, bit) | bit);
  }

  #noteAccount(engine: number, account: bigint): void {
    const first = Atomics.compareExchange(this.#cells, engine * CELLS + ACCOUNT, 0n, account);
    if (first !== 0n && first !== account) Atomics.store(this.#cells, engine * CELLS + SEVERAL, 1n);
  }

  /** Another gateway had an answer at `at`: it ends a row that began before, and the suspension that came of it or was over by then. */
  #answered(engine: number, at: bigint, nowMs: number): void {
    const until = this.#load(engine, UNTIL);
    const since = this.#load(engine, ROW_SINCE);
    const isOver = until !== 0n && until <= at + micros(END_TOLERANCE_MS) && at <= micros(nowMs);
    const isNewer = since !== 0n && since < at && this.#load(engine, OWN_WORDS) === 0n;
    if (this.#load(engine, SUCCEEDED) < at) Atomics.store(this.#cells, engine * CELLS + SUCCEEDED, at);
    if (!isOver && !isNewer) return;
    for (const cell of STANDING) Atomics.store(this.#cells, engine * CELLS + cell, 0n);
  }

  #joinRow(engine: number, { account, queries, several }: EngineStanding, since: bigint): void {
    const before = this.#load(engine, ROW_SINCE);
    if (before === 0n || since < before) Atomics.store(this.#cells, engine * CELLS + ROW_SINCE, since);
    if (account !== 0n) this.#noteAccount(engine, account);
    if (several) Atomics.store(this.#cells, engine * CELLS + SEVERAL, 1n);
    Atomics.or(this.#cells, engine * CELLS + QUERIES, queries);
  }

  /** Suspensions of two accounts become one of all, as two accounts that fail in a row do. One of all is not changed by one of an account. */
  #joinSuspension(engine: number, { ownWords, remainingMs, scope, suspensions }: EngineStanding, nowMs: number): void {
    const isSuspended = this.#load(engine, UNTIL) > micros(nowMs);
    const here = this.#load(engine, SCOPE);
    if (isSuspended && here === 0n && scope !== 0n) return;
    Atomics.store(this.#cells, engine * CELLS + SCOPE, isSuspended && here !== scope ? 0n : scope);
    Atomics.store(this.#cells, engine * CELLS + OWN_WORDS, ownWords ? 1n : 0n);
    if (this.#load(engine, SUSPENSIONS) < BigInt(suspensions))
      Atomics.store(this.#cells, engine * CELLS + SUSPENSIONS, BigInt(suspensions));
    this.#raise(engine, micros(nowMs + remainingMs));
  }

  #changed(engine: number): void {
    Atomics.add(this.#cells, engine * CELLS + CHANGES, 1n);
    this.changed.raise();
  }

  #rateOf(limit: RateLimit, engine: number, index: number): Rate {
    const gateways = Math.max(1, Atomics.load(this.#tail, GATEWAYS));
    return rateOf(limit, engine * CELLS + RATES + index, gateways, Atomics.load(this.#tail, APART) !== 0);
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

function rateOf({ requests, perMs }: RateLimit, cell: number, gateways: number, apart: boolean): Rate {
  const most = Math.max(1, Math.floor(requests));
  const burst = Math.ceil(most / 2);
  const windowMs = perMs + Math.min(JITTER_MS, perMs / 4);
  const interval = BigInt(Math.ceil(((apart ? gateways : 1) * windowMs * 1000) / (most - burst + 1)));
  return { cell, interval, tolerance: interval * BigInt(Math.max(1, Math.floor(burst / gateways)) - 1) };
}

/** A hash of 62 bits, never 0: that two accounts share one is as good as impossible. */
function hashOf(text: string): bigint {
  let [high, low] = [0x811c9dc5, 0x1b873593];
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    high = Math.imul(high ^ code, 0x01000193);
    low = Math.imul(low ^ (code + i), 0x85ebca6b);
  }
  // Short texts differ in few bits before.
  const hash = (BigInt(mix(high) >>> 1) << 31n) | BigInt(mix(low) >>> 1);
  return hash === 0n ? 1n : hash;
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
