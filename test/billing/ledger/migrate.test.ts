import { spawnSync } from 'node:child_process';
import t from 'tap';
import { systemClock } from '../../../src/actor/clock.ts';
import type { Database } from '../../../src/billing/ledger/database.ts';
import { openLedger } from '../../../src/billing/ledger/ledger.ts';
import { PostgresDatabase } from '../../../src/billing/ledger/postgres.ts';
import { migrate, type Migration, MIGRATIONS } from '../../../src/billing/ledger/schema.ts';
import { SqliteDatabase } from '../../../src/billing/ledger/sqlite.ts';
import { emptyStore, STORES } from './stores.ts';

const options = { clock: systemClock, dateMs: () => 1 };

const next = (statements: readonly string[]): Migration[] => [
  ...MIGRATIONS,
  { version: MIGRATIONS.length + 1, name: 'next', statements: () => statements },
];

for (const name of STORES) {
  const open = async (url: string): Promise<Database> =>
    name === 'sqlite' ? new SqliteDatabase(url.slice('sqlite:'.length)) : await PostgresDatabase.open(url, systemClock);

  t.test(`${name}: versions are applied once, in order, also when two open at a time`, async (t) => {
    const url = await emptyStore(t, name);
    const [one, two] = [await open(url), await open(url)];
    t.same((await Promise.all([migrate(one, 5), migrate(two, 5)])).sort(), [0, MIGRATIONS.length]);
    t.equal(await migrate(one, 6, next(['create table extra (id text)'])), 1);
    const rows = await one.snapshot((session) => session.all('select * from schema_version order by version'));
    t.same(
      rows.map((row) => [row['version'], row['applied_ms']]),
      [
        [1n, 5n],
        [2n, 6n],
      ],
    );
    await one.close();
    await two.close();
  });

  t.test(`${name}: a version that fails leaves nothing behind`, async (t) => {
    const database = await open(await emptyStore(t, name));
    await t.rejects(migrate(database, 1, next(['create table extra (id text)', 'create nonsense'])));
    t.equal(await migrate(database, 1, next(['create table extra (id text)'])), 2);
    await database.close();
  });

  t.test(`${name}: a store with a newer schema is refused`, async (t) => {
    const url = await emptyStore(t, name);
    const database = await open(url);
    await migrate(database, 1, next(['create table extra (id text)']));
    await database.close();
    await t.rejects(openLedger(url, options), { refusal: 'schema-newer', message: /version 2.*knows 1/ });
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
    new SqliteDatabase(':memory:').close();
    process.emitWarning('something else', 'ExperimentalWarning');`;
  const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8', env: {} });
  t.match(stderr, 'something else');
  t.notMatch(stderr, 'SQLite');
});

t.test('a store in a file loads no driver for PostgreSQL', async (t) => {
  const module = new URL('../../../src/billing/ledger/ledger.js', import.meta.url);
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
