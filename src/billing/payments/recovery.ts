// Payments that a crash, a lost answer or an absent database left half done. Rounds run at start and then regularly, in
// every process of a store; they may overlap. A submitted payment is asked about until the facilitator says that it has
// settled; its money becomes credit, because nobody waits for the work any more.

import pLimit from 'p-limit';
import type { Clock, TimerHandle } from '../../actor/index.ts';
import type { Payment } from '../ledger/store.ts';
import type { Settlements } from './settlement.ts';

export interface RecoverySettings {
  /** Age from which a submitted payment counts as left behind. More than a settlement takes anywhere. */
  readonly graceMs: number;
  readonly periodMs: number;
}

/** What one round did. */
export interface Round {
  readonly booked: number;
  /** Left submitted: the facilitator does not say that they have settled. */
  readonly open: number;
  /** Reserved and never submitted, and too old now. */
  readonly expired: number;
}

/** Between two requests about the same payment; doubles each time. */
const FIRST_WAIT_MS = 30_000;

/**
 * Payments looked at in a round beyond those it knows to be stuck, so that these never hide the others, and how many of
 * them are asked about: a facilitator that is silent must not keep the next round waiting for hours.
 */
const ROUND_PAYMENTS = 1000;
const ROUND_QUESTIONS = 64;
const QUESTIONS_AT_ONCE = 8;

/** How long after the end of its validity a payment is still asked about. */
const AFTERMATH_MS = 3_600_000;

interface Patience {
  readonly nextMs: number;
  readonly waitMs: number;
}

export class Recovery {
  readonly #settlements: Settlements;
  readonly #settings: RecoverySettings;
  readonly #clock: Clock;
  readonly #patience = new Map<string, Patience>();
  #timer: TimerHandle | undefined;
  #running: Promise<Round> | undefined;

  constructor(settlements: Settlements, settings: RecoverySettings, clock: Clock) {
    this.#settlements = settlements;
    this.#settings = settings;
    this.#clock = clock;
  }

  /** One round; one that is under way is joined. Rejects when the ledger cannot be read. */
  round(): Promise<Round> {
    this.#running ??= this.#round().finally(() => (this.#running = undefined));
    return this.#running;
  }

  /** Rounds from now on, until `stop`. `onRound` hears of each, or of the error that ended it. */
  start(onRound: (round: Round | Error) => void): void {
    const again = (): void => {
      const next = (told: Round | Error): void => {
        onRound(told);
        if (this.#timer !== undefined) this.#timer = this.#clock.setTimeout(again, this.#settings.periodMs);
      };
      this.round().then(next, next);
    };
    this.#timer = this.#clock.setTimeout(again, 0);
  }

  /** Resolves when no round is under way. */
  async stop(): Promise<void> {
    if (this.#timer !== undefined) this.#clock.clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#running?.catch(() => undefined);
  }

  /** Whether a payment that others left behind may be taken over. */
  isAbandoned({ changedMs, id }: Payment): boolean {
    const { dateMs } = this.#settlements.parts;
    return changedMs + this.#settings.graceMs <= dateMs() && !this.#settlements.isBusy(id);
  }

  async #round(): Promise<Round> {
    const { dateMs, ledger } = this.#settlements.parts;
    let booked = await this.#settlements.bookLate();
    const limit = ROUND_PAYMENTS + this.#patience.size;
    const submitted = await ledger.paymentsIn('submitted', limit);
    const due = submitted.filter((payment) => this.isAbandoned(payment) && this.#isTime(payment));
    const ask = pLimit(QUESTIONS_AT_ONCE);
    const asked = due.slice(0, ROUND_QUESTIONS).map((payment) => ask(() => this.#ask(payment)));
    booked += (await Promise.all(asked)).filter(Boolean).length;
    const open = await ledger.paymentsIn('submitted', limit);
    this.#forget(new Set(open.map(({ id }) => id)));
    let expired = 0;
    for (const { id, validUntilMs } of await ledger.paymentsIn('reserved')) {
      if (validUntilMs > dateMs() || this.#settlements.isBusy(id)) continue;
      await ledger.failPayment(id, 'expired');
      expired++;
    }
    return { booked, open: open.length, expired };
  }

  async #ask(payment: Payment): Promise<boolean> {
    const { waitMs } = this.#patience.get(payment.id) ?? { waitMs: FIRST_WAIT_MS };
    this.#patience.set(payment.id, { nextMs: this.#settlements.parts.dateMs() + waitMs, waitMs: waitMs * 2 });
    return (await this.#settlements.askAgain(payment)).kind === 'booked';
  }

  #isTime({ id, validUntilMs }: Payment): boolean {
    const nowMs = this.#settlements.parts.dateMs();
    const { nextMs } = this.#patience.get(id) ?? { nextMs: 0 };
    // The first time is for every payment: the start of a process is when the facilitator may know more.
    return nowMs >= nextMs && (nextMs === 0 || nowMs <= validUntilMs + AFTERMATH_MS);
  }

  #forget(open: ReadonlySet<string>): void {
    for (const id of this.#patience.keys()) {
      if (!open.has(id)) this.#patience.delete(id);
    }
  }
}
