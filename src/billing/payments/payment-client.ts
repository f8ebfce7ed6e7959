// The payment processor as one ingress thread calls it, in whichever thread it runs. An answer that is lost is never taken
// for a refusal: where money may have moved, the answer is `HR_PAYMENT_PENDING`.

import { ask, MailboxFullError, type Ref, type System } from '../../actor/index.ts';
import type { Pico } from '../ledger/ledger.ts';
import {
  type BeginAnswer,
  type CallRequest,
  type PaymentCommand,
  type PurchaseAnswer,
  type PurchaseRequest,
  refused,
  type SettleAnswer,
  unknownOutcome,
} from './payment-commands.ts';

/** Longer than the processor takes for each, waiting for its turn and with a facilitator that does not answer. */
const BEGIN_MS = 40_000;
const SETTLE_MS = 100_000;
const PURCHASE_MS = 130_000;

/** What endpoints need of a client. */
export type Payments = Pick<PaymentClient, 'purchase' | 'begin' | 'settle' | 'deliver' | 'cancel'>;

export class PaymentClient {
  readonly #processor: Ref<PaymentCommand>;
  readonly #owner: Ref<never>;
  #count = 0;

  /** `system`: of the calling thread. `name`: unique among the threads. */
  constructor(system: System, processor: Ref<PaymentCommand>, name: string) {
    this.#processor = processor;
    this.#owner = system.spawn<never>(() => () => undefined, { name: `payer-${name}` });
  }

  async purchase(request: PurchaseRequest): Promise<PurchaseAnswer> {
    try {
      return await ask<PaymentCommand, PurchaseAnswer>(
        this.#processor,
        (replyTo) => ({ type: 'Purchase', request, replyTo }),
        { timeoutMs: PURCHASE_MS },
      );
    } catch (error) {
      return refused(isUndelivered(error) ? 'HR_PAYMENT_UNAVAILABLE' : unknownOutcome(request.payment));
    }
  }

  async begin(request: CallRequest): Promise<BeginAnswer> {
    const call = `${this.#owner.path}/${++this.#count}`;
    const owner = this.#owner;
    try {
      return await ask<PaymentCommand, BeginAnswer>(
        this.#processor,
        (replyTo) => ({ type: 'Begin', call, owner, request, replyTo }),
        { timeoutMs: BEGIN_MS },
      );
    } catch {
      this.#processor.tell({ type: 'Leave', call });
      return refused('HR_PAYMENT_UNAVAILABLE');
    }
  }

  async settle(ticket: string): Promise<SettleAnswer> {
    try {
      return await ask<PaymentCommand, SettleAnswer>(
        this.#processor,
        (replyTo) => ({ type: 'Settle', ticket, replyTo }),
        { timeoutMs: SETTLE_MS },
      );
    } catch (error) {
      this.#processor.tell({ type: 'Cancel', ticket });
      return refused(isUndelivered(error) ? 'HR_PAYMENT_UNAVAILABLE' : 'HR_PAYMENT_PENDING');
    }
  }

  /** `amount`: the part that is earned; null: the price. */
  deliver(ticket: string, amount: Pico | null = null): void {
    this.#processor.tell({ type: 'Deliver', ticket, amount });
  }

  cancel(ticket: string): void {
    this.#processor.tell({ type: 'Cancel', ticket });
  }
}

/** The command has not reached the actor. */
function isUndelivered(error: unknown): boolean {
  return error instanceof MailboxFullError;
}
