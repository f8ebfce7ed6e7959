// Statements on one connection to a SQLite file, prepared once for each SQL text, and the driver, which is loaded on first use.

import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Cell, Row } from './database.ts';
import { LedgerError } from './ledger.ts';

/** How long a transaction is tried to begin while another process writes. */
export const BUSY_MS = 5000;

/** Loads `node:sqlite` without its one warning that it is experimental; every other warning passes. */
export function loadDriver(): typeof import('node:sqlite') {
  const original = Object.getOwnPropertyDescriptor(process, 'emitWarning') ?? {};
  const warn = process.emitWarning.bind(process);
  process.emitWarning = ((warning: string | Error, ...rest: unknown[]) => {
    if (rest[0] === 'ExperimentalWarning' && String(warning).startsWith('SQLite')) return;
    Reflect.apply(warn, undefined, [warning, ...rest]);
  }) as typeof process.emitWarning;
  try {
    const driver = process.getBuiltinModule('node:sqlite') as typeof import('node:sqlite') | undefined;
    if (driver !== undefined) return driver;
    throw new LedgerError('driver-missing', 'This Node.js has no node:sqlite: use Node.js 22.19 or newer');
  } finally {
    Object.defineProperty(process, 'emitWarning', original);
  }
}

/** A statement with plain `?` parameters. */
interface Prepared {
  readonly statement: StatementSync;
  /** Index of the value of each parameter; null where values are bound in their order. */
  readonly order: readonly number[] | null;
}

export class SqliteStatements {
  readonly #connection: DatabaseSync;
  /** By their SQL text. */
  readonly #prepared = new Map<string, Prepared>();

  constructor(connection: DatabaseSync) {
    this.#connection = connection;
  }

  /** A statement whose parameters are bound in the order in which they stand in the text. */
  get(sql: string): StatementSync {
    return this.#prepare(sql).statement;
  }

  all(sql: string, params: readonly Cell[]): Row[] {
    const { order, statement } = this.#prepare(sql);
    return statement.all(...valuesOf(order, params)) as Row[];
  }

  /** The rows one by one; until the next call with the same text. */
  iterate(sql: string, params: readonly Cell[]): Iterator<Row> {
    const { order, statement } = this.#prepare(sql);
    return statement.iterate(...valuesOf(order, params)) as Iterator<Row>;
  }

  /** Makes numbered parameters plain ones: Node.js 22.19 takes numbered ones as named, which no position binds. */
  #prepare(sql: string): Prepared {
    const known = this.#prepared.get(sql);
    if (known !== undefined) return known;
    const order: number[] = [];
    const plain = sql.replaceAll(/[$?](\d+)/g, (_, number: string) => {
      order.push(Number(number) - 1);
      return '?';
    });
    const statement = this.#connection.prepare(plain);
    statement.setReadBigInts(true);
    const prepared = { statement, order: order.every((at, position) => at === position) ? null : order };
    this.#prepared.set(sql, prepared);
    return prepared;
  }
}

function valuesOf(order: readonly number[] | null, params: readonly Cell[]): readonly Cell[] {
  return order === null ? params : order.map((at) => params[at] as Cell);
}
