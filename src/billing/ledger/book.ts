// The working set of one commit: the rows that its commands need are read and locked, the commands run on them in memory one
// after another, and what they changed is written in bulk. The number of statements does not grow with the commands.
// The lock on an account's row guards all that belongs to the account; accounts are locked in order of their ids.

import type { Row, Session, Write } from './database.ts';
import {
  type Account,
  type CreditGrant,
  LedgerError,
  type MovementKind,
  type Payment,
  type Pico,
  type Usage,
} from './store.ts';
import {
  accountOf,
  accountRow,
  ADD_ACCOUNTS,
  ADD_USAGE,
  FIND_HOLDS,
  FIND_MOVEMENTS,
  FIND_OPEN_GRANTS,
  FIND_REFUNDS,
  grantOf,
  grantRow,
  holdOf,
  holdRow,
  INSERT_ENTRIES,
  INSERT_GRANTS,
  INSERT_HOLDS,
  INSERT_MOVEMENTS,
  INSERT_PAYMENTS,
  INSERT_REFUNDS,
  LOCK_ACCOUNTS,
  LOCK_PAYMENTS,
  paymentOf,
  paymentRow,
  type StoredHold,
  UPDATE_ACCOUNTS,
  UPDATE_GRANTS,
  UPDATE_HOLDS,
  UPDATE_PAYMENTS,
  USAGE_SUMS,
} from './tables.ts';
import { noteChanges } from './changes.ts';
import { printUsd } from '../money.ts';
import { type NewWebhookEvent, noteEvents } from './webhook-records.ts';

/** Ids of the rows that a command reads. */
export interface Needs {
  readonly accounts?: readonly string[];
  /** Accounts that are created, empty, when they do not exist. */
  readonly newAccounts?: readonly string[];
  /** Includes the account of the hold. */
  readonly holds?: readonly string[];
  readonly movements?: readonly string[];
  readonly payments?: readonly string[];
  /** Accounts of `accounts` whose expiring grants are read. */
  readonly grants?: readonly string[];
  /** Movements whose refunds are read. */
  readonly refunds?: readonly string[];
}

/** What was refunded of a charge, at once. */
export interface ChargeRefund {
  readonly id: string;
  /** Id of the movement. */
  readonly charge: string;
  readonly amount: Pico;
}

/** One change, whole or not at all: `apply` throws before it changes the book, or not. It may run again. */
export interface Command<Answer> {
  readonly needs: Needs;
  apply(book: Book): Answer;
}

/** A movement known by its id: enough to tell a repeat from a second use of the id. */
export interface KnownMovement {
  readonly account: string;
  readonly amount: Pico;
}

/** Income of the operator. Like the sources of credit it may be large without limit and has no balance row. */
export const REVENUE = 'revenue';

/** Source of granted credit. */
export const GRANTS = 'source:grant';

/** Source of corrections. */
export const ADJUSTMENTS = 'source:adjustment';

/** What income was given back: the income itself stays equal to the usage that was charged. */
export const REFUNDS = 'refunds';

/** Source of paid credit. */
export function paidOn(network: string): string {
  return `source:x402:${network}`;
}

/** What one account of the operator gains. */
interface OperatorEntry {
  readonly account: string;
  readonly amount: Pico;
}

/** A movement in double entry. All amounts together are 0; what is 0 gets no entry. */
export interface NewMovement {
  readonly id: string;
  readonly kind: MovementKind;
  readonly account: string;
  /** What the account's balance gains, and what its open holds gain. Default 0. */
  readonly balance?: Pico;
  readonly held?: Pico;
  readonly operator?: readonly OperatorEntry[];
  readonly memo?: string;
  readonly usage?: Usage;
  /** Income of the operator in this movement, counted with the usage. */
  readonly charged?: Pico;
  /** What the expiring part of the credit gains. Default: what leaves the account is taken from it first. */
  readonly expiring?: Pico;
}

const HIGHEST: Pico = 2n ** 63n - 1n;

interface Keyed {
  readonly id: string;
}

/** Rows of one table by id, and which of them the commit has to write. */
class Rows<T extends Keyed> {
  readonly #known: Map<string, T>;
  readonly #inserted: Map<string, T>;
  readonly #updated: Map<string, T>;

  constructor(rows: readonly T[]) {
    this.#known = new Map();
    this.#inserted = new Map();
    this.#updated = new Map();
    for (const row of rows) this.#known.set(row.id, row);
  }

  get(id: string): T | undefined {
    return this.#known.get(id);
  }

  list(): T[] {
    return [...this.#known.values()];
  }

  put(row: T): void {
    const isNew = this.#inserted.has(row.id) || !this.#known.has(row.id);
    this.#known.set(row.id, row);
    (isNew ? this.#inserted : this.#updated).set(row.id, row);
  }

  /** When another process has inserted the same row meanwhile, the insert fails and the commit runs again. */
  async save(session: Session, insert: Write | null, update: Write | null, rowOf: (row: T) => Row): Promise<void> {
    if (insert !== null && this.#inserted.size > 0) await session.write(insert, inOrder(this.#inserted).map(rowOf));
    if (update !== null && this.#updated.size > 0) await session.write(update, inOrder(this.#updated).map(rowOf));
  }
}

/** In order of ids: processes that insert the same rows wait for each other in one direction only. */
function inOrder<T extends Keyed>(rows: ReadonlyMap<string, T>): T[] {
  return [...rows.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
}

interface BookRows {
  readonly accounts: readonly Account[];
  readonly holds: readonly StoredHold[];
  readonly payments: readonly Payment[];
  readonly movements: Map<string, KnownMovement>;
  readonly grants: readonly CreditGrant[];
  readonly refunds: readonly ChargeRefund[];
}

export class Book {
  readonly dateMs: number;
  readonly #accounts: Rows<Account>;
  readonly #holds: Rows<StoredHold>;
  readonly #payments: Rows<Payment>;
  readonly #grants: Rows<CreditGrant>;
  readonly #refunds: Rows<ChargeRefund>;
  readonly #known: Map<string, KnownMovement>;
  readonly #movements: Row[];
  /** One list of ledger accounts and amounts for each movement. */
  readonly #entries: (readonly OperatorEntry[])[];
  readonly #usage: Map<string, Record<string, bigint | string>>;
  readonly #credited: Set<string>;
  readonly #events: NewWebhookEvent[] = [];
  readonly #lowBalance: Pico | null;

  /** `lowBalance`: of accounts that have none of their own. */
  constructor(
    dateMs: number,
    lowBalance: Pico | null,
    { accounts, grants, holds, movements, payments, refunds }: BookRows,
  ) {
    this.dateMs = dateMs;
    this.#lowBalance = lowBalance;
    this.#accounts = new Rows(accounts);
    this.#holds = new Rows(holds);
    this.#payments = new Rows(payments);
    this.#grants = new Rows(grants);
    this.#refunds = new Rows(refunds);
    this.#known = movements;
    this.#movements = [];
    this.#entries = [];
    this.#usage = new Map();
    this.#credited = new Set();
  }

  account(id: string): Account {
    const account = this.#accounts.get(id);
    if (account === undefined) throw new LedgerError('account-unknown', `No account '${id}'`);
    return account;
  }

  /** The account whose credit pays for this one: its organisation, or itself. */
  payerOf(id: string): Account {
    const account = this.account(id);
    return account.organisation === null ? account : this.account(account.organisation);
  }

  /** Grants of the account that expire and are not spent, the first to expire first. */
  grantsOf(account: string): CreditGrant[] {
    return this.#grants
      .list()
      .filter((grant) => grant.account === account && grant.remaining > 0n)
      .sort(byExpiry);
  }

  putGrant(grant: CreditGrant): void {
    this.#grants.put(grant);
  }

  /** All refunds of a charge, by the id of its movement. */
  refundsOf(charge: string): ChargeRefund[] {
    return this.#refunds.list().filter((refund) => refund.charge === charge);
  }

  putRefund(refund: ChargeRefund): void {
    this.#refunds.put(refund);
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

  /** Notes a change for watchers: an account without credit may spend again. */
  credited(account: string): void {
    this.#credited.add(account);
  }

  /** The only way that balances change: by entries that add up to zero. */
  post(movement: NewMovement): void {
    const { account: id, balance = 0n, charged = 0n, held = 0n, memo = '', operator = [], usage } = movement;
    let sum = balance + held;
    for (const { amount } of operator) sum += amount;
    if (sum !== 0n) throw new Error(`The entries of movement '${movement.id}' add up to ${sum}, not to zero`);
    const entries: OperatorEntry[] = [];
    if (balance !== 0n || held !== 0n) {
      const account = this.account(id);
      const spent = balance + held < 0n ? balance + held : 0n;
      const expiring = account.expiring + (movement.expiring ?? spent);
      const after = {
        ...account,
        balance: account.balance + balance,
        held: account.held + held,
        expiring: expiring < 0n ? 0n : expiring,
      };
      if (after.balance > HIGHEST || after.balance < -HIGHEST || after.held > HIGHEST) {
        throw new LedgerError('balance-overflow', `The balance of account '${id}' exceeds 64 bits`);
      }
      this.#accounts.put(after);
      this.#noteLow(account, after);
      if (balance !== 0n) entries.push({ account: `customer:${id}`, amount: balance });
      if (held !== 0n) entries.push({ account: `held:${id}`, amount: held });
    }
    for (const entry of operator) if (entry.amount !== 0n) entries.push(entry);
    const amount = balance + held;
    this.#known.set(movement.id, { account: id, amount });
    this.#entries.push(entries);
    this.#movements.push({
      id: movement.id,
      kind: movement.kind,
      account: id,
      amount,
      date_ms: BigInt(this.dateMs),
      memo,
      usage: usage === undefined ? null : JSON.stringify(usage),
    });
    if (usage !== undefined) this.#count(usage.account ?? id, usage, charged);
  }

  #noteLow(before: Account, after: Account): void {
    const least = after.lowBalance ?? this.#lowBalance;
    if (least === null || after.balance + after.held >= least || before.balance + before.held < least) return;
    const data = { balance_usd: printUsd(after.balance + after.held), below_usd: printUsd(least) };
    this.#events.push({ type: 'credit.low', account: after.id, data });
  }

  #count(account: string, usage: Usage, amount: Pico): void {
    // The day in UTC.
    const day = new Date(this.dateMs).toISOString().slice(0, 10);
    const key = { account, key_id: usage.key ?? '', model: usage.model, day };
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
    else for (const column of USAGE_SUMS) row[column] = (row[column] as bigint) + counts[column];
  }

  /** Writes what the commands changed. True when watchers have to be told. */
  async save(session: Session): Promise<boolean> {
    await this.#accounts.save(session, null, UPDATE_ACCOUNTS, accountRow);
    if (this.#movements.length > 0) await this.#saveMovements(session);
    await this.#holds.save(session, INSERT_HOLDS, UPDATE_HOLDS, holdRow);
    await this.#payments.save(session, INSERT_PAYMENTS, UPDATE_PAYMENTS, paymentRow);
    await this.#grants.save(session, INSERT_GRANTS, UPDATE_GRANTS, grantRow);
    await this.#refunds.save(session, INSERT_REFUNDS, null, (refund) => ({ ...refund }));
    if (this.#usage.size > 0) await session.write(ADD_USAGE, [...this.#usage.values()]);
    if (this.#events.length > 0) await noteEvents(session, this.#events, this.dateMs);
    if (this.#credited.size === 0) return false;
    await noteChanges(
      session,
      [...this.#credited].map((account) => ({ kind: 'account', account })),
    );
    return true;
  }

  async #saveMovements(session: Session): Promise<void> {
    const seqs = await session.nextMovements(this.#movements.length);
    const movements: Row[] = [];
    const entries: Row[] = [];
    for (const [at, movement] of this.#movements.entries()) {
      const seq = seqs[at] as bigint;
      movements.push({ seq, ...movement });
      for (const entry of this.#entries[at] ?? []) entries.push({ movement: seq, ...entry });
    }
    await session.write(INSERT_MOVEMENTS, movements);
    if (entries.length > 0) await session.write(INSERT_ENTRIES, entries);
  }
}

export function byExpiry(a: CreditGrant, b: CreditGrant): number {
  return a.expiresMs - b.expiresMs || (a.id < b.id ? -1 : 1);
}

function sorted(ids: ReadonlySet<string>): string[] {
  return [...ids].sort();
}

/** An empty account. */
export function newAccountRow(id: string, label: string, dateMs: number): Row {
  const money = { balance: 0n, held: 0n, organisation: null, creditLimit: 0n, lowBalance: null, expiring: 0n };
  return accountRow({ id, label, createdMs: dateMs, ...money });
}

/** Reads and locks what the commands need. Tables that none of them needs are left alone. */
export async function openBook(
  session: Session,
  commands: readonly Command<unknown>[],
  dateMs: number,
  lowBalance: Pico | null,
): Promise<Book> {
  const needed = {
    accounts: new Set<string>(),
    newAccounts: new Set<string>(),
    holds: new Set<string>(),
    movements: new Set<string>(),
    payments: new Set<string>(),
    grants: new Set<string>(),
    refunds: new Set<string>(),
  };
  for (const { needs } of commands) {
    for (const part of Object.keys(needs) as (keyof Needs)[]) for (const id of needs[part] ?? []) needed[part].add(id);
  }
  const { accounts, grants, holds, movements, newAccounts, payments, refunds } = needed;
  if (newAccounts.size > 0) {
    const created = sorted(newAccounts);
    await session.write(
      ADD_ACCOUNTS,
      created.map((id) => newAccountRow(id, '', dateMs)),
    );
    for (const id of created) accounts.add(id);
  }
  let holdRows = holds.size === 0 ? [] : await session.find(FIND_HOLDS, sorted(holds));
  for (const row of holdRows) accounts.add(row['account'] as string);
  let accountRows = accounts.size === 0 ? [] : await session.find(LOCK_ACCOUNTS, sorted(accounts));
  // An account that has joined an organisation between the read of its row and the lock on it.
  const read = new Set(accountRows.map(({ id }) => id));
  if (accountRows.some(({ organisation }) => organisation !== null && !read.has(organisation as string))) {
    accountRows = await session.find(LOCK_ACCOUNTS, sorted(accounts));
  }
  // A hold never changes its account, so the first read needs no lock. Everything else of it, also that it does not exist,
  // may have changed until its account was locked.
  if (holds.size > 0 && !session.holdsWriteLock) holdRows = await session.find(FIND_HOLDS, sorted(holds));
  const paymentRows = payments.size === 0 ? [] : await session.find(LOCK_PAYMENTS, sorted(payments));
  const known = new Map<string, KnownMovement>();
  const movementRows = movements.size === 0 ? [] : await session.find(FIND_MOVEMENTS, sorted(movements));
  for (const { account, amount, id } of movementRows) {
    known.set(id as string, { account: account as string, amount: amount as bigint });
  }
  const found = accountRows.map(accountOf);
  for (const { id, organisation } of found) if (organisation !== null && grants.has(id)) grants.add(organisation);
  const grantRows = grants.size === 0 ? [] : await session.find(FIND_OPEN_GRANTS, sorted(grants));
  const refundRows = refunds.size === 0 ? [] : await session.find(FIND_REFUNDS, sorted(refunds));
  return new Book(dateMs, lowBalance, {
    accounts: found,
    grants: grantRows.map(grantOf),
    refunds: refundRows.map((row) => ({ ...row }) as unknown as ChargeRefund),
    holds: holdRows.map(holdOf),
    payments: paymentRows.map(paymentOf),
    movements: known,
  });
}
