// The transport on real sockets: each way an answer can go wrong, in the words of the search room.
import { createServer as createHttp, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcp, type Server, type Socket } from 'node:net';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import t from 'tap';
import { createTransport, type Transport, TransportError } from '../../src/search/transport.ts';

interface Test {
  teardown(run: () => unknown): unknown;
}

async function listen(t: Test, server: Server): Promise<string> {
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => new Promise((resolve) => server.close(resolve)));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

async function http(t: Test, handler: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createHttp(handler);
  t.teardown(() => server.closeAllConnections());
  return listen(t, server);
}

async function tcp(t: Test, onRequest: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createTcp((socket) => {
    sockets.add(socket.on('error', () => undefined));
    socket.once('data', () => onRequest(socket));
  });
  t.teardown(() => sockets.forEach((socket) => socket.destroy()));
  return listen(t, server);
}

function transport(t: Test): Transport {
  const made = createTransport();
  t.teardown(() => made.close());
  return made;
}

const never = new AbortController().signal;

async function failure(t: Test, url: string): Promise<string> {
  const request = { method: 'GET', url, headers: {} } as const;
  return transport(t)
    .send(request, never)
    .then(
      ({ status }) => `HTTP ${status}`,
      (error: unknown) => (error instanceof TransportError ? `${error.trouble}: ${error.reason}` : String(error)),
    );
}

t.test('hands back the answer whatever its status, and follows nothing', async (t) => {
  let secrets = 0;
  const secret = await http(t, (_request, response) => {
    secrets++;
    response.end('secret');
  });
  for (const status of [200, 204, 404, 429, 500, 503])
    t.equal(
      await failure(t, await http(t, (_request, response) => response.writeHead(status).end())),
      `HTTP ${status}`,
    );
  for (const status of [301, 302, 303, 307, 308]) {
    const url = await http(t, (_request, response) => response.writeHead(status, { location: secret }).end());
    t.equal(await failure(t, url), `HTTP ${status}`);
  }
  t.equal(secrets, 0);
});

t.test('sends a body and reads headers and body', async (t) => {
  const url = await http(t, (request, response) => {
    request.on('data', (piece: Buffer) => response.write(piece)).on('end', () => response.end());
    response.writeHead(200, { 'x-one': '1', 'x-key': request.headers['x-key'] });
  });
  const request = { method: 'POST', url, headers: { 'x-key': 'k' }, body: 'hello' } as const;
  const { status, headers, body } = await transport(t).send(request, never);
  t.match({ status, headers, body: body.toString() }, { status: 200, headers: { 'x-key': 'k' }, body: 'hello' });
});

t.test('connections that fail', async (t) => {
  t.equal(await failure(t, await tcp(t, (socket) => socket.resetAndDestroy())), 'connection: connection failed');
  t.equal(await failure(t, await tcp(t, (socket) => socket.end())), 'connection: connection failed');
  const half = await tcp(t, (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf'));
  t.equal(await failure(t, half), 'connection: connection failed');
  const closed = createTcp();
  await new Promise<void>((resolve) => void closed.listen(0, '127.0.0.1', resolve));
  const { port } = closed.address() as AddressInfo;
  await new Promise((resolve) => closed.close(resolve));
  t.equal(await failure(t, `http://127.0.0.1:${port}/`), 'connection: connection failed');
  t.equal(await failure(t, 'http://no-such-host.invalid/'), 'connection: connection failed');
  t.equal(await failure(t, 'no url'), 'connection: connection failed');
});

t.test('answers nobody can read', async (t) => {
  t.equal(await failure(t, await tcp(t, (socket) => socket.end('SSH-2.0-OpenSSH\r\n'))), 'invalid: invalid response');
  const huge = `HTTP/1.1 200 OK\r\nx: ${'x'.repeat(100_000)}\r\n\r\n`;
  t.equal(await failure(t, await tcp(t, (socket) => socket.end(huge))), 'invalid: invalid response');
  const encoded = (encoding: string, body: Buffer): Promise<string> =>
    http(t, (_request, response) => response.writeHead(200, { 'content-encoding': encoding }).end(body));
  for (const encoding of ['gzip', 'deflate', 'br'])
    t.equal(await failure(t, await encoded(encoding, Buffer.from('no such thing'))), 'invalid: invalid response');
  const zeros = Buffer.alloc(20_000_000);
  t.equal(await failure(t, await encoded('gzip', gzipSync(zeros))), 'invalid: invalid response');
  t.equal(await failure(t, await encoded('br', brotliCompressSync(zeros))), 'invalid: invalid response');
  t.equal(await failure(t, await encoded('gzip', gzipSync('well').subarray(0, 15))), 'invalid: invalid response');
  t.equal(await failure(t, await encoded('gzip', gzipSync('well'))), 'HTTP 200');
});

t.test('50 MB are not read to the end', async (t) => {
  let sent = 0;
  const closed = Promise.withResolvers<void>();
  const url = await http(t, (_request, response) => {
    const piece = Buffer.alloc(65_536);
    const write = (): void => {
      while (sent < 50_000_000 && !response.destroyed) {
        sent += piece.length;
        if (!response.write(piece)) return void response.once('drain', write);
      }
      response.end();
    };
    response.on('close', () => closed.resolve());
    write();
  });
  t.equal(await failure(t, url), 'invalid: invalid response');
  await closed.promise;
  t.ok(sent < 30_000_000, `${sent} bytes`);
});

for (const [name, start] of [
  ['hangs', () => undefined],
  ['answers a head and hangs', (socket: Socket) => void socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n')],
  ['stops in its body', (socket: Socket) => void socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab')],
] as const)
  t.test(`leaving an engine that ${name} rejects with the reason and closes the socket`, async (t) => {
    const arrived = Promise.withResolvers<Socket>();
    const url = await tcp(t, (socket) => {
      start(socket);
      arrived.resolve(socket);
    });
    const controller = new AbortController();
    const sent = transport(t).send({ method: 'GET', url, headers: {} }, controller.signal);
    const socket = await arrived.promise;
    const closed = new Promise((resolve) => socket.once('close', resolve));
    const reason = new Error('enough');
    controller.abort(reason);
    t.equal(await sent.catch((error: unknown) => error), reason);
    await closed;
  });

t.test('a signal that has fired sends nothing', async (t) => {
  let requests = 0;
  const url = await http(t, (_request, response) => {
    requests++;
    response.end();
  });
  const reason = new Error('gone');
  const sent = transport(t).send({ method: 'GET', url, headers: {} }, AbortSignal.abort(reason));
  t.equal(await sent.catch((error: unknown) => error), reason);
  t.equal(requests, 0);
});
