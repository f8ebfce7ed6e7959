// The actor that keeps entries of the cache that gateways share in the engine: compressed, bounded, and gone with their time. What one
// gateway has written there is bounded as its own cache is; beyond that its oldest entries leave, those of a busy account first.

import * as zlib from 'node:zlib';
import type { Behavior, Clock, Ref } from '../actor/index.ts';
import { KeptAnswers } from '../net/answer-cache.ts';
import { ENTRY_BYTES, type SharedCacheCommand, type SharedKind, type SharedReply } from '../net/shared-cache.ts';
import type { ClusterLink } from './link.ts';

/** The part of the link to the engine that the cache uses. */
export type CacheEngine = Pick<ClusterLink, 'command' | 'connected' | 'key'>;

/** How a write ended. `large`: more than 1 MiB after compression, or than an eighth of `mostBytes`. `dropped`: too many at once, or the engine is away. */
export type WriteResult = 'written' | 'large' | 'dropped' | 'error';

export interface SharedCacheDeps {
  readonly engine: CacheEngine;
  /** Most bytes of entries in the engine that this gateway has written, by kind. */
  readonly mostBytes: (kind: SharedKind) => number;
  readonly onWrite: (kind: SharedKind, result: WriteResult) => void;
}

/** The first byte of an entry. */
const VERSION = 1;

/** Largest entry after compression, its version included. */
const STORED_BYTES = 1024 * 1024;

/** Window of a frame that is read, as of what a stranger sends: 8 MiB. */
const MOST_WINDOW_LOG = 23;

/** Whoever asked has gone after 20 ms, and counts that. */
const GET_MS = 100;
const SET_MS = 1000;

/** Entries that are compressed or written at the same time. */
const MOST_WRITES = 64;

/** Longer than any lifetime of an entry: what was written is not counted for ever. */
const MOST_LIFETIME_MS = 86_400_000;

export function sharedCache(deps: SharedCacheDeps): Behavior<SharedCacheCommand> {
  return (context) => {
    const cache = new EngineCache(deps, context.clock);
    return (command) => {
      if (command.type === 'Get') void cache.get(command.kind, command.key, command.replyTo);
      else void cache.set(command);
    };
  };
}

class EngineCache {
  readonly #deps: SharedCacheDeps;
  readonly #clock: Clock;
  readonly #written = new Map<SharedKind, { readonly bytes: number; readonly entries: KeptAnswers<WrittenEntry> }>();
  #writes = 0;

  constructor(deps: SharedCacheDeps, clock: Clock) {
    this.#deps = deps;
    this.#clock = clock;
  }

  async get(kind: SharedKind, key: string, replyTo: Ref<SharedReply>): Promise<void> {
    const { engine } = this.#deps;
    if (!engine.connected) replyTo.tell({ result: 'skipped' });
    else replyTo.tell(await this.#read(engine.key('cache', kind, key)).catch(() => ({ result: 'error' }) as const));
  }

  async set(command: Extract<SharedCacheCommand, { type: 'Set' }>): Promise<void> {
    this.#deps.onWrite(command.kind, await this.#write(command).catch(() => 'error' as const));
    command.replyTo.tell(null);
  }

  /** The lifetime is read first: an entry that is replaced in between is kept too short, never too long. */
  async #read(name: string): Promise<SharedReply> {
    const { engine } = this.#deps;
    const [remainingMs, stored] = await Promise.all([
      engine.command(['PTTL', name], GET_MS),
      engine.command(['GETRANGE', name, '0', String(STORED_BYTES)], GET_MS),
    ]);
    if (remainingMs === -2 || !(stored instanceof Uint8Array) || stored.length === 0) return { result: 'miss' };
    const isEntry = stored.length > 1 && stored.length <= STORED_BYTES && stored[0] === VERSION;
    if (!isEntry || typeof remainingMs !== 'number' || !(remainingMs > 0)) return { result: 'invalid' };
    const bytes = await decompressed(stored.subarray(1)).catch(() => null);
    return bytes === null ? { result: 'invalid' } : { bytes, remainingMs };
  }

  async #write({
    bytes,
    group,
    key,
    kind,
    lifetimeMs,
  }: Extract<SharedCacheCommand, { type: 'Set' }>): Promise<WriteResult> {
    const { engine } = this.#deps;
    if (!engine.connected || this.#writes >= MOST_WRITES) return 'dropped';
    this.#writes++;
    try {
      const stored = Buffer.concat([Buffer.of(VERSION), await compressed(bytes)]);
      if (stored.length > STORED_BYTES) return 'large';
      const name = engine.key('cache', kind, key);
      const entries = this.#writtenOf(kind);
      entries.set(name, { bytes: name.length + stored.length }, group);
      if (!entries.has(name)) return 'large';
      const px = String(Math.min(lifetimeMs, MOST_LIFETIME_MS));
      await engine.command(['SET', name, stored, 'PX', px], SET_MS);
      return 'written';
    } finally {
      this.#writes--;
    }
  }

  #writtenOf(kind: SharedKind): KeptAnswers<WrittenEntry> {
    const bytes = this.#deps.mostBytes(kind);
    const before = this.#written.get(kind);
    if (before?.bytes === bytes) return before.entries;
    const entries = new KeptAnswers<WrittenEntry>(MOST_LIFETIME_MS, bytes, {
      clock: this.#clock,
      sizeOf: (entry) => entry.bytes,
      onEvicted: (name) => this.#remove(name),
    });
    this.#written.set(kind, { bytes, entries });
    return entries;
  }

  /** Without it the entry stays until its time is over. */
  #remove(name: string): void {
    this.#deps.engine.command(['UNLINK', name], SET_MS).catch(() => undefined);
  }
}

interface WrittenEntry {
  readonly bytes: number;
}

function compressed(bytes: Uint8Array): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    zlib.zstdCompress(bytes, (error, result) => (error === null ? resolve(result) : reject(error)));
  });
}

function decompressed(bytes: Uint8Array): Promise<Buffer> {
  const options = {
    maxOutputLength: ENTRY_BYTES,
    params: { [zlib.constants.ZSTD_d_windowLogMax]: MOST_WINDOW_LOG },
  };
  return new Promise((resolve, reject) => {
    zlib.zstdDecompress(bytes, options, (error, result) => (error === null ? resolve(result) : reject(error)));
  });
}
