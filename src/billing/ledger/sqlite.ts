// The ledger's database in one SQLite file: WAL, every commit synced to the disk. It runs in the thread that opened it,
// the control plane: requests spend from leases and never wait for it, and a commit of a thousand settlements takes
// some tens of milliseconds a few times a second, which a thread of its own would not shorten. Only `open.ts` calls it.

import { realpathSync } from 'node:fs';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { type Blame, type Cell, type Database, type Dialect, insertion, type Row, type Session } from './database.ts';
import { LedgerError } from './store.ts';

/** How long a statement waits for another process that is writing. */
const BUSY_MS = 5000;

/** Low byte of SQLite's result codes: the row breaks a rule of its table. */
const CONSTRAINT = 19;

/** Loads `node:sqlite` without its one warning that it is experimental; every other warning passes. */
function loadDriver(): typeof import('node:sqlite') {
  const original = Object.getOwnPropertyDescriptor(process, 'emitWarning') ?? {};
  const warn = process.emitWarning.bind(process);
  process.emitWarning = ((warning: string | Error, ...rest: unknown[]) => {
    if (rest[0] === 'ExperimentalWarning' && String(warning).startsWith('SQLite')) return;
    Reflect.apply(warn, undefined, [warning, ...rest]);
  }) as typeof process.emitWarning;
  try {
    const driver = process.getBuiltinModule('node:sqlite') as typeof import('node:sqlite') | undefined;
    if (driver !== undefined) return driver;
    throw new LedgerError('driver-missing', 'This Node has no node:sqlite: use Node 22.13 or newer');
  } finally {
    Object.defineProperty(process, 'emitWarning', original);
  }
}

class SqliteSession implements Session {
  readonly #connection: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(connection: DatabaseSync) {
    this.#connection = connection;
  }

  async all(sql: string, params: readonly Cell[] = []): Promise<Row[]> {
    return this.#prepare(sql).all(...params) as Row[];
  }

  async find(table: Parameters<Session['find']>[0], column: string, keys: readonly string[]): Promise<Row[]> {
    if (keys.length === 0) return [];
    const sql = `select * from ${table.name} where ${column} in (select value from json_each($1))`;
    return await this.all(sql, [JSON.stringify(keys)]);
  }

  async write(...[table, rows, onConflict]: Parameters<Session['write']>): Promise<void> {
    if (rows.length === 0) return;
    const columns = Object.keys(table.columns);
    const places = columns.map((_, at) => `$${at + 1}`).join(', ');
    const statement = this.#prepare(insertion(table, `values (${places})`, onConflict));
    for (const row of rows) statement.run(...columns.map((column) => row[column] ?? null));
  }

  async nextMovements(count: number): Promise<bigint[]> {
    if (count === 0) return [];
    const [row] = await this.all('select coalesce(max(seq), 0) as last from movements');
    const last = row?.['last'] as bigint;
    return Array.from({ length: count }, (_, at) => last + BigInt(at) + 1n);
  }

  async notify(): Promise<void> {
    // Other processes poll: SQLite has no way to wake them.
  }

  #prepare(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#connection.prepare(sql.replaceAll(/\$(\d+)/g, '?$1'));
      statement.setReadBigInts(true);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

/** One transaction at a time. */
class Turns {
  #last: Promise<unknown> = Promise.resolve();

  take<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => undefined);
    return result;
  }
}

/**
 * The turns of each open file, shared by all its connections in this thread: a statement that waits for a lock stops
 * the thread, so it must not wait for a transaction of the same thread.
 */
const TURNS = new Map<string, WeakRef<Turns>>();

function turnsOf(path: string): Turns {
  if (path === ':memory:') return new Turns();
  const file = realpathSync(path);
  const turns = TURNS.get(file)?.deref() ?? new Turns();
  TURNS.set(file, new WeakRef(turns));
  return turns;
}

export class SqliteDatabase implements Database {
  readonly dialect: Dialect = { integer: 'integer', tableOptions: 'strict', extras: [] };
  readonly #connection: DatabaseSync;
  readonly #session: SqliteSession;
  readonly #turns: Turns;

  /** `:memory:` keeps nothing. */
  constructor(path: string) {
    const { DatabaseSync } = loadDriver();
    this.#connection = new DatabaseSync(path);
    this.#connection.exec(`pragma busy_timeout = ${BUSY_MS}; pragma journal_mode = wal; pragma synchronous = full`);
    this.#session = new SqliteSession(this.#connection);
    this.#turns = turnsOf(path);
  }

  // The write lock is taken at the beginning: a transaction never finds out at its end that it read old rows.
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.#within('begin immediate', work);
  }

  exclusive<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.#within('begin immediate', work);
  }

  snapshot<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.#within('begin', work);
  }

  #within<T>(begin: string, work: (session: Session) => Promise<T>): Promise<T> {
    return this.#turns.take(async () => {
      this.#connection.exec(begin);
      try {
        const done = await work(this.#session);
        this.#connection.exec('commit');
        return done;
      } catch (error) {
        if (this.#connection.isTransaction) this.#connection.exec('rollback');
        throw error;
      }
    });
  }

  blame(error: unknown): Blame {
    const code = (error as { errcode?: unknown }).errcode;
    if (typeof code !== 'number') return 'command';
    return code % 256 === CONSTRAINT ? 'command' : 'store';
  }

  async listen(): Promise<void> {
    // Nothing to hear: watchers poll.
  }

  async close(): Promise<void> {
    await this.#turns.take(async () => this.#connection.close());
  }
}
