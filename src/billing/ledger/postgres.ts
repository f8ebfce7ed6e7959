// The ledger's database on PostgreSQL, shared by many gateways. A commit locks the rows of its accounts, and writes rows as
// arrays, so that it is a dozen statements whatever its size. The driver `pg` is loaded on first use only.

import type { Client, Pool, PoolClient } from 'pg';
import type { Clock, TimerHandle } from '../../actor/index.ts';
import type { Blame, Cell, Database, Dialect, Lookup, Row, Session, Write } from './database.ts';
import { LedgerError } from './store.ts';

/** One for commits, the rest for reads and keys. */
const MAX_CONNECTIONS = 4;

const CONNECT_MS = 10_000;

/** A statement that takes longer is given up and its commit tried again: it would keep its accounts locked. */
const STATEMENT_MS = 30_000;

/** Pause before the listening connection is opened again; watchers poll meanwhile. */
const LISTEN_AGAIN_MS = 1000;

const CHANNEL = 'headrace_changes';

/** Advisory lock of migrations; an arbitrary number. */
const MIGRATION_LOCK = 4_872_391_207n;

const INT8 = 20;
const NUMERIC = 1700;

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

class PostgresSession implements Session {
  readonly holdsWriteLock = false;
  readonly #client: PoolClient;

  constructor(client: PoolClient) {
    this.#client = client;
  }

  async all(sql: string, params: readonly Cell[] = []): Promise<Row[]> {
    const { rows } = await this.#client.query<Record<string, Cell>>(sql, params as Cell[]);
    return rows;
  }

  async find({ postgres }: Lookup, keys: readonly string[]): Promise<Row[]> {
    const { rows } = await this.#client.query<Record<string, Cell>>(postgres, [keys]);
    return rows;
  }

  async write({ columns, postgres }: Write, rows: readonly Row[]): Promise<void> {
    const values = columns.map((column) => rows.map((row) => row[column] ?? null));
    await this.#client.query(postgres, values);
  }

  async nextMovements(count: number): Promise<bigint[]> {
    const rows = await this.all("select nextval('movement_seq') as seq from generate_series(1, $1)", [BigInt(count)]);
    return rows.map((row) => row['seq'] as bigint);
  }

  async notify(): Promise<void> {
    await this.#client.query(`notify ${CHANNEL}`);
  }
}

/** Integers of every width that the ledger reads become bigint, sums included. */
function types({ types: standard }: Driver): { getTypeParser: Driver['types']['getTypeParser'] } {
  const getTypeParser = (oid: number, format?: 'text' | 'binary'): unknown =>
    oid === INT8 || oid === NUMERIC ? BigInt : standard.getTypeParser(oid, format as 'text');
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
    integer: 'bigint',
    tableOptions: '',
    extras: ['create sequence movement_seq'],
    appendOnly,
  };
  readonly #driver: Driver;
  readonly #url: string;
  readonly #clock: Clock;
  readonly #pool: Pool;
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
    this.#pool = new driver.Pool({
      connectionString: url,
      max: MAX_CONNECTIONS,
      connectionTimeoutMillis: CONNECT_MS,
      query_timeout: STATEMENT_MS,
      keepAlive: true,
      types: types(driver),
    });
    // An idle connection that breaks is replaced at its next use. Without a listener the error would end the process.
    this.#pool.on('error', () => undefined);
  }

  // With asynchronous commit, a crash of the server could lose credit.
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.#within('begin; set local synchronous_commit to on', work);
  }

  exclusive<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.transaction(async (session) => {
      await session.all('select pg_advisory_xact_lock($1)', [MIGRATION_LOCK]);
      return await work(session);
    });
  }

  snapshot<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.#within('begin isolation level repeatable read read only', work);
  }

  async #within<T>(begin: string, work: (session: Session) => Promise<T>): Promise<T> {
    const client = await this.#pool.connect();
    // Without a listener, a connection that breaks between two statements would end the process.
    const ignore = (): void => undefined;
    client.on('error', ignore);
    let broken: Error | undefined;
    try {
      await client.query(begin);
      const done = await work(new PostgresSession(client));
      await client.query('commit');
      return done;
    } catch (error) {
      await client.query('rollback').catch((cause: Error) => {
        broken = cause;
      });
      throw error;
    } finally {
      client.off('error', ignore);
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
      keepAlive: true,
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
