// Reports of the ledger: the history of an account, and usage summed by account, key, model and day. Read-only.

import type { Cell, Database, Row } from './database.ts';
import type { HistoryQuery, Movement, UsageDimension, UsageQuery, UsageRow } from './store.ts';
import { integer, movementOf, text, USAGE_SUMS } from './tables.ts';

const HISTORY_LIMIT = 50;
const HISTORY_MOST = 1000;

const HALF = 2n ** 32n;

/** Sums that may leave 64 bits, in two halves that do not; both databases divide towards zero. */
export function wideSum(expression: string, name: string): string {
  const high = `coalesce(sum((${expression}) / ${HALF}), 0) as ${name}_high`;
  return `${high}, coalesce(sum((${expression}) % ${HALF}), 0) as ${name}_low`;
}

export function wide(row: Row | undefined, name: string): bigint {
  return row === undefined ? 0n : integer(row, `${name}_high`) * HALF + integer(row, `${name}_low`);
}

export async function history(database: Database, query: HistoryQuery): Promise<Movement[]> {
  const limit = Math.min(Math.max(Math.trunc(query.limit ?? HISTORY_LIMIT), 1), HISTORY_MOST);
  const params: Cell[] = [query.account, BigInt(limit)];
  const kinds = query.holds === true ? '' : "and kind not in ('hold', 'release')";
  const before = query.before === undefined ? '' : `and seq < $${params.push(query.before)}`;
  const sql = `select * from movements where account = $1 ${kinds} ${before} order by seq desc limit $2`;
  const rows = await database.snapshot((session) => session.all(sql, params));
  return rows.map(movementOf);
}

const COLUMNS: Readonly<Record<UsageDimension, string>> = {
  account: 'account',
  key: 'key_id',
  model: 'model',
  day: 'day',
};

export async function usage(database: Database, query: UsageQuery): Promise<UsageRow[]> {
  const params: Cell[] = [];
  const conditions: string[] = [];
  const where = (condition: string, value: string | undefined): void => {
    if (value !== undefined) conditions.push(`${condition} $${params.push(value)}`);
  };
  where('account =', query.account);
  where('key_id =', query.key);
  where('model =', query.model);
  where('day >=', query.fromDay);
  where('day <=', query.toDay);
  const by = query.by.map((dimension) => COLUMNS[dimension]);
  if (query.after !== undefined && by.length > 0) {
    const values = query.after.slice(0, by.length).map((value) => `$${params.push(value)}`);
    conditions.push(`(${by.join(', ')}) > (${values.join(', ')})`);
  }
  const sums = USAGE_SUMS.map((column) => wideSum(column, column));
  const sql = [
    `select ${[...by, ...sums].join(', ')} from usage_daily`,
    conditions.length === 0 ? '' : `where ${conditions.join(' and ')}`,
    by.length === 0 ? '' : `group by ${by.join(', ')} order by ${by.join(', ')}`,
    query.limit === undefined ? '' : `limit $${params.push(BigInt(query.limit))}`,
  ].join(' ');
  const rows = await database.snapshot((session) => session.all(sql, params));
  return rows.map((row) => usageRow(row, query.by));
}

function usageRow(row: Row, by: readonly UsageDimension[]): UsageRow {
  return {
    ...Object.fromEntries(by.map((dimension) => [dimension, text(row, COLUMNS[dimension])])),
    requests: wide(row, 'requests'),
    estimated: wide(row, 'estimated'),
    inputTokens: wide(row, 'input_tokens'),
    cachedTokens: wide(row, 'cached_tokens'),
    outputTokens: wide(row, 'output_tokens'),
    amount: wide(row, 'amount'),
  };
}
