// What only SQLite has: a file that another process has locked.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t, { type Test } from 'tap';
import { createManualClock, systemClock } from '../../../src/actor/clock.ts';
import { openLedger } from '../../../src/billing/ledger/open-ledger.ts';
import { SqliteDatabase } from '../../../src/billing/ledger/sqlite.ts';
import { inspectStore } from '../../../src/billing/main-thread.ts';
import { until } from '../../support/system.ts';
import { type Charge, LedgerError } from '../../../src/billing/ledger/ledger.ts';
import { openStore, START_MS, USAGE } from './stores.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

/** A second process that has locked the file. */
async function lock(t: Test, url: string): Promise<ChildProcess> {
  const child = fork(new URL('lock-child.js', import.meta.url), [url.slice('sqlite:'.length)]);
  t.teardown(() => child.kill());
  t.same(await once(child, 'message'), ['locked', undefined]);
  return child;
}

t.test('a thread whose commit waits for another process goes on with reads', async (t) => {
  const { ledger, url } = await openStore(t, 'sqlite');
  await ledger.createAccount({ id: 'a' });
  const child = await lock(t, url);
  let isDone = false;
  const grant = ledger.grant({ id: '1', account: 'a', amount: 5n }).finally(() => (isDone = true));
  for (let reads = 0; reads < 3; reads++) t.match(await ledger.account('a'), { balance: 0n });
  t.equal(isDone, false);
  child.send('release');
  t.same(await grant, { repeated: false, balance: 5n });
  t.match(await ledger.account('a'), { balance: 5n });
});

t.test('a file that stays locked is given up after five seconds', async (t) => {
  const { url } = await openStore(t, 'sqlite');
  const clock = createManualClock();
  const database = new SqliteDatabase(url.slice('sqlite:'.length), clock);
  t.teardown(() => database.close());
  await lock(t, url);
  const commit = database.transaction((session) => session.all('select 1'));
  const refused = t.rejects(commit, { message: /locked/ });
  for (let ms = 0; ms < 5100; ms += 50) {
    // What it waits for is set in a later turn.
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(50);
  }
  await refused;
  t.equal(database.blame(await commit.catch((error: unknown) => error)), 'store');
});

t.test('a look at a file waits while another connection opens or closes it', async (t) => {
  const file = join(temporaryFolder(t), 'file.db');
  const clock = createManualClock();
  await (await openLedger(`sqlite:${file}`, { clock: systemClock, dateMs: () => 0 })).close();
  const holder = new DatabaseSync(file);
  holder.exec('pragma locking_mode = exclusive; begin exclusive');
  const looked = inspectStore(`sqlite:${file}`, clock);
  await until('it waits', () => clock.nextDueMs < Infinity);
  holder.close();
  clock.advance(100);
  t.match(await looked, { exists: true, isWritable: true, version: (await looked).newest });
});

t.test('nothing is committed to a file that was moved, deleted or replaced, until it is back', async (t) => {
  const file = join(temporaryFolder(t), 'file.db');
  const database = new SqliteDatabase(file, systemClock);
  t.teardown(() => database.close());
  const commit = (sql: string): Promise<unknown> => database.transaction((session) => session.all(sql));
  await commit('create table charges (id text)');
  renameSync(file, `${file}.moved`);
  const refused = commit("insert into charges values ('lost')");
  await t.rejects(refused, {
    message: `${file} was moved, deleted or replaced while it is in use: put it back, or restart`,
  });
  t.equal(database.blame(await refused.catch((error: unknown) => error)), 'store', 'a charge is tried again');
  copyFileSync(`${file}.moved`, file);
  await t.rejects(commit("insert into charges values ('lost')"), { message: /replaced/ });
  renameSync(`${file}.moved`, file);
  await commit("insert into charges values ('kept')");
  t.same(await commit('select id from charges'), [{ id: 'kept' }]);
});

for (const end of ['-wal', '-shm']) {
  t.test(`nothing is committed once the file ${end} is gone; what was committed before is kept`, async (t) => {
    const file = join(temporaryFolder(t), 'file.db');
    const database = new SqliteDatabase(file, systemClock);
    const commit = (sql: string): Promise<unknown> => database.transaction((session) => session.all(sql));
    await commit('create table charges (id text)');
    await commit("insert into charges values ('kept')");
    rmSync(file + end);
    await t.rejects(commit("insert into charges values ('lost')"), {
      message: `${file}${end} was moved, deleted or replaced while it is in use: put it back, or restart`,
    });
    await database.close();
    const again = new SqliteDatabase(file, systemClock);
    t.teardown(() => again.close());
    t.same(await again.transaction((session) => session.all('select id from charges')), [{ id: 'kept' }]);
  });
}

t.test(
  'a backup ends while another connection commits all the time, and is the file as it was at its beginning',
  async (t) => {
    const folder = temporaryFolder(t);
    const file = join(folder, 'file.db');
    const writer = new SqliteDatabase(file, systemClock);
    const database = new SqliteDatabase(file, systemClock);
    t.teardown(async () => {
      await database.close();
      await writer.close();
    });
    await writer.transaction(async (session) => {
      await session.all('create table pages (bytes blob)');
      // Many times what is copied at once.
      for (let row = 0; row < 8; row++) await session.all('insert into pages select zeroblob(8000000)');
    });
    let ended = false;
    let commits = 0;
    const copied = database.backUp(join(folder, 'copy.db')).finally(() => (ended = true));
    const deadline = Date.now() + 5000;
    for (; !ended && Date.now() < deadline; commits++) {
      await writer.transaction((session) => session.all(`insert into pages values ('${commits}')`));
      await new Promise((resolve) => setImmediate(resolve));
    }
    t.ok(ended, 'the copy is complete while commits go on');
    await copied;
    t.ok(commits > 1);
    const copy = new SqliteDatabase(join(folder, 'copy.db'), systemClock);
    t.teardown(() => copy.close());
    const [row] = await copy.transaction((session) => session.all('select count(*) as pages from pages'));
    t.equal(Number(row?.['pages']), 8);
  },
);

t.test('a backup does not wait for a transaction that is open, nor contain it', async (t) => {
  const folder = temporaryFolder(t);
  const database = new SqliteDatabase(join(folder, 'file.db'), systemClock);
  t.teardown(() => database.close());
  await database.transaction((session) => session.all('create table pages (bytes blob)'));
  const gate = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  const open = database.transaction(async (session) => {
    await session.all("insert into pages values ('1')");
    opened.resolve();
    await gate.promise;
  });
  await opened.promise;
  await database.backUp(join(folder, 'copy.db'));
  gate.resolve();
  await open;
  const copy = new SqliteDatabase(join(folder, 'copy.db'), systemClock);
  t.teardown(() => copy.close());
  t.same(await copy.transaction((session) => session.all('select * from pages')), []);
});

t.test('a backup that fails leaves no part of a file', async (t) => {
  const folder = temporaryFolder(t);
  const database = new SqliteDatabase(join(folder, 'file.db'), systemClock);
  t.teardown(() => database.close());
  await database.transaction((session) => session.all('create table pages (bytes blob)'));
  const target = join(folder, 'target');
  mkdirSync(target);
  // SQLite writes to it, and then it cannot get its name.
  const copied = database.backUp(join(target, 'copy.db'));
  mkdirSync(join(target, 'copy.db'));
  await t.rejects(copied);
  t.same(readdirSync(target), ['copy.db']);
});

t.test('a report of a file sees one moment, and commits go on meanwhile', async (t) => {
  const database = new SqliteDatabase(join(temporaryFolder(t), 'file.db'), systemClock);
  t.teardown(() => database.close());
  await database.transaction(async (session) => {
    await session.all('create table numbers (number integer)');
    // More than one message has.
    await session.all(
      'with recursive n (i) as (select 0 union all select i + 1 from n where i < 1200) insert into numbers select i from n',
    );
  });
  const all = 'select number from numbers order by number';
  await database.snapshot(async (session) => {
    const before = await session.all(all);
    t.same([before.length, before.at(-1)?.['number']], [1201, 1200n]);
    await database.transaction((other) => other.all('insert into numbers values (1201)'));
    t.same(await session.all(all), before);
    await t.rejects(session.all('select missing'), { message: /no such column: missing/ });
    await t.rejects(session.all('delete from numbers'), { message: /readonly database/ });
    t.same(
      await session.find(
        {
          sqlite: 'select count(*) as count from numbers where number in (select value from json_each(?1))',
          postgres: '',
        },
        ['7', '9000'],
      ),
      [{ count: 1n }],
    );
  }, 'report');
  t.equal(
    (await database.snapshot((session) => session.all(all), 'report')).length,
    1202,
    'the next one sees the commit',
  );
});

t.test('usage of many rows is summed in a thread, of few rows in none', async (t) => {
  const { ledger } = await openStore(t, 'sqlite');
  let threads = 0;
  const count = (): void => void threads++;
  process.on('worker', count);
  t.teardown(() => process.off('worker', count));
  const charge = (account: string, model: string): Charge => {
    return { id: `${account} ${model}`, account, amount: 2n, usage: { ...USAGE, model }, dateMs: START_MS };
  };
  const models = Array.from({ length: 1001 }, (_, at) => `m${String(at).padStart(4, '0')}`);
  await ledger.charge([charge('few', 'm'), ...models.map((model) => charge('many', model))]);
  const spending = (account: string) =>
    ledger.budgets.spending({ accounts: [account], models: [], from: '2026-03-31', to: null });
  t.match(await ledger.usage({ account: 'few', by: ['model'] }), [{ model: 'm', requests: 1n, amount: 2n }]);
  t.match(await ledger.usage({ model: 'm0007', by: ['account', 'day'] }), [{ account: 'many', amount: 2n }]);
  t.same(await spending('few'), [{ account: 'few', key: 'key-1', model: 'm', amount: 2n }]);
  t.equal(threads, 0);
  t.match(await ledger.usage({ by: [] }), [{ requests: 1002n, inputTokens: 7014n, amount: 2004n }]);
  t.same(
    (await ledger.usage({ account: 'many', by: ['model'] })).map(({ model }) => model),
    models,
  );
  t.match(await ledger.usage({ by: ['model'], after: ['m0998'], limit: 2 }), [{ model: 'm0999' }, { model: 'm1000' }]);
  t.same(
    (await spending('many')).map(({ amount, model }) => [model, amount]),
    models.map((model) => [model, 2n]),
  );
  t.equal(threads, 1);
});

t.test('two reports of a file leave a thread for what the gateway reads itself', async (t) => {
  const clock = createManualClock();
  const database = new SqliteDatabase(join(temporaryFolder(t), 'file.db'), clock);
  t.teardown(() => database.close());
  const gate = Promise.withResolvers<void>();
  const hold = (): Promise<void> => database.snapshot(() => gate.promise, 'report');
  const held = [hold(), hold()];
  const refused = new LedgerError(
    'queue-full',
    'A report waited 60000 ms for other reads of the ledger to end: try again later',
  );
  const late = t.rejects(hold(), refused);
  t.same(await database.snapshot((session) => session.all('select 1 as one'), 'scan'), [{ one: 1n }]);
  clock.advance(60_000);
  await late;
  gate.resolve();
  await Promise.all(held);
});

t.test('a file that closes fails the reports under way', async (t) => {
  const folder = temporaryFolder(t);
  const database = new SqliteDatabase(join(folder, 'file.db'), systemClock);
  const begun = Promise.withResolvers<void>();
  const report = database.snapshot(async (session) => {
    begun.resolve();
    for (;;) await session.all('select 1');
  }, 'report');
  const failed = t.rejects(report, { message: 'The ledger is closed' });
  await begun.promise;
  await database.close();
  await failed;
  await t.rejects(
    database.snapshot((session) => session.all('select 1'), 'report'),
    { message: 'The ledger is closed' },
  );
  t.same(readdirSync(folder), ['file.db'], 'all commits are in the file');
});

t.test('a store in memory is not backed up', async (t) => {
  const database = new SqliteDatabase(':memory:', systemClock);
  t.teardown(() => database.close());
  await t.rejects(database.backUp(join(temporaryFolder(t), 'copy.db')), { message: /in memory/ });
});
