// Commands on signed payments. A nonce is taken once; money that arrived is booked in the commit that keeps the answer;
// nothing leads away from `settled`. Called by the ledger.

import type { Book, Command } from './book.ts';
import { carry, checkAmount, checkDate, paidOn, paymentId, REVENUE, spendable } from './entries.ts';
import { checkUsage, isRepeat } from './movements.ts';
import { LedgerError, type Payment, type PaymentRequest, type PaymentTarget, type ReserveAnswer } from './store.ts';

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
        throw new LedgerError('payment-settled', `Payment '${id}' has ${payment.state} before`);
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
      const worth = target.kind === 'credit' ? payment.amount : 0n;
      if (isRepeat(book, movement, account, worth)) return { repeated: true };
      const to = target.kind === 'credit' ? spendable(account) : REVENUE;
      const entries = carry(paidOn(payment.network), to, payment.amount);
      const charge = target.kind === 'charge' ? { usage: target.usage, charged: payment.amount } : {};
      book.post({ id: movement, kind: 'payment', account, entries, memo: payment.purpose, ...charge });
      book.putPayment({ ...payment, state: 'settled', answer, changedMs: book.dateMs });
      if (target.kind === 'credit') book.credited(account);
      return { repeated: false };
    },
  };
}

export function failCommand(id: string, reason: string): Command<void> {
  return {
    needs: { payments: [id] },
    apply(book) {
      const payment = requirePayment(book, id);
      if (payment.state === 'settled') throw new LedgerError('payment-settled', `Payment '${id}' has settled before`);
      book.putPayment({ ...payment, state: 'failed', answer: reason, changedMs: book.dateMs });
    },
  };
}
