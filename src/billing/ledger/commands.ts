// The commands of the ledger on holds, leases, charges and signed payments. Each is a pure step on the book, named by an
// id that makes its repeat harmless. A payment's nonce is reserved once, and nothing leads away from `settled`.

import { type Book, type Command, paidOn, REVENUE } from './book.ts';
import {
  type Charge,
  type HoldAnswer,
  type HoldRequest,
  type HoldSettlement,
  LedgerError,
  MAX_AMOUNT,
  type Payment,
  type PaymentKey,
  type PaymentRequest,
  type PaymentTarget,
  type Pico,
  type ReserveAnswer,
  type Usage,
} from './store.ts';
import type { StoredHold } from './tables.ts';

/** Refuses amounts that no movement carries. */
export function checkAmount(amount: Pico, lowest: Pico): void {
  if (amount >= lowest && amount <= MAX_AMOUNT) return;
  throw new LedgerError('amount-invalid', `An amount of ${amount} pico-USD is not between ${lowest} and ${MAX_AMOUNT}`);
}

/** Refuses dates that are no whole milliseconds. */
export function checkDate(dateMs: number): void {
  if (!Number.isSafeInteger(dateMs)) throw new LedgerError('date-invalid', `${dateMs} is not a date`);
}

/** Refuses what is not a count. */
function checkUsage(usage: Usage): void {
  for (const count of [usage.inputTokens, usage.cachedTokens, usage.outputTokens, usage.requests ?? 1]) {
    if (!Number.isSafeInteger(count) || count < 0) throw new LedgerError('amount-invalid', `${count} is not a count`);
  }
}

/** The id of a payment. Addresses and nonces are hexadecimal, in either case. */
export function paymentId(key: PaymentKey): string {
  return [key.network, key.asset, key.payer, key.nonce].join('|').toLowerCase();
}

/** Whether the movement was posted before. An id that was used for another account or amount is refused. */
export function isRepeat(book: Book, id: string, account: string, amount: Pico): boolean {
  const known = book.movement(id);
  if (known === undefined) return false;
  if (known.account === account && known.amount === amount) return true;
  throw new LedgerError('id-reused', `'${id}' names a movement of ${known.amount} on account '${known.account}'`);
}

export function holdCommand(kind: 'hold' | 'lease', request: HoldRequest): Command<HoldAnswer> {
  checkAmount(request.amount, kind === 'hold' ? 0n : 1n);
  checkDate(request.expiresMs);
  const { id, account, holder, expiresMs } = request;
  return {
    needs: { accounts: [account], holds: [id] },
    apply(book) {
      const known = book.hold(id);
      if (known !== undefined) return repeatedHold(known, kind, { ...request, account: book.payerOf(account).id });
      const payer = book.payerOf(account);
      const free = payer.balance + payer.creditLimit;
      const amount = kind === 'lease' && free < request.amount ? free : request.amount;
      if (free < amount || (kind === 'lease' && amount <= 0n)) return { kind: 'short', balance: free };
      book.post({ id: `hold:${id}`, kind: 'hold', account: payer.id, balance: -amount, held: amount });
      book.putHold({ id, kind, account: payer.id, holder, amount, spent: 0n, state: 'open', expiresMs });
      return { kind: 'held', amount, repeated: false };
    },
  };
}

function repeatedHold(known: StoredHold, kind: StoredHold['kind'], request: HoldRequest): HoldAnswer {
  // A lease may hold less than was asked for.
  const same = kind === 'hold' ? known.amount === request.amount : known.amount <= request.amount;
  if (known.kind !== kind || known.account !== request.account || !same) {
    throw new LedgerError('id-reused', `'${known.id}' names a ${known.kind} of ${known.amount} on '${known.account}'`);
  }
  if (known.state === 'closed') throw new LedgerError('hold-closed', `'${known.id}' was closed`);
  return { kind: 'held', amount: known.amount, repeated: true };
}

/**
 * Adds to an open lease, or takes back from it when `amount` is negative. Answers with what moved. `wanted`: watchers are told
 * of the account.
 */
export function resizeCommand(lease: string, id: string, amount: Pico, wanted = false): Command<HoldAnswer> {
  checkAmount(amount < 0n ? -amount : amount, 1n);
  const movement = `hold:${lease}:${id}`;
  return {
    needs: { holds: [lease], movements: [movement] },
    apply(book) {
      const hold = requireHold(book, lease, 'lease');
      if (hold.state === 'closed') throw new LedgerError('hold-closed', `'${lease}' was closed`);
      if (book.movement(movement) !== undefined) throw new LedgerError('id-reused', `'${movement}' was used before`);
      const { balance, creditLimit } = book.account(hold.account);
      const free = balance + creditLimit;
      const least = hold.spent - hold.amount;
      const moved = amount < 0n ? (amount < least ? least : amount) : amount < free ? amount : free;
      if (amount > 0n && moved <= 0n) return { kind: 'short', balance: free };
      const kind = amount > 0n ? 'hold' : 'release';
      book.post({ id: movement, kind, account: hold.account, balance: -moved, held: moved });
      book.putHold({ ...hold, amount: hold.amount + moved });
      if (wanted) book.credited(hold.account);
      return { kind: 'held', amount: moved, repeated: false };
    },
  };
}

/** Charges a hold and gives the rest of it back. */
export function settleCommand(holdId: string, amount: Pico, usage: Usage): Command<HoldSettlement> {
  const id = `settle:${holdId}`;
  return {
    needs: { holds: [holdId], movements: [id] },
    apply: (book) => chargeHold(book, { kind: 'hold', hold: holdId, id, amount, usage }),
  };
}

/** Charges a lease, or an account that pays later. */
export function chargeCommand(charge: Charge): Command<HoldSettlement> {
  const { amount, usage } = charge;
  const id = `settle:${charge.id}`;
  if ('lease' in charge) {
    const { lease } = charge;
    return {
      needs: { holds: [lease], movements: [id] },
      apply: (book) => chargeHold(book, { kind: 'lease', hold: lease, id, amount, usage }),
    };
  }
  const { account } = charge;
  return {
    needs: { newAccounts: [account], movements: [id] },
    apply(book) {
      checkAmount(amount, 0n);
      checkUsage(usage);
      const payer = book.payerOf(account);
      if (isRepeat(book, id, payer.id, -amount)) return { late: false, repeated: true };
      const operator = [{ account: REVENUE, amount }];
      const used = payer.id === account ? usage : { ...usage, account };
      book.post({ id, kind: 'settle', account: payer.id, balance: -amount, operator, usage: used, charged: amount });
      return { late: false, repeated: false };
    },
  };
}

interface HoldCharge {
  readonly kind: StoredHold['kind'];
  readonly hold: string;
  /** Of the movement. */
  readonly id: string;
  readonly amount: Pico;
  readonly usage: Usage;
}

/** Takes the amount from the hold as far as it reaches, the rest from the balance. A lease stays open. */
function chargeHold(book: Book, { amount, hold: holdId, id, kind, usage }: HoldCharge): HoldSettlement {
  checkAmount(amount, 0n);
  checkUsage(usage);
  const hold = requireHold(book, holdId, kind);
  const { account } = hold;
  if (isRepeat(book, id, account, -amount)) return { late: false, repeated: true };
  const late = hold.state === 'closed';
  const left = late ? 0n : hold.amount - hold.spent;
  const fromHold = amount < left ? amount : left;
  const closes = hold.kind === 'hold' && !late;
  const held = closes ? -left : -fromHold;
  const operator = [{ account: REVENUE, amount }];
  book.post({ id, kind: 'settle', account, balance: -amount - held, held, operator, usage, charged: amount });
  if (!late) book.putHold({ ...hold, spent: hold.spent + fromHold, state: closes ? 'closed' : hold.state });
  return { late, repeated: false };
}

function requireHold(book: Book, id: string, kind: StoredHold['kind']): StoredHold {
  const hold = book.hold(id);
  if (hold?.kind === kind) return hold;
  throw new LedgerError('hold-unknown', `No ${kind} '${id}'`);
}

/** Gives back what is left; with `expiredBy`, only when it has expired by then. */
export function releaseCommand(holdId: string, expiredBy: number = Infinity): Command<boolean> {
  return {
    needs: { holds: [holdId] },
    apply(book) {
      const hold = book.hold(holdId);
      if (hold === undefined) throw new LedgerError('hold-unknown', `No hold or lease '${holdId}'`);
      if (hold.state === 'closed' || hold.expiresMs > expiredBy) return false;
      const left = hold.amount - hold.spent;
      book.post({ id: `release:${holdId}`, kind: 'release', account: hold.account, balance: left, held: -left });
      book.putHold({ ...hold, state: 'closed' });
      return true;
    },
  };
}

export function reserveCommand(request: PaymentRequest): Command<ReserveAnswer> {
  checkAmount(request.amount, 0n);
  checkDate(request.validUntilMs);
  const id = paymentId(request);
  const { network, asset, payer, nonce, purpose, amount, validUntilMs } = request;
  return {
    needs: { payments: [id] },
    apply(book) {
      const payment = book.payment(id);
      if (payment !== undefined) return { kind: 'taken', payment };
      const given = { id, network, asset, payer, nonce, purpose, amount, validUntilMs };
      book.putPayment({ ...given, state: 'reserved', request: null, answer: null, changedMs: book.dateMs });
      return { kind: 'reserved', id };
    },
  };
}

function requirePayment(book: Book, id: string): Payment {
  const payment = book.payment(id);
  if (payment === undefined) throw new LedgerError('payment-unknown', `No payment '${id}'`);
  return payment;
}

export function submitCommand(id: string, request: string): Command<void> {
  return {
    needs: { payments: [id] },
    apply(book) {
      const payment = requirePayment(book, id);
      if (payment.state === 'settled' || payment.state === 'failed') {
        throw new LedgerError('payment-settled', `Payment '${id}' is ${payment.state}`);
      }
      book.putPayment({ ...payment, state: 'submitted', request, changedMs: book.dateMs });
    },
  };
}

export function settlePaymentCommand(
  id: string,
  target: PaymentTarget,
  answer: string,
): Command<{ repeated: boolean }> {
  const { account } = target;
  const movement = `payment:${id}`;
  if (target.kind === 'charge') checkUsage(target.usage);
  return {
    needs: { payments: [id], movements: [movement], newAccounts: [account] },
    apply(book) {
      const payment = requirePayment(book, id);
      const { amount, purpose: memo } = payment;
      const credit = target.kind === 'credit' ? amount : 0n;
      const payer = target.kind === 'credit' ? book.payerOf(account).id : account;
      if (isRepeat(book, movement, payer, credit)) return { repeated: true };
      const source = { account: paidOn(payment.network), amount: -amount };
      const posted = { id: movement, kind: 'payment', account: payer, memo } as const;
      if (target.kind === 'credit') book.post({ ...posted, balance: amount, operator: [source] });
      else {
        const operator = [source, { account: REVENUE, amount }];
        book.post({ ...posted, operator, usage: target.usage, charged: amount });
      }
      book.putPayment({ ...payment, state: 'settled', answer, changedMs: book.dateMs });
      if (target.kind === 'credit') book.credited(payer);
      return { repeated: false };
    },
  };
}

export function failCommand(id: string, reason: string): Command<void> {
  return {
    needs: { payments: [id] },
    apply(book) {
      const payment = requirePayment(book, id);
      if (payment.state === 'settled') throw new LedgerError('payment-settled', `Payment '${id}' is settled`);
      book.putPayment({ ...payment, state: 'failed', answer: reason, changedMs: book.dateMs });
    },
  };
}
