// Which worker of an engine is asked next: the least busy of those that are well. One that failed is left alone for a
// while, longer each time, and then tried by one search at a time. Known to one thread only; errands call it.

import type { Clock } from '../actor/index.ts';

const FIRST_MS = 5000;
const MOST_MS = 120_000;

interface Worker {
  load: number;
  /** In a row. */
  failures: number;
  restsUntilMs: number;
}

export class WorkerPicker {
  readonly #workers: Worker[];
  readonly #clock: Clock;
  readonly #random: () => number;

  constructor(workers: number, clock: Clock, random: () => number) {
    this.#workers = Array.from({ length: workers }, () => ({ load: 0, failures: 0, restsUntilMs: 0 }));
    this.#clock = clock;
    this.#random = random;
  }

  /** The worker to ask, none of `except`; where none is well, the one whose rest ends first. -1: there is no other. */
  pick(except: ReadonlySet<number>): number {
    const nowMs = this.#clock.now();
    const start = Math.floor(this.#random() * this.#workers.length);
    let best = -1;
    for (let i = 0; i < this.#workers.length; i++) {
      const index = (start + i) % this.#workers.length;
      if (!except.has(index) && (best < 0 || this.#isBetter(index, best, nowMs))) best = index;
    }
    // Whoever picks a worker that has rested tries it for all.
    if (best >= 0) this.#rest(best, nowMs);
    return best;
  }

  began(index: number): void {
    this.#at(index).load++;
  }

  ended(index: number): void {
    this.#at(index).load--;
  }

  succeeded(index: number): void {
    Object.assign(this.#at(index), { failures: 0, restsUntilMs: 0 });
  }

  failed(index: number): void {
    this.#at(index).failures++;
    this.#rest(index, this.#clock.now());
  }

  #isBetter(index: number, than: number, nowMs: number): boolean {
    const [one, other] = [this.#at(index), this.#at(than)];
    const rests = Math.max(one.restsUntilMs, nowMs) - Math.max(other.restsUntilMs, nowMs);
    return rests === 0 ? one.load < other.load : rests < 0;
  }

  #rest(index: number, nowMs: number): void {
    const worker = this.#at(index);
    if (worker.failures === 0) return;
    worker.restsUntilMs = nowMs + Math.min(FIRST_MS * 2 ** Math.min(worker.failures - 1, 30), MOST_MS);
  }

  #at(index: number): Worker {
    return this.#workers[index] as Worker;
  }
}
