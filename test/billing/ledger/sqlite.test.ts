// What only SQLite has: a file that another process has locked.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { createManualClock, systemClock } from '../../../src/actor/clock.ts';
import { SqliteDatabase } from '../../../src/billing/ledger/sqlite.ts';
import { openStore } from './stores.ts';

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
  t.same(await grant, { repeated: false });
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

t.test('nothing is committed to a file that was moved, deleted or replaced, until it is back', async (t) => {
  const file = join(t.testdir(), 'file.db');
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
    const file = join(t.testdir(), 'file.db');
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

t.test('a backup begins behind an open transaction, and goes on while later ones are open', async (t) => {
  const folder = t.testdir();
  const database = new SqliteDatabase(join(folder, 'file.db'), systemClock);
  t.teardown(() => database.close());
  const opened = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  const before = database.transaction(async (session) => {
    await session.all('create table pages (bytes blob)');
    // More than is copied at once.
    await session.all('insert into pages select zeroblob(12000000)');
    opened.resolve();
    await gate.promise;
  });
  await opened.promise;
  const copied = database.backUp(join(folder, 'copy.db'));
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  t.notOk(existsSync(join(folder, 'copy.db.partial')), 'nothing is copied yet');
  gate.resolve();
  await before;
  for (let commit = 0; commit < 3; commit++) {
    await database.transaction(async (session) => {
      await session.all(`insert into pages values ('${commit}')`);
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    });
  }
  await copied;
  const copy = new SqliteDatabase(join(folder, 'copy.db'), systemClock);
  t.teardown(() => copy.close());
  const [row] = await copy.transaction((session) => session.all('select count(*) as pages from pages'));
  t.ok(Number(row?.['pages']) >= 1);
});
