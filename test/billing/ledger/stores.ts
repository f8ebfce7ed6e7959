// Opens either store for the tests of the ledger, and further ledgers on the same database, as another process would. Time
// stands still unless a test moves it.

import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type t from 'tap';
import { systemClock } from '../../../src/actor/clock.ts';
import { type LedgerOptions, openLedger } from '../../../src/billing/ledger/open-ledger.ts';
import { type RequestRecord, requestRecordId } from '../../../src/billing/ledger/request-records.ts';
import type { Charge, HoldSettlement, Ledger, Pico, Usage } from '../../../src/billing/ledger/ledger.ts';
import { postgresDatabase } from '../../support/postgres.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

type Tap = Pick<typeof t, 'teardown'>;

/** 2026-03-31T23:59:00Z: a minute before a day and a month end. */
export const START_MS: number = Date.UTC(2026, 2, 31, 23, 59);

export const USAGE: Usage = {
  key: 'key-1',
  model: 'm',
  inputTokens: 7,
  cachedTokens: 2,
  outputTokens: 5,
  measured: true,
};

async function chargeOne(ledger: Ledger, charge: Charge): Promise<HoldSettlement> {
  const [outcome] = await ledger.charge([charge]);
  if (outcome?.status !== 'fulfilled') throw outcome?.reason;
  return outcome.value;
}

/** Charges a lease, by default of account `a`; rejects as the ledger refuses it. */
export function charge(
  ledger: Ledger,
  lease: string,
  id: string,
  amount: Pico,
  usage: Usage,
  { account = 'a', dateMs = START_MS }: Partial<Pick<Charge, 'account' | 'dateMs'>> = {},
): Promise<HoldSettlement> {
  return chargeOne(ledger, { lease, account, id, amount, usage, dateMs });
}

/** Charges an account that pays later; rejects as the ledger refuses it. */
export function debit(
  ledger: Ledger,
  account: string,
  id: string,
  amount: Pico,
  usage: Usage,
  dateMs: number = START_MS,
): Promise<HoldSettlement> {
  return chargeOne(ledger, { account, id, amount, usage, dateMs });
}

export interface TestStore {
  readonly url: string;
  readonly ledger: Ledger;
  /** Another ledger on the same database. */
  readonly again: (options?: Partial<LedgerOptions>) => Promise<Ledger>;
  /** Moves the date. */
  readonly pass: (ms: number) => void;
}

export const STORES = ['sqlite', 'postgres'] as const;
export type StoreName = (typeof STORES)[number];

let template: Promise<string> | undefined;

/** Name of a database with the tables of a ledger: a copy is made in a quarter of the time that the tables take. */
async function makeTemplate(): Promise<string> {
  const url = await postgresDatabase();
  const ledger = await openLedger(url, { clock: systemClock, dateMs: () => START_MS });
  await ledger.close();
  return new URL(url).pathname.slice(1);
}

/** The URL of a store without accounts, gone after the test. */
export async function emptyStore(t: Tap, name: StoreName): Promise<string> {
  if (name === 'postgres') return await postgresDatabase(undefined, await (template ??= makeTemplate()));
  return newFile(t);
}

/** The URL of a store without tables, gone after the test. */
export async function bareStore(t: Tap, name: StoreName): Promise<string> {
  return name === 'postgres' ? await postgresDatabase() : newFile(t);
}

function newFile(t: Tap): string {
  const folder = temporaryFolder(t);
  return `sqlite:${join(folder, 'ledger.db')}`;
}

export async function openStore(t: Tap, name: StoreName): Promise<TestStore> {
  const url = await emptyStore(t, name);
  let nowMs = START_MS;
  const again = async (options: Partial<LedgerOptions> = {}): Promise<Ledger> => {
    const ledger = await openLedger(url, {
      ...{ clock: systemClock, dateMs: () => nowMs, ownDates: true, lingerMs: 0 },
      ...options,
    });
    t.teardown(() => ledger.close());
    return ledger;
  };
  return {
    url,
    ledger: await again(),
    again,
    pass(ms) {
      nowMs += ms;
    },
  };
}

/** Runs statements behind the back of the ledger, without the checks of foreign keys. */
export async function execute(name: StoreName, url: string, sql: string): Promise<void> {
  if (name === 'sqlite') {
    const file = new DatabaseSync(url.slice('sqlite:'.length), { enableForeignKeyConstraints: false });
    file.exec(sql);
    file.close();
    return;
  }
  const { default: pg } = await import('pg');
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(`set session_replication_role = replica; ${sql}`);
  } finally {
    await client.end();
  }
}

/** The record of one request of account `a`. Later counts are later requests. */
export function requestRecord(count: number, more: Partial<RequestRecord> = {}): RequestRecord {
  const dateMs = more.dateMs ?? START_MS + count;
  return {
    id: requestRecordId(dateMs, 'tagtag', count),
    dateMs,
    requestId: `client-${count}`,
    account: 'a',
    key: 'key-1',
    endpoint: '/v1/chat/completions',
    model: 'm',
    status: 200,
    code: '',
    inputTokens: 7,
    cachedTokens: 2,
    outputTokens: 5,
    measured: true,
    amount: 30n,
    durationMs: 12,
    firstByteMs: null,
    ...more,
  };
}

/** Turns of the event loop that pass during the work. */
export async function turnsOf(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isOver = false;
  const turn = (): void => {
    turns++;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  await work();
  isOver = true;
  return turns;
}
