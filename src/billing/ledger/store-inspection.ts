// What is at the URL of a store, found without making or changing anything: schema version, and whether it may be written to.

import { access, constants, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Clock } from '../../actor/index.ts';
import { storeFile } from '../../config/store-url.ts';
import { PostgresDatabase } from './postgres.ts';
import { MIGRATIONS } from './schema.ts';
import { sqliteVersion } from './sqlite.ts';

export interface StoreInspection {
  /** False: a gateway makes it when it starts. */
  readonly exists: boolean;
  /** Of the schema; 0 without one. */
  readonly version: number;
  /** The newest version that this program knows; older ones are brought up to it when a gateway starts. */
  readonly newest: number;
  readonly isWritable: boolean;
}

/** Rejects when the store cannot be read. */
export async function inspectStore(url: string, clock: Clock): Promise<StoreInspection> {
  const newest = MIGRATIONS.at(-1)?.version ?? 0;
  if (/^postgres(ql)?:\/\//.test(url)) return { ...(await inspectPostgres(url, clock)), newest };
  const file = storeFile(url);
  if (file === null) return { exists: true, version: 0, newest, isWritable: true };
  const exists = await stat(file).then(
    () => true,
    () => false,
  );
  const version = exists ? await sqliteVersion(file, clock) : 0;
  // The journal is a file beside it.
  const isWritable = (!exists || (await mayWrite(file))) && (await mayWrite(dirname(file)));
  return { exists, version, newest, isWritable };
}

async function mayWrite(path: string): Promise<boolean> {
  return access(path, constants.W_OK).then(
    () => true,
    () => false,
  );
}

async function inspectPostgres(url: string, clock: Clock): Promise<Omit<StoreInspection, 'newest'>> {
  const database = await PostgresDatabase.open(url, clock);
  try {
    return await database.snapshot(async (session) => {
      const [table] = await session.all(
        "select to_regclass('schema_version')::text as found, pg_is_in_recovery()::text as standby",
      );
      const exists = (table?.['found'] ?? null) !== null;
      const [row] = exists ? await session.all('select coalesce(max(version), 0) as version from schema_version') : [];
      return { exists, version: Number(row?.['version'] ?? 0), isWritable: table?.['standby'] !== 'true' };
    });
  } finally {
    await database.close();
  }
}
