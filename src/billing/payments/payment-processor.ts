// Sells credits and single requests for signed payments: one actor per process, beside the ledger. Whatever a client repeats,
// its money moves once. A ticket belongs to the thread that asked for it: when the thread ends, or loses an answer, nothing
// comes of the request, and its payment is cancelled or refunded.

import type { Behavior, Context, Ref } from '../../actor/index.ts';
import type { ErrorCode } from '../../errors.ts';
import { type Ledger, type Payment, PICO_PER_CREDIT, PICO_PER_USD, type Pico, type Usage } from '../ledger/store.ts';
import { picoOf, purchaseAmount, unitsFor } from './merchant-config.ts';
import { makeOffer, type Offer, receiptHeaders, type Terms } from './offer.ts';
import {
  answerOf,
  type Outcome,
  type Presented,
  type RecoveryRound,
  type Reserved,
  type SettledAnswer,
  type SettlementDeps,
  Settlements,
  submissionOf,
} from './settlement.ts';
import { checksummed } from './typed-data.ts';
import type { SignedPayment } from './signed-payment.ts';

export interface PaymentProcessorSettings {
  /** Largest purchase. Default 1,000 USD. */
  readonly maxPurchase?: Pico;
  /** Validity asked of signatures, in seconds. Defaults 300 for purchases and 900 for requests. */
  readonly purchaseTimeoutS?: number;
  readonly callTimeoutS?: number;
  /** Age from which a submitted payment counts as abandoned; more than a settlement takes anywhere. Default 60,000 ms. */
  readonly graceMs?: number;
  /** Pause between two recovery rounds. Default 15,000 ms. */
  readonly recoveryPeriodMs?: number;
}

/** For a `HeadraceError`. */
export interface Refused {
  readonly kind: 'refused';
  readonly code: ErrorCode;
  readonly subject: string;
}

export interface Offered {
  readonly kind: 'offer';
  readonly offer: Offer;
}

export interface PurchaseRequest {
  /** An EVM address, or the id of an account. */
  readonly address: string;
  /** USD. Rounded to six digits. */
  readonly amount: number;
  /** URL of the request. */
  readonly resource: string;
  /** The payment header, if any. */
  readonly payment: string | undefined;
}

/** The body of the answer to a paid purchase. */
export interface Purchased {
  readonly status: 'success';
  readonly credits_transferred: number;
  readonly recipient: string;
  /** The transaction of the chain. */
  readonly item_hash: string;
}

export type PurchaseAnswer =
  Offered | Refused | { readonly kind: 'sold'; readonly body: Purchased; readonly headers: readonly string[] };

export interface CallRequest {
  readonly price: Pico;
  readonly resource: string;
  /** One sentence, shown by wallets. */
  readonly description: string;
  /** Digest of method, path and body: a payment serves one request. */
  readonly digest: string;
  /** Recorded with the payment, which settles before the real usage is known. */
  readonly usage: Usage;
  readonly payment: string | undefined;
}

/** `ticket` names the paid request: exactly one of `settle` and `cancel` must follow. */
export type BeginAnswer = Offered | Refused | { readonly kind: 'ticket'; readonly ticket: string };

/** `paid`: receipt headers for the answer. Anything else is the answer instead. */
export type SettleAnswer = Offered | Refused | { readonly kind: 'paid'; readonly headers: readonly string[] };

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
  /** Takes the money: after the server's good answer has begun and before its first byte is sent on. */
  | { readonly type: 'Settle'; readonly ticket: string; readonly replyTo: Ref<SettleAnswer> }
  /** Nothing comes of the request, whether it has settled or not. */
  | { readonly type: 'Cancel'; readonly ticket: string }
  /**
   * Nothing came of a request whose `Settle` was answered with `paid`: its money becomes credit of the payer, and the same
   * request with the same payment is served from it, once.
   */
  | { readonly type: 'Refund'; readonly ticket: string }
  | { readonly type: 'Expired'; readonly ticket: string }
  /** One recovery round; further ones follow regularly. Answered with null when the ledger could not be read. */
  | { readonly type: 'Recover'; readonly replyTo: Ref<RecoveryRound | null> | null }
  /** Closes a payment that stays open, by what its operator saw on the chain: see `Settlements.decide`. */
  | {
      readonly type: 'Decide';
      readonly payment: string;
      readonly transaction: string | null;
      readonly replyTo: Ref<boolean>;
    }
  /** Answered once nothing is under way. No further recovery round starts by itself. */
  | { readonly type: 'Drain'; readonly replyTo: Ref<null> };

export interface PaymentProcessorDeps extends Omit<SettlementDeps, 'ledger'> {
  /** Commands that arrive before it is open wait for it. */
  readonly ledger: Ledger | Promise<Ledger>;
  readonly settings?: PaymentProcessorSettings;
  /** Called with failures of the gateway itself, most often of the ledger. */
  readonly onDefect: (error: unknown) => void;
  readonly onRound: (round: RecoveryRound) => void;
}

/** Purchases and new requests under way at once: each may cost a signature check and requests to the facilitator. */
const MAX_BUSY = 256;

/** How long a ticket may stay unused: as long as clients make signatures valid for. */
const TICKET_MS = 900_000;

/** How long a paid ticket is remembered for a thread that lost the answer. */
const PAID_MS = 120_000;

/** Before a refund that the ledger could not take is tried again. */
const REFUND_RETRY_MS = 15_000;

const MAX_PURCHASE = 1000n * PICO_PER_USD;
const PURCHASE_TIMEOUT_S = 300;
const CALL_TIMEOUT_S = 900;
const GRACE_MS = 60_000;
const RECOVERY_PERIOD_MS = 15_000;

const ADDRESS = /^0x[0-9a-f]{40}$/i;
const SINGLE_CASE = /^0x(?:[0-9a-f]+|[0-9A-F]+)$/;
const MAX_ACCOUNT_LENGTH = 256;

/** Prefix of the ticket of a request that is served from credit; also the id of its hold. */
const HOLD = 'x402:';

/** Movements of an account that are searched for the credit of a payment. */
const RECENT_MOVEMENTS = 200;

/** What pays for a request: a reserved payment, or the credit that its payment has become. */
type Source =
  | { readonly kind: 'payment'; readonly reserved: Reserved }
  | { readonly kind: 'credit'; readonly amount: Pico; readonly answer: SettledAnswer };

/** A request that may be served. */
interface Accepted {
  readonly kind: 'accepted';
  readonly id: string;
  readonly source: Source;
  readonly terms: Terms;
  readonly usage: Usage;
}

interface Ticket extends Accepted {
  readonly owner: string;
  state: 'open' | 'settling' | 'paid';
  /** Cancelled while it settled. */
  unwanted: boolean;
}

export function paymentProcessor(deps: PaymentProcessorDeps): Behavior<PaymentCommand> {
  return (context) => {
    const processor = new PaymentProcessor(deps, context);
    return {
      receive: (command) => processor.receive(command),
      signal: (signal) => {
        if (signal.type === 'Terminated') processor.ownerGone(signal.ref.path);
      },
    };
  };
}

class PaymentProcessor {
  readonly #deps: PaymentProcessorDeps;
  readonly #settings: PaymentProcessorSettings;
  readonly #context: Context<PaymentCommand>;
  readonly #opened: Promise<Settlements>;
  readonly #owners = new Set<string>();
  readonly #tickets = new Map<string, Ticket>();
  /** Begins under way, by name: true when the answer is not wanted any more. */
  readonly #beginning = new Map<string, boolean>();
  /** Purchases under way, by payment: a repeat waits for the same answer. */
  readonly #buying = new Map<string, { readonly purpose: string; readonly answer: Promise<PurchaseAnswer> }>();
  readonly #draining: Ref<null>[] = [];
  #recovers = true;
  #busy = 0;
  #running = 0;

  constructor(deps: PaymentProcessorDeps, context: Context<PaymentCommand>) {
    this.#deps = deps;
    this.#settings = deps.settings ?? {};
    this.#context = context;
    const { graceMs = GRACE_MS } = this.#settings;
    this.#opened = Promise.resolve(deps.ledger).then((ledger) => new Settlements({ ...deps, ledger }, graceMs));
    // Handled by every command that needs it.
    this.#opened.catch(() => undefined);
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
      case 'Refund':
        this.#refund(command.ticket);
        break;
      case 'Expired':
        if (this.#tickets.get(command.ticket)?.state === 'paid') this.#forget(command.ticket);
        else this.#cancel(command.ticket);
        break;
      case 'Recover':
        this.#recover(command.replyTo);
        break;
      case 'Decide': {
        const { payment, replyTo, transaction } = command;
        const decide = (settlements: Settlements): Promise<boolean> => settlements.decide(payment, transaction);
        this.#run(decide, (decided) => replyTo.tell(decided ?? false));
        break;
      }
      case 'Drain':
        this.#recovers = false;
        this.#draining.push(command.replyTo);
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
    const buy = (settlements: Settlements): Promise<PurchaseAnswer> => this.#sell(settlements, request);
    this.#run(buy, (answer) => {
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
    const accept = (settlements: Settlements): Promise<Accepted | Offered | Refused> =>
      this.#accept(settlements, request);
    this.#run(accept, (answer) => {
      this.#busy--;
      const unwanted = this.#beginning.get(call) === true || !this.#owners.has(owner.path);
      this.#beginning.delete(call);
      if (answer?.kind !== 'accepted') {
        replyTo.tell(answer ?? refused('HR_PAYMENT_UNAVAILABLE'));
        return;
      }
      const { id } = answer;
      this.#tickets.set(id, { ...answer, owner: owner.path, state: 'open', unwanted: false });
      this.#context.timers.once(id, TICKET_MS, { type: 'Expired', ticket: id });
      if (unwanted) this.#cancel(id);
      else replyTo.tell({ kind: 'ticket', ticket: id });
    });
  }

  #settle(id: string, replyTo: Ref<SettleAnswer>): void {
    const ticket = this.#tickets.get(id);
    if (ticket?.state !== 'open') {
      replyTo.tell(refused('HR_PAYMENT_PENDING'));
      return;
    }
    ticket.state = 'settling';
    this.#context.timers.cancel(id);
    const pay = (settlements: Settlements): Promise<SettleAnswer> => this.#pay(settlements, ticket);
    this.#run(pay, (answer) => {
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
      const cancel = async ({ deps: { ledger } }: Settlements): Promise<void> => {
        if (ticket.source.kind === 'payment') await ledger.failPayment(id, 'cancelled');
        else await ledger.release(id);
      };
      this.#run(cancel, () => undefined);
    }
  }

  #refund(id: string): void {
    this.#forget(id);
    const refund = async ({ deps: { ledger } }: Settlements): Promise<true> => {
      const payment = await ledger.findPayment(paymentOf(id));
      if (payment?.state === 'settled' && payment.purpose.startsWith('call:')) {
        const { amount, payer } = payment;
        await ledger.grant({ id: refundOf(id), account: payer, amount, memo: 'x402: nothing was delivered' });
      }
      return true;
    };
    this.#run(refund, (done) => {
      if (done !== true) this.#context.timers.once(id, REFUND_RETRY_MS, { type: 'Refund', ticket: id });
    });
  }

  #forget(id: string): void {
    this.#tickets.delete(id);
    this.#context.timers.cancel(id);
  }

  #recover(replyTo: Ref<RecoveryRound | null> | null): void {
    if (replyTo === null && !this.#recovers) return;
    const recover = (settlements: Settlements): Promise<RecoveryRound> => settlements.recover();
    this.#run(recover, (round) => {
      if (round !== undefined) this.#deps.onRound(round);
      replyTo?.tell(round ?? null);
      const { recoveryPeriodMs = RECOVERY_PERIOD_MS } = this.#settings;
      if (this.#recovers) this.#context.timers.once('recover', recoveryPeriodMs, { type: 'Recover', replyTo: null });
    });
  }

  /** `then` gets undefined when the work failed, most often because the ledger did. */
  #run<T>(work: (settlements: Settlements) => Promise<T>, then: (answer: T | undefined) => void): void {
    this.#running++;
    const ended = (answer: T | undefined): void => {
      this.#running--;
      then(answer);
      this.#checkDrained();
    };
    this.#opened.then(work).then(ended, (error: unknown) => {
      this.#deps.onDefect(error);
      ended(undefined);
    });
  }

  #checkDrained(): void {
    if (this.#running > 0) return;
    for (const replyTo of this.#draining.splice(0)) replyTo.tell(null);
  }

  async #sell(settlements: Settlements, request: PurchaseRequest): Promise<PurchaseAnswer> {
    const amount = purchaseAmount(request.amount);
    const { maxPurchase = MAX_PURCHASE, purchaseTimeoutS: timeoutS = PURCHASE_TIMEOUT_S } = this.#settings;
    if (amount === undefined || amount > maxPurchase) {
      const subject = `an amount is above 0 and at most ${maxPurchase / PICO_PER_USD} USD`;
      return refused('HR_PAYMENT_AMOUNT', subject);
    }
    const account = await accountOf(settlements.deps.ledger, request.address);
    if (account === undefined) return refused('HR_PAYMENT_ADDRESS');
    const units = unitsFor(amount, this.#deps.merchant.asset);
    const description = `${amount / PICO_PER_CREDIT} credits for ${account}`;
    const terms = { units, resource: request.resource, description, timeoutS };
    if (request.payment === undefined) return this.#offer(terms);
    const read = settlements.read(request.payment);
    if ('kind' in read) return this.#unpaid(read, terms);
    const purpose = `credits:${account}`;
    const running = this.#buying.get(read.id);
    if (running !== undefined) {
      return running.purpose === purpose ? await running.answer : this.#offer(terms, 'duplicate_settlement');
    }
    const answer = this.#buy(settlements, read.signed, terms, account).finally(() => this.#buying.delete(read.id));
    this.#buying.set(read.id, { purpose, answer });
    return await answer;
  }

  async #buy(settlements: Settlements, signed: SignedPayment, terms: Terms, account: string): Promise<PurchaseAnswer> {
    const presented = await settlements.present(signed, terms, `credits:${account}`, account);
    if (presented.kind === 'known') {
      return await this.#repeatPurchase(settlements, presented.payment, signed, terms, account);
    }
    if (presented.kind !== 'reserved') return this.#unpaid(presented, terms);
    const outcome = await settlements.pay(presented.reserved, { kind: 'credit', account });
    return this.#sold(outcome, picoOf(signed.authorization.value, this.#deps.merchant.asset), account, terms);
  }

  async #repeatPurchase(
    settlements: Settlements,
    payment: Payment,
    signed: SignedPayment,
    terms: Terms,
    account: string,
  ): Promise<PurchaseAnswer> {
    if (payment.purpose !== `credits:${account}` || !isSameSignature(payment, signed)) {
      return this.#offer(terms, 'duplicate_settlement');
    }
    const answer = answerOf(payment);
    if (answer !== undefined) return this.#sold({ kind: 'posted', answer }, payment.amount, account, terms);
    if (payment.state === 'failed') return this.#offer(terms, payment.answer ?? 'payment_refused');
    // Its first request may be under way elsewhere: an offer would invite a second payment.
    if (!settlements.isAbandoned(payment)) return refused('HR_PAYMENT_PENDING');
    const outcome =
      payment.state === 'submitted'
        ? await settlements.askAgain(payment)
        : await settlements.pay(settlements.reservedOf(signed, terms, account), { kind: 'credit', account });
    return this.#sold(outcome, payment.amount, account, terms);
  }

  #sold(outcome: Outcome, amount: Pico, account: string, terms: Terms): PurchaseAnswer {
    if (outcome.kind !== 'posted') return this.#unsettled(outcome, terms);
    const { receipt } = outcome.answer;
    const body = {
      status: 'success',
      credits_transferred: Number(amount / PICO_PER_CREDIT),
      recipient: ADDRESS.test(account) ? checksummed(account) : account,
      item_hash: receipt.transaction,
    } as const;
    return { kind: 'sold', body, headers: receiptHeaders(receipt, this.#deps.merchant) };
  }

  /** Judges the payment of a request without a key and reserves it. */
  async #accept(settlements: Settlements, request: CallRequest): Promise<Accepted | Offered | Refused> {
    const { description, digest, payment, price, resource, usage } = request;
    const { callTimeoutS: timeoutS = CALL_TIMEOUT_S } = this.#settings;
    const terms = { units: unitsFor(price, this.#deps.merchant.asset), resource, description, timeoutS };
    if (payment === undefined) return this.#offer(terms);
    const read = settlements.read(payment);
    if ('kind' in read) return this.#unpaid(read, terms);
    const presented = await settlements.present(read.signed, terms, `call:${digest}`);
    if (presented.kind === 'known') {
      return await this.#repeatCall(settlements, presented.payment, read.signed, request, terms);
    }
    if (presented.kind !== 'reserved') return this.#unpaid(presented, terms);
    const { reserved } = presented;
    return { kind: 'accepted', id: reserved.id, source: { kind: 'payment', reserved }, terms, usage };
  }

  /**
   * A payment that was seen before buys nothing more, with one exception: where money arrived for work that was never
   * done, it became credit, and the same request with the same payment is served from it, once.
   */
  async #repeatCall(
    settlements: Settlements,
    payment: Payment,
    signed: SignedPayment,
    request: CallRequest,
    terms: Terms,
  ): Promise<Accepted | Offered | Refused> {
    const { ledger, merchant } = settlements.deps;
    if (payment.purpose !== `call:${request.digest}` || !isSameSignature(payment, signed)) {
      return this.#offer(terms, 'duplicate_settlement');
    }
    if (payment.state === 'submitted') {
      if (!settlements.isAbandoned(payment)) return refused('HR_PAYMENT_PENDING');
      const outcome = await settlements.askAgain(payment);
      if (outcome.kind !== 'posted') return refused('HR_PAYMENT_PENDING');
    }
    const settled = (await ledger.findPayment(payment.id)) ?? payment;
    const answer = answerOf(settled);
    if (answer === undefined) return this.#offer(terms, 'duplicate_settlement');
    const spent = {
      kind: 'offer',
      offer: makeOffer(merchant, terms, 'duplicate_settlement', receiptHeaders(answer.receipt, merchant)),
    } as const;
    const id = await creditTicket(ledger, payment, answer.credited);
    if (id === undefined) return spent;
    const { amount, payer } = payment;
    const hold = { id, account: payer, amount, holder: 'x402', ttlMs: terms.timeoutS * 1000 };
    const held = await ledger.hold(hold).catch(() => undefined);
    if (held?.kind !== 'held' || held.repeated) return spent;
    return { kind: 'accepted', id, source: { kind: 'credit', amount, answer }, terms, usage: request.usage };
  }

  async #pay(settlements: Settlements, { id, source, terms, usage }: Ticket): Promise<SettleAnswer> {
    const { ledger, merchant } = settlements.deps;
    if (source.kind === 'credit') {
      await ledger.settle(id, source.amount, usage);
      return { kind: 'paid', headers: receiptHeaders(source.answer.receipt, merchant) };
    }
    const { account } = source.reserved.submission;
    const outcome = await settlements.pay(source.reserved, { kind: 'charge', account, usage });
    if (outcome.kind !== 'posted') return this.#unsettled(outcome, terms);
    return { kind: 'paid', headers: receiptHeaders(outcome.answer.receipt, merchant) };
  }

  #unpaid(presented: Presented, terms: Terms): Offered | Refused {
    switch (presented.kind) {
      case 'malformed':
        return refused('HR_PAYMENT_MALFORMED', presented.message);
      case 'invalid':
        return this.#offer(terms, presented.reason);
      default:
        return refused('HR_PAYMENT_UNAVAILABLE');
    }
  }

  #unsettled(outcome: Exclude<Outcome, { readonly kind: 'posted' }>, terms: Terms): Offered | Refused {
    if (outcome.kind === 'refused') return this.#offer(terms, outcome.reason);
    return refused(outcome.kind === 'unsent' ? 'HR_PAYMENT_UNAVAILABLE' : 'HR_PAYMENT_PENDING');
  }

  #offer(terms: Terms, reason?: string): Offered {
    return { kind: 'offer', offer: makeOffer(this.#deps.merchant, terms, reason) };
  }
}

/** The account that a purchase goes to: hexadecimal addresses need none yet, other names do. */
async function accountOf(ledger: Ledger, address: string): Promise<string | undefined> {
  if (ADDRESS.test(address)) {
    // Mixed case is a checksum: it keeps a typing error from buying credits for another address.
    return SINGLE_CASE.test(address) || checksummed(address) === address ? address.toLowerCase() : undefined;
  }
  if (address === '' || address.length > MAX_ACCOUNT_LENGTH) return undefined;
  return (await ledger.account(address))?.id;
}

/** Names the next try to serve a request from the credit of its payment; undefined when there is no such credit. */
async function creditTicket(ledger: Ledger, { id, payer }: Payment, credited: boolean): Promise<string | undefined> {
  const query = { account: payer, limit: RECENT_MOVEMENTS };
  const isRefunded = async (): Promise<boolean> =>
    (await ledger.history(query)).some((movement) => movement.id === `grant:${refundOf(id)}`);
  if (!credited && !(await isRefunded())) return undefined;
  let ticket = HOLD + id;
  // A try that was given up has released its hold; one that was charged is the last.
  for (let again = 1; ; again++) {
    const hold = await ledger.findHold(ticket);
    if (hold?.state !== 'closed' || hold.charged !== null) return ticket;
    ticket = `${HOLD}${id}#${again}`;
  }
}

export function refused(code: ErrorCode, subject = ''): Refused {
  return { kind: 'refused', code, subject };
}

function paymentOf(ticket: string): string {
  return ticket.startsWith(HOLD) ? ticket.slice(HOLD.length).replace(/#\d+$/, '') : ticket;
}

function refundOf(ticket: string): string {
  return `x402-refund:${ticket}`;
}

/** True as long as nothing was submitted: then there is nothing to be had. */
function isSameSignature(payment: Payment, { signature }: SignedPayment): boolean {
  const submission = submissionOf(payment);
  return submission === undefined || submission.signature === signature;
}

/** Where a payment was sent along, money may have moved. */
export function unknownOutcome(payment: string | undefined): ErrorCode {
  return payment === undefined ? 'HR_PAYMENT_UNAVAILABLE' : 'HR_PAYMENT_PENDING';
}
