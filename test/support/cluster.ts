// Several gateways for tests: PostgreSQL, an engine (Redis or Valkey), three model hosts and three gateways, each a process of its
// own, with accounts, keys and prices. What hosts count is the truth that the ledger is compared with at the end.

import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { COMPILE_CACHE } from './compile-cache.ts';
import { systemClock } from '../../src/actor/index.ts';
import type { Overview } from '../../src/admin/overview.ts';
import { hashKey, type Ledger } from '../../src/billing/index.ts';
import { openLedger } from '../../src/billing/main-thread.ts';
import type { KeyLimits } from '../../src/billing/ledger/ledger.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import type { ClusterNetwork, Place } from './cluster-network.ts';
import { PRICING, USD } from './ledger-fixture.ts';
import { postgresDatabase, type PostgresServer, startPostgres } from './postgres.ts';
import { engineProgram } from './redis.ts';
import { BIN } from './system-cli.ts';
import { MODEL, until } from './system.ts';

const SCHEMA: URL = new URL('../../../headrace.schema.json', import.meta.url);

/** Credit of each account. */
export const GRANT: bigint = 1000n * USD;

const ADMIN_TOKEN = 'cluster-tests-admin-token';

/** How long anything may take that is going to happen, in milliseconds: on a busy machine a gateway starts in half a minute. */
export const PATIENCE_MS = 120_000;

/** Where Debian keeps the library that shifts clocks. */
const FAKETIME = '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1';

/** A customer of the cluster. */
export interface Customer {
  readonly account: string;
  readonly key: string;
  readonly limits: KeyLimits;
}

/** Accounts without limits, and one for each limit of a key. */
export const CUSTOMERS: readonly Customer[] = [
  { account: 'acme', key: 'hr_acme', limits: {} },
  { account: 'borealis', key: 'hr_borealis', limits: {} },
  { account: 'cygnet', key: 'hr_cygnet', limits: {} },
  { account: 'by-requests', key: 'hr_by_requests', limits: { requestsPerMinute: 60 } },
  { account: 'by-tokens', key: 'hr_by_tokens', limits: { tokensPerMinute: 6000 } },
  { account: 'by-running', key: 'hr_by_running', limits: { runningRequests: 3 } },
  { account: 'by-spending', key: 'hr_by_spending', limits: { monthlySpend: `${USD / 200n}` } },
];

/** A program that can be started again with the same arguments. */
class Program {
  readonly name: string;
  readonly #log: string;
  readonly #command: readonly string[];
  readonly #env: Readonly<Record<string, string>>;
  #child: ChildProcess | null = null;
  #exited: Promise<number | null> = Promise.resolve(null);

  constructor(name: string, folder: string, command: readonly string[], env: Readonly<Record<string, string>> = {}) {
    this.name = name;
    this.#log = join(folder, `${name}.log`);
    this.#command = command;
    this.#env = env;
  }

  get running(): boolean {
    return this.#child !== null && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  start(): void {
    const [command = '', ...args] = this.#command;
    const log = openSync(this.#log, 'a');
    // A clean environment: the test runner's loader is for its own processes alone.
    const child = spawn(command, args, {
      stdio: ['ignore', log, log],
      env: { ...COMPILE_CACHE, PATH: process.env['PATH'] ?? '', ...this.#env },
    });
    closeSync(log);
    this.#child = child;
    this.#exited = new Promise((resolve) => child.once('exit', (code) => resolve(code)));
    programs.add(this);
  }

  signal(name: NodeJS.Signals): void {
    this.#child?.kill(name);
  }

  /** Resolves with the exit code; null after a signal that it does not handle. */
  ended(): Promise<number | null> {
    return this.#exited;
  }

  async kill(): Promise<void> {
    if (this.running) this.signal('SIGKILL');
    await this.#exited;
    programs.delete(this);
  }

  /** What it has printed, over all its starts. */
  get output(): string {
    return existsSync(this.#log) ? readFileSync(this.#log, 'utf8') : '';
  }
}

const programs = new Set<Program>();
process.on('exit', () => {
  for (const program of programs) if (program.running) program.signal('SIGKILL');
});

/** A program that answers HTTP. */
export interface Service {
  readonly program: Program;
  readonly address: string;
  readonly port: number;
}

export interface GatewayService extends Service {
  readonly adminPort: number;
  readonly file: string;
}

export interface ClusterOptions {
  readonly network: ClusterNetwork;
  /** For configurations and logs. */
  readonly folder: string;
  readonly settings?: SettingsInput;
  /** The way to the engine is going to be delayed. */
  readonly delayed?: boolean;
  /** What the wall clock of each gateway is ahead, in seconds. */
  readonly clocks?: readonly number[];
  readonly postgres: PostgresServer;
  /** Time between two tokens of a host, in milliseconds. */
  readonly interTokenMs?: number;
}

/** Starts PostgreSQL at its place in the network. */
export async function startDatabase(network: ClusterNetwork): Promise<PostgresServer> {
  if (network.kind === 'loopback') return startPostgres();
  return startPostgres({ ...network.place('database'), port: await network.port() });
}

/** Counts of a host since its start. */
export interface HostCounts {
  readonly promptTokens: number;
  readonly generatedTokens: number;
}

/** Whether gateways know the setting `cluster`. */
export const HAS_CLUSTER: boolean =
  'cluster' in (JSON.parse(readFileSync(SCHEMA, 'utf8')) as { properties: object }).properties;

/** GET, on a connection of its own; rejects after `timeoutMs`. */
export function ask(
  { address, port }: { readonly address: string; readonly port: number },
  path: string,
  timeoutMs: number = 2000,
): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const headers = { connection: 'close', authorization: `Bearer ${ADMIN_TOKEN}` };
    const request = get({ host: address, port, path, agent: false, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (piece: string) => (text += piece));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
      response.on('error', reject);
    });
    request.setTimeout(timeoutMs, () => request.destroy(new Error(`no answer within ${timeoutMs} ms`)));
    request.on('error', reject);
  });
}

interface Parts {
  readonly network: ClusterNetwork;
  readonly gateways: readonly GatewayService[];
  readonly hosts: readonly Service[];
  readonly engine: Service;
  readonly postgres: PostgresServer;
  readonly ledger: Ledger;
}

/** What the admin listener of a gateway shows; null when it does not answer. */
async function overviewOf({ address, adminPort }: GatewayService): Promise<Overview | null> {
  const answer = await ask({ address, port: adminPort }, '/overview').catch(() => null);
  return answer?.status === 200 ? (JSON.parse(answer.text) as Overview) : null;
}

export class Cluster implements Parts {
  readonly network: ClusterNetwork;
  readonly gateways: readonly GatewayService[];
  readonly hosts: readonly Service[];
  readonly engine: Service;
  readonly postgres: PostgresServer;
  readonly ledger: Ledger;

  private constructor(parts: Parts) {
    ({
      network: this.network,
      gateways: this.gateways,
      hosts: this.hosts,
      engine: this.engine,
      postgres: this.postgres,
      ledger: this.ledger,
    } = parts);
  }

  /** Starts everything but PostgreSQL, and waits until all gateways are ready; what it has started ends if one is not. */
  static async start(options: ClusterOptions): Promise<Cluster> {
    const { network, folder, postgres, settings, delayed = false, clocks = [] } = options;
    mkdirSync(folder, { recursive: true });
    const program = (name: string, place: Place, command: string[], env?: Record<string, string>): Program =>
      new Program(name, folder, [...place.prefix, ...command], env);

    const enginePlace = network.place('engine');
    const enginePort = await network.port();
    const engine: Service = {
      program: program('engine', enginePlace, [
        engineProgram(),
        ...['--bind', enginePlace.address, '--port', `${enginePort}`, '--protected-mode', 'no'],
        ...['--save', '', '--appendonly', 'no', '--dir', folder],
      ]),
      address: enginePlace.address,
      port: enginePort,
    };
    const engineAt = await network.engineAt(enginePort, delayed);

    const hosts = await Promise.all(
      [1, 2, 3].map(async (index): Promise<Service> => {
        const name = `host-${index}`;
        const place = network.place(name);
        const port = await network.port();
        const pace = ['--ttft', '10', '--itl', `${options.interTokenMs ?? 8}`];
        const args = ['host', '--model', MODEL, '--listen', `${place.address}:${port}`, '--name', name, ...pace];
        return { program: program(name, place, [process.execPath, BIN, ...args]), address: place.address, port };
      }),
    );

    const store = await postgresDatabase(postgres.url);

    const gateways = await Promise.all(
      [1, 2, 3].map(async (index): Promise<GatewayService> => {
        const name = `gateway-${index}`;
        const place = network.place(name);
        const [port, adminPort] = [await network.port(), await network.port()];
        const file = join(folder, `${name}.json`);
        writeFileSync(
          file,
          JSON.stringify({
            listen: `${place.address}:${port}`,
            admin: `${place.address}:${adminPort}`,
            adminToken: ADMIN_TOKEN,
            threads: 1,
            store,
            ...(HAS_CLUSTER && { cluster: { url: `redis://${engineAt.address}:${engineAt.port}` } }),
            models: {
              [MODEL]: { servers: hosts.map((host) => `http://${host.address}:${host.port}`), pricing: PRICING },
            },
            health: { interval: '500ms' },
            timeouts: { unready: '1s', drain: '20s' },
            costLog: { requests: 'all' },
            log: { level: 'info' },
            ...settings,
          }),
        );
        const ahead = clocks[index - 1] ?? 0;
        // The monotonic clock stays as it is: clocks of machines differ, the length of a second does not.
        const shifted = {
          LD_PRELOAD: FAKETIME,
          FAKETIME: `${ahead < 0 ? '' : '+'}${ahead}s`,
          DONT_FAKE_MONOTONIC: '1',
        };
        const env = { HEADRACE_STORE: store, ...(ahead !== 0 && shifted) };
        const args = [process.execPath, BIN, 'serve', '--config', file];
        return { program: program(name, place, args, env), address: place.address, port, adminPort, file };
      }),
    );
    if (clocks.some((ahead) => ahead !== 0) && !existsSync(FAKETIME))
      throw new Error('Clocks that differ need libfaketime: install the Debian package faketime.');
    const dateMs = (): number => Date.now();
    const ledger = await openLedger(store, { clock: systemClock, dateMs, lingerMs: 0 });
    const cluster = new Cluster({ network, gateways, hosts, engine, postgres, ledger });
    try {
      await cluster.#start();
    } catch (error) {
      await cluster.close();
      throw error;
    }
    return cluster;
  }

  async #start(): Promise<void> {
    for (const { program } of [this.engine, ...this.hosts]) program.start();
    for (const { account, key, limits } of CUSTOMERS) {
      await this.ledger.createAccount({ id: account });
      await this.ledger.createKey({ id: `key-of-${account}`, hash: hashKey(key), prefix: key, account, limits });
      await this.ledger.grant({ id: `grant-${account}`, account, amount: GRANT });
    }
    await Promise.all(this.hosts.map((host) => this.ready(host)));
    for (const { program } of this.gateways) program.start();
    await Promise.all(this.gateways.map((gateway) => this.ready(gateway)));
  }

  /** Waits until a service answers 200 to /health. */
  async ready(service: Service): Promise<void> {
    const { program } = service;
    const isReady = async (): Promise<boolean> => {
      if (!program.running) throw new Error(`${program.name} has ended:\n${program.output.slice(-4000)}`);
      return (await ask(service, '/health').catch(() => null))?.status === 200;
    };
    await until(`${program.name} is ready`, isReady, PATIENCE_MS);
  }

  /** What a host has counted since its start. */
  async counts(host: Service): Promise<HostCounts> {
    const { text } = await ask(host, '/metrics');
    const value = (name: string): number => Number(new RegExp(`^vllm:${name}_total\\S* (\\d+)$`, 'm').exec(text)?.[1]);
    return { promptTokens: value('prompt_tokens'), generatedTokens: value('generation_tokens') };
  }

  /** Sums of what all hosts have counted. */
  async truth(): Promise<HostCounts> {
    const counts = await Promise.all(this.hosts.map((host) => this.counts(host)));
    return {
      promptTokens: counts.reduce((sum, each) => sum + each.promptTokens, 0),
      generatedTokens: counts.reduce((sum, each) => sum + each.generatedTokens, 0),
    };
  }

  /** Stops a gateway as an orchestrator does, and starts its successor once it has ended. Answers with the exit code. */
  async restart(gateway: GatewayService): Promise<number | null> {
    gateway.program.signal('SIGTERM');
    const code = await gateway.program.ended();
    gateway.program.start();
    await this.ready(gateway);
    return code;
  }

  /** Ends all gateways in order, so that everything is charged; answers with their exit codes. */
  async drain(): Promise<(number | null)[]> {
    for (const { program } of this.gateways) if (program.running) program.signal('SIGTERM');
    return Promise.all(
      this.gateways.map(({ program }) => Promise.race([program.ended(), sleep(PATIENCE_MS, -1, { ref: false })])),
    );
  }

  /** Whether the engine answers all gateways, and each sees all others. */
  async isWhole(): Promise<boolean> {
    if (!HAS_CLUSTER) return true;
    const overviews = await Promise.all(this.gateways.map((gateway) => overviewOf(gateway)));
    return overviews.every(
      (overview) =>
        overview?.cluster?.connected === true &&
        overview.cluster.gateways.filter(({ stage }) => stage === 'ready').length === this.gateways.length,
    );
  }

  /** Starts a gateway after all have ended, until it has given back the leases of those that were killed. */
  async releaseLeases(): Promise<void> {
    const [first] = this.gateways;
    first!.program.start();
    await this.ready(first!);
    await until(
      'leases of killed gateways have ended',
      async () => {
        const accounts = await Promise.all(CUSTOMERS.map(({ account }) => this.ledger.account(account)));
        return accounts.every((account) => account?.held === 0n);
      },
      PATIENCE_MS,
    );
    await this.drain();
  }

  /** Ends everything but PostgreSQL. */
  async close(): Promise<void> {
    await this.ledger.close();
    await Promise.all([...this.gateways, ...this.hosts, this.engine].map(({ program }) => program.kill()));
  }
}
