import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import t from 'tap';
import { systemClock } from '../../../src/actor/clock.ts';
import type { Database } from '../../../src/billing/ledger/database.ts';
import { openLedger } from '../../../src/billing/ledger/open-ledger.ts';
import { PostgresDatabase } from '../../../src/billing/ledger/postgres.ts';
import { migrate, type Migration, MIGRATIONS } from '../../../src/billing/ledger/schema.ts';
import { SqliteDatabase } from '../../../src/billing/ledger/sqlite.ts';
import { bareStore, STORES } from './stores.ts';

const options = { clock: systemClock, dateMs: () => 1 };

const next = (statements: readonly string[]): Migration[] => [
  ...MIGRATIONS,
  { version: MIGRATIONS.length + 1, name: 'next', statements: () => statements },
];

/** An account with a grant, a lease and a charge on it, as version 1 kept them. */
const VERSION_1_ROWS = [
  "insert into accounts (id, label, created_ms, balance, held) values ('a', 'first', 5, 60, 10)",
  `insert into api_keys (id, hash, prefix, account, label, limits, created_ms)
   values ('k1', 'h1', 'hr_ab', 'a', 'laptop', '{"tokensPerMinute":9}', 6)`,
  `insert into holds (id, kind, account, holder, amount, spent, state, expires_ms)
   values ('l', 'lease', 'a', 'x', 40, 30, 'open', 999)`,
  `insert into movements (seq, id, kind, account, amount, date_ms, memo, usage) values
   (1, 'grant:g', 'grant', 'a', 100, 7, 'welcome', null),
   (2, 'hold:l', 'hold', 'a', 0, 8, '', null),
   (3, 'settle:c', 'settle', 'a', -30, 9, '',
    '{"key":"k1","model":"m","inputTokens":7,"cachedTokens":2,"outputTokens":5,"measured":true}')`,
  `insert into entries (movement, account, amount) values
   (1, 'customer:a', 100), (1, 'source:grant', -100), (2, 'customer:a', -40), (2, 'held:a', 40),
   (3, 'held:a', -30), (3, 'revenue', 30)`,
  `insert into usage_daily
   (account, key_id, model, day, requests, estimated, input_tokens, cached_tokens, output_tokens, amount)
   values ('a', 'k1', 'm', '1970-01-01', 1, 0, 7, 2, 5, 30)`,
];

const ADDRESS = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed';
const MIXED = ADDRESS.toLowerCase();

/** Two accounts of one address, each with credit, a key and usage of the same day. */
const ADDRESS_ROWS = [ADDRESS, MIXED].flatMap((account, at) => [
  `insert into accounts (id, label, created_ms, balance, held) values ('${account}', 'l${at}', ${at}, 90, 0)`,
  `insert into api_keys (id, hash, prefix, account, label, limits, created_ms)
   values ('k${at}', 'h${at}', 'hr', '${account}', '', '{}', ${at})`,
  `insert into movements (seq, id, kind, account, amount, date_ms, memo, usage) values
   (${at * 2 + 1}, 'grant:${at}', 'grant', '${account}', 100, 7, '', null),
   (${at * 2 + 2}, 'settle:${at}', 'settle', '${account}', -10, 9, '',
    '{"key":null,"model":"m","inputTokens":1,"cachedTokens":0,"outputTokens":1,"measured":false,"requests":3}')`,
  `insert into entries (movement, account, amount) values
   (${at * 2 + 1}, 'customer:${account}', 100), (${at * 2 + 1}, 'source:grant', -100),
   (${at * 2 + 2}, 'customer:${account}', -10), (${at * 2 + 2}, 'revenue', 10)`,
  `insert into usage_daily
   (account, key_id, model, day, requests, estimated, input_tokens, cached_tokens, output_tokens, amount)
   values ('${account}', '', 'm', '1970-01-01', 3, 3, 1, 0, 1, 10)`,
]);

/** Opens the ledger that its argument names. */
const OPEN = `const { openLedger } = await import('${new URL('../../../src/billing/ledger/open-ledger.js', import.meta.url).href}');
  const { systemClock: clock } = await import('${new URL('../../../src/actor/clock.js', import.meta.url).href}');
  await (await openLedger(process.argv[1], { clock, dateMs: () => 2 })).close();`;

for (const name of STORES) {
  const open = async (url: string): Promise<Database> =>
    name === 'sqlite'
      ? new SqliteDatabase(url.slice('sqlite:'.length), systemClock)
      : await PostgresDatabase.open(url, systemClock);

  t.test(`${name}: versions are applied once, in order, also when two open at a time`, async (t) => {
    const url = await bareStore(t, name);
    const [one, two] = [await open(url), await open(url)];
    t.same((await Promise.all([migrate(one, 5), migrate(two, 5)])).sort(), [0, MIGRATIONS.length]);
    t.equal(await migrate(one, 6, next(['create table extra (id text)'])), 1);
    const rows = await one.snapshot((session) => session.all('select * from schema_version order by version'));
    t.same(
      rows.map((row) => [row['version'], row['applied_ms']]),
      [...MIGRATIONS.map(({ version }) => [BigInt(version), 5n]), [BigInt(MIGRATIONS.length + 1), 6n]],
    );
    await one.close();
    await two.close();
  });

  t.test(`${name}: a version that fails leaves nothing behind`, async (t) => {
    const database = await open(await bareStore(t, name));
    await t.rejects(migrate(database, 1, next(['create table extra (id text)', 'create nonsense'])));
    t.equal(await migrate(database, 1, next(['create table extra (id text)'])), MIGRATIONS.length + 1);
    await database.close();
  });

  t.test(`${name}: a store with a newer schema is refused`, async (t) => {
    const url = await bareStore(t, name);
    const database = await open(url);
    await migrate(database, 1, next(['create table extra (id text)']));
    await database.close();
    const message = new RegExp(`version ${MIGRATIONS.length + 1}.*knows ${MIGRATIONS.length}`);
    await t.rejects(openLedger(url, options), { refusal: 'schema-newer', message });
  });

  t.test(`${name}: accounts of version 1 that are one address become one account`, async (t) => {
    const url = await bareStore(t, name);
    const old = await open(url);
    await migrate(old, 1, MIGRATIONS.slice(0, 1));
    await old.transaction(async (session) => {
      for (const statement of ADDRESS_ROWS) await session.all(statement);
    });
    await old.close();
    const ledger = await openLedger(url, options);
    t.teardown(() => ledger.close());
    t.match(await ledger.listAccounts(), [{ id: MIXED, label: 'l1', balance: 180n }]);
    t.equal((await ledger.listKeys(ADDRESS)).length, 2);
    t.match(await ledger.usage({ by: ['account'] }), [{ account: MIXED, requests: 6n, estimated: 6n, amount: 20n }]);
    t.equal((await ledger.history({ account: ADDRESS })).length, 4);
    t.match(await ledger.audit(), { sound: true, problems: [] });
  });

  t.test(`${name}: two processes bring a store of version 1 up to date at once, and its data stays`, async (t) => {
    const url = await bareStore(t, name);
    const old = await open(url);
    await migrate(old, 1, MIGRATIONS.slice(0, 1));
    await old.transaction(async (session) => {
      for (const statement of VERSION_1_ROWS) await session.all(statement);
    });
    await old.close();
    const exits = [1, 2].map(async () => {
      const child = spawn(process.execPath, ['--input-type=module', '-e', OPEN, url], { stdio: 'inherit', env: {} });
      return (await once(child, 'exit'))[0] as number;
    });
    t.same(await Promise.all(exits), [0, 0]);
    const ledger = await openLedger(url, options);
    t.teardown(() => ledger.close());
    const account = {
      id: 'a',
      label: 'first',
      createdMs: 5,
      balance: 60n,
      held: 10n,
      organisation: null,
      creditLimit: 0n,
      lowBalance: null,
      expiring: 0n,
    };
    t.same(await ledger.account('a'), account);
    t.match(await ledger.findKey('h1'), { id: 'k1', account: 'a', limits: { tokensPerMinute: 9 }, lineage: 'k1' });
    t.match(await ledger.history({ account: 'a' }), [
      { kind: 'charge', amount: -30n, dateMs: 9, usage: { key: 'k1', model: 'm', inputTokens: 7 } },
      { id: 'grant:g', amount: 100n, dateMs: 7, memo: 'welcome', usage: null },
    ]);
    t.match(await ledger.usage({ by: ['account', 'day'] }), [{ account: 'a', day: '1970-01-01', amount: 30n }]);
    t.match(await ledger.audit(), { sound: true, openHolds: 1n, problems: [] });
  });
}

t.test('a URL of another kind is refused with the kinds there are', async (t) => {
  for (const url of ['', 'sqlite:', 'mysql://x', './file.db']) {
    await t.rejects(openLedger(url, options), { refusal: 'url-invalid', message: /sqlite:FILE/ }, url);
  }
});

t.test('both spellings of a store in memory work', async (t) => {
  for (const url of [':memory:', 'sqlite::memory:']) {
    const ledger = await openLedger(url, options);
    t.match(await ledger.audit(), { sound: true }, url);
    await ledger.close();
  }
});

t.test('opening a file prints no warning, and other warnings still pass', async (t) => {
  const module = new URL('../../../src/billing/ledger/sqlite.js', import.meta.url);
  const script = `const { SqliteDatabase } = await import('${module.href}');
    new SqliteDatabase(':memory:', {}).close();
    process.emitWarning('something else', 'ExperimentalWarning');`;
  const ended = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8', env: {} });
  t.match(ended, { error: undefined, signal: null, status: 0, stderr: /something else/ });
  t.notMatch(ended.stderr, 'SQLite');
});

t.test('a store in a file loads no driver for PostgreSQL', async (t) => {
  const module = new URL('../../../src/billing/ledger/open-ledger.js', import.meta.url);
  const script = `const { openLedger } = await import('${module.href}');
    const { createRequire } = await import('node:module');
    const clock = { now: () => 0 };
    await (await openLedger(':memory:', { clock, dateMs: () => 0 })).close();
    const loaded = () => Object.keys(createRequire('${module.href}').cache).filter((file) => file.includes('/pg/'));
    const before = loaded().length;
    await openLedger('postgres://127.0.0.1:1/none', { clock, dateMs: () => 0 }).catch(() => undefined);
    console.log(before, loaded().length > 0);`;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8', env: {} });
  t.equal(stdout, '0 true\n');
});
