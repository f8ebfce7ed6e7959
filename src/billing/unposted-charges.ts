// Charges on their way into the ledger: each is kept and tried again until the ledger has it, or refuses it for good.

import { counted } from '../config/units.ts';
import type { LedgerMetrics } from '../telemetry/ledger-metrics.ts';
import type { RecurringProblem } from '../telemetry/recurring-problem.ts';
import { printUsd } from './money.ts';
import { type Charge, type HoldSettlement, type Ledger, LedgerError, type Usage } from './ledger/ledger.ts';

/** What a thread spent for one account, key and model since its last report. Amounts in pico-USD. */
export interface ReportedCharge {
  readonly account: string;
  /** False: the account pays later, and no lease is behind this. */
  readonly prepaid: boolean;
  readonly amount: number;
  /** The part of it that was drawn from the lease. */
  readonly covered: number;
  readonly usage: Usage;
}

/** What a lease knows of its charges. */
export interface ChargedLease {
  /** Reported charges that are not posted. */
  unposted: number;
  /** Counts what may change the lease in the ledger. */
  version: number;
}

export interface UnpostedCharge {
  readonly charge: Charge;
  readonly reported: ReportedCharge;
  /** Undefined: the balance pays. */
  readonly lease: ChargedLease | undefined;
}

export interface UnpostedChargesDeps {
  readonly metrics: Pick<LedgerMetrics, 'charged' | 'readWaiting'>;
  readonly onPosted: (charge: Charge) => void;
  readonly onProblem: (error: unknown, what: string) => void;
  /** Charges that the ledger cannot take at the moment. */
  readonly delays: Pick<RecurringProblem, 'failed' | 'succeeded'>;
  /** Charges wait for a call of `retry`. */
  readonly onDelay: () => void;
  /** The ledger has answered: fewer may wait than before. */
  readonly onAnswer: () => void;
}

const PICO_PER_USD = 1e12;

/** Charges kept while the ledger is away; each is bounded by its lease, so this bounds memory and not money. */
const MAX_WAITING = 100_000;

export class UnpostedCharges {
  readonly #deps: UnpostedChargesDeps;
  readonly #waiting = new Set<UnpostedCharge>();
  /** On their way into the ledger. */
  readonly #posting = new Set<UnpostedCharge>();
  /** Null while it is opening. */
  #ledger: Ledger | null = null;
  #gaveUp = false;

  constructor(deps: UnpostedChargesDeps) {
    this.#deps = deps;
    deps.metrics.readWaiting(() => this.#waiting.size);
  }

  get size(): number {
    return this.#waiting.size;
  }

  open(ledger: Ledger): void {
    this.#ledger = ledger;
    this.post([...this.#waiting]);
  }

  /** False: the charge is lost, which has been reported. */
  takes({ account, amount }: ReportedCharge): boolean {
    const loss = this.#lossOf(amount);
    if (loss === null) return true;
    this.#deps.onProblem(new Error(`${usdOf(amount)} of account '${account}'`), `a charge is lost: ${loss}`);
    return false;
  }

  /** Keeps a charge that `takes` has let through, until it is posted or lost. */
  add(one: UnpostedCharge): void {
    if (one.lease !== undefined) one.lease.unposted++;
    this.#waiting.add(one);
  }

  /** Posts charges that are kept. While the ledger is not open they wait. */
  post(batch: readonly UnpostedCharge[]): void {
    if (this.#ledger === null || batch.length === 0) return;
    for (const one of batch) this.#posting.add(one);
    this.#ledger
      .charge(batch.map(({ charge }) => charge))
      .then(
        (outcomes) => this.#posted(batch, outcomes),
        (error: unknown) => this.#failed(batch, error),
      )
      .finally(() => this.#deps.onAnswer());
  }

  retry(): void {
    this.post([...this.#waiting].filter((one) => !this.#posting.has(one)));
  }

  /** From now on charges are lost; answers with those that wait. */
  giveUp(): ReportedCharge[] {
    this.#gaveUp = true;
    const lost = [...this.#waiting];
    for (const one of lost) this.#done(one);
    return lost.map(({ reported }) => reported);
  }

  #lossOf(amount: number): string | null {
    if (this.#gaveUp) return 'the ledger is closed';
    if (this.#waiting.size >= MAX_WAITING) return 'too many wait';
    return Number.isSafeInteger(amount) ? null : 'not an amount';
  }

  #posted(batch: readonly UnpostedCharge[], outcomes: readonly PromiseSettledResult<HoldSettlement>[]): void {
    const failed: UnpostedCharge[] = [];
    let problem: unknown;
    for (const [at, one] of batch.entries()) {
      const outcome = outcomes[at] as PromiseSettledResult<HoldSettlement>;
      if (outcome.status === 'fulfilled') {
        this.#taken(one, outcome.value);
      } else if (isFinal(outcome.reason)) {
        this.#refused(one, outcome.reason);
      } else {
        failed.push(one);
        problem = outcome.reason;
      }
    }
    if (failed.length > 0) this.#delayed(failed, problem);
    else this.#deps.delays.succeeded();
  }

  #failed(batch: readonly UnpostedCharge[], error: unknown): void {
    if (isFinal(error)) for (const one of batch) this.#refused(one, error);
    else this.#delayed(batch, error);
  }

  #taken(one: UnpostedCharge, { parked }: HoldSettlement): void {
    const { account, amount, usage } = one.reported;
    this.#done(one);
    if (parked !== undefined) {
      const what = `a charge of ${usdOf(amount)} to account '${account}' is parked: the database refuses it`;
      this.#deps.onProblem(new Error(parked), what);
      return;
    }
    this.#deps.onPosted(one.charge);
    const basis = usage.measured ? 'measured' : 'estimated';
    this.#deps.metrics.charged(usage.model, basis, amount / PICO_PER_USD, usage.requests ?? 1);
  }

  #refused(one: UnpostedCharge, error: unknown): void {
    const { account, amount } = one.reported;
    this.#deps.onProblem(error, `a charge of ${usdOf(amount)} to account '${account}' is lost: the ledger refuses it`);
    this.#done(one);
  }

  /** One problem for all of them: a line for each would fill the log while many wait for the store. */
  #delayed(batch: readonly UnpostedCharge[], error: unknown): void {
    for (const one of batch) this.#posting.delete(one);
    this.#deps.delays.failed(error, `${counted(batch.length, 'charge')} could not be posted and will be tried again`);
    this.#deps.onDelay();
  }

  #done(one: UnpostedCharge): void {
    this.#posting.delete(one);
    if (!this.#waiting.delete(one) || one.lease === undefined) return;
    one.lease.unposted--;
    one.lease.version++;
  }
}

/** In USD, as `headrace credits adjust` takes it; what is no amount of whole pico-USD is shown as it is. */
function usdOf(amount: number): string {
  return Number.isSafeInteger(amount) ? `${printUsd(BigInt(amount))} USD` : `${amount} pico-USD`;
}

/** What the ledger refuses it will refuse again. */
function isFinal(error: unknown): boolean {
  return error instanceof LedgerError && error.refusal !== 'queue-full' && error.refusal !== 'closed';
}
