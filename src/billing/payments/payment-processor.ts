// Sells credits and single requests for signed payments: one actor per process, beside the ledger, that every thread asks. Whatever
// a client repeats, its money moves once; money that has moved is the charge of delivered work, or credit of the payer. Work that is
// not paid yet and checks of signatures are limited for each payer and in total.

import { setImmediate } from 'node:timers/promises';
import pLimit from 'p-limit';
import type { Behavior, Context, Ref } from '../../actor/index.ts';
import { TurnQueue } from '../../routing/index.ts';
import type { PaymentMetrics } from '../../telemetry/payment-metrics.ts';
import { type Ledger, type Payment, PICO_PER_CREDIT, PICO_PER_USD, type Pico, type Usage } from '../ledger/ledger.ts';
import { printUsd } from '../money.ts';
import { picoOf, purchaseAmount, unitsFor } from './merchant-config.ts';
import { makeOffer, type Receipt, receiptHeaders, type Terms } from './offer.ts';
import {
  type CallRequest,
  type Offered,
  type PaymentCommand,
  type PurchaseAnswer,
  type PurchaseRequest,
  type Refused,
  type SettleAnswer,
  refused,
  unknownOutcome,
} from './payment-commands.ts';
import { PayerRecords } from './payer-records.ts';
import {
  answerOf,
  type Outcome,
  type Presented,
  PURCHASE,
  type RecoveryRound,
  type Reserved,
  type SettledAnswer,
  type SettlementDeps,
  Settlements,
  type SettlementSettings,
  submissionOf,
} from './settlement.ts';
import { isContractSignature, type SignedPayment } from './signed-payment.ts';
import { checksummed } from './typed-data.ts';

export interface PaymentProcessorSettings extends SettlementSettings {
  /** Largest purchase. Default 1,000 USD. */
  readonly maxPurchase?: Pico;
  /** Requests under way that are not paid yet: of all payers, default 256, and of one that has paid for as many before, default 8. */
  readonly unpaid?: number;
  readonly unpaidPerPayer?: number;
}

export interface PaymentProcessorDeps extends Omit<SettlementDeps, 'ledger' | 'clock' | 'random' | 'settings'> {
  /** Commands that arrive before it is open wait for it. */
  readonly ledger: Ledger | Promise<Ledger>;
  readonly settings?: PaymentProcessorSettings;
  /** Called with failures of the gateway itself, most often of the ledger. */
  readonly onDefect: (error: unknown) => void;
  readonly onRound: (round: RecoveryRound) => void;
  readonly metrics?: PaymentMetrics;
}

/** Signatures that wait for their check, some milliseconds of the control thread each. */
const MAX_CHECKS = 1024;

/**
 * Verifications under way at the facilitator. Payers that have paid before have places of their own, and so have contract wallets,
 * whose signatures nobody else can check: a flood of strangers delays strangers only.
 */
const KNOWN_PLACES = 16;
const STRANGER_PLACES = 12;
const CONTRACT_PLACES = 4;
const PLACES_OF_PAYER = 4;

/** Requests that wait for a place. */
const WAITING = 256;
const WAITING_OF_PAYER = 16;
const WAIT_MS = 8000;

const UNPAID = 256;
const UNPAID_PER_PAYER = 8;

/** How long a ticket may stay unused: as long as clients make signatures valid for. */
const TICKET_MS = 900_000;

/** Other processes take a paid request for abandoned that is older than this, times three. */
const TOUCH_MS = 30_000;

/** Before a command is tried again that the ledger could not take. */
const RETRY_MS = 15_000;

/** When a client should repeat a payment that another process is at. */
const PENDING_S = 5;
const MAX_PENDING_S = 30;

const MAX_PURCHASE = 1000n * PICO_PER_USD;

/** Validity asked of the signatures of purchases, and of those of requests. */
const PURCHASE_TIMEOUT_S = 300;
const CALL_TIMEOUT_S = 900;

/** Longest pause between two recovery rounds. */
const RECOVERY_PERIOD_MS = 15_000;

const ADDRESS = /^0x[0-9a-f]{40}$/i;
const SINGLE_CASE = /^0x(?:[0-9a-f]+|[0-9A-F]+)$/;
const MAX_ACCOUNT_LENGTH = 256;

/** Prefix of the ticket of a request that is served from credit; also the id of its hold. */
const HOLD = 'x402:';

/** Times that a request is tried from credit: each try looks for the holds of all before it. */
const CREDIT_TRIES = 100;

/** By how much a hold outlives its ticket. */
const HOLD_MARGIN_MS = 300_000;

/** What pays for a request: a reserved payment, or the credit that its payment has become. */
type Source =
  | { readonly kind: 'payment'; readonly reserved: Reserved }
  | { readonly kind: 'credit'; readonly amount: Pico; readonly answer: SettledAnswer };

/** A purchase that was read. */
interface Purchase {
  readonly id: string;
  readonly signed: SignedPayment;
  readonly terms: Terms;
  readonly account: string;
}

/** A request that may be served. */
interface Accepted {
  readonly kind: 'accepted';
  readonly id: string;
  readonly source: Source;
  readonly terms: Terms;
  readonly usage: Usage;
}

interface Ticket extends Accepted {
  /** What asked for it, as in `Begin`. */
  readonly call: string;
  readonly owner: string;
  state: 'open' | 'settling' | 'paid';
  /** Cancelled while it settled. */
  unwanted: boolean;
  /** When a paid ticket is given up. */
  readonly endMs: number;
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
  readonly #records: PayerRecords;
  /** One signature at a time, each in a turn of its own: other work of the thread goes on between them. */
  readonly #checks = pLimit(1);
  readonly #known: TurnQueue;
  readonly #strangers: TurnQueue;
  readonly #contracts: TurnQueue;
  readonly #unpaidTurns: TurnQueue;
  #recovers = true;
  #running = 0;

  constructor(deps: PaymentProcessorDeps, context: Context<PaymentCommand>) {
    this.#deps = deps;
    this.#settings = deps.settings ?? {};
    this.#context = context;
    const { clock, random } = context;
    const { unpaid = UNPAID, unpaidPerPayer = UNPAID_PER_PAYER } = this.#settings;
    const settings = this.#settings;
    this.#opened = Promise.resolve(deps.ledger).then(
      (ledger) => new Settlements({ ...deps, ledger, clock, random, settings }),
    );
    // Handled by every command that needs it.
    this.#opened.catch(() => undefined);
    const records = new PayerRecords(unpaidPerPayer, clock);
    const line = { waiting: WAITING, waitingOfKey: WAITING_OF_PAYER, waitMs: WAIT_MS };
    const verifying = { ...line, placesOf: () => PLACES_OF_PAYER };
    this.#records = records;
    this.#known = new TurnQueue({ ...verifying, places: KNOWN_PLACES }, clock);
    this.#strangers = new TurnQueue({ ...verifying, places: STRANGER_PLACES }, clock);
    this.#contracts = new TurnQueue({ ...verifying, places: CONTRACT_PLACES }, clock);
    this.#unpaidTurns = new TurnQueue(
      { ...line, places: unpaid, placesOf: (payer) => records.unpaidLimit(payer) },
      clock,
    );
    deps.metrics?.readQueues(() => ({
      verifying: this.#known.taken + this.#strangers.taken + this.#contracts.taken,
      waiting: this.#known.waiting + this.#strangers.waiting + this.#contracts.waiting + this.#unpaidTurns.waiting,
      unpaid: this.#unpaidTurns.taken,
    }));
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
        this.#leave(command.call);
        break;
      case 'Settle':
        this.#settle(command.ticket, command.replyTo);
        break;
      case 'Deliver':
        this.#deliver(command.ticket, command.amount);
        break;
      case 'Cancel':
        this.#cancel(command.ticket);
        break;
      case 'Expired':
        this.#expired(command.ticket);
        break;
      case 'Recover':
        this.#recover(command.replyTo);
        break;
      case 'Drain':
        this.#recovers = false;
        this.#draining.push(command.replyTo);
        this.#checkDrained();
        break;
    }
  }

  ownerGone(owner: string): void {
    this.#owners.delete(owner);
    for (const [id, ticket] of this.#tickets) if (ticket.owner === owner) this.#cancel(id);
  }

  #purchase(request: PurchaseRequest, replyTo: Ref<PurchaseAnswer>): void {
    const buy = (settlements: Settlements): Promise<PurchaseAnswer> => this.#sell(settlements, request);
    this.#run(buy, (answer) => {
      this.#planRound();
      replyTo.tell(answer ?? refused(unknownOutcome(request.payment)));
    });
  }

  #begin({ call, owner, replyTo, request }: Extract<PaymentCommand, { type: 'Begin' }>): void {
    this.#beginning.set(call, false);
    if (!this.#owners.has(owner.path)) {
      this.#owners.add(owner.path);
      this.#context.watch(owner);
    }
    const accept = (settlements: Settlements): Promise<Accepted | Offered | Refused> =>
      this.#accept(settlements, request);
    this.#run(accept, (answer) => {
      const unwanted = this.#beginning.get(call) === true || !this.#owners.has(owner.path);
      this.#beginning.delete(call);
      if (answer?.kind !== 'accepted') {
        replyTo.tell(answer ?? refused('HR_PAYMENT_UNAVAILABLE'));
        return;
      }
      const { id } = answer;
      const endMs = this.#context.clock.now() + TICKET_MS;
      this.#tickets.set(id, { ...answer, call, owner: owner.path, state: 'open', unwanted: false, endMs });
      this.#context.timers.once(id, TICKET_MS, { type: 'Expired', ticket: id });
      if (unwanted) this.#cancel(id);
      else replyTo.tell({ kind: 'ticket', ticket: id });
    });
  }

  /** The ticket of an answer that was under way when it was given up is used by nobody. */
  #leave(call: string): void {
    if (this.#beginning.has(call)) this.#beginning.set(call, true);
    else for (const [id, ticket] of this.#tickets) if (ticket.call === call) this.#cancel(id);
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
      this.#leaveUnpaid(ticket);
      if (answer?.kind === 'paid') this.#paid(id, ticket);
      else this.#tickets.delete(id);
      this.#planRound();
      replyTo.tell(answer ?? refused('HR_PAYMENT_PENDING'));
    });
  }

  #paid(id: string, ticket: Ticket): void {
    ticket.state = 'paid';
    if (ticket.unwanted || !this.#owners.has(ticket.owner)) this.#cancel(id);
    else this.#context.timers.once(id, TOUCH_MS, { type: 'Expired', ticket: id });
  }

  /** A paid ticket is kept while its request is under way, and other processes are told so. */
  #expired(id: string): void {
    const ticket = this.#tickets.get(id);
    if (ticket === undefined) return;
    const { endMs, source, state } = ticket;
    if (state !== 'paid' || this.#context.clock.now() >= endMs) {
      this.#cancel(id);
      return;
    }
    this.#context.timers.once(id, TOUCH_MS, { type: 'Expired', ticket: id });
    if (source.kind === 'payment') this.#run((settlements) => settlements.touch(id), ignore);
  }

  #deliver(id: string, amount: Pico | null): void {
    const ticket = this.#tickets.get(id);
    if (ticket?.state !== 'paid') return;
    this.#forget(id);
    const { source, terms, usage } = ticket;
    // Payments of version 1 may bring more than the price.
    const earned = amount ?? picoOf(terms.units, this.#deps.merchant.asset);
    const deliver = async (settlements: Settlements): Promise<true> => {
      if (source.kind === 'payment') await settlements.deliver(id, usage, earned);
      else await settlements.deps.ledger.settle(id, earned < source.amount ? earned : source.amount, usage);
      return true;
    };
    this.#run(deliver, (done) => {
      if (done !== true) this.#again(ticket, { type: 'Deliver', ticket: id, amount });
    });
  }

  #cancel(id: string): void {
    const ticket = this.#tickets.get(id);
    if (ticket === undefined) return;
    if (ticket.state === 'settling') {
      ticket.unwanted = true;
      return;
    }
    this.#forget(id);
    const { source, state } = ticket;
    if (state === 'open') this.#leaveUnpaid(ticket);
    const cancel = async (settlements: Settlements): Promise<true> => {
      const { ledger } = settlements.deps;
      if (source.kind === 'credit') await ledger.release(id);
      else if (state === 'paid') await settlements.giveBack(id);
      else await ledger.failPayment(id, 'cancelled');
      return true;
    };
    this.#run(cancel, (done) => {
      if (done !== true && source.kind === 'credit') this.#again(ticket, { type: 'Cancel', ticket: id });
    });
  }

  /** The ledger could not take a command. */
  #again(ticket: Ticket, command: Extract<PaymentCommand, { readonly type: 'Deliver' | 'Cancel' }>): void {
    this.#tickets.set(ticket.id, ticket);
    this.#context.timers.once(ticket.id, RETRY_MS, command);
  }

  #leaveUnpaid({ source }: Accepted): void {
    if (source.kind === 'payment') this.#unpaidTurns.leave(source.reserved.payer);
  }

  #forget(id: string): void {
    this.#tickets.delete(id);
    this.#context.timers.cancel(id);
  }

  #recover(replyTo: Ref<RecoveryRound | null> | null): void {
    if (replyTo === null && !this.#recovers) return;
    const recover = (settlements: Settlements): Promise<RecoveryRound> => settlements.recover();
    this.#run(recover, (round) => {
      if (round !== undefined) {
        this.#deps.metrics?.round(round, this.#deps.dateMs());
        this.#deps.onRound(round);
      }
      replyTo?.tell(round ?? null);
      this.#planRound();
    });
  }

  /** The next round comes regularly, and earlier when a payment of this process is due. */
  #planRound(): void {
    if (!this.#recovers) return;
    const plan = (settlements: Settlements): void => {
      const delayMs = Math.min(settlements.nextDueMs - this.#deps.dateMs(), RECOVERY_PERIOD_MS);
      this.#context.timers.once('recover', Math.max(delayMs, 0), { type: 'Recover', replyTo: null });
    };
    this.#opened.then(plan, ignore);
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

  get #maxPurchase(): Pico {
    return this.#settings.maxPurchase ?? MAX_PURCHASE;
  }

  #wrongAmount(): Refused {
    return refused('HR_PAYMENT_AMOUNT', `an amount is above 0 and at most ${printUsd(this.#maxPurchase)} USD`);
  }

  async #sell(settlements: Settlements, request: PurchaseRequest): Promise<PurchaseAnswer> {
    const amount = purchaseAmount(request.amount);
    if (amount === undefined || amount > this.#maxPurchase) return this.#wrongAmount();
    const account = await accountOf(settlements.deps.ledger, request.address);
    if (account === undefined) return refused('HR_PAYMENT_ADDRESS');
    const units = unitsFor(amount, this.#deps.merchant.asset);
    const description = `${amount / PICO_PER_CREDIT} credits for ${account}`;
    const terms = { units, resource: request.resource, description, timeoutS: PURCHASE_TIMEOUT_S };
    if (request.payment === undefined) return this.#offer(terms);
    const read = await this.#read(settlements, request.payment);
    if ('kind' in read) return this.#unpaid(read, terms);
    const purpose = `${PURCHASE}${account}`;
    const running = this.#buying.get(read.id);
    if (running !== undefined) {
      return running.purpose === purpose ? await running.answer : this.#offer(terms, 'duplicate_settlement');
    }
    const purchase = { id: read.id, signed: read.signed, terms, account };
    const answer = this.#buy(settlements, purchase).finally(() => this.#buying.delete(read.id));
    this.#buying.set(read.id, { purpose, answer });
    return await answer;
  }

  async #buy(settlements: Settlements, purchase: Purchase): Promise<PurchaseAnswer> {
    const { account, id, signed, terms } = purchase;
    const known = await settlements.deps.ledger.findPayment(id);
    if (known !== undefined) return await this.#repeatPurchase(settlements, purchase, known);
    // A payment of version 1 may bring more than what was asked for, and buys as much.
    if (picoOf(signed.authorization.value, this.#deps.merchant.asset) > this.#maxPurchase) return this.#wrongAmount();
    const against = await this.#verify(settlements, signed, terms);
    if (against !== undefined) {
      const meanwhile = await settlements.deps.ledger.findPayment(id);
      return meanwhile === undefined ? against : await this.#repeatPurchase(settlements, purchase, meanwhile);
    }
    const reserved = await settlements.reserve(signed, terms, `${PURCHASE}${account}`, account);
    if ('state' in reserved) return await this.#repeatPurchase(settlements, purchase, reserved);
    return this.#sold(settlements, purchase, await this.#credit(settlements, reserved));
  }

  async #repeatPurchase(settlements: Settlements, purchase: Purchase, payment: Payment): Promise<PurchaseAnswer> {
    const { account, id, signed, terms } = purchase;
    if (payment.purpose !== `${PURCHASE}${account}` || !isSameSignature(payment, signed)) {
      return this.#offer(terms, 'duplicate_settlement');
    }
    const answer = answerOf(payment);
    if (answer !== undefined) return this.#soldFor(purchase, answer.receipt);
    if (payment.state === 'failed') return this.#offer(terms, payment.answer ?? 'payment_refused');
    // Its first request may be under way elsewhere: an offer would invite a second payment.
    if (!settlements.isAbandoned(payment)) return this.#pending(settlements, id);
    const outcome =
      payment.state === 'submitted'
        ? await settlements.inquire(payment)
        : await this.#credit(settlements, settlements.reservedOf(signed, terms, account));
    return this.#sold(settlements, purchase, outcome);
  }

  async #credit(settlements: Settlements, reserved: Reserved): Promise<Outcome> {
    const outcome = await settlements.credit(reserved);
    this.#note(outcome, reserved.payer);
    return outcome;
  }

  #sold(settlements: Settlements, purchase: Purchase, outcome: Outcome): PurchaseAnswer {
    const { id, terms } = purchase;
    return outcome.kind === 'settled'
      ? this.#soldFor(purchase, outcome.receipt)
      : this.#unsettled(settlements, outcome, id, terms);
  }

  #soldFor({ account, signed }: Purchase, receipt: Receipt): PurchaseAnswer {
    const { merchant } = this.#deps;
    const body = {
      status: 'success',
      credits_transferred: Number(picoOf(signed.authorization.value, merchant.asset) / PICO_PER_CREDIT),
      recipient: ADDRESS.test(account) ? checksummed(account) : account,
      item_hash: receipt.transaction,
    } as const;
    return { kind: 'sold', body, headers: receiptHeaders(receipt, merchant) };
  }

  /** Judges the payment of a request without a key and reserves it. */
  async #accept(settlements: Settlements, request: CallRequest): Promise<Accepted | Offered | Refused> {
    const { description, payment, price, resource } = request;
    const units = unitsFor(price, this.#deps.merchant.asset);
    const terms = { units, resource, description, timeoutS: CALL_TIMEOUT_S };
    if (payment === undefined) return this.#offer(terms);
    const read = await this.#read(settlements, payment);
    if ('kind' in read) return this.#unpaid(read, terms);
    const { id, signed } = read;
    const known = await settlements.deps.ledger.findPayment(id);
    if (known !== undefined) return await this.#repeatCall(settlements, known, signed, request, terms);
    const payer = signed.authorization.from;
    const barredMs = this.#records.barredMs(payer);
    if (barredMs > 0) return refused('HR_PAYMENT_LIMIT', '', Math.ceil(barredMs / 1000));
    const against = await this.#verify(settlements, signed, terms);
    if (against !== undefined) return await this.#takenMeanwhile(settlements, request, id, signed, terms, against);
    const waits = !this.#unpaidTurns.isFree(payer);
    const turn = await this.#unpaidTurns.enter(payer);
    if (turn !== 'place') return refused(turn === 'full' ? 'HR_PAYMENT_UNAVAILABLE' : 'HR_PAYMENT_LIMIT');
    let accepted: Accepted | Offered | Refused | undefined;
    try {
      // What was paid meanwhile may have taken the funds.
      const changed = waits ? await this.#verify(settlements, signed, terms) : undefined;
      accepted =
        changed === undefined
          ? await this.#reserve(settlements, request, id, signed, terms)
          : await this.#takenMeanwhile(settlements, request, id, signed, terms, changed);
      return accepted;
    } finally {
      if (accepted?.kind !== 'accepted' || accepted.source.kind !== 'payment') this.#unpaidTurns.leave(payer);
    }
  }

  /** A payment that is not valid any more: another process may have taken it meanwhile. */
  async #takenMeanwhile(
    settlements: Settlements,
    request: CallRequest,
    id: string,
    signed: SignedPayment,
    terms: Terms,
    against: Offered | Refused,
  ): Promise<Accepted | Offered | Refused> {
    const known = await settlements.deps.ledger.findPayment(id);
    return known === undefined ? against : await this.#repeatCall(settlements, known, signed, request, terms);
  }

  async #reserve(
    settlements: Settlements,
    request: CallRequest,
    id: string,
    signed: SignedPayment,
    terms: Terms,
  ): Promise<Accepted | Offered | Refused> {
    const reserved = await settlements.reserve(signed, terms, `call:${request.digest}`);
    if ('state' in reserved) return await this.#repeatCall(settlements, reserved, signed, request, terms);
    return { kind: 'accepted', id, source: { kind: 'payment', reserved }, terms, usage: request.usage };
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
    const { amount, id, purpose } = payment;
    if (purpose !== `call:${request.digest}` || !isSameSignature(payment, signed)) {
      return this.#offer(terms, 'duplicate_settlement');
    }
    const spentFor = (receipt: Receipt): Offered => {
      const headers = receiptHeaders(receipt, merchant);
      return { kind: 'offer', offer: makeOffer(merchant, terms, 'duplicate_settlement', headers) };
    };
    const delivered = settlements.deliveredFor(id);
    if (delivered !== undefined) return spentFor(delivered);
    if (payment.state === 'submitted') {
      const { kind } = await settlements.inquire(payment);
      if (kind === 'open') return this.#pending(settlements, id);
    }
    const settled = (await ledger.findPayment(id)) ?? payment;
    if (settled.state === 'failed' && settled.answer !== 'cancelled') {
      return this.#offer(terms, settled.answer ?? 'payment_refused');
    }
    const answer = answerOf(settled);
    if (answer === undefined) return this.#offer(terms, 'duplicate_settlement');
    const ticket = answer.credited ? await this.#holdCredit(ledger, payment) : undefined;
    if (ticket === undefined) return spentFor(answer.receipt);
    const source = { kind: 'credit', amount, answer } as const;
    return { kind: 'accepted', id: ticket, source, terms, usage: request.usage };
  }

  /** Holds the credit that a payment has become; undefined when it is spent, held by another try, or was tried too often. */
  async #holdCredit(ledger: Ledger, { amount, id, payer }: Payment): Promise<string | undefined> {
    let ticket = HOLD + id;
    for (let again = 1; ; again++) {
      const known = await ledger.findHold(ticket);
      if (known === undefined) break;
      // A try that was given up has released its hold; one that was charged is the last.
      if (known.state === 'open' || known.charged !== null) return undefined;
      if (again === CREDIT_TRIES) return undefined;
      ticket = `${HOLD}${id}#${again}`;
    }
    const ttlMs = TICKET_MS + HOLD_MARGIN_MS;
    const held = await ledger.hold({ id: ticket, account: payer, amount, holder: 'x402', ttlMs });
    return held.kind === 'held' && !held.repeated ? ticket : undefined;
  }

  async #pay(settlements: Settlements, { id, source, terms }: Ticket): Promise<SettleAnswer> {
    const { merchant } = settlements.deps;
    if (source.kind === 'credit') return { kind: 'paid', headers: receiptHeaders(source.answer.receipt, merchant) };
    const outcome = await settlements.keep(source.reserved);
    this.#note(outcome, source.reserved.payer);
    return outcome.kind === 'settled'
      ? { kind: 'paid', headers: receiptHeaders(outcome.receipt, merchant) }
      : this.#unsettled(settlements, outcome, id, terms);
  }

  /** Checks the form and the signature of a payment. */
  async #read(settlements: Settlements, payment: string): Promise<ReturnType<Settlements['read']>> {
    if (this.#checks.pendingCount >= MAX_CHECKS) return { kind: 'unavailable' };
    return await this.#checks(async () => {
      await setImmediate();
      return settlements.read(payment);
    });
  }

  /** Lets the facilitator check a payment when it is its payer's turn. Undefined: it is valid. */
  async #verify(settlements: Settlements, signed: SignedPayment, terms: Terms): Promise<Offered | Refused | undefined> {
    const wrong = settlements.check(signed, terms);
    if (wrong !== undefined) return this.#unpaid(wrong, terms);
    const payer = signed.authorization.from;
    const known = this.#records.hasPaid(payer) ? this.#known : this.#strangers;
    const turns = isContractSignature(signed.signature) ? this.#contracts : known;
    const turn = await turns.enter(payer);
    if (turn !== 'place') return refused(turn === 'full' ? 'HR_PAYMENT_UNAVAILABLE' : 'HR_PAYMENT_LIMIT');
    try {
      const against = await settlements.verify(signed, terms);
      return against === undefined ? undefined : this.#unpaid(against, terms);
    } finally {
      turns.leave(payer);
    }
  }

  /** What a settlement says about its payer. */
  #note({ kind }: Outcome, payer: string): void {
    this.#deps.metrics?.settled(kind);
    if (kind === 'settled') this.#records.paid(payer);
    else if (kind === 'refused') this.#records.refused(payer);
  }

  #unpaid(presented: Presented, terms: Terms): Offered | Refused {
    switch (presented.kind) {
      case 'malformed':
        return refused('HR_PAYMENT_MALFORMED', presented.message);
      case 'invalid':
        return this.#offer(terms, presented.reason);
      case 'unavailable':
        return refused('HR_PAYMENT_UNAVAILABLE');
    }
  }

  #unsettled(
    settlements: Settlements,
    outcome: Exclude<Outcome, { readonly kind: 'settled' }>,
    id: string,
    terms: Terms,
  ): Offered | Refused {
    if (outcome.kind === 'refused') return this.#offer(terms, outcome.reason);
    return outcome.kind === 'unsent' ? refused('HR_PAYMENT_UNAVAILABLE') : this.#pending(settlements, id);
  }

  #pending(settlements: Settlements, id: string): Refused {
    const waitS = Math.ceil(settlements.waitMs(id) / 1000);
    return refused('HR_PAYMENT_PENDING', '', waitS === 0 ? PENDING_S : Math.min(waitS, MAX_PENDING_S));
  }

  #offer(terms: Terms, reason?: string): Offered {
    return { kind: 'offer', offer: makeOffer(this.#deps.merchant, terms, reason) };
  }
}

function ignore(): void {
  // A failure was told by whoever runs the work.
}

/** The account that a purchase goes to: hexadecimal addresses need none yet, other names do. */
async function accountOf(ledger: Ledger, address: string): Promise<string | undefined> {
  if (ADDRESS.test(address)) {
    // Mixed case is a checksum: it keeps a typing error from buying credits for another address.
    return SINGLE_CASE.test(address) || checksummed(address) === address ? address.toLowerCase() : undefined;
  }
  // No text of PostgreSQL holds NUL.
  if (address === '' || address.length > MAX_ACCOUNT_LENGTH || address.includes('\0')) return undefined;
  return (await ledger.account(address))?.id;
}

/** True as long as nothing was submitted: then there is nothing to be had. */
function isSameSignature(payment: Payment, { signature }: SignedPayment): boolean {
  const submission = submissionOf(payment);
  return submission === undefined || submission.signature === signature;
}
