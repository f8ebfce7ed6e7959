// API keys in the store: create, list, find, edit, disable, rotate. Each change is noted for the watchers of every process in the
// same commit. Only hashes of keys are stored.

import { setImmediate } from 'node:timers/promises';
import { noteChanges } from './changes.ts';
import type { Database, Session } from './database.ts';
import { QueryFilter } from './query-filter.ts';
import {
  type KeyEdit,
  type KeyLimits,
  LedgerError,
  type NewKey,
  type PageQuery,
  type Rotation,
  type StoredKey,
  type Successor,
} from './ledger.ts';
import {
  FIND_ACCOUNTS,
  FIND_KEYS,
  FIND_KEYS_BY_HASH,
  INSERT_KEYS,
  keyOf,
  keyRow,
  LOCK_KEYS,
  UPDATE_KEYS,
} from './tables.ts';
import { type NewWebhookEvent, noteEvents } from './webhook-records.ts';

async function insertKey(session: Session, key: NewKey, createdMs: number): Promise<StoredKey> {
  const stored: StoredKey = {
    id: key.id,
    hash: key.hash,
    prefix: key.prefix,
    account: key.account,
    label: key.label ?? '',
    limits: key.limits ?? {},
    createdMs,
    expiresMs: key.expiresMs ?? null,
    disabledMs: null,
    lineage: key.lineage ?? key.id,
  };
  const taken = [...(await session.find(FIND_KEYS, [key.id])), ...(await session.find(FIND_KEYS_BY_HASH, [key.hash]))];
  if (taken.length > 0) throw new LedgerError('key-taken', `A key '${key.id}' exists, or one with the same hash`);
  const owner = await session.find(FIND_ACCOUNTS, [key.account]);
  if (owner.length === 0) throw new LedgerError('account-unknown', `No account '${key.account}'`);
  await session.write(INSERT_KEYS, [keyRow(stored)]);
  await noteChanges(session, [{ kind: 'key', hash: key.hash }]);
  await noteEvents(session, [keyEvent('key.created', stored)], createdMs);
  return stored;
}

async function requireKey(session: Session, id: string): Promise<StoredKey> {
  const [row] = await session.find(LOCK_KEYS, [id]);
  if (row === undefined) throw new LedgerError('key-unknown', `No key '${id}'`);
  return keyOf(row);
}

async function updateKey(session: Session, key: StoredKey): Promise<void> {
  await session.write(UPDATE_KEYS, [keyRow(key)]);
  await noteChanges(session, [{ kind: 'key', hash: key.hash }]);
}

function keyEvent(type: 'key.created' | 'key.disabled', { account, id, label, prefix }: StoredKey): NewWebhookEvent {
  return { type, account, data: { key: id, prefix, label } };
}

export function createKey(database: Database, key: NewKey, dateMs: number): Promise<StoredKey> {
  return database.transaction((session) => insertKey(session, key, dateMs));
}

export function disableKey(database: Database, id: string, dateMs: number): Promise<StoredKey> {
  return database.transaction(async (session) => {
    const key = await requireKey(session, id);
    if (key.disabledMs !== null) return key;
    const disabled = { ...key, disabledMs: dateMs };
    await updateKey(session, disabled);
    await noteEvents(session, [keyEvent('key.disabled', disabled)], dateMs);
    return disabled;
  });
}

/** Changes members of a key in place. A disabled key stays disabled. */
export function editKey(database: Database, id: string, edit: KeyEdit): Promise<StoredKey> {
  return database.transaction(async (session) => {
    const key = await requireKey(session, id);
    const { expiresMs = key.expiresMs, label = key.label, limits = {} } = edit;
    const wanted = Object.entries({ ...key.limits, ...limits }).filter(([, limit]) => limit !== null);
    const edited = { ...key, expiresMs, label, limits: Object.fromEntries(wanted) as KeyLimits };
    await updateKey(session, edited);
    return edited;
  });
}

/** The old key expires at `oldUntilMs`, or earlier if it would have. */
export function rotateKey(
  database: Database,
  id: string,
  successor: Successor,
  dates: { readonly nowMs: number; readonly oldUntilMs: number },
): Promise<Rotation> {
  return database.transaction(async (session) => {
    const old = await requireKey(session, id);
    if (old.disabledMs !== null) throw new LedgerError('key-disabled', `The key '${id}' is disabled: make a new one`);
    const { account, label, limits, lineage } = old;
    // A key that has been rotated before ends with its grace period.
    const [newest] = await session.all(NEWEST_OF_LINEAGE, [account, lineage]);
    const { expiresMs = newest === undefined ? old.expiresMs : keyOf(newest).expiresMs } = successor;
    if (expiresMs !== null && expiresMs <= dates.nowMs)
      throw new LedgerError('date-invalid', 'The newest key of the chain has expired: say when the successor does');
    const key = { account, label, limits, lineage, ...successor, expiresMs };
    const created = await insertKey(session, key, dates.nowMs);
    const replaced = { ...old, expiresMs: Math.min(old.expiresMs ?? Infinity, dates.oldUntilMs) };
    await updateKey(session, replaced);
    return { created, replaced };
  });
}

const NEWEST_OF_LINEAGE =
  'select * from api_keys where account = $1 and lineage = $2 order by created_ms desc, expires_ms desc nulls first limit 1';

/** Keys read at a time: a few milliseconds. */
const ROUND = 500;

/** A page, or all of them: read in rounds, so that keys made meanwhile may be among them or not. */
export async function listKeys(
  database: Database,
  account?: string,
  { after, limit = Infinity }: PageQuery = {},
): Promise<StoredKey[]> {
  const keys: StoredKey[] = [];
  for (let last = after; ;) {
    const most = Math.min(limit - keys.length, ROUND);
    const found = await keysBehind(database, account, last, most);
    keys.push(...found);
    last = found.at(-1)?.id;
    if (found.length < most || keys.length === limit) return keys;
    await setImmediate();
  }
}

async function keysBehind(
  database: Database,
  account: string | undefined,
  after: string | undefined,
  limit: number,
): Promise<StoredKey[]> {
  const filter = new QueryFilter();
  filter.compare('account =', account);
  if (after !== undefined) {
    const cursor = filter.param(after);
    filter.add(`(created_ms, id) > ((select created_ms from api_keys where id = ${cursor}), ${cursor})`);
  }
  const sql = `select * from api_keys ${filter.where} order by created_ms, id ${filter.limit(limit)}`;
  const rows = await database.snapshot((session) => session.all(sql, filter.params));
  return rows.map(keyOf);
}
