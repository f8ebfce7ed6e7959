// Settlement of a payment in steps, from signature to posted money: look for an earlier use, verify, reserve, submit, take, post; and
// the search for the truth about payments that stopped in between. The ledger records each step before the next begins. Money that
// has arrived is posted once: as a charge when work was delivered for it, otherwise as credit of the payer.

import pLimit from 'p-limit';
import { backoffMs, type Clock } from '../../actor/index.ts';
import { paymentId } from '../ledger/commands.ts';
import { type Ledger, LedgerError, type Payment, type PaymentKey, type Pico, type Usage } from '../ledger/ledger.ts';
import type { Chain, SignedTransfer, TransferState } from './chain.ts';
import { checkOrigin, checkTerms } from './checks.ts';
import type { Facilitator, Settled } from './facilitator.ts';
import { type MerchantConfig, picoOf } from './merchant-config.ts';
import { facilitatorBody, type Receipt, type Terms } from './offer.ts';
import { decodePayment, PaymentFormatError, type SignedPayment } from './signed-payment.ts';
import { parseJson } from '../../config/json-text.ts';

export interface SettlementSettings {
  /** Repeats of an unanswered settlement while its client waits. Default 4. */
  readonly repeats?: number;
  /**
   * Age from which a payment that another process has submitted counts as abandoned; more than a settlement takes anywhere, where
   * the clocks of processes are a minute apart. Default 150,000 ms. Payments of this process are asked about at once.
   */
  readonly graceMs?: number;
}

export interface SettlementDeps {
  readonly ledger: Ledger;
  readonly facilitator: Pick<Facilitator, 'verify' | 'settle'>;
  /** Null: only the facilitator is asked. */
  readonly chain: Pick<Chain, 'find'> | null;
  readonly merchant: MerchantConfig;
  /** Milliseconds since 1970. */
  readonly dateMs: () => number;
  readonly clock: Clock;
  readonly random: () => number;
  readonly settings: SettlementSettings;
}

/** What the ledger keeps of a submitted payment. */
export interface Submission {
  /** Account that is credited if no work is delivered for the money. */
  readonly account: string;
  /** A repeat must bring the same one: nonces are public, and contract wallets cannot be checked here. */
  readonly signature: string;
  /** The body for the facilitator. */
  readonly body: string;
  /** When it was first submitted, in milliseconds since 1970. */
  readonly sentMs?: number;
  /** A transaction that the facilitator has named. */
  readonly transaction?: string;
  /** That transaction has moved the money. */
  readonly moved?: boolean;
}

/** What the ledger keeps of a settled payment. */
export interface SettledAnswer {
  readonly receipt: Receipt;
  /** True when the money became credit of the submission's account, false when it paid for delivered work. */
  readonly credited: boolean;
}

/** A payment that this process has reserved. */
export interface Reserved {
  readonly id: string;
  readonly network: string;
  readonly payer: string;
  readonly submission: Submission;
}

export type Presented =
  | { readonly kind: 'malformed'; readonly message: string }
  | { readonly kind: 'invalid'; readonly reason: string }
  | { readonly kind: 'unavailable' };

/** `open`: money may have moved; the payment stays submitted until it is known. */
export type Outcome =
  | { readonly kind: 'settled'; readonly receipt: Receipt }
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'unsent' }
  | { readonly kind: 'open' };

/** Where money goes that has arrived: credit of the account, or a charge for what was delivered. */
interface Posting {
  readonly id: string;
  readonly account: string;
  /** Null: credit. */
  readonly usage: Usage | null;
  /** What is charged, the rest is credit; null: all. */
  readonly charged: Pico | null;
  readonly receipt: Receipt;
}

/** Money that this process keeps for work that follows, with what the ledger has of its payment. */
interface Kept extends Posting {
  readonly submission: Submission;
}

/** What a facilitator's body holds, as `facilitatorBody` writes it. */
interface SubmittedBody {
  readonly paymentPayload: {
    readonly payload: {
      readonly authorization: Readonly<Record<'from' | 'to' | 'value' | 'validBefore' | 'nonce', string>>;
    };
  };
  readonly paymentRequirements: { readonly asset: string };
}

/** Result of one recovery round. */
export interface RecoveryRound {
  /** Money of these has arrived and was posted. */
  readonly posted: number;
  /** Ruled out: no money has moved, and none can any more. */
  readonly closed: number;
  /** Their outcome is not known yet. */
  readonly open: number;
  /** Reserved and never submitted, and too old now. */
  readonly expired: number;
  /** Since when the oldest open one is submitted, in milliseconds since 1970; null when none is open. */
  readonly openSinceMs: number | null;
}

const REPEATS = 4;
/** No repeat begins later than this after the first request. */
const PATIENCE_MS = 20_000;
const GRACE_MS = 150_000;

/** Between two requests of a settlement whose client waits. */
const REPEAT_BACKOFF = { minMs: 250, maxMs: 4000 } as const;

/** Between two questions about an open payment, after the first at once. */
const QUESTION_BACKOFF = { minMs: 1000, maxMs: 60_000 } as const;

/** The same from an hour after the end of its validity, when only an operator or another node can tell more. */
const LATE_QUESTION_MS = 3_600_000;
const AFTERMATH_MS = 3_600_000;

/** Without a node of the chain: how long before the end of its validity a payment may be last known to be unused. */
const LAST_WORD_MS = 90_000;

/** After its submission, how long a settlement and the mining of its transaction take at most. */
const MINING_MS = 150_000;

/**
 * Payments looked at in a round beyond those it knows to be stuck, so that these never hide the others, and how many of
 * them are asked about: a facilitator that is silent must not keep the next round waiting for hours.
 */
const ROUND_PAYMENTS = 1000;
const ROUND_QUESTIONS = 64;
const QUESTIONS_AT_ONCE = 8;

/** What was asked about an open payment. */
interface Inquiry {
  readonly asked: number;
  /** When that was: a wall clock that is before it was set back, and says nothing about `nextMs`. */
  readonly askedMs: number;
  readonly nextMs: number;
  /** When the facilitator last said that its nonce is unused; 0: never. */
  readonly unusedMs: number;
}

/** A payment of an earlier version has no date of its submission: it is at most so old when its validity ends. */
const OLDEST_S = 3600;

/** 9999-12-31, in seconds since 1970. */
const LAST_S = 253_402_214_400;

/** Of the purpose of a payment that buys credits; others pay for one request. */
export const PURCHASE = 'credits:';

const NOT_ASKED: Inquiry = { asked: 0, askedMs: 0, nextMs: 0, unusedMs: 0 };

export class Settlements {
  readonly deps: SettlementDeps;
  /** Money that arrived and could not be posted, as when the database was away; posted with the next round. */
  readonly #unposted = new Map<string, Posting>();
  /** Money that arrived for work that is not delivered yet, or that is being posted. */
  readonly #kept = new Map<string, Kept>();
  readonly #asking = new Set<string>();
  readonly #inquiries = new Map<string, Inquiry>();
  /** Payments whose settlement by this process has come to no end. */
  readonly #own = new Set<string>();
  #recovering: Promise<RecoveryRound> | undefined;

  constructor(deps: SettlementDeps) {
    this.deps = deps;
  }

  /** The id of what a header brings, or why it brings nothing that could be paid with. */
  read(header: string): { readonly signed: SignedPayment; readonly id: string } | Presented {
    const { merchant } = this.deps;
    let signed;
    try {
      signed = decodePayment(header);
    } catch (error) {
      if (error instanceof PaymentFormatError) return { kind: 'malformed', message: error.message };
      throw error;
    }
    const reason = checkOrigin(signed, merchant);
    return reason === undefined ? { signed, id: paymentId(keyOf(signed, merchant)) } : { kind: 'invalid', reason };
  }

  /** Why a payment does not buy what the terms say, as far as can be told without the chain. */
  check(signed: SignedPayment, terms: Terms): Presented | undefined {
    const { dateMs, merchant } = this.deps;
    const reason = checkTerms(signed, merchant, terms.units, dateMs());
    return reason === undefined ? undefined : { kind: 'invalid', reason };
  }

  /** Lets the facilitator check a payment against the chain. Undefined: it is valid. */
  async verify(signed: SignedPayment, terms: Terms): Promise<Presented | undefined> {
    const { facilitator, merchant } = this.deps;
    const verified = await facilitator.verify(facilitatorBody(signed, merchant, terms));
    return verified.kind === 'valid' ? undefined : verified;
  }

  /**
   * Takes the nonce of a verified payment, so that a row of the ledger costs its writer real funds; of several at once that verify,
   * one reserves. Otherwise resolves with the payment that has it.
   */
  async reserve(signed: SignedPayment, terms: Terms, purpose: string, account?: string): Promise<Reserved | Payment> {
    const { ledger, merchant } = this.deps;
    const { validBefore, value } = signed.authorization;
    const amount = picoOf(value, merchant.asset);
    const validUntilMs = dateOf(validBefore);
    const answer = await ledger.reservePayment({ ...keyOf(signed, merchant), purpose, amount, validUntilMs });
    return answer.kind === 'taken' ? answer.payment : this.reservedOf(signed, terms, account);
  }

  /** What `credit` and `keep` need of a payment that was reserved, here or by a process that is gone. Default account: the payer's. */
  reservedOf(signed: SignedPayment, terms: Terms, account?: string): Reserved {
    const { merchant } = this.deps;
    const key = keyOf(signed, merchant);
    const body = facilitatorBody(signed, merchant, terms);
    const submission = { account: account ?? key.payer, signature: signed.signature, body };
    return { id: paymentId(key), network: key.network, payer: key.payer, submission };
  }

  /** Takes the money of a payment that was never submitted, and posts it as credit. */
  async credit(reserved: Reserved): Promise<Outcome> {
    return await this.#alone(reserved.id, async () => {
      const taken = await this.#take(reserved);
      if (taken.kind !== 'settled') return taken;
      const { account } = reserved.submission;
      const posting = { id: reserved.id, account, usage: null, charged: null, receipt: taken.receipt };
      return (await this.#tryPost(posting)) ? taken : { kind: 'open' };
    });
  }

  /**
   * Takes the money of a payment that was never submitted, for work that follows. Once it is settled, exactly one of `deliver` and
   * `giveBack` must follow; until then the ledger knows the transaction, and a process that ends leaves credit.
   */
  async keep(reserved: Reserved): Promise<Outcome> {
    const { id } = reserved;
    return await this.#alone(id, async () => {
      const sent = { ...reserved.submission, sentMs: this.deps.dateMs() };
      const taken = await this.#take({ ...reserved, submission: sent });
      if (taken.kind !== 'settled') return taken;
      const { receipt } = taken;
      const submission = { ...sent, transaction: receipt.transaction, moved: true };
      const kept = { id, account: sent.account, usage: null, charged: null, receipt, submission };
      try {
        if (!(await this.#submit(id, submission))) {
          // Closed in other hands, perhaps as a payment that moved nothing: its money is posted all the same, once.
          this.#unposted.set(id, kept);
          return { kind: 'open' };
        }
      } catch (error) {
        // The request is refused then, and nobody waits for its money.
        this.#unposted.set(id, kept);
        throw error;
      }
      this.#kept.set(id, kept);
      return taken;
    });
  }

  /** Posts kept money as the charge of work that is delivered. `charged`: part of it, the rest becomes credit; null: all. */
  async deliver(id: string, usage: Usage, charged: Pico | null = null): Promise<void> {
    await this.#postKept(id, usage, charged);
  }

  /** Posts kept money as credit: nothing was delivered for it. */
  async giveBack(id: string): Promise<void> {
    await this.#postKept(id, null, null);
  }

  /** Shows other processes that this one still works on a payment whose money it keeps. */
  async touch(id: string): Promise<void> {
    const kept = this.#kept.get(id);
    if (kept !== undefined) await this.#submit(id, kept.submission);
  }

  /** Asks about a submitted payment, if it is time. */
  async inquire(payment: Payment): Promise<Outcome> {
    return this.#mayAsk(payment) ? await this.#alone(payment.id, () => this.#inquire(payment)) : { kind: 'open' };
  }

  /** The receipt of a payment whose work was delivered, while its charge is being posted. */
  deliveredFor(id: string): Receipt | undefined {
    const { receipt, usage = null } = this.#kept.get(id) ?? this.#unposted.get(id) ?? {};
    return usage === null ? undefined : receipt;
  }

  /** Whether this process is at it, or holds money for it. */
  isBusy(id: string): boolean {
    return this.#asking.has(id) || this.#unposted.has(id) || this.#kept.has(id);
  }

  /** Whether a payment that another process began may be taken over. */
  isAbandoned({ changedMs, id }: Payment): boolean {
    const { dateMs, settings } = this.deps;
    const { graceMs = GRACE_MS } = settings;
    // A date in the future is of a clock that was ahead, and has been set back or died since.
    return (this.#own.has(id) || Math.abs(dateMs() - changedMs) >= graceMs) && !this.isBusy(id);
  }

  /** Milliseconds until the outcome of a payment may be known: until this process asks next. */
  waitMs(id: string): number {
    const { askedMs, nextMs } = this.#inquiries.get(id) ?? NOT_ASKED;
    const nowMs = this.deps.dateMs();
    return nowMs < askedMs ? 0 : Math.max(0, nextMs - nowMs);
  }

  /** When the next question about a payment of this process is due, in milliseconds since 1970; Infinity: none is open. */
  get nextDueMs(): number {
    let nextMs = Infinity;
    for (const id of this.#own) {
      if (!this.isBusy(id)) nextMs = Math.min(nextMs, this.#inquiries.get(id)?.nextMs ?? 0);
    }
    return nextMs;
  }

  /**
   * One round over the payments that a crash, a lost answer or an absent database left half done. Rounds run in every process
   * of a store and may overlap; one that is under way here is joined. Rejects when the ledger cannot be read.
   */
  recover(): Promise<RecoveryRound> {
    this.#recovering ??= this.#recover().finally(() => (this.#recovering = undefined));
    return this.#recovering;
  }

  async #recover(): Promise<RecoveryRound> {
    const { dateMs, ledger } = this.deps;
    let posted = await this.#postLate();
    let closed = 0;
    const limit = ROUND_PAYMENTS + this.#inquiries.size;
    const submitted = await ledger.paymentsIn('submitted', limit);
    const due = submitted.filter((payment) => this.#mayAsk(payment));
    const ask = pLimit(QUESTIONS_AT_ONCE);
    const outcomes = await Promise.all(
      due.slice(0, ROUND_QUESTIONS).map((payment) => ask(() => this.#alone(payment.id, () => this.#inquire(payment)))),
    );
    for (const { kind } of outcomes) {
      if (kind === 'settled') posted++;
      else if (kind === 'refused') closed++;
    }
    const left = await ledger.paymentsIn('submitted', limit);
    this.#forgetBut(new Set(left.map(({ id }) => id)));
    let expired = 0;
    for (const { id, validUntilMs } of await ledger.paymentsIn('reserved')) {
      if (validUntilMs > dateMs() || this.isBusy(id)) continue;
      if (await ledger.expirePayment(id)) expired++;
    }
    const nowMs = dateMs();
    const open = left.filter(
      (payment) => !this.#asking.has(payment.id) && !this.#kept.has(payment.id) && !isServed(payment, nowMs),
    );
    const since = open.map((payment) => submissionOf(payment)?.sentMs ?? payment.changedMs);
    const openSinceMs = open.length === 0 ? null : Math.min(...since);
    return { posted, closed, open: open.length, expired, openSinceMs };
  }

  /** Lets the facilitator move the money. An unanswered request is repeated: the chain takes a nonce once. */
  async #take({ id, network, payer, submission: draft }: Reserved): Promise<Outcome> {
    const { clock, dateMs, facilitator, random, settings } = this.deps;
    const { repeats = REPEATS } = settings;
    let submission: Submission = { sentMs: dateMs(), ...draft };
    if (!(await this.#submit(id, submission))) return await this.#gone(id);
    this.#own.add(id);
    const startMs = clock.now();
    for (let repeat = 0; ; repeat++) {
      const settled = await facilitator.settle(submission.body);
      if (settled.kind === 'settled') return settledBy(settled.transaction, { network, payer });
      // A refusal of the first request is certain; that of a repeat may be due to the first one.
      if (repeat === 0 && settled.kind === 'refused') return await this.#close(id, settled.reason);
      if (repeat === 0 && settled.kind === 'unsent') {
        const { kind } = await this.#close(id, 'facilitator_unreachable');
        return kind === 'open' ? { kind } : { kind: 'unsent' };
      }
      submission = await this.#noteNamed(id, submission, settled);
      const seen = await this.#look({ network }, submission);
      if (seen.kind === 'moved') return settledBy(seen.transaction, { network, payer });
      const reason = reasonAgainst(seen);
      if (reason !== undefined) return await this.#close(id, reason);
      if (repeat >= repeats || clock.now() - startMs >= PATIENCE_MS) break;
      const delayMs = backoffMs(REPEAT_BACKOFF, repeat + 1, random);
      await new Promise<void>((resolve) => void clock.setTimeout(resolve, delayMs));
    }
    const askedMs = dateMs();
    const nextMs = askedMs + backoffMs(QUESTION_BACKOFF, 1, random);
    this.#inquiries.set(id, { asked: 1, askedMs, nextMs, unusedMs: 0 });
    return { kind: 'open' };
  }

  #mayAsk(payment: Payment): boolean {
    return this.isAbandoned(payment) && this.waitMs(payment.id) === 0;
  }

  /** Finds out what became of a submitted payment whose client does not wait any more. Money that moved becomes credit. */
  async #inquire(payment: Payment): Promise<Outcome> {
    const { dateMs, random } = this.deps;
    const { id, validUntilMs } = payment;
    const submission = submissionOf(payment);
    if (submission === undefined) return { kind: 'open' };
    const { asked, unusedMs } = this.#inquiries.get(id) ?? NOT_ASKED;
    const askedMs = dateMs();
    const isLate = askedMs > validUntilMs + AFTERMATH_MS;
    const pauseMs = isLate ? LATE_QUESTION_MS : backoffMs(QUESTION_BACKOFF, asked + 1, random);
    this.#inquiries.set(id, { asked: asked + 1, askedMs, nextMs: askedMs + pauseMs, unusedMs });
    const outcome = await this.#findOut(payment, submission);
    if (outcome.kind !== 'settled') return outcome;
    const posting = { id, account: submission.account, usage: null, charged: null, receipt: outcome.receipt };
    return (await this.#tryPost(posting)) ? outcome : { kind: 'open' };
  }

  /**
   * `/settle` is an order: given again, it may move money that has not moved yet. That is what a purchase asked for. Nobody gets the
   * work of a request any more, so there the order is given only when it cannot move anything: to hear of a transaction.
   */
  async #findOut(payment: Payment, submission: Submission): Promise<Outcome> {
    const { id, purpose, validUntilMs } = payment;
    const { dateMs, facilitator } = this.deps;
    if (submission.moved === true && submission.transaction !== undefined) {
      return settledBy(submission.transaction, payment);
    }
    const seen = await this.#look(payment, submission);
    if (seen.kind === 'moved') return settledBy(seen.transaction, payment);
    const reason = reasonAgainst(seen);
    if (reason !== undefined) return await this.#close(id, reason);
    const isUnknown = seen.kind === 'unknown';
    const isOver = dateMs() >= validUntilMs;
    const isSpent = isUnknown && (isOver || (await this.#isUsed(id, submission)));
    if (purpose.startsWith(PURCHASE) || isSpent) {
      const settled = await facilitator.settle(submission.body);
      if (settled.kind === 'settled') return settledBy(settled.transaction, payment);
      await this.#noteNamed(id, submission, settled);
    }
    const { unusedMs } = this.#inquiries.get(id) ?? NOT_ASKED;
    const wasUnused = unusedMs >= Math.max((submission.sentMs ?? Infinity) + MINING_MS, validUntilMs - LAST_WORD_MS);
    const isRuledOut = this.deps.chain === null && isOver && wasUnused && !purpose.startsWith(PURCHASE);
    return isRuledOut ? await this.#close(id, 'not_settled') : { kind: 'open' };
  }

  /** Whether the facilitator finds the nonce used. `/verify` moves nothing. */
  async #isUsed(id: string, { body }: Submission): Promise<boolean> {
    const verified = await this.deps.facilitator.verify(body);
    const inquiry = this.#inquiries.get(id);
    const isUnused = verified.kind === 'valid' || (verified.kind === 'invalid' && verified.nonce === 'unused');
    if (isUnused && inquiry !== undefined) {
      this.#inquiries.set(id, { ...inquiry, unusedMs: this.deps.dateMs() });
    }
    return verified.kind === 'invalid' && verified.nonce === 'used';
  }

  async #look({ network }: Pick<Payment, 'network'>, submission: Submission): Promise<TransferState> {
    const { chain, dateMs, merchant } = this.deps;
    // A payment of other settings is on another chain.
    if (chain === null || network !== merchant.chain.network) return { kind: 'unknown', problem: 'no node' };
    return await chain.find(transferIn(submission, dateMs()));
  }

  /** Keeps the name of a transaction that is not known to have moved the money. */
  async #noteNamed(id: string, submission: Submission, settled: Settled): Promise<Submission> {
    if (settled.kind !== 'unknown' || settled.transaction === null) return submission;
    if (settled.transaction === submission.transaction) return submission;
    const noted = { ...submission, transaction: settled.transaction };
    await this.#submit(id, noted);
    return noted;
  }

  /** False when the payment has settled or failed in other hands. */
  async #submit(id: string, submission: Submission): Promise<boolean> {
    try {
      await this.deps.ledger.submitPayment(id, JSON.stringify(submission));
      return true;
    } catch (error) {
      if (error instanceof LedgerError && error.refusal === 'payment-settled') return false;
      throw error;
    }
  }

  async #gone(id: string): Promise<Outcome> {
    const payment = await this.deps.ledger.findPayment(id);
    // Failed before it was submitted: its validity ended before the work did.
    const reason = 'invalid_exact_evm_payload_authorization_valid_before';
    return payment?.state === 'failed' ? { kind: 'refused', reason } : { kind: 'open' };
  }

  async #close(id: string, reason: string): Promise<Outcome> {
    try {
      await this.deps.ledger.failPayment(id, reason);
      return { kind: 'refused', reason };
    } catch (error) {
      // Another process took the same payment over and was paid: the next repeat finds that.
      if (error instanceof LedgerError && error.refusal === 'payment-settled') return { kind: 'open' };
      throw error;
    }
  }

  async #alone(id: string, work: () => Promise<Outcome>): Promise<Outcome> {
    if (this.isBusy(id)) return { kind: 'open' };
    this.#asking.add(id);
    try {
      return await work();
    } finally {
      this.#asking.delete(id);
    }
  }

  async #postKept(id: string, usage: Usage | null, charged: Pico | null): Promise<void> {
    const kept = this.#kept.get(id);
    if (kept === undefined) return;
    const posting = { ...kept, usage, charged };
    this.#kept.set(id, posting);
    await this.#tryPost(posting);
    this.#kept.delete(id);
  }

  /** Resolves with how many were posted. */
  async #postLate(): Promise<number> {
    let posted = 0;
    for (const posting of this.#unposted.values()) {
      if (await this.#tryPost(posting)) posted++;
    }
    return posted;
  }

  /** False when it must be tried later, or when another process has posted the money. */
  async #tryPost(posting: Posting): Promise<boolean> {
    const { account, charged, id, receipt, usage } = posting;
    const { ledger } = this.deps;
    const answer: SettledAnswer = { receipt, credited: usage === null };
    const text = JSON.stringify(answer);
    const target =
      usage === null
        ? ({ kind: 'credit', account } as const)
        : ({ kind: 'charge', account, usage, amount: charged } as const);
    try {
      // Twice at once: a commit whose confirmation was lost is confirmed by its repeat.
      await ledger.settlePayment(id, target, text).catch(() => ledger.settlePayment(id, target, text));
    } catch (error) {
      const isLost = error instanceof LedgerError && error.refusal === 'id-reused';
      if (isLost) this.#unposted.delete(id);
      else this.#unposted.set(id, posting);
      return false;
    }
    this.#unposted.delete(id);
    this.#own.delete(id);
    return true;
  }

  /** Forgets what was asked about payments that are not open any more. */
  #forgetBut(open: ReadonlySet<string>): void {
    for (const id of this.#inquiries.keys()) {
      if (!open.has(id)) this.#inquiries.delete(id);
    }
    for (const id of this.#own) {
      if (!open.has(id)) this.#own.delete(id);
    }
  }
}

/** Whether a gateway has taken the money for a request that it still serves: it posts the payment itself, as charge or as credit. */
export function isServed(payment: Payment, nowMs: number): boolean {
  return (
    payment.state === 'submitted' &&
    submissionOf(payment)?.moved === true &&
    Math.abs(nowMs - payment.changedMs) < GRACE_MS
  );
}

/** What an operator has seen on the chain: the transaction that moved the money, or null when none did. */
export interface Decision {
  readonly transaction: string | null;
}

/**
 * Closes a submitted payment by what its operator has seen on the chain. Money that moved becomes credit. False when the payment is
 * not open any more. Should money arrive later after all for a payment that was closed without, it is posted then.
 */
export async function decidePayment(ledger: Ledger, payment: Payment, { transaction }: Decision): Promise<boolean> {
  const { id, network, payer } = payment;
  const submission = submissionOf(payment);
  if (payment.state !== 'submitted' || submission === undefined) return false;
  try {
    if (transaction === null) {
      await ledger.failPayment(id, 'not_settled');
    } else {
      const receipt = { success: true, transaction, network, payer } as const;
      const answer: SettledAnswer = { receipt, credited: true };
      await ledger.settlePayment(id, { kind: 'credit', account: submission.account }, JSON.stringify(answer));
    }
    return true;
  } catch (error) {
    if (error instanceof LedgerError && (error.refusal === 'payment-settled' || error.refusal === 'id-reused'))
      return false;
    throw error;
  }
}

function settledBy(transaction: string, { network, payer }: Pick<Payment, 'network' | 'payer'>): Outcome {
  return { kind: 'settled', receipt: { success: true, transaction, network, payer } };
}

/** Why a payment can move no money any more; undefined when it can, or when that is not known. */
function reasonAgainst(seen: TransferState): string | undefined {
  if (seen.kind === 'void') return 'invalid_exact_evm_nonce_already_used';
  return seen.kind === 'unused' && seen.expired ? 'not_settled' : undefined;
}

function keyOf({ authorization }: SignedPayment, { asset, chain }: MerchantConfig): PaymentKey {
  const { from, nonce } = authorization;
  return { network: chain.network, asset: asset.address, payer: from, nonce };
}

/** Milliseconds of a date in seconds, at most the last that the ledger takes. */
function dateOf(seconds: bigint): number {
  return Number(seconds < BigInt(LAST_S) ? seconds : LAST_S) * 1000;
}

/** The transfer that was submitted: settings may have changed since. */
function transferIn({ body, sentMs, transaction }: Submission, nowMs: number): SignedTransfer {
  const { paymentPayload, paymentRequirements } = parseJson(body) as SubmittedBody;
  const { from, nonce, to, validBefore, value } = paymentPayload.payload.authorization;
  const validBeforeS = Number(validBefore);
  const dateS = sentMs === undefined ? Infinity : Math.floor(sentMs / 1000);
  // A date behind the validity is of a clock that was ahead: the logs would be looked for behind the transfer.
  const sentS = dateS < validBeforeS ? dateS : Math.min(validBeforeS, Math.floor(nowMs / 1000)) - OLDEST_S;
  return {
    asset: paymentRequirements.asset.toLowerCase(),
    payer: from,
    payTo: to,
    nonce,
    value: BigInt(value),
    sentS,
    validBeforeS,
    transaction: transaction ?? null,
  };
}

/** What was submitted of a payment, undefined before. */
export function submissionOf({ request }: Payment): Submission | undefined {
  return request === null ? undefined : (parseJson(request) as Submission);
}

/** What a settled payment answers its repeats with. */
export function answerOf({ answer, state }: Payment): SettledAnswer | undefined {
  return state === 'settled' && answer !== null ? (parseJson(answer) as SettledAnswer) : undefined;
}
