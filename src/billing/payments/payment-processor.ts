// Sells credits and single requests for signed payments. One per process, beside the ledger; endpoints reach it through
// plain calls and plain answers, so that it may sit in another thread. Whatever a client repeats, its money moves once.

import type { Clock } from '../../actor/index.ts';
import type { ErrorCode } from '../../errors.ts';
import { type Payment, PICO_PER_CREDIT, PICO_PER_USD, type Pico, type Usage } from '../ledger/store.ts';
import { picoOf, purchaseAmount, unitsFor } from './merchant-config.ts';
import { makeOffer, type Offer, receiptHeaders, type Terms } from './offer.ts';
import { Recovery, type Round } from './recovery.ts';
import {
  answerOf,
  type Outcome,
  type Presented,
  type Reserved,
  type SettledAnswer,
  type SettlementParts,
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
  /** See `RecoverySettings`. Defaults 60,000 and 15,000 ms. */
  readonly graceMs?: number;
  readonly recoveryPeriodMs?: number;
}

/** An error of the table, for `HeadraceError`. */
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
  /** USD. Digits beyond the sixth are rounded away. */
  readonly amount: number;
  /** URL of the request. */
  readonly resource: string;
  /** The payment header, if any. */
  readonly payment: string | undefined;
}

/** The body of a sold purchase, as the interface has it. */
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
  /** One sentence for people. */
  readonly description: string;
  /** Tells requests apart: a digest of method, path and body. */
  readonly digest: string;
  /** What the ledger writes down: `exact` payments are booked before the real usage is known. */
  readonly usage: Usage;
  readonly payment: string | undefined;
}

/** `ticket` names the paid request: exactly one of `settle` and `cancel` must follow. */
export type BeginAnswer = Offered | Refused | { readonly kind: 'ticket'; readonly ticket: string };

/** `paid`: receipt headers for the answer. Anything else is the answer instead. */
export type SettleAnswer = Offered | Refused | { readonly kind: 'paid'; readonly headers: readonly string[] };

/** What endpoints need of the cashier. */
export type Payments = Pick<PaymentProcessor, 'purchase' | 'begin' | 'settle' | 'cancel' | 'refund'>;

const MAX_PURCHASE = 1000n * PICO_PER_USD;
const PURCHASE_TIMEOUT_S = 300;
const CALL_TIMEOUT_S = 900;
const GRACE_MS = 60_000;
const RECOVERY_PERIOD_MS = 15_000;

const ADDRESS = /^0x[0-9a-f]{40}$/i;
const SINGLE_CASE = /^0x(?:[0-9a-f]+|[0-9A-F]+)$/;
const MAX_ACCOUNT_LENGTH = 256;

/** Begins the ticket of a request that is served from the credit which its payment has become; also the hold's id. */
const HOLD = 'x402:';

/** How far back in an account's movements credit of a payment is looked for. */
const RECENT_MOVEMENTS = 200;

/** A request that has begun: paid by a reserved payment, or from the credit that its payment has become. */
interface Ticket {
  readonly source:
    | { readonly kind: 'payment'; readonly reserved: Reserved }
    | { readonly kind: 'credit'; readonly amount: Pico; readonly answer: SettledAnswer };
  readonly terms: Terms;
  readonly usage: Usage;
  readonly validUntilMs: number;
  settling: Promise<SettleAnswer> | undefined;
}

export class PaymentProcessor {
  readonly #settlements: Settlements;
  readonly #recovery: Recovery;
  readonly #settings: PaymentProcessorSettings;
  readonly #tickets = new Map<string, Ticket>();
  readonly #buying = new Map<string, { readonly purpose: string; readonly answer: Promise<PurchaseAnswer> }>();

  constructor(parts: SettlementParts & { readonly clock: Clock }, settings: PaymentProcessorSettings = {}) {
    const { graceMs = GRACE_MS, recoveryPeriodMs: periodMs = RECOVERY_PERIOD_MS } = settings;
    this.#settings = settings;
    this.#settlements = new Settlements(parts);
    this.#recovery = new Recovery(this.#settlements, { graceMs, periodMs }, parts.clock);
  }

  /** Resolves what a crash left half done, now and from time to time. `onRound` is for logs. */
  start(onRound: (round: Round | Error) => void): void {
    this.#recovery.start((round) => {
      this.#dropOldTickets();
      onRound(round);
    });
  }

  /** Ends the rounds. Purchases and settlements under way go on until they have their answer. */
  stop(): Promise<void> {
    return this.#recovery.stop();
  }

  /** One round of `start`, at once. */
  recover(): Promise<Round> {
    return this.#recovery.round();
  }

  /** For operators, about a payment that stays open: see `Settlements.decide`. */
  decide(payment: string, transaction: string | null): Promise<boolean> {
    return this.#settlements.decide(payment, transaction);
  }

  /** Credits for an account. Rejects only when the ledger fails. */
  async purchase(request: PurchaseRequest): Promise<PurchaseAnswer> {
    const amount = purchaseAmount(request.amount);
    const { maxPurchase = MAX_PURCHASE, purchaseTimeoutS: timeoutS = PURCHASE_TIMEOUT_S } = this.#settings;
    if (amount === undefined || amount > maxPurchase) {
      const subject = `an amount is above 0 and at most ${maxPurchase / PICO_PER_USD} USD`;
      return refused('HR_PAYMENT_AMOUNT', subject);
    }
    const account = await this.#accountOf(request.address);
    if (account === undefined) return refused('HR_PAYMENT_ADDRESS');
    const credits = amount / PICO_PER_CREDIT;
    const units = unitsFor(amount, this.#settlements.parts.merchant.asset);
    const description = `${credits} credits for ${account}`;
    const terms = { units, resource: request.resource, description, timeoutS };
    if (request.payment === undefined) return this.#offer(terms);
    const read = this.#settlements.read(request.payment);
    if ('kind' in read) return this.#unpaid(read, terms);
    const purpose = `credits:${account}`;
    const running = this.#buying.get(read.id);
    if (running !== undefined) {
      return running.purpose === purpose ? await running.answer : this.#offer(terms, 'duplicate_settlement');
    }
    const answer = this.#buy(read.signed, terms, purpose, account).finally(() => this.#buying.delete(read.id));
    this.#buying.set(read.id, { purpose, answer });
    return await answer;
  }

  /** Judges the payment of a request without a key and reserves it. Rejects only when the ledger fails. */
  async begin(request: CallRequest): Promise<BeginAnswer> {
    const { description, digest, payment, price, resource, usage } = request;
    const { callTimeoutS: timeoutS = CALL_TIMEOUT_S } = this.#settings;
    const { dateMs, merchant } = this.#settlements.parts;
    const terms = { units: unitsFor(price, merchant.asset), resource, description, timeoutS };
    if (payment === undefined) return this.#offer(terms);
    const read = this.#settlements.read(payment);
    if ('kind' in read) return this.#unpaid(read, terms);
    const purpose = `call:${digest}`;
    const presented = await this.#settlements.present(read.signed, terms, purpose);
    if (presented.kind === 'known') return await this.#repeatCall(presented.payment, read.signed, request, terms);
    if (presented.kind !== 'reserved') return this.#unpaid(presented, terms);
    const { reserved } = presented;
    const validUntilMs = dateMs() + timeoutS * 1000;
    this.#tickets.set(reserved.id, {
      source: { kind: 'payment', reserved },
      terms,
      usage,
      validUntilMs,
      settling: undefined,
    });
    return { kind: 'ticket', ticket: reserved.id };
  }

  /** Takes the money: after the server's good answer has begun and before its first byte goes on. Idempotent. */
  async settle(ticket: string): Promise<SettleAnswer> {
    const open = this.#tickets.get(ticket);
    if (open === undefined) return refused('HR_PAYMENT_PENDING');
    open.settling ??= this.#settle(ticket, open).finally(() => this.#tickets.delete(ticket));
    return await open.settling;
  }

  /** The request came to nothing and costs nothing. A ticket that settles or has settled stays as it is. */
  async cancel(ticket: string): Promise<void> {
    const open = this.#tickets.get(ticket);
    if (open === undefined || open.settling !== undefined) return;
    this.#tickets.delete(ticket);
    const { ledger } = this.#settlements.parts;
    if (open.source.kind === 'payment') await ledger.failPayment(ticket, 'cancelled');
    else await ledger.release(ticket);
  }

  /**
   * Nothing came of a request whose `settle` was `paid`: its money becomes credit of the payer, and the same request with
   * the same payment is served from it, once. To be called for no other ticket. Idempotent.
   */
  async refund(ticket: string): Promise<void> {
    const { ledger } = this.#settlements.parts;
    const payment = await ledger.findPayment(paymentOf(ticket));
    if (payment?.state !== 'settled' || !payment.purpose.startsWith('call:')) return;
    const { amount, payer } = payment;
    await ledger.grant({ id: refundOf(ticket), account: payer, amount, memo: 'x402: nothing was delivered' });
  }

  /** The account that a purchase goes to: hexadecimal addresses need none yet, other names do. */
  async #accountOf(address: string): Promise<string | undefined> {
    if (ADDRESS.test(address)) {
      // Mixed case is a checksum: it keeps a typing error from buying credits for nobody.
      return SINGLE_CASE.test(address) || checksummed(address) === address ? address.toLowerCase() : undefined;
    }
    if (address === '' || address.length > MAX_ACCOUNT_LENGTH) return undefined;
    return (await this.#settlements.parts.ledger.account(address))?.id;
  }

  async #buy(signed: SignedPayment, terms: Terms, purpose: string, account: string): Promise<PurchaseAnswer> {
    const presented = await this.#settlements.present(signed, terms, purpose, account);
    if (presented.kind === 'known') return await this.#repeatPurchase(presented.payment, signed, terms, purpose);
    if (presented.kind !== 'reserved') return this.#unpaid(presented, terms);
    const { reserved } = presented;
    const outcome = await this.#settlements.pay(reserved, { kind: 'credit', account });
    const { value } = signed.authorization;
    return this.#sold(outcome, picoOf(value, this.#settlements.parts.merchant.asset), account, terms);
  }

  async #repeatPurchase(
    payment: Payment,
    signed: SignedPayment,
    terms: Terms,
    purpose: string,
  ): Promise<PurchaseAnswer> {
    if (payment.purpose !== purpose || !isSameSignature(payment, signed)) {
      return this.#offer(terms, 'duplicate_settlement');
    }
    const account = purpose.slice('credits:'.length);
    const answer = answerOf(payment);
    if (answer !== undefined) return this.#sold({ kind: 'booked', answer }, payment.amount, account, terms);
    if (payment.state === 'failed') return this.#offer(terms, payment.answer ?? 'payment_refused');
    // Its first request may be under way elsewhere: an offer would invite a second payment.
    if (!this.#recovery.isAbandoned(payment)) return refused('HR_PAYMENT_PENDING');
    const outcome =
      payment.state === 'submitted'
        ? await this.#settlements.askAgain(payment)
        : await this.#settlements.pay(this.#settlements.reservedOf(signed, terms, account), {
            kind: 'credit',
            account,
          });
    return this.#sold(outcome, payment.amount, account, terms);
  }

  #sold(outcome: Outcome, amount: Pico, account: string, terms: Terms): PurchaseAnswer {
    if (outcome.kind !== 'booked') return this.#unsettled(outcome, terms);
    const { receipt } = outcome.answer;
    const body = {
      status: 'success',
      credits_transferred: Number(amount / PICO_PER_CREDIT),
      recipient: ADDRESS.test(account) ? checksummed(account) : account,
      item_hash: receipt.transaction,
    } as const;
    return { kind: 'sold', body, headers: receiptHeaders(receipt, this.#settlements.parts.merchant) };
  }

  /**
   * A payment that was seen before buys nothing more, with one exception: where money arrived for work that was never
   * done, it became credit, and the same request with the same payment is served from it, once.
   */
  async #repeatCall(payment: Payment, signed: SignedPayment, request: CallRequest, terms: Terms): Promise<BeginAnswer> {
    const { dateMs, ledger, merchant } = this.#settlements.parts;
    if (payment.purpose !== `call:${request.digest}` || !isSameSignature(payment, signed)) {
      return this.#offer(terms, 'duplicate_settlement');
    }
    if (payment.state === 'submitted') {
      if (!this.#recovery.isAbandoned(payment)) return refused('HR_PAYMENT_PENDING');
      const outcome = await this.#settlements.askAgain(payment);
      if (outcome.kind !== 'booked') return refused('HR_PAYMENT_PENDING');
    }
    const settled = (await ledger.findPayment(payment.id)) ?? payment;
    const answer = answerOf(settled);
    if (answer === undefined) return this.#offer(terms, 'duplicate_settlement');
    const spent = {
      kind: 'offer',
      offer: makeOffer(merchant, terms, 'duplicate_settlement', receiptHeaders(answer.receipt, merchant)),
    } as const;
    const ticket = await this.#creditTicket(payment, answer.credited);
    if (ticket === undefined) return spent;
    const validUntilMs = dateMs() + terms.timeoutS * 1000;
    const { amount, payer } = payment;
    const hold = { id: ticket, account: payer, amount, holder: 'x402', expiresMs: validUntilMs };
    const held = await ledger.hold(hold).catch(() => undefined);
    if (held?.kind !== 'held' || held.repeated) return spent;
    const source = { kind: 'credit', amount, answer } as const;
    this.#tickets.set(ticket, { source, terms, usage: request.usage, validUntilMs, settling: undefined });
    return { kind: 'ticket', ticket };
  }

  /** Names the next try to serve a request from the credit of its payment; undefined when there is no such credit. */
  async #creditTicket({ id, payer }: Payment, credited: boolean): Promise<string | undefined> {
    const query = { account: payer, limit: RECENT_MOVEMENTS, holds: true };
    const known = new Set((await this.#settlements.parts.ledger.history(query)).map((movement) => movement.id));
    if (!credited && !known.has(`grant:${refundOf(id)}`)) return undefined;
    let ticket = HOLD + id;
    // A try that was given up has released its hold; one that was charged is the last.
    for (let again = 1; known.has(`release:${ticket}`) && !known.has(`settle:${ticket}`); again++) {
      ticket = `${HOLD}${id}#${again}`;
    }
    return ticket;
  }

  async #settle(ticket: string, { source, terms, usage }: Ticket): Promise<SettleAnswer> {
    const { ledger, merchant } = this.#settlements.parts;
    if (source.kind === 'credit') {
      await ledger.settle(ticket, source.amount, usage);
      return { kind: 'paid', headers: receiptHeaders(source.answer.receipt, merchant) };
    }
    const account = source.reserved.submission.account;
    const outcome = await this.#settlements.pay(source.reserved, { kind: 'charge', account, usage });
    if (outcome.kind !== 'booked') return this.#unsettled(outcome, terms);
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

  #unsettled(outcome: Exclude<Outcome, { readonly kind: 'booked' }>, terms: Terms): Offered | Refused {
    if (outcome.kind === 'refused') return this.#offer(terms, outcome.reason);
    return refused(outcome.kind === 'unsent' ? 'HR_PAYMENT_UNAVAILABLE' : 'HR_PAYMENT_PENDING');
  }

  #offer(terms: Terms, reason?: string): Offered {
    return { kind: 'offer', offer: makeOffer(this.#settlements.parts.merchant, terms, reason) };
  }

  /** Tickets whose owner has gone without a word, as with a thread that died. Their payments expire by themselves. */
  #dropOldTickets(): void {
    const nowMs = this.#settlements.parts.dateMs();
    for (const [id, { settling, validUntilMs }] of this.#tickets) {
      if (validUntilMs <= nowMs && settling === undefined) this.#tickets.delete(id);
    }
  }
}

function refused(code: ErrorCode, subject = ''): Refused {
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
