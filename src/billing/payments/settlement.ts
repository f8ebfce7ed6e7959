// Settlement of a payment in steps, from signature to posted money: look for an earlier use, verify, reserve, submit, settle, post;
// and the recovery of payments that stopped at any of them. The ledger records each step before the next begins, so a crash can
// neither repeat nor lose a payment. A submitted payment is polled until the facilitator reports it settled; its money then
// becomes credit, because its request is over.

import pLimit from 'p-limit';
import { paymentId } from '../ledger/commands.ts';
import { type Ledger, LedgerError, type Payment, type PaymentKey, type PaymentTarget } from '../ledger/store.ts';
import { picoOf, type MerchantConfig } from './merchant-config.ts';
import { checkOrigin, checkTerms } from './checks.ts';
import type { Facilitator, Settled } from './facilitator.ts';
import { facilitatorBody, type Receipt, type Terms } from './offer.ts';
import { decodePayment, PaymentFormatError, type SignedPayment } from './signed-payment.ts';

export interface SettlementDeps {
  readonly ledger: Ledger;
  readonly facilitator: Pick<Facilitator, 'verify' | 'settle'>;
  readonly merchant: MerchantConfig;
  /** Milliseconds since 1970. */
  readonly dateMs: () => number;
}

/** What the ledger keeps of a submitted payment. */
export interface Submission {
  /** Account that is credited if the request is over before the outcome is known. */
  readonly account: string;
  /** A repeat must bring the same one: nonces are public, and contract wallets cannot be checked here. */
  readonly signature: string;
  /** The body for the facilitator. */
  readonly body: string;
}

/** What the ledger keeps of a settled payment. */
export interface SettledAnswer {
  readonly receipt: Receipt;
  /** True when the money became credit of the submission's account, false when a request was paid directly. */
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
  | { readonly kind: 'unavailable' }
  | { readonly kind: 'known'; readonly payment: Payment; readonly signed: SignedPayment }
  | { readonly kind: 'reserved'; readonly reserved: Reserved };

/** `open`: money may have moved; the payment stays submitted until the recovery knows. */
export type Outcome =
  | { readonly kind: 'posted'; readonly answer: SettledAnswer }
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'unsent' }
  | { readonly kind: 'open' };

/** Money that arrived and could not be posted, as when the database was away. */
interface Posting {
  readonly id: string;
  readonly target: PaymentTarget;
  readonly answer: SettledAnswer;
}

/** Result of one recovery round. */
export interface RecoveryRound {
  readonly posted: number;
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

export class Settlements {
  readonly deps: SettlementDeps;
  /** By payment id; posted with the next round of the recovery. */
  readonly #unposted = new Map<string, Posting>();
  readonly #asking = new Set<string>();
  readonly #patience = new Map<string, Patience>();
  readonly #graceMs: number;
  #recovering: Promise<RecoveryRound> | undefined;

  constructor(deps: SettlementDeps, graceMs: number) {
    this.deps = deps;
    this.#graceMs = graceMs;
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

  /**
   * Judges a payment and takes its nonce. It is verified before it is reserved, so that a row of the ledger costs its
   * writer real funds; of several at once that verify, one reserves.
   */
  async present(signed: SignedPayment, terms: Terms, purpose: string, account?: string): Promise<Presented> {
    const { dateMs, facilitator, ledger, merchant } = this.deps;
    const key = keyOf(signed, merchant);
    const known = await ledger.findPayment(paymentId(key));
    if (known !== undefined) return { kind: 'known', payment: known, signed };
    const reason = checkTerms(signed, merchant, terms.units, dateMs());
    if (reason !== undefined) return { kind: 'invalid', reason };
    const body = facilitatorBody(signed, merchant, terms);
    const verified = await facilitator.verify(body);
    if (verified.kind !== 'valid') return verified;
    const { validBefore, value } = signed.authorization;
    const amount = picoOf(value, merchant.asset);
    const answer = await ledger.reservePayment({ ...key, purpose, amount, validUntilMs: dateOf(validBefore) });
    if (answer.kind === 'taken') return { kind: 'known', payment: answer.payment, signed };
    return { kind: 'reserved', reserved: this.reservedOf(signed, terms, account) };
  }

  /** What `pay` needs of a payment that was reserved, here or by a process that is gone. Default account: the payer's. */
  reservedOf(signed: SignedPayment, terms: Terms, account?: string): Reserved {
    const { merchant } = this.deps;
    const key = keyOf(signed, merchant);
    const body = facilitatorBody(signed, merchant, terms);
    const submission = { account: account ?? key.payer, signature: signed.signature, body };
    return { id: paymentId(key), network: key.network, payer: key.payer, submission };
  }

  /** Lets the facilitator move the money of a payment that was never submitted, and posts it. */
  async pay({ id, network, payer, submission }: Reserved, target: PaymentTarget): Promise<Outcome> {
    const { facilitator } = this.deps;
    return await this.#alone(id, async () => {
      if (!(await this.#submit(id, submission))) return await this.#gone(id);
      const settled = await facilitator.settle(submission.body);
      const outcome = await this.#post(id, { network, payer }, target, settled);
      if (settled.kind === 'refused') return await this.#fail(id, outcome, settled.reason);
      if (settled.kind === 'unsent') return await this.#fail(id, outcome, 'facilitator_unreachable');
      return outcome;
    });
  }

  /**
   * Asks once more about a submitted payment; money that moved becomes credit. A refusal says nothing now: the nonce is
   * used when the first request has settled.
   */
  async askAgain(payment: Payment): Promise<Outcome> {
    const { id, network, payer } = payment;
    const submission = submissionOf(payment);
    if (submission === undefined) return { kind: 'open' };
    const target = { kind: 'credit', account: submission.account } as const;
    return await this.#alone(id, async () => {
      const settled = await this.deps.facilitator.settle(submission.body);
      const outcome = await this.#post(id, { network, payer }, target, settled);
      return outcome.kind === 'posted' ? outcome : { kind: 'open' };
    });
  }

  /**
   * Closes a submitted payment by what its operator saw on the chain: the transaction that moved the money, which then
   * becomes credit, or null when none did and none can any more. False when there is no such payment left.
   */
  async decide(id: string, transaction: string | null): Promise<boolean> {
    const { ledger } = this.deps;
    const payment = await ledger.findPayment(id);
    const submission = payment?.state === 'submitted' ? submissionOf(payment) : undefined;
    if (payment === undefined || submission === undefined || this.isBusy(id)) return false;
    if (transaction === null) {
      await ledger.failPayment(id, 'payment_refused');
      return true;
    }
    const target = { kind: 'credit', account: submission.account } as const;
    return (await this.#post(id, payment, target, { kind: 'settled', transaction })).kind === 'posted';
  }

  /** Whether this process is at it, or holds money for it. */
  isBusy(id: string): boolean {
    return this.#asking.has(id) || this.#unposted.has(id);
  }

  /** Posts what could not be posted before. Resolves with how many now were. */
  async postLate(): Promise<number> {
    let posted = 0;
    for (const posting of this.#unposted.values()) {
      if (await this.#tryPost(posting)) posted++;
    }
    return posted;
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

  async #fail(id: string, outcome: Outcome, reason: string): Promise<Outcome> {
    try {
      await this.deps.ledger.failPayment(id, reason);
      return outcome;
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

  async #post(
    id: string,
    { network, payer }: Pick<Payment, 'network' | 'payer'>,
    target: PaymentTarget,
    settled: Settled,
  ): Promise<Outcome> {
    if (settled.kind === 'unknown') return { kind: 'open' };
    if (settled.kind !== 'settled') return settled;
    const receipt = { success: true, transaction: settled.transaction, network, payer } as const;
    const answer = { receipt, credited: target.kind === 'credit' };
    return (await this.#tryPost({ id, target, answer })) ? { kind: 'posted', answer } : { kind: 'open' };
  }

  /** False when it must be tried later, or when another process has posted the money as credit. */
  async #tryPost(posting: Posting): Promise<boolean> {
    const { answer, id, target } = posting;
    const text = JSON.stringify(answer);
    const { ledger } = this.deps;
    try {
      // Twice at once: a commit whose confirmation was lost is confirmed by its repeat.
      await ledger.settlePayment(id, target, text).catch(() => ledger.settlePayment(id, target, text));
    } catch (error) {
      const lost = error instanceof LedgerError && error.refusal === 'id-reused';
      // Nobody waits for it then: whatever it was to pay, it becomes credit.
      const late = { kind: 'credit', account: target.account } as const;
      if (lost) this.#unposted.delete(id);
      else this.#unposted.set(id, { id, target: late, answer: { ...answer, credited: true } });
      return false;
    }
    this.#unposted.delete(id);
    return true;
  }

  /**
   * One round over the payments that a crash, a lost answer or an absent database left half done. Rounds run in every process
   * of a store and may overlap; one that is under way here is joined. Rejects when the ledger cannot be read.
   */
  recover(): Promise<RecoveryRound> {
    this.#recovering ??= this.#recover().finally(() => (this.#recovering = undefined));
    return this.#recovering;
  }

  /** Whether a payment that another process began may be taken over. */
  isAbandoned({ changedMs, id }: Payment): boolean {
    return changedMs + this.#graceMs <= this.deps.dateMs() && !this.isBusy(id);
  }

  async #recover(): Promise<RecoveryRound> {
    const { dateMs, ledger } = this.deps;
    let posted = await this.postLate();
    const limit = ROUND_PAYMENTS + this.#patience.size;
    const submitted = await ledger.paymentsIn('submitted', limit);
    const due = submitted.filter((payment) => this.isAbandoned(payment) && this.#isTime(payment));
    const ask = pLimit(QUESTIONS_AT_ONCE);
    const asked = due.slice(0, ROUND_QUESTIONS).map((payment) => ask(() => this.#ask(payment)));
    posted += (await Promise.all(asked)).filter(Boolean).length;
    const open = await ledger.paymentsIn('submitted', limit);
    this.#forget(new Set(open.map(({ id }) => id)));
    let expired = 0;
    for (const { id, validUntilMs } of await ledger.paymentsIn('reserved')) {
      if (validUntilMs > dateMs() || this.isBusy(id)) continue;
      await ledger.failPayment(id, 'expired');
      expired++;
    }
    return { posted, open: open.length, expired };
  }

  async #ask(payment: Payment): Promise<boolean> {
    const { waitMs } = this.#patience.get(payment.id) ?? { waitMs: FIRST_WAIT_MS };
    this.#patience.set(payment.id, { nextMs: this.deps.dateMs() + waitMs, waitMs: waitMs * 2 });
    return (await this.askAgain(payment)).kind === 'posted';
  }

  #isTime({ id, validUntilMs }: Payment): boolean {
    const nowMs = this.deps.dateMs();
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

function keyOf({ authorization }: SignedPayment, { asset, chain }: MerchantConfig): PaymentKey {
  const { from, nonce } = authorization;
  return { network: chain.network, asset: asset.address, payer: from, nonce };
}

/** Milliseconds of a date in seconds; dates beyond all calendars end at the last whole one. */
function dateOf(seconds: bigint): number {
  return Number(seconds * 1000n < BigInt(Number.MAX_SAFE_INTEGER) ? seconds * 1000n : Number.MAX_SAFE_INTEGER);
}

/** What was submitted of a payment, undefined before. */
export function submissionOf({ request }: Payment): Submission | undefined {
  return request === null ? undefined : (JSON.parse(request) as Submission);
}

/** What a settled payment answers its repeats with. */
export function answerOf({ answer, state }: Payment): SettledAnswer | undefined {
  return state === 'settled' && answer !== null ? (JSON.parse(answer) as SettledAnswer) : undefined;
}
