// The cache that gateways share, behind the caches that each has: what is asked of the actor that holds the connection to its engine,
// and the client that asks. A lookup ends within 20 ms, with nothing where the engine is slow or away. What is found is checked as the
// input of a stranger.

import { createHash } from 'node:crypto';
import { ask, AskTimeoutError, type Clock, type Ref } from '../actor/index.ts';

/** What is shared: answers of searches, clean pages, robots.txt. */
const SHARED_KINDS = ['search', 'page', 'robots'] as const;
export type SharedKind = (typeof SHARED_KINDS)[number];

/**
 * How a lookup ended. `invalid`: there was an entry, but none that a gateway like this one writes. `error`: the engine refused or failed.
 * `skipped`: not asked, since the engine is away, has lately been too slow, or too many lookups are under way.
 */
const LOOKUP_RESULTS = ['hit', 'miss', 'timeout', 'invalid', 'error', 'skipped'] as const;
export type LookupResult = (typeof LOOKUP_RESULTS)[number];

/** An entry, and what is left of its lifetime by the engine; or why there is none. */
export type SharedReply =
  | { readonly bytes: Uint8Array; readonly remainingMs: number }
  | { readonly result: 'miss' | 'invalid' | 'error' | 'skipped' };

export type SharedCacheCommand =
  | { readonly type: 'Get'; readonly kind: SharedKind; readonly key: string; readonly replyTo: Ref<SharedReply> }
  | {
      readonly type: 'Set';
      readonly kind: SharedKind;
      readonly key: string;
      readonly bytes: Uint8Array;
      readonly lifetimeMs: number;
      /** Whose entry it is; '': of nobody. */
      readonly group: string;
      /** Told when the bytes are no longer held. */
      readonly replyTo: Ref<null>;
    };

/** Longest wait for an entry. A search or a page takes far longer; the engine answers in less than 1 ms. */
const LOOKUP_MS = 20;

/** Longest time that an entry counts as under way to the actor. */
const WRITE_MS = 2000;

/** Lookups under way in one thread. */
const MOST_LOOKUPS = 256;

/** Entries under way to the actor from one thread, and their bytes. */
const MOST_WRITES = 32;
const MOST_WRITTEN_BYTES = 8 * 1024 * 1024;

/** Longest entry before compression. Bounds the time that reading one takes. */
export const ENTRY_BYTES: number = 2 * 1024 * 1024;

/** After this many lookups in a row without an answer in time none is asked for a while. */
const SLOW_LOOKUPS = 5;
const SLOW_PAUSE_MS = 1000;

type Counts = Record<SharedKind, Record<LookupResult, number>>;

/** The key of an entry: what the answer depends on, as SHA-256. */
export function sharedKey(parts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url');
}

/** Asks for entries from one thread. */
export class SharedCache {
  /** Lookups by kind and result since the start. */
  readonly counts: Readonly<Counts> = Object.fromEntries(
    SHARED_KINDS.map((kind) => [kind, Object.fromEntries(LOOKUP_RESULTS.map((result) => [result, 0]))]),
  ) as Counts;
  readonly #actor: Ref<SharedCacheCommand>;
  readonly #clock: Clock;
  #isOn = false;
  #lookups = 0;
  #writes = 0;
  #writtenBytes = 0;
  #slow = 0;
  #pausedUntilMs = 0;

  /** Off until it is configured. */
  constructor(actor: Ref<SharedCacheCommand>, clock: Clock) {
    this.#actor = actor;
    this.#clock = clock;
  }

  /** Whether gateways share answers at all. */
  get isOn(): boolean {
    return this.#isOn;
  }

  configure(isOn: boolean): void {
    this.#isOn = isOn;
  }

  /**
   * Calls `done` once, later than this call returns and within 20 ms: with what `read` makes of an entry, and how long it may be kept; or
   * with null. `read` returns null for what is no such entry, or throws.
   */
  get<Answer>(
    kind: SharedKind,
    key: string,
    read: (bytes: Buffer) => Answer | null,
    done: (answer: Answer | null, remainingMs: number) => void,
  ): void {
    const counts = this.counts[kind];
    const nowMs = this.#clock.now();
    if (!this.#isOn || this.#lookups >= MOST_LOOKUPS || nowMs < this.#pausedUntilMs) {
      counts.skipped++;
      queueMicrotask(() => done(null, 0));
      return;
    }
    this.#lookups++;
    const message = (replyTo: Ref<SharedReply>): SharedCacheCommand => ({ type: 'Get', kind, key, replyTo });
    void ask(this.#actor, message, { timeoutMs: LOOKUP_MS })
      .then(
        (reply) => {
          this.#slow = 0;
          if ('result' in reply) {
            counts[reply.result]++;
            return null;
          }
          const answer = readEntry(reply.bytes, key, read);
          counts[answer === null ? 'invalid' : 'hit']++;
          return answer === null ? null : { answer, remainingMs: reply.remainingMs };
        },
        (error: unknown) => {
          this.#noteFailure(counts, error);
          return null;
        },
      )
      .then((found) => {
        this.#lookups--;
        // An error that it throws is one of the process, not of this promise.
        queueMicrotask(() => done(found?.answer ?? null, found?.remainingMs ?? 0));
      });
  }

  /** Shares an answer for at most `lifetimeMs`. Not where it is too long or too many are under way. */
  set(kind: SharedKind, key: string, answer: string | Uint8Array, lifetimeMs: number, group: string): void {
    if (!this.#isOn || answer.length > ENTRY_BYTES || lifetimeMs < 1) return;
    const bytes = Buffer.concat([
      Buffer.from(key, 'latin1'),
      typeof answer === 'string' ? Buffer.from(answer) : answer,
    ]);
    const { length } = bytes;
    if (length > ENTRY_BYTES || this.#writes >= MOST_WRITES || this.#writtenBytes + length > MOST_WRITTEN_BYTES) return;
    this.#writes++;
    this.#writtenBytes += length;
    const end = (): void => {
      this.#writes--;
      this.#writtenBytes -= length;
    };
    const message = (replyTo: Ref<null>): SharedCacheCommand => ({
      ...{ type: 'Set', kind, key, bytes, group, replyTo },
      lifetimeMs: Math.floor(lifetimeMs),
    });
    ask(this.#actor, message, { timeoutMs: WRITE_MS }).then(end, end);
  }

  #noteFailure(counts: Counts[SharedKind], error: unknown): void {
    if (!(error instanceof AskTimeoutError)) {
      counts.error++;
      return;
    }
    counts.timeout++;
    if (++this.#slow < SLOW_LOOKUPS) return;
    // The next one is a trial.
    this.#slow = SLOW_LOOKUPS - 1;
    this.#pausedUntilMs = this.#clock.now() + SLOW_PAUSE_MS;
  }
}

/** An entry begins with its key, so that it is of no use under another one. */
function readEntry<Answer>(bytes: Uint8Array, key: string, read: (bytes: Buffer) => Answer | null): Answer | null {
  const entry = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (entry.length > ENTRY_BYTES || entry.toString('latin1', 0, key.length) !== key) return null;
  try {
    return read(entry.subarray(key.length));
  } catch {
    return null;
  }
}
