// Opens the ledger that a URL of the setting `store` names, brings its schema up to date and hands it out. Called by the
// composition and by the command line.

import type { Clock } from '../../actor/index.ts';
import type { Database } from './database.ts';
import { createLedger, type LedgerOptions } from './ledger.ts';
import { migrate } from './migrate.ts';
import { PostgresDatabase } from './postgres.ts';
import { SqliteDatabase } from './sqlite.ts';
import { type Ledger, LedgerError } from './store.ts';

async function openDatabase(url: string, clock: Clock): Promise<Database> {
  if (/^postgres(ql)?:\/\//.test(url)) return await PostgresDatabase.open(url, clock);
  const path = url === ':memory:' ? url : /^sqlite:(.+)$/.exec(url)?.[1];
  if (path !== undefined) return new SqliteDatabase(path);
  const message = 'A store is sqlite:FILE, sqlite::memory: or postgres://USER@HOST/DATABASE';
  throw new LedgerError('url-invalid', message);
}

/** `sqlite:FILE`, `sqlite::memory:` (also `:memory:`), `postgres://…` or `postgresql://…`. */
export async function openLedger(url: string, options: LedgerOptions): Promise<Ledger> {
  const database = await openDatabase(url, options.clock);
  try {
    await migrate(database, options.dateMs());
  } catch (error) {
    await database.close();
    throw error;
  }
  return createLedger(database, options);
}
