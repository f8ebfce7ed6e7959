// Audit of the ledger: every account has what its movements gave it and its usage did not take, the charges of every day add up
// to its usage, open holds add up to what is held, settled payments are posted once with their amount, credit that expires
// has grants. Reads one snapshot; each check is a query for rows that should not exist. Days that were found sound are recorded with
// their sums and not read again while their usage stays the same, unless a full audit is asked for.

import { DAY_MS, dayOf } from '../days.ts';
import { printUsd } from '../money.ts';
import { listMonths, rangeOf } from './charges.ts';
import type { Database, Dialect, Reads, Row } from './database.ts';
import { HALF, wide, wideSum } from './reports.ts';
import type { AuditReport, Pico } from './ledger.ts';
import { integer, PUT_AUDITED_DAYS, text, USAGE_SUMS } from './tables.ts';

/** Problems shown for one check; the number of further ones is added. */
const SHOWN = 20;

interface Check {
  readonly sql: string;
  /** The problem in one row of the query. */
  describe(row: Row): string;
}

const usd = (amount: Pico): string => `${printUsd(amount)} USD`;

/** Compares `kept` with the sum `total` of the same row, without a number of more than 64 bits. */
function comparison(operator: '<>' | '>'): string {
  const low = `(kept % ${HALF} - cast(total_low as bigint))`;
  const high = `kept / ${HALF} - total_high + ${low} / ${HALF}`;
  return `(${high} ${operator} 0 or (${high} = 0 and ${low} % ${HALF} ${operator} 0))`;
}

const CHECKS: readonly Check[] = [
  {
    sql: `select * from (
            select a.id as id, a.balance + a.held as kept, coalesce(m.total_high, 0) - coalesce(u.total_high, 0) as total_high,
            coalesce(m.total_low, 0) - coalesce(u.total_low, 0) as total_low from accounts a
            left join (select account, ${wideSum('amount', 'total')} from movements group by account) m on m.account = a.id
            left join (select payer, ${wideSum('amount', 'total')} from usage_daily group by payer) u on u.payer = a.id
          ) sums where ${comparison('<>')}`,
    describe(row) {
      const [kept, total] = [integer(row, 'kept'), wide(row, 'total')];
      return `Account '${text(row, 'id')}' has ${usd(kept)}, its movements add up to ${usd(total)}`;
    },
  },
  {
    sql: `select account from movements where account not in (select id from accounts)
          union select account from usage_daily where account not in (select id from accounts)
          union select payer from usage_daily where payer not in (select id from accounts)`,
    describe: (row) => `Movements of '${text(row, 'account')}' have no account`,
  },
  {
    sql: `select * from (
            select a.id as id, a.held as kept, coalesce(h.total_high, 0) as total_high, coalesce(h.total_low, 0) as total_low
            from accounts a left join (
              select account, ${wideSum('amount - spent', 'total')} from holds where state = 'open' group by account
            ) h on h.account = a.id where a.held <> 0 or h.account is not null
          ) sums where ${comparison('<>')}`,
    describe(row) {
      const [kept, total] = [integer(row, 'kept'), wide(row, 'total')];
      return `Account '${text(row, 'id')}' holds ${usd(kept)}, its open holds add up to ${usd(total)}`;
    },
  },
  {
    sql: `select p.id as id from payments p left join movements m on m.id = 'payment:' || p.id
          where (p.state = 'settled') <> (m.id is not null)
          union all select substr(id, 9) from movements m where kind = 'payment'
          and not exists (select 1 from payments p where p.id = substr(m.id, 9))`,
    describe: (row) => `Payment '${text(row, 'id')}' is settled and not posted, or posted and not settled`,
  },
  {
    sql: `select p.id as id, p.amount as amount, m.amount as posted from payments p
          join movements m on m.id = 'payment:' || p.id where m.amount <> p.amount`,
    describe(row) {
      const [amount, posted] = [integer(row, 'amount'), integer(row, 'posted')];
      return `Payment '${text(row, 'id')}' is ${usd(amount)}, and ${usd(posted)} was posted`;
    },
  },
  {
    sql: `select * from (
            select a.id as id, a.expiring as kept, coalesce(g.total_high, 0) as total_high, coalesce(g.total_low, 0) as total_low
            from accounts a left join (
              select account, ${wideSum('remaining', 'total')} from credit_grants where remaining > 0 group by account
            ) g on g.account = a.id where a.expiring > 0
          ) sums where ${comparison('>')}`,
    describe(row) {
      const [kept, total] = [integer(row, 'kept'), wide(row, 'total')];
      return `Account '${text(row, 'id')}' has ${usd(kept)} that expires, its grants add up to ${usd(total)}`;
    },
  },
  {
    sql: 'select date_ms, amount, reason from parked_charges order by date_ms',
    describe(row) {
      const date = new Date(Number(row['date_ms'])).toISOString();
      return `A charge of ${usd(integer(row, 'amount'))} of ${date} is parked: ${text(row, 'reason')}`;
    },
  },
];

const SUMS = USAGE_SUMS.map((column) => {
  if (column === 'requests') return 'sum(requests) as requests';
  return column === 'estimated' ? 'sum(requests * (1 - measured)) as estimated' : `sum(${column}) as ${column}`;
});

/** Days of one month, as numbers since 1970; the last is included. */
interface Days {
  readonly month: string;
  readonly first: number;
  readonly last: number;
}

/** All days of a month, as `YYYY-MM-DD`. */
export function daysOf(month: string): string[] {
  const { fromMs, untilMs } = rangeOf(month);
  return Array.from({ length: (untilMs - fromMs) / DAY_MS }, (_, at) => dayOf(fromMs + at * DAY_MS));
}

/** Charges of the days. Ordered by account first, as they are stored: SQLite then reads no others. */
function chargesOf({ first, last, month }: Days): string {
  return `names a cross join charges_${month} c
    where c.account = a.num and c.date_ms >= ${first * DAY_MS} and c.date_ms < ${(last + 1) * DAY_MS}`;
}

/**
 * Rows of usage of the days that differ from the charges of their account, key, model and day. Both are summed with opposite
 * signs: a full join of two queries would be a nested loop on SQLite.
 */
function usageCheck(days: Days, { dayOf: sqlDay }: Dialect): Check {
  const columns = (prefix: string, sign: string): string =>
    USAGE_SUMS.map((column) => `${sign}${prefix}${column} as ${column}`).join(', ');
  return {
    sql: `select account, model, day, sum(used) as used, sum(charged) as charged from (
            select account, key_id, model, day, payer, amount as used, 0 as charged, ${columns('', '')}
            from usage_daily where day between '${dayOf(days.first * DAY_MS)}' and '${dayOf(days.last * DAY_MS)}'
            union all
            select coalesce(o.name, p.name, ''), coalesce(k.name, ''), coalesce(m.name, ''),
            ${sqlDay(`(g.number * ${DAY_MS})`)}, coalesce(p.name, ''), 0, g.amount, ${columns('g.', '-')}
            from (
              select c.account as payer, c.member as member, c.key as key, c.model as model,
              c.date_ms / ${DAY_MS} as number, ${SUMS.join(', ')} from ${chargesOf(days)} group by 1, 2, 3, 4, 5
            ) g
            left join names p on p.num = g.payer left join names o on o.num = g.member left join names k on k.num = g.key left join names m on m.num = g.model
          ) both_sides group by account, key_id, model, day, payer
          having ${USAGE_SUMS.map((column) => `sum(${column}) <> 0`).join(' or ')}`,
    describe(row) {
      const [account, day, model] = [text(row, 'account'), text(row, 'day'), text(row, 'model')];
      const [used, charged] = [usd(integer(row, 'used')), usd(integer(row, 'charged'))];
      return `Usage of '${account}' for '${model}' on ${day} is ${used} and differs from its charges, which add up to ${charged}`;
    },
  };
}

async function problemsOf(session: Reads, check: Check): Promise<string[]> {
  const rows = await session.all(check.sql);
  const problems = rows.slice(0, SHOWN).map((row) => check.describe(row));
  return rows.length <= SHOWN ? problems : [...problems, `and ${rows.length - SHOWN} more like these`];
}

async function countOf(session: Reads, from: string): Promise<bigint> {
  const [row] = await session.all(`select count(*) as count from ${from}`);
  return row === undefined ? 0n : integer(row, 'count');
}

async function sumOf(session: Reads, expression: string, from: string): Promise<bigint> {
  const [row] = await session.all(`select ${wideSum(expression, 'amount')} from ${from}`);
  return wide(row, 'amount');
}

/** Sums of one day's usage, and of the charges that were compared with it. */
export interface DaySums {
  readonly day: string;
  readonly requests: bigint;
  readonly amount: bigint;
  readonly charges: bigint;
}

/** Of all days, or of a month. */
export async function usageByDay(session: Reads, month?: string): Promise<Map<string, DaySums>> {
  const ofMonth = month === undefined ? [] : daysOf(month);
  const filter = month === undefined ? '' : `where day between '${ofMonth[0]}' and '${ofMonth.at(-1)}'`;
  const sql = `select day, sum(requests) as requests, ${wideSum('amount', 'amount')} from usage_daily ${filter} group by day`;
  const days = new Map<string, DaySums>();
  for (const row of await session.all(sql)) {
    const day = text(row, 'day');
    days.set(day, { day, requests: integer(row, 'requests'), amount: wide(row, 'amount'), charges: 0n });
  }
  return days;
}

export async function auditedDays(session: Reads): Promise<Map<string, DaySums>> {
  const days = new Map<string, DaySums>();
  for (const row of await session.all('select * from audited_days')) {
    const sums = { requests: integer(row, 'requests'), amount: BigInt(text(row, 'amount')) };
    days.set(text(row, 'day'), { day: text(row, 'day'), ...sums, charges: integer(row, 'charges') });
  }
  return days;
}

export function isSame(one: DaySums | undefined, other: DaySums | undefined): boolean {
  return (one?.requests ?? 0n) === (other?.requests ?? 0n) && (one?.amount ?? 0n) === (other?.amount ?? 0n);
}

export interface AuditOptions {
  /** Reads the charges of all days again. */
  readonly full: boolean;
  /** The charges of days before are compared once; today's go on. Milliseconds since 1970. */
  readonly nowMs: number;
}

interface AuditResult {
  readonly report: AuditReport;
  /** Days that are sound, to be recorded. */
  readonly days: readonly DaySums[];
  /** Days of months in which something is wrong: no longer recorded as sound, however they were found before. */
  readonly unsound: readonly string[];
}

/** The part that reads. */
async function readAudit(database: Database, { full, nowMs }: AuditOptions): Promise<AuditResult> {
  return await database.snapshot(async (session) => {
    const problems: string[] = [];
    const customers = (await sumOf(session, 'balance', 'accounts')) + (await sumOf(session, 'held', 'accounts'));
    const income = await sumOf(session, 'amount', 'usage_daily');
    const sum = customers + income - (await sumOf(session, 'amount', 'movements'));
    if (sum !== 0n) problems.push(`All accounts add up to ${usd(sum)}, not to zero`);
    for (const check of CHECKS) problems.push(...(await problemsOf(session, check)));
    const used = await usageByDay(session);
    const audited = await auditedDays(session);
    const months = (await listMonths(session)).toReversed();
    let movements = await countOf(session, 'movements');
    const sound: DaySums[] = [];
    const unsound: string[] = [];
    for (const month of months) {
      const days = unaudited(month, used, full ? new Map() : audited);
      const wrong = days === undefined ? [] : await problemsOf(session, usageCheck(days, database.dialect));
      problems.push(...wrong);
      if (wrong.length > 0) unsound.push(...daysOf(month));
      const counts = days === undefined ? new Map<number, bigint>() : await countByDay(session, days);
      const { fromMs, untilMs } = rangeOf(month);
      for (let number = fromMs / DAY_MS; number < untilMs / DAY_MS; number++) {
        const day = dayOf(number * DAY_MS);
        const isRead = days !== undefined && number >= days.first && number <= days.last;
        const charges = isRead ? (counts.get(number) ?? 0n) : (audited.get(day)?.charges ?? 0n);
        movements += charges;
        if (!isRead || wrong.length > 0 || (number + 1) * DAY_MS > nowMs) continue;
        sound.push({ ...(used.get(day) ?? { day, requests: 0n, amount: 0n }), charges });
      }
    }
    problems.push(...withoutCharges(used, audited, months));
    for (const { charges, day } of audited.values()) if (!months.includes(monthOfDay(day))) movements += charges;
    const report = {
      sound: problems.length === 0,
      sum,
      movements,
      accounts: await countOf(session, 'accounts'),
      openHolds: await countOf(session, "holds where state = 'open'"),
      problems,
    };
    return { report, days: sound, unsound };
  }, 'report');
}

/** The days of a month from the first to the last that were not audited, or whose usage has changed since. */
function unaudited(
  month: string,
  used: ReadonlyMap<string, DaySums>,
  audited: ReadonlyMap<string, DaySums>,
): Days | undefined {
  const { fromMs, untilMs } = rangeOf(month);
  let [first, last] = [Infinity, -Infinity];
  for (let number = fromMs / DAY_MS; number < untilMs / DAY_MS; number++) {
    const day = dayOf(number * DAY_MS);
    if (audited.has(day) && isSame(audited.get(day), used.get(day))) continue;
    first = Math.min(first, number);
    last = number;
  }
  return first === Infinity ? undefined : { month, first, last };
}

async function countByDay(session: Reads, days: Days): Promise<Map<number, bigint>> {
  const rows = await session.all(
    `select c.date_ms / ${DAY_MS} as number, count(*) as count from ${chargesOf(days)} group by 1`,
  );
  return new Map(rows.map((row) => [Number(row['number']), integer(row, 'count')]));
}

function monthOfDay(day: string): string {
  return day.slice(0, 7).replace('-', '_');
}

/** Usage of months whose charges were removed must be what it was when they were audited. */
function withoutCharges(
  used: ReadonlyMap<string, DaySums>,
  audited: ReadonlyMap<string, DaySums>,
  months: readonly string[],
): string[] {
  const there = new Set(months);
  const wrong = [...used.values()].filter(
    (sums) => !there.has(monthOfDay(sums.day)) && !isSame(sums, audited.get(sums.day)),
  );
  return wrong.map(({ amount, day }) => `Usage of ${day} is ${usd(amount)} and has no charges`).slice(0, SHOWN);
}

/** Records what was found sound; also charges that came late change the sums of their day. */
async function record(database: Database, days: readonly DaySums[], unsound: readonly string[]): Promise<void> {
  const rows = days.map(({ amount, ...sums }) => ({ ...sums, amount: amount.toString() }));
  if (rows.length + unsound.length === 0) return;
  await database.transaction(async (session) => {
    if (rows.length > 0) await session.write(PUT_AUDITED_DAYS, rows);
    for (const day of unsound) await session.all('delete from audited_days where day = $1', [day]);
  });
}

export async function audit(database: Database, options: AuditOptions): Promise<AuditReport> {
  const { days, report, unsound } = await readAudit(database, options);
  await record(database, days, unsound);
  return report;
}
