// Payments across threads. The cashier sits in the control thread, beside the ledger, behind the actor `payments`; every
// data plane asks it through a `PaymentClient`. A ticket belongs to the thread that asked for it: when the thread ends,
// or loses an answer, the request has come to nothing, and whatever its payment has become is given up or given back.

import { ask, type Behavior, type Context, MailboxFullError, type Ref, type System } from '../../actor/index.ts';
import type {
  BeginAnswer,
  CallRequest,
  Payments,
  PurchaseAnswer,
  PurchaseRequest,
  SettleAnswer,
} from './payment-processor.ts';
import type { ErrorCode } from '../../errors.ts';

export type PaymentCommand =
  | { readonly type: 'Purchase'; readonly request: PurchaseRequest; readonly replyTo: Ref<PurchaseAnswer> }
  | {
      readonly type: 'Begin';
      /** Names the question, for `Leave`; unique among the threads. */
      readonly call: string;
      /** Lives as long as the thread that asks. */
      readonly owner: Ref<never>;
      readonly request: CallRequest;
      readonly replyTo: Ref<BeginAnswer>;
    }
  /** The answer to a `Begin` is not wanted any more. */
  | { readonly type: 'Leave'; readonly call: string }
  | { readonly type: 'Settle'; readonly ticket: string; readonly replyTo: Ref<SettleAnswer> }
  /** The request came to nothing, whether it has settled or not. */
  | { readonly type: 'Cancel'; readonly ticket: string }
  /** The same of a request whose settlement the asker knows. */
  | { readonly type: 'Refund'; readonly ticket: string }
  /** Answered once nothing is under way. */
  | { readonly type: 'Drain'; readonly replyTo: Ref<null> }
  | { readonly type: 'Done'; readonly run: () => void }
  | { readonly type: 'Expired'; readonly ticket: string };

export interface PaymentsOptions {
  readonly service: Payments;
  /** Hears of failures that are the gateway's own. */
  readonly onDefect: (error: unknown) => void;
}

/** Purchases and new requests under way at once: each may cost a signature check and questions to the facilitator. */
const MAX_BUSY = 256;

/** How long a ticket may stay unused: as long as clients make signatures good for. */
const TICKET_MS = 900_000;

/** How long a paid ticket is remembered for an asker that lost the answer. */
const PAID_MS = 120_000;

/** The ledger was away when money was to be given back. */
const REFUND_RETRY_MS = 15_000;

interface Ticket {
  readonly owner: string;
  state: 'open' | 'settling' | 'paid';
  unwanted: boolean;
}

/** Makes the behaviour of the actor. */
export function payments(options: PaymentsOptions): Behavior<PaymentCommand> {
  return (context) => {
    const counter = new Counter(options, context);
    return {
      receive: (command) => counter.receive(command),
      signal: (signal) => {
        if (signal.type === 'Terminated') counter.ownerGone(signal.ref.path);
      },
    };
  };
}

class Counter {
  readonly #service: Payments;
  readonly #onDefect: (error: unknown) => void;
  readonly #context: Context<PaymentCommand>;
  readonly #owners = new Set<string>();
  readonly #tickets = new Map<string, Ticket>();
  /** Begins under way, by name: true when the answer is not wanted any more. */
  readonly #beginning = new Map<string, boolean>();
  readonly #draining: Ref<null>[] = [];
  #busy = 0;
  #running = 0;

  constructor({ service, onDefect }: PaymentsOptions, context: Context<PaymentCommand>) {
    this.#service = service;
    this.#onDefect = onDefect;
    this.#context = context;
  }

  receive(command: PaymentCommand): void {
    switch (command.type) {
      case 'Purchase':
        this.#purchase(command.request, command.replyTo);
        break;
      case 'Begin':
        this.#begin(command);
        break;
      case 'Leave':
        if (this.#beginning.has(command.call)) this.#beginning.set(command.call, true);
        break;
      case 'Settle':
        this.#settle(command.ticket, command.replyTo);
        break;
      case 'Cancel':
        this.#cancel(command.ticket);
        break;
      case 'Expired':
        this.#expire(command.ticket);
        break;
      case 'Refund':
        this.#refund(command.ticket);
        break;
      case 'Drain':
        this.#draining.push(command.replyTo);
        this.#checkDrained();
        break;
      case 'Done':
        command.run();
        this.#checkDrained();
        break;
    }
  }

  ownerGone(owner: string): void {
    this.#owners.delete(owner);
    for (const [id, ticket] of this.#tickets) {
      if (ticket.owner === owner && ticket.state !== 'paid') this.#cancel(id);
    }
  }

  #purchase(request: PurchaseRequest, replyTo: Ref<PurchaseAnswer>): void {
    if (this.#busy >= MAX_BUSY) {
      replyTo.tell(refused('HR_PAYMENT_UNAVAILABLE'));
      return;
    }
    this.#busy++;
    this.#run(this.#service.purchase(request), (answer) => {
      this.#busy--;
      replyTo.tell(answer ?? refused(unknownOutcome(request.payment)));
    });
  }

  #begin({ call, owner, replyTo, request }: Extract<PaymentCommand, { type: 'Begin' }>): void {
    if (this.#busy >= MAX_BUSY) {
      replyTo.tell(refused('HR_PAYMENT_UNAVAILABLE'));
      return;
    }
    this.#busy++;
    this.#beginning.set(call, false);
    if (!this.#owners.has(owner.path)) {
      this.#owners.add(owner.path);
      this.#context.watch(owner);
    }
    this.#run(this.#service.begin(request), (answer) => {
      this.#busy--;
      const unwanted = this.#beginning.get(call) === true || !this.#owners.has(owner.path);
      this.#beginning.delete(call);
      if (answer?.kind === 'ticket') this.#open(answer.ticket, owner.path);
      if (answer?.kind === 'ticket' && unwanted) this.#cancel(answer.ticket);
      else replyTo.tell(answer ?? refused('HR_PAYMENT_UNAVAILABLE'));
    });
  }

  #open(id: string, owner: string): void {
    this.#tickets.set(id, { owner, state: 'open', unwanted: false });
    this.#context.timers.once(id, TICKET_MS, { type: 'Expired', ticket: id });
  }

  #settle(id: string, replyTo: Ref<SettleAnswer>): void {
    const ticket = this.#tickets.get(id);
    if (ticket?.state !== 'open') {
      replyTo.tell(refused('HR_PAYMENT_PENDING'));
      return;
    }
    ticket.state = 'settling';
    this.#context.timers.cancel(id);
    this.#run(this.#service.settle(id), (answer) => {
      if (answer?.kind === 'paid') this.#paid(id, ticket);
      else this.#tickets.delete(id);
      replyTo.tell(answer ?? refused('HR_PAYMENT_PENDING'));
    });
  }

  #paid(id: string, ticket: Ticket): void {
    ticket.state = 'paid';
    if (ticket.unwanted || !this.#owners.has(ticket.owner)) this.#refund(id);
    else this.#context.timers.once(id, PAID_MS, { type: 'Expired', ticket: id });
  }

  #cancel(id: string): void {
    const ticket = this.#tickets.get(id);
    if (ticket === undefined) return;
    if (ticket.state === 'settling') {
      ticket.unwanted = true;
    } else if (ticket.state === 'paid') {
      this.#refund(id);
    } else {
      this.#forget(id);
      this.#run(this.#service.cancel(id), () => undefined);
    }
  }

  #expire(id: string): void {
    if (this.#tickets.get(id)?.state === 'paid') this.#forget(id);
    else this.#cancel(id);
  }

  #refund(id: string): void {
    this.#forget(id);
    const refunded = this.#service.refund(id).then(() => true);
    this.#run(refunded, (done) => {
      if (done !== true) this.#context.timers.once(id, REFUND_RETRY_MS, { type: 'Refund', ticket: id });
    });
  }

  #forget(id: string): void {
    this.#tickets.delete(id);
    this.#context.timers.cancel(id);
  }

  /** Goes on in the actor's own turn; `then` gets undefined when the ledger failed. */
  #run<T>(work: Promise<T>, then: (answer: T | undefined) => void): void {
    this.#running++;
    const done = (answer: T | undefined): PaymentCommand => ({
      type: 'Done',
      run: () => {
        this.#running--;
        then(answer);
      },
    });
    this.#context.pipe(work, done, (error) => {
      this.#onDefect(error);
      return done(undefined);
    });
  }

  #checkDrained(): void {
    if (this.#running > 0) return;
    for (const replyTo of this.#draining.splice(0)) replyTo.tell(null);
  }
}

/** Longer than the cashier takes for each, with both questions to a facilitator that does not answer. */
const BEGIN_MS = 30_000;
const SETTLE_MS = 75_000;
const PURCHASE_MS = 100_000;

/** The cashier as a data plane sees it, in whichever thread. */
export class PaymentClient implements Payments {
  readonly #payments: Ref<PaymentCommand>;
  readonly #owner: Ref<never>;
  #count = 0;

  /** `name`: unique among the threads. `system`: of the thread that asks; it ends with it. */
  constructor(system: System, ref: Ref<PaymentCommand>, name: string) {
    this.#payments = ref;
    this.#owner = system.spawn<never>(() => () => undefined, { name: `payer-${name}` });
  }

  async purchase(request: PurchaseRequest): Promise<PurchaseAnswer> {
    try {
      return await ask<PaymentCommand, PurchaseAnswer>(
        this.#payments,
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
        this.#payments,
        (replyTo) => ({ type: 'Begin', call, owner, request, replyTo }),
        { timeoutMs: BEGIN_MS },
      );
    } catch {
      this.#payments.tell({ type: 'Leave', call });
      return refused('HR_PAYMENT_UNAVAILABLE');
    }
  }

  async settle(ticket: string): Promise<SettleAnswer> {
    try {
      return await ask<PaymentCommand, SettleAnswer>(
        this.#payments,
        (replyTo) => ({ type: 'Settle', ticket, replyTo }),
        { timeoutMs: SETTLE_MS },
      );
    } catch (error) {
      this.#payments.tell({ type: 'Cancel', ticket });
      return refused(isUndelivered(error) ? 'HR_PAYMENT_UNAVAILABLE' : 'HR_PAYMENT_PENDING');
    }
  }

  cancel(ticket: string): Promise<void> {
    this.#payments.tell({ type: 'Cancel', ticket });
    return Promise.resolve();
  }

  refund(ticket: string): Promise<void> {
    this.#payments.tell({ type: 'Refund', ticket });
    return Promise.resolve();
  }
}

function refused(code: ErrorCode): { kind: 'refused'; code: ErrorCode; subject: string } {
  return { kind: 'refused', code, subject: '' };
}

/** Where a payment was sent along, money may have moved. */
function unknownOutcome(payment: string | undefined): ErrorCode {
  return payment === undefined ? 'HR_PAYMENT_UNAVAILABLE' : 'HR_PAYMENT_PENDING';
}

/** The question has not reached the actor. */
function isUndelivered(error: unknown): boolean {
  return error instanceof MailboxFullError;
}
