// Audit of the ledger: every account has what its movements gave it and its usage did not take, the charges of every day add up
// to its usage, open holds add up to what is held, settled payments are posted once. Reads one snapshot and changes nothing;
// each check is a query for rows that should not exist.

import { listMonths, rangeOf } from './charges.ts';
import type { Database, Dialect, Row, Session } from './database.ts';
import { wide, wideSum } from './reports.ts';
import type { AuditReport } from './store.ts';
import { integer, text, USAGE_SUMS } from './tables.ts';

/** Problems shown for one check; the number of further ones is added. */
const SHOWN = 20;

interface Check {
  readonly sql: string;
  /** The problem in one row of the query; undefined when there is none. */
  describe(row: Row): string | undefined;
}

const CHECKS: readonly Check[] = [
  {
    // Compared here and not in the query: a sum in halves has no form there that cannot overflow.
    sql: `select a.id as id, a.balance + a.held as kept, m.total_high as in_high, m.total_low as in_low,
          u.total_high as out_high, u.total_low as out_low from accounts a
          left join (select account, ${wideSum('amount', 'total')} from movements group by account) m on m.account = a.id
          left join (select payer, ${wideSum('amount', 'total')} from usage_daily group by payer) u on u.payer = a.id`,
    describe(row) {
      const [kept, total] = [integer(row, 'kept'), wide(row, 'in') - wide(row, 'out')];
      if (kept === total) return undefined;
      return `Account '${text(row, 'id')}' has ${kept}, its movements add up to ${total}`;
    },
  },
  {
    sql: `select account from movements where account not in (select id from accounts)
          union select account from usage_daily where account not in (select id from accounts)
          union select payer from usage_daily where payer not in (select id from accounts)`,
    describe: (row) => `Movements of '${text(row, 'account')}' have no account`,
  },
  {
    sql: `select a.id as id, a.held as kept, ${wideSum('coalesce(h.amount - h.spent, 0)', 'total')} from accounts a
          left join holds h on h.account = a.id and h.state = 'open' group by a.id, a.held`,
    describe(row) {
      const [kept, total] = [integer(row, 'kept'), wide(row, 'total')];
      if (kept === total) return undefined;
      return `Account '${text(row, 'id')}' holds ${kept}, its open holds add up to ${total}`;
    },
  },
  {
    sql: `select p.id as id from payments p left join movements m on m.id = 'payment:' || p.id
          where (p.state = 'settled') <> (m.id is not null)`,
    describe: (row) => `Payment '${text(row, 'id')}' is settled and not posted, or posted and not settled`,
  },
];

const DAY_MS = 86_400_000;

const SUMS = USAGE_SUMS.map((column) => {
  if (column === 'requests') return 'sum(requests) as requests';
  return column === 'estimated' ? 'sum(requests * (1 - measured)) as estimated' : `sum(${column}) as ${column}`;
});

/** Rows of usage of a month that differ from the charges of their account, key, model and day. */
function monthCheck(month: string, { dayOf }: Dialect): Check {
  const { fromMs, untilMs } = rangeOf(month);
  const [first, last] = [fromMs, untilMs - 1].map((ms) => new Date(ms).toISOString().slice(0, 10));
  const differs = USAGE_SUMS.map((column) => `u.${column} is distinct from c.${column}`);
  return {
    sql: `select coalesce(u.account, c.account) as account, coalesce(u.key_id, c.key_id) as key_id,
          coalesce(u.model, c.model) as model, coalesce(u.day, c.day) as day,
          coalesce(u.amount, 0) as used, coalesce(c.amount, 0) as charged
          from (select * from usage_daily where day between '${first}' and '${last}') u
          full join (
            select coalesce(o.name, a.name, '') as account, coalesce(k.name, '') as key_id, coalesce(m.name, '') as model,
            coalesce(a.name, '') as payer, ${dayOf(`(g.number * ${DAY_MS})`)} as day, ${USAGE_SUMS.map((column) => `g.${column}`).join(', ')}
            from (
              select account, member, key, model, date_ms / ${DAY_MS} as number, ${SUMS.join(', ')}
              from charges_${month} group by 1, 2, 3, 4, 5
            ) g
            left join names a on a.num = g.account left join names o on o.num = g.member
            left join names k on k.num = g.key left join names m on m.num = g.model
          ) c on c.account = u.account and c.payer = u.payer and c.key_id = u.key_id and c.model = u.model and c.day = u.day
          where ${differs.join(' or ')}`,
    describe(row) {
      const [account, day, model] = [text(row, 'account'), text(row, 'day'), text(row, 'model')];
      const [used, charged] = [integer(row, 'used'), integer(row, 'charged')];
      return `Usage of '${account}' for '${model}' on ${day} is ${used} and differs from its charges, which add up to ${charged}`;
    },
  };
}

async function problemsOf(session: Session, check: Check): Promise<string[]> {
  const rows = await session.all(check.sql);
  const problems = rows.map((row) => check.describe(row)).filter((problem) => problem !== undefined);
  if (problems.length <= SHOWN) return problems;
  return [...problems.slice(0, SHOWN), `and ${problems.length - SHOWN} more like these`];
}

async function countOf(session: Session, from: string): Promise<bigint> {
  const [row] = await session.all(`select count(*) as count from ${from}`);
  return row === undefined ? 0n : integer(row, 'count');
}

async function sumOf(session: Session, expression: string, from: string): Promise<bigint> {
  const [row] = await session.all(`select ${wideSum(expression, 'amount')} from ${from}`);
  return wide(row, 'amount');
}

export function audit(database: Database): Promise<AuditReport> {
  return database.snapshot(async (session) => {
    const problems: string[] = [];
    const customers = (await sumOf(session, 'balance', 'accounts')) + (await sumOf(session, 'held', 'accounts'));
    const income = await sumOf(session, 'amount', 'usage_daily');
    const sum = customers + income - (await sumOf(session, 'amount', 'movements'));
    if (sum !== 0n) problems.push(`All accounts add up to ${sum}, not to zero`);
    const months = await listMonths(session);
    for (const check of [...CHECKS, ...months.map((month) => monthCheck(month, database.dialect))]) {
      problems.push(...(await problemsOf(session, check)));
    }
    let movements = await countOf(session, 'movements');
    for (const month of months) movements += await countOf(session, `charges_${month}`);
    return {
      sound: problems.length === 0,
      sum,
      movements,
      accounts: await countOf(session, 'accounts'),
      openHolds: await countOf(session, "holds where state = 'open'"),
      problems,
    };
  }, 'report');
}
