// Addresses of host names, cached. A name that was resolved once keeps its addresses while later lookups are slow or fail; a few
// lookups run at a time, so that names that nobody answers do not delay others. For configured servers: see `NameResolver` for names
// that clients choose.

import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { type Clock, systemClock } from '../actor/index.ts';

/**
 * All addresses of a name, as text. Rejects with an error whose `code` is one of `node:dns`. Nobody waits for the answer once `signal`
 * fires; a lookup that cannot be stopped may go on.
 */
export type Lookup = (hostname: string, signal?: AbortSignal) => Promise<readonly string[]>;

export interface NameCacheOptions {
  /** Default: the clock of the process. */
  readonly clock?: Clock;
  /** Default: getaddrinfo, so that the hosts file and the search domains of a cluster count. */
  readonly lookup?: Lookup;
}

/** Waits for the addresses of a name. */
export interface NameWaiter {
  /** `error` is null when the name has addresses now. */
  onResolved(error: Error | null): void;
}

/** Age at which addresses are looked up again: new servers of a name have traffic, and old ones lose it, within this time. */
const FRESH_MS = 30_000;
/** Wait after a failed lookup: doubled from the first to the longest. */
const FIRST_RETRY_MS = 1000;
const LONGEST_RETRY_MS = 5000;
/**
 * A lookup that fails slowly is repeated after a multiple of its time, so that a name whose servers are silent occupies its thread of
 * the pool for a small part of the time only.
 */
const SLOW_FACTOR = 4;
/** Time for which the resolver must say that a name does not exist before its addresses are given up. */
const GONE_MS = 30_000;
/** getaddrinfo occupies a thread of libuv's pool, which has four for the whole process. */
const LOOKUPS = 2;
/** Lookups of names that failed the last time: one slot is left to those that do not. */
const RETRIES = 1;
/** Most names that are remembered; past it the oldest is forgotten. */
const MAX_NAMES = 4096;

/** One host name. */
export class ServerName {
  readonly hostname: string;
  /** In the order of the resolver; empty before the first lookup, and when the name does not exist any more. */
  addresses: readonly string[] = [];
  /** @internal */ lookupAtMs = -Infinity;
  /** @internal */ failures = 0;
  /** @internal Since when the resolver says that there is no such name. */ goneSinceMs = NaN;
  /** @internal */ error: Error | null = null;
  /** @internal A lookup is queued or running. */ isPending = false;
  /** @internal */ readonly waiters = new Set<NameWaiter>();
  readonly #cache: NameCache;

  /** @internal */
  constructor(cache: NameCache, hostname: string) {
    this.#cache = cache;
    this.hostname = hostname;
    if (isIP(hostname) === 0) return;
    this.addresses = [hostname];
    this.lookupAtMs = Infinity;
  }

  /** Looks the name up again when its addresses are old; they are used until then. `nowMs` is of the clock of the cache. */
  refresh(nowMs: number): void {
    if (nowMs >= this.lookupAtMs && !this.isPending) this.#cache.enqueue(this);
  }

  /** Calls `waiter` back when the name has addresses or the lookup has failed; may do so before it returns. */
  resolve(waiter: NameWaiter, nowMs: number): void {
    this.refresh(nowMs);
    if (this.addresses.length > 0) waiter.onResolved(null);
    else if (this.isPending) this.waiters.add(waiter);
    else waiter.onResolved(this.error);
  }

  /** Calls `waiter` no more. */
  leave(waiter: NameWaiter): void {
    this.waiters.delete(waiter);
  }
}

export class NameCache {
  readonly #clock: Clock;
  readonly #lookup: Lookup;
  readonly #names = new Map<string, ServerName>();
  readonly #queue = new Set<ServerName>();
  #running = 0;
  #retrying = 0;

  constructor({ clock = systemClock, lookup = systemLookup }: NameCacheOptions = {}) {
    this.#clock = clock;
    this.#lookup = lookup;
  }

  /** The entry of a host name or an IP address (without brackets). An address is never looked up. */
  name(hostname: string): ServerName {
    let name = this.#names.get(hostname);
    if (name === undefined) {
      const [oldest] = this.#names.keys();
      if (this.#names.size >= MAX_NAMES && oldest !== undefined) this.#names.delete(oldest);
      name = new ServerName(this, hostname);
      this.#names.set(hostname, name);
    }
    return name;
  }

  /** The addresses of a name, or of an address that address alone. Rejects as `Lookup` does. */
  lookup(hostname: string): Promise<readonly string[]> {
    return new Promise((resolve, reject) => {
      const name = this.name(hostname);
      const onResolved = (error: Error | null): void => (error === null ? resolve(name.addresses) : reject(error));
      name.resolve({ onResolved }, this.#clock.now());
    });
  }

  /** @internal */
  enqueue(name: ServerName): void {
    name.isPending = true;
    this.#queue.add(name);
    this.#next();
  }

  #next(): void {
    for (const name of this.#queue) {
      if (this.#running === LOOKUPS) return;
      const isRetry = name.failures > 0;
      if (isRetry && this.#retrying === RETRIES) continue;
      this.#queue.delete(name);
      this.#running++;
      if (isRetry) this.#retrying++;
      void this.#run(name, isRetry);
    }
  }

  async #run(name: ServerName, isRetry: boolean): Promise<void> {
    const startedMs = this.#clock.now();
    try {
      const addresses = [...new Set(await this.#lookup(name.hostname))];
      if (addresses.length === 0)
        throw Object.assign(new Error(`no address for ${name.hostname}`), { code: 'ENOTFOUND' });
      name.addresses = addresses;
      name.failures = 0;
      name.goneSinceMs = NaN;
      name.error = null;
      name.lookupAtMs = this.#clock.now() + FRESH_MS;
    } catch (error) {
      this.#failed(name, error as NodeJS.ErrnoException, startedMs);
    }
    this.#running--;
    if (isRetry) this.#retrying--;
    name.isPending = false;
    const waiters = [...name.waiters];
    name.waiters.clear();
    this.#next();
    for (const waiter of waiters)
      waiter.onResolved(name.error !== null && name.addresses.length === 0 ? name.error : null);
  }

  #failed(name: ServerName, error: NodeJS.ErrnoException, startedMs: number): void {
    const nowMs = this.#clock.now();
    const waitMs = Math.min(FIRST_RETRY_MS * 2 ** name.failures, LONGEST_RETRY_MS);
    const slowMs = Math.min((nowMs - startedMs) * SLOW_FACTOR, FRESH_MS);
    name.error = error;
    name.lookupAtMs = nowMs + Math.max(waitMs, slowMs);
    name.failures++;
    if (error.code !== 'ENOTFOUND') name.goneSinceMs = NaN;
    else if (Number.isNaN(name.goneSinceMs)) name.goneSinceMs = nowMs;
    else if (nowMs - name.goneSinceMs >= GONE_MS) name.addresses = [];
  }
}

async function systemLookup(hostname: string): Promise<readonly string[]> {
  const answers = await lookup(hostname, { all: true, order: 'verbatim' });
  return answers.map(({ address }) => address);
}

/** The cache of this thread. */
export const systemNames: NameCache = new NameCache();
