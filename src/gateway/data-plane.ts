// One data plane: everything a thread needs to serve requests. Runs in ingress threads, and in the calling thread when
// `threads` is 0 and for `inject` and `nodeListener`. Wires the rooms of a request's path in reading order.

import type { Clock, Ref, System } from '../actor/index.ts';
import {
  type BankCommand,
  KeyLimits,
  KeyRing,
  type PaymentDesk,
  picoPerCall,
  Purses,
  type Tariff,
  tariffOf,
} from '../account/index.ts';
import { DIALECT_RULES } from '../api/inference.ts';
import type { Billing } from '../api/bill.ts';
import { Router } from '../api/routes.ts';
import type { ApiWorld, Counters } from '../api/world.ts';
import { HeadraceError } from '../errors.ts';
import { PageDesk, type PagesCommand } from '../fetch/index.ts';
import { BodyBudget } from '../ingress/body.ts';
import { Cors } from '../ingress/cors.ts';
import type { Exchange, ExchangeHandler } from '../ingress/exchange.ts';
import { respondError } from '../ingress/respond.ts';
import { ConnectionPool } from '../net/client.ts';
import { DeadlineQueue } from '../net/deadline.ts';
import { Roster } from '../net/roster.ts';
import { Board, type BoardMemory, type Member, type Outcome, Reporter, Table } from '../routing/index.ts';
import { configureEngines, SearchRoom } from '../search/index.ts';
import { Metrics, type MetricsSnapshot } from '../telemetry/metrics.ts';
import { ThreadMetrics } from '../telemetry/thread-metrics.ts';
import { RetryBudget } from '../upstream/index.ts';
import type { PlaneReport } from './house.ts';
import { Observer } from './observer.ts';
import { type PaymentCommand, RemotePayments } from './payment-desk.ts';
import type { AccountNews } from './accounts.ts';
import { Recent } from './recent.ts';
import type { Snapshot } from './snapshot.ts';

export interface DataPlaneOptions {
  /** The actor system of this thread, for search. */
  readonly system: System;
  readonly memory: BoardMemory;
  /** Where threads share what they know of search engines. */
  readonly engineMemory: SharedArrayBuffer;
  /** This thread's row on the board. */
  readonly thread: number;
  /** How many data planes share the limits of the process. */
  readonly planes: number;
  readonly clock: Clock;
  readonly random: () => number;
  readonly tellOutcome: (outcome: Outcome) => void;
  /** The actor that fetches pages, in whichever thread it lives. */
  readonly pages: Ref<PagesCommand>;
  /** Where credit comes from; null without a ledger. */
  readonly accounts: PlaneAccounts | null;
  readonly snapshot: Snapshot;
}

/** What a data plane is given of accounts. */
export interface PlaneAccounts {
  readonly bank: Ref<BankCommand>;
  readonly limitMemory: SharedArrayBuffer;
  /** Where wallets pay; null where payments are off. */
  readonly payments: Ref<PaymentCommand> | null;
}

/** Milliseconds since 1970, by the clock that does not jump. */
const epochMs = (): number => performance.timeOrigin + performance.now();

export class DataPlane {
  /** Memory for bodies and limits on one; both follow the settings, carriers read them at every request. */
  readonly budget: BodyBudget = new BodyBudget(0);
  readonly limits: { maxBodyBytes: number; bodyIdleMs: number; headerBytes: number };
  readonly #options: DataPlaneOptions;
  readonly #board: Board;
  readonly #reporter: Reporter;
  readonly #metrics = new Metrics();
  readonly #recent = new Recent(epochMs);
  readonly #counters: Counters = countersOf(this.#metrics, this.#recent);
  readonly #vitals: ThreadMetrics;
  /** The same for the house: each reading begins the next interval, so that every reader needs one of its own. */
  readonly #watch: ThreadMetrics;
  readonly #observer: Observer;
  readonly #deadlines: DeadlineQueue;
  readonly #router: Router;
  readonly #search: SearchRoom;
  readonly #pages: PageDesk;
  readonly #keys: KeyRing;
  readonly #purses: Purses | null;
  readonly #limits: KeyLimits | null;
  readonly #cashier: PaymentDesk | null;
  #searchKey = '';
  /** Without a complete answer. */
  readonly #exchanges = new Roster<'seat', Exchange>('seat');
  readonly #pools = new Map<string, ConnectionPool>();
  #budgets = new Map<string, RetryBudget>();
  #cors: Cors;
  #world: ApiWorld;
  #whenIdle: (() => void) | null = null;

  constructor(options: DataPlaneOptions) {
    const { memory, thread, clock, snapshot } = options;
    this.#options = options;
    this.#board = new Board(memory, thread);
    this.#reporter = new Reporter(this.#board, clock, options.tellOutcome);
    this.#vitals = new ThreadMetrics(thread, options.system);
    this.#watch = new ThreadMetrics(thread, options.system);
    this.#observer = new Observer({ clock, random: options.random, thread, epochMs });
    this.#observer.configure(snapshot.settings);
    this.#deadlines = new DeadlineQueue(clock);
    this.#router = new Router(snapshot.settings);
    this.#search = new SearchRoom({
      system: options.system,
      clock,
      random: options.random,
      epochMs,
      memory: options.engineMemory,
      onOutcome: (engine, reason, elapsedMs) => {
        this.#metrics.engine(engine, reason, elapsedMs);
        this.#recent.engine(engine, reason);
      },
    });
    this.#configureSearch(snapshot);
    this.#keys = new KeyRing(snapshot.keys, epochMs);
    const { accounts } = options;
    const { credit } = snapshot.settings;
    const { payments = null } = accounts ?? {};
    this.#cashier = payments === null ? null : new RemotePayments(options.system, payments, `thread-${thread}`);
    this.#limits = accounts === null ? null : new KeyLimits(accounts.limitMemory);
    this.#purses =
      accounts === null
        ? null
        : new Purses({
            bank: accounts.bank,
            thread: `thread-${thread}`,
            clock,
            epochMs,
            flushMs: credit.flushMs,
            leasePico: picoPerCall(credit.lease),
          });
    this.#pages = new PageDesk(options.pages, `thread-${thread}`);
    this.limits = { maxBodyBytes: 0, bodyIdleMs: 0, headerBytes: snapshot.settings.limits.headerBytes };
    this.#bound(snapshot);
    this.#cors = new Cors(snapshot.settings.cors.origins);
    this.#world = this.#makeWorld(snapshot);
  }

  /** The entry of every request; never throws. */
  readonly handler: ExchangeHandler = (exchange) => {
    this.#exchanges.add(exchange);
    exchange.onClose = this.#closed;
    this.#observer.begin(exchange);
    this.#router.serve(exchange, this.#world, this.#cors);
  };

  /** What endpoints are given at this moment. */
  get world(): ApiWorld {
    return this.#world;
  }

  /** Takes over a new snapshot. Requests that have begun go on with the old one. */
  configure(snapshot: Snapshot): void {
    this.#keys.configure(snapshot.keys);
    this.#world = this.#makeWorld(snapshot);
    this.#cors = new Cors(snapshot.settings.cors.origins);
    this.#bound(snapshot);
    this.#configureSearch(snapshot);
    this.#observer.configure(snapshot.settings);
    this.#budgets = new Map();
    const urls = new Set(snapshot.table.models.flatMap((model) => model.members.map((member) => member.url)));
    for (const [url, pool] of this.#pools) {
      if (urls.has(url)) continue;
      pool.close();
      this.#pools.delete(url);
    }
  }

  /** Hears what happens to keys and credit. */
  learn(news: AccountNews): void {
    if (news.type === 'Keys') this.#keys.learn(news.news);
    else if (news.type === 'Trust') this.#purses?.trust(news.untilMs);
    else this.#purses?.recall(news.account);
  }

  /** Tells the bank what was spent and gives all credit back. */
  closeAccounts(): void {
    this.#purses?.close();
  }

  /** Requests without a complete answer. */
  get inFlight(): number {
    return this.#exchanges.size;
  }

  /** Ends what is in flight, each with an error its client understands. */
  cutOff(): void {
    for (const exchange of this.#exchanges.list()) {
      if (exchange.onCut !== null) exchange.onCut();
      else respondError(exchange, new HeadraceError('HR_DRAINING'));
    }
  }

  /** Resolves when no request is in flight and what was noted of them has left. */
  async idle(): Promise<void> {
    if (this.inFlight > 0) {
      await new Promise<void>((resolve) => {
        this.#whenIdle = resolve;
      });
    }
    await this.#observer.flush();
  }

  metrics(): MetricsSnapshot {
    this.#metrics.inFlight(this.inFlight);
    this.#metrics.retryBudgets(this.#budgets);
    return [...this.#metrics.snapshot(), ...this.#vitals.snapshot(), ...this.#observer.metrics()];
  }

  /** What the house shows of this thread. */
  report(): PlaneReport {
    this.#metrics.inFlight(this.inFlight);
    const metrics = [...this.#metrics.snapshot(), ...this.#watch.snapshot()];
    return { thread: this.#options.thread, metrics, recent: this.#recent.report() };
  }

  close(): void {
    this.closeAccounts();
    this.#search.close();
    this.#reporter.flush();
    for (const pool of this.#pools.values()) pool.close();
    this.#pools.clear();
    this.#deadlines.close();
    this.#vitals.close();
    this.#watch.close();
    this.#observer.close();
  }

  readonly #closed = (exchange: Exchange): void => {
    this.#exchanges.delete(exchange);
    exchange.bill?.close();
    const elapsedMs = this.#options.clock.now() - exchange.receivedMs;
    const { endpoint, model, errorCode } = exchange;
    const status = exchange.aborted && exchange.status === 0 ? 499 : exchange.status;
    this.#metrics.request(endpoint, model, status, errorCode, elapsedMs);
    if (exchange.aborted) this.#metrics.aborted(endpoint);
    if (exchange.firstPieceMs > 0) this.#metrics.streamEnded();
    this.#recent.closed(exchange, status);
    this.#observer.closed(exchange, status, elapsedMs);
    if (this.inFlight > 0 || this.#whenIdle === null) return;
    this.#whenIdle();
    this.#whenIdle = null;
  };

  #makeWorld(snapshot: Snapshot): ApiWorld {
    const { clock, random } = this.#options;
    const { settings } = snapshot;
    const { timeouts, limits, routing } = settings;
    return {
      settings,
      stage: snapshot.stage,
      table: new Table(snapshot.table),
      keys: this.#keys,
      catalog: snapshot.catalog,
      contextLengths: new Map(
        snapshot.catalog.flatMap(({ contextLength, id }) => (contextLength === undefined ? [] : [[id, contextLength]])),
      ),
      billing: this.#billingOf(snapshot),
      cashier: this.#cashier,
      createdS: snapshot.createdS,
      board: this.#board,
      reporter: this.#reporter,
      search: this.#search,
      pages: this.#pages,
      counters: this.#counters,
      clock,
      random,
      picker: {
        affinity: routing.affinity,
        boundedLoad: routing.boundedLoad,
        slowStartMs: settings.ejection.slowStartMs,
      },
      budget: (model) => this.#budgetOf(model, routing.retryBudget, routing.retryBurst),
      failover: {
        board: this.#board,
        deadlines: this.#deadlines,
        timeouts,
        now: () => clock.now(),
        pool: (member) => this.#poolOf(member, limits.connectionsPerServer, timeouts.keepAliveMs),
        rules: DIALECT_RULES,
        relay: {
          keepAliveMs: settings.streamKeepAliveMs,
          clientIdleMs: timeouts.clientIdleMs,
          heldEventBytes: limits.heldEventBytes,
        },
      },
    };
  }

  #billingOf({ catalog, settings }: Snapshot): Billing | null {
    if (this.#purses === null || this.#limits === null) return null;
    const tariffs = new Map<string, Tariff>();
    for (const { id, pricing } of catalog) if (pricing !== undefined) tariffs.set(id, tariffOf(pricing));
    const prices = Object.entries(settings.search.pricing).map(([id, usd]) => [id, picoPerCall(usd)] as const);
    return {
      purses: this.#purses,
      limits: this.#limits,
      tariffs,
      enginePrices: new Map(prices),
      pagePrice: picoPerCall(settings.fetch.price),
      assumedTokens: settings.credit.assumedTokens,
      epochMs,
    };
  }

  #configureSearch({ settings, engineCells }: Snapshot): void {
    // Making engines may be work (the local one reads its folder), and most snapshots change nothing about them.
    const key = JSON.stringify(settings.search);
    if (key === this.#searchKey) return;
    this.#searchKey = key;
    const { timeoutMs, cacheTtlMs, cacheBytes, engines } = settings.search;
    const configured = configureEngines(engines, (id) => engineCells[id] ?? 0);
    this.#search.configure({ timeoutMs, cacheTtlMs, cacheBytes, engines: configured.engines });
  }

  #bound({ settings: { limits, timeouts } }: Snapshot): void {
    this.budget.limitBytes = Math.ceil(limits.bufferedBytes / this.#options.planes);
    this.limits.maxBodyBytes = limits.bodyBytes;
    this.limits.bodyIdleMs = timeouts.bodyMs;
  }

  #budgetOf(model: string, ratio: number, burst: number): RetryBudget {
    let budget = this.#budgets.get(model);
    if (budget === undefined) {
      budget = new RetryBudget(ratio, burst, () => this.#metrics.retryRefused(model));
      this.#budgets.set(model, budget);
    }
    return budget;
  }

  #poolOf(member: Member, maxConnections: number, keepAliveMs: number): ConnectionPool {
    let pool = this.#pools.get(member.url);
    if (pool === undefined) {
      pool = new ConnectionPool(new URL(member.url).origin, { maxConnections, keepAliveMs });
      this.#pools.set(member.url, pool);
    }
    return pool;
  }
}

/** The counters as endpoints know them. */
function countersOf(metrics: Metrics, recent: Recent): Counters {
  return {
    attempt: (member, verdict, failure) => metrics.attempt(member.url, verdict, failure ?? ''),
    pick: (affinity) => metrics.pick(affinity),
    firstByte: (model, elapsedMs) => metrics.firstByte(model, elapsedMs),
    failover: (model, cause, from) => {
      metrics.failover(model, cause);
      recent.failover(from);
    },
    streamBegun: (endpoint, model, elapsedMs) => metrics.streamBegun(endpoint, model, elapsedMs),
    gaps: (model) => metrics.gaps(model),
  };
}
