import t from 'tap';
import pg from 'pg';
import { systemClock } from '../../../src/actor/clock.ts';
import { noteChanges } from '../../../src/billing/ledger/changes.ts';
import { PostgresDatabase } from '../../../src/billing/ledger/postgres.ts';
import { SqliteDatabase } from '../../../src/billing/ledger/sqlite.ts';
import type { Change, Ledger } from '../../../src/billing/ledger/ledger.ts';
import { openStore, STORES } from './stores.ts';

/** Changes as they come, and a promise of the next. */
async function listenTo(ledger: Ledger) {
  const seen: Change[] = [];
  let wake: () => void = () => undefined;
  const stop = await ledger.watch((change) => {
    seen.push(change);
    wake();
  });
  return {
    seen,
    stop,
    upTo: async (count: number): Promise<Change[]> => {
      while (seen.length < count) await new Promise<void>((resolve) => (wake = resolve));
      return seen;
    },
  };
}

const KEY = { id: 'k', hash: 'h', prefix: 'hr', account: 'a' };

for (const name of STORES) {
  t.test(`${name}: watchers are told of keys and credit, in order, not of earlier changes`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.createKey({ ...KEY, id: 'early', hash: 'early' });
    const { upTo, seen, stop } = await listenTo(ledger);
    await ledger.createKey(KEY);
    await upTo(1);
    await ledger.grant({ id: '1', account: 'a', amount: 5n });
    await upTo(2);
    await ledger.disableKey('k');
    t.same(await upTo(3), [
      { kind: 'key', hash: 'h' },
      { kind: 'account', account: 'a' },
      { kind: 'key', hash: 'h' },
    ]);
    stop();
    await ledger.disableKey('early');
    t.equal(seen.length, 3, 'a stopped watcher is not called');
  });

  t.test(`${name}: watchers are told of credit that is wanted`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'an account' });
    const { upTo } = await listenTo(ledger);
    await ledger.want('an account', 'gateway-2');
    t.same(await upTo(1), [{ kind: 'wanted', account: 'an account', by: 'gateway-2' }]);
  });

  t.test(`${name}: a key disabled by another process is noticed within two seconds`, async (t) => {
    const { ledger, again } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.createKey(KEY);
    const { upTo } = await listenTo(await again());
    const beganMs = performance.now();
    await ledger.disableKey('k');
    t.same(await upTo(1), [{ kind: 'key', hash: 'h' }]);
    const tookMs = performance.now() - beganMs;
    t.ok(tookMs < 2000, `${tookMs.toFixed(0)} ms`);
  });

  t.test(`${name}: a watcher too far behind is told to invalidate everything`, async (t) => {
    const { ledger, url } = await openStore(t, name);
    const { upTo } = await listenTo(ledger);
    const database =
      name === 'sqlite'
        ? new SqliteDatabase(url.slice('sqlite:'.length), systemClock)
        : await PostgresDatabase.open(url, systemClock);
    const many = Array.from({ length: 10_001 }, (_, at) => ({ kind: 'key' as const, hash: `${at}` }));
    await database.transaction((session) => noteChanges(session, many));
    await database.close();
    t.same(await upTo(1), [{ kind: 'all' }]);
  });
}

t.test('postgres: a lost listening connection is opened again, and changes made meanwhile are noticed', async (t) => {
  const { ledger, again, url } = await openStore(t, 'postgres');
  await ledger.createAccount({ id: 'a' });
  await ledger.createKey(KEY);
  const { upTo } = await listenTo(await again());
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  await admin.query(
    "select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen%' and datname = current_database()",
  );
  await admin.end();
  await ledger.disableKey('k');
  t.same(await upTo(1), [{ kind: 'key', hash: 'h' }]);
});
