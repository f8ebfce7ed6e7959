// What can happen to several gateways, each under load: restarts, deaths, an engine that is away, unreachable or slow, a database that
// is away, clocks that differ. At the end of each the ledger must equal what the hosts have counted, and limits must have held.

import { setTimeout as sleep } from 'node:timers/promises';
import { connectEngine } from '../../src/cluster/connection.ts';
import {
  type Cluster,
  type ClusterOptions,
  type GatewayService,
  HAS_CLUSTER,
  PATIENCE_MS,
} from '../support/cluster.ts';
import { type Comparison, compareLedger, type Killed } from '../support/cluster-audit.ts';
import { ClusterLoad } from '../support/cluster-load.ts';
import { until } from '../support/system.ts';

/** Load before a fault and after its end, in milliseconds. */
const BEFORE_MS = 3000;
const AFTER_MS = 3000;

/** `credit.leaseTtl` where a gateway is killed, so that its leases lapse soon, and where one is frozen, so that they lapse meanwhile. */
const SHORT_LEASE_MS = 8000;

/** How long PostgreSQL is away and a gateway is frozen, in milliseconds. */
const LONG_MS = 10_000;

/** How long the engine is away, in milliseconds. */
const AWAY_MS = 6000;

/** How long each fault of the short run lasts, in milliseconds. */
const SHORT_MS = 2000;

/** Share of a limit that the slice of one gateway is at most. */
const SLICE_SHARE = 1 / 16;

/** What a gateway logs that has no engine for its limits, or none that answers in time. */
const ALONE = 'counted by this gateway alone';

/** Gateways beside the one whose limit would hold. */
const OTHER_GATEWAYS = 2;

/** What a fault may do. */
class Course {
  readonly cluster: Cluster;
  readonly load: ClusterLoad;
  readonly killed: Killed[] = [];
  /** Times from the end of a fault until all is as before, in milliseconds. */
  readonly recoveriesMs: number[] = [];

  constructor(cluster: Cluster, load: ClusterLoad) {
    this.cluster = cluster;
    this.load = load;
  }

  kill(gateway: GatewayService): void {
    this.load.kills(gateway);
    this.killed.push({ gateway, atMs: performance.now() });
    gateway.program.signal('SIGKILL');
  }

  /** PostgreSQL is away for so long; then all charges of answers that have ended by its start are written, and as `recovered`. */
  async ledgerAway(ms: number): Promise<void> {
    this.load.ledgerIsAway = true;
    this.cluster.postgres.stop();
    await sleep(ms);
    this.cluster.postgres.start();
    await this.#charged();
    this.load.ledgerIsAway = false;
  }

  async #charged(): Promise<void> {
    const endedMs = performance.now();
    const received = [...this.load.work].map(([account, { requests }]) => ({ account, requests }));
    await until(
      'all charges are written',
      async () => {
        const rows = await Promise.all(received.map(({ account }) => this.cluster.ledger.usage({ account, by: [] })));
        return received.every(({ requests }, index) => Number(rows[index]?.[0]?.requests ?? 0n) >= requests);
      },
      PATIENCE_MS,
    );
    await this.recovered(endedMs);
  }

  /** Waits until every gateway answers requests again and sees all others. */
  async recovered(endedMs: number = performance.now()): Promise<void> {
    await until('all gateways answer requests', () => this.load.hasAnsweredSince(endedMs), PATIENCE_MS);
    await until('all gateways see each other', () => this.cluster.isWhole(), PATIENCE_MS);
    this.recoveriesMs.push(performance.now() - endedMs);
  }
}

/**
 * By how much limits of keys may be exceeded: not at all; by the slices of a gateway that died with them; or, while gateways have no
 * engine, by what each of them counts alone.
 */
export type Excess = 'none' | 'slices' | 'alone';

export interface Scenario {
  readonly name: string;
  readonly title: string;
  readonly excess: Excess;
  readonly options?: Partial<ClusterOptions>;
  /** A host is killed: what it has counted is gone. */
  readonly killsHost?: boolean;
  /** Leases of a killed gateway need not have lapsed at the end. */
  readonly leavesLeases?: boolean;
  run(course: Course): Promise<void>;
}

export interface ScenarioResult extends Comparison {
  readonly name: string;
  readonly title: string;
  readonly excess: Excess;
  /** A gateway has counted limits alone, by its log: it had no engine, or one that did not answer in time. */
  readonly isAlone: boolean;
  readonly seconds: number;
  readonly sent: number;
  readonly failed: number;
  readonly failures: Readonly<Record<string, number>>;
  readonly lost: number;
  readonly refusals: Readonly<Record<string, number>>;
  readonly overshoot: { readonly requests: number; readonly tokens: number; readonly running: number };
  readonly recoveryMs: number | null;
  readonly firstByteP50Ms: number;
  readonly firstByteP99Ms: number;
}

const shortLease = { settings: { credit: { leaseTtl: `${SHORT_LEASE_MS}ms` } } };

export const SCENARIOS: readonly Scenario[] = [
  {
    name: 'rolling-restart',
    title: 'All gateways restarted, one after the other (SIGTERM, drain, new process)',
    excess: 'none',
    async run(course) {
      for (const gateway of course.cluster.gateways) {
        const code = await course.cluster.restart(gateway);
        if (code !== 0) throw new Error(`${gateway.program.name} ended with ${code}`);
        await course.recovered();
      }
    },
  },
  {
    name: 'gateway-killed',
    title: 'kill -9 of a gateway, started again after 3 s',
    excess: 'slices',
    options: shortLease,
    async run(course) {
      const [, second] = course.cluster.gateways;
      course.kill(second!);
      await sleep(3000);
      second!.program.start();
      await course.recovered();
    },
  },
  {
    name: 'gateway-frozen',
    title: 'A gateway frozen for 10 s (SIGSTOP, SIGCONT)',
    excess: 'slices',
    options: shortLease,
    async run(course) {
      const [, second] = course.cluster.gateways;
      second!.program.signal('SIGSTOP');
      await sleep(LONG_MS);
      second!.program.signal('SIGCONT');
      await course.recovered();
    },
  },
  {
    name: 'engine-stopped',
    title: 'Engine killed, started again after 6 s, empty',
    excess: 'alone',
    async run(course) {
      await course.cluster.engine.program.kill();
      await sleep(AWAY_MS);
      course.cluster.engine.program.start();
      await course.recovered();
    },
  },
  {
    name: 'engine-cut',
    title: 'Network to the engine cut for 6 s: packets are dropped',
    excess: 'alone',
    async run(course) {
      course.cluster.network.cut(true);
      await sleep(AWAY_MS);
      course.cluster.network.cut(false);
      await course.recovered();
    },
  },
  {
    name: 'engine-slow',
    title: 'Engine slow for 6 s: 100 ms more for each answer',
    excess: 'none',
    options: { delayed: true },
    async run(course) {
      course.cluster.network.delay(100);
      await sleep(AWAY_MS);
      course.cluster.network.delay(0);
      await course.recovered();
    },
  },
  {
    name: 'engine-full',
    title: 'Engine full for 6 s: it refuses what would be kept',
    excess: 'alone',
    async run(course) {
      const { address, port } = course.cluster.engine;
      const connection = await connectEngine({
        ...{ url: `redis://${address}:${port}`, channels: ['none'], clientName: 'operator', timeoutMs: PATIENCE_MS },
        ...{ onMessage: () => undefined, onLost: () => undefined },
      });
      const limit = (bytes: number): Promise<unknown> => connection.send(['CONFIG', 'SET', 'maxmemory', String(bytes)]);
      await limit(1);
      await sleep(AWAY_MS);
      await limit(0);
      connection.close();
      await course.recovered();
    },
  },
  {
    name: 'database-stopped',
    title: 'PostgreSQL stopped for 10 s',
    excess: 'none',
    async run(course) {
      await course.ledgerAway(LONG_MS);
    },
  },
  {
    name: 'clocks-apart',
    title: 'Wall clocks 60 s ahead and 60 s behind',
    excess: 'none',
    options: { clocks: [0, 60, -60] },
    async run(course) {
      await sleep(AWAY_MS);
      await course.recovered();
    },
  },
  {
    name: 'host-killed',
    title: 'kill -9 of a model host, started again after 3 s',
    excess: 'none',
    killsHost: true,
    async run(course) {
      const [host] = course.cluster.hosts;
      course.load.killsHost();
      await host!.program.kill();
      await sleep(3000);
      host!.program.start();
      await course.cluster.ready(host!);
      await course.recovered();
    },
  },
  {
    name: 'engine-and-gateway',
    title: 'Engine killed, then kill -9 of a gateway; both back after 3 s',
    excess: 'alone',
    options: shortLease,
    async run(course) {
      const [first] = course.cluster.gateways;
      await course.cluster.engine.program.kill();
      await sleep(1000);
      course.kill(first!);
      await sleep(3000);
      course.cluster.engine.program.start();
      first!.program.start();
      await course.recovered();
    },
  },
];

/** Several faults one after the other, for a run that must be short. */
export const SHORT: Scenario = {
  name: 'short',
  title: 'A gateway restarted, the engine cut off, PostgreSQL stopped, another gateway killed',
  excess: 'alone',
  leavesLeases: true,
  async run(course) {
    const { cluster } = course;
    const [first, second] = cluster.gateways;
    const code = await cluster.restart(first!);
    if (code !== 0) throw new Error(`${first!.program.name} ended with ${code}`);
    await course.recovered();
    cluster.network.cut(true);
    await sleep(SHORT_MS);
    cluster.network.cut(false);
    await course.recovered();
    await course.ledgerAway(SHORT_MS);
    course.kill(second!);
    await sleep(SHORT_MS / 2);
    second!.program.start();
    await course.recovered();
  },
};

/** What went wrong in a scenario: one sentence for each. */
export function faultsOf(result: ScenarioResult): string[] {
  return [
    ...Object.entries(result.failures).map(([reason, count]) => `${count} failed: ${reason}`),
    ...result.problems,
    ...(HAS_CLUSTER ? excesses(result) : []),
  ];
}

function excesses({ excess, isAlone, overshoot, overspent }: ScenarioResult): string[] {
  const { requests, tokens, running } = overshoot;
  const found = [
    { count: requests, limit: 60, unit: 'requests' },
    { count: tokens, limit: 6000, unit: 'tokens' },
    { count: running, limit: 3, unit: 'running requests' },
  ];
  const share = { none: 0, slices: SLICE_SHARE, alone: OTHER_GATEWAYS }[isAlone ? 'alone' : excess];
  const most = (limit: number): number => Math.ceil(share * limit);
  return [
    ...found
      .filter(({ count, limit }) => count > most(limit))
      .map(({ count, limit, unit }) => `${count} ${unit} over the limit of ${limit}; at most ${most(limit)} allowed`),
    ...(overspent > 0n && excess === 'none' && !isAlone ? [`${overspent} pico-USD over the limit`] : []),
  ];
}

/** Runs a scenario on a cluster that has just been started, and ends its gateways. */
export async function runScenario(
  scenario: Scenario,
  cluster: Cluster,
  { beforeMs = BEFORE_MS, afterMs = AFTER_MS }: { readonly beforeMs?: number; readonly afterMs?: number } = {},
): Promise<ScenarioResult> {
  const load = new ClusterLoad(cluster);
  await load.learn();
  await until('all gateways see each other', () => cluster.isWhole(), PATIENCE_MS);
  const before = await cluster.truth();
  const startMs = performance.now();
  load.start();
  const course = new Course(cluster, load);
  try {
    await sleep(beforeMs);
    await scenario.run(course);
    await sleep(afterMs);
  } finally {
    await load.stop();
  }
  const seconds = (performance.now() - startMs) / 1000;
  const isAlone = cluster.gateways.some(({ program }) => program.output.includes(ALONE));
  const codes = await cluster.drain();
  const leavesLeases = scenario.leavesLeases === true && course.killed.length > 0;
  if (course.killed.length > 0 && !leavesLeases) await cluster.releaseLeases();
  const comparison = await compareLedger(cluster, load, {
    before,
    leavesLeases,
    killed: course.killed,
    hostsCounted: scenario.killsHost !== true,
  });
  const times = load.firstByteMs.sort((a, b) => a - b);
  const quantile = (q: number): number => Math.round(times[Math.floor(times.length * q)] ?? NaN);
  const wrongCodes = codes.flatMap((code, index) => (code === 0 ? [] : [`gateway-${index + 1} ended with ${code}`]));
  return {
    ...comparison,
    problems: [...comparison.problems, ...wrongCodes],
    ...{ name: scenario.name, title: scenario.title, excess: scenario.excess, isAlone, seconds: Math.round(seconds) },
    ...{ sent: load.sent, failed: load.failed, failures: Object.fromEntries(load.failures) },
    ...{ lost: load.lostRequests, refusals: Object.fromEntries(load.refusals), overshoot: load.overshoot() },
    recoveryMs: course.recoveriesMs.length === 0 ? null : Math.round(Math.max(...course.recoveriesMs)),
    firstByteP50Ms: quantile(0.5),
    firstByteP99Ms: quantile(0.99),
  };
}
