// Resolves host names that clients choose, such as those of pages to fetch. It asks the name servers itself, with a limit of time,
// and never calls getaddrinfo, which would let slow names occupy the threads that lookups of configured servers need. A lookup that
// ends, for whatever reason, leaves nothing behind: as many are in progress as callers wait.

// The named export of `getServers` does not follow `dns.setServers`.
import dns, { Resolver } from 'node:dns';
import { type Clock, systemClock, type TimerHandle } from '../actor/index.ts';

export interface NameResolverOptions {
  /** Default: the clock of the process. */
  readonly clock?: Clock;
  /** Addresses of name servers, with a port where it is not 53. Default: those of `dns.setServers`, else the present ones of the system. */
  readonly servers?: readonly string[];
}

/** Wait for the first answer of a name server; the second try waits twice as long. */
const TRY_MS = 1500;
const TRIES = 2;
/** Longest time of a lookup, whatever the number of name servers. */
const LOOKUP_MS = 5000;
/** Wait for the addresses of the other family when one has come (RFC 8305 §3 waits 50 ms). */
const OTHER_FAMILY_MS = 100;
/** Addresses of each family that count. A name may have thousands, of hosts that have nothing to do with it: each would be checked and tried. */
const MAX_ADDRESSES = 8;
/** Channels that are kept for later lookups, and for how long, in milliseconds: a channel keeps the name servers that the system had when it was made. */
const IDLE_CHANNELS = 32;
const CHANNEL_MS = 60_000;

/** Name servers of the system at the start: while `dns.getServers` gives these, the program has set none. */
const FIRST_SERVERS = new Resolver().getServers();

interface Channel {
  readonly resolver: Resolver;
  readonly untilMs: number;
}

/** The hosts file and search domains do not count: names are complete, and what they mean to this machine is not the client's. */
export class NameResolver {
  readonly #clock: Clock;
  readonly #servers: readonly string[] | undefined;
  /** Channels without a lookup. One lookup has a channel to itself, since only all questions of a channel can be cancelled. */
  readonly #idle: Channel[] = [];
  readonly #busy = new Set<Resolver>();

  constructor({ clock = systemClock, servers }: NameResolverOptions = {}) {
    this.#clock = clock;
    this.#servers = servers;
  }

  /**
   * The addresses of a name, IPv4 first, at most eight of each family. Rejects with an error whose `code` is one of `node:dns`: `ENOTFOUND` or `ENODATA` when there is
   * none, `ETIMEOUT` after 5 s, `ECANCELLED` when `signal` fires.
   */
  async resolve(hostname: string, signal?: AbortSignal): Promise<readonly string[]> {
    const channel = this.#take();
    const { resolver } = channel;
    const cancel = (): void => resolver.cancel();
    this.#busy.add(resolver);
    signal?.addEventListener('abort', cancel, { once: true });
    try {
      return await new Promise<readonly string[]>((resolve, reject) => {
        const query = new Query(this.#clock, resolve, reject);
        resolver.resolve4(hostname, (error, addresses) => query.answer(0, error, addresses));
        resolver.resolve6(hostname, (error, addresses) => query.answer(1, error, addresses));
        if (signal?.aborted === true) cancel();
      });
    } finally {
      signal?.removeEventListener('abort', cancel);
      // Ends a question that has no answer yet.
      resolver.cancel();
      this.#busy.delete(resolver);
      if (this.#idle.length < IDLE_CHANNELS) this.#idle.push(channel);
    }
  }

  /** Lookups in progress. */
  get size(): number {
    return this.#busy.size;
  }

  /** Fails all lookups in progress with `ECANCELLED`. */
  close(): void {
    for (const resolver of this.#busy) resolver.cancel();
  }

  #take(): Channel {
    const nowMs = this.#clock.now();
    const idle = this.#idle.pop();
    if (idle !== undefined && nowMs < idle.untilMs) return idle;
    // Most of the others are as old.
    this.#idle.length = 0;
    const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES });
    const servers = this.#servers ?? dns.getServers();
    if (servers.join() !== FIRST_SERVERS.join()) resolver.setServers(servers);
    return { resolver, untilMs: nowMs + CHANNEL_MS };
  }
}

/** The two questions about one name. */
class Query {
  readonly #clock: Clock;
  readonly #resolve: (addresses: readonly string[]) => void;
  readonly #reject: (error: Error) => void;
  readonly #addresses: [four: readonly string[], six: readonly string[]] = [[], []];
  #unanswered = 2;
  #error: NodeJS.ErrnoException | null = null;
  #timer: TimerHandle;

  constructor(clock: Clock, resolve: (addresses: readonly string[]) => void, reject: (error: Error) => void) {
    this.#clock = clock;
    this.#resolve = resolve;
    this.#reject = reject;
    const late = (): void =>
      reject(Object.assign(new Error('no answer of the name servers in time'), { code: 'ETIMEOUT' }));
    this.#timer = clock.setTimeout(late, LOOKUP_MS);
  }

  answer(family: 0 | 1, error: NodeJS.ErrnoException | null, addresses: readonly string[] | undefined): void {
    this.#unanswered--;
    if (addresses !== undefined) this.#addresses[family] = addresses.slice(0, MAX_ADDRESSES);
    // That a name server is silent says more than that there is no address of the other family.
    if (error !== null && (this.#error === null || isAbsent(this.#error))) this.#error = error;
    if (this.#unanswered === 0) {
      this.#end();
    } else if (this.#addresses[family].length > 0) {
      this.#clock.clearTimeout(this.#timer);
      const end = (): void => this.#end();
      this.#timer = this.#clock.setTimeout(end, OTHER_FAMILY_MS);
    }
  }

  #end(): void {
    this.#clock.clearTimeout(this.#timer);
    const addresses = this.#addresses.flat();
    if (addresses.length > 0 || this.#error === null) this.#resolve(addresses);
    else this.#reject(this.#error);
  }
}

function isAbsent({ code }: NodeJS.ErrnoException): boolean {
  return code === 'ENOTFOUND' || code === 'ENODATA';
}
