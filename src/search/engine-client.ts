// Searches one engine from one thread: concurrency limit in turns between accounts, suspension, rate limits, pages, one retry,
// hedging, and the choice among its workers. Every search ends in one report, soon after it is cancelled, whatever engine and network
// do. The engine is judged by the first request of a search: how many pages a client asks for is not its fault.

import type { Clock } from '../actor/index.ts';
import { abortable } from '../net/abortable.ts';
import { TooLongError } from '../net/buffered-client.ts';
import { DispatchError } from '../net/client.ts';
import { type FairEntry, FairQueue, RememberedTime } from '../routing/index.ts';
import { checkedHits, checkedRequest } from './checked-answers.ts';
import type { CallFailure, EngineBoard, Permit } from './engine-board.ts';
import {
  type Engine,
  EngineError,
  type EngineHit,
  type EnginePage,
  type EngineQuery,
  type EngineRequest,
  type EngineResponse,
  type FilterName,
  type HttpEngine,
  type RateLimit,
  type SearchType,
} from './engine.ts';
import { COUNTED_BYTES, MAX_MARKS } from './engine-response.ts';
import { type FilterPlan, planOf, reasonOf } from './filter-plan.ts';
import { RateQueue } from './rate-queue.ts';
import { WorkerPicker } from './worker-picker.ts';

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
  /** Differs for different engines of the embedder, which may have equal fingerprints. Means nothing in another process. */
  readonly generation?: number;
}

/** What an engine came to: hits, or a reason for `meta.engine_errors`. */
export type EngineReport =
  | {
      readonly engine: string;
      readonly hits: readonly EngineHit[];
      /** Requests that were answered for them. */
      readonly calls: number;
      /** What the engine lacked, in a reason for `meta.engine_errors`. */
      readonly note?: string;
      /** Filters that the hits do not observe, by their names in the interface. Undefined without any. */
      readonly notApplied?: readonly string[];
      /** Hits on pages of results before this one. Undefined on the first. */
      readonly before?: number;
      /** Hits that the filters left out, with the reason for each. Undefined without any. */
      readonly dropped?: ReadonlyMap<EngineHit, string>;
    }
  | { readonly engine: string; readonly reason: string };

export interface ReportListener {
  /** Called once for each search, perhaps before `search` has returned. */
  onReport(report: EngineReport): void;
  /** The search has a page of results, and goes on to the next. */
  onPage(): void;
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
  /**
   * Whether the trial of an engine is for this gateway, not for one of the others. Resolves soon, with true where it cannot be told. Default:
   * there are no others.
   */
  readonly claimTrial?: (cell: number) => Promise<boolean>;
  /** Hears how each search ended, but for those of a type the engine does not have: `ok`, or the reason reported. */
  readonly onOutcome: (engine: string, reason: string, elapsedMs: number) => void;
  /** Hears what the code of an engine throws that is no `EngineError`, or is the cause of one, at most once a minute. */
  readonly onThrown: (engine: string, error: unknown) => void;
}

/** Time between two reports of what an engine throws, in milliseconds: each search may throw the same. */
const THROWN_MS = 60_000;

/** Connections to one origin that serve an engine's default concurrency twice over. */
export const CONNECTIONS = 64;

/** Far above any page of results. */
const MAX_RESPONSE_BYTES = 8 * 1024 * 1024;

const LESS_THAN = 0x3c;
const OPEN_BRACKET = 0x5b;
const OPEN_BRACE = 0x7b;

/** Requests for one search of one engine, pages and lookups together; and for each ten hits wanted, what a price covers. */
const MAX_REQUESTS = 12;
const REQUESTS_PER_TEN = 2;

/** Longest wait for the engine's own rate limit. */
const MAX_RATE_WAIT_MS = 1000;

/** Share of the time of a search that a request must have had for its cut-off to say something about the engine. */
const FAIR_SHARE = 0.5;

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
/** Our own rate limit has no place in time. */
const RATE_LIMITED = new CallError('rate limited', null);
/** A deadline that cuts off a request is a failure of the engine; one that comes before the request is not. */
const CANCELLED = { timeout: new CallError('timeout', null), cancelled: new CallError('cancelled', null) } as const;

/** One engine in one thread. A client that has been replaced may be dropped: its searches under way end as they began. */
export class EngineClient {
  readonly spec: EngineSpec;
  readonly deps: EngineClientDeps;
  /** Null for an engine with a single worker. */
  readonly picker: WorkerPicker | null;
  /** The turns at its rate limits; null for an engine without any. */
  readonly rateQueue: RateQueue | null;
  /** Times that the last requests took. */
  readonly latencies: Latencies = new Latencies();
  readonly #waiting = new FairQueue<EngineCall>(new RememberedTime());
  #running = 0;
  #hedges = HEDGE_BURST;
  #thrownMs = -Infinity;

  constructor(spec: EngineSpec, deps: EngineClientDeps) {
    this.spec = spec;
    this.deps = deps;
    const { board, clock, random } = deps;
    const { cell, rates, workers } = spec;
    this.picker = workers.length === 1 ? null : new WorkerPicker(workers.length, clock, random);
    this.rateQueue = rates.length === 0 ? null : new RateQueue({ board, clock, cell, rates });
  }

  /** The code of the engine has thrown this. */
  threw(error: unknown): void {
    const thrown = error instanceof EngineError ? error.cause : error;
    const nowMs = this.deps.clock.now();
    if (thrown === undefined || nowMs - this.#thrownMs < THROWN_MS) return;
    this.#thrownMs = nowMs;
    this.deps.onThrown(this.spec.id, thrown);
  }

  /** Whether the engine has searches of the type. */
  serves(type: SearchType): boolean {
    return (this.spec.workers[0] as Engine).types.includes(type);
  }

  /**
   * Starts a search of an account. Retries and waits for rate limits end before `deadlineMs`; at that time the caller must cancel it.
   */
  search(query: EngineQuery, deadlineMs: number, listener: ReportListener, account: string): EngineCall {
    const { concurrency, cell, id } = this.spec;
    const { board, clock } = this.deps;
    const nowMs = clock.now();
    const call = new EngineCall(this, query, { startedMs: nowMs, deadlineMs }, listener, account);
    if (!this.serves(query.type)) listener.onReport({ engine: id, reason: `unsupported search_type '${query.type}'` });
    else if (this.#running < concurrency) this.#start(call, nowMs);
    // A search must not wait behind those of an engine that has just been found to hang.
    else if (board.isSuspended(cell, account) && board.suspendedUntilMs(cell) > nowMs) call.end(SUSPENDED);
    else call.entry = this.#waiting.add(account, call, 1);
    return call;
  }

  /** Takes a call out of the queue; false when it is not there. */
  withdraw(call: EngineCall): boolean {
    const { entry } = call;
    call.entry = null;
    return entry !== null && this.#waiting.remove(entry);
  }

  /** A call that was started has ended: the next ones take its place. */
  ended(): void {
    this.#running--;
    while (this.#running < this.spec.concurrency) {
      const entry = this.#waiting.peek();
      if (entry === null) return;
      const call = this.#waiting.take(entry);
      call.entry = null;
      const nowMs = this.deps.clock.now();
      // A request that cannot end in time would only cost a place.
      if (call.deadlineMs - nowMs < this.latencies.p95Ms) call.end(CANCELLED.timeout);
      else this.#start(call, nowMs);
    }
  }

  /** Whether the budget allows a second request beside a slow one. */
  spendHedge(): boolean {
    if (this.#hedges < 1) return false;
    this.#hedges -= 1;
    return true;
  }

  #start(call: EngineCall, nowMs: number): void {
    const permit = this.deps.board.acquire(this.spec.cell, nowMs, call.account);
    if (permit === undefined) {
      call.end(SUSPENDED);
      return;
    }
    this.#running++;
    this.#hedges = Math.min(this.#hedges + HEDGE_SHARE, HEDGE_BURST);
    void call.run(permit);
  }
}

/** The hits of a worker. */
interface Found {
  readonly hits: readonly EngineHit[];
  /** Requests that were answered. */
  readonly calls: number;
  readonly note?: string | undefined;
  readonly notApplied?: readonly FilterName[] | undefined;
  readonly dropped?: ReadonlyMap<EngineHit, string> | undefined;
}

const NONE: readonly number[] = [];

/** One search of one engine. */
export class EngineCall {
  readonly #client: EngineClient;
  readonly #query: EngineQuery;
  /** Null without filters, on the first page. */
  readonly #plan: FilterPlan | null;
  readonly #times: { readonly startedMs: number; readonly deadlineMs: number };
  readonly #listener: ReportListener;
  readonly #controller = new AbortController();
  /** The workers that were asked, among others, in their order. */
  #tried: readonly number[] = NONE;
  readonly account: string;
  /** Its place in the queue of the client. */
  entry: FairEntry<EngineCall> | null = null;
  /** The pages there are. */
  #found: Found | null = null;
  /** The deadline came while the first request was under way, and it had had its time: the engine was slow. */
  #cutOff = false;
  /** Its search has been answered without it. */
  #late = false;
  /** Further pages are of no use. */
  #enough = false;

  constructor(
    client: EngineClient,
    query: EngineQuery,
    times: { readonly startedMs: number; readonly deadlineMs: number },
    listener: ReportListener,
    account: string,
  ) {
    this.account = account;
    this.#client = client;
    this.#query = query;
    this.#plan = planOf(query, (client.spec.workers[0] as Engine).filters, client.deps.epochMs);
    this.#times = times;
    this.#listener = listener;
  }

  get deadlineMs(): number {
    return this.#times.deadlineMs;
  }

  /** The report as it would be now; null while there is no page. */
  get collected(): EngineReport | null {
    const skipped = this.#plan?.skipped ?? 0;
    return this.#found === null || this.#found.hits.length <= skipped ? null : this.#reportOf(this.#found);
  }

  /**
   * The search has been answered with what there was. `isKept`: the rest is wanted all the same; else a request under way goes on, for the
   * standing of the engine, and none follows.
   */
  late(isKept: boolean): void {
    this.#late = this.collected === null;
    this.#enough = !isKept;
    if (!isKept && this.#client.withdraw(this)) this.end(CANCELLED.cancelled);
  }

  /** Ends the search at its deadline, with the hits there are, or because its client left. No effect after its end. */
  cancel(reason: 'timeout' | 'cancelled'): void {
    if (this.#client.withdraw(this)) this.end(CANCELLED[reason]);
    else this.#controller.abort(CANCELLED[reason]);
  }

  /** Searches and judges the engine by the outcome. Never rejects. */
  async run(permit: Permit): Promise<void> {
    const { board, claimTrial, clock } = this.#client.deps;
    const { cell } = this.#client.spec;
    if (permit !== 0n && claimTrial !== undefined && board.isShared && !(await claimTrial(cell))) {
      board.release(cell, permit);
      this.#client.ended();
      this.end(SUSPENDED);
      return;
    }
    let found: Found | null = null;
    let error: unknown;
    try {
      found = await this.#first();
    } catch (thrown) {
      try {
        found = await this.#again(thrown);
      } catch (again) {
        error = again;
      }
    }
    const failure = found !== null ? null : this.#failureOf(error);
    if (failure !== null) {
      const asker = { account: this.account, query: this.#query.query };
      board.fail(cell, permit, failure, clock.now(), asker, retryAfterOf(error));
    } else if (found === null || found.calls === 0) board.release(cell, permit);
    else board.succeed(cell, permit, this.account, clock.now());
    this.#client.ended();
    this.end(error, found);
  }

  /** Reports what was found, or without it the error. */
  end(error: unknown, found: Found | null = null): void {
    const { deps, spec } = this.#client;
    const reason = found === null ? this.#reasonOf(error) : 'ok';
    deps.onOutcome(spec.id, found !== null && this.#late ? 'slow' : reason, deps.clock.now() - this.#times.startedMs);
    this.#listener.onReport(found === null ? { engine: spec.id, reason } : this.#reportOf(found));
  }

  #reportOf(found: Found): EngineReport {
    const { calls, hits, note } = found;
    const { maxResults } = this.#query;
    if (this.#plan !== null) return this.#plannedReport(found, this.#plan);
    const most = hits.length > maxResults ? hits.slice(0, maxResults) : hits;
    const { id: engine } = this.#client.spec;
    return note === undefined ? { engine, hits: most, calls } : { engine, hits: most, calls, note };
  }

  #plannedReport({ calls, dropped, hits, note, notApplied: unobserved = [] }: Found, plan: FilterPlan): EngineReport {
    const most = hits.slice(plan.skipped, plan.wanted);
    const notApplied = plan.notApplied(most, unobserved);
    const reasons = [reasonOf(notApplied), note].filter((reason) => reason !== undefined);
    return {
      ...{ engine: this.#client.spec.id, hits: most, calls },
      ...(reasons.length > 0 && { note: reasons.join('; ') }),
      ...(notApplied.length > 0 && { notApplied }),
      ...(plan.before > 0 && { before: plan.before }),
      ...(dropped !== undefined && dropped.size > 0 && { dropped }),
    };
  }

  #first(): Promise<Found> {
    const { picker, spec } = this.#client;
    const { signal } = this.#controller;
    const worker = picker === null ? 0 : picker.pick(this.#tried);
    return spec.hedgeMs === null || picker === null
      ? this.#ask(worker, signal)
      : this.#hedged(worker, picker, spec.hedgeMs);
  }

  /** Asks once more where another worker may do better, or where the engine said when and it fits; else throws the error of the first. */
  async #again(error: unknown): Promise<Found> {
    const { deps, latencies, picker } = this.#client;
    const { signal } = this.#controller;
    if (signal.aborted) throw error;
    const other = picker !== null && mayBeTheWorker(error) ? picker.pick(this.#tried) : -1;
    if (other < 0) {
      const waitMs = retryAfterOf(error) ?? -1;
      const endMs = deps.clock.now() + waitMs + latencies.p95Ms;
      if (!(waitMs >= 0 && endMs < this.#times.deadlineMs)) throw error;
      if (waitMs > 0) await sleep(deps.clock, waitMs, signal);
    }
    try {
      return await this.#ask(other < 0 ? (this.#tried[0] ?? 0) : other, signal);
    } catch (again) {
      throw again === RATE_LIMITED ? error : again;
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

  /** A worker among others is judged by the outcome. */
  #ask(worker: number, signal: AbortSignal): Promise<Found> {
    const { picker, spec } = this.#client;
    const engine = spec.workers[worker];
    if (engine === undefined) return Promise.reject(CANCELLED.cancelled);
    return picker === null ? this.#askEngine(engine, signal) : this.#askWorker(engine, worker, picker, signal);
  }

  async #askWorker(engine: Engine, worker: number, picker: WorkerPicker, signal: AbortSignal): Promise<Found> {
    this.#tried = [...this.#tried, worker];
    picker.began(worker);
    try {
      const found = await this.#askEngine(engine, signal);
      if (found.calls > 0) picker.succeeded(worker);
      return found;
    } catch (error) {
      if (mayBeTheWorker(error) || this.#cutOff) picker.failed(worker);
      throw error;
    } finally {
      picker.ended(worker);
    }
  }

  #askEngine(engine: Engine, signal: AbortSignal): Promise<Found> {
    const { ready } = engine;
    return ready === undefined ? this.#searchWith(engine, signal) : this.#searchLoaded(engine, ready, signal);
  }

  async #searchLoaded(engine: Engine, ready: Promise<unknown>, signal: AbortSignal): Promise<Found> {
    try {
      await abortable(signal, ready);
    } catch (error) {
      if (!signal.aborted) this.#client.threw(error);
      throw error;
    }
    return this.#searchWith(engine, signal);
  }

  #searchWith(engine: Engine, signal: AbortSignal): Promise<Found> {
    return 'search' in engine ? this.#searchInProcess(engine, signal) : this.#searchPages(engine, signal);
  }

  /** What the code of the engine makes of the query. */
  #asked<T>(ask: (query: EngineQuery) => T): T {
    try {
      return ask(this.#plan?.query ?? this.#query);
    } catch (error) {
      this.#client.threw(error);
      throw error instanceof EngineError ? error : new EngineError('rejected');
    }
  }

  async #searchInProcess(engine: Extract<Engine, { search: unknown }>, signal: AbortSignal): Promise<Found> {
    const sentMs = this.#client.deps.clock.now();
    let found: readonly EngineHit[];
    try {
      const hits = await abortable(signal, engine.search(this.#plan?.query ?? this.#query, signal));
      found = checkedHits(hits, this.#query.type);
    } catch (error) {
      if (!signal.aborted) this.#client.threw(error);
      throw this.#unlessAborted(signal, error, sentMs);
    }
    if (this.#plan === null) return { hits: found, calls: 1 };
    const dropped = new Map<EngineHit, string>();
    return { hits: this.#plan.keep(found, dropped), calls: 1, dropped };
  }

  /** Page after page until there is enough; a later page that fails leaves what the earlier ones gave, and says nothing more. */
  async #searchPages(engine: HttpEngine, signal: AbortSignal): Promise<Found> {
    if (engine.reaches !== undefined && this.#asked((query) => engine.reaches?.(query)) === false)
      return { hits: [], calls: 0 };
    const { deps, latencies, rateQueue } = this.#client;
    const wanted = this.#plan?.wanted ?? this.#query.maxResults;
    const most = this.#mostRequests;
    const dropped = this.#plan === null ? undefined : new Map<EngineHit, string>();
    let found = null as Found | null;
    let state: unknown;
    for (;;) {
      const calls: number = found?.calls ?? 0;
      const before: readonly EngineHit[] = found?.hits ?? [];
      /** When the request was sent that has no response yet. */
      let sentMs: number | null = null;
      try {
        if (rateQueue !== null) await this.#enter(rateQueue, signal);
        const request = this.#requestTo(engine, state);
        signal.throwIfAborted();
        sentMs = deps.clock.now();
        const response = await deps.transport.send(request, signal, MAX_RESPONSE_BYTES);
        latencies.add(deps.clock.now() - sentMs);
        sentMs = null;
        const page = this.#parse(engine, response, state, before.length);
        found = this.#with(page, found, dropped);
        if (this.#found === null || found.hits.length > this.#found.hits.length) this.#found = found;
        const isLast = page.next === undefined || found.hits.length >= wanted || found.calls >= most;
        if (!isLast) this.#listener.onPage();
        if (isLast || this.#enough) return found;
        state = page.next;
      } catch (thrown) {
        const error: unknown =
          sentMs === null ? thrown : this.#unlessAborted(signal, transportError(thrown), calls === 0 ? sentMs : null);
        const isNothing = before.length === 0 && (dropped === undefined || dropped.size === 0);
        if (found === null || isNothing || error === CANCELLED.cancelled) throw error;
        return found;
      }
    }
  }

  get #mostRequests(): number {
    const more = this.#plan?.moreRequestsPerTen ?? 0;
    return Math.min(MAX_REQUESTS, REQUESTS_PER_TEN * Math.ceil(this.#query.maxResults / 10) + more);
  }

  /** What has been found with one page more. `dropped` takes what the filters leave out. */
  #with(page: EnginePage, before: Found | null, dropped: Map<EngineHit, string> | undefined): Found {
    const plan = this.#plan;
    const kept = dropped === undefined || plan === null ? page.hits : plan.keep(page.hits, dropped);
    const hits = before === null || before.hits.length === 0 ? kept : [...before.hits, ...kept];
    const found: Found = { hits, calls: (before?.calls ?? 0) + 1, note: page.note ?? before?.note };
    return dropped === undefined ? found : { ...found, dropped, notApplied: page.notApplied ?? before?.notApplied };
  }

  /** Waits for the turn at the rate limits. */
  async #enter(rateQueue: RateQueue, signal: AbortSignal): Promise<void> {
    const { deps, latencies } = this.#client;
    const withinMs = Math.min(MAX_RATE_WAIT_MS, this.#times.deadlineMs - deps.clock.now() - latencies.p95Ms);
    if (!(await rateQueue.enter(this.account, withinMs, signal))) throw RATE_LIMITED;
    if (this.#enough) throw CANCELLED.cancelled;
  }

  #requestTo(engine: HttpEngine, state: unknown): EngineRequest {
    return this.#asked((query) => {
      const request = engine.request(query, state, this.account);
      // Those of the project's own can be sent.
      return this.#client.spec.generation === undefined ? request : checkedRequest(request);
    });
  }

  #parse(engine: HttpEngine, response: EngineResponse, state: unknown, collected: number): EnginePage {
    const nowMs = this.#client.deps.epochMs();
    if (isDense(response.body)) throw new EngineError('invalid');
    try {
      const context = { query: this.#plan?.query ?? this.#query, state, collected, nowMs };
      const { hits, next, note, notApplied } = engine.parse(
        response,
        this.#plan === null ? context : { ...context, wantsMore: this.#plan.leavesOut || this.#plan.skipped > 0 },
      );
      const checked = checkedHits(hits, this.#query.type);
      const page = typeof note === 'string' ? { hits: checked, next, note } : { hits: checked, next };
      return Array.isArray(notApplied) ? { ...page, notApplied } : page;
    } catch (error) {
      this.#client.threw(error);
      throw error instanceof EngineError ? error : new EngineError('invalid');
    }
  }

  /** The error of a request that was sent at `sentMs`, null for a later page; or why it was cancelled. */
  #unlessAborted(signal: AbortSignal, error: unknown, sentMs: number | null): unknown {
    if (!signal.aborted) return error;
    const { deadlineMs, startedMs } = this.#times;
    const leastMs = FAIR_SHARE * (deadlineMs - startedMs);
    this.#cutOff ||=
      signal.reason === CANCELLED.timeout && sentMs !== null && this.#client.deps.clock.now() - sentMs >= leastMs;
    return signal.reason;
  }

  /** What an error means for the engine's suspension; null: nothing. */
  #failureOf(error: unknown): CallFailure | null {
    if (error instanceof EngineError) return error.ofAccount ? null : error.failure;
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

/** Whether an answer has far more structure than a page of results. */
function isDense(body: Buffer): boolean {
  if (body.byteLength <= COUNTED_BYTES) return false;
  let marks = 0;
  for (let at = 0; at < body.byteLength; at++) {
    const byte = body[at];
    if (byte === OPEN_BRACKET || byte === OPEN_BRACE || byte === LESS_THAN) marks++;
  }
  return marks > MAX_MARKS;
}

function retryAfterOf(error: unknown): number | undefined {
  return error instanceof EngineError ? error.retryAfterMs : undefined;
}

/** Another worker may do better, unless query or account are at fault. */
function mayBeTheWorker(error: unknown): boolean {
  if (error instanceof EngineError)
    return !error.ofAccount && error.failure !== 'rejected' && error.failure !== 'quota';
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

/** Requests that the 95th percentile is taken from, and how many it needs. */
const LATENCIES = 64;
const LEAST_LATENCIES = 8;

/** Times of the last requests that were answered. */
class Latencies {
  readonly #timesMs: number[] = [];
  #next = 0;

  add(ms: number): void {
    this.#timesMs[this.#next] = ms;
    this.#next = (this.#next + 1) % LATENCIES;
  }

  /** The 95th percentile; 0 while there are too few. */
  get p95Ms(): number {
    const { length } = this.#timesMs;
    if (length < LEAST_LATENCIES) return 0;
    return this.#timesMs.toSorted((a, b) => a - b)[Math.ceil(0.95 * length) - 1] as number;
  }
}
