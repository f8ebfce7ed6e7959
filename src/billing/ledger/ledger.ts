// The one implementation of `Ledger`, over either database. Movements and payments go through the group commit;
// accounts and keys, which change seldom, have transactions of their own. Made by `open.ts`.

import type { Clock } from '../../actor/index.ts';
import { audit } from './audit.ts';
import { type Book, type Command, newAccountRow, openBook } from './book.ts';
import { Watch } from './changes.ts';
import type { Database } from './database.ts';
import { GroupCommit, type Outcome } from './group-commit.ts';
import { createKey, disableKey, findKey, listKeys, rotateKey } from './key-records.ts';
import { chargeCommand, debitCommand, grantCommand, holdCommand, releaseCommand, resizeCommand } from './movements.ts';
import { failCommand, reserveCommand, settlePaymentCommand, submitCommand } from './payments.ts';
import { history, usage } from './reports.ts';
import { type Account, type Ledger, LedgerError, type Payment, type PaymentState } from './store.ts';
import { accountOf, ACCOUNTS, paymentOf, PAYMENTS, text } from './tables.ts';

/** Where a commit stands. `written` comes before the database commits, `committed` before callers hear of it. */
export type CommitStep = 'begun' | 'loaded' | 'written' | 'committed';

export interface LedgerOptions {
  readonly clock: Clock;
  /** Milliseconds since 1970. Processes that share a store must agree to well within the life of a lease. */
  readonly dateMs: () => number;
  /** Shortest time between two commits in milliseconds. Default 20: at most 50 transactions a second. */
  readonly lingerMs?: number;
  /** Hears of every commit and what it took, in milliseconds. */
  readonly onCommit?: (ok: boolean, elapsedMs: number) => void;
  /** Called at each step of each commit; for tests that stop the process there. */
  readonly onStep?: (step: CommitStep) => void;
}

const LINGER_MS = 20;

/** Bounds the memory of one commit and the time that it keeps accounts locked. */
const MAX_BATCH = 2000;

/** Some seconds of settlements; a store that far behind is down. */
const MAX_WAITING = 100_000;

/** Expired holds given back in one round. */
const EXPIRE_ROUND = 1000;

const PAYMENTS_LIMIT = 1000;

/** Runs the commands on one book. A refused one leaves no trace; the rest is committed. */
async function commitTogether(
  database: Database,
  commands: readonly Command<unknown>[],
  { dateMs, onStep }: LedgerOptions,
): Promise<{ outcomes: Outcome[]; news: boolean }> {
  const done = await database.transaction(async (session) => {
    onStep?.('begun');
    const book = await openBook(
      session,
      commands.map((command) => command.needs),
      dateMs(),
    );
    onStep?.('loaded');
    const outcomes = commands.map((command) => applyTo(book, command));
    const news = await book.save(session);
    onStep?.('written');
    return { outcomes, news };
  });
  onStep?.('committed');
  return done;
}

/** A mistake of the program in one command: who knows what it left in the book, so the commit is given up. */
class CommandFault extends Error {
  override readonly name = 'CommandFault';
}

function applyTo(book: Book, command: Command<unknown>): Outcome {
  try {
    return { kind: 'done', answer: command.apply(book) };
  } catch (error) {
    if (error instanceof LedgerError) return { kind: 'refused', error };
    throw new CommandFault('A command failed', { cause: error });
  }
}

async function createAccount(database: Database, id: string, label: string, dateMs: number): Promise<Account> {
  const [row] = await database.transaction(async (session) => {
    await session.write(ACCOUNTS, [newAccountRow(id, label, dateMs)], { ignore: true });
    return await session.find(ACCOUNTS, 'id', [id]);
  });
  if (row === undefined) throw new LedgerError('account-unknown', `Account '${id}' was not made`);
  return accountOf(row);
}

async function paymentsIn(database: Database, state: PaymentState, limit: number): Promise<Payment[]> {
  const sql = 'select * from payments where state = $1 order by changed_ms, id limit $2';
  const rows = await database.snapshot((session) => session.all(sql, [state, BigInt(limit)]));
  return rows.map(paymentOf);
}

async function renew(database: Database, holder: string, expiresMs: number): Promise<string[]> {
  const sql = "update holds set expires_ms = $1 where holder = $2 and state = 'open' returning id";
  const rows = await database.transaction((session) => session.all(sql, [BigInt(expiresMs), holder]));
  return rows.map((row) => text(row, 'id')).sort();
}

function openCommits(database: Database, options: LedgerOptions, watch: Watch): GroupCommit<Command<unknown>> {
  const { clock, lingerMs = LINGER_MS, onCommit } = options;
  return new GroupCommit<Command<unknown>>({
    clock,
    lingerMs,
    maxBatch: MAX_BATCH,
    maxWaiting: MAX_WAITING,
    blame: (error) => (error instanceof CommandFault ? 'command' : database.blame(error)),
    async commit(commands) {
      const startedMs = clock.now();
      let ok = false;
      try {
        const { outcomes, news } = await commitTogether(database, commands, options);
        ok = true;
        if (news) watch.nudge();
        return outcomes;
      } finally {
        onCommit?.(ok, clock.now() - startedMs);
      }
    },
  });
}

/** A ledger over a database that `migrate` has seen. */
export function createLedger(database: Database, options: LedgerOptions): Ledger {
  const { clock, dateMs } = options;
  const watch = new Watch(database, clock);
  const commits = openCommits(database, options, watch);
  const submit = <Answer>(command: Command<Answer>): Promise<Answer> => commits.submit(command) as Promise<Answer>;
  const close = async (): Promise<void> => {
    await commits.close();
    await watch.close();
    await database.close();
  };
  let closing: Promise<void> | undefined;
  return {
    ...accountsAndKeys(database, dateMs, watch),
    grant: async (grant) => await submit(grantCommand(grant)),
    hold: async (request) => await submit(holdCommand('hold', request)),
    lease: async (request) => await submit(holdCommand('lease', request)),
    settle: async (hold, amount, usage) => await submit(chargeCommand({ kind: 'hold', hold, id: hold, amount, usage })),
    charge: async (hold, id, amount, usage) => await submit(chargeCommand({ kind: 'lease', hold, id, amount, usage })),
    extend: async (lease, id, amount) => await submit(resizeCommand(lease, id, amount)),
    async giveBack(lease, id, amount) {
      const moved = await submit(resizeCommand(lease, id, -amount));
      return moved.kind === 'held' ? -moved.amount : 0n;
    },
    debit: async (account, id, amount, usage) => await submit(debitCommand(account, id, amount, usage)),
    release: (hold) => submit(releaseCommand(hold)),
    renew: (holder, expiresMs) => renew(database, holder, expiresMs),
    expire: () => expire(database, dateMs(), submit),
    reservePayment: async (request) => await submit(reserveCommand(request)),
    submitPayment: (id, request) => submit(submitCommand(id, request)),
    settlePayment: async (id, target, answer) => await submit(settlePaymentCommand(id, target, answer)),
    failPayment: (id, reason) => submit(failCommand(id, reason)),
    async findPayment(id) {
      const [row] = await database.snapshot((session) => session.find(PAYMENTS, 'id', [id]));
      return row === undefined ? undefined : paymentOf(row);
    },
    paymentsIn: (state, limit = PAYMENTS_LIMIT) => paymentsIn(database, state, limit),
    history: (query) => history(database, query),
    usage: (query) => usage(database, query),
    audit: () => audit(database),
    watch: (onChange) => watch.add(onChange),
    close: () => (closing ??= close()),
  };
}

async function expire(
  database: Database,
  nowMs: number,
  submit: (command: Command<boolean>) => Promise<boolean>,
): Promise<number> {
  const sql = "select id from holds where state = 'open' and expires_ms <= $1 order by expires_ms, id limit $2";
  let released = 0;
  for (;;) {
    const rows = await database.snapshot((session) => session.all(sql, [BigInt(nowMs), BigInt(EXPIRE_ROUND)]));
    const given = await Promise.all(rows.map((row) => submit(releaseCommand(text(row, 'id'), nowMs))));
    released += given.filter(Boolean).length;
    if (rows.length < EXPIRE_ROUND) return released;
  }
}

type AccountsAndKeys = Pick<
  Ledger,
  'createAccount' | 'account' | 'listAccounts' | 'createKey' | 'listKeys' | 'findKey' | 'disableKey' | 'rotateKey'
>;

function accountsAndKeys(database: Database, dateMs: () => number, watch: Watch): AccountsAndKeys {
  const told = async <T>(work: Promise<T>): Promise<T> => {
    const done = await work;
    watch.nudge();
    return done;
  };
  return {
    createAccount: ({ id, label = '' }) => createAccount(database, id, label, dateMs()),
    async account(id) {
      const [row] = await database.snapshot((session) => session.find(ACCOUNTS, 'id', [id]));
      return row === undefined ? undefined : accountOf(row);
    },
    async listAccounts() {
      const rows = await database.snapshot((session) => session.all('select * from accounts order by id'));
      return rows.map(accountOf);
    },
    createKey: (key) => told(createKey(database, key, dateMs())),
    listKeys: (account) => listKeys(database, account),
    findKey: (hash) => findKey(database, hash),
    disableKey: (id) => told(disableKey(database, id, dateMs())),
    rotateKey(id, successor, graceMs) {
      const nowMs = dateMs();
      return told(rotateKey(database, id, successor, { nowMs, oldUntilMs: nowMs + graceMs }));
    },
  };
}
