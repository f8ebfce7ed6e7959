// Version 1 of the schema: everything. Run by `migrate.ts`, once for each database. What has shipped never changes;
// a change is a file of its own with the next version.

import type { Dialect } from '../database.ts';
import type { Migration } from './index.ts';

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

export const first: Migration = {
  version: 1,
  name: 'accounts, movements, holds, payments, usage, keys',
  statements: (dialect) => [...money(dialect), ...records(dialect), ...dialect.extras],
};
