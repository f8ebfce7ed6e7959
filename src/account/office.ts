// The operator's side of accounts: keys, credit, usage and the audit, over a ledger. The command line and the admin
// listener both ask an `Office`; one that is reached over the network (`cli/remote-office.ts`) answers alike. A key leaves
// here once, when it is made: the ledger has its SHA-256.

import { HeadraceError } from '../errors.ts';
import { hashKey } from './keys.ts';
import { type Account, type Ledger, LedgerError, type NewKey, type StoredKey } from './ledger/store.ts';
import { printCredits, printUsd } from './money.ts';
import { type Fields, readAccountOrder, readGrantOrder, readHistoryQuery, readKeyOrder } from './orders.ts';
import { readKeyQuery, readRotationOrder, readUsageQuery } from './orders.ts';
import {
  accountStatement,
  type AccountStatement,
  auditStatement,
  type AuditStatement,
  type GrantStatement,
  keyStatement,
  type KeyStatement,
  movementStatement,
  type MovementStatement,
  type NewKeyStatement,
  type RotationStatement,
  usageStatement,
  type UsageStatement,
} from './statements.ts';

/**
 * Fields are those of `orders.ts`. Calls reject with `HR_REQUEST_INVALID` for fields that are wrong, with a `LedgerError`
 * for what the ledger refuses, or with the error of the database.
 */
export interface Office {
  listAccounts(): Promise<AccountStatement[]>;
  /** One that exists stays as it is. */
  createAccount(fields: Fields): Promise<AccountStatement>;
  account(id: string): Promise<AccountStatement>;
  /** Credit for an account that exists; a repeat of the id moves nothing. */
  grant(account: string, fields: Fields): Promise<GrantStatement>;
  /** Newest first. */
  history(account: string, fields: Fields): Promise<MovementStatement[]>;
  listKeys(fields: Fields): Promise<KeyStatement[]>;
  /** Makes the account too when it is new. */
  createKey(fields: Fields): Promise<NewKeyStatement>;
  disableKey(id: string): Promise<KeyStatement>;
  /** A successor that ends when the old key would have, unless said otherwise. Refuses a key that is stopped. */
  rotateKey(id: string, fields: Fields): Promise<RotationStatement>;
  usage(fields: Fields): Promise<UsageStatement[]>;
  audit(): Promise<AuditStatement>;
}

export interface OfficeWorld {
  /** Milliseconds since 1970, whole. */
  readonly dateMs: () => number;
  /** Good for secrets. */
  readonly randomBytes: (size: number) => Buffer;
}

const KEY_BYTES = 32;
const ID_BYTES = 9;

/** `hr_` and six characters: 36 of the 256 bits, enough to tell keys apart and too few to help guessing. */
const PREFIX_LENGTH = 9;

/** A key and what is stored of it. Its id says nothing about it. */
function makeKey({ randomBytes }: OfficeWorld): { key: string; stored: Pick<NewKey, 'id' | 'hash' | 'prefix'> } {
  const key = `hr_${randomBytes(KEY_BYTES).toString('base64url')}`;
  const id = `key_${randomBytes(ID_BYTES).toString('hex')}`;
  return { key, stored: { id, hash: hashKey(key), prefix: key.slice(0, PREFIX_LENGTH) } };
}

async function requireAccount(ledger: Ledger, id: string): Promise<Account> {
  const account = await ledger.account(id);
  if (account === undefined) throw new LedgerError('account-unknown', `No account '${id}'`);
  return account;
}

async function requireKey(ledger: Ledger, id: string): Promise<StoredKey> {
  const key = (await ledger.listKeys()).find((each) => each.id === id);
  if (key === undefined) throw new LedgerError('key-unknown', `No key '${id}'`);
  return key;
}

function refuse(name: string, msg: string): HeadraceError {
  return new HeadraceError('HR_REQUEST_INVALID', { validation: [{ loc: ['body', name], msg, type: 'value_error' }] });
}

async function grant(ledger: Ledger, world: OfficeWorld, account: string, fields: Fields): Promise<GrantStatement> {
  const { amount, memo, id = world.randomBytes(ID_BYTES).toString('hex') } = readGrantOrder(fields);
  const { repeated } = await ledger.grant({ id, account, amount, memo });
  const { balance } = await requireAccount(ledger, account);
  return {
    id,
    account,
    amount_usd: printUsd(amount),
    amount_credits: printCredits(amount),
    repeated,
    balance_usd: printUsd(balance),
    balance_credits: printCredits(balance),
  };
}

async function rotateKey(ledger: Ledger, world: OfficeWorld, id: string, fields: Fields): Promise<RotationStatement> {
  const nowMs = world.dateMs();
  const { graceMs, expiresMs: wantedMs } = readRotationOrder(fields, nowMs);
  const old = await requireKey(ledger, id);
  if (old.disabledMs !== null) throw refuse('id', 'the key is disabled: make a new one');
  const expiresMs = wantedMs ?? old.expiresMs;
  if (expiresMs !== null && expiresMs <= nowMs) throw refuse('expires', 'is required: the key has expired');
  const { key, stored } = makeKey(world);
  const created = await ledger.rotateKey(id, { ...stored, expiresMs }, graceMs);
  const { expires_at: replacedUntil } = keyStatement(await requireKey(ledger, id), nowMs);
  return { ...keyStatement(created, nowMs), key, replaces: id, replaced_until: replacedUntil };
}

/** The office of a ledger, which stays the caller's to close. */
export function createOffice(ledger: Ledger, world: OfficeWorld): Office {
  return {
    listAccounts: async () => (await ledger.listAccounts()).map(accountStatement),
    createAccount: async (fields) => accountStatement(await ledger.createAccount(readAccountOrder(fields))),
    account: async (id) => accountStatement(await requireAccount(ledger, id)),
    grant: (account, fields) => grant(ledger, world, account, fields),
    async history(account, fields) {
      const query = readHistoryQuery(account, fields);
      await requireAccount(ledger, account);
      return (await ledger.history(query)).map(movementStatement);
    },
    async listKeys(fields) {
      const account = readKeyQuery(fields);
      return (await ledger.listKeys(account)).map((key) => keyStatement(key, world.dateMs()));
    },
    async createKey(fields) {
      const order = readKeyOrder(fields, world.dateMs());
      const { key, stored } = makeKey(world);
      await ledger.createAccount({ id: order.account });
      return { ...keyStatement(await ledger.createKey({ ...stored, ...order }), world.dateMs()), key };
    },
    disableKey: async (id) => keyStatement(await ledger.disableKey(id), world.dateMs()),
    rotateKey: (id, fields) => rotateKey(ledger, world, id, fields),
    usage: async (fields) => (await ledger.usage(readUsageQuery(fields))).map(usageStatement),
    audit: async () => auditStatement(await ledger.audit()),
  };
}
