// Table of valid API keys. Keys are stored as SHA-256 only. The result for a presented key, valid or not, stays in a bounded
// cache, so that a flood of unknown keys costs neither repeated hashing nor memory. Keys come from the configuration and
// from the store; a change of either clears the cache.

import { createHash, timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { KeyAllowance } from './limits/key-limiter.ts';

/** A key as stored: never the key itself. */
export interface KeyRecord {
  /** SHA-256 of the key, in hex. */
  readonly hash: string;
  readonly account: string;
  /** Name of the key in usage; null when it is not known here, as on a host. */
  readonly id?: string;
  /** Id of the first key in its chain of rotations. Default: `id`. */
  readonly lineage?: string;
  /** Spends only credit that its account has. Default false: the account may fall below zero. */
  readonly prepaid?: boolean;
  /** From then on the key is invalid, in milliseconds since 1970. Default: it does not expire. */
  readonly expiresMs?: number;
  readonly allowance?: KeyAllowance;
}

/** A valid key. */
export interface GoodCredential {
  readonly kind: 'good';
  readonly account: string;
  readonly key: string | null;
  readonly lineage: string | null;
  readonly prepaid: boolean;
  readonly expiresMs: number;
  readonly allowance: KeyAllowance | null;
}

/** Result of checking a request's credentials. */
export type Credential = { readonly kind: 'none' } | { readonly kind: 'bad' } | GoodCredential;

/** Keys that came, went or changed in the store. `reset`: these are all keys of the store. */
export interface KeyChange {
  readonly reset: boolean;
  readonly put: readonly KeyRecord[];
  /** Hashes. */
  readonly drop: readonly string[];
}

const NONE: Credential = { kind: 'none' };
const BAD: Credential = { kind: 'bad' };

/** Keys remembered per thread. */
const CACHE_ENTRIES = 10_000;

/** Longer than any key; refused unread so that the cache cannot be filled with large strings. */
const MAX_KEY_LENGTH = 512;

/** Sent by wallet clients in place of a key. */
const NO_KEY = 'x402';

export function hashKey(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}

export class KeyTable {
  readonly #epochMs: () => number;
  readonly #seen = new LRUCache<string, Credential>({ max: CACHE_ENTRIES });
  readonly #stored = new Map<string, KeyRecord>();
  #configured: ReadonlyMap<string, KeyRecord> = new Map();
  #isComplete: boolean;

  /**
   * @param epochMs milliseconds since 1970; without it no key expires in this table
   * @param hasStore keys of a store are still to come
   */
  constructor(records: readonly KeyRecord[], epochMs: () => number = () => 0, hasStore = false) {
    this.#epochMs = epochMs;
    this.#isComplete = !hasStore;
    this.configure(records);
  }

  /** Whether a key that is not here is no key: the keys of the store are known, where there is one. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  get size(): number {
    return this.#configured.size + this.#stored.size;
  }

  /** Replaces the keys of the configuration; they take precedence over those of the store. */
  configure(records: readonly KeyRecord[]): void {
    this.#configured = new Map(records.map((record) => [record.hash, record]));
    this.#seen.clear();
  }

  /** Applies a change of the keys in the store. */
  update({ reset, put, drop }: KeyChange): void {
    if (reset) {
      this.#stored.clear();
      this.#isComplete = true;
    }
    for (const record of put) this.#stored.set(record.hash, record);
    for (const hash of drop) this.#stored.delete(hash);
    this.#seen.clear();
  }

  /** Checks a presented key; undefined: none was presented. */
  check(key: string | undefined): Credential {
    if (key === undefined || key === '' || key === NO_KEY) return NONE;
    if (key.length > MAX_KEY_LENGTH) return BAD;
    let credential = this.#seen.get(key);
    if (credential === undefined) {
      credential = this.#lookUp(hashKey(key));
      this.#seen.set(key, credential);
    }
    if (credential.kind === 'good' && credential.expiresMs !== Infinity && credential.expiresMs <= this.#epochMs()) {
      return BAD;
    }
    return credential;
  }

  #lookUp(hash: string): Credential {
    const record = this.#configured.get(hash) ?? this.#stored.get(hash);
    if (record === undefined || !timingSafeEqual(Buffer.from(record.hash), Buffer.from(hash))) return BAD;
    const { account, allowance = null, expiresMs = Infinity, id = null, lineage = id, prepaid = false } = record;
    return { kind: 'good', account, key: id, lineage, prepaid, expiresMs, allowance };
  }
}

/** The key of a request and its source: `Authorization: Bearer` first, then `x-api-key`. */
export interface PresentedKey {
  readonly key: string | undefined;
  /** Set when the key came in `x-api-key` only: CRNs expect it as a bearer token too. */
  readonly bearer: string | undefined;
}

/** Stands for credentials of another scheme: a key has no spaces, so this is never one. */
const NOT_BEARER = 'not a bearer token';

/** Values of Authorization that were read lately. */
const READ = new Map<string, PresentedKey>();
const MAX_READ = 1024;

const BEARER = /^bearer +(\S+) *$/i;

/** The key among the credentials of a request. A malformed Authorization counts as a bad key, an empty one as none. */
export function presentedKey(authorization: string | undefined, apiKey: string | undefined): PresentedKey {
  if (authorization === undefined || authorization === '') return { key: apiKey, bearer: apiKey };
  const known = READ.get(authorization);
  if (known !== undefined) return known;
  const presented = { key: BEARER.exec(authorization)?.[1] ?? NOT_BEARER, bearer: undefined };
  if (authorization.length <= MAX_KEY_LENGTH) {
    if (READ.size === MAX_READ) READ.clear();
    READ.set(authorization, presented);
  }
  return presented;
}
