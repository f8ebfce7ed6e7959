// Entry of an auditing thread: audits a SQLite file and answers with the result, so that the thread that commits goes on.

import { parentPort, workerData } from 'node:worker_threads';
import { systemClock } from '../src/actor/clock.ts';
import { lowerPriority } from '../src/actor/thread-priority.ts';
import { type AuditOptions, readAudit } from '../src/billing/ledger/audit.ts';
import { SqliteDatabase } from '../src/billing/ledger/sqlite.ts';

lowerPriority();

const { file, options } = workerData as { readonly file: string; readonly options: AuditOptions };
const database = new SqliteDatabase(file, systemClock);
try {
  parentPort?.postMessage(await readAudit(database, options));
} finally {
  await database.close();
}
