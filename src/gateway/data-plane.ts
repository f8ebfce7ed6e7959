// One data plane: everything a thread needs to serve requests, made from its own memory, shared memory and the present
// snapshot. One runs in each ingress thread, and one in the calling thread for `threads: 0`, `inject` and `nodeListener`.

import { isDeepStrictEqual } from 'node:util';
import { type Clock, type Ref, type System, systemEpochMs as epochMs } from '../actor/index.ts';
import {
  type AccountReaderCommand,
  type LeaseManagerCommand,
  KeyLimiter,
  type LimitMemory,
  KeyTable,
  type Payments,
  picoPerCall,
  LeaseCache,
  type LeaseCacheSettings,
  type ModelPrice,
  modelPriceOf,
  type PaymentCommand,
  type CostLogCommand,
  CostLogClient,
  SliceClient,
  type SliceCommand,
  PaymentClient,
  type BillingUpdate,
} from '../billing/index.ts';
import { explain } from '../api/explain.ts';
import { decoratorFor, refuse } from '../api/refuse.ts';
import { Router } from '../api/routes.ts';
import type { ApiDeps, Billing, ClusterStatus } from '../api/deps.ts';
import { dialectOf, TokenSizes } from '../dialect/index.ts';
import { HeadraceError, messageOf } from '../errors.ts';
import { PageClient, type PagesCommand } from '../fetch/index.ts';
import { Cors } from '../ingress/cors.ts';
import { BodyBudget } from '../ingress/body.ts';
import type { DetachedOptions } from '../ingress/detached-exchange.ts';
import type { Exchange, ExchangeHandler, ExchangeSettlement } from '../ingress/exchange.ts';
import { inject } from '../ingress/inject.ts';
import type { ErrorDecorator } from '../ingress/respond.ts';
import type { ConnectionCounts, ServerLimits } from '../ingress/server.ts';
import { BufferedClient } from '../net/buffered-client.ts';
import { ConnectionPool } from '../net/client.ts';
import { SharedCache } from '../net/shared-cache.ts';
import { DeadlineQueue } from '../net/deadline.ts';
import { IntrusiveSet } from '../net/intrusive-set.ts';
import {
  Admission,
  type AdmissionSettings,
  BlockIndex,
  Board,
  type BoardMemory,
  CacheFeedback,
  CommonPrefixes,
  type PickerDeps,
  PlacementRing,
  ResponseHolders,
  type Member,
  type Model,
  ModelTable,
  type Outcome,
  Reporter,
  RetryBudget,
  type RetryBudgetSettings,
} from '../routing/index.ts';
import { claimTrial, configureEngines, IndexClient, type IndexesCommand, SearchService } from '../search/index.ts';
import { type CancelCommand, Cancellations } from '../mcp/index.ts';
import { presentNames } from '../telemetry/left-names.ts';
import { Metrics, type MetricsPart, type RequestCells } from '../telemetry/metrics.ts';
import { Recent } from '../telemetry/recent.ts';
import { lookupMetrics } from '../telemetry/shared-cache-metrics.ts';
import { placeOf } from '../telemetry/log.ts';
import { type LogEntry, type LogPart, type LogQuery, RequestLog } from '../telemetry/request-log.ts';
import { ThreadMetrics } from '../telemetry/runtime-metrics.ts';
import type { ThreadLoad, TotalsPart } from '../telemetry/totals.ts';
import { StoredResponses, UnreadResponses } from '../responses/index.ts';
import type { ResponseService } from '../responses/main-thread.ts';
import { Hedging, Peers, RunningAttempts, TokenCounter } from '../upstream/index.ts';
import type { ExplainAnswer, ExplainRequest, LivePart, PlaneReport } from '../admin/index.ts';
import type { ClusterCacheRefs } from './cluster-caches.ts';
import { liveRequest } from './live-request.ts';
import { endSpan, Observer } from './observer.ts';
import type { Snapshot } from './snapshot.ts';

export interface DataPlaneOptions {
  /** The actor system of this thread. */
  readonly system: System;
  readonly memory: BoardMemory;
  /** Memory of the board of search engines. */
  readonly engineMemory: SharedArrayBuffer;
  /** Memory of the places of searches. */
  readonly searchMemory: SharedArrayBuffer;
  /** Memory of the count of request bodies. */
  readonly bodyMemory: SharedArrayBuffer;
  /** This thread's row on the board. */
  readonly thread: number;
  readonly clock: Clock;
  readonly random: () => number;
  readonly tellOutcome: (outcome: Outcome) => void;
  /** The actor that fetches pages, in whichever thread it lives. */
  readonly pages: Ref<PagesCommand>;
  /** The actor that holds the indexes of local engines, in whichever thread it lives. */
  readonly indexes: Ref<IndexesCommand>;
  /** Null without a ledger. */
  readonly accounts: PlaneAccounts | null;
  /** Null where no response is stored, whatever the settings say. */
  readonly responses: Pick<ResponseService, 'ref' | 'memory'> | null;
  /** Tells all other threads and gateways that a client has cancelled a call. */
  readonly tellCancelled: (command: CancelCommand) => void;
  /** Hears what the code of a search engine has thrown, without its words. */
  readonly onEngineThrew: (engine: string, thrown: string) => void;
  /** What is shared with other gateways. Null: nothing, whatever the settings say. */
  readonly caches: ClusterCacheRefs | null;
  readonly snapshot: Snapshot;
}

/** The parts of billing that a data plane uses. */
export interface PlaneAccounts {
  readonly leaseManager: Ref<LeaseManagerCommand>;
  readonly leaseMemory: SharedArrayBuffer;
  readonly accountReader: Ref<AccountReaderCommand>;
  readonly costLog: Ref<CostLogCommand>;
  readonly limitMemory: LimitMemory;
  readonly sliceManager: Ref<SliceCommand>;
  /** Null where payments are off. */
  readonly payments: Ref<PaymentCommand> | null;
}

/** Connections to one CRN that count tokens at the same time; further counts wait for one. */
const COUNTING_CONNECTIONS = 8;

/** Requests under way that one thread lists. */
const MOST_LIVE = 1000;
/** Rows that may have one request id, which clients may choose. */
const MOST_ENTRIES = 20;
/** Route of the health of the gateway. */
const HEALTH = '/health';

/** Takes requests behind the end: another attempt would open connections that nothing closes. */
const CLOSED: Pick<Router, 'serve'> = {
  serve: (exchange, deps) => refuse(exchange, deps, new HeadraceError('HR_DRAINING')),
};

export class DataPlane {
  /** Memory for bodies and limits of one body. They follow the settings; HTTP servers read them at every request. */
  readonly budget: BodyBudget;
  readonly limits: { -readonly [Name in keyof ServerLimits]: ServerLimits[Name] };
  /** Connections of the HTTP server in front of this plane. */
  readonly connections: ConnectionCounts = { open: 0, refused: 0 };
  readonly #options: DataPlaneOptions;
  readonly #board: Board;
  readonly #responseHolders: ResponseHolders;
  readonly #blockIndex: BlockIndex;
  readonly #feedback: CacheFeedback;
  readonly #picker: PickerDeps;
  readonly #reporter: Reporter;
  readonly #metrics = new Metrics();
  readonly #recent = new Recent(epochMs);
  /** Greater than that of a plane which served as this thread before: no date, which could be set back. */
  readonly #generation: number;
  #reports = 0;
  readonly #threadMetrics: ThreadMetrics;
  /** The same for the overview: each reading begins the next interval, so that every reader needs its own. */
  readonly #overviewMetrics: ThreadMetrics;
  readonly #observer: Observer;
  readonly #deadlines: DeadlineQueue;
  readonly #running: RunningAttempts;
  readonly #admission: Admission;
  #hedging: Hedging | null = null;
  #hedgeShare = 0;
  #router: Pick<Router, 'serve'>;
  readonly #search: SearchService;
  readonly #shared: SharedCache | null;
  readonly #indexes: IndexClient;
  readonly #pages: PageClient;
  readonly #keys: KeyTable;
  readonly #leases: LeaseCache | null;
  readonly #limits: KeyLimiter | null;
  readonly #slices: SliceClient | null;
  readonly #paymentProcessor: Payments | null;
  readonly #costLog: CostLogClient | null;
  readonly #responses: StoredResponses | null;
  readonly #unread: UnreadResponses;
  #recorded: Snapshot['settings']['costLog']['requests'] = 'off';
  #searchSettings: Snapshot['settings']['search'] | null = null;
  #requestLog: RequestLog | null = null;
  #requestLogKey = '';
  /** Requests without a complete answer. */
  readonly #exchanges = new IntrusiveSet<'slot', Exchange>('slot');
  readonly #pools = new Map<string, ConnectionPool>();
  readonly #tokenSizes = new TokenSizes();
  readonly #counting = new BufferedClient(COUNTING_CONNECTIONS);
  readonly #tokenCounter: TokenCounter;
  /** Those of the present snapshot. */
  #budgets: ReadonlyMap<string, RetryBudget> = new Map();
  /** Why the last probe of a CRN failed, by base URL. */
  #probeReasons = new Map<string, string>();
  readonly #cluster: { -readonly [Name in keyof ClusterStatus]: ClusterStatus[Name] };
  #cors: Cors;
  readonly #detached: DetachedOptions;
  readonly #cancellations: Cancellations;
  #deps: ApiDeps;
  #whenIdle: (() => void) | null = null;
  /** Calls of the program that are under way. */
  #calls = 0;

  constructor(options: DataPlaneOptions) {
    const { memory, thread, clock, snapshot } = options;
    this.#options = options;
    this.#board = new Board(memory, thread);
    const ring = new PlacementRing(memory.placements, thread);
    this.#responseHolders = new ResponseHolders(memory, ring);
    this.#blockIndex = new BlockIndex(memory.blocks, ring);
    this.#feedback = new CacheFeedback(memory, this.#blockIndex);
    this.#picker = {
      board: this.#board,
      index: this.#blockIndex,
      common: new CommonPrefixes(),
      feedback: this.#feedback,
      clock,
      random: options.random,
    };
    this.#generation = clock.now();
    this.#tokenCounter = new TokenCounter(this.#counting, () => clock.now());
    this.#reporter = new Reporter(this.#board, clock, options.tellOutcome);
    this.#threadMetrics = new ThreadMetrics(thread, options.system, clock);
    this.#overviewMetrics = new ThreadMetrics(thread, options.system, clock);
    this.#observer = new Observer({ clock, random: options.random, thread, epochMs });
    this.#observer.configure(snapshot.settings);
    this.#deadlines = new DeadlineQueue(clock);
    this.#running = new RunningAttempts(this.#board, clock);
    this.#admission = new Admission(
      {
        ...{ board: this.#board, memory, thread, clock, deadlines: this.#deadlines },
        expected: this.#board.loads,
        onWaiting: (model, count) => this.#metrics.waiting(model, count),
        onOutcome: (model, outcome, waitedMs) => this.#metrics.held(model, outcome, waitedMs),
      },
      admissionSettings(snapshot),
    );
    this.#router = new Router(snapshot.settings);
    this.#indexes = new IndexClient(options.indexes, `thread-${thread}`);
    const { caches } = options;
    this.#shared = caches === null ? null : new SharedCache(caches.cache, clock);
    this.#search = new SearchService({
      ...(this.#shared !== null && { shared: this.#shared }),
      ...(caches !== null && { claimTrial: (cell) => claimTrial(caches.trials, cell) }),
      clock,
      random: options.random,
      epochMs,
      memory: options.engineMemory,
      placeMemory: options.searchMemory,
      thread,
      onOutcome: (engine, reason, elapsedMs) => {
        this.#metrics.engine(engine, reason, elapsedMs);
        this.#recent.engine(engine, reason);
      },
      onThrown: (engine, error) => options.onEngineThrew(engine, placeOf(error)),
    });
    this.#configureSearch(snapshot);
    const { accounts } = options;
    this.#keys = new KeyTable(snapshot.keys, epochMs, accounts !== null);
    const { payments = null } = accounts ?? {};
    this.#paymentProcessor = payments === null ? null : new PaymentClient(options.system, payments, `thread-${thread}`);
    this.#slices =
      accounts === null
        ? null
        : new SliceClient({ system: options.system, manager: accounts.sliceManager, thread, clock });
    this.#limits = accounts === null ? null : new KeyLimiter(accounts.limitMemory, thread, this.#slices?.refill);
    this.#leases =
      accounts === null
        ? null
        : new LeaseCache({
            system: options.system,
            leaseManager: accounts.leaseManager,
            memory: accounts.leaseMemory,
            thread,
            clock,
            epochMs,
            ...leaseSettings(snapshot),
          });
    this.#costLog = accounts === null ? null : new CostLogClient(accounts.costLog, clock);
    this.#recorded = snapshot.settings.costLog.requests;
    this.#configureRing(snapshot);
    const { responses, system } = options;
    this.#responses = responses === null ? null : new StoredResponses({ system, ...responses, thread });
    this.#pages = new PageClient(options.pages, `thread-${thread}`);
    this.budget = new BodyBudget(0, options.bodyMemory, thread);
    this.#unread = new UnreadResponses(this.budget);
    const { connections, headerBytes } = snapshot.settings.limits;
    this.limits = { maxBodyBytes: 0, bodyIdleMs: 0, clientIdleMs: 0, keepAliveMs: 0, connections, headerBytes };
    this.#bound(snapshot);
    this.#cors = new Cors(snapshot.settings.cors.origins);
    this.#cancellations = new Cancellations(options.tellCancelled);
    this.#detached = { handler: this.handler, clock, limits: this.limits, budget: this.budget };
    this.#probeReasons = new Map(snapshot.probeReasons);
    this.#cluster = { ...snapshot.cluster };
    this.#shared?.configure(snapshot.cluster.enabled);
    this.#deps = this.#makeDeps(snapshot);
  }

  /** Takes every request; never throws. */
  readonly handler: ExchangeHandler = (exchange) => {
    this.refused(exchange);
    this.#router.serve(exchange, this.#deps, this.#cors);
  };

  /** Takes every request that the server refuses before it is routed, to count and log it. */
  readonly refused = (exchange: Exchange): void => {
    this.#exchanges.add(exchange);
    exchange.onClose = this.#closed;
    if (this.#observer.active) this.#observer.begin(exchange);
  };

  /** Members of the errors that the server or this data plane answers itself. */
  readonly decorate: ErrorDecorator = (exchange, error) =>
    decoratorFor(exchange, this.#deps.settings)?.(exchange, error);

  /** What endpoints are given at present. */
  get deps(): ApiDeps {
    return this.#deps;
  }

  /** Takes over a new snapshot. Requests that have begun keep the old one. */
  configure(snapshot: Snapshot): void {
    this.#keys.configure(snapshot.keys);
    this.#leases?.configure(leaseSettings(snapshot));
    this.#probeReasons = new Map(snapshot.probeReasons);
    this.noteCluster(snapshot.cluster);
    this.#deps = this.#makeDeps(snapshot);
    this.#cors = new Cors(snapshot.settings.cors.origins);
    this.#bound(snapshot);
    this.#configureSearch(snapshot);
    this.#observer.configure(snapshot.settings);
    this.#recorded = snapshot.settings.costLog.requests;
    this.#configureRing(snapshot);
    this.#admission.configure(admissionSettings(snapshot), this.#deps.table);
    const members = snapshot.table.models.flatMap((model) => model.members);
    this.#metrics.keep(presentNames(snapshot.table), this.#deps.clock.now());
    const kept = new Set(members.map(poolKey));
    for (const [key, pool] of this.#pools) {
      if (kept.has(key)) continue;
      pool.close();
      this.#pools.delete(key);
    }
  }

  /** Takes over a change of keys or budgets. */
  updateBilling(update: BillingUpdate): void {
    if (update.type === 'Keys') this.#keys.update(update.change);
    else this.#limits?.updateBudgets(update.change);
  }

  /** The last probe of a CRN has failed for this reason; null: it was good. */
  noteProbe(url: string, reason: string | null): void {
    if (reason === null) this.#probeReasons.delete(url);
    else this.#probeReasons.set(url, reason);
  }

  /** A client has cancelled a call, in whichever thread or gateway. */
  cancelled({ digest }: CancelCommand): void {
    this.#cancellations.cancelled(digest);
  }

  /** The link to siblings has changed. */
  noteCluster({ connected, enabled, gateways }: ClusterStatus): void {
    this.#cluster.enabled = enabled;
    this.#cluster.connected = connected;
    this.#cluster.gateways = gateways;
    this.#shared?.configure(enabled);
  }

  /** Settles requests in flight, and reports what was spent to the lease manager. */
  closeLeases(): void {
    for (const exchange of this.#exchanges.list()) {
      exchange.settle();
      exchange.heldBy?.end();
    }
    this.#responses?.close();
    this.#costLog?.flush();
    this.#leases?.close();
  }

  /** Requests without a complete answer, and calls of the program. */
  get inFlight(): number {
    return this.#exchanges.size + this.#calls;
  }

  /** Runs a call of the program, for which a drain waits as for a request. Rejects with `HR_DRAINING` once this is closed. */
  async call<Answer>(start: (deps: ApiDeps) => Promise<Answer>): Promise<Answer> {
    const isClosed = (): boolean => this.#router === CLOSED;
    if (isClosed()) throw new HeadraceError('HR_DRAINING');
    this.#calls++;
    try {
      return await start(this.#deps);
    } catch (error) {
      throw isClosed() ? new HeadraceError('HR_DRAINING') : error;
    } finally {
      this.#calls--;
      this.#noteIdle();
    }
  }

  /** Ends all requests in flight, each with an error in the form its client expects. */
  cutOff(): void {
    for (const exchange of this.#exchanges.list()) {
      if (exchange.handedOver) continue;
      if (exchange.listener !== null) exchange.listener.onCut();
      else refuse(exchange, this.#deps, new HeadraceError('HR_DRAINING'));
    }
  }

  /** Resolves when no request is in flight and their log lines and spans have been written. */
  async idle(): Promise<void> {
    do {
      if (this.inFlight > 0) {
        await new Promise<void>((resolve) => {
          this.#whenIdle = resolve;
        });
      }
      await this.#observer.flush();
      // A connection that was open before may have sent its first request meanwhile.
    } while (this.inFlight > 0);
  }

  /** A part of the metrics, counted from 0: one family, and at last all that have few series. */
  metrics(part: number): MetricsPart {
    if (part === 0) {
      this.#readLoad();
      this.#metrics.retryBudgets(this.#budgets);
      this.#metrics.searches(this.#search.load);
    }
    const family = this.#metrics.family(part);
    if (family !== undefined) return { families: [family], isLast: false };
    const shared = this.#shared?.isOn === true ? lookupMetrics(this.#shared.counts) : [];
    return { families: [...this.#threadMetrics.snapshot(), ...this.#observer.metrics(), ...shared], isLast: true };
  }

  /** This thread's part of the overview. */
  report(): PlaneReport {
    this.#readLoad();
    const metrics = [...this.#metrics.withoutTimes(), ...this.#overviewMetrics.snapshot()];
    return { thread: this.#options.thread, metrics, recent: this.#recent.report() };
  }

  #readLoad(): void {
    const exchanges = this.#exchanges.list();
    this.#metrics.inFlight(exchanges.length);
    this.#metrics.streamsInFlight(exchanges.filter(({ firstPieceMs }) => firstPieceMs > 0).length);
    this.#metrics.connections(this.connections);
  }

  /** What its siblings are told of the load. */
  load(): ThreadLoad {
    return { requests: this.#metrics.answered, inFlight: this.#exchanges.size };
  }

  /** A part of what the history samples, counted from 0. */
  totals(part: number): TotalsPart {
    const inFlight = new Map<string, number>();
    for (const { model } of this.#exchanges.list()) inFlight.set(model, (inFlight.get(model) ?? 0) + 1);
    const { thread } = this.#options;
    return { thread, generation: this.#generation, sequence: ++this.#reports, ...this.#metrics.totals(part, inFlight) };
  }

  /** Requests under way, the oldest first. */
  live(): LivePart {
    const exchanges = this.#exchanges.list();
    const nowMs = this.#options.clock.now();
    const oldest = [...exchanges].sort((one, other) => one.receivedMs - other.receivedMs).slice(0, MOST_LIVE);
    const requests = oldest.map((exchange) => liveRequest(exchange, nowMs, epochMs(), this.#options.thread));
    return { count: exchanges.length, requests };
  }

  /** Rows of the request log. */
  async log(query: LogQuery): Promise<LogPart> {
    return (await this.#requestLog?.page(query)) ?? { rows: [], sinceMs: null };
  }

  /** Rows of a request id or of a cursor, the newest first. */
  async logEntries(id: string): Promise<LogEntry[]> {
    return (await this.#requestLog?.find(id, MOST_ENTRIES)) ?? [];
  }

  /** Where a request would go. It is neither counted nor logged. */
  async explain({ account, ...request }: ExplainRequest): Promise<ExplainAnswer> {
    const handler = (exchange: Exchange): void => explain(exchange, this.#deps, account);
    const options = { ...this.#detached, handler };
    try {
      const { body, status } = await inject(options, { method: 'POST', ...request });
      return { status, json: body.toString() };
    } catch (error) {
      return { status: 500, json: JSON.stringify({ detail: messageOf(error) }) };
    }
  }

  close(): void {
    this.closeLeases();
    this.#search.close();
    this.#counting.close();
    this.#reporter.flush();
    for (const pool of this.#pools.values()) pool.close();
    this.#pools.clear();
    this.#admission.close();
    this.#deadlines.close();
    this.#running.close();
    this.#threadMetrics.close();
    this.#overviewMetrics.close();
    this.#observer.close();
    this.#router = CLOSED;
  }

  readonly #closed = (exchange: Exchange): void => {
    this.#exchanges.delete(exchange);
    const nowMs = this.#options.clock.now();
    const elapsedMs = nowMs - exchange.receivedMs;
    const { aborted, endpoint, errorCode, model, span } = exchange;
    const status = aborted && exchange.status === 0 ? 499 : exchange.status;
    const cells = this.#metrics.of(endpoint, model);
    cells.count(status, errorCode);
    cells.duration.observe(elapsedMs / 1000);
    if (aborted) this.#metrics.aborted(endpoint, cells);
    if (isOfTools(exchange))
      this.#metrics.tool(endpoint, exchange.tool, aborted ? 'aborted' : errorCode || 'ok', elapsedMs);
    if (status >= 400 || errorCode !== '') this.#recent.closed(exchange, status);
    if (span !== null) endSpan(exchange, span, status);
    if (exchange.settlement?.isWaiting === true) this.#noteLater(exchange, exchange.settlement, status, elapsedMs);
    else this.#note(exchange, cells, status, elapsedMs, nowMs);
    this.#noteIdle();
  };

  #noteIdle(): void {
    if (this.#whenIdle === null || this.inFlight > 0) return;
    this.#whenIdle();
    this.#whenIdle = null;
  }

  /** Apart from `closed`, whose variables would else be allocated for the closure. */
  #noteLater(exchange: Exchange, settlement: ExchangeSettlement, status: number, elapsedMs: number): void {
    const decided = (): void => {
      const cells = this.#metrics.of(exchange.endpoint, exchange.model);
      this.#note(exchange, cells, status, elapsedMs, this.#options.clock.now());
    };
    settlement.onDecided = decided;
  }

  /** Counts and writes down what a request took, once it is known what it costs. */
  #note(exchange: Exchange, cells: RequestCells, status: number, elapsedMs: number, nowMs: number): void {
    countUse(exchange, cells);
    if (this.#observer.active) this.#observer.log(exchange, status, elapsedMs);
    // Probes of load balancers would leave no place for others.
    const isProbe = exchange.endpoint === HEALTH && status === 200;
    if (this.#requestLog !== null && !isProbe) this.#requestLog.add(exchange, status, nowMs, elapsedMs);
    if (this.#recorded !== 'off') this.#record(exchange, status, elapsedMs);
  }

  /** Only POSTs of accounts are recorded: others cost nothing, or have their payment. */
  #record(exchange: Exchange, status: number, elapsedMs: number): void {
    const { account, credential, firstPieceMs, receivedMs, settlement } = exchange;
    const cost = settlement?.cost ?? 0;
    if (this.#costLog === null || account === '' || exchange.method !== 'POST' || exchange.isPassedOn) return;
    if (this.#recorded === 'charged' && cost === 0) return;
    this.#costLog.add({
      dateMs: Math.floor(epochMs()),
      requestId: exchange.requestId,
      account,
      key: credential,
      endpoint: exchange.endpoint,
      model: exchange.model,
      status,
      code: exchange.errorCode,
      inputTokens: settlement?.promptTokens ?? 0,
      cachedTokens: settlement?.cachedTokens ?? 0,
      outputTokens: settlement?.completionTokens ?? 0,
      measured: settlement?.measured ?? true,
      cost,
      durationMs: Math.round(elapsedMs),
      firstByteMs: firstPieceMs > 0 ? Math.round(firstPieceMs - receivedMs) : null,
    });
  }

  /** Another size or other fields begin the log anew. */
  #configureRing({ settings }: Snapshot): void {
    const { clientAddress, size } = settings.requestLog;
    const key = `${size} ${clientAddress}`;
    if (key === this.#requestLogKey) return;
    const { clock, thread } = this.#options;
    this.#requestLogKey = key;
    const now = (): number => clock.now();
    this.#requestLog =
      size === 0 ? null : new RequestLog({ size, clientAddress, thread, now, epochMs, dialectOf: dialectName });
  }

  #makeDeps(snapshot: Snapshot): ApiDeps {
    const { clock, random } = this.#options;
    const { settings } = snapshot;
    const { timeouts, limits, routing } = settings;
    // Requests that have begun keep theirs, with the former settings and cells.
    const budgets = new Map<string, RetryBudget>();
    this.#budgets = budgets;
    const modelPrices = new Map<string, ModelPrice>();
    for (const { id, pricing } of snapshot.catalog)
      if (pricing !== undefined) modelPrices.set(id, modelPriceOf(pricing));
    return {
      settings,
      stage: snapshot.stage,
      table: new ModelTable(snapshot.table),
      keys: this.#keys,
      catalog: snapshot.catalog,
      contextLengths: new Map(
        snapshot.catalog.flatMap(({ contextLength, id }) => (contextLength === undefined ? [] : [[id, contextLength]])),
      ),
      modelPrices,
      billing: this.#billingOf(snapshot, modelPrices),
      paymentProcessor: this.#paymentProcessor,
      tokenSizes: this.#tokenSizes,
      tokenCounter: this.#tokenCounter,
      accountReader: this.#options.accounts?.accountReader ?? null,
      createdS: snapshot.createdS,
      board: this.#board,
      probeReasons: this.#probeReasons,
      cluster: this.#cluster,
      reporter: this.#reporter,
      search: this.#search,
      pages: this.#pages,
      metrics: this.#metrics,
      recent: this.#recent,
      clock,
      random,
      cancellations: this.#cancellations,
      detached: this.#detached,
      feedback: this.#feedback,
      picker: this.#picker,
      pickerSettings: { ...routing, slowStartMs: settings.ejection.slowStartMs },
      admission: routing.holdMs > 0 ? this.#admission : null,
      budget: (model) => this.#budgetOf(budgets, model, { ratio: routing.retryBudget, burst: routing.retryBurst }),
      responseHolders: this.#responseHolders,
      responses: settings.responses.store ? this.#responses : null,
      unread: this.#unread,
      epochMs,
      blockIndex: this.#blockIndex,
      headerRules: {
        peers: new Peers(settings.trustedProxies),
        scheme: settings.publicScheme,
        via: snapshot.via,
      },
      failover: {
        board: this.#board,
        deadlines: this.#deadlines,
        timeouts,
        clock,
        pool: (member) => this.#poolOf(member, limits.connectionsPerServer, timeouts.keepAliveMs),
        relay: {
          keepAliveMs: settings.streamKeepAliveMs,
        },
        heldEventBytes: limits.heldEventBytes,
        running: this.#running,
        continuation: routing.continue,
        hedging: this.#hedgingOf(routing.hedge ? routing.hedgeShare : 0),
      },
    };
  }

  #billingOf({ settings }: Snapshot, modelPrices: Billing['modelPrices']): Billing | null {
    if (this.#leases === null || this.#limits === null || this.#slices === null) return null;
    const prices = Object.entries(settings.search.pricing).map(([id, usd]) => [id, picoPerCall(usd)] as const);
    return {
      leases: this.#leases,
      limits: this.#limits,
      slices: this.#slices,
      modelPrices,
      enginePrices: new Map(prices),
      pagePrice: picoPerCall(settings.fetch.price),
      assumedTokens: settings.credit.assumedTokens,
      epochMs,
    };
  }

  #configureSearch({ settings, engineCells }: Snapshot): void {
    // Making engines may be expensive (the local one reads its folder), and most snapshots change nothing about them.
    if (isDeepStrictEqual(settings.search, this.#searchSettings)) return;
    this.#searchSettings = settings.search;
    const { engines, ...limits } = settings.search;
    const configured = configureEngines(engines, (id) => engineCells[id] ?? 0, { indexes: this.#indexes });
    this.#search.configure({ ...limits, engines: configured.engines });
  }

  #bound({ settings: { limits, timeouts } }: Snapshot): void {
    this.budget.limitBytes = limits.bufferedBytes;
    this.limits.maxBodyBytes = limits.bodyBytes;
    this.limits.bodyIdleMs = timeouts.bodyMs;
    this.limits.clientIdleMs = timeouts.clientIdleMs;
    this.limits.keepAliveMs = timeouts.clientKeepAliveMs;
    this.limits.connections = limits.connections;
  }

  /** What was learnt of the models outlives a change of other settings. */
  #hedgingOf(share: number): Hedging | null {
    if (share !== this.#hedgeShare) {
      this.#hedgeShare = share;
      this.#hedging = share === 0 ? null : new Hedging(share, (outcome) => this.#metrics.hedge(outcome));
    }
    return this.#hedging;
  }

  #budgetOf(
    budgets: Map<string, RetryBudget>,
    { id, budget: cell }: Model,
    settings: RetryBudgetSettings,
  ): RetryBudget {
    let budget = budgets.get(id);
    if (budget === undefined) {
      budget = new RetryBudget(this.#options.memory, cell, settings, () => this.#metrics.retryRefused(id));
      budgets.set(id, budget);
    }
    return budget;
  }

  #poolOf(member: Member, maxConnections: number, keepAliveMs: number): ConnectionPool {
    const key = poolKey(member);
    let pool = this.#pools.get(key);
    if (pool === undefined) {
      pool = new ConnectionPool(new URL(member.url).origin, {
        maxConnections,
        keepAliveMs,
        clock: this.#options.clock,
        ...(member.host !== undefined && { hostname: member.host }),
      });
      this.#pools.set(key, pool);
    }
    return pool;
  }
}

/** Two models may have servers of different names at one address, such as that of a proxy. */
function poolKey({ host, url }: Member): string {
  return host === undefined ? url : `${url} ${host}`;
}

/** Counts what a request took, and notes it for those who write it down. */
function countUse(exchange: Exchange, cells: RequestCells): void {
  const { settlement, tokenSource } = exchange;
  const tokens = tokenSource === null ? null : tokenSource.tokens();
  if (tokens !== null) {
    exchange.tokens = tokens;
    cells.countTokens(tokens.promptTokens, tokens.cachedTokens, tokens.completionTokens);
    if (settlement === null && tokenSource !== null) exchange.cost = tokenSource.priceOf(tokens);
  }
  if (settlement !== null) exchange.cost = settlement.cost;
  if (exchange.cost > 0) cells.countCost(exchange.cost);
}

function admissionSettings({ settings: { routing } }: Snapshot): AdmissionSettings {
  const { holdBytes, holdMs, holdRequests, holdTimeoutMs } = routing;
  return { holdMs, timeoutMs: holdTimeoutMs, requests: holdRequests, bytes: holdBytes };
}

function leaseSettings({ settings: { credit } }: Snapshot): LeaseCacheSettings {
  return { flushMs: credit.flushMs, leasePico: picoPerCall(credit.lease) };
}

function dialectName(endpoint: string): string | null {
  return dialectOf(endpoint)?.name ?? null;
}

/** Whether a request was a search or asked for pages: by an endpoint of its own, or by a compatible one. */
function isOfTools({ endpoint, tool }: Exchange): boolean {
  return endpoint === '/search' || endpoint === '/search/fetch' || (tool !== '' && endpoint !== '/mcp');
}
