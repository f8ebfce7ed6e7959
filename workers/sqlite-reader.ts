// Entry of a thread that reads a SQLite file: runs the statements of one snapshot at a time, so that the thread that commits goes on.

import { parentPort, workerData } from 'node:worker_threads';
import { lowerPriority } from '../src/actor/thread-priority.ts';
import type { Row } from '../src/billing/ledger/database.ts';
import { READER_ROWS, type ReaderReply, type ReaderRequest } from '../src/billing/ledger/sqlite-reader.ts';
import { BUSY_MS, loadDriver, SqliteStatements } from '../src/billing/ledger/sqlite-statements.ts';

lowerPriority();

const { DatabaseSync } = loadDriver();
const connection = new DatabaseSync(workerData as string, { readOnly: true, timeout: BUSY_MS });
const statements = new SqliteStatements(connection);
let rows: Iterator<Row> = [][Symbol.iterator]();

function next(): ReaderReply {
  const found: Row[] = [];
  while (found.length < READER_ROWS) {
    const { done, value } = rows.next();
    if (done === true) return { kind: 'rows', rows: found, isLast: true };
    found.push(value);
  }
  return { kind: 'rows', rows: found, isLast: false };
}

function answer(request: Exclude<ReaderRequest, 'close'>): ReaderReply {
  try {
    if (request !== 'more') rows = statements.iterate(request.sql, request.params);
    return next();
  } catch (error) {
    return { kind: 'failed', error };
  }
}

parentPort?.on('message', (request: ReaderRequest) => {
  if (request === 'close') {
    connection.close();
    parentPort?.close();
  } else {
    parentPort?.postMessage(answer(request));
  }
});
