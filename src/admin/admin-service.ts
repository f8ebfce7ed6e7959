// Accounts, keys, credit, usage and the audit for operators, over a ledger. The command line and the admin listener both call an
// `AdminService`; `admin-client.ts` implements it over the network. A key is returned once, when it is created: the ledger
// has only its SHA-256.

import { HeadraceError } from '../errors.ts';
import {
  hashKey,
  type Account,
  type Ledger,
  LedgerError,
  type NewKey,
  type StoredKey,
  printCredits,
  printUsd,
} from '../billing/index.ts';
import {
  type Fields,
  readAccountRequest,
  readGrantRequest,
  readHistoryQuery,
  readKeyRequest,
  readKeyQuery,
  readRotationRequest,
  readUsageQuery,
} from './admin-requests.ts';
import {
  accountView,
  type AccountView,
  auditView,
  type AuditView,
  type GrantView,
  keyView,
  type KeyView,
  movementView,
  type MovementView,
  type NewKeyView,
  type RotationView,
  usageView,
  type UsageView,
} from './views.ts';

/**
 * Fields are those of `admin-requests.ts`. Calls reject with `HR_REQUEST_INVALID` for fields that are wrong, with a `LedgerError`
 * for what the ledger refuses, or with the error of the database.
 */
export interface AdminService {
  listAccounts(): Promise<AccountView[]>;
  /** One that exists stays as it is. */
  createAccount(fields: Fields): Promise<AccountView>;
  account(id: string): Promise<AccountView>;
  /** Credit for an account that exists; a repeat of the id moves nothing. */
  grant(account: string, fields: Fields): Promise<GrantView>;
  /** Newest first. */
  history(account: string, fields: Fields): Promise<MovementView[]>;
  listKeys(fields: Fields): Promise<KeyView[]>;
  /** Makes the account too when it is new. */
  createKey(fields: Fields): Promise<NewKeyView>;
  disableKey(id: string): Promise<KeyView>;
  /** A successor that ends when the old key would have, by default. Refuses a key that is disabled. */
  rotateKey(id: string, fields: Fields): Promise<RotationView>;
  usage(fields: Fields): Promise<UsageView[]>;
  audit(): Promise<AuditView>;
}

export interface AdminServiceDeps {
  /** Milliseconds since 1970, whole. */
  readonly dateMs: () => number;
  /** Good for secrets. */
  readonly randomBytes: (size: number) => Buffer;
}

const KEY_BYTES = 32;
const ID_BYTES = 9;

/** `hr_` and six characters: 36 of the 256 bits, enough to tell keys apart and too few to help guessing. */
const PREFIX_LENGTH = 9;

/** A key and what is stored of it. Its id is random. */
function makeKey({ randomBytes }: AdminServiceDeps): { key: string; stored: Pick<NewKey, 'id' | 'hash' | 'prefix'> } {
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

async function grant(ledger: Ledger, deps: AdminServiceDeps, account: string, fields: Fields): Promise<GrantView> {
  const { amount, memo, id = deps.randomBytes(ID_BYTES).toString('hex') } = readGrantRequest(fields);
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

async function rotateKey(ledger: Ledger, deps: AdminServiceDeps, id: string, fields: Fields): Promise<RotationView> {
  const nowMs = deps.dateMs();
  const { graceMs, expiresMs: wantedMs } = readRotationRequest(fields, nowMs);
  const old = await requireKey(ledger, id);
  if (old.disabledMs !== null) throw refuse('id', 'the key is disabled: make a new one');
  const expiresMs = wantedMs ?? old.expiresMs;
  if (expiresMs !== null && expiresMs <= nowMs) throw refuse('expires', 'is required: the key has expired');
  const { key, stored } = makeKey(deps);
  const created = await ledger.rotateKey(id, { ...stored, expiresMs }, graceMs);
  const { expires_at: replacedUntil } = keyView(await requireKey(ledger, id), nowMs);
  return { ...keyView(created, nowMs), key, replaces: id, replaced_until: replacedUntil };
}

/** The service over a ledger, which the caller closes. */
export function createAdminService(ledger: Ledger, deps: AdminServiceDeps): AdminService {
  return {
    listAccounts: async () => (await ledger.listAccounts()).map(accountView),
    createAccount: async (fields) => accountView(await ledger.createAccount(readAccountRequest(fields))),
    account: async (id) => accountView(await requireAccount(ledger, id)),
    grant: (account, fields) => grant(ledger, deps, account, fields),
    async history(account, fields) {
      const query = readHistoryQuery(account, fields);
      await requireAccount(ledger, account);
      return (await ledger.history(query)).map(movementView);
    },
    async listKeys(fields) {
      const account = readKeyQuery(fields);
      return (await ledger.listKeys(account)).map((key) => keyView(key, deps.dateMs()));
    },
    async createKey(fields) {
      const request = readKeyRequest(fields, deps.dateMs());
      const { key, stored } = makeKey(deps);
      await ledger.createAccount({ id: request.account });
      return { ...keyView(await ledger.createKey({ ...stored, ...request }), deps.dateMs()), key };
    },
    disableKey: async (id) => keyView(await ledger.disableKey(id), deps.dateMs()),
    rotateKey: (id, fields) => rotateKey(ledger, deps, id, fields),
    usage: async (fields) => (await ledger.usage(readUsageQuery(fields))).map(usageView),
    audit: async () => auditView(await ledger.audit()),
  };
}
