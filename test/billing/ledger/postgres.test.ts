// Failures that only PostgreSQL has: lost connections and servers that do not answer.

import t from 'tap';
import pg from 'pg';
import { systemClock } from '../../../src/actor/clock.ts';
import { openLedger } from '../../../src/billing/ledger/ledger.ts';
import { PostgresDatabase } from '../../../src/billing/ledger/postgres.ts';
import { openStore } from './stores.ts';

async function cutAll(url: string): Promise<void> {
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  await admin.query(
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  );
  await admin.end();
}

t.test('connections cut between commits and in the middle of one are made again', async (t) => {
  const { ledger, again, url } = await openStore(t, 'postgres');
  await ledger.createAccount({ id: 'a' });
  await cutAll(url);
  await ledger.grant({ id: '1', account: 'a', amount: 5n });
  let cut = false;
  const other = await again({
    onStep(step) {
      if (step !== 'loaded' || cut) return;
      cut = true;
      throw new Error('Connection terminated unexpectedly');
    },
  });
  const grants = ['2', '3'].map((id) => other.grant({ id, account: 'a', amount: 5n }));
  t.same(await Promise.all(grants), [{ repeated: false }, { repeated: false }]);
  t.match(await ledger.account('a'), { balance: 15n });
});

t.test('errors are blamed on the command, a conflict or the store', async (t) => {
  const { url } = await openStore(t, 'postgres');
  const database = await PostgresDatabase.open(url, systemClock);
  t.teardown(() => database.close());
  const failing = (sql: string): Promise<unknown> =>
    database
      .transaction((session) => session.all(sql))
      .then(
        () => undefined,
        (error: unknown) => error,
      );
  t.equal(database.blame(await failing('select 1 / 0')), 'command');
  t.equal(database.blame(await failing('insert into change_count (value) values (null)')), 'command');
  t.equal(database.blame(await failing("insert into schema_version values (1, 'x', 1)")), 'conflict');
  t.equal(database.blame(await failing('select nonsense')), 'store');
  t.equal(database.blame(await failing('select pg_terminate_backend(pg_backend_pid())')), 'store');
  t.equal(database.blame(new Error('Query read timeout')), 'store');
  t.equal(database.blame(new RangeError('no integer')), 'command');
});

t.test('opening a ledger rejects when there is no server', async (t) => {
  const options = { clock: systemClock, dateMs: () => 1 };
  await t.rejects(openLedger('postgres://127.0.0.1:1/none', options), { code: 'ECONNREFUSED' });
});
