// The commands of the ledger on holds, leases, charges and signed payments. Each is a pure step on the book, named by an
// id that makes its repeat harmless. A payment's nonce is reserved once, and nothing leads away from `settled`.

import { printUsd } from '../money.ts';
import { type Book, type Command, paidOn } from './book.ts';
import { chargeNumber } from './charges.ts';
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
  type StoredHold,
  type Usage,
} from './ledger.ts';

/** Refuses amounts that no movement carries. */
export function checkAmount(amount: Pico, lowest: Pico): void {
  if (amount >= lowest && amount <= MAX_AMOUNT) return;
  const [asked, least, most] = [amount, lowest, MAX_AMOUNT].map(printUsd);
  throw new LedgerError('amount-invalid', `An amount of ${asked} USD is not between ${least} and ${most}`);
}

/** 9999-12-31T23:59:59.999Z. */
const LAST_MS = 253_402_300_799_999;

/** Whether a number is whole milliseconds between 1970 and 9999. */
export function isDate(dateMs: number): boolean {
  return Number.isSafeInteger(dateMs) && dateMs >= 0 && dateMs <= LAST_MS;
}

/** Refuses what is no date, and no such time to live. */
export function checkDate(dateMs: number): void {
  if (isDate(dateMs)) return;
  throw new LedgerError('date-invalid', `${dateMs} is not a date`);
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
  const moved = printUsd(known.amount);
  throw new LedgerError(
    'id-reused',
    `'${id}' names a movement of ${moved} USD on account '${known.account}'; for another one take another id`,
  );
}

export function holdCommand(kind: 'hold' | 'lease', request: HoldRequest): Command<HoldAnswer> {
  checkAmount(request.amount, kind === 'hold' ? 0n : 1n);
  checkDate(request.ttlMs);
  const { id, account, holder, ttlMs } = request;
  return {
    needs: { accounts: [account], holds: [id], clock: true },
    apply(book) {
      const known = book.hold(id);
      if (known !== undefined) return repeatedHold(known, kind, { ...request, account: book.payerOf(account).id });
      const payer = book.payerOf(account);
      const free = payer.balance + payer.creditLimit;
      const amount = kind === 'lease' && free < request.amount ? free : request.amount;
      if (free < amount || (kind === 'lease' && amount <= 0n)) return { kind: 'short', balance: free };
      book.reserve(payer.id, amount);
      const made = { id, kind, account: payer.id, holder, expiresMs: book.clockMs + ttlMs, state: 'open' } as const;
      book.putHold({ ...made, amount, spent: 0n, operation: 0n, charged: null });
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

/** Adds to an open lease, or takes back from it when `amount` is negative. Answers with what moved. */
export function resizeCommand(lease: string, operation: number, amount: Pico): Command<HoldAnswer> {
  checkAmount(amount < 0n ? -amount : amount, 1n);
  const number = BigInt(operation);
  // A commit whose outcome was lost runs again: then this is what the first one answered.
  let answered: HoldAnswer | undefined;
  return {
    needs: { holds: [lease] },
    apply(book) {
      const hold = requireHold(book, lease, 'lease');
      if (hold.operation >= number) {
        if (answered !== undefined) return answered;
        throw new LedgerError('id-reused', `Operation ${operation} on lease '${lease}' comes after ${hold.operation}`);
      }
      if (hold.state === 'closed') throw new LedgerError('hold-closed', `'${lease}' was closed`);
      const { balance, creditLimit } = book.account(hold.account);
      const free = balance + creditLimit;
      const least = hold.spent - hold.amount;
      const moved = amount < 0n ? (amount < least ? least : amount) : amount < free ? amount : free;
      if (amount > 0n && moved <= 0n) return { kind: 'short', balance: free };
      book.reserve(hold.account, moved);
      book.putHold({ ...hold, amount: hold.amount + moved, operation: number });
      answered = { kind: 'held', amount: moved, repeated: false };
      return answered;
    },
  };
}

/** Charges a hold and gives the rest of it back. */
export function settleCommand(holdId: string, amount: Pico, usage: Usage, dateMs: number): Command<HoldSettlement> {
  checkAmount(amount, 0n);
  checkUsage(usage);
  return {
    needs: { holds: [holdId], dates: [dateMs], names: namesIn(usage) },
    apply(book) {
      const hold = requireHold(book, holdId, 'hold');
      const { account } = hold;
      if (hold.charged === amount) return { late: false, repeated: true };
      if (hold.charged !== null) {
        throw new LedgerError('id-reused', `Hold '${holdId}' was settled with ${hold.charged}, not with ${amount}`);
      }
      const late = hold.state === 'closed';
      const left = late ? 0n : hold.amount;
      const spent = amount < left ? amount : left;
      const number = chargeNumber(`settle:${holdId}`);
      book.charge({ number, payer: account, account, amount, usage, dateMs }, left);
      book.putHold({ ...hold, spent, state: 'closed', charged: amount });
      return { late, repeated: false };
    },
  };
}

/** Charges a lease as far as it reaches, and the balance with the rest. A lease stays open. */
export function chargeCommand(charge: Charge): Command<HoldSettlement> {
  const { account, amount, dateMs, lease, usage } = charge;
  try {
    checkAmount(amount, 0n);
    checkDate(dateMs);
    checkUsage(usage);
  } catch (error) {
    // The other charges of its batch are good.
    return {
      needs: {},
      apply() {
        throw error;
      },
    };
  }
  const key = { account, dateMs, number: chargeNumber(charge.id), ...(lease !== undefined && { lease }) };
  return {
    needs: {
      newAccounts: [account],
      holds: lease === undefined ? [] : [lease],
      charges: [key],
      dates: [dateMs],
      names: namesIn(usage),
    },
    apply(book) {
      const known = book.knownCharge(key);
      if (known === amount) return { late: false, repeated: true };
      if (known !== undefined) {
        throw new LedgerError('id-reused', `'${charge.id}' names a charge of ${known} on account '${account}'`);
      }
      const found = lease === undefined ? undefined : book.hold(lease);
      // A lease that is unknown was made before the store fell back to an older state: the charge is due all the same.
      const open = found?.kind === 'lease' && found.state === 'open' ? found : undefined;
      const left = open === undefined ? 0n : open.amount - open.spent;
      const spent = amount < left ? amount : left;
      book.charge({ ...key, amount, usage, payer: book.payerOfCharge(key).id }, spent);
      if (open !== undefined) book.putHold({ ...open, spent: open.spent + spent });
      return { late: lease !== undefined && open === undefined, repeated: false };
    },
  };
}

function namesIn({ key, model, price }: Usage): string[] {
  return [key, model, price].filter((name) => typeof name === 'string');
}

function requireHold(book: Book, id: string, kind: StoredHold['kind']): StoredHold {
  const hold = book.hold(id);
  if (hold?.kind === kind) return hold;
  throw new LedgerError('hold-unknown', `No ${kind} '${id}'`);
}

/** Gives back what is left; with `onlyExpired`, when it has expired by the database's clock. */
export function releaseCommand(holdId: string, onlyExpired = false): Command<boolean> {
  return {
    needs: { holds: [holdId], clock: onlyExpired },
    apply(book) {
      const hold = book.hold(holdId);
      if (hold === undefined) throw new LedgerError('hold-unknown', `No hold or lease '${holdId}'`);
      if (hold.state === 'closed' || (onlyExpired && hold.expiresMs > book.clockMs)) return false;
      book.reserve(hold.account, hold.spent - hold.amount);
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
  dateMs: number,
): Command<{ repeated: boolean }> {
  const { account } = target;
  const movement = `payment:${id}`;
  const usage = target.kind === 'charge' ? target.usage : undefined;
  if (usage !== undefined) checkUsage(usage);
  return {
    needs: {
      payments: [id],
      movements: [movement],
      newAccounts: [account],
      ...(usage !== undefined && { dates: [dateMs], names: namesIn(usage) }),
    },
    apply(book) {
      const payment = requirePayment(book, id);
      const { amount, purpose: memo } = payment;
      const charge = target.kind === 'charge' ? (target.amount ?? amount) : 0n;
      const owner = book.payerOf(account).id;
      if (usage !== undefined && book.movement(movement)?.account === owner && payment.answer !== answer) {
        // Another process took the payment for abandoned and made it credit: the work costs what is left of that.
        const { balance } = book.account(owner);
        const charged = least(balance > 0n ? balance : 0n, least(amount, charge));
        book.charge({ number: chargeNumber(movement), payer: owner, account, amount: charged, usage, dateMs });
        book.putPayment({ ...payment, answer, changedMs: book.dateMs });
        return { repeated: true };
      }
      if (isRepeat(book, movement, owner, amount)) return { repeated: true };
      const charged = least(amount, charge);
      // What is charged would be taken of credit that expires, and leave credit that does not.
      const posted = { account: owner, counter: paidOn(payment.network), amount, expiring: charged, memo };
      book.post({ ...posted, id: movement, kind: 'payment' });
      if (usage !== undefined)
        book.charge({ number: chargeNumber(movement), payer: owner, account, amount: charged, usage, dateMs });
      if (charged < amount) book.credited(owner);
      book.putPayment({ ...payment, state: 'settled', answer, changedMs: book.dateMs });
      return { repeated: false };
    },
  };
}

function least(a: Pico, b: Pico): Pico {
  return a < b ? a : b;
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

export function expireCommand(id: string): Command<boolean> {
  return {
    needs: { payments: [id] },
    apply(book) {
      const payment = requirePayment(book, id);
      if (payment.state !== 'reserved') return false;
      book.putPayment({ ...payment, state: 'failed', answer: 'expired', changedMs: book.dateMs });
      return true;
    },
  };
}
