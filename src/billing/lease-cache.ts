// Credit leases of one ingress thread, by account. A request reserves what it may cost and settles what it did cost; neither
// waits as long as the lease covers it. Spending is summed by account, key and model and reported to the lease manager a few
// times a second.

import { ask, type Clock, type Ref, type TimerHandle } from '../actor/index.ts';
import type { Funding, LeaseManagerCommand, ReportedCharge } from './lease-manager.ts';

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

/** Outcome of a reservation that needed more credit. `reserved`: `amount` lies between the least and the most asked for. */
export type Reserved =
  | { readonly kind: 'reserved'; readonly amount: number }
  | { readonly kind: 'short'; readonly balance: number }
  | { readonly kind: 'away' };

export interface LeaseCacheOptions {
  readonly leaseManager: Ref<LeaseManagerCommand>;
  /** Names this thread among those of the process. */
  readonly thread: string;
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  /** Interval between reports, in milliseconds. What was not reported when a thread dies is not charged. */
  readonly flushMs: number;
  readonly leasePico: number;
}

const FUND_TIMEOUT_MS = 5000;

/** A lease that is unused for this long gives its credit back. */
const IDLE_MS = 10_000;

/** After credit ran short, only what is needed is leased, for this long. */
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
  readonly least: number;
  readonly most: number;
  readonly done: (reserved: Reserved) => void;
}

interface AccountLease {
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

export class LeaseCache {
  readonly #options: LeaseCacheOptions;
  readonly #prepaid = new Map<string, AccountLease>();
  readonly #later = new Map<string, AccountLease>();
  #untilMs = 0;
  #flushing: TimerHandle | null = null;
  #sweeping: TimerHandle | null = null;
  #closed = false;

  constructor(options: LeaseCacheOptions) {
    this.#options = options;
  }

  /**
   * Reserves credit: between `least` and `most`, as much of `most` as can be had at once. An account that pays later gets `most`.
   * @returns the pico-USD that are reserved; 0: call `fund`
   */
  reserve({ account, prepaid }: Payer, _least: number, most: number): number {
    if (this.#untilMs <= this.#options.epochMs()) return 0;
    const lease = this.#leaseOf(account, prepaid);
    lease.usedMs = this.#options.clock.now();
    if (!prepaid) return most;
    if (lease.waiters.length > 0 || lease.left - lease.reserved < most) return 0;
    lease.reserved += most;
    const target = lease.leanUntilMs > lease.usedMs ? 0 : this.#options.leasePico / 2;
    if (lease.left - lease.reserved < target && !lease.funding) this.#fund(lease, 0);
    return most;
  }

  /** Reserves credit after the lease was extended: `most`, or what there is of it from `least` on. `done` is called once. */
  fund({ account, prepaid }: Payer, least: number, most: number, done: (reserved: Reserved) => void): void {
    if (!prepaid) {
      done({ kind: 'away' });
      return;
    }
    const lease = this.#leaseOf(account, true);
    lease.waiters.push({ least, most, done });
    if (!lease.funding) this.#fund(lease, this.#wanted(lease));
  }

  /** Releases a reservation without a charge. */
  cancel(payer: Payer, reserved: number): void {
    if (payer.prepaid) this.#leaseOf(payer.account, true).reserved -= reserved;
  }

  /** Ends a reservation with what the request cost. */
  settle(payer: Payer, reserved: number, spending: Spending): void {
    const lease = this.#leaseOf(payer.account, payer.prepaid);
    if (payer.prepaid) {
      lease.reserved -= reserved;
      lease.left -= spending.cost;
    }
    const name = `${payer.key ?? ''}\0${spending.model}\0${spending.measured ? 1 : 0}`;
    let tally = lease.tallies.get(name);
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
      lease.tallies.set(name, tally);
    }
    tally.requests++;
    tally.cost += spending.cost;
    tally.promptTokens += spending.promptTokens;
    tally.cachedTokens += spending.cachedTokens;
    tally.completionTokens += spending.completionTokens;
    if (this.#closed) this.flush();
    else this.#flushing ??= this.#options.clock.setTimeout(() => this.flush(), this.#options.flushMs);
  }

  /** Leases last until then, in milliseconds since 1970. */
  trust(untilMs: number): void {
    // Another gateway may have given back leases that expired meanwhile: what was left of them may be spent already.
    if (this.#untilMs <= this.#options.epochMs()) for (const lease of this.#prepaid.values()) this.#spare(lease);
    this.#untilMs = Math.max(this.#untilMs, untilMs);
    this.#sweeping ??= this.#options.clock.setTimeout(() => this.#sweep(), IDLE_MS / 2);
  }

  /** Gives back what is not reserved: another thread needs it. */
  recall(account: string): void {
    const lease = this.#prepaid.get(account);
    if (lease === undefined) return;
    lease.leanUntilMs = this.#options.clock.now() + LEAN_MS;
    this.#spare(lease);
  }

  /** Reports what was spent since the last report. */
  flush(): void {
    if (this.#flushing !== null) this.#options.clock.clearTimeout(this.#flushing);
    this.#flushing = null;
    const charges: ReportedCharge[] = [];
    for (const leases of [this.#prepaid, this.#later]) {
      for (const { account, prepaid, tallies } of leases.values()) {
        for (const tally of tallies.values()) {
          charges.push({ account, prepaid, amount: tally.cost, usage: usageOf(tally) });
        }
        tallies.clear();
      }
    }
    const { leaseManager, thread } = this.#options;
    if (charges.length > 0) leaseManager.tell({ type: 'Charges', thread, charges });
  }

  /** Reports what was spent and gives all credit back. What is settled later is reported at once. */
  close(): void {
    this.flush();
    this.#closed = true;
    if (this.#sweeping !== null) this.#options.clock.clearTimeout(this.#sweeping);
    this.#sweeping = null;
    for (const lease of this.#prepaid.values()) {
      if (lease.reserved === 0) this.#giveUp(lease);
      for (const { done } of lease.waiters.splice(0)) done({ kind: 'away' });
    }
  }

  #leaseOf(account: string, prepaid: boolean): AccountLease {
    const leases = prepaid ? this.#prepaid : this.#later;
    let lease = leases.get(account);
    if (lease === undefined) {
      lease = {
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
      leases.set(account, lease);
    }
    return lease;
  }

  /** Charges go first, so that only unspent credit goes back. */
  #spare(lease: AccountLease): void {
    this.flush();
    const { account, left, reserved } = lease;
    const amount = Math.floor(left - reserved);
    if (amount <= 0) return;
    lease.left -= amount;
    this.#options.leaseManager.tell({ type: 'GiveBack', thread: this.#options.thread, account, amount });
  }

  /** What the lease lacks for the requests that wait. */
  #wanted({ left, reserved, waiters }: AccountLease): number {
    return Math.max(
      waiters.reduce((sum, { most }) => sum + most, reserved - left),
      1,
    );
  }

  #fund(lease: AccountLease, need: number): void {
    const { leaseManager, clock, thread } = this.#options;
    const { account } = lease;
    const lean = lease.leanUntilMs > clock.now();
    lease.funding = true;
    ask<LeaseManagerCommand, Funding>(
      leaseManager,
      (replyTo) => ({ type: 'Fund', thread, account, need, lean, replyTo }),
      {
        timeoutMs: FUND_TIMEOUT_MS,
      },
    ).then(
      (funding) => this.#funded(lease, funding),
      () => this.#funded(lease, { kind: 'away' }),
    );
  }

  #funded(lease: AccountLease, funding: Funding): void {
    lease.funding = false;
    if (funding.kind === 'funded') lease.left = funding.added + (funding.fresh ? 0 : lease.left);
    else lease.leanUntilMs = this.#options.clock.now() + LEAN_MS;
    const waiters = lease.waiters.splice(0);
    for (const { done, least, most } of waiters) {
      const amount = Math.min(lease.left - lease.reserved, most);
      if (amount >= least) {
        lease.reserved += amount;
        done({ kind: 'reserved', amount });
      } else if (funding.kind === 'away') done(funding);
      else done({ kind: 'short', balance: Math.max(lease.left - lease.reserved, 0) });
    }
    if (lease.waiters.length > 0 && !lease.funding) this.#fund(lease, this.#wanted(lease));
  }

  #sweep(): void {
    const { clock } = this.#options;
    this.#sweeping = clock.setTimeout(() => this.#sweep(), IDLE_MS / 2);
    for (const leases of [this.#prepaid, this.#later]) {
      for (const lease of leases.values()) {
        const isIdle = lease.reserved === 0 && !lease.funding && lease.waiters.length === 0 && lease.tallies.size === 0;
        if (isIdle && clock.now() - lease.usedMs >= IDLE_MS) this.#giveUp(lease);
      }
    }
  }

  #giveUp(lease: AccountLease): void {
    const { leaseManager, thread } = this.#options;
    (lease.prepaid ? this.#prepaid : this.#later).delete(lease.account);
    if (lease.prepaid) leaseManager.tell({ type: 'GiveBack', thread, account: lease.account, amount: 'all' });
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
}: Tally): ReportedCharge['usage'] {
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
