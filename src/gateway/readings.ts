// The present state of the gateway for `/metrics`, `/status` and `/overview`, gathered from all threads. Read-only.

import { setImmediate as nextTurn } from 'node:timers/promises';
import { ask, type Ref } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import type { Stage } from '../api/deps.ts';
import type { BlockIndex, Board, KvEventStatus, ModelTableData } from '../routing/index.ts';
import type { KvEvents } from '../routing/main-thread.ts';
import type { CacheNumbers } from '../telemetry/crn-metrics.ts';
import type { MetricsPart, MetricsSnapshot } from '../telemetry/metrics.ts';
import { allParts } from '../telemetry/parts.ts';
import { allTotals, type ThreadLoad, type ThreadTotals, type TotalsPart } from '../telemetry/totals.ts';
import type { LogEntry, LogPart, LogQuery } from '../telemetry/request-log.ts';
import type { Discovery } from '../discovery/index.ts';
import type { DataPlane } from './data-plane.ts';
import type { GatewayCluster } from './gateway-cluster.ts';
import {
  cachesOf,
  type CrnGauges,
  type CrnStatus,
  type ExplainAnswer,
  type ExplainRequest,
  type Gathered,
  type Gauges,
  type HistorySample,
  type KvEventOverview,
  type LivePart,
  type OverviewParts,
  type PlaneReport,
  statusOf,
} from '../admin/index.ts';
import type { IngressCommand } from './ingress.ts';
import { passOn, type ThreadCommand } from './ingress-thread.ts';
import type { ThreadWatch } from './thread-watch.ts';

const TIMEOUT_MS = 2000;

/** The clocks of threads differ by less. */
const CLOCK_SKEW_MS = 5;

interface MetricsSource {
  metrics(): MetricsSnapshot;
}

export interface Sources {
  readonly local: DataPlane;
  readonly board: Board;
  readonly blockIndex: BlockIndex;
  readonly kvEvents: KvEvents;
  readonly gauges: Gauges;
  readonly discovery: Pick<Discovery, 'metrics' | 'status'>;
  readonly pages: MetricsSource;
  /** Null without a ledger. */
  readonly accounts: MetricsSource | null;
  readonly responses: MetricsSource;
  readonly cluster: Pick<GatewayCluster, 'metrics' | 'overview'>;
  readonly caches: MetricsSource;
  readonly watch: ThreadWatch;
  /** What changes while the gateway runs. */
  readonly now: () => {
    readonly stage: Stage;
    readonly table: ModelTableData;
    readonly settings: Settings;
    readonly threads: readonly Ref<ThreadCommand>[];
  };
}

export class Readings {
  readonly #sources: Sources;
  #reading: Promise<readonly ThreadTotals[]> | null = null;

  constructor(sources: Sources) {
    this.#sources = sources;
  }

  /** Every model on every CRN. */
  crns(): CrnStatus[] {
    const { board, gauges, local, now } = this.#sources;
    return statusOf(now().table, board, gauges.probes, local.deps.clock.now());
  }

  /** The threads of which it is not known that they do not answer. */
  #answering(): readonly Ref<ThreadCommand>[] {
    const { now, watch } = this.#sources;
    return now().threads.filter((_, at) => !watch.isSilent(at + 1));
  }

  #caches(): CacheNumbers[] {
    const { local, now } = this.#sources;
    return cachesOf(now().table, local.deps, local.deps.clock.now());
  }

  /** Metrics of every thread. */
  async metrics(): Promise<MetricsSnapshot[]> {
    const { local, pages, accounts, caches, cluster, discovery, gauges, now, blockIndex, kvEvents, responses, watch } =
      this.#sources;
    const { settings, threads } = now();
    // Read before the threads are asked: the questions would show as waiting messages.
    const ofLocal = await allFamilies((part) => nextTurn(local.metrics(part)));
    const own = [
      ...[ofLocal ?? [], pages.metrics(), accounts?.metrics() ?? [], kvEvents.metrics(), responses.metrics()],
      ...[cluster.metrics(), caches.metrics(), discovery.metrics()],
    ];
    const ask = (thread: number): Promise<MetricsSnapshot | null> => {
      const ref = threads[thread - 1] as Ref<ThreadCommand>;
      return allFamilies((part) => answerOf(ref, (replyTo) => ({ type: 'Metrics', part, replyTo })));
    };
    const asked = watch.read(threads.length, ask, () => local.deps.clock.now());
    const ofControl = gauges.snapshot(this.crns(), Object.keys(settings.search.engines), blockIndex, this.#caches());
    return [...own, ofControl, ...(await asked)];
  }

  /** What the history samples; a thread that does not answer in time is left out. */
  async history(): Promise<HistorySample> {
    const { table } = this.#sources.now();
    const threads = await this.#totals();
    return {
      threads,
      models: table.models.map(({ id }) => id),
      crns: gaugesOf(this.crns(), this.#caches()),
    };
  }

  /** What each thread has counted; a thread that does not answer in time is left out. Readings at one time are one. */
  #totals(): Promise<readonly ThreadTotals[]> {
    this.#reading ??= this.#readTotals().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #readTotals(): Promise<readonly ThreadTotals[]> {
    const { local } = this.#sources;
    const all = await Promise.all([
      allTotals((part) => nextTurn(local.totals(part))),
      ...this.#answering().map((ref) =>
        allTotals((part) => answerOf<TotalsPart>(ref, (replyTo) => ({ type: 'Totals', part, replyTo }))),
      ),
    ]);
    return all.filter((totals) => totals !== null);
  }

  /** What each thread has to do; a thread that does not answer in time is left out. */
  async load(): Promise<readonly ThreadLoad[]> {
    const asked = await Promise.all(
      this.#answering().map((ref) => answerOf<ThreadLoad>(ref, (replyTo) => ({ type: 'Load', replyTo }))),
    );
    return [this.#sources.local.load(), ...asked.filter((load) => load !== null)];
  }

  /** Where a request would go, by a thread that serves requests: what prompts have in common is known to each by itself. */
  explain(request: ExplainRequest): Promise<ExplainAnswer> {
    const { local, now } = this.#sources;
    const { settings } = now();
    const [thread] = this.#answering();
    if (thread === undefined) return local.explain(request);
    const timeoutMs = explainTimeoutMs(request.path, settings);
    return ask(thread, (replyTo) => passOn({ type: 'Explain', request, replyTo }), { timeoutMs });
  }

  /** Requests under way, by thread. */
  live(): Promise<Gathered<LivePart>> {
    return this.#gather(Promise.resolve(this.#sources.local.live()), (replyTo) => ({ type: 'Live', replyTo }));
  }

  /** Rows of the request log, by thread. */
  log(asked: LogQuery): Promise<Gathered<LogPart>> {
    const { local, now } = this.#sources;
    // A thread alone has its rows in the order of their ends.
    const upToUs = now().threads.length === 0 ? Infinity : (local.deps.clock.now() - CLOCK_SKEW_MS) * 1000;
    const query = { ...asked, upToUs };
    return this.#gather(local.log(query), (replyTo) => ({ type: 'Log', query, replyTo }));
  }

  /** Rows of a request id or of a cursor, by thread. */
  logEntries(id: string): Promise<Gathered<LogEntry[]>> {
    return this.#gather(this.#sources.local.logEntries(id), (replyTo) => ({ type: 'LogEntry', id, replyTo }));
  }

  async #gather<Part>(own: Promise<Part>, command: (replyTo: Ref<Part>) => IngressCommand): Promise<Gathered<Part>> {
    const asked = this.#answering().map((ref) => answerOf(ref, command));
    const parts = (await Promise.all(asked)).filter((part) => part !== null);
    return { parts: [await own, ...parts], missing: this.#sources.now().threads.length - parts.length };
  }

  /** The parts of the overview; of a thread that does not answer in time, what it had counted. */
  async overview(): Promise<OverviewParts> {
    const { local, pages, accounts, cluster, discovery, gauges, kvEvents, now, responses, watch } = this.#sources;
    const { settings, stage, threads } = now();
    const [totals, { answers, kept }] = await Promise.all([
      this.#totals(),
      watch.reports(threads.length, (thread) => {
        const ref = threads[thread - 1] as Ref<ThreadCommand>;
        return answerOf<PlaneReport>(ref, (replyTo) => ({ type: 'Report', replyTo }));
      }),
    ]);
    const crns = this.crns();
    return {
      stage,
      crns,
      caches: this.#caches(),
      totals,
      planes: [local.report(), ...answers],
      kept,
      ejectedUntilMs: gauges.ejections(crns),
      kvEvents: new Map(kvEvents.status().map(overviewOf)),
      engines: gauges.engines(Object.keys(settings.search.engines)),
      pages: pages.metrics(),
      accounts: accounts?.metrics() ?? null,
      responses: responses.metrics(),
      cluster: cluster.overview(),
      discovery: discovery.status(),
    };
  }
}

/** The answer of an ingress thread to a command; null when it does not come in time. */
function answerOf<Answer>(
  thread: Ref<ThreadCommand>,
  command: (replyTo: Ref<Answer>) => IngressCommand,
): Promise<Answer | null> {
  const answer = ask<ThreadCommand, Answer>(thread, (replyTo) => passOn(command(replyTo)), { timeoutMs: TIMEOUT_MS });
  return answer.catch(() => null);
}

/** A search and a fetch are explained by making them. A search may wait for its place as long as it may take. */
function explainTimeoutMs(path: string, { fetch, search }: Settings): number {
  if (path === '/search') return 2 * search.timeoutMs + TIMEOUT_MS;
  return path === '/search/fetch' ? fetch.timeoutMs + TIMEOUT_MS : TIMEOUT_MS;
}

/** What the models of each CRN have in common, or come to. */
function gaugesOf(crns: readonly CrnStatus[], caches: readonly CacheNumbers[]): CrnGauges[] {
  const gauges = new Map<string, { -readonly [Name in keyof CrnGauges]: CrnGauges[Name] }>();
  for (const { firstByteMs, inFlight, url } of crns) {
    const known = gauges.get(url);
    if (known === undefined) gauges.set(url, { crn: url, inFlight, firstByteMs, backlogBytes: 0 });
    else known.firstByteMs = Math.max(known.firstByteMs, firstByteMs);
  }
  for (const { backlogBytes, crn } of caches) {
    const known = gauges.get(crn);
    if (known !== undefined) known.backlogBytes += backlogBytes;
  }
  return [...gauges.values()];
}

function overviewOf({
  url,
  connected,
  lastMs,
  lost,
  residentTokens,
  capacityTokens,
}: KvEventStatus): [string, KvEventOverview] {
  return [url, { connected, lastMs, lost, residentTokens, capacityTokens }];
}

/** Metrics of a thread; null when a part does not come. */
async function allFamilies(read: (part: number) => Promise<MetricsPart | null>): Promise<MetricsSnapshot | null> {
  return (await allParts(read))?.flatMap(({ families }) => families) ?? null;
}
