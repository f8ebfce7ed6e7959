// Who may ask which host when: so many requests at once in all and to one host, so long between two starts at one host, and
// a bounded line of those who wait. The downloader takes a turn for every hop, redirects and robots.txt included.

import type { Clock, TimerHandle } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import { HeadraceError } from '../errors.ts';

/** `queue` bounds the line. */
export type PolitenessSettings = Pick<Settings['fetch'], 'concurrency' | 'perHost' | 'hostDelayMs' | 'queue'>;

/** Gives a turn back; further calls do nothing. */
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

export class Politeness {
  readonly #clock: Clock;
  #settings: PolitenessSettings;
  readonly #hosts = new Map<string, Host>();
  #waiting: Waiter[] = [];
  #running = 0;
  #timer: TimerHandle | null = null;

  constructor(settings: PolitenessSettings, clock: Clock) {
    this.#settings = settings;
    this.#clock = clock;
  }

  configure(settings: PolitenessSettings): void {
    this.#settings = settings;
    this.#pump();
  }

  /**
   * Resolves when a request to the host may start: first come, first served, but nobody waits for a host of others.
   * Rejects with `HR_FETCH_BUSY` when the line is full, with the reason of the signal when that fires while waiting.
   */
  enter(host: string, signal: AbortSignal): Promise<Release> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const leave = (): void => {
        this.#waiting = this.#waiting.filter((other) => other !== waiter);
        reject(signal.reason as Error);
      };
      const start = (): void => {
        signal.removeEventListener('abort', leave);
        resolve(this.#begin(host));
      };
      const waiter: Waiter = { host, start };
      if (this.#admits(host)) {
        start();
        return;
      }
      if (this.#waiting.length >= this.#settings.queue)
        throw new HeadraceError('HR_FETCH_BUSY', { headers: ['retry-after', '1'] });
      signal.addEventListener('abort', leave, { once: true });
      this.#waiting.push(waiter);
      this.#pump();
    });
  }

  /** Forgets hosts; those who wait go on waiting for their signals. */
  close(): void {
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer);
    this.#timer = null;
    this.#hosts.clear();
  }

  #admits(name: string): boolean {
    const host = this.#hosts.get(name);
    if (this.#running >= this.#settings.concurrency) return false;
    return host === undefined || (host.running < this.#settings.perHost && host.startMs <= this.#clock.now());
  }

  #begin(name: string): Release {
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
      this.#pump();
    };
  }

  /** Starts whoever may, forgets idle hosts, and comes back when the next pause ends. */
  #pump(): void {
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
    this.#timer = nextMs === Infinity ? null : this.#clock.setTimeout(() => this.#pump(), nextMs - nowMs);
  }
}
