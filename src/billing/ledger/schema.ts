// The versions of the schema, oldest first, and how a database is brought to the newest when it is opened: one process at a
// time, each version whole or not at all. A version that has shipped never changes. A schema newer than this program is
// refused: its rows may mean something else.

import { addMonth, chargeColumns } from './charges.ts';
import type { Database, Dialect, Session } from './database.ts';
import { LedgerError } from './ledger.ts';
import { insertion, integer, text, USAGE_SUMS } from './tables.ts';

export interface Migration {
  readonly version: number;
  readonly name: string;
  statements(dialect: Dialect): readonly string[];
  /** Moves data after the statements, where SQL alone does not do. */
  readonly move?: (session: Session, dialect: Dialect) => Promise<void>;
}

function money({ integer, tableOptions }: Dialect): string[] {
  return [
    `create table accounts (
      id text primary key,
      label text not null,
      created_ms ${integer} not null,
      balance ${integer} not null,
      held ${integer} not null check (held >= 0)
    ) ${tableOptions}`,
    `create table movements (
      seq ${integer} primary key,
      id text not null unique,
      kind text not null,
      account text not null references accounts (id),
      amount ${integer} not null,
      date_ms ${integer} not null,
      memo text not null,
      usage text
    ) ${tableOptions}`,
    'create index movements_of_account on movements (account, seq)',
    `create table entries (
      movement ${integer} not null references movements (seq),
      account text not null,
      amount ${integer} not null check (amount <> 0),
      primary key (movement, account)
    ) ${tableOptions}`,
    `create table holds (
      id text primary key,
      kind text not null check (kind in ('hold', 'lease')),
      account text not null references accounts (id),
      holder text not null,
      amount ${integer} not null check (amount >= 0),
      spent ${integer} not null check (spent >= 0 and spent <= amount),
      state text not null check (state in ('open', 'closed')),
      expires_ms ${integer} not null
    ) ${tableOptions}`,
    "create index holds_open on holds (expires_ms, holder) where state = 'open'",
  ];
}

function records({ integer, tableOptions }: Dialect): string[] {
  return [
    `create table usage_daily (
      account text not null,
      key_id text not null,
      model text not null,
      day text not null,
      requests ${integer} not null,
      estimated ${integer} not null,
      input_tokens ${integer} not null,
      cached_tokens ${integer} not null,
      output_tokens ${integer} not null,
      amount ${integer} not null,
      primary key (account, key_id, model, day)
    ) ${tableOptions}`,
    `create table payments (
      id text primary key,
      network text not null,
      asset text not null,
      payer text not null,
      nonce text not null,
      purpose text not null,
      amount ${integer} not null check (amount >= 0),
      valid_until_ms ${integer} not null,
      state text not null check (state in ('reserved', 'submitted', 'settled', 'failed')),
      request text,
      answer text,
      changed_ms ${integer} not null
    ) ${tableOptions}`,
    'create index payments_in_state on payments (state, changed_ms)',
    `create table api_keys (
      id text primary key,
      hash text not null unique,
      prefix text not null,
      account text not null references accounts (id),
      label text not null,
      limits text not null,
      created_ms ${integer} not null,
      expires_ms ${integer},
      disabled_ms ${integer}
    ) ${tableOptions}`,
    `create table changes (
      seq ${integer} primary key,
      kind text not null,
      subject text not null
    ) ${tableOptions}`,
    `create table change_count (value ${integer} not null) ${tableOptions}`,
    'insert into change_count (value) values (0)',
  ];
}

const first: Migration = {
  version: 1,
  name: 'accounts, movements, holds, payments, usage, keys',
  statements: (dialect) => [
    ...money(dialect),
    ...records(dialect),
    ...(dialect.name === 'postgres' ? ['create sequence movement_seq'] : []),
  ],
};

const organisations: Migration = {
  version: 2,
  name: 'organisations, credit limits, rotation chains of keys',
  statements: ({ integer }) => [
    'alter table accounts add column organisation text references accounts (id)',
    `alter table accounts add column credit_limit ${integer} not null default 0`,
    'create index accounts_of_organisation on accounts (organisation) where organisation is not null',
    "alter table api_keys add column lineage text not null default ''",
    // Which key succeeded which was not recorded: every key that exists begins a chain.
    'update api_keys set lineage = id',
    'create index api_keys_of_account on api_keys (account)',
    'create index usage_daily_of_day on usage_daily (day)',
  ],
};

/** What of an account's credit expires, and what was refunded of a charge. */
function credit({ integer, tableOptions }: Dialect): string[] {
  return [
    `alter table accounts add column expiring ${integer} not null default 0`,
    `alter table accounts add column low_balance ${integer}`,
    `create table credit_grants (
      id text primary key,
      account text not null references accounts (id),
      amount ${integer} not null check (amount > 0),
      remaining ${integer} not null check (remaining >= 0 and remaining <= amount),
      expires_ms ${integer} not null
    ) ${tableOptions}`,
    'create index credit_grants_open on credit_grants (account) where remaining > 0',
    'create index credit_grants_due on credit_grants (expires_ms) where remaining > 0',
    `create table refunds (
      id text primary key,
      charge text not null,
      amount ${integer} not null check (amount > 0)
    ) ${tableOptions}`,
    'create index refunds_of_charge on refunds (charge)',
  ];
}

/** Records beside the money: single requests, acts of operators, webhooks and their deliveries. */
function logs({ appendOnly, integer, tableOptions }: Dialect): string[] {
  return [
    `create table requests (
      id text primary key,
      date_ms ${integer} not null,
      request_id text not null,
      account text not null,
      key_id text,
      endpoint text not null,
      model text not null,
      status ${integer} not null,
      code text not null,
      input_tokens ${integer} not null,
      cached_tokens ${integer} not null,
      output_tokens ${integer} not null,
      measured ${integer} not null,
      amount ${integer} not null,
      duration_ms ${integer} not null,
      first_byte_ms ${integer}
    ) ${tableOptions}`,
    'create index requests_of_account on requests (account, id)',
    'create index requests_by_request_id on requests (request_id)',
    `create table admin_acts (
      seq ${integer} primary key,
      id text not null unique,
      date_ms ${integer} not null,
      actor text not null,
      role text not null,
      via text not null,
      action text not null,
      subject text not null,
      request text not null,
      before text
    ) ${tableOptions}`,
    `create table admin_outcomes (
      act text primary key references admin_acts (id),
      date_ms ${integer} not null,
      outcome text not null check (outcome in ('done', 'refused')),
      after text
    ) ${tableOptions}`,
    `create table admin_act_count (value ${integer} not null) ${tableOptions}`,
    'insert into admin_act_count (value) values (0)',
    ...appendOnly(['admin_acts', 'admin_outcomes']),
    `create table webhook_events (
      id text primary key,
      type text not null,
      account text not null,
      date_ms ${integer} not null,
      data text not null,
      state text not null check (state in ('new', 'sent'))
    ) ${tableOptions}`,
    "create index webhook_events_new on webhook_events (date_ms, id) where state = 'new'",
    'create index webhook_events_by_date on webhook_events (date_ms, id)',
    `create table webhook_deliveries (
      message text not null references webhook_events (id),
      endpoint text not null,
      state text not null check (state in ('pending', 'delivered', 'failed')),
      attempts ${integer} not null,
      due_ms ${integer} not null,
      result text not null,
      primary key (message, endpoint)
    ) ${tableOptions}`,
    "create index webhook_deliveries_due on webhook_deliveries (endpoint, due_ms) where state = 'pending'",
    `create table process_leases (
      name text primary key,
      holder text not null,
      until_ms ${integer} not null
    ) ${tableOptions}`,
  ];
}

const customers: Migration = {
  version: 3,
  name: 'expiring credit, refunds, requests, admin acts, webhooks',
  statements: (dialect) => [...credit(dialect), ...logs(dialect)],
};

const budgets: Migration = {
  version: 4,
  name: 'budgets',
  statements: ({ integer, tableOptions }) => [
    `create table budgets (
      id text primary key,
      account text not null,
      key_lineage text not null,
      model text not null,
      period text not null check (period in ('day', 'week', 'month')),
      spend_limit ${integer} not null check (spend_limit >= 0),
      soft_limit ${integer},
      created_ms ${integer} not null,
      changed_ms ${integer} not null,
      unique (account, key_lineage, model, period)
    ) ${tableOptions}`,
    `create table budget_alerts (
      budget text not null,
      threshold text not null,
      starts_ms ${integer} not null,
      date_ms ${integer} not null,
      primary key (budget, threshold, starts_ms)
    ) ${tableOptions}`,
    'create index usage_daily_of_account on usage_daily (account, day)',
    'create index usage_daily_of_model on usage_daily (model, day)',
    'create index api_keys_of_lineage on api_keys (lineage)',
  ],
};

/** Whether a column holds a hexadecimal address that is not in lower case. */
function isMixedAddress({ name }: Dialect, column: string): string {
  const isAddress =
    name === 'postgres'
      ? `${column} ~* '^0x[0-9a-f]{40}$'`
      : `length(${column}) = 42 and lower(substr(${column}, 1, 2)) = '0x' and substr(${column}, 3) not glob '*[^0-9a-fA-F]*'`;
  return `(${isAddress} and ${column} <> lower(${column}))`;
}

/** Accounts whose names are one address become one account. */
function mergeAddresses(dialect: Dialect): string[] {
  const isMixed = (column: string): string => isMixedAddress(dialect, column);
  const sumOf = (column: string): string =>
    `(select sum(o.${column}) from accounts o where lower(o.id) = accounts.id and ${isMixed('o.id')})`;
  const sums = USAGE_SUMS.map((column) => `sum(${column})`);
  return [
    `insert into accounts (id, label, created_ms, balance, held)
     select lower(id), min(label), min(created_ms), 0, 0 from accounts o
     where ${isMixed('id')} and not exists (select 1 from accounts a where a.id = lower(o.id)) group by lower(id)`,
    `update accounts set balance = balance + ${sumOf('balance')}, held = held + ${sumOf('held')},
     expiring = expiring + ${sumOf('expiring')}
     where not ${isMixed('id')} and exists (select 1 from accounts o where lower(o.id) = accounts.id and ${isMixed('o.id')})`,
    ...['movements', 'holds', 'api_keys', 'credit_grants', 'requests', 'webhook_events', 'budgets'].map(
      (table) => `update ${table} set account = lower(account) where ${isMixed('account')}`,
    ),
    `insert into usage_daily (account, key_id, model, day, ${USAGE_SUMS.join(', ')})
     select lower(account), key_id, model, day, ${sums.join(', ')} from usage_daily
     where ${isMixed('account')} group by lower(account), key_id, model, day
     on conflict (account, key_id, model, day) do update set
     ${USAGE_SUMS.map((column) => `${column} = usage_daily.${column} + excluded.${column}`).join(', ')}`,
    `delete from usage_daily where ${isMixed('account')}`,
    `update accounts set organisation = lower(organisation) where ${isMixed('organisation')}`,
    `delete from accounts where ${isMixed('id')}`,
  ];
}

/** A member of the JSON in which version 1 kept the usage of a charge. */
function usageMember({ name }: Dialect, member: string): string {
  return name === 'postgres' ? `(m.usage::json ->> '${member}')` : `json_extract(m.usage, '$.${member}')`;
}

const charges: Migration = {
  version: 5,
  name: 'charges by month, movements of one amount, leases by the clock of the database',
  statements: (dialect) => {
    const { integer, numbered, tableOptions } = dialect;
    const member = (name: string): string => usageMember(dialect, name);
    const source = "e.movement = m.seq and e.account like 'source:%'";
    const isPostgres = dialect.name === 'postgres';
    return [
      ...mergeAddresses(dialect),
      'alter table usage_daily rename to usage_daily_1',
      ...['day', 'account', 'model'].map((column) => `drop index usage_daily_of_${column}`),
      `create table usage_daily (
        account text not null,
        key_id text not null,
        model text not null,
        day text not null,
        payer text not null,
        requests ${integer} not null,
        estimated ${integer} not null,
        input_tokens ${integer} not null,
        cached_tokens ${integer} not null,
        output_tokens ${integer} not null,
        amount ${integer} not null,
        primary key (account, key_id, model, day, payer)
      ) ${tableOptions}`,
      `insert into usage_daily (account, key_id, model, day, payer, ${USAGE_SUMS.join(', ')})
       select account, key_id, model, day, account, ${USAGE_SUMS.join(', ')} from usage_daily_1`,
      'drop table usage_daily_1',
      'create index usage_daily_of_day on usage_daily (day)',
      'create index usage_daily_of_account on usage_daily (account, day)',
      'create index usage_daily_of_model on usage_daily (model, day)',
      `alter table holds add column operation ${integer} not null default 0`,
      `alter table holds add column charged ${integer}`,
      `update holds set charged = (select -m.amount from movements m where m.id = 'settle:' || holds.id)
       where kind = 'hold' and state = 'closed'`,
      'drop index movements_of_account',
      'alter table movements rename to movements_1',
      `create table movements (
        id text primary key,
        kind text not null,
        account text not null references accounts (id),
        counter text not null,
        amount ${integer} not null,
        date_ms ${integer} not null,
        memo text not null
      ) ${tableOptions}`,
      'create index movements_of_account on movements (account, date_ms, id)',
      `insert into movements (id, kind, account, counter, amount, date_ms, memo)
       select m.id, m.kind, m.account, coalesce((select e.account from entries e where ${source}), 'source:none'),
       coalesce((select -e.amount from entries e where ${source}), 0), m.date_ms, m.memo
       from movements_1 m where m.kind in ('grant', 'payment')`,
      `create table names (num ${numbered}, name text not null unique) ${tableOptions}`,
      `insert into names (name) select account from movements_1 m where usage is not null
       union select ${member('model')} from movements_1 m where usage is not null
       union select ${member('key')} from movements_1 m where ${member('key')} is not null`,
      `create table charge_months (month text primary key) ${tableOptions}`,
      ...(isPostgres
        ? [
            `create table charges (${chargeColumns(dialect)}) partition by range (date_ms)`,
            // Rows come almost in the order of their dates: a block range index finds a day and takes no room.
            'create index charges_by_date on charges using brin (date_ms) with (pages_per_range = 32)',
          ]
        : []),
    ];
  },
  async move(session, dialect) {
    const member = (name: string): string => usageMember(dialect, name);
    const isPostgres = dialect.name === 'postgres';
    const number = (name: string): string =>
      isPostgres ? `cast(${member(name)} as bigint)` : `cast(${member(name)} as integer)`;
    const month = isPostgres
      ? "to_char(to_timestamp(date_ms / 1000) at time zone 'UTC', 'YYYY_MM')"
      : "strftime('%Y_%m', date_ms / 1000, 'unixepoch')";
    const months = await session.all(
      `select distinct ${month} as month from movements_1 where usage is not null order by 1`,
    );
    for (const row of months) {
      const name = text(row, 'month');
      await addMonth(session, dialect, name);
      // Ids need not be those of version 1: no process lives on that would repeat one of its charges.
      await session.all(
        `insert into charges_${name}
         (account, date_ms, id, amount, input_tokens, cached_tokens, output_tokens, member, key, model, price, requests,
          measured)
         select a.num, m.date_ms, m.seq,
         coalesce((select e.amount from entries e where e.movement = m.seq and e.account = 'revenue'), 0),
         ${number('inputTokens')}, ${number('cachedTokens')}, ${number('outputTokens')}, 0,
         coalesce((select k.num from names k where k.name = ${member('key')}), 0),
         (select n.num from names n where n.name = ${member('model')}), 0, coalesce(${number('requests')}, 1),
         case when ${member('measured')} in (${isPostgres ? "'true'" : '1'}) then 1 else 0 end
         from movements_1 m join names a on a.name = m.account where m.usage is not null and ${month} = $1`,
        [name],
      );
    }
    await session.all('drop table entries');
    await session.all('drop table movements_1');
    if (isPostgres) await session.all('drop sequence movement_seq');
  },
};

const paymentNonces: Migration = {
  version: 6,
  name: 'payments by nonce and by date',
  statements: () => [
    'create index payments_of_nonce on payments (nonce)',
    'create index payments_by_change on payments (changed_ms, id)',
  ],
};

const growth: Migration = {
  version: 7,
  name: 'audited days, parked charges',
  statements: ({ integer, tableOptions }) => [
    `create table audited_days (
      day text primary key,
      requests ${integer} not null,
      amount text not null,
      charges ${integer} not null
    ) ${tableOptions}`,
    `create table parked_charges (
      date_ms ${integer} not null,
      id ${integer} not null,
      amount ${integer} not null,
      charge text not null,
      reason text not null,
      primary key (date_ms, id)
    ) ${tableOptions}`,
    `alter table charge_months add column pruned ${integer} not null default 0`,
    "create index holds_of_holder on holds (holder) where state = 'open'",
    "create index holds_closed on holds (expires_ms) where kind = 'lease' and state = 'closed'",
  ],
};

const responses: Migration = {
  version: 8,
  name: 'responses',
  statements: ({ integer, tableOptions }) => [
    `create table responses (
      account text not null,
      id text not null,
      created_ms ${integer} not null,
      expires_ms ${integer} not null,
      status text not null check (status in ('queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled')),
      model text not null,
      previous text,
      input text not null,
      output text not null,
      response text not null,
      bytes ${integer} not null,
      holder text,
      lease_ms ${integer},
      has_events ${integer} not null,
      primary key (account, id)
    ) ${tableOptions}`,
    'create index responses_by_expiry on responses (expires_ms)',
    'create index responses_of_account on responses (account, created_ms, id, bytes)',
    "create index responses_running on responses (holder, lease_ms) where status in ('queued', 'in_progress')",
    `create table response_items (
      account text not null,
      item text not null,
      response text not null,
      primary key (account, item),
      foreign key (account, response) references responses (account, id) on delete cascade
    ) ${tableOptions}`,
    'create index response_items_of_response on response_items (account, response)',
    `create table response_events (
      account text not null,
      response text not null,
      first ${integer} not null,
      last ${integer} not null,
      data text not null,
      primary key (account, response, first),
      foreign key (account, response) references responses (account, id) on delete cascade
    ) ${tableOptions}`,
  ],
};

const requestIds: Migration = {
  version: 9,
  name: 'requests of an account by their request id',
  statements: () => [
    'create index requests_of_request_id on requests (request_id, account, id)',
    'drop index requests_by_request_id',
  ],
};

const keyDates: Migration = {
  version: 10,
  name: 'keys by date',
  statements: () => ['create index api_keys_by_date on api_keys (created_ms, id)'],
};

export const MIGRATIONS: readonly Migration[] = [
  first,
  organisations,
  customers,
  budgets,
  charges,
  paymentNonces,
  growth,
  responses,
  requestIds,
  keyDates,
];

const INSERT_VERSION = insertion({
  name: 'schema_version',
  columns: { version: 'bigint', name: 'text', applied_ms: 'bigint' },
  key: ['version'],
});

/** Applies what is missing. Resolves with the number of versions applied. */
export async function migrate(
  database: Database,
  dateMs: number,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<number> {
  const newest = BigInt(migrations.at(-1)?.version ?? 0);
  return await database.exclusive(async (session) => {
    const { integer: type, tableOptions } = database.dialect;
    await session.all(
      `create table if not exists schema_version
       (version ${type} primary key, name text not null, applied_ms ${type} not null) ${tableOptions}`,
    );
    const [row] = await session.all('select coalesce(max(version), 0) as version from schema_version');
    const version = row === undefined ? 0n : integer(row, 'version');
    if (version > newest) {
      const message = `The store has schema version ${version}; this program knows ${newest} and older ones. Use a newer program.`;
      throw new LedgerError('schema-newer', message);
    }
    const missing = migrations.filter((migration) => BigInt(migration.version) > version);
    for (const migration of missing) {
      for (const statement of migration.statements(database.dialect)) await session.all(statement);
      await migration.move?.(session, database.dialect);
      const applied = { version: BigInt(migration.version), name: migration.name, applied_ms: BigInt(dateMs) };
      await session.write(INSERT_VERSION, [applied]);
    }
    return missing.length;
  });
}
