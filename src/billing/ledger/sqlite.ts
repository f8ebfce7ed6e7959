// The ledger's database in one SQLite file: WAL, every commit synced to the disk. Statements run synchronously in the thread
// that opened it, which must serve no requests: a commit of a thousand charges takes some tens of milliseconds. Scans and reports
// of a file run in threads of their own.

import { existsSync, realpathSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import type { Clock } from '../../actor/index.ts';
import {
  type Blame,
  type Cell,
  clockOf,
  type Database,
  type Dialect,
  type Lookup,
  type Match,
  type ReadKind,
  type Reads,
  type Row,
  type Session,
  type Write,
} from './database.ts';
import { LedgerError } from './ledger.ts';
import { ReadTurns } from './read-turns.ts';
import { SqliteReader } from './sqlite-reader.ts';
import { BUSY_MS, loadDriver, SqliteStatements } from './sqlite-statements.ts';

/** Pauses between the tries: the thread goes on with other work meanwhile. The last one repeats. */
const BUSY_PAUSES_MS = [2, 5, 10, 20, 50];

const NOW_MS = "cast(unixepoch('subsec') * 1000 as integer)";

/** A statement that reads, and finds no row of a ledger. */
const READ = 'select 1 from sqlite_schema limit 1';

/** Pages copied at a time by a backup: 4 MiB. */
const BACKUP_PAGES = 1024;

/** Low bytes of SQLite's result codes: another connection has locked the file; the row breaks a rule of its table. */
const BUSY = 5;
const CONSTRAINT = 19;

/** SQLite throws it itself where it has no WAL. */
const READONLY_DBMOVED = 1032;

function hasCode(error: unknown, code: number): boolean {
  const { errcode } = error as { readonly errcode?: unknown };
  return typeof errcode === 'number' && errcode % 256 === code;
}

class SqliteSession implements Session {
  /** A transaction takes the write lock when it begins. */
  readonly holdsWriteLock = true;
  readonly #statements: SqliteStatements;

  constructor(connection: DatabaseSync) {
    this.#statements = new SqliteStatements(connection);
  }

  async all(sql: string, params: readonly Cell[] = []): Promise<Row[]> {
    return this.#statements.all(sql, params);
  }

  async find({ sqlite }: Lookup, keys: readonly string[]): Promise<Row[]> {
    return this.#statements.all(sqlite, [JSON.stringify(keys)]);
  }

  async match({ columns, sqlite }: Match, rows: readonly Row[]): Promise<Row[]> {
    const found: Row[] = [];
    const values: Cell[] = [];
    for (const row of rows) {
      for (const [at, column] of columns.entries()) values[at] = row[column] ?? null;
      found.push(...this.#statements.all(sqlite, values));
    }
    return found;
  }

  async write({ columns, sqlite }: Write, rows: readonly Row[]): Promise<void> {
    const statement = this.#statements.get(sqlite);
    const values: Cell[] = [];
    for (const row of rows) {
      for (const [at, column] of columns.entries()) values[at] = row[column] ?? null;
      statement.run(...values);
    }
  }

  async clockMs(): Promise<number> {
    return await clockOf(this, NOW_MS);
  }

  async notify(): Promise<void> {
    // Watchers of other processes poll: SQLite cannot wake them.
  }
}

/** Tells a file from another one at the same path; null for none. */
function identityOf(path: string): string | null {
  const stats = statSync(path, { throwIfNoEntry: false, bigint: true });
  return stats === undefined ? null : `${stats.dev} ${stats.ino}`;
}

/** The transactions of one open file, one at a time. */
interface Turns {
  last: Promise<unknown>;
}

/** Shared by all connections of this thread to a file: they follow each other without tries that find the file locked. */
const TURNS = new Map<string, WeakRef<Turns>>();

function turnsOf(path: string): Turns {
  if (path === ':memory:') return { last: Promise.resolve() };
  const file = realpathSync(path);
  const turns = TURNS.get(file)?.deref() ?? { last: Promise.resolve() };
  TURNS.set(file, new WeakRef(turns));
  return turns;
}

/** Calls `attempt` until it is not kept off by a lock, at most for BUSY_MS: it answers with the error of SQLite when it is. */
async function whileBusy(clock: Clock, attempt: () => Promise<Error | null>): Promise<void> {
  const endMs = clock.now() + BUSY_MS;
  for (let tries = 0; ; tries++) {
    const busy = await attempt();
    if (busy === null) return;
    if (clock.now() >= endMs) throw busy;
    const pauseMs = BUSY_PAUSES_MS[Math.min(tries, BUSY_PAUSES_MS.length - 1)] as number;
    await new Promise<void>((resolve) => clock.setTimeout(resolve, pauseMs));
  }
}

/** What SQLite throws because of a lock; null when nothing is thrown. All else is thrown on. */
function busyError(run: () => void): Error | null {
  try {
    run();
    return null;
  } catch (error) {
    if (hasCode(error, BUSY)) return error as Error;
    throw error;
  }
}

function appendOnly(tables: readonly string[]): string[] {
  return tables.flatMap((table) =>
    ['update', 'delete'].map(
      (change) =>
        `create trigger ${table}_no_${change} before ${change} on ${table}
         begin select raise(abort, '${table} takes new rows only'); end`,
    ),
  );
}

/** The schema version of a file, which is opened for reading only; 0 for a file without a ledger. Rejects for what is no database. */
export async function sqliteVersion(file: string, clock: Clock): Promise<number> {
  let version = 0;
  await whileBusy(clock, async () => busyError(() => (version = readVersion(file))));
  return version;
}

function readVersion(file: string): number {
  const { DatabaseSync } = loadDriver();
  const connection = new DatabaseSync(file, { readOnly: true });
  try {
    const [table] = connection.prepare("select name from sqlite_schema where name = 'schema_version'").all();
    if (table === undefined) return 0;
    const [row] = connection.prepare('select coalesce(max(version), 0) as version from schema_version').all();
    return Number(row?.['version']);
  } finally {
    connection.close();
  }
}

export class SqliteDatabase implements Database {
  readonly dialect: Dialect = {
    name: 'sqlite',
    integer: 'integer',
    integer4: 'integer',
    integer2: 'integer',
    numbered: 'integer primary key',
    tableOptions: 'strict',
    nowMs: NOW_MS,
    dayOf: (ms) => `date(${ms} / 1000, 'unixepoch')`,
    appendOnly,
  };
  readonly file: string | null;
  /** The files in use with what tells each from another one at its path. Commits are in the second one until they are copied to the first. */
  readonly #identities: readonly (readonly [path: string, identity: string | null])[];
  readonly #connection: DatabaseSync;
  readonly #session: SqliteSession;
  readonly #turns: Turns;
  readonly #clock: Clock;
  readonly #reads: ReadTurns;
  /** Threads that were started for reads, and those of them that have nothing to do. */
  readonly #readers = new Set<SqliteReader>();
  readonly #idleReaders: SqliteReader[] = [];
  #isClosed = false;

  /** Waits as a transaction does while another process has locked the file. */
  static async open(path: string, clock: Clock): Promise<SqliteDatabase> {
    let database: SqliteDatabase | undefined;
    await whileBusy(clock, async () => busyError(() => (database = new SqliteDatabase(path, clock))));
    return database as SqliteDatabase;
  }

  /** `:memory:` keeps nothing. */
  constructor(path: string, clock: Clock) {
    const { DatabaseSync } = loadDriver();
    this.file = path === ':memory:' ? null : resolve(path);
    this.#clock = clock;
    this.#reads = new ReadTurns(clock);
    this.#connection = new DatabaseSync(path);
    try {
      // SQLite would wait for a lock in this thread.
      this.#connection.exec('pragma busy_timeout = 0; pragma journal_mode = wal; pragma synchronous = full');
      // The first read makes the two files beside it.
      this.#connection.exec(READ);
    } catch (error) {
      this.#connection.close();
      throw error;
    }
    this.#identities = ['', '-wal', '-shm'].flatMap((end) =>
      this.file === null ? [] : [[this.file + end, identityOf(this.file + end)]],
    );
    this.#session = new SqliteSession(this.#connection);
    this.#turns = turnsOf(path);
  }

  /**
   * The default takes the write lock at the beginning: no transaction finds at its end that it has read old rows. `begin` takes its lock;
   * behind it no statement finds another one.
   */
  async transaction<T>(work: (session: Session) => Promise<T>, begin = 'begin immediate'): Promise<T> {
    let done: T | undefined;
    await whileBusy(this.#clock, async () => {
      const before = this.#turns.last;
      const turn = Promise.withResolvers<void>();
      this.#turns.last = turn.promise;
      await before;
      try {
        this.#checkFiles();
        const busy = busyError(() => this.#connection.exec(begin));
        if (busy !== null) {
          if (this.#connection.isTransaction) this.#connection.exec('rollback');
          return busy;
        }
        done = await work(this.#session);
        this.#connection.exec('commit');
        return null;
      } catch (error) {
        if (this.#connection.isTransaction) this.#connection.exec('rollback');
        throw error;
      } finally {
        turn.resolve();
      }
    });
    return done as T;
  }

  /** What is committed to a file that has no path any more would be gone with the process. */
  #checkFiles(): void {
    for (const [path, identity] of this.#identities) {
      if (identityOf(path) === identity) continue;
      const error = new Error(`${path} was moved, deleted or replaced while it is in use: put it back, or restart`);
      throw Object.assign(error, { errcode: READONLY_DBMOVED });
    }
  }

  exclusive<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.transaction(work);
  }

  /** Scans and reports of a file run in threads: statements of this connection run in this thread. */
  snapshot<T>(work: (session: Reads) => Promise<T>, kind: ReadKind = 'read'): Promise<T> {
    const { file } = this;
    // The first statement takes the lock of readers.
    if (kind === 'read' || file === null) return this.transaction(work, `begin; ${READ}`);
    return this.#reads.run(kind, async () => {
      if (this.#isClosed) throw new LedgerError('closed', 'The ledger is closed');
      this.#checkFiles();
      const reader = this.#idleReaders.pop() ?? new SqliteReader(file);
      this.#readers.add(reader);
      try {
        return await reader.snapshot(work);
      } finally {
        if (reader.isOpen) this.#idleReaders.push(reader);
        else this.#readers.delete(reader);
      }
    });
  }

  /**
   * Copies the file as it is when the copy begins. Pages are copied some at a time, so that this thread goes on with commits. The copy has
   * a connection with an open read transaction: without it SQLite begins again at the first page after each commit of another connection.
   */
  readonly backUp = async (file: string): Promise<void> => {
    if (this.file === null) throw new LedgerError('backup-unsupported', 'A store in memory has no file to back up');
    if (existsSync(file))
      throw new LedgerError('backup-unsupported', `${file} exists: a backup is written to a new file`);
    const folder = dirname(resolve(file));
    if (!existsSync(folder)) throw new LedgerError('backup-unsupported', `there is no folder ${folder}`);
    this.#checkFiles();
    const { backup, DatabaseSync } = loadDriver();
    const partial = `${file}.partial`;
    const source = new DatabaseSync(this.file, { timeout: BUSY_MS });
    try {
      source.exec(`begin; ${READ}`);
      await backup(source, partial, { rate: BACKUP_PAGES });
      renameSync(partial, file);
    } catch (error) {
      // It may have filled the disk of the store.
      rmSync(partial, { force: true });
      throw error;
    } finally {
      source.close();
    }
  };

  blame(error: unknown): Blame {
    const { errcode } = error as { readonly errcode?: unknown };
    return typeof errcode !== 'number' || hasCode(error, CONSTRAINT) ? 'command' : 'store';
  }

  async listen(): Promise<void> {
    // Nothing to listen to: watchers poll.
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    // Before the last connection, which copies commits to the file as it closes.
    await Promise.all(Array.from(this.#readers, (reader) => reader.close()));
    await this.#turns.last;
    this.#connection.close();
  }
}
