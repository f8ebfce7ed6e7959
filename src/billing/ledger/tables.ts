// The tables as the newest migration leaves them, the reads and writes on them, and the mapping between rows and the types
// of the ledger. A column named here exists in `schema.ts`.

import type { Cell, Lookup, Match, Row, Write } from './database.ts';
import type { Account, CreditGrant, Movement, Payment, StoredHold, StoredKey } from './ledger.ts';
import { parseJson } from '../../config/json-text.ts';

interface Table {
  readonly name: string;
  readonly columns: Readonly<Record<string, 'bigint' | 'integer' | 'smallint' | 'text'>>;
  readonly key: readonly string[];
}

/** What happens to a row whose key exists; without it the write fails. Columns are replaced, or added to. */
interface OnConflict {
  readonly replace?: readonly string[];
  readonly add?: readonly string[];
  readonly ignore?: true;
}

/** With `lock`, no other process changes the rows before the commit. SQLite's transactions lock the whole database. */
function lookup({ name }: Table, column: string, lock: 'lock' | null = null, condition = ''): Lookup {
  const ending = lock === null ? '' : ` order by ${column} for no key update`;
  const more = condition === '' ? '' : ` and ${condition}`;
  return {
    sqlite: `select * from ${name} where ${column} in (select value from json_each(?1))${more}`,
    postgres: `select * from ${name} where ${column} = any($1::text[])${more}${ending}`,
  };
}

/** An insert; the SQL text is made once, so that a commit only binds parameters. */
export function insertion({ columns, key, name }: Table, { add = [], ignore, replace = [] }: OnConflict = {}): Write {
  const names = Object.keys(columns);
  const changes = [
    ...replace.map((column) => `${column} = excluded.${column}`),
    ...add.map((column) => `${column} = ${name}.${column} + excluded.${column}`),
  ];
  const insert = `insert into ${name} (${names.join(', ')})`;
  const update = changes.length === 0 ? '' : ` on conflict (${key.join(', ')}) do update set ${changes.join(', ')}`;
  const ending = ignore ? ' on conflict do nothing' : update;
  const arrays = Object.values(columns).map((type, at) => `$${at + 1}::${type}[]`);
  return {
    columns: names,
    sqlite: `${insert} values (${names.map(() => '?').join(', ')})${ending}`,
    postgres: `${insert} select * from unnest(${arrays.join(', ')})${ending}`,
  };
}

/** Finds rows by their primary key. */
function matching({ columns, key, name }: Table): Match {
  const arrays = key.map((column, at) => `$${at + 1}::${columns[column]}[]`);
  return {
    columns: key,
    sqlite: `select * from ${name} where ${key.map((column) => `${column} = ?`).join(' and ')}`,
    postgres: `select t.* from unnest(${arrays.join(', ')}) as k (${key.join(', ')}) join ${name} t using (${key.join(', ')})`,
  };
}

const ACCOUNTS: Table = {
  name: 'accounts',
  columns: {
    id: 'text',
    label: 'text',
    created_ms: 'bigint',
    balance: 'bigint',
    held: 'bigint',
    organisation: 'text',
    credit_limit: 'bigint',
    low_balance: 'bigint',
    expiring: 'bigint',
  },
  key: ['id'],
};

const MOVEMENTS: Table = {
  name: 'movements',
  columns: {
    id: 'text',
    kind: 'text',
    account: 'text',
    counter: 'text',
    amount: 'bigint',
    date_ms: 'bigint',
    memo: 'text',
  },
  key: ['id'],
};

/** Of one month. Accounts, members, keys, models and prices are numbers of `names`; 0: none. */
function charges(month: string): Table {
  return {
    name: `charges_${month}`,
    columns: {
      account: 'integer',
      date_ms: 'bigint',
      id: 'bigint',
      amount: 'bigint',
      input_tokens: 'bigint',
      cached_tokens: 'bigint',
      output_tokens: 'bigint',
      member: 'integer',
      key: 'integer',
      model: 'integer',
      price: 'integer',
      requests: 'integer',
      measured: 'smallint',
    },
    key: ['account', 'date_ms', 'id'],
  };
}

const HOLDS: Table = {
  name: 'holds',
  columns: {
    id: 'text',
    kind: 'text',
    account: 'text',
    holder: 'text',
    amount: 'bigint',
    spent: 'bigint',
    state: 'text',
    expires_ms: 'bigint',
    operation: 'bigint',
    charged: 'bigint',
  },
  key: ['id'],
};

const USAGE: Table = {
  name: 'usage_daily',
  columns: {
    account: 'text',
    key_id: 'text',
    model: 'text',
    day: 'text',
    requests: 'bigint',
    estimated: 'bigint',
    input_tokens: 'bigint',
    cached_tokens: 'bigint',
    output_tokens: 'bigint',
    amount: 'bigint',
    payer: 'text',
  },
  key: ['account', 'key_id', 'model', 'day', 'payer'],
};

/** The columns of a day's usage that add up. */
export const USAGE_SUMS = [
  'requests',
  'estimated',
  'input_tokens',
  'cached_tokens',
  'output_tokens',
  'amount',
] as const;

const PAYMENTS: Table = {
  name: 'payments',
  columns: {
    id: 'text',
    network: 'text',
    asset: 'text',
    payer: 'text',
    nonce: 'text',
    purpose: 'text',
    amount: 'bigint',
    valid_until_ms: 'bigint',
    state: 'text',
    request: 'text',
    answer: 'text',
    changed_ms: 'bigint',
  },
  key: ['id'],
};

const KEYS: Table = {
  name: 'api_keys',
  columns: {
    id: 'text',
    hash: 'text',
    prefix: 'text',
    account: 'text',
    label: 'text',
    limits: 'text',
    created_ms: 'bigint',
    expires_ms: 'bigint',
    disabled_ms: 'bigint',
    lineage: 'text',
  },
  key: ['id'],
};

const CREDIT_GRANTS: Table = {
  name: 'credit_grants',
  columns: { id: 'text', account: 'text', amount: 'bigint', remaining: 'bigint', expires_ms: 'bigint' },
  key: ['id'],
};

const REFUNDS: Table = {
  name: 'refunds',
  columns: { id: 'text', charge: 'text', amount: 'bigint' },
  key: ['id'],
};
const NAMES: Table = { name: 'names', columns: { num: 'integer', name: 'text' }, key: ['num'] };

const MONTHS: Table = { name: 'charge_months', columns: { month: 'text' }, key: ['month'] };

const AUDITED_DAYS: Table = {
  name: 'audited_days',
  columns: { day: 'text', requests: 'bigint', amount: 'text', charges: 'bigint' },
  key: ['day'],
};

const PARKED: Table = {
  name: 'parked_charges',
  columns: { date_ms: 'bigint', id: 'bigint', amount: 'bigint', charge: 'text', reason: 'text' },
  key: ['date_ms', 'id'],
};

const CHANGES: Table = {
  name: 'changes',
  columns: { seq: 'bigint', kind: 'text', subject: 'text' },
  key: ['seq'],
};

export const FIND_ACCOUNTS: Lookup = lookup(ACCOUNTS, 'id');
/** With the organisations of the accounts, all of them locked in order of their ids. */
export const LOCK_ACCOUNTS: Lookup = {
  sqlite: `select * from accounts where id in (select value from json_each(?1)
    union select organisation from accounts where id in (select value from json_each(?1)))`,
  postgres: `select * from accounts where id in (select unnest($1::text[])
    union select organisation from accounts where id = any($1::text[])) order by id for no key update`,
};
/** The same without waiting: rows that another transaction has locked are left out. */
export const TRY_LOCK_ACCOUNTS: Lookup = {
  sqlite: LOCK_ACCOUNTS.sqlite,
  postgres: `${LOCK_ACCOUNTS.postgres} skip locked`,
};
export const CONFIGURE_ACCOUNTS: Write = insertion(ACCOUNTS, {
  replace: ['organisation', 'credit_limit', 'low_balance'],
});
export const ADD_ACCOUNTS: Write = insertion(ACCOUNTS, { ignore: true });
export const UPDATE_ACCOUNTS: Write = insertion(ACCOUNTS, { replace: ['balance', 'held', 'expiring'] });
export const FIND_MOVEMENTS: Lookup = lookup(MOVEMENTS, 'id');
export const INSERT_MOVEMENTS: Write = insertion(MOVEMENTS);
export const PUT_AUDITED_DAYS: Write = insertion(AUDITED_DAYS, { replace: ['requests', 'amount', 'charges'] });
export const PARK_CHARGES: Write = insertion(PARKED, { ignore: true });
export const FIND_NAMES: Lookup = lookup(NAMES, 'name');
export const ADD_NAMES: Write = insertion({ name: 'names', columns: { name: 'text' }, key: ['name'] });
export const FIND_MONTHS: Lookup = lookup(MONTHS, 'month');
export const ADD_MONTHS: Write = insertion(MONTHS);
export const FIND_HOLDS: Lookup = lookup(HOLDS, 'id');
export const LOCK_HOLDS: Lookup = lookup(HOLDS, 'id', 'lock');
/** Answers with the ids of those that were there. */
export const DELETE_HOLDS: Lookup = {
  sqlite: 'delete from holds where id in (select value from json_each(?1)) returning id',
  postgres: 'delete from holds where id = any($1::text[]) returning id',
};
export const INSERT_HOLDS: Write = insertion(HOLDS);
export const UPDATE_HOLDS: Write = insertion(HOLDS, { replace: ['amount', 'spent', 'state', 'operation', 'charged'] });
export const ADD_USAGE: Write = insertion(USAGE, { add: USAGE_SUMS });
export const FIND_PAYMENTS: Lookup = lookup(PAYMENTS, 'id');
export const LOCK_PAYMENTS: Lookup = lookup(PAYMENTS, 'id', 'lock');
export const INSERT_PAYMENTS: Write = insertion(PAYMENTS);
export const UPDATE_PAYMENTS: Write = insertion(PAYMENTS, { replace: ['state', 'request', 'answer', 'changed_ms'] });
export const FIND_KEYS: Lookup = lookup(KEYS, 'id');
export const FIND_KEYS_BY_HASH: Lookup = lookup(KEYS, 'hash');
export const LOCK_KEYS: Lookup = lookup(KEYS, 'id', 'lock');
export const INSERT_KEYS: Write = insertion(KEYS);
export const UPDATE_KEYS: Write = insertion(KEYS, { replace: ['label', 'limits', 'expires_ms', 'disabled_ms'] });
export const FIND_OPEN_GRANTS: Lookup = lookup(CREDIT_GRANTS, 'account', null, 'remaining > 0');
export const INSERT_GRANTS: Write = insertion(CREDIT_GRANTS);
export const UPDATE_GRANTS: Write = insertion(CREDIT_GRANTS, { replace: ['remaining'] });
export const FIND_REFUNDS: Lookup = lookup(REFUNDS, 'charge');
export const INSERT_REFUNDS: Write = insertion(REFUNDS);
export const INSERT_CHANGES: Write = insertion(CHANGES);

/** The statements on the charges of one month. */
export interface ChargeStatements {
  readonly find: Match;
  readonly insert: Write;
}

const CHARGE_STATEMENTS = new Map<string, ChargeStatements>();

export function chargeStatements(month: string): ChargeStatements {
  let statements = CHARGE_STATEMENTS.get(month);
  if (statements === undefined) {
    const table = charges(month);
    statements = { find: matching(table), insert: insertion(table) };
    CHARGE_STATEMENTS.set(month, statements);
  }
  return statements;
}

/** Who else has paid for usage of an account on a day. */
export const FIND_OTHER_PAYERS: Match = {
  columns: ['account', 'day'],
  sqlite: 'select distinct account, payer from usage_daily where account = ?1 and day = ?2 and payer <> account',
  postgres: `select distinct account, payer from usage_daily
    where (account, day) in (select * from unnest($1::text[], $2::text[])) and payer <> account`,
};

export function text(row: Row, column: string): string {
  return String(row[column]);
}

export function integer(row: Row, column: string): bigint {
  return BigInt(row[column] ?? 0n);
}

/** An optional date; absent is null in both directions. */
function dateOf(cell: Cell | undefined): number | null {
  return cell === null || cell === undefined ? null : Number(cell);
}

function cellOf(dateMs: number | null): bigint | null {
  return dateMs === null ? null : BigInt(dateMs);
}

// Rows come from `select *`: their columns and types are those of the tables above, so only what differs is mapped.

export function accountOf({ created_ms: createdMs, credit_limit, low_balance, ...row }: Row): Account {
  const limits = { creditLimit: credit_limit as bigint, lowBalance: low_balance as bigint | null };
  return { ...(row as unknown as Account), createdMs: Number(createdMs), ...limits };
}

export function accountRow({ createdMs, creditLimit, lowBalance, ...row }: Account): Row {
  return { ...row, created_ms: BigInt(createdMs), credit_limit: creditLimit, low_balance: lowBalance };
}

export function holdOf({ expires_ms: expiresMs, charged = null, ...row }: Row): StoredHold {
  return { ...(row as unknown as StoredHold), charged: charged as bigint | null, expiresMs: Number(expiresMs) };
}

export function holdRow({ expiresMs, ...row }: StoredHold): Row {
  return { ...row, expires_ms: BigInt(expiresMs) };
}

export function grantOf({ expires_ms: expiresMs, ...row }: Row): CreditGrant {
  return { ...(row as unknown as CreditGrant), expiresMs: Number(expiresMs) };
}

export function grantRow({ expiresMs, ...row }: CreditGrant): Row {
  return { ...row, expires_ms: BigInt(expiresMs) };
}

export function paymentOf({ valid_until_ms: validUntilMs, changed_ms: changedMs, ...row }: Row): Payment {
  return { ...(row as unknown as Payment), validUntilMs: Number(validUntilMs), changedMs: Number(changedMs) };
}

export function paymentRow({ validUntilMs, changedMs, ...row }: Payment): Row {
  return { ...row, valid_until_ms: BigInt(validUntilMs), changed_ms: BigInt(changedMs) };
}

export function movementOf({ date_ms: dateMs, ...row }: Row): Omit<Movement, 'seq' | 'usage'> {
  const { counter: _, ...movement } = row;
  return { ...(movement as unknown as Movement), dateMs: Number(dateMs) };
}

export function keyOf({ limits, created_ms: createdMs, expires_ms, disabled_ms, ...row }: Row): StoredKey {
  return {
    ...(row as unknown as StoredKey),
    limits: parseJson(String(limits)) as StoredKey['limits'],
    createdMs: Number(createdMs),
    expiresMs: dateOf(expires_ms),
    disabledMs: dateOf(disabled_ms),
  };
}

export function keyRow({ limits, createdMs, expiresMs, disabledMs, ...row }: StoredKey): Row {
  return {
    ...row,
    limits: JSON.stringify(limits),
    created_ms: BigInt(createdMs),
    expires_ms: cellOf(expiresMs),
    disabled_ms: cellOf(disabledMs),
  };
}
