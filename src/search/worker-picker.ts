// The choice among the workers of an engine.

import type { Clock } from '../actor/index.ts';

const FIRST_BACKOFF_MS = 5000;
const MAX_BACKOFF_MS = 120_000;

interface WorkerState {
  load: number;
  /** In a row. */
  failures: number;
  backoffUntilMs: number;
}

/**
 * Picks the least busy of the workers that are well. One that failed is left out, twice as long after each failure in a
 * row; then one search at a time tries it.
 */
export class WorkerPicker {
  readonly #workers: readonly WorkerState[];
  readonly #clock: Clock;
  readonly #random: () => number;

  constructor(workers: number, clock: Clock, random: () => number) {
    this.#workers = Array.from({ length: workers }, () => ({ load: 0, failures: 0, backoffUntilMs: 0 }));
    this.#clock = clock;
    this.#random = random;
  }

  /** The worker to ask, none of `except`; where none is well, the one that comes back first. -1: there is no other. */
  pick(except: readonly number[]): number {
    const nowMs = this.#clock.now();
    const start = Math.floor(this.#random() * this.#workers.length);
    let best = -1;
    for (let i = 0; i < this.#workers.length; i++) {
      const index = (start + i) % this.#workers.length;
      if (!except.includes(index) && (best < 0 || this.#isBetter(index, best, nowMs))) best = index;
    }
    // The search that picks a worker again after its failures tries it for all others.
    if (best >= 0) this.#backOff(best, nowMs);
    return best;
  }

  began(index: number): void {
    this.#at(index).load++;
  }

  ended(index: number): void {
    this.#at(index).load--;
  }

  succeeded(index: number): void {
    const worker = this.#at(index);
    worker.failures = 0;
    worker.backoffUntilMs = 0;
  }

  failed(index: number): void {
    this.#at(index).failures++;
    this.#backOff(index, this.#clock.now());
  }

  #isBetter(index: number, than: number, nowMs: number): boolean {
    const [one, other] = [this.#at(index), this.#at(than)];
    const later = Math.max(one.backoffUntilMs, nowMs) - Math.max(other.backoffUntilMs, nowMs);
    return later === 0 ? one.load < other.load : later < 0;
  }

  #backOff(index: number, nowMs: number): void {
    const worker = this.#at(index);
    if (worker.failures === 0) return;
    const backoffMs = FIRST_BACKOFF_MS * 2 ** Math.min(worker.failures - 1, 30);
    worker.backoffUntilMs = nowMs + Math.min(backoffMs, MAX_BACKOFF_MS);
  }

  #at(index: number): WorkerState {
    return this.#workers[index] as WorkerState;
  }
}
