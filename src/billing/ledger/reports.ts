// Reports of the ledger: the history of an account, and usage summed by account, key, model and day. Read-only.

import { DAY_MS, dayOf, startOfDay } from '../days.ts';
import { chargeId, listMonths, usageOf } from './charges.ts';
import { type Cell, type Database, fewRows, readKind, type Reads, type Row } from './database.ts';
import { pageRows, QueryFilter } from './query-filter.ts';
import {
  type HistoryQuery,
  LedgerError,
  type Movement,
  type UsageDimension,
  type UsageQuery,
  type UsageRow,
} from './ledger.ts';
import { integer, movementOf, text, USAGE_SUMS } from './tables.ts';

/** The first half of a sum counts these. */
export const HALF: bigint = 2n ** 32n;

/** Sums that may leave 64 bits, in two halves that do not; both databases divide towards zero. */
export function wideSum(expression: string, name: string): string {
  const high = `coalesce(sum((${expression}) / ${HALF}), 0) as ${name}_high`;
  return `${high}, coalesce(sum((${expression}) % ${HALF}), 0) as ${name}_low`;
}

export function wide(row: Row | undefined, name: string): bigint {
  return row === undefined ? 0n : integer(row, `${name}_high`) * HALF + integer(row, `${name}_low`);
}

/**
 * A position in a history, which runs by date; at one date charges are newer than other movements. Written as `DATE-c-NUMBER`
 * or `DATE-m-ID`.
 */
interface Position {
  readonly dateMs: bigint;
  /** The last charge seen at that date; null: none of them is left. */
  readonly charge: bigint | null;
  /** The last other movement seen at that date; null: all of them are left. */
  readonly movement: string | null;
}

const POSITION = /^(\d{1,15})-(?:(c)-(-?\d{1,19})|m-(.+))$/s;

/** Whether a text is the position of a movement. */
export function isPosition(seq: string): boolean {
  return readPosition(seq) !== undefined;
}

/** Undefined for what a column of the store cannot hold, too: numbers of more than 64 bits, and NUL in a text of PostgreSQL. */
function readPosition(seq: string): Position | undefined {
  const [, date = '', isCharge, charge = '', movement = ''] = POSITION.exec(seq) ?? [];
  if (date === '' || movement.includes('\0')) return undefined;
  const dateMs = BigInt(date);
  if (isCharge === undefined) return { dateMs, charge: null, movement };
  const number = BigInt(charge);
  return BigInt.asIntN(64, number) === number ? { dateMs, charge: number, movement: null } : undefined;
}

function positionOf(seq: string): Position {
  const position = readPosition(seq);
  if (position === undefined) throw new LedgerError('cursor-invalid', `'${seq}' is not the position of a movement`);
  return position;
}

export async function history(database: Database, query: HistoryQuery): Promise<Movement[]> {
  const limit = pageRows(query.limit);
  const before = query.before === undefined ? undefined : positionOf(query.before);
  return await database.snapshot(async (session) => {
    const movements = await movementsOf(session, query.account, before, limit);
    const charges = await chargesOf(session, query.account, before, limit);
    const page: Movement[] = [];
    while (page.length < limit) {
      const [charge, movement] = [charges[0], movements[0]];
      const isCharge = charge !== undefined && (movement === undefined || charge.dateMs >= movement.dateMs);
      const next = (isCharge ? charges : movements).shift();
      if (next === undefined) break;
      page.push(next);
    }
    return page;
  });
}

async function movementsOf(
  session: Reads,
  account: string,
  before: Position | undefined,
  limit: number,
): Promise<Movement[]> {
  const params: Cell[] = [account, BigInt(limit)];
  let rest = '';
  if (before?.movement != null) rest = 'and (date_ms, id) < ($3, $4)';
  else if (before !== undefined) rest = 'and date_ms <= $3';
  if (before !== undefined) params.push(before.dateMs);
  if (before?.movement != null) params.push(before.movement);
  const sql = `select * from movements where account = $1 ${rest} order by date_ms desc, id desc limit $2`;
  return (await session.all(sql, params)).map((row) => {
    const movement = movementOf(row);
    return { ...movement, seq: `${movement.dateMs}-m-${movement.id}`, usage: null };
  });
}

/** From the newest month on, until the page is full. */
async function chargesOf(
  session: Reads,
  account: string,
  before: Position | undefined,
  limit: number,
): Promise<Movement[]> {
  const charges: Movement[] = [];
  const [name] = await session.all('select num from names where name = $1', [account]);
  if (name === undefined) return charges;
  for (const month of await listMonths(session)) {
    if (charges.length === limit) break;
    const params: Cell[] = [integer(name, 'num'), BigInt(limit - charges.length)];
    let rest = '';
    if (before !== undefined && before.charge !== null) rest = 'and (date_ms, c.id) < ($3, $4)';
    else if (before !== undefined) rest = 'and date_ms < $3';
    if (before !== undefined) params.push(before.dateMs);
    if (before !== undefined && before.charge !== null) params.push(before.charge);
    const sql = `select c.*, k.name as key_name, m.name as model_name, p.name as price_name from charges_${month} c
      left join names k on k.num = c.key left join names m on m.num = c.model left join names p on p.num = c.price
      where c.account = $1 ${rest} order by date_ms desc, c.id desc limit $2`;
    for (const row of await session.all(sql, params)) charges.push(chargeMovement(row, account));
  }
  return charges;
}

function chargeMovement(row: Row, account: string): Movement {
  const [dateMs, number] = [Number(row['date_ms']), integer(row, 'id')];
  return {
    seq: `${dateMs}-c-${number}`,
    id: chargeId(dateMs, number),
    kind: 'charge',
    account,
    amount: -integer(row, 'amount'),
    dateMs,
    memo: '',
    usage: usageOf(row),
  };
}

const COLUMNS: Readonly<Record<UsageDimension, string>> = {
  account: 'account',
  key: 'key_id',
  model: 'model',
  day: 'day',
};

export async function usage(database: Database, query: UsageQuery): Promise<UsageRow[]> {
  const isByDay = query.by[0] === 'day' && query.by.length > 1 && query.limit !== undefined;
  const kind = await readKind(database, 'report', (session) => usageCount(session, query));
  return await database.snapshot((session) => (isByDay ? usagePage(session, query) : usageIn(session, query)), kind);
}

/** By one of the indices on days: of what else is asked for, rows are read that do not count. */
function usageCount(session: Reads, { account, fromDay, model, toDay }: UsageQuery): Promise<Row[]> {
  const filter = new QueryFilter();
  if (account !== undefined) filter.compare('account =', account);
  else filter.compare('model =', model);
  filter.compare('day >=', fromDay);
  filter.compare('day <=', toDay);
  return session.all(fewRows(`usage_daily ${filter.where}`), filter.params);
}

/** Rows of the table, for each row of a page, that are summed for it at first; four times as many in each further step. */
const ROWS_OF_ONE = 2;

/** A page in the order of days, of as many days as it takes: to sum all days behind its beginning would take long pages the square of time. */
async function usagePage(session: Reads, { after, ...query }: UsageQuery): Promise<UsageRow[]> {
  const { fromDay = '', limit = 0, toDay } = query;
  const rows: UsageRow[] = [];
  let first = after?.[0] !== undefined && after[0] > fromDay ? after[0] : fromDay;
  for (let most = limit * ROWS_OF_ONE; ; most *= 4) {
    const sql = 'select day from usage_daily where day >= $1 order by day limit 1 offset $2';
    const [row] = await session.all(sql, [first, BigInt(most)]);
    const last = row === undefined ? undefined : text(row, 'day');
    const isEnd = last === undefined || (toDay !== undefined && last >= toDay);
    const days = { fromDay: first, ...(!isEnd && { toDay: last }) };
    const rest = { limit: limit - rows.length, ...(rows.length === 0 && after !== undefined && { after }) };
    rows.push(...(await usageIn(session, { ...query, ...days, ...rest })));
    if (isEnd || rows.length === limit) return rows;
    first = dayOf((startOfDay(last) ?? 0) + DAY_MS);
  }
}

async function usageIn(session: Reads, query: UsageQuery): Promise<UsageRow[]> {
  const filter = new QueryFilter();
  filter.compare('account =', query.account);
  filter.compare('key_id =', query.key);
  filter.compare('model =', query.model);
  filter.compare('day >=', query.fromDay);
  filter.compare('day <=', query.toDay);
  const by = query.by.map((dimension) => COLUMNS[dimension]);
  if (query.after !== undefined && by.length > 0) {
    const values = query.after.slice(0, by.length).map((value) => filter.param(value));
    filter.add(`(${by.join(', ')}) > (${values.join(', ')})`);
  }
  const sums = USAGE_SUMS.map((column) => wideSum(column, column));
  const sql = [
    `select ${[...by, ...sums].join(', ')} from usage_daily`,
    filter.where,
    by.length === 0 ? '' : `group by ${by.join(', ')} order by ${by.join(', ')}`,
    filter.limit(query.limit),
  ].join(' ');
  return (await session.all(sql, filter.params)).map((row) => usageRow(row, query.by));
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
