// The commands of the ledger that change credit by hand or by date: grants, adjustments, refunds and the expiry of grants. They act
// on the account whose credit pays: the organisation of a member. What is spent of grants that expire is kept as one sum per
// account and taken off the grants here, the first to expire first: charges do not read them.

import { printUsd } from '../money.ts';
import { ADJUSTMENTS, type Book, type ChargeRefund, type Command, GRANTS, REFUNDS } from './book.ts';
import { chargeOf } from './charges.ts';
import { checkAmount, checkDate, isRepeat } from './commands.ts';
import {
  type Account,
  type Adjustment,
  type CreditGrant,
  type Grant,
  LedgerError,
  type Moved,
  type Pico,
  type Refund,
} from './ledger.ts';

/** Charges that a refusal names. */
const SHOWN = 3;

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

export function grantCommand(grant: Grant): Command<Moved> {
  const { account, amount, expiresMs, memo = '' } = grant;
  checkAmount(amount, 1n);
  if (expiresMs !== undefined) checkDate(expiresMs);
  const id = `grant:${grant.id}`;
  return {
    needs: { accounts: [account], movements: [id], grants: expiresMs === undefined ? [] : [account] },
    apply(book) {
      const payer = book.payerOf(account);
      if (isRepeat(book, id, payer.id, amount)) return { repeated: true, balance: payer.balance };
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
      return { repeated: false, balance: book.account(payer.id).balance };
    },
  };
}

export function adjustCommand(adjustment: Adjustment): Command<Moved> {
  const { account, amount, memo = '' } = adjustment;
  checkAmount(amount < 0n ? -amount : amount, 1n);
  const id = `adjustment:${adjustment.id}`;
  return {
    needs: { accounts: [account], movements: [id] },
    apply(book) {
      const payer = book.payerOf(account);
      if (isRepeat(book, id, payer.id, amount)) return { repeated: true, balance: payer.balance };
      if (amount < 0n && payer.balance + payer.creditLimit + amount < 0n) throw short(payer, amount);
      book.post({ id, kind: 'adjustment', account: payer.id, counter: ADJUSTMENTS, amount, memo });
      if (amount > 0n) book.credited(payer.id);
      return { repeated: false, balance: book.account(payer.id).balance };
    },
  };
}

function short({ balance, creditLimit, held, id }: Account, amount: Pico): LedgerError {
  const [asked, free, onHold] = [-amount, balance + creditLimit, held].map(printUsd);
  const message = `${asked} USD cannot be taken from account '${id}': ${free} USD are free, ${onHold} USD are on hold`;
  return new LedgerError('credit-short', message);
}

export function refundCommand(refund: Refund): Command<Moved & { amount: Pico }> {
  const { account, memo = '' } = refund;
  const id = `refund:${refund.id}`;
  const charges = 'charges' in refund ? refund.charges : [];
  if (refund.amount !== undefined) checkAmount(refund.amount, 1n);
  const keys = charges.map((charge) => chargeOf(charge, account));
  return {
    needs: {
      accounts: [account],
      movements: [id],
      refunds: charges,
      charges: keys.filter((key) => key !== undefined),
    },
    apply(book) {
      const payer = book.payerOf(account);
      const known = book.movement(id);
      if (known !== undefined) {
        const amount = refund.amount ?? known.amount;
        const refunded = charges.flatMap((charge) => book.refundsOf(charge));
        const same = charges.length === 0 || refunded.some((each) => each.id === refund.id);
        if (!same) throw new LedgerError('id-reused', `'${id}' names another refund`);
        return { repeated: isRepeat(book, id, payer.id, amount), amount, balance: payer.balance };
      }
      let { amount } = refund;
      let parts: readonly Omit<ChargeRefund, 'id'>[] = [];
      if (charges.length > 0) {
        const charged = charges.map((charge, at) => {
          const key = keys[at];
          const paid = key === undefined ? undefined : book.ownCharge(key);
          if (paid !== undefined) return [charge, paid] as const;
          throw new LedgerError('charge-unknown', `No charge '${charge}' on account '${payer.id}'`);
        });
        parts = refundable(book, charged, amount);
        amount = parts.reduce((sum, part) => sum + part.amount, 0n);
      }
      if (amount === undefined) throw new LedgerError('amount-invalid', 'A refund needs an amount or a charge');
      book.post({ id, kind: 'refund', account: payer.id, counter: REFUNDS, amount, memo });
      // Ids of refunds have no blanks.
      for (const [at, part] of parts.entries()) {
        book.putRefund({ ...part, id: at === 0 ? refund.id : `${refund.id} ${at + 1}` });
      }
      book.credited(payer.id);
      return { repeated: false, amount, balance: book.account(payer.id).balance };
    },
  };
}

/** What of each charge is given back: the amount that is asked for, or all that was not given back of them. */
function refundable(
  book: Book,
  charged: readonly (readonly [charge: string, amount: Pico])[],
  asked: Pico | undefined,
): Omit<ChargeRefund, 'id'>[] {
  const parts: Omit<ChargeRefund, 'id'>[] = [];
  let [free, sum] = [0n, 0n];
  for (const [charge, total] of charged) {
    let left = total;
    for (const refund of book.refundsOf(charge)) left -= refund.amount;
    free += left;
    const amount = asked === undefined || left < asked - sum ? left : asked - sum;
    if (amount > 0n) parts.push({ charge, amount });
    sum += amount;
  }
  if (sum > 0n && sum === (asked ?? free)) return parts;
  const of = charged.map(([charge]) => `'${charge}'`).slice(0, SHOWN);
  const more = charged.length > SHOWN ? ` and ${charged.length - SHOWN} more` : '';
  const message = `${printUsd(free)} USD of charge ${of.join(', ')}${more} can be given back`;
  throw new LedgerError('amount-invalid', message);
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
