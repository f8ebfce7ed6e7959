// Double entry: how ledger accounts are named and how movements are put together. Called by the commands and by the
// audit. A movement's entries add up to zero; an entry of zero is not written.

import { LedgerError, MAX_AMOUNT, type PaymentKey, type Pico } from './store.ts';

/** Income of the house. Like the sources it may be large without limit, has no floor and so no balance row. */
export const REVENUE = 'revenue';

/** Where granted credit comes from. */
export const GRANTS = 'source:grant';

/** Where paid credit comes from. */
export function paidOn(network: string): string {
  return `source:x402:${network}`;
}

/** What a customer may spend. */
export function spendable(account: string): string {
  return `customer:${account}`;
}

/** What a customer's open holds and leases keep aside. */
export function setAside(account: string): string {
  return `held:${account}`;
}

export interface Entry {
  readonly account: string;
  readonly amount: Pico;
}

/** Entries that carry `amount` from one ledger account to another; none for zero. */
export function carry(from: string, to: string, amount: Pico): Entry[] {
  if (amount === 0n) return [];
  return [
    { account: from, amount: -amount },
    { account: to, amount },
  ];
}

/** One entry for each account, zeros left out. Throws when they do not balance: a mistake of the program. */
export function balanced(entries: readonly Entry[]): Entry[] {
  const sums = new Map<string, Pico>();
  let total = 0n;
  for (const { account, amount } of entries) {
    sums.set(account, (sums.get(account) ?? 0n) + amount);
    total += amount;
  }
  if (total !== 0n) throw new Error(`The entries of a movement add up to ${total}, not to zero`);
  return [...sums].filter(([, amount]) => amount !== 0n).map(([account, amount]) => ({ account, amount }));
}

/** Whose balance row an entry changes, and which part of it; undefined for accounts of the house. */
export function partOf(name: string): { readonly owner: string; readonly part: 'balance' | 'held' } | undefined {
  if (name.startsWith('customer:')) return { owner: name.slice('customer:'.length), part: 'balance' };
  if (name.startsWith('held:')) return { owner: name.slice('held:'.length), part: 'held' };
  return undefined;
}

/** Refuses amounts that no movement carries. */
export function checkAmount(amount: Pico, lowest: Pico): void {
  if (amount >= lowest && amount <= MAX_AMOUNT) return;
  throw new LedgerError('amount-invalid', `An amount of ${amount} pico-USD is not between ${lowest} and ${MAX_AMOUNT}`);
}

/** Refuses dates that are no whole milliseconds. */
export function checkDate(dateMs: number): void {
  if (!Number.isSafeInteger(dateMs)) throw new LedgerError('date-invalid', `${dateMs} is no date`);
}

/** The id of a payment. Addresses and nonces are hexadecimal: the same whatever the case. */
export function paymentId(key: PaymentKey): string {
  return [key.network, key.asset, key.payer, key.nonce].join('|').toLowerCase();
}
