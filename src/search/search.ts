// The search room of one data plane: its engine actors, the flights of searches under way, and the cache of answers.
// Equal searches of one account share one fan-out; a client that leaves takes only itself away, the last one takes the
// fan-out along.

import type { Clock, Ref, System } from '../actor/index.ts';
import { coordinator, type CoordinatorCommand, type Report } from './coordinator.ts';
import { engineActor, type EngineCommand, type EngineSpec } from './engine-actor.ts';
import { AnswerCache, type Flight, type FlightWork, type Pending } from '../net/answer-cache.ts';
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

interface RunningEngine {
  readonly ref: Ref<EngineCommand>;
  readonly spec: EngineSpec & { readonly weight: number };
}

/** A lost `Search` would be a timeout, a lost `Cancel` a request nobody wants: both are bounded by the clients there are. */
const MAILBOX = { capacity: Infinity, overflow: 'fail' } as const;

type Done = (answer: SearchAnswer, cached: boolean) => void;

/** A search under way. */
interface Search extends FlightWork {
  readonly ref: Ref<CoordinatorCommand>;
}

export class SearchService {
  readonly #options: SearchServiceOptions;
  readonly #board: EngineBoard;
  readonly #transport: Transport;
  #engines = new Map<string, RunningEngine>();
  readonly #cache: AnswerCache<SearchAnswer, Search>;
  #cacheFingerprint = '';
  #timeoutMs = 0;

  constructor(options: SearchServiceOptions) {
    this.#options = options;
    this.#cache = new AnswerCache({ clock: options.clock, sizeOf });
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
    this.#cache.configure(cacheTtlMs, cacheBytes);
  }

  /** Runs a search for an account. `done` is called once, later than this call returns, unless aborted. */
  search(query: SearchQuery, account: string, done: Done): Pending {
    const key = JSON.stringify([account, query.type, query.maxResults, query.engines, query.query]);
    return this.#cache.request(
      key,
      (answer, source) => done(answer, source === 'cache'),
      (flight) => this.#start(flight, query),
    );
  }

  /** Ends the engines; searches under way are answered with what there is. */
  close(): void {
    for (const { ref } of this.#cache.works()) ref.tell({ type: 'Deadline' });
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

  #start(flight: Flight<SearchAnswer, Search>, query: SearchQuery): Search {
    const { clock, system } = this.#options;
    const startedMs = clock.now();
    const behavior = coordinator({
      query,
      engine: (id) => this.#engines.get(id)?.ref,
      deadlineMs: startedMs + this.#timeoutMs,
      onDone: (reports) => {
        const answer = this.#answer(query, reports, clock.now() - startedMs);
        // An answer without one of its engines would pin that engine's failure.
        flight.land(answer, answer.meta.engines_failed.length === 0);
      },
    });
    const ref = system.spawn(behavior, { supervise: { onFailure: 'escalate' } });
    return { ref, abort: () => ref.tell({ type: 'Abort' }) };
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
}

/** Bytes an answer takes in memory, roughly: two for a character. */
function sizeOf(answer: SearchAnswer, key: string): number {
  return 2 * (JSON.stringify(answer).length + key.length);
}
