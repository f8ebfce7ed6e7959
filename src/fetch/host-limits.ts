// Limits on outgoing requests: concurrency in total and per host, a delay between two starts at one host, and a bounded queue of
// waiting requests, served by turns between accounts. One account never takes the last slot, neither of a host nor in total, so that
// its slow pages keep nobody else waiting. The limits of a host hold over all gateways.

import type { Clock, TimerHandle } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import { HeadraceError } from '../errors.ts';
import { createPlaceMemory, type FairEntry, FairQueue, PlaceCounts, RememberedTime } from '../routing/index.ts';

/** `queue` bounds the waiting requests. */
export type HostLimitSettings = Pick<Settings['fetch'], 'concurrency' | 'perHost' | 'hostDelayMs' | 'queue'>;

/** What this gateway and the others count of each host. */
export interface HostCounts {
  /** Requests that run. */
  readonly running: PlaceCounts;
  /** 1 for each gateway that waits for the delay between two requests. */
  readonly delays: PlaceCounts;
}

/** How often a gateway in which requests wait looks whether others have given slots back. */
const POLL_MS = 20;

/** Gives a slot back; further calls do nothing. */
export type Release = () => void;

/** Requests that run, in total and of each account. */
class Running {
  total = 0;
  readonly #accounts = new Map<string, number>();

  /** Whether one more request of `account` keeps both limits: of one account, the last slot is for others. */
  admits(account: string, limit: number): boolean {
    return this.total < limit && (this.#accounts.get(account) ?? 0) < Math.max(1, limit - 1);
  }

  add(account: string, change: 1 | -1): void {
    const count = (this.#accounts.get(account) ?? 0) + change;
    if (count > 0) this.#accounts.set(account, count);
    else this.#accounts.delete(account);
    this.total += change;
  }
}

interface Host {
  readonly running: Running;
  /** When the next request may start. */
  startMs: number;
  /** Its counter of delays while it is set; null: the delay is over. */
  delay: number | null;
}

interface Waiter {
  readonly account: string;
  readonly host: string;
  readonly start: () => void;
}

export class HostLimits {
  readonly #clock: Clock;
  readonly #counts: HostCounts;
  #settings: HostLimitSettings;
  readonly #hosts = new Map<string, Host>();
  readonly #waiting = new FairQueue<Waiter>(new RememberedTime());
  readonly #fits = ({ account, host }: Waiter): boolean => this.#admits(account, host);
  readonly #running = new Running();
  #refused = 0;
  #timer: TimerHandle | null = null;

  /** `counts`: default of a gateway that is alone. */
  constructor(settings: HostLimitSettings, clock: Clock, counts: HostCounts = ownCounts()) {
    this.#counts = counts;
    this.#settings = settings;
    this.#clock = clock;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Requests that were refused since the start. */
  get refused(): number {
    return this.#refused;
  }

  configure(settings: HostLimitSettings): void {
    this.#settings = settings;
    this.#startWaiting();
  }

  /**
   * A slot for a request to `host`, at once or as soon as there is one. Accounts take turns, and the requests of an account start in
   * their order; nobody waits for another host. Fails with `HR_FETCH_BUSY` when the queue is full, or with the reason of `signal`.
   */
  acquire(account: string, host: string, signal: AbortSignal): Release | Promise<Release> {
    signal.throwIfAborted();
    if (this.#admits(account, host)) return this.#start(account, host);
    if (this.#waiting.size >= this.#settings.queue) {
      this.#refused++;
      throw new HeadraceError('HR_FETCH_BUSY', { headers: ['retry-after', '1'] });
    }
    return this.#wait(account, host, signal);
  }

  /** Forgets all hosts. Requests in the queue wait until their signals fire. */
  close(): void {
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer);
    this.#timer = null;
    for (const host of this.#hosts.values()) this.#endDelay(host);
    this.#hosts.clear();
  }

  #wait(account: string, host: string, signal: AbortSignal): Promise<Release> {
    const { promise, resolve, reject } = Promise.withResolvers<Release>();
    const start = (): void => {
      signal.removeEventListener('abort', abort);
      resolve(this.#start(account, host));
    };
    const entry: FairEntry<Waiter> = this.#waiting.add(account, { account, host, start }, 1);
    const abort = (): void => {
      this.#waiting.remove(entry);
      reject(signal.reason as Error);
    };
    signal.addEventListener('abort', abort, { once: true });
    this.#setTimer();
    return promise;
  }

  #admits(account: string, name: string): boolean {
    const { concurrency, perHost } = this.#settings;
    if (!this.#running.admits(account, concurrency)) return false;
    const { running } = this.#counts;
    const places = running.isShared ? running.placesOf(running.cellOf(name), perHost) : perHost;
    const host = this.#hosts.get(name);
    if (host === undefined) return places > 0;
    return host.running.admits(account, places) && host.startMs <= this.#clock.now();
  }

  #start(account: string, name: string): Release {
    const { running } = this.#counts;
    const host = this.#hosts.get(name) ?? { running: new Running(), startMs: 0, delay: null };
    const cell = running.cellOf(name);
    this.#hosts.set(name, host);
    host.running.add(account, 1);
    running.add(cell, 1);
    this.#delay(name, host);
    this.#running.add(account, 1);
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      host.running.add(account, -1);
      running.add(cell, -1);
      this.#running.add(account, -1);
      this.#startWaiting();
    };
  }

  /** Begins the delay, which is longer by as much for each other gateway that also has one. */
  #delay(name: string, host: Host): void {
    const { hostDelayMs } = this.#settings;
    const { delays } = this.#counts;
    if (hostDelayMs === 0) return;
    host.delay ??= this.#counted(delays, name);
    host.startMs = this.#clock.now() + hostDelayMs * (1 + delays.siblings(host.delay));
  }

  #counted(counts: PlaceCounts, name: string): number {
    const cell = counts.cellOf(name);
    counts.add(cell, 1);
    return cell;
  }

  #endDelay(host: Host): void {
    if (host.delay !== null) this.#counts.delays.add(host.delay, -1);
    host.delay = null;
  }

  /** Starts waiting requests that the limits admit, forgets idle hosts, and sets a timer for the end of the next delay. */
  #startWaiting(): void {
    for (;;) {
      const next = this.#waiting.peek(this.#fits);
      if (next === null) break;
      this.#waiting.take(next).start();
    }
    this.#setTimer();
  }

  #setTimer(): void {
    const nowMs = this.#clock.now();
    let nextMs = this.#waiting.size > 0 && this.#counts.running.isShared ? nowMs + POLL_MS : Infinity;
    for (const [name, host] of this.#hosts) {
      const { running, startMs } = host;
      if (startMs > nowMs) nextMs = Math.min(nextMs, startMs);
      else this.#endDelay(host);
      if (startMs <= nowMs && running.total === 0) this.#hosts.delete(name);
    }
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer);
    this.#timer = nextMs === Infinity ? null : this.#clock.setTimeout(() => this.#startWaiting(), nextMs - nowMs);
  }
}

function ownCounts(): HostCounts {
  return { running: new PlaceCounts(createPlaceMemory(1), 0), delays: new PlaceCounts(createPlaceMemory(1), 0) };
}
