// Reasons of failures, as real sockets, names and certificates produce them.

import { once } from 'node:events';
import { createServer as createSecureServer } from 'node:https';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { BufferedClient } from '../../src/net/buffered-client.ts';
import { DispatchError } from '../../src/net/client.ts';
import { NameCache } from '../../src/net/name-cache.ts';
import { attemptReason, errorReason, type FailedAttempt, PLAIN_REASONS } from '../../src/routing/failure-reason.ts';
import { probe } from '../../src/routing/probe.ts';
import { readDocument } from '../docs/markdown.ts';
import { CERTIFICATE, EXPIRED_CERTIFICATE, EXPIRED_KEY, KEY } from '../support/certificate.ts';
import { serving } from '../support/serving.ts';
import { freePort } from '../support/free-port.ts';

const TIMEOUT_MS = 5000;

async function portOf(t: Pick<Test, 'teardown'>, server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket.on('error', () => undefined)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** The port of a server that does this with every connection once a request has come. */
function scripted(t: Pick<Test, 'teardown'>, run: (socket: Socket) => void): Promise<number> {
  return portOf(
    t,
    createServer((socket) => socket.once('data', () => run(socket))),
  );
}

/** Why a probe of this URL is no success. */
async function reasonOf(
  t: Pick<Test, 'teardown'>,
  url: string,
  settings: { ca?: string; names?: NameCache; timeoutMs?: number } = {},
): Promise<string | null> {
  const { timeoutMs = TIMEOUT_MS, ...rest } = settings;
  const client = new BufferedClient(1, rest);
  t.teardown(() => client.close());
  return probe(client, url, timeoutMs).then(
    ({ reason }) => reason,
    (error: unknown) => errorReason(error, timeoutMs),
  );
}

t.test('a connection that this process cannot open is told from one that the settings do not allow', (t) => {
  const none = 'no connection free';
  t.equal(errorReason(new DispatchError(none, { code: 'EMFILE' }), TIMEOUT_MS), 'no file descriptor left');
  t.equal(errorReason(new DispatchError(none), TIMEOUT_MS), 'no connection free (limits.connectionsPerServer)');
  t.end();
});

t.test('a status is named with its path, and a query is never repeated', async (t) => {
  let status = 200;
  const url = await serving(t, (_, res) => res.writeHead(status).end(status === 503 ? 'Loading model' : ''));
  const at = (path: string): Promise<string | null> => reasonOf(t, url + path);
  t.equal(await at('/health'), null);
  const expected: [number, string][] = [
    [204, ''],
    [202, '202 at /health: the model is not loaded'],
    [301, '301 at /health'],
    [401, '401 at /health'],
    [404, '404 at /health'],
    [500, '500 at /health'],
    [503, '503 at /health: loading its model'],
  ];
  for (const [each, reason] of expected) {
    status = each;
    t.equal((await at('/health?token=secret')) ?? '', reason);
  }
});

t.test('a port where nothing listens, silence, and connections that end', async (t) => {
  t.equal(await reasonOf(t, `http://127.0.0.1:${await freePort()}/health`), 'connection refused');
  const silent = await scripted(t, () => undefined);
  t.equal(await reasonOf(t, `http://127.0.0.1:${silent}/`, { timeoutMs: 50 }), 'timeout after 50 ms');
  const reset = await scripted(t, (socket) => socket.resetAndDestroy());
  t.equal(await reasonOf(t, `http://127.0.0.1:${reset}/`), 'connection closed without an answer');
  const cut = await scripted(t, (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx'));
  t.equal(await reasonOf(t, `http://127.0.0.1:${cut}/`), 'answer broke off');
  const ssh = await scripted(t, (socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n'));
  t.equal(await reasonOf(t, `http://127.0.0.1:${ssh}/`), 'answer is not HTTP');
  const long = await scripted(t, (socket) =>
    socket.end(`HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n${'x'.repeat(100_000)}`),
  );
  t.equal(await reasonOf(t, `http://127.0.0.1:${long}/`), 'answer is too long');
});

t.test('names that do not exist, and name servers that fail', async (t) => {
  for (const [code, reason] of [
    ['ENOTFOUND', 'name not found'],
    ['EAI_AGAIN', 'name lookup failed'],
  ] as const) {
    const names = new NameCache({ lookup: () => Promise.reject(Object.assign(new Error(code), { code })) });
    t.equal(await reasonOf(t, 'http://nowhere.test/health', { names }), reason);
  }
});

t.test('certificates', async (t) => {
  const good = await portOf(
    t,
    createSecureServer({ cert: CERTIFICATE, key: KEY }, (_, res) => res.end()),
  );
  t.equal(await reasonOf(t, `https://127.0.0.1:${good}/`, { ca: CERTIFICATE }), null);
  t.equal(await reasonOf(t, `https://127.0.0.1:${good}/`), 'TLS certificate is self-signed');
  const names = new NameCache({ lookup: () => Promise.resolve(['127.0.0.1']) });
  const other = await reasonOf(t, `https://other.test:${good}/`, { ca: CERTIFICATE, names });
  t.equal(other, 'TLS certificate is for another name');
  const expired = await portOf(t, createSecureServer({ cert: EXPIRED_CERTIFICATE, key: EXPIRED_KEY }));
  t.equal(await reasonOf(t, `https://127.0.0.1:${expired}/`, { ca: EXPIRED_CERTIFICATE }), 'TLS certificate expired');
});

t.test('the wrong scheme', async (t) => {
  const plain = new URL(await serving(t, (_, res) => res.end())).port;
  t.equal(await reasonOf(t, `https://127.0.0.1:${plain}/`), 'no TLS at this port');
  const secure = await portOf(t, createSecureServer({ cert: CERTIFICATE, key: KEY }));
  t.match(
    await reasonOf(t, `http://127.0.0.1:${secure}/`),
    /^(?:connection closed without an answer|answer is not HTTP)$/,
  );
});

const ATTEMPT: FailedAttempt = {
  failure: null,
  path: '/v1/chat/completions?key=secret',
  status: 0,
  cause: undefined,
  timeouts: { connectMs: 3000, headersMs: 600_000, firstByteMs: null, idleMs: 60_000 },
};

t.test('attempts of requests', async (t) => {
  const expected: [Partial<FailedAttempt>, string | null][] = [
    [{ failure: 'connect', cause: { code: 'ECONNREFUSED' } }, 'connection refused'],
    [{ failure: 'connect', cause: { code: 'EPROTO' } }, 'TLS handshake failed (EPROTO)'],
    [{ failure: 'connect', cause: { code: 'EODD' } }, 'connection failed (EODD)'],
    [{ failure: 'connect' }, 'connection failed'],
    [{ failure: 'connect timeout' }, 'no connection: timeout after 3 s'],
    [{ failure: 'headers timeout' }, 'no answer: timeout after 10 min'],
    [{ failure: 'first byte timeout' }, 'no first byte: timeout after 10 min'],
    [{ failure: 'idle timeout' }, 'silence in an answer: timeout after 60 s'],
    [{ failure: 'reset', cause: { code: 'ECONNRESET' } }, 'connection closed without an answer'],
    [{ failure: 'truncated' }, 'answer broke off'],
    [{ failure: 'unreachable' }, 'no answer to probes any more'],
    [{ failure: 'status 500', status: 500 }, '500 at /v1/chat/completions'],
    [{ failure: 'busy', status: 429 }, '429 at /v1/chat/completions: the server is busy'],
    [{ failure: 'credentials', status: 401 }, '401 at /v1/chat/completions: the server refuses the key'],
    [{ failure: 'model unknown', status: 404 }, '404 at /v1/chat/completions: the server does not know the model'],
    [{ failure: 'dialect unknown', status: 404 }, '404 at /v1/chat/completions: the server does not know the path'],
    [{ failure: 'not an answer', status: 200 }, 'not an answer of this API'],
    [{ status: 404 }, '404 at /v1/chat/completions'],
    [{ status: 422 }, null],
    [{ failure: 'client gone' }, null],
    [{ failure: 'hedged' }, null],
    [{ failure: 'context length', status: 400 }, null],
    [{ status: 401, path: `/${'a'.repeat(200)}` }, `401 at /${'a'.repeat(99)}…`],
    [{ status: 401, path: '/\u001b[2J' }, '401 at /?[2J'],
  ];
  for (const [attempt, reason] of expected) t.equal(attemptReason({ ...ATTEMPT, ...attempt }), reason);
});

t.test('docs/operations.md explains every reason', async (t) => {
  const [, section = ''] = readDocument('docs/operations.md').split('## Why a server is down');
  for (const reason of [...PLAIN_REASONS, 'drained', 'ejected or recovering', 'answer is too long'])
    t.ok(section.includes(reason), reason);
});
