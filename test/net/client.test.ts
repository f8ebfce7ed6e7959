// ConnectionPool on real sockets: reuse, limits, and closing.
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { type Connection, ConnectionPool } from '../../src/net/client.ts';

interface Running {
  readonly origin: string;
  readonly server: Server;
  connections: number;
}

async function server(
  t: { teardown(run: () => unknown): unknown },
  listener: Parameters<typeof createServer>[1] = (_request, response) => response.end('ok'),
): Promise<Running> {
  const http = createServer({ keepAliveTimeout: 60_000 }, listener);
  const running: Running = { origin: '', server: http, connections: 0 };
  http.on('connection', () => running.connections++);
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  t.teardown(() => {
    http.closeAllConnections();
    http.close();
  });
  return Object.assign(running, { origin: `http://127.0.0.1:${(http.address() as AddressInfo).port}` });
}

/** One request on a connection; resolves at its end. */
function use(connection: Connection): Promise<void> {
  return new Promise((resolve, reject) => {
    connection.client.dispatch(
      { method: 'POST', path: '/', headers: [], body: Buffer.from('x') },
      {
        onRequestStart: () => undefined,
        onResponseStart: () => undefined,
        onResponseData: () => undefined,
        onResponseEnd: () => resolve(),
        onResponseError: (_, error) => reject(error),
      },
    );
  });
}

/** Resolves when the socket of a connection is closed. */
function disconnected(connection: Connection): Promise<void> {
  return new Promise((resolve) => {
    const original = connection.onDisconnect.bind(connection);
    connection.onDisconnect = () => {
      original();
      resolve();
    };
  });
}

const SETTINGS = { maxConnections: 3, keepAliveMs: 60_000 };

/** The turn of the event loop after which a pool reuses a connection. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test('take returns the connection that was used last, and a new one when none is idle', async (t) => {
  const { origin } = await server(t);
  const pool = new ConnectionPool(origin, SETTINGS);
  t.teardown(() => pool.close());
  const [one, two] = [pool.take() as Connection, pool.take() as Connection];
  t.not(one, two);
  t.equal(pool.openConnections, 2);
  pool.give(one);
  pool.give(two);
  await turn();
  t.equal(pool.take(), two);
  t.equal(pool.take(), one);
  t.equal(pool.openConnections, 2);
});

t.test('take(true) returns a new connection', async (t) => {
  const { origin } = await server(t);
  const pool = new ConnectionPool(origin, SETTINGS);
  t.teardown(() => pool.close());
  const used = pool.take() as Connection;
  pool.give(used);
  await turn();
  const fresh = pool.take(true) as Connection;
  t.not(fresh, used);
  t.same([used.served, fresh.served], [1, 0]);
});

t.test('take returns undefined at the limit until a connection is given back or discarded', async (t) => {
  const { origin } = await server(t);
  const pool = new ConnectionPool(origin, SETTINGS);
  t.teardown(() => pool.close());
  const taken = [pool.take(), pool.take(), pool.take()] as Connection[];
  t.equal(pool.take(), undefined);
  pool.give(taken[0] as Connection);
  await turn();
  t.equal(pool.take(), taken[0]);
  pool.discard(taken[1] as Connection);
  t.ok(pool.take());
  t.equal(pool.take(), undefined);
  t.equal(pool.openConnections, 3);
});

t.test('a socket is kept between requests, and its requests are counted', async (t) => {
  const running = await server(t);
  const pool = new ConnectionPool(running.origin, SETTINGS);
  t.teardown(() => pool.close());
  for (let i = 0; i < 5; i++) {
    const connection = pool.take() as Connection;
    await use(connection);
    t.equal(connection.served, i);
    pool.give(connection);
    await turn();
  }
  t.equal(running.connections, 1);
});

t.test('an idle connection that the server closes leaves the pool', async (t) => {
  const { origin, server: http } = await server(t);
  const pool = new ConnectionPool(origin, SETTINGS);
  t.teardown(() => pool.close());
  const connection = pool.take() as Connection;
  await use(connection);
  pool.give(connection);
  await turn();
  const closed = disconnected(connection);
  http.closeAllConnections();
  await closed;
  t.equal(pool.openConnections, 0);
  t.not(pool.take(), connection);
});

t.test('a connection that is reopened while in use counts from 0', async (t) => {
  const running = await server(t);
  const pool = new ConnectionPool(running.origin, SETTINGS);
  t.teardown(() => pool.close());
  const connection = pool.take() as Connection;
  await use(connection);
  pool.give(connection);
  await turn();
  t.equal(pool.take(), connection);
  const closed = disconnected(connection);
  running.server.closeAllConnections();
  await closed;
  t.equal(pool.openConnections, 1, 'in use: not discarded');
  await use(connection);
  t.equal(connection.served, 0);
  t.equal(running.connections, 2);
});

t.test('close closes idle connections at once and the others when they are given back', async (t) => {
  const { origin } = await server(t);
  const pool = new ConnectionPool(origin, SETTINGS);
  const [idle, busy] = [pool.take() as Connection, pool.take() as Connection];
  pool.give(idle);
  await turn();
  pool.close();
  t.equal(pool.openConnections, 1);
  t.equal(idle.client.destroyed, true);
  await use(busy);
  pool.give(busy);
  await turn();
  t.equal(pool.openConnections, 0);
  t.equal(busy.client.destroyed, true);
});

t.test('discard closes the socket at once', async (t) => {
  let closed: Promise<unknown> = Promise.resolve();
  const arrived = Promise.withResolvers<void>();
  const { origin } = await server(t, (request) => {
    closed = once(request.socket, 'close');
    arrived.resolve();
  });
  const pool = new ConnectionPool(origin, SETTINGS);
  const connection = pool.take() as Connection;
  const ended = use(connection);
  await arrived.promise;
  pool.discard(connection);
  await t.rejects(ended);
  await closed;
  t.equal(pool.openConnections, 0);
});

t.test('a connection given back is not reused in the same turn', async (t) => {
  const pool = new ConnectionPool('http://127.0.0.1:1', { maxConnections: 2, keepAliveMs: 1000 });
  t.teardown(() => pool.close());
  const first = pool.take() as Connection;
  pool.give(first);
  t.not(pool.take(), first);
  t.equal(pool.take(), undefined, 'nor when there is no other');
  await turn();
  t.equal(pool.take(), first);
});
