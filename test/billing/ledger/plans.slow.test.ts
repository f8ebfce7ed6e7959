// Plans of the queries that run with requests or regularly, on a million charges: each finds its rows by an index. The statements
// are those that the ledger really sends, caught at the driver and explained afterwards.

import { DatabaseSync, type StatementSync } from 'node:sqlite';
import t from 'tap';
import pg from 'pg';
import { systemClock } from '../../../src/actor/clock.ts';
import { openLedger } from '../../../src/billing/ledger/open-ledger.ts';
import type { Ledger } from '../../../src/billing/ledger/ledger.ts';
import { debit, emptyStore, execute, START_MS, type StoreName, STORES, USAGE } from './stores.ts';

const CHARGES = 1_000_000;
const ACCOUNTS = 20_000;

/** Tables that grow; all others are small. */
const LARGE =
  /\b(accounts|movements|charges_2026_03|holds|usage_daily|payments|api_keys|names|requests|credit_grants)\b/;

/** Fills the store; the charges are of March 2026, but for one of a month that retention looks at. */
function rowsOf(name: StoreName): string[] {
  const series = (count: number): string =>
    name === 'postgres'
      ? `generate_series(0, ${count - 1}) as s (i)`
      : `(with recursive n (i) as (select 0 union all select i + 1 from n where i < ${count - 1}) select i from n) s`;
  const text = (prefix: string, expression: string): string => `'${prefix}' || (${expression})`;
  const from = Date.UTC(2026, 2, 1);
  return [
    `insert into accounts (id, label, created_ms, balance, held) select ${text('a', 'i')}, '', 0, 0, 0 from ${series(ACCOUNTS)}`,
    `insert into names (num, name) select i + 1000, ${text('a', 'i')} from ${series(ACCOUNTS)}`,
    `insert into charges_2026_03 (account, date_ms, id, amount, input_tokens, cached_tokens, output_tokens, member, key, model,
     price, requests, measured)
     select 1000 + i / ${CHARGES / ACCOUNTS}, ${from} + cast(i % ${CHARGES / ACCOUNTS} as bigint) * 50000000, i, 1, 1, 0, 1, 0, 1, 2, 0, 1, 1
     from ${series(CHARGES)}`,
    `insert into usage_daily (account, key_id, model, day, payer, requests, estimated, input_tokens, cached_tokens,
     output_tokens, amount)
     select ${text('a', `i / 5`)}, 'k', 'm', ${text('2026-03-0', '1 + i % 5')}, ${text('a', 'i / 5')}, 1, 0, 1, 0, 1, 1
     from ${series(ACCOUNTS * 5)}`,
    `insert into holds (id, kind, account, holder, amount, spent, state, expires_ms)
     select ${text('h', 'i')}, 'lease', ${text('a', 'i')}, 'x', 1, 1, 'closed', 9000000000000 from ${series(ACCOUNTS)}`,
    `insert into movements (id, kind, account, counter, amount, date_ms, memo)
     select ${text('grant:', 'i')}, 'grant', ${text('a', 'i')}, 'source:grant', 1, ${from}, '' from ${series(ACCOUNTS)}`,
    `insert into payments (id, network, asset, payer, nonce, purpose, amount, valid_until_ms, state, changed_ms)
     select ${text('p', 'i')}, 'n', 'a', 'p', ${text('n', 'i')}, '', 1, 1, 'failed', i from ${series(ACCOUNTS)}`,
    `insert into api_keys (id, hash, prefix, account, label, limits, created_ms, lineage)
     select ${text('key', 'i')}, ${text('hash', 'i')}, '', ${text('a', 'i')}, '', '{}', 0, ${text('key', 'i')} from ${series(ACCOUNTS)}`,
    `insert into credit_grants (id, account, amount, remaining, expires_ms)
     select ${text('g', 'i')}, ${text('a', 'i')}, 1, 1, 9000000000000 from ${series(ACCOUNTS)}`,
    `insert into requests (id, date_ms, request_id, account, key_id, endpoint, model, status, code, input_tokens, cached_tokens,
     output_tokens, measured, amount, duration_ms)
     select ${text('req_', 'i + 100000')}, 0, ${text('r', 'i')}, ${text('a', 'i')}, 'k', '', 'm', 200, '', 1, 0, 1, 1, 1, 1
     from ${series(ACCOUNTS)}`,
    `insert into webhook_events (id, type, account, date_ms, data, state)
     select ${text('msg_', 'i')}, 'credit.low', ${text('a', 'i')}, 0, '{}', 'sent' from ${series(ACCOUNTS)}`,
    `insert into webhook_deliveries (message, endpoint, state, attempts, due_ms, result)
     select ${text('msg_', 'i')}, 'hook', 'pending', 3, 9000000000000, '' from ${series(ACCOUNTS)}`,
    'analyze',
  ];
}

/** What the gateways do with requests, and every few seconds or minutes. */
async function work(ledger: Ledger): Promise<void> {
  const account = 'a7';
  await ledger.grant({ id: 'g', account, amount: 1000n });
  await ledger.lease({ id: 'l', account, amount: 100n, holder: 'gateway', ttlMs: 60_000 });
  await ledger.extend('l', 1, 10n);
  await ledger.giveBack('l', 2, 5n);
  const charge = { account, amount: 1n, usage: USAGE, dateMs: START_MS };
  await ledger.charge([1, 2, 3].map((at) => ({ ...charge, id: `c${at}`, lease: 'l' })));
  await ledger.charge([{ ...charge, id: 'c1', lease: 'l' }]);
  await ledger.renew('gateway', 60_000);
  await ledger.want(account, 'gateway');
  await ledger.release('l');
  await ledger.expire();
  await ledger.account(account);
  await ledger.findHold('l');
  await ledger.findKey('hash7');
  await ledger.listKeys(account);
  await ledger.listKeys(undefined, { after: 'key7', limit: 10 });
  await ledger.openGrants(account);
  const page = await ledger.history({ account, limit: 10 });
  await ledger.history({ account, limit: 10, before: page.at(-1)?.seq ?? '' });
  await ledger.usage({ account, fromDay: '2026-03-01', by: ['day'] });
  await ledger.budgets.spending({ accounts: [account], models: ['m'], from: '2026-03-31', to: null });
  const payment = { network: 'n', asset: 'a', payer: 'p', nonce: 'x', purpose: '', amount: 1n, validUntilMs: 1 };
  await ledger.reservePayment(payment);
  await ledger.paymentsIn('submitted');
  await ledger.webhooks.due(['hook'], 8);
  await ledger.requests.find('r7', account);
  await ledger.requests.prune(0, 1_000_000);
  await ledger.prune(Date.UTC(2026, 1, 1));
}

/** Runs the work and answers with the statements that were sent, with their parameters where they have any. */
async function caught(name: StoreName, url: string): Promise<Map<string, unknown[]>> {
  const statements = new Map<string, unknown[]>();
  const note = (sql: string, values: unknown[] = []): void => {
    if (/^\s*(select|insert|update|delete)/i.test(sql) && !statements.has(sql)) statements.set(sql, values);
  };
  const prepare = Reflect.get(DatabaseSync.prototype, 'prepare') as (sql: string) => StatementSync;
  const query = Reflect.get(pg.Client.prototype, 'query') as (...args: unknown[]) => unknown;
  const ledger = await openLedger(url, { clock: systemClock, dateMs: () => START_MS, lingerMs: 0 });
  if (name === 'sqlite') {
    DatabaseSync.prototype.prepare = function (sql, ...rest) {
      note(sql);
      return Reflect.apply(prepare, this, [sql, ...rest]);
    };
  } else {
    pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
      const [config] = args as [{ text?: string; values?: unknown[] }];
      if (typeof config.text === 'string') note(config.text, config.values);
      return Reflect.apply(query, this, args);
    } as typeof pg.Client.prototype.query;
  }
  try {
    await work(ledger);
  } finally {
    Reflect.set(DatabaseSync.prototype, 'prepare', prepare);
    Reflect.set(pg.Client.prototype, 'query', query);
    await ledger.close();
  }
  return statements;
}

/** The lines of the plan of each statement. */
async function plansOf(
  name: StoreName,
  url: string,
  statements: ReadonlyMap<string, unknown[]>,
): Promise<Map<string, string[]>> {
  const plans = new Map<string, string[]>();
  if (name === 'sqlite') {
    const file = new DatabaseSync(url.slice('sqlite:'.length));
    for (const sql of statements.keys()) {
      const lines = file.prepare(`explain query plan ${sql}`).all();
      plans.set(
        sql,
        lines.map(({ detail }) => String(detail)),
      );
    }
    file.close();
    return plans;
  }
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  for (const [text, values] of statements) {
    const { rows } = await client.query<{ 'QUERY PLAN': string }>({ text: `explain ${text}`, values });
    plans.set(
      text,
      rows.map((row) => row['QUERY PLAN'].trim()),
    );
  }
  await client.end();
  return plans;
}

/** Reads of a whole table in the plans, as their lines. */
function scans(name: StoreName, plans: ReadonlyMap<string, string[]>): string[] {
  const found: string[] = [];
  for (const [sql, lines] of plans) {
    for (const line of lines) {
      // The newest rows by their index, up to a limit, are no whole table.
      const isBounded = /\border by id desc limit\b/.test(sql) && /USING (COVERING )?INDEX/.test(line);
      const isScan = name === 'sqlite' ? line.startsWith('SCAN') && !isBounded : /Seq Scan/.test(line);
      if (isScan && LARGE.test(line)) found.push(`${line} in ${sql}`);
    }
  }
  return found;
}

for (const name of STORES) {
  t.test(`${name}: with ${CHARGES} charges, no query of requests or timers reads a whole table`, async (t) => {
    const url = await emptyStore(t, name);
    const ledger = await openLedger(url, { clock: systemClock, dateMs: () => START_MS, lingerMs: 0 });
    await debit(ledger, 'first', 'c', 1n, USAGE);
    await debit(ledger, 'first', 'old', 1n, USAGE, Date.UTC(2026, 0, 2));
    await ledger.close();
    for (const sql of rowsOf(name)) await execute(name, url, sql);
    const statements = await caught(name, url);
    t.ok(statements.size > 30, `${statements.size} statements`);
    const plans = await plansOf(name, url, statements);
    t.same(scans(name, plans), []);
    const [expiring] = [...plans].filter(([sql]) =>
      sql.includes('from credit_grants where remaining > 0 and expires_ms'),
    );
    t.match(expiring?.[1].join(), /credit_grants_due/, 'grants that do not expire yet are left alone');
    const [dueNow] = [...plans].filter(([sql]) => sql.includes('order by d.due_ms'));
    t.match(dueNow?.[1].join(), /endpoint.* AND .*due_ms/i, 'messages that wait for their next attempt are left alone');
    const [byRequestId] = [...plans].filter(([sql]) => sql.includes('request_id = '));
    t.match(
      byRequestId?.[1].join(),
      /request_id.* AND .*account/i,
      'not all requests of an account are looked at for one id',
    );
  });
}
