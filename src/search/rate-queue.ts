// The wait for an engine's own rate limits, in turns between accounts. Nobody waits who cannot be served within the wait: where there
// are fewer places than requests, the one whose turn comes last is refused at once.

import type { Clock, TimerHandle } from '../actor/index.ts';
import { type FairEntry, FairQueue, RememberedTime } from '../routing/index.ts';
import type { RateLimit } from './engine.ts';
import type { EngineBoard } from './engine-board.ts';

export interface RateQueueOptions {
  readonly board: EngineBoard;
  readonly clock: Clock;
  /** The engine's place on the board. */
  readonly cell: number;
  readonly rates: readonly RateLimit[];
}

/** Before the limits are read again: another thread may have taken the place. */
const LEAST_PAUSE_MS = 1;

interface Waiter {
  readonly account: string;
  entry: FairEntry<Waiter> | null;
  /** Called once: true for a place. */
  readonly answer: (place: boolean) => void;
}

export class RateQueue {
  readonly #options: RateQueueOptions;
  readonly #waiting = new FairQueue<Waiter>(new RememberedTime());
  #timer: TimerHandle | null = null;

  constructor(options: RateQueueOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Resolves with true when the limits allow a request, at the latest after `withinMs`; with false when they do not, mostly at once.
   * Rejects with the reason of `signal`.
   */
  enter(account: string, withinMs: number, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    const { board, cell, clock, rates } = this.#options;
    const nowMs = clock.now();
    if (this.#waiting.size === 0 && board.reserve(cell, rates, nowMs, 0) === 0) {
      // It counts as a turn of the account all the same.
      this.#waiting.take(this.#waiting.add(account, { account, answer: () => undefined, entry: null }, 1));
      return Promise.resolve(true);
    }
    const places = withinMs <= 0 ? 0 : board.placesWithin(cell, rates, nowMs, withinMs);
    if (places === 0) return Promise.resolve(false);
    return new Promise((resolve, reject) => {
      const answer = (place: boolean): void => {
        clock.clearTimeout(expiry);
        signal.removeEventListener('abort', leave);
        resolve(place);
      };
      const waiter: Waiter = { account, answer, entry: null };
      const leave = (): void => {
        clock.clearTimeout(expiry);
        signal.removeEventListener('abort', leave);
        this.#remove(waiter);
        reject(signal.reason as Error);
      };
      const expiry = clock.setTimeout(() => this.#refuse(waiter), withinMs + LEAST_PAUSE_MS);
      signal.addEventListener('abort', leave);
      waiter.entry = this.#waiting.add(account, waiter, 1);
      if (this.#waiting.size > places) this.#refuse(this.#last(waiter));
      this.#serve();
    });
  }

  /** The waiter whose turn comes last; of those with equal turns `newest`. */
  #last(newest: Waiter): Waiter {
    const tags = new Map<string, number>();
    let last = newest;
    let lastTag = -Infinity;
    for (const waiter of this.#waiting.list()) {
      const { account, entry } = waiter;
      // Items of one account follow each other, and each costs 1.
      const tag = (tags.get(account) ?? this.#waiting.tagOf(entry as FairEntry<Waiter>) - 1) + 1;
      tags.set(account, tag);
      if (tag < lastTag || (tag === lastTag && waiter !== newest)) continue;
      last = waiter;
      lastTag = tag;
    }
    return last;
  }

  #refuse(waiter: Waiter): void {
    this.#remove(waiter);
    waiter.answer(false);
  }

  #remove(waiter: Waiter): void {
    if (waiter.entry !== null) this.#waiting.remove(waiter.entry);
    waiter.entry = null;
    if (this.#waiting.size === 0) this.#stop();
  }

  /** Gives out the places there are, and comes back when the next one is due. */
  #serve(): void {
    const { board, cell, clock, rates } = this.#options;
    this.#stop();
    while (this.#waiting.size > 0) {
      const nowMs = clock.now();
      if (board.reserve(cell, rates, nowMs, 0) !== 0) {
        const pauseMs = Math.max(board.dueInMs(cell, rates, nowMs), LEAST_PAUSE_MS);
        this.#timer = clock.setTimeout(() => this.#serve(), pauseMs);
        return;
      }
      const waiter = this.#waiting.take(this.#waiting.peek() as FairEntry<Waiter>);
      waiter.entry = null;
      waiter.answer(true);
    }
  }

  #stop(): void {
    if (this.#timer !== null) this.#options.clock.clearTimeout(this.#timer);
    this.#timer = null;
  }
}
