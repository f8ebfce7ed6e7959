// Brings a database to the newest schema when it is opened. One process at a time, each version whole or not at all.
// A schema that a newer program has left is refused: its rows may mean something else.

import type { Database, Table } from './database.ts';
import { type Migration, MIGRATIONS } from './migrations/index.ts';
import { LedgerError } from './store.ts';
import { integer } from './tables.ts';

const VERSIONS: Table = {
  name: 'schema_version',
  columns: { version: 'bigint', name: 'text', applied_ms: 'bigint' },
  key: ['version'],
};

/** Applies what is missing; answers with how many versions that was. */
export async function migrate(
  database: Database,
  dateMs: number,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<number> {
  const newest = BigInt(migrations.at(-1)?.version ?? 0);
  return await database.exclusive(async (session) => {
    const { integer: type, tableOptions } = database.dialect;
    await session.all(
      `create table if not exists schema_version
       (version ${type} primary key, name text not null, applied_ms ${type} not null) ${tableOptions}`,
    );
    const [row] = await session.all('select coalesce(max(version), 0) as version from schema_version');
    const version = row === undefined ? 0n : integer(row, 'version');
    if (version > newest) {
      const message = `The store has schema version ${version}; this program knows ${newest} and older ones. Start a newer program.`;
      throw new LedgerError('schema-newer', message);
    }
    const missing = migrations.filter((migration) => BigInt(migration.version) > version);
    for (const migration of missing) {
      for (const statement of migration.statements(database.dialect)) await session.all(statement);
      const applied = { version: BigInt(migration.version), name: migration.name, applied_ms: BigInt(dateMs) };
      await session.write(VERSIONS, [applied]);
    }
    return missing.length;
  });
}
