// The engine of a worker: its actor, its place on a board of its own, and whether it can answer yet. The server asks it;
// paging, retries, rate limits, deadlines and suspension are those of the search room.

import { type Clock, createSystem, type Ref, type System } from '../actor/index.ts';
import {
  type ConfiguredEngine,
  coordinator,
  createEngineMemory,
  createTransport,
  type Engine,
  engineActor,
  EngineBoard,
  type EngineCommand,
  type EngineQuery,
  type Report,
  type Transport,
} from '../search/index.ts';
import type { Numbers } from './numbers.ts';

export interface EngineDeskOptions {
  readonly spec: ConfiguredEngine;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly random: () => number;
  /** Unix time in milliseconds. */
  readonly epochMs: () => number;
  readonly numbers: Numbers;
  /** Hears in a sentence what the operator should know. */
  readonly onNotice: (sentence: string) => void;
}

/** The one engine's place on the board. */
export const CELL = 0;

/** Every search and its cancel must arrive; both are bounded by the searches the server lets in. */
const MAILBOX = { capacity: Infinity, overflow: 'fail' } as const;

export class EngineDesk {
  readonly #options: EngineDeskOptions;
  readonly #system: System;
  readonly #board = new EngineBoard(createEngineMemory(1));
  readonly #transport: Transport;
  readonly #ref: Ref<EngineCommand>;
  readonly #closing = new AbortController();
  #ready: boolean;
  #warming = false;
  #noticed = false;

  constructor(options: EngineDeskOptions) {
    const { spec, clock, random, epochMs, numbers } = options;
    this.#options = options;
    this.#system = createSystem({ name: 'search-worker', clock, random });
    this.#transport = counted(createTransport(), numbers);
    const deps = { board: this.#board, transport: this.#transport, clock, random, epochMs };
    const behavior = engineActor(spec, { ...deps, onOutcome: () => undefined });
    this.#ref = this.#system.spawn(behavior, { name: 'engine', mailbox: MAILBOX });
    this.#ready = !('search' in this.engine);
    this.#warm();
  }

  get engine(): Engine {
    return this.#options.spec.workers[0] as Engine;
  }

  /**
   * Whether searches are answered without waiting for something to be built first. An engine in this process is tried
   * with a search of its own until it has answered one: again at every call of this while it fails.
   */
  get ready(): boolean {
    this.#warm();
    return this.#ready;
  }

  /** For how long the engine will not be asked, in milliseconds; 0 when it is not suspended. */
  get suspendedMs(): number {
    return Math.max(0, this.#board.suspendedUntilMs(CELL) - this.#options.clock.now());
  }

  /** When it is worth asking again, in milliseconds. A place our own limit refuses lies behind the deadline. */
  get retryAfterMs(): number {
    return this.suspendedMs || this.#options.timeoutMs + 1000;
  }

  /** Runs a search; `done` is called once, by the deadline, unless the returned function was called before. */
  search(query: EngineQuery, done: (report: Report) => void): () => void {
    const { clock, spec, timeoutMs } = this.#options;
    const behavior = coordinator({
      query: { ...query, engines: [spec.id] },
      engine: () => this.#ref,
      deadlineMs: clock.now() + timeoutMs,
      onDone: ([report]) => done(report as Report),
    });
    const ref = this.#system.spawn(behavior, { supervise: { onFailure: 'escalate' } });
    return () => ref.tell({ type: 'Abort' });
  }

  /** Ends the engine and what it is doing; nobody hears of it. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#system.terminate();
    this.#transport.close();
  }

  #warm(): void {
    const { engine } = this;
    if (this.#ready || this.#warming || !('search' in engine) || this.#closing.signal.aborted) return;
    this.#warming = true;
    const type = engine.types[0] ?? 'web';
    void engine
      .search({ query: 'headrace', type, maxResults: 1 }, this.#closing.signal)
      .then(
        () => void (this.#ready = true),
        () => this.#notice(),
      )
      .finally(() => (this.#warming = false));
  }

  #notice(): void {
    if (this.#noticed || this.#closing.signal.aborted) return;
    this.#noticed = true;
    this.#options.onNotice(`the engine ${this.#options.spec.id} cannot answer: look at its settings`);
  }
}

/** The transport with its requests counted. */
function counted(transport: Transport, numbers: Numbers): Transport {
  return {
    async send(request, signal) {
      try {
        const response = await transport.send(request, signal);
        numbers.upstream('answered');
        return response;
      } catch (error) {
        numbers.upstream(signal.aborted ? 'cancelled' : 'failed');
        throw error;
      }
    },
    close: () => transport.close(),
  };
}
