// Requests of one thread that the slices of limits did not reach for: each waits for the control thread, which asks the engine, and
// is told to try again. Without an answer in time the whole limit belongs to this process.

import type { Clock, Ref, System, TimerHandle } from '../../actor/index.ts';
import type { SliceUse } from './limit-table.ts';
import { SLICE_WAIT_MS, type SliceCommand, type SliceNotice } from './slice-manager.ts';

/** What slices must have for one request. Cells are those of the limit table. */
export interface SliceNeed {
  readonly key: {
    readonly cell: number;
    /** 0: a part of a request that is counted already. It takes no place of those that run, either. */
    readonly requests: 0 | 1;
    readonly tokens: number;
    readonly leastTokens: number;
  } | null;
  /** Amounts in pico-USD. */
  readonly budgets: readonly { readonly cell: number; readonly amount: number; readonly least: number }[];
}

/**
 * The control thread answers within `waitMs`; so many times as much bounds the wait for one that stands still, as in a burst on a busy
 * machine: by then no gateway would hold the limit that all of them have.
 */
const STALLED = 10;

/** Requests of a thread that wait; further ones are refused. */
const MAX_WAITERS = 4096;

/** Of one key or budget: a flood of it leaves room for others. */
const MAX_WAITERS_EACH = 512;

interface Waiter {
  readonly place: string;
  readonly done: (use: SliceUse) => void;
  timer: TimerHandle;
}

export interface SliceClientDeps {
  readonly system: System;
  readonly manager: Ref<SliceCommand>;
  readonly thread: number;
  readonly clock: Clock;
  /** Default: `SLICE_WAIT_MS`. */
  readonly waitMs?: number;
}

export class SliceClient {
  readonly #deps: SliceClientDeps;
  readonly #waiters = new Map<number, Waiter>();
  /** Waiting requests by the first of what they need. */
  readonly #counts = new Map<string, number>();
  #count = 0;

  constructor(deps: SliceClientDeps) {
    this.#deps = deps;
    const { manager, system, thread } = deps;
    const replyTo = system.spawn<SliceNotice>(
      () =>
        ({ id, use }) =>
          this.#end(id, use),
    );
    manager.tell({ type: 'Join', thread, replyTo });
  }

  /** Little is left of the slice of a key or budget. */
  readonly refill = (kind: 'key' | 'budget', cell: number): void => {
    this.#deps.manager.tell({ type: 'Refill', kind, cell });
  };

  /** Waits for slices. `done` is called once, later; with the way in which the request is to be admitted. */
  wait(need: SliceNeed, done: (use: SliceUse) => void): { abort(): void } {
    const { clock, manager, thread, waitMs = SLICE_WAIT_MS } = this.#deps;
    const place = need.key === null ? `b${need.budgets[0]?.cell}` : `k${need.key.cell}`;
    const count = this.#counts.get(place) ?? 0;
    const id = ++this.#count;
    const isCrowded = this.#waiters.size >= MAX_WAITERS || count >= MAX_WAITERS_EACH;
    // What has no place to wait is admitted or refused by what there is at once.
    const finish = isCrowded ? (): void => this.#end(id, 'granted') : (): void => this.#giveUp(id);
    const timer = clock.setTimeout(finish, isCrowded ? 0 : STALLED * waitMs);
    this.#waiters.set(id, { place, done, timer });
    this.#counts.set(place, count + 1);
    if (!isCrowded) manager.tell({ type: 'Wait', thread, id, need });
    return {
      abort: () => {
        if (!this.#remove(id)) return;
        if (!isCrowded) manager.tell({ type: 'Leave', thread, id });
      },
    };
  }

  /** No answer has come. After a standstill of this thread timers come before messages: one more turn reads those that wait. */
  #giveUp(id: number): void {
    const waiter = this.#waiters.get(id);
    if (waiter !== undefined) waiter.timer = this.#deps.clock.setTimeout(() => this.#end(id, 'whole'), 0);
  }

  #end(id: number, use: SliceUse): void {
    const waiter = this.#remove(id);
    if (waiter !== undefined) waiter.done(use);
  }

  #remove(id: number): Waiter | undefined {
    const waiter = this.#waiters.get(id);
    if (waiter === undefined) return undefined;
    this.#waiters.delete(id);
    this.#deps.clock.clearTimeout(waiter.timer);
    const count = this.#counts.get(waiter.place) ?? 0;
    if (count <= 1) this.#counts.delete(waiter.place);
    else this.#counts.set(waiter.place, count - 1);
    return waiter;
  }
}
