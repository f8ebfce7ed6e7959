// Metrics of x402 payments: what settlements came to, how many payments are open and for how long, and what waits for its turn.

import type { MetricsSnapshot } from './metrics.ts';
import { Families } from './series.ts';

/** Requests and purchases that are judged or worked on. */
export interface PaymentQueues {
  /** Checked by the facilitator at the moment. */
  readonly verifying: number;
  /** Waiting for a place. */
  readonly waiting: number;
  /** Requests under way that are not paid yet. */
  readonly unpaid: number;
}

const NO_QUEUES: PaymentQueues = { verifying: 0, waiting: 0, unpaid: 0 };

export class PaymentMetrics {
  readonly #families = new Families();
  readonly #settlements = this.#families.counter(
    'headrace_payment_settlements_total',
    'Settlements that a client waited for, by outcome: settled, refused, unsent, open',
    ['outcome'],
  );
  readonly #found = this.#families.counter(
    'headrace_payment_inquiries_total',
    'Open payments whose outcome was found later, by result: posted (the money is credit) or closed (none has moved)',
    ['result'],
  );
  readonly #open = this.#families.gauge(
    'headrace_payments_open',
    'Submitted payments of the store whose outcome is not known',
  );
  readonly #openAge = this.#families.gauge(
    'headrace_payment_open_seconds',
    'Age of the oldest payment whose outcome is not known; 0 when there is none',
  );
  readonly #queues = this.#families.gauge(
    'headrace_payment_requests',
    'Requests and purchases in progress, by state: verifying, waiting for a place, or unpaid work',
    ['state'],
  );
  #readQueues: () => PaymentQueues = () => NO_QUEUES;

  constructor() {
    // A series that begins at 0 shows its first increase.
    for (const outcome of ['settled', 'refused', 'unsent', 'open']) this.#settlements.at(outcome);
    for (const result of ['posted', 'closed']) this.#found.at(result);
  }

  /** `read` is called at each snapshot. */
  readQueues(read: () => PaymentQueues): void {
    this.#readQueues = read;
  }

  settled(outcome: 'settled' | 'refused' | 'unsent' | 'open'): void {
    this.#settlements.at(outcome).value++;
  }

  /** A recovery round has ended. Dates in milliseconds since 1970. */
  round(
    round: {
      readonly posted: number;
      readonly closed: number;
      readonly open: number;
      readonly openSinceMs: number | null;
    },
    dateMs: number,
  ): void {
    this.#found.at('posted').value += round.posted;
    this.#found.at('closed').value += round.closed;
    this.#open.at().value = round.open;
    this.#openAge.at().value = round.openSinceMs === null ? 0 : Math.max(0, dateMs - round.openSinceMs) / 1000;
  }

  snapshot(): MetricsSnapshot {
    const { unpaid, verifying, waiting } = this.#readQueues();
    this.#queues.at('unpaid').value = unpaid;
    this.#queues.at('verifying').value = verifying;
    this.#queues.at('waiting').value = waiting;
    return this.#families.json();
  }
}
