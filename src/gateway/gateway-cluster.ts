// The gateway's side of the link to its siblings: what it reports of itself, and what `/health`, the overview and the metrics say.

import { hostname } from 'node:os';
import type { Clock, TimerHandle } from '../actor/index.ts';
import type { ClusterOverview } from '../admin/index.ts';
import type { ClusterStatus, Stage } from '../api/deps.ts';
import {
  type ActResult,
  ClusterLog,
  type ClusterLink,
  ClusterService,
  OperatorActs,
  type SelfReport,
} from '../cluster/index.ts';
import { packageVersion } from '../config/env.ts';
import type { Settings } from '../config/settings.ts';
import { type Address, printAddress } from '../config/units.ts';
import { ownAddresses } from '../net/own-addresses.ts';
import type { CrnOverride, OverrideResult } from '../routing/index.ts';
import type { Log } from '../telemetry/log.ts';
import type { MetricsSnapshot } from '../telemetry/metrics.ts';
import type { ThreadLoad } from '../telemetry/totals.ts';

/** Interval between two readings of the load that siblings are told. */
const LOAD_MS = 1000;

export interface GatewayClusterDeps {
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
  readonly stage: () => Stage;
  /** What each thread has to do. */
  readonly load: () => Promise<readonly ThreadLoad[]>;
  /** What `/health` says has changed. */
  readonly onStatus: (status: ClusterStatus) => void;
  /** Carries an act of an operator out in this gateway. */
  readonly override: (url: string, override: CrnOverride) => Promise<OverrideResult>;
  /** What operators have told other gateways holds here, or cannot be had now. */
  readonly onSettled: () => void;
}

export class GatewayCluster {
  readonly #deps: GatewayClusterDeps;
  readonly #service: ClusterService;
  readonly #clusterLog: ClusterLog;
  readonly #acts: OperatorActs;
  readonly #startedMs: number;
  readonly #name: string = hostname().slice(0, 255) || 'gateway';
  readonly #version: string = packageVersion();
  #address: string | null = null;
  #load: { readonly inFlight: number; readonly requestsPerS: number } = { inFlight: 0, requestsPerS: 0 };
  #requests: { readonly count: number; readonly atMs: number } | null = null;
  #timer: TimerHandle | null = null;
  #settled = false;
  #closed = false;

  constructor(deps: GatewayClusterDeps) {
    const { clock, log, random } = deps;
    this.#deps = deps;
    this.#startedMs = clock.now();
    this.#clusterLog = new ClusterLog(log, clock, () => this.#acts.giveUp());
    this.#service = new ClusterService({
      clock,
      random,
      report: () => this.#report(),
      observer: this.#clusterLog,
    });
    this.#acts = new OperatorActs({ link: this.#service, clock, log, apply: deps.override });
    this.#service.onChange(() => deps.onStatus(this.status()));
    void this.#acts.settled.then(() => {
      this.#settled = true;
      deps.onSettled();
    });
  }

  /** Whether a gateway that starts may serve: the acts of operators hold, or the engine is away. */
  get settled(): boolean {
    return this.#settled || !this.#service.enabled;
  }

  /** Carries an act of an operator out, here and in all siblings. */
  act(url: string, override: CrnOverride, by: string): Promise<ActResult> {
    return this.#acts.act(url, override, by);
  }

  /** Base URLs of the CRNs of this gateway. */
  crnsChanged(urls: ReadonlySet<string>): void {
    this.#acts.crnsChanged(urls);
  }

  get link(): ClusterLink {
    return this.#service;
  }

  /** Takes over settings. The first ones open the connection; nothing waits for it. */
  configure({ cluster }: Pick<Settings, 'cluster'>): void {
    this.#service.configure(cluster);
    if (!this.#service.enabled) this.#stopReading();
    else if (this.#timer === null) this.#readLater();
  }

  /** Where clients reach this gateway. */
  listens(address: Address): void {
    this.#address = printAddress({ ...address, host: reachableHost(address.host) });
  }

  status(): ClusterStatus {
    const { connected, enabled } = this.#service;
    return { enabled, connected, gateways: this.#service.siblings().length };
  }

  /** The roll call for the overview; null for a gateway that is alone by its settings. */
  overview(): ClusterOverview | null {
    const { connected, enabled } = this.#service;
    if (!enabled) return null;
    const gateways = this.#service
      .siblings()
      .map(({ address, ageMs, inFlight, instance, name, requestsPerS, self, stage, uptimeMs, version }) => ({
        ...{ instance, self, name, version, address, stage, uptimeMs, inFlight, requestsPerS },
        ageMs: Math.round(ageMs),
      }));
    return { connected, gateways };
  }

  metrics(): MetricsSnapshot {
    const { metrics } = this.#clusterLog;
    const { connected, enabled, queue } = this.#service;
    const others = this.#service.siblings().filter(({ self }) => !self);
    const gauges = {
      connected,
      siblings: others.length,
      oldestMs: others.length === 0 ? null : Math.max(...others.map(({ ageMs }) => ageMs)),
      unanswered: queue.commands,
      unansweredBytes: queue.bytes,
    };
    metrics.set(enabled ? gauges : null);
    return enabled ? metrics.snapshot() : [];
  }

  /** Tells the siblings that this gateway ends, so that they need not wait for its silence. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#stopReading();
    this.#acts.close();
    await this.#service.close();
  }

  #report(): SelfReport {
    return {
      name: this.#name,
      version: this.#version,
      address: this.#address,
      stage: this.#deps.stage(),
      uptimeMs: Math.max(0, Math.round(this.#deps.clock.now() - this.#startedMs)),
      ...this.#load,
    };
  }

  #readLater(): void {
    this.#timer = this.#deps.clock.setTimeout(() => {
      this.#timer = null;
      void this.#readLoad().finally(() => {
        // Settings that came meanwhile may have begun anew.
        if (this.#timer === null && !this.#closed && this.#service.enabled) this.#readLater();
      });
    }, LOAD_MS);
  }

  #stopReading(): void {
    if (this.#timer !== null) this.#deps.clock.clearTimeout(this.#timer);
    this.#timer = null;
  }

  async #readLoad(): Promise<void> {
    const threads = await this.#deps.load();
    const atMs = this.#deps.clock.now();
    let count = 0;
    let inFlight = 0;
    for (const thread of threads) {
      count += thread.requests;
      inFlight += thread.inFlight;
    }
    const before = this.#requests;
    this.#requests = { count, atMs };
    // Counts fall back where a thread has been replaced.
    const requests = before === null ? 0 : Math.max(0, count - before.count);
    const seconds = before === null ? 1 : Math.max(0.001, (atMs - before.atMs) / 1000);
    this.#load = { inFlight, requestsPerS: Math.round((requests / seconds) * 10) / 10 };
  }
}

/** An address of this machine in place of all of them; its name where it has none but loopback, or none is known. */
function reachableHost(host: string): string {
  if (host !== '0.0.0.0' && host !== '::') return host;
  const found = ownAddresses().find((each) => !each.internal && each.family === 'IPv4');
  return found?.address ?? hostname();
}
