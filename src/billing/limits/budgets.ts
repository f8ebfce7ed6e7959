// Budgets: how much money an account, a key, a model, or a combination of them may spend in a day, a week or a month. Periods
// begin at midnight UTC; weeks begin on Mondays (ISO 8601).

import { DAY_MS } from '../days.ts';
import type { LimitCell } from './limit-table.ts';

export const BUDGET_PERIODS = ['day', 'week', 'month'] as const;
export type BudgetPeriod = (typeof BUDGET_PERIODS)[number];

/** What a budget is for. Null: all of them; at least one is not null. */
export interface BudgetScope {
  readonly account: string | null;
  /** Lineage of keys: a key and those that have replaced it. */
  readonly key: string | null;
  /** Configured id of a model. */
  readonly model: string | null;
}

/** A budget as threads know it. Amounts in pico-USD. */
export interface Budget extends BudgetScope {
  readonly id: string;
  readonly period: BudgetPeriod;
  readonly limit: number;
  /** Spending from which on an alert is due; null: none. */
  readonly soft: number | null;
  /** Null: there was no free cell; what it is for is refused. */
  readonly cell: LimitCell | null;
}

/** Budgets that came, went or changed. `reset`: drops all that were known before. */
export interface BudgetChange {
  readonly reset: boolean;
  readonly put: readonly Budget[];
  /** Ids. */
  readonly drop: readonly string[];
}

/** A threshold that spending has crossed. Emitted once per budget, threshold and period. */
export interface BudgetEvent extends BudgetScope {
  readonly budget: string;
  readonly threshold: 'soft' | 'hard';
  readonly period: BudgetPeriod;
  /** Milliseconds since 1970. */
  readonly startsMs: number;
  readonly endsMs: number;
  /** Pico-USD. */
  readonly limit: number;
  readonly soft: number | null;
  readonly spent: number;
}

/** The 1st of January 1970 was a Thursday. */
const THURSDAY = 3;

/** The number of a period since 1970; it grows by one with each. */
export function periodOf(period: BudgetPeriod, epochMs: number): number {
  const day = Math.floor(epochMs / DAY_MS);
  if (period === 'day') return day;
  if (period === 'week') return Math.floor((day + THURSDAY) / 7);
  const date = new Date(epochMs);
  return (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth();
}

/** When a period begins, in milliseconds since 1970. */
export function startOf(period: BudgetPeriod, number: number): number {
  if (period === 'day') return number * DAY_MS;
  if (period === 'week') return (number * 7 - THURSDAY) * DAY_MS;
  return Date.UTC(1970, number);
}

/** The present period of each kind, looked up once a day. */
export class Periods {
  #day = -1;
  readonly #numbers: Record<BudgetPeriod, number> = { day: 0, week: 0, month: 0 };

  of(period: BudgetPeriod, epochMs: number): number {
    const day = Math.floor(epochMs / DAY_MS);
    if (day !== this.#day) {
      this.#day = day;
      for (const each of BUDGET_PERIODS) this.#numbers[each] = periodOf(each, epochMs);
    }
    return this.#numbers[period];
  }
}
