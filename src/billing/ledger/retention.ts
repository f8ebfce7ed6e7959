// Removal of what is no longer needed: charges of whole months, and closed leases. Charges of a month go only when all of its days
// were found sound by an audit and their usage is still the same; the sums by day in `usage_daily` stay, so that balances
// can be audited without the charges.

import { auditedDays, daysOf, isSame, usageByDay } from './audit.ts';
import { listMonths, rangeOf } from './charges.ts';
import type { Database, Reads } from './database.ts';
import { inRounds } from './rounds.ts';
import { DELETE_HOLDS, integer, text } from './tables.ts';

/** A closed lease is kept for a day, for those who look for what happened. */
const CLOSED_LEASE_MS = 86_400_000;

/** Rows removed in one transaction: commits wait no longer than some milliseconds. */
const ROUND = 1000;

export interface Pruned {
  /** Months whose charges were removed, as `YYYY_MM`. */
  readonly months: readonly string[];
  /** Months that are old enough and were not found sound. */
  readonly kept: readonly string[];
  readonly leases: number;
}

/** `chargesBeforeMs`: null keeps all charges. */
export async function prune(database: Database, chargesBeforeMs: number | null): Promise<Pruned> {
  const leases = await pruneLeases(database);
  const [months, kept]: [string[], string[]] = [[], []];
  if (chargesBeforeMs !== null) {
    const old = (await database.snapshot(listMonths)).filter((month) => rangeOf(month).untilMs <= chargesBeforeMs);
    for (const month of old) ((await pruneMonth(database, month)) ? months : kept).push(month);
  }
  return { months, kept, leases };
}

function pruneLeases(database: Database): Promise<number> {
  const sql = `select id from holds where kind = 'lease' and state = 'closed'
    and expires_ms < ${database.dialect.nowMs} - ${CLOSED_LEASE_MS} order by expires_ms limit $1`;
  return inRounds(ROUND, async () => {
    const rows = await database.transaction(async (session) => {
      const ids = (await session.all(sql, [BigInt(ROUND)])).map((row) => text(row, 'id'));
      return ids.length === 0 ? [] : await session.find(DELETE_HOLDS, ids);
    });
    return rows.length;
  });
}

/** False when the month was not found sound. */
async function pruneMonth(database: Database, month: string): Promise<boolean> {
  const audited = await database.snapshot((session) => chargesIfSound(session, month), 'report');
  if (audited === null) return false;
  return await database.exclusive(async (session) => {
    if (database.dialect.name === 'postgres') {
      // Behind a reader that takes long, others would wait for this lock too.
      await session.all("set local lock_timeout to '1s'");
      await session.all(`lock table charges_${month} in access exclusive mode`);
    }
    // Charges are only added: as many as the audit read are those.
    const [row] = await session.all(`select count(*) as count from charges_${month}`);
    if (row === undefined || integer(row, 'count') !== audited) return false;
    await session.all(`drop table charges_${month}`);
    await session.all('update charge_months set pruned = 1 where month = $1', [month]);
    return true;
  });
}

/** How many charges the audit has read that found all days of the month sound; null when one was not, or its usage has changed since. */
async function chargesIfSound(session: Reads, month: string): Promise<bigint | null> {
  const [used, audited] = [await usageByDay(session, month), await auditedDays(session)];
  let charges = 0n;
  for (const day of daysOf(month)) {
    const sums = audited.get(day);
    if (sums === undefined || !isSame(sums, used.get(day))) return null;
    charges += sums.charges;
  }
  return charges;
}
