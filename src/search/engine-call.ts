// One search of one engine, from its place in the queue to its hits: pages within the rate limits, one more try where
// the engine says when or another worker may do better, a second worker beside a slow one. Engine actors run it and
// judge the engine by how it ends; an errand settles soon after its signal fires, whatever engine and network do.

import type { Clock } from '../actor/index.ts';
import { EngineError, type EngineHit, type EnginePage, type EngineQuery, type HttpEngine } from './engine.ts';
import type { EngineSpec, EngineDeps } from './engine-actor.ts';
import type { Trouble } from './engine-board.ts';
import { TransportError } from './transport.ts';
import type { WorkerPicker } from './worker-picker.ts';

/** Requests for one search of one engine, pages and lookups together. */
const MAX_STEPS = 12;

/** Extra requests that hedging may cause, as a share of searches, and how many may come at once. */
const HEDGE_SHARE = 0.1;
const HEDGE_BURST = 5;

/** Nobody waits for this search any more. */
export class Abandoned extends Error {
  override readonly name = 'Abandoned';
}

/** The deadline of a search has passed. */
export class TimedOut extends Error {
  override readonly name = 'TimedOut';
}

export class Suspended extends Error {
  override readonly name = 'Suspended';
}

/** Our own rate limit leaves no place before the deadline. */
class OwnLimit extends Error {
  override readonly name = 'OwnLimit';
}

/** What the errands of one engine share. */
export class HedgeBudget {
  #left = HEDGE_BURST;

  earn(): void {
    this.#left = Math.min(this.#left + HEDGE_SHARE, HEDGE_BURST);
  }

  spend(): boolean {
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}

export interface EngineCallOptions {
  readonly spec: EngineSpec;
  readonly deps: EngineDeps;
  readonly workerPicker: WorkerPicker;
  readonly hedges: HedgeBudget;
  readonly query: EngineQuery;
  readonly deadlineMs: number;
  /** Fires with `Abandoned` or `TimedOut`. */
  readonly signal: AbortSignal;
}

/** What an errand brought; `setback` is why later pages are missing. */
export interface EngineCallResult {
  readonly hits: readonly EngineHit[];
  readonly setback?: unknown;
}

export class EngineCall {
  readonly #options: EngineCallOptions;
  readonly #tried = new Set<number>();
  #cut = false;

  constructor(options: EngineCallOptions) {
    this.#options = options;
  }

  /** Asks; asks once more where another worker may do better, or where the engine said when and it fits. */
  async run(): Promise<EngineCallResult> {
    const { workerPicker, signal } = this.#options;
    const first = workerPicker.pick(this.#tried);
    try {
      return await this.#hedged(first);
    } catch (error) {
      if (signal.aborted) throw error;
      const other = mayBeTheWorker(error) ? workerPicker.pick(this.#tried) : -1;
      const waitMs = other >= 0 ? 0 : this.#retryAfterMs(error);
      if (waitMs < 0) throw error;
      if (waitMs > 0) await sleep(this.#options.deps.clock, waitMs, signal);
      try {
        return await this.#ask(other >= 0 ? other : first, signal);
      } catch (again) {
        throw again instanceof OwnLimit ? error : again;
      }
    }
  }

  /** What an error says about the engine; null: nothing. A deadline that cut off a request is a timeout. */
  troubleOf(error: unknown): Trouble | null {
    if (error instanceof EngineError) return error.failure;
    if (error instanceof TransportError) return error.trouble;
    if (error instanceof Abandoned || error instanceof OwnLimit || error instanceof Suspended) return null;
    if (error instanceof TimedOut) return this.#cut ? 'timeout' : null;
    return 'invalid';
  }

  /** How long to wait before asking again; -1: not at all. */
  #retryAfterMs(error: unknown): number {
    const { deadlineMs, deps } = this.#options;
    const waitMs = error instanceof EngineError ? error.retryAfterMs : undefined;
    return waitMs !== undefined && waitMs >= 0 && deps.clock.now() + waitMs < deadlineMs ? waitMs : -1;
  }

  /** The first answer of one worker, or of two when the first is slow and the budget allows it. */
  async #hedged(worker: number): Promise<EngineCallResult> {
    const { hedges, workerPicker, signal, spec, deps } = this.#options;
    if (spec.hedgeMs === null || spec.workers.length === 1) return this.#ask(worker, signal);
    const losers = new AbortController();
    const both = AbortSignal.any([signal, losers.signal]);
    try {
      const early = this.#ask(worker, both);
      const slow = sleep(deps.clock, spec.hedgeMs, both).then(() => true);
      // A first that fails before the hedge is due is the caller's to judge.
      const isSlow = await Promise.race([slow, early.then(() => false)]).catch(() => false);
      slow.catch(() => undefined);
      if (!isSlow || !hedges.spend()) return await early;
      const late = this.#ask(workerPicker.pick(this.#tried), both);
      return await Promise.any([early, late]).catch(() => early);
    } finally {
      losers.abort(new Abandoned());
    }
  }

  async #ask(worker: number, signal: AbortSignal): Promise<EngineCallResult> {
    const { query, workerPicker, spec } = this.#options;
    const engine = spec.workers[worker];
    if (engine === undefined) throw new Abandoned();
    this.#tried.add(worker);
    workerPicker.began(worker);
    try {
      const found =
        'search' in engine
          ? { hits: checked(await this.#cuttable(signal, () => untilAborted(engine.search(query, signal), signal))) }
          : await this.#pages(engine, signal);
      workerPicker.succeeded(worker);
      return { ...found, hits: found.hits.slice(0, query.maxResults) };
    } catch (error) {
      if (mayBeTheWorker(error) || this.#cut) workerPicker.failed(worker);
      throw error;
    } finally {
      workerPicker.ended(worker);
    }
  }

  /** Page after page until there is enough; a later page that fails leaves what the earlier ones gave. */
  async #pages(engine: HttpEngine, signal: AbortSignal): Promise<EngineCallResult> {
    const hits: EngineHit[] = [];
    let state: unknown;
    for (let step = 0; step < MAX_STEPS; step++) {
      try {
        const page = await this.#page(engine, state, hits.length, signal);
        hits.push(...page.hits);
        if (page.next === undefined || hits.length >= this.#options.query.maxResults) break;
        state = page.next;
      } catch (error) {
        if (hits.length === 0 || error instanceof Abandoned) throw error;
        return { hits, setback: error };
      }
    }
    return { hits };
  }

  async #page(engine: HttpEngine, state: unknown, collected: number, signal: AbortSignal): Promise<EnginePage> {
    const { deadlineMs, query, spec, deps } = this.#options;
    const { board, clock, epochMs, transport } = deps;
    const nowMs = clock.now();
    const waitMs = board.reserve(spec.cell, spec.rates, nowMs, Math.max(0, deadlineMs - nowMs));
    if (waitMs < 0) throw new OwnLimit();
    if (waitMs > 0) await sleep(clock, waitMs, signal);
    const request = meant('rejected', () => engine.request(query, state));
    const response = await this.#cuttable(signal, () => transport.send(request, signal));
    return meant('invalid', () => {
      const page = engine.parse(response, { query, state, collected, nowMs: epochMs() });
      return { ...page, hits: checked(page.hits) };
    });
  }

  /** Runs what the deadline may cut off: then the engine was slow. Before and between it was not asked. */
  async #cuttable<T>(signal: AbortSignal, call: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    try {
      return await call();
    } catch (error) {
      if (!signal.aborted) throw error;
      this.#cut ||= signal.reason instanceof TimedOut;
      throw signal.reason;
    }
  }
}

/** Short and stable, for `meta.engine_errors`; never of the engine's own words. */
export function reasonOf(error: unknown, kind: string): string {
  if (error instanceof EngineError && error.failure === 'http' && kind === 'worker')
    return error.reason.replace('engine', 'worker');
  if (error instanceof EngineError || error instanceof TransportError) return error.reason;
  if (error instanceof Suspended) return 'suspended';
  if (error instanceof OwnLimit) return 'rate limited';
  if (error instanceof Abandoned) return 'cancelled';
  return error instanceof TimedOut ? 'timeout' : 'engine failed';
}

/** Another worker can help with all but the query and the account. */
function mayBeTheWorker(error: unknown): boolean {
  if (error instanceof EngineError) return error.failure !== 'rejected' && error.failure !== 'quota';
  return error instanceof TransportError;
}

/** Whatever an engine throws that it did not mean to throw counts as `failure`. */
function meant<T>(failure: 'rejected' | 'invalid', call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw error instanceof EngineError ? error : new EngineError(failure);
  }
}

/** Engines may be anybody's: merging relies on these three. */
function checked(hits: readonly EngineHit[]): readonly EngineHit[] {
  const isHit = ({ title, url, snippet }: EngineHit): boolean =>
    typeof title === 'string' && typeof url === 'string' && typeof snippet === 'string' && /^https?:/i.test(url);
  if (!Array.isArray(hits) || !hits.every((hit) => typeof hit === 'object' && hit !== null && isHit(hit)))
    throw new EngineError('invalid');
  return hits;
}

/** The work's outcome, or the signal's reason when that comes first: not everybody's work heeds a signal. */
function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const leave = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', leave, { once: true });
    if (signal.aborted) leave();
    void Promise.resolve(work)
      .then(resolve, reject)
      .finally(() => signal.removeEventListener('abort', leave));
  });
}

function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason as Error);
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
