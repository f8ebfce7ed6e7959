// The engine that a search worker serves: its searches under a deadline, its suspension, and whether it can answer yet.

import type { Clock } from '../actor/index.ts';
import { abortable, joinedSignal } from '../net/abortable.ts';
import { BufferedClient } from '../net/buffered-client.ts';
import {
  CONNECTIONS,
  Coordinator,
  createEngineMemory,
  type Engine,
  EngineBoard,
  EngineClient,
  type EngineQuery,
  type EngineReport,
  type EngineSpec,
  type Transport,
} from '../search/index.ts';
import { placeOf } from '../telemetry/log.ts';
import type { WorkerMetrics } from './worker-metrics.ts';

export interface ServedEngineDeps {
  readonly spec: EngineSpec;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly random: () => number;
  /** Unix time in milliseconds. */
  readonly epochMs: () => number;
  readonly metrics: WorkerMetrics;
  /** Called with a sentence for the operator. */
  readonly onNotice: (sentence: string) => void;
}

/** The engine's place on the board, which it has for itself. */
export const CELL = 0;

export class ServedEngine {
  readonly #deps: ServedEngineDeps;
  readonly #board = new EngineBoard(createEngineMemory(1));
  readonly #transport: Transport;
  readonly #engines: ReadonlyMap<string, EngineClient>;
  readonly #closing = new AbortController();
  #ready: boolean;
  #warming = false;
  #noticed = false;

  constructor(deps: ServedEngineDeps) {
    const { spec, clock, random, epochMs, metrics } = deps;
    this.#deps = deps;
    this.#transport = counted(new BufferedClient(CONNECTIONS), metrics);
    const client = new EngineClient(spec, {
      ...{ board: this.#board, transport: this.#transport, clock, random, epochMs },
      onOutcome: () => undefined,
      onThrown: (_, error) => deps.onNotice(`the code of a search engine threw: ${placeOf(error)}`),
    });
    this.#engines = new Map([[spec.id, client]]);
    this.#ready = !('search' in this.engine);
    this.#warm();
  }

  get engine(): Engine {
    return this.#deps.spec.workers[0] as Engine;
  }

  /**
   * Whether searches are answered without waiting for something to be built first. An engine in this process is tried
   * with a search of its own until it has answered one: again at every call of this while it fails or is late.
   */
  get ready(): boolean {
    this.#warm();
    return this.#ready;
  }

  /** Rest of the suspension in milliseconds; 0 without one. */
  get suspendedMs(): number {
    return Math.max(0, this.#board.suspendedUntilMs(CELL) - this.#deps.clock.now());
  }

  /** Wait before the next request, in milliseconds: until the suspension ends, or the rate limits have a place. */
  get retryAfterMs(): number {
    const { clock, spec } = this.#deps;
    return this.suspendedMs || this.#board.dueInMs(CELL, spec.rates, clock.now());
  }

  /** Whether a search that was refused for this reason could have been run for another account. */
  refusesAccountOnly(reason: string): boolean {
    return (reason === 'suspended' || reason === 'rate limited') && !this.#board.isSuspendedForAll(CELL);
  }

  /** Runs a search of an account. `done` is called once, by the deadline; the returned function aborts the search, without a call. */
  search(query: EngineQuery, account: string, done: (report: EngineReport) => void): () => void {
    const { clock, spec, timeoutMs } = this.#deps;
    const coordinator = new Coordinator({
      query: { ...query, engines: [spec.id] },
      account,
      engines: this.#engines,
      clock,
      deadlineMs: clock.now() + timeoutMs,
      softDeadlineMs: Infinity,
      keepsLate: false,
      onDone: ([report]) => done(report as EngineReport),
      onEnd: () => undefined,
    });
    coordinator.start();
    return () => coordinator.abort();
  }

  /** Closes all connections. Searches under way fail, or are aborted by those who began them. */
  close(): void {
    this.#closing.abort();
    this.#transport.close();
  }

  #warm(): void {
    const { engine } = this;
    if (this.#ready || this.#warming || !('search' in engine) || this.#closing.signal.aborted) return;
    this.#warming = true;
    const { clock, timeoutMs } = this.#deps;
    const late = new AbortController();
    const timer = clock.setTimeout(() => late.abort(), timeoutMs);
    const { release, signal } = joinedSignal(this.#closing.signal, late.signal);
    const type = engine.types[0] ?? 'web';
    void abortable(signal, engine.search({ query: 'headrace', type, maxResults: 1 }, signal))
      .then(
        () => void (this.#ready = true),
        // One that is late may have a large folder to read.
        () => signal.aborted || this.#notice(),
      )
      .finally(() => {
        clock.clearTimeout(timer);
        release();
        this.#warming = false;
      });
  }

  #notice(): void {
    if (this.#noticed) return;
    this.#noticed = true;
    this.#deps.onNotice(`the engine ${this.#deps.spec.id} cannot answer: look at its settings`);
  }
}

/** The transport with its requests counted. */
function counted(transport: Transport, metrics: WorkerMetrics): Transport {
  return {
    async send(request, signal, maxBytes) {
      try {
        const response = await transport.send(request, signal, maxBytes);
        metrics.upstream('answered');
        return response;
      } catch (error) {
        metrics.upstream(signal.aborted ? 'cancelled' : 'failed');
        throw error;
      }
    },
    close: () => transport.close(),
  };
}
