// The searches of one thread: its engines, the cache of answers, and the coordinator of every search under way. Equal
// searches of one account share one coordinator.

import type { Clock } from '../actor/index.ts';
import { AnswerCache, type AnswerCallback, type Flight, type Pending } from '../net/answer-cache.ts';
import { BufferedClient } from '../net/buffered-client.ts';
import { Coordinator } from './coordinator.ts';
import { EngineBoard } from './engine-board.ts';
import { CONNECTIONS, EngineClient, type EngineReport, type EngineSpec, type Transport } from './engine-client.ts';
import { type EngineList, merge } from './merge.ts';
import type { SearchAnswer, SearchQuery } from './query.ts';

export interface SearchServiceDeps {
  readonly clock: Clock;
  readonly random: () => number;
  /** Unix time in milliseconds. */
  readonly epochMs: () => number;
  /** Memory of the engine board. */
  readonly memory: SharedArrayBuffer;
  /** Default: the network. */
  readonly transport?: Transport;
  /** Hears how an engine's part of a search ended: `ok`, a reason as clients read it, or `cancelled`. */
  readonly onOutcome: (engine: string, reason: string, elapsedMs: number) => void;
}

/** What a reload may change. */
export interface SearchServiceSettings {
  readonly timeoutMs: number;
  readonly engines: readonly EngineSpec[];
  /** How long answers are kept; null: not at all. */
  readonly cacheTtlMs: number | null;
  readonly cacheBytes: number;
}

export class SearchService {
  readonly #deps: SearchServiceDeps;
  readonly #board: EngineBoard;
  readonly #transport: Transport;
  readonly #cache: AnswerCache<SearchAnswer, Coordinator>;
  #engines: ReadonlyMap<string, EngineClient> = new Map();
  #cacheFingerprint = '';
  #timeoutMs = 0;

  constructor(deps: SearchServiceDeps) {
    this.#deps = deps;
    this.#board = new EngineBoard(deps.memory);
    this.#transport = deps.transport ?? new BufferedClient(CONNECTIONS);
    this.#cache = new AnswerCache({ clock: deps.clock, sizeOf });
  }

  /** Takes over engines and limits. Searches under way end with the engines they began with. */
  configure({ timeoutMs, cacheTtlMs, cacheBytes, engines }: SearchServiceSettings): void {
    this.#engines = new Map(engines.map((spec) => [spec.id, this.#engine(spec)]));
    this.#timeoutMs = timeoutMs;
    const fingerprints = engines.map(({ id, fingerprint, weight }) => [id, fingerprint, weight]);
    const fingerprint = JSON.stringify([cacheTtlMs, cacheBytes, fingerprints]);
    if (fingerprint === this.#cacheFingerprint) return;
    this.#cacheFingerprint = fingerprint;
    this.#cache.configure(cacheTtlMs, cacheBytes);
  }

  /** Searches for an account. `done` is called once, later than this call returns, unless the search is aborted. */
  search(query: SearchQuery, account: string, done: AnswerCallback<SearchAnswer>): Pending {
    const key = JSON.stringify([account, query.type, query.maxResults, query.engines, query.query]);
    return this.#cache.request(key, done, (flight) => this.#start(query, flight));
  }

  /** Answers the searches under way with what there is and closes all connections. */
  close(): void {
    for (const coordinator of this.#cache.works()) coordinator.close();
    this.#engines = new Map();
    this.#transport.close();
  }

  /** The client there is, if nothing about its engine has changed. */
  #engine(spec: EngineSpec): EngineClient {
    const before = this.#engines.get(spec.id);
    if (before?.spec.fingerprint === spec.fingerprint) return before;
    // New settings, such as a key or an address, may end what the engine was suspended for.
    if (before !== undefined) this.#board.reset(spec.cell);
    return new EngineClient(spec, { ...this.#deps, board: this.#board, transport: this.#transport });
  }

  #start(query: SearchQuery, flight: Flight<SearchAnswer, Coordinator>): Coordinator {
    const { clock } = this.#deps;
    const engines = this.#engines;
    const startedMs = clock.now();
    const onDone = (reports: readonly EngineReport[]): void => {
      const answer = answerOf(query, engines, reports, clock.now() - startedMs);
      // A kept answer without one of its engines would prolong that engine's failure.
      flight.land(answer, answer.meta.engines_failed.length === 0);
    };
    const deadlineMs = startedMs + this.#timeoutMs;
    const coordinator = new Coordinator({ query, engines, clock, deadlineMs, onDone });
    coordinator.start();
    return coordinator;
  }
}

function answerOf(
  query: SearchQuery,
  engines: ReadonlyMap<string, EngineClient>,
  reports: readonly EngineReport[],
  elapsedMs: number,
): SearchAnswer {
  const lists: EngineList[] = [];
  const errors: { engine: string; reason: string }[] = [];
  for (const report of reports) {
    const { engine } = report;
    if ('reason' in report) errors.push({ engine, reason: report.reason });
    else lists.push({ engine, hits: report.hits, weight: engines.get(engine)?.spec.weight ?? 1 });
  }
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

/** Bytes an answer takes in memory, roughly: two for a character. */
function sizeOf(answer: SearchAnswer, key: string): number {
  return 2 * (JSON.stringify(answer).length + key.length);
}
