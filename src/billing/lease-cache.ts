// Credit of one ingress thread. A request reserves what it may cost and settles what it did cost, out of the memory that all
// threads share; it waits for the lease manager only when the lease does not cover it. Spending is summed by account, key and
// model and reported a few times a second.

import type { Clock, Ref, System, TimerHandle } from '../actor/index.ts';
import type { LeaseManagerCommand, LeaseNotice, Refusal } from './lease-manager.ts';
import type { ReportedCharge } from './unposted-charges.ts';
import { LeaseTable } from './lease-table.ts';

/** Whose request it is. */
export interface Payer {
  readonly account: string;
  /** Id of the key, null when it has none. */
  readonly key: string | null;
  /** Spends only credit that the account has. */
  readonly prepaid: boolean;
}

/** What a request came to. Costs in pico-USD. */
export interface Spending {
  readonly model: string;
  readonly cost: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** False when the counts are estimates. */
  readonly measured: boolean;
  /** Version of the prices. */
  readonly price?: string | undefined;
}

/** Outcome of a reservation that needed more credit. `reserved`: `amount` lies between the least and the most asked for. */
export type Reserved = { readonly kind: 'reserved'; readonly amount: number } | Refusal;

export interface LeaseCacheSettings {
  /** Interval between reports, in milliseconds. What was not reported when a thread dies is not charged. */
  readonly flushMs: number;
  readonly leasePico: number;
}

export interface LeaseCacheOptions extends LeaseCacheSettings {
  readonly system: System;
  readonly leaseManager: Ref<LeaseManagerCommand>;
  /** Made by `createLeaseMemory`. */
  readonly memory: SharedArrayBuffer;
  /** Number of this thread among those of the process. */
  readonly thread: number;
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
}

/** The lease manager answers within five seconds; this bounds the wait for one that does not. */
const FUND_TIMEOUT_MS = 5500;

/** Requests of a thread that wait for credit; further ones are busy. It keeps room in mailboxes and links for charges. */
const MAX_WAITERS = 4096;

/** When half of the room is taken, an account with more waiting requests than this gets none of the rest: others need it. */
const FAIR_WAITERS = 32;

/** Interval of the search for accounts that are not used any more. */
const SWEEP_MS = 10_000;

interface Tally {
  readonly key: string | null;
  readonly model: string;
  readonly measured: boolean;
  readonly price: string | undefined;
  requests: number;
  cost: number;
  /** The part of the cost that was drawn from the lease. */
  covered: number;
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
}

/** An account that this thread has served lately. */
class AccountView {
  readonly account: string;
  readonly prepaid: boolean;
  readonly tallies = new Map<string, Tally>();
  /** The tally of the last request: mostly that of the next one too. */
  last: Tally | null = null;
  /** Its cell in the shared memory; -1: not known. */
  cell = -1;
  generation = 0;
  /** What this thread holds and has not reported, in pico-USD. */
  used = 0;
  /** Requests that wait for credit. */
  waiting = 0;
  idle = false;

  constructor(account: string, prepaid: boolean) {
    this.account = account;
    this.prepaid = prepaid;
  }
}

interface Waiter {
  readonly view: AccountView;
  readonly done: (reserved: Reserved) => void;
  readonly timer: TimerHandle;
}

export class LeaseCache {
  readonly #options: LeaseCacheOptions;
  readonly #table: LeaseTable;
  #flushMs = 0;
  #low = 0;
  readonly #prepaid = new Map<string, AccountView>();
  readonly #later = new Map<string, AccountView>();
  /** By the id of their request. */
  readonly #waiters = new Map<number, Waiter>();
  #count = 0;
  #flushing: TimerHandle | null = null;
  #sweeping: TimerHandle | null = null;
  #closed = false;

  constructor(options: LeaseCacheOptions) {
    const { leaseManager, memory, system, thread } = options;
    this.#options = options;
    this.#table = new LeaseTable(memory, thread);
    this.configure(options);
    const replyTo = system.spawn<LeaseNotice>(() => (notice) => this.#receive(notice));
    leaseManager.tell({ type: 'Join', thread, replyTo });
  }

  /** Takes over settings. A report that is due is made after the new interval. */
  configure({ flushMs, leasePico }: LeaseCacheSettings): void {
    const { clock } = this.#options;
    this.#low = leasePico / 2;
    if (flushMs === this.#flushMs) return;
    this.#flushMs = flushMs;
    if (this.#flushing === null) return;
    clock.clearTimeout(this.#flushing);
    this.#flushing = clock.setTimeout(() => this.flush(), flushMs);
  }

  /** Whether leases, renewals or charges have failed and have not worked again since. */
  get failing(): boolean {
    return this.#table.failing;
  }

  /**
   * Reserves `most` at once. An account that pays later gets `most` always.
   * @returns the pico-USD that are reserved; 0: call `fund`
   */
  reserve({ account, prepaid }: Payer, most: number): number {
    const { clock, epochMs, leaseManager } = this.#options;
    const table = this.#table;
    if (!table.trusted(clock.now(), epochMs())) return 0;
    if (!prepaid) return most;
    const view = this.#prepaid.get(account);
    if (view === undefined || !this.#knowsCell(view) || most > Number.MAX_SAFE_INTEGER) return 0;
    const rest = table.draw(view.cell, most);
    if (rest < 0) return 0;
    view.used += most;
    if (rest < this.#low && table.claimRefill(view.cell)) leaseManager.tell({ type: 'Refill', account });
    return most;
  }

  /**
   * Reserves credit after the lease was extended: `most`, or what there is of it from `least` on. `done` is called once. `own`: what other
   * parts of the request hold until it is over.
   */
  fund({ account, prepaid }: Payer, least: number, most: number, done: (reserved: Reserved) => void, own = 0): void {
    const { clock, leaseManager, thread } = this.#options;
    if (!prepaid || this.#closed) {
      done({ kind: 'away' });
      return;
    }
    const view = this.#viewOf(account, true);
    const room = MAX_WAITERS - this.#waiters.size;
    if (room === 0 || (room <= MAX_WAITERS / 2 && view.waiting >= FAIR_WAITERS)) {
      done({ kind: 'busy' });
      return;
    }
    view.waiting++;
    const id = ++this.#count;
    const timer = clock.setTimeout(() => this.#end(id, { kind: 'away' }), FUND_TIMEOUT_MS);
    this.#waiters.set(id, { view, done, timer });
    leaseManager.tell({ type: 'Fund', thread, id, account, least, most, ...(own > 0 && { own }) });
  }

  /** Releases a reservation without a charge. */
  cancel({ account, prepaid }: Payer, held: number): void {
    if (prepaid && held > 0) this.#restore(this.#viewOf(account, true), held);
  }

  /** Ends a reservation with what the request cost. What it cost beyond the reservation is drawn as far as it is there. */
  settle({ account, key, prepaid }: Payer, held: number, spending: Spending): void {
    const view = this.#viewOf(account, prepaid);
    const { cost } = spending;
    let covered = 0;
    if (prepaid) {
      covered = Math.min(cost, held);
      if (cost < held) this.#restore(view, held - cost);
      else if (cost > held && this.#knowsCell(view) && this.#table.draw(view.cell, cost - held) >= 0) {
        covered = cost;
        view.used += cost - held;
      }
    }
    let tally = tallyOf(view, key, spending);
    // A larger sum is no exact number any more.
    if (tally.cost + cost > Number.MAX_SAFE_INTEGER) {
      this.flush();
      tally = tallyOf(view, key, spending);
    }
    tally.requests++;
    tally.cost += cost;
    tally.covered += covered;
    tally.promptTokens += spending.promptTokens;
    tally.cachedTokens += spending.cachedTokens;
    tally.completionTokens += spending.completionTokens;
    if (this.#closed) this.flush();
    else this.#flushing ??= this.#options.clock.setTimeout(() => this.flush(), this.#flushMs);
  }

  /** Reports what was spent since the last report. */
  flush(): void {
    const { clock, leaseManager, thread } = this.#options;
    if (this.#flushing !== null) clock.clearTimeout(this.#flushing);
    this.#flushing = null;
    const charges: ReportedCharge[] = [];
    for (const views of [this.#prepaid, this.#later]) {
      for (const view of views.values()) {
        for (const tally of view.tallies.values()) {
          charges.push(chargeOf(view, tally));
          view.used -= tally.covered;
        }
        view.tallies.clear();
        view.last = null;
      }
    }
    if (charges.length > 0) leaseManager.tell({ type: 'Charges', thread, charges });
  }

  /** Reports what was spent. What is settled later is reported at once. */
  close(): void {
    this.flush();
    this.#closed = true;
    if (this.#sweeping !== null) this.#options.clock.clearTimeout(this.#sweeping);
    this.#sweeping = null;
    for (const id of this.#waiters.keys()) this.#end(id, { kind: 'away' });
  }

  #receive(notice: LeaseNotice): void {
    const { leaseManager, thread } = this.#options;
    switch (notice.type) {
      case 'Granted': {
        const { account, amount, cell, generation, id } = notice;
        const view = this.#viewOf(account, true);
        view.cell = cell;
        view.generation = generation;
        view.used += amount;
        // Nobody waits for an answer that comes late.
        if (!this.#end(id, { kind: 'reserved', amount })) this.#restore(view, amount);
        break;
      }
      case 'Refused':
        this.#end(notice.id, notice.refusal);
        break;
      case 'Sync':
        leaseManager.tell({ type: 'Synced', thread, round: notice.round });
        break;
    }
  }

  /** Answers a waiter; false when there is none of this id any more. */
  #end(id: number, reserved: Reserved): boolean {
    const waiter = this.#waiters.get(id);
    if (waiter === undefined) return false;
    this.#waiters.delete(id);
    waiter.view.waiting--;
    this.#options.clock.clearTimeout(waiter.timer);
    waiter.done(reserved);
    return true;
  }

  #restore(view: AccountView, amount: number): void {
    view.used -= amount;
    if (this.#table.restore(view.cell, amount)) {
      this.#options.leaseManager.tell({ type: 'Freed', account: view.account });
    }
  }

  /** While this thread holds anything of the cell, it stays the account's. */
  #knowsCell(view: AccountView): boolean {
    view.idle = false;
    return view.cell >= 0 && this.#table.generation(view.cell) === view.generation;
  }

  #viewOf(account: string, prepaid: boolean): AccountView {
    const views = prepaid ? this.#prepaid : this.#later;
    let view = views.get(account);
    if (view === undefined) {
      view = new AccountView(account, prepaid);
      views.set(account, view);
      if (!this.#closed) this.#sweeping ??= this.#options.clock.setTimeout(() => this.#sweep(), SWEEP_MS);
    }
    view.idle = false;
    return view;
  }

  #sweep(): void {
    for (const views of [this.#prepaid, this.#later]) {
      for (const view of views.values()) {
        if (view.idle && view.used === 0 && view.tallies.size === 0) views.delete(view.account);
        view.idle = true;
      }
    }
    const isEmpty = this.#prepaid.size + this.#later.size === 0;
    this.#sweeping = isEmpty ? null : this.#options.clock.setTimeout(() => this.#sweep(), SWEEP_MS);
  }
}

function chargeOf({ account, prepaid }: AccountView, tally: Tally): ReportedCharge {
  const { cachedTokens, completionTokens, cost, covered, key, measured, model, price, promptTokens, requests } = tally;
  return {
    account,
    prepaid,
    amount: cost,
    covered,
    usage: {
      key,
      model,
      inputTokens: promptTokens,
      cachedTokens,
      outputTokens: completionTokens,
      measured,
      ...(requests > 1 && { requests }),
      ...(price !== undefined && { price }),
    },
  };
}

function tallyOf(view: AccountView, key: string | null, { measured, model, price }: Spending): Tally {
  const { last } = view;
  const isLast = last !== null && last.model === model && last.key === key && last.measured === measured;
  if (isLast && last.price === price) return last;
  const name = `${key ?? ''}\0${model}\0${measured ? 1 : 0}${price ?? ''}`;
  let tally = view.tallies.get(name);
  if (tally === undefined) {
    const sums = { requests: 0, cost: 0, covered: 0, promptTokens: 0, cachedTokens: 0, completionTokens: 0 };
    tally = { key, model, measured, price, ...sums };
    view.tallies.set(name, tally);
  }
  view.last = tally;
  return tally;
}
