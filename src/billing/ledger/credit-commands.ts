// The commands of the ledger that change credit by hand or by date: grants, adjustments, refunds and the expiry of grants. They act
// on the account whose credit pays: the organisation of a member. What is spent of grants that expire is kept as one sum per
// account and taken off the grants here, the first to expire first: charges do not read them.

import { printUsd } from '../money.ts';
import { ADJUSTMENTS, type Book, type Command, GRANTS, REFUNDS } from './book.ts';
import { chargeOf } from './charges.ts';
import { checkAmount, checkDate, isRepeat } from './commands.ts';
import {
  type Account,
  type Adjustment,
  type CreditGrant,
  type Grant,
  LedgerError,
  type Pico,
  type Refund,
} from './ledger.ts';

/** Takes what was spent since they were last changed off the grants, which are in order of expiry. */
export function unspent(grants: readonly CreditGrant[], expiring: Pico): CreditGrant[] {
  let spent = -expiring;
  for (const { remaining } of grants) spent += remaining;
  return grants.map((grant) => {
    const taken = spent < grant.remaining ? spent : grant.remaining;
    spent -= taken;
    return { ...grant, remaining: grant.remaining - taken };
  });
}

/** Brings the grants of an account up to date, and answers with those that are not spent. */
function settleGrants(book: Book, { expiring, id }: Account): CreditGrant[] {
  const grants = unspent(book.grantsOf(id), expiring);
  for (const grant of grants) book.putGrant(grant);
  return grants.filter(({ remaining }) => remaining > 0n);
}

export function grantCommand(grant: Grant): Command<{ repeated: boolean }> {
  const { account, amount, expiresMs, memo = '' } = grant;
  checkAmount(amount, 1n);
  if (expiresMs !== undefined) checkDate(expiresMs);
  const id = `grant:${grant.id}`;
  return {
    needs: { accounts: [account], movements: [id], grants: expiresMs === undefined ? [] : [account] },
    apply(book) {
      const payer = book.payerOf(account);
      if (isRepeat(book, id, payer.id, amount)) return { repeated: true };
      const posted = { id, kind: 'grant', account: payer.id, counter: GRANTS, amount, memo } as const;
      if (expiresMs === undefined) {
        book.post(posted);
      } else {
        if (expiresMs <= book.dateMs) throw new LedgerError('date-invalid', 'The credit would have expired before now');
        // Credit of an account below zero pays its debt first.
        const free = payer.balance + payer.held - payer.expiring;
        const remaining = free >= 0n ? amount : amount + free > 0n ? amount + free : 0n;
        settleGrants(book, payer);
        book.post({ ...posted, expiring: remaining });
        book.putGrant({ id: grant.id, account: payer.id, amount, remaining, expiresMs });
      }
      book.credited(payer.id);
      return { repeated: false };
    },
  };
}

export function adjustCommand(adjustment: Adjustment): Command<{ repeated: boolean }> {
  const { account, amount, memo = '' } = adjustment;
  checkAmount(amount < 0n ? -amount : amount, 1n);
  const id = `adjustment:${adjustment.id}`;
  return {
    needs: { accounts: [account], movements: [id] },
    apply(book) {
      const payer = book.payerOf(account);
      if (isRepeat(book, id, payer.id, amount)) return { repeated: true };
      if (amount < 0n && payer.balance + payer.creditLimit + amount < 0n) throw short(payer, amount);
      book.post({ id, kind: 'adjustment', account: payer.id, counter: ADJUSTMENTS, amount, memo });
      if (amount > 0n) book.credited(payer.id);
      return { repeated: false };
    },
  };
}

function short({ balance, creditLimit, held, id }: Account, amount: Pico): LedgerError {
  const [asked, free, onHold] = [-amount, balance + creditLimit, held].map(printUsd);
  const message = `${asked} USD cannot be taken from account '${id}': ${free} USD are free, ${onHold} USD are on hold`;
  return new LedgerError('credit-short', message);
}

export function refundCommand(refund: Refund): Command<{ repeated: boolean; amount: Pico }> {
  const { account, memo = '' } = refund;
  const id = `refund:${refund.id}`;
  const charge = 'charge' in refund ? refund.charge : undefined;
  if (refund.amount !== undefined) checkAmount(refund.amount, 1n);
  const key = charge === undefined ? undefined : chargeOf(charge, account);
  return {
    needs: {
      accounts: [account],
      movements: [id],
      ...(charge !== undefined && { refunds: [charge] }),
      ...(key !== undefined && { charges: [key] }),
    },
    apply(book) {
      const payer = book.payerOf(account);
      const known = book.movement(id);
      if (known !== undefined) {
        const amount = refund.amount ?? known.amount;
        const same = charge === undefined || book.refundsOf(charge).some((each) => each.id === refund.id);
        if (!same) throw new LedgerError('id-reused', `'${id}' names another refund`);
        return { repeated: isRepeat(book, id, payer.id, amount), amount };
      }
      let { amount } = refund;
      if (charge !== undefined) {
        const charged = key === undefined ? undefined : book.ownCharge(key);
        if (charged === undefined) {
          throw new LedgerError('charge-unknown', `No charge '${charge}' on account '${payer.id}'`);
        }
        amount = refundable(book, charge, charged, amount);
      }
      if (amount === undefined) throw new LedgerError('amount-invalid', 'A refund needs an amount or a charge');
      book.post({ id, kind: 'refund', account: payer.id, counter: REFUNDS, amount, memo });
      if (charge !== undefined) book.putRefund({ id: refund.id, charge, amount });
      book.credited(payer.id);
      return { repeated: false, amount };
    },
  };
}

/** The amount that is asked for, or all that was not given back of the charge. */
function refundable(book: Book, charge: string, charged: Pico, asked: Pico | undefined): Pico {
  let left = charged;
  for (const { amount } of book.refundsOf(charge)) left -= amount;
  const amount = asked ?? left;
  if (amount <= left && amount > 0n) return amount;
  throw new LedgerError('amount-invalid', `${printUsd(left)} USD of charge '${charge}' can be given back`);
}

/** Takes back what is unspent and not on hold of grants of the account that have expired; answers with how much. */
export function expireGrantsCommand(account: string): Command<Pico> {
  return {
    needs: { accounts: [account], grants: [account] },
    apply(book) {
      let total = 0n;
      for (const grant of settleGrants(book, book.account(account))) {
        const { balance } = book.account(account);
        if (grant.expiresMs > book.dateMs || balance <= 0n) break;
        const taken = balance < grant.remaining ? balance : grant.remaining;
        const remaining = grant.remaining - taken;
        // What is left differs at each round.
        const id = `expiry:${grant.id}:${remaining}`;
        book.post({ id, kind: 'expiry', account, counter: GRANTS, amount: -taken, expiring: -taken });
        book.putGrant({ ...grant, remaining });
        total += taken;
      }
      return total;
    },
  };
}
