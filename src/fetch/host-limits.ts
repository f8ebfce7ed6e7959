// Limits on outgoing requests: concurrency in total and per host, a delay between two starts at one host, and a bounded
// queue of waiting requests.

import type { Clock, TimerHandle } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import { HeadraceError } from '../errors.ts';

/** `queue` bounds the waiting requests. */
export type HostLimitSettings = Pick<Settings['fetch'], 'concurrency' | 'perHost' | 'hostDelayMs' | 'queue'>;

/** Gives a slot back; further calls do nothing. */
export type Release = () => void;

interface Host {
  running: number;
  /** When the next request may start. */
  startMs: number;
}

interface Waiter {
  readonly host: string;
  readonly start: () => void;
}

export class HostLimits {
  readonly #clock: Clock;
  #settings: HostLimitSettings;
  readonly #hosts = new Map<string, Host>();
  #waiting: Waiter[] = [];
  #running = 0;
  #timer: TimerHandle | null = null;

  constructor(settings: HostLimitSettings, clock: Clock) {
    this.#settings = settings;
    this.#clock = clock;
  }

  configure(settings: HostLimitSettings): void {
    this.#settings = settings;
    this.#startWaiting();
  }

  /**
   * A slot for a request to `host`, at once or as soon as there is one. First come, first served per host; nobody waits
   * for another host. Fails with `HR_FETCH_BUSY` when the queue is full, or with the reason of `signal`.
   */
  acquire(host: string, signal: AbortSignal): Release | Promise<Release> {
    signal.throwIfAborted();
    if (this.#admits(host)) return this.#start(host);
    if (this.#waiting.length >= this.#settings.queue)
      throw new HeadraceError('HR_FETCH_BUSY', { headers: ['retry-after', '1'] });
    return this.#wait(host, signal);
  }

  /** Forgets all hosts. Requests in the queue wait until their signals fire. */
  close(): void {
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer);
    this.#timer = null;
    this.#hosts.clear();
  }

  #wait(host: string, signal: AbortSignal): Promise<Release> {
    const { promise, resolve, reject } = Promise.withResolvers<Release>();
    const abort = (): void => {
      this.#waiting = this.#waiting.filter((other) => other !== waiter);
      reject(signal.reason as Error);
    };
    const start = (): void => {
      signal.removeEventListener('abort', abort);
      resolve(this.#start(host));
    };
    const waiter: Waiter = { host, start };
    signal.addEventListener('abort', abort, { once: true });
    this.#waiting.push(waiter);
    this.#startWaiting();
    return promise;
  }

  #admits(name: string): boolean {
    const host = this.#hosts.get(name);
    if (this.#running >= this.#settings.concurrency) return false;
    return host === undefined || (host.running < this.#settings.perHost && host.startMs <= this.#clock.now());
  }

  #start(name: string): Release {
    const host = this.#hosts.get(name) ?? { running: 0, startMs: 0 };
    this.#hosts.set(name, host);
    host.running++;
    host.startMs = this.#clock.now() + this.#settings.hostDelayMs;
    this.#running++;
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      host.running--;
      this.#running--;
      this.#startWaiting();
    };
  }

  /** Starts waiting requests that the limits admit, forgets idle hosts, and sets a timer for the end of the next delay. */
  #startWaiting(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const waiter of waiting) {
      if (this.#admits(waiter.host)) waiter.start();
      else this.#waiting.push(waiter);
    }
    const nowMs = this.#clock.now();
    let nextMs = Infinity;
    for (const [name, { running, startMs }] of this.#hosts) {
      if (startMs > nowMs) nextMs = Math.min(nextMs, startMs);
      else if (running === 0) this.#hosts.delete(name);
    }
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer);
    this.#timer = nextMs === Infinity ? null : this.#clock.setTimeout(() => this.#startWaiting(), nextMs - nowMs);
  }
}
