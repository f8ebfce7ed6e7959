// When large bodies of requests, and of answers that are translated whole, are handed over. What is done with one in one go, such as its
// translation, takes 100 ms for each megabyte of many small items; all that have come in the same turn of the event loop would keep every
// other request of the thread waiting for the sum of it, longer than servers are waited for. So a turn hands over one, or several that take
// little time, and accounts take turns.

import { FairQueue, RememberedTime } from './fair-queue.ts';

/** Smaller bodies are handed over at once. */
export const TURN_BYTES: number = 64 * 1024;

/** Time after which a turn hands over no more, in milliseconds. */
const TURN_MS = 2;

export class BodyTurns {
  readonly #waiting = new FairQueue<() => void>(new RememberedTime());
  readonly #now: () => number;
  #goesOn = false;

  /** `now`: milliseconds. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Calls `handOver` in a turn of the account, not before this one ends. It must not throw. */
  add(account: string, bytes: number, handOver: () => void): void {
    this.#waiting.add(account, handOver, bytes);
    this.#goOn();
  }

  #goOn(): void {
    if (this.#goesOn) return;
    this.#goesOn = true;
    setImmediate(() => this.#turn());
  }

  #turn(): void {
    this.#goesOn = false;
    const endMs = this.#now() + TURN_MS;
    do {
      const next = this.#waiting.peek();
      if (next === null) return;
      // Behind what is done with this one, also if that throws.
      if (this.#waiting.size > 1) this.#goOn();
      this.#waiting.take(next)();
    } while (this.#now() < endMs);
  }
}

/** Of this thread. */
export const bodyTurns: BodyTurns = new BodyTurns();
