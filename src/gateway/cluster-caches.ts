// What a gateway shares with others of searches and pages: answers, the standing of engines, and places of accounts and hosts. Lives in the
// control thread; the data planes ask its actors.

import type { Clock, Ref, System } from '../actor/index.ts';
import { type ClusterLink, EngineStandings, engineTrials, PlaceShares, sharedCache } from '../cluster/index.ts';
import type { Settings } from '../config/settings.ts';
import { SharedCache, type SharedCacheCommand, type SharedKind } from '../net/shared-cache.ts';
import { EngineBoard, type EngineSpec, type TrialCommand } from '../search/index.ts';
import type { MetricsSnapshot } from '../telemetry/metrics.ts';
import { SharedCacheMetrics } from '../telemetry/shared-cache-metrics.ts';

export interface ClusterCachesDeps {
  readonly system: System;
  readonly link: ClusterLink;
  readonly clock: Clock;
  readonly engineMemory: SharedArrayBuffer;
}

/** Memory of robots.txt in the engine of the cluster: a thousand files of common size. */
const ROBOTS_BYTES = 16 * 1024 * 1024;

/** Refs to the actors, in whichever thread they live. */
export interface ClusterCacheRefs {
  readonly cache: Ref<SharedCacheCommand>;
  readonly trials: Ref<TrialCommand>;
}

export class ClusterCaches {
  readonly refs: ClusterCacheRefs;
  /** Of the actor that fetches pages. */
  readonly pages: SharedCache;
  readonly #link: ClusterLink;
  readonly #clock: Clock;
  readonly #standings: EngineStandings;
  readonly #metrics = new SharedCacheMetrics();
  #shares: PlaceShares | null = null;
  #mostBytes: Readonly<Record<SharedKind, number>> = { search: 0, page: 0, robots: ROBOTS_BYTES };

  constructor({ clock, engineMemory, link, system }: ClusterCachesDeps) {
    this.#link = link;
    this.#clock = clock;
    this.#standings = new EngineStandings({ link, clock, board: new EngineBoard(engineMemory) });
    const cache = sharedCache({
      engine: link,
      mostBytes: (kind) => this.#mostBytes[kind],
      onWrite: (kind, result) => this.#metrics.write(kind, result),
    });
    this.refs = {
      cache: system.spawn(cache, { name: 'shared-cache' }),
      trials: system.spawn(engineTrials(this.#standings), { name: 'engine-trials' }),
    };
    this.pages = new SharedCache(this.refs.cache, clock);
  }

  /** Shares the places that these memories count; the same ones in the same order at every gateway. */
  sharePlaces(memories: readonly SharedArrayBuffer[]): void {
    this.#shares = new PlaceShares({ link: this.#link, clock: this.#clock, memories });
  }

  configure({ fetch, search }: Settings, engines: readonly EngineSpec[]): void {
    this.#mostBytes = { search: search.cacheBytes, page: fetch.cacheBytes, robots: ROBOTS_BYTES };
    this.#standings.configure(engines);
    this.enable(this.#link.enabled);
  }

  /** Whether there are other gateways by the settings. */
  enable(isOn: boolean): void {
    this.pages.configure(isOn);
  }

  metrics(): MetricsSnapshot {
    return this.#link.enabled ? this.#metrics.snapshot() : [];
  }

  close(): void {
    this.#standings.close();
    this.#shares?.close();
  }
}
