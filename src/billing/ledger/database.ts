// What the ledger needs of a database: a few statements that both SQLite and PostgreSQL speak, written once with `$1`
// places, and bulk reads and writes by table. `sqlite.ts` and `postgres.ts` implement it; nothing else imports them
// but `open.ts`. Integers come and go as bigint.

export type Cell = bigint | string | null;
export type Row = Readonly<Record<string, Cell>>;

export interface Table {
  readonly name: string;
  readonly columns: Readonly<Record<string, 'bigint' | 'text'>>;
  readonly key: readonly string[];
}

/** What becomes of a row whose key is there already; without it the write fails. Columns are replaced or added to. */
export interface OnConflict {
  readonly replace?: readonly string[];
  readonly add?: readonly string[];
  readonly ignore?: true;
}

/** Statements inside one transaction or snapshot. */
export interface Session {
  all(sql: string, params?: readonly Cell[]): Promise<Row[]>;
  /** Rows whose column is one of the keys; with `lock`, nobody else writes them before the commit. */
  find(table: Table, column: string, keys: readonly string[], lock?: boolean): Promise<Row[]>;
  write(table: Table, rows: readonly Row[], onConflict?: OnConflict): Promise<void>;
  /** Unused movement numbers, rising. */
  nextMovements(count: number): Promise<bigint[]>;
  /** Wakes watchers of other processes once committed, where the database can. */
  notify(): Promise<void>;
}

/**
 * Whose fault a failed transaction is: of one `command` in it, of a `conflict` that may not come again, or of the
 * `store`, which would refuse every command alike.
 */
export type Blame = 'command' | 'conflict' | 'store';

export interface Dialect {
  readonly integer: string;
  /** Stands after the bracket that closes a table. */
  readonly tableOptions: string;
  /** Statements that one database alone needs. */
  readonly extras: readonly string[];
}

export interface Database {
  readonly dialect: Dialect;
  /** Commits durably, or rolls back and rejects. */
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** As `transaction`, but one process at a time over the whole database: for migrations. */
  exclusive<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** Reads that all see the same moment. */
  snapshot<T>(work: (session: Session) => Promise<T>): Promise<T>;
  blame(error: unknown): Blame;
  /** Calls back after `notify` of any process, and when such calls may have been missed. */
  listen(onNudge: () => void): Promise<void>;
  close(): Promise<void>;
}

/** `insert` with `source` for its rows: a list of values or a select. */
export function insertion(table: Table, source: string, onConflict?: OnConflict): string {
  const insert = `insert into ${table.name} (${Object.keys(table.columns).join(', ')}) ${source}`;
  if (onConflict === undefined) return insert;
  if (onConflict.ignore) return `${insert} on conflict do nothing`;
  const changes = [
    ...(onConflict.replace ?? []).map((column) => `${column} = excluded.${column}`),
    ...(onConflict.add ?? []).map((column) => `${column} = ${table.name}.${column} + excluded.${column}`),
  ];
  return `${insert} on conflict (${table.key.join(', ')}) do update set ${changes.join(', ')}`;
}
