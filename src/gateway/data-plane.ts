// One data plane: everything a thread needs to serve requests. Runs in ingress threads, and in the calling thread when
// `threads` is 0 and for `inject` and `nodeListener`. Wires the rooms of a request's path in reading order.

import type { Clock, Ref, System } from '../actor/index.ts';
import { KeyRing } from '../account/index.ts';
import { DIALECT_RULES } from '../api/inference.ts';
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
import { Board, type BoardMemory, type Member, type Outcome, Reporter, Table } from '../routing/index.ts';
import { configureEngines, SearchRoom } from '../search/index.ts';
import { Metrics, type MetricsSnapshot } from '../telemetry/metrics.ts';
import { RetryBudget } from '../upstream/index.ts';
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
  readonly snapshot: Snapshot;
}

export class DataPlane {
  /** Memory for bodies and limits on one; both follow the settings, carriers read them at every request. */
  readonly budget: BodyBudget = new BodyBudget(0);
  readonly limits: { maxBodyBytes: number; bodyIdleMs: number; headerBytes: number };
  readonly #options: DataPlaneOptions;
  readonly #board: Board;
  readonly #reporter: Reporter;
  readonly #metrics = new Metrics();
  readonly #deadlines: DeadlineQueue;
  readonly #router: Router;
  readonly #search: SearchRoom;
  readonly #pages: PageDesk;
  #searchKey = '';
  /** Without a complete answer. */
  readonly #exchanges = new Set<Exchange>();
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
    this.#deadlines = new DeadlineQueue(clock);
    this.#router = new Router(snapshot.settings);
    this.#search = new SearchRoom({
      system: options.system,
      clock,
      random: options.random,
      epochMs: () => performance.timeOrigin + performance.now(),
      memory: options.engineMemory,
      onOutcome: (engine, reason, elapsedMs) => this.#metrics.engine(engine, reason, elapsedMs),
    });
    this.#configureSearch(snapshot);
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
    this.#router.serve(exchange, this.#world, this.#cors);
  };

  /** What endpoints are given at this moment. */
  get world(): ApiWorld {
    return this.#world;
  }

  /** Takes over a new snapshot. Requests that have begun go on with the old one. */
  configure(snapshot: Snapshot): void {
    this.#world = this.#makeWorld(snapshot);
    this.#cors = new Cors(snapshot.settings.cors.origins);
    this.#bound(snapshot);
    this.#configureSearch(snapshot);
    this.#budgets = new Map();
    const urls = new Set(snapshot.table.models.flatMap((model) => model.members.map((member) => member.url)));
    for (const [url, pool] of this.#pools) {
      if (urls.has(url)) continue;
      pool.close();
      this.#pools.delete(url);
    }
  }

  /** Requests without a complete answer. */
  get inFlight(): number {
    return this.#exchanges.size;
  }

  /** Ends what is in flight, each with an error its client understands. */
  cutOff(): void {
    for (const exchange of this.#exchanges) {
      if (exchange.onCut !== null) exchange.onCut();
      else respondError(exchange, new HeadraceError('HR_DRAINING'));
    }
  }

  /** Resolves when no request is in flight. */
  idle(): Promise<void> {
    if (this.inFlight === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#whenIdle = resolve;
    });
  }

  metrics(): MetricsSnapshot {
    this.#metrics.inFlight(this.inFlight);
    return this.#metrics.snapshot();
  }

  close(): void {
    this.#search.close();
    this.#reporter.flush();
    for (const pool of this.#pools.values()) pool.close();
    this.#pools.clear();
    this.#deadlines.close();
  }

  readonly #closed = (exchange: Exchange): void => {
    this.#exchanges.delete(exchange);
    const elapsedMs = this.#options.clock.now() - exchange.receivedMs;
    const { endpoint, model, status, errorCode } = exchange;
    this.#metrics.request(endpoint, model, exchange.aborted && status === 0 ? 499 : status, errorCode, elapsedMs);
    if (exchange.aborted) this.#metrics.aborted(endpoint);
    if (this.inFlight > 0 || this.#whenIdle === null) return;
    this.#whenIdle();
    this.#whenIdle = null;
  };

  #makeWorld(snapshot: Snapshot): ApiWorld {
    const { clock, random } = this.#options;
    const { settings } = snapshot;
    const { timeouts, limits, routing } = settings;
    const metrics = this.#metrics;
    const counters: Counters = {
      attempt: (member, verdict, failure) => metrics.attempt(member.url, verdict, failure ?? ''),
      pick: (affinity) => metrics.pick(affinity),
      firstByte: (model, elapsedMs) => metrics.firstByte(model, elapsedMs),
    };
    return {
      settings,
      stage: snapshot.stage,
      table: new Table(snapshot.table),
      keys: new KeyRing(snapshot.keys),
      catalog: snapshot.catalog,
      createdS: snapshot.createdS,
      board: this.#board,
      reporter: this.#reporter,
      search: this.#search,
      pages: this.#pages,
      counters,
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
      budget = new RetryBudget(ratio, burst);
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
