// Which API keys are good. Keys are known by their SHA-256 only; a request's key is hashed once and remembered in a
// bounded cache, good or bad, so that a flood of unknown keys costs neither hashing twice nor memory.

import { createHash, timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';

/** A key as it is stored: never the key itself. */
export interface KeyRecord {
  /** SHA-256 of the key, in hex. */
  readonly hash: string;
  readonly account: string;
}

/** What a request's credentials come to. */
export type Credential =
  { readonly kind: 'none' } | { readonly kind: 'bad' } | { readonly kind: 'good'; readonly account: string };

const NONE: Credential = { kind: 'none' };
const BAD: Credential = { kind: 'bad' };

/** Keys remembered per thread. */
const CACHE_ENTRIES = 10_000;

/** Longer than any key; refused unread so that the cache cannot be filled with large strings. */
const MAX_KEY_LENGTH = 512;

/** The word that wallet clients send in place of a key. */
const NO_KEY = 'x402';

export function hashKey(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}

export class KeyRing {
  readonly #records: ReadonlyMap<string, KeyRecord>;
  readonly #seen = new LRUCache<string, Credential>({ max: CACHE_ENTRIES });

  constructor(records: readonly KeyRecord[]) {
    this.#records = new Map(records.map((record) => [record.hash, record]));
  }

  get size(): number {
    return this.#records.size;
  }

  /** Judges a key as presented; undefined is none. */
  check(key: string | undefined): Credential {
    if (key === undefined || key === '' || key === NO_KEY) return NONE;
    if (key.length > MAX_KEY_LENGTH) return BAD;
    const seen = this.#seen.get(key);
    if (seen !== undefined) return seen;
    const credential = this.#lookUp(hashKey(key));
    this.#seen.set(key, credential);
    return credential;
  }

  #lookUp(hash: string): Credential {
    const record = this.#records.get(hash);
    if (record === undefined || !timingSafeEqual(Buffer.from(record.hash), Buffer.from(hash))) return BAD;
    return { kind: 'good', account: record.account };
  }
}

/** The key of a request and where it stood: `Authorization: Bearer` first, then `x-api-key`. */
export interface PresentedKey {
  readonly key: string | undefined;
  /** Set when the key came in `x-api-key` alone: CRNs want it as a bearer token too. */
  readonly bearer: string | undefined;
}

/** Stands for credentials of another scheme: a key has no spaces, so this is never one. */
const NOT_BEARER = 'not a bearer token';

const BEARER = /^bearer +(\S+) *$/i;

/** The key among the credentials of a request. A malformed Authorization counts as a bad key, an empty one as none. */
export function presentedKey(authorization: string | undefined, apiKey: string | undefined): PresentedKey {
  if (authorization === undefined || authorization === '') return { key: apiKey, bearer: apiKey };
  return { key: BEARER.exec(authorization)?.[1] ?? NOT_BEARER, bearer: undefined };
}
