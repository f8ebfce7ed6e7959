// Source of servers: the addresses of a DNS name, or its SRV records (RFC 2782) and the addresses of their targets. Asked again when the
// first TTL ends. While name servers fail, the addresses that each name had last stay in force; a name without any addresses
// keeps its last ones for half a minute.

import { Resolver } from 'node:dns';
import pLimit from 'p-limit';
import type { Behavior, Context } from '../actor/index.ts';
import { asksForSrv, type DiscoverySourceSettings, LEAST_WEIGHT, MOST_WEIGHT } from '../config/settings.ts';
import { messageOf } from '../errors.ts';
import type { FoundModels, ServerDetails } from '../routing/index.ts';
import { Backoff, baseUrl, type SourceDeps } from './source.ts';

export type DnsSourceSettings = Extract<DiscoverySourceSettings, { readonly kind: 'dns' }> & {
  /** Time between two queries of SRV records, whose TTL is not known. */
  readonly intervalMs: number;
};

type Command =
  | { readonly type: 'Resolve' }
  | { readonly type: 'Resolved'; readonly round: Round }
  | { readonly type: 'Failed'; readonly problem: string };

/** Bounds of TTLs: 0 would ask without a pause, and a day would keep servers that are long gone. */
const LEAST_TTL_MS = 1000;
const MOST_TTL_MS = 5 * 60_000;
/** Interval of queries while a name has no records. */
const ABSENT_MS = 5000;
/** Time for which a name must have no records before its servers are given up, as for names of configured servers. */
const GONE_MS = 30_000;

/** Wait for a name server, and tries. */
const TRY_MS = 1500;
const TRIES = 2;
/** Names that are looked up at a time. */
const LOOKUPS = 16;
/** More targets of SRV records than this are left out: the board has no cells for more servers. */
const MOST_TARGETS = 1024;

interface Target {
  readonly name: string;
  readonly port: number;
  readonly weight: number;
}

/** What one round of queries has found. */
interface Round {
  readonly servers: readonly ServerDetails[];
  /** Until the first TTL of an answer ends; Infinity without records. */
  readonly ttlMs: number;
  /** Why a query failed; null when all were answered. */
  readonly problem: string | null;
  readonly notes: readonly string[];
}

interface Addresses {
  readonly list: readonly string[];
  readonly ttlMs: number;
}

const NO_ADDRESSES: Addresses = { list: [], ttlMs: Infinity };

/** Makes the behaviour of the source. */
export function dnsSource(settings: DnsSourceSettings, deps: SourceDeps): Behavior<Command> {
  return (context) => {
    const source = new DnsSource(settings, deps, context);
    source.resolve();
    return {
      receive: (command) => {
        source.receive(command);
      },
      signal: () => source.close(),
    };
  };
}

class DnsSource {
  readonly #settings: DnsSourceSettings;
  readonly #deps: SourceDeps;
  readonly #context: Context<Command>;
  readonly #backoff: Backoff;
  /** Of the present round: a resolver keeps the name servers of the system that were there when it was made. */
  #resolver!: Resolver;
  readonly #limit = pLimit(LOOKUPS);
  /** By family and name: the last addresses of each, for the time when its query fails. */
  #last = new Map<string, Addresses>();
  #servers: readonly ServerDetails[] = [];
  /** Since when the name has no records, in milliseconds; null while it has some. */
  #absentSinceMs: number | null = null;

  constructor(settings: DnsSourceSettings, deps: SourceDeps, context: Context<Command>) {
    this.#settings = settings;
    this.#deps = deps;
    this.#context = context;
    this.#backoff = new Backoff(context.random);
  }

  close(): void {
    this.#limit.clearQueue();
    this.#resolver.cancel();
  }

  resolve(): void {
    this.#resolver = resolverOf(this.#settings);
    this.#context.pipe(
      this.#lookUp(),
      (round) => ({ type: 'Resolved', round }),
      (error) => ({ type: 'Failed', problem: messageOf(error) }),
    );
  }

  receive(command: Command): void {
    if (command.type === 'Resolve') this.resolve();
    else if (command.type === 'Failed') this.#failed(command.problem);
    else this.#resolved(command.round);
  }

  #failed(problem: string): void {
    // Nobody said meanwhile that there are none.
    this.#absentSinceMs = null;
    this.#deps.onFailure(problem);
    this.#askAgain(this.#backoff.next());
  }

  #resolved({ notes, problem, servers, ttlMs }: Round): void {
    const nowMs = this.#context.clock.now();
    if (servers.length === 0 && problem !== null) {
      this.#failed(problem);
      return;
    }
    if (servers.length > 0) {
      this.#absentSinceMs = null;
      this.#servers = servers;
      this.#answer(notes, problem);
    } else {
      this.#absentSinceMs ??= nowMs;
      const { name } = this.#settings;
      const isGone = this.#servers.length === 0 || nowMs - this.#absentSinceMs >= GONE_MS;
      if (isGone) {
        this.#servers = [];
        this.#answer([`${name} has no records`], null);
      } else {
        this.#deps.onFailure(`${name} has no records; its last servers stay for ${GONE_MS / 1000} s`);
      }
    }
    const dueMs = Math.min(servers.length === 0 ? ABSENT_MS : MOST_TTL_MS, Math.max(LEAST_TTL_MS, ttlMs));
    if (problem === null) this.#backoff.reset();
    // What was answered is old when its TTL ends, whatever else fails.
    this.#askAgain(problem === null ? dueMs : Math.min(dueMs, this.#backoff.next()));
  }

  #askAgain(delayMs: number): void {
    this.#context.timers.once('resolve', delayMs, { type: 'Resolve' });
  }

  #answer(notes: readonly string[], problem: string | null): void {
    const { aliases = [], model } = this.#settings;
    const servers = this.#servers;
    const found: FoundModels = new Map(servers.length === 0 ? [] : [[model, { servers, aliases }]]);
    this.#deps.onAnswer(found, notes, problem);
  }

  async #lookUp(): Promise<Round> {
    const { intervalMs, name, port = 0 } = this.#settings;
    const isSrv = asksForSrv(this.#settings);
    const targets = isSrv ? await this.#targets(name) : [{ name, port, weight: 1 }];
    const last = this.#last;
    this.#last = new Map();
    const problems: string[] = [];
    const found = await Promise.all(
      targets.slice(0, MOST_TARGETS).map((target) =>
        this.#limit(async () => {
          const families = await Promise.all(
            this.#families.map((family) => this.#addresses(target.name, family, last, problems)),
          );
          return { target, families };
        }),
      ),
    );
    const servers = new Map<string, ServerDetails>();
    let ttlMs = isSrv ? intervalMs : Infinity;
    for (const { families, target } of found) {
      for (const { list, ttlMs: ownMs } of families) {
        ttlMs = Math.min(ttlMs, ownMs);
        for (const address of list) {
          const server = this.#server(address, target);
          if (!servers.has(server.url)) servers.set(server.url, server);
        }
      }
    }
    const left = targets.length - MOST_TARGETS;
    return {
      // Name servers give the records of a name in turn.
      servers: [...servers.values()].sort((a, b) => (a.url < b.url ? -1 : 1)),
      ttlMs,
      problem: problems[0] ?? null,
      notes: left > 0 ? [`${left} SRV records of ${name} are left out: at most ${MOST_TARGETS} are used`] : [],
    };
  }

  get #families(): readonly (4 | 6)[] {
    const { family } = this.#settings;
    return family === 'all' ? [4, 6] : [family === 'ipv4' ? 4 : 6];
  }

  /** The addresses of a name; those that it had last when the query fails. */
  async #addresses(
    name: string,
    family: 4 | 6,
    last: ReadonlyMap<string, Addresses>,
    problems: string[],
  ): Promise<Addresses> {
    const key = `${family} ${name}`;
    let addresses: Addresses;
    try {
      const records = await this.#query(name, family);
      const ttls = records.map(({ ttl }) => ttl * 1000);
      addresses = { list: records.map(({ address }) => address), ttlMs: Math.min(Infinity, ...ttls) };
    } catch (error) {
      if (isAbsent(error)) return NO_ADDRESSES;
      problems.push(problemOf(name, error));
      addresses = { ...(last.get(key) ?? NO_ADDRESSES), ttlMs: Infinity };
    }
    this.#last.set(key, addresses);
    return addresses;
  }

  #query(name: string, family: 4 | 6): Promise<readonly { readonly address: string; readonly ttl: number }[]> {
    return new Promise((resolve, reject) => {
      const answered = (
        error: Error | null,
        records: readonly { readonly address: string; readonly ttl: number }[],
      ): void => {
        if (error === null) resolve(records);
        else reject(error);
      };
      if (family === 4) this.#resolver.resolve4(name, { ttl: true }, answered);
      else this.#resolver.resolve6(name, { ttl: true }, answered);
    });
  }

  /**
   * Weights are relative to their mean, so that they say the same whatever their size. Servers of the lowest priority share the
   * load; the others have the least weight: they get requests when those are down.
   */
  async #targets(name: string): Promise<readonly Target[]> {
    let records;
    try {
      records = await new Promise<readonly { name: string; port: number; priority: number; weight: number }[]>(
        (resolve, reject) => {
          this.#resolver.resolveSrv(name, (error, found) => (error === null ? resolve(found) : reject(error)));
        },
      );
    } catch (error) {
      if (isAbsent(error)) return [];
      throw new Error(problemOf(name, error), { cause: error });
    }
    // A target of "." says that the service is not there (RFC 2782).
    const offered = records
      .filter((record) => record.name !== '' && record.name !== '.' && record.port > 0)
      // Name servers give them in turn, and of several for one server the first counts.
      .sort((a, b) => a.priority - b.priority || b.weight - a.weight || (a.name < b.name ? -1 : 1));
    const first = Math.min(...offered.map(({ priority }) => priority));
    const preferred = offered.filter(({ priority }) => priority === first);
    const mean = preferred.reduce((sum, { weight }) => sum + weight, 0) / preferred.length;
    return offered.map(({ name: target, port, priority, weight }) => ({
      name: target,
      port,
      weight: priority > first ? 0 : mean === 0 ? 1 : weight / mean,
    }));
  }

  #server(address: string, { name, port, weight: share }: Target): ServerDetails {
    const { apiKey, dialects, host, scheme, weight = 1 } = this.#settings;
    const asked = host ?? (scheme === 'https' ? name.replace(/\.$/, '') : undefined);
    const own = Math.min(MOST_WEIGHT, Math.max(LEAST_WEIGHT, Math.round(weight * share * 1000) / 1000));
    return {
      url: baseUrl(scheme, address, port),
      ...(dialects !== undefined && { dialects }),
      ...(apiKey !== undefined && { apiKey }),
      ...(own !== 1 && { weight: own }),
      ...(asked !== undefined && { host: asked }),
    };
  }
}

function resolverOf({ nameServers }: DnsSourceSettings): Resolver {
  const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES });
  if (nameServers.length > 0) resolver.setServers(nameServers);
  return resolver;
}

function isAbsent(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOTFOUND' || code === 'ENODATA';
}

const REASONS: Readonly<Record<string, string>> = {
  ETIMEOUT: 'no name server answered in time',
  ECONNREFUSED: 'no name server can be reached',
  ESERVFAIL: 'the name server failed (SERVFAIL)',
  EREFUSED: 'the name server refused the query (REFUSED)',
};

function problemOf(name: string, error: unknown): string {
  const { code = '' } = error as NodeJS.ErrnoException;
  return `${name}: ${REASONS[code] ?? messageOf(error)}`;
}
