// The present state of the gateway for `/metrics`, `/status` and `/overview`, gathered from all threads. Read-only.

import type { Ref } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import type { Stage } from '../api/deps.ts';
import type { BlockIndex, Board, KvEvents, KvEventStatus, ModelTableData } from '../routing/index.ts';
import type { CacheNumbers } from '../telemetry/crn-metrics.ts';
import type { MetricsSnapshot } from '../telemetry/metrics.ts';
import type { DataPlane } from './data-plane.ts';
import {
  cachesOf,
  type CrnStatus,
  type ExplainAnswer,
  type ExplainRequest,
  type Gauges,
  type KvEventOverview,
  type OverviewParts,
  statusOf,
} from '../admin/index.ts';
import { askExplain, askMetrics, askReport } from './ingress.ts';
import { passOn, type ThreadCommand } from './ingress-thread.ts';

const TIMEOUT_MS = 2000;

interface MetricsSource {
  metrics(): MetricsSnapshot;
}

export interface Sources {
  readonly local: DataPlane;
  readonly board: Board;
  readonly blockIndex: BlockIndex;
  readonly kvEvents: KvEvents;
  readonly gauges: Gauges;
  readonly pages: MetricsSource;
  /** Null without a ledger. */
  readonly accounts: MetricsSource | null;
  readonly responses: MetricsSource;
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

  constructor(sources: Sources) {
    this.#sources = sources;
  }

  /** Every model on every CRN. */
  crns(): CrnStatus[] {
    const { board, local, now } = this.#sources;
    return statusOf(now().table, board, local.deps.clock.now());
  }

  #caches(): CacheNumbers[] {
    const { local, now } = this.#sources;
    return cachesOf(now().table, local.deps, local.deps.clock.now());
  }

  /** Metrics of every thread. */
  async metrics(): Promise<MetricsSnapshot[]> {
    const { local, pages, accounts, gauges, now, blockIndex, kvEvents, responses } = this.#sources;
    const { settings, threads } = now();
    // Read before the threads are asked: the questions would show as waiting messages.
    const own = [local.metrics(), pages.metrics(), accounts?.metrics() ?? [], kvEvents.metrics(), responses.metrics()];
    const asked = threads.map((ref) => askMetrics(ref, passOn, TIMEOUT_MS));
    const ofControl = gauges.snapshot(this.crns(), Object.keys(settings.search.engines), blockIndex, this.#caches());
    return [...own, ofControl, ...(await Promise.all(asked))];
  }

  /** Where a request would go, by a thread that serves requests: what prompts have in common is known to each by itself. */
  explain(request: ExplainRequest): Promise<ExplainAnswer> {
    const { local, now } = this.#sources;
    const [thread] = now().threads;
    return thread === undefined ? local.explain(request) : askExplain(thread, passOn, request, TIMEOUT_MS);
  }

  /** The parts of the overview; a thread that does not answer in time is left out. */
  async overview(): Promise<OverviewParts> {
    const { local, pages, accounts, gauges, kvEvents, now, responses } = this.#sources;
    const { settings, stage, threads } = now();
    const asked = await Promise.all(threads.map((ref) => askReport(ref, passOn, TIMEOUT_MS)));
    const crns = this.crns();
    return {
      stage,
      crns,
      caches: this.#caches(),
      planes: [local.report(), ...asked.filter((report) => report !== null)],
      ejectedUntilMs: gauges.ejections(crns),
      kvEvents: new Map(kvEvents.status().map(overviewOf)),
      engines: gauges.engines(Object.keys(settings.search.engines)),
      pages: pages.metrics(),
      accounts: accounts?.metrics() ?? null,
      responses: responses.metrics(),
    };
  }
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
