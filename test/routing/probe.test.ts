// Probes on real sockets: what counts as a response.
import { createServer, type Socket } from 'node:net';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { BufferedClient } from '../../src/net/buffered-client.ts';
import { probe } from '../../src/routing/probe.ts';
import { freePort } from '../support/free-port.ts';

interface Tap {
  teardown(run: () => unknown): unknown;
}

/** A server that does this with every connection once a request has come; resolves with its URL. */
async function serve(t: Tap, run: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('data', () => run(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/health`;
}

function open(t: Tap): BufferedClient {
  const client = new BufferedClient(4);
  t.teardown(() => client.close());
  return client;
}

t.test('an answer of any status is a response', async (t) => {
  const client = open(t);
  for (const status of [200, 202, 302, 404, 503]) {
    const url = await serve(t, (socket) => socket.end(`HTTP/1.1 ${status} X\r\ncontent-length: 0\r\n\r\n`));
    t.match(await probe(client, url, 5000), { status, instance: '', isLoading: false });
  }
});

t.test('an answer that cannot be read is a response too', async (t) => {
  const client = open(t);
  const scripts: ((socket: Socket) => void)[] = [
    (socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n'),
    (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort'),
    (socket) => socket.end(),
    (socket) => socket.resetAndDestroy(),
    (socket) => socket.write(`HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n${'x'.repeat(100_000)}`),
  ];
  for (const script of scripts) t.match(await probe(client, await serve(t, script), 5000), { status: 0 });
});

t.test('silence and a refused connection are no response', async (t) => {
  const client = open(t);
  const silent = await serve(t, () => undefined);
  await t.rejects(probe(client, silent, 50));
  const halfway = await serve(t, (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-'));
  await t.rejects(probe(client, halfway, 50));
  await t.rejects(probe(client, `http://127.0.0.1:${await freePort()}/health`, 5000));
});
