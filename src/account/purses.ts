// Credit at hand in one ingress thread: what its leases allow to be spent, account by account. A request reserves what it
// may cost, and settles what it did cost; neither waits for anybody as long as the lease reaches. Spending is summed up
// by account, key and model and told to the bank a few times a second.

import { ask, type Clock, type Ref, type TimerHandle } from '../actor/index.ts';
import type { BankCommand, Charge, Funding } from './bank.ts';

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
}

/** How a reservation ended that the lease did not reach for. */
export type Reserved =
  { readonly kind: 'reserved' } | { readonly kind: 'short'; readonly balance: number } | { readonly kind: 'away' };

export interface PursesOptions {
  readonly bank: Ref<BankCommand>;
  /** Names this thread among those of the process. */
  readonly thread: string;
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  /** How often spending is told, in milliseconds. What was not told when a thread dies is not charged. */
  readonly flushMs: number;
  readonly leasePico: number;
}

const FUND_TIMEOUT_MS = 5000;

/** A purse that nobody uses gives its credit back after this time. */
const IDLE_MS = 10_000;

/** After credit ran short, no more than what is needed is asked for, for this time. */
const LEAN_MS = 5000;

interface Tally {
  readonly key: string | null;
  readonly model: string;
  readonly measured: boolean;
  requests: number;
  cost: number;
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
}

interface Waiter {
  readonly amount: number;
  readonly done: (reserved: Reserved) => void;
}

interface Purse {
  readonly account: string;
  readonly prepaid: boolean;
  /** Of the lease, in pico-USD; reservations are not taken off. */
  left: number;
  reserved: number;
  funding: boolean;
  leanUntilMs: number;
  usedMs: number;
  readonly waiters: Waiter[];
  readonly tallies: Map<string, Tally>;
}

export class Purses {
  readonly #options: PursesOptions;
  readonly #prepaid = new Map<string, Purse>();
  readonly #later = new Map<string, Purse>();
  #untilMs = 0;
  #flushing: TimerHandle | null = null;
  #sweeping: TimerHandle | null = null;
  #closed = false;

  constructor(options: PursesOptions) {
    this.#options = options;
  }

  /** Sets credit aside. False: the lease does not reach, ask with `fund`. */
  reserve({ account, prepaid }: Payer, amount: number): boolean {
    if (this.#untilMs <= this.#options.epochMs()) return false;
    const purse = this.#purseOf(account, prepaid);
    purse.usedMs = this.#options.clock.now();
    if (!prepaid) return true;
    if (purse.waiters.length > 0 || purse.left - purse.reserved < amount) return false;
    purse.reserved += amount;
    const target = purse.leanUntilMs > purse.usedMs ? 0 : this.#options.leasePico / 2;
    if (purse.left - purse.reserved < target && !purse.funding) this.#fund(purse, 0);
    return true;
  }

  /** The same by way of the bank. `done` is called once, later; the amount is then set aside or not. */
  fund({ account, prepaid }: Payer, amount: number, done: (reserved: Reserved) => void): void {
    if (!prepaid) {
      done({ kind: 'away' });
      return;
    }
    const purse = this.#purseOf(account, true);
    purse.waiters.push({ amount, done });
    if (!purse.funding) this.#fund(purse, this.#wanted(purse));
  }

  /** Gives a reservation back: the request came to nothing. */
  cancel(payer: Payer, reserved: number): void {
    if (payer.prepaid) this.#purseOf(payer.account, true).reserved -= reserved;
  }

  /** Ends a reservation with what the request cost. */
  settle(payer: Payer, reserved: number, spending: Spending): void {
    const purse = this.#purseOf(payer.account, payer.prepaid);
    if (payer.prepaid) {
      purse.reserved -= reserved;
      purse.left -= spending.cost;
    }
    const name = `${payer.key ?? ''}\0${spending.model}\0${spending.measured ? 1 : 0}`;
    let tally = purse.tallies.get(name);
    if (tally === undefined) {
      tally = {
        key: payer.key,
        model: spending.model,
        measured: spending.measured,
        requests: 0,
        cost: 0,
        promptTokens: 0,
        cachedTokens: 0,
        completionTokens: 0,
      };
      purse.tallies.set(name, tally);
    }
    tally.requests++;
    tally.cost += spending.cost;
    tally.promptTokens += spending.promptTokens;
    tally.cachedTokens += spending.cachedTokens;
    tally.completionTokens += spending.completionTokens;
    if (this.#closed) this.flush();
    else this.#flushing ??= this.#options.clock.setTimeout(() => this.flush(), this.#options.flushMs);
  }

  /** Leases hold until then, in milliseconds since 1970. */
  trust(untilMs: number): void {
    // Leases that ran out unheard may have been given back by others: what was left of them is not there any more.
    if (this.#untilMs <= this.#options.epochMs()) for (const purse of this.#prepaid.values()) this.#spare(purse);
    this.#untilMs = Math.max(this.#untilMs, untilMs);
    this.#sweeping ??= this.#options.clock.setTimeout(() => this.#sweep(), IDLE_MS / 2);
  }

  /** Gives back what is not reserved: another thread is short of it. */
  recall(account: string): void {
    const purse = this.#prepaid.get(account);
    if (purse === undefined) return;
    purse.leanUntilMs = this.#options.clock.now() + LEAN_MS;
    this.#spare(purse);
  }

  /** Tells the bank what was spent since the last time. */
  flush(): void {
    if (this.#flushing !== null) this.#options.clock.clearTimeout(this.#flushing);
    this.#flushing = null;
    const charges: (Charge & { thread: string })[] = [];
    for (const purses of [this.#prepaid, this.#later]) {
      for (const { account, prepaid, tallies } of purses.values()) {
        for (const tally of tallies.values()) {
          charges.push({ thread: this.#options.thread, account, prepaid, amount: tally.cost, usage: usageOf(tally) });
        }
        tallies.clear();
      }
    }
    if (charges.length > 0) this.#options.bank.tell({ type: 'Charges', charges });
  }

  /** Tells what was spent and gives all credit back. What is settled later is told at once. */
  close(): void {
    this.flush();
    this.#closed = true;
    if (this.#sweeping !== null) this.#options.clock.clearTimeout(this.#sweeping);
    this.#sweeping = null;
    for (const purse of this.#prepaid.values()) {
      if (purse.reserved === 0) this.#giveUp(purse);
      for (const { done } of purse.waiters.splice(0)) done({ kind: 'away' });
    }
  }

  #purseOf(account: string, prepaid: boolean): Purse {
    const purses = prepaid ? this.#prepaid : this.#later;
    let purse = purses.get(account);
    if (purse === undefined) {
      purse = {
        account,
        prepaid,
        left: 0,
        reserved: 0,
        funding: false,
        leanUntilMs: 0,
        usedMs: this.#options.clock.now(),
        waiters: [],
        tallies: new Map(),
      };
      purses.set(account, purse);
    }
    return purse;
  }

  /** Charges go first: the rest is then what nobody needs. */
  #spare(purse: Purse): void {
    this.flush();
    const { account, left, reserved } = purse;
    const amount = Math.floor(left - reserved);
    if (amount <= 0) return;
    purse.left -= amount;
    this.#options.bank.tell({ type: 'GiveBack', thread: this.#options.thread, account, amount });
  }

  /** What the lease lacks for those who wait. */
  #wanted({ left, reserved, waiters }: Purse): number {
    return Math.max(
      waiters.reduce((sum, { amount }) => sum + amount, reserved - left),
      1,
    );
  }

  #fund(purse: Purse, need: number): void {
    const { bank, clock, thread } = this.#options;
    const { account } = purse;
    const lean = purse.leanUntilMs > clock.now();
    purse.funding = true;
    ask<BankCommand, Funding>(bank, (replyTo) => ({ type: 'Fund', thread, account, need, lean, replyTo }), {
      timeoutMs: FUND_TIMEOUT_MS,
    }).then(
      (funding) => this.#funded(purse, funding),
      () => this.#funded(purse, { kind: 'away' }),
    );
  }

  #funded(purse: Purse, funding: Funding): void {
    purse.funding = false;
    if (funding.kind === 'funded') purse.left = funding.added + (funding.fresh ? 0 : purse.left);
    else purse.leanUntilMs = this.#options.clock.now() + LEAN_MS;
    const waiters = purse.waiters.splice(0);
    for (const { amount, done } of waiters) {
      if (purse.left - purse.reserved >= amount) {
        purse.reserved += amount;
        done({ kind: 'reserved' });
      } else if (funding.kind === 'away') done(funding);
      else done({ kind: 'short', balance: Math.max(purse.left - purse.reserved, 0) });
    }
    if (purse.waiters.length > 0 && !purse.funding) this.#fund(purse, this.#wanted(purse));
  }

  #sweep(): void {
    const { clock } = this.#options;
    this.#sweeping = clock.setTimeout(() => this.#sweep(), IDLE_MS / 2);
    for (const purses of [this.#prepaid, this.#later]) {
      for (const purse of purses.values()) {
        const isIdle = purse.reserved === 0 && !purse.funding && purse.waiters.length === 0 && purse.tallies.size === 0;
        if (isIdle && clock.now() - purse.usedMs >= IDLE_MS) this.#giveUp(purse);
      }
    }
  }

  #giveUp(purse: Purse): void {
    const { bank, thread } = this.#options;
    (purse.prepaid ? this.#prepaid : this.#later).delete(purse.account);
    if (purse.prepaid) bank.tell({ type: 'GiveBack', thread, account: purse.account, amount: 'all' });
  }
}

function usageOf({
  cachedTokens,
  completionTokens,
  key,
  measured,
  model,
  promptTokens,
  requests,
}: Tally): Charge['usage'] {
  return {
    key,
    model,
    inputTokens: promptTokens,
    cachedTokens,
    outputTokens: completionTokens,
    measured,
    ...(requests > 1 && { requests }),
  };
}
