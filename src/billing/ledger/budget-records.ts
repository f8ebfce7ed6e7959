// Budgets in the store: set, list, remove; what was spent of them; and which alerts were given. A change of a budget is noted for
// the watchers of every process in the same commit.

import { noteChanges } from './changes.ts';
import { type Cell, type Database, fewRows, type Lookup, readKind, type Reads, type Row } from './database.ts';
import { wide, wideSum } from './reports.ts';
import { QueryFilter } from './query-filter.ts';
import {
  accountId,
  type BudgetAlert,
  type BudgetRecords,
  type BudgetScope,
  LedgerError,
  type NewBudget,
  type PageQuery,
  type SpendingQuery,
  type SpendingRow,
  type StoredBudget,
} from './ledger.ts';
import { FIND_ACCOUNTS, FIND_KEYS, insertion, integer, keyOf, text } from './tables.ts';
import { type NewWebhookEvent, noteEvents } from './webhook-records.ts';

const INSERT_BUDGETS = insertion(
  {
    name: 'budgets',
    columns: {
      id: 'text',
      account: 'text',
      key_lineage: 'text',
      model: 'text',
      period: 'text',
      spend_limit: 'bigint',
      soft_limit: 'bigint',
      created_ms: 'bigint',
      changed_ms: 'bigint',
    },
    key: ['account', 'key_lineage', 'model', 'period'],
  },
  { replace: ['spend_limit', 'soft_limit', 'changed_ms'] },
);

/** What a scope leaves open is '' in its column: null would not be unique. */
const ANY = '';

function named(cell: Cell | undefined): string | null {
  return cell === ANY || cell === undefined ? null : (cell as string);
}

function budgetOf(row: Row): StoredBudget {
  const soft = row['soft_limit'] ?? null;
  return {
    id: text(row, 'id'),
    account: named(row['account']),
    key: named(row['key_lineage']),
    model: named(row['model']),
    period: text(row, 'period') as StoredBudget['period'],
    limit: integer(row, 'spend_limit'),
    soft: soft === null ? null : BigInt(soft),
    createdMs: Number(row['created_ms']),
    changedMs: Number(row['changed_ms']),
  };
}

interface Scope {
  readonly account: string;
  readonly lineage: string;
}

/** The account and the lineage that a budget is for: those of its key, where it names one. */
async function scopeOf(session: Reads, { account, key }: BudgetScope): Promise<Scope> {
  if (key === null) {
    const owners = account === null ? [] : await session.find(FIND_ACCOUNTS, [account]);
    if (account !== null && owners.length === 0) throw new LedgerError('account-unknown', `No account '${account}'`);
    return { account: account ?? ANY, lineage: ANY };
  }
  const [row] = await session.find(FIND_KEYS, [key]);
  if (row === undefined) throw new LedgerError('key-unknown', `No key '${key}'`);
  const { account: owner, lineage } = keyOf(row);
  if (account === null || account === owner) return { account: owner, lineage };
  throw new LedgerError('key-unknown', `Account '${account}' has no key '${key}'`);
}

async function inScope(
  session: Reads,
  { account, lineage }: Scope,
  { model, period }: BudgetScope,
): Promise<StoredBudget | undefined> {
  const sql = 'select * from budgets where account = $1 and key_lineage = $2 and model = $3 and period = $4';
  const [row] = await session.all(sql, [account, lineage, model ?? ANY, period]);
  return row === undefined ? undefined : budgetOf(row);
}

function findFor(database: Database, budget: BudgetScope): Promise<StoredBudget | undefined> {
  return database.snapshot(async (session) => inScope(session, await scopeOf(session, budget), budget));
}

/** Sets the budget of a scope and period. One that exists keeps its id, and its alerts are due again. */
function set(database: Database, budget: NewBudget, dateMs: number): Promise<StoredBudget> {
  return database.transaction(async (session) => {
    const scope = await scopeOf(session, budget);
    const { id, limit, model, period, soft } = budget;
    const dates = { created_ms: BigInt(dateMs), changed_ms: BigInt(dateMs) };
    const values = {
      id,
      account: scope.account,
      key_lineage: scope.lineage,
      model: model ?? ANY,
      period,
      spend_limit: limit,
      soft_limit: soft,
    };
    await session.write(INSERT_BUDGETS, [{ ...values, ...dates }]);
    const stored = (await inScope(session, scope, budget)) as StoredBudget;
    await session.all('delete from budget_alerts where budget = $1', [stored.id]);
    await noteChanges(session, [{ kind: 'budget', budget: stored.id }]);
    return stored;
  });
}

function remove(database: Database, id: string): Promise<StoredBudget> {
  return database.transaction(async (session) => {
    const [row] = await session.all('delete from budgets where id = $1 returning *', [id]);
    if (row === undefined) throw new LedgerError('budget-unknown', `No budget '${id}'`);
    await session.all('delete from budget_alerts where budget = $1', [id]);
    await noteChanges(session, [{ kind: 'budget', budget: id }]);
    return budgetOf(row);
  });
}

async function find(database: Database, id: string): Promise<StoredBudget | undefined> {
  const [row] = await database.snapshot((session) => session.all('select * from budgets where id = $1', [id]));
  return row === undefined ? undefined : budgetOf(row);
}

async function list(database: Database, account?: string, { after, limit }: PageQuery = {}): Promise<StoredBudget[]> {
  const filter = new QueryFilter();
  filter.compare('account =', account);
  filter.compare('id >', after);
  const sql = `select * from budgets ${filter.where} order by id ${filter.limit(limit)}`;
  const rows = await database.snapshot((session) => session.all(sql, filter.params));
  return rows.map(budgetOf);
}

/** Records that an alert was given, with its event. False when it was before, here or by another process. */
function noteAlert(database: Database, alert: BudgetAlert, event: NewWebhookEvent, dateMs: number): Promise<boolean> {
  const sql = `insert into budget_alerts (budget, threshold, starts_ms, date_ms) values ($1, $2, $3, $4)
    on conflict do nothing returning budget`;
  return database.transaction(async (session) => {
    const { budget, startsMs, threshold } = alert;
    // Alerts of earlier periods are of no use any more.
    await session.all('delete from budget_alerts where budget = $1 and starts_ms < $2', [budget, BigInt(startsMs)]);
    const rows = await session.all(sql, [budget, threshold, BigInt(startsMs), BigInt(dateMs)]);
    if (rows.length > 0) await noteEvents(session, [event], dateMs);
    return rows.length > 0;
  });
}

/** Accounts or models in one statement: bounds the rows of a reading. */
const SLICE = 100;

/** Sums of usage by account, lineage and model from a day on, by index `usage_daily_of_account`; or by model alone. */
async function spending(database: Database, query: SpendingQuery): Promise<SpendingRow[]> {
  const rows: SpendingRow[] = [];
  const read = async (of: 'account' | 'model', names: readonly string[]): Promise<void> => {
    for (let at = 0; at < names.length; at += SLICE) {
      const slice = names.slice(at, at + SLICE);
      const { count, sums } = spendingLookups(of, query);
      const kind = await readKind(database, 'scan', (session) => session.find(count, slice));
      const found = await database.snapshot((session) => session.find(sums, slice), kind);
      for (const row of found) {
        rows.push({
          account: named(row['account']),
          key: text(row, 'lineage'),
          model: text(row, 'model'),
          amount: wide(row, 'amount'),
        });
      }
    }
  };
  await read('account', query.accounts);
  await read('model', query.models);
  return rows;
}

const DAY = /^\d{4}-\d\d-\d\d$/;

function spendingLookups(of: 'account' | 'model', { from, to }: SpendingQuery): { count: Lookup; sums: Lookup } {
  for (const day of [from, to ?? from])
    if (!DAY.test(day)) throw new LedgerError('date-invalid', `'${day}' is not a day`);
  const days = `u.day >= '${from}'${to === null ? '' : ` and u.day < '${to}'`}`;
  const sql = (names: string): string =>
    of === 'account'
      ? `select u.account, coalesce(k.lineage, u.key_id) as lineage, u.model, ${wideSum('u.amount', 'amount')}
         from usage_daily u left join api_keys k on k.id = u.key_id
         where u.account ${names} and ${days} group by 1, 2, 3`
      : `select '' as account, '' as lineage, u.model, ${wideSum('u.amount', 'amount')}
         from usage_daily u where u.model ${names} and ${days} group by u.model`;
  const lookup = (sqlOf: (names: string) => string): Lookup => {
    return { sqlite: sqlOf('in (select value from json_each(?1))'), postgres: sqlOf('= any($1::text[])') };
  };
  return { count: lookup((names) => fewRows(`usage_daily u where u.${of} ${names} and ${days}`)), sums: lookup(sql) };
}

/** `onChange`: called after a change, so that watchers of this process learn of it at once. */
export function budgetRecords(database: Database, dateMs: () => number, onChange: () => void): BudgetRecords {
  const noted = async (work: Promise<StoredBudget>): Promise<StoredBudget> => {
    const done = await work;
    onChange();
    return done;
  };
  const withAccountId = <Budget extends BudgetScope>(budget: Budget): Budget => {
    return { ...budget, account: budget.account === null ? null : accountId(budget.account) };
  };
  return {
    set: (budget) => noted(set(database, withAccountId(budget), dateMs())),
    findFor: (budget) => findFor(database, withAccountId(budget)),
    remove: (id) => noted(remove(database, id)),
    find: (id) => find(database, id),
    list: (account, page) => list(database, account === undefined ? undefined : accountId(account), page),
    noteAlert: (alert, event) => noteAlert(database, alert, event, dateMs()),
    spending: (query) => spending(database, query),
  };
}
