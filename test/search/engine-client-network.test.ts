// An engine client on real sockets: each way an answer can go wrong, in the words that clients of a search read.
import { createServer as createHttp, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcp, type Server, type Socket } from 'node:net';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import t from 'tap';
import { BufferedClient } from '../../src/net/buffered-client.ts';
import { EngineError, type EngineResponse, type HttpEngine } from '../../src/search/engine.ts';
import { createEngineMemory, EngineBoard } from '../../src/search/engine-board.ts';
import { EngineClient } from '../../src/search/engine-client.ts';
import { createManualClock } from '../../src/actor/testkit.ts';
import { fakeEngine, specOf, startSearch, type StartedSearch } from '../support/search.ts';
import { freePort } from '../support/free-port.ts';

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

/** Begins a search of an engine at `url`; `reported` resolves with the reason. */
function start(t: Test, url: string, about: Partial<HttpEngine> = {}): StartedSearch & { reported: Promise<string> } {
  const transport = new BufferedClient(4);
  t.teardown(() => transport.close());
  const engine = fakeEngine('x', {
    request: () => ({ method: 'GET', url, headers: {} }),
    parse({ status }) {
      throw new EngineError('http', { status });
    },
    ...about,
  });
  const reported = Promise.withResolvers<string>();
  const client = new EngineClient(specOf('x', { workers: [engine] }), {
    ...{ transport, clock: createManualClock(), random: () => 0, epochMs: () => 0 },
    board: new EngineBoard(createEngineMemory(1)),
    onThrown: () => undefined,
    onOutcome: (_engine, reason) => reported.resolve(reason),
  });
  return { ...startSearch(client, 10_000), reported: reported.promise };
}

const reason = (t: Test, url: string): Promise<string> => start(t, url).reported;

t.test('passes on responses of any status, and follows no redirect', async (t) => {
  let secrets = 0;
  const secret = await http(t, (_request, response) => {
    secrets++;
    response.end('secret');
  });
  for (const status of [200, 204, 404, 429, 500, 503])
    t.equal(
      await reason(t, await http(t, (_request, response) => response.writeHead(status).end())),
      `engine returned HTTP ${status}`,
    );
  for (const status of [301, 302, 303, 307, 308]) {
    const url = await http(t, (_request, response) => response.writeHead(status, { location: secret }).end());
    t.equal(await reason(t, url), `engine returned HTTP ${status}`);
  }
  t.equal(secrets, 0);
});

t.test('sends a body and reads headers and body', async (t) => {
  const url = await http(t, (request, response) => {
    request.on('data', (piece: Buffer) => response.write(piece)).on('end', () => response.end());
    response.writeHead(200, { 'x-one': '1', 'x-key': request.headers['x-key'] });
  });
  const answers: EngineResponse[] = [];
  const search = start(t, url, {
    request: () => ({ method: 'POST', url, headers: { 'x-key': 'k' }, body: 'hello' }),
    parse(response) {
      answers.push(response);
      return { hits: [] };
    },
  });
  t.equal(await search.reported, 'ok');
  const [{ status, headers, body } = { status: 0, headers: {}, body: '' }] = answers;
  t.match({ status, headers, body: body.toString() }, { status: 200, headers: { 'x-key': 'k' }, body: 'hello' });
});

t.test('reports connections that fail', async (t) => {
  t.equal(await reason(t, await tcp(t, (socket) => socket.resetAndDestroy())), 'connection failed');
  t.equal(await reason(t, await tcp(t, (socket) => socket.end())), 'connection failed');
  const half = await tcp(t, (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf'));
  t.equal(await reason(t, half), 'connection failed');
  t.equal(await reason(t, `http://127.0.0.1:${await freePort()}/`), 'connection failed');
  t.equal(await reason(t, 'http://no-such-host.invalid/'), 'connection failed');
  t.equal(await reason(t, 'no url'), 'connection failed');
});

t.test('reports responses that cannot be read', async (t) => {
  t.equal(await reason(t, await tcp(t, (socket) => socket.end('SSH-2.0-OpenSSH\r\n'))), 'invalid response');
  const huge = `HTTP/1.1 200 OK\r\nx: ${'x'.repeat(100_000)}\r\n\r\n`;
  t.equal(await reason(t, await tcp(t, (socket) => socket.end(huge))), 'invalid response');
  const encoded = (encoding: string, body: Buffer): Promise<string> =>
    http(t, (_request, response) => response.writeHead(200, { 'content-encoding': encoding }).end(body));
  for (const encoding of ['gzip', 'deflate', 'br'])
    t.equal(await reason(t, await encoded(encoding, Buffer.from('no such thing'))), 'invalid response');
  const zeros = Buffer.alloc(20_000_000);
  t.equal(await reason(t, await encoded('gzip', gzipSync(zeros))), 'invalid response');
  t.equal(await reason(t, await encoded('br', brotliCompressSync(zeros))), 'invalid response');
  t.equal(await reason(t, await encoded('gzip', gzipSync('well').subarray(0, 15))), 'invalid response');
  t.equal(await reason(t, await encoded('gzip', gzipSync('well'))), 'engine returned HTTP 200');
});

t.test('stops reading a response of 50 MB', async (t) => {
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
  t.equal(await reason(t, url), 'invalid response');
  await closed.promise;
  t.ok(sent < 30_000_000, `${sent} bytes`);
});

for (const [name, begin] of [
  ['hangs', () => undefined],
  ['answers a head and hangs', (socket: Socket) => void socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n')],
  ['stops in its body', (socket: Socket) => void socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab')],
] as const)
  t.test(`cancelling the search of an engine that ${name} closes the socket`, async (t) => {
    const arrived = Promise.withResolvers<Socket>();
    const url = await tcp(t, (socket) => {
      begin(socket);
      arrived.resolve(socket);
    });
    const { call, reported } = start(t, url);
    const socket = await arrived.promise;
    const closed = new Promise((resolve) => socket.once('close', resolve));
    call.cancel('timeout');
    t.equal(await reported, 'timeout');
    await closed;
  });

t.test('a search cancelled between its pages sends no further request', async (t) => {
  let requests = 0;
  const url = await http(t, (_request, response) => {
    requests++;
    response.end();
  });
  const search: StartedSearch & { reported: Promise<string> } = start(t, url, {
    parse() {
      search.call.cancel('cancelled');
      return { hits: [], next: 2 };
    },
  });
  t.equal(await search.reported, 'cancelled');
  t.equal(requests, 1, 'the first page only');
});
