// What the ledger says was spent of budgets. One question for each first day, whatever the number of budgets.

import { setImmediate } from 'node:timers/promises';
import { dayOf } from '../days.ts';
import type { BudgetRecords, Pico, SpendingRow, StoredBudget } from '../ledger/ledger.ts';
import { type BudgetPeriod, type BudgetScope, periodOf, startOf } from './budgets.ts';

interface Periodic extends BudgetScope {
  readonly period: BudgetPeriod;
}

/** First day of the present period. */
export function firstDay({ period }: Periodic, nowMs: number): string {
  return dayOf(startOf(period, periodOf(period, nowMs)));
}

/** What was spent of each budget in its present period. */
export function spentOf(
  budgets: readonly StoredBudget[],
  spending: BudgetRecords['spending'],
  nowMs: number,
): Promise<Map<StoredBudget, Pico>> {
  return sumSpending(
    budgets,
    spending,
    (budget) => budget,
    (budget) => firstDay(budget, nowMs),
    null,
  );
}

/** What was spent for the budget of each item from its first day on, before the day `to`. */
export async function sumSpending<Item>(
  items: readonly Item[],
  spending: BudgetRecords['spending'],
  budgetOf: (item: Item) => Periodic,
  fromOf: (budget: Periodic) => string,
  to: string | null,
): Promise<Map<Item, Pico>> {
  const sums = new Map<Item, Pico>();
  for (const [from, asked] of Map.groupBy(items, (item) => fromOf(budgetOf(item)))) {
    const accounts = new Set<string>();
    const models = new Set<string>();
    for (const { account, model } of asked.map(budgetOf)) {
      if (account !== null) accounts.add(account);
      else if (model !== null) models.add(model);
    }
    const rows = await spending({ accounts: [...accounts], models: [...models], from, to });
    const spent = await spentByScope(rows);
    for (const item of asked) sums.set(item, spent.get(scopeText(budgetOf(item))) ?? 0n);
  }
  return sums;
}

/** Rows that are summed before the thread goes on with other work: a few milliseconds. */
const ROUND = 1000;

/** Sums of rows for every scope that they count for, in one pass: an account may have as many budgets as it has rows. */
async function spentByScope(rows: readonly SpendingRow[]): Promise<Map<string, Pico>> {
  const sums = new Map<string, Pico>();
  for (const [at, { account, amount, key, model }] of rows.entries()) {
    if (at % ROUND === ROUND - 1) await setImmediate();
    for (const ofKey of [key, null]) {
      for (const ofModel of [model, null]) {
        const scope = scopeText({ account, key: ofKey, model: ofModel });
        sums.set(scope, (sums.get(scope) ?? 0n) + amount);
      }
    }
  }
  return sums;
}

/** Null, which stands for all, is told from an empty name. */
function scopeText({ account, key, model }: BudgetScope): string {
  const textOf = (name: string | null): string => (name === null ? '*' : `=${name}`);
  return `${textOf(account)}\n${textOf(key)}\n${textOf(model)}`;
}
