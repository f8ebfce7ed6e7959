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

export interface SearchRoomOptions {
  readonly system: System;
  readonly clock: Clock;
  readonly random: () => number;
  /** Unix time in milliseconds. */
  readonly epochMs: () => number;
  readonly memory: SharedArrayBuffer;
  readonly onOutcome: (engine: string, reason: string, elapsedMs: number) => void;
}

/** What a reload may change. */
export interface SearchRoomSettings {
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

type Done = (answer: SearchAnswer, cached: boolean) => void;

interface Flight {
  readonly waiting: Set<Done>;
  readonly ref: Ref<CoordinatorCommand>;
}

export class SearchRoom {
  readonly #options: SearchRoomOptions;
  readonly #board: EngineBoard;
  readonly #transport: Transport = createTransport();
  readonly #flights = new Map<string, Flight>();
  #engines = new Map<string, RunningEngine>();
  #cache: LRUCache<string, SearchAnswer> | null = null;
  #timeoutMs = 0;

  constructor(options: SearchRoomOptions) {
    this.#options = options;
    this.#board = new EngineBoard(options.memory);
  }

  /** Takes over engines and limits. Searches under way end with the engines they began with. */
  configure(settings: SearchRoomSettings): void {
    const before = this.#engines;
    this.#engines = new Map(settings.engines.map((spec) => [spec.id, this.#engine(spec, before.get(spec.id))]));
    for (const [id, { ref }] of before) if (this.#engines.get(id)?.ref !== ref) ref.tell({ type: 'Retire' });
    this.#timeoutMs = settings.timeoutMs;
    const { cacheTtlMs, cacheBytes } = settings;
    this.#cache =
      cacheTtlMs === null
        ? null
        : new LRUCache({
            maxSize: cacheBytes,
            maxEntrySize: Math.ceil(cacheBytes / 8),
            ttl: cacheTtlMs,
            sizeCalculation,
          });
  }

  /** Runs a search for an account. `done` is called once, later than this call returns, unless aborted. */
  search(query: SearchQuery, account: string, done: Done): Pending {
    const key = JSON.stringify([account, query.type, query.maxResults, query.engines, query.query]);
    const cached = this.#cache?.get(key);
    if (cached !== undefined) return this.#later(() => done(cached, true));
    const flight = this.#flights.get(key) ?? this.#launch(key, query);
    flight.waiting.add(done);
    return { abort: () => this.#leave(key, flight, done) };
  }

  async close(): Promise<void> {
    for (const { ref } of this.#engines.values()) this.#options.system.stop(ref);
    this.#engines.clear();
    await this.#transport.close();
  }

  /** The engine that runs already, if nothing about it has changed. */
  #engine(spec: EngineSpec & { readonly weight: number }, before: RunningEngine | undefined): RunningEngine {
    if (before?.spec.fingerprint === spec.fingerprint) return { ...before, spec };
    const { system, clock, random, epochMs, onOutcome } = this.#options;
    const world = { board: this.#board, transport: this.#transport, clock, random, epochMs, onOutcome };
    return { ref: system.spawn(engineActor(spec, world)), spec };
  }

  #launch(key: string, query: SearchQuery): Flight {
    const { clock, system } = this.#options;
    const startedMs = clock.now();
    const behavior = coordinator({
      query,
      engine: (id) => this.#engines.get(id)?.ref,
      timeoutMs: this.#timeoutMs,
      onDone: (reports) => this.#land(key, query, reports, clock.now() - startedMs),
    });
    const flight: Flight = { waiting: new Set(), ref: system.spawn(behavior) };
    this.#flights.set(key, flight);
    return flight;
  }

  #land(key: string, query: SearchQuery, reports: readonly Report[], elapsedMs: number): void {
    const flight = this.#flights.get(key);
    this.#flights.delete(key);
    const answer = this.#answer(query, reports, elapsedMs);
    // An answer without one of its engines would pin that engine's failure.
    if (answer.meta.engines_failed.length === 0) this.#cache?.set(key, answer);
    for (const done of flight?.waiting ?? []) done(answer, false);
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

  #leave(key: string, flight: Flight, done: Done): void {
    flight.waiting.delete(done);
    if (flight.waiting.size > 0 || this.#flights.get(key) !== flight) return;
    this.#flights.delete(key);
    flight.ref.tell({ type: 'Abort' });
  }

  #later(callback: () => void): Pending {
    const timer = this.#options.clock.setTimeout(callback, 0);
    return { abort: () => this.#options.clock.clearTimeout(timer) };
  }
}

/** Bytes an answer takes in memory, roughly: two for a character. */
function sizeCalculation(answer: SearchAnswer, key: string): number {
  return 2 * (JSON.stringify(answer).length + key.length);
}
