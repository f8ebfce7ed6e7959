// Where charges are stored: one table for each month, `charges_YYYY_MM`, in which accounts, keys, models and prices are
// numbers of the table `names`. Months and names are added before the commit that first needs them; neither changes afterwards.

import { hash } from 'node:crypto';
import type { Database, Dialect, Reads, Row, Session } from './database.ts';
import { type Charge, LedgerError, type Usage } from './ledger.ts';
import { ADD_MONTHS, ADD_NAMES, FIND_MONTHS, FIND_NAMES, integer, text } from './tables.ts';

/** What names a charge; who pays follows from its account and lease. */
export interface ChargeKey extends Pick<Charge, 'account' | 'lease' | 'dateMs'> {
  /** See `chargeNumber`. */
  readonly number: bigint;
}

/** A commit needs names or months that are not in the store yet: they are added, and it runs again. */
export class MissingRows extends Error {
  override readonly name = 'MissingRows';
  readonly names: readonly string[];
  readonly months: readonly string[];

  constructor(names: readonly string[], months: readonly string[]) {
    super(`The store lacks ${names.length} names and ${months.length} months`);
    this.names = names;
    this.months = months;
  }
}

/** The month of a date in UTC, as in `2030_01`. */
export function monthOf(dateMs: number): string {
  return new Date(dateMs).toISOString().slice(0, 7).replace('-', '_');
}

/** First millisecond of a month, and of the one after it. */
export function rangeOf(month: string): { readonly fromMs: number; readonly untilMs: number } {
  const [year, number] = month.split('_').map(Number) as [number, number];
  return { fromMs: Date.UTC(year, number - 1), untilMs: Date.UTC(year, number) };
}

/**
 * 64 bits of the SHA-256 of an id. Two ids can only be mistaken for each other on one account in one millisecond, with a
 * chance of 2^-64; the ledger then refuses the second unless its amount is the same.
 */
export function chargeNumber(id: string): bigint {
  return (hash('sha256', id, 'buffer') as Buffer).readBigInt64BE();
}

/** The id of a charge as a movement. */
export function chargeId(dateMs: number, number: bigint): string {
  return `charge:${dateMs}-${BigInt.asUintN(64, number).toString(16).padStart(16, '0')}`;
}

/** The charge of an account that the id names; undefined when it names none. */
export function chargeOf(id: string, account: string): ChargeKey | undefined {
  const [, date, digits] = /^charge:(\d{1,15})-([0-9a-f]{16})$/.exec(id) ?? [];
  if (date === undefined) return undefined;
  return { account, dateMs: Number(date), number: BigInt.asIntN(64, BigInt(`0x${digits}`)) };
}

/** The numbers of the names; rejects with `MissingRows`. */
export async function numbersOf(session: Reads, names: readonly string[]): Promise<Map<string, bigint>> {
  const numbers = new Map<string, bigint>();
  for (const row of await session.find(FIND_NAMES, names)) numbers.set(text(row, 'name'), integer(row, 'num'));
  if (numbers.size === names.length) return numbers;
  throw new MissingRows(
    names.filter((name) => !numbers.has(name)),
    [],
  );
}

/** The months of these that have a table; rejects with `MissingRows` when one of the `needed` has none. */
export async function findMonths(
  session: Session,
  needed: ReadonlySet<string>,
  charges: readonly ChargeKey[],
): Promise<Set<string>> {
  const months = new Set(needed);
  for (const { dateMs } of charges) months.add(monthOf(dateMs));
  const rows = await session.find(FIND_MONTHS, [...months]);
  const found = new Set(rows.filter((row) => row['pruned'] !== 1n).map((row) => text(row, 'month')));
  const missing = [...needed].filter((month) => !found.has(month));
  if (missing.length > 0) throw new MissingRows([], missing);
  return found;
}

/** All months that have a table (those that retention removed have none), the newest first. */
export async function listMonths(session: Reads): Promise<string[]> {
  const rows = await session.all('select month from charge_months where pruned = 0 order by month desc');
  return rows.map((row) => text(row, 'month'));
}

/** Adds what is missing. */
export function addMissing(database: Database, { months, names }: MissingRows): Promise<void> {
  return database.exclusive(async (session) => {
    if (names.length > 0) await addNames(session, names);
    const known = new Map<string, Row>();
    for (const row of await session.find(FIND_MONTHS, months)) known.set(text(row, 'month'), row);
    for (const month of months) {
      const row = known.get(month);
      if (row === undefined) await addMonth(session, database.dialect, month);
      else if (row['pruned'] === 1n) {
        throw new LedgerError('date-invalid', `The charges of ${month} were removed: none is added to them`);
      }
    }
  });
}

async function addNames(session: Session, names: readonly string[]): Promise<void> {
  const known = new Set((await session.find(FIND_NAMES, names)).map((row) => text(row, 'name')));
  const missing = names.filter((name) => !known.has(name));
  await session.write(
    ADD_NAMES,
    missing.map((name) => ({ name })),
  );
}

/** PostgreSQL attaches the table to `charges`; `attach partition` lets commits on other months go on. */
export async function addMonth(session: Session, dialect: Dialect, month: string): Promise<void> {
  const table = `charges_${month}`;
  const { fromMs, untilMs } = rangeOf(month);
  const statements =
    dialect.name === 'postgres'
      ? [
          `create table ${table} (like charges including all)`,
          `alter table charges attach partition ${table} for values from (${fromMs}) to (${untilMs})`,
        ]
      : [`create table ${table} (${chargeColumns(dialect)}) strict, without rowid`];
  for (const statement of statements) await session.all(statement);
  await session.write(ADD_MONTHS, [{ month }]);
}

/** PostgreSQL pads: the widest columns come first. The key serves repeats, histories and audits. */
export function chargeColumns({ integer: wide, integer2, integer4 }: Dialect): string {
  return `
    date_ms ${wide} not null,
    id ${wide} not null,
    amount ${wide} not null check (amount >= 0),
    input_tokens ${wide} not null,
    cached_tokens ${wide} not null,
    output_tokens ${wide} not null,
    account ${integer4} not null,
    member ${integer4} not null,
    key ${integer4} not null,
    model ${integer4} not null,
    price ${integer4} not null,
    requests ${integer4} not null,
    measured ${integer2} not null,
    primary key (account, date_ms, id)`;
}

/** The usage in a row that names key, model and price in `key_name`, `model_name` and `price_name`. */
export function usageOf(row: Row): Usage {
  const key = row['key_name'] ?? null;
  const price = row['price_name'] ?? null;
  const requests = Number(row['requests']);
  return {
    key: key === null ? null : String(key),
    model: text(row, 'model_name'),
    inputTokens: Number(row['input_tokens']),
    cachedTokens: Number(row['cached_tokens']),
    outputTokens: Number(row['output_tokens']),
    measured: row['measured'] === 1n,
    ...(requests !== 1 && { requests }),
    ...(price !== null && { price: String(price) }),
  };
}
