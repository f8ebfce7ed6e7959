// The ledger's database on PostgreSQL, shared by many gateways. A commit locks the rows of its accounts, and writes rows as
// arrays, so that it is a dozen statements whatever its size. The driver `pg` is loaded on first use only.

import type { Client, Pool, QueryConfig } from 'pg';
import type { Clock, TimerHandle } from '../../actor/index.ts';
import {
  type Blame,
  type Cell,
  clockOf,
  type Database,
  type Dialect,
  type Lookup,
  type Match,
  type ReadKind,
  type Row,
  type Session,
  type Write,
} from './database.ts';
import { LedgerError } from './ledger.ts';
import { ReadTurns } from './read-turns.ts';

/** One for commits, two for accounts that are locked elsewhere, the rest for reads, of which `ReadTurns` lets three begin, and keys. */
const MAX_CONNECTIONS = 6;

const CONNECT_MS = 10_000;

/** Beyond the server's own limit, where there is one: the server does not answer any more, and the connection is given up. */
const SILENT_MS = 5000;

/** First probe of a connection without traffic. */
const KEEP_ALIVE_MS = 10_000;

interface Limits {
  /** Longest wait for a row that another transaction has locked. */
  readonly lockMs: number;
  readonly statementMs: number;
}

/** Short, so that a lock elsewhere delays little; a statement of a commit takes some milliseconds. */
const COMMIT: Limits = { lockMs: 1000, statementMs: 10_000 };

/** Tables are rebuilt and indexes built in one statement each. */
const MIGRATION: Limits = { lockMs: 60_000, statementMs: 3_600_000 };

const READ: Limits = { lockMs: 5000, statementMs: 30_000 };

/** Audits and sums over all accounts. */
const REPORT: Limits = { lockMs: 5000, statementMs: 600_000 };

/**
 * Settings of one transaction, because a pooler gives the connection to others after it. The server ends a transaction whose
 * gateway is silent for that long: a host that vanishes in the middle of a commit does not keep its locks.
 */
function settings({ lockMs, statementMs }: Limits): string {
  return [
    `set local lock_timeout to ${lockMs}`,
    `set local statement_timeout to ${statementMs}`,
    'set local idle_in_transaction_session_timeout to 10000',
    'set local tcp_keepalives_idle to 10; set local tcp_keepalives_interval to 5; set local tcp_keepalives_count to 3',
    'set local tcp_user_timeout to 20000',
  ].join('; ');
}

/** Pause before the listening connection is opened again; watchers poll meanwhile. */
const LISTEN_AGAIN_MS = 1000;

const CHANNEL = 'headrace_changes';

/** Advisory lock of migrations; an arbitrary number. */
const MIGRATION_LOCK = 4_872_391_207n;

/** Not `now()`, which is the time at which the transaction began. */
const NOW_MS = '(extract(epoch from clock_timestamp()) * 1000)::bigint';

/** Type numbers of int8, int2, int4 and numeric. */
const INTEGERS: ReadonlySet<number> = new Set([20, 21, 23, 1700]);

/** Classes of SQLSTATE: the data of a statement, a rule of a table. */
const BAD_DATA = /^(22|23)/;

/** Serialization failure, deadlock, lock not available, and a row that another process inserted first. */
const CONFLICT = /^(40...|55P03|23505)$/;

type Driver = (typeof import('pg'))['default'];

async function loadDriver(): Promise<Driver> {
  try {
    const module = await import('pg');
    return module.default;
  } catch (cause) {
    throw new LedgerError('driver-missing', 'A store on PostgreSQL needs the package pg: npm install pg', { cause });
  }
}

/** One array per column. */
function arraysOf(columns: readonly string[], rows: readonly Row[]): Cell[][] {
  return columns.map((column) => rows.map((row) => row[column] ?? null));
}

function ignore(): void {
  // What breaks a connection is told by the statement that it fails.
}

/** Runs a statement in one transaction. */
type Query = (text: string, values?: readonly (Cell | readonly Cell[])[]) => Promise<Row[]>;

class PostgresSession implements Session {
  readonly holdsWriteLock = false;
  readonly #query: Query;

  constructor(query: Query) {
    this.#query = query;
  }

  async all(sql: string, params: readonly Cell[] = []): Promise<Row[]> {
    return await this.#query(sql, params);
  }

  async find({ postgres }: Lookup, keys: readonly string[]): Promise<Row[]> {
    return await this.#query(postgres, [keys]);
  }

  async match({ columns, postgres }: Match, rows: readonly Row[]): Promise<Row[]> {
    return await this.#query(postgres, arraysOf(columns, rows));
  }

  async write({ columns, postgres }: Write, rows: readonly Row[]): Promise<void> {
    await this.#query(postgres, arraysOf(columns, rows));
  }

  async clockMs(): Promise<number> {
    return await clockOf(this, NOW_MS);
  }

  async notify(): Promise<void> {
    await this.#query(`notify ${CHANNEL}`);
  }
}

/** Integers of every width that the ledger reads become bigint, sums included. */
function types({ types: standard }: Driver): { getTypeParser: Driver['types']['getTypeParser'] } {
  const getTypeParser = (oid: number, format?: 'text' | 'binary'): unknown =>
    INTEGERS.has(oid) ? BigInt : standard.getTypeParser(oid, format as 'text');
  return { getTypeParser: getTypeParser as Driver['types']['getTypeParser'] };
}

function appendOnly(tables: readonly string[]): string[] {
  return [
    `create function headrace_append_only() returns trigger language plpgsql as
     'begin raise exception ''% takes new rows only'', tg_table_name; end'`,
    ...tables.map(
      (table) =>
        `create trigger ${table}_append_only before update or delete or truncate on ${table}
         for each statement execute function headrace_append_only()`,
    ),
  ];
}

export class PostgresDatabase implements Database {
  readonly dialect: Dialect = {
    name: 'postgres',
    integer: 'bigint',
    integer4: 'integer',
    integer2: 'smallint',
    numbered: 'integer generated by default as identity primary key',
    tableOptions: '',
    nowMs: NOW_MS,
    dayOf: (ms) => `to_char(to_timestamp(${ms} / 1000) at time zone 'UTC', 'YYYY-MM-DD')`,
    appendOnly,
  };
  readonly file = null;
  readonly #driver: Driver;
  readonly #url: string;
  readonly #clock: Clock;
  readonly #pool: Pool;
  /** Reads that take long must not keep commits from their connections. */
  readonly #reads: ReadTurns;
  #listener: Client | undefined;
  #listenTimer: TimerHandle | undefined;
  #closed = false;

  static async open(url: string, clock: Clock): Promise<PostgresDatabase> {
    return new PostgresDatabase(await loadDriver(), url, clock);
  }

  private constructor(driver: Driver, url: string, clock: Clock) {
    this.#driver = driver;
    this.#url = url;
    this.#clock = clock;
    this.#reads = new ReadTurns(clock);
    this.#pool = new driver.Pool({
      connectionString: url,
      max: MAX_CONNECTIONS,
      connectionTimeoutMillis: CONNECT_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
      types: types(driver),
    });
    // A connection that breaks is replaced at its next use. Without listeners the error would end the process: the pool has its own while
    // a connection is idle, and takes it off before its user can have one.
    this.#pool.on('error', ignore);
    this.#pool.on('connect', (client) => client.on('error', ignore));
  }

  // With asynchronous commit, a crash of the server could lose credit.
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.#within('begin; set local synchronous_commit to on', COMMIT, work);
  }

  exclusive<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.#within('begin; set local synchronous_commit to on', MIGRATION, async (session) => {
      await session.all('select pg_advisory_xact_lock($1)', [MIGRATION_LOCK]);
      return await work(session);
    });
  }

  snapshot<T>(work: (session: Session) => Promise<T>, kind: ReadKind = 'read'): Promise<T> {
    const limits = kind === 'report' ? REPORT : READ;
    return this.#reads.run(kind, () => this.#within('begin isolation level repeatable read read only', limits, work));
  }

  async #within<T>(begin: string, limits: Limits, work: (session: Session) => Promise<T>): Promise<T> {
    const client = await this.#pool.connect();
    const silentMs = limits.statementMs + SILENT_MS;
    let broken: Error | undefined;
    const query: Query = async (text, values = []) => {
      try {
        const config: QueryConfig & { readonly query_timeout: number } = { text, query_timeout: silentMs };
        config.values = [...values];
        return (await client.query<Record<string, Cell>>(config)).rows;
      } catch (error) {
        // No word of the server: the connection is in an unknown state. Closing it rolls back.
        if (!(error instanceof this.#driver.DatabaseError)) broken = error as Error;
        throw error;
      }
    };
    try {
      await query(`${begin}; ${settings(limits)}`);
      const done = await work(new PostgresSession(query));
      await query('commit');
      return done;
    } catch (error) {
      if (broken === undefined) await query('rollback').catch((cause: Error) => (broken = cause));
      throw error;
    } finally {
      client.release(broken);
    }
  }

  blame(error: unknown): Blame {
    if (error instanceof TypeError || error instanceof RangeError) return 'command';
    if (!(error instanceof this.#driver.DatabaseError)) return 'store';
    const code = error.code ?? '';
    if (CONFLICT.test(code)) return 'conflict';
    return BAD_DATA.test(code) ? 'command' : 'store';
  }

  async listen(onNudge: () => void): Promise<void> {
    if (this.#closed) return;
    const client = new this.#driver.Client({
      connectionString: this.#url,
      connectionTimeoutMillis: CONNECT_MS,
      query_timeout: SILENT_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    });
    client.on('notification', onNudge);
    const lose = (): void => this.#listenAgain(client, onNudge);
    client.on('error', lose);
    client.on('end', lose);
    this.#listener = client;
    try {
      await client.connect();
      await client.query(`listen ${CHANNEL}`);
      onNudge();
    } catch {
      lose();
    }
  }

  #listenAgain(lost: Client, onNudge: () => void): void {
    if (this.#closed || this.#listener !== lost) return;
    this.#listener = undefined;
    void lost.end().catch(() => undefined);
    this.#listenTimer = this.#clock.setTimeout(() => void this.listen(onNudge), LISTEN_AGAIN_MS);
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#listenTimer !== undefined) this.#clock.clearTimeout(this.#listenTimer);
    await this.#listener?.end().catch(() => undefined);
    await this.#pool.end();
  }
}
