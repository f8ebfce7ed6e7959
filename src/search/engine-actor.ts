// One engine in one thread: concurrency by p-limit, rate limits shared by all threads, suspension after failures with a
// single trial, one retry when the engine says when, several workers that take over from each other, and hedging of a
// slow one. Coordinators tell it searches and hear one report each; whatever happens, a report comes or nobody waits.

import pLimit, { type LimitFunction } from 'p-limit';
import type { Behavior, Clock, Context } from '../actor/index.ts';
import {
  type Engine,
  EngineError,
  type EngineHit,
  type EnginePage,
  type EngineQuery,
  type HttpEngine,
  type RateLimit,
} from './engine.ts';
import type { EngineBoard, Trouble } from './engine-board.ts';
import { TransportError, type Transport } from './transport.ts';

/** An engine as it is configured. */
export interface EngineSpec {
  readonly id: string;
  /** The same engine on each of its workers; the first is enough where there is one address. */
  readonly workers: readonly Engine[];
  readonly concurrency: number;
  readonly rates: readonly RateLimit[];
  /** Ask a second worker when the first has not answered after this long, in milliseconds; null: never. */
  readonly hedgeMs: number | null;
  /** Its cells on the board. */
  readonly cell: number;
  /** Equal for equal settings: a reload that changes nothing about an engine leaves its actor alone. */
  readonly fingerprint: string;
}

export type EngineCommand =
  | {
      readonly type: 'Search';
      /** Names the search, for `Cancel`. */
      readonly asker: string;
      readonly query: EngineQuery;
      readonly deadlineMs: number;
      readonly report: (report: EngineReport) => void;
    }
  /** Nobody waits any more: the client left, or (`timedOut`) the deadline passed. */
  | { readonly type: 'Cancel'; readonly asker: string; readonly timedOut: boolean }
  | { readonly type: 'Ended'; readonly asker: string }
  /** Ends once the searches under way have: their engine has been replaced. */
  | { readonly type: 'Retire' };

/** A report without the engine's name, which the coordinator knows. */
export type EngineReport = { readonly hits: readonly EngineHit[] } | { readonly reason: string };

export interface EngineWorld {
  readonly board: EngineBoard;
  readonly transport: Transport;
  readonly clock: Clock;
  /** Unix time in milliseconds. */
  readonly epochMs: () => number;
  readonly random: () => number;
  /** Hears every outcome: for counters. */
  readonly onOutcome: (engine: string, reason: string, elapsedMs: number) => void;
}

/** Requests for one search of one engine, pages and lookups together. */
const MAX_STEPS = 12;

/** Extra requests that hedging may cause, as a share of searches, and how many may come at once. */
const HEDGE_SHARE = 0.1;
const HEDGE_BURST = 5;

/** Makes the behaviour of an engine actor. */
export function engineActor(spec: EngineSpec, world: EngineWorld): Behavior<EngineCommand> {
  return (context) => {
    const desk = new Desk(spec, world, context);
    return {
      receive: (command) => desk.receive(command),
      signal: (signal) => {
        if (signal.type !== 'Terminated') desk.abandonAll();
      },
    };
  };
}

class Desk {
  readonly #spec: EngineSpec;
  readonly #world: EngineWorld;
  readonly #context: Context<EngineCommand>;
  readonly #limit: LimitFunction;
  readonly #open = new Map<string, AbortController>();
  readonly #load: number[];
  #hedges = HEDGE_BURST;
  #retiring = false;

  constructor(spec: EngineSpec, world: EngineWorld, context: Context<EngineCommand>) {
    this.#spec = spec;
    this.#world = world;
    this.#context = context;
    this.#limit = pLimit(spec.concurrency);
    this.#load = spec.workers.map(() => 0);
  }

  receive(command: EngineCommand): void {
    if (command.type === 'Search') this.#search(command);
    else if (command.type === 'Cancel') this.#cancel(command.asker, command.timedOut);
    else if (command.type === 'Ended') this.#open.delete(command.asker);
    else this.#retiring = true;
    if (this.#retiring && this.#open.size === 0) this.#context.stop();
  }

  abandonAll(): void {
    for (const controller of this.#open.values()) controller.abort(new Abandoned());
  }

  #cancel(asker: string, timedOut: boolean): void {
    this.#open.get(asker)?.abort(timedOut ? new TimedOut() : new Abandoned());
  }

  #search({ asker, query, deadlineMs, report }: Extract<EngineCommand, { type: 'Search' }>): void {
    const { types } = this.#spec.workers[0] as Engine;
    if (!types.includes(query.type)) {
      report({ reason: `unsupported search_type '${query.type}'` });
      return;
    }
    const controller = new AbortController();
    this.#open.set(asker, controller);
    const startedMs = this.#world.clock.now();
    const done = (outcome: EngineReport): EngineCommand => {
      const reason = 'reason' in outcome ? outcome.reason : 'ok';
      this.#world.onOutcome(this.#spec.id, reason, this.#world.clock.now() - startedMs);
      report(outcome);
      return { type: 'Ended', asker };
    };
    this.#hedges = Math.min(this.#hedges + HEDGE_SHARE, HEDGE_BURST);
    this.#context.pipe(
      this.#limit(() => this.#admitted(query, deadlineMs, controller.signal)),
      (hits) => done({ hits }),
      (error) => done({ reason: reasonOf(error) }),
    );
  }

  /** The search once it has its place: permission, then the requests, then the verdict on the engine. */
  async #admitted(query: EngineQuery, deadlineMs: number, signal: AbortSignal): Promise<readonly EngineHit[]> {
    const { board, clock } = this.#world;
    const { cell } = this.#spec;
    signal.throwIfAborted();
    if (board.enter(cell, clock.now()) === 'suspended') throw new Suspended();
    try {
      const hits = await this.#attempt(query, deadlineMs, signal);
      board.succeed(cell);
      return hits;
    } catch (error) {
      const trouble = troubleOf(error, signal);
      if (trouble === null) board.release(cell);
      else board.fail(cell, trouble, clock.now(), error instanceof EngineError ? error.retryAfterMs : undefined);
      throw error;
    }
  }

  /** Asks; asks once more where the engine said when and it fits, or where another worker may do better. */
  async #attempt(query: EngineQuery, deadlineMs: number, signal: AbortSignal): Promise<readonly EngineHit[]> {
    const first = this.#leastLoaded(-1);
    try {
      return await this.#hedged(first, query, deadlineMs, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      const waitMs = error instanceof EngineError ? error.retryAfterMs : undefined;
      if (waitMs !== undefined && this.#world.clock.now() + waitMs < deadlineMs) {
        await this.#sleep(waitMs, signal);
        return this.#run(first, query, deadlineMs, signal);
      }
      const other = this.#leastLoaded(first);
      if (other === first || !mayBeTheWorker(error)) throw error;
      return this.#run(other, query, deadlineMs, signal);
    }
  }

  /** The first answer of one worker, or of two when the first is slow and the budget allows it. */
  async #hedged(
    worker: number,
    query: EngineQuery,
    deadlineMs: number,
    signal: AbortSignal,
  ): Promise<readonly EngineHit[]> {
    const { hedgeMs } = this.#spec;
    const other = this.#leastLoaded(worker);
    if (hedgeMs === null || other === worker) return this.#run(worker, query, deadlineMs, signal);
    const losers = new AbortController();
    const both = AbortSignal.any([signal, losers.signal]);
    const late = this.#sleep(hedgeMs, both).then(() => {
      if (this.#hedges < 1) throw new Abandoned();
      this.#hedges -= 1;
      return this.#run(other, query, deadlineMs, both);
    });
    const early = this.#run(worker, query, deadlineMs, both);
    // A first that fails before the hedge is due is the attempt's to judge; a hedge that was not needed is nobody's.
    late.catch(() => undefined);
    try {
      return await Promise.any([early, late]);
    } catch {
      return await early;
    } finally {
      losers.abort(new Abandoned());
    }
  }

  async #run(
    worker: number,
    query: EngineQuery,
    deadlineMs: number,
    signal: AbortSignal,
  ): Promise<readonly EngineHit[]> {
    const engine = this.#spec.workers[worker] as Engine;
    this.#load[worker] = (this.#load[worker] as number) + 1;
    try {
      const hits =
        'search' in engine ? await engine.search(query, signal) : await this.#pages(engine, query, deadlineMs, signal);
      return hits.slice(0, query.maxResults);
    } finally {
      this.#load[worker] = (this.#load[worker] as number) - 1;
    }
  }

  /** Page after page until there is enough; a later page that fails leaves what the earlier ones gave. */
  async #pages(
    engine: HttpEngine,
    query: EngineQuery,
    deadlineMs: number,
    signal: AbortSignal,
  ): Promise<readonly EngineHit[]> {
    const hits: EngineHit[] = [];
    let state: unknown;
    for (let step = 0; step < MAX_STEPS; step++) {
      try {
        const page = await this.#page(engine, query, state, hits.length, deadlineMs, signal);
        hits.push(...page.hits);
        if (page.next === undefined || hits.length >= query.maxResults) break;
        state = page.next;
      } catch (error) {
        if (hits.length === 0 || signal.aborted) throw error;
        break;
      }
    }
    return hits;
  }

  async #page(
    engine: HttpEngine,
    query: EngineQuery,
    state: unknown,
    collected: number,
    deadlineMs: number,
    signal: AbortSignal,
  ): Promise<EnginePage> {
    const { board, clock, transport } = this.#world;
    const leftMs = deadlineMs - clock.now();
    const waitMs = board.reserve(this.#spec.cell, this.#spec.rates, clock.now(), leftMs);
    if (waitMs < 0) throw new OwnLimit();
    if (waitMs > 0) await this.#sleep(waitMs, signal);
    const response = await transport.send(engine.request(query, state), signal);
    try {
      return engine.parse(response, { query, state, collected, nowMs: this.#world.epochMs() });
    } catch (error) {
      // Whatever `parse` throws that it did not mean to throw is an answer it cannot read.
      throw error instanceof EngineError ? error : new EngineError('invalid');
    }
  }

  #leastLoaded(except: number): number {
    const { workers } = this.#spec;
    if (workers.length === 1) return 0;
    const start = Math.floor(this.#world.random() * workers.length);
    let best = -1;
    for (let i = 0; i < workers.length; i++) {
      const worker = (start + i) % workers.length;
      if (worker === except) continue;
      if (best < 0 || (this.#load[worker] as number) < (this.#load[best] as number)) best = worker;
    }
    return best;
  }

  #sleep(ms: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#world;
    return new Promise((resolve, reject) => {
      const timer = clock.setTimeout(() => {
        signal.removeEventListener('abort', leave);
        resolve();
      }, ms);
      const leave = (): void => {
        clock.clearTimeout(timer);
        reject(signal.reason as Error);
      };
      signal.addEventListener('abort', leave, { once: true });
    });
  }
}

/** Nobody waits for this search any more. */
class Abandoned extends Error {
  override readonly name = 'Abandoned';
}

class Suspended extends Error {
  override readonly name = 'Suspended';
}

/** Our own rate limit leaves no place before the deadline. */
class OwnLimit extends Error {
  override readonly name = 'OwnLimit';
}

function reasonOf(error: unknown): string {
  if (error instanceof EngineError) return error.reason;
  if (error instanceof TransportError) return error.reason;
  if (error instanceof Suspended) return 'suspended';
  if (error instanceof OwnLimit) return 'rate limited';
  return error instanceof Abandoned || error instanceof TimedOut ? 'timeout' : 'engine failed';
}

/** What the error says about the engine; null: nothing. A deadline that passed while it worked is a timeout. */
function troubleOf(error: unknown, signal: AbortSignal): Trouble | null {
  if (error instanceof EngineError) return error.failure;
  if (error instanceof Suspended || error instanceof OwnLimit) return null;
  if (signal.aborted || error instanceof Abandoned) return signal.reason instanceof TimedOut ? 'timeout' : null;
  return error instanceof TransportError ? error.trouble : null;
}

/** The deadline of a search has passed. */
class TimedOut extends Error {
  override readonly name = 'TimedOut';
}

function mayBeTheWorker(error: unknown): boolean {
  return error instanceof TransportError || (error instanceof EngineError && error.failure === 'http');
}
