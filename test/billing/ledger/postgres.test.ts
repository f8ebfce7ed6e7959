// Failures that only PostgreSQL has: lost connections and servers that do not answer.

import { once } from 'node:events';
import { type AddressInfo, connect as connectSocket, createServer, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import pg from 'pg';
import { createManualClock, systemClock } from '../../../src/actor/clock.ts';
import { openLedger } from '../../../src/billing/ledger/open-ledger.ts';
import { PostgresDatabase } from '../../../src/billing/ledger/postgres.ts';
import type { Ledger } from '../../../src/billing/ledger/ledger.ts';
import { startPgBouncer, startPostgres } from '../../support/postgres.ts';
import { charge, debit, openStore, START_MS, USAGE } from './stores.ts';

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
  t.same(await Promise.all(grants), [
    { repeated: false, balance: 10n },
    { repeated: false, balance: 15n },
  ]);
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

/** A message of PostgreSQL: its type, its length and its content. */
function message(type: string, content: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(4 + content.byteLength, 1);
  return Buffer.concat([head, content]);
}

t.test('a server that shuts down as soon as it has accepted a connection costs that connection only', async (t) => {
  const accepted = message('R', Buffer.alloc(4));
  const ready = message('Z', Buffer.from('I'));
  const ended = message('E', Buffer.from('SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0'));
  // In one piece, as whoever was busy meanwhile reads it.
  const server = createServer((socket) => {
    socket.once('data', () => socket.end(Buffer.concat([accepted, ready, ended])));
    socket.on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const database = await PostgresDatabase.open(`postgres://u@127.0.0.1:${port}/d`, systemClock);
  t.teardown(() => database.close());
  await t.rejects(database.snapshot((session) => session.clockMs()));
});

async function connect(t: Pick<Test, 'teardown'>, url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  t.teardown(() => client.end());
  return client;
}

t.test('a locked account delays its own charges and leases only, and in their order', async (t) => {
  const { again, ledger, url } = await openStore(t, 'postgres');
  for (const id of ['a', 'b', 'member']) {
    await ledger.createAccount({ id });
    await ledger.grant({ id, account: id, amount: 100n });
  }
  await ledger.configureAccount('member', { organisation: 'a' });
  const lease = { amount: 10n, holder: 'x', ttlMs: 60_000 };
  await ledger.lease({ ...lease, id: 'l', account: 'a' });
  const other = await connect(t, url);
  await other.query("begin; select * from accounts where id = 'a' for update");
  const waiting: string[] = [];
  const wait = (name: string, work: Promise<unknown>): Promise<unknown> => work.then(() => waiting.push(name));
  const blocked = [
    wait(
      'charge',
      charge(ledger, 'l', 'c1', 4n, USAGE).then(({ late }) => t.notOk(late, 'charged before its lease was released')),
    ),
    wait('member', debit(ledger, 'member', 'c2', 1n, USAGE)),
    wait('release', ledger.release('l')),
  ];
  for (const name of ['c3', 'c4', 'c5']) await debit(ledger, 'b', name, 1n, USAGE);
  t.match(await ledger.lease({ ...lease, id: 'm', account: 'b' }), { kind: 'held' });
  const second = await again();
  t.match(await second.extend('m', 1, 5n), { kind: 'held', amount: 5n }, 'in another process, too');
  t.match(await ledger.renew('x', 60_000), [{ id: 'l' }, { id: 'm' }], 'leases of the locked account are renewed');
  t.same(waiting, []);
  await other.query('rollback');
  await Promise.all(blocked);
  t.match(await ledger.account('a'), { balance: 95n, held: 0n });
  t.match(await ledger.account('b'), { balance: 82n, held: 15n });
  t.match(await ledger.audit(), { sound: true, problems: [] });
});

t.test('a lease is renewed or expires, never both', async (t) => {
  const { again, ledger, url } = await openStore(t, 'postgres');
  await ledger.createAccount({ id: 'a' });
  await ledger.grant({ id: 'g', account: 'a', amount: 100n });
  await ledger.lease({ id: 'l', account: 'a', amount: 100n, holder: 'x', ttlMs: 1 });
  const other = await again();
  const blocker = await connect(t, url);
  const waiting = async (count: number): Promise<void> => {
    const sql = 'select 1 from pg_locks where not granted';
    while (((await blocker.query(sql)).rowCount ?? 0) < count) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  // The expiry has read the lease, and cannot write yet.
  await blocker.query('begin; lock table accounts in share mode');
  const expired = other.expire();
  await waiting(1);
  const renewed = ledger.renew('x', 60_000);
  await Promise.race([renewed, waiting(2)]);
  await blocker.query('rollback');
  t.equal(await expired, 1);
  t.same(await renewed, []);
  t.match(await ledger.findHold('l'), { state: 'closed' });
  t.match(await ledger.account('a'), { balance: 100n, held: 0n });
});

t.test('slow reports leave a connection for reads', async (t) => {
  const { ledger, url } = await openStore(t, 'postgres');
  await ledger.createAccount({ id: 'a' });
  const other = await connect(t, url);
  await other.query('begin; lock table usage_daily in access exclusive mode');
  const reports = Array.from({ length: 3 }, () => ledger.usage({ by: ['account'] }));
  const watcher = await connect(t, url);
  const waiting = async (): Promise<number> => {
    const { rows } = await watcher.query('select count(*)::int as count from pg_locks where not granted');
    return (rows[0] as { count: number }).count;
  };
  while ((await waiting()) < 2);
  t.match(await ledger.account('a'), { id: 'a' }, 'a balance is read while they wait');
  t.equal(await waiting(), 2, 'the third report waits for its connection');
  await other.query('commit');
  t.same(await Promise.all(reports), [[], [], []]);
});

t.test('transactions have limits of their own, and no setting outlives them', async (t) => {
  const { url } = await openStore(t, 'postgres');
  const database = await PostgresDatabase.open(url, systemClock);
  t.teardown(() => database.close());
  const names = ['lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout', 'tcp_user_timeout'];
  const sql = `select ${names.map((name) => `current_setting('${name}') as ${name}`).join(', ')}`;
  const tcp_user_timeout = '20000';
  const idle_in_transaction_session_timeout = '10s';
  const idle = { idle_in_transaction_session_timeout, tcp_user_timeout };
  t.match(await database.transaction((session) => session.all(sql)), [
    { lock_timeout: '1s', statement_timeout: '10s', ...idle },
  ]);
  t.match(await database.snapshot((session) => session.all(sql)), [{ statement_timeout: '30s', ...idle }]);
  t.match(await database.snapshot((session) => session.all(sql), 'report'), [{ statement_timeout: '10min', ...idle }]);
  const bare = await connect(t, url);
  t.match((await bare.query(sql)).rows, [{ lock_timeout: '0', statement_timeout: '0' }]);
});

t.test('reads leave connections for commits, and wait for each other as long as for a connection', async (t) => {
  const { url } = await openStore(t, 'postgres');
  const clock = createManualClock();
  const database = await PostgresDatabase.open(url, clock);
  t.teardown(() => database.close());
  const [full, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let [running, most] = [0, 0];
  const read = (): Promise<unknown> =>
    database.snapshot(async (session) => {
      most = Math.max(most, ++running);
      if (running === 3) full.resolve();
      await gate.promise;
      running--;
      return await session.all('select 1');
    });
  const reads = Array.from({ length: 6 }, read);
  await full.promise;
  const commit = (): Promise<unknown> => database.transaction((session) => session.all('select 1'));
  await Promise.all(Array.from({ length: 3 }, commit));
  t.equal(running, 3);
  const late = reads.slice(3).map((each) => t.rejects(each, /read waited 10000 ms/));
  clock.advance(10_000);
  await Promise.all(late);
  const next = read();
  gate.resolve();
  await Promise.all([...reads.slice(0, 3), next]);
  await Promise.all(Array.from({ length: 6 }, read));
  t.equal(most, 3);
});

t.test('a gateway that is silent in the middle of a commit loses its locks', async (t) => {
  const { ledger, url } = await openStore(t, 'postgres');
  await ledger.createAccount({ id: 'a' });
  await ledger.grant({ id: 'g', account: 'a', amount: 10n });
  const silent = await connect(t, url);
  const ended = new Promise((resolve) => silent.on('error', resolve));
  // The setting is that of a commit, shorter so that the test is.
  await silent.query('begin; set local idle_in_transaction_session_timeout to 100');
  await silent.query("select * from accounts where id = 'a' for update");
  await debit(ledger, 'a', 'c', 1n, USAGE);
  t.match(await ended, { code: '25P03' });
  t.match(await ledger.account('a'), { balance: 9n });
});

t.test('changes are told though the server does not answer who wants to be woken for them', async (t) => {
  const { ledger, url } = await openStore(t, 'postgres');
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  let dropped = 0;
  const proxy = createServer((client) => {
    const server = connectSocket(Number(port), hostname);
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.add(from);
      from.on('error', () => to.destroy());
      from.on('close', () => to.destroy());
      from.on('data', (bytes) => {
        if (bytes.includes('listen headrace_changes')) dropped++;
        else to.write(bytes);
      });
    }
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.teardown(() => {
    proxy.close();
    for (const socket of sockets) socket.destroy();
  });
  const through = new URL(url);
  through.host = `127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const watching = await openLedger(through.href, { clock: systemClock, dateMs: () => START_MS });
  t.teardown(() => watching.close());
  const told = Promise.withResolvers<unknown>();
  await watching.watch(told.resolve);
  t.ok(dropped > 0);
  await ledger.createAccount({ id: 'a' });
  await ledger.configureAccount('a', { creditLimit: 5n });
  t.same(await told.promise, { kind: 'account', account: 'a' });
});

t.test('a server that restarts is connected to again, and keeps what was committed', async (t) => {
  const server = await startPostgres();
  const open = (): Promise<Ledger> =>
    openLedger(server.url, { clock: systemClock, dateMs: () => START_MS, lingerMs: 0 });
  const ledger = await open();
  t.teardown(() => ledger.close());
  await ledger.createAccount({ id: 'a' });
  await ledger.grant({ id: 'g', account: 'a', amount: 10n });
  await ledger.lease({ id: 'l', account: 'a', amount: 10n, holder: 'x', ttlMs: 60_000 });
  server.stop();
  t.match(await ledger.charge([{ id: 'c', account: 'a', lease: 'l', amount: 4n, usage: USAGE, dateMs: START_MS }]), [
    { status: 'rejected' },
  ]);
  server.start();
  t.same(await charge(ledger, 'l', 'c', 4n, USAGE), { late: false, repeated: false });
  t.same(await charge(ledger, 'l', 'c', 4n, USAGE), { late: false, repeated: true });
  t.match(await ledger.account('a'), { balance: 0n, held: 6n });
});

t.test('after a failover to a replica behind the leader no revenue is lost, and caches are told', async (t) => {
  const server = await startPostgres();
  const ledger = await openLedger(server.url, { clock: systemClock, dateMs: () => START_MS, lingerMs: 0 });
  t.teardown(() => ledger.close());
  await ledger.createAccount({ id: 'a' });
  await ledger.grant({ id: 'g', account: 'a', amount: 100n });
  await charge(ledger, 'none', 'c0', 1n, USAGE);
  await ledger.createKey({ id: 'k', hash: 'h', prefix: 'hr', account: 'a' });
  const backup = server.backUp();
  const told: string[] = [];
  const all = new Promise<void>((resolve) => {
    void ledger.watch((change) => {
      told.push(change.kind);
      if (change.kind === 'all') resolve();
    });
  });
  // The replica has none of what follows: leases, names, an account, a month.
  await ledger.disableKey('k');
  await ledger.lease({ id: 'l', account: 'a', amount: 50n, holder: 'x', ttlMs: 60_000 });
  const usage = { ...USAGE, model: 'new', key: 'new' };
  const lost = { id: 'c1', account: 'a', lease: 'l', amount: 5n, usage, dateMs: START_MS };
  const later = { ...lost, id: 'c2', dateMs: START_MS + 86_400_000 };
  const first = { id: 'c3', account: 'late', amount: 7n, usage, dateMs: START_MS };
  await ledger.charge([lost, later, first]);
  server.stop();
  server.start(backup);
  await all;
  t.match(await ledger.account('a'), { balance: 99n, held: 0n }, 'the older state');
  t.same(await ledger.renew('x', 60_000), [], 'a holder is told that it lost its lease');
  const outcomes = await ledger.charge([lost, later, first, { ...lost, id: 'c4', amount: 3n }]);
  t.match(outcomes, [
    { status: 'fulfilled', value: { late: true, repeated: false } },
    { status: 'fulfilled', value: { late: true, repeated: false } },
    { status: 'fulfilled', value: { late: false, repeated: false } },
    { status: 'fulfilled', value: { late: true, repeated: false } },
  ]);
  t.match(await ledger.charge([lost]), [{ status: 'fulfilled', value: { repeated: true } }], 'charged once');
  t.match(await ledger.account('a'), { balance: 86n, held: 0n });
  t.match(await ledger.account('late'), { balance: -7n });
  t.match(await ledger.findKey('h'), { disabledMs: null }, 'an act on a key that the replica missed is to be repeated');
  t.match(await ledger.audit(), { sound: true, problems: [] });
});

t.test('all of it works through PgBouncer in transaction mode', async (t) => {
  const { ledger: direct, url } = await openStore(t, 'postgres');
  const bouncer = await startPgBouncer(url);
  const ledgers = await Promise.all(
    [1, 2, 3].map(() => openLedger(bouncer.url, { clock: systemClock, dateMs: () => START_MS, lingerMs: 0 })),
  );
  const [ledger, second] = ledgers as [Ledger, Ledger, Ledger];
  const changed = new Promise<string>((resolve) => void second.watch((change) => resolve(change.kind)));
  await ledger.createAccount({ id: 'a' });
  await ledger.createKey({ id: 'k', hash: 'h', prefix: 'hr', account: 'a' });
  t.equal(await changed, 'key', 'polled, because a pooler in this mode passes no notifications on');
  await ledger.grant({ id: 'g', account: 'a', amount: 1000n });
  await ledger.lease({ id: 'l', account: 'a', amount: 500n, holder: 'x', ttlMs: 60_000 });
  const charges = Array.from({ length: 200 }, (_, at) =>
    charge(ledgers[at % 3] as Ledger, 'l', `c${at}`, 2n, { ...USAGE, model: `m${at % 5}` }),
  );
  t.equal((await Promise.all(charges)).filter(({ late, repeated }) => !late && !repeated).length, 200);
  t.match(await ledger.renew('x', 60_000), [{ id: 'l', left: 100n }]);
  await ledger.release('l');
  t.match(await direct.account('a'), { balance: 600n, held: 0n });
  t.equal((await second.history({ account: 'a', limit: 1000 })).length, 201);
  t.match(await ledger.audit(), { sound: true, problems: [] });
  await Promise.all(ledgers.map((each) => each.close()));
  await bouncer.stop();
});
