// Searches one engine from one thread: concurrency limit, suspension, rate limits, pages, one retry, hedging, and the choice
// among its workers. Every search ends in one report, soon after it is cancelled, whatever engine and network do.

import type { Clock } from '../actor/index.ts';
import { TooLongError } from '../net/buffered-client.ts';
import { DispatchError } from '../net/client.ts';
import type { CallFailure, EngineBoard, Permit } from './engine-board.ts';
import {
  type Engine,
  EngineError,
  type EngineHit,
  type EnginePage,
  type EngineQuery,
  type EngineRequest,
  type EngineResponse,
  type HttpEngine,
  type RateLimit,
} from './engine.ts';

/** An engine as it is configured. */
export interface EngineSpec {
  readonly id: string;
  /** The same engine on each of its workers, at least one; one is enough where there is one address. */
  readonly workers: readonly Engine[];
  /** Searches at once in one thread; the others wait in order. */
  readonly concurrency: number;
  readonly rates: readonly RateLimit[];
  /** Ask a second worker when the first has not answered after this long, in milliseconds; null: never. */
  readonly hedgeMs: number | null;
  /** Its place on the board. */
  readonly cell: number;
  /** Weight of its ranks in merged results; 1 is usual. */
  readonly weight: number;
  /** Equal for equal settings: a reload that changes nothing about an engine keeps its client. */
  readonly fingerprint: string;
}

/** What an engine came to: hits, or a reason for `meta.engine_errors`. */
export type EngineReport =
  | { readonly engine: string; readonly hits: readonly EngineHit[] }
  | { readonly engine: string; readonly reason: string };

export interface ReportListener {
  /** Called once for each search, perhaps before `search` has returned. */
  onReport(report: EngineReport): void;
}

/** Sends requests to engines; `BufferedClient` is one. */
export interface Transport {
  /** Resolves with an answer of any status. Rejects with the reason of `signal` when it fires first. */
  send(request: EngineRequest, signal: AbortSignal, maxBytes: number): Promise<EngineResponse>;
  close(): void;
}

export interface EngineClientDeps {
  readonly board: EngineBoard;
  readonly transport: Transport;
  readonly clock: Clock;
  /** Unix time in milliseconds. */
  readonly epochMs: () => number;
  readonly random: () => number;
  /** Hears how each search ended, but for those of a type the engine does not have: `ok`, or the reason reported. */
  readonly onOutcome: (engine: string, reason: string, elapsedMs: number) => void;
}

/** Connections to one origin that serve an engine's default concurrency twice over. */
export const CONNECTIONS = 64;

/** Far above any page of results. */
const MAX_RESPONSE_BYTES = 8 * 1024 * 1024;

/** Requests for one search of one engine, pages and lookups together. */
const MAX_REQUESTS = 12;

/** Extra requests that hedging may cause, as a share of searches, and how many may come at once. */
const HEDGE_SHARE = 0.1;
const HEDGE_BURST = 5;

/** Why a search failed, where the engine itself has not said so. */
class CallError extends Error {
  override readonly name = 'CallError';
  /** What it means for the engine's suspension; null: nothing. */
  readonly failure: CallFailure | null;

  constructor(reason: string, failure: CallFailure | null, options?: ErrorOptions) {
    super(reason, options);
    this.failure = failure;
  }
}

const SUSPENDED = new CallError('suspended', null);
/** Our own rate limit has no place before the deadline. */
const RATE_LIMITED = new CallError('rate limited', null);
/** A deadline that cuts off a request is a failure of the engine; one that comes before the request is not. */
const CANCELLED = { timeout: new CallError('timeout', null), cancelled: new CallError('cancelled', null) } as const;

/** One engine in one thread. A client that has been replaced may be dropped: its searches under way end as they began. */
export class EngineClient {
  readonly spec: EngineSpec;
  readonly deps: EngineClientDeps;
  /** Null for an engine with a single worker. */
  readonly picker: WorkerPicker | null;
  readonly #waiting = new Set<EngineCall>();
  #running = 0;
  #hedges = HEDGE_BURST;

  constructor(spec: EngineSpec, deps: EngineClientDeps) {
    this.spec = spec;
    this.deps = deps;
    this.picker = spec.workers.length === 1 ? null : new WorkerPicker(spec.workers.length, deps.clock, deps.random);
  }

  /** Starts a search. Retries and waits for rate limits end before `deadlineMs`; at that time the caller must cancel it. */
  search(query: EngineQuery, deadlineMs: number, listener: ReportListener): EngineCall {
    const { concurrency, cell, id, workers } = this.spec;
    const { board, clock } = this.deps;
    const nowMs = clock.now();
    const call = new EngineCall(this, query, { startedMs: nowMs, deadlineMs }, listener);
    if (!(workers[0] as Engine).types.includes(query.type))
      listener.onReport({ engine: id, reason: `unsupported search_type '${query.type}'` });
    else if (this.#running < concurrency) this.#start(call, nowMs);
    // A search must not wait behind those of an engine that has just been found to hang.
    else if (board.suspendedUntilMs(cell) > nowMs) call.end(SUSPENDED);
    else this.#waiting.add(call);
    return call;
  }

  /** Takes a call out of the queue; false when it is not there. */
  withdraw(call: EngineCall): boolean {
    return this.#waiting.delete(call);
  }

  /** A call that was started has ended: the next ones take its place. */
  ended(): void {
    this.#running--;
    for (const call of this.#waiting) {
      if (this.#running >= this.spec.concurrency) return;
      this.#waiting.delete(call);
      this.#start(call, this.deps.clock.now());
    }
  }

  /** Whether the budget allows a second request beside a slow one. */
  spendHedge(): boolean {
    if (this.#hedges < 1) return false;
    this.#hedges -= 1;
    return true;
  }

  #start(call: EngineCall, nowMs: number): void {
    const permit = this.deps.board.acquire(this.spec.cell, nowMs);
    if (permit === undefined) {
      call.end(SUSPENDED);
      return;
    }
    this.#running++;
    this.#hedges = Math.min(this.#hedges + HEDGE_SHARE, HEDGE_BURST);
    void call.run(permit);
  }
}

/** The hits of a worker; `pageError` is why later pages are missing. */
interface Found {
  readonly hits: readonly EngineHit[];
  readonly pageError?: unknown;
}

/** One search of one engine. */
export class EngineCall {
  readonly #client: EngineClient;
  readonly #query: EngineQuery;
  readonly #times: { readonly startedMs: number; readonly deadlineMs: number };
  readonly #listener: ReportListener;
  readonly #controller = new AbortController();
  readonly #tried = new Set<number>();
  /** The deadline came while a request was under way: the engine was slow. */
  #cutOff = false;

  constructor(
    client: EngineClient,
    query: EngineQuery,
    times: { readonly startedMs: number; readonly deadlineMs: number },
    listener: ReportListener,
  ) {
    this.#client = client;
    this.#query = query;
    this.#times = times;
    this.#listener = listener;
  }

  /** Ends the search at its deadline, with the hits there are, or because its client left. No effect after its end. */
  cancel(reason: 'timeout' | 'cancelled'): void {
    if (this.#client.withdraw(this)) this.end(CANCELLED[reason]);
    else this.#controller.abort(CANCELLED[reason]);
  }

  /** Searches and judges the engine by the outcome. Never rejects. */
  async run(permit: Permit): Promise<void> {
    const { board, clock } = this.#client.deps;
    const { cell } = this.#client.spec;
    let hits: readonly EngineHit[] | null = null;
    let error: unknown;
    try {
      const found = await this.#search();
      hits = found.hits;
      error = found.pageError;
    } catch (thrown) {
      error = thrown;
    }
    const failure = hits !== null && error === undefined ? null : this.#failureOf(error);
    if (failure !== null) board.fail(cell, permit, failure, clock.now(), retryAfterOf(error));
    else if (hits === null) board.release(cell, permit);
    else board.succeed(cell, permit);
    this.#client.ended();
    this.end(error, hits);
  }

  /** Reports the hits, or without them the error. */
  end(error: unknown, hits: readonly EngineHit[] | null = null): void {
    const { deps, spec } = this.#client;
    const engine = spec.id;
    const reason = hits === null ? this.#reasonOf(error) : 'ok';
    deps.onOutcome(engine, reason, deps.clock.now() - this.#times.startedMs);
    this.#listener.onReport(hits === null ? { engine, reason } : { engine, hits });
  }

  /** Asks; asks once more where another worker may do better, or where the engine said when and it fits. */
  async #search(): Promise<Found> {
    const { deps, picker, spec } = this.#client;
    const { signal } = this.#controller;
    const first = picker === null ? 0 : picker.pick(this.#tried);
    try {
      return await (spec.hedgeMs === null || picker === null
        ? this.#ask(first, signal)
        : this.#hedged(first, picker, spec.hedgeMs));
    } catch (error) {
      if (signal.aborted) throw error;
      const other = picker !== null && mayBeTheWorker(error) ? picker.pick(this.#tried) : -1;
      if (other < 0) {
        const waitMs = retryAfterOf(error) ?? -1;
        if (!(waitMs >= 0 && deps.clock.now() + waitMs < this.#times.deadlineMs)) throw error;
        if (waitMs > 0) await sleep(deps.clock, waitMs, signal);
      }
      try {
        return await this.#ask(other < 0 ? first : other, signal);
      } catch (again) {
        throw again === RATE_LIMITED ? error : again;
      }
    }
  }

  /** The first answer of one worker, or of two when the first is slow and the budget allows it. */
  async #hedged(worker: number, picker: WorkerPicker, hedgeMs: number): Promise<Found> {
    const { deps } = this.#client;
    const losers = new AbortController();
    const both = AbortSignal.any([this.#controller.signal, losers.signal]);
    try {
      const early = this.#ask(worker, both);
      const slow = sleep(deps.clock, hedgeMs, both).then(() => true);
      // The caller handles a first that fails before the hedge is due.
      const isSlow = await Promise.race([slow, early.then(() => false)]).catch(() => false);
      slow.catch(() => undefined);
      if (!isSlow || !this.#client.spendHedge()) return await early;
      const late = this.#ask(picker.pick(this.#tried), both);
      return await Promise.any([early, late]).catch(() => early);
    } finally {
      losers.abort(CANCELLED.cancelled);
    }
  }

  async #ask(worker: number, signal: AbortSignal): Promise<Found> {
    const { picker, spec } = this.#client;
    const engine = spec.workers[worker];
    if (engine === undefined) throw CANCELLED.cancelled;
    this.#tried.add(worker);
    picker?.began(worker);
    try {
      const { ready } = engine;
      if (ready !== undefined) await untilAborted(ready, signal);
      const found = await ('search' in engine
        ? this.#searchInProcess(engine, signal)
        : this.#searchPages(engine, signal));
      picker?.succeeded(worker);
      return found;
    } catch (error) {
      if (mayBeTheWorker(error) || this.#cutOff) picker?.failed(worker);
      throw error;
    } finally {
      picker?.ended(worker);
    }
  }

  async #searchInProcess(engine: Extract<Engine, { search: unknown }>, signal: AbortSignal): Promise<Found> {
    let hits: unknown;
    try {
      hits = await untilAborted(engine.search(this.#query, signal), signal);
    } catch (error) {
      throw this.#unlessAborted(signal, error);
    }
    return { hits: checked(hits).slice(0, this.#query.maxResults) };
  }

  /** Page after page until there is enough; a later page that fails leaves what the earlier ones gave. */
  async #searchPages(engine: HttpEngine, signal: AbortSignal): Promise<Found> {
    const { maxResults } = this.#query;
    let hits: readonly EngineHit[] = [];
    let state: unknown;
    for (let requests = 0; requests < MAX_REQUESTS; requests++) {
      try {
        const response = await this.#send(engine, state, signal);
        const page = this.#parse(engine, response, state, hits.length);
        hits = hits.length === 0 ? page.hits : [...hits, ...page.hits];
        if (page.next === undefined || hits.length >= maxResults) break;
        state = page.next;
      } catch (error) {
        if (hits.length === 0 || error === CANCELLED.cancelled) throw error;
        return { hits, pageError: error };
      }
    }
    return { hits: hits.length > maxResults ? hits.slice(0, maxResults) : hits };
  }

  /** Sends the request for a page, once the rate limits allow it. */
  async #send(engine: HttpEngine, state: unknown, signal: AbortSignal): Promise<EngineResponse> {
    const { deps, spec } = this.#client;
    if (spec.rates.length > 0) {
      const nowMs = deps.clock.now();
      const withinMs = Math.max(0, this.#times.deadlineMs - nowMs);
      const waitMs = deps.board.reserve(spec.cell, spec.rates, nowMs, withinMs);
      if (waitMs < 0) throw RATE_LIMITED;
      if (waitMs > 0) await sleep(deps.clock, waitMs, signal);
    }
    let request: EngineRequest;
    try {
      request = engine.request(this.#query, state);
    } catch (error) {
      throw error instanceof EngineError ? error : new EngineError('rejected');
    }
    signal.throwIfAborted();
    try {
      return await deps.transport.send(request, signal, MAX_RESPONSE_BYTES);
    } catch (error) {
      throw this.#unlessAborted(signal, transportError(error));
    }
  }

  #parse(engine: HttpEngine, response: EngineResponse, state: unknown, collected: number): EnginePage {
    const nowMs = this.#client.deps.epochMs();
    try {
      const { hits, next } = engine.parse(response, { query: this.#query, state, collected, nowMs });
      return { hits: checked(hits), next };
    } catch (error) {
      throw error instanceof EngineError ? error : new EngineError('invalid');
    }
  }

  /** The error of a request that was under way, or why it was cancelled. */
  #unlessAborted(signal: AbortSignal, error: unknown): unknown {
    if (!signal.aborted) return error;
    this.#cutOff ||= signal.reason === CANCELLED.timeout;
    return signal.reason;
  }

  /** What an error means for the engine's suspension; null: nothing. */
  #failureOf(error: unknown): CallFailure | null {
    if (error instanceof EngineError) return error.failure;
    if (error === CANCELLED.timeout && this.#cutOff) return 'timeout';
    return error instanceof CallError ? error.failure : 'invalid';
  }

  /** Short and stable, for `meta.engine_errors`; never the engine's own words. */
  #reasonOf(error: unknown): string {
    if (error instanceof CallError) return error.message;
    if (!(error instanceof EngineError)) return 'engine failed';
    const isWorker = this.#client.spec.workers[0]?.kind === 'worker';
    return error.failure === 'http' && isWorker ? error.reason.replace('engine', 'worker') : error.reason;
  }
}

function retryAfterOf(error: unknown): number | undefined {
  return error instanceof EngineError ? error.retryAfterMs : undefined;
}

/** Another worker may do better, unless query or account are at fault. */
function mayBeTheWorker(error: unknown): boolean {
  if (error instanceof EngineError) return error.failure !== 'rejected' && error.failure !== 'quota';
  return error instanceof CallError && error.failure !== null;
}

/** The error of a request without an answer: no connection, or an answer that is no HTTP, too long or badly compressed. */
function transportError(cause: unknown): CallError {
  const { code = '' } = cause as NodeJS.ErrnoException;
  const unreadable =
    cause instanceof DispatchError
      ? cause.fault === 'malformed'
      : cause instanceof TooLongError || /^(?:Z_|ERR__ERROR_|ERR_BUFFER_TOO_LARGE$)/.test(code);
  return unreadable
    ? new CallError('invalid response', 'invalid', { cause })
    : new CallError('connection failed', 'connection', { cause });
}

/** The hits, if they have what merging needs: engines may be of the embedder's own. */
function checked(hits: unknown): readonly EngineHit[] {
  if (!Array.isArray(hits)) throw new EngineError('invalid');
  for (const hit of hits as readonly unknown[]) {
    const { title, url, snippet, imageUrl } = (hit ?? {}) as Readonly<Record<string, unknown>>;
    const hasTexts = typeof title === 'string' && typeof url === 'string' && typeof snippet === 'string';
    const hasImage = imageUrl === undefined || typeof imageUrl === 'string';
    if (!hasTexts || !hasImage || !/^https?:/i.test(url)) throw new EngineError('invalid');
  }
  return hits as readonly EngineHit[];
}

/** Settles as `work` does, or rejects with the reason of `signal` when that fires first: not all work heeds its signal. */
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

const FIRST_BACKOFF_MS = 5000;
const MAX_BACKOFF_MS = 120_000;

interface WorkerState {
  load: number;
  /** In a row. */
  failures: number;
  backoffUntilMs: number;
}

/**
 * Picks the least busy of the workers that are well. One that failed is left out, twice as long after each failure in a
 * row; then one search at a time tries it.
 */
class WorkerPicker {
  readonly #workers: readonly WorkerState[];
  readonly #clock: Clock;
  readonly #random: () => number;

  constructor(workers: number, clock: Clock, random: () => number) {
    this.#workers = Array.from({ length: workers }, () => ({ load: 0, failures: 0, backoffUntilMs: 0 }));
    this.#clock = clock;
    this.#random = random;
  }

  /** The worker to ask, none of `except`; where none is well, the one that comes back first. -1: there is no other. */
  pick(except: ReadonlySet<number>): number {
    const nowMs = this.#clock.now();
    const start = Math.floor(this.#random() * this.#workers.length);
    let best = -1;
    for (let i = 0; i < this.#workers.length; i++) {
      const index = (start + i) % this.#workers.length;
      if (!except.has(index) && (best < 0 || this.#isBetter(index, best, nowMs))) best = index;
    }
    // The search that picks a worker again after its failures tries it for all others.
    if (best >= 0) this.#backOff(best, nowMs);
    return best;
  }

  began(index: number): void {
    this.#at(index).load++;
  }

  ended(index: number): void {
    this.#at(index).load--;
  }

  succeeded(index: number): void {
    const worker = this.#at(index);
    worker.failures = 0;
    worker.backoffUntilMs = 0;
  }

  failed(index: number): void {
    this.#at(index).failures++;
    this.#backOff(index, this.#clock.now());
  }

  #isBetter(index: number, than: number, nowMs: number): boolean {
    const [one, other] = [this.#at(index), this.#at(than)];
    const later = Math.max(one.backoffUntilMs, nowMs) - Math.max(other.backoffUntilMs, nowMs);
    return later === 0 ? one.load < other.load : later < 0;
  }

  #backOff(index: number, nowMs: number): void {
    const worker = this.#at(index);
    if (worker.failures === 0) return;
    const backoffMs = FIRST_BACKOFF_MS * 2 ** Math.min(worker.failures - 1, 30);
    worker.backoffUntilMs = nowMs + Math.min(backoffMs, MAX_BACKOFF_MS);
  }

  #at(index: number): WorkerState {
    return this.#workers[index] as WorkerState;
  }
}
