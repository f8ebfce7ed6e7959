// The control plane: one per gateway, in the thread that made it. Owns settings, discovery, the CRN registry and the ingress
// threads, and hands every change to the data planes as a new snapshot. Nothing on a request's path waits for it.

import { randomUUID } from 'node:crypto';
import {
  ask,
  type Clock,
  createSystem,
  type Ref,
  type System,
  systemEpochMs,
  type TimerHandle,
} from '../actor/index.ts';
import type { Ledger, KeyRecord } from '../billing/index.ts';
import { BillingService } from '../billing/main-thread.ts';
import type { ClusterStatus, Stage } from '../api/deps.ts';
import {
  type ActResult,
  type ClusterLink,
  PlacementExchange,
  Placements,
  shareCancellations,
  shareLimits,
  shareRevocations,
} from '../cluster/index.ts';
import type { Settings } from '../config/settings.ts';
import { HeadraceError, stackOf } from '../errors.ts';
import { BufferedClient } from '../net/buffered-client.ts';
import {
  BlockIndex,
  CacheFeedback,
  Board,
  type BoardMemory,
  createBoardMemory,
  createPlaceMemory,
  type CrnOverride,
  hostnamesOf,
  type CrnRegistryCommand,
  type KvEventSource,
  type OverrideResult,
  type ModelTableData,
  PlacementRing,
  type ProbeResult,
  ResponseHolders,
} from '../routing/index.ts';
import { crnRegistry, KvEvents, outcomeQueue, probe, readCrnReport } from '../routing/main-thread.ts';
import { type PresentNames, presentNames } from '../telemetry/left-names.ts';
import type { Log } from '../telemetry/log.ts';
import { describeEvent } from '../telemetry/system-events.ts';
import { CrnLog } from './crn-log.ts';
import { DataPlane } from './data-plane.ts';
import { Discovery } from '../discovery/index.ts';
import { configureEngines, EngineCells, foldersOf, IndexService } from '../search/index.ts';
import { Gauges, HostRoutes } from '../admin/index.ts';
import { askDrain, createServer, ingress, type IngressCommand } from './ingress.ts';
import { WebhookSender } from './webhook-sender.ts';
import { ResponseService } from '../responses/main-thread.ts';
import { ingressThread, passOn, type ThreadCommand, type ThreadMessage } from './ingress-thread.ts';
import type { CancelCommand } from '../mcp/index.ts';
import { PageService } from '../fetch/main-thread.ts';
import { createBodyMemory } from '../ingress/body.ts';
import { type Address, type Server, settlePort } from '../ingress/server.ts';
import { ClusterCaches } from './cluster-caches.ts';
import { GatewayCluster } from './gateway-cluster.ts';
import { Readings } from './readings.ts';
import { ThreadWatch } from './thread-watch.ts';
import { viaName } from '../upstream/index.ts';
import { processLimits, withinProcess } from './process-limits.ts';
import { configuredKeys, mergeModels, type MergedModels, type Snapshot, withoutKeys } from './snapshot.ts';

/** Cells on the board: CRNs, and models on CRNs. */
const SERVER_CELLS = 1024;
const MEMBER_CELLS = 4096;

const OVERRIDE_TIMEOUT_MS = 2000;

const ENGINE_THREW = 'the code of a search engine threw';

/** Restarts of one ingress thread within a minute before the gateway gives up. */
const THREAD_RESTARTS = { maxRestarts: 5, withinMs: 60_000, backoff: { minMs: 100, maxMs: 5000 } };

export interface ControlPlaneOptions {
  readonly settings: Settings;
  /** Ingress threads; 0: the port is served by this thread. */
  readonly threads: number;
  readonly log: Log;
  readonly clock: Clock;
  readonly random: () => number;
  /** Unix time in seconds. */
  readonly createdS: number;
  /** The gateway cannot go on: a supervisor has given up. */
  readonly onFatal: (error: unknown) => void;
}

export class ControlPlane {
  readonly local: DataPlane;
  readonly hosts: HostRoutes;
  readonly readings: Readings;
  readonly #options: ControlPlaneOptions;
  readonly #system: System;
  readonly #memory: BoardMemory;
  readonly #bodyMemory: SharedArrayBuffer;
  readonly #searchMemory: SharedArrayBuffer;
  readonly #board: Board;
  readonly #blockIndex: BlockIndex;
  readonly #feedback: CacheFeedback;
  readonly #kvEvents: KvEvents;
  readonly #engines = new EngineCells();
  readonly #gauges: Gauges;
  readonly #watch = new ThreadWatch();
  readonly #crnLog: CrnLog;
  readonly #cluster: GatewayCluster;
  readonly #exchange: PlacementExchange;
  readonly #placements: Placements;
  readonly #caches: ClusterCaches;
  /** Why the last probe of a CRN failed, by base URL. */
  readonly #probeReasons = new Map<string, string>();
  readonly #client = new BufferedClient(4);
  readonly #registry: Ref<CrnRegistryCommand>;
  readonly #outcomes: Ref<CrnRegistryCommand>;
  readonly #discovery: Discovery;
  readonly #pages: PageService;
  readonly #indexes: IndexService;
  readonly #cancellations: Ref<CancelCommand>;
  readonly #billing: BillingService | null;
  readonly #responses: ResponseService;
  readonly #webhooks: WebhookSender | null;
  readonly #threads: Ref<ThreadCommand>[] = [];
  readonly #configured: PromiseWithResolvers<void> = Promise.withResolvers();
  readonly #judged: PromiseWithResolvers<void> = Promise.withResolvers();
  /** Rejects when the gateway closes: for what waits for its start. */
  readonly #closed: PromiseWithResolvers<never> = Promise.withResolvers();
  /** Ingress threads that run: the process must not end before them. */
  readonly #running = new Set<number>();
  #ended: PromiseWithResolvers<void> | null = null;
  /** New connections are refused. */
  #draining = false;
  /** What serves requests ends, and all else behind it. */
  #ending = false;
  /** Called with the messages of each thread while `listen` waits for its first start. */
  readonly #starting = new Map<number, (message: ThreadMessage) => void>();
  readonly #via = viaName();
  readonly #processLimits = processLimits();
  #built = false;
  #settings: Settings;
  #crnsJudged = false;
  #table: ModelTableData = { version: 0, models: [] };
  #eventSources: ReadonlyMap<string, KvEventSource> = new Map();
  /** Of found models with others; each is logged once while it lasts. */
  #conflicts: readonly string[] = [];
  #stage: Stage = 'starting';
  /** Until every host that was registered at the process before this one has had the time to register here. */
  #awaitsHosts: TimerHandle | null = null;
  #server: Server | null = null;
  #localIngress: Ref<IngressCommand> | null = null;
  #address: Address;

  constructor(options: ControlPlaneOptions) {
    const { settings, threads, log, clock, random, onFatal } = options;
    this.#options = options;
    this.#settings = settings;
    this.#address = settings.listen;
    this.#memory = createBoardMemory(SERVER_CELLS, MEMBER_CELLS, threads + 1, settings.routing.indexBytes);
    this.#board = new Board(this.#memory, 0);
    this.#gauges = new Gauges(this.#engines, clock, systemEpochMs);
    this.#blockIndex = new BlockIndex(this.#memory.blocks);
    this.#crnLog = new CrnLog(log, clock);
    this.#feedback = new CacheFeedback(this.#memory, this.#blockIndex);
    this.#kvEvents = new KvEvents({ index: this.#blockIndex, feedback: this.#feedback, clock, log });
    this.#bodyMemory = createBodyMemory(threads + 1);
    this.#searchMemory = createPlaceMemory(threads + 1);
    this.#cluster = new GatewayCluster({
      ...{ clock, random, log },
      stage: () => this.#stage,
      load: () => this.readings.load(),
      onStatus: (status) => this.#noteCluster(status),
      override: (url, override) => this.#override(url, override),
      onSettled: () => this.#checkReady(),
    });
    const rings = Array.from({ length: threads + 1 }, (_, at) => new PlacementRing(this.#memory.placements, at));
    this.#exchange = new PlacementExchange({
      ...{ board: this.#board, index: this.#blockIndex, rings, servers: SERVER_CELLS, members: MEMBER_CELLS },
      holders: new ResponseHolders(this.#memory),
    });
    this.#placements = new Placements({
      ...{ clock, link: this.#cluster.link, exchange: this.#exchange, index: this.#blockIndex },
      ring: rings[0] as PlacementRing,
      onSnapshot: (from, bytes, elapsedMs) =>
        log.info({ from, bytes, elapsedMs: Math.round(elapsedMs) }, 'block index taken over from another gateway'),
    });
    this.hosts = new HostRoutes({
      ...{ settings, client: this.#client, clock, epochMs: systemEpochMs, random, log },
      onChange: () => this.#configureCrns(),
    });
    this.#system = createSystem({
      name: 'headrace',
      clock,
      random,
      onEvent: (event) => log[event.type === 'dead-letter' ? 'debug' : 'error'](describeEvent(event)),
      onFailure: onFatal,
    });
    this.#discovery = new Discovery({
      ...{ system: this.#system, clock, log },
      get: (url, timeoutMs, maxBytes) => this.#client.get(url, timeoutMs, maxBytes),
      onChange: () => this.#configureCrns(),
      onAnswered: () => this.#configureCrns(),
    });
    this.#caches = new ClusterCaches({
      ...{ system: this.#system, link: this.link, clock, engineMemory: this.#engines.memory },
    });
    this.#pages = new PageService(this.#system, settings.fetch, log, this.#caches.pages);
    const { delays, hosts, pages } = this.#pages.memories;
    this.#caches.sharePlaces([this.#searchMemory, pages, hosts, delays]);
    this.#indexes = new IndexService(this.#system, (sentence) => log.warn(sentence));
    const tellSiblings = shareCancellations(this.link, (digest) => this.#cancelled(digest));
    this.#cancellations = this.#system.spawn<CancelCommand>(
      () =>
        ({ digest }) => {
          this.#cancelled(digest);
          tellSiblings(digest);
        },
      { name: 'cancellations' },
    );
    this.#configureEngines();
    this.#billing = this.#openBilling(settings);
    if (this.#billing !== null) {
      shareLimits(this.#cluster.link, this.#billing.slices);
      shareRevocations(this.#cluster.link, this.#billing);
    }
    this.#responses = new ResponseService({
      ...{ system: this.#system, settings, clock, epochMs: systemEpochMs, log },
      ledger: () => this.ledger,
    });
    this.#webhooks =
      this.#billing === null
        ? null
        : new WebhookSender({
            settings: settings.webhooks,
            ledger: () => this.ledger,
            instance: randomUUID(),
            clock,
            epochMs: systemEpochMs,
            random,
            log,
          });
    this.local = new DataPlane({
      system: this.#system,
      memory: this.#memory,
      engineMemory: this.#engines.memory,
      searchMemory: this.#searchMemory,
      bodyMemory: this.#bodyMemory,
      thread: 0,
      clock,
      random,
      tellOutcome: (outcome) => this.#outcomes.tell({ type: 'Outcome', outcome }),
      tellCancelled: (command) => this.#cancellations.tell(command),
      onEngineThrew: (engine, thrown) => log.warn({ engine, thrown }, ENGINE_THREW),
      pages: this.#pages.ref,
      indexes: this.#indexes.ref,
      accounts: this.#billing,
      responses: { ref: this.#responses.ref, memory: this.#responses.memory },
      caches: this.#caches.refs,
      snapshot: this.#snapshot(),
    });
    this.#built = true;
    for (const update of this.#billing?.updates() ?? []) this.local.updateBilling(update);
    this.readings = new Readings({
      local: this.local,
      board: this.#board,
      blockIndex: this.#blockIndex,
      kvEvents: this.#kvEvents,
      gauges: this.#gauges,
      discovery: this.#discovery,
      pages: this.#pages,
      accounts: this.#billing,
      responses: this.#responses,
      cluster: this.#cluster,
      caches: this.#caches,
      watch: this.#watch,
      now: () => ({ stage: this.#stage, table: this.#table, settings: this.#settings, threads: this.#threads }),
    });
    this.#registry = this.#spawnRegistry();
    this.#outcomes = this.#system.spawn(outcomeQueue(this.#registry), { name: 'outcomes' });
    if (settings.trust.token !== null) this.#awaitHosts(settings.trust.ttlMs);
    this.#discovery.configure(settings);
    this.#configureCrns();
    this.#cluster.configure(settings);
  }

  /** To siblings; there is always one, also of a gateway that is alone by its settings. */
  get link(): ClusterLink {
    return this.#cluster.link;
  }

  /** A client has cancelled a call that another thread has, or another gateway. */
  #cancelled(digest: string): void {
    this.local.cancelled({ type: 'Cancel', digest });
    this.#tellThreads({ type: 'Cancel', digest });
  }

  #tellThreads(command: IngressCommand): void {
    for (const ref of this.#threads) ref.tell(passOn(command));
  }

  #noteCluster(status: ClusterStatus): void {
    this.#caches.enable(status.enabled);
    this.local.noteCluster(status);
    this.#tellThreads({ type: 'Cluster', status });
  }

  #spawnRegistry(): Ref<CrnRegistryCommand> {
    return this.#system.spawn(
      crnRegistry({
        board: this.#board,
        memory: this.#memory,
        blockIndex: this.#blockIndex,
        feedback: this.#feedback,
        probe: (url, timeoutMs) => probe(this.#client, url, timeoutMs),
        report: (url, apiKey, timeoutMs) => readCrnReport(this.#client, url, apiKey, timeoutMs),
        onTable: (table) => {
          this.#table = table;
          this.#crnsJudged = false;
          this.#client.nameHosts(hostnamesOf(table));
          const present = presentNames(table);
          this.#forgetLeft(present);
          this.#cluster.crnsChanged(present.crns);
          this.#kvEvents.configure(this.#eventSources, table);
          if (this.#exchange.configure(table, this.#options.clock.now())) this.#placements.renew();
          this.#publish();
          this.#configured.resolve();
        },
        onEvent: (event) => {
          this.#gauges.note(event);
          this.#crnLog.note(event);
        },
        onProbeResult: (url, result) => this.#noteProbe(url, result),
        onProbed: () => {
          this.#crnsJudged = true;
          this.#checkReady();
        },
      }),
      { name: 'crns' },
    );
  }

  #noteProbe(url: string, result: ProbeResult): void {
    const reason = result.ok ? null : result.reason;
    this.#gauges.probed(url, result);
    if (reason === (this.#probeReasons.get(url) ?? null)) return;
    if (reason === null) this.#probeReasons.delete(url);
    else this.#probeReasons.set(url, reason);
    this.local.noteProbe(url, reason);
    this.#tellThreads({ type: 'Probed', url, reason });
  }

  /** What was noted of CRNs and models that are in no table any more. */
  #forgetLeft(present: PresentNames): void {
    const { crns } = present;
    this.#gauges.keep(crns);
    this.#watch.keep(present, this.local.deps.clock.now());
    this.#billing?.keep(present.models);
    this.#crnLog.keep(crns);
    for (const url of this.#probeReasons.keys()) if (!crns.has(url)) this.#probeReasons.delete(url);
  }

  /** Resolves when the data planes know the configured models. */
  get configured(): Promise<void> {
    return this.#configured.promise;
  }

  /**
   * Resolves when every CRN has been judged once and each source of discovery has answered or failed once. Rejects with
   * `HR_DRAINING` when the gateway closes before.
   */
  get ready(): Promise<void> {
    return this.#judged.promise;
  }

  get stage(): Stage {
    return this.#stage;
  }

  /**
   * Opens the public port. Resolves with the address once every thread serves it. Rejects with `HR_DRAINING` when the gateway closes
   * before.
   */
  async listen(): Promise<Address> {
    this.#refuseDraining();
    this.#logLimits();
    const { listen, sharePort } = this.#settings;
    const { address, release } = await settlePort(listen, sharePort);
    this.#address = address;
    try {
      await this.#serve();
    } finally {
      release();
    }
    this.#cluster.listens(this.#address);
    return this.#address;
  }

  async #serve(): Promise<void> {
    this.#refuseDraining();
    const { threads, clock, log } = this.#options;
    if (threads > 0) {
      const started = Array.from({ length: threads }, (_, index) => this.#startThread(index + 1));
      await Promise.race([Promise.all(started), this.#closed.promise]);
      return;
    }
    this.#server = await createServer(this.local, clock, this.#settings.server, (error) =>
      logServerError(log, stackOf(error)),
    );
    await this.#server.listen(this.#address);
    // `close` may be over, so that nothing else would close this server.
    if (this.#stage === 'draining') this.#server.close();
    this.#refuseDraining();
    this.#spawnLocal(this.#server);
  }

  /**
   * Takes over new settings; the data planes get them within a turn of the event loop. Throws `HR_DRAINING` once nothing serves any
   * more: what the settings start would not be ended.
   */
  apply(settings: Settings): void {
    if (this.#ending) throw new HeadraceError('HR_DRAINING');
    this.#settings = settings;
    this.#discovery.configure(settings);
    this.#pages.configure(settings.fetch);
    this.#configureEngines();
    this.#billing?.configure(settings);
    this.#responses.configure(settings);
    this.#webhooks?.configure(settings.webhooks);
    this.#cluster.configure(settings);
    this.#configureCrns();
  }

  #configureEngines(): void {
    const { engines: entries } = this.#settings.search;
    const cells = this.#engines.of(Object.keys(entries));
    const { engines } = configureEngines(entries, (id) => cells[id] ?? 0);
    this.#indexes.keep(foldersOf(engines));
    this.#caches.configure(this.#settings, engines);
  }

  /** Carries an act of an operator out, here and in all siblings; rejects when the CRN's actor does not answer. */
  act(url: string, override: CrnOverride, by: string): Promise<ActResult> {
    return this.#cluster.act(url, override, by);
  }

  #override(url: string, override: CrnOverride): Promise<OverrideResult> {
    const message = (replyTo: Ref<OverrideResult>): CrnRegistryCommand => ({
      type: 'Override',
      url,
      override,
      replyTo,
    });
    return ask(this.#registry, message, { timeoutMs: OVERRIDE_TIMEOUT_MS });
  }

  /** The ledger; null without one, and before it is open. */
  get ledger(): Ledger | null {
    return this.#billing?.ledger ?? null;
  }

  /** `/health` answers 503 from now on, and nothing starts any more; everything else goes on. */
  unready(): void {
    this.#stage = 'draining';
    this.#publish();
    const error = new HeadraceError('HR_DRAINING');
    for (const { promise, reject } of [this.#judged, this.#closed]) {
      reject(error);
      // A gateway may close without anybody who waits for its start.
      promise.catch(() => undefined);
    }
  }

  #refuseDraining(): void {
    if (this.#stage === 'draining') throw new HeadraceError('HR_DRAINING');
  }

  /** Refuses new connections, waits for requests in flight, then ends everything. Resolves with how many were cut off. */
  async close(): Promise<number> {
    this.unready();
    this.#draining = true;
    const { drainMs } = this.#settings.timeouts;
    const threads = this.#threads.filter((_, index) => this.#running.has(index + 1));
    const cut = await Promise.all([
      askDrain(this.#localIngress ?? this.#spawnLocal(null), (command) => command, drainMs),
      ...threads.map((ref) => askDrain(ref, passOn, drainMs)),
    ]);
    await this.#endServing();
    await this.#webhooks?.close();
    await this.#responses.close();
    await this.#indexes.close();
    await this.#billing?.close();
    // Last: until here siblings hear what this gateway gives back.
    this.#caches.close();
    await this.#cluster.close();
    this.hosts.close();
    await this.#system.terminate();
    this.#client.close();
    return cut.reduce((sum, count) => sum + count, 0);
  }

  /** Ends what serves requests, whatever is in flight. The process may end once it resolves. */
  async abort(): Promise<void> {
    this.#caches.close();
    await Promise.all([this.#endServing(), this.#cluster.close()]);
  }

  async #endServing(): Promise<void> {
    this.#ending = true;
    if (this.#awaitsHosts !== null) this.#options.clock.clearTimeout(this.#awaitsHosts);
    this.#server?.close();
    this.#crnLog.close();
    this.#kvEvents.close();
    this.#placements.close();
    this.local.close();
    for (const ref of this.#threads) this.#system.stop(ref);
    if (this.#running.size === 0) return;
    this.#ended ??= Promise.withResolvers();
    await this.#ended.promise;
  }

  /** Makes an ingress thread throw, for tests of the supervisor. Threads count from 1. */
  crash(thread: number): void {
    this.#threads[thread - 1]?.tell({ type: 'Pass', command: { type: 'Crash' } });
  }

  #spawnLocal(server: Server | null): Ref<IngressCommand> {
    this.#localIngress = this.#system.spawn(ingress({ plane: this.local, server }), { name: 'ingress' });
    return this.#localIngress;
  }

  #snapshot(): Snapshot {
    return {
      settings: { ...withoutKeys(this.#settings), limits: this.limits },
      table: this.#awaitsHosts === null ? this.#table : { ...this.#table, isPartial: true },
      catalog: this.#merged().catalog,
      keys: this.#configuredKeys(),
      stage: this.#stage,
      probeReasons: this.#probeReasons,
      cluster: this.#cluster.status(),
      engineCells: this.#engines.of(Object.keys(this.#settings.search.engines)),
      createdS: this.#options.createdS,
      via: this.#via,
    };
  }

  /** The limits that the data planes apply. */
  get limits(): Settings['limits'] {
    return withinProcess(this.#settings.limits, this.#processLimits, Math.max(this.#options.threads, 1));
  }

  /** Tells which limits the process cannot keep to. */
  #logLimits(): void {
    const { files, memoryBytes } = this.#processLimits;
    const { bufferedBytes, connections } = this.#settings.limits;
    const applied = this.limits;
    if (applied.connections < connections) {
      const text = 'file descriptors allow fewer connections of clients, per thread, than limits.connections';
      this.#options.log.info({ connections: applied.connections, openFiles: files }, text);
    }
    if (applied.bufferedBytes < bufferedBytes) {
      const text = 'memory allows fewer bytes of bodies than limits.bufferedBytes';
      this.#options.log.info({ bufferedBytes: applied.bufferedBytes, memoryBytes }, text);
    }
  }

  #configuredKeys(): KeyRecord[] {
    const keys = configuredKeys(this.#settings);
    return this.#billing?.limitConfigured(keys) ?? keys.map(({ record }) => record);
  }

  #publish(): void {
    const snapshot = this.#snapshot();
    this.local.configure(snapshot);
    this.#tellThreads({ type: 'Configure', snapshot });
  }

  #openBilling(settings: Settings): BillingService | null {
    if (settings.store === null) return null;
    const { clock, log } = this.#options;
    return new BillingService({
      system: this.#system,
      settings,
      threads: this.#options.threads + 1,
      clock,
      epochMs: systemEpochMs,
      log,
      tell: (update) => {
        // Before there is a data plane, the limits of configured keys get their places.
        if (!this.#built) return;
        this.local.updateBilling(update);
        this.#tellThreads({ type: 'Billing', update });
      },
      onKeys: () => {
        this.#configureCrns();
        this.#checkReady();
      },
      onPlaced: () => this.#publish(),
    });
  }

  #awaitHosts(ttlMs: number): void {
    this.#awaitsHosts = this.#options.clock.setTimeout(() => {
      this.#awaitsHosts = null;
      this.#publish();
    }, ttlMs);
  }

  #configureCrns(): void {
    const { health, ejection } = this.#settings;
    const { catalog, conflicts, events, specs } = this.#merged();
    for (const conflict of conflicts) {
      if (!this.#conflicts.includes(conflict)) this.#options.log.warn(conflict);
    }
    this.#conflicts = conflicts;
    this.#eventSources = events;
    const configured = this.#configuredKeys();
    // A snapshot without the keys of the store would revoke them on every host.
    const keys = this.#billing?.loaded === false ? null : [...configured, ...(this.#billing?.keys() ?? [])];
    this.hosts.configure(this.#settings, keys, new Set(catalog.flatMap(({ servers }) => servers)));
    const { slowStartMs: _, maxShare, ...breaker } = ejection;
    this.#registry.tell({
      type: 'Configure',
      models: specs,
      settings: { health, ejection: breaker, maxShare },
      isPartial: !this.#discovery.hasAnswered,
    });
  }

  #merged(): MergedModels {
    return mergeModels(this.#settings, ...this.#discovery.found, this.hosts.registered);
  }

  #checkReady(): void {
    if (!this.#crnsJudged || this.#table.isPartial === true || this.#stage !== 'starting') return;
    if (this.#billing?.loaded === false || !this.#cluster.settled) return;
    this.#stage = 'ready';
    this.#publish();
    this.#judged.resolve();
  }

  #startThread(thread: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#starting.set(thread, (message) => {
        if (message.type === 'Listening') resolve();
        else if (message.type === 'Failed') reject(new Error(message.message));
      });
      const behavior = ingressThread({
        system: this.#system,
        clock: this.#options.clock,
        board: this.#board,
        bodies: this.local.budget,
        registry: this.#outcomes,
        pages: this.#pages.ref,
        indexes: this.#indexes.ref,
        cancellations: this.#cancellations,
        accounts: this.#billing,
        responses: this.#responses.ref,
        caches: this.#caches.refs,
        isDraining: () => this.#draining,
        data: () => ({
          memory: this.#memory,
          engineMemory: this.#engines.memory,
          searchMemory: this.#searchMemory,
          bodyMemory: this.#bodyMemory,
          limitMemory: this.#billing?.limitMemory ?? null,
          leaseMemory: this.#billing?.leaseMemory ?? null,
          paid: this.#billing?.payments != null,
          responseMemory: this.#responses.memory,
          thread,
          snapshot: this.#snapshot(),
          server: this.#settings.server,
          address: this.#address,
        }),
        onMessage: (index, message) => this.#onThread(index, message),
        onRunning: (index, running) => this.#noteRunning(index, running),
        onSilent: (index, askedMs) => this.#noteSilent(index, askedMs),
      });
      this.#threads.push(this.#system.spawn(behavior, { name: `thread-${thread}`, supervise: THREAD_RESTARTS }));
    });
  }

  #onThread(thread: number, message: ThreadMessage): void {
    const { log } = this.#options;
    if (message.type === 'Listening') {
      log.info({ thread, server: message.server }, 'ingress thread serves');
      // What changed while the thread was starting.
      this.#publish();
      const ref = this.#threads[thread - 1];
      for (const update of this.#billing?.updates() ?? []) ref?.tell(passOn({ type: 'Billing', update }));
    }
    if (message.type === 'Failed') log.error({ thread, reason: message.message }, 'ingress thread failed');
    if (message.type === 'Error') logServerError(log, message.message);
    if (message.type === 'EngineModule') {
      const { message: reason, module } = message;
      log.error({ thread, module, reason }, 'the module of a search engine threw outside of a search');
    }
    if (message.type === 'EngineThrew') {
      const { engine, thrown } = message;
      log.warn({ thread, engine, thrown }, ENGINE_THREW);
    }
    if (message.type === 'Event') log.debug({ thread }, message.text);
    this.#starting.get(thread)?.(message);
  }

  #noteRunning(thread: number, running: boolean): void {
    if (running) this.#running.add(thread);
    else {
      this.#running.delete(thread);
      this.#watch.ended(thread);
      this.#billing?.clearLimits(thread);
      this.#billing?.threadGone(thread);
      this.#responses.threadGone(thread);
    }
    if (this.#running.size === 0) this.#ended?.resolve();
  }

  #noteSilent(thread: number, askedMs: number | null): void {
    const { log } = this.#options;
    this.#watch.note(thread, askedMs);
    if (askedMs === null) log.warn({ thread }, 'ingress thread answers again');
    else log.error({ thread }, 'ingress thread does not answer: its connections wait');
  }
}

function logServerError(log: Log, reason: string): void {
  log.error({ reason }, 'an error in the HTTP server: one connection was closed');
}
