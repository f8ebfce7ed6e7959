// One engine in one thread: a place by p-limit, leave from the board all threads share, an errand for every search, and
// the verdict on the engine. Coordinators tell it searches and hear one report each; whatever happens, a report comes or
// nobody waits.

import pLimit, { type LimitFunction } from 'p-limit';
import type { Behavior, Clock, Context } from '../actor/index.ts';
import { type Engine, EngineError, type EngineHit, type EngineQuery, type RateLimit } from './engine.ts';
import type { EngineBoard, Trouble } from './engine-board.ts';
import { Abandoned, EngineCall, HedgeBudget, reasonOf, Suspended, TimedOut } from './engine-call.ts';
import type { Transport } from './transport.ts';
import { WorkerPicker } from './worker-picker.ts';

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

export interface EngineDeps {
  readonly board: EngineBoard;
  readonly transport: Transport;
  readonly clock: Clock;
  /** Unix time in milliseconds. */
  readonly epochMs: () => number;
  readonly random: () => number;
  /** Hears every outcome: for counters. */
  readonly onOutcome: (engine: string, reason: string, elapsedMs: number) => void;
}

/** Makes the behaviour of an engine actor. */
export function engineActor(spec: EngineSpec, deps: EngineDeps): Behavior<EngineCommand> {
  return (context) => {
    const state = new AdminRoutes(spec, deps, context);
    return {
      receive: (command) => state.receive(command),
      signal: (signal) => {
        if (signal.type !== 'Terminated') state.abandonAll();
      },
    };
  };
}

class AdminRoutes {
  readonly #spec: EngineSpec;
  readonly #deps: EngineDeps;
  readonly #context: Context<EngineCommand>;
  readonly #kind: string;
  readonly #limit: LimitFunction;
  readonly #workerPicker: WorkerPicker;
  readonly #hedges = new HedgeBudget();
  readonly #open = new Map<string, AbortController>();
  #retiring = false;

  constructor(spec: EngineSpec, deps: EngineDeps, context: Context<EngineCommand>) {
    this.#spec = spec;
    this.#deps = deps;
    this.#context = context;
    this.#kind = (spec.workers[0] as Engine).kind;
    this.#limit = pLimit(spec.concurrency);
    this.#workerPicker = new WorkerPicker(spec.workers.length, deps.clock, deps.random);
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
    const { board, clock, onOutcome } = this.#deps;
    const { cell, id, workers } = this.#spec;
    if (!(workers[0] as Engine).types.includes(query.type)) {
      report({ reason: `unsupported search_type '${query.type}'` });
      return;
    }
    const startedMs = clock.now();
    const finish = (outcome: EngineReport): EngineCommand => {
      onOutcome(id, 'reason' in outcome ? outcome.reason : 'ok', clock.now() - startedMs);
      report(outcome);
      return { type: 'Ended', asker };
    };
    // Not behind the searches that wait for the engine that has just been found to hang.
    if (board.suspendedUntilMs(cell) > startedMs) {
      finish({ reason: reasonOf(new Suspended(), this.#kind) });
      return;
    }
    const controller = new AbortController();
    this.#open.set(asker, controller);
    this.#hedges.earn();
    this.#context.pipe(
      this.#admitted(query, deadlineMs, controller.signal),
      (hits) => finish({ hits }),
      (error) => finish({ reason: reasonOf(error, this.#kind) }),
    );
  }

  /** The search in its place in the queue; one that is cancelled there ends at once, and its place means nothing. */
  #admitted(query: EngineQuery, deadlineMs: number, signal: AbortSignal): Promise<readonly EngineHit[]> {
    return new Promise((resolve, reject) => {
      const leave = (): void => reject(signal.reason as Error);
      signal.addEventListener('abort', leave, { once: true });
      this.#limit(async () => {
        signal.removeEventListener('abort', leave);
        signal.throwIfAborted();
        resolve(await this.#run(query, deadlineMs, signal));
      }).catch(reject);
    });
  }

  /** Leave from the board, then the errand, then the verdict on the engine. */
  async #run(query: EngineQuery, deadlineMs: number, signal: AbortSignal): Promise<readonly EngineHit[]> {
    const { board, clock } = this.#deps;
    const { cell } = this.#spec;
    const pass = board.enter(cell, clock.now());
    if (pass === undefined) throw new Suspended();
    const { hits, error, trouble } = await this.#outcome(query, deadlineMs, signal);
    if (trouble !== null)
      board.fail(cell, pass, trouble, clock.now(), error instanceof EngineError ? error.retryAfterMs : undefined);
    else if (hits === undefined) board.release(cell, pass);
    else board.succeed(cell, pass);
    if (hits === undefined) throw error;
    return hits;
  }

  async #outcome(query: EngineQuery, deadlineMs: number, signal: AbortSignal): Promise<Outcome> {
    const [spec, deps, workerPicker, hedges] = [this.#spec, this.#deps, this.#workerPicker, this.#hedges];
    const engineCall = new EngineCall({ spec, deps, workerPicker, hedges, query, deadlineMs, signal });
    try {
      const { hits, setback } = await engineCall.run();
      return { hits, error: setback, trouble: setback === undefined ? null : engineCall.troubleOf(setback) };
    } catch (error) {
      return { hits: undefined, error, trouble: engineCall.troubleOf(error) };
    }
  }
}

/** How an errand ended: with hits, with an error, or with both when a later page failed. */
interface Outcome {
  readonly hits: readonly EngineHit[] | undefined;
  readonly error: unknown;
  readonly trouble: Trouble | null;
}
