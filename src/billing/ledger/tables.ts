// The tables as the newest migration leaves them, and rows read into the types of the ledger. Called by the book, the
// reports and the stores; a column named here exists in `migrations/`.

import type { Row, Table } from './database.ts';
import type { Account, Movement, MovementKind, Payment, PaymentState, StoredKey, Usage } from './store.ts';

export const ACCOUNTS: Table = {
  name: 'accounts',
  columns: { id: 'text', label: 'text', created_ms: 'bigint', balance: 'bigint', held: 'bigint' },
  key: ['id'],
};

export const MOVEMENTS: Table = {
  name: 'movements',
  columns: {
    seq: 'bigint',
    id: 'text',
    kind: 'text',
    account: 'text',
    amount: 'bigint',
    date_ms: 'bigint',
    memo: 'text',
    usage: 'text',
  },
  key: ['seq'],
};

export const ENTRIES: Table = {
  name: 'entries',
  columns: { movement: 'bigint', account: 'text', amount: 'bigint' },
  key: ['movement', 'account'],
};

export const HOLDS: Table = {
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
  },
  key: ['id'],
};

export const USAGE: Table = {
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
  },
  key: ['account', 'key_id', 'model', 'day'],
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

export const PAYMENTS: Table = {
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

export const KEYS: Table = {
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
  },
  key: ['id'],
};

export const CHANGES: Table = {
  name: 'changes',
  columns: { seq: 'bigint', kind: 'text', subject: 'text' },
  key: ['seq'],
};

/** A hold or lease as stored: what is left of it is `amount - spent`. */
export interface StoredHold {
  readonly id: string;
  readonly kind: 'hold' | 'lease';
  readonly account: string;
  readonly holder: string;
  readonly amount: bigint;
  readonly spent: bigint;
  readonly state: 'open' | 'closed';
  readonly expiresMs: number;
}

export function text(row: Row, column: string): string {
  return String(row[column]);
}

export function integer(row: Row, column: string): bigint {
  return BigInt(row[column] ?? 0n);
}

function optionalText(row: Row, column: string): string | null {
  return row[column] === null ? null : text(row, column);
}

function optionalDate(row: Row, column: string): number | null {
  return row[column] === null ? null : Number(row[column]);
}

export function accountOf(row: Row): Account {
  return {
    id: text(row, 'id'),
    label: text(row, 'label'),
    createdMs: Number(row['created_ms']),
    balance: integer(row, 'balance'),
    held: integer(row, 'held'),
  };
}

export function holdOf(row: Row): StoredHold {
  return {
    id: text(row, 'id'),
    kind: text(row, 'kind') as StoredHold['kind'],
    account: text(row, 'account'),
    holder: text(row, 'holder'),
    amount: integer(row, 'amount'),
    spent: integer(row, 'spent'),
    state: text(row, 'state') as StoredHold['state'],
    expiresMs: Number(row['expires_ms']),
  };
}

export function paymentOf(row: Row): Payment {
  return {
    id: text(row, 'id'),
    network: text(row, 'network'),
    asset: text(row, 'asset'),
    payer: text(row, 'payer'),
    nonce: text(row, 'nonce'),
    purpose: text(row, 'purpose'),
    amount: integer(row, 'amount'),
    validUntilMs: Number(row['valid_until_ms']),
    state: text(row, 'state') as PaymentState,
    request: optionalText(row, 'request'),
    answer: optionalText(row, 'answer'),
    changedMs: Number(row['changed_ms']),
  };
}

export function movementOf(row: Row): Movement {
  const usage = optionalText(row, 'usage');
  return {
    seq: integer(row, 'seq'),
    id: text(row, 'id'),
    kind: text(row, 'kind') as MovementKind,
    account: text(row, 'account'),
    amount: integer(row, 'amount'),
    dateMs: Number(row['date_ms']),
    memo: text(row, 'memo'),
    usage: usage === null ? null : (JSON.parse(usage) as Usage),
  };
}

export function keyOf(row: Row): StoredKey {
  return {
    id: text(row, 'id'),
    hash: text(row, 'hash'),
    prefix: text(row, 'prefix'),
    account: text(row, 'account'),
    label: text(row, 'label'),
    limits: JSON.parse(text(row, 'limits')) as StoredKey['limits'],
    createdMs: Number(row['created_ms']),
    expiresMs: optionalDate(row, 'expires_ms'),
    disabledMs: optionalDate(row, 'disabled_ms'),
  };
}

export function keyRow(key: StoredKey): Row {
  return {
    id: key.id,
    hash: key.hash,
    prefix: key.prefix,
    account: key.account,
    label: key.label,
    limits: JSON.stringify(key.limits),
    created_ms: BigInt(key.createdMs),
    expires_ms: key.expiresMs === null ? null : BigInt(key.expiresMs),
    disabled_ms: key.disabledMs === null ? null : BigInt(key.disabledMs),
  };
}
