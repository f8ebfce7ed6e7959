// A cache of answers with request coalescing: equal requests of a group under way share one flight. A request that is aborted takes
// only itself away; the last one aborts the flight. An answer never enters a cache that is newer than its flight.

import { LRUCache } from 'lru-cache';
import type { Clock } from '../actor/index.ts';

/** Where an answer comes from: a flight that this request is the first to wait for, one that it shares, or the cache. */
export type AnswerSource = 'flight' | 'shared' | 'cache';

/** Called once with the answer, later than the request returns; never after `abort`. */
export type AnswerCallback<Answer> = (answer: Answer, source: AnswerSource) => void;

/** A request without its answer. */
export interface Pending {
  /** Nobody waits for the answer any more. Safe to call at any time, also twice. */
  abort(): void;
}

/** The work of a flight, which ends with `Flight.land`. */
export interface FlightWork {
  /** No request waits any more. The flight has ended; what the work still brings has no effect. */
  abort(): void;
}

export interface AnswerCacheOptions<Answer> {
  readonly clock: Clock;
  /** Bytes that an answer and its key take in memory. */
  readonly sizeOf: (answer: Answer, key: string) => number;
  /** Hears of answers that made room for others. */
  readonly onEvicted?: (key: string) => void;
}

/** One answer may take this share of the cache. */
const LARGEST_SHARE = 1 / 8;

/** When the cache is full, a group with more than this share of it evicts its own answers, not those of others. */
const GROUP_SHARE = 1 / 4;

/** Kept answers. Of a group with many, its oldest ones make room for its next. */
export class KeptAnswers<Answer extends object> {
  readonly #answers: LRUCache<string, Answer>;
  readonly #sizeOf: (answer: Answer, key: string) => number;
  readonly #onEvicted: (key: string) => void;
  readonly #most: number;
  /** Group of each kept answer; the empty group has no bound. */
  readonly #groupOf = new Map<string, { readonly group: string; readonly bytes: number }>();
  /** Keys of each group, oldest first, and their bytes. */
  readonly #groups = new Map<string, { readonly keys: Set<string>; bytes: number }>();

  constructor(
    ttlMs: number,
    bytes: number,
    { clock, onEvicted = () => undefined, sizeOf }: AnswerCacheOptions<Answer>,
  ) {
    this.#sizeOf = sizeOf;
    this.#onEvicted = onEvicted;
    this.#most = bytes * GROUP_SHARE;
    this.#answers = new LRUCache({
      maxSize: bytes,
      maxEntrySize: Math.ceil(bytes * LARGEST_SHARE),
      ttl: ttlMs,
      ttlResolution: 0,
      // The cache takes a time of 0 for none.
      perf: { now: () => clock.now() + 1 },
      sizeCalculation: sizeOf,
      dispose: (_answer, key, reason) => {
        this.#forget(key);
        if (reason === 'evict') onEvicted(key);
      },
    });
  }

  get(key: string): Answer | undefined {
    return this.#answers.get(key);
  }

  /** Does not count as a use. */
  has(key: string): boolean {
    return this.#answers.has(key);
  }

  delete(key: string): void {
    this.#answers.delete(key);
  }

  /** `lifetimeMs`: where it is less than that of the cache. */
  set(key: string, answer: Answer, group: string, lifetimeMs?: number): void {
    this.#answers.delete(key);
    const bytes = this.#sizeOf(answer, key);
    if (group !== '' && bytes <= this.#answers.maxEntrySize) this.#makeRoom(bytes, group);
    this.#answers.set(key, answer, lifetimeMs === undefined ? {} : { ttl: lifetimeMs });
    if (group === '' || !this.#answers.has(key)) return;
    const own = this.#groups.get(group) ?? { keys: new Set<string>(), bytes: 0 };
    this.#groups.set(group, own);
    this.#groupOf.set(key, { group, bytes });
    own.keys.add(key);
    own.bytes += bytes;
  }

  /** In a full cache, the answers of a group beyond its share go before those of others. */
  #makeRoom(bytes: number, group: string): void {
    const own = this.#groups.get(group);
    for (const oldest of own?.keys ?? []) {
      const isFull = this.#answers.calculatedSize + bytes > this.#answers.maxSize;
      if (!isFull || (own?.bytes ?? 0) + bytes <= this.#most) return;
      this.#answers.delete(oldest);
      this.#onEvicted(oldest);
    }
  }

  #forget(key: string): void {
    const { group, bytes } = this.#groupOf.get(key) ?? { group: '', bytes: 0 };
    const own = this.#groups.get(group);
    this.#groupOf.delete(key);
    if (own === undefined) return;
    own.keys.delete(key);
    own.bytes -= bytes;
    if (own.keys.size === 0) this.#groups.delete(group);
  }
}

export class AnswerCache<Answer extends object, Work extends FlightWork = FlightWork> {
  readonly #options: AnswerCacheOptions<Answer>;
  readonly #flights = new Map<string, Flight<Answer, Work>>();
  #kept: KeptAnswers<Answer> | null = null;

  /** Keeps nothing until it is configured; flights are shared nevertheless. */
  constructor(options: AnswerCacheOptions<Answer>) {
    this.#options = options;
  }

  /** Starts with an empty cache. `ttlMs` null or no bytes: answers are not kept. Flights under way go on. */
  configure(ttlMs: number | null, bytes: number): void {
    this.#kept = ttlMs === null || bytes <= 0 ? null : new KeptAnswers(ttlMs, bytes, this.#options);
  }

  /**
   * Answers from the cache, joins the flight of `key`, or has `start` begin one. `start` may land the flight at once. Requests of
   * different groups share answers, but no flights. `isFresh`: whether a kept answer will do; default: each does.
   */
  request(
    key: string,
    done: AnswerCallback<Answer>,
    start: (flight: Flight<Answer, Work>) => Work,
    group = '',
    isFresh?: (answer: Answer) => boolean,
  ): Pending {
    const cached = this.#kept?.get(key);
    if (cached !== undefined && isFresh?.(cached) !== false) {
      const waiter = new Waiter(done, null);
      waiter.answer(cached, 'cache');
      return waiter;
    }
    const flightKey = flightKeyOf(key, group);
    const running = this.#flights.get(flightKey);
    const flight = running ?? new Flight<Answer, Work>(key, flightKey, this.#flights, this.#kept, group);
    const waiter = flight.join(done);
    if (running === undefined) flight.start(start);
    return waiter;
  }

  /** The kept answer of a key. */
  peek(key: string): Answer | undefined {
    return this.#kept?.get(key);
  }

  /** Drops the kept answer of a key. */
  forget(key: string): void {
    this.#kept?.delete(key);
  }

  /** The work of the flight that a request of this key would join, or has just begun; undefined: there is none. */
  workOf(key: string, group = ''): Work | undefined {
    return this.#flights.get(flightKeyOf(key, group))?.work;
  }

  /** The work of every flight under way. */
  works(): Work[] {
    return Array.from(this.#flights.values(), ({ work }) => work);
  }
}

function flightKeyOf(key: string, group: string): string {
  return group === '' ? key : `${group} ${key}`;
}

/** One piece of work and the requests that wait for its answer. */
export class Flight<Answer extends object, Work extends FlightWork = FlightWork> {
  readonly #key: string;
  readonly #flightKey: string;
  readonly #flights: Map<string, Flight<Answer, Work>>;
  readonly #kept: KeptAnswers<Answer> | null;
  readonly #group: string;
  readonly #waiting = new Set<Waiter<Answer>>();
  /** Undefined after the end, since tables of `#flights` that are no longer used keep flights alive: see `IntrusiveSet`. */
  #work: Work | undefined;
  #ended = false;

  constructor(
    key: string,
    flightKey: string,
    flights: Map<string, Flight<Answer, Work>>,
    kept: KeptAnswers<Answer> | null,
    group: string,
  ) {
    this.#group = group;
    this.#key = key;
    this.#flightKey = flightKey;
    this.#flights = flights;
    this.#kept = kept;
    flights.set(flightKey, this);
  }

  /** Of a flight under way. */
  get work(): Work {
    return this.#work as Work;
  }

  /** @internal */
  start(start: (flight: Flight<Answer, Work>) => Work): void {
    try {
      const work = start(this);
      if (!this.#ended) this.#work = work;
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  /** @internal */
  join(done: AnswerCallback<Answer>): Waiter<Answer> {
    const waiter = new Waiter<Answer>(done, this);
    this.#waiting.add(waiter);
    return waiter;
  }

  /** @internal */
  leave(waiter: Waiter<Answer>): void {
    this.#waiting.delete(waiter);
    if (this.#waiting.size > 0) return;
    const work = this.#work;
    if (this.#end()) work?.abort();
  }

  /**
   * Ends the flight and answers everyone who waits. `keep`: the answer may go into the cache, for `lifetimeMs` where that is less than
   * what the cache keeps answers for. No effect after the end.
   */
  land(answer: Answer, keep: boolean, lifetimeMs?: number): void {
    if (!this.#end()) return;
    if (keep) this.#kept?.set(this.#key, answer, this.#group, lifetimeMs);
    let source: AnswerSource = 'flight';
    for (const waiter of this.#waiting) {
      waiter.answer(answer, source);
      source = 'shared';
    }
    this.#waiting.clear();
  }

  /** Ends the flight with an answer of another cache, and keeps that for what is left of its lifetime. No effect after the end. */
  landCached(answer: Answer, lifetimeMs: number): void {
    if (!this.#end()) return;
    this.#kept?.set(this.#key, answer, this.#group, lifetimeMs);
    for (const waiter of this.#waiting) waiter.answer(answer, 'cache');
    this.#waiting.clear();
  }

  /** Keeps an answer that came after the flight had landed. */
  keep(answer: Answer): void {
    this.#kept?.set(this.#key, answer, this.#group);
  }

  /** Whether answers are kept. */
  get isKept(): boolean {
    return this.#kept !== null;
  }

  #end(): boolean {
    if (this.#ended) return false;
    this.#ended = true;
    this.#work = undefined;
    this.#flights.delete(this.#flightKey);
    return true;
  }
}

class Waiter<Answer extends object> implements Pending {
  readonly #flight: { leave(waiter: Waiter<Answer>): void } | null;
  #done: AnswerCallback<Answer> | null;

  constructor(done: AnswerCallback<Answer>, flight: { leave(waiter: Waiter<Answer>): void } | null) {
    this.#done = done;
    this.#flight = flight;
  }

  abort(): void {
    if (this.#done === null) return;
    this.#done = null;
    this.#flight?.leave(this);
  }

  /** In a microtask of its own: a callback that throws does not keep the answer from the others. */
  answer(answer: Answer, source: AnswerSource): void {
    queueMicrotask(() => {
      const done = this.#done;
      this.#done = null;
      done?.(answer, source);
    });
  }
}
