// The working set of one commit: the rows that its commands need are read and locked, the commands run on them in memory one
// after another, and what they changed is written in bulk. The number of statements does not grow with the commands.
// The lock on an account's row guards all that belongs to the account; accounts are locked in order of their ids.

import { type ChargeKey, findMonths, MissingRows, monthOf, numbersOf } from './charges.ts';
import { dayOf } from '../days.ts';
import type { Row, Session, Write } from './database.ts';
import {
  type Account,
  type CreditGrant,
  type Charge,
  LedgerError,
  type MovementKind,
  type Payment,
  type Pico,
  type StoredHold,
  type Usage,
} from './ledger.ts';
import {
  accountOf,
  accountRow,
  ADD_ACCOUNTS,
  ADD_USAGE,
  chargeStatements,
  FIND_ACCOUNTS,
  FIND_HOLDS,
  FIND_MOVEMENTS,
  FIND_OTHER_PAYERS,
  FIND_OPEN_GRANTS,
  FIND_REFUNDS,
  grantOf,
  grantRow,
  holdOf,
  holdRow,
  INSERT_GRANTS,
  INSERT_HOLDS,
  INSERT_MOVEMENTS,
  INSERT_PAYMENTS,
  INSERT_REFUNDS,
  integer,
  LOCK_ACCOUNTS,
  LOCK_HOLDS,
  LOCK_PAYMENTS,
  paymentOf,
  paymentRow,
  TRY_LOCK_ACCOUNTS,
  UPDATE_ACCOUNTS,
  UPDATE_GRANTS,
  UPDATE_HOLDS,
  UPDATE_PAYMENTS,
  USAGE_SUMS,
  text,
} from './tables.ts';
import { noteChanges } from './changes.ts';
import { printUsd } from '../money.ts';
import { type NewWebhookEvent, noteEvents } from './webhook-records.ts';

/** What a command reads: ids of rows, and more. */
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
  /** Charges that may have been posted before. */
  readonly charges?: readonly ChargeKey[];
  /** Dates of the charges that it posts, and the names in them. */
  readonly dates?: readonly number[];
  readonly names?: readonly string[];
  /** The clock of the database. */
  readonly clock?: boolean;
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

/** A movement that is no charge: the account gains what `counter`, an account of the operator, loses. */
export interface NewMovement {
  readonly id: string;
  readonly kind: Exclude<MovementKind, 'charge'>;
  readonly account: string;
  readonly counter: string;
  readonly amount: Pico;
  readonly memo?: string;
  /** What the expiring part of the credit gains. Default: what leaves the account is taken from it first. */
  readonly expiring?: Pico;
}

/** A charge that is posted. */
export interface NewCharge extends Pick<Charge, 'account' | 'amount' | 'usage' | 'dateMs'> {
  readonly number: bigint;
  /** Whose credit pays: the account or its organisation. */
  readonly payer: string;
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
  /** Numbers of names. */
  readonly numbers: Map<string, bigint>;
  /** By the database's clock; 0 when no command asked for it. */
  readonly clockMs: number;
  /** Accounts that were not locked. */
  readonly blocked: ReadonlySet<string>;
}

/** One text for a charge within the book. */
function keyOf(payer: bigint, dateMs: bigint | number, number: bigint): string {
  return `${dateMs}/${number}/${payer}`;
}

export class Book {
  readonly dateMs: number;
  readonly clockMs: number;
  readonly #accounts: Rows<Account>;
  readonly #holds: Rows<StoredHold>;
  readonly #payments: Rows<Payment>;
  readonly #grants: Rows<CreditGrant>;
  readonly #refunds: Rows<ChargeRefund>;
  readonly #known: Map<string, KnownMovement>;
  readonly #knownCharges: Map<string, { readonly amount: Pico; readonly member: bigint }>;
  readonly #numbers: Map<string, bigint>;
  /** By account: who else has paid for it on the days of the charges. */
  readonly #otherPayers = new Map<string, Set<string>>();
  readonly #movements: Row[];
  /** By month. */
  readonly #charges: Map<string, Row[]>;
  readonly #usage: Map<string, Record<string, bigint | string>>;
  readonly #credited: Set<string>;
  readonly #blocked: ReadonlySet<string>;
  /** Accounts whose money has changed, as they were. */
  readonly #before = new Map<string, Account>();
  readonly #lowBalance: Pico | null;

  /** `lowBalance`: of accounts that have none of their own. */
  constructor(dateMs: number, lowBalance: Pico | null, rows: BookRows) {
    this.dateMs = dateMs;
    this.clockMs = rows.clockMs;
    this.#lowBalance = lowBalance;
    this.#accounts = new Rows(rows.accounts);
    this.#holds = new Rows(rows.holds);
    this.#payments = new Rows(rows.payments);
    this.#grants = new Rows(rows.grants);
    this.#refunds = new Rows(rows.refunds);
    this.#known = rows.movements;
    this.#knownCharges = new Map();
    this.#numbers = rows.numbers;
    this.#blocked = rows.blocked;
    this.#movements = [];
    this.#charges = new Map();
    this.#usage = new Map();
    this.#credited = new Set();
  }

  /** An account that the command needs and that was not locked; undefined when there is none. */
  blockedAccount({ accounts = [], holds = [], newAccounts = [] }: Needs): string | undefined {
    if (this.#blocked.size === 0) return undefined;
    const ofHolds = holds.map((id) => this.#holds.get(id)?.account).filter((account) => account !== undefined);
    return [...accounts, ...newAccounts, ...ofHolds].find((account) => this.#blocked.has(account));
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

  /** The account that pays for a charge: who gave the lease, where it is known, else as `payerOf`. */
  payerOfCharge({ account, lease }: ChargeKey): Account {
    const hold = this.#leaseOf(lease);
    return hold === undefined ? this.payerOf(account) : this.account(hold.account);
  }

  #leaseOf(id: string | undefined): StoredHold | undefined {
    const hold = id === undefined ? undefined : this.#holds.get(id);
    return hold?.kind === 'lease' ? hold : undefined;
  }

  /** Who may have paid for a charge that was posted before: who pays now, the account itself, or an organisation that it has left. */
  #payersOf(charge: ChargeKey): ReadonlySet<string> {
    const payers = new Set([this.payerOfCharge(charge).id, charge.account]);
    // Who gave a lease pays for its charges, whatever the account has joined or left since.
    if (this.#leaseOf(charge.lease) !== undefined) return payers;
    for (const other of this.#otherPayers.get(charge.account) ?? []) payers.add(other);
    return payers;
  }

  /** The amount of a charge that was posted before; undefined: it was not. */
  knownCharge(charge: ChargeKey): Pico | undefined {
    return this.#amountPaid(charge, this.#payersOf(charge));
  }

  /** The amount of a charge that the account or its organisation has paid; undefined: none that it has left counts. */
  ownCharge(charge: ChargeKey): Pico | undefined {
    return this.#amountPaid(charge, new Set([this.payerOfCharge(charge).id, charge.account]));
  }

  #amountPaid(charge: ChargeKey, payers: ReadonlySet<string>): Pico | undefined {
    const { account, dateMs, number } = charge;
    const pays = this.payerOfCharge(charge).id;
    for (const id of payers) {
      // Names are read where there are charges of that month.
      const payer = this.#numbers.get(id);
      const known = payer === undefined ? undefined : this.#knownCharges.get(keyOf(payer, dateMs, number));
      if (known === undefined) continue;
      // Another payer may have a charge of its own with this number.
      if (id === pays || id === account || known.member === this.#numbers.get(account)) return known.amount;
    }
    return undefined;
  }

  /** Finds out which of the charges were posted before. */
  async readCharges(session: Session, charges: readonly ChargeKey[], months: ReadonlySet<string>): Promise<void> {
    await this.#readOtherPayers(session, charges);
    const byMonth = new Map<string, Row[]>();
    for (const charge of charges) {
      const month = monthOf(charge.dateMs);
      if (!months.has(month) || this.#accounts.get(charge.account) === undefined) continue;
      for (const id of this.#payersOf(charge)) {
        append(byMonth, month, { account: this.#number(id), date_ms: BigInt(charge.dateMs), id: charge.number });
      }
    }
    for (const [month, rows] of byMonth) {
      for (const row of await session.match(chargeStatements(month).find, rows)) {
        const key = keyOf(integer(row, 'account'), integer(row, 'date_ms'), integer(row, 'id'));
        this.#knownCharges.set(key, { amount: integer(row, 'amount'), member: integer(row, 'member') });
      }
    }
  }

  async #readOtherPayers(session: Session, charges: readonly ChargeKey[]): Promise<void> {
    const days = new Map<string, Row>();
    for (const { account, dateMs, lease } of charges) {
      if (this.#leaseOf(lease) !== undefined) continue;
      const day = dayOf(dateMs);
      days.set(`${day} ${account}`, { account, day });
    }
    if (days.size === 0) return;
    const payers = new Set<string>();
    for (const row of await session.match(FIND_OTHER_PAYERS, [...days.values()])) {
      const [account, payer] = [text(row, 'account'), text(row, 'payer')];
      this.#noteOtherPayer(account, payer);
      payers.add(payer);
    }
    if (payers.size === 0) return;
    for (const [name, number] of await numbersOf(session, [...payers])) this.#numbers.set(name, number);
  }

  #noteOtherPayer(account: string, payer: string): void {
    const payers = this.#otherPayers.get(account);
    if (payers === undefined) this.#otherPayers.set(account, new Set([payer]));
    else payers.add(payer);
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

  /** Moves credit of an account from its balance to what holds and leases hold; back when `amount` is below zero. */
  reserve(account: string, amount: Pico): void {
    this.#change(account, -amount, amount);
  }

  /** Posts what is no charge. */
  post({ account, amount, counter, expiring, id, kind, memo = '' }: NewMovement): void {
    this.#change(account, amount, 0n, expiring);
    this.#known.set(id, { account, amount });
    this.#movements.push({ id, kind, account, counter, amount, date_ms: BigInt(this.dateMs), memo });
  }

  /** Charges the payer, `fromHeld` out of what its holds and leases hold. */
  charge({ account, amount, dateMs, number, payer, usage }: NewCharge, fromHeld: Pico = 0n): void {
    this.#change(payer, fromHeld - amount, -fromHeld);
    const { cachedTokens, inputTokens, key, measured, model, outputTokens, price, requests = 1 } = usage;
    const row = {
      account: this.#number(payer),
      date_ms: BigInt(dateMs),
      id: number,
      amount,
      input_tokens: BigInt(inputTokens),
      cached_tokens: BigInt(cachedTokens),
      output_tokens: BigInt(outputTokens),
      member: account === payer ? 0n : this.#number(account),
      key: key === null ? 0n : this.#number(key),
      model: this.#number(model),
      price: price === undefined ? 0n : this.#number(price),
      requests: BigInt(requests),
      measured: measured ? 1n : 0n,
    };
    append(this.#charges, monthOf(dateMs), row);
    this.#knownCharges.set(keyOf(row.account, dateMs, number), { amount, member: row.member });
    if (account !== payer) this.#noteOtherPayer(account, payer);
    this.#count(account, payer, usage, amount, dateMs);
  }

  /** The only way that balances change. `expiring`: as in `NewMovement`. */
  #change(id: string, balance: Pico, held: Pico, expiring?: Pico): void {
    if (balance === 0n && held === 0n) return;
    const account = this.account(id);
    const gained = balance + held;
    const left = account.expiring + (expiring ?? (gained < 0n ? gained : 0n));
    const after = {
      ...account,
      balance: account.balance + balance,
      held: account.held + held,
      expiring: left < 0n ? 0n : left,
    };
    // What is held returns to the balance: that must always fit.
    const isFull = gained > 0n && after.balance + after.held > HIGHEST;
    if (isFull || after.balance > HIGHEST || after.balance < -HIGHEST || after.held > HIGHEST) {
      throw new LedgerError('balance-overflow', `The balance of account '${id}' exceeds 64 bits`);
    }
    if (!this.#before.has(id)) this.#before.set(id, account);
    this.#accounts.put(after);
  }

  /** Accounts that the commit brings below their threshold: between its commands credit may come and go. */
  #lowEvents(): NewWebhookEvent[] {
    const events: NewWebhookEvent[] = [];
    for (const before of this.#before.values()) {
      const { balance, held, id, lowBalance } = this.account(before.id);
      const least = lowBalance ?? this.#lowBalance;
      if (least === null || balance + held >= least || before.balance + before.held < least) continue;
      const data = { balance_usd: printUsd(balance + held), below_usd: printUsd(least) };
      events.push({ type: 'credit.low', account: id, data });
    }
    return events;
  }

  #number(name: string): bigint {
    const number = this.#numbers.get(name);
    if (number === undefined) throw new MissingRows([name], []);
    return number;
  }

  #count(account: string, payer: string, usage: Usage, amount: Pico, dateMs: number): void {
    const day = dayOf(dateMs);
    const key = { account, key_id: usage.key ?? '', model: usage.model, day, payer };
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
    if (this.#movements.length > 0) await session.write(INSERT_MOVEMENTS, this.#movements);
    for (const [month, rows] of this.#charges) await session.write(chargeStatements(month).insert, rows);
    await this.#holds.save(session, INSERT_HOLDS, UPDATE_HOLDS, holdRow);
    await this.#payments.save(session, INSERT_PAYMENTS, UPDATE_PAYMENTS, paymentRow);
    await this.#grants.save(session, INSERT_GRANTS, UPDATE_GRANTS, grantRow);
    await this.#refunds.save(session, INSERT_REFUNDS, null, (refund) => ({ ...refund }));
    if (this.#usage.size > 0) await session.write(ADD_USAGE, [...this.#usage.values()]);
    const events = this.#lowEvents();
    if (events.length > 0) await noteEvents(session, events, this.dateMs);
    if (this.#credited.size === 0) return false;
    await noteChanges(
      session,
      [...this.#credited].map((account) => ({ kind: 'account', account })),
    );
    return true;
  }
}

function append<K, T>(lists: Map<K, T[]>, key: K, item: T): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [item]);
  else list.push(item);
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

export interface BookOptions {
  readonly dateMs: number;
  /** Of accounts that have none of their own. */
  readonly lowBalance: Pico | null;
  /** Waits for accounts that are locked; else commands on them, and on those of `busy`, are left out. */
  readonly waits: boolean;
  readonly busy: Iterable<string>;
}

/** Reads and locks what the commands need. Tables that none of them needs are left alone. */
export async function openBook(
  session: Session,
  commands: readonly Command<unknown>[],
  { busy, dateMs, lowBalance, waits }: BookOptions,
): Promise<Book> {
  const ids = {
    accounts: new Set<string>(),
    newAccounts: new Set<string>(),
    holds: new Set<string>(),
    movements: new Set<string>(),
    payments: new Set<string>(),
    grants: new Set<string>(),
    refunds: new Set<string>(),
    names: new Set<string>(),
  };
  const months = new Set<string>();
  const charges: ChargeKey[] = [];
  let clock = false;
  for (const { needs } of commands) {
    for (const part of Object.keys(ids) as (keyof typeof ids)[]) for (const id of needs[part] ?? []) ids[part].add(id);
    for (const date of needs.dates ?? []) months.add(monthOf(date));
    if (needs.charges !== undefined) charges.push(...needs.charges);
    clock ||= needs.clock === true;
  }
  const { accounts, grants, holds, movements, names, newAccounts, payments, refunds } = ids;
  let holdRows = holds.size === 0 ? [] : await session.find(FIND_HOLDS, sorted(holds));
  for (const row of holdRows) accounts.add(row['account'] as string);
  for (const id of newAccounts) accounts.add(id);
  const blocked = new Set(waits ? [] : busy);
  const accountRows =
    waits || session.holdsWriteLock
      ? await lockAccounts(session, sorted(accounts), newAccounts, dateMs)
      : await tryLockAccounts(session, sorted(accounts), newAccounts, dateMs, blocked);
  // A hold never changes its account, so the first read needs no lock. Everything else of it, also that it does not exist,
  // may have changed until its account was locked. Renewals lock no account: who asks whether a hold has expired locks it too.
  if (holds.size > 0 && !session.holdsWriteLock) {
    holdRows = await session.find(clock ? LOCK_HOLDS : FIND_HOLDS, sorted(holds));
  }
  const there = months.size + charges.length === 0 ? new Set<string>() : await findMonths(session, months, charges);
  if (there.size > 0) for (const { id } of accountRows) names.add(id as string);
  const numbers = names.size === 0 ? new Map<string, bigint>() : await numbersOf(session, sorted(names));
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
  const book = new Book(dateMs, lowBalance, {
    accounts: found,
    grants: grantRows.map(grantOf),
    refunds: refundRows.map((row) => ({ ...row }) as unknown as ChargeRefund),
    holds: holdRows.map(holdOf),
    payments: paymentRows.map(paymentOf),
    movements: known,
    numbers,
    blocked,
    clockMs: clock ? await session.clockMs() : 0,
  });
  const open = commands.filter(({ needs }) => book.blockedAccount(needs) === undefined);
  await book.readCharges(
    session,
    open.flatMap(({ needs }) => needs.charges ?? []),
    there,
  );
  return book;
}

/** Those that are missing are created where that is wanted. */
async function lockAccounts(
  session: Session,
  ids: readonly string[],
  newAccounts: ReadonlySet<string>,
  dateMs: number,
): Promise<Row[]> {
  if (ids.length === 0) return [];
  let rows = await session.find(LOCK_ACCOUNTS, ids);
  const read = new Set(rows.map((row) => row['id'] as string));
  const missing = ids.filter((id) => newAccounts.has(id) && !read.has(id));
  if (missing.length > 0) {
    const created = missing.map((id) => newAccountRow(id, '', dateMs));
    await session.write(ADD_ACCOUNTS, created);
  }
  // An account may have joined an organisation between the read of its row and the lock on it.
  const joined = rows.some(({ organisation }) => organisation !== null && !read.has(organisation as string));
  if (joined || missing.length > 0) rows = await session.find(LOCK_ACCOUNTS, ids);
  return rows;
}

/** As `lockAccounts`, but accounts that another transaction has locked, and their members, go into `blocked`. */
async function tryLockAccounts(
  session: Session,
  ids: readonly string[],
  newAccounts: ReadonlySet<string>,
  dateMs: number,
  blocked: Set<string>,
): Promise<Row[]> {
  const wanted = ids.filter((id) => !blocked.has(id));
  if (wanted.length === 0) return [];
  let rows = await session.find(TRY_LOCK_ACCOUNTS, wanted);
  const locked = new Set(rows.map((row) => row['id'] as string));
  const missing = wanted.filter((id) => !locked.has(id));
  if (missing.length > 0) {
    for (const { id } of await session.find(FIND_ACCOUNTS, missing)) blocked.add(id as string);
    const created = missing.filter((id) => newAccounts.has(id) && !blocked.has(id));
    if (created.length > 0) {
      await session.write(
        ADD_ACCOUNTS,
        created.map((id) => newAccountRow(id, '', dateMs)),
      );
      const made = await session.find(TRY_LOCK_ACCOUNTS, created);
      for (const id of created) if (!made.some((row) => row['id'] === id)) blocked.add(id);
      rows = [...rows, ...made];
    }
  }
  for (const { id, organisation } of rows) {
    if (organisation !== null && (blocked.has(organisation as string) || !locked.has(organisation as string))) {
      blocked.add(id as string);
    }
  }
  return rows;
}
