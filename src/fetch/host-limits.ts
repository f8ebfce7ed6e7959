// Limits on outgoing requests: concurrency in total and per host, a delay between two starts at one host, and a bounded queue of
// waiting requests, served by turns between accounts. One account never takes the last slot, neither of a host nor in total, so that
// its slow pages keep nobody else waiting.

import type { Clock, TimerHandle } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import { HeadraceError } from '../errors.ts';
import { type FairEntry, FairQueue, RememberedTime } from '../routing/index.ts';

/** `queue` bounds the waiting requests. */
export type HostLimitSettings = Pick<Settings['fetch'], 'concurrency' | 'perHost' | 'hostDelayMs' | 'queue'>;

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
}

interface Waiter {
  readonly account: string;
  readonly host: string;
  readonly start: () => void;
}

export class HostLimits {
  readonly #clock: Clock;
  #settings: HostLimitSettings;
  readonly #hosts = new Map<string, Host>();
  readonly #waiting = new FairQueue<Waiter>(new RememberedTime());
  readonly #fits = ({ account, host }: Waiter): boolean => this.#admits(account, host);
  readonly #running = new Running();
  #refused = 0;
  #timer: TimerHandle | null = null;

  constructor(settings: HostLimitSettings, clock: Clock) {
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
    const host = this.#hosts.get(name);
    return host === undefined || (host.running.admits(account, perHost) && host.startMs <= this.#clock.now());
  }

  #start(account: string, name: string): Release {
    const host = this.#hosts.get(name) ?? { running: new Running(), startMs: 0 };
    this.#hosts.set(name, host);
    host.running.add(account, 1);
    host.startMs = this.#clock.now() + this.#settings.hostDelayMs;
    this.#running.add(account, 1);
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      host.running.add(account, -1);
      this.#running.add(account, -1);
      this.#startWaiting();
    };
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
    let nextMs = Infinity;
    for (const [name, { running, startMs }] of this.#hosts) {
      if (startMs > nowMs) nextMs = Math.min(nextMs, startMs);
      else if (running.total === 0) this.#hosts.delete(name);
    }
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer);
    this.#timer = nextMs === Infinity ? null : this.#clock.setTimeout(() => this.#startWaiting(), nextMs - nowMs);
  }
}
