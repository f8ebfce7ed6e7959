// The conditions and parameters of a query whose parts are optional, and the number of rows on one of its pages.

import type { Cell } from './database.ts';

const PAGE_ROWS = 50;
const MOST_PAGE_ROWS = 1000;

/** Rows of a page. Default 50, at most 1,000. */
export function pageRows(limit: number | undefined): number {
  return Math.min(Math.max(Math.trunc(limit ?? PAGE_ROWS), 1), MOST_PAGE_ROWS);
}

export class QueryFilter {
  /** In the order of their numbers. */
  readonly params: Cell[] = [];
  readonly #conditions: string[] = [];

  /** Adds a parameter; returns how the text of the query names it. */
  param(value: Cell): string {
    return `$${this.params.push(value)}`;
  }

  /** Adds a condition. */
  add(condition: string): void {
    this.#conditions.push(condition);
  }

  /** Adds a condition that lacks its right side, such as `day >=`; an undefined value adds none. */
  compare(condition: string, value: Cell | undefined): void {
    if (value !== undefined) this.add(`${condition} ${this.param(value)}`);
  }

  /** `where …`; empty without a condition. */
  get where(): string {
    return this.#conditions.length === 0 ? '' : `where ${this.#conditions.join(' and ')}`;
  }

  /** `limit …`; empty for all rows. */
  limit(rows: number | undefined): string {
    return rows === undefined ? '' : `limit ${this.param(BigInt(rows))}`;
  }
}
