// Commands that move credit: grants, holds, leases, charges. Each is a pure step on the book, named by an id that makes
// its repeat harmless. Called by the ledger.

import type { Book, Command } from './book.ts';
import { type Entry, carry, checkAmount, checkDate, GRANTS, REVENUE, setAside, spendable } from './entries.ts';
import {
  type Grant,
  type HoldAnswer,
  type HoldRequest,
  LedgerError,
  type Pico,
  type HoldSettlement,
  type Usage,
} from './store.ts';
import type { StoredHold } from './tables.ts';

/** Whether a movement is there already; an id that served another account or amount is refused. */
export function isRepeat(book: Book, id: string, account: string, amount: Pico): boolean {
  const known = book.movement(id);
  if (known === undefined) return false;
  if (known.account === account && known.amount === amount) return true;
  throw new LedgerError('id-reused', `'${id}' names a movement of ${known.amount} on account '${known.account}'`);
}

export function grantCommand(grant: Grant): Command<{ repeated: boolean }> {
  checkAmount(grant.amount, 1n);
  const id = `grant:${grant.id}`;
  return {
    needs: { accounts: [grant.account], movements: [id] },
    apply(book) {
      if (isRepeat(book, id, grant.account, grant.amount)) return { repeated: true };
      const entries = carry(GRANTS, spendable(grant.account), grant.amount);
      book.post({ id, kind: 'grant', account: grant.account, entries, memo: grant.memo ?? '' });
      book.credited(grant.account);
      return { repeated: false };
    },
  };
}

export function holdCommand(kind: 'hold' | 'lease', request: HoldRequest): Command<HoldAnswer> {
  checkAmount(request.amount, kind === 'hold' ? 0n : 1n);
  checkDate(request.expiresMs);
  const { id, account, holder, expiresMs } = request;
  return {
    needs: { accounts: [account], holds: [id] },
    apply(book) {
      const known = book.hold(id);
      if (known !== undefined) return repeatedHold(known, kind, request);
      const { balance } = book.account(account);
      const amount = kind === 'lease' && balance < request.amount ? balance : request.amount;
      if (balance < amount || (kind === 'lease' && amount <= 0n)) return { kind: 'short', balance };
      book.post({
        id: `hold:${id}`,
        kind: 'hold',
        account,
        entries: carry(spendable(account), setAside(account), amount),
      });
      book.putHold({ id, kind, account, holder, amount, spent: 0n, state: 'open', expiresMs });
      return { kind: 'held', amount, repeated: false };
    },
  };
}

function repeatedHold(known: StoredHold, kind: StoredHold['kind'], request: HoldRequest): HoldAnswer {
  // A lease may have got less than was asked for.
  const same = kind === 'hold' ? known.amount === request.amount : known.amount <= request.amount;
  if (known.kind !== kind || known.account !== request.account || !same) {
    throw new LedgerError('id-reused', `'${known.id}' names a ${known.kind} of ${known.amount} on '${known.account}'`);
  }
  if (known.state === 'closed') throw new LedgerError('hold-closed', `'${known.id}' was closed`);
  return { kind: 'held', amount: known.amount, repeated: true };
}

/** Adds to an open lease, or takes back from it when `amount` is negative. Answers with what moved. */
export function resizeCommand(lease: string, id: string, amount: Pico): Command<HoldAnswer> {
  checkAmount(amount < 0n ? -amount : amount, 1n);
  const movement = `hold:${lease}:${id}`;
  return {
    needs: { holds: [lease], movements: [movement] },
    apply(book) {
      const hold = requireHold(book, lease, 'lease');
      if (hold.state === 'closed') throw new LedgerError('hold-closed', `'${lease}' was closed`);
      if (book.movement(movement) !== undefined) throw new LedgerError('id-reused', `'${movement}' was used before`);
      const { balance } = book.account(hold.account);
      const least = hold.spent - hold.amount;
      const moved = amount < 0n ? (amount < least ? least : amount) : amount < balance ? amount : balance;
      if (amount > 0n && moved <= 0n) return { kind: 'short', balance };
      const entries = carry(spendable(hold.account), setAside(hold.account), moved);
      book.post({ id: movement, kind: amount > 0n ? 'hold' : 'release', account: hold.account, entries });
      book.putHold({ ...hold, amount: hold.amount + moved });
      return { kind: 'held', amount: moved, repeated: false };
    },
  };
}

/** Charges an account that pays later. */
export function debitCommand(account: string, charge: string, amount: Pico, usage: Usage): Command<HoldSettlement> {
  checkAmount(amount, 0n);
  checkUsage(usage);
  const id = `settle:${charge}`;
  return {
    needs: { newAccounts: [account], movements: [id] },
    apply(book) {
      if (isRepeat(book, id, account, -amount)) return { late: false, repeated: true };
      const entries = carry(spendable(account), REVENUE, amount);
      book.post({ id, kind: 'settle', account, entries, usage, charged: amount });
      return { late: false, repeated: false };
    },
  };
}

/** One charge against a hold or lease; `close` gives the rest back. */
export interface Charge {
  readonly kind: StoredHold['kind'];
  readonly hold: string;
  /** Names the charge. A hold has one, named like itself. */
  readonly id: string;
  readonly amount: Pico;
  readonly usage: Usage;
}

export function chargeCommand(charge: Charge): Command<HoldSettlement> {
  checkAmount(charge.amount, 0n);
  checkUsage(charge.usage);
  const id = `settle:${charge.id}`;
  return {
    needs: { holds: [charge.hold], movements: [id] },
    apply(book) {
      const hold = requireHold(book, charge.hold, charge.kind);
      if (isRepeat(book, id, hold.account, -charge.amount)) return { late: false, repeated: true };
      const late = hold.state === 'closed';
      const left = late ? 0n : hold.amount - hold.spent;
      const fromHold = charge.amount < left ? charge.amount : left;
      const back = charge.kind === 'hold' ? left - fromHold : 0n;
      const entries: Entry[] = [
        ...carry(setAside(hold.account), REVENUE, fromHold),
        ...carry(spendable(hold.account), REVENUE, charge.amount - fromHold),
        ...carry(setAside(hold.account), spendable(hold.account), back),
      ];
      book.post({ id, kind: 'settle', account: hold.account, entries, usage: charge.usage, charged: charge.amount });
      const state = charge.kind === 'hold' ? 'closed' : hold.state;
      if (!late) book.putHold({ ...hold, spent: hold.spent + fromHold, state });
      return { late, repeated: false };
    },
  };
}

function requireHold(book: Book, id: string, kind: StoredHold['kind']): StoredHold {
  const hold = book.hold(id);
  if (hold?.kind === kind) return hold;
  throw new LedgerError('hold-unknown', `No ${kind} '${id}'`);
}

/** Refuses counts that are no counts, before they meet others in a commit. */
export function checkUsage(usage: Usage): void {
  for (const count of [usage.inputTokens, usage.cachedTokens, usage.outputTokens, usage.requests ?? 1]) {
    if (!Number.isSafeInteger(count) || count < 0) throw new LedgerError('amount-invalid', `${count} is no count`);
  }
}

/** Gives back what is left; with `expiredBy`, only when it has expired by then. */
export function releaseCommand(holdId: string, expiredBy: number = Infinity): Command<boolean> {
  return {
    needs: { holds: [holdId] },
    apply(book) {
      const hold = book.hold(holdId);
      if (hold === undefined) throw new LedgerError('hold-unknown', `No hold or lease '${holdId}'`);
      if (hold.state === 'closed' || hold.expiresMs > expiredBy) return false;
      const { account } = hold;
      const entries = carry(setAside(account), spendable(account), hold.amount - hold.spent);
      book.post({ id: `release:${holdId}`, kind: 'release', account, entries });
      book.putHold({ ...hold, state: 'closed' });
      return true;
    },
  };
}
