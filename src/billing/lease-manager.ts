// Leases credit of the ledger for the threads of a gateway, one lease for each account, and posts what they spent. The credit is
// in memory that the threads share (`lease-table.ts`); a request that it does not cover waits here, in order of arrival for each
// account. A reported charge is kept and retried until the ledger has it; what a thread had not reported when it died is
// absorbed by the operator, never charged to the customer. All state outlives a restart of the actor.

import type { Behavior, Clock, Context, Ref } from '../actor/index.ts';
import type { LedgerMetrics } from '../telemetry/ledger-metrics.ts';
import { RecurringProblem } from '../telemetry/recurring-problem.ts';
import { LeaseTable, MAX_LEFT } from './lease-table.ts';
import { type Account, type Change, type Charge, type HoldAnswer, type Ledger, LedgerError } from './ledger/ledger.ts';
import { type ReportedCharge, type UnpostedCharge, UnpostedCharges } from './unposted-charges.ts';

/**
 * Why a request gets no credit. `short`: the account cannot pay; `balance` is all that it has. `busy`: it can, but the credit is
 * held for other requests. `away`: the ledger does not answer, or is not open yet.
 */
export type Refusal =
  | { readonly kind: 'short'; readonly balance: number }
  | { readonly kind: 'busy' }
  | { readonly kind: 'away' };

/** What the lease manager tells a thread. */
export type LeaseNotice =
  /** The amount is drawn for the thread, out of the cell that is the account's from now on. */
  | {
      readonly type: 'Granted';
      readonly id: number;
      readonly account: string;
      readonly amount: number;
      readonly cell: number;
      readonly generation: number;
    }
  | { readonly type: 'Refused'; readonly id: number; readonly refusal: Refusal }
  /** To be answered with `Synced`: the thread is not inside of a function of the lease table then. */
  | { readonly type: 'Sync'; readonly round: number };

export type LeaseManagerCommand =
  /** The first message of a thread. */
  | { readonly type: 'Join'; readonly thread: number; readonly replyTo: Ref<LeaseNotice> }
  /** Answered with `Granted` or `Refused` of the same id, within five seconds. */
  | {
      readonly type: 'Fund';
      readonly thread: number;
      readonly id: number;
      readonly account: string;
      readonly least: number;
      readonly most: number;
      /** What the request, in its other parts, holds until it is over: that does not come free for it. Default: 0. */
      readonly own?: number;
    }
  | { readonly type: 'Charges'; readonly thread: number; readonly charges: readonly ReportedCharge[] }
  /** Credit has returned to the lease that the lease manager watches for. */
  | { readonly type: 'Freed'; readonly account: string }
  /** Little is left of the lease. */
  | { readonly type: 'Refill'; readonly account: string }
  | { readonly type: 'Synced'; readonly thread: number; readonly round: number }
  /** The thread has died: nothing more of its leases will be spent. */
  | { readonly type: 'ThreadGone'; readonly thread: number }
  /** A change of the store. */
  | { readonly type: 'Changed'; readonly change: Change }
  | { readonly type: 'Configure'; readonly settings: LeaseManagerSettings }
  | { readonly type: 'Open' }
  | { readonly type: 'Renew' }
  | { readonly type: 'Retry' }
  | { readonly type: 'Sweep' }
  | { readonly type: 'Tick' }
  | { readonly type: 'RoundTimeout' }
  /**
   * Posts what waits and gives all credit back. Answered when that is done, or after `withinMs`. From then on charges that fail
   * are tried again more often.
   */
  | { readonly type: 'Flush'; readonly withinMs: number; readonly replyTo: Ref<'flushed'> }
  | { readonly type: 'FlushTimeout' }
  | { readonly type: 'FlushAgain' }
  /** Answered with the charges that the ledger does not have. They are given up. */
  | { readonly type: 'GiveUp'; readonly replyTo: Ref<readonly ReportedCharge[]> };

export interface LeaseManagerSettings {
  /** Credit beyond what requests need at once, in pico-USD. It grows where it is spent within a second. */
  readonly leasePico: number;
  /** How long a lease lasts after its last renewal, in milliseconds. */
  readonly leaseTtlMs: number;
}

export interface LeaseManagerDeps {
  /** Rejects when the store does not open; then it is called again after a pause. */
  readonly openLedger: () => Promise<Ledger>;
  readonly settings: LeaseManagerSettings;
  /** Made by `createLeaseMemory`. */
  readonly memory: SharedArrayBuffer;
  /** Names this process among those of the store. Without blanks. */
  readonly instance: string;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  readonly metrics: Pick<LedgerMetrics, 'charged' | 'readWaiting' | 'refill'>;
  readonly onOpen: (ledger: Ledger) => void;
  /** A charge is in the ledger. */
  readonly onPosted: (charge: Charge) => void;
  /** Called with what the ledger refuses or cannot take. */
  readonly onProblem: (error: unknown, what: string) => void;
  /** A problem that happened again and again is over. */
  readonly onOver?: (what: string) => void;
}

const REOPEN_MS = 2000;

/** Leases are renewed three times within their life. */
const RENEWALS = 3;

const RETRY_MS = 1000;
/** When the gateway shuts down, time is short. */
const FLUSH_RETRY_MS = 100;

/** A request waits so long for credit that other requests hold. */
const WAIT_MS = 1000;

/** A ledger that has not answered so long after that is away: one that starts, or is busy, takes seconds. The thread gives up a little later. */
const GRACE_MS = 4000;

/** Interval at which waiting requests look at the balance again, beside what they are told. */
const LOOK_MS = 100;

/** The same while other gateways give credit back, which they do not announce: each would wake all the others. */
const LOOK_SOON_MS = 25;
const GIVING_MS = 300;

const TICK_MS = 25;

/** Interval at which other gateways are asked for the same account. */
const WANT_MS = 250;

/** Beyond its need, a lease takes at most this part of the balance: other gateways want some too. */
const SHARE = 8n;

/** A balance below so many leases is leased for each request alone. */
const FEW = 4n;

/** After another gateway asked for credit, only what is needed is leased, for this long. */
const LEAN_MS = 5000;

/** Of such an account, what is free for this long is given back. A client that sends one request after another is faster. */
const RETURN_MS = 100;

/** Intervals of the sweep, and how many of them a lease must be unused to be closed. */
const SWEEP_MS = 5000;
const IDLE_SWEEPS = 2;

/** While all cells are taken, leases that nobody uses at the moment are looked for at this interval. */
const SEEK_MS = 250;

/** A lease that is spent faster than this grows, at most to this multiple of its usual size. */
const FAST_MS = 1000;
const MAX_GROWTH = 64n;

/** Threads answer within their turn. When one does not, cells are opened again and it is tried later. */
const ROUND_MS = 500;

/** Rounds until the amounts of a closed cell must stand still. */
const MAX_ROUNDS = 4;

/** A request that waits for credit. */
interface Waiter {
  readonly thread: number;
  readonly id: number;
  readonly least: bigint;
  readonly most: bigint;
  readonly own: bigint;
  /** Until then it waits for `most`. */
  readonly dueMs: number;
  /** Takes what there is from `least` on. */
  flexible: boolean;
}

/** Why a cell is closed: to be used for another account, or to count what a dead thread has lost. */
interface Closing {
  readonly purpose: 'idle' | 'recount';
  rounds: number;
  /** FREE, and USED of each thread, at the end of the last round. */
  free: bigint;
  used: readonly bigint[];
}

/** The lease of an account, and its cell. */
class Lease {
  readonly account: string;
  /** Whose credit it is: the account's organisation, or the account. */
  payer: string;
  readonly cell: number;
  readonly generation: number;
  /** In the ledger; null while there is none. */
  id: string | null = null;
  /** Who has given it, as far as is known. */
  giver = '';
  /** What the ledger's lease has, less what was reported and is not posted; see `lease-table.ts`. */
  left = 0n;
  /** Reported charges that are not posted. */
  unposted = 0;
  /** Counts what may change the lease in the ledger. */
  version = 0;
  /** A call of the ledger for this lease is under way. */
  busy = false;
  /** Something has happened meanwhile. */
  again = false;
  waiters: Waiter[] = [];
  refill = false;
  /** Another gateway asks for credit. */
  wanted = false;
  /** The account has changed: it may have joined an organisation, or left one. */
  changed = false;
  /** The ledger has closed the lease while credit of it was in use. */
  uncovered = false;
  leanUntilMs = -Infinity;
  lean = false;
  /** When free credit goes back. */
  returnMs = Infinity;
  askedMs = -Infinity;
  /** When requests that wait look at the balance again. */
  lookMs = -Infinity;
  growth = 1n;
  refilledMs = -Infinity;
  idleSweeps = 0;
  closing: Closing | null = null;

  constructor(account: string, cell: number, generation: number) {
    this.account = account;
    this.payer = account;
    this.cell = cell;
    this.generation = generation;
  }
}

/** The threads that have to answer, and what is closed meanwhile. */
interface Round {
  readonly id: number;
  readonly awaited: Set<number>;
  readonly leases: readonly (readonly [Lease, Closing])[];
}

interface Flushing {
  readonly replyTo: Ref<'flushed'>;
  released: boolean;
}

export function leaseManager(deps: LeaseManagerDeps): Behavior<LeaseManagerCommand> {
  const manager = new LeaseManager(deps);
  return (context) => {
    manager.start(context);
    return manager;
  };
}

class LeaseManager {
  readonly #deps: LeaseManagerDeps;
  readonly #table: LeaseTable;
  readonly #charges: UnpostedCharges;
  readonly #threads = new Map<number, Ref<LeaseNotice>>();
  /** By account. */
  readonly #leases = new Map<string, Lease>();
  readonly #freeCells: number[] = [];
  #usedCells = 0;
  #soughtMs = -Infinity;
  /** Leases with waiting requests, or with credit to give back. */
  readonly #attention = new Set<Lease>();
  /** Ids of leases that are being made. */
  readonly #making = new Set<string>();
  /** Ids of leases that may be open in the ledger: an answer may have been lost. */
  readonly #unreleased = new Set<string>();
  #context: Context<LeaseManagerCommand> | null = null;
  #settings: LeaseManagerSettings;
  /** Null while it is opening. */
  #ledger: Ledger | null = null;
  #opening = false;
  #renewing = false;
  /** The last renewal succeeded. */
  #renewed = false;
  #round: Round | null = null;
  #recount = false;
  #stopped = false;
  #flushing: Flushing | null = null;
  /** The flush has ended: the ledger may close. */
  #isOver = false;
  #lastId = 0;
  readonly #leasing: RecurringProblem;
  readonly #returning: RecurringProblem;
  readonly #renewals: RecurringProblem;
  readonly #opens: RecurringProblem;

  constructor(deps: LeaseManagerDeps) {
    this.#deps = deps;
    this.#settings = deps.settings;
    this.#table = new LeaseTable(deps.memory, 0);
    // Each may happen with every request while the store is away.
    const recurring = (what: string): RecurringProblem =>
      new RecurringProblem(what, {
        clock: () => this.#clock,
        onProblem: deps.onProblem,
        onOver: deps.onOver,
        onChange: () => this.#table.setFailing(problems.some(({ active }) => active)),
      });
    this.#opens = recurring('the store could not be opened; it is tried again');
    this.#leasing = recurring('credit could not be leased or given back');
    this.#returning = recurring('credit could not be given back; it returns when its lease ends');
    this.#renewals = recurring('leases could not be renewed');
    const delays = recurring('charges could not be posted and will be tried again');
    const problems = [this.#leasing, this.#returning, this.#renewals, delays];
    this.#charges = new UnpostedCharges({
      ...{ metrics: deps.metrics, onPosted: deps.onPosted, onProblem: deps.onProblem },
      delays,
      onDelay: () => this.#retrySoon(),
      onAnswer: () => this.#checkFlushed(),
    });
  }

  /** Begins, or goes on after a restart. */
  start(context: Context<LeaseManagerCommand>): void {
    this.#context = context;
    if (this.#ledger === null) this.#open();
    else this.#renew();
    this.#retrySoon();
    this.#tickSoon();
    if (!this.#stopped) context.timers.once('sweep', SWEEP_MS, { type: 'Sweep' });
    // A round whose answers were lost ends by its timeout.
    if (this.#round !== null) context.timers.once('round', ROUND_MS, { type: 'RoundTimeout' });
  }

  receive(command: LeaseManagerCommand): void {
    switch (command.type) {
      case 'Join':
        this.#threads.set(command.thread, command.replyTo);
        break;
      case 'Fund':
        this.#fund(command);
        break;
      case 'Charges':
        this.#charge(command.thread, command.charges);
        break;
      case 'Freed':
        this.#freed(command.account);
        break;
      case 'Refill':
        this.#refill(command.account);
        break;
      case 'Synced':
        this.#synced(command.thread, command.round);
        break;
      case 'ThreadGone':
        this.#threadGone(command.thread);
        break;
      case 'Changed':
        this.#changed(command.change);
        break;
      case 'Configure': {
        const isOther = command.settings.leaseTtlMs !== this.#settings.leaseTtlMs;
        this.#settings = command.settings;
        // Leases that are made from now on may end before the next renewal.
        if (isOther) this.#timers.once('renew', 0, { type: 'Renew' });
        break;
      }
      case 'Open':
        this.#open();
        break;
      case 'Renew':
        this.#renew();
        break;
      case 'Retry':
        this.#charges.retry();
        break;
      case 'Sweep':
        this.#sweep();
        break;
      case 'Tick':
        this.#tick();
        break;
      case 'RoundTimeout':
        this.#endRound(false);
        break;
      case 'Flush':
        this.#stop();
        this.#flushing = { replyTo: command.replyTo, released: false };
        this.#timers.once('flush', command.withinMs, { type: 'FlushTimeout' });
        this.#retrySoon();
        this.#checkFlushed();
        break;
      case 'FlushTimeout':
        this.#flushed();
        break;
      case 'FlushAgain':
        this.#checkFlushed();
        break;
      case 'GiveUp':
        command.replyTo.tell(this.#charges.giveUp());
        break;
    }
  }

  get #clock(): Clock {
    return (this.#context as Context<LeaseManagerCommand>).clock;
  }

  get #timers(): Context<LeaseManagerCommand>['timers'] {
    return (this.#context as Context<LeaseManagerCommand>).timers;
  }

  get #trusted(): boolean {
    return this.#table.trusted(this.#clock.now(), this.#deps.epochMs());
  }

  #open(): void {
    if (this.#opening) return;
    this.#opening = true;
    const { onOpen, openLedger } = this.#deps;
    openLedger().then(
      (ledger) => {
        this.#opening = false;
        this.#opens.ended();
        this.#ledger = ledger;
        this.#renew();
        this.#charges.open(ledger);
        onOpen(ledger);
      },
      (error: unknown) => {
        this.#opening = false;
        this.#opens.failed(error);
        this.#timers.once('open', REOPEN_MS, { type: 'Open' });
      },
    );
  }

  // Requests for credit

  #fund({ account, id, least, most, own = 0, thread }: Extract<LeaseManagerCommand, { type: 'Fund' }>): void {
    const isOpen = this.#ledger !== null && !this.#stopped;
    const lease = isOpen ? this.#leaseOf(account) : null;
    if (lease === null) {
      this.#refuse({ thread, id }, { kind: isOpen ? 'busy' : 'away' });
      return;
    }
    lease.idleSweeps = 0;
    lease.waiters.push({
      thread,
      id,
      least: picoOf(least),
      most: picoOf(Math.min(most, Number.MAX_SAFE_INTEGER)),
      own: picoOf(own),
      dueMs: this.#clock.now() + WAIT_MS,
      flexible: false,
    });
    this.#table.setWaiting(lease.cell, lease.waiters.length);
    this.#attend(lease);
    if (!this.#trusted) this.#renew();
    this.#pump(lease);
  }

  /** The lease of an account, with a new cell if it has none; null when all cells are used. */
  #leaseOf(account: string): Lease | null {
    let lease = this.#leases.get(account);
    if (lease !== undefined) return lease;
    const cell = this.#freeCells.pop() ?? this.#usedCells;
    if (cell === this.#table.cells) {
      this.#seekCell();
      return null;
    }
    if (cell === this.#usedCells) this.#usedCells++;
    lease = new Lease(account, cell, this.#table.generation(cell));
    this.#leases.set(account, lease);
    return lease;
  }

  /** Closes what nobody uses. Not for each request without a cell: all leases are looked at, and there may be thousands of both. */
  #seekCell(): void {
    const nowMs = this.#clock.now();
    if (this.#round !== null || nowMs - this.#soughtMs < SEEK_MS) return;
    this.#soughtMs = nowMs;
    this.#closeIdle(0);
  }

  #attend(lease: Lease): void {
    this.#attention.add(lease);
    this.#tickSoon();
  }

  #tickSoon(): void {
    if (this.#attention.size > 0 && !this.#timers.has('tick')) this.#timers.once('tick', TICK_MS, { type: 'Tick' });
  }

  #tick(): void {
    const nowMs = this.#clock.now();
    for (const lease of this.#attention) {
      if (lease.busy || !this.#trusted) this.#expire(lease, nowMs - GRACE_MS);
      if (lease.waiters.length === 0 || nowMs >= lease.lookMs) this.#pump(lease);
      if (lease.waiters.length === 0 && lease.returnMs === Infinity) this.#attention.delete(lease);
    }
    this.#tickSoon();
  }

  /** Ends the wait of requests that were due by then, while the ledger does not answer. */
  #expire(lease: Lease, dueMs: number): void {
    if (!lease.waiters.some((waiter) => waiter.dueMs <= dueMs)) return;
    const due = lease.waiters.filter((waiter) => waiter.dueMs <= dueMs);
    for (const waiter of due) waiter.flexible = true;
    this.#serve(lease);
    this.#refuseSome(
      lease,
      (waiter) => waiter.dueMs <= dueMs,
      () => ({ kind: 'away' }),
    );
  }

  /** Does what is next for a lease; one thing at a time. */
  #pump(lease: Lease): void {
    const ledger = this.#ledger;
    if (ledger === null || this.#stopped || this.#leases.get(lease.account) !== lease) return;
    if (lease.closing?.purpose === 'recount') return;
    if (lease.closing !== null) {
      if (lease.waiters.length === 0) return;
      this.#reopen(lease);
    }
    if (lease.waiters.length > 0 || lease.lean) this.#table.watch(lease.cell);
    this.#serve(lease);
    if (lease.busy) lease.again = true;
    else if (lease.uncovered) this.#run(lease, () => this.#cover(ledger, lease));
    else if (lease.wanted) this.#run(lease, () => this.#yield(ledger, lease));
    else if (lease.waiters.length > 0) this.#run(lease, () => this.#acquire(ledger, lease));
    else if (lease.changed) this.#run(lease, () => this.#checkGiver(ledger, lease));
    else if (lease.refill) this.#run(lease, () => this.#extendLow(ledger, lease));
    else this.#rest(ledger, lease);
  }

  /** Nobody waits: free credit of a small account goes back after a while. */
  #rest(ledger: Ledger, lease: Lease): void {
    if (!lease.lean) {
      this.#table.unwatch(lease.cell);
      lease.returnMs = Infinity;
    } else if (this.#table.free(lease.cell) <= 0n) {
      lease.returnMs = Infinity;
    } else if (lease.returnMs === Infinity) {
      lease.returnMs = this.#clock.now() + RETURN_MS;
      this.#attend(lease);
    } else if (this.#clock.now() >= lease.returnMs) {
      lease.returnMs = Infinity;
      this.#run(lease, () => this.#giveBack(ledger, lease, this.#table.takeFree(lease.cell)));
    }
  }

  #run(lease: Lease, work: () => Promise<void>): void {
    const { metrics } = this.#deps;
    lease.busy = true;
    lease.version++;
    lease.again = false;
    work()
      .then(() => this.#leasing.succeeded())
      .catch((error: unknown) => {
        this.#leasing.failed(error);
        metrics.refill('away');
        this.#refuseAll(lease);
        // Nobody knows whether it was done: the next renewal tells.
        this.#timers.once('renew', RETRY_MS, { type: 'Renew' });
      })
      .finally(() => {
        lease.busy = false;
        lease.version++;
        const { again } = lease;
        if (again || lease.waiters.length === 0) this.#pump(lease);
        this.#checkFlushed();
      });
  }

  /** Grants what the lease covers, in order of arrival. */
  #serve(lease: Lease): void {
    const { cell, generation, account } = lease;
    if (lease.waiters.length === 0 || !this.#trusted) return;
    let served = 0;
    for (const { flexible, id, least, most, thread } of lease.waiters) {
      let amount = most;
      if (!this.#table.grant(cell, thread, amount)) {
        const free = this.#table.free(cell);
        amount = free < most ? free : most;
        if (!flexible || amount < least || !this.#table.grant(cell, thread, amount)) break;
      }
      served++;
      const granted = { id, account, amount: Number(amount), cell, generation };
      this.#threads.get(thread)?.tell({ type: 'Granted', ...granted });
    }
    if (served === 0) return;
    lease.waiters.splice(0, served);
    this.#table.setWaiting(cell, lease.waiters.length);
  }

  #refuse({ id, thread }: Pick<Waiter, 'id' | 'thread'>, refusal: Refusal): void {
    this.#deps.metrics.refill(refusal.kind);
    this.#threads.get(thread)?.tell({ type: 'Refused', id, refusal });
  }

  #refuseSome(lease: Lease, isRefused: (waiter: Waiter) => boolean, refusalOf: (waiter: Waiter) => Refusal): void {
    const left: Waiter[] = [];
    for (const waiter of lease.waiters) {
      if (isRefused(waiter)) this.#refuse(waiter, refusalOf(waiter));
      else left.push(waiter);
    }
    lease.waiters = left;
    this.#table.setWaiting(lease.cell, left.length);
  }

  /** The ledger cannot be asked. */
  #refuseAll(lease: Lease): void {
    for (const waiter of lease.waiters.splice(0)) this.#refuse(waiter, { kind: 'away' });
    this.#table.setWaiting(lease.cell, 0);
  }

  /** Leases what the requests that wait need, or finds that they have to wait, or cannot be served. */
  async #acquire(ledger: Ledger, lease: Lease): Promise<void> {
    const payer = await this.#payerOf(ledger, lease);
    if (await this.#leftGiver(lease)) return;
    const credit = creditOf(payer);
    const total = credit + (payer?.held ?? 0n);
    this.#refuseSome(
      lease,
      ({ least, most, own }) => least + own > total || least > most,
      ({ own }) => ({ kind: 'short', balance: Number(total > own ? total - own : 0n) }),
    );
    this.#serve(lease);
    if (!this.#trusted) {
      // The clock may have been set while a renewal was under way.
      this.#renew();
      return;
    }
    const nowMs = this.#clock.now();
    let late = 0;
    let isCovered = false;
    for (const head of lease.waiters) {
      // What the account does not have is not waited for.
      head.flexible = nowMs >= head.dueMs || total - head.own < head.most;
      isCovered = this.#table.free(lease.cell) + credit >= (head.flexible ? head.least : head.most);
      if (isCovered || nowMs < head.dueMs) break;
      late++;
    }
    // All at once: there may be thousands.
    for (const waiter of lease.waiters.splice(0, late)) this.#refuse(waiter, { kind: 'busy' });
    this.#table.setWaiting(lease.cell, lease.waiters.length);
    if (lease.waiters.length === 0) return;
    if (!isCovered) {
      await this.#ask(ledger, lease, payer);
      return;
    }
    const amount = this.#missing(lease, credit);
    const before = lease.waiters.length;
    if (amount > 0n) await this.#extend(ledger, lease, amount);
    this.#table.setRefill(lease.cell, !lease.lean);
    this.#serve(lease);
    if (lease.waiters.length < before) lease.again = true;
  }

  /** What to lease for the requests that wait, as many of them as the credit covers, and beyond. */
  #missing(lease: Lease, credit: bigint): bigint {
    const free = this.#table.free(lease.cell);
    let need = 0n;
    for (const [at, { most }] of lease.waiters.entries()) {
      if (need + most > free + credit && at > 0) break;
      need += most;
    }
    const missing = need - free;
    if (missing >= credit) return credit;
    const extra = this.#extra(lease, credit - (missing > 0n ? missing : 0n));
    return missing + extra > 0n ? missing + extra : 0n;
  }

  /** What to lease beyond the need, when the balance is so much. */
  #extra(lease: Lease, credit: bigint): bigint {
    const size = BigInt(this.#settings.leasePico);
    lease.lean = credit < FEW * size || this.#clock.now() < lease.leanUntilMs;
    if (lease.lean) return 0n;
    const share = credit / SHARE;
    const extra = size * lease.growth;
    return extra < share ? extra : share;
  }

  /** The account whose credit pays; undefined when there is no such account. */
  async #payerOf(ledger: Ledger, lease: Lease): Promise<Account | undefined> {
    lease.changed = false;
    const account = await ledger.account(lease.account);
    const organisation = account?.organisation ?? null;
    lease.payer = organisation ?? lease.account;
    return organisation === null ? account : await ledger.account(organisation);
  }

  async #checkGiver(ledger: Ledger, lease: Lease): Promise<void> {
    await this.#payerOf(ledger, lease);
    await this.#leftGiver(lease);
  }

  /** Whether the lease was of another payer than the account has now. It has been given back; the new one covers what is in use. */
  async #leftGiver(lease: Lease): Promise<boolean> {
    const { giver, id, payer } = lease;
    if (id === null || giver === payer) return false;
    this.#drop(lease);
    await this.#release(id);
    return true;
  }

  /** Asks those that have leased credit of the same payer: other accounts of this gateway, and other gateways. */
  async #ask(ledger: Ledger, lease: Lease, payer: Account | undefined): Promise<void> {
    const nowMs = this.#clock.now();
    lease.lean = true;
    let elsewhere = (payer?.held ?? 0n) - lease.left;
    for (const other of this.#leases.values()) {
      if (other === lease || other.payer !== lease.payer) continue;
      elsewhere -= other.left;
      this.#want(other);
    }
    const isAsked = nowMs - lease.askedMs < WANT_MS;
    lease.lookMs = nowMs + (elsewhere > 0n && nowMs - lease.askedMs < GIVING_MS ? LOOK_SOON_MS : LOOK_MS);
    if (elsewhere <= 0n || isAsked) return;
    lease.askedMs = nowMs;
    lease.lookMs = nowMs + LOOK_SOON_MS;
    await ledger.want(lease.payer, this.#deps.instance);
  }

  /** Credit of the lease is needed elsewhere. */
  #want(lease: Lease): void {
    lease.leanUntilMs = this.#clock.now() + LEAN_MS;
    lease.lean = true;
    this.#table.watch(lease.cell);
    // Of accounts that have nothing to give, and wait themselves, each would ask the others again at once.
    if (this.#table.free(lease.cell) <= 0n) return;
    lease.wanted = true;
    this.#pump(lease);
  }

  /** Adds to the lease, or makes one. Adds to FREE what was got. */
  async #extend(ledger: Ledger, lease: Lease, amount: bigint): Promise<void> {
    const most = MAX_LEFT - lease.left;
    const wanted = amount < most ? amount : most;
    if (wanted <= 0n) return;
    let answer: HoldAnswer | undefined;
    if (lease.id !== null) {
      try {
        answer = await ledger.extend(lease.id, ++this.#lastId, wanted);
      } catch (error) {
        if (!isClosed(error)) throw error;
        this.#drop(lease);
        return;
      }
    }
    answer ??= await this.#make(ledger, lease, wanted);
    if (answer.kind === 'held') {
      lease.left += answer.amount;
      this.#table.add(lease.cell, answer.amount);
      this.#deps.metrics.refill('funded');
    }
  }

  async #make(ledger: Ledger, lease: Lease, amount: bigint): Promise<HoldAnswer> {
    const { instance } = this.#deps;
    const id = `${instance}/${++this.#lastId}`;
    const giver = lease.payer;
    const ttlMs = this.#settings.leaseTtlMs;
    this.#making.add(id);
    this.#unreleased.add(id);
    try {
      const answer = await ledger.lease({ id, account: lease.account, amount, holder: instance, ttlMs });
      if (answer.kind === 'held') {
        lease.id = id;
        lease.giver = giver;
      } else {
        this.#unreleased.delete(id);
      }
      return answer;
    } catch (error) {
      if (error instanceof LedgerError && error.refusal === 'account-unknown') return { kind: 'short', balance: 0n };
      throw error;
    } finally {
      this.#making.delete(id);
    }
  }

  #refill(account: string): void {
    const lease = this.#leases.get(account);
    if (lease === undefined) return;
    lease.refill = true;
    this.#pump(lease);
  }

  async #extendLow(ledger: Ledger, lease: Lease): Promise<void> {
    lease.refill = false;
    const nowMs = this.#clock.now();
    if (nowMs - lease.refilledMs < FAST_MS) lease.growth = lease.growth < MAX_GROWTH ? lease.growth * 2n : MAX_GROWTH;
    else if (lease.growth > 1n && nowMs - lease.refilledMs > FAST_MS * 10) lease.growth /= 2n;
    lease.refilledMs = nowMs;
    const payer = await this.#payerOf(ledger, lease);
    if (await this.#leftGiver(lease)) return;
    const extra = this.#extra(lease, creditOf(payer));
    if (extra > 0n) await this.#extend(ledger, lease, extra);
    this.#table.setRefill(lease.cell, !lease.lean);
  }

  #freed(account: string): void {
    const lease = this.#leases.get(account);
    if (lease !== undefined) this.#pump(lease);
  }

  // Credit that goes back

  #changed(change: Change): void {
    if (change.kind === 'wanted') {
      if (change.by === this.#deps.instance) return;
      for (const lease of this.#leases.values()) if (lease.payer === change.account) this.#want(lease);
    } else if (change.kind === 'account' || change.kind === 'all') {
      const own = change.kind === 'account' ? this.#leases.get(change.account) : undefined;
      if (own !== undefined) {
        own.changed = true;
        this.#pump(own);
      }
      for (const lease of this.#attention) {
        const isMeant = change.kind === 'all' || change.account === lease.payer || change.account === lease.account;
        if (isMeant && lease.waiters.length > 0) this.#pump(lease);
      }
    }
  }

  /** Gives all free credit to another gateway. Own requests wait with it, so that two gateways do not each keep a half. */
  async #yield(ledger: Ledger, lease: Lease): Promise<void> {
    lease.wanted = false;
    await this.#giveBack(ledger, lease, this.#table.takeFree(lease.cell));
    lease.again = true;
    for (const other of this.#attention) {
      if (other !== lease && other.payer === lease.payer && other.waiters.length > 0) this.#pump(other);
    }
  }

  /** Gives back what was taken out of FREE. */
  async #giveBack(ledger: Ledger, lease: Lease, amount: bigint): Promise<void> {
    lease.left -= amount;
    if (amount === 0n || lease.id === null) return;
    try {
      await ledger.giveBack(lease.id, ++this.#lastId, amount);
    } catch (error) {
      if (!isClosed(error)) throw error;
      this.#drop(lease);
    }
  }

  /** The ledger has closed the lease: nothing is behind FREE any more. */
  #drop(lease: Lease): void {
    lease.id = null;
    lease.left -= this.#table.takeFree(lease.cell);
    lease.uncovered = true;
    lease.again = true;
  }

  /** Leases again what is in use of a lease that was closed. What cannot be had is made up by what returns. */
  async #cover(ledger: Ledger, lease: Lease): Promise<void> {
    const uncovered = lease.left;
    lease.uncovered = false;
    lease.again = true;
    if (uncovered <= 0n || lease.id !== null) return;
    const answer = await this.#make(ledger, lease, uncovered);
    const covered = answer.kind === 'held' ? answer.amount : 0n;
    lease.left -= uncovered - covered;
    this.#table.add(lease.cell, covered - uncovered);
  }

  #sweep(): void {
    this.#timers.once('sweep', SWEEP_MS, { type: 'Sweep' });
    for (const lease of this.#leases.values()) {
      if (this.#table.takeTouched(lease.cell)) lease.idleSweeps = 0;
      else lease.idleSweeps++;
      this.#trim(lease);
    }
    if (this.#recount) this.#recountAll();
    else this.#closeIdle(IDLE_SWEEPS);
  }

  /** Gives back what a lease has beyond its size: half of it at a time, all of it when it is idle. */
  #trim(lease: Lease): void {
    const ledger = this.#ledger;
    // What a store that is away has not answered could not be used until it does.
    if (ledger === null || !this.#renewed) return;
    if (lease.busy || lease.closing !== null || lease.waiters.length > 0) return;
    const free = this.#table.free(lease.cell);
    const size = BigInt(this.#settings.leasePico) * lease.growth;
    const isIdle = lease.idleSweeps >= IDLE_SWEEPS;
    const surplus = isIdle ? free : (free - size) / 2n;
    if (surplus <= 0n || (!isIdle && free < 2n * size)) return;
    this.#run(lease, async () => {
      const taken = this.#table.takeFree(lease.cell);
      const kept = taken > surplus ? taken - surplus : 0n;
      this.#table.add(lease.cell, kept);
      await this.#giveBack(ledger, lease, taken - kept);
    });
  }

  /** Begins to close the leases that nobody has used for so many sweeps. */
  #closeIdle(sweeps: number): void {
    const idle: Lease[] = [];
    for (const lease of this.#leases.values()) {
      if (lease.idleSweeps >= sweeps && this.#isUnused(lease)) idle.push(lease);
    }
    this.#close(idle, 'idle');
  }

  #isUnused(lease: Lease): boolean {
    const { busy, cell, unposted, waiters } = lease;
    return !busy && unposted === 0 && waiters.length === 0 && this.#table.used(cell).every((amount) => amount === 0n);
  }

  // Rounds

  /** Closes the cells of leases and waits until all threads have noticed. */
  #close(leases: readonly Lease[], purpose: Closing['purpose']): void {
    if (leases.length === 0 || this.#round !== null) return;
    const closed: [Lease, Closing][] = [];
    for (const lease of leases) {
      if (lease.closing === null) this.#table.close(lease.cell);
      lease.closing = { purpose, rounds: 0, free: 0n, used: [] };
      closed.push([lease, lease.closing]);
    }
    this.#begin(closed);
  }

  #begin(leases: Round['leases']): void {
    const round: Round = { id: ++this.#lastId, awaited: new Set(this.#threads.keys()), leases };
    this.#round = round;
    this.#timers.once('round', ROUND_MS, { type: 'RoundTimeout' });
    for (const thread of this.#threads.values()) thread.tell({ type: 'Sync', round: round.id });
    if (round.awaited.size === 0) this.#endRound(true);
  }

  #synced(thread: number, id: number): void {
    if (this.#round?.id !== id) return;
    this.#round.awaited.delete(thread);
    if (this.#round.awaited.size === 0) this.#endRound(true);
  }

  /** `all`: all threads have passed a point outside of the table's functions since the round began. */
  #endRound(all: boolean): void {
    const leases = this.#round?.leases ?? [];
    this.#round = null;
    this.#timers.cancel('round');
    const next: [Lease, Closing][] = [];
    for (const [lease, closing] of leases) {
      if (lease.closing !== closing) continue;
      if (all && this.#isStill(lease, closing)) this.#countLost(lease, closing);
      else if (all && closing.rounds < MAX_ROUNDS) next.push([lease, closing]);
      else {
        // Tried again at the next sweep.
        if (closing.purpose === 'recount') this.#recount = true;
        this.#reopen(lease);
        this.#pump(lease);
      }
    }
    if (next.length > 0) this.#begin(next);
    else if (all && this.#recount) this.#recountAll();
  }

  /**
   * Whether USED of a closed cell stood still over the last round. Then no thread was about to return credit when the round
   * began, and none has returned any until FREE was read. FREE is read first: what returns later shows in USED.
   */
  #isStill(lease: Lease, closing: Closing): boolean {
    const free = this.#table.free(lease.cell);
    const used = this.#table.used(lease.cell);
    const isStill = closing.rounds > 0 && used.every((amount, thread) => amount === closing.used[thread]);
    closing.free = free;
    closing.used = used;
    closing.rounds++;
    return isStill;
  }

  /** What is missing was lost by a thread that died inside of a function. An idle lease ends. */
  #countLost(lease: Lease, { free, purpose, used }: Closing): void {
    const inUse = used.reduce((sum, amount) => sum + amount, 0n);
    this.#table.add(lease.cell, lease.left - free - inUse);
    if (purpose === 'idle' && inUse === 0n && this.#isUnused(lease)) {
      this.#remove(lease);
    } else {
      this.#reopen(lease);
      this.#pump(lease);
    }
  }

  #reopen(lease: Lease): void {
    lease.closing = null;
    this.#table.reopen(lease.cell);
  }

  #remove(lease: Lease): void {
    const { account, cell, id } = lease;
    this.#leases.delete(account);
    this.#attention.delete(lease);
    this.#table.clear(cell);
    this.#freeCells.push(cell);
    if (id !== null) void this.#release(id);
  }

  async #release(id: string): Promise<void> {
    try {
      await this.#ledger?.release(id);
      this.#unreleased.delete(id);
      this.#returning.succeeded();
    } catch (error) {
      this.#returning.failed(error);
    }
  }

  #threadGone(thread: number): void {
    this.#threads.delete(thread);
    for (const lease of this.#leases.values()) {
      this.#table.recover(lease.cell, thread);
      lease.waiters = lease.waiters.filter((waiter) => waiter.thread !== thread);
      this.#table.setWaiting(lease.cell, lease.waiters.length);
    }
    this.#recount = true;
    if (this.#round !== null) this.#synced(thread, this.#round.id);
    this.#recountAll();
  }

  /** Counts what a thread that died inside of a function of the table has lost. */
  #recountAll(): void {
    if (this.#round !== null) return;
    this.#recount = false;
    this.#close([...this.#leases.values()], 'recount');
  }

  // Charges

  #charge(thread: number, charges: readonly ReportedCharge[]): void {
    const { epochMs, instance } = this.#deps;
    // A store that is away for long does not change when the work was done.
    const dateMs = Math.floor(epochMs());
    const batch: UnpostedCharge[] = [];
    for (const reported of charges) {
      const { account, amount, covered, prepaid, usage } = reported;
      const lease = prepaid ? this.#leases.get(account) : undefined;
      if (lease !== undefined && covered > 0) {
        this.#table.retire(lease.cell, thread, BigInt(covered));
        lease.left -= BigInt(covered);
      }
      if (!this.#charges.takes(reported)) continue;
      const charge = {
        ...{ id: `${instance}/${++this.#lastId}`, account, amount: BigInt(amount), usage, dateMs },
        // Without a lease the balance pays.
        ...(lease !== undefined && lease.id !== null && { lease: lease.id }),
      };
      const unposted = { charge, reported, lease };
      this.#charges.add(unposted);
      batch.push(unposted);
    }
    this.#charges.post(batch);
  }

  #retrySoon(): void {
    if (this.#charges.size === 0) return;
    this.#timers.once('retry', this.#flushing === null ? RETRY_MS : FLUSH_RETRY_MS, { type: 'Retry' });
  }

  /** From now on nothing is drawn or leased. */
  #stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#timers.cancel('sweep');
    for (const lease of this.#leases.values()) {
      if (lease.closing === null) this.#table.close(lease.cell);
      this.#refuseAll(lease);
    }
  }

  #checkFlushed(): void {
    const flushing = this.#flushing;
    if (flushing === null || this.#charges.size > 0 || flushing.released) return;
    // What is being leased may not be in the ledger yet.
    for (const { busy } of this.#leases.values()) if (busy) return;
    flushing.released = true;
    this.#releaseAll().then(
      () => this.#flushed(),
      (error: unknown) => {
        this.#returning.failed(error);
        flushing.released = false;
        this.#timers.once('flush-again', FLUSH_RETRY_MS, { type: 'FlushAgain' });
      },
    );
  }

  /**
   * Gives back what the ledger has open for this process, known here or not: the answer to a lease may have been lost. All of it lapses
   * first, so that other gateways give back what this one cannot.
   */
  async #releaseAll(): Promise<void> {
    const ledger = this.#ledger;
    if (ledger === null || this.#unreleased.size === 0) return;
    const open = await ledger.renew(this.#deps.instance, 0);
    await Promise.all(open.map(({ id }) => ledger.release(id)));
    this.#unreleased.clear();
    this.#returning.succeeded();
  }

  #flushed(): void {
    const replyTo = this.#flushing?.replyTo;
    this.#flushing = null;
    this.#isOver = true;
    for (const name of ['flush', 'flush-again', 'renew']) this.#timers.cancel(name);
    replyTo?.tell('flushed');
  }

  // Renewal

  #renew(): void {
    const ledger = this.#ledger;
    if (ledger === null || this.#renewing || this.#isOver) return;
    this.#renewing = true;
    this.#timers.once('renew', this.#settings.leaseTtlMs / RENEWALS, { type: 'Renew' });
    this.#renewLeases(ledger)
      .then(() => this.#renewals.succeeded())
      .catch((error: unknown) => {
        this.#renewed = false;
        this.#renewals.failed(error);
        this.#timers.once('renew', RETRY_MS, { type: 'Renew' });
      })
      .finally(() => {
        this.#renewing = false;
        // It was due meanwhile.
        if (!this.#timers.has('renew')) this.#timers.once('renew', 0, { type: 'Renew' });
      });
  }

  /**
   * Renews all leases, and compares what the ledger has left of each with what is known here: an operation whose answer was
   * lost shows here.
   */
  async #renewLeases(ledger: Ledger): Promise<void> {
    const { epochMs, instance } = this.#deps;
    const { leaseTtlMs } = this.#settings;
    const steadyMs = this.#clock.now();
    const wallMs = epochMs();
    const making = new Set(this.#making);
    const made = [...this.#unreleased].filter((id) => !making.has(id));
    const before = [...this.#leases.values()].map((lease) => [lease, lease.id, lease.version] as const);
    const open = await ledger.renew(instance, leaseTtlMs);
    const left = new Map(open.map((hold) => [hold.id, hold.left]));
    const known = new Set<string>();
    for (const [lease, id, version] of before) {
      if (lease.id !== id) continue;
      const rest = id === null ? 0n : left.get(id);
      if (rest === undefined) this.#drop(lease);
      else if (!lease.busy && lease.unposted === 0 && lease.version === version) this.#reconcile(lease, rest);
    }
    for (const { id } of this.#leases.values()) if (id !== null) known.add(id);
    for (const id of made) if (!left.has(id)) this.#unreleased.delete(id);
    this.#renewed = true;
    // Nothing is spent of a lease that has expired: its FREE was emptied before.
    this.#table.trust(steadyMs + leaseTtlMs, wallMs + leaseTtlMs);
    for (const lease of this.#leases.values()) if (lease.uncovered || lease.waiters.length > 0) this.#pump(lease);
    for (const { id } of open) {
      // Renewed with the others, it would never run out by itself.
      if (!known.has(id) && !making.has(id) && !this.#making.has(id)) await this.#release(id);
    }
    await ledger.expire();
  }

  #reconcile(lease: Lease, rest: bigint): void {
    const unknown = rest - lease.left;
    if (unknown === 0n) return;
    lease.left = rest;
    this.#table.add(lease.cell, unknown);
  }
}

/** What an account can spend, beside what is held. */
function creditOf(account: Account | undefined): bigint {
  return account === undefined ? 0n : account.balance + account.creditLimit;
}

/** A request for an impossible amount is beyond every balance. */
function picoOf(amount: number): bigint {
  return Number.isFinite(amount) ? BigInt(Math.ceil(amount)) : MAX_LEFT;
}

function isClosed(error: unknown): boolean {
  return error instanceof LedgerError && (error.refusal === 'hold-closed' || error.refusal === 'hold-unknown');
}
