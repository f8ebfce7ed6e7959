// The one implementation of `Ledger`, over either database. Movements and payments go through the group commit; accounts and
// keys, which change seldom, have transactions of their own.

import type { Clock } from '../../actor/index.ts';
import type { LedgerMetrics } from '../../telemetry/ledger-metrics.ts';
import { audit } from './audit.ts';
import { type Book, byExpiry, type Command, newAccountRow, openBook } from './book.ts';
import { noteChanges, wantedBy, Watch } from './changes.ts';
import { adminActs } from './admin-acts.ts';
import { addMissing, chargeNumber, MissingRows } from './charges.ts';
import { adjustCommand, expireGrantsCommand, grantCommand, refundCommand, unspent } from './credit-commands.ts';
import {
  chargeCommand,
  checkAmount,
  expireCommand,
  failCommand,
  holdCommand,
  isDate,
  releaseCommand,
  reserveCommand,
  resizeCommand,
  settleCommand,
  settlePaymentCommand,
  submitCommand,
} from './commands.ts';
import { type Blame, type Database, findOne, type Session } from './database.ts';
import { Gathered } from './gathered.ts';
import { type CommitPlace, type Deferred, GroupCommit, type Outcome } from './group-commit.ts';
import { budgetRecords } from './budget-records.ts';
import { createKey, disableKey, editKey, listKeys, rotateKey } from './key-records.ts';
import { PostgresDatabase } from './postgres.ts';
import { history, usage } from './reports.ts';
import { QueryFilter } from './query-filter.ts';
import { prune } from './retention.ts';
import { requestRecords } from './request-records.ts';
import { responseRecords } from './response-records.ts';
import { migrate } from './schema.ts';
import { SqliteDatabase } from './sqlite.ts';
import { StoreDate } from './store-date.ts';
import {
  type Account,
  type AccountChange,
  accountId,
  type Charge,
  type CreditGrant,
  type HoldSettlement,
  type Ledger,
  LedgerError,
  type PageQuery,
  type OpenHold,
  type Payment,
  type PaymentQuery,
  type PaymentState,
  type Pico,
} from './ledger.ts';
import { webhookRecords } from './webhook-records.ts';
import {
  accountOf,
  accountRow,
  ADD_ACCOUNTS,
  CONFIGURE_ACCOUNTS,
  FIND_ACCOUNTS,
  FIND_HOLDS,
  FIND_KEYS,
  FIND_KEYS_BY_HASH,
  FIND_OPEN_GRANTS,
  FIND_PAYMENTS,
  grantOf,
  holdOf,
  integer,
  keyOf,
  LOCK_ACCOUNTS,
  PARK_CHARGES,
  paymentOf,
  text,
} from './tables.ts';

/** Progress of a commit. `written` comes before the database commits, `committed` before callers are answered. */
export type CommitStep = 'begun' | 'loaded' | 'written' | 'committed';

export interface LedgerOptions {
  readonly clock: Clock;
  /** Wall clock, in milliseconds since 1970. On PostgreSQL dates are those of the database; only charges bring their own. */
  readonly dateMs: () => number;
  /** Dates follow `dateMs` on PostgreSQL too, but for the ends of leases; for tests that set the date. Default false. */
  readonly ownDates?: boolean;
  /** The event `credit.low` is written when an account falls below it that has no threshold of its own. Default: none. */
  readonly lowBalance?: Pico | null;
  /** Shortest time between two commits in milliseconds. Default 20: at most 50 transactions a second. */
  readonly lingerMs?: number;
  /** Counts commits and their time. */
  readonly metrics?: Pick<LedgerMetrics, 'committed'>;
  /** Called at each step of each commit; for tests that stop the process there. */
  readonly onStep?: (step: CommitStep) => void;
}

const LINGER_MS = 20;

/** Bounds the memory of one commit and the time that it keeps accounts locked. */
const MAX_BATCH = 2000;

/** Time for all tries of a batch: what is rejected then is tried again by its caller, in another batch. */
const MAX_BATCH_MS = 10_000;

/** Some seconds of settlements; a store that far behind is down. */
const MAX_WAITING = 100_000;

/** Expired holds given back in one round. */
const EXPIRE_ROUND = 1000;

const PAYMENTS_LIMIT = 1000;

/** Reads of accounts: one that the network holds up must not hold up all others. */
const READS_AT_ONCE = 2;

/** A commit may lack a month first and names after that. */
const MISSING_TRIES = 3;

/** A bug in one command: its effect on the book is unknown, so the commit is given up. */
class CommandFault extends Error {
  override readonly name = 'CommandFault';
}

function applyTo(book: Book, command: Command<unknown>): Outcome {
  try {
    return { status: 'fulfilled', value: command.apply(book) };
  } catch (error) {
    if (error instanceof LedgerError) return { status: 'rejected', reason: error };
    throw new CommandFault('A command failed', { cause: error });
  }
}

/** Runs the commands on one book. A refused one leaves no trace; the rest is committed. */
async function commit(
  database: Database,
  commands: readonly Command<unknown>[],
  { clock, lowBalance = null, metrics, onStep }: LedgerOptions,
  dateMs: number,
  watch: Watch,
  { lane, lanes }: CommitPlace,
): Promise<readonly (Outcome | Deferred)[]> {
  const startedMs = clock.now();
  let ok = false;
  const run = async (): Promise<readonly (Outcome | Deferred)[]> => {
    const outcomes: (Outcome | Deferred)[] = [];
    const changed = await database.transaction(async (session) => {
      onStep?.('begun');
      const place = { waits: lane !== null, busy: lanes };
      const book = await openBook(session, commands, { ...place, dateMs, lowBalance });
      onStep?.('loaded');
      for (const command of commands) {
        const account = book.blockedAccount(command.needs);
        outcomes.push(account === undefined ? applyTo(book, command) : { status: 'deferred', account });
      }
      const noted = await book.save(session);
      onStep?.('written');
      return noted;
    });
    onStep?.('committed');
    ok = true;
    if (changed) watch.nudge();
    return outcomes;
  };
  try {
    for (let tries = 0; ; tries++) {
      try {
        return await run();
      } catch (error) {
        if (!(error instanceof MissingRows) || tries === MISSING_TRIES) throw error;
        await addMissing(database, error);
      }
    }
  } finally {
    metrics?.committed(ok, clock.now() - startedMs);
  }
}

async function createAccount(database: Database, id: string, label: string, dateMs: number): Promise<Account> {
  const [row] = await database.transaction(async (session) => {
    await session.write(ADD_ACCOUNTS, [newAccountRow(id, label, dateMs)]);
    return await session.find(FIND_ACCOUNTS, [id]);
  });
  if (row === undefined) throw new LedgerError('account-unknown', `Account '${id}' was not created`);
  return accountOf(row);
}

async function listAccounts(
  database: Database,
  { after, limit, organisation }: PageQuery & { readonly organisation?: string } = {},
): Promise<Account[]> {
  const filter = new QueryFilter();
  filter.compare('id >', after);
  filter.compare('organisation =', organisation === undefined ? undefined : accountId(organisation));
  const sql = `select * from accounts ${filter.where} order by id ${filter.limit(limit)}`;
  return (await database.snapshot((session) => session.all(sql, filter.params))).map(accountOf);
}

async function paymentsIn(database: Database, state: PaymentState, limit: number): Promise<Payment[]> {
  const sql = 'select * from payments where state = $1 order by changed_ms, id limit $2';
  const rows = await database.snapshot((session) => session.all(sql, [state, BigInt(limit)]));
  return rows.map(paymentOf);
}

async function listPayments(database: Database, query: PaymentQuery): Promise<Payment[]> {
  const { before, limit, nonce, payer, state } = query;
  const filter = new QueryFilter();
  filter.compare('state =', state);
  filter.compare('payer =', payer);
  filter.compare('nonce =', nonce);
  if (before !== undefined) {
    filter.add(`(changed_ms, id) < (${filter.param(BigInt(before.changedMs))}, ${filter.param(before.id)})`);
  }
  const sql = `select * from payments ${filter.where} order by changed_ms desc, id desc ${filter.limit(limit)}`;
  // There is no index of payers.
  const kind = payer === undefined ? 'read' : 'scan';
  return (await database.snapshot((session) => session.all(sql, filter.params), kind)).map(paymentOf);
}

/** Waits for rows that a commit has locked, and locks them in its order. */
async function renew(database: Database, holder: string, ttlMs: number): Promise<OpenHold[]> {
  const lock = "select id from holds where holder = $1 and state = 'open' order by id for no key update";
  const sql = `update holds set expires_ms = ${database.dialect.nowMs} + $1 where holder = $2 and state = 'open'
    returning id, amount - spent as rest`;
  const rows = await database.transaction(async (session) => {
    if (!session.holdsWriteLock) await session.all(lock, [holder]);
    return await session.all(sql, [BigInt(ttlMs), holder]);
  });
  return rows
    .map((row) => ({ id: text(row, 'id'), left: integer(row, 'rest') }))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
}

function createLedger(database: Database, options: LedgerOptions, date: StoreDate): Ledger {
  const { clock, lingerMs = LINGER_MS } = options;
  const dateMs = date.now;
  const watch = new Watch(database, clock);
  const commits = new GroupCommit<Command<unknown>>({
    clock,
    lingerMs,
    maxBatch: MAX_BATCH,
    maxWaiting: MAX_WAITING,
    blame: (error) => blameOf(database, error),
    maxBatchMs: MAX_BATCH_MS,
    commit: (commands, place) => commit(database, commands, options, dateMs(), watch, place),
  });
  const submit = async <Answer>(command: Command<Answer>): Promise<Answer> => {
    const [outcome] = (await commits.submit([command])) as readonly [PromiseSettledResult<Answer>];
    if (outcome.status === 'rejected') throw outcome.reason;
    return outcome.value;
  };
  const wants = new Gathered(1, async (wanted) => {
    const changes = wanted.map((subject) => wantedBy(subject));
    await database.transaction((session) => noteChanges(session, changes));
    watch.nudge();
    return new Map<string, never>();
  });
  const close = async (): Promise<void> => {
    await commits.close();
    await watch.close();
    await database.close();
  };
  let closing: Promise<void> | undefined;
  const openDateMs = (): number => {
    if (closing !== undefined) throw new LedgerError('closed', 'The ledger is closed');
    return dateMs();
  };
  return {
    ...accountsAndKeys(database, dateMs, watch),
    grant: async (grant) => await submit(grantCommand(stored(grant))),
    adjust: async (adjustment) => await submit(adjustCommand(stored(adjustment))),
    refund: async (refund) => await submit(refundCommand(stored(refund))),
    openGrants: (account) => openGrants(database, accountId(account)),
    hold: async (request) => await submit(holdCommand('hold', stored(request))),
    lease: async (request) => await submit(holdCommand('lease', stored(request))),
    settle: async (hold, amount, usage) => await submit(settleCommand(hold, amount, usage, dateMs())),
    charge: (charges) => postCharges(database, charges.map(stored), commits),
    extend: async (lease, operation, amount) => await submit(resizeCommand(lease, operation, amount)),
    async giveBack(lease, operation, amount) {
      const moved = await submit(resizeCommand(lease, operation, -amount));
      return moved.kind === 'held' ? -moved.amount : 0n;
    },
    release: (hold) => submit(releaseCommand(hold)),
    async want(account, by) {
      await wants.ask(`${by} ${accountId(account)}`);
    },
    renew: (holder, ttlMs) => renew(database, holder, ttlMs),
    async expire() {
      await date.measure();
      const released = await expire(database, commits);
      await expireGrants(database, dateMs(), commits);
      return released;
    },
    findHold: (id) => findOne(database, FIND_HOLDS, id, holdOf),
    reservePayment: async (request) => await submit(reserveCommand(request)),
    submitPayment: (id, request) => submit(submitCommand(id, request)),
    settlePayment: async (id, target, answer) =>
      await submit(settlePaymentCommand(id, stored(target), answer, dateMs())),
    failPayment: (id, reason) => submit(failCommand(id, reason)),
    expirePayment: (id) => submit(expireCommand(id)),
    findPayment: (id) => findOne(database, FIND_PAYMENTS, id, paymentOf),
    listPayments: (query) => listPayments(database, query),
    paymentsIn: (state, limit = PAYMENTS_LIMIT) => paymentsIn(database, state, limit),
    requests: requestRecords(database),
    adminActs: adminActs(database, openDateMs),
    webhooks: webhookRecords(database, dateMs),
    budgets: budgetRecords(database, dateMs, () => watch.nudge()),
    responses: responseRecords(database, dateMs),
    history: (query) => history(database, stored(query)),
    usage: ({ account, ...query }) =>
      usage(database, { ...query, ...(account !== undefined && { account: accountId(account) }) }),
    audit: ({ full = false } = {}) => audit(database, { full, nowMs: dateMs() }),
    prune: (chargesBeforeMs) => prune(database, chargesBeforeMs),
    async backUp(file) {
      if (database.backUp !== undefined) return await database.backUp(file);
      const message =
        'Only a store in a SQLite file is backed up this way; for PostgreSQL use pg_dump or a base backup';
      throw new LedgerError('backup-unsupported', message);
    },
    watch: (onChange) => watch.add(onChange),
    dateMs,
    close: () => (closing ??= close()),
  };
}

/** Charges that the database refuses for what they contain or for their date are parked, and not tried again with others. */
async function postCharges(
  database: Database,
  charges: readonly Charge[],
  commits: GroupCommit<Command<unknown>>,
): Promise<readonly PromiseSettledResult<HoldSettlement>[]> {
  const outcomes = (await commits.submit(charges.map(chargeCommand))) as PromiseSettledResult<HoldSettlement>[];
  for (const [at, outcome] of outcomes.entries()) {
    const charge = charges[at] as Charge;
    if (outcome.status !== 'rejected' || !isParked(database, outcome.reason, charge)) continue;
    const { message } = outcome.reason as Error;
    // JSON escapes what a text of the database cannot hold.
    const row = {
      date_ms: BigInt(charge.dateMs),
      id: chargeNumber(charge.id),
      amount: charge.amount,
      charge: JSON.stringify(charge, (_, value: unknown) => (typeof value === 'bigint' ? value.toString() : value)),
      reason: JSON.stringify(message).slice(1, -1),
    };
    try {
      await database.transaction((session) => session.write(PARK_CHARGES, [row]));
      outcomes[at] = { status: 'fulfilled', value: { late: false, repeated: false, parked: message } };
    } catch {
      // The store is away by now: the caller tries the charge again, as its outcome says.
    }
  }
  return outcomes;
}

/** Refusals go to the caller, but for a date whose month was removed: the charge is good and has no place any more. */
function isParked(database: Database, error: unknown, { dateMs }: Charge): boolean {
  if (error instanceof LedgerError) return error.refusal === 'date-invalid' && isDate(dateMs);
  return blameOf(database, error) === 'command';
}

/** A refusal that ends a transaction is about one command, as a bug in one is. */
function blameOf(database: Database, error: unknown): Blame {
  return error instanceof CommandFault || error instanceof LedgerError ? 'command' : database.blame(error);
}

/** With the id of the account as stored. */
function stored<T extends { readonly account: string }>(request: T): T {
  const account = accountId(request.account);
  return account === request.account ? request : { ...request, account };
}

async function expire(database: Database, commits: GroupCommit<Command<unknown>>): Promise<number> {
  const { nowMs } = database.dialect;
  const sql = `select id from holds where state = 'open' and expires_ms <= ${nowMs} order by expires_ms, id limit $1`;
  let released = 0;
  for (;;) {
    const rows = await database.snapshot((session) => session.all(sql, [BigInt(EXPIRE_ROUND)]));
    for (const outcome of await commits.submit(rows.map((row) => releaseCommand(text(row, 'id'), true)))) {
      if (outcome.status === 'rejected') throw outcome.reason;
      if (outcome.value === true) released++;
    }
    if (rows.length < EXPIRE_ROUND) return released;
  }
}

/** What is on hold of credit that expired by then is left for a later time. By date: others may have millions of grants. */
async function expireGrants(database: Database, nowMs: number, commits: GroupCommit<Command<unknown>>): Promise<void> {
  const sql = `select id, account, expires_ms from credit_grants where remaining > 0 and expires_ms <= $1
               and (expires_ms, id) > ($2, $3) order by expires_ms, id limit $4`;
  for (let after: readonly [expiresMs: bigint, id: string] = [-1n, '']; ;) {
    const params = [BigInt(nowMs), ...after, BigInt(EXPIRE_ROUND)];
    const rows = await database.snapshot((session) => session.all(sql, params));
    const accounts = new Set(rows.map((row) => text(row, 'account')));
    for (const outcome of await commits.submit([...accounts].map(expireGrantsCommand))) {
      if (outcome.status === 'rejected') throw outcome.reason;
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < EXPIRE_ROUND) return;
    after = [integer(last, 'expires_ms'), text(last, 'id')];
  }
}

async function openGrants(database: Database, account: string): Promise<CreditGrant[]> {
  return await database.snapshot(async (session) => {
    const [row] = await session.find(FIND_ACCOUNTS, [account]);
    if (row === undefined) return [];
    const grants = (await session.find(FIND_OPEN_GRANTS, [account])).map(grantOf).sort(byExpiry);
    return unspent(grants, accountOf(row).expiring).filter(({ remaining }) => remaining > 0n);
  });
}

/** Changes an account under the lock of its row, and of `others`; watchers are told. */
async function configureAccount(database: Database, id: string, change: AccountChange): Promise<Account> {
  const { creditLimit, lowBalance, organisation } = change;
  if (creditLimit !== undefined) checkAmount(creditLimit, 0n);
  if (lowBalance != null) checkAmount(lowBalance, 0n);
  return await database.transaction(async (session) => {
    const ids = organisation == null ? [id] : [id, organisation];
    const rows = await session.find(LOCK_ACCOUNTS, ids);
    const accounts = new Map(rows.map(accountOf).map((account) => [account.id, account]));
    for (const each of ids) {
      if (!accounts.has(each)) throw new LedgerError('account-unknown', `No account '${each}'`);
    }
    const account = accounts.get(id) as Account;
    if (organisation != null) await requireUnnested(session, id, accounts.get(organisation) as Account);
    const changed: Account = {
      ...account,
      ...(creditLimit !== undefined && { creditLimit }),
      ...(lowBalance !== undefined && { lowBalance }),
      ...(organisation !== undefined && { organisation }),
    };
    await session.write(CONFIGURE_ACCOUNTS, [accountRow(changed)]);
    await noteChanges(session, [{ kind: 'account', account: id }]);
    return changed;
  });
}

async function requireUnnested(session: Session, id: string, organisation: Account): Promise<void> {
  const [member] = await session.all('select id from accounts where organisation = $1 limit 1', [id]);
  if (organisation.id !== id && member === undefined && organisation.organisation === null) return;
  const message = `'${id}' cannot join '${organisation.id}': a member has no members, and an organisation joins none`;
  throw new LedgerError('account-nested', message);
}

function accountsAndKeys(database: Database, dateMs: () => number, watch: Watch) {
  const find = async (ids: readonly string[]): Promise<Map<string, Account>> => {
    const rows = await database.snapshot((session) => session.find(FIND_ACCOUNTS, ids));
    return new Map(rows.map(accountOf).map((account) => [account.id, account]));
  };
  const reads = new Gathered(READS_AT_ONCE, find);
  const noted = async <T>(work: Promise<T>): Promise<T> => {
    const done = await work;
    watch.nudge();
    return done;
  };
  return {
    createAccount: ({ id, label = '' }) => createAccount(database, accountId(id), label, dateMs()),
    async account(id) {
      const known = accountId(id);
      // PostgreSQL refuses a statement with NUL, and with it all others of the read.
      return known.includes('\0') ? (await find([known])).get(known) : await reads.ask(known);
    },
    listAccounts: (query) => listAccounts(database, query),
    configureAccount(id, change) {
      const { organisation } = change;
      const known = organisation == null ? change : { ...change, organisation: accountId(organisation) };
      return noted(configureAccount(database, accountId(id), known));
    },
    createKey: (key) => noted(createKey(database, stored(key), dateMs())),
    listKeys: (account, page) => listKeys(database, account === undefined ? undefined : accountId(account), page),
    findKey: (hash) => findOne(database, FIND_KEYS_BY_HASH, hash, keyOf),
    findKeyById: (id) => findOne(database, FIND_KEYS, id, keyOf),
    editKey: (id, edit) => noted(editKey(database, id, edit)),
    disableKey: (id) => noted(disableKey(database, id, dateMs())),
    rotateKey(id, successor, graceMs) {
      const nowMs = dateMs();
      return noted(rotateKey(database, id, successor, { nowMs, oldUntilMs: nowMs + graceMs }));
    },
  } satisfies Partial<Ledger>;
}

async function openDatabase(url: string, clock: Clock): Promise<Database> {
  if (/^postgres(ql)?:\/\//.test(url)) return await PostgresDatabase.open(url, clock);
  const path = url === ':memory:' ? url : /^sqlite:(.+)$/.exec(url)?.[1];
  if (path !== undefined) return await SqliteDatabase.open(path, clock);
  const message = 'A store is sqlite:FILE, sqlite::memory: or postgres://USER@HOST/DATABASE';
  throw new LedgerError('url-invalid', message);
}

/**
 * Opens the ledger and brings its schema up to date. `url`: `sqlite:FILE`, `sqlite::memory:` (also `:memory:`),
 * `postgres://…` or `postgresql://…`.
 */
export async function openLedger(url: string, options: LedgerOptions): Promise<Ledger> {
  const database = await openDatabase(url, options.clock);
  const date = new StoreDate({ database, ownDates: false, ...options });
  try {
    await date.measure();
    await migrate(database, date.now());
  } catch (error) {
    await database.close();
    throw error;
  }
  return createLedger(database, options, date);
}
