// Opens the ledger and lends its credit to the ingress threads: the one actor of a gateway that leases, charges and recalls.
// A thread has one lease for each account, spends from it without asking, and reports in batches what it spent. A reported
// charge is kept and retried until the ledger has it; what a thread had not reported when it died is absorbed by the
// operator, never charged to the customer.

import type { Behavior, Clock, Context, Ref } from '../actor/index.ts';
import type { LedgerMetrics } from '../telemetry/ledger-metrics.ts';
import { type Charge, type Ledger, LedgerError, type Usage } from './ledger/store.ts';

/** What a thread spent for one account, key and model since its last report. Amounts in pico-USD. */
export interface ReportedCharge {
  readonly account: string;
  /** False: the account pays later, and no lease is behind this. */
  readonly prepaid: boolean;
  readonly amount: number;
  readonly usage: Usage;
}

/**
 * How a request for credit ended. `funded`: `added` pico-USD more may be spent; a `fresh` lease replaces whatever was left of
 * the one before. `short`: the account has `balance` left. `away`: the ledger does not answer, or is not open yet.
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
  | { readonly type: 'Charges'; readonly thread: string; readonly charges: readonly ReportedCharge[] }
  /** Credit that a thread does not need; `all` when it closes the lease. */
  | { readonly type: 'GiveBack'; readonly thread: string; readonly account: string; readonly amount: number | 'all' }
  /** The thread has died: nothing more of its leases will be spent. */
  | { readonly type: 'ThreadGone'; readonly thread: string }
  | { readonly type: 'Configure'; readonly settings: LeaseManagerSettings }
  | { readonly type: 'Open' }
  | { readonly type: 'Renew' }
  | { readonly type: 'Retry' }
  /** Answered when the charges on their way into the ledger have arrived or failed. */
  | { readonly type: 'Flush'; readonly replyTo: Ref<'flushed'> };

export interface LeaseManagerSettings {
  /** Credit that a thread likes to have at hand, in pico-USD. */
  readonly leasePico: number;
  /** How long a lease lasts after its last renewal, in milliseconds. */
  readonly leaseTtlMs: number;
}

export interface LeaseManagerDeps {
  /** Rejects when the store does not open; then it is called again after a pause. */
  readonly openLedger: () => Promise<Ledger>;
  readonly settings: LeaseManagerSettings;
  /** Names this process among those of the store. */
  readonly instance: string;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  readonly metrics: Pick<LedgerMetrics, 'charged' | 'readWaiting' | 'refill'>;
  readonly onOpen: (ledger: Ledger) => void;
  /** Tells the threads until when leases last. */
  readonly onRenewed: (untilMs: number) => void;
  /** A charge is in the ledger. */
  readonly onPosted: (charge: ReportedCharge) => void;
  /** Asks the threads for what they do not need of an account. */
  readonly onRecall: (account: string) => void;
  /** Called with what the ledger refuses or cannot take. */
  readonly onProblem: (error: unknown, what: string) => void;
}

const PICO_PER_USD = 1e12;

const REOPEN_MS = 2000;

/** Leases are renewed three times within their life. */
const RENEWALS = 3;

/** Charges kept while the ledger is away; each is bounded by its lease, so this bounds memory and not money. */
const MAX_WAITING = 100_000;

const RETRY_MS = 1000;

/** Longest wait for other threads to give back what they do not need. */
const RECALL_MS = 50;

/** One lease takes at most this part of the balance: other threads and gateways want some too. */
const SHARE = 8;

interface WaitingCharge {
  readonly charge: Charge;
  readonly reported: ReportedCharge;
  /** On its way into the ledger. */
  posting: boolean;
}

export function leaseManager(deps: LeaseManagerDeps): Behavior<LeaseManagerCommand> {
  return (context) => new LeaseManager(deps, context);
}

class LeaseManager {
  readonly #deps: LeaseManagerDeps;
  readonly #clock: Clock;
  readonly #context: Context<LeaseManagerCommand>;
  /** Lease ids by account, by thread. */
  readonly #leases = new Map<string, Map<string, string>>();
  readonly #waiting = new Set<WaitingCharge>();
  /** Leases that may exist in the ledger but are not used: they are released once the ledger answers again. */
  readonly #lost = new Set<string>();
  readonly #posting = new Set<Promise<void>>();
  #settings: LeaseManagerSettings;
  /** Null while it is opening. */
  #ledger: Ledger | null = null;
  #count = 0;

  constructor(deps: LeaseManagerDeps, context: Context<LeaseManagerCommand>) {
    this.#deps = deps;
    this.#settings = deps.settings;
    this.#context = context;
    this.#clock = context.clock;
    deps.metrics.readWaiting(() => this.#waiting.size);
    this.#open();
  }

  receive(command: LeaseManagerCommand): void {
    switch (command.type) {
      case 'Fund':
        this.#fund(command);
        break;
      case 'Charges':
        this.#charge(command.thread, command.charges);
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
      case 'Open':
        this.#open();
        break;
      case 'Renew':
        this.#renew();
        break;
      case 'Retry':
        this.#post([...this.#waiting].filter(({ posting }) => !posting));
        break;
      case 'Flush':
        void Promise.all(this.#posting).then(() => command.replyTo.tell('flushed'));
        break;
    }
  }

  #open(): void {
    const { onOpen, onProblem, openLedger } = this.#deps;
    openLedger().then(
      (ledger) => {
        this.#ledger = ledger;
        this.#renew();
        this.#post([...this.#waiting]);
        onOpen(ledger);
      },
      (error: unknown) => {
        onProblem(error, 'the store does not open; it is tried again');
        this.#context.timers.once('open', REOPEN_MS, { type: 'Open' });
      },
    );
  }

  #fund(command: Extract<LeaseManagerCommand, { type: 'Fund' }>): void {
    const { metrics, onProblem } = this.#deps;
    const answer = (funding: Funding): void => {
      metrics.refill(funding.kind);
      command.replyTo.tell(funding);
    };
    if (this.#ledger === null) {
      answer({ kind: 'away' });
      return;
    }
    this.#lend(this.#ledger, command).then(answer, (error: unknown) => {
      onProblem(error, 'credit could not be leased');
      answer({ kind: 'away' });
    });
  }

  async #lend(
    ledger: Ledger,
    { account, lean, need, thread }: Extract<LeaseManagerCommand, { type: 'Fund' }>,
  ): Promise<Funding> {
    let balance = Number((await ledger.account(account))?.balance ?? 0n);
    if (balance < need && this.#isLeasedElsewhere(thread, account)) {
      this.#deps.onRecall(account);
      await new Promise<void>((resolve) => this.#clock.setTimeout(resolve, RECALL_MS));
      balance = Number((await ledger.account(account))?.balance ?? 0n);
    }
    const extra = lean ? 0 : Math.min(this.#settings.leasePico, Math.floor(Math.max(balance - need, 0) / SHARE));
    // A need beyond all amounts is answered with `short`, not with the ledger's refusal of the number.
    const wanted = Math.ceil(Math.min(need + extra, balance, Number.MAX_SAFE_INTEGER));
    if (wanted <= 0) return { kind: 'short', balance };
    const open = this.#leases.get(thread)?.get(account);
    if (open !== undefined) {
      const extended = await this.#extend(ledger, open, BigInt(wanted), balance);
      if (extended !== undefined) return extended;
      this.#leases.get(thread)?.delete(account);
    }
    return await this.#lease(ledger, thread, account, BigInt(wanted), balance);
  }

  /** Undefined when the lease was closed. */
  async #extend(ledger: Ledger, lease: string, amount: bigint, balance: number): Promise<Funding | undefined> {
    try {
      const added = await ledger.extend(lease, ++this.#count, amount);
      if (added.kind === 'short') return added.balance > 0n ? { kind: 'away' } : { kind: 'short', balance };
      return { kind: 'funded', added: Number(added.amount), fresh: false, balance };
    } catch (error) {
      if (error instanceof LedgerError && error.refusal === 'hold-closed') return undefined;
      throw error;
    }
  }

  async #lease(ledger: Ledger, thread: string, account: string, amount: bigint, balance: number): Promise<Funding> {
    const { instance } = this.#deps;
    const id = `${instance}/${thread}/${++this.#count}`;
    const ttlMs = this.#settings.leaseTtlMs;
    const held = await ledger.lease({ id, account, amount, holder: instance, ttlMs }).catch((error: unknown) => {
      this.#lost.add(id);
      throw error;
    });
    if (held.kind === 'short') return { kind: 'short', balance: Number(held.balance) };
    let leases = this.#leases.get(thread);
    if (leases === undefined) this.#leases.set(thread, (leases = new Map()));
    leases.set(account, id);
    return { kind: 'funded', added: Number(held.amount), fresh: true, balance };
  }

  #isLeasedElsewhere(thread: string, account: string): boolean {
    for (const [other, leases] of this.#leases) if (other !== thread && leases.has(account)) return true;
    return false;
  }

  #charge(thread: string, charges: readonly ReportedCharge[]): void {
    const { epochMs, instance, onProblem } = this.#deps;
    const leases = this.#leases.get(thread);
    // A store that is away for long does not change when the work was done.
    const dateMs = Math.floor(epochMs());
    const batch: WaitingCharge[] = [];
    for (const reported of charges) {
      const { account, prepaid, usage } = reported;
      if (this.#waiting.size >= MAX_WAITING) {
        onProblem(new Error(`${reported.amount} pico-USD of account '${account}'`), 'a charge is lost: too many wait');
        continue;
      }
      if (!Number.isSafeInteger(reported.amount)) {
        onProblem(new Error(`${reported.amount} pico-USD of account '${account}'`), 'a charge is lost: not an amount');
        continue;
      }
      const id = `${instance}/${++this.#count}`;
      const amount = BigInt(reported.amount);
      const lease = prepaid ? leases?.get(account) : undefined;
      // A lease that is not known any more has run out: the balance pays.
      const charge = { id, account, amount, usage, dateMs, ...(lease !== undefined && { lease }) };
      const waiting = { charge, reported, posting: false };
      this.#waiting.add(waiting);
      batch.push(waiting);
    }
    this.#post(batch);
  }

  #post(batch: readonly WaitingCharge[]): void {
    if (this.#ledger === null || batch.length === 0) return;
    const charges: Charge[] = [];
    for (const waiting of batch) {
      waiting.posting = true;
      charges.push(waiting.charge);
    }
    const posting = this.#ledger.charge(charges).then(
      (outcomes) => this.#posted(batch, outcomes),
      (error: unknown) => this.#failed(batch, error),
    );
    this.#posting.add(posting);
    void posting.then(() => this.#posting.delete(posting));
  }

  #posted(batch: readonly WaitingCharge[], outcomes: readonly PromiseSettledResult<unknown>[]): void {
    for (const [at, waiting] of batch.entries()) {
      const outcome = outcomes[at] as PromiseSettledResult<unknown>;
      if (outcome.status === 'rejected') {
        this.#failed([waiting], outcome.reason);
      } else {
        this.#waiting.delete(waiting);
        const { amount, usage } = waiting.reported;
        this.#deps.onPosted(waiting.reported);
        const basis = usage.measured ? 'measured' : 'estimated';
        this.#deps.metrics.charged(usage.model, basis, amount / PICO_PER_USD, usage.requests ?? 1);
      }
    }
  }

  #failed(batch: readonly WaitingCharge[], error: unknown): void {
    // What the ledger refuses it will refuse again.
    const isFinal = error instanceof LedgerError && error.refusal !== 'queue-full';
    for (const waiting of batch) {
      this.#deps.onProblem(error, 'a charge could not be posted');
      waiting.posting = false;
      if (isFinal) this.#waiting.delete(waiting);
    }
    if (!isFinal) this.#context.timers.once('retry', RETRY_MS, { type: 'Retry' });
  }

  #giveBack(thread: string, account: string, amount: number | 'all'): void {
    const lease = this.#leases.get(thread)?.get(account);
    if (this.#ledger === null || lease === undefined) return;
    if (amount === 'all') this.#leases.get(thread)?.delete(account);
    // Charges reported before were submitted before, so the ledger has them when the rest goes back.
    const done =
      amount === 'all' ? this.#ledger.release(lease) : this.#ledger.giveBack(lease, ++this.#count, BigInt(amount));
    done.catch((error: unknown) => {
      if (amount === 'all') this.#lost.add(lease);
      this.#deps.onProblem(error, 'credit could not be given back; it returns when its lease ends');
    });
  }

  #renew(): void {
    const { leaseTtlMs } = this.#settings;
    this.#context.timers.once('renew', leaseTtlMs / RENEWALS, { type: 'Renew' });
    const untilMs = Math.floor(this.#deps.epochMs()) + leaseTtlMs;
    this.#renewUntil(this.#ledger as Ledger, untilMs).catch((error: unknown) =>
      this.#deps.onProblem(error, 'leases could not be renewed'),
    );
  }

  async #renewUntil(ledger: Ledger, untilMs: number): Promise<void> {
    // A lease that is made while the ledger answers is not in its answer.
    const known = [...this.#leases.values()].flatMap((leases) => [...leases].map((entry) => ({ leases, entry })));
    const lost = [...this.#lost];
    const open = new Set((await ledger.renew(this.#deps.instance, this.#settings.leaseTtlMs)).map(({ id }) => id));
    this.#deps.onRenewed(untilMs);
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
  }
}
