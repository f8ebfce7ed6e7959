// Audit of the ledger: the entries of every movement add up to zero, balance rows equal the entries, open holds equal what is
// held, usage equals income, settled payments are posted once. Reads one snapshot and changes nothing; each check is a
// query for rows that should not exist.

import type { Database, Row, Session } from './database.ts';
import { REVENUE } from './book.ts';
import { wide, wideSum } from './reports.ts';
import type { AuditReport } from './store.ts';
import { integer, text } from './tables.ts';

/** Problems shown for one check; the number of further ones is added. */
const SHOWN = 20;

interface Check {
  readonly sql: string;
  /** The problem in one row of the query; undefined when there is none. */
  describe(row: Row): string | undefined;
}

/** Compared here and not in the query: a sum in halves has no form there that cannot overflow. */
function balanceCheck(part: 'balance' | 'held', prefix: string): Check {
  return {
    sql: `select a.id as id, a.${part} as kept, e.total_high as total_high, e.total_low as total_low from accounts a
          left join (select account, ${wideSum('amount', 'total')} from entries
            where account like '${prefix}:%' group by account) e on e.account = '${prefix}:' || a.id`,
    describe(row) {
      const [kept, total] = [integer(row, 'kept'), wide(row, 'total')];
      if (kept === total) return undefined;
      return `Account '${text(row, 'id')}' has a ${part} of ${kept}, its entries add up to ${total}`;
    },
  };
}

const CHECKS: readonly Check[] = [
  {
    sql: 'select movement, sum(amount) as total from entries group by movement having sum(amount) <> 0',
    describe: (row) => `Movement ${integer(row, 'movement')} adds up to ${integer(row, 'total')}`,
  },
  {
    sql: `select e.movement as movement from entries e left join movements m on m.seq = e.movement
          where m.seq is null group by e.movement`,
    describe: (row) => `Entries of movement ${integer(row, 'movement')} exist without it`,
  },
  {
    sql: `select e.account as account from entries e where (e.account like 'customer:%' or e.account like 'held:%')
          and not exists (select 1 from accounts a where e.account in ('customer:' || a.id, 'held:' || a.id))
          group by e.account`,
    describe: (row) => `Entries on '${text(row, 'account')}' have no account`,
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
          where (p.state = 'settled') <> (m.seq is not null)`,
    describe: (row) => `Payment '${text(row, 'id')}' is settled and not posted, or posted and not settled`,
  },
];

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

async function sumOf(session: Session, from: string): Promise<bigint> {
  const [row] = await session.all(`select ${wideSum('amount', 'amount')} from ${from}`);
  return wide(row, 'amount');
}

export function audit(database: Database): Promise<AuditReport> {
  return database.snapshot(async (session) => {
    const problems: string[] = [];
    const sum = await sumOf(session, 'entries');
    if (sum !== 0n) problems.push(`All entries add up to ${sum}, not to zero`);
    for (const check of [...CHECKS, balanceCheck('balance', 'customer'), balanceCheck('held', 'held')]) {
      problems.push(...(await problemsOf(session, check)));
    }
    const income = await sumOf(session, `entries where account = '${REVENUE}'`);
    const charged = await sumOf(session, 'usage_daily');
    if (income !== charged) problems.push(`Income is ${income}, the charges of all usage add up to ${charged}`);
    return {
      sound: problems.length === 0,
      sum,
      movements: await countOf(session, 'movements'),
      accounts: await countOf(session, 'accounts'),
      openHolds: await countOf(session, "holds where state = 'open'"),
      problems,
    };
  });
}
