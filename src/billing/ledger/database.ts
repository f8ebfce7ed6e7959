// Database interface of the ledger: statements that both SQLite and PostgreSQL understand, with `$1` for parameters, and bulk reads
// and writes whose SQL text is made once (`tables.ts`). Integers are bigint in both directions.

export type Cell = bigint | string | null;
export type Row = Readonly<Record<string, Cell>>;

/** Reads the rows of one table whose column is one of the given keys. */
export interface Lookup {
  readonly sqlite: string;
  readonly postgres: string;
}

/** Reads the rows of one table whose columns equal those of one of the given rows. */
export interface Match {
  /** In the order of the parameters. */
  readonly columns: readonly string[];
  /** Takes one row. */
  readonly sqlite: string;
  /** Takes one array per column. */
  readonly postgres: string;
}

/** Writes rows of one table. */
export interface Write {
  /** In the order of the parameters. */
  readonly columns: readonly string[];
  /** Takes one row. */
  readonly sqlite: string;
  /** Takes one array per column. */
  readonly postgres: string;
}

/** Reads inside one transaction or snapshot. */
export interface Reads {
  all(sql: string, params?: readonly Cell[]): Promise<Row[]>;
  find(lookup: Lookup, keys: readonly string[]): Promise<Row[]>;
}

/** Statements inside one transaction. */
export interface Session extends Reads {
  /** True when no other process writes to the database before this transaction ends, so that every read is locked. */
  readonly holdsWriteLock: boolean;
  match(match: Match, rows: readonly Row[]): Promise<Row[]>;
  write(write: Write, rows: readonly Row[]): Promise<void>;
  /** The database's own clock, in milliseconds since 1970. */
  clockMs(): Promise<number>;
  /** Wakes the watchers of other processes once this transaction is committed, where the database can. */
  notify(): Promise<void>;
}

/**
 * What a failed transaction failed on: one `command` in it, a `conflict` that may not happen again, or the `store`, which
 * would refuse every command alike.
 */
export type Blame = 'command' | 'conflict' | 'store';

/**
 * How much a snapshot reads. `read`: a few pages, with what the thread of the ledger waits for. `scan`: many rows, for the gateway itself. `report`:
 * rows of all accounts, for people; it may take minutes. A SQLite file has threads for the last two.
 */
export type ReadKind = 'read' | 'scan' | 'report';

export interface Dialect {
  readonly name: 'sqlite' | 'postgres';
  /** Types of 64, 32 and 16 bits. */
  readonly integer: string;
  readonly integer4: string;
  readonly integer2: string;
  /** A 32-bit primary key that the database numbers. */
  readonly numbered: string;
  /** Follows the bracket that closes a table definition. */
  readonly tableOptions: string;
  /** The database's own clock in milliseconds since 1970, as an expression. */
  readonly nowMs: string;
  /** The day in UTC of a date in milliseconds, as `YYYY-MM-DD`: an expression of one. */
  readonly dayOf: (ms: string) => string;
  /** Statements after which rows of these tables can neither be changed nor deleted. */
  readonly appendOnly: (tables: readonly string[]) => readonly string[];
}

export interface Database {
  readonly dialect: Dialect;
  /** Path of its file; null when other threads cannot open it or need not. */
  readonly file: string | null;
  /** Commits durably, or rolls back and rejects. */
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** As `transaction`, but one process at a time over the whole database: for migrations. */
  exclusive<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** Reads that all see the same moment. */
  snapshot<T>(work: (session: Reads) => Promise<T>, kind?: ReadKind): Promise<T>;
  /** Copies the database into a new file, page by page, while others write. */
  readonly backUp?: (file: string) => Promise<void>;
  blame(error: unknown): Blame;
  /** Calls back after `notify` of any process, and when such calls may have been missed. */
  listen(onNudge: () => void): Promise<void>;
  close(): Promise<void>;
}

/** What `read` makes of the row with this key. */
export async function findOne<T>(
  database: Database,
  lookup: Lookup,
  key: string,
  read: (row: Row) => T,
): Promise<T | undefined> {
  const rows = await database.snapshot((session) => session.find(lookup, [key]));
  return rows.map(read)[0];
}

/** The clock of the database, in milliseconds since 1970. `nowMs`: of its dialect. */
export async function clockOf(reads: Reads, nowMs: Dialect['nowMs']): Promise<number> {
  const [row] = await reads.all(`select ${nowMs} as now_ms`);
  return Number(row?.['now_ms']);
}

/** Rows that are read in a few milliseconds. */
const FEW_ROWS = 1000;

/** Begins a query of at most as many rows as it takes to tell few from more. `from`: with its conditions. */
export function fewRows(from: string): string {
  return `select count(*) as count from (select 1 from ${from} limit ${FEW_ROWS + 1}) few`;
}

/** A SQLite file has threads for what reads many rows: for few ones they are not needed. */
export async function readKind(
  database: Database,
  many: ReadKind,
  count: (session: Reads) => Promise<Row[]>,
): Promise<ReadKind> {
  if (database.file === null) return many;
  const [row] = await database.snapshot(count);
  return row !== undefined && BigInt(row['count'] ?? 0n) <= FEW_ROWS ? 'read' : many;
}
