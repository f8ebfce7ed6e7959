// The one place of a gateway that lends credit: an actor beside the ledger. Ingress threads ask it for leases, spend from
// them without asking, and tell it in batches what they spent. A thread holds one lease for each account. What was told
// is kept and tried again until the ledger has it; what a thread had not told when it died is lost to the house, never
// to the customer.

import type { Behavior, Clock, Context, Ref } from '../actor/index.ts';
import { type Ledger, LedgerError, type Usage } from './ledger/store.ts';

/** What threads spent for one account, key and model since they last told. Amounts in pico-USD. */
export interface Charge {
  readonly account: string;
  /** False: the account pays later, and no lease is behind this. */
  readonly prepaid: boolean;
  readonly amount: number;
  readonly usage: Usage;
}

/**
 * How a request for credit ended. `funded`: `added` pico-USD more may be spent; a `fresh` lease takes the place of
 * whatever was left of the one before. `short`: the account has `balance` left. `away`: the ledger does not answer.
 */
export type Funding =
  | { readonly kind: 'funded'; readonly added: number; readonly fresh: boolean; readonly balance: number }
  | { readonly kind: 'short'; readonly balance: number }
  | { readonly kind: 'away' };

export type LeaseManagerCommand =
  | {
      readonly type: 'Fund';
      readonly thread: string;
      readonly account: string;
      /** The least that is of use. */
      readonly need: number;
      /** Asks for no more than the need: credit of this account is scarce. */
      readonly lean: boolean;
      readonly replyTo: Ref<Funding>;
    }
  | { readonly type: 'Charges'; readonly charges: readonly (Charge & { readonly thread: string })[] }
  /** Credit that a thread can spare; `all` when it closes the lease. */
  | { readonly type: 'GiveBack'; readonly thread: string; readonly account: string; readonly amount: number | 'all' }
  /** The thread has died: nothing more of its leases will be spent. */
  | { readonly type: 'ThreadGone'; readonly thread: string }
  | { readonly type: 'Configure'; readonly settings: LeaseManagerSettings }
  | { readonly type: 'Renew' }
  | { readonly type: 'Retry' }
  | { readonly type: 'Flush'; readonly replyTo: Ref<'flushed'> };

export interface LeaseManagerSettings {
  /** Credit that a thread likes to have at hand, in pico-USD. */
  readonly leasePico: number;
  /** How long a lease holds without a word of this gateway, in milliseconds. */
  readonly leaseTtlMs: number;
}

export interface LeaseManagerOptions {
  readonly ledger: Ledger;
  readonly settings: LeaseManagerSettings;
  /** Names this process among those of the store. */
  readonly instance: string;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  /** Tells every thread how long leases hold. */
  readonly onRenewed: (untilMs: number) => void;
  /** Asks every thread for what it can spare of an account. */
  readonly onRecall: (account: string) => void;
  /** Hears what the ledger refuses or cannot take. */
  readonly onProblem: (error: unknown, what: string) => void;
  /** Hears of every charge that is booked. */
  readonly onCharged?: (charge: Charge) => void;
  /** Hears how requests for credit end. */
  readonly onFunding?: (kind: Funding['kind']) => void;
  /** Hears how many charges wait for the ledger. */
  readonly onWaiting?: (count: number) => void;
}

/** Leases are renewed three times within their life. */
const RENEWALS = 3;

/** Charges kept while the ledger is away; each is bounded by its lease, so this bounds memory and not money. */
const MAX_WAITING = 100_000;

const RETRY_MS = 1000;

/** Longest wait for other threads to give back what they can spare. */
const RECALL_MS = 50;

/** One lease takes at most this part of what is there: other threads and gateways want some too. */
const SHARE = 8;

interface Waiting extends Charge {
  readonly id: string;
  readonly lease: string | null;
}

/** Makes the behaviour of the bank. */
export function leaseManager(options: LeaseManagerOptions): Behavior<LeaseManagerCommand> {
  return (context) => {
    const state = new LeaseManager(options, context);
    return { receive: (command) => state.receive(command) };
  };
}

class LeaseManager {
  readonly #options: LeaseManagerOptions;
  readonly #clock: Clock;
  readonly #context: Context<LeaseManagerCommand>;
  /** Lease ids by account, by thread. */
  readonly #leases = new Map<string, Map<string, string>>();
  readonly #waiting = new Map<string, Waiting>();
  /** Leases that the ledger may have and nobody spends from: they are given back once it answers again. */
  readonly #lost = new Set<string>();
  /** Charges on their way into the ledger, by id. */
  readonly #posting = new Map<string, Promise<void>>();
  #settings: LeaseManagerSettings;
  #count = 0;

  constructor(options: LeaseManagerOptions, context: Context<LeaseManagerCommand>) {
    this.#options = options;
    this.#settings = options.settings;
    this.#context = context;
    this.#clock = context.clock;
    this.#renew();
  }

  receive(command: LeaseManagerCommand): void {
    switch (command.type) {
      case 'Fund':
        this.#fund(command).then(
          (funding) => {
            this.#options.onFunding?.(funding.kind);
            command.replyTo.tell(funding);
          },
          (error: unknown) => {
            this.#options.onProblem(error, 'credit could not be lent');
            this.#options.onFunding?.('away');
            command.replyTo.tell({ kind: 'away' });
          },
        );
        break;
      case 'Charges':
        for (const charge of command.charges) this.#charge(charge);
        break;
      case 'GiveBack':
        this.#giveBack(command.thread, command.account, command.amount);
        break;
      case 'ThreadGone':
        for (const account of this.#leases.get(command.thread)?.keys() ?? []) {
          this.#giveBack(command.thread, account, 'all');
        }
        break;
      case 'Configure':
        this.#settings = command.settings;
        break;
      case 'Renew':
        this.#renew();
        break;
      case 'Retry':
        for (const [id, charge] of this.#waiting) if (!this.#posting.has(id)) this.#post(charge);
        break;
      case 'Flush':
        void Promise.all(this.#posting.values()).then(() => command.replyTo.tell('flushed'));
        break;
    }
  }

  async #fund({ account, lean, need, thread }: Extract<LeaseManagerCommand, { type: 'Fund' }>): Promise<Funding> {
    const { ledger, onRecall } = this.#options;
    let balance = Number((await ledger.account(account))?.balance ?? 0n);
    if (balance < need && this.#lentElsewhere(thread, account)) {
      onRecall(account);
      await new Promise<void>((resolve) => this.#clock.setTimeout(resolve, RECALL_MS));
      balance = Number((await ledger.account(account))?.balance ?? 0n);
    }
    const extra = lean ? 0 : Math.min(this.#settings.leasePico, Math.floor(Math.max(balance - need, 0) / SHARE));
    // Whoever asks for more than there can be hears that it is short, and not what the ledger thinks of the number.
    const wanted = Math.ceil(Math.min(need + extra, balance, Number.MAX_SAFE_INTEGER));
    if (wanted <= 0) return { kind: 'short', balance };
    return await this.#lend(thread, account, BigInt(wanted), balance);
  }

  async #lend(thread: string, account: string, amount: bigint, balance: number): Promise<Funding> {
    const { epochMs, instance, ledger } = this.#options;
    const open = this.#leases.get(thread)?.get(account);
    if (open !== undefined) {
      const added = await ledger.extend(open, String(++this.#count), amount).catch((error: unknown) => {
        if (error instanceof LedgerError && error.refusal === 'hold-closed') return undefined;
        throw error;
      });
      if (added?.kind === 'short') return added.balance > 0n ? { kind: 'away' } : { kind: 'short', balance };
      if (added !== undefined) return { kind: 'funded', added: Number(added.amount), fresh: false, balance };
      this.#leases.get(thread)?.delete(account);
    }
    const id = `${instance}/${thread}/${++this.#count}`;
    const expiresMs = Math.floor(epochMs()) + this.#settings.leaseTtlMs;
    const held = await ledger.lease({ id, account, amount, holder: instance, expiresMs }).catch((error: unknown) => {
      this.#lost.add(id);
      throw error;
    });
    if (held.kind === 'short') return { kind: 'short', balance: Number(held.balance) };
    let leases = this.#leases.get(thread);
    if (leases === undefined) this.#leases.set(thread, (leases = new Map()));
    leases.set(account, id);
    return { kind: 'funded', added: Number(held.amount), fresh: true, balance };
  }

  #lentElsewhere(thread: string, account: string): boolean {
    for (const [other, leases] of this.#leases) if (other !== thread && leases.has(account)) return true;
    return false;
  }

  #charge({ thread, ...charge }: Charge & { readonly thread: string }): void {
    const { instance, onProblem } = this.#options;
    const lease = charge.prepaid ? (this.#leases.get(thread)?.get(charge.account) ?? null) : null;
    const waiting = { ...charge, lease, id: `${instance}/${++this.#count}` };
    if (this.#waiting.size >= MAX_WAITING) {
      onProblem(
        new Error(`${charge.amount} pico-USD of account '${charge.account}'`),
        'a charge is lost: too many wait',
      );
      return;
    }
    this.#waiting.set(waiting.id, waiting);
    this.#options.onWaiting?.(this.#waiting.size);
    this.#post(waiting);
  }

  #post(charge: Waiting): void {
    const posting = this.#book(charge).then(
      () => {
        this.#waiting.delete(charge.id);
        this.#options.onWaiting?.(this.#waiting.size);
        this.#options.onCharged?.(charge);
      },
      (error: unknown) => {
        this.#options.onProblem(error, 'a charge could not be booked');
        // What the ledger refuses it will refuse again.
        if (error instanceof LedgerError && error.refusal !== 'queue-full') this.#waiting.delete(charge.id);
        else this.#context.timers.once('retry', RETRY_MS, { type: 'Retry' });
      },
    );
    this.#posting.set(charge.id, posting);
    void posting.then(() => this.#posting.delete(charge.id));
  }

  /** A lease that is not known any more has run out: the balance pays. */
  async #book({ account, amount, id, lease, usage }: Waiting): Promise<void> {
    const { ledger } = this.#options;
    if (lease === null) await ledger.debit(account, id, BigInt(amount), usage);
    else await ledger.charge(lease, id, BigInt(amount), usage);
  }

  #giveBack(thread: string, account: string, amount: number | 'all'): void {
    const { ledger, onProblem } = this.#options;
    const lease = this.#leases.get(thread)?.get(account);
    if (lease === undefined) return;
    if (amount === 'all') this.#leases.get(thread)?.delete(account);
    // Charges told before are in front of it, so the ledger has them when the rest goes back.
    const done =
      amount === 'all' ? ledger.release(lease) : ledger.giveBack(lease, String(++this.#count), BigInt(amount));
    done.catch((error: unknown) => {
      if (amount === 'all') this.#lost.add(lease);
      onProblem(error, 'credit could not be given back; it returns when its lease ends');
    });
  }

  #renew(): void {
    const { epochMs, instance, ledger, onProblem, onRenewed } = this.#options;
    const { leaseTtlMs } = this.#settings;
    this.#context.timers.once('renew', leaseTtlMs / RENEWALS, { type: 'Renew' });
    const untilMs = Math.floor(epochMs()) + leaseTtlMs;
    // A lease that is made while the ledger answers is not among its answers.
    const known = [...this.#leases.values()].flatMap((leases) => [...leases].map((entry) => ({ leases, entry })));
    const lost = [...this.#lost];
    const renewed = async (): Promise<void> => {
      const open = new Set(await ledger.renew(instance, untilMs));
      onRenewed(untilMs);
      for (const { entry, leases } of known) {
        const [account, id] = entry;
        if (!open.has(id) && leases.get(account) === id) leases.delete(account);
      }
      // Renewed with the others, they would never run out by themselves.
      for (const id of lost) {
        if (open.has(id)) await ledger.release(id);
        this.#lost.delete(id);
      }
      await ledger.expire();
    };
    renewed().catch((error: unknown) => onProblem(error, 'leases could not be renewed'));
  }
}
