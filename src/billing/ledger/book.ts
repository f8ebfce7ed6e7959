// The working set of one commit: what a batch of commands needs is read and locked, the commands run on it in memory
// one after another, what they changed is written in bulk. The statements of a commit do not grow with its commands.
// The lock on an account's row guards all that belongs to the account; accounts are locked in order of their ids.

import type { Row, Session, Table } from './database.ts';
import { type Entry, balanced, partOf } from './entries.ts';
import { type Account, LedgerError, type MovementKind, type Payment, type Pico, type Usage } from './store.ts';
import {
  accountOf,
  ACCOUNTS,
  ENTRIES,
  holdOf,
  HOLDS,
  MOVEMENTS,
  paymentOf,
  PAYMENTS,
  type StoredHold,
  text,
  USAGE,
  USAGE_SUMS,
} from './tables.ts';
import { noteChanges } from './changes.ts';

/** Ids of the rows that a command reads. */
export interface Needs {
  readonly accounts?: readonly string[];
  /** Accounts that are made, empty, when they do not exist. */
  readonly newAccounts?: readonly string[];
  /** Brings the account of the hold along. */
  readonly holds?: readonly string[];
  readonly movements?: readonly string[];
  readonly payments?: readonly string[];
}

/** One thing to do, whole or not at all: `apply` throws before it changes the book, or not. It may run again. */
export interface Command<Answer> {
  readonly needs: Needs;
  apply(book: Book): Answer;
}

/** A movement known by its id: enough to tell a repeat from a second use of the id. */
export interface KnownMovement {
  readonly account: string;
  readonly amount: Pico;
}

export interface NewMovement {
  readonly id: string;
  readonly kind: MovementKind;
  readonly account: string;
  readonly entries: readonly Entry[];
  readonly memo?: string;
  readonly usage?: Usage;
  /** Income of the house in this movement, counted with the usage. */
  readonly charged?: Pico;
}

const HIGHEST: Pico = 2n ** 63n - 1n;

const DAY_MS = 86_400_000;

/** The day of a date in UTC, `YYYY-MM-DD`. */
function dayOf(dateMs: number): string {
  return new Date(Math.floor(dateMs / DAY_MS) * DAY_MS).toISOString().slice(0, 10);
}

interface Keyed {
  readonly id: string;
}

/** Rows by id, and which of them the commit has to write. */
class Shelf<T extends Keyed> {
  readonly #rows: Map<string, T>;
  readonly #made = new Map<string, T>();
  readonly #changed = new Map<string, T>();

  constructor(rows: readonly T[]) {
    this.#rows = new Map(rows.map((row) => [row.id, row]));
  }

  get(id: string): T | undefined {
    return this.#rows.get(id);
  }

  put(row: T): void {
    const made = this.#made.has(row.id) || !this.#rows.has(row.id);
    this.#rows.set(row.id, row);
    (made ? this.#made : this.#changed).set(row.id, row);
  }

  /** What was made is inserted: when another process made the same row meanwhile, the commit fails and runs again. */
  async save(session: Session, table: Table, columns: readonly string[], rowOf: (row: T) => Row): Promise<void> {
    await session.write(table, inOrder(this.#made).map(rowOf));
    await session.write(table, inOrder(this.#changed).map(rowOf), { replace: columns });
  }
}

/** In order of ids: processes that insert the same rows wait for each other in one direction only. */
function inOrder<T>(rows: ReadonlyMap<string, T>): T[] {
  return [...rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
}

interface BookRows {
  readonly accounts: readonly Account[];
  readonly holds: readonly StoredHold[];
  readonly payments: readonly Payment[];
  readonly movements: ReadonlyMap<string, KnownMovement>;
}

export class Book {
  readonly dateMs: number;
  readonly #accounts: Shelf<Account>;
  readonly #holds: Shelf<StoredHold>;
  readonly #payments: Shelf<Payment>;
  readonly #known: Map<string, KnownMovement>;
  readonly #movements: { row: Row; entries: readonly Entry[] }[] = [];
  readonly #usage = new Map<string, Record<string, bigint | string>>();
  readonly #credited = new Set<string>();

  constructor(dateMs: number, rows: BookRows) {
    this.dateMs = dateMs;
    this.#accounts = new Shelf(rows.accounts);
    this.#holds = new Shelf(rows.holds);
    this.#payments = new Shelf(rows.payments);
    this.#known = new Map(rows.movements);
  }

  account(id: string): Account {
    const account = this.#accounts.get(id);
    if (account === undefined) throw new LedgerError('account-unknown', `No account '${id}'`);
    return account;
  }

  hold(id: string): StoredHold | undefined {
    return this.#holds.get(id);
  }

  payment(id: string): Payment | undefined {
    return this.#payments.get(id);
  }

  movement(id: string): KnownMovement | undefined {
    return this.#known.get(id);
  }

  putHold(hold: StoredHold): void {
    this.#holds.put(hold);
  }

  putPayment(payment: Payment): void {
    this.#payments.put(payment);
  }

  /** Watchers hear of credit that came in: an account that had none may spend again. */
  credited(account: string): void {
    this.#credited.add(account);
  }

  /** The only way that balances change: by entries that balance. */
  post(movement: NewMovement): void {
    const entries = balanced(movement.entries);
    const after = this.#after(entries);
    let worth = 0n;
    for (const { account, amount } of entries) if (partOf(account) !== undefined) worth += amount;
    for (const account of after) this.#accounts.put(account);
    this.#known.set(movement.id, { account: movement.account, amount: worth });
    this.#movements.push({ row: this.#rowOf(movement, worth), entries });
    if (movement.usage !== undefined) this.#count(movement.account, movement.usage, movement.charged ?? 0n);
  }

  /** The accounts as the entries leave them. */
  #after(entries: readonly Entry[]): Iterable<Account> {
    const after = new Map<string, Account>();
    for (const { account: name, amount } of entries) {
      const target = partOf(name);
      if (target === undefined) continue;
      const account = after.get(target.owner) ?? this.account(target.owner);
      const changed = account[target.part] + amount;
      if (changed > HIGHEST || changed < -HIGHEST) {
        throw new LedgerError('balance-overflow', `The balance of account '${target.owner}' leaves 64 bits`);
      }
      after.set(target.owner, { ...account, [target.part]: changed });
    }
    return after.values();
  }

  #rowOf(movement: NewMovement, worth: Pico): Row {
    return {
      id: movement.id,
      kind: movement.kind,
      account: movement.account,
      amount: worth,
      date_ms: BigInt(this.dateMs),
      memo: movement.memo ?? '',
      usage: movement.usage === undefined ? null : JSON.stringify(movement.usage),
    };
  }

  #count(account: string, usage: Usage, amount: Pico): void {
    const key = { account, key_id: usage.key ?? '', model: usage.model, day: dayOf(this.dateMs) };
    const name = JSON.stringify(key);
    const requests = BigInt(usage.requests ?? 1);
    const counts: Record<(typeof USAGE_SUMS)[number], bigint> = {
      requests,
      estimated: usage.measured ? 0n : requests,
      input_tokens: BigInt(usage.inputTokens),
      cached_tokens: BigInt(usage.cachedTokens),
      output_tokens: BigInt(usage.outputTokens),
      amount,
    };
    const row = this.#usage.get(name);
    if (row === undefined) this.#usage.set(name, { ...key, ...counts });
    else for (const column of USAGE_SUMS) row[column] = BigInt(row[column] ?? 0n) + counts[column];
  }

  /** Writes what the commands changed. True when watchers have something to hear. */
  async save(session: Session): Promise<boolean> {
    const seqs = await session.nextMovements(this.#movements.length);
    const movements = this.#movements.map(({ row }, at) => ({ seq: seqs[at] as bigint, ...row }));
    const entries = this.#movements.flatMap((movement, at) =>
      movement.entries.map(({ account, amount }) => ({ movement: seqs[at] as bigint, account, amount })),
    );
    await this.#accounts.save(session, ACCOUNTS, ['balance', 'held'], accountRow);
    await session.write(MOVEMENTS, movements);
    await session.write(ENTRIES, entries);
    await this.#holds.save(session, HOLDS, ['amount', 'spent', 'state'], holdRow);
    await this.#payments.save(session, PAYMENTS, ['state', 'request', 'answer', 'changed_ms'], paymentRow);
    await session.write(USAGE, [...this.#usage.values()], { add: USAGE_SUMS });
    if (this.#credited.size === 0) return false;
    await noteChanges(
      session,
      [...this.#credited].map((account) => ({ kind: 'account', account })),
    );
    return true;
  }
}

function accountRow(account: Account): Row {
  return {
    id: account.id,
    label: account.label,
    created_ms: BigInt(account.createdMs),
    balance: account.balance,
    held: account.held,
  };
}

/** An account as it is made. */
export function newAccountRow(id: string, label: string, dateMs: number): Row {
  return accountRow({ id, label, createdMs: dateMs, balance: 0n, held: 0n });
}

function holdRow(hold: StoredHold): Row {
  const { expiresMs, ...row } = hold;
  return { ...row, expires_ms: BigInt(expiresMs) };
}

function paymentRow(payment: Payment): Row {
  const { validUntilMs, changedMs, ...row } = payment;
  return { ...row, valid_until_ms: BigInt(validUntilMs), changed_ms: BigInt(changedMs) };
}

function gather(needs: readonly Needs[], part: keyof Needs): string[] {
  return [...new Set(needs.flatMap((need) => need[part] ?? []))].sort();
}

/** Reads and locks what the commands need. */
export async function openBook(session: Session, needs: readonly Needs[], dateMs: number): Promise<Book> {
  const holdIds = gather(needs, 'holds');
  const created = gather(needs, 'newAccounts');
  await session.write(
    ACCOUNTS,
    created.map((id) => newAccountRow(id, '', dateMs)),
    { ignore: true },
  );
  // A hold never changes its account, so the first look needs no lock; the second comes after the account's.
  const owners = (await session.find(HOLDS, 'id', holdIds)).map((row) => text(row, 'account'));
  const accountIds = [...new Set([...gather(needs, 'accounts'), ...created, ...owners])].sort();
  const accounts = await session.find(ACCOUNTS, 'id', accountIds, true);
  const holds = await session.find(HOLDS, 'id', holdIds);
  const payments = await session.find(PAYMENTS, 'id', gather(needs, 'payments'), true);
  const movements = await session.find(MOVEMENTS, 'id', gather(needs, 'movements'));
  return new Book(dateMs, {
    accounts: accounts.map(accountOf),
    holds: holds.map(holdOf),
    payments: payments.map(paymentOf),
    movements: new Map(
      movements.map((row) => [text(row, 'id'), { account: text(row, 'account'), amount: row['amount'] as bigint }]),
    ),
  });
}
