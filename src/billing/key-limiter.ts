// Limits of API keys: requests and tokens per minute, spending per month. The counts are in memory that all threads of a gateway
// share, so a limit holds for the process and not for each thread. Layout: per key two 64-bit fields (month, its spending),
// then for all keys four 32-bit fields each (minute, its requests, minute, its tokens). Every thread reads and writes; a
// thread that dies between two steps leaves counts that are valid, at worst too low by one request.

/** What a key may use. Undefined: no limit. */
export interface KeyAllowance {
  /** The key's place in the shared memory. */
  readonly cell: number;
  readonly requestsPerMinute: number | undefined;
  readonly tokensPerMinute: number | undefined;
  /** Pico-USD in a calendar month, UTC. */
  readonly monthlySpend: number | undefined;
}

/** The limit that a key has reached, and when to retry; a monthly limit has no retry time. */
export type Exceeded =
  | { readonly kind: 'requests' | 'tokens'; readonly limit: number; readonly retryAfterS: number }
  | { readonly kind: 'spend'; readonly limit: number };

/** Most keys with limits of one gateway; further keys are not limited. */
export const MAX_LIMITED_KEYS = 65_536;

const MINUTE_MS = 60_000;

/** Minute, its requests, minute, its tokens. */
const FIELDS = 4;
/** Month, its money. */
const BIG_FIELDS = 2;

/** Memory for `MAX_LIMITED_KEYS` keys. */
export function createLimitMemory(keys: number = MAX_LIMITED_KEYS): SharedArrayBuffer {
  return new SharedArrayBuffer(keys * (BIG_FIELDS * 8 + FIELDS * 4));
}

/** Months since 1970 in UTC. */
function monthOf(epochMs: number): number {
  const date = new Date(epochMs);
  return (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth();
}

export class KeyLimiter {
  readonly #counts: Int32Array;
  readonly #money: BigInt64Array;

  constructor(memory: SharedArrayBuffer) {
    const keys = memory.byteLength / (BIG_FIELDS * 8 + FIELDS * 4);
    this.#money = new BigInt64Array(memory, 0, keys * BIG_FIELDS);
    this.#counts = new Int32Array(memory, keys * BIG_FIELDS * 8, keys * FIELDS);
  }

  /** Counts a request; answers with the limit that forbids it, and then it is not counted. */
  admit(allowance: KeyAllowance, epochMs: number): Exceeded | null {
    const { cell, monthlySpend, requestsPerMinute, tokensPerMinute } = allowance;
    const minute = Math.floor(epochMs / MINUTE_MS);
    const retryAfterS = Math.ceil(((minute + 1) * MINUTE_MS - epochMs) / 1000);
    if (monthlySpend !== undefined && this.spent(cell, epochMs) >= monthlySpend) {
      return { kind: 'spend', limit: monthlySpend };
    }
    const at = cell * FIELDS;
    if (tokensPerMinute !== undefined && this.#inMinute(at + 2, minute) >= tokensPerMinute) {
      return { kind: 'tokens', limit: tokensPerMinute, retryAfterS };
    }
    if (requestsPerMinute === undefined) return null;
    if (this.#inMinute(at, minute) >= requestsPerMinute) {
      return { kind: 'requests', limit: requestsPerMinute, retryAfterS };
    }
    // Of threads that count at the same moment, each sees its own position.
    if (Atomics.add(this.#counts, at + 1, 1) < requestsPerMinute) return null;
    Atomics.sub(this.#counts, at + 1, 1);
    return { kind: 'requests', limit: requestsPerMinute, retryAfterS };
  }

  /** Counts what an admitted request has used. */
  settle(allowance: KeyAllowance, tokens: number, pico: number, epochMs: number): void {
    const { cell, monthlySpend, tokensPerMinute } = allowance;
    if (tokensPerMinute !== undefined) {
      const at = cell * FIELDS + 2;
      this.#inMinute(at, Math.floor(epochMs / MINUTE_MS));
      Atomics.add(this.#counts, at + 1, Math.min(tokens, tokensPerMinute));
    }
    if (monthlySpend === undefined || pico === 0) return;
    this.spent(cell, epochMs);
    Atomics.add(this.#money, cell * BIG_FIELDS + 1, BigInt(pico));
  }

  /** Pico-USD of the present month. */
  spent(cell: number, epochMs: number): number {
    const at = cell * BIG_FIELDS;
    const month = BigInt(monthOf(epochMs));
    const before = Atomics.load(this.#money, at);
    if (before < month && Atomics.compareExchange(this.#money, at, before, month) === before) {
      Atomics.store(this.#money, at + 1, 0n);
    }
    return Number(Atomics.load(this.#money, at + 1));
  }

  /** Raises the count to the ledger's sum for this month, which includes the spending of other gateways. */
  sync(cell: number, pico: number, epochMs: number): void {
    const known = this.spent(cell, epochMs);
    if (pico > known) Atomics.add(this.#money, cell * BIG_FIELDS + 1, BigInt(pico - known));
  }

  /** Resets the counts of a cell before a new key uses it. */
  clear(cell: number): void {
    this.#counts.fill(0, cell * FIELDS, (cell + 1) * FIELDS);
    this.#money.fill(0n, cell * BIG_FIELDS, (cell + 1) * BIG_FIELDS);
  }

  /** The count beside the minute at `at`, begun anew with a new minute. A thread whose clock is behind counts along. */
  #inMinute(at: number, minute: number): number {
    const before = Atomics.load(this.#counts, at);
    if (before < minute && Atomics.compareExchange(this.#counts, at, before, minute) === before) {
      Atomics.store(this.#counts, at + 1, 0);
    }
    return Atomics.load(this.#counts, at + 1);
  }
}
