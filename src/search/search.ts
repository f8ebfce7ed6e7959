// The search room of one data plane: its engine actors, the flights of searches under way, and the cache of answers.
// Equal searches of one account share one fan-out; a client that leaves takes only itself away, the last one takes the
// fan-out along.

import { LRUCache } from 'lru-cache';
import type { Clock, Ref, System } from '../actor/index.ts';
import { coordinator, type CoordinatorCommand, type Report } from './coordinator.ts';
import { engineActor, type EngineCommand, type EngineSpec } from './engine-actor.ts';
import { EngineBoard } from './engine-board.ts';
import { merge } from './merge.ts';
import type { SearchAnswer, SearchQuery } from './query.ts';
import { createTransport, type Transport } from './transport.ts';

export interface SearchServiceOptions {
  readonly system: System;
  readonly clock: Clock;
  readonly random: () => number;
  /** Unix time in milliseconds. */
  readonly epochMs: () => number;
  readonly memory: SharedArrayBuffer;
  /** Default: the network. */
  readonly transport?: Transport;
  /** Hears how an engine's part of a search ended: `ok`, a reason as clients read it, or `cancelled`. */
  readonly onOutcome: (engine: string, reason: string, elapsedMs: number) => void;
}

/** What a reload may change. */
export interface SearchServiceSettings {
  readonly timeoutMs: number;
  readonly engines: readonly (EngineSpec & { readonly weight: number })[];
  /** How long answers are kept; null: not at all. */
  readonly cacheTtlMs: number | null;
  readonly cacheBytes: number;
}

/** A search that has been asked for. */
export interface Pending {
  /** The client has left. */
  abort(): void;
}

interface RunningEngine {
  readonly ref: Ref<EngineCommand>;
  readonly spec: EngineSpec & { readonly weight: number };
}

/** A lost `Search` would be a timeout, a lost `Cancel` a request nobody wants: both are bounded by the clients there are. */
const MAILBOX = { capacity: Infinity, overflow: 'fail' } as const;

type Done = (answer: SearchAnswer, cached: boolean) => void;

interface Waiting {
  readonly done: Done;
}

type Cache = LRUCache<string, SearchAnswer>;

interface Flight {
  readonly key: string;
  readonly query: SearchQuery;
  readonly startedMs: number;
  readonly waiting: Set<Waiting>;
  /** Of the engines it asks: their answers are not for the cache of others. */
  readonly cache: Cache | null;
}

export class SearchService {
  readonly #options: SearchServiceOptions;
  readonly #board: EngineBoard;
  readonly #transport: Transport;
  readonly #flights = new Map<string, { readonly flight: Flight; readonly ref: Ref<CoordinatorCommand> }>();
  #engines = new Map<string, RunningEngine>();
  #cache: Cache | null = null;
  #cacheFingerprint = '';
  #timeoutMs = 0;

  constructor(options: SearchServiceOptions) {
    this.#options = options;
    this.#board = new EngineBoard(options.memory);
    this.#transport = options.transport ?? createTransport();
  }

  /** Takes over engines and limits. Searches under way end with the engines they began with. */
  configure(settings: SearchServiceSettings): void {
    const before = this.#engines;
    this.#engines = new Map(settings.engines.map((spec) => [spec.id, this.#engine(spec, before.get(spec.id))]));
    for (const [id, { ref }] of before) if (this.#engines.get(id)?.ref !== ref) ref.tell({ type: 'Retire' });
    this.#timeoutMs = settings.timeoutMs;
    const { cacheTtlMs, cacheBytes, engines } = settings;
    const answers = engines.map(({ id, fingerprint, weight }) => [id, fingerprint, weight]);
    const fingerprint = JSON.stringify([cacheTtlMs, cacheBytes, answers]);
    if (fingerprint === this.#cacheFingerprint) return;
    this.#cacheFingerprint = fingerprint;
    this.#cache = createCache(cacheTtlMs, cacheBytes, this.#options.clock);
  }

  /** Runs a search for an account. `done` is called once, later than this call returns, unless aborted. */
  search(query: SearchQuery, account: string, done: Done): Pending {
    const key = JSON.stringify([account, query.type, query.maxResults, query.engines, query.query]);
    const cached = this.#cache?.get(key);
    if (cached !== undefined) return soon(() => done(cached, true));
    const { flight } = this.#flights.get(key) ?? this.#launch(key, query);
    const waiting: Waiting = { done };
    flight.waiting.add(waiting);
    return { abort: () => this.#leave(flight, waiting) };
  }

  /** Ends the engines; searches under way are answered with what there is. */
  close(): void {
    for (const { ref } of this.#flights.values()) ref.tell({ type: 'Deadline' });
    for (const { ref } of this.#engines.values()) this.#options.system.stop(ref);
    this.#engines.clear();
    this.#transport.close();
  }

  /** The engine that runs already, if nothing about it has changed. */
  #engine(spec: EngineSpec & { readonly weight: number }, before: RunningEngine | undefined): RunningEngine {
    if (before?.spec.fingerprint === spec.fingerprint) return { ...before, spec };
    // What was wrong may be what the new settings mend: a key, an address.
    if (before !== undefined) this.#board.reset(spec.cell);
    const { system, clock, random, epochMs, onOutcome } = this.#options;
    const deps = { board: this.#board, transport: this.#transport, clock, random, epochMs, onOutcome };
    return { ref: system.spawn(engineActor(spec, deps), { mailbox: MAILBOX }), spec };
  }

  #launch(key: string, query: SearchQuery): { readonly flight: Flight } {
    const { clock, system } = this.#options;
    const flight: Flight = { key, query, startedMs: clock.now(), waiting: new Set(), cache: this.#cache };
    const behavior = coordinator({
      query,
      engine: (id) => this.#engines.get(id)?.ref,
      deadlineMs: flight.startedMs + this.#timeoutMs,
      onDone: (reports) => this.#land(flight, reports),
    });
    const ref = system.spawn(behavior, { supervise: { onFailure: 'escalate' } });
    this.#flights.set(key, { flight, ref });
    return { flight };
  }

  #land(flight: Flight, reports: readonly Report[]): void {
    const { cache, key, query, startedMs, waiting } = flight;
    // The last client may have left and another have come with the same search meanwhile.
    if (this.#flights.get(key)?.flight === flight) this.#flights.delete(key);
    const answer = this.#answer(query, reports, this.#options.clock.now() - startedMs);
    // An answer without one of its engines would pin that engine's failure.
    if (answer.meta.engines_failed.length === 0) cache?.set(key, answer);
    for (const one of waiting) soon(() => void (waiting.delete(one) && one.done(answer, false)));
  }

  #answer(query: SearchQuery, reports: readonly Report[], elapsedMs: number): SearchAnswer {
    const lists = reports.flatMap((report) =>
      'hits' in report
        ? [{ engine: report.engine, hits: report.hits, weight: this.#engines.get(report.engine)?.spec.weight ?? 1 }]
        : [],
    );
    const errors = reports.flatMap((report) =>
      'reason' in report ? [{ engine: report.engine, reason: report.reason }] : [],
    );
    return {
      results: merge(lists, { searchType: query.type }),
      meta: {
        duration_ms: Math.round(elapsedMs),
        engines_used: lists.map(({ engine }) => engine),
        engines_failed: errors.map(({ engine }) => engine),
        engine_errors: errors,
      },
    };
  }

  #leave(flight: Flight, waiting: Waiting): void {
    if (!flight.waiting.delete(waiting) || flight.waiting.size > 0) return;
    const running = this.#flights.get(flight.key);
    if (running?.flight !== flight) return;
    this.#flights.delete(flight.key);
    running.ref.tell({ type: 'Abort' });
  }
}

function createCache(ttlMs: number | null, bytes: number, clock: Clock): Cache | null {
  if (ttlMs === null || bytes <= 0) return null;
  return new LRUCache({
    maxSize: bytes,
    maxEntrySize: Math.ceil(bytes / 8),
    ttl: ttlMs,
    ttlResolution: 0,
    // 0 is no date to the cache.
    perf: { now: () => clock.now() + 1 },
    sizeCalculation,
  });
}

/** Later than now, before anything else happens; one callback that throws is not the next one's affair. */
function soon(callback: () => void): Pending {
  let wanted = true;
  queueMicrotask(() => {
    if (wanted) callback();
  });
  return { abort: () => void (wanted = false) };
}

/** Bytes an answer takes in memory, roughly: two for a character. */
function sizeCalculation(answer: SearchAnswer, key: string): number {
  return 2 * (JSON.stringify(answer).length + key.length);
}
