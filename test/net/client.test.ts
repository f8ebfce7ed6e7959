// The connection pool on real sockets.
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

/** Resolves when the socket of a connection has gone. */
function gone(connection: Connection): Promise<void> {
  return new Promise((resolve) => {
    const hear = connection.onDisconnect.bind(connection);
    connection.onDisconnect = () => {
      hear();
      resolve();
    };
  });
}

const SETTINGS = { maxConnections: 3, keepAliveMs: 60_000 };

/** The turn of the event loop that a pool waits for before it hands a connection out again. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test('gives the connection that was used last, and opens another when none is idle', async (t) => {
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

t.test('a fresh connection is not one that was used', async (t) => {
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

t.test('refuses beyond the limit until one is given back or discarded', async (t) => {
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

t.test('a socket is kept between requests, and its age is known', async (t) => {
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
  const closed = gone(connection);
  http.closeAllConnections();
  await closed;
  t.equal(pool.openConnections, 0);
  t.not(pool.take(), connection);
});

t.test('a connection that is reopened under a request counts as new', async (t) => {
  const running = await server(t);
  const pool = new ConnectionPool(running.origin, SETTINGS);
  t.teardown(() => pool.close());
  const connection = pool.take() as Connection;
  await use(connection);
  pool.give(connection);
  await turn();
  t.equal(pool.take(), connection);
  const closed = gone(connection);
  running.server.closeAllConnections();
  await closed;
  t.equal(pool.openConnections, 1, 'in use: not discarded');
  await use(connection);
  t.equal(connection.served, 0);
  t.equal(running.connections, 2);
});

t.test('closing ends idle connections now and the others when they are given back', async (t) => {
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

t.test('discarding cuts the socket at once', async (t) => {
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

t.test('a connection given back is not handed out again within the same turn', async (t) => {
  const pool = new ConnectionPool('http://127.0.0.1:1', { maxConnections: 2, keepAliveMs: 1000 });
  t.teardown(() => pool.close());
  const first = pool.take() as Connection;
  pool.give(first);
  t.not(pool.take(), first);
  t.equal(pool.take(), undefined, 'nor when there is no other');
  await turn();
  t.equal(pool.take(), first);
});
